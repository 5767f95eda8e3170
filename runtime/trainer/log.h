/* The log: JSON, a line a step; events between them. */
#ifndef LOG_H
#define LOG_H
#include <stdio.h>
#include "../controller/events.h"
#include "session.h"

typedef struct {
    FILE *out; /* NULL: no log */
    const char *path;
    Tally tally; /* of the events so far, with a log or without */
} Log;
int log_open(Log *log, const char *path, Fault *fault); /* path NULL: no log */
/* Opens to go on at `step`: lines of that step and later, written after the checkpoint, are dropped, as is a line cut short. */
int log_reopen(Log *log, const char *path, int64_t step, Fault *fault);
void log_close(Log *log);
int log_step(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault);
int log_guard(Log *log, const Session *session, const char *event, int64_t step, const Breach *breach, double seconds,
              Fault *fault);
int log_scale(Log *log, const Session *session, const char *event, int64_t step, const StepResult *result, Fault *fault);
/* Elements kept what they had: result->update, cause, node. */
int log_kept(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault);
/* The first NaN of a step: session->trace. */
int log_nan(Log *log, const Session *session, int64_t step, Fault *fault);
/* What happened to the budget as the step was planned: result->memory, where it says that anything did. */
int log_budget(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault);
int log_mended(Log *log, const Session *session, int64_t step, const Mended *event, const StepResult *result, Fault *fault);
/* Late dims at their bounds did not fit: the step was planned again as they became known. */
int log_planned_late(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault);
/* Whatever happened to graphs since it was last told. */
int log_graphs(Log *log, const Session *session, int64_t step, Fault *fault);
/* Whatever happened to variants since it was last told. */
int log_variants(Log *log, const Session *session, int64_t step, Fault *fault);
int log_summary(Log *log, int64_t batches, int64_t trained, Fault *fault);
int log_event(Log *log, const char *event, int64_t step, const char *detail, Fault *fault);
#endif
