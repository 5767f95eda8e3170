/* What a step launches, taken down once and launched again as a whole: a CUDA graph (graph_cuda.cu), or its stand-in for the simulator,
 * which keeps every launch with its arguments and runs them one after another (graph_host.cpp).
 *
 *     graph_begin(&g, device)            from now on nothing is launched on the device's stream:
 *     graph_add(g, step, kind, what, …)  it becomes the graph's next node
 *     graph_end(g, room)                 it can be launched; its memory is counted
 *     graph_launch(g, step)              all nodes, in order
 *     graph_change(g, i, kind, what)     from the next launch on, the ith node, a kernel, has these arguments
 *
 * Functions return 0 or an error of memory.h. */
#ifndef DEVICE_GRAPH_H
#define DEVICE_GRAPH_H
#include <stdbool.h>
#include "memory.h"
#ifdef __cplusplus
extern "C" {
#endif
struct Step;

/* A way of doing something on the device, by plain bytes that say what: a KernelLaunch with its arguments behind it, or the operands of a
 * product.  run does it now, leaves an error in the step, and returns what the caller goes by. */
typedef struct {
    int (*run)(struct Step *step, const void *what);
    int (*change)(void *graph, void *node, const void *what); /* of a kernel: its node in a CUDA graph gets these arguments; NULL: something else */
    bool aside; /* no launch: nobody is asked before it */
} NodeKind;
typedef struct { const char *name; const void *kernel; unsigned blocks, threads; } KernelLaunch;

typedef struct Graph Graph;
int graph_begin(Graph **graph, Device *device);
int graph_add(Graph *graph, struct Step *step, const NodeKind *kind, const void *what, size_t bytes, int *result);
int graph_end(Graph *graph, int64_t room); /* DEVICE_OUT_OF_MEMORY: it needs more than room, in bytes */
int graph_launch(Graph *graph, struct Step *step);
int graph_change(Graph *graph, int node, const NodeKind *kind, const void *what);
int64_t graph_bytes(const Graph *graph);
void graph_free(Graph *graph); /* at any time; waits for what runs */
#ifdef __cplusplus
}
#endif
#endif
