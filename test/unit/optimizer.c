/* Every optimizer over some steps, evaluated, against PyTorch's definitions (torch.optim) written out in plain C. */
#include "passes/optimizer.h"
#include "passes/passes.h"
#include "test/support/interpret.h"
#include "test/support/model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { N = 3, STEPS = 5 };
static const double start[N] = {1, -2, 0.5};
/* The gradient of step t: of changing sign and size, one of them 0 at first. */
static double gradient(int step, int i)
{
    return i == 2 && step == 0 ? 0 : sin(1.7 * step + i) * (1 + i);
}

typedef struct Settings {
    double lr, weight_decay, momentum, beta1, beta2, eps, alpha;
} Settings;

/* ---- PyTorch's definitions ---- */
typedef struct Reference {
    double w[N], a[N], b[N]; /* the weight; momentum buffer, exp_avg or square_avg; exp_avg_sq */
} Reference;

static void momentum_step(Reference *r, int i, double g, const Settings *s, int step, bool nesterov)
{
    g += s->weight_decay * r->w[i];
    r->a[i] = step == 0 ? g : s->momentum * r->a[i] + g; /* the first buffer is the gradient */
    r->w[i] -= s->lr * (nesterov ? g + s->momentum * r->a[i] : r->a[i]);
}

static void adam_step(Reference *r, int i, double g, const Settings *s, int step, bool decoupled)
{
    if (decoupled)
        r->w[i] *= 1 - s->lr * s->weight_decay;
    else
        g += s->weight_decay * r->w[i];
    r->a[i] += (g - r->a[i]) * (1 - s->beta1);
    r->b[i] = s->beta2 * r->b[i] + (1 - s->beta2) * g * g;
    const double correction1 = 1 - pow(s->beta1, step + 1), correction2 = 1 - pow(s->beta2, step + 1);
    r->w[i] -= s->lr / correction1 * r->a[i] / (sqrt(r->b[i]) / sqrt(correction2) + s->eps);
}

static void reference_step(const char *optimizer, Reference *r, const Settings *s, int step)
{
    for (int i = 0; i < N; i++) {
        const double g = gradient(step, i), decayed = g + s->weight_decay * r->w[i];
        if (!strcmp(optimizer, "sgd")) r->w[i] -= s->lr * decayed;
        if (!strcmp(optimizer, "momentum")) momentum_step(r, i, g, s, step, false);
        if (!strcmp(optimizer, "nesterov")) momentum_step(r, i, g, s, step, true);
        if (!strcmp(optimizer, "adam")) adam_step(r, i, g, s, step, false);
        if (!strcmp(optimizer, "adamw")) adam_step(r, i, g, s, step, true);
        if (!strcmp(optimizer, "rmsprop")) {
            r->a[i] = s->alpha * r->a[i] + (1 - s->alpha) * decayed * decayed;
            r->w[i] -= s->lr * decayed / (sqrt(r->a[i]) + s->eps);
        }
        if (!strcmp(optimizer, "adagrad")) {
            r->a[i] += decayed * decayed;
            r->w[i] -= s->lr * decayed / (sqrt(r->a[i]) + s->eps);
        }
    }
}

/* ---- the program's ---- */
static double hyper(const char *name, const Settings *s, int step)
{
    const struct {
        const char *name;
        double value;
    } values[] = {
        {"lr", s->lr},
        {"weight_decay", s->weight_decay},
        {"momentum", s->momentum},
        {"beta1", s->beta1},
        {"beta2", s->beta2},
        {"eps", s->eps},
        {"alpha", s->alpha},
        {"one_minus_beta1", 1 - s->beta1},
        {"one_minus_beta2", 1 - s->beta2},
        {"one_minus_alpha", 1 - s->alpha},
        {"bias_correction1", 1 - pow(s->beta1, step + 1)},
        {"bias_correction2", 1 - pow(s->beta2, step + 1)},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!strcmp(values[i].name, name)) return values[i].value;
    fail_msg("no hyper \"%s\"", name);
    return 0;
}

