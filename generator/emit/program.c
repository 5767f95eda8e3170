/* Flattens groups into the list of launches of a step; gives every value a place, every buffer its life.
 *
 * A value lies in a buffer of its own, but for views (where their operand lies), values that an assign wants in place (in the
 * weight or state), and in regions: parameters (where the operand lies, or at its slice), new carries and stacked results. */
#include "emit/program_private.h"
#include "ir/view.h"
#include "support/diag.h"
#include <string.h>

/* ---- items ---- */
Item *item_new(Maker *m, Items *items, ItemKind kind, const Op *op)
{
    Item *item = NEW(m->l->arena, Item);
    item->kind = kind;
    item->role = op ? op->role : "";
    item->source = op ? op->source : "";
    vec_push(m->l->arena, items, item);
    return item;
}

Sum sum_new(const Layout *l)
{
    return (Sum){.so_far = expr_int(l->symbols, 0), .times = pointers_new(l->arena)};
}

void sum_add(const Layout *l, Sum *sum, Expr *e)
{
    const intptr_t times = (intptr_t)pointers_get(sum->times, e);
    if (!times) vec_push(l->arena, &sum->terms, e);
    pointers_set(sum->times, e, (void *)(times + 1));
}

Expr *sum_total(const Layout *l, Sum *sum)
{
    Symbols *s = l->symbols;
    for (int i = 0; i < sum->terms.n; i++) {
        const intptr_t times = (intptr_t)pointers_get(sum->times, sum->terms.at[i]);
        sum->so_far = expr_add(s, sum->so_far, expr_mul(s, sum->terms.at[i], expr_int(s, times)));
        pointers_set(sum->times, sum->terms.at[i], NULL);
    }
    sum->terms.n = 0;
    return sum->so_far;
}

static void count_work(Maker *m, Expr *moved, Expr *flops)
{
    Symbols *s = m->l->symbols;
    if (moved) sum_add(m->l, &m->moved, expr_mul(s, moved, m->times));
    if (flops && m->block) /* the blocks' rows are all rows */
        sum_add(m->l, &m->flops, expr_substitute(s, flops, m->block, m->rows));
    else if (flops)
        sum_add(m->l, &m->flops, expr_mul(s, flops, m->times));
}

/* What a reader wants to see beside a launch: the nodes of its operations, the last three at most; what is folded in was made
 * elsewhere. */
void name_nodes(Maker *m, Item *item, const Group *group)
{
    for (int a = 0; a < group->assigns.n; a++) { /* an update: of its weight */
        const Value *target = group->assigns.at[a]->in[0];
        if (target->origin == FROM_WEIGHT) vec_push(m->l->arena, &item->nodes, target->tensor->name);
    }
    if (item->nodes.n) return;
    for (int o = group->ops.n - 1; o >= 0 && item->nodes.n < 3; o--) {
        const Op *op = group->ops.at[o];
        bool folded = o < group->ops.n - 1 && (op_info(op->kind)->class == SOURCE || op->kind == OP_broadcast), seen = !*op->source;
        for (int i = 0; i < item->nodes.n; i++) seen |= strcmp(item->nodes.at[i], op->source) == 0;
        if (!folded && !seen) vec_push(m->l->arena, &item->nodes, op->source);
    }
    for (int i = 0, j = item->nodes.n - 1; i < j; i++, j--) {
        const char *other = item->nodes.at[i];
        item->nodes.at[i] = item->nodes.at[j];
        item->nodes.at[j] = other;
    }
}

Item *add_launch(Maker *m, Items *items, const Launch *launch, const Op *op, const char *scratch, int scratch_buffer)
{
    Item *item = item_new(m, items, ITEM_LAUNCH, op);
    item->launch = launch;
    item->scratch = scratch;
    item->later = m->row;
    item->position = m->p->positions++;
    m->p->kernels++;
    touch(m, scratch_buffer, item->position);
    for (int a = 0; a < launch->args.n; a++)
        if (launch->args.at[a].kind == ARG_VALUE) touch(m, program_place(m->p, launch->args.at[a].value)->buffer, item->position);
    count_work(m, launch->moved, launch->flops);
    return item;
}

