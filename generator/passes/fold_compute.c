/* Arithmetic on constants: floats in double, rounded once to the result's dtype; integers in 64 bits, wrapping around as their
 * dtype does. */
#include "passes/fold.h"
#include "support/diag.h"
#include <math.h>
#include <string.h>

/* ---- known tensors ---- */
static bool fixed_dims(const Value *v, Known *k)
{
    *k = (Known){.dtype = v->dtype, .rank = v->rank, .n = 1};
    if (v->rank > FOLD_MOST_AXES) return false;
    for (int i = 0; i < v->rank; i++) {
        if (!expr_is_int(v->shape[i], &k->dims[i])) return false;
        k->n *= k->dims[i];
        if (k->n > FOLD_MOST_ELEMENTS) return false;
    }
    return true;
}

static void unravel(int64_t flat, const Known *k, int64_t *at)
{
    for (int i = k->rank - 1; i >= 0; i--) {
        at[i] = flat % k->dims[i];
        flat /= k->dims[i];
    }
}

static int64_t ravel(const Known *k, const int64_t *at)
{
    int64_t flat = 0;
    for (int i = 0; i < k->rank; i++) flat = flat * k->dims[i] + at[i];
    return flat;
}

static void *room_for(Graph *g, const Known *k)
{
    return arena_alloc(g->arena, (size_t)(k->n * dtype_bytes(k->dtype)) + 8);
}

static void copy_element(const Known *from, int64_t i, void *to, int64_t k)
{
    size_t size = (size_t)dtype_bytes(from->dtype);
    memcpy((char *)to + (size_t)k * size, (const char *)from->data + (size_t)i * size, size);
}

static void known_broadcast(Graph *g, const Op *op, const Known *from, Known *to)
{
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    int64_t at[FOLD_MOST_AXES], source[FOLD_MOST_AXES];
    void *data = room_for(g, to);
    for (int64_t i = 0; i < to->n; i++) {
        unravel(i, to, at);
        for (int k = 0; k < from->rank; k++) source[k] = from->dims[k] == 1 ? 0 : at[axes[k]];
        copy_element(from, ravel(from, source), data, i);
    }
    to->data = data;
}

static void known_iota(Graph *g, const Op *op, Known *to)
{
    int64_t at[FOLD_MOST_AXES];
    void *data = room_for(g, to);
    for (int64_t i = 0; i < to->n; i++) {
        unravel(i, to, at);
        if (dtype_is_float(to->dtype))
            element_write(to->dtype, data, i, (double)at[op_int(op, ATTR_axis)]);
        else
            element_write_int(to->dtype, data, i, at[op_int(op, ATTR_axis)]);
    }
    to->data = data;
}

bool fold_known(Graph *g, const Value *v, Known *known)
{
    Known from;
    if (!v->def || !fixed_dims(v, known)) return false;
    switch (v->def->kind) {
    case OP_constant: known->data = op_attr(v->def, ATTR_data)->data; return true;
    case OP_iota: known_iota(g, v->def, known); return true;
    case OP_broadcast:
        if (!fold_known(g, v->def->in[0], &from)) return false;
        known_broadcast(g, v->def, &from, known);
        return true;
    default: return false;
    }
}

bool fold_scalar(const Value *v, Known *known)
{
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape)) v = v->def->in[0];
    if (!v->def || v->def->kind != OP_constant || !fixed_dims(v, known) || known->n != 1) return false;
    known->rank = 0;
    known->data = op_attr(v->def, ATTR_data)->data;
    return true;
}

/* ---- numbers ---- */
typedef struct {
    double real;   /* of floats */
    int64_t whole; /* of integers and bool */
} Number;

static Number read_number(const Known *k, int64_t i)
{
    Number number = {element_read(k->dtype, k->data, i), 0};
    if (!dtype_is_float(k->dtype)) number.whole = element_read_int(k->dtype, k->data, i);
    return number;
}

static void write_number(Dtype dtype, void *data, int64_t i, Number x)
{
    if (dtype_is_float(dtype))
        element_write(dtype, data, i, x.real);
    else
        element_write_int(dtype, data, i, x.whole);
}

