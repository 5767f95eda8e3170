/* How symbolic expressions are kept; for the files of this folder alone.
 *
 *     Expr   2*batch*seq + 3     terms: 2 x Mono(batch, seq), 3 x Mono()       largest monomial first, the constant last; none: zero
 *     Mono   batch*seq           atoms in the order of their making, repeated for a power
 *     Atom   batch, (t + 3)//2   a symbol, or an operation over expressions
 *
 * All three are interned: equal means same pointer.  Everything that depends on facts is stamped with the version of the facts. */
#ifndef SYMBOLIC_INTERNAL_H
#define SYMBOLIC_INTERNAL_H
#include "support/diag.h"
#include "symbolic/expr.h"

typedef __int128 Wide;
#define BOUND_LIMIT ((int64_t)1 << 62) /* a low of -this or a high of this says: unbounded */

/* ATOM_MOD over an integer divisor is made inside bounds.c only: expr_mod writes a - c*(a//c). */
typedef enum { ATOM_SYMBOL, ATOM_FLOORDIV, ATOM_MOD, ATOM_MIN, ATOM_MAX } AtomKind;

typedef struct {
    uint64_t hash;
    AtomKind kind;
    int id, symbol; /* symbol: its index, for ATOM_SYMBOL */
    int n;          /* arguments */
    Expr **arg;
    uint64_t mask; /* a bit for each symbol in it, index modulo 64 */
    bool late;
    Expr *alone;      /* the atom as an expression */
    const char *name; /* of a symbol */
    int64_t low, high;
    uint32_t bounds_at;
} Atom;

typedef struct {
    uint64_t hash, mask;
    int id, degree;
    bool late, only_symbols;
    int64_t low, high;
    uint32_t bounds_at;
    Atom *atom[];
} Mono;

typedef struct {
    int64_t coef;
    Mono *mono;
} Term;

struct Expr {
    uint64_t hash, mask;
    int id, n;
    bool late, busy;                                       /* busy: its bounds are being looked for */
    uint32_t canonical_at, bounds_at, tried_at, likely_at; /* versions; 0: never */
    Expr *canonical;
    int64_t low, high, likely;
    Term term[];
};

/* Open addressing; every item begins with its hash. */
typedef struct {
    void **slot;
    uint32_t n, room;
} Table;

typedef struct {
    Atom *atom;
    SymbolFacts facts;
    Expr *equals; /* what stands for it since symbols_equate, or NULL */
} Symbol;

typedef enum { OPERATION_NONE, OPERATION_ADD, OPERATION_MUL, OPERATION_FLOORDIV, OPERATION_MIN, OPERATION_MAX } Operation;

typedef struct {
    Expr *a, *b, *out;
    uint32_t version;
    Operation operation;
} Remembered;

enum { SMALL_LOW = -64, SMALL_HIGH = 1024 };

struct Symbols {
    Arena *arena;
    Table exprs, monos, atoms;
    Map *by_name;
    VEC(Symbol *) symbols;
    VEC(Expr *) zeros; /* equalities that no symbol could be solved from: these are 0 */
    uint64_t equated;  /* mask of the symbols that something stands for */
    uint32_t version, equated_version;
    Mono *one; /* of degree 0 */
    Expr *small[SMALL_HIGH - SMALL_LOW + 1];
    Remembered *remembered; /* results of operations, direct mapped */
    uint32_t n_remembered;
    VEC(Term) scratch;
};

/* ---- expr.c ---- */
Expr *expr_of_terms(Symbols *s, const Term *term, int n); /* sorted, without zero coefficients */
Expr *expr_of_atom(Symbols *s, Atom *atom);
Expr *expr_of_term(Symbols *s, int64_t coef, Mono *mono);
Atom *atom_intern(Symbols *s, AtomKind kind, int symbol, Expr *const *arg, int n);
Mono *mono_of(Symbols *s, Atom *const *atom, int degree); /* sorted by id */
Mono *mono_times(Symbols *s, const Mono *a, const Mono *b);
Mono *mono_over(Symbols *s, const Mono *a, const Mono *b); /* NULL where b does not divide a */
int mono_order(const Mono *a, const Mono *b);              /* < 0: a stands first */
Expr *try_add(Symbols *s, Expr *a, Expr *b);               /* NULL where a coefficient overflows */
Expr *try_mul(Symbols *s, Expr *a, Expr *b);
Expr *expr_scale(Symbols *s, Expr *e, int64_t by);
Expr *recall(Symbols *s, Operation operation, Expr *a, Expr *b);
Expr *remember(Symbols *s, Operation operation, Expr *a, Expr *b, Expr *out); /* returns out */
int64_t constant_of(const Expr *e);
/* e with each symbol whose bit is in mask replaced by what `image` says. */
Expr *expr_rebuild(Symbols *s, Expr *e, uint64_t mask, Expr *(*image)(Symbols *s, const Atom *symbol, void *context),
                   void *context);

/* ---- atoms.c ---- */
int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);
int64_t greatest_divisor(int64_t a, int64_t b); /* >= 0; of 0 and b: |b| */
/* The greatest number that surely divides e without its constant, at most `limit`: 4 for 6*x + 1 with x even and limit 8; 0 where e
 * is constant. */
int64_t content_of(const Symbols *s, const Expr *e, int64_t limit);

/* ---- bounds.c ---- */
void atom_bounds(Symbols *s, Atom *atom, int64_t *low, int64_t *high);
void mono_bounds(Symbols *s, Mono *mono, int64_t *low, int64_t *high);
void interval_bounds(Symbols *s, const Expr *e, int64_t *low, int64_t *high); /* term by term */
int64_t clamp_bound(Wide value);

/* ---- search.c: bounds from relations between the atoms ---- */
/* The greatest lower bound found for e (or for -e), at least -BOUND_LIMIT. */
int64_t search_lower(Symbols *s, const Expr *e, bool negated);
/* Every value in a small range tried: false where there are more than a few hundred points. */
bool enumerate_bounds(Symbols *s, Expr *e, int64_t *low, int64_t *high);

/* ---- solve.c ---- */
typedef enum { EVALUATED, DIVIDED_BY_ZERO, OVERFLOWED } Evaluation;
Evaluation evaluate(const Expr *e, const int64_t *values, int64_t *result);

/* ---- facts.c ---- */
const Symbol *symbol_of(const Symbols *s, const Expr *e);
#endif
