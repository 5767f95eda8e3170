/* Gives a plan's segments offsets, and lists what its points have to do.  Needs: a simulation.  Breaks: nothing. */
#include "realise.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Unit *unit_of(const Timeline *t, int execution)
{
    return &t->s->flow->program->units[t->s->execution[execution]];
}

/* Launches of a unit are told apart where a buffer's life begins or ends in it. */
static int tick(const Timeline *t, int execution, int launch, bool last)
{
    const Unit *unit = unit_of(t, execution);
    bool within = launch >= unit->first && launch <= unit->last;
    return t->ticks[execution] + (within ? launch - unit->first : last ? unit->last - unit->first : 0);
}

static void add_segments(Timeline *t)
{
    const Simulation *s = t->s;
    for (int i = 0; i < s->n_segments; i++) {
        const Segment *g = &s->segments[i];
        const Life *life = &s->flow->program->lives[s->flow->buffer[g->version]];
        int first = s->opened_at[i] < 0 ? 0 : tick(t, g->first, life->first, false), last = tick(t, g->last, life->last, true);
        t->intervals[t->n_intervals++] = (Interval){first, last < first ? first : last, s->sizes->bytes[g->version]};
    }
}

static void add_temporaries(Timeline *t, const int64_t *buffer_bytes)
{
    const Flow *f = t->s->flow;
    for (int e = 0; e < t->s->n_executions; e++) {
        int u = t->s->execution[e], first = f->program->units[u].first;
        t->temps_at[e] = t->n_intervals;
        for (int i = f->temp_at[u]; i < f->temp_at[u + 1]; i++) {
            const Life *life = &f->program->lives[f->temp[i]];
            int begin = t->ticks[e] + life->first - first;
            t->intervals[t->n_intervals++] = (Interval){begin, begin + life->last - life->first, buffer_bytes[f->temp[i]]};
        }
    }
}

void timeline_close(Timeline *t)
{
    free(t->intervals);
    free(t->ticks);
}

bool timeline_open(Timeline *t, Simulation *s, const uint8_t *modes)
{
    memset(t, 0, sizeof *t);
    t->s = s;
    if (!simulate(s, modes, INFINITY)) return false;
    int n = s->n_segments, now = 0;
    for (int e = 0; e < s->n_executions; e++) n += s->flow->temp_at[s->execution[e] + 1] - s->flow->temp_at[s->execution[e]];
    t->intervals = malloc(((size_t)n + 1) * sizeof *t->intervals);
    t->ticks = malloc(2 * ((size_t)s->n_executions + 1) * sizeof *t->ticks);
    if (!t->intervals || !t->ticks) {
        timeline_close(t);
        return false;
    }
    t->temps_at = t->ticks + s->n_executions + 1;
    for (int e = 0; e < s->n_executions; e++) {
        t->ticks[e] = now;
        now += unit_of(t, e)->last - unit_of(t, e)->first + 1;
    }
    add_segments(t);
    add_temporaries(t, s->sizes->buffer_bytes);
    return true;
}

int64_t realise_live_peak(Simulation *s, const uint8_t *modes)
{
    Timeline t;
    if (!timeline_open(&t, s, modes)) return -1;
    int64_t peak = planner_live_peak(t.intervals, t.n_intervals);
    timeline_close(&t);
    return peak;
}

/* ---- actions ---- */
typedef struct {
    Plan plan;
    Recompute recompute;
} Realised;

typedef struct {
    const Timeline *t;
    const int64_t *offsets; /* by interval */
    int *segment_first;     /* by execution: the first segment that it opened; segments are in that order */
    uint8_t *acts;
    int *first;
    Action *actions;
    int n_actions;
} Writer;

static void put(Writer *w, Action a)
{
    w->actions[w->n_actions++] = a;
}

