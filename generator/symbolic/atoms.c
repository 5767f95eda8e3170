/* Floor division, modulo, minimum and maximum: what simplifies does, the rest becomes an atom.
 *
 *     (6*x + 4*y + 5)//4     =  x + y + (2*x + 1)//4 + 1
 *                            =  x + y + (x//2) + 1              an integer divisor: pull out, divide by common factors
 *     (x//2)//3              =  x//6
 *     x % 4                  =  x - 4*(x//4)
 *     min(x + 1, 2*y + 1)    =  min(x, 2*y) + 1                 what all share goes out
 *
 * Uses facts (ranges, divisors) that hold when the expression is made. */
#include "symbolic/internal.h"
#include <stdlib.h>

int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t greatest_divisor(int64_t a, int64_t b)
{
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

int64_t content_of(const Symbols *s, const Expr *e, int64_t limit)
{
    int64_t content = 0;
    for (int i = 0; i < e->n && content != 1; i++) {
        const Mono *mono = e->term[i].mono;
        if (mono->degree == 0) continue;
        int64_t divides = e->term[i].coef;
        for (int k = 0; k < mono->degree && divides % limit != 0; k++) {
            const Atom *atom = mono->atom[k];
            int64_t divisor = atom->kind == ATOM_SYMBOL ? s->symbols.at[atom->symbol]->facts.divisor : 1;
            if (__builtin_mul_overflow(greatest_divisor(divides, limit), divisor, &divides)) divides = limit;
        }
        content = greatest_divisor(content, greatest_divisor(divides, limit));
    }
    return content;
}

/* ---- floor division by an integer ---- */

/* The only floor division that stands alone in e with coefficient 1 and may be merged with a division by c; NULL where none or
 * several. */
static const Atom *single_quotient(const Expr *e)
{
    const Atom *found = NULL;
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->term[i].mono->degree; k++) {
            const Atom *atom = e->term[i].mono->atom[k];
            if (atom->kind != ATOM_FLOORDIV) continue;
            if (found || e->term[i].mono->degree > 1 || e->term[i].coef != 1) return NULL;
            found = atom;
        }
    if (!found) return NULL;
    bool alone = e->n == 1 || (e->n == 2 && e->term[1].mono->degree == 0);
    return alone || expr_is_int(found->arg[1], NULL) ? found : NULL;
}

/* (a//b + m)//c = (a + b*m)//(b*c); NULL where it does not apply or a coefficient overflows. */
static Expr *merge_quotients(Symbols *s, Expr *e, int64_t c)
{
    const Atom *inner = single_quotient(e);
    if (!inner) return NULL;
    Expr *divisor = try_mul(s, inner->arg[1], expr_int(s, c));
    Expr *m = try_add(s, e, expr_of_term(s, -1, inner->alone->term[0].mono));
    Expr *scaled = m ? try_mul(s, m, inner->arg[1]) : NULL;
    Expr *dividend = scaled ? try_add(s, inner->arg[0], scaled) : NULL;
    return divisor && dividend ? expr_floordiv(s, dividend, divisor) : NULL;
}

/* e/g rounded down, where g divides all but the constant. */
static Expr *reduce(Symbols *s, const Expr *e, int64_t g)
{
    Term *term = malloc(sizeof *term * ((size_t)e->n + 1));
    if (!term) error_exit("out of memory");
    int n = 0;
    for (int i = 0; i < e->n; i++) {
        Term t = {floor_div(e->term[i].coef, g), e->term[i].mono};
        if (t.coef) term[n++] = t;
    }
    Expr *out = expr_of_terms(s, term, n);
    free(term);
    return out;
}

/* Coefficients modulo c in (-c/2, c/2], the constant in [0, c): what (e - that)/c leaves behind. */
static Expr *remainder_terms(Symbols *s, const Expr *e, int64_t c)
{
    Term *term = malloc(sizeof *term * ((size_t)e->n + 1));
    if (!term) error_exit("out of memory");
    int n = 0;
    for (int i = 0; i < e->n; i++) {
        Term t = {floor_mod(e->term[i].coef, c), e->term[i].mono};
        if (t.mono->degree && t.coef > c / 2) t.coef -= c;
        if (t.coef) term[n++] = t;
    }
    Expr *out = expr_of_terms(s, term, n);
    free(term);
    return out;
}

