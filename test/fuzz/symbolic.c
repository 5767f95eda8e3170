/* Fuzzes symbolic expressions against plain evaluation.
 *
 *     symbolic_fuzz [CASES] [SEED] [pairs]
 *
 * pairs: prints what was compared, for another judge: ranges and divisors, the answer, the two trees, parted by tabs.
 *
 * A world is a few symbols with small ranges, divisors, sometimes an equality or a symbol bounded by an expression, and the list of
 * its points.  A case is two random trees in a world: each is made an expression and evaluated, tree and expression, at every
 * point. Prints the seed, the counts, and the share of pairs that expr_compare left undecided though their order is the same at
 * every point. Exit status 1 with the first wrong answer. */
#include "support/diag.h"
#include "symbolic/expr.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SYMBOLS = 3, MOST_POINTS = 2048, FEW_POINTS = 512, CASES_A_WORLD = 128, MOST_NODES = 64, DEPTH = 4 };

/* ---- random numbers: splitmix64 ---- */

static uint64_t random_state;

static uint64_t random_bits(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(random_bits() % (uint64_t)(high - low + 1));
}

static bool one_in(int n)
{
    return between(1, n) == 1;
}

static bool print_pairs;

/* ---- worlds ---- */

typedef struct {
    Arena *arena;
    Symbols *s;
    int n_symbols, n_points;
    Expr *symbol[MOST_SYMBOLS];
    int64_t low[MOST_SYMBOLS], high[MOST_SYMBOLS], divisor[MOST_SYMBOLS];
    bool all_points;                    /* not a sample */
    bool related;                       /* an equality or a late symbol: not every point of the ranges is a point of the world */
    int64_t (*point)[MOST_SYMBOLS + 1]; /* room for one more symbol: the value that is solved for */
} World;

/* ---- trees ---- */

typedef enum {
    NODE_INT,
    NODE_SYMBOL,
    NODE_ADD,
    NODE_SUB,
    NODE_MUL,
    NODE_FLOORDIV,
    NODE_CEILDIV,
    NODE_MOD,
    NODE_MIN,
    NODE_MAX
} NodeKind;

typedef struct {
    NodeKind kind;
    int a, b;
    int64_t value;
    Expr *e;
} Node;

typedef struct {
    Node node[MOST_NODES];
    int n;
} Tree;

static int leaf(World *w, Tree *t)
{
    Node node = {.kind = one_in(3) ? NODE_INT : NODE_SYMBOL, .value = between(-4, 8)};
    if (node.kind == NODE_SYMBOL) {
        node.a = (int)between(0, w->n_symbols - 1);
        node.e = w->symbol[node.a];
    } else {
        node.e = expr_int(w->s, node.value);
    }
    t->node[t->n] = node;
    return t->n++;
}

static Expr *operate(Symbols *s, NodeKind kind, Expr *a, Expr *b)
{
    switch (kind) {
    case NODE_ADD: return expr_add(s, a, b);
    case NODE_SUB: return expr_sub(s, a, b);
    case NODE_MUL: return expr_mul(s, a, b);
    case NODE_FLOORDIV: return expr_floordiv(s, a, b);
    case NODE_CEILDIV: return expr_ceildiv(s, a, b);
    case NODE_MOD: return expr_mod(s, a, b);
    case NODE_MIN: return expr_min(s, a, b);
    case NODE_MAX: return expr_max(s, a, b);
    case NODE_INT:
    case NODE_SYMBOL: break;
    }
    bug("no operation");
}

static NodeKind random_operation(void)
{
    static const NodeKind kinds[] = {NODE_ADD,      NODE_ADD,      NODE_ADD,     NODE_SUB, NODE_SUB, NODE_MUL, NODE_MUL,
                                     NODE_FLOORDIV, NODE_FLOORDIV, NODE_CEILDIV, NODE_MOD, NODE_MIN, NODE_MAX};
    return kinds[between(0, (int64_t)(sizeof kinds / sizeof *kinds) - 1)];
}

