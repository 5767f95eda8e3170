/* Roles: for each float constant of the model the operations that work with it, and from them whether it is a parameter.
 *
 * Needs: a model as onnx_read leaves it.  Changes nothing in it but names of subgraphs' constants that two graphs share.
 *
 * A weight operand of MatMul, Conv, LSTM… trains.  A vector added or multiplied trains when the other operand comes from something
 * learned, so that a normalisation of raw inputs, or rotary tables made of positions, stay as they are. */
#include "passes/roles.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* What a value of the model comes from. */
typedef enum {
    FROM_NOTHING = 0, /* shapes, positions, masks, constants: nothing float of the batch */
    FROM_DATA,        /* a float input, nothing learned yet */
    FROM_SPECTRUM,    /* a fixed filter bank over raw data: what STFT layers make */
    FROM_LEARNED      /* a weight has worked on it */
} Source;

typedef struct Roles {
    Arena *arena;
    Map *candidates; /* name -> Candidate */
    Map *readers;    /* name -> Readers */
    Map *sources;    /* name -> (void *)Source */
    Candidates *list;
} Roles;
typedef struct Reader {
    OnnxNode *node;
    int input;
    OnnxGraph *graph;
} Reader;
typedef VEC(Reader) Readers;

static bool is_float(OnnxType type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 || type == ONNX_BFLOAT16;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(name, *list)) return true;
    return false;
}

bool name_is_generated(const char *name)
{
    if (strstr(name, "::") || strstr(name, "Constant") || strstr(name, "/")) return true;
    const char *p = name;
    if (!strncmp(p, "val_", 4) || !strncmp(p, "_val_", 5) || !strncmp(p, "const_", 6))
        p = strchr(p + 1, '_') + 1;
    else if (!strncmp(p, "auto_", 5) || !strncmp(p, "tensor_", 7))
        return true;
    while (isdigit((unsigned char)*p)) p++;
    return !*p; /* nothing but digits left */
}

/* ---- collecting ---- */
static Candidate *add_candidate(Roles *r, OnnxGraph *graph, OnnxTensor *tensor, const char *name, OnnxNode *node)
{
    Candidate *c = NEW(r->arena, Candidate);
    c->name = name, c->tensor = tensor, c->graph = graph, c->node = node;
    map_set(r->candidates, name, c);
    vec_push(r->arena, r->list, c);
    return c;
}

static bool all_equal(const OnnxTensor *t)
{
    const size_t size = (size_t)onnx_type_bytes(t->type);
    const char *data = t->data;
    if (!data || t->count < 1) return false;
    return t->bytes == size || !memcmp(data, data + size, t->bytes - size);
}

static void each_subgraph(OnnxNode *node, void (*visit)(Roles *r, OnnxGraph *graph), Roles *r)
{
    for (int i = 0; i < node->n_attributes; i++) {
        if (node->attributes[i].g) visit(r, node->attributes[i].g);
        for (int k = 0; node->attributes[i].type == ONNX_ATTR_GRAPHS && k < node->attributes[i].n; k++)
            visit(r, node->attributes[i].graphs[k]);
    }
}

static void rename_in(OnnxGraph *graph, const char *from, const char *to)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        OnnxNode *node = graph->nodes[i];
        for (int k = 0; k < node->n_inputs; k++)
            if (!strcmp(node->inputs[k], from)) node->inputs[k] = to;
        for (int k = 0; k < node->n_outputs; k++)
            if (!strcmp(node->outputs[k], from)) node->outputs[k] = to;
        for (int k = 0; k < node->n_attributes; k++)
            if (node->attributes[k].g) rename_in(node->attributes[k].g, from, to);
    }
    for (int i = 0; i < graph->n_outputs; i++)
        if (!strcmp(graph->outputs[i].name, from)) graph->outputs[i].name = to;
    for (int i = 0; i < graph->n_captures; i++)
        if (!strcmp(graph->captures[i].name, from)) graph->captures[i].name = to;
}

/* Two branches may both call a constant "weight": the second becomes "weight_2". */
static const char *unique_in_model(Roles *r, OnnxGraph *graph, const char *name)
{
    if (!map_has(r->candidates, name)) return name;
    const char *other = name;
    for (int k = 2; map_has(r->candidates, other); k++) other = arena_text(r->arena, "%s_%d", name, k);
    rename_in(graph, name, other);
    return other;
}

