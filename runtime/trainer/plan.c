/* --plan: what a step at given dims takes, from tables alone: no weights, no data, no device.  Needs: options checked.  Breaks:
 * nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "json.h"
#include "programs.h"
#include "progress.h"

typedef struct {
    const Program *program;
    int64_t *dims;
    bool *given;
    int64_t state, arena, live, peak, moved, least, flops;
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
            text_add(fault->text, sizeof fault->text, " %s = %" PRId64, m->dims[i].name, f->dims[i]);
    }
    if (!status) settle_dims(m, scratch, f->dims);
    free(scratch);
    free(small);
    return status;
}

static int compute(const Model *m, const Options *o, Figures *f, Fault *fault)
{
    Planner *planner = planner_create(m->n_dims);
    const Plan *plan = NULL;
    int error = planner ? planner_find(planner, f->program, f->dims, &plan) : PLANNER_NO_MEMORY;
    if (!error) {
        f->state = state_bytes(m, f->program == m->train);
        f->arena = plan->arena_bytes;
        f->live = plan->live_bytes;
        f->peak = f->state + f->arena;
        f->feasible = !o->memory_limit || f->peak <= o->memory_limit;
        if (f->program->traffic) f->program->traffic(f->dims, &f->moved, &f->least, &f->flops);
    }
    planner_destroy(planner);
    if (error == PLANNER_TOO_LARGE) return fault_set(fault, STATUS_BUDGET, "no memory would do: buffers of more than 2^50 bytes");
    return error ? fault_memory(fault) : 0;
}

static void line(const char *name, int64_t bytes)
{
    char text[32];
    printf("  %-22s %16" PRId64 "  %s\n", name, bytes, bytes_text(bytes, text, sizeof text));
}

static void print_text(const Model *m, const Options *o, const Figures *f)
{
    printf("plan of %s, program %s\n", m->name, f->program->name);
    for (int i = 0; i < m->n_dims; i++)
        printf("  %s = %" PRId64 "%s\n", m->dims[i].name, f->dims[i],
               f->given[i]       ? ""
               : m->dims[i].late ? " (upper bound)"
                                 : " (its likely value)");
    line("peak", f->peak);
    line("weights and optimizer", f->state);
    line("arena", f->arena);
    line("most alive at once", f->live);
    printf("  %d buffers, %d launches\n", f->program->n_buffers, f->program->n_launches);
    line("moved in a step", f->moved);
    line("least that must move", f->least);
    if (o->memory_limit) printf("  %s in --memory-limit %" PRId64 "\n", f->feasible ? "fits" : "does not fit", o->memory_limit);
}

static void print_json(const Model *m, const Figures *f)
{
    fputs("{\"dims\":", stdout);
    json_dims(stdout, m, f->dims);
    printf(",\"feasible\":%s,\"peak_bytes\":%" PRId64 ",\"arena_bytes\":%" PRId64 ",\"live_bytes\":%" PRId64
           ",\"state_bytes\":%" PRId64,
           f->feasible ? "true" : "false", f->peak, f->arena, f->live, f->state);
    printf(",\"minimum_bytes\":%" PRId64 ",\"recompute_share\":0.0,\"offload_bytes\":0,\"blocks\":1,\"kernels\":%d", f->peak,
           f->program->n_launches);
    printf(",\"bytes_moved\":%" PRId64 ",\"least_bytes_moved\":%" PRId64 ",\"evicted\":[]}\n", f->moved, f->least);
}

int plan_program(const Model *m, const Options *options, Fault *fault)
{
    Figures f = {.program = options->evaluate ? m->evaluate : m->train};
    if (!f.program) return fault_set(fault, STATUS_USER, "--plan: this program was generated without it");
    f.dims = calloc((size_t)m->n_dims + 1, sizeof *f.dims);
    f.given = calloc((size_t)m->n_dims + 1, sizeof *f.given);
    int status = f.dims && f.given ? options_dims(options, m, f.dims, f.given, fault) : fault_memory(fault);
    if (!status) status = settle(m, &f, fault);
    if (!status) status = compute(m, options, &f, fault);
    if (!status && options->json)
        print_json(m, &f);
    else if (!status)
        print_text(m, options, &f);
    free(f.dims);
    free(f.given);
    return status;
}
