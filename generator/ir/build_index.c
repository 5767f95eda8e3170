/* Builders of operations that only move elements, of scatter, and of those whose results have late sizes. */
#include "ir/build_private.h"
#include <string.h>

enum { MOST_AXES = 32 };

/* ---- broadcast, reshape, transpose ---- */
Value *b_broadcast(Graph *g, Value *a, const int64_t *axes, int rank, Expr *const *shape)
{
    int64_t composed[MOST_AXES];
    fits(a->rank <= rank && rank <= MOST_AXES);
    for (int i = 0; i < a->rank; i++) {
        fits(axes[i] >= 0 && axes[i] < rank && (i == 0 || axes[i - 1] < axes[i]));
        if (!expr_is(a->shape[i], 1)) dims_agree(g, shape[axes[i]], a->shape[i], "broadcast");
    }
    if (shape_is(g, a, rank, shape)) return a;
    if (a->def && a->def->kind == OP_broadcast) { /* once, from where it began */
        const int64_t *before = op_ints(a->def, ATTR_axes, NULL);
        a = a->def->in[0];
        for (int i = 0; i < a->rank; i++) composed[i] = axes[before[i]];
        axes = composed;
    }
    Value *v = make(g, OP_broadcast, &a, 1, a->dtype, rank, shape);
    op_set_ints(g, v->def, ATTR_axes, axes, a->rank);
    return v;
}

Value *b_broadcast_to(Graph *g, Value *a, int rank, Expr *const *shape)
{
    int64_t axes[MOST_AXES];
    fits(a->rank <= rank && rank <= MOST_AXES);
    for (int i = 0; i < a->rank; i++) axes[i] = i + rank - a->rank;
    return b_broadcast(g, a, axes, rank, shape);
}

Value *b_reshape(Graph *g, Value *a, int rank, Expr *const *shape)
{
    if (shape_is(g, a, rank, shape)) return a;
    while (a->def && a->def->kind == OP_reshape) a = a->def->in[0];
    if (shape_is(g, a, rank, shape)) return a;
    dims_agree(g, value_count(g, a), expr_product(g->symbols, shape, rank), "reshape");
    return make(g, OP_reshape, &a, 1, a->dtype, rank, shape);
}

static bool in_order(const int64_t *axes, int n)
{
    for (int i = 0; i < n; i++)
        if (axes[i] != i) return false;
    return true;
}

/* Whether axes move only past dims of 1, so that memory stays as it is: (n, 1) to (1, n). */
static bool moves_nothing(const Value *a, const int64_t *axes)
{
    int64_t last = -1;
    for (int i = 0; i < a->rank; i++) {
        if (expr_is(a->shape[axes[i]], 1)) continue;
        if (axes[i] < last) return false;
        last = axes[i];
    }
    return true;
}

Value *b_transpose(Graph *g, Value *a, const int64_t *axes)
{
    int64_t composed[MOST_AXES];
    bool seen[MOST_AXES] = {false};
    fits(a->rank <= MOST_AXES);
    for (int i = 0; i < a->rank; i++) {
        fits(axes[i] >= 0 && axes[i] < a->rank && !seen[axes[i]]);
        seen[axes[i]] = true;
        composed[i] = axes[i];
    }
    if (a->def && a->def->kind == OP_transpose) {
        const int64_t *before = op_ints(a->def, ATTR_axes, NULL);
        for (int i = 0; i < a->rank; i++) composed[i] = before[axes[i]];
        a = a->def->in[0];
    }
    if (in_order(composed, a->rank)) return a;
    Expr *shape[MOST_AXES];
    for (int i = 0; i < a->rank; i++) shape[i] = a->shape[composed[i]];
    if (moves_nothing(a, composed)) return b_reshape(g, a, a->rank, shape);
    Value *v = make(g, OP_transpose, &a, 1, a->dtype, a->rank, shape);
    op_set_ints(g, v->def, ATTR_axes, composed, a->rank);
    return v;
}

Value *b_swap_last(Graph *g, Value *a)
{
    int64_t axes[MOST_AXES];
    fits(a->rank >= 2 && a->rank <= MOST_AXES);
    for (int i = 0; i < a->rank; i++) axes[i] = i;
    axes[a->rank - 2] = a->rank - 1;
    axes[a->rank - 1] = a->rank - 2;
    return b_transpose(g, a, axes);
}

Value *b_expand_dims(Graph *g, Value *a, int axis)
{
    Expr *shape[MOST_AXES];
    fits(axis >= 0 && axis <= a->rank && a->rank < MOST_AXES);
    for (int i = 0; i <= a->rank; i++) shape[i] = i < axis ? a->shape[i] : i == axis ? expr_int(g->symbols, 1) : a->shape[i - 1];
    return b_reshape(g, a, a->rank + 1, shape);
}

Value *b_squeeze(Graph *g, Value *a, int axis)
{
    Expr *shape[MOST_AXES];
    fits(axis >= 0 && axis < a->rank && a->rank <= MOST_AXES);
    dims_agree(g, a->shape[axis], expr_int(g->symbols, 1), "squeeze");
    for (int i = 0; i + 1 < a->rank; i++) shape[i] = a->shape[i < axis ? i : i + 1];
    return b_reshape(g, a, a->rank - 1, shape);
}

/* ---- slice, pad, concat, gather ---- */
static bool starts_at_zero(Expr *const *start, const int64_t *step, int rank)
{
    for (int i = 0; i < rank; i++)
        if (!expr_is(start[i], 0) || step[i] != 1) return false;
    return true;
}

