/* Subgraphs: names in nested scopes, subgraphs imported in place, and bodies of regions with what they capture. */
#include "onnx/terms.h"
#include <string.h>

/* ---- scopes ---- */
Scope *scope_push(Import *im, const OnnxGraph *source)
{
    Scope *s = NEW(im->arena, Scope);
    *s = (Scope){.terms = map_new(im->arena), .outer = im->scope, .body = im->scope->body, .source = source};
    return im->scope = s;
}

void scope_pop(Import *im)
{
    check(im->scope->outer);
    im->scope = im->scope->outer;
}

void scope_define(Import *im, const char *name, Term *term)
{
    map_set(im->scope->terms, name, term);
}

/* A term of the graph around as a body sees it: its elements if known, else a parameter once the value is needed. */
static Term *seen_from_inside(Import *im, Term *outer)
{
    Term *t = NEW(im->arena, Term);
    *t = *outer;
    t->value = NULL;
    t->outer = outer;
    if (t->is_sequence) {
        t->items = NEW_ARRAY(im->arena, Term *, t->n_items + 1);
        for (int i = 0; i < t->n_items; i++) t->items[i] = seen_from_inside(im, outer->items[i]);
        if (t->rows) t->rows = seen_from_inside(im, outer->rows);
    }
    return t;
}

static Term *find(Import *im, Scope *scope, const char *name)
{
    Scope *first = scope;
    for (Scope *s = scope; s; s = s->outer) {
        Term *t = map_get(s->terms, name);
        if (t) return t;
        const OnnxTensor *initializer = graph_initializer(s->source, name);
        if (initializer) {
            t = term_of_tensor(im, initializer);
            map_set(s->terms, name, t);
            return t;
        }
        first = s;
    }
    if (!first->body->outer_scope) return NULL;
    Term *outer = find(im, first->body->outer_scope, name);
    if (!outer) return NULL;
    Term *t = seen_from_inside(im, outer);
    map_set(first->terms, name, t);
    return t;
}

Term *scope_find(Import *im, const char *name)
{
    Term *t = find(im, im->scope, name);
    if (!t) bug("nobody makes \"%s\"", name);
    return t;
}

/* ---- bodies ---- */
Body *body_open(Import *im, const OnnxGraph *sub, const char *name)
{
    Body *body = NEW(im->arena, Body);
    const char *source = im->graph ? im->graph->source : "";
    *body = (Body){
        .graph = graph_new(im->arena, im->symbols, name), .outer = im->scope ? im->scope->body : NULL, .outer_scope = im->scope};
    body->graph->source = source;
    Scope *s = NEW(im->arena, Scope);
    *s = (Scope){.terms = map_new(im->arena), .body = body, .source = sub};
    im->scope = s;
    im->graph = body->graph;
    return body;
}

void body_close(Import *im)
{
    Body *body = im->scope->body;
    check(!im->scope->outer);
    im->scope = body->outer_scope;
    im->graph = body->outer ? body->outer->graph : NULL;
}

Value *body_parameter(Import *im, const char *name, Dtype dtype, int rank, Expr *const *shape)
{
    const char *unique = name && name[0] ? name : "captured";
    for (int i = 2; graph_find_input(im->graph, unique); i++)
        unique = arena_text(im->arena, "%s_%d", name && name[0] ? name : "captured", i);
    return graph_input(im->graph, unique, dtype, rank, shape, FROM_PARAMETER);
}

Value *body_capture(Import *im, Body *body, Value *outside)
{
    for (int i = 0; i < body->outside.n; i++)
        if (body->outside.at[i] == outside) return body->inside.at[i];
    Graph *before = im->graph;
    im->graph = body->graph;
    Value *inside = body_parameter(im, outside->name, outside->dtype, outside->rank, outside->shape);
    im->graph = before;
    vec_push(im->arena, &body->outside, outside);
    vec_push(im->arena, &body->inside, inside);
    return inside;
}

Value *body_turn(Import *im, Body *body)
{
    enum { FURTHER_IN = 1048583 }; /* a prime: turns of nested loops meet only after as many iterations */
    Graph *g = body->graph;
    if (body->turn || !body->outer) return body->turn;
    Value *outer = body_turn(im, body->outer);
    if (outer) outer = body_capture(im, body, outer);
    if (!body->iteration) return outer;
    body->turn = b_cast(g, body->iteration, DTYPE_u64);
    if (outer) body->turn = b_add(g, b_mul(g, outer, b_number(g, DTYPE_u64, FURTHER_IN)), body->turn);
    return body->turn;
}

Value *value_from_program(Import *im, Body *body, Value *value)
{
    return body->outer ? body_capture(im, body, value_from_program(im, body->outer, value)) : value;
}

/* ---- for operators with subgraphs ---- */
static void import_subgraph(Import *im, const OnnxGraph *sub, Term **results)
{
    import_nodes(im, sub);
    for (int i = 0; i < sub->n_outputs; i++) results[i] = scope_find(im, sub->outputs[i].name);
}

void import_inline(Import *im, const OnnxGraph *sub, Term **inputs, int n_inputs, Term **results)
{
    check(n_inputs <= sub->n_inputs);
    scope_push(im, sub);
    for (int i = 0; i < n_inputs; i++) scope_define(im, sub->inputs[i].name, inputs[i]);
    import_subgraph(im, sub, results);
    scope_pop(im);
}
