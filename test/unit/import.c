/* The importer: shapes that vanish, facts that a model states, and what is said to the user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "built.h"

/* ---- shapes ---- */
/* Shape -> Gather -> Concat -> Reshape leaves one reshape. */
static void shape_arithmetic_vanishes(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,seq,=64");
    INTEGER("zero", 0);
    INTEGER("one", 1);
    INTEGERS("first", 0);
    INTEGERS("heads", 4, -1);
    node("Shape", "x", "s");
    node("Gather", "s,zero", "b0");
    node("Gather", "s,one", "s0");
    node("Mul", "b0,s0", "bs");
    node("Unsqueeze", "bs,first", "bs1");
    node("Concat", "bs1,heads", "target");
    with_int(model->graph->nodes[5], "axis", 0);
    node("Reshape", "x,target", "y");
    gives(model->graph, "y");
    Graph *g = imported(false);
    assert_int_equal(g->ops.n, 1);
    assert_string_equal(output_type(g, 0), "f32[batch*seq, 4, 16]");
}

/* -1 in Expand's target means "as it is": Where(Equal(shape, -1), 1, shape). */
static void minus_one_of_expand_is_seen(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,=1");
    takes("y", ONNX_FLOAT, "seq");
    INTEGERS("minus", -1, -1);
    INTEGERS("one", 1);
    node("Shape", "y", "n");
    node("Concat", "one,n", "target");
    with_int(model->graph->nodes[1], "axis", 0);
    node("Mul", "minus,minus", "ones");
    node("Equal", "target,minus", "free");
    node("Where", "free,ones,target", "shape");
    node("Expand", "x,shape", "z");
    gives(model->graph, "z");
    Graph *g = imported(false);
    assert_string_equal(output_type(g, 0), "f32[batch, seq]");
    assert_int_equal(g->ops.n, 1);
}

/* Floor(Cast(height) * 0.5): sizes computed in floats, as interpolate(scale_factor=0.5) exports them. */
static void float_sizes_are_followed(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,height");
    floats("half", 0, 1, 1);
    ((float *)model->graph->initializers[0]->data)[0] = 0.5f;
    INTEGER("one", 1);
    INTEGERS("at", 0);
    node("Shape", "x", "s");
    node("Gather", "s,one", "h");
    with_int(node("Cast", "h", "hf"), "to", ONNX_FLOAT);
    node("Mul", "hf,half", "scaled");
    node("Floor", "scaled", "whole");
    with_int(node("Cast", "whole", "n"), "to", ONNX_INT64);
    node("Unsqueeze", "n,at", "shape");
    node("ConstantOfShape", "shape", "y");
    gives(model->graph, "y");
    assert_string_equal(output_type(imported(false), 0), "f32[height//2]");
}

/* int(patches ** 0.5), the side of a square of patches: known where it is whole. */
static void sides_of_squares_are_followed(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,=16");
    floats("half", 0, 1, 1);
    ((float *)model->graph->initializers[0]->data)[0] = 0.5f;
    INTEGER("one", 1);
    INTEGERS("at", 0);
    node("Shape", "x", "s");
    node("Gather", "s,one", "n");
    with_int(node("Cast", "n", "nf"), "to", ONNX_FLOAT);
    node("Pow", "nf,half", "root");
    with_int(node("Cast", "root", "side"), "to", ONNX_INT64);
    node("Unsqueeze", "side,at", "shape");
    node("ConstantOfShape", "shape", "y");
    gives(model->graph, "y");
    assert_string_equal(output_type(imported(false), 0), "f32[4]");
}

/* (side - 2) / 2 + 1, the steps of a convolution of 2 by 2: ONNX divides towards zero, and -1 / 2 is 0. */
static void steps_of_short_sides_are_followed(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,height");
    INTEGER("one", 1);
    INTEGER("two", 2);
    INTEGERS("at", 0);
    node("Shape", "x", "s");
    node("Gather", "s,one", "h");
    node("Sub", "h,two", "room");
    node("Div", "room,two", "halves");
    node("Add", "halves,one", "n");
    node("Unsqueeze", "n,at", "shape");
    node("ConstantOfShape", "shape", "y");
    gives(model->graph, "y");
    assert_string_equal(output_type(imported(false), 0), "f32[Max(height, 2)//2]");
}

