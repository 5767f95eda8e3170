/* Blocks of recent language models: LinearAttention, CausalConvWithState. */
#include "onnx/attention.h"
#include <math.h>
#include <string.h>

/* ---- LinearAttention ---- */
typedef struct Linear {
    bool gates, corrects; /* update rules: gated.., ..delta */
    double scale;
    Value *state;    /* (batch, kv heads, key size, value size) */
    Value *slice[5]; /* time first: q, k, v, decay, beta; the last two NULL where the rule has none */
} Linear;

/* (batch, time, heads * size) to (time, batch, heads, size). */
static Value *time_first(Import *im, const OnnxNode *node, Value *v, int64_t heads, const char *what)
{
    return b_transpose(im->graph, to_heads(im, node, v, heads, what), (int64_t[]){2, 0, 1, 3});
}

/* beta (batch, time, heads or 1) as (time, batch, heads or 1, 1). */
static Value *one_a_head(Import *im, const OnnxNode *node, Value *beta, int64_t heads)
{
    Graph *g = im->graph;
    want_rank(im, node, beta, 3, 3, "beta");
    if (!expr_is(beta->shape[2], 1)) {
        must_agree(im, node, beta->shape[2], number(im, heads), "the last axis of beta and kv_num_heads");
        beta = b_reshape(g, beta, 3, (Expr *[]){beta->shape[0], beta->shape[1], number(im, heads)});
    }
    return b_transpose(g, b_expand_dims(g, beta, 3), (int64_t[]){1, 0, 2, 3});
}

/* One step: state = exp(decay) state + k (v, or beta (v - state' k))', y = scale q state. */
static void linear_step(Graph *g, const Linear *l, Value *state, Value *const *in)
{
    Value *q = in[0], *k = in[1], *v = b_expand_dims(g, in[2], 2); /* v (batch, heads, 1, value size) */
    if (l->gates) state = b_mul(g, state, b_expand_dims(g, b_unary(g, OP_exp, in[3]), 3));
    Value *row = b_expand_dims(g, k, 2), *column = b_expand_dims(g, k, 3);
    if (l->corrects) v = b_mul(g, b_expand_dims(g, in[4], 3), b_sub(g, v, b_dot(g, row, state, false, false)));
    state = b_add(g, state, b_mul(g, column, v));
    Expr *each = expr_divide_exactly(g->symbols, q->shape[1], k->shape[1]);
    Value *queries = split_axis(g, q, 1, k->shape[1], each);
    Value *y = scaled(g, b_dot(g, queries, state, false, false), l->scale);
    vec_push(g->arena, &g->outputs, state);
    vec_push(g->arena, &g->outputs, y);
}

static Op *linear_scan(Import *im, const Linear *l)
{
    Graph *g = im->graph, *body = graph_new(im->arena, im->symbols, "linear_attention");
    static const char *const names[] = {"q", "k", "v", "decay", "beta"};
    Value *operands[6] = {l->state}, *in[5] = {NULL};
    int n = 1;
    body->source = g->source;
    Value *state = graph_input(body, "state", l->state->dtype, 4, l->state->shape, FROM_PARAMETER);
    for (int i = 0; i < 5; i++) {
        Value *v = l->slice[i];
        if (!v) continue;
        operands[n++] = v;
        in[i] = graph_input(body, names[i], v->dtype, v->rank - 1, v->shape + 1, FROM_PARAMETER);
    }
    linear_step(body, l, state, in);
    return b_scan(g, body, operands, n, 1, n - 1, false, l->slice[0]->shape[0]);
}

