/* blas.h on CUDA.  Row-major products are column-major ones with their operands exchanged: c^T = b^T · a^T. */
#include "blas.h"
#include <cublas_v2.h>
#include <type_traits>
#include "blas_lt.h"

static cublasStatus_t gemm(const Step *s, cublasOperation_t tb, cublasOperation_t ta, int n, int m, int k, const double *b,
                           int ldb, const double *a, int lda, double *c, Apart apart, int batch, bool add)
{
    const double one = 1, kept = add ? 1 : 0;
    return cublasDgemmStridedBatched((cublasHandle_t)s->blas, tb, ta, n, m, k, &one, b, ldb, apart.b, a, lda, apart.a, &kept, c, n, apart.c, batch);
}

/* Floats of 32 or 16 bits, summed as those of 32. */
[[maybe_unused]] static cudaDataType_t type_of(const float *)
{
    return CUDA_R_32F;
}
[[maybe_unused]] static cudaDataType_t type_of(const half *)
{
    return CUDA_R_16F;
}
[[maybe_unused]] static cudaDataType_t type_of(const bfloat16 *)
{
    return CUDA_R_16BF;
}
template <class R, class T>
static cublasStatus_t gemm(const Step *s, cublasOperation_t tb, cublasOperation_t ta, int n, int m, int k, const T *b, int ldb,
                           const T *a, int lda, R *c, Apart apart, int batch, bool add)
{
    const float one = 1, kept = add ? 1 : 0;
    const cublasComputeType_t compute = s->tf32 && sizeof(T) == 4 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    return cublasGemmStridedBatchedEx((cublasHandle_t)s->blas, tb, ta, n, m, k, &one, b, type_of(b), ldb, apart.b, a,
                                      type_of(a), lda, apart.a, &kept, c, type_of(c), n, apart.c, batch, compute, CUBLAS_GEMM_DEFAULT);
}

/* Any type and any size: a thread a result. */
template <class R, class T>
__global__ void plain_dot(R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                          bool add)
{
    typedef typename LongSum<T>::Factor F;
    typedef typename LongSum<T>::type S;
    FOR_EACH(at, batch * m * n)
    {
        const int64_t j = at % n, row = at / n, i = row / m, r = row % m;
        const T *ai = a + i * apart.a, *bi = b + i * apart.b;
        R *const to = c + i * apart.c + r * n + j;
        S sum = add ? S(F(*to)) : S(0);
        for (int64_t p = 0; p < k; p++) sum = S(sum + S(F(ai[ta ? p * m + r : r * k + p])) * S(F(bi[tb ? j * k + p : p * n + j])));
        *to = R(F(sum));
    }
}

template <class R, class T> struct LibraryDot {
    static constexpr bool aside = false;
    R *c;
    const T *a, *b;
    Apart apart;
    int64_t batch, m, n, k;
    int ta, tb, add, tf32; /* tf32: as the step has it; here so that no byte is left out */
    int run(Step *s) const
    {
        const cublasStatus_t status = gemm(s, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n, (int)m, (int)k, b,
                                           (int)(tb ? k : n), a, (int)(ta ? m : k), c, apart, (int)batch, add);
        if (status != CUBLAS_STATUS_SUCCESS) s->error = DEVICE_LAUNCH_FAILED;
        return 0;
    }
};
template <class R, class T>
static void library_dot(Step *s, R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,
                        bool tb, bool add)
{
    if (!library_counts(batch, m, n, k))
        launch_of(s, plain_dot<R, T>, "plain_dot", elements(batch * m * n), 256)(c, a, b, apart, batch, m, n, k, ta, tb, add);
    else
        perform(s, LibraryDot<R, T>{c, a, b, apart, batch, m, n, k, ta, tb, add, s->tf32});
}

