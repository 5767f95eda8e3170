/* Reductions, arg max and min, cumulative operators, TopK, softmax and its kin. */
#include "onnx/terms.h"
#include <math.h>
#include <string.h>

/* ---- axes ---- */
typedef struct Axes {
    int64_t at[MOST_AXES];
    int n;
    bool keep, nothing; /* nothing: no axes given, and noop_with_empty_axes */
} Axes;

static Axes reduced_axes(Import *im, const OnnxNode *node, int rank)
{
    Axes a = {.keep = attr_int(node, "keepdims", 1)};
    int n;
    bool seen[MOST_AXES] = {false};
    const int64_t *axes = ints_from(im, node, "axes", 1, &n);
    if (n == 0 && attr_int(node, "noop_with_empty_axes", 0)) a.nothing = true;
    for (int i = 0; i < n; i++) seen[normal_axis(im, node, axes[i], rank)] = true;
    for (int i = 0; i < rank && !a.nothing; i++)
        if (n == 0 || seen[i]) a.at[a.n++] = i;
    return a;
}

static Value *reduce(Import *im, OpKind kind, Value *x, const Axes *a)
{
    return a->keep ? b_reduce_keep(im->graph, kind, x, a->at, a->n) : b_reduce(im->graph, kind, x, a->at, a->n);
}

/* ---- known elements ---- */
/* A reduction of known elements by fold, from a start; NULL where they are not known. */
static Term *reduce_content(Import *im, const Term *t, const Axes *a, Fold *fold)
{
    int64_t dims[MOST_AXES], stride[MOST_AXES], kept_stride[MOST_AXES] = {0}, at[MOST_AXES] = {0}, step = 1, n = term_count(t);
    bool reduced[MOST_AXES] = {false};
    if (!t->content || n == 0 || !fold) return NULL;
    term_dims(t, dims);
    row_major(dims, t->rank, stride);
    Expr *shape[MOST_AXES];
    int rank = 0;
    for (int i = 0; i < a->n; i++) reduced[a->at[i]] = true;
    for (int i = t->rank - 1; i >= 0; i--)
        if (!reduced[i]) {
            kept_stride[i] = step;
            step *= dims[i];
        }
    for (int i = 0; i < t->rank; i++)
        if (!reduced[i] || a->keep) shape[rank++] = reduced[i] ? number(im, 1) : t->shape[i];
    Expr **content = NEW_ARRAY(im->arena, Expr *, step + 1);
    for (int64_t e = 0; e < n; e++) {
        int64_t to = 0;
        for (int i = 0; i < t->rank; i++) to += at[i] * kept_stride[i];
        Expr *both[] = {content[to], t->content[e]};
        content[to] = content[to] ? content_element(im, t->dtype, fold(im, both)) : t->content[e];
        if (!content[to]) return NULL;
        for (int i = t->rank - 1; i >= 0 && ++at[i] == dims[i]; i--) at[i] = 0;
    }
    return term_of_content(im, t->dtype, rank, shape, content);
}

/* ---- reductions ---- */
static Value *reduce_mean(Import *im, Value *x, const Axes *a)
{
    return b_reduce_mean(im->graph, x, a->at, a->n, a->keep);
}

/* sqrt of the sum of squares, with gradient 0 where that is 0. */
static Value *reduce_l2(Import *im, Value *x, const Axes *a)
{
    Graph *g = im->graph;
    Dtype dtype = x->dtype;
    if (!dtype_is_float(dtype)) x = b_cast(g, x, DTYPE_f64);
    Value *sum = reduce(im, OP_reduce_sum, b_mul(g, x, x), a), *zero = b_like(g, x, 0);
    Value *none = b_binary(g, OP_eq, sum, zero);
    return b_cast(g, b_select(g, none, zero, b_unary(g, OP_sqrt, b_select(g, none, b_like(g, x, 1), sum))), dtype);
}

static Value *log_as(Import *im, Value *x)
{
    Graph *g = im->graph;
    return dtype_is_float(x->dtype) ? b_unary(g, OP_log, x) : b_cast(g, b_unary(g, OP_log, b_cast(g, x, DTYPE_f64)), x->dtype);
}

/* m + log(sum(exp(x - m))), m the maximum, or 0 where that is infinite. */
static Value *reduce_log_sum_exp(Import *im, Value *x, const Axes *a)
{
    Graph *g = im->graph;
    Dtype dtype = x->dtype;
    if (!dtype_is_float(dtype)) x = b_cast(g, x, DTYPE_f64);
    Value *top = b_reduce_keep(g, OP_reduce_max, x, a->at, a->n), *infinite = b_like(g, x, INFINITY);
    top = b_select(g, b_binary(g, OP_eq, b_unary(g, OP_abs, top), infinite), b_like(g, x, 0), top);
    Value *sum = reduce(im, OP_reduce_sum, b_unary(g, OP_exp, b_sub(g, x, top)), a);
    return b_cast(g, b_add(g, b_unary(g, OP_log, sum), b_reshape(g, top, sum->rank, sum->shape)), dtype);
}

