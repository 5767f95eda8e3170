/* Takes over for units whose kernels fail.  Needs: fallback.  Breaks: nothing. */
#include "mend_private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../device/copies.h"
#include "../device/memory.h"

static void begins(Watch *watch, Step *step);
static void ends(Watch *watch, Step *step);

static bool add_part(Mend *m, const Program *program)
{
    if (!program) return true;
    Part *part = &m->part[m->n_parts++];
    part->program = program;
    part->refused = calloc((size_t)(program->n_units + program->n_recipes) + 1, sizeof *part->refused);
    return touched_open(&part->touched, m->model, program) && part->refused;
}

Mend *mend_create(const Model *m, struct Device *device, const char *folder, Trace *trace)
{
    Mend *mend = calloc(1, sizeof *mend);
    if (!mend) return NULL;
    *mend = (Mend){.watch = {.begins = begins, .ends = ends}, .model = m, .device = device, .trace = trace, .nan = trace_create(device)};
    bool whole = mend->nan && add_part(mend, m->train) && add_part(mend, m->train->lean);
    if (whole && folder && m->unfused) {
        mend->fallback = fallback_create(folder, device_kind());
        whole = mend->fallback != NULL;
    }
    if (whole) return mend;
    mend_destroy(mend);
    return NULL;
}

void mend_destroy(Mend *mend)
{
    if (!mend) return;
    for (int i = 0; i < mend->n_parts; i++) {
        touched_close(&mend->part[i].touched);
        free(mend->part[i].refused);
    }
    trace_destroy(mend->nan);
    fallback_destroy(mend->fallback);
    free(mend->aside);
    free(mend->before);
    free(mend->made);
    free(mend);
}

bool mend_possible(const Mend *mend)
{
    return mend->fallback != NULL;
}

/* ---- memory ---- */
static bool beside_arena(Mend *m, int64_t bytes)
{
    if (bytes <= m->memory_bytes) return true;
    void *at;
    device_finish(m->device);
    device_release(m->device, m->memory);
    m->memory = NULL;
    m->memory_bytes = 0;
    if (device_allocate(m->device, (size_t)bytes, &at)) return false;
    m->memory = at;
    m->memory_bytes = bytes;
    if (bytes > m->most_bytes) m->most_bytes = bytes;
    return true;
}

typedef struct {
    int64_t first, behind;
} Span;

