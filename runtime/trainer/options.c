/* Parses options from one table, which --help prints.  Needs and breaks nothing. */
#include "options.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "session.h"

const char *const option_hyper_names[OPTION_HYPERS] = {"lr", "weight_decay", "momentum", "beta1", "beta2", "eps"};

typedef enum { FLAG, TEXT, COUNT, INTEGER, REAL, BYTES, SHARE, CHOICE, DATA_FILES, DIM } Kind;
typedef struct {
    const char *group, *name, *argument, *help;
    int programs;
    Kind kind;
    size_t at; /* in Options */
    const char *choices;
} Row;
#define T FOR_TRAINER
#define R FOR_RUNNER
#define AT(member) offsetof(Options, member)

static const Row rows[] = {
    {"Data", "data", "FILE", "samples: npz, safetensors, or name=FILE.npy (several, with commas or again)", T, DATA_FILES, AT(data),
     NULL},
    {"Data", "batch-file", "FILE", "ready batches: tensors step<k>.NAME in a safetensors file", T, TEXT, AT(batch_file), NULL},
    {"Data", "batch-size", "N", "samples a batch (default: the likely value of the batch dim); the last one may be smaller", T,
     COUNT, AT(batch_size), NULL},
    {"Data", "seed", "N", "of shuffling, of random numbers in the step, of weights made by rule (default 0)", T | R, INTEGER,
     AT(seed), NULL},
    {"Data", "inputs", "FILE", "npz, safetensors, or a folder of input_<n>.pb", R, TEXT, AT(inputs), NULL},
    {"Data", "outputs", "FILE", "safetensors file to write", R, TEXT, AT(outputs), NULL},
    {"Training", "steps", "N", "batches to take, those set aside included (default: as --epochs)", T, INTEGER, AT(steps), NULL},
    {"Training", "epochs", "N", "passes over the data (default 1)", T, INTEGER, AT(epochs), NULL},
    {"Training", "lr", "X", "learning rate", T, REAL, AT(hypers[0]), NULL},
    {"Training", "weight-decay", "X", "", T, REAL, AT(hypers[1]), NULL},
    {"Training", "momentum", "X", "", T, REAL, AT(hypers[2]), NULL},
    {"Training", "beta1", "X", "", T, REAL, AT(hypers[3]), NULL},
    {"Training", "beta2", "X", "", T, REAL, AT(hypers[4]), NULL},
    {"Training", "eps", "X", "", T, REAL, AT(hypers[5]), NULL},
    {"Memory", "memory-limit", "SIZE", "never passed: bytes, or 30G = 30GiB (2^30), 30GB (10^9); also K, M, T (default: what is free, less a margin)", T | R, BYTES,
     AT(memory_limit), NULL},
    {"Memory", "row-blocks", "N",
     "wide rows (scores over a vocabulary, their loss and gradient) are computed in N blocks (default: blocks of about 64 MiB, "
     "smaller where --memory-limit wants it)",
     T, COUNT, AT(row_blocks), NULL},
    {"Memory", "lean", "auto|on|off",
     "the step that does products again in wide rows, block by block, in less memory; auto: where --memory-limit wants it and --row-blocks is not given", T,
     CHOICE, AT(lean), "auto|on|off"},
    {"Memory", "recompute", "auto|off", "off: never give up a buffer and make it again to stay within --memory-limit", T, CHOICE, AT(recompute), "auto|off"},
    {"Memory", "offload", "auto|on|off", "to stay within --memory-limit, buffers may be copied to the host and back; auto: on a GPU", T, CHOICE,
     AT(offload), "auto|on|off"},
    {"Memory", "calibration", "FILE", "for --offload, what the machine does in a second (default: measured, and kept in calibration.json)", T,
     TEXT, AT(calibration), NULL},
    {"Memory", "plan", NULL,
     "print the memory plan for --dim NAME=N ...; runs nothing, needs no weights or data; exit 0 even if infeasible", T, FLAG,
     AT(plan), NULL},
    {"Memory", "dim", "NAME=N", "a dim to plan for (default: its likely value)", T, DIM, AT(dims), NULL},
    {"Anomalies", "on-anomaly", "WHAT", "heal (default): plan again, or set the batch aside; skip: set aside; stop: exit 4", T,
     CHOICE, AT(on_anomaly), "heal|skip|stop"},
    {"Anomalies", "max-skipped", "SHARE", "of batches set aside, 1% (default) or 0.01; more: exit 4", T, SHARE, AT(max_skipped),
     NULL},
    {"Anomalies", "quarantine", "DIR", "keep each batch set aside: DIR/batch<index>.safetensors, a --batch-file with its reason", T, TEXT,
     AT(quarantine), NULL},
    {"Training", "variants", "auto|off|eager",
     "compile the step anew for dims that take long, beside the run; swapped in where it gives the same bits faster; eager: for any dims", T,
     CHOICE, AT(variants), "auto|off|eager"},
    {"Training", "graphs", "auto|off|on", "record the step for dims that come often, and launch it as a whole; auto: on a GPU", T, CHOICE, AT(graphs),
     "auto|off|on"},
    {"Anomalies", "verify-every", "N", "compare each unit of every Nth step with its operations one by one, which take over where it differs", T, COUNT,
     AT(verify_every), NULL},
    {"Anomalies", "trace-nan", NULL, "name the first node whose kernel made a NaN (of a fused kernel: its last node); slower", T, FLAG, AT(trace_nan),
     NULL},
    {"Files", "checkpoint", "DIR", "keep DIR/checkpoint.safetensors: weights, optimizer, place in the data", T, TEXT,
     AT(checkpoint), NULL},
    {"Files", "checkpoint-every", "N", "steps between checkpoints (default: at the end and on SIGINT, SIGTERM, SIGHUP)", T, COUNT,
     AT(checkpoint_every), NULL},
    {"Files", "resume", NULL, "go on from the checkpoint, with its settings where none are given", T, FLAG, AT(resume), NULL},
    {"Files", "log", "FILE", "a line of JSON a step", T, TEXT, AT(log), NULL},
    {"Files", "load-weights", "FILE", "instead of weights.safetensors beside the program", T | R, TEXT, AT(load_weights), NULL},
    {"Files", "save-weights", "FILE", "all weights after the last step", T, TEXT, AT(save_weights), NULL},
    {"Files", "save-gradients", "FILE", "gradients of the first step", T, TEXT, AT(save_gradients), NULL},
    {"Files", "export", "FILE.onnx", "the model as it came, with the weights after the last step", T, TEXT, AT(export_file), NULL},
    {"Files", "export-limit", "SIZE", "of FILE.onnx: where the model is larger, weights lie in FILE.onnx.data beside it (default: 2GiB, the most that ONNX allows)",
     T, BYTES, AT(export_limit), NULL},
    {"Files", "export-mode", "as-is|inference", "inference: BatchNormalization by running statistics, no Dropout, whatever they came as", T, CHOICE,
     AT(export_mode), "as-is|inference"},
    {"Other", "evaluate", NULL, "loss and accuracy over the data, once; no training", T, FLAG, AT(evaluate), NULL},
    {"Other", "check-gradients", NULL,
     "gradients of the first batch against differences of the loss, a line a tensor; changes nothing. To 1e-6 relative where the "
     "program was generated with --precision fp64, else to 2e-2; exit 1 where one is off",
     T, FLAG, AT(check_gradients), NULL},
    {"Other", "json", NULL, "with --evaluate, --check-gradients or --plan: the last line is JSON", T, FLAG, AT(json), NULL},
    {"Other", "progress", "auto|never", "a bar on a terminal, else a line now and then; or nothing", T, CHOICE, AT(progress),
     "auto|never"},
    {"Other", "help", NULL, "this text", T | R, FLAG, AT(help), NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The index of a hyper that this row sets, or -1. */
static int hyper_of(const Row *row)
{
    for (int i = 0; i < OPTION_HYPERS; i++)
        if (row->at == AT(hypers) + (size_t)i * sizeof(double)) return i;
    return -1;
}

void options_help(const Model *m, int program, const char *name)
{
    printf("%s: %s %s%s%s\n", name, program == FOR_TRAINER ? "trains" : "runs", m->source,
           program == FOR_TRAINER ? " with the loss " : "", program == FOR_TRAINER && m->loss ? m->loss : "");
    printf("usage: %s [options]\n", name);
    const char *group = "";
    for (int i = 0; i < ROWS; i++) {
        const Row *row = &rows[i];
        int hyper = hyper_of(row);
        char left[64], right[128] = "";
        if (!(row->programs & program) || (hyper >= 0 && !session_has_hyper(m, option_hyper_names[hyper]))) continue;
        if (strcmp(group, row->group)) printf("\n%s\n", group = row->group);
        snprintf(left, sizeof left, "--%s %s", row->name, row->argument ? row->argument : "");
        for (int h = 0; hyper >= 0 && h < m->n_hypers; h++)
            if (!strcmp(m->hypers[h].name, option_hyper_names[hyper]))
                snprintf(right, sizeof right, "(default %g)", m->hypers[h].value);
        printf("  %-26s %s%s%s\n", left, row->help, *row->help && *right ? " " : "", right);
    }
    printf("\nExit status: 0 done; 1 a fault of the program or the device; 2 the input; 3 does not fit into memory; 4 stopped by "
           "an anomaly; 128 + n: "
           "signal n.\n");
}

/* ---- values ---- */
static int bad_value(const Row *row, const char *value, const char *wanted, Fault *fault)
{
    return fault_set(fault, STATUS_USER, "--%s %s: wanted %s", row->name, value, wanted);
}

static bool parse_integer(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return !errno && end != text && !*end && !isspace((unsigned char)*text);
}

static bool parse_real(const char *text, double *out, const char **rest)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    *rest = end;
    return end != text && !isspace((unsigned char)*text) && isfinite(*out) && !(errno == ERANGE && fabs(*out) > 1);
}

static bool parse_bytes(const char *text, int64_t *out)
{
    static const char letters[] = "KMGT";
    double value, unit = 1;
    const char *suffix;
    if (parse_integer(text, out)) return *out > 0;
    if (!parse_real(text, &value, &suffix) || strpbrk(text, "xXpPnN")) return false;
    while (*suffix == ' ') suffix++;
    const char *letter = *suffix ? strchr(letters, toupper((unsigned char)*suffix)) : NULL;
    if (letter) {
        bool decimal = (suffix[1] == 'B' || suffix[1] == 'b') && !suffix[2], binary = !suffix[1] || !strcmp(suffix + 1, "iB");
        if (!decimal && !binary) return false;
        for (const char *l = letters; l <= letter; l++) unit *= decimal ? 1000 : 1024;
    } else if (*suffix && strcmp(suffix, "B"))
        return false;
    value = floor(value * unit);
    *out = value < 9e18 ? (int64_t)value : 0;
    return *out > 0;
}

static bool parse_share(const char *text, double *out)
{
    const char *rest;
    if (!parse_real(text, out, &rest)) return false;
    while (*rest == ' ') rest++;
    if (*rest == '%' && !rest[1])
        *out /= 100;
    else if (*rest)
        return false;
    return *out >= 0 && *out <= 1;
}

/* Index of value among "a|b|c", or -1. */
static int choice_of(const char *choices, const char *value)
{
    int index = 0;
    for (const char *c = choices; *c; index++) {
        size_t length = strcspn(c, "|");
        if (strlen(value) == length && !strncmp(c, value, length)) return index;
        c += length + (c[length] == '|');
    }
    return -1;
}

static int add_data(Options *o, const char *value, Fault *fault)
{
    size_t length = strlen(value) + (o->data ? strlen(o->data) + 1 : 0) + 1;
    char *joined = malloc(length);
    if (!joined) return fault_memory(fault);
    snprintf(joined, length, "%s%s%s", o->data ? o->data : "", o->data ? "," : "", value);
    free(o->data);
    o->data = joined;
    return 0;
}

static int add_dim(Options *o, char *value, Fault *fault)
{
    char **dims = realloc(o->dims, ((size_t)o->n_dims + 1) * sizeof *dims);
    if (!dims) return fault_memory(fault);
    o->dims = dims;
    o->dims[o->n_dims++] = value;
    return 0;
}

static int set_value(Options *o, const Row *row, char *value, Fault *fault)
{
    void *at = (char *)o + row->at;
    const char *rest;
    int64_t integer;
    int choice;
    switch (row->kind) {
    case TEXT: *(const char **)at = value; return *value ? 0 : bad_value(row, value, "a file's name", fault);
    case COUNT:
        if (!parse_integer(value, &integer) || integer < 1) return bad_value(row, value, "a whole number from 1", fault);
        *(int64_t *)at = integer;
        return 0;
    case INTEGER:
        if (!parse_integer(value, &integer) || integer < 0) return bad_value(row, value, "a whole number from 0", fault);
        *(int64_t *)at = integer;
        if (at == (void *)&o->seed) o->seed_given = true;
        return 0;
    case REAL:
        if (!parse_real(value, at, &rest) || *rest) return bad_value(row, value, "a number", fault);
        if (*(double *)at < 0) return bad_value(row, value, "a number from 0", fault);
        if (!strncmp(row->name, "beta", 4) && *(double *)at >= 1)
            return bad_value(row, value, "a number from 0 and below 1", fault);
        o->hyper_given[hyper_of(row)] = true;
        return 0;
    case BYTES:
        return parse_bytes(value, at) ? 0
                                      : bad_value(row, value, "bytes, such as 4096, 30G, 30GiB (2^30 each) or 30GB (10^9)", fault);
    case SHARE: return parse_share(value, at) ? 0 : bad_value(row, value, "a share, such as 1% or 0.01", fault);
    case CHOICE:
        choice = choice_of(row->choices, value);
        *(int *)at = choice;
        return choice >= 0 ? 0 : bad_value(row, value, row->choices, fault);
    case DATA_FILES: return *value ? add_data(o, value, fault) : bad_value(row, value, "a file's name", fault);
    case DIM: return add_dim(o, value, fault);
    default: *(bool *)at = true; return 0;
    }
}

/* ---- the command line ---- */
static const Row *find_row(const char *name, size_t length, int program)
{
    for (int i = 0; i < ROWS; i++)
        if ((rows[i].programs & program) && strlen(rows[i].name) == length && !strncmp(rows[i].name, name, length)) return &rows[i];
    return NULL;
}

static int unknown_option(const char *argument, int program, Fault *fault)
{
    char near_names[300];
    Near near;
    near_start(&near, argument);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].programs & program) near_offer(&near, rows[i].name);
    near_text(&near, near_names, sizeof near_names);
    return fault_set(fault, STATUS_USER, "unknown option --%s%s; --help lists all", argument, near_names);
}

