/* What the families of composed operators share: checks that speak to the user, and small pieces of formulas. */
#ifndef ONNX_FORMULAS_H
#define ONNX_FORMULAS_H
#include "onnx/terms.h"

/* ---- checks ---- */
/* a and b are one dim: known to be, or stated so; the user's error, "WHAT differ: a and b", where they never are.  Gives the dim.
 */
Expr *must_agree(Import *im, const OnnxNode *node, Expr *a, Expr *b, const char *what);
/* Value i has a rank of low to high (high -1: any above); what: "x (n, c, d..)". */
void want_rank(Import *im, const OnnxNode *node, const Value *v, int low, int high, const char *what);
void want_same_type(Import *im, const OnnxNode *node, const Value *a, const Value *b);
/* a and b have the same shape; what: "shapes of X and I". */
void want_same_shape(Import *im, const OnnxNode *node, const Value *a, const Value *b, const char *what);
/* The value broadcasts to shape without changing it. */
Value *want_broadcast(Import *im, const OnnxNode *node, Value *v, int rank, Expr *const *shape, const char *what);
/* The binary operation, or the user's error where types differ or shapes do not broadcast. */
Value *checked_binary(Import *im, const OnnxNode *node, OpKind kind, Value *a, Value *b);
int64_t want_int(Import *im, const OnnxNode *node, Expr *e, const char *what); /* a size that must be plain */
Value *optional_input(Import *im, const OnnxNode *node, int i);                /* NULL where absent */
/* a / b, which must divide. */
Expr *want_quotient(Import *im, const OnnxNode *node, Expr *a, Expr *b, const char *what);

/* ---- of other families ---- */
void unique_slices(Import *im, const OnnxNode *node, Value *x, int axis, bool sorted, const char *hint); /* unique.c */

/* ---- formulas ---- */
static inline Value *scaled(Graph *g, Value *a, double factor)
{
    return b_mul(g, a, b_like(g, a, factor));
}
static inline Value *shifted(Graph *g, Value *a, double term)
{
    return b_add(g, a, b_like(g, a, term));
}
static inline Value *negated(Graph *g, Value *a)
{
    return b_unary(g, OP_neg, a);
}
static inline Value *less(Graph *g, Value *a, Value *b)
{
    return b_binary(g, OP_lt, a, b);
}
static inline Value *equal(Graph *g, Value *a, Value *b)
{
    return b_binary(g, OP_eq, a, b);
}
static inline Value *both(Graph *g, Value *a, Value *b)
{
    return b_binary(g, OP_and, a, b);
}
/* An expression as a scalar of dtype. */
static inline Value *dim_value(Graph *g, Expr *e, Dtype dtype)
{
    return b_cast(g, b_dim(g, e), dtype);
}
Value *reciprocal_sqrt(Graph *g, Value *a);
/* Clamped to [low, high]; gradient only within, as PyTorch's clamp. */
Value *clamped(Graph *g, Value *x, double low, double high);
/* A vector (c) as (c, 1, 1, ..), to stand against axis 1 of a value of that rank. */
Value *along_channels(Graph *g, Value *v, int rank);
/* Vector of n positions, 0, 1, 2.., laid along an axis of a shape of ones. */
Value *positions(Graph *g, Dtype dtype, Expr *n, int axis, int rank);
/* v with axis i seen as (outer, inner). */
Value *split_axis(Graph *g, Value *v, int axis, Expr *outer, Expr *inner);
/* Axes axis and axis + 1 as one. */
Value *merge_axes(Graph *g, Value *v, int axis);
#endif
