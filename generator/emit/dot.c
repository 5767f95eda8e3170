/* Matrix products: a call of dot() or dot_add() in device/blas.h, with what is done to rows of the product as soon as they are there. */
#include "emit/kernel.h"
#include "emit/known_epilogue.h"

static Expr *axis_size(Emission *e, const Value *v, int from_end)
{
    return expr_canonical(e->all->symbols, v->shape[v->rank - from_end]);
}

/* c: where the product lies. */
static Launch *product(Emission *e, const Op *op, Value *place)
{
    Symbols *s = e->all->symbols;
    const bool ta = op_int(op, ATTR_trans_a), tb = op_int(op, ATTR_trans_b), to_sum = op->kind == OP_dot_add;
    Value *a = op->in[0], *b = op->in[1], *c = op->out[0];
    Expr *m = axis_size(e, c, 2), *n = axis_size(e, c, 1), *k = axis_size(e, a, ta ? 2 : 1);
    Expr *batch = expr_canonical(s, expr_product(s, c->shape, c->rank - 2));
    Launch *l = library_launch(e->all, e->group, to_sum ? "dot_add" : "dot");
    launch_arg_value(e->all, l, place);
    launch_arg_value(e->all, l, a);
    launch_arg_value(e->all, l, b);
    if (to_sum) launch_arg_value(e->all, l, op->in[2]);
    Expr *numbers[] = {batch, m, n, k, expr_int(s, ta), expr_int(s, tb)};
    for (int i = 0; i < 6; i++) launch_arg_expr(e->all, l, numbers[i]);
    if (e->group->adds && !to_sum) vec_push(e->all->arena, &l->args, ((Arg){.kind = ARG_LATER}));
    l->flops = expr_mul(s, expr_int(s, 2), expr_mul(s, expr_mul(s, batch, m), expr_mul(s, n, k)));
    l->blocks = expr_mul(s, batch, expr_mul(s, m, n));
    vec_push(e->all->arena, &e->launches, l);
    return l;
}

/* Adds the launches of the epilogue; its first one becomes a part of the product's call where it can be done a few rows at a time. */
static void emit_epilogue(Emission *e, Launch *dot)
{
    Arena *arena = e->all->arena;
    Symbols *s = e->all->symbols;
    const Group *group = e->group->epilogue;
    Emission own = {.all = e->all, .group = group};
    switch (group->kind) {
    case GROUP_LOOP: emit_loop(&own); break;
    case GROUP_ROW: emit_row(&own); break;
    default: emit_reduce(&own); break;
    }
    e->scratch = own.scratch;
    for (int i = 0; i < own.launches.n; i++) {
        Launch *l = own.launches.at[i];
        for (int a = 0; a < l->args.n; a++)
            if (l->args.at[a].kind == ARG_VALUE && l->args.at[a].value == group->product) l->args.at[a].value = group->place;
        if (i > 0 || !l->shares) {
            vec_push(arena, &e->launches, l);
            continue;
        }
        dot->epilogue = l;
        dot->reach = l->reach;
        if (!known_epilogue(arena, s, group, &dot->known)) dot->known.name = NULL;
        dot->own = dot->args.n;
        for (int a = 0; a < l->args.n; a++) vec_push(arena, &dot->args, l->args.at[a]);
        dot->flops = expr_add(s, dot->flops, l->flops);
    }
    if (dot->epilogue) return;
    dot->moved = bytes_of(e->all, group->product); /* written here and read there */
    for (int i = 0; i < e->group->ops.at[0]->n_in; i++) dot->moved = expr_add(s, dot->moved, bytes_of(e->all, e->group->ops.at[0]->in[i]));
}

void emit_dot(Emission *e)
{
    const Group *epilogue = e->group->epilogue;
    const Op *op = epilogue ? e->group->ops.at[0] : main_op(e->group);
    Launch *l = product(e, op, epilogue ? epilogue->place : op->out[0]);
    if (epilogue) emit_epilogue(e, l);
}
