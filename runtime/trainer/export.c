/* Writes the model with its weights as ONNX.
 * Needs: a session with weights; skeleton.onnx.  Breaks: nothing.
 *
 * The skeleton is copied field by field; a message around a tensor that grows gets another length.  Each message is therefore gone through
 * twice: how long it becomes, then what it becomes.  Tensors are met in the same order each time. */
#include "export.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "files.h"
#include "tensors.h"
#include "weights.h"
#include "wire.h"

enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 }; /* fields of an entry of a tensor's external_data */
enum { MOST_DIMS = 8 };
enum { LARGE = 1024, PAGE = 4096 }; /* bytes from which on data may lie in the other file; where it begins there */

/* A tensor of the model. */
typedef struct {
    Bytes literal; /* data that the skeleton has */
    int weight;    /* whose values it takes; -1: it stays as it is */
    bool view, beside;
    int dtype, rank;
    int64_t dims[MOST_DIMS];
    int64_t place[1 + MOST_DIMS]; /* where view: its element (i, j, …) is the weight's at place[0] + i * place[1] + j * place[2] + … */
    int64_t bytes, offset;        /* offset: in the other file, where beside */
} Stored;

typedef struct {
    Session *session;
    const char *skeleton, *location; /* location: of the other file, as the model says it */
    bool inference;
    Stored *tensors;
    int n, room, next; /* next: that is met next */
    FileWriter *to;    /* NULL: only counted */
    char *chunk;
    Fault *fault;
    int status;
} Export;

static int damaged(Export *e)
{
    return e->status = fault_set(e->fault, STATUS_USER, "%s: is no whole skeleton of a model: let disc-gen write it again", e->skeleton);
}

/* ---- what is written ---- */
static int64_t put(Export *e, const void *bytes, int64_t n)
{
    if (e->to && !e->status) e->status = file_writer_write(e->to, bytes, (size_t)n, e->fault);
    return n;
}

static int64_t put_key(Export *e, int field, int wire, uint64_t value)
{
    unsigned char text[2 * VARINT_MOST];
    int n = write_varint(text, (uint64_t)field << 3 | (unsigned)wire);
    n += write_varint(text + n, value);
    return put(e, text, n);
}

static int64_t put_text(Export *e, int field, const char *text)
{
    const int64_t n = (int64_t)strlen(text);
    return put_key(e, field, DELIMITED, (uint64_t)n) + put(e, text, n);
}

/* ---- data of a tensor ---- */
static void pick(char *to, const char *from, const Stored *t, size_t n, size_t size)
{
    int64_t index[MOST_DIMS] = {0};
    for (size_t i = 0; i < n; i++) {
        int64_t at = t->place[0];
        for (int k = 0; k < t->rank; k++) at += index[k] * t->place[1 + k];
        memcpy(to + i * size, from + (size_t)at * size, size);
        for (int k = t->rank - 1; k >= 0 && ++index[k] == t->dims[k]; k--) index[k] = 0;
    }
}

/* In the tensor's own dtype, row-major. */
static void put_converted(Export *e, const Stored *t)
{
    const WeightInfo *weight = &e->session->model->weights[t->weight];
    const size_t size = dtype_bytes((int)weight->dtype), own = dtype_bytes(t->dtype), step = WEIGHT_CHUNK / 8;
    const size_t n = (size_t)t->bytes / own, all = (size_t)count_of(weight->rank, weight->dims);
    char *whole = malloc(all * size + 1), *picked = t->view ? malloc(n * size + 1) : NULL;
    if (!whole || (t->view && !picked)) e->status = fault_memory(e->fault);
    if (!e->status)
        e->status = device_fault(device_download(e->session->device, whole, e->session->weights[t->weight], all * size),
                                 "copying weights from the device", e->fault);
    if (!e->status && t->view) pick(picked, whole, t, n, size);
    for (size_t at = 0; at < n && !e->status; at += step) {
        const size_t part = n - at < step ? n - at : step;
        tensor_convert(e->chunk, t->dtype, (picked ? picked : whole) + at * size, (int)weight->dtype, (int64_t)part);
        put(e, e->chunk, (int64_t)(part * own));
    }
    free(whole);
    free(picked);
}

static int64_t put_data(Export *e, const Stored *t)
{
    const bool plain = t->weight >= 0 && !t->view && t->dtype == (int)e->session->model->weights[t->weight].dtype;
    if (t->weight < 0)
        put(e, t->literal.at, t->bytes);
    else if (e->to && !e->status && t->bytes && !plain)
        put_converted(e, t);
    else if (e->to && !e->status)
        e->status = weight_write(e->session, e->to, e->session->weights[t->weight], (size_t)t->bytes, e->chunk, e->fault);
    return t->bytes;
}

