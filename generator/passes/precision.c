/* Every float becomes a double, in bodies too, where the user asked for fp64: values, constants, weights.
 *
 * Needs: the graph as imported.  Breaks: nothing; casts between floats vanish.  Programs of one model share their weights, so a
 * weight that is a double already is left as it is. */
#include "passes/passes.h"
#include "passes/rewrite.h"
#include <string.h>

static const void *as_doubles(Arena *arena, Dtype from, const void *data, int64_t n)
{
    double *doubles = NEW_ARRAY(arena, double, n + 1);
    for (int64_t i = 0; i < n; i++) doubles[i] = element_read(from, data, i);
    return doubles;
}

static void widen_tensor(Arena *arena, Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    if (!dtype_is_float(t->dtype) || t->dtype == DTYPE_f64) return;
    if (t->data) t->data = as_doubles(arena, t->dtype, t->data, n);
    t->dtype = DTYPE_f64;
}

static void widen_value(Value *v)
{
    if (dtype_is_float(v->dtype)) v->dtype = DTYPE_f64;
}

static void widen_constant(Graph *g, Op *op)
{
    Dtype from = op->out[0]->dtype;
    const Attr *data = op_attr(op, ATTR_data);
    if (!dtype_is_float(from) || from == DTYPE_f64) return;
    int n = data->n / dtype_bytes(from);
    op_set_data(g, op, ATTR_data, as_doubles(g->arena, from, data->data, n), sizeof(double) * (size_t)n);
}

static void widen(Graph *g)
{
    for (int i = 0; i < g->inputs.n; i++) {
        Value *v = g->inputs.at[i];
        if (v->tensor) widen_tensor(g->arena, v->tensor);
        widen_value(v);
    }
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        for (int k = 0; k < 2 && op->body[k]; k++) widen(op->body[k]);
        if (op->kind == OP_constant) widen_constant(g, op);
        for (int i = 0; i < op->n_out; i++) widen_value(op->out[i]);
    }
}

static bool drop_cast(Graph *g, Op *op, Value **by, void *context)
{
    (void)g;
    (void)context;
    by[0] = op->n_in ? op->in[0] : NULL;
    return op->kind == OP_cast && op->in[0]->dtype == op->out[0]->dtype;
}

/* Bits stay those of a float: a bitcast between i32 and what was f32 has a cast beside it. */
static bool keep_bits(Graph *g, Op *op, Value **by, void *context)
{
    (void)context;
    if (op->kind != OP_bitcast || dtype_bytes(op->in[0]->dtype) == dtype_bytes(op->out[0]->dtype)) return false;
    bool from_float = dtype_is_float(op->in[0]->dtype);
    by[0] = from_float ? b_bitcast(g, b_cast(g, op->in[0], DTYPE_f32), op->out[0]->dtype)
                       : b_cast(g, b_bitcast(g, op->in[0], DTYPE_f32), DTYPE_f64);
    return true;
}

void pass_precision(Graph *g, const Options *options)
{
    if (strcmp(options->precision, "fp64") != 0) return;
    widen(g);
    rewrite(g, drop_cast, NULL, true);
    rewrite(g, keep_bits, NULL, true);
}
