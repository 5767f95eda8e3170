/* One walk over a graph that keeps or replaces each operation. */
#include "passes/rewrite.h"

enum { FEW_RESULTS = 8, FEW_OUTPUTS = 16 };

/* A value that was replaced may be what the graph is for; by is indexed by id, up to n. */
static void replace_outputs(Graph *g, Value *const *by, int n)
{
    for (int i = 0; i < g->outputs.n; i++)
        for (Value **v = &g->outputs.at[i]; (*v)->id < n && by[(*v)->id];) *v = by[(*v)->id];
}

int rewrite(Graph *g, RewriteRule *rule, void *context, bool bodies)
{
    Ops before = g->ops;
    const char *source = g->source, *role = g->role;
    const int values = g->next_value;
    Value **replacement = NULL;
    int replaced = 0;
    g->ops = g->spare;
    g->ops.n = 0;
    g->spare = (Ops){0};
    Value *few[FEW_RESULTS];
    Arena *scratch = g->outputs.n > FEW_OUTPUTS ? arena_new() : NULL;
    if (scratch) graph_mark_outputs(g, scratch);
    for (int o = 0; o < before.n; o++) {
        Op *op = before.at[o];
        for (int k = 0; bodies && k < 2 && op->body[k]; k++) replaced += rewrite(op->body[k], rule, context, true);
        Value **by = op->n_out > FEW_RESULTS ? NEW_ARRAY(g->arena, Value *, op->n_out) : few;
        few[0] = NULL; /* of an effect, too, which has no result */
        for (int i = 0; i < op->n_out; i++) by[i] = NULL;
        g->source = op->source;
        g->role = op->role;
        if (!rule(g, op, by, context)) {
            vec_push(g->arena, &g->ops, op);
            continue;
        }
        if (!replacement) replacement = NEW_ARRAY(g->arena, Value *, values + 1);
        for (int i = 0; i < op->n_out; i++) {
            graph_replace_operands(g, op->out[i], by[i]);
            if (by[i] != op->out[i]) replacement[op->out[i]->id] = by[i];
        }
        replaced++;
    }
    g->source = source;
    g->role = role;
    g->spare = before;
    graph_unmark_outputs(g);
    arena_free(scratch);
    if (!replaced) return 0;
    if (replacement) replace_outputs(g, replacement, values); /* else it was all in bodies */
    graph_settle(g);
    return replaced;
}
