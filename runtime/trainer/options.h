/* The command line of a generated program. */
#ifndef OPTIONS_H
#define OPTIONS_H
#include <stdbool.h>
#include <stdint.h>
#include "../controller/controller.h"
#include "fault.h"

typedef enum { ANOMALY_HEAL, ANOMALY_SKIP, ANOMALY_STOP } OnAnomaly;
enum { OPTION_HYPERS = 6 };
extern const char *const option_hyper_names[OPTION_HYPERS]; /* lr, weight_decay, ...: as the model's hypers are called */

typedef struct {
    char *data; /* FILE, or name=FILE.npy,...; several --data joined; owned */
    const char *batch_file;
    int64_t steps, epochs; /* -1: not given */
    int64_t batch_size;    /* 0: not given */
    int64_t seed;
    double hypers[OPTION_HYPERS];
    bool hyper_given[OPTION_HYPERS], seed_given;
    int64_t memory_limit, row_blocks;
    int recompute; /* 0 auto, 1 off */
    int lean;      /* LeanChoice */
    int offload;   /* 0 auto, 1 on, 2 off */
    const char *calibration;
    int on_anomaly;         /* OnAnomaly */
    double max_skipped;
    const char *quarantine;
    bool trace_nan;
    int64_t verify_every;
    int graphs;   /* 0 auto, 1 off, 2 on */
    int variants; /* 0 auto, 1 off, 2 eager */
    const char *checkpoint;
    int64_t checkpoint_every; /* 0: at the end and on signals */
    bool resume, evaluate, check_gradients, json, plan, help;
    int progress; /* 0 auto, 1 never */
    const char *log, *load_weights, *save_gradients, *save_weights, *export_file;
    int64_t export_limit; /* 0: not given */
    int export_mode;      /* 0 as it came, 1 for inference */
    const char *inputs, *outputs;
    char **dims; /* NAME=N, n_dims of them; pointers into argv; the list is owned */
    int n_dims;
} Options;

enum { FOR_TRAINER = 1, FOR_RUNNER = 2 };
/* Parses and checks; anything wrong is a user's fault.  program: FOR_TRAINER or FOR_RUNNER. */
int options_parse(Options *options, const Model *m, int program, int argc, char **argv, Fault *fault);
void options_free(Options *options);
void options_help(const Model *m, int program, const char *name);
/* Writes the dims given by --dim over likely values.  given[i]: said by the user. */
int options_dims(const Options *options, const Model *m, int64_t *dims, bool *given, Fault *fault);
#endif
