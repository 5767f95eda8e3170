/* Units taken apart: what takes over for one kernel of a step.  unfused.cu has a function for each group of the training steps that does
 * the same, operation by operation, on the same operands, and puts the results where the group's kernel would. */
#ifndef APART_H
#define APART_H
#include "emit/program.h"

typedef struct Apart Apart;
Apart *apart_new(Arena *arena, Kernels *kernels); /* kernels: those of unfused.cu */
/* Takes the groups of a training step apart, before names are given. */
void apart_add(Apart *apart, Symbols *symbols, const Groups *groups, const Launches *launches);
void apart_kernels(const Apart *apart, Map *names); /* adds the names of kernels and library functions */
/* The functions of unfused.cu: one for groups that are alike, then train_apart and train_lean_apart, which know the units. */
const char *apart_text(const Apart *apart, const Layout *layout, Program *const *programs, int n);
#endif
