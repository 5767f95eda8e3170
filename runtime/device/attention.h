/* What kernels of attention are made of: a block of queries (or of keys) is held while the others pass by, a few at a time.
 *
 *     SHARED AttentionForward<float, 64, 64, false> tile;               heads of 64 numbers, values of 64
 *     tile.begin(q, row, count);                                        queries in the lanes: q[c][lane]
 *     for (from ...) {
 *         tile.multiply(k, row, n);                                     tile.s[key][lane] = the score
 *         FOR_OTHER (key, from, to) FOR_OWN (query, first, last) ...    what the model does to scores
 *         tile.add(v, row, n);                                          running maximum, sum and weighted values
 *     }
 *     tile.finish(y, row, top, scale, count, keys);
 *
 * Lanes are what vectors run along, so maxima, sums and exponentials need no shuffles, and keys and values are read where they
 * lie, whatever the distance of their rows.  The gradient does the same twice: with queries in the lanes for dq, with keys in the
 * lanes for dk and dv; nothing is added from two places, so the order of sums is fixed.
 * Memory may hold 16-bit floats where a tile's numbers are floats.
 * On the processor a block belongs to one thread; on CUDA to a block of threads, a multiple of 32, and lies in shared memory.
 * After Milakov and Gimelshein (arXiv 1805.02867) and Dao et al. (arXiv 2205.14135). */
#ifndef DEVICE_ATTENTION_H
#define DEVICE_ATTENTION_H
#include "tile.h"

#ifdef __CUDACC__
#define SHARED __shared__
#define ON_DEVICE __device__ inline
#define FOR_OTHER(i, first, last) for (int64_t i = (first) + threadIdx.x / 32; i <= (last); i += blockDim.x / 32)
#define FOR_OWN(j, first, last) for (int64_t j = (first) + threadIdx.x % 32; j <= (last); j += 32)
#define FOR_LANE(i, n) for (int i = (int)threadIdx.x; i < (n); i += (int)blockDim.x)
/* Four arrays of a head's numbers a lane, and scores, within what a block may have; heads of 1 KB at most have such a number. */
constexpr size_t SHARED_BYTES = 48 << 10;
constexpr int attention_lanes(size_t numbers, size_t each)
{
    int lanes = numbers * each <= 256 ? 32 : numbers * each <= 512 ? 16 : 8;
    while (lanes > 8 && (4 * numbers + 2 * (size_t)lanes + 4) * (size_t)lanes * each > SHARED_BYTES) lanes /= 2;
    return lanes;
}
#else
#define SHARED
#define ON_DEVICE inline INLINED
#define FOR_OTHER(i, first, last) for (int64_t i = (first); i <= (last); i++)
#define FOR_OWN(j, first, last) PRAGMA(omp simd) for (int64_t j = (first); j <= (last); j++)
#define FOR_LANE(i, n) PRAGMA(omp simd) for (int i = 0; i < (n); i++)
constexpr size_t SHARED_BYTES = SIZE_MAX;
constexpr int attention_lanes(size_t, size_t)
{
    return 64;
}
#endif

/* exp of a difference to the highest score; on the processor 0 below the least normal number: a mask makes many such, and numbers that
 * are not normal are slow.  (Doubles by a minimum of bits, of which the compiler makes no choice around exp: libmvec takes such out
 * of vectors, one by one.  Bits of negative numbers grow as those fall.) */
#ifdef __CUDACC__
ON_DEVICE float exponential(float x)
{
    return expf(x);
}
ON_DEVICE double exponential(double x)
{
    return exp(x);
}
#else
ON_DEVICE float exponential(float x)
{
    return x < -87.f ? 0.f : expf(x);
}
ON_DEVICE double exponential(double x)
{
    const uint64_t bits = bit_cast<uint64_t>(x), least = 0xC086200000000000u; /* -708 */
    return exp(bit_cast<double>(bits < least ? bits : least)) * (x < -708. ? 0. : x == x ? 1. : x);
}
#endif

/* x[m][lane] (+)= sum over k < depth of a[m * a_row + k * a_depth] * b[k][lane] */
template <bool ADD, class T, class A, int OWN>
static ON_DEVICE void block_product(T (*x)[OWN], const A *a, int64_t a_row, int64_t a_depth, const T (*b)[OWN], int64_t depth,
                                    int rows)
{
#ifdef __CUDACC__
    FOR_TILES (i, tiles(rows, 16)) {
        const int64_t at = 16 * i;
        Tile<T, 16, OWN> sums;
        sums.zero();
        sums.dot(strided(a + at * a_row, a_row, a_depth), strided(&b[0][0], OWN, 1), depth, rows - (int)at);
        sums.each([=](int m, int n, T &v) { x[at + m][n] = ADD ? x[at + m][n] + v : v; }, rows - (int)at);
    }
#else
    constexpr int N = Lanes<T>::N, VECTORS = OWN / N, V = VECTOR_REGISTERS > 16 && VECTORS % 4 == 0 ? 4 : 2;
    for (int v = 0; v < VECTORS; v += V) {
        const T *from[V];
        for (int i = 0; i < V; i++) from[i] = &b[0][(v + i) * N];
        register_rows<block_rows(V), V, ADD>(rows, &x[0][v * N], OWN, a, a_row, a_depth, from, OWN, depth);
    }
#endif
}

