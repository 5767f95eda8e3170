/* The ONNX reader: files that must be refused with exact messages, and what comes of those that may be read. */
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../error/bad_models.h"
#include <ftw.h>
#include <sys/wait.h>

static Arena *arena; /* of the test that runs */

static int begin(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static int end(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static OnnxModel *read_model(const Onnx__ModelProto *proto)
{
    Packed packed = pack_model(arena, proto);
    return onnx_read_memory(arena, "m.onnx", packed.bytes, packed.size, false);
}

/* ---- refusals: in a child, whose standard error and exit status are looked at ---- */

static const char *errors_of(void (*act)(const void *what), const void *what, int *status)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        act(what);
        _exit(0);
    }
    close(ends[1]);
    Buf out = {.arena = arena};
    char bytes[4096];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;) buf_write(&out, bytes, (size_t)n);
    close(ends[0]);
    int wait_status;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    *status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    return buf_text(&out);
}

static void read_path(const void *path)
{
    onnx_read(arena, path, false);
}

static void read_proto(const void *proto)
{
    read_model(proto);
}

static void assert_refused(const Onnx__ModelProto *proto, const char *message)
{
    int status;
    const char *errors = errors_of(read_proto, proto, &status);
    assert_string_equal(errors, arena_text(arena, "disc-gen: error: m.onnx: %s\n", message));
    assert_int_equal(status, 2);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void bad_models_are_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/bad_models_XXXXXX";
    assert_non_null(mkdtemp(folder));
    write_bad_models(arena, folder);
    for (int i = 0; i < N_BAD_MODELS; i++) {
        int status;
        const char *errors = errors_of(read_path, arena_text(arena, "%s/%s", folder, bad_models[i].file), &status);
        assert_string_equal(errors, bad_model_errors(arena, folder, i));
        assert_int_equal(status, 2);
    }
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    Packed good = pack_model(arena, make_good_model(arena));
    const char *path = "/tmp";
    int status;
    assert_string_equal(errors_of(read_path, path, &status), "disc-gen: error: /tmp: is a folder; give the .onnx file in it\n");
    for (size_t n = 0; n < good.size; n++) {
        Packed cut = {good.bytes, n};
        char file[] = "/tmp/cut_XXXXXX";
        int fd = mkstemp(file);
        assert_int_equal(write(fd, cut.bytes, cut.size), (ssize_t)n);
        close(fd);
        errors_of(read_path, file, &status);
        unlink(file);
        assert_int_equal(status, 2);
    }
}

/* ---- external data ---- */

