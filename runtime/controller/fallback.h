/* unfused.cu: the units of training steps, each a kernel for each operation, right for any dims that the model allows.  Compiled when it is
 * first needed (make variants/unfused.so), which the step waits for. */
#ifndef FALLBACK_H
#define FALLBACK_H
#include <stddef.h>
#include "controller.h"

/* Makes a unit's results.  memory NULL: only says how many bytes it wants; -1: it has no other form.  Errors in step->error. */
typedef int64_t UnitApart(Step *step, int unit, char *memory);
typedef struct Fallback Fallback;
Fallback *fallback_create(const char *folder, const char *device); /* NULL without memory */
void fallback_destroy(Fallback *fallback);
/* NULL: why says why there is none; asked again, it says the same. */
UnitApart *fallback_unit(Fallback *fallback, const Program *program, char *why, size_t size);
#endif
