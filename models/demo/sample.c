/* Lets a trained model of bytes write: an example of a program that embeds a generated model.
 *
 *     sample WEIGHTS.safetensors "beginning" COUNT
 *
 * Built against a folder that disc-gen wrote, from whose evaluation program it takes the logits; one token at a time, drawn at a
 * temperature. */
#include "runtime/trainer/session.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 128, LONGEST = 192, LOGITS = 3 /* outputs of evaluation: loss, correct, counted, then the model's */ };

static uint64_t random_state = 7;
static double next_uniform(void) /* splitmix64 */
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int draw(const float *logits, double temperature)
{
    double weight[VOCABULARY], total = 0, top = -INFINITY;
    for (int i = 0; i < VOCABULARY; i++) top = fmax(top, logits[i]);
    for (int i = 0; i < VOCABULARY; i++) total += weight[i] = exp((logits[i] - top) / temperature);
    double left = next_uniform() * total;
    for (int i = 0; i < VOCABULARY; i++)
        if ((left -= weight[i]) < 0) return i;
    return ' ';
}

/* The next token after text[0..n): runs the model over the last LONGEST of them. */
static int next_token(Session *session, Batch *batch, const char *text, int n, int *token, Fault *fault)
{
    static float logits[LONGEST * VOCABULARY];
    const int begin = n > LONGEST ? n - LONGEST : 0, seq = n - begin;
    BatchInput *ids = &batch->inputs[0];
    if (batch_reserve(ids, (size_t)seq * sizeof(int64_t))) return fault_memory(fault);
    ids->present = true, ids->rank = 2, ids->dims[0] = 1, ids->dims[1] = seq;
    for (int i = 0; i < seq; i++) ((int64_t *)ids->data)[i] = text[begin + i];
    StepResult result;
    if (session_run(session, model.evaluate, batch, &result, fault)) return fault->status;
    if (session_output(session, model.evaluate, LOGITS, logits, (size_t)seq * VOCABULARY * sizeof(float), fault))
        return fault->status;
    *token = draw(logits + (seq - 1) * VOCABULARY, 0.6);
    batch->number++;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "usage: sample WEIGHTS.safetensors BEGINNING COUNT\n"), 2;
    Session *session;
    Fault fault = {0};
    Batch batch;
    const SessionOptions options = {.seed = 1, .plan_again = true};
    if (session_open(&session, &model, &options, &fault)) return fprintf(stderr, "sample: %s\n", fault.text), fault.status;
    if (batch_create(&batch, &model) || session_load_weights(session, argv[1], false, &fault))
        return fprintf(stderr, "sample: %s\n", fault.text), 1;

    char text[4096];
    int n = snprintf(text, sizeof text / 2, "%s", argv[2]), token = 0;
    fputs(text, stdout);
    for (int i = 0; i < atoi(argv[3]) && n < (int)sizeof text; i++) {
        if (next_token(session, &batch, text, n, &token, &fault)) return fprintf(stderr, "sample: %s\n", fault.text), fault.status;
        text[n++] = (char)token;
        putchar(token);
    }
    putchar('\n');
    batch_destroy(&batch);
    session_close(session);
    return 0;
}
