/* What the float constants of a model are for: the part of `trainable` that looks at the model. */
#ifndef PASSES_ROLES_H
#define PASSES_ROLES_H
#include "ir/ir.h"
#include "onnx/model.h"

/* One place where a constant ends: the operation that works with it, seen through Identity, Transpose, Reshape and the like. */
typedef struct Use {
    const OnnxNode *node; /* the operation */
    int input;
    OnnxNode *taker; /* the node that reads the constant itself (node, or the first of the Identity… between) */
    int taker_input;
    bool expanded;    /* an Expand lies between */
    OnnxGraph *graph; /* where the taker stands */
} Use;

typedef struct Candidate {
    const char *name;
    OnnxTensor *tensor;
    OnnxGraph *graph; /* where it is defined */
    OnnxNode *node;   /* the Constant node, NULL for an initializer */
    VEC(Use) uses;
    bool constant_filled; /* all elements equal */
    bool statistics;      /* running mean or variance */
    bool trains;
    const char *reason; /* why it trains or not */
    const char *init;   /* "gain", "bias" or "matrix": how --init makes it */
} Candidate;
typedef VEC(Candidate *) Candidates;

/* All float constants of the model, subgraphs included, in order of appearance, with uses, roles and reasons. */
void find_roles(Arena *arena, OnnxModel *model, Candidates *out);
/* val_12, onnx::Conv_17, /Constant_3_output_0, 42: a name that an exporter made up */
bool name_is_generated(const char *name);
#endif