void import_LinearAttention(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    const char *rule = attr_string(node, "update_rule", "gated_delta");
    int64_t heads = attr_int(node, "q_num_heads", 0), shared = attr_int(node, "kv_num_heads", 0);
    Linear l = {.gates = strncmp(rule, "gated", 5) == 0, .corrects = strstr(rule, "delta") != NULL};
    if (!l.gates && !l.corrects && strcmp(rule, "linear") != 0)
        import_error(im, node, "update_rule is \"%s\"; wanted linear, gated, delta or gated_delta", rule);
    if (heads < 1 || shared < 1 || heads % shared)
        import_error(im, node, "q_num_heads is %lld and kv_num_heads %lld; wanted a multiple of the latter", (long long)heads,
                     (long long)shared);
    l.slice[0] = time_first(im, node, input(im, node, 0), heads, "query");
    l.slice[1] = time_first(im, node, input(im, node, 1), shared, "key");
    l.slice[2] = time_first(im, node, input(im, node, 2), shared, "value");
    if (l.gates) l.slice[3] = time_first(im, node, input(im, node, 4), shared, "decay");
    if (l.corrects) l.slice[4] = one_a_head(im, node, input(im, node, 5), shared);
    Value *q = l.slice[0], *k = l.slice[1], *v = l.slice[2], *past = optional_input(im, node, 3);
    must_agree(im, node, q->shape[3], k->shape[3], "head sizes of query and key");
    for (int i = 1; i < 5; i++)
        for (int d = 0; d < 2 && l.slice[i]; d++)
            must_agree(im, node, q->shape[d], l.slice[i]->shape[d], "batches or times of the inputs");
    if (l.gates && !expr_is(l.slice[3]->shape[3], 1))
        must_agree(im, node, l.slice[3]->shape[3], k->shape[3], "head sizes of decay and key");
    Expr *shape[] = {q->shape[1], number(im, shared), k->shape[3], v->shape[3]};
    if (past) want_rank(im, node, past, 4, 4, "past_state");
    for (int i = 0; past && i < 4; i++) must_agree(im, node, past->shape[i], shape[i], "sizes of past_state and those wanted");
    l.state = past ? b_cast(g, past, q->dtype) : b_full(g, q->dtype, 0, 4, shape);
    l.scale = attr_float(node, "scale", 0);
    if (l.scale == 0) l.scale = 1 / sqrt((double)want_int(im, node, q->shape[3], "the size of a head"));
    Op *op = linear_scan(im, &l);
    Value *y = b_transpose(g, op->out[1], (int64_t[]){1, 0, 2, 3, 4}); /* (batch, time, kv heads, each, value size) */
    output(im, node, 0, merge_axes(g, merge_axes(g, y, 2), 2));
    output(im, node, 1, past ? b_cast(g, op->out[0], past->dtype) : op->out[0]);
}

/* ---- CausalConvWithState ---- */
/* x (batch, c, time), w (c, 1, k): each channel's own convolution over what came before; state: the last k - 1 elements seen. */
void import_CausalConvWithState(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *w = input(im, node, 1), *bias = optional_input(im, node, 2),
          *past = optional_input(im, node, 3);
    const char *activation = attr_string(node, "activation", "none");
    bool swish = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;
    if (!swish && strcmp(activation, "none") != 0)
        import_error(im, node, "activation is \"%s\"; wanted none, silu or swish", activation);
    want_rank(im, node, x, 3, 3, "input");
    want_rank(im, node, w, 3, 3, "weight");
    want_same_type(im, node, x, w);
    must_agree(im, node, x->shape[1], w->shape[0], "channels of input and weight");
    must_agree(im, node, w->shape[1], number(im, 1), "axis 1 of weight, and that of one kernel a channel,");
    if (bias) want_rank(im, node, bias, 1, 1, "bias");
    if (bias) must_agree(im, node, bias->shape[0], w->shape[0], "the sizes of bias and of channels");
    int64_t k = want_int(im, node, w->shape[2], "the size of the kernel"),
            channels = want_int(im, node, w->shape[0], "the number of channels");
    Expr *before = number(im, k - 1), *state[] = {x->shape[0], x->shape[1], before};
    if (past) want_rank(im, node, past, 3, 3, "past_state");
    for (int i = 0; past && i < 3; i++) must_agree(im, node, past->shape[i], state[i], "sizes of past_state and those wanted");
    Value *seen = b_concat(g, (Value *[]){past ? past : b_full(g, x->dtype, 0, 3, state), x}, 2, 2);
    Window win = {.rank = 1, .stride = {1}, .dilation = {1}, .window = {k}, .groups = channels};
    win.low[0] = win.high[0] = number(im, 0);
    Value *y = b_conv(g, seen, w, &win);
    if (bias) y = b_add(g, y, along_channels(g, bias, 3));
    output(im, node, 0, swish ? b_mul(g, y, b_unary(g, OP_sigmoid, y)) : y);
    output(im, node, 1, b_slice_axis(g, seen, 2, x->shape[2], before));
}
