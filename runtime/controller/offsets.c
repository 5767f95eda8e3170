/* Offsets of buffers in one arena: places them one after another, each into the gap that fits best among those alive with it.
 * Needs and breaks nothing: pure functions of their arguments.
 *
 * Finding who is alive with a buffer is the cost.  Positions are cut into blocks that overlap by half; a placed buffer is listed,
 * in the order of offsets, in each block that it touches and in one list of all.  A buffer as short as half a block looks through
 * one block's list only. */
#include "planner.h"
#include <stdlib.h>
#include <string.h>

enum { HALVES = 24 };                       /* halves of blocks along the step */
static const int64_t EFFORT = 6000000;      /* looks at listed buffers, all orders together */
static const int64_t MOVES_EFFORT = 800000, MOVES_EFFORT_IN_ALL = 8000000; /* of some moves, about 5 ms; of all */
enum { MOST_MOVES = 3000 };

typedef struct {
    const Interval *buffers;
    const int64_t *held; /* NULL: none */
    int n, all, half; /* n: packed now; all of them; half: positions in half a block */
    int64_t *at;
    int *lists[HALVES + 2], lengths[HALVES + 2]; /* block b: positions b * half to (b + 2) * half; the last list: all */
    int *memory;
    int64_t effort;
} Packing;

static int last_position(const Interval *buffers, int n)
{
    int last = 0;
    for (int i = 0; i < n; i++)
        if (buffers[i].last > last) last = buffers[i].last;
    return last;
}

int64_t planner_live_peak(const Interval *buffers, int n)
{
    int positions = last_position(buffers, n) + 2;
    int64_t *change = calloc((size_t)positions, sizeof *change), alive = 0, peak = 0;
    if (!change) return -1;
    for (int i = 0; i < n; i++) {
        change[buffers[i].first] += buffers[i].bytes;
        change[buffers[i].last + 1] -= buffers[i].bytes;
    }
    for (int i = 0; i < positions; i++) {
        alive += change[i];
        if (alive > peak) peak = alive;
    }
    free(change);
    return peak;
}

/* Inserts buffer i into a list kept in the order of offsets. */
static void list_insert(Packing *p, int which, int i)
{
    int *list = p->lists[which], low = 0, high = p->lengths[which]++;
    int end = high;
    while (low < high) {
        int middle = (low + high) / 2;
        if (p->at[list[middle]] <= p->at[i])
            low = middle + 1;
        else
            high = middle;
    }
    memmove(list + low + 1, list + low, (size_t)(end - low) * sizeof *list);
    list[low] = i;
}

static void enlist(Packing *p, int i)
{
    const Interval *me = &p->buffers[i];
    const int block = me->first / p->half, from = block > 0 ? block - 1 : 0, to = me->last / p->half;
    for (int b = from; b <= to && b < HALVES; b++) list_insert(p, b, i);
    list_insert(p, HALVES, i);
}

static void place(Packing *p, int i, bool first_fit)
{
    const Interval *me = &p->buffers[i];
    int block = me->first / p->half, from = block > 0 ? block - 1 : 0, to = me->last / p->half;
    if (block >= HALVES) block = HALVES - 1;
    int which = me->last < (block + 2) * p->half ? block : HALVES;
    const int *list = p->lists[which];
    int64_t top = 0, best = -1, best_gap = INT64_MAX;
    p->effort += p->lengths[which] + 4 * (to - from);
    for (int k = 0; k < p->lengths[which]; k++) {
        const Interval *other = &p->buffers[list[k]];
        if (other->first > me->last || other->last < me->first) continue;
        int64_t at = p->at[list[k]], gap = at - top;
        if (gap >= me->bytes && gap < best_gap) {
            best_gap = gap, best = top;
            if (first_fit || gap == me->bytes) break;
        }
        if (at + other->bytes > top) top = at + other->bytes;
    }
    p->at[i] = best >= 0 ? best : top;
    enlist(p, i);
}

