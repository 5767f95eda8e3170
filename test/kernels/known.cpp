/* Convolutions of a variant, whose numbers are constants, against the program's own: the same bits, of every product that conv_known.h compiles
 * anew and of some that it leaves alone. */
#define VARIANT_DIMS
#include "alone.h"
#include "device/conv.h"
#include <stdio.h>
#include <vector>

static int different = 0, failed = 0;

template <class T> static std::vector<T> numbers(int64_t n, int64_t seed)
{
    std::vector<T> x(n);
    for (int64_t i = 0; i < n; i++) x[i] = (T)((i * 7919 + seed) % 2001 - 1000) * (T)1e-3;
    return x;
}
template <class T> static void same(const char *what, const Step &s, const std::vector<T> &known, const std::vector<T> &own)
{
    failed += s.error != 0;
    if (memcmp(known.data(), own.data(), own.size() * sizeof(T)) == 0) return;
    printf("%s of %d: other bits\n", what, (int)sizeof(T));
    different++;
}

/* images, channels, outputs, width of x, width of y, taps, stride, dilation, low */
template <class T, int64_t n, int64_t c, int64_t o, int64_t x, int64_t y, int64_t k, int64_t stride, int64_t dilation, int64_t low>
static void compare(bool known)
{
    constexpr Conv shape = conv_shape<1>(n, c, o, (int64_t)1, x, y, k, stride, dilation, low);
    if (suits_rows<T>(shape, false) != known) printf("%d x %d: not what is expected\n", (int)x, (int)k), failed++;
    const std::vector<T> in = numbers<T>(n * c * x, 1), gradient = numbers<T>(n * o * y, 2), w = numbers<T>(o * c * k, 3);
    std::vector<T> made(n * o * y), own(n * o * y), d_made(n * c * x), d_own(n * c * x), w_made(o * c * k), w_own(o * c * k);
    Step s = {};
    conv1d(&s, made.data(), in.data(), w.data(), n, c, o, 1, x, y, k, stride, dilation, low);
    conv(&s, own.data(), in.data(), w.data(), shape);
    same("y", s, made, own);
    conv1d_grad_input(&s, d_made.data(), gradient.data(), w.data(), n, c, o, 1, x, y, k, stride, dilation, low);
    conv_grad_input(&s, d_own.data(), gradient.data(), w.data(), shape);
    same("dx", s, d_made, d_own);
    conv1d_grad_weight(&s, w_made.data(), gradient.data(), in.data(), n, c, o, 1, x, y, k, stride, dilation, low);
    conv_grad_weight(&s, w_own.data(), gradient.data(), in.data(), shape);
    same("dw", s, w_made, w_own);
}

int main()
{
    compare<float, 32, 7, 16, 50, 50, 5, 1, 1, 2>(true);
    compare<float, 5, 16, 16, 50, 25, 3, 2, 2, 2>(true);
    compare<float, 3, 9, 13, 65, 33, 4, 2, 1, 2>(true);
    compare<float, 2, 3, 5, 200, 200, 3, 1, 3, 3>(true);
    compare<float, 20, 2, 35, 70, 36, 6, 2, 2, 6>(true);
    compare<double, 3, 7, 16, 50, 46, 5, 1, 1, 0>(true);
    compare<double, 3, 6, 7, 41, 19, 3, 2, 1, -1>(true);
    compare<float, 4, 7, 16, 3, 3, 3, 1, 1, 1>(false);
    compare<float, 2, 64, 64, 64, 64, 3, 1, 1, 1>(false);
    return different + failed > 0;
}