static bool unary_real(OpKind kind, double a, Number *r)
{
    switch (kind) {
    case OP_neg: r->real = -a; return true;
    case OP_abs: r->real = fabs(a); return true;
    case OP_sign: r->real = isnan(a) ? a : (a > 0) - (a < 0); return true;
    case OP_reciprocal: r->real = 1 / a; return true;
    case OP_sqrt: r->real = sqrt(a); return true;
    case OP_exp: r->real = exp(a); return true;
    case OP_expm1: r->real = expm1(a); return true;
    case OP_log: r->real = log(a); return true;
    case OP_log1p: r->real = log1p(a); return true;
    case OP_sin: r->real = sin(a); return true;
    case OP_cos: r->real = cos(a); return true;
    case OP_tan: r->real = tan(a); return true;
    case OP_asin: r->real = asin(a); return true;
    case OP_acos: r->real = acos(a); return true;
    case OP_atan: r->real = atan(a); return true;
    case OP_sinh: r->real = sinh(a); return true;
    case OP_cosh: r->real = cosh(a); return true;
    case OP_asinh: r->real = asinh(a); return true;
    case OP_acosh: r->real = acosh(a); return true;
    case OP_atanh: r->real = atanh(a); return true;
    case OP_tanh: r->real = tanh(a); return true;
    case OP_erf: r->real = erf(a); return true;
    case OP_sigmoid: r->real = 1 / (1 + exp(-a)); return true;
    case OP_relu: r->real = isnan(a) ? a : a > 0 ? a : 0; return true;
    case OP_floor: r->real = floor(a); return true;
    case OP_ceil: r->real = ceil(a); return true;
    case OP_round: r->real = rint(a); return true;
    case OP_is_nan: r->whole = isnan(a) != 0; return true;
    default: return false;
    }
}

static bool unary_whole(OpKind kind, bool has_sign, int64_t a, Number *r)
{
    bool negative = has_sign && a < 0;
    switch (kind) {
    case OP_neg: r->whole = (int64_t)(0 - (uint64_t)a); return true;
    case OP_abs: r->whole = negative ? (int64_t)(0 - (uint64_t)a) : a; return true;
    case OP_sign: r->whole = negative ? -1 : a != 0; return true;
    case OP_relu: r->whole = negative ? 0 : a; return true;
    case OP_not: r->whole = !a; return true;
    case OP_bit_not: r->whole = ~a; return true;
    default: return false;
    }
}

