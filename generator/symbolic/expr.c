/* Symbolic expressions: interning, sums, products, and what can be read off an expression.
 * Needs nothing of the facts except which symbols are equated.  Breaks nothing: expressions never change once made. */
#include "symbolic/internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- tables ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static void table_make(Arena *arena, Table *table, uint32_t room)
{
    table->room = room;
    table->slot = NEW_ARRAY(arena, void *, room);
}

static void table_add(Arena *arena, Table *table, void *item)
{
    if (table->n * 2 >= table->room) {
        Table old = *table;
        table_make(arena, table, old.room * 2);
        for (uint32_t k = 0; k < old.room; k++) {
            if (!old.slot[k]) continue;
            uint32_t i = (uint32_t) * (uint64_t *)old.slot[k] & (table->room - 1);
            while (table->slot[i]) i = (i + 1) & (table->room - 1);
            table->slot[i] = old.slot[k];
        }
    }
    uint32_t i = (uint32_t) * (uint64_t *)item & (table->room - 1);
    while (table->slot[i]) i = (i + 1) & (table->room - 1);
    table->slot[i] = item;
    table->n++;
}

/* for (each item of that hash) */
#define EACH_CANDIDATE(table, wanted, T, item)                                                                                     \
    uint32_t slot_ = (uint32_t)(wanted) & ((table)->room - 1);                                                                     \
    for (T * item; (item = (table)->slot[slot_]); slot_ = (slot_ + 1) & ((table)->room - 1))                                       \
        if (item->hash == (wanted))

Symbols *symbols_new(Arena *arena)
{
    Symbols *s = NEW(arena, Symbols);
    s->arena = arena;
    s->version = s->equated_version = 1;
    s->by_name = map_new(arena);
    table_make(arena, &s->exprs, 256);
    table_make(arena, &s->monos, 128);
    table_make(arena, &s->atoms, 64);
    s->n_remembered = 256;
    s->remembered = NEW_ARRAY(arena, Remembered, s->n_remembered);
    s->one = mono_of(s, NULL, 0);
    return s;
}

/* ---- interning ---- */

Atom *atom_intern(Symbols *s, AtomKind kind, int symbol, Expr *const *arg, int n)
{
    uint64_t hash = mix((uint64_t)kind + 1, (uint64_t)symbol);
    for (int i = 0; i < n; i++) hash = mix(hash, (uint64_t)arg[i]->id);
    EACH_CANDIDATE(&s->atoms, hash, Atom, item)
    {
        bool same = item->kind == kind && item->symbol == symbol && item->n == n;
        for (int i = 0; same && i < n; i++) same = item->arg[i] == arg[i];
        if (same) return item;
    }
    Atom *atom = NEW(s->arena, Atom);
    *atom = (Atom){.hash = hash, .kind = kind, .id = (int)s->atoms.n, .symbol = symbol, .n = n};
    if (n) atom->arg = NEW_ARRAY(s->arena, Expr *, n);
    for (int i = 0; i < n; i++) {
        atom->arg[i] = arg[i];
        atom->mask |= arg[i]->mask;
        atom->late |= arg[i]->late;
    }
    if (kind == ATOM_SYMBOL) {
        atom->mask = (uint64_t)1 << (symbol & 63);
        atom->late = s->symbols.at[symbol]->facts.late;
    }
    table_add(s->arena, &s->atoms, atom);
    return atom;
}

Mono *mono_of(Symbols *s, Atom *const *atom, int degree)
{
    uint64_t hash = mix(7, (uint64_t)degree);
    for (int i = 0; i < degree; i++) hash = mix(hash, (uint64_t)atom[i]->id);
    EACH_CANDIDATE(&s->monos, hash, Mono, item)
    {
        if (item->degree == degree && (degree == 0 || memcmp(item->atom, atom, sizeof *atom * (size_t)degree) == 0)) return item;
    }
    Mono *mono = arena_alloc(s->arena, sizeof *mono + sizeof *atom * (size_t)degree);
    mono->hash = hash;
    mono->id = (int)s->monos.n;
    mono->degree = degree;
    mono->only_symbols = true;
    for (int i = 0; i < degree; i++) {
        mono->atom[i] = atom[i];
        mono->mask |= atom[i]->mask;
        mono->late |= atom[i]->late;
        mono->only_symbols &= atom[i]->kind == ATOM_SYMBOL;
    }
    table_add(s->arena, &s->monos, mono);
    return mono;
}

