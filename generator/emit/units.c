/* The units of a step: groups' launches with what they read and write, and which of them may run again. */
#include "emit/program_private.h"
#include <string.h>

static bool touches(const Touches *list, Touch t)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i].kind == t.kind && list->at[i].index == t.index) return true;
    return false;
}

static void touch_once(Maker *m, Touches *list, TouchKind kind, int index)
{
    Touch t = {kind, index};
    if (!touches(list, t)) vec_push(m->l->arena, list, t);
}

static void touch_tensor(Maker *m, Touches *list, const Value *v)
{
    while (v->def && (v->def->kind == OP_reshape || v->def->kind == OP_slice)) v = v->def->in[0];
    if (v->origin == FROM_WEIGHT) touch_once(m, list, TOUCHES_WEIGHT, layout_find(m->l->weight_of, v->tensor->name));
    if (v->origin == FROM_STATE) touch_once(m, list, TOUCHES_STATE, layout_find(m->l->state_of, v->tensor->name));
}

static bool lies_in(const Maker *m, const Values *values, int buffer)
{
    for (int i = 0; i < values->n; i++) {
        const Place *place = pointers_get(m->p->places, values->at[i]);
        if (place && place->buffer == buffer) return true;
    }
    return false;
}

/* Launches alone, of a kind that always makes the same from the same, and that change nothing which outlives the step. */
static bool may_run_again(const Group *group)
{
    switch (group->kind) {
    case GROUP_LATE:
    case GROUP_VIEW:
    case GROUP_ASSIGN:
    case GROUP_FINITE:
    case GROUP_COMMIT: return false;
    case GROUP_REGION: { /* a loop over blocks of rows that writes rows */
        const Op *op = group->ops.at[group->ops.n - 1];
        return op->kind == OP_blocks && op_int(op, ATTR_sums) == 0;
    }
    default: return group->assigns.n == 0;
    }
}

/* flops, moved: of the program before it, where it is a region. */
void add_unit(Maker *m, const Group *group, Unit unit, int buffers_before, Expr *flops, Expr *moved)
{
    Program *p = m->p;
    Symbols *s = m->l->symbols;
    unit.group = group;
    unit.last = p->positions - 1;
    unit.last_item = p->items.n - 1;
    unit.again = may_run_again(group);
    unit.source = group->ops.at[group->ops.n - 1]->source;
    unit.flops = unit.moved = expr_int(s, 0);
    for (int i = 0; i < m->touched.n; i++) {
        int b = m->touched.at[i];
        bool written = b >= buffers_before || lies_in(m, &group->out, b);
        touch_once(m, written ? &unit.writes : &unit.reads, TOUCHES_BUFFER, b);
    }
    for (int i = 0; i < group->in.n; i++) touch_tensor(m, &unit.reads, group->in.at[i]);
    for (int a = 0; a < group->assigns.n; a++) touch_tensor(m, &unit.writes, group->assigns.at[a]->in[0]);
    if (group->kind == GROUP_ASSIGN) touch_tensor(m, &unit.writes, group->out.at[0]);
    const GroupLaunches *l = pointers_get(m->launches->of, group);
    for (int i = 0; l && i < l->n; i++) {
        if (l->at[i].flops) unit.flops = expr_add(s, unit.flops, l->at[i].flops);
        if (l->at[i].moved) unit.moved = expr_add(s, unit.moved, l->at[i].moved);
    }
    if (group->kind == GROUP_REGION && unit.again)
        unit.flops = expr_sub(s, sum_total(m->l, &m->flops), flops), unit.moved = expr_sub(s, sum_total(m->l, &m->moved), moved);
    vec_push(m->l->arena, &p->units, unit);
}

/* Nothing that the slice reads may have been overwritten by what the group wrote, but for what it wrote itself. */
static bool operands_stand(const Maker *m, const Group *group, const Group *slice)
{
    for (int i = 0; i < slice->in.n; i++) {
        const Place *place = pointers_get(m->p->places, slice->in.at[i]);
        bool own = false;
        for (int o = 0; o < group->out.n; o++) own |= group->out.at[o] == slice->in.at[i];
        if (place && place->buffer >= 0 && !own && lies_in(m, &group->out, place->buffer)) return false;
    }
    return true;
}

void add_recipe(Maker *m, const Group *group, int of)
{
    Symbols *symbols = m->l->symbols;
    const Sliced *s = pointers_get(m->launches->sliced, group);
    if (!s || !m->p->units.at[of].again || !operands_stand(m, group, s->group)) return;
    if (s->launches.scratch && !expr_is(s->launches.scratch, 0)) return;
    Unit unit = {.group = s->group, .first = -1, .last = -1, .again = true, .of = of, .source = m->p->units.at[of].source};
    unit.flops = unit.moved = expr_int(symbols, 0);
    for (int i = 0; i < s->launches.n; i++) {
        Item *item = item_new(m, &unit.again_items, ITEM_LAUNCH, s->group->ops.at[s->group->ops.n - 1]);
        item->launch = &s->launches.at[i];
        name_nodes(m, item, s->group);
        if (item->launch->flops) unit.flops = expr_add(symbols, unit.flops, item->launch->flops);
        if (item->launch->moved) unit.moved = expr_add(symbols, unit.moved, item->launch->moved);
    }
    for (int i = 0; i < s->group->in.n; i++) {
        const Place *place = pointers_get(m->p->places, s->group->in.at[i]);
        if (place && place->buffer >= 0) touch_once(m, &unit.reads, TOUCHES_BUFFER, place->buffer);
        touch_tensor(m, &unit.reads, s->group->in.at[i]);
    }
    for (int o = 0; o < s->group->out.n; o++)
        touch_once(m, &unit.writes, TOUCHES_BUFFER, program_place(m->p, s->group->out.at[o])->buffer);
    vec_push(m->l->arena, &m->p->recipes, unit);
}
