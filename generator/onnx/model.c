/* Asking a model: names of types, labels of nodes, attributes by name. */
#include "onnx/model.h"
#include "support/diag.h"
#include <string.h>

static const struct {
    const char *name;
    int bits;
} types[ONNX_TYPES_COUNT] = {
    [ONNX_UNDEFINED] = {"undefined", 0},
    [ONNX_FLOAT] = {"float", 32},
    [ONNX_UINT8] = {"uint8", 8},
    [ONNX_INT8] = {"int8", 8},
    [ONNX_UINT16] = {"uint16", 16},
    [ONNX_INT16] = {"int16", 16},
    [ONNX_INT32] = {"int32", 32},
    [ONNX_INT64] = {"int64", 64},
    [ONNX_STRING] = {"string", 0},
    [ONNX_BOOL] = {"bool", 8},
    [ONNX_FLOAT16] = {"float16", 16},
    [ONNX_DOUBLE] = {"double", 64},
    [ONNX_UINT32] = {"uint32", 32},
    [ONNX_UINT64] = {"uint64", 64},
    [ONNX_COMPLEX64] = {"complex64", 64},
    [ONNX_COMPLEX128] = {"complex128", 128},
    [ONNX_BFLOAT16] = {"bfloat16", 16},
    [ONNX_FLOAT8E4M3FN] = {"float8e4m3fn", 8},
    [ONNX_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8},
    [ONNX_FLOAT8E5M2] = {"float8e5m2", 8},
    [ONNX_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8},
    [ONNX_UINT4] = {"uint4", 4},
    [ONNX_INT4] = {"int4", 4},
    [ONNX_FLOAT4E2M1] = {"float4e2m1", 4},
    [ONNX_FLOAT8E8M0] = {"float8e8m0", 8},
    [ONNX_UINT2] = {"uint2", 2},
    [ONNX_INT2] = {"int2", 2},
    [ONNX_FLOAT6E2M3] = {"float6e2m3", 6},
    [ONNX_FLOAT6E3M2] = {"float6e3m2", 6},
};

static bool type_known(OnnxType type)
{
    return (int)type >= 0 && (int)type < ONNX_TYPES_COUNT;
}

const char *onnx_type_name(OnnxType type)
{
    return type_known(type) ? types[type].name : "unknown type";
}

int onnx_type_bits(OnnxType type)
{
    return type_known(type) ? types[type].bits : 0;
}

int onnx_type_bytes(OnnxType type)
{
    return (onnx_type_bits(type) + 7) / 8;
}

const char *node_label(Arena *arena, const OnnxNode *node)
{
    const char *name = node->name;
    for (int i = 0; !*name && i < node->n_outputs; i++) name = node->outputs[i];
    return arena_text(arena, "\"%s\" (%s, node %d)", name, node->op_type, node->index);
}

const char *node_metadata(const OnnxNode *node, const char *key)
{
    for (int i = 0; i < node->n_metadata; i++)
        if (!strcmp(node->metadata[i].key, key)) return node->metadata[i].value;
    return NULL;
}

OnnxTensor *graph_initializer(const OnnxGraph *graph, const char *name)
{
    return map_get(graph->initializer_of, name);
}

/* ---- attributes ---- */

const OnnxAttribute *attr_get(const OnnxNode *node, const char *name)
{
    for (int i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
    return NULL;
}

bool attr_has(const OnnxNode *node, const char *name)
{
    return attr_get(node, name) != NULL;
}

static const char *attribute_type_name(OnnxAttributeType type)
{
    static const char *const names[] = {"nothing", "a float",         "an int",         "a string", "a tensor",
                                        "a graph", "floats",          "ints",           "strings",  "tensors",
                                        "graphs",  "a sparse tensor", "sparse tensors", "a type",   "types"};
    return names[type];
}

static const OnnxAttribute *attr_of_type(const OnnxNode *node, const char *name, OnnxAttributeType wanted)
{
    const OnnxAttribute *attribute = attr_get(node, name);
    if (!attribute || attribute->type == wanted) return attribute;
    if (wanted == ONNX_ATTR_TENSOR && attribute->type == ONNX_ATTR_SPARSE_TENSOR) return attribute;
    const char *label = node->name;
    for (int i = 0; !*label && i < node->n_outputs; i++) label = node->outputs[i];
    error_exit(
        "\"%s\" (%s, node %d): attribute \"%s\" should be %s, and is %s; the model breaks the rules of ONNX: export it again",
        label, node->op_type, node->index, name, attribute_type_name(wanted), attribute_type_name(attribute->type));
}

int64_t attr_int(const OnnxNode *node, const char *name, int64_t absent)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_INT);
    return attribute ? attribute->i : absent;
}

double attr_float(const OnnxNode *node, const char *name, double absent)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_FLOAT);
    return attribute ? attribute->f : absent;
}

const char *attr_string(const OnnxNode *node, const char *name, const char *absent)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_STRING);
    return attribute ? attribute->s : absent;
}

const int64_t *attr_ints(const OnnxNode *node, const char *name, int *n)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_INTS);
    *n = attribute ? attribute->n : 0;
    return attribute ? attribute->ints : NULL;
}

const double *attr_floats(const OnnxNode *node, const char *name, int *n)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_FLOATS);
    *n = attribute ? attribute->n : 0;
    return attribute ? attribute->floats : NULL;
}

const char *const *attr_strings(const OnnxNode *node, const char *name, int *n)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_STRINGS);
    *n = attribute ? attribute->n : 0;
    return attribute ? attribute->strings : NULL;
}

OnnxTensor *attr_tensor(const OnnxNode *node, const char *name)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_TENSOR);
    return attribute ? attribute->t : NULL;
}

OnnxGraph *attr_graph(const OnnxNode *node, const char *name)
{
    const OnnxAttribute *attribute = attr_of_type(node, name, ONNX_ATTR_GRAPH);
    return attribute ? attribute->g : NULL;
}
