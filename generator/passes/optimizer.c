/* optimizer: states, hypers, the commit point, and one update a weight; PyTorch's definitions (torch.optim), in ordinary
 * operations.
 *
 * What an element is to become is looked at first: where its value or one of its moments would be no finite number, all of them stay as they
 * are, and the step tells so.  A loss may be finite and its gradient not (the square root at 0), and after the commit nothing is given up.
 *
 * Needs: gradients as pass_gradient returns them; outputs[0] is the loss.  Leaves: commit before every assign; gradients as outputs
 * "gradient:NAME"; where the loss is scaled, so are they, and what the rules are given is divided by the scale.
 * Assigns that the importer made for running statistics move behind the commit. */
#include "passes/optimizer.h"
#include "passes/passes.h"
#include "support/diag.h"
#include <math.h>
#include <string.h>

enum { TARGETS_MAX = 3 };
typedef struct Update {
    Graph *g;
    Value *weight, *gradient;
    Map *hypers; /* those that are inputs already */
    struct {
        Value *target, *value;
    } becomes[TARGETS_MAX]; /* the weight and its moments */
    int n;
} Update;

/* ---- the rows: name, states, hypers with PyTorch's defaults, rule ---- */
static Value *hyper(Update *u, const char *name)
{
    Value *v = map_get(u->hypers, name);
    if (!v) map_set(u->hypers, name, v = graph_input(u->g, name, DTYPE_f32, 0, NULL, FROM_HYPER));
    return v;
}

static Value *hyper_like(Update *u, const char *name)
{
    return b_cast(u->g, hyper(u, name), u->weight->dtype);
}

static Value *state(Update *u, const char *suffix)
{
    Tensor *t = NEW(u->g->arena, Tensor);
    *t = *u->weight->tensor;
    t->name = arena_text(u->g->arena, "%s.%s", u->weight->tensor->name, suffix);
    t->data = NULL, t->init = "zeros", t->trainable = false, t->of = u->weight->tensor;
    Value *v = graph_input(u->g, t->name, u->weight->dtype, u->weight->rank, u->weight->shape, FROM_STATE);
    v->tensor = t;
    return v;
}

static Value *square(Graph *g, Value *x)
{
    return b_mul(g, x, x);
}

/* decay pulls the gradient (sgd, adam) as in PyTorch's weight_decay. */
static Value *decayed(Update *u)
{
    return b_add(u->g, u->gradient, b_mul(u->g, hyper_like(u, "weight_decay"), u->weight));
}

static void becomes(Update *u, Value *target, Value *value)
{
    check(u->n < TARGETS_MAX);
    u->becomes[u->n].target = target;
    u->becomes[u->n++].value = value;
}

/* Where the sum of all new values is finite, each of them is; a sum that overflows keeps the old ones too. */
static void assign_finite(Update *u)
{
    Graph *g = u->g;
    Value *sum = u->becomes[0].value;
    for (int i = 1; i < u->n; i++) sum = b_add(g, sum, u->becomes[i].value);
    Value *finite = b_binary(g, OP_lt, b_unary(g, OP_abs, sum), b_like(g, sum, INFINITY));
    for (int i = 0; i < u->n; i++) b_assign_where(g, u->becomes[i].target, u->becomes[i].value, finite);
}

static void take_step(Update *u, Value *weight, Value *direction, Value *rate)
{
    becomes(u, u->weight, b_sub(u->g, weight, b_mul(u->g, rate, direction)));
}

static void rule_sgd(Update *u)
{
    take_step(u, u->weight, decayed(u), hyper_like(u, "lr"));
}

/* buffer = momentum * buffer + gradient; starting at 0 gives PyTorch's first step, buffer = gradient. */
static void rule_momentum_of(Update *u, bool nesterov)
{
    Value *gradient = decayed(u), *buffer = state(u, "momentum_buffer");
    Value *next = b_add(u->g, b_mul(u->g, hyper_like(u, "momentum"), buffer), gradient);
    Value *direction = nesterov ? b_add(u->g, gradient, b_mul(u->g, hyper_like(u, "momentum"), next)) : next;
    take_step(u, u->weight, direction, hyper_like(u, "lr"));
    becomes(u, buffer, next);
}
static void rule_momentum(Update *u)
{
    rule_momentum_of(u, false);
}
static void rule_nesterov(Update *u)
{
    rule_momentum_of(u, true);
}

/* m, v: running means of the gradient and of its square; 1 - beta comes as a hyper of its own, for 1 - 0.999f is off by 5e-5 in
 * float. */
static void adam_direction(Update *u, Value *weight, Value *gradient)
{
    Graph *g = u->g;
    Value *m = state(u, "exp_avg"), *v = state(u, "exp_avg_sq");
    Value *next_m = b_add(g, b_mul(g, hyper_like(u, "beta1"), m), b_mul(g, hyper_like(u, "one_minus_beta1"), gradient));
    Value *next_v = b_add(g, b_mul(g, hyper_like(u, "beta2"), v), b_mul(g, hyper_like(u, "one_minus_beta2"), square(g, gradient)));
    Value *root = b_div(g, b_unary(g, OP_sqrt, next_v), b_unary(g, OP_sqrt, hyper_like(u, "bias_correction2")));
    Value *direction = b_div(g, next_m, b_add(g, root, hyper_like(u, "eps")));
    take_step(u, weight, direction, b_div(g, hyper_like(u, "lr"), hyper_like(u, "bias_correction1")));
    becomes(u, m, next_m);
    becomes(u, v, next_v);
}
static void rule_adam(Update *u)
{
    adam_direction(u, u->weight, decayed(u));
}
static void rule_adamw(Update *u)
{
    Graph *g = u->g;
    Value *decay = b_mul(g, hyper_like(u, "lr"), hyper_like(u, "weight_decay"));
    adam_direction(u, b_sub(g, u->weight, b_mul(g, decay, u->weight)), u->gradient);
}

