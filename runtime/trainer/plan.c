/* --plan: what a step at given dims takes, from tables alone: no weights, no data, no device.  Needs: options checked.  Breaks:
 * nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "calibration.h"
#include "json.h"
#include "programs.h"
#include "progress.h"

typedef struct {
    const Program *program;
    int64_t *dims;
    bool *given;
    Planner *planner;
    const Plan *plan;
    int64_t state, peak, minimum, moved, least, flops;
    bool feasible;
} Figures;

/* Late dims take part at their upper bounds, which follow from the others. */
static int settle(const Model *m, Figures *f, Fault *fault)
{
    Arrived *scratch = calloc((size_t)m->n_inputs + 1, sizeof *scratch);
    int64_t *small = calloc((size_t)m->n_dims + 1, sizeof *small);
    int status = scratch && small ? 0 : fault_memory(fault);
    for (int i = 0; i < m->n_dims && !status; i++) small[i] = m->dims[i].late ? 0 : f->dims[i];
    if (!status && !planner_sound(f->program, small, m->n_dims)) {
        status = fault_set(fault, STATUS_BUDGET, "no memory would do: buffers of more than 2^50 bytes at");
        for (int i = 0; i < m->n_dims; i++)
            if (!planner_chooses(m, i)) text_add(fault->text, sizeof fault->text, " %s = %" PRId64, m->dims[i].name, f->dims[i]);
    }
    if (!status) settle_dims(m, scratch, f->dims);
    free(scratch);
    free(small);
    return status;
}

static int find_minimum(Figures *f, bool recompute_off)
{
    const Plan *least;
    if (!recompute_off) return planner_least(f->planner, f->program, f->dims, &f->minimum);
    const int error = planner_find_blocks(f->planner, f->program, f->dims, 0, &least);
    if (!error) f->minimum = least->arena_bytes;
    return error;
}

static int compute(const Model *m, const Options *o, const char *folder, Figures *f, Fault *fault)
{
    f->planner = planner_create(m->n_dims);
    Rates rates = NOMINAL_RATES;
    int status = may_offload(o) ? calibration_find(o, folder, false, &rates, fault) : 0;
    if (status) return status;
    if (f->planner) planner_rates(f->planner, &rates);
    f->state = state_bytes(m, f->program == m->train);
    const int64_t room = o->memory_limit ? o->memory_limit - f->state : INT64_MAX;
    if (!f->planner) return fault_memory(fault);
    planner_set_row_blocks(f->planner, o->row_blocks);
    planner_set_lean(f->planner, (LeanChoice)o->lean);
    int error = find_minimum(f, o->recompute == 1);
    if (!error) error = (o->recompute == 1 ? planner_find_blocks : planner_find_within)(f->planner, f->program, f->dims, room, &f->plan);
    if (error == PLANNER_TOO_LARGE) return fault_set(fault, STATUS_BUDGET, "no memory would do: buffers of more than 2^50 bytes");
    if (error) return fault_memory(fault);
    f->minimum += f->state;
    f->peak = f->state + f->plan->arena_bytes;
    f->feasible = !o->memory_limit || f->peak <= o->memory_limit;
    if (f->program->traffic) f->program->traffic(f->plan->dims, &f->moved, &f->least, &f->flops);
    f->moved += f->plan->recomputed_moved;
    return 0;
}

static double recompute_share(const Figures *f)
{
    return f->flops > 0 ? (double)f->plan->recomputed_flops / (double)f->flops : 0;
}

static void line(const char *name, int64_t bytes)
{
    char text[32];
    printf("  %-22s %16" PRId64 "  %s\n", name, bytes, bytes_text(bytes, text, sizeof text));
}

/* The points that act between two launches. */
static void print_points(const Figures *f, const PointCost *costs, int first, int last)
{
    const Program *p = f->plan->program;
    for (int k = 0; f->plan->recompute && k < p->n_points; k++) {
        const Point *point = &p->points[k];
        if (!f->plan->recompute->acts[k]) continue;
        char text[32];
        if (point->gone >= first && point->gone <= last)
            printf("        launch %4d  EVICT %d       %s: %s\n", point->gone, k, p->lives[point->buffer].name,
                   bytes_text(costs[k].bytes, text, sizeof text));
        if (point->back >= first && point->back <= last)
            printf("        launch %4d  REGENERATE %d  %s by %s\n", point->back, k, p->lives[point->buffer].name,
                   f->plan->recompute->acts[k] == POINT_OFFLOADS ? "a copy from the host" : point->recipe);
    }
}

