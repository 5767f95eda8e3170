/* Part of algebra: sums over axes of which something is known.
 *
 *     a sum of what is centered, x - mean x, is 0: the gradient of a norm then sums one product less;
 *     a factor that all summed elements share leaves a sum that is there anyway;
 *     of a row that is v where the index is k and 0 elsewhere the sum is v, or 0 where no index is k;
 *     zeros to which updates are scattered, plus x, are x to which they are scattered. */
#include "passes/algebra.h"
#include <string.h>

enum { MOST_AXES = 32, MOST_TERMS = 16, DEEP = 8 };

typedef struct {
    Graph *g;
    const Op *sum; /* the reduction */
    const int64_t *axes;
    int n;
    bool summed[MOST_AXES]; /* by axis of its operand */
} Sum;

static Sum sum_of(Graph *g, const Op *op)
{
    Sum s = {.g = g, .sum = op};
    s.axes = op_ints(op, ATTR_axes, &s.n);
    for (int i = 0; i < s.n; i++) s.summed[s.axes[i]] = true;
    return s;
}

/* Whether all elements that are summed up have the same v: broadcast along the summed axes, or made of what is. */
static bool is_shared(const Sum *s, const Value *v, int depth)
{
    const Op *op = v->def;
    if (!op || depth == 0) return false;
    if (op_info(op->kind)->class == ELEMENTWISE) {
        for (int i = 0; i < op->n_in; i++)
            if (!is_shared(s, op->in[i], depth - 1)) return false;
        return true;
    }
    if (op->kind != OP_broadcast) return false;
    const Value *a = op->in[0];
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    for (int i = 0; i < a->rank; i++)
        if (s->summed[axes[i]] && !expr_is(a->shape[i], 1)) return false;
    return true;
}

/* The shared v, once for each sum. */
static Value *shared(const Sum *s, const Value *v)
{
    const Op *op = v->def;
    Value *y = s->sum->out[0], *in[3];
    if (op->kind != OP_broadcast) {
        for (int i = 0; i < op->n_in; i++) in[i] = shared(s, op->in[i]);
        return op_result(s->g, graph_op(s->g, op->kind, in, op->n_in, 1), 0, v->dtype, y->rank, y->shape);
    }
    Value *a = op->in[0];
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    Expr *shape[MOST_AXES];
    int64_t moved[MOST_AXES];
    int rank = 0;
    for (int i = 0; i < a->rank; i++) {
        if (s->summed[axes[i]]) continue;
        shape[rank] = a->shape[i];
        moved[rank] = axes[i];
        for (int k = 0; k < s->n; k++) moved[rank] -= s->axes[k] < axes[i];
        rank++;
    }
    return b_broadcast(s->g, b_reshape(s->g, a, rank, shape), moved, y->rank, y->shape);
}

/* ---- means ---- */
/* How many elements a divisor counts: a number, or dims; NULL for anything else. */
static Expr *count_of(Graph *g, const Value *v)
{
    double k;
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape || v->def->kind == OP_cast)) {
        if (value_is_scalar_constant(v, &k)) return expr_int(g->symbols, (int64_t)k);
        v = v->def->in[0];
    }
    if (value_is_scalar_constant(v, &k)) return expr_int(g->symbols, (int64_t)k);
    int n = 0;
    Expr *const *content = v->def && v->def->kind == OP_dims ? op_exprs(v->def, ATTR_content, &n) : NULL;
    return n == 1 ? content[0] : NULL;
}

/* Axis i of v's dims longer than 1 is the i-th of the axes of x that are not summed and longer than 1. */
static bool keeps_axes(const Sum *s, const Value *v, const Value *x, const int64_t *places)
{
    int axis = 0;
    for (int i = 0; i < v->rank; i++) {
        if (expr_is(v->shape[i], 1)) continue;
        while (axis < x->rank && (s->summed[axis] || expr_is(x->shape[axis], 1))) axis++;
        if (axis == x->rank || v->shape[i] != x->shape[axis] || (places && places[i] != axis)) return false;
        axis++;
    }
    return true;
}

