/* Einsum: operands are multiplied two by two, each pair as one batched dot over what both have.
 *
 * "bij, bjk -> bik": b is batch (in both, kept), j is summed (in both, wanted nowhere else), i and k are free. */
#include "onnx/formulas.h"
#include <string.h>

enum { ELLIPSIS = 128 }; /* labels of the dims that "..." stands for, counted from its last: ELLIPSIS + 0, + 1.. */

typedef struct Operand {
    Value *v;
    int labels[MOST_AXES]; /* one an axis */
} Operand;

static int place_of(const int *labels, int n, int label)
{
    for (int i = 0; i < n; i++)
        if (labels[i] == label) return i;
    return -1;
}

/* Labels of one term, "b..ij"; rest: how many dims "..." stands for. */
static int parse_term(Import *im, const OnnxNode *node, const char *text, const char *end, int rest, int *labels)
{
    int n = 0;
    for (const char *c = text; c < end; c++) {
        if (*c == ' ') continue;
        if (*c == '.') {
            if (end - c < 3 || c[1] != '.' || c[2] != '.')
                import_error(im, node, "equation \"%s\": \"...\" has three dots", attr_string(node, "equation", ""));
            for (int i = rest - 1; i >= 0; i--) labels[n++] = ELLIPSIS + i;
            c += 2;
        } else {
            labels[n++] = *c;
        }
        if (n >= MOST_AXES)
            import_error(im, node, "equation \"%s\" has a term of too many axes", attr_string(node, "equation", ""));
    }
    return n;
}

/* Letters in a term, the ellipsis aside. */
static int count_letters(const char *text, const char *end)
{
    int n = 0;
    for (const char *c = text; c < end; c++) n += *c != ' ' && *c != '.';
    return n;
}

/* "ii": the elements whose two indices are equal; the later axis goes. */
static void take_diagonals(Import *im, const OnnxNode *node, Operand *o)
{
    Graph *g = im->graph;
    for (int i = 0; i < o->v->rank; i++) {
        for (int k = i + 1; k < o->v->rank; k++) {
            if (o->labels[k] != o->labels[i]) continue;
            must_agree(im, node, o->v->shape[i], o->v->shape[k], "sizes of an axis that is named twice");
            Value *on = equal(g, positions(g, DTYPE_i64, o->v->shape[i], i, o->v->rank),
                              positions(g, DTYPE_i64, o->v->shape[k], k, o->v->rank));
            const int64_t axis[] = {k};
            o->v = b_reduce(g, OP_reduce_sum, b_select(g, on, o->v, b_like(g, o->v, 0)), axis, 1);
            memmove(&o->labels[k], &o->labels[k + 1], sizeof *o->labels * (size_t)(o->v->rank - k));
            k--;
        }
    }
}

/* Sums over axes that nobody else wants. */
static void sum_alone(Graph *g, Operand *o, const int *wanted, int n_wanted)
{
    int64_t axes[MOST_AXES];
    int n = 0, kept = 0, labels[MOST_AXES];
    for (int i = 0; i < o->v->rank; i++) {
        if (place_of(wanted, n_wanted, o->labels[i]) < 0)
            axes[n++] = i;
        else
            labels[kept++] = o->labels[i];
    }
    if (!n) return;
    o->v = b_reduce(g, OP_reduce_sum, o->v, axes, n);
    memcpy(o->labels, labels, sizeof labels[0] * (size_t)kept);
}

/* The operand with its axes in the order of labels; those that it lacks become dims of 1. */
static Value *arranged(Graph *g, const Operand *o, const int *labels, int n)
{
    int64_t axes[MOST_AXES];
    Expr *shape[MOST_AXES];
    int k = 0;
    for (int i = 0; i < n; i++) {
        int at = place_of(o->labels, o->v->rank, labels[i]);
        shape[i] = at < 0 ? expr_int(g->symbols, 1) : o->v->shape[at];
        if (at >= 0) axes[k++] = at;
    }
    check(k == o->v->rank);
    return b_reshape(g, b_transpose(g, o->v, axes), n, shape);
}

