/* The budget of a session, and the arena within it.  Needs: the device, the planner.  Breaks: nothing. */
#include "budget.h"
#include <inttypes.h>
#include <string.h>

int64_t budget_margin(int64_t free_bytes)
{
    const int64_t least = INT64_C(128) << 20, most = INT64_C(1) << 30;
    int64_t margin = free_bytes / 20;
    if (margin < least) margin = least;
    if (margin > most) margin = most;
    return margin < free_bytes / 2 ? margin : free_bytes / 2;
}

void budget_open(Session *s)
{
    s->limit = s->options.memory_limit;
    if (!s->limit) {
        const int64_t overhead = device_overhead_bytes(s->device);
        s->free_bytes = device_free_bytes(s->device);
        s->limit = s->free_bytes - budget_margin(s->free_bytes);
        s->limit = s->limit < INT64_MAX - overhead ? s->limit + overhead : INT64_MAX;
    }
    s->budget = s->limit;
}

/* Bytes that an arena may take within so many. */
static int64_t room_within(const Session *s, int64_t bytes)
{
    return bytes - device_overhead_bytes(s->device) - s->state_bytes;
}

int64_t budget_left(const Session *s)
{
    return room_within(s, s->budget) - s->arena_bytes;
}

/* Where late dims at their bounds do not fit, a hopeful plan, if there is one. */
static int hope(Session *s, const Program *program, int64_t room, const Plan **plan, Fault *fault)
{
    const Plan *hopeful;
    if (!program->n_late || s->options.recompute_off || (*plan)->arena_bytes <= room || room <= 0) return 0;
    if (!s->late_plans) s->late_plans = late_create();
    if (!s->late_plans || late_begin(s->late_plans, s->planner, (*plan)->program, (*plan)->dims, s->model->n_dims, room, &hopeful))
        return fault_memory(fault);
    if (hopeful) *plan = hopeful;
    return 0;
}

static int find_plan(Session *s, const Program *program, const int64_t *dims, int64_t room, const Plan **plan, Fault *fault)
{
    int error = s->options.recompute_off ? planner_find_blocks(s->planner, program, dims, room, plan)
                                         : planner_find_within(s->planner, program, dims, room, plan);
    if (error == PLANNER_NO_MEMORY) return fault_memory(fault);
    if (error == PLANNER_TOO_LARGE) {
        fault_set(fault, STATUS_BUDGET, "no memory would do: buffers of more than 2^50 bytes at");
        for (int i = 0; i < s->model->n_dims; i++)
            if (!planner_chooses(s->model, i)) text_add(fault->text, sizeof fault->text, " %s = %" PRId64, s->model->dims[i].name, dims[i]);
        return STATUS_BUDGET;
    }
    return hope(s, program, room, plan, fault);
}

int session_peak(Session *session, const Program *program, const int64_t *dims, int64_t *peak, Fault *fault)
{
    const Plan *plan;
    int status = find_plan(session, program, dims, room_within(session, session->budget), &plan, fault);
    if (!status) *peak = session->state_bytes + plan->arena_bytes;
    return status;
}

bool session_fits(const Session *session, int64_t peak)
{
    return peak <= session->limit - device_overhead_bytes(session->device);
}

int session_no_room(const Session *session, int64_t least, const char *what, Fault *fault)
{
    int64_t overhead = device_overhead_bytes(session->device);
    fault_set(fault, STATUS_BUDGET,
              "%s does not fit into memory: needs %" PRId64 " bytes (weights and optimizer %" PRId64 ", buffers %" PRId64, what,
              least + overhead, session->state_bytes, least - session->state_bytes);
    char *text = fault->text;
    size_t size = sizeof fault->text;
    if (overhead) text_add(text, size, ", device context and libraries %" PRId64, overhead);
    if (session->options.memory_limit && !session_fits(session, least))
        text_add(text, size, "); --memory-limit allows %" PRId64 ". The least that would do: --memory-limit %" PRId64, session->limit,
                 least + overhead);
    else
        text_add(text, size, "); %s has %" PRId64 " free", device_name(session->device), device_free_bytes(session->device));
    text_add(text, size, "; or a smaller batch");
    return STATUS_BUDGET;
}

/* The arena is one allocation; a larger one replaces it, the old one released first.  DEVICE_OUT_OF_MEMORY where the device has no
 * room. */
static int grow_arena(Session *s, int64_t bytes)
{
    if (bytes <= s->arena_bytes) return 0;
    graphs_drop(s->graphs, "the arena is replaced");
    device_release(s->device, s->arena);
    s->arena = NULL;
    s->arena_bytes = 0;
    void *at;
    int error = device_allocate(s->device, (size_t)bytes, &at);
    if (error) return error;
    s->arena = at;
    s->arena_bytes = bytes;
    return 0;
}

/* What is free may be in pieces, and others may take of it: no more than that, and less than what was refused. */
static void shrink(Session *s, int64_t refused)
{
    const int64_t free_bytes = device_free_bytes(s->device), less = refused - refused / 16 - 1;
    s->budget = s->state_bytes + device_overhead_bytes(s->device) + (free_bytes < less ? free_bytes : less);
    if (!s->change.refused) s->change.refused = refused;
}

/* Where the smallest plan is above a budget that has shrunk, it is tried all the same: memory may have come back. */
int step_plan(Session *s, const Program *program, Fault *fault)
{
    for (int64_t refused = INT64_MAX;;) {
        int status = find_plan(s, program, s->dims, room_within(s, s->budget), &s->plan, fault);
        if (status) return status;
        const int64_t arena = s->plan->arena_bytes, peak = s->state_bytes + arena;
        if (!session_fits(s, peak) || arena >= refused) return session_no_room(s, peak, "a step", fault);
        int error = grow_arena(s, arena);
        if (error != DEVICE_OUT_OF_MEMORY) {
            if (s->model->n_dims) memcpy(s->dims, s->plan->dims, (size_t)s->model->n_dims * sizeof *s->dims); /* its blocks of rows */
            s->change.raised = !error && arena > room_within(s, s->budget);
            if (s->change.raised) s->budget = peak + device_overhead_bytes(s->device);
            s->change.budget = s->budget;
            return device_fault(error, "allocating the arena", fault);
        }
        shrink(s, refused = arena);
    }
}
