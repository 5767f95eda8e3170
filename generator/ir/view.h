/* Where the elements of a value stand in another one's memory: transposes, slices and reshapes as strides. */
#ifndef IR_VIEW_H
#define IR_VIEW_H
#include "ir/ir.h"

enum { VIEW_AXES = 16 };
typedef struct {
    Value *root;             /* whose memory: row-major */
    Expr *offset;            /* elements */
    Expr *stride[VIEW_AXES]; /* elements, one an axis of the value */
} View;

Value *value_root(const Value *v); /* what v is reshapes of, if any: v itself else */
/* Through as many index operations as strides can tell; the root may be v itself. */
View value_view(Graph *g, Value *v);
/* Whether v is a slice that lies in one piece in its operand, so many elements after the beginning, a number known when generating. */
bool value_lies_within(const Graph *g, const Value *v, int64_t *offset);
/* The same where neighbours along the last axis stay neighbours; else v itself. */
View value_row_view(Graph *g, Value *v);
/* v in its own memory. */
View value_row_memory(Graph *g, Value *v);

/* z is a transpose of y, perhaps of a reshape of y: whether strides tell where y's elements lie in z, rows staying rows. */
bool value_lies_as(Graph *g, const Value *y, Value *z, View *w);
/* The transpose that alone reads y, directly or through a reshape that alone reads it, and is thought of by value_lies_as; NULL. */
Value *value_only_transpose(Graph *g, const Value *y);
#endif
