/* Inside row_blocks: which operations make each row of their result from the same row of their operands (row_blocks_rules.c), which of
 * them run together (row_blocks.c), and the loop that is made of them (row_blocks_build.c). */
#ifndef PASSES_ROW_BLOCKS_H
#define PASSES_ROW_BLOCKS_H
#include "ir/build.h"
#include "passes/passes.h"

enum { ROW_OPERANDS_MAX = 8 };

/* How an operation uses an operand: as many leading axes count rows; or it is the same for every row; or neither. */
enum { ROWS_SAME = 0, ROWS_UNFIT = -1 };

typedef enum {
    OUTSIDE,
    ROW_WISE,  /* its result has rows */
    ROW_SUM,   /* its result is a sum over rows */
    ROW_AGAIN, /* row-wise and read by others too: done again inside, so that its result need not stand whole for the set */
} Membership;

typedef struct {
    Graph *g;
    Arena *scratch;
    Op *seed;
    Expr *rows;       /* how many */
    int64_t wide;     /* elements in a row of the seed's result, at likely dims */
    int *kept;        /* by value id: leading axes that count rows, of what the set makes; 0: not of the set */
    uint8_t *members; /* by op->id: Membership */
    bool lean;        /* products may be done again inside */
    int again;        /* products that are */
    const char *why;  /* there is no such set */
} RowSet;

/* ---- row_blocks_rules.c ---- */
/* Whether op makes each row of its result, which has `kept` leading axes of rows, from the same row of its operands; fills their
 * roles. */
bool row_roles(const RowSet *set, const Op *op, int kept, int *roles);
/* Leading axes of op's result that count rows where those of operand i are `kept`; 0: none. */
int row_axes_after(const RowSet *set, const Op *op, int i, int kept);
/* Whether op adds up over rows, and what it does with its operands; operand i has `kept` axes of rows. */
bool row_sum_roles(const RowSet *set, const Op *op, int i, int kept, int *roles);
/* The fewest leading axes of v whose product is the number of rows; 0: none. */
int row_axes_of(const RowSet *set, const Value *v);

/* ---- row_blocks_build.c ---- */
Op *row_blocks_build(RowSet *set); /* the loop, in the graph; readers outside read its results */
#endif
