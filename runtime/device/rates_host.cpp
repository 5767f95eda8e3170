/* rates.h on the processor: all cores multiply what lies in registers, and copy what does not fit into caches. */
#include "rates.h"
#include <omp.h>
#include <string.h>

enum { LANES = 64, ROUNDS = 1 << 20, COPIES = 4 };

static double multiply(void)
{
    double begin = omp_get_wtime(), done = 0;
    float kept = 0;
#pragma omp parallel reduction(+ : done, kept)
    {
        float sum[LANES];
        for (int i = 0; i < LANES; i++) sum[i] = (float)i * 1e-3f;
        for (int r = 0; r < ROUNDS; r++)
            for (int i = 0; i < LANES; i++) sum[i] = sum[i] * 0.999f + 0.001f;
        for (int i = 0; i < LANES; i++) kept += sum[i];
        done += 2.0 * LANES * ROUNDS;
    }
    double seconds = omp_get_wtime() - begin;
    return kept == kept && seconds > 0 ? done / seconds : 0;
}

static int copy(Device *device, double *rate)
{
    void *a, *b;
    size_t bytes;
    const int error = rates_blocks(device, (size_t)1 << 16, &a, &b, &bytes);
    if (error) {
        device_release(device, a);
        return error;
    }
    memset(a, 1, bytes);
    memset(b, 2, bytes);
    double begin = omp_get_wtime();
    const int threads = omp_get_max_threads();
    for (int i = 0; i < COPIES; i++)
#pragma omp parallel for schedule(static)
        for (int t = 0; t < threads; t++) {
            size_t from = bytes / (size_t)threads * (size_t)t, to = t + 1 == threads ? bytes : from + bytes / (size_t)threads;
            memcpy((char *)a + from, (char *)b + from, to - from);
        }
    double seconds = omp_get_wtime() - begin;
    *rate = seconds > 0 ? (double)bytes * COPIES / seconds : 0;
    device_release(device, a);
    device_release(device, b);
    return DEVICE_OK;
}

int device_rates(Device *device, MeasuredRates *rates)
{
    rates->flops = multiply();
    int error = copy(device, &rates->copied);
    rates->moved = 2 * rates->copied;
    return error;
}
