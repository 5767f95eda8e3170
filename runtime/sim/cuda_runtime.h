/* Stands in for CUDA's header of this name where kernels run in the simulator (sim.h). */
#ifndef SIM_CUDA_RUNTIME_H
#define SIM_CUDA_RUNTIME_H
#include <string.h>
#include "sim.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __shared__ thread_local /* one operating system thread runs a block: what it has alone, the block has alone */

#define threadIdx sim_thread()
#define blockIdx sim_block()
#define blockDim sim_threads()
#define gridDim sim_blocks()
#define warpSize 32

/* ---- barriers, warps ---- */
#define SIM_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()
static inline void __syncthreads(SIM_CALLER)
{
    sim_barrier({file, line});
}
static inline void __syncwarp(unsigned mask = ~0u, SIM_CALLER)
{
    sim_sync_warp(mask, {file, line});
}
template <class T> static inline T __shfl_sync(unsigned mask, T x, int from, int width = 32, SIM_CALLER)
{
    return sim_shuffle(mask, x, sim_lane_of(from, width), "__shfl_sync", {file, line});
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32, SIM_CALLER)
{
    return sim_shuffle(mask, x, sim_lane_xor(with, width), "__shfl_xor_sync", {file, line});
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned d, int width = 32, SIM_CALLER)
{
    return sim_shuffle(mask, x, sim_lane_up(d, width), "__shfl_up_sync", {file, line});
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned d, int width = 32, SIM_CALLER)
{
    return sim_shuffle(mask, x, sim_lane_down(d, width), "__shfl_down_sync", {file, line});
}
static inline unsigned __ballot_sync(unsigned mask, int vote, SIM_CALLER)
{
    return sim_ballot(mask, vote != 0, "__ballot_sync", {file, line});
}
static inline int __any_sync(unsigned mask, int vote, SIM_CALLER)
{
    return sim_ballot(mask, vote != 0, "__any_sync", {file, line}) != 0;
}
static inline int __all_sync(unsigned mask, int vote, SIM_CALLER)
{
    return sim_ballot(mask, vote == 0, "__all_sync", {file, line}) == 0;
}
#undef SIM_CALLER

/* ---- bits and arithmetic ---- */
template <class To, class From> static inline To sim_bits(From x)
{
    static_assert(sizeof(To) == sizeof(From), "types of one width");
    To to;
    memcpy(&to, &x, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float x)
{
    return sim_bits<unsigned>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return sim_bits<float>(x);
}
static inline int __float_as_int(float x)
{
    return sim_bits<int>(x);
}
static inline float __int_as_float(int x)
{
    return sim_bits<float>(x);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline float rsqrtf(float x)
{
    return 1 / __builtin_sqrtf(x);
}

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

/* ---- the runtime: memory is plain memory, everything is done when it returns ---- */
typedef int cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t)
{
    memmove(to, from, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t)
{
    memset(to, value, bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}
static inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
#endif
