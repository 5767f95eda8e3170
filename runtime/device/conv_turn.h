/* Part of conv_last.h and conv_rows.h: blocks of a matrix turned in registers. */
#ifndef DEVICE_CONV_TURN_H
#define DEVICE_CONV_TURN_H
#include "tile.h"

/* Two vectors of N lanes as rows of a matrix of 2 × 2 blocks of S × S: its blocks off the diagonal swap. */
template <int S, class T> static inline void swap_blocks(typename Lanes<T>::V &a, typename Lanes<T>::V &b)
{
    constexpr int N = Lanes<T>::N;
    typedef typename Lanes<T>::V V;
    typedef decltype(a < b) Mask;
    Mask low, high;
    for (int i = 0; i < N; i++) {
        low[i] = i & S ? N + i - S : i;
        high[i] = i & S ? N + i : i + S;
    }
    const V x = __builtin_shuffle(a, b, low), y = __builtin_shuffle(a, b, high);
    a = x;
    b = y;
}
template <int S, class T> static inline void swap_all(typename Lanes<T>::V *v)
{
    for (int i = 0; i < Lanes<T>::N; i++)
        if (!(i & S)) swap_blocks<S, T>(v[i], v[i | S]);
}

/* Of `rows` rows of `from` (N at most, zeros in place of missing ones) the first N columns: column i to `to + at[i]`, the first `count`
 * of them. */
template <class T, class Offset>
static inline void turn_block(T *to, const Offset *at, int64_t count, const T *from, int64_t row, int64_t rows = Lanes<T>::N)
{
    constexpr int N = Lanes<T>::N;
#ifdef __AVX512F__
    typename Lanes<T>::V v[N];
#pragma GCC unroll 16
    for (int i = 0; i < N; i++)
        v[i] = i < rows ? *(const typename Lanes<T>::V *)(from + i * row) : typename Lanes<T>::V{};
    swap_all<1, T>(v);
    swap_all<2, T>(v);
    swap_all<4, T>(v);
    if (N == 16) swap_all<N / 2, T>(v);
    if (count == N) {
#pragma GCC unroll 16
        for (int i = 0; i < N; i++) *(typename Lanes<T>::V *)(to + at[i]) = v[i];
    } else
        for (int i = 0; i < count; i++) *(typename Lanes<T>::V *)(to + at[i]) = v[i];
#else
    for (int i = 0; i < count; i++)
        for (int j = 0; j < N; j++) to[at[i] + j] = j < rows ? from[j * row + i] : T(0);
#endif
}
#endif
