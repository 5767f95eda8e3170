/* Products with epilogues: which kernels follow a product row by row, where the product lies, and how the call reads. */
#include "emit/controller.h"
#include "emit/known_epilogue.h"
#include "emit/step.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "world.h"

static const char dot_head[] = "graph infer(n: 1..4096 ~ 512)\n"
                               "  %0: f32[n, 16] = batch \"x\"\n"
                               "  %1: f32[16, 64] = weight \"w\", trainable=0\n"
                               "  %2: f32[64] = weight \"b\", trainable=0\n"
                               "  %3: f32[n, 64] = batch \"residual\"\n"
                               "  %4: f32[n, 64] = dot %0, %1, trans_a=0, trans_b=0\n"
                               "  %5: f32[n, 64] = broadcast %2, axes=[1]\n";

static World dot_world(const char *rest)
{
    World w = {.arena = arena_new()};
    w.s = symbols_new(w.arena);
    w.g = graph_parse(w.arena, w.s, arena_text(w.arena, "%s%s", dot_head, rest));
    return w;
}

static const Group *only_group(const World *w)
{
    const Groups *groups = pass_fuse(w->g, false);
    assert_int_equal(groups->list.n, 1);
    return groups->list.at[0];
}

static void epilogue_takes_the_rows_of_a_product(void **state)
{
    (void)state;
    World w = dot_world("  %6: f32[n, 64] = add %4, %5\n"
                        "  %7: f32[n, 64] = relu %6\n"
                        "  return %7 \"y\"\n");
    const Group *group = only_group(&w);
    assert_int_equal(group->kind, GROUP_DOT);
    assert_int_equal(group->ops.at[0]->kind, OP_dot);
    assert_int_equal(group->epilogue->kind, GROUP_LOOP);
    assert_int_equal(group->out.n, 1);
    assert_ptr_equal(group->epilogue->place, group->out.at[0]); /* the product never lies anywhere else */
    assert_int_equal(group->in.n, 3);
    Groups *unfused = pass_fuse(w.g, true);
    assert_true(unfused->list.n > 1);
    for (int i = 0; i < unfused->list.n; i++) assert_null(unfused->list.at[i]->epilogue);
    arena_free(w.arena);
}

static void epilogue_may_be_a_norm_or_a_sum_of_columns(void **state)
{
    (void)state;
    World w = dot_world("  %6: f32[n] = reduce_sum %4, axes=[1]\n"
                        "  %7: f32[n, 64] = broadcast %6, axes=[0]\n"
                        "  %8: f32[n, 64] = sub %4, %7\n"
                        "  return %8 \"y\"\n");
    assert_int_equal(only_group(&w)->epilogue->kind, GROUP_ROW);
    arena_free(w.arena);
    w = dot_world("  %6: f32[64] = reduce_sum %4, axes=[0]\n"
                  "  return %6 \"y\", %4 \"c\"\n");
    const Group *group = only_group(&w);
    assert_int_equal(group->epilogue->kind, GROUP_REDUCE);
    assert_ptr_equal(group->epilogue->place, group->ops.at[0]->out[0]); /* stored: it is given out */
    assert_int_equal(group->out.n, 2);
    arena_free(w.arena);
}

static void epilogue_wants_its_own_rows(void **state)
{
    (void)state;
    static const char *const others[] = {"  %6: f32[64, n] = transpose %4, axes=[1, 0]\n"
                                         "  %7: f32[64, n] = exp %6\n"
                                         "  return %7 \"y\"\n",
                                         "  %6: f32[n, 8, 8] = reshape %4\n"
                                         "  %7: f32[n, 8, 8] = exp %6\n"
                                         "  return %7 \"y\"\n",
                                         "  %6: f32[n - 1, 64] = slice %4, start=[1, 0], step=[1, 1]\n"
                                         "  %7: f32[n - 1, 64] = exp %6\n"
                                         "  return %7 \"y\"\n"};
    for (int i = 0; i < 3; i++) {
        World w = dot_world(others[i]);
        const Groups *groups = pass_fuse(w.g, false);
        for (int k = 0; k < groups->list.n; k++) assert_null(groups->list.at[k]->epilogue);
        arena_free(w.arena);
    }
}