/* Copies src to dst, both lying somewhere already. */
void add_copy(Maker *m, Items *items, Value *dst, Value *src, const Op *op)
{
    Arena *arena = m->l->arena;
    Symbols *s = m->l->symbols;
    Launch *copy = NEW(arena, Launch);
    Expr *bytes = value_bytes(m->p->graph, src);
    *copy = (Launch){.kernel = "copy_tensor",
                     .library = true,
                     .moved = expr_mul(s, bytes, expr_int(s, 2)),
                     .flops = expr_int(s, 0)};
    vec_push(arena, &copy->args, ((Arg){.kind = ARG_VALUE, .value = dst}));
    vec_push(arena, &copy->args, ((Arg){.kind = ARG_VALUE, .value = src}));
    vec_push(arena, &copy->args, ((Arg){.kind = ARG_EXPR, .expr = bytes}));
    add_launch(m, items, copy, op, NULL, -1);
}

/* Reading a late dim follows the first launch after which its count is known: the one that has it among its arguments. */
static void add_late(Maker *m, Items *items, const Group *group, const Launch *launch, bool *read)
{
    const Op *op = group->ops.at[group->ops.n - 1];
    Value *count = op->out[op->n_out - 1];
    for (int a = 0; a < launch->args.n && !*read; a++) {
        if (launch->args.at[a].kind != ARG_VALUE || launch->args.at[a].value != count) continue;
        *read = true;
        for (int k = 0; k < op->out[0]->rank; k++) {
            Expr *dim = op->out[0]->shape[k];
            const bool late = expr_is_symbol(dim) && symbol_facts(m->l->symbols, dim).late;
            if (!late && k + 1 < op->out[0]->rank) continue; /* the last axis is counted, even where the model needs it to be a given size */
            Item *item = item_new(m, items, ITEM_LATE, op);
            item->late = dim;
            item->place = program_place(m->p, count);
        }
    }
}


/* Of the parts of scratch memory that the launches have, or "char" where they differ. */
static const char *part_type(const GroupLaunches *l)
{
    const char *type = NULL;
    for (int i = 0; i < l->n; i++)
        for (int a = 0; a < l->at[i].args.n; a++) {
            const Arg *arg = &l->at[i].args.at[a];
            if (arg->kind != ARG_SCRATCH) continue;
            if (type && strcmp(type, arg->type) != 0) return "char";
            type = arg->type;
        }
    return type ? type : "char";
}

/* Where a view lies in its operand. */
static const char *pointer_into(Maker *m, const Place *operand, const Value *view)
{
    int64_t offset;
    if (view->def->kind != OP_slice || !value_lies_within(m->p->graph, view, &offset) || offset == 0) return operand->pointer;
    return arena_text(m->l->arena, "%s + %lld", operand->pointer, (long long)offset);
}

