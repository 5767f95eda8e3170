/* Inlines the functions that a model defines: the nodes of the body stand in place of the call, the call's names in place of the
 * function's, the call's attributes in place of references to them.
 *
 *     call  "/act" (Swish, node 3): y = Swish<alpha=2>(x)      body  s = Mul<…>(X, …); t = Sigmoid(s); Y = Mul(X, t)
 *     gives "/act/s" = Mul(x, …); "/act/t" = Sigmoid("/act/s"); y = Mul(x, "/act/t") */
#include "onnx/reader.h"
#include "support/diag.h"
#include <string.h>

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

static const char *function_key(Arena *arena, const char *domain, const char *name, const char *overload)
{
    return arena_text(arena, "%s\x1f%s\x1f%s", plain_domain(domain), text_or_empty(name), text_or_empty(overload));
}

/* All names of values in the model's graphs, so that made names differ from them. */
static void take_names(Reader *r, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_input; i++) map_set(r->taken, text_or_empty(graph->input[i]->name), r);
    for (size_t i = 0; i < graph->n_output; i++) map_set(r->taken, text_or_empty(graph->output[i]->name), r);
    for (size_t i = 0; i < graph->n_initializer; i++) map_set(r->taken, text_or_empty(graph->initializer[i]->name), r);
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        for (size_t k = 0; k < node->n_output; k++) map_set(r->taken, node->output[k], r);
        for (size_t k = 0; k < node->n_attribute; k++) {
            const Onnx__AttributeProto *attribute = node->attribute[k];
            if (attribute->g) take_names(r, attribute->g);
            for (size_t g = 0; g < attribute->n_graphs; g++) take_names(r, attribute->graphs[g]);
        }
    }
}

void functions_collect(Reader *r, const Onnx__ModelProto *proto)
{
    if (!proto->n_functions) return;
    r->functions = map_new(r->arena);
    r->taken = map_new(r->arena);
    take_names(r, proto->graph);
    for (size_t i = 0; i < proto->n_functions; i++) {
        Onnx__FunctionProto *function = proto->functions[i];
        const char *key = function_key(r->arena, function->domain, function->name, function->overload);
        if (map_has(r->functions, key))
            error_exit("%s: function \"%s\" of domain \"%s\" is defined twice; export the model again", r->path,
                       text_or_empty(function->name), plain_domain(function->domain));
        map_set(r->functions, key, function);
    }
}

const Onnx__FunctionProto *function_of(const Reader *r, const OnnxNode *node)
{
    if (!r->functions) return NULL;
    return map_get(r->functions, function_key(r->arena, node->domain, node->op_type, node->overload));
}

/* ---- names ---- */

static const char *new_name(Reader *r, const char *prefix, const char *name)
{
    const char *out = arena_text(r->arena, "%s/%s", prefix, name);
    for (int k = r->n_nodes; map_has(r->taken, out); k++) out = arena_text(r->arena, "%s/%s_%d", prefix, name, k);
    map_set(r->taken, out, r);
    return out;
}

const char *call_name(Reader *r, const Call *call, const char *name)
{
    if (!call || !*name) return name;
    const char *known = map_get(call->names, name);
    if (known) return known;
    const char *made = new_name(r, call->prefix, name);
    map_set(call->names, name, (void *)(uintptr_t)made);
    return made;
}

static void name_set(Call *call, const char *name, const char *value)
{
    map_set(call->names, name, (void *)(uintptr_t)value);
}

/* ---- one call ---- */

static void check_recursion(Reader *r, const OnnxNode *node, const Onnx__FunctionProto *function, const Call *call)
{
    Buf chain = {.arena = r->arena};
    buf_printf(&chain, "%s", text_or_empty(function->name));
    for (; call; call = call->outer) {
        buf_printf(&chain, ", called by %s", text_or_empty(call->function->name));
        if (call->function == function)
            error_exit("%s: %s: the function calls itself (%s); functions of a model must not be recursive", r->path,
                       node_label(r->arena, node), buf_text(&chain));
    }
}

