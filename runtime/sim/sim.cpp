/* Runs launches block by block and thread by thread, in an order drawn from a seed; lets threads meet.  See sim.h. */
#include "block.h"
#include "fiber.h"
#include "../device/memory.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <vector>

SimNow sim_now;

enum State { READY, AT_BARRIER, IN_WARP, ENDED };
struct Thread {
    Fiber fiber;
    State state;
    SimSite site;      /* where it waits */
    const char *operation;
    unsigned mask;     /* of the warp operation */
    void *mine;
    void (*meet)(void *const *lanes);
    bool orders, leads; /* leads: carries out the operation for all lanes */
    uint32_t syncs;
};

struct Simulator {
    uint64_t seed, random;
    int forced_threads;
    int64_t most_blocks;
    bool told_options;
    /* the launch */
    const char *kernel;
    int64_t blocks, block;
    int threads;
    void (*body)(void *);
    void *context;
    bool failed;
    /* the block that runs */
    Fiber scheduler;
    Thread thread[SIM_MOST_THREADS];
    int current, ended;
    int ready[SIM_MOST_THREADS], n_ready;
    int away[SIM_MOST_THREADS / 32]; /* lanes of each warp that wait for others of it, have ended, or never were */
    const Thread *meeting; /* who carries out an operation of its warp */
    char *stacks;
};
static Simulator sim;

SimIndex sim_thread()
{
    return {(unsigned)sim.current, 0, 0};
}
SimIndex sim_block()
{
    return {(unsigned)sim.block, 0, 0};
}
SimIndex sim_threads()
{
    return {(unsigned)sim.threads, 1, 1};
}
SimIndex sim_blocks()
{
    return {(unsigned)sim.blocks, 1, 1};
}

/* ---- orders ---- */
static uint64_t draw(uint64_t n)
{
    sim.random ^= sim.random << 13;
    sim.random ^= sim.random >> 7;
    sim.random ^= sim.random << 17;
    return (sim.random >> 11) % n;
}

static int64_t option(const char *text, const char *name, int64_t otherwise)
{
    const char *at = text ? strstr(text, name) : NULL;
    return at ? strtoll(at + strlen(name), NULL, 10) : otherwise;
}

static void read_options()
{
    const char *text = getenv("DISC_SIM");
    sim.seed = (uint64_t)option(text, "seed=", 1);
    sim.forced_threads = (int)option(text, "threads=", 0);
    sim.most_blocks = option(text, "blocks=", 0);
    if (sim.forced_threads > SIM_MOST_THREADS) sim.forced_threads = SIM_MOST_THREADS;
    sim.told_options = true;
}

/* ---- faults ---- */
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void tell(const char *format, va_list arguments)
{
    if (sim.failed) return;
    sim.failed = true;
    fprintf(stderr, "sim: %s, ", sim.kernel);
    if (sim.current >= 0) fprintf(stderr, "block %lld, thread %d: ", (long long)sim.block, sim.current);
    vfprintf(stderr, format, arguments);
    if (sim.meeting) fprintf(stderr, ", in %s, %s:%d", sim.meeting->operation, file_name(sim.meeting->site.file), sim.meeting->site.line);
    fprintf(stderr, "  (%lld blocks of %d threads, seed %llu)\n", (long long)sim.blocks, sim.threads, (unsigned long long)sim.seed);
}

/* Ends the launch: goes back to the scheduler for good. */
void sim_fault(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(format, arguments);
    va_end(arguments);
    Fiber left;
    if (sim_now.inside) {
        sim_now.inside = false;
        fiber_switch(&left, &sim.scheduler);
    }
    abort(); /* the scheduler reports through complain() */
}

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(format, arguments);
    va_end(arguments);
}

/* ---- threads ---- */
static void make_ready(int thread)
{
    sim.thread[thread].state = READY;
    sim.ready[sim.n_ready++] = thread;
}

static void to_scheduler()
{
    Thread *t = &sim.thread[sim.current];
    sim_shadow_written();
    sim_now.inside = false;
    fiber_switch(&t->fiber, &sim.scheduler);
}

static void run_thread()
{
    sim.body(sim.context);
    sim.thread[sim.current].state = ENDED;
    sim.ended++;
    for (;;) to_scheduler();
}

static void enter(int thread)
{
    sim.current = thread;
    sim_now.block = (uint32_t)sim.block;
    sim_now.thread = (uint32_t)thread;
    sim_now.syncs = sim.thread[thread].syncs;
    sim_now.inside = true;
    fiber_switch(&sim.scheduler, &sim.thread[thread].fiber);
    sim_now.inside = false;
}

