/* Part of fuse: reductions over other axes than the last ones (what there is one of a channel, of a column), several of them in one
 * kernel, and with them what is made of their results.
 *
 *     %2 = reduce_sum %1, axes=[0, 2]        [n, 8, m] -> [8]
 *     %3 = div %2, %n                        the mean: stored by the kernel that sums
 *     %5 = reduce_sum (mul %1, %4), [0, 2]   beside it: %1 is read once
 *
 * A draft that sums so has two index classes: that of the elements that are summed, and that of the results. */
#include "passes/fuse.h"
#include <string.h>

bool fuse_is_sum(const Op *op)
{
    return op_info(op->kind)->class == REDUCE && op->kind != OP_arg_max && op->kind != OP_arg_min;
}

/* The same kind of sum of the same number of elements, so that one loop does both. */
static bool sums_alike(const Fuse *f, const Op *a, const Op *b)
{
    int n, n_b;
    const int64_t *axes = op_ints(a, ATTR_axes, &n), *axes_b = op_ints(b, ATTR_axes, &n_b);
    return a->kind == b->kind && a->in[0]->dtype == b->in[0]->dtype && n == n_b &&
           memcmp(axes, axes_b, sizeof *axes * (size_t)n) == 0 && same_shape(f->g, a->in[0], b->in[0]);
}

static bool has_room(const Draft *d, const Op *op)
{
    return d->ops.n < GROUP_OPS_MAX && d->reads + op->n_in - 1 <= GROUP_READS_MAX && d->sums < SUMS_MAX;
}

static void join_sum(Fuse *f, Draft *d, Op *op, bool stored)
{
    if (d->kind == GROUP_LOOP) {
        d->kind = GROUP_REDUCE;
        d->summed = f->classes++;
        d->sum = op;
        d->whole = d->per_row = -1;
    }
    d->sums++;
    f->draft[op->id] = d;
    f->index_class[op->id] = d->summed;
    vec_push(f->g->arena, &d->ops, op);
    d->reads += op->n_in - 1;
    f->stored[op->out[0]->id] = stored;
}

/* A loop that may store what it makes of sums: it writes no weight, which waits for the commit, and shares its kernel with nobody. */
static bool may_follow_sum(const Draft *d)
{
    if (d->kind != GROUP_LOOP || d->row || d->walked != d->ops.at[0]->out[0] || strcmp(d->ops.at[0]->role, "optimizer") == 0)
        return false;
    for (int o = 0; o < d->ops.n; o++) {
        const Value *v = d->ops.at[o]->out[0];
        for (int u = 0; u < v->users.n; u++)
            if (v->users.at[u]->kind == OP_assign) return false;
    }
    return true;
}

/* The loop that reads the sum's results, each at its own place, becomes part of the sum's kernel. */
static bool join_followers(Fuse *f, Op *op)
{
    const Value *v = op->out[0];
    Draft *d = NULL;
    bool outside;
    fuse_first_reader(f, v, &d);
    if (!d || !has_room(d, op)) return false;
    const bool more = d->kind == GROUP_REDUCE && d->sum && sums_alike(f, d->sum, op);
    if (!more && !may_follow_sum(d)) return false;
    if (!more && !expr_always_equal(f->g->symbols, fuse_count(f, d->walked, 0, d->walked->rank), fuse_count(f, v, 0, v->rank)))
        return false;
    if (!fuse_reads_in_order(f, d, v, &outside)) return false;
    join_sum(f, d, op, outside || f->output[v->id]);
    return true;
}

/* A draft that sums what reads `a` at the place that it sums; not the draft of op itself. */
static Draft *sum_that_reads(const Fuse *f, const Value *a, const Op *op)
{
    for (int i = 0; i < a->users.n; i++) {
        const Op *u = a->users.at[i];
        Draft *d = u == op ? NULL : f->draft[u->id];
        if (!d || d == f->draft[op->id] || d->kind != GROUP_REDUCE || !d->sum || f->index_class[u->id] != d->summed ||
            !sums_alike(f, d->sum, op))
            continue;
        const bool at_place = op_info(u->kind)->class == ELEMENTWISE || fuse_is_sum(u);
        if (at_place && has_room(d, op) && strcmp(d->ops.at[0]->role, op->role) == 0) return d;
    }
    return NULL;
}

