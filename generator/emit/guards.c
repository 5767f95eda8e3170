/* What the generated program assumes of a batch, one row an assumption; and how the dims are read off a batch's shapes. */
#include "emit/controller.h"
#include "emit/forms.h"
#include "support/diag.h"
#include <string.h>

typedef struct {
    const Project *project;
    const Layout *l;
    const Bindings *bindings;
    Guards guards;
    Map *names, *seen;
} Watch;

/* ---- bindings ---- */
typedef struct {
    const Layout *l;
    Expr *value; /* stands for the size that is read */
    const char *text;
} Solving;

static const char *solving_name(void *context, const Expr *symbol)
{
    const Solving *s = context;
    if (symbol == s->value) return s->text;
    return arena_text(s->l->arena, "d->%s", s->l->dims.at[s->l->dim_of[symbol_index(symbol)]].c);
}

static const char *size_read(const Layout *l, int input, int axis)
{
    return arena_text(l->arena, "a->input[INPUT_%s].dims[%d]", upper(l->arena, l->inputs.at[input].c), axis);
}

static bool is_late(const Layout *l, int dim)
{
    return symbol_facts(l->symbols, l->dims.at[dim].symbol).late;
}

static void bind_exactly(const Layout *l, Bindings *b, bool *bound)
{
    for (int d = 0; d < l->dims.n; d++)
        for (int i = 0; i < l->inputs.n && !bound[d]; i++)
            for (int k = 0; k < l->inputs.at[i].value->rank && !bound[d]; k++) {
                if (l->inputs.at[i].value->shape[k] != l->dims.at[d].symbol) continue;
                bound[d] = true;
                vec_push(l->arena, &b->list, ((Binding){d, size_read(l, i, k), i, k}));
            }
}

/* One dim more from a size that is an expression over it and dims known already: 2*time + 1 gives time. */
static bool bind_one_more(const Layout *l, Bindings *b, bool *bound, Expr *value)
{
    for (int i = 0; i < l->inputs.n; i++)
        for (int k = 0; k < l->inputs.at[i].value->rank; k++) {
            Expr *e = l->inputs.at[i].value->shape[k], *symbols[64], *solution;
            int n = expr_symbols(l->symbols, e, symbols, 64), unknown = 0;
            for (int j = 0; j < n; j++) unknown += !bound[l->dim_of[symbol_index(symbols[j])]];
            if (unknown != 1) continue;
            Expr *symbol = expr_solve(l->symbols, e, value, &solution);
            if (!symbol || bound[l->dim_of[symbol_index(symbol)]]) continue;
            Solving solving = {l, value, size_read(l, i, k)};
            Buf text = {.arena = l->arena};
            expr_print_c(&text, solution, solving_name, &solving);
            bound[l->dim_of[symbol_index(symbol)]] = true;
            vec_push(l->arena, &b->list, ((Binding){l->dim_of[symbol_index(symbol)], buf_text(&text), -1, -1}));
            return true;
        }
    return false;
}

Bindings bindings_make(const Layout *l)
{
    Bindings b = {0};
    bool *bound = NEW_ARRAY(l->arena, bool, l->dims.n + 1);
    bind_exactly(l, &b, bound);
    Expr *value = expr_fresh(l->symbols, "size");
    while (bind_one_more(l, &b, bound, value)) continue;
    for (int d = 0; d < l->dims.n; d++) { /* until its kernel has run, a late dim is the most it can be */
        if (!is_late(l, d)) continue;
        Expr *most = symbol_facts(l->symbols, l->dims.at[d].symbol).upper;
        vec_push(l->arena, &b.list, ((Binding){d, arena_text(l->arena, "max_int(0, %s)", expr_c(l, most, "d->")), -1, -1}));
    }
    for (int d = 0; d < l->dims.n; d++) { /* unless the planner or the user wants fewer rows in a block */
        const NamedBlock *block = layout_block(l, l->dims.at[d].symbol);
        if (!block) continue;
        const char *rows = expr_c(l, block->rows, "d->"), *bytes = expr_c(l, block->row_bytes, "d->");
        vec_push(l->arena, &b.list, ((Binding){d, arena_text(l->arena, "rows_per_block(%s, %s)", rows, bytes), -1, -1}));
    }
    return b;
}

