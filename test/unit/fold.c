/* Folding computes what the device would: every operation on constants of several dtypes against the interpreter. */
#include "passes/passes.h"
#include "support/diag.h"
#include "test/support/interpret.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// clang-format off: cmocka wants the headers above first
#include <cmocka.h>
// clang-format on

static bool close_enough(Dtype d, double wanted, double found)
{
    if (isnan(wanted) || isnan(found) || isinf(wanted)) return (isnan(wanted) && isnan(found)) || wanted == found;
    if (!dtype_is_float(d)) return wanted == found;
    double unit = d == DTYPE_f64 ? 1e-15 : d == DTYPE_f32 ? 1e-7 : d == DTYPE_f16 ? 1e-3 : 8e-3;
    return fabs(wanted - found) <= unit * (fabs(wanted) + (d == DTYPE_f16 ? 1e-3 : 1e-30));
}

/* Folds the graph of text, whose result must become a constant (through broadcast), and compares its elements. */
static void check_folds(const char *text)
{
    Arena *arena = arena_new();
    Symbols *symbols = symbols_new(arena);
    Graph *g = graph_parse(arena, symbols, text);
    graph_verify(g, "parse");
    int64_t *dims = dims_from_text(arena, symbols, "");
    Array before, after;
    interpret(arena, g, dims, NULL, &before);
    pass_fold(g);
    graph_verify(g, "fold");
    interpret(arena, g, dims, NULL, &after);
    for (int64_t i = 0; i < before.n; i++)
        if (!close_enough(before.dtype, before.at[i], after.at[i]))
            fail_msg("element %d: interpreter %.17g, folded %.17g\n%s", (int)i, before.at[i], after.at[i], text);
    Buf out = {.arena = arena};
    graph_print(&out, g);
    const Op *last = g->outputs.at[0]->def;
    if (last->kind != OP_constant && last->kind != OP_broadcast) fail_msg("not folded:\n%s", buf_text(&out));
    arena_free(arena);
}

static bool gives_bool(OpKind kind)
{
    return kind == OP_eq || kind == OP_lt || kind == OP_le || kind == OP_is_nan;
}

static void check_elementwise(OpKind kind, const char *dtype, const char *data)
{
    static const char *const operands[] = {"", "%0", "%0, %1", "%2, %0, %1"};
    char text[900];
    const OpInfo *info = op_info(kind);
    snprintf(text, sizeof text,
             "graph t()\n%%0: %s[5] = constant data=%s\n%%1: %s[5] = constant data=[1, 2, 1, 3, 2]\n"
             "%%2: bool[5] = constant data=[1, 0, 1, 1, 0]\n%%3: %s[5] = %s %s\nreturn %%3 \"y\"\n",
             dtype, data, dtype, gives_bool(kind) ? "bool" : dtype, info->name, operands[info->operands]);
    check_folds(text);
}

static void test_elementwise(void **state)
{
    (void)state;
    static const char *const reals[] = {"f64", "f32", "f16", "bf16"};
    static const char *const wholes[] = {"i64", "i32", "i8", "u8"};
    for (int kind = 0; kind < OPS_COUNT; kind++) {
        if (op_info((OpKind)kind)->class != ELEMENTWISE || kind == OP_cast || kind == OP_bitcast || kind == OP_random_at) continue;
        bool truth = kind == OP_not || kind == OP_and || kind == OP_or || kind == OP_xor;
        bool bits = kind >= OP_bit_and && kind <= OP_shift_right;
        bool whole = bits || kind == OP_bit_not || kind == OP_neg || kind == OP_abs || kind == OP_sign || kind == OP_relu ||
                     (kind >= OP_add && kind <= OP_le) || kind == OP_select;
        for (int i = 0; i < 4 && truth; i++) check_elementwise((OpKind)kind, "bool", "[0, 1, 0, 1, 1]");
        for (int i = 0; i < 4 && whole && !truth; i++) check_elementwise((OpKind)kind, wholes[i], "[0, 7, 3, 100, 5]");
        for (int i = 0; i < 3 && whole && !truth && kind != OP_pow; i++)
            check_elementwise((OpKind)kind, wholes[i], "[0, -7, 3, -100, 5]");
        for (int i = 0; i < 4 && !truth && !bits && kind != OP_bit_not; i++)
            check_elementwise((OpKind)kind, reals[i], "[0.5, -0.25, 0.75, 1.5, -2.5]");
    }
}

