/* Elements of constant data as numbers: reading and writing every element type, half and bfloat16 included. */
#include "ir/ir.h"
#include "support/diag.h"
#include <math.h>
#include <string.h>

/* A small float format: bits of the significand with the hidden one, and of the exponent. */
typedef struct {
    int precision, exponent_bits;
} Format;
static const Format HALF = {11, 5}, BFLOAT = {8, 8};

static uint16_t encode(Format f, double x)
{
    int stored = f.precision - 1, bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return (uint16_t)(sign | (top << stored) | (1 << (stored - 1)));
    double magnitude = fabs(x);
    if (isinf(x)) return (uint16_t)(sign | (top << stored));
    if (magnitude == 0) return sign;
    int exponent;
    frexp(magnitude, &exponent); /* magnitude in [2^(exponent-1), 2^exponent) */
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    int64_t units = (int64_t)rint(ldexp(magnitude, stored - exponent)); /* of the last place; at most 2^precision */
    /* Adding lets a carry run into the exponent: 1.11…1 rounds up to 10.0, the greatest number to infinity. */
    int64_t bits = ((int64_t)(exponent + bias - 1) << stored) + units;
    if (bits > (int64_t)top << stored) bits = (int64_t)top << stored;
    return (uint16_t)(sign | bits);
}

static double decode(Format f, uint16_t bits)
{
    int stored = f.precision - 1, bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
    int exponent = (bits & 0x7fff) >> stored, fraction = bits & ((1 << stored) - 1);
    double magnitude = exponent == top ? (fraction ? NAN : INFINITY)
                       : exponent      ? ldexp((1 << stored) + fraction, exponent - bias - stored)
                                       : ldexp(fraction, 1 - bias - stored);
    return bits & 0x8000 ? -magnitude : magnitude;
}

#define INTEGERS(I)                                                                                                                \
    I(i8, int8_t) I(i16, int16_t) I(i32, int32_t) I(i64, int64_t) I(u8, uint8_t) I(u16, uint16_t) I(u32, uint32_t) I(u64, uint64_t)

double element_read(Dtype d, const void *data, int64_t i)
{
    switch (d) {
    case DTYPE_f32: return ((const float *)data)[i];
    case DTYPE_f64: return ((const double *)data)[i];
    case DTYPE_f16: return decode(HALF, ((const uint16_t *)data)[i]);
    case DTYPE_bf16: return decode(BFLOAT, ((const uint16_t *)data)[i]);
    case DTYPE_u64: return (double)((const uint64_t *)data)[i];
    default: return (double)element_read_int(d, data, i);
    }
}

int64_t element_read_int(Dtype d, const void *data, int64_t i)
{
    switch (d) {
#define I(name, type)                                                                                                              \
    case DTYPE_##name: return (int64_t)((const type *)data)[i];
        INTEGERS(I)
#undef I
    case DTYPE_bool: return ((const uint8_t *)data)[i] != 0;
    default: bug("%s read as an integer", dtype_name(d));
    }
}

static int64_t towards_zero(Dtype d, double x)
{
    if (isnan(x)) return 0;
    if (d == DTYPE_u64) {
        uint64_t u = x <= 0 ? 0 : x >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)x;
        return (int64_t)u;
    }
    int bits = dtype_bytes(d) * 8 - (dtype_is_signed(d) ? 1 : 0);
    double limit = ldexp(1, bits), low = dtype_is_signed(d) ? -limit : 0;
    if (x <= low) return (int64_t)low;
    if (x >= limit) return bits == 63 ? INT64_MAX : (int64_t)limit - 1;
    return (int64_t)x;
}

void element_write(Dtype d, void *data, int64_t i, double value)
{
    switch (d) {
    case DTYPE_f32: ((float *)data)[i] = (float)value; return;
    case DTYPE_f64: ((double *)data)[i] = value; return;
    case DTYPE_f16: ((uint16_t *)data)[i] = encode(HALF, value); return;
    case DTYPE_bf16: ((uint16_t *)data)[i] = encode(BFLOAT, value); return;
    case DTYPE_bool: ((uint8_t *)data)[i] = value != 0; return;
    default: element_write_int(d, data, i, towards_zero(d, value)); return;
    }
}

void element_write_int(Dtype d, void *data, int64_t i, int64_t value)
{
    switch (d) {
#define I(name, type)                                                                                                              \
    case DTYPE_##name: ((type *)data)[i] = (type)value; return;
        INTEGERS(I)
#undef I
    case DTYPE_bool: ((uint8_t *)data)[i] = value != 0; return;
    default: element_write(d, data, i, (double)value); return;
    }
}
