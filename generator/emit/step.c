/* Text of model.cu: its head, the kernels, and a function for each program's step. */
#include "emit/step.h"
#include "support/diag.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { COMMENT_COLUMN = 100, LINE_MAX_COLUMNS = 118 };

typedef struct {
    const Layout *l;
    const Program *p;
    const Map *memory; /* C name -> Memory */
    Map *declared;     /* buffers that the text has so far */
    Buf body;          /* of the function, behind its declarations */
    const char *section;
    bool committed, has_commit, checks, checked, replays; /* checks: gradients are found finite before anything is assigned */
    const Guards *guards;                                 /* of all programs */
    bool *known;                                          /* late dims, as the text reads them; by dim */
} Writer;

void comment_put(Buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (p[0] == '*' && p[1] == '/') {
            buf_put(out, "* ");
        } else if (p[0] == '/' && p[1] == '*') {
            buf_put(out, "/ ");
        } else {
            buf_write(out, *p == '\n' ? " " : p, 1);
        }
    }
}

static const char *commented(const Layout *l, const char *text)
{
    Buf out = {.arena = l->arena};
    comment_put(&out, text);
    return buf_text(&out);
}

static void indent(Writer *w, int depth)
{
    buf_printf(&w->body, "%*s", 4 * depth, "");
}

/* ---- sections ---- */
static void section(Writer *w, const Item *item)
{
    const char *now = w->section;
    if (item->kind == ITEM_COMMIT)
        now = "commit: nothing above has changed a weight; nothing below is abandoned";
    else if (item->kind == ITEM_FINITE)
        now = "all gradients are finite, or no weight changes";
    else if (w->committed && w->checks)
        now = w->checked ? "updates" : "backward";
    else if (w->committed)
        now = "backward; each weight is updated as soon as its gradient is complete and its last reader is done";
    else if (!w->has_commit)
        now = "forward";
    else
        now = strcmp(item->role, "loss") == 0 || (w->section && strcmp(w->section, "loss") == 0) ? "loss" : "forward";
    if (w->section && strcmp(now, w->section) == 0) return;
    w->section = now;
    buf_printf(&w->body, "\n    /* ---- %s ---- */\n", now);
}

/* ---- launches ---- */
static const char *argument(Writer *w, const Item *item, const Arg *arg)
{
    const Layout *l = w->l;
    switch (arg->kind) {
    case ARG_VALUE: return program_place(w->p, arg->value)->pointer;
    case ARG_EXPR: return expr_c(l, arg->expr, "");
    case ARG_HYPER: return l->hypers.at[layout_find(l->hyper_of, arg->value->name)].c;
    case ARG_SEED: return "s->seed";
    case ARG_STEP: return "s->number";
    case ARG_LATER: return arena_text(l->arena, "%s > 0", item->later);
    case ARG_SCRATCH:
        if (!item->scratch) bug("%s wants scratch memory that nobody gave", item->launch->kernel);
        if (!arg->expr || expr_is(arg->expr, 0)) return arena_text(l->arena, "(%s *)%s", arg->type, item->scratch);
        return arena_text(l->arena, "(%s *)(%s + %s)", arg->type, item->scratch, expr_c(l, arg->expr, ""));
    }
    bug("argument of kind %d", (int)arg->kind);
}

/* The model's nodes that a launch computes, the last three at most. */
static const char *nodes(Writer *w, const Item *item)
{
    Buf out = {.arena = w->l->arena};
    for (int i = 0; i < item->nodes.n; i++) buf_printf(&out, "%s\"%s\"", i ? ", " : "", item->nodes.at[i]);
    if (item->in_place) buf_put(&out, ", in place");
    return commented(w->l, buf_text(&out));
}

/* Appends ", text", in a new line where it would pass the margin. */
static void add_argument(Buf *line, size_t *start, int indent_by, const char *separator, const char *text)
{
    buf_put(line, separator);
    if (line->length - *start + strlen(text) > LINE_MAX_COLUMNS) {
        while (line->length && line->text[line->length - 1] == ' ') line->text[--line->length] = 0;
        *start = line->length + 1;
        buf_printf(line, "\n%*s", indent_by, "");
    }
    buf_put(line, text);
}

