/* Convolutions. */
#include "onnx/quantize.h"
#include "onnx/window.h"
#include <string.h>

/* Conv without its bias.  x (n, c, d..), w (o, c/groups, k..). */
Value *convolution(Import *im, const OnnxNode *node, Value *x, Value *w)
{
    int64_t kernel[MOST_SPATIAL], groups = attr_int(node, "group", 1);
    want_rank(im, node, x, 3, 2 + MOST_SPATIAL, "X (n, c, d..)");
    if (w->rank != x->rank) import_error(im, node, "X is %s and W %s; wanted equal ranks", type_text(im, x), type_text(im, w));
    want_same_type(im, node, x, w);
    Expr *channels = expr_mul(im->symbols, w->shape[1], number(im, groups));
    if (!expr_always_equal(im->symbols, x->shape[1], channels) && !symbols_equate(im->symbols, x->shape[1], channels, NULL))
        import_error(im, node, "X is %s, W is %s, group %lld: W wants %s channels", type_text(im, x), type_text(im, w),
                     (long long)groups, expr_text(im->arena, channels));
    want_quotient(im, node, w->shape[0], number(im, groups), "outgoing channels over group");
    kernel_of(im, node, w, kernel);
    Window win = window_of(im, node, x->rank - 2, x->shape + 2, kernel);
    win.groups = groups;
    return b_conv(im->graph, x, w, &win);
}

static Value *with_bias(Import *im, const OnnxNode *node, Value *y, Value *bias)
{
    if (!bias) return y;
    want_rank(im, node, bias, 1, 1, "B");
    want_same_type(im, node, y, bias);
    must_agree(im, node, y->shape[1], bias->shape[0], "the channels of the result and of B");
    return b_add(im->graph, y, along_channels(im->graph, bias, y->rank));
}

void import_Conv(Import *im, const OnnxNode *node)
{
    Value *y = convolution(im, node, input(im, node, 0), input(im, node, 1));
    output(im, node, 0, with_bias(im, node, y, optional_input(im, node, 2)));
}

/* ---- FusedConv ---- */
/* Conv of ONNX Runtime's optimizer: + Z, then an activation. */
void import_FusedConv(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    int n;
    const char *activation = attr_string(node, "activation", "");
    const double *given = attr_floats(node, "activation_params", &n);
    double p[2] = {n > 0 ? given[0] : 0, n > 1 ? given[1] : 0};
    Value *y = with_bias(im, node, convolution(im, node, input(im, node, 0), input(im, node, 1)), optional_input(im, node, 2));
    Value *z = optional_input(im, node, 3);
    if (z) y = b_add(g, y, want_broadcast(im, node, z, y->rank, y->shape, "Z"));
    if (strcmp(activation, "Relu") == 0)
        y = b_unary(g, OP_relu, y);
    else if (strcmp(activation, "Tanh") == 0)
        y = b_unary(g, OP_tanh, y);
    else if (strcmp(activation, "Sigmoid") == 0)
        y = b_unary(g, OP_sigmoid, y);
    else if (strcmp(activation, "LeakyRelu") == 0)
        y = b_select(g, less(g, b_like(g, y, 0), y), y, scaled(g, y, n > 0 ? p[0] : 0.01));
    else if (strcmp(activation, "Clip") == 0 && n > 1)
        y = clamped(g, y, p[0], p[1]);
    else if (strcmp(activation, "HardSigmoid") == 0 && n > 1)
        y = clamped(g, shifted(g, scaled(g, y, p[0]), p[1]), 0, 1);
    else if (activation[0])
        import_error(im, node,
                     "activation is \"%s\" with %d parameters; wanted Relu, Tanh, Sigmoid, LeakyRelu, Clip or HardSigmoid",
                     activation, n);
    output(im, node, 0, y);
}

/* ---- ConvTranspose ---- */
/* The size of spatial axis i of the result, and the window of the convolution that this one is the gradient of:
 * result = stride * (size - 1) + output_padding + extent - low - high, where attributes do not say the result itself. */
static Expr *transposed_size(Import *im, const OnnxNode *node, Expr *size, Window *win, int i, int64_t out_pad)
{
    Symbols *s = im->symbols;
    int n;
    const int64_t *wanted = attr_ints(node, "output_shape", &n);
    const char *auto_pad = attr_string(node, "auto_pad", "NOTSET");
    bool upper = strcmp(auto_pad, "SAME_UPPER") == 0, same = upper || strcmp(auto_pad, "SAME_LOWER") == 0;
    Expr *stride = number(im, win->stride[i]), *span = expr_mul(s, stride, expr_sub(s, size, number(im, 1)));
    Expr *whole = expr_add(s, span, number(im, (win->window[i] - 1) * win->dilation[i] + 1)), *result;
    if (wanted || same) {
        result = wanted ? number(im, wanted[n - win->rank + i]) : expr_mul(s, size, stride);
        Expr *total = max_of(im, expr_sub(s, expr_add(s, whole, number(im, out_pad)), result), number(im, 0));
        Expr *half = expr_floordiv(s, total, number(im, 2));
        win->low[i] = upper ? half : expr_sub(s, total, half);
    } else {
        result = expr_add(s, expr_sub(s, whole, expr_add(s, win->low[i], win->high[i])), number(im, out_pad));
    }
    win->high[i] = expr_sub(s, whole, expr_add(s, result, win->low[i])); /* makes the convolution's size come out even */
    return result;
}

/* x (n, c, d..), w (c, o/groups, k..): the gradient of a convolution with respect to its input. */
void import_ConvTranspose(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *w = input(im, node, 1);
    int64_t kernel[MOST_SPATIAL], groups = attr_int(node, "group", 1);
    int n, n_shape, spatial = x->rank - 2;
    want_rank(im, node, x, 3, 2 + MOST_SPATIAL, "X (n, c, d..)");
    if (w->rank != x->rank) import_error(im, node, "X is %s and W %s; wanted equal ranks", type_text(im, x), type_text(im, w));
    want_same_type(im, node, x, w);
    must_agree(im, node, x->shape[1], w->shape[0], "channels of X and rows of W");
    const int64_t *out_pad = attr_ints(node, "output_padding", &n), *wanted = attr_ints(node, "output_shape", &n_shape);
    if (out_pad && n != spatial) import_error(im, node, "output_padding has %d numbers; wanted %d", n, spatial);
    if (wanted && n_shape != spatial && n_shape != spatial + 2)
        import_error(im, node, "output_shape has %d numbers; wanted %d", n_shape, spatial);
    kernel_of(im, node, w, kernel);
    Window win = transposed_window_of(im, node, spatial, kernel);
    win.groups = groups;
    Expr *shape[MOST_AXES] = {x->shape[0], expr_mul(im->symbols, w->shape[1], number(im, groups))};
    for (int i = 0; i < spatial; i++) shape[i + 2] = transposed_size(im, node, x->shape[i + 2], &win, i, out_pad ? out_pad[i] : 0);
    output(im, node, 0, with_bias(im, node, b_conv_grad_input(g, x, w, &win, shape), optional_input(im, node, 2)));
}
