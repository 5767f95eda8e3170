/* Emits the kernels of small graphs, and a program that runs each graph with them and compares with the interpreter.
 *
 *     kernels OUT_DIR CASE.ir…      writes OUT_DIR/cases.cu and OUT_DIR/cases.bin; built, `cases OUT_DIR/cases.bin` runs them
 *
 * A case is a graph in text form after lines of settings:
 *     # dims batch=2, seq=7         run at these dims; several lines: several runs
 *     # range x -3 3                what input x is filled with (default -2..2; integers -4..4, bool 0..1)
 *     # nan x                       every seventh element of x is NaN
 *     # tolerance 1e-4              relative to the largest element (default 2e-5)
 *     # train attention              the graph's first output is a loss: attention is recognised, and gradients of weights, and of
 *                                   what else is called so, become outputs; the interpreter has them of the graph as it stands
 *     # train cell                   the same, and nothing need be recognised
 *     # precision bf16              of a case that trains: products and attention are short; the interpreter's are not
 * Every case runs fused and unfused. */
#include "emit/emit.h"
#include "ir/build.h"
#include "support/diag.h"
#include "test/support/interpret.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Arena *arena;
    Symbols *symbols;
    Graph *g;
    const char *name, *text;
    double tolerance;
    FILE *data;
    Buf *out;
    const char **pointer; /* of each value by id */
    int64_t *dims;
} Case;

/* ---- settings ---- */
/* The next line "# KEY rest" at or after *at, or NULL. */
static const char *setting(Case *c, const char *key, const char **at)
{
    const size_t n = strlen(key);
    for (const char *p = *at; *p == '#'; p = strchr(p, '\n') + 1) {
        if (strncmp(p + 2, key, n) != 0 || p[2 + n] != ' ') continue;
        const char *from = p + 3 + n, *end = strchr(p, '\n');
        *at = end + 1;
        return arena_copy(c->arena, from, (size_t)(end - from));
    }
    return NULL;
}

static void range_of(Case *c, const Value *v, double *low, double *high, bool *nan)
{
    *low = dtype_is_float(v->dtype) ? -2 : v->dtype == DTYPE_bool || !dtype_is_signed(v->dtype) ? 0 : -4;
    *high = dtype_is_float(v->dtype) ? 2 : v->dtype == DTYPE_bool ? 1 : 4;
    *nan = false;
    for (const char *at = c->text, *s; (s = setting(c, "range", &at));) {
        char name[64];
        double l, h;
        if (sscanf(s, "%63s %lf %lf", name, &l, &h) == 3 && strcmp(name, v->name) == 0) *low = l, *high = h;
    }
    for (const char *at = c->text, *s; (s = setting(c, "nan", &at));) *nan = *nan || strcmp(s, v->name) == 0;
}

static uint64_t random_state = 1;
static double random_unit(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 40) / (1 << 24);
}

static Array fill_input(Case *c, const Value *v)
{
    Array a = array_for(c->arena, c->g, v, c->dims);
    double low, high;
    bool nan;
    range_of(c, v, &low, &high, &nan);
    for (int64_t i = 0; i < a.n; i++) {
        const double x =
            dtype_is_float(v->dtype) ? low + (high - low) * random_unit() : floor(low + (high - low + 1) * random_unit());
        double rounded;
        element_write(v->dtype, &rounded, 0, nan && i % 7 == 3 ? NAN : x);
        a.at[i] = element_read(v->dtype, &rounded, 0);
    }
    return a;
}

