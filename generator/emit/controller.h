/* Text of model.h and controller.c. */
#ifndef EMIT_CONTROLLER_H
#define EMIT_CONTROLLER_H
#include "emit/program.h"

typedef struct GuardRow {
    const char *name; /* C identifier, unique */
    const char *moment, *otherwise;
    const char *c;       /* condition in C, over d and a */
    const char *formula; /* for readers */
    const char *source, *relies;
    Expr *late; /* AT_LATE_DIM: what is at least 0, or equals it */
    bool equal;
    const char *counted; /* the node whose results are counted, and must be `late` */
    const Program *narrow; /* the program whose kernels may then take 32-bit indices */
} GuardRow;
typedef struct Guards {
    VEC(GuardRow) list;
    int programs; /* of how many they are */
} Guards;

/* Where each dim is read from a batch: a C expression over a and d; NULL: no input shows it.  In an order in which each needs only
 * those before. */
typedef struct Binding {
    int dim;
    const char *c;
    int input, axis; /* where the dim is exactly that size; -1: solved */
} Binding;
typedef struct Bindings {
    VEC(Binding) list;
} Bindings;

Bindings bindings_make(const Layout *layout);
Guards guards_make(const Project *project, const Layout *layout, const Bindings *bindings, Program *const *programs, int n);
const IndexRange *range_that_ignores(const Value *v); /* in which a number does not count; NULL */
const char *model_h(const Project *project, const Layout *layout, Program *const *programs, int n);
const char *controller_c(const Project *project, const Layout *layout, Program *const *programs, int n);
const char *c_string(Arena *arena, const char *text); /* with its quotes */
bool project_falls_back(const Project *project);      /* there is an unfused.cu: units of a training step, each operation by operation */
#endif
