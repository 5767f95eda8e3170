/* The importer: shapes that vanish, facts that a model states, control flow, and what is said to the user.  Models are built here
 * in memory, node by node. */
#include "onnx/terms.h"
#include "passes/passes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- building a model ---- */
static Arena *arena;
static Symbols *symbols;
static OnnxModel *model;
static ImportReport report;

static OnnxGraph *graph_of_nothing(void)
{
    OnnxGraph *g = NEW(arena, OnnxGraph);
    g->name = "";
    g->nodes = NEW_ARRAY(arena, OnnxNode *, 64);
    g->initializers = NEW_ARRAY(arena, OnnxTensor *, 64);
    g->inputs = NEW_ARRAY(arena, OnnxValueInfo, 16);
    g->outputs = NEW_ARRAY(arena, OnnxValueInfo, 16);
    g->captures = NEW_ARRAY(arena, OnnxCapture, 16);
    g->initializer_of = map_new(arena);
    return g;
}

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    symbols = symbols_new(arena);
    model = NEW(arena, OnnxModel);
    *model = (OnnxModel){
        .path = "test.onnx", .arena = arena, .ir_version = 10, .producer = "", .opset = 18, .graph = graph_of_nothing()};
    report = (ImportReport){.arena = arena};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* "a,b,,c" */
static const char **names_of(const char *text, int *n)
{
    const char **names = NEW_ARRAY(arena, const char *, 16);
    *n = 0;
    if (!*text) return names;
    for (;;) {
        size_t length = strcspn(text, ",");
        names[(*n)++] = arena_copy(arena, text, length);
        if (!text[length]) return names;
        text += length + 1;
    }
}

static OnnxNode *node_in(OnnxGraph *g, const char *op, const char *inputs, const char *outputs)
{
    OnnxNode *n = NEW(arena, OnnxNode);
    *n = (OnnxNode){.name = "", .op_type = op, .domain = "", .overload = "", .opset = model->opset, .index = g->n_nodes};
    n->inputs = names_of(inputs, &n->n_inputs);
    n->outputs = names_of(outputs, &n->n_outputs);
    n->attributes = NEW_ARRAY(arena, OnnxAttribute, 8);
    g->nodes[g->n_nodes++] = n;
    return n;
}

static OnnxNode *node(const char *op, const char *inputs, const char *outputs)
{
    return node_in(model->graph, op, inputs, outputs);
}

static OnnxAttribute *attribute(OnnxNode *n, const char *name, OnnxAttributeType type)
{
    OnnxAttribute *a = &n->attributes[n->n_attributes++];
    *a = (OnnxAttribute){.name = name, .type = type};
    return a;
}

static void with_int(OnnxNode *n, const char *name, int64_t value)
{
    attribute(n, name, ONNX_ATTR_INT)->i = value;
}

static void with_graph(OnnxNode *n, const char *name, OnnxGraph *g)
{
    attribute(n, name, ONNX_ATTR_GRAPH)->g = g;
}

static OnnxTensor *tensor_new(const char *name, OnnxType type, int rank, int64_t n, const void *data)
{
    OnnxTensor *t = NEW(arena, OnnxTensor);
    *t = (OnnxTensor){.name = name, .type = type, .rank = rank, .count = n, .data = data};
    t->dims = NEW_ARRAY(arena, int64_t, 4);
    t->dims[0] = n;
    t->bytes = (size_t)(n * onnx_type_bytes(type));
    return t;
}

static void initializer_in(OnnxGraph *g, OnnxTensor *t)
{
    g->initializers[g->n_initializers++] = t;
    map_set(g->initializer_of, t->name, t);
}

/* A vector (rank 1) or, with rank 0, a scalar. */
static void integers(const char *name, int rank, int n, const int64_t *values)
{
    int64_t *copy = NEW_ARRAY(arena, int64_t, n + 1);
    memcpy(copy, values, sizeof *copy * (size_t)n);
    initializer_in(model->graph, tensor_new(name, ONNX_INT64, rank, n, copy));
}
#define INTEGERS(name, ...) integers(name, 1, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define INTEGER(name, value) integers(name, 0, 1, (int64_t[]){value})

