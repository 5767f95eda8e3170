/* Gradient rules of reductions, cumulative operations and softmax. */
#include "passes/gradient.h"

enum { MOST_AXES = 32 };

NO_GRADIENT(arg_max)
NO_GRADIENT(arg_min)

/* Spreads v, which lacks the reduced axes, over the operand's shape again. */
static Value *spread(Backward *b, const Op *op, Value *v)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    const Value *x = op->in[0];
    int64_t kept[MOST_AXES];
    int n_kept = 0;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = false;
        for (int k = 0; k < n; k++) reduced |= axes[k] == i;
        if (!reduced) kept[n_kept++] = i;
    }
    return b_broadcast(b->g, v, kept, x->rank, x->shape);
}

static Value *reduce_as(Backward *b, const Op *op, OpKind kind, Value *v)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    return b_reduce(b->g, kind, v, axes, n);
}

static Value *sum_along(Backward *b, Value *v, int64_t axis)
{
    return b_reduce_keep(b->g, OP_reduce_sum, v, &axis, 1);
}

void gradient_reduce_sum(Backward *b, Op *op)
{
    backward_add(b, op->in[0], spread(b, op, backward_of(b, op->out[0])));
}

/* Equal ones share, as torch.amax. */
static void extreme(Backward *b, Op *op)
{
    Value *x = op->in[0], *y = op->out[0], *g = backward_of(b, y);
    Value *won = b_binary(b->g, OP_eq, x, spread(b, op, y));
    Value *count = reduce_as(b, op, OP_reduce_sum, b_cast(b->g, won, x->dtype));
    Value *each = spread(b, op, b_div(b->g, g, count));
    backward_add(b, x, b_select(b->g, won, each, b_like(b->g, x, 0)));
}
void gradient_reduce_max(Backward *b, Op *op)
{
    extreme(b, op);
}
void gradient_reduce_min(Backward *b, Op *op)
{
    extreme(b, op);
}

/* The product of the others, right where some elements are 0: zeros are counted, and the product is of the rest. */
void gradient_reduce_prod(Backward *b, Op *op)
{
    Graph *g = b->g;
    Value *x = op->in[0], *zero = b_like(g, x, 0), *one = b_like(g, x, 1);
    Value *is_zero = b_binary(g, OP_eq, x, zero), *nonzero = b_select(g, is_zero, one, x);
    Value *zeros = spread(b, op, reduce_as(b, op, OP_reduce_sum, b_cast(g, is_zero, x->dtype)));
    Value *product = reduce_as(b, op, OP_reduce_prod, nonzero);
    Value *others = b_div(g, spread(b, op, b_mul(g, backward_of(b, op->out[0]), product)), nonzero);
    Value *other_zeros = b_sub(g, zeros, b_cast(g, is_zero, x->dtype));
    backward_add(b, x, b_select(g, b_binary(g, OP_eq, other_zeros, zero), others, zero));
}

/* ---- cumulative: backwards along the axis ---- */
static Value *sums_after(Backward *b, const Op *op, Value *v)
{
    return b_cumulative(b->g, OP_cum_sum, v, (int)op_int(op, ATTR_axis), op_int(op, ATTR_exclusive), !op_int(op, ATTR_reverse));
}

void gradient_cum_sum(Backward *b, Op *op)
{
    backward_add(b, op->in[0], sums_after(b, op, backward_of(b, op->out[0])));
}

/* dx[i] = sum over k from i of g[k] * (product of the x[j], j <= k, without x[i]).
 * Before the first zero that is (sum of g * y) / x[i]; at the first zero the same with this zero left out of the products; after
 * it, 0. */
void gradient_cum_prod(Backward *b, Op *op)
{
    Graph *g = b->g;
    int axis = (int)op_int(op, ATTR_axis);
    bool reverse = op_int(op, ATTR_reverse);
    Value *x = op->in[0], *y = op->out[0], *dy = backward_of(b, y), *zero = b_like(g, x, 0), *one = b_like(g, x, 1);
    Value *is_zero = b_binary(g, OP_eq, x, zero);
    Value *zeros_before = b_cumulative(g, OP_cum_sum, b_cast(g, is_zero, x->dtype), axis, true, reverse);
    Value *none_before = b_binary(g, OP_eq, zeros_before, zero);
    Value *first_zero = b_binary(g, OP_and, is_zero, none_before);
    Value *without = b_cumulative(g, OP_cum_prod, b_select(g, first_zero, one, x), axis, op_int(op, ATTR_exclusive), reverse);
    Value *before = b_div(g, sums_after(b, op, b_mul(g, dy, y)), b_select(g, is_zero, one, x));
    Value *at = sums_after(b, op, b_mul(g, dy, without));
    backward_add(b, x, b_select(g, none_before, b_select(g, first_zero, at, before), zero));
}

/* ---- composites ---- */
void gradient_softmax(Backward *b, Op *op)
{
    Value *y = op->out[0], *g = backward_of(b, y);
    Value *mean = sum_along(b, b_mul(b->g, g, y), op_int(op, ATTR_axis));
    backward_add(b, op->in[0], b_mul(b->g, y, b_sub(b->g, g, mean)));
}

void gradient_log_softmax(Backward *b, Op *op)
{
    Value *y = op->out[0], *g = backward_of(b, y);
    Value *sum = sum_along(b, g, op_int(op, ATTR_axis));
    backward_add(b, op->in[0], b_sub(b->g, g, b_mul(b->g, b_unary(b->g, OP_exp, y), sum)));
}
