/* Every gradient rule against central differences in double precision, on graphs with symbolic dims, and by hand where no
 * difference quotient tells: ties, zeros, masked branches. */
#define _POSIX_C_SOURCE 200809L /* fork, pipe */
#include "passes/gradient.h"
#include "passes/passes.h"
#include "support/diag.h"
#include "test/support/interpret.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off: cmocka wants the headers above first
#include <cmocka.h>
// clang-format on

/* ---- a graph with a loss and gradients for all its float inputs ---- */
typedef struct {
    Arena *arena;
    Graph *g;
    int64_t *dims;
    int n_given;      /* inputs of the text; upstream gradients follow, one for each output */
    Value **gradient; /* beside the given inputs, NULL where there is none */
    Value *loss;
} Problem;

static void add_loss(Problem *p)
{
    Graph *g = p->g;
    Value *loss = NULL;
    int n = g->outputs.n;
    for (int i = 0; i < n; i++) {
        Value *y = g->outputs.at[i];
        if (!dtype_is_float(y->dtype)) continue;
        Value *upstream = graph_input(g, arena_text(g->arena, "upstream%d", i), y->dtype, y->rank, y->shape, FROM_BATCH);
        int64_t axes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        Value *term = b_reduce(g, OP_reduce_sum, b_mul(g, y, upstream), axes, y->rank);
        loss = loss ? b_add(g, loss, term) : term;
    }
    p->loss = loss;
}

static Problem problem(const char *text, const char *dims)
{
    Problem p = {.arena = arena_new()};
    Symbols *symbols = symbols_new(p.arena);
    Graph *g = p.g = graph_parse(p.arena, symbols, text);
    p.n_given = g->inputs.n;
    add_loss(&p);
    Backward b = backward_new(g);
    int n_ops = g->ops.n;
    for (int i = 0; i < p.n_given; i++) b.wanted[g->inputs.at[i]->id] = dtype_is_float(g->inputs.at[i]->dtype);
    backward_mark(g, n_ops, b.wanted);
    backward_add(&b, p.loss, b_like(g, p.loss, 1));
    backward_run(&b, n_ops);
    p.gradient = NEW_ARRAY(p.arena, Value *, p.n_given + 1);
    g->outputs.n = 0;
    g->output_names = NEW_ARRAY(p.arena, const char *, p.n_given + 2);
    vec_push(p.arena, &g->outputs, p.loss);
    g->output_names[0] = "loss";
    for (int i = 0; i < p.n_given; i++) {
        p.gradient[i] = backward_of(&b, g->inputs.at[i]);
        if (!p.gradient[i]) continue;
        g->output_names[g->outputs.n] = arena_text(p.arena, "gradient%d", i);
        vec_push(p.arena, &g->outputs, p.gradient[i]);
    }
    graph_prune(g);
    graph_verify(g, "gradient");
    p.dims = dims_from_text(p.arena, symbols, dims);
    return p;
}

static double evaluate(const Problem *p, Array *inputs, Array *gradients)
{
    Array outputs[p->g->outputs.n + 1];
    interpret(p->arena, p->g, p->dims, inputs, outputs);
    for (int i = 0, k = 1; gradients && i < p->n_given; i++)
        if (p->gradient[i]) gradients[i] = outputs[k++];
    return outputs[0].at[0];
}

/* ---- central differences ---- */
static double uniform(uint64_t *state, double low, double high)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(*state >> 11) / 9007199254740992.0;
}

static Array *random_inputs(const Problem *p, double low, double high, int below)
{
    uint64_t state = 7;
    Array *inputs = NEW_ARRAY(p->arena, Array, p->g->inputs.n + 1);
    for (int i = 0; i < p->g->inputs.n; i++) {
        Array *a = &inputs[i];
        *a = array_for(p->arena, p->g, p->g->inputs.at[i], p->dims);
        for (int64_t k = 0; k < a->n; k++) {
            if (!dtype_is_float(a->dtype))
                a->at[k] = floor(uniform(&state, 0, a->dtype == DTYPE_bool ? 2 : below));
            else
                a->at[k] = i < p->n_given ? uniform(&state, low, high) : uniform(&state, -1, 1);
        }
    }
    return inputs;
}

/* The passes after gradient change the program, not what it computes. */
static void compare_after_passes(const char *name, Problem *p, Array *inputs)
{
    int n = p->g->outputs.n;
    Array before[n + 1], after[n + 1];
    interpret(p->arena, p->g, p->dims, inputs, before);
    pass_decompose(p->g);
    pass_fold(p->g);
    pass_simplify(p->g);
    graph_verify(p->g, "simplify");
    interpret(p->arena, p->g, p->dims, inputs, after);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < before[i].n; k++) {
            double wanted = before[i].at[k], found = after[i].at[k];
            if (fabs(wanted - found) > 1e-12 * (1 + fabs(wanted)))
                fail_msg("%s: output %d, element %d: %.17g before the passes, %.17g after", name, i, (int)k, wanted, found);
        }
}

