/* Mends a step while it runs, unit by unit: where a kernel cannot be launched, where its result is not what its operations one by one give,
 * or where it made a NaN that they do not make, unfused.cu's function for that unit makes the results instead, in the same places.  The unit
 * stays with that for the rest of the run, when it is run again for a buffer that was given up, too; the others stay fused.
 *
 * What the operations hand each other lies beside the arena where the device has room within its limit, else in memory of
 * the host that it can reach. */
#ifndef MEND_H
#define MEND_H
#include "fallback.h"
#include "trace.h"

typedef struct Mend Mend;
typedef struct {
    const char *guard; /* "launch_status", "same_as_unfused", "finite" */
    const char *program, *source; /* the step; the unit's node */
    int unit;
    char kernel[128], detail[256]; /* launched last; what differed */
} Mended;

/* folder: of the program, where unfused.cu is compiled; NULL: nothing is mended, only looked at.  trace: NULL, or who looks for NaN in
 * every step.  NULL without memory. */
Mend *mend_create(const Model *m, struct Device *device, const char *folder, Trace *trace);
void mend_destroy(Mend *mend);
typedef enum { MEND_FAILURES, MEND_VERIFY, MEND_NAN } MendWatch; /* failures alone; each unit is compared; units that make a NaN are */
/* Before and behind a step of training. */
void mend_begin(Mend *mend, Step *step, MendWatch watch);
void mend_end(Mend *mend, Step *step);
bool mend_possible(const Mend *mend);
bool mend_event(Mend *mend, Mended *event); /* what has been mended since it was last asked; false: no more */
int64_t mend_bytes(const Mend *mend);       /* that the last step's operations took beside the arena, at most */
const char *mend_why(const Mend *mend);     /* "", or why the last failure could not be mended */
#endif
