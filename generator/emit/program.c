/* Flattens groups into the list of launches of a step; gives every value a place, every buffer its life.
 *
 * A value lies in a buffer of its own, but for views (where their operand lies), values that an assign wants in place (in the
 * weight or state), and in regions: parameters (where the operand lies, or at its slice), new carries and stacked results. */
#include "emit/program_private.h"
#include "emit/slice.h"
#include "support/diag.h"
#include <string.h>

/* ---- launches of the groups ---- */
struct Launches {
    Pointers *of;     /* Group -> GroupLaunches */
    Pointers *sliced; /* Group -> Sliced */
    VEC(const GroupLaunches *) list;
};

static void collect_launches(Launches *all, Arena *arena, Kernels *k, Symbols *symbols, const Groups *groups)
{
    for (int i = 0; i < groups->list.n; i++) {
        Group *group = groups->list.at[i];
        for (int b = 0; b < 2; b++)
            if (group->body[b] && group->kind == GROUP_REGION) collect_launches(all, arena, k, symbols, group->body[b]);
        if (group->kind == GROUP_VIEW || group->kind == GROUP_REGION || group->kind == GROUP_COMMIT ||
            group->kind == GROUP_FINITE)
            continue;
        GroupLaunches *l = NEW(arena, GroupLaunches);
        kernels_emit(k, group, &l->at, &l->n, &l->scratch);
        pointers_set(all->of, group, l);
        vec_push(arena, &all->list, l);
    }
}

/* Groups after which a result is read last. */
static int reach(const Groups *groups, int i, const Value *v)
{
    for (int k = groups->list.n - 1; k > i; k--)
        for (int o = 0; o < groups->list.at[k]->in.n; o++) {
            const Value *in = groups->list.at[k]->in.at[o];
            while (in != v && in->def && in->def->kind == OP_reshape) in = in->def->in[0];
            if (in == v) return k - i;
        }
    return 0;
}

/* What is needed long afterwards could be made again from a group's first result: forward, in the step of training. */
static void collect_slices(Launches *all, Arena *arena, Kernels *k, const Groups *groups)
{
    enum { LONG = 8 };
    for (int i = 0; i < groups->list.n && groups->list.at[i]->kind != GROUP_COMMIT; i++) {
        Group *slice = slice_group(arena, groups->list.at[i]);
        bool wanted = false;
        for (int o = 0; slice && o < slice->out.n && !wanted; o++) wanted = reach(groups, i, slice->out.at[o]) > LONG;
        if (!wanted) continue;
        Sliced *s = NEW(arena, Sliced);
        s->group = slice;
        kernels_emit(k, slice, &s->launches.at, &s->launches.n, &s->launches.scratch);
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
    collect_launches(all, arena, k, symbols, groups);
    if (plans(groups->graph->name)) collect_slices(all, arena, k, groups);
    return all;
}

void launches_kernels(const Launches *launches, Map *names)
{
    for (int i = 0; i < launches->list.n; i++)
        for (int l = 0; l < launches->list.at[i]->n; l++) map_set(names, launches->list.at[i]->at[l].kernel, (void *)launches);
}

/* ---- names ---- */
/* The operation's node, "d_" before what is of the backward pass; the last operation of a node bears its plain name, others their
 * kind too. */
static const char *value_c_name(Maker *m, const Value *v)
{
    Arena *arena = m->l->arena;
    const Op *op = v->def;
    if (!op) return layout_unique(m->l, m->names, c_name(arena, *v->name ? v->name : "value"));
    bool gradient = strcmp(op->role, "gradient") == 0;
    const char *base = *v->name ? c_name(arena, v->name) : *op->source ? c_name(arena, op->source) : op_info(op->kind)->name;
    const Op *last = map_get(m->last_of, arena_text(arena, "%s %s", op->role, op->source));
    const char *kind = op_info(op->kind)->name;
    bool says_kind = strcmp(base, kind) == 0 || (last == op && v->result == 0) || *v->name;
    const char *which = v->result ? arena_text(arena, "_%d", v->result) : "";
    return layout_unique(
        m->l, m->names,
        arena_text(arena, "%s%s%s%s%s", gradient ? "d_" : "", base, says_kind ? "" : "_", says_kind ? "" : kind, which));
}

static void find_last_ops(Maker *m, const Graph *g)
{
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        map_set(m->last_of, arena_text(m->l->arena, "%s %s", op->role, op->source), op);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) find_last_ops(m, op->body[b]);
    }
}

/* ---- buffers and places ---- */
void touch(Maker *m, int buffer, int position)
{
    if (buffer < 0) return;
    Buffer *b = &m->p->buffers.at[buffer];
    vec_push(m->l->arena, &m->touched, buffer);
    if (position < b->first) b->first = position;
    if (position > b->last) b->last = position;
}

Place *place_new(Maker *m, const Value *v, const char *pointer, int buffer)
{
    Place *place = NEW(m->l->arena, Place);
    *place = (Place){pointer, buffer};
    pointers_set(m->p->places, v, place);
    return place;
}