static void collect(Roles *r, OnnxGraph *graph)
{
    for (int i = 0; i < graph->n_initializers; i++) {
        OnnxTensor *t = graph->initializers[i];
        if (!is_float(t->type)) continue;
        const char *name = unique_in_model(r, graph, t->name);
        if (name != t->name) {
            t->name = name;
            map_set(graph->initializer_of, name, t);
        }
        add_candidate(r, graph, t, name, NULL);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        OnnxNode *node = graph->nodes[i];
        OnnxTensor *t =
            !strcmp(node->op_type, "Constant") && !node->domain[0] && attr_has(node, "value") ? attr_tensor(node, "value") : NULL;
        if (t && is_float(t->type)) add_candidate(r, graph, t, unique_in_model(r, graph, node->outputs[0]), node);
        each_subgraph(node, collect, r);
    }
}

static void index_readers(Roles *r, OnnxGraph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        OnnxNode *node = graph->nodes[i];
        for (int k = 0; k < node->n_inputs; k++) {
            if (!node->inputs[k][0]) continue;
            Readers *list = map_get(r->readers, node->inputs[k]);
            if (!list) map_set(r->readers, node->inputs[k], list = NEW(r->arena, Readers));
            vec_push(r->arena, list, ((Reader){node, k, graph}));
        }
        each_subgraph(node, index_readers, r);
    }
}

static bool passes_through(const OnnxNode *node, int input)
{
    static const char *const views[] = {"Identity", "Transpose",      "Reshape",          "Squeeze", "Unsqueeze",
                                        "Cast",     "CastLike",       "Flatten",          "Slice",   "Split",
                                        "Expand",   "QuantizeLinear", "DequantizeLinear", NULL};
    return input == 0 && !node->domain[0] && is_one_of(node->op_type, views);
}

static void follow(Roles *r, Candidate *c, const char *name, const Use *through, int depth)
{
    const Readers *list = map_get(r->readers, name);
    for (int i = 0; list && i < list->n; i++) {
        const Reader *reader = &list->at[i];
        Use use = through ? *through : (Use){.taker = reader->node, .taker_input = reader->input, .graph = reader->graph};
        use.node = reader->node, use.input = reader->input;
        if (passes_through(reader->node, reader->input) && depth < 16) {
            use.expanded |= !strcmp(reader->node->op_type, "Expand");
            for (int k = 0; k < reader->node->n_outputs; k++) follow(r, c, reader->node->outputs[k], &use, depth + 1);
        } else
            vec_push(r->arena, &c->uses, use);
    }
}

/* ---- what values come from ---- */
static Source source_of(const Roles *r, const char *name)
{
    return (Source)(intptr_t)map_get(r->sources, name);
}

static bool leads_to_square(const Roles *r, const char *name, int depth)
{
    const Readers *list = map_get(r->readers, name);
    for (int i = 0; list && i < list->n; i++) {
        const OnnxNode *node = list->at[i].node;
        static const char *const moves[] = {"Slice", "Split", "Identity", "Transpose", "Unsqueeze", "Squeeze", "Reshape", NULL};
        if (!strcmp(node->op_type, "Pow") && list->at[i].input == 0) {
            const Candidate *exponent = map_get(r->candidates, node->inputs[1]);
            if (exponent && exponent->tensor->count == 1 && exponent->tensor->type == ONNX_FLOAT &&
                *(const float *)exponent->tensor->data == 2)
                return true;
        }
        if (!strcmp(node->op_type, "Mul") && node->n_inputs == 2 && !strcmp(node->inputs[0], node->inputs[1])) return true;
        if (is_one_of(node->op_type, moves) && depth < 6)
            for (int k = 0; k < node->n_outputs; k++)
                if (leads_to_square(r, node->outputs[k], depth + 1)) return true;
    }
    return false;
}

/* An STFT written as a convolution: no bias, straight on raw data, its results squared (and added) at once. */
static bool is_fourier_basis(const Roles *r, const OnnxNode *node)
{
    return !strcmp(node->op_type, "Conv") && node->n_inputs == 2 && source_of(r, node->inputs[0]) == FROM_DATA &&
           leads_to_square(r, node->outputs[0], 0);
}

