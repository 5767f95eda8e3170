/* Finds plans for a ladder.  Needs: simulations.  Breaks: nothing.  Effort is counted in evaluations, random numbers start from a
 * fixed seed: the same program at the same dims has the same ladder on every machine.
 *
 * Greedy: evicts, round by round, what frees most for its cost where too much is alive.  Annealing: flips the mode of a gap, swaps
 * two, shifts what is kept to a parent or child, evicts a version with the chain that it is made from; plans over the budget pay
 * for the excess.  Descent: at the foot of the ladder, whatever is there at the peak is tried in its other modes. */
#include "ladder.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int gap;
    double worth;
    uint8_t mode;
} Candidate;

typedef struct {
    Ladder *ladder;
    Simulation *s;
    const Flow *f;
    uint64_t random;
    int *moves, n_moves;          /* gaps that may move */
    uint8_t *now, *tried, *start; /* modes */
    Candidate *candidates;
    double *price;   /* by version: of making it again, as far as is known */
    int64_t *excess; /* sums of excess up to each unit */
    int *over;       /* how many units up to each have too much alive */
    double base;     /* seconds of a step */
    int64_t first_peak;
    bool memory;
} Search;

static uint64_t next_random(Search *q) /* splitmix64 */
{
    uint64_t z = q->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int below(Search *q, int n)
{
    return (int)(next_random(q) % (uint64_t)n);
}

static double uniform(Search *q)
{
    return (double)(next_random(q) >> 11) / 9007199254740992.0;
}

static double excess_of(const Search *q, int64_t budget)
{
    double sum = 0;
    for (int k = 0; k < q->f->n_units; k++)
        if (q->s->unit_peak[k] > budget) sum += (double)(q->s->unit_peak[k] - budget);
    return sum;
}

static void offer(Search *q, const uint8_t *modes)
{
    q->memory &= ladder_offer(q->ladder, q->s, modes);
}

/* Whoever is read by the chain of v, dead by then and not kept for somebody else, goes too. */
static void evict_chain(const Search *q, uint8_t *modes, int v, int end, int depth)
{
    const Flow *f = q->f;
    int u = f->remaker[v];
    for (int i = f->in_at[u]; i < f->in_at[u + 1] && depth < 64; i++) {
        int d = f->in[i], last = f->gap_at[d + 1] - 1;
        if (!f->movable[last] || modes[last] != KEEP || flow_gap_start(f, last) >= end) continue;
        modes[last] = EVICT;
        evict_chain(q, modes, d, end, depth + 1);
    }
}

/* ---- greedy ---- */
static int by_worth(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    return x->gap - y->gap;
}

/* What a gap's memory would spare where too much is alive, and what bringing the version back would cost. */
static double worth_of(Search *q, int gap, const uint8_t *modes)
{
    const Flow *f = q->f;
    int v = f->gap_version[gap], start = flow_gap_start(f, gap) + 1, end = flow_gap_end(f, gap), u = f->remaker[v];
    int units = q->over[end] - q->over[start];
    if (units <= 0) return 0;
    double spared = fmin((double)q->s->sizes->bytes[v] * units, (double)(q->excess[end] - q->excess[start]));
    double price = q->s->sizes->seconds[u] + 1e-9;
    for (int i = f->in_at[u]; i < f->in_at[u + 1]; i++) {
        int d = f->in[i], last = f->gap_at[d + 1] - 1;
        if (f->maker[d] < 0) continue;
        int g = f->gap_at[d];
        while (g < last && flow_gap_end(f, g) < end) g++;
        if (modes[g] != KEEP)
            price += q->price[d];
        else if (g == last)
            spared -= (double)q->s->sizes->bytes[d] * units; /* it would stay for this alone */
    }
    if (price > q->price[v]) q->price[v] = price;
    return spared > 0 ? spared / price : 0;
}

/* The same where the version is copied to the host and back: what the copies take beyond what runs beside them. */
static double worth_offloaded(const Search *q, int gap)
{
    const Flow *f = q->f;
    const Sizes *z = q->s->sizes;
    int v = f->gap_version[gap], start = flow_gap_start(f, gap) + 1, end = flow_gap_end(f, gap), units = q->over[end - 1] - q->over[start];
    if (units <= 0 || z->copied <= 0 || !flow_may_offload(f, gap)) return 0;
    double seconds = (double)z->bytes[v] / z->copied, beside = 0, price = fmax(0, seconds - z->seconds[end - 1]) + 0.02 * seconds;
    for (int u = f->maker[v] + 1; u < start; u++) beside += z->seconds[u];
    price += fmax(0, seconds - beside);
    return fmin((double)z->bytes[v] * units, (double)(q->excess[end - 1] - q->excess[start])) / (price + 1e-9);
}

static int list_candidates(Search *q, const uint8_t *modes, int64_t budget)
{
    const Flow *f = q->f;
    int n = 0;
    for (int k = 0; k < f->n_units; k++) {
        int64_t here = q->s->unit_peak[k] > budget ? q->s->unit_peak[k] - budget : 0;
        q->over[k + 1] = q->over[k] + (here > 0);
        q->excess[k + 1] = q->excess[k] + here;
    }
    for (int i = 0; i < q->n_moves; i++) {
        int gap = q->moves[i];
        if (modes[gap] != KEEP || f->gap_point[gap] < 0) continue;
        double worth = worth_of(q, gap, modes), offloaded = worth_offloaded(q, gap);
        if (worth <= 0 && offloaded <= 0) continue;
        q->candidates[n++] = worth >= offloaded ? (Candidate){gap, worth, EVICT} : (Candidate){gap, offloaded, OFFLOAD};
    }
    qsort(q->candidates, (size_t)n, sizeof *q->candidates, by_worth);
    return n;
}

/* Dead ends: versions whose own uses are over but that stay for chains. */
static bool drop_ends(Search *q, uint8_t *modes)
{
    bool changed = false;
    for (int i = 0; i < q->n_moves; i++)
        if (q->f->gap_point[q->moves[i]] < 0 && modes[q->moves[i]] == KEEP) modes[q->moves[i]] = EVICT, changed = true;
    return changed;
}

/* Evicts the best until about `part` of what hurts is gone, again and again, at most `rounds` times. */
static bool greedy(Search *q, uint8_t *modes, int64_t budget, double part, int64_t rounds)
{
    const Flow *f = q->f;
    for (int v = 0; v < f->n_versions; v++) q->price[v] = f->maker[v] >= 0 ? q->s->sizes->seconds[f->remaker[v]] : 0;
    for (int64_t round = 0; round < rounds; round++) {
        if (!simulate(q->s, modes, INFINITY)) return false;
        offer(q, modes);
        if (q->s->peak <= budget) return true;
        int n = list_candidates(q, modes, budget);
        if (!n) {
            if (drop_ends(q, modes)) continue;
            return false;
        }
        double goal = part * (double)q->excess[f->n_units], freed = 0;
        for (int i = 0; i < n && (i == 0 || freed < goal); i++) {
            int gap = q->candidates[i].gap, v = f->gap_version[gap], end = flow_gap_end(f, gap), start = flow_gap_start(f, gap) + 1;
            if (i > 0 && q->candidates[i].worth < 0.02 * q->candidates[0].worth) break;
            modes[gap] = q->candidates[i].mode;
            if (modes[gap] == EVICT) evict_chain(q, modes, v, end, 0);
            freed +=
                fmin((double)q->s->sizes->bytes[v] * (q->over[end] - q->over[start]), (double)(q->excess[end] - q->excess[start]));
        }
    }
    return false;
}

/* Undoes evictions that the budget does not need, the dearest first, by at most `evaluations` trials. */
static void prune(Search *q, uint8_t *modes, int64_t budget, int64_t evaluations)
{
    const Flow *f = q->f;
    int n = 0;
    for (int i = 0; i < q->n_moves; i++) {
        int gap = q->moves[i];
        if (modes[gap] != KEEP) q->candidates[n++] = (Candidate){gap, q->s->sizes->seconds[f->remaker[f->gap_version[gap]]], KEEP};
    }
    qsort(q->candidates, (size_t)n, sizeof *q->candidates, by_worth);
    if (!simulate(q->s, modes, INFINITY)) return;
    double seconds = q->s->seconds;
    for (int i = 0; i < n && evaluations-- > 0; i++) {
        int gap = q->candidates[i].gap;
        uint8_t was = modes[gap];
        modes[gap] = KEEP;
        if (simulate(q->s, modes, seconds) && q->s->peak <= budget && q->s->seconds < seconds) {
            seconds = q->s->seconds;
            offer(q, modes);
        } else
            modes[gap] = was;
    }
}

/* ---- annealing ---- */
static void flip(Search *q, uint8_t *modes, int gap)
{
    int r = below(q, 8);
    if (q->s->sizes->copied > 0 && modes[gap] != OFFLOAD && flow_may_offload(q->f, gap) && below(q, 2)) {
        modes[gap] = OFFLOAD;
        return;
    }
    if (modes[gap] == KEEP)
        modes[gap] = (uint8_t)(r < 4 ? EVICT : r < 6 ? DROP : LEND);
    else
        modes[gap] = (uint8_t)(r < 4 ? KEEP : 1 + below(q, 3));
}

/* A version that v is made from, or that is made from it; -1: none. */
static int neighbour(Search *q, int v)
{
    const Flow *f = q->f;
    int u = f->maker[v] < 0 ? -1 : f->remaker[v], n_in = u < 0 ? 0 : f->in_at[u + 1] - f->in_at[u],
        uses = f->use_at[v + 1] - f->use_at[v];
    int i = below(q, n_in + uses + 1);
    if (i < n_in) return f->in[f->in_at[u] + i];
    if (i >= n_in + uses) return -1;
    int reader = f->use[f->use_at[v] + i - n_in], n_out = f->out_at[reader + 1] - f->out_at[reader];
    return n_out ? f->out[f->out_at[reader] + below(q, n_out)] : -1;
}

/* Swaps the modes of a gap and of an overlapping one of a neighbour, where one is kept and the other not. */
static bool shift(Search *q, uint8_t *modes, int gap)
{
    const Flow *f = q->f;
    int other = neighbour(q, f->gap_version[gap]), start = flow_gap_start(f, gap), end = flow_gap_end(f, gap);
    if (other < 0) return false;
    for (int tries = 0, n = f->gap_at[other + 1] - f->gap_at[other], g = below(q, n); tries < n; tries++, g = (g + 1) % n) {
        int at = f->gap_at[other] + g;
        if (!f->movable[at] || flow_gap_start(f, at) >= end || flow_gap_end(f, at) <= start) continue;
        if ((modes[at] == KEEP) == (modes[gap] == KEEP)) continue;
        uint8_t was = modes[at];
        modes[at] = modes[gap];
        modes[gap] = was;
        return true;
    }
    return false;
}

static void disturb(Search *q, uint8_t *modes)
{
    int gap = q->moves[below(q, q->n_moves)], r = below(q, 10);
    if (r < 4) {
        if (!shift(q, modes, gap)) flip(q, modes, gap);
    } else if (r < 7) {
        int other = q->moves[below(q, q->n_moves)];
        if ((modes[gap] == KEEP) != (modes[other] == KEEP)) {
            uint8_t was = modes[gap];
            modes[gap] = modes[other];
            modes[other] = was;
        } else {
            flip(q, modes, gap);
            if (below(q, 2)) flip(q, modes, other);
        }
    } else if (modes[gap] == KEEP && below(q, 2)) {
        modes[gap] = EVICT;
        evict_chain(q, modes, q->f->gap_version[gap], flow_gap_end(q->f, gap), 0);
    } else
        flip(q, modes, gap);
}

static double energy(const Search *q, int64_t budget)
{
    double over = excess_of(q, budget);
    return q->s->seconds + (over > 0 ? q->base * (2 * over / (double)q->first_peak + 0.01) : 0);
}

static void anneal(Search *q, const uint8_t *from, int64_t budget, int64_t evaluations, double warmth)
{
    size_t bytes = (size_t)q->f->n_gaps;
    memcpy(q->now, from, bytes);
    if (!simulate(q->s, q->now, INFINITY)) return;
    double current = energy(q, budget), hot = warmth * q->base, cold = 0.0005 * q->base;
    for (int64_t i = 0; i < evaluations; i++) {
        memcpy(q->tried, q->now, bytes);
        disturb(q, q->tried);
        if (!simulate(q->s, q->tried, 3 * q->base)) continue;
        offer(q, q->tried);
        double e = energy(q, budget), heat = hot * pow(cold / hot, (double)i / (double)evaluations);
        if (e > current && uniform(q) >= exp((current - e) / heat)) continue;
        current = e;
        memcpy(q->now, q->tried, bytes);
    }
}

/* ---- descent ---- */
/* How high a plan reaches, and by how much in sum near the top: several units may reach as high. */
typedef struct {
    int64_t peak;
    double near;
} Height;

static Height height_of(const Search *q, int64_t from)
{
    return (Height){q->s->peak, excess_of(q, from)};
}

static bool lower(Height a, Height b)
{
    return a.peak < b.peak || (a.peak == b.peak && a.near < b.near);
}

/* The best of all plans that differ from q->now in one gap around the unit of the peak, with its dead chain or without; false: none is
 * lower. */
static bool step_down(Search *q, int64_t *evaluations)
{
    const Flow *f = q->f;
    const size_t bytes = (size_t)f->n_gaps;
    if (!simulate(q->s, q->now, INFINITY)) return false;
    const int unit = q->s->peak_unit;
    const int64_t near = q->s->peak - q->s->peak / 50;
    Height best = height_of(q, near);
    bool found = false;
    for (int i = 0; i < q->n_moves; i++) {
        const int gap = q->moves[i];
        if (flow_gap_start(f, gap) >= unit || flow_gap_end(f, gap) < unit) continue;
        for (int way = 0; way <= 2 * LEND + 1; way++) {
            const uint8_t mode = (uint8_t)(way / 2);
            if (mode == q->now[gap] || (way & 1 && mode != EVICT) || (*evaluations)-- <= 0) continue;
            memcpy(q->tried, q->now, bytes);
            q->tried[gap] = mode;
            if (way & 1) evict_chain(q, q->tried, f->gap_version[gap], flow_gap_end(f, gap), 0);
            if (!simulate(q->s, q->tried, 3 * q->base)) continue;
            offer(q, q->tried);
            const Height h = height_of(q, near);
            if (!lower(h, best)) continue;
            best = h;
            found = true;
            memcpy(q->start, q->tried, bytes);
        }
    }
    if (found) memcpy(q->now, q->start, bytes);
    return found && *evaluations > 0;
}

static void descend(Search *q, int64_t evaluations)
{
    if (!q->ladder->n || !q->n_moves) return;
    memcpy(q->now, q->ladder->rungs[q->ladder->n - 1].modes, (size_t)q->f->n_gaps);
    while (step_down(q, &evaluations)) {}
}

/* Lower than the ladder reaches: annealing for a little less than its least, then descent, a few times. */
static void dig(Search *q, int64_t evaluations)
{
    enum { TIMES = 4 };
    for (int i = 0; i < TIMES && q->ladder->n && q->n_moves; i++) {
        const Rung *last = &q->ladder->rungs[q->ladder->n - 1];
        memcpy(q->start, last->modes, (size_t)q->f->n_gaps);
        anneal(q, q->start, last->peak - last->peak / 25, evaluations / (2 * TIMES), 0.02);
        descend(q, evaluations / (2 * TIMES));
    }
}

/* ---- both ---- */
static bool search_open(Search *q, Ladder *ladder, Simulation *s)
{
    const Flow *f = s->flow;
    size_t gaps = (size_t)f->n_gaps + 1, units = (size_t)f->n_units + 2;
    *q = (Search){.ladder = ladder, .s = s, .f = f, .random = 1, .base = s->sizes->all_seconds, .memory = true};
    q->moves = malloc(gaps * sizeof *q->moves);
    q->now = calloc(3, gaps);
    q->candidates = malloc(gaps * sizeof *q->candidates);
    q->price = malloc(((size_t)f->n_versions + 1) * sizeof *q->price);
    q->excess = calloc(units, sizeof *q->excess);
    q->over = calloc(units, sizeof *q->over);
    if (!q->moves || !q->now || !q->candidates || !q->price || !q->excess || !q->over) return false;
    q->tried = q->now + gaps;
    q->start = q->tried + gaps;
    for (int g = 0; g < f->n_gaps; g++)
        if (f->movable[g]) q->moves[q->n_moves++] = g;
    if (simulate(s, q->start, INFINITY)) offer(q, q->start);
    q->first_peak = s->peak;
    return true;
}

static bool search_close(Search *q, bool right)
{
    free(q->moves);
    free(q->now);
    free(q->candidates);
    free(q->price);
    free(q->excess);
    free(q->over);
    return right && q->memory;
}

int64_t ladder_floor(const Simulation *s)
{
    const Flow *f = s->flow;
    int64_t least = 0;
    for (int u = 0; u < f->n_units; u++) {
        int64_t here = s->sizes->temp_bytes[u];
        for (int i = f->in_at[u]; i < f->in_at[u + 1]; i++) here += s->sizes->bytes[f->in[i]];
        for (int i = f->out_at[u]; i < f->out_at[u + 1]; i++)
            if (f->over[f->out[i]] < 0) here += s->sizes->bytes[f->out[i]];
        if (here > least) least = here;
    }
    return least;
}

static const uint8_t *fastest_within(const Search *q, int64_t budget)
{
    const Ladder *l = q->ladder;
    for (int i = 0; i < l->n; i++)
        if (l->rungs[i].peak <= budget) return l->rungs[i].modes;
    return l->rungs[l->n - 1].modes;
}

bool ladder_search(Ladder *ladder, Simulation *s, int64_t evaluations)
{
    enum { BUDGETS = 24, EVALUATIONS_A_BUDGET = 100, ROUNDS = 200 };
    Search q;
    bool right = search_open(&q, ladder, s);
    /* Where a graph is so large that few evaluations are to be had, they go to few budgets. */
    const int64_t budgets = evaluations / EVALUATIONS_A_BUDGET >= BUDGETS ? BUDGETS : evaluations / EVALUATIONS_A_BUDGET + 1;
    int64_t least = right ? ladder_floor(s) : 0, each = evaluations / (2 * budgets) + 1, span = q.first_peak - least;
    for (int step = 1; right && q.n_moves && span > 0 && step <= 2 * budgets; step++) {
        bool down = step <= budgets;
        int64_t budget = q.first_peak - span / budgets * (down ? step : 2 * budgets - step + 1);
        if (down) {
            for (int slow = 0; slow < (each < ROUNDS ? 1 : 2); slow++) {
                memset(q.start, 0, (size_t)q.f->n_gaps);
                if (greedy(&q, q.start, budget, slow ? 0.05 : 0.34, each < ROUNDS ? each : ROUNDS))
                    prune(&q, q.start, budget, each / 4);
            }
        }
        memcpy(q.start, fastest_within(&q, budget), (size_t)q.f->n_gaps);
        anneal(&q, q.start, budget, each, down ? 0.05 : 0.03);
    }
    if (right) dig(&q, evaluations / 2);
    return search_close(&q, right);
}

bool ladder_carry(Ladder *ladder, Simulation *s, const char *const *library, int n, int64_t evaluations)
{
    enum { BUDGETS = 4, ROUNDS = 200 };
    Search q;
    bool right = search_open(&q, ladder, s);
    for (int i = 0; right && i < n; i++)
        if (ladder_parse(q.f, library[i], q.start) && simulate(s, q.start, INFINITY)) offer(&q, q.start);
    if (right && q.n_moves) {
        memset(q.start, 0, (size_t)q.f->n_gaps);
        greedy(&q, q.start, ladder_floor(s), 0.34, evaluations / 4 < ROUNDS ? evaluations / 4 : ROUNDS);
    }
    int64_t span = right && ladder->n ? q.first_peak - ladder->rungs[ladder->n - 1].peak : 0;
    for (int step = BUDGETS; right && q.n_moves && span > 0 && step >= 1; step--) { /* mostly towards the least */
        int64_t budget = q.first_peak - span / BUDGETS * step, least = step == BUDGETS ? span / 25 : 0;
        memcpy(q.start, fastest_within(&q, budget), (size_t)q.f->n_gaps);
        anneal(&q, q.start, budget - least, evaluations / (least ? 2 : 2 * (BUDGETS - 1)), least ? 0.01 : 0.002);
    }
    if (right) descend(&q, evaluations / 2);
    return search_close(&q, right);
}
