/* The k greatest or least along an axis, in order; equal ones in the order in which they stand.  Each pass over a line finds the
 * next. */
#include "emit/kernel.h"

typedef struct {
    const Op *op;
    Expr *before, *n, *after, *k;
} Sort;

static void sort_body(Kernel *k, void *context)
{
    const Sort *s = context;
    Value *x = s->op->in[0];
    const char *type = compute_type(x->dtype), *choice = op_int(s->op, ATTR_largest) ? "true, false" : "false, false";
    const char *values = param_result(k, s->op->out[0], "y"), *indices = param_result(k, s->op->out[1], "index");
    Expr *lines = expr_mul(k->symbols, s->before, s->after);
    block_open(k, "FOR_ROWS (line, %s)", size_bare(k, lines));
    Affine start = affine_var(k, loop_var(k, "line", lines)), zero = affine_int(k, 0), high, low;
    affine_split(k, &start, s->after, &high, &low);
    line(k, "Best<%s> last = {0, -1};", type);
    block_open(k, "for (int64_t p = 0; p < %s; p++)", size_bare(k, s->k));
    Affine p = affine_var(k, loop_var(k, "p", s->k));
    line(k, "Best<%s> best = {0, -1};", type);
    block_open(k, "FOR_THREADS (r, %s)", size_bare(k, s->n));
    Affine r = affine_var(k, loop_var(k, "r", s->n));
    Index at = {.flat = true};
    at.at[0] = affine_add(k, &low, &high, expr_mul(k->symbols, s->n, s->after));
    at.at[0] = affine_add(k, &at.at[0], &r, s->after);
    line(k, "const Best<%s> next = {%s, r};", type, element(k, x, &at).text);
    line(k, "if ((p == 0 || beats<%s>(last, next)) && beats<%s>(next, best)) best = next;", choice, choice);
    block_close(k);
    line(k, "last = block_best<%s>(best);", choice);
    Affine to = affine_add(k, &low, &high, expr_mul(k->symbols, s->k, s->after));
    p = affine_add(k, &zero, &p, s->after);
    to = affine_add(k, &to, &p, expr_int(k->symbols, 1));
    const char *place = affine_text(k, &to);
    block_open(k, "if (FIRST_THREAD)");
    line(k, "%s[%s] = %s;", values, place, stored(k, x->dtype, (Code){"last.value", BINDS_ATOM, 0}));
    line(k, "%s[%s] = last.at;", indices, place);
    block_close(k);
    block_close(k);
    block_close(k);
}

void emit_sort(Emission *e)
{
    Symbols *symbols = e->all->symbols;
    const Op *op = main_op(e->group);
    const Value *x = op->in[0];
    const int axis = (int)op_int(op, ATTR_axis);
    Sort s = {op, expr_canonical(symbols, expr_product(symbols, x->shape, axis)), expr_canonical(symbols, x->shape[axis]),
              expr_canonical(symbols, expr_product(symbols, x->shape + axis + 1, x->rank - axis - 1)),
              expr_canonical(symbols, op->out[0]->shape[axis])};
    Kernel *k = kernel_new(e->all, e->group);
    kernel_axes(k, NULL, NULL, 0);
    kernel_write(k, sort_body, &s);
    Launch *l =
        kernel_launch(k, "top_k", expr_mul(symbols, s.before, s.after), expr_mul(symbols, s.n, s.k), threads_for(e->all, s.n));
    l->flops = expr_mul(symbols, count_of(e->all, x), s.k);
    vec_push(e->all->arena, &e->launches, l);
}
