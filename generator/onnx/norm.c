/* Normalizations.  Variances are made in two passes, mean((x - mean(x))^2): a difference of large squares would cancel. */
#include "onnx/norm.h"
#include <string.h>

/* ---- pieces ---- */
Moments moments_over(Graph *g, Value *x, const int64_t *axes, int n)
{
    Moments m;
    m.mean = b_reduce_mean(g, x, axes, n, true);
    m.centered = b_sub(g, x, m.mean);
    m.variance = b_reduce_mean(g, b_mul(g, m.centered, m.centered), axes, n, true);
    return m;
}

int axes_from(int first, int rank, int64_t *axes)
{
    for (int i = first; i < rank; i++) axes[i - first] = i;
    return rank - first;
}

/* ---- LayerNormalization, RMSNormalization ---- */
Value *scale_and_shift(Import *im, const OnnxNode *node, Value *y, Value *scale, Value *bias)
{
    if (scale) {
        want_same_type(im, node, y, scale);
        want_broadcast(im, node, scale, y->rank, y->shape, "the scale");
        y = b_mul(im->graph, y, scale);
    }
    if (bias) {
        want_same_type(im, node, y, bias);
        want_broadcast(im, node, bias, y->rank, y->shape, "the bias");
        y = b_add(im->graph, y, bias);
    }
    return y;
}

Normed layer_norm(Import *im, const OnnxNode *node, Value *x, int axis, Value *scale, Value *bias, double epsilon)
{
    Graph *g = im->graph;
    int64_t axes[MOST_AXES];
    int n = axes_from(axis, x->rank, axes);
    Moments m = moments_over(g, x, axes, n);
    Normed r = {.mean = m.mean, .inverse = reciprocal_sqrt(g, shifted(g, m.variance, epsilon))};
    r.y = scale_and_shift(im, node, b_mul(g, m.centered, r.inverse), scale, bias);
    return r;
}

Normed rms_norm(Import *im, const OnnxNode *node, Value *x, int axis, Value *scale, double epsilon)
{
    Graph *g = im->graph;
    int64_t axes[MOST_AXES];
    int n = axes_from(axis, x->rank, axes);
    Value *square = b_reduce_mean(g, b_mul(g, x, x), axes, n, true);
    Normed r = {.inverse = reciprocal_sqrt(g, shifted(g, square, epsilon))};
    r.y = scale_and_shift(im, node, b_mul(g, x, r.inverse), scale, NULL);
    return r;
}

/* Statistics leave in float where stash_type says so, whatever x is. */
static Value *stashed(Import *im, const OnnxNode *node, Value *v)
{
    return attr_int(node, "stash_type", 1) == ONNX_DOUBLE ? v : b_cast(im->graph, v, DTYPE_f32);
}

void import_LayerNormalization(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    int axis = normal_axis(im, node, attr_int(node, "axis", -1), x->rank);
    Normed r = layer_norm(im, node, x, axis, input(im, node, 1), optional_input(im, node, 2), attr_float(node, "epsilon", 1e-5));
    output(im, node, 0, r.y);
    if (wants_output(node, 1)) output(im, node, 1, stashed(im, node, r.mean));
    if (wants_output(node, 2)) output(im, node, 2, stashed(im, node, r.inverse));
}

/* RMSNormalization, and ONNX Runtime's SimplifiedLayerNormalization, which also gives 1 / rms. */
void import_RMSNormalization(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    int axis = normal_axis(im, node, attr_int(node, "axis", -1), x->rank);
    Normed r = rms_norm(im, node, x, axis, input(im, node, 1), attr_float(node, "epsilon", 1e-5));
    output(im, node, 0, r.y);
    if (wants_output(node, 1)) output(im, node, 1, stashed(im, node, r.inverse));
}

/* ---- InstanceNormalization, GroupNormalization ---- */
static void want_channel_vector(Import *im, const OnnxNode *node, const Value *v, Expr *channels, const char *what)
{
    want_rank(im, node, v, 1, 1, what);
    must_agree(im, node, v->shape[0], channels, arena_text(im->arena, "the sizes of %s and of its axis", what));
}

void import_InstanceNormalization(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *scale = input(im, node, 1), *bias = input(im, node, 2);
    want_rank(im, node, x, 3, MOST_AXES, "the input (n, c, d..)");
    want_channel_vector(im, node, scale, x->shape[1], "scale");
    want_channel_vector(im, node, bias, x->shape[1], "B");
    int64_t axes[MOST_AXES];
    Moments m = moments_over(g, x, axes, axes_from(2, x->rank, axes));
    Value *y = b_mul(g, m.centered, reciprocal_sqrt(g, shifted(g, m.variance, attr_float(node, "epsilon", 1e-5))));
    output(im, node, 0, scale_and_shift(im, node, y, along_channels(g, scale, x->rank), along_channels(g, bias, x->rank)));
}

/* Scale and bias are of the channels, or (up to opset 20) of the groups. */
void import_GroupNormalization(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *scale = input(im, node, 1), *bias = input(im, node, 2);
    int64_t axes[MOST_AXES], n = attr_int(node, "num_groups", 0);
    want_rank(im, node, x, 3, MOST_AXES - 1, "X (n, c, d..)");
    if (n < 1) import_error(im, node, "num_groups is %lld; wanted at least 1", (long long)n);
    bool by_group = opset(im, node) < 21;
    Expr *groups = number(im, n), *each = want_quotient(im, node, x->shape[1], groups, "channels over num_groups");
    want_channel_vector(im, node, scale, by_group ? groups : x->shape[1], "scale");
    want_channel_vector(im, node, bias, by_group ? groups : x->shape[1], "bias");
    Value *apart = split_axis(g, x, 1, groups, each);
    Moments m = moments_over(g, apart, axes, axes_from(2, apart->rank, axes));
    Value *y = b_mul(g, m.centered, reciprocal_sqrt(g, shifted(g, m.variance, attr_float(node, "epsilon", 1e-5))));
    if (by_group) y = scale_and_shift(im, node, y, along_channels(g, scale, y->rank), along_channels(g, bias, y->rank));
    y = merge_axes(g, y, 1);
    if (!by_group) y = scale_and_shift(im, node, y, along_channels(g, scale, y->rank), along_channels(g, bias, y->rank));
    output(im, node, 0, y);
}
