/* device.h for nvcc. */
#ifndef DEVICE_CUDA_H
#define DEVICE_CUDA_H
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string.h>
#include <utility>

typedef __nv_bfloat16 bfloat16;
#define DEVICE __host__ __device__ inline
#define CONSTANT static __device__ const

#define FOR_EACH(i, n)                                                                                                             \
    for (Index i = Index(blockIdx.x) * Index(blockDim.x) + Index(threadIdx.x); i < (n); i += Index(gridDim.x) * Index(blockDim.x))
#define FOR_ELEMENTS(i, n) FOR_EACH(i, n)
#define FOR_ROWS(row, n) for (Index row = blockIdx.x; row < (n); row += Index(gridDim.x))
#define FOR_LANES(j, n) for (Index j = threadIdx.x; j < (n); j += Index(blockDim.x))
#define FOR_LANES_IN(j, from, to) /* of a row's elements those from .. to - 1, each by the thread that FOR_LANES gives it to */     \
    for (Index j = threadIdx.x; j < (to); j += Index(blockDim.x))                                                                   \
        if (j >= (from))
#define FOR_THREADS(j, n) for (Index j = threadIdx.x; j < (n); j += Index(blockDim.x))

/* Fours: n is a multiple of four.  Elements are read and written 16 bytes at a time, or all four where they are less.  Where dims are
 * no multiples, a kernel that is a template over FOUR has 1 for it. */
constexpr int FOUR = 4;
#define FOR_EACH_FOURS(four, n)                                                                                                    \
    for (Index four = FOUR * (Index(blockIdx.x) * Index(blockDim.x) + Index(threadIdx.x)); four < (n);                             \
         four += FOUR * Index(gridDim.x) * Index(blockDim.x))
#define FOR_FOURS(four, n) for (Index four = FOUR * Index(threadIdx.x); four < (n); four += FOUR * Index(blockDim.x))
#define FOR_FOUR(j) _Pragma("unroll") for (int j = 0; j < FOUR; j++)
#define FOR_FOUR_EACH(j, four, n) FOR_FOUR(j)
#define FOR_FOUR_ELEMENTS(j, four, n) FOR_FOUR(j)
#define FOR_FOUR_LANES(j, four, n) FOR_FOUR(j)
#define FOR_FOUR_THREADS(j, four, n) FOR_FOUR(j)
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) FourElements {
    T at[N];
};
template <class T, int N = 4> class Four {
    const FourElements<T, N> x;

  public:
    __device__ explicit Four(const T *from) : x(*(const FourElements<T, N> *)from) {}
    __device__ T operator[](int j) const { return x.at[j]; }
};
template <class T, int N = 4> class FourResults {
    T *const to;
    FourElements<T, N> x;

  public:
    __device__ explicit FourResults(T *at) : to(at) {}
    __device__ ~FourResults() { *(FourElements<T, N> *)to = x; }
    __device__ T &operator[](int j) { return x.at[j]; }
};
template <class T, int N = 4> class FourInPlace {
    T *const there;
    FourElements<T, N> x;

  public:
    __device__ explicit FourInPlace(T *at) : there(at), x(*(const FourElements<T, N> *)at) {}
    __device__ ~FourInPlace() { *(FourElements<T, N> *)there = x; }
    __device__ T &operator[](int j) { return x.at[j]; }
};

#define ORDERED
#define REDUCES(op, ...) /* the host compiler needs to be told that it may reorder this */
#define FIRST_THREAD (threadIdx.x == 0)

/* A strip of neighbouring columns that a block sums up: a thread has one of them (blocks of STRIP threads). */
enum { STRIP = 64, STRIP_OWN = 1 };
#define FOR_STRIP(c, width) for (Index c = threadIdx.x; c < (width); c += STRIP)
#define OWN(c) 0

