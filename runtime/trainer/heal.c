/* What happens around a step when a kernel fails, a result is wrong, or a variant is to be proven.
 * Needs: a session whose batch is uploaded.  Breaks: nothing.
 *
 * Before the commit point a step that fails has changed no weight and is simply run again, unfused.  Behind it weights are half
 * updated: it is taken back to a copy of the state.  A launch fails by what its dims ask for, if it fails, so the copy is made
 * where dims are met for the first time; a launch that fails later than that is a fault of the machine, and ends the run. */
#include "heal.h"
#include "budget.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAILURES_MOST = 3, KNOWN_MOST = 256 }; /* launches that fail before the fused step is given up; dims remembered */

static int keep_copies(Session *s, Fault *fault)
{
    if (!s->state_copies) s->state_copies = malloc(2 * (size_t)s->state_bytes + 1);
    return s->state_copies ? 0 : fault_memory(fault);
}

static int download_state(Session *s, char *to, Fault *fault)
{
    return device_fault(device_download(s->device, to, s->state, (size_t)s->state_bytes), "copying weights from the device", fault);
}

static int upload_state(Session *s, const char *from, Fault *fault)
{
    return device_fault(device_upload(s->device, s->state, from, (size_t)s->state_bytes), "copying weights to the device", fault);
}

/* ---- variants ---- */
/* Both programs from the same state, in turn first; what the generic one made stands.  *error: of its step. */
static int prove(Session *s, const Program *generic, const Program *candidate, const Batch *batch, Step *step, int *error,
                 Fault *fault)
{
    const bool generic_first = s->proofs++ % 2;
    const size_t bytes = (size_t)s->state_bytes;
    if (keep_copies(s, fault)) return fault->status;
    char *before = s->state_copies, *first = s->state_copies + bytes;
    double seconds[2];
    Step steps[2];
    int errors[2], failed = device_download(s->device, before, s->state, bytes);
    errors[0] = step_launch(s, generic_first ? generic : candidate, batch->number, &steps[0], &seconds[0]);
    if (!failed) failed = device_download(s->device, first, s->state, bytes);
    if (!failed) failed = device_upload(s->device, s->state, before, bytes);
    int status = device_fault(failed, "copying weights to prove a variant", fault);
    if (!status) status = step_place(s, generic, fault);
    if (!status) status = step_upload(s, generic, batch, fault);
    if (status) return status;
    errors[1] = step_launch(s, generic_first ? candidate : generic, batch->number, &steps[1], &seconds[1]);
    failed = device_download(s->device, before, s->state, bytes);
    if (!failed && generic_first) failed = device_upload(s->device, s->state, first, bytes);
    const bool same =
        errors[0] == errors[1] && !memcmp(&steps[0].loss, &steps[1].loss, sizeof(double)) && !memcmp(before, first, bytes);
    variants_proven(s->variants, s->dims, same, seconds[!generic_first], seconds[generic_first]);
    *step = steps[!generic_first];
    *error = errors[!generic_first];
    return device_fault(failed, "copying weights to prove a variant", fault);
}

/* ---- the unfused program ---- */
static int run_unfused(Session *s, const Batch *batch, Step *step, int *error, StepResult *result, Fault *fault)
{
    const char *why;
    double seconds;
    const Program *unfused = fallback_program(s->fallback, &why);
    if (!unfused) {
        snprintf(result->not_healed, sizeof result->not_healed, "%s", why);
        return 0;
    }
    int status = step_plan(s, unfused, fault);
    if (!status) status = step_place(s, unfused, fault);
    if (!status) status = step_upload(s, unfused, batch, fault);
    if (status) return status;
    result->peak_bytes = s->state_bytes + s->plan->arena_bytes;
    result->recomputed = s->plan->recomputed;
    result->program = unfused->name;
    result->blocks = 1;
    if (result->peak_bytes > s->peak_bytes) s->peak_bytes = result->peak_bytes;
    *error = step_launch(s, unfused, batch->number, step, &seconds);
    return 0;
}

static bool known(const Session *s)
{
    const size_t n = (size_t)s->model->n_dims;
    for (int i = s->n_known - 1; i >= 0; i--)
        if (!memcmp(s->known + (size_t)i * n, s->dims, n * sizeof *s->dims)) return true;
    return s->n_known == KNOWN_MOST;
}

static void remember(Session *s)
{
    const size_t n = (size_t)s->model->n_dims;
    if (known(s)) return;
    int64_t *more = realloc(s->known, ((size_t)s->n_known + 1) * (n + 1) * sizeof *more);
    if (!more) return;
    s->known = more;
    memcpy(more + (size_t)s->n_known++ * n, s->dims, n * sizeof *more);
}

