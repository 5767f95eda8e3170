/* Plans by dims: a ladder of them for each, kept for the next batch of the same dims; a budget picks the rung.
 * Needs: a Program's tables.  Breaks: nothing. */
#include "planner.h"
#include <stdlib.h>
#include <string.h>
#include "integers.h"
#include "ladder.h"
#include "realise.h"

enum { BUCKETS = 256, FLOWS = 8 };
static const int64_t MOST_KEPT = 4000000;           /* numbers kept in all plans together: 32 MB */
static const int64_t MOST_BYTES = INT64_C(1) << 50; /* of one buffer, and of all together */

typedef struct Kept Kept;
struct Kept {
    Kept *next;
    const Program *program, *of; /* of: whose lean twin the program is; NULL */
    int64_t *dims, *bytes; /* bytes: of each buffer, aligned */
    Sizes sizes;
    Simulation *simulation; /* NULL: planned by lives alone */
    Plan *whole;       /* no point acts; NULL: not yet wanted */
    Ladder ladder;     /* made when the whole plan does not fit */
    Plan **rungs;      /* beside the ladder's; NULL: not yet wanted */
    int64_t *live;     /* beside them: most alive at once; -1: not yet known */
    int least;         /* rung with the least arena; -1: not yet known */
    int64_t last_room; /* the last question, and its answer */
    const Plan *last;
};
struct Planner {
    int n_dims, n_flows;
    Rates rates;
    Flow *flows[FLOWS];
    int64_t kept;
    Kept *buckets[BUCKETS];
    int64_t row_blocks; /* 0: not said */
    LeanChoice lean;
    int64_t *dims;      /* room for the dims that are looked for */
};

Planner *planner_create(int n_dims)
{
    Planner *planner = calloc(1, sizeof *planner);
    if (!planner) return NULL;
    planner->n_dims = n_dims;
    planner->rates = NOMINAL_RATES;
    planner->dims = calloc((size_t)n_dims + 1, sizeof *planner->dims);
    if (planner->dims) return planner;
    free(planner);
    return NULL;
}

const Rates *planner_rates_now(const Planner *planner)
{
    return &planner->rates;
}

static void kept_free(Kept *kept)
{
    for (int i = 0; kept->rungs && i < kept->ladder.n; i++) free(kept->rungs[i]);
    free(kept->rungs);
    free(kept->whole);
    free(kept->live);
    if (kept->simulation) ladder_free(&kept->ladder);
    simulation_destroy(kept->simulation);
    sizes_free(&kept->sizes);
    free(kept);
}

static void forget(Planner *planner)
{
    for (int b = 0; b < BUCKETS; b++) {
        for (Kept *k = planner->buckets[b], *next; k; k = next) {
            next = k->next;
            kept_free(k);
        }
        planner->buckets[b] = NULL;
    }
    planner->kept = 0;
}

void planner_rates(Planner *planner, const Rates *rates)
{
    planner->rates = *rates;
    forget(planner);
}

