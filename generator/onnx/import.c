/* The importer's framework: walks the nodes of a model, finds each operator's function in onnx/ops.def, and keeps what operator
 * functions ask for: inputs, known elements, attributes, outputs.
 * Needs: a model as onnx_read leaves it, and names for all its dims (pass_dims) where the user should be able to speak of them. */
#include "onnx/short_float.h"
#include "onnx/terms.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ONNX(domain, op, function, types) ImportFunction function;
#include "onnx/ops.def"

typedef struct Row {
    const char *domain, *op;
    ImportFunction *function;
    const char *types;
} Row;
static const Row rows[] = {
#define ONNX(domain, op, function, types) {domain, op, function, types},
#include "onnx/ops.def"
    {NULL, NULL, NULL, NULL}};

static const Row *row_of(const OnnxNode *node)
{
    for (const Row *r = rows; r->op; r++)
        if (strcmp(r->op, node->op_type) == 0 && strcmp(r->domain, node->domain) == 0) return r;
    return NULL;
}

/* ---- messages ---- */
void import_error(Import *im, const OnnxNode *node, const char *format, ...)
{
    char text[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    error_exit("%s: %s: %s", im->model->path, node_label(im->arena, node), text);
}

const char *shape_text(Import *im, Expr *const *shape, int rank)
{
    Buf b = {.arena = im->arena};
    buf_put(&b, "[");
    for (int i = 0; i < rank; i++) {
        if (i) buf_put(&b, ", ");
        expr_print(&b, shape[i]);
    }
    buf_put(&b, "]");
    return buf_text(&b);
}

const char *type_text(Import *im, const Value *v)
{
    return arena_text(im->arena, "%s%s", dtype_name(v->dtype), shape_text(im, v->shape, v->rank));
}

void report_line(ImportReport *report, const char *format, ...)
{
    char text[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!report->seen) report->seen = map_new(report->arena);
    if (map_has(report->seen, text)) return;
    map_set(report->seen, text, report);
    vec_push(report->arena, &report->lines, arena_copy(report->arena, text, strlen(text)));
}

/* ---- element types ---- */
Dtype dtype_of_onnx(int onnx_type)
{
    switch (onnx_type) {
    case ONNX_FLOAT: return DTYPE_f32;
    case ONNX_DOUBLE: return DTYPE_f64;
    case ONNX_FLOAT16: return DTYPE_f16;
    case ONNX_BFLOAT16: return DTYPE_bf16;
    case ONNX_INT8: return DTYPE_i8;
    case ONNX_INT16: return DTYPE_i16;
    case ONNX_INT32: return DTYPE_i32;
    case ONNX_INT64: return DTYPE_i64;
    case ONNX_UINT8: return DTYPE_u8;
    case ONNX_UINT16: return DTYPE_u16;
    case ONNX_UINT32: return DTYPE_u32;
    case ONNX_UINT64: return DTYPE_u64;
    case ONNX_BOOL: return DTYPE_bool;
    default: return DTYPES_COUNT;
    }
}

Dtype import_dtype(Import *im, const OnnxNode *node, int onnx_type, const char *what)
{
    Dtype d = dtype_of_onnx(onnx_type);
    if (d == DTYPE_f16 || d == DTYPE_bf16) {
        report_line(im->report, "the model has %s tensors; they are kept and computed as float32", onnx_type_name(onnx_type));
        return DTYPE_f32;
    }
    if (is_short_float(onnx_type)) {
        report_line(im->report, "the model has %s tensors; they are rounded to it, but kept and computed as float32",
                    onnx_type_name((OnnxType)onnx_type));
        return DTYPE_f32;
    }
    if (onnx_type == ONNX_INT4 || onnx_type == ONNX_INT2) return DTYPE_i8;
    if (onnx_type == ONNX_UINT4 || onnx_type == ONNX_UINT2) return DTYPE_u8;
    if (d != DTYPES_COUNT) return d;
    const char *wanted = "wanted float, double, float16, bfloat16, bool, or an integer type; change it in the model";
    if (node) import_error(im, node, "%s has element type %s; %s", what, onnx_type_name(onnx_type), wanted);
    error_exit("%s: %s has element type %s; %s", im->model->path, what, onnx_type_name(onnx_type), wanted);
}

/* Letters of ops.def: f float, i signed, u unsigned, b bool, * any. */
static bool dtype_allowed(Dtype d, const char *types)
{
    char letter = dtype_is_float(d) ? 'f' : d == DTYPE_bool ? 'b' : dtype_is_signed(d) ? 'i' : 'u';
    return strchr(types, '*') || strchr(types, letter);
}

static const char *types_text(Import *im, const char *types)
{
    Buf b = {.arena = im->arena};
    for (const char *t = types; *t; t++)
        buf_printf(&b, "%s%s",
                   t == types ? ""
                   : t[1]     ? ", "
                              : " or ",
                   *t == 'f'   ? "float"
                   : *t == 'i' ? "signed integer"
                   : *t == 'u' ? "unsigned integer"
                               : "bool");
    return buf_text(&b);
}

/* ---- inputs ---- */
int opset(const Import *im, const OnnxNode *node)
{
    return node->opset ? node->opset : strcmp(node->domain, "") == 0 ? im->model->opset : 1;
}

bool has_input(const OnnxNode *node, int i)
{
    return i >= 0 && i < node->n_inputs && node->inputs[i][0];
}

Term *input_term(Import *im, const OnnxNode *node, int i)
{
    if (!has_input(node, i)) import_error(im, node, "%s needs input %d, which is not given", node->op_type, i);
    return scope_find(im, node->inputs[i]);
}

Value *input(Import *im, const OnnxNode *node, int i)
{
    Term *t = input_term(im, node, i);
    if (t->is_sequence || t->is_absent)
        import_error(im, node, "input %d (\"%s\") is %s; wanted a tensor", i, node->inputs[i],
                     t->is_sequence ? "a sequence" : "an empty optional");
    return term_value(im, t);
}

Expr *const *input_exprs(Import *im, const OnnxNode *node, int i, int *n)
{
    Term *t = input_term(im, node, i);
    *n = t->content ? (int)term_count(t) : -1;
    return t->content;
}

/* What the model's author can do about it. */
static const char *way_out(Import *im, const OnnxNode *node)
{
    bool in_loop = false;
    for (const Body *b = im->scope->body; b; b = b->outer) in_loop |= b->iteration != NULL;
    if (strcmp(node->op_type, "Slice") || !in_loop) return "";
    return ". PyTorch's EmbeddingBag is exported as a loop over such slices: Embedding and a sum or mean over each bag, all of one size, "
           "comes without";
}

Expr *const *input_exprs_or_error(Import *im, const OnnxNode *node, int i, int *n, const char *what)
{
    Expr *const *e = input_exprs(im, node, i, n);
    if (!e)
        import_error(
            im, node,
            "%s (input %d, \"%s\", %s) is computed from data; it must follow from constants and the sizes of inputs, so that "
            "shapes are known before a step runs%s",
            what, i, node->inputs[i], term_text(im, input_term(im, node, i)), way_out(im, node));
    return e;
}

const int64_t *ints_from(Import *im, const OnnxNode *node, const char *name, int i, int *n)
{
    if (name && attr_has(node, name)) return attr_ints(node, name, n);
    *n = 0;
    if (!has_input(node, i)) return NULL;
    Expr *const *e = input_exprs_or_error(im, node, i, n, name ? name : "an integer list");
    int64_t *values = NEW_ARRAY(im->arena, int64_t, *n + 1);
    if (!all_ints(e, *n, values))
        import_error(im, node, "%s (input %d, \"%s\") are %s; they must be plain integers", name ? name : "the integers", i,
                     node->inputs[i], shape_text(im, e, *n));
    return values;
}

bool input_number(Import *im, const OnnxNode *node, int i, double *value)
{
    Term *t = input_term(im, node, i);
    int64_t known;
    if (t->content && term_count(t) == 1 && expr_is_int(t->content[0], &known)) {
        *value = (double)known;
        return true;
    }
    if (t->tensor && t->tensor->count == 1 && t->tensor->data) {
        *value = tensor_number(t->tensor, 0);
        return true;
    }
    return t->value && value_is_scalar_constant(t->value, value);
}

int normal_axis(Import *im, const OnnxNode *node, int64_t axis, int rank)
{
    if (axis < -rank || axis >= rank)
        import_error(im, node, "axis %lld of a tensor of rank %d; wanted %d to %d", (long long)axis, rank, -rank, rank - 1);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- outputs ---- */
bool wants_output(const OnnxNode *node, int i)
{
    return i < node->n_outputs && node->outputs[i][0];
}

void output_term(Import *im, const OnnxNode *node, int i, Term *term)
{
    if (wants_output(node, i)) scope_define(im, node->outputs[i], term);
}

void output(Import *im, const OnnxNode *node, int i, Value *value)
{
    if (!wants_output(node, i)) return;
    if (value->origin == FROM_OP && (!value->name || !value->name[0])) value->name = node->outputs[i];
    output_term(im, node, i, term_of_value(im, value));
}

void output_content(Import *im, const OnnxNode *node, int i, Dtype dtype, int rank, Expr *const *shape, Expr *const *content)
{
    output_term(im, node, i, term_of_content(im, dtype, rank, shape, content));
}

/* ---- nodes ---- */
enum { NEWEST_OPSET = 28 };
static void import_node(Import *im, const OnnxNode *node)
{
    const Row *row = row_of(node);
    check(row);
    int version = opset(im, node);
    bool since_1 = strcmp(node->op_type, "Not") == 0; /* has not changed since opset 1 */
    if (!node->domain[0] && version < 7 && !since_1)
        import_error(im, node, "opset %d; wanted 7 or later: convert the model with onnx.version_converter", version);
    if (!node->domain[0] && version > NEWEST_OPSET)
        import_error(im, node,
                     "opset %d, and %s may mean something else there than up to opset %d, which is known: export the model again "
                     "with opset_version=%d, or convert it with onnx.version_converter",
                     version, node->op_type, NEWEST_OPSET, NEWEST_OPSET);
    if (has_input(node, 0)) {
        Term *first = input_term(im, node, 0);
        if (!first->is_sequence && !first->is_absent && !dtype_allowed(first->dtype, row->types))
            import_error(im, node, "%s takes %s; its first input \"%s\" is %s", node->op_type, types_text(im, row->types),
                         node->inputs[0], term_text(im, first));
    }
    const char *before = im->graph->source;
    im->graph->source = node->name[0] ? node->name : node->n_outputs ? node->outputs[0] : "";
    row->function(im, node);
    im->graph->source = before;
    for (int i = 0; i < node->n_outputs; i++)
        if (wants_output(node, i) && !map_has(im->scope->terms, node->outputs[i]))
            import_error(im, node, "output %d (\"%s\") of %s is not supported; remove what uses it", i, node->outputs[i],
                         node->op_type);
}

/* Marks the nodes that lead to an output of graph: the others may be of any kind, and make no weights. */
static bool *needed_nodes(Import *im, const OnnxGraph *graph)
{
    bool *needed = NEW_ARRAY(im->arena, bool, graph->n_nodes + 1);
    Map *names = map_new(im->arena);
    for (int i = 0; i < graph->n_outputs; i++) map_set(names, graph->outputs[i].name, im);
    for (int n = graph->n_nodes - 1; n >= 0; n--) {
        const OnnxNode *node = graph->nodes[n];
        for (int i = 0; i < node->n_outputs; i++)
            if (node->outputs[i][0] && map_has(names, node->outputs[i])) needed[n] = true;
        if (!needed[n]) continue;
        for (int i = 0; i < node->n_inputs; i++) map_set(names, node->inputs[i], im);
        for (int a = 0; a < node->n_attributes; a++) {
            const OnnxGraph *sub = node->attributes[a].type == ONNX_ATTR_GRAPH ? node->attributes[a].g : NULL;
            for (int c = 0; sub && c < sub->n_captures; c++) map_set(names, sub->captures[c].name, im);
        }
    }
    return needed;
}

void import_nodes(Import *im, const OnnxGraph *graph)
{
    bool *needed = needed_nodes(im, graph);
    for (int n = 0; n < graph->n_nodes; n++)
        if (needed[n]) import_node(im, graph->nodes[n]);
}

/* ---- unknown operators ---- */
typedef struct Unknown {
    int count;
    const OnnxNode *first;
} Unknown;

static void find_unknown(Import *im, const OnnxGraph *graph, Map *unknown)
{
    bool *needed = needed_nodes(im, graph);
    for (int n = 0; n < graph->n_nodes; n++) {
        const OnnxNode *node = graph->nodes[n];
        if (!needed[n]) continue;
        if (!row_of(node)) {
            const char *name = node->domain[0] ? arena_text(im->arena, "%s:%s", node->domain, node->op_type) : node->op_type;
            Unknown *u = map_get(unknown, name);
            if (!u) {
                u = NEW(im->arena, Unknown);
                u->first = node;
                map_set(unknown, name, u);
            }
            u->count++;
        }
        for (int a = 0; a < node->n_attributes; a++)
            if (node->attributes[a].type == ONNX_ATTR_GRAPH) find_unknown(im, node->attributes[a].g, unknown);
    }
}

static void check_operators(Import *im)
{
    Map *unknown = map_new(im->arena);
    find_unknown(im, im->model->graph, unknown);
    if (!map_count(unknown)) return;
    Buf b = {.arena = im->arena};
    for (int i = 0; i < map_count(unknown); i++) {
        Unknown *u = map_value(unknown, i);
        buf_printf(&b, "\n  %s: %d node%s, first %s", map_key(unknown, i), u->count, u->count == 1 ? "" : "s",
                   node_label(im->arena, u->first));
    }
    error_exit(
        "%s: operators that are not supported:%s\n  Replace them in the model by operators of ONNX's default domain that are.",
        im->model->path, buf_text(&b));
}

/* ---- weights' names ---- */
static void name_tensor(Import *im, Map *taken, const void *key, const char *name)
{
    const char *unique = name;
    for (int i = 2; map_has(taken, unique); i++) unique = arena_text(im->arena, "%s#%d", name, i);
    map_set(taken, unique, im);
    map_set(im->weight_names, arena_text(im->arena, "%p", key), (void *)unique);
}

/* Every initializer and Constant gets a name that no other has: its own, or NAME#2 where subgraphs use one twice. */
static void name_weights(Import *im, const OnnxGraph *graph, Map *taken)
{
    for (int i = 0; i < graph->n_initializers; i++) name_tensor(im, taken, graph->initializers[i], graph->initializers[i]->name);
    for (int n = 0; n < graph->n_nodes; n++) {
        const OnnxNode *node = graph->nodes[n];
        if (strcmp(node->op_type, "Constant") == 0 && node->n_outputs) name_tensor(im, taken, node, node->outputs[0]);
        for (int a = 0; a < node->n_attributes; a++)
            if (node->attributes[a].type == ONNX_ATTR_GRAPH) name_weights(im, node->attributes[a].g, taken);
    }
}

/* ---- the model ---- */
static bool is_dim_expression(const char *text)
{
    size_t word = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (!text[word]) return false; /* a bare name, or digits only, which some exporters use as a name */
    if (text[strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_ +-*/%(),")]) return false;
    for (const char *c = text; (c = strchr(c, '/')); c += 2)
        if (c[1] != '/' && !strstr(text, "floor(")) return false;
    return true;
}

Expr *dim_of_text(Symbols *symbols, const char *text)
{
    Expr *e = is_dim_expression(text) ? expr_parse(symbols, text) : NULL;
    return e ? e : expr_symbol(symbols, text);
}

/* A batch with a dim of 0 has nothing in it: it is turned away, so that x[.., :-1] has n - 1 elements, not Max(n - 1, 0). */
static void not_empty(Import *im, Expr *dim)
{
    enum { ROOM = 16 };
    Expr *symbols[ROOM];
    int n = expr_symbols(im->symbols, dim, symbols, ROOM);
    for (int i = 0; i < n && i < ROOM; i++) symbol_narrow(im->symbols, symbols[i], 1, EXPR_UNBOUNDED);
}

static void import_model_input(Import *im, const OnnxValueInfo *info)
{
    const char *what = arena_text(im->arena, "input \"%s\"", info->name);
    if (info->kind != ONNX_IS_TENSOR)
        error_exit("%s: %s is no tensor (a sequence, a map, an optional, or of no type at all); wanted a tensor with its element "
                   "type and shape",
                   im->model->path, what);
    if (!info->has_shape)
        error_exit("%s: %s has no shape; wanted one, at least its rank: give it when exporting, or set it with onnx.helper",
                   im->model->path, what);
    if (info->rank > MOST_AXES / 4)
        error_exit("%s: %s has rank %d; wanted at most %d", im->model->path, what, info->rank, MOST_AXES / 4);
    Dtype dtype = import_dtype(im, NULL, info->elem_type, what);
    Expr **shape = NEW_ARRAY(im->arena, Expr *, info->rank + 1);
    for (int i = 0; i < info->rank; i++) {
        const OnnxDim *d = &info->dims[i];
        if (d->known && d->value >= 0)
            shape[i] = number(im, d->value);
        else if (!d->known && d->param && d->param[0])
            shape[i] = dim_of_text(im->symbols, d->param);
        else
            shape[i] = expr_fresh(im->symbols, arena_text(im->arena, "%s.%d", info->name, i));
    }
    for (int i = 0; i < info->rank; i++) not_empty(im, shape[i]);
    scope_define(im, info->name, term_of_value(im, graph_input(im->graph, info->name, dtype, info->rank, shape, FROM_BATCH)));
}

/* Min(seq, 64) is seq once the model has shown that seq <= 64. */
static Expr *settled(Import *im, Expr *e)
{
    enum { ROOM = 4 };
    Expr *symbols[ROOM];
    e = expr_canonical(im->symbols, e);
    if (expr_is_int(e, NULL) || expr_is_symbol(e)) return e;
    int64_t low, high;
    expr_bounds(im->symbols, e, &low, &high);
    if (low == high) return number(im, low);
    int n = expr_symbols(im->symbols, e, symbols, ROOM);
    for (int i = 0; i < n && i < ROOM; i++)
        if (expr_always_equal(im->symbols, e, symbols[i])) return symbols[i];
    return e;
}

/* Sizes as they are now that all facts are known. */
static void settle_sizes(Import *im, Graph *g)
{
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        for (int r = 0; r < op->n_out; r++)
            for (int i = 0; i < op->out[r]->rank; i++) op->out[r]->shape[i] = settled(im, op->out[r]->shape[i]);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) settle_sizes(im, op->body[b]);
    }
    for (int v = 0; v < g->inputs.n; v++)
        for (int i = 0; g->inputs.at[v]->origin == FROM_PARAMETER && i < g->inputs.at[v]->rank; i++)
            g->inputs.at[v]->shape[i] = settled(im, g->inputs.at[v]->shape[i]);
}

/* Weights that only vanished operations asked for: shapes, axes, bounds. */
static void drop_unused_weights(Graph *g)
{
    int kept = 0;
    for (int i = 0; i < g->inputs.n; i++) {
        Value *v = g->inputs.at[i];
        if (v->origin != FROM_WEIGHT || v->users.n || graph_is_output(g, v)) g->inputs.at[kept++] = v;
    }
    g->inputs.n = kept;
}

/* Dims of inputs that any size would do for, as far as the inputs say. */
static Values open_dims(Import *im)
{
    Values open = {0};
    for (int i = 0; i < im->graph->inputs.n; i++) {
        Value *v = im->graph->inputs.at[i];
        bool any = false;
        for (int k = 0; k < v->rank; k++) any |= !expr_is_int(expr_canonical(im->symbols, v->shape[k]), NULL);
        if (any) vec_push(im->arena, &open, v);
    }
    return open;
}

/* Those that turned out to be of one size: an exporter wrote it down. */
static void tell_fixed_dims(Import *im, const Values *open)
{
    int64_t size;
    for (int i = 0; i < open->n; i++) {
        const Value *v = open->at[i];
        for (int k = 0; k < v->rank; k++) {
            if (!expr_is_symbol(v->shape[k]) || !expr_is_int(expr_canonical(im->symbols, v->shape[k]), &size)) continue;
            report_line(im->report,
                        "the model computes with %s = %lld alone (axis %d of input \"%s\"), though that dim has a name: weights or sizes "
                        "written into the model fix it, and batches of other sizes will be set aside. If it should be free: export with "
                        "dynamo=True, or in the model make shapes of x.shape",
                        expr_text(im->arena, v->shape[k]), (long long)size, k, v->name);
        }
    }
}

Graph *import_model(Arena *arena, Symbols *symbols, const OnnxModel *model, const ImportOptions *options, Map *tensors,
                    struct ImportReport *report)
{
    Import im = {.arena = arena,
                 .symbols = symbols,
                 .model = model,
                 .training = options->training,
                 .batch_norm = options->batch_norm,
                 .tensors = tensors,
                 .report = report,
                 .next_seed = 1,
                 .weight_names = map_new(arena),
                 .weight_inputs = map_new(arena)};
    check_operators(&im);
    Map *taken = map_new(arena);
    for (int i = 0; i < model->graph->n_inputs; i++)
        if (!model->graph->inputs[i].is_initializer) map_set(taken, model->graph->inputs[i].name, &im);
    name_weights(&im, model->graph, taken);
    body_open(&im, model->graph, options->training ? "train" : "evaluate");
    for (int i = 0; i < model->graph->n_inputs; i++)
        if (!model->graph->inputs[i].is_initializer) import_model_input(&im, &model->graph->inputs[i]);
    const Values open = open_dims(&im);
    import_nodes(&im, model->graph);
    tell_fixed_dims(&im, &open);
    Graph *g = im.graph;
    VEC(const char *) names = {0};
    for (int i = 0; i < model->graph->n_outputs; i++) {
        const char *name = model->graph->outputs[i].name;
        Term *t = scope_find(&im, name);
        if (t->rows && t->n_items == 0) t = t->rows; /* an item a step of a loop: a tensor of them */
        if (t->is_sequence || t->is_absent)
            report_line(report, "output \"%s\" is %s; its items are outputs of their own: %s.0 and so on", name, term_text(&im, t),
                        name);
        for (int k = 0; t->is_sequence && k < t->n_items; k++) {
            vec_push(arena, &names, arena_text(arena, "%s.%d", name, k));
            vec_push(arena, &g->outputs, term_value(&im, t->items[k]));
        }
        if (t->is_sequence || t->is_absent) continue;
        vec_push(arena, &names, name);
        vec_push(arena, &g->outputs, term_value(&im, t));
    }
    vec_push(arena, &names, NULL);
    g->output_names = names.at;
    body_close(&im);
    graph_prune(g);
    drop_unused_weights(g);
    settle_sizes(&im, g);
    return g;
}
