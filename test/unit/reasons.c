/* Why a value lies in memory between two kernels: each reason that fuse can give, by the smallest graph that has it. */
#include "emit/emit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* The reason of the first group's result. */
static const char *reason(Arena *arena, const char *text, bool no_fuse)
{
    Graph *g = graph_parse(arena, symbols_new(arena), text);
    const Groups *groups = pass_fuse(g, no_fuse);
    const Group *maker = groups->list.at[0];
    assert_true(maker->out.n > 0);
    return fuse_reason(groups, maker, maker->out.at[0], arena);
}

static void expect(const char *text, bool no_fuse, const char *wanted)
{
    Arena *arena = arena_new();
    const char *found = reason(arena, text, no_fuse);
    if (!strstr(found, wanted)) print_error("found: %s\n", found);
    assert_non_null(strstr(found, wanted));
    arena_free(arena);
}

static void a_library_call(void **state)
{
    (void)state;
    const char *const text = "graph infer(n: 1..64)\n"
                             "  %0: f32[n, 8] = batch \"x\"\n"
                             "  %1: f32[8, 8] = weight \"w\", trainable=0\n"
                             "  %2: f32[n, 8] = dot %0, %1, trans_a=0, trans_b=0\n"
                             "  %3: f32[8, n] = transpose %2, axes=[1, 0]\n"
                             "  %4: f32[8, n] = exp %3\n"
                             "  return %4 \"y\"\n";
    expect(text, false, "a dot makes it");
}

static void a_reader_in_between(void **state)
{
    (void)state;
    const char *const text = "graph infer(n: 1..64)\n"
                             "  %0: f32[n, 8] = batch \"x\"\n"
                             "  %1: f32[8, 8] = weight \"w\", trainable=0\n"
                             "  %2: f32[n, 8] = exp %0\n"
                             "  %3: f32[n, 8] = dot %2, %1, trans_a=0, trans_b=0\n"
                             "  %4: f32[n, 8] = add %2, %3\n"
                             "  return %4 \"y\"\n";
    expect(text, false, "another reader comes before the kernel that it could join");
}

static void read_by_many_elements(void **state)
{
    (void)state;
    const char *const text = "graph infer(n: 1..64)\n"
                             "  %0: f32[8] = batch \"x\"\n"
                             "  %1: f32[8] = exp %0\n"
                             "  %2: f32[n, 8] = broadcast %1, axes=[1]\n"
                             "  %3: f32[n, 8] = tanh %2\n"
                             "  return %3 \"y\"\n";
    expect(text, false, "each of its elements serves many of its reader's");
}

static void read_at_two_places(void **state)
{
    (void)state;
    const char *const text = "graph infer(n: 1..64)\n"
                             "  %0: f32[n, n] = batch \"x\"\n"
                             "  %1: f32[n, n] = exp %0\n"
                             "  %2: f32[n, n] = transpose %1, axes=[1, 0]\n"
                             "  %3: f32[n, n] = mul %1, %2\n"
                             "  return %3 \"y\"\n";
    expect(text, false, "different places");
}

static void a_sum_over_columns(void **state)
{
    (void)state;
    const char *const text = "graph infer(n: 1..64)\n"
                             "  %0: f32[n, 16] = batch \"x\"\n"
                             "  %1: f32[16] = reduce_sum %0, axes=[0]\n"
                             "  %2: f32[n, 16] = broadcast %1, axes=[1]\n"
                             "  %3: f32[n, 16] = div %0, %2\n"
                             "  return %3 \"y\"\n";
    expect(text, false, "the whole of it before their first element");
}

static void given_out(void **state)
{
    (void)state;
    const char *const text = "graph infer(n: 1..64)\n"
                             "  %0: f32[n] = batch \"x\"\n"
                             "  %1: f32[n] = exp %0\n"
                             "  return %1 \"y\"\n";
    expect(text, false, "the program gives it out");
}

static void unfused(void **state)
{
    (void)state;
    const char *const text = "graph infer(n: 1..64)\n"
                             "  %0: f32[n] = batch \"x\"\n"
                             "  %1: f32[n] = exp %0\n"
                             "  %2: f32[n] = tanh %1\n"
                             "  return %2 \"y\"\n";
    expect(text, true, "--no-fuse");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_call),        cmocka_unit_test(a_reader_in_between), cmocka_unit_test(read_by_many_elements),
        cmocka_unit_test(read_at_two_places),    cmocka_unit_test(a_sum_over_columns),  cmocka_unit_test(given_out),
        cmocka_unit_test(unfused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
