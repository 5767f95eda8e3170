/* conv.h on the processor.
 *
 * Floats and doubles: kernels of one tap as products (conv_dot.h), few channels along one axis with positions in lanes (conv_rows.h), others with
 * channels last where sizes suit that (conv_last.h), else through tiles (conv_tile.h), channels that stand alone through conv_depthwise.h.  16-bit floats as floats (conv_short.h), other types result by result (conv_plain.h).
 *
 * Tiles, with K pairs of a channel of the group and a tap:
 *
 *     y  (o, tile)       = w (o, K) * columns (K, tile)             a task a tile
 *     columns (K, tile)  = w^T (K, o) * dy (o, tile), to dx         a task some images and channels
 *     dw (o, K)          = sum of dy (o, tile) * columns^T          a task some rows and columns of w, through all tiles
 *
 * Each result belongs to one task, so sums have one order, whatever the number of threads. */
#include "conv_plain.h"
#include "conv_tile.h"
#include "conv_depthwise.h"
#include "conv_dot.h"
#include "conv_short.h"
#include "conv_last.h"
#include "conv_rows.h"

enum {
    TILE_PAIRS = 256,
    MOST_TAPS = 1024,
    MOST_OUTPUTS = 1024,
    SUM_WIDTH = 256,
    MOST_SUMS = 8192,
    MOST_BAND = 256,
    SUM_PAIRS = 128
};

/* A shape as it is given. */
struct GivenShape {
    const Conv &shape;
    const Conv &operator()() const { return shape; }
};

/* How many channels' columns a tile holds. */
static int64_t tile_channels(const Conv &s)
{
    return least(s.c / s.groups, most(1, TILE_PAIRS / volume(s.k)));
}

template <class T> static void conv_tiles(T *y, const T *x, const T *w, const Conv &s)
{
    constexpr int64_t W = tile_width<T>();
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, taps = volume(s.k), P = volume(s.y), plane = volume(s.x),
                  K = inputs * taps;
    const int64_t positions = s.n * P, tiles = (positions + W - 1) / W, channels = tile_channels(s);
    share_out(s.groups * tiles, worth_sharing(s), [=, &s](int64_t task) {
        alignas(64) T columns[MOST_TAPS * W], results[MOST_OUTPUTS * W];
        Piece pieces[MOST_PIECES];
        const int64_t group = task / tiles, first = task % tiles * W, used = least(W, positions - first);
        const int n = cut_pieces(s, first, used, pieces);
        for (int64_t o = 0; o < outputs; o += MOST_OUTPUTS) {
            const int64_t some = least(MOST_OUTPUTS, outputs - o);
            for (int64_t c = 0; c < inputs; c += channels) {
                const int64_t count = least(channels, inputs - c);
                gather(s, columns, x + group * inputs * plane, s.c * plane, c, count, pieces, n, W);
                multiply(some, count * taps, w + (group * outputs + o) * K + c * taps, K, 1, columns, results, c > 0);
            }
            spread_planes(y + (group * outputs + o) * P, results, s.o * P, P, some, first, used, W);
        }
    });
}

template <class T> static void grad_input_tiles(T *dx, const T *dy, const T *w, const Conv &s)
{
    constexpr int64_t W = tile_width<T>();
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, taps = volume(s.k), P = volume(s.y), plane = volume(s.x),
                  K = inputs * taps;
    const int64_t images = least(s.n, (W + P - 1) / P), parts = (s.n + images - 1) / images; /* enough images to fill a tile */
    const int64_t channels = tile_channels(s), blocks = (inputs + channels - 1) / channels;
    share_out(s.groups * parts * blocks, worth_sharing(s), [=, &s](int64_t task) {
        alignas(64) T columns[MOST_TAPS * W], gradients[MOST_OUTPUTS * W];
        Piece pieces[MOST_PIECES];
        const int64_t block = task % blocks, part = task / blocks % parts, group = task / blocks / parts;
        const int64_t c = block * channels, count = least(channels, inputs - c), begin = part * images,
                      end = least(s.n, begin + images);
        T *to = dx + group * inputs * plane;
        for (int64_t i = begin; i < end; i++) memset(to + i * s.c * plane + c * plane, 0, (size_t)(count * plane) * sizeof(T));
        for (int64_t first = begin * P; first < end * P; first += W) {
            const int64_t used = least(W, end * P - first);
            const int n = cut_pieces(s, first, used, pieces);
            for (int64_t o = 0; o < outputs; o += MOST_OUTPUTS) {
                const int64_t some = least(MOST_OUTPUTS, outputs - o);
                gather_planes(gradients, dy + (group * outputs + o) * P, s.o * P, P, some, first, used, W);
                multiply(count * taps, some, w + (group * outputs + o) * K + c * taps, 1, K, gradients, columns, o > 0);
            }
            spread(s, to, s.c * plane, c, count, columns, pieces, n, W);
        }
    });
}

