/* Part of fuse: a kernel that begins with the rows of a matrix product becomes the product's epilogue.
 *
 *     dot c = x w                                    dot + row:  c = x w, a block of rows at a time, and on each block
 *     row y = norm(c + bias + residual)      ->                  y = norm(c + bias + residual)
 *
 * Such a kernel reads each element of the product where it writes its own, or adds it to a sum over rows; so it can follow a few rows
 * of the product while these are near the processor.  The product itself lies where one of the kernel's results will be, and is stored
 * by itself only where somebody else reads it too.
 *
 * Groups are merged once all are known: neither of the two is another kernel than it would be alone. */
#include "ir/view.h"
#include "passes/fuse.h"
#include <string.h>

enum { COLUMNS_MAX = 16384 }; /* of a product: rows wider than this do not stay near the processor */

static Group *group_at(const Merge *m, int i)
{
    return m->groups->list.at[i];
}

/* The readers of a product, also through views of it. */
typedef struct {
    int first;   /* place of the first group that is no view */
    bool others; /* somebody else reads it too, or it is an output */
} Readers;

static void find_readers(const Merge *m, const Value *v, Readers *r)
{
    r->others |= m->output[v->id];
    for (int i = 0; i < v->users.n; i++) {
        const int at = m->at[v->users.at[i]->id];
        const Op *user = v->users.at[i];
        if (at < 0) { /* made again in each group that reads it */
            for (int o = 0; o < user->n_out; o++) find_readers(m, user->out[o], r);
        } else if (group_at(m, at)->kind == GROUP_VIEW) {
            find_readers(m, group_at(m, at)->out.at[0], r);
        } else if (r->first != at) {
            r->others |= r->first >= 0;
            if (r->first < 0 || at < r->first) r->first = at;
        }
    }
}

/* The one operand of the group that is the product or a view of it; NULL where it reads it in two ways. */
static Value *operand_of(const Group *group, const Value *product)
{
    Value *found = NULL;
    for (int i = 0; i < group->in.n; i++) {
        Value *v = group->in.at[i];
        if (value_root(v) != product) continue;
        if (found) return NULL;
        found = v;
    }
    return found;
}

static Expr *count(const Merge *m, const Value *v, int from, int to)
{
    return expr_canonical(m->g->symbols, expr_product(m->g->symbols, v->shape + from, to - from));
}

/* Rows of the first `kept` axes of v are the product's rows. */
static bool same_rows(const Merge *m, const Value *v, int kept, const Value *product)
{
    Symbols *s = m->g->symbols;
    return expr_always_equal(s, count(m, v, kept, v->rank), product->shape[product->rank - 1]) &&
           expr_always_equal(s, count(m, v, 0, kept), count(m, product, 0, product->rank - 1));
}

static const Op *reduction_of(const Group *group)
{
    for (int i = group->ops.n - 1; i >= 0; i--)
        if (op_info(group->ops.at[i]->kind)->class == REDUCE) return group->ops.at[i];
    return NULL;
}

/* Sums over all rows, one a column. */
static bool sums_columns(const Merge *m, const Group *group, const Value *product)
{
    const Op *op = reduction_of(group);
    if (op->kind == OP_arg_max || op->kind == OP_arg_min) return false;
    const Value *x = op->in[0];
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    for (int i = 0; i < n; i++)
        if (axes[i] != i) return false;
    return n == x->rank - 1 && same_rows(m, x, n, product);
}

static bool works_on_rows(const Merge *m, const Group *group, const Value *product)
{
    switch (group->kind) {
    case GROUP_LOOP: return group->out.at[0]->rank > 0 && same_rows(m, group->out.at[0], group->out.at[0]->rank - 1, product);
    case GROUP_ROW: return same_rows(m, group->row, group->kept, product);
    case GROUP_REDUCE: return sums_columns(m, group, product);
    default: return false;
    }
}

static bool is_one(const Merge *m, Expr *e)
{
    return expr_is(expr_canonical(m->g->symbols, e), 1);
}

bool fuse_holds_product(const Merge *m, const Group *group, const Value *operand, const Value *result)
{
    return result->dtype == operand->dtype && value_count(m->g, result) == value_count(m->g, operand) &&
           kernels_in_place(group, operand, result);
}

/* Whether `group` may be the epilogue of `dot`; then says where the product lies. */
static bool fits(const Merge *m, const Group *dot, Group *group, bool stored)
{
    Value *product = dot->out.at[0], *operand = operand_of(group, product);
    const int columns = product->rank - 1;
    if (!operand || group->assigns.n || strcmp(group->ops.at[group->ops.n - 1]->role, "optimizer") == 0) return false;
    if (is_one(m, product->shape[columns]) || is_one(m, count(m, product, 0, columns))) return false;
    if (expr_likely(m->g->symbols, product->shape[columns]) > COLUMNS_MAX || !works_on_rows(m, group, product)) return false;
    for (int o = 0; o < group->out.n; o++)
        if (!kernels_at_own_place(group, group->out.at[o], operand)) return false;
    group->product = operand;
    group->place = stored ? product : NULL;
    for (int o = 0; o < group->out.n && !group->place; o++)
        if (fuse_holds_product(m, group, operand, group->out.at[o])) group->place = group->out.at[o];
    if (!group->place) group->product = NULL;
    return group->place != NULL;
}

