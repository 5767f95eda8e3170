/* Convolutions result by result, for both devices: every type on CUDA, the rare ones on the host. */
#ifndef DEVICE_CONV_PLAIN_H
#define DEVICE_CONV_PLAIN_H
#include "conv.h"

/* Where tap `at` of the kernel lies in x for output position `out`; false outside. */
DEVICE bool tap_position(const Conv &s, const int64_t *out, int64_t at, int64_t *position)
{
    int64_t flat = 0;
    const int64_t tap[3] = {at / s.k[2] / s.k[1], at / s.k[2] % s.k[1], at % s.k[2]};
    for (int i = 0; i < 3; i++) {
        const int64_t p = out[i] * s.stride[i] - s.low[i] + tap[i] * s.dilation[i];
        if (p < 0 || p >= s.x[i]) return false;
        flat = flat * s.x[i] + p;
    }
    *position = flat;
    return true;
}

/* The output position to which x[at] goes through a tap; false where there is none. */
DEVICE bool tap_source(const Conv &s, const int64_t *in, int64_t at, int64_t *position)
{
    int64_t flat = 0;
    const int64_t tap[3] = {at / s.k[2] / s.k[1], at / s.k[2] % s.k[1], at % s.k[2]};
    for (int i = 0; i < 3; i++) {
        const int64_t p = in[i] + s.low[i] - tap[i] * s.dilation[i];
        if (p < 0 || p % s.stride[i] || p / s.stride[i] >= s.y[i]) return false;
        flat = flat * s.y[i] + p / s.stride[i];
    }
    *position = flat;
    return true;
}
DEVICE void unravel(int64_t at, const int64_t *size, int64_t *out)
{
    out[0] = at / size[2] / size[1], out[1] = at / size[2] % size[1], out[2] = at % size[2];
}

template <class T> __global__ void conv_each(T *y, const T *x, const T *w, Conv s)
{
    const int64_t per_y = volume(s.y), per_x = volume(s.x), taps = volume(s.k), inputs = s.c / s.groups, outputs = s.o / s.groups;
    for (int64_t i = thread_first(s.n * s.o * per_y), end = thread_last(s.n * s.o * per_y); i < end; i++) {
        const int64_t o = i / per_y % s.o, n = i / per_y / s.o;
        int64_t out[3], p;
        unravel(i % per_y, s.y, out);
        typename Sum<T>::type sum = 0;
        for (int64_t c = 0; c < inputs; c++) {
            const T *xc = x + (n * s.c + o / outputs * inputs + c) * per_x, *wc = w + (o * inputs + c) * taps;
            for (int64_t t = 0; t < taps; t++)
                if (tap_position(s, out, t, &p)) sum += typename Sum<T>::type(xc[p]) * typename Sum<T>::type(wc[t]);
        }
        y[i] = T(sum);
    }
}

template <class T> __global__ void conv_grad_input_each(T *dx, const T *dy, const T *w, Conv s)
{
    const int64_t per_y = volume(s.y), per_x = volume(s.x), taps = volume(s.k), inputs = s.c / s.groups, outputs = s.o / s.groups;
    for (int64_t i = thread_first(s.n * s.c * per_x), end = thread_last(s.n * s.c * per_x); i < end; i++) {
        const int64_t c = i / per_x % s.c, n = i / per_x / s.c, group = c / inputs;
        int64_t in[3], p;
        unravel(i % per_x, s.x, in);
        typename Sum<T>::type sum = 0;
        for (int64_t o = group * outputs; o < (group + 1) * outputs; o++) {
            const T *dyo = dy + (n * s.o + o) * per_y, *wo = w + (o * inputs + c % inputs) * taps;
            for (int64_t t = 0; t < taps; t++)
                if (tap_source(s, in, t, &p)) sum += typename Sum<T>::type(dyo[p]) * typename Sum<T>::type(wo[t]);
        }
        dx[i] = T(sum);
    }
}

template <class R, class T> __global__ void conv_grad_weight_each(R *dw, const T *dy, const T *x, Conv s)
{
    const int64_t per_y = volume(s.y), per_x = volume(s.x), taps = volume(s.k), inputs = s.c / s.groups, outputs = s.o / s.groups;
    FOR_ROWS(i, s.o * inputs * taps)
    {
        const int64_t t = i % taps, c = i / taps % inputs, o = i / taps / inputs;
        typename Sum<T>::type sum = 0;
        FOR_THREADS(j, s.n * per_y)
        {
            const int64_t n = j / per_y;
            int64_t out[3], p;
            unravel(j % per_y, s.y, out);
            if (tap_position(s, out, t, &p))
                sum += typename Sum<T>::type(dy[n * s.o * per_y + o * per_y + j % per_y]) *
                       typename Sum<T>::type(x[(n * s.c + o / outputs * inputs + c) * per_x + p]);
        }
        sum = block_sum(sum);
        if (FIRST_THREAD) dw[i] = R(sum);
    }
}

template <class T> static void conv_plain(Step *s, T *y, const T *x, const T *w, const Conv &shape)
{
    LAUNCH_PLAIN(s, conv_each<T>, elements(shape.n * shape.o * volume(shape.y)), 256)(y, x, w, shape);
}
template <class T> static void conv_grad_input_plain(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)
{
    LAUNCH_PLAIN(s, conv_grad_input_each<T>, elements(shape.n * shape.c * volume(shape.x)), 256)(dx, dy, w, shape);
}
template <class R, class T> static void conv_grad_weight_plain(Step *s, R *dw, const T *dy, const T *x, const Conv &shape)
{
    void (*const kernel)(R *, const T *, const T *, Conv) = conv_grad_weight_each<R, T>;
    LAUNCH_PLAIN(s, kernel, rows(shape.o * shape.c / shape.groups * volume(shape.k), shape.n * volume(shape.y)), 256)
    (dw, dy, x, shape);
}
#endif
