/* The gradient rule of while.
 *
 * Nobody knows how many steps there will be, so nothing is kept of them: the way back is a while of as many steps that begins each
 * by walking the forward loop again, from its start to the step whose turn it is.  Steps cost their number squared, memory nothing.
 *
 *     x[t+1] = f(x[t], w) while c(x[t+1])        forward, T steps
 *     T                                          counted: the forward loop once more, with a counter
 *     for t = T - 1 .. 0:
 *         x    = x[0], f applied t times         a while inside
 *         dw  += (df/dw)' dx                     at x
 *         dx   = (df/dx)' dx
 */
#include "passes/gradient.h"

typedef struct {
    Values inside, outside; /* parameters of a new body, and the operands that feed them */
} Operands;

typedef struct {
    Backward *outer;
    Op *op; /* the forward while */
    Graph *forward;
    int carries;
    Backward inner;   /* inner.g: the body of the way back, at first a clone of the forward body */
    Values parameter; /* the clone's inputs */
    Operands carry, constant;
    Values results;
} WhileGradient;

static void feed(Arena *arena, Operands *list, Value *inside, Value *outside)
{
    vec_push(arena, &list->inside, inside);
    vec_push(arena, &list->outside, outside);
}

static void append(Arena *arena, Values *list, const Values *more)
{
    for (int i = 0; i < more->n; i++) vec_push(arena, list, more->at[i]);
}

static Value *less(Graph *g, Value *a, Value *b)
{
    return b_binary(g, OP_lt, a, b);
}

static Value *integer(Graph *g, int64_t i)
{
    return b_number(g, DTYPE_i64, (double)i);
}

/* Walks the forward loop with one more carry, a counter, and gives that. */
static Value *count_steps(const WhileGradient *w)
{
    Graph *g = w->outer->g, *body = graph_clone(w->forward, "count", NULL);
    Values inputs = body->inputs;
    Operands all = {0};
    body->source = w->op->source;
    body->role = "gradient";
    Value *counter = parameter(body, "counted", 0, inputs.at[0]);
    for (int i = 0; i <= w->carries; i++) feed(g->arena, &all, inputs.at[i], w->op->in[i]);
    feed(g->arena, &all, counter, integer(g, 0));
    for (int i = 1 + w->carries; i < w->op->n_in; i++) feed(g->arena, &all, inputs.at[i], w->op->in[i]);
    body->inputs = all.inside;
    vec_push(g->arena, &body->outputs, b_add(body, counter, integer(body, 1)));
    return b_while(g, body, all.outside.at, all.outside.n, w->carries + 1)->out[w->carries];
}

/* Whether iteration + 1 < steps: a while of so many steps goes on. */
static Value *goes_on(Graph *body, Value *iteration, Value *steps)
{
    return less(body, b_add(body, iteration, integer(body, 1)), steps);
}

/* The forward body, for a given number of steps. */
static Graph *steady_body(const WhileGradient *w)
{
    Graph *body = graph_clone(w->forward, "again", NULL);
    body->source = w->op->source;
    body->role = "gradient";
    Value *iteration = body->inputs.at[0];
    body->outputs.at[0] = goes_on(body, iteration, parameter(body, "steps", 0, iteration));
    graph_prune(body);
    return body;
}

/* The gradients of the results enter as carries, and the rules run. */
static void differentiate(WhileGradient *w)
{
    Graph *g = w->outer->g, *body = graph_clone(w->forward, "gradient", NULL);
    int n_forward = body->ops.n;
    append(g->arena, &w->parameter, &body->inputs);
    body->source = w->op->source;
    body->role = "gradient";
    w->inner = backward_new(body);
    w->inner.wanted = wanted_inside(w->outer, w->op, body);
    for (int i = 1; i <= w->carries; i++) {
        if (!backward_wants(&w->inner, w->parameter.at[i])) continue;
        Value *p = parameter(body, "gradient_of_carry", i - 1, w->parameter.at[i]);
        feed(g->arena, &w->carry, p, or_zeros(g, backward_of(w->outer, w->op->out[i - 1]), w->op->in[i]));
        backward_add(&w->inner, body->outputs.at[i], p);
    }
    backward_run(&w->inner, n_forward);
}

