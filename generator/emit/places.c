/* Where values lie: buffers with their lives, results in the memory of operands, names of both in the step. */
#include "emit/names.h"
#include "emit/program_private.h"
#include "support/diag.h"
#include <string.h>

/* ---- names ---- */
/* "/blocks.0/ln_1/LayerNormalization_output_0" is blocks.0/ln_1: a module that is little more than one operation bears its name. */
static const char *module_name(Arena *arena, const char *path, bool *is_module)
{
    static const char *const operations[] = {"MatMul", "Gemm", "Conv", "LayerNormalization", "BatchNormalization", "Gather",
                                             "GRU",    "LSTM", "RNN"};
    if (strncmp(path, "node_", 5) == 0 && path[5]) path += 5;
    const char *brief = short_path(arena, path);
    char *copy = arena_copy(arena, brief, strlen(brief)), *output = strstr(copy, "_output_0");
    if (output && !output[9]) *output = 0;
    char *last = strrchr(copy, '/');
    *is_module = false;
    if (*copy != '/' || !last || last == copy) return copy;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(last + 1, operations[i]) == 0) *is_module = true;
    if (*is_module) *last = 0;
    return copy;
}

static const char *what_it_is(Arena *arena, const Value *v)
{
    const char *word = v->def->kind == OP_scan ? scan_word(arena, v->def, v->result) : made_word(v);
    return word_tells(word) && strcmp(word, "x") != 0 && strcmp(word, "weight") != 0 ? word : op_info(v->def->kind)->name;
}

/* The operation's node, "d_" before what is of the backward pass, "_again" behind what it makes a second time; the last operation of a
 * node bears its plain name, others what they are too. */
static const char *value_c_name(Maker *m, const Value *v)
{
    Arena *arena = m->l->arena;
    const Op *op = v->def;
    if (!op) return layout_unique(m->l, m->names, c_name(arena, *v->name ? v->name : "value"));
    if (m->nameless) return layout_unique(m->l, m->names, op_info(op->kind)->name);
    const char *what = what_it_is(arena, v), *from = *v->name ? v->name : op->source;
    const bool backward = strcmp(op->role, "gradient") == 0, again = backward && *v->name && strncmp(v->name, "d_", 2) != 0;
    const bool gradient = backward && !*v->name, contracts = op->kind == OP_dot || op->kind == OP_conv;
    bool is_module = false;
    const char *base = *from ? c_name(arena, module_name(arena, from, &is_module)) : what;
    const Op *last = map_get(m->last_of, arena_text(arena, "%s %s", op->role, op->source));
    const bool plain =
        strcmp(base, what) == 0 || (last == op && v->result == 0) || *v->name || (*from && is_module && contracts && !gradient);
    const char *which = v->result && strcmp(what, op_info(op->kind)->name) == 0 ? arena_text(arena, "_%d", v->result) : "";
    const char *kind = contracts ? op_info(op->kind)->name : what;
    return layout_unique(m->l, m->names,
                         arena_text(arena, "%s%s%s%s%s%s", gradient ? "d_" : "", base, plain ? "" : "_", plain ? "" : kind, which,
                                    again ? "_again" : ""));
}

void find_last_ops(Maker *m, const Graph *g)
{
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        map_set(m->last_of, arena_text(m->l->arena, "%s %s", op->role, op->source), op);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) find_last_ops(m, op->body[b]);
    }
}

/* ---- buffers and places ---- */
void touch(Maker *m, int buffer, int position)
{
    if (buffer < 0) return;
    Buffer *b = &m->p->buffers.at[buffer];
    vec_push(m->l->arena, &m->touched, buffer);
    if (position < b->first) b->first = position;
    if (position > b->last) b->last = position;
}

Place *place_new(Maker *m, const Value *v, const char *pointer, int buffer)
{
    Place *place = NEW(m->l->arena, Place);
    *place = (Place){pointer, buffer};
    pointers_set(m->p->places, v, place);
    return place;
}

static int buffer_new(Maker *m, Buffer b)
{
    b.first = b.last = m->p->positions;
    vec_push(m->l->arena, &m->p->buffers, b);
    return m->p->buffers.n - 1;
}

Place *own_buffer(Maker *m, const Value *v)
{
    const char *name = value_c_name(m, v), *source = v->def ? v->def->source : v->name;
    if (v->def && strcmp(v->def->role, "gradient") == 0)
        source = arena_text(m->l->arena, "gradient of %s", *source ? source : "the loss");
    int b = buffer_new(m, (Buffer){.c = name,
                                   .type = dtype_c(v->dtype),
                                   .shape = shape_comment(m->l, v),
                                   .source = source,
                                   .bytes = value_bytes(m->p->graph, v)});
    return place_new(m, v, name, b);
}

const Place *program_place(const Program *p, const Value *v)
{
    const Place *place = pointers_get(p->places, v);
    if (!place)
        bug("%%%d \"%s\" (%s) lies nowhere", v->id, v->def ? v->def->source : v->name,
            v->def ? op_info(v->def->kind)->name : "input");
    return place;
}

