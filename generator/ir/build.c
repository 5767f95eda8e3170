/* Builders of elementwise operations, and what all builders share: dims that agree, broadcasting. */
#include "ir/build_private.h"
#include <string.h>

/* ---- shared ---- */
Expr *dims_agree(Graph *g, Expr *a, Expr *b, const char *what)
{
    if (a == b) return a;
    if (!expr_always_equal(g->symbols, a, b) && !symbols_equate(g->symbols, a, b, NULL))
        misfit("%s: %s and %s can never be equal (at \"%s\")", what, expr_text(g->arena, a), expr_text(g->arena, b), g->source);
    return expr_is_int(b, NULL) ? b : expr_canonical(g->symbols, a);
}

Expr *dims_broadcast(Graph *g, Expr *a, Expr *b, const char *what)
{
    if (expr_is(a, 1)) return b;
    if (expr_is(b, 1)) return a;
    return dims_agree(g, a, b, what);
}

bool shape_is(Graph *g, const Value *v, int rank, Expr *const *shape)
{
    if (v->rank != rank) return false;
    for (int i = 0; i < rank; i++)
        if (!expr_always_equal(g->symbols, v->shape[i], shape[i])) return false;
    return true;
}

Expr **shape_copy(Graph *g, int rank, Expr *const *shape, int room)
{
    Expr **copy = NEW_ARRAY(g->arena, Expr *, room + 1);
    for (int i = 0; i < rank; i++) copy[i] = shape[i];
    return copy;
}

Value *make(Graph *g, OpKind kind, Value *const *in, int n_in, Dtype dtype, int rank, Expr *const *shape)
{
    int64_t size;
    for (int i = 0; i < rank; i++)
        if (expr_is_int(shape[i], &size) && size < 0)
            misfit("%s: axis %d would have size %lld (at \"%s\")", op_info(kind)->name, i, (long long)size, g->source);
    return op_result(g, graph_op(g, kind, in, n_in, 1), 0, dtype, rank, shape);
}

/* ---- elementwise ---- */
/* The shape of a and b broadcast against each other, aligned at the last axis. */
static Expr **broadcast_shape(Graph *g, OpKind kind, int rank_a, Expr *const *a, int rank_b, Expr *const *b, int *rank)
{
    *rank = rank_a > rank_b ? rank_a : rank_b;
    Expr **shape = NEW_ARRAY(g->arena, Expr *, *rank + 1);
    for (int i = 0; i < *rank; i++) {
        int of_a = i - (*rank - rank_a), of_b = i - (*rank - rank_b);
        shape[i] = of_a < 0 ? b[of_b] : of_b < 0 ? a[of_a] : dims_broadcast(g, a[of_a], b[of_b], op_info(kind)->name);
    }
    return shape;
}

static bool takes(OpKind kind, Dtype d)
{
    bool real = dtype_is_float(d), truth = d == DTYPE_bool, integer = !real && !truth;
    switch (kind) {
    case OP_not:
    case OP_and:
    case OP_or:
    case OP_xor: return truth;
    case OP_bit_not:
    case OP_bit_and:
    case OP_bit_or:
    case OP_bit_xor:
    case OP_shift_left:
    case OP_shift_right: return integer;
    case OP_neg:
    case OP_abs:
    case OP_sign:
    case OP_relu: return real || integer;
    case OP_eq: return true;
    default: return op_info(kind)->operands == 1 ? real : real || integer;
    }
}

static void check_dtype(Graph *g, OpKind kind, Dtype d)
{
    if (!takes(kind, d)) misfit("%s of %s (at \"%s\")", op_info(kind)->name, dtype_name(d), g->source);
}

static bool gives_bool(OpKind kind)
{
    return kind == OP_eq || kind == OP_lt || kind == OP_le || kind == OP_is_nan;
}

Value *b_unary(Graph *g, OpKind kind, Value *a)
{
    fits(op_info(kind)->class == ELEMENTWISE && op_info(kind)->operands == 1 && kind != OP_cast && kind != OP_bitcast);
    check_dtype(g, kind, a->dtype);
    Dtype dtype = gives_bool(kind) ? DTYPE_bool : a->dtype;
    Scalar s;
    if (scalar_constant(a, &s) && fold_unary(kind, a->dtype, s, &s))
        return b_broadcast_to(g, scalar_value(g, dtype, s), a->rank, a->shape);
    return make(g, kind, &a, 1, dtype, a->rank, a->shape);
}

