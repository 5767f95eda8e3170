/* From a rung of the ladder to what a step needs: offsets, and actions at the points. */
#ifndef REALISE_H
#define REALISE_H
#include "flow.h"
#include "planner.h"

/* A plan laid out in time.  A tick is a launch, those of units that run again included. */
typedef struct {
    Simulation *s;
    Interval *intervals; /* the simulation's segments, then temporaries of each execution, as Flow.temp has them */
    int n_intervals;
    int *ticks;    /* by execution: its first launch, replays counted */
    int *temps_at; /* by execution: its first temporary among the intervals */
} Timeline;
bool timeline_open(Timeline *t, Simulation *s, const uint8_t *modes); /* false: the plan cannot be run, or no memory */
void timeline_close(Timeline *t);

/* All in one allocation, freed with free(); NULL without memory. */
Plan *realise_modes(Simulation *s, const uint8_t *modes);                 /* a plan over a Flow */
Plan *realise_lives(const Program *program, const int64_t *buffer_bytes); /* a program without units: by lives alone */
/* A step that has come as far as a launch, the last that ran, within a unit (-1: a program without units).  What is alive stays where it
 * lies, and so does all that the unit uses: its text may hold pointers. */
typedef struct {
    int unit, launch;
    const int64_t *at;    /* by buffer: where it lies */
    const uint8_t *alive; /* by buffer: whether it holds what is still to be used */
    const int *past;      /* executions so far, n_past of them; a plan that would have run others is none */
    int n_past;
} Held;
/* What a plan says of a step so far: past and alive, of n_executions and n_buffers elements.  False: the plan cannot be run, or no memory. */
bool realise_past(Simulation *s, const uint8_t *modes, const Held *held, int *past, int *n_past, uint8_t *alive);
/* The rest of the step under a plan; NULL where that is not to be had from here, or without memory. */
Plan *realise_modes_from(Simulation *s, const uint8_t *modes, const Held *held);
Plan *realise_lives_from(const Program *program, const int64_t *buffer_bytes, const Held *held);
/* Most bytes alive at once under the plan, launch by launch; -1 without memory. */
int64_t realise_live_peak(Simulation *s, const uint8_t *modes);
#endif
