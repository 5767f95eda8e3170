/* Separates tensors that an exporter merged, and ties those that it split.
 *
 * Needs: roles.  Leaves: the model's nodes reading the separated or tied tensors; candidates that stand for others keep their names
 * as aliases.  Breaks: uses of a candidate that was tied or separated.
 *
 * Exporters merge equal tensors of fresh models: all norms share one gain of ones, biases one of zeros, layers that were made as
 * copies their matrices.  A constant-filled tensor that trains in several places is therefore one tensor a place, NAME#node; so is a
 * matrix of which the exporter says that it was several parameters, or, where constant-filled ones show that it merged, that modules
 * use which differ in a number.  They also write a tied head as a second matrix, transposed: equal matrices become one; but equal
 * matrices of the same role, both with names of their own or used by modules that differ in a number, are copies of a layer.  Parts
 * of a tensor that stand beside it: parts.c.
 */
#include "passes/trainable.h"
#include "support/diag.h"
#include <string.h>

const char *near_candidates(Decision *d, const char *wrong)
{
    const char **names = NEW_ARRAY(d->arena, const char *, d->list.n + 1);
    for (int i = 0; i < d->list.n; i++) names[i] = d->list.at[i]->name;
    const char *near = near_names(d->arena, wrong, names, d->list.n);
    return near[0] ? arena_text(d->arena, "; near are %s", near) : "";
}

static Candidate *find(Decision *d, const char *option, const char *name)
{
    Candidate *c = map_get(d->by_name, name);
    if (!c) error_exit("%s: the model has no float tensor \"%s\"%s", option, name, near_candidates(d, name));
    return c;
}

void tie_say(const Decision *d, const char *text)
{
    if (!d->options->inference) notice("%s", text);
}

/* ---- rewriting ---- */
/* Whether node stands in graph or in a body in it; on the way every body learns that it reads name. */
static bool capture(Arena *arena, OnnxGraph *graph, const char *name, const OnnxNode *node, bool is_main)
{
    bool inside = false;
    for (int i = 0; i < graph->n_nodes && !inside; i++) {
        inside = graph->nodes[i] == node;
        for (int k = 0; k < graph->nodes[i]->n_attributes && !inside; k++) {
            const OnnxAttribute *a = &graph->nodes[i]->attributes[k];
            if (a->g) inside = capture(arena, a->g, name, node, false);
            for (int b = 0; a->type == ONNX_ATTR_GRAPHS && b < a->n && !inside; b++)
                inside = capture(arena, a->graphs[b], name, node, false);
        }
    }
    if (!inside || is_main) return inside;
    for (int i = 0; i < graph->n_captures; i++)
        if (!strcmp(graph->captures[i].name, name)) return true;
    OnnxCapture *captures = NEW_ARRAY(arena, OnnxCapture, graph->n_captures + 1);
    if (graph->n_captures) memcpy(captures, graph->captures, (size_t)graph->n_captures * sizeof *captures);
    captures[graph->n_captures++] = (OnnxCapture){name, node};
    graph->captures = captures;
    return true;
}

static void read_instead(Decision *d, const Use *use, const char *name)
{
    use->taker->inputs[use->taker_input] = name;
    if (use->graph != d->model->graph) capture(d->arena, d->model->graph, name, use->taker, true);
}

void model_add_initializer(Decision *d, OnnxTensor *tensor)
{
    OnnxGraph *graph = d->model->graph;
    OnnxTensor **list = NEW_ARRAY(d->arena, OnnxTensor *, graph->n_initializers + 1);
    if (graph->n_initializers) memcpy(list, graph->initializers, (size_t)graph->n_initializers * sizeof *list);
    list[graph->n_initializers++] = tensor;
    graph->initializers = list;
    map_set(graph->initializer_of, tensor->name, tensor);
}

