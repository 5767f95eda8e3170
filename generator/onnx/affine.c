/* Integer tensors that are linear in their own indices, base + sum of coefficient * index: positions, and what masks compute with
 * them.  Where the indices cancel (the difference of neighbouring positions is 1) a comparison or sum is one number for all
 * elements, so that masks for packed sequences, cumulative sums of no breaks and the like vanish from programs that have none. */
#include "onnx/terms.h"

typedef struct Affine {
    Expr *base, *coefficient[MOST_AXES];
} Affine;

static bool affine_of(Import *im, const Value *v, Affine *a, int *budget);

static Affine flat_affine(Import *im, const Value *v, Expr *base)
{
    Affine a = {.base = base};
    for (int i = 0; i < v->rank; i++) a.coefficient[i] = number(im, 0);
    return a;
}

static bool is_flat(const Affine *a, int rank)
{
    for (int i = 0; i < rank; i++)
        if (!expr_is(a->coefficient[i], 0)) return false;
    return true;
}

static bool of_broadcast(Import *im, const Op *op, Affine *a, int *budget)
{
    Affine inner;
    const Value *from = op->in[0];
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    if (!affine_of(im, from, &inner, budget)) return false;
    *a = flat_affine(im, op->out[0], inner.base);
    for (int i = 0; i < from->rank; i++)
        if (!expr_is(from->shape[i], 1)) a->coefficient[axes[i]] = inner.coefficient[i];
    return true;
}

/* Through a reshape that only adds or drops dims of 1. */
static bool of_reshape(Import *im, const Op *op, Affine *a, int *budget)
{
    Affine inner;
    const Value *from = op->in[0], *to = op->out[0];
    if (!affine_of(im, from, &inner, budget)) return false;
    *a = flat_affine(im, to, inner.base);
    int i = 0;
    for (int k = 0; k < to->rank; k++) {
        if (expr_is(to->shape[k], 1)) continue;
        while (i < from->rank && expr_is(from->shape[i], 1)) i++;
        if (i == from->rank || !expr_always_equal(im->symbols, from->shape[i], to->shape[k])) return false;
        a->coefficient[k] = inner.coefficient[i++];
    }
    for (; i < from->rank; i++)
        if (!expr_is(from->shape[i], 1)) return false;
    return true;
}

static bool of_slice(Import *im, const Op *op, Affine *a, int *budget)
{
    Expr *const *start = op_exprs(op, ATTR_start, NULL);
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    if (!affine_of(im, op->in[0], a, budget)) return false;
    for (int i = 0; i < op->out[0]->rank; i++) {
        a->base = expr_add(im->symbols, a->base, expr_mul(im->symbols, a->coefficient[i], start[i]));
        a->coefficient[i] = expr_mul(im->symbols, a->coefficient[i], number(im, step[i]));
    }
    return true;
}

static bool of_arithmetic(Import *im, const Op *op, Affine *a, int *budget)
{
    Affine b;
    Symbols *s = im->symbols;
    int rank = op->out[0]->rank;
    if (!affine_of(im, op->in[0], a, budget) || !affine_of(im, op->in[1], &b, budget)) return false;
    if (op->kind == OP_mul) {
        if (!is_flat(&b, rank)) {
            Affine swap = b;
            b = *a;
            *a = swap;
        }
        if (!is_flat(&b, rank)) return false;
        a->base = expr_mul(s, a->base, b.base);
        for (int i = 0; i < rank; i++) a->coefficient[i] = expr_mul(s, a->coefficient[i], b.base);
        return true;
    }
    Expr *(*combine)(Symbols *, Expr *, Expr *) = op->kind == OP_add ? expr_add : expr_sub;
    a->base = combine(s, a->base, b.base);
    for (int i = 0; i < rank; i++) a->coefficient[i] = combine(s, a->coefficient[i], b.coefficient[i]);
    return true;
}

/* Parts that continue each other: {-1} before {0, 1, 2, ..} is -1, 0, 1, 2, .. */
static bool of_concat(Import *im, const Op *op, Affine *a, int *budget)
{
    Symbols *s = im->symbols;
    int axis = (int)op_int(op, ATTR_axis), rank = op->out[0]->rank;
    Affine parts[8];
    Expr *step = NULL, *offset = number(im, 0);
    if (op->n_in > 8) return false;
    for (int p = 0; p < op->n_in; p++) {
        if (!affine_of(im, op->in[p], &parts[p], budget)) return false;
        if (!step && !expr_is(op->in[p]->shape[axis], 1)) step = parts[p].coefficient[axis];
    }
    if (!step) step = expr_sub(s, parts[1].base, parts[0].base);
    *a = parts[0];
    a->coefficient[axis] = step;
    for (int p = 0; p < op->n_in; p++) {
        if (!expr_always_equal(s, parts[p].base, expr_add(s, a->base, expr_mul(s, step, offset)))) return false;
        for (int i = 0; i < rank; i++)
            if (!(i == axis && expr_is(op->in[p]->shape[axis], 1)) &&
                !expr_always_equal(s, parts[p].coefficient[i], a->coefficient[i]))
                return false;
        offset = expr_add(s, offset, op->in[p]->shape[axis]);
    }
    return true;
}

