/* Attention of ai.onnx and FlexAttention, and what ONNX Runtime's operators (attention_ort.c) share with them.
 *
 * Key and value heads that serve several query heads are never repeated: the queries that share one stand side by side as rows of
 * one dot.  Masks stay bools; a query that may look at nothing gives 0, with gradients of 0 and no NaN on the way. */
#include "onnx/attention.h"
#include <math.h>
#include <string.h>

/* ---- heads ---- */
Value *to_heads(Import *im, const OnnxNode *node, Value *v, int64_t heads, const char *what)
{
    if (heads < 1)
        import_error(im, node, "%s is %s and its number of heads %lld; wanted at least 1", what, type_text(im, v),
                     (long long)heads);
    want_rank(im, node, v, 3, 3, what);
    want_int(im, node, v->shape[2], arena_text(im->arena, "the last axis of %s", what));
    Expr *size = want_quotient(im, node, v->shape[2], number(im, heads), arena_text(im->arena, "last axis of %s over heads", what));
    return b_transpose(im->graph, split_axis(im->graph, v, 2, number(im, heads), size), (int64_t[]){0, 2, 1, 3});
}

Value *from_heads(Graph *g, Value *v)
{
    return merge_axes(g, b_transpose(g, v, (int64_t[]){0, 2, 1, 3}), 2);
}

Value *after_past(Import *im, const OnnxNode *node, Value *past, Value *v)
{
    if (!past) return v;
    want_rank(im, node, past, 4, 4, "past");
    want_rank(im, node, v, 4, 4, "what comes after past");
    want_same_type(im, node, past, v);
    for (int i = 0; i < 4; i++)
        if (i != 2) must_agree(im, node, past->shape[i], v->shape[i], "sizes of past and of what comes after it");
    return b_concat(im->graph, (Value *[]){past, v}, 2, 2);
}

/* ---- masks ---- */
void allow_only(Attending *a, Value *mask)
{
    a->allowed = a->allowed ? checked_binary(a->im, a->node, OP_and, a->allowed, mask) : mask;
}

void add_mask(Attending *a, Value *mask)
{
    Graph *g = a->im->graph;
    a->may_be_empty = true;
    if (mask->dtype == DTYPE_bool) {
        allow_only(a, mask);
        return;
    }
    mask = b_cast(g, mask, a->q->dtype);
    Value *forbidden = equal(g, mask, b_like(g, mask, -INFINITY));
    allow_only(a, b_unary(g, OP_not, forbidden));
    mask = b_select(g, forbidden, b_like(g, mask, 0), mask);
    a->bias = a->bias ? checked_binary(a->im, a->node, OP_add, a->bias, mask) : mask;
}

void allow_window(Attending *a, Value *offset, bool causal, int64_t left, int64_t right)
{
    Graph *g = a->im->graph;
    Value *query = b_add(g, positions(g, DTYPE_i64, a->q->shape[2], 2, 4), offset),
          *key = positions(g, DTYPE_i64, a->k->shape[2], 3, 4);
    if (causal) allow_only(a, b_binary(g, OP_le, key, query));
    if (left >= 0) allow_only(a, b_binary(g, OP_le, query, shifted(g, key, (double)left)));
    if (right >= 0) allow_only(a, b_binary(g, OP_le, key, shifted(g, query, (double)right)));
}

/* ---- the formula ---- */
/* x (batch, heads, rows, n) times y (batch, kv heads, ..): heads that share one of y stand as rows of one matrix. */
static Value *grouped_dot(Import *im, Value *x, Value *y, bool trans_y)
{
    Graph *g = im->graph;
    Expr *heads = x->shape[1], *shared = y->shape[1], *rows = x->shape[2];
    if (expr_always_equal(im->symbols, heads, shared)) return b_dot(g, x, y, false, trans_y);
    Expr *each = expr_divide_exactly(im->symbols, heads, shared);
    Expr *shape[] = {x->shape[0], shared, expr_mul(im->symbols, each, rows), x->shape[3]};
    Value *product = b_dot(g, b_reshape(g, x, 4, shape), y, false, trans_y);
    Expr *apart[] = {x->shape[0], heads, rows, product->shape[3]};
    return b_reshape(g, product, 4, apart);
}

