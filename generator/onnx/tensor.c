/* Tensors: from raw bytes, from protobuf's typed lists, from another file, from sparse form, all to dense little-endian arrays.
 * Nothing is copied that can be used where it lies. */
#include "onnx/reader.h"
#include "support/diag.h"
#include <string.h>

const char *owner_text(Arena *arena, Owner owner)
{
    if (owner.node) return arena_text(arena, "attribute \"%s\" of %s", owner.name, node_label(arena, owner.node));
    return arena_text(arena, "tensor \"%s\"", owner.name);
}

/* float[3, 4] */
static const char *shape_text(Arena *arena, const OnnxTensor *t)
{
    Buf out = {.arena = arena};
    buf_printf(&out, "%s[", onnx_type_name(t->type));
    for (int i = 0; i < t->rank; i++) buf_printf(&out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    buf_put(&out, "]");
    return buf_text(&out);
}

/* Rank, dims, count; the number of bytes must be one that a program can address. */
static void set_shape(Reader *r, OnnxTensor *t, const int64_t *dims, size_t rank, Owner owner)
{
    if (rank > INT16_MAX) error_exit("%s: %s: it has %zu dims; the file is damaged", r->path, owner_text(r->arena, owner), rank);
    t->rank = (int)rank;
    t->dims = NEW_ARRAY(r->arena, int64_t, rank);
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        t->dims[i] = dims[i];
        empty |= dims[i] == 0;
    }
    t->count = empty ? 0 : 1;
    for (int i = 0; i < t->rank; i++) {
        if (dims[i] < 0)
            error_exit("%s: %s: its shape, %s, has a negative dim; export the model again", r->path, owner_text(r->arena, owner),
                       shape_text(r->arena, t));
        if (__builtin_mul_overflow(t->count, dims[i], &t->count) || t->count > INT64_MAX / 256)
            error_exit("%s: %s: its shape, %s, is larger than any memory; the file is damaged", r->path,
                       owner_text(r->arena, owner), shape_text(r->arena, t));
    }
}

static noreturn void wrong_amount(Reader *r, const OnnxTensor *t, Owner owner, size_t wanted, size_t found, const char *unit)
{
    error_exit(
        "%s: %s: its shape, %s, asks for %zu %s, and the file holds %zu; the file is damaged, or the tool that wrote it is at "
        "fault: export the model again",
        r->path, owner_text(r->arena, owner), shape_text(r->arena, t), wanted, unit, found);
}

static void check_amount(Reader *r, const OnnxTensor *t, Owner owner, size_t wanted, size_t found, const char *unit)
{
    if (wanted != found) wrong_amount(r, t, owner, wanted, found, unit);
}

/* ---- small elements ---- */

static bool is_signed_small(OnnxType type)
{
    return type == ONNX_INT4 || type == ONNX_INT2;
}

/* One element a byte, from a stream of bits, least significant first: int4 bytes 0x2f 0x01 hold -1, 2, 1. */
static const void *unpack_bits(Reader *r, const OnnxTensor *t, const uint8_t *packed)
{
    unsigned bits = (unsigned)onnx_type_bits(t->type), mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    uint8_t *out = NEW_ARRAY(r->arena, uint8_t, t->count);
    for (size_t i = 0; i < (size_t)t->count; i++) {
        size_t at = i * bits / 8, shift = i * bits % 8;
        unsigned value = packed[at];
        if (shift + bits > 8) value |= (unsigned)packed[at + 1] << 8;
        value = value >> shift & mask;
        if (is_signed_small(t->type) && value & sign) value |= ~mask;
        out[i] = (uint8_t)value;
    }
    return out;
}

/* Data as it lies in a file. */
static const void *from_bytes(Reader *r, const OnnxTensor *t, const uint8_t *bytes)
{
    if (!bytes) return NEW_ARRAY(r->arena, uint8_t, 0); /* no elements */
    if (onnx_type_bits(t->type) < 8) return unpack_bits(r, t, bytes);
    if ((uintptr_t)bytes % 8 == 0) return bytes;
    return arena_copy(r->arena, (const char *)bytes, t->bytes);
}

static size_t file_bytes(const OnnxTensor *t)
{
    return ((size_t)t->count * (size_t)onnx_type_bits(t->type) + 7) / 8;
}

/* ---- typed lists ---- */