typedef struct Groups {
    int batch[MOST_AXES], summed[MOST_AXES], free_a[MOST_AXES], free_b[MOST_AXES];
    int n_batch, n_summed, n_a, n_b;
} Groups;

static Groups sort_labels(const Operand *a, const Operand *b, const int *wanted, int n_wanted)
{
    Groups s = {.n_batch = 0};
    for (int i = 0; i < a->v->rank; i++) {
        int label = a->labels[i];
        if (place_of(b->labels, b->v->rank, label) < 0)
            s.free_a[s.n_a++] = label;
        else if (place_of(wanted, n_wanted, label) >= 0)
            s.batch[s.n_batch++] = label;
        else
            s.summed[s.n_summed++] = label;
    }
    for (int i = 0; i < b->v->rank; i++)
        if (place_of(a->labels, a->v->rank, b->labels[i]) < 0) s.free_b[s.n_b++] = b->labels[i];
    return s;
}

static int append(int *to, int n, const int *labels, int count)
{
    memcpy(to + n, labels, sizeof *to * (size_t)count);
    return n + count;
}

/* A common axis may be 1 in one operand and stretch there ("..." does). */
static void stretch(Import *im, const OnnxNode *node, Operand *a, Operand *b)
{
    for (int i = 0; i < a->v->rank; i++) {
        int k = place_of(b->labels, b->v->rank, a->labels[i]);
        if (k < 0) continue;
        Expr *in_a = a->v->shape[i], *in_b = b->v->shape[k], *shape[MOST_AXES];
        Operand *narrow = expr_is(in_a, 1) ? a : expr_is(in_b, 1) ? b : NULL;
        if (!narrow || in_a == in_b) {
            must_agree(im, node, in_a, in_b,
                       arena_text(im->arena, "sizes of one axis of \"%s\"", attr_string(node, "equation", "")));
            continue;
        }
        for (int d = 0; d < narrow->v->rank; d++) shape[d] = narrow->v->shape[d];
        shape[narrow == a ? i : k] = narrow == a ? in_b : in_a;
        narrow->v = b_broadcast_to(im->graph, narrow->v, narrow->v->rank, shape);
    }
}

/* a times b, summed over what only they have and the rest does not want. */
static Operand contract(Import *im, const OnnxNode *node, Operand a, Operand b, const int *wanted, int n_wanted)
{
    Graph *g = im->graph;
    Symbols *s = im->symbols;
    stretch(im, node, &a, &b);
    Groups groups = sort_labels(&a, &b, wanted, n_wanted);
    Operand r;
    int n = append(r.labels, 0, groups.batch, groups.n_batch);
    n = append(r.labels, n, groups.free_a, groups.n_a);
    n = append(r.labels, n, groups.free_b, groups.n_b);
    if (groups.n_summed == 0) {
        r.v = b_mul(g, arranged(g, &a, r.labels, n), arranged(g, &b, r.labels, n));
        return r;
    }
    int of_a[MOST_AXES], of_b[MOST_AXES], nb = groups.n_batch, ns = groups.n_summed;
    int na = append(of_a, append(of_a, append(of_a, 0, groups.batch, nb), groups.free_a, groups.n_a), groups.summed, ns);
    int n_of_b = append(of_b, append(of_b, append(of_b, 0, groups.batch, nb), groups.summed, ns), groups.free_b, groups.n_b);
    Value *va = arranged(g, &a, of_a, na), *vb = arranged(g, &b, of_b, n_of_b);
    Expr *batch = expr_product(s, va->shape, nb), *rows = expr_product(s, va->shape + nb, groups.n_a),
         *inner = expr_product(s, va->shape + nb + groups.n_a, ns), *columns = expr_product(s, vb->shape + nb + ns, groups.n_b);
    Expr *shape[MOST_AXES];
    for (int i = 0; i < nb + groups.n_a; i++) shape[i] = va->shape[i];
    for (int i = 0; i < groups.n_b; i++) shape[nb + groups.n_a + i] = vb->shape[nb + ns + i];
    if (nb) {
        va = b_reshape(g, va, 3, (Expr *[]){batch, rows, inner});
        vb = b_reshape(g, vb, 3, (Expr *[]){batch, inner, columns});
    } else {
        va = b_reshape(g, va, 2, (Expr *[]){rows, inner});
        vb = b_reshape(g, vb, 2, (Expr *[]){inner, columns});
    }
    r.v = b_reshape(g, b_dot(g, va, vb, false, false), n, shape);
    return r;
}

