/* Orders the groups so that few bytes are alive at once: list scheduling, at each step the ready group that frees most and adds
 * least, at the likely dims; equal ones in the model's order.  Kept only where its peak is below that of the model's own order, and where
 * it is not above it at small and large dims either.
 *
 * Then neighbours change places where that frees memory sooner.
 *
 * Needs: fuse.  Breaks: nothing.  Near linear: a heap, and each group looked at again when it is left as the last reader of a
 * value.
 *
 * Three phases: what the commit needs, and whatever late dims need; the commit; the rest.  A group that writes a weight or state
 * waits for the commit, for the gradients to be found finite where that is asked, and for every other reader of it. */
#include "emit/emit.h"
#include "support/diag.h"
#include <string.h>

enum { SAMPLES = 8 }; /* sets of dims at which orders are compared */

typedef struct Edge {
    int to, next; /* edges of a group as a list */
} Edge;

typedef struct Reader {
    int group, next; /* readers of a root as a list */
} Reader;

typedef struct Ready {
    int phase;
    int64_t gain; /* bytes freed less bytes added */
    int group, stamp;
} Ready;

typedef struct {
    Arena *arena; /* its own */
    Graph *g;
    Groups *groups;
    int n;
    int *maker; /* by value id: group, -1 */
    int *root;  /* by value id: the value in whose memory it lies */
    VEC(int) roots;  /* the distinct ones that each group reads, one group's after the other's */
    int *first_root; /* by group, and behind the last one */
    VEC(int) made;   /* the values for which each group takes memory */
    int *first_made; /* by group, and behind the last one */
    VEC(Edge) edges;
    int *first_edge, *waits; /* by group */
    int *phase;
    Expr **size;    /* by root; NULL for what is always there */
    int64_t *bytes; /* by root: its size at the dims that are looked at */
    uint8_t *kept;  /* by root: an output, never freed */
    int *readers;   /* by root: how many groups read it */
    VEC(Reader) reader;
    int *first_reader; /* by root */

    /* while running */
    int *left, *waiting, *stamp;
    int64_t *sum_left; /* by root: sum of the groups that have still to read it, so the last one is known */
    uint8_t *done;
    VEC(Ready) heap;
    int64_t alive, peak;
} Schedule;

static void add_edge(Schedule *s, int from, int to)
{
    if (from < 0 || from == to) return;
    vec_push(s->arena, &s->edges, ((Edge){to, s->first_edge[from]}));
    s->first_edge[from] = s->edges.n - 1;
    s->waits[to]++;
}

/* ---- where values lie ---- */
static void find_places(Schedule *s)
{
    Graph *g = s->g;
    for (int v = 0; v < g->next_value; v++) {
        s->maker[v] = -1;
        s->root[v] = v;
    }
    for (int i = 0; i < s->n; i++) {
        const Group *group = s->groups->list.at[i];
        for (int o = 0; o < group->out.n && group->kind != GROUP_ASSIGN; o++) {
            const Value *v = group->out.at[o];
            s->maker[v->id] = i;
            if (group->kind == GROUP_VIEW)
                s->root[v->id] = s->root[group->in.at[0]->id];
            else
                s->size[v->id] = value_bytes(g, v);
        }
        for (int a = 0; a < group->assigns.n; a++) s->size[group->assigns.at[a]->in[1]->id] = NULL;
    }
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i]->origin == FROM_BATCH)
            s->size[g->inputs.at[i]->id] = value_bytes(g, g->inputs.at[i]);
    for (int i = 0; i < g->outputs.n; i++) { /* gradients are saved as soon as they are there */
        bool gradient = g->output_names && strncmp(g->output_names[i], "gradient:", 9) == 0;
        if (!gradient) s->kept[s->root[g->outputs.at[i]->id]] = 1;
    }
}

/* Sizes at the likely dims, or at some values of all symbols. */
static void measure(Schedule *s, const int64_t *values)
{
    Symbols *symbols = s->g->symbols;
    for (int v = 0; v < s->g->next_value; v++) {
        s->bytes[v] = 0;
        if (s->size[v] && (!values || !expr_evaluate(symbols, s->size[v], values, &s->bytes[v]))) s->bytes[v] = expr_likely(symbols, s->size[v]);
    }
}

