/* Loop and Scan.  A loop of few known steps is unrolled: its sizes stay known.  One of known length becomes scan, also where it
 * counts up to that length itself; one that ends by a condition computed from data becomes while. */
#include "onnx/terms.h"
#include <string.h>

enum { MOST_UNROLLED = 16 };

/* ---- shared ---- */
/* A carried value keeps its type from step to step. */
static void check_carry(Import *im, const OnnxNode *node, const Term *before, const Term *after, int i)
{
    bool same = !after->is_sequence && !after->is_absent && before->dtype == after->dtype && before->rank == after->rank;
    for (int k = 0; same && k < before->rank; k++) same = state_equal(im, before->shape[k], after->shape[k]);
    if (!same)
        import_error(
            im, node,
            "carried value %d is %s before a step and %s after it; wanted the same type, unless the number of steps is known "
            "and at most %d",
            i, term_text(im, before), term_text(im, after), MOST_UNROLLED);
}

static Term *carry_parameter(Import *im, const OnnxNode *node, const char *name, const Term *like)
{
    if (like->is_sequence || like->is_absent)
        import_error(im, node,
                     "carries %s; wanted tensors, unless the number of steps follows from constants and the sizes of inputs",
                     term_text(im, like));
    return term_of_value(im, body_parameter(im, name, like->dtype, like->rank, like->shape));
}

static void body_results(Import *im, const OnnxGraph *sub, Term **results)
{
    import_nodes(im, sub);
    for (int i = 0; i < sub->n_outputs; i++) results[i] = scope_find(im, sub->outputs[i].name);
}

static void body_output(Import *im, Term *t)
{
    vec_push(im->arena, &im->graph->outputs, term_value(im, t));
}

static bool known_truth(const Term *t, bool *truth)
{
    int64_t value;
    if (!t->content || term_count(t) != 1 || !expr_is_int(t->content[0], &value)) return false;
    *truth = value != 0;
    return true;
}

static Term *known_term(Import *im, Dtype dtype, int64_t value)
{
    Expr **content = NEW_ARRAY(im->arena, Expr *, 1);
    content[0] = number(im, value);
    return term_of_content(im, dtype, 0, NULL, content);
}

/* ---- Loop ---- */
typedef struct Loop {
    const OnnxGraph *body;
    int carries, stacked;
    Expr *trips; /* NULL: no limit, or one computed from data */
    bool has_limit;
    bool condition_known, condition; /* before the first step */
    Term **initial, **results;
    int counter; /* the carried value that counts steps, on which alone the condition depends; -1: none */
    Expr *first; /* of the counter */
} Loop;

static Loop loop_of(Import *im, const OnnxNode *node)
{
    Loop l = {.body = attr_graph(node, "body"), .has_limit = has_input(node, 0), .condition_known = true, .condition = true, .counter = -1};
    if (!l.body || l.body->n_inputs < 2) import_error(im, node, "a Loop without a body of iteration, condition and carried values");
    l.carries = l.body->n_inputs - 2;
    l.stacked = l.body->n_outputs - 1 - l.carries;
    if (l.stacked < 0 || node->n_inputs > 2 + l.carries)
        import_error(im, node, "%d carried values for a body of %d inputs and %d outputs", node->n_inputs - 2, l.body->n_inputs,
                     l.body->n_outputs);
    if (l.has_limit) l.trips = scalar_expr(im, input_term(im, node, 0));
    if (has_input(node, 1)) l.condition_known = known_truth(input_term(im, node, 1), &l.condition);
    l.initial = NEW_ARRAY(im->arena, Term *, l.carries + 1);
    for (int i = 0; i < l.carries; i++) l.initial[i] = input_term(im, node, i + 2);
    l.results = NEW_ARRAY(im->arena, Term *, l.body->n_outputs + 1);
    return l;
}

