/* Checks the names of a graph and puts its nodes in an order in which each value is made before it is used.
 * Nodes that stand in such an order keep it.  A node uses its inputs and what its subgraphs take from around them, so subgraphs
 * come first.  No recursion: a chain of 100,000 nodes written backwards is as good as any. */
#include "onnx/reader.h"
#include "support/diag.h"
#include <string.h>

enum { FROM_OUTSIDE = 1, FIRST_NODE = 2 }; /* what a name maps to: an input or initializer, or 2 + the node's place */

typedef struct {
    Reader *r;
    OnnxGraph *graph;
    Map *maker;
    Map *captured;
    VEC(OnnxCapture) captures;
    VEC(int) needs;  /* nodes that nodes need, one after another */
    int *first_need; /* [n_nodes + 1]: where those of a node begin */
} Order;

static intptr_t maker_of(const Order *o, const char *name)
{
    return (intptr_t)map_get(o->maker, name);
}

/* ---- definitions ---- */

static void define_outside(Order *o)
{
    OnnxGraph *g = o->graph;
    for (int i = 0; i < g->n_initializers; i++) map_set(o->maker, g->initializers[i]->name, (void *)(intptr_t)FROM_OUTSIDE);
    Map *inputs = map_new(o->r->arena);
    for (int i = 0; i < g->n_inputs; i++) {
        if (map_has(inputs, g->inputs[i].name))
            error_exit("%s: two inputs of graph \"%s\" are called \"%s\"; export the model again", o->r->path, g->name,
                       g->inputs[i].name);
        map_set(inputs, g->inputs[i].name, g);
        map_set(o->maker, g->inputs[i].name, (void *)(intptr_t)FROM_OUTSIDE);
    }
}

static noreturn void defined_twice(const Order *o, const char *name, const OnnxNode *node, intptr_t earlier)
{
    Arena *arena = o->r->arena;
    const char *other =
        earlier == FROM_OUTSIDE ? "an input or initializer of the graph" : node_label(arena, o->graph->nodes[earlier - FIRST_NODE]);
    error_exit("%s: \"%s\" is defined twice: by %s and by %s; each name may stand for one value; export the model again",
               o->r->path, name, other, node_label(arena, node));
}

static void define_outputs(Order *o)
{
    for (int i = 0; i < o->graph->n_nodes; i++) {
        const OnnxNode *node = o->graph->nodes[i];
        for (int k = 0; k < node->n_outputs; k++) {
            const char *name = node->outputs[k];
            if (!*name) continue;
            intptr_t earlier = maker_of(o, name);
            if (earlier) defined_twice(o, name, node, earlier);
            map_set(o->maker, name, (void *)(intptr_t)(i + FIRST_NODE));
        }
    }
}

/* ---- uses ---- */

/* node needs name; user, in node or in a body of it, is the one that says so. */
static void use(Order *o, const char *name, const OnnxNode *node, const OnnxNode *user)
{
    if (!*name) return;
    intptr_t maker = maker_of(o, name);
    if (maker >= FIRST_NODE && node) vec_push(o->r->arena, &o->needs, (int)(maker - FIRST_NODE));
    if (maker || map_has(o->captured, name)) return;
    map_set(o->captured, name, o);
    vec_push(o->r->arena, &o->captures, ((OnnxCapture){name, user}));
}

static void use_captures(Order *o, const OnnxGraph *body, const OnnxNode *node)
{
    for (int i = 0; i < body->n_captures; i++) {
        const OnnxNode *user = body->captures[i].user;
        use(o, body->captures[i].name, node, user ? user : node);
    }
}

static void collect_uses(Order *o)
{
    OnnxGraph *g = o->graph;
    o->first_need = NEW_ARRAY(o->r->arena, int, g->n_nodes + 1);
    for (int i = 0; i < g->n_nodes; i++) {
        const OnnxNode *node = g->nodes[i];
        for (int k = 0; k < node->n_inputs; k++) use(o, node->inputs[k], node, node);
        for (int k = 0; k < node->n_attributes; k++) {
            const OnnxAttribute *a = &node->attributes[k];
            if (a->g) use_captures(o, a->g, node);
            for (int b = 0; a->graphs && b < a->n; b++) use_captures(o, a->graphs[b], node);
        }
        o->first_need[i + 1] = o->needs.n;
    }
    for (int i = 0; i < g->n_outputs; i++) use(o, g->outputs[i].name, NULL, NULL);
}

