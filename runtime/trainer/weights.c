/* Weights between files and the device: loaded, made by rule, saved; gradients of a step saved.
 * Needs: an open session.  Breaks: what the weights were. */
#include <stdlib.h>
#include <string.h>
#include "arrival.h"
#include "files.h"
#include "init.h"
#include "weights.h"

static int64_t weight_count(const WeightInfo *weight)
{
    return count_of(weight->rank, weight->dims);
}

static size_t weight_bytes(const WeightInfo *weight)
{
    return (size_t)weight_count(weight) * dtype_bytes((int)weight->dtype);
}

/* Weights, then states, in one allocation.  States start at 0. */
static int allocate_state(Session *s, Fault *fault)
{
    const Model *m = s->model;
    if (s->state) return 0;
    void *at;
    int error = device_allocate(s->device, (size_t)s->state_bytes, &at);
    if (error == DEVICE_OUT_OF_MEMORY) return session_no_room(s, s->state_bytes, "the model's state", fault);
    if (error) return device_fault(error, "allocating weights", fault);
    s->state = at;
    int64_t offset = 0;
    for (int i = 0; i < m->n_weights; i++) {
        s->weights[i] = s->state + offset;
        offset += planner_aligned((int64_t)weight_bytes(&m->weights[i]));
    }
    int64_t states_at = offset;
    for (int i = 0; i < s->n_states; i++) {
        s->states[i] = s->state + offset;
        offset += planner_aligned((int64_t)weight_bytes(&m->weights[m->states[i].weight]));
    }
    return device_fault(device_clear(s->device, s->state + states_at, (size_t)(offset - states_at)),
                        "clearing the optimizer's states", fault);
}

static int upload_converted(Session *s, char *to, int dtype, const FileTensor *from, Fault *fault)
{
    size_t size = dtype_bytes(dtype), from_size = dtype_bytes(from->dtype), step = WEIGHT_CHUNK / 8, n = from->bytes / from_size;
    if (from->dtype == dtype) return device_fault(device_upload(s->device, to, from->data, from->bytes), "loading weights", fault);
    char *chunk = malloc(step * 8);
    int status = chunk ? 0 : fault_memory(fault);
    for (size_t i = 0; i < n && !status; i += step) {
        size_t count = n - i < step ? n - i : step;
        tensor_convert(chunk, dtype, (const char *)from->data + i * from_size, from->dtype, (int64_t)count);
        status = device_fault(device_upload(s->device, to + i * size, chunk, count * size), "loading weights", fault);
    }
    free(chunk);
    return status;
}

static int make_by_rule(Session *s, int i, Fault *fault)
{
    const WeightInfo *weight = &s->model->weights[i];
    size_t size = dtype_bytes((int)weight->dtype), step = WEIGHT_CHUNK / 8;
    int64_t n = weight_count(weight);
    InitRule rule;
    int status = init_parse(&rule, weight->init, s->options.seed, weight->name, fault);
    double *numbers = malloc(step * sizeof *numbers);
    char *chunk = malloc(step * 8);
    if (!status && (!numbers || !chunk)) status = fault_memory(fault);
    for (int64_t at = 0; at < n && !status; at += (int64_t)step) {
        int64_t count = n - at < (int64_t)step ? n - at : (int64_t)step;
        for (int64_t k = 0; k < count; k++) numbers[k] = init_element(&rule, at + k);
        if (dtype_is_float((int)weight->dtype))
            tensor_convert(chunk, (int)weight->dtype, numbers, F64, count);
        else if (rule.kind == INIT_ZEROS)
            memset(chunk, 0, (size_t)count * size);
        else
            status = fault_set(fault, STATUS_USER, "\"%s\": \"%s\" cannot make a tensor of %s", weight->name, weight->init,
                               dtype_name((int)weight->dtype));
        if (!status)
            status = device_fault(device_upload(s->device, (char *)s->weights[i] + (size_t)at * size, chunk, (size_t)count * size),
                                  "making weights", fault);
    }
    free(numbers);
    free(chunk);
    return status;
}