Value *b_cast(Graph *g, Value *a, Dtype dtype)
{
    if (a->dtype == dtype) return a;
    Scalar s;
    if (scalar_constant(a, &s)) {
        int64_t room = 0;
        if (dtype_is_float(a->dtype) || dtype_is_float(dtype))
            element_write(dtype, &room, 0, s.real);
        else
            element_write_int(dtype, &room, 0, s.integer);
        return b_broadcast_to(g, b_constant(g, dtype, 0, NULL, &room), a->rank, a->shape);
    }
    return make(g, OP_cast, &a, 1, dtype, a->rank, a->shape);
}

Value *b_bitcast(Graph *g, Value *a, Dtype dtype)
{
    fits(dtype_bytes(a->dtype) == dtype_bytes(dtype));
    return a->dtype == dtype ? a : make(g, OP_bitcast, &a, 1, dtype, a->rank, a->shape);
}

/* Whether kind leaves its first operand as it is when the second is s, down to the sign of zero. */
static bool is_neutral(OpKind kind, Dtype d, Scalar s)
{
    bool real = dtype_is_float(d), minus_zero = real && s.real == 0 && 1 / s.real < 0;
    switch (kind) {
    case OP_add: return real ? minus_zero : s.integer == 0;
    case OP_sub: return real ? s.real == 0 && !minus_zero : s.integer == 0;
    case OP_mul:
    case OP_div: return s.real == 1;
    case OP_pow: return real && s.real == 1;
    case OP_and: return s.integer != 0;
    case OP_or:
    case OP_xor: return s.integer == 0;
    default: return false;
    }
}

static bool commutes(OpKind kind)
{
    return kind == OP_add || kind == OP_mul || kind == OP_and || kind == OP_or || kind == OP_xor;
}

Value *b_binary(Graph *g, OpKind kind, Value *a, Value *b)
{
    fits(op_info(kind)->class == ELEMENTWISE && op_info(kind)->operands == 2);
    if (a->dtype != b->dtype)
        misfit("%s of %s and %s (at \"%s\")", op_info(kind)->name, dtype_name(a->dtype), dtype_name(b->dtype), g->source);
    check_dtype(g, kind, a->dtype);
    int rank;
    Expr **shape = broadcast_shape(g, kind, a->rank, a->shape, b->rank, b->shape, &rank);
    Dtype dtype = gives_bool(kind) ? DTYPE_bool : a->dtype;
    Scalar x, y, result;
    bool a_known = scalar_constant(a, &x), b_known = scalar_constant(b, &y);
    if (a_known && b_known && fold_binary(kind, a->dtype, x, y, &result))
        return b_broadcast_to(g, scalar_value(g, dtype, result), rank, shape);
    if (b_known && is_neutral(kind, a->dtype, y) && shape_is(g, a, rank, shape)) return a;
    if (a_known && commutes(kind) && is_neutral(kind, a->dtype, x) && shape_is(g, b, rank, shape)) return b;
    Value *in[] = {b_broadcast_to(g, a, rank, shape), b_broadcast_to(g, b, rank, shape)};
    return make(g, kind, in, 2, dtype, rank, shape);
}

Value *b_select(Graph *g, Value *condition, Value *a, Value *b)
{
    fits(condition->dtype == DTYPE_bool && a->dtype == b->dtype);
    int rank;
    Expr **shape = broadcast_shape(g, OP_select, a->rank, a->shape, b->rank, b->shape, &rank);
    shape = broadcast_shape(g, OP_select, condition->rank, condition->shape, rank, shape, &rank);
    Scalar s;
    if (a == b) return b_broadcast_to(g, a, rank, shape);
    if (scalar_constant(condition, &s)) return b_broadcast_to(g, s.integer ? a : b, rank, shape);
    Value *in[] = {b_broadcast_to(g, condition, rank, shape), b_broadcast_to(g, a, rank, shape), b_broadcast_to(g, b, rank, shape)};
    return make(g, OP_select, in, 3, a->dtype, rank, shape);
}

Value *b_softmax(Graph *g, OpKind softmax_or_log, Value *a, int axis)
{
    fits((softmax_or_log == OP_softmax || softmax_or_log == OP_log_softmax) && axis >= 0 && axis < a->rank &&
         dtype_is_float(a->dtype));
    Value *v = make(g, softmax_or_log, &a, 1, a->dtype, a->rank, a->shape);
    op_set_int(g, v->def, ATTR_axis, axis);
    return v;
}
