/* expf, expm1f and tanhf of device.h on the processor: plain arithmetic, which the compiler puts into the loop around it, vectors and
 * what is left over alike, so an element is the same wherever it lies.  At most 1.1, 1.7 and 1.4 units in the last place off;
 * NaN, infinities and what overflows as in C.
 *
 * exp(x) = 2^n exp(r), |r| <= ln 2 / 2, and exp(r) - 1 = r + r^2 q(r) with q of degree 4 (minimax, weighted for the relative error of
 * the sum; see Muller, Elementary Functions, on argument reduction in two parts).  tanh(x) for small x is Cephes' odd polynomial. */
#ifndef DEVICE_EXPONENTIALS_H
#define DEVICE_EXPONENTIALS_H

/* x = n ln 2 + r; part: exp(r) - 1 */
struct ExpParts {
    int32_t n;
    float part;
};
static inline ExpParts exp_parts(float x)
{
    const float shift = 12582912.f; /* 3 * 2^22: what is added to it loses its fraction, and stands in its last bits */
    const float shifted = x * 1.44269504f + shift, n = shifted - shift;
    const float r = x - n * 0.693145752f - n * 1.42860677e-6f; /* the first factor has 15 bits: its product is exact */
    const float q = (((0.00139459956f * r + 0.0083663417f) * r + 0.0416662917f) * r + 0.16666545f) * r + 0.5f;
    return {(int32_t)(bit_cast<uint32_t>(shifted) - bit_cast<uint32_t>(shift)), q * r * r + r}; /* of NaN: any number */
}
static inline float power_of_two(int32_t n)
{
    return bit_cast<float>((uint32_t)(n + 127) << 23);
}

static inline float host_expf(float x)
{
    const ExpParts e = exp_parts(x > 89.f ? 89.f : x < -104.f ? -104.f : x);
    const int32_t half = e.n >> 1; /* 2^n itself may be none of the floats */
    const float scale = power_of_two(half);
    return (e.part * scale + scale) * power_of_two(e.n - half);
}
static inline float host_expm1f(float x)
{
    const ExpParts e = exp_parts(x > 89.f ? 89.f : x < -18.f ? -18.f : x);
    const float half = power_of_two(e.n - 1);
    return 2 * (e.part * half + (half - 0.5f));
}
static inline float host_tanhf(float x)
{
    const float size = fabsf(x), square = x * x;
    const float far = 1 - 2 / (host_expf(2 * size) + 1);
    const float p = (((-5.70498873e-3f * square + 2.06390888e-2f) * square - 5.37397156e-2f) * square + 0.133314422f) * square - 0.333332819f;
    return copysignf(size < 0.625f ? p * square * x + x : far, x);
}
#define expf host_expf
#define expm1f host_expm1f
#define tanhf host_tanhf
#endif