Value *b_slice(Graph *g, Value *a, Expr *const *start, const int64_t *step, Expr *const *shape)
{
    if (starts_at_zero(start, step, a->rank) && shape_is(g, a, a->rank, shape)) return a;
    for (int i = 0; i < a->rank; i++) fits(step[i] != 0);
    Value *v = make(g, OP_slice, &a, 1, a->dtype, a->rank, shape);
    op_set_exprs(g, v->def, ATTR_start, start, a->rank);
    op_set_ints(g, v->def, ATTR_step, step, a->rank);
    return v;
}

Value *b_slice_axis(Graph *g, Value *a, int axis, Expr *start, Expr *size)
{
    Expr *starts[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    fits(axis >= 0 && axis < a->rank && a->rank <= MOST_AXES);
    for (int i = 0; i < a->rank; i++) {
        starts[i] = i == axis ? start : expr_int(g->symbols, 0);
        shape[i] = i == axis ? size : a->shape[i];
        step[i] = 1;
    }
    return b_slice(g, a, starts, step, shape);
}

Value *b_pad(Graph *g, Value *a, Value *fill, Expr *const *start, const int64_t *step, Expr *const *shape)
{
    if (starts_at_zero(start, step, a->rank) && shape_is(g, a, a->rank, shape)) return a;
    fits(fill->dtype == a->dtype);
    for (int i = 0; i < a->rank; i++) fits(step[i] != 0);
    Value *in[] = {a, b_reshape(g, fill, 0, NULL)};
    Value *v = make(g, OP_pad, in, 2, a->dtype, a->rank, shape);
    op_set_exprs(g, v->def, ATTR_start, start, a->rank);
    op_set_ints(g, v->def, ATTR_step, step, a->rank);
    return v;
}

Value *b_concat(Graph *g, Value *const *parts, int n, int axis)
{
    fits(n > 0 && axis >= 0 && axis < parts[0]->rank);
    int rank = parts[0]->rank, kept = 0;
    Expr **shape = shape_copy(g, rank, parts[0]->shape, rank), *size = expr_int(g->symbols, 0);
    Value **in = NEW_ARRAY(g->arena, Value *, n);
    for (int p = 0; p < n; p++) {
        fits(parts[p]->rank == rank && parts[p]->dtype == parts[0]->dtype);
        for (int i = 0; i < rank; i++)
            if (i != axis) shape[i] = dims_agree(g, shape[i], parts[p]->shape[i], "concat");
        size = expr_add(g->symbols, size, parts[p]->shape[axis]);
        if (!expr_is(parts[p]->shape[axis], 0)) in[kept++] = parts[p];
    }
    if (kept == 0) return parts[0];
    if (kept == 1) return in[0];
    shape[axis] = size;
    Value *v = make(g, OP_concat, in, kept, in[0]->dtype, rank, shape);
    op_set_int(g, v->def, ATTR_axis, axis);
    return v;
}

Value *b_gather(Graph *g, Value *a, Value *index, int axis)
{
    fits(axis >= 0 && axis < a->rank && !dtype_is_float(index->dtype));
    index = b_cast(g, index, DTYPE_i64);
    int rank = a->rank - 1 + index->rank, n = 0;
    Expr **shape = NEW_ARRAY(g->arena, Expr *, rank + 1);
    for (int i = 0; i < axis; i++) shape[n++] = a->shape[i];
    for (int i = 0; i < index->rank; i++) shape[n++] = index->shape[i];
    for (int i = axis + 1; i < a->rank; i++) shape[n++] = a->shape[i];
    Value *in[] = {a, index};
    Value *v = make(g, OP_gather, in, 2, a->dtype, rank, shape);
    op_set_int(g, v->def, ATTR_axis, axis);
    return v;
}

/* ---- scatter and late ---- */
Value *b_scatter(Graph *g, Value *base, Value *index, Value *updates, int axis, const char *mode)
{
    fits(axis >= 0 && axis < base->rank && !dtype_is_float(index->dtype) && updates->dtype == base->dtype);
    fits(updates->rank == base->rank - 1 + index->rank);
    index = b_cast(g, index, DTYPE_i64);
    for (int i = 0; i < updates->rank; i++) {
        bool before = i < axis, in_index = !before && i < axis + index->rank;
        Expr *wanted = before ? base->shape[i] : in_index ? index->shape[i - axis] : base->shape[i - index->rank + 1];
        dims_agree(g, wanted, updates->shape[i], "scatter");
    }
    Value *in[] = {base, index, updates};
    Value *v = make(g, OP_scatter, in, 3, base->dtype, base->rank, base->shape);
    op_set_int(g, v->def, ATTR_axis, axis);
    op_set_text(g, v->def, ATTR_mode, mode);
    return v;
}

Value *b_nonzero(Graph *g, Value *a, const char *hint)
{
    Expr *shape[] = {expr_int(g->symbols, a->rank), expr_late(g->symbols, hint, value_count(g, a))};
    Op *op = graph_op(g, OP_nonzero, &a, 1, 2);
    op_result(g, op, 1, DTYPE_i64, 0, NULL);
    return op_result(g, op, 0, DTYPE_i64, 2, shape);
}

Op *b_unique(Graph *g, Value *a, bool sorted, const char *hint)
{
    fits(a->rank == 1);
    Expr *late = expr_late(g->symbols, hint, a->shape[0]);
    Op *op = graph_op(g, OP_unique, &a, 1, 5);
    op_set_int(g, op, ATTR_sorted, sorted);
    op_result(g, op, 0, a->dtype, 1, &late);
    op_result(g, op, 1, DTYPE_i64, 1, &late);
    op_result(g, op, 2, DTYPE_i64, 1, a->shape);
    op_result(g, op, 3, DTYPE_i64, 1, &late);
    op_result(g, op, 4, DTYPE_i64, 0, NULL);
    return op;
}
