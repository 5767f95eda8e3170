/* Looks at what every unit of a step has made, and remembers the first one that made a NaN: --trace-nan.
 * Needs: a program with units.  Copies results to the host, where a GPU made them: for finding faults, not for speed. */
#ifndef TRACE_H
#define TRACE_H
#include <stddef.h>
#include "controller.h"

typedef struct Trace {
    Watch watch; /* first: the step knows only this */
    const Model *model;
    const Program *program;
    struct Device *device;
    int *writes;    /* by unit: where its list begins in program->touches */
    int64_t *bytes; /* by buffer, of this step */
    void *copy;
    size_t room;
    bool looks;
    int running; /* unit; -1: none yet */
    int unit;    /* the first that made a NaN; -1: none has */
    const char *tensor, *kernel; /* what held the NaN, and the last launch of its unit */
    bool failed; /* memory or copies: the step itself is whole */
} Trace;

/* looks: for NaN; otherwise only what a test ordered is done: launches that leave garbage.  NULL without memory. */
Trace *trace_create(const Model *m, const Program *program, struct Device *device, bool looks);
void trace_destroy(Trace *trace);
void trace_begin(Trace *trace, Step *step); /* before a step: it will be looked at */
void trace_end(Trace *trace, Step *step);   /* behind it: its last unit, too */
const char *trace_node(const Trace *trace); /* of the unit that made it */
#endif
