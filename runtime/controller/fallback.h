/* The unfused program: a kernel for each operation, right for any dims that the model allows.  It takes a step over when a fused kernel
 * fails or gives another result.  Compiled when it is first needed (make variants/unfused.so), which the step waits for. */
#ifndef FALLBACK_H
#define FALLBACK_H
#include "controller.h"

typedef struct Fallback Fallback;
Fallback *fallback_create(const Model *m, const char *folder, const char *device); /* NULL without memory */
void fallback_destroy(Fallback *fallback);
/* NULL: *why says why there is none; asked again, it says the same. */
const Program *fallback_program(Fallback *fallback, const char **why);
#endif
