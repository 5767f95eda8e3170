/* Operators that put elements elsewhere: Slice, Split, Concat, Pad, Transpose, DepthToSpace, SpaceToDepth, Trilu, ReverseSequence.
 */
#include "onnx/places.h"
#include <string.h>

/* ---- Slice ---- */
enum { BEYOND = INT32_MAX }; /* exporters write "to the end" as this or more */

/* Whether an end or start lies beyond any tensor; sign: -1 before its beginning, 1 behind its end, 0 neither. */
static int beyond(Expr *e)
{
    int64_t v;
    if (!expr_is_int(e, &v)) return 0;
    return v >= BEYOND ? 1 : v <= -(int64_t)BEYOND ? -1 : 0;
}

/* e counted from the beginning: e + dim where e < 0.  Where the sign is open, the sum carries it: e + dim * [e < 0]. */
static Expr *from_beginning(Import *im, Expr *e, Expr *dim)
{
    Symbols *s = im->symbols;
    Expr *zero = number(im, 0);
    switch (expr_compare(s, e, zero)) {
    case ORDER_LESS: return expr_add(s, e, dim);
    case ORDER_EQUAL:
    case ORDER_GREATER:
    case ORDER_GREATER_EQUAL: return e;
    default: {
        Expr *is_negative = min_of(im, number(im, 1), max_of(im, zero, expr_sub(s, zero, e)));
        return expr_add(s, e, expr_mul(s, dim, is_negative));
    }
    }
}

static Expr *between(Import *im, Expr *low, Expr *e, Expr *high)
{
    return min_of(im, max_of(im, e, low), high);
}

static void slice_axis(Import *im, Expr *dim, Expr *start, Expr *end, int64_t step, Expr **first, Expr **size)
{
    Symbols *s = im->symbols;
    Expr *zero = number(im, 0), *last = expr_sub(s, dim, number(im, 1)), *minus_one = number(im, -1);
    if (step > 0) {
        *first = beyond(start) > 0 ? dim : beyond(start) < 0 ? zero : between(im, zero, from_beginning(im, start, dim), dim);
        Expr *stop = beyond(end) > 0 ? dim : beyond(end) < 0 ? zero : between(im, zero, from_beginning(im, end, dim), dim);
        *size = max_of(im, zero, expr_ceildiv(s, expr_sub(s, stop, *first), number(im, step)));
    } else {
        *first = beyond(start) > 0   ? last
                 : beyond(start) < 0 ? minus_one
                                     : between(im, minus_one, from_beginning(im, start, dim), last);
        Expr *stop = beyond(end) > 0   ? last
                     : beyond(end) < 0 ? minus_one
                                       : between(im, minus_one, from_beginning(im, end, dim), last);
        *size = max_of(im, zero, expr_ceildiv(s, expr_sub(s, *first, stop), number(im, -step)));
    }
}

/* Slice of known elements, where the borders are known too; NULL otherwise. */
static Expr *const *sliced_content(Import *im, const Term *t, Expr *const *first, const int64_t *step, Expr *const *shape)
{
    int64_t dims[MOST_AXES], stride[MOST_AXES], from[MOST_AXES], size[MOST_AXES], base = 0;
    if (!t->content || !all_ints(first, t->rank, from) || !all_ints(shape, t->rank, size)) return NULL;
    term_dims(t, dims);
    row_major(dims, t->rank, stride);
    for (int i = 0; i < t->rank; i++) {
        base += from[i] * stride[i];
        stride[i] *= step[i];
    }
    return content_view(im, t->content, base, stride, size, t->rank);
}

static void output_slice(Import *im, const OnnxNode *node, int which, Term *t, Expr *const *first, const int64_t *step,
                         Expr *const *shape)
{
    Expr *const *content = sliced_content(im, t, first, step, shape);
    if (content)
        output_content(im, node, which, t->dtype, t->rank, shape, content);
    else
        output(im, node, which, b_slice(im->graph, term_value(im, t), first, step, shape));
}