static void compare_with_differences(const char *name, const Problem *p, Array *inputs)
{
    Array gradients[p->n_given + 1];
    evaluate(p, inputs, gradients);
    for (int i = 0; i < p->n_given; i++) {
        if (!dtype_is_float(inputs[i].dtype)) continue;
        for (int64_t k = 0; k < inputs[i].n; k++) {
            double *x = &inputs[i].at[k], before = *x, h = 1e-5;
            *x = before + h;
            double above = evaluate(p, inputs, NULL);
            *x = before - h;
            double below = evaluate(p, inputs, NULL);
            *x = before;
            double wanted = (above - below) / (2 * h), found = p->gradient[i] ? gradients[i].at[k] : 0;
            if (fabs(wanted - found) <= 1e-6 * (1 + fabs(wanted))) continue;
            Buf text = {.arena = p->arena};
            graph_print(&text, p->g);
            fail_msg("%s: input %d, element %d: differences %.9g, gradient %.9g\n%s", name, i, (int)k, wanted, found,
                     buf_text(&text));
        }
    }
}

typedef struct {
    const char *name, *body;
    double low, high; /* of float inputs; 0, 0: -2..2 */
    int below;        /* of integer inputs; 0: 2 */
} Case;

static void check_case_at(const Case *c, const char *dims)
{
    Arena *arena = arena_new();
    const char *text = arena_text(arena, "graph t(n: 1..64, m: 1..64, k: 0..64, p: 0..9)\n%s", c->body);
    Problem p = problem(text, dims);
    bool standard = c->low == 0 && c->high == 0;
    Array *inputs = random_inputs(&p, standard ? -2 : c->low, standard ? 2 : c->high, c->below ? c->below : 2);
    compare_with_differences(c->name, &p, inputs);
    compare_after_passes(c->name, &p, inputs);
    arena_free(p.arena);
    arena_free(arena);
}

static void check_case(const Case *c)
{
    check_case_at(c, "n=3, m=4, k=5, p=2");
}

static void check_cases(const Case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) check_case(&cases[i]);
}
#define CHECK_CASES(cases) check_cases(cases, sizeof cases / sizeof *cases)

/* ---- elementwise ---- */
static const struct {
    const char *name;
    double low, high;
} unary[] = {
    {"neg", -2, 2},      {"abs", -2, 2},     {"sign", -2, 2},     {"reciprocal", 0.5, 2}, {"sqrt", 0.2, 3},   {"exp", -2, 2},
    {"expm1", -2, 2},    {"log", 0.2, 3},    {"log1p", -.8, 3},   {"sin", -3, 3},         {"cos", -3, 3},     {"tan", -1, 1},
    {"asin", -.9, .9},   {"acos", -.9, .9},  {"atan", -2, 2},     {"sinh", -2, 2},        {"cosh", -2, 2},    {"asinh", -2, 2},
    {"acosh", 1.2, 3},   {"atanh", -.9, .9}, {"tanh", -2, 2},     {"erf", -2, 2},         {"sigmoid", -3, 3}, {"relu", -2, 2},
    {"floor", 0.1, 0.9}, {"ceil", 0.1, 0.9}, {"round", 0.1, 0.4},
};

static void test_unary(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
        char body[300];
        snprintf(body, sizeof body, "%%0: f64[n, m] = batch \"x\"\n%%1: f64[n, m] = %s %%0\nreturn %%1 \"y\"\n", unary[i].name);
        check_case(&(Case){unary[i].name, body, unary[i].low, unary[i].high, 0});
    }
}

static void test_binary(void **state)
{
    (void)state;
    static const char *const names[] = {"add", "sub", "mul", "div", "pow", "mod", "rem", "max", "min"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char body[400];
        snprintf(body, sizeof body,
                 "%%0: f64[n, m] = batch \"a\"\n%%1: f64[n, m] = batch \"b\"\n%%2: f64[n, m] = %s %%0, %%1\n"
                 "%%3: f64[n, m] = %s %%2, %%0\nreturn %%3 \"y\"\n",
                 names[i], names[i]);
        check_case(&(Case){names[i], body, 0.3, 2, 0});
    }
}

