/* Resize and Upsample: axis by axis, each a few gathers with weights made from positions, for sizes known or symbolic.
 *
 * With antialias a pixel of the result looks at as many as the scale asks for; then the weights are a matrix (outputs, inputs) and
 * the axis is one dot. */
#include "onnx/formulas.h"
#include <math.h>
#include <string.h>

typedef enum { NEAREST, LINEAR, CUBIC } Mode;

typedef struct Resizing {
    Import *im;
    const OnnxNode *node;
    Mode mode;
    const char *transform, *nearest;
    bool antialias, exclude_outside;
    double cubic_a, extrapolation;
    Value *roi; /* tf_crop_and_resize: starts of the axes, then ends */
    int n_axes; /* of roi */
} Resizing;

/* One axis at work. */
typedef struct Axis {
    int axis, in_roi;
    Expr *in, *out;
    bool is_ratio; /* the scale is out / in; else it is given: as a value, or as a number */
    Value *common;
    double scale;
} Axis;

/* ---- sizes ---- */
/* p / q that is, as a float, the scale; false where no small q gives it. */
static bool as_fraction(double scale, int64_t *p, int64_t *q)
{
    for (*q = 1; *q <= 1000; ++*q) {
        *p = (int64_t)llround(scale * (double)*q);
        if ((float)((double)*p / (double)*q) == (float)scale) return true;
    }
    return false;
}

/* floor(in * scale), computed in floats where both are known, as runtimes do. */
static Expr *scaled_size(Import *im, const OnnxNode *node, Expr *in, double scale)
{
    int64_t known, p, q;
    if (scale <= 0) import_error(im, node, "a scale is %g; wanted more than 0", scale);
    if (expr_is_int(in, &known)) return number(im, (int64_t)floorf((float)known * (float)scale));
    if (!as_fraction(scale, &p, &q))
        import_error(
            im, node,
            "an axis of %s elements is scaled by %.9g, which is no simple fraction; wanted one, or sizes, or an axis of fixed size",
            expr_text(im->arena, in), scale);
    return expr_floordiv(im->symbols, expr_mul(im->symbols, in, number(im, p)), number(im, q));
}

/* keep_aspect_ratio_policy: all axes are scaled by the smallest (or largest) of size / in, and the results rounded half up:
 * round(size * in_i / in) = (2 * size * in_i + in) // (2 * in) for each axis, of which again the smallest (or largest). */
static void keep_aspect_ratio(Resizing *r, Axis *axes, int n, bool smallest)
{
    Symbols *s = r->im->symbols;
    Graph *g = r->im->graph;
    Dtype d = input_term(r->im, r->node, 0)->dtype == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
    Expr *size[MOST_AXES], *two = number(r->im, 2);
    Value *common = NULL;
    for (int i = 0; i < n; i++) {
        size[i] = axes[i].out;
        Value *ratio = b_div(g, dim_value(g, size[i], d), dim_value(g, axes[i].in, d));
        common = common ? b_binary(g, smallest ? OP_min : OP_max, common, ratio) : ratio;
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            Expr *doubled = expr_mul(s, two, expr_mul(s, size[k], axes[i].in));
            Expr *rounded = expr_floordiv(s, expr_add(s, doubled, axes[k].in), expr_mul(s, two, axes[k].in));
            axes[i].out = k == 0 ? rounded : smallest ? min_of(r->im, axes[i].out, rounded) : max_of(r->im, axes[i].out, rounded);
        }
        axes[i].is_ratio = false;
        axes[i].common = common;
    }
}

/* Scales from input i: known floats, or whole numbers that sizes give. */
static void read_scales(Import *im, const OnnxNode *node, int i, Axis *axes, int n)
{
    Term *t = input_term(im, node, i);
    if (term_count(t) != n) import_error(im, node, "scales are %s; wanted %d of them", term_text(im, t), n);
    for (int k = 0; k < n; k++) {
        int64_t whole;
        if (!element_number(im, t, k, &axes[k].scale)) {
            Expr *e = element_expr(im, t, k);
            if (!e)
                import_error(
                    im, node,
                    "scales (\"%s\", %s) are computed from data; they must follow from constants and the sizes of inputs, so "
                    "that shapes are known before a step runs",
                    node->inputs[i], term_text(im, t));
            if (!expr_is_int(e, &whole)) {
                axes[k].out = expr_mul(im->symbols, axes[k].in, e);
                axes[k].is_ratio = true;
                continue;
            }
            axes[k].scale = (double)whole;
        }
        axes[k].out = scaled_size(im, node, axes[k].in, axes[k].scale);
    }
}