/* Some rows of launches: how much is alive, and what goes and comes back. */
static void print_timeline(const Figures *f)
{
    enum { ROWS = 24, WIDTH = 48 };
    const Program *p = f->plan->program;
    PointCost *costs = calloc((size_t)p->n_points + 1, sizeof *costs);
    if (!f->plan->unit_peak || !costs) {
        free(costs);
        return;
    }
    if (p->point_costs) p->point_costs(f->dims, costs);
    int64_t most = 1;
    for (int u = 0; u < p->n_units; u++)
        if (f->plan->unit_peak[u] > most) most = f->plan->unit_peak[u];
    printf("alive, by launch\n");
    for (int row = 0, u = 0; row < ROWS && u < p->n_units; row++) {
        int end = (row + 1) * p->n_units / ROWS, first = p->units[u].first;
        int64_t here = 0;
        char text[32], bar[WIDTH + 1];
        if (end <= u) continue;
        for (; u < end; u++)
            if (f->plan->unit_peak[u] > here) here = f->plan->unit_peak[u];
        int length = (int)((double)here / (double)most * WIDTH);
        memset(bar, '#', (size_t)length);
        bar[length] = 0;
        printf("  %4d..%-4d %12s  %s\n", first, p->units[u - 1].last, bytes_text(here, text, sizeof text), bar);
        print_points(f, costs, first, p->units[u - 1].last);
    }
    free(costs);
}

static void print_text(const Model *m, const Options *o, const Figures *f)
{
    printf("plan of %s, program %s\n", m->name, f->plan->program->name);
    for (int i = 0; i < m->n_dims; i++)
        if (!planner_chooses(m, i)) printf("  %s = %" PRId64 "%s\n", m->dims[i].name, f->dims[i],
               f->given[i]       ? ""
               : m->dims[i].late ? " (upper bound)"
                                 : " (its likely value)");
    line("peak", f->peak);
    line("weights and optimizer", f->state);
    line("arena", f->plan->arena_bytes);
    line("most alive at once", f->plan->live_bytes);
    line("the least that would do", f->minimum);
    printf("  %d buffers, %d launches, %d run again: %.3g of the operations\n", f->plan->program->n_buffers, f->plan->program->n_launches,
           f->plan->recomputed, recompute_share(f));
    if (f->plan->program->n_blocks)
        printf("  rows in %" PRId64 " blocks at most\n", planner_row_blocks(f->plan->program, f->plan->dims));
    const Guard *wide = guards_wide(m, f->plan->program, f->plan->dims);
    if (wide)
        printf("  indices of 64 bits on CUDA: %s does not hold: %s\n", wide->name, wide->formula);
    else
        printf("  indices of 32 bits on CUDA\n");
    for (int i = 0; i < m->n_guards; i++)
        if (m->guards[i].otherwise == SINGLE_ELEMENTS && !m->guards[i].holds(f->plan->dims, NULL))
            printf("  elements one by one on CUDA, where %s does not hold: %s\n", m->guards[i].name, m->guards[i].formula);
    line("moved in a step", f->moved);
    line("least that must move", f->least);
    if (o->memory_limit) printf("  %s in --memory-limit %" PRId64 "\n", f->feasible ? "fits" : "does not fit", o->memory_limit);
    if (!f->feasible && f->program->n_late) puts("  with late dims at their bounds; a step that finds fewer may fit: it is planned again as they become known");
    print_timeline(f);
}

static void print_evicted(const Figures *f)
{
    const Program *p = f->plan->program;
    const char *separator = "";
    for (int k = 0; f->plan->recompute && k < p->n_points; k++) {
        if (!f->plan->recompute->acts[k]) continue;
        printf("%s", separator);
        json_string(stdout, p->lives[p->points[k].buffer].name);
        separator = ",";
    }
}

static void print_json(const Model *m, const Figures *f)
{
    fputs("{\"dims\":", stdout);
    json_dims(stdout, m, f->dims);
    printf(",\"feasible\":%s,\"peak_bytes\":%" PRId64 ",\"arena_bytes\":%" PRId64 ",\"live_bytes\":%" PRId64
           ",\"state_bytes\":%" PRId64,
           f->feasible ? "true" : "false", f->peak, f->plan->arena_bytes, f->plan->live_bytes, f->state);
    printf(",\"minimum_bytes\":%" PRId64 ",\"recompute_share\":%.9g,\"offload_bytes\":%" PRId64 ",\"program\":", f->minimum,
           recompute_share(f), f->plan->offloaded_bytes);
    json_string(stdout, f->plan->program->name);
    printf(",\"blocks\":%" PRId64 ",\"kernels\":%d", planner_row_blocks(f->plan->program, f->plan->dims), f->plan->program->n_launches + f->plan->recomputed - f->plan->program->n_again);
    printf(",\"bytes_moved\":%" PRId64 ",\"least_bytes_moved\":%" PRId64 ",\"evicted\":[", f->moved, f->least);
    print_evicted(f);
    fputs("]}\n", stdout);
}

int plan_program(const Model *m, const Options *options, const char *folder, Fault *fault)
{
    Figures f = {.program = options->evaluate ? m->evaluate : m->train};
    if (!f.program) return fault_set(fault, STATUS_USER, "--plan: this program was generated without it");
    f.dims = calloc((size_t)m->n_dims + 1, sizeof *f.dims);
    f.given = calloc((size_t)m->n_dims + 1, sizeof *f.given);
    int status = f.dims && f.given ? options_dims(options, m, f.dims, f.given, fault) : fault_memory(fault);
    if (!status) status = settle(m, &f, fault);
    if (!status) status = compute(m, options, folder, &f, fault);
    if (!status && options->json)
        print_json(m, &f);
    else if (!status)
        print_text(m, options, &f);
    planner_destroy(f.planner);
    free(f.dims);
    free(f.given);
    return status;
}
