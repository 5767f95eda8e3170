/* From a node test's folder to a folder of generated source, as disc-gen MODEL.onnx -o DIR --inference does it.
 * Needs: the generator, its main.c apart. */
#include "test/conformance/case.h"
#include "test/conformance/gradients.h"
#include "test/conformance/lists.h"
#include "emit/emit.h"
#include "emit/folder.h"
#include "onnx/import.h"
#include "support/diag.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    Arena *arena;
    Symbols *symbols;
    const Case *c;
    OnnxModel *model;
    OnnxTensor *inputs[CASE_INPUTS];
    OnnxValueInfo *infos[CASE_INPUTS];
    Graph *graph;
} Work;

/* ---- reading ---- */
static void open_case(Work *w, const Case *c, int *n_inputs)
{
    w->arena = arena_new();
    w->symbols = symbols_new(w->arena);
    w->c = c;
    w->model = onnx_read(w->arena, arena_text(w->arena, "%s/model.onnx", c->from), false);
    OnnxGraph *g = w->model->graph;
    int n = 0, of_file = 0;
    for (int i = 0; i < g->n_inputs; of_file++) {
        int many = 1;
        const char *path = arena_text(w->arena, "%s/test_data_set_0/input_%d.pb", c->from, of_file);
        if (!g->inputs[i].is_initializer) {
            List list = list_read(w->arena, path, &g->inputs[i]);
            if (g->inputs[i].kind != ONNX_IS_TENSOR) many = list_to_inputs(w->model, i, &list);
            for (int k = 0; k < many; k++) {
                if (n == CASE_INPUTS) error_exit("%s has more than %d inputs", c->name, CASE_INPUTS);
                w->inputs[n++] = list.at[k];
            }
        }
        i += many;
    }
    *n_inputs = 0;
    for (int i = 0; i < g->n_inputs; i++)
        if (!g->inputs[i].is_initializer) w->infos[(*n_inputs)++] = &g->inputs[i];
}

/* The expected outputs, the items of lists each on its own. */
static int read_wanted(Work *w, OnnxTensor **wanted, int room)
{
    int n = 0;
    for (int i = 0; i < w->model->graph->n_outputs; i++) {
        const char *path = arena_text(w->arena, "%s/test_data_set_0/output_%d.pb", w->c->from, i);
        List list = list_read(w->arena, path, &w->model->graph->outputs[i]);
        for (int k = 0; k < list.n; k++) {
            if (n == room) error_exit("%s has more than %d outputs", w->c->name, room);
            wanted[n++] = list.at[k];
        }
    }
    return n;
}

static bool is_fraction(OnnxType type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 || type == ONNX_BFLOAT16;
}

void case_read(Case *c)
{
    Work w = {0};
    open_case(&w, c, &c->n_inputs);
    for (int i = 0; i < c->n_inputs; i++) {
        const OnnxTensor *t = w.inputs[i];
        if (t->rank > CASE_AXES) error_exit("input \"%s\" has rank %d", w.infos[i]->name, t->rank);
        c->is_integer[i] = !is_fraction(t->type);
        c->rank[i] = t->rank;
        for (int k = 0; k < t->rank; k++) c->dims[i][k] = (int)t->dims[k];
    }
    snprintf(c->op, sizeof c->op, "%s", operator_of(w.arena, w.model->graph, c->from));
    arena_free(w.arena);
}

/* ---- constants and symbols ---- */
static void freeze(Work *w, int i)
{
    OnnxGraph *g = w->model->graph;
    OnnxTensor **all = NEW_ARRAY(w->arena, OnnxTensor *, g->n_initializers + 1);
    w->inputs[i]->name = w->infos[i]->name;
    for (int k = 0; k < g->n_initializers; k++) all[k] = g->initializers[k];
    all[g->n_initializers++] = w->inputs[i];
    g->initializers = all;
    map_set(g->initializer_of, w->infos[i]->name, w->inputs[i]);
    w->infos[i]->is_initializer = true;
}

static bool anything_varies(const Case *c)
{
    for (int i = 0; i < c->n_inputs; i++)
        for (int k = 0; k < c->rank[i]; k++)
            if (c->varies[i][k]) return true;
    return false;
}

/* Sizes that the file states of what is computed would contradict symbols. */
static void forget_shapes(OnnxGraph *g)
{
    g->n_value_info = 0;
    for (int i = 0; i < g->n_outputs; i++)
        for (int k = 0; k < g->outputs[i].rank; k++) g->outputs[i].dims[k] = (OnnxDim){.param = ""};
}

static void prepare_model(Work *w)
{
    const Case *c = w->c;
    for (int i = 0; i < c->n_inputs; i++) {
        if (c->frozen[i]) freeze(w, i);
        for (int k = 0; k < c->rank[i]; k++)
            if (c->varies[i][k] && k < w->infos[i]->rank)
                w->infos[i]->dims[k] = (OnnxDim){.param = arena_text(w->arena, "%s_%d", w->infos[i]->name, k)};
    }
    if (anything_varies(c)) forget_shapes(w->model->graph);
}

