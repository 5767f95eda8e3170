/* The intermediate representation: a graph of values in SSA form, made by operations (ops.def), over symbolic shapes.
 *
 *     graph train(batch: 1..64 ~ 8, seq: 1..2048 ~ 512)
 *       %7: f32[batch, seq, 768] = add %5, %6                  "/h.0/Add"
 *       %8: f32[batch, seq] = reduce_sum %7, axes=[2]          "/h.0/ln_2"
 *
 * Everything lives in the graph's arena.  Operations stand in an order in which each value is made before it is used. */
#ifndef IR_H
#define IR_H
#include "support/arena.h"
#include "symbolic/expr.h"

/* ---- element types ---- */
#define DTYPES(D) /* name in text, bytes, C type on the device */ \
    D(f32, 4, "float") D(f64, 8, "double") D(f16, 2, "half") D(bf16, 2, "bfloat16") \
    D(i8, 1, "int8_t") D(i16, 2, "int16_t") D(i32, 4, "int32_t") D(i64, 8, "int64_t") \
    D(u8, 1, "uint8_t") D(u16, 2, "uint16_t") D(u32, 4, "uint32_t") D(u64, 8, "uint64_t") D(bool, 1, "bool")
typedef enum {
#define D(name, bytes, c) DTYPE_##name,
    DTYPES(D)
#undef D
    DTYPES_COUNT
} Dtype;
const char *dtype_name(Dtype d);
const char *dtype_c(Dtype d);
int dtype_bytes(Dtype d);
bool dtype_is_float(Dtype d);
bool dtype_is_signed(Dtype d); /* floats too */

/* Element i of row-major data.  Writing rounds to nearest even; a float becomes an integer towards zero, within the integer's range, NaN 0.
 * The _int forms are exact for integers (u64: the same bits) and wrap around; of bool they see 0 and 1. */
double element_read(Dtype d, const void *data, int64_t i);
int64_t element_read_int(Dtype d, const void *data, int64_t i);
void element_write(Dtype d, void *data, int64_t i, double value);
void element_write_int(Dtype d, void *data, int64_t i, int64_t value);

/* ---- operations ---- */
typedef enum {
#define OP(name, class, operands, results, attributes, text) OP_##name,
#include "ir/ops.def"
    OPS_COUNT
} OpKind;
typedef enum { ELEMENTWISE, SOURCE, INDEX, REDUCE, CUMULATIVE, SORT, SCATTER, LATE, DOT, CONV, POOL, ATTENTION, REGION, EFFECT, COMPOSITE } OpClass;

#define ATTRIBUTES(A) /* key, kind */ \
    A(axis, INT) A(axes, INTS) A(last, INT) A(exclusive, INT) A(reverse, INT) A(largest, INT) A(sorted, INT) A(mode, TEXT) A(distribution, TEXT) A(seed, INT) \
    A(start, EXPRS) A(step, INTS) A(content, EXPRS) A(data, DATA) A(trans_a, INT) A(trans_b, INT) \
    A(window, INTS) A(stride, INTS) A(dilation, INTS) A(low, EXPRS) A(high, EXPRS) A(groups, INT) A(carries, INT) A(slices, INT) \
    A(sums, INT) A(block, EXPRS)
typedef enum {
    ATTR_none,
#define A(key, kind) ATTR_##key,
    ATTRIBUTES(A)
#undef A
    ATTRS_COUNT
} AttrKey;
typedef enum { ATTR_INT, ATTR_INTS, ATTR_EXPRS, ATTR_TEXT, ATTR_DATA } AttrKind;
typedef struct {
    AttrKey key;
    int n;                 /* of INTS and EXPRS; bytes of DATA */
    int64_t i;             /* INT */
    const int64_t *ints;   /* INTS */
    Expr *const *exprs;    /* EXPRS */
    const char *text;      /* TEXT */
    const void *data;      /* DATA: the elements, row-major, of the result's dtype */
} Attr;

typedef struct OpInfo { const char *name; OpClass class; int operands, results; AttrKey attributes[6]; const char *text; } OpInfo;
const OpInfo *op_info(OpKind kind);
const char *attr_name(AttrKey key);
AttrKind attr_kind(AttrKey key);
bool attr_named(const char *name, AttrKey *key);
bool op_kind_draws(OpKind kind); /* random numbers */
bool op_kind_named(const char *name, OpKind *kind);

