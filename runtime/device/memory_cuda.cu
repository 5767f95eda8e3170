/* The GPU's memory: allocations counted and limited, copies on one stream, cuBLAS on the same stream.
 * What the driver itself takes (context, libraries) is measured through NVML around the opening, where NVML is; it is part of the
 * budget. Needs: the CUDA runtime, cuBLAS; NVML is loaded if it is there.  Breaks: nothing. */
#include "memory.h"
#include "ledger.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Device : Ledger {
    int64_t overhead;
    bool poison;
    cudaStream_t stream;
    cublasHandle_t blas;
    void *workspace; /* cuBLAS's own, set once: no allocation during a step */
    void *choices;   /* of algorithms: blas_lt.h */
    char name[256];
};

static const size_t BLAS_WORKSPACE = (size_t)32 << 20;

/* ---- NVML: bytes in use on the whole GPU, known without making a context ---- */
struct NvmlMemory {
    unsigned long long total, free, used;
};
struct Nvml {
    void *library, *gpu;
    int (*memory)(void *, NvmlMemory *);
    int (*shutdown)(void);
};

static void nvml_open(Nvml *nvml)
{
    char bus[32];
    memset(nvml, 0, sizeof *nvml);
    nvml->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) return;
    int (*init)(void) = (int (*)(void))dlsym(nvml->library, "nvmlInit_v2");
    int (*handle)(const char *, void **) = (int (*)(const char *, void **))dlsym(nvml->library, "nvmlDeviceGetHandleByPciBusId_v2");
    nvml->memory = (int (*)(void *, NvmlMemory *))dlsym(nvml->library, "nvmlDeviceGetMemoryInfo");
    nvml->shutdown = (int (*)(void))dlsym(nvml->library, "nvmlShutdown");
    if (!init || !handle || !nvml->memory || init()) {
        nvml->shutdown = NULL;
        return;
    }
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, 0) != cudaSuccess || handle(bus, &nvml->gpu)) nvml->gpu = NULL;
}

static int64_t nvml_used(const Nvml *nvml)
{
    NvmlMemory memory;
    return nvml->gpu && !nvml->memory(nvml->gpu, &memory) ? (int64_t)memory.used : -1;
}

static void nvml_close(Nvml *nvml)
{
    if (nvml->shutdown) nvml->shutdown();
    if (nvml->library) dlclose(nvml->library);
}

/* ---- opening ---- */
static int open_libraries(Device *d)
{
    cudaDeviceProp properties;
    if (cudaSetDevice(0) != cudaSuccess || cudaFree(NULL) != cudaSuccess) return DEVICE_MISSING;
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return DEVICE_MISSING;
    snprintf(d->name, sizeof d->name, "%s", properties.name);
    if (cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking) != cudaSuccess) return DEVICE_MISSING;
    if (cublasCreate(&d->blas) != CUBLAS_STATUS_SUCCESS || cublasSetStream(d->blas, d->stream) != CUBLAS_STATUS_SUCCESS)
        return DEVICE_OUT_OF_MEMORY;
    if (cudaMalloc(&d->workspace, BLAS_WORKSPACE) != cudaSuccess) return DEVICE_OUT_OF_MEMORY;
    return cublasSetWorkspace(d->blas, d->workspace, BLAS_WORKSPACE) == CUBLAS_STATUS_SUCCESS ? DEVICE_OK : DEVICE_OUT_OF_MEMORY;
}

int device_open(Device **device, int64_t limit)
{
    int count = 0;
    *device = NULL;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return DEVICE_MISSING;
    Device *d = (Device *)calloc(1, sizeof(Device));
    if (!d) return DEVICE_OUT_OF_MEMORY;
    Nvml nvml;
    nvml_open(&nvml);
    int64_t before = nvml_used(&nvml);
    int error = open_libraries(d);
    int64_t after = nvml_used(&nvml);
    nvml_close(&nvml);
    if (error) {
        device_close(d);
        return error;
    }
    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    d->overhead = before >= 0 && after >= before ? after - before : (int64_t)(total - free_bytes);
    d->limit = limit;
    d->faults = faults_ordered();
    d->poison = getenv("DISC_POISON") != NULL;
    *device = d;
    return DEVICE_OK;
}

void device_close(Device *device)
{
    if (!device) return;
    for (int i = 0; i < device->n_blocks; i++) cudaFree(device->blocks[i].at);
    if (device->blas) cublasDestroy(device->blas);
    if (device->workspace) cudaFree(device->workspace);
    free(device->choices);
    if (device->stream) cudaStreamDestroy(device->stream);
    free(device->blocks);
    free(device);
}

const char *device_kind(void)
{
    return "cuda";
}

void device_share(Device *, bool) {}

bool device_has_graphs(void)
{
    return true;
}

