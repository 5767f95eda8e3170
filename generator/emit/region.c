/* Regions of a program: scan, while and branch become loops and conditions around the launches of their bodies.
 *
 * Carries have a buffer of their own, the region's result: the operand is copied in, the body reads it there, and the new carry is
 * computed in place where nobody needs the old one any more, else copied at the end of an iteration.  Slices are pointers that move
 * with the loop; a stacked result is written at its place. */
#include "emit/program_private.h"
#include "ir/view.h"
#include "support/diag.h"
#include <string.h>

/* The index of the group of a body that makes v; -1: a parameter. */
static int maker_of(const Groups *body, const Value *v)
{
    for (int i = 0; i < body->list.n; i++) {
        const Group *group = body->list.at[i];
        for (int o = 0; o < group->out.n && group->kind != GROUP_VIEW; o++)
            if (group->out.at[o] == v) return i;
    }
    return -1;
}

/* Among the body's outputs from number `first` up to `last`. */
static bool is_output(const Groups *body, const Value *v, int first, int last)
{
    for (int i = first; i < last; i++)
        if (value_root(body->graph->outputs.at[i]) == v) return true;
    return false;
}

/* Whether the new carry may be written over the old one: every reader of the old has run, or is the writer and reads each element
 * before writing it; and the old one leaves the iteration in no other way. */
static bool may_overwrite(const Groups *body, const Value *old, const Value *made, int n_carried)
{
    int maker = maker_of(body, made);
    if (maker < 0 || is_output(body, old, 0, n_carried) || body->list.at[maker]->kind == GROUP_REGION) return false;
    for (int i = 0; i < body->list.n; i++) {
        const Group *group = body->list.at[i];
        if (group->kind == GROUP_VIEW) continue;
        for (int k = 0; k < group->in.n; k++) {
            if (value_root(group->in.at[k]) != old) continue;
            if (i > maker) return false;
            if (i == maker && !(group->in.at[k] == old && kernels_in_place(group, old, made))) return false;
        }
    }
    return true;
}

static void place_like(Maker *m, const Value *v, const Place *place)
{
    place_new(m, v, place->pointer, place->buffer);
}

static bool placed(const Maker *m, const Value *v)
{
    return pointers_get(m->p->places, v) != NULL;
}

/* Results of an arm or stacked ones may be written where they are wanted by the group that makes them. */
static bool place_at_maker(Maker *m, const Groups *body, const Value *out, const char *pointer, int buffer)
{
    const Value *root = value_root(out);
    int maker = maker_of(body, root);
    if (maker < 0 || body->list.at[maker]->kind == GROUP_REGION || placed(m, root)) return false;
    place_new(m, root, pointer, buffer);
    return true;
}

/* One loop's counter is t, those inside it t_2, t_3… */
static const char *counter(Maker *m)
{
    return m->loops++ ? arena_text(m->l->arena, "t_%d", m->loops) : "t";
}

/* A value that is only a place: where a copy goes. */
static Value *destination(Maker *m, const Value *like, const char *pointer, int buffer)
{
    Value *v = NEW(m->l->arena, Value);
    *v = *like;
    v->users = (Ops){0};
    place_new(m, v, pointer, buffer);
    return v;
}

static const char *slice_pointer(Maker *m, Item *loop, const Value *whole, const Value *step, const char *wanted)
{
    const char *name = layout_unique(m->l, m->names, wanted);
    Local local = {name, dtype_c(step->dtype), program_place(m->p, whole)->pointer, shape_comment(m->l, step),
                   value_count(m->p->graph, step)};
    vec_push(m->l->arena, &loop->locals, local);
    return name;
}

/* Everything alive across a loop stays so until its end: it is read, or written, in each iteration. */
static void extend_lives(Maker *m, int begin)
{
    int end = m->p->positions - 1;
    for (int b = 0; b < m->p->buffers.n; b++) {
        Buffer *buffer = &m->p->buffers.at[b];
        if (buffer->first < begin && buffer->last >= begin) touch(m, b, end);
    }
}

/* ---- carries ---- */
typedef struct {
    Value *old, *made, *result; /* parameter of the body, output of the body, result of the region */
    bool in_place;
} Carry;

static void begin_carry(Maker *m, Items *items, Carry *c, Value *operand, const Op *op)
{
    Place *place = own_buffer(m, c->result);
    add_copy(m, items, c->result, operand, op);
    place_like(m, c->old, place);
}

