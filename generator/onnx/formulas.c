/* Checks and pieces of formulas that families of composed operators share. */
#include "onnx/formulas.h"

/* ---- checks ---- */
Expr *must_agree(Import *im, const OnnxNode *node, Expr *a, Expr *b, const char *what)
{
    if (expr_always_equal(im->symbols, a, b)) return expr_is_int(b, NULL) ? b : a;
    if (!symbols_equate(im->symbols, a, b, NULL))
        import_error(im, node, "%s differ: %s and %s", what, expr_text(im->arena, a), expr_text(im->arena, b));
    return expr_is_int(b, NULL) ? b : expr_canonical(im->symbols, a);
}

void want_rank(Import *im, const OnnxNode *node, const Value *v, int low, int high, const char *what)
{
    if (v->rank >= low && (high < 0 || v->rank <= high)) return;
    const char *wanted = high < 0      ? arena_text(im->arena, "%d or more", low)
                         : low == high ? arena_text(im->arena, "%d", low)
                                       : arena_text(im->arena, "%d to %d", low, high);
    import_error(im, node, "%s has rank %d (%s); wanted %s", what, v->rank, type_text(im, v), wanted);
}

void want_same_type(Import *im, const OnnxNode *node, const Value *a, const Value *b)
{
    if (a->dtype != b->dtype)
        import_error(im, node, "%s of %s and %s: wanted one element type; put a Cast before it", node->op_type, type_text(im, a),
                     type_text(im, b));
}

void want_same_shape(Import *im, const OnnxNode *node, const Value *a, const Value *b, const char *what)
{
    if (a->rank != b->rank) import_error(im, node, "%s differ: %s and %s", what, type_text(im, a), type_text(im, b));
    for (int i = 0; i < a->rank; i++) must_agree(im, node, a->shape[i], b->shape[i], what);
}

Value *want_broadcast(Import *im, const OnnxNode *node, Value *v, int rank, Expr *const *shape, const char *what)
{
    int wide;
    Expr **both_shapes = broadcast_shapes(im, node, v->rank, v->shape, rank, shape, &wide);
    for (int i = 0; i < wide; i++)
        if (wide != rank || !expr_always_equal(im->symbols, both_shapes[i], shape[i]))
            import_error(im, node, "%s, %s, does not broadcast to %s", what, type_text(im, v), shape_text(im, shape, rank));
    return b_broadcast_to(im->graph, v, rank, shape);
}

Value *checked_binary(Import *im, const OnnxNode *node, OpKind kind, Value *a, Value *b)
{
    int rank;
    want_same_type(im, node, a, b);
    broadcast_shapes(im, node, a->rank, a->shape, b->rank, b->shape, &rank);
    return b_binary(im->graph, kind, a, b);
}

int64_t want_int(Import *im, const OnnxNode *node, Expr *e, const char *what)
{
    int64_t value;
    if (!expr_is_int(e, &value)) {
        e = expr_canonical(im->symbols, e);
        if (!expr_is_int(e, &value))
            import_error(im, node, "%s is %s, which changes from batch to batch; wanted a fixed size: --dim fixes one", what,
                         expr_text(im->arena, e));
    }
    return value;
}

Value *optional_input(Import *im, const OnnxNode *node, int i)
{
    return has_input(node, i) && !input_term(im, node, i)->is_absent ? input(im, node, i) : NULL;
}

Expr *want_quotient(Import *im, const OnnxNode *node, Expr *a, Expr *b, const char *what)
{
    Expr *quotient = divided_evenly(im, a, b);
    if (!quotient) import_error(im, node, "%s: %s does not divide by %s", what, expr_text(im->arena, a), expr_text(im->arena, b));
    return quotient;
}

/* ---- formulas ---- */
Value *reciprocal_sqrt(Graph *g, Value *a)
{
    return b_unary(g, OP_reciprocal, b_unary(g, OP_sqrt, a));
}

Value *clamped(Graph *g, Value *x, double low, double high)
{
    Value *least = b_like(g, x, low), *most = b_like(g, x, high);
    return b_select(g, less(g, x, least), least, b_select(g, less(g, most, x), most, x));
}

Value *along_channels(Graph *g, Value *v, int rank)
{
    Expr *shape[MOST_AXES];
    check(v->rank == 1 && rank >= 2 && rank <= MOST_AXES);
    shape[0] = v->shape[0];
    for (int i = 1; i < rank - 1; i++) shape[i] = expr_int(g->symbols, 1);
    return b_reshape(g, v, rank - 1, shape);
}

Value *positions(Graph *g, Dtype dtype, Expr *n, int axis, int rank)
{
    Expr *shape[MOST_AXES];
    for (int i = 0; i < rank; i++) shape[i] = i == axis ? n : expr_int(g->symbols, 1);
    return b_iota(g, dtype, axis, rank, shape);
}

Value *split_axis(Graph *g, Value *v, int axis, Expr *outer, Expr *inner)
{
    Expr *shape[MOST_AXES];
    check(v->rank < MOST_AXES);
    for (int i = 0; i < v->rank; i++) shape[i < axis ? i : i + 1] = v->shape[i];
    shape[axis] = outer;
    shape[axis + 1] = inner;
    return b_reshape(g, v, v->rank + 1, shape);
}

Value *merge_axes(Graph *g, Value *v, int axis)
{
    Expr *shape[MOST_AXES];
    for (int i = 0; i < v->rank; i++) shape[i <= axis ? i : i - 1] = v->shape[i];
    shape[axis] = expr_mul(g->symbols, v->shape[axis], v->shape[axis + 1]);
    return b_reshape(g, v, v->rank - 1, shape);
}
