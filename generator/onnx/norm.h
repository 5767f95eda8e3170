/* Pieces of normalizations that more than one family uses. */
#ifndef ONNX_NORM_H
#define ONNX_NORM_H
#include "onnx/formulas.h"

/* Population moments over axes, which stay as dims of 1. */
typedef struct Moments {
    Value *mean, *variance;
    Value *centered; /* x - mean, in x's shape */
} Moments;
Moments moments_over(Graph *g, Value *x, const int64_t *axes, int n);

typedef struct Normed {
    Value *y, *mean; /* mean: NULL of rms_norm */
    Value *inverse;  /* 1 / sqrt(variance + epsilon) */
} Normed;
/* Over the axes from axis on; scale and bias may be NULL. */
Normed layer_norm(Import *im, const OnnxNode *node, Value *x, int axis, Value *scale, Value *bias, double epsilon);
Normed rms_norm(Import *im, const OnnxNode *node, Value *x, int axis, Value *scale, double epsilon);
/* y * scale + bias, each broadcast to y and NULL where absent. */
Value *scale_and_shift(Import *im, const OnnxNode *node, Value *y, Value *scale, Value *bias);
/* Fills axes with first, first + 1 .. rank - 1; returns how many. */
int axes_from(int first, int rank, int64_t *axes);
#endif
