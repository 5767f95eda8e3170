/* blas.h on the processor. */
#include "blas.h"
enum { PRODUCTS_WORTH = 1 << 17 }; /* multiplications that are worth more than one thread */
#include "dot_deep.h"
#define bfloat16 cblas_bfloat16 /* OpenBLAS has a type of that name */
#include <cblas.h>
#undef bfloat16
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>

/* Which of its kernels OpenBLAS takes.  A release older than the processor takes it for one of 2004; and some machines say
 * OPENBLAS_CORETYPE=Haswell for all their programs, which halves the speed where vectors are of 512 bits.  This program is built for
 * the processor at hand, so before the first product it sees to it that OpenBLAS uses vectors as wide as there are.
 * DISC_BLAS_CORE=NAME chooses other kernels.  Other BLAS libraries have none of these functions. */
extern "C" {
char *openblas_get_corename(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));
}
/* Its kernels anew: those named, or with NULL those that it finds by itself. */
static void take_core(const char *name)
{
    if (name)
        setenv("OPENBLAS_CORETYPE", name, 1);
    else
        unsetenv("OPENBLAS_CORETYPE");
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
}
static bool core_among(const char *const *names)
{
    for (; *names; names++)
        if (strcmp(openblas_get_corename(), *names) == 0) return true;
    return false;
}
__attribute__((constructor)) static void choose_core(void)
{
    if (!openblas_get_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit) return;
    if (getenv("DISC_BLAS_CORE")) return take_core(getenv("DISC_BLAS_CORE"));
#if defined(__x86_64__)
    static const char *const of_128_bits[] = {"Prescott", "Core2", "Nehalem", "Barcelona", "Atom", NULL};
    static const char *const of_256_bits[] = {"Sandybridge", "Bulldozer", "Piledriver", "Steamroller", "Excavator", "Haswell", "Zen", NULL};
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512bw"), half = __builtin_cpu_supports("avx2");
    for (int attempt = 0; attempt < 2; attempt++) {
        const bool narrow = core_among(of_128_bits) ? half : core_among(of_256_bits) && wide;
        if (!narrow) return;
        take_core(attempt == 0 ? NULL : wide ? "SkylakeX" : "Haswell");
    }
#endif
}

/* The library keeps to the thread that calls it: who waits awake in threads.h would be in the way of threads of its own. */
struct OneThread {
    const int before = omp_get_max_threads();
    OneThread()
    {
        if (before > 1) omp_set_num_threads(1);
    }
    OneThread(const OneThread &) = delete;
    ~OneThread()
    {
        if (before > 1) omp_set_num_threads(before);
    }
};

/* A product of matrices that are parts of others: rows of a, b and c lie so many elements apart. */
struct Product {
    bool ta, tb, add;
    int64_t m, n, k, a_row, b_row, c_row;
};
static void gemm(const Product &p, const float *a, const float *b, float *c)
{
    const OneThread one;
    cblas_sgemm(CblasRowMajor, p.ta ? CblasTrans : CblasNoTrans, p.tb ? CblasTrans : CblasNoTrans, (int)p.m, (int)p.n, (int)p.k, 1, a,
                (int)p.a_row, b, (int)p.b_row, p.add ? 1 : 0, c, (int)p.c_row);
}
static void gemm(const Product &p, const double *a, const double *b, double *c)
{
    const OneThread one;
    cblas_dgemm(CblasRowMajor, p.ta ? CblasTrans : CblasNoTrans, p.tb ? CblasTrans : CblasNoTrans, (int)p.m, (int)p.n, (int)p.k, 1, a,
                (int)p.a_row, b, (int)p.b_row, p.add ? 1 : 0, c, (int)p.c_row);
}

/* Any type and any size: rows of c in turn, the inner loop along them. */
template <class T>
static void plain_dot(T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add)
{
    typedef typename LongSum<T>::type S;
    const bool shared = (double)batch * (double)m * (double)n * (double)k > HOST_GRAIN;
    share_out(batch * m, shared, [=](int64_t row) {
        const int64_t i = row / m, r = row % m;
        const T *ai = a + i * m * k, *bi = b + i * k * n;
        for (int64_t j = 0; j < n; j++) {
            S sum = add ? S(c[row * n + j]) : S(0);
            for (int64_t p = 0; p < k; p++) sum = S(sum + S(ai[ta ? p * m + r : r * k + p]) * S(bi[tb ? j * k + p : p * n + j]));
            c[row * n + j] = T(sum);
        }
    });
}