static void find_roots(Schedule *s)
{
    Arena *arena = s->arena;
    int *seen = NEW_ARRAY(arena, int, s->g->next_value + 1); /* by root: 1 + the last group that reads it */
    for (int i = 0; i < s->n; i++) {
        const Group *group = s->groups->list.at[i];
        s->first_root[i] = s->roots.n;
        s->first_made[i] = s->made.n;
        for (int o = 0; o < group->out.n && group->kind != GROUP_VIEW && group->kind != GROUP_ASSIGN; o++)
            vec_push(arena, &s->made, group->out.at[o]->id);
        for (int k = 0; k < group->in.n; k++) {
            const int root = s->root[group->in.at[k]->id];
            if (seen[root] != i + 1) vec_push(arena, &s->roots, root);
            seen[root] = i + 1;
        }
    }
    s->first_root[s->n] = s->roots.n;
    s->first_made[s->n] = s->made.n;
}

/* The distinct roots that group i reads. */
static int roots_read(const Schedule *s, int i, const int **roots)
{
    *roots = s->roots.at + s->first_root[i];
    return s->first_root[i + 1] - s->first_root[i];
}

/* ---- what waits for what ---- */
static void link_groups(Schedule *s)
{
    Arena *arena = s->arena;
    int *first = s->first_reader = NEW_ARRAY(arena, int, s->g->next_value + 1), commit = -1, finite = -1;
    for (int v = 0; v < s->g->next_value; v++) first[v] = -1;
    for (int i = 0; i < s->n; i++) {
        const Group *group = s->groups->list.at[i];
        if (group->kind == GROUP_COMMIT) commit = i;
        if (group->kind == GROUP_FINITE) finite = i;
        for (int k = 0; k < group->in.n; k++) add_edge(s, s->maker[group->in.at[k]->id], i);
        const int *roots, n = roots_read(s, i, &roots);
        for (int k = 0; k < n; k++) {
            vec_push(arena, &s->reader, ((Reader){i, first[roots[k]]}));
            first[roots[k]] = s->reader.n - 1;
            s->readers[roots[k]]++;
        }
    }
    for (int i = 0; i < s->n; i++) {
        const Group *group = s->groups->list.at[i];
        int targets = group->kind == GROUP_ASSIGN ? 1 : group->assigns.n;
        for (int t = 0; t < targets; t++) {
            const Value *target = group->kind == GROUP_ASSIGN ? group->out.at[0] : group->assigns.at[t]->in[0];
            for (int r = first[target->id]; r >= 0; r = s->reader.at[r].next) add_edge(s, s->reader.at[r].group, i);
            add_edge(s, commit, i);
            add_edge(s, finite, i);
        }
    }
}

static void find_phases(Schedule *s)
{
    bool commits = false;
    for (int i = 0; i < s->n; i++) commits |= s->groups->list.at[i]->kind == GROUP_COMMIT;
    for (int i = 0; commits && i < s->n; i++) s->phase[i] = 2;
    for (int i = s->n - 1; commits && i >= 0; i--) {
        const Group *group = s->groups->list.at[i];
        if (group->kind != GROUP_COMMIT && group->kind != GROUP_LATE && s->phase[i] == 2) continue;
        s->phase[i] = group->kind == GROUP_COMMIT ? 1 : 0;
        for (int k = 0; k < group->in.n; k++) {
            int maker = s->maker[group->in.at[k]->id];
            if (maker >= 0) s->phase[maker] = 0;
        }
    }
}

/* ---- the heap ---- */
static bool sooner(const Ready *a, const Ready *b)
{
    if (a->phase != b->phase) return a->phase < b->phase;
    if (a->gain != b->gain) return a->gain > b->gain;
    return a->group < b->group;
}

static void heap_push(Schedule *s, Ready r)
{
    vec_push(s->arena, &s->heap, r);
    int i = s->heap.n - 1;
    for (; i > 0 && sooner(&r, &s->heap.at[(i - 1) / 2]); i = (i - 1) / 2) s->heap.at[i] = s->heap.at[(i - 1) / 2];
    s->heap.at[i] = r;
}