/* x[i : i + 3] along one axis, where i is computed from data: as many elements wherever it begins. */
static Value *moving_slice(Import *im, const OnnxNode *node, Value *x, int i, int axis, int64_t step)
{
    Graph *g = im->graph;
    int64_t begins, ends;
    Value *first = element_value(im, input_term(im, node, 1), i, &begins);
    const Value *last = element_value(im, input_term(im, node, 2), i, &ends);
    if (!first || first != last || ends <= begins || step != 1) return NULL;
    Expr *size = number(im, ends - begins);
    Value *start = b_reshape(g, b_cast(g, first, DTYPE_i64), 0, NULL);
    Value *places = b_add(g, b_iota(g, DTYPE_i64, 0, 1, &size), b_number(g, DTYPE_i64, (double)begins));
    return gather_within(im, x, b_add(g, places, b_broadcast_to(g, start, 1, &size)), axis);
}

/* Slices whose borders are computed from data, at least in part; false where no size can be told. */
static bool slices_move(Import *im, const OnnxNode *node, Term *t)
{
    Term *starts = input_term(im, node, 1), *ends = input_term(im, node, 2);
    const int64_t n = term_count(starts);
    int n_axes, n_steps;
    if ((starts->content && ends->content) || n < 1 || n > t->rank || term_count(ends) != n) return false;
    const int64_t *axes = ints_from(im, node, "axes", 3, &n_axes), *steps = ints_from(im, node, "steps", 4, &n_steps);
    Value *v = term_value(im, t);
    for (int i = 0; v && i < n; i++) {
        const int axis = axes ? normal_axis(im, node, axes[i], t->rank) : i;
        const int64_t step = steps ? steps[i] : 1;
        Expr *start = element_expr(im, starts, i), *end = element_expr(im, ends, i), *first, *size;
        if (start && end && step) {
            slice_axis(im, v->shape[axis], start, end, step, &first, &size);
            v = step == 1 ? b_slice_axis(im->graph, v, axis, first, size) : NULL;
        } else {
            v = moving_slice(im, node, v, i, axis, step);
        }
    }
    if (v) output(im, node, 0, v);
    return v != NULL;
}

void import_Slice(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    if (has_input(node, 1) && has_input(node, 2) && slices_move(im, node, t)) return;
    bool by_input = has_input(node, 1);
    int n, n_ends, n_axes, n_steps = 0;
    const int64_t *starts_attr = by_input ? NULL : attr_ints(node, "starts", &n), *ends_attr = attr_ints(node, "ends", &n_ends);
    Expr *const *starts = by_input ? input_exprs_or_error(im, node, 1, &n, "starts") : int_exprs(im, starts_attr, n);
    Expr *const *ends = by_input ? input_exprs_or_error(im, node, 2, &n_ends, "ends") : int_exprs(im, ends_attr, n_ends);
    const int64_t *axes = ints_from(im, node, "axes", 3, &n_axes), *steps = ints_from(im, node, "steps", 4, &n_steps);
    if (n != n_ends || (axes && n_axes != n) || (steps && n_steps != n))
        import_error(im, node, "%d starts, %d ends, %d axes, %d steps; wanted one of each an axis", n, n_ends, n_axes, n_steps);
    if (!axes && n > t->rank) import_error(im, node, "%d starts for %s", n, term_text(im, t));
    Expr *first[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i < t->rank; i++) {
        first[i] = number(im, 0);
        shape[i] = t->shape[i];
        step[i] = 1;
    }
    for (int i = 0; i < n; i++) {
        int axis = axes ? normal_axis(im, node, axes[i], t->rank) : i;
        step[axis] = steps ? steps[i] : 1;
        if (step[axis] == 0) import_error(im, node, "step 0 on axis %d", axis);
        slice_axis(im, t->shape[axis], starts[i], ends[i], step[axis], &first[axis], &shape[axis]);
    }
    output_slice(im, node, 0, t, first, step, shape);
}

