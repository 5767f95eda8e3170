/* Hands a program to the controller's own search.  Needs and breaks nothing. */
#include "emit/library.h"
#include "../../runtime/controller/ladder.h"
#include "../../runtime/controller/realise.h"
#include "support/diag.h"

static Program program_of(Arena *arena, const LibraryInput *in)
{
    Unit *units = NEW_ARRAY(arena, Unit, in->n_units + in->n_recipes + 1);
    Life *lives = NEW_ARRAY(arena, Life, in->n_buffers + 1);
    Point *points = NEW_ARRAY(arena, Point, in->n_points + 1);
    for (int u = 0; u < in->n_units + in->n_recipes; u++)
        units[u] = (Unit){in->units[u].first, in->units[u].last, in->units[u].again, "", in->units[u].of};
    for (int b = 0; b < in->n_buffers; b++) lives[b] = (Life){in->lives[b].first, in->lives[b].last, "", "", RAW};
    for (int k = 0; k < in->n_points; k++) points[k] = (Point){in->points[k].buffer, in->points[k].gone, in->points[k].back, "", false};
    return (Program){.n_buffers = in->n_buffers,
                     .lives = lives,
                     .n_inputs = in->n_inputs,
                     .input_buffer = in->input_buffer,
                     .n_units = in->n_units,
                     .units = units,
                     .n_recipes = in->n_recipes,
                     .touches = in->touches,
                     .n_points = in->n_points,
                     .points = points};
}

static int movable(const Flow *flow)
{
    int n = 0;
    for (int g = 0; g < flow->n_gaps; g++) n += flow->movable[g];
    return n;
}

/* Evenly spaced, the ends among them. */
static int choose(Arena *arena, const Flow *flow, const Ladder *ladder, const char **plans, int room)
{
    int n = ladder->n < room ? ladder->n : room;
    for (int i = 0; i < n; i++) {
        int rung = n > 1 ? (int)((int64_t)i * (ladder->n - 1) / (n - 1)) : 0;
        char *text = arena_alloc(arena, (size_t)flow->n_gaps + 1);
        ladder_text(flow, ladder->rungs[rung].modes, text);
        plans[i] = text;
    }
    return n;
}

int library_search(Arena *arena, const LibraryInput *in, int64_t touches, const char **plans, int room)
{
    enum { EVALUATIONS_A_GAP = 400 };
    const Program program = program_of(arena, in);
    Flow *flow = flow_create(&program);
    Sizes sizes = {0};
    Ladder ladder = {0};
    if (!flow || !sizes_make(&sizes, flow, &NOMINAL_RATES, in->bytes, in->flops, in->moved)) bug("no memory for plans");
    Simulation *simulation = simulation_create(flow, &sizes);
    int64_t most = (int64_t)EVALUATIONS_A_GAP * movable(flow), evaluations = ladder_effort(flow, touches);
    ladder_init(&ladder, flow);
    if (!simulation || !ladder_search(&ladder, simulation, evaluations < most ? evaluations : most)) bug("no memory for plans");
    ladder_straighten(&ladder);
    int n = choose(arena, flow, &ladder, plans, room);
    ladder_free(&ladder);
    simulation_destroy(simulation);
    sizes_free(&sizes);
    flow_destroy(flow);
    return n;
}

double library_flops_a_byte(void)
{
    return NOMINAL_RATES.flops / NOMINAL_RATES.moved;
}

/* ---- a plan in time ---- */
typedef struct {
    const Program *program;
    const Timeline *t;
    int *tick_of; /* by launch of the step */
    uint8_t *state; /* by buffer: 1: alive as without a plan, 2: otherwise */
} Run;

/* Without a plan: from the first launch that touches it to the last; the batch is there from the start. */
static Interval without_plan(const Run *r, int buffer, const uint8_t *is_input)
{
    const Life *life = &r->program->lives[buffer];
    return (Interval){is_input[buffer] ? 0 : r->tick_of[life->first], r->tick_of[life->last], 0};
}

static void list_again(Arena *arena, const Simulation *s, LibraryRun *run)
{
    run->again = NEW_ARRAY(arena, int, 2 * s->n_executions + 1);
    for (int e = 0; e < s->n_executions; e++) {
        if (s->execution[e] == s->stage[e]) continue;
        run->again[run->n_again++] = s->stage[e];
        run->again[run->n_again++] = s->execution[e];
    }
}