/* n_carried: the outputs that are read at the end of an iteration; those behind are stacked, and an old carry is stacked at its
 * start. */
static void plan_carry(Maker *m, const Groups *body, Carry *c, int n_carried)
{
    const Value *root = value_root(c->made);
    c->in_place = c->made == c->old;
    if (c->in_place || placed(m, root) || !may_overwrite(body, c->old, root, n_carried)) return;
    place_like(m, root, program_place(m->p, c->old));
    c->in_place = true;
}

/* At the end of an iteration.  A new carry that is another one's old value is set aside first. */
static void advance_carries(Maker *m, Items *items, Carry *carries, int n, const Op *op)
{
    for (int i = 0; i < n; i++) {
        bool moves = false;
        for (int j = 0; j < n; j++) moves |= j != i && !carries[j].in_place && value_root(carries[i].made) == carries[j].old;
        if (carries[i].in_place || !moves) continue;
        Value *aside = NEW(m->l->arena, Value);
        *aside = *carries[i].made;
        aside->name = "aside";
        aside->def = NULL;
        own_buffer(m, aside);
        add_copy(m, items, aside, carries[i].made, op);
        carries[i].made = aside;
    }
    for (int i = 0; i < n; i++)
        if (!carries[i].in_place) add_copy(m, items, carries[i].result, carries[i].made, op);
}

/* ---- scan ---- */
static void add_scan(Maker *m, Items *items, const Group *group)
{
    const Op *op = group->ops.at[group->ops.n - 1];
    const Groups *body = group->body[0];
    const Graph *g = body->graph;
    int n_carries = (int)op_int(op, ATTR_carries), slices = (int)op_int(op, ATTR_slices), stacked = op->n_out - n_carries;
    Carry *carries = NEW_ARRAY(m->l->arena, Carry, n_carries + 1);
    for (int i = 0; i < n_carries; i++) {
        carries[i] = (Carry){g->inputs.at[i], g->outputs.at[i], op->out[i], false};
        begin_carry(m, items, &carries[i], op->in[i], op);
    }
    for (int i = 0; i < stacked; i++) own_buffer(m, op->out[n_carries + i]);
    int begin = m->p->positions;
    Item *loop = item_new(m, items, ITEM_LOOP, op);
    loop->length = slices ? op->in[n_carries]->shape[0] : op->out[n_carries]->shape[0];
    loop->counter = counter(m);
    loop->reverse = op_int(op, ATTR_reverse);
    for (int i = n_carries; i < op->n_in; i++) {
        const Place *whole = program_place(m->p, op->in[i]);
        const char *pointer = whole->pointer;
        if (i < n_carries + slices)
            pointer =
                slice_pointer(m, loop, op->in[i], g->inputs.at[i], arena_text(m->l->arena, "%s_%s", whole->pointer, loop->counter));
        place_new(m, g->inputs.at[i], pointer, whole->buffer);
    }
    Value **late_copy = NEW_ARRAY(m->l->arena, Value *, stacked + 1);
    for (int i = 0; i < stacked; i++) {
        Value *whole = op->out[n_carries + i], *out = g->outputs.at[n_carries + i];
        const Place *place = program_place(m->p, whole);
        const char *pointer = slice_pointer(m, loop, whole, out, arena_text(m->l->arena, "%s_%s", place->pointer, loop->counter));
        if (!place_at_maker(m, body, out, pointer, place->buffer)) late_copy[i] = destination(m, out, pointer, place->buffer);
    }
    for (int i = 0; i < n_carries; i++) plan_carry(m, body, &carries[i], n_carries);
    Expr *times = m->times;
    m->times = expr_mul(m->l->symbols, times, loop->length);
    for (int i = 0; i < stacked; i++)
        if (late_copy[i] && !value_root(g->outputs.at[n_carries + i])->def) {
            add_copy(m, &loop->body[0], late_copy[i], value_root(g->outputs.at[n_carries + i]), op);
            late_copy[i] = NULL;
        }
    add_groups(m, &loop->body[0], body);
    for (int i = 0; i < stacked; i++)
        if (late_copy[i]) add_copy(m, &loop->body[0], late_copy[i], g->outputs.at[n_carries + i], op);
    advance_carries(m, &loop->body[0], carries, n_carries, op);
    m->times = times;
    m->loops--;
    for (int i = 0; i < op->n_out; i++) {
        touch(m, program_place(m->p, op->out[i])->buffer, begin);
        touch(m, program_place(m->p, op->out[i])->buffer, m->p->positions - 1);
    }
    extend_lives(m, begin);
}

