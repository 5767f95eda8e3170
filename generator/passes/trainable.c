/* trainable: decides what trains and says why; separates what an exporter merged, ties what it split.
 *
 * Needs: the model as onnx_read leaves it, dims settled.  Leaves: the same model with nodes reading separated or tied tensors; a
 * Tensor for each float constant.  Breaks: nothing.
 *
 * Exporters merge equal tensors of fresh models: all norms share one gain of ones, biases one of zeros.  A constant-filled tensor
 * with several uses is therefore one tensor a use, NAME#node.  They also write a tied head as a second matrix, transposed: equal
 * matrices become one. */
#include "onnx/import.h"
#include "passes/passes.h"
#include "passes/roles.h"
#include "support/diag.h"
#include <regex.h>
#include <stdio.h>
#include <string.h>

typedef struct Decision {
    Arena *arena;
    OnnxModel *model;
    const Options *options;
    Candidates list;
    Map *tensors;
    Map *by_name;
} Decision;

/* ---- what the user says: --train, --freeze, --trainable ---- */
static void compile_pattern(regex_t *regex, const char *option, const char *pattern)
{
    const int fault = regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB);
    if (!fault) return;
    char why[200];
    regerror(fault, regex, why, sizeof why);
    error_exit("%s: \"%s\" is no POSIX extended expression: %s", option, pattern, why);
}

static const char *near_candidates(Decision *d, const char *wrong)
{
    const char **names = NEW_ARRAY(d->arena, const char *, d->list.n + 1);
    for (int i = 0; i < d->list.n; i++) names[i] = d->list.at[i]->name;
    return near_names(d->arena, wrong, names, d->list.n);
}

static bool *matches(Decision *d, const char *option, const char *pattern)
{
    regex_t regex;
    bool *hit = NEW_ARRAY(d->arena, bool, d->list.n + 1), any = false;
    compile_pattern(&regex, option, pattern);
    for (int i = 0; i < d->list.n; i++) any |= hit[i] = !regexec(&regex, d->list.at[i]->name, 0, NULL, 0);
    regfree(&regex);
    if (!any) {
        const char *near = near_candidates(d, pattern);
        error_exit("%s: \"%s\" matches no float initializer of the model%s%s; the names stand in the table that disc-gen prints",
                   option, pattern, near[0] ? "; near are " : "", near);
    }
    return hit;
}

static void obey_patterns(Decision *d)
{
    const bool *train = d->options->train ? matches(d, "--train", d->options->train) : NULL;
    const bool *freeze = d->options->freeze ? matches(d, "--freeze", d->options->freeze) : NULL;
    for (int i = 0; i < d->list.n; i++) {
        Candidate *c = d->list.at[i];
        if (train && train[i] && c->statistics) error_add("--train: \"%s\" is a running statistic, which has no gradient", c->name);
        if (train)
            c->trains = train[i], c->reason = train[i] ? arena_text(d->arena, "--train (%s)", c->reason) : "not among --train";
        if (freeze && freeze[i]) c->trains = false, c->reason = arena_text(d->arena, "--freeze (%s)", c->reason);
    }
    error_stop();
}

/* A line of the table: train "NAME" …   or frozen "NAME" …; # begins a comment.  Read twice: before tensors are separated, when a
 * line for NAME#node only says that NAME is wanted, and afterwards, when it is meant for the separated one alone. */
static void obey_line(Decision *d, const char *where, bool train, char *name, bool separated)
{
    char *node = strchr(name, '#');
    Candidate *c = map_get(d->by_name, name);
    if (!separated && !c && node) {
        *node = 0;
        c = map_get(d->by_name, name);
        if (c && train) c->trains = true;
    } else if (c && train && c->statistics)
        error_add("%s: \"%s\" is a running statistic, which has no gradient", where, name);
    else if (c && c->trains != train)
        c->trains = train, c->reason = arena_text(d->arena, "--trainable (%s)", c->reason);
    if (!c && !separated) error_add("%s: the model has no float tensor \"%s\"; near are %s", where, name, near_candidates(d, name));
}

