/* conv.h on the processor: floats and doubles as matrix products over tiles.
 *
 * A tile is a few hundred output positions of one image by some (channel, tap) pairs: "columns" (pairs, positions), gathered from x
 * into a buffer that stays in the second cache, then multiplied.  With c / groups channels and t taps, K = c / groups * t: y  (o,
 * positions)  = w (o, K) · columns (K, positions)           a task an image, group and tile of positions dw (o, K)         += dy
 * (o, positions) · columns^T               a task some pairs of all images columns            = w^T (K, o) · dy (o, positions),
 * added to dx  a task an image and some channels Each result belongs to one task, so sums have one order, whatever the number of
 * threads. */
#include "conv_plain.h"
#define bfloat16 cblas_bfloat16 /* OpenBLAS has a type of that name */
#include <cblas.h>
#undef bfloat16
#include <string.h>

enum { TILE_BYTES = 256 << 10, TILE_PAIRS = 256 };

static void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    cblas_sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}
static void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int64_t m, int64_t n, int64_t k, const double *a, int64_t lda,
                 const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    cblas_dgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The part [from, to) of a row of `width` outputs whose inputs p * stride + shift lie in 0 .. size - 1. */
static void inside(int64_t shift, int64_t stride, int64_t size, int64_t width, int64_t *from, int64_t *to)
{
    *from = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    *to = shift >= size ? 0 : (size - 1 - shift) / stride + 1;
    *to = least(*to, width);
    *from = least(*from, *to < 0 ? 0 : *to);
    *to = most(*to, *from);
}

/* One (channel, tap) pair and a run of positions in one row of outputs: calls f(first position in the run, x offset, length) for
 * what lies inside x. */
struct Segment {
    int64_t start, length; /* within the run of positions */
    int64_t x;             /* offset in the channel's plane of the first */
};
static Segment segment(const Conv &s, int64_t tap, int64_t row, int64_t column, int64_t length)
{
    const int64_t t2 = tap % s.k[2], t1 = tap / s.k[2] % s.k[1], t0 = tap / s.k[2] / s.k[1];
    const int64_t x0 = row / s.y[1] * s.stride[0] - s.low[0] + t0 * s.dilation[0];
    const int64_t x1 = row % s.y[1] * s.stride[1] - s.low[1] + t1 * s.dilation[1];
    if (x0 < 0 || x0 >= s.x[0] || x1 < 0 || x1 >= s.x[1]) return {0, 0, 0};
    const int64_t shift = column * s.stride[2] - s.low[2] + t2 * s.dilation[2];
    int64_t from, to;
    inside(shift, s.stride[2], s.x[2], length, &from, &to);
    return {from, to - from, (x0 * s.x[1] + x1) * s.x[2] + shift + from * s.stride[2]};
}

/* columns (pairs first .. first + n, positions p .. p + width) of the image and group at x. */
template <class T> static void gather(const Conv &s, T *columns, const T *x, int64_t first, int64_t n, int64_t p, int64_t width)
{
    const int64_t taps = volume(s.k), plane = volume(s.x);
    for (int64_t i = 0; i < n; i++) {
        const T *xc = x + (first + i) / taps * plane;
        T *to = columns + i * width;
        for (int64_t at = 0; at < width;) {
            const int64_t row = (p + at) / s.y[2], column = (p + at) % s.y[2], run = least(s.y[2] - column, width - at);
            const Segment g = segment(s, (first + i) % taps, row, column, run);
            for (int64_t j = 0; j < g.start; j++) to[at + j] = 0;
            if (s.stride[2] == 1)
                memcpy(to + at + g.start, xc + g.x, (size_t)g.length * sizeof(T));
            else
                for (int64_t j = 0; j < g.length; j++) to[at + g.start + j] = xc[g.x + j * s.stride[2]];
            for (int64_t j = g.start + g.length; j < run; j++) to[at + j] = 0;
            at += run;
        }
    }
}

/* The opposite: adds columns to dx. */
template <class T> static void spread(const Conv &s, T *dx, const T *columns, int64_t first, int64_t n, int64_t p, int64_t width)
{
    const int64_t taps = volume(s.k), plane = volume(s.x);
    for (int64_t i = 0; i < n; i++) {
        T *to = dx + (first + i) / taps * plane;
        const T *from = columns + i * width;
        for (int64_t at = 0; at < width;) {
            const int64_t row = (p + at) / s.y[2], column = (p + at) % s.y[2], run = least(s.y[2] - column, width - at);
            const Segment g = segment(s, (first + i) % taps, row, column, run);
            const int64_t stride = s.stride[2];
            if (stride == 1) {
#pragma omp simd
                for (int64_t j = 0; j < g.length; j++) to[g.x + j] += from[at + g.start + j];
            } else {
                for (int64_t j = 0; j < g.length; j++) to[g.x + j * stride] += from[at + g.start + j];
            }
            at += run;
        }
    }
}

