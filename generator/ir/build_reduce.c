/* Builders of reductions, cumulative operations and top_k. */
#include "ir/build_private.h"

enum { MOST_AXES = 32 };

/* Marks which axes are given; a double or wrong one is an internal fault. */
static void mark_axes(const Graph *g, const Value *a, const int64_t *axes, int n, bool *marked)
{
    fits(a->rank <= MOST_AXES);
    for (int i = 0; i < a->rank; i++) marked[i] = false;
    for (int i = 0; i < n; i++) {
        fits(axes[i] >= 0 && axes[i] < a->rank && !marked[axes[i]]);
        marked[axes[i]] = true;
    }
}

Value *b_reduce(Graph *g, OpKind kind, Value *a, const int64_t *axes, int n)
{
    bool marked[MOST_AXES], sums = kind == OP_reduce_sum || kind == OP_reduce_prod;
    fits(sums || kind == OP_reduce_max || kind == OP_reduce_min);
    fits(!sums || a->dtype != DTYPE_bool);
    mark_axes(g, a, axes, n, marked);
    Expr *without_ones[MOST_AXES] = {0}, *shape[MOST_AXES] = {0};
    int64_t reduced[MOST_AXES];
    int rank = 0, kept = 0, n_reduced = 0;
    for (int i = 0; i < a->rank; i++) {
        if (marked[i] && expr_is(a->shape[i], 1)) continue; /* one element: itself */
        if (marked[i])
            reduced[n_reduced++] = rank;
        else
            shape[kept++] = a->shape[i];
        without_ones[rank++] = a->shape[i];
    }
    a = b_reshape(g, a, rank, without_ones);
    if (n_reduced == 0) return a;
    Value *v = make(g, kind, &a, 1, a->dtype, kept, shape);
    op_set_ints(g, v->def, ATTR_axes, reduced, n_reduced);
    return v;
}

Value *b_reduce_keep(Graph *g, OpKind kind, Value *a, const int64_t *axes, int n)
{
    bool marked[MOST_AXES];
    Expr *shape[MOST_AXES];
    mark_axes(g, a, axes, n, marked);
    for (int i = 0; i < a->rank; i++) shape[i] = marked[i] ? expr_int(g->symbols, 1) : a->shape[i];
    return b_reshape(g, b_reduce(g, kind, a, axes, n), a->rank, shape);
}

Value *b_reduce_mean(Graph *g, Value *a, const int64_t *axes, int n, bool keep)
{
    Expr *count = expr_int(g->symbols, 1);
    for (int i = 0; i < n; i++) count = expr_mul(g->symbols, count, a->shape[axes[i]]);
    Value *sum = (keep ? b_reduce_keep : b_reduce)(g, OP_reduce_sum, a, axes, n);
    return b_div(g, sum, b_cast(g, b_dim(g, count), a->dtype));
}

Value *b_arg(Graph *g, OpKind kind, Value *a, int axis, bool last)
{
    fits((kind == OP_arg_max || kind == OP_arg_min) && axis >= 0 && axis < a->rank && a->rank <= MOST_AXES);
    Expr *shape[MOST_AXES];
    for (int i = 0; i + 1 < a->rank; i++) shape[i] = a->shape[i < axis ? i : i + 1];
    Value *v = make(g, kind, &a, 1, DTYPE_i64, a->rank - 1, shape);
    op_set_int(g, v->def, ATTR_axis, axis);
    op_set_int(g, v->def, ATTR_last, last);
    return v;
}

Value *b_cumulative(Graph *g, OpKind kind, Value *a, int axis, bool exclusive, bool reverse)
{
    fits((kind == OP_cum_sum || kind == OP_cum_prod) && axis >= 0 && axis < a->rank && a->dtype != DTYPE_bool);
    Value *v = make(g, kind, &a, 1, a->dtype, a->rank, a->shape);
    op_set_int(g, v->def, ATTR_axis, axis);
    op_set_int(g, v->def, ATTR_exclusive, exclusive);
    op_set_int(g, v->def, ATTR_reverse, reverse);
    return v;
}

void b_top_k(Graph *g, Value *a, int axis, Expr *k, bool largest, Value **values, Value **indices)
{
    fits(axis >= 0 && axis < a->rank);
    Expr **shape = shape_copy(g, a->rank, a->shape, a->rank);
    shape[axis] = k;
    Op *op = graph_op(g, OP_top_k, &a, 1, 2);
    op_set_int(g, op, ATTR_axis, axis);
    op_set_int(g, op, ATTR_largest, largest);
    *values = op_result(g, op, 0, a->dtype, a->rank, shape);
    *indices = op_result(g, op, 1, DTYPE_i64, a->rank, shape);
}

Value *b_sum_to(Graph *g, Value *a, int rank, Expr *const *shape)
{
    fits(rank <= a->rank && a->rank <= MOST_AXES);
    int64_t axes[MOST_AXES];
    int n = 0, added = a->rank - rank;
    for (int i = 0; i < a->rank; i++) {
        Expr *to = i < added ? NULL : shape[i - added];
        if (!to || (expr_is(to, 1) && !expr_is(a->shape[i], 1)))
            axes[n++] = i;
        else
            dims_agree(g, to, a->shape[i], "sum to a shape");
    }
    return b_reshape(g, b_reduce(g, OP_reduce_sum, a, axes, n), rank, shape);
}
