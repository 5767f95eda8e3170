/* Inside emit/: one kernel while it is written.  The files of a kind (loop.c, reduce.c, …) open loops and store results; element.c
 * writes the expression of one element of a value; kernel.c keeps parameters, variables, blocks and index arithmetic; kernels.c
 * keeps all kernels.
 *
 * A kernel's body is written three times by the same function: once to see at which indices memory is read (then axes that are
 * always walked together are merged: a sum of two equal shapes becomes one flat loop), once to count how often each element is used
 * (what is used once stands inside its user), and once for good. */
#ifndef EMIT_KERNEL_H
#define EMIT_KERNEL_H
#include "emit/emit.h"
#include "emit/repeats.h"
#include "emit/kernel_text.h"
#include "emit/names.h"
#include "support/diag.h"

enum { MAX_AXES = 16, MAX_TERMS = 24, MAX_BLOCKS = 32 };

/* An integer variable of the kernel: a loop's, a quotient's, a loaded index's. */
typedef struct Var {
    const char *name;
    int level;              /* of the block it stands in */
    Expr *extent;           /* 0 <= it < extent, NULL where unknown */
    const char *definition; /* text; NULL for loop variables, quotients and remainders */
    struct Affine *of;      /* of / by or of % by, of >= 0 */
    Expr *by;
    bool remainder;
    bool safe;     /* by is not 0 wherever the loops run */
    bool standing; /* its definition is written, or it needs none */
    int at_level;  /* of the block in which the definition was written */
    int group;     /* in the first pass: 1 + the group of axes that its loop walks; 0: none */
    Expr *bound;   /* without an extent: what it adds to an index is less than this; NULL: not known */
} Var;
/* constant + sum of scale * var: an index or an offset. */
typedef struct Affine {
    Expr *constant;
    int n;
    struct {
        Var *var;
        Expr *scale;
    } term[MAX_TERMS];
} Affine;
/* Where in a value: one Affine an axis, or (flat) at[0] is the position in row-major order. */
typedef struct {
    bool flat;
    int rank;
    Affine at[MAX_AXES];
} Index;

/* A piece of C: how tightly it binds, and the innermost block that it depends on. */
enum { BINDS_LOW, BINDS_COMPARISON, BINDS_SUM, BINDS_PRODUCT, BINDS_UNARY, BINDS_ATOM };
typedef struct {
    const char *text;
    int binds, level;
} Code;

typedef struct {
    Arg arg;
    const char *name, *type; /* "a", "const float *" */
    bool result;
} Param;

/* Axes of the walked shape, outermost first; the parts they are cut into (an axis that a reshape splits has two); groups of parts
 * that one loop walks. */
typedef struct {
    int axis;
    Expr *extent;
    int group; /* -1: extent 1 */
} AxisPart;
typedef struct {
    Expr *extent;
    int kind; /* parts of different kinds are not merged: kept, reduced */
} AxisGroup;
/* 0 <= index < size, where a condition says so. */
typedef struct {
    Affine index;
    Expr *size;
} Fact;

typedef struct Pack {        /* four neighbours: "const Four<float> a_4(a + at);" */
    const char *type, *place, *name;
} Pack;
typedef struct Memo {
    const Value *value;
    const char *key;
    Code code;
    int level; /* of the block in which it is known */
    bool gone; /* that block is closed */
    int uses;
} Memo;

