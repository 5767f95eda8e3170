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
/* A plan run in thought: what runs again when, and what is alive when.  It holds for any dims.  A tick is a launch, those that run
 * again included. */
typedef struct LibraryRun {
    int *again, n_again;   /* pairs: a unit of the step, and the unit or recipe that runs again before it */
    int *alive, n_alive;   /* triples: buffer, first and last tick; of buffers alone that are not alive as without a plan */
    int *points, n_points; /* that act */
} LibraryRun;
void library_run(Arena *arena, const LibraryInput *in, const char *const *plans, int n, LibraryRun *runs);
double library_flops_a_byte(void); /* as plans are compared: a byte moved costs as much as so many operations */
/* At most `room` plans, from no recomputation to least memory; returns how many.  touches: about how many touches of buffers the
 * search may take in thought. */
int library_search(Arena *arena, const LibraryInput *in, int64_t touches, const char **plans, int room);
#endif