static void launch_text(Writer *w, const Item *item, int depth)
{
    const Launch *launch = item->launch;
    Buf line = {.arena = w->l->arena};
    size_t start = 0;
    buf_printf(&line, "%*s", 4 * depth, "");
    if (launch->library)
        buf_printf(&line, "%s(s", launch->kernel);
    else if (launch->each)
        buf_printf(&line, "LAUNCH(s, %s, rows(%s, %s), %d)(", launch->kernel, expr_c(w->l, launch->blocks, ""),
                   expr_c(w->l, launch->each, ""), launch->threads);
    else
        buf_printf(&line, "LAUNCH(s, %s, elements(%s), %d)(", launch->kernel, expr_c(w->l, launch->blocks, ""), launch->threads);
    for (int a = 0; a < launch->args.n; a++)
        add_argument(&line, &start, 4 * depth + 8, a || launch->library ? ", " : "", argument(w, item, &launch->args.at[a]));
    buf_put(&line, ");");
    if (item->nodes.n) {
        int length = (int)(line.length - start), pad = length < COMMENT_COLUMN ? COMMENT_COLUMN - length : 1;
        buf_printf(&line, "%*s/* %s */", pad, "", nodes(w, item));
    }
    buf_printf(&w->body, "%s\n", buf_text(&line));
}

/* ---- items ---- */
static void items_text(Writer *w, const Items *items, int depth);

static void loop_text(Writer *w, const Item *item, int depth)
{
    const char *t = item->counter, *n = expr_c(w->l, item->length, "");
    indent(w, depth);
    if (item->block) /* no rows: once, so that sums are 0 */
        buf_printf(&w->body, "for (int64_t %s = 0; %s == 0 || %s < %s; %s += d->%s) {", t, t, t, n, t, item->block);
    else if (item->reverse)
        buf_printf(&w->body, "for (int64_t %s = %s - 1; %s >= 0; %s--) {", t, n, t, t);
    else
        buf_printf(&w->body, "for (int64_t %s = 0; %s < %s; %s++) {", t, t, n, t);
    buf_printf(&w->body, " /* \"%s\"%s */\n", commented(w->l, item->source), item->block ? ", blocks of rows" : "");
    if (item->block) {
        indent(w, depth + 1);
        buf_printf(&w->body, "const int64_t %s = min_int(d->%s, %s - %s);\n", item->block, item->block, n, t);
    }
    for (int i = 0; i < item->locals.n; i++) {
        const Local *local = &item->locals.at[i];
        const char *stride = expr_c(w->l, local->stride, "");
        bool plain = true;
        for (const char *p = stride; *p; p++) plain = plain && (isalnum((unsigned char)*p) || *p == '_');
        indent(w, depth + 1);
        if (!strcmp(stride, "1"))
            buf_printf(&w->body, "%s *const %s = %s + %s; /* %s */\n", local->type, local->name, local->base, t,
                       commented(w->l, local->shape));
        else
            buf_printf(&w->body, plain ? "%s *const %s = %s + %s * %s; /* %s */\n" : "%s *const %s = %s + %s * (%s); /* %s */\n",
                       local->type, local->name, local->base, t, stride, commented(w->l, local->shape));
    }
    items_text(w, &item->body[0], depth + 1);
    indent(w, depth);
    buf_put(&w->body, "}\n");
}

static void while_text(Writer *w, const Item *item, int depth)
{
    indent(w, depth);
    buf_printf(&w->body, "for (int64_t %s = 0, more = read_flag(s, %s); more && !s->error; %s++) { /* \"%s\" */\n", item->counter,
               item->place->pointer, item->counter, commented(w->l, item->source));
    if (item->iteration) {
        indent(w, depth + 1);
        buf_printf(&w->body, "write_int(s, %s, %s);\n", item->iteration->pointer, item->counter);
    }
    items_text(w, &item->body[0], depth + 1);
    indent(w, depth + 1);
    buf_printf(&w->body, "more = read_flag(s, %s);\n", item->again->pointer);
    items_text(w, &item->after, depth + 1);
    indent(w, depth);
    buf_put(&w->body, "}\n");
}

