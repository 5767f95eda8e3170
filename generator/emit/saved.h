/* What fusing saves, as expressions. */
#ifndef SAVED_H
#define SAVED_H
#include "emit/emit.h"

Expr *bytes_alone(Arena *arena, Symbols *s, const Op *op); /* read and written by an operation as a kernel of its own */
/* NULL where nothing is fused.  counted: by op->id, what stands in other groups already, or NULL: an operation that is made again in
 * several groups would be one kernel.  *kernels: how many there would be. */
Expr *bytes_saved(Arena *arena, Symbols *s, const Group *group, uint8_t *counted, int *kernels);
/* Of a scan that is one kernel: its body's operations as kernels of their own in every step, less what it moves. */
Expr *bytes_saved_by_cell(Arena *arena, Symbols *s, const Op *scan, Expr *moved);
#endif
