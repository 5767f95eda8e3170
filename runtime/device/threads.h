/* The processor's threads, which share out the work of a launch.
 *
 *     share_out(tasks, worth, [=](int64_t task) { ... });                     worth false: this thread does them all
 *     share_runs(tasks, worth, [=](int64_t first, int64_t last) { ... });     some neighbouring tasks, for which something is made ready once
 *
 * Tasks do not depend on each other; both come back when all are done.  Each thread has a run of tasks of its own, the same at every
 * call with as many, so that what it wrote last lies near; one that is through takes what others have not begun.  So of a
 * thread that another program keeps from running nothing is waited for but what it has begun.  Between two calls threads wait awake
 * for a moment, then asleep.
 * How many there are is OpenMP's to say (OMP_NUM_THREADS; else the cores).  A call from within a task, or while another thread of
 * the program shares out work, is done by the caller alone. */
#ifndef DEVICE_THREADS_H
#define DEVICE_THREADS_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
int threads_most(void);
typedef void RunOfTasks(const void *context, int64_t first, int64_t last);
void threads_share(int64_t tasks, RunOfTasks *run, const void *context);
void threads_alone(bool alone); /* the caller does all tasks that it shares out, from now on */
#ifdef __cplusplus
}
template <class F> static inline void share_runs(int64_t tasks, bool worth, const F &f)
{
    if (tasks <= 0) return;
    if (!worth || tasks == 1) return f((int64_t)0, tasks);
    threads_share(tasks, [](const void *f_at, int64_t first, int64_t last) { (*(const F *)f_at)(first, last); }, &f);
}
template <class F> static inline void share_out(int64_t tasks, bool worth, const F &f)
{
    share_runs(tasks, worth, [&f](int64_t first, int64_t last) {
        for (int64_t task = first; task < last; task++) f(task);
    });
}
#endif
#endif
