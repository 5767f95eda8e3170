/* From ONNX nodes to the IR: one function an operator, found through onnx/ops.def, grouped in files by family.
 *
 * An ONNX name stands for a Term: a value of the graph, or (small integer tensors made of shapes and constants) its elements as
 * expressions, so that Shape -> Gather -> Concat -> Reshape leaves nothing in the program.  A term may have both.
 * The model is imported once for each program wanted (training, evaluation); the tensors are shared by name. */
#ifndef ONNX_IMPORT_H
#define ONNX_IMPORT_H
#include <stdnoreturn.h>
#include "ir/build.h"
#include "onnx/model.h"

typedef struct Term {
    Dtype dtype;
    int rank;
    Expr **shape;
    Value *value;          /* NULL until somebody needs it (term_value makes it) */
    Expr *const *content;  /* elements, row-major; NULL where unknown; only for integers and bool of at most TERM_CONTENT_MAX elements */
    const OnnxTensor *tensor; /* the initializer or Constant it is, NULL otherwise: its bytes may be read */
    struct Term **items; int n_items; bool is_sequence, is_absent; /* sequences and optionals are compile-time lists */
    struct Term *rows;     /* of a sequence: a tensor whose rows are its items behind those; NULL: no more */
    bool grows;            /* of a sequence in a loop's body: items of steps before stand in front, which nobody sees */
    struct Term *outer;    /* the term of the graph around, where this is how a region's body sees it */
} Term;
enum { TERM_CONTENT_MAX = 4096 };

typedef struct Import {
    Arena *arena;
    Symbols *symbols;
    Graph *graph;          /* the graph being built: the program, or a region's body */
    const OnnxModel *model;
    bool training;         /* Dropout drops, BatchNormalization may use the batch's statistics */
    enum { BATCH_NORM_AS_EXPORTED, BATCH_NORM_TRAIN, BATCH_NORM_FROZEN } batch_norm;
    struct Scope *scope;   /* names -> terms, innermost graph first */
    Map *tensors;          /* name -> Tensor *, shared between imports */
    struct ImportReport *report; /* what to tell the user: folded norms, ignored Dropouts, … */
    int64_t next_seed;     /* for random operators without a seed, the same in each import */
    int64_t copy;          /* which copy of an unrolled loop's body is being imported, from 1; 0: none */
    Map *weight_names;     /* of every initializer and Constant, by its address: unique in the model */
    Map *weight_inputs;    /* name -> the program's input that holds it, once used */
} Import;

/* ---- for operator functions ---- */
typedef void ImportFunction(Import *im, const OnnxNode *node);

int opset(const Import *im, const OnnxNode *node);         /* version of the node's domain */
bool has_input(const OnnxNode *node, int i);               /* given and not "" */
Term *input_term(Import *im, const OnnxNode *node, int i); /* user error where absent */
Value *input(Import *im, const OnnxNode *node, int i);     /* term_value(input_term) */
Value *term_value(Import *im, Term *term);
/* Integers known at generation time, perhaps symbolic: axes, shapes, starts… from an input.  NULL and *n = -1 where the elements are not known;
 * input_exprs_or_error says so to the user and names the input. */
Expr *const *input_exprs(Import *im, const OnnxNode *node, int i, int *n);
Expr *const *input_exprs_or_error(Import *im, const OnnxNode *node, int i, int *n, const char *what);
Expr *input_size(Import *im, const OnnxNode *node, int i, const char *what); /* one number, not negative */
/* Plain integers from attribute `name` (older opsets) or input i (newer): NULL where neither is given. */
const int64_t *ints_from(Import *im, const OnnxNode *node, const char *name, int i, int *n);
/* One float known at generation time from input i (initializer or constant): false where unknown. */
bool input_number(Import *im, const OnnxNode *node, int i, double *value);
int normal_axis(Import *im, const OnnxNode *node, int64_t axis, int rank); /* -rank..rank-1 -> 0..; user error outside */

void output(Import *im, const OnnxNode *node, int i, Value *value);       /* nothing where the node does not want output i */
void output_content(Import *im, const OnnxNode *node, int i, Dtype dtype, int rank, Expr *const *shape, Expr *const *content);
void output_term(Import *im, const OnnxNode *node, int i, Term *term);
bool wants_output(const OnnxNode *node, int i);

noreturn void import_error(Import *im, const OnnxNode *node, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *type_text(Import *im, const Value *v);         /* f32[batch, seq, 64] */

/* ---- regions ---- */
/* Imports a subgraph's nodes straight into the present graph (an If whose condition is known); results are the terms of its outputs. */
void import_inline(Import *im, const OnnxGraph *sub, Term **inputs, int n_inputs, Term **results);

/* ---- for the pipeline ---- */
typedef struct ImportOptions { bool training; int batch_norm; } ImportOptions;
/* Checks that every operator is known (all unknown ones in one error, with counts), then builds the graph.  tensors: as above, may start empty. */
Graph *import_model(Arena *arena, Symbols *symbols, const OnnxModel *model, const ImportOptions *options, Map *tensors, struct ImportReport *report);
Dtype dtype_of_onnx(int onnx_type);                        /* DTYPES_COUNT where there is none */
/* A Tensor of the IR from one of the file, named `name`: data shared, but float16 and bfloat16 become float32.  Does not train until told. */
Tensor *weight_tensor(Arena *arena, const OnnxTensor *tensor, const char *name);

/* What the importer noticed; printed by the pipeline, once. */
typedef struct ImportReport { Arena *arena; VEC(const char *) lines; Map *seen; } ImportReport;
void report_line(ImportReport *report, const char *format, ...) __attribute__((format(printf, 2, 3))); /* equal lines once */
#endif
