/* The result of attention is written where its transpose wants it: whoever else reads the result reads the transpose, turned back.
 *
 *     %5, .. = attention ..  [batch, heads, seq, 64]           %5, .. = attention ..
 *     %6 = transpose %5      [batch, seq, heads, 64]     ->    %6 = transpose %5          the one reader: the same memory
 *     %9 = mul %8, %5                                          %7 = transpose %6
 *                                                              %9 = mul %8, %7
 *
 * Needs: simplified graph.  Breaks: transposes of transposes stand there, so simplify must not follow. */
#include "ir/view.h"
#include "passes/passes.h"

/* Among the readers of v a transpose, directly or behind a reshape; the first. */
static Value *first_transpose(const Value *v, bool through)
{
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        if (u->kind == OP_transpose) return u->out[0];
    }
    for (int i = 0; i < v->users.n && through; i++) {
        const Op *u = v->users.at[i];
        Value *z = u->kind == OP_reshape ? first_transpose(u->out[0], false) : NULL;
        if (z) return z;
    }
    return NULL;
}

static Value *turned_back(Graph *g, Value *z)
{
    const int64_t *axes = op_ints(z->def, ATTR_axes, NULL);
    int64_t *back = NEW_ARRAY(g->arena, int64_t, z->rank + 1);
    for (int i = 0; i < z->rank; i++) back[axes[i]] = i;
    Value *in[] = {z};
    Op *op = graph_op(g, OP_transpose, in, 1, 1);
    op_set_ints(g, op, ATTR_axes, back, z->rank);
    return op_result(g, op, 0, z->dtype, z->rank, z->def->in[0]->shape);
}

/* All readers of v but `way`, which leads to z, read z. */
static void read_instead(Graph *g, Value *v, const Op *way, Value *z)
{
    Value *other = NULL;
    const Ops users = v->users;
    v->users = (Ops){0};
    for (int i = 0; i < users.n; i++) {
        Op *u = users.at[i];
        if (u == way) {
            vec_push(g->arena, &v->users, u);
            continue;
        }
        g->source = u->source, g->role = u->role;
        if (!other) other = b_reshape(g, turned_back(g, z), v->rank, v->shape);
        for (int k = 0; k < u->n_in; k++)
            if (u->in[k] == v) op_set_operand(g, u, k, other);
    }
}

void pass_lay_out(Graph *g)
{
    const char *source = g->source, *role = g->role;
    bool changed = false;
    View w;
    for (int o = 0, n = g->ops.n; o < n; o++) {
        const Op *op = g->ops.at[o];
        if (op->kind != OP_attention) continue;
        Value *y = op->out[0], *z = first_transpose(y, true);
        if (!z || !value_lies_as(g, y, z, &w)) continue;
        Value *between = z->def->in[0];
        read_instead(g, y, between == y ? z->def : between->def, z);
        if (between != y) read_instead(g, between, z->def, z);
        changed = true;
    }
    g->source = source, g->role = role;
    if (!changed) return;
    graph_settle(g);
    graph_sort(g);
}
