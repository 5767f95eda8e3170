/* copies.h on the GPU: one stream out, one back, beside the stream of the launches; events order them.  The host's memory is pinned. */
#include "copies.h"
#include "faults.h"
#include <cuda_runtime.h>
#include <stdlib.h>

struct Copies {
    Device *device;
    cudaStream_t launches, out, back;
    cudaEvent_t *gone, here, arrived; /* gone: by point */
    int n_points;
    char *host;
    int64_t room;
};

static int checked(cudaError_t error)
{
    return error == cudaSuccess ? DEVICE_OK : DEVICE_COPY_FAILED;
}

bool copies_lead_elsewhere(void)
{
    return true;
}

int copies_open(Copies **copies, Device *device, int n_points)
{
    Copies *c = *copies = (Copies *)calloc(1, sizeof(Copies));
    if (!c) return DEVICE_OUT_OF_MEMORY;
    c->device = device;
    c->launches = (cudaStream_t)device_stream(device);
    c->gone = (cudaEvent_t *)calloc((size_t)n_points + 1, sizeof(cudaEvent_t));
    if (!c->gone) return DEVICE_OUT_OF_MEMORY;
    bool right = cudaStreamCreateWithFlags(&c->out, cudaStreamNonBlocking) == cudaSuccess &&
                 cudaStreamCreateWithFlags(&c->back, cudaStreamNonBlocking) == cudaSuccess &&
                 cudaEventCreateWithFlags(&c->here, cudaEventDisableTiming) == cudaSuccess &&
                 cudaEventCreateWithFlags(&c->arrived, cudaEventDisableTiming) == cudaSuccess;
    for (; right && c->n_points < n_points; c->n_points++)
        right = cudaEventCreateWithFlags(&c->gone[c->n_points], cudaEventDisableTiming) == cudaSuccess;
    return right ? DEVICE_OK : DEVICE_OUT_OF_MEMORY;
}

void copies_close(Copies *c)
{
    if (!c) return;
    for (int i = 0; i < c->n_points; i++) cudaEventDestroy(c->gone[i]);
    if (c->arrived) cudaEventDestroy(c->arrived);
    if (c->here) cudaEventDestroy(c->here);
    if (c->back) cudaStreamDestroy(c->back);
    if (c->out) cudaStreamDestroy(c->out);
    if (c->host) cudaFreeHost(c->host);
    free(c->gone);
    free(c);
}

int copies_room(Copies *c, int64_t bytes)
{
    if (bytes <= c->room) return DEVICE_OK;
    if (c->host) cudaFreeHost(c->host);
    c->host = NULL;
    c->room = 0;
    if (fault_is_due(&device_faults(c->device)->fail_host_memory)) return DEVICE_OUT_OF_MEMORY;
    if (cudaMallocHost((void **)&c->host, (size_t)bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* not sticky: the next call starts clean */
        return DEVICE_OUT_OF_MEMORY;
    }
    c->room = bytes;
    return DEVICE_OK;
}

/* What `stream` does from now on comes after what was launched so far. */
static cudaError_t after_launches(Copies *c, cudaStream_t stream)
{
    cudaError_t error = cudaEventRecord(c->here, c->launches);
    return error == cudaSuccess ? cudaStreamWaitEvent(stream, c->here, 0) : error;
}

int copies_out(Copies *c, int point, const void *from, int64_t host_at, int64_t bytes)
{
    cudaError_t error = after_launches(c, c->out);
    if (error == cudaSuccess) error = cudaMemcpyAsync(c->host + host_at, from, (size_t)bytes, cudaMemcpyDeviceToHost, c->out);
    if (error == cudaSuccess) error = cudaEventRecord(c->gone[point], c->out);
    return checked(error);
}

int copies_out_done(Copies *c, int point)
{
    return checked(cudaStreamWaitEvent(c->launches, c->gone[point], 0));
}

int copies_back(Copies *c, void *to, int64_t host_at, int64_t bytes)
{
    cudaError_t error = after_launches(c, c->back); /* which waited for the copy out */
    if (error == cudaSuccess) error = cudaMemcpyAsync(to, c->host + host_at, (size_t)bytes, cudaMemcpyHostToDevice, c->back);
    if (error == cudaSuccess) error = cudaEventRecord(c->arrived, c->back);
    return checked(error);
}

int copies_back_done(Copies *c)
{
    return checked(cudaStreamWaitEvent(c->launches, c->arrived, 0));
}
