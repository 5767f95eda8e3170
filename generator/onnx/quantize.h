/* Quantization: a type's range, and rounding into it. */
#ifndef ONNX_QUANTIZE_H
#define ONNX_QUANTIZE_H
#include "onnx/formulas.h"

typedef struct Quantized {
    Dtype dtype;      /* it is kept in */
    double low, high; /* its range: 0 to 15 of uint4, kept in u8 */
    int short_float;  /* the ONNX type where it is a float of few bits, kept in f32; 0: integers */
    bool wraps;       /* a short float beyond its range is no number: saturate=0 */
} Quantized;
/* Of input zero_point, or the ONNX type `absent` where that is not given. */
Quantized quantized_type(Import *im, const OnnxNode *node, int zero_point, int absent);
/* round(x / scale) + zero, saturated; scale and zero (NULL: 0) broadcast to x. */
Value *quantize(Import *im, const OnnxNode *node, Value *x, Value *scale, Value *zero, Quantized type);

/* ---- of other families ---- */
Value *checked_matmul(Import *im, const OnnxNode *node, Value *a, Value *b); /* matmul.c */
Value *convolution(Import *im, const OnnxNode *node, Value *x, Value *w);    /* conv.c: attributes of Conv, no bias */
#endif
