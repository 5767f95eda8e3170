/* The tile primitive's body for CUDA in the simulator, against plain loops: every kind of tile that test/kernels/tile.cu instantiates,
 * whole blocks and ragged ones.  With TILE_TF32 factors are rounded first. */
#include "../kernels/alone.h"
#include "../kernels/tile.cu"
#include <stdio.h>
#include <stdlib.h>
#include <vector>

static int failures;

#ifdef TILE_TF32
#include "../../runtime/sim/mma.h"
static float rounded(float x)
{
    return sim_tf32(x);
}
#else
static float rounded(float x)
{
    return x;
}
#endif
static double rounded(double x)
{
    return x;
}

template <class T> static std::vector<T> numbers(int64_t n)
{
    static uint64_t state = 1;
    std::vector<T> x((size_t)n);
    for (T &v : x) v = (T)((state = state * 6364136223846793005u + 1442695040888963407u) >> 40) / (T)(1 << 23) - 1;
    sim_memory(x.data(), x.size() * sizeof(T), "a matrix");
    return x;
}
template <class T> static void compare(const char *name, const std::vector<T> &y, const std::vector<double> &want, double tolerance)
{
    double worst = 0;
    for (size_t i = 0; i < y.size(); i++) worst = fmax(worst, y[i] == y[i] ? fabs((double)y[i] - want[i]) : 1e9);
    if (worst <= tolerance) return;
    printf("%s: off by %g\n", name, worst);
    failures++;
}

/* y (m, n) = sum over groups of a (m, depth) · b (depth, n) */
template <class T, int ROWS, int COLUMNS, int GROUPS> static void check_product(const char *name, int64_t m, int64_t n, int64_t depth)
{
    Step step = {}, *s = &step;
    const int64_t ldb = n * GROUPS;
    std::vector<T> a = numbers<T>(m * depth), b = numbers<T>(depth * ldb), y = numbers<T>(m * n);
    const bool exact = sizeof(T) == 8 || ROWS % 16 != 0; /* tf32 is for floats in blocks of 16 rows */
    LAUNCH_PLAIN(s, (product<T, ROWS, COLUMNS, GROUPS>), rows(tiles(m, ROWS), 1), 64)(y.data(), a.data(), b.data(), depth, ldb, n, depth, m, n);
    std::vector<double> want;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                for (int g = 0; g < GROUPS; g++) {
                    const T p = a[(size_t)(i * depth + k)], q = b[(size_t)(k * ldb + g * n + j)];
                    sum += exact ? (double)p * (double)q : (double)rounded(p) * (double)rounded(q);
                }
            want.push_back(sum);
        }
    failures += s->error != 0;
    compare(name, y, want, sizeof(T) == 8 ? 1e-12 : 1e-5);
    sim_forget();
}

/* y (rows, columns): softmax of a (rows, depth) · b (columns, depth)^T */
template <class T, int ROWS, int COLUMNS> static void check_softmax(const char *name, int rows_there, int columns, int64_t depth)
{
    Step step = {}, *s = &step;
    std::vector<T> a = numbers<T>(rows_there * depth), b = numbers<T>(columns * depth), y = numbers<T>(rows_there * columns);
    LAUNCH_PLAIN(s, (softmax<T, ROWS, COLUMNS>), rows(1, 1), 32)(y.data(), a.data(), b.data(), depth, rows_there, columns);
    std::vector<double> want;
    for (int i = 0; i < rows_there; i++) {
        double all = 0;
        for (int j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++) {
                const T p = a[(size_t)(i * depth + k)], q = b[(size_t)(j * depth + k)];
                sum += (double)rounded(p) * (double)rounded(q);
            }
            want.push_back(exp(sum));
            all += want.back();
        }
        for (int j = 0; j < columns; j++) want[(size_t)(i * columns + j)] /= all;
    }
    failures += s->error != 0;
    compare(name, y, want, 1e-5);
    sim_forget();
}

int main()
{
    for (int64_t depth : {1, 8, 21}) {
        check_product<float, 16, 64, 1>("float 16 x 64", 37, 150, depth);
        check_product<float, 8, 16, 4>("float 8 x 16, 4 groups", 19, 40, depth);
        check_product<float, 32, 32, 1>("float 32 x 32", 64, 64, depth);
        check_product<double, 8, 32, 1>("double 8 x 32", 9, 33, depth);
        check_softmax<float, 16, 64>("float softmax", 16, 64, depth);
        check_softmax<float, 16, 64>("float softmax, ragged", 11, 37, depth);
        check_softmax<double, 16, 32>("double softmax, ragged", 13, 5, depth);
    }
    printf("%d wrong\n", failures);
    return failures != 0;
}
