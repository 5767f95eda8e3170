/* What the files of the verifier share. */
#ifndef IR_VERIFY_PRIVATE_H
#define IR_VERIFY_PRIVATE_H
#include "ir/build.h"
#include "support/diag.h"
#include <stdio.h>

typedef struct {
    const Graph *g;
    Arena *scratch;
    const char *after;
    bool in_body, has_commit, committed, assigned;
    const Value **made; /* by id, so far */
    bool *overwritten;  /* by id: assigned to */
} Verify;

noreturn void verify_wrong(const Verify *v, const Op *op, const char *format, ...) __attribute__((format(printf, 3, 4)));
void verify_graph(const Graph *g, const char *after, bool in_body);
void verify_same_shape(const Verify *v, const Op *op, const Value *a, const Value *b);
void verify_shape(const Verify *v, const Op *op);  /* of all but regions */
void verify_region(const Verify *v, const Op *op); /* types of operands, parameters, results; then the bodies */
void verify_attention(const Verify *v, const Op *op); /* all of it */
#endif
