/* canaries FILE.safetensors WEIGHTS SECONDS: what guards and canaries cost a step of training, beside a step without them.
 *
 * Linked with a generated program's objects but main.o, whose calls of arrival_read and guards_first_broken come here (--wrap), and whose
 * updates stand in two forms (canaries.h).  Passes over the batches are done with them and without, in turn, so that a step and the one that
 * it is compared with differ by nothing else and lie within a pass of each other.  Prints, in microseconds:
 *
 * a step without; the checks on arrival, as a step does them; what its updates take more than those of the step without; what the
 * step takes more, which is all of it and the noise of everything else.  Each with its error; then the number of pairs. */
#define _GNU_SOURCE
#include "runtime/controller/guards.h"
#include "runtime/device/clock.h"
#include "runtime/trainer/arrival.h"
#include "runtime/trainer/data.h"
#include "runtime/trainer/session.h"
#include "model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PAIRS = 1 << 19, WARM_UP = 4 };

bool canaries_off;
double canaries_update_seconds;
static double check_seconds;

typedef struct {
    double step, checks, updates;
} Times;
typedef struct {
    Times with, without;
} Pair;

/* ---- in place of what a session calls ---- */
void __real_arrival_read(const Model *m, const Batch *batch, Arrived *arrived);
void __wrap_arrival_read(const Model *m, const Batch *batch, Arrived *arrived)
{
    for (int i = 0; i < m->n_inputs && canaries_off; i++) { /* shapes alone, which a step needs anyway */
        arrived[i] = (Arrived){.rank = batch->inputs[i].rank};
        memcpy(arrived[i].dims, batch->inputs[i].dims, sizeof arrived[i].dims);
    }
    if (canaries_off) return;
    const double start = seconds_now();
    __real_arrival_read(m, batch, arrived);
    check_seconds += seconds_now() - start;
}

const Guard *__real_guards_first_broken(const Model *m, Moment moment, const int64_t *dims, const Arrival *arrival,
                                        const Guard **range);
const Guard *__wrap_guards_first_broken(const Model *m, Moment moment, const int64_t *dims, const Arrival *arrival,
                                        const Guard **range)
{
    if (range) *range = NULL;
    if (canaries_off) return NULL;
    const double start = seconds_now();
    const Guard *broken = __real_guards_first_broken(m, moment, dims, arrival, range);
    check_seconds += seconds_now() - start;
    return broken;
}

/* ---- statistics ---- */
typedef struct {
    double value, error;
} Figure;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* A median, and its error from what half of the values differ from it by. */
static Figure median_with_error(double *values, int n)
{
    Figure f = {.value = median(values, n)};
    for (int i = 0; i < n; i++) values[i] = fabs(values[i] - f.value);
    f.error = 1.2533 * 1.4826 * median(values, n) / sqrt(n);
    return f;
}

/* The mean over a pass's batches, which differ in their dims, of each one's median over the pairs of passes. */
static Figure over_batches(const Pair *pairs, int n, int batches, double (*of)(const Pair *pair))
{
    static double values[MOST_PAIRS];
    Figure mean = {0};
    for (int b = 0; b < batches; b++) {
        int m = 0;
        for (int i = b; i < n; i += batches) values[m++] = of(&pairs[i]);
        const Figure f = median_with_error(values, m);
        mean.value += f.value / batches;
        mean.error += f.error * f.error / batches / batches;
    }
    mean.error = sqrt(mean.error);
    return mean;
}

static double step_without(const Pair *p)
{
    return p->without.step;
}
static double checks_with(const Pair *p)
{
    return p->with.checks;
}
static double updates_more(const Pair *p)
{
    return p->with.updates - p->without.updates;
}
static double step_more(const Pair *p)
{
    return p->with.step - p->without.step;
}

/* ---- */
static void need(int status, const Fault *fault)
{
    if (!status) return;
    fprintf(stderr, "canaries: %s\n", fault->text);
    exit(1);
}

static Times one_step(Session *session, Data *data, Batch *batch, int64_t k)
{
    static Fault fault;
    StepResult result;
    need(data_batch(data, k, batch, &fault), &fault);
    check_seconds = canaries_update_seconds = 0;
    const double start = seconds_now();
    need(session_run(session, model.train, batch, &result, &fault), &fault);
    const double took = seconds_now() - start;
    if (result.broke) need(fault_set(&fault, STATUS_FAULT, "guard %s broke", result.breach.name), &fault);
    return (Times){1e6 * took, 1e6 * check_seconds, 1e6 * canaries_update_seconds};
}

/* Passes with, without, without, with, …; a pair is a batch in both.  How many pairs. */
static int measure(Session *session, Data *data, Batch *batch, double seconds, Pair *pairs)
{
    int n = 0;
    const double start = seconds_now();
    for (int pass = -WARM_UP; pass < 2 || pass % 2 || (seconds_now() - start < seconds && n + data->n_batches <= MOST_PAIRS);
         pass++) {
        canaries_off = (pass & 3) == 1 || (pass & 3) == 2;
        for (int b = 0; b < data->n_batches; b++) {
            const Times t = one_step(session, data, batch, b);
            if (pass >= 0) *(canaries_off ? &pairs[n + b].without : &pairs[n + b].with) = t;
        }
        if (pass >= 0 && pass % 2) n += (int)data->n_batches;
    }
    return n;
}

int main(int n, char **arguments)
{
    static Fault fault;
    static Pair pairs[MOST_PAIRS];
    Session *session;
    Data data;
    Batch batch;
    const SessionOptions options = {.training = true, .seed = 1, .plan_again = true};
    const DataOptions from = {.path = n > 1 ? arguments[1] : "", .ready = true};
    need(data_open(&data, &model, model.train, &from, &fault), &fault);
    need(session_open(&session, &model, &options, &fault), &fault);
    need(session_load_weights(session, n > 2 ? arguments[2] : NULL, true, &fault), &fault);
    need(batch_create(&batch, &model), &fault);
    const int found = measure(session, &data, &batch, n > 3 ? atof(arguments[3]) : 10, pairs), batches = (int)data.n_batches;
    double (*const of[])(const Pair *) = {step_without, checks_with, updates_more, step_more};
    for (int i = 0; i < 4; i++) {
        const Figure f = over_batches(pairs, found, batches, of[i]);
        printf("%.3f %.3f ", f.value, f.error);
    }
    printf("%d\n", found);
    batch_destroy(&batch);
    session_close(session);
    data_close(&data);
    return 0;
}