/* ---- positions ---- */
/* The scale as a scalar of the coordinates' type. */
static Value *scale_value(Graph *g, const Axis *a, Dtype d)
{
    if (a->is_ratio) return b_div(g, dim_value(g, a->out, d), dim_value(g, a->in, d));
    return a->common ? a->common : b_number(g, d, a->scale);
}

static Value *roi_at(const Resizing *r, int i, Dtype d)
{
    Graph *g = r->im->graph;
    return b_cast(g, b_reshape(g, b_slice_axis(g, r->roi, 0, number(r->im, i), number(r->im, 1)), 0, NULL), d);
}

/* v where the result has more than one element, else otherwise. */
static Value *if_several(const Resizing *r, const Axis *a, Value *v, Value *otherwise)
{
    Graph *g = r->im->graph;
    Order order = expr_compare(r->im->symbols, a->out, number(r->im, 1));
    if (order == ORDER_GREATER) return v;
    if (order == ORDER_LESS_EQUAL || order == ORDER_EQUAL) return b_broadcast_to(g, otherwise, v->rank, v->shape);
    return b_select(g, less(g, b_number(g, DTYPE_i64, 1), b_dim(g, a->out)), v, otherwise);
}

/* The place in the input of each element of the result, a float vector (out). */
static Value *original_positions(const Resizing *r, const Axis *a, Dtype d)
{
    Graph *g = r->im->graph;
    const char *t = r->transform;
    Value *x = b_iota(g, d, 0, 1, &a->out), *scale = scale_value(g, a, d), *in = dim_value(g, a->in, d),
          *out = dim_value(g, a->out, d);
    Value *last = shifted(g, in, -1), *steps = shifted(g, dim_value(g, max_of(r->im, a->out, number(r->im, 2)), d), -1);
    Value *half_pixel = shifted(g, b_div(g, shifted(g, x, 0.5), scale), -0.5);
    if (strcmp(t, "half_pixel") == 0 || (strcmp(t, "half_pixel_symmetric") == 0 && a->is_ratio)) return half_pixel;
    if (strcmp(t, "pytorch_half_pixel") == 0) return if_several(r, a, half_pixel, b_like(g, x, 0));
    if (strcmp(t, "asymmetric") == 0) return b_div(g, x, scale);
    if (strcmp(t, "tf_half_pixel_for_nn") == 0) return b_div(g, shifted(g, x, 0.5), scale);
    if (strcmp(t, "align_corners") == 0) { /* a given scale makes the length what it says, fractions and all */
        Value *length = a->is_ratio ? out : b_mul(g, scale, in);
        return if_several(r, a, b_div(g, b_mul(g, x, last), shifted(g, length, -1)), b_like(g, x, 0));
    }
    if (strcmp(t, "half_pixel_symmetric") == 0) {
        Value *adjustment = b_div(g, out, b_mul(g, scale, in));
        return b_add(g, b_mul(g, scaled(g, in, 0.5), b_sub(g, b_like(g, in, 1), adjustment)), half_pixel);
    }
    if (strcmp(t, "tf_crop_and_resize") == 0) {
        Value *start = roi_at(r, a->in_roi, d), *end = roi_at(r, a->in_roi + r->n_axes, d);
        Value *within = b_div(g, b_mul(g, x, b_mul(g, b_sub(g, end, start), last)), steps);
        return if_several(r, a, b_add(g, b_mul(g, start, last), within), scaled(g, b_mul(g, b_add(g, start, end), last), 0.5));
    }
    import_error(r->im, r->node,
                 "coordinate_transformation_mode is \"%s\"; wanted half_pixel, half_pixel_symmetric, pytorch_half_pixel, "
                 "align_corners, asymmetric, tf_half_pixel_for_nn or tf_crop_and_resize",
                 t);
}

/* ---- taps ---- */
/* A float vector as an index of the axis, held within it. */
static Value *held_index(Graph *g, const Axis *a, Value *whole)
{
    Value *i = b_cast(g, whole, DTYPE_i64), *zero = b_number(g, DTYPE_i64, 0), *last = shifted(g, b_dim(g, a->in), -1);
    return b_binary(g, OP_max, b_binary(g, OP_min, i, last), zero);
}

