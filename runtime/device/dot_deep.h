/* Part of blas_host.cpp: c (m, n) = a (k, m)^T · b (k, n) where k is long and c is small: the gradient of a weight, a sum over all
 * samples and steps.  A library shares out such a product badly.  Here c is shared out, and k is walked in chunks, of which a few
 * columns of a and of b are put side by side, so that the sums stay in registers and what they read stays near.  Where a and b are
 * narrow, they are read as they lie.
 * The order of the sums depends on nothing but k. */
#ifndef DEVICE_DOT_DEEP_H
#define DEVICE_DOT_DEEP_H
#include "tile.h"

enum { DEEP_CHUNK = 192, DEEP_ROWS = 64, DEEP_COLUMNS = 512, DEEP_LEAST = 256, DEEP_SUMS = 1 << 17, NARROW_BYTES = 512 };

/* rows of `width` elements out of rows of `from_row`, the missing ones 0 */
template <class T> static void pack_columns(T *to, const T *from, int64_t rows, int64_t from_row, int64_t columns, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, to += width, from += from_row) {
        if (columns == width)
            memcpy(to, from, (size_t)width * sizeof(T));
        else
            for (int64_t i = 0; i < width; i++) to[i] = i < columns ? from[i] : T(0);
    }
}

/* Groups of rows of c, `first` to `last` of so many, and its columns left to right, DEEP_COLUMNS at most: of each chunk b is packed once
 * for all of these rows. */
template <class T>
static void deep_part(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, int64_t first, int64_t last, int64_t groups, int64_t left,
                      int64_t right, bool add)
{
    constexpr int V = 2, WIDTH = V * Lanes<T>::N;
    alignas(64) T some_a[DEEP_CHUNK * DEEP_ROWS], some_b[DEEP_CHUNK * DEEP_COLUMNS], sums[DEEP_ROWS * WIDTH];
    for (int64_t at = 0; at < k; at += DEEP_CHUNK, add = true) {
        const int64_t depth = k - at < DEEP_CHUNK ? k - at : (int64_t)DEEP_CHUNK;
        for (int64_t j = left; j < right; j += WIDTH)
            pack_columns(some_b + (j - left) * DEEP_CHUNK, b + at * n + j, depth, n, right - j < WIDTH ? right - j : (int64_t)WIDTH, (int64_t)WIDTH);
        for (int64_t group = first; group < last; group++) {
            const int64_t row = group * m / groups, rows = (group + 1) * m / groups - row;
            pack_columns(some_a, a + at * m + row, depth, m, rows, (int64_t)DEEP_ROWS);
            for (int64_t j = left; j < right; j += WIDTH) {
                const int64_t columns = right - j < WIDTH ? right - j : (int64_t)WIDTH;
                const T *const panel = some_b + (j - left) * DEEP_CHUNK, *const from[V] = {panel, panel + Lanes<T>::N};
                T *const to = c + row * n + j;
                if (columns == WIDTH && add) {
                    register_rows<block_rows(V), V, true>(rows, to, n, some_a, 1, DEEP_ROWS, from, WIDTH, depth);
                } else if (columns == WIDTH) {
                    register_rows<block_rows(V), V, false>(rows, to, n, some_a, 1, DEEP_ROWS, from, WIDTH, depth);
                } else {
                    register_rows<block_rows(V), V, false>(rows, sums, WIDTH, some_a, 1, DEEP_ROWS, from, WIDTH, depth);
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t i = 0; i < columns; i++) to[r * n + i] = (add ? to[r * n + i] : T(0)) + sums[r * WIDTH + i];
                }
            }
        }
    }
}

/* V vectors of columns, R rows of c at most: a's and b's rows are as near as they can be. */
template <int V, class T>
static void narrow_part(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, int64_t rows, bool add)
{
    const T *from[V];
    for (int v = 0; v < V; v++) from[v] = b + v * Lanes<T>::N;
    if (add)
        register_rows<block_rows(V), V, true>(rows, c, n, a, 1, m, from, n, k);
    else
        register_rows<block_rows(V), V, false>(rows, c, n, a, 1, m, from, n, k);
}
template <int V, class T> static void narrow_dot(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, bool add)
{
    constexpr int64_t R = block_rows(V), WIDTH = V * Lanes<T>::N;
    const int64_t down = (m + R - 1) / R, across = n / WIDTH;
    share_out(down * across, m * n * k > PRODUCTS_WORTH, [=](int64_t part) {
        const int64_t row = part / across * R, column = part % across * WIDTH;
        narrow_part<V>(c + row * n + column, a + row, b + column, m, n, k, m - row < R ? m - row : R, add);
    });
}

/* True where it was done. */
template <class T> static bool deep_dot(T *c, const T *a, const T *b, int64_t m, int64_t n, int64_t k, bool add)
{
    constexpr int64_t WIDTH = 2 * Lanes<T>::N;
    if (k < DEEP_LEAST || k < m || k < n || m < 8 || n < WIDTH / 2 || m * n > DEEP_SUMS) return false;
    if (n % Lanes<T>::N == 0 && n * (int64_t)sizeof(T) <= NARROW_BYTES && m * (int64_t)sizeof(T) <= NARROW_BYTES) {
        const int64_t vectors = n / Lanes<T>::N;
        if (vectors % 3 == 0)
            narrow_dot<3>(c, a, b, m, n, k, add);
        else if (vectors % 2 == 0)
            narrow_dot<2>(c, a, b, m, n, k, add);
        else
            narrow_dot<1>(c, a, b, m, n, k, add);
        return true;
    }
    const int64_t groups = (m + DEEP_ROWS - 1) / DEEP_ROWS, blocks = (n + WIDTH - 1) / WIDTH, tasks = 2 * threads_most();
    const int64_t down = groups < tasks ? groups : tasks, least = (n + DEEP_COLUMNS - 1) / DEEP_COLUMNS, wanted = tasks / (2 * down);
    const int64_t across = wanted < least ? least : wanted < blocks ? wanted : blocks;
    share_runs(down * across, true, [=](int64_t first, int64_t last) {
        for (int64_t task = first; task < last;) {
            const int64_t split = task / down, begin = task % down, end = begin + last - task < down ? begin + last - task : down;
            const int64_t left = split * blocks / across * WIDTH, right = (split + 1) * blocks / across * WIDTH;
            deep_part(c, a, b, m, n, k, begin * groups / down, end * groups / down, groups, left, right < n ? right : n, add);
            task += end - begin;
        }
    });
    return true;
}
#endif
