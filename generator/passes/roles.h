/* What the float constants of a model are for: the part of `trainable` that looks at the model. */
#ifndef PASSES_ROLES_H
#define PASSES_ROLES_H
#include "ir/ir.h"
#include "onnx/model.h"

/* One place where a constant ends: the operation that works with it, seen through Identity, Transpose, Reshape and the like. */
typedef struct Use {
    const OnnxNode *node; /* the operation */
    int input;
    OnnxNode *taker; /* the first that reads the constant, Identities aside: node, or the view or arithmetic before it */
    int taker_input;
    bool computed;    /* arithmetic on constants alone lies between, as a weight norm's */
    bool bent;        /* and of a kind that keeps what is learned positive, or within bounds: its exponential */
    OnnxGraph *graph; /* where the taker stands */
    bool trains;      /* what this use alone makes of the constant */
    const char *reason, *init;
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
    bool parameter;            /* it would train, had the user not said otherwise */
    bool gone;                 /* nothing reads it any more: separated or tied */
    bool made;                 /* separated from another */
    bool apart, whole;         /* a table of --trainable names its parts, or itself: neither tied nor merged, or not separated */
    bool listed;               /* a table of --trainable has its name */
    VEC(const char *) aliases; /* names of the model that it stands for besides its own */
    VEC(const char *) parts;   /* names of tensors that hold some of it, or all in another order, and were tied to it */
    const char *reason;        /* why it trains or not */
    const char *init;          /* "gain", "bias" or "matrix": how --init makes it */
} Candidate;
typedef VEC(Candidate *) Candidates;

/* All float constants of the model, subgraphs included, in order of appearance, with uses, roles and reasons. */
void find_roles(Arena *arena, OnnxModel *model, Candidates *out);

/* What PyTorch's dynamo exporter says that the initializer is that node reads: 'p' a parameter, 'b' a buffer, 0 nothing (exporter.c). */
char exporter_kind(const OnnxNode *node, const char *name);
bool exporter_says_norm(const OnnxNode *node);     /* the node is, or is part of, one of PyTorch's norms */
bool exporter_norm_is_plain(const OnnxNode *node); /* and that has no parameters */
bool exporter_says_bias(const OnnxNode *node);     /* it has two parameters or more, a weight and a bias */
bool exporter_has_source(const OnnxNode *node);    /* the exporter says what the node was in PyTorch */

/* ---- evidence of names and elements (roles_evidence.c) ---- */
/* val_12, onnx::Conv_17, /Constant_3_output_0, p2o.helper.constant.7, mul/y:0, 42: a name that an exporter made up; but
 * model/dense/MatMul/ReadVariableOp:0 and conv2d_0.w_0 are names of parameters */
bool name_is_generated(const char *name);
bool name_is_word(const char *name, const char *const *words); /* one of them, as it is or with _NUMBER behind it; words end with NULL */
bool name_is_result(const char *name); /* sqrt, mul_3: as dynamo calls what arithmetic gives */
bool name_is_numbered_value(const char *name); /* val_3: as dynamo numbers them */
bool name_is_computed(const char *name);  /* generated, or called after a view: slice_1, permute, t_3 */
bool name_is_statistic(const char *name);       /* target_mean, x.std: ends in the word; but log_std is learned */
bool elements_equal(const OnnxTensor *t);       /* one value throughout */
bool elements_are_all(const OnnxTensor *t, double x);
bool elements_are_zeros(const OnnxTensor *t);   /* as the imaginary parts of what is real */
bool elements_are_mask(const OnnxTensor *t);    /* 0 and one other value, which no trained table holds */
bool elements_are_sines(const OnnxTensor *t);   /* a table of sines and cosines of positions: row 0 is half 0 and half 1 */
bool elements_are_even(const OnnxTensor *t);    /* each row in equal steps, as distances between positions */
bool elements_rise_or_fall(const OnnxTensor *t); /* each greater than the one before, or each less: a schedule, or positions */
bool elements_are_random(const OnnxTensor *t);   /* as drawn: few alike, no steps, more digits in all than a person writes */
bool elements_are_filters(const OnnxTensor *t); /* nothing negative, mostly zeros: mel filters */
#endif
