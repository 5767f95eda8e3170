/* Compares what a unit's kernels made with what its operations one by one make of the same operands.
 * Needs: begins and ends of every unit.  Breaks: nothing: results that are right stand as they were made. */
#include "mend_private.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../device/memory.h"
#include "../trainer/tensors.h"

/* Of a tensor's copy: the next one begins where any element may lie. */
static int64_t room_of(const Tensor *t)
{
    return t->bytes > 0 ? (t->bytes + 15) / 16 * 16 : 0;
}

/* All that the unit writes, one behind the other in the host's memory, or from there. */
typedef enum { FROM_DEVICE, TO_DEVICE } Way;
static bool copy_writes(Mend *m, const Part *part, const Step *s, char *host, Way way)
{
    for (const int *w = touched_writes(&part->touched, s->unit); *w != TOUCHES_END; w++) {
        const Tensor t = touched_tensor(&part->touched, s, *w);
        const size_t bytes = t.bytes > 0 ? (size_t)t.bytes : 0;
        if (way == FROM_DEVICE ? device_download(m->device, host, t.at, bytes) : device_upload(m->device, t.at, host, bytes)) return false;
        host += room_of(&t);
    }
    return true;
}

static bool make_room(Mend *m, const Part *part, const Step *s)
{
    int64_t bytes = 1;
    for (const int *w = touched_writes(&part->touched, s->unit); *w != TOUCHES_END; w++) {
        const Tensor t = touched_tensor(&part->touched, s, *w);
        bytes += room_of(&t);
    }
    if (bytes <= m->writes_room) return true;
    free(m->before);
    free(m->made);
    m->before = malloc((size_t)bytes);
    m->made = malloc((size_t)bytes);
    m->writes_room = m->before && m->made ? bytes : 0;
    return m->writes_room > 0;
}

void check_begins(Mend *m, Part *part, Step *s)
{
    const bool saved = make_room(m, part, s) && copy_writes(m, part, s, m->before, FROM_DEVICE);
    m->saved = saved ? s->unit : -1;
    m->blind |= !saved;
}

/* ---- differences ---- */
/* Of the largest element.  Sums of the same terms in another order differ by their rounding, products of short numbers by theirs. */
static double tolerance(const Mend *m)
{
    const char *p = m->model->precision;
    return !strcmp(p, "fp32") || !strcmp(p, "fp64") ? 1e-3 : !strcmp(p, "tf32") ? 1e-2 : 5e-2;
}

static double largest(const void *data, int dtype, int64_t n)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = fabs(element_as_double(data, dtype, i));
        if (x > top && isfinite(x)) top = x;
    }
    return top;
}

/* The largest element that the unit reads: what is a sum of those and comes to nothing is as far from nothing as their rounding. */
static double largest_operand(Mend *m, const Part *part, const Step *s)
{
    double top = 0;
    for (const int *r = touched_reads(&part->touched, s->unit); *r != TOUCHES_END; r++) {
        const Tensor t = touched_tensor(&part->touched, s, *r);
        if (t.dtype == RAW || !dtype_is_float(t.dtype) || t.bytes <= 0) continue;
        void *copy = malloc((size_t)t.bytes);
        if (copy && !device_download(m->device, copy, t.at, (size_t)t.bytes))
            top = fmax(top, largest(copy, t.dtype, t.bytes / dtype_bytes(t.dtype)));
        free(copy);
    }
    return top;
}

/* Infinite where one is no number and the other is. */
static double difference(const void *a, const void *b, int dtype, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = element_as_double(a, dtype, i), y = element_as_double(b, dtype, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        if (!(fabs(x - y) <= most)) most = isfinite(x - y) ? fabs(x - y) : INFINITY;
    }
    return most;
}

/* Integers are equal, but for those that a comparison of rounded numbers made. */
static bool integers_differ(const void *a, const void *b, int dtype, int64_t n)
{
    enum { FEW = 1000 };
    int64_t differ = 0;
    for (int64_t i = 0; i < n; i++) differ += element_as_double(a, dtype, i) != element_as_double(b, dtype, i);
    return differ * FEW > n;
}

/* Whether a result is wrong: `made` by the kernel, `want` by the operations. */
static bool wrong(Mend *m, const Part *part, const Step *s, const char *made, const char *want, char *out, size_t size)
{
    double operands = -1;
    const int last = s->unit < part->program->n_units ? part->program->units[s->unit].last : 0;
    for (const int *w = touched_writes(&part->touched, s->unit); *w != TOUCHES_END; w++) {
        const Tensor t = touched_tensor(&part->touched, s, *w);
        const int64_t bytes = t.bytes > 0 ? t.bytes : 0, n = t.dtype == RAW || t.last <= last ? 0 : bytes / dtype_bytes(t.dtype); /* what dies within is no result */
        if (n && !dtype_is_float(t.dtype) && integers_differ(made, want, t.dtype, n)) {
            snprintf(out, size, "%s differs", t.name);
            return true;
        }
        if (n && dtype_is_float(t.dtype)) {
            const double by = difference(made, want, t.dtype, n), top = largest(want, t.dtype, n);
            const bool off = by > tolerance(m) * top;
            if (off && operands < 0) operands = largest_operand(m, part, s);
            if (off && by > tolerance(m) * 1e-3 * operands) {
                snprintf(out, size, "%s differs by %.3g, its largest element is %.3g", t.name, by, top);
                return true;
            }
        }
        made += room_of(&t);
        want += room_of(&t);
    }
    return false;
}

void check_ends(Mend *m, Part *part, Step *s)
{
    Tensor found;
    char detail[256] = "";
    const char *kernel = s->kernel;
    if (m->saved != s->unit) return;
    m->nan->failed = false;
    const bool looks = m->wants == MEND_NAN || m->wants == MEND_CAUSE, committed = m->wants == MEND_CAUSE && !isnan(s->loss);
    const bool nan = looks && trace_unit(m->nan, &part->touched, s, false, &found);
    const bool infinite = committed && !nan && trace_unit(m->nan, &part->touched, s, true, &found);
    if (looks && !nan && !infinite) {
        m->blind |= m->nan->failed;
        return;
    }
    if (!copy_writes(m, part, s, m->made, FROM_DEVICE) || !copy_writes(m, part, s, m->before, TO_DEVICE)) {
        s->error = DEVICE_COPY_FAILED;
        return;
    }
    const bool unfused = mend_make(m, part, s);
    s->kernel = kernel;
    bool right = !unfused;
    if (unfused && looks) {
        right = trace_unit(m->nan, &part->touched, s, infinite, &found);
        snprintf(detail, sizeof detail, "%s that its operations one by one do not make", infinite ? "an infinity" : "a NaN");
        m->cause = !right ? CAUSE_KERNEL : m->cause == CAUSE_KERNEL ? m->cause : CAUSE_NUMBERS;
        if (right && nan) { /* it is in the numbers: what follows from it tells nothing; an infinity may be meant (what a mask leaves out) */
            m->numbers = part->program->units[s->unit].source;
            m->wants = MEND_FAILURES;
        }
    } else if (unfused) {
        if (copy_writes(m, part, s, m->before, FROM_DEVICE)) right = !wrong(m, part, s, m->made, m->before, detail, sizeof detail);
    }
    if (!right)
        mend_note(m, part, s, looks ? "finite" : "same_as_unfused", kernel ? kernel : "", detail);
    else if (!copy_writes(m, part, s, m->made, TO_DEVICE))
        s->error = DEVICE_COPY_FAILED;
}
