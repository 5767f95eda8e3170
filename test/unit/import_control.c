/* The importer: branches and loops, and lists that loops append to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "built.h"

static OnnxGraph *branch_of(const char *op, const char *inputs)
{
    OnnxGraph *g = graph_of_nothing();
    node_in(g, op, inputs, "r");
    int n;
    const char **names = names_of(inputs, &n);
    for (int i = 0; i < n; i++) captures(g, names[i]);
    gives(g, "r");
    return g;
}

static void known_condition_leaves_one_branch(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,=3");
    INTEGER("axis", 1);
    INTEGER("three", 3);
    node("Shape", "x", "s");
    node("Gather", "s,axis", "n");
    node("Equal", "n,three", "c");
    OnnxNode *n = node("If", "c", "y");
    with_graph(n, "then_branch", branch_of("Neg", "x"));
    with_graph(n, "else_branch", branch_of("Exp", "x"));
    gives(model->graph, "y");
    Graph *g = imported(false);
    assert_int_equal(g->ops.n, 1);
    assert_int_equal(g->ops.at[0]->kind, OP_neg);
}

static void open_condition_gives_both_branches_the_same_captures(void **state)
{
    (void)state;
    takes("c", ONNX_BOOL, "");
    takes("a", ONNX_FLOAT, "n");
    takes("b", ONNX_FLOAT, "n");
    OnnxNode *n = node("If", "c", "y");
    with_graph(n, "then_branch", branch_of("Neg", "b"));
    with_graph(n, "else_branch", branch_of("Add", "a,b"));
    gives(model->graph, "y");
    Graph *g = imported(false);
    Op *op = g->outputs.at[0]->def;
    assert_int_equal(op->kind, OP_branch);
    assert_int_equal(op->n_in, 3);
    assert_string_equal(op->body[0]->inputs.at[0]->name, "b");
    assert_string_equal(op->body[0]->inputs.at[1]->name, "a");
    assert_string_equal(op->body[1]->inputs.at[0]->name, "b");
}

/* x = x * w, `trips` times. */
static void loop_of_products(void)
{
    OnnxGraph *body = graph_of_nothing();
    info(&body->inputs[body->n_inputs++], "i", ONNX_INT64, "");
    info(&body->inputs[body->n_inputs++], "go", ONNX_BOOL, "");
    info(&body->inputs[body->n_inputs++], "v", ONNX_FLOAT, "n");
    node_in(body, "Identity", "go", "go_on");
    node_in(body, "Mul", "v,w", "next");
    captures(body, "w");
    gives(body, "go_on");
    gives(body, "next");
    gives(body, "next");
    with_graph(node("Loop", "trips,,x", "last,all"), "body", body);
    gives(model->graph, "last");
    gives(model->graph, "all");
}

static void short_loops_are_unrolled(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "n");
    floats("w", 0, 1, 1);
    INTEGER("trips", 3);
    loop_of_products();
    Graph *g = imported(false);
    assert_int_equal(ops_of(g, OP_mul), 3);
    assert_string_equal(output_type(g, 1), "f32[3, n]");
}

static void loops_of_symbolic_length_are_scans(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "n");
    floats("w", 0, 1, 1);
    node("Size", "x", "trips");
    loop_of_products();
    Graph *g = imported(false);
    assert_int_equal(ops_of(g, OP_scan), 1);
    assert_string_equal(output_type(g, 0), "f32[n]");
    assert_string_equal(output_type(g, 1), "f32[n, n]");
}

/* while (k < n) { v = v * w; list.append(v); k += 1; }, as scripted modules are exported; `rise` is what is added to k. */
static void counted_loop(const char *rise)
{
    OnnxGraph *body = graph_of_nothing();
    info(&body->inputs[body->n_inputs++], "i", ONNX_INT64, "");
    info(&body->inputs[body->n_inputs++], "go", ONNX_BOOL, "");
    info(&body->inputs[body->n_inputs++], "v", ONNX_FLOAT, "n,m");
    info(&body->inputs[body->n_inputs++], "k", ONNX_INT64, "");
    info(&body->inputs[body->n_inputs++], "list", ONNX_FLOAT, "");
    node_in(body, "Mul", "v,w", "next");
    node_in(body, "SequenceInsert", "list,next", "longer");
    node_in(body, "Add", rise, "k_next");
    node_in(body, "Less", "k_next,rows", "go_on");
    captures(body, "w");
    captures(body, "one");
    captures(body, "rows");
    gives(body, "go_on");
    gives(body, "next");
    gives(body, "k_next");
    gives(body, "longer");
    takes("x", ONNX_FLOAT, "n,m");
    floats("w", 0, 1, 1);
    INTEGER("one", 1);
    INTEGER("zero", 0);
    node("Shape", "x", "shape");
    node("Gather", "shape,zero", "rows");
    node("SequenceEmpty", "", "nothing");
    with_graph(node("Loop", ",,x,zero,nothing", "last,count,steps"), "body", body);
}

