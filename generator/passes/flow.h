/* Maximum flow and minimum cut on a directed graph (Dinic: blocking flows along shortest paths). */
#ifndef PASSES_FLOW_H
#define PASSES_FLOW_H
#include "support/arena.h"

typedef __int128 Flow;
#define FLOW_ANY ((Flow)1 << 120) /* a capacity that is never reached: the sum of all others is below it */

typedef struct FlowNet FlowNet;
FlowNet *flow_new(Arena *arena, int nodes);
void flow_arc(FlowNet *net, int from, int to, Flow capacity);
/* By node: 1 where it lies on the sink's side of the minimum cut that is nearest to the sink.  Every path from source to sink must
 * hold an arc of limited capacity. */
const uint8_t *flow_minimum_cut(FlowNet *net, int source, int sink);
#endif
