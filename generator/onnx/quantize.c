/* Quantized operators.
 *
 * Integers have no gradient.  Where a program trains, a DequantizeLinear right behind a QuantizeLinear passes it straight through
 * (Bengio et al. 2013, arXiv 1308.3432): it computes with the rounded value, but its gradient is that of what was rounded, which
 * was held within the type's range before, so that saturated elements get none. */
#include "onnx/quantize.h"
#include "onnx/short_float.h"
#include "onnx/window.h"
#include <math.h>
#include <string.h>

/* ---- types ---- */
/* The ONNX type of input i, which may be narrower than the dtype it is kept in (int4); 0 where nobody says. */
static int stored_type(Import *im, const OnnxNode *node, int i)
{
    const Term *t = input_term(im, node, i);
    if (t->tensor) return (int)t->tensor->type;
    for (int k = 0; k < im->model->graph->n_inputs; k++)
        if (strcmp(im->model->graph->inputs[k].name, node->inputs[i]) == 0) return (int)im->model->graph->inputs[k].elem_type;
    return 0;
}

static int type_of_dtype(Dtype d)
{
    switch (d) {
    case DTYPE_i8: return ONNX_INT8;
    case DTYPE_u16: return ONNX_UINT16;
    case DTYPE_i16: return ONNX_INT16;
    case DTYPE_i32: return ONNX_INT32;
    default: return ONNX_UINT8;
    }
}

Quantized quantized_type(Import *im, const OnnxNode *node, int zero_point, int absent)
{
    int type = absent;
    if (has_input(node, zero_point)) {
        type = stored_type(im, node, zero_point);
        if (!type) type = type_of_dtype(input_term(im, node, zero_point)->dtype);
    }
    switch (type) {
    case ONNX_UINT2: return (Quantized){.dtype = DTYPE_u8, .low = 0, .high = 3};
    case ONNX_INT2: return (Quantized){.dtype = DTYPE_i8, .low = -2, .high = 1};
    case ONNX_UINT4: return (Quantized){.dtype = DTYPE_u8, .low = 0, .high = 15};
    case ONNX_INT4: return (Quantized){.dtype = DTYPE_i8, .low = -8, .high = 7};
    case ONNX_UINT8: return (Quantized){.dtype = DTYPE_u8, .high = 255};
    case ONNX_INT8: return (Quantized){.dtype = DTYPE_i8, .low = -128, .high = 127};
    case ONNX_UINT16: return (Quantized){.dtype = DTYPE_u16, .low = 0, .high = 65535};
    case ONNX_INT16: return (Quantized){.dtype = DTYPE_i16, .low = -32768, .high = 32767};
    case ONNX_INT32: return (Quantized){.dtype = DTYPE_i32, .low = -2147483648.0, .high = 2147483647.0};
    case ONNX_FLOAT8E4M3FN:
    case ONNX_FLOAT8E4M3FNUZ:
    case ONNX_FLOAT8E5M2:
    case ONNX_FLOAT8E5M2FNUZ:
    case ONNX_FLOAT4E2M1: return (Quantized){.dtype = DTYPE_f32, .short_float = type, .wraps = !attr_int(node, "saturate", 1)};
    default:
        import_error(im, node, "a quantized type of %s; wanted floats of 4 or 8 bits, or integers of 2 to 32 bits",
                     onnx_type_name((OnnxType)type));
    }
}

/* ---- scales ---- */
/* A scale or zero point as it stands against x: one for all, one an element of `axis`, or one a block of it. */
static Value *per_axis(Import *im, const OnnxNode *node, const Value *x, Value *v, int64_t axis, int64_t block)
{
    Graph *g = im->graph;
    Expr *shape[MOST_AXES];
    if (v->rank == 0 || expr_is(value_count(g, v), 1)) return b_reshape(g, v, 0, NULL);
    int at = normal_axis(im, node, axis, x->rank);
    if (v->rank == 1 && !block) {
        must_agree(im, node, v->shape[0], x->shape[at],
                   arena_text(im->arena, "the size of a scale or zero point and axis %d of the input", at));
        for (int i = 0; i < x->rank; i++) shape[i] = i == at ? v->shape[0] : number(im, 1);
        return b_reshape(g, v, x->rank, shape);
    }
    if (v->rank != x->rank)
        import_error(im, node, "a scale or zero point is %s for an input %s", type_text(im, v), type_text(im, x));
    if (!block) { /* QLinearMatMul: one a row, (.., m, 1) */
        want_broadcast(im, node, v, x->rank, x->shape, "a scale or zero point");
        return v;
    }
    Expr *blocks = expr_ceildiv(im->symbols, x->shape[at], number(im, block));
    for (int i = 0; i < x->rank; i++)
        must_agree(im, node, v->shape[i], i == at ? blocks : x->shape[i],
                   "the shape of a scale or zero point, and that of the blocks,");
    Value *block_of = b_div(g, b_iota(g, DTYPE_i64, 0, 1, &x->shape[at]), b_number(g, DTYPE_i64, (double)block));
    return b_gather(g, v, block_of, at);
}

