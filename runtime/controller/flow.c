/* Reads a program's tables into a Flow, and sizes at some dims.  Needs: Program.units and what belongs to them.  Breaks: nothing.
 */
#include "flow.h"
#include <stdlib.h>
#include <string.h>
#include "planner.h"

enum { GONE = -1 };
enum { LEAST_AWAY = 3 }; /* units between two uses of what is offloaded: one runs while it is away */
const Rates NOMINAL_RATES = {60e12, 2.5e12, 0}, OFFLOAD_RATES = {60e12, 2.5e12, 25e9};

typedef struct {
    Flow *f;
    int *cursor;                 /* into memory not yet given out */
    int *current;                /* by buffer: version that it holds */
    int *first_unit, *last_unit; /* by buffer: that touch it */
} Builder;

static int list_length(const int *list)
{
    int n = 0;
    while (list[n] != TOUCHES_END) n++;
    return n;
}

static int touches_length(const Program *p)
{
    int n = 0;
    for (int list = 0; list < 2 * (p->n_units + p->n_recipes); list++) n += list_length(p->touches + n) + 1;
    return n;
}

static int *take(Builder *b, int n)
{
    int *at = b->cursor;
    b->cursor += n;
    return at;
}

static void find_spans(Builder *b)
{
    const Program *p = b->f->program;
    const int *t = p->touches;
    for (int i = 0; i < p->n_buffers; i++) b->first_unit[i] = b->last_unit[i] = GONE;
    for (int u = 0; u < p->n_units; u++)
        for (int list = 0; list < 2; list++, t++)
            for (; *t != TOUCHES_END; t++)
                if (*t >= 0) {
                    if (b->first_unit[*t] == GONE) b->first_unit[*t] = u;
                    b->last_unit[*t] = u;
                }
    for (int i = 0; i < p->n_inputs; i++)
        if (p->input_buffer[i] >= 0) b->first_unit[p->input_buffer[i]] = GONE;
}

static int version_new(Builder *b, int buffer, int maker, int over)
{
    Flow *f = b->f;
    int v = f->n_versions++;
    f->buffer[v] = buffer;
    f->maker[v] = maker;
    f->over[v] = over;
    b->current[buffer] = v;
    return v;
}

static bool among(const int *list, int n, int what)
{
    for (int i = 0; i < n; i++)
        if (list[i] == what) return true;
    return false;
}

/* A buffer that lives within the unit is its temporary; one written again is read too: its old version becomes the new one. */
static void read_unit(Builder *b, int u, const int *reads, const int *writes)
{
    Flow *f = b->f;
    int n_reads = list_length(reads), n_writes = list_length(writes);
    int *in = f->in + f->in_at[u], n_in = 0, *out = f->out + f->out_at[u], n_out = 0, *temp = f->temp + f->temp_at[u], n_temp = 0;
    for (int i = 0; i < n_reads; i++) {
        if (reads[i] < 0) continue;
        int v = b->current[reads[i]];
        if (v >= 0 && !among(in, n_in, v)) in[n_in++] = v;
    }
    for (int i = 0; i < n_writes; i++) {
        int buffer = writes[i], old;
        if (buffer < 0 || among(writes, i, buffer)) continue;
        if (b->first_unit[buffer] == u && b->last_unit[buffer] == u) {
            temp[n_temp++] = buffer;
            continue;
        }
        old = b->current[buffer];
        if (old >= 0 && !among(in, n_in, old)) in[n_in++] = old;
        out[n_out++] = version_new(b, buffer, u, old);
    }
    f->in_at[u + 1] = f->in_at[u] + n_in;
    f->out_at[u + 1] = f->out_at[u] + n_out;
    f->temp_at[u + 1] = f->temp_at[u] + n_temp;
}

static int version_in(const Flow *f, const int *list, int from, int to, int buffer)
{
    for (int i = from; i < to; i++)
        if (f->buffer[list[i]] == buffer) return list[i];
    return GONE;
}

