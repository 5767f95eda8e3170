/* For tests of the importer: a model built in memory, node by node, and what is made of it.  Include it after the headers of cmocka. */
#ifndef BUILT_H
#define BUILT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "onnx/terms.h"
#include "passes/passes.h"

static Arena *arena;
static Symbols *symbols;
static OnnxModel *model;
static ImportReport report;

static inline OnnxGraph *graph_of_nothing(void)
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

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* "a,b,,c" */
static inline const char **names_of(const char *text, int *n)
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

static inline OnnxNode *node_in(OnnxGraph *g, const char *op, const char *inputs, const char *outputs)
{
    OnnxNode *n = NEW(arena, OnnxNode);
    *n = (OnnxNode){.name = "", .op_type = op, .domain = "", .overload = "", .opset = model->opset, .index = g->n_nodes};
    n->inputs = names_of(inputs, &n->n_inputs);
    n->outputs = names_of(outputs, &n->n_outputs);
    n->attributes = NEW_ARRAY(arena, OnnxAttribute, 8);
    g->nodes[g->n_nodes++] = n;
    return n;
}

static inline OnnxNode *node(const char *op, const char *inputs, const char *outputs)
{
    return node_in(model->graph, op, inputs, outputs);
}

static inline OnnxAttribute *attribute(OnnxNode *n, const char *name, OnnxAttributeType type)
{
    OnnxAttribute *a = &n->attributes[n->n_attributes++];
    *a = (OnnxAttribute){.name = name, .type = type};
    return a;
}

static inline void with_int(OnnxNode *n, const char *name, int64_t value)
{
    attribute(n, name, ONNX_ATTR_INT)->i = value;
}

static inline void with_graph(OnnxNode *n, const char *name, OnnxGraph *g)
{
    attribute(n, name, ONNX_ATTR_GRAPH)->g = g;
}

static inline OnnxTensor *tensor_new(const char *name, OnnxType type, int rank, int64_t n, const void *data)
{
    OnnxTensor *t = NEW(arena, OnnxTensor);
    *t = (OnnxTensor){.name = name, .type = type, .rank = rank, .count = n, .data = data};
    t->dims = NEW_ARRAY(arena, int64_t, 4);
    t->dims[0] = n;
    t->bytes = (size_t)(n * onnx_type_bytes(type));
    return t;
}

static inline void initializer_in(OnnxGraph *g, OnnxTensor *t)
{
    g->initializers[g->n_initializers++] = t;
    map_set(g->initializer_of, t->name, t);
}

/* A vector (rank 1) or, with rank 0, a scalar. */
static inline void integers(const char *name, int rank, int n, const int64_t *values)
{
    int64_t *copy = NEW_ARRAY(arena, int64_t, n + 1);
    memcpy(copy, values, sizeof *copy * (size_t)n);
    initializer_in(model->graph, tensor_new(name, ONNX_INT64, rank, n, copy));
}
#define INTEGERS(name, ...) integers(name, 1, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define INTEGER(name, value) integers(name, 0, 1, (int64_t[]){value})

static inline OnnxTensor *floats(const char *name, int rank, int64_t a, int64_t b)
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
static inline OnnxValueInfo *info(OnnxValueInfo *at, const char *name, OnnxType type, const char *dims)
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

static inline void takes(const char *name, OnnxType type, const char *dims)
{
    info(&model->graph->inputs[model->graph->n_inputs++], name, type, dims);
}

static inline void gives(OnnxGraph *g, const char *name)
{
    info(&g->outputs[g->n_outputs++], name, ONNX_FLOAT, "");
}

static inline void captures(OnnxGraph *g, const char *name)
{
    g->captures[g->n_captures++] = (OnnxCapture){.name = name};
}

static inline Graph *imported(bool training)
{
    ImportOptions options = {.training = training};
    Graph *g = import_model(arena, symbols, model, &options, map_new(arena), &report);
    graph_verify(g, "import");
    return g;
}

static inline const char *text_of(const Graph *g)
{
    Buf b = {.arena = arena};
    graph_print(&b, g);
    return buf_text(&b);
}

static inline const char *output_type(const Graph *g, int i)
{
    Import im = {.arena = arena};
    return type_text(&im, g->outputs.at[i]);
}

static inline int ops_of(const Graph *g, OpKind kind)
{
    int n = 0;
    for (int i = 0; i < g->ops.n; i++) n += g->ops.at[i]->kind == kind;
    return n;
}

/* What the import says before it ends with status 2. */
static inline const char *error_of_import(void)
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

static inline void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("wanted \"%s\" in:\n%s", part, text);
}
#endif
