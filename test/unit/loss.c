/* Every loss, evaluated, against its formula in plain C (torch.nn.functional's definitions); what --loss takes and refuses; what is
 * guessed from the outputs. */
#include "passes/loss.h"
#include "support/diag.h"
#include "test/support/interpret.h"
#include "test/support/model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static Arena *arena;
static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* ---- evaluation ---- */
typedef struct Result {
    double loss, correct, counted;
    LossInfo info;
} Result;

/* x: elements of the first input.  labels: of the target, or of a second input of the graph's own. */
static Result evaluate(const char *graph, const char *dims, const char *loss, const double *x, const double *labels)
{
    Symbols *symbols = symbols_new(arena);
    Graph *g = graph_parse(arena, symbols, graph);
    const Options options = {.loss = loss};
    Result r = {.info = pass_loss(g, &options, false)};
    graph_verify(g, "loss");
    assert_string_equal(g->output_names[0], "loss");
    assert_string_equal(g->output_names[1], "correct");
    assert_string_equal(g->output_names[2], "counted");
    int64_t *values = dims_from_text(arena, symbols, dims);
    Array inputs[8], outputs[8];
    for (int i = 0; i < g->inputs.n; i++) {
        inputs[i] = array_for(arena, g, g->inputs.at[i], values);
        const double *from = i == 0 ? x : i == g->inputs.n - 1 ? labels : NULL;
        for (int64_t k = 0; from && k < inputs[i].n; k++) inputs[i].at[k] = from[k];
    }
    interpret(arena, g, values, inputs, outputs);
    assert_int_equal(g->outputs.at[1]->dtype, DTYPE_i64);
    assert_int_equal(g->outputs.at[2]->dtype, DTYPE_i64);
    r.loss = outputs[0].at[0], r.correct = outputs[1].at[0], r.counted = outputs[2].at[0];
    return r;
}

static void near(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-12 * (1 + fabs(wanted)))) fail_msg("wanted %.17g, found %.17g", wanted, found);
}

/* ---- over classes ---- */
/* log p of a label among n scores, `step` apart */
static double log_p(const double *scores, int n, int step, int label)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) most = fmax(most, scores[i * step]);
    for (int i = 0; i < n; i++) sum += exp(scores[i * step] - most);
    return scores[label * step] - most - log(sum);
}

#define SCORES "graph g(batch)\n  %0: f64[batch, 3] = batch \"x\"\n"
static const double x3[] = {0.5, -1, 2, 1.5, 1.25, -3, 0, 0.25, 4, -1, -2, -3};

static void cross_entropy(void **state)
{
    (void)state;
    const double labels[] = {2, 1, 0, 0};
    double sum = 0;
    for (int i = 0; i < 4; i++) sum -= log_p(x3 + 3 * i, 3, 1, (int)labels[i]);
    Result r = evaluate(SCORES "  return %0 \"y\"\n", "batch=4", "cross_entropy(y)", x3, labels);
    near(r.loss, sum / 4);
    near(r.correct, 2);
    near(r.counted, 4);
    assert_true(r.info.classifies);
    assert_int_equal(r.info.axis, 1);
    assert_string_equal(r.info.text, "cross_entropy(y, axis=1)");
    assert_string_equal(r.info.target->name, "target");
}

static void ignored_labels(void **state)
{
    (void)state;
    const double labels[] = {2, -100, 0, -100}, other[] = {2, 1, 1, 1};
    const double kept = -(log_p(x3, 3, 1, 2) + log_p(x3 + 6, 3, 1, 0)) / 2;
    Result r = evaluate(SCORES "  return %0 \"y\"\n", "batch=4", "cross_entropy(y)", x3, labels);
    near(r.loss, kept);
    near(r.correct, 1);
    near(r.counted, 2);
    assert_true(r.info.target->ranges.n == 1 && r.info.target->ranges.at[0].has_ignore && r.info.target->ranges.at[0].ignore == -100);
    r = evaluate(SCORES "  return %0 \"y\"\n", "batch=4", "cross_entropy(y, axis=-1, ignore_index=1)", x3, other);
    near(r.loss, -log_p(x3, 3, 1, 2));
    near(r.counted, 1);
    assert_string_equal(r.info.text, "cross_entropy(y, axis=-1, ignore_index=1)");
}

