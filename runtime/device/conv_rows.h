/* Part of conv_host.cpp, and of variants (conv_known.h): convolutions along one axis, of few channels, with positions in lanes.
 *
 * An image's rows are put where zeros lie around them, a row for each channel and each phase of the stride.  There a tap meets neighbours
 * for neighbouring results, and a block of results, R channels by V vectors of positions, stays in registers through all taps and channels.
 * Neither images nor weights are turned, which for few channels costs as much as the products (conv_last.h).
 *
 * - y: rows of x, element q of phase f being x[q * stride + f];
 * - dx: rows of dy; results whose positions are equal modulo the stride meet the same taps;
 * - dw: rows of x, against dy, which is turned so that output channels lie in lanes.
 *
 * A result's terms are summed in an order that depends on the sizes alone: tap by tap, and channel by channel within a tap; for dw along
 * positions, then images, in parts that are added up.  `Of` says where the shape comes from:
 * of() is a constant in a variant. */
#ifndef DEVICE_CONV_ROWS_H
#define DEVICE_CONV_ROWS_H
#include "../controller/integers.h"
#include "conv.h"
#include "conv_turn.h"

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

/* Every second of 2 * N - 1 elements. */
template <class T> static inline typename Lanes<T>::V every_second(const T *from)
{
    typedef typename Lanes<T>::V V;
    constexpr int N = Lanes<T>::N;
    const V low = *(const V *)from, high = *(const V *)(from + N - 1);
    decltype(low < high) lanes;
    for (int i = 0; i < N; i++) lanes[i] = i < N / 2 ? 2 * i : N + 2 * (i - N / 2) + 1;
    return __builtin_shuffle(low, high, lanes);
}
/* even[0], odd[0], even[1], …: N of each */
template <class T> static inline void put_between(T *to, const T *even, const T *odd)
{
    typedef typename Lanes<T>::V V;
    constexpr int N = Lanes<T>::N;
    const V a = *(const V *)even, b = *(const V *)odd;
    decltype(a < b) low, high;
    for (int i = 0; i < N; i++) low[i] = i / 2 + i % 2 * N, high[i] = N / 2 + i / 2 + i % 2 * N;
    *(V *)to = __builtin_shuffle(a, b, low);
    *(V *)(to + N) = __builtin_shuffle(a, b, high);
}

/* Elements first .. first + length of a row that has n, STEP apart: zeros before and behind. */
template <int STEP, class T> static inline void lay_row(T *to, const T *from, int64_t n, RowLayout layout)
{
    typedef typename Lanes<T>::V V;
    constexpr int64_t N = Lanes<T>::N;
    const int64_t begin = layout.first < 0 ? min_int(-layout.first, layout.length) : 0,
                  end = max_int(begin, min_int(layout.length, n - layout.first));
    if (begin > N || layout.length - end > N || end - begin < N) {
        for (int64_t i = 0; i < layout.length; i++) to[i] = i >= begin && i < end ? from[(i + layout.first) * STEP] : 0;
        return;
    }
    if (begin > 0) *(V *)to = V{};
    if (end < layout.length) *(V *)(to + layout.length - N) = V{};
    for (int64_t i = begin; i < end; i += N) {
        if (i + N > end) i = end - N; /* some of them once more */
        const T *const here = from + (i + layout.first) * STEP;
        *(V *)(to + i) = STEP == 1 ? *(const V *)here : every_second(here);
    }
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

/* The rows of an image of x, phase by phase; a phase that no tap meets is left out. */
struct Phases {
    bool met[2];
};
/* What each tap meets of them. */
static inline Phases meet_rows(const Conv &s, RowLayout layout, RowTap *taps)
{
    Phases phases = {};
    for (int64_t t = 0; t < s.k[2]; t++) {
        const int64_t ahead = t * s.dilation[2] - s.low[2], phase = floor_mod(ahead, s.stride[2]);
        taps[t] = {phase * s.c * layout.length + floor_div(ahead, s.stride[2]) - layout.first, t};
        phases.met[phase] = true;
    }
    return phases;
}
template <class T> static inline void lay_image(T *rows, const T *x, const Conv &s, RowLayout layout, Phases phases)
{
    const int64_t width = s.x[2];
    for (int64_t f = 0; f < s.stride[2]; f++)
        for (int64_t c = 0; c < s.c && phases.met[f]; c++) {
            T *const to = rows + (f * s.c + c) * layout.length;
            if (s.stride[2] == 1)
                lay_row<1>(to, x + c * width, width, layout);
            else
                lay_row<2>(to, x + c * width + f, ceil_div(width - f, 2), layout);
        }
}

/* y of images first to last */
template <class T, class Of>
WITH_SHAPE static void rows_forward(T *y, const T *x, const T *w, Of of, int64_t first, int64_t last)
{
    const Conv &s = of();
    const RowLayout layout = layout_rows(s, false);
    alignas(64) T rows[ROWS_BYTES / sizeof(T)];
    RowTap taps[MOST_ROW_TAPS];
    const Phases phases = meet_rows(s, layout, taps);
    const RowProduct<T> product = {rows, w, layout.length, s.c, s.c * s.k[2], s.k[2], taps, s.k[2]};
    for (int64_t i = first; i < last; i++) {
        lay_image(rows, x + i * s.c * s.x[2], s, layout, phases);
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
            for (int64_t q = 0; q < width / 2; q += Lanes<T>::N) {
                q = min_int(q, width / 2 - Lanes<T>::N); /* some of them once more */
                put_between(to + c * width + 2 * q, even + q, odd + q);
            }
            if (width % 2) to[c * width + width - 1] = even[width / 2];
        }
    }
}