static void add_group(Maker *m, Items *items, const Group *group)
{
    Op *op = group->ops.at[group->ops.n - 1];
    if (group->kind == GROUP_VIEW) {
        const Place *under = program_place(m->p, group->in.at[0]);
        place_new(m, group->out.at[0], pointer_into(m, under, group->out.at[0]), under->buffer);
        return;
    }
    if (group->kind == GROUP_REGION) {
        add_region(m, items, group);
        return;
    }
    if (group->kind == GROUP_COMMIT || group->kind == GROUP_FINITE) {
        Item *item = item_new(m, items, group->kind == GROUP_COMMIT ? ITEM_COMMIT : ITEM_FINITE, op);
        item->place = program_place(m->p, op->in[0]);
        item->position = m->p->positions++;
        touch(m, item->place->buffer, item->position);
        return;
    }
    const GroupLaunches *l = pointers_get(m->launches->of, group);
    check(l);
    for (int a = 0; a < group->assigns.n; a++) {
        const Place *target = program_place(m->p, group->assigns.at[a]->in[0]);
        place_new(m, group->assigns.at[a]->in[1], target->pointer, target->buffer);
    }
    bool in_place = false;
    for (int o = 0; o < group->out.n; o++)
        if (!pointers_get(m->p->places, group->out.at[o])) in_place |= place_result(m, group, group->out.at[o]);
    int scratch = l->scratch && !expr_is(l->scratch, 0) ? scratch_new(m, l->scratch, l->at[0].kernel) : -1;
    const char *scratch_name = scratch >= 0 ? m->p->buffers.at[scratch].c : l->scratch ? "(char *)NULL" : NULL; /* of no bytes */
    const char *scratch_type = scratch >= 0 ? part_type(l) : "char";
    if (scratch >= 0) m->p->buffers.at[scratch].in_step = scratch_type;
    bool read = group->kind != GROUP_LATE || m->nameless; /* of a unit taken apart the step itself reads it */
    for (int i = 0; i < l->n; i++) {
        Item *item = add_launch(m, items, &l->at[i], group->epilogue && i == 0 ? group->ops.at[0] : op, scratch_name, scratch);
        item->in_place = in_place;
        item->scratch_type = scratch_type;
        name_nodes(m, item, group);
        add_late(m, items, group, &l->at[i], &read);
    }
    if (!read) bug("the count of %s \"%s\" is written by no launch", op_info(op->kind)->name, op->source);
}

/* Several weights may have one gradient: biases that are added to the same sum. */
static void save_gradients(Maker *m, Items *items, const Group *group)
{
    const Graph *g = m->p->graph;
    for (int o = 0; o < group->out.n; o++) {
        Value *v = group->out.at[o];
        const GradientOf *of = pointers_get(m->gradient_of, v);
        for (int i = 0; of && i < of->weights.n; i++) {
            Item *item = item_new(m, items, ITEM_SAVE, v->def);
            item->place = program_place(m->p, v);
            item->weight = layout_find(m->l->weight_of, of->weights.at[i]);
            item->bytes = value_bytes(g, v);
            if (item->weight < 0) bug("a gradient for \"%s\", which is no weight", of->weights.at[i]);
        }
    }
}

static void find_gradients(Maker *m)
{
    const Graph *g = m->p->graph;
    for (int i = 0; i < g->outputs.n && g->output_names; i++) {
        if (strncmp(g->output_names[i], "gradient:", 9) != 0) continue;
        GradientOf *of = pointers_get(m->gradient_of, g->outputs.at[i]);
        if (!of) pointers_set(m->gradient_of, g->outputs.at[i], of = NEW(m->l->arena, GradientOf));
        vec_push(m->l->arena, &of->weights, g->output_names[i] + 9);
    }
}

int program_all_units(const Program *p)
{
    return p->units.n + p->recipes.n;
}

Unit *program_unit(const Program *p, int u)
{
    return u < p->units.n ? &p->units.at[u] : &p->recipes.at[u - p->units.n];
}

void add_groups(Maker *m, Items *items, const Groups *groups)
{
    find_last_readers(m, groups);
    for (int i = 0; i < groups->list.n; i++) {
        Unit unit = {.first = m->p->positions, .first_item = items->n};
        int buffers_before = m->p->buffers.n;
        bool outermost = items == &m->p->items;
        const bool counts = outermost && groups->list.at[i]->kind == GROUP_REGION; /* by what it adds to the program's */
        Expr *flops = counts ? sum_total(m->l, &m->flops) : NULL, *moved = counts ? sum_total(m->l, &m->moved) : NULL;
        if (outermost) m->touched.n = 0;
        add_group(m, items, groups->list.at[i]);
        save_gradients(m, items, groups->list.at[i]);
        if (!outermost || m->p->positions == unit.first) continue;
        add_unit(m, groups->list.at[i], unit, buffers_before, flops, moved);
        add_recipe(m, groups->list.at[i], m->p->units.n - 1);
    }
}

