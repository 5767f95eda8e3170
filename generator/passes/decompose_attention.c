/* Attention and its gradient become dots, a softmax and what the score function is made of: the unfused twin of the kernels of
 * emit/attention.c.  Scores stand in memory then.
 *
 * Needs: gradient.  Breaks: nothing. */
#include "passes/passes.h"
#include "passes/rewrite.h"

/* x (batch.., shared.., m, s) as (batch.., shared*m, s): rows that have the keys of k. */
static Value *rows_of(Graph *g, Value *x, const Value *k)
{
    const int batch = k->rank - 2;
    Expr **shape = NEW_ARRAY(g->arena, Expr *, k->rank);
    for (int i = 0; i < batch; i++) shape[i] = x->shape[i];
    shape[batch] = expr_product(g->symbols, x->shape + batch, x->rank - 1 - batch);
    shape[batch + 1] = x->shape[x->rank - 1];
    return b_reshape(g, x, k->rank, shape);
}

/* One number a row beside the row's elements. */
static Value *beside(Graph *g, Value *a, const Value *like)
{
    return b_broadcast_to(g, b_expand_dims(g, a, a->rank), like->rank, like->shape);
}

/* A product of short numbers that nothing rounds. */
static Value *dot_inside(Graph *g, const AttentionParts *p, Value *a, Value *b, bool trans_a, bool trans_b)
{
    Value *v = b_dot(g, a, b, trans_a, trans_b);
    v->dtype = attention_type(p->q);
    return v;
}

static Value *raw_scores(Graph *g, const AttentionParts *p)
{
    Value *scores = dot_inside(g, p, rows_of(g, p->q, p->k), p->k, false, true);
    return b_reshape(g, scores, p->q->rank, attention_scores(g, p->q, p->k));
}

static Value **apply(Graph *g, const Graph *body, Value *const *first, int n, const Op *op, int captures)
{
    Value **args = NEW_ARRAY(g->arena, Value *, n + op->n_in);
    for (int i = 0; i < n; i++) args[i] = first[i];
    for (int i = captures; i < op->n_in; i++) args[n + i - captures] = op->in[i];
    return graph_inline(g, body, args);
}

static void forward(Graph *g, const Op *op, Value **by)
{
    const AttentionParts p = attention_parts(op);
    const int64_t last = p.q->rank - 1;
    Value *raw = raw_scores(g, &p), **results = apply(g, op->body[0], &raw, 1, op, ATTENTION_CAPTURES), *scores = results[0];
    Value *top = b_reduce(g, OP_reduce_max, scores, &last, 1);
    Value *e = b_unary(g, OP_exp, b_sub(g, scores, beside(g, top, scores)));
    Value *scale = b_unary(g, OP_reciprocal, b_reduce(g, OP_reduce_sum, e, &last, 1));
    if (op->body[0]->outputs.n > 1)
        scale = b_select(g, b_reduce(g, OP_reduce_max, results[1], &last, 1), scale, b_like(g, scale, 0));
    Value *y = b_dot(g, rows_of(g, b_cast(g, b_mul(g, e, beside(g, scale, e)), p.v->dtype), p.k), p.v, false, false);
    by[0] = b_reshape(g, y, op->out[0]->rank, op->out[0]->shape);
    by[1] = top;
    by[2] = scale;
}

static void backward(Graph *g, const Op *op, Value **by)
{
    const AttentionParts p = attention_parts(op);
    Value *raw = raw_scores(g, &p), *dy = rows_of(g, op->in[0], p.k);
    Value *scores = apply(g, op->body[0], &raw, 1, op, ATTENTION_GRADIENT_CAPTURES)[0];
    Value *e = b_unary(g, OP_exp, b_sub(g, scores, beside(g, p.top, scores))), *probabilities = b_mul(g, e, beside(g, p.scale, e));
    Value *dp = b_reshape(g, dot_inside(g, &p, dy, p.v, false, true), raw->rank, raw->shape);
    Value *both[] = {raw, b_mul(g, probabilities, b_sub(g, dp, beside(g, p.delta, dp)))};
    Value *ds = rows_of(g, b_cast(g, apply(g, op->body[1], both, 2, op, ATTENTION_GRADIENT_CAPTURES)[0], p.q->dtype), p.k);
    by[0] = b_reshape(g, b_dot(g, ds, p.k, false, false), p.q->rank, p.q->shape);
    by[1] = b_dot(g, ds, rows_of(g, p.q, p.k), true, false);
    by[2] = b_dot(g, rows_of(g, b_cast(g, probabilities, p.q->dtype), p.k), dy, true, false);
}

static bool decompose(Graph *g, Op *op, Value **by, void *context)
{
    (void)context;
    if (op->kind == OP_attention)
        forward(g, op, by);
    else if (op->kind == OP_attention_gradient)
        backward(g, op, by);
    else
        return false;
    return true;
}

void pass_decompose_attention(Graph *g)
{
    rewrite(g, decompose, NULL, true);
}
