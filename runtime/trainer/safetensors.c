/* safetensors: 8 bytes of length, a JSON header, the data.  Reads a mapped file, every offset checked; writes header and data in
 * one stream. Needs: cJSON for the header.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "files.h"
#include "json.h"
#include "tensors.h"

static const double MOST_HEADER = 100e6, EXACT = 9007199254740992.0; /* 2^53: what a JSON number can say exactly */

static int broken(const TensorFile *file, const char *what, Fault *fault)
{
    return fault_set(fault, STATUS_USER, "%s: is neither a whole safetensors file nor an npz: %s", file->path, what);
}

static bool whole_number(const cJSON *item, int64_t *out)
{
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > EXACT) return false;
    *out = (int64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

static int read_metadata(TensorFile *file, const cJSON *object, Fault *fault)
{
    if (!cJSON_IsObject(object)) return broken(file, "its metadata is no JSON object", fault);
    if (file->keys) return broken(file, "its metadata stands in it twice", fault);
    size_t n = (size_t)cJSON_GetArraySize(object);
    file->keys = file_own(file, n * sizeof *file->keys);
    file->values = file_own(file, n * sizeof *file->values);
    if (!file->keys || !file->values) return fault_memory(fault);
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        if (!cJSON_IsString(item)) continue;
        file->keys[file->n_metadata] = file_copy_text(file, item->string, strlen(item->string));
        file->values[file->n_metadata] = file_copy_text(file, item->valuestring, strlen(item->valuestring));
        if (!file->keys[file->n_metadata] || !file->values[file->n_metadata]) return fault_memory(fault);
        file->n_metadata++;
    }
    return 0;
}

static int read_shape(const TensorFile *file, FileTensor *tensor, const cJSON *shape, int64_t *count, Fault *fault)
{
    if (!cJSON_IsArray(shape)) return broken(file, "a tensor without a shape", fault);
    tensor->rank = cJSON_GetArraySize(shape);
    if (tensor->rank > MAX_RANK) tensor->unusable = "its rank is above 8";
    *count = 1;
    int i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, shape)
    {
        int64_t dim;
        if (!whole_number(item, &dim) || __builtin_mul_overflow(*count, dim, count))
            return broken(file, "a shape that is none", fault);
        if (i < MAX_RANK) tensor->dims[i] = dim;
        i++;
    }
    return 0;
}

static int read_tensor(TensorFile *file, const cJSON *item, size_t data_at, Fault *fault)
{
    FileTensor *tensor = file_add(file);
    if (!tensor || !(tensor->name = file_copy_text(file, item->string, strlen(item->string)))) return fault_memory(fault);
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype"),
                *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    int64_t count = 0, from, to, room = (int64_t)(file->map_bytes - data_at), bytes;
    int status = read_shape(file, tensor, cJSON_GetObjectItemCaseSensitive(item, "shape"), &count, fault);
    if (status) return status;
    if (!cJSON_IsString(dtype) || cJSON_GetArraySize(offsets) != 2 || !whole_number(cJSON_GetArrayItem(offsets, 0), &from) ||
        !whole_number(cJSON_GetArrayItem(offsets, 1), &to) || from > to)
        return broken(file, "a tensor without dtype or offsets", fault);
    if (to > room)
        return fault_set(fault, STATUS_USER, "%s: cut short: \"%s\" ends at byte %" PRId64 " of the data, the file has %" PRId64,
                         file->path, tensor->name, to, room);
    tensor->dtype = dtype_from_short_name(dtype->valuestring);
    if (tensor->dtype < 0)
        tensor->unusable = "its dtype is not one that training knows";
    else if (__builtin_mul_overflow(count, (int64_t)dtype_bytes(tensor->dtype), &bytes) || bytes != to - from)
        return fault_set(fault, STATUS_USER, "%s: \"%s\": shape and bytes disagree", file->path, tensor->name);
    tensor->bytes = (size_t)(to - from);
    tensor->data = (const char *)file->map + data_at + from;
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const FileTensor *x = a, *y = b;
    const char *from_x = x->data, *from_y = y->data;
    if (from_x != from_y) return from_x < from_y ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The format has no holes and no overlaps: a file with them was damaged, or put together wrongly. */
static int check_places(TensorFile *file, size_t data_at, Fault *fault)
{
    const char *end = (const char *)file->map + data_at;
    if (file->n) qsort(file->tensors, (size_t)file->n, sizeof *file->tensors, by_place);
    for (int i = 0; i < file->n; i++) {
        const FileTensor *t = &file->tensors[i];
        if (t->data != end)
            return fault_set(fault, STATUS_USER,
                             "%s: the file is damaged: \"%s\" should begin at byte %td of the data, and begins at %td", file->path,
                             t->name, end - (const char *)file->map - (ptrdiff_t)data_at,
                             (const char *)t->data - (const char *)file->map - (ptrdiff_t)data_at);
        end += t->bytes;
    }
    const size_t over = file->map_bytes - (size_t)(end - (const char *)file->map);
    if (!over) return 0;
    return fault_set(fault, STATUS_USER, "%s: the file is damaged: %zu bytes at its end belong to no tensor", file->path, over);
}

int safetensors_read(TensorFile *file, Fault *fault)
{
    uint64_t length;
    if (file->map_bytes < 10) return broken(file, "too short", fault);
    memcpy(&length, file->map, 8);
    if ((double)length > MOST_HEADER || length > file->map_bytes - 8)
        return broken(file, "its header would reach past the end", fault);
    cJSON *header = cJSON_ParseWithLength((const char *)file->map + 8, length);
    int status = cJSON_IsObject(header) ? 0 : broken(file, "its header is no JSON object", fault);
    if (!status) {
        const cJSON *item;
        cJSON_ArrayForEach(item, header)
        {
            if (!strcmp(item->string, "__metadata__"))
                status = read_metadata(file, item, fault);
            else
                status = read_tensor(file, item, 8 + (size_t)length, fault);
            if (status) break;
        }
    }
    cJSON_Delete(header);
    return status ? status : check_places(file, 8 + (size_t)length, fault);
}

/* ---- writing ---- */

static int cannot_write(const FileWriter *writer, int error, Fault *fault)
{
    const char *now = error == ENOSPC  ? "; make room and try again"
                      : error == EFBIG ? "; files may not be as large here: see ulimit -f"
                                       : "";
    return fault_set(fault, STATUS_USER, "%s: cannot be written: %s%s", writer->path, strerror(error ? error : EIO), now);
}

int file_writer_open(FileWriter *writer, const char *path, Fault *fault)
{
    struct stat there;
    memset(writer, 0, sizeof *writer);
    size_t length = strlen(path);
    writer->path = malloc(length + 1);
    if (!writer->path) return fault_memory(fault);
    memcpy(writer->path, path, length + 1);
    if (stat(path, &there) || S_ISREG(there.st_mode)) {
        writer->aside = malloc(length + 32);
        if (!writer->aside) return fault_memory(fault);
        snprintf(writer->aside, length + 32, "%s.partial.%ld", path, (long)getpid());
    }
    writer->out = fopen(writer->aside ? writer->aside : path, "wb");
    return writer->out ? 0 : cannot_write(writer, errno, fault);
}

int file_writer_write(FileWriter *writer, const void *data, size_t bytes, Fault *fault)
{
    return fwrite(data, 1, bytes, writer->out) == bytes ? 0 : cannot_write(writer, errno, fault);
}

static void sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash && (size_t)(slash - path) < sizeof folder - 1)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + (slash == path), path);
    int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

