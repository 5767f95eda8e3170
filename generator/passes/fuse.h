/* Inside fuse: drafts of groups while operations are seen from the last to the first.  fuse.c decides for each operation,
 * fuse_rows.c knows reductions over rows, fuse_again.c what is made again rather than stored, fuse_beside.c which loops run beside each
 * other in one kernel, fuse_sums.c which sums do, fuse_views.c what attention reads where it lies, fuse_cell.c which scans are one
 * kernel, fuse_epilogue.c which kernels follow a product row by row, fuse_chain.c which follow each other. */
#ifndef FUSE_H
#define FUSE_H
#include "emit/emit.h"

enum { GROUP_OPS_MAX = 48, GROUP_READS_MAX = 24, SUMS_MAX = 4, CHEAP_COST_MAX = 8, MASK_COST_MAX = 6, UNIFORM_COST_MAX = 100 };
enum { CELL_BYTES_MAX = 4 << 20 }; /* of matrices that every block of a recurrent cell reads in every step */

typedef struct Draft {
    GroupKind kind;
    Ops ops;      /* last first; root is at[0] */
    int in_order; /* index class of the root's elements: operations of one class are evaluated at the same index */
    int whole; /* index class of rows' elements: the root's operand where it is a reduction over the last axes, else the root; -1 */
    int per_row; /* index class of what there is one of a row; -1: not known yet */
    Value *row;  /* a value of the rows' shape, of which the first `kept` axes count rows; NULL: not known yet */
    int kept;
    int reads;
    Value *walked; /* of a loop: a value of the shape that it walks */
    const Op *sum; /* of sums over other axes than the last: the first one that was found */
    int sums;      /* how many there are */
    int summed;    /* index class of the elements that are summed */
    struct Draft *next;
} Draft;

typedef struct {
    Graph *g;
    bool no_fuse;
    bool in_blocks;          /* the graph is what runs over blocks of rows */
    int *order;              /* by op->id */
    uint8_t *cheap;          /* by value id: cost + 1 of making it again in each reader, 0: not cheap */
    uint8_t *stored;         /* by value id: lies in memory */
    uint8_t *refused;        /* by value id: FuseRefusal */
    uint8_t *output;         /* by value id: an output of the graph */
    Draft **draft;           /* by op->id: the group of an operation that is not folded */
    int *index_class;        /* by op->id: within its group */
    uint8_t *viewed;         /* by value id: attention reads it where its operand lies; VIEW_ALONE: nobody needs it elsewhere */
    uint8_t *copied;         /* by op->id of an assign: needs a copy */
    uint8_t *pure, *uniform; /* by value id: made of hypers, constants and dims; one number besides */
    int classes;
    VEC(Draft *) drafts;
    uint8_t *seen; /* by op->id, for collecting */
} Fuse;

/* ---- fuse.c ---- */
bool fuse_folds(GroupKind kind);                                    /* operations may be folded into groups of this kind */
bool fuse_folds_cheap(GroupKind kind);                              /* what is cheap may */
bool fuse_simple(OpKind kind);                                      /* costs about as much as an addition */
bool fuse_may_read(const Fuse *f, Draft *d, const Op *op);           /* d would not read too many tensors with op */
/* What u is part of runs after the operation in that place of the order; where u is a view, or made again in its readers, all of those. */
bool fuse_comes_after(const Fuse *f, const Op *u, int root);
bool fuse_in_place_use(const Fuse *f, const Op *u, const Value *v); /* an assign that writes v in place */

/* ---- fuse_views.c ---- */
/* Operands of attention that index operations make lie where those find them: marks roots as stored, what stands between as viewed. */
void fuse_need_views(Fuse *f, const Op *attention);
bool fuse_viewed_again(Fuse *f, const Op *op);                       /* other readers of what attention views make it again: marks it cheap */
bool fuse_only_viewed(Fuse *f, const Op *op);                          /* nobody needs its result in memory */
/* A transpose, or a reshape before it, of a result of attention that is written so. */
bool fuse_written_transposed(const Fuse *f, const Op *op);
void fuse_write_transposed(const Fuse *f, Group *group, const Op *attention);
void fuse_collect_views(Fuse *f, Group *group, const Op *attention); /* adds the index operations to the group */

/* ---- fuse_rows.c ---- */
bool fuse_reduces_rows(const Fuse *f, const Op *op); /* over the last axes of floats: a block can do one row after another */
bool fuse_join_rows(Fuse *f, Op *op);                /* joins op to the group of its readers as a part of rows, or does nothing */
bool fuse_spreads_sums(const Fuse *f, const Op *op); /* reads, in each element of a row, what a sum over the row made */
/* The first of the groups that read v, also through what is cheap: the only one that all others come after. */
void fuse_first_reader(const Fuse *f, const Value *v, Draft **first);
/* Whether d reads v, and wherever it does so at the place of its own results; outside: others read it too, after d. */
bool fuse_reads_in_order(const Fuse *f, const Draft *d, const Value *v, bool *outside);
Expr *fuse_count(const Fuse *f, const Value *v, int from, int to); /* elements of axes from .. to - 1 */

/* ---- fuse_beside.c ---- */
bool fuse_concat_of_equals(const Fuse *f, const Op *op); /* a loop may walk its parts' shape, and put each part's element in its place */
bool fuse_puts_parts(const Fuse *f, const Draft *d, const Op *op); /* op is such a concat, and d walks its parts */
/* Joins op, which a loop that comes later does not read, to that loop where both walk the same tensors; or does nothing. */
bool fuse_join_beside(Fuse *f, Op *op);

/* ---- fuse_sums.c ---- */
bool fuse_is_sum(const Op *op);       /* a reduction that gives no places */
bool fuse_join_sums(Fuse *f, Op *op); /* joins a sum to what is made of it, or to another sum; or does nothing */

/* ---- fuse_cell.c ---- */
/* How many rows go through the group's scan each by itself, so that it becomes one kernel; NULL: it does not.  Its body is fused already. */
Expr *fuse_cell_rows(const Group *group);

/* ---- groups that are merged once all are known ---- */
typedef struct {
    Groups *groups;
    Graph *g;
    int *at;         /* by op->id: place of its group in the list, -1 */
    uint8_t *output; /* by value id */
    uint8_t *gone;   /* by place in the list */
    bool blocks;     /* of what runs over blocks of rows, to save memory */
} Merge;

/* ---- fuse_epilogue.c ---- */
/* Kernels that begin with the rows of a product are merged with it; with chains, those that take the same rows with each other. */
void fuse_epilogues(Groups *groups, bool chains);
/* Whether the product may lie in the memory of a result of the group, which reads it as `operand`, until that is written. */
bool fuse_holds_product(const Merge *m, const Group *group, const Value *operand, const Value *result);

/* ---- fuse_chain.c ---- */
void fuse_chains(Merge *m);

/* ---- fuse_again.c ---- */
bool fuse_make_again(Fuse *f, const Op *op); /* marks the result cheap where that is better than storing it */
#endif
