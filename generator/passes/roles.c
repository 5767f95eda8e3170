/* Roles: for each float constant of the model the operations that work with it, and from them whether it is a parameter.
 *
 * Needs: a model as onnx_read leaves it.  Changes nothing in it but names of subgraphs' constants that two graphs share.
 *
 * A weight operand of MatMul, Conv, LSTM… trains, also where arithmetic on constants alone makes it (a weight norm's v and g).  A
 * vector added or multiplied trains when the other operand comes from something learned, so that a normalisation of raw inputs, or
 * rotary tables made of positions, stay as they are. */
#include "passes/roles.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* What a value of the model comes from. */
typedef enum {
    FROM_NOTHING = 0, /* shapes, positions, constants: nothing of the batch's elements */
    FROM_INTEGERS,    /* an integer or bool input: pixels, time steps, positions, masks */
    FROM_DATA,        /* a float input, nothing learned yet */
    FROM_SPECTRUM,    /* a fixed filter bank over raw data: what STFT layers make */
    FROM_LEARNED      /* a weight has worked on it */
} Source;

typedef struct Roles {
    Arena *arena;
    Map *candidates; /* name -> Candidate */
    Map *readers;    /* name -> Readers */
    Map *sources;    /* name -> (void *)Source */
    Map *makers;     /* name -> OnnxNode */
    Map *constants;  /* names of what constants alone make */
    const OnnxGraph *main;
    Source outer; /* of what enters the body being read */
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

/* ---- collecting ---- */
static Candidate *add_candidate(Roles *r, OnnxGraph *graph, OnnxTensor *tensor, const char *name, OnnxNode *node)
{
    Candidate *c = NEW(r->arena, Candidate);
    c->name = name, c->tensor = tensor, c->graph = graph, c->node = node;
    map_set(r->candidates, name, c);
    vec_push(r->arena, r->list, c);
    return c;
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

static bool is_view(const OnnxNode *node)
{
    static const char *const views[] = {
        "Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Cast",           "CastLike",         "Flatten", "Slice", "Dropout", "Resize", "Upsample",
        "Split",    "Expand",    "Tile",    "Pad",     "Concat",    "QuantizeLinear", "DequantizeLinear", NULL};
    return !node->domain[0] && is_one_of(node->op_type, views);
}

/* Arithmetic that makes a weight of weights: weight norms, standardised weights, equalised learning rates, low-rank factors, the
 * exponential of a logarithm that is learned, weights of a mixture. */
static bool is_weight_arithmetic(const OnnxNode *node)
{
    static const char *const arithmetic[] = {
        "Add",      "Sub",     "Mul",       "Div",        "Neg",       "Sqrt",     "Pow",
        "Exp",      "Log",     "ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceSumSquare",
        "Clip",     "Max",     "Min",       "Sum",        "Mean",      "Abs",      "Reciprocal",
        "Tanh",     "Sigmoid", "Softplus",  "Relu",       "LeakyRelu", "Elu",      "HardSigmoid",
        "Softsign", "Softmax", "Trilu",     "Where",      "ReduceL1",  "Mish",     "LayerNormalization",
        NULL};
    return !node->domain[0] && is_one_of(node->op_type, arithmetic);
}

/* What keeps a learned number positive, or within bounds. */
static bool bends(const OnnxNode *node)
{
    static const char *const bending[] = {"Exp", "Softplus", "Sigmoid", "Tanh", "Softmax", "Elu", "HardSigmoid", NULL};
    return !node->domain[0] && is_one_of(node->op_type, bending);
}

static bool is_constant(const Roles *r, const char *name)
{
    return !name[0] || map_has(r->constants, name);
}

/* Whether an exporter made the name up.  The script exporter, which calls nodes /block/Add, calls no constant after arithmetic: there
 * "mul" is a parameter. */
static bool is_generated(const Candidate *c, const OnnxNode *reader)
{
    return name_is_generated(c->name) && !(reader->name[0] == '/' && name_is_result(c->name));
}

static const Candidate *behind_views(const Roles *r, const char *name)
{
    for (int depth = 0; depth < 8; depth++) {
        const Candidate *c = map_get(r->candidates, name);
        const OnnxNode *maker = map_get(r->makers, name);
        if (c || !maker || !is_view(maker)) return c;
        name = maker->inputs[0];
    }
    return NULL;
}

/* Elements of a vector at places that are constants: log_variance[0]. */
static bool is_pick(const Roles *r, const OnnxNode *node)
{
    if (strcmp(node->op_type, "Gather") || node->domain[0] || node->n_inputs < 2 || !is_constant(r, node->inputs[1])) return false;
    const Candidate *c = behind_views(r, node->inputs[0]);
    return c && c->tensor->rank == 1;
}

/* A table that is looked up: of embeddings, or of one number each, as biases of users. */
static bool is_table(const OnnxTensor *t)
{
    return t->rank > 1 ? !elements_are_sines(t) : t->rank == 1 && t->count > 1 && !name_is_generated(t->name) && !elements_rise_or_fall(t);
}

/* Whether the constant c lives on in what node makes of it, for the nodes behind. */
static bool passes_through(const Roles *r, const Candidate *c, const OnnxNode *node, int input)
{
    const bool number = c->tensor->count == 1 && is_generated(c, node);
    if (is_view(node)) /* the others of a Concat may be data: then it is a class token */
        return strcmp(node->op_type, "Concat") ? input == 0 : is_constant(r, node->outputs[0]) && !number;
    if (is_pick(r, node)) return input == 0 && !is_generated(c, node);
    if (!is_weight_arithmetic(node) || !is_constant(r, node->outputs[0]) || number || elements_are_mask(c->tensor)) return false;
    return strcmp(node->op_type, "LayerNormalization") || input == 0;
}

static bool has_use(const Candidate *c, const Use *use)
{
    for (int i = 0; i < c->uses.n; i++)
        if (c->uses.at[i].node == use->node && c->uses.at[i].input == use->input && c->uses.at[i].taker == use->taker &&
            c->uses.at[i].taker_input == use->taker_input)
            return true;
    return false;
}

static void follow(Roles *r, Candidate *c, const char *name, const Use *through, int depth)
{
    const Readers *list = map_get(r->readers, name);
    for (int i = 0; list && i < list->n; i++) {
        const Reader *reader = &list->at[i];
        const bool first = !through || !strcmp(through->taker->op_type, "Identity");
        Use use = first ? (Use){.taker = reader->node, .taker_input = reader->input, .graph = reader->graph} : *through;
        use.node = reader->node, use.input = reader->input;
        if (passes_through(r, c, reader->node, reader->input) && depth < 16) {
            use.computed |= !is_view(reader->node) && !is_pick(r, reader->node);
            use.bent |= bends(reader->node);
            for (int k = 0; k < reader->node->n_outputs; k++) follow(r, c, reader->node->outputs[k], &use, depth + 1);
        } else if (!has_use(c, &use))
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
        static const char *const moves[] = {"Slice",   "Split",   "Identity", "Transpose", "Unsqueeze",
                                            "Squeeze", "Reshape", "Cast",     NULL};
        if (!strcmp(node->op_type, "Pow") && list->at[i].input == 0) {
            const Candidate *exponent = map_get(r->candidates, node->inputs[1]);
            if (exponent && exponent->tensor->count == 1 && exponent->tensor->type == ONNX_FLOAT && exponent->tensor->data &&
                *(const float *)exponent->tensor->data == 2)
                return true;
        }
        if (!strcmp(node->op_type, "Mul") && node->n_inputs == 2 && !strcmp(node->inputs[0], node->inputs[1])) return true;
        if (is_one_of(node->op_type, moves) && depth < 12)
            for (int k = 0; k < node->n_outputs; k++)
                if (leads_to_square(r, node->outputs[k], depth + 1)) return true;
    }
    return false;
}

/* An STFT written as a convolution: no bias, straight on raw data, its results squared (and added) at once. */
static bool is_fourier_basis(const Roles *r, const OnnxNode *node)
{
    if (strcmp(node->op_type, "Conv") || node->n_inputs != 2) return false;
    const Source x = source_of(r, node->inputs[0]);
    return (x == FROM_DATA || x == FROM_INTEGERS) && leads_to_square(r, node->outputs[0], 0);
}

/* Mel filters behind a spectrum. */
static bool is_filter_bank(const Roles *r, const Candidate *c, const OnnxNode *node)
{
    return source_of(r, node->inputs[0]) == FROM_SPECTRUM && elements_are_filters(c->tensor);
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
    for (int k = 0; k < node->n_inputs; k++)
        if (node->inputs[k][0] && (behind_views(r, node->inputs[k]) || map_has(r->constants, node->inputs[k]))) return true;
    return false;
}

static bool vector_like(const OnnxTensor *t)
{
    int wide = 0;
    for (int i = 0; i < t->rank; i++) wide += t->dims[i] > 1;
    return wide == 1;
}

/* A product of two constants, both matrices: learned queries times a weight, low-rank factors.  A vector times positions is no such
 * thing: those are the angles of sines. */
static bool is_product_of_weights(const Roles *r, const OnnxNode *node)
{
    if (node->n_inputs < 2 || !is_one_of(node->op_type, weighted)) return false;
    for (int k = 0; k < 2; k++) {
        const Candidate *c = behind_views(r, node->inputs[k]);
        if (c ? c->tensor->count < 2 || vector_like(c->tensor) : !map_has(r->constants, node->inputs[k])) return false;
    }
    return true;
}

/* A product of constants with a vector: what a spectral norm divides its weight by. */
static bool is_norm_of_weight(const Roles *r, const OnnxNode *node)
{
    const bool product = !strcmp(node->op_type, "MatMul") || !strcmp(node->op_type, "Gemm") || !strcmp(node->op_type, "Einsum");
    for (int k = 0; product && k < node->n_inputs; k++)
        if (!map_has(r->constants, node->inputs[k])) return false;
    return product && !is_product_of_weights(r, node);
}

static Source source_after(Roles *r, const OnnxNode *node)
{
    static const char *const shapes[] = {"Shape", "Size",    "ArgMax",          "ArgMin", "NonZero",
                                         "Range", "EyeLike", "ConstantOfShape", NULL};
    Source most = FROM_NOTHING;
    if (is_one_of(node->op_type, shapes) && !node->domain[0]) return FROM_NOTHING;
    for (int k = 0; k < node->n_inputs; k++)
        if (source_of(r, node->inputs[k]) > most) most = source_of(r, node->inputs[k]);
    if (!strcmp(node->op_type, "STFT") || !strcmp(node->op_type, "DFT")) return most == FROM_LEARNED ? most : FROM_SPECTRUM;
    if (is_fourier_basis(r, node)) return FROM_SPECTRUM;
    if (!strncmp(node->op_type, "Gather", 6) && node->n_inputs > 1) {
        const Candidate *table = behind_views(r, node->inputs[0]);
        return table && !is_pick(r, node) && is_table(table->tensor) ? FROM_LEARNED : most;
    }
    if (is_product_of_weights(r, node)) return FROM_LEARNED;
    if (most == FROM_NOTHING) return FROM_NOTHING;
    if (!strcmp(node->op_type, "MatMul") && node->n_inputs == 2) {
        const Candidate *c = map_get(r->candidates, node->inputs[1]);
        if (c && is_filter_bank(r, c, node)) return FROM_SPECTRUM;
        if (c && most == FROM_INTEGERS && vector_like(c->tensor)) return most;
    }
    if ((is_one_of(node->op_type, weighted) || is_one_of(node->op_type, norms)) && has_candidate_weight(r, node))
        return FROM_LEARNED;
    return most;
}

static bool constants_alone(const Roles *r, const OnnxNode *node)
{
    if (!strcmp(node->op_type, "Constant")) return true;
    if (is_pick(r, node) || is_norm_of_weight(r, node)) return true;
    if (!is_view(node) && !is_weight_arithmetic(node)) return false;
    const bool first_alone = strcmp(node->op_type, "Concat") && (is_view(node) || !strncmp(node->op_type, "Reduce", 6));
    for (int k = 0; k < (first_alone ? 1 : node->n_inputs); k++) /* the others are shapes and axes, which may be anything */
        if (!is_constant(r, node->inputs[k])) return false;
    return node->n_inputs > 0;
}

static void find_sources(Roles *r, OnnxGraph *graph)
{
    const Source outer = r->outer;
    for (int i = 0; i < graph->n_inputs; i++) {
        const OnnxValueInfo *input = &graph->inputs[i];
        Source kind = graph == r->main ? FROM_INTEGERS : FROM_NOTHING; /* of a loop's body: the number of the iteration */
        if (is_float(input->elem_type) || !input->elem_type) kind = outer > FROM_DATA ? outer : FROM_DATA;
        if (!input->is_initializer) map_set(r->sources, input->name, (void *)(intptr_t)kind);
    }
    for (int i = 0; i < graph->n_initializers; i++) map_set(r->constants, graph->initializers[i]->name, graph);
    for (int i = 0; i < graph->n_nodes; i++) {
        OnnxNode *node = graph->nodes[i];
        Source most = r->outer = source_after(r, node);
        each_subgraph(node, find_sources, r);
        r->outer = outer;
        for (int k = 0; k < node->n_attributes; k++) /* an If is as learned as what its branches give */
            for (int o = 0; node->attributes[k].g && o < node->attributes[k].g->n_outputs; o++) {
                Source inner = source_of(r, node->attributes[k].g->outputs[o].name);
                if (inner > most) most = inner;
            }
        const bool constant = constants_alone(r, node);
        for (int k = 0; k < node->n_outputs; k++) {
            if (!node->outputs[k][0]) continue;
            map_set(r->sources, node->outputs[k], (void *)(intptr_t)most);
            map_set(r->makers, node->outputs[k], node);
            if (constant) map_set(r->constants, node->outputs[k], node);
        }
    }
}

/* ---- roles ---- */
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

static Verdict frozen_as(const char *reason, const char *init)
{
    return (Verdict){false, false, reason, init};
}

static Verdict verdict_recurrent(Roles *r, const Candidate *c, const Use *use)
{
    const OnnxNode *node = use->node;
    if (use->input == 1 || use->input == 2) return (Verdict){true, false, role_text(r, "weight", node), "matrix"};
    if (use->input == 3) return (Verdict){true, false, role_text(r, "bias", node), "bias"};
    if (use->input == 7) return (Verdict){true, false, role_text(r, "peephole", node), "bias"};
    if (use->input > 4 && c->tensor->count > 1 && !name_is_generated(c->name) && !c->constant_filled)
        return (Verdict){true, false, role_text(r, "learned initial state", node), "bias"};
    return frozen_as(role_text(r, "initial state or length", node), "bias");
}

/* ONNX's Attention takes queries, keys, values, then a mask; the one of com.microsoft data, a weight, a bias, then a mask. */
static Verdict verdict_attention(Roles *r, const Use *use)
{
    const OnnxNode *node = use->node;
    const bool own = !node->domain[0];
    if (use->input == 2 && !own) return (Verdict){true, false, role_text(r, "bias", node), "bias"};
    if (own ? use->input < 3 : use->input == 1)
        return (Verdict){true, false, role_text(r, own ? "learned queries, keys or values" : "weight", node), "matrix"};
    return frozen_as(role_text(r, "mask or past", node), "matrix");
}

/* The other of the first two operands. */
static const char *partner(const Use *use)
{
    return use->input < 2 && use->node->n_inputs > 1 ? use->node->inputs[1 - use->input] : use->node->inputs[0];
}

/* Zeros that dynamo writes, unless it optimises, where a convolution has no bias. */
static bool is_no_bias(const Candidate *c, const OnnxNode *node)
{
    return !strncmp(node->op_type, "Conv", 4) && elements_are_zeros(c->tensor) && name_is_numbered_value(c->name) && !exporter_says_bias(node);
}

static Verdict verdict_weighted(Roles *r, const Candidate *c, const Use *use)
{
    const OnnxNode *node = use->node;
    if (!strcmp(node->op_type, "LSTM") || !strcmp(node->op_type, "GRU") || !strcmp(node->op_type, "RNN"))
        return verdict_recurrent(r, c, use);
    if (!strcmp(node->op_type, "Attention")) return verdict_attention(r, use);
    if (is_fourier_basis(r, node)) return frozen_as(role_text(r, "Fourier basis over raw data: weight", node), "matrix");
    const bool bias =
        (use->input == 2 && strcmp(node->op_type, "Einsum")) || (!strcmp(node->op_type, "DeformConv") && use->input == 3);
    if (bias && is_no_bias(c, node)) return frozen_as(role_text(r, "no bias, zeros in its place: operand", node), "bias");
    if (bias) return (Verdict){true, false, role_text(r, "bias", node), "bias"};
    if (!strncmp(node->op_type, "Conv", 4) && use->input == 0) return frozen_as(role_text(r, "data", node), "matrix");
    const Source other = source_of(r, partner(use));
    if ((other == FROM_NOTHING && !is_product_of_weights(r, node)) || (other == FROM_INTEGERS && vector_like(c->tensor)))
        return frozen_as(role_text(r, "multiplied with positions or masks, not with data: operand", node), "matrix");
    if (use->input == 1 && is_filter_bank(r, c, node))
        return frozen_as(role_text(r, "filter bank behind a spectrum: matrix", node), "matrix");
    return (Verdict){true, false, role_text(r, use->computed ? "part of the weight" : "weight", node), "matrix"};
}

/* PyTorch writes GroupNorm as Reshape, InstanceNormalization with ones and zeros a group, Reshape, and the gain and shift behind
 * it. */
static bool is_group_norm_filler(Roles *r, const Candidate *c, const OnnxNode *node)
{
    if (strcmp(node->op_type, "InstanceNormalization") || !c->constant_filled) return false;
    const OnnxNode *before = map_get(r->makers, node->inputs[0]);
    const Readers *after = map_get(r->readers, node->outputs[0]);
    return before && !strcmp(before->op_type, "Reshape") && after && after->n == 1 &&
           !strcmp(after->at[0].node->op_type, "Reshape");
}

/* What exporters write where a norm has no gain or shift of its own: ones and zeros without a parameter's name.  The script exporter
 * makes Constant nodes of them, and initializers of parameters. */
static bool is_plain_norm_filler(const Candidate *c, const Use *use, double neutral)
{
    if (!elements_are_all(c->tensor, neutral)) return false;
    if (exporter_has_source(use->node)) return exporter_norm_is_plain(use->node);
    return is_one_of(use->node->op_type, norms) && (c->node ? name_is_generated(c->name) : name_is_numbered_value(c->name));
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
        return frozen_as(role_text(r, "group norm written out, gain and shift follow it: filler", node),
                         use->input == gain ? "gain" : "bias");
    if (is_plain_norm_filler(c, use, use->input == gain))
        return frozen_as(role_text(r, use->input == gain ? "no gain, ones in its place: operand" : "no shift, zeros in its place: operand", node),
                         use->input == gain ? "gain" : "bias");
    if (use->input == gain) return (Verdict){true, false, role_text(r, "gain", node), "gain"};
    if (use->input >= shift) return (Verdict){true, false, role_text(r, "bias", node), "bias"};
    return (Verdict){false, false, role_text(r, "data", node), "matrix"};
}

/* onnx::Exp_9: the script exporter computes tables of constants, but no exponentials; it renames a parameter that it casts. */
static bool is_renamed_by_script(const char *name)
{
    return !strncmp(name, "onnx::", 6);
}

/* A constant that is added or multiplied: bias, gain, position table, learnable scalar; or just a number. */
static Verdict verdict_elementwise(Roles *r, const Candidate *c, const Use *use)
{
    const OnnxNode *node = use->node;
    const OnnxTensor *t = c->tensor;
    const bool multiplied = !strcmp(node->op_type, "Mul") || !strcmp(node->op_type, "Div"), vector = vector_like(t);
    const char *what = multiplied ? "gain" : "bias";
    Source other = FROM_NOTHING;
    for (int k = 0; k < node->n_inputs; k++)
        if (k != use->input && source_of(r, node->inputs[k]) > other) other = source_of(r, node->inputs[k]);
    if (other != FROM_LEARNED)
        return frozen_as(arena_text(r->arena, "\"%s\" (%s) joins it with %s", node_name(node), node->op_type,
                                    other == FROM_NOTHING ? "shapes, positions or constants" : "raw data"),
                         what);
    if (t->count == 1) {
        const bool named = !is_generated(c, node);
        return (Verdict){named, false, role_text(r, named ? "named scalar" : "number", node), what};
    }
    if (is_plain_norm_filler(c, use, multiplied))
        return frozen_as(role_text(r, "a norm without gain or shift, filler in its place: operand", node), what);
    if (name_is_statistic(c->name)) return frozen_as(role_text(r, "a statistic, by its name: operand", node), what);
    if (elements_are_mask(t)) return frozen_as(role_text(r, "mask of two values: operand", node), what);
    if (elements_are_sines(t)) return frozen_as(role_text(r, "table of sines: operand", node), what);
    if (multiplied && is_generated(c, node) && elements_are_zeros(t)) return frozen_as(role_text(r, "zeros: operand", node), what);
    if (use->computed && is_generated(c, node) && !(use->bent && is_renamed_by_script(c->name)))
        return frozen_as(role_text(r, "part of a computed table: operand", node), what);
    if (use->computed) return (Verdict){true, false, role_text(r, multiplied ? "part of a gain" : "part of a bias", node), "matrix"};
    if (!vector && is_generated(c, node) && (multiplied || elements_are_even(t)))
        return frozen_as(role_text(r, "table with a made-up name: operand", node), what);
    return (Verdict){true, false,
                     role_text(r,
                               vector       ? what
                               : multiplied ? "multiplied table"
                                            : "added table",
                               node),
                     vector ? what : "matrix"};
}

static Verdict verdict_table(Roles *r, const Candidate *c, const OnnxNode *node)
{
    if (elements_are_sines(c->tensor)) return frozen_as(role_text(r, "table of sines", node), "matrix");
    return (Verdict){true, false, role_text(r, "table of embeddings", node), "matrix"};
}

/* A named constant that shapes what something learned gives: an exponent, a threshold, what masked tokens are replaced by. */
static bool is_shape(const Roles *r, const Candidate *c, const Use *use)
{
    const OnnxNode *node = use->node;
    const bool chosen = !strcmp(node->op_type, "Where");
    bool learned = false;
    for (int k = chosen; k < node->n_inputs; k++) learned |= k != use->input && source_of(r, node->inputs[k]) == FROM_LEARNED;
    if (!learned || is_generated(c, node) || name_is_statistic(c->name) || elements_are_mask(c->tensor)) return false;
    return !chosen || (use->input > 0 && c->tensor->count > 1 && !c->constant_filled);
}

static Verdict verdict_of(Roles *r, const Candidate *c, const Use *use)
{
    static const char *const elementwise[] = {"Add", "Sub", "Mul", "Div", "Sum", "BiasGelu", "FastGelu", NULL};
    static const char *const shaping[] = {"Pow", "Max", "Min", "Mean", "Where", NULL};
    const OnnxNode *node = use->node;
    if (is_one_of(node->op_type, weighted)) return verdict_weighted(r, c, use);
    if (is_one_of(node->op_type, norms)) return verdict_norm(r, c, use);
    if (!strcmp(node->op_type, "PRelu") && use->input == 1) return (Verdict){true, false, role_text(r, "slope", node), "bias"};
    const bool looked_up = use->input == 0 && (!strcmp(node->op_type, "Gather") || !strcmp(node->op_type, "GatherND"));
    if (looked_up && (c->tensor->rank >= 2 || is_table(c->tensor))) return verdict_table(r, c, node);
    if (is_one_of(node->op_type, shaping) && is_shape(r, c, use))
        return (Verdict){true, false, role_text(r, "learned operand", node), "matrix"};
    if (is_one_of(node->op_type, elementwise)) return verdict_elementwise(r, c, use);
    if (!strcmp(node->op_type, "Concat") && c->tensor->count > 1 && !is_generated(c, node)) {
        for (int k = 0; k < node->n_inputs; k++)
            if (source_of(r, node->inputs[k]) == FROM_LEARNED)
                return (Verdict){true, false, role_text(r, "learned token", node), "matrix"};
    }
    return frozen_as(arena_text(r->arena, "constant of \"%s\" (%s)", node_name(node), node->op_type), "bias");
}

/* PyTorch trains no buffer.  A parameter it trains wherever it stands, but it may have been told not to: tables made by rule. */
static void heed_exporter(Roles *r, Candidate *c)
{
    const bool by_rule = elements_are_sines(c->tensor) || elements_are_mask(c->tensor) || elements_are_filters(c->tensor);
    for (int i = 0; i < c->uses.n && !c->statistics; i++) {
        Use *use = &c->uses.at[i];
        char kind = exporter_kind(use->taker, c->name);
        if (!kind) kind = exporter_kind(use->node, c->name);
        if (!kind || use->trains == (kind == 'p') || (kind == 'p' && by_rule)) continue;
        use->trains = kind == 'p';
        use->reason = arena_text(r->arena, use->trains ? "a parameter in PyTorch (%s)" : "a buffer in PyTorch (%s)", use->reason);
    }
}

static void judge(Roles *r, Candidate *c)
{
    c->constant_filled = elements_equal(c->tensor);
    c->reason = "no operation on data reads it", c->init = "matrix";
    for (int i = 0; i < c->uses.n; i++) {
        Use *use = &c->uses.at[i];
        const Verdict v = verdict_of(r, c, use);
        use->trains = v.trains, use->reason = v.reason, use->init = v.init;
        c->statistics |= v.statistics;
    }
    heed_exporter(r, c);
    for (int i = 0; i < c->uses.n; i++) {
        const Use *use = &c->uses.at[i];
        if (i == 0 || (use->trains && !c->trains)) c->reason = use->reason, c->init = use->init;
        c->trains |= use->trains;
    }
    if (c->statistics) c->trains = false;
}

void find_roles(Arena *arena, OnnxModel *model, Candidates *out)
{
    Roles r = {.arena = arena,
               .candidates = map_new(arena),
               .readers = map_new(arena),
               .sources = map_new(arena),
               .makers = map_new(arena),
               .constants = map_new(arena),
               .list = out,
               .main = model->graph};
    collect(&r, model->graph);
    index_readers(&r, model->graph);
    find_sources(&r, model->graph);
    for (int i = 0; i < out->n; i++) {
        follow(&r, out->at[i], out->at[i]->name, NULL, 0);
        judge(&r, out->at[i]);
    }
}
