/* Composed operators of the importer: what they become, which no comparison of numbers shows.  (Numbers: test/conformance.) */
#include "onnx/import.h"
#include "passes/passes.h"
#include "test/support/interpret.h"
#include "test/support/model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static Arena *arena;
static Symbols *symbols;
static ImportReport report;

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    symbols = symbols_new(arena);
    report = (ImportReport){.arena = arena};
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static Graph *import_with(const char *text, bool training, int batch_norm)
{
    ImportOptions options = {.training = training, .batch_norm = batch_norm};
    Graph *g = import_model(arena, symbols, model_from_text(arena, text), &options, map_new(arena), &report);
    graph_verify(g, "import");
    return g;
}

static int count(const Graph *g, OpKind kind)
{
    int n = 0;
    for (int i = 0; i < g->ops.n; i++) n += g->ops.at[i]->kind == kind;
    return n;
}

static const Op *only(const Graph *g, OpKind kind)
{
    assert_int_equal(count(g, kind), 1);
    for (int i = 0;; i++)
        if (g->ops.at[i]->kind == kind) return g->ops.at[i];
}

static void shape_is(const Value *v, const char *wanted)
{
    Buf b = {.arena = arena};
    for (int i = 0; i < v->rank; i++) {
        if (i) buf_put(&b, ", ");
        expr_print(&b, v->shape[i]);
    }
    assert_string_equal(buf_text(&b), wanted);
}

/* Runs g; inputs of the batch count 1, 2, 3.. ; gives output i. */
static Array run(Graph *g, const char *dims_text, int output, Array **inputs)
{
    int64_t *dims = dims_from_text(arena, symbols, dims_text);
    Array *in = NEW_ARRAY(arena, Array, g->inputs.n + 1), *out = NEW_ARRAY(arena, Array, g->outputs.n + 1);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        in[i] = array_for(arena, g, v, dims);
        for (int64_t k = 0; k < in[i].n; k++)
            in[i].at[k] = v->origin == FROM_WEIGHT ? element_read(v->tensor->dtype, v->tensor->data, k) : (double)k + 1;
    }
    interpret(arena, g, dims, in, out);
    if (inputs) *inputs = in;
    return out[output];
}

/* ---- BatchNormalization ---- */
#define BATCH_NORM(attributes, results)                                                                                            \
    "in x f32 batch,2\n"                                                                                                           \
    "w gain 2 =1\n"                                                                                                                \
    "w bias 2 =0\n"                                                                                                                \
    "w mean 2 =0\n"                                                                                                                \
    "w variance 2 =1\n"                                                                                                            \
    "BatchNormalization bn: x gain bias mean variance -> y" results " " attributes "\n"                                            \
    "out y\n"

static void batch_norm_trains_as_exported(void **state)
{
    (void)state;
    const char *training = BATCH_NORM("training_mode=1", " m v"), *inference = BATCH_NORM("", "");
    assert_int_equal(count(import_with(training, true, BATCH_NORM_AS_EXPORTED), OP_assign), 2);
    assert_int_equal(count(import_with(training, true, BATCH_NORM_FROZEN), OP_assign), 0);
    assert_int_equal(count(import_with(training, false, BATCH_NORM_AS_EXPORTED), OP_assign), 0);
    assert_int_equal(count(import_with(inference, true, BATCH_NORM_TRAIN), OP_assign), 2);
    assert_int_equal(count(import_with(inference, true, BATCH_NORM_AS_EXPORTED), OP_assign), 0);
}