Expr *expr_of_terms(Symbols *s, const Term *term, int n)
{
    uint64_t hash = mix(11, (uint64_t)n);
    for (int i = 0; i < n; i++) hash = mix(mix(hash, (uint64_t)term[i].coef), (uint64_t)term[i].mono->id);
    EACH_CANDIDATE(&s->exprs, hash, Expr, item)
    {
        bool same = item->n == n;
        for (int i = 0; same && i < n; i++) same = item->term[i].coef == term[i].coef && item->term[i].mono == term[i].mono;
        if (same) return item;
    }
    Expr *e = arena_alloc(s->arena, sizeof *e + sizeof *term * (size_t)n);
    e->hash = hash;
    e->id = (int)s->exprs.n;
    e->n = n;
    for (int i = 0; i < n; i++) {
        e->term[i] = term[i];
        e->mask |= term[i].mono->mask;
        e->late |= term[i].mono->late;
    }
    table_add(s->arena, &s->exprs, e);
    return e;
}

Expr *expr_of_term(Symbols *s, int64_t coef, Mono *mono)
{
    return expr_of_terms(s, &(Term){coef, mono}, coef != 0);
}

Expr *expr_of_atom(Symbols *s, Atom *atom)
{
    if (!atom->alone) atom->alone = expr_of_term(s, 1, mono_of(s, &atom, 1));
    return atom->alone;
}

Expr *expr_int(Symbols *s, int64_t value)
{
    if (value < SMALL_LOW || value > SMALL_HIGH) return expr_of_term(s, value, s->one);
    Expr **small = &s->small[value - SMALL_LOW];
    if (!*small) *small = expr_of_term(s, value, s->one);
    return *small;
}

/* ---- monomials ---- */

enum { LARGEST_DEGREE = 64 };

Mono *mono_times(Symbols *s, const Mono *a, const Mono *b)
{
    if (a->degree == 0) return (Mono *)b;
    if (b->degree == 0) return (Mono *)a;
    Atom *atom[LARGEST_DEGREE];
    int degree = a->degree + b->degree, i = 0, j = 0;
    if (degree > LARGEST_DEGREE) bug("a symbolic product of more than %d factors", LARGEST_DEGREE);
    for (int k = 0; k < degree; k++) {
        bool left = j == b->degree || (i < a->degree && a->atom[i]->id <= b->atom[j]->id);
        atom[k] = left ? a->atom[i++] : b->atom[j++];
    }
    return mono_of(s, atom, degree);
}

Mono *mono_over(Symbols *s, const Mono *a, const Mono *b)
{
    if (b->degree == 0) return (Mono *)a;
    if (b->degree > a->degree || (b->mask & ~a->mask)) return NULL;
    Atom *atom[LARGEST_DEGREE];
    int n = 0, j = 0;
    for (int i = 0; i < a->degree; i++) {
        if (j < b->degree && a->atom[i] == b->atom[j])
            j++;
        else
            atom[n++] = a->atom[i];
    }
    return j == b->degree ? mono_of(s, atom, n) : NULL;
}

/* Higher degree first, then by the atoms: an order that products keep, as polynomial division needs. */
int mono_order(const Mono *a, const Mono *b)
{
    if (a == b) return 0;
    if (a->degree != b->degree) return b->degree - a->degree;
    for (int i = 0; i < a->degree; i++)
        if (a->atom[i] != b->atom[i]) return a->atom[i]->id - b->atom[i]->id;
    return 0;
}

/* ---- results of operations, remembered ---- */

static Remembered *remembered_at(Symbols *s, Operation operation, const Expr *a, const Expr *b)
{
    uint64_t hash = mix(mix((uint64_t)operation, (uint64_t)a->id), (uint64_t)b->id);
    return &s->remembered[hash & (s->n_remembered - 1)];
}