static int operation(World *w, Tree *t, NodeKind kind, int a, int b)
{
    bool divides = kind == NODE_FLOORDIV || kind == NODE_CEILDIV || kind == NODE_MOD;
    if (divides && (expr_is(expr_canonical(w->s, t->node[b].e), 0) || !one_in(8))) { /* most divisors are integers */
        int64_t divisor = one_in(8) ? -between(1, 5) : between(1, 8);
        t->node[t->n] = (Node){.kind = NODE_INT, .value = divisor, .e = expr_int(w->s, divisor)};
        b = t->n++;
    }
    t->node[t->n] = (Node){.kind = kind, .a = a, .b = b, .e = operate(w->s, kind, t->node[a].e, t->node[b].e)};
    return t->n++;
}

static int grow(World *w, Tree *t, int depth)
{
    if (depth == 0 || one_in(4)) return leaf(w, t);
    int a = grow(w, t, depth - 1), b = grow(w, t, depth - 1);
    return operation(w, t, random_operation(), a, b);
}

static bool floor_divide(int64_t a, int64_t b, int64_t *q)
{
    if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
    *q = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
}

/* false where the tree has no value: a division by 0, an overflow */
static bool node_value(const Node *node, int64_t a, int64_t b, int64_t *out)
{
    int64_t q;
    switch (node->kind) {
    case NODE_ADD: return !__builtin_add_overflow(a, b, out);
    case NODE_SUB: return !__builtin_sub_overflow(a, b, out);
    case NODE_MUL: return !__builtin_mul_overflow(a, b, out);
    case NODE_FLOORDIV: return floor_divide(a, b, out);
    case NODE_CEILDIV:
        if (b == 0 || a == INT64_MIN || !floor_divide(-a, b, &q)) return false;
        *out = -q;
        return true;
    case NODE_MOD:
        if (!floor_divide(a, b, &q)) return false;
        *out = a - b * q;
        return true;
    case NODE_MIN: *out = a < b ? a : b; return true;
    case NODE_MAX: *out = a > b ? a : b; return true;
    case NODE_INT:
    case NODE_SYMBOL: break;
    }
    return false;
}

/* The value of the last node; false where any node has none. */
static bool tree_value(const Tree *t, const int64_t *point, int64_t *out)
{
    int64_t value[MOST_NODES];
    for (int i = 0; i < t->n; i++) {
        const Node *node = &t->node[i];
        if (node->kind == NODE_INT)
            value[i] = node->value;
        else if (node->kind == NODE_SYMBOL)
            value[i] = point[node->a];
        else if (!node_value(node, value[node->a], value[node->b], &value[i]))
            return false;
    }
    *out = value[t->n - 1];
    return true;
}

static Expr *tree_expr(const Tree *t)
{
    return t->node[t->n - 1].e;
}

/* ---- what is counted and what is wrong ---- */

static struct {
    int64_t cases, worlds, pairs_few, undecided_few, pairs_many, undecided_many, weak, solved, divided, round_trips;
} count;

static void wrong(const World *w, const char *what, const Expr *a, const Expr *b, const int64_t *point, int64_t wanted,
                  int64_t found)
{
    printf("WRONG: %s\n  a = %s\n", what, expr_text(w->arena, a));
    if (b) printf("  b = %s\n", expr_text(w->arena, b));
    for (int v = 0; v < w->n_symbols; v++) {
        SymbolFacts facts = symbol_facts(w->s, w->symbol[v]);
        printf("  %s: %" PRId64 "..%" PRId64 " by %" PRId64 " = %s", expr_symbol_name(w->symbol[v]), facts.low, facts.high,
               facts.divisor, expr_text(w->arena, expr_canonical(w->s, w->symbol[v])));
        printf(point ? ", at %" PRId64 "\n" : "\n", point ? point[v] : 0);
    }
    printf("  wanted %" PRId64 ", found %" PRId64 "\n", wanted, found);
    exit(1);
}

