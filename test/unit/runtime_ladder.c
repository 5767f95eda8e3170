/* The ladder of plans on random steps: forward units, some in place, a loss, backward units that read what forward made, weights
 * assigned when their gradient is there.  A plan is carried out on numbers that stand for buffers: whatever is read must be what
 * the step without any plan would have read, and never lie where another buffer lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "../../runtime/controller/ladder.h"
#include "../../runtime/controller/planner.h"
#include "../../runtime/controller/realise.h"

enum { UNITS = 160, BUFFERS = 160, TOUCHES = 2048, POINTS = 512, DEEPEST = 24 };

typedef struct {
    Unit units[UNITS];
    int touches[TOUCHES], n_touches;
    Life lives[BUFFERS];
    int64_t bytes[BUFFERS], flops[UNITS], moved[UNITS];
    Point points[POINTS];
    int input_buffer[1];
    Program program;
    int last_touch[BUFFERS], maker[BUFFERS];
    int point_maker[POINTS]; /* unit after which what a point gives up is copied to the host */
    int recipe_from[UNITS], recipe_to[UNITS]; /* by unit: its second result is made of its first alone; 0: it has none */
} Random;

static Random made; /* tables are functions of dims alone: one at a time */

static void random_bytes(const int64_t *dims, int64_t *out)
{
    for (int i = 0; i < made.program.n_buffers; i++) out[i] = made.bytes[i] * dims[0];
}

static void random_costs(const int64_t *dims, int64_t *flops, int64_t *moved)
{
    for (int u = 0; u < made.program.n_units + made.program.n_recipes; u++)
        flops[u] = made.flops[u] * dims[0], moved[u] = made.moved[u] * dims[0];
}

static void touch(int what)
{
    made.touches[made.n_touches++] = what;
}

static void touch_buffer(int b, int u)
{
    touch(b);
    if (made.lives[b].first < 0) made.lives[b].first = u;
    made.lives[b].last = u;
}

static int new_buffer(void)
{
    int b = made.program.n_buffers++;
    made.lives[b] = (Life){-1, -1, "buffer", "", F32};
    made.bytes[b] = 1 + rand() % 64;
    made.maker[b] = -1;
    return b;
}

static void read_buffer(int b, int u)
{
    if (made.maker[b] >= 0 && made.units[made.maker[b]].again && u - made.last_touch[b] > 2) {
        made.point_maker[made.program.n_points] = made.maker[b];
        made.points[made.program.n_points++] = (Point){b, made.last_touch[b], u, "again", rand() % 3 > 0};
    }
    touch_buffer(b, u);
    made.last_touch[b] = u;
}

static int begin_unit(bool again)
{
    int u = made.program.n_units++;
    made.units[u] = (Unit){u, u, again, "unit", u};
    made.flops[u] = 1 + rand() % 1000;
    made.moved[u] = 1 + rand() % 1000;
    return u;
}

static void write_buffer(int b, int u)
{
    touch_buffer(b, u);
    made.maker[b] = made.last_touch[b] = u;
}

