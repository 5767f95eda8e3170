/* Evaluates a graph, slowly and plainly: what every operation of ops.def means, written once more, as the reference that gradients
 * and emitted kernels are compared with.
 *
 * All elements are doubles, whatever the dtype: floats are not rounded to f32; integers are exact up to 2^53 and wrap around as
 * their dtype does.  Random numbers are not known here: a graph that has some is a fault of the test. */
#ifndef TEST_SUPPORT_INTERPRET_H
#define TEST_SUPPORT_INTERPRET_H
#include "ir/ir.h"

typedef struct Array {
    Dtype dtype;
    int rank;
    const int64_t *dims;
    int64_t n;  /* elements */
    double *at; /* row-major */
} Array;

Array array_new(Arena *arena, Dtype dtype, int rank, const int64_t *dims); /* all 0 */
Array array_copy(Arena *arena, Array a);

/* Values of all symbols from "batch=2, seq=7"; a symbol that was stated equal to others follows them. */
int64_t *dims_from_text(Arena *arena, Symbols *symbols, const char *text);
/* An array of v's dtype and shape at the given dims. */
Array array_for(Arena *arena, const Graph *g, const Value *v, const int64_t *dims);

/* inputs as g->inputs, outputs as g->outputs.  dims: by symbol_index; late symbols are filled in on the way.
 * An assign changes the input's elements, after everything else was computed. */
void interpret(Arena *arena, const Graph *g, int64_t *dims, Array *inputs, Array *outputs);
#endif
