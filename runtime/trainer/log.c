/* Writes the log, each line at once, so that whoever follows it sees the step.  Needs and breaks nothing. */
#define _POSIX_C_SOURCE 200809L
#include "log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "files.h"
#include "json.h"

static int open_as(Log *log, const char *path, const char *mode, Fault *fault)
{
    *log = (Log){.path = path};
    if (!path) return 0;
    log->out = fopen(path, mode);
    return log->out ? 0 : fault_set(fault, STATUS_USER, "--log %s: cannot be opened: %s", path, strerror(errno));
}

/* Before a log is written over what is there: that must be a log. */
static int check_log(const char *path, Fault *fault)
{
    struct stat there;
    if (!path || stat(path, &there) || !S_ISREG(there.st_mode)) return 0;
    FILE *in = fopen(path, "r");
    const int first = in ? getc(in) : EOF;
    if (in) fclose(in);
    return first == EOF || first == '{' ? 0 : fault_set(fault, STATUS_USER, "--log %s: is there and is no log; name another file", path);
}

int log_open(Log *log, const char *path, Fault *fault)
{
    int status = check_log(path, fault);
    return status ? status : open_as(log, path, "w", fault);
}

/* A summary ends a run that now goes on. */
static bool is_before(const char *line, int64_t step)
{
    if (strstr(line, "{\"event\":\"summary\"") == line) return false;
    const char *at = strstr(line, "\"step\":");
    return strchr(line, '\n') && (!at || strtoll(at + 7, NULL, 10) < step);
}

static int copy_lines_before(FILE *in, FileWriter *writer, int64_t step, Fault *fault)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    int status = 0;
    while (!status && (length = getline(&line, &capacity, in)) > 0)
        if (is_before(line, step)) status = file_writer_write(writer, line, (size_t)length, fault);
    free(line);
    return status;
}

int log_reopen(Log *log, const char *path, int64_t step, Fault *fault)
{
    FileWriter writer = {0};
    struct stat there;
    int status = check_log(path, fault);
    if (status) return status;
    bool a_file = path && !stat(path, &there) && S_ISREG(there.st_mode);
    FILE *in = a_file ? fopen(path, "r") : NULL;
    if (in) {
        status = file_writer_open(&writer, path, fault);
        if (!status) status = copy_lines_before(in, &writer, step, fault);
        if (!status) status = file_writer_commit(&writer, fault);
        file_writer_abandon(&writer);
        fclose(in);
        if (status) return status;
    }
    return open_as(log, path, "a", fault);
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
    fprintf(to, ",\"peak_bytes\":%lld,\"recomputed\":%d,\"offloaded\":%lld,\"program\":", (long long)result->peak_bytes,
            result->recomputed, (long long)result->offloaded);
    json_string(to, result->program);
    fprintf(to, ",\"blocks\":%lld}\n", (long long)result->blocks);
    return finish_line(log, fault);
}

int log_guard(Log *log, const Session *session, const char *event, int64_t step, const Breach *breach, double seconds, Fault *fault)
{
    tally_add(&log->tally, event, breach->name);
    if (!log->out) return 0;
    event_guard(log->out, session->model, event, step, breach, session->dims, seconds * 1e3);
    return finish_line(log, fault);
}

int log_scale(Log *log, const Session *session, const char *event, int64_t step, const StepResult *result, Fault *fault)
{
    tally_add(&log->tally, event, "");
    if (!log->out) return 0;
    event_scale(log->out, event, step, result->scale, session->loss_scale);
    return finish_line(log, fault);
}

int log_kept(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault)
{
    static const char *const causes[] = {[KEPT_UNKNOWN] = "not looked for", [KEPT_KERNEL] = "kernel", [KEPT_NUMBERS] = "numbers", [KEPT_ONCE] = "not again"};
    tally_add(&log->tally, "trained_in_part", result->update.name);
    if (!log->out) return 0;
    event_kept(log->out, session->model, step, &result->update, causes[result->cause], result->node, session->late, result->seconds * 1e3);
    return finish_line(log, fault);
}

int log_nan(Log *log, const Session *session, int64_t step, Fault *fault)
{
    const Trace *t = session->trace;
    tally_add(&log->tally, "nan", t->source);
    if (!log->out) return 0;
    event_nan(log->out, step, t->unit, t->source, t->kernel, t->tensor);
    return finish_line(log, fault);
}

int log_mended(Log *log, const Session *session, int64_t step, const Mended *event, const StepResult *result, Fault *fault)
{
    tally_add(&log->tally, "fell_back", event->kernel);
    if (!log->out) return 0;
    event_mended(log->out, session->model, step, event, session->dims, result->seconds * 1e3);
    return finish_line(log, fault);
}

int log_budget(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault)
{
    const BudgetChange *change = &result->memory;
    const BudgetEvent event = {.event = change->refused ? "budget_shrunk" : "budget_raised", .refused = change->refused, .budget = change->budget,
                               .peak_bytes = result->peak_bytes, .recomputed = result->recomputed};
    int status = change->offload_off ? log_event(log, "offload_off", step, "the host has no memory for copies", fault) : 0;
    if (status || (!change->refused && !change->raised)) return status;
    tally_add(&log->tally, event.event, "");
    if (!log->out) return 0;
    event_budget(log->out, session->model, step, &event, session->dims, result->seconds * 1e3);
    return finish_line(log, fault);
}

int log_planned_late(Log *log, const Session *session, int64_t step, const StepResult *result, Fault *fault)
{
    tally_add(&log->tally, "planned_late", "");
    if (!log->out) return 0;
    fprintf(log->out, "{\"event\":\"planned_late\",\"step\":%lld,\"times\":%d,\"peak_bytes\":%lld,\"recomputed\":%d,\"dims\":", (long long)step,
            result->planned_late, (long long)result->peak_bytes, result->recomputed);
    json_dims(log->out, session->model, session->late);
    fputs("}\n", log->out);
    return finish_line(log, fault);
}

int log_graphs(Log *log, const Session *session, int64_t step, Fault *fault)
{
    GraphEvent event;
    int status = 0;
    while (!status && session->graphs && graphs_event(session->graphs, &event)) {
        tally_add(&log->tally, event.event, event.why);
        if (!log->out) continue;
        event_graph(log->out, session->model, step, &event);
        status = finish_line(log, fault);
    }
    return status;
}

int log_variants(Log *log, const Session *session, int64_t step, Fault *fault)
{
    VariantEvent event;
    int status = 0;
    while (!status && session->variants && variants_event(session->variants, &event)) {
        tally_add(&log->tally, event.event, event.name);
        if (event.last && *event.detail)
            fprintf(stderr, "notice: no variant of the step is made here: %s; training goes on without\n", event.detail);
        if (!log->out) continue;
        event_variant(log->out, session->model, step, &event);
        status = finish_line(log, fault);
    }
    return status;
}

int log_summary(Log *log, int64_t batches, int64_t trained, Fault *fault)
{
    if (!log->out || !log->tally.n) return 0;
    event_summary(log->out, batches, trained, &log->tally);
    return finish_line(log, fault);
}

int log_event(Log *log, const char *event, int64_t step, const char *detail, Fault *fault)
{
    tally_add(&log->tally, event, "");
    if (!log->out) return 0;
    event_plain(log->out, event, step, detail);
    return finish_line(log, fault);
}
