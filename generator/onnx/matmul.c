/* Matrix products: MatMul, Gemm and their fused forms. */
#include "onnx/formulas.h"
#include "onnx/quantize.h"
#include <string.h>

/* ---- MatMul ---- */
/* a x b as ONNX MatMul has it, or the user's error with both types. */
Value *checked_matmul(Import *im, const OnnxNode *node, Value *a, Value *b)
{
    want_same_type(im, node, a, b);
    if (a->rank < 1 || b->rank < 1)
        import_error(im, node, "a product of %s and %s; wanted rank 1 or more", type_text(im, a), type_text(im, b));
    Expr *inner_a = a->shape[a->rank - 1], *inner_b = b->shape[b->rank > 1 ? b->rank - 2 : 0];
    if (!expr_always_equal(im->symbols, inner_a, inner_b) && !symbols_equate(im->symbols, inner_a, inner_b, NULL))
        import_error(im, node, "inner sizes differ: %s x %s", type_text(im, a), type_text(im, b));
    int rank;
    if (a->rank > 2 && b->rank > 2) broadcast_shapes(im, node, a->rank - 2, a->shape, b->rank - 2, b->shape, &rank);
    return b_matmul(im->graph, a, b);
}

void import_MatMul(Import *im, const OnnxNode *node)
{
    output(im, node, 0, checked_matmul(im, node, input(im, node, 0), input(im, node, 1)));
}

/* ---- Gemm ---- */
/* factor * v, also for integers, whose factor is mostly 1. */
static Value *times_attribute(Import *im, const OnnxNode *node, Value *v, const char *name)
{
    double factor = attr_float(node, name, 1);
    if (factor == 1) return v;
    if (!dtype_is_float(v->dtype) && factor != (double)(int64_t)factor)
        import_error(im, node, "%s is %g for %s; wanted an integer", name, factor, type_text(im, v));
    return scaled(im->graph, v, factor);
}

/* alpha * a' b' + beta * c, c broadcast to the product. */
void import_Gemm(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *a = input(im, node, 0), *b = input(im, node, 1), *c = optional_input(im, node, 2);
    want_rank(im, node, a, 2, 2, "A");
    want_rank(im, node, b, 2, 2, "B");
    if (attr_int(node, "transA", 0)) a = b_swap_last(g, a);
    if (attr_int(node, "transB", 0)) b = b_swap_last(g, b);
    Value *product = times_attribute(im, node, checked_matmul(im, node, a, b), "alpha");
    if (c) {
        want_same_type(im, node, product, c);
        want_broadcast(im, node, c, 2, product->shape, "C");
        product = b_add(g, product, times_attribute(im, node, c, "beta"));
    }
    output(im, node, 0, product);
}

/* ---- fused forms of ONNX Runtime ---- */
/* A transpose, where transBatch says that the rows stand before the batch: (m, batch.., k) is (batch.., m, k). */
static Value *batch_first(Graph *g, Value *v)
{
    int64_t axes[MOST_AXES];
    for (int i = 0; i < v->rank; i++) axes[i] = i < v->rank - 2 ? i + 1 : i == v->rank - 2 ? 0 : v->rank - 1;
    return b_transpose(g, v, axes);
}

void import_FusedMatMul(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *v[2];
    for (int i = 0; i < 2; i++) {
        v[i] = input(im, node, i);
        if (v[i]->rank > 2 && attr_int(node, i ? "transBatchB" : "transBatchA", 0)) v[i] = batch_first(g, v[i]);
        if (v[i]->rank > 1 && attr_int(node, i ? "transB" : "transA", 0)) v[i] = b_swap_last(g, v[i]);
    }
    output(im, node, 0, times_attribute(im, node, checked_matmul(im, node, v[0], v[1]), "alpha"));
}
