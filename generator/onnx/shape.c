/* Shapes and what is made of them: Shape, Size, Reshape and its kin, Expand, Tile, Range, constants, casts. */
#include "onnx/short_float.h"
#include "onnx/terms.h"
#include <math.h>
#include <string.h>

Term *reshape_term(Import *im, Term *t, int rank, Expr *const *shape)
{
    enum { WRITTEN_OUT = 64 }; /* larger tables stay tensors of the model, seen through a reshape */
    if (!t->content) return term_of_value(im, b_reshape(im->graph, term_value(im, t), rank, shape));
    Term *r = term_of_content(im, t->dtype, rank, shape, t->content);
    if (t->tensor && term_count(t) > WRITTEN_OUT) r->value = b_reshape(im->graph, term_value(im, t), rank, shape);
    return r;
}

/* Names the value for readers where the term has one. */
static void output_named(Import *im, const OnnxNode *node, Term *t)
{
    if (t->value && !t->content)
        output(im, node, 0, t->value);
    else
        output_term(im, node, 0, t);
}

/* ---- Shape, Size ---- */
static int64_t clamped(int64_t at, int rank)
{
    if (at < 0) at += rank;
    return at < 0 ? 0 : at > rank ? rank : at;
}

void import_Shape(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int64_t start = clamped(attr_int(node, "start", 0), t->rank), end = clamped(attr_int(node, "end", t->rank), t->rank);
    int n = end > start ? (int)(end - start) : 0;
    Expr **content = NEW_ARRAY(im->arena, Expr *, n + 1), *length = number(im, n);
    for (int i = 0; i < n; i++) content[i] = expr_canonical(im->symbols, t->shape[start + i]);
    output_content(im, node, 0, DTYPE_i64, 1, &length, content);
}

void import_Size(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    Expr **content = NEW_ARRAY(im->arena, Expr *, 1);
    content[0] = expr_canonical(im->symbols, expr_product(im->symbols, t->shape, t->rank));
    output_content(im, node, 0, DTYPE_i64, 0, NULL, content);
}

/* ---- Reshape ---- */
/* The dim that -1 stands for. */
static Expr *inferred_dim(Import *im, const OnnxNode *node, const Term *t, Expr *total, Expr *known, Expr *const *want, int n)
{
    if (expr_is(known, 0))
        import_error(im, node, "shape %s of %s: -1 beside a dim of 0 can be anything", shape_text(im, want, n), term_text(im, t));
    Expr *dim = divided_evenly(im, total, known);
    if (!dim)
        import_error(im, node, "%s does not divide into shape %s: %s elements, %s a row", term_text(im, t), shape_text(im, want, n),
                     expr_text(im->arena, total), expr_text(im->arena, known));
    return dim;
}

void import_Reshape(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int n, inferred = -1;
    Expr *const *want = input_exprs_or_error(im, node, 1, &n, "the target shape");
    bool allow_zero = attr_int(node, "allowzero", 0);
    Expr **shape = NEW_ARRAY(im->arena, Expr *, n + 1), *known = number(im, 1);
    for (int i = 0; i < n; i++) {
        shape[i] = want[i];
        if (expr_is(want[i], -1)) {
            if (inferred >= 0) import_error(im, node, "shape %s has more than one -1", shape_text(im, want, n));
            inferred = i;
            continue;
        }
        if (expr_is(want[i], 0) && !allow_zero) {
            if (i >= t->rank)
                import_error(im, node, "shape %s of %s: 0 on axis %d copies a dim that is not there", shape_text(im, want, n),
                             term_text(im, t), i);
            shape[i] = t->shape[i];
        }
        known = expr_mul(im->symbols, known, shape[i]);
    }
    Expr *total = expr_product(im->symbols, t->shape, t->rank);
    if (inferred >= 0)
        shape[inferred] = inferred_dim(im, node, t, total, known, want, n);
    else if (expr_never_equal(im->symbols, total, known))
        import_error(im, node, "%s cannot have shape %s: %s elements against %s", term_text(im, t), shape_text(im, shape, n),
                     expr_text(im->arena, total), expr_text(im->arena, known));
    output_named(im, node, reshape_term(im, t, n, shape));
}