/* Rows of memory into lanes; lanes from count on are 0. */
template <class T, int N, class S, int OWN> static ON_DEVICE void into_lanes(T (*to)[OWN], const S *from, int64_t row, int64_t count)
{
#ifdef __CUDACC__
    for (int i = (int)threadIdx.x; i < N * OWN; i += (int)blockDim.x) to[i % N][i / N] = i / N < count ? T(from[i / N * row + i % N]) : T(0);
#else
    if (count < OWN) memset(to, 0, sizeof(T) * N * OWN);
    for (int c = 0; c < N; c++)
        for (int i = 0; i < count; i++) to[c][i] = from[i * row + c];
#endif
}
/* And back; each lane times its factor. */
template <class T, int N, class S, int OWN>
static ON_DEVICE void from_lanes(S *to, int64_t row, const T (*from)[OWN], int64_t count, const T *factor)
{
#ifdef __CUDACC__
    for (int64_t i = threadIdx.x; i < N * count; i += blockDim.x)
        to[i / N * row + i % N] = S(factor ? from[i % N][i / N] * factor[i / N] : from[i % N][i / N]);
#else
    for (int64_t i = 0; i < count; i++)
        for (int c = 0; c < N; c++) to[i * row + c] = S(factor ? from[c][i] * factor[i] : from[c][i]);
#endif
}

/* Rows of N numbers that a product reads element by element: on the processor 16-bit floats are made floats first, all at once. */
template <class T, class S, int ROWS, int N> struct OtherRows {
#ifndef __CUDACC__
    alignas(64) T floats[ROWS][N];
    const T *at;
    int64_t row;
    INLINED OtherRows(const S *from, int64_t from_row, int64_t n) : at(&floats[0][0]), row(N)
    {
        for (int64_t i = 0; i < n; i++) convert_row(floats[i], from + i * from_row, N);
    }
#else
    const S *at;
    int64_t row;
    __device__ OtherRows(const S *from, int64_t from_row, int64_t) : at(from), row(from_row) {}
#endif
};
template <class T, int ROWS, int N> struct OtherRows<T, T, ROWS, N> {
    const T *at;
    int64_t row;
    ON_DEVICE OtherRows(const T *from, int64_t from_row, int64_t) : at(from), row(from_row) {}
};

/* Whether each of these rows has met a score that no masked one comes near: exp(masked - top) is then 0. */
template <class T> static ON_DEVICE bool above_masked(const T *top, int64_t count)
{
    bool all = true;
    for (int64_t i = 0; i < count; i++) all = all && top[i] > T(-1e29);
    return all;
}

/* EMPTY: a row may have no key that counts; it gives 0. */
template <class T, int D, int E, bool EMPTY> struct AttentionForward {
    static constexpr int OWN = attention_lanes(D > E ? D : E, sizeof(T)), OTHER = OWN;
    alignas(64) T q[D][OWN], s[OTHER][OWN], y[E][OWN], top[OWN], sum[OWN], factor[OWN];
    bool any[OWN];

    template <class S> ON_DEVICE void begin(const S *from, int64_t row, int64_t count)
    {
        static_assert(sizeof(AttentionForward) <= SHARED_BYTES, "a head of more than 1 KB");
        into_lanes<T, D>(q, from, row, count);
        FOR_LANE (i, OWN) {
            top[i] = -INFINITY;
            sum[i] = 0;
            any[i] = !EMPTY;
        }
        FOR_OTHER (e, 0, E - 1) FOR_OWN (i, 0, OWN - 1) y[e][i] = 0;
        __syncthreads();
    }
    template <class S> ON_DEVICE void multiply(const S *k, int64_t row, int64_t n)
    {
        const OtherRows<T, S, OTHER, D> keys(k, row, n);
        block_product<false>(s, keys.at, keys.row, 1, q, D, (int)n);
        __syncthreads();
    }
    ON_DEVICE void allow(int64_t lane, bool counts)
    {
        if (counts) any[lane] = true;
    }
    template <class S> ON_DEVICE void add(const S *v, int64_t row, int64_t n)
    {
        const OtherRows<T, S, OTHER, E> values(v, row, n);
        __syncthreads();
        FOR_LANE (i, OWN) factor[i] = top[i];
        for (int64_t j = 0; j < n; j++) FOR_LANE (i, OWN) top[i] = s[j][i] > top[i] ? s[j][i] : top[i];
        FOR_LANE (i, OWN) factor[i] = exponential(factor[i] - (top[i] == T(-INFINITY) ? T(0) : top[i])), sum[i] *= factor[i];
        __syncthreads();
        FOR_OTHER (j, 0, n - 1) FOR_OWN (i, 0, OWN - 1) s[j][i] = exponential(s[j][i] - (top[i] == T(-INFINITY) ? T(0) : top[i]));
        FOR_OTHER (e, 0, E - 1) FOR_OWN (i, 0, OWN - 1) y[e][i] *= factor[i];
        __syncthreads();
        for (int64_t j = 0; j < n; j++) FOR_LANE (i, OWN) sum[i] += s[j][i]; /* a thread has the same lanes all along */
        block_product<true>(y, values.at, 1, values.row, s, n, E);
        __syncthreads();
    }
    ON_DEVICE bool found(int64_t count) const
    {
        return above_masked(top, count);
    }
    template <class S> ON_DEVICE void finish(S *to, int64_t row, T *to_top, T *to_scale, int64_t count, int64_t keys)
    {
        FOR_LANE (i, OWN) factor[i] = any[i] ? 1 / sum[i] : T(0);
        FOR_LANE (i, (int)count) {
            to_top[i] = top[i];
            to_scale[i] = factor[i];
            if (keys == 0) factor[i] = 0;
        }
        __syncthreads();
        from_lanes<T, E>(to, row, y, count, factor);
        __syncthreads();
    }
};

