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
#ifdef __cplusplus
}
#endif
#endif