/* Whether v is the mean of x over the summed axes, broadcast to x's shape. */
static bool is_mean(const Sum *s, const Value *v, const Value *x)
{
    if (!v->def || v->def->kind != OP_broadcast) return false;
    const int64_t *places = op_ints(v->def, ATTR_axes, NULL);
    const Value *mean = v->def->in[0];
    if (!keeps_axes(s, mean, x, places)) return false;
    while (mean->def && mean->def->kind == OP_reshape) mean = mean->def->in[0];
    if (!mean->def || mean->def->kind != OP_div) return false;
    Expr *count = count_of(s->g, mean->def->in[1]), *all = expr_int(s->g->symbols, 1);
    const Value *total = mean->def->in[0];
    while (total->def && total->def->kind == OP_reshape) total = total->def->in[0];
    if (!count || !total->def || total->def->kind != OP_reduce_sum || total->def->in[0] != x) return false;
    int n;
    const int64_t *axes = op_ints(total->def, ATTR_axes, &n);
    if (n != s->n || memcmp(axes, s->axes, sizeof *axes * (size_t)n) != 0 || !keeps_axes(s, total, x, NULL)) return false;
    for (int i = 0; i < n; i++) all = expr_mul(s->g->symbols, all, x->shape[axes[i]]);
    return expr_always_equal(s->g->symbols, count, all);
}

static bool sums_to_zero(const Sum *s, const Value *v, int depth)
{
    const Op *op = v->def;
    if (!op || depth == 0) return false;
    switch (op->kind) {
    case OP_neg: return sums_to_zero(s, op->in[0], depth - 1);
    case OP_mul:
        return (is_shared(s, op->in[1], DEEP) && sums_to_zero(s, op->in[0], depth - 1)) ||
               (is_shared(s, op->in[0], DEEP) && sums_to_zero(s, op->in[1], depth - 1));
    case OP_div: return is_shared(s, op->in[1], DEEP) && sums_to_zero(s, op->in[0], depth - 1);
    case OP_sub: return is_mean(s, op->in[1], op->in[0]);
    default: return false;
    }
}

/* ---- terms ---- */
typedef struct {
    Value *at[MOST_TERMS];
    bool minus[MOST_TERMS];
    int n, zeros; /* terms that are left; those that sum to 0 */
} Terms;

static bool split(const Sum *s, Value *v, bool minus, Terms *terms)
{
    const Op *op = v->def;
    if (sums_to_zero(s, v, DEEP)) {
        terms->zeros++;
        return true;
    }
    if (op && (op->kind == OP_add || op->kind == OP_sub))
        return split(s, op->in[0], minus, terms) && split(s, op->in[1], minus != (op->kind == OP_sub), terms);
    if (op && op->kind == OP_neg) return split(s, op->in[0], !minus, terms);
    if (terms->n == MOST_TERMS) return false;
    terms->minus[terms->n] = minus;
    terms->at[terms->n++] = v;
    return true;
}

/* Terms that sum to 0 are left out. */
static Value *without_zeros(const Sum *s)
{
    Graph *g = s->g;
    const Value *y = s->sum->out[0];
    Terms terms = {.n = 0};
    if (!split(s, s->sum->in[0], false, &terms) || !terms.zeros) return NULL;
    Value *rest = NULL;
    for (int i = 0; i < terms.n; i++) {
        Value *t = terms.at[i];
        if (rest)
            rest = terms.minus[i] ? b_sub(g, rest, t) : b_add(g, rest, t);
        else
            rest = terms.minus[i] ? b_unary(g, OP_neg, t) : t;
    }
    return rest ? b_reduce(g, OP_reduce_sum, rest, s->axes, s->n) : b_full(g, y->dtype, 0, y->rank, y->shape);
}