static void dot_of(Step *s, float *c, const float *a, const float *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,
                   bool tb, bool add)
{
    library_dot(s, c, a, b, apart, batch, m, n, k, ta, tb, add);
}
[[maybe_unused]] static void dot_of(Step *s, double *c, const double *a, const double *b, Apart apart, int64_t batch, int64_t m,
                                    int64_t n, int64_t k, bool ta, bool tb, bool add)
{
    library_dot(s, c, a, b, apart, batch, m, n, k, ta, tb, add);
}
#define SHORT_AS(R, T)                                                                                                             \
    static void dot_of(Step *s, R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, \
                       bool tb, bool add)                                                                                          \
    {                                                                                                                              \
        library_dot(s, c, a, b, apart, batch, m, n, k, ta, tb, add);                                                                      \
    }
#define SHORT(T) SHORT_AS(T, T) SHORT_AS(float, T)
USED_SHORT_TYPES(SHORT)
template <class T>
static void dot_of(Step *s, T *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                   bool add)
{
    launch_of(s, plain_dot<T, T>, "plain_dot", elements(batch * m * n), 256)(c, a, b, apart, batch, m, n, k, ta, tb, add);
}

[[maybe_unused]] static bool library_epilogue(Step *, const double *, const double *, const double *, int64_t, int64_t, int64_t, bool, bool,
                                              const Epilogue &)
{
    return false;
}
template <class R, class T> struct LibraryEpilogue {
    static constexpr bool aside = false;
    const T *a, *b;
    int64_t m, n, k;
    LibraryForm form;
    int ta, tb;
    int run(Step *s) const
    {
        return lt_dot(s, type_of((const R *)NULL), type_of((const T *)NULL), a, b, m, n, k, ta, tb, form);
    }
};
template <class R, class T>
static bool library_epilogue(Step *s, const R *, const T *a, const T *b, int64_t m, int64_t n, int64_t k, bool ta, bool tb, const Epilogue &e)
{
    if constexpr (std::is_integral<T>::value)
        return false;
    else
        return e.known != OWN_KERNEL && perform(s, LibraryEpilogue<R, T>{a, b, m, n, k, e, ta, tb});
}

template <class R, class T>
static void dot_then(Step *s, R *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool add,
                     const Epilogue *epilogue)
{
    if (launch_wanted(s, elements(batch * m * n), "dot")) {
        if (epilogue && k > 0 && batch == 1 && !add && library_epilogue(s, c, a, b, m, n, k, ta, tb, *epilogue))
            epilogue = epilogue->next;
        else if (k > 0)
            dot_of(s, c, a, b, {m * k, k * n, m * n}, batch, m, n, k, ta, tb, add);
        else if (!add)
            device_zeros(s, c, batch * m * n * (int64_t)sizeof *c);
    }
    for (; epilogue && !s->error; epilogue = epilogue->next) epilogue->run(s, 0, 1);
}

/* A sum is made by one product after another. */
template <class R, class T>
static void dots_apart(Step *s, R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    if (!launch_wanted(s, elements(batch * m * n), "dot_apart")) return;
    if (apart.c != 0) return dot_of(s, c, a, b, apart, batch, m, n, k, ta, tb, false);
    for (int64_t i = 0; i < batch && !s->error; i++) dot_of(s, c, a + i * apart.a, b + i * apart.b, apart, 1, m, n, k, ta, tb, i > 0);
}

#define DOT_AS(R, T)                                                                                                               \
    void dot_apart(Step *s, R *c, const T *a, const T *b, Apart apart, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,    \
                   bool tb)                                                                                                        \
    {                                                                                                                              \
        dots_apart(s, c, a, b, apart, batch, m, n, k, ta, tb);                                                                     \
    }                                                                                                                              \
    void dot(Step *s, R *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,    \
             bool add, const Epilogue *epilogue)                                                                                   \
    {                                                                                                                              \
        dot_then(s, c, a, b, batch, m, n, k, trans_a, trans_b, add, epilogue);                                                     \
    }
#define DOT(T) DOT_AS(T, T)
#define DOT_FLOATS(T) DOT_AS(float, T)
USED_TYPES(DOT)
USED_SHORT_TYPES(DOT_FLOATS)
