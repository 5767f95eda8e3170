/* Whole graphs: replacing values, order, dropping what nobody needs, cloning. */
#include "ir/ir.h"
#include "support/diag.h"
#include <string.h>

Graph *graph_new(Arena *arena, Symbols *symbols, const char *name)
{
    Graph *g = NEW(arena, Graph);
    g->arena = arena;
    g->symbols = symbols;
    g->name = arena_copy(arena, name, strlen(name));
    g->source = g->role = "";
    return g;
}

Value *graph_find_input(const Graph *g, const char *name)
{
    for (int i = 0; i < g->inputs.n; i++)
        if (strcmp(g->inputs.at[i]->name, name) == 0) return g->inputs.at[i];
    return NULL;
}

bool values_hold(const Values *values, const Value *v)
{
    for (int i = 0; i < values->n; i++)
        if (values->at[i] == v) return true;
    return false;
}

void values_add_once(Arena *arena, Values *values, Value *v)
{
    if (!values_hold(values, v)) vec_push(arena, values, v);
}

bool graph_watch_range(Graph *g, Value *v, IndexRange range)
{
    if (expr_has_late(range.n)) return false;
    for (int i = 0; i < v->ranges.n; i++)
        if (range.has_ignore && v->ranges.at[i].has_ignore && range.ignore != v->ranges.at[i].ignore) return false;
    vec_push(g->arena, &v->ranges, range);
    return true;
}

bool graph_is_output(const Graph *g, const Value *v)
{
    if (g->marks) return v->id < g->marked && g->marks[v->id];
    return values_hold(&g->outputs, v);
}

void graph_mark_outputs(Graph *g, Arena *arena)
{
    g->marked = g->next_value;
    g->marks = graph_outputs(arena, g);
}

void graph_unmark_outputs(Graph *g)
{
    g->marks = NULL;
}

uint8_t *graph_outputs(Arena *arena, const Graph *g)
{
    uint8_t *output = NEW_ARRAY(arena, uint8_t, g->next_value + 1);
    for (int i = 0; i < g->outputs.n; i++) output[g->outputs.at[i]->id] = 1;
    return output;
}

/* ---- users ---- */
static bool has_operand(const Op *op, const Value *v)
{
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i] == v) return true;
    return false;
}

static void drop_user(Value *v, const Op *op)
{
    int i = v->users.n - 1; /* mostly a late one */
    while (i >= 0 && v->users.at[i] != op) i--;
    if (i < 0) return;
    memmove(&v->users.at[i], &v->users.at[i + 1], sizeof *v->users.at * (size_t)(v->users.n - i - 1));
    v->users.n--;
}

void op_set_operand(Graph *g, Op *op, int i, Value *v)
{
    Value *old = op->in[i];
    if (old == v) return;
    if (!has_operand(op, v)) vec_push(g->arena, &v->users, op);
    op->in[i] = v;
    if (old && !has_operand(op, old)) drop_user(old, op);
}

void graph_replace_operands(Graph *g, Value *old, Value *new_value)
{
    if (old == new_value) return;
    int kept = 0;
    for (int u = 0; u < old->users.n; u++) {
        Op *user = old->users.at[u];
        if (user == new_value->def) {
            old->users.at[kept++] = user;
            continue;
        }
        if (!has_operand(user, new_value)) vec_push(g->arena, &new_value->users, user);
        for (int i = 0; i < user->n_in; i++)
            if (user->in[i] == old) user->in[i] = new_value;
    }
    old->users.n = kept;
}

void graph_replace(Graph *g, Value *old, Value *new_value)
{
    graph_replace_operands(g, old, new_value);
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i] == old) g->outputs.at[i] = new_value;
    if (g->marks && graph_is_output(g, old)) graph_unmark_outputs(g);
}

void graph_settle(Graph *g)
{
    for (int i = 0; i < g->inputs.n; i++) g->inputs.at[i]->users.n = 0;
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        for (int i = 0; i < op->n_out; i++) op->out[i]->users.n = 0;
        for (int i = 0; i < op->n_in; i++) op->in[i]->users.n = 0; /* of values made by dropped operations too */
    }
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        for (int i = 0; i < op->n_in; i++) { /* an operation's pushes come together: the last one tells */
            Ops *users = &op->in[i]->users;
            if (!users->n || users->at[users->n - 1] != op) vec_push(g->arena, users, op);
        }
    }
}

/* ---- order ---- */
typedef struct {
    Op *op;
    int next; /* operand, then for an assign: commit, then reader of the target */
} Visit;
typedef struct {
    Graph *g;
    uint8_t *state; /* by op->id: 0 not seen, 1 on the stack, 2 placed */
    VEC(Visit) stack;
    Ops placed, commits;
} Sort;

