/* The text of model.h, line by line. */
#define _POSIX_C_SOURCE 200809L /* fork, pipe */
#include "test/support/model.h"
#include "support/diag.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 64, WORDS = 24 };
typedef struct Maker {
    Arena *arena;
    OnnxModel *model;
    OnnxGraph *graphs[8]; /* the one being filled is the last */
    OnnxNode *ifs[8];
    int depth;
    OnnxNode *last;
    uint64_t state;
} Maker;

static OnnxGraph *empty_graph(Arena *arena)
{
    OnnxGraph *g = NEW(arena, OnnxGraph);
    g->name = "";
    g->nodes = NEW_ARRAY(arena, OnnxNode *, ROOM);
    g->initializers = NEW_ARRAY(arena, OnnxTensor *, ROOM);
    g->inputs = NEW_ARRAY(arena, OnnxValueInfo, ROOM);
    g->outputs = NEW_ARRAY(arena, OnnxValueInfo, ROOM);
    g->initializer_of = map_new(arena);
    return g;
}

static OnnxType type_named(const char *name)
{
    return !strcmp(name, "i64") ? ONNX_INT64 : !strcmp(name, "u8") ? ONNX_UINT8 : !strcmp(name, "bool") ? ONNX_BOOL : ONNX_FLOAT;
}

/* ---- tensors ---- */
static OnnxTensor *find_tensor(const Maker *m, const char *name)
{
    OnnxTensor *t = graph_initializer(m->model->graph, name);
    check(t);
    return t;
}

/* part:FIRST:STRIDE:STRIDE=NAME: element i of t */
static float part_of(const OnnxTensor *whole, const OnnxTensor *t, int64_t i, const char *kind)
{
    char *at = NULL;
    int64_t from = strtoll(kind + 5, &at, 10), inside = t->count;
    for (int k = 0; k < t->rank; k++) {
        inside /= t->dims[k];
        from += i / inside % t->dims[k] * strtoll(at + 1, &at, 10);
    }
    check(*at == '=' && from < whole->count);
    return ((const float *)whole->data)[from];
}

static void fill(Maker *m, OnnxTensor *t, const char *kind)
{
    float *x = NEW_ARRAY(m->arena, float, t->count + 1);
    const int64_t width = t->rank ? t->dims[t->rank - 1] : 1;
    const OnnxTensor *other = strchr(kind, '=') > kind ? find_tensor(m, strchr(kind, '=') + 1) : NULL;
    t->data = x, t->bytes = 4 * (size_t)t->count;
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t row = i / width, column = i % width;
        m->state = m->state * 6364136223846793005u + 1442695040888963407u;
        if (kind[0] == '=')
            x[i] = strtof(kind + 1, NULL);
        else if (!strcmp(kind, "sines"))
            x[i] = (float)(column % 2 ? cos : sin)((double)row / (1 + (double)(column / 2)));
        else if (!strcmp(kind, "mask"))
            x[i] = (row + column) % 2 ? -100 : 0;
        else if (!strcmp(kind, "rising"))
            x[i] = (float)(i + 1) / (float)t->count;
        else if (!strcmp(kind, "padded") && row == 0)
            x[i] = 0;
        else if (!strcmp(kind, "filters"))
            x[i] = (i % 5) == 0 ? 0.5f + (float)i : 0;
        else if (!strncmp(kind, "part:", 5))
            x[i] = part_of(other, t, i, kind);
        else if (!strncmp(kind, "like=", 5))
            x[i] = ((const float *)other->data)[i];
        else if (!strncmp(kind, "turned=", 7))
            x[i] = ((const float *)other->data)[column * (t->count / width) + row];
        else
            x[i] = (float)(m->state >> 40) / (1 << 23) - 1;
    }
    if (!strcmp(kind, "missing")) t->data = NULL, t->missing = true, t->location = "weights.bin";
}

static OnnxTensor *make_tensor(Maker *m, const char *name, const char *dims, const char *kind)
{
    OnnxTensor *t = NEW(m->arena, OnnxTensor);
    t->name = name, t->type = ONNX_FLOAT, t->count = 1;
    t->dims = NEW_ARRAY(m->arena, int64_t, 8);
    for (const char *at = dims; *at && strcmp(dims, "()"); at = at[strcspn(at, ",")] ? strchr(at, ',') + 1 : "") {
        t->dims[t->rank] = atoll(at);
        t->count *= t->dims[t->rank++];
    }
    fill(m, t, kind);
    return t;
}

/* ---- nodes ---- */
static OnnxNode *add_node(Maker *m, const char *op, const char *name)
{
    OnnxGraph *g = m->graphs[m->depth];
    OnnxNode *node = NEW(m->arena, OnnxNode);
    node->op_type = op, node->name = name, node->domain = node->overload = "", node->opset = m->model->opset,
    node->index = g->n_nodes;
    node->inputs = NEW_ARRAY(m->arena, const char *, WORDS), node->outputs = NEW_ARRAY(m->arena, const char *, WORDS);
    node->attributes = NEW_ARRAY(m->arena, OnnxAttribute, WORDS);
    check(g->n_nodes < ROOM);
    g->nodes[g->n_nodes++] = node;
    return m->last = node;
}

static OnnxAttribute *add_attribute(OnnxNode *node, const char *name, OnnxAttributeType type)
{
    OnnxAttribute *a = &node->attributes[node->n_attributes++];
    a->name = name, a->type = type;
    return a;
}

