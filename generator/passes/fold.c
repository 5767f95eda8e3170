/* Operations on constants are computed; identities vanish; small frozen weights become constants, which end as literals in kernels.
 *
 *     %3 = mul %1, 1        ->  %1                     %3 = pow %1, 2   ->  mul %1, %1
 *     %3 = sqrt 8           ->  2.828427               %3 = gather %1, [0]  ->  slice %1
 *
 * Needs: trainable (which weights are frozen).  Breaks: nothing.  A weight that trains is no constant, so nothing behind it is
 * folded. */
#include "passes/fold.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/diag.h"
#include <math.h>
#include <string.h>

enum { MOST_FROZEN = 64, SMALL = 64, MOST_ROUNDS = 8 };

/* ---- frozen weights ---- */
static bool is_assigned(const Value *v)
{
    for (int i = 0; i < v->users.n; i++)
        if (v->users.at[i]->kind == OP_assign && v->users.at[i]->in[0] == v) return true;
    return false;
}

static void freeze(Graph *g)
{
    Ops before = g->ops;
    g->ops = (Ops){0};
    for (int i = 0; i < g->inputs.n; i++) {
        Value *v = g->inputs.at[i];
        const Tensor *t = v->origin == FROM_WEIGHT ? v->tensor : NULL;
        if (!t || t->trainable || t->statistics || !t->data || !dtype_is_float(t->dtype) || !v->users.n || is_assigned(v)) continue;
        int64_t n = 1;
        for (int k = 0; k < t->rank; k++) n *= t->dims[k];
        if (n > MOST_FROZEN) continue;
        Value *constant = b_constant(g, t->dtype, t->rank, t->dims, t->data);
        constant->name = v->name;
        graph_replace(g, v, constant);
    }
    for (int i = 0; i < before.n; i++) vec_push(g->arena, &g->ops, before.at[i]);
}

/* ---- constants ---- */
static Value *constant(Graph *g, const Known *k)
{
    return b_constant(g, k->dtype, k->rank, k->dims, k->data);
}

/* Elementwise of one number each: the number, in the result's shape, whatever that is. */
static Value *fold_numbers(Graph *g, const Op *op)
{
    Known in[3], to = {.dtype = op->out[0]->dtype, .n = 1};
    for (int i = 0; i < op->n_in; i++)
        if (!fold_scalar(op->in[i], &in[i])) return NULL;
    if (op->n_in == 0 || !fold_compute(g, op, in, &to)) return NULL;
    return b_broadcast_to(g, constant(g, &to), op->out[0]->rank, op->out[0]->shape);
}

/* A number as a tensor of the shape of `like`. */
static Known spread(Graph *g, const Known *number, const Known *like)
{
    Known k = *like;
    size_t size = (size_t)dtype_bytes(number->dtype);
    char *data = arena_alloc(g->arena, size * (size_t)like->n + 8);
    for (int64_t i = 0; i < like->n; i++) memcpy(data + (size_t)i * size, number->data, size);
    k.dtype = number->dtype;
    k.data = data;
    return k;
}

/* The operand of a broadcast that is no mere number; NULL for anything else. */
static const Op *broadcast_of_tensor(const Value *v)
{
    return v->def && v->def->kind == OP_broadcast && v->def->in[0]->rank ? v->def : NULL;
}

static bool broadcast_alike(Graph *g, const Op *a, const Op *b)
{
    int n, n_b;
    const int64_t *axes = op_ints(a, ATTR_axes, &n), *axes_b = op_ints(b, ATTR_axes, &n_b);
    return n == n_b && memcmp(axes, axes_b, sizeof *axes * (size_t)n) == 0 && same_shape(g, a->in[0], b->in[0]);
}

/* Elementwise of constants that are broadcast alike, or are numbers: computed before they are broadcast. */
static Value *fold_broadcasts(Graph *g, const Op *op)
{
    const Op *first = NULL;
    for (int i = 0; i < op->n_in && !first; i++) first = broadcast_of_tensor(op->in[i]);
    Known in[3], to, number;
    if (!first || !fold_known(g, first->in[0], &to)) return NULL;
    for (int i = 0; i < op->n_in; i++) {
        const Op *def = broadcast_of_tensor(op->in[i]);
        if (fold_scalar(op->in[i], &number))
            in[i] = spread(g, &number, &to);
        else if (!def || !broadcast_alike(g, def, first) || !fold_known(g, def->in[0], &in[i]))
            return NULL;
    }
    to.dtype = op->out[0]->dtype;
    if (!fold_compute(g, op, in, &to)) return NULL;
    return b_broadcast(g, constant(g, &to), op_ints(first, ATTR_axes, NULL), op->out[0]->rank, op->out[0]->shape);
}