/* ---- rows ---- */
static void add(Watch *w, const char *name, GuardRow row)
{
    const char *unique = name;
    for (int n = 2; map_has(w->names, unique); n++) unique = arena_text(w->l->arena, "%s_%d", name, n);
    map_set(w->names, unique, w);
    row.name = unique;
    vec_push(w->l->arena, &w->guards.list, row);
}

static void watch_shape(Watch *w, int i)
{
    const Layout *l = w->l;
    Arena *arena = l->arena;
    const Value *v = l->inputs.at[i].value;
    const char *c = l->inputs.at[i].c, *in = arena_text(arena, "a->input[INPUT_%s]", upper(arena, c));
    add(w, arena_text(arena, "%s_rank", c),
        (GuardRow){NULL, "ON_ARRIVAL", "SET_ASIDE", arena_text(arena, "%s.rank == %d", in, v->rank),
                   arena_text(arena, "%s.rank == %d", v->name, v->rank), v->name, "every kernel that reads it", NULL, false, NULL, NULL});
    for (int k = 0; k < v->rank; k++) {
        bool read_here = false;
        for (int b = 0; b < w->bindings->list.n; b++)
            read_here |= w->bindings->list.at[b].input == i && w->bindings->list.at[b].axis == k;
        if (read_here) continue;
        add(w, arena_text(arena, "%s_axis_%d", c, k),
            (GuardRow){NULL, "ON_ARRIVAL", "SET_ASIDE",
                       arena_text(arena, "%s.dims[%d] == %s", in, k, expr_c(l, v->shape[k], "d->")),
                       arena_text(arena, "%s.shape[%d] == %s", v->name, k, expr_text(arena, v->shape[k])), v->name,
                       "shapes that the model makes of it", NULL, false, NULL, NULL});
    }
}

static const char *range_c(Arena *arena, const char *dim, int64_t low, int64_t high)
{
    if (high >= EXPR_UNBOUNDED) return arena_text(arena, "%s >= %lld", dim, (long long)low);
    if (low == high) return arena_text(arena, "%s == %lld", dim, (long long)low);
    return arena_text(arena, "%s >= %lld && %s <= %lld", dim, (long long)low, dim, (long long)high);
}

static void watch_range(Watch *w, int d)
{
    const Layout *l = w->l;
    Arena *arena = l->arena;
    Expr *symbol = l->dims.at[d].symbol;
    const char *c = l->dims.at[d].c, *name = expr_symbol_name(symbol), *member = arena_text(arena, "d->%s", c);
    SymbolFacts f = symbol_facts(l->symbols, symbol);
    if (f.late || layout_block(l, symbol)) return;
    if (f.low > 0 || f.high < EXPR_UNBOUNDED)
        add(w, arena_text(arena, "%s_possible", c),
            (GuardRow){NULL, "ON_ARRIVAL", "SET_ASIDE", range_c(arena, member, f.low, f.high), range_c(arena, name, f.low, f.high),
                       "what the model itself allows", "sizes of its tables and windows", NULL, false, NULL, NULL});
    if (f.declared)
        add(w, arena_text(arena, "%s_range", c),
            (GuardRow){NULL, "ON_ARRIVAL", "PLAN_AGAIN", range_c(arena, member, f.expected_low, f.expected_high),
                       range_c(arena, name, f.expected_low, f.expected_high), arena_text(arena, "--dim %s", name),
                       "plans made beforehand", NULL, false, NULL, NULL});
    if (f.divisor > 1)
        add(w, arena_text(arena, "%s_divisible", c),
            (GuardRow){NULL, "ON_ARRIVAL", "SET_ASIDE", arena_text(arena, "%s %% %lld == 0", member, (long long)f.divisor),
                       arena_text(arena, "%s %% %lld == 0", name, (long long)f.divisor), "what the model itself allows",
                       "shapes that the model makes of it", NULL, false, NULL, NULL});
}