/* Mel filters: a matrix of nothing negative, mostly zeros, behind a spectrum. */
static bool is_filter_bank(const Roles *r, const Candidate *c, const OnnxNode *node)
{
    if (source_of(r, node->inputs[0]) != FROM_SPECTRUM || c->tensor->type != ONNX_FLOAT || !c->tensor->data) return false;
    const float *x = c->tensor->data;
    int64_t zeros = 0;
    for (int64_t i = 0; i < c->tensor->count; i++) {
        if (x[i] < 0) return false;
        zeros += x[i] == 0;
    }
    return 2 * zeros > c->tensor->count;
}

static const char *const weighted[] = {"MatMul",      "Gemm",      "Conv",   "ConvTranspose", "LSTM",       "GRU",       "RNN",
                                       "FusedMatMul", "FusedConv", "Einsum", "Attention",     "DeformConv", "FusedGemm", NULL};
static const char *const norms[] = {"BatchNormalization",
                                    "LayerNormalization",
                                    "InstanceNormalization",
                                    "GroupNormalization",
                                    "RMSNormalization",
                                    "SimplifiedLayerNormalization",
                                    "SkipLayerNormalization",
                                    "SkipSimplifiedLayerNormalization",
                                    NULL};

static bool has_candidate_weight(const Roles *r, const OnnxNode *node)
{
    for (int k = 0; k < node->n_inputs; k++) {
        const char *name = node->inputs[k];
        for (int depth = 0; depth < 8; depth++) {
            if (map_has(r->candidates, name)) return true;
            const OnnxNode *maker = map_get(r->sources, arena_text(r->arena, "maker:%s", name));
            if (!maker || !passes_through(maker, 0)) break;
            name = maker->inputs[0];
        }
    }
    return false;
}

static Source source_after(Roles *r, const OnnxNode *node)
{
    static const char *const shapes[] = {"Shape", "Size",    "ArgMax",          "ArgMin", "NonZero",
                                         "Range", "EyeLike", "ConstantOfShape", NULL};
    Source most = FROM_NOTHING;
    if (is_one_of(node->op_type, shapes) && !node->domain[0]) return FROM_NOTHING;
    for (int k = 0; k < node->n_inputs; k++)
        if (source_of(r, node->inputs[k]) > most) most = source_of(r, node->inputs[k]);
    if (!strcmp(node->op_type, "STFT") || !strcmp(node->op_type, "DFT")) return FROM_SPECTRUM;
    if (is_fourier_basis(r, node)) return FROM_SPECTRUM;
    if ((!strcmp(node->op_type, "Gather") || !strcmp(node->op_type, "GatherND")) && has_candidate_weight(r, node)) {
        const Candidate *table = map_get(r->candidates, node->inputs[0]);
        return table && table->tensor->rank < 2 ? most : FROM_LEARNED;
    }
    if (most == FROM_NOTHING) return FROM_NOTHING;
    if (!strcmp(node->op_type, "MatMul") && node->n_inputs == 2) {
        const Candidate *c = map_get(r->candidates, node->inputs[1]);
        if (c && is_filter_bank(r, c, node)) return FROM_SPECTRUM;
    }
    if ((is_one_of(node->op_type, weighted) || is_one_of(node->op_type, norms)) && has_candidate_weight(r, node))
        return FROM_LEARNED;
    return most;
}

static void find_sources(Roles *r, OnnxGraph *graph)
{
    for (int i = 0; i < graph->n_inputs; i++)
        if (is_float(graph->inputs[i].elem_type) && !graph->inputs[i].is_initializer)
            map_set(r->sources, graph->inputs[i].name, (void *)(intptr_t)FROM_DATA);
    for (int i = 0; i < graph->n_nodes; i++) {
        OnnxNode *node = graph->nodes[i];
        Source most = source_after(r, node);
        each_subgraph(node, find_sources, r);
        for (int k = 0; k < node->n_attributes; k++) /* an If is as learned as what its branches give */
            for (int o = 0; node->attributes[k].g && o < node->attributes[k].g->n_outputs; o++) {
                Source inner = source_of(r, node->attributes[k].g->outputs[o].name);
                if (inner > most) most = inner;
            }
        for (int k = 0; k < node->n_outputs; k++) {
            if (!node->outputs[k][0]) continue;
            map_set(r->sources, node->outputs[k], (void *)(intptr_t)most);
            map_set(r->sources, arena_text(r->arena, "maker:%s", node->outputs[k]), node);
        }
    }
}

