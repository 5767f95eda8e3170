/* Text of a step: its statements in order, what happens between its units (points), and the units that may run again. */
#include "emit/step_private.h"
#include <string.h>

/* ---- points ---- */
const char *buffer_enum(const Writer *w, int buffer)
{
    return arena_text(w->l->arena, "%s_%s", upper(w->l->arena, w->p->name), upper(w->l->arena, w->p->buffers.at[buffer].c));
}

/* Points by the unit before which their buffer comes back, behind which it goes, or behind which it lies still until it goes: first[unit], then next[point],
 * -1 at the end. */
typedef struct {
    int *first, *next;
} PointsOf;
typedef enum { POINT_BACK, POINT_GONE, POINT_SETTLED } PointEnd;

static PointsOf points_by_unit(const Writer *w, PointEnd end)
{
    const Program *p = w->p;
    PointsOf of = {NEW_ARRAY(w->l->arena, int, p->units.n + 1), NEW_ARRAY(w->l->arena, int, p->points.n + 1)};
    for (int u = 0; u < p->units.n; u++) of.first[u] = -1;
    for (int k = p->points.n - 1; k >= 0; k--) {
        const Point *point = &p->points.at[k];
        const int unit = end == POINT_BACK ? point->back : end == POINT_GONE ? point->gone : point->settled;
        of.next[k] = of.first[unit];
        of.first[unit] = k;
    }
    return of;
}

static void point_text(Writer *w, const char *call, const char *comment)
{
    buf_printf(&w->body, "    %s", call);
    if (comment) buf_printf(&w->body, " /* %s */", commented(w->l, comment));
    buf_put(&w->body, "\n");
}

static void regenerate_text(Writer *w, const PointsOf *back, int unit)
{
    Arena *arena = w->l->arena;
    const char *said = NULL; /* several results of one launch come back in a row */
    for (int k = back->first[unit]; k >= 0; k = back->next[k]) {
        const Point *point = &w->p->points.at[k];
        const char *call =
            arena_text(arena, "regenerate(s, %d, %s, %s);", k, w->p->buffers.at[point->buffer].c, buffer_enum(w, point->buffer));
        point_text(w, call, said && strcmp(said, point->recipe) == 0 ? "from the same" : point->recipe);
        said = point->recipe;
    }
}

static void evict_text(Writer *w, const PointsOf *gone, int unit)
{
    for (int k = gone->first[unit]; k >= 0; k = gone->next[k]) {
        const Buffer *b = &w->p->buffers.at[w->p->points.at[k].buffer];
        point_text(w, arena_text(w->l->arena, "evict(s, %d);", k),
                   arena_text(w->l->arena, "%s: %s bytes", b->c, size_c(w, b->bytes)));
    }
}

/* What goes to the host is copied while launches run that follow its maker, or the point that brought it back before; and back while the
 * one before its reader does. */
static void offload_text(Writer *w, const PointsOf *settled, int unit)
{
    for (int k = settled->first[unit]; k >= 0; k = settled->next[k]) {
        const Point *point = &w->p->points.at[k];
        if (point->offload)
            point_text(w, arena_text(w->l->arena, "offload(s, %d, %s);", k, w->p->buffers.at[point->buffer].c), NULL);
    }
}

static void fetch_text(Writer *w, const PointsOf *back, int unit)
{
    if (unit + 1 >= w->p->units.n) return;
    for (int k = back->first[unit + 1]; k >= 0; k = back->next[k]) {
        const Point *point = &w->p->points.at[k];
        if (point->offload)
            point_text(w,
                       arena_text(w->l->arena, "fetch(s, %d, %s, %s);", k, w->p->buffers.at[point->buffer].c,
                                  buffer_enum(w, point->buffer)),
                       NULL);
    }
}

/* ---- the function ---- */
/* The step's own items, with what happens between its units. */
static void units_text(Writer *w)
{
    const Program *p = w->p;
    const PointsOf back = points_by_unit(w, POINT_BACK), gone = points_by_unit(w, POINT_GONE),
                   settled = points_by_unit(w, POINT_SETTLED);
    const bool trains = program_plans(p);
    const Layout *layout = w->l;
    Layout brief = *layout; /* what a unit's text is made of is gone with the next one's */
    brief.arena = arena_child(layout->arena);
    w->l = &brief;
    for (int i = 0, u = 0; i < p->items.n; i++) {
        if (p->items.at[i]->kind != ITEM_SAVE) section_text(w, p->items.at[i]);
        const size_t start = w->body.length;
        const bool first = u < p->units.n && p->units.at[u].first_item == i;
        if (first) fetch_text(w, &back, u), regenerate_text(w, &back, u);
        w->unit = first && trains ? u : -1;
        item_text(w, p->items.at[i], 1);
        if (u < p->units.n && p->units.at[u].last_item == i) offload_text(w, &settled, u), evict_text(w, &gone, u++);
        declare_before(w, start);
        arena_reset(brief.arena);
    }
    w->l = layout;
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
    Writer w = {.l = layout, .p = p, .memory = memory, .body = {.arena = layout->arena}, .replays = true, .unit = -1};
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

void replays_text(Buf *out, const Layout *layout, const Program *p)
{
    if (!p->points.n) return;
    const Map *memory = memory_of(layout, p);
    buf_printf(
        out,
        "/* Units of %s's step that may run again, so that a buffer that was given up has its content back: the same launches\n"
        " * on the same operands, with buffers wherever they lie by now. */\n"
        "STEP_FUNCTION void %s_replay(Step *s, int number)\n{\n    switch (number) {\n",
        p->name, p->name);
    Layout brief = *layout;
    brief.arena = arena_child(layout->arena);
    for (int u = 0; u < program_all_units(p); u++) {
        if (program_unit(p, u)->again) replay_text(out, &brief, p, memory, u);
        arena_reset(brief.arena);
    }
    buf_put(out, "    }\n}\n\n");
}

static const char *step_about(const Program *p)
{
    if (strcmp(p->name, "train_lean") == 0)
        return "One step of training in less memory: products are done again in loops over blocks of rows";
    if (program_plans(p)) return "One step of training";
    return strcmp(p->name, "evaluate") == 0 ? "Loss and outputs of a batch; changes nothing" : "Outputs of a batch";
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
    name_sizes(&w);
    units_text(&w);
    Buf sizes = {.arena = layout->arena};
    declare_sizes(&sizes, &w, NULL, buf_text(&w.body), 1);
    const char *body = buf_text(&w.body);
    Map *used = words(layout->arena, arena_text(layout->arena, "%s%s", buf_text(&sizes), body));
    buf_printf(out, "/* %s.\n * Returns 0, or the error of the first launch that failed%s.", step_about(p),
               w.checks       ? ", or STEP_NOT_FINITE where the loss is no number, STEP_OVERFLOW where a gradient is none"
               : w.has_commit ? ", or STEP_NOT_FINITE where the loss is no number"
                              : "");
    if (program_plans(p)) buf_put(out, "\n * unit(s, k) begins what the controller's tables count as the kth");
    if (p->points.n)
        buf_put(out, "; offload, evict, fetch and regenerate do what a plan says of a buffer\n"
                     " * (runtime/controller/step.h)");
    if (program_plans(p)) buf_put(out, ".");
    buf_put(out, " */\n");
    buf_printf(out, "STEP_FUNCTION int %s_step(Step *s)\n{\n", p->name);
    declare_dims(out, &w, used);
    buf_put(out, buf_text(&sizes));
    declare_memory(out, &w, used, AT_HEAD);
    buf_put(out, body);
    buf_put(out, "    return s->error;\n}\n");
}
