/* The verifier's second half: each operation's result shapes follow from its operands and attributes, and bodies fit their
 * operation. */
#include "ir/verify_private.h"
#include <string.h>

enum { MOST_AXES = 32 };

static void same_dim(const Verify *v, const Op *op, const char *what, Expr *a, Expr *b)
{
    if (!expr_always_equal(v->g->symbols, a, b))
        verify_wrong(v, op, "%s: %s, wanted %s", what, expr_text(v->g->arena, a), expr_text(v->g->arena, b));
}

static void rank_is(const Verify *v, const Op *op, const Value *value, int rank)
{
    if (value->rank != rank) verify_wrong(v, op, "%%%d has rank %d, wanted %d", value->id, value->rank, rank);
}

void verify_same_shape(const Verify *v, const Op *op, const Value *a, const Value *b)
{
    rank_is(v, op, a, b->rank);
    for (int i = 0; i < a->rank; i++) same_dim(v, op, "shapes differ", a->shape[i], b->shape[i]);
}

static int axis_of(const Verify *v, const Op *op)
{
    int64_t axis = op_int(op, ATTR_axis);
    int rank = op->n_in ? op->in[0]->rank : op->out[0]->rank;
    if (axis < 0 || axis >= rank) verify_wrong(v, op, "axis %d of rank %d", (int)axis, rank);
    return (int)axis;
}

static void count_is(const Verify *v, const Op *op, AttrKey key, int wanted)
{
    const Attr *a = op_attr(op, key);
    if (a->n != wanted) verify_wrong(v, op, "%s has %d items, wanted %d", attr_name(key), a->n, wanted);
}

/* ---- sources ---- */
static void verify_source(const Verify *v, const Op *op)
{
    const Value *out = op->out[0];
    if (op->kind == OP_constant) {
        int64_t count;
        if (!expr_is_int(value_count(v->g, out), &count)) verify_wrong(v, op, "a constant of unknown size");
        if (op_attr(op, ATTR_data)->n != count * dtype_bytes(out->dtype))
            verify_wrong(v, op, "%d bytes of data for %d elements", op_attr(op, ATTR_data)->n, (int)count);
    } else if (op->kind == OP_iota) {
        axis_of(v, op);
    } else if (op->kind == OP_dims) {
        if (out->rank > 1) verify_wrong(v, op, "rank %d", out->rank);
        same_dim(v, op, "size", value_count(v->g, out), expr_int(v->g->symbols, op_attr(op, ATTR_content)->n));
    }
}

/* ---- index ---- */
static void verify_broadcast(const Verify *v, const Op *op)
{
    const Value *a = op->in[0], *out = op->out[0];
    count_is(v, op, ATTR_axes, a->rank);
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    for (int i = 0; i < a->rank; i++) {
        if (axes[i] < 0 || axes[i] >= out->rank || (i && axes[i] <= axes[i - 1]))
            verify_wrong(v, op, "axes do not rise inside the result");
        if (!expr_is(a->shape[i], 1)) same_dim(v, op, "a dim that is kept", a->shape[i], out->shape[axes[i]]);
    }
}

static void verify_transpose(const Verify *v, const Op *op)
{
    const Value *a = op->in[0], *out = op->out[0];
    bool seen[MOST_AXES] = {false};
    count_is(v, op, ATTR_axes, a->rank);
    rank_is(v, op, out, a->rank);
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    for (int i = 0; i < a->rank; i++) {
        if (axes[i] < 0 || axes[i] >= a->rank || seen[axes[i]]) verify_wrong(v, op, "axes are no permutation");
        seen[axes[i]] = true;
        same_dim(v, op, "a moved dim", out->shape[i], a->shape[axes[i]]);
    }
}

