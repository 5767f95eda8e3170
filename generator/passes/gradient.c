/* Appends the backward pass: reverse accumulation over the operations that lie between trainable weights and the loss.
 *
 * Needs: trainable (Tensor.trainable), the loss as the first output.  Breaks: nothing; scans gain stacked results.
 * The rules stand in gradient_*.c, one function for each row of ops.def: a row without a rule does not link. */
#include "passes/gradient.h"
#include "passes/passes.h"

typedef void Rule(Backward *b, Op *op);
static Rule *const rules[OPS_COUNT] = {
#define OP(name, class, operands, results, attributes, text) [OP_##name] = gradient_##name,
#include "ir/ops.def"
};

Backward backward_new(Graph *g)
{
    int n = g->next_value;
    return (Backward){g, n, NEW_ARRAY(g->arena, bool, n + 1), NEW_ARRAY(g->arena, Value *, n + 1)};
}

bool backward_wants(const Backward *b, const Value *v)
{
    return v->id < b->values && b->wanted[v->id];
}
Value *backward_of(const Backward *b, const Value *v)
{
    return v->id < b->values ? b->gradient[v->id] : NULL;
}

void backward_add(Backward *b, const Value *v, Value *gradient)
{
    if (!backward_wants(b, v)) return;
    if (gradient->dtype != v->dtype || gradient->rank != v->rank)
        bug("gradient of %%%d is %s of rank %d, not %s of rank %d (at \"%s\")", v->id, dtype_name(gradient->dtype), gradient->rank,
            dtype_name(v->dtype), v->rank, b->g->source);
    Value **sum = &b->gradient[v->id];
    *sum = *sum ? b_add(b->g, *sum, gradient) : gradient;
}

Value *zeros_like(Graph *g, const Value *v)
{
    return b_full(g, v->dtype, 0, v->rank, v->shape);
}

/* ---- what is wanted ---- */
static bool piecewise_constant(OpKind kind)
{
    return kind == OP_sign || kind == OP_floor || kind == OP_ceil || kind == OP_round || kind == OP_bitcast;
}

static void mark_region(const Op *op, bool *wanted)
{
    bool operand_wanted[op->n_in + 1];
    for (int i = 0; i < op->n_in; i++) operand_wanted[i] = wanted[op->in[i]->id];
    for (int k = 0; k < 2 && op->body[k]; k++) {
        const bool *inside = region_wanted(op, op->body[k], operand_wanted);
        int skip = op->kind == OP_while; /* its body gives the condition first */
        for (int i = 0; i < op->n_out; i++) wanted[op->out[i]->id] |= inside[op->body[k]->outputs.at[i + skip]->id];
    }
}

void backward_mark(Graph *g, int n_ops, bool *wanted)
{
    for (int o = 0; o < n_ops; o++) {
        const Op *op = g->ops.at[o];
        bool any = false;
        for (int i = 0; i < op->n_in; i++) any |= wanted[op->in[i]->id];
        if (!any || piecewise_constant(op->kind)) continue;
        if (op_info(op->kind)->class == REGION) {
            mark_region(op, wanted);
            continue;
        }
        for (int i = 0; i < op->n_out; i++) wanted[op->out[i]->id] = dtype_is_float(op->out[i]->dtype);
    }
}

/* ---- the way back ---- */
void backward_run(Backward *b, int n_ops)
{
    const char *source = b->g->source, *role = b->g->role;
    b->g->role = "gradient";
    for (int o = n_ops - 1; o >= 0; o--) {
        Op *op = b->g->ops.at[o];
        bool given = false, wanted = false;
        for (int i = 0; i < op->n_out; i++) given |= backward_of(b, op->out[i]) != NULL;
        for (int i = 0; i < op->n_in; i++) wanted |= backward_wants(b, op->in[i]);
        if (!given || !wanted) continue;
        b->g->source = op->source;
        rules[op->kind](b, op);
    }
    b->g->source = source;
    b->g->role = role;
}

Value **pass_gradient(Graph *g)
{
    check(g->outputs.n > 0 && g->outputs.at[0]->rank == 0 && dtype_is_float(g->outputs.at[0]->dtype));
    Value *loss = g->outputs.at[0], **gradients = NEW_ARRAY(g->arena, Value *, g->inputs.n + 1);
    Backward b = backward_new(g);
    int n_ops = g->ops.n;
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        b.wanted[v->id] = v->origin == FROM_WEIGHT && v->tensor->trainable && !v->tensor->statistics && dtype_is_float(v->dtype);
    }
    backward_mark(g, n_ops, b.wanted);
    const char *role = g->role;
    g->role = "gradient";
    backward_add(&b, loss, b_like(g, loss, 1));
    backward_run(&b, n_ops);
    g->role = role;
    for (int i = 0; i < g->inputs.n; i++) gradients[i] = backward_of(&b, g->inputs.at[i]);
    return gradients;
}
