/* Gradient rules of sources, index operations, sort, scatter and late ones: what moves elements forward moves their gradients back.
 */
#include "passes/gradient.h"
#include <string.h>

enum { MOST_AXES = 32 };

NO_GRADIENT(constant)
NO_GRADIENT(iota)
NO_GRADIENT(dims)
NO_GRADIENT(random)
NO_GRADIENT(nonzero)
NO_GRADIENT(assign)
NO_GRADIENT(commit)
NO_GRADIENT(finite)

/* ---- along an axis ---- */
/* Flat places in a tensor of the given shape: those that `index`, which has its rank, names along axis. */
static Value *flat_places(Graph *g, Value *index, int axis, Expr *const *shape)
{
    Symbols *s = g->symbols;
    Value *place = NULL;
    for (int i = 0; i < index->rank; i++) {
        Expr *stride = expr_product(s, shape + i + 1, index->rank - i - 1);
        Value *along = i == axis ? index : b_iota(g, DTYPE_i64, i, index->rank, index->shape);
        Value *term = b_mul(g, along, b_dim(g, stride));
        place = place ? b_add(g, place, term) : term;
    }
    Expr *count = value_count(g, index);
    return b_reshape(g, place, 1, &count);
}

Value *take_along(Graph *g, Value *a, Value *index, int axis)
{
    Expr *count = value_count(g, a);
    Value *places = flat_places(g, index, axis, a->shape);
    return b_reshape(g, b_gather(g, b_reshape(g, a, 1, &count), places, 0), index->rank, index->shape);
}

Value *put_along(Graph *g, Value *updates, Value *index, int axis, Expr *const *shape)
{
    Expr *count = expr_product(g->symbols, shape, index->rank), *n = value_count(g, updates);
    Value *places = flat_places(g, index, axis, shape), *zeros = b_full(g, updates->dtype, 0, 1, &count);
    return b_reshape(g, b_scatter(g, zeros, places, b_reshape(g, updates, 1, &n), 0, "add"), index->rank, shape);
}

void gradient_top_k(Backward *b, Op *op)
{
    Value *x = op->in[0], *g = backward_of(b, op->out[0]);
    if (g) backward_add(b, x, put_along(b->g, g, op->out[1], (int)op_int(op, ATTR_axis), x->shape));
}

/* ---- views ---- */
Value *sum_broadcast(Graph *graph, Value *g, const Value *x, const int64_t *axes)
{
    int64_t summed[MOST_AXES];
    int n = 0;
    for (int i = 0, next = 0; i < g->rank; i++) {
        bool is_of_x = next < x->rank && axes[next] == i;
        if (!is_of_x || (expr_is(x->shape[next], 1) && !expr_is(g->shape[i], 1))) summed[n++] = i;
        next += is_of_x;
    }
    return b_reshape(graph, b_reduce(graph, OP_reduce_sum, g, summed, n), x->rank, x->shape);
}

void gradient_broadcast(Backward *b, Op *op)
{
    backward_add(b, op->in[0], sum_broadcast(b->g, backward_of(b, op->out[0]), op->in[0], op_ints(op, ATTR_axes, NULL)));
}

void gradient_reshape(Backward *b, Op *op)
{
    backward_add(b, op->in[0], b_reshape(b->g, backward_of(b, op->out[0]), op->in[0]->rank, op->in[0]->shape));
}

void gradient_transpose(Backward *b, Op *op)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    int64_t back[MOST_AXES];
    for (int i = 0; i < n; i++) back[axes[i]] = i;
    backward_add(b, op->in[0], b_transpose(b->g, backward_of(b, op->out[0]), back));
}

void gradient_slice(Backward *b, Op *op)
{
    Value *x = op->in[0], *g = backward_of(b, op->out[0]);
    Expr *const *start = op_exprs(op, ATTR_start, NULL);
    backward_add(b, x, b_pad(b->g, g, b_like(b->g, g, 0), start, op_ints(op, ATTR_step, NULL), x->shape));
}

/* The elements of g that stand where a's elements went, 0 for those that a negative pad dropped:
 * first a window of g that holds all of them, padded where it reaches outside, then every step-th of it. */
