/* Builders of contractions: dot with its flags, and ONNX's MatMul on top of it. */
#include "ir/build_private.h"

enum { MOST_AXES = 32 };

/* The operand of a transpose that swaps just the last two axes; NULL where v is no such transpose. */
static Value *swapped(const Value *v)
{
    if (!v->def || v->def->kind != OP_transpose) return NULL;
    const int64_t *axes = op_ints(v->def, ATTR_axes, NULL);
    for (int i = 0; i + 2 < v->rank; i++)
        if (axes[i] != i) return NULL;
    return axes[v->rank - 1] == v->rank - 2 && axes[v->rank - 2] == v->rank - 1 ? v->def->in[0] : NULL;
}

Value *b_dot(Graph *g, Value *a, Value *b, bool trans_a, bool trans_b)
{
    fits(a->rank >= 2 && a->rank == b->rank && a->rank <= MOST_AXES && a->dtype == b->dtype && a->dtype != DTYPE_bool);
    Value *inner;
    if ((inner = swapped(a))) a = inner, trans_a = !trans_a;
    if ((inner = swapped(b))) b = inner, trans_b = !trans_b;
    int batch = a->rank - 2;
    Expr *shape[MOST_AXES];
    for (int i = 0; i < batch; i++) shape[i] = dims_agree(g, a->shape[i], b->shape[i], "batch dims of dot");
    dims_agree(g, a->shape[batch + !trans_a], b->shape[batch + trans_b], "inner dims of dot");
    shape[batch] = a->shape[batch + trans_a];
    shape[batch + 1] = b->shape[batch + !trans_b];
    Value *in[] = {a, b};
    Value *v = make(g, OP_dot, in, 2, a->dtype, a->rank, shape);
    op_set_int(g, v->def, ATTR_trans_a, trans_a);
    op_set_int(g, v->def, ATTR_trans_b, trans_b);
    return v;
}

Value *b_dot_add(Graph *g, const Op *dot, Value *c)
{
    const Value *y = dot->out[0];
    Value *in[] = {dot->in[0], dot->in[1], c};
    fits(c->dtype == y->dtype && same_shape(g, c, y));
    Value *v = make(g, OP_dot_add, in, 3, y->dtype, y->rank, y->shape);
    op_set_int(g, v->def, ATTR_trans_a, op_int(dot, ATTR_trans_a));
    op_set_int(g, v->def, ATTR_trans_b, op_int(dot, ATTR_trans_b));
    return v;
}

/* a (.., m, k) with b (k, n): one dot over rows (..*m, k). */
static Value *rows_times_matrix(Graph *g, Value *a, Value *b)
{
    if (a->rank == 2) return b_dot(g, a, b, false, false);
    Expr *rows[] = {expr_product(g->symbols, a->shape, a->rank - 1), a->shape[a->rank - 1]};
    Value *product = b_dot(g, b_reshape(g, a, 2, rows), b, false, false);
    Expr **shape = shape_copy(g, a->rank - 1, a->shape, a->rank);
    shape[a->rank - 1] = product->shape[1];
    return b_reshape(g, product, a->rank, shape);
}

/* Leading dims of b that are all 1 do nothing where a has as many: (1, k, n) is (k, n). */
static Value *without_leading_ones(Graph *g, const Value *a, Value *b)
{
    if (b->rank > a->rank) return b;
    for (int i = 0; i < b->rank - 2; i++)
        if (!expr_is(b->shape[i], 1)) return b;
    return b_reshape(g, b, 2, b->shape + b->rank - 2);
}

static Value *batched(Graph *g, Value *a, Value *b)
{
    int rank = a->rank > b->rank ? a->rank : b->rank, batch = rank - 2;
    fits(rank <= MOST_AXES);
    Expr *of_a[MOST_AXES], *of_b[MOST_AXES];
    for (int i = 0; i < batch; i++) {
        int ia = i - (rank - a->rank), ib = i - (rank - b->rank);
        of_a[i] = ia < 0   ? b->shape[ib]
                  : ib < 0 ? a->shape[ia]
                           : dims_broadcast(g, a->shape[ia], b->shape[ib], "batch dims of a matrix product");
        of_b[i] = of_a[i];
    }
    for (int i = 0; i < 2; i++) {
        of_a[batch + i] = a->shape[a->rank - 2 + i];
        of_b[batch + i] = b->shape[b->rank - 2 + i];
    }
    Value *inner_a = swapped(a), *inner_b = swapped(b); /* keeps the swap last, where b_dot takes it in */
    if (inner_a) a = inner_a, of_a[batch] = a->shape[a->rank - 2], of_a[batch + 1] = a->shape[a->rank - 1];
    if (inner_b) b = inner_b, of_b[batch] = b->shape[b->rank - 2], of_b[batch + 1] = b->shape[b->rank - 1];
    return b_dot(g, b_broadcast_to(g, a, rank, of_a), b_broadcast_to(g, b, rank, of_b), inner_a, inner_b);
}

Value *b_matmul(Graph *g, Value *a, Value *b)
{
    fits(a->rank >= 1 && b->rank >= 1);
    bool vector_a = a->rank == 1, vector_b = b->rank == 1;
    if (vector_a) a = b_expand_dims(g, a, 0);
    if (vector_b) b = b_expand_dims(g, b, 1);
    b = without_leading_ones(g, a, b);
    Value *product = b->rank == 2 ? rows_times_matrix(g, a, b) : batched(g, a, b);
    if (vector_b) product = b_squeeze(g, product, product->rank - 1);
    if (vector_a) product = b_squeeze(g, product, product->rank - (vector_b ? 1 : 2));
    return product;
}
