/* Symbolic expressions: worked values for every function of the header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/diag.h"
#include "symbolic/expr.h"

static Arena *arena;
static Symbols *s;

static int fresh(void **state)
{
    (void)state;
    arena = arena_new();
    s = symbols_new(arena);
    return 0;
}

static int done(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static Expr *parsed(const char *text)
{
    Expr *e = expr_parse(s, text);
    if (!e) fail_msg("no expression: %s", text);
    return e;
}

#define assert_text(e, text) assert_string_equal(expr_text(arena, e), text)
#define assert_parses(text, printed) assert_text(parsed(text), printed)

static void test_sums(void **state)
{
    (void)state;
    Expr *x = expr_symbol(s, "x"), *y = expr_symbol(s, "y"), *two = expr_int(s, 2);
    assert_ptr_equal(expr_add(s, x, y), expr_add(s, y, x));
    assert_ptr_equal(expr_sub(s, expr_add(s, x, y), y), x);
    assert_ptr_equal(expr_sub(s, x, x), expr_int(s, 0));
    assert_text(expr_mul(s, expr_add(s, x, y), expr_sub(s, x, y)), "x*x - y*y");
    assert_text(expr_add(s, expr_product(s, (Expr *[]){two, x, y}, 3), expr_int(s, 3)), "2*x*y + 3");
    assert_true(expr_is(expr_product(s, NULL, 0), 1));
    assert_text(expr_sub(s, expr_int(s, 1), x), "1 - x");
    assert_text(expr_sub(s, expr_int(s, -1), x), "-x - 1");
}

static void test_floor_division(void **state)
{
    (void)state;
    assert_parses("(6*x + 4*y + 5)//4", "x + y + x//2 + 1");
    assert_parses("(x//2)//3", "x//6");
    assert_parses("(x//2 + y)//2", "(x + 2*y)//4");
    assert_parses("(8*x*y)//y", "8*x");
    assert_parses("(x*y + 3)//y", "x + 3//y");
    assert_parses("(2*x*y)//(4*x*z)", "y//(2*z)");
    assert_parses("x//(-2)", "x//2 - x");
    assert_parses("(-7)//2", "-4");
    assert_parses("x//(x + 1)", "0");
    assert_text(expr_ceildiv(s, parsed("x"), expr_int(s, 4)), "(x + 3)//4");
    assert_text(expr_ceildiv(s, expr_int(s, -7), expr_int(s, 2)), "-3");
}

static void test_modulo(void **state)
{
    (void)state;
    assert_parses("x % 2", "x % 2");
    assert_parses("x - 2*(x//2)", "x % 2");
    assert_parses("(4*x + 7) % 4", "3");
    assert_parses("(-7) % 3", "2");
    assert_parses("7 % (-3)", "-2");
    assert_parses("4 - x % 2", "4 - x % 2");
    assert_parses("3*((x + 1) % 4) - 7", "3*((x + 1) % 4) - 7");
    assert_parses("(x + y*z) % z", "x % z");
    Expr *x = expr_symbol(s, "even");
    symbol_divisible(s, x, 4);
    assert_true(expr_is(expr_mod(s, x, expr_int(s, 2)), 0));
    assert_true(expr_is(expr_mod(s, expr_add(s, x, expr_int(s, 3)), expr_int(s, 4)), 3));
}

static void test_extrema(void **state)
{
    (void)state;
    assert_parses("Min(x, x)", "x");
    assert_parses("Min(x + 1, x)", "x");
    assert_parses("Max(x + 1, x)", "x + 1");
    assert_parses("Min(x + 1, 2*y + 1)", "Min(x, 2*y) + 1");
    assert_parses("Min(2*x, 4*y)", "2*Min(x, 2*y)");
    assert_ptr_equal(parsed("Min(x, Min(y, z))"), parsed("Min(Min(z, x), y)"));
    assert_ptr_equal(parsed("Max(x, Min(x, y))"), parsed("x"));
    symbol_declare(s, expr_symbol(s, "b"), 1, 8, 0);
    assert_parses("Max(1, b)", "b");
    assert_parses("Min(b, 8)", "b");
}

static void test_text_of_exporters(void **state)
{
    (void)state;
    assert_parses("Min(s73, 2*((s73//2)))", "2*(s73//2)");
    assert_parses("s0 + 1", "s0 + 1");
    assert_parses("floor(s0/2 - 1/2) + 1", "(s0 + 1)//2");
    assert_parses("batch*seq", "batch*seq");
    assert_parses("s77 - 2*(s77//2)", "s77 % 2");
    assert_parses("2*(((s0 - 1)//2)) + 2", "2*((s0 + 1)//2)");
    assert_parses("Max(1, s0)", "Max(1, s0)");
    assert_parses("ceiling(s0/2)", "(s0 + 1)//2");
    assert_parses("Mod(s0, 2)", "s0 % 2");
    assert_parses("PythonMod(a, b)", "a % b");
    assert_parses("FloorDiv(a,b)", "a//b");
    assert_parses("FloorToInt(IntTrueDiv(s0, 4))", "s0//4");
    assert_parses("p2o.DynamicDimension.0", "p2o.DynamicDimension.0");
    assert_parses("unk__314", "unk__314");
    assert_parses("Transposeoutput_dim_1", "Transposeoutput_dim_1");
    assert_parses("s0**2", "s0*s0");
    assert_parses("4*s0/2", "2*s0");
    assert_parses("2", "2");
}

static void test_text_that_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "*",
                                        "input.1/dim",
                                        "a b",
                                        "a +",
                                        "(a",
                                        "a)",
                                        "a/2",
                                        "2.5*a",
                                        "2a",
                                        "f(a)",
                                        "Min()",
                                        "Mod(a)",
                                        "a//0",
                                        "a % 0",
                                        "9999999999999999999",
                                        "4611686018427387904*4*a",
                                        "'a",
                                        "a**0",
                                        "?",
                                        "a,b",
                                        "(a**16)**16",
                                        "(a + b + c + d)**16"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (expr_parse(s, texts[i])) fail_msg("an expression: \"%s\"", texts[i]);
    assert_int_equal(symbols_count(s), 0); /* and no symbol is left behind */
}

