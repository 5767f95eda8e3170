/* Chooses what crosses from the forward pass to the backward one: the values of least bytes from which all that the backward pass
 * reads can be made again by cheap operations.  What is not kept is remade where the backward pass reads it.
 *
 *     %3 = dot %1, %2                              %3 = dot %1, %2
 *     %4 = tanh %3                                 %4 = tanh %3
 *     %5 = mul %4, %0                        ->    %5 = mul %4, %0
 *     %9 = mul %8, %5      "" gradient             %14 = tanh %3         "" gradient
 *                                                  %15 = mul %14, %0     "" gradient
 *                                                  %9 = mul %8, %15      "" gradient
 *
 * Needs: simplified graph with a commit.  Breaks: equal operations stand twice, so simplify must not run again.
 *
 * A minimum cut: each value that could be kept is an arc with its bytes for capacity; what must be kept or is there anyway is
 * free; a value that only costly operations make hangs on the source, what the backward pass reads on the sink.  Of several
 * minimum cuts the one nearest to the sink is taken, so chains are short.  Values remade have the same operations and operands as
 * before: the same bits.
 *
 * A residual stream is a long chain of sums, each of which cheap operations could remake from the results of all layers before it.
 * Two rules see to that, and neither covers the other: a value that comes of more than a few others (find_wide) is not remade at
 * all; and among cuts of equal bytes one through a running sum is preferred to one through what was added to it (is_running_sum),
 * also where few values have been added yet.  After Chen et al. (arXiv 1604.06174) and the partitioners of functorch. */
#include "ir/view.h"
#include "passes/passes.h"
#include "passes/flow.h"
#include "support/diag.h"
#include <string.h>

typedef struct {
    Graph *g;
    Arena *scratch;
    Symbols *symbols;
    uint8_t *forward; /* by op->id: the commit waits for it */
    uint8_t *needed;  /* by value id: the backward pass reads it */
    uint8_t *seen;    /* by value id: a needed value could be remade from it */
    uint8_t *there;   /* by value id: lies in memory in the backward pass whatever is chosen */
    uint8_t *stored;  /* by value id: lies in memory in the forward pass anyway */
    uint8_t *wide;    /* by value id: made of too many others of its size: never remade */
    uint8_t *running; /* by value id: a running sum: of values of equal bytes it is rather kept */
    uint8_t *remade;  /* by value id */
    uint8_t *kept;    /* by value id */
    int *node;        /* by value id: its first node; the second is the next one */
    Value **clone;    /* by value id */
    Values reached;   /* the seen ones */
    int remade_count;
} Stash;

/* ---- forward and backward ---- */
/* The commit waits for its loss; sizes known late are planned before it. */
static bool find_forward(Stash *s)
{
    const Graph *g = s->g;
    bool commits = false;
    uint8_t *wanted = NEW_ARRAY(s->scratch, uint8_t, g->next_value + 1);
    for (int o = g->ops.n - 1; o >= 0; o--) {
        const Op *op = g->ops.at[o];
        bool here = op_info(op->kind)->class == LATE;
        for (int i = 0; i < op->n_out; i++) here |= wanted[op->out[i]->id];
        s->forward[op->id] = here;
        commits |= op->kind == OP_commit;
        for (int i = 0; i < op->n_in && (here || op->kind == OP_commit); i++) wanted[op->in[i]->id] = 1;
    }
    return commits;
}

static bool made_forward(const Stash *s, const Value *v)
{
    return v->def && s->forward[v->def->id];
}

/* One pass over the data, or none: what a kernel can do again on the way. */
static bool is_cheap(const Op *op)
{
    if (op_info(op->kind)->class == ELEMENTWISE) return true;
    switch (op->kind) {
    case OP_constant:
    case OP_iota:
    case OP_dims:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_pad:
    case OP_concat: return true;
    default: return false;
    }
}

/* Short numbers that a product reads in the place of a weight: made once a step. */
static bool is_cast_weight(const Value *v)
{
    const Op *op = v->def;
    return op && op->kind == OP_cast && op->in[0]->origin == FROM_WEIGHT && dtype_bytes(v->dtype) < dtype_bytes(op->in[0]->dtype);
}

/* The residual of the last layer is a sum of what all layers gave.  It could be remade, but the first backward kernel would do that for
 * all layers at once, and keep what it made until each has its turn: no better than what is kept instead.  So a value that comes of more
 * than a few others is one that later ones are remade from. */
enum { SOURCES_MAX = 4, SMALL_SHARE = 8 };
typedef struct {
    int at[SOURCES_MAX + 1], n; /* distinct value ids */
} Sources;

static void add_source(Sources *to, int id)
{
    for (int i = 0; i < to->n; i++)
        if (to->at[i] == id) return;
    if (to->n <= SOURCES_MAX) to->at[to->n++] = id;
}

