/* The device as the trainer sees it: memory, copies, faults.  memory_cuda.cu and memory_host.cpp have the two bodies; a program links one.
 * Nothing here ends the program: functions return 0 or an error, device_error_text says it in words. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
enum { DEVICE_OK = 0, DEVICE_OUT_OF_MEMORY = 1, DEVICE_LAUNCH_FAILED = 2, DEVICE_COPY_FAILED = 3, DEVICE_MISSING = 4 };
typedef struct Device Device;
typedef struct {
    int fail_allocation;       /* the nth allocation from now fails; 0: none */
    int64_t room;              /* from then on the device has that many bytes for this program, in all; 0: as many as it has */
    int fail_host_memory;      /* the nth time that memory of the host's is asked for, for copies, there is none; 0: none */
    int fail_graph;            /* the nth launch of a graph fails; 0: none */
    int fail_launch;           /* the nth launch fails; 0: none */
    int garble_launch;         /* the nth launch leaves garbage; 0: none */
    int poison;                /* that garbage is NaN, of results that are floats */
    int times;                 /* so many launches from that one on; 0: one */
    char kernel[64];           /* counts launches of this kernel alone; empty: of any */
    int launches, garbled;     /* counted so far; the last one is to leave garbage, and whoever sees to it clears this */
    int held;                  /* launches are left alone meanwhile */
    int64_t slow_copy_us;      /* each copy takes this long more */
} DeviceFaults;                /* ordered by tests, through the environment: DISC_FAULT="allocation=3,room=100000,launch=10" */

int device_open(Device **device, int64_t limit);       /* limit in bytes for allocations, 0: what is free */
void device_close(Device *device);
const char *device_kind(void);                         /* as make's DEVICE: "cuda", "host" */
bool device_has_graphs(void);                          /* launches can be kept and launched again as a whole (graph.h); false on the processor */
bool device_has_forms(void);                           /* a launch chooses among forms of its kernel (width of indices, fours); false on the processor */
const char *device_name(const Device *device);         /* "NVIDIA H200", "processor, 2 threads" */
int64_t device_free_bytes(const Device *device);       /* now */
int64_t device_overhead_bytes(const Device *device);   /* context and libraries, measured at open; 0 on the host */
int device_allocate(Device *device, size_t bytes, void **at); /* aligned to 256; contents undefined (host: filled with 0xA5 when DISC_POISON is set) */
void device_release(Device *device, void *at);
/* Memory that the driver takes for this program beside allocations: counted, and within the limit. */
int device_take(Device *device, int64_t bytes);
void device_give(Device *device, int64_t bytes);
int device_allocate_host(Device *device, size_t bytes, void **at); /* memory of the host that kernels can reach, aligned to 256; not counted */
void device_release_host(Device *device, void *at);
int64_t device_high_water(const Device *device);       /* most bytes allocated at once */
int64_t device_allocations(const Device *device);      /* how many so far: none may happen during a step */
int device_upload(Device *device, void *to, const void *from, size_t bytes);
int device_upload_later(Device *device, void *to, const void *from, size_t bytes); /* there when what is launched next runs; `from` stays until device_finish */
int device_download(Device *device, void *to, const void *from, size_t bytes);
int device_clear(Device *device, void *at, size_t bytes);
int device_launching(Device *device, const char *kernel); /* called before each launch: 0, or DEVICE_LAUNCH_FAILED where a test ordered it (fail_launch); device may be NULL */
DeviceFaults *device_faults(Device *device);
void device_share(Device *device, bool shared);         /* whether what is launched from now on is shared out among the processor's threads */
int device_finish(Device *device);                     /* waits; reports errors of launches */
void *device_stream(Device *device);
void *device_blas(Device *device);                     /* cublasHandle_t, NULL on the host */
/* On CUDA alone: memory for one product of the BLAS at a time, part of device_overhead_bytes; where blas_lt.h keeps what it has found out
 * (a pointer, freed at the end; NULL without a device). */
void *device_blas_workspace(Device *device, int64_t *bytes);
void **device_blas_choices(Device *device);
const char *device_error_text(int error);
#ifdef __cplusplus
}
#endif
#endif
