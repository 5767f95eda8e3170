/* Matrix products: a call of dot() or dot_add() in device/blas.h. */
#include "emit/kernel.h"

static Expr *axis_size(Emission *e, const Value *v, int from_end)
{
    return expr_canonical(e->all->symbols, v->shape[v->rank - from_end]);
}

void emit_dot(Emission *e)
{
    const Op *op = main_op(e->group);
    Symbols *s = e->all->symbols;
    const bool ta = op_int(op, ATTR_trans_a), tb = op_int(op, ATTR_trans_b);
    Value *a = op->in[0], *b = op->in[1], *c = op->out[0];
    Expr *m = axis_size(e, c, 2), *n = axis_size(e, c, 1), *k = axis_size(e, a, ta ? 2 : 1);
    Expr *batch = expr_canonical(s, expr_product(s, c->shape, c->rank - 2));
    const bool to_sum = op->kind == OP_dot_add;
    Launch *l = library_launch(e->all, e->group, to_sum ? "dot_add" : "dot");
    launch_arg_value(e->all, l, c);
    launch_arg_value(e->all, l, a);
    launch_arg_value(e->all, l, b);
    if (to_sum) launch_arg_value(e->all, l, op->in[2]);
    Expr *numbers[] = {batch, m, n, k, expr_int(s, ta), expr_int(s, tb)};
    for (int i = 0; i < 6; i++) launch_arg_expr(e->all, l, numbers[i]);
    if (e->group->adds && !to_sum) vec_push(e->all->arena, &l->args, ((Arg){.kind = ARG_LATER}));
    l->flops = expr_mul(s, expr_int(s, 2), expr_mul(s, expr_mul(s, batch, m), expr_mul(s, n, k)));
    l->blocks = expr_mul(s, batch, expr_mul(s, m, n));
    vec_push(e->all->arena, &e->launches, l);
}
