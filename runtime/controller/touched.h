/* What each unit of a program reads and writes, as tensors in the memory of a running step.
 * Needs: a program with units.  For those who watch a step (mend.h, trace.h). */
#ifndef TOUCHED_H
#define TOUCHED_H
#include "controller.h"

typedef struct {
    const Model *model;
    const Program *program;
    int *first;     /* by unit and recipe: where its list of reads begins in program->touches; that of writes follows */
    int64_t *bytes; /* by buffer, of the step in work */
} Touched;
typedef struct {
    char *at;
    int64_t bytes;
    int dtype; /* or RAW */
    int last;  /* launch after which others may lie there; of weights and states INT32_MAX */
    const char *name;
} Tensor;

bool touched_open(Touched *touched, const Model *m, const Program *program); /* false without memory */
void touched_close(Touched *touched);
void touched_sizes(Touched *touched, const Step *step); /* before the tensors of a step are asked for; again as late dims become known */
const int *touched_reads(const Touched *touched, int unit); /* up to TOUCHES_END */
const int *touched_writes(const Touched *touched, int unit);
Tensor touched_tensor(const Touched *touched, const Step *step, int touch);
#endif
