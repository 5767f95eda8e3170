/* loss: adds the target input and the loss, in ordinary operations; PyTorch's definitions (torch.nn.functional), mean over what
 * counts.
 *
 * Needs: the imported graph, outputs as the model's.  Leaves: outputs [loss] for training; [loss, correct, counted, OUT…] for
 * evaluation, counted being what the mean divides by.  A Softmax or Sigmoid that ends OUT is not part of the loss: its operand is,
 * which is sounder in float32. */
#include "passes/loss.h"
#include "support/diag.h"
#include <math.h>
#include <string.h>

typedef struct Loss {
    Graph *g;
    LossSpec spec;
    int axis;   /* of classes, none negative */
    Value *out; /* the named output */
    Value *target;
    Value *sum, *counted; /* of the loss, same float dtype; counted i64 () */
    Value *correct;       /* i64 (), NULL where the loss does not classify */
} Loss;

static Value *total(Graph *g, Value *x)
{
    int64_t axes[16];
    for (int i = 0; i < x->rank; i++) axes[i] = i;
    return b_reduce(g, OP_reduce_sum, x, axes, x->rank);
}

static Value *count_true(Graph *g, Value *flags)
{
    return total(g, b_cast(g, flags, DTYPE_i64));
}

static Value *element_count(Graph *g, const Value *v)
{
    return b_dim(g, value_count(g, v));
}

/* The axis of a reshape's operand that is the result's axis k: as long, with as much in front of it; -1 where there is none. */
static int axis_before_reshape(Graph *g, const Value *before, const Value *after, int k)
{
    Expr *front = expr_product(g->symbols, after->shape, k);
    for (int i = 0; i < before->rank; i++)
        if (expr_always_equal(g->symbols, before->shape[i], after->shape[k]) &&
            expr_always_equal(g->symbols, expr_product(g->symbols, before->shape, i), front))
            return i;
    return -1;
}

Value *loss_operand(Graph *g, Value *v, OpKind activation, int axis, bool build)
{
    if (v->origin != FROM_OP) return NULL;
    Op *op = v->def;
    if (op->kind == activation) return axis < 0 || op_int(op, ATTR_axis) == axis ? op->in[0] : NULL;
    if (op->kind == OP_cast && op->in[0]->dtype == v->dtype) return loss_operand(g, op->in[0], activation, axis, build);
    if (op->kind == OP_reshape) {
        const int before = axis < 0 ? -1 : axis_before_reshape(g, op->in[0], v, axis);
        Value *x = axis >= 0 && before < 0 ? NULL : loss_operand(g, op->in[0], activation, before, build);
        return x && build ? b_reshape(g, x, v->rank, v->shape) : x;
    }
    if (op->kind == OP_transpose) {
        int n;
        const int64_t *axes = op_ints(op, ATTR_axes, &n);
        Value *x = loss_operand(g, op->in[0], activation, axis < 0 ? -1 : (int)axes[axis], build);
        return x && build ? b_transpose(g, x, axes) : x;
    }
    return NULL;
}

static Value *without(Loss *l, OpKind activation, int axis)
{
    return loss_operand(l->g, l->out, activation, axis, true);
}

static const char *plain_or_quoted(Arena *arena, const char *name)
{
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] ? arena_text(arena, "'%s'", name)
                                                                                                  : name;
}

static const char *spec_text(Arena *arena, const Loss *l, bool classes)
{
    Buf text = {.arena = arena};
    const char *out = plain_or_quoted(arena, l->spec.output);
    if (!strcmp(l->spec.kind, "model")) return out;
    buf_printf(&text, "%s(%s", l->spec.kind, out);
    if (classes) buf_printf(&text, ", axis=%d", l->spec.has_axis ? l->spec.axis : l->axis);
    if (l->spec.has_ignore) buf_printf(&text, ", ignore_index=%lld", (long long)l->spec.ignore_index);
    if (l->spec.smoothing > 0) buf_printf(&text, ", label_smoothing=%g", l->spec.smoothing);
    if (!strcmp(l->spec.kind, "huber")) buf_printf(&text, ", delta=%g", l->spec.delta);
    buf_put(&text, ")");
    return buf_text(&text);
}