static void watch_not_negative(Watch *w, Expr *e, const char *name, const Op *op, const char *relies)
{
    const Layout *l = w->l;
    Arena *arena = l->arena;
    if (expr_at_least(l->symbols, e, expr_int(l->symbols, 0))) return;
    const char *text = expr_text(arena, e);
    if (map_has(w->seen, text)) return;
    map_set(w->seen, text, w);
    add(w, name,
        (GuardRow){NULL, expr_has_late(e) ? "AT_LATE_DIM" : "ON_ARRIVAL", "SET_ASIDE",
                   arena_text(arena, "%s >= 0", expr_c(l, e, "d->")), arena_text(arena, "%s >= 0", text), op->source, relies,
                   expr_has_late(e) ? e : NULL, false, NULL, NULL});
}

/* Where a slice may end beyond its operand. */
static void watch_slice(Watch *w, const Op *op)
{
    Symbols *s = w->l->symbols;
    Expr *const *start = op_exprs(op, ATTR_start, NULL), *one = expr_int(s, 1);
    const int64_t *step = op_ints(op, ATTR_step, NULL);
    for (int k = 0; k < op->out[0]->rank; k++) {
        Expr *reach = expr_mul(s, expr_sub(s, op->out[0]->shape[k], one), expr_int(s, step[k])),
             *last = expr_add(s, start[k], reach);
        Expr *highest = step[k] > 0 ? last : start[k];
        watch_not_negative(w, expr_sub(s, expr_sub(s, op->in[0]->shape[k], highest), one), "slice_inside", op,
                           "the slice lies within its operand");
    }
}

/* Sizes of which one must be 0 where `size` is less than `least`: then nothing of the result is read from there. */
typedef struct {
    Expr *size, *least;
    VEC(Expr *) or_empty;
} Enough;

/* Whether the sizes tell by themselves; else or_empty has those of the result that may be 0. */
static bool surely_enough(const Watch *w, Enough *e, Expr *const *shape, int rank)
{
    const Layout *l = w->l;
    Expr *zero = expr_int(l->symbols, 0), *one = expr_int(l->symbols, 1);
    if (expr_at_least(l->symbols, e->size, e->least)) return true;
    for (int k = 0; k < rank; k++) {
        if (expr_at_least(l->symbols, shape[k], one)) continue;
        if (expr_at_least(l->symbols, zero, shape[k]) || (expr_is(e->least, 1) && expr_at_least(l->symbols, e->size, shape[k])))
            return true;
        if (!layout_block(l, shape[k])) vec_push(l->arena, &e->or_empty, shape[k]);
    }
    return false;
}

/* What an operation reads an axis for must stand there, unless its result is empty: a place that the model computes lies within
 * an axis only where that has any. */
static void watch_enough(Watch *w, const char *name, const Op *op, Expr *size, Expr *least, const Value *result, const char *relies)
{
    Symbols *s = w->l->symbols;
    Arena *arena = w->l->arena;
    Enough e = {.size = size, .least = least};
    if (surely_enough(w, &e, result->shape, result->rank)) return;
    Expr *least_of_all = expr_sub(s, size, least); /* at least 0 where one of the conditions holds */
    Buf c = {.arena = arena}, formula = {.arena = arena};
    buf_printf(&c, "%s >= %s", expr_c(w->l, size, "d->"), expr_c(w->l, least, "d->"));
    buf_printf(&formula, "%s >= %s", expr_text(arena, size), expr_text(arena, least));
    for (int i = 0; i < e.or_empty.n; i++) {
        buf_printf(&c, " || %s == 0", expr_c(w->l, e.or_empty.at[i], "d->"));
        buf_printf(&formula, " or %s == 0", expr_text(arena, e.or_empty.at[i]));
        least_of_all = expr_max(s, least_of_all, expr_sub(s, expr_int(s, 0), e.or_empty.at[i]));
    }
    if (map_has(w->seen, buf_text(&formula))) return;
    map_set(w->seen, buf_text(&formula), w);
    const bool late = expr_has_late(least_of_all);
    add(w, name,
        (GuardRow){NULL, late ? "AT_LATE_DIM" : "ON_ARRIVAL", "SET_ASIDE", buf_text(&c), buf_text(&formula), op->source, relies,
                   late ? least_of_all : NULL, false, NULL, NULL});
}