static Ready heap_pop(Schedule *s)
{
    Ready top = s->heap.at[0], last = s->heap.at[--s->heap.n];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= s->heap.n) break;
        if (child + 1 < s->heap.n && sooner(&s->heap.at[child + 1], &s->heap.at[child])) child++;
        if (!sooner(&s->heap.at[child], &last)) break;
        s->heap.at[i] = s->heap.at[child];
        i = child;
    }
    if (s->heap.n) s->heap.at[i] = last;
    return top;
}

/* ---- running ---- */
static int64_t bytes_added(const Schedule *s, int i)
{
    int64_t added = 0;
    for (int k = s->first_made[i]; k < s->first_made[i + 1]; k++) added += s->bytes[s->made.at[k]];
    return added;
}

static int64_t bytes_freed(const Schedule *s, int i)
{
    int64_t freed = 0;
    const int *roots, n = roots_read(s, i, &roots);
    for (int k = 0; k < n; k++)
        if (s->left[roots[k]] == 1 && !s->kept[roots[k]]) freed += s->bytes[roots[k]];
    for (int k = s->first_made[i]; k < s->first_made[i + 1]; k++) { /* read by nobody: gone at once */
        const int v = s->made.at[k];
        if (!s->readers[v] && !s->kept[v]) freed += s->bytes[v];
    }
    return freed;
}

/* An update sets its gradient free: in the model's order, too, it runs as soon as it can. */
static bool updates(const Group *group)
{
    return strcmp(group->ops.at[group->ops.n - 1]->role, "optimizer") == 0;
}

static void make_ready(Schedule *s, int i, bool by_memory)
{
    const Group *group = s->groups->list.at[i];
    int64_t gain = by_memory ? bytes_freed(s, i) - bytes_added(s, i) : updates(group);
    heap_push(s, (Ready){s->phase[i], gain, i, ++s->stamp[i]});
}

static void start(Schedule *s)
{
    Graph *g = s->g;
    s->heap.n = 0;
    s->alive = s->peak = 0;
    for (int v = 0; v < g->next_value; v++) {
        s->left[v] = s->readers[v];
        s->sum_left[v] = 0;
    }
    for (int i = 0; i < s->n; i++) {
        s->waiting[i] = s->waits[i];
        s->stamp[i] = s->done[i] = 0;
        const int *roots, n = roots_read(s, i, &roots);
        for (int k = 0; k < n; k++) s->sum_left[roots[k]] += i;
    }
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i]->origin == FROM_BATCH) s->alive += s->bytes[g->inputs.at[i]->id];
}

/* What it does to memory. */
static void pass_group(Schedule *s, int i)
{
    s->done[i] = 1;
    s->alive += bytes_added(s, i);
    if (s->alive > s->peak) s->peak = s->alive;
    s->alive -= bytes_freed(s, i);
    const int *roots, n = roots_read(s, i, &roots);
    for (int k = 0; k < n; k++) {
        s->left[roots[k]]--;
        s->sum_left[roots[k]] -= i;
    }
}

static void run_group(Schedule *s, int i, bool by_memory)
{
    const int *roots, n = roots_read(s, i, &roots);
    pass_group(s, i);
    for (int k = 0; by_memory && k < n; k++) {
        int last = (int)s->sum_left[roots[k]];
        if (s->left[roots[k]] == 1 && !s->waiting[last] && !s->done[last]) make_ready(s, last, by_memory);
    }
    for (int e = s->first_edge[i]; e >= 0; e = s->edges.at[e].next)
        if (--s->waiting[s->edges.at[e].to] == 0) make_ready(s, s->edges.at[e].to, by_memory);
}

/* Fills order; returns the peak. */
static int64_t run(Schedule *s, bool by_memory, int *order)
{
    int n = 0;
    start(s);
    for (int i = 0; i < s->n; i++)
        if (!s->waiting[i]) make_ready(s, i, by_memory);
    while (s->heap.n) {
        Ready r = heap_pop(s);
        if (s->done[r.group] || r.stamp != s->stamp[r.group]) continue;
        order[n++] = r.group;
        run_group(s, r.group, by_memory);
    }
    if (n != s->n) bug("schedule: %d of %d groups wait for each other", s->n - n, s->n);
    return s->peak;
}

