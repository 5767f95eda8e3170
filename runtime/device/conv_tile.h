/* Part of conv_host.cpp: what the three products of a convolution are made of.
 *
 * A tile is a run of output positions, counted through images: position f is f % P of image f / P.  Its columns (pairs, width) hold
 * for each pair of a channel and a tap the elements of x that the tap meets; a matrix product with them happens in registers. */
#ifndef DEVICE_CONV_TILE_H
#define DEVICE_CONV_TILE_H
#include "conv.h"
#include "tile.h"
#include <string.h>

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

enum { VECTORS = 3 };                   /* across a register block */
enum { SUM_ROWS = 4, SUM_COLUMNS = 6 }; /* of one whose lanes are summed at the end */
template <class T> constexpr int64_t tile_width()
{
    return VECTORS * Lanes<T>::N;
}

/* ---- products ---- */
/* c (rows, tile_width) [+]= a (rows, k) · b (k, tile_width); a's element (r, p) lies at r * a_row + p * a_step. */
template <class T>
static void multiply(int64_t rows, int64_t k, const T *a, int64_t a_row, int64_t a_step, const T *b, T *c, bool add)
{
    constexpr int N = Lanes<T>::N, R = block_rows(VECTORS);
    const T *const from[VECTORS] = {b, b + N, b + 2 * N};
    if (add)
        register_rows<R, VECTORS, true>(rows, c, VECTORS * N, a, a_row, a_step, from, VECTORS * N, k);
    else
        register_rows<R, VECTORS, false>(rows, c, VECTORS * N, a, a_row, a_step, from, VECTORS * N, k);
}

/* sums (rows, columns), each as a vector of partial sums, += a (rows, width) · b (columns, width)^T; rows and columns are multiples
 * of SUM_ROWS and SUM_COLUMNS, width of the lanes. */