static void watch_read(Watch *w, const Op *op)
{
    const Value *x = op->in[0];
    Expr *one = expr_int(w->l->symbols, 1);
    switch (op->kind) {
    case OP_gather:
        watch_enough(w, "some_to_pick", op, x->shape[op_int(op, ATTR_axis)], one, op->out[0], "the axis that it picks from");
        return;
    case OP_arg_max:
    case OP_arg_min:
        watch_enough(w, "some_to_choose", op, x->shape[op_int(op, ATTR_axis)], one, op->out[0], "the axis that it searches");
        return;
    case OP_top_k: {
        const int axis = (int)op_int(op, ATTR_axis);
        watch_enough(w, "as_many_to_choose", op, x->shape[axis], op->out[0]->shape[axis], op->out[0], "the axis that it sorts");
        return;
    }
    case OP_pool_max:
        for (int k = 2; k < x->rank; k++) watch_enough(w, "some_in_window", op, x->shape[k], one, op->out[0], "its windows");
        return;
    default: return;
    }
}

/* Positions that pick rows of a table: as many as the table has, at most. */
static void watch_positions(Watch *w, const Op *op)
{
    const Value *v = op->in[1];
    while (v->def &&
           (v->def->kind == OP_reshape || v->def->kind == OP_broadcast || v->def->kind == OP_transpose ||
            (v->def->kind == OP_cast && cast_keeps_places(v->def))))
        v = v->def->in[0];
    if (!v->def || v->def->kind != OP_iota) return;
    Expr *rows = op->in[0]->shape[op_int(op, ATTR_axis)], *positions = v->shape[op_int(v->def, ATTR_axis)];
    watch_not_negative(w, expr_sub(w->l->symbols, rows, positions), "position_in_table", op, "rows of the table that it picks");
}

static bool in_program(const Layout *l, Expr *e)
{
    Expr *symbols[64];
    const int n = expr_symbols(l->symbols, e, symbols, 64);
    for (int k = 0; k < n && k < 64; k++)
        if (l->dim_of[symbol_index(symbols[k])] < 0) return false;
    return n <= 64;
}

/* Two sizes that an operation wants equal, where neither is a size of an input: (query*heads)//4 == value//4. */
static void watch_equal(Watch *w)
{
    const Layout *l = w->l;
    Arena *arena = l->arena;
    Expr *const *zeros;
    int n = symbols_zeros(l->symbols, &zeros);
    for (int i = 0; i < n; i++) {
        Expr *zero = expr_canonical(l->symbols, zeros[i]);
        const char *text = expr_text(arena, zero);
        if (expr_is(zero, 0) || !in_program(l, zero) || map_has(w->seen, text)) continue;
        map_set(w->seen, text, w);
        add(w, "sizes_equal",
            (GuardRow){NULL, expr_has_late(zero) ? "AT_LATE_DIM" : "ON_ARRIVAL", "SET_ASIDE",
                       arena_text(arena, "%s == 0", expr_c(l, zero, "d->")), arena_text(arena, "%s == 0", text), "the model",
                       "operations whose operands have one size", expr_has_late(zero) ? zero : NULL, true, NULL, NULL});
    }
}

/* ---- content ---- */
static const char *grouped(Arena *arena, const char *text)
{
    return strpbrk(text, " +-") ? arena_text(arena, "(%s)", text) : text;
}

const IndexRange *range_that_ignores(const Value *v)
{
    for (int i = 0; i < v->ranges.n; i++)
        if (v->ranges.at[i].has_ignore) return &v->ranges.at[i];
    return NULL;
}

