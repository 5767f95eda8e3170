/* Groups that are alike but for names: what tells them apart, and that such a group has the launches that it would have had by itself. */
#include "emit/repeats.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "world.h"

static Groups *groups_of(Arena *arena, Symbols *s, const char *name, const char *dim, const char *weight, const char *body)
{
    const char *head = "graph infer()\n  %%0: f32[%s] = batch \"%s\"\n  %%1: f32[%s] = weight \"%s\", trainable=0\n  %%2: f32[%s] = weight \"w\", trainable=0\n";
    Buf text = {.arena = arena};
    buf_printf(&text, head, dim, name, dim, weight, dim);
    buf_put(&text, body);
    return pass_fuse(graph_parse(arena, s, buf_text(&text)), false);
}

static const char sum[] = "  %3: f32[8] = add %0, %1\n  %4: f32[8] = exp %3\n  return %4 \"y\"\n";

static void tells_apart_what_is_no_name(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Symbols *s = symbols_new(arena);
    Repeats *r = repeats_new(arena);
    const Groups *first = groups_of(arena, s, "x", "8", "b", sum), *named = groups_of(arena, s, "hidden", "8", "bias", sum);
    const Group *group = first->list.at[0];
    assert_int_equal(first->list.n, 1);
    Repeated *known = repeats_add(r, repeats_words(r, group, 0));
    assert_ptr_equal(repeats_find(r, repeats_words(r, named->list.at[0], 0)), known);
    assert_null(repeats_find(r, repeats_words(r, group, 1)));
    static const char *const others[] = {
        "  %3: f32[8] = add %0, %1\n  %4: f32[8] = tanh %3\n  return %4 \"y\"\n",             /* another operation */
        "  %3: f32[8] = add %0, %0\n  %4: f32[8] = exp %3\n  return %4 \"y\"\n",              /* an operand twice */
        "  %3: f32[8] = add %1, %2\n  %4: f32[8] = exp %3\n  return %4 \"y\"\n",              /* two weights */
        "  %3: f32[8] = add %0, %1\n  %4: f32[8] = exp %3\n  return %4 \"y\", %3 \"z\"\n",    /* one more result */
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(repeats_find(r, repeats_words(r, groups_of(arena, s, "x", "8", "b", others[i])->list.at[0], 0)));
    const char *larger = "  %3: f32[9] = add %0, %1\n  %4: f32[9] = exp %3\n  return %4 \"y\"\n";
    assert_null(repeats_find(r, repeats_words(r, groups_of(arena, s, "x", "9", "b", larger)->list.at[0], 0)));
    arena_free(arena);
}

static void tells_apart_constants(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Symbols *s = symbols_new(arena);
    Repeats *r = repeats_new(arena);
    const char *body = "  %%3: f32[] = constant data=[%s]\n  %%4: f32[8] = broadcast %%3, axes=[]\n  %%5: f32[8] = mul %%0, %%4\n  return %%5 \"y\"\n";
    const Groups *two = groups_of(arena, s, "x", "8", "b", arena_text(arena, body, "2")), *three = groups_of(arena, s, "x", "8", "b", arena_text(arena, body, "3"));
    repeats_add(r, repeats_words(r, two->list.at[0], 0));
    assert_non_null(repeats_find(r, repeats_words(r, two->list.at[0], 0)));
    assert_null(repeats_find(r, repeats_words(r, three->list.at[0], 0)));
    arena_free(arena);
}

static void is_found_among_many(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Symbols *s = symbols_new(arena);
    Repeats *r = repeats_new(arena);
    const Group *group = groups_of(arena, s, "x", "8", "b", sum)->list.at[0];
    Repeated *known[300];
    for (int i = 0; i < 300; i++) known[i] = repeats_add(r, repeats_words(r, group, i));
    for (int i = 0; i < 300; i++) assert_ptr_equal(repeats_find(r, repeats_words(r, group, i)), known[i]);
    assert_null(repeats_find(r, repeats_words(r, group, 300)));
    arena_free(arena);
}

/* A product with its epilogue: where the arguments stand is what can go wrong. */
static void has_its_own_launches(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Symbols *s = symbols_new(arena);
    Graph *g = graph_parse(arena, s,
                           "graph infer(n: 1..64 ~ 16)\n  %0: f32[n, 8] = batch \"x\"\n  %1: f32[8, 8] = weight \"w1\", trainable=0\n"
                           "  %2: f32[8] = weight \"b1\", trainable=0\n  %3: f32[8, 8] = weight \"w2\", trainable=0\n"
                           "  %4: f32[8] = weight \"b2\", trainable=0\n"
                           "  %5: f32[n, 8] = dot %0, %1, trans_a=0, trans_b=0  \"/1/MatMul\"\n  %6: f32[n, 8] = broadcast %2, axes=[1]\n"
                           "  %7: f32[n, 8] = add %5, %6  \"/1/Add\"\n  %8: f32[n, 8] = relu %7  \"/1/Relu\"\n"
                           "  %9: f32[n, 8] = dot %8, %3, trans_a=0, trans_b=0  \"/2/MatMul\"\n  %10: f32[n, 8] = broadcast %4, axes=[1]\n"
                           "  %11: f32[n, 8] = add %9, %10  \"/2/Add\"\n  %12: f32[n, 8] = relu %11  \"/2/Relu\"\n  return %12 \"y\"\n");
    const Groups *groups = pass_fuse(g, false);
    assert_int_equal(groups->list.n, 2);
    Kernels *shared = kernels_new(arena, s), *alone = kernels_new(arena, s);
    GroupLaunches first, repeated, own;
    kernels_emit(shared, groups->list.at[0], &first);
    const size_t before = strlen(kernels_text(shared));
    kernels_emit(shared, groups->list.at[1], &repeated);
    kernels_emit(alone, groups->list.at[1], &own);
    assert_int_equal(repeated.n, own.n);
    for (int i = 0; i < own.n; i++) {
        const Launch *a = &repeated.at[i], *b = &own.at[i];
        assert_int_equal(a->args.n, b->args.n);
        for (int k = 0; k < b->args.n; k++) {
            assert_ptr_equal(a->args.at[k].value, b->args.at[k].value);
            assert_ptr_equal(a->args.at[k].expr, b->args.at[k].expr);
        }
        assert_int_equal(a->epilogue != NULL, b->epilogue != NULL);
        assert_ptr_equal(a->known.y, b->known.y);
        assert_ptr_equal(a->known.bias, b->known.bias);
        assert_ptr_equal(first.at[i].text, a->text);
    }
    assert_non_null(repeated.at[0].known.bias);
    assert_non_null(strstr(kernels_text(shared), "/2/Relu")); /* one kernel, which tells both groups' nodes */
    assert_true(strlen(kernels_text(shared)) < before + 200);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tells_apart_what_is_no_name), cmocka_unit_test(tells_apart_constants),
                                       cmocka_unit_test(is_found_among_many), cmocka_unit_test(has_its_own_launches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
