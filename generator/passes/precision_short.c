/* Products in a short type: the operands of every dot and convolution that a trained weight has a part in are cast to bf16 or f16, and
 * so is the result, which is cast back for whoever reads it.
 *
 *     %3 = dot %1, %2        f32        %4 = cast %1   bf16          summed as floats, rounded once
 *                                 ->    %5 = cast %2   bf16
 *                                       %6 = dot %4, %5
 *                                       %3 = cast %6   f32
 *
 * Attention takes and gives short numbers too; its scores, which never stand in memory, are floats.
 * Casts move before reshapes, transposes, slices and broadcasts, where they meet the cast of a product's result and both vanish; the
 * rest becomes part of neighbouring kernels.  A weight is cast once a step; one that a loop multiplies by is cast before the loop.
 * All else stays as it is: norms, softmax, losses, reductions, sums of gradients, weights and the optimizer's states are floats.
 * What no trained weight has a part in keeps its precision too: positions times frequencies, filter banks.
 *
 * pass_short_products needs the loss, and comes before gradient: the rule of cast then makes the products of the backward pass short.
 * pass_short_gradients comes right after it: a weight's gradient is not rounded, its product gives floats.
 * Breaks: equal casts stand beside each other until simplify; their gradients are summed as floats for that reason. */
#include "passes/gradient.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include <string.h>

static bool is_short(const Value *v)
{
    return v->dtype == DTYPE_f16 || v->dtype == DTYPE_bf16;
}

static bool is_product(const Op *op)
{
    return op->kind == OP_dot || op->kind == OP_conv || op->kind == OP_conv_grad_input || op->kind == OP_conv_grad_weight;
}

static Dtype short_type(const Options *options)
{
    return !strcmp(options->precision, "bf16") ? DTYPE_bf16 : !strcmp(options->precision, "fp16") ? DTYPE_f16 : DTYPE_f32;
}

/* ---- operands ---- */
static Value *shortened(Graph *g, Value *v, Dtype type)
{
    const Op *op = v->def;
    if (v->dtype == type) return v;
    switch (op ? op->kind : OP_constant) {
    case OP_cast: return op->in[0]->dtype == type ? op->in[0] : b_cast(g, v, type);
    case OP_reshape: return b_reshape(g, shortened(g, op->in[0], type), v->rank, v->shape);
    case OP_transpose: return b_transpose(g, shortened(g, op->in[0], type), op_ints(op, ATTR_axes, NULL));
    case OP_broadcast: return b_broadcast(g, shortened(g, op->in[0], type), op_ints(op, ATTR_axes, NULL), v->rank, v->shape);
    case OP_slice:
        return b_slice(g, shortened(g, op->in[0], type), op_exprs(op, ATTR_start, NULL), op_ints(op, ATTR_step, NULL), v->shape);
    default: return b_cast(g, v, type);
    }
}

/* ---- products ---- */
typedef struct {
    Dtype type;
    const bool *trained; /* by value id: a trained weight has a part in it */
    int values;          /* ids below this are known */
} Shorten;

static bool has_trained(const Shorten *s, const Value *v)
{
    return is_short(v) || (v->id < s->values && s->trained[v->id]);
}

static bool wants_short(const Shorten *s, const Op *op)
{
    if (!is_product(op) || op->out[0]->dtype != DTYPE_f32) return false;
    for (int i = 0; i < 2; i++)
        if (op->in[i]->dtype != DTYPE_f32 && op->in[i]->dtype != s->type) return false;
    return has_trained(s, op->in[0]) || has_trained(s, op->in[1]);
}

/* Queries, keys and values; what is done to scores is done to floats. */
static bool shorten_attention(Graph *g, Op *op, Value **by, const Shorten *s)
{
    Value **in = NEW_ARRAY(g->arena, Value *, op->n_in);
    bool any = false;
    for (int i = 0; i < ATTENTION_CAPTURES; i++) {
        any |= has_trained(s, op->in[i]);
        if (op->in[i]->dtype != DTYPE_f32) return false;
    }
    if (!any) return false;
    for (int i = 0; i < op->n_in; i++) in[i] = i < ATTENTION_CAPTURES ? shortened(g, op->in[i], s->type) : op->in[i];
    Op *copy = b_attention(g, op->body[0], in[0], in[1], in[2], in + ATTENTION_CAPTURES, op->n_in - ATTENTION_CAPTURES);
    for (int i = 0; i < op->n_out; i++) by[i] = b_cast(g, copy->out[i], DTYPE_f32);
    return true;
}

static bool shorten_product(Graph *g, Op *op, Value **by, void *context)
{
    const Shorten *s = context;
    if (op->kind == OP_attention) return shorten_attention(g, op, by, s);
    if (!wants_short(s, op)) return false;
    Value *in[] = {shortened(g, op->in[0], s->type), shortened(g, op->in[1], s->type)};
    Op *copy = graph_op(g, op->kind, in, 2, 1);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    const Value *y = op->out[0];
    by[0] = b_cast(g, op_result(g, copy, 0, s->type, y->rank, y->shape), y->dtype);
    return true;
}

