/* Inside emit: kernels of attention.  attention.c writes them, attention_skip.c finds the blocks that a mask empties. */
#ifndef EMIT_ATTENTION_H
#define EMIT_ATTENTION_H
#include "emit/kernel.h"

/* The corners of a block of scores. */
typedef struct {
    Index index; /* of the scores; its last two axes are put in by the two below */
    Affine query[2], key[2]; /* lowest, highest */
} Corners;
/* The condition under which a mask empties the whole block: each score is then so low that its probability is 0 wherever the row
 * has any other.  NULL: never, as far as can be seen.  Of `scores` at any index of the block. */
const char *attention_emptied(Kernel *k, Value *scores, const Corners *corners);
#endif
