/* Part of conv_host.cpp: the three products of a convolution with channels last.
 *
 * A chunk, some images or some rows of one, is turned so that the channels of a position lie side by side, zeros of the pads around
 * them.  A tap of the kernel then meets one run of channels for each result, and the taps of a kernel row meet one longer run.
 *
 * - y: up to TILE_ROWS positions by a panel of output channels in registers, along the runs; weights packed (taps, c, panel).
 * - dx: the same of dy, a phase at a time: positions equal modulo the stride meet the same taps; weights packed (taps, o, panel).
 * - dw: up to TILE_ROWS elements of a run by a panel of output channels, along the positions of a chunk.
 *
 * A panel is one or two vectors of channels.  A result's terms are summed in an order that depends on the sizes alone. */
#ifndef DEVICE_CONV_LAST_H
#define DEVICE_CONV_LAST_H
#include "conv_tile.h"
#include "conv_turn.h"

enum {
    TILE_ROWS = block_rows(2) < 8 ? block_rows(2) : 8,
    CHUNK_PLACES = 8192,  /* positions of a turned chunk, pads included */
    CHUNK_RESULTS = 1024, /* positions of its results */
    CHUNK_BYTES = 384 << 10,
    WEIGHT_BYTES = 576 << 10,
    PARTIAL_BYTES = 256 << 10,
    LEAST_TERMS = 8, /* of a result, for its being turned to pay */
    MOST_RUNS = 1024,
    MOST_LANES = 32 /* of a panel of floats */
};

/* ---- chunks ---- */
/* What is turned together: the results' box first[] .. first[] + size[] of some images, and the operand's box that it needs. */
struct Chunk {
    int64_t image, images, first[3], size[3], origin[3], extent[3];
};
struct Chunking {
    int64_t images, axis, length, chunks; /* images a chunk, or results along `axis` of one; chunks 0: it fits none */
    bool grad_input;
};
static int64_t floor_of(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}
static int64_t most_extent(const Conv &s, bool grad_input, int axis, int64_t size)
{
    const int64_t reach = (s.k[axis] - 1) * s.dilation[axis];
    return grad_input ? (size - 1 + reach) / s.stride[axis] + 2 : (size - 1) * s.stride[axis] + reach + 1;
}
static Chunking cut_chunks(const Conv &s, bool grad_input, int64_t bytes, int64_t channels, int64_t most_images)
{
    const int64_t *results = grad_input ? s.x : s.y;
    int axis = 0;
    while (axis < 2 && results[axis] == 1) axis++;
    int64_t places = 1, positions = 1;
    for (int i = 0; i < 3; i++)
        if (i != axis) places *= most_extent(s, grad_input, i, results[i]), positions *= results[i];
    const int64_t room = least(CHUNK_PLACES, CHUNK_BYTES / (bytes * channels)) / places;
    int64_t length = least(results[axis], CHUNK_RESULTS / positions);
    while (length && most_extent(s, grad_input, axis, length) > room) length--;
    if (!length) return {0, axis, 0, 0, grad_input};
    const int64_t strips = (results[axis] + length - 1) / length;
    length = (results[axis] + strips - 1) / strips;
    int64_t images = 1;
    if (strips == 1) {
        images = least(room / most_extent(s, grad_input, axis, length), CHUNK_RESULTS / (positions * length));
        images = most(1, least(images, most_images));
    }
    return {images, axis, length, strips == 1 ? (s.n + images - 1) / images : s.n * strips, grad_input};
}
static Chunk chunk_of(const Conv &s, const Chunking &c, int64_t index)
{
    const int64_t *results = c.grad_input ? s.x : s.y;
    const int64_t strips = (results[c.axis] + c.length - 1) / c.length;
    Chunk chunk = {index / strips * c.images, 0, {0, 0, 0}, {results[0], results[1], results[2]}, {0, 0, 0}, {0, 0, 0}};
    chunk.images = least(c.images, s.n - chunk.image);
    chunk.first[c.axis] = index % strips * c.length;
    chunk.size[c.axis] = least(c.length, results[c.axis] - chunk.first[c.axis]);
    for (int i = 0; i < 3; i++) {
        const int64_t reach = (s.k[i] - 1) * s.dilation[i], last = chunk.first[i] + chunk.size[i] - 1;
        if (c.grad_input) {
            chunk.origin[i] = floor_of(chunk.first[i] + s.low[i] - reach, s.stride[i]);
            chunk.extent[i] = floor_of(last + s.low[i], s.stride[i]) - chunk.origin[i] + 1;
        } else {
            chunk.origin[i] = chunk.first[i] * s.stride[i] - s.low[i];
            chunk.extent[i] = (chunk.size[i] - 1) * s.stride[i] + reach + 1;
        }
    }
    return chunk;
}

