/* disc-gen: from an ONNX model to the source of a program that trains it.  The way of the data, one line a pass. */
#include "emit/emit.h"
#include "onnx/import.h"
#include "options.h"
#include "support/diag.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Compilation {
    Arena *arena;
    Symbols *symbols;
    OnnxModel *model;
    const Options *options;
    Map *tensors; /* name -> Tensor, shared by the programs */
    ImportReport report;
} Compilation;

/* Whether the graph is verified after the pass: every time, but for a graph so large that this would take a tenth of all time, where
 * the passes leave it to each other for so long. */
static bool verifies(const Graph *g, const char *pass)
{
    enum { SOON_SEEN = 200000 }; /* operations */
    static const char *const milestones[] = {"import", "optimizer", "row_blocks", "stash"};
    bool is_one = g->ops.n <= SOON_SEEN;
    for (size_t i = 0; i < sizeof milestones / sizeof *milestones; i++) is_one |= !strcmp(pass, milestones[i]);
    return is_one;
}

static void verify(const Graph *g, const char *pass)
{
    if (verifies(g, pass)) graph_verify(g, pass);
}

/* After each pass: --dump prints, and the graph is verified. */
static void after(Compilation *c, const Graph *g, const char *pass)
{
    verify(g, pass);
    if (!c->options->dump || strcmp(c->options->dump, pass)) return;
    Buf text = {.arena = c->arena};
    graph_print(&text, g);
    fputs(buf_text(&text), stdout);
}

static Graph *import(Compilation *c, bool training)
{
    const ImportOptions how = {.training = training, .batch_norm = c->options->batch_norm};
    reading(c->options->model);
    Graph *g = import_model(c->arena, c->symbols, c->model, &how, c->tensors, &c->report);
    reading(NULL);
    pass_precision(g, c->options);
    after(c, g, "import");
    return g;
}

/* What was found, and what was left and why, is told above the graph. */
static void recognise(Compilation *c, Graph *g)
{
    Buf found = {.arena = c->arena};
    pass_recognise(g, &found);
    if (c->options->dump && !strcmp(c->options->dump, "recognise")) fputs(buf_text(&found), stdout);
    after(c, g, "recognise");
}

static void prepare(Compilation *c, Graph *g)
{
    pass_fold(g), pass_simplify(g);
    recognise(c, g);
    pass_short_products(g, c->options), after(c, g, "short");
}

static void to_primitives(Compilation *c, Graph *g)
{
    pass_decompose(g);
    if (c->options->no_fuse) pass_decompose_attention(g);
    after(c, g, "decompose");
    pass_fold(g), after(c, g, "fold");
    pass_simplify(g), after(c, g, "simplify");
    pass_algebra(g), pass_conditions(g), after(c, g, "algebra");
    pass_fold(g), pass_simplify(g), pass_sink(g), verify(g, "sink");
    if (!c->options->no_fuse) pass_lay_out(g), verify(g, "lay out");
}

/* Bytes alive at once, at the likely dims, in the order and the kernels that the program will have. */
static int64_t peak_of(const Compilation *c, const Graph *g, Arena *scratch)
{
    Graph borrowed = *g;
    borrowed.arena = scratch;
    return schedule_peak(pass_fuse(&borrowed, c->options->no_fuse));
}

/* What the pass found is told above the graph. */
static void row_blocks(Compilation *c, Graph *g)
{
    Buf found = {.arena = c->arena};
    if (c->options->no_fuse) return;
    pass_accumulate(g), after(c, g, "accumulate");
    pass_row_blocks(g, false, &found);
    if (c->options->dump && !strcmp(c->options->dump, "row_blocks")) fputs(buf_text(&found), stdout);
    after(c, g, "row_blocks");
}

static bool stash_pays(const Compilation *c, const Graph *g)
{
    Arena *scratch = arena_new();
    Graph borrowed = *g;
    borrowed.arena = scratch;
    Graph *copy = graph_clone(&borrowed, g->name, NULL);
    pass_stash(copy, NULL);
    const bool pays = peak_of(c, copy, scratch) < peak_of(c, g, scratch);
    arena_free(scratch);
    return pays;
}

