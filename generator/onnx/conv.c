/* Convolutions. */
#include "onnx/window.h"
#include <string.h>

/* Conv without its bias.  x (n, c, d..), w (o, c/groups, k..). */
static Value *convolution(Import *im, const OnnxNode *node, Value *x, Value *w)
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
