/* Floats of eight bits and fewer (OCP 8-bit and microscaling formats; Micikevicius et al. 2022, arXiv 2209.05433). */
#include "onnx/short_float.h"
#include "onnx/formulas.h"
#include <math.h>
#include <string.h>

typedef struct {
    int exponent_bits, mantissa_bits, bias;
    double most;
    enum { TOP_IS_NAN, TOP_IS_INFINITY, ZERO_IS_NAN, ALL_FINITE } special; /* what stands for what is no number */
} Format;

static const Format *format_of(int onnx_type)
{
    static const Format formats[ONNX_TYPES_COUNT] = {
        [ONNX_FLOAT8E4M3FN] = {4, 3, 7, 448, TOP_IS_NAN},       [ONNX_FLOAT8E4M3FNUZ] = {4, 3, 8, 240, ZERO_IS_NAN},
        [ONNX_FLOAT8E5M2] = {5, 2, 15, 57344, TOP_IS_INFINITY}, [ONNX_FLOAT8E5M2FNUZ] = {5, 2, 16, 57344, ZERO_IS_NAN},
        [ONNX_FLOAT4E2M1] = {2, 1, 1, 6, ALL_FINITE},           [ONNX_FLOAT6E2M3] = {2, 3, 1, 7.5, ALL_FINITE},
        [ONNX_FLOAT6E3M2] = {3, 2, 3, 28, ALL_FINITE},
    };
    bool known = onnx_type > 0 && onnx_type < ONNX_TYPES_COUNT && formats[onnx_type].most > 0;
    return known ? &formats[onnx_type] : NULL;
}

bool is_short_float(int onnx_type)
{
    return onnx_type == ONNX_FLOAT8E8M0 || format_of(onnx_type);
}

double short_float_number(OnnxType type, int code)
{
    if (type == ONNX_FLOAT8E8M0) return code == 255 ? NAN : ldexp(1, code - 127);
    const Format *f = format_of((int)type);
    int mantissa = code & ((1 << f->mantissa_bits) - 1), top = (1 << f->exponent_bits) - 1;
    int exponent = code >> f->mantissa_bits & top, negative = code >> (f->mantissa_bits + f->exponent_bits) & 1;
    if (f->special == ZERO_IS_NAN && negative && !exponent && !mantissa) return NAN;
    if (f->special == TOP_IS_NAN && exponent == top && mantissa == (1 << f->mantissa_bits) - 1) return NAN;
    if (f->special == TOP_IS_INFINITY && exponent == top) return mantissa ? NAN : negative ? -INFINITY : INFINITY;
    double size = exponent ? ldexp((1 << f->mantissa_bits) + mantissa, exponent - f->bias - f->mantissa_bits)
                           : ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
    return negative ? -size : size;
}

/* ---- rounding ---- */
/* 2^floor(log2 |x|), by the exponent in x's bits; at least `least`, never infinite. */
static Value *leading_power(Graph *g, Value *x, double least)
{
    Value *bits = b_bitcast(g, x, DTYPE_i32);
    Value *exponent = b_binary(g, OP_min, b_binary(g, OP_bit_and, bits, b_like(g, bits, 0x7f800000)), b_like(g, bits, 0x7f000000));
    Value *power = b_bitcast(g, exponent, DTYPE_f32);
    return b_binary(g, OP_max, power, b_like(g, power, least));
}

static Value *beyond(Graph *g, Value *x, double most)
{
    return less(g, b_like(g, x, most), b_unary(g, OP_abs, x));
}

/* Powers of two from 2^-127 to 2^127. */
static Value *power_of_two(Graph *g, Value *x, bool saturate, const char *round_mode)
{
    double least = ldexp(1, -127), most = ldexp(1, 127);
    Value *power = leading_power(g, x, least), *ratio = b_div(g, x, power), *up = NULL;
    if (strcmp(round_mode, "up") == 0) up = less(g, b_like(g, x, 1), ratio);
    if (strcmp(round_mode, "nearest") == 0) up = b_binary(g, OP_le, b_like(g, x, 1.5), ratio);
    Value *whole = power;
    if (up) whole = b_select(g, up, scaled(g, power, 2), power);
    whole = b_select(g, beyond(g, whole, most), b_like(g, x, saturate ? most : NAN), whole);
    Value *no_number = b_binary(g, OP_or, b_unary(g, OP_is_nan, x), less(g, x, b_like(g, x, 0)));
    return b_select(g, no_number, b_like(g, x, NAN), whole);
}

/* Where a program trains, the same numbers with the gradient of x, as a Cast between floats has it: x + (rounded - x), exact for
 * numbers so close, of which the difference, seen through its bits, has no gradient. */
static Value *straight_through(Import *im, Value *x, Value *rounded)
{
    Graph *g = im->graph;
    if (!im->training) return rounded;
    Value *difference = b_bitcast(g, b_bitcast(g, b_sub(g, rounded, x), DTYPE_i32), DTYPE_f32);
    return b_add(g, x, difference);
}

Value *short_float_rounded(Import *im, Value *x, int onnx_type, bool saturate, const char *round_mode)
{
    Graph *g = im->graph;
    const Format *f = format_of(onnx_type);
    x = b_cast(g, x, DTYPE_f32);
    if (!f) return straight_through(im, x, power_of_two(g, x, saturate, round_mode));
    Value *unit = scaled(g, leading_power(g, x, ldexp(1, 1 - f->bias)), ldexp(1, -f->mantissa_bits));
    Value *rounded = b_mul(g, b_unary(g, OP_round, b_div(g, x, unit)), unit);
    Value *most = b_select(g, less(g, x, b_like(g, x, 0)), b_like(g, x, -f->most), b_like(g, x, f->most)), *outside = most;
    if (!saturate && f->special == TOP_IS_INFINITY) outside = scaled(g, most, INFINITY);
    if (!saturate && (f->special == TOP_IS_NAN || f->special == ZERO_IS_NAN)) outside = b_like(g, x, NAN);
    Value *held = b_select(g, beyond(g, rounded, f->most), outside, rounded);
    /* A type that has no NaN gives 0 for it; one that keeps its code for NaN has no -0. */
    if (f->special == ALL_FINITE) held = b_select(g, b_unary(g, OP_is_nan, x), b_like(g, x, 0), held);
    if (f->special == ZERO_IS_NAN) held = shifted(g, held, 0);
    return straight_through(im, im->training ? clamped(g, x, -f->most, f->most) : x, held);
}
