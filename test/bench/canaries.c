/* canaries FILE.safetensors [WEIGHTS] STEPS: what the checks of a batch on arrival cost: ranks, dims, lowest and highest integers, whether floats
 * are finite, and every guard, beside a step of training.  Linked with a generated program's objects but main.o.  Prints, in microseconds, what
 * checks take, a step (medians over the batches), and the least of the processor's time that a step of each batch took, added up over the
 * batches: on one thread other processes change it little. */
#define _GNU_SOURCE
#include "runtime/trainer/arrival.h"
#include "runtime/trainer/data.h"
#include "runtime/trainer/session.h"
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TIMES = 50, STEPS_MOST = 1000, BATCHES_MOST = 64 };

static double clock_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static double now(void)
{
    return clock_now(CLOCK_MONOTONIC);
}

static void need(int status, const Fault *fault)
{
    if (!status) return;
    fprintf(stderr, "canaries: %s\n", fault->text);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* As a step does it, before anything runs. */
static double check(Session *s, const Batch *batch, bool *broken)
{
    const double start = now();
    for (int i = 0; i < TIMES; i++) {
        arrival_read(s->model, batch, s->arrived);
        bind_dims(s->model, s->arrived, s->dims);
        const Arrival arrival = {.input = s->arrived, .loss_is_finite = true, .update_is_finite = true};
        const Guard *range = NULL;
        *broken |= guards_first_broken(s->model, ON_ARRIVAL, s->dims, &arrival, &range) != NULL;
        *broken |= guards_first_broken(s->model, ON_CONTENT, s->dims, &arrival, NULL) != NULL;
    }
    return (now() - start) / TIMES;
}

int main(int n, char **arguments)
{
    static Fault fault;
    static double checks[STEPS_MOST], steps[STEPS_MOST], least[BATCHES_MOST];
    Session *session;
    Data data;
    Batch batch;
    StepResult result;
    bool broken = false;
    const SessionOptions options = {.training = true, .seed = 1, .plan_again = true};
    const DataOptions from = {.path = n > 1 ? arguments[1] : "", .ready = true};
    const int wanted = n > 3 ? atoi(arguments[3]) : 16, most = wanted < STEPS_MOST ? wanted : STEPS_MOST;
    need(data_open(&data, &model, model.train, &from, &fault), &fault);
    need(session_open(&session, &model, &options, &fault), &fault);
    need(session_load_weights(session, n > 2 ? arguments[2] : NULL, true, &fault), &fault);
    need(batch_create(&batch, &model), &fault);
    for (int k = -(int)data.n_batches; k < most; k++) {
        need(data_batch(&data, k + data.n_batches, &batch, &fault), &fault);
        const double start = now(), begun = clock_now(CLOCK_PROCESS_CPUTIME_ID);
        need(session_run(session, model.train, &batch, &result, &fault), &fault);
        if (k < 0) continue;
        steps[k] = now() - start;
        double *shortest = &least[k % data.n_batches % BATCHES_MOST], spent = clock_now(CLOCK_PROCESS_CPUTIME_ID) - begun;
        if (!*shortest || spent < *shortest) *shortest = spent;
        checks[k] = check(session, &batch, &broken);
    }
    double sum = 0;
    for (int b = 0; b < BATCHES_MOST; b++) sum += least[b];
    printf("%.2f %.1f %.1f\n", median(checks, most), median(steps, most), sum);
    batch_destroy(&batch);
    session_close(session);
    data_close(&data);
    return broken;
}