/* ---- losses over classes ---- */
static Expr **shape_without(Graph *g, const Value *v, int axis)
{
    Expr **shape = NEW_ARRAY(g->arena, Expr *, v->rank);
    for (int i = 0, k = 0; i < v->rank; i++)
        if (i != axis) shape[k++] = v->shape[i];
    return shape;
}

/* The batch's integers that this loss takes for numbers of classes; false where guards cannot look at them. */
static bool watch_labels(Loss *l, Value *labels, bool has_ignore)
{
    return graph_watch_range(l->g, labels, (IndexRange){.n = l->out->shape[l->axis],
                                                        .labels = true,
                                                        .has_ignore = has_ignore,
                                                        .ignore = has_ignore ? l->spec.ignore_index : 0,
                                                        .source = spec_text(l->g->arena, l, has_ignore)});
}

/* The loss, and NaN where a label is no class. */
static Value *none_beyond(Graph *g, Value *loss, Value *labels, Expr *classes)
{
    Value *last = b_dim(g, expr_sub(g->symbols, classes, expr_int(g->symbols, 1)));
    Value *inside = b_binary(g, OP_and, b_binary(g, OP_le, b_number(g, DTYPE_i64, 0), labels), b_binary(g, OP_le, labels, last));
    return b_select(g, inside, loss, b_like(g, loss, NAN));
}

/* sum over counted places of -log p[label], label smoothing as PyTorch mixes it in */
static void sum_over_labels(Loss *l, Value *log_p, Value *scores, Value *labels, Value *valid, bool watched)
{
    Graph *g = l->g;
    const int64_t axis[] = {l->axis};
    Value *wide = b_expand_dims(g, labels, l->axis);
    Value *hit = b_binary(g, OP_eq, b_iota(g, DTYPE_i64, l->axis, log_p->rank, log_p->shape), wide);
    Value *loss = b_unary(g, OP_neg, b_reduce(g, OP_reduce_sum, b_select(g, hit, log_p, b_like(g, log_p, 0)), axis, 1));
    if (l->spec.smoothing > 0) {
        Value *even = b_unary(g, OP_neg, b_reduce_mean(g, log_p, axis, 1, false));
        loss = b_add(g, b_mul(g, loss, b_like(g, loss, 1 - l->spec.smoothing)), b_mul(g, even, b_like(g, even, l->spec.smoothing)));
    }
    if (!watched) loss = none_beyond(g, loss, labels, log_p->shape[l->axis]);
    Value *right = b_binary(g, OP_eq, b_arg(g, OP_arg_max, scores, l->axis, false), labels);
    if (valid) {
        loss = b_select(g, valid, loss, b_like(g, loss, 0));
        right = b_binary(g, OP_and, right, valid);
    }
    l->counted = valid ? count_true(g, valid) : element_count(g, labels);
    l->correct = count_true(g, right);
    l->sum = total(g, loss);
}

static void loss_cross_entropy(Loss *l)
{
    Graph *g = l->g;
    Value *scores = l->out, *log_p = NULL;
    if (!strcmp(l->spec.kind, "nll") || loss_operand(g, l->out, OP_log_softmax, l->axis, false))
        log_p = l->out;
    else if (loss_operand(g, l->out, OP_softmax, l->axis, false))
        scores = without(l, OP_softmax, l->axis);
    if (!log_p) log_p = b_softmax(g, OP_log_softmax, scores, l->axis);
    l->target = graph_input(g, "target", DTYPE_i64, l->out->rank - 1, shape_without(g, l->out, l->axis), FROM_BATCH);
    Value *valid = b_unary(g, OP_not, b_binary(g, OP_eq, l->target, b_number(g, DTYPE_i64, (double)l->spec.ignore_index)));
    sum_over_labels(l, log_p, scores, l->target, valid, watch_labels(l, l->target, true));
}

