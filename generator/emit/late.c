/* Operations whose results have a size that is known only afterwards: one block counts, then writes.  The count goes to its own
 * result.  Taken apart there is no smaller kernel: unfused.cu finds them on the host (runtime/controller/found.h). */
#include "emit/kernel.h"

/* Room for what is found, where that is less than what there may be: the model needs it to be another size, and the step will end. */
static const char *room(Kernel *k, const Op *op)
{
    Expr *size = op->out[0]->shape[op->out[0]->rank - 1];
    return expr_is_symbol(size) && symbol_facts(k->symbols, size).late ? NULL : size_bare(k, size);
}

/* ---- nonzero ---- */
static void nonzero_body(Kernel *k, void *context)
{
    const Op *op = context;
    Value *x = op->in[0];
    const char *indices = param_result(k, op->out[0], "index"), *count = param_result(k, op->out[1], "count");
    Expr *n = expr_canonical(k->symbols, expr_product(k->symbols, x->shape, x->rank));
    const char *zero = x->dtype == DTYPE_bool ? "" : " != 0";
    block_open(k, "FOR_ROWS (only, 1)");
    line(k, "const int64_t first = share_first(%s), last = share_last(%s); /* of this thread */", size_bare(k, n), size_bare(k, n));
    line(k, "int64_t found = 0;");
    block_open(k, "for (int64_t i = first; i < last; i++)");
    Index at = {.flat = true, .at = {affine_var(k, loop_var(k, "i", n))}};
    Code c = element(k, x, &at);
    line(k, "found += %s%s;", wrapped(k, c, BINDS_SUM), x->dtype == DTYPE_bool ? " ? 1 : 0" : zero);
    block_close(k);
    line(k, "int64_t all, to = block_before(found, &all);");
    const char *most = room(k, op);
    block_open(k, "for (int64_t i = first; i < last%s; i++)", most ? text_of(k, " && all <= %s", most) : "");
    at.at[0] = affine_var(k, loop_var(k, "i", n));
    c = element(k, x, &at);
    line(k, "if (!(%s%s)) continue;", wrapped(k, c, BINDS_SUM), zero);
    Index from = index_vector(k, x, &at);
    for (int d = 0; d < x->rank; d++)
        line(k, "%s[%s] = %s;", indices, d ? text_of(k, "all * %d + to", d) : "to", affine_text(k, &from.at[d]));
    line(k, "to++;");
    block_close(k);
    line(k, "if (FIRST_THREAD) *%s = all;", count);
    block_close(k);
}

/* ---- unique ---- */
/* scratch: for each element the first one equal to it. */
static void unique_body(Kernel *k, void *context)
{
    const Op *op = context;
    Value *x = op->in[0];
    const char *values = param_result(k, op->out[0], "y"), *first = param_result(k, op->out[1], "first"),
               *inverse = param_result(k, op->out[2], "inverse"), *counts = param_result(k, op->out[3], "counts"),
               *count = param_result(k, op->out[4], "count"), *a = param_value(k, x, false);
    const char *same = param_other(k, ARG_SCRATCH, "same", "int64_t *", expr_int(k->symbols, 0));
    const char *n = size_bare(k, expr_canonical(k->symbols, x->shape[0]));
    const bool sorted = op_int(op, ATTR_sorted);
    const char *most = room(k, op);
    block_open(k, "FOR_ROWS (only, 1)");
    block_open(k, "for (int64_t i = threadIdx.x; i < %s; i += blockDim.x)", n);
    line(k, "int64_t j = 0;");
    line(k, "while (j < i && !(%s[j] == %s[i])) j++;", a, a);
    line(k, "%s[i] = j;", same);
    block_close(k);
    line(k, "__syncthreads();");
    line(k, "int64_t found = 0;");
    block_open(k, "for (int64_t i = threadIdx.x; i < %s; i += blockDim.x)", n);
    line(k, "if (%s[i] != i) continue;", same);
    line(k, "int64_t to = 0, equal = 0;");
    line(k, "for (int64_t j = 0; j < %s; j++) {\nto += %s[j] == j && %s;\nequal += %s[j] == i;\n}", n, same,
         sorted ? text_of(k, "%s[j] < %s[i]", a, a) : "j < i", same);
    line(k, "%s[i] = to;\nfound++;", inverse);
    if (most) line(k, "if (to >= %s) continue;", most);
    line(k, "%s[to] = %s[i];\n%s[to] = i;\n%s[to] = equal;", values, a, first, counts);
    block_close(k);
    line(k, "__syncthreads();");
    line(k, "for (int64_t i = threadIdx.x; i < %s; i += blockDim.x)\n\tif (%s[i] != i) %s[i] = %s[%s[i]];", n, same, inverse,
         inverse, same);
    line(k, "found = block_sum(found);");
    line(k, "if (FIRST_THREAD) *%s = found;", count);
    block_close(k);
}

static void emit_on_host(Emission *e, const Op *op)
{
    Symbols *symbols = e->all->symbols;
    const Value *x = op->in[0];
    const bool unique = op->kind == OP_unique;
    Expr *n = count_of(e->all, x), *size = op->out[0]->shape[op->out[0]->rank - 1];
    const bool late = expr_is_symbol(size) && symbol_facts(symbols, size).late;
    Launch *l = library_launch(e->all, e->group, unique ? "unique_on_host" : "nonzero_on_host");
    for (int i = 0; i < op->n_out; i++) launch_arg_value(e->all, l, op->out[i]);
    launch_arg_value(e->all, l, op->in[0]);
    launch_arg_expr(e->all, l, late ? n : size);
    for (int i = 0; i < x->rank; i++) launch_arg_expr(e->all, l, x->shape[i]);
    if (unique) launch_arg_expr(e->all, l, expr_int(symbols, op_int(op, ATTR_sorted)));
    vec_push(e->all->arena, &e->launches, l);
}

void emit_late(Emission *e)
{
    Symbols *symbols = e->all->symbols;
    const Op *op = main_op(e->group);
    const bool unique = op->kind == OP_unique;
    if (e->all->one_by_one) {
        emit_on_host(e, op);
        return;
    }
    Kernel *k = kernel_new(e->all, e->group);
    kernel_axes(k, NULL, NULL, 0);
    kernel_write(k, unique ? unique_body : nonzero_body, (void *)op);
    Expr *n = count_of(e->all, op->in[0]);
    if (unique) e->scratch = expr_mul(symbols, n, expr_int(symbols, 8));
    Launch *l = kernel_launch(k, unique ? "unique" : "nonzero", expr_int(symbols, 1), n, 256);
    vec_push(e->all->arena, &e->launches, l);
}
