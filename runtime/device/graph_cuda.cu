/* graph.h on the GPU: the stream is captured while the step launches, so that what libraries launch is part of the graph too.  cuBLAS has a
 * workspace of its own from the opening on (memory_cuda.cu), and allocates nothing meanwhile. */
#include "graph.h"
#include "faults.h"
#include <cuda_runtime.h>
#include <stdlib.h>
#include "../controller/controller.h"

struct Graph {
    Device *device;
    cudaStream_t stream;
    bool captures;
    cudaGraph_t graph;
    cudaGraphExec_t launched;
    cudaGraphNode_t *node; /* by node; NULL: of no kernel */
    int n, capacity;
    int64_t bytes; /* counted */
};

/* What a graph is taken to need of the device: what the driver takes for one, and for a node.  Where more was free before it was made than
 * behind it, that counts. */
enum { GRAPH_BYTES = 2 << 20, GRAPH_NODE_BYTES = 16 << 10 };

/* An error that has been told is not told again by the next launch. */
static int checked(cudaError_t error)
{
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error == cudaSuccess ? DEVICE_OK : error == cudaErrorMemoryAllocation ? DEVICE_OUT_OF_MEMORY : DEVICE_LAUNCH_FAILED;
}

int graph_begin(Graph **graph, Device *device)
{
    Graph *g = *graph = (Graph *)calloc(1, sizeof(Graph));
    if (!g) return DEVICE_OUT_OF_MEMORY;
    g->device = device;
    g->stream = (cudaStream_t)device_stream(device);
    const int error = checked(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal));
    g->captures = !error;
    return error;
}

/* What the capture has come to: the one thing that whatever is launched next waits for. */
static int last_node(cudaStream_t stream, cudaGraphNode_t *node)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t *last = NULL;
    size_t n = 0;
#if CUDART_VERSION >= 13000
    const cudaGraphEdgeData *edges = NULL;
    const int error = checked(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &last, &edges, &n));
#else
    const int error = checked(cudaStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &last, &n));
#endif
    if (error || status != cudaStreamCaptureStatusActive || n != 1) return DEVICE_LAUNCH_FAILED;
    *node = last[0];
    return DEVICE_OK;
}

int graph_add(Graph *g, Step *step, const NodeKind *kind, const void *what, size_t, int *result)
{
    if (g->n == g->capacity) {
        const int capacity = g->capacity ? 2 * g->capacity : 64;
        cudaGraphNode_t *const node = (cudaGraphNode_t *)realloc(g->node, (size_t)capacity * sizeof(cudaGraphNode_t));
        if (!node) return DEVICE_OUT_OF_MEMORY;
        g->node = node;
        g->capacity = capacity;
    }
    cudaGraphNode_t *const node = &g->node[g->n++];
    *node = NULL;
    *result = kind->run(step, what);
    return step->error ? step->error : kind->change ? last_node(g->stream, node) : (int)DEVICE_OK;
}

static int64_t free_bytes()
{
    size_t free_now = 0, total = 0;
    return cudaMemGetInfo(&free_now, &total) == cudaSuccess ? (int64_t)free_now : 0;
}

static int end_capture(Graph *g)
{
    g->captures = false;
    return checked(cudaStreamEndCapture(g->stream, &g->graph));
}

int graph_end(Graph *g, int64_t room)
{
    const int64_t wanted = GRAPH_BYTES + (int64_t)g->n * GRAPH_NODE_BYTES;
    int error = end_capture(g);
    const int64_t before = free_bytes();
    if (!error && wanted > room) error = DEVICE_OUT_OF_MEMORY;
    if (!error) error = checked(cudaGraphInstantiateWithFlags(&g->launched, g->graph, 0));
    if (!error) error = checked(cudaGraphUpload(g->launched, g->stream));
    if (error) return error;
    const int64_t taken = before - free_bytes(), bytes = taken > wanted ? taken : wanted;
    if (bytes > room) return DEVICE_OUT_OF_MEMORY;
    error = device_take(g->device, bytes);
    if (!error) g->bytes = bytes;
    return error;
}

int graph_launch(Graph *g, Step *)
{
    if (fault_is_due(&device_faults(g->device)->fail_graph)) return DEVICE_LAUNCH_FAILED;
    return checked(cudaGraphLaunch(g->launched, g->stream));
}

/* By the module that has the kernel: one that was loaded later has a CUDA runtime of its own. */
int graph_change(Graph *g, int node, const NodeKind *kind, const void *what)
{
    return kind->change && g->node[node] ? kind->change(g->launched, g->node[node], what) : (int)DEVICE_LAUNCH_FAILED;
}

int64_t graph_bytes(const Graph *g)
{
    return g->bytes;
}

void graph_free(Graph *g)
{
    if (!g) return;
    if (g->captures) (void)end_capture(g);
    if (g->launched) {
        (void)cudaStreamSynchronize(g->stream);
        (void)cudaGraphExecDestroy(g->launched);
    }
    if (g->graph) (void)cudaGraphDestroy(g->graph);
    if (g->bytes) device_give(g->device, g->bytes);
    free(g->node);
    free(g);
}
