/* blas.h on the processor. */
#include "blas.h"
#define bfloat16 cblas_bfloat16 /* OpenBLAS has a type of that name */
#include <cblas.h>
#undef bfloat16
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* An OpenBLAS older than the processor takes it for one of 2004 and runs at a fifth of its speed.  Before the first product it is
 * told what the processor can do, unless the user has said OPENBLAS_CORETYPE.  Other BLAS libraries have none of these functions.
 */
extern "C" {
char *openblas_get_corename(void) __attribute__((weak));
void gotoblas_dynamic_init(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));
}
__attribute__((constructor)) static void choose_core(void)
{
#if defined(__x86_64__)
    if (!openblas_get_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit || getenv("OPENBLAS_CORETYPE")) return;
    __builtin_cpu_init();
    const char *core = __builtin_cpu_supports("avx512bw") ? "SkylakeX" : __builtin_cpu_supports("avx2") ? "Haswell" : NULL;
    if (!core || strcmp(openblas_get_corename(), "Prescott") != 0) return;
    setenv("OPENBLAS_CORETYPE", core, 1);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
#endif
}

static void gemm(bool ta, bool tb, int m, int n, int k, const float *a, const float *b, float *c)
{
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, 1, a, ta ? m : k, b,
                tb ? k : n, 0, c, n);
}
static void gemm(bool ta, bool tb, int m, int n, int k, const double *a, const double *b, double *c)
{
    cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n, k, 1, a, ta ? m : k, b,
                tb ? k : n, 0, c, n);
}

/* A float or double product.  Many small ones run one a thread: inside an OpenMP region the library keeps to one thread. */
template <class T>
static void library_dot(Step *s, T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX) {
        s->error = DEVICE_LAUNCH_FAILED;
        return;
    }
    const double each = (double)m * (double)n * (double)k;
    const bool shared = batch > 1 && each * (double)batch > HOST_GRAIN && (batch >= omp_get_max_threads() || each < 1e6);
#pragma omp parallel for schedule(static) if (shared)
    for (int64_t i = 0; i < batch; i++) gemm(ta, tb, (int)m, (int)n, (int)k, a + i * m * k, b + i * k * n, c + i * m * n);
}

/* Any other type: rows of c in turn, the inner loop along them. */
template <class T>
static void plain_dot(Step *, T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    typedef typename Sum<T>::type S;
    const bool shared = (double)batch * (double)m * (double)n * (double)k > HOST_GRAIN;
#pragma omp parallel for schedule(static) if (shared)
    for (int64_t row = 0; row < batch * m; row++) {
        const int64_t i = row / m, r = row % m;
        const T *ai = a + i * m * k, *bi = b + i * k * n;
        for (int64_t j = 0; j < n; j++) {
            S sum = 0;
            for (int64_t p = 0; p < k; p++) sum = S(sum + S(ai[ta ? p * m + r : r * k + p]) * S(bi[tb ? j * k + p : p * n + j]));
            c[row * n + j] = T(sum);
        }
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
    plain_dot(s, c, a, b, batch, m, n, k, ta, tb);
}

#define DOT(T)                                                                                                                     \
    void dot(Step *s, T *c, const T *a, const T *b, int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b)    \
    {                                                                                                                              \
        if (!launch_wanted(s, elements(batch * m * n))) return;                                                                    \
        if (k == 0)                                                                                                                \
            memset(c, 0, (size_t)(batch * m * n) * sizeof *c);                                                                     \
        else                                                                                                                       \
            dot_of(s, c, a, b, batch, m, n, k, trans_a, trans_b);                                                                  \
    }
DOT_TYPES(DOT)
