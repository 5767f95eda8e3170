/* From the final graphs to a folder of readable source.
 *
 *   fuse      groups operations: each Group becomes one kernel or one library call      passes/fuse.c
 *   schedule  orders the groups                                                          passes/schedule.c
 *   kernels   text of a group's kernel, and its launch                                   emit/kernels.c, and a file a kind: loop.c, row.c,
 *                                                                                        reduce.c, dot.c, attention.c, cell.c, …
 *   step      the list of launches with buffers and their lives -> model.cu  emit/program.c, launches.c, places.c, units.c,
 *                                                                                        region.c; text: emit/source.c, step*.c
 *   apart     each group of a training step once more, operation by operation          -> unfused.cu: emit/apart.c
 *   points    what may be given up and made again or copied to the host, and plans       passes/rematerialize.c, emit/plans.c
 *   controller tables: dims, inputs, guards, lives, bytes -> controller.c, model.h       emit/controller.c, emit/guards.c
 *   report    the same tables, and why groups ended where they did -> report.html        emit/report*.c
 *   project   folder, runtime files (embedded in disc-gen), weights, Makefile            emit/project.c */
#ifndef EMIT_H
#define EMIT_H
#include "ir/ir.h"
#include "passes/passes.h"

/* ---- groups: what one launch computes ---- */
typedef enum {
    GROUP_LOOP,      /* every result element is a function of operand elements at mapped indices: elementwise and index operations */
    GROUP_ROW,       /* reductions over the last axes and what surrounds them, a row at a time: softmax, norms, their gradients */
    GROUP_REDUCE, GROUP_CUMULATIVE, GROUP_SORT, GROUP_SCATTER, GROUP_LATE, GROUP_DOT, GROUP_CONV, GROUP_POOL,
    GROUP_ATTENTION, /* attention or its gradient: blocks of queries and keys, with the index operations that lead to q, k and v */
    GROUP_VIEW,      /* reshape: no launch, the result lies where its operand lies */
    GROUP_CHAIN,     /* kernels that work on the same rows, one after another while those are near: its epilogue, and what follows that */
    GROUP_CELL,      /* a scan as one kernel: rows shared out, all steps of a row in turn; body[0]: the parts of a step */
    GROUP_REGION,    /* scan, while, branch: launches of its bodies inside a loop or a condition */
    GROUP_ASSIGN,    /* an assign whose value nobody else needs is written in place by the group that computes it; this kind copies */
    GROUP_COMMIT,
    GROUP_FINITE     /* a further condition for all that is assigned: gradients are finite */
} GroupKind;
typedef struct Group {
    GroupKind kind;
    Ops ops;                       /* in order; the last is the one the group is named for */
    Values in, out;                /* what it reads from buffers, weights, hypers; what it writes */
    Value *row;                    /* ROW: a value of its rows' shape, of which the first `kept` axes count rows */
    int kept;
    Expr *rows;                    /* CELL: how many rows there are */
    Values whole;                  /* ROW: what it makes of the rows' shape */
    Value *walked;                 /* LOOP: a value of the shape that it walks, where that is not its results': the parts of a concat */
    Ops assigns;                   /* whose value this group writes in place: out's value lies in the memory of the assign's target */
    struct Groups *body[2];        /* of a region */
    bool adds;                     /* DOT in a loop over blocks of rows: what later blocks give is added to what is there */
    struct Group *epilogue;        /* DOT: a LOOP, ROW or REDUCE done to rows of the product as soon as they are there; ops.at[0] is the dot.
                                    * Of such a kernel: the one that follows it on the same rows */
    bool follows;                  /* is such a kernel */
    Value *product, *place;        /* of a product's first one: its operand that is the product; the result in whose memory it lies, or the dot's own */
} Group;
/* Why an operation did not become part of the kernel that reads its result: what fuse found when it decided. */
#define FUSE_REFUSALS(R) \
    R(NONE, "")          \
    R(FULL, "the kernel that reads it holds as many operations as a kernel may") \
    R(TWICE, "a reader takes its elements more than once: each would be computed as often") \
    R(ELSEWHERE, "its readers want its elements at different places, so each would be computed more than once") \
    R(BEFORE, "another reader comes before the kernel that it could join has run") \
    R(SHAPE, "it is needed in memory too, and the kernel that reads it works on another shape") \
    R(READS, "the kernel that reads it would read more tensors than a kernel may")
