/* Initializers as tensors of the IR. */
#include "onnx/short_float.h"
#include "onnx/terms.h"

/* The dtype that elements of an ONNX type are kept in: half floats and shorter ones as f32, 4-bit and 2-bit integers a byte each.
 */
static Dtype kept_dtype(OnnxType type)
{
    switch (type) {
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16: return DTYPE_f32;
    case ONNX_INT4:
    case ONNX_INT2: return DTYPE_i8;
    case ONNX_UINT4:
    case ONNX_UINT2: return DTYPE_u8;
    default: return is_short_float((int)type) ? DTYPE_f32 : dtype_of_onnx((int)type);
    }
}

Tensor *weight_tensor(Arena *arena, const OnnxTensor *from, const char *name)
{
    Tensor *t = NEW(arena, Tensor);
    t->name = name, t->dtype = kept_dtype(from->type), t->rank = from->rank, t->data = from->data, t->reason = "";
    if (t->dtype == DTYPES_COUNT)
        error_exit("tensor \"%s\" has elements of type %s, which no weight can have here; wanted floats, integers or bool", name,
                   onnx_type_name(from->type));
    if (from->rank > (int)(sizeof t->dims / sizeof *t->dims))
        error_exit("tensor \"%s\" has %d axes; at most 8 are supported", name, from->rank);
    for (int i = 0; i < from->rank; i++) t->dims[i] = from->dims[i];
    if (!from->data || t->dtype != DTYPE_f32 || from->type == ONNX_FLOAT) return t;
    float *wide = NEW_ARRAY(arena, float, from->count);
    for (int64_t i = 0; i < from->count; i++) wide[i] = (float)tensor_number(from, i);
    t->data = wide;
    return t;
}