/* rest//c, where nothing can be pulled out any more. */
static Expr *quotient_atom(Symbols *s, Expr *rest, int64_t c)
{
    int64_t low, high, content = content_of(s, rest, c), constant = constant_of(rest);
    if (content > 1 && constant % content) rest = expr_add(s, rest, expr_int(s, -floor_mod(constant, content)));
    Expr *merged = merge_quotients(s, rest, c);
    if (merged) return merged;
    expr_bounds(s, rest, &low, &high);
    if (low > -BOUND_LIMIT && high < BOUND_LIMIT && floor_div(low, c) == floor_div(high, c)) return expr_int(s, floor_div(low, c));
    Expr *arg[] = {rest, expr_int(s, c)};
    return expr_of_atom(s, atom_intern(s, ATOM_FLOORDIV, 0, arg, 2));
}

static Expr *floordiv_int(Symbols *s, Expr *a, int64_t c)
{
    int64_t g = c;
    for (int i = 0; i < a->n; i++)
        if (a->term[i].mono->degree) g = greatest_divisor(g, a->term[i].coef);
    if (g > 1) {
        a = reduce(s, a, g);
        c /= g;
    }
    if (c == 1) return a;
    Expr *rest = remainder_terms(s, a, c);
    Expr *whole = try_add(s, a, expr_scale(s, rest, -1));
    if (!whole) bug("a coefficient overflows 64 bits in a floor division by %lld", (long long)c);
    whole = reduce(s, whole, c);
    if (expr_is_int(rest, NULL)) return whole;
    return expr_add(s, whole, quotient_atom(s, rest, c));
}

/* ---- floor division by an expression ---- */

/* a = q*b + rest, for b of one term: takes from a the terms that b divides. */
static Expr *pull_out(Symbols *s, Expr *a, const Expr *b, Expr **rest)
{
    Expr *whole = expr_int(s, 0);
    *rest = a;
    if (b->n != 1) return whole;
    for (int i = 0; i < a->n; i++) {
        Mono *mono = mono_over(s, a->term[i].mono, b->term[0].mono);
        if (!mono || a->term[i].coef % b->term[0].coef) continue;
        whole = expr_add(s, whole, expr_of_term(s, a->term[i].coef / b->term[0].coef, mono));
        *rest = expr_sub(s, *rest, expr_of_term(s, a->term[i].coef, a->term[i].mono));
    }
    return whole;
}

/* Divides both by what divides every term of both: (2*x*y)//(4*x*z) becomes y//(2*z). */
static void cancel_common(Symbols *s, Expr **a, Expr **b)
{
    int64_t g = 0;
    for (int i = 0; i < (*a)->n; i++) g = greatest_divisor(g, (*a)->term[i].coef);
    for (int i = 0; i < (*b)->n; i++) g = greatest_divisor(g, (*b)->term[i].coef);
    if (g > 1) {
        *a = reduce(s, *a, g);
        *b = reduce(s, *b, g);
    }
    for (int k = 0; k < (*b)->term[0].mono->degree;) {
        Expr *atom = expr_of_atom(s, (*b)->term[0].mono->atom[k++]);
        Expr *a_less = expr_divide_exactly(s, *a, atom), *b_less = expr_divide_exactly(s, *b, atom);
        if (!a_less || !b_less) continue;
        *a = a_less;
        *b = b_less;
        k = 0;
    }
}

/* The quotient where it is the same integer for all values: 0 for 0 <= a < b, -1 for -b <= a < 0. */
static Expr *constant_quotient(Symbols *s, Expr *a, Expr *b)
{
    int64_t low, high, b_low, b_high;
    expr_bounds(s, b, &b_low, &b_high);
    if (b_low < 0) return NULL; /* a divisor of 0 has no quotient, so b >= 0 is b > 0 */
    expr_bounds(s, a, &low, &high);
    if (low >= 0 && expr_compare(s, a, b) == ORDER_LESS) return expr_int(s, 0);
    if (high < 0 && expr_at_least(s, expr_add(s, a, b), expr_int(s, 0))) return expr_int(s, -1);
    return NULL;
}