static void test_odd_names(void **state)
{
    (void)state;
    Expr *odd = expr_symbol(s, "it's input.1/dim");
    Expr *e = expr_add(s, expr_mul(s, odd, odd), expr_int(s, 1));
    assert_text(e, "'it\\'s input.1/dim'*'it\\'s input.1/dim' + 1");
    assert_ptr_equal(parsed(expr_text(arena, e)), e);
    assert_text(expr_symbol(s, "2"), "'2'");
    assert_ptr_equal(parsed("'2'"), expr_symbol(s, "2"));
}

static const char *upper_name(void *context, const Expr *symbol)
{
    return arena_text(context, "dims->%s", expr_symbol_name(symbol));
}

static const char *c_text(const char *text)
{
    Buf out = {.arena = arena};
    expr_print_c(&out, parsed(text), upper_name, arena);
    return buf_text(&out);
}

static void test_c_text(void **state)
{
    (void)state;
    assert_string_equal(c_text("2*x*y - 3"), "2*dims->x*dims->y - 3");
    assert_string_equal(c_text("Min(x, y, z)"), "min_int(min_int(dims->x, dims->y), dims->z)");
    assert_string_equal(c_text("(x + 1)//2 - y"), "ceil_div(dims->x, 2) - dims->y");
    assert_string_equal(c_text("(x + y + 15)//16"), "ceil_div(dims->x + dims->y, 16)");
    assert_string_equal(c_text("(x + 2)//2 + (x + 3)//5"), "floor_div(dims->x, 2) + floor_div(dims->x + 3, 5) + 1");
    assert_string_equal(c_text("x % 2"), "floor_mod(dims->x, 2)");
    assert_string_equal(c_text("x % y"), "floor_mod(dims->x, dims->y)");
    assert_string_equal(c_text("4294967296*x"), "4294967296LL*dims->x");
}

static const char *js_text(const char *text)
{
    Buf out = {.arena = arena};
    expr_print_js(&out, parsed(text), upper_name, arena);
    return buf_text(&out);
}