/* to (places, pitch) of planes from (channels, plane), plane a box of `size`; `image` elements from image to image.  Where channels
 * are no multiple of the lanes, zeros are written past those of a place, onto the next one's first or past the end: so a place's last
 * channels come before its first, and places in their order. */
template <class T>
static void turn_chunk(T *to, const Chunk &k, const T *from, const int64_t *size, int64_t image, int64_t channels, int64_t pitch)
{
    constexpr int64_t N = Lanes<T>::N;
    const int64_t plane = volume(size), places = volume(k.extent);
    int32_t source[CHUNK_PLACES], target[CHUNK_PLACES];
    int64_t begin[3], end[3], n = 0;
    for (int i = 0; i < 3; i++) begin[i] = most(0, k.origin[i]), end[i] = least(size[i], k.origin[i] + k.extent[i]);
    for (int64_t z = begin[0]; z < end[0]; z++)
        for (int64_t y = begin[1]; y < end[1]; y++)
            for (int64_t x = begin[2]; x < end[2]; x++, n++) {
                source[n] = (int32_t)((z * size[1] + y) * size[2] + x);
                target[n] =
                    (int32_t)((((z - k.origin[0]) * k.extent[1] + y - k.origin[1]) * k.extent[2] + x - k.origin[2]) * pitch);
            }
    if (n < places) memset(to, 0, (size_t)(k.images * places * pitch) * sizeof(T));
    for (int64_t i = 0; i < k.images; i++, to += places * pitch) {
        const T *planes = from + (k.image + i) * image;
        for (int64_t p = 0; p < n;) {
            if (p + N > n && n >= N && source[n - 1] - source[n - N] == N - 1) p = n - N; /* some of them once more */
            if (p + N <= n && source[p + N - 1] - source[p] == N - 1) {
                const T *here = planes + source[p];
                const int64_t whole = channels / N * N;
                if (whole < channels) turn_block(to + whole, target + p, N, here + whole * plane, plane, channels - whole);
                for (int64_t c = 0; c < whole; c += N) turn_block(to + c, target + p, N, here + c * plane, plane);
                p += N;
            } else {
                for (int64_t c = 0; c < channels; c++) to[target[p] + c] = planes[c * plane + source[p]];
                p++;
            }
        }
    }
}

/* The opposite for results (positions, width) of the chunk's box, of which the first `channels` are wanted. */
template <class T>
static void turn_results(T *y, const Chunk &k, const T *results, int64_t width, int64_t channels, const int64_t *size,
                         int64_t image)
{
    constexpr int64_t N = Lanes<T>::N;
    const int64_t plane = volume(size), positions = volume(k.size),
                  first = (k.first[0] * size[1] + k.first[1]) * size[2] + k.first[2];
    int64_t at[N];
    for (int64_t i = 0; i < N; i++) at[i] = i * plane;
    for (int64_t i = 0; i < k.images; i++, results += positions * width) {
        T *planes = y + (k.image + i) * image + first;
        for (int64_t p = 0; p < positions; p += N) {
            if (p + N > positions && positions >= N) p = positions - N; /* some of them once more */
            if (p + N <= positions)
                for (int64_t c = 0; c < channels; c += N)
                    turn_block(planes + c * plane + p, at, least(N, channels - c), results + p * width + c, width);
            else
                for (int64_t q = p; q < positions; q++)
                    for (int64_t c = 0; c < channels; c++) planes[c * plane + q] = results[q * width + c];
        }
    }
}