bool device_has_forms(void)
{
    return true;
}

const char *device_name(const Device *device)
{
    return device->name;
}

int64_t device_free_bytes(const Device *device)
{
    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    return device->limit && device->limit - device->used < (int64_t)free_bytes ? device->limit - device->used : (int64_t)free_bytes;
}

int64_t device_overhead_bytes(const Device *device)
{
    return device->overhead;
}

/* ---- allocations ---- */
int device_allocate(Device *device, size_t bytes, void **at)
{
    *at = NULL;
    if (!ledger_admits(device, bytes)) return DEVICE_OUT_OF_MEMORY;
    void *block = NULL;
    if (cudaMalloc(&block, bytes ? bytes : 256) != cudaSuccess) {
        (void)cudaGetLastError(); /* not sticky: the next call starts clean */
        return DEVICE_OUT_OF_MEMORY;
    }
    if (!ledger_add(device, block, bytes)) {
        cudaFree(block);
        return DEVICE_OUT_OF_MEMORY;
    }
    if (device->poison) cudaMemsetAsync(block, 0xA5, bytes, device->stream);
    *at = block;
    return DEVICE_OK;
}

void device_release(Device *device, void *at)
{
    if (!ledger_remove(device, at)) return;
    cudaStreamSynchronize(device->stream);
    cudaFree(at);
}

int device_take(Device *device, int64_t bytes)
{
    if (!ledger_has_room(device, bytes)) return DEVICE_OUT_OF_MEMORY;
    ledger_count(device, bytes);
    return DEVICE_OK;
}

void device_give(Device *device, int64_t bytes)
{
    device->used -= bytes;
}

int device_allocate_host(Device *, size_t bytes, void **at)
{
    if (cudaHostAlloc(at, bytes ? bytes : 1, cudaHostAllocMapped) == cudaSuccess) return DEVICE_OK;
    cudaGetLastError(); /* told here: no later launch is blamed for it */
    return DEVICE_OUT_OF_MEMORY;
}

void device_release_host(Device *, void *at)
{
    if (at) cudaFreeHost(at);
}

int64_t device_high_water(const Device *device)
{
    return device->high_water;
}
int64_t device_allocations(const Device *device)
{
    return device->allocations;
}

/* ---- copies ---- */
static int begin_copy(Device *device, void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    fault_delay(device->faults.slow_copy_us);
    return !bytes || cudaMemcpyAsync(to, from, bytes, kind, device->stream) == cudaSuccess ? DEVICE_OK : DEVICE_COPY_FAILED;
}

/* Done when it returns, so that the host may reuse its memory. */
static int copy(Device *device, void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    const int error = begin_copy(device, to, from, bytes, kind);
    if (error || !bytes) return error;
    return cudaStreamSynchronize(device->stream) == cudaSuccess ? DEVICE_OK : DEVICE_COPY_FAILED;
}

int device_upload(Device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes, cudaMemcpyHostToDevice);
}
int device_upload_later(Device *device, void *to, const void *from, size_t bytes)
{
    return begin_copy(device, to, from, bytes, cudaMemcpyHostToDevice);
}
int device_download(Device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes, cudaMemcpyDeviceToHost);
}

int device_clear(Device *device, void *at, size_t bytes)
{
    return !bytes || cudaMemsetAsync(at, 0, bytes, device->stream) == cudaSuccess ? DEVICE_OK : DEVICE_COPY_FAILED;
}

int device_finish(Device *device)
{
    cudaError_t launched = cudaGetLastError();
    return cudaStreamSynchronize(device->stream) == cudaSuccess && launched == cudaSuccess ? DEVICE_OK : DEVICE_LAUNCH_FAILED;
}

void *device_stream(Device *device)
{
    return device->stream;
}
int device_launching(Device *device, const char *kernel)
{
    return device ? fault_of_launch(&device->faults, kernel) : DEVICE_OK;
}
DeviceFaults *device_faults(Device *device)
{
    return &device->faults;
}
void *device_blas_workspace(Device *device, int64_t *bytes)
{
    *bytes = device ? (int64_t)BLAS_WORKSPACE : 0;
    return device ? device->workspace : NULL;
}

void **device_blas_choices(Device *device)
{
    return device ? &device->choices : NULL;
}

void *device_blas(Device *device)
{
    return device->blas;
}

const char *device_error_text(int error)
{
    switch (error) {
    case DEVICE_OK: return "no error";
    case DEVICE_OUT_OF_MEMORY: return "out of GPU memory";
    case DEVICE_LAUNCH_FAILED: return "a kernel failed";
    case DEVICE_COPY_FAILED: return "a copy failed";
    case DEVICE_MISSING: return "no GPU can be used";
    default: return "an unknown error";
    }
}
