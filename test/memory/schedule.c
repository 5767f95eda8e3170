/* schedule N SEED: dims drawn at random, and beside them the peak of a training step within which nothing runs again: a line each.  Linked
 * with the tables of a generated program; the same lines of dims for any order of its kernels. */
#include "random_dims.h"
#include "runtime/controller/realise.h"
#include "model.h"
#include <stdio.h>

static const int64_t MOST_DIM = 4096, LEAST_FLOPS = 0, MOST_FLOPS = (int64_t)1e14;

/* Bytes as the planner has them. */
static void sizes_of(const Program *p, const int64_t *dims, int64_t *bytes)
{
    p->bytes(dims, bytes);
    for (int i = 0; i < p->n_buffers; i++) bytes[i] = planner_aligned(bytes[i]);
}

int main(int n, char **arguments)
{
    const Program *p = model.train;
    Flow *flow = flow_create(p);
    if (n != 3 || model.n_dims > MOST_DIMS || !flow) return 2;
    uint64_t random = (uint64_t)atoll(arguments[2]);
    int64_t dims[MOST_DIMS], *bytes = calloc((size_t)p->n_buffers + 1, sizeof *bytes);
    uint8_t *keep = calloc((size_t)flow->n_gaps + 1, 1);
    for (int i = 0; i < atoi(arguments[1]); i++) {
        Sizes sizes;
        random_dims(&model, &random, MOST_DIM, LEAST_FLOPS, MOST_FLOPS, dims);
        sizes_of(p, dims, bytes);
        if (!sizes_at_dims(&sizes, flow, &NOMINAL_RATES, dims, bytes)) return 1;
        Simulation *s = simulation_create(flow, &sizes);
        printf("%lld", (long long)realise_live_peak(s, keep));
        for (int k = 0; k < model.n_dims; k++)
            if (!model.dims[k].late && !planner_chooses(&model, k)) printf(" %s=%lld", model.dims[k].name, (long long)dims[k]);
        printf("\n");
        simulation_destroy(s);
        sizes_free(&sizes);
    }
    free(keep);
    free(bytes);
    flow_destroy(flow);
    return 0;
}