static void take_node(Maker *m, char **word, int n)
{
    OnnxNode *node = add_node(m, !strcmp(word[0], "if") ? "If" : word[0], word[1]);
    word[1][strlen(word[1]) - 1] = 0; /* the colon */
    bool results = false;
    for (int i = 2; i < n; i++) {
        char *equals = results && strlen(word[i]) > 2 ? strchr(word[i], '=') : NULL;
        if (!strcmp(word[i], "->")) {
            results = true;
        } else if (equals) {
            *equals = 0;
            const bool real = strchr(equals + 1, '.');
            OnnxAttribute *a = add_attribute(node, word[i], real ? ONNX_ATTR_FLOAT : ONNX_ATTR_INT);
            a->f = strtod(equals + 1, NULL), a->i = atoll(equals + 1);
        } else if (results) {
            node->outputs[node->n_outputs++] = strcmp(word[i], "-") ? word[i] : "";
        } else {
            node->inputs[node->n_inputs++] = strcmp(word[i], "-") ? word[i] : "";
        }
    }
    if (!strcmp(word[0], "if")) m->ifs[m->depth] = node;
}

/* The branch gives its last value. */
static void end_branch(Maker *m)
{
    OnnxGraph *g = m->graphs[m->depth--];
    g->outputs[g->n_outputs++] = (OnnxValueInfo){.name = g->nodes[g->n_nodes - 1]->outputs[0]};
}

static void begin_branch(Maker *m, const char *name)
{
    if (!strcmp(name, "else_branch")) end_branch(m);
    OnnxGraph *g = empty_graph(m->arena);
    add_attribute(m->ifs[m->depth], name, ONNX_ATTR_GRAPH)->g = g;
    m->graphs[++m->depth] = g;
}

/* ---- lines ---- */
static void take_input(Maker *m, char **word)
{
    OnnxGraph *g = m->graphs[0];
    OnnxValueInfo *in = &g->inputs[g->n_inputs++];
    *in = (OnnxValueInfo){.name = word[1], .kind = ONNX_IS_TENSOR, .elem_type = type_named(word[2]), .has_shape = true};
    in->dims = NEW_ARRAY(m->arena, OnnxDim, 8);
    for (char *at = word[3]; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const char *dim = arena_copy(m->arena, at, strcspn(at, ","));
        const bool known = !dim[strspn(dim, "0123456789")];
        in->dims[in->rank++] = (OnnxDim){known, known ? atoll(dim) : 0, known || !strcmp(dim, "?") ? "" : dim};
    }
}

static void take_tensor(Maker *m, char **word)
{
    OnnxGraph *g = m->graphs[m->depth];
    OnnxTensor *t = make_tensor(m, word[1], word[2], word[3]);
    if (!strcmp(word[0], "const")) {
        OnnxNode *node = add_node(m, "Constant", "");
        node->outputs[node->n_outputs++] = word[1];
        add_attribute(node, "value", ONNX_ATTR_TENSOR)->t = t;
        t->name = "";
        return;
    }
    g->initializers[g->n_initializers++] = t;
    map_set(g->initializer_of, t->name, t);
}

static void take_metadata(Maker *m, const char *line)
{
    const char *equals = strchr(line, '=');
    OnnxMetadata *list = NEW_ARRAY(m->arena, OnnxMetadata, m->last->n_metadata + 1);
    for (int i = 0; i < m->last->n_metadata; i++) list[i] = m->last->metadata[i];
    list[m->last->n_metadata++] = (OnnxMetadata){arena_copy(m->arena, line + 5, (size_t)(equals - line - 5)), equals + 1};
    m->last->metadata = list;
}

static void take_line(Maker *m, char *line)
{
    char *word[WORDS] = {0}, *rest = NULL;
    int n = 0;
    if (!strncmp(line, "meta ", 5)) {
        take_metadata(m, line);
        return;
    }
    if (!strncmp(line, "producer ", 9)) {
        m->model->producer = line + 9;
        return;
    }
    for (char *at = strtok_r(line, " ", &rest); at && n < WORDS; at = strtok_r(NULL, " ", &rest)) word[n++] = at;
    if (!n) return;
    if (!strcmp(word[0], "in"))
        take_input(m, word);
    else if (!strcmp(word[0], "w") || !strcmp(word[0], "const"))
        take_tensor(m, word);
    else if (!strcmp(word[0], "out"))
        m->graphs[0]->outputs[m->graphs[0]->n_outputs++] = (OnnxValueInfo){.name = word[1]};
    else if (!strcmp(word[0], "opset"))
        m->model->opset = atoi(word[1]);
    else if (!strcmp(word[0], "then"))
        begin_branch(m, "then_branch");
    else if (!strcmp(word[0], "else"))
        begin_branch(m, "else_branch");
    else if (!strcmp(word[0], "end"))
        end_branch(m);
    else
        take_node(m, word, n);
}

OnnxModel *model_from_text(Arena *arena, const char *text)
{
    Maker m = {.arena = arena, .model = NEW(arena, OnnxModel), .state = 3};
    m.model->path = "test.onnx", m.model->arena = arena, m.model->opset = 18, m.model->producer = "";
    m.model->graph = m.graphs[0] = empty_graph(arena);
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, "\n");
        take_line(&m, arena_copy(arena, at, n));
        at += n + (at[n] == '\n');
    }
    return m.model;
}

/* ---- what is said ---- */
const char *said_by(Arena *arena, void (*run)(void *with), void *with, int *status)
{
    enum { MOST = 65536 };
    int pipes[2], how;
    char *text = NEW_ARRAY(arena, char, MOST);
    check(pipe(pipes) == 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        close(pipes[0]);
        run(with);
        fflush(NULL);
        _exit(0);
    }
    close(pipes[1]);
    size_t at = 0;
    for (ssize_t got; at < MOST - 1 && (got = read(pipes[0], text + at, MOST - 1 - at)) > 0;) at += (size_t)got;
    close(pipes[0]);
    waitpid(child, &how, 0);
    *status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    return text;
}
