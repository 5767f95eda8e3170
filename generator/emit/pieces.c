/* What a loop stores at each place that it walks: an element of each result; of a concat of parts of the walked shape, an element of
 * each part:
 *
 *     y[at] = v;
 *     y[at + 16] = v2;
 *     y[at + 32] = v3;                                        */
#include "emit/kernel.h"
#include "support/diag.h"

static bool is_walked_by_parts(const Kernel *k, const Value *v, const Value *walked)
{
    if (!v->def || v->def->kind != OP_concat) return false;
    for (int i = 0; i < v->rank; i++)
        if (!expr_always_equal(k->symbols, v->shape[i], walked->shape[i])) return true;
    return false;
}

static void add_piece(Pieces *pieces, Value *v, const Index *at)
{
    check(pieces->n < MAX_PIECES);
    pieces->value[pieces->n] = v;
    pieces->at[pieces->n++] = *at;
}

static void check_shape(const Kernel *k, const Value *v, const Value *walked)
{
    bool same = v->rank == walked->rank;
    for (int i = 0; i < v->rank && same; i++) same = expr_always_equal(k->symbols, v->shape[i], walked->shape[i]);
    if (!same) bug("a loop over the shape of %%%d stores %%%d, which has another", walked->id, v->id);
}

void pieces_of(Kernel *k, Value *result, const Value *walked, const Index *index, Pieces *pieces)
{
    if (!is_walked_by_parts(k, result, walked)) {
        check_shape(k, result, walked);
        add_piece(pieces, result, index);
        return;
    }
    const Op *op = result->def;
    for (int i = 0; i < op->n_in; i++) check_shape(k, op->in[i], walked);
    const int axis = (int)op_int(op, ATTR_axis);
    Index at = index_vector(k, op->in[0], index);
    for (int i = 0; i < op->n_in; i++) {
        add_piece(pieces, op->in[i], &at);
        const Affine size = affine_expr(k, op->in[i]->shape[axis]);
        at.at[axis] = affine_add(k, &at.at[axis], &size, expr_int(k->symbols, 1));
    }
}

void pieces_compute(Kernel *k, Pieces *pieces, const Index *index)
{
    const bool alone = pieces->n == 1;
    for (int i = 0; i < pieces->n; i++) {
        Value *v = pieces->value[i];
        pieces->code[i] = alone ? element_stored(k, v, index) : element(k, v, index);
        if (!alone) pieces->code[i] = named(k, pieces->code[i], compute_type(v->dtype), local_name(k, v));
    }
}

void piece_store(Kernel *k, const Pieces *pieces, int p, const Value *result, const char *to)
{
    const Affine at = index_flat(k, result, &pieces->at[p]);
    affine_seen(k, &at);
    lanes_store(k, result, to, &at, stored(k, result->dtype, pieces->code[p]));
}
