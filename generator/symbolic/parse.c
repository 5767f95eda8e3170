/* Expressions from text and to text.
 *
 *     sum      = product { ("+" | "-") product }
 *     product  = power { ("*" | "/" | "//" | "%") power }
 *     power    = unary [ "**" integer ]
 *     unary    = "-" unary | integer | name | 'quoted name' | "(" sum ")" | function "(" sum { "," sum } ")"
 *     function = Min Max floor ceiling Mod FloorDiv CeilDiv ... as the exporters write them
 *
 * Inside, a value is a quotient of two expressions, so that floor(s0/2 - 1/2) + 1 is (s0 - 1)//2 + 1; at the end it must be whole.
 * Text is first parsed into symbols of its own, so that what is no expression leaves no symbols behind. */
#include "symbolic/internal.h"
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* ---- parsing ---- */

typedef struct {
    Symbols *s;
    const char *at;
    bool failed;
    int depth;
} Parser;

typedef struct {
    Expr *num, *den;
} Quotient;

static Quotient failure(Parser *p)
{
    p->failed = true;
    Expr *one = expr_int(p->s, 1);
    return (Quotient){one, one};
}

static Expr *checked(Parser *p, Expr *e)
{
    return e ? e : failure(p).num; /* a coefficient overflowed */
}

static Quotient whole(Parser *p, Expr *e)
{
    return (Quotient){checked(p, e), expr_int(p->s, 1)};
}

static void skip_space(Parser *p)
{
    while (isspace((unsigned char)*p->at)) p->at++;
}

static bool accept(Parser *p, const char *token)
{
    skip_space(p);
    size_t n = strlen(token);
    if (strncmp(p->at, token, n) != 0) return false;
    p->at += n;
    return true;
}

static Expr *negative(Parser *p, Expr *e)
{
    return checked(p, try_mul(p->s, e, expr_int(p->s, -1)));
}

static int degree_of(const Expr *e)
{
    return e->n ? e->term[0].mono->degree : 0;
}

/* Products that no shape has, such as (a + b + c)**16 * (d + e + f)**16, are no expressions. */
static Expr *times(Parser *p, Expr *a, Expr *b)
{
    enum { HIGHEST_DEGREE = 32, MOST_TERMS = 1024 };
    if (degree_of(a) + degree_of(b) > HIGHEST_DEGREE || a->n * b->n > MOST_TERMS) return failure(p).num;
    return checked(p, try_mul(p->s, a, b));
}

/* Without what both share where the denominator is an integer: 2*x/4 is x/2. */
static Quotient lowest_terms(Parser *p, Quotient q)
{
    int64_t den;
    q.den = expr_canonical(p->s, q.den); /* a symbol may have been stated to be 0 */
    if (q.den->n == 0) return failure(p);
    if (!expr_is_int(q.den, &den) || den == 1) return q;
    if (den < 0) {
        q.num = negative(p, q.num);
        q.den = negative(p, q.den);
        den = -den;
    }
    int64_t common = den;
    for (int i = 0; i < q.num->n; i++) common = greatest_divisor(common, q.num->term[i].coef);
    if (common == 1) return q;
    q.num = checked(p, expr_divide_exactly(p->s, q.num, expr_int(p->s, common)));
    q.den = expr_int(p->s, den / common);
    return q;
}

static Quotient quotient_add(Parser *p, Quotient a, Quotient b)
{
    if (a.den == b.den) return lowest_terms(p, (Quotient){checked(p, try_add(p->s, a.num, b.num)), a.den});
    Expr *left = times(p, a.num, b.den), *right = times(p, b.num, a.den);
    return lowest_terms(p, (Quotient){checked(p, try_add(p->s, left, right)), times(p, a.den, b.den)});
}

static Quotient quotient_mul(Parser *p, Quotient a, Quotient b)
{
    return lowest_terms(p, (Quotient){times(p, a.num, b.num), times(p, a.den, b.den)});
}

static Quotient quotient_div(Parser *p, Quotient a, Quotient b)
{
    if (b.num->n == 0) return failure(p);
    return quotient_mul(p, a, (Quotient){b.den, b.num});
}

static Quotient floor_of(Parser *p, Quotient q)
{
    return whole(p, expr_floordiv(p->s, q.num, q.den));
}

static Quotient ceiling_of(Parser *p, Quotient q)
{
    return whole(p, expr_ceildiv(p->s, q.num, q.den));
}