/* Labels of the result where the equation gives none: those that appear once, in alphabetic order, behind the ellipsis. */
static int implicit_output(const Operand *operands, int n, int rest, int *labels)
{
    int count[ELLIPSIS] = {0}, k = 0;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < operands[i].v->rank; d++)
            if (operands[i].labels[d] < ELLIPSIS) count[operands[i].labels[d]]++;
    for (int i = rest - 1; i >= 0; i--) labels[k++] = ELLIPSIS + i;
    for (int c = 0; c < ELLIPSIS; c++)
        if (count[c] == 1) labels[k++] = c;
    return k;
}

static int read_operands(Import *im, const OnnxNode *node, const char *equation, const char *end, Operand *operands, int *rest)
{
    int n = 0;
    *rest = 0;
    for (const char *at = equation; at <= end; n++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        if (n >= node->n_inputs) import_error(im, node, "equation \"%s\" names more than %d operands", equation, node->n_inputs);
        Value *v = operands[n].v = input(im, node, n);
        bool has_dots = memchr(at, '.', (size_t)(stop - at)) != NULL;
        int dots = has_dots ? v->rank - count_letters(at, stop) : 0;
        if (dots < 0 || parse_term(im, node, at, stop, dots, operands[n].labels) != v->rank)
            import_error(im, node, "equation \"%s\": operand %d is %s, of another rank", equation, n, type_text(im, v));
        if (dots > *rest) *rest = dots;
        at = stop + 1;
    }
    if (n != node->n_inputs) import_error(im, node, "equation \"%s\" names %d operands; there are %d", equation, n, node->n_inputs);
    return n;
}

void import_Einsum(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    const char *equation = attr_string(node, "equation", ""), *arrow = strstr(equation, "->");
    const char *end = arrow ? arrow : equation + strlen(equation);
    Operand *operands = NEW_ARRAY(im->arena, Operand, node->n_inputs + 1);
    int rest, out[MOST_AXES], n = read_operands(im, node, equation, end, operands, &rest);
    int n_out = arrow ? parse_term(im, node, arrow + 2, arrow + strlen(arrow), rest, out) : implicit_output(operands, n, rest, out);
    for (int i = 0; i < n; i++) take_diagonals(im, node, &operands[i]);
    Operand result = operands[0];
    for (int i = 0; i < n; i++) { /* the result so far, beside operand i + 1 and those behind it */
        int wanted[MOST_AXES * 8], n_wanted = append(wanted, 0, out, n_out);
        for (int k = i + 1; k < n && n_wanted < MOST_AXES * 7; k++)
            n_wanted = append(wanted, n_wanted, operands[k].labels, operands[k].v->rank);
        if (i == 0) {
            sum_alone(g, &result, wanted, n_wanted);
            continue;
        }
        int own[MOST_AXES * 8], n_own = append(own, 0, wanted, n_wanted);
        n_own = append(own, n_own, result.labels, result.v->rank);
        sum_alone(g, &operands[i], own, n_own);
        result = contract(im, node, result, operands[i], wanted, n_wanted);
    }
    for (int i = 0; i < n_out; i++)
        if (place_of(result.labels, result.v->rank, out[i]) < 0 && out[i] < ELLIPSIS)
            import_error(im, node, "equation \"%s\": the result names '%c', which no operand has", equation, out[i]);
    output(im, node, 0, arranged(g, &result, out, n_out));
}