static void rule_rmsprop(Update *u)
{
    Graph *g = u->g;
    Value *gradient = decayed(u), *v = state(u, "square_avg");
    Value *next = b_add(g, b_mul(g, hyper_like(u, "alpha"), v), b_mul(g, hyper_like(u, "one_minus_alpha"), square(g, gradient)));
    take_step(u, u->weight, b_div(g, gradient, b_add(g, b_unary(g, OP_sqrt, next), hyper_like(u, "eps"))), hyper_like(u, "lr"));
    becomes(u, v, next);
}

static void rule_adagrad(Update *u)
{
    Graph *g = u->g;
    Value *gradient = decayed(u), *sum = state(u, "sum");
    Value *next = b_add(g, sum, square(g, gradient));
    take_step(u, u->weight, b_div(g, gradient, b_add(g, b_unary(g, OP_sqrt, next), hyper_like(u, "eps"))), hyper_like(u, "lr"));
    becomes(u, sum, next);
}

typedef struct Rule {
    const char *name;
    void (*update)(Update *u);
    OptimizerDefault defaults[8];
} Rule;
static const Rule rules[] = {
    {"sgd", rule_sgd, {{"lr", 1e-3}, {"weight_decay", 0}}},
    {"momentum", rule_momentum, {{"lr", 1e-3}, {"weight_decay", 0}, {"momentum", 0.9}}},
    {"nesterov", rule_nesterov, {{"lr", 1e-3}, {"weight_decay", 0}, {"momentum", 0.9}}},
    {"adam", rule_adam, {{"lr", 1e-3}, {"weight_decay", 0}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}}},
    {"adamw", rule_adamw, {{"lr", 1e-3}, {"weight_decay", 0.01}, {"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}}},
    {"rmsprop", rule_rmsprop, {{"lr", 1e-2}, {"weight_decay", 0}, {"alpha", 0.99}, {"eps", 1e-8}}},
    {"adagrad", rule_adagrad, {{"lr", 1e-2}, {"weight_decay", 0}, {"eps", 1e-10}}},
};
enum { RULES = sizeof rules / sizeof *rules };

static const Rule *find_rule(const char *name)
{
    for (int i = 0; i < RULES; i++)
        if (!strcmp(rules[i].name, name)) return &rules[i];
    return NULL;
}

void optimizer_check(const char *name)
{
    if (!find_rule(name))
        error_exit("--optimizer %s: unknown; there are sgd, momentum, nesterov, adam, adamw, rmsprop, adagrad", name);
}

double optimizer_default(const char *optimizer, const char *name)
{
    const Rule *rule = find_rule(optimizer);
    for (int i = 0; rule && i < 8 && rule->defaults[i].name; i++)
        if (!strcmp(rule->defaults[i].name, name)) return rule->defaults[i].value;
    return 0; /* derived from others by the trainer for each step */
}

/* ---- the pass ---- */
static Ops take_assigns(Graph *g)
{
    Ops kept = {0}, assigns = {0};
    for (int i = 0; i < g->ops.n; i++) {
        Ops *to = g->ops.at[i]->kind == OP_assign ? &assigns : &kept;
        vec_push(g->arena, to, g->ops.at[i]);
    }
    g->ops = kept;
    return assigns;
}

/* Makes room for the names of n more outputs. */
static void reserve_outputs(Graph *g, int n)
{
    const char **names = NEW_ARRAY(g->arena, const char *, g->outputs.n + n + 1);
    for (int i = 0; i < g->outputs.n; i++) names[i] = g->output_names[i];
    g->output_names = names;
}

static void add_output(Graph *g, const char *name, Value *value)
{
    g->output_names[g->outputs.n] = name;
    vec_push(g->arena, &g->outputs, value);
}

/* Running statistics too. */
static void assign_statistic(Graph *g, const Op *assign)
{
    Update u = {.g = g, .n = 1, .becomes = {{assign->in[0], assign->in[1]}}};
    g->source = assign->source;
    if (dtype_is_float(assign->in[0]->dtype))
        assign_finite(&u);
    else
        b_assign(g, assign->in[0], assign->in[1]);
    g->source = "";
}

void pass_optimizer(Graph *g, Value *const *gradients, const Options *options)
{
    const Rule *rule = find_rule(options->optimizer);
    const int inputs = g->inputs.n; /* states and hypers join behind */
    Map *hypers = map_new(g->arena);
    reserve_outputs(g, inputs);
    Ops statistics = take_assigns(g);
    g->role = "optimizer", g->source = "";
    b_commit(g, g->outputs.at[0]);
    if (loss_is_scaled(options)) loss_scale_check(g, gradients, inputs);
    for (int i = 0; i < statistics.n; i++) assign_statistic(g, statistics.at[i]);
    for (int i = inputs - 1; i >= 0; i--) { /* the gradients of the last layers are complete first */
        if (!gradients[i]) continue;
        g->source = g->inputs.at[i]->name;
        add_output(g, arena_text(g->arena, "gradient:%s", g->inputs.at[i]->name), gradients[i]);
        Update u = {.g = g, .weight = g->inputs.at[i], .gradient = gradients[i], .hypers = hypers};
        if (loss_is_scaled(options)) u.gradient = b_mul(g, u.gradient, hyper_like(&u, "inverse_loss_scale"));
        rule->update(&u);
        assign_finite(&u);
    }
    g->role = "", g->source = "";
}
