/* Lower bounds from how the terms of an expression hang together (upper bounds: of the negated expression).
 *
 *     quotients   a//c is (a - a%c)/c with 0 <= a%c < c: x - 2*(x//2) becomes x%2.  Tried too: each quotient a variable of its own.
 *     extrema     min(x, y) is one of both, and at most each: x - min(x, y) >= x - x.  Where it counts positively, both must agree.
 *     uppers      where a late symbol counts negatively, its upper bound may stand for it; for a % b both a and b - 1 may.
 *     boxes       what remains is a polynomial over independent ranges.  Its coefficients in Bernstein form (Garloff, "Convergent
 *                 bounds for the range of multivariate polynomials", 1986) bound it; where no power is above 1 these are its values
 *                 at the corners, so the bound is met.  Ranges of higher powers are split a few times.
 *     points      where all ranges together have few points, all are tried.
 *
 * Everything runs in 128 bits and gives up, with the bound known so far, where that overflows. */
#include "symbolic/internal.h"
#include <stdlib.h>
#include <string.h>

enum { POLY_ROOM = 96, BOX_VARIABLES = 10, BOX_ROOM = 1024, HIGHEST_POWER = 6, SPLITS = 5, BUDGET = 96, MOST_POINTS = 512 };

typedef struct {
    Wide coef;
    Mono *mono;
} PolyTerm;

typedef struct {
    int n;
    PolyTerm term[POLY_ROOM];
} Poly;

typedef struct {
    Symbols *s;
    int budget;          /* steps left */
    bool keep_quotients; /* as variables of their own */
    bool any_last;       /* extrema of which one branch is enough come after those where all must agree */
} Search;

static int64_t best_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t worst_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static Wide wide_ceil_div(Wide a, Wide b) /* b > 0 */
{
    Wide q = a / b;
    return q + (a % b > 0);
}

/* ---- polynomials ---- */

static bool poly_add(Poly *p, Wide coef, Mono *mono)
{
    for (int i = 0; i < p->n; i++) {
        if (p->term[i].mono != mono) continue;
        if (__builtin_add_overflow(p->term[i].coef, coef, &p->term[i].coef)) return false;
        if (p->term[i].coef == 0) p->term[i] = p->term[--p->n];
        return true;
    }
    if (coef == 0) return true;
    if (p->n == POLY_ROOM) return false;
    p->term[p->n++] = (PolyTerm){coef, mono};
    return true;
}

static int power_of(const Mono *mono, const Atom *atom)
{
    int power = 0;
    for (int k = 0; k < mono->degree; k++) power += mono->atom[k] == atom;
    return power;
}

static Mono *without(Symbols *s, const Mono *mono, const Atom *atom)
{
    Atom *kept[64];
    int n = 0;
    for (int k = 0; k < mono->degree; k++)
        if (mono->atom[k] != atom) kept[n++] = mono->atom[k];
    return mono_of(s, kept, n);
}

/* out += coef * mono * by^power */
static bool add_expanded(Symbols *s, Poly *out, Wide coef, Mono *mono, const Poly *by, int power)
{
    if (mono->degree > 16) return false;
    if (power == 0) return poly_add(out, coef, mono);
    for (int i = 0; i < by->n; i++) {
        Wide product;
        if (__builtin_mul_overflow(coef, by->term[i].coef, &product)) return false;
        if (!add_expanded(s, out, product, mono_times(s, mono, by->term[i].mono), by, power - 1)) return false;
    }
    return true;
}

/* out/(*denominator) = p with by/divisor in the place of the atom */
static bool substitute(Symbols *s, Poly *out, const Poly *p, const Atom *atom, const Poly *by, Wide divisor, Wide *denominator)
{
    int highest = 0;
    for (int i = 0; i < p->n; i++) {
        int power = power_of(p->term[i].mono, atom);
        if (power > highest) highest = power;
    }
    out->n = 0;
    for (int i = 0; i < p->n; i++) {
        int power = power_of(p->term[i].mono, atom);
        Wide coef = p->term[i].coef;
        for (int k = power; k < highest; k++)
            if (__builtin_mul_overflow(coef, divisor, &coef)) return false;
        Mono *rest = power ? without(s, p->term[i].mono, atom) : p->term[i].mono;
        if (!add_expanded(s, out, coef, rest, by, power)) return false;
    }
    for (int k = 0; k < highest; k++)
        if (__builtin_mul_overflow(*denominator, divisor, denominator)) return false;
    return true;
}