static int buffer_new(Maker *m, Buffer b)
{
    b.first = b.last = m->p->positions;
    vec_push(m->l->arena, &m->p->buffers, b);
    return m->p->buffers.n - 1;
}

Place *own_buffer(Maker *m, const Value *v)
{
    const char *name = value_c_name(m, v), *source = v->def ? v->def->source : v->name;
    if (v->def && strcmp(v->def->role, "gradient") == 0)
        source = arena_text(m->l->arena, "gradient of %s", *source ? source : "the loss");
    int b = buffer_new(m, (Buffer){.c = name,
                                   .type = dtype_c(v->dtype),
                                   .shape = shape_comment(m->l, v),
                                   .source = source,
                                   .bytes = value_bytes(m->p->graph, v)});
    return place_new(m, v, name, b);
}

const Place *program_place(const Program *p, const Value *v)
{
    const Place *place = pointers_get(p->places, v);
    if (!place)
        bug("%%%d \"%s\" (%s) lies nowhere", v->id, v->def ? v->def->source : v->name,
            v->def ? op_info(v->def->kind)->name : "input");
    return place;
}

static void place_inputs(Maker *m)
{
    Layout *l = m->l;
    Program *p = m->p;
    p->input_buffer = NEW_ARRAY(l->arena, int, l->inputs.n + 1);
    p->reads_weight = NEW_ARRAY(l->arena, int, l->weights.n + 1);
    p->reads_state = NEW_ARRAY(l->arena, int, l->states.n + 1);
    p->reads_hyper = NEW_ARRAY(l->arena, int, l->hypers.n + 1);
    for (int i = 0; i < l->inputs.n; i++) p->input_buffer[i] = -1;
    Pointers *outputs = pointers_new(l->arena);
    for (int i = 0; i < p->graph->outputs.n; i++) pointers_set(outputs, p->graph->outputs.at[i], p);
    for (int i = 0; i < p->graph->inputs.n; i++) {
        Value *v = p->graph->inputs.at[i];
        if (!v->users.n && !pointers_get(outputs, v)) continue;
        if (v->origin == FROM_BATCH) {
            int at = layout_find(l->input_of, v->name);
            const char *c = l->inputs.at[at].c;
            p->input_buffer[at] = buffer_new(m, (Buffer){.c = c,
                                                         .type = dtype_c(v->dtype),
                                                         .shape = shape_comment(l, v),
                                                         .source = arena_text(l->arena, "input %s", v->name),
                                                         .bytes = value_bytes(p->graph, v)});
            place_new(m, v, c, p->input_buffer[at]);
        } else if (v->origin == FROM_WEIGHT) {
            int at = layout_find(l->weight_of, v->tensor->name);
            p->reads_weight[at] = 1;
            place_new(m, v, arena_text(l->arena, "w->%s", l->weights.at[at].c), -1);
        } else if (v->origin == FROM_STATE) {
            int at = layout_find(l->state_of, v->tensor->name);
            p->reads_state[at] = 1;
            place_new(m, v, arena_text(l->arena, "states->%s", l->states.at[at].c), -1);
        } else if (v->origin == FROM_HYPER) {
            p->reads_hyper[layout_find(l->hyper_of, v->name)] = 1;
        }
    }
}

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

static void count_work(Maker *m, Expr *moved, Expr *flops)
{
    Symbols *s = m->l->symbols;
    if (moved) m->p->moved = expr_add(s, m->p->moved, expr_mul(s, moved, m->times));
    if (flops && m->block) /* the blocks' rows are all rows */
        m->p->flops = expr_add(s, m->p->flops, expr_substitute(s, flops, m->block, m->rows));
    else if (flops)
        m->p->flops = expr_add(s, m->p->flops, expr_mul(s, flops, m->times));
}

/* What a reader wants to see beside a launch: the nodes of its operations, the last three at most; what is folded in was made
 * elsewhere. */
static void name_nodes(Maker *m, Item *item, const Group *group)
{
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
                     .comment = "",
                     .moved = expr_mul(s, bytes, expr_int(s, 2)),
                     .flops = expr_int(s, 0)};
    vec_push(arena, &copy->args, ((Arg){.kind = ARG_VALUE, .value = dst}));
    vec_push(arena, &copy->args, ((Arg){.kind = ARG_VALUE, .value = src}));
    vec_push(arena, &copy->args, ((Arg){.kind = ARG_EXPR, .expr = bytes}));
    add_launch(m, items, copy, op, NULL, -1);
}

