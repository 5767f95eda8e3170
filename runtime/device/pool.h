/* Pooling over one, two or three spatial axes, for both devices.
 *
 *     max_pool2d(s, y, index, x, planes, xh, xw, yh, yw, kh, kw, stride_h, stride_w, dilation_h, dilation_w, low_h, low_w)
 *     x (planes, xh, xw) -> y (planes, yh, yw), and the maximum's flat index in its plane; padding never wins, NaN does
 *     max_pool2d_grad(s, dx, dy, index, numbers)    dx: what each element won
 *     sum_pool2d(s, y, x, numbers)                  sums, padding counts as 0
 *     sum_pool2d_grad(s, dx, dy, numbers) */
#ifndef DEVICE_POOL_H
#define DEVICE_POOL_H
#include "conv.h"

/* The part [from, to) of a row of outputs whose inputs p * stride + shift lie in 0 .. size - 1. */
DEVICE void row_inside(int64_t shift, int64_t stride, int64_t size, int64_t width, int64_t *from, int64_t *to)
{
    *from = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    *to = shift >= size ? 0 : (size - 1 - shift) / stride + 1;
    if (*to > width) *to = width;
    if (*from > *to) *from = *to;
}

/* For one row of outputs and one tap: where the row of x begins in its plane (-1: outside), and which outputs it reaches. */
struct PoolRow {
    int64_t x, from, to, shift;
};
DEVICE PoolRow pool_row(const Conv &s, int64_t row, int64_t tap)
{
    const int64_t x0 = row / s.y[1] * s.stride[0] - s.low[0] + tap / s.k[2] / s.k[1] * s.dilation[0];
    const int64_t x1 = row % s.y[1] * s.stride[1] - s.low[1] + tap / s.k[2] % s.k[1] * s.dilation[1];
    PoolRow r = {-1, 0, 0, tap % s.k[2] * s.dilation[2] - s.low[2]};
    if (x0 < 0 || x0 >= s.x[0] || x1 < 0 || x1 >= s.x[1]) return r;
    r.x = (x0 * s.x[1] + x1) * s.x[2];
    row_inside(r.shift, s.stride[2], s.x[2], s.y[2], &r.from, &r.to);
    return r;
}

template <class T> __global__ void max_pool_rows(T *y, int64_t *index, const T *x, Conv s)
{
    const int64_t lines = s.y[0] * s.y[1], taps = volume(s.k), stride = s.stride[2];
    FOR_ROWS(row, s.n * lines)
    {
        const T *plane = x + row / lines * volume(s.x);
        const int64_t at = row * s.y[2];
        FOR_LANES(j, s.y[2])
        {
            y[at + j] = T(Limits<typename Sum<T>::type>::lowest);
            index[at + j] = -1;
        }
        for (int64_t t = 0; t < taps; t++) {
            const PoolRow r = pool_row(s, row % lines, t);
            if (r.x < 0) continue;
            const int64_t begin = r.x + r.shift;
            FOR_LANES_IN(j, r.from, r.to)
            {
                const T v = plane[begin + j * stride], best = y[at + j];
                const int64_t known = index[at + j];
                const bool better = (v > best) | (known < 0) | (is_nan(v) & !is_nan(best));
                y[at + j] = better ? v : best;
                index[at + j] = better ? begin + j * stride : known;
            }
        }
    }
}

/* A plane's gradients lie near each other, but windows overlap: one thread a plane, in order. */
template <class T> __global__ void max_pool_grad_planes(T *dx, const T *dy, const int64_t *index, Conv s)
{
    const int64_t per_y = volume(s.y), per_x = volume(s.x);
    for (int64_t n = thread_first(s.n), end = thread_last(s.n); n < end; n++) {
        T *to = dx + n * per_x;
        for (int64_t i = 0; i < per_x; i++) to[i] = T(0);
        for (int64_t i = n * per_y; i < (n + 1) * per_y; i++)
            if (index[i] >= 0 && index[i] < per_x) to[index[i]] = T(to[index[i]] + dy[i]);
    }
}

