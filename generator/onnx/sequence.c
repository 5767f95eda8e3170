/* Sequences and optionals: lists that exist only while the program is made.  Positions must be known.  What a loop appended, an item
 * a step, is one tensor of as many rows. */
#include "onnx/terms.h"
#include <string.h>

Expr *sequence_length(Import *im, const Term *t)
{
    Expr *listed = number(im, t->n_items);
    return t->rows ? expr_add(im->symbols, listed, t->rows->shape[0]) : listed;
}

static Term *sequence_input(Import *im, const OnnxNode *node, int i)
{
    Term *t = input_term(im, node, i);
    if (!t->is_sequence) import_error(im, node, "input %d is %s; wanted a sequence", i, term_text(im, t));
    return t;
}

/* One of which all items are listed. */
static Term *listed_input(Import *im, const OnnxNode *node, int i)
{
    Term *t = sequence_input(im, node, i);
    if (t->rows || t->grows)
        import_error(im, node, "input %d is %s; of what a loop appends to a list only Concat, its length and known places can be had", i,
                     term_text(im, t));
    return t;
}

/* A known place in a sequence, negative ones from its end; up_to: whether n itself is one. */
static int position(Import *im, const OnnxNode *node, int i, int n, bool up_to)
{
    int64_t at;
    Expr *e = scalar_expr(im, input_term(im, node, i));
    if (!e || !expr_is_int(e, &at))
        import_error(im, node, "position (\"%s\") is not known while the program is made; wanted a constant", node->inputs[i]);
    if (at < 0) at += n;
    if (at < 0 || at >= n + up_to) import_error(im, node, "position %lld in a sequence of %d", (long long)at, n);
    return (int)at;
}

void import_SequenceEmpty(Import *im, const OnnxNode *node)
{
    output_term(im, node, 0, term_of_items(im, 0));
}

void import_SequenceConstruct(Import *im, const OnnxNode *node)
{
    Term *t = term_of_items(im, node->n_inputs);
    for (int i = 0; i < node->n_inputs; i++) t->items[i] = input_term(im, node, i);
    output_term(im, node, 0, t);
}

void import_SequenceInsert(Import *im, const OnnxNode *node)
{
    Term *from = sequence_input(im, node, 0), *t = term_of_items(im, from->n_items + 1);
    if (from->rows || (from->grows && has_input(node, 2))) listed_input(im, node, 0);
    t->grows = from->grows;
    int at = has_input(node, 2) ? position(im, node, 2, from->n_items, true) : from->n_items;
    for (int i = 0; i < from->n_items; i++) t->items[i < at ? i : i + 1] = from->items[i];
    t->items[at] = input_term(im, node, 1);
    output_term(im, node, 0, t);
}

void import_SequenceErase(Import *im, const OnnxNode *node)
{
    Term *from = listed_input(im, node, 0);
    if (from->n_items == 0) import_error(im, node, "nothing to erase in an empty sequence");
    int at = has_input(node, 1) ? position(im, node, 1, from->n_items, false) : from->n_items - 1;
    Term *t = term_of_items(im, from->n_items - 1);
    for (int i = 0; i < t->n_items; i++) t->items[i] = from->items[i < at ? i : i + 1];
    output_term(im, node, 0, t);
}

/* Row of what a loop appended, negative places from the end. */
static void row_at(Import *im, const OnnxNode *node, const Term *from)
{
    Value *rows = term_value(im, from->rows);
    Expr *at = scalar_expr(im, input_term(im, node, 1)), *n = rows->shape[0];
    if (!at) import_error(im, node, "position (\"%s\") is computed from data; wanted one that is known", node->inputs[1]);
    if (!expr_at_least(im->symbols, at, number(im, 0))) at = expr_add(im->symbols, at, n);
    output(im, node, 0, b_squeeze(im->graph, b_slice_axis(im->graph, rows, 0, at, number(im, 1)), 0));
}

void import_SequenceAt(Import *im, const OnnxNode *node)
{
    Term *from = sequence_input(im, node, 0);
    if (from->rows && from->n_items == 0) {
        row_at(im, node, from);
        return;
    }
    output_term(im, node, 0, listed_input(im, node, 0)->items[position(im, node, 1, from->n_items, false)]);
}

void import_SequenceLength(Import *im, const OnnxNode *node)
{
    Expr **content = NEW_ARRAY(im->arena, Expr *, 1);
    const Term *from = sequence_input(im, node, 0);
    content[0] = sequence_length(im, from->grows ? listed_input(im, node, 0) : from);
    output_content(im, node, 0, DTYPE_i64, 0, NULL, content);
}

/* Sizes of the parts: from split (a scalar is the size of each), or 1 each. */
static int64_t *part_sizes(Import *im, const OnnxNode *node, const Term *t, int axis, int *n)
{
    int64_t dim, each = 1, left;
    if (!expr_is_int(t->shape[axis], &dim))
        import_error(im, node, "axis %d of %s has no fixed size, so the number of parts is not known", axis, term_text(im, t));
    if (has_input(node, 1)) {
        const int64_t *given = ints_from(im, node, NULL, 1, n);
        if (input_term(im, node, 1)->rank == 1) {
            int64_t *sizes = NEW_ARRAY(im->arena, int64_t, *n + 1);
            memcpy(sizes, given, sizeof *sizes * (size_t)*n);
            return sizes;
        }
        each = given[0];
    }
    if (each < 1) import_error(im, node, "parts of size %lld; wanted 1 or more", (long long)each);
    *n = (int)((dim + each - 1) / each);
    int64_t *sizes = NEW_ARRAY(im->arena, int64_t, *n + 1);
    for (left = dim, *n = 0; left > 0; left -= each) sizes[(*n)++] = left < each ? left : each;
    return sizes;
}