void model_put_first(Decision *d, OnnxNode *node)
{
    OnnxGraph *graph = d->model->graph;
    OnnxNode **nodes = NEW_ARRAY(d->arena, OnnxNode *, graph->n_nodes + 1);
    int n = 0;
    nodes[n++] = node;
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i] != node) nodes[n++] = graph->nodes[i];
    graph->nodes = nodes, graph->n_nodes = n;
}

/* ---- separating ---- */
static bool listed(const char *const *entries, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(entries[i], name)) return true;
    return false;
}

/* The work of two operands is of one kind: the same operation reads them in the same place. */
static bool work_alike(const Use *x, const Use *y)
{
    return !strcmp(x->node->op_type, y->node->op_type) && x->input == y->input;
}

static const char *parameter_of(Decision *d, const Use *use)
{
    return exporter_parameter(d->arena, use->node, use->input);
}

/* One operand, or one parameter of PyTorch's. */
static bool same_place(Decision *d, const Use *a, const Use *b)
{
    if (a->taker == b->taker && a->taker_input == b->taker_input) return true;
    const char *p = parameter_of(d, a), *q = parameter_of(d, b);
    return p && q && !strcmp(p, q);
}

/* Places where a tensor of its own would train; those that only pass the value through are one with what stands behind. */
static int places(Decision *d, const Candidate *c)
{
    int n = 0;
    for (int i = 0; i < c->uses.n; i++) {
        bool counted = !c->uses.at[i].trains;
        for (int k = 0; k < i && !counted; k++) counted = c->uses.at[k].trains && same_place(d, &c->uses.at[i], &c->uses.at[k]);
        n += !counted;
    }
    return n;
}

/* Two places that the exporter says were parameters of their own, or that modules use which differ in a number. */
static bool are_merged(Decision *d, const Candidate *c, bool by_modules)
{
    for (int i = 0; i < c->uses.n; i++)
        for (int k = 0; k < i; k++) {
            const Use *a = &c->uses.at[k], *b = &c->uses.at[i];
            if (!a->trains || !b->trains) continue;
            const char *p = parameter_of(d, a), *q = parameter_of(d, b);
            if (p && q && work_alike(a, b) && strcmp(p, q) != 0) return true;
            if (by_modules && !(p && q) && work_alike(a, b) && exporter_numbers_apart(d->arena, a->node, b->node)) return true;
        }
    return false;
}

/* Whether the exporter merged equal tensors: ones or zeros are the gain or shift of several modules. */
static bool merges_happened(Decision *d)
{
    for (int i = 0; i < d->list.n; i++) {
        const Candidate *c = d->list.at[i];
        for (int k = 1; c->constant_filled && k < c->uses.n; k++)
            if (c->uses.at[0].trains && c->uses.at[k].trains && exporter_modules_differ(d->arena, c->uses.at[0].node, c->uses.at[k].node))
                return true;
    }
    return false;
}

static Candidate *make_own(Decision *d, const Candidate *c, const Use *use)
{
    Candidate *own = NEW(d->arena, Candidate);
    const char *node = use->node->name[0] ? use->node->name : use->node->outputs[0];
    own->name = arena_text(d->arena, "%s#%s", c->name, node);
    for (int k = 2; map_has(d->by_name, own->name); k++) own->name = arena_text(d->arena, "%s#%s_%d", c->name, node, k);
    own->tensor = NEW(d->arena, OnnxTensor);
    *own->tensor = *c->tensor;
    own->tensor->name = own->name;
    own->graph = d->model->graph, own->constant_filled = c->constant_filled;
    own->trains = own->made = true, own->reason = use->reason, own->init = use->init;
    vec_push(d->arena, &own->aliases, c->name);
    model_add_initializer(d, own->tensor);
    map_set(d->by_name, own->name, own);
    vec_push(d->arena, &d->list, own);
    return own;
}