/* (side - 5) / 2: down to -2, which a floor would make -3. */
static void quotients_below_zero_are_followed(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,height");
    INTEGER("one", 1);
    INTEGER("two", 2);
    INTEGER("five", 5);
    INTEGERS("at", 0);
    node("Shape", "x", "s");
    node("Gather", "s,one", "h");
    node("Sub", "h,five", "room");
    node("Div", "room,two", "halves");
    node("Add", "halves,two", "n");
    node("Unsqueeze", "n,at", "shape");
    node("ConstantOfShape", "shape", "y");
    gives(model->graph, "y");
    Graph *g = imported(false);
    for (int64_t height = 1; height < 9; height++) {
        int64_t dims[64] = {0}, n;
        dims[symbol_index(expr_symbol(g->symbols, "height"))] = height;
        assert_true(expr_evaluate(g->symbols, g->outputs.at[0]->shape[0], dims, &n));
        assert_int_equal(n, (height - 5) / 2 + 2);
    }
}

static void slices_count_from_both_ends(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,seq,=10");
    INTEGERS("starts", 1, -3);
    INTEGERS("ends", INT64_MAX, INT64_MIN);
    INTEGERS("axes", 1, -1);
    INTEGERS("steps", 1, -2);
    node("Slice", "x,starts,ends,axes,steps", "y");
    gives(model->graph, "y");
    Graph *g = imported(false);
    assert_string_equal(output_type(g, 0), "f32[batch, seq - 1, 4]"); /* 7 5 3 1 */
    assert_says(text_of(g), "start=[0, 1, 7], step=[1, 1, -2]");
}

/* A table of 64 rows, cut to seq and added to something of length seq, says seq <= 64; so do positions looked up in it. */
static void tables_bound_sizes(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,seq");
    takes("ids", ONNX_INT64, "tokens");
    floats("table", 1, 64, 1);
    floats("rows", 2, 32, 8);
    INTEGERS("from", 0);
    INTEGERS("one", 1);
    INTEGER("zero", 0);
    INTEGER("step", 1);
    node("Shape", "x", "s");
    INTEGERS("two", 2);
    node("Slice", "s,one,two", "n");
    node("Slice", "table,from,n", "positions");
    node("Add", "x,positions", "y");
    node("Size", "ids", "t");
    node("Range", "zero,t,step", "at");
    node("Gather", "rows,at", "z");
    gives(model->graph, "y");
    gives(model->graph, "z");
    Graph *g = imported(false);
    assert_int_equal(symbol_facts(symbols, expr_symbol(symbols, "seq")).high, 64);
    assert_int_equal(symbol_facts(symbols, expr_symbol(symbols, "tokens")).high, 32);
    assert_null(strstr(text_of(g), "Min("));
}

static void dim_names_may_be_odd(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "p2o.DynamicDimension.0,2*(h//2),3,*");
    node("Relu", "x", "y");
    gives(model->graph, "y");
    Graph *g = imported(false);
    Expr **shape = g->outputs.at[0]->shape;
    assert_string_equal(expr_symbol_name(shape[0]), "p2o.DynamicDimension.0");
    assert_string_equal(expr_text(arena, shape[1]), "2*(h//2)");
    assert_string_equal(expr_symbol_name(shape[2]), "3");
    assert_string_equal(expr_symbol_name(shape[3]), "*");
}

/* ---- operators ---- */
/* Before opset 13 Softmax runs over all axes from `axis` on. */
static void old_softmax_joins_axes(void **state)
{
    (void)state;
    model->opset = 12;
    takes("x", ONNX_FLOAT, "batch,=3,=4");
    node("Softmax", "x", "y");
    gives(model->graph, "y");
    Graph *g = imported(false);
    assert_says(text_of(g), "f32[batch, 12] = softmax");
    assert_string_equal(output_type(g, 0), "f32[batch, 3, 4]");
}

static void dropout_acts_only_where_exported_so(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch");
    floats("ratio", 0, 1, 1);
    ((float *)model->graph->initializers[0]->data)[0] = 0.25f;
    int64_t *yes = NEW_ARRAY(arena, int64_t, 1);
    *(char *)yes = 1;
    initializer_in(model->graph, tensor_new("yes", ONNX_BOOL, 0, 1, yes));
    node("Dropout", "x,ratio,yes", "dropped");
    node("Dropout", "x,ratio", "kept");
    gives(model->graph, "dropped");
    gives(model->graph, "kept");
    Graph *g = imported(true);
    assert_int_equal(ops_of(g, OP_random), 1);
    assert_ptr_equal(g->outputs.at[1], graph_find_input(g, "x"));
    assert_int_equal(ops_of(imported(false), OP_random), 0);
}

