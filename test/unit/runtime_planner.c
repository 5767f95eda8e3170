/* The planner's offsets: nothing alive at one time shares a byte, arenas stay near the peak, ten thousand buffers stay fast; plans
 * by dims. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "../../runtime/controller/integers.h"
#include "../../runtime/controller/planner.h"
#include "tiny.h"

static uint64_t random_state = 7;
static int random_below(int n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

static void check_disjoint(const Interval *b, const int64_t *at, int n, int64_t arena)
{
    for (int i = 0; i < n; i++) {
        assert_true(at[i] >= 0 && at[i] % PLANNER_ALIGNMENT == 0 && at[i] + b[i].bytes <= arena);
        for (int j = 0; j < i; j++) {
            bool together = b[i].first <= b[j].last && b[j].first <= b[i].last;
            bool share = at[i] < at[j] + b[j].bytes && at[j] < at[i] + b[i].bytes && b[i].bytes && b[j].bytes;
            if (together && share) fail_msg("buffers %d and %d of %d overlap", i, j, n);
        }
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Lives as in a training step: short ones, and stashes that live from somewhere forward to their mirror image backward. */
static void random_step(Interval *b, int n, int stashes_percent)
{
    for (int i = 0; i < n; i++) {
        int first = random_below(n), last = first + random_below(8);
        if (random_below(100) < stashes_percent) first = random_below(n / 2), last = n - first;
        b[i] = (Interval){first, last, (int64_t)PLANNER_ALIGNMENT * random_below(1 << random_below(12))};
    }
}

static void offsets_never_overlap(void **state)
{
    (void)state;
    double sum = 0, worst = 0;
    const int trials = 300;
    for (int trial = 0; trial < trials; trial++) {
        int n = 2 + random_below(150);
        Interval b[160];
        int64_t at[160];
        random_step(b, n, trial % 100);
        int64_t arena = planner_offsets(b, n, at), peak = planner_live_peak(b, n);
        assert_true(arena >= peak);
        check_disjoint(b, at, n, arena);
        double ratio = peak ? (double)arena / (double)peak : 1;
        sum += ratio;
        if (ratio > worst) worst = ratio;
    }
    printf("arena over live peak: mean %.4f, worst %.4f of %d\n", sum / trials, worst, trials);
    assert_true(sum / trials < 1.02 && worst < 1.15);
}

/* In the middle of a step: what is alive there stays where another packing has put it, and the rest finds room around it. */
static void what_is_held_stays(void **state)
{
    (void)state;
    double sum = 0;
    const int trials = 200;
    for (int trial = 0; trial < trials; trial++) {
        const int n = 2 + random_below(150), now = random_below(n);
        Interval b[160];
        int64_t before[160], held[160], at[160], whole, arena;
        random_step(b, n, trial % 100);
        whole = planner_offsets(b, n, before);
        for (int i = 0; i < n; i++) {
            const bool begun = b[i].first <= now;
            held[i] = begun && b[i].last > now ? before[i] : -1;
            if (held[i] >= 0) b[i].first = now;
            if (held[i] < 0) b[i].bytes = begun ? 0 : b[i].bytes / PLANNER_ALIGNMENT / 2 * PLANNER_ALIGNMENT; /* over; smaller than was thought */
        }
        arena = planner_offsets_around(b, n, held, at);
        check_disjoint(b, at, n, arena);
        for (int i = 0; i < n; i++) assert_true(held[i] < 0 || !b[i].bytes || at[i] == held[i]);
        sum += whole ? (double)arena / (double)whole : 0;
    }
    printf("arena around what is held, over that of all: mean %.4f of %d\n", sum / trials, trials);
    assert_true(sum / trials < 1);
}

