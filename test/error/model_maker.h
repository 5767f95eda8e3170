/* Makes small ONNX models with protobuf-c: for tests of the reader.  Everything belongs to the arena.
 *
 *     Onnx__ModelProto *m = make_model(arena, 18);
 *     add_input(arena, m->graph, "x");  add_node(arena, m->graph, "Relu", "r", "x", "y");  add_output(arena, m->graph, "y"); */
#ifndef TEST_MODEL_MAKER_H
#define TEST_MODEL_MAKER_H
#include "onnx/model.h"
#include "onnx.pb-c.h"
#include <string.h>

#define MAKE(arena, Type, init) make_copy(arena, &(Type)init, sizeof(Type))
static inline void *make_copy(Arena *arena, const void *from, size_t size)
{
    return memcpy(arena_alloc(arena, size), from, size);
}

/* Appends to a repeated field of protobuf-c: APPEND(arena, graph, node, item) */
#define APPEND(arena, message, field, item)                                                                                        \
    ((message)->field = append_grow((arena), (message)->field, (message)->n_##field, sizeof *(message)->field),                    \
     (message)->field[(message)->n_##field++] = (item))
static inline void *append_grow(Arena *arena, const void *old, size_t n, size_t size)
{
    void *out = arena_alloc(arena, (n + 1) * size);
    if (n) memcpy(out, old, n * size);
    return out;
}

static inline char *make_text(Arena *arena, const char *text)
{
    return arena_copy(arena, text, strlen(text));
}

static inline Onnx__OperatorSetIdProto *make_opset(Arena *arena, const char *domain, int version)
{
    Onnx__OperatorSetIdProto *opset = MAKE(arena, Onnx__OperatorSetIdProto, ONNX__OPERATOR_SET_ID_PROTO__INIT);
    opset->domain = make_text(arena, domain);
    opset->has_version = 1;
    opset->version = version;
    return opset;
}

static inline Onnx__GraphProto *make_graph(Arena *arena, const char *name)
{
    Onnx__GraphProto *graph = MAKE(arena, Onnx__GraphProto, ONNX__GRAPH_PROTO__INIT);
    graph->name = make_text(arena, name);
    return graph;
}

static inline Onnx__ModelProto *make_model(Arena *arena, int opset)
{
    Onnx__ModelProto *model = MAKE(arena, Onnx__ModelProto, ONNX__MODEL_PROTO__INIT);
    model->has_ir_version = 1;
    model->ir_version = 10;
    model->graph = make_graph(arena, "main");
    if (opset) APPEND(arena, model, opset_import, make_opset(arena, "", opset));
    return model;
}

/* f32[batch, 4] */
static inline Onnx__ValueInfoProto *make_info(Arena *arena, const char *name)
{
    Onnx__ValueInfoProto *info = MAKE(arena, Onnx__ValueInfoProto, ONNX__VALUE_INFO_PROTO__INIT);
    info->name = make_text(arena, name);
    info->type = MAKE(arena, Onnx__TypeProto, ONNX__TYPE_PROTO__INIT);
    Onnx__TypeProto__Tensor *tensor = info->type->tensor_type =
        MAKE(arena, Onnx__TypeProto__Tensor, ONNX__TYPE_PROTO__TENSOR__INIT);
    tensor->has_elem_type = 1;
    tensor->elem_type = ONNX_FLOAT;
    tensor->shape = MAKE(arena, Onnx__TensorShapeProto, ONNX__TENSOR_SHAPE_PROTO__INIT);
    for (int i = 0; i < 2; i++) {
        Onnx__TensorShapeProto__Dimension *dim =
            MAKE(arena, Onnx__TensorShapeProto__Dimension, ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT);
        if (i == 0) dim->dim_param = make_text(arena, "batch");
        dim->has_dim_value = i;
        dim->dim_value = 4 * i;
        APPEND(arena, tensor->shape, dim, dim);
    }
    return info;
}

static inline void add_input(Arena *arena, Onnx__GraphProto *graph, const char *name)
{
    APPEND(arena, graph, input, make_info(arena, name));
}

static inline void add_output(Arena *arena, Onnx__GraphProto *graph, const char *name)
{
    APPEND(arena, graph, output, make_info(arena, name));
}

/* Names are parted by single spaces: "x w b"; "x  b" leaves the second one out. */
#define APPEND_NAMES(arena, node, field, names)                                                                                    \
    do {                                                                                                                           \
        for (const char *at_ = (names); *at_;) {                                                                                   \
            size_t length_ = strcspn(at_, " ");                                                                                    \
            APPEND(arena, node, field, arena_copy(arena, at_, length_));                                                           \
            at_ += length_ + (at_[length_] == ' ');                                                                                \
        }                                                                                                                          \
    } while (0)

static inline Onnx__NodeProto *make_node(Arena *arena, const char *op, const char *name, const char *inputs, const char *outputs)
{
    Onnx__NodeProto *node = MAKE(arena, Onnx__NodeProto, ONNX__NODE_PROTO__INIT);
    node->op_type = make_text(arena, op);
    node->name = make_text(arena, name);
    APPEND_NAMES(arena, node, input, inputs);
    APPEND_NAMES(arena, node, output, outputs);
    return node;
}

static inline Onnx__NodeProto *add_node(Arena *arena, Onnx__GraphProto *graph, const char *op, const char *name, const char *inputs,
                                        const char *outputs)
{
    Onnx__NodeProto *node = make_node(arena, op, name, inputs, outputs);
    APPEND(arena, graph, node, node);
    return node;
}

static inline Onnx__AttributeProto *add_attribute(Arena *arena, Onnx__NodeProto *node, const char *name, OnnxAttributeType type)
{
    Onnx__AttributeProto *attribute = MAKE(arena, Onnx__AttributeProto, ONNX__ATTRIBUTE_PROTO__INIT);
    attribute->name = make_text(arena, name);
    attribute->has_type = 1;
    attribute->type = type;
    APPEND(arena, node, attribute, attribute);
    return attribute;
}

static inline void add_graph_attribute(Arena *arena, Onnx__NodeProto *node, const char *name, Onnx__GraphProto *graph)
{
    add_attribute(arena, node, name, ONNX_ATTR_GRAPH)->g = graph;
}

static inline Onnx__TensorProto *make_tensor(Arena *arena, const char *name, OnnxType type, int rank, const int64_t *dims)
{
    Onnx__TensorProto *tensor = MAKE(arena, Onnx__TensorProto, ONNX__TENSOR_PROTO__INIT);
    tensor->name = make_text(arena, name);
    tensor->has_data_type = 1;
    tensor->data_type = type;
    for (int i = 0; i < rank; i++) APPEND(arena, tensor, dims, dims[i]);
    return tensor;
}

static inline void set_raw(Arena *arena, Onnx__TensorProto *tensor, const void *bytes, size_t size)
{
    tensor->has_raw_data = 1;
    tensor->raw_data.len = size;
    tensor->raw_data.data = make_copy(arena, bytes, size);
}

/* float[n] of zeros */
static inline Onnx__TensorProto *add_zeros(Arena *arena, Onnx__GraphProto *graph, const char *name, int64_t n)
{
    Onnx__TensorProto *tensor = make_tensor(arena, name, ONNX_FLOAT, 1, &n);
    set_raw(arena, tensor, arena_alloc(arena, 4 * (size_t)n), 4 * (size_t)n);
    APPEND(arena, graph, initializer, tensor);
    return tensor;
}

static inline void set_external(Arena *arena, Onnx__TensorProto *tensor, const char *key, const char *value)
{
    Onnx__StringStringEntryProto *entry = MAKE(arena, Onnx__StringStringEntryProto, ONNX__STRING_STRING_ENTRY_PROTO__INIT);
    entry->key = make_text(arena, key);
    entry->value = make_text(arena, value);
    tensor->has_data_location = 1;
    tensor->data_location = 1;
    tensor->has_raw_data = 0;
    APPEND(arena, tensor, external_data, entry);
}

static inline Onnx__FunctionProto *add_function(Arena *arena, Onnx__ModelProto *model, const char *name, const char *inputs,
                                                const char *outputs)
{
    Onnx__FunctionProto *function = MAKE(arena, Onnx__FunctionProto, ONNX__FUNCTION_PROTO__INIT);
    function->name = make_text(arena, name);
    function->domain = make_text(arena, "own");
    APPEND_NAMES(arena, function, input, inputs);
    APPEND_NAMES(arena, function, output, outputs);
    APPEND(arena, model, functions, function);
    return function;
}

static inline Onnx__NodeProto *make_call(Arena *arena, const char *function, const char *name, const char *inputs,
                                         const char *outputs)
{
    Onnx__NodeProto *node = make_node(arena, function, name, inputs, outputs);
    node->domain = make_text(arena, "own");
    return node;
}

/* y = Add(Relu(x), w) over f32[batch, 4] */
static inline Onnx__ModelProto *make_good_model(Arena *arena)
{
    Onnx__ModelProto *model = make_model(arena, 18);
    add_input(arena, model->graph, "x");
    add_output(arena, model->graph, "y");
    add_zeros(arena, model->graph, "w", 4);
    add_node(arena, model->graph, "Relu", "/relu", "x", "h");
    add_node(arena, model->graph, "Add", "/add", "h w", "y");
    return model;
}

typedef struct {
    uint8_t *bytes;
    size_t size;
} Packed;

static inline Packed pack_model(Arena *arena, const Onnx__ModelProto *model)
{
    Packed out = {.size = onnx__model_proto__get_packed_size(model)};
    out.bytes = arena_alloc(arena, out.size);
    onnx__model_proto__pack(model, out.bytes);
    return out;
}
#endif
