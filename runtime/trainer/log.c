/* Writes the log, each line at once, so that whoever follows it sees the step.  Needs and breaks nothing. */
#include "log.h"
#include <errno.h>
#include <string.h>
#include "../controller/events.h"
#include "json.h"

int log_open(Log *log, const char *path, bool append, Fault *fault)
{
    *log = (Log){.path = path};
    if (!path) return 0;
    log->out = fopen(path, append ? "a" : "w");
    return log->out ? 0 : fault_set(fault, STATUS_USER, "--log %s: cannot be opened: %s", path, strerror(errno));
}

void log_close(Log *log)
{
    if (log->out) fclose(log->out);
    log->out = NULL;
}

static int finish_line(Log *log, Fault *fault)
{
    if (!fflush(log->out) && !ferror(log->out)) return 0;
    return fault_set(fault, STATUS_USER, "--log %s: cannot be written: %s", log->path, strerror(errno));
}

int log_step(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault)
{
    FILE *to = log->out;
    if (!to) return 0;
    fprintf(to, "{\"step\":%lld,\"loss\":", (long long)step);
    json_real(to, result->loss);
    fputs(",\"dims\":", to);
    json_dims(to, session->model, session->late);
    fputs(",\"seconds\":", to);
    json_real(to, result->seconds);
    fprintf(to, ",\"peak_bytes\":%lld,\"recomputed\":0,\"offloaded\":0}\n", (long long)result->peak_bytes);
    return finish_line(log, fault);
}

int log_guard(Log *log, const Session *session, const char *event, int64_t step, const Breach *breach, double seconds, Fault *fault)
{
    if (!log->out) return 0;
    event_guard(log->out, session->model, event, step, breach, session->dims, seconds * 1e3);
    return finish_line(log, fault);
}

int log_event(Log *log, const char *event, int64_t step, const char *detail, Fault *fault)
{
    if (!log->out) return 0;
    event_plain(log->out, event, step, detail);
    return finish_line(log, fault);
}
