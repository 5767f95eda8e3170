/* Part of fuse: attention reads queries, keys and values where they lie, through the index operations that lead to them (heads
 * split off a row, a third of a packed product), so that these are never copied. */
#include "ir/view.h"
#include "passes/fuse.h"

enum { VIEWED = 1, VIEW_ALONE };

/* Operands first .. last - 1 are read through views. */
static void viewed_operands(const Op *op, int *first, int *last)
{
    *first = 0;
    *last = op->kind == OP_attention ? ATTENTION_CAPTURES : 4; /* dy, q, k, v */
}

void fuse_need_views(Fuse *f, const Op *op)
{
    int first, last;
    viewed_operands(op, &first, &last);
    for (int i = 0; i < op->n_in; i++) {
        Value *v = op->in[i];
        if (i >= first && i < last) {
            const Value *root = value_row_view(f->g, v).root;
            for (; v != root; v = v->def->in[0]) f->viewed[v->id] = VIEWED;
        }
        f->stored[v->id] = 1;
    }
}

bool fuse_only_viewed(Fuse *f, const Op *op)
{
    const Value *v = op->n_out == 1 ? op->out[0] : NULL;
    if (!v || !f->viewed[v->id] || f->stored[v->id] || f->output[v->id]) return false;
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        const bool reads_view = op_info(u->kind)->class == ATTENTION || f->viewed[u->out[0]->id] == VIEW_ALONE;
        if (!reads_view) return false;
    }
    f->viewed[v->id] = VIEW_ALONE;
    return true;
}

bool fuse_viewed_again(Fuse *f, const Op *op)
{
    const Value *v = op->n_out == 1 ? op->out[0] : NULL;
    if (!v || !f->viewed[v->id] || f->stored[v->id] || f->output[v->id] || op->kind != OP_transpose) return false;
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        const Draft *d = f->draft[u->id];
        if (op_info(u->kind)->class != ATTENTION && (!d || !fuse_folds(d->kind))) return false;
    }
    f->cheap[v->id] = 2; /* as much as a load */
    return true;
}

void fuse_collect_views(Fuse *f, Group *group, const Op *op)
{
    int first, last;
    viewed_operands(op, &first, &last);
    for (int i = first; i < last; i++) {
        const Value *root = value_row_view(f->g, op->in[i]).root;
        for (Value *v = op->in[i]; v != root; v = v->def->in[0]) {
            if (f->seen[v->def->id]) break;
            f->seen[v->def->id] = 1;
            vec_push(f->g->arena, &group->ops, v->def);
        }
    }
}

bool fuse_written_transposed(const Fuse *f, const Op *op)
{
    if (f->no_fuse || (op->kind != OP_transpose && op->kind != OP_reshape)) return false;
    const Value *y = op->in[0];
    if (y->def && y->def->kind == OP_reshape) y = y->def->in[0];
    if (!y->def || y->def->kind != OP_attention || y->result) return false;
    const Value *z = value_only_transpose(f->g, y);
    return z && (z->def == op || z->def->in[0] == op->out[0]);
}

/* The group writes the transpose in the place of the result. */
void fuse_write_transposed(const Fuse *f, Group *group, const Op *attention)
{
    Value *z = !f->no_fuse && attention->kind == OP_attention ? value_only_transpose(f->g, attention->out[0]) : NULL;
    for (int i = 0; z && i < group->out.n; i++)
        if (group->out.at[i] == attention->out[0]) group->out.at[i] = z;
}