static bool of_scalar(Import *im, const Value *v, Affine *a)
{
    double known;
    if (v->def->kind == OP_constant && value_is_scalar_constant(v, &known))
        *a = flat_affine(im, v, number(im, (int64_t)known));
    else if (v->def->kind == OP_dims && op_attr(v->def, ATTR_content)->n == 1)
        *a = flat_affine(im, v, op_exprs(v->def, ATTR_content, NULL)[0]);
    else
        return false;
    return true;
}

static bool affine_of(Import *im, const Value *v, Affine *a, int *budget)
{
    const Op *op = v->def;
    if (!op || v->rank > MOST_AXES || (v->dtype != DTYPE_i64 && v->dtype != DTYPE_i32) || --*budget < 0) return false;
    switch (op->kind) {
    case OP_iota:
        *a = flat_affine(im, v, number(im, 0));
        a->coefficient[op_int(op, ATTR_axis)] = number(im, 1);
        return true;
    case OP_constant:
    case OP_dims: return of_scalar(im, v, a);
    case OP_cast: return affine_of(im, op->in[0], a, budget);
    case OP_broadcast: return of_broadcast(im, op, a, budget);
    case OP_reshape: return of_reshape(im, op, a, budget);
    case OP_slice: return of_slice(im, op, a, budget);
    case OP_concat: return of_concat(im, op, a, budget);
    case OP_add:
    case OP_sub:
    case OP_mul: return of_arithmetic(im, op, a, budget);
    default: return false;
    }
}

/* The least (sign -1) or most (sign 1) that a is over a shape; NULL where a coefficient's sign is open. */
static Expr *extreme(Import *im, const Affine *a, const Value *over, int sign)
{
    Symbols *s = im->symbols;
    Expr *e = a->base, *zero = number(im, 0);
    for (int i = 0; i < over->rank; i++) {
        bool rises = expr_at_least(s, a->coefficient[i], zero), falls = expr_at_least(s, zero, a->coefficient[i]);
        if (!rises && !falls) return NULL;
        if (sign > 0 ? rises : falls)
            e = expr_add(s, e, expr_mul(s, a->coefficient[i], expr_sub(s, over->shape[i], number(im, 1))));
    }
    return e;
}

/* Whether v, a comparison whose sides differ by d, is true (1) or false (0) for all elements; -1 where it varies. */
static int truth_of(Import *im, const Value *v, const Affine *d)
{
    Symbols *s = im->symbols;
    Expr *zero = number(im, 0), *least = extreme(im, d, v, -1), *most = extreme(im, d, v, 1);
    if (v->def->kind == OP_eq && is_flat(d, v->rank) && expr_always_equal(s, d->base, zero)) return 1;
    if (!least || !most) return -1;
    bool below = expr_compare(s, most, zero) == ORDER_LESS, above = expr_compare(s, least, zero) == ORDER_GREATER;
    if (v->def->kind == OP_eq) return below || above ? 0 : -1;
    if (v->def->kind == OP_lt) return below ? 1 : expr_at_least(s, least, zero) ? 0 : -1;
    return expr_at_least(s, zero, most) ? 1 : above ? 0 : -1;
}

static Value *one_truth(Import *im, Value *v)
{
    Affine a, b;
    int budget = 200, truth;
    if (!affine_of(im, v->def->in[0], &a, &budget) || !affine_of(im, v->def->in[1], &b, &budget)) return v;
    a.base = expr_sub(im->symbols, a.base, b.base);
    for (int i = 0; i < v->rank; i++) a.coefficient[i] = expr_sub(im->symbols, a.coefficient[i], b.coefficient[i]);
    truth = truth_of(im, v, &a);
    return truth < 0 ? v : b_full(im->graph, DTYPE_bool, truth, v->rank, v->shape);
}

Value *one_for_all(Import *im, Value *v)
{
    Affine a;
    int budget = 200;
    if (!v->def || v->rank == 0) return v;
    switch (v->def->kind) {
    case OP_eq:
    case OP_lt:
    case OP_le: return one_truth(im, v);
    case OP_add:
    case OP_sub:
    case OP_mul:
        if (!affine_of(im, v, &a, &budget) || !is_flat(&a, v->rank)) return v;
        return b_broadcast_to(im->graph, b_cast(im->graph, b_dim(im->graph, a.base), v->dtype), v->rank, v->shape);
    default: return v;
    }
}

Value *same_everywhere(const Value *v)
{
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape)) v = v->def->in[0];
    double known;
    return v->rank == 0 && v->def && value_is_scalar_constant(v, &known) ? v->def->out[0] : NULL;
}

bool rises_along(Import *im, const Value *v, int *axis, Expr **start)
{
    Affine a;
    int budget = 200;
    *axis = -1;
    if (!affine_of(im, v, &a, &budget)) return false;
    for (int i = 0; i < v->rank; i++) {
        if (expr_is(a.coefficient[i], 0) || expr_is(v->shape[i], 1)) continue;
        if (!expr_is(a.coefficient[i], 1) || *axis >= 0) return false;
        *axis = i;
    }
    *start = a.base;
    return true;
}

bool counts_all(Import *im, const Value *v, Expr *count)
{
    Affine a;
    int budget = 200;
    Expr *step = number(im, 1);
    if (!affine_of(im, v, &a, &budget) || !expr_is(a.base, 0)) return false;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (expr_is(v->shape[i], 1)) continue;
        if (!expr_always_equal(im->symbols, a.coefficient[i], step)) return false;
        step = expr_mul(im->symbols, step, v->shape[i]);
    }
    return expr_always_equal(im->symbols, step, count);
}
