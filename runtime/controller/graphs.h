/* Recordings of the steps that a run does again and again, bounded in number.
 *
 * A step is known by its program, dims, plan, arena, and the form of its kernels.  One that has come GRAPHS_HOT times is recorded, while
 * the budget leaves room for the graphs; where there are as many as may be, the one that was not replayed for longest goes.  One that
 * is recorded once more must have come twice as often: many dims in turn do not push each other out for ever.  What proved of no use is not
 * tried again. */
#ifndef GRAPHS_H
#define GRAPHS_H
#include "record.h"

enum { GRAPHS_MOST = 8, GRAPHS_HOT = 3, GRAPHS_COUNTED = 64 };
typedef struct Graphs Graphs;

Graphs *graphs_create(const Model *m, struct Device *device); /* NULL without memory */
void graphs_destroy(Graphs *graphs);                          /* before the device and what the kernels were loaded from */
/* Before a step that could be replayed, all of it set but its recording: sees to that where it is hot.  room: what graphs may take,
 * in bytes, those that there are included. */
void graphs_begin(Graphs *graphs, Step *step, int64_t room);
void graphs_end(Graphs *graphs, Step *step, int ended); /* behind each such step; ended: what it returned */
void graphs_drop(Graphs *graphs, const char *why);      /* all of them: their arena goes, or their program is mended or replaced */
int64_t graphs_bytes(const Graphs *graphs);

/* What happened since it was last asked, in order; false: no more. */
typedef struct {
    const char *event; /* "graph_recorded", "graph_dropped" */
    const int64_t *dims;
    const char *program, *why; /* why: it was dropped */
    RecordingSize size;
    int64_t bytes;
    double milliseconds; /* of the step in which it was recorded; 0 where it was dropped */
} GraphEvent;
bool graphs_event(Graphs *graphs, GraphEvent *event);
#endif
