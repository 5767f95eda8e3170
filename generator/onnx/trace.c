/* Sizes that models compute in floats, Floor(Mul(Cast(height), 0.5)): followed back from a value to the expression it is, as a
 * fraction of an integer expression.  Exact where floats are: sizes below 2^24, halves, quarters, whole factors. */
#include "onnx/terms.h"
#include <math.h>

typedef struct Fraction {
    Expr *over; /* NULL: not known */
    int64_t under;
} Fraction;
static const Fraction unknown = {NULL, 1};

/* 0.75 = 3/4; only what a float holds exactly with a small power of two below. */
static Fraction fraction_of(Import *im, double d)
{
    for (int64_t under = 1; under <= 1024; under *= 2)
        if (d * (double)under == floor(d * (double)under) && fabs(d * (double)under) < 1e15)
            return (Fraction){number(im, (int64_t)(d * (double)under)), under};
    return unknown;
}

static Fraction reduced(Import *im, Expr *over, int64_t under)
{
    Expr *whole = expr_divide_exactly(im->symbols, over, number(im, under));
    return whole ? (Fraction){whole, 1} : (Fraction){over, under};
}

static Fraction combined(Import *im, OpKind kind, Fraction a, Fraction b)
{
    Symbols *s = im->symbols;
    int64_t known;
    if (!a.over || !b.over || a.under > 1 << 20 || b.under > 1 << 20) return unknown;
    Expr *ab = expr_mul(s, a.over, number(im, b.under)), *ba = expr_mul(s, b.over, number(im, a.under));
    switch (kind) {
    case OP_add: return reduced(im, expr_add(s, ab, ba), a.under * b.under);
    case OP_sub: return reduced(im, expr_sub(s, ab, ba), a.under * b.under);
    case OP_mul: return reduced(im, expr_mul(s, a.over, b.over), a.under * b.under);
    case OP_div: { /* by a plain number that is a power of two, or exactly */
        if (!expr_is_int(ba, &known) || known <= 0) {
            Expr *exact = expr_is(ba, 0) ? NULL : expr_divide_exactly(s, ab, ba);
            return exact ? (Fraction){exact, 1} : unknown;
        }
        if (known & (known - 1)) {
            Expr *exact = expr_divide_exactly(s, ab, ba);
            return exact ? (Fraction){exact, 1} : unknown;
        }
        return reduced(im, ab, known);
    }
    default: return unknown;
    }
}

static Fraction trace(Import *im, const Value *v, int64_t i);

/* The operand that element *i of a view or concat comes from, and which element of it; NULL where op is none of these. */
static Value *seen_through(Import *im, const Op *op, int64_t *i)
{
    int64_t n, start;
    switch (op->kind) {
    case OP_broadcast:
        if (!expr_is_int(value_count(im->graph, op->in[0]), &n) || n != 1) return NULL;
        *i = 0;
        return op->in[0];
    case OP_reshape: return op->in[0];
    case OP_slice:
        if (op->out[0]->rank != 1 || !expr_is_int(op_exprs(op, ATTR_start, NULL)[0], &start)) return NULL;
        *i = start + *i * op_ints(op, ATTR_step, NULL)[0];
        return op->in[0];
    case OP_concat:
        for (int p = 0; op->out[0]->rank == 1 && p < op->n_in && expr_is_int(op->in[p]->shape[0], &n); p++, *i -= n)
            if (*i < n) return op->in[p];
        return NULL;
    default: return NULL;
    }
}

static Fraction rounded(Import *im, OpKind kind, Fraction f)
{
    if (!f.over || f.under == 1) return f;
    Expr *under = number(im, f.under);
    if (kind == OP_floor) return (Fraction){expr_floordiv(im->symbols, f.over, under), 1};
    if (kind == OP_ceil) return (Fraction){expr_ceildiv(im->symbols, f.over, under), 1};
    return unknown;
}

/* Ceil(4 / 3) of plain numbers: the quotient of small ones is never rounded to a whole one that it is not. */
static Fraction rounded_quotient(Import *im, OpKind kind, const Op *division, int64_t i)
{
    const int64_t small = 1 << 20;
    int64_t p, q;
    Fraction a = trace(im, division->in[0], i), b = trace(im, division->in[1], i);
    if (!a.over || !b.over || a.under != 1 || b.under != 1) return unknown;
    if (!expr_is_int(a.over, &p) || !expr_is_int(b.over, &q) || q == 0) return unknown;
    if (p > small || p < -small || q > small || q < -small) return unknown;
    double ratio = (double)p / (double)q;
    return (Fraction){number(im, (int64_t)(kind == OP_floor ? floor(ratio) : ceil(ratio))), 1};
}

static Fraction trace_rounded(Import *im, const Op *op, int64_t i)
{
    const Op *from = op->in[0]->def;
    Fraction f = rounded(im, op->kind, trace(im, op->in[0], i));
    return f.over || !from || from->kind != OP_div ? f : rounded_quotient(im, op->kind, from, i);
}

/* Of a plain square number: how many patches stand in a row. */
static Fraction root(Import *im, Fraction f)
{
    int64_t n;
    if (!f.over || f.under != 1 || !expr_is_int(f.over, &n) || n < 0) return unknown;
    const int64_t r = (int64_t)llround(sqrt((double)n));
    return r * r == n ? (Fraction){number(im, r), 1} : unknown;
}

