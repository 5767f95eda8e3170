/* Part of algebra: what a scan stacks and nobody needs, or has twice.
 *
 *     %5: [time, n, 48], %6: [time, n, 16] = scan … { %9 = concat %7, %8, …   return %9, %8 }
 *
 * gives %6 as a slice of %5. */
#include "passes/algebra.h"

static void drop_result(Op *op, int k)
{
    Values *outputs = &op->body[0]->outputs;
    for (int i = k; i + 1 < op->n_out; i++) {
        op->out[i] = op->out[i + 1];
        op->out[i]->result = i;
        outputs->at[i] = outputs->at[i + 1];
    }
    op->n_out--;
    outputs->n--;
}

/* Where v lies along the axis of a concat that has it as a part; NULL where it is none. */
static Expr *place_in(const Graph *g, const Op *concat, const Value *v)
{
    Expr *at = expr_int(g->symbols, 0);
    const int axis = (int)op_int(concat, ATTR_axis);
    for (int i = 0; i < concat->n_in; i++) {
        if (concat->in[i] == v) return at;
        at = expr_add(g->symbols, at, concat->in[i]->shape[axis]);
    }
    return NULL;
}

/* The stacked result k as a slice of another that is stacked; NULL where no other holds it. */
static Value *slice_of_other(Graph *g, const Op *op, int k)
{
    const Value *v = op->body[0]->outputs.at[k];
    for (int i = (int)op_int(op, ATTR_carries); i < op->n_out; i++) {
        const Op *concat = op->body[0]->outputs.at[i]->def;
        Expr *at = i != k && concat && concat->kind == OP_concat ? place_in(g, concat, v) : NULL;
        const int axis = at ? (int)op_int(concat, ATTR_axis) : 0;
        if (at) return b_slice_axis(g, op->out[i], axis + 1, at, v->shape[axis]);
    }
    return NULL;
}

static bool simplify_scan(Graph *g, Op *op)
{
    const int carries = (int)op_int(op, ATTR_carries), keep = op_int(op, ATTR_slices) ? carries : carries + 1;
    bool changed = false;
    for (int k = op->n_out - 1; k >= carries && op->n_out > keep; k--) { /* one tells the number of steps, where no slice does */
        Value *result = op->out[k], *other;
        if (result->users.n || graph_is_output(g, result)) {
            g->source = op->source;
            g->role = op->role;
            if (!(other = slice_of_other(g, op, k))) continue;
            graph_replace(g, result, other);
        }
        drop_result(op, k);
        changed = true;
    }
    return changed;
}

bool algebra_scans(Graph *g)
{
    const char *source = g->source, *role = g->role;
    const int n = g->ops.n;
    bool changed = false;
    for (int o = 0; o < n; o++)
        if (g->ops.at[o]->kind == OP_scan) changed |= simplify_scan(g, g->ops.at[o]);
    g->source = source;
    g->role = role;
    return changed;
}