int file_writer_commit(FileWriter *writer, Fault *fault)
{
    FILE *out = writer->out;
    bool failed = fflush(out) != 0 || (writer->aside && fsync(fileno(out)));
    int error = errno;
    writer->out = NULL;
    if (fclose(out) && !failed) failed = true, error = errno;
    if (failed) return cannot_write(writer, error, fault);
    if (writer->aside) {
        if (rename(writer->aside, writer->path)) return cannot_write(writer, errno, fault);
        sync_folder_of(writer->path);
        free(writer->aside);
        writer->aside = NULL;
    }
    file_writer_abandon(writer);
    return 0;
}

void file_writer_abandon(FileWriter *writer)
{
    if (writer->out) fclose(writer->out);
    if (writer->aside) unlink(writer->aside);
    free(writer->aside);
    free(writer->path);
    memset(writer, 0, sizeof *writer);
}

static void write_header(FILE *to, const Entry *entries, int n, const char *const *keys, const char *const *values, int n_metadata)
{
    int64_t at = 0;
    fputc('{', to);
    if (n_metadata) fputs("\"__metadata__\":{", to);
    for (int i = 0; i < n_metadata; i++) {
        if (i) fputc(',', to);
        json_string(to, keys[i]);
        fputc(':', to);
        json_string(to, values[i]);
    }
    if (n_metadata) fputs(n ? "}," : "}", to);
    for (int i = 0; i < n; i++) {
        int64_t bytes = count_of(entries[i].rank, entries[i].dims) * (int64_t)dtype_bytes(entries[i].dtype);
        if (i) fputc(',', to);
        json_string(to, entries[i].name);
        fprintf(to, ":{\"dtype\":\"%s\",\"shape\":", dtype_short_name(entries[i].dtype));
        json_shape(to, entries[i].rank, entries[i].dims);
        fprintf(to, ",\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, at + bytes);
        at += bytes;
    }
    fputc('}', to);
}

int safetensors_begin(FileWriter *writer, const Entry *entries, int n, const char *const *keys, const char *const *values,
                      int n_metadata, Fault *fault)
{
    char *header = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&header, &size);
    if (!text) return fault_memory(fault);
    write_header(text, entries, n, keys, values, n_metadata);
    for (long at = ftell(text); at % 8; at++) fputc(' ', text);
    int status = fclose(text) ? fault_memory(fault) : 0;
    uint64_t length = size;
    if (!status) status = file_writer_write(writer, &length, 8, fault);
    if (!status) status = file_writer_write(writer, header, size, fault);
    free(header);
    return status;
}
