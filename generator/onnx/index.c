/* Operators that take elements by index, or put them: Gather, GatherElements, GatherND, their scatters, OneHot, Compress, NonZero,
 * Unique.  All become gather and scatter along one axis: several indices at once become a linear one over a reshaped tensor. */
#include "onnx/places.h"
#include <string.h>

/* Index made >= 0 against a dim, as a value; known ones are checked. */
static Term *checked_index(Import *im, const OnnxNode *node, Term *index, Expr *dim)
{
    int64_t n = term_count(index), v, size;
    if (dtype_is_float(index->dtype) || index->dtype == DTYPE_bool)
        import_error(im, node, "indices are %s; wanted integers", term_text(im, index));
    if (!index->content) return term_of_value(im, normal_index(im, term_value(im, index), dim));
    Expr **content = NEW_ARRAY(im->arena, Expr *, n + 1);
    for (int64_t i = 0; i < n; i++) {
        Expr *e = index->content[i], *zero = number(im, 0);
        if (!expr_at_least(im->symbols, e, zero)) {
            if (expr_compare(im->symbols, e, zero) != ORDER_LESS)
                return term_of_value(im, normal_index(im, term_value(im, index), dim));
            e = expr_add(im->symbols, e, dim);
        }
        if (expr_is_int(e, &v) && expr_is_int(dim, &size) && (v < 0 || v >= size))
            import_error(im, node, "index %s is outside a dim of %lld", expr_text(im->arena, index->content[i]), (long long)size);
        content[i] = e;
    }
    Term *t = term_of_content(im, DTYPE_i64, index->rank, index->shape, content);
    if (index->tensor && n > 64) t->value = normal_index(im, term_value(im, index), dim);
    return t;
}

/* ---- Gather ---- */
static Expr *const *gathered_content(Import *im, const Term *t, const Term *index, int axis, int64_t *count)
{
    int64_t dims[MOST_AXES], before = 1, after = 1, n = term_count(index), at = 0, *known = NEW_ARRAY(im->arena, int64_t, n + 1);
    if (!t->content || !index->content || !all_ints(index->content, (int)n, known)) return NULL;
    term_dims(t, dims);
    for (int i = 0; i < axis; i++) before *= dims[i];
    for (int i = axis + 1; i < t->rank; i++) after *= dims[i];
    *count = before * n * after;
    if (*count > TERM_CONTENT_MAX) return NULL;
    Expr **content = NEW_ARRAY(im->arena, Expr *, *count + 1);
    for (int64_t b = 0; b < before; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t a = 0; a < after; a++) content[at++] = t->content[(b * dims[axis] + known[i]) * after + a];
    return content;
}

/* One known place: a slice, whose gradient needs no scatter. */
static Value *gathered_row(Import *im, Value *v, Expr *place, int axis)
{
    Value *row = b_slice_axis(im->graph, v, axis, place, number(im, 1));
    return b_squeeze(im->graph, row, axis);
}

/* The largest index that v holds: size - 1 of an iota, moved by what is added to it; NULL where that is not seen. */
static Expr *largest_index(Import *im, const Value *v)
{
    const Op *op = v->def;
    if (!op) return NULL;
    switch (op->kind) {
    case OP_iota: return expr_sub(im->symbols, v->shape[op_int(op, ATTR_axis)], number(im, 1));
    case OP_reshape:
    case OP_broadcast:
    case OP_cast:
    case OP_transpose: return largest_index(im, op->in[0]);
    case OP_add: {
        double more;
        Expr *most = largest_index(im, op->in[0]);
        return most && value_is_scalar_constant(op->in[1], &more) ? expr_add(im->symbols, most, number(im, (int64_t)more)) : NULL;
    }
    default: return NULL;
    }
}

/* Positions 0 to seq - 1 looked up in a table of 64 rows: seq <= 64. */
static void narrow_by_table(Import *im, const Value *index, Expr *rows)
{
    Expr *most = largest_index(im, index), *symbol;
    int64_t n, offset;
    if (!most || !expr_is_int(rows, &n) || expr_symbols(im->symbols, most, &symbol, 1) != 1) return;
    if (expr_is_int(expr_sub(im->symbols, most, symbol), &offset)) symbol_narrow(im->symbols, symbol, 0, n - 1 - offset);
}

