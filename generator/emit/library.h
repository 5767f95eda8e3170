/* The controller's search for plans, called by the generator: what it needs, in types that clash with nobody's. */
#ifndef LIBRARY_H
#define LIBRARY_H
#include "support/arena.h"

enum { LIBRARY_END = INT32_MIN }; /* TOUCHES_END of runtime/controller/controller.h, whose Program the members below follow */
typedef struct LibraryUnit {
    int first, last;
    bool again;
    int of;
} LibraryUnit;
typedef struct LibraryLife {
    int first, last;
} LibraryLife;
typedef struct LibraryPoint {
    int buffer, gone, back;
} LibraryPoint;
typedef struct LibraryInput {
    int n_units, n_recipes, n_buffers, n_points, n_inputs;
    LibraryUnit *units;
    const int *touches, *input_buffer;
    LibraryLife *lives;
    LibraryPoint *points;
    int64_t *bytes, *flops, *moved; /* at some dims: of each buffer, aligned; of each unit */
} LibraryInput;
/* At most `room` plans, from no recomputation to least memory; returns how many.  touches: about how many touches of buffers the
 * search may take in thought. */
int library_search(Arena *arena, const LibraryInput *in, int64_t touches, const char **plans, int room);
#endif
