/* step FILE.safetensors: runs the ready batches of the file twice through the program that this is linked with.
 * The second time nothing may be allocated, neither on the device nor on the host; the device's high-water mark must be the largest
 * peak_bytes, to the byte.  Linked with a generated program's objects but main.o; malloc and its kin are defined here to be
 * counted. */
#define _GNU_SOURCE
#include "runtime/trainer/data.h"
#include "runtime/trainer/session.h"
#include "model.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
static atomic_long allocations;
static atomic_bool watching;

/* OpenBLAS's tables of its jobs are its own: small, and freed at once. */
static void count_from(void *caller)
{
    Dl_info from;
    if (!watching) return;
    if (dladdr(caller, &from) && from.dli_fname && strstr(from.dli_fname, "openblas"))
        return;
    allocations++;
}
#define count() count_from(__builtin_return_address(0))

void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}
void *realloc(void *old, size_t bytes)
{
    count();
    return __libc_realloc(old, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}
void *memalign(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **at, size_t alignment, size_t bytes)
{
    count();
    *at = __libc_memalign(alignment, bytes);
    return *at ? 0 : ENOMEM;
}

static void need(int status, const Fault *fault)
{
    if (!status) return;
    fprintf(stderr, "step: %s\n", fault->text);
    exit(1);
}

int main(int n, char **arguments)
{
    static Fault fault;
    Session *session;
    Data data;
    Batch batch;
    StepResult result;
    const SessionOptions options = {.training = true, .seed = 1};
    const DataOptions from = {.path = n > 1 ? arguments[1] : "", .ready = true};
    need(data_open(&data, &model, model.train, &from, &fault), &fault);
    need(session_open(&session, &model, &options, &fault), &fault);
    need(session_load_weights(session, n > 2 ? arguments[2] : NULL, true, &fault), &fault);
    need(batch_create(&batch, &model), &fault);
    int64_t largest = 0, before = 0;
    for (int64_t k = 0; k < 2 * data.n_batches; k++) {
        if (k == data.n_batches) before = device_allocations(session->device);
        need(data_batch(&data, k, &batch, &fault), &fault);
        watching = k >= data.n_batches;
        const int status = session_run(session, model.train, &batch, &result, &fault);
        watching = false;
        need(status, &fault);
        if (result.peak_bytes > largest) largest = result.peak_bytes;
    }
    const int64_t mark = device_high_water(session->device), device = device_allocations(session->device) - before;
    printf("high-water mark %lld, largest peak_bytes %lld; allocations in a step: %lld on the device, %ld on the host\n",
           (long long)mark, (long long)largest, (long long)device, allocations);
    const int wrong = mark != largest || mark != session->peak_bytes || device || allocations;
    batch_destroy(&batch);
    session_close(session);
    data_close(&data);
    return wrong;
}
