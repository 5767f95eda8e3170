/* What --dump fuse prints: the groups in order, what each keeps in memory and why its readers did not become part of it.
 *
 *     softmax "node_softmax": f32[batch, 6, seq, seq] = le, select, mul, add, reduce_max, sub, exp, reduce_sum, div
 *       %52 to memory: a dot reads it */
#include "emit/emit.h"

static const char *const kind_names[] = {
    [GROUP_LOOP] = "loop",     [GROUP_ROW] = "row",         [GROUP_REDUCE] = "reduce", [GROUP_CUMULATIVE] = "cumulative",
    [GROUP_SORT] = "sort",     [GROUP_SCATTER] = "scatter", [GROUP_LATE] = "late",     [GROUP_DOT] = "dot",
    [GROUP_CONV] = "conv",     [GROUP_POOL] = "pool",       [GROUP_VIEW] = "view",     [GROUP_REGION] = "region",
    [GROUP_ATTENTION] = "attention", [GROUP_CHAIN] = "chain", [GROUP_CELL] = "cell",    [GROUP_ASSIGN] = "assign", [GROUP_COMMIT] = "commit", [GROUP_FINITE] = "finite"};

static bool folds(const Group *group)
{
    return group->kind == GROUP_LOOP || group->kind == GROUP_REDUCE || group->kind == GROUP_ROW || group->epilogue;
}

const char *group_kind_name(GroupKind kind)
{
    return kind_names[kind];
}

enum { READERS_KNOWN = 16 };
typedef struct {
    const Group *at[READERS_KNOWN];
    int n;
    bool more;
} Readers;

/* The groups that read v, also through views of it and through what is made again in each of them. */
static void find_readers(const Groups *groups, const Group *maker, const Value *v, Readers *readers)
{
    for (int i = 0; i < v->users.n && !readers->more; i++) {
        const Op *user = v->users.at[i];
        const Group *group = groups->of_op[user->id];
        if (!group || group->kind == GROUP_VIEW) {
            for (int o = 0; o < user->n_out; o++) find_readers(groups, maker, user->out[o], readers);
            continue;
        }
        bool known = group == maker || (user->kind == OP_assign && group->kind == GROUP_ASSIGN);
        for (int r = 0; r < readers->n; r++) known |= readers->at[r] == group;
        if (known) continue;
        if (readers->n < READERS_KNOWN)
            readers->at[readers->n++] = group;
        else
            readers->more = true;
    }
}

static const char *const refusals[] = {
#define R(name, words) words,
    FUSE_REFUSALS(R)
#undef R
};

static const char *article(const Group *group)
{
    return kind_names[group->kind][0] == 'a' ? "an" : "a";
}

const char *fuse_reason(const Groups *groups, const Group *maker, const Value *v, Arena *arena)
{
    Readers readers = {.n = 0};
    if (graph_is_output(groups->graph, v)) return "the program gives it out";
    find_readers(groups, maker, v, &readers);
    const Group *reader = readers.n ? readers.at[0] : NULL;
    for (int i = 1; i < readers.n; i++)
        if (folds(readers.at[i])) reader = readers.at[i];
    if (!reader) return "an assign writes it";
    if (!folds(maker)) return arena_text(arena, "%s %s makes it", article(maker), kind_names[maker->kind]);
    if (!folds(reader)) return arena_text(arena, "%s %s reads it", article(reader), kind_names[reader->kind]);
    if (groups->no_fuse) return "--no-fuse";
    if (groups->refused[v->id]) return refusals[groups->refused[v->id]];
    if (maker->kind == GROUP_REDUCE) return "its readers need the whole of it before their first element";
    if (readers.n > 1)
        return arena_text(arena, "%d groups%s read it, and each would have to read more to make it again", readers.n,
                          readers.more ? " and more" : "");
    return "each of its elements serves many of its reader's, which does not work a row at a time";
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
                       expr_text(arena, value_bytes(groups->graph, v)), fuse_reason(groups, group, v, arena));
        }
    }
}