/* A sum of two products follows one of them; and nothing that the product is made of, or that the epilogue reads of other rows,
 * may be overwritten by it. */
static void epilogue_overwrites_nothing_that_is_read(void **state)
{
    (void)state;
    World w = dot_world("  %6: f32[16, 64] = weight \"v\", trainable=0\n"
                        "  %7: f32[n, 64] = dot %0, %6, trans_a=0, trans_b=0\n"
                        "  %8: f32[n, 64] = add %4, %7\n"
                        "  %9: f32[n, 64] = add %8, %3\n"
                        "  %10: f32[n, 64] = exp %9\n"
                        "  return %9 \"y\", %10 \"z\"\n");
    Groups *groups = pass_fuse(w.g, false);
    int products = 0;
    for (int i = 0; i < groups->list.n; i++) products += groups->list.at[i]->epilogue != NULL;
    assert_int_equal(groups->list.n, 2);
    assert_int_equal(products, 1);
    const Group *both = groups->list.at[1];
    assert_int_equal(both->out.n, 2);
    const Value *place = both->epilogue->place, *other = both->out.at[0] == place ? both->out.at[1] : both->out.at[0];
    assert_false(kernels_in_place(both, w.g->inputs.at[3], place)); /* the residual, where the product is put first */
    assert_true(kernels_in_place(both, w.g->inputs.at[3], other));
    assert_false(kernels_in_place(both, w.g->inputs.at[0], other));
    pass_schedule(groups);
    arena_free(w.arena);
}

static void epilogue_stands_in_the_call(void **state)
{
    (void)state;
    World w = dot_world("  %6: f32[n, 64] = add %4, %5\n"
                        "  %7: f32[n, 64] = tanh %6\n"
                        "  return %7 \"y\"\n");
    Groups *groups = pass_fuse(w.g, false);
    Kernels *k = kernels_new(w.arena, w.s);
    Launches *launches = launches_of(w.arena, k, w.s, groups);
    Layout *layout = layout_new(w.arena, w.s);
    layout_add(layout, w.g);
    layout_name(layout, NULL, 0);
    Program *p = program_make(layout, w.g->name, groups, launches);
    Buf text = {.arena = w.arena};
    step_text(&text, layout, p, &(Guards){0});
    const char *call = strstr(buf_text(&text), "dot(s, "), *epilogue = strstr(buf_text(&text), "EPILOGUE(s, bias_tanh, rows(n, 64), 64)(");
    assert_non_null(call);
    assert_non_null(epilogue);
    assert_true(call < epilogue);
    const char *end = strchr(call, ';');
    assert_true(end > epilogue); /* one statement */
    assert_null(strstr(buf_text(&text), "LAUNCH"));
    int64_t moved;
    const int64_t dims[] = {100};
    assert_true(expr_evaluate(w.s, p->moved, dims, &moved));
    assert_int_equal(moved, 4 * (100 * 16 + 16 * 64 + 64 + 100 * 64)); /* the product itself is neither written nor read */
    arena_free(w.arena);
}

/* ---- what a library has too ---- */
static const char *known_name(const char *rest, KnownEpilogue *known)
{
    World w = dot_world(rest);
    Groups *groups = pass_fuse(w.g, false);
    const char *name = "none";
    for (int i = 0; i < groups->list.n; i++) {
        const Group *epilogue = groups->list.at[i]->epilogue;
        if (!epilogue || !known_epilogue(w.arena, w.s, epilogue, known)) continue;
        name = known->name;
        break;
    }
    arena_free(w.arena); /* of the operands that are known, only that they are there */
    return name;
}