/* Tried on a copy first: where it makes the peak no lower, all that the backward pass reads is kept.  What is kept is told above
 * the graph. */
static void stash(Compilation *c, Graph *g)
{
    Buf kept = {.arena = c->arena};
    if (stash_pays(c, g))
        pass_stash(g, &kept);
    else
        buf_put(&kept, "# kept for the backward pass: all that it reads; remaking some of it does not lower the peak\n");
    if (c->options->dump && !strcmp(c->options->dump, "stash")) fputs(buf_text(&kept), stdout);
    after(c, g, "stash");
}

/* The same step with products done again, where that lets more rows run in blocks: for budgets that want it. */
static Graph *lean_program(Compilation *c, Graph *g, int *again)
{
    if (c->options->no_fuse) return NULL;
    Buf found = {.arena = c->arena};
    Arena *own = arena_child(c->arena);
    Graph borrowed = *g;
    borrowed.arena = own;
    Graph *lean = graph_clone(&borrowed, "train_lean", NULL);
    pass_accumulate(lean);
    *again = pass_row_blocks(lean, true, &found);
    if (!*again) {
        arena_reset(own);
        return NULL;
    }
    if (c->options->dump && !strcmp(c->options->dump, "row_blocks")) fputs(buf_text(&found), stdout);
    after(c, lean, "row_blocks");
    return lean;
}

static Graph *training_program(Compilation *c, Project *project)
{
    Graph *g = import(c, true);
    g->name = "train";
    project->loss = pass_loss(g, c->options, true), after(c, g, "loss");
    prepare(c, g); /* what is folded now needs no gradient */
    Value *unscaled = pass_scale_loss(g, c->options), **gradients = pass_gradient(g);
    g->outputs.at[0] = unscaled;
    pass_short_gradients(g, gradients);
    after(c, g, "gradient");
    pass_optimizer(g, gradients, c->options), after(c, g, "optimizer");
    to_primitives(c, g);
    project->lean = lean_program(c, g, &project->lean_again);
    row_blocks(c, g);
    stash(c, g);
    if (project->lean) stash(c, project->lean);
    return g;
}

static Graph *evaluation_program(Compilation *c)
{
    Graph *g = import(c, false);
    g->name = "evaluate";
    pass_loss(g, c->options, false), after(c, g, "loss");
    prepare(c, g);
    to_primitives(c, g);
    row_blocks(c, g);
    return g;
}

static Graph *inference_program(Compilation *c)
{
    Graph *g = import(c, false);
    g->name = "infer";
    prepare(c, g);
    to_primitives(c, g);
    row_blocks(c, g);
    return g;
}

/* 1234567 -> 1.2 M */
static const char *rounded(Arena *arena, double n)
{
    return n < 10000 ? arena_text(arena, "%.0f", n)
           : n < 1e6 ? arena_text(arena, "%.1f k", n / 1e3)
                     : arena_text(arena, "%.1f M", n / 1e6);
}