static const Case elementwise[] = {
    {"mod of either sign",
     "%0: f64[n, m] = batch \"a\"\n%1: f64[n, m] = batch \"b\"\n%2: f64[n, m] = mod %0, %1\n%3: f64[n, m] = rem %0, %1\n"
     "return %2 \"y\", %3 \"z\"\n",
     0, 0, 0},
    {"square", "%0: f64[n, m] = batch \"a\"\n%1: f64[n, m] = mul %0, %0\nreturn %1 \"y\"\n", 0, 0, 0},
    {"pow 3 of either sign",
     "%0: f64[n] = batch \"a\"\n%1: f64[] = constant data=[3]\n%2: f64[n] = broadcast %1, axes=[]\n%3: f64[n] = pow %0, %2\n"
     "return %3 \"y\"\n",
     0, 0, 0},
    {"pow 0.5",
     "%0: f64[n] = batch \"a\"\n%1: f64[] = constant data=[0.5]\n%2: f64[n] = broadcast %1, axes=[]\n%3: f64[n] = pow %0, %2\n"
     "return %3 \"y\"\n",
     .2, 2, 0},
    {"pow of a constant",
     "%0: f64[n] = batch \"a\"\n%1: f64[] = constant data=[2.5]\n%2: f64[n] = broadcast %1, axes=[]\n%3: f64[n] = pow %2, %0\n"
     "return %3 \"y\"\n",
     0, 0, 0},
    {"select",
     "%0: bool[n] = batch \"c\"\n%1: f64[n] = batch \"a\"\n%2: f64[n] = batch \"b\"\n%3: f64[n] = select %0, %1, %2\n"
     "return %3 \"y\"\n",
     0, 0, 0},
    {"through integers nothing flows",
     "%0: f64[n] = batch \"a\"\n%1: i64[n] = cast %0\n%2: f64[n] = cast %1\n%3: f64[n] = mul %0, %2\nreturn %3 \"y\"\n", 1.1, 1.9,
     0},
    {"several users",
     "%0: f64[n] = batch \"a\"\n%1: f64[n] = exp %0\n%2: f64[n] = mul %1, %0\n%3: f64[n] = add %2, %1\nreturn %3 \"y\", %1 \"z\"\n",
     0, 0, 0},
};
static void test_elementwise(void **state)
{
    (void)state;
    CHECK_CASES(elementwise);
}

/* ---- index ---- */
static const Case views[] = {
    {"broadcast, new axes in front and behind",
     "%0: f64[m] = batch \"x\"\n%1: f64[n, m, k] = broadcast %0, axes=[1]\nreturn %1 \"y\"\n", 0, 0, 0},
    {"broadcast, a dim of 1 stretches",
     "%0: f64[n, 1, k] = batch \"x\"\n%1: f64[m, n, m, k] = broadcast %0, axes=[1, 2, 3]\nreturn %1 \"y\"\n", 0, 0, 0},
    {"broadcast of a scalar", "%0: f64[] = batch \"x\"\n%1: f64[n, m] = broadcast %0, axes=[]\nreturn %1 \"y\"\n", 0, 0, 0},
    {"reshape", "%0: f64[n, m] = batch \"x\"\n%1: f64[n*m] = reshape %0\nreturn %1 \"y\"\n", 0, 0, 0},
    {"transpose", "%0: f64[n, m, k] = batch \"x\"\n%1: f64[k, n, m] = transpose %0, axes=[2, 0, 1]\nreturn %1 \"y\"\n", 0, 0, 0},
    {"slice with steps", "%0: f64[n, 7] = batch \"x\"\n%1: f64[n - 1, 3] = slice %0, start=[1, 5], step=[1, -2]\nreturn %1 \"y\"\n",
     0, 0, 0},
    {"pad",
     "%0: f64[n, m] = batch \"x\"\n%1: f64[] = batch \"fill\"\n%2: f64[n + 3, m + p + 1] = pad %0, %1, start=[1, p], "
     "step=[1, 1]\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"pad with steps",
     "%0: f64[n] = batch \"x\"\n%1: f64[] = batch \"fill\"\n%2: f64[3*n + 2] = pad %0, %1, start=[1], step=[3]\n"
     "return %2 \"y\"\n",
     0, 0, 0},
    {"pad that crops",
     "%0: f64[n, m] = batch \"x\"\n%1: f64[] = batch \"fill\"\n%2: f64[n + 1, m - 1] = pad %0, %1, start=[-1, 0], "
     "step=[1, 1]\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"pad that crops backwards with steps",
     "%0: f64[m] = batch \"x\"\n%1: f64[] = batch \"fill\"\n%2: f64[6] = pad %0, %1, "
     "start=[5], step=[-2]\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"concat",
     "%0: f64[n, m] = batch \"x\"\n%1: f64[n, k] = batch \"z\"\n%2: f64[n, m + k + m] = concat %0, %1, %0, axis=1\n"
     "return %2 \"y\"\n",
     0, 0, 0},
    {"gather, repeated rows",
     "%0: f64[n, m, k] = batch \"x\"\n%1: i64[2, 3] = batch \"i\"\n%2: f64[n, 2, 3, k] = gather %0, %1, axis=1\n"
     "return %2 \"y\"\n",
     0, 0, 4},
    {"gather by a scalar",
     "%0: f64[n, m] = batch \"x\"\n%1: i64[] = batch \"i\"\n%2: f64[m] = gather %0, %1, axis=0\n"
     "return %2 \"y\"\n",
     0, 0, 3},
    {"top_k", "%0: f64[n, 5, m] = batch \"x\"\n%1: f64[n, 2, m], %2: i64[n, 2, m] = top_k %0, axis=1, largest=1\nreturn %1 \"y\"\n",
     0, 0, 0},
    {"sort, then gather by its indices",
     "%0: f64[k] = batch \"x\"\n%1: f64[k] = batch \"z\"\n%2: f64[k], %3: i64[k] = top_k %0, axis=0, "
     "largest=0\n%4: f64[k] = gather %1, %3, axis=0\n%5: f64[k] = mul %4, %2\nreturn %5 \"y\"\n",
     0, 0, 0},
};
static void test_views(void **state)
{
    (void)state;
    CHECK_CASES(views);
}

