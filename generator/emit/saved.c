/* What fusing saves: what a group's operations would read and write as kernels of their own, less what the group does. */
#include "emit/saved.h"
#include "passes/passes.h"

/* What lies in memory of an operand, where every operation is a kernel of its own: constants, counters and broadcasts never do. */
static const Value *in_memory(const Value *v)
{
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape)) v = v->def->in[0];
    const bool made = v->def && op_info(v->def->kind)->class == SOURCE && v->def->kind != OP_random;
    return made || v->origin == FROM_HYPER ? NULL : v;
}

static bool is_free(const Op *op)
{
    const OpClass class = op_info(op->kind)->class;
    return class == SOURCE || class == REGION || op->kind == OP_broadcast || op->kind == OP_reshape;
}

static Expr *bytes(Symbols *s, const Value *v)
{
    return expr_mul(s, expr_canonical(s, expr_product(s, v->shape, v->rank)), expr_int(s, dtype_bytes(v->dtype)));
}

/* Attention as it would be written out. */
static Expr *attention_alone(Arena *arena, Symbols *s, const Op *op)
{
    Graph *g = graph_new(arena, s, "attention");
    Value **in = NEW_ARRAY(arena, Value *, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++)
        in[i] = graph_input(g, arena_text(arena, "%d", i), op->in[i]->dtype, op->in[i]->rank, op->in[i]->shape, FROM_PARAMETER);
    Op *copy = graph_op(g, op->kind, in, op->n_in, op->n_out);
    for (int i = 0; i < op->n_out; i++) {
        const Value *y = op->out[i];
        vec_push(arena, &g->outputs, op_result(g, copy, i, y->dtype, y->rank, y->shape));
    }
    for (int b = 0; b < 2; b++) copy->body[b] = op->body[b];
    pass_decompose_attention(g);
    Expr *sum = expr_int(s, 0);
    for (int o = 0; o < g->ops.n; o++) sum = expr_add(s, sum, bytes_alone(arena, s, g->ops.at[o]));
    return sum;
}

Expr *bytes_alone(Arena *arena, Symbols *s, const Op *op)
{
    if (op_info(op->kind)->class == ATTENTION) return attention_alone(arena, s, op);
    Expr *sum = expr_int(s, 0);
    if (is_free(op)) return sum;
    for (int i = 0; i < op->n_in; i++) {
        const Value *v = in_memory(op->in[i]);
        bool again = false;
        for (int k = 0; k < i; k++) again |= in_memory(op->in[k]) == v;
        if (v && !again) sum = expr_add(s, sum, bytes(s, v));
    }
    for (int i = 0; i < op->n_out; i++) sum = expr_add(s, sum, bytes(s, op->out[i]));
    return sum;
}

Expr *bytes_saved(Arena *arena, Symbols *s, const Group *group, uint8_t *counted, int *kernels)
{
    Expr *sum = expr_int(s, 0);
    *kernels = 0;
    for (int o = 0; o < group->ops.n; o++) {
        const Op *op = group->ops.at[o];
        if ((counted && counted[op->id]) || is_free(op)) continue;
        if (counted) counted[op->id] = 1;
        *kernels += op_info(op->kind)->class == ATTENTION ? 2 : 1;
        sum = expr_add(s, sum, bytes_alone(arena, s, op));
    }
    if (*kernels < 2) return NULL;
    for (int i = 0; i < group->in.n; i++)
        if (group->in.at[i]->origin != FROM_HYPER) sum = expr_sub(s, sum, bytes(s, group->in.at[i]));
    for (int i = 0; i < group->out.n; i++) sum = expr_sub(s, sum, bytes(s, group->out.at[i]));
    if (group->product) sum = expr_add(s, sum, bytes(s, group->product)); /* an epilogue finds it near the processor, */
    if (group->product && values_hold(&group->out, group->place)) sum = expr_add(s, sum, bytes(s, group->product)); /* and it never leaves */
    return expr_canonical(s, sum);
}

Expr *bytes_saved_by_cell(Arena *arena, Symbols *s, const Op *scan, Expr *moved)
{
    const Graph *body = scan->body[0];
    const int64_t carries = op_int(scan, ATTR_carries);
    Expr *sum = expr_int(s, 0), *times = op_int(scan, ATTR_slices) ? scan->in[carries]->shape[0] : scan->out[carries]->shape[0];
    for (int o = 0; o < body->ops.n; o++) sum = expr_add(s, sum, bytes_alone(arena, s, body->ops.at[o]));
    return expr_canonical(s, expr_sub(s, expr_mul(s, sum, times), moved));
}