/* What an arrival tells of integers leaves the ignored number out: where that is no number of this range, none may be it. */
static const char *nothing_ignored(const Watch *w, const Graph *g, int i, const Value *v, const IndexRange *range)
{
    Symbols *s = w->l->symbols;
    const IndexRange *other = range_that_ignores(v);
    if (!other || range->has_ignore) return "";
    if (other->ignore >= 0 && expr_at_least(s, range->n, expr_int(s, other->ignore + 1))) return "";
    if (other->ignore < 0 && range->from_end && expr_at_least(s, range->n, expr_int(s, -other->ignore))) return "";
    Arena *arena = w->l->arena;
    return arena_text(arena, " && a->input[INPUT_%s].counted == %s", upper(arena, w->l->inputs.at[i].c),
                      expr_c(w->l, value_count(g, v), "d->"));
}

static void watch_index_range(Watch *w, const Graph *g, const Value *v, const IndexRange *range)
{
    const Layout *l = w->l;
    Arena *arena = l->arena;
    const int i = layout_find(l->input_of, v->name);
    Expr *size = expr_canonical(l->symbols, range->n);
    if (!in_program(l, size)) return; /* then nothing that is left relies on it */
    const char *in = arena_text(arena, "a->input[INPUT_%s]", upper(arena, l->inputs.at[i].c)), *n = expr_c(l, size, "d->"),
               *text = expr_text(arena, size), *low = "0", *low_text = "0";
    if (range->from_end) low = arena_text(arena, "-%s", grouped(arena, n)), low_text = arena_text(arena, "-%s", grouped(arena, text));
    Buf c = {.arena = arena}, formula = {.arena = arena};
    buf_printf(&c, "%s.lowest >= %s && %s.highest < %s%s", in, low, in, n, nothing_ignored(w, g, i, v, range));
    buf_printf(&formula, "%s <= %s < %s", low_text, v->name, text);
    if (range->has_ignore) buf_printf(&formula, ", or %s == %lld", v->name, (long long)range->ignore);
    const char *key = arena_text(arena, "index %s", buf_text(&formula));
    if (map_has(w->seen, key)) return;
    map_set(w->seen, key, w);
    add(w, arena_text(arena, "%s_in_%s", l->inputs.at[i].c, range->labels ? "row" : "table"),
        (GuardRow){NULL, "ON_CONTENT", "SET_ASIDE",
                   range->has_ignore ? arena_text(arena, "%s.counted == 0 || (%s)", in, buf_text(&c)) : buf_text(&c), buf_text(&formula),
                   range->source, range->labels ? "the loss" : "rows of the table that it picks", NULL, false, NULL, NULL});
}

/* Of integers that pick rows, or are labels. */
static void watch_index_ranges(Watch *w, const Graph *g, bool labels)
{
    for (int k = 0; k < g->inputs.n; k++) {
        const Value *v = g->inputs.at[k];
        if (v->origin != FROM_BATCH || v->users.n == 0) continue;
        for (int r = 0; r < v->ranges.n; r++)
            if (v->ranges.at[r].labels == labels) watch_index_range(w, g, v, &v->ranges.at[r]);
    }
}

/* What an operation finds may have to be as many as something else has: then no late dim stands for it. */
static void watch_count(Watch *w, const Op *op)
{
    const Layout *l = w->l;
    Expr *size = op->out[0]->shape[op->out[0]->rank - 1];
    if (expr_is_symbol(size) && symbol_facts(l->symbols, size).late) return;
    const char *text = expr_text(l->arena, size), *key = arena_text(l->arena, "count %s %s", op->source, text);
    if (map_has(w->seen, key)) return;
    map_set(w->seen, key, w);
    add(w, "found_as_many",
        (GuardRow){NULL, "AT_LATE_DIM", "SET_ASIDE", "true /* judged in the step: the number is no dim */",
                   arena_text(l->arena, "what %s finds is %s", op->source, text), op->source, "operations whose operands have one size", size,
                   true, op->source, NULL});
}

/* ---- divisors ---- */
typedef struct {
    Watch *w;
    const Op *op;
} Dividing;

