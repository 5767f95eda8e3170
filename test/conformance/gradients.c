#define _POSIX_C_SOURCE 200809L /* access */
/* A loss and gradients in place of a graph's outputs.  Needs: a graph as imported.  Breaks: its outputs. */
#include "test/conformance/gradients.h"
#include "passes/gradient.h"
#include "passes/passes.h"
#include "support/diag.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

const char *operator_of(Arena *arena, const OnnxGraph *g, const char *directory)
{
    const char *expanded = strstr(directory, "_expanded");
    if (expanded) {
        const char *plain = arena_text(arena, "%.*s", (int)(expanded - directory), directory);
        if (access(plain, F_OK) == 0) g = onnx_read(arena, arena_text(arena, "%s/model.onnx", plain), false)->graph;
    }
    return g->n_nodes ? g->nodes[g->n_nodes - 1]->op_type : "none";
}

/* 1 + sin(..) / 2 of an element's place and of the output it belongs to, so that no two outputs or elements stand for each other.
 */
static Value *factors(Graph *g, const Value *y, int output)
{
    static const double speeds[] = {1.3, 0.71, 2.1, 0.37, 1.9, 0.53, 0.97, 1.7};
    Value *angle = b_number(g, DTYPE_f64, 0.7 + output);
    for (int k = 0; k < y->rank; k++)
        angle = b_add(g, angle, b_mul(g, b_iota(g, DTYPE_f64, k, y->rank, y->shape), b_number(g, DTYPE_f64, speeds[k % 8])));
    return b_add(g, b_mul(g, b_unary(g, OP_sin, angle), b_number(g, DTYPE_f64, 0.5)), b_number(g, DTYPE_f64, 1));
}

/* y where it is a number, 0 elsewhere: a mask may well put out infinities. */
static Value *numbers_of(Graph *g, Value *y)
{
    Value *finite = b_binary(g, OP_lt, b_unary(g, OP_abs, y), b_like(g, y, INFINITY));
    return b_select(g, finite, y, b_like(g, y, 0));
}

static Value *add_loss(Graph *g)
{
    Value *loss = NULL;
    static const int64_t axes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 0; i < g->outputs.n; i++) {
        Value *y = g->outputs.at[i];
        if (!dtype_is_float(y->dtype)) continue;
        Value *term = b_reduce(g, OP_reduce_sum, b_mul(g, numbers_of(g, y), factors(g, y, i)), axes, y->rank);
        loss = loss ? b_add(g, loss, term) : term;
    }
    return loss;
}

/* The outputs: the loss, then each gradient. */
static void add_gradients(Graph *g, Value *loss, int *output_of)
{
    Backward b = backward_new(g);
    int n_ops = g->ops.n, n = g->inputs.n;
    for (int i = 0; i < n; i++) b.wanted[g->inputs.at[i]->id] = dtype_is_float(g->inputs.at[i]->dtype);
    backward_mark(g, n_ops, b.wanted);
    backward_add(&b, loss, b_like(g, loss, 1));
    backward_run(&b, n_ops);
    g->outputs.n = 0;
    g->output_names = NEW_ARRAY(g->arena, const char *, n + 2);
    vec_push(g->arena, &g->outputs, loss);
    g->output_names[0] = "loss";
    for (int i = 0; i < n; i++) {
        Value *gradient = backward_of(&b, g->inputs.at[i]);
        output_of[i] = gradient ? g->outputs.n : 0;
        if (!gradient) continue;
        g->output_names[g->outputs.n] = arena_text(g->arena, "by %s", g->inputs.at[i]->name);
        vec_push(g->arena, &g->outputs, gradient);
    }
}

const char *gradient_graph(Graph *g, int *output_of)
{
    Options options = {.precision = "fp64"};
    bool floats = false;
    pass_precision(g, &options);
    for (int i = 0; i < g->inputs.n; i++) floats |= dtype_is_float(g->inputs.at[i]->dtype);
    Value *loss = floats ? add_loss(g) : NULL;
    if (!loss) return floats ? "no float output" : "no float input";
    add_gradients(g, loss, output_of);
    graph_verify(g, "gradient");
    return NULL;
}