/* The stacked outputs of steps that were unrolled. */
static void output_stacked(Import *im, const OnnxNode *node, int i, Term *const *steps, int n)
{
    Term **rows = NEW_ARRAY(im->arena, Term *, n + 1);
    if (!wants_output(node, i)) return;
    if (n == 0) import_error(im, node, "output %d stacks no steps at all: its size is not known", i);
    for (int s = 0; s < n; s++) {
        Expr **shape = NEW_ARRAY(im->arena, Expr *, steps[s]->rank + 1);
        shape[0] = number(im, 1);
        for (int k = 0; k < steps[s]->rank; k++) shape[k + 1] = steps[s]->shape[k];
        rows[s] = reshape_term(im, steps[s], steps[s]->rank + 1, shape);
    }
    output_term(im, node, i, concat_terms(im, node, rows, n, 0));
}

/* Imports the body once for each step; false where a condition turns out to depend on data. */
static bool unroll(Import *im, const OnnxNode *node, const Loop *l, int64_t trips)
{
    int n = l->body->n_inputs, steps = 0;
    Term **inputs = NEW_ARRAY(im->arena, Term *, n + 1), **stacked = NEW_ARRAY(im->arena, Term *, l->stacked * trips + 1);
    bool going = l->condition;
    for (int i = 0; i < l->carries; i++) inputs[i + 2] = l->initial[i];
    for (; going && steps < trips; steps++) {
        inputs[0] = known_term(im, DTYPE_i64, steps);
        inputs[1] = known_term(im, DTYPE_bool, 1);
        const int64_t before = im->copy;
        im->copy = before * MOST_UNROLLED + steps + 1;
        import_inline(im, l->body, inputs, n, l->results);
        im->copy = before;
        if (!known_truth(l->results[0], &going)) return false;
        for (int i = 0; i < l->carries; i++) inputs[i + 2] = l->results[i + 1];
        for (int i = 0; i < l->stacked; i++) stacked[i * trips + steps] = l->results[1 + l->carries + i];
    }
    for (int i = 0; i < l->carries; i++) output_term(im, node, i, inputs[i + 2]);
    for (int i = 0; i < l->stacked; i++) output_stacked(im, node, l->carries + i, stacked + i * trips, steps);
    return true;
}

/* Carried lists grow: what the body appends in a step is one of their items. */
static Term *growing(Import *im)
{
    Term *t = term_of_items(im, 0);
    t->grows = true;
    return t;
}

static Term *parameter_of(Import *im, const OnnxNode *node, const Loop *l, int i)
{
    const Term *initial = l->initial[i];
    return initial->is_sequence && !initial->rows && !initial->grows
               ? growing(im)
               : carry_parameter(im, node, l->body->inputs[i + 2].name, initial);
}

/* The body's iteration, its condition, and what it carries; the counter is the iteration, and what came before. */
static void define_inputs(Import *im, const OnnxNode *node, const Loop *l, Body *body, Term **carry)
{
    Graph *g = body->graph;
    for (int i = 0; i < l->carries; i++) carry[i] = i == l->counter ? NULL : parameter_of(im, node, l, i);
    body->iteration = body_parameter(im, l->body->inputs[0].name, DTYPE_i64, 0, NULL);
    scope_define(im, l->body->inputs[0].name, term_of_value(im, body->iteration));
    scope_define(im, l->body->inputs[1].name, known_term(im, DTYPE_bool, 1));
    for (int i = 0; i < l->carries; i++) {
        if (i == l->counter) {
            Value *v = b_cast(g, b_add(g, body->iteration, b_dim(g, l->first)), l->initial[i]->dtype);
            carry[i] = term_of_value(im, b_reshape(g, v, l->initial[i]->rank, l->initial[i]->shape));
        }
        scope_define(im, l->body->inputs[i + 2].name, carry[i]);
    }
}

/* The counter after the last step. */
static Term *counted(Import *im, const Loop *l)
{
    const Term *t = l->initial[l->counter];
    Expr **content = NEW_ARRAY(im->arena, Expr *, 1);
    content[0] = expr_add(im->symbols, l->first, l->trips);
    return term_of_content(im, t->dtype, t->rank, t->shape, content);
}

/* What the list was before, and behind it what each step appended. */
static Term *grown(Import *im, const Term *before, Value *appended)
{
    Term *t = NEW(im->arena, Term);
    *t = *before;
    if (appended) t->rows = term_of_value(im, appended);
    return t;
}

