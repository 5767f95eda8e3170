/* Initializers as tensors of the IR. */
#include "onnx/import.h"
#include "support/diag.h"
#include <math.h>
#include <string.h>

static float from_half(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                            : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
                                           : ldexpf((float)fraction, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

static float from_bfloat16(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

Tensor *weight_tensor(Arena *arena, const OnnxTensor *from, const char *name)
{
    Tensor *t = NEW(arena, Tensor);
    t->name = name, t->dtype = dtype_of_onnx((int)from->type), t->rank = from->rank, t->data = from->data, t->reason = "";
    if (t->dtype == DTYPES_COUNT)
        error_exit("tensor \"%s\" has elements of type %s, which no weight can have here; wanted floats, integers or bool", name,
                   onnx_type_name(from->type));
    if (from->rank > (int)(sizeof t->dims / sizeof *t->dims))
        error_exit("tensor \"%s\" has %d axes; at most 8 are supported", name, from->rank);
    for (int i = 0; i < from->rank; i++) t->dims[i] = from->dims[i];
    if (t->dtype != DTYPE_f16 && t->dtype != DTYPE_bf16) return t;
    const bool half = t->dtype == DTYPE_f16;
    t->dtype = DTYPE_f32;
    if (!from->data) return t;
    float *wide = NEW_ARRAY(arena, float, from->count);
    const uint16_t *narrow = from->data;
    for (int64_t i = 0; i < from->count; i++) wide[i] = half ? from_half(narrow[i]) : from_bfloat16(narrow[i]);
    t->data = wide;
    return t;
}
