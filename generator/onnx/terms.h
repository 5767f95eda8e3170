/* Terms, scopes and bodies: what import.c, region.c and the families share beneath import.h.
 *
 * A Scope holds the names of one ONNX graph; a Body is the IR graph that nodes are imported into: the program, or a region's body.
 * A name found outside the present body becomes a parameter of it (a capture) once its value is needed; elements that are known
 * cross the border without one. */
#ifndef ONNX_TERMS_H
#define ONNX_TERMS_H
#include "onnx/import.h"
#include "support/diag.h"

enum { MOST_AXES = 32 };

typedef struct Body {
    Graph *graph;
    struct Body *outer;        /* NULL: the program itself */
    struct Scope *outer_scope; /* where the body's subgraph stands */
    Values outside;            /* captured values of the outer graph, beside ... */
    Values inside;             /* ... the parameters they became */
    Value *iteration;          /* of a loop: i64 (), how often its body has run; NULL: no loop's */
    Value *turn;               /* of a loop: u64 (), the same of all loops around it too, once asked for */
} Body;

typedef struct Scope {
    Map *terms;          /* name -> Term */
    struct Scope *outer; /* in the same body; NULL: the body's first */
    Body *body;
    const OnnxGraph *source;
} Scope;

/* ---- scopes and bodies ---- */
Scope *scope_push(Import *im, const OnnxGraph *source);
void scope_pop(Import *im);
void scope_define(Import *im, const char *name, Term *term);
Term *scope_find(Import *im, const char *name); /* internal fault where nobody knows it */
/* From body_open to body_close nodes are imported into a new graph, the body of a region. */
Body *body_open(Import *im, const OnnxGraph *sub, const char *name);
Value *body_parameter(Import *im, const char *name, Dtype dtype, int rank, Expr *const *shape);
void body_close(Import *im);
/* The parameter of body that outside, a value of the graph around it, comes in through. */
Value *body_capture(Import *im, Body *body, Value *outside);
/* A number for each time that the body's nodes run, u64 (), as the body sees it; NULL: they run once. */
Value *body_turn(Import *im, Body *body);
/* A value of the program as the present body sees it. */
Value *value_from_program(Import *im, Body *body, Value *value);
void import_nodes(Import *im, const OnnxGraph *graph); /* those that an output needs */

/* ---- terms ---- */
Term *term_new(Import *im, Dtype dtype, int rank, Expr *const *shape);
Term *term_of_value(Import *im, Value *value);
Term *term_of_content(Import *im, Dtype dtype, int rank, Expr *const *shape, Expr *const *content);
Term *term_of_tensor(Import *im, const OnnxTensor *tensor);
Expr *sequence_length(Import *im, const Term *t);
Term *term_of_items(Import *im, int n); /* a sequence, whose items the caller sets */
/* Elements of a term whose dims are all known; -1 otherwise. */
int64_t term_count(const Term *t);
/* The dims of a term whose dims are all known. */
void term_dims(const Term *t, int64_t *dims);
bool all_ints(Expr *const *e, int n, int64_t *out);
Expr **int_exprs(Import *im, const int64_t *values, int n);
const char *term_text(Import *im, const Term *t);                 /* i64[2] = {batch, 4} */
const char *shape_text(Import *im, Expr *const *shape, int rank); /* [batch, 4] */
/* Content that view i of the elements shows: element (i0, i1, ..) is content[base + sum of i * stride]. */
Expr *const *content_view(Import *im, Expr *const *content, int64_t base, const int64_t *stride, const int64_t *dims, int rank);
/* Terms joined along an axis; the user's error where they do not fit. */
Term *concat_terms(Import *im, const OnnxNode *node, Term *const *parts, int n, int axis);
/* The same elements in another shape. */
Term *reshape_term(Import *im, Term *t, int rank, Expr *const *shape);
/* Element of a term of one element: known, or seen through the casts to float that models compute sizes with; NULL otherwise. */
Expr *scalar_expr(Import *im, const Term *t);
Expr *element_expr(Import *im, const Term *t, int64_t i); /* the same of element i, row-major */
/* The one value that element i of t shows, seen through views, plus a known number; NULL where it is no value of its own. */
Value *element_value(Import *im, Term *t, int64_t i, int64_t *plus);
/* Element i of a float term that is put together from constants and initializers; false where it is none. */
bool element_number(Import *im, const Term *t, int64_t i, double *element);
/* A float term as known integers of dtype (what a Cast makes of it): constants, and sizes computed in floats such as
 * Floor(Cast(height) * 0.5).  NULL where they cannot be told. */