static void prepare(Schedule *s)
{
    Arena *arena = s->arena;
    int values = s->g->next_value + 1, n = s->n + 1;
    s->maker = NEW_ARRAY(arena, int, values);
    s->root = NEW_ARRAY(arena, int, values);
    s->size = NEW_ARRAY(arena, Expr *, values);
    s->bytes = NEW_ARRAY(arena, int64_t, values);
    s->kept = NEW_ARRAY(arena, uint8_t, values);
    s->readers = NEW_ARRAY(arena, int, values);
    s->left = NEW_ARRAY(arena, int, values);
    s->sum_left = NEW_ARRAY(arena, int64_t, values);
    s->first_edge = NEW_ARRAY(arena, int, n);
    s->waits = NEW_ARRAY(arena, int, n);
    s->waiting = NEW_ARRAY(arena, int, n);
    s->stamp = NEW_ARRAY(arena, int, n);
    s->phase = NEW_ARRAY(arena, int, n);
    s->done = NEW_ARRAY(arena, uint8_t, n);
    for (int i = 0; i < s->n; i++) s->first_edge[i] = -1;
    s->first_root = NEW_ARRAY(arena, int, n);
    s->first_made = NEW_ARRAY(arena, int, n);
    find_places(s);
    find_roots(s);
    measure(s, NULL);
    link_groups(s);
    find_phases(s);
}

/* ---- neighbours ---- */
static bool among(const int *roots, int n, int root)
{
    for (int k = 0; k < n; k++)
        if (roots[k] == root) return true;
    return false;
}

/* What two neighbours read, at places i and i + 1, and the place of the last reader of each value. */
typedef struct {
    const int *roots_a, *roots_b;
    int n_a, n_b;
    int *last_place; /* by root */
} Neighbours;

/* Bytes that the first of two neighbours sets free when it runs at `place` and the other next: what nobody reads from then on. */
static int64_t frees_before(const Schedule *s, const Neighbours *both, bool a_first, int place)
{
    const int *roots = a_first ? both->roots_a : both->roots_b, *others = a_first ? both->roots_b : both->roots_a;
    const int n = a_first ? both->n_a : both->n_b, n_others = a_first ? both->n_b : both->n_a;
    int64_t freed = 0;
    for (int k = 0; k < n; k++)
        if (!s->kept[roots[k]] && both->last_place[roots[k]] <= place + 1 && !among(others, n_others, roots[k]))
            freed += s->bytes[roots[k]];
    return freed;
}

/* a has moved to place + 1, b to place. */
static void note_swap(Neighbours *both, int place)
{
    for (int k = 0; k < both->n_b; k++)
        if (both->last_place[both->roots_b[k]] == place + 1) both->last_place[both->roots_b[k]] = place;
    for (int k = 0; k < both->n_a; k++)
        if (both->last_place[both->roots_a[k]] == place) both->last_place[both->roots_a[k]] = place + 1;
}

static bool waits_for(const Schedule *s, int i, int other)
{
    for (int e = s->first_edge[other]; e >= 0; e = s->edges.at[e].next)
        if (s->edges.at[e].to == i) return true;
    return false;
}

/* Of two neighbours that do not wait for each other, the one that frees more than it adds goes first; where both ways reach as high,
 * the one after which less is alive: of the two dots behind a layer, the gradient of the weight with the weight's update before that
 * of the input.  The peak can only fall. */
static void swap_neighbours(Schedule *s, int *order)
{
    enum { PASSES = 4 };
    Arena *arena = s->arena;
    Neighbours both = {.last_place = NEW_ARRAY(arena, int, s->g->next_value + 1)};
    for (int i = 0; i < s->n; i++) {
        both.n_a = roots_read(s, order[i], &both.roots_a);
        for (int k = 0; k < both.n_a; k++) both.last_place[both.roots_a[k]] = i;
    }
    for (int pass = 0, swaps = 1; pass < PASSES && swaps; pass++) {
        swaps = 0;
        for (int i = 0; i + 1 < s->n; i++) {
            int a = order[i], b = order[i + 1];
            if (s->phase[a] != s->phase[b] || waits_for(s, b, a)) continue;
            both.n_a = roots_read(s, a, &both.roots_a);
            both.n_b = roots_read(s, b, &both.roots_b);
            int64_t adds_a = bytes_added(s, a), adds_b = bytes_added(s, b);
            int64_t after_a = adds_a - frees_before(s, &both, true, i) + adds_b;
            int64_t after_b = adds_b - frees_before(s, &both, false, i) + adds_a;
            int64_t a_first = adds_a > after_a ? adds_a : after_a, b_first = adds_b > after_b ? adds_b : after_b;
            if (b_first > a_first || (b_first == a_first && after_b - adds_a >= after_a - adds_b)) continue;
            order[i] = b, order[i + 1] = a;
            note_swap(&both, i);
            swaps++;
        }
    }
}

