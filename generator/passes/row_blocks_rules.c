/* Part of row_blocks: how operations treat rows.
 *
 * A value has rows where the product of its leading axes is their number: (batch, seq, 768) and (batch*seq, 768) both have
 * batch*seq rows. Needs and breaks nothing. */
#include "passes/row_blocks.h"
#include "support/diag.h"

int row_axes_of(const RowSet *set, const Value *v)
{
    Symbols *s = set->g->symbols;
    for (int kept = 1; kept <= v->rank; kept++)
        if (expr_always_equal(s, expr_product(s, v->shape, kept), set->rows)) return kept;
    return 0;
}

static bool all_have_rows(const Op *op, int kept, int *roles)
{
    for (int i = 0; i < op->n_in; i++) roles[i] = kept;
    return true;
}

/* Whether a list of axes is 0, 1, … as far as rows go. */
static bool leaves_rows(const int64_t *axes, int kept)
{
    for (int i = 0; i < kept; i++)
        if (axes[i] != i) return false;
    return true;
}

static bool same_dims(const RowSet *set, const Value *a, const Value *b, int n)
{
    for (int i = 0; i < n; i++)
        if (!expr_always_equal(set->g->symbols, a->shape[i], b->shape[i])) return false;
    return true;
}

/* The operand has all the rows, or none of them but ones. */
static int broadcast_role(const RowSet *set, const Op *op, int kept)
{
    const Value *a = op->in[0], *y = op->out[0];
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    if (a->rank >= kept && leaves_rows(axes, kept) && same_dims(set, a, y, kept)) return kept;
    for (int i = 0; i < a->rank && axes[i] < kept; i++)
        if (!expr_is(a->shape[i], 1)) return ROWS_UNFIT;
    return ROWS_SAME;
}

/* A slice or pad takes every row: what is cut or added lies in other axes. */
static bool takes_all_rows(const RowSet *set, const Op *op, int kept)
{
    Expr *const *start = op_exprs(op, ATTR_start, NULL);
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    for (int i = 0; i < kept; i++)
        if (!expr_is(start[i], 0) || step[i] != 1) return false;
    return same_dims(set, op->in[0], op->out[0], kept);
}

static bool dot_roles(const Op *op, int kept, int *roles)
{
    const Value *y = op->out[0];
    const bool batched = kept <= y->rank - 2, plain = y->rank == 2 && kept == 1 && !op_int(op, ATTR_trans_a);
    roles[0] = kept;
    roles[1] = batched ? kept : ROWS_SAME;
    roles[2] = kept; /* of a sum of products */
    return batched || plain;
}

bool row_roles(const RowSet *set, const Op *op, int kept, int *roles)
{
    if (op->n_out != 1 || op->n_in > ROW_OPERANDS_MAX || kept < 1 || kept > op->out[0]->rank) return false;
    if (op_info(op->kind)->class == ELEMENTWISE) return all_have_rows(op, kept, roles);
    int n;
    switch (op->kind) {
    case OP_iota: return op_int(op, ATTR_axis) >= kept;
    case OP_broadcast: return (roles[0] = broadcast_role(set, op, kept)) != ROWS_UNFIT;
    case OP_reshape: return (roles[0] = row_axes_of(set, op->in[0])) > 0;
    case OP_transpose: return leaves_rows(op_ints(op, ATTR_axes, NULL), kept) && all_have_rows(op, kept, roles);
    case OP_slice: return takes_all_rows(set, op, kept) && all_have_rows(op, kept, roles);
    case OP_pad:
        roles[0] = kept, roles[1] = ROWS_SAME;
        return takes_all_rows(set, op, kept);
    case OP_concat:
    case OP_arg_max:
    case OP_arg_min:
    case OP_cum_sum:
    case OP_cum_prod: return op_int(op, ATTR_axis) >= kept && all_have_rows(op, kept, roles);
    case OP_gather: {
        const bool from_rows = op_int(op, ATTR_axis) >= kept, by_rows = op_int(op, ATTR_axis) == 0 && op->in[1]->rank >= kept;
        roles[0] = from_rows ? kept : ROWS_SAME;
        roles[1] = from_rows ? ROWS_SAME : kept;
        return from_rows || by_rows;
    }
    case OP_reduce_sum:
    case OP_reduce_prod:
    case OP_reduce_max:
    case OP_reduce_min: {
        const int64_t *axes = op_ints(op, ATTR_axes, &n);
        for (int i = 0; i < n; i++)
            if (axes[i] < kept) return false;
        return all_have_rows(op, kept, roles);
    }
    case OP_dot:
    case OP_dot_add: return dot_roles(op, kept, roles);
    default: return false;
    }
}

int row_axes_after(const RowSet *set, const Op *op, int i, int kept)
{
    if (op->n_out != 1) return 0;
    if (op->kind == OP_reshape) return row_axes_of(set, op->out[0]);
    if (op_info(op->kind)->class == DOT && (i == 1 || op_int(op, ATTR_trans_a)) && kept > op->out[0]->rank - 2) return 0;
    return kept;
}

bool row_sum_roles(const RowSet *set, const Op *op, int i, int kept, int *roles)
{
    if (op->kind == OP_dot) {
        roles[0] = roles[1] = kept;
        return op->out[0]->rank == 2 && kept == 1 && op_int(op, ATTR_trans_a) && !op_int(op, ATTR_trans_b) &&
               expr_always_equal(set->g->symbols, op->in[0]->shape[0], op->in[1]->shape[0]);
    }
    if (op->kind != OP_reduce_sum) return false;
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    roles[i] = kept;
    for (int row = 0; row < kept; row++) {
        bool added = false;
        for (int k = 0; k < n; k++) added |= axes[k] == row;
        if (!added) return false;
    }
    return true;
}