/* ---- outputs ---- */
static void place_outputs(Maker *m)
{
    Program *p = m->p;
    const Graph *g = p->graph;
    bool trains = program_plans(p);
    for (int i = 0; i < g->outputs.n && !trains; i++) {
        Value *v = g->outputs.at[i];
        const Place *place = v->origin == FROM_HYPER ? NULL : program_place(p, v);
        if (!place) error_exit("output \"%s\" is a setting of the trainer, not something the model computes", g->output_names[i]);
        if (place->buffer < 0) { /* a weight given out as it is */
            Value *copy = NEW(m->l->arena, Value);
            *copy = (Value){
                .name = g->output_names[i], .dtype = v->dtype, .rank = v->rank, .shape = v->shape, .origin = FROM_PARAMETER};
            own_buffer(m, copy);
            add_copy(m, &p->items, copy, v, NULL);
            v = copy;
        }
        vec_push(m->l->arena, &p->outputs, ((ProgramOutput){g->output_names[i], v, program_place(p, v)->buffer}));
    }
    for (int i = 0; i < p->outputs.n; i++) touch(m, p->outputs.at[i].buffer, p->positions > 0 ? p->positions - 1 : 0);
}

static bool is_input(const Maker *m, int buffer)
{
    for (int i = 0; i < m->l->inputs.n; i++)
        if (m->p->input_buffer[i] == buffer) return true;
    return false;
}

/* What crosses from the forward pass to the backward pass in memory, written once and read once. */
static void add_stash_moved(Maker *m, Sum *sum)
{
    Symbols *s = m->l->symbols;
    const Program *p = m->p;
    for (int i = 0; i < p->items.n; i++) {
        if (p->items.at[i]->kind != ITEM_COMMIT) continue;
        const int commit = p->items.at[i]->position;
        for (int b = 0; b < p->buffers.n; b++)
            if (p->buffers.at[b].first < commit && p->buffers.at[b].last > commit && !is_input(m, b))
                sum_add(m->l, sum, expr_mul(s, expr_int(s, 2), p->buffers.at[b].bytes));
    }
}

/* Weights, states and the batch once each, read; what is assigned, written; the stash. */
static Expr *least_moved(Maker *m)
{
    const Graph *g = m->p->graph;
    Sum sum = sum_new(m->l);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        if (v->origin == FROM_HYPER || !v->users.n) continue;
        sum_add(m->l, &sum, value_bytes(g, v));
        for (int u = 0; u < v->users.n; u++)
            if (v->users.at[u]->kind == OP_assign && v->users.at[u]->in[0] == v) sum_add(m->l, &sum, value_bytes(g, v));
    }
    add_stash_moved(m, &sum);
    return sum_total(m->l, &sum);
}

Program *program_make(Layout *layout, const char *name, const Groups *groups, const Launches *launches)
{
    Arena *arena = layout->arena;
    Program *p = NEW(arena, Program);
    p->name = name;
    p->graph = groups->graph;
    p->places = pointers_new(arena);
    p->moved = p->flops = expr_int(layout->symbols, 0);
    Maker m = {.l = layout,
               .p = p,
               .launches = launches,
               .names = map_new(arena),
               .last_of = map_new(arena),
               .gradient_of = pointers_new(arena),
               .root = pointers_new(arena),
               .last_reader = pointers_new(arena),
               .times = expr_int(layout->symbols, 1),
               .moved = sum_new(layout),
               .flops = sum_new(layout)};
    find_gradients(&m);
    find_last_ops(&m, p->graph);
    place_inputs(&m);
    add_groups(&m, &p->items, groups);
    place_outputs(&m);
    p->moved = sum_total(layout, &m.moved);
    p->flops = sum_total(layout, &m.flops);
    p->least = least_moved(&m);
    return p;
}
