/* Points of a step: for each buffer that lies unused across a long gap and whose content some unit before the commit can make
 * again. Whether that unit's operands are there is not asked: where they are gone too, the controller has them made first, by
 * chains of any length.  Which points act is decided when dims and budget are known.
 *
 * Needs: Program.units.  Breaks: nothing.
 *
 *     launch 30 makes silu, 31 reads it, 147 reads it next  ->  point {silu, gone 31, back 147, "mul_sigmoid(node_linear_4)"} */
#include "passes/rematerialize.h"
#include "support/diag.h"
#include <stdlib.h>
#include <string.h>

enum {
    SHORTEST_GAP = 6,     /* units in between: less frees memory for too short a time to be worth a point */
    SMALLEST_SHARE = 1024, /* of the largest buffer, at likely dims: less frees nothing that counts */
    OFFLOAD_GAP = 8,       /* units in between, for a copy to the host and back to find launches to run beside */
    OFFLOAD_SHARE = 64     /* as SMALLEST_SHARE */
};

typedef struct {
    Arena *arena;
    Program *p;
    int64_t *bytes;          /* by buffer, at likely dims */
    int64_t largest;
    int *last_touch, *maker, *settled; /* by buffer, while units are walked; settled: see Point */
    int **maker_of_read;     /* by unit, beside its reads: who made what it reads; -1 */
    int **maker_of_written;  /* by unit, beside its writes: who made what it overwrites; -1 */
    uint8_t *wanted;         /* by unit: some chain may need it again */
} Remat;

static int commit_unit(const Program *p)
{
    for (int u = 0; u < p->units.n; u++)
        if (p->items.at[p->units.at[u].first_item]->kind == ITEM_COMMIT) return u;
    return p->units.n;
}

/* "mul_sigmoid(gate, up)": kernels, then the buffers that they read. */
static const char *recipe_text(const Remat *r, const Unit *unit, const Items *items, int first, int last)
{
    Buf out = {.arena = r->arena};
    for (int i = first; i <= last; i++)
        if (items->at[i]->kind == ITEM_LOOP)
            buf_put(&out, "blocks of rows");
        else if (items->at[i]->kind == ITEM_LAUNCH)
            buf_printf(&out, "%s%s", i > first ? ", " : "", items->at[i]->launch->kernel);
    const char *separator = "(";
    for (int i = 0; i < unit->reads.n; i++) {
        if (unit->reads.at[i].kind != TOUCHES_BUFFER) continue;
        buf_printf(&out, "%s%s", separator, r->p->buffers.at[unit->reads.at[i].index].c);
        separator = ", ";
    }
    if (*separator == ',') buf_put(&out, ")");
    return buf_text(&out);
}

/* By the recipe that leaves the unit's first result alone, where there is one. */
static const char *how(const Remat *r, int maker, int buffer)
{
    for (int i = 0; i < r->p->recipes.n; i++) {
        const Unit *recipe = &r->p->recipes.at[i];
        for (int w = 0; recipe->of == maker && w < recipe->writes.n; w++)
            if (recipe->writes.at[w].index == buffer)
                return recipe_text(r, recipe, &recipe->again_items, 0, recipe->again_items.n - 1);
    }
    const Unit *unit = &r->p->units.at[maker];
    return recipe_text(r, unit, &r->p->items, unit->first_item, unit->last_item);
}

static void add_point(Remat *r, int buffer, int gone, int back)
{
    int maker = r->maker[buffer];
    const char *recipe = how(r, maker, buffer);
    const bool offload = back - gone >= OFFLOAD_GAP && r->bytes[buffer] >= r->largest / OFFLOAD_SHARE;
    vec_push(r->arena, &r->p->points, ((Point){buffer, gone, back, maker, r->settled[buffer], recipe, offload}));
    r->settled[buffer] = back;
}

