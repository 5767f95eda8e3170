/* npz and npy, as numpy writes them: a header in Python's syntax, then the elements.  Data of an archive is inflated when asked
 * for. Needs: libzip.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include "files.h"
#include "tensors.h"

enum { MOST_HEADER = 65536 };

/* Finds 'key': in the header's dictionary; returns what follows the colon, or NULL. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    while (*at == ' ') at++;
    if (*at++ != ':') return NULL;
    while (*at == ' ') at++;
    return at;
}

/* "'<f4'" */
static int dtype_of(const char *text)
{
    static const struct {
        const char *code;
        Dtype dtype;
    } codes[] = {{"f4", F32}, {"f8", F64}, {"f2", F16}, {"i1", I8},  {"i2", I16}, {"i4", I32},
                 {"i8", I64}, {"u1", U8},  {"u2", U16}, {"u4", U32}, {"u8", U64}, {"b1", BOOL}};
    if (text[0] != '\'' || (text[1] != '<' && text[1] != '|')) return -1;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!strncmp(text + 2, codes[i].code, 2) && text[4] == '\'') return (int)codes[i].dtype;
    return -1;
}

/* "(8, 5, 6)", "(8,)", "()" */
static int read_shape(FileTensor *tensor, const char *text, int64_t *count, Fault *fault)
{
    *count = 1;
    for (text++; *text != ')';) {
        if (*text == ' ' || *text == ',') {
            text++;
            continue;
        }
        char *end;
        if (!isdigit((unsigned char)*text)) return fault_set(fault, STATUS_USER, "%s: \"%s\": its shape is none", tensor->path, tensor->name);
        errno = 0;
        long long dim = strtoll(text, &end, 10);
        if (errno || __builtin_mul_overflow(*count, (int64_t)dim, count))
            return fault_set(fault, STATUS_USER, "%s: \"%s\": its shape is too large", tensor->path, tensor->name);
        if (tensor->rank < MAX_RANK) tensor->dims[tensor->rank] = dim;
        tensor->rank++;
        text = end + (*end == 'L'); /* as Python 2 wrote it */
        if (*text != ',' && *text != ' ' && *text != ')')
            return fault_set(fault, STATUS_USER, "%s: \"%s\": its shape is none", tensor->path, tensor->name);
    }
    if (tensor->rank > MAX_RANK) tensor->unusable = "its rank is above 8";
    return 0;
}

int npy_header(FileTensor *tensor, const unsigned char *bytes, size_t size, Fault *fault)
{
    char text[MOST_HEADER + 1];
    size_t start = size >= 8 && bytes[6] >= 2 ? 12 : 10, length;
    if (size < start || memcmp(bytes, "\x93NUMPY", 6))
        return fault_set(fault, STATUS_USER, "%s: \"%s\" is no npy array", tensor->path, tensor->name);
    length = bytes[8] | (size_t)bytes[9] << 8;
    if (start == 12) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > MOST_HEADER || length > size - start)
        return fault_set(fault, STATUS_USER, "%s: \"%s\": its npy header is cut short", tensor->path, tensor->name);
    memcpy(text, bytes + start, length);
    text[length] = 0;
    const char *descr = value_of(text, "descr"), *fortran = value_of(text, "fortran_order"), *shape = value_of(text, "shape");
    int64_t count, total;
    if (!descr || !fortran || !shape || *shape != '(')
        return fault_set(fault, STATUS_USER, "%s: \"%s\": its npy header cannot be read", tensor->path, tensor->name);
    int status = read_shape(tensor, shape, &count, fault);
    if (status) return status;
    tensor->dtype = dtype_of(descr);
    if (tensor->dtype < 0)
        tensor->unusable = "its dtype is no little-endian integer, float or bool";
    else if (!strncmp(fortran, "True", 4) && tensor->rank > 1)
        tensor->unusable = "it lies in Fortran order; save numpy.ascontiguousarray(array) instead";
    if (__builtin_mul_overflow(count, tensor->dtype < 0 ? 1 : (int64_t)dtype_bytes(tensor->dtype), &total))
        return fault_set(fault, STATUS_USER, "%s: \"%s\": its shape is too large", tensor->path, tensor->name);
    tensor->bytes = (size_t)total;
    tensor->skip = start + length;
    return 0;
}