static void find_wide(Stash *s)
{
    const Graph *g = s->g;
    Sources *sources = NEW_ARRAY(s->scratch, Sources, g->next_value + 1);
    int64_t *size = NEW_ARRAY(s->scratch, int64_t, g->next_value + 1);
    for (int i = 0; i < g->inputs.n; i++) size[g->inputs.at[i]->id] = expr_likely(s->symbols, value_count(g, g->inputs.at[i]));
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        for (int k = 0; k < op->n_out; k++) {
            const Value *v = op->out[k];
            Sources *own = &sources[v->id];
            size[v->id] = expr_likely(s->symbols, value_count(g, v));
            for (int i = 0; i < op->n_in && is_cheap(op); i++) {
                const Sources *of = &sources[op->in[i]->id];
                for (int j = 0; j < of->n && size[op->in[i]->id] >= size[v->id] / SMALL_SHARE; j++) add_source(own, of->at[j]);
            }
            s->wide[v->id] = own->n > SOURCES_MAX;
            if (s->wide[v->id] || !is_cheap(op)) *own = (Sources){{v->id}, 1};
        }
    }
}

static bool can_remake(const Stash *s, const Value *v)
{
    return made_forward(s, v) && is_cheap(v->def) && !is_cast_weight(v) && !s->wide[v->id];
}

/* A sum that runs through a network, each block adding to it: x + dot, with readers besides the next sum.  Kept, it stands for all
 * that was added so far. */
static bool is_running_sum(const Stash *s, const Value *v)
{
    int readers = 0, sums = 0;
    if (!v->def || v->def->kind != OP_add || v->rank == 0) return false;
    for (int i = 0; i < 2; i++) {
        const Value *a = value_root(v->def->in[i]);
        if (!a->def || (is_cheap(a->def) && !s->running[a->id])) continue;
        sums++;
    }
    for (int u = 0; u < v->users.n; u++) readers += s->forward[v->users.at[u]->id];
    return sums == 2 && readers > 1;
}

/* Its operands need not lie in memory. */
static bool joins(const Op *op)
{
    return is_cheap(op) || op_info(op->kind)->class == REDUCE;
}

/* A product that only kernels read which can follow it row by row: they need not find it in memory. */
static bool has_epilogue(const Stash *s, const Value *v)
{
    int readers = 0;
    if (op_info(v->def->kind)->class != DOT) return false;
    for (int u = 0; u < v->users.n; u++) {
        const Op *op = v->users.at[u];
        if (!s->forward[op->id]) continue;
        if (!joins(op)) return false;
        readers++;
    }
    return readers == 1;
}

static void find_needed(Stash *s)
{
    const Graph *g = s->g;
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        for (int i = 0; i < op->n_in; i++) {
            const Value *v = op->in[i];
            if (!s->forward[op->id] && op->kind != OP_commit && (made_forward(s, v) || v->origin == FROM_BATCH))
                s->needed[v->id] = 1;
            else if (s->forward[op->id] && !joins(op))
                s->stored[value_root(v)->id] = 1;
        }
        for (int i = 0; i < op->n_out && !is_cheap(op) && !has_epilogue(s, op->out[i]); i++) s->stored[op->out[i]->id] = 1;
        if (s->forward[op->id] && op->n_out == 1 && is_running_sum(s, op->out[0]))
            s->stored[op->out[0]->id] = s->running[op->out[0]->id] = 1;
    }
}

/* ---- what is there anyway ---- */
static bool is_there(const Stash *s, const Value *v)
{
    enum { SMALL = 256 }; /* bytes that are not worth an operation more: sums, counts */
    int64_t bytes;
    switch (v->origin) {
    case FROM_BATCH: return s->needed[v->id];
    case FROM_OP:
        if (v->def->kind == OP_constant || (s->needed[v->id] && !can_remake(s, v))) return true;
        return made_forward(s, v) && expr_is_int(value_bytes(s->g, v), &bytes) && bytes <= SMALL;
    default: return true; /* weights, states and numbers set for the step; assigns come after their readers */
    }
}

static void reach(Stash *s)
{
    const Graph *g = s->g;
    for (int i = 0; i < g->outputs.n; i++) /* gradients are saved as soon as they are there */
        if (strncmp(g->output_names[i], "gradient:", 9) != 0) s->there[g->outputs.at[i]->id] = 1;
    for (int o = 0; o < g->ops.n; o++)
        for (int i = 0; i < g->ops.at[o]->n_out; i++)
            if (s->needed[g->ops.at[o]->out[i]->id]) {
                s->seen[g->ops.at[o]->out[i]->id] = 1;
                vec_push(s->scratch, &s->reached, g->ops.at[o]->out[i]);
            }
    for (int i = 0; i < s->reached.n; i++) { /* grows */
        Value *v = s->reached.at[i];
        if (is_there(s, v)) s->there[v->id] = 1;
        if (s->there[v->id] || !can_remake(s, v)) continue;
        for (int k = 0; k < v->def->n_in; k++) {
            Value *a = v->def->in[k];
            if (s->seen[a->id]) continue;
            s->seen[a->id] = 1;
            vec_push(s->scratch, &s->reached, a);
        }
    }
}

