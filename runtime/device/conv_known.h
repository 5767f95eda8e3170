/* Part of conv.h, in a variant on the processor (controller/variants.h): there a convolution's numbers are constants, and what suits_rows is
 * compiled for them.  It has the order of sums that the program itself has; other convolutions are the program's. */
#ifndef DEVICE_CONV_KNOWN_H
#define DEVICE_CONV_KNOWN_H
#include <type_traits>
#include "conv_rows.h"

/* `of` gives the shape; where a number is no constant (a dim that only the step tells), it keeps it. */
#define CONV_KNOWN(name, rows, suits)                                                                                             \
    template <class T, class Of> static void name##_known(Step *s, T *to, const T *a, const T *b, Of of)                           \
    {                                                                                                                              \
        if constexpr (std::is_empty<Of>::value && std::is_floating_point<T>::value) {                                              \
            static constexpr Conv shape = of();                                                                                    \
            struct Known {                                                                                                         \
                const Conv &operator()() const { return shape; }                                                                   \
            };                                                                                                                     \
            if constexpr (suits) {                                                                                                 \
                if (launch_wanted(s, elements(1), #name)) rows(to, a, b, Known());                                                 \
                return;                                                                                                            \
            }                                                                                                                      \
        }                                                                                                                          \
        name(s, to, a, b, of());                                                                                                   \
    }
CONV_KNOWN(conv, conv_rows, suits_rows<T>(shape, false))
CONV_KNOWN(conv_grad_input, conv_rows_grad_input, suits_rows<T>(shape, true))
CONV_KNOWN(conv_grad_weight, conv_rows_grad_weight, suits_rows_grad_weight<T>(shape))
#undef CONV_KNOWN

#define conv1d(s, y, x, w, ...) conv_known(s, y, x, w, [=]() { return conv_shape<1>(__VA_ARGS__); })
#define conv1d_grad_input(s, dx, dy, w, ...) conv_grad_input_known(s, dx, dy, w, [=]() { return conv_shape<1>(__VA_ARGS__); })
#define conv1d_grad_weight(s, dw, dy, x, ...) conv_grad_weight_known(s, dw, dy, x, [=]() { return conv_shape<1>(__VA_ARGS__); })
#endif