/* Places for what the execution makes and uses, then the unit itself. */
static void put_execution(Writer *w, int e, Plan *plan)
{
    const Simulation *s = w->t->s;
    const Flow *f = s->flow;
    int u = s->execution[e];
    for (int i = w->segment_first[e]; i < w->segment_first[e + 1]; i++)
        if (s->segments[i].point < 0) put(w, (Action){f->buffer[s->segments[i].version], -1, w->offsets[i]});
    for (int i = f->temp_at[u]; i < f->temp_at[u + 1]; i++)
        put(w, (Action){f->temp[i], -1, w->offsets[w->t->temps_at[e] + i - f->temp_at[u]]});
    put(w, (Action){-1, u, 0});
    plan->recomputed += f->program->units[u].last - f->program->units[u].first + 1;
    plan->recomputed_flops += s->sizes->flops[u];
    plan->recomputed_moved += s->sizes->moved[u];
}

/* What runs before unit k hangs on the first point that acts there. */
static void put_points(Writer *w, const int *gap_of_point, int *stage_first, Plan *plan)
{
    const Simulation *s = w->t->s;
    const Flow *f = s->flow;
    for (int k = 0; k < f->program->n_points; k++) {
        w->first[k] = w->n_actions;
        if (gap_of_point[k] < 0 || (!w->acts[k] && !s->evicted[gap_of_point[k]])) continue;
        int u = flow_gap_end(f, gap_of_point[k]), e = stage_first[u];
        if (!w->acts[k]) w->acts[k] = POINT_REMAKES;
        stage_first[u] = s->n_executions;
        for (; e < s->n_executions && s->stage[e] == u && s->execution[e] != u; e++) put_execution(w, e, plan);
    }
    w->first[f->program->n_points] = w->n_actions;
}

static void put_initial(const Timeline *t, const int64_t *offsets, int64_t *at)
{
    const Simulation *s = t->s;
    const Flow *f = s->flow;
    for (int i = 0; i < s->n_segments; i++) {
        int e = s->opened_at[i];
        if (s->segments[i].point >= 0) continue;
        if (e < 0 || s->execution[e] == s->stage[e]) at[f->buffer[s->segments[i].version]] = offsets[i];
    }
    for (int e = 0; e < s->n_executions; e++) {
        int u = s->execution[e];
        if (u != s->stage[e]) continue;
        for (int i = f->temp_at[u]; i < f->temp_at[u + 1]; i++) at[f->temp[i]] = offsets[t->temps_at[e] + i - f->temp_at[u]];
    }
}

/* What comes back from the host, where, and where it lies meanwhile. */
static void put_offloads(const Timeline *t, const int64_t *offsets, uint8_t *acts, int64_t *back_at, Plan *plan)
{
    const Simulation *s = t->s;
    const size_t points = (size_t)s->flow->program->n_points;
    int64_t *host_at = back_at + points, *copied = host_at + points;
    for (int i = 0; i < s->n_segments; i++) {
        const Segment *g = &s->segments[i];
        if (g->point < 0) continue;
        acts[g->point] = POINT_OFFLOADS;
        back_at[g->point] = offsets[i];
        host_at[g->point] = plan->host_bytes;
        copied[g->point] = s->sizes->bytes[g->version];
        plan->host_bytes += s->sizes->bytes[g->version];
    }
    plan->offloaded_bytes = s->offloaded;
}

static void index_executions(const Simulation *s, int *segment_first, int *stage_first)
{
    int segment = 0;
    for (int u = 0; u < s->flow->n_units; u++) stage_first[u] = s->n_executions;
    while (segment < s->n_segments && s->opened_at[segment] < 0) segment++;
    for (int e = 0; e < s->n_executions; e++) {
        segment_first[e] = segment;
        while (segment < s->n_segments && s->opened_at[segment] == e) segment++;
        if (s->execution[e] != s->stage[e] && stage_first[s->stage[e]] == s->n_executions) stage_first[s->stage[e]] = e;
    }
    segment_first[s->n_executions] = segment;
}

