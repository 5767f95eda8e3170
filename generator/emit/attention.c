/* Kernels of attention: queries and keys in blocks, their scores on chip (device/attention.h).  What the model does to scores is
 * written out between the product and the softmax; blocks that a mask empties wait until it is known that some row needs them. */
#include "emit/attention.h"
#include "ir/build.h"
#include "ir/view.h"
#include <string.h>

enum { THREADS = 128, LEAST_LANES = 32 };

typedef struct {
    Kernels *all;
    const Op *op;
    AttentionParts p;
    View q, k, v, dy, y;         /* y: as the group writes it */
    int batch, shared;           /* axes before queries: those that keys have too, those that share keys */
    Value *raw, *slope;          /* leaves: a score, the gradient of what is made of it */
    Value *scores, *allowed, *d; /* in the group's terms: body's results, the derivative's */
    Expr *queries, *keys;
    const char *type;
    int64_t size, value_size;
    bool skips; /* a mask empties blocks */
} Attention;

/* ---- bodies ---- */
static Value *leaf(Arena *arena, const Value *like)
{
    Value *v = NEW(arena, Value);
    *v = *like;
    v->users = (Ops){0};
    return v;
}

/* The body's operations over the operands themselves; users of these are not touched. */
static Value **inlined(Attention *a, const Graph *body, Value *const *leaves, int n, int captures)
{
    Arena *arena = a->all->scratch;
    Value **map = NEW_ARRAY(arena, Value *, body->next_value + 1), **out = NEW_ARRAY(arena, Value *, body->outputs.n + 1);
    for (int i = 0; i < body->inputs.n; i++) map[body->inputs.at[i]->id] = i < n ? leaves[i] : a->op->in[captures + i - n];
    for (int o = 0; o < body->ops.n; o++) {
        Op *op = NEW(arena, Op);
        *op = *body->ops.at[o];
        op->in = NEW_ARRAY(arena, Value *, op->n_in + 1);
        op->out = NEW_ARRAY(arena, Value *, op->n_out + 1);
        for (int i = 0; i < op->n_in; i++) op->in[i] = map[body->ops.at[o]->in[i]->id];
        for (int i = 0; i < op->n_out; i++) {
            op->out[i] = leaf(arena, body->ops.at[o]->out[i]);
            op->out[i]->def = op;
            map[body->ops.at[o]->out[i]->id] = op->out[i];
        }
    }
    for (int i = 0; i < body->outputs.n; i++) out[i] = map[body->outputs.at[i]->id];
    return out;
}

static Attention attention_of(Emission *e)
{
    const Op *op = main_op(e->group);
    const bool back = op->kind == OP_attention_gradient;
    const int captures = back ? ATTENTION_GRADIENT_CAPTURES : ATTENTION_CAPTURES;
    Attention a = {.all = e->all, .op = op, .p = attention_parts(op)};
    Graph views = {.arena = e->all->scratch, .symbols = e->all->symbols};
    a.q = value_row_view(&views, a.p.q), a.k = value_row_view(&views, a.p.k), a.v = value_row_view(&views, a.p.v);
    if (back) a.dy = value_row_view(&views, op->in[0]);
    const Value *y = op->out[0];
    for (int i = 0; i < e->group->out.n && !back; i++) {
        Value *out = e->group->out.at[i];
        if (out == y)
            a.y = value_row_memory(&views, out);
        else if (out->def != op)
            check(value_lies_as(&views, y, out, &a.y));
    }
    a.batch = a.p.k->rank - 2;
    a.shared = a.p.q->rank - a.p.k->rank;
    a.queries = expr_canonical(e->all->symbols, a.p.q->shape[a.p.q->rank - 2]);
    a.keys = expr_canonical(e->all->symbols, a.p.k->shape[a.batch]);
    a.type = dtype_c(attention_type(a.p.q));
    check(expr_is_int(expr_canonical(e->all->symbols, a.p.q->shape[a.p.q->rank - 1]), &a.size));
    check(expr_is_int(expr_canonical(e->all->symbols, a.p.v->shape[a.batch + 1]), &a.value_size));
    Value *leaves[] = {leaf(e->all->scratch, op->body[0]->inputs.at[0]), leaf(e->all->scratch, op->body[0]->inputs.at[0])};
    a.raw = leaves[0], a.slope = leaves[1];
    Value **results = inlined(&a, op->body[0], leaves, 1, captures);
    a.scores = results[0];
    a.allowed = op->body[0]->outputs.n > 1 ? results[1] : NULL;
    if (back) a.d = inlined(&a, op->body[1], leaves, 2, captures)[0];
    return a;
}