/* ---- names that nobody defines ---- */

static void undefined(Order *o, const OnnxCapture *capture)
{
    Arena *arena = o->r->arena;
    int n = map_count(o->maker);
    const char **names = NEW_ARRAY(arena, const char *, n);
    for (int i = 0; i < n; i++) names[i] = map_key(o->maker, i);
    const char *near = near_names(arena, capture->name, names, n);
    const char *hint = *near ? arena_text(arena, " (near to it: %s)", near) : "";
    if (capture->user)
        error_add(
            "%s: %s: it uses \"%s\", which no node makes and which is neither input nor initializer%s; the file is incomplete: "
            "export the model again",
            o->r->path, node_label(arena, capture->user), capture->name, hint);
    else
        error_add("%s: output \"%s\" of the graph is made by no node%s; the file is incomplete: export the model again", o->r->path,
                  capture->name, hint);
}

static void check_defined(Order *o)
{
    enum { SHOWN = 10 };
    for (int i = 0; i < o->captures.n && i < SHOWN; i++) undefined(o, &o->captures.at[i]);
    if (o->captures.n > SHOWN) error_add("%s: and %d more names that nothing defines", o->r->path, o->captures.n - SHOWN);
    error_stop();
}

/* ---- order ---- */

typedef struct {
    int node, next;
} Step;

/* The steps from the first visit of `node` on are a cycle, each needing the one after it. */
static noreturn void cycle(Order *o, const Step *steps, int n, int node)
{
    enum { SHOWN = 8 };
    Arena *arena = o->r->arena;
    int begin = n - 1;
    while (steps[begin].node != node) begin--;
    Buf text = {.arena = arena};
    for (int i = begin; i < n && i < begin + SHOWN; i++)
        buf_printf(&text, "%s needs ", node_label(arena, o->graph->nodes[steps[i].node]));
    if (n - begin > SHOWN) buf_printf(&text, "%d more, which need ", n - begin - SHOWN);
    error_exit("%s: nodes wait for each other in a cycle: %s%s; export the model again", o->r->path, buf_text(&text),
               node_label(arena, o->graph->nodes[node]));
}

static void order_nodes(Order *o)
{
    enum { NEW_NODE, OPEN, DONE };
    int n = o->graph->n_nodes, n_ordered = 0, depth = 0;
    Arena *arena = o->r->arena;
    unsigned char *state = NEW_ARRAY(arena, unsigned char, n);
    OnnxNode **ordered = NEW_ARRAY(arena, OnnxNode *, n);
    Step *steps = NEW_ARRAY(arena, Step, n + 1);
    for (int i = 0; i < n; i++) {
        if (state[i] == NEW_NODE) steps[depth++] = (Step){i, o->first_need[i]};
        while (depth) {
            Step *step = &steps[depth - 1];
            state[step->node] = OPEN;
            if (step->next == o->first_need[step->node + 1]) {
                state[step->node] = DONE;
                ordered[n_ordered++] = o->graph->nodes[step->node];
                depth--;
                continue;
            }
            int need = o->needs.at[step->next++];
            if (state[need] == OPEN) cycle(o, steps, depth, need);
            if (state[need] == NEW_NODE) steps[depth++] = (Step){need, o->first_need[need]};
        }
    }
    o->graph->nodes = ordered;
}

void graph_order(Reader *r, OnnxGraph *graph, bool is_main)
{
    Order o = {.r = r, .graph = graph, .maker = map_new(r->arena), .captured = map_new(r->arena)};
    define_outside(&o);
    define_outputs(&o);
    collect_uses(&o);
    if (is_main) check_defined(&o);
    order_nodes(&o);
    graph->captures = o.captures.at;
    graph->n_captures = o.captures.n;
}
