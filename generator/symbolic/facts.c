/* Symbols and what is known of them: ranges, likely values, divisors, equalities.
 * Every new fact makes a new version, so that nothing concluded before is used again.  Facts should only grow narrower once
 * expressions were made: minimum, maximum and floor division simplify by what is known when they are made.  symbol_declare may
 * widen a range, so it is called before anything over the symbol is compared. */
#include "symbolic/internal.h"
#include <string.h>

static Expr *symbol_make(Symbols *s, const char *name, bool late)
{
    Symbol *symbol = NEW(s->arena, Symbol);
    symbol->facts = (SymbolFacts){.high = EXPR_UNBOUNDED, .divisor = 1, .late = late, .expected_high = EXPR_UNBOUNDED};
    vec_push(s->arena, &s->symbols, symbol);
    map_set(s->by_name, name, symbol);
    symbol->atom = atom_intern(s, ATOM_SYMBOL, s->symbols.n - 1, NULL, 0);
    symbol->atom->name = arena_copy(s->arena, name, strlen(name));
    return expr_of_atom(s, symbol->atom);
}

Expr *expr_symbol(Symbols *s, const char *name)
{
    const Symbol *known = map_get(s->by_name, name);
    return known ? known->atom->alone : symbol_make(s, name, false);
}

static const char *fresh_name(Symbols *s, const char *hint)
{
    if (!hint || !*hint) hint = "dim";
    const char *name = hint;
    for (int i = 1; map_has(s->by_name, name); i++) name = arena_text(s->arena, "%s_%d", hint, i);
    return name;
}

Expr *expr_fresh(Symbols *s, const char *hint)
{
    return symbol_make(s, fresh_name(s, hint), false);
}

Expr *expr_late(Symbols *s, const char *hint, Expr *upper)
{
    int64_t low, high;
    expr_bounds(s, upper, &low, &high);
    Expr *e = symbol_make(s, fresh_name(s, hint), true);
    SymbolFacts *facts = &s->symbols.at[symbol_index(e)]->facts;
    facts->upper = upper;
    facts->high = high < 0 ? 0 : high;
    return e;
}

const Symbol *symbol_of(const Symbols *s, const Expr *e)
{
    return s->symbols.at[symbol_index(e)];
}

const char *expr_symbol_name(const Expr *e)
{
    symbol_index(e); /* a fault where e is no symbol */
    return e->term[0].mono->atom[0]->name;
}

int symbols_count(const Symbols *s)
{
    return s->symbols.n;
}

Expr *symbols_at(const Symbols *s, int i)
{
    check(i >= 0 && i < s->symbols.n);
    return s->symbols.at[i]->atom->alone;
}

/* ---- facts ---- */

static void new_version(Symbols *s)
{
    s->version++;
}

/* What stands for the symbol, as long as that is one symbol; else the symbol itself. */
static Symbol *standing_for(const Symbols *s, const Expr *symbol)
{
    Symbol *of = s->symbols.at[symbol_index(symbol)];
    while (of->equals && expr_is_symbol(of->equals)) of = s->symbols.at[symbol_index(of->equals)];
    return of;
}

SymbolFacts symbol_facts(const Symbols *s, const Expr *symbol)
{
    const Symbol *of = standing_for(s, symbol);
    SymbolFacts facts = of->facts;
    int64_t value;
    if (of->equals && expr_is_int(of->equals, &value)) facts.low = facts.high = facts.likely = value;
    return facts;
}

void symbol_declare(Symbols *s, Expr *symbol, int64_t low, int64_t high, int64_t likely)
{
    check(0 <= low && low <= high);
    SymbolFacts *facts = &standing_for(s, symbol)->facts;
    facts->low = low;
    facts->high = high;
    facts->likely = likely;
    new_version(s);
}

void symbol_expect(Symbols *s, Expr *symbol, int64_t low, int64_t high, int64_t likely)
{
    check(0 <= low && low <= high);
    SymbolFacts *facts = &standing_for(s, symbol)->facts;
    facts->declared = true;
    facts->expected_low = low;
    facts->expected_high = high;
    facts->likely = likely;
}

