/* NonMaxSuppression: of boxes that overlap, the one with the highest score. */
#include "onnx/formulas.h"

typedef struct {
    Value *low[2], *high[2]; /* (batch, n): where a box begins and ends, along both axes */
} Boxes;

static Value *component(Graph *g, Value *boxes, int i)
{
    return b_squeeze(g, b_slice_axis(g, boxes, 2, expr_int(g->symbols, i), expr_int(g->symbols, 1)), 2);
}

/* By two opposite corners in any order, or by centre and size. */
static Boxes boxes_of(Graph *g, Value *v, bool by_center)
{
    Boxes b;
    for (int i = 0; i < 2; i++) {
        Value *p = component(g, v, i), *q = component(g, v, i + 2);
        Value *half = by_center ? scaled(g, q, 0.5) : NULL;
        b.low[i] = by_center ? b_sub(g, p, half) : b_binary(g, OP_min, p, q);
        b.high[i] = by_center ? b_add(g, p, half) : b_binary(g, OP_max, p, q);
    }
    return b;
}

/* (batch, n, n), as 0 and 1: whether the intersection of two boxes is more than threshold of their union. */
static Value *overlaps(Graph *g, const Boxes *b, Value *threshold)
{
    Value *shared = NULL, *area = NULL;
    for (int i = 0; i < 2; i++) {
        Value *low = b_binary(g, OP_max, b_expand_dims(g, b->low[i], 1), b_expand_dims(g, b->low[i], 2));
        Value *high = b_binary(g, OP_min, b_expand_dims(g, b->high[i], 1), b_expand_dims(g, b->high[i], 2));
        Value *length = b_sub(g, high, low), *size = b_sub(g, b->high[i], b->low[i]);
        length = b_binary(g, OP_max, length, b_like(g, length, 0));
        shared = shared ? b_mul(g, shared, length) : length;
        area = area ? b_mul(g, area, size) : size;
    }
    Value *whole = b_sub(g, b_add(g, b_expand_dims(g, area, 1), b_expand_dims(g, area, 2)), shared);
    Value *some = less(g, b_like(g, whole, 0), whole);
    return b_cast(g, both(g, some, less(g, threshold, b_div(g, shared, whole))), DTYPE_i32);
}

typedef struct {
    Value *suppress;                    /* (batch * n, n) */
    Value *most, *least;                /* boxes a class; the score above which a box counts, or NULL */
    Value *alive, *taken, *box, *score; /* (batch, classes, n) and (batch, classes) as i32; the step's box and score */
    Expr *batch, *classes, *n;
} Suppression;

/* One step, inside the body: the box with the next lower score of each class is taken if it is still alive. */
static void take_next(Graph *g, const Suppression *s)
{
    Expr *pairs[] = {s->batch, s->classes}, *count = expr_mul(g->symbols, s->batch, s->classes);
    Value *of_batch = b_iota(g, DTYPE_i64, 0, 2, pairs), *n = b_dim(g, s->n);
    Value *row = b_add(g, b_mul(g, of_batch, n), s->box);
    Value *pair = b_reshape(g, b_iota(g, DTYPE_i64, 0, 1, &count), 2, pairs);
    Value *alive = b_reshape(g, s->alive, 1, (Expr *[]){expr_mul(g->symbols, count, s->n)});
    Value *is_alive = b_gather(g, alive, b_add(g, b_mul(g, pair, n), s->box), 0);
    Value *take = both(g, less(g, b_like(g, is_alive, 0), is_alive), less(g, b_cast(g, s->taken, DTYPE_i64), s->most));
    if (s->least) take = both(g, take, less(g, s->least, s->score));
    Value *one = b_cast(g, take, DTYPE_i32), *lost = b_mul(g, b_expand_dims(g, one, 2), b_gather(g, s->suppress, row, 0));
    vec_push(g->arena, &g->outputs, b_mul(g, s->alive, b_sub(g, b_like(g, lost, 1), lost)));
    vec_push(g->arena, &g->outputs, b_add(g, s->taken, one));
    vec_push(g->arena, &g->outputs, one);
}

static Value *parameter(Graph *body, const char *name, const Value *like, int skip)
{
    return graph_input(body, name, like->dtype, like->rank - skip, like->shape + skip, FROM_PARAMETER);
}

