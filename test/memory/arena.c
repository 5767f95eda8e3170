/* arena PLANS SEED: how much larger than what is alive the arenas of plans are, over random dims and budgets.  Linked with a generated program. */
#include "random_dims.h"
#include "model.h"
#include <stdio.h>

enum { BUDGETS = 8 };
static const int64_t MOST_DIM = 4096, LEAST_FLOPS = 0, MOST_FLOPS = (int64_t)1e14;
static const double MOST_RATIO = 1.05;

int main(int n, char **arguments)
{
    if (n != 3 || model.n_dims > MOST_DIMS) return 2;
    uint64_t random = (uint64_t)atoll(arguments[2]);
    const int wanted = atoi(arguments[1]);
    int64_t dims[MOST_DIMS], worst_dims[MOST_DIMS] = {0}, least;
    int plans = 0, tight = 0;
    double sum = 0, worst = 0;
    while (plans < wanted) {
        Planner *planner = planner_create(model.n_dims);
        const Plan *plan;
        random_dims(&model, &random, MOST_DIM, LEAST_FLOPS, MOST_FLOPS, dims);
        if (!planner || planner_find(planner, model.train, dims, &plan)) return 1;
        const int64_t most = plan->arena_bytes;
        if (planner_least(planner, model.train, dims, &least)) return 1;
        for (int i = 0; i < BUDGETS && plans < wanted; i++, plans++) {
            const int64_t room = i == 0 ? most : i == 1 ? least : least + random_below(&random, most - least + 1);
            if (planner_find_within(planner, model.train, dims, room, &plan)) return 1;
            const double ratio = (double)plan->arena_bytes / (double)plan->live_bytes;
            sum += ratio;
            tight += plan->arena_bytes == plan->live_bytes;
            if (ratio <= worst) continue;
            worst = ratio;
            for (int k = 0; k < model.n_dims; k++) worst_dims[k] = dims[k];
        }
        planner_destroy(planner);
    }
    printf("%d plans: arena / live peak %.4f on average, %.4f at worst, 1 in %.0f %%; worst at", plans, sum / plans, worst, 100.0 * tight / plans);
    for (int k = 0; k < model.n_dims; k++)
        if (!planner_chooses(&model, k)) printf(" %s=%lld", model.dims[k].name, (long long)worst_dims[k]);
    printf("\n");
    return worst > MOST_RATIO;
}
