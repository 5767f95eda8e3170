/* Chains of row-wise operations around values that are wide run over blocks of rows, so that what is wide never stands whole.
 *
 *     %3: f32[batch*seq, 50257] = dot %1, %2                      %9, %8 = blocks %1, %labels, %2 {
 *     %4: f32[batch*seq] = … log_softmax, at the label      ->      logits, loss, their gradient for a block of rows
 *     %5: f32[batch*seq, 50257] = … its gradient                    %9 += dot gradient', rows of %1
 *     %6: f32[batch*seq, 768] = dot %5, %2                          rows of %8 = dot gradient, %2
 *     %7: f32[50257, 768] = dot %5', %1                           }
 *
 * The seed is a dot whose result is much wider than its rows.  The set is all that reads what is wide, up to what has few numbers a
 * row (the gradient of the dot's rows, the loss of each) or adds up over rows (the gradient of a weight), and what lies between such
 * operations.  It is refused where a reader takes rows apart, where what is wide is an output, or where something inside waits for
 * something outside that waits for the set: a block could not be finished before the next.  No operation is done twice but for
 * cheap ones whose results others read too.
 *
 * A product over rows that reads what the set reads anyway joins it: the gradient of the weight behind an activation, which is then made
 * again beside its own gradient.
 *
 * Lean, products are done again inside, too: the backward pass of an MLP then makes its wide rows from narrow ones, block by block,
 * and so does the forward pass, which need not keep them.
 *
 * Needs: simplified graph.  Breaks: nothing.  Linear in the operations behind each candidate.
 * After Liger's fused linear cross entropy (arXiv 2410.10989), here for any chain of that form. */
#include "passes/row_blocks.h"
#include "support/diag.h"

static const int64_t SMALLEST = 4 << 20; /* bytes: what is certainly smaller may stand whole */

/* ---- what is wide ---- */
static int64_t elements_of_row(const RowSet *set, const Value *v, int kept)
{
    Symbols *s = set->g->symbols;
    return expr_likely(s, expr_product(s, v->shape + kept, v->rank - kept));
}

static bool is_wide(const RowSet *set, const Value *v, int kept)
{
    return elements_of_row(set, v, kept) * 2 > set->wide;
}

/* Twice as wide as the rows that it is made of, and perhaps large. */
static bool may_seed(RowSet *set, Op *op)
{
    Symbols *s = set->g->symbols;
    if (op->kind != OP_dot || op->out[0]->rank != 2 || op_int(op, ATTR_trans_a)) return false;
    int64_t low, high;
    expr_bounds(s, value_bytes(set->g, op->out[0]), &low, &high);
    set->seed = op;
    set->rows = expr_canonical(s, op->out[0]->shape[0]);
    set->wide = expr_likely(s, op->out[0]->shape[1]);
    return set->wide >= 2 * expr_likely(s, op->in[0]->shape[1]) && high > SMALLEST;
}

static bool refuse(RowSet *set, const Op *op, const char *why)
{
    Buf text = {.arena = set->g->arena};
    if (op)
        buf_printf(&text, "%s%s \"%s\" %s", *op->role ? op->role : op_info(op->kind)->name, *op->role ? "'s" : "", op->source, why);
    else
        buf_put(&text, why);
    set->why = buf_text(&text);
    return false;
}

/* ---- growing ---- */
static bool agrees(const RowSet *set, const Op *op, const int *roles)
{
    for (int i = 0; i < op->n_in; i++)
        if (set->kept[op->in[i]->id] && roles[i] != set->kept[op->in[i]->id]) return false;
    return true;
}

/* A narrow product is where a chain ends: what reads it is the next layer. */
static bool ends_chain(const RowSet *set, const Value *v)
{
    return v->def && op_info(v->def->kind)->class == DOT && !is_wide(set, v, set->kept[v->id]);
}

/* The first operand that the set makes and that leads on; -1. */
static int operand_inside(const RowSet *set, const Op *op, bool *wide)
{
    int first = -1;
    *wide = false;
    for (int i = 0; i < op->n_in; i++) {
        const int kept = set->kept[op->in[i]->id];
        if (!kept || ends_chain(set, op->in[i])) continue;
        if (first < 0) first = i;
        *wide = *wide || is_wide(set, op->in[i], kept);
    }
    return first;
}

