/* Part of fuse: kernels that read the same rows, or the rows that another one makes, take them in turn.
 *
 *     dot c = x w                            dot + sums + row + sum:  c = x w, a block of rows at a time, and on each block
 *     sums s = c, c * u over rows      ->                             s +=, y = gradient(c, u), b +=
 *     row y = gradient(c, u)
 *     sum b = y over rows
 *
 * Each is the kernel that it would be alone: what they share is read again while it is near the processor, and a launch each on CUDA.
 * A kernel joins those before it where it wants of what they make no row but the one at hand, and where nothing between them waits for
 * one of them and is waited for by another.  It may move to where they stand, or they to where it stands.
 *
 * Only the last one may write its result in the place of an operand, and none where sums are of two stages.  Within blocks of rows,
 * which are there to save memory, no kernel joins where that would be lost.
 *
 * Only the backward pass and the loss are looked at: what the forward pass makes is made again kernel by kernel where memory is short. */
#include "ir/view.h"
#include "passes/fuse.h"
#include "passes/row_blocks.h"
#include <string.h>

enum { LINKS_MAX = 5, WIDE = 64, COLUMNS_MAX = 1 << 17 }; /* WIDE: rows that are shorter are not worth it, and are not kept apart by loops */

typedef struct {
    Merge *m;
    Group *group; /* the first one, or what all of them have become */
    int at, n;
    RowSet rows; /* for the rules of rows */
    Values made, sums; /* what they store: with rows; sums over rows */
} Chain;

/* ---- which kernels ---- */
static const Op *sum_of(const Group *group)
{
    for (int i = 0; i < group->ops.n; i++)
        if (op_info(group->ops.at[i]->kind)->class == REDUCE) return group->ops.at[i];
    return NULL;
}

static bool sums_columns(const Group *group)
{
    const Op *op = sum_of(group);
    int n;
    if (op->kind == OP_arg_max || op->kind == OP_arg_min || op->in[0]->dtype == DTYPE_f64 || !dtype_is_float(op->in[0]->dtype)) return false;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    for (int i = 0; i < n; i++)
        if (axes[i] != i) return false;
    return n == op->in[0]->rank - 1;
}

/* A value of the shape that the kernel walks, of which the first `kept` axes count rows; NULL: it takes none. */
static const Value *walked_by(const Group *group, int *kept)
{
    const Value *v = group->kind == GROUP_ROW    ? group->row
                     : group->kind == GROUP_LOOP ? group->walked ? group->walked : group->out.at[0]
                                                 : NULL;
    if (group->kind == GROUP_REDUCE && sums_columns(group)) v = sum_of(group)->in[0];
    if (!v || v->rank < 2) return NULL;
    *kept = group->kind == GROUP_ROW ? group->kept : v->rank - 1;
    return v;
}

static bool may_begin(const Merge *m, const char *role)
{
    return strcmp(role, "gradient") == 0 || strcmp(role, "loss") == 0 || (m->blocks && strcmp(role, "optimizer") != 0);
}

static bool may_link(const Merge *m, const Group *group, const char *role)
{
    const Op *last = group->ops.at[group->ops.n - 1];
    return !group->assigns.n && !group->follows && (m->blocks ? may_begin(m, last->role) : strcmp(last->role, role) == 0);
}

static Expr *count(const Graph *g, const Value *v, int from, int to)
{
    return expr_canonical(g->symbols, expr_product(g->symbols, v->shape + from, to - from));
}

static bool is_wide(const Graph *g, const Value *v, int kept)
{
    const int64_t columns = expr_likely(g->symbols, count(g, v, kept, v->rank));
    return columns >= WIDE && columns <= COLUMNS_MAX;
}

/* ---- which rows they read ---- */
static bool depends(const Group *group, const Value *v, const Value *on)
{
    if (v == on) return true;
    if (!v->def || values_hold(&group->in, v)) return false;
    for (int i = 0; i < v->def->n_in; i++)
        if (depends(group, v->def->in[i], on)) return true;
    return false;
}

