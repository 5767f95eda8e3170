/* An ONNX model as the rest of the generator sees it: plain structs, with nothing of protobuf in them but what export.c alone reads.
 *
 * What onnx_read has seen to, so that importers need not:
 * - model-local functions are inlined; every node is an operator, with the opset version that holds where it stands;
 * - nodes of each graph stand in an order in which every input is made before it is used;
 * - every name is defined once in its graph, every name used is defined there or in a graph around it;
 * - tensors are dense, little-endian, and hold exactly the bytes their shape asks for; external data is mapped;
 * - "ai.onnx" is written "" everywhere; absent inputs and outputs are "".
 * Everything belongs to the arena given; external data stays mapped until the program ends.
 * Errors of the file end with error_exit. */
#ifndef ONNX_MODEL_H
#define ONNX_MODEL_H
#include "support/arena.h"

/* Element types, with ONNX's numbers. */
typedef enum {
    ONNX_UNDEFINED = 0,
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_UINT64 = 13,
    ONNX_COMPLEX64 = 14,
    ONNX_COMPLEX128 = 15,
    ONNX_BFLOAT16 = 16,
    ONNX_FLOAT8E4M3FN = 17,
    ONNX_FLOAT8E4M3FNUZ = 18,
    ONNX_FLOAT8E5M2 = 19,
    ONNX_FLOAT8E5M2FNUZ = 20,
    ONNX_UINT4 = 21,
    ONNX_INT4 = 22,
    ONNX_FLOAT4E2M1 = 23,
    ONNX_FLOAT8E8M0 = 24,
    ONNX_UINT2 = 25,
    ONNX_INT2 = 26,
    ONNX_FLOAT6E2M3 = 27,
    ONNX_FLOAT6E3M2 = 28,
    ONNX_TYPES_COUNT
} OnnxType;
const char *onnx_type_name(OnnxType type); /* "float", "bfloat16", …; "unknown type" outside the list */
int onnx_type_bits(OnnxType type);         /* in a file: 32, 4, …; 0 for strings and undefined */
int onnx_type_bytes(OnnxType type);        /* an element in OnnxTensor.data: those of less than 8 bits take 1 */

/* A tensor of the file: an initializer or an attribute's value. */
typedef struct OnnxTensor {
    const char *name; /* "" in attributes */
    OnnxType type;
    int rank;
    int64_t *dims;
    int64_t count; /* elements: product of dims */
    /* Row-major elements, count * onnx_type_bytes(type) bytes, aligned to 8; NULL for strings and for a missing tensor.
     * Types of less than 8 bits are unpacked, one element a byte: int4 and int2 sign-extended, uint4 and uint2 zero-extended,
     * float4e2m1 and the float6 types as their codes, 0..15 and 0..63. */
    const void *data;
    size_t bytes;
    const char *const *strings; /* ONNX_STRING: count texts, each ended by 0 */
    const size_t *string_sizes;
    bool missing;         /* the file of its external data is not there (only where allow_missing_data was given) */
    const char *location; /* of external data, as the model says it; NULL where the data is in the model */
    void *proto;          /* the file's message, for export.c; NULL where it holds no dense tensor */
} OnnxTensor;

/* The type of an input, output or value. */
typedef struct OnnxDim {
    bool known;
    int64_t value;     /* where known */
    const char *param; /* where not known: the symbol's name or expression, "" where absent */
} OnnxDim;
typedef enum {
    ONNX_IS_TENSOR,
    ONNX_IS_SEQUENCE,
    ONNX_IS_OPTIONAL,
    ONNX_IS_OTHER
} OnnxKind; /* OTHER: map, sparse, opaque, no type */
typedef struct OnnxValueInfo OnnxValueInfo;
struct OnnxValueInfo {
    const char *name;
    OnnxKind kind;
    const OnnxValueInfo *inner; /* what a sequence or optional holds; NULL otherwise */
    OnnxType elem_type; /* of the tensor, or of the innermost tensor; ONNX_UNDEFINED where the file says none that is known */
    bool has_shape;
    int rank;
    OnnxDim *dims;
    bool is_initializer; /* an input that has an initializer of its name: a default value */
};

typedef struct OnnxGraph OnnxGraph;
typedef enum {
    ONNX_ATTR_UNDEFINED = 0,
    ONNX_ATTR_FLOAT = 1,
    ONNX_ATTR_INT = 2,
    ONNX_ATTR_STRING = 3,
    ONNX_ATTR_TENSOR = 4,
    ONNX_ATTR_GRAPH = 5,
    ONNX_ATTR_FLOATS = 6,
    ONNX_ATTR_INTS = 7,
    ONNX_ATTR_STRINGS = 8,
    ONNX_ATTR_TENSORS = 9,
    ONNX_ATTR_GRAPHS = 10,
    ONNX_ATTR_SPARSE_TENSOR = 11, /* given dense, in t */
    ONNX_ATTR_SPARSE_TENSORS = 12,
    ONNX_ATTR_TYPE_PROTO = 13,
    ONNX_ATTR_TYPE_PROTOS = 14
} OnnxAttributeType;
typedef struct OnnxAttribute {
    const char *name;
    OnnxAttributeType type;
    int64_t i;
    double f;
    const char *s; /* ended by 0 */
    size_t s_size;
    OnnxTensor *t;
    OnnxGraph *g;
    const OnnxValueInfo *tp;
    int n; /* of the list that type names */
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    OnnxTensor *const *tensors;
    OnnxGraph *const *graphs;
} OnnxAttribute;

