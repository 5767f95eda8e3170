/* Builders of attention and its gradient. */
#include "ir/build_private.h"

Expr **attention_scores(Graph *g, const Value *q, const Value *k)
{
    Expr **shape = shape_copy(g, q->rank, q->shape, q->rank);
    shape[q->rank - 1] = k->shape[k->rank - 2];
    return shape;
}

AttentionParts attention_parts(const Op *op)
{
    Value **in = op->in;
    if (op->kind == OP_attention_gradient) return (AttentionParts){in[1], in[2], in[3], in[4], in[5], in[6]};
    return (AttentionParts){.q = in[0], .k = in[1], .v = in[2], .top = op->out[1], .scale = op->out[2]};
}

static void parts_agree(Graph *g, const Value *q, const Value *k, const Value *v)
{
    fits(k->rank >= 2 && q->rank >= k->rank && v->rank == k->rank);
    fits(q->dtype == k->dtype && q->dtype == v->dtype && dtype_is_float(q->dtype));
    for (int i = 0; i < k->rank - 2; i++) {
        dims_agree(g, q->shape[i], k->shape[i], "batch dims of attention");
        dims_agree(g, k->shape[i], v->shape[i], "batch dims of attention");
    }
    dims_agree(g, q->shape[q->rank - 1], k->shape[k->rank - 1], "sizes of queries and keys");
    dims_agree(g, k->shape[k->rank - 2], v->shape[v->rank - 2], "numbers of keys and values");
}

Dtype attention_type(const Value *q)
{
    return q->dtype == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
}

Op *b_attention(Graph *g, Graph *body, Value *q, Value *k, Value *v, Value *const *captures, int n)
{
    parts_agree(g, q, k, v);
    Value **in = NEW_ARRAY(g->arena, Value *, n + ATTENTION_CAPTURES);
    in[0] = q, in[1] = k, in[2] = v;
    for (int i = 0; i < n; i++) in[ATTENTION_CAPTURES + i] = captures[i];
    Op *op = graph_op(g, OP_attention, in, n + ATTENTION_CAPTURES, 3);
    op->body[0] = body;
    Expr **shape = shape_copy(g, q->rank, q->shape, q->rank);
    shape[q->rank - 1] = v->shape[v->rank - 1];
    op_result(g, op, 0, q->dtype, q->rank, shape);
    for (int i = 1; i < 3; i++) op_result(g, op, i, attention_type(q), q->rank - 1, q->shape);
    return op;
}

Op *b_attention_gradient(Graph *g, Graph *body, Graph *derivative, Value *dy, const AttentionParts *parts, Value *const *captures,
                         int n)
{
    parts_agree(g, parts->q, parts->k, parts->v);
    Value **in = NEW_ARRAY(g->arena, Value *, n + ATTENTION_GRADIENT_CAPTURES);
    in[0] = dy, in[1] = parts->q, in[2] = parts->k, in[3] = parts->v;
    in[4] = parts->top, in[5] = parts->scale, in[6] = parts->delta;
    for (int i = 0; i < n; i++) in[ATTENTION_GRADIENT_CAPTURES + i] = captures[i];
    Op *op = graph_op(g, OP_attention_gradient, in, n + ATTENTION_GRADIENT_CAPTURES, 3);
    op->body[0] = body;
    op->body[1] = derivative;
    for (int i = 0; i < 3; i++) op_result(g, op, i, in[i + 1]->dtype, in[i + 1]->rank, in[i + 1]->shape);
    return op;
}