/* ---- meeting in a block ---- */
void sim_barrier(SimSite site)
{
    Thread *t = &sim.thread[sim.current];
    t->site = site;
    t->operation = "__syncthreads";
    t->state = AT_BARRIER;
    to_scheduler();
}

static bool same_site(SimSite a, SimSite b)
{
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}
static bool same_operation(const Thread *a, const Thread *b)
{
    return b->state == IN_WARP && b->mask == a->mask && b->operation == a->operation && same_site(a->site, b->site);
}

/* A warp operation that waits for a lane which waits elsewhere. */
static void complain_of_warp(int thread)
{
    const Thread *a = &sim.thread[thread];
    for (int lane = 0; lane < 32; lane++) {
        const int i = thread / 32 * 32 + lane;
        if (!(a->mask >> lane & 1) || i >= sim.threads || sim.thread[i].state == ENDED || same_operation(a, &sim.thread[i])) continue;
        const Thread *b = &sim.thread[i];
        complain("waits in %s, %s:%d, for lane %d of its mask %08x, which waits in %s, %s:%d", a->operation, file_name(a->site.file),
                 a->site.line, lane, a->mask, b->operation, file_name(b->site.file), b->site.line);
    }
}

/* Nobody can go on.  True where all wait for one barrier, which is then passed. */
static bool pass_barrier()
{
    int first = -1, ended = -1, elsewhere = -1;
    for (int i = 0; i < sim.threads; i++) {
        const State state = sim.thread[i].state;
        if (state == ENDED)
            ended = i;
        else if (first < 0 || (state == IN_WARP && sim.thread[first].state == AT_BARRIER))
            first = i;
    }
    const Thread *a = &sim.thread[first];
    sim.current = first;
    if (a->state == IN_WARP) {
        complain_of_warp(first);
        return false;
    }
    for (int i = 0; i < sim.threads; i++)
        if (sim.thread[i].state != ENDED && !same_site(sim.thread[i].site, a->site)) elsewhere = i;
    if (elsewhere >= 0) {
        const Thread *b = &sim.thread[elsewhere];
        complain("waits in %s, %s:%d, while thread %d waits in %s, %s:%d", a->operation, file_name(a->site.file), a->site.line,
                 elsewhere, b->operation, file_name(b->site.file), b->site.line);
        return false;
    }
    if (ended >= 0) {
        complain("waits in %s, %s:%d, which thread %d has not reached: it has ended", a->operation, file_name(a->site.file),
                 a->site.line, ended);
        return false;
    }
    sim_now.barriers++;
    for (int i = 0; i < sim.threads; i++) make_ready(i);
    return true;
}

/* ---- meeting in a warp ---- */
/* Run by the lane that the scheduler wakes when all are there. */
static void meet_lanes(Thread *t)
{
    Thread *const warp = &sim.thread[sim.current / 32 * 32];
    void *lanes[32];
    for (int lane = 0; lane < 32; lane++) {
        const Thread *u = &warp[lane];
        const bool takes_part = t->mask >> lane & 1 && (u == t || (&warp[lane] < &sim.thread[sim.threads] && u->state == IN_WARP));
        lanes[lane] = takes_part ? u->mine : NULL;
    }
    sim.meeting = t;
    t->meet(lanes);
    sim.meeting = NULL;
    for (int lane = 0; lane < 32; lane++) {
        if (!lanes[lane]) continue;
        warp[lane].syncs += t->orders;
        sim.away[sim.current / 32]--;
        if (&warp[lane] != t) make_ready((int)(&warp[lane] - sim.thread));
    }
    sim_now.syncs = t->syncs;
}

void sim_warp(unsigned mask, const char *operation, bool orders, void *mine, void (*meet)(void *const *lanes), SimSite site)
{
    Thread *t = &sim.thread[sim.current];
    if (!(mask >> sim.current % 32 & 1))
        sim_fault("calls %s, %s:%d, but its lane %d is not in the mask %08x", operation, file_name(site.file), site.line,
                  sim.current % 32, mask);
    t->site = site;
    t->operation = operation;
    t->mask = mask;
    t->orders = orders;
    t->mine = mine;
    t->meet = meet;
    t->state = IN_WARP;
    to_scheduler();
    if (!t->leads) return;
    t->leads = false;
    meet_lanes(t);
}

