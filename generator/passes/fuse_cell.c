/* Which scans become one kernel: recurrent cells, found by what their bodies do.
 *
 *     h[t] = tanh(x[t] + dot(h[t-1], R))
 *
 * Where all that a step computes is elementwise, moved elements and dots with matrices that all steps share, the samples of a batch
 * never meet: each goes through all steps by itself.  So the batch is shared out, and nobody waits for anybody between steps.
 *
 * What lies in memory between the parts of a step must then be read by the row (the sample) that wrote it: every operation keeps
 * the axis of rows apart from the others.  Rows are the first axis that is longer than 1; what comes from outside the scan may be
 * read anywhere. */
#include "passes/fuse.h"
#include "support/diag.h"

enum { NO_ROWS = -1, MIXED = -2 };

typedef struct {
    const Group *group;
    const Graph *g;
    Symbols *symbols;
    Expr *rows;
    int *axis; /* by value id: the axis of rows; NO_ROWS: the same for all; MIXED: rows meet */
} Cell;

static bool same(const Cell *c, Expr *a, Expr *b)
{
    return expr_always_equal(c->symbols, a, b);
}

static bool is_one(const Cell *c, Expr *e)
{
    return expr_is(expr_canonical(c->symbols, e), 1);
}

/* The axis of rows by the shape alone. */
static int axis_of(const Cell *c, const Value *v)
{
    for (int i = 0; i < v->rank; i++) {
        if (same(c, v->shape[i], c->rows)) return i;
        if (!is_one(c, v->shape[i])) return NO_ROWS;
    }
    return NO_ROWS;
}

/* A matrix that all steps share, dense in memory. */
static bool is_shared_matrix(const Cell *c, const Value *v)
{
    const Op *scan = c->group->ops.at[c->group->ops.n - 1];
    const int first = (int)op_int(scan, ATTR_carries) + (int)op_int(scan, ATTR_slices);
    while (v->def && v->def->kind == OP_reshape) v = v->def->in[0];
    for (int i = first; i < c->g->inputs.n; i++)
        if (c->g->inputs.at[i] == v) return true;
    return false;
}

static int index_axis(const Cell *c, const Op *op)
{
    const int from = c->axis[op->in[0]->id];
    int n;
    switch (op->kind) {
    case OP_broadcast: {
        const int64_t *axes = op_ints(op, ATTR_axes, &n);
        return from == NO_ROWS ? NO_ROWS : (int)axes[from];
    }
    case OP_reshape: return from == NO_ROWS ? NO_ROWS : axis_of(c, op->out[0]) == NO_ROWS ? MIXED : axis_of(c, op->out[0]);
    case OP_transpose: {
        const int64_t *axes = op_ints(op, ATTR_axes, &n);
        for (int i = 0; i < n; i++)
            if (axes[i] == from) return i;
        return NO_ROWS;
    }
    case OP_slice:
    case OP_pad: {
        Expr *const *start = op_exprs(op, ATTR_start, &n);
        const int64_t *step = op_ints(op, ATTR_step, &n);
        if (from == NO_ROWS) return NO_ROWS;
        return expr_is(start[from], 0) && step[from] == 1 && same(c, op->out[0]->shape[from], c->rows) ? from : MIXED;
    }
    case OP_concat: {
        int axis = NO_ROWS;
        for (int i = 0; i < op->n_in; i++)
            if (c->axis[op->in[i]->id] != NO_ROWS) axis = c->axis[op->in[i]->id];
        for (int i = 0; i < op->n_in; i++)
            if (c->axis[op->in[i]->id] != NO_ROWS && c->axis[op->in[i]->id] != axis) return MIXED;
        return axis != NO_ROWS && axis == op_int(op, ATTR_axis) ? MIXED : axis;
    }
    default: return MIXED; /* gather: by an index, whatever it is */
    }
}

