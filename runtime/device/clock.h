/* Seconds of a clock that only goes forward, since some moment: differences count. */
#ifndef CLOCK_H
#define CLOCK_H
#include <time.h>

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