bool symbol_narrow(Symbols *s, Expr *symbol, int64_t low, int64_t high)
{
    Symbol *of = standing_for(s, symbol);
    int64_t value;
    if (of->equals && expr_is_int(of->equals, &value)) return low <= value && value <= high;
    SymbolFacts *facts = &of->facts;
    if (low < facts->low) low = facts->low;
    if (high > facts->high) high = facts->high;
    if (floor_div(high, facts->divisor) * facts->divisor < low) return false; /* no multiple of the divisor in it */
    if (low == facts->low && high == facts->high) return true;
    facts->low = low;
    facts->high = high;
    new_version(s);
    return true;
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t out;
    if (__builtin_mul_overflow(a / greatest_divisor(a, b), b, &out))
        bug("a divisor overflows: %lld and %lld", (long long)a, (long long)b);
    return out;
}

void symbol_divisible(Symbols *s, Expr *symbol, int64_t divisor)
{
    check(divisor > 0);
    SymbolFacts *facts = &standing_for(s, symbol)->facts;
    if (facts->divisor % divisor == 0) return;
    facts->divisor = common_multiple(facts->divisor, divisor);
    new_version(s);
}

/* ---- equalities ---- */

static bool expr_holds(const Expr *e, int symbol);

static bool atom_holds(const Atom *atom, int symbol)
{
    if (atom->kind == ATOM_SYMBOL) return atom->symbol == symbol;
    for (int i = 0; i < atom->n; i++)
        if (expr_holds(atom->arg[i], symbol)) return true;
    return false;
}

static bool expr_holds(const Expr *e, int symbol)
{
    if (!(e->mask >> (symbol & 63) & 1)) return false;
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->term[i].mono->degree; k++)
            if (atom_holds(e->term[i].mono->atom[k], symbol)) return true;
    return false;
}

/* zero == 0 with what is surely not 0 divided away: 6*batch*seq - 3*batch*n becomes 2*seq - n where batch >= 1. */
static Expr *without_factors(Symbols *s, Expr *zero)
{
    int64_t common = 0;
    for (int i = 0; i < zero->n; i++) common = greatest_divisor(common, zero->term[i].coef);
    if (common > 1) zero = expr_divide_exactly(s, zero, expr_int(s, common));
    for (int k = 0; k < zero->term[0].mono->degree;) {
        Atom *atom = zero->term[0].mono->atom[k++];
        int64_t low, high;
        atom_bounds(s, atom, &low, &high);
        if (low < 1) continue;
        Expr *rest = expr_divide_exactly(s, zero, expr_of_atom(s, atom));
        if (!rest) continue;
        zero = rest;
        k = 0;
    }
    return zero;
}

/* How gladly the symbol is replaced: late ones first, then those the user did not declare, then the youngest. */
static int64_t eagerness(const Symbols *s, int symbol)
{
    const SymbolFacts *facts = &s->symbols.at[symbol]->facts;
    return ((int64_t)facts->late << 41) + ((int64_t)!facts->declared << 40) + symbol;
}

/* The term +-symbol of zero whose symbol is nowhere else in it; -1 where there is none. */
static int solvable_term(const Symbols *s, const Expr *zero)
{
    int best = -1;
    for (int i = 0; i < zero->n; i++) {
        const Term *t = &zero->term[i];
        if (t->mono->degree != 1 || t->mono->atom[0]->kind != ATOM_SYMBOL || (t->coef != 1 && t->coef != -1)) continue;
        int symbol = t->mono->atom[0]->symbol;
        bool elsewhere = false;
        for (int j = 0; j < zero->n; j++)
            for (int k = 0; j != i && k < zero->term[j].mono->degree; k++)
                elsewhere |= atom_holds(zero->term[j].mono->atom[k], symbol);
        if (elsewhere) continue;
        if (best < 0 || eagerness(s, symbol) > eagerness(s, zero->term[best].mono->atom[0]->symbol)) best = i;
    }
    return best;
}

/* e = k*y + c lies in low..high: what that says of y.  false when nothing is left. */
static bool narrow_linear(Symbols *s, Expr *e, int64_t low, int64_t high)
{
    const Term *t = &e->term[0];
    if (e->n == 0 || t->mono->degree != 1 || t->mono->atom[0]->kind != ATOM_SYMBOL) return true;
    if (e->n > 2 || (e->n == 2 && e->term[1].mono->degree > 0)) return true;
    int64_t c = constant_of(e), k = t->coef;
    if (__builtin_sub_overflow(low, c, &low) || __builtin_sub_overflow(high, c, &high)) return true;
    int64_t from = k > 0 ? -floor_div(-low, k) : -floor_div(-high, k), to = k > 0 ? floor_div(high, k) : floor_div(low, k);
    return symbol_narrow(s, t->mono->atom[0]->alone, from, to);
}

