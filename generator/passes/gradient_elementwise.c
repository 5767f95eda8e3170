/* Gradient rules of elementwise operations.  In the tables x is the operand, y the result, g the result's gradient. */
#include "passes/gradient.h"

/* ---- short words for formulas ---- */
static Value *number(Backward *b, const Value *like, double k)
{
    return b_number(b->g, like->dtype, k);
}
static Value *mul(Backward *b, Value *p, Value *q)
{
    return b_mul(b->g, p, q);
}
static Value *div(Backward *b, Value *p, Value *q)
{
    return b_div(b->g, p, q);
}
static Value *add(Backward *b, Value *p, Value *q)
{
    return b_add(b->g, p, q);
}
static Value *sub(Backward *b, Value *p, Value *q)
{
    return b_sub(b->g, p, q);
}
static Value *times(Backward *b, Value *v, double k)
{
    return mul(b, v, number(b, v, k));
}
static Value *plus(Backward *b, Value *v, double k)
{
    return add(b, v, number(b, v, k));
}
static Value *from(Backward *b, double k, Value *v)
{
    return sub(b, number(b, v, k), v);
} /* k - v */
static Value *square(Backward *b, Value *v)
{
    return mul(b, v, v);
}
static Value *neg(Backward *b, Value *v)
{
    return b_unary(b->g, OP_neg, v);
}
static Value *of(Backward *b, OpKind kind, Value *v)
{
    return b_unary(b->g, kind, v);
}
static Value *where(Backward *b, Value *c, Value *p, Value *q)
{
    return b_select(b->g, c, p, q);
}
static Value *is(Backward *b, Value *v, double k)
{
    return b_binary(b->g, OP_eq, v, number(b, v, k));
}
static Value *less(Backward *b, Value *p, Value *q)
{
    return b_binary(b->g, OP_lt, p, q);
}
/* v where the condition holds, else 0, whatever v is there (infinite, NaN) */
static Value *only(Backward *b, Value *condition, Value *v)
{
    return where(b, condition, v, number(b, v, 0));
}
static Value *except(Backward *b, Value *condition, Value *v)
{
    return where(b, condition, number(b, v, 0), v);
}

/* ---- one operand ---- */
#define UNARY(name, formula)                                                                                                       \
    void gradient_##name(Backward *b, Op *op)                                                                                      \
    {                                                                                                                              \
        Value *x = op->in[0], *y = op->out[0], *g = backward_of(b, y);                                                             \
        (void)x;                                                                                                                   \
        backward_add(b, x, formula);                                                                                               \
    }
UNARY(neg, neg(b, g))
UNARY(abs, mul(b, g, of(b, OP_sign, x)))

/* Of 1 / sqrt x the slope is -y^3 / 2: the root itself is not wanted any more. */
void gradient_reciprocal(Backward *b, Op *op)
{
    Value *x = op->in[0], *y = op->out[0], *g = backward_of(b, y);
    if (x->def && x->def->kind == OP_sqrt)
        backward_add(b, x->def->in[0], mul(b, g, times(b, mul(b, y, square(b, y)), -0.5)));
    else
        backward_add(b, x, neg(b, mul(b, g, square(b, y))));
}
/* At 0, where the slope is infinite, 0: a norm sqrt(sum x*x) of zeros then has the gradient 0 that PyTorch gives norms, not 0 *
 * inf. */
UNARY(sqrt, except(b, is(b, y, 0), div(b, g, times(b, y, 2))))
UNARY(exp, mul(b, g, y))
UNARY(expm1, mul(b, g, plus(b, y, 1)))
UNARY(log, div(b, g, x))
UNARY(log1p, div(b, g, plus(b, x, 1)))
UNARY(sin, mul(b, g, of(b, OP_cos, x)))
UNARY(cos, neg(b, mul(b, g, of(b, OP_sin, x))))
UNARY(tan, mul(b, g, plus(b, square(b, y), 1)))
UNARY(asin, div(b, g, of(b, OP_sqrt, from(b, 1, square(b, x)))))
UNARY(acos, neg(b, div(b, g, of(b, OP_sqrt, from(b, 1, square(b, x))))))
UNARY(atan, div(b, g, plus(b, square(b, x), 1)))
UNARY(sinh, mul(b, g, of(b, OP_cosh, x)))
UNARY(cosh, mul(b, g, of(b, OP_sinh, x)))
UNARY(asinh, div(b, g, of(b, OP_sqrt, plus(b, square(b, x), 1))))
UNARY(acosh, div(b, g, of(b, OP_sqrt, plus(b, square(b, x), -1))))
UNARY(atanh, div(b, g, from(b, 1, square(b, x))))
UNARY(tanh, mul(b, g, from(b, 1, square(b, y))))
UNARY(erf, mul(b, g, times(b, of(b, OP_exp, neg(b, square(b, x))), 1.1283791670955126))) /* 2 / sqrt(pi) */
UNARY(sigmoid, mul(b, g, mul(b, y, from(b, 1, y))))
UNARY(relu, only(b, less(b, number(b, y, 0), y), g))
NO_GRADIENT(sign)
NO_GRADIENT(floor)
NO_GRADIENT(ceil)
NO_GRADIENT(round)
NO_GRADIENT(is_nan)
NO_GRADIENT(not )
NO_GRADIENT(bit_not)
NO_GRADIENT(bitcast)
NO_GRADIENT(random_at)

