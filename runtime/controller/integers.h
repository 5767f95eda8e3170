/* Integer functions that formulas over dims use; they round towards minus infinity, as the generator computes. */
#ifndef CONTROLLER_INTEGERS_H
#define CONTROLLER_INTEGERS_H
#include <stdint.h>

static inline int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t floor_mod(int64_t a, int64_t b)
{
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t min_int(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t max_int(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
#endif
