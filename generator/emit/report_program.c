/* A program's part of report.html: buffers with their lives, kernels with what fusing saves and why it ended where it did. */
#include "emit/report_private.h"
#include "emit/saved.h"
#include <string.h>

/* ---- buffers ---- */
/* Buffers that no launch touches need no memory, unless the batch brings them. */
static uint8_t *touched_buffers(Report *r, const Program *p)
{
    uint8_t *touched = NEW_ARRAY(r->arena, uint8_t, p->buffers.n + 1);
    for (int u = 0; u < p->units.n; u++) {
        const Touches *lists[] = {&p->units.at[u].reads, &p->units.at[u].writes};
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < lists[k]->n; i++)
                if (lists[k]->at[i].kind == TOUCHES_BUFFER) touched[lists[k]->at[i].index] = 1;
    }
    return touched;
}

/* As the planner has it: inputs are there before the first launch, outputs are read after the last. */
static void put_buffers(Report *r, const Program *p)
{
    enum { NEVER = -1 };
    const bool by_units = p->points.n > 0;
    const uint8_t *touched = touched_buffers(r, p);
    int *first = NEW_ARRAY(r->arena, int, p->buffers.n + 1), *last = NEW_ARRAY(r->arena, int, p->buffers.n + 1);
    uint8_t *is_input = NEW_ARRAY(r->arena, uint8_t, p->buffers.n + 1);
    for (int b = 0; b < p->buffers.n; b++) first[b] = p->buffers.at[b].first, last[b] = p->buffers.at[b].last;
    for (int i = 0; i < r->l->inputs.n; i++)
        if (p->input_buffer[i] >= 0) first[p->input_buffer[i]] = 0, is_input[p->input_buffer[i]] = 1;
    for (int i = 0; i < p->outputs.n; i++) last[p->outputs.at[i].buffer] = p->positions;
    buf_put(&r->out,
            "/* name, type and shape, where it comes from, bytes, first and last launch (-1: never there), 1: of the batch */\n"
            "buffers: [\n");
    for (int b = 0; b < p->buffers.n; b++) {
        const Buffer *buffer = &p->buffers.at[b];
        const bool never = by_units && !touched[b] && !is_input[b];
        buf_printf(&r->out, "[\"%s\",%d,%d,%d,%d,%d,%d],\n", buffer->c,
                   report_word(r, arena_text(r->arena, "%s %s", buffer->type, buffer->shape)), report_word(r, buffer->source),
                   report_size(r, buffer->bytes), never ? NEVER : first[b],
                   never                ? NEVER
                   : last[b] < first[b] ? first[b]
                                        : last[b],
                   is_input[b]);
    }
    buf_put(&r->out, "],\n");
}

/* ---- kernels ---- */
/* "softmax_rows, dot": the kernels of some items, those of loops and branches too. */
static void kernels_of(const Items *items, int first, int last, Map *names)
{
    for (int i = first; i <= last; i++) {
        const Item *item = items->at[i];
        if (item->kind == ITEM_LAUNCH) map_set(names, item->launch->kernel, names);
        for (int b = 0; b < 2; b++) kernels_of(&item->body[b], 0, item->body[b].n - 1, names);
        kernels_of(&item->after, 0, item->after.n - 1, names);
    }
}

static int kernels_word(Report *r, const Items *items, int first, int last)
{
    Map *names = map_new(r->arena);
    Buf text = {.arena = r->arena};
    kernels_of(items, first, last, names);
    for (int i = 0; i < map_count(names); i++) buf_printf(&text, "%s%s", i ? ", " : "", map_key(names, i));
    return report_word(r, buf_text(&text));
}

/* What is computed: operations in order, without what costs nothing. */
static int ops_word(Report *r, const Group *group)
{
    Buf text = {.arena = r->arena};
    for (int o = 0; o < group->ops.n; o++) {
        const Op *op = group->ops.at[o];
        const bool free = op_info(op->kind)->class == SOURCE || op->kind == OP_broadcast || op->kind == OP_reshape;
        if (!free || group->ops.n == 1) buf_printf(&text, "%s%s", text.length ? ", " : "", op_info(op->kind)->name);
    }
    return report_word(r, buf_text(&text));
}