/* Passes what is known of a symbol on to the one that stands for it from now on. */
static void pass_on(Symbols *s, const SymbolFacts *from, Expr *to)
{
    if (!expr_is_symbol(to)) return;
    SymbolFacts *facts = &s->symbols.at[symbol_index(to)]->facts;
    facts->divisor = common_multiple(facts->divisor, from->divisor);
    if (from->declared && !facts->declared) {
        facts->declared = true;
        facts->expected_low = from->expected_low;
        facts->expected_high = from->expected_high;
    }
    if (!facts->likely) facts->likely = from->likely;
}

static bool replace_symbol(Symbols *s, int symbol, Expr *by)
{
    Symbol *of = s->symbols.at[symbol];
    int64_t low, high, value;
    expr_bounds(s, by, &low, &high);
    if (high < of->facts.low || low > of->facts.high) return false;
    if (expr_is_int(by, &value) && floor_mod(value, of->facts.divisor) != 0) return false;
    if (!narrow_linear(s, by, of->facts.low, of->facts.high)) return false;
    pass_on(s, &of->facts, by);
    of->equals = by;
    s->equated |= of->atom->mask;
    s->equated_version++;
    new_version(s);
    return true;
}

/* zero says what an atom is: 3*(a//b) - 12 makes a//b 4.  NULL where it does not. */
static Atom *pinned(const Expr *zero, int64_t *value)
{
    const Mono *mono = zero->n ? zero->term[0].mono : NULL;
    bool alone = mono && mono->degree == 1 && (zero->n == 1 || (zero->n == 2 && zero->term[1].mono->degree == 0));
    if (!alone || constant_of(zero) % zero->term[0].coef) return NULL;
    *value = -constant_of(zero) / zero->term[0].coef;
    return mono->atom[0];
}

/* e with the atom's value put in where the atom is a factor of a term. */
static Expr *with_value(Symbols *s, const Expr *e, Atom *atom, int64_t value)
{
    Expr *sum = expr_int(s, 0), *factor = expr_of_atom(s, atom);
    for (int i = 0; i < e->n; i++) {
        Expr *term = expr_of_term(s, e->term[i].coef, e->term[i].mono), *rest;
        while (!expr_is_int(term, NULL) && (rest = expr_divide_exactly(s, term, factor))) term = expr_scale(s, rest, value);
        sum = expr_add(s, sum, term);
    }
    return sum;
}

/* Keeps that zero is 0, and what follows from it with what other statements pin: n == 3*(a//b) and a//b == 4 make n 12. */
static void keep_zero(Symbols *s, Expr *zero)
{
    int before = s->zeros.n;
    int64_t value;
    Atom *atom = pinned(zero, &value);
    vec_push(s->arena, &s->zeros, zero);
    for (int i = 0; i < before; i++) {
        Expr *other = s->zeros.at[i], *follows;
        Atom *own = atom ? NULL : pinned(other, &value);
        if (!atom && !own) continue;
        follows = atom ? with_value(s, other, atom, value) : with_value(s, zero, own, value);
        if (follows != (atom ? other : zero) && !expr_is_int(follows, NULL)) vec_push(s->arena, &s->zeros, follows);
    }
    new_version(s);
}

int symbols_zeros(const Symbols *s, Expr *const **zeros)
{
    *zeros = s->zeros.at;
    return s->zeros.n;
}

bool symbols_equate(Symbols *s, Expr *a, Expr *b, bool *stated)
{
    bool unused;
    if (!stated) stated = &unused;
    *stated = false;
    if (expr_never_equal(s, a, b)) return false;
    if (expr_always_equal(s, a, b)) return true;
    Expr *zero = without_factors(s, expr_sub(s, a, b));
    if (expr_never_equal(s, zero, expr_int(s, 0))) return false;
    int term = solvable_term(s, zero);
    if (term >= 0) {
        Expr *symbol = zero->term[term].mono->atom[0]->alone;
        Expr *rest = expr_sub(s, zero, expr_scale(s, symbol, zero->term[term].coef));
        if (!replace_symbol(s, symbol_index(symbol), expr_scale(s, rest, -zero->term[term].coef))) return false;
    } else {
        keep_zero(s, zero);
    }
    *stated = true;
    return true;
}
