/* blas.h on CUDA.  Row-major products are column-major ones with their operands exchanged: c^T = b^T · a^T. */
#include "blas.h"
#include <cublas_v2.h>
#include <limits.h>

static cublasStatus_t gemm(cublasHandle_t blas, cublasOperation_t tb, cublasOperation_t ta, int n, int m, int k, const float *b,
                           int ldb, const float *a, int lda, float *c, int batch)
{
    const float one = 1, zero = 0;
    return cublasSgemmStridedBatched(blas, tb, ta, n, m, k, &one, b, ldb, (long long)k * n, a, lda, (long long)m * k, &zero, c, n,
                                     (long long)m * n, batch);
}
static cublasStatus_t gemm(cublasHandle_t blas, cublasOperation_t tb, cublasOperation_t ta, int n, int m, int k, const double *b,
                           int ldb, const double *a, int lda, double *c, int batch)
{
    const double one = 1, zero = 0;
    return cublasDgemmStridedBatched(blas, tb, ta, n, m, k, &one, b, ldb, (long long)k * n, a, lda, (long long)m * k, &zero, c, n,
                                     (long long)m * n, batch);
}

template <class T>
static void library_dot(Step *s, T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    if (batch > INT_MAX || m > INT_MAX || n > INT_MAX || k > INT_MAX) {
        s->error = DEVICE_LAUNCH_FAILED;
        return;
    }
    const cublasStatus_t status = gemm((cublasHandle_t)s->blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N,
                                       (int)n, (int)m, (int)k, b, (int)(tb ? k : n), a, (int)(ta ? m : k), c, (int)batch);
    if (status != CUBLAS_STATUS_SUCCESS) s->error = DEVICE_LAUNCH_FAILED;
}

/* Any other type: a thread a result. */
template <class T>
__global__ void plain_dot(T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    typedef typename Sum<T>::type S;
    FOR_EACH(at, batch * m * n)
    {
        const int64_t j = at % n, row = at / n, i = row / m, r = row % m;
        const T *ai = a + i * m * k, *bi = b + i * k * n;
        S sum = 0;
        for (int64_t p = 0; p < k; p++) sum = S(sum + S(ai[ta ? p * m + r : r * k + p]) * S(bi[tb ? j * k + p : p * n + j]));
        c[at] = T(sum);
    }
}

static void dot_of(Step *s, float *c, const float *a, const float *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,
                   bool tb)
{
    library_dot(s, c, a, b, batch, m, n, k, ta, tb);
}
static void dot_of(Step *s, double *c, const double *a, const double *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,
                   bool tb)
{
    library_dot(s, c, a, b, batch, m, n, k, ta, tb);
}
template <class T>
static void dot_of(Step *s, T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    LAUNCH(s, plain_dot<T>, elements(batch * m * n), 256)(c, a, b, batch, m, n, k, ta, tb);
}

#define DOT(T)                                                                                                                     \
    void dot(Step *s, T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b)    \
    {                                                                                                                              \
        if (!launch_wanted(s, elements(batch * m * n))) return;                                                                    \
        if (k == 0) {                                                                                                              \
            if (cudaMemsetAsync(c, 0, (size_t)(batch * m * n) * sizeof *c, (cudaStream_t)s->stream) != cudaSuccess)                \
                s->error = DEVICE_LAUNCH_FAILED;                                                                                   \
        } else {                                                                                                                   \
            dot_of(s, c, a, b, batch, m, n, k, trans_a, trans_b);                                                                  \
        }                                                                                                                          \
    }
DOT_TYPES(DOT)
