/* Equal operations become one; views of views become one view; a transposed product is one of transposes; a slice of a product's rows becomes the product of fewer rows; what
 * nobody needs goes.
 *
 *     %3 = reshape %1            [batch*seq, 64]        %3 = reshape %1
 *     %4 = reshape %3            [batch, seq, 64]  ->   (uses of %4 and %5 read %1)
 *     %5 = transpose (transpose %1)
 *
 * Needs: nothing (run before recognise, and after decompose when all is there).  Breaks: nothing.  Near linear: a hash for each
 * operation, a few rounds. */
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/diag.h"
#include <string.h>

enum { MOST_AXES = 32, MOST_ROUNDS = 8 };

/* ---- views of views ---- */
static Value *inner(const Value *v, OpKind kind)
{
    return v->def && v->def->kind == kind ? v->def->in[0] : NULL;
}

/* The axes of `with` that hold what `without` has, which is the same shape but for ones: (n, 1, m) and (n, m) give 0, 2.
 * False where they differ in more, or where ones leave it open. */
static bool axes_without_ones(const Value *with, const Value *without, int64_t *axes)
{
    int n = 0;
    for (int i = 0; i < with->rank; i++) {
        if (expr_is(with->shape[i], 1)) continue;
        if (n == without->rank || with->shape[i] != without->shape[n]) return false;
        axes[n++] = i;
    }
    return n == without->rank;
}

/* broadcast (reshape x), where the reshape only adds ones, reads x itself. */
static Value *broadcast_of_view(Graph *g, const Op *op)
{
    Value *a = op->in[0], *y = op->out[0], *x = inner(a, OP_reshape);
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    int64_t places[MOST_AXES];
    if (inner(a, OP_broadcast)) return b_broadcast(g, a, axes, y->rank, y->shape);
    if (!x || !axes_without_ones(a, x, places)) return NULL;
    for (int i = 0; i < x->rank; i++) places[i] = axes[places[i]];
    return b_broadcast(g, x, places, y->rank, y->shape);
}

/* reshape (broadcast x): of one element in any shape; or where only ones are dropped or added. */
static Value *reshape_of_view(Graph *g, const Op *op)
{
    Value *a = op->in[0], *y = op->out[0], *x = inner(a, OP_broadcast);
    if (inner(a, OP_reshape)) return b_reshape(g, a, y->rank, y->shape);
    if (!x) return NULL;
    if (x->rank == 0) return b_broadcast_to(g, x, y->rank, y->shape);
    const int64_t *axes = op_ints(a->def, ATTR_axes, NULL);
    int64_t of_y[MOST_AXES], moved[MOST_AXES], to[MOST_AXES];
    int n = 0;
    for (int i = 0; i < a->rank; i++) /* axis i of a is axis to[i] of y; ones of a are nowhere */
        to[i] = expr_is(a->shape[i], 1) ? -1 : n++;
    Value squeezed = *a;
    Expr *shape[MOST_AXES];
    squeezed.rank = 0;
    squeezed.shape = shape;
    for (int i = 0; i < a->rank; i++)
        if (to[i] >= 0) shape[squeezed.rank++] = a->shape[i];
    if (!axes_without_ones(y, &squeezed, of_y)) return NULL;
    for (int i = 0; i < x->rank; i++) {
        if (to[axes[i]] < 0) return NULL;
        moved[i] = of_y[to[axes[i]]];
    }
    return b_broadcast(g, x, moved, y->rank, y->shape);
}

static bool only_reader(const Graph *g, const Value *v)
{
    return v->users.n == 1 && !graph_is_output(g, v);
}

/* A product that stands for `dot` or a part of it: of its dtype, which may be wider than its operands'. */
static Value *dot_like(Graph *g, const Op *dot, Value *a, Value *b, bool trans_a, bool trans_b)
{
    Value *v = b_dot(g, a, b, trans_a, trans_b);
    v->dtype = dot->out[0]->dtype;
    return v;
}