/* round to nearest even, held within the type, as a float still: elements of the type. */
static Value *quantized_float(Import *im, const OnnxNode *node, Value *x, Value *scale, Value *zero, Quantized type)
{
    Graph *g = im->graph;
    (void)node;
    (void)im;
    Value *low = b_like(g, x, type.low), *high = b_like(g, x, type.high), *ratio = b_div(g, x, scale);
    if (zero) {
        zero = b_cast(g, zero, x->dtype);
        low = b_sub(g, low, zero);
        high = b_sub(g, high, zero);
    }
    Value *held = b_select(g, less(g, ratio, low), low, b_select(g, less(g, high, ratio), high, ratio));
    Value *rounded = b_unary(g, OP_round, held);
    return zero ? b_add(g, rounded, zero) : rounded;
}

Value *quantize(Import *im, const OnnxNode *node, Value *x, Value *scale, Value *zero, Quantized type)
{
    if (type.short_float) {
        Value *ratio = b_div(im->graph, x, scale);
        if (zero) ratio = b_add(im->graph, ratio, b_cast(im->graph, zero, x->dtype));
        return short_float_rounded(im, ratio, type.short_float, !type.wraps, "up");
    }
    return b_cast(im->graph, quantized_float(im, node, x, scale, zero, type), type.dtype);
}

/* ---- straight through ---- */
/* x without its gradient: through integers that hold all of a float's digits, for |x| < 2^17. */
static Value *detached(Graph *g, Value *x)
{
    double unit = ldexp(1, 40);
    return scaled(g, b_cast(g, b_cast(g, scaled(g, x, unit), DTYPE_i64), x->dtype), 1 / unit);
}

/* What quantized_float made, found again behind the cast to integers: the same numbers as floats whose gradient is that of what was
 * rounded.  NULL where x was not made so. */
static Value *straight_through(Graph *g, const Value *x)
{
    if (!x->def || x->def->kind != OP_cast) return NULL;
    Value *sum = x->def->in[0], *rounded = sum, *zero = NULL;
    if (sum->def && sum->def->kind == OP_add) {
        rounded = sum->def->in[0];
        zero = sum->def->in[1];
    }
    if (!rounded->def || rounded->def->kind != OP_round) return NULL;
    Value *held = rounded->def->in[0];
    Value *passed = b_add(g, held, b_sub(g, rounded, detached(g, held)));
    return zero ? b_add(g, passed, zero) : passed;
}

/* ---- QuantizeLinear, DequantizeLinear ---- */
void import_QuantizeLinear(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *scale = input(im, node, 1), *zero = optional_input(im, node, 2);
    int64_t axis = attr_int(node, "axis", 1), block = attr_int(node, "block_size", 0), wanted = attr_int(node, "output_dtype", 0);
    Quantized type = quantized_type(im, node, 2, wanted ? (int)wanted : ONNX_UINT8);
    Dtype d = dtype_is_float(x->dtype) ? x->dtype : scale->dtype;
    x = b_cast(g, x, d);
    scale = b_cast(g, per_axis(im, node, x, scale, axis, block), d);
    if (zero) zero = per_axis(im, node, x, zero, axis, block);
    output(im, node, 0, quantize(im, node, x, scale, zero, type));
}

void import_DequantizeLinear(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *scale = input(im, node, 1), *zero = optional_input(im, node, 2);
    int64_t axis = attr_int(node, "axis", 1), block = attr_int(node, "block_size", 0), wanted = attr_int(node, "output_dtype", 0);
    if (!dtype_is_float(scale->dtype)) import_error(im, node, "the scale is %s; wanted floats", type_text(im, scale));
    Value *as_float = im->training ? straight_through(g, x) : NULL;
    if (!as_float) as_float = x;
    as_float = b_cast(g, as_float, scale->dtype);
    if (zero) as_float = b_sub(g, as_float, b_cast(g, per_axis(im, node, x, zero, axis, block), scale->dtype));
    Value *y = b_mul(g, as_float, per_axis(im, node, x, scale, axis, block));
    output(im, node, 0, wanted ? b_cast(g, y, import_dtype(im, node, (int)wanted, "output_dtype")) : y);
}