static int64_t elements_of(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

/* A weight on which the loss does not depend stays as it is: perhaps the loss was meant to be another. */
static void tell_unreached(const Compilation *c, const Graph *train)
{
    Map *gradients = map_new(c->arena);
    Buf names = {.arena = c->arena};
    int n = 0;
    for (int i = 0; i < train->outputs.n; i++) map_set(gradients, train->output_names[i], c->arena);
    for (int i = 0; i < map_count(c->tensors); i++) {
        const Tensor *t = map_value(c->tensors, i);
        if (!t->trainable || map_has(gradients, arena_text(c->arena, "gradient:%s", t->name))) continue;
        if (n++ < 3) buf_printf(&names, "%s\"%s\"", n > 1 ? ", " : "", t->name);
    }
    if (n)
        notice("the loss does not depend on %s%s: %s", buf_text(&names), n > 3 ? ", …" : "",
               n > 1 ? "they stay as they are" : "it stays as it is");
}

/* The table where it is short.  Where it is long: counts, and what does not train but could be taken for a weight. */
static void tell_table(const Compilation *c, const char *table)
{
    enum { SHORT = 32, FROZEN_SHOWN = 12 };
    int trained = 0, frozen = 0, numbers = 0, statistics = 0, shown = 0;
    double elements = 0;
    for (int i = 0; i < map_count(c->tensors); i++) {
        const Tensor *t = map_value(c->tensors, i);
        if (t->trainable)
            trained++, elements += (double)elements_of(t);
        else if (t->statistics)
            statistics++;
        else if (elements_of(t) == 1)
            numbers++;
        else
            frozen++;
    }
    if (trained + frozen + numbers + statistics <= SHORT) {
        fputs(table, stdout);
        return;
    }
    printf("trains: %d tensors, %s numbers\n", trained, rounded(c->arena, elements));
    if (statistics + numbers + frozen)
        printf("frozen: %d running statistics, %d single numbers, %d others\n", statistics, numbers, frozen);
    for (int i = 0; i < map_count(c->tensors) && frozen; i++) {
        const Tensor *t = map_value(c->tensors, i);
        if (t->trainable || t->statistics || elements_of(t) == 1) continue;
        if (shown++ < FROZEN_SHOWN) printf("  frozen \"%s\": %s\n", t->name, t->reason);
    }
    if (shown > FROZEN_SHOWN) printf("  … and %d more\n", shown - FROZEN_SHOWN);
    printf("  each with its reason: %s/trainable.txt, which can be edited and given back with --trainable\n", c->options->out);
}

/* What a person wants to know before training: what was noticed, what trains, what the loss is. */
static void tell(Compilation *c, const Project *project)
{
    for (int i = 0; i < c->report.lines.n; i++) notice("%s", c->report.lines.at[i]);
    if (c->options->inference) return;
    tell_unreached(c, project->train);
    tell_table(c, project->trainable_table);
    const LossInfo *loss = &project->loss;
    printf("loss: %s%s%s\n", loss->text, loss->guessed ? ", guessed: " : "", loss->guessed ? loss->why : "");
    if (loss->guessed)
        printf("      if that is wrong, say it with --loss: %s, with OUT one of the model's outputs\n", loss->alternatives);
    printf("optimizer: %s\n", c->options->optimizer);
}

/* Standard streams that are closed stay so: the next file opened would take their place, and get what is said. */
static void hold_standard_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) return;
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error with a message */
    Arena *arena = arena_new();
    Options options;
    options_parse(&options, arena, argc, argv);
    Compilation c = {.arena = arena,
                     .symbols = symbols_new(arena),
                     .options = &options,
                     .tensors = map_new(arena),
                     .report = {.arena = arena, .seen = map_new(arena)}};
    c.model = onnx_read(arena, options.model, options.init != NULL);
    Project project = {.options = &options, .model = c.model, .settings = options_text(arena, &options, argc, argv)};

    pass_dims(c.symbols, c.model, &options, arena);
    project.trainable_table = pass_trainable(c.model, &options, arena, c.tensors);
    if (options.inference) {
        project.infer = inference_program(&c);
    } else {
        project.train = training_program(&c, &project);
        project.evaluate = evaluation_program(&c);
    }
    pass_dims_check(c.symbols);
    if (options.dump && strcmp(options.dump, "fuse") == 0) {
        Graph *const graphs[] = {project.train, project.evaluate, project.infer};
        Buf text = {.arena = arena};
        for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
            if (graphs[i]) fuse_print(&text, pass_fuse(graphs[i], options.no_fuse), arena);
        fputs(buf_text(&text), stdout);
    }
    if (!options.dump) {
        tell(&c, &project);
        emit_project(&project, arena, c.symbols);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) error_exit("standard output cannot be written: %s", strerror(errno));
    arena_free(arena);
    return 0;
}
