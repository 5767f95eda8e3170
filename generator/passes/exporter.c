/* What exporters lose, and the line that keeps it.
 *
 * Needs: the model as onnx_read leaves it.  Changes nothing.
 *
 * A model is mostly exported to be run, not to be trained.  Then exporters
 * - fold a BatchNormalization into the Conv before it.  PyTorch's script exporter calls what results onnx::Conv_17; its dynamo
 * exporter writes the rewriting rule into the node's metadata; tf2onnx and ONNX Runtime append _fused_bn and _ConvBnFusion to
 * names;
 * - leave a BatchNormalization with running statistics that no step changes;
 * - leave out Dropout, or write one that does not drop. */
#include "onnx/import.h"
#include "passes/trainable.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

#define SCRIPT_LINE                                                                                                                \
    "model.train(); torch.onnx.export(model, ..., dynamo=False, training=torch.onnx.TrainingMode.TRAINING, "                       \
    "do_constant_folding=False)"
#define DYNAMO_LINE "model.train(); torch.onnx.export(model, ..., dynamo=True)"
#define DYNAMO_CLASSES "pkg.torch.onnx.class_hierarchy"
#define DYNAMO_SOURCE "pkg.torch.onnx.fx_node"
#define DYNAMO_SCOPES "pkg.torch.onnx.name_scopes"
#define DYNAMO_RULES "pkg.onnxscript.rewriter.rule_name"

/* Nodes of one kind: how many, and the first of them. */
typedef struct Found {
    int n;
    const OnnxNode *first;
    VEC(double) ratios; /* of Dropouts, each once */
} Found;

typedef struct Survey {
    Arena *arena;
    const OnnxModel *model;
    Found folded, frozen_norms, training_norms, dropping, idle; /* idle: a Dropout that does not drop */
    bool dynamo;
} Survey;

static void count(Found *found, const OnnxNode *node)
{
    if (!found->n++) found->first = node;
}

/* ---- what PyTorch's dynamo exporter says ---- */
static bool mentions(const char *text, const char *word) /* letter case aside */
{
    const size_t n = strlen(word);
    for (; text && *text; text++)
        if (!strncasecmp(text, word, n)) return true;
    return false;
}

const char *exporter_parameter(Arena *arena, const OnnxNode *node, int input)
{
    /* %linear : … = call_function[target=…](args = (%layer_norm, %p_emb_weight), kwargs = {}) */
    const char *text = node_metadata(node, DYNAMO_SOURCE), *at = text ? strstr(text, "args = (") : NULL;
    const bool recurrent = !strcmp(node->op_type, "LSTM") || !strcmp(node->op_type, "GRU") || !strcmp(node->op_type, "RNN");
    for (int i = 0; at && i <= input; i++) at = strchr(at + 1, '%');
    if ((!at || recurrent) && text) at = strstr(text, "%p_"); /* the node's operands stand in another order than those */
    if (!at || strncmp(at, "%p_", 3)) return NULL;            /* made of parameters, perhaps: %t */
    size_t n = 1;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return arena_copy(arena, at + 1, n - 1);
}

/* %b_rotary_inv_freq in a node's source is the buffer rotary.inv_freq, %p_scale the parameter scale. */
char exporter_kind(const OnnxNode *node, const char *name)
{
    const char *text = node_metadata(node, DYNAMO_SOURCE);
    while (text && (text = strchr(text, '%'))) {
        const char kind = text[1], *at = text + 3, *n = name;
        text++;
        if ((kind != 'p' && kind != 'b') || text[1] != '_') continue;
        while (*n && *at == (isalnum((unsigned char)*n) ? tolower((unsigned char)*n) : '_')) n++, at++;
        if (!*n && !isalnum((unsigned char)*at) && *at != '_') return kind;
    }
    return 0;
}

bool exporter_says_bias(const OnnxNode *node)
{
    const char *text = node_metadata(node, DYNAMO_SOURCE), *weight = text ? strstr(text, "%p_") : NULL;
    return weight && strstr(weight + 1, "%p_");
}

bool exporter_has_source(const OnnxNode *node)
{
    return node_metadata(node, DYNAMO_SOURCE) != NULL;
}

bool exporter_says_norm(const OnnxNode *node)
{
    return mentions(node_metadata(node, DYNAMO_SOURCE), "_norm");
}

/* Behind the comma that ends the argument; NULL: it is the last one. */
static const char *next_argument(const char *at)
{
    for (int depth = 0; *at && (depth || *at != ')'); at++) {
        depth += (*at == '[' || *at == '(') - (*at == ']' || *at == ')');
        if (!depth && *at == ',') return at[1] == ' ' ? at + 2 : NULL;
    }
    return NULL;
}

/* layer_norm.default](args = (%linear, [8], None, None, 1e-05), kwargs = {}): behind what is normalised, and a shape or how many groups
 * there are, stand gain and shift; %add is one that was computed, as 1 + w. */
