/* For tests of what becomes of a graph: its text read, a training step made of it, kernels and a program of that.  Include it after the headers of cmocka. */
#ifndef WORLD_H
#define WORLD_H
#include <stdio.h>
#include "emit/controller.h"
#include "emit/step.h"

typedef struct {
    Arena *arena;
    Symbols *s;
    Graph *g;
    Project project;
    Options options;
    Layout *layout;
    Groups *groups;
    Program *p;
    const char *kernels;
} World;

static inline const char *read_all(Arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    Buf out = {.arena = arena};
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;) buf_write(&out, piece, n);
    fclose(file);
    return buf_text(&out);
}

static inline World world(const char *text)
{
    World w = {.arena = arena_new()};
    w.s = symbols_new(w.arena);
    w.g = graph_parse(w.arena, w.s, text);
    return w;
}

static inline World world_of_file(const char *path)
{
    World w = {.arena = arena_new()};
    w.s = symbols_new(w.arena);
    w.g = graph_parse(w.arena, w.s, read_all(w.arena, path));
    return w;
}

static inline void train(World *w, const char *optimizer)
{
    w->options = (Options){.model = "models/test.onnx", .out = "build", .optimizer = optimizer, .precision = "fp32"};
    for (int i = 0; i < w->g->inputs.n; i++) {
        Value *v = w->g->inputs.at[i];
        if (v->origin == FROM_WEIGHT) v->tensor->trainable = true;
    }
    Value **gradients = pass_gradient(w->g);
    pass_optimizer(w->g, gradients, &w->options);
    pass_decompose(w->g);
    pass_fold(w->g);
    pass_simplify(w->g);
}

static inline void emit(World *w, bool no_fuse)
{
    w->groups = pass_fuse(w->g, no_fuse);
    pass_schedule(w->groups);
    Kernels *k = kernels_new(w->arena, w->s);
    Launches *launches = launches_of(w->arena, k, w->s, w->groups);
    Map *names = map_new(w->arena);
    launches_kernels(launches, names);
    const char **taken = NEW_ARRAY(w->arena, const char *, map_count(names) + 1);
    for (int i = 0; i < map_count(names); i++) taken[i] = map_key(names, i);
    w->layout = layout_new(w->arena, w->s);
    layout_add(w->layout, w->g);
    layout_name(w->layout, taken, map_count(names));
    w->p = program_make(w->layout, w->g->name, w->groups, launches);
    w->kernels = kernels_text(k);
    w->project = (Project){
        .options = &w->options, .train = w->g, .loss = {.text = "mse(y)"}, .settings = "disc-gen models/test.onnx -o build"};
}

#endif
