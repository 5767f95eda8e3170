/* What attention does to its scores before the softmax becomes a body: elementwise operations of the scores, and masks.
 *
 * A mask is followed back as long as what it is made of has an element a score, or costs nothing (positions, constants,
 * broadcasts): key <= query is in the body, the (batch, keys) of a padding mask is captured.  So no mask of queries x keys
 * stands in memory unless the batch brings one. */
#include "passes/recognise.h"
#include <string.h>

/* ---- the first product ---- */
/* Reshapes may lie between: grouped heads. */
static int depends_on(Attend *a, Value *v)
{
    uint8_t *known = &a->depends[v->id];
    if (*known) return *known;
    *known = NOTHING;
    if (!v->def) return NOTHING;
    Graph *g = a->g;
    if (v->def->kind == OP_dot && expr_always_equal(g->symbols, value_count(g, v), value_count(g, a->masked))) {
        if (a->scores && a->scores != v->def) {
            attend_no(a, "two products are added up to its scores");
            return NOTHING;
        }
        a->scores = v->def;
        return *known = SCORES;
    }
    const OpClass class = op_info(v->def->kind)->class;
    if (class != ELEMENTWISE && v->def->kind != OP_reshape && v->def->kind != OP_broadcast) return NOTHING;
    if (class != ELEMENTWISE && !expr_always_equal(g->symbols, value_count(g, v), value_count(g, v->def->in[0]))) return NOTHING;
    for (int i = 0; i < v->def->n_in; i++)
        if (depends_on(a, v->def->in[i]) == SCORES) *known = SCORES;
    return *known;
}

bool attend_find_scores(Attend *a)
{
    const int found = depends_on(a, a->masked);
    if (a->why) return false;
    return found == SCORES || attend_no(a, "what the softmax takes is no product with elementwise operations");
}

/* ---- the body ---- */
static Value *absorb(Attend *a, Value *v);

/* Made of positions, constants and sizes alone. */
static bool is_pure(const Attend *a, const Value *v)
{
    const OpClass class = v->def ? op_info(v->def->kind)->class : EFFECT;
    uint8_t *known = &a->pure[v->id];
    if (*known) return *known == YES;
    bool pure = (class == ELEMENTWISE || class == INDEX || class == SOURCE) && !op_kind_draws(v->def->kind);
    for (int i = 0; pure && i < v->def->n_in; i++) pure = is_pure(a, v->def->in[i]);
    *known = pure ? YES : NO;
    return pure;
}

/* Has an element for each query and key. */
static bool is_whole(const Attend *a, const Value *v)
{
    const Value *like = a->masked;
    if (v->rank < 2) return false;
    for (int i = 1; i <= 2; i++)
        if (!expr_always_equal(a->g->symbols, v->shape[v->rank - i], like->shape[like->rank - i])) return false;
    return true;
}

static bool belongs(const Attend *a, const Value *v)
{
    const OpClass class = v->def ? op_info(v->def->kind)->class : EFFECT;
    if (v->def && op_kind_draws(v->def->kind)) return false;
    if (class == SOURCE) return true;
    if (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape || v->def->kind == OP_transpose)) return true;
    return (class == ELEMENTWISE || class == INDEX) && (is_whole(a, v) || a->depends[v->id] == SCORES || is_pure(a, v));
}

static Value *capture(Attend *a, Value *v)
{
    Graph *g = a->g;
    if (a->wanted && (v->id >= a->values || a->wanted[v->id])) {
        attend_no(a, arena_text(g->arena, "what is done to its scores trains (%s)",
                                v->tensor ? v->tensor->name : v->def ? v->def->source : v->name));
        return NULL;
    }
    if (v->def && op_kind_draws(v->def->kind)) {
        attend_no(a, "its scores are random");
        return NULL;
    }
    if (v->origin == FROM_HYPER) {
        attend_no(a, "its scores depend on a setting of the trainer");
        return NULL;
    }
    vec_push(g->arena, &a->captures, v);
    return graph_input(a->body, arena_text(g->arena, "capture_%d", a->captures.n - 1), v->dtype, v->rank, v->shape, FROM_PARAMETER);
}

/* The scores as the first product gave them. */
static Value *raw(Attend *a)
{
    Graph *body = a->body;
    const Value *was = a->scores->out[0];
    Value *scores = b_reshape(body, body->inputs.at[0], was->rank, was->shape);
    return a->factor == 1 ? scores : b_mul(body, scores, b_like(body, scores, a->factor));
}

static Value *copied(Attend *a, Value *v)
{
    Graph *body = a->body;
    const Op *op = v->def;
    Value **in = NEW_ARRAY(body->arena, Value *, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++)
        if (!(in[i] = absorb(a, op->in[i]))) return NULL;
    if (a->depends[v->id] == SCORES) vec_push(a->g->arena, &a->ops, v->def);
    body->source = op->source;
    body->role = op->role;
    Op *copy = graph_op(body, op->kind, in, op->n_in, 1);
    copy->n_attrs = op->n_attrs;
    for (int i = 0; i < op->n_attrs; i++) copy->attrs[i] = op->attrs[i];
    return op_result(body, copy, 0, v->dtype, v->rank, v->shape);
}

static Value *absorb(Attend *a, Value *v)
{
    Value **known = &a->inner[v->id];
    if (*known) return *known;
    if (v == a->scores->out[0])
        *known = raw(a);
    else
        *known = belongs(a, v) ? copied(a, v) : capture(a, v);
    return *known;
}

static Value *as_scores(Attend *a, Value *v)
{
    const Value *like = a->body->inputs.at[0];
    Value *whole = b_broadcast_to(a->body, v, a->masked->rank, a->masked->shape);
    return b_reshape(a->body, whole, like->rank, like->shape);
}

Graph *attend_body(Attend *a)
{
    Graph *g = a->g;
    a->body = graph_new(g->arena, g->symbols, "body");
    a->body->source = a->product->source;
    graph_input(a->body, "scores", a->q->dtype, a->q->rank, attention_scores(g, a->q, a->k), FROM_PARAMETER);
    Value *result = absorb(a, a->masked), *allowed = a->allowed && result ? absorb(a, a->allowed) : NULL;
    if (!result || (a->allowed && !allowed)) return NULL;
    vec_push(g->arena, &a->body->outputs, as_scores(a, result));
    if (allowed) vec_push(g->arena, &a->body->outputs, as_scores(a, allowed));
    graph_prune(a->body);
    return a->body;
}