/* What its unit makes it reads as made, the rest as its unit reads it. */
static void read_recipe(Builder *b, int r, const int *reads, const int *writes)
{
    Flow *f = b->f;
    int u = f->program->units[r].of, n_in = f->in_at[r], n_out = f->out_at[r];
    for (; *reads != TOUCHES_END; reads++) {
        if (*reads < 0) continue;
        int v = version_in(f, f->out, f->out_at[u], f->out_at[u + 1], *reads);
        if (v < 0) v = version_in(f, f->in, f->in_at[u], f->in_at[u + 1], *reads);
        if (v >= 0) f->in[n_in++] = v;
    }
    for (; *writes != TOUCHES_END; writes++) {
        int v = version_in(f, f->out, f->out_at[u], f->out_at[u + 1], *writes);
        if (v < 0) continue;
        f->out[n_out++] = v;
        f->remaker[v] = r;
    }
    f->in_at[r + 1] = n_in;
    f->out_at[r + 1] = n_out;
    f->temp_at[r + 1] = f->temp_at[r];
}

static void read_units(Builder *b)
{
    const Program *p = b->f->program;
    const int *t = p->touches;
    for (int i = 0; i < p->n_buffers; i++) b->current[i] = GONE;
    for (int i = 0; i < p->n_inputs; i++)
        if (p->input_buffer[i] >= 0) version_new(b, p->input_buffer[i], -1, GONE);
    for (int u = 0; u < p->n_units; u++) {
        const int *reads = t, *writes = reads + list_length(reads) + 1;
        read_unit(b, u, reads, writes);
        t = writes + list_length(writes) + 1;
    }
    for (int v = 0; v < b->f->n_versions; v++) b->f->remaker[v] = b->f->maker[v];
    for (int r = p->n_units; r < p->n_units + p->n_recipes; r++) {
        const int *reads = t, *writes = reads + list_length(reads) + 1;
        read_recipe(b, r, reads, writes);
        t = writes + list_length(writes) + 1;
    }
}

/* From the end to the start: who assigns next what a unit reads. */
static void find_kills(Flow *f, const int *touches, int *next_assign, int n_tensors)
{
    const Program *p = f->program;
    const int *t = touches;
    for (int i = 0; i < n_tensors; i++) next_assign[i] = p->n_units;
    for (int pass = 0; pass < 2; pass++) { /* the first assignment of each tensor, then of what each unit reads */
        t = touches;
        for (int u = 0; u < f->n_all; u++) {
            int kill = p->n_units;
            for (; *t != TOUCHES_END; t++)
                if (pass && *t < 0 && next_assign[~*t] < kill) kill = next_assign[~*t];
            for (t++; *t != TOUCHES_END; t++)
                if (!pass && *t < 0 && next_assign[~*t] == p->n_units) next_assign[~*t] = u;
            t++;
            if (pass) f->kill[u] = kill;
        }
    }
}

static void find_uses(Flow *f, int *count)
{
    memset(count, 0, (size_t)f->n_versions * sizeof *count);
    for (int i = 0; i < f->in_at[f->n_units]; i++) count[f->in[i]]++;
    f->use_at[0] = f->gap_at[0] = 0;
    for (int v = 0; v < f->n_versions; v++) {
        f->use_at[v + 1] = f->use_at[v] + count[v];
        f->gap_at[v + 1] = f->gap_at[v] + count[v] + 1;
        count[v] = 0;
    }
    for (int u = 0; u < f->n_units; u++)
        for (int i = f->in_at[u]; i < f->in_at[u + 1]; i++) f->use[f->use_at[f->in[i]] + count[f->in[i]]++] = u;
    f->n_gaps = f->gap_at[f->n_versions];
    for (int v = 0; v < f->n_versions; v++)
        for (int g = f->gap_at[v]; g < f->gap_at[v + 1]; g++) f->gap_version[g] = v;
}

static int unit_at(const Program *p, int launch)
{
    for (int u = 0; u < p->n_units; u++)
        if (p->units[u].last >= launch) return u;
    return p->n_units;
}

