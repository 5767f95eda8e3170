/* The data of report.html that belong to no program alone: dims, tensors, loss, guards, notes; and the page around them.
 * Needs: programs with lives, units, points and plans.  Breaks: nothing. */
#include "../../runtime/controller/integers.h"
#include "emit/controller.h"
#include "emit/report_private.h"
#include "emit/template.h"
#include "support/diag.h"
#include "support/json.h"
#include "support/path.h"
#include <string.h>

/* ---- texts and sizes, each once ---- */
void report_text(Buf *out, const char *text)
{
    Buf plain = {.arena = out->arena};
    json_escape(&plain, text ? text : "");
    for (const char *p = buf_text(&plain); *p;) { /* "</script>" would end the page's script */
        const size_t n = strcspn(p, "<");
        buf_write(out, p, n);
        p += n;
        if (*p) buf_put(out, "\\u003c"), p++;
    }
}

int report_word(Report *r, const char *text)
{
    text = text ? text : "";
    if (!map_has(r->words, text)) map_set(r->words, text, (void *)(intptr_t)(map_count(r->words) + 1));
    return (int)(intptr_t)map_get(r->words, text) - 1;
}

int report_size(Report *r, Expr *e)
{
    if (!e) return -1;
    if (!pointers_get(r->size_of, e)) {
        vec_push(r->arena, &r->sizes, e);
        pointers_set(r->size_of, e, (void *)(intptr_t)r->sizes.n);
    }
    return (int)(intptr_t)pointers_get(r->size_of, e) - 1;
}

void report_numbers(Report *r, const char *key, const int *at, int n)
{
    buf_printf(&r->out, "%s: [", key);
    for (int i = 0; i < n; i++) buf_printf(&r->out, i ? ",%d" : "%d", at[i]);
    buf_put(&r->out, "],\n");
}

static void member(Report *r, const char *key, const char *text)
{
    buf_printf(&r->out, "%s: ", key);
    report_text(&r->out, text);
    buf_put(&r->out, ",\n");
}

static const char *dim_member(void *context, const Expr *symbol)
{
    const Layout *l = context;
    return arena_text(l->arena, "d.%s", l->dims.at[l->dim_of[symbol_index(symbol)]].c);
}

static void put_tables(Report *r, Buf *out)
{
    buf_put(out, "const words = [\n");
    for (int i = 0; i < map_count(r->words); i++) {
        report_text(out, map_key(r->words, i));
        buf_put(out, ",\n");
    }
    buf_put(out, "];\nconst sizes = [\n");
    for (int i = 0; i < r->sizes.n; i++) {
        buf_put(out, "[");
        report_text(out, expr_text(r->arena, r->sizes.at[i]));
        buf_put(out, ", d => ");
        expr_print_js(out, r->sizes.at[i], dim_member, (void *)r->l);
        buf_put(out, "],\n");
    }
    buf_put(out, "];\n");
}

/* ---- what all programs share ---- */
static void put_dims(Report *r)
{
    const Layout *l = r->l;
    buf_printf(&r->out, "blockRows: {bytes: %d, least: %d, fewest: %d, fewestBytes: %d},\n", BLOCK_BYTES, BLOCK_LEAST_ROWS,
               BLOCK_FEWEST_ROWS, BLOCK_FEWEST_BYTES);
    buf_put(&r->out, "/* name, member in sizes, low, high, likely; sizes or -1: upper bound of what is known only in the step; of rows of a\n"
                     " * block: all rows, bytes of what is wide in one */\ndims: [\n");
    for (int i = 0; i < l->dims.n; i++) {
        Expr *symbol = l->dims.at[i].symbol;
        SymbolFacts f = symbol_facts(l->symbols, symbol);
        buf_put(&r->out, "[");
        report_text(&r->out, expr_symbol_name(symbol));
        const NamedBlock *block = layout_block(l, symbol);
        buf_printf(&r->out, ", \"%s\", %lld, %lld, %lld, %d, %d, %d],\n", l->dims.at[i].c, (long long)(f.declared ? f.expected_low : f.low),
                   (long long)(f.declared ? f.expected_high : f.high), (long long)expr_likely(l->symbols, symbol),
                   f.late ? report_size(r, f.upper) : -1, block ? report_size(r, block->rows) : -1,
                   block ? report_size(r, block->row_bytes) : -1);
    }
    buf_put(&r->out, "],\n");
}

static const char *dims_text(Arena *arena, const Tensor *t)
{
    Buf out = {.arena = arena};
    buf_printf(&out, "%s[", dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++) buf_printf(&out, k ? ", %lld" : "%lld", (long long)t->dims[k]);
    buf_put(&out, "]");
    return buf_text(&out);
}

static int64_t bytes_of(const Tensor *t)
{
    int64_t bytes = dtype_bytes(t->dtype);
    for (int k = 0; k < t->rank; k++) bytes *= t->dims[k];
    return bytes;
}

