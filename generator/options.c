/* The command line: options, their checks, --help. */
#include "options.h"
#include "onnx/import.h"
#include "passes/optimizer.h"
#include "support/diag.h"
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "disc-gen MODEL.onnx -o DIR [options]\n"
    "Reads an ONNX model with symbolic dims and writes a readable CUDA C program that trains it.\n"
    "Then: make -C DIR, and DIR/trainer --help.\n"
    "\n"
    "Shapes\n"
    "  --dim NAME=LO..HI[~LIKELY]   range and likely value of a dim; NAME is the model's symbol, or INPUT.AXIS\n"
    "  --dim NAME=N                 fixes a dim\n"
    "  --name-dim INPUT.AXIS=NAME   names an unnamed dim\n"
    "Training\n"
    "  --loss TEXT                  cross_entropy(OUT, axis=1, ignore_index=-100), next_token(OUT), nll(OUT), mse(OUT), l1(OUT), "
    "huber(OUT),\n"
    "                               bce(OUT), bce_with_logits(OUT), or OUT alone where the model computes its loss; default: "
    "guessed and printed\n"
    "  --optimizer NAME             sgd, momentum, nesterov, adam, adamw, rmsprop, adagrad (PyTorch's definitions); default adamw\n"
    "  --train REGEX                trains the initializers that match, and nothing else (POSIX extended)\n"
    "  --freeze REGEX               does not train those that match\n"
    "  --trainable FILE             a table as DIR/trainable.txt has it\n"
    "  --tie A=B, --tie NAME        trains B as A; keeps NAME one tensor though it looks merged\n"
    "  --untie NAME                 keeps NAME apart from its equals\n"
    "  --init RULE                  weights whose data is missing: \"normal(0.02)\", \"uniform(-0.1, 0.1)\"; gains 1, biases 0\n"
    "  --batch-norm train|frozen    statistics of the batch, or the running ones; default as exported\n"
    "  --precision NAME             bf16, fp16: products and convolutions of 16-bit floats, summed as floats; weights, norms, losses "
    "are floats;\n"
    "                               fp16 scales the loss, and tells which updates it skips for that.  tf32: as cuBLAS has it; fp32 "
    "(default);\n"
    "                               fp64: every float a double, for gradient checks\n"
    "  --inference                  no training: makes DIR/runner\n"
    "Output\n"
    "  -o DIR                       where the program goes; files of an earlier run are replaced\n"
    "  --no-fuse                    one kernel an operation\n"
    "  --no-schedule                kernels in the model's own order, whatever memory that takes\n"
    "  --no-report                  no DIR/report.html\n"
    "  --dump PASS                  prints the program's IR after a pass: import, loss, short, gradient, optimizer, decompose, fold, "
    "simplify, algebra, accumulate,\n"
    "                               and, with what each found: recognise: attention, and why what looks like it is none;\n"
    "                               row_blocks: what runs over blocks of rows, and why other wide products do not;\n"
    "                               stash: what is kept for the backward pass, its bytes, and why;\n"
    "                               fuse: which operations share a kernel, and what lies in memory between kernels and why\n"
    "  --help, --version\n";

enum {
    OPT_DIM = 1000,
    OPT_NAME_DIM,
    OPT_LOSS,
    OPT_OPTIMIZER,
    OPT_TRAIN,
    OPT_FREEZE,
    OPT_TRAINABLE,
    OPT_TIE,
    OPT_UNTIE,
    OPT_INIT,
    OPT_BATCH_NORM,
    OPT_PRECISION,
    OPT_INFERENCE,
    OPT_NO_FUSE,
    OPT_NO_SCHEDULE,
    OPT_DUMP,
    OPT_NO_REPORT,
    OPT_HELP,
    OPT_VERSION
};
static const struct option long_options[] = {
    {"dim", required_argument, NULL, OPT_DIM},
    {"name-dim", required_argument, NULL, OPT_NAME_DIM},
    {"loss", required_argument, NULL, OPT_LOSS},
    {"optimizer", required_argument, NULL, OPT_OPTIMIZER},
    {"train", required_argument, NULL, OPT_TRAIN},
    {"freeze", required_argument, NULL, OPT_FREEZE},
    {"trainable", required_argument, NULL, OPT_TRAINABLE},
    {"tie", required_argument, NULL, OPT_TIE},
    {"untie", required_argument, NULL, OPT_UNTIE},
    {"init", required_argument, NULL, OPT_INIT},
    {"batch-norm", required_argument, NULL, OPT_BATCH_NORM},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"inference", no_argument, NULL, OPT_INFERENCE},
    {"no-fuse", no_argument, NULL, OPT_NO_FUSE},
    {"no-schedule", no_argument, NULL, OPT_NO_SCHEDULE},
    {"dump", required_argument, NULL, OPT_DUMP},
    {"no-report", no_argument, NULL, OPT_NO_REPORT},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

static noreturn void unknown_option(Arena *arena, const char *given, bool known)
{
    if (known) error_exit("%s: wanted a value after it; disc-gen --help says which", given);
    const char *names[sizeof long_options / sizeof *long_options];
    int n = 0;
    for (const struct option *o = long_options; o->name; o++) names[n++] = arena_text(arena, "--%s", o->name);
    const char *near = near_names(arena, given, names, n);
    error_exit("unknown option \"%s\"%s%s; disc-gen --help lists them", given, near[0] ? "; near are " : "", near);
}

