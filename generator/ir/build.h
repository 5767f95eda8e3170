/* Making operations: each function appends one (or a few) to the graph, derives the result's shape and returns it.
 * Used by the importer and by every pass.  Operands of elementwise functions are broadcast against each other as NumPy does;
 * where two dims are neither equal nor 1 for certain, they are stated equal (symbols_equate) and run time guards it.
 * Dims that can never agree are an internal fault here: importers check first and speak to the user. */
#ifndef IR_BUILD_H
#define IR_BUILD_H
#include "ir/ir.h"

/* elementwise; dtype of the result is the operands', bool for comparisons */
Value *b_unary(Graph *g, OpKind kind, Value *a);
Value *b_binary(Graph *g, OpKind kind, Value *a, Value *b);
Value *b_select(Graph *g, Value *condition, Value *a, Value *b);
Value *b_cast(Graph *g, Value *a, Dtype dtype); /* a itself where it has that dtype */
Value *b_bitcast(Graph *g, Value *a, Dtype dtype);
static inline Value *b_add(Graph *g, Value *a, Value *b) { return b_binary(g, OP_add, a, b); }
static inline Value *b_sub(Graph *g, Value *a, Value *b) { return b_binary(g, OP_sub, a, b); }
static inline Value *b_mul(Graph *g, Value *a, Value *b) { return b_binary(g, OP_mul, a, b); }
static inline Value *b_div(Graph *g, Value *a, Value *b) { return b_binary(g, OP_div, a, b); }

/* sources */
Value *b_number(Graph *g, Dtype dtype, double value);   /* rank 0 */
Value *b_constant(Graph *g, Dtype dtype, int rank, const int64_t *dims, const void *data);
Value *b_full(Graph *g, Dtype dtype, double value, int rank, Expr *const *shape);
Value *b_like(Graph *g, Value *a, double value);        /* rank 0, dtype of a: broadcasts by itself */
Value *b_iota(Graph *g, Dtype dtype, int axis, int rank, Expr *const *shape);
Value *b_dims(Graph *g, Expr *const *content, int n);   /* i64 vector */
Value *b_dim(Graph *g, Expr *content);                  /* i64 scalar */
Value *b_random(Graph *g, const char *distribution, int64_t seed, Dtype dtype, int rank, Expr *const *shape);
Value *b_random_at(Graph *g, const char *distribution, int64_t seed, Dtype dtype, Value *place); /* place: u64 */

/* index */
Value *b_broadcast(Graph *g, Value *a, const int64_t *axes, int rank, Expr *const *shape);
Value *b_broadcast_to(Graph *g, Value *a, int rank, Expr *const *shape); /* NumPy: aligned at the last axis */
Value *b_reshape(Graph *g, Value *a, int rank, Expr *const *shape); /* a itself where the shape is the same */
Value *b_transpose(Graph *g, Value *a, const int64_t *axes);
Value *b_swap_last(Graph *g, Value *a);                 /* last two axes */
Value *b_slice(Graph *g, Value *a, Expr *const *start, const int64_t *step, Expr *const *shape);
Value *b_slice_axis(Graph *g, Value *a, int axis, Expr *start, Expr *size);
Value *b_pad(Graph *g, Value *a, Value *fill, Expr *const *start, const int64_t *step, Expr *const *shape);
Value *b_concat(Graph *g, Value *const *parts, int n, int axis);
Value *b_gather(Graph *g, Value *a, Value *index, int axis);
Value *b_expand_dims(Graph *g, Value *a, int axis);     /* reshape with a 1 at axis */
Value *b_squeeze(Graph *g, Value *a, int axis);

/* reduce; axes in any order, none negative.  b_reduce_keep leaves dims of 1. */
Value *b_reduce(Graph *g, OpKind kind, Value *a, const int64_t *axes, int n);
Value *b_reduce_keep(Graph *g, OpKind kind, Value *a, const int64_t *axes, int n);
Value *b_reduce_mean(Graph *g, Value *a, const int64_t *axes, int n, bool keep);
Value *b_arg(Graph *g, OpKind kind, Value *a, int axis, bool last);
Value *b_cumulative(Graph *g, OpKind kind, Value *a, int axis, bool exclusive, bool reverse);
void b_top_k(Graph *g, Value *a, int axis, Expr *k, bool largest, Value **values, Value **indices);
/* Sums a over what broadcasting added, so that it has b's shape: the gradient of a broadcast. */
Value *b_sum_to(Graph *g, Value *a, int rank, Expr *const *shape);

