/* Opens a model on the device and runs its programs.  Needs: the device, the planner, guards.  Breaks: nothing.
 *
 * A step: arrival, dims, guards, plan, (a larger arena), upload, run.  Nothing is allocated between upload and the end of run,
 * except where a unit is mended or a late dim planned. */
#define _POSIX_C_SOURCE 200809L
#include "../device/clock.h"
#include "../device/copies.h"
#include "session.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "arrival.h"
#include "budget.h"
#include "heal.h"

/* As torch.amp.GradScaler has it. */
static const double FIRST_LOSS_SCALE = 65536;
enum { STEPS_TO_SCALE_UP = 2000 };

int device_fault(int error, const char *doing, Fault *fault)
{
    if (!error) return 0;
    return fault_set(fault, error == DEVICE_OUT_OF_MEMORY ? STATUS_BUDGET : STATUS_FAULT, "%s: %s", doing,
                     device_error_text(error));
}

static int64_t weight_bytes(const WeightInfo *weight)
{
    return planner_aligned(count_of(weight->rank, weight->dims) * (int64_t)dtype_bytes((int)weight->dtype));
}

int64_t state_bytes(const Model *m, bool training)
{
    int64_t bytes = 0;
    for (int i = 0; i < m->n_weights; i++) bytes += weight_bytes(&m->weights[i]);
    for (int i = 0; training && i < m->n_states; i++) bytes += weight_bytes(&m->weights[m->states[i].weight]);
    return bytes;
}

static int open_flags(Session *s, size_t n, Fault *fault)
{
    void *at = NULL;
    const int status = device_fault(device_allocate_host(s->device, n, &at), "opening the session", fault);
    s->kept = at;
    if (!status) memset(s->kept, 0, n);
    return status;
}

int session_open(Session **session, const Model *m, const SessionOptions *options, Fault *fault)
{
    Session *s = calloc(1, sizeof *s);
    *session = s;
    if (!s) return fault_memory(fault);
    s->model = m;
    s->options = *options;
    s->n_states = options->training ? m->n_states : 0;
    size_t n_dims = (size_t)m->n_dims + 1, n_weights = (size_t)m->n_weights + 1;
    s->weights = calloc(n_weights, sizeof *s->weights);
    s->states = calloc((size_t)m->n_states + 1, sizeof *s->states);
    s->hypers = calloc((size_t)m->n_hypers + 1, sizeof *s->hypers);
    s->dims = calloc(n_dims, sizeof *s->dims);
    s->late = calloc(n_dims, sizeof *s->late);
    s->arrived = calloc((size_t)m->n_inputs + 1, sizeof *s->arrived);
    s->told = calloc((size_t)m->n_guards + 1, sizeof *s->told);
    s->planner = planner_create(m->n_dims);
    if (s->planner && options->rates.copied > 0) planner_rates(s->planner, &options->rates);
    int status = s->weights && s->states && s->hypers && s->dims && s->late && s->arrived && s->told && s->planner ? 0 : fault_memory(fault);
    if (!status) {
        planner_set_row_blocks(s->planner, options->row_blocks);
        planner_set_lean(s->planner, options->lean);
        for (int i = 0; i < m->n_hypers; i++) s->hypers[i] = m->hypers[i].value;
        s->loss_scale = session_has_hyper(m, "loss_scale") ? FIRST_LOSS_SCALE : 0;
        s->state_bytes = state_bytes(m, options->training);
        status = device_fault(device_open(&s->device, options->memory_limit), "opening the device", fault);
    }
    if (!status) budget_open(s);
    if (!status) status = open_flags(s, n_weights, fault);
    if (!status && options->folder && options->variants && m->train && s->state_bytes <= COPIES_MOST) {
        const VariantOptions wanted = {.folder = options->folder, .device = device_kind(), .eager = options->variants_eager};
        s->variants = variants_create(m, &wanted);
        if (!s->variants) status = fault_memory(fault);
    }
    if (!status && options->graphs && m->train && options->training && device_has_graphs()) {
        s->graphs = graphs_create(m, s->device);
        if (!s->graphs) status = fault_memory(fault);
    }
    if (!status && m->train && options->trace_nan) {
        s->trace = trace_create(s->device);
        if (!s->trace) status = fault_memory(fault);
    }
    if (!status && m->train && options->training) {
        s->mend = mend_create(m, s->device, options->folder, s->trace);
        if (!s->mend) status = fault_memory(fault);
        if (s->mend && s->graphs) mend_unfence(s->mend);
    }
    if (status) {
        session_close(s);
        *session = NULL;
    }
    return status;
}

