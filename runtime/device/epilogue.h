/* Kernels that follow a product, or each other, on the same rows while these are near the processor.
 *
 *     dot(…, EPILOGUE(s, kernel, rows(n, each), 256)(y, c, x, n), EPILOGUE(…)(…))     blas.h
 *     in_turn(s, rows, EPILOGUE(…)(…), EPILOGUE(…)(…))                                no product before them
 *
 * Each is a kernel over rows (FOR_ROWS) that reads of what those before it make no row but the one at hand, or sums up rows in
 * parts; its results may lie where the product lies.  On CUDA they are launched one after another; the processor shares the rows out,
 * and takes all kernels to a share before the next one. */
#ifndef DEVICE_EPILOGUE_H
#define DEVICE_EPILOGUE_H
#include "device.h"

/* What an epilogue may come to, where a library has it:
 *     BIAS  y = c + bias      RELU  y = max(c + bias, 0)      GELU  y = gelu(x), x = c + bias      GELU_GRADIENT  y = c * gelu'(x)
 * with gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).  bias (n) may be missing; x, like c, is written by GELU where it
 * is wanted, and read by GELU_GRADIENT. */
enum KnownEpilogue : int64_t { OWN_KERNEL, BIAS, RELU, GELU, GELU_GRADIENT };

/* What a library would have to do in its place. */
struct LibraryForm {
    KnownEpilogue known = OWN_KERNEL;
    void *y = NULL, *x = NULL;
    const void *bias = NULL;
};

/* A kernel that waits for its rows.  run does one of `shares` equal shares of its work; all of it where it is not `apart`. */
struct Epilogue : LibraryForm {
    const char *kernel;
    Work work;
    bool apart;
    mutable const Epilogue *next = NULL; /* the kernel that follows */
    virtual void run(Step *s, int64_t share, int64_t shares) const = 0;

  protected:
    Epilogue(const char *k, Work w, bool a) : kernel(k), work(w), apart(a) {}
    ~Epilogue() = default;
};
template <class Run> struct EpilogueRun final : Epilogue {
    Run what;
    EpilogueRun(const char *k, Work w, bool a, Run r) : Epilogue(k, w, a), what(r) {}
    /* The same by other means: the processor takes the kernel. */
    EpilogueRun or_library(KnownEpilogue what_it_is, void *to, const void *with_bias, const void *x_of) const
    {
        EpilogueRun copy = *this;
        copy.known = what_it_is, copy.y = to, copy.bias = with_bias, copy.x = const_cast<void *>(x_of);
        return copy;
    }
    void run(Step *s, int64_t share, int64_t shares) const override
    {
        what(s, share, shares);
    }
};
#if defined(VARIANT_DIMS) && !defined(__CUDACC__)
template <class Kernel> static inline auto epilogue_known(const char *name, Work work, const Kernel &kernel)
{
    auto run = [=](Step *, int64_t share, int64_t shares) { run_known(kernel, share, shares); };
    return EpilogueRun<decltype(run)>(name, work, true, run);
}
#else
template <class Launch> struct EpilogueOf {
    Launch launch;
    template <class... A> auto operator()(A... a) const
    {
        const Launch l = launch;
#ifdef __CUDACC__
        auto run = [=](Step *, int64_t, int64_t) { l(a...); };
        return EpilogueRun<decltype(run)>(NULL, elements(0), false, run);
#else
        auto run = [=](Step *, int64_t share, int64_t shares) { l.run_block(share, shares, a...); };
        return EpilogueRun<decltype(run)>(l.name, l.work, true, run);
#endif
    }
};
template <class Launch> static inline EpilogueOf<Launch> epilogue_of(const Launch &launch)
{
    return {launch};
}
#define EPILOGUE(s, kernel, work, threads) epilogue_of(LAUNCH(s, kernel, work, threads))
#define EPILOGUE_FOURS(s, kernel, divisible, work, threads) epilogue_of(LAUNCH_FOURS(s, kernel, divisible, work, threads))
#endif

/* The first of several that follow each other. */
static inline const Epilogue *linked(const Epilogue &last)
{
    last.next = NULL;
    return &last;
}
template <class... More> static inline const Epilogue *linked(const Epilogue &first, const More &...more)
{
    first.next = linked(more...);
    return &first;
}

#ifndef __CUDACC__
/* False where one of them was refused: then none has run. */
static inline bool epilogues_wanted(Step *s, const Epilogue *first)
{
    for (const Epilogue *e = first; e && !s->error; e = e->next)
        if (e->apart) launch_wanted(s, e->work, e->kernel);
    return !s->error;
}

/* In how many shares kernels after each other are run, `blocks` blocks of rows each by itself: so many that the rows of a share stay near.
 * Sums in parts say how many there may be.  0: they do not agree. */
static inline int64_t epilogue_shares(const Epilogue *first, int64_t rows, int64_t blocks)
{
    enum { NEAR = 1 << 15 }; /* elements */
    int64_t parts = 0;
    double elements = 0;
    for (const Epilogue *e = first; e; e = e->next) {
        if (e->work.shares != rows) {
            if (e->work.shares % blocks != 0 || (parts && parts != e->work.shares / blocks)) return 0;
            parts = e->work.shares / blocks;
        }
        elements += (double)e->work.n * (double)e->work.each / (double)blocks;
    }
    const int64_t wanted = (int64_t)(elements / NEAR) + 1;
    return parts ? parts : rows < blocks ? 1 : wanted < rows / blocks ? wanted : rows / blocks;
}

/* What belongs to one block of rows, by all threads. */
static inline void run_epilogues(Step *s, const Epilogue *first, int64_t rows, int64_t block, int64_t blocks)
{
    const int64_t shares = first->next ? epilogue_shares(first, rows, blocks) : 0;
    if (shares)
        return share_out(shares, shares > 1, [=](int64_t share) {
            for (const Epilogue *e = first; e; e = e->next) e->run(s, block * shares + share, blocks * shares);
        });
    for (const Epilogue *e = first; e; e = e->next) {
        const int64_t parts = host_blocks({e->work.n / blocks, e->work.each, 1});
        share_out(parts, parts > 1, [=](int64_t part) { e->run(s, block * parts + part, blocks * parts); });
    }
}
#endif

template <class... More> static inline void in_turn(Step *s, int64_t rows, const Epilogue &first, const More &...more)
{
#ifdef __CUDACC__
    (void)rows;
    for (const Epilogue *e = linked(first, more...); e; e = e->next) e->run(s, 0, 1);
#else
    const Epilogue *const all = linked(first, more...);
    if (epilogues_wanted(s, all)) run_epilogues(s, all, rows, 0, 1);
#endif
}
#endif