static bool grow(RowSet *set, Op *op)
{
    int roles[ROW_OPERANDS_MAX] = {0};
    bool wide;
    const int i = operand_inside(set, op, &wide);
    if (i < 0) return true;
    const int before = set->kept[op->in[i]->id], kept = op->n_in <= ROW_OPERANDS_MAX ? row_axes_after(set, op, i, before) : 0;
    if (kept && row_roles(set, op, kept, roles) && agrees(set, op, roles)) {
        set->members[op->id] = ROW_WISE;
        set->kept[op->out[0]->id] = kept;
    } else if (wide) {
        if (op->n_in > ROW_OPERANDS_MAX || !row_sum_roles(set, op, i, before, roles) || !agrees(set, op, roles))
            return refuse(set, op, "reads what is wide and is not done row by row");
        set->members[op->id] = ROW_SUM;
    }
    return true;
}

/* From the last to the first: what reads something narrow is of the set only where something wide comes of it. */
static void drop_tails(RowSet *set, int first)
{
    const Graph *g = set->g;
    for (int o = g->ops.n - 1; o > first; o--) {
        const Op *op = g->ops.at[o];
        bool wide, wanted = false;
        if (set->members[op->id] != ROW_WISE) continue;
        operand_inside(set, op, &wide);
        const Value *v = op->out[0];
        wanted = wide || is_wide(set, v, set->kept[v->id]);
        for (int u = 0; u < v->users.n && !wanted; u++) wanted = set->members[v->users.at[u]->id] != OUTSIDE;
        if (wanted) continue;
        set->members[op->id] = OUTSIDE;
        set->kept[v->id] = 0;
    }
}

/* ---- what is made again inside ---- */
/* Some reader stays outside, or is done there too. */
static bool read_outside(const RowSet *set, const uint8_t *twice, const Value *v)
{
    for (int u = 0; u < v->users.n; u++)
        if (set->members[v->users.at[u]->id] == OUTSIDE || twice[v->users.at[u]->id]) return true;
    return graph_is_output(set->g, v);
}

static bool is_cheap(const Op *op)
{
    const OpClass class = op_info(op->kind)->class;
    return class == ELEMENTWISE || class == SOURCE || class == REDUCE || op->kind == OP_broadcast || op->kind == OP_reshape;
}

static bool roles_of(const RowSet *set, const Op *op, int *roles)
{
    if (set->members[op->id] != ROW_SUM) return row_roles(set, op, set->kept[op->out[0]->id], roles);
    return row_sum_roles(set, op, 0, op->kind == OP_dot ? 1 : set->kept[op->in[0]->id], roles);
}

/* Whether v's rows can be made inside at little cost: of rows that enter the loop anyway, by cheap operations. */
static bool is_made_of_rows(const RowSet *set, const uint8_t *enters, const Value *v, int kept, int depth)
{
    int roles[ROW_OPERANDS_MAX] = {0};
    if (set->kept[v->id] || enters[v->id]) return true;
    if (!v->def || !depth || !is_cheap(v->def) || !row_roles(set, v->def, kept, roles)) return false;
    for (int i = 0; i < v->def->n_in; i++)
        if (roles[i] > 0 && !is_made_of_rows(set, enters, v->def->in[i], roles[i], depth - 1)) return false;
    return true;
}

/* Rows that enter the loop, through cheap operations too. */
static void enter(const RowSet *set, uint8_t *enters, const Value *v, int kept, int depth)
{
    int roles[ROW_OPERANDS_MAX] = {0};
    if (set->kept[v->id] || enters[v->id]) return;
    enters[v->id] = 1;
    if (!v->def || !depth || !is_wide(set, v, kept) || !is_cheap(v->def) || !row_roles(set, v->def, kept, roles)) return;
    for (int i = 0; i < v->def->n_in; i++)
        if (roles[i] > 0) enter(set, enters, v->def->in[i], roles[i], depth - 1);
}

/* A product over rows of what enters the loop anyway joins it, though it reads nothing of the set: the gradient of the weight behind
 * an activation, which then need not stand whole to be multiplied.  Where rows are few, weights are larger than what is saved. */
