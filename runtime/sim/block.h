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
    uint32_t thread;       /* counted through the grid */
    uint32_t barriers, syncs; /* __syncthreads of its block, __syncwarp of its own, passed so far */
    int threads;           /* of a block */
    const char *stacks, *stacks_end; /* of the fibers */
    const char *frame;     /* of who launched: arguments lie above it */
};
extern SimNow sim_now;

void sim_shadow_begin();   /* of a launch: forgets buffers */
void sim_shadow_written(); /* what the thread has written stands in memory now */
void sim_describe_thread(uint32_t thread, char *text, size_t size); /* "thread 5 of block 3" */
#endif
