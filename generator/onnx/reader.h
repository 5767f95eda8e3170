/* What the files of the ONNX reader share among themselves; the rest of the generator needs model.h alone.
 *
 *     bytes ─ scan.c ─> known to be sound ─ protobuf-c ─> Onnx__ModelProto ─ artifact.c ─> no training artifact
 *           ─ graph.c (with tensor.c, external.c, function.c) ─> OnnxGraph ─ sort.c ─> checked and in order */
#ifndef ONNX_READER_H
#define ONNX_READER_H
#include "onnx/model.h"
#include "onnx.pb-c.h"

enum {
    GRAPH_LEVELS_MAX = 64,  /* graphs in graphs, in the file */
    BUILD_LEVELS_MAX = 128, /* the same with inlined calls */
    NODES_MAX = 500 * 1000  /* nodes and inlined calls */
};

typedef struct Opsets {
    const struct Opsets *outer; /* asked where a domain is not among these */
    OnnxOpset *at;
    int n;
} Opsets;

/* How names and attribute references in a function's body are read; NULL in Place of a graph of the model itself. */
typedef struct Call {
    const struct Call *outer; /* the call whose body this call stands in */
    const Onnx__FunctionProto *function;
    const char *prefix; /* of names made for this call */
    int index;          /* of the outermost call's node: what nodes of the body say */
    Map *names;         /* name in the body -> name in the model */
    Map *attributes;    /* name -> OnnxAttribute of the call, or of the function's default */
} Call;

typedef struct Reader {
    Arena *arena;
    const char *path;
    bool allow_missing_data;
    OnnxModel *model;
    Map *functions; /* key (function_key) -> Onnx__FunctionProto; NULL where the model has none */
    Map *taken;     /* all names of values, where there are functions */
    Map *files;     /* location -> ExternalFile */
    int levels;     /* graphs and calls around what is being built */
    int n_nodes;
} Reader;

/* Whose tensor is being read: for errors. */
typedef struct Owner {
    const OnnxNode *node; /* and its attribute; or NULL */
    const char *name;     /* of the attribute, or of the initializer */
} Owner;

/* scan.c.  Walks the wire format without recursion.  NULL where protobuf-c can unpack the bytes safely; else what is wrong, in
 * words that follow "FILE: ". */
const char *scan_message(Arena *arena, const ProtobufCMessageDescriptor *message, const uint8_t *bytes, size_t size);
/* What the file is if it is some other kind of file ("is a text file"), NULL where it may be an ONNX file. */
const char *other_format(const uint8_t *bytes, size_t size);
/* Unpacks into the arena; what was scanned can always be unpacked. */
ProtobufCMessage *unpack_message(Arena *arena, const ProtobufCMessageDescriptor *message, const uint8_t *bytes, size_t size);

/* reader.c */
typedef struct MappedFile {
    const uint8_t *bytes; /* NULL where the file is empty or error is set */
    size_t size;
    const char *error; /* words that follow "FILE: " */
} MappedFile;
MappedFile file_map(Arena *arena, const char *path);
void file_unmap(MappedFile file);
const char *folder_of(Arena *arena, const char *path); /* "." where path has no slash */
int opset_version(const Opsets *opsets, const char *domain);
Opsets *opsets_build(Reader *r, Onnx__OperatorSetIdProto *const *imports, size_t n, const Opsets *outer);
const char *plain_domain(const char *domain); /* NULL and "ai.onnx" become "" */

/* graph.c */
OnnxGraph *graph_build(Reader *r, const Onnx__GraphProto *proto, const Call *call, const Opsets *opsets);
typedef VEC(OnnxNode *) Nodes;
void nodes_build(Reader *r, Nodes *out, Onnx__NodeProto *const *protos, size_t n, const Call *call, const Opsets *opsets);
OnnxAttribute *attribute_build(Reader *r, const OnnxNode *node, const Onnx__AttributeProto *proto, const Call *call,
                               const Opsets *opsets);
void level_enter(Reader *r);
void level_leave(Reader *r);

/* function.c */
void functions_collect(Reader *r, const Onnx__ModelProto *proto);
const Onnx__FunctionProto *function_of(const Reader *r, const OnnxNode *node); /* NULL where the node is no call */
void function_inline(Reader *r, Nodes *out, const OnnxNode *node, const Onnx__FunctionProto *function, const Call *call,
                     const Opsets *opsets);
const char *call_name(Reader *r, const Call *call, const char *name); /* of a value in the body; name itself where call is NULL */

/* sort.c */
void graph_order(Reader *r, OnnxGraph *graph, bool is_main);

/* tensor.c */
OnnxTensor *tensor_build(Reader *r, Onnx__TensorProto *proto, Owner owner); /* afterwards all that is known of its data is in proto */
OnnxTensor *tensor_build_sparse(Reader *r, const Onnx__SparseTensorProto *proto, Owner owner);
const char *owner_text(Arena *arena, Owner owner); /* initializer "w"; attribute "value" of "/c" (Constant, node 3) */

/* external.c.  The bytes of a tensor kept in another file: wanted bytes of them, in the mapped file; NULL where the file is missing
 * and may be (or wanted is 0).  *location is set. */
const uint8_t *external_bytes(Reader *r, const Onnx__TensorProto *proto, Owner owner, size_t wanted, const char **location,
                              bool *missing);

/* artifact.c */
void artifact_refuse(Reader *r, const Onnx__ModelProto *proto);
/* Sentences that name the model to give instead of an artifact, from the files beside it. */
const char *artifact_advice(Arena *arena, const char *path);
#endif
