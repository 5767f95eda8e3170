/* Part of fuse: reductions over the last axes, and what surrounds them, become groups that work a row at a time.
 *
 * A draft learns what its rows are from the first reading of one number a row: a broadcast of (batch, seq) to (batch, seq, 384), or
 * its root, where that is itself one number a row.  From then on each of its operations is of the rows' shape (class `whole`) or of
 * one number a row (class `per_row`). */
#include "passes/fuse.h"

enum { STEPS_BETWEEN_MAX = 8 };           /* operations on one number a row between two reductions */
enum { ROWS_MIN = 32, ROW_SHORT = 4096 }; /* so many rows, or rows so short, that one block a row is good */

Expr *fuse_count(const Fuse *f, const Value *v, int from, int to)
{
    return expr_canonical(f->g->symbols, expr_product(f->g->symbols, v->shape + from, to - from));
}

static bool worth_rows(const Fuse *f, const Value *row, int kept)
{
    Symbols *symbols = f->g->symbols;
    return expr_likely(symbols, fuse_count(f, row, 0, kept)) >= ROWS_MIN ||
           expr_likely(symbols, fuse_count(f, row, kept, row->rank)) <= ROW_SHORT;
}

/* A reduction over the last axes of floats, which a block can do for one row after another. */
bool fuse_reduces_rows(const Fuse *f, const Op *op)
{
    if (op->kind != OP_reduce_sum && op->kind != OP_reduce_max && op->kind != OP_reduce_min && op->kind != OP_reduce_prod)
        return false;
    if (!dtype_is_float(op->in[0]->dtype)) return false;
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    for (int i = 0; i < n; i++)
        if (axes[i] != op->in[0]->rank - n + i) return false;
    return worth_rows(f, op->in[0], op->in[0]->rank - n);
}

static bool is_one(const Fuse *f, Expr *e)
{
    return expr_is(expr_canonical(f->g->symbols, e), 1);
}

/* Whether a broadcast gives each row one number: (batch, seq, 1) or (batch, seq) to (batch, seq, 384).  *kept: axes that count
 * rows. */
static bool spreads_rows(const Fuse *f, const Op *op, int *kept)
{
    const Value *a = op->in[0], *y = op->out[0];
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    for (*kept = 0; *kept < n; ++*kept)
        if (axes[*kept] != *kept || !expr_always_equal(f->g->symbols, a->shape[*kept], y->shape[*kept])) break;
    while (*kept > 0 && is_one(f, y->shape[*kept - 1])) --*kept;
    for (int i = *kept; i < n; i++)
        if (!is_one(f, a->shape[i])) return false;
    return true;
}

/* Same number of elements in the same order. */
static bool keeps_elements(const Fuse *f, const Op *op)
{
    return expr_always_equal(f->g->symbols, fuse_count(f, op->in[0], 0, op->in[0]->rank),
                             fuse_count(f, op->out[0], 0, op->out[0]->rank));
}

/* Whether v is made, by operations on one number a row, from a reduction over rows. */
static bool comes_from_rows(const Fuse *f, const Value *v, int depth)
{
    const Op *op = v->def;
    if (!op || depth == 0) return false;
    if (fuse_reduces_rows(f, op)) return true;
    if (op_info(op->kind)->class != ELEMENTWISE && op->kind != OP_reshape) return false;
    for (int i = 0; i < op->n_in; i++)
        if (comes_from_rows(f, op->in[i], depth - 1)) return true;
    return false;
}

/* ---- how a draft reads a value ---- */
/* How the operations of a draft read a value, through what is cheap and made again in each reader. */
typedef struct {
    bool inside, outside; /* some do; others do too, all of them after the draft's last operation */
    int index_class;
    Value *row; /* where rows are defined by this reading: as in Draft */
    int kept;
} Reading;

enum { PER_ROW_NEW = -2 }; /* the class of what there is one of a row, in a draft that has none yet */

bool fuse_spreads_sums(const Fuse *f, const Op *op)
{
    for (int i = 0; i < op->n_in; i++) {
        const Op *broadcast = op->in[i]->def;
        if (broadcast && broadcast->kind == OP_broadcast && comes_from_rows(f, broadcast->in[0], STEPS_BETWEEN_MAX)) return true;
    }
    return false;
}

/* The class at which a broadcast's operand is read, given that of its result. */
static int class_before_broadcast(const Fuse *f, const Draft *d, const Op *op, Reading *r)
{
    int kept;
    if (keeps_elements(f, op)) return r->index_class;
    if (d->whole < 0 || r->index_class != d->whole || !spreads_rows(f, op, &kept)) return -1;
    if (d->row) {
        const bool same = expr_always_equal(f->g->symbols, fuse_count(f, d->row, 0, d->kept), fuse_count(f, op->out[0], 0, kept));
        return same ? d->per_row : -1;
    }
    if (!worth_rows(f, op->out[0], kept)) return -1;
    r->row = op->out[0];
    r->kept = kept;
    return PER_ROW_NEW;
}

/* Adds how u's result is read, seen from its operand. */
static bool merge_reading(Reading *all, const Reading *more)
{
    all->outside |= more->outside;
    if (!more->inside) return true;
    if (all->inside && all->index_class != more->index_class) return false;
    if (all->inside && all->index_class == PER_ROW_NEW && all->kept != more->kept) return false;
    const bool outside = all->outside;
    *all = *more;
    all->outside = outside;
    return true;
}