/* ---- products ---- */
/* Elements at .. at + length of a turned chunk, from a position's base on; their weights' rows from w on. */
struct Run {
    int64_t at, length, w;
};

/* out's rows to[r] (R of them, VECTORS vectors) = sum over the runs of x[from[r] + element] * the element's weights */
template <int R, int WIDE, class T>
static void multiply_runs(T *out, const int32_t *to, const T *x, const int32_t *from, const Run *runs, int64_t n, const T *w)
{
    typedef typename Lanes<T>::V V;
    constexpr int N = Lanes<T>::N;
    V sum[R][WIDE] = {};
    for (int64_t i = 0; i < n; i++) {
        const T *row[R], *b = w + runs[i].w * (WIDE * N);
        for (int r = 0; r < R; r++) row[r] = x + from[r] + runs[i].at;
        for (int64_t e = 0; e < runs[i].length; e++, b += WIDE * N) {
            V y[WIDE];
            for (int v = 0; v < WIDE; v++) y[v] = *(const V *)(b + v * N);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
                for (int v = 0; v < WIDE; v++) sum[r][v] += row[r][e] * y[v];
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < WIDE; v++) *(V *)(out + to[r] * (int64_t)(WIDE * N) + v * N) = sum[r][v];
}

/* sums (R, WIDE vectors) += over positions p of x[from[p] + r] * g (p, WIDE vectors) */
template <int R, int WIDE, class T>
static void multiply_positions(T *sums, const T *x, const int32_t *from, const T *g, int64_t positions)
{
    typedef typename Lanes<T>::V V;
    constexpr int N = Lanes<T>::N;
    V sum[R][WIDE];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < WIDE; v++) sum[r][v] = *(const V *)(sums + (r * WIDE + v) * N);
    for (int64_t p = 0; p < positions; p++, g += WIDE * N) {
        const T *row = x + from[p];
        V y[WIDE];
        for (int v = 0; v < WIDE; v++) y[v] = *(const V *)(g + v * N);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
            for (int v = 0; v < WIDE; v++) sum[r][v] += row[r] * y[v];
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < WIDE; v++) *(V *)(sums + (r * WIDE + v) * N) = sum[r][v];
}

/* CALL(R) for R = rows, 1 .. TILE_ROWS. */
#define BY_ROWS(rows, CALL)                                                                                                        \
    switch (rows) {                                                                                                                \
    case 1: CALL(1); break;                                                                                                        \
    case 2: CALL(2); break;                                                                                                        \
    case 3: CALL(3); break;                                                                                                        \
    case 4: CALL(4); break;                                                                                                        \
    case 5: CALL(5); break;                                                                                                        \
    case 6: CALL(6); break;                                                                                                        \
    case 7: CALL(7); break;                                                                                                        \
    default: CALL(TILE_ROWS); break;                                                                                               \
    }

/* Positions in tiles of nearly equal height. */
template <int WIDE, class T>
static void multiply_tiles(T *out, const int32_t *to, const T *x, const int32_t *from, int64_t positions, const Run *runs,
                           int64_t n, const T *w)
{
    const int64_t tiles = (positions + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t p = positions * t / tiles, rows = positions * (t + 1) / tiles - p;
#define CALL(R) multiply_runs<R, WIDE>(out, to + p, x, from + p, runs, n, w)
        BY_ROWS(rows, CALL)
#undef CALL
    }
}