static void walk_unit(Remat *r, int u, int64_t least)
{
    Unit *unit = &r->p->units.at[u];
    r->maker_of_read[u] = NEW_ARRAY(r->arena, int, unit->reads.n + 1);
    for (int i = 0; i < unit->reads.n; i++) {
        int b = unit->reads.at[i].index;
        r->maker_of_read[u][i] = -1;
        if (unit->reads.at[i].kind != TOUCHES_BUFFER) continue;
        int maker = r->maker_of_read[u][i] = r->maker[b];
        if (maker >= 0 && r->p->units.at[maker].again && u - r->last_touch[b] > SHORTEST_GAP && r->bytes[b] >= least)
            add_point(r, b, r->last_touch[b], u);
        r->last_touch[b] = u;
    }
    r->maker_of_written[u] = NEW_ARRAY(r->arena, int, unit->writes.n + 1);
    for (int i = 0; i < unit->writes.n; i++) {
        r->maker_of_written[u][i] = -1;
        if (unit->writes.at[i].kind != TOUCHES_BUFFER) continue;
        int b = unit->writes.at[i].index;
        r->maker_of_written[u][i] = r->maker[b];
        bool in_place = r->maker[b] >= 0;
        if (in_place && r->p->units.at[r->maker[b]].again && u - r->last_touch[b] > SHORTEST_GAP && r->bytes[b] >= least)
            add_point(r, b, r->last_touch[b], u);
        r->maker[b] = r->settled[b] = r->last_touch[b] = u;
    }
}

typedef VEC(int) Units;

static void want(Remat *r, Units *wanted, int u)
{
    if (u < 0 || r->wanted[u] || !r->p->units.at[u].again) return;
    r->wanted[u] = 1;
    vec_push(r->arena, wanted, u);
}

/* All that some chain may need: the points' makers, what these read, and what they overwrite, for that they read too. */
static void want_chains(Remat *r)
{
    Units wanted = {0};
    for (int k = 0; k < r->p->points.n; k++) want(r, &wanted, r->p->points.at[k].maker);
    while (wanted.n) {
        const int u = wanted.at[--wanted.n];
        const Unit *unit = &r->p->units.at[u];
        for (int i = 0; i < unit->reads.n; i++) want(r, &wanted, r->maker_of_read[u][i]);
        for (int i = 0; i < unit->writes.n; i++) want(r, &wanted, r->maker_of_written[u][i]);
    }
}

static int by_gone(const void *a, const void *b)
{
    const Point *x = a, *y = b;
    if (x->gone != y->gone) return x->gone - y->gone;
    if (x->back != y->back) return x->back - y->back;
    return x->buffer - y->buffer;
}

void pass_rematerialize(Arena *arena, Symbols *symbols, Program *p)
{
    Remat r = {.arena = arena, .p = p};
    int commit = commit_unit(p);
    r.bytes = NEW_ARRAY(arena, int64_t, p->buffers.n + 1);
    r.last_touch = NEW_ARRAY(arena, int, p->buffers.n + 1);
    r.maker = NEW_ARRAY(arena, int, p->buffers.n + 1);
    r.settled = NEW_ARRAY(arena, int, p->buffers.n + 1);
    r.maker_of_read = NEW_ARRAY(arena, int *, p->units.n + 1);
    r.maker_of_written = NEW_ARRAY(arena, int *, p->units.n + 1);
    r.wanted = NEW_ARRAY(arena, uint8_t, p->units.n + 1);
    for (int b = 0; b < p->buffers.n; b++) {
        r.maker[b] = -1;
        r.bytes[b] = expr_likely(symbols, p->buffers.at[b].bytes);
        if (r.bytes[b] > r.largest) r.largest = r.bytes[b];
    }
    for (int u = commit; u < p->units.n; u++) p->units.at[u].again = false;
    for (int u = 0; u < p->units.n; u++) walk_unit(&r, u, r.largest / SMALLEST_SHARE);
    want_chains(&r);
    for (int u = 0; u < p->units.n; u++) p->units.at[u].again &= r.wanted[u];
    int kept = 0;
    for (int i = 0; i < p->recipes.n; i++)
        if (p->units.at[p->recipes.at[i].of].again) p->recipes.at[kept++] = p->recipes.at[i];
    p->recipes.n = kept;
    if (p->points.n) qsort(p->points.at, (size_t)p->points.n, sizeof *p->points.at, by_gone);
}
