/* Inside of `loss`: the parsed or guessed description, before it becomes operations. */
#ifndef PASSES_LOSS_H
#define PASSES_LOSS_H
#include "passes/passes.h"

typedef struct LossSpec {
    const char *kind; /* a row of loss.c: "cross_entropy"… or "model": the output is the loss */
    const char *output;
    int axis; /* as given, maybe negative */
    bool has_axis, has_ignore;
    int64_t ignore_index; /* -100 where not given, as in PyTorch */
    double delta;         /* huber */
    double smoothing;     /* cross_entropy's label_smoothing */
    bool guessed;
    const char *why, *alternatives;
} LossSpec;

LossSpec loss_parse(Arena *arena, const char *text); /* user errors: form, unknown loss, unknown setting */
/* The operand of the activation that ends v along v's axis (negative: any), seen through cast, reshape and transpose, and brought
 * into v's shape.  NULL where v does not end so.  Without build nothing is made, and the result only tells. */
Value *loss_operand(Graph *g, Value *v, OpKind activation, int axis, bool build);
/* The integer input that holds the tokens for which out gives scores: of out's shape without its last axis; first the one that
 * chooses rows of a table of as many rows as out has scores.  NULL where there is none. */
Value *loss_tokens(Graph *g, const Value *out, bool *same_vocabulary);
LossSpec loss_guess(Graph *g); /* from the graph's outputs; a user error where nothing fits */
#endif
