/* What checkpoints and exports need of weights beyond session.h. */
#ifndef WEIGHTS_H
#define WEIGHTS_H
#include "files.h"
#include "session.h"

enum { WEIGHT_CHUNK = 4 << 20 }; /* bytes that travel at once */
/* Every weight from an open file (NULL: by rule). */
int weights_load(Session *session, TensorFile *file, bool by_rule, Fault *fault);
/* One tensor of the shape and dtype of `weight` onto the device at `to`. */
int weight_from_file(Session *session, char *to, const WeightInfo *weight, TensorFile *file, FileTensor *found, Fault *fault);
/* `bytes` from the device to a file; chunk: WEIGHT_CHUNK bytes of host memory. */
int weight_write(Session *session, FileWriter *writer, const char *from, size_t bytes, char *chunk, Fault *fault);
/* Weights, and states if asked, with metadata. */
int state_save(Session *session, const char *path, bool states_too, const char *const *keys, const char *const *values,
               int n_metadata, Fault *fault);
#endif
