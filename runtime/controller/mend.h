/* Mends a step while it runs, unit by unit: where a kernel cannot be launched, where its result is not what its operations one by one give,
 * or where it made a NaN that they do not make, unfused.cu's function for that unit makes the results instead, in the same places.  The unit
 * stays with that for the rest of the run, when it is run again for a buffer that was given up, too; the others stay fused.  In a step of
 * a variant it stays so for that step: the program's own kernel has not failed.
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
void mend_unfence(Mend *mend); /* fences want each unit launched by itself: where graphs are to be recorded there are none */
/* Nothing: a step that fails, fails; failures alone; each unit is compared; units that make a NaN are; so they are, and those that make an
 * infinity of what follows the commit, and nothing is assigned. */
typedef enum { MEND_NOTHING, MEND_FAILURES, MEND_VERIFY, MEND_NAN, MEND_CAUSE } MendWatch;
/* Before and behind a step of training. */
void mend_begin(Mend *mend, Step *step, MendWatch watch);
void mend_end(Mend *mend, Step *step);
bool mend_possible(const Mend *mend);
/* What a step of MEND_CAUSE has found: nothing that is no number; a kernel that makes one where its operations do not (an event says which, and
 * its unit is made so from now on); one that they make too, of the numbers as they are: *node of the first NaN, or NULL where an infinity alone
 * was seen. */
typedef enum { CAUSE_NONE, CAUSE_KERNEL, CAUSE_NUMBERS } MendCause;
MendCause mend_cause(const Mend *mend, const char **node);
bool mend_variant_failed(const Mend *mend); /* the last step was a variant's, and a unit of it was mended */
bool mend_blind(const Mend *mend);          /* a result of the last step was not looked at: no memory for a copy, or the copy failed */
bool mend_event(Mend *mend, Mended *event); /* what has been mended since it was last asked; false: no more */
int64_t mend_bytes(const Mend *mend);       /* that the last step's operations took beside the arena, at most */
const char *mend_why(const Mend *mend);     /* "", or why the last failure could not be mended */
#endif