static void test_scatter(void **state)
{
    (void)state;
    static const char *const modes[] = {"set", "add", "max", "min", "mul"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char body[500];
        const char *index = strcmp(modes[i], "set") == 0 ? "%1: i64[3] = constant data=[2, 0, 9]\n" : "%1: i64[3] = batch \"i\"\n";
        snprintf(body, sizeof body,
                 "%%0: f64[n, m] = batch \"base\"\n%s%%2: f64[n, 3] = batch \"u\"\n%%3: f64[n, m] = scatter %%0, %%1, %%2, axis=1, "
                 "mode=\"%s\"\nreturn %%3 \"y\"\n",
                 index, modes[i]);
        check_case(&(Case){modes[i], body, 0, 0, 5}); /* 4 is out of range */
    }
}

/* ---- reduce, cumulative, composites ---- */
static void test_reduce(void **state)
{
    (void)state;
    static const char *const names[] = {"reduce_sum", "reduce_prod", "reduce_max", "reduce_min"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char body[300];
        snprintf(body, sizeof body, "%%0: f64[n, m, k] = batch \"x\"\n%%1: f64[m] = %s %%0, axes=[0, 2]\nreturn %%1 \"y\"\n",
                 names[i]);
        check_case(&(Case){names[i], body, 0, 0, 0});
    }
}

static void test_cumulative(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        char body[300];
        snprintf(body, sizeof body,
                 "%%0: f64[n, m] = batch \"x\"\n%%1: f64[n, m] = %s %%0, axis=1, exclusive=%d, reverse=%d\nreturn %%1 \"y\"\n",
                 i & 4 ? "cum_prod" : "cum_sum", i & 1, i >> 1 & 1);
        check_case(&(Case){"cumulative", body, 0, 0, 0});
    }
}

static const Case composites[] = {
    {"softmax", "%0: f64[n, m, k] = batch \"x\"\n%1: f64[n, m, k] = softmax %0, axis=1\nreturn %1 \"y\"\n", 0, 0, 0},
    {"log_softmax", "%0: f64[n, m, k] = batch \"x\"\n%1: f64[n, m, k] = log_softmax %0, axis=2\nreturn %1 \"y\"\n", 0, 0, 0},
};
static void test_composites(void **state)
{
    (void)state;
    CHECK_CASES(composites);
}

/* ---- contractions ---- */
static void test_dot(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        char body[300];
        bool trans_a = i & 1, trans_b = i & 2;
        snprintf(body, sizeof body,
                 "%%0: f64[2, %s] = batch \"a\"\n%%1: f64[2, %s] = batch \"b\"\n%%2: f64[2, n, m] = dot %%0, %%1, trans_a=%d, "
                 "trans_b=%d\n"
                 "return %%2 \"y\"\n",
                 trans_a ? "k, n" : "n, k", trans_b ? "m, k" : "k, m", trans_a, trans_b);
        check_case(&(Case){"dot", body, 0, 0, 0});
    }
}

#define WINDOW_2D "stride=[2, 1], low=[1, -1], high=[0, p], dilation=[1, 2], groups=2"
#define POOL_2D "window=[2, 2], stride=[2, 1], low=[1, 0], high=[0, 1], dilation=[1, 2]"
static const Case windows[] = {
    {"conv",
     "%0: f64[n, 4, 6, 7] = batch \"x\"\n%1: f64[6, 2, 3, 2] = batch \"w\"\n%2: f64[n, 6, 3, p + 4] = conv %0, %1, " WINDOW_2D
     "\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"conv_grad_input",
     "%0: f64[n, 6, 3, p + 4] = batch \"dy\"\n%1: f64[6, 2, 3, 2] = batch \"w\"\n"
     "%2: f64[n, 4, 6, 7] = conv_grad_input %0, %1, " WINDOW_2D "\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"conv_grad_weight",
     "%0: f64[n, 6, 3, p + 4] = batch \"dy\"\n%1: f64[n, 4, 6, 7] = batch \"x\"\n"
     "%2: f64[6, 2, 3, 2] = conv_grad_weight %0, %1, " WINDOW_2D "\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"conv over a symbolic length",
     "%0: f64[n, 2, k + m] = batch \"x\"\n%1: f64[3, 2, 3] = batch \"w\"\n"
     "%2: f64[n, 3, (k + m - 1)//2 + 1] = conv %0, %1, stride=[2], low=[1], high=[1], dilation=[1], groups=1\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"transposed conv",
     "%0: f64[n, 3, k] = batch \"x\"\n%1: f64[3, 2, 3] = batch \"w\"\n"
     "%2: f64[n, 2, 2*k] = conv_grad_input %0, %1, stride=[2], low=[1], high=[1], dilation=[1], groups=1\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"pool_max",
     "%0: f64[n, 2, 6, 5] = batch \"x\"\n%1: f64[n, 2, 3, 4], %2: i64[n, 2, 3, 4] = pool_max %0, " POOL_2D "\nreturn %1 \"y\"\n", 0,
     0, 0},
    {"pool_max_grad",
     "%0: f64[n, 2, 6, 5] = batch \"x\"\n%3: f64[n, 2, 3, 4] = batch \"dy\"\n"
     "%1: f64[n, 2, 3, 4], %2: i64[n, 2, 3, 4] = pool_max %0, " POOL_2D "\n%4: f64[n, 2, 6, 5] = pool_max_grad %3, %2, " POOL_2D
     "\nreturn %4 \"y\"\n",
     0, 0, 0},
    {"pool_sum", "%0: f64[n, 2, 6, 5] = batch \"x\"\n%1: f64[n, 2, 3, 4] = pool_sum %0, " POOL_2D "\nreturn %1 \"y\"\n", 0, 0, 0},
    {"pool_sum_grad", "%0: f64[n, 2, 3, 4] = batch \"x\"\n%1: f64[n, 2, 6, 5] = pool_sum_grad %0, " POOL_2D "\nreturn %1 \"y\"\n",
     0, 0, 0},
};
static void test_windows(void **state)
{
    (void)state;
    CHECK_CASES(windows);
}