typedef struct Graph Graph;
typedef struct Op Op;
typedef struct Value Value;
typedef VEC(Op *) Ops;
typedef VEC(Value *) Values;
bool values_hold(const Values *values, const Value *v);
void values_add_once(Arena *arena, Values *values, Value *v);

struct Op {
    OpKind kind;
    int id;                /* its place when it was made; unique in its graph */
    Value **in; int n_in;
    Value **out; int n_out;
    Attr *attrs; int n_attrs;
    Graph *body[2];        /* REGION: scan and while have one, branch two; ATTENTION: the score function, and for the gradient its derivative */
    const char *source;    /* name of the model's node it came from, for readers; never NULL ("" where there is none) */
    const char *role;      /* "" forward, "gradient", "optimizer", "loss": where in the step it belongs */
};

/* What a value that no operation makes is. */
typedef enum {
    FROM_OP,
    FROM_BATCH,            /* a tensor of the batch: model input or target */
    FROM_WEIGHT,           /* an initializer: trainable or not (Tensor says) */
    FROM_STATE,            /* kept between steps: optimizer moments */
    FROM_HYPER,            /* scalar f32 set by the trainer for each step: "lr", "beta1", … and i64 "step" */
    FROM_PARAMETER         /* input of a region's body */
} Origin;

/* What the program relies on in integers of the batch, which are guarded: 0 <= each < n. */
typedef struct IndexRange {
    Expr *n;
    bool from_end;         /* or -n <= each < 0 */
    bool labels;           /* a loss takes them for numbers of classes; else they pick rows */
    bool has_ignore; int64_t ignore; /* of labels: the number that counts nothing; the same in all ranges of a value */
    const char *source;    /* who relies on it */
} IndexRange;
typedef VEC(IndexRange) IndexRanges;

struct Value {
    int id;                /* %id in text; unique in its graph */
    const char *name;      /* the model's name or a made one; unique among inputs */
    Dtype dtype;
    int rank;
    Expr **shape;
    Origin origin;
    Op *def;               /* FROM_OP */
    int result;            /* which result of def */
    struct Tensor *tensor; /* FROM_WEIGHT and FROM_STATE */
    IndexRanges ranges;    /* FROM_BATCH, integers */
    Ops users;             /* operations that have it as operand, each once; outputs of the graph do not count */
};

/* A named tensor that outlives a step: weight or state.  Its shape is fixed. */
typedef struct Tensor {
    const char *name;      /* as in the model; NAME#node for a separated one; WEIGHT.exp_avg for a state */
    Dtype dtype;
    int rank; int64_t dims[8];
    const void *data;      /* row-major elements, NULL where a rule makes them */
    const char *init;      /* rule ("zeros", "ones", "normal(0.02)") where data is NULL */
    bool trainable;
    bool parameter;        /* it trains, or would but for the user's wish */
    const char *reason;    /* why it trains or not, in words */
    bool statistics;       /* running mean or variance: no gradient, but assigned */
    struct Tensor *of;     /* of a state: the weight it belongs to */
} Tensor;

struct Graph {
    Arena *arena;
    Symbols *symbols;
    const char *name;      /* "train", "evaluate", "body" */
    Values inputs;         /* batch, weights, states, hypers, parameters in order */
    Ops ops;               /* in an order of execution */
    Ops spare;             /* room for the list that a pass writes next */
    Values outputs;        /* what the graph is for */
    const char **output_names; /* beside outputs; NULL in bodies */
    const uint8_t *marks;  /* by value id: an output; NULL but in a walk that asks often */
    int marked;            /* ids that they tell of */
    int next_value, next_op;
    const char *source, *role; /* given to operations made from now on */
};

