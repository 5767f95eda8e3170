/* Looks for NaN in what units have made.  Breaks: nothing. */
#include "trace.h"
#include <stdlib.h>
#include "../device/memory.h"
#include "../trainer/tensors.h"

Trace *trace_create(struct Device *device)
{
    Trace *trace = calloc(1, sizeof *trace);
    if (trace) *trace = (Trace){.device = device, .unit = -1};
    return trace;
}

void trace_destroy(Trace *trace)
{
    if (!trace) return;
    free(trace->copy);
    free(trace);
}

#define HOLDS_NAN(type, sign, exponent)                                                                                            \
    do {                                                                                                                           \
        const type *x = data;                                                                                                      \
        const type least = (type)((exponent) + (infinite ? 0 : 1));                                                                \
        for (size_t i = 0; i < n; i++) found |= (type)(x[i] & (type) ~(type)(sign)) >= least;                                      \
    } while (0)

/* infinite: or an infinity. */
static bool holds_nan(int dtype, const void *data, size_t bytes, bool infinite)
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

static bool tensor_holds_nan(Trace *t, const Tensor *tensor, bool infinite)
{
    const size_t bytes = (size_t)tensor->bytes;
    if (tensor->dtype == RAW || !dtype_is_float(tensor->dtype) || tensor->bytes <= 0) return false;
    if (bytes > t->room) {
        free(t->copy);
        t->copy = malloc(bytes);
        t->room = t->copy ? bytes : 0;
    }
    if (!t->copy || device_download(t->device, t->copy, tensor->at, bytes)) {
        t->failed = true;
        return false;
    }
    return holds_nan(tensor->dtype, t->copy, bytes, infinite);
}

/* What dies within the unit has been overwritten, perhaps, or was never made where its operations run one by one. */
bool trace_unit(Trace *trace, const Touched *touched, const Step *step, bool infinite, Tensor *found)
{
    const bool of_step = step->unit < touched->program->n_units;
    const int last = of_step ? touched->program->units[step->unit].last : 0;
    for (const int *w = touched_writes(touched, step->unit); *w != TOUCHES_END; w++) {
        *found = touched_tensor(touched, step, *w);
        if (found->last > last && tensor_holds_nan(trace, found, infinite)) return true;
    }
    return false;
}

void trace_begin(Trace *trace)
{
    trace->unit = -1;
    trace->failed = false;
    trace->tensor = trace->kernel = NULL;
    trace->source = "";
}

void trace_look(Trace *trace, const Touched *touched, const Step *step)
{
    Tensor found;
    if (trace->unit >= 0 || !trace_unit(trace, touched, step, false, &found)) return;
    trace->unit = step->unit;
    trace->tensor = found.name;
    trace->kernel = step->kernel;
    trace->source = touched->program->units[step->unit].source;
}
