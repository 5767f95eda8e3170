/* device.h for a C++ compiler: the processor plays the device.  A block is one thread; a kernel's inner loop is what vectorises. */
#ifndef DEVICE_HOST_H
#define DEVICE_HOST_H
#include <string.h>
#include "half.h"
#include "threads.h"

/* GCC cuts a loop in two where its index passes a bound (row < 16 ? a : b), and vectorises no loop of the second part that reduces. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-split-loops")
#endif

#define INLINED __attribute__((always_inline))
#define __global__ static
#ifndef VARIANT_DIMS
#define ORDERED
#elif defined(__clang__)
#define ORDERED __attribute__((noinline))
#else
#define ORDERED __attribute__((noipa)) /* compiled as if nothing were known */
#endif
#define __device__
#define DEVICE static inline
#define CONSTANT static const
#define __syncthreads() ((void)0)

struct Position {
    unsigned x;
};
static thread_local Position blockIdx, gridDim;
static constexpr Position threadIdx{0}, blockDim{1}; /* constants: strided loops become plain ones */

/* This block's share of n, contiguous: first to last, last excluded. */
static inline int64_t block_first(int64_t n)
{
    return n * blockIdx.x / gridDim.x;
}
static inline int64_t block_last(int64_t n)
{
    return n * (blockIdx.x + 1) / gridDim.x;
}

static inline int64_t thread_first(int64_t n)
{
    return block_first(n);
}
static inline int64_t thread_last(int64_t n)
{
    return block_last(n);
}

/* This thread's share of what its block has: all of it. */
static inline int64_t share_first(int64_t)
{
    return 0;
}
static inline int64_t share_last(int64_t n)
{
    return n;
}

#define PRAGMA(...) PRAGMA_TEXT(__VA_ARGS__)
#define PRAGMA_TEXT(...) _Pragma(#__VA_ARGS__)
#define FOR_ELEMENTS(i, n) for (Index i = block_first(n); i < block_last(n); i++)
#define FOR_EACH(i, n) PRAGMA(omp simd) FOR_ELEMENTS(i, n)
#define FOR_ROWS(row, n) for (Index row = block_first(n); row < block_last(n); row++)
#define FOR_LANES(j, n) PRAGMA(omp simd) for (Index j = 0; j < (n); j++)
#define FOR_LANES_IN(j, from, to) PRAGMA(omp simd) for (Index j = (from); j < (to); j++)
#define FOR_THREADS(j, n) for (Index j = 0; j < (n); j++)
#define FOR_EACH_FOURS(four, n) if (const Index four = block_first(n); true)
#define FOR_FOUR_ELEMENTS(j, four, n) for (Index j = 0; j < block_last(n) - four; j++)
#define FOR_FOUR_EACH(j, four, n) PRAGMA(omp simd) FOR_FOUR_ELEMENTS(j, four, n)
#define FOR_FOURS(four, n) if (constexpr Index four = 0; true)
#define FOR_FOUR_LANES(j, four, n) PRAGMA(omp simd) for (Index j = 0; j < (n); j++)
#define FOR_FOUR_THREADS(j, four, n) for (Index j = 0; j < (n); j++)
template <class T, int = 4> using Four = const T *;
template <class T, int = 4> using FourResults = T *;
template <class T, int = 4> using FourInPlace = T *;
/* safelen: sixteen lanes at most, which are added up one by one at the end; where a byte is read the compiler would take sixty-four. */
#define REDUCES(op, ...) PRAGMA(omp simd safelen(16) reduction(op : __VA_ARGS__))
#define FIRST_THREAD true

/* A strip of neighbouring columns that a block sums up: on the host one thread has them all. */
enum { STRIP = 1024, STRIP_OWN = STRIP };
#define FOR_STRIP(c, width) PRAGMA(omp simd) for (Index c = 0; c < (width); c++)
#define OWN(c) (c)

enum { HOST_GRAIN = 4096 }; /* elements that are worth a thread: below, sharing it out costs more than it gives */

