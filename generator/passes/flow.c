/* Maximum flow after Dinic: a breadth-first search gives each node its distance to the sink, then paths that get nearer with each
 * arc are filled until none is left; again, with new distances.  Near linear where paths are short, as in a training step. */
#include "passes/flow.h"
#include "support/diag.h"
#include <string.h>

typedef struct {
    int to, next;
    Flow left;
} Arc; /* arc i and arc i ^ 1 are each other's reverse */

struct FlowNet {
    Arena *arena;
    int n;
    int *first, *now; /* by node: its arcs; the one that is tried */
    int *distance;    /* to the sink; -1: it cannot be reached */
    int *queue, *path;
    VEC(Arc) arcs;
};

FlowNet *flow_new(Arena *arena, int nodes)
{
    FlowNet *net = NEW(arena, FlowNet);
    *net = (FlowNet){.arena = arena,
                     .n = nodes,
                     .first = NEW_ARRAY(arena, int, nodes + 1),
                     .now = NEW_ARRAY(arena, int, nodes + 1),
                     .distance = NEW_ARRAY(arena, int, nodes + 1),
                     .queue = NEW_ARRAY(arena, int, nodes + 1),
                     .path = NEW_ARRAY(arena, int, nodes + 1)};
    for (int i = 0; i < nodes; i++) net->first[i] = -1;
    return net;
}

static void add_half(FlowNet *net, int from, int to, Flow capacity)
{
    vec_push(net->arena, &net->arcs, ((Arc){to, net->first[from], capacity}));
    net->first[from] = net->arcs.n - 1;
}

void flow_arc(FlowNet *net, int from, int to, Flow capacity)
{
    add_half(net, from, to, capacity);
    add_half(net, to, from, 0);
}

/* Distances to the sink, through arcs that can take more. */
static void find_distances(FlowNet *net, int sink)
{
    int n = 0;
    for (int i = 0; i < net->n; i++) net->distance[i] = -1;
    net->distance[sink] = 0;
    net->queue[n++] = sink;
    for (int q = 0; q < n; q++) {
        const int v = net->queue[q];
        for (int a = net->first[v]; a >= 0; a = net->arcs.at[a].next) {
            const int u = net->arcs.at[a].to;
            if (net->distance[u] >= 0 || net->arcs.at[a ^ 1].left == 0) continue;
            net->distance[u] = net->distance[v] + 1;
            net->queue[n++] = u;
        }
    }
}

/* Fills the path of n arcs; returns how many of its first arcs can still take more. */
static int fill(FlowNet *net, int n)
{
    Arc *arcs = net->arcs.at;
    Flow most = FLOW_ANY;
    int good = n;
    for (int i = 0; i < n; i++)
        if (arcs[net->path[i]].left < most) most = arcs[net->path[i]].left;
    if (most == FLOW_ANY) bug("flow: a path without a limit");
    for (int i = n - 1; i >= 0; i--) {
        arcs[net->path[i]].left -= most;
        arcs[net->path[i] ^ 1].left += most;
        if (arcs[net->path[i]].left == 0) good = i;
    }
    return good;
}

static void fill_shortest(FlowNet *net, int source, int sink)
{
    memcpy(net->now, net->first, sizeof *net->now * (size_t)net->n);
    int n = 0, v = source;
    for (;;) {
        if (v == sink) {
            n = fill(net, n);
            v = n ? net->arcs.at[net->path[n - 1]].to : source;
            continue;
        }
        int *a = &net->now[v];
        while (*a >= 0 && (net->arcs.at[*a].left == 0 || net->distance[net->arcs.at[*a].to] != net->distance[v] - 1))
            *a = net->arcs.at[*a].next;
        if (*a >= 0) {
            net->path[n++] = *a;
            v = net->arcs.at[*a].to;
        } else if (v == source) {
            return;
        } else { /* a dead end */
            n--;
            v = net->arcs.at[net->path[n] ^ 1].to;
            net->now[v] = net->arcs.at[net->now[v]].next;
        }
    }
}

const uint8_t *flow_minimum_cut(FlowNet *net, int source, int sink)
{
    for (find_distances(net, sink); net->distance[source] >= 0; find_distances(net, sink)) fill_shortest(net, source, sink);
    uint8_t *reaches_sink = NEW_ARRAY(net->arena, uint8_t, net->n + 1);
    for (int i = 0; i < net->n; i++) reaches_sink[i] = net->distance[i] >= 0;
    return reaches_sink;
}