int npy_read(TensorFile *file, const char *name, const char *path, Fault *fault)
{
    FILE *in;
    int status = file_open(&in, path, fault);
    if (status) return status;
    unsigned char head[MOST_HEADER];
    size_t size = fread(head, 1, sizeof head, in);
    FileTensor *tensor = file_add(file);
    if (!tensor) status = fault_memory(fault);
    if (!status) {
        tensor->name = name;
        tensor->path = path;
        status = npy_header(tensor, head, size, fault);
    }
    if (!status && !tensor->unusable) {
        void *data = NULL;
        if (fseek(in, 0, SEEK_END) || (size_t)ftell(in) - tensor->skip < tensor->bytes)
            status = fault_set(fault, STATUS_USER, "%s: cut short: its shape needs %zu bytes", path, tensor->bytes);
        else if (!(data = file_own(file, tensor->bytes)))
            status = fault_memory(fault);
        else if (fseek(in, (long)tensor->skip, SEEK_SET) || fread(data, 1, tensor->bytes, in) != tensor->bytes)
            status = fault_set(fault, STATUS_USER, "%s: cannot be read", path);
        tensor->data = data;
    }
    fclose(in);
    return status;
}

static int read_entry(TensorFile *file, zip_uint64_t entry, Fault *fault)
{
    zip_t *archive = file->archive;
    const char *name = zip_get_name(archive, entry, 0);
    size_t length = name ? strlen(name) : 0;
    if (length < 5 || strcmp(name + length - 4, ".npy")) return 0;
    zip_file_t *in = zip_fopen_index(archive, entry, 0);
    if (!in) return fault_set(fault, STATUS_USER, "%s: \"%s\" cannot be opened: %s", file->path, name, zip_strerror(archive));
    unsigned char head[MOST_HEADER];
    zip_int64_t size = zip_fread(in, head, sizeof head);
    zip_fclose(in);
    FileTensor *tensor = file_add(file);
    if (!tensor || !(tensor->name = file_copy_text(file, name, length - 4))) return fault_memory(fault);
    tensor->entry = (int64_t)entry;
    int status = npy_header(tensor, head, size > 0 ? (size_t)size : 0, fault);
    zip_stat_t there;
    if (!status && !tensor->unusable &&
        (zip_stat_index(archive, entry, 0, &there) || !(there.valid & ZIP_STAT_SIZE) || there.size != tensor->skip + tensor->bytes))
        return fault_set(fault, STATUS_USER, "%s: \"%s\": shape and bytes disagree", file->path, tensor->name);
    return status;
}

int npz_read(TensorFile *file, Fault *fault)
{
    int error;
    zip_t *archive = zip_open(file->path, ZIP_RDONLY, &error);
    if (!archive)
        return fault_set(fault, STATUS_USER, "%s: begins like an npz archive but cannot be opened as one (cut short?)", file->path);
    file->archive = archive;
    zip_int64_t n = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < n; i++) {
        int status = read_entry(file, (zip_uint64_t)i, fault);
        if (status) return status;
    }
    return 0;
}

static bool read_fully(zip_file_t *in, void *to, size_t bytes)
{
    for (char *at = to; bytes;) {
        zip_int64_t got = zip_fread(in, at, bytes);
        if (got <= 0) return false;
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

int npz_load(TensorFile *file, FileTensor *tensor, Fault *fault)
{
    char head[MOST_HEADER];
    zip_file_t *in = zip_fopen_index(file->archive, (zip_uint64_t)tensor->entry, 0);
    void *data = in ? file_own(file, tensor->bytes) : NULL;
    bool good = data && tensor->skip <= sizeof head && read_fully(in, head, tensor->skip) && read_fully(in, data, tensor->bytes);
    char beyond;
    good = good && zip_fread(in, &beyond, 1) == 0; /* the end: here libzip compares the checksum */
    if (in && zip_fclose(in)) good = false;
    if (in && !data) return fault_memory(fault);
    if (!good) return fault_set(fault, STATUS_USER, "%s: \"%s\" cannot be unpacked: the file is damaged", file->path, tensor->name);
    tensor->data = data;
    return 0;
}

void npz_close(TensorFile *file)
{
    zip_discard(file->archive);
    file->archive = NULL;
}
