/* Part of row_blocks: makes the loop of a set.  In its body the axes that count rows are one axis of a block's rows:
 *
 *     %5: f32[batch, seq, 32] = reduce_max %4, axes=[3]     ->     f32[block, 32] = reduce_max, axes=[2]
 *
 * Needs: a set that is closed.  Breaks: what it replaces is dropped. */
#include "passes/row_blocks.h"
#include "../../runtime/controller/integers.h"
#include "support/diag.h"
#include <string.h>

typedef struct {
    RowSet *set;
    Graph *g, *body;
    Expr *block, *row_bytes;
    Value **inside;             /* by value id of g: what stands for it in the body */
    Values slices, slices_in;   /* operands with rows, as they enter the loop; what they are inside */
    Values constants, constants_in;
    VEC(int) slice_of, constant_of; /* ids of g that these stand for */
    Values sums, stacked;       /* values of g that are wanted outside */
    Values sums_in, stacked_in; /* outputs of the body */
} Build;

/* (batch, seq, 768) with two axes of rows: (first, 768) */
static Expr **flat_shape(Build *b, const Value *v, int kept, Expr *first)
{
    Expr **shape = NEW_ARRAY(b->g->arena, Expr *, v->rank - kept + 2);
    shape[0] = first;
    for (int i = kept; i < v->rank; i++) shape[i - kept + 1] = v->shape[i];
    return shape;
}

static Value *flat(Build *b, Value *v, int kept)
{
    if (kept == 1 && expr_canonical(b->g->symbols, v->shape[0]) == b->set->rows) return v;
    return b_reshape(b->g, v, v->rank - kept + 1, flat_shape(b, v, kept, b->set->rows));
}

/* ---- operands ---- */
static void roles_of(const Build *b, const Op *op, int *roles)
{
    const RowSet *set = b->set;
    bool fits = false;
    if (set->members[op->id] != ROW_SUM)
        fits = row_roles(set, op, set->kept[op->out[0]->id], roles);
    else
        fits = row_sum_roles(set, op, 0, op->kind == OP_dot ? 1 : set->kept[op->in[0]->id], roles);
    if (!fits) bug("%s \"%s\" is not done row by row", op_info(op->kind)->name, op->source);
}

static bool is_cloned(const Value *v) /* known to the generator: stands in the body itself */
{
    return v->def && (v->def->kind == OP_constant || v->def->kind == OP_dims);
}

static Value *cloned(Build *b, const Value *v)
{
    const Op *op = v->def;
    Op *copy = graph_op(b->body, op->kind, NULL, 0, 1);
    copy->n_attrs = op->n_attrs;
    for (int i = 0; i < op->n_attrs; i++) copy->attrs[i] = op->attrs[i];
    return op_result(b->body, copy, 0, v->dtype, v->rank, v->shape);
}

/* The operand of a broadcast to every row, without the ones that stood for rows. */
static Value *without_row_axes(Build *b, const Op *op, int kept)
{
    Value *v = op->in[0];
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    int ones = 0;
    while (ones < v->rank && axes[ones] < kept) ones++;
    return ones ? b_reshape(b->g, v, v->rank - ones, v->shape + ones) : v;
}

static Value *slice_in(Build *b, Value *v, int kept)
{
    for (int i = 0; i < b->slice_of.n; i++)
        if (b->slice_of.at[i] == v->id && b->slices_in.at[i]->rank == v->rank - kept + 1) return b->slices_in.at[i];
    Value *whole = flat(b, v, kept);
    const char *name = arena_text(b->g->arena, "rows_%d", b->slices.n);
    Value *in = graph_input(b->body, name, v->dtype, whole->rank, flat_shape(b, v, kept, b->block), FROM_PARAMETER);
    vec_push(b->g->arena, &b->slice_of, v->id);
    vec_push(b->g->arena, &b->slices, whole);
    vec_push(b->g->arena, &b->slices_in, in);
    return in;
}

static Value *constant_in(Build *b, Value *v)
{
    if (is_cloned(v)) return cloned(b, v);
    for (int i = 0; i < b->constant_of.n; i++)
        if (b->constant_of.at[i] == v->id) return b->constants_in.at[i];
    const char *name = arena_text(b->g->arena, "constant_%d", b->constants.n);
    Value *in = graph_input(b->body, name, v->dtype, v->rank, v->shape, FROM_PARAMETER);
    vec_push(b->g->arena, &b->constant_of, v->id);
    vec_push(b->g->arena, &b->constants, v);
    vec_push(b->g->arena, &b->constants_in, in);
    return in;
}

static Value *operand(Build *b, const Op *op, int i, int role)
{
    Value *v = op->in[i];
    if (b->inside[v->id]) return b->inside[v->id];
    if (role > 0) return slice_in(b, v, role);
    return constant_in(b, op->kind == OP_broadcast ? without_row_axes(b, op, b->set->kept[op->out[0]->id]) : v);
}

