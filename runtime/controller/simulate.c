/* Runs a step in thought: what is alive when, and what runs again, under a plan.  Needs: a Flow and sizes.  Breaks: nothing.
 * About 10 ns a touch: plans are compared by the thousand. */
#include "flow.h"
#include <stdlib.h>
#include <string.h>

enum { ON_HOST = 1, ARRIVING = 2 }; /* Simulation.away */
enum { ROOM = 12 }; /* executions a unit, on average, before a plan counts as one that cannot be done */

size_t simulation_room(const Flow *flow)
{
    return ROOM * ((size_t)flow->n_all + 1) + 64;
}

Simulation *simulation_create(const Flow *f, const Sizes *sizes)
{
    size_t units = (size_t)f->n_all + 1, versions = (size_t)f->n_versions + 1, gaps = (size_t)f->n_gaps + 1;
    size_t buffers = (size_t)f->program->n_buffers + 1, executions = simulation_room(f);
    size_t segments = executions + versions + (size_t)ROOM * (size_t)f->out_at[f->n_all];
    size_t ints = 2 * executions + segments + 2 * versions + buffers + 2 * units + (size_t)ROOM * (size_t)(f->in_at[f->n_all] + 1) +
                  (size_t)ROOM * (size_t)(f->out_at[f->n_all] + 1) + 64;
    Simulation *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->flow = f;
    s->sizes = sizes;
    s->room_executions = (int)executions;
    s->room_segments = (int)segments;
    s->segments = malloc(segments * sizeof *s->segments);
    s->alive = malloc((executions + 2 + units) * sizeof *s->alive);
    s->execution = malloc(ints * sizeof(int));
    s->resident = malloc(2 * versions + gaps);
    if (!s->segments || !s->alive || !s->execution || !s->resident) {
        simulation_destroy(s);
        return NULL;
    }
    s->unit_peak = s->alive + executions + 2;
    s->stage = s->execution + executions;
    s->opened_at = s->stage + executions;
    s->segment_of = s->opened_at + segments;
    s->gap_of = s->segment_of + versions;
    s->current = s->gap_of + versions;
    s->mark = s->current + buffers;
    s->list = s->mark + units;
    s->touched = s->list + units;
    s->evicted = s->resident + versions;
    s->away = s->evicted + gaps;
    memset(s->mark, 0, units * sizeof *s->mark);
    return s;
}

void simulation_destroy(Simulation *s)
{
    if (!s) return;
    free(s->segments);
    free(s->alive);
    free(s->execution);
    free(s->resident);
    free(s);
}

static bool used_up(const Simulation *s, int v) /* no unit of the step's own reads it any more */
{
    return s->gap_of[v] == s->flow->gap_at[v + 1] - 1;
}

static void leave(Simulation *s, int v)
{
    s->resident[v] = 0;
    if (!used_up(s, v)) s->evicted[s->gap_of[v]] = 1;
}

/* The recipe where what it takes of its unit's other results is there; else the unit itself. */
static int maker_again(const Simulation *s, int v)
{
    const Flow *f = s->flow;
    int r = f->remaker[v], u = f->maker[v];
    for (int i = r == u ? 0 : f->in_at[r]; r != u && i < f->in_at[r + 1]; i++)
        if (f->maker[f->in[i]] == u && !s->resident[f->in[i]]) return u;
    return r;
}

/* Lists the units that have to run again so that v is there at unit k. */
static bool need(Simulation *s, int v, int k, int *n)
{
    const Flow *f = s->flow;
    if (f->maker[v] < 0 || s->away[v]) return false;
    int u = maker_again(s, v);
    if (s->mark[u] == s->mark_number) return true;
    if (!f->program->units[u].again || k > f->kill[u]) return false;
    s->mark[u] = s->mark_number;
    s->list[(*n)++] = u;
    for (int i = f->in_at[u]; i < f->in_at[u + 1]; i++)
        if (!s->resident[f->in[i]] && !need(s, f->in[i], k, n)) return false;
    return true;
}

static void in_order(const Flow *f, int *list, int n)
{
    for (int i = 1; i < n; i++) {
        int u = list[i], j = i;
        for (; j > 0 && flow_order(f, list[j - 1]) > flow_order(f, u); j--) list[j] = list[j - 1];
        list[j] = u;
    }
}