static bool poly_of(Poly *p, const Expr *e, bool negated)
{
    p->n = 0;
    for (int i = 0; i < e->n; i++)
        if (!poly_add(p, negated ? -(Wide)e->term[i].coef : e->term[i].coef, e->term[i].mono)) return false;
    return true;
}

/* ---- term by term ---- */

static int64_t lower_by_terms(Symbols *s, const Poly *p, Wide denominator)
{
    Wide sum = 0;
    for (int i = 0; i < p->n; i++) {
        int64_t low, high;
        mono_bounds(s, p->term[i].mono, &low, &high);
        int64_t end = p->term[i].coef > 0 ? low : high;
        Wide least;
        if (p->term[i].coef > 0 ? low <= -BOUND_LIMIT : high >= BOUND_LIMIT) return -BOUND_LIMIT;
        if (__builtin_mul_overflow(p->term[i].coef, (Wide)end, &least) || __builtin_add_overflow(sum, least, &sum))
            return -BOUND_LIMIT;
    }
    return clamp_bound(wide_ceil_div(sum, denominator));
}

/* ---- boxes ---- */

typedef struct {
    int n, power[BOX_VARIABLES];
    Atom *atom[BOX_VARIABLES];
    int64_t low[BOX_VARIABLES], high[BOX_VARIABLES];
    int size; /* of the tensor of coefficients */
} Box;

static bool box_of(Symbols *s, const Poly *p, Box *box)
{
    box->n = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->term[i].mono->degree; k++) {
            Atom *atom = p->term[i].mono->atom[k];
            int v = 0, power = power_of(p->term[i].mono, atom);
            while (v < box->n && box->atom[v] != atom) v++;
            if (v == BOX_VARIABLES || power > HIGHEST_POWER) return false;
            if (v == box->n) {
                box->atom[box->n++] = atom;
                box->power[v] = 0;
                atom_bounds(s, atom, &box->low[v], &box->high[v]);
                if (box->low[v] <= -BOUND_LIMIT || box->high[v] >= BOUND_LIMIT || box->low[v] > box->high[v]) return false;
            }
            if (power > box->power[v]) box->power[v] = power;
        }
    box->size = 1;
    for (int v = 0; v < box->n; v++) {
        box->size *= box->power[v] + 1;
        if (box->size > BOX_ROOM) return false;
    }
    return true;
}

static int64_t binomial(int n, int k)
{
    int64_t out = 1;
    for (int i = 1; i <= k; i++) out = out * (n - k + i) / i;
    return out;
}

/* One fibre a_0 + a_1*x + … over low..high becomes its Bernstein coefficients, times `scale`. */
static bool bernstein_fibre(Wide *a, int stride, int power, int64_t low, int64_t high, int64_t scale)
{
    Wide width = (Wide)high - low, step = 1;
    for (int i = 0; i < power; i++) /* x = low + t */
        for (int j = power - 1; j >= i; j--) {
            Wide moved;
            if (__builtin_mul_overflow(a[(j + 1) * stride], (Wide)low, &moved)) return false;
            if (__builtin_add_overflow(a[j * stride], moved, &a[j * stride])) return false;
        }
    for (int i = 0; i <= power; i++) { /* t = width*u, and the share of each power in each coefficient */
        Wide *at = &a[i * stride];
        if (__builtin_mul_overflow(*at, step, at)) return false;
        if (__builtin_mul_overflow(*at, (Wide)(scale / binomial(power, i)), at)) return false;
        if (i < power && __builtin_mul_overflow(step, width, &step)) return false;
    }
    for (int j = power; j >= 0; j--) {
        Wide sum = 0;
        for (int i = 0; i <= j; i++) {
            Wide part;
            if (__builtin_mul_overflow(a[i * stride], (Wide)binomial(j, i), &part) || __builtin_add_overflow(sum, part, &sum))
                return false;
        }
        a[j * stride] = sum;
    }
    return true;
}

