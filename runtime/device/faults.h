/* Faults that tests order through the environment: DISC_FAULT="allocation=3,launch=10,slow_copy=50".  Parsed alike for both
 * devices. */
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
    DeviceFaults faults = {0, 0, 0};
    if (!text) return faults;
    faults.fail_allocation = (int)fault_number(text, "allocation=");
    faults.fail_launch = (int)fault_number(text, "launch=");
    faults.slow_copy_us = fault_number(text, "slow_copy=");
    return faults;
}

/* Counts down to the nth event; true once, when it comes. */
static inline int fault_is_due(int *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

static inline void fault_delay(int64_t us)
{
    struct timespec pause;
    pause.tv_sec = (time_t)(us / 1000000);
    pause.tv_nsec = (long)(us % 1000000 * 1000);
    if (us > 0) nanosleep(&pause, NULL);
}
#endif
