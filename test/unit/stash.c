/* The minimum cut against all cuts of small networks; values of random training steps before and after the pass. */
#include "passes/flow.h"
#include "passes/passes.h"
#include "test/support/interpret.h"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
// clang-format off: cmocka wants the headers above first
#include <cmocka.h>
// clang-format on

static uint32_t random_state;
static int any(int n) /* 0 .. n - 1 */
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)n);
}

/* ---- the cut ---- */
enum { NODES = 8, ARCS = 20 };
typedef struct {
    int from, to, capacity;
} TestArc;

static int cut_of(const TestArc *arcs, const uint8_t *at_sink)
{
    int sum = 0;
    for (int i = 0; i < ARCS; i++)
        if (!at_sink[arcs[i].from] && at_sink[arcs[i].to]) sum += arcs[i].capacity;
    return sum;
}

static void test_cut_is_least_and_nearest(void **state)
{
    (void)state;
    for (int seed = 0; seed < 500; seed++) {
        Arena *arena = arena_new();
        TestArc arcs[ARCS];
        random_state = (uint32_t)seed;
        FlowNet *net = flow_new(arena, NODES);
        for (int i = 0; i < ARCS; i++) {
            arcs[i] = (TestArc){any(NODES), any(NODES), any(6)};
            flow_arc(net, arcs[i].from, arcs[i].to, arcs[i].capacity);
        }
        const uint8_t *found = flow_minimum_cut(net, 0, NODES - 1);
        int least = 1 << 30, fewest = NODES, size = 0;
        for (int set = 0; set < 1 << (NODES - 2); set++) { /* bit i: node i + 1 lies on the sink's side */
            uint8_t at_sink[NODES] = {[NODES - 1] = 1};
            int n = 1;
            for (int i = 0; i < NODES - 2; i++) n += at_sink[i + 1] = set >> i & 1;
            int cut = cut_of(arcs, at_sink);
            if (cut < least || (cut == least && n < fewest)) fewest = n;
            if (cut < least) least = cut;
        }
        for (int i = 0; i < NODES; i++) size += found[i];
        assert_false(found[0]);
        assert_true(found[NODES - 1]);
        assert_int_equal(cut_of(arcs, found), least);
        assert_int_equal(size, fewest);
        arena_free(arena);
    }
}

/* A path of a hundred thousand nodes: neither recursion nor quadratic time. */
static void test_long_path(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    Arena *arena = arena_new();
    FlowNet *net = flow_new(arena, LONG);
    for (int i = 0; i + 1 < LONG; i++) flow_arc(net, i, i + 1, i == LONG / 2 ? 3 : 7);
    const uint8_t *found = flow_minimum_cut(net, 0, LONG - 1);
    assert_false(found[LONG / 2]);
    assert_true(found[LONG / 2 + 1]);
    arena_free(arena);
}

/* ---- values ---- */
enum { FORWARD = 24, BACKWARD = 12 };

static Value *random_op(Graph *g, Value *const *known, int n)
{
    static const OpKind unary[] = {OP_tanh, OP_neg, OP_relu, OP_sigmoid, OP_sin};
    static const OpKind binary[] = {OP_add, OP_sub, OP_mul, OP_max};
    static const int64_t last = 1, swap[] = {1, 0};
    Value *a = known[any(n)], *b = known[any(n)];
    switch (any(5)) {
    case 0: return b_unary(g, unary[any(5)], a);
    case 1: return b_add(g, a, b_reduce_keep(g, OP_reduce_max, b, &last, 1)); /* costly: stays */
    case 2: return b_transpose(g, b_unary(g, OP_tanh, b_transpose(g, a, swap)), swap);
    default: return b_binary(g, binary[any(4)], a, b);
    }
}

static Graph *random_step(Arena *arena)
{
    Symbols *symbols = symbols_new(arena);
    Graph *g = graph_new(arena, symbols, "train");
    Expr *shape[] = {expr_symbol(symbols, "n"), expr_int(symbols, 3)};
    Value *known[FORWARD + BACKWARD + 2];
    const int64_t axes[] = {0, 1};
    int n = 0;
    known[n++] = graph_input(g, "x", DTYPE_f32, 2, shape, FROM_BATCH);
    known[n++] = graph_input(g, "y", DTYPE_f32, 2, shape, FROM_BATCH);
    for (; n < FORWARD; n++) known[n] = random_op(g, known, n);
    Value *loss = b_reduce(g, OP_reduce_sum, known[n - 1], axes, 2);
    g->role = "gradient";
    for (; n < FORWARD + BACKWARD; n++) known[n] = random_op(g, known, n);
    b_commit(g, loss);
    g->output_names = NEW_ARRAY(arena, const char *, 3);
    vec_push(arena, &g->outputs, loss);
    vec_push(arena, &g->outputs, known[n - 1]);
    vec_push(arena, &g->outputs, known[n - 2]);
    g->output_names[0] = "loss";
    g->output_names[1] = "gradient:x";
    g->output_names[2] = "gradient:y";
    pass_simplify(g);
    graph_verify(g, "simplify");
    return g;
}

static void evaluate(Arena *arena, Graph *g, Array *outputs)
{
    int64_t *dims = dims_from_text(arena, g->symbols, "n=5");
    Array inputs[2];
    for (int i = 0; i < 2; i++) {
        inputs[i] = array_for(arena, g, g->inputs.at[i], dims);
        for (int64_t k = 0; k < inputs[i].n; k++) inputs[i].at[k] = (double)(k * 7 % 11) / 6 - 0.8 * i;
    }
    interpret(arena, g, dims, inputs, outputs);
}

static void test_values_stay(void **state)
{
    (void)state;
    int grown = 0;
    for (int seed = 0; seed < 300; seed++) {
        Arena *arena = arena_new();
        Array before[3], after[3];
        Buf report = {.arena = arena};
        random_state = (uint32_t)seed * 977;
        Graph *g = random_step(arena);
        int n = g->ops.n;
        evaluate(arena, g, before);
        pass_stash(g, &report);
        graph_verify(g, "stash");
        evaluate(arena, g, after);
        for (int i = 0; i < 3; i++) assert_memory_equal(before[i].at, after[i].at, sizeof(double) * (size_t)before[i].n);
        grown += g->ops.n > n;
        arena_free(arena);
    }
    assert_true(grown > 30); /* or nothing was tried */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_is_least_and_nearest),
        cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_values_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
