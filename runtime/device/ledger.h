/* What a device has given out: blocks and bytes, within a limit; the same on the processor and on a GPU.  struct Device begins with it.
 * Needs: faults.h.  Breaks: nothing. */
#ifndef DEVICE_LEDGER_H
#define DEVICE_LEDGER_H
#include "faults.h"
#include <stdlib.h>

struct Block {
    void *at;
    size_t bytes;
};
struct Ledger {
    int64_t limit, used, high_water, allocations; /* bytes; limit 0: none.  allocations: asked for so far */
    DeviceFaults faults;
    Block *blocks;
    int n_blocks, capacity;
};

static inline bool ledger_has_room(const Ledger *l, int64_t bytes)
{
    return !l->limit || bytes <= l->limit - l->used;
}

static inline void ledger_count(Ledger *l, int64_t bytes)
{
    l->used += bytes;
    if (l->used > l->high_water) l->high_water = l->used;
}

/* An allocation is asked for: whether the limit, and what a test ordered, let it be tried. */
static inline bool ledger_admits(Ledger *l, size_t bytes)
{
    l->allocations++;
    if (fault_is_due(&l->faults.fail_allocation)) {
        if (l->faults.room) l->limit = l->faults.room;
        return false;
    }
    return bytes <= (size_t)1 << 60 && ledger_has_room(l, (int64_t)bytes);
}

/* false: no memory to remember it in, and nothing is counted. */
static inline bool ledger_add(Ledger *l, void *at, size_t bytes)
{
    if (l->n_blocks == l->capacity) {
        int capacity = l->capacity ? 2 * l->capacity : 8;
        Block *blocks = (Block *)realloc(l->blocks, (size_t)capacity * sizeof(Block));
        if (!blocks) return false;
        l->blocks = blocks;
        l->capacity = capacity;
    }
    l->blocks[l->n_blocks++] = {at, bytes};
    ledger_count(l, (int64_t)bytes);
    return true;
}

/* Whether there was such a block. */
static inline bool ledger_remove(Ledger *l, const void *at)
{
    for (int i = 0; at && i < l->n_blocks; i++) {
        if (l->blocks[i].at != at) continue;
        l->used -= (int64_t)l->blocks[i].bytes;
        l->blocks[i] = l->blocks[--l->n_blocks];
        return true;
    }
    return false;
}
#endif
