/* Determinants. */
#include "onnx/formulas.h"

/* One step of elimination, inside the body: state m (batch, n, n) and d (batch), step k.  The row with the largest element of
 * column k, from row k on, changes places with row k; d takes in the pivot; the rows below lose their element of column k. */
static void eliminate(Import *im, Graph *g, Value *m, Value *d, Value *k)
{
    Expr *batch = m->shape[0], *n = m->shape[1], *one = number(im, 1);
    Expr *row_shape[] = {batch, n, one};
    Value *row = b_broadcast_to(g, positions(g, DTYPE_i64, n, 1, 3), 3, row_shape),
          *column_k = equal(g, positions(g, DTYPE_i64, n, 2, 3), k);
    Value *zero = b_like(g, m, 0), *unit = b_like(g, m, 1);
    const int64_t last[] = {2}, rows[] = {1};
    Value *column = b_reduce_keep(g, OP_reduce_sum, b_select(g, column_k, m, zero), last, 1); /* (batch, n, 1) */
    Value *is_k = equal(g, row, k), *above = less(g, row, k);
    Value *size = b_select(g, above, b_like(g, m, -1), b_unary(g, OP_abs, column));
    Value *best = b_expand_dims(g, b_arg(g, OP_arg_max, size, 1, false), 1), *is_best = equal(g, row, best); /* (batch, 1, 1) */
    Value *row_k = b_reduce_keep(g, OP_reduce_sum, b_select(g, is_k, m, zero), rows, 1);
    Value *row_best = b_reduce_keep(g, OP_reduce_sum, b_select(g, is_best, m, zero), rows, 1); /* (batch, 1, n) */
    Value *swapped = b_select(g, is_k, row_best, b_select(g, is_best, row_k, m));
    Value *pivot = b_reduce_keep(g, OP_reduce_sum, b_select(g, column_k, row_best, zero), last, 1);
    Value *turned = b_select(g, equal(g, best, k), pivot, negated(g, pivot));
    Value *safe = b_select(g, equal(g, pivot, zero), unit, pivot);
    Value *own = b_reduce_keep(g, OP_reduce_sum, b_select(g, column_k, swapped, zero), last, 1);
    Value *factor = b_select(g, less(g, k, row), b_div(g, own, safe), zero);
    vec_push(g->arena, &g->outputs, b_sub(g, swapped, b_mul(g, factor, row_best)));
    vec_push(g->arena, &g->outputs, b_mul(g, d, b_reshape(g, turned, 1, &batch)));
}

/* x (.., n, n): elimination with pivots, as a scan over columns. */
void import_Det(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    want_rank(im, node, x, 2, MOST_AXES, "X (.., n, n)");
    Expr *n = must_agree(im, node, x->shape[x->rank - 2], x->shape[x->rank - 1], "rows and columns");
    Expr *batch = expr_product(im->symbols, x->shape, x->rank - 2), *flat[] = {batch, n, n};
    Value *operands[] = {b_reshape(g, x, 3, flat), b_full(g, x->dtype, 1, 1, &batch), b_iota(g, DTYPE_i64, 0, 1, &n)};
    Graph *body = graph_new(im->arena, im->symbols, "det");
    body->source = g->source;
    Value *m = graph_input(body, "m", x->dtype, 3, flat, FROM_PARAMETER),
          *d = graph_input(body, "d", x->dtype, 1, &batch, FROM_PARAMETER);
    eliminate(im, body, m, d, graph_input(body, "k", DTYPE_i64, 0, NULL, FROM_PARAMETER));
    Op *op = b_scan(g, body, operands, 3, 2, 1, false, n);
    output(im, node, 0, b_reshape(g, op->out[1], x->rank - 2, x->shape));
}
