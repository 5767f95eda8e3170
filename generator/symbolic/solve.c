/* Exact division, solving for a symbol, evaluation. */
#include "symbolic/internal.h"
#include <stdlib.h>

/* ---- exact division ---- */

/* Polynomial division by the leading term; NULL as soon as a term does not divide. */
static Expr *divide_polynomials(Symbols *s, Expr *a, Expr *b)
{
    enum { MOST_STEPS = 64 };
    Expr *quotient = expr_int(s, 0);
    for (int step = 0; a->n; step++) {
        Mono *mono = mono_over(s, a->term[0].mono, b->term[0].mono);
        if (!mono || a->term[0].coef % b->term[0].coef || step == MOST_STEPS) return NULL;
        Expr *part = expr_of_term(s, a->term[0].coef / b->term[0].coef, mono);
        Expr *taken = try_mul(s, part, b);
        taken = taken ? try_mul(s, taken, expr_int(s, -1)) : NULL;
        a = taken ? try_add(s, a, taken) : NULL;
        quotient = try_add(s, quotient, part);
        if (!a || !quotient) return NULL;
    }
    return quotient;
}

Expr *expr_divide_exactly(Symbols *s, Expr *a, Expr *b)
{
    a = expr_canonical(s, a);
    b = expr_canonical(s, b);
    if (b->n == 0) return NULL;
    if (a->n == 0 || expr_is(b, 1)) return a;
    Expr *quotient = divide_polynomials(s, a, b);
    int64_t c;
    if (quotient || !expr_is_int(b, &c)) return quotient;
    if (c < 0) return NULL;
    int64_t content = content_of(s, a, c); /* what is known of divisors: x//4 for x divisible by 4 */
    return content % c == 0 && constant_of(a) % c == 0 ? expr_floordiv(s, a, b) : NULL;
}

/* ---- solving ---- */

static bool expr_contains(const Expr *e, const Atom *atom)
{
    if ((e->mask & atom->mask) != atom->mask) return false;
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->term[i].mono->degree; k++) {
            const Atom *is = e->term[i].mono->atom[k];
            if (is == atom) return true;
            for (int j = 0; j < is->n; j++)
                if (expr_contains(is->arg[j], atom)) return true;
        }
    return false;
}

/* e = factor*symbol + rest, the symbol in neither; false where there is no such form. */
static bool split_linear(Symbols *s, Expr *e, Atom *symbol, Expr **factor, Expr **rest)
{
    *factor = *rest = expr_int(s, 0);
    Mono *alone = mono_of(s, &symbol, 1);
    for (int i = 0; i < e->n; i++) {
        Mono *over = mono_over(s, e->term[i].mono, alone);
        Expr **into = over ? factor : rest;
        *into = expr_add(s, *into, expr_of_term(s, e->term[i].coef, over ? over : e->term[i].mono));
    }
    return (*factor)->n > 0 && !expr_contains(*factor, symbol) && !expr_contains(*rest, symbol);
}

/* The lower the better: coefficient +-1, an integer, an expression. */
static int difficulty(const Expr *factor)
{
    int64_t k;
    return !expr_is_int(factor, &k) ? 3 : k == 1 || k == -1 ? 1 : 2;
}

Expr *expr_solve(Symbols *s, Expr *e, Expr *value, Expr **solution)
{
    e = expr_canonical(s, e);
    Expr *best = NULL, *best_factor = NULL, *best_rest = NULL;
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->term[i].mono->degree; k++) {
            Atom *atom = e->term[i].mono->atom[k];
            Expr *factor, *rest;
            if (atom->kind != ATOM_SYMBOL || !split_linear(s, e, atom, &factor, &rest)) continue;
            if (best && difficulty(factor) >= difficulty(best_factor)) continue;
            best = atom->alone;
            best_factor = factor;
            best_rest = rest;
        }
    if (best) *solution = expr_floordiv(s, expr_sub(s, value, best_rest), best_factor);
    return best;
}

