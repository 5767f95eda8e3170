/* disc-gen: from an ONNX model to the source of a program that trains it.  The way of the data, one line a pass. */
#include "emit/emit.h"
#include "onnx/import.h"
#include "options.h"
#include "support/diag.h"
#include <stdio.h>
#include <string.h>

typedef struct Compilation {
    Arena *arena;
    Symbols *symbols;
    OnnxModel *model;
    const Options *options;
    Map *tensors; /* name -> Tensor, shared by the programs */
    ImportReport report;
} Compilation;

/* After each pass: --dump prints, and the graph is verified. */
static void after(Compilation *c, const Graph *g, const char *pass)
{
    graph_verify(g, pass);
    if (!c->options->dump || strcmp(c->options->dump, pass)) return;
    Buf text = {.arena = c->arena};
    graph_print(&text, g);
    fputs(buf_text(&text), stdout);
}

static Graph *import(Compilation *c, bool training)
{
    const ImportOptions how = {.training = training, .batch_norm = c->options->batch_norm};
    Graph *g = import_model(c->arena, c->symbols, c->model, &how, c->tensors, &c->report);
    pass_precision(g, c->options);
    after(c, g, "import");
    return g;
}

static void to_primitives(Compilation *c, Graph *g)
{
    pass_decompose(g), after(c, g, "decompose");
    pass_fold(g), after(c, g, "fold");
    pass_simplify(g), after(c, g, "simplify");
}

static Graph *training_program(Compilation *c, LossInfo *loss)
{
    Graph *g = import(c, true);
    g->name = "train";
    *loss = pass_loss(g, c->options, true), after(c, g, "loss");
    pass_fold(g), pass_simplify(g); /* what is folded now needs no gradient */
    Value **gradients = pass_gradient(g);
    after(c, g, "gradient");
    pass_optimizer(g, gradients, c->options), after(c, g, "optimizer");
    to_primitives(c, g);
    return g;
}

static Graph *evaluation_program(Compilation *c)
{
    Graph *g = import(c, false);
    g->name = "evaluate";
    pass_loss(g, c->options, false), after(c, g, "loss");
    to_primitives(c, g);
    return g;
}

static Graph *inference_program(Compilation *c)
{
    Graph *g = import(c, false);
    g->name = "infer";
    to_primitives(c, g);
    return g;
}

/* What a person wants to know before training: what was noticed, what trains, what the loss is. */
static void tell(Compilation *c, const Project *project)
{
    for (int i = 0; i < c->report.lines.n; i++) notice("%s", c->report.lines.at[i]);
    if (c->options->inference) return;
    fputs(project->trainable_table, stdout);
    const LossInfo *loss = &project->loss;
    printf("loss: %s%s%s\n", loss->text, loss->guessed ? ", guessed: " : "", loss->guessed ? loss->why : "");
    if (loss->guessed)
        printf("      if that is wrong, say it with --loss: %s, with OUT one of the model's outputs\n", loss->alternatives);
    printf("optimizer: %s\n", c->options->optimizer);
}

int main(int argc, char **argv)
{
    Arena *arena = arena_new();
    Options options;
    options_parse(&options, arena, argc, argv);
    Compilation c = {.arena = arena,
                     .symbols = symbols_new(arena),
                     .options = &options,
                     .tensors = map_new(arena),
                     .report = {.arena = arena, .seen = map_new(arena)}};
    c.model = onnx_read(arena, options.model, options.init != NULL);
    Project project = {.options = &options, .settings = options_text(arena, argc, argv)};

    pass_dims(c.symbols, c.model, &options, arena);
    project.trainable_table = pass_trainable(c.model, &options, arena, c.tensors);
    if (options.inference) {
        project.infer = inference_program(&c);
    } else {
        project.train = training_program(&c, &project.loss);
        project.evaluate = evaluation_program(&c);
    }
    if (!options.dump) {
        tell(&c, &project);
        emit_project(&project, arena, c.symbols);
    }
    arena_free(arena);
    return 0;
}