/* ---- making worlds ---- */

static void random_ranges(World *w)
{
    int kind = (int)between(0, 9);
    for (int v = 0; v < w->n_symbols; v++) {
        int64_t low = between(0, 3), width = kind < 5 ? between(0, 4) : kind < 8 ? between(2, 11) : between(6, 40);
        if (kind == 9 && one_in(2)) width = EXPR_UNBOUNDED - low;
        w->low[v] = low;
        w->high[v] = low + width;
        w->divisor[v] = one_in(12) ? between(2, 4) : 1;
        if (w->high[v] / w->divisor[v] * w->divisor[v] < low) w->divisor[v] = 1;
        symbol_declare(w->s, w->symbol[v], low, low + width, 0);
        symbol_divisible(w->s, w->symbol[v], w->divisor[v]);
    }
}

static int64_t range_points(const World *w)
{
    int64_t n = 1;
    for (int v = 0; v < w->n_symbols && n <= MOST_POINTS; v++) n *= w->high[v] - w->low[v] + 1;
    return n;
}

static void all_points(World *w)
{
    int64_t at[MOST_SYMBOLS] = {0};
    int64_t n = range_points(w);
    w->all_points = n <= MOST_POINTS;
    for (int v = 0; v < w->n_symbols; v++) at[v] = w->low[v];
    for (int64_t k = 0; k < (w->all_points ? n : 64); k++) {
        bool fits = true;
        for (int v = 0; v < w->n_symbols; v++) {
            if (!w->all_points) at[v] = one_in(3) ? w->low[v] : one_in(2) ? w->high[v] : between(w->low[v], w->high[v]);
            fits &= at[v] % w->divisor[v] == 0;
        }
        if (fits) memcpy(w->point[w->n_points++], at, sizeof at);
        for (int v = 0; w->all_points && v < w->n_symbols; v++) {
            if (++at[v] <= w->high[v]) break;
            at[v] = w->low[v];
        }
    }
}

/* Keeps the points where the difference of two trees is 0 (or at most 0). */
static void keep_points(World *w, const Tree *a, const Tree *b, bool equal)
{
    int kept = 0;
    for (int k = 0; k < w->n_points; k++) {
        int64_t x, y;
        if (!tree_value(a, w->point[k], &x) || !tree_value(b, w->point[k], &y)) continue;
        if (equal ? x == y : x <= y) memmove(w->point[kept++], w->point[k], sizeof w->point[k]);
    }
    w->n_points = kept;
}

static void state_equality(World *w)
{
    Tree a = {.n = 0}, b = {.n = 0};
    grow(w, &a, 1);
    grow(w, &b, 2);
    w->related = true;
    bool stated, possible = symbols_equate(w->s, tree_expr(&a), tree_expr(&b), &stated);
    keep_points(w, &a, &b, true);
    if (!possible && w->n_points) wrong(w, "equality said to be impossible", tree_expr(&a), tree_expr(&b), w->point[0], 1, 0);
    if (!possible) w->n_points = 0;
}

/* The last symbol is known late and at most an expression over the others. */
static void add_late_symbol(World *w)
{
    Tree upper = {.n = 0}, symbol = {.n = 1};
    grow(w, &upper, 2);
    int v = w->n_symbols;
    w->related = true;
    Expr *bound = expr_max(w->s, tree_expr(&upper), expr_int(w->s, 0));
    w->symbol[v] = expr_late(w->s, "late", bound);
    w->low[v] = 0;
    w->high[v] = between(0, 9);
    w->divisor[v] = 1;
    symbol_narrow(w->s, w->symbol[v], 0, w->high[v]);
    w->n_symbols++;
    all_points(w);
    symbol.node[0] = (Node){.kind = NODE_SYMBOL, .a = v};
    int zero = upper.n;
    upper.node[upper.n++] = (Node){.kind = NODE_INT, .value = 0};
    upper.node[upper.n++] = (Node){.kind = NODE_MAX, .a = zero - 1, .b = zero};
    keep_points(w, &symbol, &upper, false);
}