/* ---- where things lie ---- */
/* The pointer to the element at an index. */
static const char *at_view(Kernel *k, const View *view, const char *pointer, const Index *index)
{
    Affine sum = affine_expr(k, view->offset);
    for (int i = 0; i < index->rank; i++) sum = affine_add(k, &sum, &index->at[i], view->stride[i]);
    affine_seen(k, &sum);
    const char *at = affine_text(k, &sum);
    return strcmp(at, "0") ? text_of(k, "%s + %s", pointer, at) : pointer;
}

/* "q", or "qkv" where one tensor holds them all. */
static const char *operand_name(const Attention *a, const View *view)
{
    const bool one = a->q.root == a->k.root && a->k.root == a->v.root;
    if (view == &a->dy) return "dy";
    return one ? "qkv" : view == &a->q ? "q" : view == &a->k ? "k" : "v";
}

static const char *address(Kernel *k, const Attention *a, const View *view, const Index *index)
{
    return at_view(k, view, param_called(k, view->root, operand_name(a, view)), index);
}

/* The same in a value that lies row by row. */
static const char *place(Kernel *k, const Value *v, const char *pointer, const Index *index)
{
    Affine at = index_flat(k, v, index);
    affine_seen(k, &at);
    const char *text = affine_text(k, &at);
    return strcmp(text, "0") ? text_of(k, "%s + %s", pointer, text) : pointer;
}

/* Batch axes, then these; axes that only queries have are left out for keys. */
static Index with(Kernel *k, const Index *batch, int axes, const Affine *row, bool elements)
{
    Index index = *batch;
    index.rank = axes;
    index.at[index.rank++] = *row;
    if (elements) index.at[index.rank++] = affine_int(k, 0);
    return index;
}

static const char *distance(Kernel *k, const View *view, const Value *v)
{
    return size_bare(k, expr_canonical(k->symbols, view->stride[v->rank - 2]));
}

/* ---- loops ---- */
typedef struct {
    Attention *a;
    Index batch;        /* of queries: batch and shared axes */
    Affine first, last; /* of the block that is held */
    Affine from, to;    /* of the one that passes by */
    bool own_keys;
} Blocks;

static const char *minimum_text(Kernel *k, const char *base, const char *step, const char *size)
{
    return text_of(k, "minimum<int64_t>(%s + %s, %s) - 1", base, step, size);
}

/* Blocks of the rows that are held, shared out among blocks of threads. */
static void open_own(Kernel *k, Blocks *b, Expr *own)
{
    Affine of_group[MAX_AXES];
    int kept[MAX_AXES], n_kept = 0;
    for (int g = 0; g < k->n_groups; g++) kept[n_kept++] = g;
    Expr *heads = groups_extent(k, kept, n_kept);
    size_called(k, b->a->queries, "queries");
    size_called(k, b->a->keys, "keys");
    size_called(k, heads, "heads");
    const char *size = size_text(k, own);
    line(k, "const int64_t blocks = tiles(%s, tile.OWN);", size);
    block_open(k, expr_is(heads, 1) ? "FOR_ROWS (part, blocks)" : "FOR_ROWS (part, %s * blocks)", size_text(k, heads));
    const int level = k->depth - 1;
    if (expr_is(heads, 1))
        line(k, "const int64_t first = part * tile.OWN;");
    else
        line(k, "const int64_t head = part / blocks, first = part %% blocks * tile.OWN;");
    line(k, "const int64_t last = %s;", minimum_text(k, "first", "tile.OWN", size));
    b->first = affine_var(k, loop_var(k, "first", own));
    b->last = affine_var(k, loop_var(k, "last", own));
    if (k->pass == PASS_COLLECT) {
        for (int i = 0; i < n_kept; i++) {
            Var *v = group_var(k, kept[i], "");
            v->level = v->at_level = level;
            of_group[kept[i]] = affine_var(k, v);
        }
    } else if (n_kept) {
        row_groups(k, loop_var(k, "head", heads), kept, n_kept, of_group);
    }
    b->batch = axes_index(k, of_group);
}

