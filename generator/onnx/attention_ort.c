/* ONNX Runtime's attention operators: Attention, MultiHeadAttention, GroupQueryAttention of com.microsoft. */
#include "onnx/attention.h"
#include "onnx/places.h"
#include "onnx/quantize.h"
#include <math.h>
#include <string.h>

/* ---- shared ---- */
/* Part i of n equal ones along the last axis. */
static Value *last_part(Import *im, const OnnxNode *node, Value *v, int i, int n, const char *what)
{
    Expr *size = want_quotient(im, node, v->shape[v->rank - 1], number(im, n), what);
    return b_slice_axis(im->graph, v, v->rank - 1, expr_mul(im->symbols, size, number(im, i)), size);
}

static double scale_of(Import *im, const OnnxNode *node, const Value *q)
{
    double scale = attr_float(node, "scale", 0);
    return scale != 0 ? scale : 1 / sqrt((double)want_int(im, node, q->shape[3], "the size of a head"));
}

/* i64 (batch, 1, 1, 1) from a vector of one a sample. */
static Value *per_sample(Import *im, Value *v)
{
    Expr *shape[] = {v->shape[0], number(im, 1), number(im, 1), number(im, 1)};
    return b_reshape(im->graph, b_cast(im->graph, v, DTYPE_i64), 4, shape);
}

static void add_bias(Attending *a, Value *bias)
{
    if (bias) a->bias = a->bias ? checked_binary(a->im, a->node, OP_add, a->bias, bias) : bias;
}

/* The padding masks that these operators take, integers: (batch) numbers of valid keys; (batch, keys), (batch, time, keys) or
 * (batch, 1, time, keys) with 0 where a key does not count, which then has `filter` added to its score. */
static void add_padding_mask(Attending *a, Value *mask, double filter)
{
    Import *im = a->im;
    Graph *g = im->graph;
    if (mask->rank == 1) {
        if (!expr_always_equal(im->symbols, mask->shape[0], a->q->shape[0]))
            import_error(im, a->node,
                         "the mask is %s: starts and ends of samples packed together; wanted (batch) lengths or (batch, keys)",
                         type_text(im, mask));
        allow_only(a, less(g, positions(g, DTYPE_i64, a->k->shape[2], 3, 4), per_sample(im, mask)));
        a->may_be_empty = true;
        return;
    }
    if (dtype_is_float(mask->dtype)) import_error(im, a->node, "the mask is %s; wanted integers", type_text(im, mask));
    want_rank(im, a->node, mask, 2, 4, "the mask");
    if (mask->rank == 2) mask = b_expand_dims(g, mask, 1);
    if (mask->rank == 3) mask = b_expand_dims(g, mask, 1);
    if (mask->dtype != DTYPE_bool) mask = b_unary(g, OP_not, equal(g, mask, b_like(g, mask, 0)));
    Value *bias = b_select(g, mask, b_number(g, a->q->dtype, 0), b_number(g, a->q->dtype, filter));
    add_bias(a, bias);
}

/* past keys or values of a pair (2, batch, heads, time, size). */
static Value *of_pair(Import *im, Value *pair, int i)
{
    return b_squeeze(im->graph, b_slice_axis(im->graph, pair, 0, number(im, i), number(im, 1)), 0);
}

static void want_no_input(Import *im, const OnnxNode *node, int i, const char *what)
{
    if (has_input(node, i))
        import_error(im, node, "%s (input %d, \"%s\") belongs to decoding step by step; export the model without a cache", what, i,
                     node->inputs[i]);
}