/* x is (1, 2), (3, 4), (5, 6): means 3 and 4, population variance 8/3. */
static void batch_norm_updates_running_statistics(void **state)
{
    (void)state;
    Graph *g = import_with(BATCH_NORM("training_mode=1 momentum=0.75", " m v"), true, BATCH_NORM_AS_EXPORTED);
    Array *in;
    run(g, "batch=3", 0, &in);
    for (int i = 0; i < g->inputs.n; i++) {
        const char *name = g->inputs.at[i]->name;
        if (strcmp(name, "mean") == 0) {
            assert_float_equal(in[i].at[0], 0.25 * 3, 1e-6);
            assert_float_equal(in[i].at[1], 0.25 * 4, 1e-6);
        }
        if (strcmp(name, "variance") == 0) assert_float_equal(in[i].at[0], 0.75 + 0.25 * 8 / 3, 1e-6);
        if (strcmp(name, "mean") == 0 || strcmp(name, "variance") == 0) assert_true(g->inputs.at[i]->tensor->statistics);
    }
}

/* ---- recurrent ---- */
static void lstm_projects_all_steps_at_once(void **state)
{
    (void)state;
    Graph *g = import_with("in x f32 time,batch,3\n"
                           "w W 1,8,3 random\n"
                           "w R 1,8,2 random\n"
                           "w B 1,16 random\n"
                           "LSTM l: x W R B -> y h c hidden_size=2\n"
                           "out y\nout h\nout c\n",
                           true, 0);
    shape_is(g->outputs.at[0], "time, 1, batch, 2");
    shape_is(g->outputs.at[1], "1, batch, 2");
    const Op *scan = only(g, OP_scan), *projection = only(g, OP_dot);
    shape_is(projection->out[0], "time*batch, 8");
    assert_int_equal(count(scan->body[0], OP_dot), 1);
    assert_int_equal(op_int(scan, ATTR_carries), 2);
}

static void gru_without_lengths_has_no_mask(void **state)
{
    (void)state;
    Graph *g = import_with("in x f32 time,batch,3\n"
                           "w W 1,6,3 random\n"
                           "w R 1,6,2 random\n"
                           "GRU l: x W R -> - h hidden_size=2\n"
                           "out h\n",
                           true, 0);
    const Op *scan = only(g, OP_scan);
    assert_int_equal(op_int(scan, ATTR_slices), 1);
    assert_int_equal(scan->n_out, 1); /* nobody wants all steps */
    assert_int_equal(count(scan->body[0], OP_select), 0);
}

/* ---- attention ---- */
static void attention_keeps_shared_heads_apart(void **state)
{
    (void)state;
    Graph *g = import_with("in q f32 batch,4,time,8\n"
                           "in k f32 batch,2,keys,8\n"
                           "in v f32 batch,2,keys,8\n"
                           "Attention a: q k v -> y is_causal=1\n"
                           "out y\n",
                           true, 0);
    assert_int_equal(count(g, OP_gather) + count(g, OP_concat), 0);
    shape_is(g->outputs.at[0], "batch, 4, time, 8");
    for (int i = 0; i < g->ops.n; i++) { /* keys and values reach their dot as they are */
        const Op *op = g->ops.at[i];
        if (op->kind == OP_dot) assert_int_equal(op->in[1]->origin, FROM_BATCH);
    }
    assert_int_equal(count(g, OP_reduce_max), 0); /* each query has a key: nothing to guard */
}

/* ---- quantization ---- */
/* Held within 0 to 255: what saturates has no gradient, the rest that of x. */
static void quantization_passes_gradients_straight_through(void **state)
{
    (void)state;
    Graph *g = import_with("w x 6 random\n"
                           "const s () =0.25\n"
                           "QuantizeLinear q: x s -> i\n"
                           "DequantizeLinear d: i s -> y\n"
                           "ReduceSum r: y -> loss keepdims=0\n"
                           "out loss\n",
                           true, 0);
    Value *x = graph_find_input(g, "x");
    x->tensor->trainable = true;
    Value **gradients = pass_gradient(g);
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i] == x) vec_push(arena, &g->outputs, gradients[i]);
    g->output_names = NULL;
    Array *in, gradient = run(g, "", 1, &in);
    int held = 0;
    for (int i = 0; i < g->inputs.n; i++)
        for (int64_t k = 0; g->inputs.at[i] == x && k < 6; k++) {
            assert_float_equal(gradient.at[k], in[i].at[k] < 0 ? 0 : 1, 1e-6);
            held += in[i].at[k] < 0;
        }
    assert_in_range(held, 1, 5);
}