static int check_together(const Options *o, const Model *m, int program, Fault *fault)
{
    for (int i = 0; i < OPTION_HYPERS; i++)
        if (o->hyper_given[i] && !session_has_hyper(m, option_hyper_names[i])) {
            char name[32];
            snprintf(name, sizeof name, "%s", option_hyper_names[i]);
            for (char *c = name; *c; c++)
                if (*c == '_') *c = '-';
            return fault_set(fault, STATUS_USER, "--%s: this trainer's optimizer, %s, has no %s", name,
                             m->optimizer ? m->optimizer : "none", option_hyper_names[i]);
        }
    if ((o->export_limit || o->export_mode) && !o->export_file)
        return fault_set(fault, STATUS_USER, "--export-limit, --export-mode: wanted --export FILE.onnx too");
    if (program == FOR_RUNNER) {
        if (!o->inputs || !o->outputs) return fault_set(fault, STATUS_USER, "wanted --inputs FILE and --outputs FILE.safetensors");
        return 0;
    }
    if (o->n_dims && !o->plan)
        return fault_set(fault, STATUS_USER, "--dim %s: dims come with the data; --dim goes with --plan", o->dims[0]);
    if (o->lean == LEAN_ON && o->recompute == 1)
        return fault_set(fault, STATUS_USER, "--lean on and --recompute off: the lean step does products again; one of the two");
    if (o->plan) return 0;
    if (o->data && o->batch_file) return fault_set(fault, STATUS_USER, "--data and --batch-file: one of the two");
    if (!o->data && !o->batch_file)
        return fault_set(fault, STATUS_USER, "wanted --data FILE or --batch-file FILE (or --plan, --help)");
    if (o->batch_file && o->batch_size)
        return fault_set(fault, STATUS_USER,
                         "--batch-size: a --batch-file has batches of its own sizes; --batch-size goes with --data");
    if (o->evaluate && (o->checkpoint || o->save_weights || o->export_file || o->save_gradients || o->log || o->steps >= 0 || o->epochs >= 0))
        return fault_set(
            fault, STATUS_USER,
            "--evaluate goes over the data once and changes nothing: --steps, --epochs, --checkpoint, --log, --save-weights, "
            "--save-gradients and --export have no meaning with it; weights of a run come with --load-weights FILE");
    if (o->check_gradients && (o->evaluate || o->resume || o->checkpoint || o->save_weights || o->export_file || o->save_gradients || o->log ||
                               o->steps >= 0 || o->epochs >= 0))
        return fault_set(fault, STATUS_USER,
                         "--check-gradients looks at the first batch and trains nothing: --evaluate, --resume, --steps, --epochs, "
                         "--checkpoint, --log, --save-weights, --save-gradients and --export have no meaning with it");
    if (o->resume && !o->checkpoint)
        return fault_set(fault, STATUS_USER, "--resume: wanted --checkpoint DIR, where the checkpoint lies");
    if (o->checkpoint_every && !o->checkpoint)
        return fault_set(fault, STATUS_USER, "--checkpoint-every: wanted --checkpoint DIR too");
    if (o->resume && o->load_weights)
        return fault_set(fault, STATUS_USER, "--resume and --load-weights: the checkpoint has the weights; one of the two");
    return 0;
}

