/* A loss and gradients in place of a graph's outputs. */
#ifndef GRADIENTS_H
#define GRADIENTS_H
#include "ir/ir.h"
#include "onnx/model.h"

/* What operator a test is about: its last node's, or that of the test whose expansion it is.  directory: DIR/test_NAME. */
const char *operator_of(Arena *arena, const OnnxGraph *g, const char *directory);

/* Makes every float a double, and the outputs: a loss, the sum of all float outputs, each element times a fixed factor; then its
 * gradient by each float input that it depends on, "by INPUT".  output_of, beside the inputs: which output, 0 for none.
 * Returns why there is no gradient, or NULL. */
const char *gradient_graph(Graph *g, int *output_of);
#endif
