/* What the rules of gradients leave is written as a person would: rules that look at two operations or three.
 *
 *     add x, (neg y)                              ->  sub x, y
 *     reduce_sum (neg x)                          ->  neg (reduce_sum x)
 *     add (select c, x, 0), (select c, 0, y)      ->  select c, x, y
 *     add (pad x), (pad y) beside each other      ->  concat x, y
 *     reduce_sum (add x, (sub y, mean y))         ->  reduce_sum x
 *
 * Needs: simplified primitives, after gradient.  Breaks: equal operations and dead views may be left for simplify.  Results are the
 * same but for the sign of zeros and, where sums change their order or a factor leaves a sum, rounding. */
#include "passes/algebra.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include <math.h>

enum { MOST_ROUNDS = 8 };

bool algebra_only_reader(const Graph *g, const Value *v)
{
    return v->users.n == 1 && !graph_is_output(g, v);
}

bool algebra_is_zero(const Value *v)
{
    double k;
    return value_is_scalar_constant(v, &k) && k == 0;
}

static Value *operand_of(const Value *v, OpKind kind)
{
    return v->def && v->def->kind == kind ? v->def->in[0] : NULL;
}

/* ---- signs move towards the results, until a sum takes them ---- */
static Value *sign_of_sum(Graph *g, const Op *op)
{
    Value *a = op->in[0], *b = op->in[1], *minus_a = operand_of(a, OP_neg), *minus_b = operand_of(b, OP_neg);
    const bool add = op->kind == OP_add;
    if (minus_b) return add ? b_sub(g, a, minus_b) : b_add(g, a, minus_b);
    if (minus_a && add) return b_sub(g, b, minus_a);
    return minus_a ? b_unary(g, OP_neg, b_add(g, minus_a, b)) : NULL;
}

static Value *sign_of_product(Graph *g, const Op *op)
{
    Value *a = op->in[0], *b = op->in[1], *minus_a = operand_of(a, OP_neg), *minus_b = operand_of(b, OP_neg);
    if (!dtype_is_float(a->dtype) || (!minus_a && !minus_b)) return NULL;
    Value *product = b_binary(g, op->kind, minus_a ? minus_a : a, minus_b ? minus_b : b);
    return minus_a && minus_b ? product : b_unary(g, OP_neg, product);
}

static Value *sign_of_difference(Graph *g, const Op *op) /* -(a - b) */
{
    const Value *difference = op->in[0];
    if (!operand_of(difference, OP_sub) || !algebra_only_reader(g, difference)) return NULL;
    return b_sub(g, difference->def->in[1], difference->def->in[0]);
}

/* A view of -x is minus the view of x, where sums are all that reads it. */
static Value *sign_of_view(Graph *g, const Op *op)
{
    Value *x = operand_of(op->in[0], OP_neg), *y = op->out[0];
    if (!x || graph_is_output(g, y)) return NULL;
    for (int i = 0; i < y->users.n; i++)
        if (y->users.at[i]->kind != OP_add && y->users.at[i]->kind != OP_sub) return NULL;
    if (op->kind == OP_reshape) return b_unary(g, OP_neg, b_reshape(g, x, y->rank, y->shape));
    return b_unary(g, OP_neg, b_broadcast(g, x, op_ints(op, ATTR_axes, NULL), y->rank, y->shape));
}

/* ---- choices ---- */
/* a where the condition holds and 0 elsewhere, plus 0 where it holds and b elsewhere. */
static Value *choice_of(Graph *g, const Value *a, const Value *b)
{
    if (!operand_of(a, OP_select) || !operand_of(b, OP_select) || a->def->in[0] != b->def->in[0]) return NULL;
    if (algebra_is_zero(a->def->in[2]) && algebra_is_zero(b->def->in[1]))
        return b_select(g, a->def->in[0], a->def->in[1], b->def->in[2]);
    if (algebra_is_zero(a->def->in[1]) && algebra_is_zero(b->def->in[2]))
        return b_select(g, a->def->in[0], b->def->in[1], a->def->in[2]);
    return NULL;
}

