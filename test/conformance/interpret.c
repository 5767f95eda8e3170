/* Imports ONNX's own node tests and evaluates them with the interpreter: does each operator mean what ONNX says?
 *
 *     interpret_conformance DIR [WORD]     DIR/test_*: model.onnx, test_data_set_0/{input,output}_N.pb; WORD: only names that have it
 *
 * Inputs that decide on shapes (a Reshape's target) are made constants where the importer asks for that: first the integers among
 * them, then all but the first input, then all.  Each test runs in a process of its own.  Prints what failed and what is not
 * supported, then the counts; exit status 1 where something failed. */
#include "onnx/import.h"
#include "support/diag.h"
#include "test/conformance/interpret_gradients.h"
#include "test/support/interpret.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PASSED, WRONG, UNSUPPORTED, CRASHED, RESULTS };
enum { FROZEN_NONE, FROZEN_INTEGERS, FROZEN_BUT_FIRST, FROZEN_ALL, FREEZES };

static bool gradients; /* -g */

typedef struct {
    Arena *arena;
    const char *directory;
    OnnxModel *model;
    OnnxTensor **inputs;
    int64_t *dims;
    Graph *graph;
} Test;

/* ---- elements ---- */
/* Elements of a file's tensor as the interpreter has them. */
static double element(const OnnxTensor *t, const Tensor *converted, int64_t i)
{
    (void)t;
    return element_read(converted->dtype, converted->data, i);
}

static void fill(Arena *arena, Array *a, const OnnxTensor *t)
{
    Tensor *converted = weight_tensor(arena, t, "x");
    if (t->count != a->n) error_exit("an input has %lld elements; wanted %lld", (long long)t->count, (long long)a->n);
    for (int64_t i = 0; i < a->n; i++) a->at[i] = element(t, converted, i);
}

static bool close_enough(double found, double wanted, OnnxType type)
{
    if (isnan(wanted) || isnan(found)) return isnan(wanted) && isnan(found);
    if (found == wanted) return true;
    bool half = type == ONNX_FLOAT16, brain = type == ONNX_BFLOAT16;
    if (!half && !brain && type != ONNX_FLOAT && type != ONNX_DOUBLE) return false;
    double relative = brain ? 2e-2 : half ? 4e-3 : 1e-3, absolute = brain ? 2e-2 : half ? 2e-3 : 2e-6;
    return fabs(found - wanted) <= absolute + relative * fabs(wanted);
}

/* ---- one test ---- */
static const char *data_file(Test *t, const char *kind, int i)
{
    return arena_text(t->arena, "%s/test_data_set_0/%s_%d.pb", t->directory, kind, i);
}

static void freeze(Test *t, int i)
{
    OnnxGraph *g = t->model->graph;
    OnnxTensor *tensor = t->inputs[i], **all = NEW_ARRAY(t->arena, OnnxTensor *, g->n_initializers + 1);
    tensor->name = g->inputs[i].name;
    for (int k = 0; k < g->n_initializers; k++) all[k] = g->initializers[k];
    all[g->n_initializers++] = tensor;
    g->initializers = all;
    map_set(g->initializer_of, tensor->name, tensor);
    g->inputs[i].is_initializer = true;
}

static void load(Test *t, int freezes)
{
    t->model = onnx_read(t->arena, arena_text(t->arena, "%s/model.onnx", t->directory), false);
    OnnxGraph *g = t->model->graph;
    t->inputs = NEW_ARRAY(t->arena, OnnxTensor *, g->n_inputs + 1);
    for (int i = 0; i < g->n_inputs; i++) {
        if (g->inputs[i].is_initializer) continue;
        t->inputs[i] = onnx_read_tensor(t->arena, data_file(t, "input", i));
        bool is_integer = t->inputs[i]->type != ONNX_FLOAT && t->inputs[i]->type != ONNX_DOUBLE &&
                          t->inputs[i]->type != ONNX_FLOAT16 && t->inputs[i]->type != ONNX_BFLOAT16;
        if (freezes == FROZEN_ALL || (freezes == FROZEN_BUT_FIRST && i > 0) || (freezes == FROZEN_INTEGERS && is_integer))
            freeze(t, i);
    }
}