typedef enum {
#define R(name, words) REFUSED_##name,
    FUSE_REFUSALS(R)
#undef R
} FuseRefusal;
typedef struct Groups {
    Graph *graph;
    VEC(Group *) list; /* in order of launch */
    Group **of_op;     /* by op->id: the group it was given; NULL: made again in each group that reads it */
    uint8_t *refused;  /* by value id: FuseRefusal */
    bool no_fuse;
    bool as_given; /* schedule keeps the model's own order */
} Groups;

/* fuse: groups operations that share a kernel; fuse.c says which.  no_fuse: an operation a group, only constants, iota, dims and
 * broadcasts are folded into their readers. */
Groups *pass_fuse(Graph *g, bool no_fuse);
void fuse_print(Buf *out, const Groups *groups, Arena *arena); /* --dump fuse */
const char *group_kind_name(GroupKind kind);
/* Why v, a result of `maker`, lies in memory: why those that read it did not become one kernel with what makes it. */
const char *fuse_reason(const Groups *groups, const Group *maker, const Value *v, Arena *arena);
/* schedule: an order that keeps few bytes alive; updates as soon as the gradient is complete and the last reader of the weight is done.
 * Returns the most bytes alive at once, at the likely dims. */
int64_t pass_schedule(Groups *groups);
int64_t schedule_peak(Groups *groups); /* the same, which stay as they are */

/* ---- kernels ---- */
typedef struct Kernels Kernels;    /* kernels emitted so far; equal ones once */
Kernels *kernels_new(Arena *arena, Symbols *symbols);
void kernels_blocks(Kernels *k, const Graph *g); /* before its groups are emitted: the dims that are rows of blocks, whose tensors begin anywhere */
void kernels_one_by_one(Kernels *k); /* for unfused.cu: its kernels never take elements in fours, as they rely on no shape; late dims are found on the host */
typedef struct {
    enum {
        ARG_VALUE,   /* pointer to the value's first element: buffer, weight, state, batch tensor; not const for results */
        ARG_EXPR,    /* int64_t by value; late dims as far as they are known */
        ARG_HYPER,   /* a FROM_HYPER value, by value, in its dtype's C type: (float)s->hypers[i], (int64_t)s->hypers[i] */
        ARG_HYPERS,  /* all of them, by value: Hypers of model.h */
        ARG_STATE,   /* what the optimizer keeps of a weight, by value: WeightState of model.h; value: one of its tensors */
        ARG_SEED,    /* s->seed, uint64_t */
        ARG_STEP,    /* s->number, int64_t */
        ARG_KEPT,    /* bool *: raised where elements of the weight or state `value` keep what they have: Step.kept */
        ARG_LATER,   /* bool: a loop over blocks of rows is past its first */
        ARG_SCRATCH  /* (type *)(scratch + expr): memory of the group while it runs, expr a byte offset (*scratch of kernels_emit) */
    } kind;
    Value *value;
    Expr *expr;
    const char *type; /* of ARG_SCRATCH: C type of the elements, "float"; of ARG_KEPT: what it is called where it is a parameter, or NULL */
    const char *name; /* of ARG_EXPR: what the kernel calls it, "parts"; NULL where it has no name */
} Arg;
/* What an epilogue comes to, in the words of device/blas.h: BIAS, RELU, GELU, GELU_GRADIENT. */
typedef struct KnownEpilogue {
    const char *name; /* NULL: none of these */
    Value *y, *bias, *x; /* the result; NULL where there is none */
} KnownEpilogue;
/* One line of the step:
 *     (LAUNCH_FOURS(s, kernel, fours_if % 4 == 0, … where that depends on dims)
 *     (LAUNCH_PLAIN where the kernel does not exist twice, for 32-bit and for 64-bit indices)
 *     each NULL:  LAUNCH(s, kernel, elements(blocks), threads)(args); (or fours(blocks))       blocks counts elements: a thread each on CUDA, a chunk a block on the host
 *     else:       LAUNCH(s, kernel, rows(blocks, each), threads)(args);     blocks counts rows (planes, columns…), each one's cost in elements
 *     library:    kernel(s, args);                                          a function of device/blas.h: dot, …
 *     epilogue:   kernel(s, args, EPILOGUE(s, kernel, rows(blocks, each), threads)(args), …);     kernel: dot, dot_add or in_turn
 * Any of them may be 0 at run time: then nothing is launched. */
