/* Looks at what every unit of a step has made, and remembers the first one that made a NaN: --trace-nan.
 * Needs: a program with units.  Copies results to the host, where a GPU made them: for finding faults, not for speed. */
#ifndef TRACE_H
#define TRACE_H
#include <stddef.h>
#include "touched.h"

typedef struct Trace {
    struct Device *device;
    void *copy;
    size_t room;
    int unit; /* the first that made a NaN; -1: none has */
    const char *tensor, *kernel, *source; /* what held the NaN, the last launch of its unit, its node */
    bool failed; /* memory or copies: some results were not looked at, the step itself is whole */
} Trace;

Trace *trace_create(struct Device *device); /* NULL without memory */
void trace_destroy(Trace *trace);
void trace_begin(Trace *trace);                                         /* before a step */
void trace_look(Trace *trace, const Touched *touched, const Step *step); /* its unit has ended */
/* The first result of a unit that holds a NaN, infinite: or an infinity, in *found. */
bool trace_unit(Trace *trace, const Touched *touched, const Step *step, bool infinite, Tensor *found);
#endif