/* ---- tensors of the skeleton ---- */
static bool text_is(Bytes text, const char *wanted)
{
    const size_t n = strlen(wanted);
    return (size_t)(text.end - text.at) == n && !memcmp(text.at, wanted, n);
}

/* Of an entry of external_data. */
static void read_entry(Bytes entry, Bytes *key, Bytes *value)
{
    int field, wire;
    *key = *value = (Bytes){0};
    while (entry.at < entry.end && !entry.broken) {
        Bytes part = read_field(&entry, &field, &wire);
        if (field == ENTRY_KEY) *key = part;
        if (field == ENTRY_VALUE) *value = part;
    }
}

static int find_weight(Export *e, Bytes name)
{
    const Model *m = e->session->model;
    for (int i = 0; i < m->n_weights; i++)
        if (text_is(name, m->weights[i].name)) return i;
    return -1;
}

/* "36 12 1" */
static void read_place(Export *e, Stored *t, Bytes text)
{
    char copy[24 * (1 + MOST_DIMS)], *at = copy, *end;
    const size_t n = (size_t)(text.end - text.at);
    if (n >= sizeof copy) {
        damaged(e);
        return;
    }
    memcpy(copy, text.at, n);
    copy[n] = 0;
    for (int k = 0; k <= MOST_DIMS; k++, at = end) t->place[k] = strtoll(at, &end, 10);
    t->view = true;
}

/* Whether every element of t is one of n. */
static bool lies_within(const Stored *t, int64_t n)
{
    int64_t last = t->place[0], way;
    bool within = last >= 0;
    for (int k = 0; k < t->rank && within; k++)
        within = t->place[1 + k] >= 0 && !__builtin_mul_overflow(t->dims[k] - 1, t->place[1 + k], &way) && !__builtin_add_overflow(last, way, &last);
    return within && last < n;
}

/* A tensor whose shape is not its weight's belongs to another program. */
static void check_tensor(Export *e, const Stored *t, int64_t count)
{
    if (t->weight < 0) return;
    const WeightInfo *weight = &e->session->model->weights[t->weight];
    const int64_t all = count_of(weight->rank, weight->dims);
    if (!dtype_is_float(t->dtype) || (t->view ? count > 0 && !lies_within(t, all) : count != all))
        e->status = fault_set(e->fault, STATUS_USER, "%s: \"%s\" has another shape or type than the program's: it belongs to another program",
                              e->skeleton, weight->name);
}

static Stored *add_tensor(Export *e, Bytes message)
{
    Stored t = {.weight = -1, .dtype = -1};
    int64_t count = 1;
    int field, wire;
    while (message.at < message.end && !message.broken && !e->status) {
        Bytes part = read_field(&message, &field, &wire), key, value;
        while (field == DIMS && part.at < part.end && !part.broken) {
            const int64_t dim = (int64_t)read_varint(&part);
            if (t.rank < MOST_DIMS) t.dims[t.rank] = dim;
            t.rank++;
            if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) damaged(e);
        }
        if (field == DATA_TYPE) t.dtype = onnx_dtype((int64_t)read_varint(&part));
        if (field == RAW_DATA) t.literal = part;
        if (field != EXTERNAL_DATA) continue;
        read_entry(part, &key, &value);
        if (text_is(key, "view")) read_place(e, &t, value);
        if (!text_is(key, "weight")) continue;
        t.weight = find_weight(e, value);
        if (t.weight < 0)
            e->status = fault_set(e->fault, STATUS_USER, "%s: wants a weight \"%.*s\", which this program does not have: it belongs to another program",
                                  e->skeleton, (int)(value.end - value.at), (const char *)value.at);
    }
    if (message.broken || (t.view && t.rank > MOST_DIMS)) damaged(e);
    if (!e->status) check_tensor(e, &t, count);
    if (e->status) return NULL;
    t.bytes = t.weight < 0 ? t.literal.end - t.literal.at : count * (int64_t)dtype_bytes(t.dtype);
    if (e->n == e->room) {
        const int room = e->room ? 2 * e->room : 256;
        Stored *more = realloc(e->tensors, (size_t)room * sizeof *more);
        if (!more) e->status = fault_memory(e->fault);
        if (!more) return NULL;
        e->tensors = more, e->room = room;
    }
    e->tensors[e->n] = t;
    return &e->tensors[e->n++];
}

static int64_t number_entry(Export *e, const char *key, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    const int64_t n = (int64_t)strlen(key) + (int64_t)strlen(text) + 4; /* each of the two has a key and a length of one byte */
    return put_key(e, EXTERNAL_DATA, DELIMITED, (uint64_t)n) + put_text(e, ENTRY_KEY, key) + put_text(e, ENTRY_VALUE, text);
}