static bool box_lower(const Poly *p, Wide denominator, const Box *box, int64_t *low)
{
    static const int64_t common_multiple[HIGHEST_POWER + 1] = {1, 1, 2, 3, 12, 10, 60}; /* of the binomials of a power */
    Wide a[BOX_ROOM];
    memset(a, 0, sizeof *a * (size_t)box->size);
    for (int i = 0; i < p->n; i++) {
        int at = 0, stride = 1;
        for (int v = 0; v < box->n; v++) {
            at += stride * power_of(p->term[i].mono, box->atom[v]);
            stride *= box->power[v] + 1;
        }
        a[at] = p->term[i].coef;
    }
    int stride = 1;
    for (int v = 0; v < box->n; v++) {
        int power = box->power[v];
        int64_t scale = common_multiple[power];
        for (int at = 0; at < box->size; at++)
            if (at / stride % (power + 1) == 0 && !bernstein_fibre(a + at, stride, power, box->low[v], box->high[v], scale))
                return false;
        if (__builtin_mul_overflow(denominator, (Wide)scale, &denominator)) return false;
        stride *= power + 1;
    }
    Wide least = a[0];
    for (int at = 1; at < box->size; at++)
        if (a[at] < least) least = a[at];
    *low = clamp_bound(wide_ceil_div(least, denominator));
    return true;
}

/* Splits ranges of variables of higher power: first the lowest value off, as x*x - x is 0 there and positive above 1, then halves.
 */
static int64_t box_lower_split(const Poly *p, Wide denominator, Box box, int splits)
{
    int64_t low;
    if (!box_lower(p, denominator, &box, &low)) return -BOUND_LIMIT;
    int v = 0;
    for (int i = 1; i < box.n; i++)
        if (box.power[i] > 1 && (box.power[v] < 2 || box.high[i] - box.low[i] > box.high[v] - box.low[v])) v = i;
    if (splits == 0 || box.n == 0 || box.power[v] < 2 || box.low[v] == box.high[v]) return low;
    int64_t middle = splits > SPLITS - 2 ? box.low[v] : box.low[v] + (box.high[v] - box.low[v]) / 2;
    Box left = box, right = box;
    left.high[v] = middle;
    right.low[v] = middle + 1;
    int64_t left_low = box_lower_split(p, denominator, left, splits - 1);
    if (left_low <= low) return low;
    return best_of(low, worst_of(left_low, box_lower_split(p, denominator, right, splits - 1)));
}

/* ---- the search ---- */

/* How the atom counts: 1 where p surely grows with it, -1 where it falls, 0 where neither is sure. */
static int direction(Symbols *s, const Poly *p, const Atom *atom)
{
    int direction = 0;
    for (int i = 0; i < p->n; i++) {
        int power = power_of(p->term[i].mono, atom);
        if (power == 0) continue;
        int64_t low, high;
        mono_bounds(s, without(s, p->term[i].mono, atom), &low, &high);
        int sign = p->term[i].coef > 0 ? 1 : -1;
        if (power > 1 || low < 0 || direction == -sign) return 0;
        direction = sign;
    }
    return direction;
}

/* Expressions that the atom never exceeds: a late symbol its upper bound, a % b both a and b - 1, a//b a (for a >= 0 and b > 0).
 * Quotients and remainders by an integer have better ways. */