/* A matrix that every step of a scan multiplies by, and that nothing else reads. */
static bool only_multiplies(const Graph *body, const Value *constant)
{
    for (int i = 0; i < body->outputs.n; i++)
        if (body->outputs.at[i] == constant) return false;
    for (int i = 0; i < constant->users.n; i++) {
        const Op *user = constant->users.at[i];
        if (user->kind != OP_dot || user->in[1] != constant || user->in[0] == constant || op_int(user, ATTR_trans_a)) return false;
    }
    return constant->rank == 2 && constant->users.n > 0;
}

static void shorten_graph(Graph *g, Dtype type, const bool *trained);

static void shorten_bodies(Graph *g, Op *op, Dtype type, const bool *trained)
{
    bool *operand = NEW_ARRAY(g->arena, bool, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++) operand[i] = trained[op->in[i]->id];
    const int first = op->kind == OP_scan ? (int)(op_int(op, ATTR_carries) + op_int(op, ATTR_slices)) : op->n_in;
    for (int k = 0; k < 2 && op->body[k]; k++) {
        Graph *body = op->body[k];
        const bool *inside = region_wanted(op, body, operand);
        for (int i = first; i < op->n_in; i++) {
            Value *constant = body->inputs.at[i];
            if (!operand[i] || constant->dtype != DTYPE_f32 || !only_multiplies(body, constant)) continue;
            constant->dtype = type;
            g->source = op->source, g->role = op->role;
            op_set_operand(g, op, i, shortened(g, op->in[i], type));
        }
        shorten_graph(body, type, inside);
    }
}

static void shorten_graph(Graph *g, Dtype type, const bool *trained)
{
    const char *source = g->source, *role = g->role;
    Shorten s = {type, trained, g->next_value};
    const int n = g->ops.n;
    for (int o = 0; o < n; o++)
        if (op_info(g->ops.at[o]->kind)->class == REGION) shorten_bodies(g, g->ops.at[o], type, trained);
    g->source = source, g->role = role;
    if (g->ops.n > n) graph_sort(g); /* casts before their loops */
    rewrite(g, shorten_product, &s, false);
    graph_prune(g);
}

void pass_short_products(Graph *g, const Options *options)
{
    const Dtype type = short_type(options);
    if (type == DTYPE_f32) return;
    bool *trained = NEW_ARRAY(g->arena, bool, g->next_value + 1);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        trained[v->id] = v->origin == FROM_WEIGHT && dtype_is_float(v->dtype) && (v->tensor->trainable || v->tensor->parameter);
    }
    backward_mark(g, g->ops.n, trained);
    shorten_graph(g, type, trained);
}

/* ---- gradients of weights ---- */
static bool only_moves(const Op *op)
{
    return op->kind == OP_reshape || op->kind == OP_transpose;
}

/* x, short, is all that a cast to f32 reads: what makes it gives floats instead.  A sum of short numbers sums floats, and is one. */
static void widen_source(Graph *g, Value *x)
{
    Value *y = x;
    while (y->def && y->users.n == 1 && only_moves(y->def)) y = y->def->in[0];
    if (!y->def || y->users.n != 1 || !(is_product(y->def) || y->def->kind == OP_reduce_sum)) return;
    if (y->def->kind == OP_reduce_sum) op_set_operand(g, y->def, 0, b_cast(g, y->def->in[0], DTYPE_f32));
    for (; x != y; x = x->def->in[0]) x->dtype = DTYPE_f32;
    y->dtype = DTYPE_f32;
}

/* From a gradient back through what only moves or adds, to casts. */
static void widen(Graph *g, Value *v, bool *seen, int n_ops)
{
    Op *op = v->def;
    if (!op || op->id >= n_ops || seen[op->id]) return;
    seen[op->id] = true;
    if (op->kind == OP_cast && v->dtype == DTYPE_f32 && is_short(op->in[0])) widen_source(g, op->in[0]);
    const bool passes =
        only_moves(op) || op->kind == OP_add || op->kind == OP_slice || op->kind == OP_pad || op->kind == OP_concat;
    for (int i = 0; passes && i < op->n_in; i++) widen(g, op->in[i], seen, n_ops);
}

static bool changes_nothing(const Op *op)
{
    return op->kind == OP_cast && op->in[0]->dtype == op->out[0]->dtype;
}

static bool drop_cast(Graph *g, Op *op, Value **by, void *context)
{
    (void)g;
    (void)context;
    if (!changes_nothing(op)) return false;
    by[0] = op->in[0];
    return true;
}

void pass_short_gradients(Graph *g, Value **gradients)
{
    const int n_ops = g->next_op;
    bool *seen = NEW_ARRAY(g->arena, bool, n_ops + 1);
    for (int i = 0; i < g->inputs.n; i++)
        if (gradients[i]) widen(g, gradients[i], seen, n_ops);
    for (int i = 0; i < g->inputs.n; i++)
        while (gradients[i] && gradients[i]->def && changes_nothing(gradients[i]->def)) gradients[i] = gradients[i]->def->in[0];
    graph_sort(g);
    rewrite(g, drop_cast, NULL, false);
}