static void join_sums(RowSet *set)
{
    enum { DEPTH = 24 };
    const Graph *g = set->g;
    Symbols *s = g->symbols;
    uint8_t *enters = NEW_ARRAY(set->scratch, uint8_t, g->next_value + 1);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        int roles[ROW_OPERANDS_MAX] = {0};
        if (set->members[op->id] == OUTSIDE || !roles_of(set, op, roles)) continue;
        for (int i = 0; i < op->n_in; i++)
            if (roles[i] > 0) enter(set, enters, op->in[i], roles[i], DEPTH);
    }
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        int roles[ROW_OPERANDS_MAX] = {0};
        if (op->kind != OP_dot || set->members[op->id] != OUTSIDE || !row_sum_roles(set, op, 0, 1, roles)) continue;
        if (!expr_always_equal(s, op->in[0]->shape[0], set->rows)) continue;
        const int wide = is_wide(set, op->in[0], 1) ? 0 : 1;
        const Value *narrow = op->in[1 - wide];
        if (!is_wide(set, op->in[wide], 1) || !enters[narrow->id] || set->kept[narrow->id]) continue;
        if (2 * expr_likely(s, set->rows) < expr_likely(s, narrow->shape[1])) continue;
        if (is_made_of_rows(set, enters, op->in[wide], 1, DEPTH)) set->members[op->id] = ROW_SUM;
    }
}

/* One number a row, made of such numbers: it comes inside where nobody outside reads it, so that it never lies in memory. */
static bool is_number_of_row(const RowSet *set, const Value *v, int kept)
{
    if (!v->def || elements_of_row(set, v, kept) != 1) return false;
    return op_info(v->def->kind)->class == ELEMENTWISE || v->def->kind == OP_broadcast || v->def->kind == OP_reshape;
}

/* Reads nothing but the batch: labels, which the set reads too. */
static bool is_made_of_batch(const Op *op)
{
    if (op_info(op->kind)->class != ELEMENTWISE) return true; /* a view, a number for all rows */
    for (int i = 0; i < op->n_in; i++) {
        const Value *v = op->in[i];
        while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape)) v = v->def->in[0];
        if (v->origin != FROM_BATCH && v->rank) return false;
    }
    return true;
}

/* Wide, or made of what is, or no more than a few instructions. */
static bool is_worth_bringing(const RowSet *set, const Value *v, int kept)
{
    if (is_wide(set, v, kept) || is_number_of_row(set, v, kept)) return true;
    return v->def && op_info(v->def->kind)->class == REDUCE && is_wide(set, v->def->in[0], kept);
}

/* A wide operand that others make, or a number of each row, comes inside where it is made row by row too, and is cheap or read by nobody else.  From the last
 * to the first, so that all readers of a value have been seen. */
static bool bring_inside(RowSet *set)
{
    const Graph *g = set->g;
    uint8_t *twice = NEW_ARRAY(set->scratch, uint8_t, g->next_op + 1); /* by op->id: done inside and outside */
    int *wanted = NEW_ARRAY(set->scratch, int, g->next_value + 1);     /* by value id: inside, with so many axes of rows */
    for (int o = g->ops.n - 1; o >= 0; o--) {
        const Op *op = g->ops.at[o];
        int roles[ROW_OPERANDS_MAX] = {0};
        if (set->members[op->id] == OUTSIDE) {
            const int kept = op->n_out == 1 ? wanted[op->out[0]->id] : 0;
            if (!kept || !row_roles(set, op, kept, roles)) continue;
            twice[op->id] = read_outside(set, twice, op->out[0]);
            if (twice[op->id] && !is_cheap(op) && !(set->lean && op->kind == OP_dot)) continue;
            if (twice[op->id] && is_number_of_row(set, op->out[0], kept) && !is_made_of_batch(op)) continue;
            set->again += twice[op->id] && op->kind == OP_dot;
            set->members[op->id] = ROW_AGAIN;
            set->kept[op->out[0]->id] = kept;
        } else if (!roles_of(set, op, roles)) {
            return refuse(set, op, "has rows in two ways");
        }
        for (int i = 0; i < op->n_in; i++) {
            const Value *v = op->in[i];
            const int before = set->kept[v->id] ? set->kept[v->id] : wanted[v->id];
            if (roles[i] <= 0 || !is_worth_bringing(set, v, roles[i])) continue;
            if (before && before != roles[i]) return refuse(set, op, "has rows in two ways");
            wanted[v->id] = roles[i];
        }
    }
    return true;
}

/* ---- whether it can run at once ---- */
/* What is given out of a row must be less than what is wide. */
static bool outputs_narrow(RowSet *set)
{
    const Graph *g = set->g;
    int64_t given = 0;
    const uint8_t *twice = NEW_ARRAY(set->scratch, uint8_t, g->next_op + 1);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        if (set->members[op->id] != ROW_WISE || !read_outside(set, twice, op->out[0])) continue;
        if (is_wide(set, op->out[0], set->kept[op->out[0]->id])) return refuse(set, op, "is an output, so it stands whole");
        given += elements_of_row(set, op->out[0], set->kept[op->out[0]->id]);
    }
    return given < set->wide || refuse(set, NULL, "as much comes out as would stand whole");
}

