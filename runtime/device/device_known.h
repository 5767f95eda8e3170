/* Part of device_host.h: launches in a variant (controller/variants.h), where the step's dims are constants.
 *
 * A launch's work and arguments stand inside a function of their own, with the kernel compiled into it: there a dim is the number
 * that it is, loops have so many rounds and strides are so many elements, for whichever thread runs a part of it.  So
 *
 *     LAUNCH(s, kernel, rows(batch, 16), 64)(y, x, batch);
 *
 * becomes  launch_known(s, "kernel", the work, [=]() { kernel<int64_t>(y, x, batch); });  where batch is no variable.
 * Kernels that are ORDERED are left out: what the compiler knows would change how it cuts their sums up, and a variant has the bits of
 * the program itself. */
#ifndef DEVICE_KNOWN_H
#define DEVICE_KNOWN_H

#define LAUNCH_OF(s, name, work, ...) launch_known(s, name, [=]() { return work; }, [=]() INLINED { __VA_ARGS__ LAUNCH_ARGUMENTS
#define LAUNCH_ARGUMENTS(...) (__VA_ARGS__); })
#define LAUNCH(s, kernel, work, threads) LAUNCH_OF(s, #kernel, work, kernel<int64_t>)
#define LAUNCH_FOURS(s, kernel, divisible, work, threads) LAUNCH_OF(s, #kernel, work, kernel<int64_t, 4>)
#define LAUNCH_PLAIN(s, kernel, work, threads) LAUNCH_OF(s, #kernel, work, kernel)

/* blas.h's epilogues */
#define EPILOGUE_OF(name, work, ...) epilogue_known(name, work, [=]() INLINED { __VA_ARGS__ LAUNCH_ARGUMENTS
#define EPILOGUE(s, kernel, work, threads) EPILOGUE_OF(#kernel, work, kernel<int64_t>)
#define EPILOGUE_FOURS(s, kernel, divisible, work, threads) EPILOGUE_OF(#kernel, work, kernel<int64_t, 4>)

/* One block of `blocks`. */
template <class Kernel> __attribute__((flatten)) static void run_known(const Kernel &kernel, int64_t block, int64_t blocks)
{
    gridDim.x = (unsigned)blocks;
    blockIdx.x = (unsigned)block;
    kernel();
}
template <class WorkOf, class Kernel>
static void launch_known(Step *s, const char *name, const WorkOf &work_of, const Kernel &kernel)
{
    const Work work = work_of();
    if (!launch_wanted(s, work, name)) return;
    const int64_t blocks = host_blocks(work);
    if (blocks == 1) return run_known(kernel, 0, 1);
    share_out(blocks, true, [=, &kernel](int64_t b) { run_known(kernel, b, blocks); });
}
#endif
