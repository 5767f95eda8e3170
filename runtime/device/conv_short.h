/* Part of conv_host.cpp: convolutions of 16-bit floats.  Some images at a time are made floats, go the way of floats, and the result is
 * rounded once.  The weights' gradient is summed in floats over all images. */
#ifndef DEVICE_CONV_SHORT_H
#define DEVICE_CONV_SHORT_H
#include "conv.h"
#include <stdlib.h>

enum { SHORT_ELEMENTS = 1 << 22 }; /* of x and y together that are floats at once, if an image has no more */

template <class R, class T> static void convert(R *to, const T *from, int64_t n)
{
    enum { PIECE = 4096 };
    share_out((n + PIECE - 1) / PIECE, n > HOST_GRAIN, [=](int64_t piece) {
        const int64_t i = piece * PIECE;
        convert_row(to + i, from + i, n - i < PIECE ? n - i : (int64_t)PIECE);
    });
}

/* Room for the floats of some images of x and y, and of w. */
struct Floats {
    Conv shape; /* of some images */
    int64_t x_image, y_image, weights;
    float *x, *y, *w;
    Floats(Step *s, const Conv &all) : shape(all)
    {
        x_image = all.c * volume(all.x), y_image = all.o * volume(all.y);
        weights = all.o * (all.c / all.groups) * volume(all.k);
        const int64_t image = x_image + y_image, some = image ? SHORT_ELEMENTS / image : all.n;
        shape.n = some < 1 ? 1 : some < all.n ? some : all.n;
        x = (float *)malloc((size_t)(shape.n * image + weights + 1) * sizeof *x);
        y = x + shape.n * x_image, w = y + shape.n * y_image;
        if (!x) s->error = DEVICE_OUT_OF_MEMORY;
    }
    Floats(const Floats &) = delete;
    ~Floats() { free(x); }
    /* The images from `first` on; false after the last. */
    bool at(const Step *s, int64_t first, const Conv &all)
    {
        if (first + shape.n > all.n) shape.n = all.n - first;
        return !s->error && shape.n > 0;
    }
};

/* y of x, or (GRAD_INPUT) dx of dy: `made` of `read`. */
template <bool GRAD_INPUT, class T> static void product_short(Step *s, T *made, const T *read, const T *w, const Conv &all)
{
    Floats f(s, all);
    float *const result = GRAD_INPUT ? f.x : f.y, *const operand = GRAD_INPUT ? f.y : f.x;
    const int64_t result_image = GRAD_INPUT ? f.x_image : f.y_image, operand_image = GRAD_INPUT ? f.y_image : f.x_image;
    if (f.x) convert(f.w, w, f.weights);
    for (int64_t n = 0; f.at(s, n, all); n += f.shape.n) {
        convert(operand, read + n * operand_image, f.shape.n * operand_image);
        if (GRAD_INPUT)
            conv_grad_input(s, result, operand, f.w, f.shape);
        else
            conv(s, result, operand, f.w, f.shape);
        convert(made + n * result_image, result, f.shape.n * result_image);
    }
}
template <class T> static void conv_short(Step *s, T *y, const T *x, const T *w, const Conv &all)
{
    product_short<false>(s, y, x, w, all);
}
template <class T> static void conv_grad_input_short(Step *s, T *dx, const T *dy, const T *w, const Conv &all)
{
    product_short<true>(s, dx, dy, w, all);
}

template <class R, class T> static void conv_grad_weight_short(Step *s, R *dw, const T *dy, const T *x, const Conv &all)
{
    Floats f(s, all);
    float *const sum = s->error ? NULL : (float *)calloc((size_t)f.weights + 1, sizeof *sum);
    if (!s->error && !sum) s->error = DEVICE_OUT_OF_MEMORY;
    for (int64_t n = 0; f.at(s, n, all); n += f.shape.n) {
        convert(f.x, x + n * f.x_image, f.shape.n * f.x_image);
        convert(f.y, dy + n * f.y_image, f.shape.n * f.y_image);
        conv_grad_weight(s, f.w, f.y, f.x, f.shape);
        for (int64_t i = 0; i < f.weights; i++) sum[i] += f.w[i];
    }
    if (!s->error) convert(dw, sum, f.weights);
    free(sum);
}
#endif