/* Rows start, start + 1, .. of v, or the same row everywhere: a slice, repeated along the other axes of index; its gradient needs
 * no scatter.  NULL where index is no such range, or may leave the table. */
static Value *gathered_range(Import *im, Value *v, const Value *index, int axis)
{
    Expr *start, *size, *shape[2 * MOST_AXES];
    int along, n = 0, kept = 0;
    int64_t axes[MOST_AXES];
    if (!rises_along(im, index, &along, &start) || !expr_at_least(im->symbols, start, number(im, 0))) return NULL;
    size = along < 0 ? number(im, 1) : index->shape[along];
    if (!expr_at_least(im->symbols, v->shape[axis], expr_add(im->symbols, start, size))) return NULL;
    Value *rows = b_slice_axis(im->graph, v, axis, start, size);
    if (along < 0) rows = b_squeeze(im->graph, rows, axis);
    for (int i = 0; i < axis; i++) shape[n++] = v->shape[i];
    for (int i = 0; i < index->rank; i++) shape[n++] = index->shape[i];
    for (int i = axis + 1; i < v->rank; i++) shape[n++] = v->shape[i];
    for (int i = 0; i < v->rank; i++)
        if (i != axis || along >= 0) axes[kept++] = i < axis ? i : i == axis ? axis + along : i + index->rank - 1;
    return b_broadcast(im->graph, rows, axes, n, shape);
}

void import_Gather(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0), *index = input_term(im, node, 1);
    if (t->rank == 0) import_error(im, node, "Gather from a scalar; wanted rank 1 or more");
    int axis = normal_axis(im, node, attr_int(node, "axis", 0), t->rank), rank = t->rank - 1 + index->rank, n = 0;
    int64_t count;
    index = checked_index(im, node, index, t->shape[axis]);
    Expr *shape[2 * MOST_AXES];
    for (int i = 0; i < axis; i++) shape[n++] = t->shape[i];
    for (int i = 0; i < index->rank; i++) shape[n++] = index->shape[i];
    for (int i = axis + 1; i < t->rank; i++) shape[n++] = t->shape[i];
    Expr *const *content = gathered_content(im, t, index, axis, &count);
    if (content) {
        output_content(im, node, 0, t->dtype, rank, shape, content);
        return;
    }
    Value *v = term_value(im, t);
    if (index->content && term_count(index) == 1)
        output(im, node, 0, b_reshape(im->graph, gathered_row(im, v, index->content[0], axis), rank, shape));
    else {
        narrow_by_table(im, term_value(im, index), t->shape[axis]);
        Value *range = counts_all(im, term_value(im, index), v->shape[axis]) ? b_reshape(im->graph, v, rank, shape)
                                                                             : gathered_range(im, v, term_value(im, index), axis);
        output(im, node, 0, range ? range : gather_within(im, v, term_value(im, index), axis));
    }
}

/* ---- linear indices ---- */
/* index * step + base, i64. */
static Value *advance(Import *im, Value *base, Value *index, Expr *step)
{
    Graph *g = im->graph;
    Value *v = expr_is(step, 1) ? index : b_mul(g, index, b_dim(g, step));
    return base ? b_add(g, base, v) : v;
}

/* Of GatherElements: the row-major place in data of what each element of index names along axis. */
static Value *element_places(Import *im, const Term *data, Value *index, int axis)
{
    Graph *g = im->graph;
    Value *place = NULL;
    Expr *step = number(im, 1);
    for (int i = data->rank - 1; i >= 0; i--) {
        if (i != axis && expr_is(data->shape[i], 1)) continue;
        Value *along = i == axis ? index : b_iota(g, DTYPE_i64, i, index->rank, index->shape);
        place = advance(im, place, along, step);
        step = expr_mul(im->symbols, step, data->shape[i]);
    }
    return place;
}

/* A table that holds the same known number everywhere. */
static bool is_uniform(const Term *t)
{
    int64_t n = t->content ? term_count(t) : 0;
    for (int64_t i = 1; i < n; i++)
        if (t->content[i] != t->content[0]) return false;
    return n > 0;
}

static Value *flat(Import *im, Value *v)
{
    Expr *count = expr_product(im->symbols, v->shape, v->rank);
    return b_reshape(im->graph, v, 1, &count);
}