/* ---- evaluation ---- */

static Evaluation atom_evaluate(const Atom *atom, const int64_t *values, int64_t *result)
{
    if (atom->kind == ATOM_SYMBOL) {
        *result = values[atom->symbol];
        return EVALUATED;
    }
    int64_t a, b;
    Evaluation how = evaluate(atom->arg[0], values, &a);
    for (int i = 1; how == EVALUATED && i < atom->n; i++) {
        how = evaluate(atom->arg[i], values, &b);
        if (how != EVALUATED) break;
        switch (atom->kind) {
        case ATOM_FLOORDIV:
        case ATOM_MOD:
            if (b == 0) return DIVIDED_BY_ZERO;
            if (b == -1 && a == INT64_MIN) return OVERFLOWED;
            a = atom->kind == ATOM_MOD ? floor_mod(a, b) : floor_div(a, b);
            break;
        case ATOM_MIN: a = b < a ? b : a; break;
        case ATOM_MAX: a = b > a ? b : a; break;
        case ATOM_SYMBOL: break;
        }
    }
    *result = a;
    return how;
}

Evaluation evaluate(const Expr *e, const int64_t *values, int64_t *result)
{
    int64_t sum = 0;
    for (int i = 0; i < e->n; i++) {
        int64_t product = e->term[i].coef, factor;
        for (int k = 0; k < e->term[i].mono->degree; k++) {
            Evaluation how = atom_evaluate(e->term[i].mono->atom[k], values, &factor);
            if (how != EVALUATED) return how;
            if (__builtin_mul_overflow(product, factor, &product)) return OVERFLOWED;
        }
        if (__builtin_add_overflow(sum, product, &sum)) return OVERFLOWED;
    }
    *result = sum;
    return EVALUATED;
}

bool expr_evaluate(const Symbols *s, const Expr *e, const int64_t *values, int64_t *result)
{
    (void)s;
    return evaluate(e, values, result) == EVALUATED;
}

/* ---- likely values ---- */

enum { MIDDLE_AT_MOST = 64 };

static int64_t likely_symbol(Symbols *s, const Symbol *symbol)
{
    if (symbol->equals) return expr_likely(s, symbol->equals);
    const SymbolFacts *facts = &symbol->facts;
    if (facts->likely) return facts->likely;
    int64_t low = facts->low, high = facts->upper ? expr_likely(s, facts->upper) : facts->high;
    if (high > facts->high) high = facts->high;
    if (facts->declared && facts->expected_low > low) low = facts->expected_low;
    if (facts->declared && facts->expected_high < high) high = facts->expected_high;
    if (high < low) high = low;
    int64_t middle = low + (high - low) / 2;
    if (middle > MIDDLE_AT_MOST && !facts->upper) middle = low > MIDDLE_AT_MOST ? low : MIDDLE_AT_MOST;
    middle -= middle % facts->divisor;
    while (middle < facts->low) middle += facts->divisor;
    return middle;
}

int64_t expr_likely(Symbols *s, Expr *e)
{
    if (e->likely_at == s->version) return e->likely;
    e->likely_at = s->version; /* a late symbol's upper bound may lead back here: it finds 0 */
    e->likely = 0;
    int n = s->symbols.n;
    int64_t *values = calloc((size_t)n + 1, sizeof *values);
    Expr **symbols = calloc((size_t)n + 1, sizeof *symbols);
    if (!values || !symbols) error_exit("out of memory");
    int used = expr_symbols(s, e, symbols, n);
    for (int i = 0; i < used; i++) values[symbol_index(symbols[i])] = likely_symbol(s, symbol_of(s, symbols[i]));
    int64_t low, high;
    expr_bounds(s, e, &low, &high);
    if (!expr_evaluate(s, e, values, &e->likely)) e->likely = high; /* divides by 0 or overflows there */
    free(values);
    free(symbols);
    return e->likely;
}