static bool open_segment(Simulation *s, int v, int execution)
{
    if (s->n_segments >= s->room_segments) return false;
    s->segments[s->n_segments] = (Segment){v, execution, execution, -1};
    s->opened_at[s->n_segments] = execution;
    s->segment_of[v] = s->n_segments++;
    s->resident[v] = 1;
    s->current[s->flow->buffer[v]] = v;
    return true;
}

/* A result gets memory: that of what it overwrites (a recipe may do without it: then it need not be there), that in which it still lies,
 * or new memory.  One buffer holds one version. */
static bool make(Simulation *s, int v, int execution, bool again)
{
    const Flow *f = s->flow;
    int over = f->over[v], holds = s->current[f->buffer[v]];
    if (over >= 0 && s->resident[over]) {
        if (s->resident[v]) return false;
        s->segment_of[v] = s->segment_of[over];
        s->resident[over] = 0;
        s->resident[v] = 1;
        s->current[f->buffer[v]] = v;
        return true;
    }
    if (s->resident[v] && !(again && used_up(s, v))) {
        s->segments[s->segment_of[v]].last = execution;
        return true;
    }
    if (holds >= 0 && holds != v && s->away[holds] == ARRIVING) return false;
    if (holds >= 0 && holds != v && s->resident[holds]) {
        if (!used_up(s, holds)) return false;
        s->resident[holds] = 0;
    }
    return open_segment(s, v, execution);
}

static bool execute(Simulation *s, int u, int stage, int *n_touched)
{
    const Flow *f = s->flow;
    int e = s->n_executions;
    bool again = u != stage;
    if (e >= s->room_executions) return false;
    s->execution[e] = u;
    s->stage[e] = stage;
    s->n_executions++;
    for (int i = f->in_at[u]; i < f->in_at[u + 1]; i++) {
        int v = f->in[i];
        if (!s->resident[v]) return false;
        s->segments[s->segment_of[v]].last = e;
        if (again) s->touched[(*n_touched)++] = v;
    }
    for (int i = f->out_at[u]; i < f->out_at[u + 1]; i++) {
        if (!make(s, f->out[i], e, again)) return false;
        if (again) s->touched[(*n_touched)++] = f->out[i];
    }
    if (again) s->seconds += s->sizes->seconds[u], s->flops += s->sizes->flops[u];
    return true;
}

static bool gone_in(uint8_t mode)
{
    return mode == DROP || mode == EVICT;
}

/* ---- copies ---- */
static double beside(const Simulation *s, int from, int to) /* of units from .. to - 1 */
{
    double seconds = 0;
    for (int u = from; u < to; u++) seconds += s->sizes->seconds[u];
    return seconds;
}

/* One that costs no time is not for nothing either: it takes bandwidth from the launches beside it. */
static void copy(Simulation *s, int v, double hidden)
{
    double seconds = (double)s->sizes->bytes[v] / s->sizes->copied;
    s->seconds += seconds * 0.01 + (seconds > hidden ? seconds - hidden : 0);
    s->copying += seconds;
}

/* The unit behind which a copy may begin: the maker, or the end of an earlier gap, where the version may have come back elsewhere. */
static int copy_begins(const Simulation *s, int v)
{
    const Flow *f = s->flow;
    for (int gap = s->gap_of[v] - 1; gap >= f->gap_at[v]; gap--)
        if (f->gap_point[gap] >= 0) return flow_gap_end(f, gap);
    return f->maker[v];
}

/* The copy begins as soon as the version lies still, and is over before its memory serves others. */
static void send_away(Simulation *s, int v, int k)
{
    s->resident[v] = 0;
    s->away[v] = ON_HOST;
    s->offloaded += s->sizes->bytes[v];
    copy(s, v, beside(s, copy_begins(s, v) + 1, k + 1));
}

/* What unit k + 1 reads and the host has gets memory now; what unit k reads has come. */
static bool fetch(Simulation *s, int k)
{
    const Flow *f = s->flow;
    for (int i = f->in_at[k]; i < f->in_at[k + 1]; i++)
        if (s->away[f->in[i]] == ARRIVING) s->away[f->in[i]] = 0, s->resident[f->in[i]] = 1;
    for (int i = f->early_at[k]; i < f->early_at[k + 1]; i++) {
        int gap = f->early[i], v = f->gap_version[gap], holds = s->current[f->buffer[v]];
        if (s->away[v] != ON_HOST || s->gap_of[v] != gap) continue;
        if (holds >= 0 && holds != v && (s->resident[holds] || s->away[holds] == ARRIVING)) return false;
        if (!open_segment(s, v, s->n_executions)) return false;
        s->segments[s->n_segments - 1].point = f->gap_point[gap];
        s->resident[v] = 0;
        s->away[v] = ARRIVING;
        copy(s, v, s->sizes->seconds[k]);
    }
    return true;
}