static Place elements_index(Import *im, const OnnxNode *node, const Term *data, int axis)
{
    Term *index = input_term(im, node, 1);
    if (index->rank != data->rank)
        import_error(im, node, "indices %s for data %s: wanted the same rank", term_text(im, index), term_text(im, data));
    Place p = place_within(im, term_value(im, checked_index(im, node, index, data->shape[axis])), data->shape[axis], false);
    p.index = element_places(im, data, p.index, axis);
    return p;
}

void import_GatherElements(Import *im, const OnnxNode *node)
{
    Term *data = input_term(im, node, 0);
    int axis = normal_axis(im, node, attr_int(node, "axis", 0), data->rank);
    const Place p = elements_index(im, node, data, axis);
    if (is_uniform(data)) {
        Term *one = term_of_content(im, data->dtype, 0, NULL, data->content);
        output(im, node, 0, b_broadcast_to(im->graph, term_value(im, one), p.index->rank, p.index->shape));
        return;
    }
    output(im, node, 0, none_outside(im, b_gather(im->graph, flat(im, term_value(im, data)), p.index, 0), p.inside, 0));
}

/* Column i of indices (.., k): of a Concat, the part that holds it. */
static Value *index_column(Import *im, Value *all, int i)
{
    Graph *g = im->graph;
    int last = all->rank - 1, at = 0;
    int64_t width;
    if (all->def && all->def->kind == OP_concat && op_int(all->def, ATTR_axis) == last)
        for (int p = 0; p < all->def->n_in; p++) {
            Value *part = all->def->in[p];
            if (!expr_is_int(part->shape[last], &width)) break;
            if (width == 1 && at == i) return b_squeeze(g, part, last);
            at += (int)width;
        }
    return b_squeeze(g, b_slice_axis(g, all, last, number(im, i), number(im, 1)), last);
}

/* What GatherND looks into: data's first n axes as one, without those along which it only repeats. */
typedef struct Table {
    Value *rows;
    int axes[MOST_AXES], n; /* of data: those that a place counts */
} Table;

/* Whether data only repeats along axis i: a broadcast made it. */
static bool repeats_along(const Value *data, int i)
{
    if (!data->def || data->def->kind != OP_broadcast) return false;
    const Value *from = data->def->in[0];
    const int64_t *axes = op_ints(data->def, ATTR_axes, NULL);
    for (int k = 0; k < from->rank; k++)
        if (axes[k] == i) return expr_is(from->shape[k], 1) && !expr_is(data->shape[i], 1);
    return true;
}

static Table table_of(Import *im, Value *data, int n)
{
    Table t = {.rows = data};
    Expr *shape[MOST_AXES];
    bool behind = false;
    for (int i = n; i < data->rank; i++) behind = behind || repeats_along(data, i);
    for (int i = 0; i < n; i++)
        if (behind || !repeats_along(data, i)) t.axes[t.n++] = i;
    if (t.n == 0)
        for (; t.n < n; t.n++) t.axes[t.n] = t.n;
    if (t.n < n) t.rows = data->def->in[0];
    shape[0] = number(im, 1);
    for (int i = 0; i < t.n; i++) shape[0] = expr_mul(im->symbols, shape[0], data->shape[t.axes[i]]);
    for (int i = n; i < data->rank; i++) shape[i - n + 1] = data->shape[i];
    t.rows = b_reshape(im->graph, t.rows, data->rank - n + 1, shape);
    return t;
}

/* The last dim of GatherND's indices: how many axes they name. */
static int named_axes(Import *im, const OnnxNode *node, const Term *data, int batch)
{
    Term *index = input_term(im, node, 1);
    int64_t k;
    if (index->rank < 1 || !expr_is_int(index->shape[index->rank - 1], &k) || k < 1 || batch + k > data->rank ||
        batch >= index->rank)
        import_error(im, node, "indices %s, batch_dims %d, data %s: wanted a last dim from 1 to the rank of data",
                     term_text(im, index), batch, term_text(im, data));
    return (int)k;
}

