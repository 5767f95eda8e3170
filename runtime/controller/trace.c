/* Looks for NaN in what units have made.  Needs: program->units, touches.  Breaks: nothing. */
#include "trace.h"
#include <stdlib.h>
#include <string.h>
#include "../device/memory.h"
#include "../trainer/tensors.h"

static void between(Watch *watch, Step *step, int unit);

Trace *trace_create(const Model *m, const Program *program, struct Device *device, bool looks)
{
    Trace *trace = calloc(1, sizeof *trace);
    if (!trace) return NULL;
    *trace = (Trace){
        .watch = {.every = true, .between = between}, .model = m, .program = program, .device = device, .looks = looks, .unit = -1};
    trace->writes = calloc((size_t)program->n_units + 1, sizeof *trace->writes);
    trace->bytes = calloc((size_t)program->n_buffers + 1, sizeof *trace->bytes);
    if (!trace->writes || !trace->bytes) {
        trace_destroy(trace);
        return NULL;
    }
    const int *at = program->touches;
    for (int u = 0; u < program->n_units; u++) {
        while (*at++ != TOUCHES_END) continue;
        trace->writes[u] = (int)(at - program->touches);
        while (*at++ != TOUCHES_END) continue;
    }
    return trace;
}

void trace_destroy(Trace *trace)
{
    if (!trace) return;
    free(trace->writes);
    free(trace->bytes);
    free(trace->copy);
    free(trace);
}

#define HOLDS_NAN(type, sign, exponent)                                                                                            \
    do {                                                                                                                           \
        const type *x = data;                                                                                                      \
        for (size_t i = 0; i < n; i++) found |= (type)(x[i] & (type) ~(type)(sign)) > (type)(exponent);                            \
    } while (0)

static bool holds_nan(int dtype, const void *data, size_t bytes)
{
    const size_t n = bytes / dtype_bytes(dtype);
    bool found = false;
    switch (dtype) {
    case F64: HOLDS_NAN(uint64_t, UINT64_C(1) << 63, UINT64_C(0x7ff0000000000000)); break;
    case F32: HOLDS_NAN(uint32_t, 1u << 31, 0x7f800000u); break;
    case F16: HOLDS_NAN(uint16_t, 0x8000, 0x7c00); break;
    default: HOLDS_NAN(uint16_t, 0x8000, 0x7f80); break;
    }
    return found;
}

static bool tensor_holds_nan(Trace *t, int dtype, const void *at, int64_t bytes)
{
    if (dtype == RAW || !dtype_is_float(dtype) || bytes <= 0) return false;
    if ((size_t)bytes > t->room) {
        free(t->copy);
        t->copy = malloc((size_t)bytes);
        t->room = t->copy ? (size_t)bytes : 0;
    }
    if (!t->copy || device_download(t->device, t->copy, at, (size_t)bytes)) {
        t->failed = true;
        return false;
    }
    return holds_nan(dtype, t->copy, (size_t)bytes);
}

static bool weight_holds_nan(Trace *t, const Step *step, int index)
{
    const Model *m = t->model;
    const bool is_state = index >= m->n_weights;
    const WeightInfo *info = &m->weights[is_state ? m->states[index - m->n_weights].weight : index];
    const int64_t bytes = count_of(info->rank, info->dims) * (int64_t)dtype_bytes((int)info->dtype);
    if (!tensor_holds_nan(t, (int)info->dtype, is_state ? step->states[index - m->n_weights] : step->weights[index], bytes))
        return false;
    t->tensor = is_state ? m->states[index - m->n_weights].name : info->name;
    return true;
}

/* What died within the unit has been overwritten, perhaps. */
static bool buffer_holds_nan(Trace *t, const Step *step, int unit, int buffer)
{
    const Life *life = &t->program->lives[buffer];
    if (life->last < t->program->units[unit].last) return false;
    if (!tensor_holds_nan(t, life->dtype, step->arena + step->at[buffer], t->bytes[buffer])) return false;
    t->tensor = life->name;
    return true;
}

static void look(Trace *t, const Step *step, int unit)
{
    t->program->bytes(step->late, t->bytes);
    for (const int *w = t->program->touches + t->writes[unit]; *w != TOUCHES_END && t->unit < 0; w++) {
        if (!(*w < 0 ? weight_holds_nan(t, step, ~*w) : buffer_holds_nan(t, step, unit, *w))) continue;
        t->unit = unit;
        t->kernel = step->kernel;
    }
}

/* What a test ordered: the first result of the unit is none. */
static void garble(Trace *t, const Step *step, int unit)
{
    static const unsigned char garbage[16] = {0x4b, 0x4b, 0x4b, 0x4b, 0x4b, 0x4b, 0x4b, 0x4b,
                                              0x4b, 0x4b, 0x4b, 0x4b, 0x4b, 0x4b, 0x4b, 0x4b};
    const int first = t->program->touches[t->writes[unit]];
    device_faults(t->device)->garbled = 0;
    if (first == TOUCHES_END || first < 0) return;
    t->program->bytes(step->late, t->bytes);
    const int64_t bytes = t->bytes[first] < (int64_t)sizeof garbage ? t->bytes[first] : (int64_t)sizeof garbage;
    if (device_upload(t->device, step->arena + step->at[first], garbage, (size_t)bytes)) t->failed = true;
}

static void between(Watch *watch, Step *step, int unit)
{
    Trace *t = (Trace *)watch;
    if (t->running >= 0 && device_faults(t->device)->garbled) garble(t, step, t->running);
    if (t->looks && t->running >= 0 && t->unit < 0 && !step->error) look(t, step, t->running);
    t->running = unit;
}

void trace_begin(Trace *trace, Step *step)
{
    trace->running = trace->unit = -1;
    trace->failed = false;
    trace->tensor = trace->kernel = NULL;
    step->watch = &trace->watch;
}

void trace_end(Trace *trace, Step *step)
{
    between(&trace->watch, step, -1);
}

const char *trace_node(const Trace *trace)
{
    return trace->unit < 0 ? "" : trace->program->units[trace->unit].source;
}
