/* Late dims: a hopeful plan, then others in the middle of the step.  Needs: a planner.  Breaks: nothing. */
#include "late.h"
#include <stdlib.h>
#include <string.h>
#include "realise.h"

struct LatePlans {
    Planner *planner;
    const Program *program;
    const Flow *flow; /* NULL: a program without points */
    int64_t room;
    int n_dims, known, times;
    bool settled; /* planned for good */
    int64_t *bounds, *dims, *hopeful; /* dims: at their bounds as the step begins, as far as known, unknown ones next to nothing */
    int64_t *bytes, *least;           /* by buffer */
    uint8_t *modes, *first_modes, *tried, *alive; /* modes: of the plan now; alive: by buffer */
    int *past;
    Sizes sizes;
    Simulation *simulation;
    Plan *first, *now; /* now: NULL while the first is */
};

LatePlans *late_create(void)
{
    return calloc(1, sizeof(LatePlans));
}

static void drop_simulation(LatePlans *l)
{
    simulation_destroy(l->simulation);
    sizes_free(&l->sizes);
    l->simulation = NULL;
    memset(&l->sizes, 0, sizeof l->sizes);
}

static void clear(LatePlans *l)
{
    drop_simulation(l);
    free(l->bounds);
    free(l->modes);
    free(l->past);
    free(l->first);
    free(l->now);
    memset(l, 0, sizeof *l);
}

void late_destroy(LatePlans *l)
{
    if (!l) return;
    clear(l);
    free(l);
}

/* ---- sizes ---- */
/* Bytes of all buffers.  Hopefully: those first written after the next late dim is known, as if the unknown ones were next to nothing. */
static bool sizes_now(LatePlans *l, bool hopefully)
{
    const Program *p = l->program;
    const int next = l->known < p->n_late ? p->late[l->known].launch : p->n_launches;
    memcpy(l->hopeful, l->dims, (size_t)l->n_dims * sizeof *l->dims);
    for (int i = l->known; hopefully && i < p->n_late; i++)
        if (l->hopeful[p->late[i].dim] > 1) l->hopeful[p->late[i].dim] = 1;
    p->bytes(l->dims, l->bytes);
    p->bytes(l->hopeful, l->least);
    for (int b = 0; b < p->n_buffers; b++) l->bytes[b] = planner_aligned(hopefully && p->lives[b].first > next ? l->least[b] : l->bytes[b]);
    if (!l->flow) return true;
    Rates rates = *planner_rates_now(l->planner);
    rates.copied = 0; /* copies that have begun could not be called back */
    drop_simulation(l);
    if (!sizes_at_dims(&l->sizes, l->flow, &rates, l->hopeful, l->bytes)) return false;
    l->simulation = simulation_create(l->flow, &l->sizes);
    return l->simulation != NULL;
}

/* ---- plans ---- */
/* What has happened cannot be planned otherwise: a gap that is over keeps its mode, one that is open may still be given up. */
static void merge(const LatePlans *l, int unit, const uint8_t *wanted, uint8_t *out)
{
    const Flow *f = l->flow;
    for (int g = 0; g < f->n_gaps; g++) {
        const bool begun = flow_gap_start(f, g) <= unit, over = flow_gap_end(f, g) <= unit;
        out[g] = !begun ? wanted[g] : over || l->modes[g] != KEEP || wanted[g] == KEEP || !f->movable[g] ? l->modes[g] : EVICT;
    }
}

static Plan *try_modes(LatePlans *l, const Held *held, const uint8_t *modes)
{
    Plan *plan = held ? realise_modes_from(l->simulation, modes, held) : realise_modes(l->simulation, modes);
    if (plan && plan->arena_bytes <= l->room) {
        memmove(l->modes, modes, (size_t)l->flow->n_gaps);
        return plan;
    }
    free(plan);
    return NULL;
}

/* The modes so far, then those of a ladder, the fastest first. */
static Plan *search(LatePlans *l, Held *held)
{
    Ladder ladder;
    if (held && !realise_past(l->simulation, l->modes, held, l->past, &held->n_past, l->alive)) return NULL;
    Plan *plan = try_modes(l, held, l->modes);
    if (plan) return plan;
    ladder_init(&ladder, l->flow);
    const bool right = planner_ladder(&ladder, l->simulation);
    for (int i = 0; i < ladder.n && right && !plan; i++) {
        if (held)
            merge(l, held->unit, ladder.rungs[i].modes, l->tried);
        else
            memcpy(l->tried, ladder.rungs[i].modes, (size_t)l->flow->n_gaps);
        plan = try_modes(l, held, l->tried);
    }
    ladder_free(&ladder);
    return plan;
}