void import_Flatten(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int64_t axis = attr_int(node, "axis", 1);
    if (axis < -t->rank || axis > t->rank)
        import_error(im, node, "axis %lld of %s; wanted %d to %d", (long long)axis, term_text(im, t), -t->rank, t->rank);
    int split = (int)(axis < 0 ? axis + t->rank : axis);
    Expr *shape[] = {expr_product(im->symbols, t->shape, split), expr_product(im->symbols, t->shape + split, t->rank - split)};
    output_named(im, node, reshape_term(im, t, 2, shape));
}

/* The term with dim i stated to be 1, and sliced to it, so that sizes show it where the statement does not solve for a symbol. */
static Term *only_row(Import *im, const OnnxNode *node, Term *t, int i)
{
    Expr *one = number(im, 1);
    if (!state_equal(im, t->shape[i], one))
        import_error(im, node, "axis %d of %s is not 1 and cannot be dropped", i, term_text(im, t));
    return term_of_value(im, b_slice_axis(im->graph, term_value(im, t), i, number(im, 0), one));
}

void import_Squeeze(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    bool drop[MOST_AXES] = {false}, given = attr_has(node, "axes") || has_input(node, 1);
    int n, rank = 0;
    const int64_t *axes = ints_from(im, node, "axes", 1, &n);
    for (int i = 0; i < n; i++) drop[normal_axis(im, node, axes[i], t->rank)] = true;
    Expr **shape = NEW_ARRAY(im->arena, Expr *, t->rank + 1);
    for (int i = 0; i < t->rank; i++) {
        if (!given) drop[i] = expr_is(t->shape[i], 1);
        if (!given && !drop[i] && !expr_is_int(t->shape[i], NULL))
            report_line(im->report, "%s drops all dims of 1: of %s only those that are 1 in every batch",
                        node_label(im->arena, node), term_text(im, t));
        if (!drop[i])
            shape[rank++] = t->shape[i];
        else if (!expr_is(t->shape[i], 1))
            t = only_row(im, node, t, i);
    }
    output_named(im, node, reshape_term(im, t, rank, shape));
}

void import_Unsqueeze(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    bool added[MOST_AXES] = {false};
    int n, from = 0;
    const int64_t *axes = ints_from(im, node, "axes", 1, &n);
    int rank = t->rank + n;
    if (rank > MOST_AXES) import_error(im, node, "rank %d; wanted at most %d", rank, MOST_AXES);
    for (int i = 0; i < n; i++) {
        int axis = normal_axis(im, node, axes[i], rank);
        if (added[axis]) import_error(im, node, "axis %d is given twice", axis);
        added[axis] = true;
    }
    Expr **shape = NEW_ARRAY(im->arena, Expr *, rank + 1);
    for (int i = 0; i < rank; i++) shape[i] = added[i] ? number(im, 1) : t->shape[from++];
    output_named(im, node, reshape_term(im, t, rank, shape));
}

/* ---- Expand, Tile ---- */
void import_Expand(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int n, rank;
    Expr *const *want = input_exprs_or_error(im, node, 1, &n, "the target shape");
    Expr **shape = broadcast_shapes(im, node, t->rank, t->shape, n, want, &rank);
    int64_t dims[MOST_AXES], from[MOST_AXES] = {0}, own[MOST_AXES], strides[MOST_AXES] = {0};
    Expr *const *content = NULL;
    if (t->content && all_ints(shape, rank, dims)) {
        term_dims(t, from);
        row_major(from, t->rank, own);
        for (int i = 0; i < t->rank; i++) strides[rank - t->rank + i] = from[i] == 1 ? 0 : own[i];
        content = content_view(im, t->content, 0, strides, dims, rank);
    }
    if (content)
        output_content(im, node, 0, t->dtype, rank, shape, content);
    else
        output(im, node, 0, b_broadcast_to(im->graph, term_value(im, t), rank, shape));
}

static Expr *const *tiled_content(Import *im, const Term *t, const int64_t *repeats)
{
    int64_t dims[MOST_AXES], stride[MOST_AXES], twice[2 * MOST_AXES], strides[2 * MOST_AXES];
    if (2 * t->rank > MOST_AXES) return NULL;
    term_dims(t, dims);
    row_major(dims, t->rank, stride);
    for (int i = 0; i < t->rank; i++) {
        twice[2 * i] = repeats[i];
        twice[2 * i + 1] = dims[i];
        strides[2 * i] = 0;
        strides[2 * i + 1] = stride[i];
    }
    return content_view(im, t->content, 0, strides, twice, 2 * t->rank);
}