static Value *unpad(Graph *graph, Value *g, Expr *const *start, const int64_t *step, const Value *a)
{
    Symbols *s = graph->symbols;
    Expr *zero = expr_int(s, 0), *one = expr_int(s, 1);
    Expr *window_start[MOST_AXES], *window_shape[MOST_AXES], *slice_start[MOST_AXES];
    int64_t ones[MOST_AXES];
    for (int i = 0; i < a->rank; i++) {
        Expr *reach = expr_mul(s, expr_sub(s, a->shape[i], one), expr_int(s, step[i])), *end = expr_add(s, start[i], reach);
        Expr *first = step[i] > 0 ? start[i] : end, *last = step[i] > 0 ? end : start[i];
        bool inside = expr_at_least(s, first, zero) && expr_at_least(s, expr_sub(s, g->shape[i], one), last);
        window_start[i] = inside ? zero : expr_sub(s, zero, first);
        window_shape[i] = inside ? g->shape[i] : expr_add(s, expr_sub(s, last, first), one);
        slice_start[i] = inside ? start[i] : expr_sub(s, start[i], first);
        ones[i] = 1;
    }
    Value *window = b_pad(graph, g, b_like(graph, g, 0), window_start, ones, window_shape);
    return b_slice(graph, window, slice_start, step, a->shape);
}

void gradient_pad(Backward *b, Op *op)
{
    Value *a = op->in[0], *fill = op->in[1], *g = backward_of(b, op->out[0]);
    Expr *const *start = op_exprs(op, ATTR_start, NULL);
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    if (backward_wants(b, a)) backward_add(b, a, unpad(b->g, g, start, step, a));
    if (!backward_wants(b, fill)) return;
    int64_t all[MOST_AXES];
    for (int i = 0; i < g->rank; i++) all[i] = i;
    Value *padding = b_pad(b->g, zeros_like(b->g, a), b_like(b->g, g, 1), start, step, g->shape);
    backward_add(b, fill, b_reduce(b->g, OP_reduce_sum, b_mul(b->g, g, padding), all, g->rank));
}

void gradient_concat(Backward *b, Op *op)
{
    int axis = (int)op_int(op, ATTR_axis);
    Value *g = backward_of(b, op->out[0]);
    Expr *start = expr_int(b->g->symbols, 0);
    for (int i = 0; i < op->n_in; i++) {
        Expr *size = op->in[i]->shape[axis];
        if (backward_wants(b, op->in[i])) backward_add(b, op->in[i], b_slice_axis(b->g, g, axis, start, size));
        start = expr_add(b->g->symbols, start, size);
    }
}

void gradient_gather(Backward *b, Op *op)
{
    Value *a = op->in[0], *g = backward_of(b, op->out[0]);
    backward_add(b, a, b_scatter(b->g, zeros_like(b->g, a), op->in[1], g, (int)op_int(op, ATTR_axis), "add"));
}

void gradient_unique(Backward *b, Op *op)
{
    Value *x = op->in[0], *g = backward_of(b, op->out[0]);
    if (g) backward_add(b, x, b_scatter(b->g, zeros_like(b->g, x), op->out[1], g, 0, "add")); /* to the first of each */
}

/* ---- scatter ---- */
typedef struct {
    Backward *b;
    Graph *graph;
    Value *base, *index, *updates, *g;
    int axis;
    Value *inside; /* bool, shape of updates: the index is in range; what is not was dropped */
    Value *places; /* the index, 0 where it is out of range */
} Scatter;

static Scatter scatter_of(Backward *b, Op *op)
{
    Scatter s = {b, b->g, op->in[0], op->in[1], op->in[2], backward_of(b, op->out[0]), (int)op_int(op, ATTR_axis), NULL, NULL};
    Graph *g = b->g;
    Value *zero = b_like(g, s.index, 0);
    Value *inside =
        b_binary(g, OP_and, b_binary(g, OP_le, zero, s.index), b_binary(g, OP_lt, s.index, b_dim(g, s.base->shape[s.axis])));
    int64_t axes[MOST_AXES];
    for (int i = 0; i < s.index->rank; i++) axes[i] = s.axis + i;
    s.places = b_select(g, inside, s.index, zero);
    s.inside = b_broadcast(g, inside, axes, s.updates->rank, s.updates->shape);
    return s;
}