static void test_js_text(void **state)
{
    (void)state;
    assert_string_equal(js_text("2*x*y - 3"), "2n*dims->x*dims->y - 3n");
    assert_string_equal(js_text("(x + 1)//2 - y"), "floor_div(dims->x + 1n, 2n) - dims->y");
    assert_string_equal(js_text("3*(x % 2) + 1"), "3n*floor_mod(dims->x, 2n) + 1n");
    assert_string_equal(js_text("4294967296*x"), "4294967296n*dims->x");
    assert_string_equal(js_text("x - x"), "0n");
}

static void test_symbols(void **state)
{
    (void)state;
    Expr *x = expr_symbol(s, "x"), *y = expr_fresh(s, "x"), *z = expr_fresh(s, NULL), *late = expr_late(s, "found", parsed("2*x"));
    assert_string_equal(expr_symbol_name(y), "x_1");
    assert_string_equal(expr_symbol_name(z), "dim");
    assert_ptr_equal(expr_symbol(s, "x"), x);
    assert_int_equal(symbols_count(s), 4);
    assert_ptr_equal(symbols_at(s, 1), y);
    assert_int_equal(symbol_index(late), 3);
    assert_true(expr_has_late(expr_add(s, late, x)));
    assert_false(expr_has_late(x));
    assert_true(expr_is_symbol(late) && !expr_is_symbol(parsed("2*x")) && !expr_is_symbol(expr_int(s, 1)));
    Expr *found[2] = {0};
    assert_int_equal(expr_symbols(s, parsed("found//3 + Min(x_1, x)*x"), found, 2), 3);
    assert_ptr_equal(found[0], x);
    assert_ptr_equal(found[1], y);
    int64_t value = 0;
    assert_true(expr_is_int(expr_int(s, -5000), &value) && value == -5000);
    assert_false(expr_is_int(x, NULL));
}

static void test_facts(void **state)
{
    (void)state;
    Expr *x = expr_symbol(s, "x");
    SymbolFacts facts = symbol_facts(s, x);
    assert_true(facts.low == 0 && facts.high == EXPR_UNBOUNDED && facts.divisor == 1 && !facts.declared && facts.likely == 0);
    symbol_declare(s, x, 2, 100, 32);
    assert_true(symbol_narrow(s, x, 0, 50));
    assert_false(symbol_narrow(s, x, 51, 60));
    symbol_divisible(s, x, 4);
    symbol_divisible(s, x, 6);
    facts = symbol_facts(s, x);
    assert_true(facts.low == 2 && facts.high == 50 && facts.divisor == 12 && !facts.declared && facts.likely == 32);
    int64_t low, high;
    expr_bounds(s, x, &low, &high);
    assert_true(low == 12 && high == 48);
}

/* What the user expects is for plans alone: nothing may be concluded from it. */
static void test_expectations(void **state)
{
    (void)state;
    Expr *x = expr_symbol(s, "expected"), *limit = expr_int(s, 25);
    symbol_expect(s, x, 10, 20, 16);
    const SymbolFacts facts = symbol_facts(s, x);
    assert_true(facts.declared && facts.expected_low == 10 && facts.expected_high == 20 && facts.low == 0);
    assert_int_equal(expr_compare(s, x, limit), ORDER_UNDECIDED);
    assert_ptr_not_equal(expr_min(s, x, limit), x);
    assert_int_equal(expr_likely(s, x), 16);
}

static void assert_bounds(const char *text, int64_t low, int64_t high)
{
    int64_t from, to;
    expr_bounds(s, parsed(text), &from, &to);
    if (from != low || to != high) fail_msg("%s: %lld..%lld", text, (long long)from, (long long)to);
}

static void test_bounds(void **state)
{
    (void)state;
    symbol_declare(s, expr_symbol(s, "x"), 1, 10, 0);
    symbol_declare(s, expr_symbol(s, "y"), 2, 1000, 0);
    assert_bounds("7", 7, 7);
    assert_bounds("x*y - 1", 1, 9999);
    assert_bounds("x % 4", 0, 3);
    assert_bounds("(6*x + 1) % 4", 1, 3);
    assert_bounds("y - x*y", -9000, 0);
    assert_bounds("Min(x, y)", 1, 10);
    assert_bounds("x*x - x", 0, 90);
    assert_bounds("a*b*c", 0, (int64_t)1 << 62);
}