void import_Reduce(Import *im, const OnnxNode *node)
{
    const char *name = node->op_type + strlen("Reduce");
    Term *t = input_term(im, node, 0);
    Axes a = reduced_axes(im, node, t->rank);
#define IS(text) (strcmp(name, text) == 0)
    Fold *fold = IS("Sum") ? fold_add : IS("Prod") ? fold_mul : IS("Max") ? fold_max : IS("Min") ? fold_min : NULL;
    Term *known = reduce_content(im, t, &a, fold);
    if (known) {
        output_term(im, node, 0, known);
        return;
    }
    Value *x = term_value(im, t), *y = NULL;
    Graph *g = im->graph;
    if (IS("Sum")) y = reduce(im, OP_reduce_sum, x, &a);
    if (IS("Prod")) y = reduce(im, OP_reduce_prod, x, &a);
    if (IS("Max")) y = reduce(im, OP_reduce_max, x, &a);
    if (IS("Min")) y = reduce(im, OP_reduce_min, x, &a);
    if (IS("Mean")) y = reduce_mean(im, x, &a);
    if (IS("L1")) y = reduce(im, OP_reduce_sum, dtype_is_signed(x->dtype) ? b_unary(g, OP_abs, x) : x, &a);
    if (IS("L2")) y = reduce_l2(im, x, &a);
    if (IS("LogSum")) y = log_as(im, reduce(im, OP_reduce_sum, x, &a));
    if (IS("LogSumExp")) y = reduce_log_sum_exp(im, x, &a);
    if (IS("SumSquare")) y = reduce(im, OP_reduce_sum, b_mul(g, x, x), &a);
#undef IS
    check(y);
    output(im, node, 0, y);
}

/* ---- ArgMax, ArgMin ---- */
void import_Arg(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    int axis = normal_axis(im, node, attr_int(node, "axis", 0), x->rank);
    OpKind kind = strcmp(node->op_type, "ArgMax") == 0 ? OP_arg_max : OP_arg_min;
    Value *y = b_arg(im->graph, kind, x, axis, attr_int(node, "select_last_index", 0));
    output(im, node, 0, attr_int(node, "keepdims", 1) ? b_expand_dims(im->graph, y, axis) : y);
}

/* ---- CumSum, CumProd ---- */
static Term *cumulative_content(Import *im, const Term *t, bool exclusive, bool reverse, Fold *fold, int64_t first)
{
    int64_t n = term_count(t);
    if (!t->content || t->rank != 1) return NULL;
    Expr **content = NEW_ARRAY(im->arena, Expr *, n + 1), *sum = number(im, first);
    for (int64_t k = 0; k < n; k++) {
        int64_t i = reverse ? n - 1 - k : k;
        if (exclusive) content[i] = sum;
        sum = content_element(im, t->dtype, fold(im, (Expr *[]){sum, t->content[i]}));
        if (!sum) return NULL;
        if (!exclusive) content[i] = sum;
    }
    return term_of_content(im, t->dtype, t->rank, t->shape, content);
}

void import_Cumulative(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    bool sum = strcmp(node->op_type, "CumSum") == 0, exclusive = attr_int(node, "exclusive", 0),
         reverse = attr_int(node, "reverse", 0);
    int n;
    const int64_t *axes = ints_from(im, node, "axis", 1, &n);
    if (n != 1) import_error(im, node, "%d axes; wanted one", n);
    int axis = normal_axis(im, node, axes[0], t->rank);
    Term *known = cumulative_content(im, t, exclusive, reverse, sum ? fold_add : fold_mul, !sum);
    double number_;
    if (known)
        output_term(im, node, 0, known);
    else if (sum && value_is_scalar_constant(term_value(im, t), &number_) && number_ == 0)
        output_term(im, node, 0, t); /* nothing, summed up */
    else
        output(im, node, 0, b_cumulative(im->graph, sum ? OP_cum_sum : OP_cum_prod, term_value(im, t), axis, exclusive, reverse));
}

/* ---- TopK ---- */
void import_TopK(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0), *values, *indices;
    if (x->rank == 0) import_error(im, node, "TopK of a scalar; wanted rank 1 or more");
    int axis = normal_axis(im, node, attr_int(node, "axis", -1), x->rank);
    Expr *k = attr_has(node, "k") ? number(im, attr_int(node, "k", 1)) : input_size(im, node, 1, "k");
    if (expr_compare(im->symbols, k, x->shape[axis]) == ORDER_GREATER)
        import_error(im, node, "k is %s, axis %d of %s has fewer", expr_text(im->arena, k), axis, type_text(im, x));
    b_top_k(im->graph, x, axis, k, attr_int(node, "largest", 1), &values, &indices);
    output(im, node, 0, values);
    output(im, node, 1, indices);
}

/* ---- softmax ---- */
static Value *hardmax(Import *im, Value *x, int axis)
{
    Graph *g = im->graph;
    Value *top = b_expand_dims(g, b_arg(g, OP_arg_max, x, axis, false), axis);
    return b_cast(g, b_binary(g, OP_eq, top, b_iota(g, DTYPE_i64, axis, x->rank, x->shape)), x->dtype);
}

static Value *softmax_along(Import *im, const OnnxNode *node, Value *x, int axis)
{
    if (strcmp(node->op_type, "Hardmax") == 0) return hardmax(im, x, axis);
    return b_softmax(im->graph, strcmp(node->op_type, "Softmax") == 0 ? OP_softmax : OP_log_softmax, x, axis);
}

/* Before opset 13 the axes from `axis` on are one. */
void import_Softmax(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    bool along_one = opset(im, node) >= 13;
    if (x->rank == 0) import_error(im, node, "%s of a scalar; wanted rank 1 or more", node->op_type);
    int64_t given = attr_int(node, "axis", along_one ? -1 : 1);
    int axis = !along_one && given == x->rank ? x->rank : normal_axis(im, node, given, x->rank);
    if (along_one || axis == x->rank - 1) {
        output(im, node, 0, softmax_along(im, node, x, axis));
        return;
    }
    Expr *rows[] = {expr_product(im->symbols, x->shape, axis), expr_product(im->symbols, x->shape + axis, x->rank - axis)};
    Value *y = softmax_along(im, node, b_reshape(im->graph, x, 2, rows), 1);
    output(im, node, 0, b_reshape(im->graph, y, x->rank, x->shape));
}