static void watch_divisor(void *context, Expr *divisor)
{
    const Dividing *at = context;
    Symbols *s = at->w->l->symbols;
    Arena *arena = at->w->l->arena;
    Expr *zero = expr_int(s, 0), *one = expr_int(s, 1);
    if (expr_never_equal(s, divisor, zero) || expr_at_least(s, divisor, one)) return;
    const char *text = expr_text(arena, divisor), *key = arena_text(arena, "divisor %s", text);
    if (map_has(at->w->seen, key)) return;
    map_set(at->w->seen, key, at->w);
    Expr *size = expr_at_least(s, divisor, zero) ? divisor : expr_max(s, divisor, expr_sub(s, zero, divisor));
    const bool late = expr_has_late(divisor);
    add(at->w, "divisor_not_zero",
        (GuardRow){NULL, late ? "AT_LATE_DIM" : "ON_ARRIVAL", "SET_ASIDE", arena_text(arena, "%s != 0", expr_c(at->w->l, divisor, "d->")),
                   arena_text(arena, "%s != 0", text), at->op->source, "sizes that are quotients by it",
                   late ? expr_sub(s, size, one) : NULL, false, NULL, NULL});
}

/* Sizes that the model divides by: x as (time//2, -1). */
static void watch_divisors(Watch *w, const Graph *g)
{
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        Dividing at = {w, op};
        for (int i = 0; i < op->n_out; i++)
            for (int k = 0; k < op->out[i]->rank; k++) expr_divisors(op->out[i]->shape[k], watch_divisor, &at);
        for (int a = 0; a < op->n_attrs; a++)
            for (int k = 0; attr_kind(op->attrs[a].key) == ATTR_EXPRS && k < op->attrs[a].n; k++)
                expr_divisors(op->attrs[a].exprs[k], watch_divisor, &at);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) watch_divisors(w, op->body[b]);
    }
}

static void watch_graph(Watch *w, const Graph *g)
{
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        for (int i = 0; i < op->n_out; i++)
            for (int k = 0; k < op->out[i]->rank; k++)
                watch_not_negative(w, op->out[i]->shape[k], "size_not_negative", op, "the size of its result");
        if (op->kind == OP_slice) watch_slice(w, op);
        watch_read(w, op);
        if (op->kind == OP_nonzero || op->kind == OP_unique) watch_count(w, op);
        if (op->kind == OP_gather) watch_positions(w, op);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) watch_graph(w, op->body[b]);
    }
}

static void watch_target(Watch *w)
{
    const LossInfo *loss = &w->project->loss;
    const Layout *l = w->l;
    Arena *arena = l->arena;
    if (!loss->target) return;
    int i = layout_find(l->input_of, loss->target->name);
    if (i < 0 || dtype_is_float(loss->target->dtype)) return;
    add(w, "some_target",
        (GuardRow){NULL, "ON_CONTENT", "SET_ASIDE",
                   arena_text(arena, "a->input[INPUT_%s].counted > 0", upper(arena, l->inputs.at[i].c)),
                   arena_text(arena, "%s holds a label that counts", loss->target->name), loss->text, "the mean of the loss", NULL, false,
                   NULL, NULL});
}

static void watch_floats(Watch *w, int i)
{
    const Layout *l = w->l;
    const Value *v = l->inputs.at[i].value;
    if (!dtype_is_float(v->dtype)) return;
    add(w, arena_text(l->arena, "%s_finite", l->inputs.at[i].c),
        (GuardRow){NULL, "ON_CONTENT", "SET_ASIDE",
                   arena_text(l->arena, "!a->input[INPUT_%s].not_finite", upper(l->arena, l->inputs.at[i].c)),
                   arena_text(l->arena, "%s is finite", v->name), v->name, "every sum over it", NULL, false, NULL, NULL});
}