static void find_points(Flow *f)
{
    const Program *p = f->program;
    for (int g = 0; g < f->n_gaps; g++) {
        int v = f->gap_version[g];
        f->gap_point[g] = -1;
        f->movable[g] = g == f->gap_at[v + 1] - 1 && f->maker[v] >= 0 && p->units[f->maker[v]].again;
    }
    for (int k = 0; k < p->n_points; k++) {
        int u = unit_at(p, p->points[k].back);
        for (int i = f->in_at[u]; i < f->in_at[u + 1]; i++) {
            int v = f->in[i];
            if (f->buffer[v] != p->points[k].buffer || f->maker[v] < 0 || !p->units[f->maker[v]].again) continue;
            for (int g = f->gap_at[v]; g < f->gap_at[v + 1] - 1; g++)
                if (flow_gap_end(f, g) == u) f->gap_point[g] = k, f->movable[g] = 1;
        }
    }
}

int flow_order(const Flow *f, int unit)
{
    return unit < f->n_units ? 2 * unit : 2 * f->program->units[unit].of + 1;
}

int flow_gap_start(const Flow *f, int gap)
{
    int v = f->gap_version[gap], i = gap - f->gap_at[v];
    return i ? f->use[f->use_at[v] + i - 1] : f->maker[v];
}

int flow_gap_end(const Flow *f, int gap)
{
    int v = f->gap_version[gap], i = gap - f->gap_at[v];
    return i < f->use_at[v + 1] - f->use_at[v] ? f->use[f->use_at[v] + i] : f->n_units;
}

bool flow_may_offload(const Flow *f, int gap)
{
    return f->gap_point[gap] >= 0 && f->program->points[f->gap_point[gap]].offload &&
           flow_gap_end(f, gap) - flow_gap_start(f, gap) >= LEAST_AWAY;
}

static void find_early(Flow *f, int *cursor)
{
    for (int g = 0; g < f->n_gaps; g++)
        if (flow_may_offload(f, g)) f->early_at[flow_gap_end(f, g)]++;
    for (int u = 0; u < f->n_units; u++) f->early_at[u + 1] += f->early_at[u], cursor[u] = f->early_at[u];
    for (int g = 0; g < f->n_gaps; g++)
        if (flow_may_offload(f, g)) f->early[cursor[flow_gap_end(f, g) - 1]++] = g;
}

/* Greatest ~i among the touches, and one more. */
static int tensors_of(const Program *p, int n_touches)
{
    int n = 0;
    for (int i = 0; i < n_touches; i++)
        if (p->touches[i] < 0 && p->touches[i] != TOUCHES_END && ~p->touches[i] >= n) n = ~p->touches[i] + 1;
    return n;
}

Flow *flow_create(const Program *p)
{
    int touches = touches_length(p), tensors = tensors_of(p, touches), units = p->n_units + p->n_recipes, buffers = p->n_buffers;
    int versions = touches + p->n_inputs + 1, gaps = 2 * touches + versions + 1;
    size_t ints = 6 * ((size_t)units + 1) + 13 * (size_t)versions + 6 * (size_t)touches + 3 * (size_t)gaps + 3 * (size_t)buffers +
                  (size_t)tensors + 16;
    Flow *f = calloc(1, sizeof *f);
    if (f) f->memory = calloc(ints * sizeof(int) + (size_t)gaps, 1);
    if (!f || !f->memory) {
        free(f);
        return NULL;
    }
    Builder b = {.f = f, .cursor = f->memory};
    f->program = p;
    f->n_units = p->n_units;
    f->n_all = units;
    f->in_at = take(&b, units + 1), f->out_at = take(&b, units + 1), f->temp_at = take(&b, units + 1);
    f->kill = take(&b, units + 1);
    f->early_at = take(&b, units + 1), f->early = take(&b, gaps);
    f->in = take(&b, 2 * touches), f->out = take(&b, touches), f->temp = take(&b, touches), f->use = take(&b, 2 * touches);
    f->buffer = take(&b, versions), f->maker = take(&b, versions), f->over = take(&b, versions);
    f->remaker = take(&b, versions);
    f->use_at = take(&b, versions + 1), f->gap_at = take(&b, versions + 1);
    f->gap_version = take(&b, gaps), f->gap_point = take(&b, gaps);
    b.current = take(&b, buffers), b.first_unit = take(&b, buffers), b.last_unit = take(&b, buffers);
    int *scratch = take(&b, versions), *assigns = take(&b, tensors), *cursor = take(&b, units + 1);
    f->movable = (uint8_t *)((int *)f->memory + ints);
    find_spans(&b);
    read_units(&b);
    find_kills(f, p->touches, assigns, tensors);
    find_uses(f, scratch);
    find_points(f);
    find_early(f, cursor);
    return f;
}

