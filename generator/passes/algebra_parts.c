/* Part of algebra: a sum of tensors that zeros surround.
 *
 *     %3 = pad %1, 0, start=[0, 0]    [n, 48]
 *     %4 = pad %2, 0, start=[0, 16]   [n, 48]      ->      %5 = concat %1, %2, axis=1
 *     %5 = add %3, %4
 *
 * Slices of one value, each read by somebody else, have such gradients. */
#include "passes/algebra.h"

enum { MOST_AXES = 32, MOST_PARTS = 16 };

typedef struct {
    Value *v;
    Expr *from, *to; /* its place along the axis */
} Part;
typedef struct {
    Graph *g;
    const Value *whole;
    int axis; /* along which parts lie; -1: not known yet */
    Part part[MOST_PARTS];
    int n, sums; /* sums: that were looked into; more terms than there may be parts are not looked at */
} Parts;

/* The one axis along which a pad of zeros has any, its start and step 1; -1 for other pads. */
static int padded_axis(const Graph *g, const Op *pad)
{
    Expr *const *start = op_exprs(pad, ATTR_start, NULL);
    const int64_t *step = op_ints(pad, ATTR_step, NULL);
    const Value *a = pad->in[0], *y = pad->out[0];
    int axis = -1;
    if (!algebra_is_zero(pad->in[1])) return -1;
    for (int i = 0; i < a->rank; i++) {
        if (step[i] != 1) return -1;
        if (expr_is(start[i], 0) && expr_always_equal(g->symbols, a->shape[i], y->shape[i])) continue;
        if (axis >= 0) return -1;
        axis = i;
    }
    return axis;
}

static bool add_part(Parts *p, int axis, Value *v, Expr *from)
{
    Symbols *s = p->g->symbols;
    if (p->n == MOST_PARTS || (p->axis >= 0 && p->axis != axis)) return false;
    Expr *to = expr_add(s, from, v->shape[axis]);
    if (!expr_at_least(s, from, expr_int(s, 0)) || !expr_at_least(s, p->whole->shape[axis], to)) return false;
    p->axis = axis;
    p->part[p->n++] = (Part){v, from, to};
    return true;
}

/* A concat of which some parts are zeros. */
static bool add_concat(Parts *p, const Op *concat)
{
    const int axis = (int)op_int(concat, ATTR_axis), before = p->n;
    Expr *from = expr_int(p->g->symbols, 0);
    for (int i = 0; i < concat->n_in; i++) {
        Value *v = concat->in[i];
        if (!algebra_is_zero(v) && !add_part(p, axis, v, from)) return false;
        from = expr_add(p->g->symbols, from, v->shape[axis]);
    }
    return p->n - before < concat->n_in;
}

/* All terms of a sum of tensors that zeros surround; false where one is something else. */
static bool find_parts(Parts *p, const Value *v)
{
    const Op *op = v->def;
    if (!op) return false;
    switch (op->kind) {
    case OP_add: return ++p->sums < MOST_PARTS && find_parts(p, op->in[0]) && find_parts(p, op->in[1]);
    case OP_pad: {
        const int axis = padded_axis(p->g, op);
        return axis >= 0 && add_part(p, axis, op->in[0], op_exprs(op, ATTR_start, NULL)[axis]);
    }
    case OP_concat: return add_concat(p, op);
    default: return false;
    }
}

/* Puts a bound among the sorted ones; false where its place is not certain. */
static bool add_bound(Symbols *s, Expr **bound, int *n, Expr *e)
{
    int at = 0;
    for (; at < *n; at++) {
        if (expr_always_equal(s, bound[at], e)) return true;
        if (expr_at_least(s, bound[at], e)) break;
        if (!expr_at_least(s, e, bound[at])) return false;
    }
    for (int i = *n; i > at; i--) bound[i] = bound[i - 1];
    bound[at] = e;
    ++*n;
    return true;
}

/* What lies between two bounds that follow each other: the sum of the parts that reach over it, or zeros. */
static Value *between(const Parts *p, Expr *from, Expr *to)
{
    Symbols *s = p->g->symbols;
    Value *sum = NULL;
    for (int i = 0; i < p->n; i++) {
        const Part *part = &p->part[i];
        if (!expr_at_least(s, from, part->from) || !expr_at_least(s, part->to, to)) continue;
        Value *v = b_slice_axis(p->g, part->v, p->axis, expr_sub(s, from, part->from), expr_sub(s, to, from));
        sum = sum ? b_add(p->g, sum, v) : v;
    }
    if (sum) return sum;
    Expr *shape[MOST_AXES];
    for (int i = 0; i < p->whole->rank; i++) shape[i] = i == p->axis ? expr_sub(s, to, from) : p->whole->shape[i];
    return b_full(p->g, p->whole->dtype, 0, p->whole->rank, shape);
}

Value *algebra_parts(Graph *g, const Op *add)
{
    Symbols *s = g->symbols;
    Parts p = {.g = g, .whole = add->out[0], .axis = -1};
    if (p.whole->rank > MOST_AXES || !find_parts(&p, p.whole) || p.n == 0) return NULL; /* no parts: concats of zeros alone */
    Expr *bound[2 * MOST_PARTS + 2], *end = p.whole->shape[p.axis];
    Value *piece[2 * MOST_PARTS + 2];
    int n = 0;
    bool sorted = add_bound(s, bound, &n, expr_int(s, 0)) && add_bound(s, bound, &n, end);
    for (int i = 0; i < p.n && sorted; i++)
        sorted = add_bound(s, bound, &n, p.part[i].from) && add_bound(s, bound, &n, p.part[i].to);
    if (!sorted || n < 2) return NULL;
    for (int i = 0; i + 1 < n; i++) piece[i] = between(&p, bound[i], bound[i + 1]);
    return b_concat(g, piece, n - 1, p.axis);
}