/* ---- Split ---- */
/* Sizes of the parts along a dim: given, or equal ones, the last of num_outputs the smaller. */
static Expr *const *split_sizes(Import *im, const OnnxNode *node, Expr *dim, int *n)
{
    Symbols *s = im->symbols;
    if (has_input(node, 1)) return input_exprs_or_error(im, node, 1, n, "split");
    if (attr_has(node, "split")) {
        const int64_t *sizes = attr_ints(node, "split", n);
        return int_exprs(im, sizes, *n);
    }
    *n = (int)attr_int(node, "num_outputs", node->n_outputs);
    Expr **sizes = NEW_ARRAY(im->arena, Expr *, *n + 1), *parts = number(im, *n), *left = dim;
    Expr *exact = expr_divide_exactly(s, dim, parts), *each = exact ? exact : expr_ceildiv(s, dim, parts);
    if (!exact && !attr_has(node, "num_outputs")) exact = divided_evenly(im, dim, parts);
    if (!exact && !attr_has(node, "num_outputs"))
        import_error(im, node, "a dim of %s does not split into %d equal parts", expr_text(im->arena, dim), *n);
    for (int i = 0; i < *n; i++) {
        sizes[i] = exact ? exact : min_of(im, each, left);
        left = expr_sub(s, left, sizes[i]);
    }
    return sizes;
}

void import_Split(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int axis = normal_axis(im, node, attr_int(node, "axis", 0), t->rank), n;
    Expr *const *sizes = split_sizes(im, node, t->shape[axis], &n);
    if (n != node->n_outputs) import_error(im, node, "%d sizes for %d outputs", n, node->n_outputs);
    Expr *first[MOST_AXES], *shape[MOST_AXES], *at = number(im, 0);
    int64_t step[MOST_AXES];
    for (int i = 0; i < t->rank; i++) {
        first[i] = number(im, 0);
        shape[i] = t->shape[i];
        step[i] = 1;
    }
    for (int i = 0; i < n; i++) {
        first[axis] = at;
        shape[axis] = sizes[i];
        output_slice(im, node, i, t, first, step, shape);
        at = expr_add(im->symbols, at, sizes[i]);
    }
    if (!state_equal(im, at, t->shape[axis]))
        import_error(im, node, "the parts sum to %s, axis %d of %s does not", expr_text(im->arena, at), axis, term_text(im, t));
}

/* ---- Concat ---- */
static Term *concat_content(Import *im, Term *const *parts, int n, int axis, Expr *const *shape)
{
    int64_t dims[MOST_AXES], outer = 1, row = 0;
    int rank = parts[0]->rank;
    if (!all_ints(shape, rank, dims)) return NULL;
    for (int p = 0; p < n; p++)
        if (!parts[p]->content) return NULL;
    int64_t count = 1, at = 0;
    for (int i = 0; i < rank; i++) count *= dims[i];
    for (int i = 0; i < axis; i++) outer *= dims[i];
    row = outer ? count / outer : 0;
    if (count > TERM_CONTENT_MAX) return NULL;
    Expr **content = NEW_ARRAY(im->arena, Expr *, count + 1);
    for (int64_t o = 0; o < outer && row; o++)
        for (int p = 0; p < n; p++) {
            int64_t piece = term_count(parts[p]) / outer;
            for (int64_t i = 0; i < piece; i++) content[at++] = parts[p]->content[o * piece + i];
        }
    return term_of_content(im, parts[0]->dtype, rank, shape, content);
}

Term *concat_terms(Import *im, const OnnxNode *node, Term *const *all, int n_all, int axis)
{
    Term **parts = NEW_ARRAY(im->arena, Term *, n_all + 1);
    int n = 0, rank = 0;
    for (int i = 0; i < n_all; i++)
        if (!(all[i]->rank == 1 && expr_is(all[i]->shape[0], 0) && n_all > 1))
            parts[n++] = all[i]; /* an empty list joins anything */
    if (n == 0) parts[n++] = all[0];
    rank = parts[0]->rank;
    Expr *shape[MOST_AXES];
    for (int i = 0; i < rank; i++) shape[i] = parts[0]->shape[i];
    for (int p = 1; p < n; p++) {
        if (parts[p]->dtype != parts[0]->dtype || parts[p]->rank != rank)
            import_error(im, node, "joins %s and %s: wanted one element type and rank", term_text(im, parts[0]),
                         term_text(im, parts[p]));
        for (int i = 0; i < rank; i++)
            if (i == axis)
                shape[i] = expr_add(im->symbols, shape[i], parts[p]->shape[i]);
            else if (!state_equal(im, shape[i], parts[p]->shape[i]))
                import_error(im, node, "joins %s and %s along axis %d: axis %d differs", term_text(im, parts[0]),
                             term_text(im, parts[p]), axis, i);
    }
    Term *known = concat_content(im, parts, n, axis, shape);
    if (known) return known;
    Value **values = NEW_ARRAY(im->arena, Value *, n);
    for (int p = 0; p < n; p++) values[p] = term_value(im, parts[p]);
    return term_of_value(im, b_concat(im->graph, values, n, axis));
}