/* ---- roles ---- */
static bool vector_like(const OnnxTensor *t)
{
    int wide = 0;
    for (int i = 0; i < t->rank; i++) wide += t->dims[i] > 1;
    return wide == 1;
}

static const char *node_name(const OnnxNode *node)
{
    return node->name[0] ? node->name : node->n_outputs ? node->outputs[0] : node->op_type;
}

static const char *role_text(Roles *r, const char *what, const OnnxNode *node)
{
    return arena_text(r->arena, "%s of \"%s\" (%s)", what, node_name(node), node->op_type);
}

typedef struct Verdict {
    bool trains, statistics;
    const char *reason, *init;
} Verdict;

static Verdict verdict_weighted(Roles *r, const Candidate *c, const Use *use)
{
    const OnnxNode *node = use->node;
    const bool recurrent = !strcmp(node->op_type, "LSTM") || !strcmp(node->op_type, "GRU") || !strcmp(node->op_type, "RNN");
    if (recurrent) {
        if (use->input == 1 || use->input == 2) return (Verdict){true, false, role_text(r, "weight", node), "matrix"};
        if (use->input == 3) return (Verdict){true, false, role_text(r, "bias", node), "bias"};
        if (use->input == 7) return (Verdict){true, false, role_text(r, "peephole", node), "bias"};
        return (Verdict){false, false, role_text(r, "initial state or length", node), "bias"};
    }
    if (is_fourier_basis(r, node))
        return (Verdict){false, false, role_text(r, "Fourier basis over raw data: weight", node), "matrix"};
    const bool bias =
        (use->input == 2 && strcmp(node->op_type, "Einsum")) || (!strcmp(node->op_type, "DeformConv") && use->input == 3);
    if (bias) return (Verdict){true, false, role_text(r, "bias", node), "bias"};
    if (!strncmp(node->op_type, "Conv", 4) && use->input == 0) return (Verdict){false, false, role_text(r, "data", node), "matrix"};
    for (int k = 0; k < 2 && k < node->n_inputs; k++)
        if (k != use->input && source_of(r, node->inputs[k]) == FROM_NOTHING)
            return (Verdict){false, false, role_text(r, "multiplied with positions or masks, not with data: operand", node),
                             "matrix"};
    if (use->input == 1 && is_filter_bank(r, c, node))
        return (Verdict){false, false, role_text(r, "filter bank behind a spectrum: matrix", node), "matrix"};
    return (Verdict){true, false, role_text(r, "weight", node), "matrix"};
}

/* PyTorch writes GroupNorm as Reshape, InstanceNormalization with ones and zeros a group, Reshape, and the gain and shift behind
 * it. */
static bool is_group_norm_filler(Roles *r, const Candidate *c, const OnnxNode *node)
{
    if (strcmp(node->op_type, "InstanceNormalization") || !c->constant_filled) return false;
    const OnnxNode *before = map_get(r->sources, arena_text(r->arena, "maker:%s", node->inputs[0]));
    const Readers *after = map_get(r->readers, node->outputs[0]);
    return before && !strcmp(before->op_type, "Reshape") && after && after->n == 1 &&
           !strcmp(after->at[0].node->op_type, "Reshape");
}

static Verdict verdict_norm(Roles *r, const Candidate *c, const Use *use)
{
    const OnnxNode *node = use->node;
    const bool skip = !strncmp(node->op_type, "Skip", 4);
    const int gain = skip ? 2 : 1, shift = skip ? 3 : 2;
    if (!strcmp(node->op_type, "BatchNormalization") && use->input >= 3)
        return (Verdict){false, true, role_text(r, use->input == 3 ? "running mean" : "running variance", node),
                         use->input == 3 ? "bias" : "gain"};
    if (is_group_norm_filler(r, c, node))
        return (Verdict){false, false, role_text(r, "group norm written out, gain and shift follow it: filler", node),
                         use->input == gain ? "gain" : "bias"};
    if (use->input == gain) return (Verdict){true, false, role_text(r, "gain", node), "gain"};
    if (use->input >= shift) return (Verdict){true, false, role_text(r, "bias", node), "bias"};
    return (Verdict){false, false, role_text(r, "data", node), "matrix"};
}