template <class T> static void grad_weight_tiles(T *dw, const T *dy, const T *x, const Conv &s)
{
    typedef typename Lanes<T>::V V;
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, taps = volume(s.k), P = volume(s.y), plane = volume(s.x),
                  K = inputs * taps;
    /* Columns of about 48 pairs; bands of rows as many as there is room for, or as threads want.  No sum depends on that. */
    const int64_t channels = least(inputs, most(1, 48 / taps)), blocks = (inputs + channels - 1) / channels;
    const int64_t pairs = (channels * taps + SUM_COLUMNS - 1) / SUM_COLUMNS * SUM_COLUMNS,
                  room = most(SUM_ROWS, MOST_SUMS / pairs / SUM_ROWS * SUM_ROWS);
    const int64_t wanted =
        least((outputs + SUM_ROWS - 1) / SUM_ROWS, (2 * threads_most() + s.groups * blocks - 1) / (s.groups * blocks));
    const int64_t height = least(least(room, MOST_BAND), ((outputs + wanted - 1) / wanted + SUM_ROWS - 1) / SUM_ROWS * SUM_ROWS);
    const int64_t bands = (outputs + height - 1) / height, positions = s.n * P;
    const int64_t width =
        pairs <= SUM_PAIRS ? (int64_t)SUM_WIDTH : most(1, SUM_WIDTH * SUM_PAIRS / pairs / Lanes<T>::N) * Lanes<T>::N;
    share_out(s.groups * blocks * bands, worth_sharing(s), [=, &s](int64_t task) {
        alignas(64) T columns[SUM_PAIRS * SUM_WIDTH], gradients[MOST_BAND * SUM_WIDTH];
        alignas(64) V sums[MOST_SUMS];
        Piece pieces[MOST_PIECES];
        const int64_t band = task % bands, block = task / bands % blocks, group = task / bands / blocks;
        const int64_t c = block * channels, count = least(channels, inputs - c), o = band * height,
                      some = least(height, outputs - o);
        const int64_t rows = (some + SUM_ROWS - 1) / SUM_ROWS * SUM_ROWS;
        memset((void *)sums, 0, (size_t)(rows * pairs) * sizeof(V));
        memset(columns, 0, (size_t)(pairs * width) * sizeof(T));
        memset(gradients, 0, (size_t)(rows * width) * sizeof(T));
        for (int64_t first = 0; first < positions; first += width) {
            const int64_t used = least(width, positions - first);
            const int n = cut_pieces(s, first, used, pieces);
            gather(s, columns, x + group * inputs * plane, s.c * plane, c, count, pieces, n, width);
            gather_planes(gradients, dy + (group * outputs + o) * P, s.o * P, P, some, first, used, width);
            multiply_sums(rows, pairs, width, gradients, columns, sums);
        }
        for (int64_t r = 0; r < some; r++)
            for (int64_t p = 0; p < count * taps; p++) {
                dw[(group * outputs + o + r) * K + c * taps + p] = sum_of_lanes<T>(sums[r * pairs + p]);
            }
    });
}

/* Kernels too large for a tile are left to the plain way, as is work that is empty. */
static bool fits_tiles(const Conv &s)
{
    const int64_t sizes[] = {s.n, s.o, s.c / s.groups, volume(s.k), volume(s.y), volume(s.x)};
    for (int64_t size : sizes)
        if (size == 0) return false;
    return volume(s.k) <= MOST_TAPS;
}
static bool is_depthwise(const Conv &s)
{
    return s.c / s.groups == 1 && s.o / s.groups <= 2;
}