static World world_new(void)
{
    static const char *const names[] = {"x", "y", "z"};
    World w = {.arena = arena_new()};
    w.s = symbols_new(w.arena);
    w.point = arena_alloc(w.arena, sizeof *w.point * MOST_POINTS);
    w.n_symbols = (int)between(1, MOST_SYMBOLS);
    for (int v = 0; v < w.n_symbols; v++) w.symbol[v] = expr_symbol(w.s, names[v]);
    random_ranges(&w);
    if (w.n_symbols < MOST_SYMBOLS && one_in(6))
        add_late_symbol(&w);
    else
        all_points(&w);
    if (w.n_symbols > 1 && one_in(6)) state_equality(&w);
    count.worlds++;
    return w;
}

/* ---- checks ---- */

static void check_simplified(World *w, const Tree *t)
{
    Expr *e = tree_expr(t), *canonical = expr_canonical(w->s, e);
    int64_t low, high;
    expr_bounds(w->s, e, &low, &high);
    for (int k = 0; k < w->n_points; k++) {
        int64_t wanted, found;
        if (!tree_value(t, w->point[k], &wanted) || !expr_evaluate(w->s, e, w->point[k], &found)) continue;
        if (found != wanted) wrong(w, "simplified", e, NULL, w->point[k], wanted, found);
        if ((low > -((int64_t)1 << 62) && wanted < low) || (high < (int64_t)1 << 62 && wanted > high))
            wrong(w, "bounds", e, NULL, w->point[k], wanted, wanted < low ? low : high);
        if (canonical != e && expr_evaluate(w->s, canonical, w->point[k], &found) && found != wanted)
            wrong(w, "canonical", e, canonical, w->point[k], wanted, found);
    }
}

static void check_round_trip(World *w, Expr *e)
{
    e = expr_canonical(w->s, e);
    Expr *again = expr_parse(w->s, expr_text(w->arena, e));
    bool divisors = false; /* z - 3*(z//3) is printed z % 3, and that is 0 where z is known to be divisible by 3 */
    for (int v = 0; v < w->n_symbols; v++) divisors |= w->divisor[v] > 1;
    if (again != e && !(divisors && again && expr_always_equal(w->s, e, again)))
        wrong(w, "printed and parsed", e, again, NULL, 1, 0);
    count.round_trips++;
}

/* (x//(y + 2)) as floordiv(x, add(y, 2)) */
static void print_tree(const World *w, const Tree *t, int at)
{
    static const char *const names[] = {
        [NODE_ADD] = "add",         [NODE_SUB] = "sub", [NODE_MUL] = "mul",   [NODE_FLOORDIV] = "floordiv",
        [NODE_CEILDIV] = "ceildiv", [NODE_MOD] = "mod", [NODE_MIN] = "least", [NODE_MAX] = "most"};
    const Node *node = &t->node[at];
    if (node->kind == NODE_INT) {
        printf("%" PRId64, node->value);
    } else if (node->kind == NODE_SYMBOL) {
        printf("%s", expr_text(w->arena, w->symbol[node->a]));
    } else {
        printf("%s(", names[node->kind]);
        print_tree(w, t, node->a);
        printf(", ");
        print_tree(w, t, node->b);
        printf(")");
    }
}

