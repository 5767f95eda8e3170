/* Looks over the bytes of a file before protobuf-c unpacks them: protobuf-c recurses as deep as the file says and stops with a bare
 * NULL.  This walk keeps its own stack, bounds the nesting, and says what is wrong.
 * Needs: the descriptors that protoc-c makes of onnx.proto. */
#include "onnx/reader.h"
#include "support/diag.h"
#include <string.h>

/* A graph level is three messages (node, attribute, graph); the rest is for what hangs on the innermost node. */
enum { MESSAGE_LEVELS_MAX = 3 * GRAPH_LEVELS_MAX + 32 };

/* ---- other kinds of file ---- */

static bool is_text(const uint8_t *bytes, size_t size)
{
    size_t n = size < 512 ? size : 512;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != '\n' && bytes[i] != '\r' && bytes[i] != '\t' && (bytes[i] < 32 || bytes[i] == 127)) return false;
    return true;
}

const char *other_format(const uint8_t *bytes, size_t size)
{
    static const struct {
        size_t at;
        const char *magic, *what;
    } formats[] = {
        {0, "version https://git-lfs", "is a Git LFS pointer, not the model itself; fetch the file with: git lfs pull"},
        {0, "PK\3\4", "is a zip archive (a PyTorch .pt or an .npz file?), not an ONNX file; export the model to ONNX first"},
        {0, "\x89HDF\r\n", "is an HDF5 file, not an ONNX file; convert the model to ONNX first"},
        {0, "\x1f\x8b", "is a gzip archive, not an ONNX file; unpack it first"},
        {0, "\x93NUMPY", "is a NumPy array, not an ONNX file; give the model that was exported to ONNX"},
        {4, "ORTM", "is an ONNX Runtime .ort file, not an ONNX file; give the .onnx file that it was made from"},
        {4, "TFL3", "is a TensorFlow Lite file, not an ONNX file; convert the model to ONNX first"},
        {8, "{\"", "is a safetensors file (weights alone), not an ONNX file; give the model that was exported to ONNX"},
    };
    if (size == 0) return "is empty; give a model that was exported to ONNX";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t n = strlen(formats[i].magic);
        if (size >= formats[i].at + n && memcmp(bytes + formats[i].at, formats[i].magic, n) == 0) return formats[i].what;
    }
    if (is_text(bytes, size)) return "is a text file, not an ONNX file; give a model that was exported to ONNX";
    return NULL;
}

/* ---- the walk ---- */

typedef struct {
    const ProtobufCMessageDescriptor *message;
    size_t end;
} Level;

typedef struct {
    Arena *arena;
    const uint8_t *bytes;
    size_t at, size;
    Level level[MESSAGE_LEVELS_MAX];
    int n_levels, n_graphs;
    const char *error;
} Scan;

static bool fail(Scan *s, const char *what)
{
    s->error = arena_text(s->arena, "%s at byte %zu of %zu; the file is damaged or cut short, or it is no ONNX file", what, s->at,
                          s->size);
    return false;
}

static bool varint(Scan *s, size_t end, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < 10; i++) {
        if (s->at == end) return fail(s, "a number is cut off");
        uint8_t byte = s->bytes[s->at++];
        *value |= (uint64_t)(byte & 127) << (7 * i);
        if (byte < 128) return true;
    }
    return fail(s, "a number has more than ten bytes");
}

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static int wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT;
    }
}

/* Numbers packed one behind the other: whole ones only. */
static bool packed(Scan *s, int wire, size_t end)
{
    if (wire == WIRE_VARINT) {
        uint64_t ignored;
        while (s->at < end)
            if (!varint(s, end, &ignored)) return false;
        return true;
    }
    if ((end - s->at) % (wire == WIRE_32 ? 4 : 8)) return fail(s, "a list of numbers is cut off");
    s->at = end;
    return true;
}