/* How often the body of a loop runs in a step; NULL: nobody knows before. */
static Expr *loop_times(Report *r, const Program *p, const Unit *unit)
{
    const Item *loop = p->items.at[unit->last_item];
    const Op *op = unit->group->ops.at[unit->group->ops.n - 1];
    if (unit->group->kind != GROUP_REGION || !unit->group->body[0] || loop->kind != ITEM_LOOP) return NULL;
    return op->kind == OP_blocks ? expr_ceildiv(r->l->symbols, loop->length, op_exprs(op, ATTR_block, NULL)[0]) : loop->length;
}

/* Of a loop: what its body saves, as often as it runs. */
static Expr *loop_saved(Report *r, const Program *p, const Unit *unit)
{
    const Groups *body = unit->group->body[0];
    Expr *times = loop_times(r, p, unit);
    if (!times) return NULL;
    Symbols *s = r->l->symbols;
    Expr *sum = expr_int(s, 0);
    uint8_t *counted = NEW_ARRAY(r->arena, uint8_t, body->graph->next_op + 1);
    for (int i = 0; i < body->list.n; i++) {
        int kernels;
        Expr *saved = bytes_saved(r->arena, s, body->list.at[i], counted, &kernels);
        if (saved) sum = expr_add(s, sum, saved);
    }
    return expr_is(sum, 0) ? NULL : expr_canonical(s, expr_mul(s, sum, times));
}

/* Bytes moved: as units have it, but for loops, whose bodies move. */
static Expr *unit_moved(Report *r, const Program *p, const Unit *unit)
{
    const Groups *body = unit->group->body[0];
    Expr *times = loop_times(r, p, unit);
    if (!times) return unit->moved;
    Symbols *s = r->l->symbols;
    Expr *sum = expr_int(s, 0);
    for (int i = 0; i < body->list.n; i++) {
        const Group *group = body->list.at[i];
        const Values *lists[] = {&group->in, &group->out};
        for (int k = 0; k < 2 && group->kind != GROUP_VIEW; k++)
            for (int v = 0; v < lists[k]->n; v++)
                if (lists[k]->at[v]->origin != FROM_HYPER) sum = expr_add(s, sum, value_bytes(body->graph, lists[k]->at[v]));
    }
    return expr_canonical(s, expr_mul(s, sum, times));
}

static Expr *unit_saved(Report *r, const Program *p, const Unit *unit, uint8_t *counted)
{
    Symbols *s = r->l->symbols;
    const Group *group = unit->group;
    int kernels;
    if (group->kind == GROUP_CELL) return bytes_saved_by_cell(r->arena, s, group->ops.at[group->ops.n - 1], unit->moved);
    return group->kind == GROUP_REGION ? loop_saved(r, p, unit) : bytes_saved(r->arena, s, group, counted, &kernels);
}

static void put_units(Report *r, const Program *p)
{
    uint8_t *counted = NEW_ARRAY(r->arena, uint8_t, p->graph->next_op + 1);
    Map *works = map_new(r->arena);
    buf_put(&r->out, "/* first and last launch, node, place in works */\nunits: [\n");
    for (int u = 0; u < p->units.n; u++) {
        const Unit *unit = &p->units.at[u];
        const char *work = arena_text(r->arena, "%d,%d,%d,%d,%d,%d", report_word(r, group_kind_name(unit->group->kind)),
                                      kernels_word(r, &p->items, unit->first_item, unit->last_item), ops_word(r, unit->group),
                                      report_size(r, unit->flops), report_size(r, unit_moved(r, p, unit)),
                                      report_size(r, unit_saved(r, p, unit, counted)));
        if (!map_has(works, work)) map_set(works, work, (void *)(intptr_t)(map_count(works) + 1));
        buf_printf(&r->out, "[%d,%d,%d,%d],\n", unit->first, unit->last, report_word(r, unit->source),
                   (int)(intptr_t)map_get(works, work) - 1);
    }
    buf_put(&r->out,
            "],\n/* kind, kernels, operations, flops, bytes moved, bytes saved by fusing (-1: nothing is fused) */\nworks: [\n");
    for (int i = 0; i < map_count(works); i++) buf_printf(&r->out, "[%s],\n", map_key(works, i));
    buf_put(&r->out, "],\n");
}

