/* Import, loss, gradient and the passes to primitives, without any emitted code: the training graph is evaluated by the interpreter
 * and compared with what PyTorch computed in float64.
 *
 *     interpret_golden FOLDER…     model.onnx, golden.json, golden.safetensors: step0.INPUT, step0.target, grad.WEIGHT
 *
 * What differs here is the generator's fault; what agrees here and not in the trainer is that of the emitted program. */
#include "onnx/import.h"
#include "passes/passes.h"
#include "support/diag.h"
#include "test/support/interpret.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LOSS_TOLERANCE = 1e-6, GRADIENT_TOLERANCE = 2e-6; /* the file holds floats */

/* ---- files ---- */
static Buf read_file(Arena *arena, const char *path)
{
    FILE *f = fopen(path, "rb");
    Buf text = {.arena = arena};
    char block[65536];
    if (!f) error_exit("cannot read %s", path);
    for (size_t n; (n = fread(block, 1, sizeof block, f));) buf_write(&text, block, n);
    fclose(f);
    return text;
}

typedef struct {
    cJSON *header;
    const char *data;
} Tensors;

static Tensors read_tensors(Arena *arena, const char *path)
{
    Buf file = read_file(arena, path);
    uint64_t n;
    memcpy(&n, file.text, sizeof n);
    return (Tensors){cJSON_ParseWithLength(file.text + 8, n), file.text + 8 + n};
}

static bool find_tensor(const Tensors *t, Arena *arena, const char *name, Array *a)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(t->header, name);
    if (!entry) return false;
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const char *type = cJSON_GetObjectItemCaseSensitive(entry, "dtype")->valuestring;
    const char *data = t->data + (size_t)cJSON_GetObjectItemCaseSensitive(entry, "data_offsets")->child->valuedouble;
    Dtype dtype = strcmp(type, "F32") == 0   ? DTYPE_f32
                  : strcmp(type, "I64") == 0 ? DTYPE_i64
                  : strcmp(type, "I32") == 0 ? DTYPE_i32
                                             : DTYPE_bool;
    int64_t dims[8];
    int rank = cJSON_GetArraySize(shape);
    for (int i = 0; i < rank; i++) dims[i] = (int64_t)cJSON_GetArrayItem(shape, i)->valuedouble;
    *a = array_new(arena, dtype, rank, dims);
    void *aligned = arena_alloc(arena, (size_t)(a->n * dtype_bytes(dtype)) + 1);
    memcpy(aligned, data, (size_t)(a->n * dtype_bytes(dtype)));
    for (int64_t i = 0; i < a->n; i++) a->at[i] = element_read(dtype, aligned, i);
    return true;
}

/* ---- the training graph ---- */
typedef struct {
    Arena *arena;
    Symbols *symbols;
    Graph *g;
    Value **gradients;
    cJSON *golden;
} Model;

static const char *frozen_expression(Arena *arena, const cJSON *golden)
{
    const cJSON *frozen = cJSON_GetObjectItemCaseSensitive(golden, "frozen"), *name;
    Buf text = {.arena = arena};
    if (!cJSON_GetArraySize(frozen)) return NULL;
    const char *bar = "^(";
    cJSON_ArrayForEach(name, frozen)
    {
        buf_put(&text, bar);
        for (const char *c = name->valuestring; *c; c++) buf_printf(&text, strchr(".[]()*+?{}^$|\\", *c) ? "\\%c" : "%c", *c);
        bar = "|";
    }
    buf_put(&text, ")$");
    return buf_text(&text);
}

static Model compile(const char *folder)
{
    Model m = {.arena = arena_new()};
    m.symbols = symbols_new(m.arena);
    m.golden = cJSON_Parse(read_file(m.arena, arena_text(m.arena, "%s/golden.json", folder)).text);
    Options options = {.loss = cJSON_GetObjectItemCaseSensitive(m.golden, "loss")->valuestring,
                       .optimizer = "sgd",
                       .freeze = frozen_expression(m.arena, m.golden),
                       .precision = "fp64",
                       .model = arena_text(m.arena, "%s/model.onnx", folder)};
    OnnxModel *model = onnx_read(m.arena, options.model, false);
    Map *tensors = map_new(m.arena);
    ImportReport report = {.arena = m.arena, .seen = map_new(m.arena)};
    pass_dims(m.symbols, model, &options, m.arena);
    pass_trainable(model, &options, m.arena, tensors);
    m.g = import_model(m.arena, m.symbols, model, &(ImportOptions){.training = true}, tensors, &report);
    pass_precision(m.g, &options);
    pass_fold(m.g);
    pass_loss(m.g, &options, true);
    m.gradients = pass_gradient(m.g);
    graph_verify(m.g, "gradient");
    return m;
}