static bool find_reading(const Fuse *f, const Draft *d, const Value *v, Reading *all)
{
    const int root = f->order[d->ops.at[0]->id];
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        Reading r = {0};
        if (f->draft[u->id] == d && u->kind != OP_assign) {
            const bool same_index =
                op_info(u->kind)->class == ELEMENTWISE || op_info(u->kind)->class == REDUCE || u->kind == OP_reshape;
            if (!same_index) return false;
            r.inside = true;
            r.index_class = f->index_class[u->id];
        } else if (u->n_out == 1 && f->cheap[u->out[0]->id]) {
            if (f->draft[u->id] && f->order[u->id] < root) return false;
            r.outside = f->draft[u->id] != NULL || f->output[u->out[0]->id];
            if (!find_reading(f, d, u->out[0], &r)) return false;
            if (r.inside && u->kind == OP_broadcast)
                r.index_class = class_before_broadcast(f, d, u, &r);
            else if (r.inside && u->kind != OP_reshape && op_info(u->kind)->class != ELEMENTWISE)
                return false;
            if (r.inside && r.index_class == -1) return false;
        } else {
            if (!fuse_in_place_use(f, u, v) && !fuse_comes_after(f, u, root)) return false;
            r.outside = true;
        }
        if (!merge_reading(all, &r)) return false;
    }
    return true;
}

void fuse_first_reader(const Fuse *f, const Value *v, Draft **first)
{
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        Draft *d = f->draft[u->id];
        if (d && (!*first || f->order[d->ops.at[0]->id] < f->order[(*first)->ops.at[0]->id])) *first = d;
        if (u->n_out == 1 && f->cheap[u->out[0]->id]) fuse_first_reader(f, u->out[0], first);
    }
}

bool fuse_reads_in_order(const Fuse *f, const Draft *d, const Value *v, bool *outside)
{
    Reading r = {0};
    if (!find_reading(f, d, v, &r) || !r.inside || r.index_class != d->in_order) return false;
    *outside = r.outside;
    return true;
}

/* A reduction's rows must be the draft's. */
static bool rows_agree(const Fuse *f, const Draft *d, const Reading *r, const Op *op)
{
    const Value *row = d->row ? d->row : r->row, *x = op->in[0];
    const int kept = d->row ? d->kept : r->kept, own = op->out[0]->rank;
    return !row || (expr_always_equal(f->g->symbols, fuse_count(f, row, 0, kept), fuse_count(f, x, 0, own)) &&
                    expr_always_equal(f->g->symbols, fuse_count(f, row, kept, row->rank), fuse_count(f, x, own, x->rank)));
}

static void set_rows(Draft *d, Value *row, int kept, int whole, int per_row)
{
    d->row = row;
    d->kept = kept;
    d->whole = whole;
    d->per_row = per_row;
}

/* The index class that op gets in d, read as r says; -1 where it does not fit.  Where d's rows were not known, they are now. */
static int class_in_rows(Fuse *f, Draft *d, const Reading *r, Op *op)
{
    const bool reduces = fuse_reduces_rows(f, op), whole = r->index_class == d->whole;
    if (reduces && whole && !d->row && d->kind == GROUP_LOOP) { /* the root is one number a row: the log of a sum */
        set_rows(d, op->in[0], op->out[0]->rank, f->classes++, d->in_order);
        return d->whole;
    }
    if (reduces && (whole || !rows_agree(f, d, r, op))) return -1;
    if (whole) {
        if (op->kind == OP_reshape && (r->outside || !d->row)) return -1; /* a view */
        if (d->row) return d->whole;
        return d->kind == GROUP_LOOP && (!r->outside || same_shape(f->g, op->out[0], d->ops.at[0]->out[0])) ? d->whole : -1;
    }
    if (!reduces && r->outside && !comes_from_rows(f, op->out[0], STEPS_BETWEEN_MAX)) return -1;
    if (r->index_class == PER_ROW_NEW)
        set_rows(d, r->row, r->kept, d->whole, f->classes++);
    else if (r->index_class != d->per_row)
        return -1;
    return reduces ? d->whole : d->per_row;
}

bool fuse_join_rows(Fuse *f, Op *op)
{
    const bool fits = fuse_reduces_rows(f, op) || op_info(op->kind)->class == ELEMENTWISE || op->kind == OP_reshape;
    Draft *d = NULL;
    if (fits) fuse_first_reader(f, op->out[0], &d);
    if (!d || !fuse_folds(d->kind) || d->whole < 0) return false;
    if (d->ops.n >= GROUP_OPS_MAX || d->reads + op->n_in - 1 > GROUP_READS_MAX) return false;
    Reading r = {.outside = f->output[op->out[0]->id]};
    if (!find_reading(f, d, op->out[0], &r) || !r.inside) return false;
    const int class = class_in_rows(f, d, &r, op);
    if (class < 0) return false;
    if (d->row) d->kind = GROUP_ROW;
    f->draft[op->id] = d;
    f->index_class[op->id] = class;
    vec_push(f->g->arena, &d->ops, op);
    d->reads += op->n_in - 1;
    f->stored[op->out[0]->id] = r.outside;
    return true;
}
