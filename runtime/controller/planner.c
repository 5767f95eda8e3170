/* Plans by dims: sizes from the program's tables, offsets from planner_offsets, kept for the next batch of the same dims.
 * Needs: a Program's tables.  Breaks: nothing. */
#include "planner.h"
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256 };
static const int64_t MOST_KEPT = 4000000;           /* offsets kept in all plans together: 32 MB */
static const int64_t MOST_BYTES = INT64_C(1) << 50; /* of one buffer, and of all together */

typedef struct Kept Kept;
struct Kept {
    Kept *next;
    const Program *program;
    Plan plan;
};
struct Planner {
    int n_dims;
    int64_t kept;
    Kept *buckets[BUCKETS];
};

Planner *planner_create(int n_dims)
{
    Planner *planner = calloc(1, sizeof *planner);
    if (planner) planner->n_dims = n_dims;
    return planner;
}

static void forget(Planner *planner)
{
    for (int b = 0; b < BUCKETS; b++) {
        for (Kept *k = planner->buckets[b], *next; k; k = next) {
            next = k->next;
            free(k);
        }
        planner->buckets[b] = NULL;
    }
    planner->kept = 0;
}

void planner_destroy(Planner *planner)
{
    if (planner) forget(planner);
    free(planner);
}

static unsigned hash_dims(const int64_t *dims, int n)
{
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < n; i++) h = (h ^ (uint64_t)dims[i]) * 1099511628211u, h ^= h >> 29;
    return (unsigned)(h % BUCKETS);
}

/* Sizes at dims; false when one is negative or they pass MOST_BYTES together. */
static bool sizes_at(const Program *program, const int64_t *dims, int64_t *bytes)
{
    int64_t sum = 0;
    program->bytes(dims, bytes);
    for (int i = 0; i < program->n_buffers; i++) {
        if (bytes[i] < 0 || bytes[i] > MOST_BYTES) return false;
        bytes[i] = (bytes[i] + PLANNER_ALIGNMENT - 1) / PLANNER_ALIGNMENT * PLANNER_ALIGNMENT;
        sum += bytes[i];
        if (sum > MOST_BYTES) return false;
    }
    return true;
}

/* The tables compute with 64-bit integers, which could wrap for absurd dims and then look small.  Sizes grow by at most 2^8 when
 * every dim doubles, so climbing from small dims finds a size past 2^50 long before one wraps. */
static bool sizes_are_sound(const Program *program, const int64_t *dims, int n_dims, int64_t *bytes)
{
    int64_t smaller[64];
    int doublings = 0;
    bool large = false;
    for (int i = 0; i < n_dims; i++)
        while (dims[i] >> doublings > 1024 && doublings < 62) doublings++;
    for (int i = 0; i < n_dims; i++) large |= dims[i] > 4096;
    if (!large || n_dims > 64) return sizes_at(program, dims, bytes);
    for (; doublings >= 0; doublings--) {
        for (int i = 0; i < n_dims; i++) smaller[i] = dims[i] > 0 && dims[i] >> doublings == 0 ? 1 : dims[i] >> doublings;
        if (!sizes_at(program, smaller, bytes)) return false;
    }
    return true;
}

bool planner_sound(const Program *program, const int64_t *dims, int n_dims)
{
    int64_t *bytes = malloc(((size_t)program->n_buffers + 1) * sizeof *bytes);
    bool sound = bytes && sizes_are_sound(program, dims, n_dims, bytes);
    free(bytes);
    return sound;
}

/* Lives as the step needs them: inputs are uploaded before the first launch, outputs are read after the last. */
static void intervals_of(const Program *program, const int64_t *bytes, Interval *out)
{
    for (int i = 0; i < program->n_buffers; i++) out[i] = (Interval){program->lives[i].first, program->lives[i].last, bytes[i]};
    for (int i = 0; i < program->n_inputs; i++)
        if (program->input_buffer[i] >= 0) out[program->input_buffer[i]].first = 0;
    for (int i = 0; i < program->n_outputs; i++)
        if (program->output_buffer[i] >= 0) {
            Interval *output = &out[program->output_buffer[i]];
            if (output->last < program->n_launches) output->last = program->n_launches;
        }
    for (int i = 0; i < program->n_buffers; i++) {
        if (out[i].first < 0) out[i].first = 0;
        if (out[i].last < out[i].first) out[i].last = out[i].first;
    }
}

static int make_plan(Planner *planner, const Program *program, const int64_t *dims, Kept **made)
{
    size_t n = (size_t)program->n_buffers, n_dims = (size_t)planner->n_dims;
    int64_t *bytes = malloc((n + 1) * sizeof *bytes);
    Interval *intervals = malloc((n + 1) * sizeof *intervals);
    Kept *kept = calloc(1, sizeof *kept + (n + n_dims) * sizeof(int64_t));
    int result = bytes && intervals && kept ? PLANNER_OK : PLANNER_NO_MEMORY;
    if (result == PLANNER_OK && !sizes_are_sound(program, dims, planner->n_dims, bytes)) result = PLANNER_TOO_LARGE;
    if (result == PLANNER_OK) {
        kept->program = program;
        kept->plan.dims = (int64_t *)(kept + 1);
        kept->plan.at = kept->plan.dims + n_dims;
        if (n_dims) memcpy(kept->plan.dims, dims, n_dims * sizeof *dims);
        intervals_of(program, bytes, intervals);
        kept->plan.live_bytes = planner_live_peak(intervals, program->n_buffers);
        kept->plan.arena_bytes = planner_offsets(intervals, program->n_buffers, kept->plan.at);
        if (kept->plan.arena_bytes < 0 || kept->plan.live_bytes < 0) result = PLANNER_NO_MEMORY;
    }
    free(bytes);
    free(intervals);
    if (result == PLANNER_OK)
        *made = kept;
    else
        free(kept);
    return result;
}

int planner_find(Planner *planner, const Program *program, const int64_t *dims, const Plan **plan)
{
    size_t bytes = (size_t)planner->n_dims * sizeof *dims;
    Kept **bucket = &planner->buckets[hash_dims(dims, planner->n_dims)], *kept = NULL;
    for (Kept *k = *bucket; k; k = k->next)
        if (k->program == program && (!bytes || !memcmp(k->plan.dims, dims, bytes))) {
            *plan = &k->plan;
            return PLANNER_OK;
        }
    int result = make_plan(planner, program, dims, &kept);
    if (result != PLANNER_OK) return result;
    if (planner->kept + program->n_buffers > MOST_KEPT) forget(planner);
    planner->kept += program->n_buffers;
    kept->next = *bucket;
    *bucket = kept;
    *plan = &kept->plan;
    return PLANNER_OK;
}