int options_parse(Options *options, const Model *m, int program, int argc, char **argv, Fault *fault)
{
    *options = (Options){.steps = -1, .epochs = -1, .max_skipped = 0.01};
    for (int i = 1; i < argc; i++) {
        char *argument = argv[i];
        if (!strcmp(argument, "-h")) {
            options->help = true;
            continue;
        }
        if (strncmp(argument, "--", 2) || !argument[2])
            return fault_set(fault, STATUS_USER, "\"%s\": not an option; options begin with --, and --help lists them", argument);
        argument += 2;
        size_t length = strcspn(argument, "=");
        char *value = argument[length] ? argument + length + 1 : NULL;
        const Row *row = find_row(argument, length, program);
        if (!row) return unknown_option(argument, program, fault);
        if (row->kind == FLAG && value) return fault_set(fault, STATUS_USER, "--%s takes no value", row->name);
        if (row->kind != FLAG && !value) {
            if (i + 1 == argc) return fault_set(fault, STATUS_USER, "--%s: wanted %s after it", row->name, row->argument);
            value = argv[++i];
        }
        int status = set_value(options, row, value, fault);
        if (status) return status;
    }
    return options->help ? 0 : check_together(options, m, program, fault);
}

void options_free(Options *options)
{
    free(options->data);
    free(options->dims);
    options->data = NULL;
    options->dims = NULL;
}

