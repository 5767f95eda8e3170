/* Steps recorded and replayed, on the simulator's stand-in for graphs: a replay does what the step would have done, whatever changes; what does
 * not go is done one by one, in its unit and place; how many are kept, and which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../runtime/controller/graphs.h"

/* A step of three units: x = a; y = 2 x; commit reads y; y = y + b.  Each "kernel" is to (launch, argument). */
typedef struct {
    KernelLaunch launch;
    int64_t *to;
    int64_t argument;
} Kernel;
enum { SET, TWICE, PLUS };
static int run_kernel(Step *s, const void *what)
{
    const Kernel *k = what;
    (void)s;
    if (k->launch.blocks == SET) *k->to = k->argument;
    if (k->launch.blocks == TWICE) *k->to *= k->argument;
    if (k->launch.blocks == PLUS) *k->to += k->argument;
    return 0;
}
static int change_kernel(void *graph, void *node, const void *what)
{
    return (void)graph, (void)node, (void)what, 0;
}
static const NodeKind kernel_kind = {run_kernel, change_kernel, false};
typedef struct {
    int64_t *to, times;
} Product;
static int run_product(Step *s, const void *what)
{
    const Product *p = what;
    (void)s;
    *p->to *= p->times;
    return 0;
}
static const NodeKind product_kind = {run_product, NULL, false};

static void launch(Step *s, const char *name, unsigned operation, int64_t *to, int64_t argument)
{
    const Kernel k = {{name, name, operation, 1}, to, argument};
    if (s->error) return;
    if (!s->begun) unit_begins(s);
    if (s->error) return;
    s->kernel = name;
    if (!s->recording) s->error = device_launching(s->device, name);
    if (s->error) return;
    if (s->recording)
        record(s, &kernel_kind, &k, sizeof k);
    else
        run_kernel(s, &k);
}
static void unit(Step *s, int number)
{
    unit_ends(s);
    s->unit = number;
    s->nth_unit++;
    s->begun = s->ended = false;
}

/* What the step is asked for, and where it lies. */
static struct World {
    Device *device;
    int64_t memory[8], at[2], dims[1], read;
    int64_t a, b, times;
    bool skips, more, moves;
    int stops; /* what it returns at the commit */
    const uint8_t acts[1];
} w;

static int run(Step *s)
{
    unit(s, 0);
    launch(s, "set", SET, &w.memory[s->at[0]], w.a);
    if (w.moves) {
        unit_ends(s);
        record_move(s, 0, 3);
        unit(s, 0);
        launch(s, "set", SET, &w.memory[s->at[0]], w.a);
    }
    unit(s, 1);
    if (w.more) launch(s, "more", PLUS, &w.memory[s->at[0]], 100);
    const Product p = {&w.memory[s->at[0]], w.times};
    if (s->error) return s->error;
    if (!s->begun) unit_begins(s);
    if (s->recording)
        record(s, &product_kind, &p, sizeof p);
    else if (!s->error)
        run_product(s, &p);
    record_pause(s);
    w.read = w.memory[s->at[0]];
    if (s->error || w.stops) return s->error ? s->error : w.stops;
    unit(s, 2);
    if (!w.skips) launch(s, "plus", PLUS, &w.memory[s->at[0]], w.b);
    return s->error;
}

static const Program program = {.name = "train", .n_buffers = 2, .run = run, .n_units = 3, .n_points = 1};
static const DimInfo dims[] = {{.name = "batch"}};
static const Model model_of_test = {.n_dims = 1, .dims = dims};

static Step step_of(void)
{
    static const Recompute recompute = {.acts = w.acts};
    w.at[0] = 1, w.at[1] = 2;
    return (Step){.dims = w.dims, .at = w.at, .program = &program, .device = w.device, .recompute = &recompute};
}

static int open_world(void **state)
{
    (void)state;
    memset(w.memory, 0, sizeof w.memory);
    w.dims[0] = 4, w.a = 5, w.b = 1, w.times = 2;
    w.skips = w.more = w.moves = false;
    w.stops = 0;
    return device_open(&w.device, 0);
}
static int close_world(void **state)
{
    (void)state;
    device_close(w.device);
    return 0;
}