static void label_smoothing(void **state)
{
    (void)state;
    const double labels[] = {2, -100, 0, 1};
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        double even = 0;
        if (labels[i] < 0) continue;
        for (int k = 0; k < 3; k++) even -= log_p(x3 + 3 * i, 3, 1, k) / 3;
        sum += 0.9 * -log_p(x3 + 3 * i, 3, 1, (int)labels[i]) + 0.1 * even;
    }
    near(evaluate(SCORES "  return %0 \"y\"\n", "batch=4", "cross_entropy(y, label_smoothing=0.1)", x3, labels).loss, sum / 3);
}

/* Classes along the middle axis: (2, 3, 2) */
static void classes_in_the_middle(void **state)
{
    (void)state;
    const double labels[] = {0, 2, 1, 1};
    const double sum = log_p(x3, 3, 2, 0) + log_p(x3 + 1, 3, 2, 2) + log_p(x3 + 6, 3, 2, 1) + log_p(x3 + 7, 3, 2, 1);
    Result r = evaluate("graph g(batch, seq)\n  %0: f64[batch, 3, seq] = batch \"x\"\n  return %0 \"y\"\n", "batch=2, seq=2",
                        "cross_entropy(y, axis=1)", x3, labels);
    near(r.loss, -sum / 4);
    assert_int_equal(r.info.target->rank, 2);
    near(r.counted, 4);
}

/* The Softmax that ends the output is part of the loss, also behind a reshape and a transpose. */
static void final_softmax(void **state)
{
    (void)state;
    const double labels[] = {2, 1, 0, 0};
    double sum = 0;
    for (int i = 0; i < 4; i++) sum -= log_p(x3 + 3 * i, 3, 1, (int)labels[i]) / 4;
    static const char *const graphs[] = {
        SCORES "  %1: f64[batch, 3] = softmax %0, axis=1\n  return %1 \"y\"\n",
        SCORES "  %1: f64[batch, 3] = log_softmax %0, axis=1\n  return %1 \"y\"\n",
        SCORES "  %1: f64[batch, 3] = softmax %0, axis=1\n  %2: f64[3, batch] = transpose %1, axes=[1, 0]\n"
               "  %3: f64[batch, 3] = transpose %2, axes=[1, 0]\n  return %3 \"y\"\n",
        SCORES "  %1: f64[batch, 3] = softmax %0, axis=1\n  %2: f64[1, batch, 3] = reshape %1\n  %3: f64[batch, 3] = reshape %2\n"
               "  return %3 \"y\"\n",
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        Result r = evaluate(graphs[i], "batch=4", "cross_entropy(y)", x3, labels);
        near(r.loss, sum);
        near(r.correct, 2);
        near(evaluate(graphs[i], "batch=4", NULL, x3, labels).loss, sum); /* guessed */
    }
    /* Scores so far apart that a Softmax alone would round to 0: only the joint form is finite. */
    const double far[] = {1000, 0, -1000};
    near(evaluate(graphs[0], "batch=1", "cross_entropy(y)", far, labels).loss, 2000);
}

/* A Softmax along another axis is the model's own. */
static void softmax_of_another_axis(void **state)
{
    (void)state;
    const double x[] = {1, 0, 0, 2, 3, -1}, labels[] = {0, 2};
    double p[6], sum = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2; i++) p[3 * i + k] = exp(log_p(x + k, 2, 3, i));
    for (int i = 0; i < 2; i++) sum -= log_p(p + 3 * i, 3, 1, (int)labels[i]) / 2;
    near(evaluate(SCORES "  %1: f64[batch, 3] = softmax %0, axis=0\n  return %1 \"y\"\n", "batch=2", "cross_entropy(y, axis=1)", x,
                  labels)
             .loss,
         sum);
}

static void nll(void **state)
{
    (void)state;
    const double labels[] = {2, 1, -100, 0};
    Result r = evaluate(SCORES "  return %0 \"y\"\n", "batch=4", "nll(y)", x3, labels);
    near(r.loss, -(2 + 1.25 - 1) / 3);
    near(r.correct, 2);
    near(r.counted, 3);
}

static void next_token(void **state)
{
    (void)state;
    /* ids (1, 4) choose rows of x, which stands here for the scores: (1, 4, 3) */
    const double ids[] = {0, 2, 1, 1};
    const double sum = log_p(x3, 3, 1, 2) + log_p(x3 + 3, 3, 1, 1) + log_p(x3 + 6, 3, 1, 1);
    const char *graph =
        "graph g(batch, seq)\n  %0: f64[batch, seq, 3] = batch \"x\"\n  %1: i64[batch, seq] = batch \"ids\"\n  return %0 \"y\"\n";
    Result r = evaluate(graph, "batch=1, seq=4", "next_token(y)", x3, ids);
    near(r.loss, -sum / 3);
    near(r.correct, 1);
    near(r.counted, 3);
    assert_null(r.info.target);
    assert_true(r.info.classifies);
}

