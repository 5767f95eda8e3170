/* Integer functions that formulas over dims use; they round towards minus infinity, as the generator computes.  Dividing by 0 gives 0: a
 * guard that turns the batch away may stand behind formulas that divide. */
#ifndef CONTROLLER_INTEGERS_H
#define CONTROLLER_INTEGERS_H
#include <stdint.h>

#ifdef __cplusplus
#define INTEGER_FUNCTION static constexpr inline
#else
#define INTEGER_FUNCTION static inline
#endif

INTEGER_FUNCTION int64_t floor_div(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
INTEGER_FUNCTION int64_t ceil_div(int64_t a, int64_t b)
{
    return floor_div(a + b - 1, b);
}
INTEGER_FUNCTION int64_t floor_mod(int64_t a, int64_t b)
{
    if (b == 0) return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
INTEGER_FUNCTION int64_t min_int(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
INTEGER_FUNCTION int64_t max_int(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rows that a loop over blocks of rows takes at a time, where nothing else is said: as many blocks as keep what is wide within
 * BLOCK_BYTES, but not fewer rows than products of matrices need to run well; all blocks but the last alike, in sixteens. */
enum { BLOCK_BYTES = 64 << 20, BLOCK_LEAST_ROWS = 512 };
enum { BLOCK_FEWEST_ROWS = 128, BLOCK_FEWEST_BYTES = 4 << 20 }; /* for a budget: with fewer, products of matrices are slow, and little is saved */
INTEGER_FUNCTION int64_t rows_per_block(int64_t rows, int64_t row_bytes)
{
    const int64_t most = max_int(BLOCK_BYTES / max_int(row_bytes, 1), BLOCK_LEAST_ROWS), blocks = (rows + most - 1) / most;
    const int64_t each = rows > 0 ? (rows + blocks - 1) / blocks : 1;
    return min_int((each + 15) / 16 * 16, max_int(rows, 1));
}
#endif