static void external_data_is_mapped(void **state)
{
    (void)state;
    char folder[] = "/tmp/external_XXXXXX";
    assert_non_null(mkdtemp(folder));
    const float values[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    make_folder(arena_text(arena, "%s/data", folder));
    write_file(arena_text(arena, "%s/data/w.bin", folder), values, sizeof values);
    Packed model = external(arena, "./data/w.bin", "16");
    write_file(arena_text(arena, "%s/m.onnx", folder), model.bytes, model.size);
    const OnnxTensor *w = onnx_read(arena, arena_text(arena, "%s/m.onnx", folder), false)->graph->initializers[0];
    assert_memory_equal(w->data, values + 4, 16);
    assert_string_equal(w->location, "./data/w.bin");
    assert_false(w->missing);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void missing_data_may_be_allowed(void **state)
{
    (void)state;
    Packed model = external(arena, "nowhere/w.bin", "0");
    const OnnxTensor *w = onnx_read_memory(arena, "m.onnx", model.bytes, model.size, true)->graph->initializers[0];
    assert_true(w->missing);
    assert_null(w->data);
    assert_int_equal(w->count, 4);
    assert_string_equal(w->location, "nowhere/w.bin");
}

/* ---- tensors ---- */

static Onnx__TensorProto *vector(OnnxType type, int64_t n)
{
    return make_tensor(arena, "t", type, 1, &n);
}

static const OnnxTensor *read_back(Onnx__TensorProto *tensor)
{
    Onnx__ModelProto *model = make_good_model(arena);
    APPEND(arena, model->graph, initializer, tensor);
    return read_model(model)->graph->initializers[1];
}

static void small_elements_are_unpacked(void **state)
{
    (void)state;
    Onnx__TensorProto *raw = vector(ONNX_INT4, 3);
    set_raw(arena, raw, "\x2f\x08", 2);
    const OnnxTensor *t = read_back(raw);
    assert_memory_equal(t->data, ((const int8_t[]){-1, 2, -8}), 3);
    assert_int_equal(t->bytes, 3);

    raw = vector(ONNX_UINT2, 5);
    set_raw(arena, raw, "\xe4\x03", 2);
    assert_memory_equal(read_back(raw)->data, ((const uint8_t[]){0, 1, 2, 3, 3}), 5);

    raw = vector(ONNX_INT2, 4);
    APPEND(arena, raw, int32_data, 0xe4);
    assert_memory_equal(read_back(raw)->data, ((const int8_t[]){0, 1, -2, -1}), 4);

    raw = vector(ONNX_FLOAT6E2M3, 4); /* 6 bits each, least first: 1, 2, 3, 63 */
    set_raw(arena, raw, "\x81\x30\xfc", 3);
    assert_memory_equal(read_back(raw)->data, ((const uint8_t[]){1, 2, 3, 63}), 4);
}

static void typed_lists_are_narrowed(void **state)
{
    (void)state;
    Onnx__TensorProto *half = vector(ONNX_FLOAT16, 2);
    APPEND(arena, half, int32_data, 0x3c00);
    APPEND(arena, half, int32_data, 0xc000);
    assert_memory_equal(read_back(half)->data, ((const uint16_t[]){0x3c00, 0xc000}), 4);

    Onnx__TensorProto *bytes = vector(ONNX_INT8, 2);
    APPEND(arena, bytes, int32_data, -128);
    APPEND(arena, bytes, int32_data, 127);
    assert_memory_equal(read_back(bytes)->data, ((const int8_t[]){-128, 127}), 2);

    Onnx__TensorProto *bits = vector(ONNX_BOOL, 2);
    APPEND(arena, bits, int32_data, 7);
    APPEND(arena, bits, int32_data, 0);
    assert_memory_equal(read_back(bits)->data, ((const uint8_t[]){1, 0}), 2);

    Onnx__TensorProto *words = vector(ONNX_UINT32, 1);
    APPEND(arena, words, uint64_data, 0xffffffff);
    assert_memory_equal(read_back(words)->data, ((const uint32_t[]){0xffffffff}), 4);
}

static void an_item_out_of_range_is_refused(void **state)
{
    (void)state;
    Onnx__ModelProto *model = make_good_model(arena);
    Onnx__TensorProto *t = vector(ONNX_INT8, 1);
    APPEND(arena, t, int32_data, 300);
    APPEND(arena, model->graph, initializer, t);
    assert_refused(model, "tensor \"t\": item 0 of int32_data is 300, which no int8 can hold; export the model again");
}

static void empty_tensors_and_strings(void **state)
{
    (void)state;
    const OnnxTensor *empty = read_back(vector(ONNX_FLOAT, 0));
    assert_int_equal(empty->count, 0);
    assert_non_null(empty->data);

    Onnx__TensorProto *strings = vector(ONNX_STRING, 2);
    APPEND(arena, strings, string_data, ((ProtobufCBinaryData){3, (uint8_t *)make_text(arena, "one")}));
    APPEND(arena, strings, string_data, ((ProtobufCBinaryData){0, NULL}));
    const OnnxTensor *t = read_back(strings);
    assert_string_equal(t->strings[0], "one");
    assert_string_equal(t->strings[1], "");
    assert_int_equal(t->string_sizes[0], 3);
}

static Onnx__SparseTensorProto *add_sparse(Onnx__ModelProto *model, int64_t row, int64_t column)
{
    Onnx__SparseTensorProto *sparse = MAKE(arena, Onnx__SparseTensorProto, ONNX__SPARSE_TENSOR_PROTO__INIT);
    sparse->values = make_tensor(arena, "s", ONNX_FLOAT, 1, (const int64_t[]){1});
    APPEND(arena, sparse->values, float_data, 5.0f);
    sparse->indices = make_tensor(arena, "", ONNX_INT64, 2, (const int64_t[]){1, 2});
    APPEND(arena, sparse->indices, int64_data, row);
    APPEND(arena, sparse->indices, int64_data, column);
    APPEND(arena, sparse, dims, 2);
    APPEND(arena, sparse, dims, 3);
    APPEND(arena, model->graph, sparse_initializer, sparse);
    return sparse;
}

static void sparse_tensors_become_dense(void **state)
{
    (void)state;
    Onnx__ModelProto *model = make_good_model(arena);
    add_sparse(model, 1, 0);
    const OnnxTensor *t = graph_initializer(read_model(model)->graph, "s");
    assert_int_equal(t->rank, 2);
    assert_memory_equal(t->data, ((const float[]){0, 0, 0, 5, 0, 0}), 24);

    model = make_good_model(arena);
    add_sparse(model, 1, 3);
    assert_refused(model, "tensor \"s\": index 0 of the sparse tensor lies outside its shape, float[2, 3]; the file is damaged");
}

/* ---- graphs ---- */

static void nodes_are_sorted(void **state)
{
    (void)state;
    Onnx__ModelProto *model = make_model(arena, 18);
    add_input(arena, model->graph, "x");
    add_output(arena, model->graph, "y");
    Onnx__GraphProto *body = make_graph(arena, "body"); /* takes "late" from around it */
    add_node(arena, body, "Neg", "/neg", "late", "b");
    add_output(arena, body, "b");
    Onnx__NodeProto *branch = add_node(arena, model->graph, "If", "/if", "x", "y");
    add_graph_attribute(arena, branch, "then_branch", body);
    add_graph_attribute(arena, branch, "else_branch", body);
    add_node(arena, model->graph, "Exp", "/exp", "early", "late");
    add_node(arena, model->graph, "Relu", "/relu", "x", "early");

    const OnnxGraph *graph = read_model(model)->graph;
    assert_string_equal(graph->nodes[0]->name, "/relu");
    assert_string_equal(graph->nodes[1]->name, "/exp");
    assert_string_equal(graph->nodes[2]->name, "/if");
    assert_int_equal(graph->nodes[2]->index, 0);
    const OnnxGraph *then_branch = attr_graph(graph->nodes[2], "then_branch");
    assert_int_equal(then_branch->n_captures, 1);
    assert_string_equal(then_branch->captures[0].name, "late");
    assert_string_equal(then_branch->captures[0].user->name, "/neg");
}

static void long_chains_are_sorted(void **state)
{
    (void)state;
    enum { N = 3000 };
    Onnx__ModelProto *model = make_model(arena, 18);
    add_input(arena, model->graph, "v0");
    add_output(arena, model->graph, arena_text(arena, "v%d", N));
    for (int i = N; i > 0; i--)
        add_node(arena, model->graph, "Relu", "", arena_text(arena, "v%d", i - 1), arena_text(arena, "v%d", i));
    const OnnxGraph *graph = read_model(model)->graph;
    assert_int_equal(graph->n_nodes, N);
    for (int i = 0; i < N; i++) assert_int_equal(graph->nodes[i]->index, N - 1 - i);
    assert_string_equal(node_label(arena, graph->nodes[0]), "\"v1\" (Relu, node 2999)");
}

static void dims_and_flags(void **state)
{
    (void)state;
    Onnx__ModelProto *model = make_good_model(arena);
    add_input(arena, model->graph, "w");
    APPEND(arena, model, opset_import, make_opset(arena, "ai.onnx", 18));
    APPEND(arena, model, opset_import, make_opset(arena, "com.microsoft", 1));
    Onnx__TensorShapeProto *shape = model->graph->input[0]->type->tensor_type->shape;
    shape->dim[1]->dim_value = -1;
    const OnnxModel *read = read_model(model);
    assert_int_equal(read->opset, 18);
    assert_int_equal(read->n_opsets, 2);
    const OnnxValueInfo *x = &read->graph->inputs[0];
    assert_int_equal(x->kind, ONNX_IS_TENSOR);
    assert_int_equal(x->elem_type, ONNX_FLOAT);
    assert_string_equal(x->dims[0].param, "batch");
    assert_false(x->dims[1].known);
    assert_string_equal(x->dims[1].param, "");
    assert_false(x->is_initializer);
    assert_true(read->graph->inputs[1].is_initializer);
}

/* ---- functions ---- */

/* F<slope>(X) = LeakyRelu<alpha=slope>(X), X: the second output is an input passed on */
static Onnx__ModelProto *model_with_function(void)
{
    Onnx__ModelProto *model = make_model(arena, 18);
    add_input(arena, model->graph, "x");
    add_output(arena, model->graph, "y");
    Onnx__NodeProto *first = make_call(arena, "F", "/f", "x", "h same");
    Onnx__AttributeProto *slope = add_attribute(arena, first, "slope", ONNX_ATTR_FLOAT);
    slope->has_f = 1;
    slope->f = 0.5f;
    APPEND(arena, model->graph, node, first);
    APPEND(arena, model->graph, node, make_call(arena, "F", "", "h", "y"));
    Onnx__FunctionProto *f = add_function(arena, model, "F", "X", "Y X");
    APPEND(arena, f, opset_import, make_opset(arena, "", 16));
    APPEND(arena, f, attribute, make_text(arena, "slope"));
    Onnx__NodeProto *leaky = make_node(arena, "LeakyRelu", "leaky", "X", "t");
    add_attribute(arena, leaky, "alpha", ONNX_ATTR_FLOAT)->ref_attr_name = make_text(arena, "slope");
    APPEND(arena, f, node, leaky);
    APPEND(arena, f, node, make_node(arena, "Relu", "", "t", "Y"));
    return model;
}

static void functions_are_inlined(void **state)
{
    (void)state;
    const OnnxGraph *graph = read_model(model_with_function())->graph;
    assert_int_equal(graph->n_nodes, 5);
    const OnnxNode *leaky = graph->nodes[0];
    assert_string_equal(leaky->name, "/f/leaky");
    assert_string_equal(leaky->inputs[0], "x");
    assert_string_equal(leaky->outputs[0], "/f/t");
    assert_int_equal(leaky->opset, 16);
    assert_true(attr_float(leaky, "alpha", 0.01) == 0.5);
    assert_string_equal(graph->nodes[1]->outputs[0], "h");
    assert_string_equal(graph->nodes[2]->op_type, "Identity");
    assert_string_equal(graph->nodes[2]->outputs[0], "same");
    assert_string_equal(graph->nodes[3]->outputs[0], "F_1/t");
    assert_true(attr_float(graph->nodes[3], "alpha", 0.01) == 0.01); /* the call leaves it out */
    assert_string_equal(graph->nodes[4]->outputs[0], "y");
}

static void calls_that_explode_are_refused(void **state)
{
    (void)state;
    Onnx__ModelProto *model = make_model(arena, 18);
    add_input(arena, model->graph, "x");
    add_output(arena, model->graph, "y");
    APPEND(arena, model->graph, node, make_call(arena, "F0", "", "x", "y"));
    for (int i = 0; i < 30; i++) { /* each calls the next twice: 2^30 nodes */
        Onnx__FunctionProto *f = add_function(arena, model, arena_text(arena, "F%d", i), "X", "Y");
        APPEND(arena, f, node, make_call(arena, arena_text(arena, "F%d", i + 1), "", "X", "t"));
        APPEND(arena, f, node, make_call(arena, arena_text(arena, "F%d", i + 1), "", "t", "Y"));
    }
    add_function(arena, model, "F30", "X", "Y");
    assert_refused(model, "more than 500000 nodes once its functions are inlined; make the model smaller");
}

static void a_call_with_too_many_inputs_is_refused(void **state)
{
    (void)state;
    Onnx__ModelProto *model = model_with_function();
    APPEND(arena, model->graph, node, make_call(arena, "F", "/bad", "x y", "z"));
    assert_refused(
        model, "\"/bad\" (F, node 2): the function has 1 inputs and 2 outputs, and is called with 2 and 1; export the model again");
}

static void attributes_given_twice_are_refused(void **state)
{
    (void)state;
    Onnx__ModelProto *model = make_good_model(arena);
    add_attribute(arena, model->graph->node[0], "axis", ONNX_ATTR_FLOAT);
    add_attribute(arena, model->graph->node[0], "axis", ONNX_ATTR_INT);
    assert_refused(model, "attribute \"axis\" of \"/relu\" (Relu, node 0) is given twice; export the model again");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(bad_models_are_refused),
        TEST(every_cut_is_refused),
        TEST(external_data_is_mapped),
        TEST(missing_data_may_be_allowed),
        TEST(small_elements_are_unpacked),
        TEST(typed_lists_are_narrowed),
        TEST(an_item_out_of_range_is_refused),
        TEST(empty_tensors_and_strings),
        TEST(sparse_tensors_become_dense),
        TEST(nodes_are_sorted),
        TEST(long_chains_are_sorted),
        TEST(dims_and_flags),
        TEST(functions_are_inlined),
        TEST(calls_that_explode_are_refused),
        TEST(a_call_with_too_many_inputs_is_refused),
        TEST(attributes_given_twice_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