/* (2, 3) tiled by (1, 4): (2, 1, 3) stretched to (2, 4, 3), seen as (2, 12). */
void import_Tile(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int n, wide = 0;
    Expr *const *repeats = input_exprs_or_error(im, node, 1, &n, "repeats");
    if (n != t->rank) import_error(im, node, "%d repeats for %s; wanted one an axis", n, term_text(im, t));
    Expr *apart[2 * MOST_AXES], *stretched[2 * MOST_AXES], **shape = NEW_ARRAY(im->arena, Expr *, n + 1);
    int64_t known[MOST_AXES];
    check(2 * n <= MOST_AXES);
    for (int i = 0; i < n; i++) {
        shape[i] = expr_mul(im->symbols, t->shape[i], repeats[i]);
        if (!expr_is(repeats[i], 1)) {
            apart[wide] = number(im, 1);
            stretched[wide++] = repeats[i];
        }
        apart[wide] = stretched[wide] = t->shape[i];
        wide++;
    }
    Expr *const *content = t->content && all_ints(repeats, n, known) ? tiled_content(im, t, known) : NULL;
    if (content) {
        output_content(im, node, 0, t->dtype, n, shape, content);
        return;
    }
    Value *v = b_reshape(im->graph, term_value(im, t), wide, apart);
    output(im, node, 0, b_reshape(im->graph, b_broadcast_to(im->graph, v, wide, stretched), n, shape));
}

/* ---- constants ---- */
void import_Constant(Import *im, const OnnxNode *node)
{
    static const char *const others[] = {"value_float", "value_floats", "value_int", "value_ints"};
    const OnnxTensor *tensor = attr_tensor(node, attr_has(node, "sparse_value") ? "sparse_value" : "value");
    for (int k = 0; !tensor && k < 4; k++) {
        if (!attr_has(node, others[k])) continue;
        bool is_list = k % 2, is_float = k < 2;
        int n = 1;
        double real = k == 0 ? attr_float(node, others[k], 0) : 0;
        int64_t *integer = NEW(im->arena, int64_t); /* lives as long as the tensor */
        if (k == 2) *integer = attr_int(node, others[k], 0);
        const double *reals = k == 1 ? attr_floats(node, others[k], &n) : &real;
        const int64_t *integers = k == 3 ? attr_ints(node, others[k], &n) : integer;
        OnnxTensor *made = NEW(im->arena, OnnxTensor);
        float *f = NEW_ARRAY(im->arena, float, n + 1);
        for (int i = 0; is_float && i < n; i++) f[i] = (float)reals[i];
        *made = (OnnxTensor){.name = node->outputs[0], .type = is_float ? ONNX_FLOAT : ONNX_INT64, .rank = is_list, .count = n};
        made->dims = NEW_ARRAY(im->arena, int64_t, 1);
        made->dims[0] = n;
        made->data = is_float ? (const void *)f : (const void *)integers;
        made->bytes = (size_t)n * (is_float ? 4 : 8);
        tensor = made;
    }
    if (!tensor) import_error(im, node, "a Constant of strings, or without a value; wanted numbers");
    const char *name = map_get(im->weight_names, arena_text(im->arena, "%p", (const void *)node));
    map_set(im->weight_names, arena_text(im->arena, "%p", (const void *)tensor), (void *)name);
    output_term(im, node, 0, term_of_tensor(im, tensor));
}

void import_ConstantOfShape(Import *im, const OnnxNode *node)
{
    int n;
    Expr *const *shape = input_exprs_or_error(im, node, 0, &n, "the shape");
    const OnnxTensor *tensor = attr_tensor(node, "value");
    if (tensor && tensor->count != 1) import_error(im, node, "value has %lld elements; wanted 1", (long long)tensor->count);
    Term *fill = NULL;
    int64_t dims[MOST_AXES];
    if (tensor) fill = term_of_tensor(im, tensor);
    if (!fill || dtype_is_float(fill->dtype)) {
        Dtype dtype = fill ? fill->dtype : DTYPE_f32;
        output(im, node, 0, b_full(im->graph, dtype, tensor ? tensor_number(tensor, 0) : 0, n, shape));
        return;
    }
    if (!fill->content) import_error(im, node, "value is beyond what an integer holds");
    int64_t none[MOST_AXES] = {0};
    Expr *const *content = all_ints(shape, n, dims) ? content_view(im, fill->content, 0, none, dims, n) : NULL;
    if (content) {
        output_content(im, node, 0, fill->dtype, n, shape, content);
        return;
    }
    Term *scalar = term_of_content(im, fill->dtype, 0, NULL, fill->content);
    output(im, node, 0, b_broadcast_to(im->graph, term_value(im, scalar), n, shape));
}