void planner_destroy(Planner *planner)
{
    if (!planner) return;
    forget(planner);
    for (int i = 0; i < planner->n_flows; i++) flow_destroy(planner->flows[i]);
    free(planner->dims);
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
        bytes[i] = planner_aligned(bytes[i]);
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

/* ---- plans at some dims ---- */
/* Orders of magnitude: 20 million touches take 0.1 s. */
static const int64_t TOUCHES_WITHOUT_LIBRARY = 60000000, TOUCHES_WITH_LIBRARY = 100000, TOUCHES_TO_OFFLOAD = 10000000;

const Flow *planner_flow(Planner *planner, const Program *program)
{
    for (int i = 0; i < planner->n_flows; i++)
        if (planner->flows[i]->program == program) return planner->flows[i];
    if (planner->n_flows == FLOWS) return NULL;
    Flow *flow = flow_create(program);
    if (flow) planner->flows[planner->n_flows++] = flow;
    return flow;
}

static bool rungs_new(Kept *kept)
{
    size_t n = (size_t)kept->ladder.n + 1;
    kept->rungs = calloc(n, sizeof *kept->rungs);
    kept->live = malloc(n * sizeof *kept->live);
    for (size_t i = 0; kept->live && i < n; i++) kept->live[i] = -1;
    return kept->rungs && kept->live;
}

bool planner_ladder(Ladder *ladder, Simulation *simulation)
{
    const Flow *f = simulation->flow;
    const Program *p = f->program;
    const bool copies = simulation->sizes->copied > 0;
    const int64_t touches = copies ? TOUCHES_TO_OFFLOAD : TOUCHES_WITH_LIBRARY; /* the library offloads nothing */
    bool right = p->n_library ? ladder_carry(ladder, simulation, p->library, p->n_library, ladder_effort(f, touches))
                              : ladder_search(ladder, simulation, ladder_effort(f, TOUCHES_WITHOUT_LIBRARY));
    if (right && !copies) ladder_straighten(ladder); /* a copy may take the place of flops */
    return right;
}

static bool climb(Kept *kept)
{
    return kept->rungs || (planner_ladder(&kept->ladder, kept->simulation) && rungs_new(kept));
}

static bool make_simulation(Planner *planner, Kept *kept)
{
    const Program *p = kept->program;
    if (!p->n_points) return true;
    const Flow *flow = planner_flow(planner, p);
    if (!flow || !sizes_at_dims(&kept->sizes, flow, &planner->rates, kept->dims, kept->bytes)) return false;
    kept->simulation = simulation_create(flow, &kept->sizes);
    ladder_init(&kept->ladder, flow);
    return kept->simulation != NULL;
}

static Kept *kept_new(const Planner *planner, const Program *program, const int64_t *dims)
{
    size_t n = (size_t)program->n_buffers, n_dims = (size_t)planner->n_dims;
    Kept *kept = calloc(1, sizeof *kept + (n + n_dims + 1) * sizeof(int64_t));
    if (!kept) return NULL;
    kept->program = program;
    kept->least = -1;
    kept->dims = (int64_t *)(kept + 1);
    kept->bytes = kept->dims + n_dims;
    if (n_dims) memcpy(kept->dims, dims, n_dims * sizeof *dims);
    return kept;
}

static int find_kept(Planner *planner, const Program *program, const int64_t *dims, Kept **found)
{
    size_t bytes = (size_t)planner->n_dims * sizeof *dims;
    Kept **bucket = &planner->buckets[hash_dims(dims, planner->n_dims)];
    for (Kept *k = *bucket; k; k = k->next)
        if (k->program == program && (!bytes || !memcmp(k->dims, dims, bytes))) {
            *found = k;
            return PLANNER_OK;
        }
    Kept *kept = kept_new(planner, program, dims);
    int result = kept ? PLANNER_OK : PLANNER_NO_MEMORY;
    if (!result && !sizes_are_sound(program, dims, planner->n_dims, kept->bytes)) result = PLANNER_TOO_LARGE;
    if (!result && !make_simulation(planner, kept)) result = PLANNER_NO_MEMORY;
    if (result) {
        if (kept) kept_free(kept);
        return result;
    }
    const int64_t takes = program->n_buffers + (program->n_points ? 64 * (int64_t)program->n_units + 4 * (int64_t)kept->ladder.n_gaps : 0);
    if (planner->kept + takes > MOST_KEPT) forget(planner);
    planner->kept += takes;
    kept->next = *bucket;
    *bucket = kept;
    *found = kept;
    return PLANNER_OK;
}

static bool rung_live(Kept *kept, int i, int64_t *live)
{
    if (kept->live[i] < 0) kept->live[i] = realise_live_peak(kept->simulation, kept->ladder.rungs[i].modes);
    *live = kept->live[i];
    return *live >= 0;
}

/* What a lean program does more than the other counts as done again. */
static void add_again(const Kept *kept, Plan *plan)
{
    int64_t moved, least, flops, lean_moved, lean_flops;
    if (!kept->of->traffic) return;
    kept->of->traffic(kept->dims, &moved, &least, &flops);
    kept->program->traffic(kept->dims, &lean_moved, &least, &lean_flops);
    plan->recomputed += kept->program->n_again;
    plan->recomputed_flops += lean_flops - flops;
    plan->recomputed_moved += lean_moved - moved;
}

static Plan *plan_new(Kept *kept, const uint8_t *modes)
{
    Plan *plan = kept->simulation ? realise_modes(kept->simulation, modes) : realise_lives(kept->program, kept->bytes);
    if (plan) plan->dims = kept->dims, plan->program = kept->program;
    if (plan && kept->of) add_again(kept, plan);
    return plan;
}

static const Plan *rung_plan(Kept *kept, int i)
{
    if (!kept->rungs[i]) kept->rungs[i] = plan_new(kept, kept->ladder.rungs[i].modes);
    return kept->rungs[i];
}

/* Nothing runs again. */
static const Plan *whole_plan(Kept *kept)
{
    if (kept->whole) return kept->whole;
    uint8_t *modes = calloc((size_t)kept->ladder.n_gaps + 1, 1); /* KEEP */
    if (modes) kept->whole = plan_new(kept, modes);
    free(modes);
    return kept->whole;
}

/* The rung with the least arena.  Only those whose live peak is below the least so far can have a smaller one. */
static int least_rung(Kept *kept, const Plan **plan)
{
    int64_t live;
    if (!kept->simulation) {
        *plan = whole_plan(kept);
        return *plan ? PLANNER_OK : PLANNER_NO_MEMORY;
    }
    if (!climb(kept)) return PLANNER_NO_MEMORY;
    if (kept->least >= 0) {
        *plan = rung_plan(kept, kept->least);
        return *plan ? PLANNER_OK : PLANNER_NO_MEMORY;
    }
    int least = kept->ladder.n - 1;
    const Plan *best = rung_plan(kept, least);
    for (int i = kept->ladder.n - 2; i >= 0 && best; i--) {
        if (!rung_live(kept, i, &live)) return PLANNER_NO_MEMORY;
        if (live >= best->arena_bytes) continue;
        const Plan *other = rung_plan(kept, i);
        if (!other) return PLANNER_NO_MEMORY;
        if (other->arena_bytes < best->arena_bytes) best = other, least = i;
    }
    if (!best) return PLANNER_NO_MEMORY;
    kept->least = least;
    *plan = best;
    return PLANNER_OK;
}

/* The fastest rung that fits; where none does, one that does not. */
static int choose_rung(Kept *kept, int64_t room, const Plan **plan)
{
    int64_t live;
    *plan = whole_plan(kept);
    if (!*plan) return PLANNER_NO_MEMORY;
    if (!kept->simulation || (*plan)->arena_bytes <= room || ladder_floor(kept->simulation) > room) return PLANNER_OK;
    if (!climb(kept)) return PLANNER_NO_MEMORY;
    for (int i = 0; i < kept->ladder.n; i++) {
        if (kept->ladder.rungs[i].peak - kept->ladder.rungs[i].peak / 16 > room) continue; /* launch by launch it is hardly less */
        if (!rung_live(kept, i, &live)) return PLANNER_NO_MEMORY;
        if (live > room) continue;
        *plan = rung_plan(kept, i);
        if (!*plan) return PLANNER_NO_MEMORY;
        if ((*plan)->arena_bytes <= room) return PLANNER_OK;
    }
    return PLANNER_OK;
}

/* ---- blocks of rows ---- */
void planner_set_row_blocks(Planner *planner, int64_t n)
{
    planner->row_blocks = n;
}

void planner_set_lean(Planner *planner, LeanChoice choice)
{
    planner->lean = choice;
}

bool planner_chooses(const Model *m, int dim)
{
    const Program *const programs[] = {m->train, m->train ? m->train->lean : NULL, m->evaluate, m->infer};
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
        for (int i = 0; programs[p] && i < programs[p]->n_blocks; i++)
            if (programs[p]->blocks[i].dim == dim) return true;
    return false;
}

int64_t planner_row_blocks(const Program *program, const int64_t *dims)
{
    int64_t most = 1;
    for (int i = 0; i < program->n_blocks; i++) {
        const int64_t n = ceil_div(program->blocks[i].rows(dims), dims[program->blocks[i].dim]);
        if (n > most) most = n;
    }
    return most;
}

/* The dims to start from: as given, or with as many blocks as were asked for. */
static void first_blocks(Planner *planner, const Program *program, const int64_t *dims)
{
    if (planner->n_dims) memcpy(planner->dims, dims, (size_t)planner->n_dims * sizeof *dims);
    for (int i = 0; i < program->n_blocks && planner->row_blocks; i++) {
        const int64_t rows = program->blocks[i].rows(dims), each = ceil_div(rows, planner->row_blocks);
        planner->dims[program->blocks[i].dim] = each > 1 ? each : 1;
    }
}

/* Twice as many blocks; false where that is not to be. */
static bool more_blocks(Planner *planner, const Program *program)
{
    bool more = false;
    for (int i = 0; i < program->n_blocks && !planner->row_blocks; i++) {
        const RowLoop *blocks = &program->blocks[i];
        int64_t *each = &planner->dims[blocks->dim], rows = blocks->rows(planner->dims);
        if (*each <= BLOCK_FEWEST_ROWS || *each * blocks->row_bytes(planner->dims) <= BLOCK_FEWEST_BYTES) continue;
        *each = ceil_div(rows, 2 * ceil_div(rows, *each));
        more = true;
    }
    return more;
}

/* ---- finding ---- */
/* One way to look for a plan of a program, or of the lean twin of another, at planner->dims. */
typedef int Find(Kept *kept, int64_t room, const Plan **plan);

static int find_fitting(Kept *kept, int64_t room, const Plan **plan)
{
    int result = PLANNER_OK;
    if (!kept->last || kept->last_room != room) {
        result = choose_rung(kept, room, &kept->last);
        kept->last_room = room;
    }
    *plan = kept->last;
    return result;
}

static int find_whole(Kept *kept, int64_t room, const Plan **plan)
{
    (void)room;
    *plan = whole_plan(kept);
    return *plan ? PLANNER_OK : PLANNER_NO_MEMORY;
}

static int find_least(Kept *kept, int64_t room, const Plan **plan)
{
    (void)room;
    return least_rung(kept, plan);
}

typedef struct {
    Planner *planner;
    const Program *program, *of;
    const int64_t *dims;
    int64_t room;
    Find *find;
} Search;

/* With blocks of rows doubled so often. */
static int find_doubled(const Search *s, int doublings, const Plan **plan)
{
    Kept *kept;
    first_blocks(s->planner, s->program, s->dims);
    while (doublings-- > 0) more_blocks(s->planner, s->program);
    const int result = find_kept(s->planner, s->program, s->planner->dims, &kept);
    if (result) return result;
    kept->of = s->of;
    return s->find(kept, s->room, plan);
}

typedef struct {
    const Search *search; /* NULL: none yet */
    int doublings;
    bool fits;
    int64_t flops, bytes;
} Choice;

/* Of two plans that fit the one that does less again; else the smaller one. */
static bool better(const Choice *a, const Choice *b)
{
    if (!b->search || a->fits != b->fits) return !b->search || a->fits;
    return a->fits ? a->flops < b->flops : a->bytes < b->bytes;
}

/* Tries more and more blocks, until no more runs again than always does.  A lean program is for many: with one it would save little, and
 * differ in the last bits. */
static int consider(const Search *s, Choice *best)
{
    first_blocks(s->planner, s->program, s->dims);
    const bool too_few = s->of && planner_row_blocks(s->program, s->planner->dims) == 1;
    if (too_few && !more_blocks(s->planner, s->program)) return PLANNER_OK;
    for (int doublings = too_few;; doublings++) {
        const Plan *plan;
        const int result = find_doubled(s, doublings, &plan);
        if (result) return result;
        const Choice choice = {s, doublings, plan->arena_bytes <= s->room, plan->recomputed_flops, plan->arena_bytes};
        if (better(&choice, best)) *best = choice;
        if (choice.fits && plan->recomputed == (s->of ? s->program->n_again : 0)) return PLANNER_OK;
        if (!more_blocks(s->planner, s->program)) return PLANNER_OK;
    }
}

static int64_t flops_of(const Program *program, const int64_t *dims)
{
    int64_t moved, least, flops = 0;
    if (program->traffic) program->traffic(dims, &moved, &least, &flops);
    return flops;
}

/* Whether the lean twin may do less again than the best so far: some products it does again whatever the room. */
static bool may_be_better(const Search *lean, const Choice *best)
{
    return !best->search || !best->fits || flops_of(lean->program, lean->dims) - flops_of(lean->of, lean->dims) < best->flops;
}

/* Of the program and its lean twin.  Who says how many blocks wants the same bits within any budget: no twin then, but where it was asked
 * for. */
static int find_best(const Search *s, const Plan **plan)
{
    Choice best = {0};
    const LeanChoice how = s->planner->lean;
    const bool lean_too = s->program->lean && (how == LEAN_ON || (how == LEAN_AUTO && !s->planner->row_blocks));
    const Search lean = {s->planner, s->program->lean, s->program, s->dims, s->room, s->find};
    int result = how == LEAN_ON && lean_too ? consider(&lean, &best) : PLANNER_OK;
    if (!result && !best.search) result = consider(s, &best);
    if (!result && best.search == s && lean_too && how == LEAN_AUTO && may_be_better(&lean, &best)) result = consider(&lean, &best);
    if (result) return result;
    if (!best.fits && s->find == find_fitting) return find_best(&(Search){s->planner, s->program, s->of, s->dims, s->room, find_least}, plan);
    return find_doubled(best.search, best.doublings, plan); /* plans may have been forgotten meanwhile */
}

int planner_find_within(Planner *planner, const Program *program, const int64_t *dims, int64_t room, const Plan **plan)
{
    return find_best(&(Search){planner, program, NULL, dims, room, find_fitting}, plan);
}

int planner_find(Planner *planner, const Program *program, const int64_t *dims, const Plan **plan)
{
    return planner_find_within(planner, program, dims, INT64_MAX, plan);
}

int planner_find_blocks(Planner *planner, const Program *program, const int64_t *dims, int64_t room, const Plan **plan)
{
    const Search search = {planner, program, NULL, dims, room, find_whole};
    Choice best = {0};
    const int result = consider(&search, &best);
    return result ? result : find_doubled(&search, best.doublings, plan);
}

int planner_least(Planner *planner, const Program *program, const int64_t *dims, int64_t *arena_bytes)
{
    const Plan *plan;
    const int result = find_best(&(Search){planner, program, NULL, dims, -1, find_least}, &plan);
    if (!result) *arena_bytes = plan->arena_bytes;
    return result;
}
