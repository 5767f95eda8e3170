/* Signals: DFT and STFT as products with matrices of cosines and sines, windows, mel filter banks.
 * Angles are made of whole numbers brought below the length first, so that they stay exact for long signals. */
#include "onnx/formulas.h"
#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* ---- DFT ---- */
/* cos and sin of 2 pi i k / period, (n, m), made as doubles: where they are 0, they are to be 0. */
static void rotations(Graph *g, Dtype d, Expr *n, Expr *m, Expr *period, Value **cosine, Value **sine)
{
    Expr *shape[] = {n, m};
    Value *p = b_dim(g, period);
    Value *turns = b_binary(g, OP_mod, b_mul(g, b_iota(g, DTYPE_i64, 0, 2, shape), b_iota(g, DTYPE_i64, 1, 2, shape)), p);
    Value *angle = b_div(g, scaled(g, b_cast(g, turns, DTYPE_f64), 2 * PI), b_cast(g, p, DTYPE_f64));
    *cosine = b_cast(g, b_unary(g, OP_cos, angle), d);
    *sine = b_cast(g, b_unary(g, OP_sin, angle), d);
}

/* Real (.., 1) or complex (.., 2): which of them decides on the program, so it must be known. */
static void want_parts(Import *im, const OnnxNode *node, const Value *x)
{
    const Expr *parts = x->shape[x->rank - 1];
    if (!expr_is(parts, 1) && !expr_is(parts, 2))
        import_error(im, node, "input 0 is %s; its last axis must be fixed, 1 (real) or 2 (complex): give it with --dim",
                     type_text(im, x));
}

/* Part i, as (..), of a complex value (.., 2); the imaginary part of a real one (.., 1) is NULL. */
static Value *complex_part(Graph *g, Value *v, int i)
{
    int last = v->rank - 1;
    if (i == 1 && expr_is(v->shape[last], 1)) return NULL;
    return b_squeeze(g, b_slice_axis(g, v, last, expr_int(g->symbols, i), expr_int(g->symbols, 1)), last);
}

typedef struct Complex {
    Value *re, *im; /* im NULL: 0 */
} Complex;

/* Transforms the last axis, of n elements, to m frequencies of a transform of that period. */
static Complex transform(Graph *g, Complex x, Expr *m, Expr *period, bool inverse)
{
    Value *c, *s;
    rotations(g, x.re->dtype, x.re->shape[x.re->rank - 1], m, period, &c, &s);
    if (!inverse) s = negated(g, s);
    Complex y = {b_matmul(g, x.re, c), b_matmul(g, x.re, s)};
    if (x.im) {
        y.re = b_sub(g, y.re, b_matmul(g, x.im, s));
        y.im = b_add(g, y.im, b_matmul(g, x.im, c));
    }
    if (inverse) {
        Value *n = dim_value(g, period, x.re->dtype);
        y.re = b_div(g, y.re, n);
        y.im = b_div(g, y.im, n);
    }
    return y;
}

static Value *joined(Graph *g, Complex y)
{
    int rank = y.re->rank;
    Value *parts[] = {b_expand_dims(g, y.re, rank), b_expand_dims(g, y.im, rank)};
    return b_concat(g, parts, 2, rank);
}

static Expr *one_sided(Import *im, Expr *n)
{
    return expr_add(im->symbols, expr_floordiv(im->symbols, n, number(im, 2)), number(im, 1));
}

static void swap_axis(int rank, int a, int b, int64_t *axes)
{
    for (int i = 0; i < rank; i++) axes[i] = i;
    axes[a] = b;
    axes[b] = a;
}

/* The last axis cut or filled with zeros to n elements. */
static Value *with_length(Import *im, Value *v, Expr *n)
{
    Expr *start[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i < v->rank; i++) start[i] = number(im, 0), step[i] = 1, shape[i] = v->shape[i];
    shape[v->rank - 1] = n;
    return b_pad(im->graph, v, b_like(im->graph, v, 0), start, step, shape);
}

