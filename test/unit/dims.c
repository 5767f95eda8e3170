/* Names and ranges of dims: what --dim and --name-dim leave in the model and the symbols, and what they refuse. */
#include "passes/passes.h"
#include "test/support/model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static Arena *arena;
static Symbols *symbols;
static OnnxModel *model;

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    symbols = symbols_new(arena);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

#define MODEL "in x f32 batch,seq,4\nin y i64 batch,2*seq,?\nin z f32 ?,3\nRelu r: x -> o\nout o\n"

typedef struct Given {
    const char *model, *dim, *name_dim;
} Given;

static void run(void *with)
{
    const Given *given = with;
    Options options = {0};
    model = model_from_text(arena, given->model);
    if (given->dim) vec_push(arena, &options.dims, given->dim);
    if (given->name_dim) vec_push(arena, &options.name_dims, given->name_dim);
    pass_dims(symbols, model, &options, arena);
}
static void pass(const char *dim, const char *name_dim)
{
    run(&(Given){MODEL, dim, name_dim});
}

static const OnnxDim *dim_of(int input, int axis)
{
    return &model->graph->inputs[input].dims[axis];
}

static void range_is(const char *name, int64_t low, int64_t high, int64_t likely)
{
    Expr *symbol = expr_symbol(symbols, name);
    assert_int_equal(symbol_facts(symbols, symbol).expected_low, low);
    assert_int_equal(symbol_facts(symbols, symbol).expected_high, high);
    assert_int_equal(symbol_facts(symbols, symbol).likely, likely);
}

static void unnamed_dims_are_named_by_their_place(void **state)
{
    (void)state;
    pass(NULL, NULL);
    assert_string_equal(dim_of(1, 2)->param, "y.2");
    assert_string_equal(dim_of(2, 0)->param, "z.0");
    assert_string_equal(dim_of(0, 0)->param, "batch");
}

static void ranges(void **state)
{
    (void)state;
    pass("batch=2..64~8", NULL);
    range_is("batch", 2, 64, 8);
    pass("x.1=4..9", NULL); /* a place means its symbol */
    Expr *seq = expr_symbol(symbols, "seq");
    assert_int_equal(symbol_facts(symbols, seq).expected_low, 4);
    assert_int_equal(symbol_facts(symbols, seq).expected_high, 9);
    pass("z.0=1..5", NULL);
    assert_int_equal(symbol_facts(symbols, expr_symbol(symbols, "z.0")).expected_high, 5);
}

static void fixed(void **state)
{
    (void)state;
    pass("batch=7", NULL);
    assert_true(dim_of(0, 0)->known && dim_of(1, 0)->known);
    assert_int_equal(dim_of(1, 0)->value, 7);
    range_is("batch", 7, 7, 7);
}

/* A new name holds wherever the old one stood, inside expressions too. */
static void renamed(void **state)
{
    (void)state;
    pass(NULL, "x.1=length");
    assert_string_equal(dim_of(0, 1)->param, "length");
    assert_string_equal(dim_of(1, 1)->param, "2*length");
    assert_string_equal(dim_of(0, 0)->param, "batch");
    pass("n=1..3", "z.0=n");
    assert_string_equal(dim_of(2, 0)->param, "n");
    assert_string_equal(dim_of(1, 2)->param, "y.2");
    assert_int_equal(symbol_facts(symbols, expr_symbol(symbols, "n")).expected_high, 3);
    pass(NULL, "y.2=batch"); /* two dims become one */
    assert_string_equal(dim_of(1, 2)->param, "batch");
}

static void errors(void **state)
{
    (void)state;
#define FORMS "wanted NAME=LO..HI, NAME=LO..HI~LIKELY or NAME=N"
    static const struct {
        Given given;
        const char *text;
    } cases[] = {
        {{MODEL, "bacth=4", NULL}, "--dim bacth=4: the model has no dim \"bacth\"; near are \"batch\""},
        {{MODEL, "zzzzzz=4", NULL}, "--dim zzzzzz=4: the model has no dim \"zzzzzz\""},
        {{MODEL, "batch", NULL}, "--dim batch: " FORMS},
        {{MODEL, "batch=", NULL}, "--dim batch=: " FORMS},
        {{MODEL, "batch=x", NULL}, "--dim batch=x: \"x\" is no size; " FORMS ", sizes from 0 to 2^30"},
        {{MODEL, "batch=-1..4", NULL}, "--dim batch=-1..4: \"-1..4\" is no size; " FORMS ", sizes from 0 to 2^30"},
        {{MODEL, "batch=1..99999999999", NULL},
         "--dim batch=1..99999999999: \"99999999999\" is no size; " FORMS ", sizes from 0 to 2^30"},
        {{MODEL, "batch=9..4", NULL}, "--dim batch=9..4: wanted NAME=LO..HI with LO <= HI, and a likely value between them"},
        {{MODEL, "batch=1..4~5", NULL}, "--dim batch=1..4~5: wanted NAME=LO..HI with LO <= HI, and a likely value between them"},
        {{MODEL, "batch=1..4x", NULL}, "--dim batch=1..4x: wanted NAME=LO..HI with LO <= HI, and a likely value between them"},
        {{MODEL, "x.2=5", NULL}, "--dim x.2=5: that dim is fixed to 4 in the model"},
        {{MODEL, "y.1=5", NULL}, "--dim y.1=5: that dim is computed, 2*seq; give the names in it"},
        {{MODEL, NULL, "x.2=n"}, "--name-dim x.2=n: that dim is fixed to 4 in the model"},
        {{MODEL, NULL, "xx.0=n"}, "--name-dim xx.0=n: the model has no input dim \"xx.0\"; near are \"x.0\", \"x.1\", \"x.2\""},
        {{MODEL, NULL, "x.0"}, "--name-dim x.0: wanted INPUT.AXIS=NAME"},
        {{MODEL, NULL, "x.0=2*n"},
         "--name-dim x.0=2*n: \"2*n\" is no name; wanted letters, digits, _ and ., not beginning with a digit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status;
        Given given = cases[i].given;
        const char *said = said_by(arena, run, &given, &status),
                   *wanted = arena_text(arena, "disc-gen: error: %s\n", cases[i].text);
        if (strcmp(said, wanted)) fail_msg("wanted:\n%sfound:\n%s", wanted, said);
        assert_int_equal(status, 2);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(unnamed_dims_are_named_by_their_place), T(ranges), T(fixed), T(renamed), T(errors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