static void verify_steps(const Verify *v, const Op *op)
{
    int rank = op->in[0]->rank;
    rank_is(v, op, op->out[0], rank);
    count_is(v, op, ATTR_start, rank);
    count_is(v, op, ATTR_step, rank);
    for (int i = 0; i < rank; i++)
        if (op_ints(op, ATTR_step, NULL)[i] == 0) verify_wrong(v, op, "step 0");
    if (op->kind == OP_pad) rank_is(v, op, op->in[1], 0);
}

static void verify_concat(const Verify *v, const Op *op)
{
    if (op->n_in == 0) verify_wrong(v, op, "nothing to join");
    int axis = axis_of(v, op);
    const Value *out = op->out[0];
    Expr *size = expr_int(v->g->symbols, 0);
    for (int p = 0; p < op->n_in; p++) {
        rank_is(v, op, op->in[p], out->rank);
        for (int i = 0; i < out->rank; i++)
            if (i != axis) same_dim(v, op, "a dim of a part", op->in[p]->shape[i], out->shape[i]);
        size = expr_add(v->g->symbols, size, op->in[p]->shape[axis]);
    }
    same_dim(v, op, "the joined dim", out->shape[axis], size);
}

/* picked is base with the dim at axis replaced by the index's dims. */
static void verify_picked(const Verify *v, const Op *op, const Value *base, const Value *index, const Value *picked)
{
    int axis = axis_of(v, op);
    rank_is(v, op, picked, base->rank - 1 + index->rank);
    for (int i = 0; i < picked->rank; i++) {
        bool in_index = i >= axis && i < axis + index->rank;
        Expr *wanted = i < axis ? base->shape[i] : in_index ? index->shape[i - axis] : base->shape[i - index->rank + 1];
        same_dim(v, op, "a dim", picked->shape[i], wanted);
    }
}

static void verify_index(const Verify *v, const Op *op)
{
    switch (op->kind) {
    case OP_broadcast: verify_broadcast(v, op); return;
    case OP_transpose: verify_transpose(v, op); return;
    case OP_slice:
    case OP_pad: verify_steps(v, op); return;
    case OP_concat: verify_concat(v, op); return;
    case OP_gather: verify_picked(v, op, op->in[0], op->in[1], op->out[0]); return;
    case OP_reshape: same_dim(v, op, "elements", value_count(v->g, op->out[0]), value_count(v->g, op->in[0])); return;
    default: bug("verify: %s", op_info(op->kind)->name);
    }
}

/* ---- reduce and sort ---- */
static void verify_reduce(const Verify *v, const Op *op)
{
    const Value *a = op->in[0], *out = op->out[0];
    bool gone[MOST_AXES] = {false};
    bool arg = op->kind == OP_arg_max || op->kind == OP_arg_min;
    int n = 1, kept = 0;
    int64_t axis = arg ? axis_of(v, op) : 0;
    const int64_t *axes = arg ? &axis : op_ints(op, ATTR_axes, &n);
    for (int i = 0; i < n; i++) {
        if (axes[i] < 0 || axes[i] >= a->rank || gone[axes[i]]) verify_wrong(v, op, "axes outside the operand, or twice");
        gone[axes[i]] = true;
    }
    rank_is(v, op, out, a->rank - n);
    for (int i = 0; i < a->rank; i++)
        if (!gone[i]) same_dim(v, op, "a dim that is kept", out->shape[kept++], a->shape[i]);
}

static void verify_sort(const Verify *v, const Op *op)
{
    int axis = axis_of(v, op);
    verify_same_shape(v, op, op->out[0], op->out[1]);
    rank_is(v, op, op->out[0], op->in[0]->rank);
    for (int i = 0; i < op->in[0]->rank; i++)
        if (i != axis) same_dim(v, op, "a dim that is kept", op->out[0]->shape[i], op->in[0]->shape[i]);
}