static void list_points(Arena *arena, const Simulation *s, LibraryRun *run)
{
    const Flow *f = s->flow;
    run->points = NEW_ARRAY(arena, int, f->program->n_points + 1);
    for (int g = 0; g < f->n_gaps; g++)
        if (f->gap_point[g] >= 0 && s->evicted[g]) run->points[run->n_points++] = f->gap_point[g];
}

static void find_ticks(Run *r)
{
    const Simulation *s = r->t->s;
    for (int e = 0; e < s->n_executions; e++) {
        const Unit *unit = &r->program->units[s->execution[e]];
        if (s->execution[e] != s->stage[e]) continue;
        for (int k = unit->first; k <= unit->last; k++) r->tick_of[k] = r->t->ticks[e] + k - unit->first;
    }
}

static void list_alive(Arena *arena, Run *r, const uint8_t *is_input, LibraryRun *run)
{
    const Timeline *t = r->t;
    const Simulation *s = t->s;
    const Flow *f = s->flow;
    int *buffer = NEW_ARRAY(arena, int, t->n_intervals + 1), n = 0;
    for (int i = 0; i < s->n_segments; i++) buffer[n++] = f->buffer[s->segments[i].version];
    for (int e = 0; e < s->n_executions; e++)
        for (int i = f->temp_at[s->execution[e]]; i < f->temp_at[s->execution[e] + 1]; i++) buffer[n++] = f->temp[i];
    for (int i = 0; i < n; i++) {
        const Interval plain = without_plan(r, buffer[i], is_input);
        const bool same = t->intervals[i].first == plain.first && t->intervals[i].last == plain.last;
        r->state[buffer[i]] = same && !r->state[buffer[i]] ? 1 : 2;
    }
    run->alive = NEW_ARRAY(arena, int, 3 * n + 1);
    for (int i = 0; i < n; i++) {
        if (r->state[buffer[i]] != 2) continue;
        run->alive[run->n_alive++] = buffer[i];
        run->alive[run->n_alive++] = t->intervals[i].first;
        run->alive[run->n_alive++] = t->intervals[i].last;
    }
}

static void run_one(Arena *arena, Simulation *s, const uint8_t *modes, const uint8_t *is_input, LibraryRun *run)
{
    Timeline t;
    const Program *program = s->flow->program;
    if (!timeline_open(&t, s, modes)) bug("a plan of the library cannot be run");
    int launches = 0;
    for (int u = 0; u < program->n_units; u++)
        if (program->units[u].last >= launches) launches = program->units[u].last + 1;
    Run r = {program, &t, NEW_ARRAY(arena, int, launches + 1), NEW_ARRAY(arena, uint8_t, program->n_buffers + 1)};
    find_ticks(&r);
    list_again(arena, s, run);
    list_points(arena, s, run);
    list_alive(arena, &r, is_input, run);
    timeline_close(&t);
}

void library_run(Arena *arena, const LibraryInput *in, const char *const *plans, int n, LibraryRun *runs)
{
    const Program program = program_of(arena, in);
    Flow *flow = flow_create(&program);
    Sizes sizes = {0};
    if (!flow || !sizes_make(&sizes, flow, &NOMINAL_RATES, in->bytes, in->flops, in->moved)) bug("no memory for plans");
    Simulation *simulation = simulation_create(flow, &sizes);
    if (!simulation) bug("no memory for plans");
    uint8_t *modes = NEW_ARRAY(arena, uint8_t, flow->n_gaps + 1), *is_input = NEW_ARRAY(arena, uint8_t, in->n_buffers + 1);
    for (int i = 0; i < in->n_inputs; i++)
        if (in->input_buffer[i] >= 0) is_input[in->input_buffer[i]] = 1;
    for (int i = 0; i < n; i++) {
        if (!ladder_parse(flow, plans[i], modes)) bug("a plan of the library cannot be read");
        run_one(arena, simulation, modes, is_input, &runs[i]);
    }
    simulation_destroy(simulation);
    sizes_free(&sizes);
    flow_destroy(flow);
}
