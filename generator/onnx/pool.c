/* Pools: windows that keep the channels apart, and their global forms. */
#include "onnx/window.h"
#include <string.h>

static void want_pool_input(Import *im, const OnnxNode *node, const Value *x)
{
    want_rank(im, node, x, 3, 2 + MOST_SPATIAL, "X (n, c, d..)");
}

/* ceil_mode: the last window may hang over the high pad, but must start before it.  With padded = size + low + high the result has
 * ceil((padded - extent) / stride) + 1 elements, at most ceil((size + low) / stride); high grows or shrinks to give that many. */
static void ceil_high_pads(Import *im, Expr *const *size, Window *win)
{
    Symbols *s = im->symbols;
    for (int i = 0; i < win->rank; i++) {
        Expr *stride = number(im, win->stride[i]), *extent = number(im, (win->window[i] - 1) * win->dilation[i] + 1);
        Expr *start_room = expr_add(s, size[i], win->low[i]);
        Expr *room = expr_sub(s, expr_add(s, start_room, win->high[i]), extent);
        Expr *outputs = min_of(im, expr_add(s, expr_ceildiv(s, room, stride), number(im, 1)), expr_ceildiv(s, start_room, stride));
        Expr *span = expr_add(s, expr_mul(s, expr_sub(s, outputs, number(im, 1)), stride), extent);
        win->high[i] = expr_sub(s, span, start_room);
    }
}

static Window pool_window(Import *im, const OnnxNode *node, const Value *x, bool *ceiled)
{
    int n, spatial = x->rank - 2;
    const int64_t *kernel = attr_ints(node, "kernel_shape", &n);
    if (!kernel || n != spatial) import_error(im, node, "kernel_shape has %d numbers; X is %s", n, type_text(im, x));
    Window win = window_of(im, node, spatial, x->shape + 2, kernel);
    const char *auto_pad = attr_string(node, "auto_pad", "NOTSET");
    *ceiled = attr_int(node, "ceil_mode", 0) && strncmp(auto_pad, "SAME", 4) != 0;
    return win;
}

/* ---- MaxPool ---- */
/* Index into the flattened tensor, as ONNX counts: the flat index into the spatial axes, row-major or (storage_order 1)
 * column-major, after those of the maps before. */
static Value *onnx_index(Import *im, const OnnxNode *node, const Value *x, Value *index)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    int spatial = x->rank - 2;
    Expr *map = expr_product(s, x->shape + 2, spatial);
    if (attr_int(node, "storage_order", 0)) {
        Value *rest = index, *turned = NULL;
        for (int i = spatial - 1; i >= 0; i--) {
            Value *size = b_dim(g, x->shape[i + 2]);
            Value *at = b_binary(g, OP_mod, rest, size);
            rest = b_div(g, rest, size);
            Value *part = b_mul(g, at, b_dim(g, expr_product(s, x->shape + 2, i)));
            turned = turned ? b_add(g, turned, part) : part;
        }
        index = turned;
    }
    Expr *maps[2] = {x->shape[0], x->shape[1]}, *ones[MOST_AXES];
    Value *number_of_map = b_iota(g, DTYPE_i64, 0, 1, (Expr *[]){expr_mul(s, maps[0], maps[1])});
    for (int i = 0; i < x->rank; i++) ones[i] = i < 2 ? maps[i] : number(im, 1);
    number_of_map = b_reshape(g, number_of_map, x->rank, ones);
    return b_add(g, index, b_mul(g, number_of_map, b_dim(g, map)));
}

void import_MaxPool(Import *im, const OnnxNode *node)
{
    bool ceiled;
    Value *x = input(im, node, 0), *y, *index;
    want_pool_input(im, node, x);
    Window win = pool_window(im, node, x, &ceiled);
    if (ceiled) ceil_high_pads(im, x->shape + 2, &win);
    b_pool_max(im->graph, x, &win, &y, &index);
    output(im, node, 0, y);
    if (wants_output(node, 1)) output(im, node, 1, onnx_index(im, node, x, index));
}

/* ---- AveragePool ---- */
/* How many elements each window of one spatial axis counts, (1, .., outputs, .., 1): those of x, and of the pads where they count
 * too; never what ceil_mode hangs over. */