static void branch_text(Writer *w, const Item *item, int depth)
{
    indent(w, depth);
    buf_printf(&w->body, "if (read_flag(s, %s)) { /* \"%s\" */\n", item->place->pointer, commented(w->l, item->source));
    items_text(w, &item->body[0], depth + 1);
    indent(w, depth);
    buf_put(&w->body, "} else {\n");
    items_text(w, &item->body[1], depth + 1);
    indent(w, depth);
    buf_put(&w->body, "}\n");
}

/* Where the model needs what was found to be of a given size. */
static void count_text(Writer *w, const Item *item, int depth)
{
    for (int i = 0; i < w->guards->list.n; i++) {
        const GuardRow *guard = &w->guards->list.at[i];
        if (!guard->counted || strcmp(guard->counted, item->source) != 0 || guard->late != item->late) continue;
        indent(w, depth);
        buf_printf(&w->body, "if (!holds(s, read_count(s, %s) == %s, \"%s\")) return s->error; /* %s */\n", item->place->pointer,
                   expr_c(w->l, item->late, ""), guard->name, commented(w->l, guard->formula));
    }
}

/* Guards over late dims of which this was the last to become known. */
static void late_text(Writer *w, const Item *item, int depth)
{
    const Layout *l = w->l;
    if (!expr_is_symbol(item->late) || !symbol_facts(l->symbols, item->late).late) {
        count_text(w, item, depth);
        return;
    }
    const int now = l->dim_of[symbol_index(item->late)];
    indent(w, depth);
    buf_printf(&w->body, "%s = late->%s = read_count(s, %s);\n", l->dims.at[now].c, l->dims.at[now].c, item->place->pointer);
    w->known[now] = true;
    for (int i = 0; i < w->guards->list.n; i++) {
        const GuardRow *guard = &w->guards->list.at[i];
        Expr *symbols[64];
        int n = guard->late && !guard->counted ? expr_symbols(l->symbols, guard->late, symbols, 64) : 0;
        bool due = false, all = n <= 64;
        for (int k = 0; k < n && all; k++) {
            const int dim = l->dim_of[symbol_index(symbols[k])];
            due = due || dim == now;
            all = dim >= 0 && (w->known[dim] || !symbol_facts(l->symbols, symbols[k]).late);
        }
        if (!due || !all) continue;
        indent(w, depth);
        buf_printf(&w->body, "if (!holds(s, %s %s 0, \"%s\")) return s->error; /* %s */\n", expr_c(l, guard->late, ""),
                   guard->equal ? "==" : ">=", guard->name, commented(l, guard->source));
    }
}

static void item_text(Writer *w, const Item *item, int depth)
{
    const Layout *l = w->l;
    switch (item->kind) {
    case ITEM_LAUNCH: launch_text(w, item, depth); return;
    case ITEM_COMMIT:
        indent(w, depth);
        buf_printf(&w->body, "if (int error = commit(s, %s)) return error;\n", item->place->pointer);
        w->committed = true;
        return;
    case ITEM_FINITE:
        indent(w, depth);
        buf_printf(&w->body, "if (int error = gradients_finite(s, %s)) return error;\n", item->place->pointer);
        w->checked = true;
        return;
    case ITEM_SAVE:
        indent(w, depth);
        buf_printf(&w->body, "save_gradient(s, WEIGHT_%s, %s, %s);\n", upper(l->arena, l->weights.at[item->weight].c),
                   item->place->pointer, expr_c(l, item->bytes, ""));
        return;
    case ITEM_LATE: late_text(w, item, depth); return;
    case ITEM_LOOP: loop_text(w, item, depth); return;
    case ITEM_WHILE: while_text(w, item, depth); return;
    case ITEM_BRANCH: branch_text(w, item, depth); return;
    }
}

static void items_text(Writer *w, const Items *items, int depth)
{
    for (int i = 0; i < items->n; i++) item_text(w, items->at[i], depth);
}

/* ---- points ---- */
static const char *buffer_enum(const Writer *w, int buffer)
{
    return arena_text(w->l->arena, "%s_%s", upper(w->l->arena, w->p->name), upper(w->l->arena, w->p->buffers.at[buffer].c));
}

/* Points by the unit before which their buffer comes back, behind which it goes, or that makes it: first[unit], then next[point],
 * -1 at the end. */
typedef struct {
    int *first, *next;
} PointsOf;
typedef enum { POINT_BACK, POINT_GONE, POINT_MADE } PointEnd;