typedef struct Launch {
    const char *kernel;            /* name of the __global__ function, or of a function of device/blas.h */
    bool library;
    struct KernelText *text;       /* of a kernel that is written */
    Expr *blocks, *each;
    int threads;                   /* block size on CUDA */
    bool fours;                    /* of one without each: a thread on CUDA has four elements */
    VEC(Expr *) fours_if;          /* multiples of four, where the kernel takes elements in fours: it is a template over FOUR too */
    bool indexed;                  /* the kernel is a template over Index, the type of its indices */
    VEC(Expr *) reach;             /* of one that is: no index is greater than the greatest of these */
    VEC(Arg) args;                 /* results first, then operands, then sizes */
    const struct Launch *epilogue; /* of a product, and of an epilogue that another one follows */
    int own;                       /* all arguments stand in the product's args: those of its epilogue begin at number `own`, and end at the epilogue's */
    KnownEpilogue known;           /* of such a product */
    Expr *shares;                  /* of a kernel that can be an epilogue: its rows, or the parts that they are summed in */
    Expr *moved, *flops;           /* bytes read and written, operations */
} Launch;
typedef struct GroupLaunches {
    Launch *at;
    int n;         /* one, seldom two or three */
    Expr *scratch; /* bytes of memory that they need while they run, aligned to 256; NULL for none */
} GroupLaunches;
/* The launches of a group, whose kernels are added to k, but where a group before it was alike: then they are there.  Not for VIEW, REGION, COMMIT, FINITE.  ASSIGN: copies in[0] to out[0].
 * Ops of a group whose results stand in neither `in` nor `out` live in registers only.  A value both in `out` and used inside the group
 * is computed once and stored.  All values in `out` of a LOOP have the shape that it walks, dim by dim; where `walked` is set, also
 * concats of parts of that shape. */
void kernels_emit(Kernels *k, const Group *group, GroupLaunches *made);
/* The assign that a result of a group is stored for, where it leaves some elements as they are; NULL. */
const Op *assign_where(const Group *group, const Value *result);
void kernels_also_for(Kernels *k, const Launch *launches, int n, const Group *group); /* a group that launches would be the same for */
/* Whether result `out` may lie in the memory of operand `in`: every element of in is read only by who writes the same element of out. */
bool kernels_in_place(const Group *group, const Value *in, const Value *out);
/* Whether `in` is read only where an element of `out` is written, or in a reduction. */
bool kernels_at_own_place(const Group *group, const Value *out, const Value *in);
const char *kernels_text(const Kernels *k); /* all of them, in order of first use, each with its head comment */
bool kernels_multiply(const Kernels *k, Dtype d); /* whether a product or convolution of the library takes or makes elements of d */

/* ---- the folder ---- */
typedef struct {
    const Options *options;
    OnnxModel *model;                  /* NULL where there is no file */
    Graph *train, *evaluate, *infer;   /* NULL where not wanted */
    Graph *lean;                       /* train in less memory and more time, products done again in loops over blocks; NULL: no such program */
    int lean_again;                    /* products that it does again */
    LossInfo loss;
    const char *trainable_table;       /* text of trainable.txt */
    const char *settings;              /* the command line */
    bool tables_alone;                 /* no main.c, Makefile and runtime/: the folder becomes part of a larger program */
} Project;
/* Fuses, schedules, emits; writes DIR (files aside, then renamed; errors of the disk are the user's). */
void emit_project(const Project *project, Arena *arena, Symbols *symbols);
#endif
