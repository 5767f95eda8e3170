/* One walk over a graph that keeps or replaces each operation: what decompose, fold and simplify have in common. */
#ifndef PASSES_REWRITE_H
#define PASSES_REWRITE_H
#include "ir/build.h"
#include "ir/ir.h"

/* Looks at an operation whose operands are final.  To replace it, builds what it needs, which then stands in its place in the
 * order, fills by[0 .. n_out) and returns true.  Source and role of the operation are those of what is built. */
typedef bool RewriteRule(Graph *g, Op *op, Value **by, void *context);

/* Applies the rule to every operation, in order; bodies, where `bodies` is set, before the operation they belong to.
 * Returns how many were replaced.  Linear; lists of users are right afterwards. */
int rewrite(Graph *g, RewriteRule *rule, void *context, bool bodies);
#endif