int weight_from_file(Session *s, char *to, const WeightInfo *weight, TensorFile *file, FileTensor *found, Fault *fault)
{
    char wanted[256], have[256];
    if (found->rank != weight->rank || memcmp(found->dims, weight->dims, (size_t)weight->rank * sizeof *weight->dims) ||
        dtype_becomes(found->dtype, (int)weight->dtype) == BECOMES_NOT) {
        int rank = found->rank > MAX_RANK ? MAX_RANK : found->rank;
        return fault_set(fault, STATUS_USER, "%s: \"%s\": wanted %s%s, found %s%s", file->path, found->name,
                         dtype_name((int)weight->dtype), dims_text(weight->rank, weight->dims, wanted, sizeof wanted),
                         dtype_name(found->dtype), dims_text(rank, found->dims, have, sizeof have));
    }
    int status = tensor_data(file, found, fault);
    return status ? status : upload_converted(s, to, (int)weight->dtype, found, fault);
}

static int missing(const TensorFile *file, const char *name, Fault *fault)
{
    char near_names[600];
    Near near;
    near_start(&near, name);
    for (int i = 0; i < file->n; i++) near_offer(&near, file->tensors[i].name);
    return fault_set(fault, STATUS_USER, "%s: has no weight \"%s\", which the model needs%s", file->path, name,
                     near_text(&near, near_names, sizeof near_names));
}

int weights_load(Session *s, TensorFile *file, bool by_rule, Fault *fault)
{
    int status = allocate_state(s, fault);
    for (int i = 0; i < s->model->n_weights && !status; i++) {
        const WeightInfo *weight = &s->model->weights[i];
        FileTensor *found = file ? tensor_find(file, weight->name) : NULL;
        if (found)
            status = weight_from_file(s, s->weights[i], weight, file, found, fault);
        else if (weight->init && by_rule)
            status = make_by_rule(s, i, fault);
        else if (file)
            status = missing(file, weight->name, fault);
        else
            status = fault_set(fault, STATUS_USER,
                               "there is no file of weights, and \"%s\" has no rule to make it by: give --load-weights FILE",
                               weight->name);
    }
    return status;
}

int session_load_weights(Session *session, const char *path, bool by_rule, Fault *fault)
{
    TensorFile file;
    if (!path) return weights_load(session, NULL, true, fault);
    int status = tensor_file_open(&file, path, fault);
    if (status) return status;
    status = weights_load(session, &file, by_rule, fault);
    tensor_file_close(&file);
    return status;
}

/* ---- saving ---- */
int weight_write(Session *s, FileWriter *writer, const char *from, size_t bytes, char *chunk, Fault *fault)
{
    for (size_t at = 0; at < bytes; at += WEIGHT_CHUNK) {
        size_t part = bytes - at < WEIGHT_CHUNK ? bytes - at : WEIGHT_CHUNK;
        int status = device_fault(device_download(s->device, chunk, from + at, part), "copying weights from the device", fault);
        if (!status) status = file_writer_write(writer, chunk, part, fault);
        if (status) return status;
    }
    return 0;
}

static void entry_of(Entry *entry, const char *name, const WeightInfo *weight)
{
    *entry = (Entry){.name = name, .dtype = (int)weight->dtype, .rank = weight->rank};
    memcpy(entry->dims, weight->dims, sizeof weight->dims);
}