void attention_check(const Attending *a)
{
    Import *im = a->im;
    const OnnxNode *node = a->node;
    Value *const parts[] = {a->q, a->k, a->v};
    static const char *const names[] = {"Q", "K", "V"};
    for (int i = 0; i < 3; i++) {
        want_rank(im, node, parts[i], 4, 4, names[i]);
        want_same_type(im, node, a->q, parts[i]);
        must_agree(im, node, a->q->shape[0], parts[i]->shape[0], arena_text(im->arena, "batches of Q and %s", names[i]));
    }
    must_agree(im, node, a->q->shape[3], a->k->shape[3], "head sizes of Q and K");
    must_agree(im, node, a->k->shape[1], a->v->shape[1], "heads of K and V");
    must_agree(im, node, a->k->shape[2], a->v->shape[2], "times of K and V");
    Expr *heads = a->q->shape[1], *shared = a->k->shape[1];
    if (heads == shared || expr_divide_exactly(im->symbols, heads, shared)) return;
    import_error(im, node, "Q is %s and K %s: wanted fixed numbers of heads, those of Q a multiple of those of K",
                 type_text(im, a->q), type_text(im, a->k));
}

static Value *modified(Attending *a, const OnnxGraph *graph, Value *v)
{
    Term *in = term_of_value(a->im, v), *out = NULL;
    if (!graph) return v;
    if (graph->n_inputs != 1 || graph->n_outputs != 1)
        import_error(a->im, a->node, "a modifying graph has %d inputs and %d outputs; wanted one of each", graph->n_inputs,
                     graph->n_outputs);
    import_inline(a->im, graph, &in, 1, &out);
    Value *result = b_cast(a->im->graph, term_value(a->im, out), v->dtype);
    return want_broadcast(a->im, a->node, result, v->rank, v->shape, "the result of a modifying graph");
}

Value *attend(Attending *a)
{
    Graph *g = a->im->graph;
    attention_check(a);
    Value *scores = a->raw = scaled(g, grouped_dot(a->im, a->q, a->k, true), a->scale);
    if (a->softcap > 0) scores = scaled(g, b_unary(g, OP_tanh, scaled(g, scores, 1 / a->softcap)), a->softcap);
    a->capped = scores;
    scores = modified(a, a->score_mod, scores);
    if (a->bias) scores = b_add(g, scores, want_broadcast(a->im, a->node, a->bias, 4, scores->shape, "the mask"));
    a->biased = scores;
    Value *allowed = a->allowed ? want_broadcast(a->im, a->node, a->allowed, 4, scores->shape, "the mask") : NULL;
    if (allowed) {
        a->biased = b_select(g, allowed, scores, b_like(g, scores, -INFINITY));
        scores = a->may_be_empty ? b_select(g, allowed, scores, b_like(g, scores, -3.4028234663852886e38)) : a->biased;
    }
    Value *p = modified(a, a->prob_mod, b_softmax(g, OP_softmax, scores, 3));
    if (allowed && a->may_be_empty) {
        Value *any = b_reduce_keep(g, OP_reduce_max, allowed, (const int64_t[]){3}, 1);
        p = b_select(g, any, p, b_like(g, p, 0));
    }
    a->probabilities = p;
    return grouped_dot(a->im, p, a->v, false);
}

/* ---- Attention ---- */
/* A mask that knows fewer keys than there are forbids the rest. */
static Value *mask_of_all_keys(Attending *a, Value *mask)
{
    Graph *g = a->im->graph;
    int last = mask->rank - 1;
    int64_t has, wanted;
    if (last < 0) return mask;
    if (!expr_is_int(mask->shape[last], &has) || !expr_is_int(a->k->shape[2], &wanted) || has >= wanted) {
        if (!expr_is(mask->shape[last], 1))
            must_agree(a->im, a->node, mask->shape[last], a->k->shape[2], "keys of the mask and of K");
        return mask;
    }
    Expr *start[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i <= last; i++) start[i] = number(a->im, 0), step[i] = 1, shape[i] = mask->shape[i];
    shape[last] = a->k->shape[2];
    return b_pad(g, mask, mask->dtype == DTYPE_bool ? b_number(g, DTYPE_bool, 0) : b_like(g, mask, -INFINITY), start, step, shape);
}