static const char gelu_text[] = "  %6: f32[n, 64] = add %4, %5\n"
                                "  %7: f32[] = constant data=[0.044715]\n"
                                "  %8: f32[n, 64] = broadcast %7, axes=[]\n"
                                "  %9: f32[n, 64] = mul %6, %6\n"
                                "  %10: f32[n, 64] = mul %9, %6\n"
                                "  %11: f32[n, 64] = mul %10, %8\n"
                                "  %12: f32[n, 64] = add %6, %11\n"
                                "  %13: f32[] = constant data=[0.7978845608]\n"
                                "  %14: f32[n, 64] = broadcast %13, axes=[]\n"
                                "  %15: f32[n, 64] = mul %12, %14\n"
                                "  %16: f32[n, 64] = tanh %15\n"
                                "  %17: f32[] = constant data=[1]\n"
                                "  %18: f32[n, 64] = broadcast %17, axes=[]\n"
                                "  %19: f32[n, 64] = add %16, %18\n"
                                "  %20: f32[n, 64] = mul %6, %19\n"
                                "  %21: f32[] = constant data=[0.5]\n"
                                "  %22: f32[n, 64] = broadcast %21, axes=[]\n"
                                "  %23: f32[n, 64] = mul %20, %22\n";

static void known_epilogues_are_found_by_what_they_compute(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    KnownEpilogue known;
    assert_string_equal(known_name("  %6: f32[n, 64] = add %5, %4\n  return %6 \"y\"\n", &known), "BIAS");
    assert_non_null(known.bias);
    assert_string_equal(known_name("  %6: f32[n, 64] = relu %4\n  return %6 \"y\"\n", &known), "RELU");
    assert_null(known.bias);
    assert_string_equal(known_name("  %6: f32[n, 64] = add %4, %5\n  %7: f32[n, 64] = relu %6\n  return %7 \"y\"\n", &known), "RELU");
    assert_non_null(known.bias);
    assert_string_equal(known_name(arena_text(arena, "%s  return %%23 \"y\"\n", gelu_text), &known), "GELU");
    assert_null(known.x);
    assert_string_equal(known_name(arena_text(arena, "%s  return %%23 \"y\", %%6 \"x\"\n", gelu_text), &known), "GELU");
    assert_non_null(known.x); /* what the gradient will want */
    arena_free(arena);
}

static void what_only_looks_alike_is_not_known(void **state)
{
    (void)state;
    KnownEpilogue known;
    assert_string_equal(known_name("  %6: f32[n, 64] = sub %5, %4\n  return %6 \"y\"\n", &known), "none");
    assert_string_equal(known_name("  %6: f32[n, 64] = tanh %4\n  return %6 \"y\"\n", &known), "none");
    assert_string_equal(known_name("  %6: f32[n, 64] = add %4, %3\n  return %6 \"y\"\n", &known), "none"); /* a residual is no bias */
    assert_string_equal(known_name("  %6: f32[n, 64] = add %4, %5\n  return %6 \"y\", %4 \"c\"\n", &known), "none"); /* c is wanted too */
    assert_string_equal(known_name("  %6: f32[8] = weight \"head\", trainable=0\n"
                                   "  %7: f32[n, 8, 8] = reshape %4\n"
                                   "  %8: f32[n, 8, 8] = broadcast %6, axes=[2]\n"
                                   "  %9: f32[n, 8, 8] = add %7, %8\n"
                                   "  %10: f32[n, 64] = reshape %9\n"
                                   "  %11: f32[n, 64] = relu %10\n"
                                   "  return %11 \"y\"\n", &known), "none"); /* one element a column of a view */
    Arena *arena = arena_new();
    char *other = arena_copy(arena, gelu_text, sizeof gelu_text - 1);
    memcpy(strstr(other, "0.044715"), "0.044815", 8); /* another constant */
    assert_string_equal(known_name(arena_text(arena, "%s  return %%23 \"y\"\n", other), &known), "none");
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epilogue_takes_the_rows_of_a_product),
        cmocka_unit_test(epilogue_may_be_a_norm_or_a_sum_of_columns),
        cmocka_unit_test(epilogue_wants_its_own_rows),
        cmocka_unit_test(epilogue_overwrites_nothing_that_is_read),
        cmocka_unit_test(epilogue_stands_in_the_call),
        cmocka_unit_test(known_epilogues_are_found_by_what_they_compute),
        cmocka_unit_test(what_only_looks_alike_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
