/* Opens a file of tensors by its content and looks names up in it.  Needs: the readers of each kind.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tensors.h"

void *file_own(TensorFile *file, size_t bytes)
{
    if (file->n_owned == file->owned_capacity) {
        int capacity = file->owned_capacity ? 2 * file->owned_capacity : 16;
        void **owned = realloc(file->owned, (size_t)capacity * sizeof *owned);
        if (!owned) return NULL;
        file->owned = owned;
        file->owned_capacity = capacity;
    }
    void *block = malloc(bytes ? bytes : 1);
    if (block) file->owned[file->n_owned++] = block;
    return block;
}

char *file_copy_text(TensorFile *file, const char *text, size_t length)
{
    char *copy = file_own(file, length + 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

FileTensor *file_add(TensorFile *file)
{
    if (file->n == file->capacity) {
        int capacity = file->capacity ? 2 * file->capacity : 64;
        FileTensor *tensors = realloc(file->tensors, (size_t)capacity * sizeof *tensors);
        if (!tensors) return NULL;
        file->tensors = tensors;
        file->capacity = capacity;
    }
    FileTensor *tensor = &file->tensors[file->n++];
    memset(tensor, 0, sizeof *tensor);
    tensor->path = file->path;
    return tensor;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const FileTensor *)a)->name, ((const FileTensor *)b)->name);
}

int file_finish(TensorFile *file, Fault *fault)
{
    if (file->n) qsort(file->tensors, (size_t)file->n, sizeof *file->tensors, by_name);
    for (int i = 1; i < file->n; i++)
        if (!by_name(&file->tensors[i - 1], &file->tensors[i]))
            return fault_set(fault, STATUS_USER, "%s: \"%s\" stands in it twice", file->path, file->tensors[i].name);
    return 0;
}

/* O_NONBLOCK: a pipe that nobody writes into is no file either, and is not waited for. */
static int open_file(const char *path, int *descriptor, size_t *bytes, Fault *fault)
{
    struct stat status;
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0) return fault_set(fault, STATUS_USER, "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(*descriptor, &status) || !S_ISREG(status.st_mode)) {
        close(*descriptor);
        return fault_set(fault, STATUS_USER, "%s: is not a file", path);
    }
    *bytes = (size_t)status.st_size;
    return 0;
}

int file_open(FILE **out, const char *path, Fault *fault)
{
    int descriptor;
    size_t bytes;
    int status = open_file(path, &descriptor, &bytes, fault);
    if (status) return status;
    *out = fdopen(descriptor, "rb");
    if (*out) return 0;
    close(descriptor);
    return fault_memory(fault);
}

int file_map(TensorFile *file, const char *path, Fault *fault)
{
    int descriptor;
    int status = open_file(path, &descriptor, &file->map_bytes, fault);
    if (status) return status;
    void *map = file->map_bytes ? mmap(NULL, file->map_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0) : NULL;
    if (!map || map == MAP_FAILED) close(descriptor);
    if (map == MAP_FAILED) return fault_set(fault, STATUS_USER, "%s: cannot be mapped: %s", path, strerror(errno));
    file->map = map;
    file->mapped = descriptor;
    return 0;
}

void file_unmap(TensorFile *file)
{
    if (!file->map) return;
    munmap(file->map, file->map_bytes);
    close(file->mapped);
    file->map = NULL;
}

/* What another program took off a mapped file's end is a bus error to read. */
static bool is_shorter(const TensorFile *file)
{
    struct stat now;
    return file->map && !fstat(file->mapped, &now) && (size_t)now.st_size < file->map_bytes;
}

/* "a=x.npy,b=y.npy" */
static int read_list(TensorFile *file, const char *list, Fault *fault)
{
    for (const char *part = list; *part;) {
        size_t length = strcspn(part, ",");
        const char *equals = memchr(part, '=', length);
        if (!equals || equals == part || equals + 1 == part + length)
            return fault_set(fault, STATUS_USER, "\"%.*s\": wanted name=FILE.npy", (int)length, part);
        char *name = file_copy_text(file, part, (size_t)(equals - part));
        char *path = file_copy_text(file, equals + 1, length - (size_t)(equals + 1 - part));
        if (!name || !path) return fault_memory(fault);
        int status = npy_read(file, name, path, fault);
        if (status) return status;
        part += length + (part[length] == ',');
    }
    return 0;
}

static int read_by_content(TensorFile *file, Fault *fault)
{
    struct stat there;
    if (stat(file->path, &there) && strchr(file->path, '=')) return read_list(file, file->path, fault);
    int status = file_map(file, file->path, fault);
    if (status) return status;
    const char *bytes = file->map;
    if (file->map_bytes >= 4 && !memcmp(bytes, "PK\3\4", 4)) return npz_read(file, fault);
    if (file->map_bytes >= 6 && !memcmp(bytes, "\x93NUMPY", 6))
        return fault_set(fault, STATUS_USER, "%s: a .npy file holds one array without a name: write name=%s", file->path,
                         file->path);
    return safetensors_read(file, fault);
}

int tensor_file_open(TensorFile *file, const char *path, Fault *fault)
{
    memset(file, 0, sizeof *file);
    file->path = file_copy_text(file, path, strlen(path));
    int status = file->path ? read_by_content(file, fault) : fault_memory(fault);
    if (!status) status = file_finish(file, fault);
    if (status) tensor_file_close(file);
    return status;
}

void tensor_file_close(TensorFile *file)
{
    if (file->archive) npz_close(file);
    file_unmap(file);
    for (int i = 0; i < file->n_owned; i++) free(file->owned[i]);
    free(file->owned);
    free(file->tensors);
    memset(file, 0, sizeof *file);
}

FileTensor *tensor_find(const TensorFile *file, const char *name)
{
    FileTensor wanted = {.name = name};
    return file->n ? bsearch(&wanted, file->tensors, (size_t)file->n, sizeof wanted, by_name) : NULL;
}

const char *tensor_metadata(const TensorFile *file, const char *key)
{
    for (int i = 0; i < file->n_metadata; i++)
        if (!strcmp(file->keys[i], key)) return file->values[i];
    return NULL;
}

int tensor_data(TensorFile *file, FileTensor *tensor, Fault *fault)
{
    if (tensor->unusable)
        return fault_set(fault, STATUS_USER, "%s: \"%s\" cannot be used: %s", tensor->path, tensor->name, tensor->unusable);
    if (is_shorter(file))
        return fault_set(fault, STATUS_USER, "%s: was cut short while it was in use; to replace a file, write another one and rename it", file->path);
    if (!tensor->data && file->archive) return npz_load(file, tensor, fault);
    return 0;
}
