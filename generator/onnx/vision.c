/* Operators that look into images: GridSample, AffineGrid, RoiAlign, DeformConv, MaxUnpool, Col2Im. */
#include "onnx/places.h"
#include "onnx/sample.h"
#include "onnx/window.h"
#include <string.h>

/* (places.., c) to (n, c, d..), where the places are (n, d..). */
static Value *channels_second(Graph *g, Value *v)
{
    int64_t axes[MOST_AXES] = {0, v->rank - 1};
    for (int i = 2; i < v->rank; i++) axes[i] = i - 1;
    return b_transpose(g, v, axes);
}

/* Number of the map of each sample: 0, 1, .. along axis 0 of values of that rank. */
static Value *map_numbers(Graph *g, Expr *n, int rank)
{
    return positions(g, DTYPE_i64, n, 0, rank);
}

/* ---- GridSample ---- */
static Value *last_component(Graph *g, Value *v, int i)
{
    return b_squeeze(g, b_slice_axis(g, v, v->rank - 1, expr_int(g->symbols, i), expr_int(g->symbols, 1)), v->rank - 1);
}

static Sampling sampling_of(Import *im, const OnnxNode *node)
{
    const char *mode = attr_string(node, "mode", "linear");
    if (strcmp(mode, "nearest") == 0) return BY_NEAREST;
    if (strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0) return BY_LINEAR;
    if (strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0) return BY_CUBIC;
    import_error(im, node, "mode is \"%s\"; wanted linear, nearest or cubic", mode);
}

static Padding padding_of(Import *im, const OnnxNode *node)
{
    const char *padding = attr_string(node, "padding_mode", "zeros");
    if (strcmp(padding, "zeros") == 0) return PAD_ZEROS;
    if (strcmp(padding, "border") == 0) return PAD_BORDER;
    if (strcmp(padding, "reflection") == 0) return PAD_REFLECTION;
    import_error(im, node, "padding_mode is \"%s\"; wanted zeros, border or reflection", padding);
}

/* x (n, c, d..), grid (n, places.., axes), each place within -1 to 1 and innermost axis first. */
void import_GridSample(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *grid = input(im, node, 1), *at[MOST_PLACES];
    want_same_type(im, node, x, grid);
    Image image = image_of(im, node, x, 1);
    if (grid->rank != x->rank)
        import_error(im, node, "X is %s and grid %s; wanted equal ranks", type_text(im, x), type_text(im, grid));
    must_agree(im, node, grid->shape[grid->rank - 1], number(im, image.rank), "the last axis of grid and the spatial axes of X");
    must_agree(im, node, grid->shape[0], x->shape[0], "the batch of grid and of X");
    image.padding = padding_of(im, node);
    image.align_corners = attr_int(node, "align_corners", 0);
    image.map = map_numbers(g, x->shape[0], grid->rank - 1);
    for (int i = 0; i < image.rank; i++) {
        Value *place = last_component(g, grid, image.rank - 1 - i), *size = dim_value(g, image.size[i], x->dtype);
        if (image.align_corners)
            at[i] = b_mul(g, scaled(g, shifted(g, place, 1), 0.5), shifted(g, size, -1));
        else
            at[i] = scaled(g, shifted(g, b_mul(g, shifted(g, place, 1), size), -1), 0.5);
    }
    output(im, node, 0, channels_second(g, sample_image(&image, at, sampling_of(im, node))));
}