static void put_tensors(Report *r)
{
    const Layout *l = r->l;
    int *states = NEW_ARRAY(r->arena, int, l->weights.n + 1);
    for (int i = 0; i < l->states.n; i++) states[layout_find(l->weight_of, l->states.at[i].tensor->of->name)]++;
    buf_put(&r->out, "/* weight, type and shape, bytes, 0: frozen, 1: trains, 2: running statistics; states of the optimizer, why */\n"
                     "tensors: [\n");
    for (int i = 0; i < l->weights.n; i++) {
        const Tensor *t = l->weights.at[i].tensor;
        buf_put(&r->out, "[");
        report_text(&r->out, t->name);
        buf_printf(&r->out, ",%d,%lld,%d,%d,%d],\n", report_word(r, dims_text(r->arena, t)), (long long)bytes_of(t),
                   t->trainable    ? 1
                   : t->statistics ? 2
                                   : 0,
                   states[i], report_word(r, t->reason));
    }
    buf_put(&r->out, "],\n/* states of the optimizer: weight, what stands behind its name */\nstates: [\n");
    for (int i = 0; i < l->states.n; i++) {
        const Tensor *t = l->states.at[i].tensor;
        const size_t n = strlen(t->of->name);
        const char *behind = strncmp(t->name, t->of->name, n) ? arena_text(r->arena, ": %s", t->name) : t->name + n;
        buf_printf(&r->out, "[%d,%d],\n", layout_find(l->weight_of, t->of->name), report_word(r, behind));
    }
    buf_put(&r->out, "],\n");
}

static void put_guards(Report *r, Program *const *programs, int n)
{
    const Bindings bindings = bindings_make(r->l);
    const Guards guards = guards_make(r->project, r->l, &bindings, programs, n);
    buf_put(&r->out, "/* name, moment, formula, source, what relies on it, what happens otherwise */\nguards: [\n");
    for (int i = 0; i < guards.list.n; i++) {
        const GuardRow *g = &guards.list.at[i];
        const char *const texts[] = {g->name, g->moment, g->formula, g->source, g->relies, g->otherwise};
        buf_put(&r->out, "[");
        for (int k = 0; k < 6; k++) {
            if (k) buf_put(&r->out, ", ");
            report_text(&r->out, texts[k]);
        }
        buf_put(&r->out, "],\n");
    }
    buf_put(&r->out, "],\n");
}

static void put_model(Report *r)
{
    const Project *p = r->project;
    member(r, "model", file_name(p->options->model));
    member(r, "settings", p->settings);
    member(r, "optimizer", p->train ? p->options->optimizer : "");
    member(r, "precision", p->options->precision ? p->options->precision : "fp32");
    member(r, "loss", p->train ? p->loss.text : "");
    member(r, "lossWhy", p->train && p->loss.guessed ? p->loss.why : "");
    member(r, "lossElse", p->train && p->loss.guessed ? p->loss.alternatives : "");
    buf_put(&r->out, "notes: [\n");
    for (int i = 0; i < notices_count(); i++) { /* without folders: the page is the same wherever the model lies */
        const char *text = notice_at(i);
        const size_t path = strlen(p->options->model);
        report_text(&r->out, strncmp(text, p->options->model, path) ? text : arena_text(r->arena, "%s%s", file_name(p->options->model), text + path));
        buf_put(&r->out, ",\n");
    }
    buf_put(&r->out, "],\n");
}

/* A name as it may stand in a page's text. */
static const char *escaped(Arena *arena, const char *text)
{
    Buf out = {.arena = arena};
    for (const char *p = text; *p; p++)
        *p == '<'   ? buf_put(&out, "&lt;")
        : *p == '&' ? buf_put(&out, "&amp;")
                    : buf_write(&out, p, 1);
    return buf_text(&out);
}

const char *report_html(const Project *project, const Layout *layout, Program *const *programs, const Groups *const *groups, int n)
{
    Report r = {.project = project,
                .l = layout,
                .arena = layout->arena,
                .out = {.arena = layout->arena},
                .words = map_new(layout->arena),
                .size_of = pointers_new(layout->arena)};
    buf_put(&r.out, "const report = {\n");
    put_model(&r);
    put_dims(&r);
    put_tensors(&r);
    put_guards(&r, programs, n);
    buf_put(&r.out, "programs: [\n");
    for (int i = 0; i < n; i++) report_program(&r, programs[i], groups[i]);
    buf_put(&r.out, "]};\n");
    Buf tables = {.arena = r.arena};
    put_tables(&r, &tables);
    const Hole holes[] = {{"MODEL", escaped(r.arena, file_name(project->options->model))},
                          {"TABLES", buf_text(&tables)},
                          {"REPORT", buf_text(&r.out)}};
    return template_fill(r.arena, "templates/report.html", holes, sizeof holes / sizeof *holes);
}