/* ---- blocks ---- */
static Expr *row_elements(Maker *m, const Value *v)
{
    return expr_product(m->l->symbols, v->shape + 1, v->rank - 1);
}

/* A pointer to the loop's row of v. */
static const char *row_pointer(Maker *m, Item *loop, const Value *whole, const Value *inside)
{
    const Place *place = program_place(m->p, whole);
    const char *name = layout_unique(m->l, m->names, arena_text(m->l->arena, "%s_rows", place->pointer));
    Local local = {name, dtype_c(inside->dtype), place->pointer, shape_comment(m->l, inside), row_elements(m, inside)};
    vec_push(m->l->arena, &loop->locals, local);
    return name;
}

/* Adds a block's part of a sum to the sum. */
static void add_part(Maker *m, Items *items, Value *sum, Value *part, const Op *op)
{
    Arena *arena = m->l->arena;
    Symbols *s = m->l->symbols;
    Launch *add = NEW(arena, Launch);
    Expr *count = value_count(m->p->graph, sum);
    *add = (Launch){.kernel = "add_part", .library = true, .flops = count};
    add->moved = expr_mul(s, value_bytes(m->p->graph, sum), expr_int(s, 3));
    vec_push(arena, &add->args, ((Arg){.kind = ARG_VALUE, .value = sum}));
    vec_push(arena, &add->args, ((Arg){.kind = ARG_VALUE, .value = part}));
    vec_push(arena, &add->args, ((Arg){.kind = ARG_EXPR, .expr = count}));
    vec_push(arena, &add->args, ((Arg){.kind = ARG_LATER}));
    add_launch(m, items, add, op, NULL, -1);
}

/* Whether sum i of the body is added up by the product that makes it. */
static bool adds_up(const Groups *body, const Value *out)
{
    const int maker = maker_of(body, out);
    return maker >= 0 && body->list.at[maker]->adds;
}

static void place_rows(Maker *m, Item *loop, const Op *op, const Groups *body)
{
    const Graph *g = body->graph;
    const int slices = (int)op_int(op, ATTR_slices);
    for (int i = 0; i < op->n_in; i++) {
        const Place *whole = program_place(m->p, op->in[i]);
        const char *pointer = i < slices ? row_pointer(m, loop, op->in[i], g->inputs.at[i]) : whole->pointer;
        place_new(m, g->inputs.at[i], pointer, whole->buffer);
    }
}

static void add_blocks(Maker *m, Items *items, const Group *group)
{
    const Op *op = group->ops.at[group->ops.n - 1];
    const Groups *body = group->body[0];
    const Graph *g = body->graph;
    Symbols *s = m->l->symbols;
    const int sums = (int)op_int(op, ATTR_sums);
    Expr *block = op_exprs(op, ATTR_block, NULL)[0], *rows = op->in[0]->shape[0];
    for (int i = 0; i < op->n_out; i++) own_buffer(m, op->out[i]);
    const int begin = m->p->positions;
    Item *loop = item_new(m, items, ITEM_LOOP, op);
    loop->length = rows;
    loop->block = m->l->dims.at[m->l->dim_of[symbol_index(block)]].c;
    m->row = loop->counter = "row";
    m->block = block, m->rows = rows;
    place_rows(m, loop, op, body);
    Value **late_copy = NEW_ARRAY(m->l->arena, Value *, op->n_out + 1);
    for (int i = 0; i < op->n_out; i++) {
        Value *out = g->outputs.at[i];
        const Place *place = program_place(m->p, op->out[i]);
        if (i < sums) {
            if (adds_up(body, out)) place_like(m, out, place);
            continue;
        }
        const char *pointer = row_pointer(m, loop, op->out[i], out);
        if (!place_at_maker(m, body, out, pointer, place->buffer)) late_copy[i] = destination(m, out, pointer, place->buffer);
    }
    Expr *times = m->times;
    m->times = expr_mul(s, times, expr_ceildiv(s, rows, block));
    add_groups(m, &loop->body[0], body);
    for (int i = 0; i < op->n_out; i++) {
        if (late_copy[i]) add_copy(m, &loop->body[0], late_copy[i], g->outputs.at[i], op);
        if (i < sums && !adds_up(body, g->outputs.at[i])) add_part(m, &loop->body[0], op->out[i], g->outputs.at[i], op);
    }
    m->times = times;
    m->row = NULL, m->block = NULL;
    for (int i = 0; i < op->n_out; i++) {
        touch(m, program_place(m->p, op->out[i])->buffer, begin);
        touch(m, program_place(m->p, op->out[i])->buffer, m->p->positions - 1);
    }
    extend_lives(m, begin);
}

