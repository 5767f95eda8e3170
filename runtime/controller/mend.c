/* Takes over for units whose kernels fail.  Needs: fallback.  Breaks: nothing. */
#include "mend_private.h"
#include "fence.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../device/memory.h"
#include "../trainer/tensors.h"

static void begins(Watch *watch, Step *step);
static void ends(Watch *watch, Step *step);

static size_t count_refused(const Program *program)
{
    return (size_t)(program->n_units + program->n_recipes) + 1;
}

static bool add_part(Mend *m, const Program *program)
{
    if (!program) return true;
    Part *part = &m->part[m->n_parts++];
    part->program = program;
    part->refused = calloc(count_refused(program), sizeof *part->refused);
    part->held = calloc(count_refused(program), sizeof *part->held);
    return touched_open(&part->touched, m->model, program) && part->refused && part->held;
}

Mend *mend_create(const Model *m, struct Device *device, const char *folder, Trace *trace)
{
    Mend *mend = calloc(1, sizeof *mend);
    if (!mend) return NULL;
    *mend = (Mend){.watch = {.begins = begins, .ends = ends}, .model = m, .device = device, .trace = trace, .nan = trace_create(device), .fenced = fence_possible()};
    bool whole = mend->nan && add_part(mend, m->train) && add_part(mend, m->train->lean);
    if (whole) mend->variant.refused = calloc(count_refused(m->train), sizeof *mend->variant.refused);
    whole = whole && mend->variant.refused;
    if (whole && folder && m->unfused) {
        mend->fallback = fallback_create(folder, device_kind());
        whole = mend->fallback != NULL;
    }
    if (whole) return mend;
    mend_destroy(mend);
    return NULL;
}

void mend_unfence(Mend *mend)
{
    mend->fenced = false;
}

void mend_destroy(Mend *mend)
{
    if (!mend) return;
    for (int i = 0; i < mend->n_parts; i++) {
        touched_close(&mend->part[i].touched);
        free(mend->part[i].refused);
        free(mend->part[i].held);
    }
    free(mend->variant.refused);
    trace_destroy(mend->nan);
    fallback_destroy(mend->fallback);
    free(mend->before);
    free(mend->made);
    free(mend);
}

bool mend_possible(const Mend *mend)
{
    return mend->fallback != NULL;
}

/* ---- memory ---- */
static void release(Mend *m)
{
    if (m->memory || m->host) device_finish(m->device);
    device_release(m->device, m->memory);
    device_release_host(m->device, m->host);
    m->memory = m->host = NULL;
    m->room = 0;
}

/* Room for what operations hand each other: on the device, or where that has none, in memory of the host that it can reach. */
static bool make_room(Mend *m, int64_t bytes)
{
    void *at;
    if (bytes <= m->room) return true;
    release(m);
    if (!device_allocate(m->device, (size_t)bytes, &at)) {
        m->memory = at;
        if (bytes > m->most_bytes) m->most_bytes = bytes;
    } else if (!device_allocate_host(m->device, (size_t)bytes, &at)) {
        m->host = at;
    } else {
        snprintf(m->why, sizeof m->why, "there is no memory for %lld bytes that its operations hand each other", (long long)bytes);
        return false;
    }
    m->room = bytes;
    return true;
}

/* ---- a unit ---- */
static void run_apart(Mend *m, Part *part, Step *s)
{
    const int64_t bytes = part->apart(s, s->unit, NULL);
    bool ran = bytes >= 0;
    if (!ran) snprintf(m->why, sizeof m->why, "it is one operation, and has no other form");
    if (ran && make_room(m, bytes))
        part->apart(s, s->unit, m->memory ? m->memory : m->host ? m->host : s->arena); /* of no bytes: any address */
    else
        ran = false;
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
    fence_raise(&part->touched, s);
    run_apart(m, part, s);
    fence_drop(&part->touched, s);
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
    part->refused[s->unit] = part->held[s->unit] = part->refuses = true;
    for (int u = p->n_units; u < p->n_units + p->n_recipes; u++)
        if (p->units[u].of == s->unit) part->refused[u] = part->held[u] = true;
    s->refused = m->holds ? part->held : part->refused;
    if (part == &m->variant) {
        m->variant_failed = true;
        return;
    }
    if (m->n_events == MENDED_MOST) return;
    Mended *e = &m->event[m->n_events++];
    *e = (Mended){.guard = guard, .program = p->name, .source = p->units[s->unit].source, .unit = s->unit};
    snprintf(e->kernel, sizeof e->kernel, "%s", kernel);
    snprintf(e->detail, sizeof e->detail, "%s", detail);
}

