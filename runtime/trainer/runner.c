/* The runner: one batch in, the model's outputs out.  Needs: options checked.  Breaks: nothing. */
#include <stdlib.h>
#include <string.h>
#include "programs.h"

/* Outputs in host memory, shapes as the run left them. */
typedef struct {
    Entry *entries;
    char **data;
    int n;
} Results;

static void results_free(Results *r)
{
    for (int i = 0; r->data && i < r->n; i++) free(r->data[i]);
    free(r->data);
    free(r->entries);
}

static int fetch(const Session *s, const Program *program, Results *r, Fault *fault)
{
    r->n = program->n_outputs;
    r->entries = calloc((size_t)r->n + 1, sizeof *r->entries);
    r->data = calloc((size_t)r->n + 1, sizeof *r->data);
    if (!r->entries || !r->data) return fault_memory(fault);
    for (int i = 0; i < r->n; i++) {
        const OutputInfo *info = &program->outputs[i];
        Entry *entry = &r->entries[i];
        *entry = (Entry){.name = info->name, .dtype = (int)info->dtype, .rank = info->rank};
        int64_t size = session_output_bytes(s, program, i, entry->dims);
        if (size < 0) return fault_set(fault, STATUS_FAULT, "output \"%s\" has no size", info->name);
        r->data[i] = malloc((size_t)size + 1);
        if (!r->data[i]) return fault_memory(fault);
        int status = session_output(s, program, i, r->data[i], (size_t)size, fault);
        if (status) return status;
    }
    return 0;
}

static int save(const Results *r, const char *path, Fault *fault)
{
    FileWriter writer;
    int status = file_writer_open(&writer, path, fault);
    if (!status) status = safetensors_begin(&writer, r->entries, r->n, NULL, NULL, 0, fault);
    for (int i = 0; i < r->n && !status; i++) {
        const Entry *entry = &r->entries[i];
        status =
            file_writer_write(&writer, r->data[i], (size_t)count_of(entry->rank, entry->dims) * dtype_bytes(entry->dtype), fault);
    }
    if (!status) status = file_writer_commit(&writer, fault);
    file_writer_abandon(&writer);
    return status;
}

static int run_batch(Session *s, Data *data, const Options *o, Fault *fault)
{
    const Program *program = s->model->infer;
    Batch batch;
    StepResult result;
    Results results = {0};
    if (batch_create(&batch, s->model)) return fault_memory(fault);
    int status = data_batch(data, 0, &batch, fault);
    if (!status) status = session_run(s, program, &batch, &result, fault);
    if (!status && result.broke) {
        status = fault_set(fault, STATUS_ANOMALY, "%s contradicts the model: guard %s does not hold: %s\n  found: %s", o->inputs,
                           result.breach.name, result.breach.formula, result.breach.values);
        if (result.breach.source[0]) text_add(fault->text, sizeof fault->text, "\n  from: %s", result.breach.source);
    }
    if (!status) status = fetch(s, program, &results, fault);
    if (!status) status = save(&results, o->outputs, fault);
    results_free(&results);
    batch_destroy(&batch);
    return status;
}

int run_program_once(const Model *m, const Options *options, const char *folder, Fault *fault)
{
    Data data;
    Session *s = NULL;
    if (!m->infer) return fault_set(fault, STATUS_USER, "this program was generated without inference");
    DataOptions wanted = {.path = options->inputs, .whole = true};
    SessionOptions session_wanted = {.memory_limit = options->memory_limit, .seed = (uint64_t)options->seed, .plan_again = true};
    int status = check_writable("--outputs", options->outputs, fault);
    if (!status) status = data_open(&data, m, m->infer, &wanted, fault);
    if (status) return status;
    status = session_open(&s, m, &session_wanted, fault);
    if (!status) tell_precision(s);
    if (!status) status = check_budget(s, m->infer, &data, 0, 1, fault);
    if (!status) status = load_initial_weights(s, options, folder, fault);
    if (!status) status = run_batch(s, &data, options, fault);
    session_close(s);
    data_close(&data);
    return status;
}
