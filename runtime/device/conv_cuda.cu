/* conv.h on CUDA: kernels of one tap go to cuBLAS (conv_dot.h); of others each result is a thread's, for the weights a block's. */
#include "conv_plain.h"
#include "conv_dot.h"
#include <type_traits>

/* A sum over images wants floats to be kept in. */
template <class R, class T> static bool goes_as_product(const Conv &shape, const R *, const T *, bool sums)
{
    return !std::is_integral<T>::value && is_product(shape) && !(sums && sizeof(R) < 4);
}

#define CONV(T)                                                                                                                    \
    void conv(Step *s, T *y, const T *x, const T *w, const Conv &shape)                                                            \
    {                                                                                                                              \
        if (goes_as_product(shape, y, x, false)) return conv_dot(s, y, x, w, shape);                                               \
        conv_plain(s, y, x, w, shape);                                                                                             \
    }                                                                                                                              \
    void conv_grad_input(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)                                               \
    {                                                                                                                              \
        if (goes_as_product(shape, dx, dy, false)) return conv_dot_grad_input(s, dx, dy, w, shape);                                \
        conv_grad_input_plain(s, dx, dy, w, shape);                                                                                \
    }                                                                                                                              \
    void conv_grad_weight(Step *s, T *dw, const T *dy, const T *x, const Conv &shape)                                              \
    {                                                                                                                              \
        if (goes_as_product(shape, dw, dy, true)) return conv_dot_grad_weight(s, dw, dy, x, shape);                                \
        conv_grad_weight_plain(s, dw, dy, x, shape);                                                                               \
    }
USED_TYPES(CONV)
#define CONV_FLOATS(T)                                                                                                             \
    void conv_grad_weight(Step *s, float *dw, const T *dy, const T *x, const Conv &shape)                                          \
    {                                                                                                                              \
        if (goes_as_product(shape, dw, dy, true)) return conv_dot_grad_weight(s, dw, dy, x, shape);                                \
        conv_grad_weight_plain(s, dw, dy, x, shape);                                                                               \
    }
USED_SHORT_TYPES(CONV_FLOATS)
