/* Recognises what ONNX Runtime's training tools leave behind: training, evaluation and optimizer graphs.  They look like models,
 * but hold a loss, gradients or updates already, and keep their weights elsewhere; the model to give is the one they were made
 * from. */
#define _POSIX_C_SOURCE 200809L /* openat, mmap, readdir */
#include "onnx/reader.h"
#include "support/diag.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_one_of(const char *text, const char *const *list)
{
    while (*list)
        if (strcmp(text, *list++) == 0) return true;
    return false;
}

/* ---- nodes of a training step ---- */

static bool is_training_node(const Onnx__NodeProto *node)
{
    static const char *const updates[] = {
        "SGD",           "SGDOptimizer",       "SGDOptimizerV2",       "AdamOptimizer",       "AdamWOptimizer",
        "LambOptimizer", "InPlaceAccumulator", "InPlaceAccumulatorV2", "GradientAccumulator", NULL};
    const char *domain = plain_domain(node->domain), *op = text_or_empty(node->op_type);
    if (*domain && strncmp(domain, "com.microsoft", strlen("com.microsoft")) != 0) return false;
    return is_one_of(op, updates) || ends_with(op, "Grad");
}

static const char *training_node(Arena *arena, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        if (!is_training_node(node)) continue;
        const char *name = text_or_empty(node->name);
        if (!*name && node->n_output) name = node->output[0];
        return arena_text(arena, "\"%s\" (%s, node %zu)", name, node->op_type, i);
    }
    return NULL;
}

/* ---- evaluation graphs: a loss, and all weights come from outside ---- */

static bool has_loss(const Onnx__GraphProto *graph)
{
    static const char *const losses[] = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", NULL};
    for (size_t i = 0; i < graph->n_node; i++)
        if (is_one_of(text_or_empty(graph->node[i]->op_type), losses)) return true;
    return false;
}

/* Its shape is fixed, as a weight's is. */
static bool is_fixed(const Onnx__ValueInfoProto *info)
{
    const Onnx__TypeProto__Tensor *type = info->type ? info->type->tensor_type : NULL;
    if (!type || !type->shape || !type->shape->n_dim) return false;
    for (size_t i = 0; i < type->shape->n_dim; i++)
        if (!type->shape->dim[i]->has_dim_value) return false;
    return true;
}

/* The name of an input that a node takes as its weight, where no such node has a weight of the model's own. */
static const char *weight_from_outside(Arena *arena, const Onnx__GraphProto *graph)
{
    static const char *const weighted[] = {"Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN", NULL};
    Map *fixed = map_new(arena), *own = map_new(arena);
    for (size_t i = 0; i < graph->n_initializer; i++) map_set(own, text_or_empty(graph->initializer[i]->name), arena);
    for (size_t i = 0; i < graph->n_input; i++)
        if (is_fixed(graph->input[i])) map_set(fixed, text_or_empty(graph->input[i]->name), arena);
    const char *found = NULL;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *node = graph->node[i];
        if (node->n_input < 2 || !is_one_of(text_or_empty(node->op_type), weighted)) continue;
        if (map_has(own, node->input[1])) return NULL;
        if (!found && map_has(fixed, node->input[1])) found = node->input[1];
    }
    return found;
}

/* What makes the model an artifact, in words that follow "FILE: "; NULL where it is none. */
static const char *artifact(Arena *arena, const Onnx__ModelProto *proto)
{
    const char *node = training_node(arena, proto->graph);
    if (node)
        return arena_text(arena, "is a training graph that ONNX Runtime made, not a model: %s belongs to a training step", node);
    if (!has_loss(proto->graph)) return NULL;
    const char *weight = weight_from_outside(arena, proto->graph);
    if (weight)
        return arena_text(arena,
                          "is an evaluation graph that ONNX Runtime's training tools made: it has a loss, and its weights (\"%s\", "
                          "…) are inputs without values",
                          weight);
    return NULL;
}

/* ---- what to give instead ---- */

static bool is_model(const char *path)
{
    Arena *arena = arena_new();
    MappedFile file = file_map(arena, path);
    bool good = !file.error && !other_format(file.bytes, file.size) &&
                !scan_message(arena, &onnx__model_proto__descriptor, file.bytes, file.size);
    if (good) {
        const Onnx__ModelProto *proto = (void *)unpack_message(arena, &onnx__model_proto__descriptor, file.bytes, file.size);
        good = proto->graph && proto->graph->n_node && !artifact(arena, proto);
    }
    file_unmap(file);
    arena_free(arena);
    return good;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Other .onnx files in the folder, sorted. */
static int models_beside(Arena *arena, const char *path, const char ***out)
{
    const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path;
    VEC(const char *) names = {0};
    DIR *folder = opendir(folder_of(arena, path));
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (ends_with(entry->d_name, ".onnx") && strcmp(entry->d_name, own) != 0)
            vec_push(arena, &names, arena_copy(arena, entry->d_name, strlen(entry->d_name)));
    if (folder) closedir(folder);
    if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, by_name);
    *out = names.at;
    return names.n;
}

const char *artifact_advice(Arena *arena, const char *path)
{
    enum { TRIED = 32, SHOWN = 3 };
    const char **names;
    int n = models_beside(arena, path, &names), found = 0;
    Buf list = {.arena = arena};
    for (int i = 0; i < n && i < TRIED && found < SHOWN; i++)
        if (is_model(arena_text(arena, "%s/%s", folder_of(arena, path), names[i])))
            buf_printf(&list, "%s\"%s\"", found++ ? " or " : "", names[i]);
    if (!found) return "give the forward (inference) model that it was made from";
    return arena_text(arena, "give the forward model instead: %s in the same folder", buf_text(&list));
}

void artifact_refuse(Reader *r, const Onnx__ModelProto *proto)
{
    const char *what = artifact(r->arena, proto);
    if (what) error_exit("%s: %s; %s", r->path, what, artifact_advice(r->arena, r->path));
}
