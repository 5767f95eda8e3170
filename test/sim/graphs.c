/* The same training twice in the simulator, its kernels launched one by one and as graphs: losses, weights and states must be the same bits,
 * although the learning rate changes with every step.  graphs BATCHES WEIGHTS STEPS LIMIT FAULT [scale]: FAULT as in DISC_FAULT, of the second run alone; scale:
 * at the fifth step gradients overflow.  Prints what happened to graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/data.h"
#include "trainer/session.h"

typedef struct {
    double *loss;
    char *state;
    int64_t peak, recomputed;
    int overflows, mended;
} Outcome;

static void fail(const char *what, int64_t step)
{
    printf("FAILED: %s, step %lld\n", what, (long long)step);
    exit(1);
}

static void tell(Session *s, int64_t step)
{
    GraphEvent e;
    while (s->graphs && graphs_event(s->graphs, &e))
        printf("step %lld: %s%s%s, %d launches in %d graphs\n", (long long)step, e.event, *e.why ? ": " : "", e.why, e.size.launches, e.size.graphs);
}

static void train(char **argv, bool graphs, Outcome *out)
{
    const int64_t steps = atoll(argv[3]), limit = atoll(argv[4]);
    const SessionOptions options = {.training = true, .seed = 3, .memory_limit = limit, .plan_again = true, .graphs = graphs, .folder = getenv("FOLDER")};
    const DataOptions wanted = {.path = argv[1], .ready = true, .seed = 1};
    Session *s;
    Data data;
    Batch batch;
    Fault fault = {0};
    if (graphs && *argv[5]) setenv("DISC_FAULT", argv[5], 1);
    if (session_open(&s, &model, &options, &fault) || session_load_weights(s, argv[2], true, &fault) ||
        data_open(&data, &model, model.train, &wanted, &fault) || batch_create(&batch, &model))
        fail(fault.text, -1);
    out->loss = calloc((size_t)steps, sizeof *out->loss);
    for (int64_t k = 0; k < steps; k++) {
        StepResult result;
        Mended event;
        session_set_hyper(s, "lr", 1e-3 * (double)(1 + k % 5));
        if (argv[6] && k == 5) s->loss_scale = 0x1p120;
        if (data_batch(&data, k, &batch, &fault) || session_run(s, model.train, &batch, &result, &fault)) fail(fault.text, k);
        if (result.broke) fail("a batch is set aside", k);
        if (limit && result.peak_bytes > limit) fail("the peak is above the limit", k);
        out->loss[k] = result.loss;
        out->overflows += result.overflowed;
        out->recomputed += result.recomputed;
        while (mend_event(s->mend, &event)) out->mended++;
        tell(s, k);
    }
    out->peak = s->peak_bytes;
    out->state = malloc((size_t)s->state_bytes);
    if (device_download(s->device, out->state, s->state, (size_t)s->state_bytes)) fail("no copy", steps);
    if (!graphs) printf("%lld steps, %d overflows, recomputes: %s\n", (long long)steps, out->overflows, out->recomputed ? "yes" : "no");
    batch_destroy(&batch);
    data_close(&data);
    session_close(s);
}

int main(int argc, char **argv)
{
    static Outcome plain, graphs;
    if (argc < 6) return 2;
    train(argv, false, &plain);
    train(argv, true, &graphs);
    for (int64_t k = 0; k < atoll(argv[3]); k++)
        if (memcmp(&plain.loss[k], &graphs.loss[k], sizeof(double)) && !graphs.mended) fail("other losses", k);
    if (memcmp(plain.state, graphs.state, (size_t)state_bytes(&model, true)) && !graphs.mended) fail("other weights or states", -1);
    if (graphs.mended) printf("%d units mended\n", graphs.mended);
    puts(graphs.mended ? "trained" : "the same bits");
    return 0;
}