static Part *part_of(Mend *m, const Program *program)
{
    for (int i = 0; i < m->n_parts; i++)
        if (m->part[i].program == program) return &m->part[i];
    return &m->variant;
}

/* A variant has the units of the training step, and what is refused there. */
static Part *part_begins(Mend *m, const Program *program)
{
    Part *part = part_of(m, program);
    m->variant_failed = false;
    if (part != &m->variant) return part;
    uint8_t *refused = part->refused;
    memcpy(refused, m->part[0].refused, count_refused(program) * sizeof *refused);
    *part = m->part[0];
    part->refused = refused;
    return part;
}

static void begins(Watch *watch, Step *step)
{
    Mend *m = (Mend *)watch;
    Part *part = part_of(m, step->program);
    touched_sizes(&part->touched, step);
    if (m->wants != MEND_FAILURES) check_begins(m, part, step);
    fence_raise(&part->touched, step);
}

/* What a test ordered: the first result of the unit that others read is none. */
static void garble(Mend *m, const Part *part, Step *s)
{
    char garbage[16];
    const int last = s->unit < part->program->n_units ? part->program->units[s->unit].last : 0;
    memset(garbage, device_faults(m->device)->poison ? 0xff : 0x4b, sizeof garbage);
    device_faults(m->device)->garbled = 0;
    for (const int *w = touched_writes(&part->touched, s->unit); *w != TOUCHES_END; w++) {
        const Tensor t = touched_tensor(&part->touched, s, *w);
        const size_t bytes = t.bytes < (int64_t)sizeof garbage ? (size_t)t.bytes : sizeof garbage;
        if (t.dtype == RAW || t.last <= last || (device_faults(m->device)->poison && !dtype_is_float(t.dtype))) continue;
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
    fence_drop(&part->touched, s);
    if (error == STEP_REFUSED && m->holds && part->held[s->unit] == HELD) {
        s->error = 0;
        return;
    }
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
    if (m->trace && !m->holds && !s->error) trace_look(m->trace, &part->touched, s);
    if (m->trace && m->trace->failed) m->blind = true;
}

/* ---- a step ---- */
/* Units that change a weight or a state. */
static void hold_updates(Part *part)
{
    const Program *p = part->program;
    memcpy(part->held, part->refused, count_refused(p) * sizeof *part->held);
    for (int u = 0; u < p->n_units; u++)
        for (const int *w = touched_writes(&part->touched, u); *w != TOUCHES_END; w++)
            if (*w < 0) part->held[u] = HELD;
}

void mend_begin(Mend *mend, Step *step, MendWatch watch)
{
    Mend *m = mend;
    Part *part = part_begins(m, step->program);
    m->wants = m->fallback ? watch : MEND_FAILURES;
    m->holds = m->wants == MEND_CAUSE;
    m->cause = CAUSE_NONE;
    m->numbers = NULL;
    if (m->holds) hold_updates(part);
    m->watch.every = m->trace || m->wants != MEND_FAILURES || device_faults(m->device)->garble_launch || m->fenced;
    m->most_bytes = 0;
    m->saved = -1;
    m->blind = false;
    m->why[0] = 0;
    step->watch = &m->watch;
    step->refused = m->holds ? part->held : part->refuses ? part->refused : NULL;
    step->unit = 0;
    step->ended = true; /* no unit has begun */
    if (m->trace && !m->holds) trace_begin(m->trace);
}

void mend_end(Mend *mend, Step *step)
{
    Mend *m = mend;
    if (step->begun && !step->ended && (m->watch.every || step->error)) ends(&m->watch, step);
    release(m);
}

MendCause mend_cause(const Mend *mend, const char **node)
{
    *node = mend->numbers;
    return mend->cause;
}

bool mend_variant_failed(const Mend *mend)
{
    return mend->variant_failed;
}

bool mend_blind(const Mend *mend)
{
    return mend->blind;
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
