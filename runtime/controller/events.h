/* Events of a run, each a line of JSON in the log: {"event":"set_aside","step":12,"guard":"seq_equal",...} */
#ifndef EVENTS_H
#define EVENTS_H
#include <stdio.h>
#include "guards.h"

/* What was done about a broken guard: "set_aside", "planned_again", "stopped". */
void event_guard(FILE *to, const Model *m, const char *event, int64_t step, const Breach *breach, const int64_t *dims,
                 double milliseconds);
/* Anything else that the log should tell: "resume", "checkpoint", "signal". */
void event_plain(FILE *to, const char *event, int64_t step, const char *detail);
#endif
