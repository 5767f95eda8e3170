/* Part of conv.h, in a variant on the processor (controller/variants.h): there a convolution's numbers are constants, and what suits_rows is
 * compiled for them.  It has the order of sums that the program itself has; other convolutions are the program's. */
#ifndef DEVICE_CONV_KNOWN_H
#define DEVICE_CONV_KNOWN_H
#include <type_traits>
#include "conv_rows.h"

/* `of` gives the shape; where a number is no constant (a dim that only the step tells), it keeps it. */
#define CONV_KNOWN(name, rows, GRAD_INPUT)                                                                                         \
    template <class T, class Of> static void name##_known(Step *s, T *to, const T *from, const T *w, Of of)                        \
    {                                                                                                                              \
        if constexpr (std::is_empty<Of>::value && std::is_floating_point<T>::value) {                                              \
            static constexpr Conv shape = of();                                                                                    \
            struct Known {                                                                                                         \
                const Conv &operator()() const { return shape; }                                                                   \
            };                                                                                                                     \
            if constexpr (suits_rows<T>(shape, GRAD_INPUT)) {                                                                      \
                if (launch_wanted(s, elements(1), #name)) rows(to, from, w, Known());                                              \
                return;                                                                                                            \
            }                                                                                                                      \
        }                                                                                                                          \
        name(s, to, from, w, of());                                                                                                \
    }
CONV_KNOWN(conv, conv_rows, false)
CONV_KNOWN(conv_grad_input, conv_rows_grad_input, true)
#undef CONV_KNOWN

#define conv1d(s, y, x, w, ...) conv_known(s, y, x, w, [=]() { return conv_shape<1>(__VA_ARGS__); })
#define conv1d_grad_input(s, dx, dy, w, ...) conv_grad_input_known(s, dx, dy, w, [=]() { return conv_shape<1>(__VA_ARGS__); })
#endif