/* x itself is the columns. */
static bool is_pointwise(const Conv &s)
{
    bool one = true;
    for (int i = 0; i < 3; i++) one = one && s.k[i] == 1 && s.stride[i] == 1 && s.low[i] == 0 && s.x[i] == s.y[i];
    return one;
}

/* How many positions a tile has when it holds `pairs` pairs. */
template <class T> static int64_t tile_width(int64_t pairs)
{
    return TILE_BYTES / (int64_t)sizeof(T) / most(pairs, 1);
}

template <class T> static void conv_tiles(T *y, const T *x, const T *w, const Conv &s)
{
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, K = inputs * volume(s.k), P = volume(s.y), plane = volume(s.x);
    const int64_t pairs = least(K, TILE_PAIRS), width = least(tile_width<T>(pairs), P), tiles = (P + width - 1) / width;
    const bool pointwise = is_pointwise(s);
#pragma omp parallel for schedule(static) if ((double)s.n * (double)s.o * (double)K * (double)P > HOST_GRAIN)
    for (int64_t task = 0; task < s.n * s.groups * tiles; task++) {
        alignas(64) T columns[TILE_BYTES / sizeof(T)];
        const int64_t tile = task % tiles, group = task / tiles % s.groups, n = task / tiles / s.groups;
        const int64_t p = tile * width, q = least(width, P - p);
        const T *xg = x + (n * s.c + group * inputs) * plane, *wg = w + group * outputs * K;
        T *to = y + (n * s.o + group * outputs) * P + p;
        for (int64_t first = 0; first < K; first += pairs) {
            const int64_t count = least(pairs, K - first);
            const T *b = pointwise ? xg + first * P + p : columns;
            if (!pointwise) gather(s, columns, xg, first, count, p, q);
            gemm(CblasNoTrans, CblasNoTrans, outputs, q, count, wg + first, K, b, pointwise ? P : q, first ? 1 : 0, to, P);
        }
    }
}

template <class T> static void grad_weight_tiles(T *dw, const T *dy, const T *x, const Conv &s)
{
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, K = inputs * volume(s.k), P = volume(s.y), plane = volume(s.x);
    /* enough tasks to share out, each with enough to multiply; a choice by sizes alone */
    const int64_t pairs = most(least(K, 16), least(TILE_PAIRS, (K + 7) / 8)), blocks = (K + pairs - 1) / pairs;
    const int64_t width = least(least(tile_width<T>(pairs), 1024), P);
    const bool pointwise = is_pointwise(s);
#pragma omp parallel for schedule(static) if ((double)s.n * (double)s.o * (double)K * (double)P > HOST_GRAIN)
    for (int64_t task = 0; task < s.groups * blocks; task++) {
        alignas(64) T columns[TILE_BYTES / sizeof(T)];
        const int64_t group = task / blocks, first = task % blocks * pairs, count = least(pairs, K - first);
        bool begun = false;
        for (int64_t n = 0; n < s.n; n++) {
            const T *xg = x + (n * s.c + group * inputs) * plane, *dyg = dy + (n * s.o + group * outputs) * P;
            for (int64_t p = 0; p < P; p += width, begun = true) {
                const int64_t q = least(width, P - p);
                const T *b = pointwise ? xg + first * P + p : columns;
                if (!pointwise) gather(s, columns, xg, first, count, p, q);
                gemm(CblasNoTrans, CblasTrans, outputs, count, q, dyg + p, P, b, pointwise ? P : q, begun ? 1 : 0,
                     dw + group * outputs * K + first, K);
            }
        }
    }
}

