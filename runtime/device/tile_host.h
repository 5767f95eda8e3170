/* tile.h on the processor: vectors as wide as the compiler was told the machine has. */
#ifndef DEVICE_TILE_HOST_H
#define DEVICE_TILE_HOST_H
#include <string.h>

#define FOR_TILES(i, n) for (int64_t i = 0; i < (n); i++)

#define FOR_BLOCK_ROWS(row, first, last) for (int64_t row = first; row < (last); row++)
#define FOR_ROW_LANES(j, n) FOR_LANES(j, n)
enum { BLOCK_ROWS = 16, ROW_TILE_BYTES = 256 };
#define ROWS_DOT inline INLINED
/* call(width) with the narrowest of four widths that holds the columns; they are mostly constant, and one call is left. */
template <int COLUMNS, class Call> static inline INLINED void with_width(int columns, Call call)
{
    if (columns <= COLUMNS / 4)
        call(std::integral_constant<int, COLUMNS / 4>());
    else if (columns <= COLUMNS / 2)
        call(std::integral_constant<int, COLUMNS / 2>());
    else if (columns <= COLUMNS * 3 / 4)
        call(std::integral_constant<int, COLUMNS * 3 / 4>());
    else
        call(std::integral_constant<int, COLUMNS>());
}
/* This block's share of n rows, in equal parts. */
struct RowBlocks {
    int64_t from, n, parts, part = 0;
    RowBlocks(int64_t rows)
        : from(block_first(rows)), n(block_last(rows) - block_first(rows)), parts((n + BLOCK_ROWS - 1) / BLOCK_ROWS)
    {
    }
    bool more() const { return part < parts; }
    void next() { part++; }
    int64_t first() const { return from + n * part / parts; }
    int64_t last() const { return from + n * (part + 1) / parts; }
};

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, VECTOR_REGISTERS = 32 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, VECTOR_REGISTERS = 16 };
#else
enum { VECTOR_BYTES = 16, VECTOR_REGISTERS = 16 };
#endif
template <class T> struct Lanes {
    enum { N = VECTOR_BYTES / sizeof(T) };
    typedef T V __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};
