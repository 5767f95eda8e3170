/* graph.h for the simulator: nodes with copies of what they do, run one after another.  So a replay that was not told of a changed argument
 * goes wrong here as it would on a GPU. */
#include "graph.h"
#include "faults.h"
#include "../controller/controller.h"
#include <stdlib.h>
#include <string.h>

enum { NODE_BYTES = 64 }; /* what a node is said to take of the device, whose memory it does not need */

struct Kept {
    const NodeKind *kind;
    void *what;
    size_t bytes;
};
struct Graph {
    Device *device;
    Kept *node;
    int n, capacity;
    int64_t bytes; /* counted */
};

int graph_begin(Graph **graph, Device *device)
{
    *graph = (Graph *)calloc(1, sizeof(Graph));
    if (!*graph) return DEVICE_OUT_OF_MEMORY;
    (*graph)->device = device;
    return DEVICE_OK;
}

int graph_add(Graph *g, Step *, const NodeKind *kind, const void *what, size_t bytes, int *result)
{
    if (g->n == g->capacity) {
        const int capacity = g->capacity ? 2 * g->capacity : 64;
        Kept *const node = (Kept *)realloc(g->node, (size_t)capacity * sizeof(Kept));
        if (!node) return DEVICE_OUT_OF_MEMORY;
        g->node = node;
        g->capacity = capacity;
    }
    void *const kept = malloc(bytes);
    if (!kept) return DEVICE_OUT_OF_MEMORY;
    memcpy(kept, what, bytes);
    g->node[g->n++] = Kept{kind, kept, bytes};
    *result = 0;
    return DEVICE_OK;
}

int graph_end(Graph *g, int64_t room)
{
    const int64_t bytes = (int64_t)g->n * NODE_BYTES;
    const int error = bytes > room ? (int)DEVICE_OUT_OF_MEMORY : device_take(g->device, bytes);
    if (!error) g->bytes = bytes;
    return error;
}

int graph_launch(Graph *g, Step *step)
{
    if (fault_is_due(&device_faults(g->device)->fail_graph)) return DEVICE_LAUNCH_FAILED;
    for (int i = 0; i < g->n && !step->error; i++) g->node[i].kind->run(step, g->node[i].what);
    return DEVICE_OK;
}

int graph_change(Graph *g, int node, const NodeKind *kind, const void *what)
{
    Kept *const a = &g->node[node];
    if (a->kind != kind) return DEVICE_LAUNCH_FAILED;
    memcpy(a->what, what, a->bytes);
    return DEVICE_OK;
}

int64_t graph_bytes(const Graph *g)
{
    return g->bytes;
}

void graph_free(Graph *g)
{
    if (!g) return;
    if (g->bytes) device_give(g->device, g->bytes);
    for (int i = 0; i < g->n; i++) free(g->node[i].what);
    free(g->node);
    free(g);
}
