/* Checks attention and its gradient, with their bodies. */
#include "ir/verify_private.h"

static void of_type(const Verify *v, const Op *op, const char *what, const Value *a, Dtype dtype, int rank, Expr *const *shape)
{
    if (a->dtype != dtype) verify_wrong(v, op, "%s: %s, wanted %s", what, dtype_name(a->dtype), dtype_name(dtype));
    if (a->rank != rank) verify_wrong(v, op, "%s: rank %d, wanted %d", what, a->rank, rank);
    for (int i = 0; i < rank; i++)
        if (!expr_always_equal(v->g->symbols, a->shape[i], shape[i])) verify_wrong(v, op, "%s: axis %d differs", what, i);
}

/* What a body computes its results with. */
static void verify_body(const Verify *v, const Op *op, const Graph *body)
{
    for (int o = 0; o < body->ops.n; o++) {
        OpClass class = op_info(body->ops.at[o]->kind)->class;
        if (class != ELEMENTWISE && class != INDEX && class != SOURCE)
            verify_wrong(v, op, "a %s in a function of scores", op_info(body->ops.at[o]->kind)->name);
    }
    verify_graph(body, v->after, true);
}

static void verify_captures(const Verify *v, const Op *op, const Graph *body, int first_inside, int first)
{
    if (body->inputs.n - first_inside != op->n_in - first)
        verify_wrong(v, op, "a body with %d parameters for %d captures", body->inputs.n, op->n_in - first);
    for (int i = first; i < op->n_in; i++)
        of_type(v, op, "a capture", body->inputs.at[first_inside + i - first], op->in[i]->dtype, op->in[i]->rank, op->in[i]->shape);
}

void verify_attention(const Verify *v, const Op *op)
{
    const bool back = op->kind == OP_attention_gradient;
    const int first = back ? ATTENTION_GRADIENT_CAPTURES : ATTENTION_CAPTURES;
    if (op->n_in < first) verify_wrong(v, op, "%d operands", op->n_in);
    const AttentionParts p = attention_parts(op);
    const Value *y = back ? op->in[0] : op->out[0];
    Expr *shape[32];
    if (p.k->rank < 2 || p.q->rank < p.k->rank || p.q->rank > 32) verify_wrong(v, op, "ranks of queries and keys");
    const Dtype dtype = p.q->dtype, inside = attention_type(p.q);
    for (int i = 0; i < p.k->rank - 2; i++) shape[i] = p.q->shape[i];
    shape[p.k->rank - 2] = p.k->shape[p.k->rank - 2], shape[p.k->rank - 1] = p.q->shape[p.q->rank - 1];
    of_type(v, op, "keys", p.k, dtype, p.k->rank, shape);
    shape[p.k->rank - 1] = p.v->rank ? p.v->shape[p.v->rank - 1] : NULL;
    of_type(v, op, "values", p.v, dtype, p.k->rank, shape);
    for (int i = 0; i < p.q->rank; i++) shape[i] = p.q->shape[i];
    of_type(v, op, "the highest scores", p.top, inside, p.q->rank - 1, shape);
    of_type(v, op, "scales", p.scale, inside, p.q->rank - 1, shape);
    if (back) of_type(v, op, "delta", p.delta, inside, p.q->rank - 1, shape);
    shape[p.q->rank - 1] = p.v->shape[p.v->rank - 1];
    of_type(v, op, "the result", y, dtype, p.q->rank, shape);
    for (int i = 0; back && i < 3; i++)
        of_type(v, op, "a gradient", op->out[i], dtype, op->in[i + 1]->rank, op->in[i + 1]->shape);
    shape[p.q->rank - 1] = p.k->shape[p.k->rank - 2];
    for (int b = 0; b <= back; b++) {
        const Graph *body = op->body[b];
        const int most = !back ? 2 : 1;
        if (body->inputs.n < 1 + b || body->outputs.n < 1 || body->outputs.n > most)
            verify_wrong(v, op, "a body of %d parameters and %d outputs", body->inputs.n, body->outputs.n);
        for (int i = 0; i <= b; i++) of_type(v, op, "scores", body->inputs.at[i], inside, p.q->rank, shape);
        of_type(v, op, "a body's result", body->outputs.at[0], inside, p.q->rank, shape);
        if (body->outputs.n > 1) of_type(v, op, "which keys count", body->outputs.at[1], DTYPE_bool, p.q->rank, shape);
        verify_captures(v, op, body, 1 + b, first);
        verify_body(v, op, body);
    }
}