/* ---- element by element ---- */
#define VALUES "graph g(batch)\n  %0: f64[batch] = batch \"x\"\n"
static const double v[] = {0.25, 3, -2, 0.5}, t[] = {0, 1, 1, 0.75};

static void squares_and_distances(void **state)
{
    (void)state;
    const double d[] = {0.25, 2, -3, -0.25};
    double mse = 0, l1 = 0, huber = 0, huber_half = 0;
    for (int i = 0; i < 4; i++) {
        const double a = fabs(d[i]);
        mse += d[i] * d[i] / 4, l1 += a / 4;
        huber += (a <= 1 ? 0.5 * a * a : a - 0.5) / 4;
        huber_half += (a <= 0.5 ? 0.5 * a * a : 0.5 * (a - 0.25)) / 4;
    }
    Result r = evaluate(VALUES "  return %0 \"y\"\n", "batch=4", "mse(y)", v, t);
    near(r.loss, mse);
    near(r.counted, 4);
    near(r.correct, 0);
    assert_false(r.info.classifies);
    near(evaluate(VALUES "  return %0 \"y\"\n", "batch=4", "l1(y)", v, t).loss, l1);
    near(evaluate(VALUES "  return %0 \"y\"\n", "batch=4", "huber(y)", v, t).loss, huber);
    r = evaluate(VALUES "  return %0 \"y\"\n", "batch=4", "huber(y, delta=0.5)", v, t);
    near(r.loss, huber_half);
    assert_string_equal(r.info.text, "huber(y, delta=0.5)");
}

static void binary_cross_entropy(void **state)
{
    (void)state;
    double logits = 0, floor = 0;
    const double p[] = {0.25, 0, 1, 0.5};
    for (int i = 0; i < 4; i++) {
        logits += (t[i] * log1p(exp(-v[i])) + (1 - t[i]) * log1p(exp(v[i]))) / 4;
        floor -= (t[i] * fmax(log(p[i]), -100) + (1 - t[i]) * fmax(log(1 - p[i]), -100)) / 4;
    }
    Result r = evaluate(VALUES "  return %0 \"y\"\n", "batch=4", "bce_with_logits(y)", v, t);
    near(r.loss, logits);
    near(r.correct, 2); /* 0.25 says yes, 0 is no; 3 and 1; -2 and 1; 0.5 and 0.75 */
    r = evaluate(VALUES "  %1: f64[batch] = sigmoid %0\n  return %1 \"y\"\n", "batch=4", "bce(y)", v, t);
    near(r.loss, logits);
    near(r.correct, 2);
    near(evaluate(VALUES "  return %0 \"y\"\n", "batch=4", "bce(y)", p, t).loss, floor);
    const double far[] = {-800}, one[] = {1};
    near(evaluate(VALUES "  %1: f64[batch] = sigmoid %0\n  %2: f64[batch, 1] = reshape %1\n  return %2 \"y\"\n", "batch=1",
                  "bce(y)", far, one)
             .loss,
         800);
}

static void loss_of_the_model(void **state)
{
    (void)state;
    const double x[] = {2.5};
    Result r = evaluate("graph g()\n  %0: f64[1] = batch \"x\"\n  return %0 \"onnx::loss::2\"\n", "", "'onnx::loss::2'", x, NULL);
    near(r.loss, 2.5);
    near(r.counted, 1);
    assert_string_equal(r.info.text, "'onnx::loss::2'");
    assert_string_equal(r.info.kind, "model");
    near(evaluate("graph g()\n  %0: f64[] = batch \"x\"\n  return %0 \"total\"\n", "", NULL, x, NULL).loss, 2.5);
}

/* In training the loss stands alone. */
static void outputs_for_training(void **state)
{
    (void)state;
    Graph *g = graph_parse(arena, symbols_new(arena), VALUES "  return %0 \"y\"\n");
    const Options options = {.loss = "mse(y)"};
    pass_loss(g, &options, true);
    assert_int_equal(g->outputs.n, 1);
    assert_string_equal(g->output_names[0], "loss");
    assert_int_equal(g->outputs.at[0]->rank, 0);
}

