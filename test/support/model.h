/* ONNX models in memory, from a few lines of text; and what the program says to the user.
 *
 *     in x f32 batch,4            an input (f32, i64, u8 or bool)
 *     w proj.weight 4,5 random    an initializer; in place of random: =0.5, sines, mask, filters, rising, padded (row 0 zeros), missing, or like=NAME, turned=NAME,
 *                                 part:FIRST:STRIDE:STRIDE=NAME (element i, j is NAME's at FIRST + i * STRIDE + j * STRIDE)
 *     const c 4 =1                the same as a Constant node
 *     MatMul m: x proj.weight -> y
 *     Softmax s: y -> p axis=-1   integer attributes; ratio=0.5 with a point is a float one
 *     meta rule_name=FuseBatchNorm…   metadata of the node before
 *     if i: condition -> z        then the lines of its branches, between then, else and end
 *     out y
 *     producer pytorch 2.15.0
 *     opset 11 */
#ifndef TEST_SUPPORT_MODEL_H
#define TEST_SUPPORT_MODEL_H
#include "onnx/model.h"

OnnxModel *model_from_text(Arena *arena, const char *text);

/* What run(with) writes to both outputs, in a process of its own; *status is its exit status. */
const char *said_by(Arena *arena, void (*run)(void *with), void *with, int *status);
#endif
