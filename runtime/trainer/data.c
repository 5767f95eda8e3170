/* Opens data, checks it as a whole, and gathers batches.  Needs: file readers.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "data.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "init.h"

/* ---- the file as a whole ---- */

/* A target may be called "labels". */
static FileTensor *find_input(const Data *d, const char *prefix, const InputInfo *info)
{
    char name[600];
    snprintf(name, sizeof name, "%s%s", prefix, info->name);
    FileTensor *found = tensor_find(&d->file, name);
    if (found || !info->target) return found;
    snprintf(name, sizeof name, "%slabels", prefix);
    return tensor_find(&d->file, name);
}

static int missing_input(const Data *d, const char *prefix, const InputInfo *info, Fault *fault)
{
    char wanted[600], near_names[600];
    Near near;
    snprintf(wanted, sizeof wanted, "%s%s", prefix, info->name);
    near_start(&near, wanted);
    for (int i = 0; i < d->file.n; i++) /* of a ready batch, names of that batch */
        if (!strncmp(d->file.tensors[i].name, prefix, strlen(prefix))) near_offer(&near, d->file.tensors[i].name);
    fault_set(fault, STATUS_USER, "%s: has no \"%s\"; the model wants %s[%s]%s", d->file.path, wanted, dtype_name((int)info->dtype),
              info->shape_text, near_text(&near, near_names, sizeof near_names));
    if (!near.n && d->file.n) {
        text_add(fault->text, sizeof fault->text, "; found");
        for (int i = 0; i < d->file.n && i < 8; i++)
            text_add(fault->text, sizeof fault->text, "%s \"%s\"", i ? "," : "", d->file.tensors[i].name);
        if (d->file.n > 8) text_add(fault->text, sizeof fault->text, ", and %d more", d->file.n - 8);
    }
    return STATUS_USER;
}

static int wrong(const InputInfo *info, const FileTensor *found, const char *what, Fault *fault)
{
    char shape[256];
    return fault_set(fault, STATUS_USER, "%s: \"%s\": wrong %s: wanted %s[%s], found %s%s", found->path, found->name, what,
                     dtype_name((int)info->dtype), info->shape_text, dtype_name(found->dtype),
                     dims_text(found->rank > MAX_RANK ? MAX_RANK : found->rank, found->dims, shape, sizeof shape));
}

static int check_dtype(const InputInfo *info, FileTensor *found, Fault *fault)
{
    if (found->unusable)
        return fault_set(fault, STATUS_USER, "%s: \"%s\" cannot be used: %s", found->path, found->name, found->unusable);
    Becomes becomes = dtype_becomes(found->dtype, (int)info->dtype);
    if (becomes != BECOMES_NOT) return 0;
    wrong(info, found, "dtype", fault);
    if (dtype_is_float(found->dtype) && !dtype_is_float((int)info->dtype))
        text_add(fault->text, sizeof fault->text, " (floats never become integers)");
    else
        text_add(fault->text, sizeof fault->text, " (save it as %s)", dtype_name((int)info->dtype));
    return STATUS_USER;
}

/* Once a file: which inputs are rounded, in some batch. */
static void notice_rounding(const Data *d)
{
    const int n = d->model->n_inputs;
    char names[1000] = "";
    const char *from = NULL;
    for (int i = 0; i < n; i++) {
        const int dtype = (int)d->model->inputs[i].dtype;
        const FileTensor *rounded = NULL;
        for (int64_t k = 0; k < (d->ready ? d->n_batches : 1) && !rounded; k++) {
            const FileTensor *t = d->tensors[k * n + i];
            if (t && dtype_becomes(t->dtype, dtype) == BECOMES_ROUNDED) rounded = t;
        }
        if (!rounded) continue;
        text_add(names, sizeof names, "%s\"%s\" (%s)", from ? ", " : "", rounded->name, dtype_name(rounded->dtype));
        from = dtype_name(dtype);
    }
    if (from) fprintf(stderr, "notice: %s: %s read as %s\n", d->file.path, names, from);
}