/* Whether row by row v, whose first `kept` axes count rows, is made of the same rows of `of`, if it is made of that at all. */
static bool of_own_rows(const Chain *c, const Group *group, const Value *v, int kept, const Value *of)
{
    int roles[ROW_OPERANDS_MAX] = {0};
    if (v == of) return kept > 0;
    if (!v->def || values_hold(&group->in, v)) return true;
    if (kept <= 0 || !row_roles(&c->rows, v->def, kept, roles)) return !depends(group, v, of);
    for (int i = 0; i < v->def->n_in; i++)
        if (!of_own_rows(c, group, v->def->in[i], roles[i], of)) return false;
    return true;
}

/* The results of a sum, or what is made of them. */
static bool is_of_sums(const Graph *g, const Group *group, const Value *out)
{
    return group->kind == GROUP_REDUCE && expr_always_equal(g->symbols, value_count(g, out), value_count(g, sum_of(group)->out[0]));
}

static bool reads_own_rows(const Chain *c, const Group *group, const Value *of)
{
    for (int i = 0; i < group->ops.n && group->kind == GROUP_REDUCE; i++) {
        const Op *op = group->ops.at[i];
        if (op_info(op->kind)->class == REDUCE && !of_own_rows(c, group, op->in[0], op->in[0]->rank - 1, of)) return false;
    }
    for (int o = 0; o < group->out.n; o++) {
        const Value *out = group->out.at[o];
        if (!is_of_sums(c->m->g, group, out) && !of_own_rows(c, group, out, row_axes_of(&c->rows, out), of)) return false;
    }
    return true;
}

/* ---- what waits for what ---- */
/* Place of the group that makes v, or what it is a view of; -1: no group does. */
static int made_at(const Merge *m, const Value *v)
{
    if (!v->def) return -1;
    const int at = m->at[v->def->id];
    if (at >= 0 && m->groups->list.at[at]->kind != GROUP_VIEW) return at;
    int last = -1;
    for (int i = 0; i < v->def->n_in; i++) {
        const int of = made_at(m, v->def->in[i]);
        if (of > last) last = of;
    }
    return last;
}

/* The first place after `after`, other than `but`, of a group that reads v, also through views and what is made again; `none` if there is none. */
static int read_at(const Merge *m, const Value *v, int after, int but, int none)
{
    int first = none;
    for (int i = 0; i < v->users.n; i++) {
        const Op *user = v->users.at[i];
        const int at = m->at[user->id];
        if (at < 0 || m->groups->list.at[at]->kind == GROUP_VIEW) {
            for (int o = 0; o < user->n_out; o++) {
                const int of = read_at(m, user->out[o], after, but, none);
                if (of < first) first = of;
            }
        } else if (at > after && at != but && at < first) {
            first = at;
        }
    }
    return first;
}

/* Where the chain with the kernel at f can stand; -1. */
static int stand_at(const Chain *c, int f)
{
    const Merge *m = c->m;
    const Group *group = m->groups->list.at[f];
    const int end = m->groups->list.n;
    bool early = true, late = true;
    for (int i = 0; i < group->in.n && early; i++) {
        const int at = made_at(m, group->in.at[i]);
        early = at <= c->at;
    }
    for (int i = 0; i < c->group->out.n && late; i++) late = read_at(m, c->group->out.at[i], c->at, f, end) > f;
    return early ? c->at : late ? f : -1;
}

/* ---- joining ---- */
static bool reads_rows_of(const Chain *c, const Value *v)
{
    const Value *root = value_root(v);
    const int kept = row_axes_of(&c->rows, root);
    if (!kept || !is_wide(c->m->g, root, kept)) return false;
    for (int i = 0; i < c->group->in.n; i++)
        if (value_root(c->group->in.at[i]) == root) return true;
    return false;
}

/* A kernel of the chain, or the next one, could write a result in the place of what nobody reads afterwards: of what the chain makes, or of
 * something else. */
