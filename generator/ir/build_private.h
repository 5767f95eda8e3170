/* What the builders share among themselves. */
#ifndef IR_BUILD_PRIVATE_H
#define IR_BUILD_PRIVATE_H
#include "ir/build.h"
#include "support/diag.h"

/* What builders ask of their operands. */
#define fits(condition) ((condition) ? (void)0 : misfit("not so: %s (at \"%s\")", #condition, g->source))

/* The dim that a and b both are: equal for certain, or stated equal from now on.  A misfit, naming what, where they never are. */
Expr *dims_agree(Graph *g, Expr *a, Expr *b, const char *what);
/* The dim that a and b broadcast to: where one is 1, the other. */
Expr *dims_broadcast(Graph *g, Expr *a, Expr *b, const char *what);
bool shape_is(Graph *g, const Value *v, int rank, Expr *const *shape);
Expr **shape_copy(Graph *g, int rank, Expr *const *shape, int room); /* room: of the copy, at least rank */
/* An operation with one result. */
Value *make(Graph *g, OpKind kind, Value *const *in, int n_in, Dtype dtype, int rank, Expr *const *shape);

/* A one-element constant seen through broadcast and reshape: as a number and, of an integer or bool, exactly. */
typedef struct {
    double real;
    int64_t integer;
} Scalar;
bool scalar_constant(const Value *v, Scalar *s);
Value *scalar_value(Graph *g, Dtype dtype, Scalar s); /* rank 0 */
/* The result of an elementwise operation on constants, where the device would certainly give the same bits. */
bool fold_unary(OpKind kind, Dtype dtype, Scalar a, Scalar *result);
bool fold_binary(OpKind kind, Dtype dtype, Scalar a, Scalar b, Scalar *result);
#endif