/* ---- Attention ---- */
/* Sizes of Q, K and V in the product with the weights, (batch, time, all three). */
static void split_product(Import *im, const OnnxNode *node, Value *all, Value **parts)
{
    int n;
    const int64_t *sizes = attr_ints(node, "qkv_hidden_sizes", &n);
    if (!sizes) {
        for (int i = 0; i < 3; i++) parts[i] = last_part(im, node, all, i, 3, "columns of the weights over 3");
        return;
    }
    if (n != 3) import_error(im, node, "qkv_hidden_sizes has %d numbers; wanted 3", n);
    must_agree(im, node, all->shape[2], number(im, sizes[0] + sizes[1] + sizes[2]),
               "columns of the weights and the sum of qkv_hidden_sizes");
    for (int i = 0, at = 0; i < 3; at += (int)sizes[i++])
        parts[i] = b_slice_axis(im->graph, all, 2, number(im, at), number(im, sizes[i]));
}

/* input (batch, time, n), weights (n, q + k + v), bias, mask, past (2, ..), bias of the scores. */
void import_MicrosoftAttention(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *bias = optional_input(im, node, 2), *mask = optional_input(im, node, 3), *past = optional_input(im, node, 4), *parts[3];
    int64_t heads = attr_int(node, "num_heads", 0);
    if (attr_int(node, "do_rotary", 0)) import_error(im, node, "do_rotary is 1; wanted RotaryEmbedding as an operator of its own");
    want_no_input(im, node, 6, "past_sequence_length");
    Value *all = checked_matmul(im, node, input(im, node, 0), input(im, node, 1));
    want_rank(im, node, all, 3, 3, "input x weights");
    if (bias) all = b_add(g, all, want_broadcast(im, node, bias, 3, all->shape, "bias"));
    split_product(im, node, all, parts);
    Attending a = {.im = im, .node = node};
    Value **to[] = {&a.q, &a.k, &a.v};
    for (int i = 0; i < 3; i++) *to[i] = to_heads(im, node, parts[i], heads, "Q, K or V");
    if (past) {
        want_rank(im, node, past, 5, 5, "past");
        a.k = after_past(im, node, of_pair(im, past, 0), a.k);
        a.v = after_past(im, node, of_pair(im, past, 1), a.v);
    }
    a.scale = scale_of(im, node, a.q);
    if (mask) add_padding_mask(&a, mask, attr_float(node, "mask_filter_value", -10000));
    add_bias(&a, optional_input(im, node, 5));
    if (attr_int(node, "unidirectional", 0))
        allow_window(&a, past ? b_dim(g, past->shape[3]) : b_number(g, DTYPE_i64, 0), true, -1, -1);
    output(im, node, 0, from_heads(g, attend(&a)));
    if (wants_output(node, 1)) {
        Value *pair[] = {b_expand_dims(g, a.k, 0), b_expand_dims(g, a.v, 0)};
        output(im, node, 1, b_concat(g, pair, 2, 0));
    }
}

/* ---- MultiHeadAttention ---- */
/* Part i of queries, keys and values packed as (batch, time, heads, parts, size): (batch, heads, time, size). */
static Value *unpacked(Import *im, Value *packed, int i)
{
    Graph *g = im->graph;
    Value *part = b_squeeze(g, b_slice_axis(g, packed, 3, number(im, i), number(im, 1)), 3);
    return b_transpose(g, part, (int64_t[]){0, 2, 1, 3});
}

/* The bias of Q, K and V stands in one vector; part i as (heads, 1, size). */
static Value *with_part_of_bias(Import *im, const OnnxNode *node, Value *v, Value *bias, Expr *at, int64_t heads)
{
    Graph *g = im->graph;
    if (!bias) return v;
    want_rank(im, node, bias, 1, 1, "bias");
    Value *part = b_slice_axis(g, bias, 0, at, expr_mul(im->symbols, v->shape[3], number(im, heads)));
    return b_add(g, v, b_reshape(g, part, 3, (Expr *[]){number(im, heads), number(im, 1), v->shape[3]}));
}

