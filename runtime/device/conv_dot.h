/* Part of conv_host.cpp and conv_cuda.cu: convolutions whose kernel is one tap, at stride 1 and without pads, are products.  With P
 * positions an image, for each image
 *
 *     y (o, P) = w (o, c) · x (c, P)        dx (c, P) = w^T (c, o) · dy (o, P)        dw (o, c) = sum over images of dy (o, P) · x^T (P, c)
 *
 * all where they lie. */
#ifndef DEVICE_CONV_DOT_H
#define DEVICE_CONV_DOT_H
#include <limits.h>
#include "conv.h"

static inline bool is_product(const Conv &s)
{
    for (int i = 0; i < 3; i++)
        if (s.k[i] != 1 || s.stride[i] != 1 || s.low[i] != 0 || s.x[i] != s.y[i]) return false;
    return s.groups == 1 && s.n > 0 && s.c > 0 && s.o > 0 && volume(s.x) > 0 && s.n <= INT_MAX && s.c <= INT_MAX && s.o <= INT_MAX &&
           volume(s.x) <= INT_MAX;
}

/* Images of one position are the rows of one matrix. */
template <class T> static void conv_dot(Step *s, T *y, const T *x, const T *w, const Conv &shape)
{
    const int64_t n = shape.n, c = shape.c, o = shape.o, P = volume(shape.x);
    if (P == 1) return dot(s, y, x, w, 1, n, o, c, false, true);
    dot_apart(s, y, w, x, {0, c * P, o * P}, n, o, P, c, false, false);
}
template <class T> static void conv_dot_grad_input(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)
{
    const int64_t n = shape.n, c = shape.c, o = shape.o, P = volume(shape.x);
    if (P == 1) return dot(s, dx, dy, w, 1, n, c, o, false, false);
    dot_apart(s, dx, w, dy, {0, o * P, c * P}, n, c, P, o, true, false);
}
template <class R, class T> static void conv_dot_grad_weight(Step *s, R *dw, const T *dy, const T *x, const Conv &shape)
{
    const int64_t n = shape.n, c = shape.c, o = shape.o, P = volume(shape.x);
    if (P == 1) return dot(s, dw, dy, x, 1, o, c, n, true, false);
    dot_apart(s, dw, dy, x, {o * P, c * P, 0}, n, o, c, P, false, true);
}
#endif
