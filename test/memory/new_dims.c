/* What a batch of new dims costs before it runs: the processor's time to plan a step of the program that this is linked with.
 *
 *     new_dims MILLISECONDS NAME=LO..HI …      dims are drawn from there; fails where the median is above
 *
 * For budgets from the least arena to that without recomputation; prints a line each.  Needs the program's tables and the planner alone. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "planner.h"

extern const Model model;
enum { SAMPLES = 5, MOST_DIMS = 64, MOST_INPUTS = 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void draw(int n, char **ranges, int64_t *dims)
{
    Arrived arrived[MOST_INPUTS] = {0};
    for (int i = 0; i < model.n_dims; i++) {
        const size_t length = strlen(model.dims[i].name);
        dims[i] = model.dims[i].late ? model.dims[i].high : model.dims[i].likely;
        for (int k = 0; k < n; k++) {
            if (strncmp(ranges[k], model.dims[i].name, length) || ranges[k][length] != '=') continue;
            char *end;
            const int64_t low = strtoll(ranges[k] + length + 1, &end, 10), high = strtoll(end + 2, NULL, 10);
            dims[i] = low + rand() % (high - low + 1);
        }
    }
    for (int i = 0; i < model.n_inputs; i++) arrived[i].rank = model.inputs[i].rank, model.inputs[i].shape(dims, arrived[i].dims);
    model.bind(&(Arrival){.input = arrived, .loss_is_finite = true, .update_is_finite = true}, dims);
}

/* An arena between the least and the most. */
static int64_t room_at(const int64_t *dims, double share)
{
    Planner *planner = planner_create(model.n_dims);
    const Plan *plan;
    int64_t least;
    if (planner_find(planner, model.train, dims, &plan)) exit(2);
    const int64_t most = plan->arena_bytes;
    if (planner_least(planner, model.train, dims, &least)) exit(2);
    planner_destroy(planner);
    return least + (int64_t)(share * (double)(most - least));
}

int main(int n, char **arguments)
{
    static const double shares[] = {1, 0.5, 0.05};
    const double allowed = strtod(arguments[1], NULL) / 1e3;
    int64_t dims[MOST_DIMS];
    int slow = 0;
    srand(1);
    if (model.n_dims > MOST_DIMS || model.n_inputs > MOST_INPUTS) return 2;
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        Planner *planner = planner_create(model.n_dims);
        double seconds[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) {
            const Plan *plan;
            draw(n - 2, arguments + 2, dims);
            const int64_t room = room_at(dims, shares[k]);
            const double start = now();
            if (planner_find_within(planner, model.train, dims, room, &plan) || plan->arena_bytes > room) return 2;
            seconds[i] = now() - start;
        }
        planner_destroy(planner);
        qsort(seconds, SAMPLES, sizeof *seconds, by_size);
        printf("%d buffers, budget %.2f of the way: median %.2f ms, most %.2f\n", model.train->n_buffers, shares[k], 1e3 * seconds[SAMPLES / 2],
               1e3 * seconds[SAMPLES - 1]);
        slow |= seconds[SAMPLES / 2] > allowed;
    }
    return slow;
}
