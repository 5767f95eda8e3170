/* What only the updates of weights and states need is computed after the commit, not in the midst of the forward pass: running
 * statistics of a norm.  What reads the same then need not wait for them, and kernels of the forward pass may end later.
 *
 * Needs: primitives, with a commit.  Breaks: nothing; no operation is changed, only the order. */
#include "passes/passes.h"

static int commit_of(const Graph *g)
{
    for (int o = 0; o < g->ops.n; o++)
        if (g->ops.at[o]->kind == OP_commit) return o;
    return -1;
}

/* Nobody but updates, and what only they need, reads its results. */
static bool only_for_updates(const Op *op, const uint8_t *output, const uint8_t *late)
{
    if (op->n_out == 0) return false;
    for (int k = 0; k < op->n_out; k++) {
        const Value *v = op->out[k];
        if (output[v->id]) return false;
        for (int u = 0; u < v->users.n; u++)
            if (v->users.at[u]->kind != OP_assign && !late[v->users.at[u]->id]) return false;
    }
    return op_info(op->kind)->class != LATE && op_info(op->kind)->class != REGION;
}

void pass_sink(Graph *g)
{
    const int commit = commit_of(g);
    if (commit < 0) return;
    Arena *scratch = arena_new();
    uint8_t *late = NEW_ARRAY(scratch, uint8_t, g->next_op + 1); /* by op->id */
    const uint8_t *output = graph_outputs(scratch, g);
    Ops moved = {0};
    for (int o = g->ops.n - 1; o >= 0; o--) late[g->ops.at[o]->id] = only_for_updates(g->ops.at[o], output, late);
    int kept = 0;
    for (int o = 0; o < commit; o++) {
        Op *op = g->ops.at[o];
        if (late[op->id])
            vec_push(scratch, &moved, op);
        else
            g->ops.at[kept++] = op;
    }
    g->ops.at[kept++] = g->ops.at[commit];
    for (int i = 0; i < moved.n; i++) g->ops.at[kept++] = moved.at[i];
    arena_free(scratch);
}