/* A one-sided spectrum has the other half as its conjugate: element n - k is conj(element k). */
static Complex whole_spectrum(Import *im, Complex x, Expr *n)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    int last = x.re->rank - 1;
    Expr *rest = expr_sub(s, n, x.re->shape[last]), *start[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i <= last; i++) start[i] = number(im, 0), step[i] = 1, shape[i] = x.re->shape[i];
    start[last] = rest;
    step[last] = -1;
    shape[last] = rest;
    Value *re[] = {x.re, b_slice(g, x.re, start, step, shape)};
    Value *imaginary[] = {x.im, negated(g, b_slice(g, x.im, start, step, shape))};
    return (Complex){b_concat(g, re, 2, last), b_concat(g, imaginary, 2, last)};
}

/* x (.., n, ..., 1 or 2), transformed along an axis. */
void import_DFT(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    bool inverse = attr_int(node, "inverse", 0), onesided = attr_int(node, "onesided", 0);
    int64_t axis = opset(im, node) < 20 ? attr_int(node, "axis", 1) : -2, axes[MOST_AXES];
    int n;
    want_rank(im, node, x, 2, MOST_AXES, "the input (.., 1 or 2)");
    want_parts(im, node, x);
    if (opset(im, node) >= 20 && has_input(node, 2)) {
        const int64_t *given = ints_from(im, node, NULL, 2, &n);
        if (n != 1) import_error(im, node, "axis (input 2) holds %d numbers; wanted one", n);
        axis = given[0];
    }
    int at = normal_axis(im, node, axis, x->rank), last = x->rank - 2;
    if (at > last) import_error(im, node, "axis %lld is that of the real and imaginary part", (long long)axis);
    Complex v = {complex_part(g, x, 0), complex_part(g, x, 1)};
    swap_axis(last + 1, at, last, axes);
    v.re = b_transpose(g, v.re, axes);
    if (v.im) v.im = b_transpose(g, v.im, axes);
    Expr *length = v.re->shape[last];
    if (inverse && onesided) length = expr_mul(im->symbols, expr_sub(im->symbols, length, number(im, 1)), number(im, 2));
    if (has_input(node, 1)) length = input_size(im, node, 1, "dft_length");
    if (inverse && onesided) {
        if (!v.im) v.im = b_full(g, v.re->dtype, 0, v.re->rank, v.re->shape);
        Expr *half = one_sided(im, length);
        v = whole_spectrum(im, (Complex){with_length(im, v.re, half), with_length(im, v.im, half)}, length);
        v.re = b_expand_dims(g, b_transpose(g, transform(g, v, length, length, true).re, axes), last + 1);
        output(im, node, 0, v.re);
        return;
    }
    v.re = with_length(im, v.re, length);
    if (v.im) v.im = with_length(im, v.im, length);
    Complex y = transform(g, v, onesided ? one_sided(im, length) : length, length, inverse);
    output(im, node, 0, joined(g, (Complex){b_transpose(g, y.re, axes), b_transpose(g, y.im, axes)}));
}

/* ---- STFT ---- */
/* signal (batch, time[, 1 or 2]): frames of frame_length, frame_step apart, times the window, transformed. */
void import_STFT(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    Value *x = input(im, node, 0), *window = optional_input(im, node, 2);
    if (x->rank == 2) x = b_expand_dims(g, x, 2);
    want_rank(im, node, x, 3, 3, "signal (batch, time, 1 or 2)");
    want_parts(im, node, x);
    Expr *step = input_size(im, node, 1, "frame_step"), *length;
    if (has_input(node, 3))
        length = input_size(im, node, 3, "frame_length");
    else if (window)
        length = window->shape[0];
    else
        import_error(im, node, "neither window nor frame_length is given; wanted one of them");
    if (expr_compare(s, x->shape[1], length) == ORDER_LESS)
        import_error(im, node, "signal is %s, shorter than a frame of %s", type_text(im, x), expr_text(im->arena, length));
    Expr *frames = expr_add(s, expr_floordiv(s, expr_sub(s, x->shape[1], length), step), number(im, 1)),
         *shape[] = {frames, length};
    Value *at = b_add(g, b_mul(g, b_iota(g, DTYPE_i64, 0, 2, shape), b_dim(g, step)), b_iota(g, DTYPE_i64, 1, 2, shape));
    Complex v = {complex_part(g, x, 0), complex_part(g, x, 1)};
    if (window) {
        want_same_type(im, node, x, window);
        must_agree(im, node, window->shape[0], length, "the sizes of window and of a frame");
    }
    v.re = b_gather(g, v.re, at, 1); /* (batch, frames, length) */
    if (window) v.re = b_mul(g, v.re, window);
    if (v.im) v.im = b_gather(g, v.im, at, 1);
    if (v.im && window) v.im = b_mul(g, v.im, window);
    bool onesided = attr_int(node, "onesided", 1) && !v.im;
    output(im, node, 0, joined(g, transform(g, v, onesided ? one_sided(im, length) : length, length, false)));
}