/* depth layers: h[i + 1] = f(h[i], weight i), perhaps through an operation in place and with a second result. */
static void random_step(int depth)
{
    int h[DEEPEST + 1], side[DEEPEST];
    memset(&made, 0, sizeof made);
    h[0] = made.input_buffer[0] = new_buffer();
    for (int i = 0; i < depth; i++) {
        bool in_place = rand() % 3 == 0;
        int u = begin_unit(true);
        read_buffer(h[i], u);
        if (i > 1 && rand() % 2) read_buffer(h[i - 1], u);
        touch(~i);
        touch(TOUCHES_END);
        write_buffer(h[i + 1] = new_buffer(), u);
        side[i] = rand() % 3 ? -1 : new_buffer();
        if (side[i] >= 0) write_buffer(side[i], u);
        if (side[i] >= 0 && rand() % 2) made.recipe_from[u] = h[i + 1], made.recipe_to[u] = side[i];
        if (rand() % 4 == 0) write_buffer(new_buffer(), u); /* scratch */
        touch(TOUCHES_END);
        if (!in_place) continue;
        u = begin_unit(true);
        if (side[i] >= 0) read_buffer(side[i], u);
        touch(TOUCHES_END);
        write_buffer(h[i + 1], u);
        touch(TOUCHES_END);
    }
    int d = new_buffer();
    int loss = begin_unit(false);
    read_buffer(h[depth], loss);
    touch(TOUCHES_END);
    write_buffer(d, loss);
    touch(TOUCHES_END);
    for (int i = depth - 1; i >= 0; i--) {
        int u = begin_unit(false), next = new_buffer();
        read_buffer(d, u);
        read_buffer(h[i], u);
        if (side[i] >= 0) read_buffer(side[i], u);
        if (rand() % 2) read_buffer(h[i + 1], u);
        touch(TOUCHES_END);
        write_buffer(next, u);
        touch(~i); /* the weight changes */
        touch(TOUCHES_END);
        d = next;
    }
    for (int u = 0; u < made.program.n_units; u++) {
        if (!made.recipe_to[u]) continue;
        int r = made.program.n_units + made.program.n_recipes++;
        made.units[r] = (Unit){-1, -1, true, "recipe", u};
        made.flops[r] = made.moved[r] = 1 + rand() % 20;
        touch(made.recipe_from[u]), touch(TOUCHES_END);
        touch(made.recipe_to[u]), touch(TOUCHES_END);
    }
    made.program.n_inputs = 1;
    made.program.input_buffer = made.input_buffer;
    made.program.n_launches = made.program.n_units;
    made.program.units = made.units;
    made.program.touches = made.touches;
    made.program.lives = made.lives;
    made.program.points = made.points;
    made.program.bytes = random_bytes;
    made.program.costs = random_costs;
}

/* ---- carrying a plan out ---- */
typedef struct {
    uint64_t content[BUFFERS], weights[DEEPEST], read[UNITS];
    int64_t at[BUFFERS];
    uint64_t *memory; /* what each byte of the arena holds: its buffer's content */
    uint64_t host[POINTS];
} Machine;

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15 ^ b;
    z = (z ^ z >> 31) * 0xbf58476d1ce4e5b9;
    return z ^ z >> 29;
}

static void store(Machine *m, int b, uint64_t content)
{
    for (int64_t i = 0; m->memory && i < made.bytes[b]; i++) m->memory[m->at[b] + i] = content;
    m->content[b] = content;
}

static uint64_t load(const Machine *m, int b)
{
    if (!m->memory) return m->content[b];
    for (int64_t i = 1; i < made.bytes[b]; i++)
        if (m->memory[m->at[b] + i] != m->memory[m->at[b]]) return 0;
    return m->memory[m->at[b]];
}

static void run_unit(Machine *m, int u, bool again)
{
    const int *t = made.touches;
    uint64_t h = (uint64_t)u + 1;
    for (int skip = 0; skip < 2 * u; skip++) {
        while (*t != TOUCHES_END) t++;
        t++;
    }
    for (; *t != TOUCHES_END; t++) h = mix(h, *t >= 0 ? load(m, *t) : m->weights[~*t]);
    const int *writes = ++t;
    for (; *t != TOUCHES_END; t++)
        if (*t >= 0 && made.lives[*t].first < u && *t != made.input_buffer[0]) h = mix(h, load(m, *t)); /* in place */
    if (u >= made.program.n_units) {
        store(m, *writes, mix(load(m, made.recipe_from[made.units[u].of]), 5));
        return;
    }
    if (!again) m->read[u] = h;
    for (t = writes; *t != TOUCHES_END; t++) {
        if (*t < 0)
            m->weights[~*t] = mix(m->weights[~*t], h);
        else
            store(m, *t, made.recipe_to[u] == *t ? mix(mix(h, 0), 5) : mix(h, (uint64_t)(t - writes)));
    }
}

/* Copies end as late as they may. */
static void copies_before(Machine *m, const Recompute *r, int u)
{
    for (int k = 0; r && k < made.program.n_points; k++)
        if (r->acts[k] == POINT_OFFLOADS && made.points[k].back == u) store(m, made.points[k].buffer, m->host[k]);
    for (int k = 0; r && k < made.program.n_points; k++) {
        if (r->acts[k] != POINT_OFFLOADS || made.points[k].back - 1 != u) continue;
        m->at[made.points[k].buffer] = r->back_at[k];
        store(m, made.points[k].buffer, 3);
    }
}

static void copies_after(Machine *m, const Recompute *r, int u)
{
    for (int k = 0; r && k < made.program.n_points; k++) {
        if (r->acts[k] != POINT_OFFLOADS) continue;
        if (made.point_maker[k] == u) m->host[k] = load(m, made.points[k].buffer);
        if (made.points[k].gone == u) assert_int_equal(m->host[k], load(m, made.points[k].buffer));
    }
}

