/* Symbolic integers: the sizes of a model whose batch and length nobody knows yet.
 *
 * An expression is a canonical sum of monomials with integer coefficients over atoms.  An atom is a symbol, or floor division,
 * modulo, minimum or maximum of two expressions that simplify no further.  Expressions are interned in their Symbols: equal means
 * same pointer.
 *
 *     2*batch*seq + 3        Min(height, 2*(height//2))        (time + 3)//2
 *
 * Symbols are integers >= 0 (a range says more).  Expressions may be negative.  // and % round towards minus infinity.
 * Coefficients overflow into internal faults, never silently.
 * Comparison after BladeDISC++ (arXiv 2412.16985), section 2: symbolic shape graph. */
#ifndef SYMBOLIC_EXPR_H
#define SYMBOLIC_EXPR_H
#include "support/arena.h"

typedef struct Symbols Symbols;
typedef struct Expr Expr;

Symbols *symbols_new(Arena *arena);

/* ---- making expressions ---- */
Expr *expr_int(Symbols *s, int64_t value);
Expr *expr_symbol(Symbols *s, const char *name);            /* the symbol of that name, made if there is none */
Expr *expr_fresh(Symbols *s, const char *hint);             /* a symbol that nobody has: hint, or hint_1, hint_2… */
Expr *expr_late(Symbols *s, const char *hint, Expr *upper); /* known only after a kernel has run; 0 <= it <= upper */
Expr *expr_add(Symbols *s, Expr *a, Expr *b);
Expr *expr_sub(Symbols *s, Expr *a, Expr *b);
Expr *expr_mul(Symbols *s, Expr *a, Expr *b);
Expr *expr_floordiv(Symbols *s, Expr *a, Expr *b); /* b == 0 as an integer: internal fault */
Expr *expr_ceildiv(Symbols *s, Expr *a, Expr *b);
Expr *expr_mod(Symbols *s, Expr *a, Expr *b);
Expr *expr_min(Symbols *s, Expr *a, Expr *b);
Expr *expr_max(Symbols *s, Expr *a, Expr *b);
Expr *expr_product(Symbols *s, Expr *const *e, int n); /* 1 for n = 0 */
Expr *expr_substitute(Symbols *s, Expr *e, Expr *symbol, Expr *by);
/* e where quotient, (a//b) alone, is 0: without the terms that have it as a factor; those of other atoms stay. */
Expr *expr_without(Symbols *s, Expr *e, Expr *quotient);
Expr *expr_canonical(Symbols *s, Expr *e); /* e with equal symbols (symbols_equate) replaced by their representative */

/* a / b where it divides without rest for all values (64*batch*seq by 64*seq gives batch); NULL where that is not certain */
Expr *expr_divide_exactly(Symbols *s, Expr *a, Expr *b);

/* ---- asking ---- */
bool expr_is_int(const Expr *e, int64_t *value); /* value may be NULL */
bool expr_is(const Expr *e, int64_t value);
bool expr_is_symbol(const Expr *e);
const char *expr_symbol_name(const Expr *e); /* of a symbol */
bool expr_has_late(const Expr *e);
int expr_symbols(Symbols *s, Expr *e, Expr **out, int room); /* distinct symbols in e, in order of their making; returns how many */
/* What e divides by, but integers: for each quotient and remainder in it, from the inside out. */
void expr_divisors(const Expr *e, void (*found)(void *context, Expr *divisor), void *context);

/* ---- facts about symbols ---- */
typedef struct {
    int64_t low, high;
    int64_t likely;
    int64_t divisor;
    bool declared, late;
    Expr *upper;
    int64_t expected_low,
        expected_high;             /* where declared: what the user expects; plans are made for it, nothing is concluded from it */
} SymbolFacts;                     /* low, high: certain; likely: 0 when unknown */
enum { EXPR_UNBOUNDED = 1 << 30 }; /* high of a symbol nobody has bounded: 2^30 */
SymbolFacts symbol_facts(const Symbols *s, const Expr *symbol); /* starts as 0..2^30, divisor 1 */
void symbol_declare(Symbols *s, Expr *symbol, int64_t low, int64_t high,
                    int64_t likely); /* a certain range: replaces; before any use */
/* What the user expects (--dim): a batch beyond it is only planned anew, so no comparison may rely on it. */
void symbol_expect(Symbols *s, Expr *symbol, int64_t low, int64_t high, int64_t likely);
bool symbol_narrow(Symbols *s, Expr *symbol, int64_t low,
                   int64_t high); /* by the graph: intersects; false when nothing is left (kept as it was) */
void symbol_divisible(Symbols *s, Expr *symbol, int64_t divisor);
/* States a == b (union-find over symbols; an integer or expression may stand for a symbol).  false when they can never be equal;
 * *stated says whether that is a new fact that run time must guard (NULL allowed). */
bool symbols_equate(Symbols *s, Expr *a, Expr *b, bool *stated);
/* Equalities stated that no symbol could be solved from: each of these is 0, and run time must guard it.  Returns how many. */
int symbols_zeros(const Symbols *s, Expr *const **zeros);
int symbols_count(const Symbols *s);
Expr *symbols_at(const Symbols *s, int i); /* in order of their making; a symbol's index */
int symbol_index(const Expr *symbol);

/* ---- comparing: never wrong, sometimes undecided; for all values in range ---- */
typedef enum { ORDER_UNDECIDED, ORDER_LESS, ORDER_LESS_EQUAL, ORDER_EQUAL, ORDER_GREATER_EQUAL, ORDER_GREATER } Order;
Order expr_compare(Symbols *s, Expr *a, Expr *b);
bool expr_always_equal(Symbols *s, Expr *a, Expr *b);
bool expr_never_equal(Symbols *s, Expr *a, Expr *b);
bool expr_at_least(Symbols *s, Expr *a, Expr *b); /* certainly a >= b */
/* Bounds under the ranges, saturating at +-2^62; may be wide, never wrong. */
void expr_bounds(Symbols *s, Expr *e, int64_t *low, int64_t *high);

/* ---- solving, evaluating, text ---- */
/* The symbol for which value == e can be solved (e = 2*time + 1 gives (value - 1)/2 when it divides); sets *solution, an expression
 * over `value` and other symbols, floor division included.  NULL where no symbol of e stands alone. */
Expr *expr_solve(Symbols *s, Expr *e, Expr *value, Expr **solution);
bool expr_evaluate(const Symbols *s, const Expr *e, const int64_t *values,
                   int64_t *result);      /* values by symbol_index; false on overflow or division by 0 */
int64_t expr_likely(Symbols *s, Expr *e); /* at the likely values; a symbol without one: its middle, at most 64 */
void expr_print(Buf *out, const Expr *e); /* as in the comment above; parses back */
void expr_print_c(Buf *out, const Expr *e, const char *(*name)(void *context, const Expr *symbol),
                  void *context); /* C text, int64_t; floor_div(), floor_mod(), min_int(), max_int() */
void expr_print_js(Buf *out, const Expr *e, const char *(*name)(void *context, const Expr *symbol),
                   void *context); /* JavaScript, BigInt: exact for any dims; the same calls */
const char *expr_text(Arena *arena, const Expr *e);
/* Parses "batch", "2*(s1//2)", "Min(s0, 4)", "Max(…)", "floor(a/b)", "a % b", "Mod(a, b)", with unknown names made symbols.
 * NULL where the text is no expression (then a dim_param is one symbol with an odd name; symbols may have any name). */
Expr *expr_parse(Symbols *s, const char *text);
#endif