void session_close(Session *session)
{
    if (!session) return;
    session_drop_gradients(session);
    graphs_destroy(session->graphs);
    copies_close(session->copies);
    if (session->device) device_release(session->device, session->arena);
    if (session->device) device_release(session->device, session->state);
    if (session->kept) device_release_host(session->device, session->kept);
    device_close(session->device);
    late_destroy(session->late_plans);
    planner_destroy(session->planner);
    mend_destroy(session->mend);
    trace_destroy(session->trace);
    variants_destroy(session->variants);
    free(session->state_copies);
    free(session->told);
    free(session->weights);
    free(session->states);
    free(session->hypers);
    free(session->dims);
    free(session->late);
    free(session->at);
    free(session->arrived);
    free(session);
}

/* ---- hyperparameters ---- */
static int hyper_index(const Model *m, const char *name)
{
    for (int i = 0; i < m->n_hypers; i++)
        if (!strcmp(m->hypers[i].name, name)) return i;
    return -1;
}

bool session_has_hyper(const Model *m, const char *name)
{
    return hyper_index(m, name) >= 0;
}

void session_set_hyper(Session *session, const char *name, double value)
{
    int i = hyper_index(session->model, name);
    if (i >= 0) session->hypers[i] = value;
}

static void set_bias_correction(Session *s, const char *name, const char *beta, double step)
{
    int i = hyper_index(s->model, beta);
    if (i >= 0) session_set_hyper(s, name, 1 - pow(s->hypers[i], step));
}

static void set_derived_hypers(Session *s)
{
    double step = (double)s->updates + 1;
    session_set_hyper(s, "step", step);
    session_set_hyper(s, "loss_scale", s->loss_scale);
    session_set_hyper(s, "inverse_loss_scale", s->loss_scale ? 1 / s->loss_scale : 0);
    set_bias_correction(s, "bias_correction1", "beta1", step);
    set_bias_correction(s, "bias_correction2", "beta2", step);
    for (int i = 0; i < s->model->n_hypers; i++) { /* 1 - 0.999 in double: in float it would be off by 5e-5 */
        const char *name = s->model->hypers[i].name;
        int of = strncmp(name, "one_minus_", 10) ? -1 : hyper_index(s->model, name + 10);
        if (of >= 0) s->hypers[i] = 1 - s->hypers[of];
    }
}

/* ---- dims ---- */
void bind_dims(const Model *m, const Arrived *arrived, int64_t *dims)
{
    for (int i = 0; i < m->n_dims; i++) dims[i] = m->dims[i].late ? m->dims[i].high : m->dims[i].likely;
    Arrival arrival = {.input = arrived, .loss_is_finite = true, .update_is_finite = true};
    if (m->bind) m->bind(&arrival, dims);
}

void settle_dims(const Model *m, Arrived *scratch, int64_t *dims)
{
    memset(scratch, 0, (size_t)m->n_inputs * sizeof *scratch);
    for (int i = 0; i < m->n_inputs; i++) {
        scratch[i].rank = m->inputs[i].rank;
        m->inputs[i].shape(dims, scratch[i].dims);
    }
    Arrival arrival = {.input = scratch, .loss_is_finite = true, .update_is_finite = true};
    if (m->bind) m->bind(&arrival, dims);
}

/* ---- memory ---- */
/* Points change where buffers lie: the step gets a copy. */
int step_place(Session *s, const Program *program, Fault *fault)
{
    if (program->n_buffers > s->at_room) {
        free(s->at);
        s->at_room = 0;
        s->at = malloc((size_t)program->n_buffers * sizeof *s->at);
        if (!s->at) return fault_memory(fault);
        s->at_room = program->n_buffers;
    }
    if (program->n_buffers) memcpy(s->at, s->plan->at, (size_t)program->n_buffers * sizeof *s->at);
    return 0;
}

/* What is offloaded lies in memory of the host's own; where the host has none, the step is planned again without. */
static int prepare_copies(Session *s, const Program *program, Fault *fault)
{
    int error = DEVICE_OK;
    if (program->n_points > s->copies_points) {
        copies_close(s->copies);
        s->copies = NULL;
        s->copies_points = program->n_points;
        error = copies_open(&s->copies, s->device, program->n_points);
    }
    if (!error) error = copies_room(s->copies, s->plan->host_bytes);
    if (error != DEVICE_OUT_OF_MEMORY) return device_fault(error, "preparing copies to the host", fault);
    s->options.rates.copied = 0;
    s->change.offload_off = true;
    planner_rates(s->planner, &s->options.rates);
    return 0;
}

