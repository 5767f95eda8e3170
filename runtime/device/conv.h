/* Convolutions of one, two or three spatial axes: conv_host.cpp for the processor; conv_cuda.cu has a thread (for the weights a
 * block) a result.  A program links one of the two.
 *
 *     conv2d(s, y, x, w, n, c, o, groups, xh, xw, yh, yw, kh, kw, stride_h, stride_w, dilation_h, dilation_w, low_h, low_w)
 *
 *     y (n, o, yh, yw):  y[n, o, p] = sum over the channels c of o's group and the taps k of
 *                                     x[n, c, p * stride - low + k * dilation] * w[o, c, k]
 *
 *     x (n, c, xh, xw):  outside of it there are zeros; low may be negative
 *     w (o, c / groups, kh, kw)
 *
 *     conv2d_grad_input(s, dx, dy, w, the same numbers)        conv2d_grad_weight(s, dw, dy, x, the same numbers)
 *
 * Kernels of one tap, at stride 1 and without pads or groups, are matrix products and go to the BLAS (conv_dot.h).
 * Every result is the sum of its terms in an order that depends on the sizes alone.  Does nothing where s->error stands. */
#ifndef DEVICE_CONV_H
#define DEVICE_CONV_H
#include "blas.h"

/* Spatial axes are three, the first ones 1 where there are fewer. */
struct Conv {
    int64_t n, c, o, groups, x[3], y[3], k[3], stride[3], dilation[3], low[3];
};
DEVICE int64_t volume(const int64_t *size)
{
    return size[0] * size[1] * size[2];
}

#define CONV(T)                                                                                                                    \
    void conv(Step *s, T *y, const T *x, const T *w, const Conv &shape);                                                           \
    void conv_grad_input(Step *s, T *dx, const T *dy, const T *w, const Conv &shape);                                              \
    void conv_grad_weight(Step *s, T *dw, const T *dy, const T *x, const Conv &shape);
DOT_TYPES(CONV)
#undef CONV
/* 16-bit floats are summed as floats; the gradient of weights need not be rounded. */
#define CONV(T) void conv_grad_weight(Step *s, float *dw, const T *dy, const T *x, const Conv &shape);
SHORT_TYPES(CONV)
#undef CONV

/* The numbers after groups: RANK each of x, y, k, stride, dilation, low. */
template <int RANK, class... Numbers> static constexpr Conv conv_shape(int64_t n, int64_t c, int64_t o, int64_t groups, Numbers... numbers)
{
    static_assert(sizeof...(numbers) == 6 * RANK, "six numbers a spatial axis");
    const int64_t given[] = {(int64_t)numbers...};
    Conv shape = {n, c, o, groups, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
    int64_t *const to[] = {shape.x, shape.y, shape.k, shape.stride, shape.dilation, shape.low};
    for (int i = 0; i < 6 * RANK; i++) to[i / RANK][3 - RANK + i % RANK] = given[i];
    return shape;
}
#define CONV_RANK(RANK)                                                                                                            \
    template <class T, class... N> void conv##RANK##d(Step *s, T *y, const T *x, const T *w, N... numbers)                         \
    {                                                                                                                              \
        conv(s, y, x, w, conv_shape<RANK>(numbers...));                                                                            \
    }                                                                                                                              \
    template <class T, class... N> void conv##RANK##d_grad_input(Step *s, T *dx, const T *dy, const T *w, N... numbers)            \
    {                                                                                                                              \
        conv_grad_input(s, dx, dy, w, conv_shape<RANK>(numbers...));                                                               \
    }                                                                                                                              \
    template <class R, class T, class... N> void conv##RANK##d_grad_weight(Step *s, R *dw, const T *dy, const T *x, N... numbers)  \
    {                                                                                                                              \
        conv_grad_weight(s, dw, dy, x, conv_shape<RANK>(numbers...));                                                              \
    }
CONV_RANK(1)
CONV_RANK(2)
CONV_RANK(3)
#undef CONV_RANK

#if defined(VARIANT_DIMS) && !defined(__CUDACC__)
#include "conv_known.h"
#endif
#endif