static void loops_that_count_themselves_are_scans(void **state)
{
    (void)state;
    counted_loop("k,one");
    OnnxNode *n = node("ConcatFromSequence", "steps", "stacked");
    with_int(n, "axis", 1);
    with_int(n, "new_axis", 1);
    with_int(node("ConcatFromSequence", "steps", "joined"), "axis", -1);
    node("SequenceAt", "steps,zero", "first");
    node("SequenceLength", "steps", "length");
    node("Range", "zero,length,one", "range");
    const char *const outputs[] = {"last", "stacked", "joined", "first", "range", "steps"};
    for (int i = 0; i < 6; i++) gives(model->graph, outputs[i]);
    Graph *g = imported(false);
    assert_int_equal(ops_of(g, OP_scan), 1);
    assert_int_equal(ops_of(g, OP_while), 0);
    assert_string_equal(output_type(g, 0), "f32[n, m]");
    assert_string_equal(output_type(g, 1), "f32[n, n, m]");
    assert_string_equal(output_type(g, 2), "f32[n, n*m]");
    assert_string_equal(output_type(g, 3), "f32[n, m]");
    assert_string_equal(output_type(g, 4), "i64[n]");
    assert_string_equal(output_type(g, 5), "f32[n, n, m]");
}

/* x[k : k + 2] in a loop's body: of two rows, wherever it begins. */
static void slices_move_with_the_step(void **state)
{
    (void)state;
    OnnxGraph *body = graph_of_nothing();
    info(&body->inputs[body->n_inputs++], "i", ONNX_INT64, "");
    info(&body->inputs[body->n_inputs++], "go", ONNX_BOOL, "");
    node_in(body, "Unsqueeze", "i,at", "start");
    node_in(body, "Add", "start,two", "end");
    node_in(body, "Slice", "x,start,end,at", "part");
    node_in(body, "Identity", "go", "go_on");
    captures(body, "x");
    captures(body, "at");
    captures(body, "two");
    gives(body, "go_on");
    gives(body, "part");
    takes("x", ONNX_FLOAT, "n,m");
    INTEGERS("at", 0);
    INTEGERS("two", 2);
    INTEGER("zero", 0);
    node("Shape", "x", "shape");
    node("Gather", "shape,zero", "rows");
    with_graph(node("Loop", "rows,", "parts"), "body", body);
    gives(model->graph, "parts");
    Graph *g = imported(false);
    assert_string_equal(output_type(g, 0), "f32[n, 2, m]");
    assert_int_equal(ops_of(g->outputs.at[0]->def->body[0], OP_gather), 1);
}

static void counts_by_other_steps_end_by_their_condition(void **state)
{
    (void)state;
    counted_loop("k,rows");
    gives(model->graph, "last");
    gives(model->graph, "steps");
    assert_says(error_of_import(), "carries a sequence of 0; wanted tensors, unless the number of steps follows from constants and the sizes of inputs");
}

/* Rows from one offset to the next: an EmbeddingBag, as PyTorch exports it. */
static void bags_of_rows_are_told_of(void **state)
{
    (void)state;
    OnnxGraph *body = graph_of_nothing();
    info(&body->inputs[body->n_inputs++], "i", ONNX_INT64, "");
    info(&body->inputs[body->n_inputs++], "go", ONNX_BOOL, "");
    node_in(body, "Identity", "go", "go_on");
    node_in(body, "Gather", "from,i", "start");
    node_in(body, "Unsqueeze", "start,at", "starts");
    node_in(body, "Gather", "to,i", "end");
    node_in(body, "Unsqueeze", "end,at", "ends");
    node_in(body, "Slice", "x,starts,ends,at", "bag");
    node_in(body, "ReduceSum", "bag,at", "sum");
    const char *outside[] = {"from", "to", "at", "x"};
    for (int i = 0; i < 4; i++) captures(body, outside[i]);
    gives(body, "go_on");
    gives(body, "sum");
    takes("x", ONNX_FLOAT, "n,m");
    takes("from", ONNX_INT64, "bags");
    takes("to", ONNX_INT64, "bags");
    INTEGERS("at", 0);
    INTEGER("zero", 0);
    node("Shape", "from", "shape");
    node("Gather", "shape,zero", "count");
    with_graph(node("Loop", "count,", "sums"), "body", body);
    gives(model->graph, "sums");
    assert_says(error_of_import(), "PyTorch's EmbeddingBag is exported as a loop over such slices: Embedding and a sum or mean over each bag");
}

static void branches_may_use_one_name_twice(void **state)
{
    (void)state;
    takes("c", ONNX_BOOL, "");
    takes("x", ONNX_FLOAT, "=4");
    OnnxGraph *branch[2];
    for (int i = 0; i < 2; i++) {
        branch[i] = branch_of("Add", "x,w");
        branch[i]->n_captures = 1;
        OnnxTensor *w = floats("w", 1, 4, 1);
        model->graph->n_initializers--;
        initializer_in(branch[i], w);
    }
    model->graph->initializer_of = map_new(arena);
    OnnxNode *n = node("If", "c", "y");
    with_graph(n, "then_branch", branch[0]);
    with_graph(n, "else_branch", branch[1]);
    gives(model->graph, "y");
    Graph *g = imported(false);
    assert_non_null(graph_find_input(g, "w"));
    assert_non_null(graph_find_input(g, "w#2"));
    assert_ptr_not_equal(graph_find_input(g, "w")->tensor->data, graph_find_input(g, "w#2")->tensor->data);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(known_condition_leaves_one_branch),
        TEST(open_condition_gives_both_branches_the_same_captures),
        TEST(short_loops_are_unrolled),
        TEST(loops_of_symbolic_length_are_scans),
        TEST(loops_that_count_themselves_are_scans),
        TEST(slices_move_with_the_step),
        TEST(counts_by_other_steps_end_by_their_condition),
        TEST(bags_of_rows_are_told_of),
        TEST(branches_may_use_one_name_twice),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
