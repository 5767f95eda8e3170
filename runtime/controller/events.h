/* Events of a run, each a line of JSON in the log: {"event":"set_aside","step":12,"guard":"seq_equal",...} */
#ifndef EVENTS_H
#define EVENTS_H
#include <stdio.h>
#include "graphs.h"
#include "guards.h"
#include "mend.h"
#include "variants.h"

/* How often each event happened, by what it was about: "set_aside" by the guard's name.  What has no row any more is counted last,
 * without a name. */
enum { TALLY_ROWS = 64 };
typedef struct {
    struct TallyRow {
        char event[32], about[128];
        int64_t n;
    } row[TALLY_ROWS];
    int n;
} Tally;
void tally_add(Tally *tally, const char *event, const char *about);
int64_t tally_of(const Tally *tally, const char *event); /* of all it was about */
/* "time_possible 2, sensors_finite 1": what it was about; "" where it never happened */
void tally_text(const Tally *tally, const char *event, char *out, size_t size);

/* What was done about a broken guard: "set_aside", "planned_again", "other_form" (of kernels), "stopped". */
void event_guard(FILE *to, const Model *m, const char *event, int64_t step, const Breach *breach, const int64_t *dims,
                 double milliseconds);
/* Elements kept what they had: why, as far as it was looked for, and the node that made the first NaN of the numbers, or NULL. */
void event_kept(FILE *to, const Model *m, int64_t step, const Breach *breach, const char *cause, const char *node, const int64_t *dims,
                double milliseconds);
/* The unit of a step whose result was the first to hold a NaN: its node, last kernel, and what held it. */
void event_nan(FILE *to, int64_t step, int unit, const char *node, const char *kernel, const char *tensor);
/* A unit that is made operation by operation from now on: guard, and the kernel that broke it. */
void event_mended(FILE *to, const Model *m, int64_t step, const Mended *event, const int64_t *dims, double milliseconds);
/* A variant: "variant_compiling", "variant_swapped", "variant_dropped". */
void event_variant(FILE *to, const Model *m, int64_t step, const VariantEvent *event);
/* "graph_recorded", "graph_dropped". */
void event_graph(FILE *to, const Model *m, int64_t step, const GraphEvent *event);
/* "budget_shrunk": the device refused an arena of so many bytes, and the step was planned again within less; "budget_raised". */
typedef struct {
    const char *event;
    int64_t refused, budget, peak_bytes;
    int recomputed;
} BudgetEvent;
void event_budget(FILE *to, const Model *m, int64_t step, const BudgetEvent *event, const int64_t *dims, double milliseconds);
/* The last line of a run that had events: of its batches, how many trained, and every event with its number. */
void event_summary(FILE *to, int64_t batches, int64_t trained, const Tally *tally);
/* "overflow": gradients were not finite, the step's update was skipped; "scaled_up".  The next step's loss scale is another. */
void event_scale(FILE *to, const char *event, int64_t step, double scale, double next);
/* Anything else that the log should tell: "resume", "checkpoint", "signal". */
void event_plain(FILE *to, const char *event, int64_t step, const char *detail);
#endif
