/* The simulator: kernels' CUDA text, run on the processor as a GPU would run it, to find what is wrong with it.
 *
 * Built with DEVICE=sim a model.cu takes the CUDA side of runtime/device; cuda_runtime.h in this folder stands in for CUDA's own.
 * Blocks run one after another, every thread of a block as a fiber, both in an order drawn from a seed.  The kernels are compiled
 * with -fsanitize=thread and linked without its library: each access of theirs to memory calls shadow.cpp.  Found are
 *   - barriers that not all threads of a block reach, or not at the same line;
 *   - warp operations (shuffles, votes, mma) that lanes of their mask do not reach, and values read from lanes that take no part;
 *   - races: a byte touched by two threads of a launch, once to write it, with no barrier between; of shared and of global memory
 *     (but threads of a block may write the same value);
 *   - reads of shared memory that nobody has written in this block;
 *   - accesses past the buffers a kernel was given, and of four elements at once at addresses that are no multiple of them.
 * The first of them is told on standard error, with kernel, block, thread, line and buffer, and the launch fails.
 *
 * The environment's DISC_SIM="seed=3,threads=128,blocks=2" chooses the order, a block size for every launch, the most blocks a grid
 * may have.  One operating system thread runs it all. */
#ifndef SIM_SIM_H
#define SIM_SIM_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

struct Step;
struct SimIndex {
    unsigned x, y, z;
};
struct SimSite {
    const char *file;
    int line;
};

SimIndex sim_thread(), sim_block(), sim_threads(), sim_blocks();

/* ---- a launch ---- */
void sim_grid(const char *kernel, int64_t blocks, int threads); /* its size; forgets the arguments of the one before */
void sim_pointer(const Step *s, const void *argument, bool writable, int number); /* it may touch the buffer in which argument points */
int sim_run(void (*body)(void *), void *context);        /* an error of device/memory.h */
void sim_memory(const void *at, size_t bytes, const char *name); /* memory besides a step's: sim_forget forgets all of it */
void sim_forget();

template <class T> void sim_argument(const Step *s, T *a, int number)
{
    sim_pointer(s, (const void *)a, !std::is_const<T>::value, number);
}
/* Pointers may come several in a struct: each of its words that points into a buffer is one. */
template <class T> void sim_argument(const Step *s, const T &a, int number)
{
    if constexpr (std::is_class<T>::value && sizeof(T) % sizeof(void *) == 0) {
        void *word[sizeof(T) / sizeof(void *)];
        memcpy(word, &a, sizeof word);
        for (const void *w : word) sim_pointer(s, w, true, number);
    } else {
        (void)s, (void)a, (void)number;
    }
}
template <class... P> int sim_launch(Step *s, const char *name, int64_t blocks, int threads, void (*kernel)(P...), P... a)
{
    int number = 0;
    sim_grid(name, blocks, threads);
    (sim_argument(s, a, number++), ...);
    auto body = [&] { kernel(a...); };
    return sim_run([](void *b) { (*(decltype(body) *)b)(); }, &body);
}

/* ---- threads meeting ---- */
void sim_barrier(SimSite site);

/* A warp's operation: waits until all lanes of the mask are there; one of them calls meet with what each lane has brought (NULL: it
 * takes no part), then all go on.  `orders`: accesses before it are seen after it by the lanes of the mask (__syncwarp). */
void sim_warp(unsigned mask, const char *operation, bool orders, void *mine, void (*meet)(void *const *lanes), SimSite site);
[[noreturn]] void sim_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

template <class T> struct SimShuffle {
    T value, result;
    int from; /* lane */
};
template <class T> void sim_shuffle_meet(void *const *lanes)
{
    for (int i = 0; i < 32; i++) {
        SimShuffle<T> *const lane = (SimShuffle<T> *)lanes[i];
        if (!lane) continue;
        if (!lanes[lane->from]) sim_fault("lane %d reads a shuffle's value from lane %d, which takes no part in it", i, lane->from);
        lane->result = ((const SimShuffle<T> *)lanes[lane->from])->value;
    }
}
template <class T> T sim_shuffle(unsigned mask, T value, int from, const char *operation, SimSite site)
{
    SimShuffle<T> mine = {value, value, from};
    sim_warp(mask, operation, false, &mine, sim_shuffle_meet<T>, site);
    return mine.result;
}
static inline int sim_lane()
{
    return (int)(sim_thread().x % 32);
}
/* Where a lane reads from; out of its segment of width lanes: from itself. */
static inline int sim_lane_up(unsigned d, int width)
{
    const int lane = sim_lane();
    return lane % width < (int)d ? lane : lane - (int)d;
}
static inline int sim_lane_down(unsigned d, int width)
{
    const int lane = sim_lane();
    return lane % width + (int)d >= width ? lane : lane + (int)d;
}
static inline int sim_lane_xor(int with, int width)
{
    const int lane = sim_lane(), to = lane ^ with;
    return to / width > lane / width ? lane : to;
}
static inline int sim_lane_of(int from, int width)
{
    return sim_lane() / width * width + (from & (width - 1));
}
unsigned sim_ballot(unsigned mask, bool vote, const char *operation, SimSite site);
void sim_sync_warp(unsigned mask, SimSite site);
#endif