/* A body of carries, the iteration, captures; false where its condition is computed from data. */
static bool loop_as_scan(Import *im, const OnnxNode *node, const Loop *l)
{
    Graph *g = im->graph;
    Body *body = body_open(im, l->body, "body");
    Term **carry = NEW_ARRAY(im->arena, Term *, l->carries + 1);
    define_inputs(im, node, l, body, carry);
    body_results(im, l->body, l->results);
    bool going;
    const bool steady = l->counter >= 0 || (known_truth(l->results[0], &going) && going);
    Values operands = {0};
    for (int i = 0; steady && i < l->carries; i++) {
        if (i == l->counter || carry[i]->is_sequence) continue;
        check_carry(im, node, carry[i], l->results[i + 1], i);
        body_output(im, l->results[i + 1]);
    }
    const int tensors = body->graph->outputs.n;
    for (int i = l->carries; steady && i < l->carries + l->stacked; i++) body_output(im, l->results[i + 1]);
    for (int i = 0; steady && i < l->carries; i++) {
        const Term *result = l->results[i + 1];
        if (i == l->counter || !carry[i]->is_sequence) continue;
        if (!result->grows || result->n_items > 1)
            import_error(im, node, "carried value %d is a list, of which a step makes %s; wanted at most one item more a step, appended", i,
                         term_text(im, result));
        if (result->n_items) body_output(im, result->items[0]);
    }
    body_close(im);
    if (!steady) return false;
    for (int i = 0; i < l->carries; i++)
        if (i != l->counter && !carry[i]->is_sequence) vec_push(im->arena, &operands, term_value(im, l->initial[i]));
    vec_push(im->arena, &operands, b_iota(g, DTYPE_i64, 0, 1, &l->trips));
    for (int i = 0; i < body->outside.n; i++) vec_push(im->arena, &operands, body->outside.at[i]);
    Op *op = b_scan(g, body->graph, operands.at, operands.n, tensors, 1, false, l->trips);
    for (int i = 0; i < l->stacked; i++) output(im, node, l->carries + i, op->out[tensors + i]);
    for (int i = 0, k = 0, list = tensors + l->stacked; i < l->carries; i++) {
        if (i == l->counter)
            output_term(im, node, i, counted(im, l));
        else if (carry[i]->is_sequence)
            output_term(im, node, i, grown(im, l->initial[i], l->results[i + 1]->n_items ? op->out[list++] : NULL));
        else
            output(im, node, i, op->out[k++]);
    }
    return true;
}

/* ---- loops that count themselves ---- */
static bool adds_one(const Value *v, const Value *to)
{
    double step;
    if (!v->def || v->def->kind != OP_add) return false;
    for (int k = 0; k < 2; k++)
        if (v->def->in[k] == to && value_is_scalar_constant(v->def->in[1 - k], &step)) return step == 1;
    return false;
}

static const Value *behind_reshapes(const Value *v)
{
    while (v->def && (v->def->kind == OP_reshape || v->def->kind == OP_cast)) v = v->def->in[0];
    return v;
}

/* The number that the condition compares the counter's next value with, next < end; NULL where it does not. */
static Expr *counts_to(Import *im, const Term *condition, const Term *next)
{
    const Value *v = condition->value ? behind_reshapes(condition->value) : NULL;
    if (!v || !v->def || v->def->kind != OP_lt || !next->value) return NULL;
    if (behind_reshapes(v->def->in[0]) != behind_reshapes(next->value)) return NULL;
    return scalar_expr(im, term_of_value(im, v->def->in[1]));
}

/* while (i < n) { ...; i += 1; }, as it is or as a list is made: fills trips, counter and first.  The body is imported to look at it
 * and forgotten. */