/* ---- panels of weights ---- */
/* to (taps, c, width): outputs o .. o + count of w (outputs, c, taps); lanes past count are 0. */
template <class T> static void pack_forward(T *to, const T *w, int64_t count, int64_t inputs, int64_t taps, int64_t width)
{
    constexpr int64_t N = Lanes<T>::N;
    const int64_t K = inputs * taps;
    if (count < width) memset(to, 0, (size_t)(K * width) * sizeof(T));
    int64_t o = 0;
    for (; o + N <= count; o += N) {
        int64_t k = 0;
        for (; k + N <= K; k += N) {
            int32_t at[N];
            for (int64_t i = 0; i < N; i++) at[i] = (int32_t)(((k + i) % taps * inputs + (k + i) / taps) * width);
            turn_block(to + o, at, N, w + o * K + k, K);
        }
        for (; k < K; k++)
            for (int64_t i = 0; i < N; i++) to[(k % taps * inputs + k / taps) * width + o + i] = w[(o + i) * K + k];
    }
    for (; o < count; o++)
        for (int64_t c = 0; c < inputs; c++)
            for (int64_t t = 0; t < taps; t++) to[(t * inputs + c) * width + o] = w[o * K + c * taps + t];
}

/* to (taps, o, width): inputs c .. c + count of w (outputs, inputs, taps), w at the first of them. */
template <class T>
static void pack_grad_input(T *to, const T *w, int64_t count, int64_t inputs, int64_t outputs, int64_t taps, int64_t width)
{
    if (count < width) memset(to, 0, (size_t)(outputs * taps * width) * sizeof(T));
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t i = 0; i < count; i++) to[(t * outputs + o) * width + i] = w[(o * inputs + i) * taps + t];
}

/* The opposite of pack_forward for sums of inputs c .. c + some. */
template <class T>
static void unpack_weights(T *dw, const T *sums, int64_t count, int64_t inputs, int64_t some, int64_t taps, int64_t width)
{
    for (int64_t o = 0; o < count; o++)
        for (int64_t c = 0; c < some; c++)
            for (int64_t t = 0; t < taps; t++) dw[(o * inputs + c) * taps + t] = sums[(t * some + c) * width + o];
}

/* ---- what a position meets ---- */
/* Where each result of the chunk begins to meet the turned operand. */
static int64_t bases(const Conv &s, const Chunk &k, int64_t channels, int32_t *from)
{
    int64_t n = 0;
    for (int64_t i = 0; i < k.images; i++)
        for (int64_t z = 0; z < k.size[0]; z++)
            for (int64_t y = 0; y < k.size[1]; y++)
                for (int64_t x = 0; x < k.size[2]; x++) {
                    const int64_t place =
                        ((i * k.extent[0] + z * s.stride[0]) * k.extent[1] + y * s.stride[1]) * k.extent[2] + x * s.stride[2];
                    from[n++] = (int32_t)(place * channels);
                }
    return n;
}

/* A kernel row whose taps lie side by side is one run; else each tap is one. */
static int64_t forward_runs(const Conv &s, const Chunk &k, int64_t channels, Run *runs)
{
    const int64_t row = s.dilation[2] == 1 ? s.k[2] : 1;
    int64_t n = 0;
    for (int64_t t = 0; t < volume(s.k); t += row, n++) {
        const int64_t t2 = t % s.k[2], t1 = t / s.k[2] % s.k[1], t0 = t / s.k[2] / s.k[1];
        const int64_t place = (t0 * s.dilation[0] * k.extent[1] + t1 * s.dilation[1]) * k.extent[2] + t2 * s.dilation[2];
        runs[n] = {place * channels, row * channels, t * channels};
    }
    return n;
}