static bool enter(Scan *s, const ProtobufCMessageDescriptor *message, size_t end)
{
    if (message == &onnx__graph_proto__descriptor && ++s->n_graphs > GRAPH_LEVELS_MAX) {
        s->error = arena_text(s->arena, "graphs (bodies of If, Loop, Scan) are nested more than %d deep; make the model flatter",
                              GRAPH_LEVELS_MAX);
        return false;
    }
    if (s->n_levels == MESSAGE_LEVELS_MAX) {
        s->error = arena_text(s->arena, "types are nested too deep at byte %zu; the file is damaged or was made to do harm", s->at);
        return false;
    }
    s->level[s->n_levels++] = (Level){message, end};
    return true;
}

static bool bytes_field(Scan *s, const ProtobufCFieldDescriptor *field, size_t parent_end)
{
    uint64_t length;
    if (!varint(s, parent_end, &length)) return false;
    if (length > parent_end - s->at || length > INT32_MAX) return fail(s, "a part is longer than what holds it");
    size_t end = s->at + (size_t)length;
    if (field && field->type == PROTOBUF_C_TYPE_MESSAGE) return enter(s, field->descriptor, end);
    if (field && field->type == PROTOBUF_C_TYPE_STRING && length && memchr(s->bytes + s->at, 0, length))
        return fail(s, "a name holds a zero byte");
    if (field && wire_type_of(field->type) != WIRE_BYTES) return packed(s, wire_type_of(field->type), end);
    s->at = end;
    return true;
}

static bool field_matches(const ProtobufCFieldDescriptor *field, int wire)
{
    int own = wire_type_of(field->type);
    return wire == own || (wire == WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED);
}

static bool one_field(Scan *s, const Level *level)
{
    uint64_t tag, ignored;
    if (!varint(s, level->end, &tag)) return false;
    if (tag >> 3 == 0 || tag >> 32) return fail(s, "a field has an impossible number");
    int wire = (int)(tag & 7);
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(level->message, (unsigned)(tag >> 3));
    if (field && !field_matches(field, wire)) return fail(s, arena_text(s->arena, "field %s has the wrong form", field->name));
    size_t fixed = wire == WIRE_64 ? 8 : 4;
    switch (wire) {
    case WIRE_VARINT: return varint(s, level->end, &ignored);
    case WIRE_BYTES: return bytes_field(s, field, level->end);
    case WIRE_32:
    case WIRE_64:
        if (level->end - s->at < fixed) return fail(s, "a number is cut off");
        s->at += fixed;
        return true;
    default: return fail(s, "a field has an unknown form");
    }
}

const char *scan_message(Arena *arena, const ProtobufCMessageDescriptor *message, const uint8_t *bytes, size_t size)
{
    Scan *s = NEW(arena, Scan);
    s->arena = arena;
    s->bytes = bytes;
    s->size = size;
    if (!enter(s, message, size)) return s->error;
    while (s->n_levels) {
        Level *level = &s->level[s->n_levels - 1];
        if (s->at == level->end) {
            if (level->message == &onnx__graph_proto__descriptor) s->n_graphs--;
            s->n_levels--;
        } else if (!one_field(s, level)) {
            return s->error;
        }
    }
    return NULL;
}

/* ---- unpacking ---- */

static void *allocate(void *arena, size_t bytes)
{
    return arena_alloc(arena, bytes);
}

static void keep(void *arena, void *at)
{
    (void)arena;
    (void)at; /* the arena gives everything back at once */
}

ProtobufCMessage *unpack_message(Arena *arena, const ProtobufCMessageDescriptor *message, const uint8_t *bytes, size_t size)
{
    ProtobufCAllocator allocator = {allocate, keep, arena};
    ProtobufCMessage *out = protobuf_c_message_unpack(message, &allocator, size, bytes);
    if (!out) bug("protobuf-c cannot unpack a %s of %zu bytes that was scanned", message->name, size);
    return out;
}
