/* Builders of regions (operations with bodies) and of effects. */
#include "ir/build_private.h"

static void types_agree(Graph *g, const Value *a, const Value *b, const char *what)
{
    if (a->dtype != b->dtype || a->rank != b->rank)
        misfit("%s: %s of rank %d and %s of rank %d (at \"%s\")", what, dtype_name(a->dtype), a->rank, dtype_name(b->dtype),
               b->rank, g->source);
    for (int i = 0; i < a->rank; i++) dims_agree(g, a->shape[i], b->shape[i], what);
}

Op *b_scan(Graph *g, Graph *body, Value *const *operands, int n, int carries, int slices, bool reverse, Expr *length)
{
    int stacked = body->outputs.n - carries;
    fits(n >= carries + slices && body->inputs.n == n && stacked >= 0);
    fits(slices + stacked > 0); /* else nothing tells how often */
    for (int i = 0; i < n; i++) {
        Value *in = operands[i], step = *in;
        if (i >= carries && i < carries + slices) {
            fits(in->rank >= 1);
            dims_agree(g, length, in->shape[0], "length of scan");
            step.rank--;
            step.shape++;
        }
        types_agree(g, &step, body->inputs.at[i], "operand of scan");
    }
    Op *op = graph_op(g, OP_scan, operands, n, carries + stacked);
    op->body[0] = body;
    op_set_int(g, op, ATTR_carries, carries);
    op_set_int(g, op, ATTR_slices, slices);
    op_set_int(g, op, ATTR_reverse, reverse);
    for (int i = 0; i < carries + stacked; i++) {
        const Value *v = body->outputs.at[i];
        if (i < carries) {
            types_agree(g, operands[i], v, "carry of scan");
            op_result(g, op, i, v->dtype, v->rank, operands[i]->shape);
            continue;
        }
        Expr **shape = NEW_ARRAY(g->arena, Expr *, v->rank + 1);
        shape[0] = length;
        for (int k = 0; k < v->rank; k++) shape[k + 1] = v->shape[k];
        op_result(g, op, i, v->dtype, v->rank + 1, shape);
    }
    return op;
}

/* The shape of all blocks' rows together: the body's, with `rows` for its first dim. */
static Expr **of_all_rows(Graph *g, const Value *v, Expr *block, Expr *rows)
{
    Expr **shape = NEW_ARRAY(g->arena, Expr *, v->rank + 1);
    fits(v->rank >= 1 && v->shape[0] == block);
    for (int k = 0; k < v->rank; k++) shape[k] = k ? v->shape[k] : rows;
    return shape;
}

Op *b_blocks(Graph *g, Graph *body, Value *const *operands, int n, int slices, int sums, Expr *block, Expr *row_bytes)
{
    fits(slices >= 1 && n >= slices && body->inputs.n == n && body->outputs.n >= sums);
    Expr *rows = operands[0]->shape[0];
    for (int i = 0; i < n; i++) {
        Value inside = *body->inputs.at[i];
        if (i < slices) inside.shape = of_all_rows(g, &inside, block, rows);
        types_agree(g, operands[i], &inside, "operand of blocks");
    }
    Op *op = graph_op(g, OP_blocks, operands, n, body->outputs.n);
    op->body[0] = body;
    op_set_int(g, op, ATTR_slices, slices);
    op_set_int(g, op, ATTR_sums, sums);
    op_set_exprs(g, op, ATTR_block, (Expr *const[]){block, row_bytes}, 2);
    for (int i = 0; i < body->outputs.n; i++) {
        const Value *v = body->outputs.at[i];
        op_result(g, op, i, v->dtype, v->rank, i < sums ? v->shape : of_all_rows(g, v, block, rows));
    }
    return op;
}

Op *b_while(Graph *g, Graph *body, Value *const *operands, int n, int carries)
{
    fits(n >= 1 + carries && body->inputs.n == n && body->outputs.n == 1 + carries);
    fits(operands[0]->dtype == DTYPE_bool && operands[0]->rank == 0);
    fits(body->inputs.at[0]->dtype == DTYPE_i64 && body->inputs.at[0]->rank == 0);
    types_agree(g, operands[0], body->outputs.at[0], "condition of while");
    for (int i = 1; i < n; i++) types_agree(g, operands[i], body->inputs.at[i], "operand of while");
    Op *op = graph_op(g, OP_while, operands, n, carries);
    op->body[0] = body;
    op_set_int(g, op, ATTR_carries, carries);
    for (int i = 0; i < carries; i++) {
        const Value *v = operands[i + 1];
        types_agree(g, v, body->outputs.at[i + 1], "carry of while");
        op_result(g, op, i, v->dtype, v->rank, v->shape);
    }
    return op;
}

Op *b_branch(Graph *g, Graph *then_body, Graph *else_body, Value *const *operands, int n)
{
    fits(n >= 1 && operands[0]->dtype == DTYPE_bool && operands[0]->rank == 0);
    fits(then_body->inputs.n == n - 1 && else_body->inputs.n == n - 1 && then_body->outputs.n == else_body->outputs.n);
    for (int i = 1; i < n; i++) {
        types_agree(g, operands[i], then_body->inputs.at[i - 1], "capture of branch");
        types_agree(g, operands[i], else_body->inputs.at[i - 1], "capture of branch");
    }
    Op *op = graph_op(g, OP_branch, operands, n, then_body->outputs.n);
    op->body[0] = then_body;
    op->body[1] = else_body;
    for (int i = 0; i < op->n_out; i++) {
        const Value *v = then_body->outputs.at[i];
        types_agree(g, v, else_body->outputs.at[i], "result of branch");
        op_result(g, op, i, v->dtype, v->rank, v->shape);
    }
    return op;
}

void b_assign(Graph *g, Value *target, Value *value)
{
    fits(target->origin == FROM_WEIGHT || target->origin == FROM_STATE);
    types_agree(g, target, value, "assign");
    Value *in[] = {target, value};
    graph_op(g, OP_assign, in, 2, 0);
}

void b_assign_where(Graph *g, Value *target, Value *value, Value *where)
{
    fits(target->origin == FROM_WEIGHT || target->origin == FROM_STATE);
    types_agree(g, target, value, "assign");
    fits(where->dtype == DTYPE_bool && same_shape(g, where, target));
    Value *in[] = {target, value, where};
    graph_op(g, OP_assign, in, 3, 0);
}

void b_finite(Graph *g, Value *number)
{
    fits(number->rank == 0 && dtype_is_float(number->dtype));
    graph_op(g, OP_finite, &number, 1, 0);
}

void b_commit(Graph *g, Value *loss)
{
    fits(loss->rank == 0 && dtype_is_float(loss->dtype));
    graph_op(g, OP_commit, &loss, 1, 0);
}
