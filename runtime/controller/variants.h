/* Variants: model.cu compiled once more, with the dims that a run meets most as constants, while the run goes on.
 *
 * For dims that have taken long enough a thread calls `make variants/<hash>.so` in the program's folder, at a low priority and within
 * a time limit; training never waits for it.  The result is loaded between steps and proven on the batches that come: on each of
 * VARIANT_ROUNDS of them both programs run from the same state, and loss, weights and optimizer states must be the same bit for bit.
 * It is swapped in where it was also faster, otherwise dropped.  So a swap changes no result, and a resumed run is the run that was not
 * broken off, whatever was swapped when.  Files stay for the next start, which proves them again.
 *
 * One thread asks; the compiler's thread shares only struct Job. */
#ifndef VARIANTS_H
#define VARIANTS_H
#include "controller.h"

enum { VARIANTS_MOST = 8, VARIANT_ROUNDS = 6 };
typedef struct Variants Variants;
typedef struct {
    const char *folder, *device; /* where make finds its Makefile; DEVICE= */
    bool eager;                  /* do not wait until dims have taken long */
} VariantOptions;

Variants *variants_create(const Model *m, const VariantOptions *options); /* NULL without memory */
void variants_destroy(Variants *variants);                                 /* ends a compiler that runs */

/* A variant is of a program, the step or its lean twin, at some dims.
 * Before such a step: the program to run, `generic` or what was swapped in for it; *candidate: a variant to be proven beside it, or
 * NULL. */
const Program *variants_program(Variants *variants, const Program *generic, const int64_t *dims, const Program **candidate);
/* Behind it: how long the generic or swapped-in program took. */
void variants_spent(Variants *variants, const Program *generic, const int64_t *dims, double seconds, double seconds_left);
/* Behind a proof: whether all results were the same, and how long each took. */
void variants_proven(Variants *variants, const Program *generic, const int64_t *dims, bool same, double before, double after);
/* Behind a step in which what was swapped in failed where the generic program does not: it is dropped. */
void variants_failed(Variants *variants, const Program *generic, const int64_t *dims);

/* What happened since it was last asked, in order: false when there is nothing more.  Texts stay until the next call. */
typedef struct {
    const char *event; /* "variant_compiling", "variant_swapped", "variant_dropped" */
    const int64_t *dims;
    const char *program;       /* "train", "train_lean" */
    const char *name, *detail; /* name: its hash */
    double milliseconds;       /* of compiling */
    bool last;                 /* no variant can be made here: this is worth saying, once */
} VariantEvent;
bool variants_event(Variants *variants, VariantEvent *event);
#endif