static void detached_values_stay_exact(void **state)
{
    (void)state;
    const char *text = "w x 64 random\nconst s () =0.01\nQuantizeLinear q: x s -> i\nDequantizeLinear d: i s -> y\nout y\n";
    Array with = run(import_with(text, true, 0), "", 0, NULL), without = run(import_with(text, false, 0), "", 0, NULL);
    for (int64_t i = 0; i < with.n; i++) assert_float_equal(with.at[i], without.at[i], 1e-9);
}

/* Scales put together by Concat, as interpolate(scale_factor=..) exports them where no constants are folded; and ones that sizes give. */
static void scales_are_followed(void **state)
{
    (void)state;
    const char *text = "in x f32 batch,2,height,width\nconst none 0 =0\nconst one 1 =1\nconst two 1 =1.5\n"
                       "Concat c: one one two two -> scales axis=0\nResize r: x none scales -> y\nout y\n";
    shape_is(import_with(text, true, 0)->outputs.at[0], "batch, 2, height + height//2, width + width//2");
    const char *cast = "in x f32 batch,2,height,width\nconst none 0 =0\nconst scales 4 =2.5\nCast d: scales -> wide to=11\n"
                       "Cast f: wide -> again to=1\nResize r: x none again -> y\nout y\n";
    shape_is(import_with(cast, true, 0)->outputs.at[0], "2*batch + batch//2, 5, 2*height + height//2, 2*width + width//2");
}

/* ---- messages ---- */
static void import_text(void *text)
{
    import_with(text, true, 0);
}

static void says(const char *text, const char *wanted)
{
    int status;
    const char *said = said_by(arena, import_text, (void *)text, &status);
    assert_int_equal(status, 2);
    if (!strstr(said, wanted)) fail_msg("wanted: %s\nfound:  %s", wanted, said);
}

static void errors_name_node_and_types(void **state)
{
    (void)state;
    says("in x f32 batch,4\nw w 5,6 random\nMatMul m: x w -> y\nout y\n",
         "\"m\" (MatMul, node 0): inner sizes differ: f32[batch, 4] x f32[5, 6]");
    says("in x f32 batch,4,height,width\nw w 8,3,3,3 random\nConv c: x w -> y\nout y\n",
         "\"c\" (Conv, node 0): X is f32[batch, 4, height, width], W is f32[8, 3, 3, 3], group 1: W wants 3 channels");
    says("in x f32 batch,3,height,2\nw w 8,3,3,3 random\nConv c: x w -> y\nout y\n",
         "spatial axis 1 has 2 elements, 2 with pads: less than the kernel's extent of 3");
    says("in x f32 time,batch,3\nw W 1,8,3 random\nw R 1,8,2 random\nLSTM l: x W R -> y hidden_size=4\nout y\n",
         "the last axis of R and hidden_size differ: 2 and 4");
    says("in q f32 batch,3,time,8\nin k f32 batch,2,keys,8\nAttention a: q k k -> y\nout y\n",
         "wanted fixed numbers of heads, those of Q a multiple of those of K");
    says("in x f32 batch,6,height\nw s 4 =1\nw b 4 =0\nGroupNormalization n: x s b -> y num_groups=4\nout y\n",
         "channels over num_groups: 6 does not divide by 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(batch_norm_trains_as_exported, setup, teardown),
        cmocka_unit_test_setup_teardown(batch_norm_updates_running_statistics, setup, teardown),
        cmocka_unit_test_setup_teardown(lstm_projects_all_steps_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(gru_without_lengths_has_no_mask, setup, teardown),
        cmocka_unit_test_setup_teardown(attention_keeps_shared_heads_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(quantization_passes_gradients_straight_through, setup, teardown),
        cmocka_unit_test_setup_teardown(detached_values_stay_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(scales_are_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_name_node_and_types, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
