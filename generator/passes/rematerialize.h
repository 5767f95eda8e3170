/* rematerialize  Finds where a step can give up a buffer and make its content again: Program.points; what need not run again is no
 *                longer said to.  Needs: units.  Breaks: nothing. */
#ifndef REMATERIALIZE_H
#define REMATERIALIZE_H
#include "emit/program.h"
void pass_rematerialize(Arena *arena, Symbols *symbols, Program *program);
#endif