/* Positions of x that are `phase` modulo the strides: where they begin, which result each is, and the taps that meet them. */
struct Phase {
    int64_t positions, runs;
};
static Phase phase_of(const Conv &s, const Chunk &k, const int64_t *phase, int64_t channels, int32_t *from, int32_t *to, Run *runs)
{
    Phase found = {0, 0};
    const int64_t start[] = {k.first[0] / s.stride[0], k.first[1] / s.stride[1], k.first[2] / s.stride[2]};
    for (int64_t t = 0; t < volume(s.k); t++) {
        const int64_t tap[] = {t / s.k[2] / s.k[1], t / s.k[2] % s.k[1], t % s.k[2]};
        int64_t place = 0;
        bool meets = true;
        for (int i = 0; i < 3; i++) {
            const int64_t ahead = phase[i] + s.low[i] - tap[i] * s.dilation[i];
            meets = meets && floor_of(ahead, s.stride[i]) * s.stride[i] == ahead;
            place = place * k.extent[i] + floor_of(ahead, s.stride[i]) + start[i] - k.origin[i];
        }
        if (meets) runs[found.runs++] = {place * channels, channels, t * channels};
    }
    int64_t result = 0;
    for (int64_t i = 0; i < k.images; i++)
        for (int64_t z = k.first[0]; z < k.first[0] + k.size[0]; z++)
            for (int64_t y = k.first[1]; y < k.first[1] + k.size[1]; y++)
                for (int64_t x = k.first[2]; x < k.first[2] + k.size[2]; x++, result++) {
                    if (z % s.stride[0] != phase[0] || y % s.stride[1] != phase[1] || x % s.stride[2] != phase[2]) continue;
                    const int64_t place =
                        ((i * k.extent[0] + z / s.stride[0] - start[0]) * k.extent[1] + y / s.stride[1] - start[1]) * k.extent[2] +
                        x / s.stride[2] - start[2];
                    from[found.positions] = (int32_t)(place * channels);
                    to[found.positions++] = (int32_t)result;
                }
    return found;
}

/* ---- the three products ---- */
/* How the channels that lie in lanes are cut: panels of `width` lanes. */
struct Panels {
    int64_t width, count;
};
template <class T> static Panels panels_of(int64_t channels)
{
    const int64_t N = Lanes<T>::N, width = channels <= N ? N : 2 * N;
    return {width, (channels + width - 1) / width};
}
/* Whether turning pays: lanes must not lie idle, and what is turned must be used: by a few terms of a result, and not passed over. */
template <class T> static bool suits_last(const Conv &s, int64_t lanes, int64_t rows, int64_t terms)
{
    const int64_t taps = volume(s.k), weights = rows * taps * panels_of<T>(lanes).width * (int64_t)sizeof(T);
    for (int i = 0; i < 3; i++)
        if (s.x[i] > 1 && s.stride[i] > s.k[i]) return false;
    return lanes >= Lanes<T>::N / 2 && terms >= LEAST_TERMS && taps <= MOST_RUNS && weights <= WEIGHT_BYTES;
}
static int64_t images_a_task(const Conv &s, int64_t panels)
{
    return most(1, s.n * s.groups * panels / (2 * threads_most()));
}