/* ---- shared products ---- */
/* c is cut into as many parts as threads want, of those ways the one that packs least of a and b.  Cuts lie where OpenBLAS's blocks
 * for 512-bit vectors begin, and a part has more work than what it does in another way because it is little: so there sums have one
 * order, whatever the number of threads. */
enum { CUT = 48, PART_WORK = 4000000 };

/* A side's blocks, the last one with what is left. */
static int64_t cuts(int64_t side)
{
    return side < CUT ? 1 : side / CUT;
}
/* Where part i of n begins on a side. */
static int64_t cut_at(int64_t side, int64_t i, int64_t n)
{
    return i == n ? side : cuts(side) * i / n * CUT;
}

struct Parts {
    int64_t down, across;
};
static Parts parts_of(const Product &p)
{
    const int64_t rows = cuts(p.m), columns = cuts(p.n), most = threads_most();
    const double worth = (double)p.m * (double)p.n * (double)p.k / PART_WORK;
    const int64_t wanted = worth < (double)most ? (int64_t)worth : most;
    Parts best = {1, 1};
    for (int64_t down = 1; down <= wanted && down <= rows; down++) {
        const int64_t across = wanted / down < columns ? wanted / down : columns, parts = down * across, before = best.down * best.across;
        if (parts > before || (parts == before && across * p.m + down * p.n < best.across * p.m + best.down * p.n))
            best = {down, across};
    }
    return best;
}

template <class T> static void shared_gemm(const Product &p, const T *a, const T *b, T *c)
{
    const Parts parts = parts_of(p);
    share_out(parts.down * parts.across, true, [=](int64_t part) {
        const int64_t down = part / parts.across, across = part % parts.across;
        const int64_t row = cut_at(p.m, down, parts.down), column = cut_at(p.n, across, parts.across);
        Product some = p;
        some.m = cut_at(p.m, down + 1, parts.down) - row;
        some.n = cut_at(p.n, across + 1, parts.across) - column;
        gemm(some, a + row * (p.ta ? 1 : p.a_row), b + column * (p.tb ? p.b_row : 1), c + row * p.c_row + column);
    });
}

/* ---- few rows ---- */
/* A recurrent cell multiplies a few rows by the same matrix at every step; the library would pack that matrix anew each time.
 * Here it is read as it lies, a block of rows and columns at a time, the sums in registers. */
enum { FEW_ROWS = 64, FEWEST_ROWS = 8, FEW_BYTES = 1 << 20 };

/* V lanes of columns */
template <int V, class T> static void multiply_columns(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k)
{
    const T *from[V];
    for (int v = 0; v < V; v++) from[v] = b + v * Lanes<T>::N;
    register_rows<block_rows(2), V, false>(m, c, n, a, k, 1, from, n, k);
}

/* True where it was done.  Columns in pairs of vectors, shared out among threads where there is work for several. */
template <class T> static bool few_rows_dot(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k)
{
    constexpr int64_t N = Lanes<T>::N;
    if (m > FEW_ROWS || m < FEWEST_ROWS || n % N || n * k * (int64_t)sizeof(T) > FEW_BYTES) return false;
    const int64_t pairs = n / (2 * N);
    share_out(pairs, m * n * k > PRODUCTS_WORTH, [=](int64_t j) { multiply_columns<2>(c + j * 2 * N, a, b + j * 2 * N, m, n, k); });
    if (n % (2 * N)) multiply_columns<1>(c + n - N, a, b + n - N, m, n, k);
    return true;
}

