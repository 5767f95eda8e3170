/* Finds attention that is written out, and makes it one operation, so that scores never stand in memory:
 *
 *     %5 = dot %q, %k, trans_b=1
 *     %6 = mul %5, 0.125                             %9, .. = attention %q, %k, %v {
 *     %7 = select (key <= query), %6, -3.4e38   ->      mul, select of the scores, at their query and key
 *     %8 = softmax %7                                }
 *     %9 = dot %8, %v
 *
 * Needs: simplified graph.  Breaks: nothing.
 *
 * From the second product back: a softmax (the operation, or written out), perhaps a select that empties rows, then whatever
 * elementwise operations make of the first product.  These become the body (recognise_scores.c).  Keys that were repeated for
 * the queries that share them are taken before they were.  What looks like attention but is not taken is told, with the reason. */
#include "passes/recognise.h"
#include <math.h>
#include <string.h>

/* ---- small questions ---- */
bool attend_no(Attend *a, const char *why)
{
    if (!a->why) a->why = why;
    return false;
}

static Op *made_by(const Value *v, OpKind kind)
{
    return v->def && v->def->kind == kind ? v->def : NULL;
}

static bool is_number(const Value *v, double wanted)
{
    double x;
    return value_is_scalar_constant(v, &x) && x == wanted;
}

static bool takes_last_axis(const Op *op)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    return n == 1 && axes[0] == op->in[0]->rank - 1;
}

static void inside(Attend *a, Op *op)
{
    vec_push(a->g->arena, &a->ops, op);
}

/* ---- softmax ---- */
/* v = what a reduction over the last axis gave, spread over that axis again: the reduction. */
static Op *spread(Attend *a, const Value *v, OpKind kind)
{
    Ops way = {0};
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape)) {
        vec_push(a->g->arena, &way, v->def);
        v = v->def->in[0];
    }
    Op *reduce = made_by(v, kind);
    if (!reduce || !takes_last_axis(reduce)) return NULL;
    for (int i = 0; i < way.n; i++) inside(a, way.at[i]);
    inside(a, reduce);
    return reduce;
}

/* exp(x - max x), divided by its sum: x. */
static Value *written_out(Attend *a, Op *divide)
{
    Op *e = made_by(divide->in[0], OP_exp), *by = divide, *sub, *sum, *max;
    Value *of = divide->in[1];
    if (divide->kind == OP_mul) {
        while (of->def && (of->def->kind == OP_broadcast || of->def->kind == OP_reshape)) inside(a, of->def), of = of->def->in[0];
        if (!(by = made_by(of, OP_reciprocal))) return NULL;
        of = by->in[0];
        inside(a, by);
    }
    if (!e || !(sum = spread(a, of, OP_reduce_sum)) || sum->in[0] != e->out[0]) return NULL;
    if (!(sub = made_by(e->in[0], OP_sub)) || !(max = spread(a, sub->in[1], OP_reduce_max)) || max->in[0] != sub->in[0]) return NULL;
    inside(a, e), inside(a, sub);
    return sub->in[0];
}

/* The operand of the softmax over the last axis that makes v; NULL where none does. */
static Value *softmax_of(Attend *a, const Value *v)
{
    Op *op = v->def, *log = NULL;
    if (!op) return NULL;
    inside(a, op);
    if (op->kind == OP_exp && (log = made_by(op->in[0], OP_log_softmax))) inside(a, log), op = log;
    if (op->kind == OP_softmax || log) return op_int(op, ATTR_axis) == v->rank - 1 ? op->in[0] : NULL;
    return op->kind == OP_div || op->kind == OP_mul ? written_out(a, op) : NULL;
}

/* select any, p, 0: a row is empty unless some key is allowed. */
static Value *allowed_keys(Attend *a, Op *select)
{
    Op *any = is_number(select->in[2], 0) ? spread(a, select->in[0], OP_reduce_max) : NULL;
    return any && any->in[0]->dtype == DTYPE_bool ? any->in[0] : NULL;
}

/* From the left operand of the second product to the operand of the softmax. */
static bool find_softmax(Attend *a)
{
    Value *p = a->product->in[0];
    if (op_int(a->product, ATTR_trans_a)) return false;
    if (made_by(p, OP_reshape)) inside(a, p->def), p = p->def->in[0];
    Op *select = made_by(p, OP_select);
    if (select && (a->allowed = allowed_keys(a, select))) inside(a, select), p = select->in[1];
    a->masked = softmax_of(a, p);
    return a->masked && a->masked->rank >= 2;
}

/* Whether a softmax stands behind what v does to probabilities; *random: something random as well. */
static bool near_softmax(const Value *v, int depth, bool *random)
{
    if (!v->def || !depth) return false;
    if (op_kind_draws(v->def->kind)) *random = true;
    if (v->def->kind == OP_softmax) return op_int(v->def, ATTR_axis) == v->rank - 1 && v->rank >= 3;
    const OpClass class = op_info(v->def->kind)->class;
    bool found = false;
    for (int i = 0; i < v->def->n_in && (class == ELEMENTWISE || v->def->kind == OP_reshape || v->def->kind == OP_broadcast); i++)
        found |= near_softmax(v->def->in[i], depth - 1, random);
    return found;
}