/* y of x, or (GRAD_INPUT) dx of dy: `made` of `read`, whose `depth` channels a result sums over. */
template <bool GRAD_INPUT, class T> static bool product_last(T *made, const T *read, const T *w, const Conv &s, bool shared)
{
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, taps = volume(s.k), phases = GRAD_INPUT ? volume(s.stride) : 1;
    const int64_t lanes = GRAD_INPUT ? inputs : outputs, depth = GRAD_INPUT ? outputs : inputs;
    const int64_t *const made_size = GRAD_INPUT ? s.x : s.y, *const read_size = GRAD_INPUT ? s.y : s.x;
    const int64_t made_plane = volume(made_size), read_plane = volume(read_size);
    if (!suits_last<T>(s, lanes, depth, depth * taps / phases)) return false;
    const Panels panels = panels_of<T>(lanes);
    const Chunking cut = cut_chunks(s, GRAD_INPUT, sizeof(T), depth, images_a_task(s, panels.count));
    if (!cut.chunks) return false;
    share_runs(s.groups * panels.count * cut.chunks, shared, [=, &s](int64_t first, int64_t last) {
        alignas(64) T turned[CHUNK_BYTES / sizeof(T) + Lanes<T>::N], weights[WEIGHT_BYTES / sizeof(T)], results[CHUNK_RESULTS * MOST_LANES];
        int32_t from[CHUNK_RESULTS], to[CHUNK_RESULTS];
        Run runs[MOST_RUNS];
        int64_t packed = -1;
        for (int32_t i = 0; i < CHUNK_RESULTS; i++) to[i] = i;
        for (int64_t task = first; task < last; task++) {
            const int64_t panel = task / cut.chunks, group = panel / panels.count, lane = panel % panels.count * panels.width,
                          count = least(panels.width, lanes - lane);
            if (packed != panel && GRAD_INPUT)
                pack_grad_input(weights, w + (group * outputs * inputs + lane) * taps, count, inputs, outputs, taps, panels.width);
            else if (packed != panel)
                pack_forward(weights, w + (group * outputs + lane) * inputs * taps, count, inputs, taps, panels.width);
            packed = panel;
            const Chunk chunk = chunk_of(s, cut, task % cut.chunks);
            turn_chunk(turned, chunk, read + group * depth * read_plane, read_size, (GRAD_INPUT ? s.o : s.c) * read_plane, depth, depth);
            for (int64_t f = 0; f < phases; f++) {
                const int64_t phase[] = {f / s.stride[2] / s.stride[1], f / s.stride[2] % s.stride[1], f % s.stride[2]};
                const Phase found = GRAD_INPUT ? phase_of(s, chunk, phase, depth, from, to, runs)
                                               : Phase{bases(s, chunk, depth, from), forward_runs(s, chunk, depth, runs)};
                if (panels.width == Lanes<T>::N)
                    multiply_tiles<1>(results, to, turned, from, found.positions, runs, found.runs, weights);
                else
                    multiply_tiles<2>(results, to, turned, from, found.positions, runs, found.runs, weights);
            }
            turn_results(made + (group * lanes + lane) * made_plane, chunk, results, panels.width, count, made_size,
                         (GRAD_INPUT ? s.c : s.o) * made_plane);
        }
    });
    return true;
}

/* Each of these is false where the sizes do not suit it. */
template <class T> static bool conv_last(T *y, const T *x, const T *w, const Conv &s, bool shared)
{
    return product_last<false>(y, x, w, s, shared);
}
template <class T> static bool conv_last_grad_input(T *dx, const T *dy, const T *w, const Conv &s, bool shared)
{
    return product_last<true>(dx, dy, w, s, shared);
}

/* sums of one chunk for inputs and outputs that have been turned */
template <int WIDE, class T>
static void add_chunk(T *sums, const T *turned, const int32_t *from, const T *gradients, int64_t positions, const Run *runs,
                      int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t tiles = (runs[i].length + TILE_ROWS - 1) / TILE_ROWS;
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t e = runs[i].length * t / tiles, rows = runs[i].length * (t + 1) / tiles - e;
            T *to = sums + (runs[i].w + e) * (WIDE * Lanes<T>::N);
#define CALL(R) multiply_positions<R, WIDE>(to, turned + runs[i].at + e, from, gradients, positions)
            BY_ROWS(rows, CALL)
#undef CALL
        }
    }
}

/* Tasks: panels of outputs by blocks of inputs; where those are few, chunks too are cut into parts, whose sums are added up in
 * order. */