/* ---- regions ---- */
static const Case regions[] = {
    {"recurrent cell",
     "%0: f64[n, m] = batch \"h\"\n%1: f64[k, n, m] = batch \"x\"\n%2: f64[m, m] = batch \"r\"\n%3: f64[m] = batch \"b\"\n"
     "%4: f64[n, m], %5: f64[k, n, m] = scan %0, %1, %2, %3, carries=1, slices=1, reverse=0 {\n"
     "  %0: f64[n, m] = parameter \"h\"\n  %1: f64[n, m] = parameter \"x\"\n  %2: f64[m, m] = parameter \"r\"\n"
     "  %3: f64[m] = parameter \"b\"\n"
     "  %4: f64[n, m] = dot %0, %2, trans_a=0, trans_b=1\n  %5: f64[n, m] = add %4, %1\n  %6: f64[n, m] = broadcast %3, axes=[1]\n"
     "  %7: f64[n, m] = add %5, %6\n  %8: f64[n, m] = tanh %7\n  return %8, %8\n}\nreturn %4 \"last\", %5 \"all\"\n",
     -1, 1, 0},
    {"reverse, two carries, an integer one, constants used in several ways",
     "%0: f64[n, m] = batch \"h\"\n%1: i64[] = batch \"i\"\n%2: f64[k, n, m] = batch \"x\"\n%3: f64[m, m] = batch \"r\"\n"
     "%4: f64[n, m] = batch \"s\"\n"
     "%5: f64[n, m], %6: i64[], %7: f64[n, m], %8: f64[k, n, m] = scan %0, %1, %4, %2, %3, carries=3, slices=1, reverse=1 {\n"
     "  %0: f64[n, m] = parameter \"h\"\n  %1: i64[] = parameter \"i\"\n  %2: f64[n, m] = parameter \"s\"\n"
     "  %3: f64[n, m] = parameter \"x\"\n  %4: f64[m, m] = parameter \"r\"\n"
     "  %5: f64[] = cast %1\n  %6: f64[n, m] = broadcast %5, axes=[]\n  %7: f64[n, m] = mul %6, %0\n"
     "  %8: f64[n, m] = dot %7, %4, trans_a=0, trans_b=0\n  %9: f64[n, m] = dot %3, %4, trans_a=0, trans_b=0\n"
     "  %10: f64[n, m] = mul %8, %9\n  %11: f64[n, m] = tanh %10\n  %12: i64[] = constant data=[1]\n  %13: i64[] = add %1, %12\n"
     "  %14: f64[n, m] = mul %2, %11\n  %15: f64[n, m] = sin %14\n  return %11, %13, %15, %14\n}\n"
     "return %5 \"h\", %7 \"s\", %8 \"all\"\n",
     -1, 1, 3},
    {"a constant that is also added",
     "%0: f64[m] = batch \"h\"\n%1: f64[k, m] = batch \"x\"\n%2: f64[m, m] = batch \"r\"\n"
     "%3: f64[m] = scan %0, %1, %2, carries=1, slices=1, reverse=0 {\n"
     "  %0: f64[m] = parameter \"h\"\n  %1: f64[m] = parameter \"x\"\n  %2: f64[m, m] = parameter \"r\"\n"
     "  %3: f64[1, m] = reshape %0\n  %4: f64[1, m] = dot %3, %2, trans_a=0, trans_b=0\n  %5: f64[m] = reshape %4\n"
     "  %6: f64[m] = reduce_max %2, axes=[0]\n  %7: f64[m] = mul %5, %6\n  %8: f64[m] = add %7, %1\n  %9: f64[m] = tanh %8\n"
     "  return %9\n}\nreturn %3 \"y\"\n",
     -1, 1, 0},
    {"linear carry: nothing is kept but the number of steps",
     "%0: f64[m] = batch \"h\"\n%1: f64[k] = batch \"x\"\n%2: f64[m] = scan %0, %1, carries=1, slices=1, reverse=0 {\n"
     "  %0: f64[m] = parameter \"h\"\n  %1: f64[] = parameter \"x\"\n  %2: f64[m] = neg %0\n  return %2\n}\nreturn %2 \"y\"\n",
     0, 0, 0},
    {"carries change places",
     "%0: f64[m] = batch \"a\"\n%1: f64[m] = batch \"b\"\n%2: f64[k, m] = batch \"x\"\n"
     "%3: f64[m], %4: f64[m], %5: f64[k, m] = scan %0, %1, %2, carries=2, slices=1, reverse=0 {\n"
     "  %0: f64[m] = parameter \"a\"\n  %1: f64[m] = parameter \"b\"\n  %2: f64[m] = parameter \"x\"\n"
     "  %3: f64[m] = mul %0, %2\n  return %1, %3, %0\n}\nreturn %3 \"y\", %5 \"z\"\n",
     0, 0, 0},
    {"scan in a scan",
     "%0: f64[m] = batch \"h\"\n%1: f64[k, n, m] = batch \"x\"\n%2: f64[m] = batch \"w\"\n"
     "%3: f64[m], %4: f64[k, m] = scan %0, %1, %2, carries=1, slices=1, reverse=0 {\n"
     "  %0: f64[m] = parameter \"h\"\n  %1: f64[n, m] = parameter \"x\"\n  %2: f64[m] = parameter \"w\"\n"
     "  %3: f64[m] = scan %0, %1, %2, carries=1, slices=1, reverse=1 {\n"
     "    %0: f64[m] = parameter \"h\"\n    %1: f64[m] = parameter \"x\"\n    %2: f64[m] = parameter \"w\"\n"
     "    %3: f64[m] = mul %0, %2\n    %4: f64[m] = add %3, %1\n    %5: f64[m] = tanh %4\n    return %5\n  }\n"
     "  %4: f64[m] = mul %3, %0\n  return %3, %4\n}\nreturn %3 \"y\", %4 \"all\"\n",
     -1, 1, 0},
    {"branch",
     "%0: bool[] = batch \"c\"\n%1: f64[m] = batch \"a\"\n%2: f64[m] = batch \"b\"\n%3: f64[m], %4: f64[m] = branch %0, %1, %2 {\n"
     "  %0: f64[m] = parameter \"a\"\n  %1: f64[m] = parameter \"b\"\n  %2: f64[m] = mul %0, %1\n  return %2, %0\n"
     "} else {\n  %0: f64[m] = parameter \"a\"\n  %1: f64[m] = parameter \"b\"\n  %2: f64[m] = exp %1\n  return %2, %1\n}\n"
     "return %3 \"y\", %4 \"z\"\n",
     0, 0, 0},
};
static void test_regions(void **state)
{
    (void)state;
    CHECK_CASES(regions);
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
        check_case_at(&regions[i], "n=2, m=3, k=1");
        check_case_at(&regions[i], "n=2, m=3, k=0");
    }
}

