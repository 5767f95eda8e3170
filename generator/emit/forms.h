/* Which form of its kernels a program's dims allow. */
#ifndef EMIT_FORMS_H
#define EMIT_FORMS_H
#include "emit/program.h"

/* What the index arithmetic of the program's kernels comes to at most: expressions of which no other is certainly at least as
 * great, the likely greatest first.  Returns how many; none where no kernel has a form with 32-bit indices. */
int program_reach(const Layout *layout, const Program *p, Expr *const **reach);
#endif