/* An axis whose extent is the same for any dims must have it: no batch of the file could pass otherwise. */
static int check_fixed_axes(const Data *d, const InputInfo *info, const FileTensor *found, Fault *fault)
{
    enum { PROBES = 4 };
    const Model *m = d->model;
    int64_t dims[64] = {0}, extents[PROBES][MAX_RANK] = {{0}};
    if (m->n_dims > 64) return 0;
    for (int probe = 0; probe < PROBES; probe++) {
        for (int i = 0; i < m->n_dims; i++) dims[i] = 1 + probe * (60 + 2 * i);
        info->shape(dims, extents[probe]);
    }
    for (int axis = 0; axis < info->rank; axis++) {
        bool fixed = d->whole || axis != info->sample_axis;
        for (int probe = 1; probe < PROBES; probe++) fixed = fixed && extents[probe][axis] == extents[0][axis];
        if (fixed && found->dims[axis] != extents[0][axis]) return wrong(info, found, "shape", fault);
    }
    return 0;
}

/* ---- --data ---- */
static int count_samples(Data *d, Fault *fault)
{
    const Model *m = d->model;
    const FileTensor *first = NULL;
    int first_axis = 0;
    bool empty = true;
    for (int i = 0; i < m->n_inputs; i++) {
        const FileTensor *t = d->tensors[i];
        int axis = m->inputs[i].sample_axis;
        if (!t || axis < 0 || d->whole) continue;
        if (!first)
            first = t, first_axis = axis;
        else if (t->dims[axis] != first->dims[first_axis])
            return fault_set(fault, STATUS_USER,
                             "%s: \"%s\" has %" PRId64 " samples along axis %d, \"%s\" has %" PRId64 " along axis %d", d->file.path,
                             t->name, t->dims[axis], axis, first->name, first->dims[first_axis], first_axis);
        empty = empty && !t->bytes;
    }
    d->n_samples = first ? first->dims[first_axis] : 1;
    if (first && empty && d->n_samples > 0)
        return fault_set(fault, STATUS_USER, "%s: its %" PRId64 " samples hold no elements", d->file.path, d->n_samples);
    if (d->n_samples < 1) return fault_set(fault, STATUS_USER, "%s: holds no samples", d->file.path);
    return 0;
}

static int choose_batch_size(Data *d, int64_t asked, Fault *fault)
{
    const Model *m = d->model;
    const DimInfo *dim = m->batch_dim >= 0 ? &m->dims[m->batch_dim] : NULL;
    if (d->whole) {
        if (asked)
            return fault_set(fault, STATUS_USER, "--batch-size %" PRId64 ": the model has no batch dim; the file is one batch",
                             asked);
        d->batch_size = 1;
    } else if (asked)
        d->batch_size = asked;
    else if (dim && dim->likely > 0)
        d->batch_size = dim->likely;
    else
        d->batch_size = 32;
    if (dim && asked && dim->low == dim->high && asked != dim->low)
        return fault_set(fault, STATUS_USER, "--batch-size %" PRId64 ": the model's %s is fixed at %" PRId64, asked, dim->name,
                         dim->low);
    if (d->batch_size > d->n_samples) d->batch_size = d->n_samples;
    d->n_batches = (d->n_samples + d->batch_size - 1) / d->batch_size;
    return 0;
}

static int open_samples(Data *d, const DataOptions *options, Fault *fault)
{
    const Model *m = d->model;
    d->tensors = calloc((size_t)m->n_inputs + 1, sizeof *d->tensors);
    if (!d->tensors) return fault_memory(fault);
    d->whole = true;
    for (int i = 0; i < m->n_inputs; i++)
        if (m->inputs[i].sample_axis >= 0 && m->batch_dim >= 0 && !options->whole) d->whole = false;
    for (int i = 0; i < m->n_inputs; i++) {
        const InputInfo *info = &m->inputs[i];
        FileTensor *found = d->tensors[i] = find_input(d, "", info);
        int status = 0;
        if (!found && d->wanted[i]) status = missing_input(d, "", info, fault);
        if (found && !status) status = check_dtype(info, found, fault);
        if (found && !status && found->rank != info->rank) status = wrong(info, found, "rank", fault);
        if (found && !status) status = check_fixed_axes(d, info, found, fault);
        if (found && !status) status = tensor_data(&d->file, found, fault);
        if (status) return status;
    }
    notice_rounding(d);
    int status = count_samples(d, fault);
    return status ? status : choose_batch_size(d, options->batch_size, fault);
}

/* ---- --batch-file ---- */