/* ---- AffineGrid ---- */
/* theta (n, axes, axes + 1) applied to the centres (or, with align_corners, corners) of the pixels of a grid over -1 to 1. */
void import_AffineGrid(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    int n;
    Value *theta = input(im, node, 0), *parts[MOST_PLACES + 1];
    Expr *const *size = input_exprs_or_error(im, node, 1, &n, "size");
    int spatial = n - 2;
    want_rank(im, node, theta, 3, 3, "theta");
    if (spatial < 2 || spatial > 3) import_error(im, node, "size has %d numbers; wanted (n, c, h, w) or (n, c, d, h, w)", n);
    must_agree(im, node, theta->shape[0], size[0], "the batch of theta and of size");
    must_agree(im, node, theta->shape[1], number(im, spatial), "rows of theta and spatial axes");
    must_agree(im, node, theta->shape[2], number(im, spatial + 1), "columns of theta and spatial axes + 1");
    Expr *shape[MOST_AXES], *flat[] = {expr_product(im->symbols, size + 2, spatial), number(im, spatial + 1)};
    for (int i = 0; i < spatial; i++) shape[i] = size[i + 2];
    shape[spatial] = number(im, 1);
    for (int i = 0; i < spatial; i++) {
        int axis = spatial - 1 - i;
        Value *at = b_iota(g, theta->dtype, axis, spatial + 1, shape), *count = dim_value(g, size[axis + 2], theta->dtype);
        if (attr_int(node, "align_corners", 0)) {
            Value *steps = b_binary(g, OP_max, shifted(g, count, -1), b_like(g, count, 1));
            parts[i] = shifted(g, b_div(g, scaled(g, at, 2), steps), -1);
        } else {
            parts[i] = shifted(g, b_div(g, shifted(g, scaled(g, at, 2), 1), count), -1);
        }
    }
    parts[spatial] = b_full(g, theta->dtype, 1, spatial + 1, shape);
    Value *base = b_reshape(g, b_concat(g, parts, spatial + 1, spatial), 2, flat);
    Value *grid = b_matmul(g, b_expand_dims(g, base, 0), b_swap_last(g, theta));
    Expr *result[MOST_AXES] = {size[0]};
    for (int i = 0; i < spatial; i++) result[i + 1] = size[i + 2];
    result[spatial + 1] = number(im, spatial);
    output(im, node, 0, b_reshape(g, grid, spatial + 2, result));
}

/* ---- RoiAlign ---- */
/* Places of all samples along one axis: (roi, bins, samples), from the edges of the regions (roi). */
static Value *roi_places(Import *im, const OnnxNode *node, Value *rois, int axis, int64_t bins, int64_t samples)
{
    Graph *g = im->graph;
    const char *mode =
        attr_string(node, "coordinate_transformation_mode", opset(im, node) < 16 ? "output_half_pixel" : "half_pixel");
    bool half = strcmp(mode, "half_pixel") == 0;
    if (!half && strcmp(mode, "output_half_pixel") != 0)
        import_error(im, node, "coordinate_transformation_mode is \"%s\"; wanted half_pixel or output_half_pixel", mode);
    double scale = attr_float(node, "spatial_scale", 1);
    Value *start = shifted(g, scaled(g, last_component(g, rois, axis), scale), half ? -0.5 : 0);
    Value *end = shifted(g, scaled(g, last_component(g, rois, axis + 2), scale), half ? -0.5 : 0);
    Value *length = b_sub(g, end, start);
    if (!half) length = b_binary(g, OP_max, length, b_like(g, length, 1));
    Value *bin = scaled(g, length, 1.0 / (double)bins);
    Expr *vector[] = {rois->shape[0], number(im, 1), number(im, 1)};
    Value *at = b_add(g, positions(g, rois->dtype, number(im, bins), 1, 3),
                      scaled(g, shifted(g, positions(g, rois->dtype, number(im, samples), 2, 3), 0.5), 1.0 / (double)samples));
    return b_add(g, b_reshape(g, start, 3, vector), b_mul(g, at, b_reshape(g, bin, 3, vector)));
}

/* Places beyond a pixel outside count nothing, places up to it show the border: the weight (..) and the place held inside. */
static Value *roi_hold(Import *im, Value *place, Expr *size, Value **counts)
{
    Graph *g = im->graph;
    Value *n = dim_value(g, size, place->dtype), *last = shifted(g, n, -1), *zero = b_like(g, place, 0);
    *counts = both(g, b_binary(g, OP_le, b_like(g, place, -1), place), b_binary(g, OP_le, place, n));
    return b_select(g, less(g, place, zero), zero, b_select(g, less(g, last, place), last, place));
}