/* Scores at place t against the token at t + 1, which the input itself holds: no target is wanted. */
static void loss_next_token(Loss *l)
{
    Graph *g = l->g;
    bool same_vocabulary;
    Value *ids = loss_tokens(g, l->out, &same_vocabulary);
    const int time = l->out->rank - 2;
    if (!ids || time < 0)
        error_exit("--loss next_token(%s): wanted an integer input of the shape of %s without its last axis (the tokens), and "
                   "found none; use cross_entropy(%s, axis=-1) with a target",
                   l->spec.output, l->spec.output, l->spec.output);
    l->axis = l->out->rank - 1;
    Expr *one = expr_int(g->symbols, 1), *pairs = expr_sub(g->symbols, ids->shape[time], one);
    Value *scores = b_slice_axis(g, l->out, time, expr_int(g->symbols, 0), pairs);
    Value *next = b_cast(g, b_slice_axis(g, ids, time, one, pairs), DTYPE_i64);
    sum_over_labels(l, b_softmax(g, OP_log_softmax, scores, l->axis), scores, next, NULL, watch_labels(l, ids, false));
}

/* ---- losses element by element ---- */
static void add_float_target(Loss *l)
{
    l->target = graph_input(l->g, "target", l->out->dtype, l->out->rank, l->out->shape, FROM_BATCH);
}

static void sum_elements(Loss *l, Value *each)
{
    l->sum = total(l->g, each);
    l->counted = element_count(l->g, each);
}

static void loss_mse(Loss *l)
{
    add_float_target(l);
    Value *difference = b_sub(l->g, l->out, l->target);
    sum_elements(l, b_mul(l->g, difference, difference));
}

static void loss_l1(Loss *l)
{
    add_float_target(l);
    sum_elements(l, b_unary(l->g, OP_abs, b_sub(l->g, l->out, l->target)));
}

/* 0.5 d^2 within delta, delta (|d| - 0.5 delta) outside */
static void loss_huber(Loss *l)
{
    Graph *g = l->g;
    add_float_target(l);
    Value *d = b_sub(g, l->out, l->target), *size = b_unary(g, OP_abs, d), *delta = b_like(g, d, l->spec.delta);
    Value *inside = b_mul(g, b_like(g, d, 0.5), b_mul(g, d, d));
    Value *outside = b_mul(g, delta, b_sub(g, size, b_like(g, d, 0.5 * l->spec.delta)));
    sum_elements(l, b_select(g, b_binary(g, OP_le, size, delta), inside, outside));
}

static void count_right_signs(Loss *l, Value *scores, double middle)
{
    Graph *g = l->g;
    Value *said = b_binary(g, OP_lt, b_like(g, scores, middle), scores),
          *is = b_binary(g, OP_lt, b_like(g, l->target, 0.5), l->target);
    l->correct = count_true(g, b_unary(g, OP_not, b_binary(g, OP_xor, said, is)));
}

/* max(x, 0) - x t + log(1 + exp(-|x|)) */
static void bce_of_logits(Loss *l, Value *x)
{
    Graph *g = l->g;
    Value *tail = b_unary(g, OP_log1p, b_unary(g, OP_exp, b_unary(g, OP_neg, b_unary(g, OP_abs, x))));
    sum_elements(l, b_add(g, b_sub(g, b_unary(g, OP_relu, x), b_mul(g, x, l->target)), tail));
    count_right_signs(l, x, 0);
}

static void loss_bce_with_logits(Loss *l)
{
    add_float_target(l);
    bce_of_logits(l, l->out);
}

/* Of probabilities: through the logits where OUT ends in a Sigmoid, else with PyTorch's floor of -100 under the logarithms. */
static void loss_bce(Loss *l)
{
    Graph *g = l->g;
    add_float_target(l);
    Value *x = without(l, OP_sigmoid, -1);
    if (x) {
        bce_of_logits(l, x);
        return;
    }
    Value *one = b_like(g, l->out, 1), *floor = b_like(g, l->out, -100);
    Value *log_p = b_binary(g, OP_max, b_unary(g, OP_log, l->out), floor),
          *log_q = b_binary(g, OP_max, b_unary(g, OP_log, b_sub(g, one, l->out)), floor);
    sum_elements(l, b_unary(g, OP_neg, b_add(g, b_mul(g, l->target, log_p), b_mul(g, b_sub(g, one, l->target), log_q))));
    count_right_signs(l, l->out, 0.5);
}

