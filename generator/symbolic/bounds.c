/* Bounds of expressions under the ranges of their symbols.
 * First term by term, which is exact where each symbol stands in one term; else search.c looks at how the terms hang together.
 * Bounds that reach +-2^62 mean: unbounded on that side, or beyond it. */
#include "symbolic/internal.h"

int64_t clamp_bound(Wide value)
{
    return value > BOUND_LIMIT ? BOUND_LIMIT : value < -BOUND_LIMIT ? -BOUND_LIMIT : (int64_t)value;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The least and greatest product of two ranges. */
static void product_bounds(int64_t a_low, int64_t a_high, int64_t b_low, int64_t b_high, int64_t *low, int64_t *high)
{
    int64_t corner[] = {clamp_bound((Wide)a_low * b_low), clamp_bound((Wide)a_low * b_high), clamp_bound((Wide)a_high * b_low),
                        clamp_bound((Wide)a_high * b_high)};
    *low = smaller(smaller(corner[0], corner[1]), smaller(corner[2], corner[3]));
    *high = larger(larger(corner[0], corner[1]), larger(corner[2], corner[3]));
}

static int64_t quotient_bound(int64_t a, int64_t b)
{
    return a >= BOUND_LIMIT || a <= -BOUND_LIMIT ? a : floor_div(a, b);
}

static void floordiv_bounds(Symbols *s, const Atom *atom, int64_t *low, int64_t *high)
{
    int64_t a_low, a_high, b_low, b_high;
    expr_bounds(s, atom->arg[0], &a_low, &a_high);
    expr_bounds(s, atom->arg[1], &b_low, &b_high);
    if (b_low >= 0) {
        if (b_low == 0) b_low = 1; /* there is no quotient by 0 */
        if (b_high < b_low) b_high = b_low;
        *low = smaller(quotient_bound(a_low, b_low), a_low < 0 ? quotient_bound(a_low, b_low) : floor_div(a_low, b_high));
        *high = a_high < 0 ? quotient_bound(a_high, b_high) : quotient_bound(a_high, b_low);
    } else { /* |a//b| <= |a|, whatever the sign of b */
        *high = larger(larger(a_high, -a_low), 1);
        *low = -*high;
    }
}

/* For an integer divisor the remainder also steps: (6*x + 1) % 4 is 1 or 3. */
static void mod_bounds(Symbols *s, const Atom *atom, int64_t *low, int64_t *high)
{
    int64_t a_low, a_high, b_low, b_high, c;
    if (expr_is_int(atom->arg[1], &c)) {
        int64_t step = greatest_divisor(content_of(s, atom->arg[0], c), c), start = floor_mod(constant_of(atom->arg[0]), step);
        *low = start;
        *high = c - step + start;
        return;
    }
    expr_bounds(s, atom->arg[0], &a_low, &a_high);
    expr_bounds(s, atom->arg[1], &b_low, &b_high);
    *low = b_low < 0 ? clamp_bound((Wide)b_low + 1) : 0;
    *high = b_high > 0 ? b_high - (b_high < BOUND_LIMIT) : 0;
    if (a_low >= 0 && b_low >= 0) *high = smaller(*high, a_high);
}

static void extremum_bounds(Symbols *s, const Atom *atom, int64_t *low, int64_t *high)
{
    expr_bounds(s, atom->arg[0], low, high);
    for (int i = 1; i < atom->n; i++) {
        int64_t arg_low, arg_high;
        expr_bounds(s, atom->arg[i], &arg_low, &arg_high);
        *low = atom->kind == ATOM_MIN ? smaller(*low, arg_low) : larger(*low, arg_low);
        *high = atom->kind == ATOM_MIN ? smaller(*high, arg_high) : larger(*high, arg_high);
    }
}

static void symbol_bounds(Symbols *s, const Atom *atom, int64_t *low, int64_t *high)
{
    const SymbolFacts *facts = &s->symbols.at[atom->symbol]->facts;
    *low = -floor_div(-facts->low, facts->divisor) * facts->divisor;
    *high = floor_div(facts->high, facts->divisor) * facts->divisor;
    if (*low > *high) { /* no multiple of the divisor in the range: nothing to conclude */
        *low = facts->low;
        *high = facts->high;
    }
}

void atom_bounds(Symbols *s, Atom *atom, int64_t *low, int64_t *high)
{
    if (atom->bounds_at != s->version) {
        switch (atom->kind) {
        case ATOM_SYMBOL: symbol_bounds(s, atom, &atom->low, &atom->high); break;
        case ATOM_FLOORDIV: floordiv_bounds(s, atom, &atom->low, &atom->high); break;
        case ATOM_MOD: mod_bounds(s, atom, &atom->low, &atom->high); break;
        case ATOM_MIN:
        case ATOM_MAX: extremum_bounds(s, atom, &atom->low, &atom->high); break;
        }
        atom->bounds_at = s->version;
    }
    *low = atom->low;
    *high = atom->high;
}

void mono_bounds(Symbols *s, Mono *mono, int64_t *low, int64_t *high)
{
    if (mono->bounds_at != s->version) {
        mono->low = mono->high = 1;
        for (int k = 0; k < mono->degree;) {
            int64_t a_low, a_high;
            int power = 1;
            while (k + power < mono->degree && mono->atom[k + power] == mono->atom[k]) power++;
            atom_bounds(s, mono->atom[k], &a_low, &a_high);
            for (int i = 0; i < power; i++) product_bounds(mono->low, mono->high, a_low, a_high, &mono->low, &mono->high);
            k += power;
            if (power == mono->degree && power % 2 == 0) mono->low = larger(mono->low, 0); /* an even power */
        }
        mono->bounds_at = s->version;
    }
    *low = mono->low;
    *high = mono->high;
}

void interval_bounds(Symbols *s, const Expr *e, int64_t *low, int64_t *high)
{
    Wide sum_low = 0, sum_high = 0;
    bool low_open = false, high_open = false;
    for (int i = 0; i < e->n; i++) {
        int64_t from, to;
        mono_bounds(s, e->term[i].mono, &from, &to);
        int64_t coef = e->term[i].coef;
        Wide least = (Wide)coef * (coef > 0 ? from : to), most = (Wide)coef * (coef > 0 ? to : from);
        low_open |= coef > 0 ? from <= -BOUND_LIMIT : to >= BOUND_LIMIT;
        high_open |= coef > 0 ? to >= BOUND_LIMIT : from <= -BOUND_LIMIT;
        sum_low += clamp_bound(least); /* a product beyond the limit in the harmless direction may be cut: still a bound */
        sum_high += clamp_bound(most);
        low_open |= least < -BOUND_LIMIT;
        high_open |= most > BOUND_LIMIT;
    }
    *low = low_open ? -BOUND_LIMIT : clamp_bound(sum_low);
    *high = high_open ? BOUND_LIMIT : clamp_bound(sum_high);
}

/* No symbol in two places, no atom but symbols: then the bounds term by term are met. */
static bool terms_are_independent(const Expr *e)
{
    uint64_t seen = 0;
    for (int i = 0; i < e->n; i++) {
        const Mono *mono = e->term[i].mono;
        if (!mono->only_symbols || (mono->mask & seen)) return false;
        seen |= mono->mask;
        if (mono->late) return false; /* bounded by an expression */
    }
    return true;
}

/* e is constant modulo its content: bounds go inwards to the next such value.  2*x + 1 >= 0 means 2*x + 1 >= 1. */
static void round_inwards(const Symbols *s, const Expr *e, int64_t *low, int64_t *high)
{
    int64_t content = content_of(s, e, (int64_t)1 << 40);
    if (content <= 1) return;
    int64_t start = floor_mod(constant_of(e), content);
    if (*low > -BOUND_LIMIT) *low = clamp_bound((Wide)*low + floor_mod(start - floor_mod(*low, content), content));
    if (*high < BOUND_LIMIT) *high = clamp_bound((Wide)*high - floor_mod(floor_mod(*high, content) - start, content));
}

/* e = k*zero + constant for something that was stated to be 0. */
static bool known_constant(Symbols *s, Expr *e, int64_t *value)
{
    for (int i = 0; i < s->zeros.n; i++) {
        Expr *zero = expr_canonical(s, s->zeros.at[i]);
        if (zero->n == 0 || e->term[0].mono != zero->term[0].mono || e->term[0].coef % zero->term[0].coef) continue;
        Expr *multiple = try_mul(s, zero, expr_int(s, -(e->term[0].coef / zero->term[0].coef)));
        Expr *rest = multiple ? try_add(s, e, multiple) : NULL;
        if (rest && expr_is_int(rest, value)) return true;
    }
    return false;
}

/* e is a multiple of something that was stated to be 0: batch*(3*(n//3) - n). */
static bool known_zero(Symbols *s, Expr *e)
{
    int64_t value;
    Expr *rest = e;
    for (int k = 0; rest->n && k < rest->term[0].mono->degree;) {
        Expr *quotient = expr_divide_exactly(s, rest, expr_of_atom(s, rest->term[0].mono->atom[k]));
        k = quotient ? 0 : k + 1;
        if (quotient) rest = quotient;
    }
    return rest != e && rest->n && known_constant(s, rest, &value) && value == 0;
}

void expr_bounds(Symbols *s, Expr *e, int64_t *low, int64_t *high)
{
    e = expr_canonical(s, e);
    if (e->busy) { /* a late symbol's upper bound that, by an equality, leads back to the symbol */
        *low = -BOUND_LIMIT;
        *high = BOUND_LIMIT;
        return;
    }
    if (e->bounds_at != s->version) {
        int64_t value;
        e->busy = true;
        interval_bounds(s, e, low, high);
        if (!terms_are_independent(e)) {
            *low = larger(*low, search_lower(s, e, false));
            *high = smaller(*high, clamp_bound(-(Wide)search_lower(s, e, true)));
        }
        round_inwards(s, e, low, high);
        if (e->n && known_constant(s, e, &value)) *low = *high = value;
        if (s->zeros.n && e->n && *low < *high && known_zero(s, e)) *low = *high = 0;
        e->low = *low;
        e->high = *high;
        e->bounds_at = s->version;
        e->busy = false;
    }
    *low = e->low;
    *high = e->high;
}
