/* Losses that a model computes itself: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss. */
#include "onnx/places.h"
#include <string.h>

/* The batch's integers that labels are, each of them, in another shape or type; NULL: they are computed, or some of them are left out. */
static Value *of_batch(Value *labels)
{
    while (labels->def && (labels->def->kind == OP_reshape || labels->def->kind == OP_broadcast || labels->def->kind == OP_transpose ||
                           (labels->def->kind == OP_cast && cast_keeps_places(labels->def))))
        labels = labels->def->in[0];
    return labels->origin == FROM_BATCH && !dtype_is_float(labels->dtype) ? labels : NULL;
}

/* The loss of each label, and NaN where a label is no class and not ignored: guards look at labels that are the batch's. */
static Value *none_beyond(Import *im, const OnnxNode *node, Value *loss, Value *labels, Expr *classes)
{
    Value *batch = of_batch(labels);
    const bool ignores = attr_has(node, "ignore_index");
    const IndexRange range = {.n = classes,
                              .labels = true,
                              .has_ignore = ignores,
                              .ignore = ignores ? attr_int(node, "ignore_index", 0) : 0,
                              .source = im->graph->source};
    if (batch && graph_watch_range(im->graph, batch, range)) return loss;
    return none_outside(im, loss, place_within(im, labels, classes, false).inside, 0);
}

/* log_p (n, c, d..), labels (n, d..): the loss of each label, and the mean or sum as `reduction` says.  Labels of ignore_index, and
 * those whose class weighs 0, count nothing. */
static Value *negative_log_likelihood(Import *im, const OnnxNode *node, Value *log_p, Value *labels, Value *weight)
{
    Graph *g = im->graph;
    want_rank(im, node, log_p, 2, MOST_AXES, "the input (n, c, d..)");
    if (labels->rank != log_p->rank - 1 || dtype_is_float(labels->dtype))
        import_error(im, node, "labels are %s for an input %s; wanted integers (n, d..)", type_text(im, labels),
                     type_text(im, log_p));
    for (int i = 0; i < labels->rank; i++)
        must_agree(im, node, labels->shape[i], log_p->shape[i ? i + 1 : 0], "sizes of the labels and of the input");
    labels = b_cast(g, labels, DTYPE_i64);
    Value *zero = b_like(g, log_p, 0), *wide = b_expand_dims(g, labels, 1);
    Value *hit = equal(g, b_iota(g, DTYPE_i64, 1, log_p->rank, log_p->shape), wide), *counted = NULL;
    const int64_t channels[] = {1};
    if (weight) {
        want_rank(im, node, weight, 1, 1, "weight");
        want_same_type(im, node, log_p, weight);
        must_agree(im, node, weight->shape[0], log_p->shape[1], "the size of weight and the number of classes");
        Value *chosen = b_select(g, hit, along_channels(g, weight, log_p->rank), zero);
        counted = b_reduce(g, OP_reduce_sum, chosen, channels, 1);
    }
    Value *loss = negated(g, b_reduce(g, OP_reduce_sum, b_select(g, hit, log_p, zero), channels, 1));
    loss = none_beyond(im, node, loss, labels, log_p->shape[1]);
    if (attr_has(node, "ignore_index")) {
        Value *ignored = equal(g, labels, b_number(g, DTYPE_i64, (double)attr_int(node, "ignore_index", 0)));
        loss = b_select(g, ignored, zero, loss);
        counted = b_select(g, ignored, zero, counted ? counted : b_like(g, log_p, 1));
    }
    if (weight) loss = b_mul(g, loss, counted);
    const char *reduction = attr_string(node, "reduction", "mean");
    if (strcmp(reduction, "none") == 0) return loss;
    int64_t all[MOST_AXES];
    for (int i = 0; i < loss->rank; i++) all[i] = i;
    Value *sum = b_reduce(g, OP_reduce_sum, loss, all, loss->rank);
    if (strcmp(reduction, "sum") == 0) return sum;
    if (strcmp(reduction, "mean") != 0) import_error(im, node, "reduction is \"%s\"; wanted none, sum or mean", reduction);
    Value *total = counted ? b_reduce(g, OP_reduce_sum, b_broadcast_to(g, counted, loss->rank, loss->shape), all, loss->rank)
                           : dim_value(g, value_count(g, loss), loss->dtype);
    return b_div(g, sum, total);
}

void import_NegativeLogLikelihoodLoss(Import *im, const OnnxNode *node)
{
    output(im, node, 0, negative_log_likelihood(im, node, input(im, node, 0), input(im, node, 1), optional_input(im, node, 2)));
}

void import_SoftmaxCrossEntropyLoss(Import *im, const OnnxNode *node)
{
    Value *scores = input(im, node, 0);
    want_rank(im, node, scores, 2, MOST_AXES, "scores (n, c, d..)");
    Value *log_p = b_softmax(im->graph, OP_log_softmax, scores, 1);
    output(im, node, 0, negative_log_likelihood(im, node, log_p, input(im, node, 1), optional_input(im, node, 2)));
    output(im, node, 1, log_p);
}
