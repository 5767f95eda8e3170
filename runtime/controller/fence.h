/* In a program built with SANITIZE=1: while a unit runs, all of the arena, the weights and the states but what it reads and writes is
 * poisoned, so that the address sanitizer tells of the first access that lies outside of a tensor; and buffers that begin with it
 * hold NaN until it has made them.  In other programs these do nothing.
 * Needs: touched_sizes for the step. */
#ifndef FENCE_H
#define FENCE_H
#include "touched.h"

bool fence_possible(void);
/* Not around a step that copies to the host and back while units run: those read what the units do not touch. */
void fence_raise(const Touched *touched, const Step *step);
void fence_drop(const Touched *touched, const Step *step);
#endif