static void verify_late(const Verify *v, const Op *op)
{
    if (op->kind == OP_nonzero) {
        rank_is(v, op, op->out[0], 2);
        rank_is(v, op, op->out[1], 0);
        same_dim(v, op, "rows of indices", op->out[0]->shape[0], expr_int(v->g->symbols, op->in[0]->rank));
        return;
    }
    rank_is(v, op, op->in[0], 1);
    verify_same_shape(v, op, op->out[0], op->out[1]);
    verify_same_shape(v, op, op->out[0], op->out[3]);
    verify_same_shape(v, op, op->in[0], op->out[2]);
    rank_is(v, op, op->out[4], 0);
}

/* ---- contraction ---- */
static void verify_dot(const Verify *v, const Op *op)
{
    const Value *a = op->in[0], *b = op->in[1], *out = op->out[0];
    int batch = a->rank - 2, trans_a = op_int(op, ATTR_trans_a) != 0, trans_b = op_int(op, ATTR_trans_b) != 0;
    if (batch < 0) verify_wrong(v, op, "an operand of rank %d", a->rank);
    rank_is(v, op, b, a->rank);
    rank_is(v, op, out, a->rank);
    for (int i = 0; i < batch; i++) {
        same_dim(v, op, "a batch dim", a->shape[i], b->shape[i]);
        same_dim(v, op, "a batch dim", out->shape[i], a->shape[i]);
    }
    same_dim(v, op, "inner dims", a->shape[batch + !trans_a], b->shape[batch + trans_b]);
    same_dim(v, op, "rows", out->shape[batch], a->shape[batch + trans_a]);
    same_dim(v, op, "columns", out->shape[batch + 1], b->shape[batch + !trans_b]);
    if (op->kind == OP_dot_add) verify_same_shape(v, op, op->in[2], out);
}

/* y is what windows over x give; channels aside. */
static void verify_windows(const Verify *v, const Op *op, const Value *x, const Value *y)
{
    int spatial = x->rank - 2;
    bool pool = op_info(op->kind)->class == POOL;
    const AttrKey keys[] = {ATTR_stride, ATTR_dilation, ATTR_low, ATTR_high, ATTR_window};
    if (spatial < 1 || spatial > 6) verify_wrong(v, op, "rank %d", x->rank);
    for (int i = 0; i < (pool ? 5 : 4); i++) count_is(v, op, keys[i], spatial);
    rank_is(v, op, y, x->rank);
    same_dim(v, op, "the batch dim", y->shape[0], x->shape[0]);
    Window win = op_window(op);
    for (int i = 0; i < spatial; i++)
        same_dim(v, op, "a spatial dim", y->shape[i + 2], window_output((Graph *)v->g, x->shape[i + 2], &win, i, win.window[i]));
}

static void verify_conv(const Verify *v, const Op *op)
{
    const Value *x = op->kind == OP_conv ? op->in[0] : op->kind == OP_conv_grad_input ? op->out[0] : op->in[1];
    const Value *w = op->kind == OP_conv_grad_weight ? op->out[0] : op->in[1];
    const Value *y = op->kind == OP_conv ? op->out[0] : op->in[0];
    rank_is(v, op, w, x->rank);
    verify_windows(v, op, x, y);
    same_dim(v, op, "outgoing channels", y->shape[1], w->shape[0]);
    Expr *channels = expr_mul(v->g->symbols, w->shape[1], expr_int(v->g->symbols, op_int(op, ATTR_groups)));
    same_dim(v, op, "incoming channels", x->shape[1], channels);
}

static void verify_pool(const Verify *v, const Op *op)
{
    bool gradient = op->kind == OP_pool_max_grad || op->kind == OP_pool_sum_grad;
    const Value *x = gradient ? op->out[0] : op->in[0], *y = gradient ? op->in[0] : op->out[0];
    verify_windows(v, op, x, y);
    same_dim(v, op, "channels", y->shape[1], x->shape[1]);
    if (op->kind == OP_pool_max) verify_same_shape(v, op, op->out[1], y);
    if (op->kind == OP_pool_max_grad) verify_same_shape(v, op, op->in[1], y);
}

