/* The interpreter's driver: values one after another, and regions. */
#include "test/support/interpret_private.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- arrays ---- */
Array array_new(Arena *arena, Dtype dtype, int rank, const int64_t *dims)
{
    int64_t *copy = NEW_ARRAY(arena, int64_t, rank + 1), n = 1;
    for (int i = 0; i < rank; i++) {
        copy[i] = dims[i];
        n *= dims[i];
        check(dims[i] >= 0);
    }
    return (Array){dtype, rank, copy, n, NEW_ARRAY(arena, double, n + 1)};
}

Array array_copy(Arena *arena, Array a)
{
    Array copy = array_new(arena, a.dtype, a.rank, a.dims);
    memcpy(copy.at, a.at, sizeof(double) * (size_t)a.n);
    return copy;
}

static int64_t size_of(const Graph *g, const Expr *e, const int64_t *dims)
{
    int64_t n;
    if (!expr_evaluate(g->symbols, e, dims, &n)) bug("a dim has no value");
    return n;
}

Array array_for(Arena *arena, const Graph *g, const Value *v, const int64_t *dims)
{
    int64_t shape[MOST_RANK];
    for (int i = 0; i < v->rank; i++) shape[i] = size_of(g, v->shape[i], dims);
    return array_new(arena, v->dtype, v->rank, shape);
}

int64_t *dims_from_text(Arena *arena, Symbols *symbols, const char *text)
{
    int n = symbols_count(symbols);
    int64_t *dims = NEW_ARRAY(arena, int64_t, n + 4096); /* passes may still make symbols */
    bool *given = NEW_ARRAY(arena, bool, n + 1);
    for (const char *at = text; *at;) {
        const char *equal = strchr(at, '='), *end = strchr(at, ',');
        check(equal);
        Expr *symbol = expr_symbol(symbols, arena_copy(arena, at, (size_t)(equal - at)));
        char *after;
        dims[symbol_index(symbol)] = strtoll(equal + 1, &after, 10);
        if (symbol_index(symbol) < n) given[symbol_index(symbol)] = true;
        at = end ? end + 1 + strspn(end + 1, " ") : after + strlen(after);
    }
    for (int i = 0; i < n; i++) {
        Expr *symbol = symbols_at(symbols, i), *same = expr_canonical(symbols, symbol);
        if (!given[i] && same != symbol) expr_evaluate(symbols, same, dims, &dims[i]);
    }
    return dims;
}

int64_t run_size(const Run *run, const Expr *e)
{
    return size_of(run->g, e, run->dims);
}
Array run_new(const Run *run, const Value *v)
{
    return array_for(run->arena, run->g, v, run->dims);
}

/* ---- positions ---- */
void unravel(int64_t flat, int rank, const int64_t *dims, int64_t *at)
{
    for (int i = rank - 1; i >= 0; i--) {
        at[i] = flat % dims[i];
        flat /= dims[i];
    }
}

int64_t ravel(int rank, const int64_t *dims, const int64_t *at)
{
    int64_t flat = 0;
    for (int i = 0; i < rank; i++) flat = flat * dims[i] + at[i];
    return flat;
}

Along along(Array a, int axis)
{
    Along l = {1, a.dims[axis], 1};
    for (int i = 0; i < axis; i++) l.outer *= a.dims[i];
    for (int i = axis + 1; i < a.rank; i++) l.inner *= a.dims[i];
    return l;
}

/* ---- regions ---- */
static Array step_of(Array a, int64_t t) /* a[t], sharing its elements */
{
    Array s = {a.dtype, a.rank - 1, a.dims + 1, a.dims[0] ? a.n / a.dims[0] : 0, NULL};
    s.at = a.at + t * s.n;
    return s;
}

static void run_scan(Run *run, const Op *op, const Array *in, Array *out)
{
    const Graph *body = op->body[0];
    int carries = (int)op_int(op, ATTR_carries), slices = (int)op_int(op, ATTR_slices);
    int64_t length = slices ? in[carries].dims[0] : out[carries].dims[0];
    for (int i = 0; i < carries; i++) out[i] = array_copy(run->arena, in[i]);
    for (int64_t step = 0; step < length; step++) {
        int64_t t = op_int(op, ATTR_reverse) ? length - 1 - step : step;
        Array inputs[op->n_in + 1], outputs[op->n_out + 1];
        for (int i = 0; i < op->n_in; i++) inputs[i] = i < carries ? out[i] : i < carries + slices ? step_of(in[i], t) : in[i];
        interpret(run->arena, body, run->dims, inputs, outputs);
        for (int i = 0; i < carries; i++) out[i] = outputs[i];
        for (int i = carries; i < op->n_out; i++) {
            Array at = step_of(out[i], t);
            check(at.n == outputs[i].n);
            memcpy(at.at, outputs[i].at, sizeof(double) * (size_t)at.n);
        }
    }
}

static Array rows_of(Array a, int64_t first, int64_t n, int64_t *dims) /* dims: room for the view's */
{
    const int64_t each = a.dims[0] ? a.n / a.dims[0] : 0;
    for (int k = 0; k < a.rank; k++) dims[k] = k ? a.dims[k] : n;
    a.at += first * each;
    a.n = n * each;
    a.dims = dims;
    return a;
}