static void test_casts(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"};
    for (int from = 0; from < 10; from++)
        for (int to = 0; to < 10; to++) {
            char text[400];
            if (from == to) continue;
            snprintf(text, sizeof text, "graph t()\n%%0: %s[4] = constant data=%s\n%%1: %s[4] = cast %%0\nreturn %%1 \"y\"\n",
                     dtypes[from], from < 4 ? "[0, 1.75, 100.5, 3]" : "[0, 1, 1, 0]", dtypes[to]);
            check_folds(text);
        }
}

static void test_other(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "%1: f32[3, 2] = transpose %0, axes=[1, 0]\nreturn %1 \"y\"\n",
        "%1: f32[6] = reshape %0\nreturn %1 \"y\"\n",
        "%1: f32[1, 2] = slice %0, start=[1, 2], step=[1, -2]\nreturn %1 \"y\"\n",
        "%2: f32[] = constant data=[9]\n%1: f32[4, 2] = pad %0, %2, start=[1, -1], step=[2, 1]\nreturn %1 \"y\"\n",
        "%1: f32[2, 6] = concat %0, %0, axis=1\nreturn %1 \"y\"\n",
        "%2: i64[2, 2] = constant data=[2, 0, 0, 1]\n%1: f32[2, 2, 2] = gather %0, %2, axis=1\nreturn %1 \"y\"\n",
        "%1: f32[2] = reduce_sum %0, axes=[1]\nreturn %1 \"y\"\n",
        "%1: f32[3] = reduce_prod %0, axes=[0]\nreturn %1 \"y\"\n",
        "%1: f32[] = reduce_max %0, axes=[0, 1]\nreturn %1 \"y\"\n",
        "%1: f32[2] = reduce_min %0, axes=[1]\nreturn %1 \"y\"\n",
        "%1: f32[2, 3] = cum_sum %0, axis=1, exclusive=1, reverse=0\nreturn %1 \"y\"\n",
        "%1: f32[2, 3] = cum_prod %0, axis=0, exclusive=0, reverse=1\nreturn %1 \"y\"\n",
        "%2: f32[2, 3] = iota axis=1\n%1: f32[2, 3] = mul %0, %2\nreturn %1 \"y\"\n",
        "%2: f32[] = constant data=[2]\n%3: f32[4, 2, 3] = broadcast %2, axes=[]\n%4: f32[4, 2, 3] = broadcast %0, axes=[1, 2]\n"
        "%1: f32[4, 2, 3] = sub %3, %4\nreturn %1 \"y\"\n",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[700];
        snprintf(text, sizeof text, "graph t()\n%%0: f32[2, 3] = constant data=[1, -2, 3.5, 4, 0.5, -6]\n%s", bodies[i]);
        check_folds(text);
    }
}

/* Small frozen weights become literals; one that trains, a statistic and a large one do not; the inputs stay listed. */
static void test_frozen(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Graph *g = graph_parse(arena, symbols_new(arena),
                           "graph t(n: 1..9)\n%0: f32[n, 2] = batch \"x\"\n%1: f32[2] = weight \"frozen\"\n"
                           "%2: f32[2] = weight \"trained\", trainable=1\n%3: f32[2] = weight \"mean\", statistics=1\n"
                           "%4: f32[65, 2] = weight \"large\"\n%5: f32[2] = mul %1, %2\n%6: f32[2] = add %5, %3\n"
                           "%7: f32[65, 2] = broadcast %6, axes=[1]\n%8: f32[65, 2] = mul %7, %4\n%9: f32[2] = sqrt %1\n"
                           "return %8 \"y\", %9 \"z\"\n");
    float data[130] = {4, 9};
    for (int i = 1; i <= 4; i++) g->inputs.at[i]->tensor->data = data;
    pass_fold(g);
    graph_verify(g, "fold");
    assert_int_equal(g->inputs.n, 5);
    assert_int_equal(g->inputs.at[1]->users.n, 0);
    for (int i = 2; i <= 4; i++) assert_int_equal(g->inputs.at[i]->users.n, 1);
    const Op *root = g->outputs.at[1]->def;
    assert_int_equal(root->kind, OP_constant);
    assert_true(element_read(DTYPE_f32, op_attr(root, ATTR_data)->data, 1) == 3);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_other),
        cmocka_unit_test(test_frozen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
