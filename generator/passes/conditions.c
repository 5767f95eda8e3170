/* What a condition chooses is computed as if the condition held.
 *
 *     %4 = select %3, 0, %1                 of %6 only elements count where %3 is false: there %4 is %1
 *     %5 = mul %4, %2                ->     %5 = mul %1, %2
 *     %6 = select %3, 0, %5                 %6 = select %3, 0, %5
 *
 * Needs: primitives, after gradient: of elements that nobody chooses the gradient may be infinite, and 0 times that is not 0.  Breaks:
 * nothing; all bits stay the same.  Only floats, which trap nowhere. */
#include "passes/passes.h"
#include "passes/rewrite.h"

/* Where elements of a value count: nowhere that is known yet, where a condition holds (or does not), everywhere. */
typedef struct {
    const Value *condition;
    enum { NOWHERE, CHOSEN, EVERYWHERE } kind;
    bool holds;
} Where;

static Where meet(Where a, Where b)
{
    if (a.kind == NOWHERE) return b;
    if (b.kind == NOWHERE) return a;
    const bool same = a.kind == CHOSEN && b.kind == CHOSEN && a.condition == b.condition && a.holds == b.holds;
    return same ? a : (Where){.kind = EVERYWHERE};
}

/* Where operand i of op counts, if op's result counts as said. */
static Where of_operand(const Op *op, int i, Where result)
{
    const bool plain = op_info(op->kind)->class == ELEMENTWISE && dtype_is_float(op->out[0]->dtype);
    if (!plain) return (Where){.kind = EVERYWHERE};
    if (op->kind != OP_select || i == 0) return result;
    return (Where){op->in[0], CHOSEN, i == 1};
}

static bool choose(Graph *g, Op *op, Value **by, void *context)
{
    const Where *where = context, *w = op->n_out ? &where[op->out[0]->id] : NULL;
    (void)g;
    if (op->kind != OP_select || w->kind != CHOSEN || w->condition != op->in[0] || !dtype_is_float(op->out[0]->dtype)) return false;
    by[0] = op->in[w->holds ? 1 : 2];
    return true;
}

void pass_conditions(Graph *g)
{
    Arena *scratch = arena_new();
    Where *where = NEW_ARRAY(scratch, Where, g->next_value + 1);
    for (int i = 0; i < g->outputs.n; i++) where[g->outputs.at[i]->id].kind = EVERYWHERE;
    for (int o = g->ops.n - 1; o >= 0; o--) {
        const Op *op = g->ops.at[o];
        for (int k = 0; k < 2 && op->body[k]; k++) pass_conditions(op->body[k]);
        const Where result = op->n_out ? where[op->out[0]->id] : (Where){.kind = EVERYWHERE};
        for (int i = 0; i < op->n_in; i++) where[op->in[i]->id] = meet(where[op->in[i]->id], of_operand(op, i, result));
    }
    if (rewrite(g, choose, where, false)) graph_prune(g);
    arena_free(scratch);
}