/* The transpose of a product that nobody else reads is the product of the transposes, the other way round. */
static Value *transpose_of_dot(Graph *g, const Op *op)
{
    const Value *a = op->in[0];
    const Op *dot = a->def;
    const int64_t *axes = op_ints(op, ATTR_axes, NULL), last = a->rank - 1;
    if (!only_reader(g, a) || axes[last] != last - 1) return NULL;
    for (int i = 0; i < last - 1; i++)
        if (axes[i] != i) return NULL;
    return dot_like(g, dot, dot->in[1], dot->in[0], !op_int(dot, ATTR_trans_b), !op_int(dot, ATTR_trans_a));
}

/* transpose (broadcast x), where x's axes stay in order. */
static Value *transpose_of_view(Graph *g, const Op *op)
{
    Value *a = op->in[0], *y = op->out[0], *x = inner(a, OP_broadcast);
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    if (inner(a, OP_transpose)) return b_transpose(g, a, axes);
    if (inner(a, OP_dot)) return transpose_of_dot(g, op);
    if (!x) return NULL;
    const int64_t *before = op_ints(a->def, ATTR_axes, NULL);
    int64_t to[MOST_AXES], moved[MOST_AXES];
    for (int i = 0; i < y->rank; i++) to[axes[i]] = i;
    for (int i = 0; i < x->rank; i++) {
        moved[i] = to[before[i]];
        if (i && moved[i] < moved[i - 1]) return NULL;
    }
    return b_broadcast(g, x, moved, y->rank, y->shape);
}

static bool takes_whole(const Graph *g, const Op *slice, int axis)
{
    return expr_is(op_exprs(slice, ATTR_start, NULL)[axis], 0) && op_ints(slice, ATTR_step, NULL)[axis] == 1 &&
           expr_always_equal(g->symbols, slice->in[0]->shape[axis], slice->out[0]->shape[axis]);
}

/* slice (broadcast x) is a broadcast of x, or of a slice of it. */
static Value *broadcast_of_slice(Graph *g, const Op *op)
{
    const Op *broadcast = op->in[0]->def;
    Value *x = broadcast->in[0];
    const int64_t *axes = op_ints(broadcast, ATTR_axes, NULL), *steps = op_ints(op, ATTR_step, NULL);
    Expr *const *starts = op_exprs(op, ATTR_start, NULL), *start[MOST_AXES], *shape[MOST_AXES];
    int64_t step[MOST_AXES];
    bool whole = true;
    for (int i = 0; i < x->rank; i++) {
        const bool all = expr_is(x->shape[i], 1) || takes_whole(g, op, (int)axes[i]);
        start[i] = all ? expr_int(g->symbols, 0) : starts[axes[i]];
        step[i] = all ? 1 : steps[axes[i]];
        shape[i] = all ? x->shape[i] : op->out[0]->shape[axes[i]];
        whole = whole && all;
    }
    return b_broadcast(g, whole ? x : b_slice(g, x, start, step, shape), axes, op->out[0]->rank, op->out[0]->shape);
}

/* The slice of v, which `slice` cuts, taken of the rows of the product that v comes of: scores of all tokens but the last are those
 * tokens' product.  NULL where v comes of none, or others want it whole. */