static OnnxTensor *floats(const char *name, int rank, int64_t a, int64_t b)
{
    OnnxTensor *t = tensor_new(name, ONNX_FLOAT, rank, rank ? rank == 2 ? a * b : a : 1, NULL);
    float *data = NEW_ARRAY(arena, float, t->count);
    for (int64_t i = 0; i < t->count; i++) data[i] = (float)i * 0.5f;
    t->data = data;
    t->dims[0] = a;
    t->dims[1] = b;
    initializer_in(model->graph, t);
    return t;
}

/* dims: "batch,3,seq" */
static OnnxValueInfo *info(OnnxValueInfo *at, const char *name, OnnxType type, const char *dims)
{
    *at = (OnnxValueInfo){.name = name, .kind = ONNX_IS_TENSOR, .elem_type = type, .has_shape = true};
    const char **d = names_of(dims, &at->rank);
    at->dims = NEW_ARRAY(arena, OnnxDim, at->rank + 1);
    for (int i = 0; i < at->rank; i++) {
        bool number_ = d[i][0] == '=';
        at->dims[i] = (OnnxDim){.known = number_, .value = number_ ? atoi(d[i] + 1) : 0, .param = number_ ? "" : d[i]};
    }
    return at;
}

static void takes(const char *name, OnnxType type, const char *dims)
{
    info(&model->graph->inputs[model->graph->n_inputs++], name, type, dims);
}

static void gives(OnnxGraph *g, const char *name)
{
    info(&g->outputs[g->n_outputs++], name, ONNX_FLOAT, "");
}

static void captures(OnnxGraph *g, const char *name)
{
    g->captures[g->n_captures++] = (OnnxCapture){.name = name};
}

static Graph *imported(bool training)
{
    ImportOptions options = {.training = training};
    Graph *g = import_model(arena, symbols, model, &options, map_new(arena), &report);
    graph_verify(g, "import");
    return g;
}

static const char *text_of(const Graph *g)
{
    Buf b = {.arena = arena};
    graph_print(&b, g);
    return buf_text(&b);
}

static const char *output_type(const Graph *g, int i)
{
    Import im = {.arena = arena};
    return type_text(&im, g->outputs.at[i]);
}

static int ops_of(const Graph *g, OpKind kind)
{
    int n = 0;
    for (int i = 0; i < g->ops.n; i++) n += g->ops.at[i]->kind == kind;
    return n;
}

/* What the import says before it ends with status 2. */
static const char *error_of_import(void)
{
    int pipes[2];
    char *text = NEW_ARRAY(arena, char, 8192);
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        imported(false);
        _exit(0);
    }
    close(pipes[1]);
    size_t at = 0;
    ssize_t got;
    while (at < 8191 && (got = read(pipes[0], text + at, 8191 - at)) > 0) at += (size_t)got;
    close(pipes[0]);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
    return text;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("wanted \"%s\" in:\n%s", part, text);
}

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

/* ---- control flow ---- */
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

/* ---- weights ---- */
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
        TEST(slices_count_from_both_ends),
        TEST(tables_bound_sizes),
        TEST(dim_names_may_be_odd),
        TEST(old_softmax_joins_axes),
        TEST(dropout_acts_only_where_exported_so),
        TEST(repeated_rows_are_not_looked_into),
        TEST(columns_may_have_tables_of_their_own),
        TEST(known_condition_leaves_one_branch),
        TEST(open_condition_gives_both_branches_the_same_captures),
        TEST(short_loops_are_unrolled),
        TEST(loops_of_symbolic_length_are_scans),
        TEST(loops_that_count_themselves_are_scans),
        TEST(sizes_written_into_the_model_are_told),
        TEST(slices_move_with_the_step),
        TEST(counts_by_other_steps_end_by_their_condition),
        TEST(branches_may_use_one_name_twice),
        TEST(unused_tables_make_no_weights),
        TEST(all_unknown_operators_are_listed),
        TEST(errors_name_node_and_types),
        TEST(element_types_are_checked),
        TEST(shapes_from_data_are_refused),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