/* The blocks that pass by. */
static void open_other(Kernel *k, Blocks *b, Expr *other)
{
    const char *size = size_text(k, other);
    block_open(k, "for (int64_t from = 0; from < %s; from += tile.OTHER)", size);
    line(k, "const int64_t to = %s;", minimum_text(k, "from", "tile.OTHER", size));
    b->from = affine_var(k, loop_var(k, "from", other));
    b->to = affine_var(k, loop_var(k, "to", other));
}

static const char *emptied(Kernel *k, const Blocks *b)
{
    Corners c = {.index = b->batch, .query = {b->first, b->last}, .key = {b->from, b->to}};
    if (b->own_keys) c = (Corners){b->batch, {b->from, b->to}, {b->first, b->last}};
    c.index.rank = b->a->scores->rank;
    c.index.at[c.index.rank - 2] = c.query[0], c.index.at[c.index.rank - 1] = c.key[0];
    return attention_emptied(k, b->a->scores, &c);
}

/* Whether a mask ever empties a block: asked in a pass that writes nothing. */
static void ask(Kernel *k, void *context)
{
    Blocks b = {.a = context};
    open_own(k, &b, b.a->queries);
    open_other(k, &b, b.a->keys);
    b.a->skips = emptied(k, &b) != NULL;
    block_close(k);
    block_close(k);
}

/* One score after another: name_i is its place among the others, name_j among those that are held. */
static Index open_scores(Kernel *k, const Blocks *b, const char **place_text)
{
    const char *other = b->own_keys ? "query" : "key", *own = b->own_keys ? "key" : "query";
    Attention *a = b->a;
    block_open(k, "FOR_OTHER (%s, from, to)", other);
    Affine i = affine_var(k, loop_var(k, other, b->own_keys ? a->queries : a->keys));
    block_open(k, "FOR_OWN (%s, first, last)", own);
    Affine j = affine_var(k, loop_var(k, own, b->own_keys ? a->keys : a->queries));
    *place_text = text_of(k, "[%s - from][%s - first]", other, own);
    Index index = b->batch;
    index.rank = a->batch + a->shared;
    index.at[index.rank++] = b->own_keys ? i : j;
    index.at[index.rank++] = b->own_keys ? j : i;
    line(k, "const %s score = tile.s%s;", a->type, *place_text);
    vec_push(k->arena, &k->at_hand, ((__typeof__(*k->at_hand.at)){a->raw, "score", false, k->depth - 1}));
    return index;
}

static void close_scores(Kernel *k)
{
    k->at_hand.n = 0;
    block_close(k);
    block_close(k);
}

/* ---- forward ---- */
static void forward_scores(Kernel *k, const Blocks *b)
{
    const char *at;
    if (b->a->scores == b->a->raw && !b->a->allowed) return;
    const Index index = open_scores(k, b, &at);
    const Code score = element(k, b->a->scores, &index);
    line(k, "tile.s%s = %s;", at, score.text);
    if (b->a->allowed) line(k, "tile.allow(query - first, %s);", element(k, b->a->allowed, &index).text);
    close_scores(k);
}

