/* Shared by mend.c and mend_check.c. */
#ifndef MEND_PRIVATE_H
#define MEND_PRIVATE_H
#include "mend.h"

enum { PARTS_MOST = 2, MENDED_MOST = 64, HELD = 2 };
typedef struct {
    const Program *program; /* training, or its lean twin */
    Touched touched;
    uint8_t *refused; /* by unit and recipe: made operation by operation */
    bool refuses;
    uint8_t *held;    /* the same while nothing is assigned: HELD units launch nothing, and nobody makes their results */
    UnitApart *apart; /* NULL until it is needed */
} Part;
struct Mend {
    Watch watch; /* first: the step knows only this */
    const Model *model;
    struct Device *device;
    Fallback *fallback; /* NULL: nothing is mended */
    bool fenced; /* each unit reaches its own tensors alone (fence.h) */
    Trace *trace, *nan; /* trace: NULL: not wanted */
    Part part[PARTS_MOST];
    int n_parts;
    Part variant; /* of the step in work, if that is a variant's: the program's own part, but what fails here is the variant's fault alone */
    bool variant_failed;
    MendWatch wants;
    bool holds;          /* MEND_CAUSE: nothing is assigned in this step */
    MendCause cause;     /* that it found */
    const char *numbers; /* the node that makes a NaN of the numbers themselves; NULL */
    char *memory, *host; /* one of them: of the device, or of the host */
    int64_t room, most_bytes;
    char *before, *made; /* of the host: what a unit writes, before it ran and as it made it */
    int64_t writes_room; /* of each */
    int saved;           /* unit whose writes stand in `before`; -1 */
    Mended event[MENDED_MOST];
    int n_events, n_told;
    bool blind; /* something was not looked at: no memory, or a copy failed */
    char why[400];
};

/* Makes the results of s->unit operation by operation; false: it could not, and mend->why says why. */
bool mend_make(Mend *m, Part *part, Step *s);
/* From now on the unit is made so. */
void mend_note(Mend *m, Part *part, Step *s, const char *guard, const char *kernel, const char *detail);
/* ---- mend_check.c ---- */
void check_begins(Mend *m, Part *part, Step *s);
void check_ends(Mend *m, Part *part, Step *s);
#endif
