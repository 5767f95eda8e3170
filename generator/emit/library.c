/* Hands a program to the controller's own search.  Needs and breaks nothing. */
#include "emit/library.h"
#include "../../runtime/controller/ladder.h"
#include "support/diag.h"

static Program program_of(Arena *arena, const LibraryInput *in)
{
    Unit *units = NEW_ARRAY(arena, Unit, in->n_units + in->n_recipes + 1);
    Life *lives = NEW_ARRAY(arena, Life, in->n_buffers + 1);
    Point *points = NEW_ARRAY(arena, Point, in->n_points + 1);
    for (int u = 0; u < in->n_units + in->n_recipes; u++)
        units[u] = (Unit){in->units[u].first, in->units[u].last, in->units[u].again, "", in->units[u].of};
    for (int b = 0; b < in->n_buffers; b++) lives[b] = (Life){in->lives[b].first, in->lives[b].last, "", ""};
    for (int k = 0; k < in->n_points; k++) points[k] = (Point){in->points[k].buffer, in->points[k].gone, in->points[k].back, ""};
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
    if (!flow || !sizes_make(&sizes, flow, in->bytes, in->flops, in->moved)) bug("no memory for plans");
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