typedef struct OnnxMetadata {
    const char *key, *value;
} OnnxMetadata;

typedef struct OnnxNode {
    const char *name; /* "" where the file gives none; inlined nodes: "CALL/NODE" */
    const char *op_type, *domain, *overload;
    int opset; /* version of domain that holds here; 0 where nothing imports the domain */
    const char **inputs, **outputs;
    int n_inputs, n_outputs;
    OnnxAttribute *attributes;
    int n_attributes;
    const OnnxMetadata *metadata; /* what the exporter says of its origin */
    int n_metadata;
    int index; /* place in its graph of the file, from 0; of the call for inlined nodes */
    bool inlined;
    void *proto; /* the file's message, for export.c; NULL where the node is inlined or made */
} OnnxNode;

/* A name that a subgraph takes from the graphs around it, and the first node, in it or in its bodies, that uses it (NULL: an output
 * of the graph). */
typedef struct OnnxCapture {
    const char *name;
    const OnnxNode *user;
} OnnxCapture;

struct OnnxGraph {
    const char *name;
    OnnxNode **nodes;
    int n_nodes;
    OnnxTensor **initializers; /* sparse ones densified, at the end */
    int n_initializers;
    OnnxValueInfo *inputs, *outputs, *value_info;
    int n_inputs, n_outputs, n_value_info;
    OnnxCapture *captures; /* empty in the model's own graph */
    int n_captures;
    Map *initializer_of; /* name -> OnnxTensor */
};

typedef struct OnnxOpset {
    const char *domain;
    int version;
} OnnxOpset;
/* A tensor of the file whose values are those of a weight. */
typedef struct OnnxStored {
    const char *name;         /* in the model */
    const OnnxTensor *tensor;
    const char *weight;
    int64_t first;            /* tied: its element (i, j, …) is the weight's at first + i * strides[0] + j * strides[1] + … */
    const int64_t *strides;   /* NULL: as the weight's lie */
    bool made;                /* separated: nodes read it, and the file has none of its name */
    bool changes;             /* it trains, or is a running statistic */
} OnnxStored;

typedef struct OnnxModel {
    const char *path;
    Arena *arena;
    int ir_version;
    const char *producer; /* "pytorch 2.15.0"; "" */
    int opset;            /* of the default domain; 1 where it is not imported */
    OnnxOpset *opsets;    /* each domain once, its highest import */
    int n_opsets;
    OnnxGraph *graph;
    OnnxMetadata *metadata;
    int n_metadata;
    VEC(OnnxStored) stored; /* by pass_trainable: all float constants */
    void *proto;            /* the file's message, for export.c */
} OnnxModel;

/* Reads the model at path.  allow_missing_data: tensors whose external data file does not exist come back with missing set;
 * otherwise that is an error. */
OnnxModel *onnx_read(Arena *arena, const char *path, bool allow_missing_data);
/* The same from memory; path names the model in errors, and external data is looked for beside it. */
OnnxModel *onnx_read_memory(Arena *arena, const char *path, const void *bytes, size_t size, bool allow_missing_data);
/* A TensorProto file (input_0.pb of a test data set).  A sequence or optional file is an error. */
OnnxTensor *onnx_read_tensor(Arena *arena, const char *path);
OnnxTensor *onnx_read_tensor_memory(Arena *arena, const char *path, const void *bytes, size_t size); /* path: for errors */

/* The model as it came, packed as a file again, in which each tensor whose weight is a key of `kept` stands without data: instead of
 * a place in another file it has the name of its weight, and a trainer fills it in (runtime/trainer/export.c).  Separated tensors are
 * initializers of their own.  Returns NULL, or why there can be none; the model's messages are changed, nothing else. */
const char *onnx_skeleton(OnnxModel *model, const Map *kept, uint8_t **bytes, size_t *size);

/* "/h.0/MatMul" (MatMul, node 41); a node without a name is called by its first output. */
const char *node_label(Arena *arena, const OnnxNode *node);

OnnxTensor *graph_initializer(const OnnxGraph *graph, const char *name); /* NULL */

/* The value that an exporter left under key; NULL where it left none. */
const char *node_metadata(const OnnxNode *node, const char *key);

/* Attributes of a node.  attr_get: NULL where absent.  The others: the default, or NULL and *n = 0, where absent; an attribute of
 * another type is the user's error, naming the node. */
const OnnxAttribute *attr_get(const OnnxNode *node, const char *name);
bool attr_has(const OnnxNode *node, const char *name);
int64_t attr_int(const OnnxNode *node, const char *name, int64_t absent);
double attr_float(const OnnxNode *node, const char *name, double absent);
const char *attr_string(const OnnxNode *node, const char *name, const char *absent);
const int64_t *attr_ints(const OnnxNode *node, const char *name, int *n);
const double *attr_floats(const OnnxNode *node, const char *name, int *n);
const char *const *attr_strings(const OnnxNode *node, const char *name, int *n);
OnnxTensor *attr_tensor(const OnnxNode *node, const char *name);
OnnxGraph *attr_graph(const OnnxNode *node, const char *name);
#endif
