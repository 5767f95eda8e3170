/* Groups that repeat an earlier one but for names: its kernels are theirs, its launches too, with other values. */
#ifndef REPEATS_H
#define REPEATS_H
#include "emit/emit.h"

/* What an emitter sees of a group, its values by number: groups with the same words are alike. */
typedef struct GroupWords {
    VEC(uint64_t) words;
    Values values; /* by number */
    bool none;     /* it has bodies, or so long views that they are not followed: it is like no other */
} GroupWords;

typedef struct Repeats Repeats;
typedef struct Repeated { /* the first of some groups that are alike */
    const uint64_t *words;
    int n_words;
    uint64_t hash;
    Values values;
    void *kept; /* what its user keeps of it */
} Repeated;

Repeats *repeats_new(Arena *arena);
/* The words of a group, good until the next call.  more: something besides that groups must have in common. */
const GroupWords *repeats_words(Repeats *r, const Group *group, int more);
int repeats_number(const Repeats *r, const Value *v); /* of those that the words told last; -1: they tell nothing of it */
Repeated *repeats_find(const Repeats *r, const GroupWords *of); /* NULL: the first of its kind */
Repeated *repeats_add(Repeats *r, const GroupWords *of);
#endif
