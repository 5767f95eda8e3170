/* The files model.cu and unfused.cu: a head that says what the program is, what they include, kernels, then the steps. */
#include "emit/kernel_text.h"
#include "emit/step_private.h"
#include "support/path.h"
#include <string.h>

void comment_put(Buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (p[0] == '*' && p[1] == '/') {
            buf_put(out, "* ");
        } else if (p[0] == '/' && p[1] == '*') {
            buf_put(out, "/ ");
        } else {
            buf_write(out, *p == '\n' ? " " : p, 1);
        }
    }
}

const char *commented(const Layout *l, const char *text)
{
    Buf out = {.arena = l->arena};
    comment_put(&out, text);
    return buf_text(&out);
}

/* A line of the head: what it is about, then the text. */
static void head_line(Buf *out, const char *about, const char *text)
{
    buf_printf(out, " * %-10s ", about);
    put_comment(out, text);
    buf_put(out, "\n");
}

static void dims_lines(Buf *out, const Layout *l)
{
    Buf dims = {.arena = l->arena}, blocks = {.arena = l->arena};
    for (int i = 0; i < l->dims.n; i++) {
        Expr *symbol = l->dims.at[i].symbol;
        SymbolFacts f = symbol_facts(l->symbols, symbol);
        Buf *line = layout_block(l, symbol) ? &blocks : &dims;
        buf_put(line, line->length ? ", " : "");
        comment_put(line, expr_symbol_name(symbol));
        if (line == &blocks)
            buf_printf(line, " of %s", commented(l, expr_text(l->arena, layout_block(l, symbol)->rows)));
        else if (f.late)
            buf_printf(line, " <= %s, known late", commented(l, expr_text(l->arena, f.upper)));
        else if (f.high >= EXPR_UNBOUNDED)
            buf_printf(line, " >= %lld", (long long)f.low);
        else
            buf_printf(line, " %lld..%lld", (long long)f.low, (long long)f.high);
        if (f.likely && !f.late && line == &dims) buf_printf(line, " ~ %lld", (long long)f.likely);
    }
    head_line(out, "dims", dims.length ? buf_text(&dims) : "none: every shape is fixed");
    if (blocks.length) head_line(out, "rows", arena_text(l->arena, "in blocks (below, all at once): %s", buf_text(&blocks)));
}

/* A number of bytes where loops over blocks of rows take all rows at a time. */
static const char *in_one_block(const Layout *l, Expr *bytes)
{
    Symbols *s = l->symbols;
    for (int i = 0; i < l->blocks.n; i++) {
        Expr *rows = l->blocks.at[i].rows, *block = l->blocks.at[i].symbol;
        bytes = expr_without(s, bytes, expr_floordiv(s, expr_sub(s, rows, expr_int(s, 1)), block)); /* the blocks behind the first */
        bytes = expr_substitute(s, bytes, block, rows);
    }
    return expr_text(l->arena, bytes);
}

static void head(Buf *out, const Project *project, const Layout *l, Program *const *programs, int n)
{
    buf_put(out, "/* ");
    comment_put(out, file_name(project->options->model));
    buf_put(out, " -> model.cu\n");
    if (project->train)
        head_line(
            out, "loss",
            commented(l, arena_text(l->arena, "%s, optimizer %s, %s", project->loss.text ? project->loss.text : "the model's own",
                                    project->options->optimizer ? project->options->optimizer : "none",
                                    project->options->precision ? project->options->precision : "fp32")));
    dims_lines(out, l);
    for (int i = 0; i < n; i++) {
        const Program *p = programs[i];
        head_line(out, p->name,
                  commented(l, arena_text(l->arena, "%d kernels, bytes moved %s, least possible %s", p->kernels,
                                          in_one_block(l, p->moved), in_one_block(l, p->least))));
    }
    head_line(out, "made by", commented(l, project->settings ? project->settings : "disc-gen"));
    out->text[--out->length] = 0;
    buf_put(out, " */\n");
}

/* Whether a step calls a library function of that name, as conv2d(s, …) and conv2d_grad_input(s, …) of "conv". */
static bool calls(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        const char *end = at + length + strspn(at + length, "123d_abcdefghijklmnopqrstuvwxyz");
        if (strncmp(end, "(s,", 3) == 0) return true;
    }
    return false;
}