static Expr *floordiv_expr(Symbols *s, Expr *a, Expr *b)
{
    if (b->term[0].coef < 0) {
        a = expr_scale(s, a, -1);
        b = expr_scale(s, b, -1);
    }
    Expr *exact = expr_divide_exactly(s, a, b);
    if (exact) return exact;
    Expr *rest, *whole = pull_out(s, a, b, &rest);
    cancel_common(s, &rest, &b);
    if (expr_is_int(b, NULL)) return expr_add(s, whole, expr_floordiv(s, rest, b));
    Expr *constant = constant_quotient(s, rest, b);
    if (constant) return expr_add(s, whole, constant);
    Expr *arg[] = {rest, b};
    return expr_add(s, whole, expr_of_atom(s, atom_intern(s, ATOM_FLOORDIV, 0, arg, 2)));
}

Expr *expr_floordiv(Symbols *s, Expr *a, Expr *b)
{
    a = expr_canonical(s, a);
    b = expr_canonical(s, b);
    int64_t c;
    bool is_int = expr_is_int(b, &c);
    if (is_int && c == 0) bug("floor division of %s by 0", expr_text(s->arena, a));
    if (a->n == 0 || (is_int && c == 1)) return a;
    Expr *known = recall(s, OPERATION_FLOORDIV, a, b);
    if (known) return known;
    Expr *out = !is_int ? floordiv_expr(s, a, b) : c > 0 ? floordiv_int(s, a, c) : floordiv_int(s, expr_scale(s, a, -1), -c);
    return remember(s, OPERATION_FLOORDIV, a, b, out);
}

Expr *expr_ceildiv(Symbols *s, Expr *a, Expr *b)
{
    /* ceil(a/b) = -floor(-a/b), for any sign of b; (a + b - 1)//b where b is surely positive, which reads better */
    int64_t low, high;
    expr_bounds(s, b, &low, &high);
    if (low >= 0) return expr_floordiv(s, expr_add(s, a, expr_sub(s, b, expr_int(s, 1))), b);
    return expr_scale(s, expr_floordiv(s, expr_scale(s, a, -1), b), -1);
}

Expr *expr_mod(Symbols *s, Expr *a, Expr *b)
{
    a = expr_canonical(s, a);
    b = expr_canonical(s, b);
    int64_t c;
    if (expr_is_int(b, &c)) {
        if (c == 0) bug("%s modulo 0", expr_text(s->arena, a));
        int64_t content = content_of(s, a, c < 0 ? -c : c);
        if (content % c == 0) return expr_int(s, floor_mod(constant_of(a), c));
        return expr_sub(s, a, expr_mul(s, b, expr_floordiv(s, a, b)));
    }
    if (expr_divide_exactly(s, a, b)) return expr_int(s, 0);
    Expr *rest;
    pull_out(s, a, b, &rest);
    Expr *constant = constant_quotient(s, rest, b);
    if (constant) return expr_sub(s, rest, expr_mul(s, constant, b));
    Expr *arg[] = {rest, b};
    return expr_of_atom(s, atom_intern(s, ATOM_MOD, 0, arg, 2));
}

/* ---- minimum and maximum ---- */

enum { MOST_ARGUMENTS = 16 };
typedef struct {
    Expr *arg[MOST_ARGUMENTS];
    int n;
    bool full; /* more arguments than room: give up flattening */
} Arguments;

/* The term k*min(…) of e that k > 0 lets e be distributed over (k < 0 and max likewise); -1 where there is none. */
static int distributable(const Expr *e, AtomKind kind)
{
    for (int i = 0; i < e->n; i++) {
        if (e->term[i].mono->degree != 1) continue;
        AtomKind is = e->term[i].mono->atom[0]->kind;
        if (is != ATOM_MIN && is != ATOM_MAX) continue;
        if ((is == kind) == (e->term[i].coef > 0)) return i;
    }
    return -1;
}

