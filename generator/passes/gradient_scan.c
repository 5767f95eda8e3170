/* The gradient rule of scan.
 *
 * A scan's gradient is a scan the other way.  Its body begins with a copy of the forward body, which remakes what a step's rules
 * need from the step's incoming carries, slices and constants; the forward scan is made to stack what costs too much to remake
 * (results of dot, tanh and the like) and the incoming carries.  It carries the gradients of the forward carries and one sum for each
 * constant; it stacks the gradients of the slices.
 *
 *     h[t] = tanh(x[t] + dot(h[t-1], R))      forward, stacks h[t]
 *     dz   = (dh + dy[t]) * (1 - h[t]^2)      backward, carries dh = dot(dz, R'), stacks dz, which is also the gradient of x[t]
 *     dR   = dot(all h[t-1]', all dz)         once, over time and batch together
 *
 * The last line is for a constant that only ever is the right operand of a dot, or is broadcast: a bias.  Any other is summed step
 * by step. */
#include "passes/gradient.h"

typedef struct {
    Values inside, outside; /* parameters of the new body, and the operands that feed them */
} Operands;

/* What becomes of a stacked result: the gradient of a slice as it is, or, reduced over time, that of a constant. */
typedef struct {
    int stacked;       /* which result */
    Value *to;         /* operand of the forward scan */
    const Op *through; /* the dot or broadcast by which a constant entered; NULL for a slice */
    Value *left;       /* of a dot: its left operands of all steps, (time, m, k) */
} Use;

enum { COSTLY = -1, CHEAP = -2 };

typedef struct {
    Backward *outer, inner; /* inner.g: the new body, a copy of the forward body that grows */
    Op *op;                 /* the forward scan */
    Graph *forward;         /* its body */
    Value **input;          /* the new body's inputs, at first the forward body's */
    int n_forward;          /* operations of the new body that are copies */
    int *n_out;             /* of each copy, before its rule could add results */
    int *chain;             /* of each copy: what it comes of (chains) */
    Value **original;       /* by id in the new body: the forward value it is a copy of */
    Value **stash;          /* by the same id: that value, of all steps, outside */
    bool *late;             /* by operand: its gradient is made after the loop */
    int carries, slices;
    Expr *length;
    Operands carry, slice, constant;
    Values carry_out, stacked_out; /* results of the new body */
    VEC(Value *) carry_to;         /* operands of the forward scan whose gradients they are */
    VEC(Use) uses;
} ScanGradient;

static Value *body_input(const ScanGradient *s, int i)
{
    return s->input[i];
}

static void feed(ScanGradient *s, Operands *list, Value *inside, Value *outside)
{
    vec_push(s->outer->g->arena, &list->inside, inside);
    vec_push(s->outer->g->arena, &list->outside, outside);
}

/* Tens of instructions each, where an addition is one. */
static bool transcendental(OpKind kind)
{
    switch (kind) {
    case OP_exp:
    case OP_expm1:
    case OP_log:
    case OP_log1p:
    case OP_sin:
    case OP_cos:
    case OP_tan:
    case OP_asin:
    case OP_acos:
    case OP_atan:
    case OP_sinh:
    case OP_cosh:
    case OP_asinh:
    case OP_acosh:
    case OP_atanh:
    case OP_tanh:
    case OP_erf:
    case OP_sigmoid:
    case OP_pow: return true;
    default: return false;
    }
}

/* Worth stacking rather than doing again. */
static bool costly(const Op *op)
{
    OpClass class = op_info(op->kind)->class;
    return class == DOT || class == CONV || class == POOL || class == SORT || class == SCATTER || class == CUMULATIVE ||
           class == REGION || op_kind_draws(op->kind) || transcendental(op->kind);
}

/* By operation of the body: COSTLY; CHEAP; or the operand through which alone the result of a costly one reaches it, as of add in
 * dot(h, R) + x: then it is as good to keep. */
