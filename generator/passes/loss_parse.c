/* The text of --loss, and the guess where there is none.
 *
 *     cross_entropy(logits, axis=1, ignore_index=-100)      mse('onnx::loss::2')      total_loss */
#include "passes/loss.h"
#include "support/diag.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { IGNORE_INDEX = -100 }; /* PyTorch's default */

/* ---- parsing ---- */
typedef struct Cursor {
    Arena *arena;
    const char *whole, *at;
} Cursor;

static noreturn void form_error(const Cursor *c, const char *wanted)
{
    error_exit("--loss \"%s\": at \"%s\": wanted %s; for example: cross_entropy(OUT, axis=1), mse(OUT), next_token(OUT), or OUT "
               "alone when the model computes its loss; an OUT that is no plain word stands in quotes",
               c->whole, c->at, wanted);
}

static void skip_space(Cursor *c)
{
    while (isspace((unsigned char)*c->at)) c->at++;
}

static bool take(Cursor *c, char wanted)
{
    skip_space(c);
    if (*c->at != wanted) return false;
    c->at++;
    return true;
}

/* A word, or anything between quotes. */
static const char *take_name(Cursor *c)
{
    skip_space(c);
    if (*c->at == '\'' || *c->at == '"') {
        const char quote = *c->at++, *begin = c->at;
        while (*c->at && *c->at != quote) c->at++;
        if (!*c->at) form_error(c, "a closing quote");
        return arena_copy(c->arena, begin, (size_t)(c->at++ - begin));
    }
    const char *begin = c->at;
    while (isalnum((unsigned char)*c->at) || strchr("_./:-", *c->at)) {
        if (!*c->at) break;
        c->at++;
    }
    if (c->at == begin) form_error(c, "a name");
    return arena_copy(c->arena, begin, (size_t)(c->at - begin));
}

static double take_number(Cursor *c)
{
    char *end;
    skip_space(c);
    const double value = strtod(c->at, &end);
    if (end == c->at) form_error(c, "a number");
    c->at = end;
    return value;
}

static void take_setting(Cursor *c, LossSpec *spec)
{
    const char *key = take_name(c);
    if (!take(c, '=')) form_error(c, "SETTING=NUMBER");
    const double value = take_number(c);
    const bool classes = !strcmp(spec->kind, "cross_entropy") || !strcmp(spec->kind, "nll");
    const bool whole = value == (double)(int64_t)value && value > -2e9 && value < 2e9;
    if (!strcmp(key, "axis") && classes && whole)
        spec->axis = (int)value, spec->has_axis = true;
    else if (!strcmp(key, "ignore_index") && classes && whole)
        spec->ignore_index = (int64_t)value, spec->has_ignore = true;
    else if (!strcmp(key, "label_smoothing") && !strcmp(spec->kind, "cross_entropy") && value >= 0 && value <= 1)
        spec->smoothing = value;
    else if (!strcmp(key, "delta") && !strcmp(spec->kind, "huber") && value > 0)
        spec->delta = value;
    else
        error_exit("--loss \"%s\": %s takes no setting %s=%g; cross_entropy takes axis, ignore_index and label_smoothing (0 to 1), "
                   "nll axis and ignore_index, huber delta (above 0)",
                   c->whole, spec->kind, key, value);
}

LossSpec loss_parse(Arena *arena, const char *text)
{
    static const char *const kinds[] = {"cross_entropy", "next_token", "nll", "mse", "l1", "huber", "bce", "bce_with_logits"};
    Cursor c = {arena, text, text};
    LossSpec spec = {.kind = take_name(&c), .axis = 1, .delta = 1, .ignore_index = IGNORE_INDEX};
    if (!take(&c, '(')) {
        spec.output = spec.kind, spec.kind = "model";
    } else {
        bool known = false;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) known |= !strcmp(kinds[i], spec.kind);
        if (!known) {
            const char *near = near_names(arena, spec.kind, kinds, (int)(sizeof kinds / sizeof *kinds));
            error_exit("--loss \"%s\": there is no loss \"%s\"; there are cross_entropy, next_token, nll, mse, l1, huber, bce, "
                       "bce_with_logits%s%s",
                       text, spec.kind, near[0] ? "; near are " : "", near);
        }
        spec.output = take_name(&c);
        while (take(&c, ',')) take_setting(&c, &spec);
        if (!take(&c, ')')) form_error(&c, "\",\" or \")\"");
    }
    skip_space(&c);
    if (*c.at) form_error(&c, "the end");
    return spec;
}

/* ---- guessing ---- */
/* Rows of the largest table of weights from which v, cast or reshaped, chooses rows. */
static Expr *rows_chosen(Graph *g, const Value *v, int depth)
{
    Expr *most = NULL;
    for (int i = 0; i < v->users.n; i++) {
        const Op *op = v->users.at[i];
        Expr *rows = NULL;
        int64_t a, b;
        if (op->kind == OP_gather && op->in[1] == v && op->in[0]->origin == FROM_WEIGHT && op_int(op, ATTR_axis) == 0)
            rows = op->in[0]->shape[0];
        else if (depth < 8 && (op->kind == OP_cast || op->kind == OP_reshape || op->kind == OP_select || op->kind == OP_add))
            rows = rows_chosen(g, op->out[0], depth + 1);
        if (rows && (!most || (expr_is_int(rows, &a) && expr_is_int(most, &b) && a > b))) most = rows;
    }
    return most;
}