/* The k of "step<k>.NAME", or -1. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step", 4) || name[4] < '0' || name[4] > '9') return -1;
    long long k = strtoll(name + 4, &end, 10);
    return *end == '.' && k < INT32_MAX ? k : -1;
}

static bool is_an_input(const Data *d, const char *name)
{
    const char *rest = strchr(name, '.') + 1;
    for (int i = 0; i < d->model->n_inputs; i++)
        if (!strcmp(rest, d->model->inputs[i].name) || (d->model->inputs[i].target && !strcmp(rest, "labels"))) return true;
    return false;
}

/* A rank or dtype that no batch of the file could pass. */
static int check_batches(const Data *d, Fault *fault)
{
    int n = d->model->n_inputs;
    for (int i = 0; i < n; i++) {
        const InputInfo *info = &d->model->inputs[i];
        FileTensor *found = NULL;
        bool a_rank = false, a_dtype = false;
        for (int64_t k = 0; k < d->n_batches; k++) {
            FileTensor *t = d->tensors[k * n + i];
            if (!t) continue;
            if (!found) found = t;
            a_rank = a_rank || t->rank == info->rank;
            a_dtype = a_dtype || dtype_becomes(t->dtype, (int)info->dtype) != BECOMES_NOT;
        }
        if (found && !a_dtype) return check_dtype(info, found, fault);
        if (found && !a_rank) return wrong(info, found, "rank", fault);
    }
    return 0;
}

/* More steps than names: says what the first one that is not there lacks. */
static int missing_step(const Data *d, Fault *fault)
{
    char prefix[32];
    int64_t k = 0;
    do {
        snprintf(prefix, sizeof prefix, "step%" PRId64 ".", k++);
    } while (find_input(d, prefix, &d->model->inputs[0]));
    return missing_input(d, prefix, &d->model->inputs[0], fault);
}

static int open_ready(Data *d, Fault *fault)
{
    const Model *m = d->model;
    for (int i = 0; i < d->file.n; i++) {
        int64_t k = step_of(d->file.tensors[i].name);
        if (k >= d->n_batches && is_an_input(d, d->file.tensors[i].name)) d->n_batches = k + 1;
    }
    if (!d->n_batches) d->n_batches = 1; /* the message says which names step 0 would have */
    if (d->n_batches > d->file.n) return missing_step(d, fault);
    d->tensors = calloc((size_t)d->n_batches * (size_t)m->n_inputs + 1, sizeof *d->tensors);
    if (!d->tensors) return fault_memory(fault);
    for (int64_t k = 0; k < d->n_batches; k++)
        for (int i = 0; i < m->n_inputs; i++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "step%" PRId64 ".", k);
            FileTensor *found = d->tensors[k * m->n_inputs + i] = find_input(d, prefix, &m->inputs[i]);
            int status = 0;
            if (!found && d->wanted[i]) status = missing_input(d, prefix, &m->inputs[i], fault);
            if (found && found->unusable && !status) status = check_dtype(&m->inputs[i], found, fault);
            if (status) return status;
        }
    notice_rounding(d);
    return check_batches(d, fault);
}

int data_open(Data *data, const Model *m, const Program *program, const DataOptions *options, Fault *fault)
{
    memset(data, 0, sizeof *data);
    data->model = m;
    data->ready = options->ready;
    data->shuffle = options->shuffle;
    data->seed = options->seed;
    data->order_of = -1;
    struct stat there;
    bool folder = !stat(options->path, &there) && S_ISDIR(there.st_mode);
    int status =
        folder ? onnx_folder_read(&data->file, options->path, m, fault) : tensor_file_open(&data->file, options->path, fault);
    if (status) return status;
    data->wanted = calloc((size_t)m->n_inputs + 1, sizeof *data->wanted);
    if (!data->wanted) status = fault_memory(fault);
    for (int i = 0; i < m->n_inputs && !status; i++)
        data->wanted[i] = i >= program->n_inputs || program->input_buffer[i] >= 0 || !m->inputs[i].target;
    if (!status) status = data->ready ? open_ready(data, fault) : open_samples(data, options, fault);
    if (status) data_close(data);
    return status;
}

void data_close(Data *data)
{
    tensor_file_close(&data->file);
    free(data->wanted);
    free(data->tensors);
    free(data->order);
    memset(data, 0, sizeof *data);
}

/* ---- batches ---- */

/* A uniform number below n, by Lemire's multiplication; draws again where the product would favour some. */
static uint64_t draw_below(uint64_t key, uint64_t *counter, uint64_t n)
{
    uint64_t least = (0 - n) % n;
    for (;;) {
        unsigned __int128 product = (unsigned __int128)splitmix64(key + (*counter)++) * n;
        if ((uint64_t)product >= least) return (uint64_t)(product >> 64);
    }
}

