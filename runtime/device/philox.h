/* Random numbers that depend on where they stand alone: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy
 * as 1, 2, 3; SC 2011).  The key is the run's seed; the counter is the element, the step and the operation.  So a mask can be made
 * again for the backward pass, on either device, in any order. */
#ifndef DEVICE_PHILOX_H
#define DEVICE_PHILOX_H

struct Philox {
    uint32_t x, y, z, w;
};
DEVICE Philox philox(uint64_t seed, int64_t step, int64_t operation, int64_t element)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    Philox c = {(uint32_t)element, (uint32_t)((uint64_t)element >> 32), (uint32_t)step, (uint32_t)operation};
    for (int round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)0xD2511F53u * c.x, q = (uint64_t)0xCD9E8D57u * c.z;
        c = {(uint32_t)(q >> 32) ^ c.y ^ k0, (uint32_t)q, (uint32_t)(p >> 32) ^ c.w ^ k1, (uint32_t)p};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

/* [0, 1) */
DEVICE float uniform_float(Philox r)
{
    return (float)(r.x >> 8) * 0x1p-24f;
}
DEVICE double uniform_double(Philox r)
{
    return (double)((uint64_t)r.x << 21 ^ r.y >> 11) * 0x1p-53;
}
/* Mean 0, variance 1 (Box and Muller) */
DEVICE float normal_float(Philox r)
{
    return sqrtf(-2 * logf((float)((r.x >> 8) + 1) * 0x1p-24f)) * cosf(6.283185307f * ((float)(r.y >> 8) * 0x1p-24f));
}
DEVICE double normal_double(Philox r)
{
    return sqrt(-2 * log(((double)r.x + 1) * 0x1p-32)) * cos(6.283185307179586 * ((double)r.y * 0x1p-32));
}
#endif
