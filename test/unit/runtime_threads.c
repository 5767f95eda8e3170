/* The processor's threads: each task is done once, whoever asks, from within a task too; they come back from sleep; they work at once; they are as many as the system
 * gives. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../runtime/device/threads.h"

enum { MOST_TASKS = 1000 };
static atomic_int done[MOST_TASKS];

static void count(const void *context, int64_t first, int64_t last)
{
    (void)context;
    for (int64_t task = first; task < last; task++) done[task]++;
}

static void check_once(int64_t tasks)
{
    for (int64_t task = 0; task < MOST_TASKS; task++)
        if (done[task] != (task < tasks)) fail_msg("%d times task %d of %d", (int)done[task], (int)task, (int)tasks);
}

static void test_each_once(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        const int64_t tasks = 1 + round * 7 % (round % 16 ? 12 : MOST_TASKS);
        for (int64_t task = 0; task < MOST_TASKS; task++) atomic_store_explicit(&done[task], 0, memory_order_relaxed);
        threads_share(tasks, count, NULL);
        check_once(tasks);
    }
}

static void test_after_sleep(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        const struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
        memset((void *)done, 0, sizeof done);
        threads_share(MOST_TASKS, count, NULL);
        check_once(MOST_TASKS);
    }
}

static pthread_t caller;
static void count_own(const void *context, int64_t first, int64_t last)
{
    assert_true(pthread_equal(pthread_self(), caller));
    count(context, first, last);
}
static void test_alone(void **state)
{
    (void)state;
    caller = pthread_self();
    threads_alone(true);
    for (int round = 0; round < 1000; round++) {
        memset((void *)done, 0, sizeof done);
        threads_share(MOST_TASKS, count_own, NULL);
        check_once(MOST_TASKS);
    }
    threads_alone(false);
}

static void add_within(const void *context, int64_t first, int64_t last)
{
    threads_share(last - first, context ? add_within : count, NULL);
}

static void test_within_a_task(void **state)
{
    (void)state;
    for (int round = 0; round < 1000; round++) threads_share(64, add_within, "once more");
}

static void sum_up(const void *context, int64_t first, int64_t last)
{
    atomic_long *sum = *(atomic_long *const *)context;
    for (int64_t task = first; task < last; task++) *sum += task;
}

static void *ask(void *failures)
{
    for (int round = 0; round < 5000; round++) {
        atomic_long sum = 0, *const at = &sum;
        threads_share(100, sum_up, &at);
        if (sum != 4950) ++*(int *)failures;
    }
    return NULL;
}

/* Two that ask at once: one has the threads, the other does its work alone. */
static void test_two_ask(void **state)
{
    (void)state;
    int failures[2] = {0, 0};
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, ask, &failures[1]), 0);
    ask(&failures[0]);
    pthread_join(other, NULL);
    assert_int_equal(failures[0] + failures[1], 0);
}

/* The first task waits until another has been done: where there are threads, another one does it meanwhile. */
static void wait_for_other(const void *context, int64_t first, int64_t last)
{
    (void)context;
    for (int64_t task = first; task < last; task++) {
        if (task > 0) {
            done[task]++;
            continue;
        }
        struct timespec begin, t;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        do {
            clock_gettime(CLOCK_MONOTONIC, &t);
        } while (!done[threads_most()] && t.tv_sec - begin.tv_sec < 20);
        done[0]++;
    }
}

static void test_at_once(void **state)
{
    (void)state;
    if (threads_most() < 2) skip();
    memset((void *)done, 0, sizeof done);
    threads_share(threads_most() + 1, wait_for_other, NULL);
    check_once(threads_most() + 1);
}

/* In a process whose memory has room for one stack more, not for two. */
static int in_little_memory(void)
{
    const rlim_t room = 12 << 20;
    long pages = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 2; /* its own memory has no room either */
#endif
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1) return 2;
    fclose(file);
    const struct rlimit limit = {(rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + room, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    if (threads_most() > 2) return 1;
    threads_share(MOST_TASKS, count, NULL);
    for (int task = 0; task < MOST_TASKS; task++)
        if (done[task] != 1) return 1;
    return 0;
}

static void test_fewer_than_wanted(void **state)
{
    (void)state;
    int status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(in_little_memory());
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* OpenMP reads how many threads are wanted before main: so the test starts itself once more with three. */
int main(int argc, char **argv)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    if (argc > 0 && (!threads || strcmp(threads, "3") != 0) && !setenv("OMP_NUM_THREADS", "3", 1)) execv("/proc/self/exe", argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fewer_than_wanted), /* first: the threads are made once in a process */
                                       cmocka_unit_test(test_each_once), cmocka_unit_test(test_alone), cmocka_unit_test(test_after_sleep), cmocka_unit_test(test_within_a_task),
                                       cmocka_unit_test(test_two_ask), cmocka_unit_test(test_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