/* ---- queries, keys, values ---- */
/* v as it was before each of its matrices was repeated `each` times, for the queries that share it; NULL where it was not. */
static Value *before_repeating(Graph *g, Value *v, Expr **each)
{
    const int batch = v->rank - 2;
    if (batch < 1) return NULL;
    Op *swap = made_by(v, OP_transpose);
    if (swap) { /* of the matrices themselves */
        const int64_t *axes = op_ints(swap, ATTR_axes, NULL);
        for (int i = 0; i < batch; i++)
            if (axes[i] != i) return NULL;
        Value *once = before_repeating(g, swap->in[0], each);
        return once ? b_swap_last(g, once) : NULL;
    }
    Op *merge = made_by(v, OP_reshape), *stretch = made_by(merge ? merge->in[0] : v, OP_broadcast);
    if (!stretch) return NULL;
    const Value *wide = stretch->out[0];
    Value *from = stretch->in[0];
    int axis = merge ? batch : batch - 1, n; /* that was stretched */
    if (merge) {
        if (wide->rank != v->rank + 1) return NULL;
        for (int i = 0; i < v->rank; i++) {
            Expr *was = i == batch - 1 ? expr_mul(g->symbols, wide->shape[i], wide->shape[batch]) : wide->shape[i + (i >= batch)];
            if (!expr_always_equal(g->symbols, was, v->shape[i])) return NULL;
        }
    }
    const int64_t *axes = op_ints(stretch, ATTR_axes, &n);
    Expr **shape = NEW_ARRAY(g->arena, Expr *, wide->rank);
    int kept = 0, expected = 0;
    for (int i = 0; i < wide->rank; i++)
        if (i != axis) shape[kept++] = wide->shape[i];
    for (int i = 0; i < n; i++) {
        if (axes[i] == axis) {
            if (!expr_is(from->shape[i], 1)) return NULL;
            continue;
        }
        if (expected == axis) expected++;
        if (axes[i] != expected++ || !expr_always_equal(g->symbols, from->shape[i], wide->shape[axes[i]])) return NULL;
    }
    if (expected != wide->rank) return NULL;
    *each = wide->shape[axis];
    return b_reshape(g, from, kept, shape);
}

/* Factors of queries and keys become factors of the scores. */
static Value *without_factor(Attend *a, Value *v)
{
    for (double x; v->def; v = v->def->in[0]) {
        if (v->def->kind == OP_mul && value_is_scalar_constant(v->def->in[1], &x))
            a->factor *= x;
        else if (v->def->kind == OP_mul && value_is_scalar_constant(v->def->in[0], &x)) {
            a->factor *= x;
            v = v->def->in[1];
            return without_factor(a, v);
        } else if (v->def->kind == OP_div && value_is_scalar_constant(v->def->in[1], &x) && x != 0)
            a->factor /= x;
        else
            break;
    }
    return v;
}

static bool same_batch(Graph *g, const Value *a, const Value *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank - 2; i++)
        if (!expr_always_equal(g->symbols, a->shape[i], b->shape[i])) return false;
    return true;
}

/* Fills q, k, v: as attention takes them. */
static bool find_operands(Attend *a)
{
    Graph *g = a->g;
    Value *q = without_factor(a, a->scores->in[0]), *k = without_factor(a, a->scores->in[1]), *v = a->product->in[1];
    Expr *k_each = NULL, *v_each = NULL, *m = a->masked->shape[a->masked->rank - 2], *each = NULL;
    if (op_int(a->scores, ATTR_trans_a)) q = b_swap_last(g, q);
    if (!op_int(a->scores, ATTR_trans_b)) k = b_swap_last(g, k);
    if (op_int(a->product, ATTR_trans_b)) v = b_swap_last(g, v);
    if (!same_batch(g, k, v)) return attend_no(a, "keys and values have other batch dims");
    Expr *rows = q->shape[q->rank - 2];
    if (!expr_always_equal(g->symbols, rows, m)) {
        each = expr_divide_exactly(g->symbols, rows, m);
        if (!each) return attend_no(a, "rows of the scores are no whole number of queries");
    } else {
        Value *once_k = before_repeating(g, k, &k_each), *once_v = before_repeating(g, v, &v_each);
        if (once_k && once_v && same_batch(g, once_k, once_v) && expr_always_equal(g->symbols, k_each, v_each))
            k = once_k, v = once_v, each = k_each;
    }
    if (each && !expr_is(each, 1)) {
        const int batch = k->rank - 2;
        Expr **shape = NEW_ARRAY(g->arena, Expr *, batch + 3);
        for (int i = 0; i < batch; i++) shape[i] = k->shape[i];
        shape[batch] = each, shape[batch + 1] = m, shape[batch + 2] = q->shape[q->rank - 1];
        q = b_reshape(g, q, batch + 3, shape);
    }
    a->q = q, a->k = k, a->v = v;
    return true;
}

