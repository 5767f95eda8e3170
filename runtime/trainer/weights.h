/* What checkpoints need of weights beyond session.h. */
#ifndef WEIGHTS_H
#define WEIGHTS_H
#include "files.h"
#include "session.h"

/* Every weight from an open file (NULL: by rule). */
int weights_load(Session *session, TensorFile *file, bool by_rule, Fault *fault);
/* One tensor of the shape and dtype of `weight` onto the device at `to`. */
int weight_from_file(Session *session, char *to, const WeightInfo *weight, TensorFile *file, FileTensor *found, Fault *fault);
/* Weights, and states if asked, with metadata. */
int state_save(Session *session, const char *path, bool states_too, const char *const *keys, const char *const *values,
               int n_metadata, Fault *fault);
#endif
