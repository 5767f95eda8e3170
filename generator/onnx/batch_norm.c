/* BatchNormalization: with the batch's statistics where it trains, with the running ones otherwise.
 *
 * A model exported for training (training_mode 1; before opset 14: five outputs) trains its normalization; one exported for
 * inference keeps the running statistics fixed, unless --batch-norm train.  Statistics that come in as inputs of the batch rather
 * than as weights are the caller's affair: then the operator does just what its attribute says. */
#include "onnx/norm.h"
#include <string.h>

typedef struct BatchNorm {
    Value *x, *scale, *bias, *mean, *variance; /* of the channels, shaped (c) */
    double epsilon, momentum;
} BatchNorm;

/* (x - mean) / sqrt(variance + epsilon) * scale + bias; mean and variance broadcast to x. */
static Value *normalize(Import *im, const BatchNorm *b, Value *centered, Value *variance)
{
    Graph *g = im->graph;
    Value *inverse = reciprocal_sqrt(g, shifted(g, variance, b->epsilon));
    Value *scale = along_channels(g, b->scale, b->x->rank), *bias = along_channels(g, b->bias, b->x->rank);
    return b_cast(g, b_add(g, b_mul(g, centered, b_mul(g, inverse, scale)), bias), b->x->dtype);
}

static Value *mixed(Graph *g, const BatchNorm *b, Value *running, Value *of_batch)
{
    return b_add(g, scaled(g, running, b->momentum), scaled(g, of_batch, 1 - b->momentum));
}

static void assign_statistics(Import *im, const OnnxNode *node, Value *running, Value *updated)
{
    if (running->origin != FROM_WEIGHT)
        import_error(im, node,
                     "the running statistics (\"%s\") stand outside of a loop's body or are computed; wanted weights that "
                     "the step can update: --batch-norm frozen leaves them as they are",
                     running->name ? running->name : "");
    running->tensor->statistics = true;
    running->tensor->trainable = false;
    b_assign(im->graph, running, updated);
}

static void with_batch_statistics(Import *im, const OnnxNode *node, const BatchNorm *b, bool assigns)
{
    Graph *g = im->graph;
    int64_t axes[MOST_AXES] = {0};
    int n = 1 + axes_from(2, b->x->rank, axes + 1);
    Moments m = moments_over(g, b->x, axes, n);
    Expr *channels[] = {b->x->shape[1]};
    Value *mean = mixed(g, b, b->mean, b_cast(g, b_reshape(g, m.mean, 1, channels), b->mean->dtype));
    Value *variance = mixed(g, b, b->variance, b_cast(g, b_reshape(g, m.variance, 1, channels), b->variance->dtype));
    output(im, node, 0, normalize(im, b, m.centered, m.variance));
    output(im, node, 1, mean);
    output(im, node, 2, variance);
    output(im, node, 3, b_reshape(g, m.mean, 1, channels));
    output(im, node, 4, b_reshape(g, m.variance, 1, channels));
    if (!assigns) return;
    assign_statistics(im, node, b->mean, mean);
    assign_statistics(im, node, b->variance, variance);
}

static void with_running_statistics(Import *im, const OnnxNode *node, const BatchNorm *b)
{
    Graph *g = im->graph;
    Value *centered = b_sub(g, b->x, along_channels(g, b->mean, b->x->rank));
    output(im, node, 0, normalize(im, b, centered, along_channels(g, b->variance, b->x->rank)));
    for (int i = 1; i < 5; i++) output(im, node, i, i % 2 ? b->mean : b->variance);
}

static BatchNorm batch_norm(Import *im, const OnnxNode *node)
{
    BatchNorm b = {
        .x = input(im, node, 0), .epsilon = attr_float(node, "epsilon", 1e-5), .momentum = attr_float(node, "momentum", 0.9)};
    want_rank(im, node, b.x, 2, MOST_AXES, "X (n, c, d..)");
    Value **parts[] = {&b.scale, &b.bias, &b.mean, &b.variance};
    static const char *const names[] = {"scale", "B", "the running mean", "the running variance"};
    for (int i = 0; i < 4; i++) {
        *parts[i] = input(im, node, i + 1);
        want_rank(im, node, *parts[i], 1, 1, names[i]);
        must_agree(im, node, b.x->shape[1], (*parts[i])->shape[0], arena_text(im->arena, "the channels of X and of %s", names[i]));
        if (i < 2) *parts[i] = b_cast(im->graph, *parts[i], b.x->dtype);
    }
    return b;
}

void import_BatchNormalization(Import *im, const OnnxNode *node)
{
    int version = opset(im, node);
    if (version < 9 && !attr_int(node, "spatial", 1))
        import_error(im, node, "spatial is 0, statistics of each element; wanted 1: convert the model to opset 9 or later");
    BatchNorm b = batch_norm(im, node);
    bool exported_training = version >= 14 ? attr_int(node, "training_mode", 0) : node->n_outputs > 1;
    bool are_weights = b.mean->origin == FROM_WEIGHT || input_term(im, node, 3)->tensor;
    if (!are_weights) {
        if (exported_training)
            with_batch_statistics(im, node, &b, false);
        else
            with_running_statistics(im, node, &b);
        return;
    }
    bool trains =
        im->training && (im->batch_norm == BATCH_NORM_TRAIN || (im->batch_norm == BATCH_NORM_AS_EXPORTED && exported_training));
    if (trains)
        with_batch_statistics(im, node, &b, true);
    else
        with_running_statistics(im, node, &b);
}