template <class T> __global__ void sum_pool_rows(T *y, const T *x, Conv s)
{
    const int64_t lines = s.y[0] * s.y[1], taps = volume(s.k), stride = s.stride[2];
    FOR_ROWS(row, s.n * lines)
    {
        const T *plane = x + row / lines * volume(s.x);
        const int64_t at = row * s.y[2];
        FOR_LANES(j, s.y[2]) y[at + j] = T(0);
        for (int64_t t = 0; t < taps; t++) {
            const PoolRow r = pool_row(s, row % lines, t);
            if (r.x < 0) continue;
            const int64_t begin = r.x + r.shift;
            FOR_LANES_IN(j, r.from, r.to) y[at + j] = T(y[at + j] + plane[begin + j * stride]);
        }
    }
}

template <class T> __global__ void sum_pool_grad_planes(T *dx, const T *dy, Conv s)
{
    const int64_t lines = s.y[0] * s.y[1], taps = volume(s.k), per_x = volume(s.x), stride = s.stride[2];
    for (int64_t n = thread_first(s.n), end = thread_last(s.n); n < end; n++) {
        T *to = dx + n * per_x;
        for (int64_t i = 0; i < per_x; i++) to[i] = T(0);
        for (int64_t row = 0; row < lines; row++)
            for (int64_t t = 0; t < taps; t++) {
                const PoolRow r = pool_row(s, row, t);
                const T *from = dy + (n * lines + row) * s.y[2];
                if (r.x < 0) continue;
                for (int64_t j = r.from; j < r.to; j++) {
                    T *const target = to + r.x + j * stride + r.shift;
                    *target = T(*target + from[j]);
                }
            }
    }
}

static inline Work pool_rows(const Conv &s)
{
    return rows(s.n * s.y[0] * s.y[1], s.y[2] * volume(s.k));
}
static inline Work pool_planes(const Conv &s)
{
    return rows(s.n, volume(s.x) + volume(s.y) * volume(s.k));
}

#define POOL_RANK(RANK)                                                                                                            \
    template <class T, class... N> void max_pool##RANK##d(Step *s, T *y, int64_t *index, const T *x, int64_t planes, N... numbers) \
    {                                                                                                                              \
        const Conv shape = conv_shape<RANK>(planes, 1, 1, 1, numbers...);                                                          \
        LAUNCH_PLAIN(s, max_pool_rows<T>, pool_rows(shape), 64)(y, index, x, shape);                                                     \
    }                                                                                                                              \
    template <class T, class... N>                                                                                                 \
    void max_pool##RANK##d_grad(Step *s, T *dx, const T *dy, const int64_t *index, int64_t planes, N... numbers)                   \
    {                                                                                                                              \
        const Conv shape = conv_shape<RANK>(planes, 1, 1, 1, numbers...);                                                          \
        LAUNCH_PLAIN(s, max_pool_grad_planes<T>, pool_planes(shape), 64)(dx, dy, index, shape);                                          \
    }                                                                                                                              \
    template <class T, class... N> void sum_pool##RANK##d(Step *s, T *y, const T *x, int64_t planes, N... numbers)                 \
    {                                                                                                                              \
        const Conv shape = conv_shape<RANK>(planes, 1, 1, 1, numbers...);                                                          \
        LAUNCH_PLAIN(s, sum_pool_rows<T>, pool_rows(shape), 64)(y, x, shape);                                                            \
    }                                                                                                                              \
    template <class T, class... N> void sum_pool##RANK##d_grad(Step *s, T *dx, const T *dy, int64_t planes, N... numbers)          \
    {                                                                                                                              \
        const Conv shape = conv_shape<RANK>(planes, 1, 1, 1, numbers...);                                                          \
        LAUNCH_PLAIN(s, sum_pool_grad_planes<T>, pool_planes(shape), 64)(dx, dy, shape);                                                 \
    }
POOL_RANK(1)
POOL_RANK(2)
POOL_RANK(3)
#undef POOL_RANK
#endif