/* ---- by hand ---- */
/* The gradient of the first input where the upstream gradients are all 1; x, and other float inputs if any, given as text. */
static void expect(const char *body, const char *values, const char *wanted)
{
    Arena *arena = arena_new();
    Problem p = problem(arena_text(arena, "graph t(n: 1..64)\n%s", body), "n=4");
    Array *inputs = random_inputs(&p, 0, 1, 2), gradients[p.n_given + 1];
    char *end = (char *)values;
    for (int i = 0; i < p.g->inputs.n; i++)
        for (int64_t k = 0; k < inputs[i].n; k++) inputs[i].at[k] = i < p.n_given ? strtod(end, &end) : 1;
    evaluate(&p, inputs, gradients);
    end = (char *)wanted;
    for (int64_t k = 0; k < gradients[0].n; k++) {
        double w = strtod(end, &end), found = gradients[0].at[k];
        if (!(fabs(w - found) < 1e-12) && !(isnan(w) && isnan(found)) && w != found)
            fail_msg("%s\nelement %d: wanted %g, found %g", body, (int)k, w, found);
    }
    arena_free(p.arena);
    arena_free(arena);
}

#define X "%0: f64[n] = batch \"x\"\n"
#define AND_Z "%1: f64[n] = batch \"z\"\n"
#define Y2 "return %2 \"y\"\n"
static void test_ties(void **state)
{
    (void)state;
    expect(X AND_Z "%2: f64[n] = max %0, %1\n" Y2, "1 2 3 4  1 3 2 4", "0.5 0 1 0.5");
    expect(X AND_Z "%2: f64[n] = min %0, %1\n" Y2, "1 2 3 4  1 3 2 4", "0.5 1 0 0.5");
    expect(X "%2: f64[] = reduce_max %0, axes=[0]\n" Y2, "5 1 5 5", "0.3333333333333333 0 0.3333333333333333 0.3333333333333333");
    expect(X "%2: f64[n] = relu %0\n" Y2, "-1 0 1 0", "0 0 1 0");
    expect(X "%2: f64[n] = abs %0\n" Y2, "-1 0 1 0", "-1 0 1 0");
    expect("%0: f64[n] = batch \"base\"\n%1: i64[2] = constant data=[1, 1]\n%3: f64[2] = constant data=[7, 7]\n"
           "%2: f64[n] = scatter %0, %1, %3, axis=0, mode=\"max\"\n" Y2,
           "1 7 3 4", "1 0.3333333333333333 1 1");
}