template <class T> static void conv_of(Step *s, T *y, const T *x, const T *w, const Conv &shape)
{
    if constexpr (!std::is_floating_point<T>::value)
        conv_plain(s, y, x, w, shape);
    else if (!fits_tiles(shape))
        conv_plain(s, y, x, w, shape);
    else if (is_product(shape))
        conv_dot(s, y, x, w, shape);
    else if (!launch_wanted(s, elements(1), "conv"))
        return;
    else if (is_depthwise(shape))
        depthwise(y, x, w, shape);
    else if (!conv_rows(y, x, w, GivenShape{shape}) && !conv_last(y, x, w, shape, worth_sharing(shape)))
        conv_tiles(y, x, w, shape);
}
template <class T> static void conv_grad_input_of(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)
{
    if constexpr (!std::is_floating_point<T>::value)
        conv_grad_input_plain(s, dx, dy, w, shape);
    else if (!fits_tiles(shape))
        conv_grad_input_plain(s, dx, dy, w, shape);
    else if (is_product(shape))
        conv_dot_grad_input(s, dx, dy, w, shape);
    else if (!launch_wanted(s, elements(1), "conv_grad_input"))
        return;
    else if (is_depthwise(shape))
        depthwise_grad_input(dx, dy, w, shape);
    else if (!conv_rows_grad_input(dx, dy, w, GivenShape{shape}) &&
             !conv_last_grad_input(dx, dy, w, shape, worth_sharing(shape)))
        grad_input_tiles(dx, dy, w, shape);
}
template <class T> static void conv_grad_weight_of(Step *s, T *dw, const T *dy, const T *x, const Conv &shape)
{
    if constexpr (!std::is_floating_point<T>::value)
        conv_grad_weight_plain(s, dw, dy, x, shape);
    else if (!fits_tiles(shape))
        conv_grad_weight_plain(s, dw, dy, x, shape);
    else if (is_product(shape))
        conv_dot_grad_weight(s, dw, dy, x, shape);
    else if (!launch_wanted(s, elements(1), "conv_grad_weight"))
        return;
    else if (is_depthwise(shape))
        depthwise_grad_weight(dw, dy, x, shape);
    else if (!conv_rows_grad_weight(dw, dy, x, GivenShape{shape}) && !conv_last_grad_weight(dw, dy, x, shape, worth_sharing(shape)))
        grad_weight_tiles(dw, dy, x, shape);
}
#define SHORT(T)                                                                                                                   \
    static void conv_of(Step *s, T *y, const T *x, const T *w, const Conv &shape)                                                  \
    {                                                                                                                              \
        conv_short(s, y, x, w, shape);                                                                                             \
    }                                                                                                                              \
    static void conv_grad_input_of(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)                                     \
    {                                                                                                                              \
        conv_grad_input_short(s, dx, dy, w, shape);                                                                                \
    }                                                                                                                              \
    static void conv_grad_weight_of(Step *s, T *dw, const T *dy, const T *x, const Conv &shape)                                    \
    {                                                                                                                              \
        conv_grad_weight_short(s, dw, dy, x, shape);                                                                               \
    }                                                                                                                              \
    void conv_grad_weight(Step *s, float *dw, const T *dy, const T *x, const Conv &shape)                                          \
    {                                                                                                                              \
        conv_grad_weight_short(s, dw, dy, x, shape);                                                                               \
    }
USED_SHORT_TYPES(SHORT)

#define CONV(T)                                                                                                                    \
    void conv(Step *s, T *y, const T *x, const T *w, const Conv &shape)                                                            \
    {                                                                                                                              \
        conv_of(s, y, x, w, shape);                                                                                                \
    }                                                                                                                              \
    void conv_grad_input(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)                                               \
    {                                                                                                                              \
        conv_grad_input_of(s, dx, dy, w, shape);                                                                                   \
    }                                                                                                                              \
    void conv_grad_weight(Step *s, T *dw, const T *dy, const T *x, const Conv &shape)                                              \
    {                                                                                                                              \
        conv_grad_weight_of(s, dw, dy, x, shape);                                                                                  \
    }
USED_TYPES(CONV)
