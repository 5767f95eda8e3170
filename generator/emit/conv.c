/* Convolutions and pooling: calls of device/conv.h and device/pool.h, conv2d(s, y, x, w, sizes…). */
#include "emit/kernel.h"

static void put_sizes(Emission *e, Launch *l, Expr *const *sizes, int n)
{
    for (int i = 0; i < n; i++) launch_arg_expr(e->all, l, expr_canonical(e->all->symbols, sizes[i]));
}

static void put_ints(Emission *e, Launch *l, const int64_t *values, int n)
{
    for (int i = 0; i < n; i++) launch_arg_expr(e->all, l, expr_int(e->all->symbols, values[i]));
}

static Expr *product_from(Emission *e, const Value *v, int axis)
{
    return expr_product(e->all->symbols, v->shape + axis, v->rank - axis);
}

void emit_conv(Emission *e)
{
    Symbols *s = e->all->symbols;
    const Op *op = main_op(e->group);
    const char *kind = op->kind == OP_conv ? "" : op->kind == OP_conv_grad_input ? "_grad_input" : "_grad_weight";
    const Value *x = op->kind == OP_conv ? op->in[0] : op->kind == OP_conv_grad_input ? op->out[0] : op->in[1];
    const Value *y = op->kind == OP_conv ? op->out[0] : op->in[0], *w = op->kind == OP_conv_grad_weight ? op->out[0] : op->in[1];
    const int rank = x->rank - 2;
    if (rank < 1 || rank > 3)
        error_exit("\"%s\": a convolution over %d spatial axes; wanted 1, 2 or 3 (an input of rank 3 to 5)", op->source, rank);
    Launch *l = library_launch(e->all, e->group, arena_text(e->all->arena, "conv%dd%s", rank, kind));
    launch_arg_value(e->all, l, op->out[0]);
    launch_arg_value(e->all, l, op->in[0]);
    launch_arg_value(e->all, l, op->in[1]);
    const int64_t groups = op_int(op, ATTR_groups);
    Expr *sizes[] = {x->shape[0], x->shape[1], y->shape[1], expr_int(s, groups)};
    int n;
    put_sizes(e, l, sizes, 4);
    put_sizes(e, l, x->shape + 2, rank);
    put_sizes(e, l, y->shape + 2, rank);
    put_sizes(e, l, w->shape + 2, rank);
    put_ints(e, l, op_ints(op, ATTR_stride, &n), rank);
    put_ints(e, l, op_ints(op, ATTR_dilation, &n), rank);
    put_sizes(e, l, op_exprs(op, ATTR_low, &n), rank);
    l->flops = expr_mul(s, expr_int(s, 2), expr_mul(s, count_of(e->all, y), product_from(e, w, 1)));
    vec_push(e->all->arena, &e->launches, l);
}

void emit_pool(Emission *e)
{
    Symbols *s = e->all->symbols;
    const Op *op = main_op(e->group);
    const bool is_max = op->kind == OP_pool_max || op->kind == OP_pool_max_grad,
               back = op->kind == OP_pool_max_grad || op->kind == OP_pool_sum_grad;
    const Value *x = back ? op->out[0] : op->in[0], *y = back ? op->in[0] : op->out[0];
    const int rank = x->rank - 2;
    if (rank < 1 || rank > 3)
        error_exit("\"%s\": pooling over %d spatial axes; wanted 1, 2 or 3 (an input of rank 3 to 5)", op->source, rank);
    Launch *l = library_launch(e->all, e->group,
                               arena_text(e->all->arena, "%s_pool%dd%s", is_max ? "max" : "sum", rank, back ? "_grad" : ""));
    for (int i = 0; i < op->n_out; i++) launch_arg_value(e->all, l, op->out[i]);
    for (int i = 0; i < op->n_in; i++) launch_arg_value(e->all, l, op->in[i]);
    launch_arg_expr(e->all, l, expr_mul(s, x->shape[0], x->shape[1]));
    int n;
    const int64_t *window = op_ints(op, ATTR_window, &n);
    put_sizes(e, l, x->shape + 2, rank);
    put_sizes(e, l, y->shape + 2, rank);
    put_ints(e, l, window, rank);
    put_ints(e, l, op_ints(op, ATTR_stride, &n), rank);
    put_ints(e, l, op_ints(op, ATTR_dilation, &n), rank);
    put_sizes(e, l, op_exprs(op, ATTR_low, &n), rank);
    l->flops = count_of(e->all, y);
    for (int i = 0; i < rank; i++) l->flops = expr_mul(s, l->flops, expr_int(s, window[i]));
    vec_push(e->all->arena, &e->launches, l);
}
