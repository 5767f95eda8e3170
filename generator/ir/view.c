/* Views: index operations as offset and strides. */
#include "ir/view.h"
#include "support/diag.h"

Value *value_root(const Value *v)
{
    while (v->def && v->def->kind == OP_reshape) v = v->def->in[0];
    return (Value *)v;
}

View value_row_memory(Graph *g, Value *v)
{
    View w = {v, expr_int(g->symbols, 0), {0}};
    Expr *stride = expr_int(g->symbols, 1);
    for (int i = v->rank - 1; i >= 0; i--) {
        w.stride[i] = stride;
        stride = expr_mul(g->symbols, stride, v->shape[i]);
    }
    return w;
}

static bool is_one(Graph *g, Expr *e)
{
    return expr_is(expr_canonical(g->symbols, e), 1);
}

bool value_lies_within(const Graph *g, const Value *v, int64_t *offset)
{
    Symbols *s = g->symbols;
    const Op *op = v->def;
    if (!op || op->kind != OP_slice) return false;
    const Value *a = op->in[0];
    Expr *const *start = op_exprs(op, ATTR_start, NULL), *at = expr_int(s, 0);
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    bool cut = false; /* along an axis before: then this one must be whole */
    for (int i = 0; i < v->rank; i++) {
        const bool one = expr_is(expr_canonical(s, a->shape[i]), 1);
        const bool whole = expr_is(start[i], 0) && expr_always_equal(s, a->shape[i], v->shape[i]);
        if (step[i] != 1 || (cut && !whole)) return false;
        if (!whole) at = expr_mul(s, start[i], expr_product(s, a->shape + i + 1, v->rank - i - 1));
        cut = cut || !one; /* rows before the last axis that is longer than 1 would lie apart */
    }
    return expr_is_int(expr_canonical(s, at), offset);
}

/* (a, b*c) with strides (s, t) as (a, b, c) with (s, c*t, t), and back where neighbouring axes are one run of memory. */
static bool reshaped(Graph *g, const Value *from, const View *was, const Value *to, View *w)
{
    Symbols *s = g->symbols;
    int i = from->rank - 1, j = to->rank - 1;
    *w = (View){was->root, was->offset, {0}};
    Expr *have = NULL, *step = NULL, *want = NULL; /* what is left of axis i of from and its stride; of axis j of to */
    for (;;) {
        while (!have && i >= 0 && is_one(g, from->shape[i])) i--;
        while (!want && j >= 0 && is_one(g, to->shape[j])) w->stride[j--] = expr_int(s, 0);
        if (!have && i >= 0) have = from->shape[i], step = was->stride[i];
        if (!want && j >= 0) {
            want = to->shape[j];
            w->stride[j] = step;
        }
        if (!have || !want) return !have && !want;
        Expr *rest;
        if (expr_always_equal(s, have, want)) {
            have = want = NULL;
            i--, j--;
        } else if ((rest = expr_divide_exactly(s, have, want))) {
            have = rest;
            step = expr_mul(s, step, want);
            want = NULL;
            j--;
        } else if ((rest = expr_divide_exactly(s, want, have))) {
            Expr *next = expr_mul(s, step, have);
            have = NULL;
            want = rest;
            for (i--; i >= 0 && is_one(g, from->shape[i]);) i--;
            if (i < 0 || !expr_always_equal(s, was->stride[i], next)) return false;
        } else {
            return false;
        }
    }
}

View value_view(Graph *g, Value *v)
{
    View below, w;
    if (v->rank > VIEW_AXES || !v->def || v->def->n_in < 1 || v->def->in[0]->rank > VIEW_AXES) return value_row_memory(g, v);
    switch (v->def->kind) {
    case OP_transpose: {
        const int64_t *axes = op_ints(v->def, ATTR_axes, NULL);
        below = value_view(g, v->def->in[0]);
        w = below;
        for (int i = 0; i < v->rank; i++) w.stride[i] = below.stride[axes[i]];
        return w;
    }
    case OP_slice: {
        int n;
        Expr *const *start = op_exprs(v->def, ATTR_start, &n);
        const int64_t *step = op_ints(v->def, ATTR_step, &n);
        w = value_view(g, v->def->in[0]);
        for (int i = 0; i < v->rank; i++) {
            w.offset = expr_add(g->symbols, w.offset, expr_mul(g->symbols, start[i], w.stride[i]));
            w.stride[i] = expr_mul(g->symbols, w.stride[i], expr_int(g->symbols, step[i]));
        }
        return w;
    }
    case OP_reshape:
        below = value_view(g, v->def->in[0]);
        if (reshaped(g, v->def->in[0], &below, v, &w)) return w;
        w = value_row_memory(g, v);
        w.root = v->def->in[0]; /* as it lies in memory */
        return w;
    default: return value_row_memory(g, v);
    }
}

View value_row_view(Graph *g, Value *v)
{
    View w = value_view(g, v);
    return v->rank && is_one(g, w.stride[v->rank - 1]) ? w : value_row_memory(g, v);
}

bool value_lies_as(Graph *g, const Value *y, Value *z, View *w)
{
    const int64_t *axes = op_ints(z->def, ATTR_axes, NULL);
    const Value *between = z->def->in[0];
    if (z->rank > VIEW_AXES || y->rank > VIEW_AXES || !y->rank) return false;
    View of_z = value_row_memory(g, z), of_between = {z, of_z.offset, {0}};
    for (int i = 0; i < z->rank; i++) of_between.stride[axes[i]] = of_z.stride[i];
    *w = of_between;
    if (between != y && !reshaped(g, between, &of_between, y, w)) return false;
    return is_one(g, w->stride[y->rank - 1]);
}

Value *value_only_transpose(Graph *g, const Value *y)
{
    View w;
    for (const Value *v = y; v->users.n == 1 && !graph_is_output(g, v); v = v->users.at[0]->out[0]) {
        Op *u = v->users.at[0];
        if (u->kind == OP_transpose) return value_lies_as(g, y, u->out[0], &w) ? u->out[0] : NULL;
        if (u->kind != OP_reshape || v != y) return NULL;
    }
    return NULL;
}
