/* A map from addresses (values, groups) to whatever an emitter keeps beside them. */
#ifndef POINTERS_H
#define POINTERS_H
#include "support/arena.h"

typedef struct Pointers Pointers;
Pointers *pointers_new(Arena *arena);
void pointers_set(Pointers *map, const void *key, void *value);
void *pointers_get(const Pointers *map, const void *key); /* NULL */
#endif