static Plan *plan_new(LatePlans *l, Held *held, bool hopefully)
{
    if (!sizes_now(l, hopefully)) return NULL;
    if (l->flow) return search(l, held);
    Plan *plan = realise_lives_from(l->program, l->bytes, held);
    if (plan && plan->arena_bytes <= l->room) return plan;
    free(plan);
    return NULL;
}

/* ---- a step ---- */
static bool open(LatePlans *l, const Flow *flow, const int64_t *dims, int n_dims)
{
    const size_t n = (size_t)n_dims + 1, buffers = (size_t)l->program->n_buffers + 1, gaps = flow ? (size_t)flow->n_gaps + 1 : 1;
    l->flow = flow;
    l->n_dims = n_dims;
    l->bounds = calloc(3 * n + 2 * buffers, sizeof *l->bounds);
    l->modes = calloc(3 * gaps + buffers, 1);
    l->past = malloc((flow ? simulation_room(flow) : 1) * sizeof *l->past);
    if (!l->bounds || !l->modes || !l->past) return false;
    l->dims = l->bounds + n;
    l->hopeful = l->dims + n;
    l->bytes = l->hopeful + n;
    l->least = l->bytes + buffers;
    l->first_modes = l->modes + gaps;
    l->tried = l->first_modes + gaps;
    l->alive = l->tried + gaps;
    memcpy(l->bounds, dims, (size_t)n_dims * sizeof *dims);
    memcpy(l->dims, dims, (size_t)n_dims * sizeof *dims);
    return true;
}

int late_begin(LatePlans *l, Planner *planner, const Program *program, const int64_t *dims, int n_dims, int64_t room, const Plan **plan)
{
    clear(l);
    *plan = NULL;
    l->planner = planner;
    l->program = program;
    l->room = room;
    const Flow *flow = program->n_points ? planner_flow(planner, program) : NULL;
    if ((program->n_points && !flow) || !open(l, flow, dims, n_dims)) return PLANNER_NO_MEMORY;
    l->first = plan_new(l, NULL, true);
    if (!l->first) return PLANNER_OK;
    if (flow) memcpy(l->first_modes, l->modes, (size_t)flow->n_gaps);
    l->first->program = program;
    l->first->dims = l->bounds;
    l->first->arena_bytes = room;
    l->first->hopeful = true;
    *plan = l->first;
    return PLANNER_OK;
}

static int unit_of(const Program *p, int launch)
{
    int u = 0;
    while (u < p->n_units && p->units[u].last < launch) u++;
    return u;
}

static void plan_again(Step *step, int dim)
{
    LatePlans *l = step->plans;
    const Program *p = l->program;
    if (l->settled || l->known == p->n_late || p->late[l->known].dim != dim) return;
    const int launch = p->late[l->known++].launch;
    Held held = {.unit = l->flow ? unit_of(p, launch) : -1, .launch = launch, .at = step->at, .alive = l->alive, .past = l->past};
    l->dims[dim] = step->late[dim];
    Plan *plan = plan_new(l, &held, false);
    l->settled = plan != NULL;
    if (!plan && l->known < p->n_late) plan = plan_new(l, &held, true);
    l->times++;
    if (!plan) {
        step->error = STEP_NO_ROOM;
        return;
    }
    memcpy(step->at, plan->at, (size_t)p->n_buffers * sizeof *step->at);
    step->recompute = plan->recompute;
    free(l->now);
    l->now = plan;
}

void late_step(LatePlans *l, Step *step)
{
    l->known = l->times = 0;
    l->settled = false;
    free(l->now);
    l->now = NULL;
    memcpy(l->dims, l->bounds, (size_t)l->n_dims * sizeof *l->dims);
    if (l->flow) memcpy(l->modes, l->first_modes, (size_t)l->flow->n_gaps);
    step->plan_again = plan_again;
    step->plans = l;
}

int late_times(const LatePlans *l)
{
    return l->times;
}

const Plan *late_plan(const LatePlans *l)
{
    return l->now ? l->now : l->first;
}
