/* Part of fuse: loops that run beside each other in one kernel, though neither reads what the other makes.
 *
 *     y1 = concat(a, b, c)         for each element of a:   y1[..] = a, b, c
 *     y2 = concat(a, b, d)    ->                            y2[..] = a, b, d
 *
 * Both read the same tensors, which are then read once.  A concat of parts of one shape walks that shape and puts each part's element
 * in its place, so that what makes the parts runs in the same loop. */
#include "passes/fuse.h"
#include <string.h>

enum { PARTS_MAX = 8 };

bool fuse_concat_of_equals(const Fuse *f, const Op *op)
{
    if (op->kind != OP_concat || op->n_in < 2 || op->n_in > PARTS_MAX) return false;
    for (int i = 1; i < op->n_in; i++)
        if (!same_shape(f->g, op->in[i], op->in[0])) return false;
    return true;
}

bool fuse_puts_parts(const Fuse *f, const Draft *d, const Op *op)
{
    return d->kind == GROUP_LOOP && f->index_class[op->id] == d->in_order && fuse_concat_of_equals(f, op) &&
           same_shape(f->g, d->walked, op->in[0]);
}

/* The loop walks the shape of w, reads a at each place, and all that reads v comes after it. */
static bool fits_beside(const Fuse *f, const Draft *d, const Op *op, const Op *reader, const Value *w)
{
    const Op *root = d->ops.at[0];
    const Value *v = op->out[0];
    if (d->kind != GROUP_LOOP || f->index_class[reader->id] != d->in_order || !same_shape(f->g, d->walked, w)) return false;
    if (op_info(reader->kind)->class != ELEMENTWISE && !fuse_puts_parts(f, d, reader)) return false;
    if (d->ops.n >= GROUP_OPS_MAX || d->reads + op->n_in - 1 > GROUP_READS_MAX) return false;
    if (strcmp(root->role, op->role) != 0 && !f->in_blocks) return false; /* a block of rows is done with before the next one */
    if (f->order[op->id] > f->order[root->id]) return false;
    for (int i = 0; i < v->users.n; i++)
        if (f->draft[v->users.at[i]->id] == d || !fuse_comes_after(f, v->users.at[i], f->order[root->id])) return false;
    return true;
}

/* The loop beside which op may run: one that reads what op reads or, within blocks of rows, what its operands are made of for it alone. */
static Draft *find_beside(const Fuse *f, const Op *op, const Op *from, const Value *w, int depth)
{
    for (int i = 0; i < from->n_in; i++) {
        const Value *a = from->in[i];
        if ((a->def && f->cheap[a->id]) || !same_shape(f->g, a, w)) continue;
        for (int u = 0; u < a->users.n; u++) {
            const Op *reader = a->users.at[u];
            Draft *d = reader == from ? NULL : f->draft[reader->id];
            if (d && fits_beside(f, d, op, reader, w)) return d;
        }
        if (!depth || !f->in_blocks || !a->def || a->users.n > 1 || op_info(a->def->kind)->class != ELEMENTWISE) continue;
        Draft *d = find_beside(f, op, a->def, w, depth - 1);
        if (d) return d;
    }
    return NULL;
}

bool fuse_join_beside(Fuse *f, Op *op)
{
    enum { DEPTH = 2 };
    const bool parts = fuse_concat_of_equals(f, op);
    if ((!parts && op_info(op->kind)->class != ELEMENTWISE) || strcmp(op->role, "optimizer") == 0) return false;
    const Value *w = parts ? op->in[0] : op->out[0];
    Draft *d = w->rank ? find_beside(f, op, op, w, DEPTH) : NULL;
    if (!d) return false;
    f->draft[op->id] = d;
    f->index_class[op->id] = d->in_order;
    vec_push(f->g->arena, &d->ops, op);
    d->reads += op->n_in - 1;
    f->stored[op->out[0]->id] = 1;
    return true;
}
