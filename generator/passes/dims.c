/* dims: names and ranges of the model's symbolic dims, before anything is derived from them.
 *
 * Needs: the model as read.  Leaves: every unknown dim of an input with a name; ranges, likely and fixed values of --dim in the
 * symbols. An unnamed dim is called INPUT.AXIS ("input.0"), each its own. */
#include "passes/passes.h"
#include "support/diag.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Place {
    OnnxValueInfo *input;
    int axis;
} Place;

static bool is_batch_input(const OnnxValueInfo *input)
{
    return !input->is_initializer && input->kind == ONNX_IS_TENSOR && input->has_shape;
}

static const char *place_text(Arena *arena, const OnnxValueInfo *input, int axis)
{
    return arena_text(arena, "%s.%d", input->name, axis);
}

/* "input_ids.1" -> the input and its axis */
static bool find_place(Arena *arena, OnnxModel *model, const char *text, Place *place)
{
    for (int i = 0; i < model->graph->n_inputs; i++) {
        OnnxValueInfo *input = &model->graph->inputs[i];
        for (int axis = 0; is_batch_input(input) && axis < input->rank; axis++)
            if (!strcmp(place_text(arena, input, axis), text)) {
                *place = (Place){input, axis};
                return true;
            }
    }
    return false;
}

static const char *names_of_dims(Arena *arena, OnnxModel *model, const char *wrong)
{
    VEC(const char *) names = {0};
    for (int i = 0; i < model->graph->n_inputs; i++) {
        OnnxValueInfo *input = &model->graph->inputs[i];
        for (int axis = 0; is_batch_input(input) && axis < input->rank; axis++) {
            if (!input->dims[axis].known) vec_push(arena, &names, input->dims[axis].param);
            vec_push(arena, &names, place_text(arena, input, axis));
        }
    }
    return near_names(arena, wrong, names.at, names.n);
}

/* "NAME=REST": splits at the last '=', for names may hold one. */
static const char *split(Arena *arena, const char *option, const char *entry, const char **rest, const char *form)
{
    const char *equals = strrchr(entry, '=');
    if (!equals || equals == entry || !equals[1]) error_exit("%s %s: wanted %s", option, entry, form);
    *rest = equals + 1;
    return arena_copy(arena, entry, (size_t)(equals - entry));
}

static void name_dims(OnnxModel *model, const Options *options, Arena *arena)
{
    for (int i = 0; i < options->name_dims.n; i++) {
        const char *name, *where = split(arena, "--name-dim", options->name_dims.at[i], &name, "INPUT.AXIS=NAME");
        Place place;
        if (!find_place(arena, model, where, &place)) {
            const char *near = names_of_dims(arena, model, where);
            error_exit("--name-dim %s: the model has no input dim \"%s\"%s%s", options->name_dims.at[i], where,
                       near[0] ? "; near are " : "", near);
        }
        if (place.input->dims[place.axis].known)
            error_exit("--name-dim %s: that dim is fixed to %lld in the model", options->name_dims.at[i],
                       (long long)place.input->dims[place.axis].value);
        place.input->dims[place.axis].param = name;
    }
    for (int i = 0; i < model->graph->n_inputs; i++) {
        OnnxValueInfo *input = &model->graph->inputs[i];
        for (int axis = 0; is_batch_input(input) && axis < input->rank; axis++)
            if (!input->dims[axis].known && !input->dims[axis].param[0]) input->dims[axis].param = place_text(arena, input, axis);
    }
}

static int64_t number(const char *entry, const char *text, const char **end)
{
    char *stop;
    errno = 0;
    const long long value = strtoll(text, &stop, 10);
    if (stop == text || errno || value < 0 || value > EXPR_UNBOUNDED)
        error_exit("--dim %s: \"%s\" is no size; wanted NAME=LO..HI, NAME=LO..HI~LIKELY or NAME=N, sizes from 0 to 2^30", entry,
                   text);
    *end = stop;
    return value;
}

static bool is_known_symbol(Symbols *symbols, OnnxModel *model, const char *name)
{
    for (int i = 0; i < model->graph->n_inputs; i++) {
        const OnnxValueInfo *input = &model->graph->inputs[i];
        for (int axis = 0; is_batch_input(input) && axis < input->rank; axis++) {
            if (input->dims[axis].known) continue;
            if (!strcmp(input->dims[axis].param, name)) return true;
            Expr *inside[16], *e = expr_parse(symbols, input->dims[axis].param);
            const int n = e ? expr_symbols(symbols, e, inside, 16) : 0;
            for (int k = 0; k < n && k < 16; k++)
                if (!strcmp(expr_symbol_name(inside[k]), name)) return true;
        }
    }
    return false;
}

static void fix(OnnxModel *model, const char *name, int64_t value)
{
    for (int i = 0; i < model->graph->n_inputs; i++) {
        OnnxValueInfo *input = &model->graph->inputs[i];
        for (int axis = 0; is_batch_input(input) && axis < input->rank; axis++)
            if (!input->dims[axis].known && !strcmp(input->dims[axis].param, name))
                input->dims[axis].known = true, input->dims[axis].value = value;
    }
}

static void declare_dims(Symbols *symbols, OnnxModel *model, const Options *options, Arena *arena)
{
    for (int i = 0; i < options->dims.n; i++) {
        const char *entry = options->dims.at[i], *text,
                   *name = split(arena, "--dim", entry, &text, "NAME=LO..HI, NAME=LO..HI~LIKELY or NAME=N");
        Place place;
        if (!is_known_symbol(symbols, model, name)) {
            if (!find_place(arena, model, name, &place)) {
                const char *near = names_of_dims(arena, model, name);
                error_exit("--dim %s: the model has no dim \"%s\"%s%s", entry, name, near[0] ? "; near are " : "", near);
            }
            if (place.input->dims[place.axis].known)
                error_exit("--dim %s: that dim is fixed to %lld in the model", entry,
                           (long long)place.input->dims[place.axis].value);
            name = place.input->dims[place.axis].param;
        }
        const int64_t low = number(entry, text, &text);
        int64_t high = low, likely = 0;
        if (!strncmp(text, "..", 2)) high = number(entry, text + 2, &text);
        if (*text == '~') likely = number(entry, text + 1, &text);
        if (*text || low > high || (likely && (likely < low || likely > high)))
            error_exit("--dim %s: wanted NAME=LO..HI with LO <= HI, and a likely value between them", entry);
        symbol_declare(symbols, expr_symbol(symbols, name), low, high, low == high ? low : likely);
        if (low == high) fix(model, name, low);
    }
}

void pass_dims(Symbols *symbols, OnnxModel *model, const Options *options, Arena *arena)
{
    for (int i = 0; i < model->graph->n_inputs; i++) {
        const OnnxValueInfo *input = &model->graph->inputs[i];
        if (!input->is_initializer && input->kind == ONNX_IS_TENSOR && !input->has_shape)
            error_add(
                "input \"%s\" declares no shape, not even a rank; export it with its dims named (dynamic_axes or dynamic_shapes)",
                input->name);
    }
    error_stop();
    name_dims(model, options, arena);
    declare_dims(symbols, model, options, arena);
}
