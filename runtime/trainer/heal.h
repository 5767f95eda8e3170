/* A step as it is run when things may go wrong: variants proven, results verified. */
#ifndef HEAL_H
#define HEAL_H
#include "session.h"

static const int64_t COPIES_MOST = 256 << 20; /* bytes of state: of more, no variants are proven, which takes two copies in host memory */

/* Runs the program on the batch, which is uploaded and planned for.  *error: the step's. */
int heal_run(Session *session, const Program *program, const Batch *batch, Step *step, int *error, StepResult *result,
             Fault *fault);

/* session.c's: the parts of a step. */
int step_place(Session *s, const Program *program, Fault *fault);
int step_upload(Session *s, const Program *program, const Batch *batch, Fault *fault);
int step_launch(Session *s, const Program *program, int64_t number, MendWatch watch, Step *step, double *seconds); /* 0 or the step's error */
#endif