/* x (n, c, h, w), rois (r, 4) as x1 y1 x2 y2, numbers of their maps (r). */
void import_RoiAlign(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *rois = input(im, node, 1), *maps = input(im, node, 2), *counts[2], *at[2];
    const char *mode = attr_string(node, "mode", "avg");
    int64_t bins[] = {attr_int(node, "output_height", 1), attr_int(node, "output_width", 1)},
            samples = attr_int(node, "sampling_ratio", 0);
    bool largest = strcmp(mode, "max") == 0;
    if (!largest && strcmp(mode, "avg") != 0) import_error(im, node, "mode is \"%s\"; wanted avg or max", mode);
    if (samples < 1)
        import_error(im, node, "sampling_ratio is %lld: the number of samples would follow from the regions; wanted 1 or more",
                     (long long)samples);
    want_rank(im, node, x, 4, 4, "X");
    want_rank(im, node, rois, 2, 2, "rois");
    want_same_type(im, node, x, rois);
    must_agree(im, node, rois->shape[1], number(im, 4), "columns of rois, and those wanted,");
    Image image = image_of(im, node, x, 1);
    image.padding = PAD_BORDER;
    image.takes_largest = largest;
    Expr *shape[] = {rois->shape[0], number(im, bins[0]), number(im, samples), number(im, bins[1]), number(im, samples)};
    for (int i = 0; i < 2; i++) {
        Value *place = roi_hold(im, roi_places(im, node, rois, 1 - i, bins[i], samples), x->shape[i + 2], &counts[i]);
        Expr *one = number(im, 1),
             *apart[] = {shape[0], i ? one : shape[1], i ? one : shape[2], i ? shape[3] : one, i ? shape[4] : one};
        at[i] = b_broadcast_to(g, b_reshape(g, place, 5, apart), 5, shape);
        counts[i] = b_reshape(g, counts[i], 5, apart);
    }
    want_rank(im, node, maps, 1, 1, "batch_indices");
    must_agree(im, node, maps->shape[0], rois->shape[0], "the sizes of batch_indices and of rois");
    const Place map = place_within(im, b_cast(g, maps, DTYPE_i64), x->shape[0], false);
    image.map = b_reshape(g, map.index, 5,
                          (Expr *[]){shape[0], number(im, 1), number(im, 1), number(im, 1), number(im, 1)});
    Value *seen = sample_image(&image, at, BY_LINEAR), *valid = b_expand_dims(g, both(g, counts[0], counts[1]), 5);
    seen = b_select(g, valid, seen, b_like(g, seen, 0));
    const int64_t over[] = {2, 4};
    Value *pooled = largest ? b_reduce(g, OP_reduce_max, seen, over, 2) : b_reduce_mean(g, seen, over, 2, false);
    output(im, node, 0, none_outside(im, channels_second(g, pooled), map.inside, 0));
}

/* ---- DeformConv ---- */
/* Places (n, groups, kernel, outputs..) that a kernel moved by offset (n, groups * kernel * 2, oh, ow) looks at, along one axis. */
static Value *deformed_places(Import *im, Value *offset, const Window *win, int axis)
{
    Graph *g = im->graph; /* offset: (n, groups, kh, kw, 2, oh, ow) */
    Value *moved = b_squeeze(g, b_slice_axis(g, offset, 4, number(im, axis), number(im, 1)), 4);
    Value *start =
        shifted(g, scaled(g, positions(g, moved->dtype, moved->shape[4 + axis], 4 + axis, 6), (double)win->stride[axis]), 0);
    Value *tap = scaled(g, positions(g, moved->dtype, number(im, win->window[axis]), 2 + axis, 6), (double)win->dilation[axis]);
    Value *place = b_sub(g, b_add(g, start, tap), dim_value(g, win->low[axis], moved->dtype));
    return b_add(g, moved, place);
}