/* Rows of a register block V vectors wide: as many as leave room for b's vectors and one of a's elements. */
constexpr int block_rows(int V)
{
    const int most = (VECTOR_REGISTERS - V - 1) / V;
    return most >= 16 ? 16 : most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/* x (R rows of V vectors, x_row elements apart) [+]= a (R, depth) · b (depth, V vectors); b's vectors start at b[v], and its rows
 * are b_row apart. */
template <int R, int V, bool ADD, class T, class A>
static inline INLINED void register_block(T *x, int64_t x_row, const A *__restrict__ a, int64_t a_row, int64_t a_depth,
                                          const T *const *b, int64_t b_row, int64_t depth)
{
    typedef typename Lanes<T>::V Vector;
    constexpr int N = Lanes<T>::N;
    Vector sum[R][V];
    const T *from[V];
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) from[v] = b[v];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 16
        for (int v = 0; v < V; v++) sum[r][v] = ADD ? *(const Vector *)(x + r * x_row + v * N) : Vector{};
    for (int64_t k = 0; k < depth; k++) {
        Vector w[V];
#pragma GCC unroll 16
        for (int v = 0; v < V; v++) w[v] = *(const Vector *)(from[v] + k * b_row);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            const T s = (T)a[r * a_row + k * a_depth];
#pragma GCC unroll 16
            for (int v = 0; v < V; v++) sum[r][v] += s * w[v];
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 16
        for (int v = 0; v < V; v++) *(Vector *)(x + r * x_row + v * N) = sum[r][v];
}

/* The same for any number of rows: blocks of R, then of R / 2, … */
template <int R, int V, bool ADD, class T, class A>
static inline INLINED void register_rows(int64_t rows, T *x, int64_t x_row, const A *a, int64_t a_row, int64_t a_depth,
                                         const T *const *b, int64_t b_row, int64_t depth)
{
    int64_t r = 0;
    for (; r + R <= rows; r += R) register_block<R, V, ADD>(x + r * x_row, x_row, a + r * a_row, a_row, a_depth, b, b_row, depth);
    if constexpr (R > 1)
        if (r < rows) register_rows<R / 2, V, ADD>(rows - r, x + r * x_row, x_row, a + r * a_row, a_row, a_depth, b, b_row, depth);
}

template <class T, int ROWS, int COLUMNS, int GROUPS = 1> struct Tile {
    static constexpr int N = Lanes<T>::N, WIDTH = (COLUMNS + N - 1) / N * N, WHOLE = GROUPS * WIDTH, VECTORS = WHOLE / N,
                         V = VECTORS % 3 == 0   ? 3
                             : VECTORS % 2 == 0 ? 2
                                                : 1,
                         R = block_rows(V) < ROWS ? block_rows(V) : ROWS, DEPTH = 4096 / WHOLE < 8 ? 8 : 4096 / WHOLE;
    alignas(VECTOR_BYTES) T x[ROWS][WHOLE];

    struct Rows {
        T at[ROWS];
        void set(T value)
        {
            for (int m = 0; m < ROWS; m++) at[m] = value;
        }
        INLINED T of(int m) const { return at[m]; }
        INLINED T &of(int m) { return at[m]; }
    };

    INLINED void zero() { memset(x, 0, sizeof x); }

    template <class A, class B>
    INLINED void dot(Strided<A> a, Strided<B> b, int64_t depth, int rows = ROWS, int columns = COLUMNS, int64_t group = COLUMNS)
    {
        multiply<true>(a, b, depth, rows, columns, group);
    }
    template <class A, class B>
    INLINED void product(Strided<A> a, Strided<B> b, int64_t depth, int rows = ROWS, int columns = COLUMNS, int64_t group = COLUMNS)
    {
        multiply<false>(a, b, depth, rows, columns, group);
    }

    /* f(m, n, x0, .. of the groups) */
    template <class F> INLINED void each(F f, int rows = ROWS, int columns = COLUMNS)
    {
        each_of(f, rows, columns, std::make_integer_sequence<int, GROUPS>());
    }
    template <class F> INLINED void fold(Rows &r, F f, int rows = ROWS, int columns = COLUMNS) const
    {
        static_assert(GROUPS == 1, "of one block");
        for (int m = 0; m < rows; m++) {
            T part[N], all = r.at[m];
            int n = 0;
            if (columns >= N)
                for (int l = 0; l < N; l++) part[l] = x[m][l];
            for (n = N; n + N <= columns; n += N)
#pragma omp simd
                for (int l = 0; l < N; l++) part[l] = f(part[l], x[m][n + l]);
            if (columns >= N)
                for (int l = 0; l < N; l++) all = f(all, part[l]);
            for (n = columns >= N ? n : 0; n < columns; n++) all = f(all, x[m][n]);
            r.at[m] = all;
        }
    }

  private:
    template <bool ADD, class A, class B>
    INLINED void multiply(Strided<A> a, Strided<B> b, int64_t depth, int rows, int columns, int64_t group)
    {
        if constexpr (std::is_same<T, B>::value && COLUMNS == WIDTH)
            if (b.column == 1 && columns == COLUMNS) return sum_up<ADD>(a, b.at, b.row, group, depth, rows);
        alignas(VECTOR_BYTES) T panel[DEPTH][WHOLE];
        if (!ADD) zero();
        for (int64_t k = 0; k < depth; k += DEPTH) {
            const int64_t n = depth - k < DEPTH ? depth - k : (int64_t)DEPTH;
            put_panel(&panel[0][0], Strided<B>{b.at + k * b.row, b.row, b.column}, n, columns, group);
            sum_up<true>(Strided<A>{a.at + k * a.column, a.row, a.column}, (const T *)panel, WHOLE, WIDTH, n, rows);
        }
    }
    template <bool ADD, class A>
    INLINED void sum_up(Strided<A> a, const T *b, int64_t b_row, int64_t group, int64_t depth, int rows)
    {
        for (int v = 0; v < VECTORS; v += V) {
            const T *from[V];
#pragma GCC unroll 16
            for (int i = 0; i < V; i++) from[i] = b + (v + i) * N / WIDTH * group + (v + i) * N % WIDTH;
            register_rows<R, V, ADD>(rows, &x[0][v * N], WHOLE, a.at, a.row, a.column, from, b_row, depth);
        }
    }
    template <class B> static void put_panel(T *panel, Strided<B> b, int64_t depth, int columns, int64_t group)
    {
        for (int64_t k = 0; k < depth; k++)
            for (int g = 0; g < GROUPS; g++) {
                T *to = panel + k * WHOLE + g * WIDTH;
                const B *from = b.at + k * b.row + g * group;
                for (int n = 0; n < columns; n++) to[n] = (T)from[n * b.column];
                for (int n = columns; n < WIDTH; n++) to[n] = 0;
            }
    }
    template <class F, int... I> INLINED void each_of(F f, int rows, int columns, std::integer_sequence<int, I...>)
    {
        for (int m = 0; m < rows; m++) {
            T *__restrict__ y = x[m];
#pragma omp simd
            for (int n = 0; n < columns; n++) f(m, n, y[I * WIDTH + n]...);
        }
    }
};
#endif