/* What still reads c afterwards keeps its name, and does not train. */
static void keep_rest(Decision *d, Candidate *c)
{
    const Candidate before = *c;
    c->uses.n = 0, c->trains = false;
    for (int i = 0; i < before.uses.n; i++)
        if (!before.uses.at[i].trains) c->uses.at[c->uses.n++] = before.uses.at[i];
    c->gone = c->uses.n == 0;
    if (!c->gone) c->reason = c->uses.at[0].reason, c->init = c->uses.at[0].init;
    map_set(d->by_name, c->name, c);
}

enum { NAMES_SHOWN = 3 };
static void separate(Decision *d, Candidate *c)
{
    Buf names = {.arena = d->arena};
    int made = 0;
    const bool asked = listed(d->options->untie.at, d->options->untie.n, c->name);
    Candidate **owns = NEW_ARRAY(d->arena, Candidate *, c->uses.n + 1);
    for (int i = 0; i < c->uses.n; i++) {
        const Use *use = &c->uses.at[i];
        if (!use->trains) continue;
        for (int k = 0; k < i && !owns[i]; k++)
            if (owns[k] && same_place(d, use, &c->uses.at[k])) owns[i] = owns[k];
        if (!owns[i]) {
            owns[i] = make_own(d, c, use);
            read_instead(d, use, owns[i]->name);
            if (made++ < NAMES_SHOWN) buf_printf(&names, "%s\"%s\"", made > 1 ? ", " : "", owns[i]->name);
        }
        vec_push(d->arena, &owns[i]->uses, *use);
    }
    if (made > NAMES_SHOWN) buf_printf(&names, ", … (%d tensors)", made);
    keep_rest(d, c);
    const char *text;
    if (asked)
        text = arena_text(d->arena, "\"%s\": separated into %s", c->name, buf_text(&names));
    else if (made == 1)
        text = arena_text(
            d->arena,
            "\"%s\" holds one value and trains in one of the places that use it: there it is %s (--tie \"%s\" keeps it one)",
            c->name, buf_text(&names), c->name);
    else if (!c->constant_filled)
        text = arena_text(d->arena,
                          "\"%s\" is used in %d places by modules of their own, as exporters merge equal tensors of fresh models: separated "
                          "into %s (--tie \"%s\" keeps it one)",
                          c->name, made, buf_text(&names), c->name);
    else
        text = arena_text(
            d->arena,
            "\"%s\" holds one value and is used in %d places, as exporters merge equal tensors of fresh models: separated "
            "into %s (--tie \"%s\" keeps it one)",
            c->name, made, buf_text(&names), c->name);
    tie_say(d, text);
}

void separate_merged(Decision *d)
{
    const Options *o = d->options;
    for (int i = 0; i < o->untie.n; i++) find(d, "--untie", o->untie.at[i]);
    const int n = d->list.n;
    const bool by_modules = merges_happened(d);
    for (int i = 0; i < n; i++) {
        Candidate *c = d->list.at[i];
        const bool asked = c->apart || listed(o->untie.at, o->untie.n, c->name);
        const bool merged = (c->constant_filled || are_merged(d, c, by_modules)) && !c->whole && !listed(o->tie.at, o->tie.n, c->name);
        int trained = 0;
        for (int k = 0; k < c->uses.n; k++) trained += c->uses.at[k].trains;
        if (c->gone || c->statistics || !(asked || merged)) continue;
        /* One place that trains beside others that do not: a gain of ones that is a filler elsewhere. */
        if (places(d, c) > 1 || (places(d, c) == 1 && trained < c->uses.n)) separate(d, c);
    }
}

/* ---- tying ---- */
static bool equal_transposed(const OnnxTensor *a, const OnnxTensor *b)
{
    const size_t size = (size_t)onnx_type_bytes(a->type);
    const int64_t rows = a->dims[0], columns = a->dims[1];
    const char *x = a->data, *y = b->data;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            if (memcmp(x + (size_t)(i * columns + j) * size, y + (size_t)(j * rows + i) * size, size)) return false;
    return true;
}