static Expr *integral(Parser *p, Quotient q)
{
    if (expr_is(q.den, 1)) return q.num;
    return checked(p, expr_divide_exactly(p->s, q.num, q.den));
}

static Quotient sum(Parser *p);

/* ---- functions ---- */

typedef enum {
    FUNCTION_MIN,
    FUNCTION_MAX,
    FUNCTION_FLOOR,
    FUNCTION_CEILING,
    FUNCTION_MOD,
    FUNCTION_FLOORDIV,
    FUNCTION_CEILDIV,
    FUNCTION_DIVIDE,
    FUNCTION_SAME
} Function;

static const struct {
    const char *name;
    Function function;
    int arguments; /* 0: one or more */
} functions[] = {
    {"Min", FUNCTION_MIN, 0},         {"min", FUNCTION_MIN, 0},           {"Max", FUNCTION_MAX, 0},
    {"max", FUNCTION_MAX, 0},         {"floor", FUNCTION_FLOOR, 1},       {"FloorToInt", FUNCTION_FLOOR, 1},
    {"ceiling", FUNCTION_CEILING, 1}, {"ceil", FUNCTION_CEILING, 1},      {"CeilToInt", FUNCTION_CEILING, 1},
    {"Mod", FUNCTION_MOD, 2},         {"PythonMod", FUNCTION_MOD, 2},     {"FloorDiv", FUNCTION_FLOORDIV, 2},
    {"CeilDiv", FUNCTION_CEILDIV, 2}, {"CleanDiv", FUNCTION_FLOORDIV, 2}, {"IntTrueDiv", FUNCTION_DIVIDE, 2},
    {"Identity", FUNCTION_SAME, 1},
};

static Quotient call(Parser *p, Function function, const Quotient *arg, int n)
{
    Symbols *s = p->s;
    switch (function) {
    case FUNCTION_FLOOR: return floor_of(p, arg[0]);
    case FUNCTION_CEILING: return ceiling_of(p, arg[0]);
    case FUNCTION_FLOORDIV: return floor_of(p, quotient_div(p, arg[0], arg[1]));
    case FUNCTION_CEILDIV: return ceiling_of(p, quotient_div(p, arg[0], arg[1]));
    case FUNCTION_DIVIDE: return quotient_div(p, arg[0], arg[1]);
    case FUNCTION_SAME: return arg[0];
    case FUNCTION_MOD: {
        Expr *by = expr_canonical(p->s, integral(p, arg[1]));
        return by->n ? whole(p, expr_mod(s, integral(p, arg[0]), by)) : failure(p);
    }
    case FUNCTION_MIN:
    case FUNCTION_MAX: {
        Expr *out = integral(p, arg[0]);
        for (int i = 1; i < n; i++) out = (function == FUNCTION_MIN ? expr_min : expr_max)(s, out, integral(p, arg[i]));
        return whole(p, out);
    }
    }
    return failure(p);
}

/* After the name of a function and its "(". */
static Quotient function_call(Parser *p, const char *name, size_t length)
{
    enum { MOST_ARGUMENTS = 16 };
    Quotient arg[MOST_ARGUMENTS];
    int n = 0;
    do {
        if (n == MOST_ARGUMENTS) return failure(p);
        arg[n++] = sum(p);
    } while (!p->failed && accept(p, ","));
    if (!accept(p, ")") || p->failed) return failure(p);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strlen(functions[i].name) != length || strncmp(functions[i].name, name, length) != 0) continue;
        if (functions[i].arguments && functions[i].arguments != n) return failure(p);
        return call(p, functions[i].function, arg, n);
    }
    return failure(p);
}

/* ---- the grammar ---- */