void gradient_cast(Backward *b, Op *op)
{
    backward_add(b, op->in[0], b_cast(b->g, backward_of(b, op->out[0]), op->in[0]->dtype));
}

/* ---- two operands: p, q; a formula is written down only where its operand wants a gradient ---- */
#define BINARY(name, of_p, of_q)                                                                                                   \
    void gradient_##name(Backward *b, Op *op)                                                                                      \
    {                                                                                                                              \
        Value *p = op->in[0], *q = op->in[1], *y = op->out[0], *g = backward_of(b, y);                                             \
        if (backward_wants(b, p)) backward_add(b, p, of_p);                                                                        \
        if (backward_wants(b, q)) backward_add(b, q, of_q);                                                                        \
    }
BINARY(add, g, g)
BINARY(sub, g, neg(b, g))
BINARY(div, div(b, g, q), neg(b, mul(b, g, div(b, y, q))))

void gradient_mul(Backward *b, Op *op)
{
    Value *p = op->in[0], *q = op->in[1], *g = backward_of(b, op->out[0]);
    if (p == q) { /* a square, as norms have it */
        backward_add(b, p, mul(b, times(b, g, 2), p));
        return;
    }
    if (backward_wants(b, p)) backward_add(b, p, mul(b, g, q));
    if (backward_wants(b, q)) backward_add(b, q, mul(b, g, p));
}

/* p^q by p is q * p^(q-1), and 0 where q is 0, even at p = 0. */
static Value *power_by_base(Backward *b, Value *p, Value *q, Value *y, Value *g)
{
    double k;
    if (!value_is_scalar_constant(q, &k))
        return except(b, is(b, q, 0), mul(b, g, mul(b, q, b_binary(b->g, OP_pow, p, plus(b, q, -1)))));
    if (k == 0) return zeros_like(b->g, p);
    if (k == 1) return g;
    if (k == 2) return mul(b, g, times(b, p, 2));
    if (k == 0.5) return except(b, is(b, y, 0), div(b, g, times(b, y, 2))); /* as sqrt */
    return mul(b, g, times(b, b_binary(b->g, OP_pow, p, number(b, q, k - 1)), k));
}

/* p^q by q is y * log p, and 0 where p is 0 and q >= 0: the limit, where the formula says 0 * -inf. */
static Value *power_by_exponent(Backward *b, Value *p, Value *q, Value *y, Value *g)
{
    Value *zero = b_binary(b->g, OP_and, is(b, p, 0), b_binary(b->g, OP_le, number(b, q, 0), q));
    return except(b, zero, mul(b, g, mul(b, y, of(b, OP_log, p))));
}
BINARY(pow, power_by_base(b, p, q, y, g), power_by_exponent(b, p, q, y, g))

/* p = y + q * whole: by q it is minus that whole number, whichever way the division was rounded. */
static Value *minus_quotient(Backward *b, Value *p, Value *q, Value *y, Value *g)
{
    return neg(b, mul(b, g, of(b, OP_round, div(b, sub(b, p, y), q))));
}
BINARY(mod, g, minus_quotient(b, p, q, y, g))
BINARY(rem, g, minus_quotient(b, p, q, y, g))

/* All of g where `wins`, half of it at a tie. */
static Value *share(Backward *b, Value *p, Value *q, Value *wins, Value *g)
{
    return where(b, b_binary(b->g, OP_eq, p, q), times(b, g, 0.5), only(b, wins, g));
}
BINARY(max, share(b, p, q, less(b, q, p), g), share(b, p, q, less(b, p, q), g))
BINARY(min, share(b, p, q, less(b, p, q), g), share(b, p, q, less(b, q, p), g))

NO_GRADIENT(eq)
NO_GRADIENT(lt)
NO_GRADIENT(le)
NO_GRADIENT(and)
NO_GRADIENT(or)
NO_GRADIENT(xor)
NO_GRADIENT(bit_and)
NO_GRADIENT(bit_or)
NO_GRADIENT(bit_xor)
NO_GRADIENT(shift_left)
NO_GRADIENT(shift_right)

void gradient_select(Backward *b, Op *op)
{
    Value *condition = op->in[0], *g = backward_of(b, op->out[0]);
    if (backward_wants(b, op->in[1])) backward_add(b, op->in[1], only(b, condition, g));
    if (backward_wants(b, op->in[2])) backward_add(b, op->in[2], except(b, condition, g));
}
