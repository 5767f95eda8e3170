/* Places that a model computes, as numbers that pick elements: whether they lie within the axis that they pick from.  Nothing is read beside it,
 * and what was picked outside is NaN (of integers a number that is no place anywhere, of bools false): the loss is none, and the step is given up before a weight changes. */
#ifndef ONNX_PLACES_H
#define ONNX_PLACES_H
#include "onnx/formulas.h"

typedef struct Place {
    Value *index;  /* i64, 0 .. n - 1 */
    Value *inside; /* bools of its shape: where it lay there by itself; NULL: everywhere, for certain */
} Place;

/* watched: guards look at the index where it is a batch's, or counts (emit/guards.c): those of a gather from v along an axis. */
Place place_within(Import *im, Value *index, Expr *n, bool watched);
/* Where both lie within; NULL: everywhere. */
Value *both_inside(Graph *g, Value *a, Value *b);
/* v, and NaN where bools are false that stand on its axes `axis`, axis + 1, …; inside NULL: v. */
Value *none_outside(Import *im, Value *v, Value *inside, int axis);
/* v, and NaN everywhere unless all of the bools are true. */
Value *none_unless_all(Import *im, Value *v, Value *inside);
/* Rows of v at an index, as a gather that guards may look at. */
Value *gather_within(Import *im, Value *v, Value *index, int axis);
#endif