void import_Concat(Import *im, const OnnxNode *node)
{
    int n = node->n_inputs, rank = 0;
    Term **parts = NEW_ARRAY(im->arena, Term *, n + 1);
    for (int i = 0; i < n; i++) {
        parts[i] = input_term(im, node, i);
        if (parts[i]->rank > rank) rank = parts[i]->rank;
    }
    Term *t = concat_terms(im, node, parts, n, normal_axis(im, node, attr_int(node, "axis", 1), rank));
    if (t->value)
        output(im, node, 0, t->value);
    else
        output_term(im, node, 0, t);
}

/* ---- Transpose and blocks ---- */
void import_Transpose(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    int n, rank = t->rank;
    const int64_t *perm = attr_ints(node, "perm", &n);
    int64_t axes[MOST_AXES], dims[MOST_AXES], stride[MOST_AXES], new_stride[MOST_AXES], new_dims[MOST_AXES];
    bool seen[MOST_AXES] = {false};
    if (perm && n != rank) import_error(im, node, "perm has %d axes for %s", n, term_text(im, t));
    Expr **shape = NEW_ARRAY(im->arena, Expr *, rank + 1);
    for (int i = 0; i < rank; i++) {
        axes[i] = perm ? normal_axis(im, node, perm[i], rank) : rank - 1 - i;
        if (seen[axes[i]]) import_error(im, node, "perm names axis %d twice", (int)axes[i]);
        seen[axes[i]] = true;
        shape[i] = t->shape[axes[i]];
    }
    Expr *const *content = NULL;
    if (t->content) {
        term_dims(t, dims);
        row_major(dims, rank, stride);
        for (int i = 0; i < rank; i++) {
            new_stride[i] = stride[axes[i]];
            new_dims[i] = dims[axes[i]];
        }
        content = content_view(im, t->content, 0, new_stride, new_dims, rank);
    }
    if (content)
        output_content(im, node, 0, t->dtype, rank, shape, content);
    else
        output(im, node, 0, b_transpose(im->graph, term_value(im, t), axes));
}

static int64_t block_size(Import *im, const OnnxNode *node, const Value *x)
{
    int64_t b = attr_int(node, "blocksize", 0);
    if (b < 1) import_error(im, node, "blocksize is %lld; wanted 1 or more", (long long)b);
    if (x->rank != 4) import_error(im, node, "%s of %s; wanted rank 4", node->op_type, type_text(im, x));
    return b;
}

static Expr *divided(Import *im, const OnnxNode *node, const Value *x, int axis, int64_t by)
{
    Expr *quotient = divided_evenly(im, x->shape[axis], number(im, by));
    if (!quotient) import_error(im, node, "axis %d of %s is not divisible by %lld", axis, type_text(im, x), (long long)by);
    return quotient;
}

void import_DepthToSpace(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    int64_t b = block_size(im, node, x);
    bool column_first = strcmp(attr_string(node, "mode", "DCR"), "CRD") == 0;
    Expr *block = number(im, b), *c = divided(im, node, x, 1, b * b), *h = x->shape[2], *w = x->shape[3];
    Expr *dcr[] = {x->shape[0], block, block, c, h, w}, *crd[] = {x->shape[0], c, block, block, h, w};
    const int64_t dcr_axes[] = {0, 3, 4, 1, 5, 2}, crd_axes[] = {0, 1, 4, 2, 5, 3};
    Value *v = b_transpose(im->graph, b_reshape(im->graph, x, 6, column_first ? crd : dcr), column_first ? crd_axes : dcr_axes);
    Expr *shape[] = {x->shape[0], c, expr_mul(im->symbols, h, block), expr_mul(im->symbols, w, block)};
    output(im, node, 0, b_reshape(im->graph, v, 4, shape));
}