bool exporter_norm_is_plain(const OnnxNode *node)
{
    const char *text = node_metadata(node, DYNAMO_SOURCE), *at = text ? strstr(text, "args = (") : NULL,
               *named = text ? strstr(text, "kwargs = {") : NULL;
    if (!at || !exporter_says_norm(node) || strstr(text, "%p_") || (named && strchr(named, '%'))) return false;
    at = next_argument(at + strlen("args = ("));
    if (at && (*at == '[' || isdigit((unsigned char)*at))) at = next_argument(at);
    for (int i = 0; i < 2 && at; i++, at = next_argument(at))
        if (*at == '%') return false;
    return true;
}

/* "e.layers.0.linear1" of ['', 'e', 'e.layers', 'e.layers.0', 'e.layers.0.linear1', 'linear_2']; "/e/layers.0/linear1" of the node
 * /e/layers.0/linear1/MatMul that the script exporter names.  "": unknown, or the model itself. */
static const char *module_of(Arena *arena, const OnnxNode *node)
{
    const char *scopes = node_metadata(node, DYNAMO_SCOPES), *before = NULL, *last = NULL;
    for (const char *at = scopes; at && (at = strchr(at, '\'')) && strchr(at + 1, '\''); at = strchr(at + 1, '\'') + 1)
        before = last, last = at + 1;
    if (before) return arena_copy(arena, before, strcspn(before, "'"));
    const char *slash = node->name[0] == '/' ? strrchr(node->name, '/') : NULL;
    return slash ? arena_copy(arena, node->name, (size_t)(slash - node->name)) : "";
}

bool exporter_modules_differ(Arena *arena, const OnnxNode *a, const OnnxNode *b)
{
    const char *x = module_of(arena, a), *y = module_of(arena, b);
    return *x && *y && strcmp(x, y) != 0;
}

static bool ends_module(const char *at)
{
    return !*at || *at == '.' || *at == '/';
}

bool exporter_numbers_apart(Arena *arena, const OnnxNode *a, const OnnxNode *b)
{
    const char *x = module_of(arena, a), *y = module_of(arena, b);
    bool apart = false, numbers_a_call = false; /* /block_1 is the second call of /block, as far as one can tell */
    while (*x && *y) {
        const size_t n = strspn(x, "0123456789"), m = strspn(y, "0123456789");
        if (!n != !m || (!n && *x != *y)) return false;
        if (!(numbers_a_call && ends_module(x + n) && ends_module(y + m))) apart |= n != m || strncmp(x, y, n);
        numbers_a_call = *x == '_' || *x == '@';
        x += n ? n : 1, y += m ? m : 1;
    }
    return apart && !*x && !*y;
}

/* ---- folded norms ---- */
static bool has_weights(const OnnxNode *node)
{
    static const char *const kinds[] = {"Conv", "ConvTranspose", "Gemm", "FusedConv", NULL};
    for (int i = 0; kinds[i]; i++)
        if (!strcmp(node->op_type, kinds[i])) return node->n_inputs > 1;
    return false;
}

/* onnx::Conv_17: the script exporter renames only what it computed itself. */
static bool is_named_by_script(const char *name)
{
    return !strncmp(name, "onnx::Conv", 10);
}

static bool is_folded(const OnnxNode *node)
{
    if (!has_weights(node)) return false;
    if (mentions(node_metadata(node, DYNAMO_RULES), "FuseBatchNorm") || mentions(node_metadata(node, DYNAMO_CLASSES), "batchnorm"))
        return true;
    for (int i = 1; i < node->n_inputs && i < 3; i++)
        if (mentions(node->inputs[i], "_fused_bn") || mentions(node->inputs[i], "ConvBnFusion")) return true;
    return node->n_inputs > 2 && is_named_by_script(node->inputs[1]) && is_named_by_script(node->inputs[2]);
}

/* ---- nodes whose mode tells how the model was exported ---- */
/* The number that stands in a constant: an initializer of the graph or of the model, or a Constant node of the graph. */
static bool constant_number(const Survey *s, const OnnxGraph *graph, const char *name, double *value)
{
    const OnnxTensor *t = graph_initializer(graph, name);
    if (!t) t = graph_initializer(s->model->graph, name);
    for (int i = 0; i < graph->n_nodes && !t; i++)
        if (graph->nodes[i]->n_outputs && !strcmp(graph->nodes[i]->outputs[0], name)) {
            if (strcmp(graph->nodes[i]->op_type, "Constant") || !attr_has(graph->nodes[i], "value")) return false;
            t = attr_tensor(graph->nodes[i], "value");
        }
    if (!t || !t->data || t->count != 1 || dtype_of_onnx((int)t->type) == DTYPES_COUNT) return false;
    *value = element_read(dtype_of_onnx((int)t->type), t->data, 0);
    return true;
}

