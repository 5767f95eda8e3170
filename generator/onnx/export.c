/* The skeleton of a model: the file's own messages, packed again without the data of weights.
 *
 *     initializer { dims: 768  data_type: FLOAT  name: "ln.weight"  external_data { key: "weight"  value: "ln.weight" }  data_location: EXTERNAL }
 *
 * Needs: pass_trainable, which says what has whose values, and lets nodes read separated tensors.  Breaks: the model's messages.
 * What protobuf-c does not know (documentation, annotations) it keeps.  A node of a function's body cannot read a tensor of its own,
 * as all calls share the body. */
#include "onnx/reader.h"
#include "support/diag.h"
#include <string.h>

enum { EXTERNAL = 1 };
static char weight_key[] = "weight", view_key[] = "view";

typedef struct Skeleton {
    OnnxModel *model;
    Arena *arena;
    Onnx__ModelProto *proto;
    Map *made; /* names of separated tensors */
    const char *why;
} Skeleton;

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* ---- tensors without data ---- */
static Onnx__StringStringEntryProto *entry(Skeleton *s, char *key, char *value)
{
    Onnx__StringStringEntryProto *out = NEW(s->arena, Onnx__StringStringEntryProto);
    onnx__string_string_entry_proto__init(out);
    out->key = key, out->value = value;
    return out;
}

static const char *weight_of(const Onnx__TensorProto *t)
{
    return t->n_external_data && t->external_data[0]->key == weight_key ? t->external_data[0]->value : NULL;
}

/* "first stride stride": which elements of the weight a tensor has. */
static const char *view_text(Skeleton *s, const OnnxStored *stored)
{
    Buf text = {.arena = s->arena};
    buf_printf(&text, "%lld", (long long)stored->first);
    for (int k = 0; stored->strides && k < stored->tensor->rank; k++) buf_printf(&text, " %lld", (long long)stored->strides[k]);
    return buf_text(&text);
}

static void take_data(Skeleton *s, Onnx__TensorProto *t, const OnnxStored *stored)
{
    const char *other = weight_of(t);
    if (other && strcmp(other, stored->weight)) {
        s->why = arena_text(s->arena, "\"%s\" and \"%s\" are one tensor of a function that is called more than once; onnx.inliner.inline_local_functions takes functions away", other, stored->weight);
        return;
    }
    t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
    t->has_raw_data = false, t->raw_data = (ProtobufCBinaryData){0};
    t->external_data = NEW_ARRAY(s->arena, Onnx__StringStringEntryProto *, 2);
    t->external_data[0] = entry(s, weight_key, text_of(stored->weight));
    t->external_data[1] = entry(s, view_key, text_of(view_text(s, stored)));
    t->n_external_data = stored->strides ? 2 : 1;
    t->has_data_location = true, t->data_location = EXTERNAL;
}

static Onnx__TensorProto *tensor_like(Skeleton *s, const OnnxStored *stored)
{
    Onnx__TensorProto *t = NEW(s->arena, Onnx__TensorProto);
    onnx__tensor_proto__init(t);
    t->name = text_of(stored->name);
    t->dims = stored->tensor->dims, t->n_dims = (size_t)stored->tensor->rank;
    t->has_data_type = true, t->data_type = (int32_t)stored->tensor->type;
    return t;
}

/* Before IR 4, which has no sparse ones, an initializer is an input too. */
static void add_input(Skeleton *s, const Onnx__TensorProto *t)
{
    Onnx__GraphProto *graph = s->proto->graph;
    Onnx__ValueInfoProto *info = NEW(s->arena, Onnx__ValueInfoProto), **list = NEW_ARRAY(s->arena, Onnx__ValueInfoProto *, graph->n_input + 1);
    Onnx__TypeProto *type = NEW(s->arena, Onnx__TypeProto);
    Onnx__TypeProto__Tensor *tensor = NEW(s->arena, Onnx__TypeProto__Tensor);
    Onnx__TensorShapeProto *shape = NEW(s->arena, Onnx__TensorShapeProto);
    onnx__value_info_proto__init(info), onnx__type_proto__init(type), onnx__type_proto__tensor__init(tensor), onnx__tensor_shape_proto__init(shape);
    shape->n_dim = t->n_dims;
    shape->dim = NEW_ARRAY(s->arena, Onnx__TensorShapeProto__Dimension *, t->n_dims);
    for (size_t i = 0; i < t->n_dims; i++) {
        shape->dim[i] = NEW(s->arena, Onnx__TensorShapeProto__Dimension);
        onnx__tensor_shape_proto__dimension__init(shape->dim[i]);
        shape->dim[i]->has_dim_value = true, shape->dim[i]->dim_value = t->dims[i];
    }
    tensor->has_elem_type = true, tensor->elem_type = t->data_type, tensor->shape = shape;
    type->tensor_type = tensor;
    info->name = t->name, info->type = type;
    if (graph->n_input) memcpy(list, graph->input, graph->n_input * sizeof *list);
    list[graph->n_input++] = info;
    graph->input = list;
}