static bool name_begins(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

static bool name_goes_on(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static Quotient number(Parser *p)
{
    int64_t value = 0;
    for (; isdigit((unsigned char)*p->at); p->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p->at - '0', &value)) return failure(p);
    if (name_begins(*p->at) || *p->at == '.') return failure(p);
    return whole(p, expr_int(p->s, value));
}

static Quotient quoted_name(Parser *p)
{
    Buf name = {.arena = p->s->arena};
    for (; *p->at && *p->at != '\''; p->at++) {
        if (*p->at == '\\' && p->at[1]) p->at++;
        buf_write(&name, p->at, 1);
    }
    if (!accept(p, "'")) return failure(p);
    return whole(p, expr_symbol(p->s, buf_text(&name)));
}

static Quotient unary(Parser *p)
{
    enum { DEEPEST = 200 };
    skip_space(p);
    if (p->depth >= DEEPEST) return failure(p);
    if (isdigit((unsigned char)*p->at)) return number(p);
    if (name_begins(*p->at)) {
        const char *name = p->at;
        while (name_goes_on(*p->at)) p->at++;
        size_t length = (size_t)(p->at - name);
        if (accept(p, "(")) return function_call(p, name, length);
        return whole(p, expr_symbol(p->s, arena_copy(p->s->arena, name, length)));
    }
    if (accept(p, "'")) return quoted_name(p);
    Quotient inner;
    p->depth++;
    if (accept(p, "-")) {
        inner = unary(p);
        inner.num = negative(p, inner.num);
    } else if (accept(p, "(")) {
        inner = sum(p);
        if (!accept(p, ")")) inner = failure(p);
    } else {
        inner = failure(p);
    }
    p->depth--;
    return inner;
}

static Quotient power(Parser *p)
{
    enum { HIGHEST = 16 };
    Quotient base = unary(p), out = base;
    if (!accept(p, "**")) return base;
    int64_t exponent;
    Quotient by = unary(p);
    if (p->failed || !expr_is(by.den, 1) || !expr_is_int(by.num, &exponent) || exponent < 1 || exponent > HIGHEST)
        return failure(p);
    for (int64_t i = 1; i < exponent && !p->failed; i++) out = quotient_mul(p, out, base);
    return out;
}

static Quotient product(Parser *p)
{
    Quotient out = power(p);
    while (!p->failed) {
        skip_space(p);
        if (accept(p, "//")) {
            out = quotient_div(p, out, power(p));
            if (!p->failed) out = floor_of(p, out);
        } else if (accept(p, "/")) {
            out = quotient_div(p, out, power(p));
        } else if (accept(p, "*")) {
            out = quotient_mul(p, out, power(p));
        } else if (accept(p, "%")) {
            Quotient arg[2] = {out, power(p)};
            out = p->failed ? out : call(p, FUNCTION_MOD, arg, 2);
        } else {
            break;
        }
    }
    return out;
}

static Quotient sum(Parser *p)
{
    p->depth++;
    Quotient out = product(p);
    while (!p->failed) {
        bool minus = accept(p, "-");
        if (!minus && !accept(p, "+")) break;
        Quotient next = product(p);
        if (minus) next.num = negative(p, next.num);
        if (!p->failed) out = quotient_add(p, out, next);
    }
    p->depth--;
    return out;
}

static Expr *parse_into(Symbols *s, const char *text)
{
    Parser p = {.s = s, .at = text};
    Quotient q = sum(&p);
    skip_space(&p);
    if (p.failed || *p.at) return NULL;
    Expr *out = integral(&p, q);
    return p.failed ? NULL : out;
}

Expr *expr_parse(Symbols *s, const char *text)
{
    Arena *trial = arena_new();
    bool is_expression = parse_into(symbols_new(trial), text) != NULL;
    arena_free(trial);
    return is_expression ? parse_into(s, text) : NULL;
}

/* ---- printing ---- */

typedef struct {
    Buf *out;
    bool c;
    bool js; /* calls as in C; every integer a BigInt */
    const char *(*name)(void *context, const Expr *symbol);
    void *context;
} Printer;

static void print_sum(const Printer *p, const Expr *e);

static void print_name(const Printer *p, const Atom *atom)
{
    if (p->c) {
        buf_put(p->out, p->name(p->context, atom->alone));
        return;
    }
    const char *c = atom->name;
    bool plain = name_begins(*c);
    while (plain && name_goes_on(*c)) c++;
    if (plain && !*c) {
        buf_put(p->out, atom->name);
        return;
    }
    buf_put(p->out, "'");
    for (c = atom->name; *c; c++) {
        if (*c == '\'' || *c == '\\') buf_put(p->out, "\\");
        buf_write(p->out, c, 1);
    }
    buf_put(p->out, "'");
}

static void print_call(const Printer *p, const char *function, const Expr *a, const Expr *b)
{
    buf_printf(p->out, "%s(", function);
    print_sum(p, a);
    buf_put(p->out, ", ");
    print_sum(p, b);
    buf_put(p->out, ")");
}

static void print_extremum(const Printer *p, const Atom *atom)
{
    const char *function = p->c ? (atom->kind == ATOM_MIN ? "min_int" : "max_int") : (atom->kind == ATOM_MIN ? "Min" : "Max");
    for (int i = 1; i < (p->c ? atom->n : 2); i++) buf_printf(p->out, "%s(", function); /* C: min_int(min_int(a, b), c) */
    print_sum(p, atom->arg[0]);
    for (int i = 1; i < atom->n; i++) {
        buf_put(p->out, ", ");
        print_sum(p, atom->arg[i]);
        if (p->c || i == atom->n - 1) buf_put(p->out, ")");
    }
}

/* Stands without parentheses beside * and //. */
static bool is_tight(const Expr *e)
{
    int64_t value;
    if (expr_is_int(e, &value)) return value >= 0;
    if (e->n != 1 || e->term[0].coef != 1 || e->term[0].mono->degree != 1) return false;
    AtomKind kind = e->term[0].mono->atom[0]->kind;
    return kind == ATOM_SYMBOL || kind == ATOM_MIN || kind == ATOM_MAX;
}

static void print_operand(const Printer *p, const Expr *e)
{
    bool tight = is_tight(e);
    if (!tight) buf_put(p->out, "(");
    print_sum(p, e);
    if (!tight) buf_put(p->out, ")");
}

static void print_infix(const Printer *p, const Expr *a, const char *operation, const Expr *b)
{
    print_operand(p, a);
    buf_put(p->out, operation);
    print_operand(p, b);
}

static int modulo_term(const Expr *e, int64_t *j);

/* (a + 15)//16 is how many sixteens hold a: C has a function for it. */
static bool prints_ceiling(const Printer *p, const Atom *atom)
{
    int64_t by, j;
    return p->c && !p->js && atom->kind == ATOM_FLOORDIV && expr_is_int(atom->arg[1], &by) && by > 1 && constant_of(atom->arg[0]) == by - 1 &&
           modulo_term(atom->arg[0], &j) < 0;
}

static void print_ceiling(const Printer *p, const Atom *atom)
{
    const Expr *a = atom->arg[0];
    Expr *without = arena_alloc(p->out->arena, sizeof *a + (size_t)a->n * sizeof *a->term); /* the term of degree 0 */
    without->n = 0;
    for (int i = 0; i < a->n; i++)
        if (a->term[i].mono->degree) without->term[without->n++] = a->term[i];
    print_call(p, "ceil_div", without, atom->arg[1]);
}

static void print_atom(const Printer *p, const Atom *atom, bool alone)
{
    bool division = atom->kind == ATOM_FLOORDIV;
    switch (atom->kind) {
    case ATOM_SYMBOL: print_name(p, atom); break;
    case ATOM_MIN:
    case ATOM_MAX: print_extremum(p, atom); break;
    case ATOM_FLOORDIV:
    case ATOM_MOD:
        if (prints_ceiling(p, atom)) {
            print_ceiling(p, atom);
            break;
        }
        if (p->c) {
            print_call(p, division ? "floor_div" : "floor_mod", atom->arg[0], atom->arg[1]);
            break;
        }
        if (!alone) buf_put(p->out, "(");
        print_infix(p, atom->arg[0], division ? "//" : " % ", atom->arg[1]);
        if (!alone) buf_put(p->out, ")");
        break;
    }
}

/* A term without its sign.  At the head of a sum after "-" a quotient keeps its parentheses: -(x//2) is not (-x)//2. */
static void print_term(const Printer *p, int64_t coef, const Mono *mono, bool bare)
{
    uint64_t size = coef < 0 ? -(uint64_t)coef : (uint64_t)coef;
    bool number = size != 1 || mono->degree == 0;
    if (number) buf_printf(p->out, "%" PRIu64 "%s", size, p->js ? "n" : p->c && size > INT32_MAX ? "LL" : "");
    for (int k = 0; k < mono->degree; k++) {
        if (number || k) buf_put(p->out, "*");
        print_atom(p, mono->atom[k], bare && !number && mono->degree == 1);
    }
}

static int64_t coefficient_in(const Expr *e, const Mono *mono)
{
    for (int i = 0; i < e->n; i++)
        if (e->term[i].mono == mono) return e->term[i].coef;
    return 0;
}

/* The term -j*c*(a//c) whose j*a stands in e too, its constant aside: together j*(a % c).  -1 where there is none. */
static int modulo_term(const Expr *e, int64_t *j)
{
    for (int i = 0; i < e->n; i++) {
        int64_t c, constant;
        const Mono *mono = e->term[i].mono;
        if (mono->degree != 1 || mono->atom[0]->kind != ATOM_FLOORDIV) continue;
        const Expr *a = mono->atom[0]->arg[0];
        if (!expr_is_int(mono->atom[0]->arg[1], &c) || e->term[i].coef % c) continue;
        *j = -(e->term[i].coef / c);
        bool all =
            !__builtin_mul_overflow(*j, constant_of(a), &constant) && !__builtin_sub_overflow(constant_of(e), constant, &constant);
        for (int k = 0; k < a->n && all; k++) {
            int64_t in_e = coefficient_in(e, a->term[k].mono);
            if (a->term[k].mono->degree) all = in_e % *j == 0 && in_e / *j == a->term[k].coef;
        }
        if (all) return i;
    }
    return -1;
}

/* j*(a % c) */
static void print_modulo(const Printer *p, const Atom *quotient, int64_t j, bool bare)
{
    bool number = j != 1 && j != -1;
    if (number) buf_printf(p->out, "%" PRIu64 "%s*", j < 0 ? -(uint64_t)j : (uint64_t)j, p->js ? "n" : "");
    if (p->c) {
        print_call(p, "floor_mod", quotient->arg[0], quotient->arg[1]);
        return;
    }
    if (number || !bare) buf_put(p->out, "(");
    print_infix(p, quotient->arg[0], " % ", quotient->arg[1]);
    if (number || !bare) buf_put(p->out, ")");
}

/* What is printed between + and -: terms, and at most one modulo. */
typedef struct {
    int64_t coef;
    const Mono *mono;     /* or */
    const Atom *quotient; /* coef*(a % c) */
} Piece;

static void print_piece(const Printer *p, const Piece *piece, bool first)
{
    bool negative = piece->coef < 0, bare = !(first && negative);
    buf_put(p->out, first ? (negative ? "-" : "") : negative ? " - " : " + ");
    if (piece->quotient)
        print_modulo(p, piece->quotient, piece->coef, bare);
    else
        print_term(p, piece->coef, piece->mono, bare);
}

static int pieces_of(const Expr *e, Piece *piece)
{
    int64_t j = 0;
    int n = 0, at = modulo_term(e, &j);
    const Expr *a = at < 0 ? NULL : e->term[at].mono->atom[0]->arg[0];
    if (a) piece[n++] = (Piece){.coef = j, .quotient = e->term[at].mono->atom[0]};
    int64_t constant = constant_of(e) - (a ? j * constant_of(a) : 0);
    for (int i = 0; i < e->n; i++) {
        const Mono *mono = e->term[i].mono;
        if (mono->degree && i != at && !(a && coefficient_in(a, mono))) piece[n++] = (Piece){.coef = e->term[i].coef, .mono = mono};
    }
    static const Mono one = {.degree = 0};
    if (constant || n == 0) piece[n++] = (Piece){.coef = constant, .mono = &one};
    return n;
}

/* A positive piece comes first, if there is one: 1 - x. */
static void print_sum(const Printer *p, const Expr *e)
{
    Piece *piece = NEW_ARRAY(p->out->arena, Piece, e->n + 1);
    int n = pieces_of(e, piece), first = 0;
    while (first < n && piece[first].coef < 0) first++;
    if (first == n) first = 0;
    print_piece(p, &piece[first], true);
    for (int i = 0; i < n; i++)
        if (i != first) print_piece(p, &piece[i], false);
}

void expr_print(Buf *out, const Expr *e)
{
    print_sum(&(Printer){.out = out}, e);
}

void expr_print_c(Buf *out, const Expr *e, const char *(*name)(void *context, const Expr *symbol), void *context)
{
    print_sum(&(Printer){.out = out, .c = true, .name = name, .context = context}, e);
}

void expr_print_js(Buf *out, const Expr *e, const char *(*name)(void *context, const Expr *symbol), void *context)
{
    print_sum(&(Printer){.out = out, .c = true, .js = true, .name = name, .context = context}, e);
}

const char *expr_text(Arena *arena, const Expr *e)
{
    Buf out = {.arena = arena};
    expr_print(&out, e);
    return buf_text(&out);
}