Expr *recall(Symbols *s, Operation operation, Expr *a, Expr *b)
{
    const Remembered *r = remembered_at(s, operation, a, b);
    return r->a == a && r->b == b && r->operation == operation && r->version == s->version ? r->out : NULL;
}

Expr *remember(Symbols *s, Operation operation, Expr *a, Expr *b, Expr *out)
{
    enum { MOST_REMEMBERED = 1 << 17 };
    if (s->exprs.n > s->n_remembered && s->n_remembered < MOST_REMEMBERED) {
        s->n_remembered *= 8;
        s->remembered = NEW_ARRAY(s->arena, Remembered, s->n_remembered);
    }
    *remembered_at(s, operation, a, b) = (Remembered){a, b, out, s->version, operation};
    return out;
}

/* ---- sums and products ---- */

static Term *scratch(Symbols *s, int n)
{
    while (s->scratch.room < n) s->scratch.at = vec_grow(s->arena, s->scratch.at, &s->scratch.room, sizeof(Term));
    return s->scratch.at;
}

Expr *try_add(Symbols *s, Expr *a, Expr *b)
{
    a = expr_canonical(s, a);
    b = expr_canonical(s, b);
    if (a->n == 0) return b;
    if (b->n == 0) return a;
    if (a->id > b->id) {
        Expr *swap = a;
        a = b;
        b = swap;
    }
    Expr *known = recall(s, OPERATION_ADD, a, b);
    if (known) return known;
    Term *out = scratch(s, a->n + b->n);
    int n = 0, i = 0, j = 0;
    while (i < a->n || j < b->n) {
        int order = i == a->n ? 1 : j == b->n ? -1 : mono_order(a->term[i].mono, b->term[j].mono);
        if (order < 0) {
            out[n++] = a->term[i++];
        } else if (order > 0) {
            out[n++] = b->term[j++];
        } else {
            Term sum = {0, a->term[i].mono};
            if (__builtin_add_overflow(a->term[i++].coef, b->term[j++].coef, &sum.coef)) return NULL;
            if (sum.coef) out[n++] = sum;
        }
    }
    return remember(s, OPERATION_ADD, a, b, expr_of_terms(s, out, n));
}

static int term_order(const void *a, const void *b)
{
    return mono_order(((const Term *)a)->mono, ((const Term *)b)->mono);
}

static Expr *multiply(Symbols *s, const Expr *a, const Expr *b)
{
    Term *out = scratch(s, a->n * b->n);
    int n = 0;
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < b->n; j++) {
            if (__builtin_mul_overflow(a->term[i].coef, b->term[j].coef, &out[n].coef)) return NULL;
            out[n++].mono = mono_times(s, a->term[i].mono, b->term[j].mono);
        }
    if (a->n > 1 && b->n > 1) qsort(out, (size_t)n, sizeof *out, term_order);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (kept && out[kept - 1].mono == out[i].mono) {
            if (__builtin_add_overflow(out[kept - 1].coef, out[i].coef, &out[kept - 1].coef)) return NULL;
        } else {
            if (kept && out[kept - 1].coef == 0) kept--;
            out[kept++] = out[i];
        }
    }
    if (kept && out[kept - 1].coef == 0) kept--;
    return expr_of_terms(s, out, kept);
}

Expr *try_mul(Symbols *s, Expr *a, Expr *b)
{
    a = expr_canonical(s, a);
    b = expr_canonical(s, b);
    if (expr_is(a, 1) || b->n == 0) return b;
    if (expr_is(b, 1) || a->n == 0) return a;
    if (a->id > b->id) {
        Expr *swap = a;
        a = b;
        b = swap;
    }
    Expr *known = recall(s, OPERATION_MUL, a, b);
    if (known) return known;
    Expr *product = multiply(s, a, b);
    return product ? remember(s, OPERATION_MUL, a, b, product) : NULL;
}