static bool offloads(const Simulation *s, int v, const uint8_t *modes)
{
    return modes[s->gap_of[v]] == OFFLOAD && s->sizes->copied > 0 && flow_may_offload(s->flow, s->gap_of[v]);
}

static bool run_unit(Simulation *s, int k, const uint8_t *modes)
{
    const Flow *f = s->flow;
    int n = 0, touched = 0;
    s->mark_number++;
    if (!fetch(s, k)) return false;
    for (int i = f->in_at[k]; i < f->in_at[k + 1]; i++)
        if (!s->resident[f->in[i]] && !need(s, f->in[i], k, &n)) return false;
    in_order(f, s->list, n);
    for (int i = 0; i < n; i++)
        if (!execute(s, s->list[i], k, &touched)) return false;
    if (!execute(s, k, k, &touched)) return false;
    for (int i = 0; i < touched; i++) {
        int v = s->touched[i];
        bool wanted_now = flow_gap_end(f, s->gap_of[v]) == k; /* its next gap decides */
        if (s->resident[v] && f->maker[v] >= 0 && !wanted_now && (modes[s->gap_of[v]] & 1)) leave(s, v);
    }
    for (int i = f->in_at[k]; i < f->in_at[k + 1]; i++) {
        int v = f->in[i];
        s->gap_of[v]++;
        if (!s->resident[v] || f->maker[v] < 0) continue;
        if (gone_in(modes[s->gap_of[v]]))
            leave(s, v);
        else if (offloads(s, v, modes))
            send_away(s, v, k);
    }
    for (int i = f->out_at[k]; i < f->out_at[k + 1]; i++) {
        int v = f->out[i];
        s->gap_of[v] = f->gap_at[v];
        if (gone_in(modes[s->gap_of[v]]))
            leave(s, v);
        else if (offloads(s, v, modes))
            send_away(s, v, k);
    }
    return true;
}

static void begin(Simulation *s)
{
    const Flow *f = s->flow;
    memset(s->resident, 0, (size_t)f->n_versions);
    memset(s->away, 0, (size_t)f->n_versions);
    memset(s->evicted, 0, (size_t)f->n_gaps);
    for (int b = 0; b < f->program->n_buffers; b++) s->current[b] = -1;
    s->n_executions = s->n_segments = 0;
    s->seconds = s->copying = 0;
    s->flops = s->offloaded = 0;
    s->evaluations++;
    for (int v = 0; v < f->n_versions; v++) {
        s->gap_of[v] = f->gap_at[v];
        if (f->maker[v] >= 0) continue;
        open_segment(s, v, 0);
        s->opened_at[s->n_segments - 1] = -1;
    }
}

static void measure(Simulation *s)
{
    const Flow *f = s->flow;
    int64_t now = 0;
    memset(s->alive, 0, ((size_t)s->n_executions + 1) * sizeof *s->alive);
    for (int i = 0; i < s->n_segments; i++) {
        int64_t bytes = s->sizes->bytes[s->segments[i].version];
        s->alive[s->segments[i].first] += bytes;
        s->alive[s->segments[i].last + 1] -= bytes;
    }
    memset(s->unit_peak, 0, (size_t)f->n_units * sizeof *s->unit_peak);
    s->peak = s->peak_unit = 0;
    for (int e = 0; e < s->n_executions; e++) {
        now += s->alive[e];
        int64_t here = now + s->sizes->temp_bytes[s->execution[e]];
        int k = s->stage[e];
        if (here > s->unit_peak[k]) s->unit_peak[k] = here;
        if (here > s->peak) s->peak = here, s->peak_unit = k;
    }
}

bool simulate(Simulation *s, const uint8_t *modes, double most_seconds)
{
    begin(s);
    for (int k = 0; k < s->flow->n_units; k++)
        if (!run_unit(s, k, modes) || s->seconds > most_seconds) return false;
    /* copies one way wait for each other */
    if (s->copying / 2 > s->sizes->all_seconds + s->seconds) s->seconds = s->copying / 2 - s->sizes->all_seconds;
    measure(s);
    return s->seconds <= most_seconds;
}