Graph *graph_new(Arena *arena, Symbols *symbols, const char *name);
Value *graph_input(Graph *g, const char *name, Dtype dtype, int rank, Expr *const *shape, Origin origin);
Value *graph_find_input(const Graph *g, const char *name); /* NULL */
/* Equal for graphs that differ in names alone, their operations having the same ids; NULL where there are regions. */
const char *graph_alike(Arena *arena, const Graph *g);
/* From now on v, of the batch, is guarded to lie in the range.  False where no guard can tell: n is known too late, or another number is ignored. */
bool graph_watch_range(Graph *g, Value *v, IndexRange range);
bool graph_is_output(const Graph *g, const Value *v);      /* costs as much as g has outputs, but between the next two */
void graph_mark_outputs(Graph *g, Arena *arena);           /* from here to there outputs change through graph_replace alone */
void graph_unmark_outputs(Graph *g);
uint8_t *graph_outputs(Arena *arena, const Graph *g);      /* by value id: whether it is one */
/* Appends an operation whose results have the given types; most callers want build.h instead. */
Op *graph_op(Graph *g, OpKind kind, Value *const *in, int n_in, int n_out);
Value *op_result(Graph *g, Op *op, int result, Dtype dtype, int rank, Expr *const *shape);
void op_set_int(Graph *g, Op *op, AttrKey key, int64_t value);
void op_set_ints(Graph *g, Op *op, AttrKey key, const int64_t *values, int n); /* copied */
void op_set_exprs(Graph *g, Op *op, AttrKey key, Expr *const *values, int n);  /* copied */
void op_set_text(Graph *g, Op *op, AttrKey key, const char *text);
void op_set_data(Graph *g, Op *op, AttrKey key, const void *data, size_t bytes); /* copied */
const Attr *op_attr(const Op *op, AttrKey key); /* NULL */
int64_t op_int(const Op *op, AttrKey key);      /* internal fault where missing; so are the next ones */
const int64_t *op_ints(const Op *op, AttrKey key, int *n);
Expr *const *op_exprs(const Op *op, AttrKey key, int *n);
const char *op_text(const Op *op, AttrKey key);

Expr *value_count(const Graph *g, const Value *v); /* elements */
Expr *value_bytes(const Graph *g, const Value *v);
bool same_shape(Graph *g, const Value *a, const Value *b); /* certainly equal, dim by dim */
bool value_is_size(Graph *g, const Value *v, Expr *n); /* n, as a number or a dim, through broadcast, reshape and cast */
bool cast_keeps_places(const Op *cast);       /* integers that pick one of n stay what they are, whatever n is */
bool value_is_scalar_constant(const Value *v, double *value); /* through broadcast, reshape and cast of a one-element constant */
/* Replaces one operand, and keeps the lists of users. */
void op_set_operand(Graph *g, Op *op, int i, Value *v);
/* Replaces old by new in all operands and outputs of g, but not in the operation that makes new (so x may become f(x)).
 * Costs as much as old has users.  Where new was made after a user of old, graph_sort brings order again. */
void graph_replace_operands(Graph *g, Value *old, Value *new_value); /* in operations alone: outputs are the caller's */
void graph_replace(Graph *g, Value *old, Value *new_value);
/* Moves an operation before its first user where it stood too late; an order that is right already stays as it is.
 * Assigns come after the commit and after all readers of their targets.  Linear. */
void graph_sort(Graph *g);
/* Drops operations none of whose results reaches an output or an effect, in bodies too.  Linear. */
void graph_prune(Graph *g);
/* Makes the lists of users anew, for a pass that wrote g->ops or operands itself.  Linear. */
void graph_settle(Graph *g);
/* Appends the operations of a body to g, with args in the place of its inputs; returns what its outputs became. */
Value **graph_inline(Graph *g, const Graph *body, Value *const *args);
Graph *graph_clone(Graph *g, const char *name, Value ***map); /* map[old id] = new value; Tensors shared; bodies cloned; map may be NULL */
/* A graph of its own that makes some values of g from given ones: the operations between.  What is given and needed becomes its inputs, which
 * *in names in the same order; weights, states and hypers stay such.  *of names what its operations are copies of, in the same order.
 * map: by value id, all NULL, and so again behind it.  All that is made comes from the arena. */
Graph *graph_cut(Graph *g, Arena *arena, const char *name, const Values *results, const Values *given, Value **map, Values *in, Ops *of);
void graph_canonical(Graph *g);                         /* shapes and attributes: dims stated equal bear one name everywhere */

void graph_print(Buf *out, const Graph *g);             /* text form */
Graph *graph_parse(Arena *arena, Symbols *symbols, const char *text); /* errors of the text end with error_exit (line, what) */
void graph_verify(const Graph *g, const char *after);   /* internal fault at the first thing that is not as it should be */
#endif
