/* Composites become primitives: softmax in the form that does not overflow.
 *
 *     softmax(x)     = e / sum e          with e = exp(x - max x)
 *     log_softmax(x) = z - log sum exp z  with z = x - max x
 *
 * Needs: gradient, which has rules for composites.  Breaks: nothing. */
#include "passes/passes.h"
#include "passes/rewrite.h"

static bool decompose(Graph *g, Op *op, Value **by, void *context)
{
    (void)context;
    if (op->kind != OP_softmax && op->kind != OP_log_softmax) return false;
    int64_t axis = op_int(op, ATTR_axis);
    Value *x = op->in[0];
    Value *z = b_sub(g, x, b_reduce_keep(g, OP_reduce_max, x, &axis, 1)), *e = b_unary(g, OP_exp, z);
    Value *sum = b_reduce_keep(g, OP_reduce_sum, e, &axis, 1);
    by[0] = op->kind == OP_softmax ? b_div(g, e, sum) : b_sub(g, z, b_unary(g, OP_log, sum));
    return true;
}

void pass_decompose(Graph *g)
{
    rewrite(g, decompose, NULL, true);
}