/* The dims say how many rows a block has. */
static void run_blocks(Run *run, const Op *op, const Array *in, Array *out)
{
    const Graph *body = op->body[0];
    const int slices = (int)op_int(op, ATTR_slices), sums = (int)op_int(op, ATTR_sums),
              block = symbol_index(op_exprs(op, ATTR_block, NULL)[0]);
    const int64_t rows = in[0].dims[0], most = run->dims[block];
    check(most > 0);
    for (int64_t first = 0; first < rows; first += most) {
        const int64_t here = run->dims[block] = rows - first < most ? rows - first : most;
        Array inputs[op->n_in + 1], outputs[op->n_out + 1];
        int64_t room[op->n_in + op->n_out + 1][8];
        for (int i = 0; i < op->n_in; i++) inputs[i] = i < slices ? rows_of(in[i], first, here, room[i]) : in[i];
        interpret(run->arena, body, run->dims, inputs, outputs);
        for (int i = 0; i < op->n_out; i++) {
            if (i >= sums) {
                Array at = rows_of(out[i], first, here, room[op->n_in + i]);
                check(at.n == outputs[i].n);
                memcpy(at.at, outputs[i].at, sizeof(double) * (size_t)at.n);
            }
            for (int64_t k = 0; i < sums && k < out[i].n; k++) out[i].at[k] = (first ? out[i].at[k] : 0) + outputs[i].at[k];
        }
    }
    run->dims[block] = most;
}

static void run_while(Run *run, const Op *op, const Array *in, Array *out)
{
    Array state[op->n_in + 1], results[op->n_out + 2];
    for (int i = 0; i < op->n_in; i++) state[i] = in[i];
    int64_t iteration = 0;
    for (bool more = in[0].at[0] != 0; more; iteration++) {
        state[0] = array_new(run->arena, DTYPE_i64, 0, NULL);
        state[0].at[0] = (double)iteration;
        interpret(run->arena, op->body[0], run->dims, state, results);
        more = results[0].at[0] != 0;
        for (int i = 1; i <= op->n_out; i++) state[i] = results[i];
    }
    for (int i = 0; i < op->n_out; i++) out[i] = state[i + 1];
}

static void run_branch(Run *run, const Op *op, const Array *in, Array *out)
{
    Array captures[op->n_in + 1];
    for (int i = 1; i < op->n_in; i++) captures[i - 1] = in[i];
    interpret(run->arena, op->body[in[0].at[0] != 0 ? 0 : 1], run->dims, captures, out);
}

static void run_region(Run *run, const Op *op, const Array *in, Array *out)
{
    if (op->kind == OP_scan)
        run_scan(run, op, in, out);
    else if (op->kind == OP_blocks)
        run_blocks(run, op, in, out);
    else if (op->kind == OP_while)
        run_while(run, op, in, out);
    else
        run_branch(run, op, in, out);
}

/* ---- one after another ---- */
static void wrap(Array a) /* integers, as their dtype holds them */
{
    if (dtype_is_float(a.dtype) || a.dtype == DTYPE_bool) return;
    for (int64_t i = 0; i < a.n; i++) {
        int64_t room = 0;
        element_write_int(a.dtype, &room, 0, (int64_t)a.at[i]);
        a.at[i] = element_read(a.dtype, &room, 0);
    }
}

static void run_op(Run *run, const Op *op)
{
    Array in[op->n_in + 1], out[op->n_out + 1];
    for (int i = 0; i < op->n_in; i++) in[i] = run->values[op->in[i]->id];
    OpClass class = op_info(op->kind)->class;
    for (int i = 0; i < op->n_out && class != LATE; i++) out[i] = run_new(run, op->out[i]);
    switch (class) {
    case ELEMENTWISE: run_elementwise(run, op, in, out); break;
    case SOURCE: run_source(run, op, out); break;
    case INDEX: run_index(run, op, in, out); break;
    case REDUCE:
    case CUMULATIVE:
    case SORT: run_reduce(run, op, in, out); break;
    case SCATTER: run_scatter(run, op, in, out); break;
    case LATE: run_late(run, op, in, out); break;
    case DOT: run_dot(run, op, in, out); break;
    case CONV: run_conv(run, op, in, out); break;
    case POOL: run_pool(run, op, in, out); break;
    case REGION: run_region(run, op, in, out); break;
    case ATTENTION: bug("attention is interpreted as what it decomposes into");
    case EFFECT: break;
    case COMPOSITE: run_softmax(run, op, in, out); break;
    }
    for (int i = 0; i < op->n_out; i++) {
        wrap(out[i]);
        run->values[op->out[i]->id] = out[i];
    }
}

static void run_assigns(Run *run, Array *inputs)
{
    for (int o = 0; o < run->g->ops.n; o++) {
        const Op *op = run->g->ops.at[o];
        for (int i = 0; op->kind == OP_assign && i < run->g->inputs.n; i++)
            for (int64_t e = 0; run->g->inputs.at[i] == op->in[0] && e < inputs[i].n; e++)
                if (op->n_in == 2 || run->values[op->in[2]->id].at[e] != 0) inputs[i].at[e] = run->values[op->in[1]->id].at[e];
    }
}

void interpret(Arena *arena, const Graph *g, int64_t *dims, Array *inputs, Array *outputs)
{
    Run run = {arena, g, dims, NEW_ARRAY(arena, Array, g->next_value + 1)};
    for (int i = 0; i < g->inputs.n; i++) run.values[g->inputs.at[i]->id] = inputs[i];
    for (int i = 0; i < g->ops.n; i++) run_op(&run, g->ops.at[i]);
    for (int i = 0; i < g->outputs.n; i++) outputs[i] = run.values[g->outputs.at[i]->id];
    run_assigns(&run, inputs);
}