static Value *rows_before_dot(Graph *g, Value *v, const Op *slice)
{
    const Value *y = slice->out[0];
    const int lead = y->rank - 1;
    Symbols *s = g->symbols;
    if (!only_reader(g, v) || v->rank < 2 || !v->def) return NULL;
    const Op *dot = v->def->kind == OP_reshape ? v->def->in[0]->def : NULL;
    if (dot && dot->kind == OP_dot && only_reader(g, dot->out[0]) && dot->out[0]->rank == 2 && !op_int(dot, ATTR_trans_a)) {
        Value *a = dot->in[0];
        Expr *m = dot->out[0]->shape[0], *n = dot->out[0]->shape[1], *k = a->shape[1], *shape[MOST_AXES];
        if (!takes_whole(g, slice, lead) || !expr_always_equal(s, v->shape[lead], n) ||
            !expr_always_equal(s, expr_product(s, v->shape, lead), m) || expr_likely(s, k) > expr_likely(s, n))
            return NULL;
        for (int i = 0; i < lead; i++) shape[i] = v->shape[i];
        shape[lead] = k;
        Value *rows = b_reshape(g, a, y->rank, shape);
        for (int i = 0; i < lead; i++) shape[i] = y->shape[i];
        rows = b_slice(g, rows, op_exprs(slice, ATTR_start, NULL), op_ints(slice, ATTR_step, NULL), shape);
        Expr *flat[] = {expr_product(s, shape, lead), k};
        return b_reshape(g, dot_like(g, dot, b_reshape(g, rows, 2, flat), dot->in[1], false, op_int(dot, ATTR_trans_b)), y->rank, y->shape);
    }
    if (op_info(v->def->kind)->class != ELEMENTWISE) return NULL;
    Value *in[3] = {NULL};
    bool any = false;
    for (int i = 0; i < v->def->n_in && !any; i++) any = (in[i] = rows_before_dot(g, v->def->in[i], slice)) != NULL;
    if (!any) return NULL;
    for (int i = 0; i < v->def->n_in; i++)
        if (!in[i]) in[i] = b_slice(g, v->def->in[i], op_exprs(slice, ATTR_start, NULL), op_ints(slice, ATTR_step, NULL), y->shape);
    Op *op = graph_op(g, v->def->kind, in, v->def->n_in, 1);
    return op_result(g, op, 0, v->dtype, y->rank, y->shape);
}

static Value *dot_of_slice(Graph *g, const Op *op)
{
    return op->in[0]->rank <= MOST_AXES ? rows_before_dot(g, op->in[0], op) : NULL;
}

static Value *slice_of_view(Graph *g, const Op *op)
{
    Value *a = op->in[0], *y = op->out[0], *x = inner(a, OP_broadcast);
    if (x && x->rank == 0) return b_broadcast_to(g, x, y->rank, y->shape);
    if (x) return broadcast_of_slice(g, op);
    if (!(x = inner(a, OP_slice))) return dot_of_slice(g, op);
    Expr *const *start = op_exprs(op, ATTR_start, NULL), *const *before = op_exprs(a->def, ATTR_start, NULL);
    const int64_t *step = op_ints(op, ATTR_step, NULL), *step_before = op_ints(a->def, ATTR_step, NULL);
    Expr *starts[MOST_AXES];
    int64_t steps[MOST_AXES];
    for (int i = 0; i < a->rank; i++) {
        starts[i] = expr_add(g->symbols, before[i], expr_mul(g->symbols, expr_int(g->symbols, step_before[i]), start[i]));
        steps[i] = step_before[i] * step[i];
    }
    return b_slice(g, x, starts, steps, y->shape);
}

/* There and back through a wider type of the same sort: f32 to f64 to f32, i32 to i64 to i32. */
static Value *cast_of_cast(Graph *g, const Op *op)
{
    Value *a = op->in[0], *x = inner(a, OP_cast);
    (void)g;
    if (!x || x->dtype != op->out[0]->dtype || x->dtype == DTYPE_bool || a->dtype == DTYPE_bool) return NULL;
    bool same_sort = dtype_is_float(x->dtype) == dtype_is_float(a->dtype) && dtype_is_signed(x->dtype) == dtype_is_signed(a->dtype);
    return same_sort && dtype_bytes(a->dtype) > dtype_bytes(x->dtype) ? x : NULL;
}

/* The transpose's operand with its contiguous axis last, where the dot can read it the other way round: no copy, or one that is
 * copied in runs.  NULL where it lies well. */
static Value *untransposed(Graph *g, Value *v)
{
    Value *a = inner(v, OP_transpose);
    if (!a) return NULL;
    const int64_t *axes = op_ints(v->def, ATTR_axes, NULL), last = a->rank - 1;
    int64_t swapped[MOST_AXES];
    if (axes[last - 1] != last) return NULL;
    for (int i = 0; i < a->rank; i++) swapped[i] = axes[i];
    swapped[last - 1] = axes[last];
    swapped[last] = axes[last - 1];
    return b_transpose(g, a, swapped);
}

