/* What memory there is: the kernel's word and the limits of control groups, from a tree of files; the margin that is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <cmocka.h>
#include "../../runtime/device/available.h"
#include "../../runtime/trainer/budget.h"

static char root[] = "/tmp/available_test_XXXXXX";

static void put(const char *name, const char *text)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(path, 0777);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void the_least_of_all_limits(void **state)
{
    (void)state;
    assert_true(available_bytes(root) == INT64_MAX); /* nothing is known */
    put("proc/meminfo", "MemTotal:       32000000 kB\nMemFree:         1000000 kB\nMemAvailable:    9000000 kB\n");
    assert_true(available_bytes(root) == INT64_C(9000000) * 1024);
    put("proc/self/cgroup", "5:cpu:/x\n0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/user/job/memory.current", "1000\n");
    assert_true(available_bytes(root) == INT64_C(9000000) * 1024);
    put("sys/fs/cgroup/user/memory.max", "5000000000\n"); /* of a group above */
    put("sys/fs/cgroup/user/memory.current", "3000000000\n");
    put("sys/fs/cgroup/user/memory.stat", "anon 7\ninactive_file 500000000\nactive_file 9\n");
    assert_true(available_bytes(root) == INT64_C(2500000000));
    put("sys/fs/cgroup/user/job/memory.max", "1500\n");
    assert_true(available_bytes(root) == 500);
    put("sys/fs/cgroup/user/job/memory.current", "1600\n");
    assert_true(available_bytes(root) == 0);
}

static void the_first_version_of_groups(void **state)
{
    (void)state;
    put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/not/seen/here\n0::/\n"); /* as within a container: its group is mounted as the root */
    assert_true(available_bytes(root) == INT64_C(9000000) * 1024);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000\n");
    put("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n");
    assert_true(available_bytes(root) == 1200);
}

static void a_margin_is_left(void **state)
{
    (void)state;
    assert_true(budget_margin(INT64_C(100) << 30) == INT64_C(1) << 30);
    assert_true(budget_margin(INT64_C(10) << 30) == (INT64_C(10) << 30) / 20);
    assert_true(budget_margin(INT64_C(1) << 30) == INT64_C(128) << 20);
    assert_true(budget_margin(1000) == 500);
}

static int make_root(void **state)
{
    (void)state;
    return !mkdtemp(root);
}

static int remove_root(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_of_all_limits), cmocka_unit_test(the_first_version_of_groups),
                                       cmocka_unit_test(a_margin_is_left)};
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
