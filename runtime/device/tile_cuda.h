/* tile.h on CUDA: a tile belongs to a warp.  Lane L has the sums at rows L / 4 + 8 * i and columns L % 4 * 2 + 8 * j + {0, 1} of
 * every group, as the tensor cores' fragments have them, so the groups' elements at one place meet in one lane. */
#ifndef DEVICE_TILE_CUDA_H
#define DEVICE_TILE_CUDA_H
#define INLINED
#define FOR_TILES(i, n) for (int64_t i = threadIdx.x / 32; i < (n); i += blockDim.x / 32)

#define FOR_BLOCK_ROWS(row, first, last) for (int64_t row = (first) + threadIdx.x / 32; row < (last); row += blockDim.x / 32)
#define FOR_ROW_LANES(j, n) for (int64_t j = threadIdx.x % 32; j < (n); j += 32)
enum { BLOCK_ROWS = 8, ROW_TILE_BYTES = 128 };
#define ROWS_DOT __device__
template <int COLUMNS, class Call> __device__ void with_width(int, Call call)
{
    call(std::integral_constant<int, COLUMNS>());
}
struct RowBlocks {
    int64_t n, at;
    __device__ RowBlocks(int64_t rows) : n(rows), at(blockIdx.x * (int64_t)BLOCK_ROWS) {}
    __device__ bool more() const { return at < n; }
    __device__ void next() { at += gridDim.x * (int64_t)BLOCK_ROWS; }
    __device__ int64_t first() const { return at; }
    __device__ int64_t last() const { return n - at < BLOCK_ROWS ? n : at + BLOCK_ROWS; }
};

#ifdef DEVICE_SIM
#include "../sim/mma.h"
#else
/* d (16, 8) += a (16, 8) · b (8, 8), factors rounded to tf32. */
__device__ inline void mma_tf32(float (&d)[4], const float (&a)[4], const float (&b)[2])
{
    uint32_t x[4], y[2];
    for (int i = 0; i < 4; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(a[i]));
    for (int i = 0; i < 2; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[i]) : "f"(b[i]));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
}
#endif

template <class T, int ROWS, int COLUMNS, int GROUPS = 1> struct Tile {
    static_assert(ROWS % 8 == 0 && COLUMNS % 8 == 0, "a warp has 8 rows of 8 columns at a time");
    static constexpr int OWN = ROWS / 8, PAIRS = COLUMNS / 8;
    T x[OWN][GROUPS][PAIRS][2];

    struct Rows {
        T at[OWN];
        __device__ void set(T value)
        {
#pragma unroll
            for (int i = 0; i < OWN; i++) at[i] = value;
        }
        __device__ T of(int m) const
        {
            return at[m / 8];
        }
        __device__ T &of(int m)
        {
            return at[m / 8];
        }
    };

    __device__ void zero()
    {
#pragma unroll
        for (int i = 0; i < OWN * GROUPS * PAIRS * 2; i++) (&x[0][0][0][0])[i] = 0;
    }

    template <class A, class B>
    __device__ void dot(Strided<A> a, Strided<B> b, int64_t depth, int rows = ROWS, int columns = COLUMNS, int64_t group = COLUMNS)
    {
        auto left = [=](int m, int64_t k) { return m < rows && k < depth ? (T)a.at[m * a.row + k * a.column] : T(0); };
        auto right = [=](int64_t k, int g, int n) {
            return n < columns && k < depth ? (T)b.at[k * b.row + g * group + n * b.column] : T(0);
        };
#if defined TILE_TF32 && (!defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800)
        if constexpr (std::is_same<T, float>::value && ROWS % 16 == 0) return sum_up_tf32(left, right, depth);
#endif
        if (rows < ROWS || columns < COLUMNS || b.column != 1) return sum_up(left, right, depth);
        sum_up([=](int m, int64_t k) { return (T)a.at[m * a.row + k * a.column]; },
               [=](int64_t k, int g, int n) { return (T)b.at[k * b.row + g * group + n]; }, depth);
    }
    template <class A, class B>
    __device__ void product(Strided<A> a, Strided<B> b, int64_t depth, int rows = ROWS, int columns = COLUMNS,
                            int64_t group = COLUMNS)
    {
        zero();
        dot(a, b, depth, rows, columns, group);
    }

    template <class F> __device__ void each(F f, int rows = ROWS, int columns = COLUMNS)
    {
        each_of(f, rows, columns, std::make_integer_sequence<int, GROUPS>());
    }
    template <class F> __device__ void fold(Rows &r, F f, int rows = ROWS, int columns = COLUMNS) const
    {
        static_assert(GROUPS == 1, "of one block");
        const int lane = threadIdx.x % 32;
        (void)rows;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            T all = T(0);
            bool any = false; /* a lane may have no column */
#pragma unroll
            for (int j = 0; j < PAIRS * 2; j++) {
                const int n = j / 2 * 8 + lane % 4 * 2 + j % 2;
                if (n >= columns) continue;
                all = any ? f(all, x[i][0][j / 2][j % 2]) : x[i][0][j / 2][j % 2];
                any = true;
            }
#pragma unroll
            for (int d = 1; d < 4; d *= 2) {
                const T other = __shfl_xor_sync(~0u, all, d);
                const bool others = __shfl_xor_sync(~0u, any, d);
                all = !others ? all : any ? f(all, other) : other;
                any = any || others;
            }
            if (any) r.at[i] = f(r.at[i], all);
        }
    }

  private:
    template <class A, class B> __device__ void sum_up(A a, B b, int64_t depth)
    {
        const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
        for (int64_t k = 0; k < depth; k++) {
            T s[OWN];
#pragma unroll
            for (int i = 0; i < OWN; i++) s[i] = a(row + 8 * i, k);
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int j = 0; j < PAIRS * 2; j++) {
                    const T w = b(k, g, j / 2 * 8 + column + j % 2);
#pragma unroll
                    for (int i = 0; i < OWN; i++) x[i][g][j / 2][j % 2] += s[i] * w;
                }
        }
    }
    template <class A, class B> __device__ void sum_up_tf32(A a, B b, int64_t depth)
    {
        const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4;
        for (int64_t k = 0; k < depth; k += 8) {
            float s[OWN / 2][4];
#pragma unroll
            for (int i = 0; i < OWN / 2; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) s[i][e] = a(16 * i + row + 8 * (e % 2), k + column + 4 * (e / 2));
#pragma unroll
            for (int g = 0; g < GROUPS; g++)
#pragma unroll
                for (int j = 0; j < PAIRS; j++) {
                    const float w[2] = {b(k + column, g, j * 8 + row), b(k + column + 4, g, j * 8 + row)};
#pragma unroll
                    for (int i = 0; i < OWN / 2; i++) {
                        float d[4] = {x[2 * i][g][j][0], x[2 * i][g][j][1], x[2 * i + 1][g][j][0], x[2 * i + 1][g][j][1]};
                        mma_tf32(d, s[i], w);
                        x[2 * i][g][j][0] = d[0], x[2 * i][g][j][1] = d[1];
                        x[2 * i + 1][g][j][0] = d[2], x[2 * i + 1][g][j][1] = d[3];
                    }
                }
        }
    }
    template <class F, int... I> __device__ void each_of(F f, int rows, int columns, std::integer_sequence<int, I...>)
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < OWN; i++)
#pragma unroll
            for (int j = 0; j < PAIRS * 2; j++) {
                const int m = lane / 4 + 8 * i, n = j / 2 * 8 + lane % 4 * 2 + j % 2;
                if (m < rows && n < columns) f(m, n, x[i][I][j / 2][j % 2]...);
            }
    }
};
#endif