/* ---- training ---- */
static void add_gradients(Graph *g)
{
    Value **gradients = pass_gradient(g);
    pass_short_gradients(g, gradients);
    const int n = g->outputs.n;
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

/* What the graph that runs must agree with. */
static Graph *plain(Case *c, bool fused)
{
    Graph *reference = graph_clone(c->g, c->g->name, NULL);
    pass_decompose_attention(reference);
    if (!fused) pass_decompose_attention(c->g);
    return reference;
}

static Graph *trained(Case *c, bool fused, const char *what)
{
    Graph *reference = graph_clone(c->g, c->g->name, NULL);
    add_gradients(reference);
    pass_recognise(c->g, NULL);
    int found = 0;
    for (int o = 0; o < c->g->ops.n; o++) found += c->g->ops.at[o]->kind == OP_attention;
    if (!found && strcmp(what, "attention") == 0) error_exit("%s: no attention was recognised", c->name);
    const char *at = c->text, *precision = setting(c, "precision", &at);
    if (precision) pass_short_products(c->g, &(Options){.precision = precision});
    add_gradients(c->g);
    pass_decompose(c->g);
    if (!fused) pass_decompose_attention(c->g);
    pass_fold(c->g), pass_simplify(c->g);
    if (fused) pass_lay_out(c->g);
    graph_verify(c->g, c->name);
    return reference;
}

/* ---- running a graph as text ---- */
static const char *number(Case *c, const Expr *e)
{
    int64_t n;
    if (!expr_evaluate(c->symbols, e, c->dims, &n)) bug("%s: no value for %s", c->name, expr_text(c->arena, e));
    return arena_text(c->arena, "%lld", (long long)n);
}

static const char *make_pointer(Case *c, Value *v)
{
    if (c->pointer[v->id]) return c->pointer[v->id];
    const char *name = arena_text(c->arena, "v%d", v->id);
    buf_printf(c->out, "    %s *%s = fresh<%s>(%s);\n", dtype_c(v->dtype), name, dtype_c(v->dtype),
               number(c, value_count(c->g, v)));
    return c->pointer[v->id] = name;
}

/* The most that the kernel's indices come to at the case's dims, as the generator says. */
static int64_t reach_of(Case *c, const Launch *l)
{
    int64_t most = 0, n;
    for (int i = 0; i < l->reach.n; i++) {
        if (!expr_evaluate(c->symbols, l->reach.at[i], c->dims, &n)) bug("%s: no value for %s", c->name, expr_text(c->arena, l->reach.at[i]));
        if (n > most) most = n;
    }
    return most;
}

static bool in_fours(Case *c, const Launch *l)
{
    int64_t n;
    for (int i = 0; i < l->fours_if.n; i++) {
        if (!expr_evaluate(c->symbols, l->fours_if.at[i], c->dims, &n)) bug("%s: no value for %s", c->name, expr_text(c->arena, l->fours_if.at[i]));
        if (n % 4) return false;
    }
    return true;
}

static void put_epilogue(Case *c, const Launch *l)
{
    buf_printf(c->out, l->fours_if.n ? "EPILOGUE_FOURS(s, %s, %s, " : "EPILOGUE(s, %s, ", l->kernel, in_fours(c, l) ? "true" : "false");
    if (l->each)
        buf_printf(c->out, "rows(%s, %s, %s), %d)(", number(c, l->blocks), number(c, l->each), number(c, l->shares), l->threads);
    else
        buf_printf(c->out, "%s(%s), %d)(", l->fours ? "fours" : "elements", number(c, l->blocks), l->threads);
}

static void put_launch(Case *c, const Launch *l)
{
    if (l->indexed || l->epilogue) buf_printf(c->out, "    s->narrow = reaches(%lld);\n", (long long)reach_of(c, l));
    const char *macro = l->fours_if.n ? "LAUNCH_FOURS" : l->indexed ? "LAUNCH" : "LAUNCH_PLAIN";
    const char *kernel = l->fours_if.n ? arena_text(c->arena, "%s, %s", l->kernel, in_fours(c, l) ? "true" : "false") : l->kernel;
    if (l->library)
        buf_printf(c->out, "    %s(s", l->kernel);
    else if (l->each)
        buf_printf(c->out, "    %s(s, %s, rows(%s, %s), %d)(", macro, kernel, number(c, l->blocks), number(c, l->each), l->threads);
    else
        buf_printf(c->out, "    %s(s, %s, %s(%s), %d)(", macro, kernel, l->fours ? "fours" : "elements", number(c, l->blocks), l->threads);
    const Launch *of = l; /* whose epilogue comes next */
    for (int i = 0; i < l->args.n; i++) {
        const Arg *a = &l->args.at[i];
        const bool begins = of->epilogue && i == of->own;
        if (begins && of != l) buf_put(c->out, ")");
        buf_put(c->out, i || l->library ? ", " : "");
        if (begins) put_epilogue(c, of = of->epilogue);
        switch (a->kind) {
        case ARG_VALUE: buf_put(c->out, c->pointer[a->value->id] ? c->pointer[a->value->id] : "nowhere"); break;
        case ARG_EXPR: buf_put(c->out, number(c, a->expr)); break;
        case ARG_HYPER: buf_printf(c->out, "*%s", c->pointer[a->value->id]); break;
        case ARG_HYPERS:
        case ARG_STATE: bug("%s: no case has an update of weights", c->name);
        case ARG_SEED: buf_put(c->out, "s->seed"); break;
        case ARG_KEPT: buf_put(c->out, "s->kept"); break;
        case ARG_LATER: buf_put(c->out, "false"); break; /* no case has loops over blocks */
        case ARG_STEP: buf_put(c->out, "s->number"); break;
        case ARG_SCRATCH: buf_printf(c->out, "(%s *)(scratch + %s)", a->type, a->expr ? number(c, a->expr) : "0"); break;
        }
    }
    buf_put(c->out, l->epilogue ? "));\n" : ");\n");
}

static void put_group(Case *c, Kernels *kernels, const Group *group)
{
    const Op *op = group->ops.at[group->ops.n - 1];
    if (group->kind == GROUP_VIEW) {
        c->pointer[op->out[0]->id] = c->pointer[op->in[0]->id];
        return;
    }
    if (group->kind == GROUP_COMMIT || group->kind == GROUP_FINITE) return;
    GroupLaunches made;
    kernels_emit(kernels, group, &made);
    for (int i = 0; i < group->assigns.n; i++) {
        const Op *assign = group->assigns.at[i];
        c->pointer[assign->in[1]->id] = c->pointer[assign->in[0]->id];
    }
    for (int i = 0; i < group->out.n; i++) make_pointer(c, group->out.at[i]);
    if (made.scratch) buf_printf(c->out, "    scratch = fresh<char>(%s);\n", number(c, made.scratch));
    for (int i = 0; i < made.n; i++) put_launch(c, &made.at[i]);
}

/* Loops around launches are the step's text, not a kernel's: run by test/reference and test/conformance. */
static bool has_region(const Groups *groups)
{
    for (int i = 0; i < groups->list.n; i++)
        if (groups->list.at[i]->kind == GROUP_REGION) return true;
    return false;
}

static void put_compare(Case *c, Value *v, const char *name, double tolerance)
{
    buf_printf(c->out, "    compare(s, data, %s, %s, \"%s: %s\", %g);\n", c->pointer[v->id], number(c, value_count(c->g, v)),
               c->name, name, tolerance);
}

static void write_array(Case *c, const Array *a)
{
    if (a->n && fwrite(a->at, sizeof *a->at, (size_t)a->n, c->data) != (size_t)a->n) bug("cases.bin cannot be written");
}

/* One run at given dims, fused or not; writes inputs, then outputs and assigned inputs as they should be. */
static void put_run(Case *c, Kernels *kernels, const char *dims, bool fused, int id)
{
    const char *start = c->text;
    const char *train = setting(c, "train", &start);
    const Graph *reference = train ? trained(c, fused, train) : plain(c, fused);
    Graph *g = c->g;
    c->dims = dims_from_text(c->arena, c->symbols, dims);
    c->pointer = NEW_ARRAY(c->arena, const char *, g->next_value);
    Array *inputs = NEW_ARRAY(c->arena, Array, g->inputs.n), *outputs = NEW_ARRAY(c->arena, Array, g->outputs.n);
    buf_printf(c->out, "/* %s, %s, %s */\nstatic void run%d(Step *s, FILE *data)\n{\n    char *scratch = NULL, *nowhere = NULL;\n",
               c->name, dims, fused ? "fused" : "unfused", id);
    for (int i = 0; i < g->inputs.n; i++) {
        Value *v = g->inputs.at[i];
        inputs[i] = fill_input(c, v);
        write_array(c, &inputs[i]);
        make_pointer(c, v);
        buf_printf(c->out, "    fill_from(data, %s, %s);\n", c->pointer[v->id], number(c, value_count(g, v)));
    }
    interpret(c->arena, reference, c->dims, inputs, outputs);
    Groups *groups = pass_fuse(g, !fused);
    if (has_region(groups)) {
        if (fused) bug("%s: a scan is no cell", c->name);
        groups = pass_fuse(g, false);
    }
    for (int i = 0; i < groups->list.n; i++) put_group(c, kernels, groups->list.at[i]);
    for (int i = 0; i < g->outputs.n; i++) {
        write_array(c, &outputs[i]);
        put_compare(c, g->outputs.at[i], g->output_names ? g->output_names[i] : "output", c->tolerance);
    }
    for (int i = 0; i < g->inputs.n; i++) {
        write_array(c, &inputs[i]);
        put_compare(c, g->inputs.at[i], g->inputs.at[i]->name, c->tolerance);
    }
    buf_put(c->out, "    (void)scratch, (void)nowhere;\n    release();\n}\n\n");
}

static const char *read_text(Arena *arena, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) error_exit("%s cannot be read", path);
    Buf text = {.arena = arena};
    char bytes[4096];
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, f)) > 0;) buf_write(&text, bytes, n);
    fclose(f);
    return buf_text(&text);
}

