/* Tensor cores' products for the simulator: fragments lie in a warp's lanes as the PTX manual has them ("Warp-level matrix fragment").
 * Lane L has the group L / 4 and the place L % 4 in it. */
#ifndef SIM_MMA_H
#define SIM_MMA_H
#include <string.h>
#include "sim.h"

/* To nearest, ties away from zero, 10 bits behind the point (cvt.rna.tf32.f32). */
static inline float sim_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* mma.m16n8k8 of tf32:  d (16, 8) += a (16, 8) · b (8, 8).
 *     a[e] at row group + 8 * (e % 2), column place + 4 * (e / 2);  b[e] at row place + 4 * e, column group;
 *     d[e] at row group + 8 * (e / 2), column 2 * place + e % 2. */
struct SimMma {
    const float *a, *b;
    float *d;
};
static inline void sim_mma_meet(void *const *lanes)
{
    float a[16][8], b[8][8];
    for (int L = 0; L < 32; L++) {
        const SimMma *lane = (const SimMma *)lanes[L];
        if (!lane) sim_fault("lane %d takes no part", L);
        for (int e = 0; e < 4; e++) a[L / 4 + 8 * (e % 2)][L % 4 + 4 * (e / 2)] = sim_tf32(lane->a[e]);
        for (int e = 0; e < 2; e++) b[L % 4 + 4 * e][L / 4] = sim_tf32(lane->b[e]);
    }
    for (int L = 0; L < 32; L++)
        for (int e = 0; e < 4; e++) {
            const int row = L / 4 + 8 * (e / 2), column = 2 * (L % 4) + e % 2;
            float sum = ((const SimMma *)lanes[L])->d[e];
            for (int k = 0; k < 8; k++) sum += a[row][k] * b[k][column];
            ((const SimMma *)lanes[L])->d[e] = sum;
        }
}
static inline void mma_tf32(float (&d)[4], const float (&a)[4], const float (&b)[2], const char *file = __builtin_FILE(),
                            int line = __builtin_LINE())
{
    SimMma mine = {a, b, d};
    sim_warp(~0u, "mma.m16n8k8", false, &mine, sim_mma_meet, {file, line});
}
#endif