/* Keys that precede the queries: those of the past, or (a cache from outside) the valid ones but the queries' own. */
static Value *query_offset(Attending *a, Value *past, Value *valid)
{
    Graph *g = a->im->graph;
    if (valid) return b_sub(g, valid, b_dim(g, a->q->shape[2]));
    return past ? b_dim(g, past->shape[2]) : b_number(g, DTYPE_i64, 0);
}

static double default_scale(Import *im, const OnnxNode *node, const Value *q)
{
    return 1 / sqrt((double)want_int(im, node, q->shape[3], "the size of a head"));
}

static void read_masks(Attending *a, Value *past)
{
    Import *im = a->im;
    const OnnxNode *node = a->node;
    Graph *g = im->graph;
    Value *mask = optional_input(im, node, 3), *valid = optional_input(im, node, 6);
    bool causal = attr_int(node, "is_causal", 0);
    int64_t left = attr_int(node, "left_window_size", -1), right = attr_int(node, "right_window_size", -1);
    if (mask) add_mask(a, mask_of_all_keys(a, mask));
    if (valid) {
        want_rank(im, node, valid, 1, 1, "nonpad_kv_seqlen");
        must_agree(im, node, valid->shape[0], a->q->shape[0], "the size of nonpad_kv_seqlen and the batch");
        valid =
            b_reshape(g, b_cast(g, valid, DTYPE_i64), 4, (Expr *[]){valid->shape[0], number(im, 1), number(im, 1), number(im, 1)});
        allow_only(a, less(g, positions(g, DTYPE_i64, a->k->shape[2], 3, 4), valid));
        a->may_be_empty = true;
    }
    if (left >= 0 || right >= 0) a->may_be_empty = true;
    if (causal || left >= 0 || right >= 0) allow_window(a, query_offset(a, past, valid), causal, left, right);
}

void import_Attention(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Attending a = {.im = im, .node = node, .q = input(im, node, 0), .k = input(im, node, 1), .v = input(im, node, 2)};
    Value *past_k = optional_input(im, node, 4), *past_v = optional_input(im, node, 5);
    bool flat = a.q->rank == 3;
    if (flat) {
        int64_t heads = attr_int(node, "q_num_heads", 0), shared = attr_int(node, "kv_num_heads", 0);
        a.q = to_heads(im, node, a.q, heads, "Q");
        a.k = to_heads(im, node, a.k, shared, "K");
        a.v = to_heads(im, node, a.v, shared, "V");
    }
    if (!past_k != !past_v) import_error(im, node, "one of past_key and past_value is given; wanted both or none");
    a.k = after_past(im, node, past_k, a.k);
    a.v = after_past(im, node, past_v, a.v);
    attention_check(&a);
    a.scale = attr_has(node, "scale") ? attr_float(node, "scale", 1) : default_scale(im, node, a.q);
    a.softcap = attr_float(node, "softcap", 0);
    read_masks(&a, past_k);
    Value *y = attend(&a), *const scores[] = {a.raw, a.capped, a.biased, a.probabilities};
    int64_t mode = attr_int(node, "qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3) import_error(im, node, "qk_matmul_output_mode is %lld; wanted 0 to 3", (long long)mode);
    output(im, node, 0, flat ? from_heads(g, y) : y);
    output(im, node, 1, a.k);
    output(im, node, 2, a.v);
    output(im, node, 3, scores[mode]);
}

void import_FlexAttention(Import *im, const OnnxNode *node)
{
    Attending a = {.im = im, .node = node, .q = input(im, node, 0), .k = input(im, node, 1), .v = input(im, node, 2)};
    attention_check(&a);
    a.scale = attr_has(node, "scale") ? attr_float(node, "scale", 1) : default_scale(im, node, a.q);
    a.score_mod = attr_graph(node, "score_mod");
    a.prob_mod = attr_graph(node, "prob_mod");
    output(im, node, 0, attend(&a));
}