/* x (n, c, h, w), w (o, c/groups, kh, kw): samples of x at moved places, then a product with the weights. */
void import_DeformConv(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    Value *x = input(im, node, 0), *w = input(im, node, 1), *offset = input(im, node, 2), *bias = optional_input(im, node, 3);
    Value *mask = optional_input(im, node, 4), *at[2];
    int64_t groups = attr_int(node, "group", 1), parts = attr_int(node, "offset_group", 1), kernel[MOST_SPATIAL];
    if (x->rank != 4 || w->rank != 4 || offset->rank != 4)
        import_error(im, node, "X is %s, W %s, offset %s; wanted two spatial axes", type_text(im, x), type_text(im, w),
                     type_text(im, offset));
    kernel_of(im, node, w, kernel);
    Window win = window_of(im, node, 2, x->shape + 2, kernel);
    must_agree(im, node, x->shape[1], expr_mul(s, w->shape[1], number(im, groups)), "channels of X and of W");
    Expr *taps[] = {number(im, kernel[0]), number(im, kernel[1])}, *n = x->shape[0], *out[2];
    for (int i = 0; i < 2; i++)
        out[i] = must_agree(im, node, offset->shape[i + 2], window_output(g, x->shape[i + 2], &win, i, kernel[i]),
                            "sizes of offset and of the result");
    must_agree(im, node, offset->shape[1], number(im, parts * kernel[0] * kernel[1] * 2), "channels of offset and those wanted");
    must_agree(im, node, offset->shape[0], n, "batches of offset and of X");
    if (mask) {
        want_rank(im, node, mask, 4, 4, "mask");
        must_agree(im, node, mask->shape[0], n, "batches of mask and of X");
        must_agree(im, node, mask->shape[1], number(im, parts * kernel[0] * kernel[1]), "channels of mask and those wanted");
        for (int i = 0; i < 2; i++) must_agree(im, node, mask->shape[i + 2], out[i], "sizes of mask and of the result");
    }
    Expr *wide[] = {n, number(im, parts), taps[0], taps[1], number(im, 2), out[0], out[1]};
    Value *apart = b_reshape(g, offset, 7, wide);
    for (int i = 0; i < 2; i++) at[i] = deformed_places(im, apart, &win, i);
    Image image = image_of(im, node, x, parts);
    Value *sample_number = positions(g, DTYPE_i64, n, 0, 6), *part = positions(g, DTYPE_i64, number(im, parts), 1, 6);
    image.map = b_add(g, scaled(g, sample_number, (double)parts), part);
    Value *seen = sample_image(&image, at, BY_LINEAR); /* (n, parts, kh, kw, oh, ow, c / parts) */
    if (mask) seen = b_mul(g, seen, b_reshape(g, mask, 7, (Expr *[]){n, wide[1], taps[0], taps[1], out[0], out[1], number(im, 1)}));
    seen = b_transpose(g, seen, (int64_t[]){0, 1, 6, 2, 3, 4, 5});
    Expr *places = expr_mul(s, out[0], out[1]), *inner = expr_mul(s, w->shape[1], number(im, kernel[0] * kernel[1]));
    Value *columns = b_reshape(g, seen, 4, (Expr *[]){n, number(im, groups), inner, places});
    Expr *each = want_quotient(im, node, w->shape[0], number(im, groups), "outgoing channels over group");
    Value *matrix = b_reshape(g, w, 4, (Expr *[]){number(im, 1), number(im, groups), each, inner});
    Value *y = b_reshape(g, b_matmul(g, matrix, columns), 4, (Expr *[]){n, w->shape[0], out[0], out[1]});
    if (bias) want_rank(im, node, bias, 1, 1, "B");
    if (bias) must_agree(im, node, bias->shape[0], w->shape[0], "the sizes of B and of outgoing channels");
    if (bias) y = b_add(g, y, along_channels(g, bias, 4));
    output(im, node, 0, y);
}

