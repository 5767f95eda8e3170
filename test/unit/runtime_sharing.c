/* Steps shared out or done alone: the faster way is found, and found again when it changes; long steps are shared out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "../../runtime/trainer/sharing.h"

/* Of `steps` steps that take so long each way, on batches of three sizes, how many were done alone. */
static int run(Sharing *s, int steps, double shared, double alone)
{
    int n = 0;
    for (int i = 0; i < steps; i++) {
        const double size = 1 + i % 3;
        n += s->alone;
        sharing_spent(s, 1e5 * size, (s->alone ? alone : shared) * size);
    }
    return n;
}

static void test_faster_way(void **state)
{
    (void)state;
    Sharing s = {0};
    assert_int_equal(run(&s, SHARING_FIRST, 240e-6, 154e-6), 0);
    assert_int_equal(run(&s, 100, 240e-6, 154e-6), 100);
    /* the cores lie near each other now */
    assert_true(run(&s, SHARING_AGAIN, 100e-6, 154e-6) < SHARING_AGAIN);
    assert_int_equal(run(&s, 100, 100e-6, 154e-6), 0);
    /* tried again every so often, for a few steps */
    assert_int_equal(run(&s, 10 * (SHARING_AGAIN + SHARING_TRIAL), 100e-6, 154e-6), 10 * SHARING_TRIAL);
}

static void test_no_matter(void **state)
{
    (void)state;
    Sharing s = {0};
    run(&s, SHARING_FIRST + SHARING_TRIAL, 100e-6, 95e-6);
    assert_false(s.alone);
}

static void test_long_steps(void **state)
{
    (void)state;
    Sharing s = {0};
    assert_int_equal(run(&s, 1000, 5e-3, 2.5e-3), 0);
    run(&s, 100, 240e-6, 154e-6);
    assert_true(s.alone);
    assert_int_equal(run(&s, 1000, 5e-3, 9e-3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faster_way), cmocka_unit_test(test_no_matter), cmocka_unit_test(test_long_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
