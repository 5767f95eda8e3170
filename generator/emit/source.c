/* The files model.cu and unfused.cu: a head that says what the program is, what they include, kernels, then the steps. */
#include "emit/step_private.h"
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
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void dims_line(Buf *out, const Layout *l)
{
    buf_put(out, " * dims   ");
    for (int i = 0; i < l->dims.n; i++) {
        Expr *symbol = l->dims.at[i].symbol;
        SymbolFacts f = symbol_facts(l->symbols, symbol);
        buf_put(out, i ? ", " : "");
        comment_put(out, expr_symbol_name(symbol));
        if (layout_block(l, symbol)) {
            buf_printf(out, " rows of %s at a time", commented(l, expr_text(l->arena, layout_block(l, symbol)->rows)));
            continue;
        }
        if (f.late)
            buf_printf(out, " <= %s, known late", commented(l, expr_text(l->arena, f.upper)));
        else if (f.high >= EXPR_UNBOUNDED)
            buf_printf(out, " >= %lld", (long long)f.low);
        else
            buf_printf(out, " %lld..%lld", (long long)f.low, (long long)f.high);
        if (f.likely && !f.late) buf_printf(out, " ~ %lld", (long long)f.likely);
    }
    buf_put(out, l->dims.n ? "\n" : "none: every shape is fixed\n");
}

static void head(Buf *out, const Project *project, const Layout *l, Program *const *programs, int n, const char *file)
{
    buf_put(out, "/* ");
    comment_put(out, file_name(project->options->model));
    buf_printf(out, " -> %s\n", file);
    if (project->train) {
        buf_put(out, " * loss   ");
        comment_put(out, project->loss.text ? project->loss.text : "the model's own");
        buf_printf(out, ", optimizer %s, %s\n", project->options->optimizer ? project->options->optimizer : "none",
                   project->options->precision ? project->options->precision : "fp32");
    }
    dims_line(out, l);
    for (int i = 0; i < n; i++) {
        const Program *p = programs[i];
        buf_printf(out, " * %-8s %d kernels; bytes moved ", p->name, p->kernels);
        comment_put(out, expr_text(l->arena, p->moved));
        buf_put(out, ",\n *          least possible ");
        comment_put(out, expr_text(l->arena, p->least));
        buf_put(out, "\n");
    }
    buf_put(out, " * made by ");
    comment_put(out, project->settings ? project->settings : "disc-gen");
    buf_put(out, " */\n");
}

/* Whether a step calls a library function of that name, as conv2d(s, …) and conv2d_grad_input(s, …) of "conv". */
static bool calls(const char *text, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        const char *end = at + length + strspn(at + length, "123d_abcdefghijklmnopqrstuvwxyz");
        if (strncmp(end, "(s, ", 4) == 0) return true;
    }
    return false;
}

/* A source of its own for some of the programs; guards are those of all. */
static const char *source_text(const Project *project, const Layout *layout, Program *const *programs, int n, Program *const *all,
                               int n_all, const char *kernels, const char *file)
{
    Buf out = {.arena = layout->arena};
    head(&out, project, layout, programs, n, file);
    Buf steps = {.arena = layout->arena};
    const Bindings bindings = bindings_make(layout);
    const Guards guards = guards_make(project, layout, &bindings, all, n_all);
    for (int i = 0; i < n; i++) {
        buf_put(&steps, "\n");
        step_text(&steps, layout, programs[i], &guards);
    }
    buf_put(&out, "#include \"model.h\"\n#include \"runtime/device/device.h\"\n");
    if (calls(buf_text(&steps), "dot")) buf_put(&out, "#include \"runtime/device/blas.h\"\n");
    if (calls(buf_text(&steps), "conv")) buf_put(&out, "#include \"runtime/device/conv.h\"\n");
    if (calls(buf_text(&steps), "pool")) buf_put(&out, "#include \"runtime/device/pool.h\"\n");
    if (strstr(kernels, "SHARED Attention")) buf_put(&out, "#include \"runtime/device/attention.h\"\n");
    if (strstr(kernels, "FOR_ROW_BLOCKS") || strstr(kernels, "Tile<")) buf_put(&out, "#include \"runtime/device/tile.h\"\n");
    buf_put(&out, "#include \"runtime/controller/step.h\"\n\n");
    buf_put(&out, kernels);
    buf_put(&out, buf_text(&steps));
    return buf_text(&out);
}

const char *model_cu(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels)
{
    if (n > 1 && strcmp(programs[n - 1]->name, "unfused") == 0) n--;
    return source_text(project, layout, programs, n, programs, n, kernels, "model.cu");
}

const char *unfused_cu(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels)
{
    return source_text(project, layout, programs + n - 1, 1, programs, n, kernels, "unfused.cu");
}
