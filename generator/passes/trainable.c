/* trainable: decides what trains and says why.
 *
 * Needs: the model as onnx_read leaves it, dims settled.  Leaves: the same model with nodes reading separated or tied tensors
 * (tie.c); a Tensor for each float constant.  Breaks: nothing.
 *
 * Roles decide first (roles.c); then the table of --trainable; then --train and --freeze. */
#include "passes/trainable.h"
#include "onnx/import.h"
#include "support/diag.h"
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- --train, --freeze ---- */
static void compile_pattern(regex_t *regex, const char *option, const char *pattern)
{
    const int fault = regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB);
    if (!fault) return;
    char why[200];
    regerror(fault, regex, why, sizeof why);
    error_exit("%s: \"%s\" is no POSIX extended expression: %s", option, pattern, why);
}

/* By its own name, or one of the model's that it stands for. */
static bool matches_one(const regex_t *regex, const Candidate *c)
{
    if (!regexec(regex, c->name, 0, NULL, 0)) return true;
    for (int i = 0; i < c->aliases.n; i++)
        if (!regexec(regex, c->aliases.at[i], 0, NULL, 0)) return true;
    return false;
}

/* A part goes with its whole. */
static bool matches_part(Decision *d, const regex_t *regex, const char *option, const Candidate *c)
{
    for (int i = 0; i < c->parts.n; i++) {
        if (regexec(regex, c->parts.at[i], 0, NULL, 0)) continue;
        tie_say(d, arena_text(d->arena, "%s: \"%s\" is a part of \"%s\" and goes with it (--untie \"%s\" keeps them apart)",
                              option, c->parts.at[i], c->name, c->parts.at[i]));
        return true;
    }
    return false;
}

static bool *matches(Decision *d, const char *option, const char *pattern)
{
    regex_t regex;
    bool *hit = NEW_ARRAY(d->arena, bool, d->list.n + 1), any = false;
    compile_pattern(&regex, option, pattern);
    for (int i = 0; i < d->list.n; i++) {
        const Candidate *c = d->list.at[i];
        if (c->gone) continue;
        hit[i] = matches_one(&regex, c);
        any |= hit[i] || matches_part(d, &regex, option, c);
    }
    regfree(&regex);
    if (!any)
        error_exit("%s: \"%s\" matches no float tensor of the model%s; the table that disc-gen prints has all their names", option,
                   pattern, near_candidates(d, pattern));
    return hit;
}

static void obey_patterns(Decision *d)
{
    const bool *train = d->options->train ? matches(d, "--train", d->options->train) : NULL;
    const bool *freeze = d->options->freeze ? matches(d, "--freeze", d->options->freeze) : NULL;
    for (int i = 0; i < d->list.n; i++) {
        Candidate *c = d->list.at[i];
        if (train && train[i] && c->statistics)
            error_add("--train: \"%s\" is a running statistic, which has no gradient", c->name);
        else if (train && train[i])
            c->trains = true, c->reason = arena_text(d->arena, "--train (%s)", c->reason);
        else if (train && c->trains)
            c->trains = false, c->reason = "not among --train";
        if (freeze && freeze[i] && c->trains) c->trains = false, c->reason = arena_text(d->arena, "--freeze (%s)", c->reason);
    }
    error_stop();
}

/* ---- --trainable ---- */
typedef struct Line {
    const char *where; /* "trainable.txt:7" */
    bool train;
    char *name;
} Line;
typedef VEC(Line) Lines;

/* train "NAME" … or frozen "NAME" …; what follows the name is for people, # begins a comment. */
static Lines read_table(Decision *d, const char *path)
{
    Lines lines = {0};
    char *text = NULL;
    size_t room = 0;
    struct stat there;
    FILE *f = !stat(path, &there) && S_ISREG(there.st_mode) ? fopen(path, "r") : NULL;
    if (!f) error_exit("--trainable: cannot read \"%s\"", path);
    for (int number = 1; getline(&text, &room, f) >= 0; number++) {
        const char *where = arena_text(d->arena, "%s:%d", path, number), *word = text + strspn(text, " \t");
        if (*word == '#' || !word[strspn(word, " \t\r\n")]) continue;
        const size_t length = strcspn(word, " \t\r\n");
        const char *name = word + length + strspn(word + length, " \t"), *end = *name == '"' ? strchr(name + 1, '"') : NULL;
        const bool train = length == 5 && !strncmp(word, "train", 5), frozen = length == 6 && !strncmp(word, "frozen", 6);
        if (!end || !(train || frozen))
            error_add("%s: wanted: train \"NAME\" or frozen \"NAME\"", where);
        else
            vec_push(d->arena, &lines, ((Line){where, train, arena_copy(d->arena, name + 1, (size_t)(end - name - 1))}));
    }
    free(text);
    fclose(f);
    error_stop();
    return lines;
}