int state_save(Session *s, const char *path, bool states_too, const char *const *keys, const char *const *values, int n_metadata,
               Fault *fault)
{
    const Model *m = s->model;
    int n_states = states_too ? s->n_states : 0, n = m->n_weights + n_states;
    Entry *entries = malloc(((size_t)n + 1) * sizeof *entries);
    char *chunk = malloc(WEIGHT_CHUNK);
    FileWriter writer = {0};
    int status = entries && chunk ? file_writer_open(&writer, path, fault) : fault_memory(fault);
    if (!status) {
        for (int i = 0; i < m->n_weights; i++) entry_of(&entries[i], m->weights[i].name, &m->weights[i]);
        for (int i = 0; i < n_states; i++)
            entry_of(&entries[m->n_weights + i], m->states[i].name, &m->weights[m->states[i].weight]);
        status = safetensors_begin(&writer, entries, n, keys, values, n_metadata, fault);
    }
    for (int i = 0; i < m->n_weights && !status; i++)
        status = weight_write(s, &writer, s->weights[i], weight_bytes(&m->weights[i]), chunk, fault);
    for (int i = 0; i < n_states && !status; i++)
        status = weight_write(s, &writer, s->states[i], weight_bytes(&m->weights[m->states[i].weight]), chunk, fault);
    if (!status) status = file_writer_commit(&writer, fault);
    file_writer_abandon(&writer);
    free(entries);
    free(chunk);
    return status;
}

int session_save_weights(Session *session, const char *path, Fault *fault)
{
    return state_save(session, path, false, NULL, NULL, 0, fault);
}

/* ---- gradients ---- */
int session_want_gradients(Session *session, Fault *fault)
{
    const Model *m = session->model;
    session_drop_gradients(session);
    session->gradients = calloc((size_t)m->n_weights + 1, sizeof *session->gradients);
    if (!session->gradients) return fault_memory(fault);
    for (int i = 0; i < m->n_weights; i++) {
        if (!m->weights[i].trainable) continue;
        session->gradients[i] = calloc(1, weight_bytes(&m->weights[i]) + 1);
        if (!session->gradients[i]) return fault_memory(fault);
    }
    return 0;
}

void session_drop_gradients(Session *session)
{
    for (int i = 0; session->gradients && i < session->model->n_weights; i++) free(session->gradients[i]);
    free(session->gradients);
    session->gradients = NULL;
}

int session_save_gradients(Session *session, const char *path, Fault *fault)
{
    const Model *m = session->model;
    Entry *entries = malloc(((size_t)m->n_weights + 1) * sizeof *entries);
    FileWriter writer = {0};
    int n = 0, status = entries ? file_writer_open(&writer, path, fault) : fault_memory(fault);
    for (int i = 0; i < m->n_weights && !status; i++)
        if (session->gradients[i]) entry_of(&entries[n++], m->weights[i].name, &m->weights[i]);
    if (!status) status = safetensors_begin(&writer, entries, n, NULL, NULL, 0, fault);
    for (int i = 0; i < m->n_weights && !status; i++)
        if (session->gradients[i]) status = file_writer_write(&writer, session->gradients[i], weight_bytes(&m->weights[i]), fault);
    if (!status) status = file_writer_commit(&writer, fault);
    file_writer_abandon(&writer);
    free(entries);
    return status;
}

int session_weights_finite(Session *session, int *weight, Fault *fault)
{
    const Model *m = session->model;
    char *chunk = malloc(WEIGHT_CHUNK);
    int status = chunk ? 0 : fault_memory(fault);
    *weight = -1;
    for (int i = 0; i < m->n_weights && !status && *weight < 0; i++) {
        const WeightInfo *info = &m->weights[i];
        const char *from = session->weights[i];
        size_t left = weight_bytes(info);
        if (!(info->trainable || info->statistics) || !dtype_is_float((int)info->dtype)) continue;
        for (size_t part; left && !status && *weight < 0; left -= part, from += part) {
            part = left < WEIGHT_CHUNK ? left : WEIGHT_CHUNK;
            status = device_fault(device_download(session->device, chunk, from, part), "copying weights from the device", fault);
            if (!status && !floats_finite((int)info->dtype, chunk, (int64_t)(part / dtype_bytes((int)info->dtype)))) *weight = i;
        }
    }
    free(chunk);
    return status;
}