static bool result_type(const Value *y, Known *to)
{
    *to = (Known){.dtype = y->dtype, .rank = y->rank, .n = 1};
    if (y->rank > FOLD_MOST_AXES) return false;
    for (int i = 0; i < y->rank; i++) {
        if (!expr_is_int(y->shape[i], &to->dims[i])) return false;
        to->n *= to->dims[i];
        if (to->n > FOLD_MOST_ELEMENTS) return false;
    }
    return true;
}

static bool may_be_known(const Value *v)
{
    while (v->def && v->def->kind == OP_broadcast) v = v->def->in[0];
    return v->def && (v->def->kind == OP_constant || v->def->kind == OP_iota);
}

/* Anything else of constants.  No result is larger than what it is made of, unless it is small: a mask made of two iotas stays a
 * function of the position. */
static Value *fold_constants(Graph *g, const Op *op)
{
    if (op->kind == OP_broadcast || op->n_in == 0 || op->n_out != 1) return NULL;
    for (int i = 0; i < op->n_in; i++)
        if (!may_be_known(op->in[i])) return NULL;
    Known *in = NEW_ARRAY(g->arena, Known, op->n_in), to;
    if (!result_type(op->out[0], &to)) return NULL;
    int64_t stored = 0;
    for (int i = 0; i < op->n_in; i++) {
        if (!fold_known(g, op->in[i], &in[i])) return NULL;
        if (op->in[i]->def->kind == OP_constant) stored += in[i].n;
    }
    if (to.n > SMALL && to.n > stored) return NULL;
    return fold_compute(g, op, in, &to) ? constant(g, &to) : NULL;
}

/* ---- identities ---- */
static bool number_of(const Value *v, double *k)
{
    Known known;
    if (!fold_scalar(v, &known)) return false;
    *k = element_read(known.dtype, known.data, 0);
    return true;
}

static bool is(const Value *v, double k)
{
    double found;
    return number_of(v, &found) && found == k;
}

static Value *raise(Graph *g, Value *x, double exponent)
{
    if (exponent == 0) return b_full(g, x->dtype, 1, x->rank, x->shape);
    if (exponent == 1) return x;
    if (exponent == 2) return b_mul(g, x, x);
    if (exponent == 3) return b_mul(g, b_mul(g, x, x), x);
    if (!dtype_is_float(x->dtype)) return NULL;
    if (exponent == 0.5) return b_unary(g, OP_sqrt, x);
    if (exponent == -1) return b_unary(g, OP_reciprocal, x);
    if (exponent == -0.5) return b_unary(g, OP_reciprocal, b_unary(g, OP_sqrt, x));
    return NULL;
}

static Value *binary_identity(Graph *g, const Op *op)
{
    Value *a = op->in[0], *b = op->in[1];
    double k;
    switch (op->kind) {
    case OP_add: return is(b, 0) ? a : is(a, 0) ? b : NULL;
    case OP_sub: return is(b, 0) ? a : is(a, 0) && dtype_is_signed(b->dtype) ? b_unary(g, OP_neg, b) : NULL;
    case OP_mul:
        if (is(b, 1)) return a;
        if (is(a, 1)) return b;
        if (!dtype_is_signed(a->dtype)) return NULL;
        return is(b, -1) ? b_unary(g, OP_neg, a) : is(a, -1) ? b_unary(g, OP_neg, b) : NULL;
    case OP_div:
        if (is(b, 1)) return a;
        return is(a, 1) && dtype_is_float(a->dtype) ? b_unary(g, OP_reciprocal, b) : NULL;
    case OP_pow: return number_of(b, &k) ? raise(g, a, k) : NULL;
    case OP_max: return is(b, -INFINITY) ? a : is(a, -INFINITY) ? b : NULL;
    case OP_min: return is(b, INFINITY) ? a : is(a, INFINITY) ? b : NULL;
    case OP_and: return is(b, 1) ? a : is(a, 1) ? b : is(b, 0) ? b : is(a, 0) ? a : NULL;
    case OP_or: return is(b, 0) ? a : is(a, 0) ? b : is(b, 1) ? b : is(a, 1) ? a : NULL;
    case OP_xor: return is(b, 0) ? a : is(a, 0) ? b : NULL;
    default: return NULL;
    }
}

