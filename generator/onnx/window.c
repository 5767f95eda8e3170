/* Windows from attributes.  auto_pad works for symbolic sizes: its pads become expressions of them. */
#include "onnx/window.h"
#include <string.h>

void spatial_ints(Import *im, const OnnxNode *node, const char *name, int spatial, int64_t absent, int64_t *out)
{
    int n;
    const int64_t *given = attr_ints(node, name, &n);
    if (given && n != spatial) import_error(im, node, "%s has %d numbers; wanted %d, one a spatial axis", name, n, spatial);
    for (int i = 0; i < spatial; i++) {
        out[i] = given ? given[i] : absent;
        if (out[i] < 1) import_error(im, node, "%s are to be at least 1; found %lld", name, (long long)out[i]);
    }
}

void kernel_of(Import *im, const OnnxNode *node, const Value *w, int64_t *kernel)
{
    int n, spatial = w->rank - 2;
    const int64_t *given = attr_ints(node, "kernel_shape", &n);
    if (given && n != spatial) import_error(im, node, "kernel_shape has %d numbers for a weight %s", n, type_text(im, w));
    for (int i = 0; i < spatial; i++) {
        kernel[i] = want_int(im, node, w->shape[i + 2], "the size of the kernel");
        if (given && given[i] != kernel[i])
            import_error(im, node, "kernel_shape says %lld on spatial axis %d; the weight is %s", (long long)given[i], i,
                         type_text(im, w));
    }
}

/* Pads so that the result has ceil(size / stride) elements: for a kernel at least as wide as the stride,
 * (ceil(size / stride) - 1) * stride + kernel - size, which is never negative. */
static Expr *same_pads(Import *im, Expr *size, int64_t stride, int64_t extent)
{
    Symbols *s = im->symbols;
    Expr *outputs = expr_ceildiv(s, size, number(im, stride));
    Expr *span = expr_mul(s, expr_sub(s, outputs, number(im, 1)), number(im, stride));
    Expr *total = expr_sub(s, expr_add(s, span, number(im, extent)), size);
    return extent >= stride ? total : max_of(im, total, number(im, 0));
}

static void explicit_pads(Import *im, const OnnxNode *node, int spatial, Window *win)
{
    int n;
    const int64_t *pads = attr_ints(node, "pads", &n);
    if (pads && n != 2 * spatial) import_error(im, node, "pads has %d numbers; wanted %d, two a spatial axis", n, 2 * spatial);
    for (int i = 0; i < spatial; i++) {
        win->low[i] = number(im, pads ? pads[i] : 0);
        win->high[i] = number(im, pads ? pads[i + spatial] : 0);
    }
}

Window transposed_window_of(Import *im, const OnnxNode *node, int spatial, const int64_t *kernel)
{
    if (spatial < 1 || spatial > MOST_SPATIAL) import_error(im, node, "%d spatial axes; wanted 1 to %d", spatial, MOST_SPATIAL);
    Window win = {.rank = spatial, .groups = 1};
    spatial_ints(im, node, "strides", spatial, 1, win.stride);
    spatial_ints(im, node, "dilations", spatial, 1, win.dilation);
    explicit_pads(im, node, spatial, &win);
    for (int i = 0; i < spatial; i++) win.window[i] = kernel[i];
    return win;
}

Window window_of(Import *im, const OnnxNode *node, int spatial, Expr *const *size, const int64_t *kernel)
{
    const char *auto_pad = attr_string(node, "auto_pad", "NOTSET");
    bool upper = strcmp(auto_pad, "SAME_UPPER") == 0, lower = strcmp(auto_pad, "SAME_LOWER") == 0;
    if (spatial < 1 || spatial > MOST_SPATIAL) import_error(im, node, "%d spatial axes; wanted 1 to %d", spatial, MOST_SPATIAL);
    Window win = {.rank = spatial, .groups = 1};
    spatial_ints(im, node, "strides", spatial, 1, win.stride);
    spatial_ints(im, node, "dilations", spatial, 1, win.dilation);
    if (strcmp(auto_pad, "NOTSET") == 0 || auto_pad[0] == 0)
        explicit_pads(im, node, spatial, &win);
    else if (!upper && !lower && strcmp(auto_pad, "VALID") != 0)
        import_error(im, node, "auto_pad is \"%s\"; wanted NOTSET, VALID, SAME_UPPER or SAME_LOWER", auto_pad);
    for (int i = 0; i < spatial; i++) {
        win.window[i] = kernel[i];
        if (win.low[i]) continue;
        win.low[i] = win.high[i] = number(im, 0);
        if (!upper && !lower) continue;
        Expr *total = same_pads(im, size[i], win.stride[i], (kernel[i] - 1) * win.dilation[i] + 1);
        Expr *half = expr_floordiv(im->symbols, total, number(im, 2)), *rest = expr_sub(im->symbols, total, half);
        win.low[i] = upper ? half : rest;
        win.high[i] = upper ? rest : half;
    }
    for (int i = 0; i < spatial; i++) {
        Expr *padded = expr_add(im->symbols, size[i], expr_add(im->symbols, win.low[i], win.high[i]));
        int64_t extent = (kernel[i] - 1) * win.dilation[i] + 1;
        if (expr_compare(im->symbols, padded, number(im, extent)) == ORDER_LESS)
            import_error(im, node, "spatial axis %d has %s elements, %s with pads: less than the kernel's extent of %lld", i,
                         expr_text(im->arena, size[i]), expr_text(im->arena, padded), (long long)extent);
    }
    return win;
}
