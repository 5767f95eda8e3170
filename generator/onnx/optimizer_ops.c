/* Optimizers that a model brings itself, of ai.onnx.preview.training: rate, step, then n weights, n gradients, n of each state.
 * They are computed as any other operator; the program's own optimizer has nothing to do with them. */
#include "onnx/formulas.h"
#include <string.h>

typedef struct Update {
    Import *im;
    const OnnxNode *node;
    Value *rate, *step; /* scalars: f32, i64 */
    int n, states;
} Update;

static Update read_update(Import *im, const OnnxNode *node, int states)
{
    Update u = {im, node, input(im, node, 0), b_cast(im->graph, input(im, node, 1), DTYPE_i64), 0, states};
    u.n = (node->n_inputs - 2) / (2 + states);
    if (u.n * (2 + states) != node->n_inputs - 2)
        import_error(im, node, "%d inputs; wanted the rate, the step, and %d for each weight", node->n_inputs, 2 + states);
    return u;
}

/* Input of tensor i: part 0 the weight, 1 the gradient, then the states. */
static Value *part(const Update *u, int i, int which)
{
    Value *v = input(u->im, u->node, 2 + which * u->n + i), *x = input(u->im, u->node, 2 + i);
    want_same_type(u->im, u->node, x, v);
    want_same_shape(u->im, u->node, x, v, "shapes of a weight and of its gradient or state");
    return v;
}

/* The gradient with that of norm_coefficient / 2 * |x|^2. */
static Value *regularized(const Update *u, Value *x, Value *gradient)
{
    Graph *g = u->im->graph;
    double c = attr_float(u->node, "norm_coefficient", 0);
    return c == 0 ? gradient : b_add(g, scaled(g, x, c), gradient);
}

static Value *rate_as(const Update *u, const Value *x)
{
    return b_reshape(u->im->graph, b_cast(u->im->graph, u->rate, x->dtype), 0, NULL);
}

static Value *is_later(const Update *u)
{
    Graph *g = u->im->graph;
    return less(g, b_number(g, DTYPE_i64, 0), b_reshape(g, u->step, 0, NULL));
}

/* a * x + b * y */
static Value *blend(Graph *g, double a, Value *x, double b, Value *y)
{
    return b_add(g, scaled(g, x, a), scaled(g, y, b));
}

void import_Adam(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Update u = read_update(im, node, 2);
    double alpha = attr_float(node, "alpha", 0.9), beta = attr_float(node, "beta", 0.999),
           epsilon = attr_float(node, "epsilon", 1e-6);
    for (int i = 0; i < u.n; i++) {
        Value *x = part(&u, i, 0), *gradient = regularized(&u, x, part(&u, i, 1));
        Value *v = blend(g, alpha, part(&u, i, 2), 1 - alpha, gradient);
        Value *h = blend(g, beta, part(&u, i, 3), 1 - beta, b_mul(g, gradient, gradient));
        Value *t = b_cast(g, b_reshape(g, u.step, 0, NULL), x->dtype), *one = b_like(g, x, 1), *rate = rate_as(&u, x);
        Value *root = b_unary(g, OP_sqrt, b_sub(g, one, b_binary(g, OP_pow, b_like(g, x, beta), t)));
        Value *corrected = b_div(g, b_mul(g, rate, root), b_sub(g, one, b_binary(g, OP_pow, b_like(g, x, alpha), t)));
        rate = b_select(g, is_later(&u), corrected, rate);
        Value *next = b_sub(g, x, b_mul(g, rate, b_div(g, v, shifted(g, b_unary(g, OP_sqrt, h), epsilon))));
        output(im, node, i, scaled(g, next, 1 - attr_float(node, "norm_coefficient_post", 0)));
        output(im, node, u.n + i, v);
        output(im, node, 2 * u.n + i, h);
    }
}

void import_Adagrad(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Update u = read_update(im, node, 1);
    for (int i = 0; i < u.n; i++) {
        Value *x = part(&u, i, 0), *gradient = regularized(&u, x, part(&u, i, 1));
        Value *t = b_cast(g, b_reshape(g, u.step, 0, NULL), x->dtype);
        Value *rate = b_div(g, rate_as(&u, x), shifted(g, scaled(g, t, attr_float(node, "decay_factor", 0)), 1));
        Value *h = b_add(g, part(&u, i, 2), b_mul(g, gradient, gradient));
        Value *root = shifted(g, b_unary(g, OP_sqrt, h), attr_float(node, "epsilon", 1e-6));
        output(im, node, i, b_sub(g, x, b_div(g, b_mul(g, rate, gradient), root)));
        output(im, node, u.n + i, h);
    }
}

void import_Momentum(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Update u = read_update(im, node, 1);
    const char *mode = attr_string(node, "mode", "standard");
    bool nesterov = strcmp(mode, "nesterov") == 0;
    double alpha = attr_float(node, "alpha", 0), beta = attr_float(node, "beta", 0);
    if (!nesterov && strcmp(mode, "standard") != 0) import_error(im, node, "mode is \"%s\"; wanted standard or nesterov", mode);
    for (int i = 0; i < u.n; i++) {
        Value *x = part(&u, i, 0), *gradient = regularized(&u, x, part(&u, i, 1));
        Value *weight = b_select(g, is_later(&u), b_like(g, x, beta), b_like(g, x, 1));
        Value *v = b_add(g, scaled(g, part(&u, i, 2), alpha), b_mul(g, weight, gradient));
        Value *step = nesterov ? b_add(g, gradient, scaled(g, v, alpha)) : v;
        output(im, node, i, b_sub(g, x, b_mul(g, rate_as(&u, x), step)));
        output(im, node, u.n + i, v);
    }
}