static bool counts_itself(Import *im, const OnnxNode *node, Loop *l)
{
    const int64_t endless = (int64_t)1 << 31;
    int64_t limit;
    if (!l->condition_known || !l->condition || (l->has_limit && !(l->trips && expr_is_int(l->trips, &limit) && limit >= endless)))
        return false;
    Body *body = body_open(im, l->body, "body");
    Term **carry = NEW_ARRAY(im->arena, Term *, l->carries + 1);
    define_inputs(im, node, l, body, carry);
    body_results(im, l->body, l->results);
    for (int i = 0; i < l->carries && l->counter < 0; i++) {
        const Term *next = l->results[i + 1];
        if (carry[i]->is_sequence || dtype_is_float(carry[i]->dtype) || !(l->first = scalar_expr(im, l->initial[i]))) continue;
        Expr *end = counts_to(im, l->results[0], next);
        if (!end || !adds_one(behind_reshapes(next->value), carry[i]->value)) continue;
        l->counter = i;
        l->trips = max_of(im, expr_sub(im->symbols, end, l->first), number(im, 1));
    }
    body_close(im);
    return l->counter >= 0;
}

/* The limit, as seen from the graph that is being built.  Asked for before the body's nodes, whose results may have its name. */
static Value *limit_of(Import *im, const OnnxNode *node, const Loop *l)
{
    if (!l->has_limit) return NULL;
    return b_reshape(im->graph, b_cast(im->graph, term_value(im, scope_find(im, node->inputs[0])), DTYPE_i64), 0, NULL);
}

/* condition && iteration < limit, where there is a limit. */
static Value *going_on(Graph *g, Value *condition, Value *iteration, Value *limit)
{
    condition = b_reshape(g, condition, 0, NULL);
    return limit ? b_binary(g, OP_and, condition, b_binary(g, OP_lt, iteration, limit)) : condition;
}

static void loop_as_while(Import *im, const OnnxNode *node, const Loop *l)
{
    Graph *g = im->graph;
    for (int i = 0; i < l->stacked; i++)
        if (wants_output(node, l->carries + i))
            import_error(im, node,
                         "the number of steps is computed from data, so output %d, which stacks them, has no size; wanted a known "
                         "number of steps",
                         l->carries + i);
    Value *first = has_input(node, 1) ? input(im, node, 1) : b_number(g, DTYPE_bool, 1);
    first = going_on(g, first, b_number(g, DTYPE_i64, 0), limit_of(im, node, l));
    Body *body = body_open(im, l->body, "body");
    Value *iteration = body->iteration = body_parameter(im, l->body->inputs[0].name, DTYPE_i64, 0, NULL);
    scope_define(im, l->body->inputs[0].name, term_of_value(im, iteration));
    scope_define(im, l->body->inputs[1].name, known_term(im, DTYPE_bool, 1));
    Term **carry = NEW_ARRAY(im->arena, Term *, l->carries + 1);
    for (int i = 0; i < l->carries; i++) {
        carry[i] = carry_parameter(im, node, l->body->inputs[i + 2].name, l->initial[i]);
        scope_define(im, l->body->inputs[i + 2].name, carry[i]);
    }
    Value *limit = limit_of(im, node, l);
    body_results(im, l->body, l->results);
    Value *next = b_add(im->graph, iteration, b_number(im->graph, DTYPE_i64, 1));
    vec_push(im->arena, &im->graph->outputs, going_on(im->graph, term_value(im, l->results[0]), next, limit));
    for (int i = 0; i < l->carries; i++) {
        check_carry(im, node, carry[i], l->results[i + 1], i);
        body_output(im, l->results[i + 1]);
    }
    body_close(im);
    Values operands = {0};
    vec_push(im->arena, &operands, first);
    for (int i = 0; i < l->carries; i++) vec_push(im->arena, &operands, term_value(im, l->initial[i]));
    for (int i = 0; i < body->outside.n; i++) vec_push(im->arena, &operands, body->outside.at[i]);
    Op *op = b_while(g, body->graph, operands.at, operands.n, l->carries);
    for (int i = 0; i < op->n_out; i++) output(im, node, i, op->out[i]);
}

