/* Sequences and optionals of node tests.  A walk over the few fields of onnx-data.proto that matter. */
#include "test/conformance/lists.h"
#include "support/diag.h"
#include <stdio.h>
#include <string.h>

enum {
    TENSOR = 3,
    SEQUENCE = 5
}; /* fields: SequenceProto.tensor_values and OptionalProto.tensor_value, OptionalProto.sequence_value */

typedef struct {
    const uint8_t *at, *end;
} Bytes;

static uint64_t varint(Bytes *b)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        uint8_t c = *b->at++;
        value |= (uint64_t)(c & 127) << shift;
        if (c < 128) return value;
    }
    error_exit("a sequence's file is damaged");
}

/* The next field of messages and numbers; content of messages in part. */
static int next_field(Bytes *b, Bytes *part)
{
    uint64_t key = varint(b), size = 0;
    *part = (Bytes){NULL, NULL};
    if ((key & 7) == 0) varint(b);
    if ((key & 7) == 2) {
        size = varint(b);
        if (size > (uint64_t)(b->end - b->at)) error_exit("a sequence's file is damaged");
        *part = (Bytes){b->at, b->at + size};
        b->at += size;
    }
    return (int)(key >> 3);
}

static Bytes file_bytes(Arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) error_exit("%s cannot be read", path);
    Buf all = {.arena = arena};
    char some[4096];
    for (size_t n; (n = fread(some, 1, sizeof some, file)) > 0;) buf_write(&all, some, n);
    fclose(file);
    return (Bytes){(const uint8_t *)buf_text(&all), (const uint8_t *)buf_text(&all) + all.length};
}

static void collect(Arena *arena, const char *path, Bytes b, List *list, bool optional)
{
    VEC(OnnxTensor *) items = {0};
    while (b.at < b.end) {
        Bytes part;
        int field = next_field(&b, &part);
        if (field == TENSOR && part.at)
            vec_push(arena, &items, onnx_read_tensor_memory(arena, path, part.at, (size_t)(part.end - part.at)));
        if (field != SEQUENCE || !optional || !part.at) continue;
        list->is_sequence = true;
        collect(arena, path, part, list, false);
        return;
    }
    list->at = items.at;
    list->n = items.n;
    list->is_absent = optional && items.n == 0;
}

List list_read(Arena *arena, const char *path, const OnnxValueInfo *info)
{
    List list = {.is_sequence = info->kind == ONNX_IS_SEQUENCE};
    if (info->kind == ONNX_IS_SEQUENCE || info->kind == ONNX_IS_OPTIONAL) {
        collect(arena, path, file_bytes(arena, path), &list, info->kind == ONNX_IS_OPTIONAL);
        return list;
    }
    list.at = NEW_ARRAY(arena, OnnxTensor *, 1);
    list.at[0] = onnx_read_tensor(arena, path);
    list.n = 1;
    return list;
}

static OnnxValueInfo tensor_info(Arena *arena, const char *name, const OnnxTensor *t)
{
    OnnxValueInfo info = {.name = name, .kind = ONNX_IS_TENSOR, .elem_type = t->type, .has_shape = true, .rank = t->rank};
    info.dims = NEW_ARRAY(arena, OnnxDim, t->rank + 1);
    for (int k = 0; k < t->rank; k++) info.dims[k] = (OnnxDim){.known = true, .value = t->dims[k], .param = ""};
    return info;
}

static void insert_node(OnnxModel *model, OnnxNode node)
{
    OnnxGraph *g = model->graph;
    OnnxNode **all = NEW_ARRAY(model->arena, OnnxNode *, g->n_nodes + 1);
    all[0] = NEW(model->arena, OnnxNode);
    *all[0] = node;
    for (int k = 0; k < g->n_nodes; k++) all[k + 1] = g->nodes[k];
    g->nodes = all;
    g->n_nodes++;
}

int list_to_inputs(OnnxModel *model, int i, const List *list)
{
    Arena *arena = model->arena;
    OnnxGraph *g = model->graph;
    const char *name = g->inputs[i].name, **items = NEW_ARRAY(arena, const char *, list->n + 1),
               **outputs = NEW_ARRAY(arena, const char *, 1);
    OnnxValueInfo *all = NEW_ARRAY(arena, OnnxValueInfo, g->n_inputs + list->n);
    int n = 0;
    for (int k = 0; k < i; k++) all[n++] = g->inputs[k];
    for (int k = 0; k < list->n; k++) {
        items[k] = arena_text(arena, "%s.%d", name, k);
        all[n++] = tensor_info(arena, items[k], list->at[k]);
    }
    for (int k = i + 1; k < g->n_inputs; k++) all[n++] = g->inputs[k];
    g->inputs = all;
    g->n_inputs = n;
    outputs[0] = name;
    const char *op = list->is_absent      ? "Optional"
                     : !list->is_sequence ? "Identity"
                     : list->n            ? "SequenceConstruct"
                                          : "SequenceEmpty";
    insert_node(model, (OnnxNode){.name = "",
                                  .op_type = op,
                                  .domain = "",
                                  .overload = "",
                                  .opset = model->opset,
                                  .inputs = items,
                                  .outputs = outputs,
                                  .n_inputs = list->n,
                                  .n_outputs = 1});
    return list->n;
}