/* Over a row the gradients of scores sum to 0, but for roundings, which the keys of a whole batch would add up.  So the first kernel
 * sums them (rest), and the second takes delta with the rest put into it.
 * Own rows are queries, others keys, and the gradient of queries is summed up; or, BOTH, own are keys, others queries, and the
 * gradients of keys and of values are.  a: queries or keys; b: the gradient of the result, or values. */
template <class T, int D, int E, bool BOTH> struct AttentionGradient {
    static constexpr int OWN = attention_lanes(D > E ? D : E, sizeof(T)), OTHER = OWN;
    alignas(64) T a[D][OWN], b[E][OWN], da[D][OWN], db[BOTH ? E : 1][OWN], s[OTHER][OWN], g[OTHER][OWN], rest[BOTH ? 1 : OWN];

    template <class S> ON_DEVICE void begin(const S *own_a, int64_t a_row, const S *own_b, int64_t b_row, int64_t count)
    {
        static_assert(sizeof(AttentionGradient) <= SHARED_BYTES, "a head of more than 1 KB");
        into_lanes<T, D>(a, own_a, a_row, count);
        into_lanes<T, E>(b, own_b, b_row, count);
        FOR_OTHER (c, 0, D - 1) FOR_OWN (i, 0, OWN - 1) da[c][i] = 0;
        FOR_OTHER (c, 0, (BOTH ? E : 1) - 1) FOR_OWN (i, 0, OWN - 1) db[c][i] = 0;
        if constexpr (!BOTH) FOR_LANE (i, OWN) rest[i] = 0;
        __syncthreads();
    }
    /* s: scores; g: what each probability's gradient is */
    template <class S> ON_DEVICE void multiply(const S *other_a, int64_t a_row, const S *other_b, int64_t b_row, int64_t n)
    {
        const OtherRows<T, S, OTHER, D> of_a(other_a, a_row, n);
        const OtherRows<T, S, OTHER, E> of_b(other_b, b_row, n);
        block_product<false>(s, of_a.at, of_a.row, 1, a, D, (int)n);
        block_product<false>(g, of_b.at, of_b.row, 1, b, E, (int)n);
        __syncthreads();
    }
    /* s: probabilities, or where not BOTH the gradients of what was made of the scores; g: gradients of scores */
    template <class S> ON_DEVICE void add(const S *other_a, int64_t a_row, const S *other_b, int64_t b_row, int64_t n)
    {
        const OtherRows<T, S, OTHER, D> of_a(other_a, a_row, n);
        __syncthreads();
        block_product<true>(da, of_a.at, 1, of_a.row, g, n, D);
        if constexpr (BOTH) {
            const OtherRows<T, S, OTHER, E> of_b(other_b, b_row, n);
            block_product<true>(db, of_b.at, 1, of_b.row, s, n, E);
        } else {
            for (int64_t j = 0; j < n; j++) FOR_LANE (i, OWN) rest[i] += s[j][i];
        }
        __syncthreads();
    }
    template <class S> ON_DEVICE void balance(T *to, const S *delta, int64_t count) const
    {
        FOR_LANE (i, (int)count) to[i] = T(delta[i]) + rest[i];
    }
    template <class S> ON_DEVICE void finish(S *to_a, std::common_type_t<S> *to_b, int64_t count)
    {
        from_lanes<T, D>(to_a, D, da, count, (const T *)NULL);
        if constexpr (BOTH) from_lanes<T, E>(to_b, E, db, count, (const T *)NULL);
        __syncthreads();
    }
};
#endif