static int batch_norm_of(const char *text)
{
    if (!strcmp(text, "train")) return BATCH_NORM_TRAIN;
    if (!strcmp(text, "frozen")) return BATCH_NORM_FROZEN;
    error_exit("--batch-norm %s: wanted train or frozen", text);
}

static void check_dump(Arena *arena, const char *pass)
{
    static const char *const passes[] = {"import", "loss",     "recognise",  "short",      "gradient", "optimizer", "decompose",
                                         "fold",   "simplify", "algebra", "accumulate", "row_blocks", "stash",    "fuse"};
    Buf list = {.arena = arena};
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (!strcmp(passes[i], pass)) return;
        buf_printf(&list, "%s%s", i ? ", " : "", passes[i]);
    }
    error_exit("--dump %s: no such pass; there are %s", pass, buf_text(&list));
}

static void check_precision(const char *name)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16", "fp64"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return;
    error_exit("--precision %s: wanted fp32, tf32, bf16, fp16 or fp64", name);
}

/* normal(S) and uniform(A, B), zeros, ones: what the trainer can make. */
static void check_init(const char *rule)
{
    double a, b;
    int end = 0;
    if (sscanf(rule, "normal(%lf)%n", &a, &end) == 1 && end && !rule[end] && a >= 0 && isfinite(a)) return;
    end = 0;
    if (sscanf(rule, "uniform(%lf ,%lf)%n", &a, &b, &end) == 2 && end && !rule[end] && a <= b && isfinite(a) && isfinite(b)) return;
    if (!strcmp(rule, "zeros") || !strcmp(rule, "ones")) return;
    error_exit("--init %s: wanted normal(DEVIATION), uniform(LOW, HIGH), zeros or ones", rule);
}

static void take(Options *o, Arena *arena, int option, char *value)
{
    switch (option) {
    case 'o': o->out = value; break;
    case OPT_DIM: vec_push(arena, &o->dims, value); break;
    case OPT_NAME_DIM: vec_push(arena, &o->name_dims, value); break;
    case OPT_LOSS: o->loss = value; break;
    case OPT_OPTIMIZER: optimizer_check(value), o->optimizer = value; break;
    case OPT_TRAIN: o->train = value; break;
    case OPT_FREEZE: o->freeze = value; break;
    case OPT_TRAINABLE: o->trainable_file = value; break;
    case OPT_TIE: vec_push(arena, &o->tie, value); break;
    case OPT_UNTIE: vec_push(arena, &o->untie, value); break;
    case OPT_INIT: check_init(value), o->init = value; break;
    case OPT_BATCH_NORM: o->batch_norm = batch_norm_of(value); break;
    case OPT_PRECISION: check_precision(value), o->precision = value; break;
    case OPT_INFERENCE: o->inference = true; break;
    case OPT_NO_FUSE: o->no_fuse = true; break;
    case OPT_NO_SCHEDULE: o->no_schedule = true; break;
    case OPT_DUMP: check_dump(arena, value), o->dump = value; break;
    case OPT_NO_REPORT: o->no_report = true; break;
    case OPT_HELP: fputs(help, stdout); exit(0);
    case OPT_VERSION: puts("disc-gen 0.1"); exit(0);
    default: break;
    }
}

void options_parse(Options *o, Arena *arena, int argc, char **argv)
{
    *o = (Options){.optimizer = "adamw", .precision = "fp32", .batch_norm = BATCH_NORM_AS_EXPORTED};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":o:", long_options, NULL)) != -1;) {
        if (option == '?' || option == ':') unknown_option(arena, argv[optind - 1], option == ':');
        take(o, arena, option, optarg);
    }
    if (optind < argc) o->model = argv[optind++];
    if (optind < argc) error_exit("one model at a time: \"%s\" and \"%s\" were given", o->model, argv[optind]);
    if (!o->model) error_exit("no model given; disc-gen MODEL.onnx -o DIR, and disc-gen --help for the options");
    if (!o->out && !o->dump) error_exit("no folder given: where should the program go? disc-gen %s -o DIR", o->model);
    if (o->inference && (o->loss || o->train || o->freeze))
        error_exit("--inference makes a program that does not train: --loss, --train and --freeze have no meaning with it");
}

static void put_word(Buf *text, const char *word)
{
    const bool plain = word[0] && !word[strcspn(word, " \t\n'\"\\$`*?[](){}<>|;&#~!")];
    buf_printf(text, plain ? " %s" : " '%s'", word);
}

const char *options_text(Arena *arena, const Options *o, int argc, char **argv)
{
    Buf text = {.arena = arena};
    const char *slash = strrchr(o->model, '/');
    buf_put(&text, "disc-gen");
    put_word(&text, slash ? slash + 1 : o->model);
    optind = 0; /* from the start again */
    for (int option, row; (option = getopt_long(argc, argv, ":o:", long_options, &row)) != -1;) {
        if (option == 'o') continue;
        buf_printf(&text, " --%s", long_options[row].name);
        if (optarg) put_word(&text, optarg);
    }
    return buf_text(&text);
}
