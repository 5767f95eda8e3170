/* Two 16-bit floats for the processor: IEEE half and bfloat16.  Stored in 16 bits, computed as float; rounds to nearest even.
 * Assignment is spelled out: the compiler vectorises a store of a number, not of a struct. */
#ifndef DEVICE_HALF_H
#define DEVICE_HALF_H
#include <stdint.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

static inline uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t all_bits(bool x)
{
    return 0u - (uint32_t)x;
}

struct bfloat16 {
    uint16_t bits;
    bfloat16() = default;
    bfloat16(const bfloat16 &) = default;
    bfloat16 &operator=(const bfloat16 &x)
    {
        bits = x.bits;
        return *this;
    }
    bfloat16(float x)
    {
        const uint32_t b = float_bits(x);
        bits = (uint16_t)(x != x ? (b >> 16) | 0x40 : (b + 0x7fff + (b >> 16 & 1)) >> 16);
    }
    operator float() const { return float_of_bits((uint32_t)bits << 16); }
};

struct half {
    uint16_t bits;
    half() = default;
    half(const half &) = default;
    half &operator=(const half &x)
    {
        bits = x.bits;
        return *this;
    }
    half(float x)
    {
        const uint32_t b = float_bits(x), sign = b >> 16 & 0x8000, magnitude = b & 0x7fffffff;
        const uint32_t subnormal = float_bits(float_of_bits(magnitude) + 0.5f) - 0x3f000000; /* the addition rounds */
        const uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
        const uint32_t is_small = all_bits(magnitude < 0x38800000), is_large = all_bits(magnitude >= 0x477ff000); /* 65536 when rounded */
        const uint32_t not_large = (is_small & subnormal) | (~is_small & normal);
        const uint32_t large = 0x7c00 | (all_bits(magnitude > 0x7f800000) & 0x200); /* infinity, or NaN */
        bits = (uint16_t)(sign | (is_large & large) | (~is_large & not_large));
    }
    operator float() const
    {
        const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = bits & 0x7fff;
        const uint32_t special = rest >= 0x7c00 ? 0x38000000 : 0; /* infinity and NaN keep all exponent bits */
        const uint32_t normal = (rest << 13) + 0x38000000 + special, subnormal = float_bits((float)(int32_t)rest * 0x1p-24f);
        return float_of_bits(sign | (rest < 0x0400 ? subnormal : normal));
    }
};

/* n numbers in a row, to another type; halfs by the processor's own instructions where it has them. */
template <class R, class T> static inline void convert_row(R *to, const T *from, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = R(float(from[i]));
}
#ifdef __F16C__
static inline void convert_row(float *to, const half *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    for (; i < n; i++) to[i] = float(from[i]);
}
static inline void convert_row(half *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) to[i] = half(from[i]);
}
#endif
#endif
