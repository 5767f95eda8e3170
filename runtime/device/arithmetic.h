/* What kernels compute with beside C's own operators and <math.h>: one definition for both devices.
 * T is float, double or an integer type; 16-bit floats are computed as float. */
#ifndef DEVICE_ARITHMETIC_H
#define DEVICE_ARITHMETIC_H
#include <string.h>
#include <limits>
#include <type_traits>

/* The values of a type, as members: nvcc lets device code read those, but not call numeric_limits. */
template <class T> struct Limits {
    typedef std::numeric_limits<T> L;
    static constexpr T min = L::min(), max = L::max();
    static constexpr T lowest = L::has_infinity ? T(-L::infinity()) : L::min(),
                       highest = L::has_infinity ? L::infinity() : L::max();
};

/* ---- strips of columns (device.h) ---- */
template <class N> DEVICE N strips(N n)
{
    return (n + STRIP - 1) / STRIP;
}
template <class N, class Index> DEVICE Index strip_width(N n, Index column)
{
    return n - column < STRIP ? Index(n - column) : Index(STRIP);
}

/* ---- parts of a sum: where part p of n elements begins ---- */
DEVICE int64_t part_first(int64_t n, int64_t p, int64_t parts)
{
    return n * p / parts;
}

/* ---- elements ---- */
template <class To, class From> DEVICE To bit_cast(From a) /* the same bits */
{
    static_assert(sizeof(To) == sizeof(From), "types of one width");
    To to;
    memcpy(&to, &a, sizeof to);
    return to;
}
/* A bool in memory.  Read as the byte that it is, a loop over many becomes one over vectors; read as a bool it would not. */
DEVICE bool is_true(const bool &a)
{
    return *(const unsigned char *)&a != 0;
}
template <class T> DEVICE bool is_negative(T a)
{
    if constexpr (std::is_signed<T>::value)
        return a < 0;
    else
        return false;
}
template <class T> DEVICE T absolute(T a)
{
    return is_negative(a) ? T(-a) : a;
}
DEVICE float absolute(float a)
{
    return fabsf(a);
}
DEVICE double absolute(double a)
{
    return fabs(a);
}
template <class T> DEVICE T sign(T a)
{
    return a > 0 ? T(1) : is_negative(a) ? T(-1) : a;
} /* of NaN: NaN */
template <class T> DEVICE T relu(T a)
{
    return is_negative(a) ? T(0) : a;
} /* of NaN: NaN */
template <class T> DEVICE bool is_nan(T a)
{
    return std::is_floating_point<T>::value && !(a == a);
}

/* NaN wins, as in ONNX and PyTorch; fmax would drop it. */
template <class T> DEVICE T maximum(T a, T b)
{
    return a > b || is_nan(a) ? a : b;
}
template <class T> DEVICE T minimum(T a, T b)
{
    return a < b || is_nan(a) ? a : b;
}

/* Integers: towards zero.  Dividing by 0 gives 0: the processor would stop the program, the GPU would not. */
template <class T> DEVICE T quotient(T a, T b)
{
    return b == 0 ? T(0) : b == T(-1) ? T(0 - a) : T(a / b);
}
template <class T> DEVICE T truncated_rem(T a, T b)
{
    return b == 0 || b == T(-1) ? T(0) : T(a % b);
} /* sign of a */
DEVICE float truncated_rem(float a, float b)
{
    return fmodf(a, b);
}
DEVICE double truncated_rem(double a, double b)
{
    return fmod(a, b);
}
template <class T> DEVICE T modulo(T a, T b) /* sign of b */
{
    const T r = truncated_rem(a, b);
    return r != 0 && is_negative(r) != is_negative(b) ? T(r + b) : r;
}

/* Integers by squaring; a negative exponent gives 0 but for bases 1 and -1. */
template <class T> DEVICE T power(T a, T b)
{
    if (is_negative(b)) return a == 1 ? T(1) : a == T(-1) ? T(b % 2 ? -1 : 1) : T(0);
    typedef typename std::make_unsigned<T>::type Unsigned;
    unsigned long long result = 1, square = (unsigned long long)a;
    for (Unsigned n = (Unsigned)b; n; n = Unsigned(n >> 1)) {
        if (n & 1) result *= square;
        square *= square;
    }
    return (T)result;
}
DEVICE float power(float a, float b)
{
    return powf(a, b);
}
DEVICE double power(double a, double b)
{
    return pow(a, b);
}
DEVICE float square(float a)
{
    return a * a;
}
DEVICE double square(double a)
{
    return a * a;
}