/* A plan for the step, its arena, and places for what it offloads. */
static int prepare(Session *s, const Program *program, Fault *fault)
{
    int status = step_plan(s, program, fault);
    if (!status && s->plan->host_bytes) status = prepare_copies(s, s->plan->program, fault);
    if (!status && s->change.offload_off) status = step_plan(s, program, fault);
    return status ? status : step_place(s, s->plan->program, fault);
}

/* ---- a step ---- */
static bool shapes_agree(const Model *m, int i, const int64_t *dims, const Arrived *arrived)
{
    int64_t wanted[MAX_RANK] = {0};
    m->inputs[i].shape(dims, wanted);
    return !memcmp(wanted, arrived->dims, (size_t)arrived->rank * sizeof *wanted);
}

/* An input that the program does not read may be absent: it takes the shape that the dims give it, so that guards on it hold. */
static void stand_in_for_absent(const Model *m, const Batch *batch, const int64_t *dims, Arrived *arrived)
{
    for (int i = 0; i < m->n_inputs; i++) {
        if (batch->inputs[i].present) continue;
        arrived[i].rank = m->inputs[i].rank;
        m->inputs[i].shape(dims, arrived[i].dims);
        arrived[i].counted = count_of(arrived[i].rank, arrived[i].dims);
    }
}

/* What no guard of the model could be asked about: inputs of another rank or dtype. */
static bool kind_breaks(Session *s, const Batch *batch, StepResult *result)
{
    const Model *m = s->model;
    Arrival arrival = {.input = s->arrived, .loss_is_finite = true, .update_is_finite = true};
    for (int i = 0; i < m->n_inputs; i++) {
        const BatchInput *input = &batch->inputs[i];
        const InputInfo *info = &m->inputs[i];
        char formula[256] = "";
        const char *what = NULL;
        if (input->present && input->dtype != (int)info->dtype) {
            what = "dtype";
            text_add(formula, sizeof formula, "%s is %s, not %s", info->name, dtype_name((int)info->dtype), dtype_name(input->dtype));
        } else if (input->present && input->rank != info->rank) {
            what = "rank";
            text_add(formula, sizeof formula, "%s has rank %d: [%s]", info->name, info->rank, info->shape_text);
        }
        if (!what) continue;
        breach_of_input(&result->breach, m, i, what, formula, s->dims, &arrival);
        return result->broke = true;
    }
    return false;
}

static bool guards_break(Session *s, const Batch *batch, StepResult *result)
{
    const Model *m = s->model;
    const Guard *range = NULL;
    Arrival arrival = {.input = s->arrived, .loss_is_finite = true, .update_is_finite = true};
    const Guard *broken = guards_first_broken(m, ON_ARRIVAL, s->dims, &arrival, s->options.plan_again ? &range : NULL);
    if (!broken) broken = guards_first_broken(m, ON_CONTENT, s->dims, &arrival, NULL);
    if (broken) breach_of_guard(&result->breach, m, broken, s->dims, &arrival);
    result->broke = broken != NULL;
    for (int i = 0; i < m->n_inputs && !result->broke; i++) {
        if (!batch->inputs[i].present || shapes_agree(m, i, s->dims, &s->arrived[i])) continue;
        char formula[256] = "";
        text_add(formula, sizeof formula, "shape of %s == [%s]", m->inputs[i].name, m->inputs[i].shape_text);
        breach_of_input(&result->breach, m, i, "shape", formula, s->dims, &arrival);
        result->broke = true;
    }
    result->planned_again = range && !result->broke;
    if (result->planned_again) breach_of_guard(&result->range, m, range, s->dims, &arrival);
    return result->broke;
}

int step_upload(Session *s, const Program *program, const Batch *batch, Fault *fault)
{
    for (int i = 0; i < program->n_inputs; i++) {
        const BatchInput *input = &batch->inputs[i];
        int buffer = program->input_buffer[i];
        if (buffer < 0) continue;
        if (!input->present) return fault_set(fault, STATUS_USER, "the batch lacks \"%s\"", s->model->inputs[i].name);
        int error = device_upload_later(s->device, s->arena + s->at[buffer], input->data, input->bytes);
        if (error) return device_fault(error, "copying the batch to the device", fault);
    }
    return 0;
}

