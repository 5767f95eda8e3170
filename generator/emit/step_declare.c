/* What a step's statements name: dims, settings, weights, buffers, each declared before it is used first. */
#include "emit/step_private.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

Map *words(Arena *arena, const char *text)
{
    Map *map = map_new(arena);
    for (const char *p = text; *p;) {
        if (!isalpha((unsigned char)*p) && *p != '_') {
            p++;
            continue;
        }
        const char *start = p;
        while (isalnum((unsigned char)*p) || *p == '_') p++;
        map_set(map, arena_copy(arena, start, (size_t)(p - start)), map);
    }
    return map;
}

void declare_dims(Buf *out, const Writer *w, const Map *used)
{
    if (w->replays) { /* by then the late ones are known */
        Buf list = {.arena = w->l->arena};
        for (int i = 0; i < w->l->dims.n; i++)
            if (map_has(used, w->l->dims.at[i].c) && !layout_block(w->l, w->l->dims.at[i].symbol))
                buf_printf(&list, "%s%s = d.%s", list.length ? ", " : "", w->l->dims.at[i].c, w->l->dims.at[i].c);
        if (list.length || map_has(used, "d")) buf_put(out, "    const Dims &d = *(const Dims *)s->late;\n");
        if (list.length) buf_printf(out, "    const int64_t %s;\n", buf_text(&list));
        return;
    }
    const Layout *l = w->l;
    Buf plain = {.arena = l->arena}, late = {.arena = l->arena};
    bool blocks = false;
    for (int i = 0; i < l->dims.n; i++) {
        const char *c = l->dims.at[i].c;
        if (!map_has(used, c)) continue;
        if (layout_block(l, l->dims.at[i].symbol)) { /* a loop says how many rows its block has */
            blocks = true;
            continue;
        }
        Buf *list = symbol_facts(l->symbols, l->dims.at[i].symbol).late ? &late : &plain;
        buf_printf(list, "%s%s = d.%s", list->length ? ", " : "", c, c);
    }
    if (plain.length || late.length || blocks) buf_put(out, "    const Dims &d = dims_of(s);\n");
    if (late.length && map_has(used, "late")) buf_put(out, "    Dims *const late = (Dims *)s->late;\n");
    if (plain.length) buf_printf(out, "    const int64_t %s;\n", buf_text(&plain));
    if (late.length) buf_printf(out, "    int64_t %s; /* at most; known once their kernels have run */\n", buf_text(&late));
}

static void declare_buffer(Buf *out, const Layout *l, const Buffer *b, bool moves, const char *index)
{
    Buf line = {.arena = l->arena};
    const char *type = b->in_step ? b->in_step : b->type;
    buf_printf(&line, "    %s *%s%s = buffer<%s>(s, %s);", type, moves ? "" : "const ", b->c, type, index);
    if (*b->shape) {
        const int pad = (int)line.length < COMMENT_COLUMN ? COMMENT_COLUMN - (int)line.length : 1;
        buf_printf(&line, "%*s/* %s */", pad, "", commented(l, b->shape));
    }
    buf_printf(out, "%s\n", buf_text(&line));
}

/* What a step's text may name: an index into the layout's or the program's list of that kind. */
typedef struct {
    enum { NAMES_HYPER, NAMES_HYPERS, NAMES_WEIGHTS, NAMES_STATES, NAMES_BUFFER } kind;
    int index;  /* of HYPER and BUFFER */
    bool moves; /* BUFFER: it lies elsewhere after it was given up */
} Memory;

static void add_memory(const Layout *l, Map *all, const char *c, int kind, int index)
{
    Memory *m = NEW(l->arena, Memory);
    *m = (Memory){.kind = kind, .index = index};
    map_set(all, c, m);
}

Map *memory_of(const Layout *l, const Program *p)
{
    Map *all = map_new(l->arena);
    for (int i = 0; i < l->hypers.n; i++) add_memory(l, all, l->hypers.at[i].c, NAMES_HYPER, i);
    add_memory(l, all, "hypers", NAMES_HYPERS, 0);
    add_memory(l, all, "w", NAMES_WEIGHTS, 0);
    add_memory(l, all, "states", NAMES_STATES, 0);
    for (int i = 0; i < p->buffers.n; i++) add_memory(l, all, p->buffers.at[i].c, NAMES_BUFFER, i);
    for (int k = 0; k < p->points.n; k++) {
        Memory *m = map_get(all, p->buffers.at[p->points.at[k].buffer].c);
        m->moves = true;
    }
    return all;
}

static int by_kind(const void *a, const void *b)
{
    const Memory *x = *(const Memory *const *)a, *y = *(const Memory *const *)b;
    return x->kind != y->kind ? (x->kind > y->kind) - (x->kind < y->kind) : (x->index > y->index) - (x->index < y->index);
}

static void declare_one(Buf *out, const Writer *w, const Memory *m)
{
    const Layout *l = w->l;
    switch (m->kind) {
    case NAMES_HYPER: {
        const char *c = l->hypers.at[m->index].c, *type = dtype_c(l->hypers.at[m->index].value->dtype);
        buf_printf(out, "    const %s %s = (%s)s->hypers[HYPER_%s];\n", type, c, type, upper(l->arena, c));
        return;
    }
    case NAMES_HYPERS: buf_put(out, "    const Hypers hypers = hypers_of(s);\n"); return;
    case NAMES_WEIGHTS: buf_put(out, "    const Weights *const w = weights_of(s);\n"); return;
    case NAMES_STATES: buf_put(out, "    const States *const states = states_of(s);\n"); return;
    case NAMES_BUFFER: {
        const Buffer *b = &w->p->buffers.at[m->index];
        declare_buffer(out, l, b, m->moves && !w->replays, buffer_enum(w, m->index));
        return;
    }
    }
}

void declare_memory(Buf *out, const Writer *w, const Map *used, Where where)
{
    VEC(const Memory *) named = {0};
    for (int i = 0; i < map_count(used); i++) {
        const char *name = map_key(used, i);
        const Memory *m = map_get(w->memory, name);
        if (!m || (where != ALL_AT_ONCE && (m->kind == NAMES_BUFFER) != (where == AT_FIRST_USE))) continue;
        if (where == AT_FIRST_USE && map_has(w->declared, name)) continue;
        if (where == AT_FIRST_USE) map_set(w->declared, name, w->declared);
        vec_push(w->l->arena, &named, m);
    }
    if (named.n) qsort(named.at, (size_t)named.n, sizeof *named.at, by_kind);
    for (int i = 0; i < named.n; i++) declare_one(out, w, named.at[i]);
}

/* Puts the declarations of the buffers that the text from `start` on names first before it. */
void declare_before(Writer *w, size_t start)
{
    const char *text = arena_copy(w->l->arena, w->body.text + start, w->body.length - start);
    w->body.length = start;
    declare_memory(&w->body, w, words(w->l->arena, text), AT_FIRST_USE);
    buf_put(&w->body, text);
}