static void obey_table(Decision *d, const char *path, bool separated)
{
    FILE *f = fopen(path, "r");
    char line[4096], word[16], name[3000];
    if (!f) error_exit("--trainable: cannot read \"%s\"", path);
    for (int number = 1; fgets(line, sizeof line, f); number++) {
        const char *where = arena_text(d->arena, "%s:%d", path, number);
        if (line[strspn(line, " \t")] == '#' || sscanf(line, "%15s", word) != 1) continue;
        const bool train = !strcmp(word, "train");
        if (sscanf(line, "%*s \"%2999[^\"]\"", name) != 1 || (!train && strcmp(word, "frozen")))
            error_add("%s: wanted: train \"NAME\" or frozen \"NAME\"", where);
        else
            obey_line(d, where, train, name, separated);
    }
    fclose(f);
    error_stop();
}

/* ---- separating ---- */
static bool listed(const char *const *entries, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(entries[i], name)) return true;
    return false;
}

static const char *place_name(const OnnxNode *node)
{
    return node->name[0] ? node->name : node->outputs[0];
}

static void add_initializer(Decision *d, OnnxTensor *tensor)
{
    OnnxGraph *graph = d->model->graph;
    OnnxTensor **list = NEW_ARRAY(d->arena, OnnxTensor *, graph->n_initializers + 1);
    if (graph->n_initializers) memcpy(list, graph->initializers, (size_t)graph->n_initializers * sizeof *list);
    list[graph->n_initializers++] = tensor;
    graph->initializers = list;
    map_set(graph->initializer_of, tensor->name, tensor);
}

static void separate(Decision *d, Candidate *c, bool said)
{
    Buf names = {.arena = d->arena};
    const int uses = c->uses.n;
    for (int i = 0; i < uses; i++) {
        Use *use = &c->uses.at[i];
        Candidate *own = NEW(d->arena, Candidate);
        *own = *c;
        own->name = arena_text(d->arena, "%s#%s", c->name, place_name(use->node));
        for (int k = 2; map_has(d->by_name, own->name); k++)
            own->name = arena_text(d->arena, "%s#%s_%d", c->name, place_name(use->node), k);
        own->tensor = NEW(d->arena, OnnxTensor);
        *own->tensor = *c->tensor;
        own->tensor->name = own->name;
        own->uses.at = NEW(d->arena, Use), own->uses.n = own->uses.room = 1;
        own->uses.at[0] = *use;
        map_set(d->by_name, own->name, own);
        add_initializer(d, own->tensor);
        vec_push(d->arena, &d->list, own);
        buf_printf(&names, "%s\"%s\"", i ? ", " : "", own->name);
        /* Where views lie between, the use takes the tensor itself only if the view is an Identity; other views are cloned by name.
         */
        OnnxNode *node = (OnnxNode *)use->node;
        if (use->node == use->taker)
            use->taker->inputs[use->taker_input] = own->name;
        else
            node->inputs[use->input] = own->name;
    }
    c->trains = false, c->reason = "separated";
    map_set(d->by_name, c->name, NULL);
    if (!said)
        notice("\"%s\" is filled with one value and used in %d places, as exporters merge equal tensors of fresh models: separated "
               "into %s (--freeze or --train chooses among them; --tie \"%s\" keeps it one)",
               c->name, uses, buf_text(&names), c->name);
    else
        notice("\"%s\" is separated into %s (--untie)", c->name, buf_text(&names));
}

/* Only where each use reads the tensor itself or through Identity: a view between would have to be made again. */
static bool separable(const Candidate *c)
{
    for (int i = 0; i < c->uses.n; i++)
        if (c->uses.at[i].node != c->uses.at[i].taker && strcmp(c->uses.at[i].taker->op_type, "Identity")) return false;
    return c->uses.n > 1;
}