/* x (f32): scale and zero point from its own range, in u8. */
void import_DynamicQuantizeLinear(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *zero = b_like(g, x, 0), *one = b_like(g, x, 1);
    int64_t axes[MOST_AXES];
    for (int i = 0; i < x->rank; i++) axes[i] = i;
    Value *most = b_binary(g, OP_max, b_reduce(g, OP_reduce_max, x, axes, x->rank), zero);
    Value *least = b_binary(g, OP_min, b_reduce(g, OP_reduce_min, x, axes, x->rank), zero);
    Value *range = b_sub(g, most, least);
    Value *scale = b_div(g, b_select(g, equal(g, range, zero), one, range), b_like(g, x, 255));
    Value *point = b_unary(g, OP_round, clamped(g, negated(g, b_div(g, least, scale)), 0, 255));
    output(im, node, 0, quantize(im, node, x, scale, point, (Quantized){.dtype = DTYPE_u8, .high = 255}));
    output(im, node, 1, scale);
    output(im, node, 2, b_cast(g, point, DTYPE_u8));
}

/* ---- products of integers ---- */
/* Input i less its zero point (input z), as dtype d.  A vector of zero points stands along `axis`. */
static Value *centred(Import *im, const OnnxNode *node, int i, int z, Dtype d, int64_t axis)
{
    Graph *g = im->graph;
    Value *x = input(im, node, i), *zero = optional_input(im, node, z);
    if (dtype_is_float(x->dtype)) import_error(im, node, "input %d is %s; wanted quantized integers", i, type_text(im, x));
    Value *v = b_cast(g, x, d);
    return zero ? b_sub(g, v, b_cast(g, per_axis(im, node, x, zero, axis, 0), d)) : v;
}

static Value *integer_matmul(Import *im, const OnnxNode *node, int a, int a_zero, int b, int b_zero)
{
    Value *x = centred(im, node, a, a_zero, DTYPE_i32, -2), *y = centred(im, node, b, b_zero, DTYPE_i32, -1);
    return checked_matmul(im, node, x, y);
}

void import_MatMulInteger(Import *im, const OnnxNode *node)
{
    output(im, node, 0, integer_matmul(im, node, 0, 2, 1, 3));
}

void import_QLinearMatMul(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *product = integer_matmul(im, node, 0, 2, 3, 5);
    Value *scale_a = input(im, node, 1), *scale_b = input(im, node, 4), *scale_y = input(im, node, 6);
    Dtype d = scale_a->dtype;
    Value *a = per_axis(im, node, input(im, node, 0), scale_a, -2, 0), *b = per_axis(im, node, input(im, node, 3), scale_b, -1, 0);
    Value *y = b_cast(g, per_axis(im, node, product, scale_y, -1, 0), d);
    Value *real = b_mul(g, b_mul(g, b_cast(g, product, d), a), b_cast(g, b, d));
    Value *zero = optional_input(im, node, 7);
    if (zero) zero = per_axis(im, node, product, zero, -1, 0);
    output(im, node, 0, quantize(im, node, real, y, zero, quantized_type(im, node, 7, ONNX_UINT8)));
}

/* The convolution of integers, as doubles, which hold their sums exactly. */
static Value *integer_conv(Import *im, const OnnxNode *node, int x, int x_zero, int w, int w_zero)
{
    return convolution(im, node, centred(im, node, x, x_zero, DTYPE_f64, 1), centred(im, node, w, w_zero, DTYPE_f64, 0));
}

void import_ConvInteger(Import *im, const OnnxNode *node)
{
    output(im, node, 0, b_cast(im->graph, integer_conv(im, node, 0, 2, 1, 3), DTYPE_i32));
}

void import_QLinearConv(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *sum = integer_conv(im, node, 0, 2, 3, 5), *bias = optional_input(im, node, 8), *zero = optional_input(im, node, 7);
    if (bias) sum = b_add(g, sum, along_channels(g, b_cast(g, bias, DTYPE_f64), sum->rank));
    Value *x = b_reshape(g, b_cast(g, input(im, node, 1), DTYPE_f64), 0, NULL),
          *y = b_reshape(g, b_cast(g, input(im, node, 6), DTYPE_f64), 0, NULL);
    Value *w = b_cast(g, per_axis(im, node, sum, input(im, node, 4), 1, 0), DTYPE_f64);
    if (zero) zero = b_reshape(g, zero, 0, NULL);
    output(im, node, 0, quantize(im, node, b_mul(g, sum, b_mul(g, x, w)), y, zero, quantized_type(im, node, 7, ONNX_UINT8)));
}