static bool takes_place(const Chain *c, const Group *group, int after, bool of_chain)
{
    const Merge *m = c->m;
    for (int i = 0; i < group->in.n; i++) {
        const Value *in = group->in.at[i], *root = value_root(in);
        if (!root->def || root->def == c->group->ops.at[0] || values_hold(&c->made, root) != of_chain || m->output[root->id]) continue; /* a product has its place */
        if (read_at(m, root, after, -1, m->groups->list.n) < m->groups->list.n) continue;
        for (int o = 0; o < group->out.n; o++)
            if (value_count(m->g, in) == value_count(m->g, group->out.at[o]) && kernels_in_place(group, in, group->out.at[o])) return true;
    }
    return false;
}

static bool loses_place(const Chain *c, int f)
{
    const Group *next = c->m->groups->list.at[f], *last = c->group->kind == GROUP_DOT || c->group->kind == GROUP_CHAIN ? c->group->epilogue : c->group;
    bool sums = next->kind == GROUP_REDUCE || last->kind == GROUP_REDUCE;
    for (; last->epilogue; last = last->epilogue) sums |= last->epilogue->kind == GROUP_REDUCE;
    return takes_place(c, last, c->at, false) || takes_place(c, next, f, true) || (sums && takes_place(c, next, f, false));
}

/* Whether the kernel at f gains by it, and may. */
static bool fits(const Chain *c, int f)
{
    const Merge *m = c->m;
    const Group *group = m->groups->list.at[f];
    int kept;
    const Value *walked = walked_by(group, &kept);
    bool gains = false;
    if (!walked || !is_wide(m->g, walked, kept)) return false;
    if (!expr_always_equal(m->g->symbols, count(m->g, walked, 0, kept), c->rows.rows)) return false;
    for (int i = 0; i < group->in.n; i++) {
        const Value *v = group->in.at[i], *root = value_root(v);
        if (made_at(m, v) != c->at) {
            gains |= reads_rows_of(c, v);
            continue;
        }
        if (!values_hold(&c->made, root) || !reads_own_rows(c, group, v)) return false;
        gains |= is_wide(m->g, root, row_axes_of(&c->rows, root));
    }
    return gains && !(m->blocks && loses_place(c, f));
}

static void note_made(Chain *c, const Group *group)
{
    Arena *arena = c->m->g->arena;
    for (int o = 0; o < group->out.n; o++) {
        Value *out = group->out.at[o];
        values_add_once(arena, is_of_sums(c->m->g, group, out) || !row_axes_of(&c->rows, out) ? &c->sums : &c->made, out);
    }
}

/* The first one becomes a chain of itself. */
static void open_chain(Chain *c)
{
    Arena *arena = c->m->g->arena;
    Group *first = c->group, *chain = NEW(arena, Group);
    if (first->kind == GROUP_DOT) return;
    first->follows = true;
    chain->kind = GROUP_CHAIN;
    chain->epilogue = first;
    for (int i = 0; i < first->ops.n; i++) vec_push(arena, &chain->ops, first->ops.at[i]);
    for (int i = 0; i < first->in.n; i++) vec_push(arena, &chain->in, first->in.at[i]);
    for (int i = 0; i < first->out.n; i++) vec_push(arena, &chain->out, first->out.at[i]);
    c->group = chain;
}

static void stand(Chain *c, int at)
{
    Merge *m = c->m;
    m->gone[c->at] = 1;
    m->gone[at] = 0;
    m->groups->list.at[at] = c->group;
    c->at = at;
    for (int i = 0; i < c->group->ops.n; i++) {
        const Op *op = c->group->ops.at[i];
        const Group *of = m->groups->of_op[op->id];
        if (!of || (of != c->group && !of->follows)) continue; /* stored by another group, made again here */
        m->groups->of_op[op->id] = c->group;
        m->at[op->id] = at;
    }
}

