/* The gradient of attention: probabilities are had again from the highest score and the scale of each row (Dao et al., arXiv
 * 2205.14135, section B.2), and the score function is differentiated as any graph is.
 *
 *     dscore = p * (dp - delta)    with dp = dy v', delta = the sum of dy * y over each row of y */
#include "passes/gradient.h"

/* scores, gradient of the body's result, captures -> gradient of the scores. */
static Graph *derivative_of(const Graph *forward, Graph *g)
{
    Graph *body = graph_new(g->arena, g->symbols, "gradient");
    Values args = {0};
    body->source = g->source;
    body->role = g->role;
    for (int i = 0; i < forward->inputs.n; i++) {
        const Value *v = forward->inputs.at[i];
        vec_push(g->arena, &args, graph_input(body, v->name, v->dtype, v->rank, v->shape, FROM_PARAMETER));
        if (i == 0) graph_input(body, "gradient", v->dtype, v->rank, v->shape, FROM_PARAMETER);
    }
    Value *scores = args.at[0], *gradient = body->inputs.at[1], *result = graph_inline(body, forward, args.at)[0];
    const int n_forward = body->ops.n;
    Backward b = backward_new(body);
    b.wanted[scores->id] = true;
    backward_mark(body, n_forward, b.wanted);
    backward_add(&b, result, gradient);
    backward_run(&b, n_forward);
    vec_push(g->arena, &body->outputs, or_zeros(body, backward_of(&b, scores), scores));
    graph_prune(body);
    return body;
}

/* The scores alone: which rows have no key is told by their scale of 0. */
static Graph *scores_of(Graph *forward)
{
    Graph *body = graph_clone(forward, forward->name, NULL);
    body->outputs.n = 1;
    graph_prune(body);
    return body;
}

void gradient_attention(Backward *b, Op *op)
{
    Graph *g = b->g;
    Value *dy = backward_of(b, op->out[0]), *y = op->out[0];
    if (backward_of(b, op->out[1]) || backward_of(b, op->out[2])) bug("a gradient of the statistics of attention");
    AttentionParts p = attention_parts(op);
    const int64_t last = y->rank - 1;
    const Dtype inside = attention_type(p.q);
    /* What is taken from a score's gradient is the whole row's: its rounding does not average out over keys, so it is summed in double. */
    Value *products = b_mul(g, b_cast(g, dy, DTYPE_f64), b_cast(g, y, DTYPE_f64));
    p.delta = b_cast(g, b_reduce(g, OP_reduce_sum, products, &last, 1), inside);
    Op *back = b_attention_gradient(g, scores_of(op->body[0]), derivative_of(op->body[0], g), dy, &p, op->in + ATTENTION_CAPTURES,
                                    op->n_in - ATTENTION_CAPTURES);
    for (int i = 0; i < 3; i++) backward_add(b, op->in[i], back->out[i]);
}

void gradient_attention_gradient(Backward *b, Op *op)
{
    (void)b;
    bug("\"%s\": attention is differentiated once", op->source);
}