/* Emptied blocks are passed over; where a row has met no score above those of a mask, they count after all. */
static void open_passes(Kernel *k, const char *found)
{
    block_open(k, "for (int emptied = 0; emptied < 2 && !(emptied && %s); emptied++)", found);
}

static void forward_body(Kernel *k, void *context)
{
    Attention *a = context;
    Blocks b = {.a = a};
    Value *top = a->op->out[1], *scale = a->op->out[2];
    const char *to_y = param_result(k, a->y.root, "y"), *to_top = param_result(k, top, "top"),
               *to_scale = param_result(k, scale, "scale");
    const int axes = a->batch + a->shared;
    line(k, "SHARED AttentionForward<%s, %lld, %lld, %s> tile;", a->type, (long long)a->size, (long long)a->value_size,
         a->allowed ? "true" : "false");
    open_own(k, &b, a->queries);
    const Index q = with(k, &b.batch, axes, &b.first, true), row = with(k, &b.batch, axes, &b.first, false);
    line(k, "tile.begin(%s, %s, last - first + 1);", address(k, a, &a->q, &q), distance(k, &a->q, a->p.q));
    if (a->skips) open_passes(k, "tile.found(last - first + 1)");
    open_other(k, &b, a->keys);
    if (a->skips) line(k, "if (%s != (emptied != 0)) continue;", emptied(k, &b));
    const Index kv = with(k, &b.batch, a->batch, &b.from, true);
    line(k, "tile.multiply(%s, %s, to - from + 1);", address(k, a, &a->k, &kv), distance(k, &a->k, a->p.k));
    forward_scores(k, &b);
    line(k, "tile.add(%s, %s, to - from + 1);", address(k, a, &a->v, &kv), distance(k, &a->v, a->p.v));
    block_close(k);
    if (a->skips) block_close(k);
    line(k, "tile.finish(%s, %s, %s, %s, last - first + 1, %s);", at_view(k, &a->y, to_y, &q), distance(k, &a->y, a->op->out[0]),
         place(k, top, to_top, &row), place(k, scale, to_scale, &row), size_bare(k, a->keys));
    block_close(k);
}

/* ---- gradient ---- */
static const char *balanced_memory(Kernel *k, const Attention *a, bool written)
{
    return param_other(k, ARG_SCRATCH, "balanced", text_of(k, written ? "%s *" : "const %s *", a->type), expr_int(k->symbols, 0));
}

/* delta as the first kernel has left it. */
static Code balanced(Kernel *k, const Attention *a, const Index *row)
{
    Affine at = index_flat(k, a->p.delta, row);
    affine_seen(k, &at);
    const Code c = {text_of(k, "%s[%s]", balanced_memory(k, a, false), affine_text(k, &at)), BINDS_ATOM, affine_level(k, &at)};
    return named(k, c, a->type, "delta");
}

/* Scores become probabilities (where those are wanted) and gradients of scores. */
static void gradient_scores(Kernel *k, const Blocks *b)
{
    Attention *a = b->a;
    const char *at;
    const Index index = open_scores(k, b, &at);
    Index row = index;
    row.rank--;
    const Code score = element(k, a->scores, &index);
    const Code top = element(k, a->p.top, &row), scale = element(k, a->p.scale, &row);
    line(k, "const %s p = exponential(%s - %s) * %s;", a->type, wrapped(k, score, BINDS_SUM), wrapped(k, top, BINDS_PRODUCT),
         wrapped(k, scale, BINDS_UNARY));
    const Code delta = b->own_keys ? balanced(k, a, &row) : element(k, a->p.delta, &row);
    line(k, "const %s slope = p * (tile.g%s - %s);", a->type, at, wrapped(k, delta, BINDS_PRODUCT));
    vec_push(k->arena, &k->at_hand, ((__typeof__(*k->at_hand.at)){a->slope, "slope", false, k->depth - 1}));
    const Code d = element(k, a->d, &index);
    line(k, "tile.s%s = %s;", at, b->own_keys ? "p" : "slope");
    line(k, "tile.g%s = %s;", at, d.text);
    close_scores(k);
}

