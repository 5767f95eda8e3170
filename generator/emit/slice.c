/* Cuts a group at its first result, so that the others can be made again while that one is still there.
 * Needs: fuse.  Breaks: nothing.
 *
 *     {x2 = a + x; mean; y = (x2 - mean) * gain} -> x2, mean, y     becomes     {mean; y = (x2 - mean) * gain} -> mean, y, reading x2
 *
 * The same bits must come out.  A compiler may join a product with the sum that it feeds into one rounding, so the cut never goes
 * through a product, and every other result is still stored. */
#include "emit/slice.h"

typedef struct {
    const Group *group;
    const Value *cut;
    uint8_t *needed; /* by place in group->ops */
    bool reaches;    /* something needed reads the cut */
} Slice;

static int place_of(const Group *group, const Op *op)
{
    for (int i = 0; i < group->ops.n; i++)
        if (group->ops.at[i] == op) return i;
    return -1;
}

static void need(Slice *s, const Value *v)
{
    if (v == s->cut) {
        s->reaches = true;
        return;
    }
    int at = v->def ? place_of(s->group, v->def) : -1;
    if (at < 0 || s->needed[at]) return;
    s->needed[at] = 1;
    for (int i = 0; i < v->def->n_in; i++) need(s, v->def->in[i]);
}

static const Value *first_result(const Group *group)
{
    const Value *first = NULL;
    int at = group->ops.n;
    for (int o = 0; o < group->out.n; o++) {
        int here = place_of(group, group->out.at[o]->def);
        if (group->out.at[o]->def->n_out > 1) return NULL;
        if (here >= 0 && here < at) at = here, first = group->out.at[o];
    }
    return first;
}

static bool same_shapes(const Values *values)
{
    for (int i = 1; i < values->n; i++) {
        if (values->at[i]->rank != values->at[0]->rank) return false;
        for (int k = 0; k < values->at[0]->rank; k++)
            if (values->at[i]->shape[k] != values->at[0]->shape[k]) return false;
    }
    return true;
}

static Group *build(Arena *arena, const Slice *s)
{
    const Group *group = s->group;
    Group *out = NEW(arena, Group);
    out->kind = GROUP_LOOP;
    for (int i = 0; i < group->ops.n; i++) {
        Op *op = group->ops.at[i];
        if (!s->needed[i]) continue;
        vec_push(arena, &out->ops, op);
        if (op_info(op->kind)->class == REDUCE) out->kind = group->kind;
        for (int k = 0; k < op->n_in; k++) {
            int at = op->in[k]->def ? place_of(group, op->in[k]->def) : -1;
            if (at < 0 || !s->needed[at]) values_add_once(arena, &out->in, op->in[k]);
        }
    }
    for (int o = 0; o < group->out.n; o++)
        if (group->out.at[o] != s->cut) vec_push(arena, &out->out, group->out.at[o]);
    out->row = group->row;
    out->kept = group->kept;
    for (int i = 0; i < group->whole.n; i++) {
        int at = group->whole.at[i]->def ? place_of(group, group->whole.at[i]->def) : -1;
        if (at >= 0 && s->needed[at]) vec_push(arena, &out->whole, group->whole.at[i]);
    }
    return out->kind == GROUP_LOOP && !same_shapes(&out->out) ? NULL : out;
}

/* An only epilogue's results may be made again from its first one where that needs no product. */
static Group *slice_epilogue(Arena *arena, const Group *group)
{
    if (group->epilogue->epilogue) return NULL;
    Group *slice = slice_group(arena, group->epilogue);
    return slice && !values_hold(&slice->in, group->epilogue->product) ? slice : NULL;
}

Group *slice_group(Arena *arena, const Group *group)
{
    if (group->epilogue) return slice_epilogue(arena, group);
    if ((group->kind != GROUP_LOOP && group->kind != GROUP_ROW) || group->assigns.n || group->out.n < 2) return NULL;
    Slice s = {.group = group, .cut = first_result(group), .needed = NEW_ARRAY(arena, uint8_t, group->ops.n + 1)};
    if (!s.cut || (s.cut->def->kind != OP_add && s.cut->def->kind != OP_sub)) return NULL;
    for (int o = 0; o < group->out.n; o++)
        if (group->out.at[o] != s.cut) need(&s, group->out.at[o]);
    if (!s.reaches || s.needed[place_of(group, s.cut->def)]) return NULL;
    return build(arena, &s);
}