void import_SpaceToDepth(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    int64_t b = block_size(im, node, x);
    Expr *block = number(im, b), *c = x->shape[1], *h = divided(im, node, x, 2, b), *w = divided(im, node, x, 3, b);
    Expr *apart[] = {x->shape[0], c, h, block, w, block};
    const int64_t block_first[] = {0, 3, 5, 1, 2, 4}, channel_first[] = {0, 1, 3, 5, 2, 4};
    bool crd = strcmp(attr_string(node, "mode", "DCR"), "CRD") == 0;
    Value *v = b_transpose(im->graph, b_reshape(im->graph, x, 6, apart), crd ? channel_first : block_first);
    Expr *shape[] = {x->shape[0], expr_mul(im->symbols, c, number(im, b * b)), h, w};
    output(im, node, 0, b_reshape(im->graph, v, 4, shape));
}

void import_Trilu(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    if (x->rank < 2) import_error(im, node, "Trilu of %s; wanted rank 2 or more", type_text(im, x));
    Value *k = has_input(node, 1) ? b_reshape(g, b_cast(g, input(im, node, 1), DTYPE_i64), 0, NULL) : b_number(g, DTYPE_i64, 0);
    Expr *const *square = x->shape + x->rank - 2;
    Value *diagonal = b_add(g, b_iota(g, DTYPE_i64, 0, 2, square), k), *column = b_iota(g, DTYPE_i64, 1, 2, square);
    bool upper = attr_int(node, "upper", 1);
    Value *kept = upper ? b_binary(g, OP_le, diagonal, column) : b_binary(g, OP_le, column, diagonal);
    output(im, node, 0, b_select(g, kept, x, b_like(g, x, 0)));
}

/* ---- Pad ---- */
/* Where position i of a padded axis takes its element from, for the modes that repeat the tensor's own. */
static Value *pad_source(Import *im, const char *mode, Expr *dim, Expr *low, Expr *size)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    Expr *last = expr_sub(s, dim, number(im, 1));
    Value *i = b_sub(g, b_iota(g, DTYPE_i64, 0, 1, &size), b_dim(g, low)), *zero = b_number(g, DTYPE_i64, 0);
    if (strcmp(mode, "edge") == 0) return b_binary(g, OP_min, b_binary(g, OP_max, i, zero), b_dim(g, last));
    if (strcmp(mode, "wrap") == 0) return b_binary(g, OP_mod, i, b_dim(g, dim));
    Expr *period = max_of(im, number(im, 1), expr_mul(s, number(im, 2), last)); /* 0 1 2 1 | 0 1 2 1 for a dim of 3 */
    Value *m = b_binary(g, OP_mod, i, b_dim(g, period));
    return b_binary(g, OP_min, m, b_sub(g, b_dim(g, period), m));
}

static Value *pad_fill(Import *im, const OnnxNode *node, const Value *x)
{
    double value;
    if (has_input(node, 2)) {
        if (input_number(im, node, 2, &value)) return b_number(im->graph, x->dtype, value);
        return b_cast(im->graph, b_reshape(im->graph, input(im, node, 2), 0, NULL), x->dtype);
    }
    return b_number(im->graph, x->dtype, attr_float(node, "value", 0));
}

