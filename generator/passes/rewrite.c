/* One walk over a graph that keeps or replaces each operation. */
#include "passes/rewrite.h"

int rewrite(Graph *g, RewriteRule *rule, void *context, bool bodies)
{
    Ops before = g->ops;
    const char *source = g->source, *role = g->role;
    int replaced = 0;
    g->ops = (Ops){0};
    for (int o = 0; o < before.n; o++) {
        Op *op = before.at[o];
        for (int k = 0; bodies && k < 2 && op->body[k]; k++) replaced += rewrite(op->body[k], rule, context, true);
        Value **by = NEW_ARRAY(g->arena, Value *, op->n_out + 1);
        g->source = op->source;
        g->role = op->role;
        if (!rule(g, op, by, context)) {
            vec_push(g->arena, &g->ops, op);
            continue;
        }
        for (int i = 0; i < op->n_out; i++) graph_replace(g, op->out[i], by[i]);
        replaced++;
    }
    g->source = source;
    g->role = role;
    if (replaced) graph_settle(g);
    return replaced;
}