static void test_zeros(void **state)
{
    (void)state;
    expect(X "%2: f64[] = reduce_prod %0, axes=[0]\n" Y2, "2 3 5 7", "105 70 42 30");
    expect(X "%2: f64[] = reduce_prod %0, axes=[0]\n" Y2, "2 0 5 7", "0 70 0 0");
    expect(X "%2: f64[] = reduce_prod %0, axes=[0]\n" Y2, "2 0 5 0", "0 0 0 0");
    /* 2, 2*0, 2*0*5, 2*0*5*7: by the zero 2 + 10 + 70 */
    expect(X "%2: f64[n] = cum_prod %0, axis=0, exclusive=0, reverse=0\n" Y2, "2 0 5 7", "1 82 0 0");
    expect(X "%2: f64[n] = cum_prod %0, axis=0, exclusive=0, reverse=0\n" Y2, "2 0 5 0", "1 12 0 0");
    expect(X "%2: f64[n] = cum_prod %0, axis=0, exclusive=1, reverse=1\n" Y2, "3 5 0 7", "0 0 42 1");
    expect(X "%2: f64[n] = sqrt %0\n" Y2, "0 1 4 16", "0 0.5 0.25 0.125");
    expect(X AND_Z "%2: f64[n] = pow %0, %1\n" Y2, "0 0 0 2  0 1 2 0", "0 1 0 0");
    /* the exponent's gradient where the base is 0 */
    expect(X AND_Z "%2: f64[n] = pow %1, %0\n" Y2, "0 1 2 1  0 0 0 1", "0 0 0 0");
    expect("%0: f64[n] = batch \"base\"\n%1: i64[2] = constant data=[1, 1]\n%3: f64[2] = constant data=[0, 7]\n"
           "%2: f64[n] = scatter %0, %1, %3, axis=0, mode=\"mul\"\n" Y2,
           "1 7 3 4", "1 0 1 1");
    expect("%0: f64[2] = batch \"u\"\n%1: i64[2] = constant data=[1, 1]\n%3: f64[3] = constant data=[2, 3, 4]\n"
           "%2: f64[3] = scatter %3, %1, %0, axis=0, mode=\"mul\"\n" Y2,
           "0 7", "21 0");
}

/* The side that was not taken may be infinite: its gradient is 0, not NaN. */
static void test_masked_branches(void **state)
{
    (void)state;
    const char *safe_log = X "%1: f64[] = constant data=[0]\n%3: f64[n] = broadcast %1, axes=[]\n%4: bool[n] = lt %3, %0\n"
                             "%5: f64[n] = select %4, %0, %3\n%2: f64[n] = select %4, %0, %3\n%6: f64[n] = exp %5\n"
                             "%7: f64[n] = select %4, %6, %3\n%8: f64[n] = add %2, %7\nreturn %8 \"y\"\n";
    expect(safe_log, "0 -1 0 -5", "0 0 0 0");
    /* a norm of zeros */
    expect(X "%1: f64[n] = mul %0, %0\n%3: f64[] = reduce_sum %1, axes=[0]\n%2: f64[] = sqrt %3\n" Y2, "0 0 0 0", "0 0 0 0");
}

/* ---- the pass ---- */
static void test_pass(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Graph *g =
        graph_parse(arena, symbols_new(arena),
                    "graph train(n: 1..64)\n"
                    "%0: f32[n, 3] = batch \"x\"\n%1: f32[3, 2] = weight \"w\", trainable=1\n%2: f32[2] = weight \"frozen\"\n"
                    "%3: f32[5] = weight \"unreached\", trainable=1\n%4: f32[2] = weight \"mean\", trainable=1, statistics=1\n"
                    "%5: f32[n, 2] = dot %0, %1, trans_a=0, trans_b=0    \"/fc/MatMul\"\n"
                    "%6: f32[n, 2] = broadcast %2, axes=[1]\n%7: f32[n, 2] = mul %5, %6      \"/scale/Mul\"\n"
                    "%8: f32[] = reduce_sum %7, axes=[0, 1]\nreturn %8 \"loss\"\n");
    int before = g->ops.n;
    Value **gradients = pass_gradient(g);
    graph_verify(g, "gradient");
    for (int i = 0; i < g->inputs.n; i++) assert_int_equal(gradients[i] != NULL, i == 1);
    assert_true(same_shape(g, gradients[1], g->inputs.at[1]));
    assert_string_equal(gradients[1]->def->source, "/fc/MatMul");
    assert_string_equal(gradients[1]->def->role, "gradient");
    for (int i = 0; i < before; i++) assert_string_equal(g->ops.at[i]->role, "");
    int dots = 0;
    for (int i = before; i < g->ops.n; i++) dots += g->ops.at[i]->kind == OP_dot;
    assert_int_equal(dots, 1); /* none towards x */
    arena_free(arena);
}