/* ---- what is refused ---- */
typedef struct Refused {
    const char *graph, *loss;
} Refused;
static void run_refused(void *with)
{
    const Refused *r = with;
    const Options options = {.loss = r->loss};
    pass_loss(graph_parse(arena, symbols_new(arena), r->graph), &options, true);
}

static void errors(void **state)
{
    (void)state;
#define FORM                                                                                                                       \
    "; for example: cross_entropy(OUT, axis=1), mse(OUT), next_token(OUT), or OUT alone when the model computes its loss; an OUT " \
    "that is "                                                                                                                     \
    "no plain word stands in quotes\n"
#define SETTINGS                                                                                                                   \
    "; cross_entropy takes axis, ignore_index and label_smoothing (0 to 1), nll axis and ignore_index, huber delta (above 0)\n"
    static const struct {
        const char *graph, *loss, *text;
    } cases[] = {
        {SCORES "  return %0 \"y\"\n", "mse(y", "--loss \"mse(y\": at \"\": wanted \",\" or \")\"" FORM},
        {SCORES "  return %0 \"y\"\n", "mse()", "--loss \"mse()\": at \")\": wanted a name" FORM},
        {SCORES "  return %0 \"y\"\n", "mse('y)", "--loss \"mse('y)\": at \"\": wanted a closing quote" FORM},
        {SCORES "  return %0 \"y\"\n", "mse(y) x", "--loss \"mse(y) x\": at \"x\": wanted the end" FORM},
        {SCORES "  return %0 \"y\"\n", "nll(y, axis)", "--loss \"nll(y, axis)\": at \")\": wanted SETTING=NUMBER" FORM},
        {SCORES "  return %0 \"y\"\n", "nll(y, axis=a)", "--loss \"nll(y, axis=a)\": at \"a)\": wanted a number" FORM},
        {SCORES "  return %0 \"y\"\n", "nll(y, axis=1.5)", "--loss \"nll(y, axis=1.5)\": nll takes no setting axis=1.5" SETTINGS},
        {SCORES "  return %0 \"y\"\n", "mse(y, axis=1)", "--loss \"mse(y, axis=1)\": mse takes no setting axis=1" SETTINGS},
        {SCORES "  return %0 \"y\"\n", "cross_entropi(y)",
         "--loss \"cross_entropi(y)\": there is no loss \"cross_entropi\"; there are cross_entropy, next_token, nll, mse, l1, "
         "huber, bce, "
         "bce_with_logits; near are \"cross_entropy\"\n"},
        {SCORES "  return %0 \"y\", %0 \"z\"\n", "mse(out)", "--loss: the model has no output \"out\"; it has \"y\", \"z\"\n"},
        {SCORES "  return %0 \"y\"\n", "cross_entropy(y, axis=2)",
         "--loss cross_entropy: axis 2 is none of \"y\", which has 2 axes\n"},
        {SCORES "  return %0 \"y\"\n", "y",
         "--loss y: an output that is the loss holds one number, but \"y\" has 2 axes; name a loss over it, such as mse(y)\n"},
        {SCORES "  return %0 \"y\"\n", "next_token(y)",
         "--loss next_token(y): wanted an integer input of the shape of y without its last axis (the tokens), and found none; use "
         "cross_entropy(y, axis=-1) with a target\n"},
        {"graph g(n)\n  %0: i64[n] = batch \"x\"\n  return %0 \"y\"\n", "mse(y)",
         "--loss: output \"y\" is i64; a loss needs floats\n"},
        {"graph g(n)\n  %0: i64[n] = batch \"x\"\n  return %0 \"y\"\n", NULL,
         "none of the model's outputs is a float tensor: a loss needs one; say it with --loss \"mse(OUT)\"\n"},
        {"graph g(n)\n  %0: f64[n] = batch \"target\"\n  return %0 \"y\"\n", "mse(y)",
         "the model has an input named \"target\", the name under which data files give what the loss compares with; rename that "
         "input in "
         "the model\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status;
        const char *said = said_by(arena, run_refused, &(Refused){cases[i].graph, cases[i].loss}, &status);
        const char *wanted = arena_text(arena, "disc-gen: error: %s", cases[i].text);
        if (strcmp(said, wanted)) fail_msg("wanted:\n%sfound:\n%s", wanted, said);
        assert_int_equal(status, 2);
    }
}

/* ---- what is guessed ---- */
static void guesses(void **state)
{
    (void)state;
    static const struct {
        const char *graph, *text;
    } cases[] = {
        {SCORES "  return %0 \"y\"\n", "mse(y)"}, /* shaped as its input */
        {"graph g(n)\n  %0: f64[n, 8] = batch \"x\"\n  %1: f64[8, 3] = weight \"w\"\n  %2: f64[n, 3] = dot %0, %1, trans_a=0, "
         "trans_b=0\n"
         "  return %2 \"y\"\n",
         "cross_entropy(y, axis=1)"},
        {"graph g(n)\n  %0: f64[n, 8] = batch \"x\"\n  %1: f64[8, 1] = weight \"w\"\n  %2: f64[n, 1] = dot %0, %1, trans_a=0, "
         "trans_b=0\n"
         "  return %2 \"y\"\n",
         "mse(y)"},
        {"graph g(n)\n  %0: f64[n, 8] = batch \"x\"\n  %1: f64[n, 8] = sigmoid %0\n  return %1 \"y\"\n", "bce(y)"},
        {"graph g(n, s)\n  %0: f64[n, s, 8] = batch \"x\"\n  %1: f64[n, s, 3] = slice %0, start=[0, 0, 0], step=[1, 1, 1]\n  "
         "return %1 \"y\"\n",
         "cross_entropy(y, axis=2)"},
        {"graph g(n, h)\n  %0: f64[n, 8, h, h] = batch \"x\"\n  %1: f64[n, 3, h, h] = slice %0, start=[0, 0, 0, 0], step=[1, 1, 1, "
         "1]\n"
         "  return %1 \"y\"\n",
         "cross_entropy(y, axis=1)"},
        /* Its input's channels, every other column */
        {"graph g(n, h)\n  %0: f64[n, 3, h, h] = batch \"x\"\n  %1: f64[n, 3, h, h//2] = slice %0, start=[0, 0, 0, 0], step=[1, 1, 1, "
         "2]\n"
         "  return %1 \"y\"\n",
         "mse(y)"},
        /* A vocabulary of 9 read and written: tokens; of the two inputs it is the one that chooses among 9 rows. */
        {"graph g(n, s)\n  %0: i64[n, s] = batch \"mask\"\n  %1: i64[n, s] = batch \"ids\"\n  %2: f64[9, 4] = weight \"e\"\n"
         "  %3: f64[2, 4] = weight \"f\"\n  %4: f64[n, s, 4] = gather %2, %1, axis=0\n  %5: f64[n, s, 4] = gather %3, %0, axis=0\n"
         "  %6: f64[n, s, 4] = add %4, %5\n  %7: f64[4, 9] = transpose %2, axes=[1, 0]\n  %8: f64[n*s, 4] = reshape %6\n"
         "  %9: f64[n*s, 9] = dot %8, %7, trans_a=0, trans_b=0\n  %10: f64[n, s, 9] = reshape %9\n  return %10 \"y\"\n",
         "next_token(y)"},
        /* 3 tags for each token */
        {"graph g(n, s)\n  %0: i64[n, s] = batch \"ids\"\n  %1: f64[9, 3] = weight \"e\"\n  %2: f64[n, s, 3] = gather %1, %0, "
         "axis=0\n"
         "  return %2 \"y\"\n",
         "cross_entropy(y, axis=2)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Graph *g = graph_parse(arena, symbols_new(arena), cases[i].graph);
        const Options options = {0};
        const LossInfo info = pass_loss(g, &options, true);
        graph_verify(g, "loss");
        if (strcmp(info.text, cases[i].text)) fail_msg("wanted %s, guessed %s, because %s", cases[i].text, info.text, info.why);
        assert_true(info.guessed && info.why[0] && info.alternatives[0]);
    }
    Graph *g = graph_parse(arena, symbols_new(arena), cases[7].graph);
    bool same;
    assert_string_equal(loss_tokens(g, g->outputs.at[0], &same)->name, "ids");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(cross_entropy),
        T(ignored_labels),
        T(label_smoothing),
        T(classes_in_the_middle),
        T(final_softmax),
        T(softmax_of_another_axis),
        T(nll),
        T(next_token),
        T(squares_and_distances),
        T(binary_cross_entropy),
        T(loss_of_the_model),
        T(outputs_for_training),
        T(errors),
        T(guesses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