/* This block's share of n, contiguous: first to last, last excluded; this thread's share; its share of what its block has. */
__device__ inline int64_t block_first(int64_t n)
{
    return n * blockIdx.x / gridDim.x;
}
__device__ inline int64_t block_last(int64_t n)
{
    return n * (blockIdx.x + 1) / gridDim.x;
}
__device__ inline int64_t share_first(int64_t n)
{
    return n * threadIdx.x / blockDim.x;
}
__device__ inline int64_t share_last(int64_t n)
{
    return n * (threadIdx.x + 1) / blockDim.x;
}
__device__ inline int64_t thread_first(int64_t n)
{
    return n * (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / ((int64_t)gridDim.x * blockDim.x);
}
__device__ inline int64_t thread_last(int64_t n)
{
    return n * (blockIdx.x * (int64_t)blockDim.x + threadIdx.x + 1) / ((int64_t)gridDim.x * blockDim.x);
}

/* A flag in memory of the host's, which any thread may raise: all write the same. */
#ifdef DEVICE_SIM
__attribute__((noinline, no_sanitize_thread)) /* not watched: it is none of the tensors */
#endif
__device__ inline void raise_flag(bool *flag)
{
    *(volatile bool *)flag = true;
}

enum { MOST_BLOCKS = 1 << 20 };

/* A kernel's launch as plain bytes: its head, then each argument at a multiple of its alignment (NodeKind, graph.h). */
template <class... P> struct PackedLaunch {
    struct Layout {
        size_t at[sizeof...(P) + 1];
        size_t bytes;
    };
    static constexpr Layout lay_out()
    {
        constexpr size_t sizes[] = {sizeof(P)..., 0}, alignments[] = {alignof(P)..., 1};
        Layout l = {};
        l.bytes = sizeof(KernelLaunch);
        for (size_t i = 0; i < sizeof...(P); i++) {
            l.bytes = (l.bytes + alignments[i] - 1) / alignments[i] * alignments[i];
            l.at[i] = l.bytes;
            l.bytes += sizes[i];
        }
        return l;
    }
    static constexpr Layout layout = lay_out();
    alignas(16) unsigned char bytes[layout.bytes] = {}; /* zeros where nothing lies: launches are compared */

    PackedLaunch(const KernelLaunch &head, const P &...arguments)
    {
        const void *const from[] = {&arguments..., NULL};
        constexpr size_t sizes[] = {sizeof(P)..., 0};
        memcpy(bytes, &head, sizeof head);
        for (size_t i = 0; i < sizeof...(P); i++) memcpy(bytes + layout.at[i], from[i], sizes[i]);
    }
#ifdef DEVICE_SIM
    template <size_t... I> static int simulate(Step *s, const KernelLaunch *l, std::index_sequence<I...>)
    {
        const char *const from = (const char *)l;
        return sim_launch<P...>(s, l->name, l->blocks, (int)l->threads, (void (*)(P...))l->kernel, *(const P *)(from + layout.at[I])...);
    }
    static int run(Step *s, const void *what)
    {
        s->error = simulate(s, (const KernelLaunch *)what, std::make_index_sequence<sizeof...(P)>());
        return 0;
    }
    static int change(void *, void *, const void *) /* the simulator's graphs keep launches as they are packed */
    {
        return DEVICE_OK;
    }
#else
    struct Arguments {
        void *at[sizeof...(P) + 1];
        explicit Arguments(const void *what)
        {
            for (size_t i = 0; i < sizeof...(P); i++) at[i] = (char *)what + layout.at[i];
        }
    };
    static int checked(cudaError_t error)
    {
        if (error == cudaSuccess) return DEVICE_OK;
        (void)cudaGetLastError(); /* told here: no later launch is blamed for it */
        return DEVICE_LAUNCH_FAILED;
    }
    static int run(Step *s, const void *what)
    {
        const KernelLaunch *const l = (const KernelLaunch *)what;
        Arguments arguments(what);
        s->error = checked(cudaLaunchKernel(l->kernel, dim3(l->blocks), dim3(l->threads), arguments.at, 0, (cudaStream_t)s->stream));
        return 0;
    }
    static int change(void *graph, void *node, const void *what)
    {
        const KernelLaunch *const l = (const KernelLaunch *)what;
        Arguments arguments(what);
        cudaKernelNodeParams params = {};
        params.func = (void *)l->kernel;
        params.gridDim = dim3(l->blocks);
        params.blockDim = dim3(l->threads);
        params.kernelParams = arguments.at;
        return checked(cudaGraphExecKernelNodeSetParams((cudaGraphExec_t)graph, (cudaGraphNode_t)node, &params));
    }
#endif
    static constexpr NodeKind kind = {run, change, false};
};

template <class... P> struct CudaLaunch {
    Step *s;
    void (*kernel)(P...);
    const char *name;
    Work work;
    int threads;
    template <class... A> void operator()(A... a) const
    {
        if (!launch_wanted(s, work, name)) return;
        const int64_t most = MOST_BLOCKS / work.at_once, each = (int64_t)threads * work.at_once;
        const int64_t wanted = work.each ? work.n : (work.n + each - 1) / each;
        const unsigned blocks = (unsigned)(wanted < most ? wanted : most);
        const PackedLaunch<P...> launch({name, (const void *)kernel, blocks, (unsigned)threads}, static_cast<P>(a)...);
        if (s->recording)
            record(s, &launch.kind, launch.bytes, sizeof launch.bytes);
        else
            launch.run(s, launch.bytes);
    }
};
template <class... P> CudaLaunch<P...> launch_of(Step *s, void (*kernel)(P...), const char *name, Work work, int threads)
{
    return {s, kernel, name, work, threads};
}

#ifndef NARROW_INDEX /* tests take 16 bits: what goes beyond a limit is then seen at small sizes */
#define NARROW_INDEX int32_t
#endif

/* A kernel in two forms: the one that the dims of the step allow. */
template <class... N, class... W>
auto launch_of(Step *s, void (*narrow)(N...), void (*wide)(W...), const char *name, Work work, int threads)
{
    return [=](auto... a) {
        if (s->narrow)
            CudaLaunch<N...>{s, narrow, name, work, threads}(a...);
        else
            CudaLaunch<W...>{s, wide, name, work, threads}(a...);
    };
}
#define LAUNCH_PLAIN(s, kernel, work, threads) launch_of(s, kernel, #kernel, work, threads)
#define LAUNCH(s, kernel, work, threads) launch_of(s, kernel<NARROW_INDEX>, kernel<int64_t>, #kernel, work, threads)

/* A kernel in four forms: in fours or one by one, with narrow or with wide indices. */
template <class... N, class... W>
auto launch_of(Step *s, bool divisible, void (*fours)(N...), void (*narrow)(N...), void (*wide_fours)(W...), void (*wide)(W...), const char *name,
               Work work, int threads)
{
    if (!divisible) work.at_once = 1;
    return launch_of(s, divisible ? fours : narrow, divisible ? wide_fours : wide, name, work, threads);
}
#define LAUNCH_FOURS(s, kernel, divisible, work, threads)                                                                          \
    launch_of(s, divisible, kernel<NARROW_INDEX, 4>, kernel<NARROW_INDEX, 1>, kernel<int64_t, 4>, kernel<int64_t, 1>, #kernel, work, threads)

/* x of all threads combined, in an order that depends on blockDim alone; every thread gets the result. */
template <class T, class Combine> __device__ T block_reduce(T x, T unit, Combine combine)
{
    __shared__ T part[32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int d = 16; d; d >>= 1) x = combine(x, __shfl_xor_sync(~0u, x, d));
    if (warps == 1) return x;
    if (lane == 0) part[warp] = x;
    __syncthreads();
    x = lane < warps ? part[lane] : unit;
    for (int d = 16; d; d >>= 1) x = combine(x, __shfl_xor_sync(~0u, x, d));
    __syncthreads();
    return x;
}

/* The sum of n over the block's threads before this one, and over all of them. */
__device__ inline int64_t block_before(int64_t n, int64_t *all)
{
    __shared__ int64_t counts[1024];
    counts[threadIdx.x] = n;
    __syncthreads();
    int64_t before = 0;
    *all = 0;
    for (unsigned i = 0; i < blockDim.x; i++) {
        before += i < threadIdx.x ? counts[i] : 0;
        *all += counts[i];
    }
    __syncthreads();
    return before;
}

/* ---- copies and zeros, in order with the launches ---- */
struct CopyOnDevice {
    static constexpr bool aside = true;
    void *to;
    const void *from;
    int64_t bytes;
    int run(Step *s) const
    {
        if (cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)s->stream) != cudaSuccess) s->error = DEVICE_COPY_FAILED;
        return 0;
    }
};
struct ZerosOnDevice {
    static constexpr bool aside = true;
    void *to;
    int64_t bytes;
    int run(Step *s) const
    {
        if (cudaMemsetAsync(to, 0, (size_t)bytes, (cudaStream_t)s->stream) != cudaSuccess) s->error = DEVICE_LAUNCH_FAILED;
        return 0;
    }
};
static inline void device_copy(Step *s, void *to, const void *from, int64_t bytes)
{
    perform(s, CopyOnDevice{to, from, bytes});
}
[[maybe_unused]] static inline void device_zeros(Step *s, void *to, int64_t bytes)
{
    perform(s, ZerosOnDevice{to, bytes});
}
#endif
