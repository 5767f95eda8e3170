/* Plans for dims that only the step itself tells (Program.late), where no plan at their upper bounds fits.
 *
 * Such a step begins with a hopeful plan: before the next late dim is known, what depends on it has its upper bound where it is written and
 * next to nothing where it is not.  As soon as it is known, the rest of the step is planned again with what is alive held in place: with
 * the dims still unknown at their bounds where that fits, and then for good; else hopefully once more.  Where not even that fits, the
 * step ends before its commit point, and no weight has changed. */
#ifndef LATE_H
#define LATE_H
#include "planner.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct LatePlans LatePlans;
LatePlans *late_create(void); /* NULL without memory */
void late_destroy(LatePlans *l);
/* A hopeful plan within room, which it takes whole (arena_bytes); *plan is NULL where there is none.  It is valid until the next call. */
int late_begin(LatePlans *l, Planner *planner, const Program *program, const int64_t *dims, int n_dims, int64_t room, const Plan **plan);
/* The step of that plan begins, perhaps not for the first time: sets its plan_again. */
void late_step(LatePlans *l, Step *step);
/* How often the step was planned again, and the plan that it ended with. */
int late_times(const LatePlans *l);
const Plan *late_plan(const LatePlans *l);
#ifdef __cplusplus
}
#endif
#endif