static int run_guarded(Session *s, const Program *program, const Batch *batch, Step *step, int *error, StepResult *result,
                       Fault *fault)
{
    double seconds;
    const bool copied = s->fallback && s->state_bytes <= COPIES_MOST && !known(s);
    int status = copied ? keep_copies(s, fault) : 0;
    if (!status && copied) status = download_state(s, s->state_copies, fault);
    if (status) return status;
    *error = step_launch(s, program, batch->number, step, &seconds);
    if (*error != DEVICE_LAUNCH_FAILED) {
        if (copied) remember(s);
        return 0;
    }
    const bool committed = !isnan(step->loss);
    snprintf(result->kernel, sizeof result->kernel, "%s", step->kernel ? step->kernel : "");
    if (!s->fallback || (committed && !copied)) return 0;
    if (committed) status = upload_state(s, s->state_copies, fault);
    if (!status) status = run_unfused(s, batch, step, error, result, fault);
    result->fell_back = !status && *error != DEVICE_LAUNCH_FAILED;
    s->unfused = s->unfused || ++s->failures == FAILURES_MOST;
    return status;
}

/* ---- verified results ---- */
static double tolerance(const Session *s)
{
    return strcmp(s->model->precision, "fp32") && strcmp(s->model->precision, "fp64") ? 0.2 : 0.05;
}

/* Largest difference over largest magnitude. */
static double difference(const void *a, const void *b, int dtype, int64_t n)
{
    double most = 0, top = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = element_as_double(a, dtype, i), y = element_as_double(b, dtype, i);
        if (!(fabs(x - y) <= most)) most = isnan(x) && isnan(y) ? most : fabs(x - y);
        if (fabs(y) > top) top = fabs(y);
    }
    return most > 0 ? most / fmax(top, 1e-12) : isnan(most) ? INFINITY : 0;
}

/* The first tensor of the state, or the loss, that is not within rounding of what the unfused program made of it. */
static bool differs(const Session *s, const Step *fused, const Step *plain, const char *have, const char *want, char *out,
                    size_t size)
{
    const Model *m = s->model;
    const double loss = fabs(fused->loss - plain->loss) / fmax(fabs(plain->loss), 1e-6);
    if (!(loss <= tolerance(s) / 10) && !(isnan(fused->loss) && isnan(plain->loss))) {
        snprintf(out, size, "the loss is %.9g, unfused %.9g", fused->loss, plain->loss);
        return true;
    }
    for (int i = 0; i < m->n_weights + s->n_states; i++) {
        const bool state = i >= m->n_weights;
        const WeightInfo *w = &m->weights[state ? m->states[i - m->n_weights].weight : i];
        const int64_t at = (char *)(state ? s->states[i - m->n_weights] : s->weights[i]) - s->state;
        if (!w->trainable || !dtype_is_float((int)w->dtype)) continue;
        const double by = difference(have + at, want + at, (int)w->dtype, count_of(w->rank, w->dims));
        if (by <= tolerance(s)) continue;
        snprintf(out, size, "%s differs by %.3g of its largest element", state ? m->states[i - m->n_weights].name : w->name, by);
        return true;
    }
    return false;
}

/* Both programs from the same state; where they differ, what the unfused one made stands, and it runs from now on. */
static int verify(Session *s, const Program *program, const Batch *batch, Step *step, int *error, StepResult *result, Fault *fault)
{
    double seconds;
    const char *why;
    if (!fallback_program(s->fallback, &why))
        return fault_set(fault, STATUS_USER, "--verify-every: there is no unfused program to compare with: %s", why);
    const Plan *plan = s->plan;
    const StepResult planned = *result;
    int status = keep_copies(s, fault), unfused_error = 0;
    char *before = s->state_copies, *fused = before + s->state_bytes;
    Step plain;
    if (!status) status = download_state(s, before, fault);
    if (status) return status;
    *error = step_launch(s, program, batch->number, step, &seconds);
    status = download_state(s, fused, fault);
    if (!status) status = upload_state(s, before, fault);
    if (!status) status = run_unfused(s, batch, &plain, &unfused_error, result, fault);
    if (!status) status = download_state(s, before, fault);
    if (status) return status;
    result->wrong =
        *error != unfused_error || (!*error && differs(s, step, &plain, fused, before, result->differs, sizeof result->differs));
    if (!result->wrong) {
        s->plan = plan;
        *result = planned;
        return upload_state(s, fused, fault);
    }
    if (*error != unfused_error)
        snprintf(result->differs, sizeof result->differs, "the step ended with error %d, unfused with %d", *error, unfused_error);
    snprintf(result->kernel, sizeof result->kernel, "%s", *error && step->kernel ? step->kernel : "");
    *step = plain;
    *error = unfused_error;
    s->unfused = true;
    return 0;
}

int heal_run(Session *session, const Program *program, const Batch *batch, Step *step, int *error, StepResult *result, Fault *fault)
{
    Session *s = session;
    double seconds;
    const bool lean = s->model->train && program == s->model->train->lean, trains = program == s->model->train || lean;
    if (!trains) {
        *error = step_launch(s, program, batch->number, step, &seconds);
        return 0;
    }
    if (s->unfused) return run_unfused(s, batch, step, error, result, fault);
    if (s->fallback && s->options.verify_every && batch->number % s->options.verify_every == 0)
        return verify(s, program, batch, step, error, result, fault);
    const Program *candidate = NULL;
    const bool varies = !lean && s->variants && !s->gradients && !s->trace;
    const Program *chosen = varies ? variants_program(s->variants, s->dims, program, &candidate) : program;
    if (candidate) return prove(s, program, candidate, batch, step, error, fault);
    return run_guarded(s, chosen, batch, step, error, result, fault);
}