static void assert_order(const char *a, Order order, const char *b)
{
    Order found = expr_compare(s, parsed(a), parsed(b));
    if (found != order) fail_msg("%s and %s: %d", a, b, found);
}

static void test_compare(void **state)
{
    (void)state;
    symbol_declare(s, expr_symbol(s, "b"), 1, EXPR_UNBOUNDED, 0);
    symbol_declare(s, expr_symbol(s, "t"), 2, EXPR_UNBOUNDED, 0);
    assert_order("x", ORDER_EQUAL, "x");
    assert_order("x", ORDER_LESS, "x + 1");
    assert_order("b*t", ORDER_GREATER, "b");
    assert_order("4*b*t", ORDER_GREATER_EQUAL, "2*b*t + 4*b");
    assert_order("b", ORDER_UNDECIDED, "t");
    assert_order("2*(x//2)", ORDER_LESS_EQUAL, "x");
    assert_order("2*(x//2)", ORDER_GREATER, "x - 2");
    assert_order("Min(b, t)", ORDER_LESS_EQUAL, "t");
    assert_order("Min(b, t) + Max(b, t)", ORDER_EQUAL, "b + t");
    assert_order("(x + 1)//2", ORDER_EQUAL, "x - x//2");
    assert_order("x % y", ORDER_LESS_EQUAL, "x");
    assert_order("b*b*t", ORDER_GREATER_EQUAL, "b*t");
    Expr *late = expr_late(s, "late", parsed("b*t"));
    assert_true(expr_at_least(s, parsed("b*t"), late));
    assert_false(expr_at_least(s, late, parsed("b*t")));
}

static void test_never_equal(void **state)
{
    (void)state;
    assert_true(expr_never_equal(s, parsed("2*x"), parsed("2*y + 1")));
    assert_true(expr_never_equal(s, parsed("x"), parsed("x + 3")));
    assert_false(expr_never_equal(s, parsed("x"), parsed("y")));
    assert_true(expr_always_equal(s, parsed("x*y"), parsed("y*x")));
    assert_false(expr_always_equal(s, parsed("x"), parsed("y")));
}

static void test_equate(void **state)
{
    (void)state;
    Expr *x = expr_symbol(s, "x"), *y = expr_symbol(s, "y"), *sum = parsed("x + y");
    symbol_declare(s, x, 1, 64, 8);
    bool stated;
    assert_true(symbols_equate(s, x, y, &stated) && stated);
    assert_true(symbols_equate(s, y, x, &stated) && !stated);
    assert_ptr_equal(expr_canonical(s, y), x); /* the declared one stands for both */
    assert_text(expr_canonical(s, sum), "2*x");
    assert_text(expr_add(s, y, y), "2*x");
    assert_true(expr_always_equal(s, sum, parsed("2*x")));
    assert_false(symbols_equate(s, parsed("y + 1"), x, &stated));
    assert_false(symbols_equate(s, y, expr_int(s, 65), &stated)); /* out of range */
    assert_true(symbols_equate(s, parsed("2*a + 1"), x, &stated) && stated);
    assert_int_equal(symbol_facts(s, parsed("a")).high, 31); /* 2*a + 1 <= 64 */
    assert_true(symbols_equate(s, parsed("6*p*q"), parsed("9*r*q"), &stated) &&
                stated); /* no symbol stands alone: kept as a fact */
    assert_true(symbols_equate(s, parsed("12*p*q"), parsed("18*q*r"), &stated) && !stated);
    assert_true(symbols_equate(s, parsed("c"), expr_int(s, 3), NULL));
    assert_true(expr_is(expr_canonical(s, parsed("c*c")), 9));
    assert_int_equal(symbol_facts(s, expr_symbol(s, "c")).low, 3);
}

static void test_substitute(void **state)
{
    (void)state;
    Expr *x = expr_symbol(s, "x"), *e = parsed("x*y + x//2 + Min(x, z)");
    assert_text(expr_substitute(s, e, x, parsed("2*z")), "2*y*z + 2*z");
    assert_true(expr_is(expr_substitute(s, parsed("x*x - 1"), x, expr_int(s, 5)), 24));
    assert_text(expr_without(s, parsed("x*((y - 1)//z) + 3*((y - 1)//z) + z + y"), parsed("(y - 1)//z")), "y + z");
    assert_text(expr_without(s, parsed("x + y"), parsed("x + 1")), "x + y");
}

