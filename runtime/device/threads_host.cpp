/* threads.h.  A call is a round: every thread's run of tasks is cut into a few pieces, which are taken one at a time, by their owner
 * or by who has nothing left.  A thread that sees a round late finds its pieces taken, and waits for the next.
 * Needs: POSIX threads, OpenMP for their number.  Breaks: nothing. */
#include "threads.h"
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

enum { MOST_THREADS = 256, PIECES_EACH = 4, STACK_BYTES = 8 << 20 };
static const int64_t AWAKE_NANOSECONDS = 50000;

static void rest(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}
static int64_t now(void)
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* Waits awake; false where that took too long. */
template <class Condition> static bool awake_until(Condition condition)
{
    for (int64_t begin = 0;;) {
        for (int i = 0; i < 64; i++) {
            if (condition()) return true;
            rest();
        }
        const int64_t at = now();
        if (!begin) begin = at;
        if (at - begin > AWAKE_NANOSECONDS) return false;
    }
}

/* A thread's pieces of a round that are not taken yet: round << 32 | end << 16 | next. */
struct alignas(128) Pieces {
    std::atomic<uint64_t> state;
    /* The next one, or -1. */
    int64_t take(uint32_t round)
    {
        uint64_t seen = state.load(std::memory_order_acquire);
        while (seen >> 32 == round && (seen & 0xffff) < (seen >> 16 & 0xffff))
            if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return (int64_t)(seen & 0xffff);
        return -1;
    }
};

struct Threads {
    int n;
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
    /* of a round; read by who has taken a piece of it */
    RunOfTasks *run;
    const void *context;
    int64_t tasks, pieces;
    Pieces of[MOST_THREADS];
    alignas(128) std::atomic<uint32_t> round{0};
    alignas(128) std::atomic<int64_t> left{0}; /* pieces that are not done */
    alignas(128) std::atomic<int> asleep{0};
    std::mutex mutex;
    std::condition_variable wake;

    void work(int self, uint32_t number)
    {
        int64_t done = 0;
        for (int i = 0; i < n; i++)
            for (int64_t p; (p = of[(self + i) % n].take(number)) >= 0; done++)
                run(context, tasks * p / pieces, tasks * (p + 1) / pieces);
        if (done) left.fetch_sub(done, std::memory_order_release);
    }
    void wait(uint32_t seen)
    {
        /* in one order with share's: who does not see the new round is seen asleep */
        const auto begun = [=] { return round.load(std::memory_order_seq_cst) != seen; };
        if (awake_until(begun)) return;
        std::unique_lock<std::mutex> lock(mutex);
        asleep++;
        wake.wait(lock, begun);
        asleep--;
    }
    void serve(int self)
    {
        omp_set_num_threads(1);
        for (uint32_t seen = 0;;) {
            wait(seen);
            seen = round.load(std::memory_order_acquire);
            work(self, seen);
        }
    }
    void share(int64_t all, RunOfTasks *function, const void *what)
    {
        run = function, context = what, tasks = all;
        pieces = all < n * PIECES_EACH ? all : n * PIECES_EACH;
        left.store(pieces, std::memory_order_relaxed);
        const uint32_t number = round.load(std::memory_order_relaxed) + 1;
        for (int i = 0; i < n; i++) {
            const uint64_t first = (uint64_t)(pieces * i / n), end = (uint64_t)(pieces * (i + 1) / n);
            of[i].state.store((uint64_t)number << 32 | end << 16 | first, std::memory_order_release);
        }
        round.store(number);
        if (asleep.load()) {
            std::lock_guard<std::mutex> lock(mutex);
            wake.notify_all();
        }
        work(0, number);
        const auto through = [this] { return left.load(std::memory_order_acquire) == 0; };
        while (!awake_until(through)) sched_yield();
    }
};

/* The system begins a thread where it likes, often on its maker's core, and parts the two only some milliseconds later, which may be many
 * steps.  So a thread begins on a core of its own; from there on it runs where the system wants it. */
struct Member {
    Threads *threads;
    int self;
    cpu_set_t everywhere;
};
static void *serve(void *argument)
{
    const Member member = *(Member *)argument;
    delete (Member *)argument;
    if (CPU_COUNT(&member.everywhere)) pthread_setaffinity_np(pthread_self(), sizeof member.everywhere, &member.everywhere);
    member.threads->serve(member.self);
    return NULL;
}
/* The core that a thread begins on: the self-th of those that the program may use, counted from its maker's. */
static void begin_at(pthread_attr_t *attributes, const cpu_set_t *everywhere, int self)
{
    const int cores = CPU_COUNT(everywhere);
    int core = sched_getcpu();
    if (core < 0 || cores < 2) return;
    for (int i = self % cores; i > 0;)
        if (core = (core + 1) % CPU_SETSIZE; CPU_ISSET(core, everywhere)) i--;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    pthread_attr_setaffinity_np(attributes, sizeof one, &one);
}

/* They live as long as the program.  Where the system gives no more threads, there are fewer. */
static Threads *threads_new(void)
{
    Threads *const all = new Threads;
    const int wanted = omp_get_max_threads();
    const int most = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    sigset_t every, before; /* signals are for the program's own threads */
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    cpu_set_t everywhere;
    CPU_ZERO(&everywhere);
    const bool known = !pthread_getaffinity_np(pthread_self(), sizeof everywhere, &everywhere);
    for (all->n = 1; all->n < most; all->n++) { /* nobody reads it before the first round */
        pthread_t thread;
        Member *const member = new Member{all, all->n, everywhere};
        if (known) begin_at(&attributes, &everywhere, all->n);
        if (!pthread_create(&thread, &attributes, serve, member)) continue;
        pthread_attr_setaffinity_np(&attributes, sizeof everywhere, &everywhere); /* that core may be gone */
        if (known && !pthread_create(&thread, &attributes, serve, member)) continue;
        delete member;
        break;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return all;
}
static Threads &threads(void)
{
    static Threads *const all = threads_new();
    return *all;
}

int threads_most(void)
{
    return threads().n;
}

static thread_local bool by_itself = false;
void threads_alone(bool alone)
{
    by_itself = alone;
}

void threads_share(int64_t tasks, RunOfTasks *run, const void *context)
{
    Threads &all = threads();
    if (all.n == 1 || by_itself || all.busy.test_and_set(std::memory_order_acquire)) return run(context, 0, tasks);
    all.share(tasks, run, context);
    all.busy.clear(std::memory_order_release);
}