void import_SplitToSequence(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *t = input_term(im, node, 0);
    int axis = normal_axis(im, node, attr_int(node, "axis", 0), t->rank), n;
    int64_t *sizes = part_sizes(im, node, t, axis, &n), at = 0;
    bool keep = has_input(node, 1) || attr_int(node, "keepdims", 1);
    Term *list = term_of_items(im, n);
    for (int i = 0; i < n; at += sizes[i++]) {
        Value *part = b_slice_axis(g, term_value(im, t), axis, number(im, at), number(im, sizes[i]));
        list->items[i] = term_of_value(im, keep ? part : b_squeeze(g, part, axis));
    }
    output_term(im, node, 0, list);
}

/* The items listed, each as the part of a concatenation that it is. */
static Term *part_of_concat(Import *im, Term *t, int axis, bool stack)
{
    Expr *shape[MOST_AXES];
    if (!stack) return t;
    for (int k = 0; k <= t->rank; k++) shape[k] = k == axis ? number(im, 1) : t->shape[k < axis ? k : k - 1];
    return reshape_term(im, t, t->rank + 1, shape);
}

/* Rows side by side along an axis: (n, a, b, c) -> (a, n, b, c), or (a, n * b, c). */
static Term *rows_joined(Import *im, Term *t, int axis, bool stack)
{
    Graph *g = im->graph;
    Value *v = term_value(im, t);
    int64_t axes[MOST_AXES];
    Expr *shape[MOST_AXES];
    for (int i = 0; i < v->rank; i++) axes[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    v = b_transpose(g, v, axes);
    if (stack) return term_of_value(im, v);
    for (int i = 0; i + 1 < v->rank; i++)
        shape[i] = i == axis ? expr_mul(im->symbols, v->shape[i], v->shape[i + 1]) : v->shape[i < axis ? i : i + 1];
    return term_of_value(im, b_reshape(g, v, v->rank - 1, shape));
}

void import_ConcatFromSequence(Import *im, const OnnxNode *node)
{
    Term *from = sequence_input(im, node, 0);
    const bool stack = attr_int(node, "new_axis", 0);
    int n = from->n_items;
    if (from->grows) listed_input(im, node, 0);
    if (n == 0 && !from->rows) import_error(im, node, "an empty sequence has no type to join");
    const int rank = (n ? from->items[0]->rank : from->rows->rank - 1) + stack;
    const int axis = normal_axis(im, node, attr_int(node, "axis", 0), rank);
    Term **parts = NEW_ARRAY(im->arena, Term *, n + 2);
    for (int i = 0; i < n; i++) parts[i] = part_of_concat(im, from->items[i], axis, stack);
    if (from->rows) parts[n++] = rows_joined(im, from->rows, axis, stack);
    output_term(im, node, 0, concat_terms(im, node, parts, n, axis));
}

/* The body once for each item: further inputs are sequences of the same length, or tensors that all steps share. */
void import_SequenceMap(Import *im, const OnnxNode *node)
{
    const OnnxGraph *body = attr_graph(node, "body");
    int n = listed_input(im, node, 0)->n_items;
    if (!body || body->n_inputs != node->n_inputs)
        import_error(im, node, "the body does not take the node's %d inputs", node->n_inputs);
    Term **inputs = NEW_ARRAY(im->arena, Term *, node->n_inputs + 1), **results = NEW_ARRAY(im->arena, Term *, body->n_outputs + 1);
    Term **lists = NEW_ARRAY(im->arena, Term *, body->n_outputs + 1);
    for (int o = 0; o < body->n_outputs; o++) lists[o] = term_of_items(im, n);
    for (int s = 0; s < n; s++) {
        for (int i = 0; i < node->n_inputs; i++) {
            Term *t = input_term(im, node, i);
            if (t->is_sequence && t->n_items != n) import_error(im, node, "sequences of %d and %d items", n, t->n_items);
            inputs[i] = t->is_sequence ? t->items[s] : t;
        }
        import_inline(im, body, inputs, node->n_inputs, results);
        for (int o = 0; o < body->n_outputs; o++) lists[o]->items[s] = results[o];
    }
    for (int o = 0; o < body->n_outputs; o++) output_term(im, node, o, lists[o]);
}

/* ---- optionals ---- */
void import_Optional(Import *im, const OnnxNode *node)
{
    Term *t = has_input(node, 0) ? input_term(im, node, 0) : term_new(im, DTYPE_f32, 0, NULL);
    if (!has_input(node, 0)) t->is_absent = true;
    output_term(im, node, 0, t);
}

void import_OptionalHasElement(Import *im, const OnnxNode *node)
{
    Expr **content = NEW_ARRAY(im->arena, Expr *, 1);
    content[0] = number(im, has_input(node, 0) && !input_term(im, node, 0)->is_absent);
    output_content(im, node, 0, DTYPE_bool, 0, NULL, content);
}

void import_OptionalGetElement(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    if (t->is_absent) import_error(im, node, "the optional is empty");
    output_term(im, node, 0, t);
}
