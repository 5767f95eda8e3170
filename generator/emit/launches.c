/* The launches of all groups of a program, and of what may be made again from a group's first result. */
#include "emit/program_private.h"
#include "emit/slice.h"
#include <string.h>

static void collect_launches(Launches *all, Arena *arena, Kernels *k, Symbols *symbols, const Groups *groups)
{
    for (int i = 0; i < groups->list.n; i++) {
        Group *group = groups->list.at[i];
        for (int b = 0; b < 2; b++)
            if (group->body[b] && group->kind == GROUP_REGION) collect_launches(all, arena, k, symbols, group->body[b]);
        if (group->kind == GROUP_VIEW || group->kind == GROUP_REGION || group->kind == GROUP_COMMIT || group->kind == GROUP_FINITE)
            continue;
        GroupLaunches *l = NEW(arena, GroupLaunches);
        kernels_emit(k, group, l);
        pointers_set(all->of, group, l);
        vec_push(arena, &all->list, l);
    }
}

/* By value id: the last group that reads it, itself or through reshapes. */
static int *last_readers(Arena *arena, const Groups *groups)
{
    int *last = NEW_ARRAY(arena, int, groups->graph->next_value + 1);
    for (int k = 0; k < groups->list.n; k++)
        for (int o = 0; o < groups->list.at[k]->in.n; o++)
            for (const Value *in = groups->list.at[k]->in.at[o];; in = in->def->in[0]) {
                last[in->id] = k;
                if (!in->def || in->def->kind != OP_reshape) break;
            }
    return last;
}

/* What is needed long afterwards could be made again from a group's first result: forward, in the step of training. */
static void collect_slices(Launches *all, Arena *arena, Kernels *k, const Groups *groups)
{
    enum { LONG = 8 };
    const int *last = last_readers(arena, groups), made = groups->graph->next_value;
    for (int i = 0; i < groups->list.n && groups->list.at[i]->kind != GROUP_COMMIT; i++) {
        Group *slice = slice_group(arena, groups->list.at[i]);
        bool wanted = false;
        for (int o = 0; slice && o < slice->out.n && !wanted; o++) wanted = slice->out.at[o]->id < made && last[slice->out.at[o]->id] - i > LONG;
        if (!wanted) continue;
        Sliced *s = NEW(arena, Sliced);
        s->group = slice;
        kernels_emit(k, slice, &s->launches);
        pointers_set(all->sliced, groups->list.at[i], s);
        vec_push(arena, &all->list, &s->launches);
    }
}

static bool plans(const char *program)
{
    return strcmp(program, "train") == 0 || strcmp(program, "train_lean") == 0;
}

bool program_plans(const Program *p)
{
    return plans(p->name);
}

Launches *launches_of(Arena *arena, Kernels *k, Symbols *symbols, const Groups *groups)
{
    Launches *all = NEW(arena, Launches);
    all->of = pointers_new(arena);
    all->sliced = pointers_new(arena);
    kernels_blocks(k, groups->graph);
    collect_launches(all, arena, k, symbols, groups);
    if (plans(groups->graph->name)) collect_slices(all, arena, k, groups);
    return all;
}

void launches_kernels(const Launches *launches, Map *names)
{
    for (int i = 0; i < launches->list.n; i++)
        for (int l = 0; l < launches->list.at[i]->n; l++) {
            for (const Launch *launch = &launches->list.at[i]->at[l]; launch; launch = launch->epilogue)
                map_set(names, launch->kernel, (void *)launches);
        }
}