/* The operation that must stand before this one, number i of them; NULL where that number needs none. *more: whether there are
 * more. */
static Op *before(const Sort *s, const Op *op, int i, bool *more)
{
    *more = true;
    if (i < op->n_in) return op->in[i]->def;
    i -= op->n_in;
    if (op->kind == OP_assign) {
        if (i < s->commits.n) return s->commits.at[i];
        i -= s->commits.n;
        const Ops *readers = &op->in[0]->users;
        if (i < readers->n) return readers->at[i]->kind == OP_assign && readers->at[i]->in[0] == op->in[0] ? NULL : readers->at[i];
    }
    *more = false;
    return NULL;
}

static void place(Sort *s, Op *first)
{
    if (s->state[first->id]) return;
    s->state[first->id] = 1;
    vec_push(s->g->arena, &s->stack, ((Visit){first, 0}));
    while (s->stack.n) {
        Visit *top = &s->stack.at[s->stack.n - 1];
        bool more;
        Op *op = top->op, *needed = before(s, op, top->next++, &more);
        if (!more) {
            s->state[op->id] = 2;
            vec_push(s->g->arena, &s->placed, op);
            s->stack.n--;
        } else if (needed && s->state[needed->id] == 1) {
            bug("%s \"%s\" needs itself", op_info(needed->kind)->name, needed->source);
        } else if (needed && s->state[needed->id] == 0) {
            s->state[needed->id] = 1;
            vec_push(s->g->arena, &s->stack, ((Visit){needed, 0}));
        }
    }
}

void graph_sort(Graph *g)
{
    Sort s = {.g = g, .state = NEW_ARRAY(g->arena, uint8_t, g->next_op + 1)};
    for (int i = 0; i < g->ops.n; i++)
        if (g->ops.at[i]->kind == OP_commit || g->ops.at[i]->kind == OP_finite) vec_push(g->arena, &s.commits, g->ops.at[i]);
    for (int i = 0; i < g->ops.n; i++) place(&s, g->ops.at[i]);
    g->ops = s.placed;
}

/* ---- dropping ---- */
void graph_prune(Graph *g)
{
    Arena *scratch = arena_new();
    uint8_t *needed = NEW_ARRAY(scratch, uint8_t, g->next_op + 1);
    Ops stack = {0};
#define NEED(op_)                                                                                                                  \
    do {                                                                                                                           \
        Op *need = (op_);                                                                                                          \
        if (need && !needed[need->id]) {                                                                                           \
            needed[need->id] = 1;                                                                                                  \
            vec_push(scratch, &stack, need);                                                                                      \
        }                                                                                                                          \
    } while (0)
    for (int i = 0; i < g->outputs.n; i++) NEED(g->outputs.at[i]->def);
    for (int i = 0; i < g->ops.n; i++)
        if (op_info(g->ops.at[i]->kind)->class == EFFECT) NEED(g->ops.at[i]);
    while (stack.n) {
        Op *op = stack.at[--stack.n];
        for (int i = 0; i < op->n_in; i++) NEED(op->in[i]->def);
    }
#undef NEED
    int kept = 0;
    for (int i = 0; i < g->ops.n; i++) {
        Op *op = g->ops.at[i];
        if (!needed[op->id]) continue;
        g->ops.at[kept++] = op;
        for (int b = 0; b < 2; b++)
            if (op->body[b]) graph_prune(op->body[b]);
    }
    g->ops.n = kept;
    arena_free(scratch);
    graph_settle(g);
}

/* ---- cloning ---- */
static Value *clone_of(Value *const *map, const Value *v)
{
    if (!map[v->id]) bug("%%%d is used before it is made", v->id);
    return map[v->id];
}

static void clone_op(Graph *to, const Op *op, Value **map)
{
    Value **in = NEW_ARRAY(to->arena, Value *, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++) in[i] = clone_of(map, op->in[i]);
    Op *copy = graph_op(to, op->kind, in, op->n_in, op->n_out);
    copy->source = op->source;
    copy->role = op->role;
    copy->n_attrs = op->n_attrs;
    for (int i = 0; i < op->n_attrs; i++) copy->attrs[i] = op->attrs[i];
    for (int b = 0; b < 2; b++)
        if (op->body[b]) copy->body[b] = graph_clone(op->body[b], op->body[b]->name, NULL);
    for (int i = 0; i < op->n_out; i++) {
        const Value *v = op->out[i];
        Value *result = op_result(to, copy, i, v->dtype, v->rank, v->shape);
        result->name = v->name;
        map[v->id] = result;
    }
}