static Expr *fits(Symbols *s, Expr *e, const char *what, const Expr *a, const Expr *b)
{
    if (e) return e;
    error_exit(
        "sizes of the model pass 64 bits: the %s of %s and %s; no memory holds such tensors: look for the numbers in the model",
        what, expr_text(s->arena, a), expr_text(s->arena, b));
}

Expr *expr_add(Symbols *s, Expr *a, Expr *b)
{
    return fits(s, try_add(s, a, b), "sum", a, b);
}

Expr *expr_mul(Symbols *s, Expr *a, Expr *b)
{
    return fits(s, try_mul(s, a, b), "product", a, b);
}

Expr *expr_scale(Symbols *s, Expr *e, int64_t by)
{
    return expr_mul(s, e, expr_int(s, by));
}

Expr *expr_sub(Symbols *s, Expr *a, Expr *b)
{
    if (b->n == 0) return expr_canonical(s, a);
    return expr_add(s, a, expr_scale(s, b, -1));
}

Expr *expr_product(Symbols *s, Expr *const *e, int n)
{
    Expr *out = expr_int(s, 1);
    for (int i = 0; i < n; i++) out = expr_mul(s, out, e[i]);
    return out;
}

/* ---- rewriting ---- */

static Expr *atom_operation(Symbols *s, AtomKind kind, Expr *const *arg, int n)
{
    if (kind == ATOM_FLOORDIV) return expr_floordiv(s, arg[0], arg[1]);
    if (kind == ATOM_MOD) return expr_mod(s, arg[0], arg[1]);
    Expr *out = arg[0];
    for (int i = 1; i < n; i++) out = kind == ATOM_MIN ? expr_min(s, out, arg[i]) : expr_max(s, out, arg[i]);
    return out;
}

typedef struct {
    uint64_t mask;
    Expr *(*image)(Symbols *s, const Atom *symbol, void *context);
    void *context;
} Rewrite;

static Expr *rewrite(Symbols *s, Expr *e, const Rewrite *by);

static Expr *rewrite_atom(Symbols *s, Atom *atom, const Rewrite *by)
{
    if (!(atom->mask & by->mask)) return expr_of_atom(s, atom);
    if (atom->kind == ATOM_SYMBOL) return by->image(s, atom, by->context);
    Expr **arg = NEW_ARRAY(s->arena, Expr *, atom->n);
    bool changed = false;
    for (int i = 0; i < atom->n; i++) {
        arg[i] = rewrite(s, atom->arg[i], by);
        changed |= arg[i] != atom->arg[i];
    }
    bool divides = atom->kind == ATOM_FLOORDIV || atom->kind == ATOM_MOD;
    if (divides && expr_is(arg[1], 0)) return expr_of_atom(s, atom); /* has no value there, and evaluation says so */
    return changed ? atom_operation(s, atom->kind, arg, atom->n) : expr_of_atom(s, atom);
}

static Expr *rewrite(Symbols *s, Expr *e, const Rewrite *by)
{
    if (!(e->mask & by->mask)) return e;
    Expr *out = expr_int(s, 0);
    for (int i = 0; i < e->n; i++) {
        const Term *t = &e->term[i];
        Expr *product = expr_int(s, t->coef);
        if (!(t->mono->mask & by->mask)) {
            product = expr_of_term(s, t->coef, t->mono);
        } else {
            for (int k = 0; k < t->mono->degree; k++) product = expr_mul(s, product, rewrite_atom(s, t->mono->atom[k], by));
        }
        out = expr_add(s, out, product);
    }
    return out;
}

Expr *expr_rebuild(Symbols *s, Expr *e, uint64_t mask, Expr *(*image)(Symbols *s, const Atom *symbol, void *context), void *context)
{
    return rewrite(s, e, &(Rewrite){mask, image, context});
}

typedef struct {
    int symbol;
    Expr *by;
} Substitution;

static Expr *substituted(Symbols *s, const Atom *symbol, void *context)
{
    const Substitution *want = context;
    return symbol->symbol == want->symbol ? want->by : s->symbols.at[symbol->symbol]->atom->alone;
}