typedef enum { DIFFERENT, EQUAL, TRANSPOSED } Likeness;
static Likeness likeness(const OnnxTensor *a, const OnnxTensor *b)
{
    if (a->type != b->type || a->count != b->count || !a->data || !b->data || a->rank != b->rank) return DIFFERENT;
    if (!memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) && !memcmp(a->data, b->data, a->bytes)) return EQUAL;
    if (a->rank == 2 && a->dims[0] == b->dims[1] && a->dims[1] == b->dims[0] && equal_transposed(a, b)) return TRANSPOSED;
    return DIFFERENT;
}

/* a's transposed for the readers of b. */
static const char *make_transpose(Decision *d, const Candidate *a, const Candidate *b)
{
    OnnxNode *node = NEW(d->arena, OnnxNode);
    node->name = arena_text(d->arena, "%s^T", b->name);
    node->op_type = "Transpose", node->domain = "", node->overload = "", node->opset = d->model->opset;
    node->inputs = NEW_ARRAY(d->arena, const char *, 1), node->outputs = NEW_ARRAY(d->arena, const char *, 1);
    node->inputs[0] = a->name, node->n_inputs = 1, node->outputs[0] = node->name, node->n_outputs = 1;
    model_put_first(d, node);
    return node->name;
}

void tie_as(Decision *d, Candidate *a, Candidate *b, const char *value, OnnxStored how)
{
    if (a->node) model_put_first(d, a->node);
    for (int i = 0; i < b->uses.n; i++) {
        read_instead(d, &b->uses.at[i], value);
        vec_push(d->arena, &a->uses, b->uses.at[i]);
    }
    how.name = b->name, how.tensor = b->tensor, how.weight = a->name;
    vec_push(d->arena, &d->model->stored, how);
    a->trains |= b->trains;
    b->trains = false, b->gone = true;
    for (int i = 0; i < b->aliases.n; i++) vec_push(d->arena, &a->aliases, b->aliases.at[i]);
    for (int i = 0; i < map_count(d->by_name); i++)
        if (map_value(d->by_name, i) == b) map_set(d->by_name, map_key(d->by_name, i), a);
}

static void tie(Decision *d, Candidate *a, Candidate *b, Likeness how)
{
    if (how == TRANSPOSED) {
        int64_t *strides = NEW_ARRAY(d->arena, int64_t, 2);
        strides[0] = 1, strides[1] = b->tensor->dims[0];
        tie_as(d, a, b, make_transpose(d, a, b), (OnnxStored){.strides = strides});
    } else
        tie_as(d, a, b, a->name, (OnnxStored){0});
    vec_push(d->arena, &a->aliases, b->name);
}

/* By names of their own, or by the modules that use them: layers.0.linear and layers.1.linear.  Numbers that nobody drew, as the
 * logarithms of 1, 2, 3 … in each layer of a state space model, tell nothing. */
bool are_copies_of_a_layer(Decision *d, const Candidate *a, const Candidate *b, bool as_they_lie)
{
    if (!a->uses.n || !b->uses.n) return true;
    const Use *x = &a->uses.at[0], *y = &b->uses.at[0];
    const char *p = exporter_parameter(d->arena, x->node, x->input), *q = exporter_parameter(d->arena, y->node, y->input);
    if (p && q) return strcmp(p, q) != 0;
    const bool named = as_they_lie && !name_is_computed(a->name) && !name_is_computed(b->name);
    return (work_alike(x, y) && (named || exporter_numbers_apart(d->arena, x->node, y->node))) || !elements_are_random(b->tensor);
}