/* Before anything is separated or tied: a table that names parts wants them apart; one that names the whole wants it whole. */
static void prepare_for_table(Decision *d, const Lines *lines)
{
    for (int i = 0; i < lines->n; i++) {
        const char *name = lines->at[i].name, *node = strchr(name, '#');
        Candidate *c = map_get(d->by_name, name);
        if (c && lines->at[i].train) c->whole = true;
        if (c) c->listed = true;
        while (!c && node) { /* a '#' may belong to the name */
            c = map_get(d->by_name, arena_copy(d->arena, name, (size_t)(node - name)));
            if (c) c->apart = true;
            node = strchr(node + 1, '#');
        }
    }
}

static void obey_table(Decision *d, const Lines *lines)
{
    for (int i = 0; i < lines->n; i++) {
        const Line *line = &lines->at[i];
        Candidate *c = map_get(d->by_name, line->name);
        if (!c || c->gone)
            error_add("%s: the model has no float tensor \"%s\"%s", line->where, line->name, near_candidates(d, line->name));
        else if (line->train && c->statistics)
            error_add("%s: \"%s\" is a running statistic, which has no gradient", line->where, line->name);
        else if (c->trains != line->train)
            c->trains = line->train, c->reason = arena_text(d->arena, "--trainable (%s)", c->reason);
    }
    error_stop();
}

/* ---- weights without data: --init ---- */
static bool may_train(const Candidate *c)
{
    for (int i = 0; i < c->uses.n; i++)
        if (c->uses.at[i].trains) return true;
    return c->trains || c->statistics;
}

static void give_init(Decision *d, const Candidate *c, Tensor *t)
{
    if (c->tensor->data || c->tensor->count == 0) return;
    const char *file = c->tensor->location ? c->tensor->location : "the file of its data";
    if (!d->options->init)
        error_add("the data of \"%s\" is not there (\"%s\" is missing beside the model): give the file, or --init RULE, such as "
                  "--init \"normal(0.02)\", to start from random weights",
                  c->name, file);
    else if (!may_train(c))
        error_add(
            "the data of \"%s\" is not there (\"%s\" is missing beside the model), and --init makes weights alone; what it is: %s",
            c->name, file, c->reason);
    else
        t->init = !strcmp(c->init, "gain") ? "ones" : !strcmp(c->init, "bias") ? "zeros" : d->options->init;
}

static void make_tensors(Decision *d)
{
    int trained = 0;
    for (int i = 0; i < d->list.n; i++) {
        Candidate *c = d->list.at[i];
        if (c->gone) continue;
        Tensor *t = weight_tensor(d->arena, c->tensor, c->name);
        t->trainable = c->trains, t->parameter = c->trains || c->parameter, t->statistics = c->statistics, t->reason = c->reason;
        if (c->uses.n) give_init(d, c, t);
        map_set(d->tensors, c->name, t);
        trained += c->trains;
    }
    error_stop();
    if (!trained && !d->options->inference)
        error_exit("nothing trains: of the model's %d float tensors none is the weight of an operation on data; --train REGEX "
                   "trains what it matches, --inference makes a program that only runs the model%s",
                   d->list.n,
                   d->list.n ? arena_text(d->arena, "; for example, \"%s\" is: %s", d->list.at[0]->name, d->list.at[0]->reason)
                             : "");
}