static void bind_inputs(Reader *r, Call *call, const OnnxNode *node)
{
    const Onnx__FunctionProto *f = call->function;
    if ((size_t)node->n_inputs > f->n_input || (size_t)node->n_outputs > f->n_output)
        error_exit("%s: %s: the function has %zu inputs and %zu outputs, and is called with %d and %d; export the model again",
                   r->path, node_label(r->arena, node), f->n_input, f->n_output, node->n_inputs, node->n_outputs);
    for (size_t i = 0; i < f->n_input; i++) {
        if (map_has(call->names, f->input[i]))
            error_exit("%s: function \"%s\" has two inputs called \"%s\"; export the model again", r->path, text_or_empty(f->name),
                       f->input[i]);
        name_set(call, f->input[i], i < (size_t)node->n_inputs ? node->inputs[i] : "");
    }
}

static void bind_attributes(Reader *r, Call *call, const OnnxNode *node, const Opsets *opsets)
{
    for (int i = 0; i < node->n_attributes; i++) map_set(call->attributes, node->attributes[i].name, &node->attributes[i]);
    for (size_t i = 0; i < call->function->n_attribute_proto; i++) {
        const Onnx__AttributeProto *absent = call->function->attribute_proto[i];
        if (!map_has(call->attributes, text_or_empty(absent->name)))
            map_set(call->attributes, text_or_empty(absent->name), attribute_build(r, node, absent, call, opsets));
    }
}

static OnnxNode *identity(Reader *r, const Call *call, const char *from, const char *to, const Opsets *opsets)
{
    OnnxNode *node = NEW(r->arena, OnnxNode);
    node->name = arena_text(r->arena, "%s/Identity", call->prefix);
    node->op_type = "Identity";
    node->domain = node->overload = "";
    node->opset = opset_version(opsets, "");
    node->inputs = NEW(r->arena, const char *);
    node->outputs = NEW(r->arena, const char *);
    node->inputs[0] = from;
    node->outputs[0] = to;
    node->n_inputs = node->n_outputs = 1;
    node->index = call->index;
    node->inlined = true;
    return node;
}

/* Outputs take the call's names.  One that is an input too, or another output, needs a node that passes it on. */
static void bind_outputs(Reader *r, Call *call, const OnnxNode *node, Nodes *passed, const Opsets *opsets)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const char *formal = call->function->output[i], *actual = node->outputs[i];
        if (!*actual) continue;
        const char *known = map_get(call->names, formal);
        if (known)
            vec_push(r->arena, passed, identity(r, call, known, actual, opsets));
        else
            name_set(call, formal, actual);
    }
}

static const char *call_prefix(Reader *r, const OnnxNode *node, const Call *outer)
{
    if (*node->name) return node->name;
    const char *between = outer ? "/" : "";
    return arena_text(r->arena, "%s%s%s_%d", outer ? outer->prefix : "", between, node->op_type, node->index);
}

void function_inline(Reader *r, Nodes *out, const OnnxNode *node, const Onnx__FunctionProto *function, const Call *outer,
                     const Opsets *opsets)
{
    check_recursion(r, node, function, outer);
    level_enter(r);
    Call call = {.outer = outer, .function = function, .index = node->index};
    call.prefix = call_prefix(r, node, outer);
    call.names = map_new(r->arena);
    call.attributes = map_new(r->arena);
    const Opsets *own = opsets_build(r, function->opset_import, function->n_opset_import, opsets);
    Nodes passed = {0};
    bind_inputs(r, &call, node);
    bind_outputs(r, &call, node, &passed, own);
    bind_attributes(r, &call, node, own);
    nodes_build(r, out, function->node, function->n_node, &call, own);
    for (int i = 0; i < passed.n; i++) vec_push(r->arena, out, passed.at[i]);
    level_leave(r);
}
