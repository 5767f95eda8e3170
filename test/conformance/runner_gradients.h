/* Compiled gradients of a node test against differences. */
#ifndef RUNNER_GRADIENTS_H
#define RUNNER_GRADIENTS_H
#include "runtime/trainer/session.h"

/* Outputs of the program: a loss, then gradients by float inputs, each as "by INPUT" (gradients.h).  Checks some elements of
 * each float input.  0, or a status; fault says what is wrong, else said tells how many elements were checked, were at kinks, were
 * told by rounding alone, and the worst relative error of the others: "12 0 0 1e-9". */
int run_gradients(Session *session, Batch *batch, char *said, size_t room, Fault *fault);
#endif
