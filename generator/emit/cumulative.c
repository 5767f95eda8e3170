/* Sums and products along an axis, element by element in order: one thread a line. */
#include "emit/kernel.h"

typedef struct {
    const Op *op;
    Expr *before, *n, *after;
} Cumulative;

static void cumulative_body(Kernel *k, void *context)
{
    const Cumulative *c = context;
    Value *x = c->op->in[0], *y = c->op->out[0];
    const bool exclusive = op_int(c->op, ATTR_exclusive), reverse = op_int(c->op, ATTR_reverse), sum = c->op->kind == OP_cum_sum;
    const char *result = param_result(k, y, "y"), *n = size_bare(k, c->n);
    Expr *lines = expr_mul(k->symbols, c->before, c->after);
    block_open(k, "FOR_EACH (line, %s)", size_bare(k, lines));
    Var *number = loop_var(k, "line", lines);
    Affine start = affine_var(k, number), zero = affine_int(k, 0), high, low;
    affine_split(k, &start, c->after, &high, &low); /* line = o * after + j: begins at o * n * after + j */
    start = affine_add(k, &low, &high, expr_mul(k->symbols, c->n, c->after));
    line(k, "%s s = %d;", sum_type(x->dtype), sum ? 0 : 1);
    const char *begin = affine_text(k, &start);
    (void)begin;
    if (reverse)
        block_open(k, "for (int64_t r = %s - 1; r >= 0; r--)", size_text(k, c->n));
    else
        block_open(k, "for (int64_t r = 0; r < %s; r++)", n);
    Affine r = affine_var(k, loop_var(k, "r", c->n));
    r = affine_add(k, &zero, &r, c->after);
    Index at = {.flat = true};
    at.at[0] = affine_add(k, &start, &r, expr_int(k->symbols, 1));
    Code element_code = element(k, x, &at);
    const char *place = affine_text(k, &at.at[0]), *value = stored(k, y->dtype, (Code){"s", BINDS_LOW, k->depth - 1});
    if (exclusive) {
        element_code = named(k, element_code, compute_type(x->dtype), local_name(k, x)); /* y may lie where x does not, but the order is plain */
        line(k, "%s[%s] = %s;", result, place, value);
    }
    line(k, "s %s= %s;", sum ? "+" : "*", element_code.text);
    if (!exclusive) line(k, "%s[%s] = %s;", result, place, value);
    block_close(k);
    block_close(k);
}

void emit_cumulative(Emission *e)
{
    Symbols *symbols = e->all->symbols;
    const Op *op = main_op(e->group);
    const Value *x = op->in[0];
    const int axis = (int)op_int(op, ATTR_axis);
    Cumulative c = {op, expr_canonical(symbols, expr_product(symbols, x->shape, axis)), expr_canonical(symbols, x->shape[axis]),
                    expr_canonical(symbols, expr_product(symbols, x->shape + axis + 1, x->rank - axis - 1))};
    Kernel *k = kernel_new(e->all, e->group);
    kernel_axes(k, NULL, NULL, 0);
    kernel_write(k, cumulative_body, &c);
    Launch *l = kernel_launch(k, op_info(op->kind)->name, expr_mul(symbols, c.before, c.after), NULL, 128);
    vec_push(e->all->arena, &e->launches, l);
}