static void run_step(Machine *m, const Plan *plan)
{
    const Recompute *copies = plan ? plan->recompute : NULL;
    for (int i = 0; i < DEEPEST; i++) m->weights[i] = (uint64_t)i + 99;
    if (plan) memcpy(m->at, plan->at, (size_t)made.program.n_buffers * sizeof *m->at);
    store(m, made.input_buffer[0], 7);
    for (int u = 0; u < made.program.n_units; u++) {
        copies_before(m, copies, u);
        for (int k = 0; plan && plan->recompute && k < made.program.n_points; k++) {
            const Recompute *r = plan->recompute;
            if (made.points[k].back != u) continue;
            if (!r->acts[k]) assert_int_equal(r->first[k], r->first[k + 1]);
            for (int a = r->first[k]; a < r->first[k + 1]; a++) {
                if (r->actions[a].unit >= 0)
                    run_unit(m, r->actions[a].unit, true);
                else
                    m->at[r->actions[a].buffer] = r->actions[a].at;
            }
        }
        run_unit(m, u, false);
        copies_after(m, copies, u);
    }
}

static void check_plan(const Plan *plan)
{
    static Machine plain, planned;
    memset(&plain, 0, sizeof plain);
    memset(&planned, 0, sizeof planned);
    planned.memory = calloc((size_t)plan->arena_bytes + 64, sizeof *planned.memory);
    run_step(&plain, NULL);
    run_step(&planned, plan);
    free(planned.memory);
    for (int u = 0; u < made.program.n_units; u++) assert_int_equal(planned.read[u], plain.read[u]);
    assert_memory_equal(planned.weights, plain.weights, sizeof plain.weights);
}

static int recipes_of(const Plan *plan)
{
    int n = 0;
    for (int a = 0; plan->recompute && a < plan->recompute->first[made.program.n_points]; a++)
        n += plan->recompute->actions[a].unit >= made.program.n_units;
    return n;
}

/* ---- tests ---- */
static void plans_change_nothing(void **state)
{
    (void)state;
    int again = 0, recipes = 0;
    for (int trial = 0; trial < 60; trial++) {
        srand((unsigned)trial);
        random_step(3 + rand() % 9);
        Planner *planner = planner_create(1);
        int64_t dims[] = {1}, least;
        const Plan *plan;
        assert_int_equal(planner_find(planner, &made.program, dims, &plan), PLANNER_OK);
        assert_null(plan->recompute);
        check_plan(plan);
        int64_t most = plan->arena_bytes;
        assert_int_equal(planner_least(planner, &made.program, dims, &least), PLANNER_OK);
        for (int i = 0; i < 8; i++) {
            int64_t room = i == 0 ? least : least + (int64_t)(rand() % 1000) * (most - least) / 1000;
            assert_int_equal(planner_find_within(planner, &made.program, dims, room, &plan), PLANNER_OK);
            assert_true(plan->arena_bytes <= room && plan->live_bytes <= plan->arena_bytes);
            check_plan(plan);
            again += plan->recomputed;
            recipes += recipes_of(plan);
        }
        assert_int_equal(planner_find_within(planner, &made.program, dims, least - 1, &plan), PLANNER_OK);
        assert_int_equal(plan->arena_bytes, least);
        planner_destroy(planner);
    }
    assert_true(again > 200 && recipes > 20);
}

static void offloading_changes_nothing(void **state)
{
    (void)state;
    int offloads = 0, both = 0;
    const Rates rates = {1e12, 1e12, 1e12};
    for (int trial = 0; trial < 24; trial++) {
        srand((unsigned)trial + 4000);
        random_step(4 + rand() % 9);
        Planner *planner = planner_create(1);
        int64_t dims[] = {1}, least;
        const Plan *plan;
        planner_rates(planner, &rates);
        assert_int_equal(planner_least(planner, &made.program, dims, &least), PLANNER_OK);
        assert_int_equal(planner_find(planner, &made.program, dims, &plan), PLANNER_OK);
        assert_null(plan->recompute);
        int64_t most = plan->arena_bytes;
        for (int i = 0; i < 8; i++) {
            int64_t room = i == 0 ? least : least + (int64_t)(rand() % 1000) * (most - least) / 1000;
            assert_int_equal(planner_find_within(planner, &made.program, dims, room, &plan), PLANNER_OK);
            assert_true(plan->arena_bytes <= room && plan->live_bytes <= plan->arena_bytes);
            assert_true((plan->host_bytes > 0) == (plan->offloaded_bytes > 0));
            check_plan(plan);
            offloads += plan->host_bytes > 0;
            both += plan->host_bytes > 0 && plan->recomputed > 0;
        }
        planner_destroy(planner);
    }
    assert_true(offloads > 60 && both > 20);
}