template <class T> static bool conv_last_grad_weight(T *dw, const T *dy, const T *x, const Conv &s, bool shared)
{
    enum { WANTED_TASKS = 8, BLOCK = 32 };
    const int64_t inputs = s.c / s.groups, outputs = s.o / s.groups, taps = volume(s.k), P = volume(s.y), plane = volume(s.x);
    const int64_t blocks = inputs < 2 * BLOCK ? 1 : inputs / BLOCK;
    if (!suits_last<T>(s, outputs, (inputs + blocks - 1) / blocks, outputs * taps / volume(s.stride))) return false;
    const Panels panels = panels_of<T>(outputs);
    const Chunking cut = cut_chunks(s, false, sizeof(T), (inputs + blocks - 1) / blocks, most(1, 256 / P));
    if (!cut.chunks) return false;
    const int64_t products = s.groups * panels.count * blocks, size = (inputs + blocks - 1) / blocks * taps * panels.width;
    const int64_t room = PARTIAL_BYTES / (int64_t)sizeof(T) / (products * size);
    const int64_t parts = most(1, least(least(WANTED_TASKS / products, room), cut.chunks));
    alignas(64) T partial[PARTIAL_BYTES / sizeof(T)];
    T *const partials = partial;
    share_runs(products * parts, shared, [=, &s](int64_t first, int64_t last) {
        alignas(64) T turned[CHUNK_BYTES / sizeof(T) + Lanes<T>::N], own[WEIGHT_BYTES / sizeof(T)], gradients[CHUNK_RESULTS * MOST_LANES + Lanes<T>::N];
        int32_t from[CHUNK_RESULTS];
        Run runs[MOST_RUNS];
        Chunk turn;
        for (int64_t task = first; task < last; task++) {
            const int64_t part = task % parts, product = task / parts, block = product % blocks,
                          group = product / blocks / panels.count, o = product / blocks % panels.count * panels.width,
                          count = least(panels.width, outputs - o);
            const int64_t c = inputs * block / blocks, some = inputs * (block + 1) / blocks - c;
            T *sums = parts > 1 ? partials + task * size : own;
            memset(sums, 0, (size_t)(some * taps * panels.width) * sizeof(T));
            if (count < panels.width) memset(gradients, 0, sizeof gradients);
            for (int64_t i = cut.chunks * part / parts; i < cut.chunks * (part + 1) / parts; i++) {
                const Chunk chunk = chunk_of(s, cut, i);
                turn_chunk(turned, chunk, x + (group * inputs + c) * plane, s.x, s.c * plane, some, some);
                turn = chunk;
                for (int a = 0; a < 3; a++) turn.origin[a] = chunk.first[a], turn.extent[a] = chunk.size[a];
                turn_chunk(gradients, turn, dy + (group * outputs + o) * P, s.y, s.o * P, count, panels.width);
                const int64_t positions = bases(s, chunk, some, from), n = forward_runs(s, chunk, some, runs);
                if (panels.width == Lanes<T>::N)
                    add_chunk<1>(sums, turned, from, gradients, positions, runs, n);
                else
                    add_chunk<2>(sums, turned, from, gradients, positions, runs, n);
            }
            if (parts == 1)
                unpack_weights(dw + ((group * outputs + o) * inputs + c) * taps, sums, count, inputs, some, taps, panels.width);
        }
    });
    if (parts == 1) return true;
    share_out(products, shared, [=](int64_t product) {
        const int64_t block = product % blocks, group = product / blocks / panels.count,
                      o = product / blocks % panels.count * panels.width, count = least(panels.width, outputs - o);
        const int64_t c = inputs * block / blocks, some = inputs * (block + 1) / blocks - c;
        T *sums = partials + product * parts * size;
        for (int64_t part = 1; part < parts; part++)
            for (int64_t i = 0; i < some * taps * panels.width; i++) sums[i] += sums[part * size + i];
        unpack_weights(dw + ((group * outputs + o) * inputs + c) * taps, sums, count, inputs, some, taps, panels.width);
    });
    return true;
}
#endif
