/* Compiled gradients of a node test against differences.  Needs: a session with weights, a batch.  Breaks: nothing. */
#include "test/conformance/runner_gradients.h"
#include "runtime/trainer/differences.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 24 }; /* elements of an input that are checked; of more, as many, dealt out evenly */

typedef struct {
    Session *session;
    Batch *batch;
    double *at; /* the element that varies */
    double loss;
    int checked, kinks, rounding;
    double worst;
    Fault *fault;
} Check;

static int run(Check *c, double *loss)
{
    StepResult result;
    const Program *p = c->session->model->infer;
    int status = session_run(c->session, p, c->batch, &result, c->fault);
    if (!status && result.broke)
        return fault_set(c->fault, STATUS_FAULT, "guard %s does not hold: %s, found %s", result.breach.name, result.breach.formula,
                         result.breach.values);
    return status ? status : session_output(c->session, p, 0, loss, sizeof *loss, c->fault);
}

static int loss_at(void *check, double x, double *loss)
{
    Check *c = check;
    double before = *c->at;
    *c->at = x;
    int status = run(c, loss);
    *c->at = before;
    return status;
}

static int check_element(Check *c, const char *name, int64_t i, Element e)
{
    Difference d;
    int status = difference_judge(&e, &precision_double, loss_at, c, &d);
    if (status) return status;
    c->checked++;
    c->kinks += d.verdict == DIFFERENCE_KINK;
    c->rounding += d.verdict == DIFFERENCE_ROUNDING;
    if (d.verdict == DIFFERENCE_AGREES && d.error > c->worst) c->worst = d.error;
    if (d.verdict != DIFFERENCE_WRONG) return 0;
    return fault_set(c->fault, STATUS_FAULT, "input \"%s\", element %" PRId64 " = %.6g: gradient %.9g, differences %.9g", name, i,
                     e.x, e.analytic, d.numeric);
}

/* gradient: NULL for none, which is zeros. */
static int check_input(Check *c, const char *name, double *x, int64_t n, const double *gradient)
{
    double square = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(x[i])) square += x[i] * x[i];
        if (gradient && fabs(gradient[i]) > most) most = fabs(gradient[i]);
    }
    double scale = square > 0 ? fmin(sqrt(square / (double)n), 1) : 1, least = most > 0 ? 1e-3 * most : 1e-6;
    int status = 0;
    for (int64_t k = 0, many = n < ALL ? n : ALL; k < many && !status; k++) {
        int64_t i = n <= ALL ? k : k * n / many + k % (n / many); /* not all at multiples of one stride */
        Element e = {.x = x[i], .scale = scale, .loss = c->loss, .analytic = gradient ? gradient[i] : 0, .least_size = least};
        c->at = &x[i];
        if (isfinite(e.x)) status = check_element(c, name, i, e);
    }
    return status;
}

/* Reads "by NAME" into new memory; NULL where the program has none. */
static int read_gradient(Check *c, const char *name, int64_t n, double **gradient)
{
    const Program *p = c->session->model->infer;
    *gradient = NULL;
    for (int i = 1; i < p->n_outputs; i++) {
        int64_t shape[MAX_RANK] = {0}, bytes;
        if (strncmp(p->outputs[i].name, "by ", 3) || strcmp(p->outputs[i].name + 3, name)) continue;
        bytes = session_output_bytes(c->session, p, i, shape);
        if (bytes != n * (int64_t)sizeof(double))
            return fault_set(c->fault, STATUS_FAULT, "the gradient of \"%s\" has another size", name);
        *gradient = malloc((size_t)bytes + 1);
        if (!*gradient) return fault_memory(c->fault);
        return session_output(c->session, p, i, *gradient, (size_t)bytes, c->fault);
    }
    return 0;
}

int run_gradients(Session *session, Batch *batch, char *said, size_t room, Fault *fault)
{
    Check c = {.session = session, .batch = batch, .fault = fault};
    const Model *m = session->model;
    double **gradients = calloc((size_t)m->n_inputs + 1, sizeof *gradients);
    int status = gradients ? run(&c, &c.loss) : fault_memory(fault);
    for (int i = 0; i < m->n_inputs && !status; i++) /* all, before another run */
        if (m->inputs[i].dtype == F64)
            status = read_gradient(&c, m->inputs[i].name, (int64_t)(batch->inputs[i].bytes / sizeof(double)), &gradients[i]);
    const bool can_be = !status && isfinite(c.loss);
    if (!status && !can_be) snprintf(said, room, "the loss is not finite");
    for (int i = 0; i < m->n_inputs && can_be && !status; i++)
        if (m->inputs[i].dtype == F64)
            status = check_input(&c, m->inputs[i].name, batch->inputs[i].data, (int64_t)(batch->inputs[i].bytes / sizeof(double)),
                                 gradients[i]);
    if (can_be && !status) snprintf(said, room, "%d %d %d %.1e", c.checked, c.kinks, c.rounding, c.worst);
    for (int i = 0; gradients && i < m->n_inputs; i++) free(gradients[i]);
    free(gradients);
    return status;
}
