/* Whether there is a GPU that this toolkit can use at all: driver, compute capability, a kernel, cuBLAS.  Prints what is there; status 1 and why not. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>

__global__ void doubled(int *x)
{
    *x *= 2;
}

static int failed(const char *what, cudaError_t error)
{
    printf("%s: %s\n", what, cudaGetErrorString(error));
    return 1;
}

int main(void)
{
    cudaDeviceProp gpu;
    cublasHandle_t blas;
    int driver = 0, runtime = 0, *on_device, value = 21;
    size_t available = 0, whole = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver < runtime) printf("the driver is of CUDA %d.%d, this toolkit of %d.%d\n", driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    cudaError_t error = cudaGetDeviceProperties(&gpu, 0);
    if (error) return failed("no GPU", error);
    if ((error = cudaMalloc((void **)&on_device, sizeof value))) return failed("its memory", error);
    cudaMemcpy(on_device, &value, sizeof value, cudaMemcpyHostToDevice);
    doubled<<<1, 1>>>(on_device);
    if ((error = cudaMemcpy(&value, on_device, sizeof value, cudaMemcpyDeviceToHost))) return failed("a kernel", error);
    if (value != 42) return printf("a kernel made %d of 21\n", value), 1;
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS) return puts("cuBLAS cannot be begun"), 1;
    cudaMemGetInfo(&available, &whole);
    printf("%s, sm_%d%d, %d multiprocessors, %.1f of %.1f GiB free, CUDA %d.%d\n", gpu.name, gpu.major, gpu.minor, gpu.multiProcessorCount,
           (double)available / (1 << 30), (double)whole / (1 << 30), runtime / 1000, runtime % 1000 / 10);
    return 0;
}
