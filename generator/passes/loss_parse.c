/* The text of --loss, and the guess where there is none.
 *
 *     cross_entropy(logits, axis=1, ignore_index=-100)      mse('onnx::loss::2')      total_loss */
#include "passes/loss.h"
#include "support/diag.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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
    if (!strcmp(key, "axis") && classes)
        spec->axis = (int)value, spec->has_axis = true;
    else if (!strcmp(key, "ignore_index") && classes)
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
    LossSpec spec = {.kind = take_name(&c), .axis = 1, .delta = 1};
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
static const Op *maker(const Value *v)
{
    while (v->origin == FROM_OP && (v->def->kind == OP_reshape || v->def->kind == OP_cast)) v = v->def->in[0];
    return v->origin == FROM_OP ? v->def : NULL;
}

static bool made_by(const Value *v, OpKind kind)
{
    return maker(v) && maker(v)->kind == kind;
}

/* A language model: (batch.., length, vocabulary) from integer input of (batch.., length). */
static const Value *token_input(Graph *g, const Value *out)
{
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *in = g->inputs.at[i];
        if (in->origin != FROM_BATCH || dtype_is_float(in->dtype) || in->rank < 2 || in->rank != out->rank - 1) continue;
        bool same = true;
        for (int k = 0; k < in->rank; k++) same &= expr_always_equal(g->symbols, in->shape[k], out->shape[k]);
        if (same) return in;
    }
    return NULL;
}

static bool shaped_as_an_input(Graph *g, const Value *out)
{
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i]->origin == FROM_BATCH && dtype_is_float(g->inputs.at[i]->dtype) && same_shape(g, g->inputs.at[i], out))
            return true;
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
    return (LossSpec){
        .kind = kind, .axis = axis, .has_axis = true, .delta = 1, .guessed = true, .why = why, .alternatives = alternatives};
}

static LossSpec guess_for(Graph *g, const Value *out)
{
    int64_t classes = 0;
    const int last = out->rank - 1, class_axis = out->rank > 2 ? 1 : last;
    if (out->rank == 0) return guess("model", 0, "it is a scalar: the model computes its loss", "mse(OUT)");
    if (made_by(out, OP_softmax) || made_by(out, OP_log_softmax)) {
        const int axis = (int)op_int(maker(out), ATTR_axis);
        return guess(made_by(out, OP_softmax) ? "cross_entropy" : "nll", axis, "it ends in a Softmax", "mse(OUT)");
    }
    if (made_by(out, OP_sigmoid)) return guess("bce", 0, "it ends in a Sigmoid", "mse(OUT), bce_with_logits(OUT)");
    if (token_input(g, out) && integers_only(g))
        return guess("next_token", last,
                     "it gives, for each of the integer input's tokens, a number for each entry of a vocabulary",
                     "cross_entropy(OUT, axis=-1, ignore_index=-100), mse(OUT)");
    if (shaped_as_an_input(g, out))
        return guess("mse", 0, "it has the shape of an input, as an autoencoder's", "l1(OUT), huber(OUT), bce_with_logits(OUT)");
    if (!expr_is_int(out->shape[class_axis], &classes) || classes < 2)
        return guess("mse", 0, "its axis of classes is unknown or has one entry: a quantity",
                     "l1(OUT), huber(OUT), bce_with_logits(OUT)");
    return guess("cross_entropy", class_axis, "it gives a number for each of a fixed count of classes",
                 "mse(OUT), l1(OUT), bce_with_logits(OUT)");
}

LossSpec loss_guess(Graph *g)
{
    for (int i = 0; i < g->outputs.n; i++) {
        const Value *out = g->outputs.at[i];
        if (!dtype_is_float(out->dtype)) continue;
        LossSpec spec = guess_for(g, out);
        spec.output = g->output_names[i];
        return spec;
    }
    error_exit("none of the model's outputs is a float tensor: a loss needs one; say it with --loss \"mse(OUT)\"");
}