/* ---- factors ---- */
/* The sum of v that another operation makes, perhaps times what all its elements share; NULL where nobody makes it. */
static Value *sum_made(const Sum *s, Value *v, int depth)
{
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        int n;
        if (u == s->sum || u->kind != OP_reduce_sum || u->in[0] != v) continue;
        const int64_t *axes = op_ints(u, ATTR_axes, &n);
        const bool lives = u->out[0]->users.n || graph_is_output(s->g, u->out[0]); /* else it was replaced */
        if (lives && n == s->n && memcmp(axes, s->axes, sizeof *axes * (size_t)n) == 0) return u->out[0];
    }
    const Op *op = v->def;
    if (!op || op->kind != OP_mul || depth == 0) return NULL;
    for (int i = 0; i < 2; i++) {
        if (!is_shared(s, op->in[i], DEEP)) continue;
        Value *sum = sum_made(s, op->in[!i], depth - 1);
        if (sum) return b_mul(s->g, sum, shared(s, op->in[i]));
    }
    return NULL;
}

static Value *without_factor(const Sum *s)
{
    Value *x = s->sum->in[0];
    return x->def && x->def->kind == OP_mul ? sum_made(s, x, DEEP) : NULL;
}

/* ---- one of a row ---- */
static Value *one_of_row(const Sum *s)
{
    Graph *g = s->g;
    const Value *x = s->sum->in[0], *y = s->sum->out[0];
    if (s->n != 1 || !x->def || x->def->kind != OP_select || !algebra_is_zero(x->def->in[2])) return NULL;
    const Op *eq = x->def->in[0]->def;
    Value *v = x->def->in[1];
    if (!eq || eq->kind != OP_eq || !is_shared(s, v, DEEP)) return NULL;
    for (int i = 0; i < 2; i++) {
        const Op *iota = eq->in[i]->def;
        Value *index = eq->in[!i];
        if (!iota || iota->kind != OP_iota || op_int(iota, ATTR_axis) != s->axes[0] || !is_shared(s, index, DEEP)) continue;
        index = shared(s, index);
        Value *size = b_cast(g, b_dim(g, x->shape[s->axes[0]]), index->dtype);
        Value *from = b_binary(g, OP_le, b_like(g, index, 0), index), *to = b_binary(g, OP_lt, index, size);
        return b_select(g, b_binary(g, OP_and, from, to), shared(s, v), b_full(g, y->dtype, 0, y->rank, y->shape));
    }
    return NULL;
}

Value *algebra_reduce_sum(Graph *g, const Op *op)
{
    const Sum s = sum_of(g, op);
    Value *x = op->in[0], *y = NULL;
    if (x->rank > MOST_AXES || !dtype_is_float(x->dtype)) return NULL;
    if (x->def && x->def->kind == OP_neg) return b_unary(g, OP_neg, b_reduce(g, OP_reduce_sum, x->def->in[0], s.axes, s.n));
    y = without_zeros(&s);
    if (!y) y = without_factor(&s);
    return y ? y : one_of_row(&s);
}

/* ---- scattered sums ---- */
Value *algebra_scatter_sum(Graph *g, const Op *add)
{
    for (int i = 0; i < 2; i++) {
        const Value *v = add->in[i];
        Value *x = add->in[!i];
        while (v->def && v->def->kind == OP_reshape && algebra_only_reader(g, v)) v = v->def->in[0];
        const Op *op = v->def;
        if (!op || op->kind != OP_scatter || !algebra_only_reader(g, v) || !algebra_is_zero(op->in[0])) continue;
        if (strcmp(op_text(op, ATTR_mode), "add") != 0 || !dtype_is_float(v->dtype)) continue;
        Value *sum = b_scatter(g, b_reshape(g, x, v->rank, v->shape), op->in[1], op->in[2], (int)op_int(op, ATTR_axis), "add");
        return b_reshape(g, sum, add->out[0]->rank, add->out[0]->shape);
    }
    return NULL;
}