/* (.., k) indices as places in the rows of a table; the first batch axes count themselves. */
static Place nd_places(Import *im, const OnnxNode *node, const Term *data, int batch, const Table *t, bool watched)
{
    Graph *g = im->graph;
    Value *all = b_cast(g, input(im, node, 1), DTYPE_i64);
    Place place = {NULL, NULL};
    Expr *step = number(im, 1);
    for (int a = t->n - 1; a >= 0; a--) {
        const int axis = t->axes[a];
        Place along = {NULL, NULL};
        if (axis < batch)
            along.index = b_iota(g, DTYPE_i64, axis, all->rank - 1, all->shape);
        else
            along = place_within(im, normal_index(im, index_column(im, all, axis - batch), data->shape[axis]), data->shape[axis],
                                 watched && t->n == 1);
        place.index = advance(im, place.index, along.index, step);
        place.inside = both_inside(g, place.inside, along.inside);
        step = expr_mul(im->symbols, step, data->shape[axis]);
    }
    return place;
}

/* Element i of 0, 1, 2, .. is i. */
static bool is_counting(const Value *v)
{
    while (v->def && v->def->kind == OP_reshape) v = v->def->in[0];
    return v->def && v->def->kind == OP_iota && v->rank == 1;
}

/* Known elements gathered by known indices. */
static bool gather_nd_content(Import *im, const OnnxNode *node, const Term *data, int batch)
{
    const Term *index = input_term(im, node, 1);
    int64_t n = term_count(index), dims[MOST_AXES], stride[MOST_AXES], k,
            *known = NEW_ARRAY(im->arena, int64_t, (n > 0 ? n : 0) + 1);
    if (batch || !data->content || !index->content || !all_ints(index->content, (int)n, known)) return false;
    if (index->rank < 1 || !expr_is_int(index->shape[index->rank - 1], &k) || k < 1 || k > data->rank) return false;
    term_dims(data, dims);
    row_major(dims, data->rank, stride);
    int64_t piece = stride[k - 1], rows = n / k;
    if (rows * piece > TERM_CONTENT_MAX) return false;
    Expr **content = NEW_ARRAY(im->arena, Expr *, rows * piece + 1), *shape[2 * MOST_AXES];
    for (int64_t r = 0; r < rows; r++) {
        int64_t from = 0;
        for (int64_t i = 0; i < k; i++) {
            int64_t at = known[r * k + i] + (known[r * k + i] < 0 ? dims[i] : 0);
            if (at < 0 || at >= dims[i]) return false;
            from += at * stride[i];
        }
        for (int64_t i = 0; i < piece; i++) content[r * piece + i] = data->content[from + i];
    }
    int rank = 0;
    for (int i = 0; i + 1 < index->rank; i++) shape[rank++] = index->shape[i];
    for (int i = (int)k; i < data->rank; i++) shape[rank++] = data->shape[i];
    output_content(im, node, 0, data->dtype, rank, shape, content);
    return true;
}

void import_GatherND(Import *im, const OnnxNode *node)
{
    Term *data = input_term(im, node, 0);
    int batch = (int)attr_int(node, "batch_dims", 0);
    if (gather_nd_content(im, node, data, batch)) return;
    Table t = table_of(im, term_value(im, data), batch + named_axes(im, node, data, batch));
    const Place place = nd_places(im, node, data, batch, &t, true);
    Value *repeated = same_everywhere(t.rows), *y = none_outside(im, b_gather(im->graph, t.rows, place.index, 0), place.inside, 0);
    if (repeated) y = b_broadcast_to(im->graph, repeated, y->rank, y->shape);
    if (t.rows->rank == 1 && is_counting(t.rows)) y = none_outside(im, b_cast(im->graph, place.index, data->dtype), place.inside, 0);
    output(im, node, 0, y);
}

/* ---- scatters ---- */
static const char *scatter_mode(Import *im, const OnnxNode *node)
{
    const char *reduction = attr_string(node, "reduction", "none");
    static const char *const modes[] = {"add", "mul", "max", "min"};
    if (strcmp(reduction, "none") == 0) return "set";
    for (int i = 0; i < 4; i++)
        if (strcmp(reduction, modes[i]) == 0) return modes[i];
    import_error(im, node, "reduction is \"%s\"; wanted none, add, mul, max or min", reduction);
}

/* Axes first, first + 1, .. of updates are dims. */
static void check_updates(Import *im, const OnnxNode *node, const Value *updates, int first, Expr *const *dims, int n)
{
    for (int i = 0; i < n; i++)
        if (!state_equal(im, updates->shape[first + i], dims[i]))
            import_error(im, node, "updates %s: axis %d is %s; wanted %s, to fit the indices and the data", type_text(im, updates),
                         first + i, expr_text(im->arena, updates->shape[first + i]), expr_text(im->arena, dims[i]));
}