static int scratch_new(Maker *m, Expr *bytes, const char *for_what)
{
    const char *name = layout_unique(m->l, m->names, arena_text(m->l->arena, "%s_scratch", for_what));
    return buffer_new(
        m,
        (Buffer){
            .c = name, .type = "char", .shape = "", .source = arena_text(m->l->arena, "scratch of %s", for_what), .bytes = bytes});
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

/* ---- results in place of operands ---- */
static const Value *root_of(const Maker *m, const Value *v)
{
    const Value *root = pointers_get(m->root, v);
    return root ? root : v;
}

/* Who reads what last, in one list of groups; what the list's graph gives out is kept, but for gradients: they are saved at once.
 */
static void find_last_readers(Maker *m, const Groups *groups)
{
    const Graph *g = groups->graph;
    for (int i = 0; i < groups->list.n; i++) {
        Group *group = groups->list.at[i];
        for (int k = 0; k < group->in.n; k++) pointers_set(m->last_reader, root_of(m, group->in.at[k]), group);
        if (group->kind == GROUP_VIEW) pointers_set(m->root, group->out.at[0], (void *)root_of(m, group->in.at[0]));
    }
    for (int i = 0; i < g->outputs.n; i++)
        if (!pointers_get(m->gradient_of, g->outputs.at[i])) pointers_set(m->last_reader, root_of(m, g->outputs.at[i]), NULL);
}

/* An operand that nobody reads afterwards and in whose memory the result may lie. */
static const Value *replaceable(Maker *m, const Group *group, const Value *out)
{
    if (group->kind != GROUP_LOOP && group->kind != GROUP_ROW) return NULL;
    for (int i = 0; i < group->in.n; i++) {
        const Value *in = group->in.at[i], *root = root_of(m, in);
        if (!root->def || pointers_get(m->last_reader, root) != group || in->dtype != out->dtype) continue;
        if (program_place(m->p, in)->buffer < 0 || value_count(m->p->graph, in) != value_count(m->p->graph, out)) continue;
        if (!kernels_in_place(group, in, out)) continue;
        pointers_set(m->last_reader, root, NULL);
        return in;
    }
    return NULL;
}

static bool place_result(Maker *m, const Group *group, const Value *out)
{
    const Value *in = replaceable(m, group, out);
    if (!in) {
        own_buffer(m, out);
        return false;
    }
    const Place *place = program_place(m->p, in);
    place_new(m, out, place->pointer, place->buffer);
    return true;
}

static void add_group(Maker *m, Items *items, const Group *group)
{
    Op *op = group->ops.at[group->ops.n - 1];
    if (group->kind == GROUP_VIEW) {
        const Place *under = program_place(m->p, group->in.at[0]);
        place_new(m, group->out.at[0], under->pointer, under->buffer);
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
    bool read = group->kind != GROUP_LATE;
    for (int i = 0; i < l->n; i++) {
        Item *item = add_launch(m, items, &l->at[i], op, scratch_name, scratch);
        item->in_place = in_place;
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

/* ---- units ---- */
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
    while (v->def && v->def->kind == OP_reshape) v = v->def->in[0];
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

/* flops, moved: of the program before it. */
static void add_unit(Maker *m, const Group *group, Unit unit, int buffers_before, Expr *flops, Expr *moved)
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
        unit.flops = expr_sub(s, p->flops, flops), unit.moved = expr_sub(s, p->moved, moved);
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

static void add_recipe(Maker *m, const Group *group, int of)
{
    Symbols *symbols = m->l->symbols;
    const Sliced *s = pointers_get(m->launches->sliced, group);
    if (!s || !m->p->units.at[of].again || !operands_stand(m, group, s->group)) return;
    if (s->launches.scratch && !expr_is(s->launches.scratch, 0)) return;
    Unit unit = {.first = -1, .last = -1, .again = true, .of = of, .source = m->p->units.at[of].source};
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

bool program_trains(const Program *p)
{
    return program_plans(p) || strcmp(p->name, "unfused") == 0;
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
        Expr *flops = m->p->flops, *moved = m->p->moved;
        bool outermost = items == &m->p->items;
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
    bool trains = program_trains(p);
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
static Expr *stash_moved(Maker *m)
{
    Symbols *s = m->l->symbols;
    const Program *p = m->p;
    Expr *sum = expr_int(s, 0);
    for (int i = 0; i < p->items.n; i++) {
        if (p->items.at[i]->kind != ITEM_COMMIT) continue;
        const int commit = p->items.at[i]->position;
        for (int b = 0; b < p->buffers.n; b++)
            if (p->buffers.at[b].first < commit && p->buffers.at[b].last > commit && !is_input(m, b))
                sum = expr_add(s, sum, expr_mul(s, expr_int(s, 2), p->buffers.at[b].bytes));
    }
    return sum;
}

/* Weights, states and the batch once each, read; what is assigned, written; the stash. */
static Expr *least_moved(Maker *m)
{
    Symbols *s = m->l->symbols;
    const Graph *g = m->p->graph;
    Expr *sum = expr_int(s, 0);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        if (v->origin == FROM_HYPER || !v->users.n) continue;
        sum = expr_add(s, sum, value_bytes(g, v));
        for (int u = 0; u < v->users.n; u++)
            if (v->users.at[u]->kind == OP_assign && v->users.at[u]->in[0] == v) sum = expr_add(s, sum, value_bytes(g, v));
    }
    return expr_add(s, sum, stash_moved(m));
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
               .times = expr_int(layout->symbols, 1)};
    find_gradients(&m);
    find_last_ops(&m, p->graph);
    place_inputs(&m);
    add_groups(&m, &p->items, groups);
    place_outputs(&m);
    p->least = least_moved(&m);
    return p;
}
