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
/* Most bytes alive at once under the plan, launch by launch; -1 without memory. */
int64_t realise_live_peak(Simulation *s, const uint8_t *modes);
#endif