/* ---- forms of kernels ---- */
static void watch_indices(Watch *w, const Program *p)
{
    const Layout *l = w->l;
    Arena *arena = l->arena;
    Expr *const *reach;
    const int n = program_reach(l, p, &reach);
    Buf c = {.arena = arena}, formula = {.arena = arena};
    for (int i = 0; i < n; i++) {
        buf_printf(&c, "%s%s <= INDEX_LIMIT", i ? " && " : "", expr_c(l, reach[i], "d->"));
        buf_printf(&formula, "%s%s <= INDEX_LIMIT", i ? ", " : "", expr_text(arena, reach[i]));
    }
    if (n)
        add(w, arena_text(arena, "%s_indices", p->name),
            (GuardRow){NULL, "ON_ARRIVAL", "WIDE_INDICES", buf_text(&c), buf_text(&formula), "sizes of the model's tensors",
                       "kernels with 32-bit indices", NULL, false, NULL, p});
}

static void watch_fours(Watch *w, Program *const *programs, int n)
{
    const Layout *l = w->l;
    Arena *arena = l->arena;
    FoursForms forms = {0};
    for (int p = 0; p < n; p++) program_fours(l, programs[p], &forms);
    for (int f = 0; f < forms.list.n; f++) {
        const FoursForm *form = &forms.list.at[f];
        const Launch *launch = form->first;
        Expr *e = launch->fours_if.at[0];
        const char *name = expr_is_symbol(e) ? l->dims.at[l->dim_of[symbol_index(e)]].c : "sizes";
        Buf relies = {.arena = arena}, formula = {.arena = arena};
        buf_put(&relies, "reads and writes of four elements at a time in ");
        for (int i = 0; i < form->kernels.n; i++) buf_printf(&relies, "%s%s", i ? ", " : "", form->kernels.at[i]);
        for (int i = 0; i < launch->fours_if.n; i++) {
            const char *text = expr_text(arena, launch->fours_if.at[i]);
            buf_printf(&formula, strpbrk(text, " +-*/") ? "%s(%s) %% 4 == 0" : "%s%s %% 4 == 0", i ? ", " : "", text);
        }
        add(w, arena_text(arena, "%s_in_fours", name),
            (GuardRow){NULL, "ON_ARRIVAL", "SINGLE_ELEMENTS", fours_condition(l, launch->fours_if.at, launch->fours_if.n, "d->"),
                       buf_text(&formula), "sizes of the model's tensors", buf_text(&relies), NULL, false, NULL, NULL});
    }
}

Guards guards_make(const Project *project, const Layout *layout, const Bindings *bindings, Program *const *programs, int n)
{
    if (layout->guards && layout->guards->programs == n) return *layout->guards;
    Watch w = {
        .guards = {.programs = n},
        .project = project, .l = layout, .bindings = bindings, .names = map_new(layout->arena), .seen = map_new(layout->arena)};
    for (int i = 0; i < layout->inputs.n; i++) watch_shape(&w, i);
    for (int d = 0; d < layout->dims.n; d++) watch_range(&w, d);
    for (int p = 0; p < n; p++) watch_divisors(&w, programs[p]->graph);
    for (int p = 0; p < n; p++) watch_graph(&w, programs[p]->graph);
    for (int p = 0; p < n; p++) watch_index_ranges(&w, programs[p]->graph, false);
    watch_equal(&w);
    for (int p = 0; p < n; p++) watch_indices(&w, programs[p]);
    watch_fours(&w, programs, n);
    for (int i = 0; project->train && i < layout->inputs.n; i++) watch_floats(&w, i);
    for (int p = 0; p < n; p++) watch_index_ranges(&w, programs[p]->graph, true);
    if (project->train) {
        watch_target(&w);
        add(&w, "finite_loss",
            (GuardRow){NULL, "AT_COMMIT", "SET_ASIDE", "a->loss_is_finite", "the loss is finite",
                       project->loss.text ? project->loss.text : "the loss", "every update", NULL, false, NULL, NULL});
        add(&w, "finite_update",
            (GuardRow){NULL, "AT_END", "KEEP_ELEMENTS", "a->update_is_finite", "what each element of a weight and of its moments becomes is finite",
                       "gradients", "every step that follows", NULL, false, NULL, NULL});
    }
    return w.guards;
}