static int dot_axis(const Cell *c, const Op *op)
{
    const Value *a = op->in[0], *b = op->in[1];
    for (int i = 0; i + 2 < a->rank; i++)
        if (!is_one(c, a->shape[i])) return MIXED;
    if (op_int(op, ATTR_trans_a) || !is_shared_matrix(c, b) || !dtype_is_float(a->dtype)) return MIXED;
    return same(c, a->shape[a->rank - 2], c->rows) && axis_of(c, op->out[0]) == a->rank - 2 ? a->rank - 2 : MIXED;
}

static int op_axis(const Cell *c, const Op *op)
{
    for (int i = 0; i < op->n_in; i++)
        if (c->axis[op->in[i]->id] == MIXED) return MIXED;
    switch (op_info(op->kind)->class) {
    case ELEMENTWISE: {
        int axis = NO_ROWS;
        if (op->kind == OP_random_at) return MIXED;
        for (int i = 0; i < op->n_in; i++) {
            const int from = c->axis[op->in[i]->id];
            if (from != NO_ROWS && axis != NO_ROWS && from != axis) return MIXED;
            if (from != NO_ROWS) axis = from;
        }
        return axis;
    }
    case SOURCE: return op->kind == OP_random ? MIXED : NO_ROWS;
    case INDEX: return index_axis(c, op);
    case DOT: return dot_axis(c, op);
    default: return MIXED;
    }
}

/* The rows of the first dot; NULL where there is none. */
static Expr *rows_of(const Graph *g)
{
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        if (op->kind == OP_dot && op->in[0]->rank >= 2) return op->in[0]->shape[op->in[0]->rank - 2];
    }
    return NULL;
}

/* Each block reads all matrices in each step: where they are large it is better that everyone works at the same product. */
static bool matrices_fit(const Cell *c)
{
    Expr *bytes = expr_int(c->symbols, 0);
    for (int o = 0; o < c->g->ops.n; o++) {
        const Op *op = c->g->ops.at[o];
        if (op->kind == OP_dot) bytes = expr_add(c->symbols, bytes, value_bytes(c->g, op->in[1]));
    }
    int64_t n;
    return expr_is_int(expr_canonical(c->symbols, bytes), &n) && n <= CELL_BYTES_MAX;
}

Expr *fuse_cell_rows(const Group *group)
{
    const Op *scan = group->ops.at[group->ops.n - 1];
    if (scan->kind != OP_scan) return NULL;
    const Graph *g = scan->body[0];
    Cell c = {.group = group, .g = g, .symbols = g->symbols, .rows = rows_of(g)};
    if (!c.rows || !matrices_fit(&c)) return NULL;
    c.axis = NEW_ARRAY(g->arena, int, g->next_value + 1);
    const int carries = (int)op_int(scan, ATTR_carries);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        c.axis[v->id] = i < carries ? axis_of(&c, v) : NO_ROWS;
        if (i < carries && c.axis[v->id] == NO_ROWS) return NULL;
    }
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        if (op->n_out != 1) return NULL;
        int *axis = &c.axis[op->out[0]->id];
        *axis = op_axis(&c, op);
        if (*axis == NO_ROWS) *axis = op_info(op->kind)->class == SOURCE ? NO_ROWS : axis_of(&c, op->out[0]);
        if (*axis == MIXED || (*axis != NO_ROWS && axis_of(&c, op->out[0]) != *axis)) return NULL;
    }
    for (int i = 0; i < g->outputs.n; i++)
        if (axis_of(&c, g->outputs.at[i]) == NO_ROWS) return NULL;
    for (int i = 0; i < group->body[0]->list.n; i++) { /* what lies in memory between the parts of a step */
        const Group *part = group->body[0]->list.at[i];
        if (part->kind != GROUP_LOOP && part->kind != GROUP_DOT && part->kind != GROUP_VIEW) return NULL;
        for (int o = 0; o < part->out.n && part->kind != GROUP_VIEW; o++)
            if (axis_of(&c, part->out.at[o]) == NO_ROWS) return NULL;
    }
    return c.rows;
}
