/* If.  A condition that is known while the program is made chooses its branch here; one computed from data becomes a branch region
 * with both branches as bodies over the same captures. */
#include "onnx/terms.h"
#include <string.h>

/* ---- If ---- */
/* Gives body a parameter for every value in all, in that order: both branches take the same captures. */
static void take_captures(Import *im, Body *body, Value *const *all, int n)
{
    Values inputs = {0};
    for (int i = 0; i < n; i++) vec_push(im->arena, &inputs, body_capture(im, body, all[i]));
    body->graph->inputs = inputs;
}

static Body *branch_body(Import *im, const OnnxGraph *sub, const char *name, Term **results)
{
    Body *body = body_open(im, sub, name);
    import_nodes(im, sub);
    for (int i = 0; i < sub->n_outputs; i++) {
        results[i] = scope_find(im, sub->outputs[i].name);
        if (!results[i]->is_sequence && !results[i]->is_absent)
            vec_push(im->arena, &im->graph->outputs, term_value(im, results[i]));
    }
    body_close(im);
    return body;
}

static void check_branches(Import *im, const OnnxNode *node, const Term *a, const Term *b, int i)
{
    if (a->is_sequence || a->is_absent || b->is_sequence || b->is_absent)
        import_error(im, node, "output %d of an If on data is %s or %s; wanted tensors", i, term_text(im, a), term_text(im, b));
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int k = 0; same && k < a->rank; k++) same = state_equal(im, a->shape[k], b->shape[k]);
    if (!same)
        import_error(
            im, node,
            "output %d is %s in one branch and %s in the other; as its condition is computed from data, both must be alike", i,
            term_text(im, a), term_text(im, b));
}

/* A condition on sizes that is open, such as Equal(Shape(x)[2], 1): the two sizes. */
static bool sizes_compared(Import *im, const Value *condition, Expr **a, Expr **b)
{
    while (condition->def && condition->def->kind == OP_reshape) condition = condition->def->in[0];
    if (!condition->def || condition->def->kind != OP_eq) return false;
    *a = scalar_expr(im, term_of_value(im, condition->def->in[0]));
    *b = scalar_expr(im, term_of_value(im, condition->def->in[1]));
    return *a && *b;
}

/* Where the branches differ in kind (x.squeeze(2) leaves x as it is unless dim 2 is 1), the program needs one of them: that of
 * equal sizes, which is what the exporter traced; run time guards it. */
static bool assume_equal(Import *im, const OnnxNode *node, Value *condition)
{
    Expr *a, *b;
    if (!sizes_compared(im, condition, &a, &b) || !state_equal(im, a, b)) return false;
    report_line(im->report, "%s chooses by whether %s is %s; taken as so, and checked for each batch", node_label(im->arena, node),
                expr_text(im->arena, a), expr_text(im->arena, b));
    return true;
}

static bool alike(Import *im, const Term *a, const Term *b)
{
    bool tensors = !a->is_sequence && !a->is_absent && !b->is_sequence && !b->is_absent;
    bool same = tensors && a->dtype == b->dtype && a->rank == b->rank;
    for (int k = 0; same && k < a->rank; k++) same = !expr_never_equal(im->symbols, a->shape[k], b->shape[k]);
    return same;
}

static void inline_branch(Import *im, const OnnxNode *node, const OnnxGraph *branch)
{
    Term **results = NEW_ARRAY(im->arena, Term *, branch->n_outputs + 1);
    import_inline(im, branch, NULL, 0, results);
    for (int i = 0; i < branch->n_outputs; i++) output_term(im, node, i, results[i]);
}

void import_If(Import *im, const OnnxNode *node)
{
    const OnnxGraph *then_graph = attr_graph(node, "then_branch"), *else_graph = attr_graph(node, "else_branch");
    if (!then_graph || !else_graph) import_error(im, node, "an If without then_branch or else_branch");
    int n = then_graph->n_outputs;
    if (n != else_graph->n_outputs) import_error(im, node, "%d results in one branch, %d in the other", n, else_graph->n_outputs);
    Term **results = NEW_ARRAY(im->arena, Term *, n + 1), **others = NEW_ARRAY(im->arena, Term *, n + 1),
         *condition = input_term(im, node, 0);
    int64_t known;
    if (condition->content && term_count(condition) == 1 && expr_is_int(condition->content[0], &known)) {
        inline_branch(im, node, known ? then_graph : else_graph);
        return;
    }
    Value *chosen = b_reshape(im->graph, term_value(im, condition), 0, NULL);
    Body *then_body = branch_body(im, then_graph, "then", results), *else_body = branch_body(im, else_graph, "else", others);
    for (int i = 0; i < n; i++)
        if (!alike(im, results[i], others[i]) && assume_equal(im, node, chosen)) {
            inline_branch(im, node, then_graph);
            return;
        }
    for (int i = 0; i < n; i++) check_branches(im, node, results[i], others[i], i);
    Values operands = {0};
    vec_push(im->arena, &operands, chosen);
    for (int i = 0; i < then_body->outside.n; i++) vec_push(im->arena, &operands, then_body->outside.at[i]);
    for (int i = 0; i < else_body->outside.n; i++) {
        bool both = false;
        for (int k = 0; k < then_body->outside.n; k++) both = both || then_body->outside.at[k] == else_body->outside.at[i];
        if (!both) vec_push(im->arena, &operands, else_body->outside.at[i]);
    }
    take_captures(im, then_body, operands.at + 1, operands.n - 1);
    take_captures(im, else_body, operands.at + 1, operands.n - 1);
    Op *op = b_branch(im->graph, then_body->graph, else_body->graph, operands.at, operands.n);
    for (int i = 0; i < n; i++) output(im, node, i, op->out[i]);
}
