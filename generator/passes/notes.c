/* What training the file does otherwise than training the model that it came from, as far as tensors tell.
 *
 * Needs: roles; merged and tied tensors settled.  Changes nothing.
 *
 * PyTorch's exporters compute what follows from parameters alone: exp(log_scale) becomes a tensor "exp", a weight norm's v and g one
 * matrix.  That trains, but by other steps than the parameters would.  They leave out biases of zeros, and where an Embedding keeps a
 * row for padding at zero. */
#include "onnx/import.h"
#include "passes/trainable.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>

#define DYNAMO_PLAIN "torch.onnx.export(model, ..., dynamo=True, optimize=False)"
#define SCRIPT_PLAIN "torch.onnx.export(model, ..., dynamo=False, do_constant_folding=False)"

typedef struct Names {
    Buf text;
    int n;
} Names;

static void add_name(Names *names, const char *name)
{
    enum { SHOWN = 3 };
    if (names->n < SHOWN) buf_printf(&names->text, "%s\"%s\"", names->n ? ", " : "", name);
    if (names->n++ == SHOWN) buf_put(&names->text, ", …");
}

/* ---- computed parameters ---- */
/* exp, mul_3: what dynamo calls results of arithmetic. */
static bool is_named_as_result(const char *name)
{
    static const char *const words[] = {"exp",  "softmax", "sigmoid", "tanh",   "softplus",   "mul",
                                        "div",  "neg",     "sub",     "add",    "sqrt",       "rsqrt",
                                        "pow",  "log",     "abs",     "clamp",  "matmul",     "mm",
                                        "bmm",  "einsum",  "flip",    "cumsum", "reciprocal", "linalg_vector_norm",
                                        "relu", "elu",     NULL};
    return name_is_word(name, words);
}

/* The script exporter renames what it computed after the operation that reads it; of a matrix for MatMul that may be a transpose. */
static bool is_computed_by_script(const Candidate *c)
{
    const Use *use = &c->uses.at[0];
    const OnnxNode *node = use->node;
    if (strncmp(c->name, "onnx::", 6) || use->input != 1) return false;
    if (!strcmp(node->op_type, "Gemm")) return attr_int(node, "transB", 0) != 0;
    const bool folded_norm = node->n_inputs > 2 && !strncmp(node->inputs[2], "onnx::", 6);
    return !strncmp(node->op_type, "Conv", 4) && !folded_norm;
}

static void note_computed(Decision *d)
{
    Names dynamo = {.text = {.arena = d->arena}}, script = dynamo;
    for (int i = 0; i < d->list.n; i++) {
        const Candidate *c = d->list.at[i];
        const char *name = c->made ? c->aliases.at[0] : c->name;
        if (!c->trains || c->gone || !c->uses.n || exporter_kind(c->uses.at[0].node, c->name)) continue;
        if (is_named_as_result(name)) add_name(&dynamo, c->name);
        if (is_computed_by_script(c)) add_name(&script, c->name);
    }
    const char *text =
        "%s: computed by the exporter from parameters that the file does not have; what was computed trains instead, by other "
        "steps than theirs. To keep the parameters: %s";
    if (dynamo.n) tie_say(d, arena_text(d->arena, text, buf_text(&dynamo.text), DYNAMO_PLAIN));
    if (script.n) tie_say(d, arena_text(d->arena, text, buf_text(&script.text), SCRIPT_PLAIN));
}

/* ---- biases that were left out ---- */
static void find_lost(Decision *d, const OnnxGraph *graph, Names *lost)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const OnnxNode *node = graph->nodes[i];
        const bool may_have = !strcmp(node->op_type, "Gemm") || !strncmp(node->op_type, "Conv", 4);
        if (!may_have || exporter_says_norm(node) || node->domain[0] || (node->n_inputs > 2 && node->inputs[2][0])) continue;
        const char *bias = exporter_parameter(d->arena, node, 2);
        const size_t n = bias ? strlen(bias) : 0;
        if (n > 4 && !strcmp(bias + n - 4, "bias")) add_name(lost, bias + strlen("p_"));
    }
}

static void note_lost(Decision *d)
{
    Names lost = {.text = {.arena = d->arena}};
    find_lost(d, d->model->graph, &lost);
    if (!lost.n) return;
    tie_say(d, arena_text(d->arena, "%s: left out by the exporter, as zeros add nothing, and not trained. To keep %s: %s",
                          buf_text(&lost.text), lost.n > 1 ? "them" : "it", DYNAMO_PLAIN));
}

/* ---- rows for padding ---- */
/* The one row of zeros of a table; -1: none, or several. */
static int64_t zero_row(const OnnxTensor *t)
{
    const int64_t bytes = t->rank == 2 && t->data && t->dims[0] > 1 ? (int64_t)t->bytes / t->dims[0] : 0;
    const char *data = t->data;
    int64_t found = -1;
    for (int64_t row = 0; bytes && row < t->dims[0]; row++) {
        const char *at = data + row * bytes;
        if (*at || memcmp(at, at + 1, (size_t)bytes - 1) != 0) continue;
        if (found >= 0) return -1;
        found = row;
    }
    return found;
}

static void note_padding(Decision *d)
{
    for (int i = 0; i < d->list.n; i++) {
        const Candidate *c = d->list.at[i];
        if (!c->trains || c->gone || !c->uses.n || strcmp(c->uses.at[0].node->op_type, "Gather") || c->uses.at[0].input) continue;
        const int64_t row = zero_row(c->tensor);
        if (row < 0) continue;
        tie_say(
            d, arena_text(
                   d->arena,
                   "row %lld of \"%s\" is zeros, as Embedding(padding_idx=%lld) keeps it; a file cannot say so, and the row trains "
                   "where it is looked up. To keep it: multiply what is looked up with (ids != %lld)",
                   (long long)row, c->name, (long long)row, (long long)row));
    }
}

void candidate_notes(Decision *d)
{
    if (strncmp(d->model->producer, "pytorch", 7)) return;
    note_computed(d);
    note_lost(d);
    note_padding(d);
}