/* ---- the cut ---- */
/* Bytes at the likely dims first; of equal ones, bytes at twice those dims; of equal ones, what lies in memory in the forward pass
 * anyway. */
static Flow price(const Stash *s, const Value *v)
{
    enum { PLACES = 50 };
    Expr *bytes = value_bytes(s->g, v), *doubled = bytes, *found[64];
    const int n = expr_symbols(s->symbols, bytes, found, 64);
    for (int i = 0; i < n; i++)
        doubled = expr_substitute(s->symbols, doubled, found[i], expr_int(s->symbols, 2 * expr_likely(s->symbols, found[i])));
    int64_t likely = expr_likely(s->symbols, bytes), tie = expr_likely(s->symbols, doubled);
    if (likely < 0) likely = 0;
    if (tie < 0 || tie >> (PLACES - 2)) tie = (int64_t)1 << (PLACES - 2);
    return ((Flow)likely << PLACES) + 2 * tie + !s->stored[value_root(v)->id] + 1;
}

static void cut(Stash *s)
{
    FlowNet *net = flow_new(s->scratch, 2 * s->reached.n + 2);
    const int source = 2 * s->reached.n, sink = source + 1;
    for (int i = 0; i < s->reached.n; i++) s->node[s->reached.at[i]->id] = 2 * i;
    for (int i = 0; i < s->reached.n; i++) {
        const Value *v = s->reached.at[i];
        if (s->there[v->id]) continue;
        flow_arc(net, 2 * i, 2 * i + 1, price(s, v));
        if (s->needed[v->id]) flow_arc(net, 2 * i + 1, sink, FLOW_ANY);
        if (!can_remake(s, v)) flow_arc(net, source, 2 * i, FLOW_ANY);
        for (int k = 0; can_remake(s, v) && k < v->def->n_in; k++)
            if (!s->there[v->def->in[k]->id]) flow_arc(net, s->node[v->def->in[k]->id] + 1, 2 * i, FLOW_ANY);
    }
    const uint8_t *reaches_sink = flow_minimum_cut(net, source, sink);
    for (int i = 0; i < s->reached.n; i++) {
        const Value *v = s->reached.at[i];
        if (s->there[v->id]) continue;
        s->remade[v->id] = reaches_sink[2 * i];
        s->kept[v->id] = !reaches_sink[2 * i] && reaches_sink[2 * i + 1];
    }
}

/* ---- is it better? ---- */
static bool is_kept(const Stash *s, const Value *v)
{
    return s->kept[v->id] || (s->there[v->id] && s->needed[v->id] && v->origin == FROM_OP && v->def->kind != OP_constant);
}

/* Bytes of distinct places in memory. */
static Expr *bytes_of(const Stash *s, bool chosen)
{
    Graph *g = s->g;
    uint8_t *counted = NEW_ARRAY(s->scratch, uint8_t, g->next_value + 1);
    Expr *sum = expr_int(s->symbols, 0);
    for (int i = 0; i < s->reached.n; i++) {
        const Value *v = s->reached.at[i];
        if (!(chosen ? is_kept(s, v) : s->needed[v->id]) || v->origin != FROM_OP) continue;
        /* a broadcast is read through: nobody would store it */
        while (v->def && (v->def->kind == OP_reshape || (!chosen && v->def->kind == OP_broadcast))) v = v->def->in[0];
        if (!v->def || v->def->kind == OP_constant || v->def->kind == OP_iota || counted[v->id]) continue;
        counted[v->id] = 1;
        sum = expr_add(s->symbols, sum, value_bytes(g, v));
    }
    return sum;
}

/* ---- remaking ---- */
static void clone_one(Stash *s, const Value *v)
{
    Graph *g = s->g;
    const Op *op = v->def;
    Value **in = NEW_ARRAY(s->scratch, Value *, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++) in[i] = s->remade[op->in[i]->id] ? s->clone[op->in[i]->id] : op->in[i];
    g->source = op->source;
    g->role = "gradient";
    Op *copy = graph_op(g, op->kind, in, op->n_in, 1);
    copy->n_attrs = op->n_attrs;
    for (int i = 0; i < op->n_attrs; i++) copy->attrs[i] = op->attrs[i];
    s->clone[v->id] = op_result(g, copy, 0, v->dtype, v->rank, v->shape);
    s->clone[v->id]->name = v->name;
    s->remade_count++;
}

