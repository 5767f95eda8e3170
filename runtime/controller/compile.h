/* Calls make in a program's folder while the program runs: at the lowest priority, without a word, within a time limit. */
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
