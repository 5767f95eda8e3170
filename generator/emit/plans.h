/* The library of plans: found when a program is generated, by the search that its controller runs, for likely dims and larger ones.
 */
#ifndef PLANS_H
#define PLANS_H
#include "emit/library.h"
#include "emit/program.h"
/* Evaluated at likely dims; false where they are too large. */
bool plans_input(const Layout *layout, const Program *program, LibraryInput *in);
void find_plans(const Layout *layout, Program *const *programs, int n); /* of all that train; searched beside each other */
#endif