/* A constant that is added or multiplied: bias, gain, position table, learnable scalar; or just a number. */
static Verdict verdict_elementwise(Roles *r, const Candidate *c, const Use *use)
{
    const OnnxNode *node = use->node;
    const bool multiplied = !strcmp(node->op_type, "Mul") || !strcmp(node->op_type, "Div");
    const char *what = multiplied ? "gain" : "bias", *init = multiplied ? "gain" : "bias";
    Source other = FROM_NOTHING;
    for (int k = 0; k < node->n_inputs; k++)
        if (k != use->input && source_of(r, node->inputs[k]) > other) other = source_of(r, node->inputs[k]);
    if (other != FROM_LEARNED)
        return (Verdict){false, false,
                         arena_text(r->arena, "\"%s\" (%s) joins it with %s", node_name(node), node->op_type,
                                    other == FROM_NOTHING ? "shapes, positions or masks" : "raw data"),
                         init};
    if (c->tensor->count == 1) {
        static const char *const numbers[] = {"zeros", "ones", "zero", "one", "eps", "epsilon", "half", "two", NULL};
        const bool named = !name_is_generated(c->name) && !is_one_of(c->name, numbers);
        return (Verdict){named, false, named ? role_text(r, "scalar with a name of its own", node) : role_text(r, "number", node),
                         init};
    }
    if (c->tensor->rank == 0 || (name_is_generated(c->name) && !vector_like(c->tensor)))
        return (Verdict){false, false, role_text(r, "table with a made-up name: operand", node), init};
    return (Verdict){true, false, role_text(r, vector_like(c->tensor) ? what : "table added or multiplied: operand", node),
                     vector_like(c->tensor) ? init : "matrix"};
}

static Verdict verdict_of(Roles *r, const Candidate *c, const Use *use)
{
    static const char *const elementwise[] = {"Add", "Sub", "Mul", "Div", "Sum", "BiasGelu", "FastGelu", NULL};
    const OnnxNode *node = use->node;
    if (is_one_of(node->op_type, weighted)) return verdict_weighted(r, c, use);
    if (is_one_of(node->op_type, norms)) return verdict_norm(r, c, use);
    if (!strcmp(node->op_type, "PRelu") && use->input == 1) return (Verdict){true, false, role_text(r, "slope", node), "bias"};
    if ((!strcmp(node->op_type, "Gather") || !strcmp(node->op_type, "GatherND")) && use->input == 0 && c->tensor->rank >= 2)
        return (Verdict){true, false, role_text(r, "table of embeddings", node), "matrix"};
    if (is_one_of(node->op_type, elementwise)) return verdict_elementwise(r, c, use);
    if (!strcmp(node->op_type, "Concat") && c->tensor->count > 1 && !name_is_generated(c->name)) {
        for (int k = 0; k < node->n_inputs; k++)
            if (source_of(r, node->inputs[k]) == FROM_LEARNED)
                return (Verdict){true, false, role_text(r, "token joined", node), "matrix"};
    }
    return (Verdict){false, false, arena_text(r->arena, "constant of \"%s\" (%s)", node_name(node), node->op_type), "bias"};
}

static void judge(Roles *r, Candidate *c)
{
    c->constant_filled = all_equal(c->tensor);
    c->reason = "nothing reads it", c->init = "matrix";
    for (int i = 0; i < c->uses.n; i++) {
        const Verdict v = verdict_of(r, c, &c->uses.at[i]);
        if (i == 0 || (v.trains && !c->trains)) c->reason = v.reason, c->init = v.init;
        c->trains |= v.trains;
        c->statistics |= v.statistics;
    }
    if (c->statistics) c->trains = false;
}

void find_roles(Arena *arena, OnnxModel *model, Candidates *out)
{
    Roles r = {arena, map_new(arena), map_new(arena), map_new(arena), out};
    collect(&r, model->graph);
    index_readers(&r, model->graph);
    find_sources(&r, model->graph);
    for (int i = 0; i < out->n; i++) {
        follow(&r, out->at[i], out->at[i]->name, NULL, 0);
        judge(&r, out->at[i]);
    }
}
