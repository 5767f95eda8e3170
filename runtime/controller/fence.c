/* See fence.h.  Breaks: nothing. */
#include "fence.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <string.h>

enum { ALIGNMENT = 256 }; /* of buffers, weights and states: what lies behind the last element belongs to nobody */
typedef void Mark(void const volatile *at, size_t bytes);

static void mark(Mark *as, const Tensor *t)
{
    if (t->bytes > 0) as(t->at, (size_t)t->bytes);
}

static void mark_list(Mark *as, const Touched *touched, const Step *s, const int *list)
{
    for (; *list != TOUCHES_END; list++) {
        const Tensor t = touched_tensor(touched, s, *list);
        mark(as, &t);
    }
}

static void mark_all(Mark *as, const Touched *touched, const Step *s)
{
    for (int b = 0; b < touched->program->n_buffers; b++) {
        Tensor t = touched_tensor(touched, s, b);
        t.bytes = (t.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        mark(as, &t);
    }
    for (int i = 0; i < touched->model->n_weights + touched->model->n_states; i++) {
        const Tensor t = touched_tensor(touched, s, ~i);
        mark(as, &t);
    }
}

/* A buffer that begins with the unit holds what is no number until the unit has made it whole; one that lies where the unit reads is
 * left as it is. */
static void spoil(const Touched *touched, const Step *s)
{
    const Program *p = touched->program;
    for (const int *w = touched_writes(touched, s->unit); *w != TOUCHES_END && s->unit < p->n_units; w++) {
        const Tensor made = touched_tensor(touched, s, *w);
        bool held = *w < 0 || made.bytes <= 0 || p->lives[*w].first < p->units[s->unit].first;
        for (const int *r = touched_reads(touched, s->unit); *r != TOUCHES_END && !held; r++) {
            const Tensor t = touched_tensor(touched, s, *r);
            held = t.at < made.at + made.bytes && made.at < t.at + t.bytes;
        }
        if (!held) memset(made.at, 0xff, (size_t)made.bytes);
    }
}

bool fence_possible(void)
{
    return true;
}

void fence_raise(const Touched *touched, const Step *step)
{
    if (step->copies) return;
    spoil(touched, step);
    mark_all(__asan_poison_memory_region, touched, step);
    mark_list(__asan_unpoison_memory_region, touched, step, touched_reads(touched, step->unit));
    mark_list(__asan_unpoison_memory_region, touched, step, touched_writes(touched, step->unit));
}

void fence_drop(const Touched *touched, const Step *step)
{
    if (!step->copies) mark_all(__asan_unpoison_memory_region, touched, step);
}
#else
bool fence_possible(void)
{
    return false;
}

void fence_raise(const Touched *touched, const Step *step)
{
    (void)touched, (void)step;
}

void fence_drop(const Touched *touched, const Step *step)
{
    (void)touched, (void)step;
}
#endif