static int *chains(const Graph *body)
{
    int *chain = NEW_ARRAY(body->arena, int, body->ops.n + 1), *place = NEW_ARRAY(body->arena, int, body->next_op + 1);
    for (int o = 0; o < body->ops.n; o++) {
        const Op *op = body->ops.at[o];
        place[op->id] = o;
        chain[o] = costly(op) ? COSTLY : CHEAP;
        for (int i = 0; chain[o] == CHEAP && op_info(op->kind)->class == ELEMENTWISE && i < op->n_in; i++) {
            const Value *v = op->in[i];
            if (v->def && chain[place[v->def->id]] != CHEAP && v->users.n == 1 && dtype_is_float(v->dtype)) chain[o] = i;
        }
    }
    return chain;
}

static ScanGradient scan_begin(Backward *outer, Op *op)
{
    Arena *arena = outer->g->arena;
    ScanGradient s = {.outer = outer, .op = op, .forward = op->body[0]};
    Value **map;
    Graph *body = graph_clone(s.forward, "gradient", &map);
    s.input = NEW_ARRAY(arena, Value *, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++) s.input[i] = body->inputs.at[i];
    s.inner = backward_new(body);
    s.inner.wanted = wanted_inside(outer, op, body);
    s.late = NEW_ARRAY(arena, bool, op->n_in + 1);
    s.n_forward = body->ops.n;
    body->source = op->source;
    body->role = "gradient";
    s.n_out = NEW_ARRAY(arena, int, s.n_forward + 1);
    for (int i = 0; i < s.n_forward; i++) s.n_out[i] = body->ops.at[i]->n_out;
    s.chain = chains(body);
    s.original = NEW_ARRAY(arena, Value *, body->next_value + 1);
    s.stash = NEW_ARRAY(arena, Value *, body->next_value + 1);
    for (int i = 0; i < s.forward->inputs.n; i++) s.original[body->inputs.at[i]->id] = s.forward->inputs.at[i];
    for (int i = 0; i < s.n_forward; i++)
        for (int k = 0; k < s.n_out[i]; k++) s.original[body->ops.at[i]->out[k]->id] = s.forward->ops.at[i]->out[k];
    s.carries = (int)op_int(op, ATTR_carries);
    s.slices = (int)op_int(op, ATTR_slices);
    s.length = s.slices ? op->in[s.carries]->shape[0] : op->out[s.carries]->shape[0];
    return s;
}

/* The value of all steps, (time, ..), as a stacked result of the forward scan: an additional one where the scan has none of it. */
static Value *stack(ScanGradient *s, Value *v)
{
    Graph *g = s->outer->g;
    Op *op = s->op;
    for (int i = s->carries; i < op->n_out; i++)
        if (v == s->forward->outputs.at[i]) return op->out[i];
    vec_push(g->arena, &s->forward->outputs, v);
    Value **out = NEW_ARRAY(g->arena, Value *, op->n_out + 2);
    for (int i = 0; i < op->n_out; i++) out[i] = op->out[i];
    op->out = out;
    op->n_out++;
    Expr **shape = NEW_ARRAY(g->arena, Expr *, v->rank + 1);
    shape[0] = s->length;
    for (int i = 0; i < v->rank; i++) shape[i + 1] = v->shape[i];
    return op_result(g, op, op->n_out - 1, v->dtype, v->rank + 1, shape);
}

/* The value of all steps: a slice is its operand. */
static Value *stash(ScanGradient *s, const Value *inside)
{
    Value **known = &s->stash[inside->id];
    for (int i = s->carries; !*known && i < s->carries + s->slices; i++)
        if (inside == body_input(s, i)) *known = s->op->in[i];
    if (!*known) *known = stack(s, s->original[inside->id]);
    return *known;
}

/* Gradients of the scan's results enter the body: those of last carries as the first value of a carry, those of stacked results as
 * slices. */
static void scan_seed(ScanGradient *s)
{
    Graph *body = s->inner.g;
    for (int i = 0; i < s->carries; i++) {
        Value *in = body_input(s, i), *result = s->op->out[i];
        if (!backward_wants(&s->inner, in)) continue;
        Value *p = parameter(body, "gradient_of_carry", i, in);
        feed(s, &s->carry, p, or_zeros(s->outer->g, backward_of(s->outer, result), s->op->in[i]));
        backward_add(&s->inner, body->outputs.at[i], p);
    }
    for (int i = s->carries; i < body->outputs.n; i++) {
        Value *g = backward_of(s->outer, s->op->out[i]), *result = body->outputs.at[i];
        if (!g || !backward_wants(&s->inner, result)) continue;
        Value *p = parameter(body, "gradient_of_stacked", i - s->carries, result);
        feed(s, &s->slice, p, g);
        backward_add(&s->inner, result, p);
    }
}