/* ---- operations ---- */
/* Axes of rows are one now. */
static int64_t moved(int64_t axis, int kept)
{
    return axis < kept ? 0 : axis - kept + 1;
}

static void copy_attributes(Build *b, const Op *op, Op *copy, int kept, const int *roles)
{
    Graph *g = b->body;
    int64_t ints[16];
    int n, m = 0;
    copy->n_attrs = 0;
    for (int i = 0; i < op->n_attrs; i++) {
        const Attr *a = &op->attrs[i];
        if (a->key == ATTR_axes) {
            const int64_t *axes = op_ints(op, ATTR_axes, &n);
            check(n <= 16);
            for (int k = 0; k < n; k++) /* of rows only the first: the others are part of it */
                if (axes[k] >= kept || (axes[k] == 0 && roles[0] != ROWS_SAME)) ints[m++] = moved(axes[k], kept);
            op_set_ints(g, copy, ATTR_axes, ints, m);
        } else if (a->key == ATTR_axis) {
            op_set_int(g, copy, ATTR_axis, moved(a->i, kept));
        } else if (a->key == ATTR_start) {
            op_set_exprs(g, copy, ATTR_start, a->exprs + kept - 1, a->n - kept + 1);
        } else if (a->key == ATTR_step) {
            op_set_ints(g, copy, ATTR_step, a->ints + kept - 1, a->n - kept + 1);
        } else {
            copy->attrs[copy->n_attrs++] = *a;
        }
    }
}

/* A sum over rows and other axes is one over the others inside, and one over rows outside. */
static bool sums_more_than_rows(const Op *op, int kept)
{
    int n;
    if (op->kind != OP_reduce_sum) return false;
    op_ints(op, ATTR_axes, &n);
    return n > kept;
}

static Value *reduce_within_rows(Build *b, const Op *op, Value *in, int kept)
{
    int64_t axes[16];
    int n, m = 0;
    const int64_t *all = op_ints(op, ATTR_axes, &n);
    check(n <= 16);
    for (int i = 0; i < n; i++)
        if (all[i] >= kept) axes[m++] = moved(all[i], kept);
    return b_reduce(b->body, OP_reduce_sum, in, axes, m);
}

static Value *same_view(const Op *op, Value *in, Expr *const *shape, int rank)
{
    if (op->kind != OP_reshape || in->rank != rank) return NULL;
    for (int i = 0; i < rank; i++)
        if (in->shape[i] != shape[i]) return NULL;
    return in;
}

static void build_op(Build *b, const Op *op)
{
    Graph *g = b->body;
    const RowSet *set = b->set;
    const Value *out = op->out[0];
    const bool sum = set->members[op->id] == ROW_SUM;
    int roles[ROW_OPERANDS_MAX] = {0};
    Value *in[ROW_OPERANDS_MAX];
    roles_of(b, op, roles);
    g->source = op->source, g->role = op->role;
    for (int i = 0; i < op->n_in; i++) in[i] = operand(b, op, i, roles[i]);
    const int kept = sum ? roles[0] : set->kept[out->id];
    if (sum && sums_more_than_rows(op, kept)) {
        b->inside[out->id] = reduce_within_rows(b, op, in[0], kept);
        return;
    }
    const int rank = sum ? out->rank : out->rank - kept + 1;
    Expr **shape = sum ? out->shape : flat_shape(b, out, kept, b->block);
    if ((b->inside[out->id] = same_view(op, in[0], shape, rank))) return;
    Op *copy = graph_op(g, op->kind, in, op->n_in, 1);
    copy_attributes(b, op, copy, kept, roles);
    b->inside[out->id] = op_result(g, copy, 0, out->dtype, rank, shape);
    b->inside[out->id]->name = out->name;
}

/* ---- results ---- */
static bool wanted_outside(const Build *b, const Value *v)
{
    for (int u = 0; u < v->users.n; u++)
        if (b->set->members[v->users.at[u]->id] == OUTSIDE) return true;
    return graph_is_output(b->g, v);
}

static void want(Build *b, const Op *op)
{
    const Membership member = b->set->members[op->id];
    Value *v = op->out[0];
    if (member == ROW_AGAIN || !wanted_outside(b, v)) return;
    const bool adds = member == ROW_SUM && !sums_more_than_rows(op, b->set->kept[op->in[0]->id]);
    vec_push(b->g->arena, adds ? &b->sums : &b->stacked, v);
    vec_push(b->g->arena, adds ? &b->sums_in : &b->stacked_in, b->inside[v->id]);
}

static void append(Arena *arena, Values *to, const Values *from)
{
    for (int i = 0; i < from->n; i++) vec_push(arena, to, from->at[i]);
}

