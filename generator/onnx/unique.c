/* Unique along an axis: slices compared with each other, all pairs. */
#include "onnx/formulas.h"

static Value *any_of(Graph *g, Value *v, int axis)
{
    const int64_t axes[] = {axis};
    Value *most = b_reduce(g, OP_reduce_max, b_cast(g, v, DTYPE_i32), axes, 1);
    return less(g, b_like(g, most, 0), most);
}

static Value *count_along(Graph *g, Value *v, int axis)
{
    const int64_t axes[] = {axis};
    return b_reduce(g, OP_reduce_sum, b_cast(g, v, DTYPE_i64), axes, 1);
}

/* x as (n, elements of a slice). */
static Value *as_rows(Graph *g, Value *x, int axis)
{
    int64_t axes[MOST_AXES];
    for (int i = 0; i < x->rank; i++) axes[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
    Value *first = b_transpose(g, x, axes);
    return b_reshape(g, first, 2, (Expr *[]){first->shape[0], expr_product(g->symbols, first->shape + 1, x->rank - 1)});
}

/* (n, n): whether row i comes before row j, by the first element in which they differ. */
static Value *row_less(Graph *g, Value *rows, Value *differ)
{
    Value *flat = b_reshape(g, rows, 1, (Expr *[]){value_count(g, rows)}), *width = b_dim(g, rows->shape[1]);
    Value *at = b_arg(g, OP_arg_max, b_cast(g, differ, DTYPE_i32), 2, false), *row = b_iota(g, DTYPE_i64, 0, 1, rows->shape);
    Value *own = b_gather(g, flat, b_add(g, b_mul(g, b_expand_dims(g, row, 1), width), at), 0);
    Value *other = b_gather(g, flat, b_add(g, b_mul(g, row, width), at), 0);
    return less(g, own, other);
}

/* Outputs as ONNX wants them: slices, places of first occurrences, each slice's place among the unique ones, counts. */
void unique_slices(Import *im, const OnnxNode *node, Value *x, int axis, bool sorted, const char *hint)
{
    Graph *g = im->graph;
    Value *rows = as_rows(g, x, axis), *row = b_iota(g, DTYPE_i64, 0, 1, rows->shape), *before_it = b_expand_dims(g, row, 1);
    Value *same_element = equal(g, b_expand_dims(g, rows, 1), b_expand_dims(g, rows, 0)); /* (n, n, elements) */
    Value *differ = b_unary(g, OP_not, same_element), *same = b_unary(g, OP_not, any_of(g, differ, 2));
    Value *is_first = b_unary(g, OP_not, any_of(g, both(g, same, less(g, row, before_it)), 1)); /* no equal row j < i */
    Value *first = b_arg(g, OP_arg_max, b_cast(g, same, DTYPE_i32), 1, false);
    Value *comes_before = sorted ? row_less(g, rows, differ) : less(g, before_it, first); /* row i before row j */
    Value *rank = count_along(g, both(g, b_expand_dims(g, is_first, 1), comes_before), 0);
    Value *found = b_nonzero(g, is_first, hint), *places = b_reshape(g, found, 1, &found->shape[1]);
    Value *order = b_scatter(g, b_full(g, DTYPE_i64, 0, 1, places->shape), b_gather(g, rank, places, 0), places, 0, "set");
    output(im, node, 0, b_gather(g, x, order, axis));
    output(im, node, 1, order);
    output(im, node, 2, rank);
    output(im, node, 3, b_gather(g, count_along(g, same, 1), order, 0));
}