/* One step of graphs; returns what is in memory at the end. */
static int64_t step(Graphs *g, int64_t room)
{
    Step s = step_of();
    graphs_begin(g, &s, room);
    int ended = run(&s);
    graphs_end(g, &s, ended);
    assert_null(s.recording);
    assert_int_equal(s.error, 0);
    return w.memory[w.moves ? 3 : 1];
}
static int events(Graphs *g, const char *event, const char *why)
{
    GraphEvent e;
    int n = 0;
    while (graphs_event(g, &e)) n += !strcmp(e.event, event) && !strcmp(e.why, why);
    return n;
}
static const int64_t PLENTY = 1 << 20;

static void replays_what_changes(void **state)
{
    (void)state;
    Graphs *g = graphs_create(&model_of_test, w.device);
    for (int i = 0; i < 12; i++) {
        w.a = 5 + i % 4, w.b = i;
        assert_int_equal(step(g, PLENTY), 2 * w.a + w.b);
        assert_int_equal(w.read, 2 * w.a);
        assert_int_equal(events(g, "graph_recorded", ""), i == GRAPHS_HOT);
        assert_int_equal(graphs_bytes(g) > 0, i >= GRAPHS_HOT);
    }
    graphs_destroy(g);
}

/* A product whose operands are others cannot be told to the graph, and an operation more or less is another step. */
static void another_step_is_done_one_by_one(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        Graphs *g = graphs_create(&model_of_test, w.device);
        for (int i = 0; i < 6; i++) {
            w.times = what == 0 && i == 5 ? 3 : 2;
            w.more = what == 1 && i == 5;
            w.skips = what == 2 && i == 5;
            const int64_t expected = w.times * (w.a + (w.more ? 100 : 0)) + (w.skips ? 0 : w.b);
            assert_int_equal(step(g, PLENTY), expected);
        }
        assert_int_equal(events(g, "graph_dropped", "the step launches something else than was recorded"), what < 2);
        assert_int_equal(graphs_bytes(g) > 0, what == 2); /* nothing behind the commit: no graph is launched */
        w.skips = w.more = false, w.times = 2;
        for (int i = 0; i < 6; i++) assert_int_equal(step(g, PLENTY), 2 * w.a + w.b);
        graphs_destroy(g);
    }
}

static void fewer_launches_are_done_one_by_one(void **state)
{
    (void)state;
    Graphs *g = graphs_create(&model_of_test, w.device);
    w.more = true;
    for (int i = 0; i < 5; i++) step(g, PLENTY);
    w.more = false, w.times = 3; /* the product comes in the place of what is left out */
    assert_int_equal(step(g, PLENTY), 3 * w.a + w.b);
    assert_int_equal(events(g, "graph_dropped", "the step launches something else than was recorded"), 1);
    graphs_destroy(g);
}

static void graphs_that_fail_are_dropped(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 6; nth++) {
        Graphs *g = graphs_create(&model_of_test, w.device);
        device_faults(w.device)->fail_graph = nth;
        for (int i = 0; i < 10; i++) {
            w.a = i, w.b = 3 * i;
            w.moves = nth % 2;
            assert_int_equal(step(g, PLENTY), 2 * w.a + w.b);
            assert_int_equal(w.at[0], w.moves ? 3 : 1);
        }
        assert_int_equal(events(g, "graph_dropped", "it could not be launched"), 1);
        assert_int_equal(graphs_bytes(g), 0);
        graphs_destroy(g);
    }
}

/* Who watches makes the results of a unit whose kernel fails, when the graph it was in cannot be launched either. */
static int mended_unit, mended_place;
static void begins(Watch *watch, Step *s)
{
    (void)watch, (void)s;
}
static void ends(Watch *watch, Step *s)
{
    (void)watch;
    assert_null(s->recording);
    if (!s->error) return;
    mended_unit = s->unit;
    mended_place = (int)s->at[0];
    if (s->unit == 2) w.memory[s->at[0]] += w.b;
    if (s->unit == 0) w.memory[s->at[0]] = w.a;
    s->error = 0;
}
static void failing_kernels_of_failing_graphs_are_mended(void **state)
{
    (void)state;
    Watch watch = {false, begins, ends};
    for (int after = 0; after < 2; after++) { /* the commit */
        Recording *r = recording_create(w.device);
        for (int i = 0; i < 4; i++) {
            Step s = step_of();
            DeviceFaults *faults = device_faults(w.device);
            s.watch = &watch;
            w.a = 10 + i, w.b = 20 + i;
            mended_unit = -1;
            if (i == 2) {
                *faults = (DeviceFaults){.fail_graph = 1 + after, .fail_launch = 1};
                strcpy(faults->kernel, after ? "plus" : "set");
            }
            if (i < 3) assert_int_equal(recording_begin(r, &s, PLENTY), 0);
            int ended = run(&s);
            if (i < 3) assert_int_equal(recording_end(r, &s, ended), i < 2);
            unit_ends(&s);
            assert_int_equal(s.error, 0);
            assert_int_equal(w.memory[1], 2 * w.a + w.b);
            assert_int_equal(mended_unit, i == 2 ? 2 * after : -1);
        }
        assert_string_equal(recording_why(r), "it could not be launched");
        recording_destroy(r);
    }
}

