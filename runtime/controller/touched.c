/* Lists of what units touch.  Breaks: nothing. */
#include "touched.h"
#include <stdlib.h>
#include "../trainer/tensors.h"

bool touched_open(Touched *touched, const Model *m, const Program *program)
{
    const int n = program->n_units + program->n_recipes;
    *touched = (Touched){.model = m, .program = program};
    touched->first = calloc((size_t)n + 1, sizeof *touched->first);
    touched->bytes = calloc((size_t)program->n_buffers + 1, sizeof *touched->bytes);
    if (!touched->first || !touched->bytes) return false;
    const int *at = program->touches;
    for (int u = 0; u < n; u++) {
        touched->first[u] = (int)(at - program->touches);
        for (int list = 0; list < 2; list++)
            while (*at++ != TOUCHES_END) continue;
    }
    return true;
}

void touched_close(Touched *touched)
{
    free(touched->first);
    free(touched->bytes);
}

void touched_sizes(Touched *touched, const Step *step)
{
    touched->program->bytes(step->late, touched->bytes);
}

const int *touched_reads(const Touched *touched, int unit)
{
    return touched->program->touches + touched->first[unit];
}

const int *touched_writes(const Touched *touched, int unit)
{
    const int *at = touched_reads(touched, unit);
    while (*at++ != TOUCHES_END) continue;
    return at;
}

Tensor touched_tensor(const Touched *touched, const Step *step, int touch)
{
    const Model *m = touched->model;
    if (touch >= 0) {
        const Life *life = &touched->program->lives[touch];
        return (Tensor){step->arena + step->at[touch], touched->bytes[touch], life->dtype, life->last, life->name};
    }
    const int index = ~touch;
    const bool is_state = index >= m->n_weights;
    const WeightInfo *info = &m->weights[is_state ? m->states[index - m->n_weights].weight : index];
    void *at = is_state ? step->states[index - m->n_weights] : step->weights[index];
    return (Tensor){at, count_of(info->rank, info->dims) * (int64_t)dtype_bytes((int)info->dtype), (int)info->dtype, INT32_MAX,
                    is_state ? m->states[index - m->n_weights].name : info->name};
}
