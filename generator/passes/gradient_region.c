/* The gradient rule of branch, and what all regions share: which values of a body want a gradient. */
#include "passes/gradient.h"

/* ---- what is wanted inside a body ---- */
static int first_carry(const Op *op)
{
    return op->kind == OP_while ? 1 : 0; /* a while has its condition in front */
}

bool *region_wanted(const Op *op, Graph *body, const bool *operand_wanted)
{
    bool *wanted = NEW_ARRAY(body->arena, bool, body->next_value + 1);
    if (op->kind == OP_branch) {
        for (int i = 1; i < op->n_in; i++) wanted[body->inputs.at[i - 1]->id] = operand_wanted[i];
        backward_mark(body, body->ops.n, wanted);
        return wanted;
    }
    int first = first_carry(op), carries = (int)op_int(op, ATTR_carries);
    for (int i = first; i < op->n_in; i++) wanted[body->inputs.at[i]->id] = operand_wanted[i];
    for (bool changed = true; changed;) { /* a carry wants one as soon as what it becomes wants one */
        changed = false;
        backward_mark(body, body->ops.n, wanted);
        for (int i = first; i < first + carries; i++) {
            bool *in = &wanted[body->inputs.at[i]->id];
            if (*in || !wanted[body->outputs.at[i]->id]) continue;
            *in = changed = true;
        }
    }
    return wanted;
}

bool *wanted_inside(const Backward *b, const Op *op, Graph *body)
{
    bool *operand = NEW_ARRAY(body->arena, bool, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++) operand[i] = backward_wants(b, op->in[i]);
    return region_wanted(op, body, operand);
}

Value *parameter(Graph *body, const char *what, int i, Value *like)
{
    return graph_input(body, arena_text(body->arena, "%s_%d", what, i), like->dtype, like->rank, like->shape, FROM_PARAMETER);
}

Value *or_zeros(Graph *g, Value *gradient, const Value *v)
{
    return gradient ? gradient : zeros_like(g, v);
}

/* Loops over blocks of rows are made when gradients are there. */
void gradient_blocks(Backward *b, Op *op)
{
    bug("blocks \"%s\" of %s before gradient", op->source, b->g->name);
}

/* ---- branch: the same branch again, each side remaking its forward side ---- */
/* Results of the body become the gradients of the wanted captures; further inputs are the gradients of the results. */
static Graph *branch_body(const Backward *b, const Op *op, Graph *forward)
{
    Graph *body = graph_clone(forward, "gradient", NULL);
    body->source = op->source;
    body->role = "gradient";
    Backward inner = backward_new(body);
    int n_forward = body->ops.n, captures = op->n_in - 1;
    inner.wanted = wanted_inside(b, op, body);
    for (int i = 0; i < op->n_out; i++)
        if (backward_of(b, op->out[i]))
            backward_add(&inner, body->outputs.at[i], parameter(body, "gradient_of_result", i, op->out[i]));
    backward_run(&inner, n_forward);
    body->outputs.n = 0;
    for (int i = 0; i < captures; i++) {
        Value *in = body->inputs.at[i];
        if (backward_wants(b, op->in[i + 1])) vec_push(body->arena, &body->outputs, or_zeros(body, backward_of(&inner, in), in));
    }
    graph_prune(body);
    return body;
}

void gradient_branch(Backward *b, Op *op)
{
    Graph *g = b->g;
    Values operands = {0};
    for (int i = 0; i < op->n_in; i++) vec_push(g->arena, &operands, op->in[i]);
    for (int i = 0; i < op->n_out; i++)
        if (backward_of(b, op->out[i])) vec_push(g->arena, &operands, backward_of(b, op->out[i]));
    Op *back = b_branch(g, branch_body(b, op, op->body[0]), branch_body(b, op, op->body[1]), operands.at, operands.n);
    for (int i = 1, k = 0; i < op->n_in; i++)
        if (backward_wants(b, op->in[i])) backward_add(b, op->in[i], back->out[k++]);
}
