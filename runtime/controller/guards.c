/* Guards: which broke, and the message.  Needs: an arrival with dims bound.  Breaks: nothing. */
#include "guards.h"
#include "planner.h"
#include <stdio.h>
#include <string.h>
#include "../trainer/fault.h"
#include "../trainer/tensors.h"

const Guard *guards_first_broken(const Model *m, Moment moment, const int64_t *dims, const Arrival *arrival, const Guard **range)
{
    if (range) *range = NULL;
    for (int i = 0; i < m->n_guards; i++) {
        const Guard *guard = &m->guards[i];
        if (guard->moment != moment || guard->otherwise >= WIDE_INDICES || guard->holds(dims, arrival)) continue;
        if (!range || guard->otherwise != PLAN_AGAIN) return guard;
        if (!*range) *range = guard;
    }
    return NULL;
}

const Guard *guards_wide(const Model *m, const Program *program, const int64_t *dims)
{
    for (int i = 0; i < m->n_guards; i++)
        if (program->narrow && m->guards[i].holds == program->narrow) return m->guards[i].holds(dims, NULL) ? NULL : &m->guards[i];
    return NULL;
}

/* "x float32[2, 7], ids int64[2, 7] lowest 0 highest 31, batch = 2, seq = 7" */
static void describe_values(Breach *breach, const Model *m, const int64_t *dims, const Arrival *arrival)
{
    char shape[256], *out = breach->values;
    size_t size = sizeof breach->values;
    out[0] = 0;
    for (int i = 0; i < m->n_inputs; i++) {
        const Arrived *input = &arrival->input[i];
        dims_text(input->rank, input->dims, shape, sizeof shape);
        text_add(out, size, "%s%s %s%s", i ? ", " : "", m->inputs[i].name, dtype_name((int)m->inputs[i].dtype), shape);
        if (dtype_is_float((int)m->inputs[i].dtype)) {
            if (input->not_finite) text_add(out, size, " with a NaN or infinity");
        } else if (input->counted > 0)
            text_add(out, size, " lowest %lld highest %lld", (long long)input->lowest, (long long)input->highest);
        else
            text_add(out, size, " nothing counted");
    }
    for (int i = 0; i < m->n_dims; i++)
        if (!planner_chooses(m, i)) text_add(out, size, "%s%s = %lld", i || m->n_inputs ? ", " : "", m->dims[i].name, (long long)dims[i]);
}

static void set_texts(Breach *breach, const char *name, const char *formula, const char *source, const char *relies,
                      Otherwise otherwise)
{
    snprintf(breach->name, sizeof breach->name, "%s", name);
    snprintf(breach->formula, sizeof breach->formula, "%s", formula ? formula : "");
    snprintf(breach->source, sizeof breach->source, "%s", source ? source : "");
    snprintf(breach->relies, sizeof breach->relies, "%s", relies ? relies : "");
    breach->otherwise = otherwise;
}

void breach_of_guard(Breach *breach, const Model *m, const Guard *guard, const int64_t *dims, const Arrival *arrival)
{
    set_texts(breach, guard->name, guard->formula, guard->source, guard->relies, guard->otherwise);
    describe_values(breach, m, dims, arrival);
}

void breach_of_input(Breach *breach, const Model *m, int input, const char *what, const char *formula, const int64_t *dims,
                     const Arrival *arrival)
{
    char name[128];
    snprintf(name, sizeof name, "%.100s_%s", m->inputs[input].name, what);
    set_texts(breach, name, formula, m->inputs[input].name, "every kernel that reads it", SET_ASIDE);
    describe_values(breach, m, dims, arrival);
}

void breach_of_loss(Breach *breach, const Model *m, const int64_t *dims, const Arrival *arrival)
{
    for (int i = 0; i < m->n_guards; i++)
        if (m->guards[i].moment == AT_COMMIT) {
            breach_of_guard(breach, m, &m->guards[i], dims, arrival);
            return;
        }
    set_texts(breach, "finite_loss", "the loss is finite", m->loss, "every update", SET_ASIDE);
    describe_values(breach, m, dims, arrival);
}

void breach_of_update(Breach *breach, const Model *m, int weight, int weights, const int64_t *dims, const Arrival *arrival)
{
    char formula[512];
    snprintf(formula, sizeof formula, "what each element of \"%.300s\" and of its moments becomes is finite", m->weights[weight].name);
    if (weights > 1) text_add(formula, sizeof formula, "; so of %d more weight%s", weights - 1, weights > 2 ? "s" : "");
    set_texts(breach, "finite_update", formula, m->weights[weight].name, "every step that follows", KEEP_ELEMENTS);
    describe_values(breach, m, dims, arrival);
}

void breach_of_room(Breach *breach, const Model *m, int64_t arena_bytes, const int64_t *dims, const Arrival *arrival)
{
    char formula[128];
    snprintf(formula, sizeof formula, "the rest of the step fits in an arena of %lld bytes", (long long)arena_bytes);
    set_texts(breach, "late_dims_fit", formula, "", "what follows the late dims", SET_ASIDE);
    describe_values(breach, m, dims, arrival);
}