static Value *dot_of_transpose(Graph *g, const Op *op)
{
    Value *a = untransposed(g, op->in[0]), *b = untransposed(g, op->in[1]);
    if (!a && !b) return NULL;
    const bool ta = op_int(op, ATTR_trans_a), tb = op_int(op, ATTR_trans_b);
    return dot_like(g, op, a ? a : op->in[0], b ? b : op->in[1], a ? !ta : ta, b ? !tb : tb);
}

static bool merge_views(Graph *g, Op *op, Value **by, void *context)
{
    (void)context;
    switch (op->kind) {
    case OP_broadcast: by[0] = broadcast_of_view(g, op); break;
    case OP_reshape: by[0] = reshape_of_view(g, op); break;
    case OP_transpose: by[0] = transpose_of_view(g, op); break;
    case OP_slice: by[0] = slice_of_view(g, op); break;
    case OP_cast: by[0] = cast_of_cast(g, op); break;
    case OP_dot: by[0] = dot_of_transpose(g, op); break;
    default: break;
    }
    return by[0] != NULL;
}

/* ---- equal operations ---- */
typedef struct {
    Op **slot; /* open addressing */
    uint64_t *hash;
    uint64_t mask;
} Seen;

static uint64_t mix(uint64_t hash, uint64_t more)
{
    hash ^= more + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdu;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ b[i]) * 0x100000001b3u;
    return mix(hash, n);
}

static uint64_t hash_attr(uint64_t h, const Attr *a)
{
    h = mix(mix(h, a->key), (uint64_t)a->n);
    switch (attr_kind(a->key)) {
    case ATTR_INT: return mix(h, (uint64_t)a->i);
    case ATTR_INTS: return mix_bytes(h, a->ints, sizeof *a->ints * (size_t)a->n);
    case ATTR_EXPRS: return mix_bytes(h, a->exprs, sizeof *a->exprs * (size_t)a->n);
    case ATTR_TEXT: return mix_bytes(h, a->text, strlen(a->text));
    case ATTR_DATA: return mix_bytes(h, a->data, (size_t)a->n);
    }
    return h;
}

static uint64_t hash_op(const Op *op)
{
    uint64_t h = mix((uint64_t)op->kind, (uint64_t)op->n_in);
    for (int i = 0; i < op->n_in; i++) h = mix(h, (uint64_t)op->in[i]->id);
    for (int i = 0; i < op->n_attrs; i++) h = hash_attr(h, &op->attrs[i]);
    for (int i = 0; i < op->n_out; i++) {
        const Value *v = op->out[i];
        h = mix_bytes(mix(mix(h, v->dtype), (uint64_t)v->rank), v->shape, sizeof *v->shape * (size_t)v->rank);
    }
    return h;
}

static bool same_bytes(const void *a, const void *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

static bool same_attr(const Attr *a, const Attr *b)
{
    if (a->key != b->key || a->n != b->n) return false;
    switch (attr_kind(a->key)) {
    case ATTR_INT: return a->i == b->i;
    case ATTR_INTS: return same_bytes(a->ints, b->ints, sizeof *a->ints * (size_t)a->n);
    case ATTR_EXPRS: return same_bytes(a->exprs, b->exprs, sizeof *a->exprs * (size_t)a->n); /* interned */
    case ATTR_TEXT: return strcmp(a->text, b->text) == 0;
    case ATTR_DATA: return same_bytes(a->data, b->data, (size_t)a->n);
    }
    return false;
}

static bool same_op(const Op *a, const Op *b)
{
    if (a->kind != b->kind || a->n_in != b->n_in || a->n_attrs != b->n_attrs || a->n_out != b->n_out) return false;
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i] != b->in[i]) return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (!same_attr(&a->attrs[i], &b->attrs[i])) return false;
    for (int i = 0; i < a->n_out; i++) {
        const Value *v = a->out[i], *w = b->out[i];
        if (v->dtype != w->dtype || v->rank != w->rank || !same_bytes(v->shape, w->shape, sizeof *v->shape * (size_t)v->rank))
            return false;
    }
    return true;
}