/* int32_data holds one element an item (those below 8 bits: one byte an item, with as many elements as fit in it; float6: one). */
static const void *from_int32(Reader *r, const OnnxTensor *t, const Onnx__TensorProto *proto, Owner owner)
{
    int bits = onnx_type_bits(t->type), bytes = onnx_type_bytes(t->type);
    size_t per_item = bits == 4 || bits == 2 ? 8 / (size_t)bits : 1;
    size_t n = ((size_t)t->count + per_item - 1) / per_item;
    check_amount(r, t, owner, n, proto->n_int32_data, "items of int32_data");
    if (bits == 32) return proto->int32_data;
    unsigned char *out = NEW_ARRAY(r->arena, unsigned char, n *(size_t)bytes);
    int64_t least = -(INT64_C(1) << (8 * bytes - 1)), most = (INT64_C(1) << (8 * bytes)) - 1;
    for (size_t i = 0; i < n; i++) {
        int32_t item = proto->int32_data[i];
        if (item < least || item > most)
            error_exit("%s: %s: item %zu of int32_data is %d, which no %s can hold; export the model again", r->path,
                       owner_text(r->arena, owner), i, item, onnx_type_name(t->type));
        if (t->type == ONNX_BOOL) item = item != 0;
        if (bytes == 1)
            out[i] = (unsigned char)item;
        else
            ((uint16_t *)(void *)out)[i] = (uint16_t)item;
    }
    return per_item > 1 ? unpack_bits(r, t, out) : out;
}

static const void *from_uint64(Reader *r, const OnnxTensor *t, const Onnx__TensorProto *proto, Owner owner)
{
    check_amount(r, t, owner, (size_t)t->count, proto->n_uint64_data, "items of uint64_data");
    if (t->type == ONNX_UINT64) return proto->uint64_data;
    uint32_t *out = NEW_ARRAY(r->arena, uint32_t, t->count);
    for (size_t i = 0; i < proto->n_uint64_data; i++) {
        if (proto->uint64_data[i] > UINT32_MAX)
            error_exit("%s: %s: item %zu of uint64_data is too large for uint32; export the model again", r->path,
                       owner_text(r->arena, owner), i);
        out[i] = (uint32_t)proto->uint64_data[i];
    }
    return out;
}

static const void *from_typed(Reader *r, const OnnxTensor *t, const Onnx__TensorProto *proto, Owner owner)
{
    size_t count = (size_t)t->count;
    switch (t->type) {
    case ONNX_FLOAT: check_amount(r, t, owner, count, proto->n_float_data, "items of float_data"); return proto->float_data;
    case ONNX_COMPLEX64: check_amount(r, t, owner, 2 * count, proto->n_float_data, "items of float_data"); return proto->float_data;
    case ONNX_DOUBLE: check_amount(r, t, owner, count, proto->n_double_data, "items of double_data"); return proto->double_data;
    case ONNX_COMPLEX128:
        check_amount(r, t, owner, 2 * count, proto->n_double_data, "items of double_data");
        return proto->double_data;
    case ONNX_INT64: check_amount(r, t, owner, count, proto->n_int64_data, "items of int64_data"); return proto->int64_data;
    case ONNX_UINT32:
    case ONNX_UINT64: return from_uint64(r, t, proto, owner);
    default: return from_int32(r, t, proto, owner);
    }
}

static void set_strings(Reader *r, OnnxTensor *t, const Onnx__TensorProto *proto, Owner owner)
{
    check_amount(r, t, owner, (size_t)t->count, proto->n_string_data, "items of string_data");
    const char **strings = NEW_ARRAY(r->arena, const char *, t->count);
    size_t *sizes = NEW_ARRAY(r->arena, size_t, t->count);
    for (size_t i = 0; i < (size_t)t->count; i++) {
        sizes[i] = proto->string_data[i].len;
        strings[i] = arena_copy(r->arena, (const char *)proto->string_data[i].data, sizes[i]);
    }
    t->strings = strings;
    t->string_sizes = sizes;
}

/* ---- whole tensors ---- */

static bool has_typed(const Onnx__TensorProto *p)
{
    return p->n_float_data || p->n_int32_data || p->n_int64_data || p->n_double_data || p->n_uint64_data;
}

/* The message has its data as if it had been in the model. */
static void take_inside(Onnx__TensorProto *proto, const uint8_t *bytes, size_t size)
{
    proto->has_raw_data = true;
    proto->raw_data = (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)bytes};
    proto->has_data_location = false, proto->data_location = 0;
    proto->n_external_data = 0;
}

