/* Text with holes: @NAME@ is replaced by what is given for NAME.  A hole that nobody fills is an internal fault. */
#ifndef TEMPLATE_H
#define TEMPLATE_H
#include "support/arena.h"

typedef struct Hole {
    const char *name, *text;
} Hole;
const char *template_fill(Arena *arena, const char *path, const Hole *holes, int n); /* of an embedded file */
#endif