static void many_buffers_are_fast(void **state)
{
    (void)state;
    enum { N = 10000 };
    Interval *b = malloc(N * sizeof *b);
    int64_t *at = malloc(N * sizeof *at);
    for (int stashes = 5; stashes <= 50; stashes += 45) {
        random_step(b, N, stashes);
        double start = now();
        int64_t arena = planner_offsets(b, N, at);
        double seconds = now() - start;
        check_disjoint(b, at, N, arena);
        printf("%d buffers, %d %% stashes: %.0f ms, arena over live peak %.4f\n", N, stashes, seconds * 1e3,
               (double)arena / (double)planner_live_peak(b, N));
        assert_true(seconds < 1.5); /* far above what it takes, for machines under load and sanitizers */
    }
    free(b);
    free(at);
}

static void known_cases(void **state)
{
    (void)state;
    Interval apart[] = {{0, 1, 512}, {2, 3, 512}, {4, 4, 256}}, together[] = {{0, 2, 512}, {2, 3, 512}, {1, 2, 0}};
    int64_t at[3];
    assert_int_equal(planner_offsets(apart, 3, at), 512);
    assert_int_equal(planner_offsets(together, 3, at), 1024);
    assert_int_equal(planner_live_peak(together, 3), 1024);
    assert_int_equal(planner_offsets(NULL, 0, NULL), 0);
}

static void same_input_same_offsets(void **state)
{
    (void)state;
    Interval b[300];
    int64_t one[300], two[300];
    random_step(b, 300, 40);
    assert_int_equal(planner_offsets(b, 300, one), planner_offsets(b, 300, two));
    assert_memory_equal(one, two, sizeof one);
}

/* An input first read at launch 3 is uploaded before launch 0, so nothing may use its place meanwhile; an output is read after the
 * last launch. */
static const Life late_lives[] = {{3, 3, "in", "", F32}, {0, 1, "early", "", F32}, {2, 2, "out", "", F32}, {3, 3, "later", "", F32}};
static void late_bytes(const int64_t *dims, int64_t *out)
{
    for (int i = 0; i < 4; i++) out[i] = dims[0];
}
static void inputs_and_outputs_are_kept(void **state)
{
    (void)state;
    static const int input_buffer[] = {0}, output_buffer[] = {2};
    Program program = {
        .n_buffers = 4, .lives = late_lives, .bytes = late_bytes, .n_inputs = 1, .input_buffer = input_buffer, .n_outputs = 1};
    program.output_buffer = output_buffer;
    program.n_launches = 4;
    Planner *planner = planner_create(1);
    const Plan *plan;
    int64_t dims[] = {256};
    assert_int_equal(planner_find(planner, &program, dims, &plan), PLANNER_OK);
    assert_true(plan->at[0] != plan->at[1] && plan->at[2] != plan->at[3]);
    assert_int_equal(plan->live_bytes, 768);
    planner_destroy(planner);
}

static void plans_are_kept_by_dims(void **state)
{
    (void)state;
    Planner *planner = planner_create(1);
    const Plan *a, *b, *again;
    int64_t four[] = {4}, large[] = {4000};
    assert_int_equal(planner_find(planner, tiny.train, four, &a), PLANNER_OK);
    assert_int_equal(planner_find(planner, tiny.train, large, &b), PLANNER_OK);
    assert_int_equal(planner_find(planner, tiny.train, four, &again), PLANNER_OK);
    assert_ptr_equal(a, again);
    assert_true(b->arena_bytes > a->arena_bytes && a->arena_bytes >= a->live_bytes && a->arena_bytes % PLANNER_ALIGNMENT == 0);
    planner_destroy(planner);
}

static void cubed(const int64_t *dims, int64_t *out)
{
    for (int i = 0; i < 4; i++) out[i] = dims[0] * dims[0] * dims[0] * 1000;
}
static void absurd_dims_are_refused(void **state)
{
    (void)state;
    Program program = {.n_buffers = 4, .lives = late_lives, .bytes = cubed, .n_launches = 4};
    Planner *planner = planner_create(1);
    const Plan *plan;
    for (int64_t n = INT64_C(1) << 20; n < INT64_C(1) << 62; n *= 2) {
        int64_t dims[] = {n + 1};
        assert_int_equal(planner_find(planner, &program, dims, &plan), PLANNER_TOO_LARGE);
    }
    planner_destroy(planner);
}

