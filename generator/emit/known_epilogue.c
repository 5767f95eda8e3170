/* Which epilogues a library for CUDA knows as well: a bias, rectified, through GELU in its form with tanh, or a gradient through that.
 *
 * Exporters write GELU in many ways.  What an epilogue computes is therefore evaluated at some points and compared: among expressions of
 * sums, products, powers and tanh, all smooth, that agree there is no other that a model would hold.  The kernel stands in the program
 * too: it is taken where the library has nothing for the sizes at hand, and on the processor.
 * Needs: groups.  Breaks: nothing. */
#include "emit/known_epilogue.h"
#include "passes/fold.h"
#include <math.h>

typedef struct {
    const Group *group;
    Graph *scratch;
    const Value *bias, *x; /* operands besides the product: one element a column; of the product's shape; NULL */
    double c, b, u;        /* the element of the product, of the bias, of x */
    int left;              /* operations that may still be evaluated */
} Point;

/* ---- evaluating ---- */
static bool evaluate(Point *p, const Value *v, double *y);

static bool smooth_or_relu(OpKind kind)
{
    switch (kind) {
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div:
    case OP_neg:
    case OP_pow:
    case OP_tanh:
    case OP_relu: return true;
    default: return false;
    }
}

static bool evaluate_op(Point *p, const Op *op, double *y)
{
    Known in[2] = {{0}}, out = {.dtype = DTYPE_f64, .n = 1};
    double x[2];
    if (!smooth_or_relu(op->kind) || op->n_in > 2 || p->left-- <= 0) return false;
    for (int i = 0; i < op->n_in; i++) {
        if (!evaluate(p, op->in[i], &x[i])) return false;
        in[i] = (Known){.dtype = DTYPE_f64, .n = 1, .data = &x[i]};
    }
    if (!fold_compute(p->scratch, op, in, &out)) return false;
    *y = *(const double *)out.data;
    return true;
}

static bool evaluate(Point *p, const Value *v, double *y)
{
    if (value_is_scalar_constant(v, y)) return true;
    if (values_hold(&p->group->in, v)) {
        *y = v == p->group->product ? p->c : v == p->bias ? p->b : p->u;
        return v == p->group->product || v == p->bias || v == p->x;
    }
    if (!v->def) return false;
    if (v->def->kind == OP_broadcast || v->def->kind == OP_reshape) return evaluate(p, v->def->in[0], y);
    return evaluate_op(p, v->def, y);
}

/* ---- what it may be ---- */
static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
static double gelu_slope(double x)
{
    const double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x), t = tanh(inner);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

typedef struct {
    const char *name;
    double (*of)(double c, double b, double u);
    bool gradient; /* reads x */
} Form;
static double as_bias(double c, double b, double u)
{
    (void)u;
    return c + b;
}
static double as_relu(double c, double b, double u)
{
    (void)u;
    return c + b > 0 ? c + b : 0;
}
static double as_gelu(double c, double b, double u)
{
    (void)u;
    return gelu(c + b);
}
static double as_gelu_gradient(double c, double b, double u)
{
    (void)b;
    return c * gelu_slope(u);
}
static const Form forms[] = {
    {"BIAS", as_bias, false}, {"RELU", as_relu, false}, {"GELU", as_gelu, false}, {"GELU_GRADIENT", as_gelu_gradient, true}};

static bool agrees(Point *p, const Value *v, const Form *form)
{
    enum { OPERATIONS = 4000 };
    for (int i = 0; i < 25; i++) {
        double y;
        p->c = (i % 5 - 2) * 0.83 + 0.11, p->b = p->bias ? (i / 5 - 2) * 0.71 - 0.07 : 0, p->u = (i * 7 % 25 - 12) * 0.29;
        p->left = OPERATIONS;
        if (!evaluate(p, v, &y)) return false;
        const double want = form->of(p->c, p->b, p->u);
        if (!(fabs(y - want) <= 2e-6 * (1 + fabs(want)))) return false;
    }
    return true;
}

/* Columns of the product itself: the group may read a view of it, whose last axis is another. */
static Expr *columns(const Group *group)
{
    const Value *v = group->product;
    while (v->def && v->def->kind == OP_reshape) v = v->def->in[0];
    return v->shape[v->rank - 1];
}

/* Sorts the operands out; false where there are others than a library reads. */
static bool find_operands(Point *p, Symbols *s)
{
    const Value *c = p->group->product;
    for (int i = 0; i < p->group->in.n; i++) {
        const Value *v = p->group->in.at[i];
        if (v == c) continue;
        if (v->dtype != c->dtype) return false;
        const bool column = v->rank == 1 && expr_always_equal(s, v->shape[0], columns(p->group));
        const bool same = expr_always_equal(s, expr_product(s, v->shape, v->rank), expr_product(s, c->shape, c->rank));
        if (column && !p->bias)
            p->bias = v;
        else if (same && !p->x)
            p->x = v;
        else
            return false;
    }
    return true;
}

/* A bias stands for a column: its broadcasts keep it along the last axis.  One along another axis of the same size is none. */
static bool bias_is_of_columns(const Point *p)
{
    for (int u = 0; p->bias && u < p->group->ops.n; u++) {
        const Op *op = p->group->ops.at[u];
        if (op->n_in != 1 || op->in[0] != p->bias) continue;
        if (op->kind != OP_broadcast || op_ints(op, ATTR_axes, NULL)[0] != op->out[0]->rank - 1) return false;
    }
    return true;
}

bool known_epilogue(Arena *arena, Symbols *s, const Group *group, KnownEpilogue *known)
{
    if (group->kind != GROUP_LOOP || group->out.n > 2 || !dtype_is_float(group->product->dtype)) return false;
    Point p = {.group = group, .scratch = graph_new(arena, s, "epilogue")};
    Value *sum = NULL, *y = group->out.at[group->out.n - 1];
    if (y->dtype != group->product->dtype || !find_operands(&p, s) || !bias_is_of_columns(&p)) return false;
    for (int i = 0; i < group->out.n; i++) { /* of two results the sum may be what the function was taken of */
        if (group->out.n < 2 || sum || !agrees(&p, group->out.at[i], &forms[0])) continue;
        sum = group->out.at[i];
        y = group->out.at[1 - i];
    }
    if ((group->out.n > 1 && !sum) || y->dtype != group->product->dtype) return false;
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        const Form *form = &forms[f];
        if (form->gradient ? !p.x || p.bias || sum : p.x != NULL || (sum && f != 2) || (f == 0 && !p.bias)) continue;
        if (!agrees(&p, y, form)) continue;
        Value *x = form->gradient ? (Value *)p.x : sum;
        if (!values_hold(&group->out, group->place)) { /* the product itself is wanted too */
            if (f != 2 || p.bias || sum) return false;
            x = group->place;
        }
        *known = (KnownEpilogue){form->name, y, (Value *)p.bias, x};
        return true;
    }
    return false;
}