/* Places all buffers in the order given.  Gives up, returning limit + 1, once the arena would pass the limit. */
static int64_t pack(Packing *p, const int *order, bool first_fit, int64_t limit)
{
    int64_t arena = 0;
    memset(p->lengths, 0, sizeof p->lengths);
    for (int i = 0; p->held && i < p->all; i++) {
        if (p->held[i] < 0 || !p->buffers[i].bytes) continue;
        p->at[i] = p->held[i];
        enlist(p, i);
        if (p->at[i] + p->buffers[i].bytes > arena) arena = p->at[i] + p->buffers[i].bytes;
    }
    for (int k = 0; k < p->n; k++) {
        int i = order[k];
        if (!p->buffers[i].bytes) {
            p->at[i] = 0;
            continue;
        }
        if (!p->held || p->held[i] < 0) place(p, i, first_fit);
        if (p->at[i] + p->buffers[i].bytes > arena) arena = p->at[i] + p->buffers[i].bytes;
        if (arena > limit) return limit + 1;
    }
    return arena;
}

typedef enum { BY_SIZE, BY_AREA, BY_LIFETIME, BY_TIME, ORDERS } Order;
typedef struct {
    double key;
    int first, i;
} Ranked;

static int by_rank(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static void order_by(Order order, const Interval *buffers, int n, Ranked *ranked, int *out)
{
    for (int i = 0; i < n; i++) {
        double bytes = (double)buffers[i].bytes, length = buffers[i].last - buffers[i].first + 1.0;
        double keys[ORDERS] = {
            [BY_SIZE] = bytes, [BY_AREA] = bytes * length, [BY_LIFETIME] = length, [BY_TIME] = -buffers[i].first};
        ranked[i] = (Ranked){keys[order], buffers[i].first, i};
    }
    qsort(ranked, (size_t)n, sizeof *ranked, by_rank);
    for (int i = 0; i < n; i++) out[i] = ranked[i].i;
}

static uint64_t next_random(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int random_below(uint64_t *state, int n)
{
    return (int)(next_random(state) % (uint64_t)n);
}

typedef struct {
    int *order, *tried, *best_order; /* n each */
    int64_t *at, *current_at;        /* of the best; of `order` */
    int64_t arena, enough; /* enough: no better is looked for */
    bool first_fit;
} Search;

static void move_earlier(int *order, int from, int to)
{
    int moved = order[from];
    memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof *order);
    order[to] = moved;
}

/* Changes the order at one place: mostly, a buffer that tops the arena goes earlier; else two change places. */
static void disturb(const Packing *p, const Search *s, int64_t arena, int *order, uint64_t *random)
{
    int n = p->n;
    if (next_random(random) % 10 < 6) {
        int start = random_below(random, n);
        for (int k = 0; k < n; k++) {
            int place_of = (start + k) % n, i = order[place_of];
            if (s->current_at[i] + p->buffers[i].bytes < arena || !p->buffers[i].bytes) continue;
            move_earlier(order, place_of, random_below(random, place_of + 1));
            return;
        }
    }
    int a = random_below(random, n), b = random_below(random, n), swapped = order[a];
    order[a] = order[b];
    order[b] = swapped;
}

static void keep_best(const Packing *p, Search *s, const int *order, int n, int64_t arena)
{
    s->arena = arena;
    memcpy(s->best_order, order, (size_t)n * sizeof *order);
    memcpy(s->at, p->at, (size_t)n * sizeof *s->at);
}

/* Moves within the first `large` of the order, packed alone; when they get better than ever, the rest is packed behind them. */
static void improve(Packing *p, Search *s, int large, uint64_t *random)
{
    const int n = p->n;
    const size_t bytes = (size_t)n * sizeof *s->order, at_bytes = (size_t)n * sizeof *s->at;
    const int64_t effort = p->effort + MOVES_EFFORT;
    p->n = large;
    int64_t current = pack(p, s->order, s->first_fit, INT64_MAX - 1), best = current;
    memcpy(s->current_at, p->at, at_bytes);
    for (int move = 0; move < MOST_MOVES && p->effort < effort && best > s->enough && s->arena > s->enough; move++) {
        memcpy(s->tried, s->order, bytes);
        disturb(p, s, current, s->tried, random);
        bool fit = next_random(random) % 10 < 7 ? s->first_fit : !s->first_fit, worse_too = next_random(random) % 50 == 0;
        int64_t limit = worse_too ? INT64_MAX - 1 : current, arena = pack(p, s->tried, fit, limit);
        p->effort += large / 2;
        if (arena > limit) continue;
        current = arena;
        memcpy(s->order, s->tried, bytes);
        memcpy(s->current_at, p->at, at_bytes);
        if (arena >= best || arena >= s->arena) continue;
        best = arena;
        p->n = n;
        arena = pack(p, s->tried, fit, s->arena - 1);
        if (arena < s->arena) keep_best(p, s, s->tried, n, arena);
        p->n = large;
    }
    p->n = n;
}

/* Those larger than a part of the peak first, as they stand in the best order: in `order`, and how many they are. */
static int large_first(const Packing *p, Search *s, int64_t part)
{
    int large = 0, rest = 0;
    for (int k = 0; k < p->n; k++) large += p->buffers[s->best_order[k]].bytes >= part;
    for (int k = 0, first = 0; k < p->n; k++) {
        const bool is_large = p->buffers[s->best_order[k]].bytes >= part;
        s->order[is_large ? first++ : large + rest++] = s->best_order[k];
    }
    return large;
}

/* First the few large buffers alone, where each move tells and costs little; then with smaller ones; then all.  More rounds of it where the
 * arena is still wider than it need be by more than a fiftieth. */
static void move_about(Packing *p, Search *s)
{
    enum { SHARES = 4, ROUNDS = 5 };
    static const int64_t shares[SHARES] = {20, 60, 180, INT64_MAX};
    const int64_t effort = p->effort + MOVES_EFFORT_IN_ALL;
    uint64_t random = 1;
    for (int i = 0; i < ROUNDS * SHARES && p->effort < effort && s->arena - s->enough > (i < SHARES ? 0 : s->enough / 50); i++) {
        const int large = large_first(p, s, s->enough / shares[i % SHARES]);
        if (large > 1) improve(p, s, large, &random);
    }
}

static void try_orders(Packing *p, Search *s, Ranked *ranked)
{
    int64_t dearest = 0;
    for (int k = 0; k < 2 * ORDERS && (!k || p->effort + dearest < EFFORT) && s->arena > s->enough; k++) {
        int64_t before = p->effort;
        bool first_fit = k >= ORDERS;
        order_by((Order)(k % ORDERS), p->buffers, p->n, ranked, s->tried);
        int64_t arena = pack(p, s->tried, first_fit, s->arena - 1);
        if (p->effort - before > dearest) dearest = p->effort - before;
        if (arena >= s->arena) continue;
        s->first_fit = first_fit;
        keep_best(p, s, s->tried, p->n, arena);
    }
}

int64_t planner_offsets(const Interval *buffers, int n, int64_t *at)
{
    return planner_offsets_around(buffers, n, NULL, at);
}

int64_t planner_offsets_around(const Interval *buffers, int n, const int64_t *held, int64_t *at)
{
    if (n == 0) return 0;
    size_t count = (size_t)n;
    Packing p = {.buffers = buffers, .held = held, .n = n, .all = n, .half = (last_position(buffers, n) + HALVES) / HALVES};
    const int64_t peak = planner_live_peak(buffers, n);
    Search s = {.at = at, .arena = INT64_MAX - 1, .enough = peak + peak / 1000};
    Ranked *ranked = malloc(count * sizeof *ranked);
    p.memory = malloc(count * (HALVES + 1 + 3) * sizeof *p.memory);
    p.at = calloc(2 * count, sizeof *p.at);
    if (ranked && p.memory && p.at && peak >= 0) {
        for (int i = 0; i <= HALVES; i++) p.lists[i] = p.memory + count * (size_t)i;
        s.order = p.memory + count * (HALVES + 1);
        s.tried = s.order + n;
        s.best_order = s.tried + n;
        s.current_at = p.at + n;
        try_orders(&p, &s, ranked);
        if (s.arena > s.enough) move_about(&p, &s);
    } else
        s.arena = -1;
    free(ranked);
    free(p.memory);
    free(p.at);
    return s.arena;
}
