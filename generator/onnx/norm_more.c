/* Normalizations beside the usual ones: with a residual before them, by a norm of the vector, across channels. */
#include "onnx/norm.h"
#include "onnx/places.h"
#include <string.h>

/* ---- ONNX Runtime's, with a residual ---- */
/* x + skip (+ bias), where skip may lack the batch. */
static Value *residual_sum(Import *im, const OnnxNode *node, Value *bias)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *skip = input(im, node, 1);
    want_same_type(im, node, x, skip);
    Value *sum = b_add(g, x, want_broadcast(im, node, skip, x->rank, x->shape, "skip"));
    return bias ? b_add(g, sum, want_broadcast(im, node, bias, x->rank, x->shape, "bias")) : sum;
}

/* SkipLayerNormalization(x, skip, gamma, beta, bias), SkipSimplifiedLayerNormalization(x, skip, gamma, bias). */
void import_SkipNormalization(Import *im, const OnnxNode *node)
{
    bool simplified = strcmp(node->op_type, "SkipSimplifiedLayerNormalization") == 0;
    double epsilon = attr_float(node, "epsilon", 1e-12);
    Value *sum = residual_sum(im, node, optional_input(im, node, simplified ? 3 : 4)), *scale = input(im, node, 2);
    Normed r = simplified ? rms_norm(im, node, sum, sum->rank - 1, scale, epsilon)
                          : layer_norm(im, node, sum, sum->rank - 1, scale, optional_input(im, node, 3), epsilon);
    output(im, node, 0, r.y);
    if (r.mean) output(im, node, 1, r.mean);
    output(im, node, 2, r.inverse);
    output(im, node, 3, sum);
}

/* Words + positions (+ segments), then LayerNormalization. */
void import_EmbedLayerNormalization(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *ids = input(im, node, 0), *words = input(im, node, 2), *places = input(im, node, 3),
          *place = optional_input(im, node, 8);
    want_rank(im, node, ids, 2, 2, "input_ids (batch, time)");
    if (!place) place = b_iota(g, DTYPE_i64, 0, 1, &ids->shape[1]);
    want_rank(im, node, words, 2, 2, "word_embedding");
    want_rank(im, node, places, 2, 2, "position_embedding");
    Value *sum = checked_binary(im, node, OP_add, gather_within(im, words, normal_index(im, ids, words->shape[0]), 0),
                                gather_within(im, places, normal_index(im, place, places->shape[0]), 0));
    Value *segment = optional_input(im, node, 1), *segments = optional_input(im, node, 4);
    if (segment && segments)
        sum = checked_binary(im, node, OP_add, sum, gather_within(im, segments, normal_index(im, segment, segments->shape[0]), 0));
    Normed r = layer_norm(im, node, sum, 2, input(im, node, 5), input(im, node, 6), attr_float(node, "epsilon", 1e-12));
    output(im, node, 0, r.y);
    if (wants_output(node, 1) && has_input(node, 7)) {
        Value *mask = b_cast(g, input(im, node, 7), DTYPE_i32);
        want_rank(im, node, mask, 2, 2, "mask (batch, time)");
        output(im, node, 1, b_reduce(g, OP_reduce_sum, mask, (const int64_t[]){1}, 1));
    } else if (wants_output(node, 1)) {
        output(im, node, 1, b_full(g, DTYPE_i32, 0, 1, &ids->shape[0]));
    }
    output(im, node, 2, sum);
}

/* ---- by a norm ---- */
/* x / |x|_p along an axis; zero vectors stay zero. */
void import_LpNormalization(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    int64_t p = attr_int(node, "p", 2), axis = normal_axis(im, node, attr_int(node, "axis", -1), x->rank);
    if (p != 1 && p != 2) import_error(im, node, "p is %lld; wanted 1 or 2", (long long)p);
    Value *sum = b_reduce_keep(g, OP_reduce_sum, p == 1 ? b_unary(g, OP_abs, x) : b_mul(g, x, x), &axis, 1);
    Value *safe = b_select(g, equal(g, sum, b_like(g, sum, 0)), b_like(g, sum, 1), sum);
    output(im, node, 0, b_div(g, x, p == 1 ? safe : b_unary(g, OP_sqrt, safe)));
}

/* (x - mean) / (deviation + 1e-9), deviation the root of the population variance. */
void import_MeanVarianceNormalization(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    static const int64_t usual[] = {0, 2, 3};
    int n;
    int64_t axes[MOST_AXES];
    const int64_t *given = attr_ints(node, "axes", &n);
    if (!given) n = 3, given = usual;
    if (n > MOST_AXES) import_error(im, node, "%d axes; wanted at most %d", n, MOST_AXES);
    for (int i = 0; i < n; i++) axes[i] = normal_axis(im, node, given[i], x->rank);
    Moments m = moments_over(g, x, axes, n);
    output(im, node, 0, b_div(g, m.centered, shifted(g, b_unary(g, OP_sqrt, m.variance), 1e-9)));
}

/* ---- LRN ---- */
/* x / (bias + alpha / size * sum of squares over `size` channels around)^beta: a pool over the channels. */
void import_LRN(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    int64_t size = attr_int(node, "size", 0);
    want_rank(im, node, x, 2, MOST_AXES, "X (n, c, d..)");
    if (size < 1) import_error(im, node, "size is %lld; wanted at least 1", (long long)size);
    Expr *one = number(im, 1), *flat[] = {x->shape[0], one, x->shape[1], expr_product(im->symbols, x->shape + 2, x->rank - 2)};
    Window win = {.rank = 2, .groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .window = {size, 1}};
    win.low[0] = number(im, (size - 1) / 2);
    win.high[0] = number(im, size / 2);
    win.low[1] = win.high[1] = number(im, 0);
    Value *sum = b_reshape(g, b_pool_sum(g, b_reshape(g, b_mul(g, x, x), 4, flat), &win), x->rank, x->shape);
    Value *base = shifted(g, scaled(g, sum, attr_float(node, "alpha", 1e-4) / (double)size), attr_float(node, "bias", 1));
    output(im, node, 0, b_div(g, x, b_binary(g, OP_pow, base, b_like(g, base, attr_float(node, "beta", 0.75)))));
}