static inline int64_t host_blocks(Work work)
{
    const int64_t each = work.each ? work.each : 1;
    if (work.n <= HOST_GRAIN / each) return 1;
    const int64_t threads = threads_most(), most = work.n < threads ? work.n : threads;
    const double grains = (double)work.n * (double)each / HOST_GRAIN;
    return grains < 2 ? 1 : grains < (double)most ? (int64_t)grains : most;
}

#ifdef VARIANT_DIMS
#include "device_known.h"
#else
template <class... P> struct HostLaunch {
    Step *s;
    void (*kernel)(P...);
    const char *name;
    Work work;
    template <class... A> void operator()(A... a) const
    {
        if (!launch_wanted(s, work, name)) return;
        const int64_t blocks = host_blocks(work);
        if (blocks == 1) return run_block(0, 1, a...);
        share_out(blocks, true, [=](int64_t b) { run_block(b, blocks, a...); });
    }
    template <class... A> void run_block(int64_t b, int64_t blocks, A... a) const
    {
        gridDim.x = (unsigned)blocks;
        blockIdx.x = (unsigned)b;
        kernel(static_cast<P>(a)...);
    }
};
/* On the processor one form of a kernel is enough: its vectors run along addresses, whatever the width of indices. */
#define LAUNCH(s, kernel, work, threads) launch_of(s, kernel<int64_t>, #kernel, work, threads)

#define LAUNCH_FOURS(s, kernel, divisible, work, threads) launch_of(s, kernel<int64_t, 4>, #kernel, work, threads)
#define LAUNCH_PLAIN(s, kernel, work, threads) launch_of(s, kernel, #kernel, work, threads)

template <class... P> HostLaunch<P...> launch_of(Step *s, void (*kernel)(P...), const char *name, Work work, int)
{
    return {s, kernel, name, work};
}
#endif

/* A flag in memory of the host's, which several threads may raise. */
static inline void raise_flag(bool *flag)
{
    __atomic_store_n(flag, true, __ATOMIC_RELAXED);
}

/* The sum of n over the block's threads before this one, and over all of them. */
static inline int64_t block_before(int64_t n, int64_t *all)
{
    *all = n;
    return 0;
}
template <class T, class Combine> static inline T block_reduce(T x, T, Combine)
{
    return x;
}

/* glibc has these in vectors of any width of the machine; without the declaration the compiler calls them one number at a time. */
#if defined(__x86_64__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#define VECTOR __attribute__((simd("notinbranch")))
#define VECTOR_1(name)                                                                                                             \
    VECTOR double name(double) noexcept;                                                                                           \
    VECTOR float name##f(float) noexcept;
#define VECTOR_2(name)                                                                                                             \
    VECTOR double name(double, double) noexcept;                                                                                   \
    VECTOR float name##f(float, float) noexcept;
extern "C" {
VECTOR_1(exp)
VECTOR_1(expm1)
VECTOR_1(log) VECTOR_1(log1p) VECTOR_1(sin) VECTOR_1(cos) VECTOR_1(tan) VECTOR_1(asin) VECTOR_1(acos) VECTOR_1(atan) VECTOR_1(sinh)
    VECTOR_1(cosh) VECTOR_1(asinh) VECTOR_1(acosh) VECTOR_1(atanh) VECTOR_1(tanh) VECTOR_1(erf) VECTOR_2(pow)
}
#endif

/* ---- copies and zeros, in order with the launches; recorded where the simulator shares them ---- */
struct CopyOnHost {
    static constexpr bool aside = true;
    void *to;
    const void *from;
    int64_t bytes;
    int run(Step *) const
    {
        memmove(to, from, (size_t)bytes);
        return 0;
    }
};
struct ZerosOnHost {
    static constexpr bool aside = true;
    void *to;
    int64_t bytes;
    int run(Step *) const
    {
        memset(to, 0, (size_t)bytes);
        return 0;
    }
};
static inline void device_copy(Step *s, void *to, const void *from, int64_t bytes)
{
    perform(s, CopyOnHost{to, from, bytes});
}
static inline void device_zeros(Step *s, void *to, int64_t bytes)
{
    perform(s, ZerosOnHost{to, bytes});
}
#endif
