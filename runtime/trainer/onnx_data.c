/* ONNX's test data: test_data_set_N/input_<n>.pb, each a TensorProto.  A bounded reader of the few protobuf fields that matter.
 * Needs and breaks nothing. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include "files.h"
#include "tensors.h"
#include "wire.h"

typedef struct {
    Bytes whole;
    int64_t count;
    int dtype, field;
} Proto;

/* First pass: dims, dtype, and which field holds the data. */
static const char *read_head(FileTensor *tensor, Proto *proto)
{
    Bytes b = proto->whole;
    proto->dtype = -1;
    proto->count = 1;
    while (b.at < b.end && !b.broken) {
        int field, wire;
        Bytes part = read_field(&b, &field, &wire);
        if (field == DIMS)
            while (part.at < part.end && !part.broken) {
                int64_t dim = (int64_t)read_varint(&part);
                if (tensor->rank >= MAX_RANK) return "its rank is above 8";
                if (dim < 0 || __builtin_mul_overflow(proto->count, dim, &proto->count)) return "its shape is none";
                tensor->dims[tensor->rank++] = dim;
            }
        else if (field == DATA_TYPE)
            proto->dtype = onnx_dtype((int64_t)read_varint(&part));
        else if (field == LOCATION && wire == VARINT && read_varint(&part) == 1)
            return "its data lies in another file";
        if (part.broken) b.broken = true;
    }
    if (b.broken) return "it is no whole TensorProto";
    if (proto->dtype < 0) return "its dtype is not one that the runner knows";
    return NULL;
}

/* Second pass: the elements, n of them, from whichever field has them. */
static int64_t read_elements(const Proto *proto, char *out)
{
    size_t size = dtype_bytes(proto->dtype);
    int64_t n = 0;
    for (Bytes b = proto->whole; b.at < b.end && !b.broken;) {
        int field, wire;
        Bytes part = read_field(&b, &field, &wire);
        if (field == RAW_DATA && wire == DELIMITED) {
            if ((size_t)(part.end - part.at) != (size_t)proto->count * size) return -1;
            memcpy(out, part.at, (size_t)proto->count * size);
            return proto->count;
        }
        bool fixed = field == FLOAT_DATA || field == DOUBLE_DATA,
             varint = field == INT32_DATA || field == INT64_DATA || field == UINT64_DATA;
        while ((fixed || varint) && part.at < part.end && !part.broken) {
            if (n == proto->count) return -1;
            if (fixed && (size_t)(part.end - part.at) < size) return -1;
            uint64_t value;
            if (varint) value = read_varint(&part);
            memcpy(out + (size_t)n++ * size, fixed ? (const void *)part.at : (const void *)&value, size);
            if (fixed) part.at += size;
        }
        if (part.broken) return -1;
    }
    return n;
}

/* Test data is also written by programs that drop leading dims of 1: a 224 x 224 image for an input of (batch, 1, 224, 224). */
static void add_leading_ones(FileTensor *tensor, int rank)
{
    const int missing = rank - tensor->rank;
    if (tensor->unusable || missing <= 0 || rank > MAX_RANK) return;
    memmove(tensor->dims + missing, tensor->dims, (size_t)tensor->rank * sizeof *tensor->dims);
    for (int k = 0; k < missing; k++) tensor->dims[k] = 1;
    tensor->rank = rank;
    char shape[256];
    fprintf(stderr, "%s: read as %s\n", tensor->path, dims_text(tensor->rank, tensor->dims, shape, sizeof shape));
}

static int read_proto(TensorFile *file, const char *path, const InputInfo *input, Fault *fault)
{
    TensorFile source = {0};
    int status = file_map(&source, path, fault);
    if (status) return status;
    FileTensor *tensor = file_add(file);
    Proto proto = {.whole = {source.map, (const unsigned char *)source.map + source.map_bytes, false}};
    if (!tensor)
        status = fault_memory(fault);
    else {
        tensor->name = input->name;
        tensor->path = path;
        tensor->unusable = read_head(tensor, &proto);
        tensor->dtype = proto.dtype;
        const bool too_large = proto.count > (int64_t)source.map_bytes; /* an element takes a byte at least */
        if (!tensor->unusable && too_large) tensor->unusable = "its shape and its elements disagree";
        if (!tensor->unusable) {
            tensor->bytes = (size_t)proto.count * dtype_bytes(proto.dtype);
            char *data = file_own(file, tensor->bytes);
            if (!data)
                status = fault_memory(fault);
            else if (read_elements(&proto, data) != proto.count)
                tensor->unusable = "its shape and its elements disagree";
            tensor->data = data;
        }
        add_leading_ones(tensor, input->rank);
    }
    file_unmap(&source);
    return status;
}

int onnx_folder_read(TensorFile *file, const char *folder, const Model *m, Fault *fault)
{
    memset(file, 0, sizeof *file);
    file->path = file_copy_text(file, folder, strlen(folder));
    int status = file->path ? 0 : fault_memory(fault);
    for (int i = 0; i < m->n_inputs && !status; i++) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/input_%d.pb", folder, i);
        if (length >= (int)sizeof path)
            status = fault_set(fault, STATUS_USER, "%.200s: too long a path", folder);
        else if (access(path, R_OK) == 0) {
            char *kept = file_copy_text(file, path, (size_t)length);
            status = kept ? read_proto(file, kept, &m->inputs[i], fault) : fault_memory(fault);
        }
    }
    if (!status && !file->n && m->n_inputs)
        status =
            fault_set(fault, STATUS_USER,
                      "%s: is a folder without input_0.pb; give an npz or safetensors file, or a folder of input_<n>.pb", folder);
    if (!status) status = file_finish(file, fault);
    if (status) tensor_file_close(file);
    return status;
}