/* GatherND by (row, column) grids into rows that only repeat looks into one row. */
static void repeated_rows_are_not_looked_into(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "=5");
    takes("at", ONNX_INT64, "n,=2");
    INTEGERS("shape", 7, 5);
    node("Expand", "x,shape", "wide");
    node("GatherND", "wide,at", "y");
    gives(model->graph, "y");
    Graph *g = imported(false);
    assert_string_equal(output_type(g, 0), "f32[n]");
    assert_int_equal(ops_of(g, OP_gather), 1);
    assert_null(strstr(text_of(g), "f32[35]"));
}

/* Numbers of the whole input say nothing of one column's table: what lies outside is seen as it is looked up. */
static int held_places(const char *dims)
{
    setup(NULL);
    takes("ids", ONNX_INT64, dims);
    INTEGERS("from", 0);
    INTEGERS("to", -1);
    INTEGERS("axis", 1);
    floats("table", 2, 5, 3);
    node("Slice", "ids,from,to,axis", "some");
    node("Gather", "table,some", "y");
    gives(model->graph, "y");
    return ops_of(imported(false), OP_max);
}

static void columns_may_have_tables_of_their_own(void **state)
{
    teardown(state);
    assert_int_equal(held_places("batch,=2"), 1);
    teardown(state);
    assert_int_equal(held_places("batch,seq"), 0);
}

static void sizes_written_into_the_model_are_told(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,seq");
    floats("w", 2, 7, 3);
    node("MatMul", "x,w", "y");
    gives(model->graph, "y");
    imported(false);
    assert_int_equal(report.lines.n, 1);
    assert_says(report.lines.at[0], "the model computes with seq = 7 alone (axis 1 of input \"x\"), though that dim has a name");
}

/* ---- weights ---- */
static void unused_tables_make_no_weights(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "n");
    floats("idle", 2, 3, 3);
    node("Gemm", "idle,idle", "unused");
    node("Relu", "x", "y");
    gives(model->graph, "y");
    assert_int_equal(imported(false)->inputs.n, 1);
}

/* ---- errors ---- */
static void all_unknown_operators_are_listed(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "n");
    node("Frobnicate", "x", "a");
    node("Frobnicate", "a", "b");
    node("Twist", "b", "y")->domain = "com.example";
    gives(model->graph, "y");
    const char *text = error_of_import();
    assert_says(text, "Frobnicate: 2 nodes, first \"a\" (Frobnicate, node 0)");
    assert_says(text, "com.example:Twist: 1 node,");
}

static void errors_name_node_and_types(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "batch,=3");
    takes("y", ONNX_FLOAT, "=4");
    node("Add", "x,y", "z");
    gives(model->graph, "z");
    const char *text = error_of_import();
    assert_says(text, "\"z\" (Add, node 0): shapes [batch, 3] and [4] do not broadcast");
}

static void element_types_are_checked(void **state)
{
    (void)state;
    takes("x", ONNX_INT64, "n");
    node("Tanh", "x", "y");
    gives(model->graph, "y");
    assert_says(error_of_import(), "Tanh takes float; its first input \"x\" is i64[n]");
}

static void shapes_from_data_are_refused(void **state)
{
    (void)state;
    takes("x", ONNX_FLOAT, "n");
    takes("s", ONNX_INT64, "=2");
    node("Reshape", "x,s", "y");
    gives(model->graph, "y");
    assert_says(error_of_import(), "the target shape (input 1, \"s\", i64[2]) is computed from data");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(shape_arithmetic_vanishes),
        TEST(minus_one_of_expand_is_seen),
        TEST(float_sizes_are_followed),
        TEST(steps_of_short_sides_are_followed),
        TEST(quotients_below_zero_are_followed),
        TEST(sides_of_squares_are_followed),
        TEST(slices_count_from_both_ends),
        TEST(tables_bound_sizes),
        TEST(dim_names_may_be_odd),
        TEST(old_softmax_joins_axes),
        TEST(dropout_acts_only_where_exported_so),
        TEST(repeated_rows_are_not_looked_into),
        TEST(columns_may_have_tables_of_their_own),
        TEST(sizes_written_into_the_model_are_told),
        TEST(unused_tables_make_no_weights),
        TEST(all_unknown_operators_are_listed),
        TEST(errors_name_node_and_types),
        TEST(element_types_are_checked),
        TEST(shapes_from_data_are_refused),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
