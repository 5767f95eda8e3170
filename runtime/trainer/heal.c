/* What happens around a step when a result is to be checked or a variant is to be proven.
 * Needs: a session whose batch is uploaded.  Breaks: nothing.
 *
 * A kernel that fails is mended while the step runs (controller/mend.h).  Before the commit point no weight has changed: a step whose
 * loss is no number is run once more, to see whether it was a kernel that made it so. */
#include "heal.h"
#include "budget.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int keep_copies(Session *s, Fault *fault)
{
    if (!s->state_copies) s->state_copies = malloc(2 * (size_t)s->state_bytes + 1);
    return s->state_copies ? 0 : fault_memory(fault);
}

/* ---- variants ---- */
static int launch_either(Session *s, const Program *program, const Program *generic, const Batch *batch, Step *step, double *seconds)
{
    return step_launch(s, program, batch->number, program == generic ? MEND_FAILURES : MEND_NOTHING, step, seconds);
}

/* Both programs from the same state, in turn first; what the generic one made stands.  *error: of its step.  Where a kernel of the
 * candidate fails, nobody mends it: then the errors differ. */
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
    s->proving = true;
    errors[0] = launch_either(s, generic_first ? generic : candidate, generic, batch, &steps[0], &seconds[0]);
    if (!failed) failed = device_download(s->device, first, s->state, bytes);
    if (!failed) failed = device_upload(s->device, s->state, before, bytes);
    int status = device_fault(failed, "copying weights to prove a variant", fault);
    if (!status) status = step_place(s, generic, fault);
    if (!status) status = step_upload(s, generic, batch, fault);
    if (!status) errors[1] = launch_either(s, generic_first ? candidate : generic, generic, batch, &steps[1], &seconds[1]);
    s->proving = false;
    if (status) return status;
    failed = device_download(s->device, before, s->state, bytes);
    if (!failed && generic_first) failed = device_upload(s->device, s->state, first, bytes);
    const bool same =
        errors[0] == errors[1] && !memcmp(&steps[0].loss, &steps[1].loss, sizeof(double)) && !memcmp(before, first, bytes);
    variants_proven(s->variants, generic, s->dims, same, seconds[!generic_first], seconds[generic_first]);
    *step = steps[!generic_first];
    *error = errors[!generic_first];
    return device_fault(failed, "copying weights to prove a variant", fault);
}

/* ---- a step ---- */
/* The same step from where it began: its batch once more, where it lay. */
static int again(Session *s, const Program *program, const Batch *batch, MendWatch watch, Step *step, int *error, Fault *fault)
{
    double seconds;
    int status = step_place(s, program, fault);
    if (!status) status = step_upload(s, program, batch, fault);
    if (!status) *error = step_launch(s, program, batch->number, watch, step, &seconds);
    return status;
}

/* ---- elements that keep what they have ---- */
/* The step's gradients once more, of the same batch, with nothing assigned: is it a kernel that makes them no numbers?  By then other elements
 * have changed, so it may not happen again. */
static int find_cause(Session *s, const Program *program, const Batch *batch, StepResult *result, Fault *fault)
{
    Step step;
    int error = 0;
    void **gradients = s->gradients;
    s->gradients = NULL;
    const int status = again(s, program, batch, MEND_CAUSE, &step, &error, fault);
    s->gradients = gradients;
    if (status) return status;
    const MendCause cause = mend_cause(s->mend, &result->node);
    result->cause = cause == CAUSE_KERNEL ? KEPT_KERNEL : cause == CAUSE_NUMBERS ? KEPT_NUMBERS : KEPT_ONCE;
    return 0;
}

/* Each time in the beginning; where it happens again and again, less and less often. */
static bool cause_wanted(const Session *s)
{
    return (s->kept_steps & (s->kept_steps - 1)) == 0;
}

static void count_kept(Session *s, StepResult *result)
{
    for (int i = s->model->n_weights - 1; i >= 0; i--) {
        if (!s->kept[i]) continue;
        result->kept++;
        result->kept_first = i;
    }
    s->kept_steps += result->kept > 0;
}

int heal_run(Session *session, const Program *program, const Batch *batch, Step *step, int *error, StepResult *result, Fault *fault)
{
    Session *s = session;
    double seconds;
    int status = 0;
    const int64_t graphs_before = graphs_bytes(s->graphs);
    const bool trains = s->model->train && (program == s->model->train || program == s->model->train->lean);
    const bool mends = trains && s->mend && mend_possible(s->mend);
    const bool verifies = mends && s->options.verify_every && batch->number % s->options.verify_every == 0;
    const Program *candidate = NULL, *chosen = program;
    memset(s->kept, 0, (size_t)s->model->n_weights);
    if (trains && s->variants && !s->gradients && !s->trace && !verifies)
        chosen = variants_program(s->variants, program, s->dims, &candidate);
    if (candidate)
        status = prove(s, program, candidate, batch, step, error, fault);
    else
        *error = step_launch(s, chosen, batch->number, verifies ? MEND_VERIFY : MEND_FAILURES, step, &seconds);
    const bool varied = chosen != program, mended = varied && s->mend && mend_variant_failed(s->mend);
    const int first = *error;
    if (!status && varied && first == DEVICE_LAUNCH_FAILED && isnan(step->loss)) /* before the commit point */
        status = again(s, program, batch, MEND_FAILURES, step, error, fault);
    if (!status && mends && *error == STEP_NOT_FINITE && !verifies) status = again(s, program, batch, MEND_NAN, step, error, fault);
    if (!status && !*error) count_kept(s, result);
    if (!status && result->kept && mends && cause_wanted(s)) status = find_cause(s, program, batch, result, fault);
    const bool at_fault = result->kept && result->cause == KEPT_ONCE; /* the variant alone makes it */
    if (varied && (mended || at_fault || first != *error)) variants_failed(s->variants, program, s->dims);
    if (mends) result->peak_bytes += mend_bytes(s->mend);
    const int64_t graphs = graphs_bytes(s->graphs);
    result->peak_bytes += graphs > graphs_before ? graphs : graphs_before;
    if (result->peak_bytes > s->peak_bytes) s->peak_bytes = result->peak_bytes;
    return status;
}