static void survey_dropout(Survey *s, const OnnxGraph *graph, const OnnxNode *node)
{
    const bool old = node->opset < 12;
    double ratio = old ? attr_float(node, "ratio", 0.5) : 0.5, mode = 1;
    const bool has_mode = node->n_inputs > 2 && node->inputs[2][0];
    if (!old && node->n_inputs > 1 && node->inputs[1][0] && !constant_number(s, graph, node->inputs[1], &ratio)) ratio = -1;
    if (ratio == 0) return; /* it never dropped */
    if (has_mode && !constant_number(s, graph, node->inputs[2], &mode)) mode = 1;
    Found *found = old || (has_mode && mode != 0) ? &s->dropping : &s->idle;
    count(found, node);
    bool known = false;
    for (int i = 0; i < found->ratios.n; i++) known |= found->ratios.at[i] == ratio;
    if (!known) vec_push(s->arena, &found->ratios, ratio);
}

static void survey_norm(Survey *s, const OnnxNode *node)
{
    const bool trains = node->opset >= 14 ? attr_int(node, "training_mode", 0) : node->n_outputs > 1;
    count(trains ? &s->training_norms : &s->frozen_norms, node);
}

static void survey(Survey *s, const OnnxGraph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const OnnxNode *node = graph->nodes[i];
        s->dynamo |= node_metadata(node, DYNAMO_SOURCE) || !strncmp(node->name, "node_", 5);
        if (is_folded(node)) count(&s->folded, node);
        if (!node->domain[0] && !strcmp(node->op_type, "Dropout")) survey_dropout(s, graph, node);
        if (!node->domain[0] && !strcmp(node->op_type, "BatchNormalization")) survey_norm(s, node);
        for (int k = 0; k < node->n_attributes; k++) {
            if (node->attributes[k].g) survey(s, node->attributes[k].g);
            for (int b = 0; node->attributes[k].type == ONNX_ATTR_GRAPHS && b < node->attributes[k].n; b++)
                survey(s, node->attributes[k].graphs[b]);
        }
    }
}

/* ---- what is said ---- */
/* 1 Conv, "/c/Conv" / 3 Convs, the first "/c/Conv" */
static const char *nodes_text(const Survey *s, const Found *f)
{
    const char *name = f->first->name[0] ? f->first->name : f->first->outputs[0];
    if (f->n == 1) return arena_text(s->arena, "%s \"%s\"", f->first->op_type, name);
    return arena_text(s->arena, "%d %s nodes (the first is \"%s\")", f->n, f->first->op_type, name);
}

static const char *ratios_text(const Survey *s, const Found *f)
{
    Buf text = {.arena = s->arena};
    for (int i = 0; i < f->ratios.n; i++)
        if (f->ratios.at[i] >= 0) buf_printf(&text, "%s%g", text.length ? ", " : ", ratio ", f->ratios.at[i]);
    return buf_text(&text);
}

/* ": LINE" where the exporter is known, else the words alone. */
static const char *keep(const Survey *s, const char *line)
{
    const char *producer = s->model->producer;
    if (!strncmp(producer, "pytorch", 7)) return line;
    if (!strncmp(producer, "tf2onnx", 7))
        return "convert the Keras model with learning phase 1, and without tf2onnx's optimizer back_to_back_optimizer";
    return "export the model in training mode, without folding of constants";
}

static void note_folded(const Survey *s)
{
    if (!s->folded.n) return;
    notice("%s %s a BatchNormalization folded in: it trains as a weight and a bias, without the batch's statistics. To keep the "
           "BatchNormalization: %s",
           nodes_text(s, &s->folded), s->folded.n == 1 ? "has" : "have", keep(s, SCRIPT_LINE));
}

static void note_norms(const Survey *s, int batch_norm)
{
    if (!s->frozen_norms.n || batch_norm != BATCH_NORM_AS_EXPORTED) return;
    notice(
        "%s %s exported for inference: gain and bias train, the running statistics stay as they are. --batch-norm train uses the "
        "batch's statistics and updates the running ones. To export it so: %s",
        nodes_text(s, &s->frozen_norms), s->frozen_norms.n == 1 ? "was" : "were", keep(s, SCRIPT_LINE));
}

static void note_dropout(const Survey *s)
{
    const char *line = keep(s, s->dynamo ? DYNAMO_LINE : SCRIPT_LINE);
    const bool from_pytorch = !strncmp(s->model->producer, "pytorch", 7);
    if (s->dropping.n)
        notice("%s %s in training%s; never in evaluation", nodes_text(s, &s->dropping), s->dropping.n == 1 ? "drops" : "drop",
               ratios_text(s, &s->dropping));
    if (s->idle.n)
        notice("%s %s, being exported for inference%s. To train with dropout: %s", nodes_text(s, &s->idle),
               s->idle.n == 1 ? "does not drop" : "do not drop", ratios_text(s, &s->idle), line);
    if (from_pytorch && !s->dropping.n && !s->idle.n && !s->training_norms.n)
        notice("no Dropout in the model: an export for inference leaves it out. If yours had one: %s", line);
}

void exporter_notes(const OnnxModel *model, const Options *options, Arena *arena)
{
    Survey s = {.arena = arena, .model = model};
    survey(&s, model->graph);
    note_folded(&s);
    note_norms(&s, options->batch_norm);
    note_dropout(&s);
}