/* Whether the facts that the graph states of its symbols hold for the test's own sizes. */
static bool facts_hold(Work *w)
{
    int n = symbols_count(w->symbols);
    int64_t *values = NEW_ARRAY(w->arena, int64_t, n + 1), found;
    for (int i = 0; i < n; i++) values[i] = -1;
    for (int v = 0; v < w->graph->inputs.n; v++) {
        const Value *input = w->graph->inputs.at[v];
        for (int i = 0; i < w->c->n_inputs; i++) {
            if (input->origin != FROM_BATCH || strcmp(w->infos[i]->name, input->name) != 0) continue;
            for (int k = 0; k < input->rank && k < w->inputs[i]->rank; k++)
                if (expr_is_symbol(input->shape[k])) values[symbol_index(input->shape[k])] = w->inputs[i]->dims[k];
        }
    }
    for (int i = 0; i < n; i++) {
        Expr *symbol = symbols_at(w->symbols, i), *within[16], *same = expr_canonical(w->symbols, symbol);
        SymbolFacts facts = symbol_facts(w->symbols, symbol);
        if (values[i] < 0) continue;
        if (values[i] < facts.low || values[i] > facts.high || values[i] % (facts.divisor ? facts.divisor : 1)) return false;
        int known = expr_symbols(w->symbols, same, within, 16);
        bool all = known <= 16;
        for (int k = 0; k < known && all; k++) all = values[symbol_index(within[k])] >= 0;
        if (all && (!expr_evaluate(w->symbols, same, values, &found) || found != values[i])) return false;
    }
    Expr *const *zeros;
    for (int i = symbols_zeros(w->symbols, &zeros) - 1; i >= 0; i--)
        if (expr_evaluate(w->symbols, zeros[i], values, &found) && found != 0) return false;
    return true;
}

/* ---- writing ---- */
/* How far a result may lie from the expected one: ONNX's own 1e-3 and 1e-7 for float and double, a few units of its last place for
 * shorter types, nothing for integers. */
static void tolerance(OnnxType type, double *relative, double *absolute)
{
    *relative = is_fraction(type) ? 1e-3 : 0, *absolute = is_fraction(type) ? 1e-7 : 0;
    if (type == ONNX_FLOAT16) *relative = 4e-3, *absolute = 1e-3;
    if (type == ONNX_BFLOAT16) *relative = 3e-2, *absolute = 1e-2;
}

/* NAME's row: {name, model, outputs' tolerances}. */
static const char *row(Work *w, OnnxTensor *const *wanted, int n)
{
    Buf text = {.arena = w->arena};
    const char *name = w->c->name;
    buf_printf(&text, "static const Tolerance %s_tolerances[] = {", name);
    for (int i = 0; i < n; i++) {
        double relative, absolute;
        tolerance(wanted[i]->type, &relative, &absolute);
        buf_printf(&text, "{%g, %g}, ", relative, absolute);
    }
    buf_put(&text, "{0, 0}};\n");
    return buf_text(&text);
}

static void write_program(Work *w, const Options *options)
{
    Project project = {.options = options, .infer = w->graph, .tables_alone = true};
    OnnxTensor *wanted[CASE_INPUTS];
    const int n_inputs = w->c->n_inputs, n_outputs = w->c->gradients ? 0 : read_wanted(w, wanted, CASE_INPUTS);
    const Tensor **given = NEW_ARRAY(w->arena, const Tensor *, n_inputs + 1),
                 **expected = NEW_ARRAY(w->arena, const Tensor *, n_outputs + 1);
    int n = 0;
    if (!w->c->gradients && n_outputs != w->graph->outputs.n)
        error_exit("%d outputs expected, %d made", n_outputs, w->graph->outputs.n);
    for (int i = 0; i < n_inputs; i++)
        if (!w->c->frozen[i]) given[n++] = weight_tensor(w->arena, w->inputs[i], w->infos[i]->name);
    for (int i = 0; i < n_outputs; i++) expected[i] = weight_tensor(w->arena, wanted[i], w->graph->output_names[i]);
    emit_project(&project, w->arena, w->symbols);
    Folder *folder = folder_open(w->arena, w->c->to);
    folder_tensors(folder, "inputs.safetensors", w->arena, given, n);
    folder_tensors(folder, "wanted.safetensors", w->arena, expected, n_outputs);
    folder_text(folder, "row.h", row(w, wanted, n_outputs));
    folder_commit(folder);
}

bool case_write(const Case *c)
{
    Work w = {0};
    int n_inputs;
    open_case(&w, c, &n_inputs);
    prepare_model(&w);
    const Options options = {
        .model = w.model->path, .out = c->to, .optimizer = "adamw", .precision = c->gradients ? "fp64" : "fp32", .inference = true};
    const ImportOptions how = {.training = c->gradients, .batch_norm = options.batch_norm};
    ImportReport report = {.arena = w.arena, .seen = map_new(w.arena)};
    Map *tensors = map_new(w.arena);
    pass_dims(w.symbols, w.model, &options, w.arena);
    pass_trainable(w.model, &options, w.arena, tensors);
    w.graph = import_model(w.arena, w.symbols, w.model, &how, tensors, &report);
    w.graph->name = "infer";
    graph_verify(w.graph, "import");
    if (c->gradients) {
        const char *none = gradient_graph(w.graph, NEW_ARRAY(w.arena, int, w.graph->inputs.n + 1));
        if (none) error_exit("no gradient: %s", none);
    }
    if (!c->gradients) { /* of all inputs: also of those that attention would capture */
        pass_fold(w.graph), pass_simplify(w.graph), pass_recognise(w.graph, NULL);
        graph_verify(w.graph, "recognise");
    }
    pass_decompose(w.graph), pass_fold(w.graph), pass_simplify(w.graph);
    graph_verify(w.graph, "simplify");
    if (!facts_hold(&w)) return false;
    write_program(&w, &options);
    arena_free(w.arena);
    return true;
}
