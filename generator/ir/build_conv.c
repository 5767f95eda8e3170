/* Builders of convolutions and pools.  Spatial kernels have integer sizes; strides and dilations too; pads are expressions. */
#include "ir/build_private.h"

enum { MOST_SPATIAL = 6 };

Window op_window(const Op *op)
{
    Window win = {.groups = 1};
    const int64_t *stride = op_ints(op, ATTR_stride, &win.rank), *dilation = op_ints(op, ATTR_dilation, NULL);
    Expr *const *low = op_exprs(op, ATTR_low, NULL), *const *high = op_exprs(op, ATTR_high, NULL);
    const Attr *window = op_attr(op, ATTR_window), *groups = op_attr(op, ATTR_groups);
    if (groups) win.groups = groups->i;
    for (int i = 0; i < win.rank; i++) {
        win.stride[i] = stride[i];
        win.dilation[i] = dilation[i];
        win.low[i] = low[i];
        win.high[i] = high[i];
        if (window)
            win.window[i] = window->ints[i];
        else if (!expr_is_int(op->kind == OP_conv_grad_weight ? op->out[0]->shape[i + 2] : op->in[1]->shape[i + 2], &win.window[i]))
            misfit("%s \"%s\": a kernel of unknown size", op_info(op->kind)->name, op->source);
    }
    return win;
}

Expr *window_output(Graph *g, Expr *size, const Window *win, int axis, int64_t kernel)
{
    Symbols *s = g->symbols;
    Expr *padded = expr_add(s, size, expr_add(s, win->low[axis], win->high[axis]));
    Expr *room = expr_sub(s, padded, expr_int(s, (kernel - 1) * win->dilation[axis] + 1));
    return expr_add(s, expr_floordiv(s, room, expr_int(s, win->stride[axis])), expr_int(s, 1));
}

static void check_window(const Graph *g, const Window *win, const Value *x)
{
    fits(win->rank >= 1 && win->rank <= MOST_SPATIAL && x->rank == win->rank + 2 && win->groups >= 1);
    for (int i = 0; i < win->rank; i++) fits(win->stride[i] >= 1 && win->dilation[i] >= 1 && win->low[i] && win->high[i]);
}

static void set_window(Graph *g, Op *op, const Window *win)
{
    bool pool = op_info(op->kind)->class == POOL;
    if (pool) op_set_ints(g, op, ATTR_window, win->window, win->rank);
    op_set_ints(g, op, ATTR_stride, win->stride, win->rank);
    op_set_exprs(g, op, ATTR_low, win->low, win->rank);
    op_set_exprs(g, op, ATTR_high, win->high, win->rank);
    op_set_ints(g, op, ATTR_dilation, win->dilation, win->rank);
    if (!pool) op_set_int(g, op, ATTR_groups, win->groups);
}

/* The shape of a window operation's result over x: (n, channels, outputs..). */
static Expr **windowed_shape(Graph *g, const Value *x, Expr *channels, const Window *win, const int64_t *kernel)
{
    Expr **shape = shape_copy(g, x->rank, x->shape, x->rank);
    shape[1] = channels;
    for (int i = 0; i < win->rank; i++) shape[i + 2] = window_output(g, x->shape[i + 2], win, i, kernel[i]);
    return shape;
}

static Value *two(Graph *g, OpKind kind, Value *a, Value *b, const Window *win, Expr *const *shape)
{
    Value *in[] = {a, b};
    check_window(g, win, a);
    Value *v = make(g, kind, in, 2, a->dtype, a->rank, shape);
    set_window(g, v->def, win);
    return v;
}

Value *b_conv(Graph *g, Value *x, Value *w, const Window *win)
{
    check_window(g, win, x);
    fits(w->rank == x->rank && w->dtype == x->dtype && dtype_is_float(x->dtype));
    int64_t kernel[MOST_SPATIAL];
    for (int i = 0; i < win->rank; i++)
        if (!expr_is_int(w->shape[i + 2], &kernel[i])) misfit("conv \"%s\": a kernel of unknown size", g->source);
    dims_agree(g, x->shape[1], expr_mul(g->symbols, w->shape[1], expr_int(g->symbols, win->groups)), "channels of conv");
    return two(g, OP_conv, x, w, win, windowed_shape(g, x, w->shape[0], win, kernel));
}

Value *b_conv_grad_input(Graph *g, Value *dy, Value *w, const Window *win, Expr *const *shape)
{
    fits(w->rank == dy->rank && w->dtype == dy->dtype);
    dims_agree(g, dy->shape[1], w->shape[0], "channels of conv_grad_input");
    return two(g, OP_conv_grad_input, dy, w, win, shape);
}

Value *b_conv_grad_weight(Graph *g, Value *dy, Value *x, const Window *win, Expr *const *shape)
{
    fits(x->rank == dy->rank && x->dtype == dy->dtype);
    dims_agree(g, dy->shape[0], x->shape[0], "batch dim of conv_grad_weight");
    return two(g, OP_conv_grad_weight, dy, x, win, shape);
}

void b_pool_max(Graph *g, Value *x, const Window *win, Value **y, Value **index)
{
    check_window(g, win, x);
    Expr **shape = windowed_shape(g, x, x->shape[1], win, win->window);
    Op *op = graph_op(g, OP_pool_max, &x, 1, 2);
    set_window(g, op, win);
    *y = op_result(g, op, 0, x->dtype, x->rank, shape);
    *index = op_result(g, op, 1, DTYPE_i64, x->rank, shape);
}

Value *b_pool_max_grad(Graph *g, Value *dy, Value *index, const Window *win, Expr *const *shape)
{
    fits(index->dtype == DTYPE_i64 && shape_is(g, index, dy->rank, dy->shape));
    return two(g, OP_pool_max_grad, dy, index, win, shape);
}

Value *b_pool_sum(Graph *g, Value *x, const Window *win)
{
    check_window(g, win, x);
    Value *v = make(g, OP_pool_sum, &x, 1, x->dtype, x->rank, windowed_shape(g, x, x->shape[1], win, win->window));
    set_window(g, v->def, win);
    return v;
}

Value *b_pool_sum_grad(Graph *g, Value *dy, const Window *win, Expr *const *shape)
{
    check_window(g, win, dy);
    Value *v = make(g, OP_pool_sum_grad, &dy, 1, dy->dtype, dy->rank, shape);
    set_window(g, v->def, win);
    return v;
}
