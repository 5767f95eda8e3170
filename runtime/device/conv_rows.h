/* Part of conv_host.cpp, and of variants (conv_known.h): convolutions along one axis, of few channels, with positions in lanes.
 *
 * An image's rows are put where zeros lie around them, a row for each channel and each phase of the stride.  There a tap meets neighbours
 * for neighbouring results, and a block of results, R channels by V vectors of positions, stays in registers through all taps and channels.
 * Neither images nor weights are turned, which for few channels costs as much as the products (conv_last.h).
 *
 * - y: rows of x, element q of phase f being x[q * stride + f];
 * - dx: rows of dy; results whose positions are equal modulo the stride meet the same taps.
 *
 * A result's terms are summed tap by tap, and channel by channel within a tap, whatever the sizes.  `Of` says where the shape comes from:
 * of() is a constant in a variant. */
#ifndef DEVICE_CONV_ROWS_H
#define DEVICE_CONV_ROWS_H
#include "../controller/integers.h"
#include "conv.h"
#include "tile.h"

#ifdef VARIANT_DIMS
#define WITH_SHAPE __attribute__((flatten)) /* what is called is compiled into it, for this shape */
#else
#define WITH_SHAPE
#endif

enum { ROWS_BYTES = 64 << 10, ROWS_WEIGHT_BYTES = 32 << 10, MOST_ROW_TAPS = 32, TALLEST = 8, WIDEST = 3 };

static bool worth_sharing(const Conv &s)
{
    return (double)s.n * (double)s.o * (double)(s.c / s.groups) * (double)(volume(s.k) * volume(s.y)) > HOST_GRAIN;
}

/* How rows are laid: elements first .. first + length of each. */
struct RowLayout {
    int64_t first, length;
};
constexpr RowLayout layout_rows(const Conv &s, bool grad_input)
{
    const int64_t reach = (s.k[2] - 1) * s.dilation[2], stride = s.stride[2], low = s.low[2];
    const int64_t first = grad_input ? floor_div(low - reach, stride) : floor_div(-low, stride);
    const int64_t last = grad_input ? ceil_div(s.x[2], stride) - 1 + floor_div(stride - 1 + low, stride)
                                    : s.y[2] - 1 + floor_div(reach - low, stride);
    return {first, last - first + 1};
}

/* Where a lane is a position there must be as many, and what is laid out must stay near. */
template <class T> constexpr bool suits_rows(const Conv &s, bool grad_input)
{
    for (int i = 0; i < 2; i++)
        if (s.x[i] != 1 || s.y[i] != 1 || s.k[i] != 1 || s.low[i] != 0) return false;
    const int64_t stride = s.stride[2], channels = grad_input ? s.o : s.c * stride, size = (int64_t)sizeof(T);
    const int64_t results = grad_input ? s.x[2] / stride : s.y[2], made = grad_input && stride == 2 ? 2 * s.c * ceil_div(s.x[2], 2) : 0;
    if (s.c == 1 && s.o <= 2) return false; /* conv_depthwise.h */
    return s.groups == 1 && s.x[2] > 0 && stride <= 2 && s.k[2] > 1 && s.k[2] <= MOST_ROW_TAPS && s.c * s.o * s.k[2] * size <= ROWS_WEIGHT_BYTES &&
           results >= Lanes<T>::N && channels * layout_rows(s, grad_input).length * size <= ROWS_BYTES && made * size <= ROWS_BYTES;
}

/* Elements first .. first + length of a row that has n, `step` apart: zeros before and behind. */
template <int STEP, class T> static inline void lay_row(T *to, const T *from, int64_t n, RowLayout layout)
{
    const int64_t begin = layout.first < 0 ? min_int(-layout.first, layout.length) : 0,
                  end = max_int(begin, min_int(layout.length, n - layout.first));
    for (int64_t i = 0; i < begin; i++) to[i] = 0;
    for (int64_t i = begin; i < end; i++) to[i] = from[(i + layout.first) * STEP];
    for (int64_t i = end; i < layout.length; i++) to[i] = 0;
}

/* What a tap meets for the first position and channel, and its weight there. */
struct RowTap {
    int64_t at, weight;
};
/* A product's operands: rows, and weights of which those of neighbouring results and of neighbouring channels lie so far apart. */
template <class T> struct RowProduct {
    const T *rows, *weights;
    int64_t pitch, channels, of_result, of_channel;
    const RowTap *taps;
    int64_t n;
};