typedef struct Kernel {
    Kernels *all;
    Arena *arena;
    Symbols *symbols;
    const Group *group;
    const char *kind; /* what its comment calls it; NULL: as the group's kind */
    bool part;        /* of several kernels that make one group: the first alone counts what is saved */
    enum { PASS_COLLECT, PASS_COUNT, PASS_WRITE } pass;
    VEC(Param) params;
    int n_sizes;
    bool any_size; /* known numbers may be parameters: size_any */
    VEC(struct {
        Expr *expr;
        const char *text;
        int binds;
    })
    exprs;
    VEC(struct {
        Expr *expr;
        const char *base;
    })
    size_names;
    VEC(Memo) memos;
    VEC(int) uses; /* of each memo, from the pass before */
    VEC(Var *) vars;
    const char *unnamed; /* the text before that */
    Strings offsets; /* names of variables that hold offsets, until the text stands: name_offsets */
    VEC(struct {
        const char *base;
        int n;
    })
    names;
    struct {
        Buf text;
        const char *head; /* "FOR_EACH (i, n)"; NULL: the function's body */
        const char *before; /* lines that stand right before the head, behind what is moved out of the block */
        bool guard;       /* a condition: nothing inside may be moved out */
    } block[MAX_BLOCKS];
    const char *index_type; /* "Index": a kernel in two forms, with 32-bit and with 64-bit indices; else "int64_t" */
    VEC(Expr *) reach;      /* what its index arithmetic comes to: 1 more than the greatest value of each size, product and sum */
    const Value *whole; /* the value whose element makes a statement of its own: long text is no matter */
    bool fours, unfit;      /* loops take elements in fours, where the second pass finds nothing against it: lanes.c */
    VEC(Expr *) fours_if;   /* what must be divisible by four for that, as far as it is not certain */
    bool fours_guarded;     /* …there is such: the kernel is a template over FOUR, which is 4 or 1 */
    Var *four, *lane;       /* of the open loop over fours: its first element, and the one of the four; NULL outside */
    int lane_blocks;        /* that loop's blocks */
    VEC(Pack) packs;        /* declared in it */
    int depth;        /* blocks open; the innermost is depth - 1 */
    VEC(Affine) seen; /* collected index arithmetic */
    VEC(struct {
        const Value *value;
        Affine offset;
    })
    loads;           /* collected reads of memory */
    VEC(struct {
        const Value *value;
        const char *name; /* of the variable that holds it, or of the result from which it is read again */
        bool in_memory;
        int level; /* of the block that it depends on, or in which it came to memory; 0: of the row's */
    })
    at_hand; /* what the group has computed already (rows, attention) */
    VEC(Fact) facts; /* of the conditions that are open */
    int kinds[MAX_AXES], n_axes;
    AxisPart parts[MAX_AXES];
    int n_parts;
    int split; /* a part that is to be cut in two, its inner one of extent split_by; -1: none */
    Expr *split_by;
    AxisGroup groups[MAX_AXES];
    int n_groups;
} Kernel;

/* ---- kernel.c: life of a kernel ---- */
Kernel *kernel_new(Kernels *all, const Group *group);
Kernel *kernel_new_indexed(Kernels *all, const Group *group); /* in two forms: all its index arithmetic is of type Index */
void kernel_reaches(Kernel *k, Expr *e);                      /* something that is computed with indices is at most e */
void kernel_axes(Kernel *k, Expr *const *extents, const int *kinds, int n); /* kinds NULL: all 0 */
/* Runs body three times; afterwards params and text are there. */
void kernel_write(Kernel *k, void (*body)(Kernel *k, void *context), void *context);
const char *kernel_body(const Kernel *k);
/* Only the first pass: what is read where. */
void kernel_collect(Kernel *k, void (*body)(Kernel *k, void *context), void *context);