/* A float or double product.  Many small ones run one a thread. */
template <class T>
static void library_dot(T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add)
{
    if (!library_counts(1, m, n, k)) return plain_dot(c, a, b, batch, m, n, k, ta, tb, add);
    if (batch == 1 && !ta && !tb && !add && few_rows_dot(c, a, b, m, n, k)) return;
    if (batch == 1 && ta && !tb && deep_dot(c, a, b, m, n, k, add)) return;
    const double each = (double)m * (double)n * (double)k;
    const bool shared = batch > 1 && each * (double)batch > PRODUCTS_WORTH && (batch >= threads_most() || each < 1e6);
    const Product p = {ta, tb, add, m, n, k, ta ? m : k, tb ? k : n, n};
    share_out(batch, shared, [=](int64_t i) { shared_gemm(p, a + i * m * k, b + i * k * n, c + i * m * n); });
}

/* A sum of products: each thread has rows of it, and adds product after product. */
template <class T> static void sum_products(const Product &p, T *c, const T *a, const T *b, Apart apart, int64_t batch)
{
    enum { ROWS = 96 }; /* the library's own blocks begin at multiples */
    const int64_t cuts = (p.m + ROWS - 1) / ROWS, parts = cuts < threads_most() ? cuts : threads_most();
    share_out(parts, (double)batch * (double)p.m * (double)p.n * (double)p.k > PRODUCTS_WORTH, [=](int64_t part) {
        const int64_t first = part * cuts / parts * ROWS, end = (part + 1) * cuts / parts * ROWS;
        Product some = p;
        some.m = (end < p.m ? end : p.m) - first;
        for (int64_t i = 0; i < batch; i++, some.add = true)
            gemm(some, a + i * apart.a + first * (p.ta ? 1 : p.a_row), b + i * apart.b, c + first * p.c_row);
    });
}

template <class T>
static void apart_of(T *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    const Product p = {ta, tb, false, m, n, k, ta ? m : k, tb ? k : n, n};
    if (apart.c == 0) return sum_products(p, c, a, b, apart, batch);
    const double each = (double)m * (double)n * (double)k;
    const bool shared = each * (double)batch > PRODUCTS_WORTH && (batch >= threads_most() || each < 1e6);
    share_out(batch, shared, [=](int64_t i) { shared_gemm(p, a + i * apart.a, b + i * apart.b, c + i * apart.c); });
}

/* ---- 16-bit floats ---- */
/* A tile of c is the sum, in floats, of products of tiles of a and b that are made floats just before; it is rounded once, at its end.
 * Tiles are tasks, and do not depend on the number of threads. */
static constexpr int64_t TILE_ROWS = 128, TILE_COLUMNS = 128, TILE_DEPTH = 512;

/* rows × columns of a matrix with `across` elements a row, as floats, dense. */
template <class T> static void as_floats(float *to, const T *from, int64_t across, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) convert_row(to + i * columns, from + i * across, columns);
}

template <class R, class T>
static void short_tile(R *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add, int64_t row,
                       int64_t last, int64_t column)
{
    alignas(64) float x[TILE_ROWS * TILE_DEPTH], y[TILE_DEPTH * TILE_COLUMNS], sum[TILE_ROWS * TILE_COLUMNS];
    const int rows = (int)(last - row < TILE_ROWS ? last - row : TILE_ROWS),
              columns = (int)(n - column < TILE_COLUMNS ? n - column : TILE_COLUMNS);
    for (int64_t p = 0; p < k; p += TILE_DEPTH) {
        const int depth = (int)(k - p < TILE_DEPTH ? k - p : TILE_DEPTH);
        if (ta)
            as_floats(x, a + p * m + row, m, depth, rows);
        else
            as_floats(x, a + row * k + p, k, rows, depth);
        if (tb)
            as_floats(y, b + column * k + p, k, columns, depth);
        else
            as_floats(y, b + p * n + column, n, depth, columns);
        gemm({ta, tb, p > 0, rows, columns, depth, ta ? rows : depth, tb ? depth : columns, columns}, x, y, sum);
    }
    for (int64_t i = 0; i < rows; i++) {
        R *to = c + (row + i) * n + column;
#pragma omp simd
        for (int64_t j = 0; j < columns; j++) to[j] = R(add ? float(to[j]) + sum[i * columns + j] : sum[i * columns + j]);
    }
}

