/* How much memory a session may take, and its arena.
 *
 * The limit is --memory-limit, or what is free on the device when the session opens, less a margin.  The budget begins as the limit.
 * Where the device refuses an arena although the budget has room for it, another process took memory meanwhile: the budget shrinks to
 * what can be had, and a lower rung of the ladder is taken.  It rises again when a step needs more and gets it.  Arenas are exchanged
 * between steps alone, and weights lie elsewhere: a refusal loses nothing. */
#ifndef BUDGET_H
#define BUDGET_H
#include "session.h"

/* Of what is free, as much is left alone where no limit is given. */
int64_t budget_margin(int64_t free_bytes);
/* Sets the session's limit and budget; the device is open. */
void budget_open(Session *s);
/* Bytes that the budget leaves beside state and arena. */
int64_t budget_left(const Session *s);
/* Plans a step of the program at s->dims and sees to its arena: s->plan. */
int step_plan(Session *s, const Program *program, Fault *fault);
#endif
