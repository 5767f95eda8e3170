/* Batches that were set aside, kept for whoever looks into them: DIR/batch<index>.safetensors.
 *
 * Tensors are named step0.<input>, as they came, so that such a file is a --batch-file of one batch; its metadata says which batch
 * of the stream it was, and which guard did not hold, by what. */
#ifndef QUARANTINE_H
#define QUARANTINE_H
#include "../controller/guards.h"
#include "fault.h"
#include "tensors.h"

int quarantine_write(const char *folder, const Model *m, const Batch *batch, int64_t index, const Breach *breach, Fault *fault);
#endif