/* A weight, a gradient that comes as if of the batch, a frozen weight, and a running statistic that the step assigns. */
static Graph *step_graph(Arena *arena, Symbols *symbols, const char *optimizer, const char *precision)
{
    Graph *g = graph_parse(
        arena, symbols,
        "graph train()\n  %0: f64[3] = weight \"w\", trainable=1\n  %1: f64[3] = batch \"g\"\n  %2: f64[3] = weight \"frozen\"\n"
        "  %3: f64[3] = weight \"mean\", statistics=1\n  %4: f64[] = batch \"l\"\n  %5: f64[3] = add %3, %1\n  assign %3, %5\n"
        "  return %4 \"loss\"\n");
    Value *gradients[] = {g->inputs.at[1], NULL, NULL, NULL, NULL};
    const Options options = {.optimizer = optimizer, .precision = precision};
    pass_optimizer(g, gradients, &options);
    graph_verify(g, "optimizer");
    return g;
}

/* scale: of the loss and with it of the gradients; 1 for none */
static void same_as_pytorch(const char *optimizer, Settings s, double scale)
{
    Arena *arena = arena_new();
    Symbols *symbols = symbols_new(arena);
    Graph *g = step_graph(arena, symbols, optimizer, scale == 1 ? "fp32" : "fp16");
    int64_t *dims = dims_from_text(arena, symbols, "");
    Array inputs[32], outputs[4];
    Reference r = {{start[0], start[1], start[2]}, {0}, {0}};
    for (int i = 0; i < g->inputs.n; i++) inputs[i] = array_for(arena, g, g->inputs.at[i], dims);
    memcpy(inputs[0].at, start, sizeof start);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++) inputs[1].at[i] = scale * gradient(step, i);
        for (int i = 0; i < g->inputs.n; i++)
            if (g->inputs.at[i]->origin == FROM_HYPER) inputs[i].at[0] = strcmp(g->inputs.at[i]->name, "inverse_loss_scale") ? hyper(g->inputs.at[i]->name, &s, step) : 1 / scale;
        interpret(arena, g, dims, inputs, outputs);
        reference_step(optimizer, &r, &s, step);
        for (int i = 0; i < N; i++)
            if (!(fabs(inputs[0].at[i] - r.w[i]) <= 1e-13 * (1 + fabs(r.w[i]))))
                fail_msg("%s, step %d, element %d: wanted %.17g, found %.17g", optimizer, step, i, r.w[i], inputs[0].at[i]);
    }
    assert_string_equal(g->output_names[1], "gradient:w");
    assert_ptr_equal(g->outputs.at[1], g->inputs.at[1]);
    arena_free(arena);
}

static const char *const names[] = {"sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad"};
enum { NAMES = sizeof names / sizeof *names };

static void several_steps(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        same_as_pytorch(names[i], (Settings){0.1, 0, 0.9, 0.9, 0.999, 1e-8, 0.99}, 1);
        same_as_pytorch(names[i], (Settings){0.03, 0.2, 0.5, 0.8, 0.95, 1e-3, 0.9}, 1);
        same_as_pytorch(names[i], (Settings){0.03, 0.2, 0.5, 0.8, 0.95, 1e-3, 0.9}, 1024);
    }
}

/* One element of a gradient is none: that of the weight and of its moments stay as they are, the others do not; so of a statistic. */
static void keeps_what_would_be_no_number(void **state)
{
    (void)state;
    const double none[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < NAMES * 3; k++) {
        Arena *arena = arena_new();
        Symbols *symbols = symbols_new(arena);
        Graph *g = step_graph(arena, symbols, names[k % NAMES], "fp32");
        int64_t *dims = dims_from_text(arena, symbols, "");
        const Settings s = {0.1, 0.1, 0.9, 0.9, 0.999, 1e-8, 0.99};
        Array inputs[32], outputs[4];
        for (int i = 0; i < g->inputs.n; i++) {
            inputs[i] = array_for(arena, g, g->inputs.at[i], dims);
            if (g->inputs.at[i]->origin == FROM_HYPER) inputs[i].at[0] = hyper(g->inputs.at[i]->name, &s, 0);
            for (int e = 0; e < N && g->inputs.at[i]->rank; e++) inputs[i].at[e] = 0.25;
        }
        inputs[1].at[1] = none[k / NAMES];
        interpret(arena, g, dims, inputs, outputs);
        for (int i = 0; i < g->inputs.n; i++) {
            const Value *v = g->inputs.at[i];
            if (v->origin != FROM_STATE && i != 0 && i != 3) continue;
            if (inputs[i].at[1] != 0.25) fail_msg("%s: %s[1] became %g", names[k % NAMES], v->name, inputs[i].at[1]);
            if (inputs[i].at[0] == 0.25 && !strstr(v->name, "exp_avg")) fail_msg("%s: %s[0] has not changed", names[k % NAMES], v->name);
        }
        arena_free(arena);
    }
}