static PointsOf points_by_unit(const Writer *w, PointEnd end)
{
    const Program *p = w->p;
    PointsOf of = {NEW_ARRAY(w->l->arena, int, p->units.n + 1), NEW_ARRAY(w->l->arena, int, p->points.n + 1)};
    for (int u = 0; u < p->units.n; u++) of.first[u] = -1;
    for (int k = p->points.n - 1; k >= 0; k--) {
        const Point *point = &p->points.at[k];
        const int unit = end == POINT_BACK ? point->back : end == POINT_GONE ? point->gone : point->maker;
        of.next[k] = of.first[unit];
        of.first[unit] = k;
    }
    return of;
}

static void regenerate_text(Writer *w, const PointsOf *back, int unit)
{
    for (int k = back->first[unit]; k >= 0; k = back->next[k]) {
        const Point *point = &w->p->points.at[k];
        const Buffer *b = &w->p->buffers.at[point->buffer];
        buf_printf(&w->body, "    if (evicted(s, %d)) %s = regenerate<%s>(s, %d, %s); /* REGENERATE %d: %s */\n", k, b->c, b->type,
                   k, buffer_enum(w, point->buffer), k, point->recipe);
    }
}

static void evict_text(Writer *w, const PointsOf *gone, int unit)
{
    for (int k = gone->first[unit]; k >= 0; k = gone->next[k]) {
        const Point *point = &w->p->points.at[k];
        if (point->offload) buf_printf(&w->body, "    if (offloaded(s, %d)) copied_out(s, %d);\n", k, k);
        buf_printf(&w->body, "    /* EVICT %d: %s; where the plan says so, %s bytes serve others until REGENERATE %d */\n", k,
                   w->p->buffers.at[point->buffer].c, expr_c(w->l, w->p->buffers.at[point->buffer].bytes, ""), k);
    }
}

/* Puts "unit(s, 12);" before the text that begins at `start`, within its first line. */
static void number_unit(Writer *w, size_t start, int unit)
{
    enum { WIDTH = 14 };
    const size_t indent_by = 4, length = w->body.length - start - indent_by;
    const char *text = arena_copy(w->l->arena, w->body.text + start + indent_by, length);
    const int code = (int)strcspn(text, "\n"), comment = (int)(strstr(text, " /* ") ? strstr(text, " /* ") - text : code);
    int bare = comment; /* the comment stays in its column where there is room */
    while (comment < code && comment - bare < WIDTH && text[bare - 1] == ' ') bare--;
    w->body.length = start + indent_by;
    buf_printf(&w->body, "%-*s%.*s%s", WIDTH, arena_text(w->l->arena, "unit(s, %d);", unit), bare, text, text + comment);
}

/* What goes to the host is copied while launches after its maker run, and back while the one before its reader does. */
static void offload_text(Writer *w, const PointsOf *made, int unit)
{
    for (int k = made->first[unit]; k >= 0; k = made->next[k])
        if (w->p->points.at[k].offload)
            buf_printf(&w->body, "    if (offloaded(s, %d)) copy_out(s, %d, %s); /* OFFLOAD %d */\n", k, k,
                       w->p->buffers.at[w->p->points.at[k].buffer].c, k);
}

static void fetch_text(Writer *w, const PointsOf *back, int unit)
{
    if (unit + 1 >= w->p->units.n) return;
    for (int k = back->first[unit + 1]; k >= 0; k = back->next[k]) {
        const Point *point = &w->p->points.at[k];
        const Buffer *b = &w->p->buffers.at[point->buffer];
        if (point->offload)
            buf_printf(&w->body, "    if (offloaded(s, %d)) %s = copy_back<%s>(s, %d, %s); /* FETCH %d */\n", k, b->c, b->type, k,
                       buffer_enum(w, point->buffer), k);
    }
}

/* ---- declarations ---- */
static Map *words(Arena *arena, const char *text)
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