static Value *outside(Graph *g, const Axis *a, Value *whole)
{
    Value *last = shifted(g, dim_value(g, a->in, whole->dtype), -1);
    return b_binary(g, OP_or, less(g, whole, b_like(g, whole, 0)), less(g, last, whole));
}

/* A vector that stands along an axis of a value of that rank: (n) as (n, 1, 1). */
static Value *standing(Graph *g, Value *v, int axis, int rank)
{
    Expr *shape[MOST_AXES];
    shape[0] = v->shape[0];
    for (int i = axis + 1; i < rank; i++) shape[i - axis] = expr_int(g->symbols, 1);
    return b_reshape(g, v, rank - axis, shape);
}

static Value *nearest_index(const Resizing *r, const Axis *a, Value *x)
{
    Graph *g = r->im->graph;
    const char *m = r->nearest;
    Value *whole = NULL;
    if (strcmp(m, "floor") == 0) whole = b_unary(g, OP_floor, x);
    if (strcmp(m, "ceil") == 0) whole = b_unary(g, OP_ceil, x);
    if (strcmp(m, "round_prefer_floor") == 0) whole = b_unary(g, OP_ceil, shifted(g, x, -0.5));
    if (strcmp(m, "round_prefer_ceil") == 0) whole = b_unary(g, OP_floor, shifted(g, x, 0.5));
    if (!whole)
        import_error(r->im, r->node, "nearest_mode is \"%s\"; wanted round_prefer_floor, round_prefer_ceil, floor or ceil", m);
    return held_index(g, a, whole);
}

/* Cubic convolution (Keys 1981) at distance t >= 0: near for t <= 1, far for 1 < t < 2. */
static Value *cubic_near(Graph *g, Value *t, double a) /* ((a + 2) t - (a + 3)) t^2 + 1 */
{
    return shifted(g, b_mul(g, shifted(g, scaled(g, t, a + 2), -(a + 3)), b_mul(g, t, t)), 1);
}

static Value *cubic_far(Graph *g, Value *t, double a) /* ((a t - 5 a) t + 8 a) t - 4 a */
{
    return shifted(g, b_mul(g, shifted(g, b_mul(g, shifted(g, scaled(g, t, a), -5 * a), t), 8 * a), t), -4 * a);
}

static int tap_weights(const Resizing *r, Value *fraction, Value **weight)
{
    Graph *g = r->im->graph;
    Value *rest = b_sub(g, b_like(g, fraction, 1), fraction);
    if (r->mode == LINEAR) {
        weight[0] = rest;
        weight[1] = fraction;
        return 2;
    }
    weight[0] = cubic_far(g, shifted(g, fraction, 1), r->cubic_a);
    weight[1] = cubic_near(g, fraction, r->cubic_a);
    weight[2] = cubic_near(g, rest, r->cubic_a);
    weight[3] = cubic_far(g, shifted(g, rest, 1), r->cubic_a);
    return 4;
}

static Value *by_taps(const Resizing *r, const Axis *a, Value *v, Value *x)
{
    Graph *g = r->im->graph;
    Value *floored = b_unary(g, OP_floor, x), *weight[4], *at[4], *sum = NULL, *result = NULL;
    int n = tap_weights(r, b_sub(g, x, floored), weight), first = r->mode == LINEAR ? 0 : -1;
    for (int i = 0; i < n; i++) {
        at[i] = shifted(g, floored, first + i);
        if (r->exclude_outside) {
            weight[i] = b_select(g, outside(g, a, at[i]), b_like(g, x, 0), weight[i]);
            sum = sum ? b_add(g, sum, weight[i]) : weight[i];
        }
    }
    for (int i = 0; i < n; i++) {
        Value *w = sum ? b_div(g, weight[i], sum) : weight[i];
        Value *part =
            b_mul(g, b_gather(g, v, held_index(g, a, at[i]), a->axis), standing(g, b_cast(g, w, v->dtype), a->axis, v->rank));
        result = result ? b_add(g, result, part) : part;
    }
    return result;
}

