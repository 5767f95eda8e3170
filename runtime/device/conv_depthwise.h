/* Part of conv_host.cpp: convolutions in which each channel stands alone, row by row. */
#ifndef DEVICE_CONV_DEPTHWISE_H
#define DEVICE_CONV_DEPTHWISE_H
#include "conv_tile.h"

/* Where a tap meets x for a whole row of outputs. */
static Meeting meet_row(const Conv &s, int64_t row, int64_t tap)
{
    const Piece piece = {0, s.y[2], 0, row / s.y[1], row % s.y[1], 0};
    return meet(s, piece, tap / s.k[2] / s.k[1], tap / s.k[2] % s.k[1], tap % s.k[2]);
}

template <class T> static void depthwise(T *y, const T *x, const T *w, const Conv &s)
{
    const int64_t outputs = s.o / s.groups, taps = volume(s.k), P = volume(s.y), plane = volume(s.x), lines = P / s.y[2];
    const bool shared = (double)s.n * (double)s.o * (double)taps * (double)P > HOST_GRAIN;
    share_out(s.n * s.o, shared, [=, &s](int64_t task) {
        const int64_t o = task % s.o, n = task / s.o;
        const T *xc = x + (n * s.c + o / outputs) * plane, *wc = w + o * taps;
        for (int64_t row = 0; row < lines; row++) {
            T *to = y + task * P + row * s.y[2];
            for (int64_t j = 0; j < s.y[2]; j++) to[j] = 0;
            for (int64_t t = 0; t < taps; t++) {
                const Meeting g = meet_row(s, row, t);
                const T weight = wc[t];
                const int64_t stride = s.stride[2];
#pragma omp simd
                for (int64_t j = 0; j < g.length; j++) to[g.from + j] += weight * xc[g.x + j * stride];
            }
        }
    });
}

template <class T> static void depthwise_grad_input(T *dx, const T *dy, const T *w, const Conv &s)
{
    const int64_t outputs = s.o / s.groups, taps = volume(s.k), P = volume(s.y), plane = volume(s.x), lines = P / s.y[2];
    const bool shared = (double)s.n * (double)s.o * (double)taps * (double)P > HOST_GRAIN;
    share_out(s.n * s.c, shared, [=, &s](int64_t task) {
        const int64_t c = task % s.c, n = task / s.c;
        T *to = dx + task * plane;
        memset(to, 0, (size_t)plane * sizeof(T));
        for (int64_t o = c * outputs; o < (c + 1) * outputs; o++)
            for (int64_t row = 0; row < lines; row++) {
                const T *from = dy + (n * s.o + o) * P + row * s.y[2];
                for (int64_t t = 0; t < taps; t++) {
                    const Meeting g = meet_row(s, row, t);
                    const T weight = w[o * taps + t];
                    const int64_t stride = s.stride[2];
#pragma omp simd
                    for (int64_t j = 0; j < g.length; j++) to[g.x + j * stride] += weight * from[g.from + j];
                }
            }
    });
}

template <class T> static void depthwise_grad_weight(T *dw, const T *dy, const T *x, const Conv &s)
{
    const int64_t outputs = s.o / s.groups, taps = volume(s.k), P = volume(s.y), plane = volume(s.x), lines = P / s.y[2];
    const bool shared = (double)s.n * (double)s.o * (double)taps * (double)P > HOST_GRAIN;
    share_out(s.o, shared, [=, &s](int64_t o) {
        for (int64_t t = 0; t < taps; t++) {
            T total = 0;
            for (int64_t n = 0; n < s.n; n++) {
                const T *xc = x + (n * s.c + o / outputs) * plane, *dyo = dy + (n * s.o + o) * P;
                T sum = 0; /* an image at a time, so that small terms do not meet a large sum */
                for (int64_t row = 0; row < lines; row++) {
                    const Meeting g = meet_row(s, row, t);
                    const T *from = dyo + row * s.y[2] + g.from;
                    const int64_t stride = s.stride[2];
#pragma omp simd reduction(+ : sum)
                    for (int64_t j = 0; j < g.length; j++) sum += from[j] * xc[g.x + j * stride];
                }
                total += sum;
            }
            dw[o * taps + t] = total;
        }
    });
}
#endif