static void read_multi_head(Attending *a, int64_t heads)
{
    Import *im = a->im;
    const OnnxNode *node = a->node;
    Value *q = input(im, node, 0), *k = optional_input(im, node, 1), *v = optional_input(im, node, 2);
    if (q->rank == 5) {
        a->q = unpacked(im, q, 0);
        a->k = unpacked(im, q, 1);
        a->v = unpacked(im, q, 2);
        return;
    }
    a->q = to_heads(im, node, q, heads, "query");
    if (!k)
        import_error(im, node, "key is not given and query is %s; wanted a key, or (batch, time, heads, 3, size)",
                     type_text(im, q));
    if (k->rank == 5) {
        a->k = unpacked(im, k, 0);
        a->v = unpacked(im, k, 1);
        return;
    }
    if (!v) import_error(im, node, "value is not given and key is %s; wanted both", type_text(im, k));
    a->k = k->rank == 4 ? k : to_heads(im, node, k, heads, "key");
    a->v = v->rank == 4 ? v : to_heads(im, node, v, heads, "value");
}

/* query, key, value, bias, padding mask, bias of the scores, past key, past value. */
void import_MultiHeadAttention(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    int64_t heads = attr_int(node, "num_heads", 0);
    Value *bias = optional_input(im, node, 3), *mask = optional_input(im, node, 4), *past_k = optional_input(im, node, 6);
    Attending a = {.im = im, .node = node};
    want_no_input(im, node, 8, "past_sequence_length");
    want_no_input(im, node, 9, "cache_indirection");
    read_multi_head(&a, heads);
    if (bias) {
        Expr *hidden = expr_mul(s, a.q->shape[3], number(im, heads));
        a.q = with_part_of_bias(im, node, a.q, bias, number(im, 0), heads);
        bool has_theirs = has_input(node, 1) && input_term(im, node, 1)->rank == 4; /* keys of a cache had it before */
        if (!has_theirs) a.k = with_part_of_bias(im, node, a.k, bias, hidden, heads);
        if (!has_theirs) a.v = with_part_of_bias(im, node, a.v, bias, expr_mul(s, hidden, number(im, 2)), heads);
    }
    a.k = after_past(im, node, past_k, a.k);
    a.v = after_past(im, node, optional_input(im, node, 7), a.v);
    a.scale = scale_of(im, node, a.q);
    if (mask) add_padding_mask(&a, mask, attr_float(node, "mask_filter_value", -10000));
    add_bias(&a, optional_input(im, node, 5));
    if (attr_int(node, "unidirectional", 0))
        allow_window(&a, past_k ? b_dim(g, past_k->shape[2]) : b_number(g, DTYPE_i64, 0), true, -1, -1);
    output(im, node, 0, from_heads(g, attend(&a)));
    output(im, node, 1, a.k);
    output(im, node, 2, a.v);
    output(im, node, 3, a.raw);
}

/* ---- GroupQueryAttention ---- */
/* Q, K, V from one tensor (batch, time, (heads + 2 kv heads) * size), or from three. */
static void read_grouped(Attending *a, int64_t heads, int64_t shared)
{
    Import *im = a->im;
    const OnnxNode *node = a->node;
    Graph *g = im->graph;
    Value *q = input(im, node, 0);
    want_rank(im, node, q, 3, 3, "query");
    if (has_input(node, 1)) {
        a->q = to_heads(im, node, q, heads, "query");
        a->k = to_heads(im, node, input(im, node, 1), shared, "key");
        a->v = to_heads(im, node, input(im, node, 2), shared, "value");
        return;
    }
    int64_t size = want_int(im, node, q->shape[2], "the packed size") / (heads + 2 * shared);
    Expr *wide = number(im, heads * size), *narrow = number(im, shared * size);
    a->q = to_heads(im, node, b_slice_axis(g, q, 2, number(im, 0), wide), heads, "query");
    a->k = to_heads(im, node, b_slice_axis(g, q, 2, wide, narrow), shared, "key");
    a->v = to_heads(im, node, b_slice_axis(g, q, 2, expr_add(im->symbols, wide, narrow), narrow), shared, "value");
}

/* Valid keys of the past of each sample: seqlens_k counts those of all keys, less one. */
static Value *valid_past(Attending *a)
{
    Import *im = a->im;
    Graph *g = im->graph;
    Value *last = input(im, a->node, 5);
    if (last->rank == 2) last = b_squeeze(g, last, 1);
    want_rank(im, a->node, last, 1, 1, "seqlens_k");
    return b_sub(g, shifted(g, per_sample(im, last), 1), b_dim(g, a->q->shape[2]));
}