static double floor_mod(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static bool binary_real(OpKind kind, double a, double b, Number *r)
{
    bool either_nan = isnan(a) || isnan(b);
    switch (kind) {
    case OP_add: r->real = a + b; return true;
    case OP_sub: r->real = a - b; return true;
    case OP_mul: r->real = a * b; return true;
    case OP_div: r->real = a / b; return true;
    case OP_pow: r->real = pow(a, b); return true;
    case OP_mod: r->real = floor_mod(a, b); return true;
    case OP_rem: r->real = fmod(a, b); return true;
    case OP_max: r->real = either_nan ? NAN : a > b ? a : b; return true;
    case OP_min: r->real = either_nan ? NAN : a < b ? a : b; return true;
    case OP_eq: r->whole = a == b; return true;
    case OP_lt: r->whole = a < b; return true;
    case OP_le: r->whole = a <= b; return true;
    default: return false;
    }
}

/* Towards zero, or with the divisor's sign; not where nothing is defined. */
static bool divide(OpKind kind, bool has_sign, int64_t a, int64_t b, Number *r)
{
    if (b == 0 || (has_sign && b == -1 && a == INT64_MIN)) return false;
    int64_t quotient = has_sign ? a / b : (int64_t)((uint64_t)a / (uint64_t)b);
    int64_t rest = has_sign ? a % b : (int64_t)((uint64_t)a % (uint64_t)b);
    if (kind == OP_mod && has_sign && rest && (rest < 0) != (b < 0)) rest += b;
    r->whole = kind == OP_div ? quotient : rest;
    return true;
}

static bool power(int64_t a, int64_t b, Number *r)
{
    if (b < 0) return false;
    uint64_t product = 1, base = (uint64_t)a;
    for (uint64_t e = (uint64_t)b; e; e >>= 1, base *= base)
        if (e & 1) product *= base;
    r->whole = (int64_t)product;
    return true;
}

static bool binary_whole(OpKind kind, Dtype dtype, int64_t a, int64_t b, Number *r)
{
    bool has_sign = dtype_is_signed(dtype), less = has_sign ? a < b : (uint64_t)a < (uint64_t)b;
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (kind) {
    case OP_add: r->whole = (int64_t)(x + y); return true;
    case OP_sub: r->whole = (int64_t)(x - y); return true;
    case OP_mul: r->whole = (int64_t)(x * y); return true;
    case OP_div:
    case OP_mod:
    case OP_rem: return divide(kind, has_sign, a, b, r);
    case OP_pow: return power(a, b, r);
    case OP_max: r->whole = less ? b : a; return true;
    case OP_min: r->whole = less ? a : b; return true;
    case OP_eq: r->whole = a == b; return true;
    case OP_lt: r->whole = less; return true;
    case OP_le: r->whole = less || a == b; return true;
    case OP_and: r->whole = a && b; return true;
    case OP_or: r->whole = a || b; return true;
    case OP_xor: r->whole = !a != !b; return true;
    case OP_bit_and: r->whole = a & b; return true;
    case OP_bit_or: r->whole = a | b; return true;
    case OP_bit_xor: r->whole = a ^ b; return true;
    case OP_shift_left:
        if (y >= 8 * (uint64_t)dtype_bytes(dtype)) return false;
        r->whole = (int64_t)(x << y);
        return true;
    case OP_shift_right:
        if (y >= 8 * (uint64_t)dtype_bytes(dtype)) return false;
        r->whole = has_sign ? a >> y : (int64_t)(x >> y);
        return true;
    default: return false;
    }
}

static Number cast(Dtype from, Dtype to, Number a)
{
    if (to == DTYPE_bool) return (Number){0, dtype_is_float(from) ? a.real != 0 : a.whole != 0};
    if (dtype_is_float(from) && !dtype_is_float(to)) {
        int64_t room = 0;
        element_write(to, &room, 0, a.real);
        return (Number){0, element_read_int(to, &room, 0)};
    }
    return a; /* read_number gave both */
}

static Number bitcast(Dtype from, Dtype to, Number a)
{
    int64_t room = 0;
    if (dtype_is_float(from))
        element_write(from, &room, 0, a.real);
    else
        element_write_int(from, &room, 0, a.whole);
    return (Number){element_read(to, &room, 0), dtype_is_float(to) ? 0 : element_read_int(to, &room, 0)};
}

/* ---- operations ---- */
static bool compute_elementwise(const Op *op, const Known *in, const Known *to, void *data)
{
    Dtype dtype = in[0].dtype;
    bool real = dtype_is_float(dtype);
    for (int64_t i = 0; i < to->n; i++) {
        Number a = read_number(&in[0], i), r = {0, 0};
        bool known = true;
        if (op->kind == OP_select)
            r = read_number(&in[a.whole ? 1 : 2], i);
        else if (op->kind == OP_cast)
            r = cast(dtype, to->dtype, a);
        else if (op->kind == OP_bitcast)
            r = bitcast(dtype, to->dtype, a);
        else if (op->n_in == 1)
            known = real ? unary_real(op->kind, a.real, &r) : unary_whole(op->kind, dtype_is_signed(dtype), a.whole, &r);
        else {
            Number b = read_number(&in[1], i);
            known = real ? binary_real(op->kind, a.real, b.real, &r) : binary_whole(op->kind, dtype, a.whole, b.whole, &r);
        }
        if (!known) return false;
        write_number(to->dtype, data, i, r);
    }
    return true;
}

static bool fixed_starts(const Op *op, int64_t *starts)
{
    int n;
    Expr *const *e = op_exprs(op, ATTR_start, &n);
    for (int i = 0; i < n; i++)
        if (!expr_is_int(e[i], &starts[i])) return false;
    return true;
}

static bool compute_slice(const Op *op, const Known *in, const Known *to, void *data)
{
    int64_t starts[FOLD_MOST_AXES], at[FOLD_MOST_AXES];
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    if (!fixed_starts(op, starts)) return false;
    for (int64_t i = 0; i < to->n; i++) {
        unravel(i, to, at);
        for (int k = 0; k < to->rank; k++) {
            at[k] = starts[k] + step[k] * at[k];
            if (at[k] < 0 || at[k] >= in->dims[k]) return false;
        }
        copy_element(in, ravel(in, at), data, i);
    }
    return true;
}

static bool compute_pad(const Op *op, const Known *in, const Known *to, void *data)
{
    int64_t starts[FOLD_MOST_AXES], at[FOLD_MOST_AXES];
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    if (!fixed_starts(op, starts)) return false;
    for (int64_t i = 0; i < to->n; i++) copy_element(&in[1], 0, data, i);
    for (int64_t i = 0; i < in->n; i++) {
        bool inside = true;
        unravel(i, in, at);
        for (int k = 0; k < to->rank; k++) {
            at[k] = starts[k] + step[k] * at[k];
            inside &= at[k] >= 0 && at[k] < to->dims[k];
        }
        if (inside) copy_element(in, i, data, ravel(to, at));
    }
    return true;
}

static void compute_transpose(const Op *op, const Known *in, const Known *to, void *data)
{
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    int64_t at[FOLD_MOST_AXES], from[FOLD_MOST_AXES];
    for (int64_t i = 0; i < to->n; i++) {
        unravel(i, to, at);
        for (int k = 0; k < to->rank; k++) from[axes[k]] = at[k];
        copy_element(in, ravel(in, from), data, i);
    }
}

static bool compute_gather(const Op *op, const Known *in, const Known *to, void *data)
{
    int axis = (int)op_int(op, ATTR_axis), n_index = in[1].rank;
    int64_t at[FOLD_MOST_AXES], from[FOLD_MOST_AXES];
    for (int64_t i = 0; i < to->n; i++) {
        unravel(i, to, at);
        int64_t place = element_read_int(in[1].dtype, in[1].data, ravel(&in[1], at + axis));
        if (place < 0 || place >= in[0].dims[axis]) return false;
        for (int k = 0; k < in[0].rank; k++) from[k] = k < axis ? at[k] : k == axis ? place : at[k - 1 + n_index];
        copy_element(in, ravel(in, from), data, i);
    }
    return true;
}

static void compute_concat(const Op *op, const Known *in, const Known *to, void *data)
{
    int axis = (int)op_int(op, ATTR_axis);
    int64_t at[FOLD_MOST_AXES];
    for (int64_t i = 0; i < to->n; i++) {
        const Known *part = in;
        unravel(i, to, at);
        for (; at[axis] >= part->dims[axis]; part++) at[axis] -= part->dims[axis];
        copy_element(part, ravel(part, at), data, i);
    }
}

static bool compute_index(const Op *op, const Known *in, const Known *to, void *data)
{
    switch (op->kind) {
    case OP_reshape: memcpy(data, in->data, (size_t)(to->n * dtype_bytes(to->dtype))); return true;
    case OP_transpose: compute_transpose(op, in, to, data); return true;
    case OP_slice: return compute_slice(op, in, to, data);
    case OP_pad: return compute_pad(op, in, to, data);
    case OP_concat: compute_concat(op, in, to, data); return true;
    case OP_gather: return compute_gather(op, in, to, data);
    default: return false;
    }
}

static OpKind pairwise(OpKind kind)
{
    switch (kind) {
    case OP_reduce_sum:
    case OP_cum_sum: return OP_add;
    case OP_reduce_prod:
    case OP_cum_prod: return OP_mul;
    case OP_reduce_max: return OP_max;
    case OP_reduce_min: return OP_min;
    default: return kind;
    }
}

static bool combine(OpKind kind, Dtype dtype, Number *sum, Number x)
{
    if (dtype_is_float(dtype)) return binary_real(pairwise(kind), sum->real, x.real, sum);
    return binary_whole(pairwise(kind), dtype, sum->whole, x.whole, sum);
}

static bool compute_reduce(Graph *g, const Op *op, const Known *in, const Known *to, void *data)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    Number *sums = NEW_ARRAY(g->arena, Number, to->n + 1);
    bool *begun = NEW_ARRAY(g->arena, bool, to->n + 1), reduced[FOLD_MOST_AXES] = {false};
    for (int i = 0; i < n; i++) reduced[axes[i]] = true;
    for (int64_t i = 0; i < in->n; i++) {
        int64_t at[FOLD_MOST_AXES], flat = 0;
        unravel(i, in, at);
        for (int k = 0, next = 0; k < in->rank; k++)
            if (!reduced[k]) flat = flat * to->dims[next++] + at[k];
        if (!begun[flat])
            sums[flat] = read_number(in, i);
        else if (!combine(op->kind, in->dtype, &sums[flat], read_number(in, i)))
            return false;
        begun[flat] = true;
    }
    for (int64_t i = 0; i < to->n; i++) {
        if (!begun[i]) return false; /* of nothing */
        write_number(to->dtype, data, i, sums[i]);
    }
    return true;
}

