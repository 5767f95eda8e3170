/* rates.h on the GPU: a product of cuBLAS, a copy within the device, a copy from pinned memory; each once to warm up, then timed. */
#include "rates.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>

enum { TIMES = 8 };

struct Timer {
    cudaStream_t stream;
    cudaEvent_t begin, end;
};

static double seconds_since(Timer *t)
{
    float milliseconds = 0;
    cudaEventRecord(t->end, t->stream);
    if (cudaEventSynchronize(t->end) != cudaSuccess || cudaEventElapsedTime(&milliseconds, t->begin, t->end) != cudaSuccess) return 0;
    return milliseconds * 1e-3;
}

static double per_second(double amount, double seconds)
{
    return seconds > 0 ? amount * TIMES / seconds : 0;
}

static int measure(Device *device, Timer *t, float *a, float *b, size_t bytes, void *host, MeasuredRates *rates)
{
    cublasHandle_t blas = (cublasHandle_t)device_blas(device);
    const float one = 1, zero = 0;
    int n = 256;
    while ((size_t)(2 * n) * (size_t)(2 * n) * 2 * sizeof(float) <= bytes) n *= 2;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i <= TIMES && status == CUBLAS_STATUS_SUCCESS; i++) {
        if (i == 1) cudaEventRecord(t->begin, t->stream);
        status = cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, a + (size_t)n * n, n, &zero, b, n);
    }
    rates->flops = per_second(2.0 * n * n * n, seconds_since(t));
    cudaError_t error = cudaSuccess;
    for (int i = 0; i <= TIMES && error == cudaSuccess; i++) {
        if (i == 1) cudaEventRecord(t->begin, t->stream);
        error = cudaMemcpyAsync(a, b, bytes, cudaMemcpyDeviceToDevice, t->stream);
    }
    rates->moved = per_second(2.0 * (double)bytes, seconds_since(t));
    for (int i = 0; i <= TIMES && error == cudaSuccess; i++) {
        if (i == 1) cudaEventRecord(t->begin, t->stream);
        error = cudaMemcpyAsync(host, a, bytes, cudaMemcpyDeviceToHost, t->stream);
    }
    rates->copied = per_second((double)bytes, seconds_since(t));
    return status == CUBLAS_STATUS_SUCCESS && error == cudaSuccess ? DEVICE_OK : DEVICE_COPY_FAILED;
}

int device_rates(Device *device, MeasuredRates *rates)
{
    size_t bytes;
    Timer t = {(cudaStream_t)device_stream(device), NULL, NULL};
    void *a, *b, *host = NULL;
    int error = rates_blocks(device, (size_t)1 << 20, &a, &b, &bytes);
    if (!error && cudaMallocHost(&host, bytes) != cudaSuccess) error = DEVICE_OUT_OF_MEMORY;
    if (!error && (cudaEventCreate(&t.begin) != cudaSuccess || cudaEventCreate(&t.end) != cudaSuccess)) error = DEVICE_OUT_OF_MEMORY;
    if (!error) error = device_clear(device, a, bytes);
    if (!error) error = measure(device, &t, (float *)a, (float *)b, bytes, host, rates);
    if (t.begin) cudaEventDestroy(t.begin);
    if (t.end) cudaEventDestroy(t.end);
    if (host) cudaFreeHost(host);
    device_release(device, a);
    device_release(device, b);
    return error;
}