/* What of a, which has the base's shape, stands where each update went; 0 for dropped ones. */
static Value *at_updates(const Scatter *s, Value *a)
{
    return b_select(s->graph, s->inside, b_gather(s->graph, a, s->places, s->axis), b_like(s->graph, a, 0));
}

static Value *scatter(const Scatter *s, Value *base, Value *updates, const char *mode)
{
    return b_scatter(s->graph, base, s->index, updates, s->axis, mode);
}

static void scatter_set(const Scatter *s)
{
    if (backward_wants(s->b, s->base)) backward_add(s->b, s->base, scatter(s, s->g, zeros_like(s->graph, s->updates), "set"));
    if (backward_wants(s->b, s->updates)) backward_add(s->b, s->updates, at_updates(s, s->g));
}

static void scatter_add(const Scatter *s)
{
    backward_add(s->b, s->base, s->g);
    if (backward_wants(s->b, s->updates)) backward_add(s->b, s->updates, at_updates(s, s->g));
}

/* All that reached the maximum, base included, share its gradient. */
static void scatter_extreme(const Scatter *s, Value *y)
{
    Graph *g = s->graph;
    Dtype dtype = y->dtype;
    Value *base_won = b_cast(g, b_binary(g, OP_eq, s->base, y), dtype);
    Value *equal = b_binary(g, OP_eq, s->updates, b_gather(g, y, s->places, s->axis));
    Value *update_won = b_cast(g, b_binary(g, OP_and, s->inside, equal), dtype);
    Value *each = b_div(g, s->g, scatter(s, base_won, update_won, "add"));
    if (backward_wants(s->b, s->base)) backward_add(s->b, s->base, b_mul(g, each, base_won));
    if (backward_wants(s->b, s->updates)) backward_add(s->b, s->updates, b_mul(g, at_updates(s, each), update_won));
}

/* The product of the others, right where some factors are 0: zeros are counted, and the product is of the rest. */
static void scatter_mul(const Scatter *s)
{
    Graph *g = s->graph;
    Value *zero = b_like(g, s->updates, 0), *one = b_like(g, s->updates, 1), *u = s->updates;
    Value *is_zero = b_binary(g, OP_eq, u, zero);
    Value *zeros = scatter(s, zeros_like(g, s->base), b_cast(g, is_zero, u->dtype), "add");
    Value *nonzero = b_select(g, is_zero, one, u);
    Value *product = scatter(s, b_full(g, u->dtype, 1, s->base->rank, s->base->shape), nonzero, "mul");
    Value *no_zero = b_binary(g, OP_eq, zeros, zero);
    if (backward_wants(s->b, s->base)) backward_add(s->b, s->base, b_mul(g, s->g, b_select(g, no_zero, product, zero)));
    if (!backward_wants(s->b, s->updates)) return;
    Value *here = b_gather(g, zeros, s->places, s->axis), *others = b_div(g, b_gather(g, product, s->places, s->axis), nonzero);
    Value *other_zeros = b_sub(g, here, b_cast(g, is_zero, u->dtype));
    others = b_select(g, b_binary(g, OP_eq, other_zeros, zero), others, zero);
    backward_add(s->b, u, b_mul(g, at_updates(s, b_mul(g, s->g, s->base)), others));
}

void gradient_scatter(Backward *b, Op *op)
{
    const char *mode = op_text(op, ATTR_mode);
    Scatter s = scatter_of(b, op);
    if (strcmp(mode, "set") == 0)
        scatter_set(&s);
    else if (strcmp(mode, "add") == 0)
        scatter_add(&s);
    else if (strcmp(mode, "mul") == 0)
        scatter_mul(&s);
    else if (strcmp(mode, "max") == 0 || strcmp(mode, "min") == 0)
        scatter_extreme(&s, op->out[0]);
    else
        bug("scatter with mode \"%s\"", mode);
}