/* ---- while ---- */
static void add_while(Maker *m, Items *items, const Group *group)
{
    const Op *op = group->ops.at[group->ops.n - 1];
    const Groups *body = group->body[0];
    const Graph *g = body->graph;
    int n = op->n_out;
    Carry *carries = NEW_ARRAY(m->l->arena, Carry, n + 1);
    for (int i = 0; i < n; i++) {
        carries[i] = (Carry){g->inputs.at[i + 1], g->outputs.at[i + 1], op->out[i], false};
        begin_carry(m, items, &carries[i], op->in[i + 1], op);
    }
    for (int i = n + 1; i < op->n_in; i++) place_like(m, g->inputs.at[i], program_place(m->p, op->in[i]));
    int begin = m->p->positions;
    Item *loop = item_new(m, items, ITEM_WHILE, op);
    loop->counter = counter(m);
    loop->place = program_place(m->p, op->in[0]);
    touch(m, loop->place->buffer, begin);
    Value *iteration = g->inputs.at[0];
    if (iteration->users.n || is_output(body, iteration, 0, g->outputs.n)) loop->iteration = own_buffer(m, iteration);
    /* The condition is read before the carries move on, but one that is itself written over a carry would be the new one. */
    for (int i = 0; i < n; i++)
        if (value_root(g->outputs.at[0]) != value_root(carries[i].made)) plan_carry(m, body, &carries[i], g->outputs.n);
    add_groups(m, &loop->body[0], body);
    loop->again = program_place(m->p, g->outputs.at[0]);
    advance_carries(m, &loop->after, carries, n, op);
    m->loops--;
    int end = m->p->positions > begin ? m->p->positions - 1 : begin;
    touch(m, loop->again->buffer, end);
    if (loop->iteration) {
        touch(m, loop->iteration->buffer, begin);
        touch(m, loop->iteration->buffer, end);
    }
    for (int i = 0; i < n; i++) {
        touch(m, program_place(m->p, op->out[i])->buffer, begin);
        touch(m, program_place(m->p, op->out[i])->buffer, end);
    }
    extend_lives(m, begin);
}

/* ---- branch ---- */
static void add_arm(Maker *m, Items *items, const Op *op, const Groups *body)
{
    const Graph *g = body->graph;
    for (int i = 1; i < op->n_in; i++) place_like(m, g->inputs.at[i - 1], program_place(m->p, op->in[i]));
    bool *copied = NEW_ARRAY(m->l->arena, bool, op->n_out + 1);
    for (int i = 0; i < op->n_out; i++) {
        const Place *result = program_place(m->p, op->out[i]);
        copied[i] = !place_at_maker(m, body, g->outputs.at[i], result->pointer, result->buffer);
    }
    add_groups(m, items, body);
    for (int i = 0; i < op->n_out; i++)
        if (copied[i]) add_copy(m, items, op->out[i], g->outputs.at[i], op);
}

static void add_branch(Maker *m, Items *items, const Group *group)
{
    const Op *op = group->ops.at[group->ops.n - 1];
    for (int i = 0; i < op->n_out; i++) own_buffer(m, op->out[i]);
    Item *branch = item_new(m, items, ITEM_BRANCH, op);
    branch->place = program_place(m->p, op->in[0]);
    touch(m, branch->place->buffer, m->p->positions);
    for (int b = 0; b < 2; b++) add_arm(m, &branch->body[b], op, group->body[b]);
    for (int i = 0; i < op->n_out; i++)
        if (m->p->positions) touch(m, program_place(m->p, op->out[i])->buffer, m->p->positions - 1);
}

void add_region(Maker *m, Items *items, const Group *group)
{
    switch (group->ops.at[group->ops.n - 1]->kind) {
    case OP_scan: add_scan(m, items, group); return;
    case OP_blocks: add_blocks(m, items, group); return;
    case OP_while: add_while(m, items, group); return;
    case OP_branch: add_branch(m, items, group); return;
    default: bug("%s is no region", op_info(group->ops.at[group->ops.n - 1]->kind)->name);
    }
}