/* Whether a constant only ever enters as a matrix that rows are multiplied by, or by being broadcast. */
static bool sums_afterwards(const Graph *body, const Value *constant)
{
    if (graph_is_output(body, constant)) return false;
    for (int i = 0; i < constant->users.n; i++) {
        const Op *user = constant->users.at[i];
        bool multiplies = user->kind == OP_dot && user->in[1] == constant && user->in[0] != constant && constant->rank == 2 &&
                          !op_int(user, ATTR_trans_a);
        if (!multiplies && user->kind != OP_broadcast) return false;
    }
    return true;
}

/* Constants that need no sum in the loop want nothing inside any more. */
static void defer_constants(ScanGradient *s)
{
    for (int i = s->carries + s->slices; i < s->op->n_in; i++) {
        const Value *constant = body_input(s, i);
        s->late[i] = backward_wants(&s->inner, constant) && sums_afterwards(s->inner.g, constant);
        if (s->late[i]) s->inner.wanted[constant->id] = false;
    }
}

static void give_carry(ScanGradient *s, Value *out, Value *to)
{
    vec_push(s->outer->g->arena, &s->carry_out, out);
    vec_push(s->outer->g->arena, &s->carry_to, to);
}

static void give_stacked(ScanGradient *s, Value *out, Use use)
{
    while (use.stacked < s->stacked_out.n && s->stacked_out.at[use.stacked] != out) use.stacked++;
    if (use.stacked == s->stacked_out.n) vec_push(s->outer->g->arena, &s->stacked_out, out);
    vec_push(s->outer->g->arena, &s->uses, use);
}

/* A late constant, operand i: the gradients of what it is multiplied or broadcast into are stacked. */
static void give_late(ScanGradient *s, int i)
{
    const Value *constant = body_input(s, i);
    for (int k = 0; k < constant->users.n; k++) {
        const Op *user = constant->users.at[k];
        Value *g = backward_of(&s->inner, user->out[0]); /* NULL too where a rule made this user */
        if (!g) continue;
        Value *left = user->kind == OP_dot ? stash(s, user->in[0]) : NULL;
        give_stacked(s, g, (Use){0, s->op->in[i], user, left});
    }
}

static void scan_results(ScanGradient *s)
{
    Graph *body = s->inner.g;
    for (int i = 0; i < s->op->n_in; i++) {
        Value *in = body_input(s, i), *g = backward_of(&s->inner, in);
        if (s->late[i]) give_late(s, i);
        if (!backward_wants(&s->inner, in)) continue;
        if (i < s->carries) {
            give_carry(s, or_zeros(body, g, in), s->op->in[i]);
        } else if (g && i < s->carries + s->slices) {
            give_stacked(s, g, (Use){.to = s->op->in[i]});
        } else if (g) {
            Value *sum = parameter(body, "sum", i, in);
            feed(s, &s->carry, sum, zeros_like(s->outer->g, s->op->in[i]));
            give_carry(s, b_add(body, sum, g), s->op->in[i]);
        }
    }
    body->outputs.n = 0;
    for (int i = 0; i < s->carry_out.n; i++) vec_push(body->arena, &body->outputs, s->carry_out.at[i]);
    for (int i = 0; i < s->stacked_out.n; i++) vec_push(body->arena, &body->outputs, s->stacked_out.at[i]);
}

/* Walks back from the body's results.  What came of something costly is read from the stash instead, and nothing before it is
 * needed: of tanh(dot(h, R) + x) the tanh is kept where its rule asks for just that, the sum where something else reads it too. */
