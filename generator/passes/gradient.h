/* What the gradient rules share.  A rule reads the gradient of its operation's results and adds to the gradients of the operands:
 *
 *     void gradient_neg(Backward *b, Op *op)
 *     {
 *         backward_add(b, op->in[0], b_unary(b->g, OP_neg, backward_of(b, op->out[0])));
 *     }
 *
 * A rule is called only when some result has a gradient and some operand wants one. */
#ifndef PASSES_GRADIENT_H
#define PASSES_GRADIENT_H
#include "ir/build.h"
#include "ir/ir.h"
#include "support/diag.h"

typedef struct Backward {
    Graph *g;         /* the graph that is extended */
    int values;       /* the forward pass has the value ids below this */
    bool *wanted;     /* by value id: leads from something that wants a gradient */
    Value **gradient; /* by value id: the sum of what was added so far, NULL for nothing */
} Backward;

/* Nothing is wanted and nothing has a gradient yet: the caller marks what is to be differentiated with respect to. */
Backward backward_new(Graph *g);
/* Spreads `wanted` from the graph's inputs over the first n_ops operations. */
void backward_mark(Graph *g, int n_ops, bool *wanted);
/* Calls the rules of the first n_ops operations, last one first; gradients of the outputs must be there. */
void backward_run(Backward *b, int n_ops);

bool backward_wants(const Backward *b, const Value *v);
Value *backward_of(const Backward *b, const Value *v); /* NULL where nothing reached v */
/* Adds to v's gradient, which has v's shape and dtype; forgets it where v does not want one. */
void backward_add(Backward *b, const Value *v, Value *gradient);

/* For the rules of regions.  Which values of a body want a gradient, by id: operand_wanted is by operand of op; or as b says. */
bool *region_wanted(const Op *op, Graph *body, const bool *operand_wanted);
bool *wanted_inside(const Backward *b, const Op *op, Graph *body);
Value *parameter(Graph *body, const char *what, int i, Value *like); /* a new input of body, "WHAT_I", of the type of `like` */
Value *or_zeros(Graph *g, Value *gradient, const Value *v);          /* zeros of v's type where there is no gradient */

/* Sums g over what broadcast along axes added to x (ops.def, broadcast), so that it has x's shape. */
Value *sum_broadcast(Graph *graph, Value *g, const Value *x, const int64_t *axes);
Value *zeros_like(Graph *g, const Value *v); /* the shape of v, all 0 */

/* Along one axis, position by position: result[.., j, ..] = a[.., index[.., j, ..], ..]; index has a's rank. */
Value *take_along(Graph *g, Value *a, Value *index, int axis);
/* The transposed of it: adds updates into zeros of the given shape. */
Value *put_along(Graph *g, Value *updates, Value *index, int axis, Expr *const *shape);

#define OP(name, class, operands, results, attributes, text) void gradient_##name(Backward *b, Op *op);
#include "ir/ops.def"

/* The row of an operation through which no gradient flows: its results are integers, or piecewise constant, or it has no operand.
 */
#define NO_GRADIENT(name)                                                                                                          \
    void gradient_##name(Backward *b, Op *op)                                                                                      \
    {                                                                                                                              \
        (void)b;                                                                                                                   \
        (void)op;                                                                                                                  \
    }
#endif