/* ---- MaxUnpool ---- */
/* Each element to the place its index names, in the flattened result; a larger output_shape holds that result in its corner. */
void import_MaxUnpool(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    Value *x = input(im, node, 0), *index = input(im, node, 1);
    int n, n_out = 0, spatial = x->rank - 2;
    const int64_t *kernel = attr_ints(node, "kernel_shape", &n);
    if (!kernel || n != spatial) import_error(im, node, "kernel_shape has %d numbers; X is %s", n, type_text(im, x));
    want_same_shape(im, node, x, index, "shapes of X and I");
    Window win = transposed_window_of(im, node, spatial, kernel);
    Expr *shape[MOST_AXES] = {x->shape[0], x->shape[1]};
    for (int i = 0; i < spatial; i++) {
        Expr *span = expr_mul(s, number(im, win.stride[i]), expr_sub(s, x->shape[i + 2], number(im, 1)));
        shape[i + 2] = expr_sub(s, expr_add(s, span, number(im, kernel[i])), expr_add(s, win.low[i], win.high[i]));
    }
    Expr *total = expr_product(s, shape, x->rank), *count = value_count(g, x);
    const Place p = place_within(im, b_reshape(g, b_cast(g, index, DTYPE_i64), 1, &count), total, false);
    Value *y = b_scatter(g, b_full(g, x->dtype, 0, 1, &total), p.index, b_reshape(g, x, 1, &count), 0, "set");
    y = none_unless_all(im, b_reshape(g, y, x->rank, shape), p.inside);
    if (has_input(node, 2)) {
        Expr *const *wanted = input_exprs_or_error(im, node, 2, &n_out, "output_shape");
        if (n_out != x->rank) import_error(im, node, "output_shape has %d numbers; wanted %d", n_out, x->rank);
        Expr *start[MOST_AXES];
        int64_t step[MOST_AXES];
        for (int i = 0; i < x->rank; i++) start[i] = number(im, 0), step[i] = 1;
        y = b_pad(g, y, b_like(g, y, 0), start, step, wanted);
    }
    output(im, node, 0, y);
}

/* ---- Col2Im ---- */
/* x (n, c * block, blocks): the sum, over places in the block, of the images that hold just what stands at that place. */
void import_Col2Im(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    int spatial, n_block;
    Value *x = input(im, node, 0), *image = NULL;
    Expr *const *size = input_exprs_or_error(im, node, 1, &spatial, "image_shape");
    const int64_t *block = ints_from(im, node, NULL, 2, &n_block);
    want_rank(im, node, x, 3, 3, "the input");
    if (n_block != spatial) import_error(im, node, "block_shape has %d numbers, image_shape %d", n_block, spatial);
    Window win = window_of(im, node, spatial, size, block);
    int64_t places = 1;
    Expr *apart[MOST_AXES], *shape[MOST_AXES];
    for (int i = 0; i < spatial; i++) places *= block[i];
    apart[0] = shape[0] = x->shape[0];
    apart[1] = shape[1] = want_quotient(im, node, x->shape[1], number(im, places), "channels over the block's elements");
    apart[2] = number(im, places);
    for (int i = 0; i < spatial; i++) {
        apart[i + 3] = window_output(g, size[i], &win, i, block[i]);
        shape[i + 2] = size[i];
    }
    must_agree(im, node, expr_product(s, apart + 3, spatial), x->shape[2], "the number of blocks in the image and found");
    Value *all = b_reshape(g, x, 3 + spatial, apart);
    for (int64_t k = 0; k < places; k++) {
        Expr *start[MOST_AXES] = {number(im, 0), number(im, 0)};
        int64_t step[MOST_AXES] = {1, 1}, rest = k;
        for (int i = spatial - 1; i >= 0; i--) {
            start[i + 2] = expr_sub(s, number(im, rest % block[i] * win.dilation[i]), win.low[i]);
            step[i + 2] = win.stride[i];
            rest /= block[i];
        }
        Value *here = b_squeeze(g, b_slice_axis(g, all, 2, number(im, k), number(im, 1)), 2);
        Value *part = b_pad(g, here, b_like(g, here, 0), start, step, shape);
        image = image ? b_add(g, image, part) : part;
    }
    output(im, node, 0, image);
}