int options_dims(const Options *options, const Model *m, int64_t *dims, bool *given, Fault *fault)
{
    for (int i = 0; i < m->n_dims; i++) dims[i] = m->dims[i].late ? m->dims[i].high : m->dims[i].likely, given[i] = false;
    for (int k = 0; k < options->n_dims; k++) {
        char *text = options->dims[k], *equals = strrchr(text, '='), near_names[600];
        int64_t value;
        Near near;
        if (!equals || !parse_integer(equals + 1, &value) || value < 0)
            return fault_set(fault, STATUS_USER, "--dim %s: wanted NAME=N, a whole number from 0", text);
        *equals = 0;
        near_start(&near, text);
        int found = -1;
        for (int i = 0; i < m->n_dims; i++) {
            if (planner_chooses(m, i)) continue;
            near_offer(&near, m->dims[i].name);
            if (!strcmp(m->dims[i].name, text)) found = i;
        }
        if (found < 0) {
            fault_set(fault, STATUS_USER, "--dim %s: the model has no such dim%s%s", text,
                      near_text(&near, near_names, sizeof near_names), m->n_dims ? "; it has" : "");
            for (int i = 0; i < m->n_dims; i++)
                if (!planner_chooses(m, i)) text_add(fault->text, sizeof fault->text, "%s %s", i ? "," : "", m->dims[i].name);
            return STATUS_USER;
        }
        if (m->dims[found].late)
            return fault_set(fault, STATUS_USER, "--dim %s: known only as a step runs; it is planned at its upper bound", text);
        dims[found] = value;
        given[found] = true;
    }
    return 0;
}
