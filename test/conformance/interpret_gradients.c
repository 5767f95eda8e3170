/* Gradients of one graph against differences, in the interpreter.  Needs: a graph that interpret() knows.  Breaks: its outputs. */
#include "test/conformance/interpret_gradients.h"
#include "runtime/trainer/differences.h"
#include <math.h>
#include <stdio.h>

enum { SAMPLED = 24 }; /* elements of an input; all where it has no more */

typedef struct {
    Arena *arena;
    Graph *g;
    int64_t *dims;
    Array *inputs;
    double *at; /* the element that varies */
} Check;

static double uniform(uint64_t *state, double low, double high)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(*state >> 11) / 9007199254740992.0;
}

static int run(const Check *c, double *loss, Array *gradients)
{
    Array *outputs = NEW_ARRAY(c->arena, Array, c->g->outputs.n + 1);
    interpret(c->arena, c->g, c->dims, c->inputs, outputs);
    *loss = outputs[0].at[0];
    for (int i = 1; gradients && i < c->g->outputs.n; i++) gradients[i] = outputs[i];
    return 0;
}

static int loss_at(void *context, double x, double *loss)
{
    Check *c = context, scratch = *c;
    double before = *c->at;
    scratch.arena = arena_new();
    *c->at = x;
    run(&scratch, loss, NULL);
    *c->at = before;
    arena_free(scratch.arena);
    return 0;
}

static void check_element(Check *c, int i, int64_t k, double loss, double scale, double most, const Array *gradient,
                          GradientResult *r)
{
    Element e = {.x = c->inputs[i].at[k],
                 .scale = scale,
                 .loss = loss,
                 .analytic = gradient ? gradient->at[k] : 0,
                 .least_size = 1e-3 * most};
    Difference d;
    c->at = &c->inputs[i].at[k];
    if (!isfinite(e.x)) return;
    if (e.least_size == 0) e.least_size = 1e-6;
    difference_judge(&e, &precision_double, loss_at, c, &d);
    r->checked++;
    r->kinks += d.verdict == DIFFERENCE_KINK;
    r->rounding += d.verdict == DIFFERENCE_ROUNDING;
    if (d.verdict == DIFFERENCE_AGREES && d.error > r->worst) r->worst = d.error;
    if (d.verdict == DIFFERENCE_WRONG && !r->wrong++)
        snprintf(r->first, sizeof r->first, "input \"%s\", element %lld = %.6g: gradient %.9g%s, differences %.9g",
                 c->g->inputs.at[i]->name, (long long)k, e.x, e.analytic, gradient ? "" : " (none)", d.numeric);
}

static void check_input(Check *c, int i, double loss, const Array *gradient, GradientResult *r)
{
    const Array *x = &c->inputs[i];
    double square = 0, most = 0;
    uint64_t state = 11;
    for (int64_t k = 0; k < x->n; k++) {
        if (isfinite(x->at[k])) square += x->at[k] * x->at[k];
        if (gradient && fabs(gradient->at[k]) > most) most = fabs(gradient->at[k]);
    }
    double scale = x->n && square > 0 ? fmin(sqrt(square / (double)x->n), 1) : 1;
    for (int64_t k = 0, n = x->n < SAMPLED ? x->n : SAMPLED; k < n; k++)
        check_element(c, i, n == x->n ? k : (int64_t)uniform(&state, 0, (double)x->n), loss, scale, most, gradient, r);
}

void check_gradients(Arena *arena, Graph *g, int64_t *dims, Array *inputs, GradientResult *r)
{
    Check c = {.arena = arena, .g = g, .dims = dims, .inputs = inputs};
    int *output_of = NEW_ARRAY(arena, int, g->inputs.n + 1);
    double loss;
    if ((r->reason = gradient_graph(g, output_of))) return;
    for (int i = 0; i < g->inputs.n; i++) inputs[i].dtype = g->inputs.at[i]->dtype;
    Array *gradients = NEW_ARRAY(arena, Array, g->outputs.n + 1);
    run(&c, &loss, gradients);
    if (!isfinite(loss)) {
        r->reason = "the loss is not finite";
        return;
    }
    for (int i = 0; i < g->inputs.n; i++)
        if (dtype_is_float(g->inputs.at[i]->dtype)) check_input(&c, i, loss, output_of[i] ? &gradients[output_of[i]] : NULL, r);
    if (!r->checked) r->reason = "no element to check";
}