/* R results by V vectors, which begin at the positions at[]; rows of `to` are to_row apart. */
template <int R, int V, class T>
static inline void rows_block(T *to, int64_t to_row, const RowProduct<T> &p, const T *weights, const int64_t *at)
{
    typedef typename Lanes<T>::V Vector;
    Vector sum[R][V] = {};
    for (int64_t t = 0; t < p.n; t++) {
        const T *row = p.rows + p.taps[t].at, *w = weights + p.taps[t].weight;
        for (int64_t c = 0; c < p.channels; c++, row += p.pitch, w += p.of_channel) {
            Vector x[V];
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) x[v] = *(const Vector *)(row + at[v]);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
#pragma GCC unroll 4
                for (int v = 0; v < V; v++) sum[r][v] += w[r * p.of_result] * x[v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) *(Vector *)(to + r * to_row + at[v]) = sum[r][v];
}
template <int R, int V, class T>
static inline void rows_blocks(T *to, int64_t to_row, const RowProduct<T> &p, const T *weights, const int64_t *at, int64_t results)
{
    int64_t r = 0;
    for (; r + R <= results; r += R) rows_block<R, V>(to + r * to_row, to_row, p, weights + r * p.of_result, at);
    if constexpr (R > 1)
        if (r < results) rows_blocks<R / 2, V>(to + r * to_row, to_row, p, weights + r * p.of_result, at, results - r);
}

/* to (results, positions), positions as many as lanes or more: the last vector does some of the one before once more. */
template <class T>
static inline void rows_product(T *to, int64_t to_row, const RowProduct<T> &p, int64_t results, int64_t positions)
{
    constexpr int64_t N = Lanes<T>::N;
    const int64_t vectors = ceil_div(positions, N), blocks = ceil_div(vectors, WIDEST);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t first = vectors * b / blocks, wide = vectors * (b + 1) / blocks - first;
        int64_t at[WIDEST];
        for (int64_t v = 0; v < WIDEST; v++) at[v] = min_int((first + v) * N, positions - N);
        if (wide == 3)
            rows_blocks<TALLEST, 3>(to, to_row, p, p.weights, at, results);
        else if (wide == 2)
            rows_blocks<TALLEST, 2>(to, to_row, p, p.weights, at, results);
        else
            rows_blocks<TALLEST, 1>(to, to_row, p, p.weights, at, results);
    }
}

/* y of images first to last */
template <class T, class Of>
WITH_SHAPE static void rows_forward(T *y, const T *x, const T *w, Of of, int64_t first, int64_t last)
{
    const Conv &s = of();
    const RowLayout layout = layout_rows(s, false);
    const int64_t stride = s.stride[2], width = s.x[2], phase_size = s.c * layout.length;
    alignas(64) T rows[ROWS_BYTES / sizeof(T)];
    RowTap taps[MOST_ROW_TAPS];
    bool met[2] = {};
    for (int64_t t = 0; t < s.k[2]; t++) {
        const int64_t ahead = t * s.dilation[2] - s.low[2], phase = floor_mod(ahead, stride);
        taps[t] = {phase * phase_size + floor_div(ahead, stride) - layout.first, t};
        met[phase] = true;
    }
    const RowProduct<T> product = {rows, w, layout.length, s.c, s.c * s.k[2], s.k[2], taps, s.k[2]};
    for (int64_t i = first; i < last; i++) {
        for (int64_t f = 0; f < stride; f++)
            for (int64_t c = 0; c < s.c && met[f]; c++) {
                const T *const from = x + (i * s.c + c) * width + f;
                T *const to = rows + f * phase_size + c * layout.length;
                if (stride == 1)
                    lay_row<1>(to, from, width, layout);
                else
                    lay_row<2>(to, from, ceil_div(width - f, 2), layout);
            }
        rows_product(y + i * s.o * s.y[2], s.y[2], product, s.o, s.y[2]);
    }
}

/* dx of images first to last; both phases of stride 2 are made one behind the other, and then put between each other. */
template <class T, class Of>
WITH_SHAPE static void rows_grad_input(T *dx, const T *dy, const T *w, Of of, int64_t first, int64_t last)
{
    const Conv &s = of();
    const RowLayout layout = layout_rows(s, true);
    const int64_t stride = s.stride[2], width = s.x[2], half = ceil_div(width, 2);
    alignas(64) T rows[ROWS_BYTES / sizeof(T)], made[ROWS_BYTES / sizeof(T)];
    RowTap taps[2][MOST_ROW_TAPS];
    int64_t n[2] = {};
    for (int64_t f = 0; f < stride; f++)
        for (int64_t t = 0; t < s.k[2]; t++) {
            const int64_t ahead = f + s.low[2] - t * s.dilation[2];
            if (floor_mod(ahead, stride) == 0) taps[f][n[f]++] = {floor_div(ahead, stride) - layout.first, t};
        }
    for (int64_t i = first; i < last; i++) {
        T *const to = dx + i * s.c * width;
        for (int64_t o = 0; o < s.o; o++) lay_row<1>(rows + o * layout.length, dy + (i * s.o + o) * s.y[2], s.y[2], layout);
        for (int64_t f = 0; f < stride; f++)
            rows_product(stride == 1 ? to : made + f * s.c * half, stride == 1 ? width : half,
                         {rows, w, layout.length, s.o, s.k[2], s.c * s.k[2], taps[f], n[f]}, s.c, ceil_div(width - f, stride));
        for (int64_t c = 0; c < s.c && stride == 2; c++) {
            const T *const even = made + c * half, *const odd = even + s.c * half;
            for (int64_t q = 0; q < width / 2; q++) to[c * width + 2 * q] = even[q], to[c * width + 2 * q + 1] = odd[q];
            if (width % 2) to[c * width + width - 1] = even[width / 2];
        }
    }
}

/* Each of these is false where the sizes do not suit it. */
template <class T, class Of> static bool conv_rows(T *y, const T *x, const T *w, Of of)
{
    if (!suits_rows<T>(of(), false)) return false;
    share_runs(of().n, worth_sharing(of()), [=](int64_t first, int64_t last) { rows_forward(y, x, w, of, first, last); });
    return true;
}
template <class T, class Of> static bool conv_rows_grad_input(T *dx, const T *dy, const T *w, Of of)
{
    if (!suits_rows<T>(of(), true)) return false;
    share_runs(of().n, worth_sharing(of()), [=](int64_t first, int64_t last) { rows_grad_input(dx, dy, w, of, first, last); });
    return true;
}
#endif