static void set_data(Reader *r, OnnxTensor *t, Onnx__TensorProto *proto, Owner owner)
{
    enum { EXTERNAL = 1 };
    if (proto->data_location == EXTERNAL) {
        const uint8_t *bytes = external_bytes(r, proto, owner, file_bytes(t), &t->location, &t->missing);
        if (t->missing) return;
        t->data = from_bytes(r, t, bytes);
        take_inside(proto, bytes, file_bytes(t));
    } else if (proto->has_raw_data && (proto->raw_data.len || !has_typed(proto))) {
        check_amount(r, t, owner, file_bytes(t), proto->raw_data.len, "bytes");
        t->data = from_bytes(r, t, proto->raw_data.data);
    } else {
        t->data = from_typed(r, t, proto, owner);
        if (!t->data) t->data = from_bytes(r, t, NULL);
    }
}

OnnxTensor *tensor_build(Reader *r, Onnx__TensorProto *proto, Owner owner)
{
    OnnxTensor *t = NEW(r->arena, OnnxTensor);
    t->proto = proto;
    t->name = owner.node ? "" : owner.name;
    if (proto->data_type <= ONNX_UNDEFINED || proto->data_type >= ONNX_TYPES_COUNT)
        error_exit("%s: %s: its element type is number %d; wanted one of 1 to %d; the file is damaged, or newer than IR version 14",
                   r->path, owner_text(r->arena, owner), proto->data_type, ONNX_TYPES_COUNT - 1);
    if (proto->segment)
        error_exit("%s: %s: it is cut into segments, which this program does not read; save the model with whole tensors", r->path,
                   owner_text(r->arena, owner));
    t->type = (OnnxType)proto->data_type;
    set_shape(r, t, proto->dims, proto->n_dims, owner);
    if (t->type == ONNX_STRING) {
        set_strings(r, t, proto, owner);
        return t;
    }
    t->bytes = (size_t)t->count * (size_t)onnx_type_bytes(t->type);
    set_data(r, t, proto, owner);
    return t;
}

/* ---- sparse tensors ---- */

/* Where the i-th value stands in the dense tensor: from a flat index, or from one index an axis. */
static int64_t sparse_place(const OnnxTensor *dense, const OnnxTensor *indices, int64_t i)
{
    const int64_t *index = indices->data;
    if (indices->rank == 1) return index[i] >= 0 && index[i] < dense->count ? index[i] : -1;
    int64_t place = 0;
    for (int axis = 0; axis < dense->rank; axis++) {
        int64_t at = index[i * dense->rank + axis];
        if (at < 0 || at >= dense->dims[axis]) return -1;
        place = place * dense->dims[axis] + at;
    }
    return place;
}

static void check_sparse(Reader *r, const OnnxTensor *dense, const OnnxTensor *values, const OnnxTensor *indices, Owner owner)
{
    bool flat = indices->rank == 1, by_axis = indices->rank == 2 && indices->dims[1] == dense->rank;
    if (values->rank == 1 && indices->type == ONNX_INT64 && (flat || by_axis) && indices->dims[0] == values->dims[0] &&
        values->type != ONNX_STRING)
        return;
    error_exit(
        "%s: %s: a sparse tensor %s of values %s and indices %s; wanted numbers [n] and int64 [n] or [n, %d]; export the model "
        "again",
        r->path, owner_text(r->arena, owner), shape_text(r->arena, dense), shape_text(r->arena, values),
        shape_text(r->arena, indices), dense->rank);
}

OnnxTensor *tensor_build_sparse(Reader *r, const Onnx__SparseTensorProto *proto, Owner owner)
{
    if (!proto->values || !proto->indices)
        error_exit("%s: %s: a sparse tensor without values or indices; the file is damaged", r->path, owner_text(r->arena, owner));
    OnnxTensor *values = tensor_build(r, proto->values, owner), *indices = tensor_build(r, proto->indices, owner);
    OnnxTensor *t = NEW(r->arena, OnnxTensor);
    t->name = owner.node ? "" : owner.name;
    t->type = values->type;
    set_shape(r, t, proto->dims, proto->n_dims, owner);
    check_sparse(r, t, values, indices, owner);
    if (values->missing || indices->missing) {
        t->missing = true;
        t->location = values->missing ? values->location : indices->location;
        return t;
    }
    size_t size = (size_t)onnx_type_bytes(t->type);
    t->bytes = (size_t)t->count * size;
    unsigned char *data = arena_alloc(r->arena, t->bytes);
    for (int64_t i = 0; i < values->count; i++) {
        int64_t place = sparse_place(t, indices, i);
        if (place < 0)
            error_exit("%s: %s: index %lld of the sparse tensor lies outside its shape, %s; the file is damaged", r->path,
                       owner_text(r->arena, owner), (long long)i, shape_text(r->arena, t));
        memcpy(data + (size_t)place * size, (const char *)values->data + (size_t)i * size, size);
    }
    t->data = data;
    return t;
}
