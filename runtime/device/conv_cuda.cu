/* conv.h on CUDA. */
#include "conv_plain.h"

#define CONV(T)                                                                                                                    \
    void conv(Step *s, T *y, const T *x, const T *w, const Conv &shape)                                                            \
    {                                                                                                                              \
        conv_plain(s, y, x, w, shape);                                                                                             \
    }                                                                                                                              \
    void conv_grad_input(Step *s, T *dx, const T *dy, const T *w, const Conv &shape)                                               \
    {                                                                                                                              \
        conv_grad_input_plain(s, dx, dy, w, shape);                                                                                \
    }                                                                                                                              \
    void conv_grad_weight(Step *s, T *dw, const T *dy, const T *x, const Conv &shape)                                              \
    {                                                                                                                              \
        conv_grad_weight_plain(s, dw, dy, x, shape);                                                                               \
    }
USED_TYPES(CONV)
#define CONV_FLOATS(T)                                                                                                             \
    void conv_grad_weight(Step *s, float *dw, const T *dy, const T *x, const Conv &shape)                                          \
    {                                                                                                                              \
        conv_grad_weight_plain(s, dw, dy, x, shape);                                                                               \
    }
USED_SHORT_TYPES(CONV_FLOATS)
