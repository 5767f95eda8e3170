/* Arithmetic on one-element constants, done only where the device would give the same bits: operations that IEEE 754 rounds
 * correctly (computed in double and rounded once more to f32, f16 or bf16, which is exact for these), and integers that wrap
 * around. */
#include "ir/build_private.h"
#include <math.h>

bool scalar_constant(const Value *v, Scalar *s)
{
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape)) v = v->def->in[0];
    if (!v->def || v->def->kind != OP_constant) return false;
    const Attr *data = op_attr(v->def, ATTR_data);
    if (!data || data->n != dtype_bytes(v->dtype)) return false;
    s->real = element_read(v->dtype, data->data, 0);
    s->integer = dtype_is_float(v->dtype) ? s->real != 0 : element_read_int(v->dtype, data->data, 0);
    return true;
}

Value *scalar_value(Graph *g, Dtype dtype, Scalar s)
{
    int64_t room = 0;
    if (dtype_is_float(dtype))
        element_write(dtype, &room, 0, s.real);
    else
        element_write_int(dtype, &room, 0, s.integer);
    return b_constant(g, dtype, 0, NULL, &room);
}

static bool fold_real_unary(OpKind kind, double a, Scalar *r)
{
    switch (kind) {
    case OP_neg: r->real = -a; return true;
    case OP_abs: r->real = fabs(a); return true;
    case OP_sqrt: r->real = sqrt(a); return true;
    case OP_reciprocal: r->real = 1 / a; return true;
    case OP_floor: r->real = floor(a); return true;
    case OP_ceil: r->real = ceil(a); return true;
    case OP_round: r->real = rint(a); return true;
    case OP_is_nan: r->integer = isnan(a) != 0; return true;
    default: return false;
    }
}

bool fold_unary(OpKind kind, Dtype dtype, Scalar a, Scalar *result)
{
    Scalar r = {0, 0};
    bool known = true;
    if (dtype_is_float(dtype))
        known = fold_real_unary(kind, a.real, &r);
    else if (kind == OP_neg)
        r.integer = (int64_t)(0 - (uint64_t)a.integer);
    else if (kind == OP_abs && a.integer != INT64_MIN)
        r.integer = dtype_is_signed(dtype) && a.integer < 0 ? -a.integer : a.integer;
    else if (kind == OP_not)
        r.integer = !a.integer;
    else if (kind == OP_bit_not)
        r.integer = ~a.integer;
    else
        known = false;
    if (known) *result = r;
    return known;
}

static bool fold_real(OpKind kind, double a, double b, Scalar *r)
{
    switch (kind) {
    case OP_add: r->real = a + b; return true;
    case OP_sub: r->real = a - b; return true;
    case OP_mul: r->real = a * b; return true;
    case OP_div: r->real = a / b; return true;
    case OP_max:
        r->real = isnan(a) || isnan(b) ? NAN : a > b ? a : b;
        return a != b || a != 0; /* signs of zeros: the device's affair */
    case OP_min: r->real = isnan(a) || isnan(b) ? NAN : a < b ? a : b; return a != b || a != 0;
    case OP_eq: r->integer = a == b; return true;
    case OP_lt: r->integer = a < b; return true;
    case OP_le: r->integer = a <= b; return true;
    default: return false;
    }
}

static bool fold_integer(OpKind kind, bool has_sign, int64_t a, int64_t b, Scalar *r)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    bool less = has_sign ? a < b : x < y;
    switch (kind) {
    case OP_add: r->integer = (int64_t)(x + y); return true;
    case OP_sub: r->integer = (int64_t)(x - y); return true;
    case OP_mul: r->integer = (int64_t)(x * y); return true;
    case OP_div:
    case OP_rem:
    case OP_mod:
        if (b == 0 || (has_sign && b == -1)) return false; /* -1: INT_MIN overflows in its own width */
        if (!has_sign)
            r->integer = (int64_t)(kind == OP_div ? x / y : x % y);
        else if (kind == OP_div)
            r->integer = a / b;
        else
            r->integer = kind == OP_mod && a % b && ((a % b < 0) != (b < 0)) ? a % b + b : a % b;
        return true;
    case OP_max: r->integer = less ? b : a; return true;
    case OP_min: r->integer = less ? a : b; return true;
    case OP_eq: r->integer = a == b; return true;
    case OP_lt: r->integer = less; return true;
    case OP_le: r->integer = less || a == b; return true;
    case OP_and: r->integer = a && b; return true;
    case OP_or: r->integer = a || b; return true;
    case OP_xor: r->integer = a != b; return true;
    case OP_bit_and: r->integer = a & b; return true;
    case OP_bit_or: r->integer = a | b; return true;
    case OP_bit_xor: r->integer = a ^ b; return true;
    default: return false;
    }
}

bool fold_binary(OpKind kind, Dtype dtype, Scalar a, Scalar b, Scalar *result)
{
    Scalar r = {0, 0};
    bool known = dtype_is_float(dtype) ? fold_real(kind, a.real, b.real, &r)
                                       : fold_integer(kind, dtype_is_signed(dtype), a.integer, b.integer, &r);
    if (known) *result = r;
    return known;
}