void import_EyeLike(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *t = input_term(im, node, 0);
    if (t->rank != 2) import_error(im, node, "EyeLike of %s; wanted rank 2", term_text(im, t));
    Dtype dtype = attr_has(node, "dtype") ? import_dtype(im, node, (int)attr_int(node, "dtype", 0), "dtype") : t->dtype;
    Value *row = b_iota(g, DTYPE_i64, 0, 2, t->shape), *column = b_iota(g, DTYPE_i64, 1, 2, t->shape);
    Value *shifted = b_add(g, row, b_number(g, DTYPE_i64, (double)attr_int(node, "k", 0)));
    output(im, node, 0, b_cast(g, b_binary(g, OP_eq, shifted, column), dtype));
}

void import_Identity(Import *im, const OnnxNode *node)
{
    output_term(im, node, 0, input_term(im, node, 0));
}

/* ---- Range ---- */
/* start, start + delta, … below limit, in integers: sizes may be symbolic. */
static void integer_range(Import *im, const OnnxNode *node, Dtype dtype, Expr *start, Expr *limit, Expr *delta)
{
    Symbols *s = im->symbols;
    Expr *zero = number(im, 0), *span = expr_sub(s, limit, start), *step = delta;
    Order sign = expr_compare(s, delta, zero);
    if (sign == ORDER_LESS) {
        span = expr_sub(s, start, limit);
        step = expr_sub(s, zero, delta);
    } else if (sign != ORDER_GREATER) {
        import_error(im, node, "delta is %s; its sign must be known, and not 0", expr_text(im->arena, delta));
    }
    Expr *n = max_of(im, zero, expr_ceildiv(s, span, step));
    int64_t count;
    if (!dtype_is_float(dtype) && expr_is_int(n, &count) && count <= TERM_CONTENT_MAX) {
        Expr **content = NEW_ARRAY(im->arena, Expr *, count + 1);
        for (int64_t i = 0; i < count; i++) content[i] = expr_add(s, start, expr_mul(s, delta, number(im, i)));
        output_content(im, node, 0, dtype, 1, &n, content);
        return;
    }
    Graph *g = im->graph;
    Value *v = b_iota(g, DTYPE_i64, 0, 1, &n);
    v = b_add(g, b_mul(g, v, b_dim(g, delta)), b_dim(g, start));
    output(im, node, 0, b_cast(g, v, dtype));
}

void import_Range(Import *im, const OnnxNode *node)
{
    static const char *const names[] = {"start", "limit", "delta"};
    Term *t[3];
    Expr *e[3];
    double v[3];
    bool integers = true, numbers = true;
    for (int i = 0; i < 3; i++) {
        t[i] = input_term(im, node, i);
        e[i] = scalar_expr(im, t[i]);
        integers = integers && e[i];
        numbers = input_number(im, node, i, &v[i]) && numbers;
    }
    if (integers) { /* of floats too, where they are whole: 0 to Cast(size) */
        integer_range(im, node, t[0]->dtype, e[0], e[1], e[2]);
        return;
    }
    for (int i = 0; i < 3 && !numbers; i++)
        if (!e[i] && !input_number(im, node, i, &v[i]))
            import_error(im, node, "%s (\"%s\", %s) is computed from data; it must follow from constants and the sizes of inputs",
                         names[i], node->inputs[i], term_text(im, t[i]));
    if (!numbers) import_error(im, node, "start, limit and delta mix sizes and fractions; wanted whole numbers, or plain ones");
    if (v[2] == 0) import_error(im, node, "delta is 0");
    double count = ceil((v[1] - v[0]) / v[2]);
    Expr *n = number(im, count > 0 ? (int64_t)count : 0);
    Graph *g = im->graph;
    Value *i = b_iota(g, t[0]->dtype, 0, 1, &n);
    output(im, node, 0, b_add(g, b_mul(g, i, b_like(g, i, v[2])), b_like(g, i, v[0])));
}