template <class T> static void grad_input_tiles(T *dx, const T *dy, const T *w, const Conv &s)
{
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, taps = volume(s.k), K = inputs * taps, P = volume(s.y),
                  plane = volume(s.x);
    const int64_t channels = least(inputs, most(1, TILE_PAIRS / taps)), blocks = (inputs + channels - 1) / channels;
    const int64_t width = most(1, least(tile_width<T>(channels * taps), P));
    const bool pointwise = is_pointwise(s);
#pragma omp parallel for schedule(static) if ((double)s.n * (double)s.o * (double)K * (double)P > HOST_GRAIN)
    for (int64_t task = 0; task < s.n * s.groups * blocks; task++) {
        alignas(64) T columns[TILE_BYTES / sizeof(T)];
        const int64_t c = task % blocks * channels, group = task / blocks % s.groups, n = task / blocks / s.groups;
        const int64_t count = least(channels, inputs - c) * taps;
        const T *wg = w + group * outputs * K + c * taps, *dyg = dy + (n * s.o + group * outputs) * P;
        T *to = dx + (n * s.c + group * inputs + c) * plane;
        if (pointwise) {
            gemm(CblasTrans, CblasNoTrans, count, P, outputs, wg, K, dyg, P, 0, to, P);
            continue;
        }
        memset(to, 0, (size_t)(count / taps * plane) * sizeof(T));
        for (int64_t p = 0; p < P; p += width) {
            const int64_t q = least(width, P - p);
            gemm(CblasTrans, CblasNoTrans, count, q, outputs, wg, K, dyg + p, P, 0, columns, q);
            spread(s, to, columns, 0, count, p, q);
        }
    }
}

/* Taps that a tile cannot hold even for one channel and one position are left to the plain way, as is work that is empty. */
template <class T> static bool fits_tiles(const Conv &s)
{
    const int64_t work[] = {s.n, s.o, s.c / s.groups, volume(s.k), volume(s.y), volume(s.x)};
    for (int64_t size : work)
        if (size == 0) return false;
    return volume(s.k) <= TILE_BYTES / (int64_t)sizeof(T) / 64;
}

/* Few channels a group: a matrix product of one row is slower than the loop itself. */
static bool is_depthwise(const Conv &s)
{
    return s.c / s.groups == 1 && s.o / s.groups <= 2;
}

#include "conv_depthwise.h"

#define CONV_TILES(T)                                                                                                              \
    void conv(Step *s, T *y, const T *x, const T *w, const Conv &shape)                                                            \
    {                                                                                                                              \
        if (!launch_wanted(s, elements(shape.n * shape.o * volume(shape.y)))) return;                                              \
        if (!fits_tiles<T>(shape))                                                                                                 \
            conv_plain(s, y, x, w, shape);                                                                                         \
        else if (is_depthwise(shape))                                                                                              \
            depthwise(y, x, w, shape);                                                                                             \
        else                                                                                                                       \
            conv_tiles(y, x, w, shape);                                                                                            \
    }                                                                                                                              \
    void conv_grad_input(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)                                               \
    {                                                                                                                              \
        if (!launch_wanted(s, elements(shape.n * shape.c * volume(shape.x)))) return;                                              \
        if (!fits_tiles<T>(shape))                                                                                                 \
            conv_grad_input_plain(s, dx, dy, w, shape);                                                                            \
        else if (is_depthwise(shape))                                                                                              \
            depthwise_grad_input(dx, dy, w, shape);                                                                                \
        else                                                                                                                       \
            grad_input_tiles(dx, dy, w, shape);                                                                                    \
    }                                                                                                                              \
    void conv_grad_weight(Step *s, T *dw, const T *dy, const T *x, const Conv &shape)                                              \
    {                                                                                                                              \
        if (!launch_wanted(s, elements(shape.o * shape.c / shape.groups * volume(shape.k)))) return;                               \
        if (!fits_tiles<T>(shape))                                                                                                 \
            conv_grad_weight_plain(s, dw, dy, x, shape);                                                                           \
        else if (is_depthwise(shape))                                                                                              \
            depthwise_grad_weight(dw, dy, x, shape);                                                                               \
        else                                                                                                                       \
            grad_weight_tiles(dw, dy, x, shape);                                                                                   \
    }
CONV_TILES(float)
CONV_TILES(double)

#define CONV_PLAIN(T)                                                                                                              \
    void conv(Step *s, T *y, const T *x, const T *w, const Conv &shape)                                                            \
    {                                                                                                                              \
        conv_plain(s, y, x, w, shape);                                                                                             \
    }                                                                                                                              \
    void conv_grad_input(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)                                               \
    {                                                                                                                              \
        conv_grad_input_plain(s, dx, dy, w, shape);                                                                                \
    }                                                                                                                              \
    void conv_grad_weight(Step *s, T *dw, const T *dy, const T *x, const Conv &shape)                                              \
    {                                                                                                                              \
        conv_grad_weight_plain(s, dw, dy, x, shape);                                                                               \
    }
CONV_PLAIN(half)
CONV_PLAIN(bfloat16) CONV_PLAIN(int8_t) CONV_PLAIN(int16_t) CONV_PLAIN(int32_t) CONV_PLAIN(int64_t) CONV_PLAIN(uint8_t)
    CONV_PLAIN(uint16_t) CONV_PLAIN(uint32_t) CONV_PLAIN(uint64_t) CONV_PLAIN(bool)