static void declare_dims(Buf *out, const Writer *w, const Map *used)
{
    if (w->replays) { /* by then the late ones are known */
        Buf list = {.arena = w->l->arena};
        for (int i = 0; i < w->l->dims.n; i++)
            if (map_has(used, w->l->dims.at[i].c) && !layout_block(w->l, w->l->dims.at[i].symbol))
                buf_printf(&list, "%s%s = d->%s", list.length ? ", " : "", w->l->dims.at[i].c, w->l->dims.at[i].c);
        if (list.length || map_has(used, "d")) buf_put(out, "    const Dims *const d = (const Dims *)s->late;\n");
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
        buf_printf(list, "%s%s = d->%s", list->length ? ", " : "", c, c);
    }
    if (plain.length || late.length || blocks) buf_put(out, "    const Dims *const d = dims_of(s);\n");
    if (late.length && map_has(used, "late")) buf_put(out, "    Dims *const late = (Dims *)s->late;\n");
    if (plain.length) buf_printf(out, "    const int64_t %s;\n", buf_text(&plain));
    if (late.length) buf_printf(out, "    int64_t %s; /* at most; known once their kernels have run */\n", buf_text(&late));
}

static void declare_buffer(Buf *out, const Layout *l, const Buffer *b, bool moves, const char *index)
{
    Buf line = {.arena = l->arena};
    buf_printf(&line, "    %s *%s%s = buffer<%s>(s, %s);", b->type, moves ? "" : "const ", b->c, b->type, index);
    if (*b->shape) {
        const int pad = (int)line.length < COMMENT_COLUMN ? COMMENT_COLUMN - (int)line.length : 1;
        buf_printf(&line, "%*s/* %s */", pad, "", commented(l, b->shape));
    }
    buf_printf(out, "%s\n", buf_text(&line));
}

/* What a step's text may name: an index into the layout's or the program's list of that kind. */
typedef struct {
    enum { NAMES_HYPER, NAMES_WEIGHTS, NAMES_STATES, NAMES_BUFFER } kind;
    int index;  /* of HYPER and BUFFER */
    bool moves; /* BUFFER: it lies elsewhere after it was given up */
} Memory;

static void add_memory(const Layout *l, Map *all, const char *c, int kind, int index)
{
    Memory *m = NEW(l->arena, Memory);
    *m = (Memory){.kind = kind, .index = index};
    map_set(all, c, m);
}

static Map *memory_of(const Layout *l, const Program *p)
{
    Map *all = map_new(l->arena);
    for (int i = 0; i < l->hypers.n; i++) add_memory(l, all, l->hypers.at[i].c, NAMES_HYPER, i);
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
    case NAMES_WEIGHTS: buf_put(out, "    const Weights *const w = weights_of(s);\n"); return;
    case NAMES_STATES: buf_put(out, "    const States *const states = states_of(s);\n"); return;
    case NAMES_BUFFER: {
        const Buffer *b = &w->p->buffers.at[m->index];
        declare_buffer(out, l, b, m->moves && !w->replays, buffer_enum(w, m->index));
        return;
    }
    }
}

/* Of the names used those that are declared at the head of a function or, buffers, those that are not declared yet: before the item
 * that uses them first.  Costs as much as the text has words, not as the program has buffers: a replay is short. */
typedef enum { AT_HEAD, AT_FIRST_USE, ALL_AT_ONCE } Where;
static void declare_memory(Buf *out, const Writer *w, const Map *used, Where where)
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
static void declare_before(Writer *w, size_t start)
{
    const char *text = arena_copy(w->l->arena, w->body.text + start, w->body.length - start);
    w->body.length = start;
    declare_memory(&w->body, w, words(w->l->arena, text), AT_FIRST_USE);
    buf_put(&w->body, text);
}

/* The step's own items, with what happens between its units. */
static void units_text(Writer *w)
{
    const Program *p = w->p;
    const PointsOf back = points_by_unit(w, POINT_BACK), gone = points_by_unit(w, POINT_GONE), made = points_by_unit(w, POINT_MADE);
    const bool trains = program_plans(p);
    for (int i = 0, u = 0; i < p->items.n; i++) {
        if (p->items.at[i]->kind != ITEM_SAVE) section(w, p->items.at[i]);
        const size_t start = w->body.length;
        const bool first = u < p->units.n && p->units.at[u].first_item == i;
        if (first) fetch_text(w, &back, u), regenerate_text(w, &back, u);
        item_text(w, p->items.at[i], 1);
        if (first && trains) number_unit(w, start, u);
        if (u < p->units.n && p->units.at[u].last_item == i) offload_text(w, &made, u), evict_text(w, &gone, u++);
        declare_before(w, start);
    }
}