static void more_room_costs_no_more(void **state)
{
    (void)state;
    for (int trial = 0; trial < 30; trial++) {
        srand((unsigned)trial + 1000);
        random_step(3 + rand() % 12);
        Planner *planner = planner_create(1);
        int64_t dims[] = {3}, least, flops = INT64_MAX, moved = 0;
        const Plan *plan;
        assert_int_equal(planner_least(planner, &made.program, dims, &least), PLANNER_OK);
        assert_int_equal(planner_find(planner, &made.program, dims, &plan), PLANNER_OK);
        int64_t most = plan->arena_bytes;
        for (int i = 0; i <= 40; i++) {
            assert_int_equal(planner_find_within(planner, &made.program, dims, least + (most - least) * i / 40, &plan), PLANNER_OK);
            assert_true(plan->recomputed_flops <= flops);
            flops = plan->recomputed_flops;
            moved = plan->recomputed_moved;
        }
        assert_true(flops == 0 && moved == 0);
        planner_destroy(planner);
    }
}

static void rungs_are_pareto(void **state)
{
    (void)state;
    for (int trial = 0; trial < 20; trial++) {
        srand((unsigned)trial + 2000);
        random_step(4 + rand() % 10);
        int64_t dims[] = {2}, bytes[BUFFERS];
        Flow *flow = flow_create(&made.program);
        Sizes sizes;
        Ladder ladder;
        random_bytes(dims, bytes);
        assert_true(sizes_at_dims(&sizes, flow, &NOMINAL_RATES, dims, bytes));
        Simulation *s = simulation_create(flow, &sizes);
        ladder_init(&ladder, flow);
        assert_true(ladder_search(&ladder, s, 4000));
        ladder_straighten(&ladder);
        assert_true(ladder.n > 0 && ladder.rungs[0].flops == 0);
        for (int i = 0; i < ladder.n; i++) {
            assert_true(simulate(s, ladder.rungs[i].modes, 1e300));
            assert_int_equal(s->peak, ladder.rungs[i].peak);
            assert_int_equal(s->flops, ladder.rungs[i].flops);
            assert_int_equal(realise_live_peak(s, ladder.rungs[i].modes), s->peak);
            if (!i) continue;
            assert_true(ladder.rungs[i].peak < ladder.rungs[i - 1].peak && ladder.rungs[i].seconds > ladder.rungs[i - 1].seconds);
            assert_true(ladder.rungs[i].flops >= ladder.rungs[i - 1].flops);
        }
        char text[TOUCHES];
        uint8_t modes[TOUCHES];
        ladder_text(flow, ladder.rungs[ladder.n - 1].modes, text);
        assert_true(ladder_parse(flow, text, modes));
        assert_memory_equal(modes, ladder.rungs[ladder.n - 1].modes, (size_t)flow->n_gaps);
        ladder_free(&ladder);
        simulation_destroy(s);
        sizes_free(&sizes);
        flow_destroy(flow);
    }
}

static void the_same_each_time(void **state)
{
    (void)state;
    srand(77);
    random_step(12);
    int64_t dims[] = {5}, least[2], flops[2];
    for (int i = 0; i < 2; i++) {
        Planner *planner = planner_create(1);
        const Plan *plan;
        assert_int_equal(planner_least(planner, &made.program, dims, &least[i]), PLANNER_OK);
        assert_int_equal(planner_find_within(planner, &made.program, dims, least[i] + 999, &plan), PLANNER_OK);
        flops[i] = plan->recomputed_flops;
        planner_destroy(planner);
    }
    assert_true(least[0] == least[1] && flops[0] == flops[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_change_nothing), cmocka_unit_test(offloading_changes_nothing), cmocka_unit_test(more_room_costs_no_more),
                                       cmocka_unit_test(rungs_are_pareto), cmocka_unit_test(the_same_each_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