void import_Loop(Import *im, const OnnxNode *node)
{
    Loop l = loop_of(im, node);
    int64_t trips;
    bool carries_list = false;
    for (int i = 0; i < l.carries; i++) carries_list = carries_list || l.initial[i]->is_sequence || l.initial[i]->is_absent;
    if (l.trips && expr_is_int(l.trips, &trips) && l.condition_known && (trips <= MOST_UNROLLED || carries_list) &&
        unroll(im, node, &l, trips < 0 ? 0 : trips))
        return;
    if (l.trips && l.condition_known && l.condition && loop_as_scan(im, node, &l)) return;
    if (counts_itself(im, node, &l) && loop_as_scan(im, node, &l)) return;
    loop_as_while(im, node, &l);
}

/* ---- Scan ---- */
static int64_t listed(const OnnxNode *node, const char *name, int i)
{
    int n;
    const int64_t *values = attr_ints(node, name, &n);
    return values && i < n ? values[i] : 0;
}

/* x with axis moved to the front, or the front moved to axis. */
static Value *move_axis(Graph *g, Value *x, int from, int to)
{
    int64_t axes[MOST_AXES];
    int n = 0;
    for (int i = 0; i < x->rank; i++) {
        if (n == to) axes[n++] = from;
        if (i != from) axes[n++] = i;
    }
    if (n == to) axes[n] = from;
    return b_transpose(g, x, axes);
}

static Value *reversed(Import *im, Value *x)
{
    Expr *start[MOST_AXES];
    int64_t step[MOST_AXES];
    for (int i = 0; i < x->rank; i++) {
        start[i] = i ? number(im, 0) : expr_sub(im->symbols, x->shape[0], number(im, 1));
        step[i] = i ? 1 : -1;
    }
    return b_slice(im->graph, x, start, step, x->shape);
}

/* The sequences that Scan walks: time first, in the order of steps. */
static Value *walked(Import *im, const OnnxNode *node, int input_, int i, bool all_reversed)
{
    Value *x = input(im, node, input_);
    if (x->rank == 0) import_error(im, node, "input %d is a scalar; wanted a sequence to walk along", input_);
    int axis = normal_axis(im, node, listed(node, "scan_input_axes", i), x->rank);
    x = move_axis(im->graph, x, axis, 0);
    return listed(node, "scan_input_directions", i) && !all_reversed ? reversed(im, x) : x;
}

static bool draws_numbers(const OnnxGraph *g)
{
    static const char *const drawing[] = {"Dropout", "Bernoulli", "Multinomial"};
    bool found = false;
    for (int n = 0; n < g->n_nodes; n++) {
        const OnnxNode *node = g->nodes[n];
        found |= strncmp(node->op_type, "Random", strlen("Random")) == 0;
        for (size_t i = 0; i < sizeof drawing / sizeof *drawing; i++) found |= strcmp(node->op_type, drawing[i]) == 0;
        for (int a = 0; a < node->n_attributes; a++)
            if (node->attributes[a].type == ONNX_ATTR_GRAPH) found |= draws_numbers(node->attributes[a].g);
    }
    return found;
}

/* The body over operands: carries, then sequences, time first; behind them the iteration, for random numbers alone. */
static Op *scan_over(Import *im, const OnnxNode *node, const OnnxGraph *sub, Values operands, int carries, bool reverse)
{
    int slices = operands.n - carries;
    Expr *length = operands.at[carries]->shape[0];
    Body *body = body_open(im, sub, "body");
    Term **results = NEW_ARRAY(im->arena, Term *, sub->n_outputs + 1), **carry = NEW_ARRAY(im->arena, Term *, carries + 1);
    for (int i = 0; i < carries + slices; i++) {
        Value *v = operands.at[i];
        bool is_slice = i >= carries;
        if (is_slice && !state_equal(im, length, v->shape[0]))
            import_error(im, node, "walks along %s and %s: lengths differ", expr_text(im->arena, length), type_text(im, v));
        Term *t = term_of_value(im, body_parameter(im, sub->inputs[i].name, v->dtype, v->rank - is_slice, v->shape + is_slice));
        if (!is_slice) carry[i] = t;
        scope_define(im, sub->inputs[i].name, t);
    }
    if (draws_numbers(sub)) {
        vec_push(im->arena, &operands, b_iota(body->outer->graph, DTYPE_i64, 0, 1, &length));
        body->iteration = body_parameter(im, "iteration", DTYPE_i64, 0, NULL);
        slices++;
    }
    body_results(im, sub, results);
    for (int i = 0; i < sub->n_outputs; i++) {
        if (i < carries) check_carry(im, node, carry[i], results[i], i);
        body_output(im, results[i]);
    }
    body_close(im);
    for (int i = 0; i < body->outside.n; i++) vec_push(im->arena, &operands, body->outside.at[i]);
    return b_scan(im->graph, body->graph, operands.at, operands.n, carries, slices, reverse, length);
}

