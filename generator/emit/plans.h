/* The library of plans: found when a program is generated, by the search that its controller runs, for likely dims and larger ones.
 */
#ifndef PLANS_H
#define PLANS_H
#include "emit/program.h"
void find_plans(const Layout *layout, Program *program);
#endif