static int64_t put_place(Export *e, const Stored *t)
{
    FileWriter *to = e->to;
    e->to = NULL;
    const int64_t inside = put_text(e, ENTRY_KEY, "location") + put_text(e, ENTRY_VALUE, e->location);
    e->to = to;
    int64_t n = put_key(e, EXTERNAL_DATA, DELIMITED, (uint64_t)inside) + put_text(e, ENTRY_KEY, "location") + put_text(e, ENTRY_VALUE, e->location);
    n += number_entry(e, "offset", t->offset) + number_entry(e, "length", t->bytes);
    return n + put_key(e, LOCATION, VARINT, 1);
}

static int64_t put_tensor(Export *e, Bytes message)
{
    const Stored *t = e->next == e->n ? add_tensor(e, message) : &e->tensors[e->next];
    e->next++;
    if (!t) return 0;
    if (t->weight < 0 && !t->beside) return put(e, message.at, message.end - message.at);
    int64_t n = 0;
    while (message.at < message.end) {
        int field, wire;
        const unsigned char *start = message.at;
        read_field(&message, &field, &wire);
        if (field != RAW_DATA && field != EXTERNAL_DATA && field != LOCATION) n += put(e, start, message.at - start);
    }
    if (t->beside) return n + put_place(e, t);
    return n + put_key(e, RAW_DATA, DELIMITED, (uint64_t)t->bytes) + put_data(e, t);
}

/* ---- messages ---- */
typedef enum { NOTHING, MODEL, GRAPH, FUNCTION, NODE, ATTRIBUTE, TENSOR } Kind;

/* Their fields, by onnx.proto3. */
enum { MODEL_GRAPH = 7, MODEL_FUNCTIONS = 25, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, FUNCTION_NODE = 7 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_T = 5, ATTRIBUTE_G = 6, ATTRIBUTE_TENSORS = 10, ATTRIBUTE_GRAPHS = 11 };

/* What a field holds, where tensors may lie in it. */
static Kind inside(Kind kind, int field)
{
    switch (kind) {
    case MODEL: return field == MODEL_GRAPH ? GRAPH : field == MODEL_FUNCTIONS ? FUNCTION : NOTHING;
    case GRAPH: return field == GRAPH_NODE ? NODE : field == GRAPH_INITIALIZER ? TENSOR : NOTHING;
    case FUNCTION: return field == FUNCTION_NODE ? NODE : NOTHING;
    case NODE: return field == NODE_ATTRIBUTE ? ATTRIBUTE : NOTHING;
    case ATTRIBUTE:
        return field == ATTRIBUTE_T || field == ATTRIBUTE_TENSORS ? TENSOR : field == ATTRIBUTE_G || field == ATTRIBUTE_GRAPHS ? GRAPH : NOTHING;
    default: return NOTHING;
    }
}

/* What of a node that does otherwise in training is left out for inference. */
typedef struct {
    int inputs, outputs; /* those from this number on */
    bool mode;           /* its attribute training_mode */
} Cut;

static Cut cut_of(Bytes node)
{
    Cut cut = {INT32_MAX, INT32_MAX, false};
    Bytes op = {0}, domain = {0};
    int field, wire;
    while (node.at < node.end && !node.broken) {
        const Bytes part = read_field(&node, &field, &wire);
        if (field == NODE_OP_TYPE) op = part;
        if (field == NODE_DOMAIN) domain = part;
    }
    if (domain.at != domain.end && !text_is(domain, "ai.onnx")) return cut;
    if (text_is(op, "BatchNormalization")) cut.outputs = 1, cut.mode = true;
    if (text_is(op, "Dropout")) cut.inputs = 2;
    return cut;
}

static bool is_named(Bytes attribute, const char *name)
{
    int field, wire;
    while (attribute.at < attribute.end && !attribute.broken) {
        const Bytes part = read_field(&attribute, &field, &wire);
        if (field == ATTRIBUTE_NAME) return text_is(part, name);
    }
    return false;
}

static bool is_cut(Cut *cut, int field, Bytes part)
{
    if (field == NODE_INPUT) return cut->inputs-- <= 0;
    if (field == NODE_OUTPUT) return cut->outputs-- <= 0;
    return field == NODE_ATTRIBUTE && cut->mode && is_named(part, "training_mode");
}