/* Also where the other half stands one sum before: (x + a) + b. */
static Value *sum_of_choices(Graph *g, const Op *op)
{
    Value *a = op->in[0], *b = op->in[1], *found = choice_of(g, a, b);
    for (int i = 0; i < 2 && !found; i++) {
        const Value *before = op->in[i];
        if (!operand_of(before, OP_add) || !algebra_only_reader(g, before)) continue;
        for (int k = 0; k < 2; k++) {
            Value *choice = choice_of(g, before->def->in[k], op->in[!i]);
            if (choice) return b_add(g, before->def->in[!k], choice);
        }
    }
    return found;
}

/* (c ? a : 0) * k is c ? a * k : 0 for a finite number k. */
static Value *product_of_choice(Graph *g, const Op *op)
{
    Value *choice = op->in[0], *factor = op->in[1];
    double k;
    if (!operand_of(choice, OP_select) || !algebra_only_reader(g, choice)) return NULL;
    if (!value_is_scalar_constant(factor, &k) || !isfinite(k)) return NULL;
    Value *a = choice->def->in[1], *b = choice->def->in[2];
    if (algebra_is_zero(a)) return b_select(g, choice->def->in[0], a, b_mul(g, b, factor));
    return algebra_is_zero(b) ? b_select(g, choice->def->in[0], b_mul(g, a, factor), b) : NULL;
}

static Value *choice_of_opposite(Graph *g, const Op *op)
{
    Value *condition = operand_of(op->in[0], OP_not);
    return condition ? b_select(g, condition, op->in[2], op->in[1]) : NULL;
}

/* relu x is above 0 where x is: where nobody else wants relu x, it is not made. */
static Value *above_zero(Graph *g, const Op *op)
{
    Value *x = operand_of(op->in[1], OP_relu);
    return x && algebra_is_zero(op->in[0]) && algebra_only_reader(g, op->in[1]) ? b_binary(g, OP_lt, op->in[0], x) : NULL;
}

/* x * k * m is x * (k m). */
static Value *product_of_numbers(Graph *g, const Op *op)
{
    const Value *before = op->in[0];
    double k, m;
    if (!operand_of(before, OP_mul) || !algebra_only_reader(g, before) || !dtype_is_float(before->dtype)) return NULL;
    if (!value_is_scalar_constant(op->in[1], &m) || !value_is_scalar_constant(before->def->in[1], &k)) return NULL;
    return b_mul(g, before->def->in[0], b_number(g, before->dtype, k * m));
}

static bool rule(Graph *g, Op *op, Value **by, void *context)
{
    (void)context;
    switch (op->kind) {
    case OP_add:
        by[0] = sign_of_sum(g, op);
        if (!by[0]) by[0] = sum_of_choices(g, op);
        if (!by[0]) by[0] = algebra_scatter_sum(g, op);
        if (!by[0]) by[0] = algebra_parts(g, op);
        break;
    case OP_sub: by[0] = sign_of_sum(g, op); break;
    case OP_mul:
        by[0] = sign_of_product(g, op);
        if (!by[0]) by[0] = product_of_choice(g, op);
        if (!by[0]) by[0] = product_of_numbers(g, op);
        break;
    case OP_div: by[0] = sign_of_product(g, op); break;
    case OP_neg: by[0] = sign_of_difference(g, op); break;
    case OP_broadcast:
    case OP_reshape: by[0] = sign_of_view(g, op); break;
    case OP_select: by[0] = choice_of_opposite(g, op); break;
    case OP_lt: by[0] = above_zero(g, op); break;
    case OP_reduce_sum: by[0] = algebra_reduce_sum(g, op); break;
    default: break;
    }
    return by[0] != NULL;
}

void pass_algebra(Graph *g)
{
    for (int round = 0; round < MOST_ROUNDS && (rewrite(g, rule, NULL, true) || algebra_scans(g)); round++) {
        graph_sort(g);
        graph_prune(g);
    }
}