/* What was found only as the step ran; no weight has changed. */
static void step_broke(Session *s, const Step *step, int error, StepResult *result)
{
    const Model *m = s->model;
    Arrival arrival = {.input = s->arrived, .loss_is_finite = error != STEP_NOT_FINITE, .update_is_finite = true};
    result->broke = true;
    result->not_finite = error == STEP_NOT_FINITE;
    if (result->not_finite) {
        breach_of_loss(&result->breach, m, s->late, &arrival);
        return;
    }
    if (error == STEP_NO_ROOM) {
        breach_of_room(&result->breach, m, s->arena_bytes, s->late, &arrival);
        return;
    }
    for (int i = 0; i < m->n_guards; i++)
        if (!strcmp(m->guards[i].name, step->broken)) breach_of_guard(&result->breach, m, &m->guards[i], s->late, &arrival);
}

/* Whether the step can be replayed: nothing in it is decided, watched or copied by the host, except that it reads the loss. */
static bool may_replay(const Session *s, const Program *program, MendWatch watch, const Step *step)
{
    const DeviceFaults *faults = device_faults(s->device);
    const bool watched = watch != MEND_FAILURES || step->refused || (step->watch && step->watch->every) || s->gradients || s->trace;
    const bool ordered = (faults->fail_launch || faults->garble_launch) && !faults->fail_graph;
    return s->graphs && program->n_units && !s->proving && !watched && !ordered && !step->copies && !s->plan->hopeful && !program->n_late;
}

/* Runs a step; 0 or its error. */
int step_launch(Session *s, const Program *program, int64_t number, MendWatch watch, Step *step, double *seconds)
{
    const double start = seconds_now();
    memcpy(s->late, s->dims, (size_t)s->model->n_dims * sizeof *s->dims);
    set_derived_hypers(s);
    *step = (Step){.dims = s->dims, .late = s->late, .arena = s->arena, .at = s->at, .weights = s->weights, .states = s->states};
    step->hypers = s->hypers;
    step->seed = s->options.seed;
    step->number = number;
    step->stream = device_stream(s->device);
    step->blas = device_blas(s->device);
    step->narrow = !guards_wide(s->model, program, s->dims);
    step->tf32 = !strcmp(s->model->precision, "tf32");
    step->device = s->device;
    step->gradients = s->gradients;
    step->kept = s->kept;
    step->recompute = s->plan->recompute;
    step->copies = s->plan->host_bytes ? s->copies : NULL;
    step->program = program;
    if (s->plan->hopeful) late_step(s->late_plans, step);
    step->loss = NAN; /* until the commit point */
    const bool mends = s->mend && program->n_units && watch != MEND_NOTHING;
    if (mends) mend_begin(s->mend, step, watch);
    const bool replays = may_replay(s, program, watch, step);
    if (replays) graphs_begin(s->graphs, step, budget_left(s));
    const bool trains = program->n_units > 0;
    device_share(s->device, !(trains && s->sharing.alone));
    int ended = program->run(step);
    if (replays) {
        graphs_end(s->graphs, step, ended);
        if (!ended) ended = step->error;
    }
    const bool failed = ended == step->error;
    if (mends) mend_end(s->mend, step);
    if (failed) ended = step->error;
    if (step->refused && watch != MEND_CAUSE) graphs_drop(s->graphs, "a unit of the step is mended");
    const int finished = device_finish(s->device);
    device_share(s->device, true);
    *seconds = seconds_now() - start;
    if (!ended && trains && watch == MEND_FAILURES && !s->proving) sharing_spent(&s->sharing, (double)s->plan->arena_bytes, *seconds);
    return ended ? ended : finished;
}

/* Which form of its kernels the program takes at these dims, where the device has such forms.  Told are wide indices where the step before had narrow ones, and each guard
 * of fours once: lengths that are no multiples come every few batches. */
static void choose_form(Session *s, const Program *program, StepResult *result)
{
    if (!device_has_forms()) return;
    const Model *m = s->model;
    const Guard *broken = guards_wide(m, program, s->dims), *told = broken && !s->wide ? broken : NULL;
    const Arrival arrival = {.input = s->arrived, .loss_is_finite = true, .update_is_finite = true};
    s->wide = broken != NULL;
    for (int i = 0; i < m->n_guards && !told; i++) {
        if (m->guards[i].otherwise != SINGLE_ELEMENTS || s->told[i] || m->guards[i].holds(s->dims, &arrival)) continue;
        s->told[i] = true;
        told = &m->guards[i];
    }
    result->other_form = told != NULL;
    if (told) breach_of_guard(&result->form, m, told, s->dims, &arrival);
}

