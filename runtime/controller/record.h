/* A step's launches, recorded once and replayed as graphs (../device/graph.h).
 *
 * The text of the step runs in every step, also when it is replayed: it then launches nothing, but compares.  Each launch is held against
 * the recorded one; of a kernel whose arguments are others now (a learning rate, the number of the step, a seed) the graph is told.  So
 * nothing has to be known of what changes from step to step, and nothing is forgotten.  Where the host wants to read what was computed
 * (the loss at the commit point), the graph so far is launched, and another one begins behind it.
 *
 * While it is recorded, and until a graph is launched, nothing has run.  Where a graph cannot be made or launched, or the step launches
 * something else than was recorded, the launches so far are done one by one, each in its unit, so that who watches the step can mend it;
 * the rest of the step launches as if there were no graphs. */
#ifndef CONTROLLER_RECORD_H
#define CONTROLLER_RECORD_H
#include "../device/graph.h"
#include "controller.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { RECORD_GRAPHS_MOST = 8 }; /* of a step, which the host may interrupt as often but one */
typedef struct Recording Recording;

Recording *recording_create(struct Device *device); /* NULL without memory */
void recording_destroy(Recording *recording);
/* Before and behind a step: it is recorded the first time, replayed from then on.  Graphs take at most `room` bytes.  ended: what the
 * program returned; false: the recording is of no use, recording_why says why ("": the step did not come to its end). */
int recording_begin(Recording *recording, Step *step, int64_t room);
bool recording_end(Recording *recording, Step *step, int ended);
int64_t recording_bytes(const Recording *recording);
const char *recording_why(const Recording *recording);
/* What it holds; changed: kernels whose arguments were others in the last step. */
typedef struct { int launches, graphs, changed; } RecordingSize;
RecordingSize recording_size(const Recording *recording);

/* ---- what a step calls where step->recording is set ---- */
int record(Step *step, const NodeKind *kind, const void *what, size_t bytes); /* does it, now or with its graph; what run returns */
void record_move(Step *step, int buffer, int64_t at); /* from now on the buffer lies there */
void record_pause(Step *step);   /* the host waits for what was launched so far */
void record_give_up(Step *step, const char *why);

/* The first launch of a unit: who watches is told, and a unit whose results come another way launches nothing. */
static inline void unit_begins(Step *s)
{
    s->begun = true;
    if (s->refused && s->refused[s->unit]) s->error = STEP_REFUSED;
    if (!s->error && s->watch && s->watch->every) s->watch->begins(s->watch, s);
}

/* Before what a unit does besides launches; false where it is to do nothing. */
static inline bool unit_runs(Step *s)
{
    if (!s->error && !s->begun) unit_begins(s);
    return !s->error;
}

/* A unit's results are wanted: where a launch failed, who watches may have made them another way. */
static inline void unit_ends(Step *s)
{
    if (s->watch && s->begun && !s->ended && (s->watch->every || s->error)) {
        if (s->recording) record_give_up(s, "a launch failed");
        s->ended = true;
        s->watch->ends(s->watch, s);
    }
}
#ifdef __cplusplus
}

/* Work for the device that is no kernel of the step's text: a struct of plain bytes without padding, with `int run(Step *) const`, and
 * whether it is done `aside`. */
template <class Call> static inline int perform(Step *s, const Call &call)
{
    static const NodeKind kind = {[](Step *step, const void *what) { return ((const Call *)what)->run(step); }, NULL, Call::aside};
    return s->recording ? record(s, &kind, &call, sizeof call) : call.run(s);
}
#endif
#endif