/* Walks over the boxes by falling score; (n, batch, classes), 1 where the box of that place is taken. */
static Value *walk(Graph *g, Suppression s)
{
    Expr *pairs[] = {s.batch, s.classes}, *all[] = {s.batch, s.classes, s.n};
    Value *operands[7] = {b_full(g, DTYPE_i32, 1, 3, all), b_full(g, DTYPE_i32, 0, 2, pairs), s.box, s.score, s.suppress, s.most};
    int count = 6;
    Graph *body = graph_new(g->arena, g->symbols, "suppress");
    body->source = g->source;
    s.alive = parameter(body, "alive", operands[0], 0);
    s.taken = parameter(body, "taken", operands[1], 0);
    s.box = parameter(body, "box", operands[2], 1);
    s.score = parameter(body, "score", operands[3], 1);
    s.suppress = parameter(body, "suppress", operands[4], 0);
    s.most = parameter(body, "most", operands[5], 0);
    if (s.least) {
        operands[count++] = s.least;
        s.least = parameter(body, "least", s.least, 0);
    }
    take_next(body, &s);
    return b_scan(g, body, operands, count, 2, 2, false, s.n)->out[2];
}

/* A scalar from an input of one element, or the number `absent`. */
static Value *scalar_input(Import *im, const OnnxNode *node, int i, Dtype dtype, double absent)
{
    if (!has_input(node, i)) return b_number(im->graph, dtype, absent);
    Value *v = input(im, node, i);
    if (!expr_always_equal(im->symbols, value_count(im->graph, v), number(im, 1)))
        import_error(im, node, "input %d is %s; wanted one number", i, type_text(im, v));
    return b_cast(im->graph, b_reshape(im->graph, v, 0, NULL), dtype);
}

/* boxes (batch, n, 4), scores (batch, classes, n): rows of batch, class and box, by batch, class and falling score. */
void import_NonMaxSuppression(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *v = input(im, node, 0), *scores = input(im, node, 1), *sorted, *order;
    want_rank(im, node, v, 3, 3, "boxes (batch, n, 4)");
    want_rank(im, node, scores, 3, 3, "scores (batch, classes, n)");
    must_agree(im, node, v->shape[0], scores->shape[0], "batches of boxes and scores");
    must_agree(im, node, v->shape[1], scores->shape[2], "numbers of boxes and of scores");
    must_agree(im, node, v->shape[2], number(im, 4), "the last axis of boxes, and the 4 numbers of a box,");
    Boxes boxes = boxes_of(g, v, attr_int(node, "center_point_box", 0) != 0);
    Suppression s = {.batch = scores->shape[0], .classes = scores->shape[1], .n = scores->shape[2]};
    Value *overlap = overlaps(g, &boxes, scalar_input(im, node, 3, v->dtype, 0));
    s.suppress = b_reshape(g, overlap, 2, (Expr *[]){expr_mul(im->symbols, s.batch, s.n), s.n});
    s.most = scalar_input(im, node, 2, DTYPE_i64, 0);
    s.least = has_input(node, 4) ? scalar_input(im, node, 4, scores->dtype, 0) : NULL;
    b_top_k(g, scores, 2, s.n, true, &sorted, &order);
    const int64_t first[] = {2, 0, 1}, last[] = {1, 2, 0};
    s.box = b_transpose(g, order, first);
    s.score = b_transpose(g, sorted, first);
    Value *taken = b_transpose(g, walk(g, s), last), *places = b_nonzero(g, taken, "boxes_taken"); /* (3, late) */
    Value *part[3];
    for (int i = 0; i < 3; i++) part[i] = b_slice_axis(g, places, 0, number(im, i), number(im, 1));
    Value *pair = b_add(g, b_mul(g, part[0], b_dim(g, s.classes)), part[1]);
    Value *flat = b_reshape(g, order, 1, (Expr *[]){value_count(g, order)});
    part[2] = b_gather(g, flat, b_add(g, b_mul(g, pair, b_dim(g, s.n)), part[2]), 0);
    output(im, node, 0, b_transpose(g, b_concat(g, part, 3, 0), (int64_t[]){1, 0}));
}
