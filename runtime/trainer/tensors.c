/* Dtypes, conversions and host batches.  Needs and breaks nothing. */
#include "tensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fault.h"

static const struct {
    const char *name, *short_name;
    size_t bytes;
} dtypes[DTYPES] = {
    [F32] = {"float32", "F32", 4}, [F64] = {"float64", "F64", 8}, [F16] = {"float16", "F16", 2}, [BF16] = {"bfloat16", "BF16", 2},
    [I8] = {"int8", "I8", 1},      [I16] = {"int16", "I16", 2},   [I32] = {"int32", "I32", 4},   [I64] = {"int64", "I64", 8},
    [U8] = {"uint8", "U8", 1},     [U16] = {"uint16", "U16", 2},  [U32] = {"uint32", "U32", 4},  [U64] = {"uint64", "U64", 8},
    [BOOL] = {"bool", "BOOL", 1},
};

const char *dtype_name(int dtype)
{
    return dtype >= 0 && dtype < DTYPES ? dtypes[dtype].name : "unknown";
}

const char *dtype_short_name(int dtype)
{
    return dtypes[dtype].short_name;
}

int dtype_from_short_name(const char *name)
{
    for (int i = 0; i < DTYPES; i++)
        if (!strcmp(dtypes[i].short_name, name)) return i;
    return -1;
}

size_t dtype_bytes(int dtype)
{
    return dtype >= 0 && dtype < DTYPES ? dtypes[dtype].bytes : 0;
}

bool dtype_is_float(int dtype)
{
    return dtype == F32 || dtype == F64 || dtype == F16 || dtype == BF16;
}

int64_t count_of(int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n)) return -1;
        if (n > INT64_C(1) << 62) return -1;
    }
    return n;
}

const char *dims_text(int rank, const int64_t *dims, char *out, size_t size)
{
    snprintf(out, size, "[");
    for (int i = 0; i < rank; i++) text_add(out, size, "%s%lld", i ? ", " : "", (long long)dims[i]);
    text_add(out, size, "]");
    return out;
}

static bool is_signed(int dtype)
{
    return dtype == I8 || dtype == I16 || dtype == I32 || dtype == I64;
}

Becomes dtype_becomes(int from, int to)
{
    if (from < 0 || from >= DTYPES) return BECOMES_NOT;
    if (from == to) return BECOMES_SAME;
    if (dtype_is_float(from) != dtype_is_float(to)) return BECOMES_NOT;
    if (dtype_is_float(from)) {
        if (from == F16 && to == F32) return BECOMES_ROUNDED; /* exact, yet the user should know */
        if (to == F64 || (from == BF16 && to == F32)) return BECOMES_WIDER;
        return BECOMES_ROUNDED;
    }
    if (to == BOOL) return BECOMES_NOT;
    if (from == BOOL) return BECOMES_WIDER;
    bool wider = dtype_bytes(to) > dtype_bytes(from);
    return wider && (is_signed(to) || !is_signed(from)) ? BECOMES_WIDER : BECOMES_NOT;
}

static float half_as_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023, bits;
    if (exponent == 31)
        bits = sign | 0x7f800000 | mantissa << 13;
    else if (exponent)
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        float tiny = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &tiny, 4);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Rounds to the nearest, ties to even. */
static uint16_t float_as_half(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* subnormal: let the float unit round at 2^-24 */
        float scaled;
        memcpy(&scaled, &magnitude, 4);
        scaled += 0.5f; /* the last place of 0.5 is 2^-24 */
        memcpy(&bits, &scaled, 4);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    return (uint16_t)(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

static float brain_as_float(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint16_t float_as_brain(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double element_as_double(const void *data, int dtype, int64_t i)
{
    switch (dtype) {
    case F32: return ((const float *)data)[i];
    case F64: return ((const double *)data)[i];
    case F16: return half_as_float(((const uint16_t *)data)[i]);
    case BF16: return brain_as_float(((const uint16_t *)data)[i]);
    case I8: return ((const int8_t *)data)[i];
    case I16: return ((const int16_t *)data)[i];
    case I32: return ((const int32_t *)data)[i];
    case I64: return (double)((const int64_t *)data)[i];
    case U16: return ((const uint16_t *)data)[i];
    case U32: return ((const uint32_t *)data)[i];
    case U64: return (double)((const uint64_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}

static void convert_floats(void *to, int to_dtype, const void *from, int from_dtype, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double x = element_as_double(from, from_dtype, i);
        switch (to_dtype) {
        case F32: ((float *)to)[i] = (float)x; break;
        case F64: ((double *)to)[i] = x; break;
        case F16: ((uint16_t *)to)[i] = float_as_half((float)x); break;
        default: ((uint16_t *)to)[i] = float_as_brain((float)x); break;
        }
    }
}

static int64_t element_as_integer(const void *data, int dtype, int64_t i)
{
    switch (dtype) {
    case I8: return ((const int8_t *)data)[i];
    case I16: return ((const int16_t *)data)[i];
    case I32: return ((const int32_t *)data)[i];
    case U16: return ((const uint16_t *)data)[i];
    case U32: return ((const uint32_t *)data)[i];
    case BOOL: return ((const uint8_t *)data)[i] != 0;
    default: return ((const uint8_t *)data)[i];
    }
}

static void widen_integers(void *to, int to_dtype, const void *from, int from_dtype, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t x = element_as_integer(from, from_dtype, i);
        switch (dtype_bytes(to_dtype)) {
        case 1: ((uint8_t *)to)[i] = (uint8_t)x; break;
        case 2: ((uint16_t *)to)[i] = (uint16_t)x; break;
        case 4: ((uint32_t *)to)[i] = (uint32_t)x; break;
        default: ((uint64_t *)to)[i] = (uint64_t)x; break;
        }
    }
}

void tensor_convert(void *to, int to_dtype, const void *from, int from_dtype, int64_t n)
{
    if (to_dtype == from_dtype) {
        if (n) memcpy(to, from, (size_t)n * dtype_bytes(to_dtype));
    } else if (dtype_is_float(to_dtype))
        convert_floats(to, to_dtype, from, from_dtype, n);
    else
        widen_integers(to, to_dtype, from, from_dtype, n);
}

int batch_create(Batch *batch, const Model *m)
{
    memset(batch, 0, sizeof *batch);
    batch->n_inputs = m->n_inputs;
    batch->inputs = calloc((size_t)m->n_inputs + 1, sizeof *batch->inputs);
    if (!batch->inputs) return -1;
    for (int i = 0; i < m->n_inputs; i++) batch->inputs[i].dtype = (int)m->inputs[i].dtype;
    return 0;
}

void batch_destroy(Batch *batch)
{
    for (int i = 0; batch->inputs && i < batch->n_inputs; i++) free(batch->inputs[i].data);
    free(batch->inputs);
    memset(batch, 0, sizeof *batch);
}

int batch_reserve(BatchInput *input, size_t bytes)
{
    input->bytes = bytes;
    if (bytes <= input->capacity && input->data) return 0;
    free(input->data);
    input->data = malloc(bytes ? bytes : 1);
    input->capacity = input->data ? bytes : 0;
    return input->data ? 0 : -1;
}