/* ---- blocks of rows: dims are rows, rows of a block ---- */
enum { ROW_BYTES = 128000, NARROW_BYTES = 256, WIDE_BYTES = 4096 };
static const Life row_lives[] = {{0, 2, "narrow", "", F32}, {1, 1, "scores", "", F32}, {0, 2, "wide", "", F32}};
static int64_t all_rows(const int64_t *dims)
{
    return dims[0];
}
static int64_t bytes_of_row(const int64_t *dims)
{
    (void)dims;
    return ROW_BYTES;
}
static void row_bytes(const int64_t *dims, int64_t *out)
{
    out[0] = dims[0] * NARROW_BYTES, out[1] = dims[1] * ROW_BYTES, out[2] = dims[0] * WIDE_BYTES;
}
static void lean_row_bytes(const int64_t *dims, int64_t *out) /* the wide one over blocks too */
{
    out[0] = dims[0] * NARROW_BYTES, out[1] = dims[1] * ROW_BYTES, out[2] = dims[1] * WIDE_BYTES;
}
static void row_traffic(const int64_t *dims, int64_t *moved, int64_t *least, int64_t *flops)
{
    *moved = *least = dims[0], *flops = 9 * dims[0];
}
static void lean_row_traffic(const int64_t *dims, int64_t *moved, int64_t *least, int64_t *flops)
{
    *moved = *least = dims[0], *flops = 11 * dims[0];
}
static const RowLoop row_loops[] = {{1, all_rows, bytes_of_row}};
static const Program lean_rows = {.n_buffers = 3, .lives = row_lives, .bytes = lean_row_bytes, .n_launches = 3, .n_blocks = 1, .blocks = row_loops,
                                  .traffic = lean_row_traffic, .n_again = 2};
static const Program rows_program = {.n_buffers = 3, .lives = row_lives, .bytes = row_bytes, .n_launches = 3, .n_blocks = 1, .blocks = row_loops,
                                     .traffic = row_traffic, .lean = &lean_rows};
static int64_t row_arena(int64_t rows, int64_t block, bool lean)
{
    return rows * NARROW_BYTES + block * ROW_BYTES + (lean ? block : rows) * WIDE_BYTES;
}

static void blocks_of_rows_follow_budgets(void **state)
{
    (void)state;
    Planner *planner = planner_create(2);
    const Plan *plan;
    const int64_t rows = 64000;
    const int64_t each = rows_per_block(rows, ROW_BYTES), dims[] = {rows, each};
    int64_t least;
    assert_true(each % 16 == 0 && each >= BLOCK_LEAST_ROWS && each * ROW_BYTES < BLOCK_BYTES + (4 << 20));
    assert_int_equal(planner_find_within(planner, &rows_program, dims, row_arena(rows, each, false), &plan), PLANNER_OK);
    assert_ptr_equal(plan->program, &rows_program);
    assert_int_equal(plan->dims[1], each);
    assert_int_equal(planner_row_blocks(&rows_program, plan->dims), (rows + each - 1) / each);
    /* one byte less: twice the blocks, nothing done again */
    assert_int_equal(planner_find_within(planner, &rows_program, dims, row_arena(rows, each, false) - 1, &plan), PLANNER_OK);
    assert_ptr_equal(plan->program, &rows_program);
    assert_int_equal(plan->recomputed, 0);
    assert_int_equal(planner_row_blocks(&rows_program, plan->dims), 2 * ((rows + each - 1) / each));
    /* less than the smallest blocks take: what is done again counts */
    assert_int_equal(planner_find_within(planner, &rows_program, dims, row_arena(rows, 64, false) - 1, &plan), PLANNER_OK);
    assert_ptr_equal(plan->program, &lean_rows);
    assert_int_equal(plan->recomputed_flops, 2 * rows);
    assert_int_equal(plan->recomputed, 2);
    assert_int_equal(planner_row_blocks(&lean_rows, plan->dims), (rows + each - 1) / each);
    /* the least is what suffices, and with less the smallest plan comes back */
    assert_int_equal(planner_least(planner, &rows_program, dims, &least), PLANNER_OK);
    assert_int_equal(planner_find_within(planner, &rows_program, dims, least, &plan), PLANNER_OK);
    assert_int_equal(plan->arena_bytes, least);
    assert_int_equal(planner_find_within(planner, &rows_program, dims, least - 1, &plan), PLANNER_OK);
    assert_int_equal(plan->arena_bytes, least);
    assert_true(plan->dims[1] <= BLOCK_FEWEST_ROWS);
    /* more room never takes more operations */
    for (int64_t i = 0, most = row_arena(rows, each, false), before = INT64_MAX; i <= 40; before = plan->recomputed_flops, i++) {
        assert_int_equal(planner_find_within(planner, &rows_program, dims, least + (most - least) * i / 40, &plan), PLANNER_OK);
        assert_true(plan->arena_bytes <= least + (most - least) * i / 40 && plan->recomputed_flops <= before);
    }
    planner_destroy(planner);
}