template <class R, class T>
static void short_dot(R *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add)
{
    const int64_t down = (m + TILE_ROWS - 1) / TILE_ROWS, across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS, each = down * across;
    const bool shared = batch * each > 1 && (double)batch * (double)m * (double)n * (double)k > HOST_GRAIN;
    share_out(batch * each, shared, [=](int64_t task) {
        const int64_t i = task / each, row = task % each / across * TILE_ROWS, column = task % across * TILE_COLUMNS;
        short_tile(c + i * m * n, a + i * m * k, b + i * k * n, m, n, k, ta, tb, add, row, m, column);
    });
}

/* ---- some rows of a product ---- */
/* Rows first to last of c. */
template <class T>
static void dot_rows(T *c, const T *a, const T *b, int64_t first, int64_t last, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add)
{
    const Product p = {ta, tb, add, last - first, n, k, ta ? m : k, tb ? k : n, n};
    shared_gemm(p, a + (ta ? first : first * k), b, c + first * n);
}

template <class R, class T>
static void short_rows(R *c, const T *a, const T *b, int64_t first, int64_t last, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add)
{
    const int64_t down = (last - first + TILE_ROWS - 1) / TILE_ROWS, across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    share_out(down * across, true, [=](int64_t task) {
        short_tile(c, a, b, m, n, k, ta, tb, add, first + task / across * TILE_ROWS, last, task % across * TILE_COLUMNS);
    });
}
#define SHORT(R, T)                                                                                                                \
    [[maybe_unused]] static void dot_rows(R *c, const T *a, const T *b, int64_t first, int64_t last, int64_t m, int64_t n, int64_t k, \
                                          bool ta, bool tb, bool add)                                                              \
    {                                                                                                                              \
        short_rows(c, a, b, first, last, m, n, k, ta, tb, add);                                                                    \
    }
SHORT(half, half) SHORT(float, half) SHORT(bfloat16, bfloat16) SHORT(float, bfloat16)
#undef SHORT

/* ---- epilogues ---- */
/* The product is made in blocks of rows, which are given to the epilogue before the next one is made.  The fewer rows a block has, the
 * more often the library packs b anew: with 512 rows of k = 768 a block costs 3 % of the product, with 128 rows 20 %. */
enum { BLOCK_ROWS_MAX = 768, BLOCK_ROWS_MIN = 511, BLOCK_BYTES = 16 << 20 };

/* How many: an image each where there are several, else a power of two, which threads share evenly; whatever their number.  A share of
 * an epilogue's work must be the block's rows. */
static int64_t row_blocks(const Epilogue *first, int64_t batch, int64_t m, int64_t row_bytes)
{
    int64_t parts = 0; /* of those that sum rows up in parts */
    for (const Epilogue *e = first; e; e = e->next) {
        const int64_t shares = e->work.shares;
        if (!e->apart || e->work.n < 1) return 1;
        if (batch > 1 && shares % batch != 0) return 1;
        if (shares == m) continue;
        if (parts && parts != shares) return 1;
        parts = shares;
    }
    if (batch > 1) return batch;
    int64_t blocks = 1;
    while (m / blocks > BLOCK_ROWS_MAX || (m / blocks > BLOCK_ROWS_MIN && m / blocks * row_bytes > BLOCK_BYTES)) {
        if (parts && parts % (2 * blocks) != 0) break;
        blocks *= 2;
    }
    return blocks;
}

/* What belongs to one block, by all threads. */
static void run_block(Step *s, const Epilogue *first, int64_t rows, int64_t block, int64_t blocks)
{
    if (first->apart) return run_epilogues(s, first, rows, block, blocks);
    for (const Epilogue *e = first; e; e = e->next) e->run(s, 0, 1);
}

template <class R, class T>
static void dot_in_blocks(Step *s, R *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add,
                          const Epilogue *epilogue, int64_t blocks)
{
    const int64_t threads = threads_most();
    const bool worth = (double)batch * (double)m * (double)n * (double)k > PRODUCTS_WORTH;
    share_out(blocks, worth && (blocks % threads == 0 || blocks >= 4 * threads), [=](int64_t block) {
        const int64_t image = batch > 1 ? block : 0;
        const int64_t first = batch > 1 ? 0 : m * block / blocks, last = batch > 1 ? m : m * (block + 1) / blocks;
        dot_rows(c + image * m * n, a + image * m * k, b + image * k * n, first, last, m, n, k, ta, tb, add);
        run_block(s, epilogue, batch * m, block, blocks);
    });
}

