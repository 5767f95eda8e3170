/* The device's memory when the processor stands in for it: plain memory, counted and limited as a GPU's would be.
 * Needs and breaks nothing. */
#include "memory.h"
#include "available.h"
#include "ledger.h"
#include "threads.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Device : Ledger {
    bool poison;
    char name[64];
};

static const size_t ALIGNMENT = 256;

int device_open(Device **device, int64_t limit)
{
    Device *d = (Device *)calloc(1, sizeof(Device));
    *device = d;
    if (!d) return DEVICE_OUT_OF_MEMORY;
    d->limit = limit;
    d->faults = faults_ordered();
    d->poison = getenv("DISC_POISON") != NULL;
    int threads = threads_most();
    snprintf(d->name, sizeof d->name, "processor, %d thread%s", threads, threads == 1 ? "" : "s");
    return DEVICE_OK;
}

void device_close(Device *device)
{
    if (!device) return;
    for (int i = 0; i < device->n_blocks; i++) free(device->blocks[i].at);
    free(device->blocks);
    free(device);
}

const char *device_kind(void)
{
    return "host";
}

void device_share(Device *, bool shared)
{
    threads_alone(!shared);
}

bool device_has_graphs(void)
{
    return device_has_forms();
}

bool device_has_forms(void)
{
#ifdef DEVICE_SIM
    return true;
#else
    return false;
#endif
}

const char *device_name(const Device *device)
{
    return device->name;
}

int64_t device_free_bytes(const Device *device)
{
    const int64_t free_bytes = available_bytes("");
    return device->limit && device->limit - device->used < free_bytes ? device->limit - device->used : free_bytes;
}

int64_t device_overhead_bytes(const Device *)
{
    return 0;
}

int device_allocate(Device *device, size_t bytes, void **at)
{
    *at = NULL;
    if (!ledger_admits(device, bytes)) return DEVICE_OUT_OF_MEMORY;
    void *block = aligned_alloc(ALIGNMENT, bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT);
    if (!block || !ledger_add(device, block, bytes)) {
        free(block);
        return DEVICE_OUT_OF_MEMORY;
    }
    if (device->poison) memset(block, 0xA5, bytes);
    *at = block;
    return DEVICE_OK;
}

void device_release(Device *device, void *at)
{
    if (!ledger_remove(device, at)) return;
    free(at);
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
    *at = aligned_alloc(ALIGNMENT, bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT);
    return *at ? DEVICE_OK : DEVICE_OUT_OF_MEMORY;
}

void device_release_host(Device *, void *at)
{
    free(at);
}

int64_t device_high_water(const Device *device)
{
    return device->high_water;
}
int64_t device_allocations(const Device *device)
{
    return device->allocations;
}

static int copy(Device *device, void *to, const void *from, size_t bytes)
{
    fault_delay(device->faults.slow_copy_us);
    if (bytes) memcpy(to, from, bytes);
    return DEVICE_OK;
}

int device_upload(Device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes);
}
int device_upload_later(Device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes);
}
int device_download(Device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes);
}

int device_clear(Device *, void *at, size_t bytes)
{
    if (bytes) memset(at, 0, bytes);
    return DEVICE_OK;
}

int device_finish(Device *)
{
    return DEVICE_OK;
}

void *device_stream(Device *device)
{
    return device;
}

int device_launching(Device *device, const char *kernel)
{
    return device ? fault_of_launch(&device->faults, kernel) : DEVICE_OK;
}

DeviceFaults *device_faults(Device *device)
{
    return &device->faults;
}

void *device_blas(Device *)
{
    return NULL;
}

const char *device_error_text(int error)
{
    switch (error) {
    case DEVICE_OK: return "no error";
    case DEVICE_OUT_OF_MEMORY: return "out of memory";
    case DEVICE_LAUNCH_FAILED: return "a kernel failed";
    case DEVICE_COPY_FAILED: return "a copy failed";
    case DEVICE_MISSING: return "there is no device";
    default: return "an unknown error";
    }
}
