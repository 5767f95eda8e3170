/* Plans a step's memory: where each buffer lies in one arena, and what is given up and made again, for any dims, before anything
 * runs.  Plans come from a ladder (ladder.h).
 *
 * Offsets follow "dynamic storage allocation" as it is known: several orders (size, area, lifetime, time) x best fit, then moves of
 * the buffer that tops the arena, among the largest ones alone, then among more and more.  Effort is counted, never timed: the same dims give the same offsets on every machine. */
#ifndef PLANNER_H
#define PLANNER_H
#include "flow.h"
#include "ladder.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PLANNER_ALIGNMENT = 256 };
static inline int64_t planner_aligned(int64_t bytes)
{
    return (bytes + PLANNER_ALIGNMENT - 1) / PLANNER_ALIGNMENT * PLANNER_ALIGNMENT;
}

typedef struct {
    int first, last;
    int64_t bytes;
} Interval; /* lives through positions first..last, both included; first >= 0 */

/* Most bytes alive at one position: no arena can be smaller.  -1 without memory. */
int64_t planner_live_peak(const Interval *buffers, int n);
/* Writes the byte offset of each buffer, so that no two alive at one position overlap.  Bytes should be multiples of the alignment;
 * offsets then are too. Returns the arena's bytes, or -1 without memory.  About 0.2 s for 10,000 buffers. */
int64_t planner_offsets(const Interval *buffers, int n, int64_t *at);
/* The same around those that lie already: held, by buffer, is an offset, or -1 where it is free to choose. */
int64_t planner_offsets_around(const Interval *buffers, int n, const int64_t *held, int64_t *at);

typedef struct {
    const Program *program;   /* the one that was asked for, or its lean twin */
    const int64_t *dims, *at; /* at: where each buffer lies when the step begins, beside Program.lives */
    int64_t arena_bytes, live_bytes;
    const Recompute *recompute; /* NULL: no point acts */
    int recomputed;             /* launches that run again */
    int64_t recomputed_flops, recomputed_moved;
    int64_t offloaded_bytes, host_bytes; /* copied to the host in a step; what the host needs for it */
    bool hopeful;             /* late dims are not at their bounds: planned again as they become known (late.h) */
    const int64_t *unit_peak; /* by unit: most alive while it runs, and while what it needs runs again; NULL where there are no units */
} Plan;
typedef struct Planner Planner;
enum { PLANNER_OK = 0, PLANNER_NO_MEMORY = 1, PLANNER_TOO_LARGE = 2 };

/* False when buffers at these dims would pass 2^50 bytes, or their sizes would no longer be 64-bit integers. */
bool planner_sound(const Program *program, const int64_t *dims, int n_dims);
Planner *planner_create(int n_dims);
/* What the machine does in a second (NOMINAL_RATES otherwise); plans made before are forgotten. */
void planner_rates(Planner *planner, const Rates *rates);
void planner_destroy(Planner *planner);
/* From now on loops over blocks of rows have n blocks, or one for each row where there are fewer, and results are the same bits whatever
 * the room; 0: as the dims say, or more, or a lean twin's. */
void planner_set_row_blocks(Planner *planner, int64_t n);
/* Whether the lean twin of a program, which does products again in loops over blocks of rows, may run: where a budget wants it, but not
 * where the number of blocks is said, so that equal blocks are equal bits; always (where the program has one, and more than one block);
 * never. */
typedef enum { LEAN_AUTO, LEAN_ON, LEAN_OFF } LeanChoice;
void planner_set_lean(Planner *planner, LeanChoice choice);
/* Whether a dim says how many rows a block has: the planner's affair, not the batch's. */
bool planner_chooses(const Model *m, int dim);
/* The most blocks that a loop of the program has at these dims; 1 where it has no such loop. */
int64_t planner_row_blocks(const Program *program, const int64_t *dims);
/* The plan of fewest operations for these dims whose arena is at most `room` bytes, of the program or its lean twin, with blocks of rows as
 * dims say or smaller, halved again and again; of equal ones the one with the fewest blocks.  Where none fits, the one with the least
 * arena.  So more room never takes more operations.  Plan.dims are the dims with the blocks chosen.  Plans are made once for each dims;
 * the pointer stays valid until the next call.  PLANNER_TOO_LARGE: a size passes 2^50 bytes. */
int planner_find_within(Planner *planner, const Program *program, const int64_t *dims, int64_t room, const Plan **plan);
int planner_find(Planner *planner, const Program *program, const int64_t *dims,
                 const Plan **plan); /* whatever it takes: no point acts */
/* No point acts: blocks of rows alone are made smaller to stay within room. */
int planner_find_blocks(Planner *planner, const Program *program, const int64_t *dims, int64_t room, const Plan **plan);
/* The least arena of all plans for these dims. */
int planner_least(Planner *planner, const Program *program, const int64_t *dims, int64_t *arena_bytes);
/* For those who plan on their own (late.h): the program as a Flow, which the planner keeps; NULL without memory.  Rates. */
const Flow *planner_flow(Planner *planner, const Program *program);
const Rates *planner_rates_now(const Planner *planner);
/* A ladder of a simulation's program, as for a batch of new dims. */
bool planner_ladder(Ladder *ladder, Simulation *simulation);
#ifdef __cplusplus
}
#endif
#endif
