/* Scatter: results start as the base, where they do not lie in its place; then each update goes to the row that its index names, in the order of the indices.  A block
 * has a range of rows and walks all indices, so the order of sums, and which of several wins, never depends on how blocks run. */
#include "emit/kernel.h"
#include <string.h>

typedef struct {
    const Op *op;
    Value *base, *index, *updates, *y;
    Expr *before, *n, *after, *indices; /* elements before, along and behind the axis; how many indices */
    const char *mode;
} Scatter;

/* a * scale + b as text and index: rows are counted in elements of `after`. */
static Index flat_index(Kernel *k, Var *row, Expr *scale, Var *j)
{
    Index at = {.flat = true};
    Affine r = affine_var(k, row), zero = affine_int(k, 0);
    at.at[0] = affine_add(k, &zero, &r, scale);
    if (j) {
        Affine behind = affine_var(k, j);
        at.at[0] = affine_add(k, &at.at[0], &behind, expr_int(k->symbols, 1));
    }
    return at;
}

/* Opens the loop along the axes behind, where there are any. */
static Var *open_behind(Kernel *k, const Scatter *s)
{
    if (expr_is(s->after, 1)) return NULL;
    block_open(k, "FOR_LANES (j, %s)", size_bare(k, s->after));
    return loop_var(k, "j", s->after);
}

static const char *update_text(Kernel *k, const Scatter *s, const char *y, Code u)
{
    const Dtype d = s->y->dtype;
    const char *now = d == DTYPE_f16 || d == DTYPE_bf16 ? text_of(k, "float(%s)", y) : y;
    const char *type = dtype_is_float(d) ? "" : text_of(k, "<%s>", dtype_c(d));
    const char *x = wrapped(k, u, BINDS_UNARY);
    Code c = {NULL, BINDS_LOW, u.level};
    if (strcmp(s->mode, "set") == 0)
        c.text = u.text;
    else if (strcmp(s->mode, "add") == 0)
        c.text = text_of(k, "%s + %s", now, x);
    else if (strcmp(s->mode, "mul") == 0)
        c.text = text_of(k, "%s * %s", now, x);
    else if (strcmp(s->mode, "max") == 0)
        c.text = text_of(k, "maximum%s(%s, %s)", type, now, u.text);
    else if (strcmp(s->mode, "min") == 0)
        c.text = text_of(k, "minimum%s(%s, %s)", type, now, u.text);
    else
        bug("scatter of mode %s", s->mode);
    return text_of(k, "%s = %s;", y, stored(k, d, c));
}

static void scatter_body(Kernel *k, void *context)
{
    const Scatter *s = context;
    size_called(k, s->n, "rows");
    size_called(k, s->indices, "indices");
    const char *y = param_result(k, s->y, "y"), *n = size_text(k, s->n), *share = expr_is(s->after, 1) ? "thread" : "block";
    Expr *rows = expr_mul(k->symbols, s->before, s->n);
    const bool one = expr_is(s->before, 1);
    line(k, "const int64_t first = %s_first(%s), last = %s_last(%s); /* the rows of this %s */", share, size_bare(k, rows), share,
         size_bare(k, rows), share);
    const bool loaded = values_hold(&k->group->in, s->base);
    const char *copies = loaded ? text_of(k, "if (%s != %s) ", y, param_value(k, s->base, false)) : "";
    block_open(k, "%sfor (int64_t row = first; row < last; row++)", copies);
    Var *row = loop_var(k, "row", rows), *j = open_behind(k, s);
    Index at = flat_index(k, row, s->after, j);
    Code base = element(k, s->base, &at);
    line(k, "%s[%s] = %s;", y, affine_text(k, &at.at[0]), stored(k, s->y->dtype, base));
    if (j) block_close(k);
    block_close(k);
    Var *outer = NULL;
    if (!one) {
        block_open(k, "for (int64_t o = first / %s; first < last && o <= (last - 1) / %s; o++)", n, n);
        outer = loop_var(k, "o", s->before);
    }
    block_open(k, "for (int64_t i = 0; i < %s; i++)", size_bare(k, s->indices));
    Var *i = loop_var(k, "i", s->indices);
    Index at_index = {.flat = true, .at = {affine_var(k, i)}};
    Code target = named(k, element(k, s->index, &at_index), "int64_t", one ? "row" : "to");
    if (!one || strcmp(target.text, "row") != 0)
        line(k, "const int64_t row = %s%s;", one ? "" : text_of(k, "o * %s + ", n), target.text);
    line(k, "if (%s < 0 || %s >= %s || row < first || row >= last) continue;", target.text, target.text, n);
    Var *to = loop_var(k, "row", NULL);
    j = open_behind(k, s);
    Index at_y = flat_index(k, to, s->after, j), at_update = flat_index(k, i, s->after, j);
    if (outer) {
        Affine o = affine_var(k, outer);
        at_update.at[0] = affine_add(k, &at_update.at[0], &o, expr_mul(k->symbols, s->indices, s->after));
    }
    Code u = element(k, s->updates, &at_update);
    line(k, "%s", update_text(k, s, text_of(k, "%s[%s]", y, affine_text(k, &at_y.at[0])), u));
    if (j) block_close(k);
    block_close(k);
    if (outer) block_close(k);
}

void emit_scatter(Emission *e)
{
    Symbols *symbols = e->all->symbols;
    const Op *op = main_op(e->group);
    const int axis = (int)op_int(op, ATTR_axis);
    Scatter s = {op, op->in[0], op->in[1], op->in[2], op->out[0], NULL, NULL, NULL, NULL, op_text(op, ATTR_mode)};
    s.before = expr_canonical(symbols, expr_product(symbols, s.base->shape, axis));
    s.n = expr_canonical(symbols, s.base->shape[axis]);
    s.after = expr_canonical(symbols, expr_product(symbols, s.base->shape + axis + 1, s.base->rank - axis - 1));
    s.indices = count_of(e->all, s.index);
    Kernel *k = kernel_new(e->all, e->group);
    kernel_axes(k, NULL, NULL, 0);
    kernel_write(k, scatter_body, &s);
    /* every block walks all indices: not too many blocks */
    Expr *rows = expr_mul(symbols, s.before, s.n), *blocks = expr_min(symbols, rows, expr_int(symbols, 512));
    Expr *work = expr_mul(symbols, s.after, expr_add(symbols, rows, expr_mul(symbols, s.before, s.indices)));
    Launch *l = kernel_launch(k, arena_text(e->all->arena, "scatter_%s", s.mode), blocks,
                              expr_ceildiv(symbols, work, expr_int(symbols, 512)), threads_for(e->all, s.after));
    l->flops = count_of(e->all, s.updates);
    vec_push(e->all->arena, &e->launches, l);
}
