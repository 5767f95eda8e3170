/* What nvcc must take, for every kind of tile, without spilling: tile.sh compiles it. */
#include "device/device.h"
#include "device/tile.h"

template <class T, int ROWS, int COLUMNS, int GROUPS>
__global__ void product(T *y, const T *a, const T *b, int64_t lda, int64_t ldb, int64_t group, int64_t depth, int64_t m, int64_t n)
{
    FOR_ROWS(block, tiles(m, ROWS))
    {
        const int rows = (int)minimum(m - block * ROWS, (int64_t)ROWS);
        FOR_TILES(i, tiles(n, COLUMNS))
        {
            Tile<T, ROWS, COLUMNS, GROUPS> x;
            const int columns = (int)minimum(n - i * COLUMNS, (int64_t)COLUMNS);
            x.zero();
            x.dot(strided(a + block * ROWS * lda, lda, 1), strided(b + i * COLUMNS, ldb, 1), depth, rows, columns, group);
            x.each([=](int r, int c, auto... v) INLINED { y[(block * ROWS + r) * n + i * COLUMNS + c] = (v + ...); }, rows,
                   columns);
        }
    }
}
template <class T, int ROWS, int COLUMNS>
__global__ void softmax(T *y, const T *a, const T *b, int64_t depth, int rows, int columns)
{
    Tile<T, ROWS, COLUMNS> x;
    typename Tile<T, ROWS, COLUMNS>::Rows most, sum;
    x.zero();
    x.dot(strided(a, depth, 1), strided(b, 1, depth), depth, rows, columns);
    most.set(lowest<T>());
    x.fold(
        most, [](T p, T q) { return maximum(p, q); }, rows, columns);
    x.each([&](int m, int, T &v) INLINED { v = exp(v - most.of(m)); }, rows, columns);
    sum.set(0);
    x.fold(
        sum, [](T p, T q) { return p + q; }, rows, columns);
    x.each([&](int m, int n, T v) INLINED { y[m * columns + n] = v / sum.of(m); }, rows, columns);
}
template __global__ void product<float, 16, 64, 1>(float *, const float *, const float *, int64_t, int64_t, int64_t, int64_t,
                                                   int64_t, int64_t);
template __global__ void product<float, 8, 16, 4>(float *, const float *, const float *, int64_t, int64_t, int64_t, int64_t,
                                                  int64_t, int64_t);
template __global__ void product<float, 32, 32, 1>(float *, const float *, const float *, int64_t, int64_t, int64_t, int64_t,
                                                   int64_t, int64_t);
template __global__ void product<double, 8, 32, 1>(double *, const double *, const double *, int64_t, int64_t, int64_t, int64_t,
                                                   int64_t, int64_t);
template __global__ void softmax<float, 16, 64>(float *, const float *, const float *, int64_t, int, int);
template __global__ void softmax<double, 16, 32>(double *, const double *, const double *, int64_t, int, int);
