/* The tile primitive against plain loops: sizes that are no multiples of anything, strides of both operands, groups, rows' numbers.
 * Exit status 1 where a number is off. */
#include "device/device.h"
#include "device/tile.h"
#include <stdio.h>
#include <vector>

static int failures, compared;
static uint64_t state = 7;
static double uniform()
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / (1 << 23) - 1;
}
template <class T> static std::vector<T> numbers(int64_t n)
{
    std::vector<T> x((size_t)n);
    for (T &v : x) v = (T)(float)uniform();
    return x;
}
static void expect(double is, double want, double tolerance, const char *what)
{
    compared++;
    if (fabs(is - want) <= tolerance) return;
    if (failures++ < 20) printf("%s: is %.9g, should be %.9g\n", what, is, want);
}

/* rows x columns of a product of this depth; A and B are the operands' types; transposed: element (i, j) lies at (j, i). */
template <class T, class A, class B, int ROWS, int COLUMNS, int GROUPS>
static void product(int rows, int columns, int depth, bool transposed_a, bool transposed_b)
{
    typedef Tile<T, ROWS, COLUMNS, GROUPS> Sums;
    const int wide = columns + 3, deep = depth + 2;
    /* exactly as much memory as may be read */
    const auto a = numbers<A>(depth ? (transposed_a ? (int64_t)(depth - 1) * rows + rows : (int64_t)(rows - 1) * deep + depth) : 1);
    const Strided<A> sa = transposed_a ? strided(a.data(), 1, rows) : strided(a.data(), deep, 1);
    const int64_t group = transposed_b ? (int64_t)columns * deep : (int64_t)depth * wide;
    const auto b = numbers<B>(group * GROUPS + 1);
    const Strided<B> sb = transposed_b ? strided(b.data(), 1, deep) : strided(b.data(), wide, 1);
    const double tolerance = (sizeof(T) == 8 ? 1e-14 : 2e-6) * (depth + 1);
    Sums x;
    x.zero();
    x.dot(sa, sb, depth, rows, columns, group);
    x.dot(sa, sb, depth, rows, columns, group); /* adds */
    static double out[ROWS][COLUMNS][GROUPS];
    memset(out, 0xff, sizeof out);
    x.each(
        [=](int m, int n, auto... v) {
            const double all[] = {(double)v...};
            for (int g = 0; g < GROUPS; g++) out[m][n][g] = all[g];
        },
        rows, columns);
    for (int m = 0; m < rows; m++)
        for (int n = 0; n < columns; n++)
            for (int g = 0; g < GROUPS; g++) {
                double sum = 0;
                for (int k = 0; k < depth; k++)
                    sum += (double)sa.at[m * sa.row + k * sa.column] * (double)sb.at[k * sb.row + g * group + n * sb.column];
                expect(out[m][n][g], 2 * sum, tolerance, "product");
            }
    for (int m = 0; m < ROWS; m++)
        for (int n = 0; n < COLUMNS; n++)
            if (m >= rows || n >= columns) expect(out[m][n][0] == out[m][n][0], 0, 0, "an element that is not there");
}

template <class T, int ROWS, int COLUMNS> static void softmax(int rows, int columns)
{
    const auto a = numbers<T>(rows * 8), b = numbers<T>(8 * columns);
    Tile<T, ROWS, COLUMNS> x;
    typename Tile<T, ROWS, COLUMNS>::Rows most, sum;
    x.zero();
    x.dot(strided(a.data(), 8, 1), strided(b.data(), columns, 1), 8, rows, columns);
    most.set(-INFINITY);
    x.fold(
        most, [](T p, T q) { return maximum(p, q); }, rows, columns);
    x.each([&](int m, int, T &v) { v = exp(v - most.of(m)); }, rows, columns);
    sum.set(0);
    x.fold(
        sum, [](T p, T q) { return p + q; }, rows, columns);
    static double out[ROWS][COLUMNS];
    x.each([&](int m, int n, T v) { out[m][n] = (double)(v / sum.of(m)); }, rows, columns);
    for (int m = 0; m < rows; m++) {
        double e[COLUMNS] = {0};
        double highest = -INFINITY, all = 0;
        for (int n = 0; n < columns; n++) {
            for (int k = 0; k < 8; k++) e[n] += (double)a[(size_t)(m * 8 + k)] * (double)b[(size_t)(k * columns + n)];
            highest = e[n] > highest ? e[n] : highest;
        }
        for (int n = 0; n < columns; n++) all += e[n] = exp(e[n] - highest);
        for (int n = 0; n < columns; n++) expect(out[m][n], e[n] / all, 1e-5, "fold");
    }
}

template <class T, int ROWS, int COLUMNS, int GROUPS> static void sizes()
{
    for (int rows : {1, 2, 7, ROWS - 1, ROWS})
        for (int columns : {1, 5, COLUMNS - 1, COLUMNS})
            for (int depth : {0, 1, 3, 64, 131})
                for (int how = 0; how < 4; how++) {
                    if (rows < 1 || rows > ROWS || columns > COLUMNS) continue;
                    product<T, T, T, ROWS, COLUMNS, GROUPS>(rows, columns, depth, how & 1, how & 2);
                }
}

int main()
{
    sizes<float, 16, 64, 1>();
    sizes<float, 16, 16, 4>();
    sizes<float, 8, 48, 1>();
    sizes<float, 8, 24, 3>();
    sizes<double, 16, 32, 1>();
    sizes<double, 8, 8, 4>();
    product<float, half, half, 16, 64, 1>(13, 64, 70, true, false);
    product<float, bfloat16, bfloat16, 16, 32, 1>(13, 31, 40, false, true);
    for (int columns : {1, 15, 16, 33, 64})
        for (int rows : {1, 9, 16}) softmax<float, 16, 64>(rows, columns), softmax<double, 16, 64>(rows, columns);
    printf("%d numbers compared, %d off\n", compared, failures);
    return failures > 0;
}
