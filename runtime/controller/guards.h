/* Checks a batch against the model's guards and says in words what broke. */
#ifndef GUARDS_H
#define GUARDS_H
#include "controller.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A broken guard, with the values it was judged by.  Texts are copies: they outlive the batch. */
typedef struct {
    char name[128], formula[512], source[256], relies[256], values[2048];
    Otherwise otherwise;
} Breach;

/* The first guard of this moment that does not hold, or NULL; those that only choose a form of kernels aside.  Where *range is not NULL, guards that only ask for another plan are
 * passed over; the first of them that broke is stored in it. */
const Guard *guards_first_broken(const Model *m, Moment moment, const int64_t *dims, const Arrival *arrival, const Guard **range);

/* The guard under which a program's kernels take 32-bit indices, where it does not hold at these dims; NULL: they do. */
const Guard *guards_wide(const Model *m, const Program *program, const int64_t *dims);

void breach_of_guard(Breach *breach, const Model *m, const Guard *guard, const int64_t *dims, const Arrival *arrival);
/* For what the trainer itself asks of a batch: the rank of an input ("x_rank"), its whole shape ("x_shape"). */
void breach_of_input(Breach *breach, const Model *m, int input, const char *what, const char *formula, const int64_t *dims,
                     const Arrival *arrival);
/* The loss was no finite number: the model's guard at the commit point, if it has one. */
void breach_of_loss(Breach *breach, const Model *m, const int64_t *dims, const Arrival *arrival);
/* So many weights have elements that kept what they had; `weight` is the first. */
void breach_of_update(Breach *breach, const Model *m, int weight, int weights, const int64_t *dims, const Arrival *arrival);
/* Late dims, now known, ask for more than the arena has. */
void breach_of_room(Breach *breach, const Model *m, int64_t arena_bytes, const int64_t *dims, const Arrival *arrival);
#ifdef __cplusplus
}
#endif
#endif