/* ---- casts ---- */
static void cast_to(Import *im, const OnnxNode *node, Dtype dtype)
{
    Term *t = input_term(im, node, 0);
    if (t->dtype == dtype) {
        output_term(im, node, 0, t);
        return;
    }
    if (dtype_is_float(dtype)) {
        output(im, node, 0, b_cast(im->graph, term_value(im, t), dtype));
        return;
    }
    Term *known = dtype_is_float(t->dtype) ? whole_elements(im, t, dtype)
                                           : fold_elements(im, dtype, &t, 1, dtype == DTYPE_bool ? fold_truth : fold_same);
    if (known)
        output_term(im, node, 0, known);
    else
        output(im, node, 0, b_cast(im->graph, term_value(im, t), dtype));
}

/* Bits of a type below a byte: 4 or 2; 0 for others. */
static int bits_below_byte(int onnx_type)
{
    int bits = onnx_type_bits((OnnxType)onnx_type);
    bool integer = onnx_type == ONNX_INT4 || onnx_type == ONNX_INT2 || onnx_type == ONNX_UINT4 || onnx_type == ONNX_UINT2;
    return integer ? bits : 0;
}

/* To 4-bit and 2-bit integers, a byte each: the low bits of the number, with their sign. */
static void cast_below_byte(Import *im, const OnnxNode *node, Dtype dtype, int bits)
{
    Graph *g = im->graph;
    Value *v = b_cast(g, b_cast(g, input(im, node, 0), DTYPE_i32), DTYPE_u8);
    v = b_binary(g, OP_bit_and, v, b_like(g, v, (1 << bits) - 1));
    if (dtype == DTYPE_i8) {
        Value *sign = b_binary(g, OP_le, b_like(g, v, 1 << (bits - 1)), v);
        v = b_cast(g, v, DTYPE_i8);
        v = b_select(g, sign, b_sub(g, v, b_like(g, v, 1 << bits)), v);
    }
    output(im, node, 0, v);
}

static void cast_to_type(Import *im, const OnnxNode *node, int onnx_type)
{
    Dtype dtype = import_dtype(im, node, onnx_type, "the target of a Cast");
    int bits = bits_below_byte(onnx_type);
    if (is_short_float(onnx_type))
        output(im, node, 0,
               short_float_rounded(im, input(im, node, 0), onnx_type, attr_int(node, "saturate", 1) != 0,
                                   attr_string(node, "round_mode", "up")));
    else if (bits)
        cast_below_byte(im, node, dtype, bits);
    else
        cast_to(im, node, dtype);
}

void import_Cast(Import *im, const OnnxNode *node)
{
    cast_to_type(im, node, (int)attr_int(node, "to", 0));
}

void import_CastLike(Import *im, const OnnxNode *node)
{
    Term *like = input_term(im, node, 1);
    const OnnxGraph *graph = im->model->graph;
    for (int i = 0; i < graph->n_inputs; i++) { /* a term does not tell int4 from int8; where it came from does */
        int type = (int)graph->inputs[i].elem_type;
        if (strcmp(graph->inputs[i].name, node->inputs[1]) != 0 || (!bits_below_byte(type) && !is_short_float(type))) continue;
        cast_to_type(im, node, type);
        return;
    }
    if (like->tensor)
        cast_to_type(im, node, (int)like->tensor->type);
    else
        cast_to(im, node, like->dtype);
}

/* The same bits as another type; what is kept in another width than its own has none to show. */
void import_BitCast(Import *im, const OnnxNode *node)
{
    Dtype from = input_term(im, node, 0)->dtype,
          to = import_dtype(im, node, (int)attr_int(node, "to", 0), "the target of a BitCast");
    int type = (int)attr_int(node, "to", 0);
    const Term *t = input_term(im, node, 0);
    if (dtype_bytes(from) != dtype_bytes(to) || onnx_type_bytes((OnnxType)type) != dtype_bytes(to) || bits_below_byte(type))
        import_error(im, node, "a BitCast of %s to %s; wanted types of one width, of at least 8 bits and no half floats",
                     dtype_name(from), onnx_type_name((OnnxType)type));
    if (t->content && !dtype_is_float(to) && from != DTYPE_bool && to != DTYPE_bool)
        cast_to(im, node, to); /* known integers stay known */
    else
        output(im, node, 0, b_bitcast(im->graph, input(im, node, 0), to));
}