static void join(Chain *c, int f, int at)
{
    Arena *arena = c->m->g->arena;
    Group *next = c->m->groups->list.at[f], *last;
    if (c->n == 1) open_chain(c);
    for (last = c->group; last->epilogue;) last = last->epilogue;
    last->epilogue = next;
    next->follows = true;
    for (int i = 0; i < next->ops.n; i++) vec_push(arena, &c->group->ops, next->ops.at[i]);
    for (int i = 0; i < next->in.n; i++)
        if (made_at(c->m, next->in.at[i]) != c->at) values_add_once(arena, &c->group->in, next->in.at[i]);
    for (int i = 0; i < next->out.n; i++) vec_push(arena, &c->group->out, next->out.at[i]);
    c->m->gone[f] = 1;
    c->n++;
    stand(c, at);
    note_made(c, next);
}

/* The next place after `f` of a group that reads one of the values, or a view of it. */
static int next_reader(const Chain *c, const Values *values, int f, int first)
{
    for (int i = 0; i < values->n; i++) {
        const Value *root = value_root(values->at[i]);
        if (row_axes_of(&c->rows, root)) first = read_at(c->m, root, f, -1, first);
    }
    return first;
}

static void grow(Chain *c, const char *role)
{
    const int end = c->m->groups->list.n;
    for (int f = c->at; c->n < LINKS_MAX;) {
        f = next_reader(c, &c->group->in, f, next_reader(c, &c->made, f, end));
        if (f >= end) return;
        Group *group = c->m->groups->list.at[f];
        if (group == c->group || c->m->gone[f] || group->kind == GROUP_DOT || group->kind == GROUP_CHAIN || !may_link(c->m, group, role) || !fits(c, f)) continue;
        const int at = stand_at(c, f);
        if (at >= 0) join(c, f, at);
    }
}

/* The product that lay in memory for a kernel that is now of the same call may lie where the last reader's result will. */
static void place_product(Chain *c)
{
    const Op *dot = c->group->ops.at[0];
    Group *first = c->group->epilogue, *reader = NULL;
    Value *product = dot->out[0], *place = NULL;
    if (first->place != product || c->m->output[product->id] || read_at(c->m, product, -1, c->at, c->m->groups->list.n) < c->m->groups->list.n)
        return;
    for (Group *k = first; k; k = k->epilogue)
        for (int i = 0; i < k->in.n; i++)
            if (value_root(k->in.at[i]) == product) reader = k;
    for (int i = 0; reader && i < reader->in.n; i++)
        for (int o = 0; value_root(reader->in.at[i]) == product && o < reader->out.n && !place; o++)
            if (fuse_holds_product(c->m, reader, reader->in.at[i], reader->out.at[o])) place = reader->out.at[o];
    if (!place) return;
    first->place = place;
    Values *out = &c->group->out;
    int n = 0;
    for (int i = 0; i < out->n; i++)
        if (out->at[i] != product) out->at[n++] = out->at[i];
    out->n = n;
}

void fuse_chains(Merge *m)
{
    for (int i = 0; i < m->groups->list.n; i++) {
        Group *group = m->groups->list.at[i];
        const bool dot = group->kind == GROUP_DOT && group->epilogue;
        const Group *first = dot ? group->epilogue : group;
        const char *role = group->ops.at[group->ops.n - 1]->role;
        int kept;
        if (m->gone[i] || (!dot && !may_link(m, group, role)) || !may_begin(m, role)) continue;
        if (first->kind != GROUP_LOOP && first->kind != GROUP_ROW && first->kind != GROUP_REDUCE) continue;
        const Value *walked = walked_by(first, &kept);
        if (!walked || !is_wide(m->g, walked, kept)) continue;
        Chain c = {.m = m, .group = group, .at = i, .n = 1, .rows = {.g = m->g, .rows = count(m->g, walked, 0, kept)}};
        note_made(&c, first);
        if (dot && first->place == group->ops.at[0]->out[0]) values_add_once(m->g->arena, &c.made, group->ops.at[0]->out[0]);
        grow(&c, role);
        if (dot && c.n > 1) place_product(&c);
    }
}
