/* rates.h on the processor: all cores multiply what lies in registers, and copy what does not fit into caches. */
#include "rates.h"
#include "clock.h"
#include "threads.h"
#include <atomic>
#include <string.h>

enum { LANES = 64, ROUNDS = 1 << 20, COPIES = 4 };

/* Multiplies and adds in registers; what comes out, so that it is not left out. */
static float multiply_and_add(void)
{
    float sum[LANES], kept = 0;
    for (int i = 0; i < LANES; i++) sum[i] = (float)i * 1e-3f;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < LANES; i++) sum[i] = sum[i] * 0.999f + 0.001f;
    for (int i = 0; i < LANES; i++) kept += sum[i];
    return kept;
}

static double multiply(void)
{
    const int threads = threads_most();
    std::atomic<float> kept; /* so that the sums are wanted */
    const double begin = seconds_now();
    share_out(threads, true, [&kept](int64_t) { kept.store(multiply_and_add(), std::memory_order_relaxed); });
    const double seconds = seconds_now() - begin;
    return seconds > 0 ? 2.0 * LANES * ROUNDS * threads / seconds : 0;
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
    const int64_t threads = threads_most(), each = (int64_t)bytes / threads;
    const double begin = seconds_now();
    for (int i = 0; i < COPIES; i++)
        share_out(threads, true, [=](int64_t t) {
            memcpy((char *)a + t * each, (char *)b + t * each, (size_t)(t + 1 == threads ? (int64_t)bytes - t * each : each));
        });
    const double seconds = seconds_now() - begin;
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
