/* Between the simulator's files: the block that runs, and what a thread has passed. */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H
#include "sim.h"
#include <stddef.h>
#include <stdint.h>

enum { SIM_MOST_THREADS = 1024, SIM_STACK = 128 << 10 };

/* What runs now. */
struct SimNow {
    bool inside;           /* a thread of a kernel runs */
    uint32_t launch, block_run; /* counted since the program began */
    uint32_t block, thread;
    uint32_t barriers, syncs; /* __syncthreads of its block, __syncwarp of its own, passed so far */
    const char *stacks, *stacks_end; /* of the fibers */
    const char *frame;     /* of who launched: arguments lie above it */
};
extern SimNow sim_now;

void sim_shadow_begin();   /* of a launch: forgets buffers */
void sim_shadow_written(); /* what the thread has written stands in memory now */
#endif