static void rotate_grouped(Attending *a, Value *before)
{
    Import *im = a->im;
    const OnnxNode *node = a->node;
    Graph *g = im->graph;
    Value *cosine = input(im, node, 7), *sine = input(im, node, 8), *ids = optional_input(im, node, 9);
    bool interleaved = attr_int(node, "rotary_interleaved", 0);
    want_rank(im, node, cosine, 2, 2, "cos_cache");
    want_rank(im, node, sine, 2, 2, "sin_cache");
    if (!ids) {
        ids = positions(g, DTYPE_i64, a->q->shape[2], 1, 2);
        if (before)
            ids = checked_binary(im, node, OP_add, ids, b_reshape(g, before, 2, (Expr *[]){before->shape[0], number(im, 1)}));
    }
    ids = normal_index(im, ids, cosine->shape[0]);
    int64_t dims = 2 * want_int(im, node, cosine->shape[1], "the last axis of cos_cache");
    cosine = gather_within(im, cosine, ids, 0);
    sine = gather_within(im, sine, ids, 0);
    a->q = rotate(im, node, a->q, cosine, sine, dims, interleaved);
    a->k = rotate(im, node, a->k, cosine, sine, dims, interleaved);
}

/* Past keys count up to those that are valid, then come the new ones, causally. */
static void allow_grouped(Attending *a, Value *past, Value *before)
{
    Graph *g = a->im->graph;
    int64_t window = attr_int(a->node, "local_window_size", -1);
    if (!past) {
        allow_window(a, b_number(g, DTYPE_i64, 0), true, window > 0 ? window - 1 : -1, -1);
        return;
    }
    Value *length = b_dim(g, past->shape[2]), *key = positions(g, DTYPE_i64, a->k->shape[2], 3, 4);
    allow_window(a, length, true, -1, -1);
    allow_only(a, b_binary(g, OP_or, less(g, key, before), b_binary(g, OP_le, length, key)));
    if (window <= 0) return;
    Value *query = b_add(g, positions(g, DTYPE_i64, a->q->shape[2], 2, 4), before); /* places among valid keys only */
    Value *place = b_select(g, less(g, key, length), key, b_add(g, b_sub(g, key, length), before));
    allow_only(a, less(g, query, shifted(g, place, (double)window)));
}

/* query, key, value, past key, past value, seqlens_k, total length, cosines, sines, ids, bias of the scores. */
void import_GroupQueryAttention(Import *im, const OnnxNode *node)
{
    Attending a = {.im = im, .node = node, .softcap = attr_float(node, "softcap", 0)};
    int64_t heads = attr_int(node, "num_heads", 0), shared = attr_int(node, "kv_num_heads", 0);
    if (heads < 1 || shared < 1 || heads % shared)
        import_error(im, node, "num_heads is %lld and kv_num_heads %lld; wanted a multiple of the latter", (long long)heads,
                     (long long)shared);
    if (has_input(node, 11)) import_error(im, node, "head_sink (input 11, \"%s\") is not supported", node->inputs[11]);
    read_grouped(&a, heads, shared);
    Value *past = optional_input(im, node, 3);
    if (past && past->rank == 4 && expr_is(past->shape[2], 0)) past = NULL;
    Value *before = past ? valid_past(&a) : NULL;
    if (attr_int(node, "do_rotary", 0)) rotate_grouped(&a, before);
    if (past) {
        a.k = after_past(im, node, past, a.k);
        a.v = after_past(im, node, input(im, node, 4), a.v);
    }
    a.scale = scale_of(im, node, a.q);
    allow_grouped(&a, past, before);
    add_bias(&a, optional_input(im, node, 10));
    output(im, node, 0, from_heads(im->graph, attend(&a)));
    output(im, node, 1, a.k);
    output(im, node, 2, a.v);
}
