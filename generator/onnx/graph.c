/* Builds graphs, nodes, attributes and types from what protobuf-c unpacked.  Names pass through the call whose body is being read
 * (function.c), and come out as names of the model.
 * Recursion over subgraphs is bounded by the scan and by level_enter. */
#include "onnx/reader.h"
#include "support/diag.h"
#include <string.h>

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

void level_enter(Reader *r)
{
    if (++r->levels > BUILD_LEVELS_MAX)
        error_exit("%s: graphs and calls of functions are nested more than %d deep; make the model flatter", r->path,
                   BUILD_LEVELS_MAX);
}

void level_leave(Reader *r)
{
    r->levels--;
}

/* ---- types ---- */

static void shape_build(Reader *r, OnnxValueInfo *info, const Onnx__TypeProto__Tensor *proto)
{
    info->kind = ONNX_IS_TENSOR;
    info->elem_type = proto->elem_type > 0 && proto->elem_type < ONNX_TYPES_COUNT ? (OnnxType)proto->elem_type : ONNX_UNDEFINED;
    if (!proto->shape) return;
    info->has_shape = true;
    info->rank = (int)proto->shape->n_dim;
    info->dims = NEW_ARRAY(r->arena, OnnxDim, info->rank);
    for (int i = 0; i < info->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = proto->shape->dim[i];
        bool known = dim->has_dim_value && dim->dim_value >= 0; /* some exporters write -1 for a dim that they do not know */
        info->dims[i] = (OnnxDim){known, known ? dim->dim_value : 0, known ? "" : text_or_empty(dim->dim_param)};
    }
}

static void type_build(Reader *r, OnnxValueInfo *info, const Onnx__TypeProto *proto)
{
    info->kind = ONNX_IS_OTHER;
    if (!proto) return;
    if (proto->tensor_type) {
        shape_build(r, info, proto->tensor_type);
        return;
    }
    if (!proto->sequence_type && !proto->optional_type) return;
    info->kind = proto->sequence_type ? ONNX_IS_SEQUENCE : ONNX_IS_OPTIONAL;
    OnnxValueInfo *inner = NEW(r->arena, OnnxValueInfo);
    inner->name = info->name;
    type_build(r, inner, proto->sequence_type ? proto->sequence_type->elem_type : proto->optional_type->elem_type);
    info->inner = inner;
    info->elem_type = inner->elem_type;
    info->has_shape = inner->has_shape;
    info->rank = inner->rank;
    info->dims = inner->dims;
}

static OnnxValueInfo *infos_build(Reader *r, Onnx__ValueInfoProto *const *protos, size_t n, const Call *call)
{
    OnnxValueInfo *out = NEW_ARRAY(r->arena, OnnxValueInfo, n);
    for (size_t i = 0; i < n; i++) {
        out[i].name = call_name(r, call, text_or_empty(protos[i]->name));
        type_build(r, &out[i], protos[i]->type);
    }
    return out;
}

/* ---- attributes ---- */

/* Files before IR 2 give no type: it is that of the field which is there. */
static OnnxAttributeType guess_type(const Onnx__AttributeProto *p)
{
    if (p->has_f) return ONNX_ATTR_FLOAT;
    if (p->has_i) return ONNX_ATTR_INT;
    if (p->has_s) return ONNX_ATTR_STRING;
    if (p->t) return ONNX_ATTR_TENSOR;
    if (p->g) return ONNX_ATTR_GRAPH;
    if (p->n_floats) return ONNX_ATTR_FLOATS;
    if (p->n_ints) return ONNX_ATTR_INTS;
    if (p->n_strings) return ONNX_ATTR_STRINGS;
    if (p->n_tensors) return ONNX_ATTR_TENSORS;
    if (p->n_graphs) return ONNX_ATTR_GRAPHS;
    return ONNX_ATTR_UNDEFINED;
}

static noreturn void attribute_error(Reader *r, const OnnxNode *node, const char *name, const char *what)
{
    error_exit("%s: attribute \"%s\" of %s %s; export the model again", r->path, name, node_label(r->arena, node), what);
}