static Plan *write_plan(const Timeline *t, const int64_t *offsets)
{
    const Simulation *s = t->s;
    const Flow *f = s->flow;
    const Program *p = f->program;
    size_t points = (size_t)p->n_points, buffers = (size_t)p->n_buffers;
    size_t n_actions = (size_t)t->n_intervals + (size_t)s->n_executions + 1,
           ints = (size_t)s->n_executions + 1 + (size_t)f->n_units;
    Realised *r = calloc(1, sizeof *r + (buffers + 1 + (size_t)f->n_units + 3 * points) * sizeof(int64_t) + n_actions * sizeof(Action) +
                                (points + 1) * sizeof(int) + points + 1);
    int *scratch = malloc((ints + points + 1) * sizeof *scratch);
    if (!r || !scratch) {
        free(r);
        free(scratch);
        return NULL;
    }
    int64_t *at = (int64_t *)(r + 1);
    Writer w = {.t = t, .offsets = offsets, .segment_first = scratch};
    int64_t *unit_peak = at + buffers + 1;
    int64_t *back_at = unit_peak + f->n_units;
    w.actions = (Action *)(back_at + 3 * points);
    memcpy(unit_peak, s->unit_peak, (size_t)f->n_units * sizeof *unit_peak);
    r->plan.unit_peak = unit_peak;
    w.first = (int *)(w.actions + n_actions);
    w.acts = (uint8_t *)(w.first + points + 1);
    int *stage_first = scratch + s->n_executions + 1, *gap_of_point = stage_first + f->n_units;
    index_executions(s, w.segment_first, stage_first);
    for (size_t k = 0; k < points; k++) gap_of_point[k] = -1;
    for (int g = 0; g < f->n_gaps; g++)
        if (f->gap_point[g] >= 0) gap_of_point[f->gap_point[g]] = g;
    put_initial(t, offsets, at);
    put_offloads(t, offsets, w.acts, back_at, &r->plan);
    put_points(&w, gap_of_point, stage_first, &r->plan);
    r->recompute = (Recompute){w.acts, w.first, w.actions, back_at, back_at + points, back_at + 2 * points};
    r->plan.at = at;
    bool acts = false;
    for (size_t k = 0; k < points; k++) acts |= w.acts[k];
    r->plan.recompute = acts ? &r->recompute : NULL;
    free(scratch);
    return &r->plan;
}

Plan *realise_modes(Simulation *s, const uint8_t *modes)
{
    Timeline t;
    Plan *plan = NULL;
    if (!timeline_open(&t, s, modes)) return NULL;
    int64_t *offsets = malloc(((size_t)t.n_intervals + 1) * sizeof *offsets);
    int64_t arena = offsets ? planner_offsets(t.intervals, t.n_intervals, offsets) : -1;
    int64_t live = planner_live_peak(t.intervals, t.n_intervals);
    if (arena >= 0 && live >= 0) plan = write_plan(&t, offsets);
    if (plan) plan->arena_bytes = arena, plan->live_bytes = live;
    free(offsets);
    timeline_close(&t);
    return plan;
}

/* ---- from the middle of a step ---- */
typedef struct {
    int execution; /* the unit's own */
    int now, end;  /* ticks: the launch that ran last, the unit's last */
} Now;

static bool moment_of(const Timeline *t, const Held *held, Now *m)
{
    const Simulation *s = t->s;
    int e = 0;
    while (e < s->n_executions && (s->execution[e] != held->unit || s->stage[e] != held->unit)) e++;
    if (e == s->n_executions) return false;
    const Unit *unit = unit_of(t, e);
    *m = (Now){e, t->ticks[e] + held->launch - unit->first, t->ticks[e] + unit->last - unit->first};
    return true;
}

bool realise_past(Simulation *s, const uint8_t *modes, const Held *held, int *past, int *n_past, uint8_t *alive)
{
    Timeline t;
    Now m;
    if (!timeline_open(&t, s, modes)) return false;
    bool right = moment_of(&t, held, &m);
    *n_past = right ? m.execution + 1 : 0;
    memcpy(past, s->execution, (size_t)*n_past * sizeof *past);
    memset(alive, 0, (size_t)s->flow->program->n_buffers);
    for (int i = 0; i < s->n_segments && right; i++)
        if (t.intervals[i].first <= m.end && t.intervals[i].last > m.now) alive[s->flow->buffer[s->segments[i].version]] = 1;
    timeline_close(&t);
    return right;
}

