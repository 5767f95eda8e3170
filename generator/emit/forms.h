/* Which form of its kernels a program's dims allow. */
#ifndef EMIT_FORMS_H
#define EMIT_FORMS_H
#include "emit/program.h"

/* What the index arithmetic of the program's kernels comes to at most: expressions of which no other is certainly at least as
 * great, the likely greatest first.  Returns how many; none where no kernel has a form with 32-bit indices. */
int program_reach(const Layout *layout, const Program *p, Expr *const **reach);

/* "seq % 4 == 0 && …", with a prefix before dims. */
const char *fours_condition(const Layout *layout, Expr *const *multiples, int n, const char *prefix);
/* What the program's kernels want of the dims to take elements in fours: a row a condition. */
typedef struct FoursForm {
    const Launch *first;       /* of those with that condition */
    VEC(const char *) kernels; /* some of theirs */
} FoursForm;
typedef struct FoursForms {
    VEC(FoursForm) list;
} FoursForms;
void program_fours(const Layout *layout, const Program *p, FoursForms *forms);
#endif