Value *b_scatter(Graph *g, Value *base, Value *index, Value *updates, int axis, const char *mode); /* "set" "add" "max" "min" "mul" */
Value *b_nonzero(Graph *g, Value *a, const char *hint); /* (rank, late symbol) */
Op *b_unique(Graph *g, Value *a, bool sorted, const char *hint); /* results as in ops.def, sized by a late symbol */

/* contraction.  b_matmul follows ONNX MatMul (ranks 1 and up, batch dims broadcast) and folds leading dims of a into rows where b has rank 2. */
Value *b_dot(Graph *g, Value *a, Value *b, bool trans_a, bool trans_b);
Value *b_dot_add(Graph *g, const Op *dot, Value *c); /* the dot's product added to c, of its shape */
Value *b_matmul(Graph *g, Value *a, Value *b);
typedef struct { int rank; int64_t stride[6], dilation[6], window[6]; Expr *low[6], *high[6]; int64_t groups; } Window; /* spatial axes */
Value *b_conv(Graph *g, Value *x, Value *w, const Window *win);
Value *b_conv_grad_input(Graph *g, Value *dy, Value *w, const Window *win, Expr *const *shape); /* shape of dx, all axes */
Value *b_conv_grad_weight(Graph *g, Value *dy, Value *x, const Window *win, Expr *const *shape);
void b_pool_max(Graph *g, Value *x, const Window *win, Value **y, Value **index);
Value *b_pool_max_grad(Graph *g, Value *dy, Value *index, const Window *win, Expr *const *shape);
Value *b_pool_sum(Graph *g, Value *x, const Window *win);
Value *b_pool_sum_grad(Graph *g, Value *dy, const Window *win, Expr *const *shape);
Window op_window(const Op *op);                         /* from an operation's attributes */
Expr *window_output(Graph *g, Expr *size, const Window *win, int axis, int64_t kernel); /* (size + low + high - (kernel - 1) * dilation - 1) // stride + 1 */

Value *b_softmax(Graph *g, OpKind softmax_or_log, Value *a, int axis);

/* attention: as ops.def says; the body is made as those of regions are, its first input of the type that attention_scores gives. */
Op *b_attention(Graph *g, Graph *body, Value *q, Value *k, Value *v, Value *const *captures, int n);
typedef struct { Value *q, *k, *v, *top, *scale, *delta; } AttentionParts; /* delta NULL: forward */
Op *b_attention_gradient(Graph *g, Graph *body, Graph *derivative, Value *dy, const AttentionParts *parts, Value *const *captures, int n);
AttentionParts attention_parts(const Op *op);
enum { ATTENTION_CAPTURES = 3, ATTENTION_GRADIENT_CAPTURES = 7 }; /* operands before the captures */
/* (batch.., shared.., m, n) of q (batch.., shared.., m, d) and k (batch.., n, d): q->rank expressions. */
Expr **attention_scores(Graph *g, const Value *q, const Value *k);
Dtype attention_type(const Value *q);                   /* of scores, top, scale and delta: floats where q is of 16 bits */

/* regions: the body is made with graph_new in the same arena and symbols; its inputs are FROM_PARAMETER, its outputs set. */
Op *b_scan(Graph *g, Graph *body, Value *const *operands, int n, int carries, int slices, bool reverse, Expr *length);
Op *b_blocks(Graph *g, Graph *body, Value *const *operands, int n, int slices, int sums, Expr *block, Expr *row_bytes);
Op *b_while(Graph *g, Graph *body, Value *const *operands, int n, int carries);
Op *b_branch(Graph *g, Graph *then_body, Graph *else_body, Value *const *operands, int n);
void b_assign(Graph *g, Value *target, Value *value);
void b_assign_where(Graph *g, Value *target, Value *value, Value *where); /* bools: elsewhere the target keeps what it has */
void b_commit(Graph *g, Value *loss);
void b_finite(Graph *g, Value *number);
#endif