/* ---- the gradient of weights ---- */
/* Of a tap and a channel, a pair, a vector of outputs: sums over positions of an element of x's rows by a vector of dy, which is turned.
 * Images are taken in parts, whose sums are added up in order. */
enum { ROW_PARTS = 8, SUMS_BYTES = 128 << 10, MOST_PAIRS = 512 };

constexpr int64_t padded_pairs(const Conv &s)
{
    return ceil_div(s.c * s.k[2], 4) * 4;
}
template <class T> constexpr int64_t sums_of_part(const Conv &s)
{
    return padded_pairs(s) * ceil_div(s.o, Lanes<T>::N) * Lanes<T>::N;
}
template <class T> constexpr int64_t row_parts(const Conv &s)
{
    return min_int(min_int(ROW_PARTS, s.n), SUMS_BYTES / ((int64_t)sizeof(T) * sums_of_part<T>(s)));
}
template <class T> constexpr bool suits_rows_grad_weight(const Conv &s)
{
    return suits_rows<T>(s, false) && s.c * s.k[2] <= MOST_PAIRS && row_parts<T>(s) > 0 && s.y[2] * Lanes<T>::N * (int64_t)sizeof(T) <= ROWS_BYTES;
}

/* What R pairs sum up: images' rows lie `image` elements apart, their turned dy one behind the other. */
template <class T> struct RowSums {
    const T *rows, *turned;
    int64_t images, image, positions;
};
template <int R, class T> static inline void sum_pairs(T *sums, const int32_t *at, const RowSums<T> &of)
{
    typedef typename Lanes<T>::V Vector;
    constexpr int N = Lanes<T>::N;
    Vector sum[R];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) sum[r] = *(const Vector *)(sums + r * N);
    const T *y = of.turned;
    for (int64_t i = 0; i < of.images; i++) {
        const T *x[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) x[r] = of.rows + i * of.image + at[r];
        for (int64_t p = 0; p < of.positions; p++, y += N) {
            const Vector g = *(const Vector *)y;
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) sum[r] += x[r][p] * g;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) *(Vector *)(sums + r * N) = sum[r];
}
/* n a multiple of 4: in tiles of nearly equal height */
template <class T> static inline void sum_all_pairs(T *sums, const int32_t *at, int64_t n, const RowSums<T> &of)
{
    constexpr int64_t N = Lanes<T>::N;
    const int64_t fours = n / 4, tiles = ceil_div(fours, 3);
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t first = fours * t / tiles * 4, height = fours * (t + 1) / tiles * 4 - first;
        if (height == 12)
            sum_pairs<12>(sums + first * N, at + first, of);
        else if (height == 8)
            sum_pairs<8>(sums + first * N, at + first, of);
        else
            sum_pairs<4>(sums + first * N, at + first, of);
    }
}