static int uppers_of(Symbols *s, const Atom *atom, Expr *out[2])
{
    if (atom->kind == ATOM_SYMBOL) {
        Expr *upper = s->symbols.at[atom->symbol]->facts.upper;
        if (upper) out[0] = expr_canonical(s, upper);
        return upper != NULL;
    }
    if ((atom->kind != ATOM_MOD && atom->kind != ATOM_FLOORDIV) || expr_is_int(atom->arg[1], NULL)) return 0;
    int64_t low, high;
    int n = 0;
    expr_bounds(s, atom->arg[1], &low, &high);
    if (low < 0) return 0;
    Expr *below = atom->kind == ATOM_MOD ? try_add(s, atom->arg[1], expr_int(s, -1)) : NULL;
    if (below) out[n++] = below;
    expr_bounds(s, atom->arg[0], &low, &high);
    if (low >= 0) out[n++] = atom->arg[0];
    return n;
}

/* Whether one branch is enough: a minimum that counts negatively is at most any of its arguments. */
static bool any_will_do(const Atom *atom, int way)
{
    return (atom->kind == ATOM_MIN && way < 0) || (atom->kind == ATOM_MAX && way > 0);
}

/* The atom to replace next.  Extrema of which one branch is enough come first, as what they hold may cancel others; extrema that
 * count both ways last. */
static Atom *next_atom(const Search *q, const Poly *p, int *way)
{
    Atom *best = NULL;
    int best_rank = 0;
    Expr *unused[2];
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->term[i].mono->degree; k++) {
            Atom *atom = p->term[i].mono->atom[k];
            if (atom == best) continue;
            bool extremum = atom->kind == ATOM_MIN || atom->kind == ATOM_MAX;
            bool quotient = atom->kind == ATOM_FLOORDIV && !q->keep_quotients && expr_is_int(atom->arg[1], NULL);
            bool bounded = !extremum && !quotient && uppers_of(q->s, atom, unused) > 0;
            if (!extremum && !quotient && !bounded) continue;
            int to = direction(q->s, p, atom);
            int rank = extremum ? (!to ? 1 : any_will_do(atom, to) != q->any_last ? 5 : 4) : quotient ? 2 : to < 0 ? 3 : 0;
            if (rank <= best_rank) continue;
            best = atom;
            best_rank = rank;
            *way = to;
        }
    return best;
}

static int64_t lower(Search *q, const Poly *p, Wide denominator);

static int64_t lower_with(Search *q, const Poly *p, Wide denominator, const Atom *atom, const Expr *by)
{
    Poly image, out;
    if (!poly_of(&image, by, false) || !substitute(q->s, &out, p, atom, &image, 1, &denominator)) return -BOUND_LIMIT;
    return lower(q, &out, denominator);
}

/* a//c is (a - a%c)/c. */
static int64_t lower_with_remainder(Search *q, const Poly *p, Wide denominator, const Atom *atom)
{
    Poly image, out;
    Atom *remainder = atom_intern(q->s, ATOM_MOD, 0, atom->arg, 2);
    if (!poly_of(&image, atom->arg[0], false) || !poly_add(&image, -1, mono_of(q->s, &remainder, 1))) return -BOUND_LIMIT;
    if (!substitute(q->s, &out, p, atom, &image, constant_of(atom->arg[1]), &denominator)) return -BOUND_LIMIT;
    return lower(q, &out, denominator);
}

static int64_t lower_of_extremum(Search *q, const Poly *p, Wide denominator, const Atom *atom, int way)
{
    bool any = any_will_do(atom, way);
    int64_t out = lower_with(q, p, denominator, atom, atom->arg[0]);
    for (int i = 1; i < atom->n; i++) {
        if (!any && out <= -BOUND_LIMIT) break;
        int64_t branch = lower_with(q, p, denominator, atom, atom->arg[i]);
        out = any ? best_of(out, branch) : worst_of(out, branch);
    }
    return out;
}

/* The atom counts negatively: what it never exceeds may stand for it. */
static int64_t lower_with_upper(Search *q, const Poly *p, Wide denominator, const Atom *atom)
{
    Expr *upper[2];
    int64_t out = -BOUND_LIMIT;
    int n = uppers_of(q->s, atom, upper);
    for (int i = 0; i < n; i++) out = best_of(out, lower_with(q, p, denominator, atom, upper[i]));
    return out;
}

