/* Matrix products of a step: blas_cuda.cu gives them to cuBLAS, blas_host.cpp to the BLAS (cblas.h; OpenBLAS in its OpenMP build,
 * which keeps to the calling thread where OpenMP says so).  A program links one of the two.
 *
 *     dot(s, c, a, b, batch, m, n, k, trans_a, trans_b)       for each of batch:  c (m, n) = a (m, k) · b (k, n)
 *     dot(…, trans_b, add)                                    where add is true:  c (m, n) += a (m, k) · b (k, n)
 *     dot_add(s, c, a, b, u, batch, m, n, k, trans_a, trans_b)            for each of batch:  c = u + a · b
 *     dot(…, trans_b, EPILOGUE(s, kernel, rows(n, each), 256)(y, c, x, n))       then the kernel on the rows of c (epilogue.h);
 *                                                                         several: one after another
 *
 * EPILOGUE(…)(…).or_library(RELU, y, bias, NULL) says what the first one comes to, so that on CUDA cuBLASLt can do it within the
 * product where it has that for the sizes; else the kernel follows.  The processor makes some rows of c and gives them to the
 * epilogues while they are near.
 *
 * All row-major and dense; with trans_a, a lies as (k, m), with trans_b, b lies as (n, k).  k = 0 gives zeros.
 * float and double go to the library; 16-bit floats are summed as floats and rounded once, or not at all where c is of floats;
 * integers wrap around; a bool is an integer here.
 * Does nothing where s->error stands; leaves the first error in s->error. */
#ifndef DEVICE_BLAS_H
#define DEVICE_BLAS_H
#include <limits.h>
#include <string.h>
#include <type_traits>
#include "epilogue.h"

enum { PLAIN, TRANSPOSED }; /* how an operand lies */

/* Libraries count in ints: larger products are made without them, a result at a time. */
#ifndef LIBRARY_LIMIT
#define LIBRARY_LIMIT INT_MAX
#endif
static inline bool library_counts(int64_t batch, int64_t m, int64_t n, int64_t k)
{
    return batch <= LIBRARY_LIMIT && m <= LIBRARY_LIMIT && n <= LIBRARY_LIMIT && k <= LIBRARY_LIMIT;
}

#define DOT_TYPES(T)                                                                                                               \
    T(float)                                                                                                                       \
    T(double) T(half) T(bfloat16) T(int8_t) T(int16_t) T(int32_t) T(int64_t) T(uint8_t) T(uint16_t) T(uint32_t) T(uint64_t)        \
        T(bool)
#define DOT(T)                                                                                                                     \
    void dot(Step *s, T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,    \
             bool add = false, const Epilogue *epilogue = NULL);
DOT_TYPES(DOT)
#undef DOT
#define SHORT_TYPES(T) T(half) T(bfloat16)
#define DOT(T)                                                                                                                     \
    void dot(Step *s, float *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a,              \
             bool trans_b, bool add = false, const Epilogue *epilogue = NULL);
SHORT_TYPES(DOT)
#undef DOT

/* Products of a batch whose matrices lie `apart` elements from one another: 0 where all have the same one.
 *     for each i of batch:  c + i * apart.c (m, n) = a + i * apart.a (m, k) · b + i * apart.b (k, n);  apart.c 0: c is the sum of all,
 * which 16-bit floats should not be summed in. */
struct Apart {
    int64_t a, b, c;
};
#define DOT_AS(R, T)                                                                                                               \
    void dot_apart(Step *s, R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, \
                   bool trans_b);
#define DOT(T) DOT_AS(T, T)
#define DOT_FLOATS(T) DOT_AS(float, T)
DOT_TYPES(DOT) SHORT_TYPES(DOT_FLOATS)
#undef DOT_AS
#undef DOT
#undef DOT_FLOATS

/* The types that a program multiplies: its Makefile may name fewer, so that less is compiled (-D'USED_TYPES(T)=T(float)'). */
#ifndef USED_TYPES
#define USED_TYPES(T) DOT_TYPES(T)
#define USED_SHORT_TYPES(T) SHORT_TYPES(T)
#endif

/* The type that sums of T are kept in. */
template <class T> struct Sum {
    typedef T type;
};
template <> struct Sum<half> {
    typedef float type;
};
template <> struct Sum<bfloat16> {
    typedef float type;
};

/* Of a product that is made without a library: floats as doubles, as it may be long. */
template <class T> struct LongSum {
    typedef typename Sum<T>::type Factor;
    typedef typename std::conditional<std::is_floating_point<Factor>::value, double, Factor>::type type;
};

template <class T, class A, class... More>
static inline void dot(Step *s, T *c, const A *a, const A *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,
                       const Epilogue &epilogue, const More &...more)
{
    dot(s, c, a, b, batch, m, n, k, trans_a, trans_b, false, linked(epilogue, more...));
}

/* c = u + a · b; c may lie where u lies. */
template <class T, class A>
static inline void dot_add(Step *s, T *c, const A *a, const A *b, const T *u, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a,
                           bool trans_b, const Epilogue *epilogue = NULL)
{
    if (c != u && batch * m * n > 0 && unit_runs(s)) device_copy(s, c, u, batch * m * n * (int64_t)sizeof *c);
    dot(s, c, a, b, batch, m, n, k, trans_a, trans_b, true, epilogue);
}
template <class T, class A, class... More>
static inline void dot_add(Step *s, T *c, const A *a, const A *b, const T *u, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a,
                           bool trans_b, const Epilogue &epilogue, const More &...more)
{
    dot_add(s, c, a, b, u, batch, m, n, k, trans_a, trans_b, linked(epilogue, more...));
}
#endif