static bool compute_cumulative(const Op *op, const Known *in, const Known *to, void *data)
{
    int axis = (int)op_int(op, ATTR_axis);
    bool exclusive = op_int(op, ATTR_exclusive), reverse = op_int(op, ATTR_reverse);
    int64_t size = to->dims[axis], inner = 1;
    for (int i = axis + 1; i < to->rank; i++) inner *= to->dims[i];
    for (int64_t row = 0; size && row < to->n / size; row++) {
        Number sum = {op->kind == OP_cum_prod, op->kind == OP_cum_prod};
        for (int64_t k = 0; k < size; k++) {
            int64_t at = (row / inner * size + (reverse ? size - 1 - k : k)) * inner + row % inner;
            Number before = sum;
            if (!combine(op->kind, in->dtype, &sum, read_number(in, at))) return false;
            write_number(to->dtype, data, at, exclusive ? before : sum);
        }
    }
    return true;
}

bool fold_compute(Graph *g, const Op *op, const Known *in, Known *to)
{
    void *data = room_for(g, to);
    to->data = data;
    switch (op_info(op->kind)->class) {
    case ELEMENTWISE: return compute_elementwise(op, in, to, data);
    case INDEX: return compute_index(op, in, to, data);
    case REDUCE: return op->kind != OP_arg_max && op->kind != OP_arg_min && compute_reduce(g, op, in, to, data);
    case CUMULATIVE: return compute_cumulative(op, in, to, data);
    default: return false;
    }
}
