/* The interpreter's elementwise operations and sources. */
#include "test/support/interpret_private.h"
#include <math.h>
#include <string.h>

static double floor_mod(double a, double b)
{
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double as_dtype(Dtype to, double a) /* the result of a cast, before it is rounded or wrapped */
{
    if (to == DTYPE_bool) return a != 0;
    return dtype_is_float(to) ? a : trunc(a);
}

static double unary(const Op *op, double a)
{
    switch (op->kind) {
    case OP_neg: return -a;
    case OP_abs: return fabs(a);
    case OP_sign: return isnan(a) ? a : (a > 0) - (a < 0);
    case OP_reciprocal: return 1 / a;
    case OP_sqrt: return sqrt(a);
    case OP_exp: return exp(a);
    case OP_expm1: return expm1(a);
    case OP_log: return log(a);
    case OP_log1p: return log1p(a);
    case OP_sin: return sin(a);
    case OP_cos: return cos(a);
    case OP_tan: return tan(a);
    case OP_asin: return asin(a);
    case OP_acos: return acos(a);
    case OP_atan: return atan(a);
    case OP_sinh: return sinh(a);
    case OP_cosh: return cosh(a);
    case OP_asinh: return asinh(a);
    case OP_acosh: return acosh(a);
    case OP_atanh: return atanh(a);
    case OP_tanh: return tanh(a);
    case OP_erf: return erf(a);
    case OP_sigmoid: return 1 / (1 + exp(-a));
    case OP_relu: return isnan(a) ? a : a > 0 ? a : 0;
    case OP_floor: return floor(a);
    case OP_ceil: return ceil(a);
    case OP_round: return rint(a);
    case OP_is_nan: return isnan(a);
    case OP_not: return a == 0;
    case OP_bit_not: return (double)~(int64_t)a;
    case OP_cast: return as_dtype(op->out[0]->dtype, a);
    case OP_bitcast: {
        int64_t room = 0;
        element_write(op->in[0]->dtype, &room, 0, a);
        return element_read(op->out[0]->dtype, &room, 0);
    }
    default: bug("unary %s", op_info(op->kind)->name);
    }
}

static double binary_integer(const Op *op, double x, double y)
{
    int64_t a = (int64_t)x, b = (int64_t)y;
    bool has_sign = dtype_is_signed(op->in[0]->dtype);
    switch (op->kind) {
    case OP_div: return (double)(a / b);
    case OP_pow: return pow(x, y);
    case OP_bit_and: return (double)(a & b);
    case OP_bit_or: return (double)(a | b);
    case OP_bit_xor: return (double)(a ^ b);
    case OP_shift_left: return b > 63 ? 0 : (double)(int64_t)((uint64_t)a << b);
    case OP_shift_right: return b > 63 ? 0 : has_sign ? (double)(a >> b) : (double)((uint64_t)a >> b);
    default: bug("binary %s of integers", op_info(op->kind)->name);
    }
}

static double binary(const Op *op, double a, double b)
{
    bool real = dtype_is_float(op->in[0]->dtype);
    switch (op->kind) {
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_div: return real ? a / b : binary_integer(op, a, b);
    case OP_pow: return real ? pow(a, b) : binary_integer(op, a, b);
    case OP_mod: return floor_mod(a, b);
    case OP_rem: return fmod(a, b);
    case OP_max: return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case OP_min: return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    case OP_eq: return a == b;
    case OP_lt: return a < b;
    case OP_le: return a <= b;
    case OP_and: return a != 0 && b != 0;
    case OP_or: return a != 0 || b != 0;
    case OP_xor: return (a != 0) != (b != 0);
    default: return binary_integer(op, a, b);
    }
}

void run_elementwise(Run *run, const Op *op, const Array *in, Array *out)
{
    (void)run;
    for (int k = 0; k < op->n_in; k++) check(in[k].n == out->n);
    for (int64_t i = 0; i < out->n; i++) {
        if (op->kind == OP_select)
            out->at[i] = in[0].at[i] != 0 ? in[1].at[i] : in[2].at[i];
        else if (op->n_in == 1)
            out->at[i] = unary(op, in[0].at[i]);
        else
            out->at[i] = binary(op, in[0].at[i], in[1].at[i]);
    }
}

void run_source(Run *run, const Op *op, Array *out)
{
    int64_t at[MOST_RANK];
    switch (op->kind) {
    case OP_constant: {
        const Attr *data = op_attr(op, ATTR_data);
        check(data && data->n == out->n * dtype_bytes(out->dtype));
        for (int64_t i = 0; i < out->n; i++) out->at[i] = element_read(out->dtype, data->data, i);
        break;
    }
    case OP_iota:
        for (int64_t i = 0; i < out->n; i++) {
            unravel(i, out->rank, out->dims, at);
            out->at[i] = (double)at[op_int(op, ATTR_axis)];
        }
        break;
    case OP_dims: {
        int n;
        Expr *const *content = op_exprs(op, ATTR_content, &n);
        for (int i = 0; i < n; i++) out->at[i] = (double)run_size(run, content[i]);
        break;
    }
    default: bug("%s has no value here", op_info(op->kind)->name);
    }
}

void run_softmax(Run *run, const Op *op, const Array *in, Array *out)
{
    (void)run;
    Along l = along(*in, (int)op_int(op, ATTR_axis));
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t first = o * l.size * l.inner + i;
            double most = -INFINITY, sum = 0;
            for (int64_t k = 0; k < l.size; k++) most = fmax(most, in->at[first + k * l.inner]);
            for (int64_t k = 0; k < l.size; k++) sum += exp(in->at[first + k * l.inner] - most);
            for (int64_t k = 0; k < l.size; k++) {
                double logarithm = in->at[first + k * l.inner] - most - log(sum);
                out->at[first + k * l.inner] = op->kind == OP_softmax ? exp(logarithm) : logarithm;
            }
        }
}
