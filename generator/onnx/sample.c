/* Reading an image between its pixels.  Each tap is a gather of rows with a weight made of the place, so the gradient reaches both
 * the image (as a scatter) and the place (through the weights). */
#include "onnx/sample.h"
#include <string.h>

typedef struct Tap {
    Value *index;  /* i64, within the axis */
    Value *weight; /* NULL: 1 */
} Tap;

Image image_of(Import *im, const OnnxNode *node, Value *x, int64_t groups)
{
    Graph *g = im->graph;
    Image image = {.im = im, .rank = x->rank - 2};
    if (image.rank < 1 || image.rank > MOST_PLACES)
        import_error(im, node, "X is %s; wanted (n, c, d..) with 1 to %d spatial axes", type_text(im, x), MOST_PLACES);
    Expr *each = want_quotient(im, node, x->shape[1], number(im, groups), "channels over groups");
    int64_t axes[MOST_AXES] = {0, 1};
    Value *apart = split_axis(g, x, 1, number(im, groups), each);
    for (int i = 0; i < image.rank; i++) {
        image.size[i] = x->shape[i + 2];
        axes[i + 2] = i + 3;
    }
    axes[apart->rank - 1] = 2;
    Value *last = b_transpose(g, apart, axes);
    Expr *shape[] = {expr_product(im->symbols, last->shape, last->rank - 1), each};
    image.rows = b_reshape(g, last, 2, shape);
    return image;
}

/* place thrown back into [low, high] as often as it takes. */
static Value *reflected(Graph *g, Value *place, Value *low, Value *high)
{
    Value *range = b_binary(g, OP_max, b_sub(g, high, low), b_like(g, place, 1)), *twice = scaled(g, range, 2);
    Value *m = b_binary(g, OP_mod, b_sub(g, place, low), twice);
    return b_add(g, low, b_select(g, b_binary(g, OP_le, m, range), m, b_sub(g, twice, m)));
}

/* The pixel of a whole place: where that is no number, the first, whose weight is none. */
static Value *pixel_of(Graph *g, Value *whole, Value *last)
{
    Value *zero = b_like(g, whole, 0);
    return b_cast(g, b_select(g, less(g, zero, whole), b_select(g, less(g, last, whole), last, whole), zero), DTYPE_i64);
}

static Value *held(Graph *g, Value *place, Value *last)
{
    Value *zero = b_like(g, place, 0);
    return b_select(g, less(g, place, zero), zero, b_select(g, less(g, last, place), last, place));
}

/* A place that lies outside as the padding sees it; zeros leave it where it is. */
static Value *padded_place(const Image *image, int axis, Value *place)
{
    Graph *g = image->im->graph;
    Value *last = shifted(g, dim_value(g, image->size[axis], place->dtype), -1);
    if (image->padding == PAD_BORDER) return held(g, place, last);
    if (image->padding == PAD_ZEROS) return place;
    double edge = image->align_corners ? 0 : 0.5;
    return reflected(g, place, b_like(g, place, -edge), shifted(g, last, edge));
}

/* The tap at a whole place. */
static Tap tap_at(const Image *image, int axis, Value *whole, Value *weight)
{
    Graph *g = image->im->graph;
    Value *last = shifted(g, dim_value(g, image->size[axis], whole->dtype), -1), *zero = b_like(g, whole, 0);
    if (image->padding == PAD_ZEROS) {
        Value *inside = both(g, b_binary(g, OP_le, zero, whole), b_binary(g, OP_le, whole, last));
        Value *outside = b_select(g, b_unary(g, OP_is_nan, whole), whole, zero);
        weight = b_select(g, inside, weight ? weight : b_like(g, whole, 1), outside);
    } else {
        whole = padded_place(image, axis, whole);
        if (!weight) weight = b_select(g, b_unary(g, OP_is_nan, whole), whole, b_like(g, whole, 1));
    }
    return (Tap){pixel_of(g, whole, last), weight};
}

/* Cubic convolution with a = -0.75 at distance t: near for t <= 1, far for 1 < t < 2. */
static Value *cubic_weight(Graph *g, Value *t, bool is_far)
{
    const double a = -0.75;
    if (is_far) return shifted(g, b_mul(g, shifted(g, b_mul(g, shifted(g, scaled(g, t, a), -5 * a), t), 8 * a), t), -4 * a);
    return shifted(g, b_mul(g, shifted(g, scaled(g, t, a + 2), -(a + 3)), b_mul(g, t, t)), 1);
}

static int taps_along(const Image *image, int axis, Value *place, Sampling sampling, Tap *taps)
{
    Graph *g = image->im->graph;
    if (sampling == BY_NEAREST) {
        taps[0] = tap_at(image, axis, padded_place(image, axis, b_unary(g, OP_round, place)), NULL);
        return 1;
    }
    if (sampling == BY_LINEAR) place = padded_place(image, axis, place); /* cubic pads its taps alone, as PyTorch does */
    Value *first = b_unary(g, OP_floor, place), *fraction = b_sub(g, place, first), *rest = b_sub(g, b_like(g, place, 1), fraction);
    if (sampling == BY_LINEAR) {
        taps[0] = tap_at(image, axis, first, rest);
        taps[1] = tap_at(image, axis, shifted(g, first, 1), fraction);
        return 2;
    }
    taps[0] = tap_at(image, axis, shifted(g, first, -1), cubic_weight(g, shifted(g, fraction, 1), true));
    taps[1] = tap_at(image, axis, first, cubic_weight(g, fraction, false));
    taps[2] = tap_at(image, axis, shifted(g, first, 1), cubic_weight(g, rest, false));
    taps[3] = tap_at(image, axis, shifted(g, first, 2), cubic_weight(g, shifted(g, rest, 1), true));
    return 4;
}

/* Pixels that one tap of each axis chooses, with the product of their weights. */
static Value *one_sample(const Image *image, Tap *const *chosen, Dtype dtype)
{
    Graph *g = image->im->graph;
    Value *flat = image->map, *weight = NULL;
    for (int i = 0; i < image->rank; i++) {
        flat = b_add(g, b_mul(g, flat, b_dim(g, image->size[i])), chosen[i]->index);
        if (chosen[i]->weight) weight = weight ? b_mul(g, weight, chosen[i]->weight) : chosen[i]->weight;
    }
    Value *pixels = b_gather(g, image->rows, flat, 0);
    return weight ? b_mul(g, pixels, b_cast(g, b_expand_dims(g, weight, weight->rank), dtype)) : pixels;
}

Value *sample_image(const Image *image, Value *const *at, Sampling sampling)
{
    Graph *g = image->im->graph;
    Tap taps[MOST_PLACES][MOST_TAPS], *chosen[MOST_PLACES];
    int n = 0, count = 1;
    for (int i = 0; i < image->rank; i++) {
        n = taps_along(image, i, at[i], sampling, taps[i]);
        count *= n;
    }
    Value *result = NULL;
    for (int k = 0; k < count; k++) {
        for (int i = 0, rest = k; i < image->rank; i++, rest /= n) chosen[i] = &taps[i][rest % n];
        Value *part = one_sample(image, chosen, image->rows->dtype);
        result = result ? b_binary(g, image->takes_largest ? OP_max : OP_add, result, part) : part;
    }
    return result;
}