/* ---- loops that end by a condition ---- */
#define WHILE(condition)                                                                                                           \
    "%0: f64[m] = batch \"x\"\n%1: f64[m] = batch \"w\"\n%2: f64[] = constant data=[" condition "]\n"                              \
    "%3: f64[] = reduce_sum %0, axes=[0]\n%4: bool[] = lt %3, %2\n%5: f64[] = constant data=[1]\n"                                 \
    "%6: f64[m], %7: f64[], %8: f64[m] = while %4, %0, %5, %1, %1, %2, carries=3 {\n"                                              \
    "  %0: i64[] = parameter \"i\"\n  %1: f64[m] = parameter \"x\"\n  %2: f64[] = parameter \"p\"\n"                               \
    "  %3: f64[m] = parameter \"same\"\n  %4: f64[m] = parameter \"w\"\n  %5: f64[] = parameter \"end\"\n"                         \
    "  %6: f64[m] = mul %1, %4\n  %7: f64[m] = exp %6\n  %8: f64[m] = add %7, %1\n  %9: f64[] = reduce_sum %8, axes=[0]\n"         \
    "  %10: f64[] = cast %0\n  %11: f64[] = add %10, %9\n  %12: f64[] = mul %2, %11\n  %13: bool[] = lt %9, %5\n"                  \
    "  return %13, %8, %12, %3\n}\n%9: f64[m] = mul %6, %8\nreturn %9 \"y\", %7 \"z\", %6 \"x\"\n"
static void test_while(void **state)
{
    (void)state;
    static const Case cases[] = {
        {"while, several steps", WHILE("30"), 0.1, 0.4, 0},
        {"while, one step", WHILE("2"), 0.1, 0.4, 0},
        {"while, no step", WHILE("-1"), 0.1, 0.4, 0},
        {"while in while",
         "%0: f64[m] = batch \"x\"\n%1: bool[] = constant data=[1]\n%2: f64[m] = while %1, %0, carries=1 {\n"
         "  %0: i64[] = parameter \"i\"\n  %1: f64[m] = parameter \"x\"\n  %2: bool[] = constant data=[1]\n"
         "  %3: f64[m] = while %2, %1, carries=1 {\n    %0: i64[] = parameter \"k\"\n    %1: f64[m] = parameter \"y\"\n"
         "    %2: f64[m] = sin %1\n    %3: f64[m] = add %1, %2\n    %4: i64[] = constant data=[2]\n    %5: bool[] = lt %0, %4\n"
         "    return %5, %3\n  }\n  %4: f64[m] = mul %3, %1\n  %5: i64[] = constant data=[1]\n  %6: bool[] = lt %0, %5\n"
         "  return %6, %4\n}\nreturn %2 \"y\"\n",
         0.1, 0.9, 0},
        {"while in scan",
         "%0: f64[m] = batch \"x\"\n%1: f64[n, m] = batch \"s\"\n%2: f64[m], %3: f64[n, m] = scan %0, %1, carries=1, slices=1, "
         "reverse=0 {\n  %0: f64[m] = parameter \"x\"\n  %1: f64[m] = parameter \"s\"\n"
         "  %2: bool[] = constant data=[1]\n  %3: f64[m] = while %2, %0, %1, carries=1 {\n    %0: i64[] = parameter \"k\"\n"
         "    %1: f64[m] = parameter \"y\"\n    %2: f64[m] = parameter \"s\"\n    %3: f64[m] = mul %1, %2\n    %4: f64[m] = sin "
         "%3\n"
         "    %5: i64[] = constant data=[2]\n    %6: bool[] = lt %0, %5\n    return %6, %4\n  }\n  %4: f64[m] = add %3, %0\n"
         "  return %4, %3\n}\nreturn %2 \"y\", %3 \"z\"\n",
         0.1, 0.9, 0},
    };
    CHECK_CASES(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),      cmocka_unit_test(test_binary),          cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_views),      cmocka_unit_test(test_scatter),         cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_cumulative), cmocka_unit_test(test_composites),      cmocka_unit_test(test_dot),
        cmocka_unit_test(test_windows),    cmocka_unit_test(test_regions),         cmocka_unit_test(test_ties),
        cmocka_unit_test(test_zeros),      cmocka_unit_test(test_masked_branches), cmocka_unit_test(test_pass),
        cmocka_unit_test(test_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