struct SimVote {
    bool vote;
    unsigned result;
};
unsigned sim_ballot(unsigned mask, bool vote, const char *operation, SimSite site)
{
    SimVote mine = {vote, 0};
    sim_warp(
        mask, operation, false, &mine,
        [](void *const *lanes) {
            unsigned result = 0;
            for (int i = 0; i < 32; i++) result |= lanes[i] && ((SimVote *)lanes[i])->vote ? 1u << i : 0;
            for (int i = 0; i < 32; i++)
                if (lanes[i]) ((SimVote *)lanes[i])->result = result;
        },
        site);
    return mine.result;
}

void sim_sync_warp(unsigned mask, SimSite site)
{
    char mine;
    sim_warp(mask, "__syncwarp", true, &mine, [](void *const *) {}, site);
}

static void wake_if_complete(int thread)
{
    Thread *a = &sim.thread[thread];
    const int base = thread / 32 * 32;
    if (sim.away[thread / 32] < __builtin_popcount(a->mask)) return;
    for (int i = base; i < base + 32 && i < sim.threads; i++)
        if (a->mask >> (i - base) & 1 && sim.thread[i].state != ENDED && !same_operation(a, &sim.thread[i])) return;
    a->leads = true;
    make_ready(thread);
}

/* A thread has stopped: an operation of its warp may be complete now. */
static void stopped(int thread)
{
    const State state = sim.thread[thread].state;
    const int base = thread / 32 * 32;
    if (state != AT_BARRIER) sim.away[thread / 32]++;
    if (state == IN_WARP) wake_if_complete(thread);
    if (state != ENDED) return;
    for (int i = base; i < base + 32 && i < sim.threads; i++)
        if (sim.thread[i].state == IN_WARP) wake_if_complete(i);
}

/* ---- blocks ---- */
static bool make_stacks()
{
    if (sim.stacks) return true;
    void *at = mmap(NULL, (size_t)SIM_MOST_THREADS * SIM_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    sim.stacks = (char *)at;
    sim_now.stacks = sim.stacks;
    sim_now.stacks_end = sim.stacks + (size_t)SIM_MOST_THREADS * SIM_STACK;
    for (int i = 0; i < SIM_MOST_THREADS; i++) mprotect(sim.stacks + (size_t)i * SIM_STACK, 4096, PROT_NONE); /* a stack too deep */
    return true;
}

static void run_block()
{
    sim_now.block_run++;
    sim_now.barriers = 0;
    sim.ended = sim.n_ready = 0;
    for (int i = 0; i < SIM_MOST_THREADS; i += 32)
        sim.away[i / 32] = sim.threads >= i + 32 ? 0 : sim.threads <= i ? 32 : i + 32 - sim.threads;
    for (int i = 0; i < sim.threads; i++) {
        const size_t shift = (size_t)i % 128 * 192; /* stacks that all began at the same place of a page would share few lines of cache */
        fiber_start(&sim.thread[i].fiber, sim.stacks + (size_t)i * SIM_STACK, SIM_STACK - shift, run_thread);
        sim.thread[i].syncs = 0;
        sim.thread[i].leads = false;
        make_ready(i);
    }
    while (!sim.failed && sim.ended < sim.threads) {
        if (!sim.n_ready && !pass_barrier()) return;
        const int at = (int)draw((uint64_t)sim.n_ready), next = sim.ready[at];
        sim.ready[at] = sim.ready[--sim.n_ready];
        enter(next);
        if (!sim.failed) stopped(next);
    }
}

/* ---- launches ---- */
void sim_grid(const char *kernel, int64_t blocks, int threads)
{
    if (!sim.told_options) read_options();
    sim.kernel = kernel;
    sim.blocks = sim.most_blocks && blocks > sim.most_blocks ? sim.most_blocks : blocks;
    sim.threads = sim.forced_threads ? sim.forced_threads : threads;
    sim.failed = false;
    sim.meeting = NULL;
    sim.current = -1;
    sim_shadow_begin();
}

int sim_run(void (*body)(void *), void *context)
{
    if (!make_stacks()) return DEVICE_OUT_OF_MEMORY;
    sim.body = body;
    sim.context = context;
    sim_now.launch++;
    sim_now.frame = (const char *)__builtin_frame_address(0);
    sim.random = (sim.seed * 0x9E3779B97F4A7C15u + sim_now.launch) * 0xBF58476D1CE4E5B9u | 1;
    std::vector<int> order((size_t)sim.blocks);
    for (size_t i = 0; i < order.size(); i++) {
        const size_t to = draw(i + 1);
        order[i] = order[to];
        order[to] = (int)i;
    }
    for (size_t i = 0; i < order.size() && !sim.failed; i++) {
        sim.block = order[i];
        run_block();
    }
    return sim.failed ? DEVICE_LAUNCH_FAILED : DEVICE_OK;
}