static int by_first(const void *a, const void *b)
{
    const Span *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static int spans_of(const Touched *t, const Step *s, const int *list, Span *out)
{
    int n = 0;
    for (; *list != TOUCHES_END; list++) {
        const Tensor tensor = touched_tensor(t, s, *list);
        const int64_t first = tensor.at - s->arena;
        if (tensor.in_arena) out[n++] = (Span){first, (first + tensor.bytes + 255) / 256 * 256};
    }
    return n;
}

/* The largest part of the arena that the unit does not touch. */
static bool largest_gap(const Mend *m, const Part *part, const Step *s, Span *gap)
{
    const int *reads = touched_reads(&part->touched, s->unit), *writes = touched_writes(&part->touched, s->unit);
    int most = 1;
    for (const int *w = reads; w < writes || *w != TOUCHES_END; w++) most++;
    Span *spans = malloc((size_t)most * sizeof *spans);
    if (!spans) return false;
    int n = spans_of(&part->touched, s, reads, spans);
    n += spans_of(&part->touched, s, writes, spans + n);
    qsort(spans, (size_t)n, sizeof *spans, by_first);
    int64_t behind = 0;
    *gap = (Span){0, 0};
    for (int i = 0; i <= n; i++) {
        const int64_t first = i < n ? spans[i].first : m->arena_bytes;
        if (first - behind > gap->behind - gap->first) *gap = (Span){behind, first};
        if (i < n && spans[i].behind > behind) behind = spans[i].behind;
    }
    free(spans);
    return true;
}

/* Copies beside the launches must not meet what lies there meanwhile. */
static bool copies_rest(const Step *s)
{
    int error = 0;
    for (int k = 0; s->copies && s->recompute && k < s->program->n_points && !error; k++)
        if (s->recompute->acts[k] == POINT_OFFLOADS) error = copies_out_done(s->copies, k);
    return !error && !(s->copies && copies_back_done(s->copies));
}

static bool within_arena(Mend *m, Part *part, Step *s, int64_t bytes)
{
    Span gap;
    if (!largest_gap(m, part, s, &gap) || gap.behind - gap.first < bytes || !copies_rest(s)) {
        snprintf(m->why, sizeof m->why, "its operations one by one need %lld bytes beside what they read and write", (long long)bytes);
        return false;
    }
    if (bytes > m->aside_bytes) {
        free(m->aside);
        m->aside = malloc((size_t)bytes);
        m->aside_bytes = m->aside ? bytes : 0;
    }
    char *at = s->arena + gap.first;
    if (!m->aside || device_download(m->device, m->aside, at, (size_t)bytes)) {
        snprintf(m->why, sizeof m->why, "the host has no %lld bytes for a part of the arena", (long long)bytes);
        return false;
    }
    part->apart(s, s->unit, at);
    if (device_upload(m->device, at, m->aside, (size_t)bytes) && !s->error) s->error = DEVICE_COPY_FAILED;
    return true;
}

/* ---- a unit ---- */
static void run_apart(Mend *m, Part *part, Step *s)
{
    const int64_t bytes = part->apart(s, s->unit, NULL);
    bool ran = true;
    if (bytes < 0) {
        snprintf(m->why, sizeof m->why, "it is one operation, and has no other form");
        ran = false;
    } else if (beside_arena(m, bytes)) {
        part->apart(s, s->unit, m->memory ? m->memory : s->arena); /* of no bytes: any address */
    } else {
        ran = within_arena(m, part, s, bytes);
    }
    if (ran && s->error) snprintf(m->why, sizeof m->why, "its kernel %s: %s", s->kernel, device_error_text(s->error));
    if (!ran) s->error = DEVICE_LAUNCH_FAILED;
}

bool mend_make(Mend *m, Part *part, Step *s)
{
    m->why[0] = 0;
    if (!m->fallback) return false;
    if (!part->apart) part->apart = fallback_unit(m->fallback, part->program, m->why, sizeof m->why);
    if (!part->apart) return false;
    const Step as_it_was = *s;
    DeviceFaults *faults = device_faults(m->device);
    s->error = 0;
    s->watch = NULL;
    s->refused = NULL;
    s->begun = true;
    s->narrow = false; /* the program's guard is about its own kernels */
    faults->held = true;
    run_apart(m, part, s);
    faults->held = false;
    s->watch = as_it_was.watch;
    s->refused = as_it_was.refused;
    s->narrow = as_it_was.narrow;
    if (!s->error) return true;
    s->error = as_it_was.error;
    return false;
}

/* What makes some of a unit's results again must give the bits that the unit gave. */
void mend_note(Mend *m, Part *part, Step *s, const char *guard, const char *kernel, const char *detail)
{
    const Program *p = part->program;
    part->refused[s->unit] = part->refuses = true;
    for (int u = p->n_units; u < p->n_units + p->n_recipes; u++)
        if (p->units[u].of == s->unit) part->refused[u] = true;
    s->refused = part->refused;
    if (m->n_events == MENDED_MOST) return;
    Mended *e = &m->event[m->n_events++];
    *e = (Mended){.guard = guard, .program = p->name, .source = p->units[s->unit].source, .unit = s->unit};
    snprintf(e->kernel, sizeof e->kernel, "%s", kernel);
    snprintf(e->detail, sizeof e->detail, "%s", detail);
}

static Part *part_of(Mend *m, const Program *program)
{
    for (int i = 0; i < m->n_parts; i++)
        if (!strcmp(m->part[i].program->name, program->name)) return &m->part[i];
    return NULL;
}

static void begins(Watch *watch, Step *step)
{
    Mend *m = (Mend *)watch;
    if (m->wants != MEND_FAILURES) check_begins(m, part_of(m, step->program), step);
}

/* What a test ordered: the first result of the unit that others read is none. */
static void garble(Mend *m, const Part *part, Step *s)
{
    char garbage[16];
    const int last = s->unit < part->program->n_units ? part->program->units[s->unit].last : 0;
    memset(garbage, 0x4b, sizeof garbage);
    device_faults(m->device)->garbled = 0;
    for (const int *w = touched_writes(&part->touched, s->unit); *w != TOUCHES_END; w++) {
        const Tensor t = touched_tensor(&part->touched, s, *w);
        const size_t bytes = t.bytes < (int64_t)sizeof garbage ? (size_t)t.bytes : sizeof garbage;
        if (t.dtype == RAW || t.last <= last) continue;
        if (device_upload(m->device, t.at, garbage, bytes)) s->error = DEVICE_COPY_FAILED;
        return;
    }
}

static void ends(Watch *watch, Step *step)
{
    Mend *m = (Mend *)watch;
    Step *s = step;
    Part *part = part_of(m, s->program);
    const int error = s->error;
    const char *kernel = s->kernel ? s->kernel : "";
    if (error && error != STEP_REFUSED && error != DEVICE_LAUNCH_FAILED && error != DEVICE_OUT_OF_MEMORY) return;
    touched_sizes(&part->touched, s);
    if (error) {
        const bool made = mend_make(m, part, s);
        s->kernel = kernel;
        if (made && error != STEP_REFUSED) mend_note(m, part, s, "launch_status", kernel, "");
        if (!made) s->error = error == STEP_REFUSED ? DEVICE_LAUNCH_FAILED : error;
    } else {
        if (device_faults(m->device)->garbled) garble(m, part, s);
        if (m->wants != MEND_FAILURES) check_ends(m, part, s);
    }
    if (m->trace && !s->error) trace_look(m->trace, &part->touched, s);
}

/* ---- a step ---- */
void mend_begin(Mend *mend, Step *step, int64_t arena_bytes, MendWatch watch)
{
    Mend *m = mend;
    const Part *part = part_of(m, step->program);
    m->wants = m->fallback ? watch : MEND_FAILURES;
    m->watch.every = m->trace || m->wants != MEND_FAILURES || device_faults(m->device)->garble_launch;
    m->arena_bytes = arena_bytes;
    m->most_bytes = 0;
    m->saved = -1;
    m->why[0] = 0;
    step->watch = &m->watch;
    step->refused = part->refuses ? part->refused : NULL;
    step->unit = 0;
    step->ended = true; /* no unit has begun */
    if (m->trace) trace_begin(m->trace);
}

void mend_end(Mend *mend, Step *step)
{
    Mend *m = mend;
    if (step->begun && !step->ended && (m->watch.every || step->error)) ends(&m->watch, step);
    if (m->memory) device_finish(m->device);
    device_release(m->device, m->memory);
    m->memory = NULL;
    m->memory_bytes = 0;
}

bool mend_event(Mend *mend, Mended *event)
{
    if (mend->n_told == mend->n_events) {
        mend->n_told = mend->n_events = 0;
        return false;
    }
    *event = mend->event[mend->n_told++];
    return true;
}

int64_t mend_bytes(const Mend *mend)
{
    return mend->most_bytes;
}

const char *mend_why(const Mend *mend)
{
    return mend->why;
}