static void tie_to_equal(Decision *d, Candidate *b, const Candidates *before)
{
    for (int k = 0; k < before->n; k++) {
        Candidate *a = before->at[k];
        if (!a->trains || a->gone || a->constant_filled || a->graph != d->model->graph || a->apart) continue;
        if (listed(d->options->untie.at, d->options->untie.n, a->name)) continue;
        const Likeness how = likeness(a->tensor, b->tensor);
        if (how == DIFFERENT) continue;
        if (a->made && b->made && !strcmp(a->aliases.at[0], b->aliases.at[0])) return; /* just separated */
        const char *turned = how == TRANSPOSED ? " transposed" : "";
        if (are_copies_of_a_layer(d, a, b, how == EQUAL)) {
            tie_say(d, arena_text(d->arena,
                              "\"%s\" equals \"%s\"%s, as copies of a layer do before training: trained apart (--tie \"%s=%s\" "
                              "makes them one)",
                              b->name, a->name, turned, a->name, b->name));
            return;
        }
        tie(d, a, b, how);
        tie_say(d, arena_text(d->arena, "\"%s\" equals \"%s\"%s: tied, trained as one (--untie \"%s\" keeps them apart)", b->name,
                          a->name, turned, b->name));
        return;
    }
}

/* The same for a tensor and its transposed: size, first and last element. */
static const char *kin_of(Decision *d, const OnnxTensor *t)
{
    Buf key = {.arena = d->arena};
    buf_printf(&key, "%d %d %lld ", (int)t->type, t->rank, (long long)t->count);
    const size_t size = (size_t)onnx_type_bytes(t->type);
    const unsigned char *data = t->data;
    for (size_t i = 0; data && i < size && t->bytes >= size; i++) buf_printf(&key, "%02x%02x", data[i], data[t->bytes - size + i]);
    return buf_text(&key);
}

void tie_equal(Decision *d)
{
    /* Few tensors are alike so far; those that are get compared element by element, which ends at the first difference. */
    Map *kin = map_new(d->arena);
    for (int i = 0; i < d->list.n; i++) {
        Candidate *b = d->list.at[i];
        const char *key = kin_of(d, b->tensor);
        Candidates *before = map_get(kin, key);
        if (!before) map_set(kin, key, before = NEW(d->arena, Candidates));
        const bool may_tie = b->trains && !b->gone && b->tensor->rank >= 2 && !b->constant_filled && !b->whole;
        if (may_tie && b->graph == d->model->graph && !listed(d->options->untie.at, d->options->untie.n, b->name))
            tie_to_equal(d, b, before);
        vec_push(d->arena, before, b);
    }
}

/* "A=B": names may hold a '=' themselves. */
static bool split_names(Decision *d, const char *entry, Candidate **a, Candidate **b)
{
    for (const char *at = strchr(entry, '='); at; at = strchr(at + 1, '=')) {
        *a = map_get(d->by_name, arena_copy(d->arena, entry, (size_t)(at - entry)));
        *b = map_get(d->by_name, at + 1);
        if (*a && *b) return true;
    }
    return false;
}

void tie_asked(Decision *d)
{
    for (int i = 0; i < d->options->tie.n; i++) {
        const char *entry = d->options->tie.at[i], *equals = strchr(entry, '=');
        Candidate *a = NULL, *b = NULL;
        if (map_get(d->by_name, entry)) continue; /* --tie NAME: a tensor of one value stays one */
        if (!equals) find(d, "--tie", entry);
        if (!split_names(d, entry, &a, &b)) {
            find(d, "--tie", arena_copy(d->arena, entry, (size_t)(equals - entry)));
            find(d, "--tie", equals + 1);
        }
        if (a == b) continue;
        const OnnxTensor *x = a->tensor, *y = b->tensor;
        const bool same = x->rank == y->rank && !memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims);
        const bool turned = x->rank == 2 && y->rank == 2 && x->dims[0] == y->dims[1] && x->dims[1] == y->dims[0];
        if (x->type != y->type || (!same && !turned))
            error_exit("--tie %s: the two differ in shape or type; wanted equal shapes, or one the transposed of the other", entry);
        if (a->graph != d->model->graph || b->graph != d->model->graph || a->statistics || b->statistics)
            error_exit("--tie %s: one of them is a running statistic or stands in a branch; neither can be tied", entry);
        /* Square matrices may be meant either way: their elements tell. */
        tie(d, a, b, same && !(turned && likeness(x, y) == TRANSPOSED) ? EQUAL : TRANSPOSED);
    }
}