/* Element i of v, row-major. */
static Fraction trace(Import *im, const Value *v, int64_t i)
{
    const Op *op = v->def;
    double d;
    if (v->origin == FROM_WEIGHT && v->rank == 0 && v->tensor->data && v->dtype == DTYPE_f32)
        return fraction_of(im, *(const float *)v->tensor->data);
    if (!op) return unknown;
    switch (op->kind) {
    case OP_constant:
        return value_is_scalar_constant(v, &d) ? fraction_of(im, d)
               : v->dtype == DTYPE_i64         ? (Fraction){number(im, ((const int64_t *)op_attr(op, ATTR_data)->data)[i]), 1}
               : v->dtype == DTYPE_f32         ? fraction_of(im, ((const float *)op_attr(op, ATTR_data)->data)[i])
                                               : unknown;
    case OP_dims: return (Fraction){op_exprs(op, ATTR_content, NULL)[i], 1};
    case OP_cast:
        if (dtype_is_float(v->dtype) || !dtype_is_float(op->in[0]->dtype))
            return v->dtype == DTYPE_bool ? unknown : trace(im, op->in[0], i);
        return unknown;
    case OP_reshape:
    case OP_broadcast:
    case OP_concat:
    case OP_slice: {
        const Value *from = seen_through(im, op, &i);
        return from ? trace(im, from, i) : unknown;
    }
    case OP_floor:
    case OP_ceil: return trace_rounded(im, op, i);
    case OP_sqrt: return root(im, trace(im, op->in[0], i));
    case OP_relu: {
        Fraction f = trace(im, op->in[0], i);
        return f.over ? (Fraction){expr_max(im->symbols, f.over, number(im, 0)), f.under} : unknown;
    }
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div: {
        if (!dtype_is_float(v->dtype)) return unknown;
        Fraction a = trace(im, op->in[0], i);
        return a.over ? combined(im, op->kind, a, trace(im, op->in[1], i)) : unknown;
    }
    default: return unknown;
    }
}

Expr *element_expr(Import *im, const Term *t, int64_t i)
{
    if (t->content) return t->content[i];
    Fraction f = t->tensor && t->tensor->data && dtype_is_float(t->dtype) ? fraction_of(im, tensor_number(t->tensor, i))
                 : t->value                                               ? trace(im, t->value, i)
                                                                          : unknown;
    return f.under == 1 ? f.over : NULL;
}

Expr *scalar_expr(Import *im, const Term *t)
{
    return term_count(t) == 1 ? element_expr(im, t, 0) : NULL;
}

Value *element_value(Import *im, Term *t, int64_t i, int64_t *plus)
{
    Value *v = t->content ? NULL : term_value(im, t);
    int64_t one;
    double step;
    for (*plus = 0; v && v->def;) {
        const Op *op = v->def;
        Value *from = op->kind == OP_cast && !dtype_is_float(op->in[0]->dtype) ? op->in[0] : seen_through(im, op, &i);
        const bool adds = op->kind == OP_add, takes = op->kind == OP_sub;
        if (!from && (adds || takes) && value_is_scalar_constant(op->in[1], &step))
            from = op->in[0], *plus += (int64_t)(adds ? step : -step);
        else if (!from && adds && value_is_scalar_constant(op->in[0], &step))
            from = op->in[1], *plus += (int64_t)step;
        if (!from) break;
        v = from;
    }
    return v && expr_is_int(value_count(im->graph, v), &one) && one == 1 ? v : NULL;
}

bool element_number(Import *im, const Term *t, int64_t i, double *element)
{
    if (t->tensor && t->tensor->data) {
        *element = tensor_number(t->tensor, i);
        return true;
    }
    const Value *v = t->content ? NULL : t->value;
    while (v && v->def && v->def->kind != OP_constant)
        v = v->def->kind == OP_cast ? v->def->in[0] : seen_through(im, v->def, &i);
    const void *data = !v ? NULL : v->def ? op_attr(v->def, ATTR_data)->data : v->origin == FROM_WEIGHT ? v->tensor->data : NULL;
    if (!data || !dtype_is_float(v->dtype)) return false;
    *element = element_read(v->dtype, data, i);
    return true;
}

Term *whole_elements(Import *im, const Term *t, Dtype dtype)
{
    int64_t n = term_count(t);
    if (n < 0 || n > 64) return NULL;
    Expr **content = NEW_ARRAY(im->arena, Expr *, n + 1);
    for (int64_t i = 0; i < n; i++) {
        Fraction f = unknown;
        if (t->tensor && t->tensor->data) {
            double d = tensor_number(t->tensor, i);
            if (fabs(d) < 1e15) f = (Fraction){number(im, dtype == DTYPE_bool ? d != 0 : (int64_t)d), 1};
        } else if (t->value && dtype == DTYPE_bool) {
            int64_t known;
            f = trace(im, t->value, i);
            f = f.over && expr_is_int(f.over, &known) ? (Fraction){number(im, known != 0), 1} : unknown;
        } else if (t->value) {
            f = trace(im, t->value, i);
            if (f.over && f.under > 1) /* a Cast truncates: floor where it is certainly >= 0 */
                f = expr_at_least(im->symbols, f.over, number(im, 0)) ? rounded(im, OP_floor, f) : unknown;
        }
        content[i] = content_element(im, dtype, f.over);
        if (!content[i]) return NULL;
    }
    return term_of_content(im, dtype, t->rank, t->shape, content);
}