static void print_pair(const World *w, const Tree *a, const Tree *b, Order order)
{
    static const char *const signs[] = {"?", "<", "<=", "==", ">=", ">"};
    for (int v = 0; v < w->n_symbols; v++)
        printf("%s%s %" PRId64 " %" PRId64 " %" PRId64, v ? ";" : "", expr_text(w->arena, w->symbol[v]), w->low[v], w->high[v],
               w->divisor[v]);
    printf("\t%s\t", signs[order]);
    print_tree(w, a, a->n - 1);
    printf("\t");
    print_tree(w, b, b->n - 1);
    printf("\n");
}

static void check_order(World *w, const Tree *a, const Tree *b)
{
    Order order = expr_compare(w->s, tree_expr(a), tree_expr(b));
    if (print_pairs && !w->related) print_pair(w, a, b, order);
    bool less = false, equal = false, greater = false;
    for (int k = 0; k < w->n_points; k++) {
        int64_t x, y;
        if (!tree_value(a, w->point[k], &x) || !tree_value(b, w->point[k], &y)) continue;
        less |= x < y;
        equal |= x == y;
        greater |= x > y;
        bool right = order == ORDER_UNDECIDED || (x < y && order <= ORDER_LESS_EQUAL) || (x > y && order >= ORDER_GREATER_EQUAL) ||
                     (x == y && order >= ORDER_LESS_EQUAL && order <= ORDER_GREATER_EQUAL);
        if (!right) wrong(w, "order", tree_expr(a), tree_expr(b), w->point[k], x < y ? -1 : x > y, order);
    }
    if (expr_never_equal(w->s, tree_expr(a), tree_expr(b)) && equal)
        wrong(w, "never equal", tree_expr(a), tree_expr(b), NULL, 0, 1);
    if (!w->all_points || (less && greater) || !(less || equal || greater)) return;
    bool few = range_points(w) <= FEW_POINTS;
    *(few ? &count.pairs_few : &count.pairs_many) += 1;
    if (order == ORDER_UNDECIDED) {
        *(few ? &count.undecided_few : &count.undecided_many) += 1;
        if (getenv("SHOW_UNDECIDED") && !few) {
            printf("undecided (%s): %s  ?  %s   ",
                   less      ? equal ? "<=" : "<"
                   : greater ? equal ? ">=" : ">"
                             : "==",
                   expr_text(w->arena, tree_expr(a)), expr_text(w->arena, tree_expr(b)));
            for (int v = 0; v < w->n_symbols; v++) printf(" %" PRId64 "..%" PRId64, w->low[v], w->high[v]);
            printf("\n");
        }
    }
    count.weak += (order == ORDER_LESS_EQUAL || order == ORDER_GREATER_EQUAL) && (!equal || !(less || greater));
}

static void check_division(World *w, const Tree *a, const Tree *b)
{
    Symbols *s = w->s;
    Expr *x = expr_canonical(s, tree_expr(a)), *y = expr_canonical(s, tree_expr(b));
    if (expr_is(y, 0)) return;
    Expr *product = expr_mul(s, x, y), *back = expr_divide_exactly(s, product, y);
    if (back != x) wrong(w, "product divided", x, y, NULL, 1, back != NULL);
    Expr *quotient = expr_divide_exactly(s, x, y);
    count.divided += quotient != NULL;
    for (int k = 0; quotient && k < w->n_points; k++) {
        int64_t p, q, r;
        if (!expr_evaluate(s, x, w->point[k], &p) || !expr_evaluate(s, y, w->point[k], &q)) continue;
        if (!expr_evaluate(s, quotient, w->point[k], &r) || (__int128)q * r != p)
            wrong(w, "divided exactly", x, y, w->point[k], p, r);
    }
}

static void check_solution(World *w, const Tree *t)
{
    Expr *solution = NULL, *value = expr_symbol(w->s, "value"), *e = tree_expr(t);
    if (symbol_index(value) != w->n_symbols) bug("value is symbol %d", symbol_index(value));
    Expr *symbol = expr_solve(w->s, e, value, &solution);
    if (!symbol) return;
    count.solved++;
    for (int k = 0; k < w->n_points; k++) {
        int64_t *point = w->point[k], found;
        if (!tree_value(t, point, &point[w->n_symbols]) || !expr_evaluate(w->s, solution, point, &found)) continue;
        if (found != point[symbol_index(symbol)]) wrong(w, "solved", e, solution, point, point[symbol_index(symbol)], found);
    }
}