static void dot_of(float *c, const float *a, const float *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                   bool add)
{
    library_dot(c, a, b, batch, m, n, k, ta, tb, add);
}
static void dot_of(double *c, const double *a, const double *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                   bool add)
{
    library_dot(c, a, b, batch, m, n, k, ta, tb, add);
}
#define SHORT(R, T)                                                                                                                \
    static void dot_of(R *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add)   \
    {                                                                                                                              \
        short_dot(c, a, b, batch, m, n, k, ta, tb, add);                                                                           \
    }
SHORT(half, half) SHORT(float, half) SHORT(bfloat16, bfloat16) SHORT(float, bfloat16)
template <class T>
static void dot_of(T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add)
{
    plain_dot(c, a, b, batch, m, n, k, ta, tb, add);
}

/* A product as the simulator records it. */
template <class R, class T> struct WholeDot {
    static constexpr bool aside = false;
    R *c;
    const T *a, *b;
    int64_t batch, m, n, k;
    int ta, tb, add, apart; /* apart: no byte is left out */
    int run(Step *) const
    {
        dot_of(c, a, b, batch, m, n, k, ta, tb, add);
        return 0;
    }
};

template <class R, class T>
static void dot_then(Step *s, R *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add,
                     const Epilogue *epilogue)
{
    const bool wanted = launch_wanted(s, elements(batch * m * n), "dot");
    if (s->error || !epilogues_wanted(s, epilogue)) return;
    if constexpr (!std::is_integral<T>::value) {
        const int64_t blocks = wanted && k > 0 && epilogue ? row_blocks(epilogue, batch, m, n * (int64_t)sizeof *c) : 1;
        if (blocks > 1 && library_counts(1, m, n, k))
            return dot_in_blocks(s, c, a, b, batch, m, n, k, ta, tb, add, epilogue, blocks);
    }
    if (wanted && k == 0 && !add) device_zeros(s, c, batch * m * n * (int64_t)sizeof *c);
    if (wanted && k > 0) perform(s, WholeDot<R, T>{c, a, b, batch, m, n, k, ta, tb, add, 0});
    if (epilogue && !s->error) run_block(s, epilogue, batch * m, 0, 1);
}

template <class R, class T> struct ApartDots {
    static constexpr bool aside = false;
    R *c;
    const T *a, *b;
    Apart apart;
    int64_t batch, m, n, k;
    int ta, tb;
    int run(Step *) const
    {
        if constexpr (std::is_same<R, T>::value && std::is_floating_point<T>::value)
            if (library_counts(1, m, n, k)) return apart_of(c, a, b, apart, batch, m, n, k, ta, tb), 0;
        for (int64_t i = 0; i < batch; i++)
            dot_of(c + i * apart.c, a + i * apart.a, b + i * apart.b, 1, m, n, k, ta, tb, apart.c == 0 && i > 0);
        return 0;
    }
};

template <class R, class T>
static void dots_apart(Step *s, R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    if (!launch_wanted(s, elements(batch * m * n), "dot_apart")) return;
    perform(s, ApartDots<R, T>{c, a, b, apart, batch, m, n, k, ta, tb});
}

#define DOT_AS(R, T)                                                                                                               \
    void dot_apart(Step *s, R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,    \
                   bool tb)                                                                                                        \
    {                                                                                                                              \
        dots_apart(s, c, a, b, apart, batch, m, n, k, ta, tb);                                                                     \
    }                                                                                                                              \
    void dot(Step *s, R *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,    \
             bool add, const Epilogue *epilogue)                                                                                   \
    {                                                                                                                              \
        dot_then(s, c, a, b, batch, m, n, k, trans_a, trans_b, add, epilogue);                                                     \
    }
#define DOT(T) DOT_AS(T, T)
#define DOT_FLOATS(T) DOT_AS(float, T)
USED_TYPES(DOT)
USED_SHORT_TYPES(DOT_FLOATS)