/* Fisher and Yates, with the counter-based generator keyed by seed and pass. */
static int order_for_pass(Data *d, int64_t pass, Fault *fault)
{
    if (d->order_of == pass) return 0;
    if (!d->order) d->order = malloc((size_t)d->n_samples * sizeof *d->order);
    if (!d->order) return fault_memory(fault);
    uint64_t key = splitmix64(d->seed ^ splitmix64((uint64_t)pass)), counter = 0;
    for (int64_t i = 0; i < d->n_samples; i++) d->order[i] = i;
    for (int64_t i = d->n_samples - 1; d->shuffle && i > 0; i--) {
        int64_t j = (int64_t)draw_below(key, &counter, (uint64_t)i + 1), moved = d->order[i];
        d->order[i] = d->order[j];
        d->order[j] = moved;
    }
    d->order_of = pass;
    return 0;
}

static void batch_range(const Data *d, int64_t number, int64_t *from, int64_t *count)
{
    *from = number % d->n_batches * d->batch_size;
    *count = d->n_samples - *from < d->batch_size ? d->n_samples - *from : d->batch_size;
}

/* Axis along which to cut, or -1: the tensor goes into each batch whole. */
static int cut_axis(const Data *d, int input)
{
    return d->ready || d->whole ? -1 : d->model->inputs[input].sample_axis;
}

static const FileTensor *source_of(const Data *d, int64_t number, int input)
{
    return d->tensors[d->ready ? number % d->n_batches * d->model->n_inputs + input : input];
}

void data_shapes(const Data *data, int64_t number, Arrived *arrived)
{
    int64_t from, count = 0;
    if (!data->ready) batch_range(data, number, &from, &count);
    for (int i = 0; i < data->model->n_inputs; i++) {
        const FileTensor *t = source_of(data, number, i);
        memset(&arrived[i], 0, sizeof arrived[i]);
        if (!t) continue;
        arrived[i].rank = t->rank;
        memcpy(arrived[i].dims, t->dims, sizeof t->dims);
        if (cut_axis(data, i) >= 0) arrived[i].dims[cut_axis(data, i)] = count;
    }
}

/* Copies samples order[0..count) of t, cut along axis, one after another. */
static void gather_samples(char *to, int dtype, const FileTensor *t, int axis, const int64_t *order, int64_t count)
{
    int64_t inner = count_of(t->rank - axis - 1, t->dims + axis + 1), outer = count_of(axis, t->dims), extent = t->dims[axis];
    size_t from_size = dtype_bytes(t->dtype), run = (size_t)inner * dtype_bytes(dtype);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < count; k++, to += run) {
            const char *from = (const char *)t->data + (size_t)((o * extent + order[k]) * inner) * from_size;
            tensor_convert(to, dtype, from, t->dtype, inner);
        }
}

static int fill_input(Data *d, int i, const FileTensor *t, const Arrived *shape, int64_t from, BatchInput *input, Fault *fault)
{
    int dtype = (int)d->model->inputs[i].dtype, axis = cut_axis(d, i);
    if (dtype_becomes(t->dtype, dtype) == BECOMES_NOT) dtype = t->dtype; /* of a ready batch: the guard of its dtype will not hold */
    int64_t count = count_of(shape->rank, shape->dims);
    if (batch_reserve(input, (size_t)count * dtype_bytes(dtype))) return fault_memory(fault);
    input->present = true;
    input->dtype = dtype;
    input->rank = shape->rank;
    memcpy(input->dims, shape->dims, sizeof shape->dims);
    if (axis < 0)
        tensor_convert(input->data, dtype, t->data, t->dtype, count);
    else
        gather_samples(input->data, dtype, t, axis, d->order + from, shape->dims[axis]);
    return 0;
}

int data_batch(Data *data, int64_t number, Batch *batch, Fault *fault)
{
    int n = data->model->n_inputs, status = data->ready ? 0 : order_for_pass(data, number / data->n_batches, fault);
    int64_t from = 0, count;
    Arrived *shapes = calloc((size_t)n + 1, sizeof *shapes);
    if (!status && !shapes) status = fault_memory(fault);
    if (!status) {
        data_shapes(data, number, shapes);
        if (!data->ready) batch_range(data, number, &from, &count);
    }
    batch->number = number;
    for (int i = 0; i < n && !status; i++) {
        FileTensor *t = data->tensors[data->ready ? number % data->n_batches * n + i : i];
        batch->inputs[i].present = false;
        if (t) status = tensor_data(&data->file, t, fault);
        if (t && !status) status = fill_input(data, i, t, &shapes[i], from, &batch->inputs[i], fault);
    }
    free(shapes);
    return status;
}