Value *loss_tokens(Graph *g, const Value *out, bool *same_vocabulary)
{
    Value *first = NULL;
    *same_vocabulary = false;
    for (int i = 0; i < g->inputs.n; i++) {
        Value *in = g->inputs.at[i];
        if (in->origin != FROM_BATCH || dtype_is_float(in->dtype) || in->rank < 1 || in->rank != out->rank - 1) continue;
        bool same = true;
        for (int k = 0; k < in->rank; k++) same &= expr_always_equal(g->symbols, in->shape[k], out->shape[k]);
        if (!same) continue;
        Expr *rows = rows_chosen(g, in, 0);
        if (rows && expr_always_equal(g->symbols, rows, out->shape[out->rank - 1])) {
            *same_vocabulary = true;
            return in;
        }
        if (!first) first = in;
    }
    return first;
}

static bool shaped_as_an_input(Graph *g, const Value *out)
{
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i]->origin == FROM_BATCH && dtype_is_float(g->inputs.at[i]->dtype) && same_shape(g, g->inputs.at[i], out))
            return true;
    return false;
}

/* Whether nothing but dim stands in e, once or more often. */
static bool made_of(Graph *g, Expr *e, Expr *dim)
{
    enum { ROOM = 4 };
    Expr *in[ROOM], *of[ROOM];
    return expr_symbols(g->symbols, e, in, ROOM) == 1 && expr_symbols(g->symbols, dim, of, ROOM) == 1 && in[0] == of[0];
}

/* As many channels as an input has, and its other axes of a size that follows from that input's: height*2, or height//4*4, which is height
 * where nothing is left over. */
static bool follows_an_input(Graph *g, const Value *out)
{
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *in = g->inputs.at[i];
        if (in->origin != FROM_BATCH || !dtype_is_float(in->dtype) || in->rank != out->rank || out->rank < 3) continue;
        bool follows = expr_is_int(out->shape[1], NULL);
        for (int k = 0; k < in->rank; k++)
            follows &= expr_always_equal(g->symbols, in->shape[k], out->shape[k]) || (k > 1 && made_of(g, out->shape[k], in->shape[k]));
        if (follows) return true;
    }
    return false;
}

static bool integers_only(const Graph *g)
{
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i]->origin == FROM_BATCH && dtype_is_float(g->inputs.at[i]->dtype)) return false;
    return true;
}

static LossSpec guess(const char *kind, int axis, const char *why, const char *alternatives)
{
    return (LossSpec){.kind = kind,
                      .axis = axis,
                      .has_axis = true,
                      .delta = 1,
                      .ignore_index = IGNORE_INDEX,
                      .guessed = true,
                      .why = why,
                      .alternatives = alternatives};
}

/* The axis along which v ends in the activation, -1 where it does not. */
static int axis_of(Graph *g, Value *v, OpKind activation)
{
    for (int axis = v->rank - 1; axis >= 0; axis--)
        if (loss_operand(g, v, activation, axis, false)) return axis;
    return -1;
}

/* Classes lie along axis 1, as in PyTorch; of (batch, length, classes), whose axis 1 is symbolic, along the last. */
static int class_axis(const Value *out)
{
    int64_t size;
    if (out->rank < 2) return 0;
    return out->rank == 3 && !expr_is_int(out->shape[1], &size) && expr_is_int(out->shape[2], &size) ? 2 : 1;
}

static LossSpec guess_for(Graph *g, Value *out)
{
    int64_t classes = 0;
    int axis;
    bool same_vocabulary;
    if (out->rank == 0) return guess("model", 0, "it is a scalar: the model computes its loss", "mse(OUT)");
    if ((axis = axis_of(g, out, OP_softmax)) >= 0)
        return guess("cross_entropy", axis, "it ends in a Softmax, which becomes part of the loss", "mse(OUT)");
    if ((axis = axis_of(g, out, OP_log_softmax)) >= 0) return guess("nll", axis, "it ends in a LogSoftmax", "mse(OUT)");
    if (loss_operand(g, out, OP_sigmoid, -1, false))
        return guess("bce", 0, "it ends in a Sigmoid, which becomes part of the loss", "mse(OUT), bce_with_logits(OUT)");
    if (out->rank > 2 && integers_only(g) && loss_tokens(g, out, &same_vocabulary) && same_vocabulary)
        return guess("next_token", out->rank - 1,
                     "it gives, for each of the integer input's tokens, a number for each entry of the vocabulary",
                     "cross_entropy(OUT, axis=-1), mse(OUT)");
    if (shaped_as_an_input(g, out))
        return guess("mse", 0, "it has the shape of an input, as an autoencoder's", "l1(OUT), huber(OUT), bce_with_logits(OUT)");
    if (follows_an_input(g, out))
        return guess("mse", 0, "it has the channels of an input, and sizes that follow from its own: as an autoencoder's",
                     "cross_entropy(OUT, axis=1), l1(OUT), huber(OUT), bce_with_logits(OUT)");
    axis = class_axis(out);
    if (out->rank < 2 || !expr_is_int(out->shape[axis], &classes) || classes < 2)
        return guess("mse", 0, "its axis of classes is unknown or has one entry: a quantity",
                     "l1(OUT), huber(OUT), bce_with_logits(OUT)");
    return guess("cross_entropy", axis, arena_text(g->arena, "it gives a number for each of %lld classes", (long long)classes),
                 "mse(OUT), l1(OUT), bce_with_logits(OUT)");
}

LossSpec loss_guess(Graph *g)
{
    for (int i = 0; i < g->outputs.n; i++) {
        Value *out = g->outputs.at[i];
        if (!dtype_is_float(out->dtype)) continue;
        LossSpec spec = guess_for(g, out);
        spec.output = g->output_names[i];
        return spec;
    }
    error_exit("none of the model's outputs is a float tensor: a loss needs one; say it with --loss \"mse(OUT)\"");
}
