/* Gradients of a graph against differences of it, in the interpreter. */
#ifndef INTERPRET_GRADIENTS_H
#define INTERPRET_GRADIENTS_H
#include "test/conformance/gradients.h"
#include "test/support/interpret.h"

typedef struct {
    int checked, kinks, rounding, wrong; /* elements */
    double worst;                        /* relative error of those that agree */
    const char *reason;                  /* where nothing was checked: why */
    char first[400];                     /* the first wrong element */
} GradientResult;

/* The graph becomes gradient_graph; some elements of each float input are checked. */
void check_gradients(Arena *arena, Graph *g, int64_t *dims, Array *inputs, GradientResult *result);
#endif
