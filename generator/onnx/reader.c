/* Reads a model: maps the file, scans it, unpacks it into the arena, refuses training artifacts, builds the model. */
#define _POSIX_C_SOURCE 200809L /* openat, mmap, readdir */
#include "onnx/reader.h"
#include "support/diag.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

MappedFile file_map(Arena *arena, const char *path)
{
    MappedFile out = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe that nobody writes into is not waited for */
    if (fd < 0) {
        out.error = arena_text(arena, "cannot be read: %s; give the path of an ONNX model", strerror(errno));
        return out;
    }
    struct stat status;
    if (fstat(fd, &status) != 0) {
        out.error = arena_text(arena, "cannot be read: %s", strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        out.error = "is a folder; give the .onnx file in it";
    } else if (!S_ISREG(status.st_mode)) {
        out.error = "is no regular file; give the path of an ONNX model";
    } else if (status.st_size > 0) {
        out.size = (size_t)status.st_size;
        void *at = mmap(NULL, out.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED)
            out.error = arena_text(arena, "cannot be mapped: %s", strerror(errno));
        else
            out.bytes = at;
    }
    close(fd);
    return out;
}

void file_unmap(MappedFile file)
{
    if (file.bytes) munmap((void *)(uintptr_t)file.bytes, file.size);
}

const char *folder_of(Arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    return slash == path ? "/" : arena_copy(arena, path, (size_t)(slash - path));
}

/* ---- opsets ---- */

const char *plain_domain(const char *domain)
{
    return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static OnnxOpset *opset_find(OnnxOpset *at, int n, const char *domain)
{
    for (int i = 0; i < n; i++)
        if (strcmp(at[i].domain, domain) == 0) return &at[i];
    return NULL;
}

int opset_version(const Opsets *opsets, const char *domain)
{
    for (; opsets; opsets = opsets->outer) {
        const OnnxOpset *found = opset_find(opsets->at, opsets->n, domain);
        if (found) return found->version;
    }
    return 0;
}

Opsets *opsets_build(Reader *r, Onnx__OperatorSetIdProto *const *imports, size_t n, const Opsets *outer)
{
    Opsets *out = NEW(r->arena, Opsets);
    out->outer = outer;
    out->at = NEW_ARRAY(r->arena, OnnxOpset, n);
    for (size_t i = 0; i < n; i++) {
        const char *domain = plain_domain(imports[i]->domain);
        int64_t version = imports[i]->version;
        if (version < 1 || version > INT32_MAX)
            error_exit("%s: it imports version %lld of the operators of domain \"%s\", which cannot be; export the model again",
                       r->path, (long long)version, domain);
        OnnxOpset *known = opset_find(out->at, out->n, domain);
        if (!known) {
            out->at[out->n++] = (OnnxOpset){domain, (int)version};
        } else if (known->version != version) {
            if (version > known->version) known->version = (int)version;
            notice("%s: it imports several versions of the operators of domain \"%s\"; the highest, %d, holds", r->path, domain,
                   known->version);
        }
    }
    return out;
}

/* ---- the model ---- */

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

static void model_header(Reader *r, const Onnx__ModelProto *proto)
{
    OnnxModel *model = r->model;
    model->path = arena_copy(r->arena, r->path, strlen(r->path));
    model->arena = r->arena;
    if (proto->ir_version < 0 || proto->ir_version > INT32_MAX)
        error_exit("%s: its IR version is %lld, which cannot be; the file is damaged", r->path, (long long)proto->ir_version);
    model->ir_version = (int)proto->ir_version;
    const char *version = text_or_empty(proto->producer_version);
    model->producer = arena_text(r->arena, *version ? "%s %s" : "%s%s", text_or_empty(proto->producer_name), version);
    model->metadata = arena_alloc(r->arena, proto->n_metadata_props * sizeof *model->metadata);
    for (size_t i = 0; i < proto->n_metadata_props; i++) {
        model->metadata[i].key = text_or_empty(proto->metadata_props[i]->key);
        model->metadata[i].value = text_or_empty(proto->metadata_props[i]->value);
    }
    model->n_metadata = (int)proto->n_metadata_props;
}

static void model_build(Reader *r, Onnx__ModelProto *proto)
{
    model_header(r, proto);
    r->model->proto = proto;
    Opsets *opsets = opsets_build(r, proto->opset_import, proto->n_opset_import, NULL);
    if (proto->ir_version < 3 && opsets->n == 0) { /* before IR 3 there was one opset and no way to name it */
        opsets->at = NEW(r->arena, OnnxOpset);
        opsets->at[opsets->n++] = (OnnxOpset){"", 1};
    }
    OnnxModel *model = r->model;
    model->opsets = opsets->at;
    model->n_opsets = opsets->n;
    int version = opset_version(opsets, "");
    model->opset = version ? version : 1;
    if (proto->n_training_info)
        notice("%s: its training_info (how to initialise and update it) is left aside; this program makes its own", r->path);
    functions_collect(r, proto);
    model->graph = graph_build(r, proto->graph, NULL, opsets);
}

OnnxModel *onnx_read_memory(Arena *arena, const char *path, const void *bytes, size_t size, bool allow_missing_data)
{
    Reader r = {.arena = arena, .path = path, .allow_missing_data = allow_missing_data};
    r.model = NEW(arena, OnnxModel);
    r.files = map_new(arena);
    if (size >= 8 && memcmp((const char *)bytes + 4, "ODTC", 4) == 0)
        error_exit("%s: is a checkpoint of ONNX Runtime's training: weights without a model; %s", path,
                   artifact_advice(arena, path));
    const char *error = other_format(bytes, size);
    if (!error) error = scan_message(arena, &onnx__model_proto__descriptor, bytes, size);
    if (error) error_exit("%s: %s", path, error);
    Onnx__ModelProto *proto = (void *)unpack_message(arena, &onnx__model_proto__descriptor, bytes, size);
    if (!proto->graph) error_exit("%s: holds no graph; it is no ONNX model, or it was cut short", path);
    artifact_refuse(&r, proto);
    model_build(&r, proto);
    return r.model;
}

OnnxModel *onnx_read(Arena *arena, const char *path, bool allow_missing_data)
{
    MappedFile file = file_map(arena, path);
    if (file.error) error_exit("%s: %s", path, file.error);
    OnnxModel *model = onnx_read_memory(arena, path, file.bytes, file.size, allow_missing_data);
    file_unmap(file); /* unpacking copied what is needed */
    return model;
}

OnnxTensor *onnx_read_tensor(Arena *arena, const char *path)
{
    MappedFile file = file_map(arena, path);
    if (file.error) error_exit("%s: %s", path, file.error);
    OnnxTensor *tensor = onnx_read_tensor_memory(arena, path, file.bytes, file.size);
    file_unmap(file);
    return tensor;
}

OnnxTensor *onnx_read_tensor_memory(Arena *arena, const char *path, const void *bytes, size_t size)
{
    const char *error = size == 0 ? "is empty; a tensor in protobuf form (TensorProto) was wanted" : NULL;
    if (!error) error = scan_message(arena, &onnx__tensor_proto__descriptor, bytes, size);
    if (error) error_exit("%s: %s", path, error);
    Onnx__TensorProto *proto = (void *)unpack_message(arena, &onnx__tensor_proto__descriptor, bytes, size);
    Reader r = {.arena = arena, .path = path};
    r.files = map_new(arena);
    return tensor_build(&r, proto, (Owner){NULL, text_or_empty(proto->name)});
}