static const char *divided(const char *a, const char *b)
{
    Expr *out = expr_divide_exactly(s, parsed(a), parsed(b));
    return out ? expr_text(arena, out) : "no";
}

static void test_divide_exactly(void **state)
{
    (void)state;
    assert_string_equal(divided("64*batch*seq", "64*seq"), "batch");
    assert_string_equal(divided("x*x - y*y", "x + y"), "x - y");
    assert_string_equal(divided("2*(x//2)", "2"), "x//2");
    assert_string_equal(divided("x + 1", "2"), "no");
    assert_string_equal(divided("x", "y"), "no");
    assert_string_equal(divided("x", "0"), "no");
    assert_string_equal(divided("0", "y"), "0");
    symbol_divisible(s, expr_symbol(s, "heads"), 8);
    assert_string_equal(divided("heads*x + 16", "8"), "(x*heads)//8 + 2");
}

static void test_solve(void **state)
{
    (void)state;
    Expr *value = expr_symbol(s, "value"), *solution = NULL;
    assert_ptr_equal(expr_solve(s, parsed("2*time + 1"), value, &solution), expr_symbol(s, "time"));
    assert_text(solution, "(value + 1)//2 - 1");
    assert_ptr_equal(expr_solve(s, parsed("4*x + y + z//2"), value, &solution), expr_symbol(s, "y"));
    assert_text(solution, "value - 4*x - z//2");
    assert_ptr_equal(expr_solve(s, parsed("batch*seq"), value, &solution), expr_symbol(s, "batch"));
    assert_text(solution, "value//seq");
    assert_null(expr_solve(s, parsed("w//2"), value, &solution));
    assert_null(expr_solve(s, parsed("w + w*w"), value, &solution));
    assert_null(expr_solve(s, expr_int(s, 4), value, &solution));
}

static void test_evaluate(void **state)
{
    (void)state;
    Expr *e = parsed("x*y - (x - 7)//2 + Min(x, 3)");
    int64_t result = 0, values[] = {4, 5};
    assert_true(expr_evaluate(s, e, values, &result));
    assert_int_equal(result, 20 + 2 + 3);
    assert_false(expr_evaluate(s, parsed("x//(y - 5)"), values, &result));
    assert_false(expr_evaluate(s, parsed("x*x*x"), (int64_t[]){INT64_C(1) << 31, 0}, &result));
}

static void add_text(void *context, Expr *divisor)
{
    buf_printf(context, "%s;", expr_text(arena, divisor));
}

static void test_divisors(void **state)
{
    (void)state;
    Buf found = {.arena = arena};
    expr_divisors(parsed("x*y//4 + Min(x//(y//2), y % (x - 5)) + 3"), add_text, &found);
    assert_string_equal(buf_text(&found), "y//2;x - 5;");
}

static void test_likely(void **state)
{
    (void)state;
    symbol_declare(s, expr_symbol(s, "batch"), 1, 64, 8);
    symbol_declare(s, expr_symbol(s, "seq"), 1, 21, 0);
    assert_int_equal(expr_likely(s, parsed("batch*seq")), 8 * 11);
    assert_int_equal(expr_likely(s, parsed("unknown")), 64);
    assert_int_equal(expr_likely(s, parsed("batch//(seq - 11)")), 64); /* no value there: the upper bound */
    symbols_equate(s, parsed("seq"), expr_int(s, 3), NULL);
    assert_int_equal(expr_likely(s, parsed("batch*seq")), 24);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sums),
        TEST(test_floor_division),
        TEST(test_modulo),
        TEST(test_extrema),
        TEST(test_text_of_exporters),
        TEST(test_text_that_is_none),
        TEST(test_odd_names),
        TEST(test_c_text), TEST(test_js_text),
        TEST(test_symbols),
        TEST(test_facts),
        TEST(test_expectations),
        TEST(test_bounds),
        TEST(test_compare),
        TEST(test_never_equal),
        TEST(test_equate),
        TEST(test_substitute),
        TEST(test_divide_exactly),
        TEST(test_solve),
        TEST(test_evaluate),
        TEST(test_divisors),
        TEST(test_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