/* The value of a function's attribute, under the name that the node in the body gives it.  NULL where the call leaves it out. */
static OnnxAttribute *attribute_refer(Reader *r, const OnnxNode *node, const Onnx__AttributeProto *proto, const Call *call)
{
    const char *name = text_or_empty(proto->name);
    if (!call) attribute_error(r, node, name, "refers to an attribute of a function, but stands in none");
    const OnnxAttribute *given = map_get(call->attributes, proto->ref_attr_name);
    if (!given) return NULL;
    if (proto->type != ONNX_ATTR_UNDEFINED && proto->type != (int)given->type)
        attribute_error(r, node, name, "refers to an attribute of the call that has another type");
    OnnxAttribute *out = NEW(r->arena, OnnxAttribute);
    *out = *given;
    out->name = name;
    return out;
}

static void set_floats(Reader *r, OnnxAttribute *a, const Onnx__AttributeProto *proto)
{
    double *floats = NEW_ARRAY(r->arena, double, proto->n_floats);
    for (size_t i = 0; i < proto->n_floats; i++) floats[i] = (double)proto->floats[i];
    a->floats = floats;
    a->n = (int)proto->n_floats;
}

static void set_strings(Reader *r, OnnxAttribute *a, const Onnx__AttributeProto *proto)
{
    const char **strings = NEW_ARRAY(r->arena, const char *, proto->n_strings);
    for (size_t i = 0; i < proto->n_strings; i++)
        strings[i] = arena_copy(r->arena, (const char *)proto->strings[i].data, proto->strings[i].len);
    a->strings = strings;
    a->n = (int)proto->n_strings;
}

static void set_tensors(Reader *r, OnnxAttribute *a, const Onnx__AttributeProto *proto, Owner owner)
{
    bool sparse = a->type == ONNX_ATTR_SPARSE_TENSORS;
    a->n = (int)(sparse ? proto->n_sparse_tensors : proto->n_tensors);
    OnnxTensor **tensors = NEW_ARRAY(r->arena, OnnxTensor *, a->n);
    for (int i = 0; i < a->n; i++)
        tensors[i] = sparse ? tensor_build_sparse(r, proto->sparse_tensors[i], owner) : tensor_build(r, proto->tensors[i], owner);
    a->tensors = tensors;
}

static void set_graphs(Reader *r, OnnxAttribute *a, const Onnx__AttributeProto *proto, const Call *call, const Opsets *opsets)
{
    OnnxGraph **graphs = NEW_ARRAY(r->arena, OnnxGraph *, proto->n_graphs);
    for (size_t i = 0; i < proto->n_graphs; i++) graphs[i] = graph_build(r, proto->graphs[i], call, opsets);
    a->graphs = graphs;
    a->n = (int)proto->n_graphs;
}

static const OnnxValueInfo *attribute_type(Reader *r, const Onnx__TypeProto *proto)
{
    OnnxValueInfo *info = NEW(r->arena, OnnxValueInfo);
    info->name = "";
    type_build(r, info, proto);
    return info;
}