static Array input_array(Test *t, const Value *v)
{
    const OnnxGraph *g = t->model->graph;
    Array a = array_for(t->arena, t->graph, v, t->dims);
    if (v->origin == FROM_WEIGHT) {
        for (int64_t i = 0; i < a.n; i++) a.at[i] = element_read(v->tensor->dtype, v->tensor->data, i);
        return a;
    }
    for (int i = 0; i < g->n_inputs; i++)
        if (strcmp(g->inputs[i].name, v->name) == 0) fill(t->arena, &a, t->inputs[i]);
    return a;
}

/* Values of the symbols that input shapes consist of. */
static void find_dims(Test *t, Symbols *symbols)
{
    const OnnxGraph *source = t->model->graph;
    t->dims = dims_from_text(t->arena, symbols, "");
    for (int i = 0; i < t->graph->inputs.n; i++) {
        const Value *v = t->graph->inputs.at[i];
        for (int k = 0; k < source->n_inputs; k++) {
            if (strcmp(source->inputs[k].name, v->name) != 0 || !t->inputs[k]) continue;
            for (int d = 0; d < v->rank && d < t->inputs[k]->rank; d++)
                if (expr_is_symbol(v->shape[d])) t->dims[symbol_index(v->shape[d])] = t->inputs[k]->dims[d];
        }
    }
    for (int i = 0; i < symbols_count(symbols); i++) { /* what run time would guard */
        Expr *symbol = symbols_at(symbols, i), *same = expr_canonical(symbols, symbol);
        int64_t size;
        if (same != symbol && expr_evaluate(symbols, same, t->dims, &size) && size != t->dims[i])
            error_exit("%s is stated to be %s, which this test does not hold", expr_text(t->arena, symbol),
                       expr_text(t->arena, same));
    }
}

static int compare(Test *t, int i, Array found)
{
    OnnxTensor *wanted = onnx_read_tensor(t->arena, data_file(t, "output", i));
    const char *name = t->graph->output_names[i];
    bool same = found.rank == wanted->rank;
    for (int d = 0; same && d < found.rank; d++) same = found.dims[d] == wanted->dims[d];
    if (!same) {
        fprintf(stderr, "output \"%s\": wanted [", name);
        for (int d = 0; d < wanted->rank; d++) fprintf(stderr, " %lld", (long long)wanted->dims[d]);
        fprintf(stderr, " ], found [");
        for (int d = 0; d < found.rank; d++) fprintf(stderr, " %lld", (long long)found.dims[d]);
        fprintf(stderr, " ]\n");
        return WRONG;
    }
    Tensor *converted = weight_tensor(t->arena, wanted, "y");
    for (int64_t e = 0; e < found.n; e++) {
        double w = element(wanted, converted, e), f = found.dtype == DTYPE_f32 ? (double)(float)found.at[e] : found.at[e];
        if (close_enough(f, w, wanted->type)) continue;
        fprintf(stderr, "output \"%s\", element %lld: wanted %.9g, found %.9g\n", name, (long long)e, w, f);
        return WRONG;
    }
    return PASSED;
}

/* Forgets what the model says of the sizes of its inputs. */
static void make_symbolic(Test *t)
{
    OnnxGraph *g = t->model->graph;
    for (int i = 0; i < g->n_inputs; i++)
        for (int d = 0; d < g->inputs[i].rank && !g->inputs[i].is_initializer; d++)
            if (g->inputs[i].dims[d].value != 1) g->inputs[i].dims[d] = (OnnxDim){.known = false, .param = ""};
}

/* Says "gradient", then operator, elements checked, at kinks, told by rounding alone, wrong, worst error, what was said: separated
 * by tabs. */
static int tell_gradients(Test *t, Array *in)
{
    GradientResult r = {0};
    check_gradients(t->arena, t->graph, t->dims, in, &r);
    fprintf(stderr, "gradient\t%s\t%d\t%d\t%d\t%d\t%.1e\t%s\n", operator_of(t->arena, t->model->graph, t->directory), r.checked,
            r.kinks, r.rounding, r.wrong, r.worst, r.reason ? r.reason : r.first);
    return r.wrong ? WRONG : PASSED;
}

