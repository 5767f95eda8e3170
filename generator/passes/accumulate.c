/* Sums of products are added up in place: of x A + y B, as the gradient of what several products read, the second product is added to
 * where the first lies, so that one value stands in memory instead of two.
 *
 *     %3 = dot %1, %2                            %3 = dot %1, %2
 *     %6 = dot %4, %5                    ->      %7 = dot_add %4, %5, %3
 *     %7 = add %3, %6
 *
 * Needs: simplified primitives.  Breaks: nothing.  The sums of a weight's gradient stay as they are: loops over blocks of rows add them
 * up themselves. */
#include "passes/passes.h"
#include "passes/rewrite.h"

static bool is_product(const Op *op, bool first)
{
    const bool product = op->kind == OP_dot || (first && op->kind == OP_dot_add);
    return product && dtype_is_float(op->out[0]->dtype) && !op_int(op, ATTR_trans_a);
}

/* The product that v is, perhaps seen through reshapes, where nobody else reads it.  first: it may be a sum already. */
static Op *own_product(const Graph *g, const Value *v, bool first)
{
    const Value *made = v;
    while (made->def && made->users.n == 1 && made->def->kind == OP_reshape) made = made->def->in[0];
    if (!made->def || made->users.n != 1 || !is_product(made->def, first)) return NULL;
    for (const Value *seen = v; !graph_is_output(g, seen); seen = seen->def->in[0])
        if (seen == made) return made->def;
    return NULL;
}

static bool accumulate(Graph *g, Op *op, Value **by, void *context)
{
    (void)context;
    if (op->kind != OP_add || op->in[0] == op->in[1]) return false;
    for (int second = 1; second >= 0; second--) {
        Op *added = own_product(g, op->in[second], false);
        if (!added || !own_product(g, op->in[!second], true)) continue;
        Value *product = added->out[0], *c = b_reshape(g, op->in[!second], product->rank, product->shape);
        if (!same_shape(g, c, product)) continue;
        by[0] = b_reshape(g, b_dot_add(g, added, c), op->out[0]->rank, op->out[0]->shape);
        return true;
    }
    return false;
}

void pass_accumulate(Graph *g)
{
    if (rewrite(g, accumulate, NULL, false)) graph_prune(g);
}
