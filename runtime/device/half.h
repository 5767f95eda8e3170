/* Two 16-bit floats for the processor: IEEE half and bfloat16.  Stored in 16 bits, computed as float; rounds to nearest even.
 * Assignment is spelled out: the compiler vectorises a store of a number, not of a struct. */
#ifndef DEVICE_HALF_H
#define DEVICE_HALF_H
#include <stdint.h>
#include <string.h>

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
        uint32_t h;
        if (magnitude > 0x7f800000)
            h = 0x7e00; /* NaN */
        else if (magnitude >= 0x477ff000)
            h = 0x7c00; /* rounds to 65536 or more */
        else if (magnitude < 0x38800000)
            h = float_bits(float_of_bits(magnitude) + 0.5f) - 0x3f000000; /* subnormal: the addition rounds */
        else
            h = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
        bits = (uint16_t)(sign | h);
    }
    operator float() const
    {
        const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, rest = (uint32_t)(bits & 0x7fff) << 13;
        const uint32_t special = rest >= 0x0f800000 ? 0x70000000 : 0; /* infinity and NaN keep all exponent bits */
        return float_of_bits(sign | float_bits(float_of_bits(rest + special) * (special ? 1.f : 0x1p112f)));
    }
};
#endif