/* ---- antialias ---- */
/* Weight of each input (columns: margin positions before the first, then all, then margin behind) for each output (rows). */
static Value *filter_matrix(const Resizing *r, const Axis *a, Value *x, Expr *columns, Expr *margin)
{
    Graph *g = r->im->graph;
    Dtype d = x->dtype;
    Value *scale = b_binary(g, OP_min, scale_value(g, a, d), b_number(g, d, 1));
    Value *column = b_sub(g, b_iota(g, d, 0, 1, &columns), dim_value(g, margin, d));
    Value *t = b_unary(g, OP_abs, b_mul(g, b_sub(g, b_expand_dims(g, column, 0), b_expand_dims(g, x, 1)), scale));
    Value *one = b_number(g, d, 1), *zero = b_number(g, d, 0), *two = b_number(g, d, 2), *w;
    if (r->mode == LINEAR)
        w = b_unary(g, OP_relu, b_sub(g, one, t));
    else
        w = b_select(g, b_binary(g, OP_le, t, one), cubic_near(g, t, r->cubic_a),
                     b_select(g, less(g, t, two), cubic_far(g, t, r->cubic_a), zero));
    if (r->exclude_outside) w = b_select(g, b_expand_dims(g, outside(g, a, column), 0), zero, w);
    return b_div(g, w, b_reduce_keep(g, OP_reduce_sum, w, (const int64_t[]){1}, 1));
}

/* The axis times the matrix of weights; positions outside show the border. */
static Value *by_matrix(const Resizing *r, const Axis *a, Value *v, Value *x)
{
    Graph *g = r->im->graph;
    Symbols *s = r->im->symbols;
    int64_t axes[MOST_AXES], back[MOST_AXES], reach = r->mode == LINEAR ? 1 : 2;
    /* inputs beyond the border that an output can see: reach / scale, and never more than its own place may lie outside */
    Expr *per_output = max_of(r->im, expr_ceildiv(s, a->in, max_of(r->im, a->out, number(r->im, 1))), number(r->im, 1));
    Expr *margin = expr_add(s, expr_mul(s, number(r->im, reach), per_output), number(r->im, 1));
    Expr *columns = expr_add(s, a->in, expr_mul(s, margin, number(r->im, 2)));
    Value *w = b_cast(g, filter_matrix(r, a, x, columns, margin), v->dtype);
    Value *column = b_sub(g, b_iota(g, DTYPE_i64, 0, 1, &columns), b_dim(g, margin));
    Value *zero = b_number(g, DTYPE_i64, 0), *last = shifted(g, b_dim(g, a->in), -1);
    v = b_gather(g, v, b_binary(g, OP_max, b_binary(g, OP_min, column, last), zero), a->axis);
    int n = 0;
    for (int i = 0; i < v->rank; i++)
        if (i != a->axis) axes[n++] = i;
    axes[n] = a->axis;
    for (int i = 0; i < v->rank; i++) back[axes[i]] = i;
    return b_transpose(g, b_matmul(g, b_transpose(g, v, axes), b_swap_last(g, w)), back);
}

/* ---- axes ---- */
/* nearest by a whole factor, where each element is simply repeated: (.., n, ..) seen as (.., n, 1, ..), stretched. */
static Value *repeated(const Resizing *r, const Axis *a, Value *v)
{
    Graph *g = r->im->graph;
    bool half = strstr(r->transform, "half_pixel") && strcmp(r->transform, "tf_half_pixel_for_nn") != 0;
    bool plain = strcmp(r->transform, "asymmetric") == 0 && strcmp(r->nearest, "floor") == 0;
    if (a->is_ratio || a->common || a->scale != floor(a->scale) || a->scale < 2 ||
        !(plain || (half && strncmp(r->nearest, "round", 5) == 0)))
        return NULL;
    Expr *factor = number(r->im, (int64_t)a->scale), *shape[MOST_AXES];
    v = split_axis(g, v, a->axis, v->shape[a->axis], number(r->im, 1));
    for (int i = 0; i < v->rank; i++) shape[i] = i == a->axis + 1 ? factor : v->shape[i];
    return merge_axes(g, b_broadcast_to(g, v, v->rank, shape), a->axis);
}

static Value *resize_axis(const Resizing *r, const Axis *a, Value *v)
{
    Graph *g = r->im->graph;
    bool crops = strcmp(r->transform, "tf_crop_and_resize") == 0;
    if (!crops && a->in == a->out && (a->is_ratio || a->common || a->scale == 1)) return v;
    Value *done = r->mode == NEAREST ? repeated(r, a, v) : NULL;
    if (done) return done;
    Value *x = original_positions(r, a, v->dtype == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32);
    if (r->mode == NEAREST)
        v = b_gather(g, v, nearest_index(r, a, x), a->axis);
    else if (r->antialias)
        v = by_matrix(r, a, v, x);
    else
        v = by_taps(r, a, v, x);
    if (!crops) return v;
    return b_select(g, standing(g, outside(g, a, x), a->axis, v->rank), b_like(g, v, r->extrapolation), v);
}