static void add_initializer(Skeleton *s, Onnx__TensorProto *t)
{
    Onnx__GraphProto *graph = s->proto->graph;
    Onnx__TensorProto **list = NEW_ARRAY(s->arena, Onnx__TensorProto *, graph->n_initializer + 1);
    if (graph->n_initializer) memcpy(list, graph->initializer, graph->n_initializer * sizeof *list);
    list[graph->n_initializer++] = t;
    graph->initializer = list;
    if (s->model->ir_version < 4) add_input(s, t);
}

/* A sparse one of the model's own graph becomes dense: training fills its zeros. */
static bool drop_sparse(Skeleton *s, const char *name)
{
    Onnx__GraphProto *graph = s->proto->graph;
    size_t n = 0;
    for (size_t i = 0; i < graph->n_sparse_initializer; i++)
        if (!graph->sparse_initializer[i]->values->name || strcmp(graph->sparse_initializer[i]->values->name, name))
            graph->sparse_initializer[n++] = graph->sparse_initializer[i];
    const bool found = n < graph->n_sparse_initializer;
    graph->n_sparse_initializer = n;
    return found;
}

static bool can_be_written(OnnxType type)
{
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 || type == ONNX_BFLOAT16;
}

static void leave_out(Skeleton *s, const OnnxStored *stored)
{
    Onnx__TensorProto *t = stored->tensor->proto;
    if (!can_be_written(stored->tensor->type)) {
        if (stored->changes)
            s->why = arena_text(s->arena, "\"%s\" trains, and is of type %s", stored->name, onnx_type_name(stored->tensor->type));
        return;
    }
    if (stored->made || !t) {
        if (!stored->made && !drop_sparse(s, stored->name)) {
            s->why = arena_text(s->arena, "\"%s\" is a sparse tensor in a branch or loop", stored->name);
            return;
        }
        t = tensor_like(s, stored);
        add_initializer(s, t);
    }
    take_data(s, t, stored);
}

/* ---- nodes that read separated tensors ---- */
static void read_made(Skeleton *s, const OnnxGraph *graph)
{
    for (int i = 0; i < graph->n_nodes && !s->why; i++) {
        const OnnxNode *node = graph->nodes[i];
        Onnx__NodeProto *proto = node->proto;
        for (int k = 0; k < node->n_inputs; k++) {
            if (!map_has(s->made, node->inputs[k])) continue;
            if (proto)
                proto->input[k] = text_of(node->inputs[k]);
            else if (node->inlined)
                s->why = arena_text(s->arena, "%s, which reads \"%s\", stands in the body of a function; onnx.inliner.inline_local_functions takes functions away", node_label(s->arena, node), node->inputs[k]);
        }
        for (int k = 0; k < node->n_attributes; k++) {
            const OnnxAttribute *a = &node->attributes[k];
            if (a->g) read_made(s, a->g);
            for (int b = 0; a->type == ONNX_ATTR_GRAPHS && b < a->n; b++) read_made(s, a->graphs[b]);
        }
    }
}

/* Tensors of which neither the data nor a reader is there. */
static void drop_missing(Skeleton *s)
{
    Onnx__GraphProto *graph = s->proto->graph;
    size_t n = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        Onnx__TensorProto *t = graph->initializer[i];
        if (t->data_location != EXTERNAL || weight_of(t)) graph->initializer[n++] = t;
    }
    graph->n_initializer = n;
}

const char *onnx_skeleton(OnnxModel *model, const Map *kept, uint8_t **bytes, size_t *size)
{
    Skeleton s = {.model = model, .arena = model->arena, .proto = model->proto, .made = map_new(model->arena)};
    for (int i = 0; i < model->stored.n && !s.why; i++) {
        const OnnxStored *stored = &model->stored.at[i];
        if (!map_has(kept, stored->weight)) continue;
        if (stored->made) map_set(s.made, stored->name, model);
        leave_out(&s, stored);
    }
    if (map_count(s.made) && !s.why) read_made(&s, model->graph);
    if (s.why) return s.why;
    drop_missing(&s);
    *size = protobuf_c_message_get_packed_size(&s.proto->base);
    *bytes = arena_alloc(model->arena, *size);
    protobuf_c_message_pack(&s.proto->base, *bytes);
    return NULL;
}