/* Steps that run where memory is short stand in lean.h. */
static bool is_lean(const Program *p)
{
    return strcmp(p->name, "train_lean") == 0;
}

static bool anything_lean(Program *const *programs, int n)
{
    for (int i = 0; i < n; i++)
        if (is_lean(programs[i]) || programs[i]->points.n) return true;
    return false;
}

static bool has_tiles(const char *kernels)
{
    return strstr(kernels, "FOR_ROW_BLOCKS") || strstr(kernels, "Tile<");
}

static void put_includes(Buf *out, const Project *project, const char *steps, const char *kernels)
{
    const bool attention = strstr(kernels, "SHARED Attention");
    if ((attention || has_tiles(kernels)) && project->options->precision && !strcmp(project->options->precision, "tf32"))
        buf_put(out, "#define TILE_TF32 /* tiles multiply as cuBLAS does here */\n");
    buf_put(out, "#include \"model.h\"\n#include \"runtime/device/device.h\"\n");
    if (calls(steps, "dot"))
        buf_put(out, "#include \"runtime/device/blas.h\"\n");
    else if (calls(steps, "in_turn"))
        buf_put(out, "#include \"runtime/device/epilogue.h\"\n");
    if (calls(steps, "conv")) buf_put(out, "#include \"runtime/device/conv.h\"\n");
    if (calls(steps, "pool")) buf_put(out, "#include \"runtime/device/pool.h\"\n");
    if (attention) buf_put(out, "#include \"runtime/device/attention.h\"\n");
    if (has_tiles(kernels)) buf_put(out, "#include \"runtime/device/tile.h\"\n");
    buf_put(out, "#include \"runtime/controller/step.h\"\n");
    if (strstr(steps, "_on_host(s, ")) buf_put(out, "#include \"runtime/controller/found.h\"\n");
    buf_put(out, "\n");
}

static const char *file_text(const Project *project, const Layout *layout, const char *head, const char *kernels, const char *steps)
{
    Buf out = {.arena = layout->arena};
    buf_put(&out, head);
    put_includes(&out, project, steps, kernels);
    buf_put(&out, kernels);
    buf_put(&out, steps);
    return buf_text(&out);
}

const char *model_cu(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels)
{
    Buf above = {.arena = layout->arena}, steps = {.arena = layout->arena};
    head(&above, project, layout, programs, n);
    const Bindings bindings = bindings_make(layout);
    const Guards guards = guards_make(project, layout, &bindings, programs, n);
    for (int i = 0; i < n; i++) {
        if (is_lean(programs[i])) continue;
        step_text(&steps, layout, programs[i], &guards);
        buf_put(&steps, i + 1 < n && !is_lean(programs[i + 1]) ? "\n" : "");
    }
    if (anything_lean(programs, n)) buf_put(&steps, "\n#include \"lean.h\" /* what runs where memory is short */\n");
    return file_text(project, layout, buf_text(&above), kernels, buf_text(&steps));
}

const char *lean_h(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels)
{
    (void)kernels;
    if (!anything_lean(programs, n)) return "";
    Buf out = {.arena = layout->arena};
    const Bindings bindings = bindings_make(layout);
    const Guards guards = guards_make(project, layout, &bindings, programs, n);
    buf_put(&out, "/* ");
    comment_put(&out, file_name(project->options->model));
    buf_put(&out, " -> lean.h: what runs where memory is short; a part of model.cu, whose kernels it launches. */\n\n");
    for (int i = 0; i < n; i++) replays_text(&out, layout, programs[i]);
    for (int i = 0; i < n; i++)
        if (is_lean(programs[i])) step_text(&out, layout, programs[i], &guards);
    return buf_text(&out);
}

const char *unfused_cu(const Project *project, const Layout *layout, const char *kernels, const char *functions)
{
    Buf above = {.arena = layout->arena};
    buf_put(&above, "/* ");
    comment_put(&above, file_name(project->options->model));
    buf_put(&above, " -> unfused.cu: what takes over for a kernel of model.cu that fails, a kernel for each operation.\n *");
    buf_put(&above, " Compiled when it is first needed.\n * made by ");
    comment_put(&above, project->settings ? project->settings : "disc-gen");
    buf_put(&above, " */\n");
    return file_text(project, layout, buf_text(&above), kernels, functions);
}