static bool sizes_fit(Attend *a)
{
    const Value *in[] = {a->scores->in[0], a->product->in[1]};
    int64_t size;
    if (a->product->out[0]->dtype != DTYPE_f32 && a->product->out[0]->dtype != DTYPE_f64)
        return attend_no(a, "its numbers are neither f32 nor f64");
    for (int i = 0; i < 2; i++) {
        const bool turned = op_int(i ? a->product : a->scores, i ? ATTR_trans_b : ATTR_trans_a);
        if (!expr_is_int(in[i]->shape[in[i]->rank - 1 - turned], &size) || size < 1 ||
            size * dtype_bytes(a->product->out[0]->dtype) > ATTENTION_BYTES_MAX)
            return attend_no(a, "the size of a head is not fixed, or above 1024 bytes");
    }
    return true;
}

/* ---- readers ---- */
static bool holds(const Ops *ops, const Op *op)
{
    for (int i = 0; i < ops->n; i++)
        if (ops->at[i] == op) return true;
    return false;
}

static bool read_elsewhere(const Attend *a, const Value *v)
{
    for (int i = 0; i < v->users.n; i++)
        if (v->users.at[i] != a->product && !holds(&a->ops, v->users.at[i])) return true;
    return graph_is_output(a->g, v);
}

/* Whatever depends on the scores is read by what becomes attention alone. */
static bool readers_fit(Attend *a)
{
    if (read_elsewhere(a, a->scores->out[0])) return attend_no(a, "its scores are read elsewhere");
    for (int i = 0; i < a->ops.n; i++) {
        const Op *op = a->ops.at[i];
        if (a->depends[op->out[0]->id] == SCORES && read_elsewhere(a, op->out[0]))
            return attend_no(a, "its scores are read elsewhere");
    }
    for (const Value *p = a->product->in[0]; p != a->masked && p->def && holds(&a->ops, p->def);) {
        if (read_elsewhere(a, p)) return attend_no(a, "its probabilities are read elsewhere");
        p = p->def->kind == OP_select ? p->def->in[1] : p->def->in[0];
    }
    return true;
}

/* ---- the pass ---- */
typedef struct {
    Buf *report;
    const bool *wanted;
    int values;
} Recognise;

static void tell(const Recognise *r, const Op *product, const Attend *a, const Op *made)
{
    if (!r->report) return;
    if (!made) {
        buf_printf(r->report, "# \"%s\" left as it is: %s\n", product->source, a->why);
        return;
    }
    buf_printf(r->report, "# \"%s\" is attention: %d operations on scores, %d captures%s%s\n", product->source, made->body[0]->ops.n,
               made->n_in - ATTENTION_CAPTURES, made->in[0]->rank > made->in[1]->rank ? ", queries share keys" : "",
               a->allowed ? ", rows may be empty" : "");
}

/* softmax(x w) u is a network of two layers. */
static bool is_weight(const Value *v)
{
    while (v->def && (v->def->kind == OP_reshape || v->def->kind == OP_transpose || v->def->kind == OP_broadcast)) v = v->def->in[0];
    return v->origin == FROM_WEIGHT;
}

static Op *attention_at(Attend *a, Arena *scratch)
{
    const int values = a->g->next_value + 1;
    bool random = false;
    if (!find_softmax(a)) {
        if (near_softmax(a->product->in[0], 6, &random))
            attend_no(a, random ? "a dropout of its probabilities is drawn" : "something else is done to its probabilities");
        return NULL;
    }
    a->depends = NEW_ARRAY(scratch, uint8_t, values);
    a->pure = NEW_ARRAY(scratch, uint8_t, values);
    a->inner = NEW_ARRAY(scratch, Value *, values);
    if (is_weight(a->product->in[1]) || !attend_find_scores(a) || is_weight(a->scores->in[1])) return NULL;
    if (!sizes_fit(a) || !find_operands(a)) return NULL;
    Graph *body = attend_body(a);
    if (!body || !readers_fit(a)) return NULL;
    return b_attention(a->g, body, a->q, a->k, a->v, a->captures.at, a->captures.n);
}

static bool recognise(Graph *g, Op *op, Value **by, void *context)
{
    const Recognise *r = context;
    if (op->kind != OP_dot) return false;
    Arena *scratch = arena_new();
    Attend a = {.g = g, .product = op, .factor = 1, .wanted = r->wanted, .values = r->values};
    Op *attention = attention_at(&a, scratch);
    arena_free(scratch);
    if (a.why || attention) tell(r, op, &a, attention);
    if (!attention) return false;
    by[0] = b_reshape(g, attention->out[0], op->out[0]->rank, op->out[0]->shape);
    return true;
}

void pass_recognise(Graph *g, Buf *report)
{
    bool *wanted = NEW_ARRAY(g->arena, bool, g->next_value + 1);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        wanted[v->id] = v->origin == FROM_WEIGHT && v->tensor->trainable && !v->tensor->statistics && dtype_is_float(v->dtype);
    }
    backward_mark(g, g->ops.n, wanted);
    Recognise r = {report, strcmp(g->name, "train") == 0 ? wanted : NULL, g->next_value};
    rewrite(g, recognise, &r, false);
    graph_prune(g);
}