static int run_test(const char *directory, int freezes, bool symbolic)
{
    Test t = {.arena = arena_new(), .directory = directory};
    load(&t, freezes);
    if (symbolic) make_symbolic(&t);
    Symbols *symbols = symbols_new(t.arena);
    ImportReport report = {.arena = t.arena};
    ImportOptions options = {.training = false};
    t.graph = import_model(t.arena, symbols, t.model, &options, map_new(t.arena), &report);
    graph_verify(t.graph, "import");
    find_dims(&t, symbols);
    Array *in = NEW_ARRAY(t.arena, Array, t.graph->inputs.n + 1), *out = NEW_ARRAY(t.arena, Array, t.graph->outputs.n + 1);
    for (int i = 0; i < t.graph->inputs.n; i++) in[i] = input_array(&t, t.graph->inputs.at[i]);
    if (gradients) return tell_gradients(&t, in);
    interpret(t.arena, t.graph, t.dims, in, out);
    int result = PASSED;
    for (int i = 0; i < t.graph->outputs.n; i++)
        if (compare(&t, i, out[i]) != PASSED) result = WRONG;
    return result;
}

/* ---- all of them ---- */
/* Runs the test in a child, whose messages go into a file; gives its result, and its first line of text in said. */
static int in_child(const char *directory, int freezes, bool symbolic, char *said, int room)
{
    FILE *messages = tmpfile();
    check(messages);
    fflush(NULL);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        dup2(fileno(messages), 2);
        alarm(60);
        _exit(run_test(directory, freezes, symbolic));
    }
    int status;
    waitpid(child, &status, 0);
    rewind(messages);
    said[0] = 0;
    if (fgets(said, room, messages)) said[strcspn(said, "\n")] = 0;
    for (char more[400]; strncmp(said, "disc-gen: note", 14) == 0 && fgets(more, sizeof more, messages);)
        snprintf(said, (size_t)room, "%s", more);
    fclose(messages);
    if (!WIFEXITED(status)) return CRASHED;
    if (WEXITSTATUS(status) == UNSUPPORTED || WEXITSTATUS(status) == PASSED) return WEXITSTATUS(status);
    return strstr(said, "output \"") == said || strstr(said, "gradient\t") == said ? WRONG : CRASHED;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_test(const struct dirent *e)
{
    return strncmp(e->d_name, "test_", 5) == 0;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"passed", "wrong", "unsupported", "crashed"};
    struct dirent **entries;
    int count[RESULTS] = {0};
    bool symbolic = argc > 1 && strcmp(argv[1], "-s") == 0;
    gradients = argc > 1 && strcmp(argv[1], "-g") == 0;
    argc -= symbolic || gradients;
    argv += symbolic || gradients;
    if (argc < 2) {
        fprintf(stderr, "usage: interpret_conformance [-s|-g] DIR [WORD]\n");
        return 2;
    }
    int n = scandir(argv[1], &entries, is_test, by_name);
    if (n < 0) {
        perror(argv[1]);
        return 2;
    }
    for (int i = 0; i < n; i++) {
        char directory[1000], said[1000], first[1000] = "";
        if (argc > 2 && !strstr(entries[i]->d_name, argv[2])) continue;
        snprintf(directory, sizeof directory, "%s/%s", argv[1], entries[i]->d_name);
        int result = UNSUPPORTED;
        for (int freezes = 0; freezes < FREEZES && result == UNSUPPORTED; freezes++) {
            result = in_child(directory, freezes, symbolic, said, sizeof said);
            if (freezes == 0) memcpy(first, said, sizeof first);
        }
        count[result]++;
        if (gradients)
            printf("%s\t%s\t%s\n", entries[i]->d_name, names[result], said[0] ? said : first);
        else if (result != PASSED)
            printf("%-11s %s: %s\n", names[result], entries[i]->d_name, said[0] ? said : first);
    }
    for (int i = 0; i < n; i++) free(entries[i]);
    free(entries);
    for (int r = 0; r < RESULTS; r++) printf("%s %d%s", names[r], count[r], r + 1 < RESULTS ? ", " : "\n");
    return count[WRONG] + count[CRASHED] > 0;
}
