/* The ladder of plans at some dims: from no recomputation to least memory, the less memory the more time, independent of any
 * budget.
 *
 * A budget takes the fastest rung that fits; so a larger budget never fails where a smaller one did not, and never recomputes more.
 */
#ifndef LADDER_H
#define LADDER_H
#include "flow.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int64_t peak;   /* most alive at once */
    double seconds; /* of what runs again, nominal */
    int64_t flops;  /* of it */
    uint8_t *modes; /* by gap */
} Rung;
typedef struct {
    int n, room;
    Rung *rungs; /* peak falls, seconds rise */
    int n_gaps;
} Ladder;

void ladder_init(Ladder *ladder, const Flow *flow);
void ladder_free(Ladder *ladder);
/* Takes the plan in where none is as good in both; false without memory. */
bool ladder_offer(Ladder *ladder, const Simulation *s, const uint8_t *modes);
/* Searches with so many evaluations: for each of some budgets a greedy plan, then annealing over modes, which may pass through
 * plans that do not fit.  False without memory. */
bool ladder_search(Ladder *ladder, Simulation *s, int64_t evaluations);
/* Starts from the library's plans, carried over to these dims, and searches a little around them. */
bool ladder_carry(Ladder *ladder, Simulation *s, const char *const *library, int n, int64_t evaluations);
/* Drops rungs until flops, too, rise as memory falls. */
void ladder_straighten(Ladder *ladder);
/* No plan needs less: what a unit reads and makes. */
int64_t ladder_floor(const Simulation *s);
/* The number of evaluations that takes about so many touches of buffers. */
int64_t ladder_effort(const Flow *flow, int64_t touches);

/* A plan as text: a digit for each gap that may move, as the library has it. */
void ladder_text(const Flow *flow, const uint8_t *modes, char *text); /* room for n_gaps + 1 */
bool ladder_parse(const Flow *flow, const char *text, uint8_t *modes);
#ifdef __cplusplus
}
#endif
#endif