/* The gradients become outputs behind the loss; passes keep outputs. */
static void to_primitives(Model *m)
{
    Graph *g = m->g;
    g->outputs.n = 1;
    g->output_names = NEW_ARRAY(m->arena, const char *, g->inputs.n + 1);
    g->output_names[0] = "loss";
    for (int i = 0; i < g->inputs.n; i++) {
        if (!m->gradients[i]) continue;
        g->output_names[g->outputs.n] = g->inputs.at[i]->name;
        vec_push(m->arena, &g->outputs, m->gradients[i]);
    }
    pass_decompose(g);
    pass_fold(g);
    pass_simplify(g);
    graph_verify(g, "simplify");
}

/* ---- step 0 ---- */
static void solve_dims(Model *m, const Value *v, const Array *a, int64_t *dims)
{
    for (int i = 0; i < v->rank; i++) {
        if (!expr_is_symbol(v->shape[i])) continue;
        dims[symbol_index(v->shape[i])] = a->dims[i];
        dims[symbol_index(expr_canonical(m->symbols, v->shape[i]))] = a->dims[i];
    }
}

static int64_t *bind(Model *m, const Tensors *golden, Array *inputs)
{
    int64_t *dims = dims_from_text(m->arena, m->symbols, "");
    for (int i = 0; i < m->g->inputs.n; i++) {
        const Value *v = m->g->inputs.at[i];
        if (v->origin != FROM_BATCH) continue;
        if (!find_tensor(golden, m->arena, arena_text(m->arena, "step0.%s", v->name), &inputs[i]))
            error_exit("no step0.%s", v->name);
        solve_dims(m, v, &inputs[i], dims);
    }
    for (int i = 0; i < symbols_count(m->symbols); i++) {
        Expr *symbol = symbols_at(m->symbols, i), *same = expr_canonical(m->symbols, symbol);
        if (same != symbol && !dims[i]) expr_evaluate(m->symbols, same, dims, &dims[i]);
    }
    for (int i = 0; i < m->g->inputs.n; i++) {
        const Value *v = m->g->inputs.at[i];
        if (!v->tensor) continue;
        inputs[i] = array_for(m->arena, m->g, v, dims);
        for (int64_t k = 0; k < inputs[i].n; k++) inputs[i].at[k] = element_read(v->tensor->dtype, v->tensor->data, k);
    }
    return dims;
}

/* Largest difference over the largest magnitude wanted. */
static double worst(const Array *wanted, const Array *found)
{
    double scale = 1e-3, most = 0;
    if (wanted->n != found->n) return INFINITY;
    for (int64_t i = 0; i < wanted->n; i++) scale = fmax(scale, fabs(wanted->at[i]));
    for (int64_t i = 0; i < wanted->n; i++) {
        double difference = fabs(wanted->at[i] - found->at[i]);
        if (!(difference <= most)) most = difference;
    }
    return most / scale;
}

static bool check_folder(const char *folder)
{
    Model m = compile(folder);
    to_primitives(&m);
    Tensors golden = read_tensors(m.arena, arena_text(m.arena, "%s/golden.safetensors", folder));
    Array *inputs = NEW_ARRAY(m.arena, Array, m.g->inputs.n + 1), *outputs = NEW_ARRAY(m.arena, Array, m.g->outputs.n + 1);
    int64_t *dims = bind(&m, &golden, inputs);
    interpret(m.arena, m.g, dims, inputs, outputs);
    const cJSON *sgd = cJSON_GetObjectItemCaseSensitive(m.golden, "sgd");
    double loss = cJSON_GetObjectItemCaseSensitive(sgd, "loss")->child->valuedouble, off = fabs(outputs[0].at[0] / loss - 1),
           most = 0;
    bool good = off <= LOSS_TOLERANCE;
    if (!good) printf("  loss %.9g, wanted %.9g\n", outputs[0].at[0], loss);
    Map *seen = map_new(m.arena);
    for (int i = 1; i < m.g->outputs.n; i++) {
        Array wanted;
        const char *name = arena_text(m.arena, "grad.%s", m.g->output_names[i]);
        map_set(seen, name, m.arena);
        if (!find_tensor(&golden, m.arena, name, &wanted)) {
            printf("  %s is not in the golden file\n", name);
            good = false;
            continue;
        }
        double difference = worst(&wanted, &outputs[i]);
        most = fmax(most, difference);
        if (!(difference <= GRADIENT_TOLERANCE)) printf("  %s off by %.2e\n", name, difference), good = false;
    }
    const cJSON *entry;
    cJSON_ArrayForEach(entry, golden.header)
    {
        if (strncmp(entry->string, "grad.", 5) != 0 || map_has(seen, entry->string)) continue;
        printf("  %s was not computed\n", entry->string);
        good = false;
    }
    printf("%s %s: %d operations, loss off by %.1e, gradients by %.1e\n", good ? "ok  " : "FAIL", folder, m.g->ops.n, off, most);
    cJSON_Delete(golden.header);
    cJSON_Delete(m.golden);
    arena_free(m.arena);
    return good;
}

int main(int argc, char **argv)
{
    bool good = true;
    for (int i = 1; i < argc; i++) good &= check_folder(argv[i]);
    return !good;
}