static bool holds(const Items *items, ItemKind kind)
{
    for (int i = 0; i < items->n; i++)
        if (items->at[i]->kind == kind) return true;
    return false;
}

/* ---- what may run again ---- */
static void indented(Buf *out, const char *text)
{
    for (const char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end + 1 : line + strlen(line);
        buf_put(out, "    ");
        buf_write(out, line, (size_t)(end - line));
    }
}

static void replay_text(Buf *out, const Layout *layout, const Program *p, const Map *memory, int u)
{
    const Unit *unit = program_unit(p, u);
    Writer w = {.l = layout, .p = p, .memory = memory, .body = {.arena = layout->arena}, .replays = true};
    Buf text = {.arena = layout->arena};
    const Items *items = u < p->units.n ? &p->items : &unit->again_items;
    int first = u < p->units.n ? unit->first_item : 0, last = u < p->units.n ? unit->last_item : items->n - 1;
    for (int i = first; i <= last; i++)
        if (items->at[i]->kind == ITEM_LAUNCH || items->at[i]->kind == ITEM_LOOP) item_text(&w, items->at[i], 1);
    const char *body = buf_text(&w.body);
    Map *used = words(layout->arena, body);
    declare_dims(&text, &w, used);
    declare_memory(&text, &w, used, ALL_AT_ONCE);
    buf_put(&text, body);
    buf_put(&text, "    return;\n");
    buf_printf(out, "    case %d: {\n", u);
    indented(out, buf_text(&text));
    buf_put(out, "    }\n");
}

static void replays_text(Buf *out, const Layout *layout, const Program *p, const Map *memory)
{
    if (!p->points.n) return;
    buf_printf(
        out,
        "/* Units of %s's step that may run again, so that a buffer that was given up has its content back: the same launches\n"
        " * on the same operands, with buffers wherever they lie by now. */\n"
        "STEP_FUNCTION void %s_replay(Step *s, int unit)\n{\n    switch (unit) {\n",
        p->name, p->name);
    for (int u = 0; u < program_all_units(p); u++)
        if (program_unit(p, u)->again) replay_text(out, layout, p, memory, u);
    buf_put(out, "    }\n}\n\n");
}

void step_text(Buf *out, const Layout *layout, const Program *p, const Guards *guards)
{
    const Map *memory = memory_of(layout, p);
    Writer w = {.l = layout,
                .p = p,
                .memory = memory,
                .body = {.arena = layout->arena},
                .has_commit = holds(&p->items, ITEM_COMMIT),
                .checks = holds(&p->items, ITEM_FINITE)};
    w.guards = guards;
    w.known = NEW_ARRAY(layout->arena, bool, layout->dims.n + 1);
    w.declared = map_new(layout->arena);
    units_text(&w);
    replays_text(out, layout, p, memory);
    const char *body = buf_text(&w.body);
    Map *used = words(layout->arena, body);
    bool trains = program_trains(p);
    buf_printf(out, "/* %s.  Returns 0, or the error of the first launch that failed%s. */\n",
               strcmp(p->name, "train_lean") == 0 ? "One step of training in less memory: products are done again in loops over blocks of rows"
               : trains                           ? "One step of training"
               : strcmp(p->name, "evaluate") == 0 ? "Loss and outputs of a batch; changes nothing"
                                                  : "Outputs of a batch",
               w.checks       ? ", or STEP_NOT_FINITE where the loss is no number, STEP_OVERFLOW where a gradient is none"
               : w.has_commit ? ", or STEP_NOT_FINITE where the loss is no number"
                              : "");
    buf_printf(out, "STEP_FUNCTION int %s_step(Step *s)\n{\n", p->name);
    declare_dims(out, &w, used);
    declare_memory(out, &w, used, AT_HEAD);
    buf_put(out, body);
    buf_put(out, "    return s->error;\n}\n");
}