static void set_value(Reader *r, const OnnxNode *node, OnnxAttribute *a, const Onnx__AttributeProto *proto, const Call *call,
                      const Opsets *opsets)
{
    Owner owner = {node, a->name};
    switch (a->type) {
    case ONNX_ATTR_FLOAT: a->f = (double)proto->f; return;
    case ONNX_ATTR_INT: a->i = proto->i; return;
    case ONNX_ATTR_STRING:
        a->s = arena_copy(r->arena, (const char *)proto->s.data, proto->s.len);
        a->s_size = proto->s.len;
        return;
    case ONNX_ATTR_TENSOR:
        if (!proto->t) attribute_error(r, node, a->name, "should be a tensor, and there is none");
        a->t = tensor_build(r, proto->t, owner);
        return;
    case ONNX_ATTR_SPARSE_TENSOR:
        if (!proto->sparse_tensor) attribute_error(r, node, a->name, "should be a sparse tensor, and there is none");
        a->t = tensor_build_sparse(r, proto->sparse_tensor, owner);
        return;
    case ONNX_ATTR_GRAPH:
        if (!proto->g) attribute_error(r, node, a->name, "should be a graph, and there is none");
        a->g = graph_build(r, proto->g, call, opsets);
        return;
    case ONNX_ATTR_INTS:
        a->ints = proto->n_ints ? proto->ints : NEW_ARRAY(r->arena, int64_t, 0);
        a->n = (int)proto->n_ints;
        return;
    case ONNX_ATTR_FLOATS: set_floats(r, a, proto); return;
    case ONNX_ATTR_STRINGS: set_strings(r, a, proto); return;
    case ONNX_ATTR_TENSORS:
    case ONNX_ATTR_SPARSE_TENSORS: set_tensors(r, a, proto, owner); return;
    case ONNX_ATTR_GRAPHS: set_graphs(r, a, proto, call, opsets); return;
    case ONNX_ATTR_TYPE_PROTO: a->tp = attribute_type(r, proto->tp); return;
    case ONNX_ATTR_TYPE_PROTOS: return; /* no operator has such a one */
    case ONNX_ATTR_UNDEFINED: break;
    }
    attribute_error(r, node, a->name, "has no type and no value");
}

OnnxAttribute *attribute_build(Reader *r, const OnnxNode *node, const Onnx__AttributeProto *proto, const Call *call,
                               const Opsets *opsets)
{
    if (proto->ref_attr_name && *proto->ref_attr_name) return attribute_refer(r, node, proto, call);
    OnnxAttribute *a = NEW(r->arena, OnnxAttribute);
    a->name = text_or_empty(proto->name);
    if (proto->type < ONNX_ATTR_UNDEFINED || proto->type > ONNX_ATTR_TYPE_PROTOS)
        attribute_error(r, node, a->name, arena_text(r->arena, "has type number %d, which ONNX does not know", proto->type));
    a->type = (OnnxAttributeType)proto->type;
    if (a->type == ONNX_ATTR_UNDEFINED) a->type = guess_type(proto);
    set_value(r, node, a, proto, call, opsets);
    return a;
}

static void check_attribute_names(Reader *r, const OnnxNode *node)
{
    Map *seen = node->n_attributes > 16 ? map_new(r->arena) : NULL;
    for (int i = 0; i < node->n_attributes; i++) {
        const char *name = node->attributes[i].name;
        bool twice = seen ? map_has(seen, name) : attr_get(node, name) != &node->attributes[i];
        if (twice) attribute_error(r, node, name, "is given twice");
        if (seen) map_set(seen, name, r);
    }
}

/* ---- nodes ---- */

static const char **names_build(Reader *r, char *const *names, size_t n, const Call *call)
{
    const char **out = NEW_ARRAY(r->arena, const char *, n);
    for (size_t i = 0; i < n; i++) out[i] = call_name(r, call, names[i]);
    return out;
}

static void metadata_build(Reader *r, OnnxNode *node, const Onnx__NodeProto *proto)
{
    OnnxMetadata *out = NEW_ARRAY(r->arena, OnnxMetadata, proto->n_metadata_props);
    for (size_t i = 0; i < proto->n_metadata_props; i++)
        out[i] = (OnnxMetadata){text_or_empty(proto->metadata_props[i]->key), text_or_empty(proto->metadata_props[i]->value)};
    node->metadata = out;
    node->n_metadata = (int)proto->n_metadata_props;
}

static OnnxNode *node_build(Reader *r, const Onnx__NodeProto *proto, int index, const Call *call, const Opsets *opsets)
{
    if (++r->n_nodes > NODES_MAX)
        error_exit("%s: more than %d nodes once its functions are inlined; make the model smaller", r->path, NODES_MAX);
    OnnxNode *node = NEW(r->arena, OnnxNode);
    node->name = text_or_empty(proto->name);
    if (call && *node->name) node->name = arena_text(r->arena, "%s/%s", call->prefix, node->name);
    node->op_type = text_or_empty(proto->op_type);
    node->domain = plain_domain(proto->domain);
    node->overload = text_or_empty(proto->overload);
    node->opset = opset_version(opsets, node->domain);
    node->inputs = names_build(r, proto->input, proto->n_input, call);
    node->outputs = names_build(r, proto->output, proto->n_output, call);
    node->n_inputs = (int)proto->n_input;
    node->n_outputs = (int)proto->n_output;
    node->index = call ? call->index : index;
    node->inlined = call != NULL;
    node->proto = call ? NULL : (void *)(uintptr_t)proto;
    metadata_build(r, node, proto);
    node->attributes = NEW_ARRAY(r->arena, OnnxAttribute, proto->n_attribute);
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const OnnxAttribute *a = attribute_build(r, node, proto->attribute[i], call, opsets);
        if (a) node->attributes[node->n_attributes++] = *a;
    }
    check_attribute_names(r, node);
    return node;
}

