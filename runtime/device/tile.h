/* A tile: a block of a matrix product that stays in registers while it is summed up, for kernels that do more than multiply.
 *
 *     Tile<float, 16, 64> x;                                            16 rows x 64 columns of sums
 *     x.product(strided(a, lda, 1), strided(b, ldb, 1), depth);         x[m, n] = sum over k < depth of a[m, k] * b[k, n]
 *     x.dot(strided(u, ldu, 1), strided(w, ldw, 1), depth);             x[m, n] += ...; x.zero() before the first of several
 *     x.each([=](int m, int n, float &v) INLINED { y[m * 64 + n] = tanhf(v); });
 *
 * - strided(p, row, column): element (i, j) lies at p[i * row + j * column], so a transposed operand is the same two numbers
 * swapped; it may be of another type than the sums: 16-bit floats are multiplied as floats.
 * - dot and each take the rows and columns that there really are (rows <= ROWS, columns <= COLUMNS): nothing beyond them is read,
 * and each skips them.
 * - GROUPS > 1: as many blocks side by side, `group` elements of b apart (the gates of a recurrent cell, gate and up of a SwiGLU);
 *   each then hands the elements of all groups at (m, n) to one call: f(m, n, x0, x1, ..).
 * - each may change the elements: it gets references.
 * - Rows is one number for each row (a running maximum): x.fold(r, f) makes r = f(r, element) over each row's elements, and
 *   r.of(m) is that of row m inside each.
 *
 * A tile belongs to one thread on the processor, to one warp on CUDA (threads come in multiples of 32), so the warps of a block
 * share tiles out among them:
 *
 *     FOR_TILES (i, tiles(n, 64)) { ... columns 64 * i and on ... }
 *
 * On the processor a dot with b's columns adjacent and none missing reads b where it lies; any other b is first put into a panel on
 * the stack, a few rows at a time: give it many rows, or lay b out so.  Sums run over k in order in both; fmaf on CUDA, or with
 * TILE_TF32 defined (--precision tf32; from sm_80 on), the tensor cores' tf32, which rounds factors to 10 bits. */
#ifndef DEVICE_TILE_H
#define DEVICE_TILE_H
#include <stdint.h>
#include <utility>

template <class T> struct Strided {
    const T *at;
    int64_t row, column;
};
template <class T> DEVICE Strided<T> strided(const T *at, int64_t row, int64_t column)
{
    return {at, row, column};
}
DEVICE int64_t tiles(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

#ifdef __CUDACC__
#include "tile_cuda.h"
#else
#include "tile_host.h"
#endif

/* ---- rows that never meet ----
 *
 *     FOR_ROW_BLOCKS (first, last, n) {                   a few rows that no other block touches, BLOCK_ROWS at most
 *         rows_dot(y, a, strided(b, 64, 1), first, last, 64, 128);
 *         __syncthreads();
 *         FOR_BLOCK_ROWS (row, first, last) {
 *             FOR_ROW_LANES (j, 64) ...                   elements of a row, shared out among a warp's threads
 *         }
 *     } */
#define FOR_ROW_BLOCKS(first, last, n)                                                                                             \
    for (RowBlocks blocks(n); blocks.more(); blocks.next())                                                                        \
        for (int64_t first = blocks.first(), last = blocks.last(), once = 1; once; once = 0)

/* Columns from .. from + columns of it, COLUMNS at most. */
template <int COLUMNS, class T, class F>
ROWS_DOT void rows_dot_tile(const T *a, Strided<T> b, int64_t first, int64_t last, int64_t from, int columns, int64_t depth, F f)
{
    typedef typename std::conditional<sizeof(T) == 2, float, T>::type Sum;
    Tile<Sum, BLOCK_ROWS, COLUMNS> x;
    const int rows = (int)(last - first);
    x.product(strided(a + first * depth, depth, 1), strided(b.at + from * b.column, b.row, b.column), depth, rows, columns);
    x.each([=](int m, int j, Sum &v) INLINED { f(first + m, from + j, v); }, rows, columns);
}
/* f(row, j, element) for the elements of a (rows, depth) · b (depth, n), rows first to last; a and y row after row. */
template <class T, class F>
ROWS_DOT void rows_dot_each(const T *a, Strided<T> b, int64_t first, int64_t last, int64_t n, int64_t depth, F f)
{
    constexpr int COLUMNS = ROW_TILE_BYTES / (sizeof(T) == 2 ? 4 : sizeof(T));
    FOR_TILES(i, tiles(n, COLUMNS))
    {
        const int64_t from = i * COLUMNS;
        const int columns = n - from < COLUMNS ? (int)(n - from) : COLUMNS;
        with_width<COLUMNS>(columns, [=](auto width) INLINED {
            rows_dot_tile<decltype(width)::value>(a, b, first, last, from, columns, depth, f);
        });
    }
}
/* y (rows, n) = a (rows, depth) · b (depth, n) */
template <class T> ROWS_DOT void rows_dot(T *y, const T *a, Strided<T> b, int64_t first, int64_t last, int64_t n, int64_t depth)
{
    rows_dot_each(a, b, first, last, n, depth, [=](int64_t row, int64_t j, auto v) INLINED { y[row * n + j] = T(v); });
}
#endif