static Draft *sum_beside(const Fuse *f, const Op *op)
{
    const Value *x = op->in[0];
    Draft *d = sum_that_reads(f, x, op);
    if (!d && x->def && op_info(x->def->kind)->class == ELEMENTWISE && x->users.n == 1)
        for (int i = 0; i < x->def->n_in && !d; i++)
            if (same_shape(f->g, x->def->in[i], x)) d = sum_that_reads(f, x->def->in[i], op);
    return d;
}

/* Sums that read the same tensor, where all that reads this one comes after the other. */
static bool join_beside(Fuse *f, Op *op)
{
    const Value *v = op->out[0];
    Draft *d = sum_beside(f, op);
    if (!d) return false;
    const int root = f->order[d->ops.at[0]->id];
    if (f->order[op->id] > root) return false;
    for (int i = 0; i < v->users.n; i++)
        if (f->draft[v->users.at[i]->id] == d || !fuse_comes_after(f, v->users.at[i], root)) return false;
    join_sum(f, d, op, true);
    return true;
}

/* Whether neither draft reads what the other makes, and all that reads what the first one makes comes after the second one. */
static bool may_merge(const Fuse *f, const Draft *first, const Draft *second)
{
    const int root = f->order[second->ops.at[0]->id];
    if (first->ops.n + second->ops.n > GROUP_OPS_MAX || first->reads + second->reads > GROUP_READS_MAX) return false;
    if (first->sums + second->sums > SUMS_MAX || f->order[first->ops.at[0]->id] > root) return false;
    for (int o = 0; o < first->ops.n; o++) {
        const Op *op = first->ops.at[o];
        const Value *v = op->out[0];
        for (int i = 0; i < op->n_in; i++)
            if (op->in[i]->def && f->draft[op->in[i]->def->id] == second) return false;
        for (int i = 0; i < v->users.n; i++) {
            const Draft *d = f->draft[v->users.at[i]->id];
            if (d == second || (d != first && !fuse_comes_after(f, v->users.at[i], root))) return false;
        }
    }
    return true;
}

/* The kernel of another sum that reads the same becomes one with that of op. */
static void merge_beside(Fuse *f, const Op *op)
{
    Draft *first = sum_beside(f, op), *second = f->draft[op->id];
    if (first && f->order[first->ops.at[0]->id] > f->order[second->ops.at[0]->id]) {
        Draft *later = first;
        first = second, second = later;
    }
    if (!first || !may_merge(f, first, second)) return;
    for (int o = 0; o < first->ops.n; o++) {
        Op *moved = first->ops.at[o];
        int *class = &f->index_class[moved->id];
        *class = *class == first->summed ? second->summed : *class == first->in_order ? second->in_order : *class;
        f->draft[moved->id] = second;
        vec_push(f->g->arena, &second->ops, moved);
    }
    second->reads += first->reads;
    second->sums += first->sums;
    first->ops.n = 0;
}

/* A sum seen in another shape, (8) as (1, 8, 1, 1): part of what is made of it, so that the sum can join that. */
static bool join_view(Fuse *f, Op *op)
{
    const Value *v = op->out[0];
    const Op *sum = op->in[0]->def;
    Draft *d = NULL;
    bool outside;
    if (!sum || !fuse_is_sum(sum) || fuse_reduces_rows(f, sum)) return false;
    fuse_first_reader(f, v, &d);
    if (!d || d->ops.n >= GROUP_OPS_MAX || !(d->kind == GROUP_REDUCE ? d->sum && sums_alike(f, d->sum, sum) : may_follow_sum(d)))
        return false;
    if (!fuse_reads_in_order(f, d, v, &outside) || outside || f->output[v->id]) return false;
    f->draft[op->id] = d;
    f->index_class[op->id] = d->in_order;
    vec_push(f->g->arena, &d->ops, op);
    return true;
}

bool fuse_join_sums(Fuse *f, Op *op)
{
    if (op->kind == OP_reshape) return join_view(f, op);
    if (!fuse_is_sum(op) || fuse_reduces_rows(f, op)) return false;
    if (!join_followers(f, op)) return join_beside(f, op);
    merge_beside(f, op);
    return true;
}