static Seen seen_new(Arena *scratch, const Graph *g)
{
    uint64_t room = 16;
    while (room < 2 * (uint64_t)g->ops.n + 2) room *= 2;
    return (Seen){NEW_ARRAY(scratch, Op *, room), NEW_ARRAY(scratch, uint64_t, room), room - 1};
}

static bool merge_equal(Graph *g, Op *op, Value **by, void *context)
{
    (void)g;
    Seen *seen = context;
    OpClass class = op_info(op->kind)->class;
    if (class == EFFECT || class == REGION || class == ATTENTION || class == LATE) return false;
    if (class == ELEMENTWISE && op->out[0]->rank && strcmp(op->role, "optimizer") == 0) return false; /* an update is one kernel */
    uint64_t hash = hash_op(op), at = hash & seen->mask;
    for (; seen->slot[at]; at = (at + 1) & seen->mask) {
        if (seen->hash[at] != hash || !same_op(seen->slot[at], op)) continue;
        for (int i = 0; i < op->n_out; i++) by[i] = seen->slot[at]->out[i];
        return true;
    }
    seen->slot[at] = op;
    seen->hash[at] = hash;
    return false;
}

static int merge_equals(Graph *g)
{
    int merged = 0;
    Arena *scratch = arena_new();
    Seen seen = seen_new(scratch, g);
    for (int o = 0; o < g->ops.n; o++)
        for (int k = 0; k < 2 && g->ops.at[o]->body[k]; k++) merged += merge_equals(g->ops.at[o]->body[k]);
    merged += rewrite(g, merge_equal, &seen, false);
    arena_free(scratch);
    return merged;
}

/* ---- constants of loops ---- */
/* A matrix that every step of a scan multiplies by: only as the right operand, transposed. */
static bool is_transposed_each_step(const Value *v)
{
    if (v->rank != 2 || v->users.n == 0) return false;
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        if (u->kind != OP_dot || u->in[1] != v || u->in[0] == v || op_int(u, ATTR_trans_b) != 1) return false;
    }
    return true;
}

/* It is transposed once, before the loop: a product of few rows then reads it as it lies. */
static bool transpose_before_scans(Graph *g)
{
    static const int64_t exchange[] = {1, 0};
    const int n = g->ops.n;
    bool changed = false;
    for (int o = 0; o < n; o++) {
        Op *op = g->ops.at[o];
        if (op->kind != OP_scan) continue;
        Graph *body = op->body[0];
        for (int i = (int)(op_int(op, ATTR_carries) + op_int(op, ATTR_slices)); i < op->n_in; i++) {
            Value *inside = body->inputs.at[i];
            if (graph_is_output(body, inside) || !is_transposed_each_step(inside)) continue;
            for (int u = 0; u < inside->users.n; u++) op_set_int(body, inside->users.at[u], ATTR_trans_b, 0);
            Expr *const shape[] = {inside->shape[1], inside->shape[0]};
            inside->shape[0] = shape[0], inside->shape[1] = shape[1];
            g->source = op->source, g->role = op->role;
            op_set_operand(g, op, i, b_transpose(g, op->in[i], exchange));
            changed = true;
        }
    }
    if (changed) graph_sort(g);
    return changed;
}

void pass_simplify(Graph *g)
{
    for (int round = 0, changed = 1; changed && round < MOST_ROUNDS; round++) {
        const int before = round ? g->ops.n : -1;
        changed = rewrite(g, merge_views, NULL, true);
        changed += merge_equals(g);
        if (changed || g->ops.n != before) graph_prune(g);
    }
    if (transpose_before_scans(g)) graph_prune(g);
}