static int run_program(Session *s, const Program *program, const Batch *batch, StepResult *result, Fault *fault)
{
    Step step;
    const bool hopeful = s->plan->hopeful;
    int error = 0, status = heal_run(s, program, batch, &step, &error, result, fault);
    if (status) return status;
    if (hopeful) {
        result->planned_late = late_times(s->late_plans);
        result->recomputed = late_plan(s->late_plans)->recomputed;
    }
    result->nan = s->trace && s->trace->unit >= 0;
    result->blind = s->mend && mend_blind(s->mend);
    if (error == STEP_NOT_FINITE || error == STEP_BROKEN || error == STEP_NO_ROOM) {
        step_broke(s, &step, error, result);
        return 0;
    }
    result->overflowed = error == STEP_OVERFLOW;
    if (error == DEVICE_LAUNCH_FAILED && step.kernel) {
        const char *why = s->mend ? mend_why(s->mend) : "";
        return fault_set(fault, STATUS_FAULT, "running a step: kernel %s: %s%s%s", step.kernel, device_error_text(error),
                         *why ? "; unfused.cu could not take over: " : "", why);
    }
    if (result->kept) {
        const Arrival arrival = {.input = s->arrived, .loss_is_finite = true};
        breach_of_update(&result->update, s->model, result->kept_first, result->kept, s->late, &arrival);
    }
    if (error && !result->overflowed) return fault_set(fault, STATUS_FAULT, "running a step: %s", device_error_text(error));
    result->loss = step.loss;
    return 0;
}

/* The scale of the next step; the gradients of this one are given as they are. */
static void after_scaled_step(Session *s, StepResult *result)
{
    result->scale = s->loss_scale;
    for (int i = 0; i < s->model->n_weights && s->gradients; i++) {
        const WeightInfo *w = &s->model->weights[i];
        const int64_t n = s->gradients[i] && w->dtype == F32 ? count_of(w->rank, w->dims) : 0;
        for (int64_t k = 0; k < n; k++) ((float *)s->gradients[i])[k] *= (float)(1 / s->loss_scale);
    }
    result->scaled_up = !result->overflowed && ++s->steps_at_scale == STEPS_TO_SCALE_UP;
    if (!result->overflowed && !result->scaled_up) return;
    s->loss_scale *= result->overflowed ? 0.5 : 2;
    s->steps_at_scale = 0;
}

int session_run(Session *session, const Program *program, const Batch *batch, StepResult *result, Fault *fault)
{
    Session *s = session;
    double start = seconds_now();
    memset(result, 0, sizeof *result);
    s->change = (BudgetChange){0};
    arrival_read(s->model, batch, s->arrived);
    bind_dims(s->model, s->arrived, s->dims);
    stand_in_for_absent(s->model, batch, s->dims, s->arrived);
    int status = 0;
    if (!kind_breaks(s, batch, result) && !guards_break(s, batch, result)) {
        status = prepare(s, program, fault);
        if (!status) {
            result->peak_bytes = s->state_bytes + s->plan->arena_bytes;
            result->recomputed = s->plan->recomputed;
            result->offloaded = s->plan->offloaded_bytes;
            result->program = s->plan->program->name;
            result->blocks = planner_row_blocks(s->plan->program, s->plan->dims);
            if (result->peak_bytes > s->peak_bytes) s->peak_bytes = result->peak_bytes;
            status = step_upload(s, s->plan->program, batch, fault);
        }
        if (!status) choose_form(s, s->plan->program, result);
        if (!status) status = run_program(s, s->plan->program, batch, result, fault);
        const bool trained = !status && !result->broke && program == s->model->train;
        if (trained && s->loss_scale) after_scaled_step(s, result);
        if (trained && !result->overflowed) s->updates++;
    }
    result->memory = s->change;
    result->seconds = seconds_now() - start;
    return status;
}

int64_t session_output_bytes(const Session *session, const Program *program, int output, int64_t *shape)
{
    const OutputInfo *info = &program->outputs[output];
    info->shape(session->late, shape);
    int64_t count = count_of(info->rank, shape);
    return count < 0 ? -1 : count * (int64_t)dtype_bytes((int)info->dtype);
}

int session_output(const Session *session, const Program *program, int output, void *to, size_t size, Fault *fault)
{
    int buffer = program->output_buffer[output];
    const char *from = session->arena + session->at[buffer];
    return device_fault(device_download(session->device, to, from, size), "copying an output from the device", fault);
}