static const char *tile_type(Kernel *k, const Attention *a, bool both)
{
    return text_of(k, "SHARED AttentionGradient<%s, %lld, %lld, %s> tile;", a->type, (long long)a->size, (long long)a->value_size,
                   both ? "true" : "false");
}

static void gradient_q_body(Kernel *k, void *context)
{
    Attention *a = context;
    Blocks b = {.a = a};
    Value *dq = a->op->out[0];
    const char *to = param_result(k, dq, "dq");
    param_called(k, a->p.delta, "delta");
    const int axes = a->batch + a->shared;
    line(k, "%s", tile_type(k, a, false));
    open_own(k, &b, a->queries);
    const Index q = with(k, &b.batch, axes, &b.first, true), row = with(k, &b.batch, axes, &b.first, false);
    line(k, "tile.begin(%s, %s, %s, %s, last - first + 1);", address(k, a, &a->q, &q), distance(k, &a->q, a->p.q),
         address(k, a, &a->dy, &q), distance(k, &a->dy, a->op->in[0]));
    const char *tops = place(k, a->p.top, param_called(k, a->p.top, "top"), &row);
    if (a->skips) open_passes(k, text_of(k, "above_masked(%s, last - first + 1)", tops));
    open_other(k, &b, a->keys);
    if (a->skips) line(k, "if (%s != (emptied != 0)) continue;", emptied(k, &b));
    const Index kv = with(k, &b.batch, a->batch, &b.from, true);
    const char *keys = address(k, a, &a->k, &kv), *values = address(k, a, &a->v, &kv);
    const char *key_row = distance(k, &a->k, a->p.k), *value_row = distance(k, &a->v, a->p.v);
    line(k, "tile.multiply(%s, %s, %s, %s, to - from + 1);", keys, key_row, values, value_row);
    gradient_scores(k, &b);
    line(k, "tile.add(%s, %s, %s, %s, to - from + 1);", keys, key_row, values, value_row);
    block_close(k);
    if (a->skips) block_close(k);
    line(k, "tile.balance(%s, %s, last - first + 1);", place(k, a->p.delta, balanced_memory(k, a, true), &row),
         place(k, a->p.delta, param_called(k, a->p.delta, "delta"), &row));
    line(k, "tile.finish(%s, NULL, last - first + 1);", place(k, dq, to, &q));
    block_close(k);
}

static void gradient_kv_body(Kernel *k, void *context)
{
    Attention *a = context;
    Blocks b = {.a = a, .own_keys = true};
    Value *dk = a->op->out[1], *dv = a->op->out[2];
    const char *to_k = param_result(k, dk, "dk"), *to_v = param_result(k, dv, "dv");
    line(k, "%s", tile_type(k, a, true));
    open_own(k, &b, a->keys);
    const Index kv = with(k, &b.batch, a->batch, &b.first, true);
    line(k, "tile.begin(%s, %s, %s, %s, last - first + 1);", address(k, a, &a->k, &kv), distance(k, &a->k, a->p.k),
         address(k, a, &a->v, &kv), distance(k, &a->v, a->p.v));
    b.batch.rank = a->batch;
    for (int i = 0; i < a->shared; i++) {
        Expr *extent = expr_canonical(k->symbols, a->p.q->shape[a->batch + i]);
        const char *name = i ? text_of(k, "group%d", i) : "group", *size = size_bare(k, extent);
        block_open(k, "for (int64_t %s = 0; %s < %s; %s++)", name, name, size, name);
        b.batch.at[b.batch.rank++] = affine_var(k, loop_var(k, name, extent));
    }
    open_other(k, &b, a->queries);
    const Index q = with(k, &b.batch, b.batch.rank, &b.from, true), row = with(k, &b.batch, b.batch.rank, &b.from, false);
    if (a->skips)
        line(k, "if (%s && above_masked(%s, to - from + 1)) continue;", emptied(k, &b),
             place(k, a->p.top, param_called(k, a->p.top, "top"), &row));
    const char *queries = address(k, a, &a->q, &q), *dys = address(k, a, &a->dy, &q);
    const char *query_row = distance(k, &a->q, a->p.q), *dy_row = distance(k, &a->dy, a->op->in[0]);
    line(k, "tile.multiply(%s, %s, %s, %s, to - from + 1);", queries, query_row, dys, dy_row);
    gradient_scores(k, &b);
    line(k, "tile.add(%s, %s, %s, %s, to - from + 1);", queries, query_row, dys, dy_row);
    for (int i = 0; i <= a->shared; i++) block_close(k);
    line(k, "tile.finish(%s, %s, last - first + 1);", place(k, dk, to_k, &kv), place(k, dv, to_v, &kv));
    block_close(k);
}