Expr *expr_substitute(Symbols *s, Expr *e, Expr *symbol, Expr *by)
{
    Substitution want = {symbol_index(symbol), by};
    return expr_rebuild(s, e, symbol->mask, substituted, &want);
}

Expr *expr_without(Symbols *s, Expr *e, Expr *quotient)
{
    if (quotient->n != 1 || quotient->term[0].mono->degree != 1 || quotient->term[0].coef != 1) return e;
    Term *kept = NEW_ARRAY(s->arena, Term, e->n + 1);
    int n = 0;
    for (int i = 0; i < e->n; i++) {
        const Mono *mono = e->term[i].mono;
        bool has = false;
        for (int k = 0; k < mono->degree; k++) has = has || mono->atom[k] == quotient->term[0].mono->atom[0];
        if (!has) kept[n++] = e->term[i];
    }
    return expr_of_terms(s, kept, n);
}

static Expr *representative(Symbols *s, const Atom *symbol, void *context)
{
    (void)context;
    Symbol *of = s->symbols.at[symbol->symbol];
    if (!of->equals) return of->atom->alone;
    return of->equals = expr_canonical(s, of->equals);
}

Expr *expr_canonical(Symbols *s, Expr *e)
{
    if (!(e->mask & s->equated)) return e;
    if (e->canonical_at == s->equated_version) return e->canonical;
    Expr *canonical = expr_rebuild(s, e, s->equated, representative, NULL);
    e->canonical = canonical;
    e->canonical_at = s->equated_version;
    return canonical;
}

/* ---- asking ---- */

bool expr_is_int(const Expr *e, int64_t *value)
{
    if (e->n > 1 || (e->n == 1 && e->term[0].mono->degree > 0)) return false;
    if (value) *value = e->n ? e->term[0].coef : 0;
    return true;
}

bool expr_is(const Expr *e, int64_t value)
{
    int64_t is;
    return expr_is_int(e, &is) && is == value;
}

bool expr_is_symbol(const Expr *e)
{
    return e->n == 1 && e->term[0].coef == 1 && e->term[0].mono->degree == 1 && e->term[0].mono->atom[0]->kind == ATOM_SYMBOL;
}

int symbol_index(const Expr *symbol)
{
    if (!expr_is_symbol(symbol)) bug("wanted a symbol");
    return symbol->term[0].mono->atom[0]->symbol;
}

bool expr_has_late(const Expr *e)
{
    return e->late;
}

int64_t constant_of(const Expr *e)
{
    return e->n && e->term[e->n - 1].mono->degree == 0 ? e->term[e->n - 1].coef : 0;
}

static void mark_symbols(const Expr *e, bool *seen)
{
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->term[i].mono->degree; k++) {
            const Atom *atom = e->term[i].mono->atom[k];
            if (atom->kind == ATOM_SYMBOL) seen[atom->symbol] = true;
            for (int j = 0; j < atom->n; j++) mark_symbols(atom->arg[j], seen);
        }
}

int expr_symbols(Symbols *s, Expr *e, Expr **out, int room)
{
    int found = 0, n = s->symbols.n;
    bool *seen = calloc((size_t)n + 1, sizeof *seen);
    if (!seen) error_exit("out of memory");
    mark_symbols(e, seen);
    for (int i = 0; i < n; i++) {
        if (!seen[i]) continue;
        if (found < room) out[found] = s->symbols.at[i]->atom->alone;
        found++;
    }
    free(seen);
    return found;
}

void expr_divisors(const Expr *e, void (*found)(void *context, Expr *divisor), void *context)
{
    for (int i = 0; i < e->n; i++)
        for (int k = 0; k < e->term[i].mono->degree; k++) {
            const Atom *atom = e->term[i].mono->atom[k];
            for (int j = 0; j < atom->n; j++) expr_divisors(atom->arg[j], found, context);
            const bool divides = atom->kind == ATOM_FLOORDIV || atom->kind == ATOM_MOD;
            if (divides && !expr_is_int(atom->arg[1], NULL)) found(context, atom->arg[1]);
        }
}