/* Remakes v and what it is remade from, each once: operands first, on a stack of its own since chains may be long. */
static void remake(Stash *s, Value *v)
{
    Values stack = {0};
    vec_push(s->scratch, &stack, v);
    while (stack.n) {
        Value *top = stack.at[stack.n - 1], *missing = NULL;
        for (int i = 0; i < top->def->n_in && !missing; i++) {
            Value *a = top->def->in[i];
            if (s->remade[a->id] && !s->clone[a->id]) missing = a;
        }
        if (missing) {
            vec_push(s->scratch, &stack, missing);
            continue;
        }
        if (!s->clone[top->id]) clone_one(s, top);
        stack.n--;
    }
}

/* Clones stand before their first reader. */
static void rewrite_readers(Stash *s)
{
    Graph *g = s->g;
    const char *source = g->source, *role = g->role;
    const Ops before = g->ops;
    g->ops = (Ops){0};
    for (int o = 0; o < before.n; o++) {
        Op *op = before.at[o];
        for (int i = 0; i < op->n_in && !s->forward[op->id] && op->kind != OP_commit; i++) {
            Value *v = op->in[i];
            if (!s->remade[v->id]) continue;
            remake(s, v);
            op->in[i] = s->clone[v->id];
        }
        vec_push(g->arena, &g->ops, op);
    }
    g->source = source;
    g->role = role;
    graph_settle(g);
    graph_sort(g); /* assigns after the clones that read their targets */
}

/* ---- telling ---- */
/* What the backward pass does with v: reads it, remakes others from it. */
static void tell_use(const Stash *s, Buf *out, const Value *v)
{
    int remakes = 0;
    for (int u = 0; u < v->users.n; u++) {
        const Op *op = v->users.at[u];
        if (s->forward[op->id] && op->n_out == 1 && s->remade[op->out[0]->id]) remakes++;
    }
    if (s->needed[v->id]) buf_put(out, remakes ? "read, and " : "read");
    if (remakes) buf_printf(out, "others remade from it (%d)", remakes);
}

static void tell_kept(const Stash *s, Buf *out, Expr *before, Expr *after)
{
    Arena *arena = s->g->arena;
    buf_printf(out, "# kept for the backward pass: %s bytes, %lld at likely dims\n", expr_text(arena, after),
               (long long)expr_likely(s->symbols, after));
    buf_printf(out, "# where all that it reads would be: %s bytes, %lld at likely dims\n", expr_text(arena, before),
               (long long)expr_likely(s->symbols, before));
    for (int i = 0; i < s->reached.n; i++) {
        const Value *v = s->reached.at[i];
        if (!is_kept(s, v)) continue;
        buf_printf(out, "#   %%%d: %s bytes, ", v->id, expr_text(arena, value_bytes(s->g, v)));
        if (v->def)
            buf_printf(out, "%s \"%s\": ", op_info(v->def->kind)->name, v->def->source);
        else
            buf_printf(out, "input \"%s\": ", v->name);
        tell_use(s, out, v);
        buf_put(out, s->there[v->id] && can_remake(s, v) ? "; an output, or small\n"
                     : can_remake(s, v)                  ? "; nothing smaller would do\n"
                                                         : "; not cheap to make\n");
    }
}

void pass_stash(Graph *g, Buf *report)
{
    const int values = g->next_value + 1;
    Arena *scratch = arena_child(g->arena);
    Stash s = {.g = g,
               .scratch = scratch,
               .symbols = g->symbols,
               .forward = NEW_ARRAY(scratch, uint8_t, g->next_op + 1),
               .needed = NEW_ARRAY(scratch, uint8_t, values),
               .seen = NEW_ARRAY(scratch, uint8_t, values),
               .there = NEW_ARRAY(scratch, uint8_t, values),
               .stored = NEW_ARRAY(scratch, uint8_t, values),
               .wide = NEW_ARRAY(scratch, uint8_t, values),
               .running = NEW_ARRAY(scratch, uint8_t, values),
               .remade = NEW_ARRAY(scratch, uint8_t, values),
               .kept = NEW_ARRAY(scratch, uint8_t, values),
               .node = NEW_ARRAY(scratch, int, values),
               .clone = NEW_ARRAY(scratch, Value *, values)};
    if (!find_forward(&s)) return;
    find_wide(&s);
    find_needed(&s);
    reach(&s);
    cut(&s);
    Expr *before = bytes_of(&s, false), *after = bytes_of(&s, true);
    if (expr_likely(g->symbols, after) <= expr_likely(g->symbols, before)) {
        if (report) tell_kept(&s, report, before, after);
        rewrite_readers(&s);
        if (report) buf_printf(report, "# operations done again: %d\n", s.remade_count);
    }
    arena_reset(scratch);
}
