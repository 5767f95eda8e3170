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

/* Through as many index operations as strides can tell; the root may be v itself. */
View value_view(Graph *g, Value *v);
/* The same where neighbours along the last axis stay neighbours; else v itself. */
View value_row_view(Graph *g, Value *v);
#endif