/* ---- windows ---- */
/* a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), n the size (periodic) or one less (symmetric). */
void import_window(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    static const struct {
        const char *op;
        double a[3];
    } rows[] = {{"HannWindow", {0.5, 0.5, 0}}, {"HammingWindow", {25.0 / 46, 21.0 / 46, 0}}, {"BlackmanWindow", {0.42, 0.5, 0.08}}};
    int row = 0;
    while (strcmp(rows[row].op, node->op_type) != 0) check(++row < 3);
    Expr *size = input_size(im, node, 0, "the size");
    Dtype dtype = import_dtype(im, node, (int)attr_int(node, "output_datatype", ONNX_FLOAT), "output_datatype");
    Dtype d = dtype_is_float(dtype) ? dtype : DTYPE_f32;
    Expr *period = attr_int(node, "periodic", 1) ? size : max_of(im, expr_sub(im->symbols, size, number(im, 1)), number(im, 1));
    Value *angle = b_div(g, scaled(g, b_iota(g, d, 0, 1, &size), 2 * PI), dim_value(g, period, d));
    Value *v = shifted(g, scaled(g, b_unary(g, OP_cos, angle), -rows[row].a[1]), rows[row].a[0]);
    if (rows[row].a[2] != 0) v = b_add(g, v, scaled(g, b_unary(g, OP_cos, scaled(g, angle, 2)), rows[row].a[2]));
    output(im, node, 0, b_cast(g, v, dtype));
}

/* ---- MelWeightMatrix ---- */
static double wanted_number(Import *im, const OnnxNode *node, int i, const char *what)
{
    double v;
    if (!input_number(im, node, i, &v))
        import_error(im, node, "%s (\"%s\") is computed from data; wanted a constant", what, node->inputs[i]);
    return v;
}

/* Triangles between frequencies that are evenly spaced in mel, over the bins of a spectrum: (bins, mels). */
void import_MelWeightMatrix(Import *im, const OnnxNode *node)
{
    int64_t mels = (int64_t)wanted_number(im, node, 0, "num_mel_bins"), length = (int64_t)wanted_number(im, node, 1, "dft_length");
    double rate = wanted_number(im, node, 2, "sample_rate");
    double low = 2595 * log10(1 + wanted_number(im, node, 3, "lower_edge_hertz") / 700);
    double high = 2595 * log10(1 + wanted_number(im, node, 4, "upper_edge_hertz") / 700);
    int64_t bins = length / 2 + 1, dims[] = {bins, mels};
    if (mels < 1 || length < 1)
        import_error(im, node, "%lld mel bins of a transform of %lld; wanted at least 1", (long long)mels, (long long)length);
    Dtype dtype = import_dtype(im, node, (int)attr_int(node, "output_datatype", ONNX_FLOAT), "output_datatype");
    int64_t *edge = NEW_ARRAY(im->arena, int64_t, mels + 2);
    for (int64_t i = 0; i < mels + 2; i++) {
        double mel = low + (double)i * (high - low) / (double)(mels + 2);
        edge[i] = (int64_t)floor((double)(length + 1) * (700 * (pow(10, mel / 2595) - 1)) / rate);
    }
    void *data = arena_alloc(im->arena, (size_t)(bins * mels * dtype_bytes(dtype)) + 8);
    for (int64_t m = 0; m < mels; m++) {
        int64_t from = edge[m], peak = edge[m + 1], to = edge[m + 2];
        for (int64_t b = from; b <= peak && peak > from && b < bins; b++)
            element_write(dtype, data, b * mels + m, (double)(b - from) / (double)(peak - from));
        if (peak == from && peak < bins) element_write(dtype, data, peak * mels + m, 1);
        for (int64_t b = peak; b < to && b < bins; b++)
            element_write(dtype, data, b * mels + m, (double)(to - b) / (double)(to - peak));
    }
    output(im, node, 0, b_constant(im->graph, dtype, 2, dims, data));
}