static void check_operator(Reader *r, const OnnxNode *node)
{
    if (!*node->op_type) error_exit("%s: %s: it has no operator; the file is damaged", r->path, node_label(r->arena, node));
    if (!*node->domain && node->opset == 0)
        error_exit(
            "%s: %s: the file does not say which version of ONNX's operators it uses; wanted: an opset_import of the default "
            "domain; export the model again",
            r->path, node_label(r->arena, node));
}

void nodes_build(Reader *r, Nodes *out, Onnx__NodeProto *const *protos, size_t n, const Call *call, const Opsets *opsets)
{
    for (size_t i = 0; i < n; i++) {
        OnnxNode *node = node_build(r, protos[i], (int)i, call, opsets);
        const Onnx__FunctionProto *function = function_of(r, node);
        if (function) {
            function_inline(r, out, node, function, call, opsets);
        } else {
            check_operator(r, node);
            vec_push(r->arena, out, node);
        }
    }
}

/* ---- graphs ---- */

static void initializers_build(Reader *r, OnnxGraph *graph, const Onnx__GraphProto *proto, const Call *call)
{
    size_t n = proto->n_initializer, n_sparse = proto->n_sparse_initializer;
    graph->initializers = NEW_ARRAY(r->arena, OnnxTensor *, n + n_sparse);
    graph->initializer_of = map_new(r->arena);
    for (size_t i = 0; i < n + n_sparse; i++) {
        const Onnx__SparseTensorProto *sparse = i < n ? NULL : proto->sparse_initializer[i - n];
        Onnx__TensorProto *dense = sparse ? sparse->values : proto->initializer[i];
        const char *name = call_name(r, call, text_or_empty(dense ? dense->name : NULL));
        if (map_has(graph->initializer_of, name))
            error_exit("%s: two initializers are called \"%s\"; each name may stand for one tensor; export the model again",
                       r->path, name);
        Owner owner = {NULL, name};
        OnnxTensor *tensor = sparse ? tensor_build_sparse(r, sparse, owner) : tensor_build(r, dense, owner);
        map_set(graph->initializer_of, name, tensor);
        graph->initializers[graph->n_initializers++] = tensor;
    }
}

OnnxGraph *graph_build(Reader *r, const Onnx__GraphProto *proto, const Call *call, const Opsets *opsets)
{
    level_enter(r);
    OnnxGraph *graph = NEW(r->arena, OnnxGraph);
    graph->name = text_or_empty(proto->name);
    initializers_build(r, graph, proto, call);
    graph->inputs = infos_build(r, proto->input, proto->n_input, call);
    graph->outputs = infos_build(r, proto->output, proto->n_output, call);
    graph->value_info = infos_build(r, proto->value_info, proto->n_value_info, call);
    graph->n_inputs = (int)proto->n_input;
    graph->n_outputs = (int)proto->n_output;
    graph->n_value_info = (int)proto->n_value_info;
    for (int i = 0; i < graph->n_inputs; i++)
        graph->inputs[i].is_initializer = map_has(graph->initializer_of, graph->inputs[i].name);
    Nodes nodes = {0};
    nodes_build(r, &nodes, proto->node, proto->n_node, call, opsets);
    graph->nodes = nodes.at;
    graph->n_nodes = nodes.n;
    graph_order(r, graph, r->levels == 1);
    level_leave(r);
    return graph;
}
