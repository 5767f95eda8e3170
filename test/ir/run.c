/* Runs passes on text: each file in test/ir holds what to run, a graph, and the graph that must come out.
 *
 *     # softmax in the form that does not overflow
 *     run: decompose, simplify
 *     graph t(n: 1..64)
 *       …
 *     expect:
 *     graph t(n: 1..64)
 *       …
 *
 * run [FILE | FOLDER]…; without arguments test/ir.  UPDATE=1 writes what came out in the place of what was expected. */
#define _POSIX_C_SOURCE 200809L /* scandir */
#include "passes/passes.h"
#include "support/diag.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- passes by name ---- */
static void run_gradient(Graph *g) /* gradients become outputs */
{
    Value **gradients = pass_gradient(g);
    pass_short_gradients(g, gradients);
    int n = g->outputs.n;
    const char **names = NEW_ARRAY(g->arena, const char *, n + g->inputs.n + 1);
    for (int i = 0; i < n; i++) names[i] = g->output_names[i];
    for (int i = 0; i < g->inputs.n; i++) {
        if (!gradients[i]) continue;
        names[g->outputs.n] = arena_text(g->arena, "gradient:%s", g->inputs.at[i]->name);
        vec_push(g->arena, &g->outputs, gradients[i]);
    }
    g->output_names = names;
    graph_prune(g);
}

static void run_double(Graph *g)
{
    pass_precision(g, &(Options){.precision = "fp64"});
}

static void run_short_of(Graph *g, const char *precision)
{
    pass_short_products(g, &(Options){.precision = precision});
}
static void run_bf16(Graph *g)
{
    run_short_of(g, "bf16");
}
static void run_fp16(Graph *g)
{
    run_short_of(g, "fp16");
}

static void run_stash(Graph *g)
{
    pass_stash(g, NULL);
}

static void run_recognise(Graph *g)
{
    pass_recognise(g, NULL);
}

static void run_row_blocks(Graph *g)
{
    pass_row_blocks(g, false, NULL);
}

static void run_lean_row_blocks(Graph *g)
{
    pass_row_blocks(g, true, NULL);
}

static const struct {
    const char *name;
    void (*pass)(Graph *);
} passes[] = {
    {"gradient", run_gradient},  {"decompose", pass_decompose}, {"fold", pass_fold},
    {"simplify", pass_simplify}, {"accumulate", pass_accumulate}, {"fp64", run_double},          {"stash", run_stash},
    {"recognise", run_recognise}, {"decompose_attention", pass_decompose_attention},
    {"lay_out", pass_lay_out},   {"algebra", pass_algebra},     {"conditions", pass_conditions},
    {"sink", pass_sink},
    {"bf16", run_bf16},          {"fp16", run_fp16},
    {"row_blocks", run_row_blocks}, {"lean_row_blocks", run_lean_row_blocks},
};

static void run_named(Graph *g, const char *name, size_t length, const char *file)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (strlen(passes[i].name) != length || strncmp(passes[i].name, name, length) != 0) continue;
        passes[i].pass(g);
        graph_verify(g, passes[i].name);
        return;
    }
    error_exit("%s: there is no pass \"%.*s\"", file, (int)length, name);
}

/* ---- one file ---- */
static char *read_file(Arena *arena, const char *path)
{
    FILE *f = fopen(path, "rb");
    Buf text = {.arena = arena};
    char block[4096];
    if (!f) error_exit("cannot read %s", path);
    for (size_t n; (n = fread(block, 1, sizeof block, f));) buf_write(&text, block, n);
    fclose(f);
    return text.text ? text.text : (char *)"";
}

static char *find_line(char *text, const char *mark) /* the line break before it */
{
    for (char *at = text; (at = strchr(at, '\n')); at++)
        if (strncmp(at + 1, mark, strlen(mark)) == 0) return at;
    return NULL;
}

static char *after(char *text, const char *mark, const char *path) /* cuts text at the mark and returns what follows its line */
{
    char *at = strncmp(text, mark, strlen(mark)) == 0 ? text : find_line(text, mark);
    if (!at) error_exit("%s: no line \"%s\"", path, mark);
    if (at != text) at++;
    char *rest = at + strlen(mark);
    *at = 0;
    return rest;
}

static void update(const char *path, const char *head, const char *found)
{
    FILE *f = fopen(path, "wb");
    if (!f) error_exit("cannot write %s", path);
    fprintf(f, "%sexpect:\n%s", head, found);
    fclose(f);
}

static int first_difference(const char *a, const char *b)
{
    int line = 1;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return *a == *b ? 0 : line;
}

static bool run_file(const char *path)
{
    Arena *arena = arena_new();
    char *head = read_file(arena, path), *text = read_file(arena, path);
    after(head, "expect:", path);
    char *wanted = after(text, "expect:", path) + 1, *list = after(text, "run:", path), *graph = strchr(list, '\n');
    if (!graph) error_exit("%s: no graph", path);
    Graph *g = graph_parse(arena, symbols_new(arena), graph);
    graph_verify(g, "parse");
    while (list < graph) {
        list += strspn(list, " ,");
        size_t length = strcspn(list, " ,\n");
        if (length) run_named(g, list, length, path);
        list += length + (list[length] == '\n');
    }
    Buf found = {.arena = arena};
    graph_print(&found, g);
    int line = first_difference(buf_text(&found), wanted);
    if (line && getenv("UPDATE"))
        update(path, head, buf_text(&found));
    else if (line)
        printf("%s: differs from line %d of the result on; it is\n%s", path, line, buf_text(&found));
    bool good = !line || getenv("UPDATE");
    arena_free(arena);
    return good;
}

/* ---- files ---- */
static int is_text(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 4 && strcmp(entry->d_name + n - 4, ".txt") == 0;
}

static int run_path(const char *path, int *ran)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_text, alphasort), failed = 0;
    if (n < 0) {
        ++*ran;
        return !run_file(path);
    }
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        ++*ran;
        failed += !run_file(file);
        free(entries[i]);
    }
    free(entries);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, ran = 0;
    if (argc == 1) failed = run_path("test/ir", &ran);
    for (int i = 1; i < argc; i++) failed += run_path(argv[i], &ran);
    printf("%d of %d as expected\n", ran - failed, ran);
    return failed != 0 || ran == 0;
}