static void loss_model(Loss *l)
{
    if (l->out->rank > 0 && !expr_is(value_count(l->g, l->out), 1))
        error_exit(
            "--loss %s: an output that is the loss holds one number, but \"%s\" has %d axes; name a loss over it, such as mse(%s)",
            l->spec.output, l->spec.output, l->out->rank, l->spec.output);
    l->sum = b_reshape(l->g, l->out, 0, NULL);
    l->counted = b_dim(l->g, expr_int(l->g->symbols, 1));
}

static const struct {
    const char *kind;
    void (*build)(Loss *l);
    bool classes;
} losses[] = {
    {"cross_entropy", loss_cross_entropy, true},
    {"nll", loss_cross_entropy, true},
    {"next_token", loss_next_token, false},
    {"mse", loss_mse, false},
    {"l1", loss_l1, false},
    {"huber", loss_huber, false},
    {"bce", loss_bce, false},
    {"bce_with_logits", loss_bce_with_logits, false},
    {"model", loss_model, false},
};

/* ---- the pass ---- */
static void find_output(Loss *l)
{
    Graph *g = l->g;
    for (int i = 0; i < g->outputs.n; i++)
        if (!strcmp(g->output_names[i], l->spec.output)) l->out = g->outputs.at[i];
    if (!l->out) {
        Buf names = {.arena = g->arena};
        for (int i = 0; i < g->outputs.n; i++) buf_printf(&names, "%s\"%s\"", i ? ", " : "", g->output_names[i]);
        error_exit("--loss: the model has no output \"%s\"; it has %s", l->spec.output, buf_text(&names));
    }
    if (!dtype_is_float(l->out->dtype))
        error_exit("--loss: output \"%s\" is %s; a loss needs floats", l->spec.output, dtype_name(l->out->dtype));
    const bool wants_target = strcmp(l->spec.kind, "model") && strcmp(l->spec.kind, "next_token");
    if (wants_target && graph_find_input(g, "target"))
        error_exit("the model has an input named \"target\", the name under which data files give what the loss compares with; "
                   "rename that input in the model");
}

static void check_axis(Loss *l)
{
    const int rank = l->out->rank;
    l->axis = l->spec.axis < 0 ? l->spec.axis + rank : l->spec.axis;
    if (!l->spec.has_axis && rank == 1) l->axis = 0;
    if (rank == 0 || l->axis < 0 || l->axis >= rank)
        error_exit("--loss %s: axis %d is none of \"%s\", which has %d axes", l->spec.kind, l->spec.axis, l->spec.output, rank);
}

static void set_outputs(Loss *l, Value *mean, bool training)
{
    Graph *g = l->g;
    Values model = g->outputs;
    const char **names = NEW_ARRAY(g->arena, const char *, model.n + 3);
    g->outputs = (Values){0};
    names[0] = "loss";
    vec_push(g->arena, &g->outputs, mean);
    if (!training) {
        names[1] = "correct", names[2] = "counted";
        vec_push(g->arena, &g->outputs, l->correct ? l->correct : b_dim(g, expr_int(g->symbols, 0)));
        vec_push(g->arena, &g->outputs, l->counted);
        for (int i = 0; i < model.n; i++) {
            names[3 + i] = g->output_names[i];
            vec_push(g->arena, &g->outputs, model.at[i]);
        }
    }
    g->output_names = names;
}

LossInfo pass_loss(Graph *g, const Options *options, bool training)
{
    Loss l = {.g = g, .spec = options->loss ? loss_parse(g->arena, options->loss) : loss_guess(g)};
    g->role = "loss", g->source = "loss";
    find_output(&l);
    bool classes = false;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (strcmp(losses[i].kind, l.spec.kind)) continue;
        if ((classes = losses[i].classes)) check_axis(&l);
        losses[i].build(&l);
    }
    Value *mean = b_div(g, l.sum, b_cast(g, l.counted, l.sum->dtype));
    set_outputs(&l, mean, training);
    g->role = "", g->source = "";
    return (LossInfo){.kind = l.spec.kind,
                      .text = spec_text(g->arena, &l, classes),
                      .output = l.spec.output,
                      .target = l.target,
                      .axis = l.axis,
                      .classifies = l.correct != NULL,
                      .guessed = l.spec.guessed,
                      .why = l.spec.why,
                      .alternatives = l.spec.alternatives};
}
