/* The gradients of a model's loss against central differences, both from the interpreter, without any emitted code.
 *
 *     field_gradients MODEL.onnx LOSS "batch=2, seq=5" ["batch=1, seq=1"…]
 *
 * Batch tensors are made up: floats -1 to 1, integers 0 or 1, bools in turn true and false over the given dims.  Every weight that
 * trains must have a gradient; up to SAMPLES elements of each are checked. */
#include "onnx/import.h"
#include "passes/passes.h"
#include "support/diag.h"
#include "test/support/interpret.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 12 };
static const double STEP = 1e-5, TOLERANCE = 1e-6;

typedef struct {
    Arena *arena;
    Symbols *symbols;
    Graph *g;         /* outputs: the loss, then the gradients */
    const Value **of; /* beside outputs: the weight; NULL for the loss */
} Training;

static Training compile(Arena *arena, const char *path, const char *loss)
{
    Training t = {.arena = arena, .symbols = symbols_new(arena)};
    Options options = {.loss = loss, .optimizer = "sgd", .precision = "fp64", .model = path};
    OnnxModel *model = onnx_read(arena, path, false);
    Map *tensors = map_new(arena);
    ImportReport report = {.arena = arena, .seen = map_new(arena)};
    pass_dims(t.symbols, model, &options, arena);
    pass_trainable(model, &options, arena, tensors);
    Graph *g = t.g = import_model(arena, t.symbols, model, &(ImportOptions){.training = true}, tensors, &report);
    pass_precision(g, &options);
    pass_fold(g);
    pass_loss(g, &options, true);
    Value **gradients = pass_gradient(g);
    g->outputs.n = 1;
    g->output_names = NEW_ARRAY(arena, const char *, g->inputs.n + 1);
    g->output_names[0] = "loss";
    t.of = NEW_ARRAY(arena, const Value *, g->inputs.n + 1);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        if (v->tensor && v->tensor->trainable && !gradients[i]) error_exit("\"%s\" trains and has no gradient", v->name);
        if (!gradients[i]) continue;
        t.of[g->outputs.n] = v;
        g->output_names[g->outputs.n] = v->name;
        vec_push(arena, &g->outputs, gradients[i]);
    }
    pass_decompose(g);
    pass_fold(g);
    pass_simplify(g);
    graph_verify(g, "simplify");
    return t;
}

static double made_up(Dtype d, uint64_t *state, int turn)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    if (d == DTYPE_bool) return turn % 2 == 0;
    if (!dtype_is_float(d)) return (double)(*state >> 63);
    return (double)(*state >> 11) / (double)(1ull << 52) - 1;
}

static Array *make_inputs(const Training *t, const int64_t *dims, int turn)
{
    Array *inputs = NEW_ARRAY(t->arena, Array, t->g->inputs.n + 1);
    uint64_t state = 5 + (uint64_t)turn;
    for (int i = 0; i < t->g->inputs.n; i++) {
        const Value *v = t->g->inputs.at[i];
        inputs[i] = array_for(t->arena, t->g, v, dims);
        for (int64_t k = 0; k < inputs[i].n; k++)
            inputs[i].at[k] = v->tensor ? element_read(v->tensor->dtype, v->tensor->data, k) : made_up(v->dtype, &state, turn);
    }
    return inputs;
}

static double loss_of(const Training *t, const char *dims_text, Array *inputs, Array *outputs)
{
    interpret(t->arena, t->g, dims_from_text(t->arena, t->symbols, dims_text), inputs, outputs);
    return outputs[0].at[0];
}

static int input_index(const Graph *g, const Value *v)
{
    int i = 0;
    while (g->inputs.at[i] != v) i++;
    return i;
}

static bool check_dims(const Training *t, const char *dims_text, int turn)
{
    Array *inputs = make_inputs(t, dims_from_text(t->arena, t->symbols, dims_text), turn);
    Array *outputs = NEW_ARRAY(t->arena, Array, t->g->outputs.n + 1), *moved = NEW_ARRAY(t->arena, Array, t->g->outputs.n + 1);
    const double loss = loss_of(t, dims_text, inputs, outputs);
    bool good = isfinite(loss);
    double most = 0;
    for (int o = 1; o < t->g->outputs.n; o++) {
        const Array *weight = &inputs[input_index(t->g, t->of[o])];
        if (outputs[o].n != weight->n) error_exit("the gradient of \"%s\" has another shape", t->of[o]->name);
        const int64_t stride = weight->n > SAMPLES ? weight->n / SAMPLES : 1;
        for (int64_t k = 0; k < weight->n; k += stride) {
            const double before = weight->at[k], found = outputs[o].at[k];
            weight->at[k] = before + STEP;
            const double above = loss_of(t, dims_text, inputs, moved);
            weight->at[k] = before - STEP;
            const double wanted = (above - loss_of(t, dims_text, inputs, moved)) / (2 * STEP);
            weight->at[k] = before;
            const double off = fabs(found - wanted) / fmax(1, fabs(wanted));
            if (off > most) most = off;
            if (off <= TOLERANCE) continue;
            printf("  \"%s\"[%lld]: gradient %.9g, differences say %.9g\n", t->of[o]->name, (long long)k, found, wanted);
            good = false;
        }
    }
    printf("  %s %s: loss %.6g, %d gradients, off by %.1e at most\n", good ? "ok  " : "FAIL", dims_text, loss, t->g->outputs.n - 1,
           most);
    return good;
}

int main(int argc, char **argv)
{
    if (argc < 4) error_exit("field_gradients MODEL.onnx LOSS DIMS…");
    Arena *arena = arena_new();
    const Training t = compile(arena, argv[1], argv[2]);
    bool good = true;
    for (int i = 3; i < argc; i++) good &= check_dims(&t, argv[i], i - 3);
    arena_free(arena);
    return !good;
}
