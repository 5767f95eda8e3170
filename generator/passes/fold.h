/* Arithmetic on constants, for fold alone. */
#ifndef PASSES_FOLD_H
#define PASSES_FOLD_H
#include "ir/build.h"
#include "ir/ir.h"

enum { FOLD_MOST_ELEMENTS = 4096, FOLD_MOST_AXES = 32 }; /* larger constants are left alone */

/* A tensor whose elements the generator knows. */
typedef struct {
    Dtype dtype;
    int rank;
    int64_t dims[FOLD_MOST_AXES], n;
    const void *data; /* row-major */
} Known;

/* Whether v is a small constant, or a broadcast or iota that comes to one; its elements. */
bool fold_known(Graph *g, const Value *v, Known *known);
/* The one element of a constant seen through broadcast and reshape, as a tensor of rank 0. */
bool fold_scalar(const Value *v, Known *known);
/* Computes an elementwise, index, reduce or cumulative operation in double or int64; `to` has the result's type and gets its data.
 * False where the result is not defined (an integer divided by 0) or the operation is none of these. */
bool fold_compute(Graph *g, const Op *op, const Known *in, Known *to);
#endif