static int64_t put_message(Export *e, Bytes message, Kind kind)
{
    if (kind == TENSOR) return put_tensor(e, message);
    int64_t n = 0;
    Cut cut = e->inference && kind == NODE ? cut_of(message) : (Cut){INT32_MAX, INT32_MAX, false};
    while (message.at < message.end && !e->status) {
        int field, wire;
        const unsigned char *start = message.at;
        const Bytes part = read_field(&message, &field, &wire);
        if (message.broken) return damaged(e);
        if (kind == NODE && is_cut(&cut, field, part)) continue;
        const Kind of = wire == DELIMITED ? inside(kind, field) : NOTHING;
        if (!of) {
            n += put(e, start, message.at - start);
            continue;
        }
        FileWriter *to = e->to;
        const int next = e->next;
        e->to = NULL;
        const int64_t length = put_message(e, part, of);
        e->to = to;
        n += put_key(e, field, DELIMITED, (uint64_t)length) + length;
        if (to) e->next = next, put_message(e, part, of);
    }
    return n;
}

/* ---- files ---- */
static int64_t count_bytes(Export *e, Bytes whole)
{
    e->next = 0;
    return put_message(e, whole, MODEL);
}

/* Data of large tensors goes to the other file, one behind another; returns its bytes. */
static int64_t put_beside(Export *e)
{
    int64_t at = 0;
    for (int i = 0; i < e->n; i++) {
        Stored *t = &e->tensors[i];
        if (t->bytes < LARGE) continue;
        t->beside = true;
        t->offset = (at + PAGE - 1) / PAGE * PAGE;
        at = t->offset + t->bytes;
    }
    return at;
}

/* The data that a model refers to.  An older model of that name is gone before newer data stand beside it: the two never mix. */
static int write_data(Export *e, const char *path, const char *model_path)
{
    static const char zeros[PAGE];
    FileWriter writer;
    int64_t at = 0;
    e->status = file_writer_open(&writer, path, e->fault);
    e->to = &writer;
    for (int i = 0; i < e->n && !e->status; i++) {
        const Stored *t = &e->tensors[i];
        if (!t->beside) continue;
        put(e, zeros, t->offset - at);
        at = t->offset + put_data(e, t);
    }
    struct stat old;
    if (!e->status && !stat(model_path, &old) && S_ISREG(old.st_mode)) remove(model_path);
    if (!e->status) e->status = file_writer_commit(&writer, e->fault);
    file_writer_abandon(&writer);
    return e->status;
}

static int write_model(Export *e, Bytes whole, const char *path)
{
    FileWriter writer;
    e->status = file_writer_open(&writer, path, e->fault);
    e->to = &writer, e->next = 0;
    if (!e->status) put_message(e, whole, MODEL);
    if (!e->status) e->status = file_writer_commit(&writer, e->fault);
    file_writer_abandon(&writer);
    return e->status;
}

/* Whatever training changes has its place. */
static void check_whole(Export *e)
{
    const Model *m = e->session->model;
    for (int i = 0; i < m->n_weights && !e->status; i++) {
        bool placed = !m->weights[i].trainable && !m->weights[i].statistics;
        for (int k = 0; k < e->n && !placed; k++) placed = e->tensors[k].weight == i;
        if (!placed)
            e->status = fault_set(e->fault, STATUS_USER, "%s: has no place for the weight \"%s\": it belongs to another program; let disc-gen write it again",
                                  e->skeleton, m->weights[i].name);
    }
}

static int write_files(Export *e, Bytes whole, const char *path, int64_t most)
{
    char *beside = malloc(strlen(path) + sizeof ".data");
    if (!beside) return fault_memory(e->fault);
    strcpy(beside, path), strcat(beside, ".data");
    const char *slash = strrchr(beside, '/');
    e->location = slash ? slash + 1 : beside;
    int64_t bytes = count_bytes(e, whole);
    if (!e->status) check_whole(e);
    if (!e->status && bytes > most && put_beside(e)) {
        bytes = count_bytes(e, whole);
        if (bytes <= EXPORT_MOST) write_data(e, beside, path);
    }
    if (!e->status && bytes > EXPORT_MOST)
        e->status = fault_set(e->fault, STATUS_USER, "%s: the model has more than 2 GiB beside its weights, which no ONNX file may have", path);
    if (!e->status) write_model(e, whole, path);
    free(beside);
    return e->status;
}

int session_export(Session *session, const char *skeleton, const ExportOptions *options, Fault *fault)
{
    TensorFile file = {.path = skeleton};
    int status = file_map(&file, skeleton, fault);
    if (status) return status;
    Export e = {.session = session, .skeleton = skeleton, .inference = options->inference, .chunk = malloc(WEIGHT_CHUNK), .fault = fault};
    const Bytes whole = {file.map, (const unsigned char *)file.map + file.map_bytes, false};
    status = e.chunk ? write_files(&e, whole, options->path, options->most) : fault_memory(fault);
    free(e.chunk);
    free(e.tensors);
    tensor_file_close(&file);
    return status;
}