/* Opset 8: all inputs and outputs have a batch in front, and each of its samples is walked on its own. */
static void scan_batch(Import *im, const OnnxNode *node, const OnnxGraph *sub, int slices)
{
    enum { MOST_SAMPLES = 64 };
    Graph *g = im->graph;
    int carries = node->n_inputs - 1 - slices;
    int64_t batch;
    if (has_input(node, 0))
        import_error(im, node, "sequence_lens is given, which is not supported; pad the sequences to one length");
    if (carries < 0 || sub->n_inputs != carries + slices || sub->n_outputs < carries)
        import_error(im, node, "num_scan_inputs is %d for %d inputs; wanted a body to match", slices, node->n_inputs);
    if (!expr_is_int(input(im, node, 1)->shape[0], &batch) || batch < 1 || batch > MOST_SAMPLES)
        import_error(im, node, "Scan of opset 8 over a batch of %s; wanted a known number, at most %d, or opset 9",
                     expr_text(im->arena, input(im, node, 1)->shape[0]), MOST_SAMPLES);
    Value **rows = NEW_ARRAY(im->arena, Value *, sub->n_outputs * batch);
    for (int64_t b = 0; b < batch; b++) {
        Values operands = {0};
        for (int i = 0; i < carries + slices; i++) {
            Value *v = b_squeeze(g, b_slice_axis(g, input(im, node, i + 1), 0, number(im, b), number(im, 1)), 0);
            if (i >= carries && listed(node, "directions", i - carries)) v = reversed(im, v);
            vec_push(im->arena, &operands, v);
        }
        Op *op = scan_over(im, node, sub, operands, carries, false);
        for (int o = 0; o < sub->n_outputs; o++) rows[o * batch + b] = b_expand_dims(g, op->out[o], 0);
    }
    for (int o = 0; o < sub->n_outputs; o++) output(im, node, o, b_concat(g, rows + o * batch, (int)batch, 0));
}

void import_Scan(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    const OnnxGraph *sub = attr_graph(node, "body");
    int slices = (int)attr_int(node, "num_scan_inputs", 0), carries = node->n_inputs - slices;
    if (sub && slices > 0 && opset(im, node) < 9) {
        scan_batch(im, node, sub, slices);
        return;
    }
    if (!sub || slices < 1 || carries < 0 || sub->n_inputs != node->n_inputs || sub->n_outputs < carries)
        import_error(im, node, "num_scan_inputs is %d for %d inputs; wanted 1 or more, and a body to match", slices,
                     node->n_inputs);
    int stacked = sub->n_outputs - carries;
    bool reverse = true;
    for (int i = 0; i < slices; i++) reverse = reverse && listed(node, "scan_input_directions", i);
    for (int i = 0; i < stacked; i++) reverse = reverse && listed(node, "scan_output_directions", i);
    Values operands = {0};
    for (int i = 0; i < carries; i++) vec_push(im->arena, &operands, input(im, node, i));
    for (int i = 0; i < slices; i++) vec_push(im->arena, &operands, walked(im, node, carries + i, i, reverse));
    Op *op = scan_over(im, node, sub, operands, carries, reverse);
    for (int i = 0; i < carries; i++) output(im, node, i, op->out[i]);
    for (int i = 0; i < stacked; i++) {
        Value *v = op->out[carries + i];
        if (listed(node, "scan_output_directions", i) && !reverse) v = reversed(im, v);
        output(im, node, carries + i, move_axis(g, v, 0, normal_axis(im, node, listed(node, "scan_output_axes", i), v->rank)));
    }
}
