/* Calls make in a program's folder while the program runs: without a word, within a time limit, and at a low priority (nice 10): where
 * training takes all cores the compiler has a tenth of one.  (At 19 it had a hundredth, and five seconds' work took more than five minutes.) */
#ifndef COMPILE_H
#define COMPILE_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *folder, *device; /* make -C folder DEVICE=device */
    char target[64], more[1000]; /* more: a further argument; "": none */
    int limit;                   /* seconds; then the compiler is ended, with all that it started */
} Compile;
/* outcome: "" where the target is there, else why not.  quit: asked now and then, true ends it at once; or NULL. */
void compile_target(const Compile *compile, bool (*quit)(void *context), void *context, char *outcome, size_t size);
#endif