/* ---- at other dims ---- */
static int64_t peak_of(Schedule *s, const int *order)
{
    start(s);
    for (int i = 0; i < s->n; i++) pass_group(s, order[i]);
    return s->peak;
}

/* The kth of some values of the symbols, from small to large, alike and apart. */
static void dims_to_look_at(const Schedule *s, int k, int64_t *values)
{
    static const int64_t sizes[SAMPLES][2] = {{1, 1}, {2, 2}, {4, 4}, {16, 16}, {64, 64}, {512, 512}, {2, 256}, {256, 2}};
    for (int i = 0; i < symbols_count(s->g->symbols); i++) {
        Expr *symbol = symbols_at(s->g->symbols, i);
        const SymbolFacts facts = symbol_facts(s->g->symbols, symbol);
        const int64_t wanted = sizes[k][i % 2];
        values[i] = facts.late ? expr_likely(s->g->symbols, symbol) : wanted < facts.low ? facts.low : wanted > facts.high ? facts.high : wanted;
    }
}

/* Whether an order reaches no higher than the model's own, also where dims are small or large. */
static bool never_above(Schedule *s, const int *order, const int *own)
{
    Arena *arena = s->arena;
    int64_t *values = NEW_ARRAY(arena, int64_t, symbols_count(s->g->symbols) + 1);
    bool above = false;
    for (int k = 0; k < SAMPLES && !above; k++) {
        dims_to_look_at(s, k, values);
        measure(s, values);
        above = peak_of(s, order) > peak_of(s, own);
    }
    measure(s, NULL);
    return !above;
}

static int *copy_order(const Schedule *s, const int *order)
{
    int *copy = NEW_ARRAY(s->arena, int, s->n + 1);
    memcpy(copy, order, (size_t)s->n * sizeof *copy);
    return copy;
}

/* The best of the orders found that is nowhere above the model's own.  only_peak: neighbours, which change nothing of that, stay. */
static int *choose(Schedule *s, int64_t *peak, bool only_peak)
{
    int *own = NEW_ARRAY(s->arena, int, s->n + 1), *thrifty = NEW_ARRAY(s->arena, int, s->n + 1);
    const int64_t own_peak = *peak = run(s, false, own);
    if (s->groups->as_given) return own;
    const int64_t thrifty_peak = run(s, true, thrifty);
    if (thrifty_peak < own_peak) {
        swap_neighbours(s, thrifty);
        if (never_above(s, thrifty, own)) {
            *peak = thrifty_peak;
            return thrifty;
        }
    }
    if (only_peak) return own;
    int *swapped = copy_order(s, own);
    swap_neighbours(s, swapped);
    return never_above(s, swapped, own) ? swapped : own;
}

int64_t schedule_peak(Groups *groups)
{
    Schedule s = {.arena = arena_new(), .g = groups->graph, .groups = groups, .n = groups->list.n};
    int64_t peak;
    prepare(&s);
    choose(&s, &peak, true);
    arena_free(s.arena);
    return peak;
}

int64_t pass_schedule(Groups *groups)
{
    Arena *arena = arena_new();
    Schedule s = {.arena = arena, .g = groups->graph, .groups = groups, .n = groups->list.n};
    prepare(&s);
    int64_t peak;
    const int *order = choose(&s, &peak, false);
    Group **list = NEW_ARRAY(arena, Group *, s.n + 1);
    for (int i = 0; i < s.n; i++) list[i] = groups->list.at[order[i]];
    for (int i = 0; i < s.n; i++) groups->list.at[i] = list[i];
    for (int i = 0; i < s.n; i++)
        for (int b = 0; b < 2; b++)
            if (list[i]->body[b]) {
                list[i]->body[b]->as_given = groups->as_given;
                pass_schedule(list[i]->body[b]);
            }
    arena_free(arena);
    return peak;
}