Value **graph_inline(Graph *g, const Graph *body, Value *const *args)
{
    Value **map = NEW_ARRAY(g->arena, Value *, body->next_value + 1), **out = NEW_ARRAY(g->arena, Value *, body->outputs.n + 1);
    for (int i = 0; i < body->inputs.n; i++) map[body->inputs.at[i]->id] = args[i];
    for (int i = 0; i < body->ops.n; i++) clone_op(g, body->ops.at[i], map);
    for (int i = 0; i < body->outputs.n; i++) out[i] = clone_of(map, body->outputs.at[i]);
    return out;
}

static Value *cut_input(Graph *cut, const Value *v)
{
    const bool stays = v->origin == FROM_WEIGHT || v->origin == FROM_STATE || v->origin == FROM_HYPER;
    Value *input = graph_input(cut, stays ? v->name : "", v->dtype, v->rank, v->shape, stays ? v->origin : FROM_PARAMETER);
    input->tensor = v->tensor;
    return input;
}

typedef struct {
    Graph *cut;
    const Values *given;
    Value **map;
    Values *in, known;
    Ops *of;
} Cut;

static void cut_op(Cut *c, Op *op);

/* What is given, and what no operation makes, becomes an input; what else is missing is made there too. */
static void cut_operand(Cut *c, Value *v)
{
    bool given = !v->def;
    if (c->map[v->id]) return;
    for (int i = 0; i < c->given->n && !given; i++) given = c->given->at[i] == v;
    if (!given) {
        cut_op(c, v->def);
        return;
    }
    c->map[v->id] = cut_input(c->cut, v);
    vec_push(c->cut->arena, c->in, v);
    vec_push(c->cut->arena, &c->known, v);
}

static void cut_op(Cut *c, Op *op)
{
    for (int i = 0; i < op->n_in; i++) cut_operand(c, op->in[i]);
    clone_op(c->cut, op, c->map);
    vec_push(c->cut->arena, c->of, op);
    for (int i = 0; i < op->n_out; i++) vec_push(c->cut->arena, &c->known, op->out[i]);
}

Graph *graph_cut(Graph *g, Arena *arena, const char *name, const Values *results, const Values *given, Value **map, Values *in, Ops *of)
{
    Cut c = {.cut = graph_new(arena, g->symbols, name), .given = given, .map = map, .in = in, .of = of};
    for (int i = 0; i < results->n; i++) {
        cut_operand(&c, results->at[i]);
        vec_push(arena, &c.cut->outputs, map[results->at[i]->id]);
    }
    for (int i = 0; i < c.known.n; i++) map[c.known.at[i]->id] = NULL;
    return c.cut;
}

Graph *graph_clone(Graph *g, const char *name, Value ***map_out)
{
    Graph *copy = graph_new(g->arena, g->symbols, name);
    Value **map = NEW_ARRAY(g->arena, Value *, g->next_value + 1);
    for (int i = 0; i < g->inputs.n; i++) {
        const Value *v = g->inputs.at[i];
        Value *input = graph_input(copy, v->name, v->dtype, v->rank, v->shape, v->origin);
        input->tensor = v->tensor;
        input->ranges = v->ranges;
        map[v->id] = input;
    }
    for (int i = 0; i < g->ops.n; i++) clone_op(copy, g->ops.at[i], map);
    for (int i = 0; i < g->outputs.n; i++) vec_push(g->arena, &copy->outputs, clone_of(map, g->outputs.at[i]));
    if (g->output_names) {
        copy->output_names = NEW_ARRAY(g->arena, const char *, g->outputs.n + 1);
        for (int i = 0; i < g->outputs.n; i++) copy->output_names[i] = g->output_names[i];
    }
    if (map_out) *map_out = map;
    return copy;
}

/* ---- canonical expressions ---- */
static void canonical_value(const Graph *g, Value *v)
{
    for (int k = 0; k < v->rank; k++) v->shape[k] = expr_canonical(g->symbols, v->shape[k]);
}

void graph_canonical(Graph *g)
{
    for (int i = 0; i < g->inputs.n; i++) canonical_value(g, g->inputs.at[i]);
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        for (int i = 0; i < op->n_out; i++) canonical_value(g, op->out[i]);
        for (int a = 0; a < op->n_attrs; a++) {
            if (attr_kind(op->attrs[a].key) != ATTR_EXPRS) continue;
            Expr **exprs = NEW_ARRAY(g->arena, Expr *, op->attrs[a].n + 1);
            for (int k = 0; k < op->attrs[a].n; k++) exprs[k] = expr_canonical(g->symbols, op->attrs[a].exprs[k]);
            op->attrs[a].exprs = exprs;
        }
        for (int b = 0; b < 2; b++)
            if (op->body[b]) graph_canonical(op->body[b]);
    }
}
