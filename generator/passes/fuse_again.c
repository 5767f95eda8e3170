/* Part of fuse: what simple operations make of values that later readers read anyway is made again there rather than stored. */
#include "passes/fuse.h"
#include <string.h>

enum { READERS_MAX = 8, REMADE_COST_MAX = 10 };
enum { STEPS_MAX = 8 };          /* back to a sum */
enum { LAUNCH_BYTES = 1 << 15 }; /* what might be moved in the time that a launch takes */

typedef struct {
    Draft *at[READERS_MAX];
    int n;
} Readers;

/* The groups that read v, also through what is cheap; false where one of them can only read it from memory. */
static bool find_readers(const Fuse *f, const Value *v, Readers *readers)
{
    if (f->output[v->id]) return false;
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        Draft *d = f->draft[u->id];
        if (u->n_out != 1 || (!d && !f->cheap[u->out[0]->id])) return false;
        const bool view = d && d->kind == GROUP_VIEW;
        if (d && !view) {
            if (!fuse_folds(d->kind) || strcmp(d->ops.at[0]->role, "optimizer") == 0) return false;
            bool known = false;
            for (int r = 0; r < readers->n; r++) known |= readers->at[r] == d;
            if (!known && readers->n == READERS_MAX) return false;
            if (!known) readers->at[readers->n++] = d;
        }
        if ((view || f->cheap[u->out[0]->id]) && !find_readers(f, u->out[0], readers)) return false;
    }
    return true;
}

static bool is_read_in(const Fuse *f, const Value *v, const Draft *d)
{
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        if (f->draft[u->id] == d) return true;
        const bool passes = u->n_out == 1 && (f->cheap[u->out[0]->id] || (f->draft[u->id] && f->draft[u->id]->kind == GROUP_VIEW));
        if (passes && is_read_in(f, u->out[0], d)) return true;
    }
    return false;
}

/* Views of what is made again become index arithmetic in its readers. */
static void fold_views(Fuse *f, const Value *v)
{
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        Draft *d = f->draft[u->id];
        if (!d || d->kind != GROUP_VIEW) continue;
        d->ops.n = 0;
        f->draft[u->id] = NULL;
        f->cheap[u->out[0]->id] = f->cheap[v->id];
        f->stored[u->out[0]->id] = 0;
        fold_views(f, u->out[0]);
    }
}

/* How many bytes an element d would have to read, that it does not read anyway, to make v again. */
static int new_reads(const Fuse *f, const Op *op, const Value *v, const Draft *d)
{
    int n = 0;
    for (int i = 0; i < op->n_in; i++) {
        const Value *a = op->in[i];
        if (a->origin == FROM_HYPER) continue;
        if (a->def && f->cheap[a->id]) {
            n += new_reads(f, a->def, v, d);
        } else {
            const int64_t own = expr_likely(f->g->symbols, fuse_count(f, a, 0, a->rank));
            const bool small = own * 8 <= expr_likely(f->g->symbols, fuse_count(f, v, 0, v->rank));
            n += small || is_read_in(f, a, d) ? 0 : dtype_bytes(a->dtype);
        }
    }
    return n;
}

/* A product that is read here alone: its epilogue makes v, and stores v rather than the product. */
static bool begins_with_product(const Op *op)
{
    for (int i = 0; i < op->n_in; i++) {
        const Value *a = op->in[i];
        while (a->def && a->def->kind == OP_reshape && a->users.n == 1) a = a->def->in[0];
        if (a->def && op_info(a->def->kind)->class == DOT && a->users.n == 1) return true;
    }
    return false;
}

/* Some twenty instructions, where a read and a write cost as much: worth doing twice to store nothing. */
static bool is_moderate(OpKind kind)
{
    switch (kind) {
    case OP_exp:
    case OP_expm1:
    case OP_log:
    case OP_log1p:
    case OP_sigmoid:
    case OP_tanh:
    case OP_sqrt:
    case OP_reciprocal:
    case OP_div: return true;
    default: return false;
    }
}

/* What is made of a sum is rather stored by the kernel that sums. */
static bool follows_sum(const Op *op, int depth)
{
    for (int i = 0; i < op->n_in && depth; i++) {
        const Op *from = op->in[i]->def;
        while (from && from->kind == OP_reshape) from = from->in[0]->def;
        if (!from) continue;
        if (op_info(from->kind)->class == REDUCE) return true;
        if (op_info(from->kind)->class == ELEMENTWISE && follows_sum(from, depth - 1)) return true;
    }
    return false;
}

/* One number: each kernel makes it once. */
static bool is_number(const Op *op)
{
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i]->rank) return false;
    return op->out[0]->rank == 0;
}

/* Storing costs a write, and a read in each group but the first, and of a mask a launch; making it again costs what those have to read
 * more. */
bool fuse_make_again(Fuse *f, const Op *op)
{
    const Value *v = op->out[0];
    Readers readers = {.n = 0};
    const bool number = is_number(op), moderate = is_moderate(op->kind) && dtype_is_float(v->dtype) && !follows_sum(op, STEPS_MAX);
    if (f->no_fuse || op_info(op->kind)->class != ELEMENTWISE || (!fuse_simple(op->kind) && !number && !moderate)) return false;
    int cost = moderate ? 5 : 2;
    for (int i = 0; i < op->n_in; i++) cost += op->in[i]->def && f->cheap[op->in[i]->id] ? f->cheap[op->in[i]->id] - 1 : 0;
    if (cost > REMADE_COST_MAX || begins_with_product(op) || !find_readers(f, v, &readers) || readers.n < (number ? 1 : 2))
        return false;
    if (moderate && !number && readers.n > 2) return false;
    const Draft *first = readers.at[0];
    for (int r = 1; r < readers.n; r++)
        if (f->order[readers.at[r]->ops.at[0]->id] < f->order[first->ops.at[0]->id]) first = readers.at[r];
    int more = 0;
    for (int r = 0; r < readers.n; r++)
        if (readers.at[r] != first) more += new_reads(f, op, v, readers.at[r]);
    const int saved = (readers.n - 1) * dtype_bytes(v->dtype), launch = v->dtype == DTYPE_bool ? LAUNCH_BYTES : 0;
    if (more > saved && (more - saved) * expr_likely(f->g->symbols, fuse_count(f, v, 0, v->rank)) > launch) return false;
    f->cheap[v->id] = (uint8_t)cost;
    f->stored[v->id] = 0;
    fold_views(f, v);
    return true;
}
