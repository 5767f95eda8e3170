/* What training, evaluating and running share: the first weights, the budget, anomalies.  Needs: a session, data.  Breaks: nothing.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../device/copies.h"
#include "programs.h"
#include "progress.h"

int load_initial_weights(Session *session, const Options *options, const char *folder, Fault *fault)
{
    char path[4200];
    if (options->load_weights) return session_load_weights(session, options->load_weights, false, fault);
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    return session_load_weights(session, access(path, F_OK) ? NULL : path, true, fault);
}

void tell_precision(const Session *session)
{
    if (!strcmp(session->model->precision, "tf32") && !device_blas(session->device))
        fprintf(stderr, "notice: the processor has no tf32: products are of whole floats\n");
}

bool shapes_pass(const Session *session, const Data *data, int64_t number, Arrived *arrived, int64_t *dims)
{
    const Model *m = session->model;
    const Guard *range;
    data_shapes(data, number, arrived);
    for (int i = 0; i < m->n_inputs; i++)
        if (arrived[i].rank != m->inputs[i].rank && (data->wanted[i] || arrived[i].rank)) return false;
    bind_dims(m, arrived, dims);
    for (int i = 0; i < m->n_inputs; i++)
        if (!data->wanted[i]) m->inputs[i].shape(dims, arrived[i].dims), arrived[i].rank = m->inputs[i].rank;
    Arrival arrival = {.input = arrived, .loss_is_finite = true, .update_is_finite = true};
    return !guards_first_broken(m, ON_ARRIVAL, dims, &arrival, session->options.plan_again ? &range : NULL);
}

int check_budget(Session *session, const Program *program, const Data *data, int64_t first, int64_t n, Fault *fault)
{
    const Model *m = session->model;
    if (!session->options.memory_limit) return 0;
    Arrived *arrived = calloc((size_t)m->n_inputs + 1, sizeof *arrived);
    int64_t *dims = calloc((size_t)m->n_dims + 1, sizeof *dims), most = session->state_bytes, passes = n - first, peak;
    int status = arrived && dims ? 0 : fault_memory(fault);
    if (passes > data->n_batches) passes = data->n_batches;
    for (int64_t k = first; k < first + passes && !status; k++) {
        bool alike =
            !data->ready && k > first && k % data->n_batches != data->n_batches - 1; /* only the last batch of a pass differs */
        if (alike || !shapes_pass(session, data, k, arrived, dims)) continue;
        status = session_peak(session, program, dims, &peak, fault);
        if (!status && peak > most) most = peak;
    }
    free(arrived);
    free(dims);
    if (status) return status;
    return session_fits(session, most) ? 0 : session_no_room(session, most, "a step", fault);
}

void tell_budget(const Session *session, const char *what, int64_t number, const StepResult *result)
{
    const BudgetChange *change = &result->memory;
    char refused[32], budget[32];
    if (change->offload_off)
        fprintf(stderr, "notice: %s %" PRId64 ": the host has no memory for copies: nothing is offloaded from now on\n", what, number);
    bytes_text(change->refused, refused, sizeof refused);
    bytes_text(change->budget, budget, sizeof budget);
    if (change->refused)
        fprintf(stderr, "notice: %s %" PRId64 ": %s had no %s for the arena any more: planned again, the budget is %s from now on\n", what, number,
                device_name(session->device), refused, budget);
    else if (change->raised)
        fprintf(stderr, "notice: %s %" PRId64 " takes more than the budget, and %s had it: the budget is %s from now on\n", what, number,
                device_name(session->device), budget);
}

int anomaly_fault(int64_t batch, const Breach *breach, Fault *fault)
{
    fault_set(fault, STATUS_ANOMALY, "batch %" PRId64 " contradicts the model: guard %s does not hold: %s\n  found: %s", batch,
              breach->name, breach->formula, breach->values);
    if (breach->source[0]) text_add(fault->text, sizeof fault->text, "\n  from: %s", breach->source);
    if (breach->relies[0]) text_add(fault->text, sizeof fault->text, "\n  relied on by: %s", breach->relies);
    text_add(fault->text, sizeof fault->text, "\n  no weight was changed by this batch; --on-anomaly skip sets such batches aside");
    return STATUS_ANOMALY;
}

int check_writable(const char *option, const char *path, Fault *fault)
{
    char folder[4096] = ".";
    const char *slash = path ? strrchr(path, '/') : NULL;
    struct stat there;
    if (!path) return 0;
    if (!stat(path, &there) && S_ISDIR(there.st_mode))
        return fault_set(fault, STATUS_USER, "%s %s: wanted a file's name, found a folder", option, path);
    if (slash) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + (slash == path), path);
    if (access(folder, W_OK)) return fault_set(fault, STATUS_USER, "%s %s: nothing can be written there: %s", option, path, strerror(errno));
    if (!stat(path, &there) && !S_ISREG(there.st_mode)) return 0;
    FileWriter writer = {0};
    int status = file_writer_open(&writer, path, fault);
    file_writer_abandon(&writer);
    return status;
}

/* Whether a and b are one file, or would be. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    const bool a_there = !stat(a, &x), b_there = !stat(b, &y);
    if (!a_there || !b_there) return !a_there && !b_there && !strcmp(a, b);
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int check_apart(const Options *o, Fault *fault)
{
    enum { WRITTEN = 4 }; /* so many of these, first */
    const struct {
        const char *option, *path;
    } files[] = {{"--log", o->log},   {"--save-weights", o->save_weights}, {"--save-gradients", o->save_gradients}, {"--export", o->export_file},
                 {"--data", o->data}, {"--batch-file", o->batch_file},     {"--load-weights", o->load_weights}};
    for (int i = 0; i < WRITTEN; i++)
        for (int k = i + 1; k < (int)(sizeof files / sizeof *files); k++) {
            const bool trained_further = files[i].path == o->save_weights && files[k].path == o->load_weights;
            if (!files[i].path || !files[k].path || trained_further || !same_file(files[i].path, files[k].path)) continue;
            return fault_set(fault, STATUS_USER, "%s %s: that is the file of %s; name another one", files[i].option, files[i].path, files[k].option);
        }
    return 0;
}

int make_folder(const char *option, const char *folder, Fault *fault)
{
    char path[4096];
    struct stat there;
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
        return fault_set(fault, STATUS_USER, "%s: too long a path", option);
    for (char *slash = path + 1;; slash++) {
        if (*slash && *slash != '/') continue;
        char end = *slash;
        *slash = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            return fault_set(fault, STATUS_USER, "%s %s: the folder cannot be made: %s", option, folder, strerror(errno));
        if (!end && (stat(path, &there) || !S_ISDIR(there.st_mode)))
            return fault_set(fault, STATUS_USER, "%s %s: wanted a folder, found a file; name another folder", option, folder);
        if (!end && access(path, W_OK | X_OK))
            return fault_set(fault, STATUS_USER, "%s %s: nothing can be written there: %s", option, folder, strerror(errno));
        if (!end) return 0;
        *slash = end;
    }
}

bool too_many_skipped(const Options *options, int64_t skipped, int64_t seen, bool end)
{
    return (end || seen >= 100) && (double)skipped > options->max_skipped * (double)seen;
}

bool may_offload(const Options *options)
{
    enum { AUTO, ON };
    return options->offload == ON || (options->offload == AUTO && copies_lead_elsewhere());
}