void flow_destroy(Flow *flow)
{
    if (flow) free(flow->memory);
    free(flow);
}

/* ---- sizes ---- */
/* Lives of temporaries within their unit tell how many of them are alive at once. */
static int64_t temp_peak(const Flow *f, int u, const int64_t *buffer_bytes, Interval *intervals)
{
    int n = 0, first = f->program->units[u].first;
    for (int i = f->temp_at[u]; i < f->temp_at[u + 1]; i++) {
        const Life *life = &f->program->lives[f->temp[i]];
        intervals[n++] = (Interval){life->first - first, life->last - first, buffer_bytes[f->temp[i]]};
    }
    return n ? planner_live_peak(intervals, n) : 0;
}

bool sizes_make(Sizes *sizes, const Flow *f, const Rates *rates, const int64_t *buffer_bytes, const int64_t *flops,
                const int64_t *moved)
{
    size_t units = (size_t)f->n_all + 1, versions = (size_t)f->n_versions + 1;
    memset(sizes, 0, sizeof *sizes);
    sizes->buffer_bytes = buffer_bytes;
    sizes->copied = rates->copied;
    Interval *intervals = malloc(((size_t)f->temp_at[f->n_all] + 1) * sizeof *intervals);
    sizes->bytes = malloc((versions + 3 * units) * sizeof *sizes->bytes);
    sizes->seconds = malloc(units * sizeof *sizes->seconds);
    bool right = intervals && sizes->bytes && sizes->seconds;
    if (right) {
        sizes->temp_bytes = sizes->bytes + versions;
        sizes->flops = sizes->temp_bytes + units;
        sizes->moved = sizes->flops + units;
    }
    for (int v = 0; right && v < f->n_versions; v++) sizes->bytes[v] = buffer_bytes[f->buffer[v]];
    for (int u = 0; right && u < f->n_all; u++) {
        sizes->flops[u] = flops[u];
        sizes->moved[u] = moved[u];
        sizes->seconds[u] = (double)flops[u] / rates->flops + (double)moved[u] / rates->moved;
        sizes->all_seconds += sizes->seconds[u];
        sizes->all_flops += flops[u];
        right = (sizes->temp_bytes[u] = temp_peak(f, u, buffer_bytes, intervals)) >= 0;
    }
    free(intervals);
    if (!right) sizes_free(sizes);
    return right;
}

bool sizes_at_dims(Sizes *sizes, const Flow *f, const Rates *rates, const int64_t *dims, const int64_t *buffer_bytes)
{
    size_t units = (size_t)f->n_all + 1;
    int64_t *costs = malloc(2 * units * sizeof *costs);
    memset(sizes, 0, sizeof *sizes);
    if (!costs) return false;
    f->program->costs(dims, costs, costs + units);
    bool right = sizes_make(sizes, f, rates, buffer_bytes, costs, costs + units);
    free(costs);
    return right;
}

void sizes_free(Sizes *sizes)
{
    free(sizes->bytes);
    free(sizes->seconds);
    memset(sizes, 0, sizeof *sizes);
}