/* blocks and statements */
void block_open(Kernel *k, const char *format, ...) __attribute__((format(printf, 2, 3)));
void block_open_guard(Kernel *k);
const char *block_close_guard(Kernel *k); /* its text, not yet placed */
void block_close(Kernel *k);
void block_close_with(Kernel *k, const char *end); /* "});" rather than "}" */
void line(Kernel *k, const char *format, ...) __attribute__((format(printf, 2, 3))); /* in the innermost block */
void line_at(Kernel *k, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));           /* in the block of that level, or the nearest allowed */
int level_allowed(const Kernel *k, int level);       /* level, or that of the innermost condition */
const char *fresh_name(Kernel *k, const char *base); /* base, base2, base3… */
void local_known(Kernel *k, const char *name);       /* a name that the kernel gave otherwise */
const char *local_name(Kernel *k, const Value *v);   /* of a variable that holds an element of v */
const char *text_of(Kernel *k, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* parameters */
const char *param_value(Kernel *k, Value *v, bool result); /* pointer */
const char *param_result(Kernel *k, Value *v, const char *name);
const char *param_operand(Kernel *k, Value *v, const char *name);
const char *param_called(Kernel *k, Value *v, const char *base); /* an operand; a fresh name of that base where it is new */
const char *param_update(Kernel *k, Value *v); /* one of several results: "mean_out"; of an update "new_weight", "new_exp_avg" */
const char *param_kept(Kernel *k, Value *target);   /* the flag that its elements kept what they had */
const char *param_hyper(Kernel *k, Value *v);
/* Whether a group is the update of a weight: what it replaces is read and written by one parameter each, settings come as one. */
bool updates_in_place(const Group *group);
bool is_replaced(const Group *group, const Value *v); /* by such an update; or v is what it is replaced by */
const char *param_other(Kernel *k, int kind, const char *name, const char *type,
                        Expr *expr);       /* seed, step, scratch, a number that differs between uses */
const char *size_text(Kernel *k, Expr *e); /* as an atom: in parentheses where it is a sum */
const char *size_bare(Kernel *k, Expr *e);
/* A parameter for e although it may be a known number: kernels that do no more than move or add up what they read share one text. */
void size_any(Kernel *k, Expr *e, const char *base);
bool keeps_places(const Group *group); /* whether its operations do: then no number of its index arithmetic is more than a size */
void sizes_any(Kernel *k, int innermost); /* the same for known extents of all groups but the innermost, which compilers unroll; -1: of all */
void size_called(Kernel *k, Expr *e, const char *base); /* what a parameter for e is called, should one be needed: "rows" */

/* index arithmetic */
Var *loop_var(Kernel *k, const char *name, Expr *extent); /* of the block opened last */
Var *group_var(Kernel *k, int group, const char *name);   /* the same, for a loop that walks a group of axes */
Var *defined_var(Kernel *k, const char *name, int level, Expr *extent, const char *definition); /* written when first needed */
Var *quotient_var(Kernel *k, const Affine *of, Expr *by);
Affine affine_int(Kernel *k, int64_t value);
Affine affine_expr(Kernel *k, Expr *e);
Affine affine_var(Kernel *k, Var *v);
Affine affine_add(Kernel *k, const Affine *a, const Affine *b, Expr *scale); /* a + scale * b */
Expr *affine_extreme(Kernel *k, const Affine *a, bool least); /* the greatest or the smallest value; NULL where it is unknown */
bool affine_equal(const Affine *a, const Affine *b);
int affine_level(const Kernel *k, const Affine *a);
const char *affine_text(Kernel *k, const Affine *a); /* bare; what does not depend on the innermost loop is moved out */
const char *affine_atom(Kernel *k, const Affine *a);
const char *affine_key(Kernel *k, const Affine *a);
void affine_seen(Kernel *k, const Affine *a);
/* Certainly 0 <= a < size, by the extents of its variables or by what conditions say. */
bool affine_within(Kernel *k, const Affine *a, Expr *size);
/* Turns a < bound (or a >= bound) into the same of fewer terms: 64 * i + j < 128, with j < 64, into i < 2. */
bool affine_reduce(Kernel *k, Affine *a, Expr **bound);
/* a = high * by + low with 0 <= low < by, given 0 <= a. */
void affine_split(Kernel *k, const Affine *a, Expr *by, Affine *high, Affine *low);
Affine index_flat(Kernel *k, const Value *v, const Index *index);  /* position in row-major order */
Index index_vector(Kernel *k, const Value *v, const Index *index); /* one Affine an axis */
/* The indices of n groups of axes that one loop walks together: row itself where it is one, quotients and remainders of row
 * otherwise. of_group is indexed by group. */
void row_groups(Kernel *k, Var *row, const int *groups, int n, Affine *of_group);
Expr *groups_extent(Kernel *k, const int *groups, int n);
/* The index of each axis, given that of each group. */
Index axes_index(Kernel *k, const Affine *of_group);

/* ---- lanes.c: loops along a row, or a whole tensor, whose elements CUDA may take four at a time ---- */
void lanes_in_fours(Kernel *k);                   /* before kernel_write: where that is right */
bool lanes_taken_in_fours(const Kernel *k);       /* behind it: whether it was */
int lanes_threads(const Kernel *k, Expr *length); /* the same: as threads_for */
/* Opens FOR_LANES, FOR_THREADS or FOR_EACH (kind "LANES", …) of that name over a group of axes; reduces: "+, sum" or NULL.  Returns
 * the element's index; lanes_close closes it. */
Affine lanes_open(Kernel *k, const char *kind, const char *reduces, int group, const char *name, const char *count);
void lanes_open_one(Kernel *k, const char *kind, const char *reduces); /* over no axis: a row of one element */
void lanes_close(Kernel *k);
/* One of the four that lie there, as text; NULL: it is read by itself.  result: the pointer is that of a result. */
const char *lanes_load(Kernel *k, const Value *v, const char *pointer, bool result, const Affine *offset);
void lanes_store(Kernel *k, const Value *v, const char *pointer, const Affine *offset, const char *text); /* pointer[offset] = text; */

/* ---- element.c ---- */
Code element(Kernel *k, Value *v, const Index *index);
Code element_stored(Kernel *k, Value *v, const Index *index); /* the same, put into memory at once: it needs no name */
Code named(Kernel *k, Code c, const char *type, const char *base); /* a variable that holds c */
const char *wrapped(Kernel *k, Code c, int binds);                 /* in parentheses unless it binds at least so */

/* ---- literals.c ---- */
bool is_half(Dtype d);                                             /* f16 and bf16 */
const char *compute_type(Dtype d);                                 /* what an element is computed in: float for f16 */
const char *sum_type(Dtype d);                                     /* what a sum of elements is kept in */
const char *stored(Kernel *k, Dtype d, Code c);                    /* c as it is written to memory */
const char *literal(Arena *arena, Dtype d, double value, int64_t integer);

/* ---- pieces.c: what a loop stores at each place that it walks ---- */
enum { MAX_PIECES = 64 };
typedef struct {
    int n;
    Value *value[MAX_PIECES]; /* of the walked shape: a result, or a part of a result that is a concat */
    Index at[MAX_PIECES];     /* where its element lies in the result */
    Code code[MAX_PIECES];
} Pieces;
void pieces_of(Kernel *k, Value *result, const Value *walked, const Index *index, Pieces *pieces); /* adds those of a result */
void pieces_compute(Kernel *k, Pieces *pieces, const Index *index);                                 /* all, before one is stored */
void piece_store(Kernel *k, const Pieces *pieces, int p, const Value *result, const char *to);

/* ---- kernels.c ---- */
typedef struct {
    KernelText *text;
    const Group *group; /* it, or an epilogue of it */
} Written;
struct Kernels {
    Arena *arena, *scratch; /* scratch: what is needed only while a group's kernels are written */
    Symbols *symbols;
    VEC(KernelText *) list; /* in order of first use */
    Map *by_text;           /* signature and body, names left out -> KnownKernel */
    Map *names;
    Map *forward; /* a node's name -> Ops, of the forward pass and the loss */
    Map *tables; /* initialiser -> name */
    bool one_by_one;
    VEC(Expr *) blocks; /* symbols: rows of blocks that loops of steps take */
    bool multiplied[DTYPES_COUNT]; /* operands of a library's products and convolutions */
    Repeats *repeats;              /* groups whose kernels are there */
    VEC(Written) written;          /* kernels of the group at hand */
};
const char *kernels_table(Kernels *all, const char *type, const char *content, int64_t n);
/* Adds a finished kernel (or finds an equal one) and fills the launch. */
Launch *kernel_launch(Kernel *k, const char *name, Expr *blocks, Expr *each, int threads);
Launch *library_launch(Kernels *all, const Group *group, const char *function);
void launch_arg_value(Kernels *all, Launch *l, Value *v);
void launch_arg_expr(Kernels *all, Launch *l, Expr *e);
Expr *count_of(Kernels *all, const Value *v);
Expr *bytes_of(Kernels *all, const Value *v);
const Op *main_op(const Group *group);
const Op *reduction_of(const Group *group);               /* of a REDUCE */
int threads_for(Kernels *all, Expr *length);              /* of a block whose threads share a row of that length */
const char *group_name(Kernels *all, const Group *group); /* "mul_erf_add" */

/* ---- kernel_names.c ---- */
const char *role_name(const Kernels *all, const Group *group); /* what it is for in the model, "bias_gelu"; NULL where that is not to be told */
void kernel_names_forward(Kernels *all, const Graph *g);       /* before the kernels of its gradients are emitted */

/* ---- reduce.c: how a reduction puts elements together ---- */
typedef struct {
    const char *type, *start, *update, *reduces, *combine; /* "float", "0", "%s += %s", "+", "block_sum" */
} Combining;
Combining combining(Kernels *all, const Op *op);
const char *combined(Kernel *k, const Combining *by, const char *s, const char *x); /* "s += x" */

/* ---- one function a kind; *n launches at out ---- */
typedef struct {
    Kernels *all;
    const Group *group;
    VEC(Launch *) launches;
    Expr *scratch;
} Emission;
void emit_loop(Emission *e);
void emit_reduce(Emission *e);
void emit_row(Emission *e);
/* Whether every read of `in` comes before the first write to where `out` lies. */
bool row_in_place(const Group *group, const Value *in, const Value *out);
/* Whether the group reads `in` only where it writes: on every way from v to it each operation keeps an element's place. */
bool keeps_place(const Group *group, const Value *v, const Value *in, bool kept);
void emit_cumulative(Emission *e);
void emit_sort(Emission *e);
void emit_scatter(Emission *e);
void emit_late(Emission *e);
void emit_dot(Emission *e);
void emit_chain(Emission *e);
void emit_conv(Emission *e);
void emit_pool(Emission *e);
void emit_attention(Emission *e);
void emit_cell(Emission *e);
void emit_copy(Emission *e, Value *to, Value *from);
/* An operand that the group computes from others is first written to scratch memory or to `into`… see loop.c */
void write_loop(Emission *e, Value *const *values, int n, const char *name);
#endif