/* Nothing that the set reads may wait for what it makes. */
static bool is_closed(RowSet *set)
{
    const Graph *g = set->g;
    uint8_t *waits = NEW_ARRAY(set->scratch, uint8_t, g->next_value + 1);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        const Membership member = set->members[op->id];
        bool any = member == ROW_WISE || member == ROW_SUM;
        for (int i = 0; i < op->n_in; i++) {
            if (!set->kept[op->in[i]->id] && waits[op->in[i]->id] && member != OUTSIDE)
                return refuse(set, op->in[i]->def, "waits for all rows, and the gradient of each waits for it");
            any = any || waits[op->in[i]->id];
        }
        for (int k = 0; k < op->n_out; k++) waits[op->out[k]->id] = any;
    }
    return true;
}

/* Values set by the trainer lie nowhere. */
static bool operands_lie_somewhere(RowSet *set)
{
    const Graph *g = set->g;
    for (int o = 0; o < g->ops.n; o++)
        for (int i = 0; set->members[g->ops.at[o]->id] != OUTSIDE && i < g->ops.at[o]->n_in; i++)
            if (g->ops.at[o]->in[i]->origin == FROM_HYPER) return refuse(set, g->ops.at[o], "reads a setting of the trainer");
    return true;
}

static bool find_set(RowSet *set, int seed)
{
    Graph *g = set->g;
    set->kept = NEW_ARRAY(set->scratch, int, g->next_value + 1);
    set->members = NEW_ARRAY(set->scratch, uint8_t, g->next_op + 1);
    set->members[set->seed->id] = ROW_WISE;
    set->kept[set->seed->out[0]->id] = 1;
    for (int o = seed + 1; o < g->ops.n; o++)
        if (!grow(set, g->ops.at[o])) return false;
    drop_tails(set, seed);
    join_sums(set);
    return bring_inside(set) && outputs_narrow(set) && operands_lie_somewhere(set) && is_closed(set);
}

/* ---- the pass ---- */
static void tell(const RowSet *set, Buf *report, const Op *loop)
{
    const Op *op = set->seed;
    if (!report) return;
    buf_printf(report, "# dot \"%s\", %s[%s, %s]: ", op->source, dtype_name(op->out[0]->dtype),
               expr_text(set->g->arena, op->out[0]->shape[0]), expr_text(set->g->arena, op->out[0]->shape[1]));
    if (!loop) {
        buf_printf(report, "whole: %s\n", set->why);
        return;
    }
    int again = 0;
    for (int o = 0; o < set->g->next_op; o++) again += set->members[o] == ROW_AGAIN;
    buf_printf(report, "in blocks of rows, %d operations", loop->body[0]->ops.n);
    if (again) buf_printf(report, ", %d of them brought inside", again);
    buf_put(report, "\n");
}

static int place_of(const Graph *g, const Op *op)
{
    for (int o = 0; o < g->ops.n; o++)
        if (g->ops.at[o] == op) return o;
    return -1;
}

/* What a set takes inside may be all that stood in the way of another: rounds, until none is found. */
int pass_row_blocks(Graph *g, bool lean, Buf *report)
{
    enum { ROUNDS = 3 };
    Arena *scratch = arena_child(g->arena);
    int again = 0;
    for (int round = 0, found = 1; round < ROUNDS && found; round++) {
        Ops seeds = {0};
        Buf told = {.arena = g->arena};
        found = 0;
        for (int o = 0; o < g->ops.n; o++) {
            RowSet set = {.g = g};
            if (may_seed(&set, g->ops.at[o])) vec_push(g->arena, &seeds, g->ops.at[o]);
        }
        for (int i = 0; i < seeds.n; i++) {
            const int at = place_of(g, seeds.at[i]);
            RowSet set = {.g = g, .scratch = scratch, .lean = lean};
            if (at < 0 || !may_seed(&set, seeds.at[i])) continue; /* of another's set */
            Op *loop = find_set(&set, at) ? row_blocks_build(&set) : NULL;
            if (report) tell(&set, loop ? report : &told, loop);
            found += loop != NULL;
            again += loop ? set.again : 0;
            arena_reset(scratch);
        }
        if (report && (!found || round == ROUNDS - 1)) buf_put(report, buf_text(&told));
    }
    return again;
}
