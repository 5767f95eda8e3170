/* Windows of convolutions and pools, read from a node's attributes. */
#ifndef ONNX_WINDOW_H
#define ONNX_WINDOW_H
#include "onnx/formulas.h"

enum { MOST_SPATIAL = 6 };
/* strides, dilations, pads and auto_pad over `spatial` axes of the given sizes; kernel becomes window[]. */
Window window_of(Import *im, const OnnxNode *node, int spatial, Expr *const *size, const int64_t *kernel);
/* The same for a transposed convolution, where auto_pad waits for the result's size: explicit pads, else 0. */
Window transposed_window_of(Import *im, const OnnxNode *node, int spatial, const int64_t *kernel);
/* An attribute of one integer a spatial axis; absent: all of that value. */
void spatial_ints(Import *im, const OnnxNode *node, const char *name, int spatial, int64_t absent, int64_t *out);
/* Kernel sizes of a weight (o, c, k..), which must be plain. */
void kernel_of(Import *im, const OnnxNode *node, const Value *w, int64_t *kernel);
#endif
