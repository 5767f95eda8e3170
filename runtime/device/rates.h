/* What this machine does in a second, by short measurements: to decide between making a buffer again and copying it to the host.
 * rates_cuda.cu, rates_host.cpp. */
#ifndef DEVICE_RATES_H
#define DEVICE_RATES_H
#include "memory.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct {
    double flops;  /* of float products in large matrix products */
    double moved;  /* bytes read and written by a kernel that only copies */
    double copied; /* bytes one way between the device and pinned memory of the host */
} MeasuredRates;
/* About a tenth of a second.  Needs room for twice 64 MiB on the device; less is measured with less.  0 or an error of memory.h. */
int device_rates(Device *device, MeasuredRates *rates);

/* For the measurements: two blocks of as many bytes as there is room for, from 64 MiB down to `least`.  The caller releases both, whatever
 * is returned. */
static inline int rates_blocks(Device *device, size_t least, void **a, void **b, size_t *bytes)
{
    *a = *b = NULL;
    for (*bytes = (size_t)64 << 20;; *bytes /= 4) {
        int error = device_allocate(device, *bytes, a);
        if (!error) error = device_allocate(device, *bytes, b);
        if (!error || *bytes / 4 < least) return error;
        device_release(device, *a);
        *a = NULL;
    }
}
#ifdef __cplusplus
}
#endif
#endif