template <class T>
static void multiply_sums(int64_t rows, int64_t columns, int64_t width, const T *a, const T *b, typename Lanes<T>::V *sums)
{
    typedef typename Lanes<T>::V V;
    constexpr int N = Lanes<T>::N;
    for (int64_t i = 0; i < rows; i += SUM_ROWS)
        for (int64_t j = 0; j < columns; j += SUM_COLUMNS) {
            V sum[SUM_ROWS][SUM_COLUMNS];
#pragma GCC unroll 4
            for (int r = 0; r < SUM_ROWS; r++)
#pragma GCC unroll 6
                for (int c = 0; c < SUM_COLUMNS; c++) sum[r][c] = sums[(i + r) * columns + j + c];
            for (int64_t p = 0; p < width; p += N) {
                V x[SUM_ROWS];
#pragma GCC unroll 4
                for (int r = 0; r < SUM_ROWS; r++) x[r] = *(const V *)(a + (i + r) * width + p);
#pragma GCC unroll 6
                for (int c = 0; c < SUM_COLUMNS; c++) {
                    const V y = *(const V *)(b + (j + c) * width + p);
#pragma GCC unroll 4
                    for (int r = 0; r < SUM_ROWS; r++) sum[r][c] += x[r] * y;
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < SUM_ROWS; r++)
#pragma GCC unroll 6
                for (int c = 0; c < SUM_COLUMNS; c++) sums[(i + r) * columns + j + c] = sum[r][c];
        }
}

/* In halves. */
template <class T> static inline T sum_of_lanes(const typename Lanes<T>::V &v)
{
    T x[Lanes<T>::N];
    memcpy(x, &v, sizeof v);
    for (int n = Lanes<T>::N / 2; n; n /= 2)
        for (int i = 0; i < n; i++) x[i] += x[i + n];
    return x[0];
}

/* ---- tiles ---- */
/* A run of positions in one row of one image. */
struct Piece {
    int64_t at, length; /* in the tile */
    int64_t image, y0, y1, column;
};
enum { MOST_PIECES = 512 };

static int cut_pieces(const Conv &s, int64_t first, int64_t width, Piece *pieces)
{
    const int64_t P = volume(s.y);
    int n = 0;
    for (int64_t at = 0; at < width; n++) {
        const int64_t p = (first + at) % P, row = p / s.y[2], column = p % s.y[2], length = least(s.y[2] - column, width - at);
        pieces[n] = {at, length, (first + at) / P, row / s.y[1], row % s.y[1], column};
        at += length;
    }
    return n;
}

/* Where a tap meets x for the outputs of a piece: those from `from` on, `length` of them, at offset x of the channel's plane. */
struct Meeting {
    int64_t from, length, x;
};
static Meeting meet(const Conv &s, const Piece &p, int64_t t0, int64_t t1, int64_t t2)
{
    const int64_t x0 = p.y0 * s.stride[0] - s.low[0] + t0 * s.dilation[0], x1 = p.y1 * s.stride[1] - s.low[1] + t1 * s.dilation[1];
    if (x0 < 0 || x0 >= s.x[0] || x1 < 0 || x1 >= s.x[1]) return {0, 0, 0};
    const int64_t shift = p.column * s.stride[2] - s.low[2] + t2 * s.dilation[2], stride = s.stride[2];
    const int64_t from = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const int64_t to = shift >= s.x[2] ? 0 : least((s.x[2] - 1 - shift) / stride + 1, p.length);
    return {from, most(to - from, 0), (x0 * s.x[1] + x1) * s.x[2] + shift + from * stride};
}

template <class T> static inline void copy_run(T *to, const T *from, int64_t n)
{
    while (n >= 8) {
        memcpy(to, from, 8 * sizeof(T));
        to += 8, from += 8, n -= 8;
    }
    if (n >= 4) {
        memcpy(to, from, 4 * sizeof(T));
        to += 4, from += 4, n -= 4;
    }
    if (n >= 2) {
        memcpy(to, from, 2 * sizeof(T));
        to += 2, from += 2, n -= 2;
    }
    if (n == 1) *to = *from;
}

/* columns (channels * taps, width) of channels c .. c + channels of x, whose images lie `image` elements apart. */
template <class T>
static void gather(const Conv &s, T *columns, const T *x, int64_t image, int64_t c, int64_t channels, const Piece *pieces, int n,
                   int64_t width)
{
    const int64_t taps = volume(s.k), plane = volume(s.x);
    int64_t tap = 0;
    for (int64_t t0 = 0; t0 < s.k[0]; t0++)
        for (int64_t t1 = 0; t1 < s.k[1]; t1++)
            for (int64_t t2 = 0; t2 < s.k[2]; t2++, tap++) {
                Meeting meetings[MOST_PIECES];
                int64_t met = 0;
                for (int i = 0; i < n; i++) {
                    meetings[i] = meet(s, pieces[i], t0, t1, t2);
                    met += meetings[i].length;
                }
                for (int64_t i = 0; i < channels; i++) {
                    T *to = columns + (i * taps + tap) * width;
                    const T *from = x + (c + i) * plane;
                    if (met < width) memset(to, 0, (size_t)width * sizeof(T));
                    for (int j = 0; j < n; j++) {
                        const Meeting &m = meetings[j];
                        const T *source = from + pieces[j].image * image + m.x;
                        T *target = to + pieces[j].at + m.from;
                        if (s.stride[2] == 1)
                            copy_run(target, source, m.length);
                        else
                            for (int64_t p = 0; p < m.length; p++) target[p] = source[p * s.stride[2]];
                    }
                }
            }
}

/* The opposite: adds columns to dx. */
template <class T>
static void spread(const Conv &s, T *dx, int64_t image, int64_t c, int64_t channels, const T *columns, const Piece *pieces, int n,
                   int64_t width)
{
    const int64_t taps = volume(s.k), plane = volume(s.x), stride = s.stride[2];
    int64_t tap = 0;
    for (int64_t t0 = 0; t0 < s.k[0]; t0++)
        for (int64_t t1 = 0; t1 < s.k[1]; t1++)
            for (int64_t t2 = 0; t2 < s.k[2]; t2++, tap++) {
                Meeting meetings[MOST_PIECES];
                for (int i = 0; i < n; i++) meetings[i] = meet(s, pieces[i], t0, t1, t2);
                for (int64_t i = 0; i < channels; i++) {
                    const T *from = columns + (i * taps + tap) * width;
                    T *to = dx + (c + i) * plane;
                    for (int j = 0; j < n; j++) {
                        const Meeting &m = meetings[j];
                        T *target = to + pieces[j].image * image + m.x;
                        const T *source = from + pieces[j].at + m.from;
                        if (stride == 1) {
#pragma omp simd
                            for (int64_t p = 0; p < m.length; p++) target[p] += source[p];
                        } else {
                            for (int64_t p = 0; p < m.length; p++) target[p * stride] += source[p];
                        }
                    }
                }
            }
}

/* Copies a run of positions of `channels` planes of y into rows of `width`, or back; what is past `used` is 0. */
template <class T>
static void gather_planes(T *to, const T *y, int64_t image, int64_t P, int64_t channels, int64_t first, int64_t used, int64_t width)
{
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t at = 0; at < used;) {
            const int64_t p = (first + at) % P, n = least(P - p, used - at);
            copy_run(to + c * width + at, y + (first + at) / P * image + c * P + p, n);
            at += n;
        }
        for (int64_t at = used; at < width; at++) to[c * width + at] = 0;
    }
}
template <class T>
static void spread_planes(T *y, const T *from, int64_t image, int64_t P, int64_t channels, int64_t first, int64_t used,
                          int64_t width)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t at = 0; at < used;) {
            const int64_t p = (first + at) % P, n = least(P - p, used - at);
            copy_run(y + (first + at) / P * image + c * P + p, from + c * width + at, n);
            at += n;
        }
}
#endif
