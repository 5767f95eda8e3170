/* Training: batches in order, each a step, with the log, checkpoints and progress around it.
 * Needs: options checked.  Breaks: nothing. */
#include "signals.h" /* first: it asks for POSIX */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "budget.h"
#include "calibration.h"
#include "checkpoint.h"
#include "export.h"
#include "log.h"
#include "programs.h"
#include "progress.h"
#include "quarantine.h"

typedef struct {
    const Model *model;
    const Options *options;
    const char *folder;
    Data data;
    Session *session;
    Batch batch;
    Log log;
    Progress progress;
    Place place;
    TensorFile checkpoint; /* open while resuming */
    int claim; /* of the checkpoint's folder */
    bool earlier; /* it holds a checkpoint of an earlier run, which this one does not go on from */
    bool gradients_due, blind; /* blind: that not all results are looked at has been told */
    Fault *fault;
} Training;

/* ---- opening ---- */

/* What the command line says; where it says nothing, the checkpoint; where there is none, defaults. */
static int settle(Training *t)
{
    const Options *o = t->options;
    const Model *m = t->model;
    Place saved = {0};
    if (o->resume) {
        int status = checkpoint_open(&t->checkpoint, m, o->checkpoint, &saved, t->fault);
        if (status) return status;
        if (o->batch_size && o->batch_size != saved.batch_size)
            return fault_set(t->fault, STATUS_USER,
                             "--batch-size %" PRId64 ": the checkpoint was made with %" PRId64
                             ", and its place in the data counts in those",
                             o->batch_size, saved.batch_size);
        if (o->seed_given && o->seed != saved.seed)
            return fault_set(t->fault, STATUS_USER,
                             "--seed %" PRId64 ": the checkpoint was made with %" PRId64 "; leave --seed out", o->seed, saved.seed);
    }
    t->place = saved;
    t->place.seed = o->resume ? saved.seed : o->seed;
    for (int i = 0; i < OPTION_HYPERS; i++) {
        if (o->hyper_given[i])
            t->place.hypers[i] = o->hypers[i];
        else if (!saved.hyper_given[i])
            for (int h = 0; h < m->n_hypers; h++)
                if (!strcmp(m->hypers[h].name, option_hyper_names[i])) t->place.hypers[i] = m->hypers[h].value;
    }
    return 0;
}

static int open_data(Training *t)
{
    const Options *o = t->options;
    DataOptions wanted = {.path = o->data ? o->data : o->batch_file,
                          .ready = o->batch_file != NULL,
                          .shuffle = true,
                          .seed = (uint64_t)t->place.seed};
    wanted.batch_size = o->batch_size ? o->batch_size : t->place.batch_size;
    if (o->batch_file) wanted.batch_size = 0;
    int status = data_open(&t->data, t->model, t->model->train, &wanted, t->fault);
    if (status) return status;
    int64_t total = o->resume ? t->place.total : t->data.n_batches, by_epochs;
    if (o->epochs >= 0) {
        if (__builtin_mul_overflow(o->epochs, t->data.n_batches, &by_epochs)) by_epochs = INT64_MAX;
        total = o->steps >= 0 && o->steps < by_epochs ? o->steps : by_epochs;
    } else if (o->steps >= 0)
        total = o->steps;
    t->place.total = total;
    t->place.batch_size = t->data.batch_size;
    return 0;
}

static bool may_record(const Options *o)
{
    if (o->graphs == 2 && !device_has_graphs()) fprintf(stderr, "notice: --graphs on: there are none on this device; kernels are launched as they come\n");
    return o->graphs == 2 || (o->graphs == 0 && !strcmp(device_kind(), "cuda"));
}

static int open_session(Training *t)
{
    const Options *o = t->options;
    SessionOptions wanted = {.memory_limit = o->memory_limit,
                             .row_blocks = o->row_blocks,
                             .lean = (LeanChoice)o->lean,
                             .seed = (uint64_t)t->place.seed,
                             .training = true,
                             .recompute_off = o->recompute == 1,
                             .plan_again = o->on_anomaly == ANOMALY_HEAL,
                             .folder = o->on_anomaly == ANOMALY_HEAL || o->verify_every ? t->folder : NULL,
                             .variants = o->variants != 1 && !o->trace_nan,
                             .graphs = may_record(o),
                             .verify_every = o->verify_every,
                             .variants_eager = o->variants == 2,
                             .trace_nan = o->trace_nan};
    int status = may_offload(o) ? calibration_find(o, t->folder, o->memory_limit > 0, &wanted.rates, t->fault) : 0;
    if (!status) status = session_open(&t->session, t->model, &wanted, t->fault);
    if (status) return status;
    tell_precision(t->session);
    for (int i = 0; i < OPTION_HYPERS; i++) session_set_hyper(t->session, option_hyper_names[i], t->place.hypers[i]);
    status = check_budget(t->session, t->model->train, &t->data, t->place.step, t->place.total, t->fault);
    if (status) return status;
    if (!o->resume) return load_initial_weights(t->session, o, t->folder, t->fault);
    status = checkpoint_load(t->session, &t->checkpoint, &t->place, t->fault);
    tensor_file_close(&t->checkpoint);
    return status;
}

