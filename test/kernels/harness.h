/* What a cases.cu needs beside its kernels: memory, inputs, comparing.  On the processor and in the simulator memory is plain memory;
 * on a GPU it is memory that both can reach. */
#ifndef HARNESS_H
#define HARNESS_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>
#include "alone.h"
#if defined __CUDACC__ && !defined DEVICE_SIM
#define ON_GPU
#include <cublas_v2.h>
#endif

static std::vector<void *> allocated;
static int failures, compared;

/* Whether a launch whose indices come to n takes the narrow form: as the guard of a program would choose, for NARROW_INDEX at its
 * size; never where the environment says so. */
[[maybe_unused]] static const bool wide_indices = getenv("WIDE_INDICES") != NULL;
static bool reaches(int64_t n)
{
#ifdef __CUDACC__
    const int64_t limit = sizeof(NARROW_INDEX) == 2 ? 15000 : INDEX_LIMIT; /* 16 bits: and a loop's step past the end */
    return !wide_indices && n <= limit;
#else
    return n <= INDEX_LIMIT;
#endif
}

#ifdef ON_GPU
/* Without a device the library's own epilogues are asked for nothing: a place for what was found out is enough. */
extern "C" void *device_blas_workspace(Device *, int64_t *bytes)
{
    *bytes = 0;
    return NULL;
}
extern "C" void **device_blas_choices(Device *)
{
    static void *choices;
    return &choices;
}
#endif

/* What a step has besides dims. */
static void prepare(Step *s)
{
    s->seed = 7;
#ifdef ON_GPU
    if (cublasCreate((cublasHandle_t *)&s->blas) != CUBLAS_STATUS_SUCCESS) s->error = DEVICE_MISSING;
#endif
}

/* After the launches so far. */
static void wait_for(Step *s)
{
#ifdef ON_GPU
    if (cudaDeviceSynchronize() != cudaSuccess) s->error = DEVICE_LAUNCH_FAILED;
#else
    (void)s;
#endif
}

/* Memory that no kernel may count on being anything. */
template <class T> static T *fresh(int64_t n)
{
    const size_t bytes = ((size_t)n * sizeof(T) + 511) / 256 * 256;
#ifdef ON_GPU
    void *at = NULL;
    if (cudaMallocManaged(&at, bytes) != cudaSuccess) exit(3);
#else
    void *at = aligned_alloc(256, bytes);
#endif
    memset(at, 0xff, bytes);
    allocated.push_back(at);
#ifdef DEVICE_SIM
    sim_memory(at, (size_t)n * sizeof(T), "a value");
#endif
    return (T *)at;
}
static void release()
{
#ifdef ON_GPU
    for (void *p : allocated) cudaFree(p);
#else
    for (void *p : allocated) free(p);
#endif
    allocated.clear();
#ifdef DEVICE_SIM
    sim_forget();
#endif
}
static std::vector<double> read_doubles(FILE *data, int64_t n)
{
    std::vector<double> x((size_t)n);
    if (n && fread(x.data(), sizeof(double), (size_t)n, data) != (size_t)n) {
        fprintf(stderr, "cases.bin is too short\n");
        exit(1);
    }
    return x;
}
template <class T> static void fill_from(FILE *data, T *to, int64_t n)
{
    const std::vector<double> x = read_doubles(data, n);
    for (int64_t i = 0; i < n; i++) to[i] = std::is_integral<T>::value ? (T)(int64_t)x[(size_t)i] : (T)(float)x[(size_t)i];
    if constexpr (std::is_same<T, double>::value)
        for (int64_t i = 0; i < n; i++) to[i] = x[(size_t)i];
}
template <class T> static double number_of(T x)
{
    return (double)x;
}
[[maybe_unused]] static double number_of(half x)
{
    return (float)x;
}
[[maybe_unused]] static double number_of(bfloat16 x)
{
    return (float)x;
}

template <class T> static void compare(Step *s, FILE *data, const T *is, int64_t n, const char *name, double tolerance)
{
    const std::vector<double> want = read_doubles(data, n);
    wait_for(s);
    double largest = 0;
    int64_t wrong = 0, first = -1;
    for (double x : want)
        if (x == x && !isinf(x) && fabs(x) > largest) largest = fabs(x);
    if (std::is_integral<T>::value) tolerance = 0;
    if (sizeof(T) == 2 && !std::is_integral<T>::value) tolerance = 1e-2;
    for (int64_t i = 0; i < n; i++) {
        const double a = number_of(is[i]), b = want[(size_t)i];
        const bool same = a == b || (a != a && b != b) || fabs(a - b) <= tolerance * (largest > 1e-3 ? largest : 1e-3);
        if (!same && wrong++ == 0) first = i;
    }
    compared++;
    if (!wrong && !s->error) return;
    failures++;
    if (wrong)
        printf("%s: %lld of %lld differ, first [%lld]: is %.9g, should be %.9g\n", name, (long long)wrong, (long long)n,
               (long long)first, number_of(is[first]), want[(size_t)first]);
    if (s->error) printf("%s: launch error %d\n", name, s->error);
    s->error = 0;
}
static FILE *open_data(int argc, char **argv)
{
    FILE *data = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!data) {
        fprintf(stderr, "usage: cases cases.bin\n");
        exit(2);
    }
    return data;
}
static int report(Step *)
{
    printf("%d results compared, %d wrong\n", compared, failures);
    return failures != 0;
}
#endif