static void verify_scatter(const Verify *v, const Op *op)
{
    static const char *const modes[] = {"set", "add", "max", "min", "mul"};
    const char *mode = op_text(op, ATTR_mode);
    int m = 0;
    while (m < 5 && strcmp(modes[m], mode) != 0) m++;
    if (m == 5) verify_wrong(v, op, "mode \"%s\"", mode);
    verify_same_shape(v, op, op->out[0], op->in[0]);
    verify_picked(v, op, op->in[0], op->in[1], op->in[2]);
}

void verify_shape(const Verify *v, const Op *op)
{
    switch (op_info(op->kind)->class) {
    case SOURCE: verify_source(v, op); return;
    case INDEX: verify_index(v, op); return;
    case REDUCE: verify_reduce(v, op); return;
    case CUMULATIVE:
    case COMPOSITE:
        axis_of(v, op);
        verify_same_shape(v, op, op->out[0], op->in[0]);
        return;
    case SORT: verify_sort(v, op); return;
    case SCATTER: verify_scatter(v, op); return;
    case LATE: verify_late(v, op); return;
    case DOT: verify_dot(v, op); return;
    case CONV: verify_conv(v, op); return;
    case POOL: verify_pool(v, op); return;
    case ELEMENTWISE:
    case ATTENTION:
    case REGION:
    case EFFECT: return;
    }
}

/* ---- regions ---- */
static void same_type(const Verify *v, const Op *op, const Value *a, const Value *b)
{
    if (a->dtype != b->dtype)
        verify_wrong(v, op, "a body has %s where the operation has %s", dtype_name(a->dtype), dtype_name(b->dtype));
    verify_same_shape(v, op, a, b);
}

static void count_outside(const Verify *v, const Op *op, const char *what, int n, int wanted)
{
    if (n != wanted) verify_wrong(v, op, "%d %s, wanted %d", n, what, wanted);
}

/* inner is one step of outer: outer without its first dim, which is the length. */
static void same_slice(const Verify *v, const Op *op, const Value *inner, const Value *outer, Expr **length)
{
    Value step = *outer;
    if (outer->rank < 1) verify_wrong(v, op, "a slice of a scalar");
    if (*length) same_dim(v, op, "lengths", outer->shape[0], *length);
    *length = outer->shape[0];
    step.rank--;
    step.shape++;
    same_type(v, op, inner, &step);
}

static void verify_scan(const Verify *v, const Op *op)
{
    const Graph *body = op->body[0];
    int carries = (int)op_int(op, ATTR_carries), slices = (int)op_int(op, ATTR_slices);
    Expr *length = NULL;
    count_outside(v, op, "parameters of the body", body->inputs.n, op->n_in);
    count_outside(v, op, "outputs of the body", body->outputs.n, op->n_out);
    if (carries < 0 || slices < 0 || carries + slices > op->n_in || carries > op->n_out)
        verify_wrong(v, op, "too few operands or results");
    for (int i = 0; i < op->n_in; i++) {
        if (i >= carries && i < carries + slices)
            same_slice(v, op, body->inputs.at[i], op->in[i], &length);
        else
            same_type(v, op, body->inputs.at[i], op->in[i]);
    }
    for (int i = 0; i < op->n_out; i++) {
        if (i >= carries)
            same_slice(v, op, body->outputs.at[i], op->out[i], &length);
        else
            same_type(v, op, body->outputs.at[i], op->out[i]);
        if (i < carries) same_type(v, op, op->in[i], op->out[i]);
    }
    if (!length) verify_wrong(v, op, "neither slices nor stacked results tell its length");
}

/* inner is a block's rows of outer. */
static void same_rows(const Verify *v, const Op *op, const Value *inner, const Value *outer, Expr *block, Expr *rows)
{
    Value all = *inner;
    if (inner->rank < 1 || inner->shape[0] != block) verify_wrong(v, op, "%%%d of the body has no rows of a block", inner->id);
    rank_is(v, op, outer, inner->rank);
    all.shape = NEW_ARRAY(v->scratch, Expr *, inner->rank);
    for (int k = 0; k < inner->rank; k++) all.shape[k] = k ? inner->shape[k] : rows;
    same_type(v, op, &all, outer);
}

