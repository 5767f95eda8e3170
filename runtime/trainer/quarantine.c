/* Writes batches that were set aside.  Needs: their guard.  Breaks: nothing. */
#include "quarantine.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "files.h"

enum { KEYS = 8 };

static int write_inputs(FileWriter *writer, const Batch *batch, Fault *fault)
{
    int status = 0;
    for (int i = 0; i < batch->n_inputs && !status; i++)
        if (batch->inputs[i].present) status = file_writer_write(writer, batch->inputs[i].data, batch->inputs[i].bytes, fault);
    return status;
}

static int list_inputs(const Model *m, const Batch *batch, Entry *entries, char (*names)[600])
{
    int n = 0;
    for (int i = 0; i < batch->n_inputs; i++) {
        const BatchInput *input = &batch->inputs[i];
        if (!input->present) continue;
        snprintf(names[n], sizeof names[n], "step0.%s", m->inputs[i].name);
        entries[n] = (Entry){.name = names[n], .dtype = input->dtype, .rank = input->rank};
        memcpy(entries[n++].dims, input->dims, sizeof input->dims);
    }
    return n;
}

int quarantine_write(const char *folder, const Model *m, const Batch *batch, int64_t index, const Breach *breach, Fault *fault)
{
    char path[4200], index_text[24], number_text[24];
    snprintf(path, sizeof path, "%s/batch%" PRId64 ".safetensors", folder, index);
    snprintf(index_text, sizeof index_text, "%" PRId64, index);
    snprintf(number_text, sizeof number_text, "%" PRId64, batch->number);
    const char *keys[KEYS] = {"format", "model", "index", "step", "guard", "formula", "source", "values"};
    const char *values[KEYS] = {"disc-gen batch set aside",
                                m->name,
                                index_text,
                                number_text,
                                breach->name,
                                breach->formula,
                                breach->source,
                                breach->values};
    size_t room = (size_t)batch->n_inputs + 1;
    Entry *entries = calloc(room, sizeof *entries);
    char(*names)[600] = malloc(room * sizeof *names);
    FileWriter writer = {0};
    int status = entries && names ? file_writer_open(&writer, path, fault) : fault_memory(fault);
    if (!status) {
        int n = list_inputs(m, batch, entries, names);
        status = safetensors_begin(&writer, entries, n, keys, values, KEYS, fault);
    }
    if (!status) status = write_inputs(&writer, batch, fault);
    if (!status) status = file_writer_commit(&writer, fault);
    file_writer_abandon(&writer);
    free(entries);
    free(names);
    return status;
}