static bool among(const Touches *list, int buffer)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i].kind == TOUCHES_BUFFER && list->at[i].index == buffer) return true;
    return false;
}

/* Operands in whose memory the results lie are among what a unit writes. */
static void put_read_in_place(Report *r, const Program *p, const Unit *unit, const char *separator)
{
    for (int i = 0; i < unit->group->in.n; i++) {
        const Place *place = pointers_get(p->places, unit->group->in.at[i]);
        if (!place || place->buffer < 0 || among(&unit->reads, place->buffer) || !among(&unit->writes, place->buffer)) continue;
        buf_printf(&r->out, "%s%d", separator, place->buffer);
        separator = ",";
    }
}

/* Buffers by number; weights as -1, -2, …; states behind them. */
static void put_touches(Report *r, const Program *p, bool writes)
{
    buf_printf(&r->out, "%s: [\n", writes ? "writes" : "reads");
    for (int u = 0; u < p->units.n; u++) {
        const Touches *t = writes ? &p->units.at[u].writes : &p->units.at[u].reads;
        buf_put(&r->out, "[");
        for (int i = 0; i < t->n; i++) {
            const int index = t->at[i].index, code = t->at[i].kind == TOUCHES_BUFFER   ? index
                                                     : t->at[i].kind == TOUCHES_WEIGHT ? ~index
                                                                                       : ~(r->l->weights.n + index);
            buf_printf(&r->out, i ? ",%d" : "%d", code);
        }
        if (!writes) put_read_in_place(r, p, &p->units.at[u], t->n ? "," : "");
        buf_put(&r->out, "],\n");
    }
    graph_unmark_outputs(p->graph);
    buf_put(&r->out, "],\n");
}

static void put_reasons(Report *r, const Program *p, const Groups *groups)
{
    buf_put(&r->out, "/* by unit: buffer, why it lies in memory */\nstored: [\n");
    graph_mark_outputs(p->graph, r->arena);
    for (int u = 0; u < p->units.n; u++) {
        const Group *group = p->units.at[u].group;
        buf_put(&r->out, "[");
        const char *separator = "";
        for (int o = 0; o < group->out.n && group->kind != GROUP_ASSIGN; o++) {
            const Place *place = program_place(p, group->out.at[o]);
            if (place->buffer < 0) continue;
            buf_printf(&r->out, "%s%d,%d", separator, place->buffer,
                       report_word(r, fuse_reason(groups, group, group->out.at[o], r->arena)));
            separator = ",";
        }
        buf_put(&r->out, "],\n");
    }
    buf_put(&r->out, "],\n");
}

/* The dims that are the rows of a block in some loop of the program. */
static void put_blocks(Report *r, const Program *p)
{
    const Layout *l = r->l;
    uint8_t *used = NEW_ARRAY(r->arena, uint8_t, l->dims.n + 1);
    for (int o = 0; o < p->graph->ops.n; o++) {
        const Op *op = p->graph->ops.at[o];
        if (op->kind == OP_blocks) used[l->dim_of[symbol_index(op_exprs(op, ATTR_block, NULL)[0])]] = 1;
    }
    buf_put(&r->out, "blocks: [");
    for (int d = 0; d < l->dims.n; d++)
        if (used[d]) buf_printf(&r->out, "%d,", d);
    buf_put(&r->out, "],\n");
}

static int commit_launch(const Program *p)
{
    for (int i = 0; i < p->items.n; i++)
        if (p->items.at[i]->kind == ITEM_COMMIT) return p->items.at[i]->position;
    return p->positions;
}

void report_program(Report *r, const Program *p, const Groups *groups)
{
    buf_printf(&r->out, "{name: \"%s\", trains: %s, launches: %d, commit: %d, moved: %d, least: %d, flops: %d,\n", p->name,
               strcmp(p->name, "train") == 0 ? "true" : "false", p->positions, commit_launch(p), report_size(r, p->moved),
               report_size(r, p->least), report_size(r, p->flops));
    put_blocks(r, p);
    put_buffers(r, p);
    put_units(r, p);
    put_touches(r, p, false);
    put_touches(r, p, true);
    put_reasons(r, p, groups);
    report_plans(r, p);
    buf_put(&r->out, "},\n");
}