static const char *skeleton_path(const Training *t, char *path, size_t size)
{
    snprintf(path, size, "%s/skeleton.onnx", t->folder);
    return path;
}

/* Before hours of work. */
static int check_export(Training *t)
{
    char path[4200];
    const char *wanted = t->options->export_file;
    if (!wanted) return 0;
    if (access(skeleton_path(t, path, sizeof path), R_OK))
        return fault_set(t->fault, STATUS_USER, "--export %s: %s cannot be read: %s; disc-gen writes it beside the program, and says so where it cannot",
                         wanted, path, strerror(errno));
    struct stat from, to;
    if (!stat(path, &from) && !stat(wanted, &to) && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        return fault_set(t->fault, STATUS_USER, "--export %s: that is what the model is made from; wanted another file", wanted);
    return check_writable("--export", wanted, t->fault);
}

static void tell_earlier(Training *t)
{
    const char *folder = t->options->checkpoint;
    t->earlier = folder && !t->options->resume && checkpoint_is_there(folder);
    if (t->earlier)
        fprintf(stderr, "notice: %s holds a checkpoint of an earlier run; it is kept as checkpoint.before.safetensors (--resume goes on from it)\n", folder);
}

static int open_training(Training *t)
{
    const Options *o = t->options;
    int status = check_apart(o, t->fault);
    if (!status && o->checkpoint) status = checkpoint_claim(o->checkpoint, &t->claim, t->fault);
    if (!status) status = check_writable("--save-weights", o->save_weights, t->fault);
    if (!status) status = check_writable("--save-gradients", o->save_gradients, t->fault);
    if (!status) status = check_export(t);
    if (!status) status = settle(t);
    if (!status) status = open_data(t);
    if (!status) status = open_session(t);
    if (!status && batch_create(&t->batch, t->model)) status = fault_memory(t->fault);
    if (!status && o->checkpoint) status = make_folder("--checkpoint", o->checkpoint, t->fault);
    if (!status && o->checkpoint) status = checkpoint_claim(o->checkpoint, &t->claim, t->fault);
    if (!status && o->quarantine) status = make_folder("--quarantine", o->quarantine, t->fault);
    if (!status) status = o->resume ? log_reopen(&t->log, o->log, t->place.step, t->fault) : log_open(&t->log, o->log, t->fault);
    if (!status && o->resume) status = log_event(&t->log, "resume", t->place.step, NULL, t->fault);
    if (!status) tell_earlier(t);
    t->gradients_due = o->save_gradients != NULL;
    if (!status && t->gradients_due) status = session_want_gradients(t->session, t->fault);
    return status;
}

static void close_training(Training *t)
{
    log_close(&t->log);
    batch_destroy(&t->batch);
    session_close(t->session);
    data_close(&t->data);
    tensor_file_close(&t->checkpoint);
    checkpoint_leave(&t->claim);
}

/* ---- steps ---- */
/* Weights that are no numbers any more are never written over a checkpoint, and no batch is blamed for them. */
static int check_weights(Training *t, Fault *fault)
{
    int weight;
    int status = session_weights_finite(t->session, &weight, fault);
    if (status || weight < 0) return status;
    fault_set(fault, STATUS_ANOMALY,
              "after %" PRId64 " updates the weight \"%s\" holds a NaN or an infinity: a gradient or an update overflowed, and nothing can be "
              "computed from here; try a smaller --lr, and --trace-nan to see where it began",
              t->session->updates, t->model->weights[weight].name);
    if (t->options->checkpoint) text_add(fault->text, sizeof fault->text, "\n  the checkpoint stays as it was written before");
    return STATUS_ANOMALY;
}

static int write_checkpoint(Training *t, Fault *fault)
{
    if (!t->options->checkpoint) return 0;
    int status = check_weights(t, fault);
    if (!status && t->earlier) status = checkpoint_set_aside(t->options->checkpoint, fault);
    if (status) return status;
    t->earlier = false;
    return checkpoint_write(t->session, t->options->checkpoint, &t->place, fault);
}

/* Ends the run with the fault that is set, after a checkpoint; should that fail too, both are told. */
static int stop_with_checkpoint(Training *t)
{
    Fault second = {0};
    int status = t->fault->status;
    if (write_checkpoint(t, &second)) text_add(t->fault->text, sizeof t->fault->text, "\n  and no checkpoint: %s", second.text);
    return status;
}

static int tell_nan(Training *t)
{
    const Trace *trace = t->session->trace;
    progress_end(&t->progress);
    fprintf(stderr, "notice: step %" PRId64 ": the first NaN was made by \"%s\", in %s (kernel %s)\n", t->place.step, trace->source,
            trace->tensor, trace->kernel ? trace->kernel : "none");
    int status = log_nan(&t->log, t->session, t->place.step, t->fault);
    return status ? stop_with_checkpoint(t) : 0;
}

/* Once: where memory is short it stays so. */
static int tell_blind(Training *t)
{
    static const char why[] = "not all results could be looked at: no memory for a copy of them, or the copy failed";
    if (t->blind) return 0;
    t->blind = true;
    progress_end(&t->progress);
    fprintf(stderr, "notice: step %" PRId64 ": %s; a NaN or a wrong result may stay unseen\n", t->place.step, why);
    return log_event(&t->log, "not_looked_at", t->place.step, why, t->fault) ? stop_with_checkpoint(t) : 0;
}

static int budget_changed(Training *t, const StepResult *result)
{
    const BudgetChange *change = &result->memory;
    if (!change->refused && !change->raised && !change->offload_off) return 0;
    progress_end(&t->progress);
    tell_budget(t->session, "step", t->place.step, result);
    return log_budget(&t->log, t->session, t->place.step, result, t->fault);
}

static int set_aside(Training *t, const StepResult *result)
{
    int64_t step = t->place.step, batch = t->data.ready ? step % t->data.n_batches : step;
    bool stop = t->options->on_anomaly == ANOMALY_STOP;
    int status = budget_changed(t, result);
    if (!status) status = log_guard(&t->log, t->session, stop ? "stopped" : "set_aside", step, &result->breach, result->seconds, t->fault);
    if (!status && t->options->quarantine)
        status = quarantine_write(t->options->quarantine, t->model, &t->batch, batch, &result->breach, t->fault);
    if (status) return stop_with_checkpoint(t);
    if (stop) {
        anomaly_fault(batch, &result->breach, t->fault);
        return stop_with_checkpoint(t);
    }
    progress_end(&t->progress);
    fprintf(stderr, "notice: batch %" PRId64 " set aside: guard %s does not hold: %s (%s)\n", batch, result->breach.name,
            result->breach.formula, result->breach.values);
    t->place.skipped++;
    return 0;
}

/* A loss scale so small cannot be what made the gradients overflow. */
static const double LEAST_LOSS_SCALE = 0x1p-24;

static int update_skipped(Training *t, const StepResult *result)
{
    int status = log_scale(&t->log, t->session, "overflow", t->place.step, result, t->fault);
    if (status) return status;
    progress_end(&t->progress);
    fprintf(stderr, "notice: step %" PRId64 ": gradients are not finite at a loss scale of %g; its update is skipped, the next scale is %g\n",
            t->place.step, result->scale, t->session->loss_scale);
    if (t->session->loss_scale >= LEAST_LOSS_SCALE) return 0;
    return fault_set(t->fault, STATUS_ANOMALY, "step %" PRId64 ": gradients are not finite at any loss scale; the loss is %g", t->place.step,
                     result->loss);
}

static const char *why_kept(const StepResult *result)
{
    switch (result->cause) {
    case KEPT_KERNEL: return "a kernel's fault";
    case KEPT_NUMBERS: return "operation by operation it is so, too";
    case KEPT_ONCE: return "it did not happen again when the cause was looked for";
    default: return "the cause was not looked for";
    }
}

/* After the commit a step is not given up: elements whose gradients are no numbers keep what they have, and it is counted as a batch that
 * contradicts the model, unless a kernel was at fault. */
static int trained_in_part(Training *t, const StepResult *result)
{
    const int64_t step = t->place.step, batch = t->data.ready ? step % t->data.n_batches : step;
    const bool own = result->cause == KEPT_KERNEL;
    int status = log_kept(&t->log, t->session, step, result, t->fault);
    if (!status && !own && t->options->quarantine)
        status = quarantine_write(t->options->quarantine, t->model, &t->batch, batch, &result->update, t->fault);
    if (status) return status;
    progress_end(&t->progress);
    fprintf(stderr, "notice: step %" PRId64 ": elements of \"%s\"", step, t->model->weights[result->kept_first].name);
    if (result->kept > 1) fprintf(stderr, " and of %d more weight%s", result->kept - 1, result->kept > 2 ? "s" : "");
    fprintf(stderr, " keep what they had: what they were to become is no finite number; %s", why_kept(result));
    fprintf(stderr, result->node ? ", and \"%s\" makes the first NaN\n" : "\n", result->node);
    t->place.skipped += !own;
    if (t->options->on_anomaly != ANOMALY_STOP || own) return 0;
    return fault_set(t->fault, STATUS_ANOMALY,
                     "batch %" PRId64 " contradicts the model: guard %s does not hold: %s\n  found: %s\n  those elements keep what they had, the others were "
                     "changed; --on-anomaly skip goes on after such batches",
                     batch, result->update.name, result->update.formula, result->update.values);
}

static int tell_mended(Training *t, const StepResult *result)
{
    Mended event;
    int status = 0;
    while (!status && t->session->mend && mend_event(t->session->mend, &event)) {
        progress_end(&t->progress);
        fprintf(stderr, "notice: step %" PRId64 ": kernel %s %s%s; \"%s\" is computed unfused from now on\n", t->place.step, event.kernel,
                *event.detail ? "is wrong: " : "could not be launched", event.detail, event.source);
        status = log_mended(&t->log, t->session, t->place.step, &event, result, t->fault);
    }
    return status;
}

static int trained(Training *t, const StepResult *result)
{
    int status = budget_changed(t, result);
    if (!status && result->planned_again)
        status = log_guard(&t->log, t->session, "planned_again", t->place.step, &result->range, result->seconds, t->fault);
    if (!status && result->other_form)
        status = log_guard(&t->log, t->session, "other_form", t->place.step, &result->form, result->seconds, t->fault);
    if (!status && result->planned_late) status = log_planned_late(&t->log, t->session, t->place.step, result, t->fault);
    if (!status) status = log_step(&t->log, t->session, t->place.step, result, t->fault);
    if (!status && t->session->variants) {
        const double each = (t->progress.seconds + result->seconds) / (double)(t->progress.steps + 1);
        variants_spent(t->session->variants, t->session->plan->program, t->session->dims, result->seconds, each * (double)(t->place.total - t->place.step));
        status = log_variants(&t->log, t->session, t->place.step, t->fault);
    }
    if (!status) status = log_graphs(&t->log, t->session, t->place.step, t->fault);
    if (!status && result->overflowed) status = update_skipped(t, result);
    if (!status && result->kept) status = trained_in_part(t, result);
    if (!status && result->scaled_up) status = log_scale(&t->log, t->session, "scaled_up", t->place.step, result, t->fault);
    if (!status && t->gradients_due && !result->overflowed) {
        status = session_save_gradients(t->session, t->options->save_gradients, t->fault);
        session_drop_gradients(t->session);
        t->gradients_due = false;
    }
    progress_step(&t->progress, t->place.step, result->loss, result->seconds);
    return status;
}

static int check_skipped(Training *t, bool end)
{
    if (!too_many_skipped(t->options, t->place.skipped, t->place.step, end)) return 0;
    fault_set(t->fault, STATUS_ANOMALY, "%" PRId64 " of %" PRId64 " batches were set aside%s, more than --max-skipped %g%% allows",
              t->place.skipped, t->place.step, tally_of(&t->log.tally, "trained_in_part") ? " or trained in part" : "", 100 * t->options->max_skipped);
    return stop_with_checkpoint(t);
}

/* The fault is set: not even the smallest plan could be had.  Found before anything was launched: the weights are whole. */
static int no_room(Training *t)
{
    Fault second = {0};
    int status = stop_with_checkpoint(t);
    if (log_event(&t->log, "no_room", t->place.step, t->fault->text, &second)) text_add(t->fault->text, sizeof t->fault->text, "\n  %s", second.text);
    return status;
}

static int step(Training *t)
{
    StepResult result = {0};
    int status = data_batch(&t->data, t->place.step, &t->batch, t->fault);
    if (status) return stop_with_checkpoint(t); /* the file may be mended, and this batch be the next one */
    status = session_run(t->session, t->model->train, &t->batch, &result, t->fault);
    if (status == STATUS_BUDGET) return no_room(t);
    if (!status) status = tell_mended(t, &result);
    if (!status && result.nan) status = tell_nan(t);
    if (!status && result.blind) status = tell_blind(t);
    if (!status && (result.not_finite || result.nan)) status = check_weights(t, t->fault);
    if (status || (result.broke && (status = set_aside(t, &result)))) return status;
    status = result.broke ? 0 : trained(t, &result);
    t->place.step++;
    if (status) return stop_with_checkpoint(t); /* what is told could not be: the step itself is whole */
    status = check_skipped(t, false);
    bool due = t->options->checkpoint_every && t->place.step % t->options->checkpoint_every == 0 && t->place.step < t->place.total;
    return status || !due ? status : write_checkpoint(t, t->fault);
}

/* Runs until the end, a fault, or a signal. */
static int loop(Training *t, int *signal_taken)
{
    int status = 0;
    while (!status && t->place.step < t->place.total && !(*signal_taken = signals_taken())) status = step(t);
    if (!status && *signal_taken) {
        status = log_event(&t->log, "signal", t->place.step, signal_name(*signal_taken), t->fault);
        status = status ? stop_with_checkpoint(t) : write_checkpoint(t, t->fault);
    }
    return status;
}

static int export(Training *t)
{
    char path[4200];
    const Options *o = t->options;
    const ExportOptions wanted = {o->export_file, o->export_limit ? o->export_limit : EXPORT_MOST, o->export_mode == 1};
    const int status = session_export(t->session, skeleton_path(t, path, sizeof path), &wanted, t->fault);
    for (int i = 0; i < t->model->n_weights && !status && !wanted.inference; i++) {
        if (!t->model->weights[i].statistics) continue;
        fprintf(stderr, "notice: a BatchNormalization that came in training mode is so still in %s; --export-mode inference makes it ready to serve\n", o->export_file);
        break;
    }
    return status;
}

static int finish(Training *t)
{
    int status = check_skipped(t, true);
    if (!status) status = write_checkpoint(t, t->fault);
    if (!status && t->options->save_weights) status = session_save_weights(t->session, t->options->save_weights, t->fault);
    if (!status && t->options->export_file) status = export(t);
    if (!status && t->gradients_due) status = fault_set(t->fault, STATUS_USER, "--save-gradients: no step was taken that has any");
    return status;
}

/* The last line of the log and of what is said.  Returns the run's status, or that of a log that could not be written. */
static int summarise(Training *t, int status)
{
    char guards[2000], in_part[2000];
    Fault second = {0};
    tally_text(&t->log.tally, "set_aside", guards, sizeof guards);
    tally_text(&t->log.tally, "trained_in_part", in_part, sizeof in_part);
    progress_summary(&t->progress, t->session->peak_bytes, t->place.skipped, guards, in_part);
    if (!log_summary(&t->log, t->place.step, t->progress.steps, &second) || status) return status;
    *t->fault = second;
    return second.status;
}

/* The limit where none is given. */
static void show_limit(const Session *s)
{
    char limit[32], free_bytes[32], margin[32];
    if (!s->free_bytes) return;
    printf("memory: at most %s, of the %s that are free on %s, less a margin of %s; --memory-limit sets another limit\n", bytes_text(s->limit, limit, 32),
           bytes_text(s->free_bytes, free_bytes, 32), device_name(s->device), bytes_text(budget_margin(s->free_bytes), margin, 32));
}

int train_program(const Model *m, const Options *options, const char *folder, Fault *fault)
{
    Training t = {.model = m, .options = options, .folder = folder, .fault = fault, .claim = -1};
    int signal_taken = 0;
    if (!m->train) return fault_set(fault, STATUS_USER, "this program was generated without training");
    int status = open_training(&t);
    Signals signals;
    signals_hold(&signals); /* until all is written: a signal during the last step must not lose it */
    if (!status) {
        progress_start(&t.progress, options->progress == 1, t.place.step, t.place.total);
        if (t.progress.shown) show_limit(t.session);
        status = loop(&t, &signal_taken);
        progress_end(&t.progress);
        if (!status && !signal_taken && !(status = finish(&t))) signal_taken = signals_taken();
        status = summarise(&t, status);
    }
    close_training(&t);
    while (signal_taken && signals_taken()) {} /* sent again: it has been heard */
    signals_release(&signals);
    if (status || !signal_taken) return status;
    fault_set(fault, 128 + signal_taken, "stopped by signal %d after %" PRId64 " steps%s", signal_taken, t.place.step,
              options->checkpoint ? "; the checkpoint is written, --resume goes on" : "");
    return fault->status;
}