static Value *scatter_updates(Import *im, const OnnxNode *node, const Term *data)
{
    Value *updates = input(im, node, 2);
    if (updates->dtype != data->dtype)
        import_error(im, node, "updates %s for data %s: wanted one element type", type_text(im, updates), term_text(im, data));
    return updates;
}

void import_ScatterElements(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *data = input_term(im, node, 0);
    int axis = normal_axis(im, node, attr_int(node, "axis", 0), data->rank);
    const Place p = elements_index(im, node, data, axis);
    Value *place = p.index, *updates = scatter_updates(im, node, data), *base = term_value(im, data);
    if (updates->rank != place->rank)
        import_error(im, node, "updates %s for indices of rank %d: wanted the same shape", type_text(im, updates), place->rank);
    check_updates(im, node, updates, 0, place->shape, place->rank);
    Value *v = b_scatter(g, flat(im, base), flat(im, place), flat(im, updates), 0, scatter_mode(im, node));
    output(im, node, 0, none_unless_all(im, b_reshape(g, v, base->rank, base->shape), p.inside));
}

void import_ScatterND(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *data = input_term(im, node, 0);
    int k = named_axes(im, node, data, 0);
    Value *base = term_value(im, data), *updates = scatter_updates(im, node, data);
    Table t = {.n = k};
    for (int i = 0; i < k; i++) t.axes[i] = i;
    const Place p = nd_places(im, node, data, 0, &t, false);
    Value *place = p.index;
    if (updates->rank != place->rank + data->rank - k)
        import_error(im, node, "updates %s do not fit: data is %s, indices name %d of its axes", type_text(im, updates),
                     term_text(im, data), k);
    check_updates(im, node, updates, 0, place->shape, place->rank);
    check_updates(im, node, updates, place->rank, base->shape + k, base->rank - k);
    Expr *rows[MOST_AXES];
    rows[0] = expr_product(im->symbols, base->shape, k);
    for (int i = k; i < base->rank; i++) rows[i - k + 1] = base->shape[i];
    Value *v = b_scatter(g, b_reshape(g, base, base->rank - k + 1, rows), place, updates, 0, scatter_mode(im, node));
    output(im, node, 0, none_unless_all(im, b_reshape(g, v, base->rank, base->shape), p.inside));
}

/* Writes update at write_indices along axis of a cache, one place a batch row; circular wraps around (opset 24). */
void import_TensorScatter(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *data = input_term(im, node, 0);
    Value *past = term_value(im, data), *updates = input(im, node, 1);
    int axis = normal_axis(im, node, attr_int(node, "axis", -2), data->rank);
    const char *mode = attr_string(node, "mode", "linear");
    if (updates->rank != past->rank || axis == 0)
        import_error(im, node, "updates %s for %s along axis %d: wanted the same rank, and axis 0 for the batch",
                     type_text(im, updates), type_text(im, past), axis);
    Value *at = b_iota(g, DTYPE_i64, axis, updates->rank, updates->shape);
    if (has_input(node, 2)) {
        const int64_t batch[] = {0};
        Value *start = b_cast(g, input(im, node, 2), DTYPE_i64);
        at = b_add(g, at, b_broadcast(g, start, batch, updates->rank, updates->shape));
    }
    if (strcmp(mode, "circular") == 0) at = b_binary(g, OP_mod, at, b_dim(g, past->shape[axis]));
    const Place p = place_within(im, at, past->shape[axis], false);
    Value *v = b_scatter(g, flat(im, past), flat(im, element_places(im, data, p.index, axis)), flat(im, updates), 0, "set");
    output(im, node, 0, none_unless_all(im, b_reshape(g, v, past->rank, past->shape), p.inside));
}