static void separate_all(Decision *d)
{
    const int n = d->list.n;
    for (int i = 0; i < n; i++) {
        Candidate *c = d->list.at[i];
        const bool asked = listed(d->options->untie.at, d->options->untie.n, c->name);
        const bool kept = listed(d->options->tie.at, d->options->tie.n, c->name);
        if (c->trains && separable(c) && (asked || (c->constant_filled && !kept))) separate(d, c, asked);
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

static void insert_node(Decision *d, OnnxGraph *graph, OnnxNode *node)
{
    OnnxNode **nodes = NEW_ARRAY(d->arena, OnnxNode *, graph->n_nodes + 1);
    nodes[0] = node; /* reads an initializer alone: it may stand first */
    memcpy(nodes + 1, graph->nodes, (size_t)graph->n_nodes * sizeof *nodes);
    graph->nodes = nodes, graph->n_nodes++;
}

/* b, a Transpose of a, under b's name. */
static void make_transpose(Decision *d, const Candidate *a, Candidate *b)
{
    OnnxNode *node = NEW(d->arena, OnnxNode);
    const char *made = arena_text(d->arena, "%s^T", b->name);
    node->name = made, node->op_type = "Transpose", node->domain = "", node->overload = "", node->opset = d->model->opset;
    node->inputs = NEW_ARRAY(d->arena, const char *, 1), node->outputs = NEW_ARRAY(d->arena, const char *, 1);
    node->inputs[0] = a->name, node->n_inputs = 1, node->outputs[0] = made, node->n_outputs = 1;
    insert_node(d, d->model->graph, node);
    for (int i = 0; i < b->uses.n; i++) b->uses.at[i].taker->inputs[b->uses.at[i].taker_input] = made;
}

static void tie(Decision *d, Candidate *a, Candidate *b, Likeness how)
{
    if (how == TRANSPOSED)
        make_transpose(d, a, b);
    else
        for (int i = 0; i < b->uses.n; i++) b->uses.at[i].taker->inputs[b->uses.at[i].taker_input] = a->name;
    b->trains = false, b->reason = "tied";
    map_set(d->by_name, b->name, NULL);
    notice("\"%s\" equals \"%s\"%s: tied, trained as one (--untie \"%s\" keeps them apart)", b->name, a->name,
           how == TRANSPOSED ? " transposed" : "", b->name);
}

static void tie_all(Decision *d)
{
    /* Few matrices share a size; those that do are compared element by element, which ends at the first difference. */
    for (int i = 0; i < d->list.n; i++) {
        Candidate *b = d->list.at[i];
        if (!b->trains || b->tensor->rank < 2 || b->constant_filled || b->graph != d->model->graph) continue;
        if (listed(d->options->untie.at, d->options->untie.n, b->name)) continue;
        for (int k = 0; k < i; k++) {
            Candidate *a = d->list.at[k];
            if (!a->trains || a->constant_filled || a->graph != d->model->graph || a->tensor->count != b->tensor->count || a->node)
                continue;
            if (listed(d->options->untie.at, d->options->untie.n, a->name)) continue;
            const Likeness how = likeness(a->tensor, b->tensor);
            if (how == DIFFERENT) continue;
            tie(d, a, b, how);
            break;
        }
    }
}

/* --tie A=B: B becomes A, whatever B holds. */
static void tie_asked(Decision *d)
{
    for (int i = 0; i < d->options->tie.n; i++) {
        const char *entry = d->options->tie.at[i], *equals = strchr(entry, '=');
        if (!equals) {
            if (!map_get(d->by_name, entry))
                error_exit("--tie: the model has no float tensor \"%s\"; near are %s", entry, near_candidates(d, entry));
            continue; /* --tie NAME: a constant-filled tensor stays one */
        }
        const char *first = arena_copy(d->arena, entry, (size_t)(equals - entry));
        Candidate *a = map_get(d->by_name, first), *b = map_get(d->by_name, equals + 1);
        if (!a || !b)
            error_exit("--tie: the model has no float tensor \"%s\"; near are %s", a ? equals + 1 : first,
                       near_candidates(d, a ? equals + 1 : first));
        const OnnxTensor *x = a->tensor, *y = b->tensor;
        const bool same = x->rank == y->rank && !memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims);
        const bool turned = x->rank == 2 && y->rank == 2 && x->dims[0] == y->dims[1] && x->dims[1] == y->dims[0];
        if (x->type != y->type || (!same && !turned))
            error_exit("--tie: \"%s\" and \"%s\" differ in shape or type; they can be tied when equal or transposed in shape",
                       first, equals + 1);
        tie(d, a, b, same ? EQUAL : TRANSPOSED);
    }
}

/* ---- weights without data: --init ---- */
static void give_init(Decision *d, Candidate *c, Tensor *t)
{
    if (c->tensor->data || c->tensor->count == 0) return;
    if (!d->options->init) {
        error_add("the data of \"%s\" is not there (\"%s\" is missing beside the model): give the file, or --init RULE, such as "
                  "--init \"normal(0.02)\", to start from random weights",
                  c->name, c->tensor->location ? c->tensor->location : "its file");
        return;
    }
    t->init = !strcmp(c->init, "gain") ? "ones" : !strcmp(c->init, "bias") ? "zeros" : d->options->init;
}

static void make_tensors(Decision *d)
{
    for (int i = 0; i < d->list.n; i++) {
        Candidate *c = d->list.at[i];
        Tensor *t = weight_tensor(d->arena, c->tensor, c->name);
        t->trainable = c->trains, t->statistics = c->statistics, t->reason = c->reason;
        give_init(d, c, t);
        map_set(d->tensors, c->name, t);
    }
    error_stop();
}

/* ---- telling ---- */
static const char *shape_of(Decision *d, const Tensor *t)
{
    Buf text = {.arena = d->arena};
    buf_printf(&text, "%s[", dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++) buf_printf(&text, "%s%lld", k ? ", " : "", (long long)t->dims[k]);
    buf_put(&text, "]");
    return buf_text(&text);
}

static const char *table(Decision *d)
{
    Buf text = {.arena = d->arena};
    buf_put(&text,
            "# What trains, and why.  Change a first word (train, frozen) and give this file to disc-gen with --trainable.\n");
    int width = 0;
    for (int i = 0; i < d->list.n; i++)
        if (map_get(d->by_name, d->list.at[i]->name) && (int)strlen(d->list.at[i]->name) > width)
            width = (int)strlen(d->list.at[i]->name);
    for (int i = 0; i < d->list.n; i++) {
        const Candidate *c = d->list.at[i];
        if (!map_get(d->by_name, c->name)) continue;
        buf_printf(&text, "%-6s \"%s\"%*s  %-24s %s\n", c->trains ? "train" : "frozen", c->name, width - (int)strlen(c->name), "",
                   shape_of(d, map_get(d->tensors, c->name)), c->reason);
    }
    return buf_text(&text);
}

const char *pass_trainable(OnnxModel *model, const Options *options, Arena *arena, Map *tensors)
{
    Decision d = {.arena = arena, .model = model, .options = options, .tensors = tensors, .by_name = map_new(arena)};
    find_roles(arena, model, &d.list);
    for (int i = 0; i < d.list.n; i++) map_set(d.by_name, d.list.at[i]->name, d.list.at[i]);
    for (int i = 0; i < options->untie.n; i++)
        if (!map_get(d.by_name, options->untie.at[i]))
            error_exit("--untie: the model has no float tensor \"%s\"; near are %s", options->untie.at[i],
                       near_candidates(&d, options->untie.at[i]));
    if (options->trainable_file) obey_table(&d, options->trainable_file, false);
    obey_patterns(&d);
    tie_asked(&d);
    separate_all(&d);
    if (options->trainable_file) obey_table(&d, options->trainable_file, true);
    tie_all(&d);
    make_tensors(&d);
    return table(&d);
}
