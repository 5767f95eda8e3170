/* Inside of `loss`: the parsed or guessed description, before it becomes operations. */
#ifndef PASSES_LOSS_H
#define PASSES_LOSS_H
#include "passes/passes.h"

typedef struct LossSpec {
    const char *kind; /* a row of loss.c: "cross_entropy"… or "model": the output is the loss */
    const char *output;
    int axis; /* as given, maybe negative */
    bool has_axis, has_ignore;
    int64_t ignore_index;
    double delta;     /* huber */
    double smoothing; /* cross_entropy's label_smoothing */
    bool guessed;
    const char *why, *alternatives;
} LossSpec;

LossSpec loss_parse(Arena *arena, const char *text); /* user errors: form, unknown loss, unknown setting */
LossSpec loss_guess(Graph *g);                       /* from the graph's outputs; a user error where nothing fits */
#endif