static void moved_buffers_are_mended_where_they_lay(void **state)
{
    (void)state;
    Watch watch = {false, begins, ends};
    Recording *r = recording_create(w.device);
    w.moves = true;
    for (int i = 0; i < 2; i++) {
        Step s = step_of();
        s.watch = &watch;
        DeviceFaults *faults = device_faults(w.device);
        if (i == 1) *faults = (DeviceFaults){.fail_graph = 1, .fail_launch = 1, .kernel = "set"};
        assert_int_equal(recording_begin(r, &s, PLENTY), 0);
        recording_end(r, &s, run(&s));
        assert_int_equal(w.memory[3], 2 * w.a + w.b);
    }
    assert_int_equal(mended_place, 1); /* where it was before it moved */
    recording_destroy(r);
}

static void memory_is_counted_and_bounded(void **state)
{
    (void)state;
    Graphs *g = graphs_create(&model_of_test, w.device);
    for (int i = 0; i < 6; i++) assert_int_equal(step(g, 100), 11);
    assert_int_equal(events(g, "graph_dropped", "the budget leaves no room for it"), 1);
    assert_int_equal(graphs_bytes(g), 0);
    assert_int_equal(device_high_water(w.device), 0);
    graphs_destroy(g);
    g = graphs_create(&model_of_test, w.device);
    for (int i = 0; i < 6; i++) step(g, PLENTY);
    assert_true(graphs_bytes(g) > 0);
    assert_int_equal(device_high_water(w.device), graphs_bytes(g));
    graphs_drop(g, "the arena is replaced");
    assert_int_equal(graphs_bytes(g), 0);
    assert_int_equal(device_take(w.device, 1), 0); /* given back: the mark does not rise */
    assert_int_equal(events(g, "graph_dropped", "the arena is replaced"), 1);
    graphs_destroy(g);
}

static void what_comes_most_is_kept(void **state)
{
    (void)state;
    Graphs *g = graphs_create(&model_of_test, w.device);
    for (int64_t batch = 1; batch <= GRAPHS_MOST + 1; batch++)
        for (int i = 0; i <= GRAPHS_HOT; i++) {
            w.dims[0] = batch;
            step(g, PLENTY);
        }
    assert_int_equal(events(g, "graph_dropped", "others were replayed since"), 1); /* the first one's */
    for (int i = 0; i < 2 * (GRAPHS_HOT + 1); i++) {
        w.dims[0] = 1;
        step(g, PLENTY);
        const bool again = i == GRAPHS_HOT + 1; /* as it had come so often, it must come twice as often */
        assert_int_equal(events(g, "graph_recorded", ""), again);
    }
    graphs_destroy(g);
}

/* A step that ends at the commit point is recorded another time; where it was recorded, its first graph alone is launched. */
static void steps_may_end_early(void **state)
{
    (void)state;
    Graphs *g = graphs_create(&model_of_test, w.device);
    for (int i = 0; i < 16; i++) {
        w.stops = i == GRAPHS_HOT || i == 12 ? STEP_NOT_FINITE : 0;
        assert_int_equal(step(g, PLENTY), 2 * w.a + (w.stops ? 0 : w.b));
    }
    GraphEvent e;
    assert_true(graphs_event(g, &e) && !strcmp(e.why, "its step did not come to its end"));
    assert_true(graphs_event(g, &e) && !strcmp(e.event, "graph_recorded"));
    assert_int_equal(e.size.launches, 3);
    assert_int_equal(e.size.graphs, 2);
    assert_false(graphs_event(g, &e));
    graphs_destroy(g);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(replays_what_changes), TEST(another_step_is_done_one_by_one), TEST(fewer_launches_are_done_one_by_one),
        TEST(graphs_that_fail_are_dropped), TEST(failing_kernels_of_failing_graphs_are_mended), TEST(moved_buffers_are_mended_where_they_lay),
        TEST(memory_is_counted_and_bounded), TEST(what_comes_most_is_kept), TEST(steps_may_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
