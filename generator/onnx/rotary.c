/* RotaryEmbedding of ai.onnx and of ONNX Runtime (Su et al. 2021, arXiv 2104.09864). */
#include "onnx/attention.h"
#include "onnx/places.h"
#include <string.h>

/* Elements first, first + step.. of the last axis, n of them. */
static Value *every(Import *im, Value *x, Expr *first, int64_t step_, Expr *n)
{
    Expr *start[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i < x->rank; i++) {
        bool last = i == x->rank - 1;
        start[i] = last ? first : number(im, 0);
        step[i] = last ? step_ : 1;
        shape[i] = last ? n : x->shape[i];
    }
    return b_slice(im->graph, x, start, step, shape);
}

Value *rotate(Import *im, const OnnxNode *node, Value *x, Value *cosine, Value *sine, int64_t dims, bool interleaved)
{
    Graph *g = im->graph;
    int64_t size = want_int(im, node, x->shape[3], "the size of a head");
    if (dims == 0) dims = size;
    if (dims % 2 || dims > size)
        import_error(im, node, "%lld of %lld elements of a head are to be rotated; wanted an even number, at most all",
                     (long long)dims, (long long)size);
    Expr *half = number(im, dims / 2), *zero = number(im, 0);
    must_agree(im, node, cosine->shape[2], half, "the last axis of the cosines, and half of what is rotated,");
    must_agree(im, node, sine->shape[2], half, "the last axis of the sines, and half of what is rotated,");
    Value *const tables[] = {cosine, sine};
    for (int i = 0; i < 2; i++) {
        if (!expr_is(tables[i]->shape[0], 1))
            must_agree(im, node, tables[i]->shape[0], x->shape[0], "batches of the angles and of what is rotated");
        must_agree(im, node, tables[i]->shape[1], x->shape[2], "times of the angles and of what is rotated");
    }
    Value *a = every(im, x, zero, interleaved ? 2 : 1, half),
          *b = every(im, x, interleaved ? number(im, 1) : half, interleaved ? 2 : 1, half);
    Value *c = b_cast(g, b_expand_dims(g, cosine, 1), x->dtype), *s = b_cast(g, b_expand_dims(g, sine, 1), x->dtype);
    Value *parts[3] = {b_sub(g, b_mul(g, c, a), b_mul(g, s, b)), b_add(g, b_mul(g, s, a), b_mul(g, c, b))};
    Value *rest = dims < size ? every(im, x, number(im, dims), 1, number(im, size - dims)) : NULL;
    if (!interleaved) {
        parts[2] = rest;
        return b_concat(g, parts, rest ? 3 : 2, 3);
    }
    for (int i = 0; i < 2; i++) parts[i] = b_expand_dims(g, parts[i], 4);
    Value *rotated = merge_axes(g, b_concat(g, parts, 2, 4), 3);
    return rest ? b_concat(g, (Value *[]){rotated, rest}, 2, 3) : rotated;
}

/* (batch or 1, time, half): rows of a cache (positions, half) that the ids (batch, time) choose; a single id is where time starts.
 */
static Value *chosen_rows(Import *im, const OnnxNode *node, Value *cache, Value *ids, Expr *time)
{
    Graph *g = im->graph;
    want_rank(im, node, cache, 2, 2, "a cache with position_ids");
    want_rank(im, node, ids, 1, 2, "position_ids");
    ids = b_cast(g, ids, DTYPE_i64);
    if (ids->rank == 1)
        must_agree(im, node, ids->shape[0], number(im, 1), "the size of position_ids, a vector, and that of one offset");
    if (ids->rank == 1)
        ids = b_add(g, b_reshape(g, ids, 2, (Expr *[]){number(im, 1), number(im, 1)}), positions(g, DTYPE_i64, time, 1, 2));
    return gather_within(im, cache, normal_index(im, ids, cache->shape[0]), 0);
}

static void rotary(Import *im, const OnnxNode *node, Value *x, Value *cosine, Value *sine, Value *ids)
{
    Graph *g = im->graph;
    bool flat = x->rank == 3;
    int64_t dims = attr_int(node, "rotary_embedding_dim", 0), heads = attr_int(node, "num_heads", 0);
    if (flat && !heads) { /* ONNX Runtime: a head is as wide as the cache says */
        int64_t hidden = want_int(im, node, x->shape[2], "the hidden size");
        heads = hidden / (2 * want_int(im, node, cosine->shape[cosine->rank - 1], "the last axis of the cosines"));
    }
    if (flat) x = to_heads(im, node, x, heads, "the input");
    want_rank(im, node, x, 4, 4, "the input");
    if (ids) {
        cosine = chosen_rows(im, node, cosine, ids, x->shape[2]);
        sine = chosen_rows(im, node, sine, ids, x->shape[2]);
    }
    want_rank(im, node, cosine, 3, 3, "the cosines");
    want_rank(im, node, sine, 3, 3, "the sines");
    Value *y = rotate(im, node, x, cosine, sine, dims, attr_int(node, "interleaved", 0));
    double scale = attr_float(node, "scale", 1);
    if (scale != 1) y = scaled(g, y, scale);
    output(im, node, 0, flat ? from_heads(g, y) : y);
}

/* ai.onnx: input, cosines, sines, ids.  com.microsoft: input, ids, cosines, sines. */
void import_RotaryEmbedding(Import *im, const OnnxNode *node)
{
    bool microsoft = strcmp(node->domain, "com.microsoft") == 0;
    if (attr_int(node, "is_packed_batching", 0)) import_error(im, node, "is_packed_batching is 1; wanted a batch axis");
    if (microsoft)
        rotary(im, node, input(im, node, 0), input(im, node, 2), input(im, node, 3), input(im, node, 1));
    else
        rotary(im, node, input(im, node, 0), input(im, node, 1), input(im, node, 2), optional_input(im, node, 3));
}
