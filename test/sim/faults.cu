/* Kernels that are wrong, each in one way, and their right twins: the simulator must tell the first and pass the second.
 *
 *     faults NAME      runs one of them; exit status 1 where the launch failed */
#include "../kernels/alone.h"
#include <stdio.h>
#include <string.h>

enum { N = 256, THREADS = 128 };
alignas(16) static float memory[3 * N], *const x = memory, *const y = memory + 2 * N;

/* Each thread reads what its neighbour wrote. */
template <bool BARRIER> __global__ void neighbour(float *to, const float *from)
{
    __shared__ float part[THREADS];
    part[threadIdx.x] = from[threadIdx.x];
    if (BARRIER) __syncthreads();
    to[threadIdx.x] = part[(threadIdx.x + 1) % blockDim.x];
}

/* The next round writes before all have read the last one. */
template <bool BARRIER> __global__ void rounds(float *to, const float *from)
{
    __shared__ float part[THREADS];
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        part[threadIdx.x] = from[threadIdx.x] * (float)i;
        __syncthreads();
        sum += part[(threadIdx.x + 1) % blockDim.x];
        if (BARRIER) __syncthreads();
    }
    to[threadIdx.x] = sum;
}

/* A barrier that only some threads reach. */
__global__ void early_end(float *to, const float *from)
{
    if (threadIdx.x >= 100) return;
    __syncthreads();
    to[threadIdx.x] = from[threadIdx.x];
}
__global__ void two_barriers(float *to, const float *from)
{
    if (threadIdx.x < 32) {
        to[threadIdx.x] = from[threadIdx.x];
        __syncthreads();
    } else {
        __syncthreads();
    }
}

/* Shuffles in a branch that half of the warp takes. */
__global__ void divergent_shuffle(float *to, const float *from)
{
    float v = from[threadIdx.x];
    if (threadIdx.x % 2) v += __shfl_xor_sync(~0u, v, 1);
    __syncthreads();
    to[threadIdx.x] = v;
}
template <bool FAR> __global__ void half_mask(float *to, const float *from)
{
    float v = from[threadIdx.x];
    if (threadIdx.x % 32 < 16) v += __shfl_xor_sync(0xffffu, v, FAR ? 16 : 8);
    to[threadIdx.x] = v;
}
__global__ void not_in_mask(float *to, const float *from)
{
    to[threadIdx.x] = __shfl_sync(0xffffu, from[threadIdx.x], 0);
}
/* Lanes meet in __syncwarp, and so may read each other's; threads of another warp may not. */
template <int DISTANCE> __global__ void warp_neighbour(float *to, const float *from)
{
    __shared__ float part[THREADS];
    part[threadIdx.x] = from[threadIdx.x];
    __syncwarp();
    to[threadIdx.x] = part[threadIdx.x ^ DISTANCE];
}

/* All threads write one place; blocks share a place; a block reads what another wrote. */
__global__ void all_write(float *to, const float *from)
{
    FOR_EACH(i, N) to[i / 2] = from[i];
}
template <bool READ> __global__ void flag(float *to, const float *from)
{
    __shared__ bool any;
    if (FIRST_THREAD) any = false;
    __syncthreads();
    if (from[threadIdx.x] > 3) any = true;
    if (!READ) __syncthreads();
    to[threadIdx.x] = any;
}
__global__ void blocks_share(float *to, const float *from)
{
    FOR_ROWS(row, 4)
    {
        const float sum = block_sum(from[threadIdx.x]);
        if (FIRST_THREAD) to[row / 2] = sum;
    }
}
__global__ void read_after_write(float *to, const float *from)
{
    FOR_EACH(i, N) to[i] = from[i];
    if (blockIdx.x == 0 && threadIdx.x == 0) to[0] = to[N - 1];
}

__global__ void past_the_end(float *to, const float *from)
{
    FOR_EACH(i, N + 1) to[i] = from[i - (i == N)];
}
/* Four elements at once, beginning at any. */
template <int FIRST> __global__ void four_at_once(float *to, const float *from)
{
    const Four<float> four(from + FIRST);
    to[threadIdx.x] = four[(int)threadIdx.x % 4];
}
__global__ void writes_operand(float *, const float *from)
{
    FOR_EACH(i, N) ((float *)from)[i] = 0;
}
__global__ void unwritten(float *to, const float *)
{
    __shared__ float part[THREADS];
    if (threadIdx.x < 64) part[threadIdx.x] = 1;
    __syncthreads();
    to[threadIdx.x] = part[threadIdx.x];
}

/* Block helpers, as kernels use them. */
__global__ void helpers(float *to, const float *from)
{
    FOR_ROWS(row, N / 64)
    {
        float sum = 0;
        FOR_THREADS(j, 64) sum += from[row * 64 + j];
        sum = block_sum(sum);
        const float most = block_max(threadIdx.x < 64 ? from[row * 64 + threadIdx.x] : sum);
        Best<float> best = {0, -1};
        FOR_THREADS(j, 64)
        {
            const Best<float> next = {from[row * 64 + j], j};
            if (beats<true, false>(next, best)) best = next;
        }
        best = block_best<true, false>(best);
        int64_t all;
        const int64_t before = block_before(1, &all);
        if (before != (int64_t)threadIdx.x || all != (int64_t)blockDim.x) to[row] = -1;
        FOR_LANES(j, 64) to[row * 64 + j] = sum + most + best.value;
    }
}

#define RUN(name, kernel, work)                                                                                                    \
    if (strcmp(argv[1], name) == 0) {                                                                                              \
        ran = true;                                                                                                                \
        LAUNCH_PLAIN(s, kernel, work, THREADS)(y, x);                                                                                    \
    }

int main(int argc, char **argv)
{
    Step step = {}, *s = &step;
    bool ran = false;
    if (argc != 2) return 2;
    for (int i = 0; i < N; i++) x[i] = (float)(i % 17);
    sim_memory(x, N * sizeof *x, "x");
    sim_memory(y, N * sizeof *y, "y");
    RUN("neighbour", neighbour<false>, rows(1, 1))
    RUN("neighbour, right", neighbour<true>, rows(1, 1))
    RUN("rounds", rounds<false>, rows(1, 1))
    RUN("rounds, right", rounds<true>, rows(1, 1))
    RUN("early end", early_end, rows(1, 1))
    RUN("two barriers", two_barriers, rows(1, 1))
    RUN("divergent shuffle", divergent_shuffle, rows(1, 1))
    RUN("half mask", half_mask<true>, rows(1, 1))
    RUN("half mask, right", half_mask<false>, rows(1, 1))
    RUN("not in mask", not_in_mask, rows(1, 1))
    RUN("warp neighbour", warp_neighbour<32>, rows(1, 1))
    RUN("warp neighbour, right", warp_neighbour<5>, rows(1, 1))
    RUN("all write", all_write, elements(N))
    RUN("flag", flag<true>, rows(1, 1))
    RUN("flag, right", flag<false>, rows(1, 1))
    RUN("blocks share", blocks_share, rows(4, 1))
    RUN("read after write", read_after_write, elements(N))
    RUN("past the end", past_the_end, elements(N))
    RUN("not aligned", four_at_once<3>, rows(1, 1))
    RUN("not aligned, right", four_at_once<8>, rows(1, 1))
    RUN("writes operand", writes_operand, elements(N))
    RUN("unwritten", unwritten, rows(1, 1))
    RUN("helpers, right", helpers, rows(N / 64, 64))
    return !ran ? 2 : s->error != 0;
}
