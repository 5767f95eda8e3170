/* dims: names and ranges of the model's symbolic dims, before anything is derived from them.
 *
 * Needs: the model as read.  Leaves: every unknown dim of an input with a name; ranges, likely and fixed values of --dim in the
 * symbols. An unnamed dim is called INPUT.AXIS ("input.0"), each its own; a dim that --name-dim renames is renamed wherever it
 * stands. */
#include "passes/passes.h"
#include "support/diag.h"
#include <ctype.h>
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
    Map *names = map_new(arena); /* each once */
    for (int i = 0; i < model->graph->n_inputs; i++) {
        OnnxValueInfo *input = &model->graph->inputs[i];
        for (int axis = 0; is_batch_input(input) && axis < input->rank; axis++) {
            if (!input->dims[axis].known) map_set(names, input->dims[axis].param, arena);
            map_set(names, place_text(arena, input, axis), arena);
        }
    }
    const char **list = NEW_ARRAY(arena, const char *, map_count(names) + 1);
    for (int i = 0; i < map_count(names); i++) list[i] = map_key(names, i);
    return near_names(arena, wrong, list, map_count(names));
}

/* "NAME=REST": splits at the last '=', for names may hold one. */
static const char *split(Arena *arena, const char *option, const char *entry, const char **rest, const char *form)
{
    const char *equals = strrchr(entry, '=');
    if (!equals || equals == entry || !equals[1]) error_exit("%s %s: wanted %s", option, entry, form);
    *rest = equals + 1;
    return arena_copy(arena, entry, (size_t)(equals - entry));
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* "2*s0 + 1" with s0 called length: "2*length + 1"; only whole names count.  A text that is old itself, whatever it holds, is too.
 */
static const char *renamed(Arena *arena, const char *text, const char *old, const char *new_name)
{
    const size_t n = strlen(old);
    if (!strcmp(text, old)) return new_name;
    Buf out = {.arena = arena};
    for (const char *at = text; *at;) {
        const bool begins = at == text || !in_name(at[-1]);
        if (begins && !strncmp(at, old, n) && !in_name(at[n]))
            buf_put(&out, new_name), at += n;
        else
            buf_write(&out, at++, 1);
    }
    return buf_text(&out);
}

static void rename_in(Arena *arena, OnnxValueInfo *infos, int n, const char *old, const char *new_name)
{
    for (int i = 0; i < n; i++)
        for (int axis = 0; infos[i].has_shape && axis < infos[i].rank; axis++)
            if (!infos[i].dims[axis].known && infos[i].dims[axis].param[0])
                infos[i].dims[axis].param = renamed(arena, infos[i].dims[axis].param, old, new_name);
}

static void name_dim(OnnxModel *model, Arena *arena, const char *entry)
{
    const char *name, *where = split(arena, "--name-dim", entry, &name, "INPUT.AXIS=NAME");
    OnnxGraph *graph = model->graph;
    Place place;
    if (!find_place(arena, model, where, &place)) {
        const char *near = names_of_dims(arena, model, where);
        error_exit("--name-dim %s: the model has no input dim \"%s\"%s%s", entry, where, near[0] ? "; near are " : "", near);
    }
    OnnxDim *dim = &place.input->dims[place.axis];
    if (dim->known) error_exit("--name-dim %s: that dim is fixed to %lld in the model", entry, (long long)dim->value);
    bool plain = !isdigit((unsigned char)name[0]) && name[0] != '.';
    for (const char *at = name; *at; at++) plain &= in_name(*at);
    if (!plain)
        error_exit("--name-dim %s: \"%s\" is no name; wanted letters, digits, _ and ., not beginning with a digit", entry, name);
    const char *old = dim->param;
    dim->param = name;
    if (!old[0]) return;
    rename_in(arena, graph->inputs, graph->n_inputs, old, name);
    rename_in(arena, graph->outputs, graph->n_outputs, old, name);
    rename_in(arena, graph->value_info, graph->n_value_info, old, name);
}

static void name_dims(OnnxModel *model, const Options *options, Arena *arena)
{
    for (int i = 0; i < options->name_dims.n; i++) name_dim(model, arena, options->name_dims.at[i]);
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

/* The symbol that NAME of --dim means: one of the model's, or that of INPUT.AXIS. */
static const char *symbol_meant(Symbols *symbols, OnnxModel *model, Arena *arena, const char *entry, const char *name)
{
    Place place;
    if (is_known_symbol(symbols, model, name)) return name;
    if (!find_place(arena, model, name, &place)) {
        const char *near = names_of_dims(arena, model, name);
        error_exit("--dim %s: the model has no dim \"%s\"%s%s", entry, name, near[0] ? "; near are " : "", near);
    }
    const OnnxDim *dim = &place.input->dims[place.axis];
    if (dim->known) error_exit("--dim %s: that dim is fixed to %lld in the model", entry, (long long)dim->value);
    Expr *e = expr_parse(symbols, dim->param);
    if (!e) return dim->param; /* a name that is no expression, as "batch size" */
    if (!expr_is_symbol(e)) error_exit("--dim %s: that dim is computed, %s; give the names in it", entry, dim->param);
    return expr_symbol_name(e);
}

static void declare_dims(Symbols *symbols, OnnxModel *model, const Options *options, Arena *arena)
{
    Map *given = map_new(arena); /* name -> the entry that declared it */
    for (int i = 0; i < options->dims.n; i++) {
        const char *entry = options->dims.at[i], *text,
                   *name = split(arena, "--dim", entry, &text, "NAME=LO..HI, NAME=LO..HI~LIKELY or NAME=N");
        if (!map_has(given, name)) name = symbol_meant(symbols, model, arena, entry, name);
        if (map_has(given, name))
            error_exit("--dim %s: that dim was declared before, by --dim %s; give it once", entry,
                       (const char *)map_get(given, name));
        map_set(given, name, (void *)entry);
        const int64_t low = number(entry, text, &text);
        int64_t high = low, likely = 0;
        if (!strncmp(text, "..", 2)) high = number(entry, text + 2, &text);
        if (*text == '~') likely = number(entry, text + 1, &text);
        if (*text || low > high || (likely && (likely < low || likely > high)))
            error_exit("--dim %s: wanted NAME=LO..HI with LO <= HI, and a likely value between them", entry);
        Expr *symbol = expr_symbol(symbols, name);
        symbol_expect(symbols, symbol, low, high, low == high ? low : likely);
        if (low == high) { /* fixed: as if the model said so */
            fix(model, name, low);
            symbols_equate(symbols, symbol, expr_int(symbols, low), NULL);
        }
    }
}

void pass_dims(Symbols *symbols, OnnxModel *model, const Options *options, Arena *arena)
{
    for (int i = 0; i < model->graph->n_inputs; i++) {
        const OnnxValueInfo *input = &model->graph->inputs[i];
        if (!input->is_initializer && input->kind == ONNX_IS_TENSOR && !input->has_shape)
            error_add("%s: input \"%s\" declares no shape, not even a rank; export it with its dims named (dynamic_axes or "
                      "dynamic_shapes)",
                      model->path, input->name);
    }
    error_stop();
    name_dims(model, options, arena);
    declare_dims(symbols, model, options, arena);
}

void pass_dims_check(Symbols *symbols)
{
    for (int i = 0; i < symbols_count(symbols); i++) {
        const char *name = expr_symbol_name(symbols_at(symbols, i));
        const SymbolFacts f = symbol_facts(symbols, symbols_at(symbols, i));
        if (!f.declared) continue;
        if (f.expected_high < f.low || f.expected_low > f.high)
            error_add("--dim %s=%lld..%lld: the model can only compute with %lld..%lld", name, (long long)f.expected_low,
                      (long long)f.expected_high, (long long)f.low, (long long)f.high);
        else if (f.expected_low < f.low || f.expected_high > f.high)
            notice("--dim %s=%lld..%lld: the model can only compute with %lld..%lld of it", name, (long long)f.expected_low,
                   (long long)f.expected_high, (long long)f.low, (long long)f.high);
    }
    error_stop();
}