void import_Pad(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    const char *mode = attr_string(node, "mode", "constant");
    int n, n_axes, rank = x->rank;
    const int64_t *attr = attr_ints(node, "pads", &n), *axes = ints_from(im, node, NULL, 3, &n_axes);
    Expr *const *pads = attr_has(node, "pads") ? int_exprs(im, attr, n) : input_exprs_or_error(im, node, 1, &n, "pads");
    int padded = axes ? n_axes : rank;
    if (n != 2 * padded) import_error(im, node, "%d pads for %d axes; wanted two an axis", n, padded);
    Expr *low[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i < rank; i++) {
        low[i] = number(im, 0);
        shape[i] = x->shape[i];
        step[i] = 1;
    }
    for (int i = 0; i < padded; i++) {
        int axis = axes ? normal_axis(im, node, axes[i], rank) : i;
        low[axis] = pads[i];
        shape[axis] = expr_add(im->symbols, expr_add(im->symbols, x->shape[axis], pads[i]), pads[i + padded]);
    }
    if (strcmp(mode, "constant") == 0) {
        output(im, node, 0, b_pad(g, x, pad_fill(im, node, x), low, step, shape));
        return;
    }
    if (strcmp(mode, "reflect") != 0 && strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0)
        import_error(im, node, "mode is \"%s\"; wanted constant, reflect, edge or wrap", mode);
    for (int i = 0; i < rank; i++)
        if (!expr_is(low[i], 0) || !expr_always_equal(im->symbols, shape[i], x->shape[i]))
            x = b_gather(g, x, pad_source(im, mode, x->shape[i], low[i], shape[i]), i);
    output(im, node, 0, x);
}

/* Pads or crops about the middle: opset 18. */
void import_CenterCropPad(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    Value *x = input(im, node, 0);
    int n, n_axes, rank = x->rank;
    Expr *const *want = input_exprs_or_error(im, node, 1, &n, "the target shape");
    const int64_t *axes = attr_ints(node, "axes", &n_axes);
    if (n != (axes ? n_axes : rank)) import_error(im, node, "%d sizes for %d axes", n, axes ? n_axes : rank);
    Expr *low[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i < rank; i++) {
        low[i] = number(im, 0);
        shape[i] = x->shape[i];
        step[i] = 1;
    }
    for (int i = 0; i < n; i++) {
        int axis = axes ? normal_axis(im, node, axes[i], rank) : i;
        Expr *more = expr_sub(s, want[i], x->shape[axis]), *zero = number(im, 0), *two = number(im, 2);
        Expr *padded = expr_floordiv(s, max_of(im, more, zero), two);
        Expr *cropped = expr_floordiv(s, max_of(im, expr_sub(s, zero, more), zero), two);
        low[axis] = expr_sub(s, padded, cropped);
        shape[axis] = want[i];
    }
    output(im, node, 0, b_pad(g, x, b_like(g, x, 0), low, step, shape));
}

/* ---- ReverseSequence ---- */
void import_ReverseSequence(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *lengths = b_cast(g, input(im, node, 1), DTYPE_i64);
    if (x->rank < 2) import_error(im, node, "ReverseSequence of %s; wanted rank 2 or more", type_text(im, x));
    int64_t time_axis = attr_int(node, "time_axis", 0), batch_axis = attr_int(node, "batch_axis", 1);
    if (time_axis + batch_axis != 1 || time_axis * batch_axis != 0)
        import_error(im, node, "time_axis %lld, batch_axis %lld; wanted 0 and 1", (long long)time_axis, (long long)batch_axis);
    Expr *batch = x->shape[batch_axis], *time = x->shape[time_axis], *grid[] = {x->shape[0], x->shape[1]};
    const int64_t along[] = {batch_axis};
    Value *t = b_iota(g, DTYPE_i64, (int)time_axis, 2, grid), *b = b_iota(g, DTYPE_i64, (int)batch_axis, 2, grid);
    const Place length = place_within(im, b_reshape(g, lengths, 1, &batch), expr_add(im->symbols, time, number(im, 1)), false);
    Value *n = b_broadcast(g, length.index, along, 2, grid);
    Value *mirrored = b_sub(g, b_sub(g, n, t), b_number(g, DTYPE_i64, 1));
    Value *from = b_select(g, b_binary(g, OP_lt, t, n), mirrored, t);
    Value *row = time_axis == 0 ? b_add(g, b_mul(g, from, b_dim(g, batch)), b) : b_add(g, b_mul(g, b, b_dim(g, time)), from);
    Expr *rows[MOST_AXES];
    rows[0] = expr_mul(im->symbols, batch, time);
    for (int i = 2; i < x->rank; i++) rows[i - 1] = x->shape[i];
    output(im, node, 0, none_outside(im, b_gather(g, b_reshape(g, x, x->rank - 1, rows), row, 0), length.inside, (int)batch_axis));
}
