/* DIR/checkpoint.safetensors: weights and the optimizer's states by name, and in its metadata where the run stands.
 * Written aside, synced, renamed: there is always a whole one. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H
#include "files.h"
#include "options.h"
#include "session.h"

typedef struct {
    int64_t step;    /* batches taken: the next one's number */
    int64_t updates; /* weights changed so many times */
    int64_t skipped;
    int64_t steps_at_scale;
    double loss_scale; /* 0: the program has none */
    int64_t seed, batch_size, total; /* total: steps the run was to take */
    double hypers[OPTION_HYPERS];
    bool hyper_given[OPTION_HYPERS];
} Place;

/* A folder has one run at a time: another one that writes there is the user's fault.  Takes away what runs that were killed left half
 * written.  *claim: -1 before, and where there is no folder yet; checkpoint_leave gives it back. */
int checkpoint_claim(const char *folder, int *claim, Fault *fault);
void checkpoint_leave(int *claim);
bool checkpoint_is_there(const char *folder);
/* What an earlier run left there becomes DIR/checkpoint.before.safetensors. */
int checkpoint_set_aside(const char *folder, Fault *fault);
int checkpoint_write(Session *session, const char *folder, const Place *place, Fault *fault);
/* Opens and checks it against the model; file stays open for checkpoint_load. */
int checkpoint_open(TensorFile *file, const Model *m, const char *folder, Place *place, Fault *fault);
int checkpoint_load(Session *session, TensorFile *file, const Place *place, Fault *fault);
#endif