/* (columns, N) of `rows` rows of `from`, N at most, with zeros for the missing ones; columns N or more */
template <class T> static inline void turn_rows(T *to, const T *from, int64_t rows, int64_t columns, const int32_t *at)
{
    constexpr int64_t N = Lanes<T>::N;
    for (int64_t p = 0; p < columns; p += N) {
        if (p + N > columns) p = columns - N; /* some of them once more */
        turn_block(to + p * N, at, N, from + p, columns, rows);
    }
}

/* sums (panels of outputs, pairs, N) of images first to last */
template <class T, class Of>
WITH_SHAPE static void rows_grad_weight(T *sums, const T *dy, const T *x, Of of, int64_t first, int64_t last)
{
    const Conv &s = of();
    constexpr int64_t N = Lanes<T>::N;
    const RowLayout layout = layout_rows(s, false);
    const int64_t image = s.stride[2] * s.c * layout.length, P = s.y[2], pairs = padded_pairs(s),
                  most = ROWS_BYTES / (int64_t)sizeof(T) / max_int(image, P * N);
    alignas(64) T rows[ROWS_BYTES / sizeof(T)], turned[ROWS_BYTES / sizeof(T)];
    RowTap taps[MOST_ROW_TAPS];
    int32_t at[MOST_PAIRS] = {}, lanes[N];
    const Phases phases = meet_rows(s, layout, taps);
    for (int64_t i = 0; i < s.c * s.k[2]; i++) at[i] = (int32_t)(taps[i % s.k[2]].at + i / s.k[2] * layout.length);
    for (int32_t i = 0; i < N; i++) lanes[i] = i * (int32_t)N;
    memset(sums, 0, (size_t)sums_of_part<T>(s) * sizeof(T));
    for (int64_t i = first; i < last; i += most) {
        const int64_t images = min_int(most, last - i);
        for (int64_t j = 0; j < images; j++) lay_image(rows + j * image, x + (i + j) * s.c * s.x[2], s, layout, phases);
        for (int64_t o = 0; o < s.o; o += N) {
            for (int64_t j = 0; j < images; j++) turn_rows(turned + j * P * N, dy + ((i + j) * s.o + o) * P, min_int(N, s.o - o), P, lanes);
            sum_all_pairs(sums + o * pairs, at, pairs, RowSums<T>{rows, turned, images, image, P});
        }
    }
}

/* dw of the parts' sums */
template <class T, class Of> WITH_SHAPE static void add_row_parts(T *dw, T *sums, Of of)
{
    const Conv &s = of();
    constexpr int64_t N = Lanes<T>::N;
    const int64_t K = s.c * s.k[2], pairs = padded_pairs(s), size = sums_of_part<T>(s), parts = row_parts<T>(s);
    for (int64_t part = 1; part < parts; part++)
        for (int64_t i = 0; i < size; i++) sums[i] += sums[part * size + i];
    int32_t at[N];
    for (int64_t i = 0; i < N; i++) at[i] = (int32_t)(i * K);
    for (int64_t o = 0; o < s.o; o += N)
        for (int64_t i = 0; i < K; i += N) {
            if (i + N > K && K >= N) i = K - N; /* some of them once more */
            const T *const from = sums + o * pairs + i * N;
            if (K >= N)
                turn_block(dw + o * K + i, at, min_int(N, s.o - o), from, N);
            else
                for (int64_t q = 0; q < K; q++)
                    for (int64_t j = 0; j < min_int(N, s.o - o); j++) dw[(o + j) * K + q] = from[q * N + j];
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
template <class T, class Of> static bool conv_rows_grad_weight(T *dw, const T *dy, const T *x, Of of)
{
    if (!suits_rows_grad_weight<T>(of())) return false;
    const int64_t n = of().n, parts = row_parts<T>(of()), size = sums_of_part<T>(of());
    alignas(64) T sums[SUMS_BYTES / sizeof(T)];
    T *const all = sums;
    share_out(parts, worth_sharing(of()), [=](int64_t part) {
        rows_grad_weight(all + part * size, dy, x, of, n * part / parts, n * (part + 1) / parts);
    });
    add_row_parts(dw, sums, of);
    return true;
}
#endif
