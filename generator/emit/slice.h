/* A group cut down to some of its results. */
#ifndef SLICE_H
#define SLICE_H
#include "emit/emit.h"
/* The group without its first result, which it reads instead: of a residual and its norm, the norm.  NULL where that saves nothing or
 * could round otherwise. */
Group *slice_group(Arena *arena, const Group *group);
#endif