/* In the place of a value: the loop's result in that value's shape. */
static Value *given_out(Build *b, const Value *v, Value *result)
{
    Graph *g = b->g;
    g->source = v->def->source, g->role = v->def->role;
    if (b->set->members[v->def->id] == ROW_SUM && sums_more_than_rows(v->def, b->set->kept[v->def->in[0]->id]))
        return b_reshape(g, b_reduce(g, OP_reduce_sum, result, (const int64_t[]){0}, 1), v->rank, v->shape);
    return b_reshape(g, result, v->rank, v->shape);
}

/* As the operation's own result would be called, among the results of a loop of another role. */
static void name_result(Build *b, Value *result, const Op *op)
{
    const bool says = !strcmp(op->role, "gradient") && strcmp(result->def->role, "gradient");
    if (*op->source) result->name = arena_text(b->g->arena, "%s%s_%s", says ? "d_" : "", op->source, op_info(op->kind)->name);
}

static Op *loop_of(Build *b)
{
    Graph *g = b->g;
    Values operands = {0};
    append(g->arena, &operands, &b->slices);
    append(g->arena, &operands, &b->constants);
    b->body->inputs.n = 0;
    append(g->arena, &b->body->inputs, &b->slices_in);
    append(g->arena, &b->body->inputs, &b->constants_in);
    append(g->arena, &b->body->outputs, &b->sums_in);
    append(g->arena, &b->body->outputs, &b->stacked_in);
    return b_blocks(g, b->body, operands.at, operands.n, b->slices.n, b->sums.n, b->block, b->row_bytes);
}

/* The loop stands where most of it stood: in the loss, where a part of it is the loss. */
static const char *role_of(const RowSet *set)
{
    for (int o = 0; o < set->g->ops.n; o++) {
        const Op *op = set->g->ops.at[o];
        if (set->members[op->id] != OUTSIDE && !strcmp(op->role, "loss")) return "loss";
    }
    return set->seed->role;
}

/* Bytes in a row of the widest value inside, at likely dims. */
static Expr *widest_row(const RowSet *set)
{
    Graph *g = set->g;
    Symbols *s = g->symbols;
    Expr *widest = expr_int(s, 1);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        if (set->members[op->id] != ROW_WISE) continue;
        const Value *v = op->out[0];
        const int kept = set->kept[v->id];
        Expr *bytes = expr_mul(s, expr_product(s, v->shape + kept, v->rank - kept), expr_int(s, dtype_bytes(v->dtype)));
        if (op_info(op->kind)->class == DOT && expr_likely(s, bytes) > expr_likely(s, widest)) widest = bytes;
    }
    return widest;
}

/* Loops over as many rows of the same width have blocks of one size. */
static Expr *block_symbol(const RowSet *set, Expr *row_bytes)
{
    Graph *g = set->g;
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        if (op->kind != OP_blocks || expr_canonical(g->symbols, op->in[0]->shape[0]) != set->rows) continue;
        Expr *const *block = op_exprs(op, ATTR_block, NULL);
        if (block[1] == row_bytes) return block[0];
    }
    Expr *block = expr_fresh(g->symbols, "block");
    const int64_t likely = rows_per_block(expr_likely(g->symbols, set->rows), expr_likely(g->symbols, row_bytes));
    symbol_declare(g->symbols, block, 1, EXPR_UNBOUNDED, likely);
    return block;
}

Op *row_blocks_build(RowSet *set)
{
    Graph *g = set->g;
    const char *source = g->source, *role = g->role, *loop_role = role_of(set);
    Build b = {.set = set, .g = g, .body = graph_new(g->arena, g->symbols, "body")};
    b.row_bytes = widest_row(set);
    b.block = block_symbol(set, b.row_bytes);
    b.inside = NEW_ARRAY(set->scratch, Value *, g->next_value + 1);
    const int n = g->ops.n;
    for (int sums = 0; sums < 2; sums++) /* at the end, so that what two of them read can be made by one kernel */
        for (int o = 0; o < n; o++)
            if (set->members[g->ops.at[o]->id] != OUTSIDE && (set->members[g->ops.at[o]->id] == ROW_SUM) == sums) build_op(&b, g->ops.at[o]);
    for (int o = 0; o < n; o++)
        if (set->members[g->ops.at[o]->id] != OUTSIDE) want(&b, g->ops.at[o]);
    g->source = set->seed->source, g->role = loop_role;
    Op *loop = loop_of(&b);
    for (int i = 0; i < b.sums.n + b.stacked.n; i++) {
        Value *v = i < b.sums.n ? b.sums.at[i] : b.stacked.at[i - b.sums.n];
        name_result(&b, loop->out[i], v->def);
        graph_replace(g, v, given_out(&b, v, loop->out[i]));
    }
    graph_prune(g);
    graph_sort(g);
    g->source = source, g->role = role;
    return loop;
}