static Value *undone(const Op *op) /* an operation that takes itself back: neg neg x */
{
    const Op *before = op->in[0]->def;
    return before && before->kind == op->kind ? before->in[0] : NULL;
}

/* Indices start, start + step, … known when generating are a slice: its gradient needs no scatter. */
static Value *gather_of_slice(Graph *g, const Op *op)
{
    Value *a = op->in[0], *y = op->out[0];
    int axis = (int)op_int(op, ATTR_axis);
    Known index;
    Expr *starts[FOLD_MOST_AXES], *shape[FOLD_MOST_AXES];
    int64_t steps[FOLD_MOST_AXES];
    if (!fold_known(g, op->in[1], &index) || index.n == 0 || a->rank > FOLD_MOST_AXES) return NULL;
    const int64_t *at = index.data;
    int64_t step = index.n > 1 ? at[1] - at[0] : 1;
    for (int64_t i = 1; i < index.n; i++)
        if (at[i] - at[i - 1] != step || step == 0) return NULL;
    for (int i = 0; i < a->rank; i++) {
        starts[i] = expr_int(g->symbols, i == axis ? at[0] : 0);
        steps[i] = i == axis ? step : 1;
        shape[i] = i == axis ? expr_int(g->symbols, index.n) : a->shape[i];
    }
    return b_reshape(g, b_slice(g, a, starts, steps, shape), y->rank, y->shape);
}

static Value *whole(Graph *g, const Op *op) /* of slice and pad: all of it, nothing around it */
{
    int n;
    Expr *const *start = op_exprs(op, ATTR_start, &n);
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    for (int i = 0; i < n; i++)
        if (!expr_is(start[i], 0) || step[i] != 1) return NULL;
    return same_shape(g, op->in[0], op->out[0]) ? op->in[0] : NULL;
}

static Value *transpose_identity(const Op *op)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    for (int i = 0; i < n; i++)
        if (axes[i] != i) return NULL;
    return op->in[0];
}

/* A reduction over dims of 1, which a fixed dim may have become since. */
static Value *reduce_ones(Graph *g, const Op *op)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    for (int i = 0; i < n; i++)
        if (!expr_is(op->in[0]->shape[axes[i]], 1)) return NULL;
    return b_reshape(g, op->in[0], op->out[0]->rank, op->out[0]->shape);
}

static Value *identity(Graph *g, const Op *op)
{
    switch (op->kind) {
    case OP_neg:
    case OP_not:
    case OP_bit_not: return undone(op);
    case OP_bitcast:
    case OP_cast: return op->in[0]->dtype == op->out[0]->dtype ? op->in[0] : NULL;
    case OP_select: return op->in[1] == op->in[2] || is(op->in[0], 1) ? op->in[1] : is(op->in[0], 0) ? op->in[2] : NULL;
    case OP_broadcast:
    case OP_reshape: return same_shape(g, op->in[0], op->out[0]) ? op->in[0] : NULL;
    case OP_transpose: return transpose_identity(op);
    case OP_slice:
    case OP_pad: return whole(g, op);
    case OP_concat: return op->n_in == 1 ? op->in[0] : NULL;
    case OP_gather: return gather_of_slice(g, op);
    case OP_reduce_sum:
    case OP_reduce_prod:
    case OP_reduce_max:
    case OP_reduce_min: return reduce_ones(g, op);
    default: return op->n_in == 2 && op_info(op->kind)->class == ELEMENTWISE ? binary_identity(g, op) : NULL;
    }
}

static bool fold(Graph *g, Op *op, Value **by, void *context)
{
    (void)context;
    if (op->n_out != 1) return false;
    bool elementwise = op_info(op->kind)->class == ELEMENTWISE;
    by[0] = elementwise ? fold_numbers(g, op) : NULL;
    if (!by[0] && elementwise) by[0] = fold_broadcasts(g, op);
    if (!by[0]) by[0] = fold_constants(g, op);
    if (!by[0]) by[0] = identity(g, op);
    return by[0] != NULL;
}

void pass_fold(Graph *g)
{
    freeze(g);
    for (int round = 0; round < MOST_ROUNDS && rewrite(g, fold, NULL, true); round++) continue;
    graph_prune(g);
}