/* ---- the file ---- */
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void dims_line(Buf *out, const Layout *l)
{
    buf_put(out, " * dims   ");
    for (int i = 0; i < l->dims.n; i++) {
        Expr *symbol = l->dims.at[i].symbol;
        SymbolFacts f = symbol_facts(l->symbols, symbol);
        buf_put(out, i ? ", " : "");
        comment_put(out, expr_symbol_name(symbol));
        if (layout_block(l, symbol)) {
            buf_printf(out, " rows of %s at a time", commented(l, expr_text(l->arena, layout_block(l, symbol)->rows)));
            continue;
        }
        if (f.late)
            buf_printf(out, " <= %s, known late", commented(l, expr_text(l->arena, f.upper)));
        else if (f.high >= EXPR_UNBOUNDED)
            buf_printf(out, " >= %lld", (long long)f.low);
        else
            buf_printf(out, " %lld..%lld", (long long)f.low, (long long)f.high);
        if (f.likely && !f.late) buf_printf(out, " ~ %lld", (long long)f.likely);
    }
    buf_put(out, l->dims.n ? "\n" : "none: every shape is fixed\n");
}

static void head(Buf *out, const Project *project, const Layout *l, Program *const *programs, int n, const char *file)
{
    buf_put(out, "/* ");
    comment_put(out, file_name(project->options->model));
    buf_printf(out, " -> %s\n", file);
    if (project->train) {
        buf_put(out, " * loss   ");
        comment_put(out, project->loss.text ? project->loss.text : "the model's own");
        buf_printf(out, ", optimizer %s, %s\n", project->options->optimizer ? project->options->optimizer : "none",
                   project->options->precision ? project->options->precision : "fp32");
    }
    dims_line(out, l);
    for (int i = 0; i < n; i++) {
        const Program *p = programs[i];
        buf_printf(out, " * %-8s %d kernels; bytes moved ", p->name, p->kernels);
        comment_put(out, expr_text(l->arena, p->moved));
        buf_put(out, ",\n *          least possible ");
        comment_put(out, expr_text(l->arena, p->least));
        buf_put(out, "\n");
    }
    buf_put(out, " * made by ");
    comment_put(out, project->settings ? project->settings : "disc-gen");
    buf_put(out, " */\n");
}

/* Whether a step calls a library function of that name, as conv2d(s, …) and conv2d_grad_input(s, …) of "conv". */
static bool calls(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        const char *end = at + length + strspn(at + length, "123d_abcdefghijklmnopqrstuvwxyz");
        if (strncmp(end, "(s, ", 4) == 0) return true;
    }
    return false;
}

/* A source of its own for some of the programs; guards are those of all. */
static const char *source_text(const Project *project, const Layout *layout, Program *const *programs, int n, Program *const *all,
                               int n_all, const char *kernels, const char *file)
{
    Buf out = {.arena = layout->arena};
    head(&out, project, layout, programs, n, file);
    Buf steps = {.arena = layout->arena};
    const Bindings bindings = bindings_make(layout);
    const Guards guards = guards_make(project, layout, &bindings, all, n_all);
    for (int i = 0; i < n; i++) {
        buf_put(&steps, "\n");
        step_text(&steps, layout, programs[i], &guards);
    }
    buf_put(&out, "#include \"model.h\"\n#include \"runtime/device/device.h\"\n");
    if (calls(buf_text(&steps), "dot")) buf_put(&out, "#include \"runtime/device/blas.h\"\n");
    if (calls(buf_text(&steps), "conv")) buf_put(&out, "#include \"runtime/device/conv.h\"\n");
    if (calls(buf_text(&steps), "pool")) buf_put(&out, "#include \"runtime/device/pool.h\"\n");
    if (strstr(kernels, "SHARED Attention")) buf_put(&out, "#include \"runtime/device/attention.h\"\n");
    if (strstr(kernels, "FOR_ROW_BLOCKS") || strstr(kernels, "Tile<")) buf_put(&out, "#include \"runtime/device/tile.h\"\n");
    buf_put(&out, "#include \"runtime/controller/step.h\"\n\n");
    buf_put(&out, kernels);
    buf_put(&out, buf_text(&steps));
    return buf_text(&out);
}

const char *model_cu(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels)
{
    if (n > 1 && strcmp(programs[n - 1]->name, "unfused") == 0) n--;
    return source_text(project, layout, programs, n, programs, n, kernels, "model.cu");
}

const char *unfused_cu(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels)
{
    return source_text(project, layout, programs + n - 1, 1, programs, n, kernels, "unfused.cu");
}