/* ---- whose values a tensor of the file has ---- */
/* What is tied to next, whole or transposed, in terms of what next is tied to. */
static void compose(Arena *arena, OnnxStored *tied, const OnnxStored *next)
{
    const OnnxTensor *t = next->tensor;
    if (!next->strides) return;
    if (!tied->strides) {
        tied->first = next->first, tied->strides = next->strides;
        return;
    }
    int64_t *strides = NEW_ARRAY(arena, int64_t, tied->tensor->rank + 1);
    for (int k = 0; k < tied->tensor->rank; k++) {
        int64_t unit = 1;
        int axis = t->rank - 1;
        for (; axis > 0 && unit != tied->strides[k]; axis--) unit *= t->dims[axis];
        check(unit == tied->strides[k]);
        strides[k] = next->strides[axis];
    }
    tied->first = next->first, tied->strides = strides;
}

/* What was tied to a tensor that was then tied to another has that one's values. */
static void follow_ties(OnnxModel *model, OnnxStored *tied)
{
    for (int i = 0; i < model->stored.n; i++) {
        const OnnxStored *next = &model->stored.at[i];
        if (next == tied || strcmp(next->name, tied->weight)) continue;
        tied->weight = next->weight;
        compose(model->arena, tied, next);
        i = -1;
    }
}

static void list_stored(Decision *d)
{
    OnnxModel *model = d->model;
    for (int i = 0; i < model->stored.n; i++) {
        OnnxStored *tied = &model->stored.at[i];
        follow_ties(model, tied);
        tied->changes = ((const Candidate *)map_get(d->by_name, tied->weight))->trains;
    }
    for (int i = 0; i < d->list.n; i++) {
        const Candidate *c = d->list.at[i];
        if (c->gone) continue;
        vec_push(d->arena, &model->stored,
                 ((OnnxStored){.name = c->name, .tensor = c->tensor, .weight = c->name, .made = c->made, .changes = c->trains || c->statistics}));
    }
}

/* ---- the table ---- */
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
    enum { WIDEST = 60 }; /* longer names push their own line aside, not all */
    int width = 0;
    for (int i = 0; i < d->list.n; i++) {
        const int n = (int)strlen(d->list.at[i]->name);
        if (!d->list.at[i]->gone && n > width && n <= WIDEST) width = n;
    }
    for (int i = 0; i < d->list.n; i++) {
        const Candidate *c = d->list.at[i];
        if (c->gone) continue;
        const int pad = width - (int)strlen(c->name);
        buf_printf(&text, "%-6s \"%s\"%*s  %-20s  %s\n", c->trains ? "train" : "frozen", c->name, pad > 0 ? pad : 0, "",
                   shape_of(d, map_get(d->tensors, c->name)), c->reason);
    }
    return buf_text(&text);
}

/* val_2: what PyTorch's exporter says that it was, l1_weight */
static void name_made_up(Decision *d)
{
    for (int i = 0; i < d->list.n; i++) {
        Candidate *c = d->list.at[i];
        if (!c->trains || strcmp(c->init, "matrix") || !name_is_generated(c->name)) continue;
        const char *parameter = exporter_parameter(d->arena, c->uses.at[0].node, c->uses.at[0].input);
        if (parameter) c->reason = arena_text(d->arena, "%s, in PyTorch %s", c->reason, parameter + strlen("p_"));
    }
}

const char *pass_trainable(OnnxModel *model, const Options *options, Arena *arena, Map *tensors)
{
    Decision d = {.arena = arena, .model = model, .options = options, .tensors = tensors, .by_name = map_new(arena)};
    Lines lines = {0};
    find_roles(arena, model, &d.list);
    for (int i = 0; i < d.list.n; i++) map_set(d.by_name, d.list.at[i]->name, d.list.at[i]);
    name_made_up(&d);
    if (options->trainable_file) lines = read_table(&d, options->trainable_file);
    prepare_for_table(&d, &lines);
    if (!options->inference) exporter_notes(model, options, arena);
    tie_asked(&d);
    separate_merged(&d);
    tie_equal(&d);
    tie_parts(&d);
    candidate_notes(&d);
    for (int i = 0; i < d.list.n; i++) d.list.at[i]->parameter = d.list.at[i]->trains;
    obey_table(&d, &lines);
    obey_patterns(&d);
    make_tensors(&d);
    list_stored(&d);
    return table(&d);
}
