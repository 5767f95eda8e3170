/* Faults that tests order through the environment: DISC_FAULT="allocation=3,room=100000,launch=10,slow_copy=50", or of
 * launches of one kernel alone "garble=2,kernel=mul_add,times=3"; with "poison=1" what is left is NaN.  Parsed alike for both devices. */
#ifndef DEVICE_FAULTS_H
#define DEVICE_FAULTS_H
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "memory.h"

static inline int64_t fault_number(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static inline DeviceFaults faults_ordered(void)
{
    const char *text = getenv("DISC_FAULT");
    DeviceFaults faults = {};
    if (!text) return faults;
    const char *kernel = strstr(text, "kernel=");
    if (kernel) memcpy(faults.kernel, kernel + 7, strcspn(kernel + 7, ",") % sizeof faults.kernel);
    faults.garble_launch = (int)fault_number(text, "garble=");
    faults.poison = (int)fault_number(text, "poison=");
    faults.times = (int)fault_number(text, "times=");
    faults.fail_allocation = (int)fault_number(text, "allocation=");
    faults.room = fault_number(text, "room=");
    faults.fail_host_memory = (int)fault_number(text, "host_memory=");
    faults.fail_graph = (int)fault_number(text, "graph=");
    faults.fail_launch = (int)fault_number(text, "launch=");
    faults.slow_copy_us = fault_number(text, "slow_copy=");
    return faults;
}

/* Counts down to the nth event; true once, when it comes. */
static inline int fault_is_due(int *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

/* A launch: 0, or an error where it is to fail.  Whether it is to leave garbage stands in faults->garbled. */
static inline int fault_of_launch(DeviceFaults *faults, const char *kernel)
{
    const int first = faults->fail_launch ? faults->fail_launch : faults->garble_launch, times = faults->times ? faults->times : 1;
    if (!first || faults->held) return DEVICE_OK;
    const size_t length = strlen(faults->kernel);
    if (length && (strncmp(kernel, faults->kernel, length) || (kernel[length] && kernel[length] != '<'))) return DEVICE_OK;
    const int launch = ++faults->launches;
    if (launch < first || launch >= first + times) return DEVICE_OK;
    if (faults->fail_launch) return DEVICE_LAUNCH_FAILED;
    faults->garbled = 1;
    return DEVICE_OK;
}

static inline void fault_delay(int64_t us)
{
    struct timespec pause;
    pause.tv_sec = (time_t)(us / 1000000);
    pause.tv_nsec = (long)(us % 1000000 * 1000);
    if (us > 0) nanosleep(&pause, NULL);
}
#endif