static Mode mode_of(Import *im, const OnnxNode *node)
{
    const char *m = attr_string(node, "mode", "nearest");
    if (strcmp(m, "nearest") == 0) return NEAREST;
    if (strcmp(m, "linear") == 0 || strcmp(m, "bilinear") == 0) return LINEAR;
    if (strcmp(m, "cubic") == 0) return CUBIC;
    import_error(im, node, "mode is \"%s\"; wanted nearest, linear or cubic", m);
}

static void resize(Resizing *r, const Axis *axes, int n)
{
    Graph *g = r->im->graph;
    Value *x = input(r->im, r->node, 0), *v = x;
    bool widen = r->mode != NEAREST && !dtype_is_float(x->dtype);
    if (widen) v = b_cast(g, v, DTYPE_f32);
    for (int i = 0; i < n; i++) v = resize_axis(r, &axes[i], v);
    output(r->im, r->node, 0, b_cast(g, v, x->dtype));
}

void import_Resize(Import *im, const OnnxNode *node)
{
    bool old = opset(im, node) < 11;
    int n, n_sizes, scales = old ? 1 : 2;
    Term *t = input_term(im, node, 0);
    Axis *axes = NEW_ARRAY(im->arena, Axis, t->rank + 1);
    const int64_t *given = attr_ints(node, "axes", &n);
    if (!given) n = t->rank;
    for (int i = 0; i < n; i++) {
        int axis = given ? normal_axis(im, node, given[i], t->rank) : i;
        axes[i] = (Axis){.axis = axis, .in_roi = i, .in = t->shape[axis]};
    }
    Resizing r = {.im = im, .node = node, .mode = mode_of(im, node), .n_axes = n};
    r.transform = attr_string(node, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
    r.nearest = attr_string(node, "nearest_mode", old ? "floor" : "round_prefer_floor");
    r.antialias = attr_int(node, "antialias", 0);
    r.exclude_outside = attr_int(node, "exclude_outside", 0);
    r.cubic_a = attr_float(node, "cubic_coeff_a", -0.75);
    r.extrapolation = attr_float(node, "extrapolation_value", 0);
    if (strcmp(r.transform, "tf_crop_and_resize") == 0) {
        r.roi = input(im, node, 1);
        want_rank(im, node, r.roi, 1, 1, "roi");
        must_agree(im, node, r.roi->shape[0], number(im, 2 * n), "the size of roi and twice the number of axes");
    }
    bool by_scales = has_input(node, scales) && !(has_input(node, 3) && term_count(input_term(im, node, scales)) == 0);
    if (by_scales) {
        read_scales(im, node, scales, axes, n);
    } else {
        Expr *const *sizes = input_exprs_or_error(im, node, 3, &n_sizes, "sizes");
        if (n_sizes != n) import_error(im, node, "%d sizes for %d axes", n_sizes, n);
        for (int i = 0; i < n; i++) {
            axes[i].out = sizes[i];
            axes[i].is_ratio = true;
        }
        const char *policy = attr_string(node, "keep_aspect_ratio_policy", "stretch");
        if (strcmp(policy, "stretch") != 0) keep_aspect_ratio(&r, axes, n, strcmp(policy, "not_larger") == 0);
    }
    resize(&r, axes, n);
}

/* Upsample, opset 7 to 9: asymmetric positions; scales from an attribute or input 1. */
void import_Upsample(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int n;
    Axis *axes = NEW_ARRAY(im->arena, Axis, t->rank + 1);
    const double *scales = attr_floats(node, "scales", &n);
    if (scales && n != t->rank) import_error(im, node, "%d scales for %s", n, term_text(im, t));
    for (int i = 0; i < t->rank; i++) axes[i] = (Axis){.axis = i, .in = t->shape[i]};
    if (!scales) read_scales(im, node, 1, axes, t->rank);
    for (int i = 0; scales && i < t->rank; i++) {
        axes[i].scale = scales[i];
        axes[i].out = scaled_size(im, node, axes[i].in, scales[i]);
    }
    Resizing r = {
        .im = im, .node = node, .mode = mode_of(im, node), .transform = "asymmetric", .nearest = "floor", .cubic_a = -0.75};
    resize(&r, axes, t->rank);
}