/* The reshapes that lead from the product to the epilogue's operand. */
static void add_views(Arena *arena, Ops *ops, const Value *operand, const Op *dot)
{
    if (operand->def == dot) return;
    add_views(arena, ops, operand->def->in[0], dot);
    vec_push(arena, ops, operand->def);
}

static void merge(Merge *m, int at, int into)
{
    Arena *arena = m->g->arena;
    Group *dot = group_at(m, at), *epilogue = group_at(m, into), *both = NEW(arena, Group);
    Op *op = dot->ops.at[0];
    both->kind = GROUP_DOT;
    both->epilogue = epilogue;
    epilogue->follows = true;
    vec_push(arena, &both->ops, op);
    add_views(arena, &both->ops, epilogue->product, op);
    for (int i = 0; i < epilogue->ops.n; i++) vec_push(arena, &both->ops, epilogue->ops.at[i]);
    for (int i = 0; i < dot->in.n; i++) values_add_once(arena, &both->in, dot->in.at[i]);
    for (int i = 0; i < epilogue->in.n; i++)
        if (epilogue->in.at[i] != epilogue->product) values_add_once(arena, &both->in, epilogue->in.at[i]);
    if (epilogue->place == op->out[0]) vec_push(arena, &both->out, op->out[0]);
    for (int i = 0; i < epilogue->out.n; i++) vec_push(arena, &both->out, epilogue->out.at[i]);
    m->groups->list.at[into] = both;
    m->gone[at] = 1;
    m->at[op->id] = into;
    m->groups->of_op[op->id] = both;
    for (int i = 0; i < epilogue->ops.n; i++)
        if (m->groups->of_op[epilogue->ops.at[i]->id] == epilogue) m->groups->of_op[epilogue->ops.at[i]->id] = both;
}

/* Views of what is made later now stand behind that; those of a product that is not stored are dropped. */
static void settle_views(Merge *m)
{
    VEC(Group *) kept = {0};
    Groups *groups = m->groups;
    Arena *arena = m->g->arena;
    struct {
        VEC(Group *) views;
    } *behind = (void *)NEW_ARRAY(arena, VEC(Group *), groups->list.n + 1);
    for (int i = 0; i < groups->list.n; i++) {
        Group *group = group_at(m, i);
        const Value *root = group->kind == GROUP_VIEW ? value_root(group->in.at[0]) : NULL;
        const int maker = root && root->def ? m->at[root->def->id] : -1;
        if (m->gone[i]) continue;
        if (maker > i) {
            vec_push(arena, &behind[maker].views, group);
            continue;
        }
        vec_push(arena, &kept, group);
        for (int k = 0; k < behind[i].views.n; k++)
            if (values_hold(&group->out, value_root(behind[i].views.at[k]->in.at[0]))) vec_push(arena, &kept, behind[i].views.at[k]);
    }
    groups->list.n = 0;
    for (int i = 0; i < kept.n; i++) vec_push(arena, &groups->list, kept.at[i]);
}

static void merge_all(Groups *groups, bool chains, bool blocks)
{
    Graph *g = groups->graph;
    Merge m = {.groups = groups,
               .g = g,
               .at = NEW_ARRAY(g->arena, int, g->next_op + 1),
               .output = NEW_ARRAY(g->arena, uint8_t, g->next_value + 1),
               .gone = NEW_ARRAY(g->arena, uint8_t, groups->list.n + 1),
               .blocks = blocks};
    for (int i = 0; i < g->next_op; i++) m.at[i] = -1;
    for (int i = 0; i < g->outputs.n; i++) m.output[g->outputs.at[i]->id] = 1;
    for (int i = 0; i < groups->list.n; i++) {
        const Group *group = group_at(&m, i);
        for (int o = 0; o < group->ops.n; o++)
            if (groups->of_op[group->ops.at[o]->id] == group) m.at[group->ops.at[o]->id] = i;
        for (int b = 0; b < 2; b++)
            if (group->body[b] && group->kind == GROUP_REGION) merge_all(group->body[b], chains, group->ops.at[group->ops.n - 1]->kind == OP_blocks);
    }
    for (int i = 0; i < groups->list.n; i++) {
        const Group *dot = group_at(&m, i);
        Readers r = {.first = -1};
        if (dot->kind != GROUP_DOT || dot->epilogue || dot->adds) continue;
        find_readers(&m, dot->out.at[0], &r);
        if (r.first <= i || !fits(&m, dot, group_at(&m, r.first), r.others)) continue;
        merge(&m, i, r.first);
    }
    if (chains) fuse_chains(&m);
    settle_views(&m);
}

void fuse_epilogues(Groups *groups, bool chains)
{
    merge_all(groups, chains, false);
}
