/* Gradient rules of contractions, convolutions and pools: each family is closed under differentiation. */
#include "passes/gradient.h"

/* y = a b.  da = g b', db = a' g, laid out as a and b are: with trans_a, a holds a' and da' = b g' is wanted. */
void gradient_dot(Backward *b, Op *op)
{
    Value *p = op->in[0], *q = op->in[1], *g = backward_of(b, op->out[0]);
    bool trans_p = op_int(op, ATTR_trans_a), trans_q = op_int(op, ATTR_trans_b);
    if (backward_wants(b, p)) backward_add(b, p, trans_p ? b_dot(b->g, q, g, trans_q, true) : b_dot(b->g, g, q, false, !trans_q));
    if (backward_wants(b, q)) backward_add(b, q, trans_q ? b_dot(b->g, g, p, true, trans_p) : b_dot(b->g, p, g, !trans_p, false));
}

void gradient_dot_add(Backward *b, Op *op)
{
    gradient_dot(b, op);
    if (backward_wants(b, op->in[2])) backward_add(b, op->in[2], backward_of(b, op->out[0]));
}

/* Three forms of one sum over y[n,o,i] * w[o,c,k] * x[n,c,i*stride + k*dilation - low]: the gradient of each is one of the others.
 */
void gradient_conv(Backward *b, Op *op)
{
    Value *x = op->in[0], *w = op->in[1], *g = backward_of(b, op->out[0]);
    Window win = op_window(op);
    if (backward_wants(b, x)) backward_add(b, x, b_conv_grad_input(b->g, g, w, &win, x->shape));
    if (backward_wants(b, w)) backward_add(b, w, b_conv_grad_weight(b->g, g, x, &win, w->shape));
}

void gradient_conv_grad_input(Backward *b, Op *op)
{
    Value *dy = op->in[0], *w = op->in[1], *g = backward_of(b, op->out[0]);
    Window win = op_window(op);
    if (backward_wants(b, dy)) backward_add(b, dy, b_conv(b->g, g, w, &win));
    if (backward_wants(b, w)) backward_add(b, w, b_conv_grad_weight(b->g, dy, g, &win, w->shape));
}

void gradient_conv_grad_weight(Backward *b, Op *op)
{
    Value *dy = op->in[0], *x = op->in[1], *g = backward_of(b, op->out[0]);
    Window win = op_window(op);
    if (backward_wants(b, dy)) backward_add(b, dy, b_conv(b->g, x, g, &win));
    if (backward_wants(b, x)) backward_add(b, x, b_conv_grad_input(b->g, dy, g, &win, x->shape));
}

void gradient_pool_max(Backward *b, Op *op)
{
    Value *x = op->in[0], *g = backward_of(b, op->out[0]);
    Window win = op_window(op);
    if (g) backward_add(b, x, b_pool_max_grad(b->g, g, op->out[1], &win, x->shape));
}

/* (n, c, d..) as (n, c, all d) */
static Value *flat_space(Graph *g, Value *v)
{
    Expr *shape[] = {v->shape[0], v->shape[1], expr_product(g->symbols, v->shape + 2, v->rank - 2)};
    return b_reshape(g, v, 3, shape);
}

void gradient_pool_max_grad(Backward *b, Op *op)
{
    Value *dy = op->in[0], *g = backward_of(b, op->out[0]);
    Value *taken = take_along(b->g, flat_space(b->g, g), flat_space(b->g, op->in[1]), 2);
    backward_add(b, dy, b_reshape(b->g, taken, dy->rank, dy->shape));
}

void gradient_pool_sum(Backward *b, Op *op)
{
    Window win = op_window(op);
    backward_add(b, op->in[0], b_pool_sum_grad(b->g, backward_of(b, op->out[0]), &win, op->in[0]->shape));
}

void gradient_pool_sum_grad(Backward *b, Op *op)
{
    Window win = op_window(op);
    backward_add(b, op->in[0], b_pool_sum(b->g, backward_of(b, op->out[0]), &win));
}