static void blocks_of_rows_can_be_said(void **state)
{
    (void)state;
    Planner *planner = planner_create(2);
    const Plan *plan;
    const int64_t dims[] = {1000, 1000};
    int64_t least;
    static const int64_t wanted[][2] = {{1, 1000}, {3, 334}, {1000, 1}, {5000, 1}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        planner_set_row_blocks(planner, wanted[i][0]);
        assert_int_equal(planner_find(planner, &rows_program, dims, &plan), PLANNER_OK);
        assert_int_equal(plan->dims[1], wanted[i][1]);
        assert_ptr_equal(plan->program, &rows_program);
        assert_int_equal(planner_find_within(planner, &rows_program, dims, 1, &plan), PLANNER_OK); /* nothing fits: still as many */
        assert_int_equal(plan->dims[1], wanted[i][1]);
        assert_ptr_equal(plan->program, &rows_program);
        assert_int_equal(planner_least(planner, &rows_program, dims, &least), PLANNER_OK);
        assert_int_equal(least, row_arena(1000, wanted[i][1], false));
        planner_set_lean(planner, LEAN_ON); /* whatever the room */
        assert_int_equal(planner_find(planner, &rows_program, dims, &plan), PLANNER_OK);
        assert_int_equal(plan->dims[1], wanted[i][1]);
        assert_ptr_equal(plan->program, wanted[i][0] > 1 ? &lean_rows : &rows_program);
        assert_int_equal(planner_least(planner, &rows_program, dims, &least), PLANNER_OK);
        assert_int_equal(least, row_arena(1000, wanted[i][1], wanted[i][0] > 1));
        planner_set_lean(planner, LEAN_AUTO);
    }
    planner_set_row_blocks(planner, 0);
    planner_set_lean(planner, LEAN_OFF);
    assert_int_equal(planner_find_within(planner, &rows_program, dims, 1, &plan), PLANNER_OK);
    assert_ptr_equal(plan->program, &rows_program);
    const Model m = {.n_dims = 2, .train = &rows_program};
    assert_false(planner_chooses(&m, 0));
    assert_true(planner_chooses(&m, 1));
    planner_destroy(planner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases),
        cmocka_unit_test(offsets_never_overlap),
        cmocka_unit_test(what_is_held_stays),
        cmocka_unit_test(many_buffers_are_fast),
        cmocka_unit_test(same_input_same_offsets),
        cmocka_unit_test(inputs_and_outputs_are_kept),
        cmocka_unit_test(plans_are_kept_by_dims),
        cmocka_unit_test(absurd_dims_are_refused),
        cmocka_unit_test(blocks_of_rows_follow_budgets),
        cmocka_unit_test(blocks_of_rows_can_be_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