/* Shifts by the type's width or more give 0; C leaves them undefined. */
template <class T> DEVICE T shift_left(T a, T n)
{
    return (uint64_t)n >= 8 * sizeof(T) ? T(0) : T((uint64_t)a << n);
}
template <class T> DEVICE T shift_right(T a, T n)
{
    return (uint64_t)n >= 8 * sizeof(T) ? T(is_negative(a) ? -1 : 0) : T(a >> n);
}

/* To another type.  A float becomes an integer towards zero, within the integer's range, NaN 0; an integer wraps around. */
template <class R, class T> DEVICE R cast(T a)
{
    if constexpr (std::is_same<R, bool>::value) {
        return a != T(0);
    } else if constexpr (std::is_floating_point<T>::value && std::is_integral<R>::value) {
        constexpr R low = Limits<R>::min, high = Limits<R>::max;
        return a >= (T)high ? high : a > (T)low ? (R)a : is_nan(a) ? R(0) : low; /* (T)high may have been rounded up: hence >= */
    } else {
        return (R)a;
    }
}

/* ---- reductions of a block's threads ---- */
template <class T> __device__ T block_sum(T x)
{
    return block_reduce(x, T(0), [](T a, T b) { return T(a + b); });
}
template <class T> __device__ T block_prod(T x)
{
    return block_reduce(x, T(1), [](T a, T b) { return T(a * b); });
}
template <class T> __device__ T block_max(T x)
{
    return block_reduce(x, x, [](T a, T b) { return maximum(a, b); });
}
template <class T> __device__ T block_min(T x)
{
    return block_reduce(x, x, [](T a, T b) { return minimum(a, b); });
}

/* What a reduction starts from. */
template <class T> DEVICE T lowest()
{
    return Limits<T>::lowest;
}
template <class T> DEVICE T highest()
{
    return Limits<T>::highest;
}

#ifndef __CUDACC__ /* REDUCES(max, x) would lose a NaN where the lanes of a vector meet */
#pragma omp declare reduction(maximum                                                                                              \
                              : float, double, int64_t, uint64_t, int                                                              \
                              : omp_out = maximum(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#pragma omp declare reduction(minimum                                                                                              \
                              : float, double, int64_t, uint64_t, int                                                              \
                              : omp_out = minimum(omp_out, omp_in)) initializer(omp_priv = omp_orig)
#endif

/* ---- arg max and min: a candidate and where it stands ---- */
template <class T> struct Best {
    T value;
    int64_t at; /* -1: none yet */
};
/* Whether b beats a.  NaN beats all; of equal ones the first wins, or the last. */
template <bool HIGHEST, bool LAST, class T> DEVICE bool beats(Best<T> b, Best<T> a)
{
    if (b.at < 0 || a.at < 0) return a.at < 0 && b.at >= 0;
    if (is_nan(a.value) || is_nan(b.value) ? is_nan(a.value) != is_nan(b.value) : a.value != b.value)
        return is_nan(b.value) || (!is_nan(a.value) && (HIGHEST ? b.value > a.value : b.value < a.value));
    return LAST ? b.at > a.at : b.at < a.at;
}
#ifdef __CUDACC__
template <bool HIGHEST, bool LAST, class T> __device__ Best<T> block_best(Best<T> x)
{
    __shared__ Best<T> part[1024];
    part[threadIdx.x] = x;
    for (unsigned n = blockDim.x, half_n = (n + 1) / 2; n > 1; n = half_n, half_n = (n + 1) / 2) {
        __syncthreads();
        if (threadIdx.x + half_n < n && beats<HIGHEST, LAST>(part[threadIdx.x + half_n], part[threadIdx.x]))
            part[threadIdx.x] = part[threadIdx.x + half_n];
    }
    __syncthreads();
    x = part[0];
    __syncthreads();
    return x;
}
#else
template <bool HIGHEST, bool LAST, class T> static inline Best<T> block_best(Best<T> x)
{
    return x;
}
#endif
#endif