static Value *counts_along(Import *im, const Value *x, const Window *win, int axis, Expr *const *high, bool count_pads)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    Window one = {.rank = 1, .groups = 1};
    one.stride[0] = win->stride[axis];
    one.dilation[0] = win->dilation[axis];
    one.window[0] = win->window[axis];
    one.low[0] = win->low[axis];
    one.high[0] = win->high[axis];
    Expr *size = x->shape[axis + 2];
    if (count_pads) {
        size = expr_add(s, size, expr_add(s, win->low[axis], high[axis]));
        one.low[0] = number(im, 0);
        one.high[0] = expr_sub(s, win->high[axis], high[axis]);
    }
    Value *counted = b_pool_sum(g, b_full(g, x->dtype, 1, 3, (Expr *[]){number(im, 1), number(im, 1), size}), &one);
    Expr *shape[MOST_AXES];
    for (int i = 0; i < x->rank; i++) shape[i] = i == axis + 2 ? counted->shape[2] : number(im, 1);
    return b_reshape(g, counted, x->rank, shape);
}

void import_AveragePool(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    bool ceiled, padded = false, count_pads = attr_int(node, "count_include_pad", 0);
    Value *x = input(im, node, 0);
    want_pool_input(im, node, x);
    Window win = pool_window(im, node, x, &ceiled);
    Expr *high[MOST_SPATIAL];
    double elements = 1;
    for (int i = 0; i < win.rank; i++) {
        high[i] = win.high[i];
        elements *= (double)win.window[i];
        padded = padded || !expr_is(win.low[i], 0) || !expr_is(win.high[i], 0);
    }
    if (ceiled) ceil_high_pads(im, x->shape + 2, &win);
    Value *sum = b_pool_sum(g, x, &win);
    if (!ceiled && (!padded || count_pads)) {
        output(im, node, 0, scaled(g, sum, 1 / elements));
        return;
    }
    Value *count = NULL;
    for (int i = 0; i < win.rank; i++) {
        Value *along_axis = counts_along(im, x, &win, i, high, count_pads);
        count = count ? b_mul(g, count, along_axis) : along_axis;
    }
    output(im, node, 0, b_div(g, sum, count));
}

/* ---- LpPool, global pools ---- */
/* sum(|x|^p)^(1/p) from the sum. */
static Value *root(Graph *g, Value *sum, int64_t p)
{
    return p == 1 ? sum : p == 2 ? b_unary(g, OP_sqrt, sum) : b_binary(g, OP_pow, sum, b_like(g, sum, 1.0 / (double)p));
}

static Value *power(Graph *g, Value *x, int64_t p)
{
    Value *size = b_unary(g, OP_abs, x);
    return p == 1 ? size : p == 2 ? b_mul(g, x, x) : b_binary(g, OP_pow, size, b_like(g, size, (double)p));
}

void import_LpPool(Import *im, const OnnxNode *node)
{
    bool ceiled;
    int64_t p = attr_int(node, "p", 2);
    Value *x = input(im, node, 0);
    want_pool_input(im, node, x);
    Window win = pool_window(im, node, x, &ceiled);
    if (ceiled) ceil_high_pads(im, x->shape + 2, &win);
    output(im, node, 0, root(im->graph, b_pool_sum(im->graph, power(im->graph, x, p), &win), p));
}

/* GlobalAveragePool, GlobalMaxPool, GlobalLpPool: over all spatial axes, which stay as 1. */
void import_global_pool(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    want_rank(im, node, x, 2, MOST_AXES, "X (n, c, d..)");
    int64_t axes[MOST_AXES], p = attr_int(node, "p", 2);
    for (int i = 2; i < x->rank; i++) axes[i - 2] = i;
    if (strcmp(node->op_type, "GlobalAveragePool") == 0)
        output(im, node, 0, b_reduce_mean(g, x, axes, x->rank - 2, true));
    else if (strcmp(node->op_type, "GlobalMaxPool") == 0)
        output(im, node, 0, b_reduce_keep(g, OP_reduce_max, x, axes, x->rank - 2));
    else
        output(im, node, 0, root(g, b_reduce_keep(g, OP_reduce_sum, power(g, x, p), axes, x->rank - 2), p));
}
