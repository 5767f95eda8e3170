/* One generated source, two devices.
 *
 * Built by nvcc a model.cu is CUDA.  Built by a C++17 compiler (with -x c++ -fopenmp) the same text runs on the processor: a grid
 * is a loop over blocks that its threads share out (threads.h), a block is one thread, and what the compiler vectorises is the loop
 * inside the kernel. So a kernel is written to be right for any gridDim and blockDim, and uses only these forms:
 *
 *     FOR_EACH(i, n) { y[i] = ... }                                     flat: each element alone; reads and writes at its own i only
 *     FOR_ROWS(row, rows) { ... }                                       rows shared out among blocks; inside it:
 *         FOR_LANES(j, n) { ... }                                       a row's elements shared out among the block's threads
 *         FOR_LANES_IN(j, from, to) { ... }                             some of them, each by the thread that has it in FOR_LANES
 *         REDUCES(+, s) FOR_THREADS(j, n) s += x[at + j];               a sum over a row, then
 *         s = block_sum(s);                                             the sum of all threads', known to all of them
 *         if (FIRST_THREAD) y[row] = s;
 *     REDUCES(|, odd) FOR_ELEMENTS(i, n) { ... odd |= ... }             as FOR_EACH, of whose elements something is reduced: a thread's own part
 *
 * A kernel that sums or multiplies in REDUCES is ORDERED: `__global__ ORDERED void f(…)`.  The order of such a sum is the compiler's choice, and it is to choose
 * the same one in a variant, whose dims are constants.
 *
 * Where rows, or a whole tensor, lie so that four neighbours can be read and written at once, loops are over fours, and what they read
 * and make stands before the inner loop; on the processor that is the plain loop:
 *
 *     FOR_FOURS(four, n) {                                              or FOR_EACH_FOURS
 *         const Four<float> a_4(a + at + four);                         a + at + four, a multiple of 16 bytes
 *         FourResults<float> y_4(y + at + four);                        written at the end of the block; FourInPlace: read before, too
 *         FOR_FOUR_LANES(j, four, n) y_4[j] = a_4[j] * 2;               or FOR_FOUR_EACH, REDUCES(+, s) FOR_FOUR_THREADS
 *     }
 *
 *     FOR_ROWS(block, strips(n)) {                                      sums over rows: a block a strip of columns
 *         const int64_t column = block * STRIP, width = strip_width(n, column);
 *         float s[STRIP_OWN];
 *         FOR_STRIP(c, width) s[OWN(c)] = 0;
 *         for (r...) FOR_STRIP(c, width) s[OWN(c)] += x[r * n + column + c];
 *
 * Kernels that multiply have forms of their own: a block of a product in registers, and rows that pass through many steps (tile.h),
 * blocks of queries and keys (attention.h).  A kernel is launched by
 *
 *     LAUNCH(s, kernel, elements(n), 256)(y, x, n);                     n elements; fours(n) where it has FOR_EACH_FOURS
 *     LAUNCH(s, kernel, rows(n, each), 256)(y, x, n);                   n rows of about `each` elements' work
 *
 *     LAUNCH_PLAIN(s, kernel, rows(n, each), 256)(y, x, n);             the same for a kernel that is no template over Index
 *
 * which does nothing where s->error stands or there is no work, and leaves the first error in s->error.
 * DEVICE=sim runs the CUDA text thread by thread and finds races and wrong barriers: ../sim/sim.h.
 * Breaks: blockIdx on the host belongs to one translation unit; code loaded with dlopen must bring its own launches.
 *
 * Mathematics: expf, tanhf, … for floats, exp, tanh, … for doubles, as in C; on the host they vectorise, three of them as they stand
 * in exponentials.h, the others through glibc's libmvec (link with -lmvec).  maximum, minimum, modulo, power, … stand in arithmetic.h.  No fast-math anywhere: NaN and infinity are kept.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include "../controller/record.h"
#include "memory.h"

/* The type of indices.  A kernel that is a `template <class Index>` has two forms on CUDA, where 64-bit arithmetic takes two registers
 * and several instructions: 32 bits where the step's dims allow them (Step.narrow), else 64. */
typedef int64_t Index;

/* The work of a launch.  each 0: n elements, one thread each; otherwise n rows.  shares: in how many equal parts the rows that the
 * kernel reads may be handed to it (blas.h, epilogues). */
struct Work {
    int64_t n, each, shares;
    int at_once = 1; /* elements of a thread on CUDA */
};
static inline Work elements(int64_t n)
{
    return {n, 0, 1};
}
static inline Work fours(int64_t n)
{
    return {n, 0, 1, 4};
}
static inline Work rows(int64_t n, int64_t each)
{
    return {n, each < 1 ? 1 : each, n};
}
static inline Work rows(int64_t n, int64_t each, int64_t shares)
{
    return {n, each < 1 ? 1 : each, shares};
}

/* False where nothing is to be launched: no work, an earlier error, or a fault that a test ordered. */
static inline bool launch_wanted(Step *s, Work work, const char *kernel)
{
    if (work.n <= 0 || !unit_runs(s)) return false;
    s->kernel = kernel;
    if (!s->recording) s->error = device_launching(s->device, kernel); /* else asked when it is launched */
    return !s->error;
}

#ifdef __CUDACC__
#include "device_cuda.h"
#else
#include "device_host.h"
#endif
#include "arithmetic.h"
#ifndef __CUDACC__
#include "exponentials.h"
#endif
#include "philox.h"
#endif