/* What a step gives: gradients of the carries that want one, sums for the constants. */
static void give_results(WhileGradient *w)
{
    Graph *g = w->outer->g, *body = w->inner.g;
    for (int i = 1; i < w->op->n_in; i++) {
        Value *in = w->parameter.at[i], *gradient = backward_of(&w->inner, in);
        if (!backward_wants(&w->inner, in)) continue;
        if (i <= w->carries) {
            vec_push(g->arena, &w->results, or_zeros(body, gradient, in));
            continue;
        }
        Value *sum = parameter(body, "sum", i, in);
        feed(g->arena, &w->carry, sum, zeros_like(g, w->op->in[i]));
        vec_push(g->arena, &w->results, gradient ? b_add(body, sum, gradient) : sum);
    }
    body->outputs = w->results;
}

/* The step whose turn it is, and the carries as they were before it, in place of the clone's inputs. */
static void walk_again(WhileGradient *w, Value *iteration, Value *steps)
{
    Graph *body = w->inner.g;
    Values operands = {0};
    Value *t = b_sub(body, b_sub(body, steps, integer(body, 1)), iteration);
    vec_push(body->arena, &operands, less(body, integer(body, 0), t));
    for (int i = 1; i <= w->carries; i++) {
        Value *start = parameter(body, "start", i - 1, w->parameter.at[i]);
        feed(body->arena, &w->constant, start, w->op->in[i]);
        vec_push(body->arena, &operands, start);
    }
    for (int i = 1 + w->carries; i < w->op->n_in; i++) {
        feed(body->arena, &w->constant, w->parameter.at[i], w->op->in[i]);
        vec_push(body->arena, &operands, w->parameter.at[i]);
    }
    vec_push(body->arena, &operands, t);
    Op *again = b_while(body, steady_body(w), operands.at, operands.n, w->carries);
    graph_replace(body, w->parameter.at[0], t);
    for (int i = 0; i < w->carries; i++) graph_replace(body, w->parameter.at[1 + i], again->out[i]);
    graph_sort(body); /* it was made last, and comes first */
}

static Op *walk_back(WhileGradient *w, Value *count)
{
    Graph *g = w->outer->g, *body = w->inner.g;
    Value *like = w->parameter.at[0], *iteration = parameter(body, "back", 0, like), *steps = parameter(body, "count", 0, like);
    Operands all = {0};
    walk_again(w, iteration, steps);
    feed(g->arena, &all, iteration, less(g, integer(g, 0), count));
    append(g->arena, &all.inside, &w->carry.inside), append(g->arena, &all.outside, &w->carry.outside);
    feed(g->arena, &all, steps, count);
    append(g->arena, &all.inside, &w->constant.inside), append(g->arena, &all.outside, &w->constant.outside);
    w->results = body->outputs;
    body->outputs = (Values){0};
    vec_push(g->arena, &body->outputs, goes_on(body, iteration, steps));
    append(g->arena, &body->outputs, &w->results);
    body->inputs = all.inside;
    graph_prune(body);
    return b_while(g, body, all.outside.at, all.outside.n, w->results.n);
}

void gradient_while(Backward *b, Op *op)
{
    WhileGradient w = {.outer = b, .op = op, .forward = op->body[0], .carries = (int)op_int(op, ATTR_carries)};
    differentiate(&w);
    give_results(&w);
    Op *back = walk_back(&w, count_steps(&w));
    for (int i = 1, k = 0; i < op->n_in; i++)
        if (backward_wants(&w.inner, w.parameter.at[i])) backward_add(b, op->in[i], back->out[k++]);
}