/* ---- launches ---- */
/* per_score: multiplications and additions. */
static void add_launch(Emission *e, const Attention *a, Kernel *k, const char *name, bool own_keys, int64_t per_score,
                       int first_result, int results)
{
    Symbols *s = e->all->symbols;
    Expr *own = own_keys ? a->keys : a->queries, *other = own_keys ? a->queries : a->keys;
    Expr *held = expr_product(s, a->p.q->shape, own_keys ? a->batch : a->batch + a->shared);
    Expr *scores = expr_mul(s, expr_product(s, a->p.q->shape, a->batch + a->shared), expr_mul(s, a->queries, a->keys));
    if (own_keys) other = expr_mul(s, other, expr_product(s, a->p.q->shape + a->batch, a->shared));
    Expr *blocks = expr_mul(s, held, expr_ceildiv(s, own, expr_int(s, LEAST_LANES)));
    Expr *each = expr_mul(s, other, expr_int(s, a->size + a->value_size));
    Launch *l = kernel_launch(k, name, blocks, each, THREADS);
    l->flops = expr_mul(s, scores, expr_int(s, per_score));
    l->moved = expr_int(s, 0);
    for (int i = 0; i < a->op->n_in; i++) l->moved = expr_add(s, l->moved, bytes_of(e->all, a->op->in[i]));
    for (int i = 0; i < results; i++) l->moved = expr_add(s, l->moved, bytes_of(e->all, a->op->out[first_result + i]));
    vec_push(e->all->arena, &e->launches, l);
}

static Kernel *written(Emission *e, Attention *a, int axes, void (*body)(Kernel *, void *))
{
    Kernel *k = kernel_new(e->all, e->group);
    kernel_axes(k, a->p.q->shape, NULL, axes);
    kernel_write(k, body, a);
    return k;
}

void emit_attention(Emission *e)
{
    Attention a = attention_of(e);
    const int axes = a.batch + a.shared;
    Kernel *asking = kernel_new(e->all, e->group);
    kernel_axes(asking, a.p.q->shape, NULL, axes);
    kernel_collect(asking, ask, &a);
    const int64_t d = a.size, v = a.value_size;
    if (a.op->kind == OP_attention) {
        add_launch(e, &a, written(e, &a, axes, forward_body), "attention", false, 2 * (d + v), 0, 3);
        return;
    }
    Expr *line = expr_int(e->all->symbols, 256), *bytes = expr_int(e->all->symbols, strcmp(a.type, "double") ? 4 : 8);
    bytes = expr_mul(e->all->symbols, count_of(e->all, a.p.delta), bytes);
    e->scratch = expr_mul(e->all->symbols, expr_ceildiv(e->all->symbols, bytes, line), line);
    add_launch(e, &a, written(e, &a, axes, gradient_q_body), "attention_gradient_q", false, 2 * (2 * d + v), 0, 1);
    add_launch(e, &a, written(e, &a, a.batch, gradient_kv_body), "attention_gradient_kv", true, 4 * (d + v), 1, 2);
}