/* What is over takes no memory; what has begun is held, unless it is not there. */
static bool hold(Interval *interval, const Now *m, int64_t at, bool there, int64_t *held)
{
    *held = -1;
    if (interval->first > m->end) return true;
    if (interval->last <= m->now) {
        interval->bytes = 0;
        return true;
    }
    interval->first = m->now;
    *held = at;
    return there;
}

static bool hold_all(Timeline *t, const Held *held, int64_t *offsets)
{
    const Simulation *s = t->s;
    const Flow *f = s->flow;
    Now m;
    if (!moment_of(t, held, &m) || held->n_past != m.execution + 1) return false;
    if (memcmp(held->past, s->execution, (size_t)held->n_past * sizeof *held->past)) return false;
    for (int i = 0; i < s->n_segments; i++) {
        const int b = f->buffer[s->segments[i].version];
        if (!hold(&t->intervals[i], &m, held->at[b], held->alive[b], &offsets[i])) return false;
    }
    for (int e = 0; e < s->n_executions; e++)
        for (int k = f->temp_at[s->execution[e]], i = t->temps_at[e]; k < f->temp_at[s->execution[e] + 1]; k++, i++)
            hold(&t->intervals[i], &m, held->at[f->temp[k]], true, &offsets[i]);
    return true;
}

Plan *realise_modes_from(Simulation *s, const uint8_t *modes, const Held *held)
{
    Timeline t;
    Plan *plan = NULL;
    if (!timeline_open(&t, s, modes)) return NULL;
    int64_t *offsets = malloc(2 * ((size_t)t.n_intervals + 1) * sizeof *offsets), *holds = offsets ? offsets + t.n_intervals + 1 : NULL;
    int64_t arena = offsets && hold_all(&t, held, holds) ? planner_offsets_around(t.intervals, t.n_intervals, holds, offsets) : -1;
    if (arena >= 0) plan = write_plan(&t, offsets);
    if (plan) {
        const Program *p = s->flow->program;
        int64_t *at = (int64_t *)((Realised *)plan + 1);
        plan->arena_bytes = arena;
        for (int b = 0; b < p->n_buffers; b++)
            if (p->lives[b].first <= p->units[held->unit].last) at[b] = held->at[b];
    }
    free(offsets);
    timeline_close(&t);
    return plan;
}

/* ---- by lives ---- */
/* As the step needs them: inputs are uploaded before the first launch, outputs are read after the last. */
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

Plan *realise_lives(const Program *program, const int64_t *buffer_bytes)
{
    return realise_lives_from(program, buffer_bytes, NULL);
}

Plan *realise_lives_from(const Program *program, const int64_t *buffer_bytes, const Held *held)
{
    size_t n = (size_t)program->n_buffers;
    Interval *intervals = malloc((n + 1) * sizeof *intervals);
    int64_t *holds = malloc((n + 1) * sizeof *holds);
    Realised *r = calloc(1, sizeof *r + (n + 1) * sizeof(int64_t));
    if (intervals && holds && r) {
        int64_t *at = (int64_t *)(r + 1);
        intervals_of(program, buffer_bytes, intervals);
        r->plan.at = at;
        r->plan.live_bytes = planner_live_peak(intervals, program->n_buffers);
        for (size_t i = 0; i < n && held; i++) hold(&intervals[i], &(Now){0, held->launch, held->launch}, held->at[i], true, &holds[i]);
        r->plan.arena_bytes = planner_offsets_around(intervals, program->n_buffers, held ? holds : NULL, at);
        for (size_t i = 0; i < n && held; i++)
            if (program->lives[i].first <= held->launch) at[i] = held->at[i];
    }
    bool right = intervals && holds && r && r->plan.live_bytes >= 0 && r->plan.arena_bytes >= 0;
    free(intervals);
    free(holds);
    if (right) return &r->plan;
    free(r);
    return NULL;
}
