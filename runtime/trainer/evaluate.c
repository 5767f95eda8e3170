/* Evaluation: loss and accuracy over the data, once, weights untouched.  Needs: options checked.  Breaks: nothing. */
#include <inttypes.h>
#include <stdio.h>
#include "json.h"
#include "programs.h"
#include "quarantine.h"

typedef struct {
    double loss, correct, counted; /* loss: sum weighted by what each batch counts */
    int64_t samples, batches, skipped;
} Sums;

/* Outputs of an evaluation: loss, correct, counted. */
static int read_scalar(const Session *s, const Program *program, int output, double *value, Fault *fault)
{
    char bytes[8];
    int64_t shape[MAX_RANK] = {0};
    int64_t size = session_output_bytes(s, program, output, shape);
    if (size < 1 || size > (int64_t)sizeof bytes)
        return fault_set(fault, STATUS_FAULT, "output \"%s\" of an evaluation is no scalar", program->outputs[output].name);
    int status = session_output(s, program, output, bytes, (size_t)size, fault);
    if (!status) *value = element_as_double(bytes, (int)program->outputs[output].dtype, 0);
    return status;
}

static int64_t samples_of(const Session *s)
{
    const Model *m = s->model;
    if (m->batch_dim >= 0) return s->dims[m->batch_dim];
    for (int i = 0; i < m->n_inputs; i++)
        if (m->inputs[i].sample_axis >= 0) return s->arrived[i].dims[m->inputs[i].sample_axis];
    return 1;
}

static int add_batch(Session *s, const Program *program, Sums *sums, Fault *fault)
{
    double values[3] = {0, 0, 1};
    int status = 0;
    for (int i = 0; i < 3 && i < program->n_outputs && !status; i++) status = read_scalar(s, program, i, &values[i], fault);
    sums->loss += values[0] * values[2];
    sums->correct += values[1];
    sums->counted += values[2];
    sums->samples += samples_of(s);
    sums->batches++;
    return status;
}

static int evaluate_batches(Session *s, Data *data, const Options *o, Sums *sums, Fault *fault)
{
    Batch batch;
    StepResult result;
    if (batch_create(&batch, s->model)) return fault_memory(fault);
    int status = 0;
    for (int64_t k = 0; k < data->n_batches && !status; k++) {
        status = data_batch(data, k, &batch, fault);
        if (!status) status = session_run(s, s->model->evaluate, &batch, &result, fault);
        if (status) break;
        tell_budget(s, "batch", k, &result);
        if (!result.broke)
            status = add_batch(s, s->model->evaluate, sums, fault);
        else if (o->on_anomaly == ANOMALY_STOP)
            status = anomaly_fault(k, &result.breach, fault);
        else {
            sums->skipped++;
            if (o->quarantine) status = quarantine_write(o->quarantine, s->model, &batch, k, &result.breach, fault);
            fprintf(stderr, "notice: batch %" PRId64 " set aside: guard %s does not hold: %s (%s)\n", k, result.breach.name,
                    result.breach.formula, result.breach.values);
        }
    }
    batch_destroy(&batch);
    if (!status && too_many_skipped(o, sums->skipped, data->n_batches, true))
        status = fault_set(fault, STATUS_ANOMALY,
                           "%" PRId64 " of %" PRId64 " batches were set aside, more than --max-skipped %g%% allows", sums->skipped,
                           data->n_batches, 100 * o->max_skipped);
    return status;
}

static void print_result(const Model *m, const Options *o, const Sums *sums)
{
    double loss = sums->loss / sums->counted, accuracy = sums->correct / sums->counted;
    printf("loss %.6f", loss);
    if (m->classifies) printf(", accuracy %.4f (%.0f of %.0f)", accuracy, sums->correct, sums->counted);
    printf(", %" PRId64 " sample%s in %" PRId64 " batch%s", sums->samples, sums->samples == 1 ? "" : "s", sums->batches,
           sums->batches == 1 ? "" : "es");
    if (sums->skipped) printf(", %" PRId64 " set aside", sums->skipped);
    putchar('\n');
    if (!o->json) return;
    fputs("{\"loss\":", stdout);
    json_real(stdout, loss);
    fputs(",\"accuracy\":", stdout);
    if (m->classifies)
        json_real(stdout, accuracy);
    else
        fputs("null", stdout);
    printf(",\"samples\":%" PRId64 ",\"batches\":%" PRId64 "}\n", sums->samples, sums->batches);
}

int evaluate_program(const Model *m, const Options *options, const char *folder, Fault *fault)
{
    const Options *o = options;
    Data data = {0};
    Session *s = NULL;
    Sums sums = {0};
    if (!m->evaluate) return fault_set(fault, STATUS_USER, "--evaluate: this program was generated without evaluation");
    DataOptions wanted = {.path = o->data ? o->data : o->batch_file,
                          .ready = o->batch_file != NULL,
                          .batch_size = o->batch_size,
                          .seed = (uint64_t)o->seed};
    SessionOptions session_wanted = {
        .memory_limit = o->memory_limit,
                             .row_blocks = o->row_blocks, .seed = (uint64_t)o->seed, .plan_again = o->on_anomaly == ANOMALY_HEAL};
    int status = data_open(&data, m, m->evaluate, &wanted, fault);
    if (status) return status;
    if (o->quarantine) status = make_folder("--quarantine", o->quarantine, fault);
    if (!status) status = session_open(&s, m, &session_wanted, fault);
    if (!status) tell_precision(s);
    if (!status) status = check_budget(s, m->evaluate, &data, 0, data.n_batches, fault);
    if (!status) status = load_initial_weights(s, o, folder, fault);
    if (!status) status = evaluate_batches(s, &data, o, &sums, fault);
    if (!status) print_result(m, o, &sums);
    session_close(s);
    data_close(&data);
    return status;
}