static int64_t lower(Search *q, const Poly *p, Wide denominator)
{
    int64_t by_terms = lower_by_terms(q->s, p, denominator);
    if (q->budget-- <= 0) return by_terms;
    int way = 0;
    Atom *atom = next_atom(q, p, &way);
    int64_t out = -BOUND_LIMIT;
    Box box;
    if (!atom)
        out = box_of(q->s, p, &box) ? box_lower_split(p, denominator, box, SPLITS) : out;
    else if (atom->kind == ATOM_MIN || atom->kind == ATOM_MAX)
        out = lower_of_extremum(q, p, denominator, atom, way);
    else if (atom->kind == ATOM_FLOORDIV && !q->keep_quotients && expr_is_int(atom->arg[1], NULL))
        out = lower_with_remainder(q, p, denominator, atom);
    else
        out = lower_with_upper(q, p, denominator, atom);
    return best_of(by_terms, out);
}

static bool has_extremum(const Poly *p)
{
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->term[i].mono->degree; k++) {
            AtomKind kind = p->term[i].mono->atom[k]->kind;
            if (kind == ATOM_MIN || kind == ATOM_MAX) return true;
        }
    return false;
}

static int64_t lower_one_way(Symbols *s, const Poly *p, bool keep_quotients, bool any_last)
{
    Search q = {.s = s, .budget = BUDGET, .keep_quotients = keep_quotients, .any_last = any_last};
    return lower(&q, p, 1);
}

int64_t search_lower(Symbols *s, const Expr *e, bool negated)
{
    Poly p;
    if (!poly_of(&p, e, negated)) return -BOUND_LIMIT;
    int64_t out = best_of(lower_one_way(s, &p, false, false), lower_one_way(s, &p, true, false));
    return has_extremum(&p) ? best_of(out, lower_one_way(s, &p, false, true)) : out;
}

/* ---- points ---- */

typedef struct {
    Expr *symbol[BOX_VARIABLES];
    int64_t low[BOX_VARIABLES], high[BOX_VARIABLES], step[BOX_VARIABLES];
    int n;
} Points;

static bool points_of(Symbols *s, Expr *e, Points *points)
{
    points->n = expr_symbols(s, e, points->symbol, BOX_VARIABLES);
    if (points->n > BOX_VARIABLES) return false;
    int64_t count = 1;
    for (int v = 0; v < points->n; v++) {
        SymbolFacts facts = symbol_facts(s, points->symbol[v]);
        atom_bounds(s, points->symbol[v]->term[0].mono->atom[0], &points->low[v], &points->high[v]);
        points->step[v] = facts.divisor;
        int64_t steps = (points->high[v] - points->low[v]) / facts.divisor + 1;
        if (points->high[v] < points->low[v] || points->low[v] % facts.divisor || steps > MOST_POINTS ||
            count * steps > MOST_POINTS)
            return false;
        count *= steps;
    }
    return true;
}

bool enumerate_bounds(Symbols *s, Expr *e, int64_t *low, int64_t *high)
{
    Points points;
    if (!points_of(s, e, &points)) return false;
    int64_t *values = calloc((size_t)s->symbols.n + 1, sizeof *values);
    if (!values) error_exit("out of memory");
    for (int v = 0; v < points.n; v++) values[symbol_index(points.symbol[v])] = points.low[v];
    bool any = false, all_fit = true;
    for (int v = -1; v < points.n;) {
        int64_t value;
        Evaluation how = evaluate(e, values, &value);
        all_fit &= how != OVERFLOWED;
        if (how == EVALUATED) { /* where it has no value (a division by 0) nothing need hold */
            if (!any || value < *low) *low = value;
            if (!any || value > *high) *high = value;
            any = true;
        }
        for (v = 0; v < points.n; v++) {
            int64_t *at = &values[symbol_index(points.symbol[v])];
            *at += points.step[v];
            if (*at <= points.high[v]) break;
            *at = points.low[v];
        }
    }
    free(values);
    return any && all_fit;
}