/* torch.optim's defaults, but momentum's, which has none there. */
static void defaults(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer, *hyper;
        double value;
    } rows[] = {
        {"sgd", "lr", 1e-3},         {"sgd", "weight_decay", 0}, {"momentum", "momentum", 0.9},   {"adam", "lr", 1e-3},
        {"adam", "weight_decay", 0}, {"adamw", "lr", 1e-3},      {"adamw", "weight_decay", 0.01}, {"adamw", "beta1", 0.9},
        {"adamw", "beta2", 0.999},   {"adamw", "eps", 1e-8},     {"rmsprop", "lr", 1e-2},         {"rmsprop", "alpha", 0.99},
        {"rmsprop", "eps", 1e-8},    {"adagrad", "lr", 1e-2},    {"adagrad", "eps", 1e-10},       {"adamw", "bias_correction1", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (optimizer_default(rows[i].optimizer, rows[i].hyper) != rows[i].value)
            fail_msg("%s of %s", rows[i].hyper, rows[i].optimizer);
}

/* No weight, state or statistic changes before the commit point, nor before gradients were found finite where
 * the loss is scaled; states belong to their weight and start at 0. */
static void commit_comes_first(void **state)
{
    (void)state;
    for (int k = 0; k < 2 * NAMES; k++) {
        const bool scaled = k >= NAMES;
        Arena *arena = arena_new();
        Graph *g = step_graph(arena, symbols_new(arena), names[k % NAMES], scaled ? "fp16" : "fp32");
        bool committed = false, checked = !scaled;
        int assigns = 0, states = 0;
        for (int i = 0; i < g->ops.n; i++) {
            const Op *op = g->ops.at[i];
            committed |= op->kind == OP_commit;
            if (op->kind == OP_commit) assert_ptr_equal(op->in[0], g->outputs.at[0]);
            checked |= op->kind == OP_finite;
            if (op->kind != OP_assign) continue;
            assert_true(committed && checked);
            assert_string_not_equal(op->in[0]->name, "frozen");
            assigns++;
        }
        for (int i = 0; i < g->inputs.n; i++) {
            const Value *v = g->inputs.at[i];
            if (v->origin != FROM_STATE) continue;
            states++;
            assert_ptr_equal(v->tensor->of, g->inputs.at[0]->tensor);
            assert_string_equal(v->tensor->init, "zeros");
            assert_null(v->tensor->data);
            assert_memory_equal(v->name, "w.", 2);
        }
        assert_int_equal(assigns, 2 + states); /* the weight, the statistic, the states */
        arena_free(arena);
    }
}

static void check_unknown(void *with)
{
    optimizer_check(with);
}
static void unknown_names(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    int status;
    assert_string_equal(
        said_by(arena, check_unknown, "adamx", &status),
        "disc-gen: error: --optimizer adamx: unknown; there are sgd, momentum, nesterov, adam, adamw, rmsprop, adagrad\n");
    assert_int_equal(status, 2);
    for (int i = 0; i < NAMES; i++) optimizer_check(names[i]);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_steps), cmocka_unit_test(keeps_what_would_be_no_number),
        cmocka_unit_test(defaults),
        cmocka_unit_test(commit_comes_first),
        cmocka_unit_test(unknown_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