/* ---- OneHot ---- */
void import_OneHot(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *index = b_cast(g, input(im, node, 0), DTYPE_i64), *values = input(im, node, 2);
    Expr *depth = scalar_expr(im, input_term(im, node, 1));
    if (!depth)
        import_error(im, node, "depth (\"%s\") is computed from data; it must follow from constants and the sizes of inputs",
                     node->inputs[1]);
    int rank = index->rank + 1, axis = normal_axis(im, node, attr_int(node, "axis", -1), rank);
    Expr *shape[MOST_AXES];
    for (int i = 0; i < rank; i++) shape[i] = i == axis ? depth : index->shape[i < axis ? i : i - 1];
    Value *hot =
        b_binary(g, OP_eq, b_expand_dims(g, normal_index(im, index, depth), axis), b_iota(g, DTYPE_i64, axis, rank, shape));
    Value *off = gathered_row(im, values, number(im, 0), 0), *on = gathered_row(im, values, number(im, 1), 0);
    output(im, node, 0, b_select(g, hot, on, off));
}

/* ---- sizes known late ---- */
static const char *late_hint(const OnnxNode *node)
{
    return node->outputs[0];
}

/* NonZero of known elements; false where they are not. */
static bool nonzero_content(Import *im, const OnnxNode *node, const Term *t)
{
    int64_t n = term_count(t), dims[MOST_AXES], stride[MOST_AXES], found = 0,
            *known = NEW_ARRAY(im->arena, int64_t, (n > 0 ? n : 0) + 1);
    if (!t->content || !all_ints(t->content, (int)n, known)) return false;
    term_dims(t, dims);
    row_major(dims, t->rank, stride);
    for (int64_t i = 0; i < n; i++) found += known[i] != 0;
    if (found * t->rank > TERM_CONTENT_MAX) return false;
    Expr **content = NEW_ARRAY(im->arena, Expr *, found * t->rank + 1), *shape[] = {number(im, t->rank), number(im, found)};
    for (int a = 0; a < t->rank; a++)
        for (int64_t i = 0, at = 0; i < n; i++)
            if (known[i]) content[a * found + at++] = number(im, i / stride[a] % dims[a]);
    output_content(im, node, 0, DTYPE_i64, 2, shape, content);
    return true;
}

void import_NonZero(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    double everywhere;
    if (t->rank == 0) t = reshape_term(im, t, 1, (Expr *[]){number(im, 1)});
    if (nonzero_content(im, node, t)) return;
    if (t->rank == 1 && value_is_scalar_constant(term_value(im, t), &everywhere) &&
        everywhere != 0) { /* ones(n): how old exporters count */
        Expr *row[] = {number(im, 1), t->shape[0]};
        output(im, node, 0, b_reshape(im->graph, b_iota(im->graph, DTYPE_i64, 0, 1, t->shape), 2, row));
        return;
    }
    output(im, node, 0, b_nonzero(im->graph, term_value(im, t), late_hint(node)));
}

/* Indices of what condition keeps, as a vector: known ones, or late. */
static Value *kept_indices(Import *im, const OnnxNode *node, Term *condition)
{
    Graph *g = im->graph;
    int64_t n = term_count(condition), *known = NEW_ARRAY(im->arena, int64_t, (n > 0 ? n : 0) + 1), kept = 0;
    if (condition->content && all_ints(condition->content, (int)n, known)) {
        for (int64_t i = 0; i < n; i++)
            if (known[i]) known[kept++] = i;
        return b_constant(g, DTYPE_i64, 1, &kept, known);
    }
    Value *places = b_nonzero(g, term_value(im, condition), late_hint(node));
    return b_reshape(g, places, 1, &places->shape[1]);
}

void import_Compress(Import *im, const OnnxNode *node)
{
    Term *condition = input_term(im, node, 1);
    Value *x = input(im, node, 0);
    if (condition->rank != 1) import_error(im, node, "condition is %s; wanted rank 1", term_text(im, condition));
    bool by_axis = attr_has(node, "axis");
    int axis = by_axis ? normal_axis(im, node, attr_int(node, "axis", 0), x->rank) : 0;
    output(im, node, 0, gather_within(im, by_axis ? x : flat(im, x), kept_indices(im, node, condition), axis));
}

void import_Unique(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    if (attr_has(node, "axis") && x->rank != 1) {
        int axis = normal_axis(im, node, attr_int(node, "axis", 0), x->rank);
        unique_slices(im, node, x, axis, attr_int(node, "sorted", 1), late_hint(node));
        return;
    }
    Op *op = b_unique(im->graph, flat(im, x), attr_int(node, "sorted", 1), late_hint(node));
    for (int i = 0; i < 4; i++) output(im, node, i, op->out[i]);
}