static void verify_blocks(const Verify *v, const Op *op)
{
    const Graph *body = op->body[0];
    const int slices = (int)op_int(op, ATTR_slices), sums = (int)op_int(op, ATTR_sums);
    count_is(v, op, ATTR_block, 2);
    Expr *block = op_exprs(op, ATTR_block, NULL)[0];
    count_outside(v, op, "parameters of the body", body->inputs.n, op->n_in);
    count_outside(v, op, "outputs of the body", body->outputs.n, op->n_out);
    if (slices < 1 || slices > op->n_in || sums < 0 || sums > op->n_out) verify_wrong(v, op, "too few operands or results");
    if (!expr_is_symbol(block)) verify_wrong(v, op, "its block is no symbol");
    if (op->in[0]->rank < 1) verify_wrong(v, op, "rows of a scalar");
    for (int i = 0; i < op->n_in; i++) {
        if (i < slices)
            same_rows(v, op, body->inputs.at[i], op->in[i], block, op->in[0]->shape[0]);
        else
            same_type(v, op, body->inputs.at[i], op->in[i]);
    }
    for (int i = 0; i < op->n_out; i++) {
        if (i >= sums)
            same_rows(v, op, body->outputs.at[i], op->out[i], block, op->in[0]->shape[0]);
        else
            same_type(v, op, body->outputs.at[i], op->out[i]);
    }
}

static void verify_while(const Verify *v, const Op *op)
{
    const Graph *body = op->body[0];
    int carries = (int)op_int(op, ATTR_carries);
    count_outside(v, op, "results", op->n_out, carries);
    count_outside(v, op, "parameters of the body", body->inputs.n, op->n_in);
    count_outside(v, op, "outputs of the body", body->outputs.n, carries + 1);
    if (op->n_in < carries + 1) verify_wrong(v, op, "too few operands");
    if (body->inputs.at[0]->dtype != DTYPE_i64 || body->inputs.at[0]->rank) verify_wrong(v, op, "the iteration is no i64 scalar");
    if (op->in[0]->dtype != DTYPE_bool || op->in[0]->rank) verify_wrong(v, op, "the condition is no bool scalar");
    same_type(v, op, body->outputs.at[0], op->in[0]);
    for (int i = 1; i < op->n_in; i++) same_type(v, op, body->inputs.at[i], op->in[i]);
    for (int i = 0; i < carries; i++) {
        same_type(v, op, body->outputs.at[i + 1], op->in[i + 1]);
        same_type(v, op, op->out[i], op->in[i + 1]);
    }
}

static void verify_branch(const Verify *v, const Op *op)
{
    if (op->n_in < 1 || op->in[0]->dtype != DTYPE_bool || op->in[0]->rank) verify_wrong(v, op, "the condition is no bool scalar");
    for (int b = 0; b < 2; b++) {
        const Graph *body = op->body[b];
        count_outside(v, op, "parameters of a body", body->inputs.n, op->n_in - 1);
        count_outside(v, op, "outputs of a body", body->outputs.n, op->n_out);
        for (int i = 1; i < op->n_in; i++) same_type(v, op, body->inputs.at[i - 1], op->in[i]);
        for (int i = 0; i < op->n_out; i++) same_type(v, op, body->outputs.at[i], op->out[i]);
    }
}

void verify_region(const Verify *v, const Op *op)
{
    if (op->kind == OP_scan)
        verify_scan(v, op);
    else if (op->kind == OP_blocks)
        verify_blocks(v, op);
    else if (op->kind == OP_while)
        verify_while(v, op);
    else
        verify_branch(v, op);
    for (int b = 0; b < 2; b++)
        if (op->body[b]) verify_graph(op->body[b], v->after, true);
}