static void read_stash(ScanGradient *s)
{
    Graph *body = s->inner.g;
    bool *needed = NEW_ARRAY(body->arena, bool, body->next_value + 1);
    for (int i = 0; i < body->outputs.n; i++) needed[body->outputs.at[i]->id] = true;
    for (int o = body->ops.n - 1; o >= 0; o--) {
        Op *op = body->ops.at[o];
        bool any = false;
        for (int i = 0; i < op->n_out; i++) any |= needed[op->out[i]->id];
        if (!any) continue;
        bool keep = o < s->n_forward && op->n_out == s->n_out[o] && s->chain[o] != CHEAP;
        if (keep && s->chain[o] != COSTLY) keep = !needed[op->in[s->chain[o]]->id];
        for (int i = 0; !keep && i < op->n_in; i++) needed[op->in[i]->id] = true;
        for (int i = 0; keep && i < op->n_out; i++) {
            if (!needed[op->out[i]->id]) continue;
            Value *p = parameter(body, "stash", op->out[i]->id, op->out[i]);
            feed(s, &s->slice, p, stash(s, op->out[i]));
            graph_replace(body, op->out[i], p);
        }
    }
}

static bool is_used(const Graph *body, const Value *v)
{
    return v->users.n > 0 || graph_is_output(body, v);
}

/* The new body's inputs become: carries, slices, constants; of the copied ones those that are still used. */
static void scan_inputs(ScanGradient *s)
{
    Graph *body = s->inner.g;
    for (int i = 0; i < s->op->n_in; i++) {
        Value *in = body_input(s, i);
        if (!is_used(body, in)) continue;
        if (i < s->carries + s->slices)
            feed(s, &s->slice, in, stash(s, in));
        else
            feed(s, &s->constant, in, s->op->in[i]);
    }
    if (s->slice.inside.n + s->stacked_out.n == 0) { /* something must tell the number of steps */
        Value *in = body_input(s, s->slices ? s->carries : 0);
        feed(s, &s->slice, in, stash(s, in));
    }
    body->inputs.n = 0;
    const Operands *lists[] = {&s->carry, &s->slice, &s->constant};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < lists[k]->inside.n; i++) vec_push(body->arena, &body->inputs, lists[k]->inside.at[i]);
}

static Op *scan_backward(ScanGradient *s)
{
    Graph *g = s->outer->g;
    Values operands = {0};
    const Operands *lists[] = {&s->carry, &s->slice, &s->constant};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < lists[k]->outside.n; i++) vec_push(g->arena, &operands, lists[k]->outside.at[i]);
    bool reverse = !op_int(s->op, ATTR_reverse);
    return b_scan(g, s->inner.g, operands.at, operands.n, s->carry.inside.n, s->slice.inside.n, reverse, s->length);
}

/* dR of y = dot(a, R), or of dot(a, R'), over all steps at once: rows are time and batch together. */
static Value *dot_over_time(Graph *graph, const Use *use, Value *g)
{
    Value *a = use->left;
    Expr *rows = expr_mul(graph->symbols, a->shape[0], a->shape[1]);
    Expr *of_a[] = {rows, a->shape[2]}, *of_g[] = {rows, g->shape[2]};
    a = b_reshape(graph, a, 2, of_a);
    g = b_reshape(graph, g, 2, of_g);
    return op_int(use->through, ATTR_trans_b) ? b_dot(graph, g, a, true, false) : b_dot(graph, a, g, true, false);
}

/* The sum over time and over what broadcasting added; g is (time, ..). */
static Value *sum_over_time(Graph *graph, const Use *use, Value *g)
{
    int n;
    const int64_t *axes = op_ints(use->through, ATTR_axes, &n);
    int64_t *behind_time = NEW_ARRAY(graph->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) behind_time[i] = axes[i] + 1;
    return sum_broadcast(graph, g, use->to, behind_time);
}

static void scan_distribute(const ScanGradient *s, const Op *back)
{
    Graph *graph = s->outer->g;
    int carries = s->carry_to.n;
    for (int i = 0; i < carries; i++) backward_add(s->outer, s->carry_to.at[i], back->out[i]);
    for (int i = 0; i < s->uses.n; i++) {
        const Use *use = &s->uses.at[i];
        Value *g = back->out[carries + use->stacked];
        if (use->through) g = use->left ? dot_over_time(graph, use, g) : sum_over_time(graph, use, g);
        backward_add(s->outer, use->to, g);
    }
}

void gradient_scan(Backward *b, Op *op)
{
    ScanGradient s = scan_begin(b, op);
    defer_constants(&s);
    scan_seed(&s);
    backward_run(&s.inner, s.n_forward);
    scan_results(&s);
    read_stash(&s);
    graph_prune(s.inner.g);
    scan_inputs(&s);
    scan_distribute(&s, scan_backward(&s));
}