Term *whole_elements(Import *im, const Term *t, Dtype dtype);
void row_major(const int64_t *dims, int rank, int64_t *stride);
/* e as an element of dtype: integers wrapped around as they would be; NULL where e may leave a narrow dtype's range. */
Expr *content_element(Import *im, Dtype dtype, Expr *e);
double tensor_number(const OnnxTensor *t, int64_t i);

/* ---- arithmetic on known elements ---- */
/* One element of the result of an elementwise operator from one of each operand; NULL where it cannot be told. */
typedef Expr *Fold(Import *im, Expr *const *operand);
/* The operator's result as content, where the elements of all n operands are known and fold tells all of the result's. */
Term *fold_elements(Import *im, Dtype dtype, Term *const *operands, int n, Fold *fold);
Fold fold_add, fold_sub, fold_mul, fold_div, fold_mod, fold_rem, fold_pow, fold_min, fold_max, fold_eq, fold_lt, fold_le, fold_gt,
    fold_ge, fold_and, fold_or, fold_xor, fold_not, fold_neg, fold_abs, fold_sign, fold_where, fold_same, fold_truth;

/* ---- element types ---- */
/* The dtype that elements of an ONNX type are computed in: half floats as f32, 4-bit integers as 8-bit ones; the user's error where
 * there is none. what: `input "x"`. */
Dtype import_dtype(Import *im, const OnnxNode *node, int onnx_type, const char *what);

/* ---- dims ---- */
/* a + b and so on, where min and max are decided as far as the ranges of symbols allow. */
Expr *min_of(Import *im, Expr *a, Expr *b);
Expr *max_of(Import *im, Expr *a, Expr *b);
/* e / by.  Where that is not certain to leave no rest, the model says so: a symbol is stated to be divisible, or the equation
 * itself, and run time guards it. NULL where it never divides. */
Expr *divided_evenly(Import *im, Expr *e, Expr *by);
Expr *number(Import *im, int64_t value);
/* States a == b, guarded at run time where it is not certain; false where they are never equal. */
bool state_equal(Import *im, Expr *a, Expr *b);
/* The shape that two shapes broadcast to; the user's error, naming both, where they never fit. */
Expr **broadcast_shapes(Import *im, const OnnxNode *node, int rank_a, Expr *const *a, int rank_b, Expr *const *b, int *rank);
/* The dim called by a model's dim_param: an expression, or a symbol of exactly that name. */
Expr *dim_of_text(Symbols *symbols, const char *text);
/* v, or what it is where it is an integer computation on positions that comes out the same for all elements. */
Value *one_for_all(Import *im, Value *v);
/* Whether v is start, start + 1, start + 2, .. along one axis and the same along all others; axis -1: the same everywhere. */
bool rises_along(Import *im, const Value *v, int *axis, Expr **start);
/* Whether v is 0, 1, .. count - 1 in row-major order. */
bool counts_all(Import *im, const Value *v, Expr *count);
/* The scalar constant that v repeats everywhere; NULL where it is none. */
Value *same_everywhere(const Value *v);
/* Index made >= 0: negative ones count from the end of a dim of n. */
Value *normal_index(Import *im, Value *index, Expr *n);
/* Certainly >= 0, as can be seen from how it was made. */
bool never_negative(Import *im, const Value *v);
#endif
