/* What --dump fuse prints: the groups in order, what each keeps in memory and why its readers did not become part of it.
 *
 *     softmax "node_softmax": f32[batch, 6, seq, seq] = le, select, mul, add, reduce_max, sub, exp, reduce_sum, div
 *       %52 to memory: a dot reads it */
#include "emit/emit.h"

static const char *const kind_names[] = {
    [GROUP_LOOP] = "loop",     [GROUP_ROW] = "row",         [GROUP_REDUCE] = "reduce", [GROUP_CUMULATIVE] = "cumulative",
    [GROUP_SORT] = "sort",     [GROUP_SCATTER] = "scatter", [GROUP_LATE] = "late",     [GROUP_DOT] = "dot",
    [GROUP_CONV] = "conv",     [GROUP_POOL] = "pool",       [GROUP_VIEW] = "view",     [GROUP_REGION] = "region",
    [GROUP_ASSIGN] = "assign", [GROUP_COMMIT] = "commit"};

static bool folds(const Group *group)
{
    return group->kind == GROUP_LOOP || group->kind == GROUP_REDUCE || group->kind == GROUP_ROW;
}

static bool holds(const Values *values, const Value *v)
{
    for (int i = 0; i < values->n; i++)
        if (values->at[i] == v) return true;
    return false;
}

/* Why v lies in memory between the group that makes it and those that read it. */
static const char *reason(const Groups *groups, const Group *maker, const Value *v, Arena *arena)
{
    const Group *reader = NULL;
    int readers = 0;
    if (holds((const Values *)&groups->graph->outputs, v)) return "the program gives it out";
    for (int i = 0; i < groups->list.n; i++) {
        const Group *group = groups->list.at[i];
        if (group == maker || !holds(&group->in, v)) continue;
        readers++;
        if (!reader || folds(reader)) reader = group;
    }
    if (!reader) return "an assign writes it";
    if (!folds(maker)) return arena_text(arena, "a %s makes it", kind_names[maker->kind]);
    if (!folds(reader)) return arena_text(arena, "a %s reads it", kind_names[reader->kind]);
    if (maker->kind == GROUP_REDUCE) return "its readers need the whole of it before their first element";
    if (readers > 1) return arena_text(arena, "%d groups read it, and each would have to read more to make it again", readers);
    return "its reader waits for others that need this group, or needs elements more than once or elsewhere";
}

void fuse_print(Buf *out, const Groups *groups, Arena *arena)
{
    buf_printf(out, "groups of %s\n", groups->graph->name);
    for (int i = 0; i < groups->list.n; i++) {
        const Group *group = groups->list.at[i];
        const Op *last = group->ops.at[group->ops.n - 1];
        buf_printf(out, "  %d %s \"%s\":", i, kind_names[group->kind], last->source);
        for (int o = 0; o < group->ops.n; o++) buf_printf(out, " %s", op_info(group->ops.at[o]->kind)->name);
        buf_put(out, "\n");
        for (int o = 0; o < group->out.n && group->kind != GROUP_VIEW && group->kind != GROUP_ASSIGN; o++) {
            const Value *v = group->out.at[o];
            buf_printf(out, "    %%%d %s to memory, %s bytes: %s\n", v->id, dtype_name(v->dtype),
                       expr_text(arena, value_bytes(groups->graph, v)), reason(groups, group, v, arena));
        }
    }
}