int main(int argc, char **argv)
{
    if (argc < 3) error_exit("usage: kernels OUT_DIR CASE.ir...");
    Arena *arena = arena_new();
    FILE *data = fopen(arena_text(arena, "%s/cases.bin", argv[1]), "wb"),
         *source = fopen(arena_text(arena, "%s/cases.cu", argv[1]), "wb");
    if (!data || !source) error_exit("%s cannot be written", argv[1]);
    Symbols *symbols = symbols_new(arena);
    Kernels *kernels = kernels_new(arena, symbols);
    Buf runs = {.arena = arena}, calls = {.arena = arena};
    int n = 0;
    for (int i = 2; i < argc; i++) {
        random_state = 1; /* a case has the same inputs whatever other cases there are */
        Case c = {.arena = arena, .symbols = symbols, .data = data, .out = &runs, .tolerance = 2e-5};
        c.text = read_text(arena, argv[i]);
        const char *slash = strrchr(argv[i], '/'), *at = c.text, *s, *graph = c.text;
        c.name = slash ? slash + 1 : argv[i];
        while (*graph == '#') graph = strchr(graph, '\n') + 1;
        if ((s = setting(&c, "tolerance", &at))) c.tolerance = atof(s);
        at = c.text;
        bool any = false;
        while ((s = setting(&c, "dims", &at)) || !any) {
            any = true;
            for (int fused = 0; fused < 2; fused++, n++) {
                c.g = graph_parse(arena, symbols, graph);
                graph_verify(c.g, c.name);
                buf_printf(&calls, "    run%d(&step, data);\n", n);
                put_run(&c, kernels, s ? s : "", fused, n);
            }
            if (!s) break;
        }
    }
    fprintf(source,
            "#include \"device/device.h\"\n#include \"device/conv.h\"\n#include \"device/pool.h\"\n#include \"device/tile.h\"\n#include \"device/attention.h\"\n#include \"harness.h\"\n\n%s%sint main(int argc, char "
            "**argv)\n{\n",
            kernels_text(kernels), buf_text(&runs));
    fprintf(source,
            "    FILE *data = open_data(argc, argv);\n    Step step = {};\n    prepare(&step);\n%s    return report(&step);\n}\n",
            buf_text(&calls));
    if (fclose(source) || fclose(data)) error_exit("%s cannot be written", argv[1]);
    arena_free(arena);
    return 0;
}
