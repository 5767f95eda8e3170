/* Tensors whose bytes are in another file beside the model.
 * A model may come from anywhere, so its location must stay under the model's folder: no absolute path, no "..", no symbolic link
 * on the way.  The way is walked folder by folder on open descriptors, so that nobody can put a link there in between. Files are
 * mapped once and stay mapped until the program ends. */
#define _POSIX_C_SOURCE 200809L /* openat, mmap, readdir */
#include "onnx/reader.h"
#include "support/diag.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct ExternalFile {
    const uint8_t *bytes; /* NULL where empty or missing */
    size_t size;
    bool missing;
} ExternalFile;

static const char *path_beside(Reader *r, const char *location)
{
    return arena_text(r->arena, "%s/%s", folder_of(r->arena, r->path), location);
}

static noreturn void refuse(Reader *r, Owner owner, const char *location, const char *why)
{
    error_exit("%s: %s: its data should be in \"%s\", %s; wanted: a plain file in the model's folder or below it; export the model "
               "again, or put the file there and save the model with that location",
               r->path, owner_text(r->arena, owner), location, why);
}

static noreturn void missing(Reader *r, Owner owner, const char *location)
{
    error_exit("%s: %s: its data should be in \"%s\", and there is no such file; put the weights' file there, or start from fresh "
               "weights with --init \"normal(0.02)\"",
               r->path, owner_text(r->arena, owner), path_beside(r, location));
}

/* Opens one step of the way: -1 where it does not exist. */
static int open_step(Reader *r, Owner owner, const char *location, int folder, const char *step, bool last)
{
    struct stat status;
    if (fstatat(folder, step, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return -1;
        refuse(r, owner, location, strerror(errno));
    }
    if (S_ISLNK(status.st_mode)) refuse(r, owner, location, "which is or leads through a symbolic link");
    if (last && !S_ISREG(status.st_mode)) refuse(r, owner, location, "which is no regular file");
    if (!last && !S_ISDIR(status.st_mode)) refuse(r, owner, location, "which leads through something that is no folder");
    int fd = openat(folder, step, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
    if (fd < 0) refuse(r, owner, location, strerror(errno));
    return fd;
}

/* The parts of a location, checked: "data/weights.bin" gives "data", "weights.bin". */
static int location_steps(Reader *r, Owner owner, const char *location, const char ***steps)
{
    if (!*location) refuse(r, owner, location, "which is no name");
    if (*location == '/') refuse(r, owner, location, "which is an absolute path");
    VEC(const char *) out = {0};
    for (const char *at = location; *at;) {
        size_t n = strcspn(at, "/");
        const char *step = arena_copy(r->arena, at, n);
        if (strcmp(step, "..") == 0) refuse(r, owner, location, "which leads out of the model's folder by \"..\"");
        if (n && strcmp(step, ".") != 0) vec_push(r->arena, &out, step);
        at += n + (at[n] == '/');
    }
    if (out.n == 0) refuse(r, owner, location, "which is a folder");
    *steps = out.at;
    return out.n;
}

static int open_location(Reader *r, Owner owner, const char *location)
{
    const char **steps;
    int n = location_steps(r, owner, location, &steps);
    int fd = open(folder_of(r->arena, r->path), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    for (int i = 0; i < n && fd >= 0; i++) {
        int next = open_step(r, owner, location, fd, steps[i], i == n - 1);
        close(fd);
        fd = next;
    }
    return fd;
}

static ExternalFile *external_file(Reader *r, Owner owner, const char *location)
{
    ExternalFile *file = map_get(r->files, location);
    if (file) return file;
    file = NEW(r->arena, ExternalFile);
    map_set(r->files, location, file);
    int fd = open_location(r, owner, location);
    file->missing = fd < 0;
    if (file->missing) return file;
    struct stat status;
    if (fstat(fd, &status) != 0) refuse(r, owner, location, strerror(errno));
    file->size = (size_t)status.st_size;
    if (file->size) {
        void *at = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED) refuse(r, owner, location, strerror(errno));
        file->bytes = at;
    }
    close(fd);
    return file;
}

/* A number of bytes in decimal; absent gives -1. */
static int64_t byte_number(Reader *r, Owner owner, const char *key, const char *text)
{
    if (!text) return -1;
    int64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= INT64_MAX / 16; at++) value = value * 10 + (*at - '0');
    if (!*text || *at)
        error_exit("%s: %s: the %s of its external data is \"%s\"; wanted a number of bytes; export the model again", r->path,
                   owner_text(r->arena, owner), key, text);
    return value;
}

static const char *external_value(const Onnx__TensorProto *proto, const char *key)
{
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = proto->external_data[i];
        if (entry->key && strcmp(entry->key, key) == 0) return entry->value ? entry->value : "";
    }
    return NULL;
}

const uint8_t *external_bytes(Reader *r, const Onnx__TensorProto *proto, Owner owner, size_t wanted, const char **location,
                              bool *is_missing)
{
    *location = external_value(proto, "location");
    if (!*location)
        error_exit("%s: %s: its data is said to be in another file, but not in which (no \"location\"); export the model again",
                   r->path, owner_text(r->arena, owner));
    int64_t offset = byte_number(r, owner, "offset", external_value(proto, "offset"));
    int64_t length = byte_number(r, owner, "length", external_value(proto, "length"));
    if (offset < 0) offset = 0;
    if (length >= 0 && (uint64_t)length != wanted)
        error_exit("%s: %s: its shape asks for %zu bytes, and its external data has a length of %lld; export the model again",
                   r->path, owner_text(r->arena, owner), wanted, (long long)length);
    const ExternalFile *file = external_file(r, owner, *location);
    *is_missing = file->missing;
    if (file->missing && r->allow_missing_data) return NULL;
    if (file->missing) missing(r, owner, *location);
    if ((uint64_t)offset > file->size || wanted > file->size - (size_t)offset)
        error_exit(
            "%s: %s: its data should be bytes %lld to %llu of \"%s\", which has %zu; the file is cut short or belongs to another "
            "model",
            r->path, owner_text(r->arena, owner), (long long)offset, (unsigned long long)offset + wanted, path_beside(r, *location),
            file->size);
    return wanted ? file->bytes + offset : NULL;
}