static void check_substitution(World *w, const Tree *t)
{
    if (w->related) return;
    int v = (int)between(0, w->n_symbols - 1), by = (int)between(0, w->n_symbols - 1);
    Expr *e = expr_substitute(w->s, tree_expr(t), w->symbol[v], expr_add(w->s, w->symbol[by], expr_int(w->s, 1)));
    for (int k = 0; k < w->n_points; k++) {
        int64_t moved[MOST_SYMBOLS + 1], wanted, found;
        memcpy(moved, w->point[k], sizeof moved);
        moved[v] = w->point[k][by] + 1;
        if (moved[v] < w->low[v] || moved[v] > w->high[v] || moved[v] % w->divisor[v])
            continue; /* out of what is known of the symbol */
        if (!tree_value(t, moved, &wanted) || !expr_evaluate(w->s, e, w->point[k], &found)) continue;
        if (found != wanted) wrong(w, "substituted", tree_expr(t), e, w->point[k], wanted, found);
    }
}

/* A tree that has to do with another: it, an operation, a small tree. */
static void relative(World *w, Tree *out, const Tree *of)
{
    *out = *of;
    if (out->n > MOST_NODES - 8) return;
    int a = out->n - 1, b = grow(w, out, 1);
    operation(w, out, random_operation(), a, b);
}

static void run_case(World *w, int64_t number)
{
    Tree a = {.n = 0}, b = {.n = 0};
    grow(w, &a, (int)between(1, DEPTH));
    if (one_in(2))
        relative(w, &b, &a);
    else
        grow(w, &b, (int)between(1, DEPTH));
    check_simplified(w, &a);
    check_order(w, &a, &b);
    switch (number % 8) {
    case 0: check_round_trip(w, tree_expr(&a)); break;
    case 1: check_division(w, &a, &b); break;
    case 2: check_solution(w, &a); break;
    case 3: check_substitution(w, &a); break;
    default: break;
    }
    count.cases++;
}

int main(int argc, char **argv)
{
    int64_t cases = argc > 1 ? strtoll(argv[1], NULL, 10) : 100000;
    random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    print_pairs = argc > 3 && !strcmp(argv[3], "pairs");
    printf("symbolic_fuzz %" PRId64 " %" PRIu64 "\n", cases, random_state);
    fflush(stdout);
    while (count.cases < cases) {
        World w = world_new();
        for (int i = 0; w.n_points && i < CASES_A_WORLD && count.cases < cases; i++) run_case(&w, i);
        arena_free(w.arena);
    }
    printf("cases %" PRId64 ", worlds %" PRId64 ", round trips %" PRId64 ", divided %" PRId64 ", solved %" PRId64
           ": nothing wrong\n",
           count.cases, count.worlds, count.round_trips, count.divided, count.solved);
    int64_t pairs = count.pairs_few + count.pairs_many, undecided = count.undecided_few + count.undecided_many;
    printf("undecided: %.2f %% of %" PRId64 " pairs of constant order (up to %d points: %.2f %%, more: %.2f %% of %" PRId64 ")\n",
           100.0 * (double)undecided / (double)(pairs ? pairs : 1), pairs, FEW_POINTS,
           100.0 * (double)count.undecided_few / (double)(count.pairs_few ? count.pairs_few : 1),
           100.0 * (double)count.undecided_many / (double)(count.pairs_many ? count.pairs_many : 1), count.pairs_many);
    printf("weaker than could be (<= for <, or for =): %.2f %%\n", 100.0 * (double)count.weak / (double)(pairs ? pairs : 1));
    return 0;
}