/* min(x + min(y, z), …) has the arguments x + y, x + z, … */
static void flatten(Symbols *s, Expr *e, AtomKind kind, Arguments *out)
{
    int at = distributable(e, kind);
    if (at < 0) {
        if (out->n == MOST_ARGUMENTS) out->full = true;
        if (!out->full) out->arg[out->n++] = e;
        return;
    }
    const Atom *atom = e->term[at].mono->atom[0];
    Expr *others = expr_sub(s, e, expr_of_term(s, e->term[at].coef, e->term[at].mono));
    for (int i = 0; i < atom->n && !out->full; i++) {
        Expr *branch = try_mul(s, atom->arg[i], expr_int(s, e->term[at].coef));
        branch = branch ? try_add(s, others, branch) : NULL;
        if (branch)
            flatten(s, branch, kind, out);
        else
            out->full = true;
    }
}

/* Drops every argument that another one makes needless. */
static void drop_needless(Symbols *s, AtomKind kind, Arguments *a)
{
    for (int i = 0; i < a->n; i++)
        for (int j = i + 1; j < a->n; j++) {
            Order order = expr_compare(s, a->arg[i], a->arg[j]);
            if (order == ORDER_UNDECIDED) continue;
            bool first_least = order <= ORDER_EQUAL;
            if (order == ORDER_EQUAL || first_least == (kind == ATOM_MIN)) {
                a->arg[j--] = a->arg[--a->n];
            } else {
                a->arg[i--] = a->arg[--a->n];
                break;
            }
        }
}

/* The terms that all arguments share, and the least of their constants. */
static Expr *shared_terms(Symbols *s, const Arguments *a)
{
    Expr *shared = expr_int(s, 0);
    for (int i = 0; i < a->arg[0]->n; i++) {
        Term t = a->arg[0]->term[i];
        if (t.mono->degree == 0) continue;
        bool in_all = true;
        for (int k = 1; k < a->n && in_all; k++) {
            in_all = false;
            for (int j = 0; j < a->arg[k]->n; j++) in_all |= a->arg[k]->term[j].mono == t.mono && a->arg[k]->term[j].coef == t.coef;
        }
        if (in_all) shared = expr_add(s, shared, expr_of_term(s, t.coef, t.mono));
    }
    int64_t least = constant_of(a->arg[0]);
    for (int k = 1; k < a->n; k++)
        if (constant_of(a->arg[k]) < least) least = constant_of(a->arg[k]);
    return expr_add(s, shared, expr_int(s, least));
}

static int by_id(const void *a, const void *b)
{
    return (*(Expr *const *)a)->id - (*(Expr *const *)b)->id;
}

static Expr *extremum_of(Symbols *s, AtomKind kind, Arguments *a)
{
    drop_needless(s, kind, a);
    if (a->n == 1) return a->arg[0];
    Expr *shared = shared_terms(s, a);
    int64_t common = 0;
    for (int k = 0; k < a->n; k++) {
        a->arg[k] = expr_sub(s, a->arg[k], shared);
        for (int i = 0; i < a->arg[k]->n; i++) common = greatest_divisor(common, a->arg[k]->term[i].coef);
    }
    for (int k = 0; k < a->n; k++) a->arg[k] = reduce(s, a->arg[k], common);
    qsort(a->arg, (size_t)a->n, sizeof a->arg[0], by_id);
    Expr *atom = expr_of_atom(s, atom_intern(s, kind, 0, a->arg, a->n));
    return expr_add(s, shared, expr_scale(s, atom, common));
}

static Expr *extremum(Symbols *s, AtomKind kind, Expr *x, Expr *y)
{
    x = expr_canonical(s, x);
    y = expr_canonical(s, y);
    if (x == y) return x;
    if (x->id > y->id) {
        Expr *swap = x;
        x = y;
        y = swap;
    }
    Operation operation = kind == ATOM_MIN ? OPERATION_MIN : OPERATION_MAX;
    Expr *known = recall(s, operation, x, y);
    if (known) return known;
    Arguments a = {.n = 0};
    flatten(s, x, kind, &a);
    flatten(s, y, kind, &a);
    if (a.full) a = (Arguments){.arg = {x, y}, .n = 2};
    return remember(s, operation, x, y, extremum_of(s, kind, &a));
}

Expr *expr_min(Symbols *s, Expr *a, Expr *b)
{
    return extremum(s, ATOM_MIN, a, b);
}

Expr *expr_max(Symbols *s, Expr *a, Expr *b)
{
    return extremum(s, ATOM_MAX, a, b);
}
