/* What the interpreter's parts share. */
#ifndef TEST_SUPPORT_INTERPRET_PRIVATE_H
#define TEST_SUPPORT_INTERPRET_PRIVATE_H
#include "support/diag.h"
#include "test/support/interpret.h"

enum { MOST_RANK = 32 };

typedef struct {
    Arena *arena;
    const Graph *g;
    int64_t *dims; /* by symbol_index */
    Array *values; /* by value id */
} Run;

int64_t run_size(const Run *run, const Expr *e);
Array run_new(const Run *run, const Value *v); /* zeros of v's shape */

/* Each evaluates one class; in: operands, out: results, already of the right shape (but for LATE). */
void run_elementwise(Run *run, const Op *op, const Array *in, Array *out);
void run_source(Run *run, const Op *op, Array *out);
void run_index(Run *run, const Op *op, const Array *in, Array *out);
void run_reduce(Run *run, const Op *op, const Array *in, Array *out); /* cumulative and sort too */
void run_scatter(Run *run, const Op *op, const Array *in, Array *out);
void run_late(Run *run, const Op *op, const Array *in, Array *out);
void run_dot(Run *run, const Op *op, const Array *in, Array *out);
void run_conv(Run *run, const Op *op, const Array *in, Array *out);
void run_pool(Run *run, const Op *op, const Array *in, Array *out);
void run_softmax(Run *run, const Op *op, const Array *in, Array *out);

/* Positions: at[] is counted up like an odometer, last axis fastest; flat and back. */
void unravel(int64_t flat, int rank, const int64_t *dims, int64_t *at);
int64_t ravel(int rank, const int64_t *dims, const int64_t *at);
/* A tensor seen along one axis: (outer, size, inner). */
typedef struct {
    int64_t outer, size, inner;
} Along;
Along along(Array a, int axis);
#endif
