/* Dims drawn at random for a program that a test is linked with. */
#ifndef RANDOM_DIMS_H
#define RANDOM_DIMS_H
#include "runtime/controller/planner.h"
#include "runtime/trainer/session.h"
#include <math.h>
#include <stdlib.h>

enum { MOST_DIMS = 64 };

static uint64_t random_bits(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* 0 to n - 1 */
static inline int64_t random_below(uint64_t *state, int64_t n)
{
    return (int64_t)(random_bits(state) % (uint64_t)n);
}

/* low to high, small ones as likely as large ones */
static int64_t random_size(uint64_t *state, int64_t low, int64_t high)
{
    const double share = (double)(random_bits(state) >> 11) * 0x1p-53;
    const int64_t n = (int64_t)((double)low * pow((double)high / (double)low, share) + 0.5);
    return n < low ? low : n > high ? high : n;
}

/* Whether something is empty at these dims that is not at the likely ones: a pool's window that fits nowhere. */
static bool some_empty(const Model *m, const int64_t *dims)
{
    const Program *p = m->train;
    int64_t *bytes = (int64_t *)malloc(2 * (size_t)p->n_buffers * sizeof *bytes), *usual = bytes + p->n_buffers, likely[MOST_DIMS];
    Arrived scratch[16];
    bool empty = false;
    for (int i = 0; i < m->n_dims; i++) likely[i] = m->dims[i].late ? m->dims[i].high : m->dims[i].likely;
    settle_dims(m, scratch, likely);
    p->bytes(likely, usual);
    p->bytes(dims, bytes);
    for (int i = 0; i < p->n_buffers; i++) empty |= bytes[i] == 0 && usual[i] > 0;
    free(bytes);
    return empty;
}

/* A step of the model at dims in their ranges, each at most `most`, that takes so many operations. */
static void random_dims(const Model *m, uint64_t *state, int64_t most, int64_t least_flops, int64_t most_flops, int64_t *dims)
{
    Arrived scratch[16];
    int64_t moved, least, flops = 0;
    do {
        for (int i = 0; i < m->n_dims; i++) {
            const DimInfo *d = &m->dims[i];
            const int64_t low = d->low > 1 ? d->low : 1, high = d->high < low ? low : d->high < most ? d->high : most;
            dims[i] = d->late ? d->high : planner_chooses(m, i) ? d->likely : random_size(state, low, high > low ? high : low);
        }
        settle_dims(m, scratch, dims);
        m->train->traffic(dims, &moved, &least, &flops);
    } while (flops < least_flops || flops > most_flops || some_empty(m, dims));
}
#endif
