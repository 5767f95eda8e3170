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