void place_inputs(Maker *m)
{
    Layout *l = m->l;
    Program *p = m->p;
    p->input_buffer = NEW_ARRAY(l->arena, int, l->inputs.n + 1);
    p->reads_weight = NEW_ARRAY(l->arena, int, l->weights.n + 1);
    p->reads_state = NEW_ARRAY(l->arena, int, l->states.n + 1);
    p->reads_hyper = NEW_ARRAY(l->arena, int, l->hypers.n + 1);
    for (int i = 0; i < l->inputs.n; i++) p->input_buffer[i] = -1;
    Pointers *outputs = pointers_new(l->arena);
    for (int i = 0; i < p->graph->outputs.n; i++) pointers_set(outputs, p->graph->outputs.at[i], p);
    for (int i = 0; i < p->graph->inputs.n; i++) {
        Value *v = p->graph->inputs.at[i];
        if (!v->users.n && !pointers_get(outputs, v)) continue;
        if (v->origin == FROM_BATCH) {
            int at = layout_find(l->input_of, v->name);
            const char *c = l->inputs.at[at].c;
            p->input_buffer[at] = buffer_new(m, (Buffer){.c = c,
                                                         .type = dtype_c(v->dtype),
                                                         .shape = shape_comment(l, v),
                                                         .source = arena_text(l->arena, "input %s", v->name),
                                                         .bytes = value_bytes(p->graph, v)});
            place_new(m, v, c, p->input_buffer[at]);
        } else if (v->origin == FROM_WEIGHT) {
            int at = layout_find(l->weight_of, v->tensor->name);
            p->reads_weight[at] = 1;
            place_new(m, v, arena_text(l->arena, "w->%s", l->weights.at[at].c), -1);
        } else if (v->origin == FROM_STATE) {
            int at = layout_find(l->state_of, v->tensor->name);
            p->reads_state[at] = 1;
            place_new(m, v, arena_text(l->arena, "%s.%s", layout_state(l, v->tensor), layout_state_member(l, v->tensor)), -1);
        } else if (v->origin == FROM_HYPER) {
            p->reads_hyper[layout_find(l->hyper_of, v->name)] = 1;
        }
    }
}

int scratch_new(Maker *m, Expr *bytes, const char *for_what)
{
    const char *name = layout_unique(m->l, m->names, "scratch");
    return buffer_new(
        m,
        (Buffer){
            .c = name, .type = "char", .shape = "", .source = arena_text(m->l->arena, "scratch of %s", for_what), .bytes = bytes});
}

/* ---- results in place of operands ---- */
static const Value *root_of(const Maker *m, const Value *v)
{
    const Value *root = pointers_get(m->root, v);
    return root ? root : v;
}

/* Who reads what last, in one list of groups; what the list's graph gives out is kept, but for gradients: they are saved at once.
 */
void find_last_readers(Maker *m, const Groups *groups)
{
    const Graph *g = groups->graph;
    for (int i = 0; i < groups->list.n; i++) {
        Group *group = groups->list.at[i];
        for (int k = 0; k < group->in.n; k++) pointers_set(m->last_reader, root_of(m, group->in.at[k]), group);
        if (group->kind == GROUP_VIEW) pointers_set(m->root, group->out.at[0], (void *)root_of(m, group->in.at[0]));
    }
    for (int i = 0; i < g->outputs.n; i++)
        if (!pointers_get(m->gradient_of, g->outputs.at[i])) pointers_set(m->last_reader, root_of(m, g->outputs.at[i]), NULL);
}

/* The memory of in is read as something else, too: as another piece of it. */
static bool reads_root_twice(const Maker *m, const Group *group, const Value *in)
{
    for (int i = 0; i < group->in.n; i++)
        if (group->in.at[i] != in && root_of(m, group->in.at[i]) == root_of(m, in)) return true;
    return false;
}

/* Kernels of two stages must find their operands again where the second one fails. */
static bool overwrites_too_soon(const Maker *m, const Group *group)
{
    const GroupLaunches *l = pointers_get(m->launches->of, group);
    const Group *first = group->epilogue;
    const bool several = first ? first->kind == GROUP_REDUCE || first->epilogue : group->kind == GROUP_REDUCE;
    return several && (!l || l->n > 1);
}

/* An operand that nobody reads afterwards and in whose memory the result may lie. */
static const Value *replaceable(Maker *m, const Group *group, const Value *out)
{
    const bool walks = group->kind == GROUP_LOOP || group->kind == GROUP_ROW || group->kind == GROUP_REDUCE;
    if ((!walks && !group->epilogue) || overwrites_too_soon(m, group)) return NULL;
    for (int i = 0; i < group->in.n; i++) {
        const Value *in = group->in.at[i], *root = root_of(m, in);
        if (!root->def || pointers_get(m->last_reader, root) != group || in->dtype != out->dtype) continue;
        if (reads_root_twice(m, group, in) || program_place(m->p, in)->buffer < 0 || value_count(m->p->graph, in) != value_count(m->p->graph, out)) continue;
        if (!kernels_in_place(group, in, out)) continue;
        pointers_set(m->last_reader, root, NULL);
        return in;
    }
    return NULL;
}

bool place_result(Maker *m, const Group *group, const Value *out)
{
    const Value *in = replaceable(m, group, out);
    if (!in) {
        own_buffer(m, out);
        return false;
    }
    const Place *place = program_place(m->p, in);
    place_new(m, out, place->pointer, place->buffer);
    return true;
}
