/* Inside algebra: rules that look at more than one operation.  Each returns what an operation may be replaced by, or NULL; what it
 * needs is built in its place. */
#ifndef PASSES_ALGEBRA_H
#define PASSES_ALGEBRA_H
#include "ir/build.h"
#include "ir/ir.h"

bool algebra_only_reader(const Graph *g, const Value *v); /* one operation reads it, and it is no output */
bool algebra_is_zero(const Value *v);                     /* the constant 0, broadcast to any shape */

/* ---- algebra_sums.c ---- */
Value *algebra_reduce_sum(Graph *g, const Op *op);
Value *algebra_scatter_sum(Graph *g, const Op *add);

/* ---- algebra_parts.c ---- */
Value *algebra_parts(Graph *g, const Op *add); /* a sum of tensors that zeros surround is a concat */

/* ---- algebra_scan.c ---- */
bool algebra_scans(Graph *g); /* drops stacked results; operations may stand too late then */
#endif
