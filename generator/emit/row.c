/* Row kernels: reductions over the last axes with what surrounds them, a row at a time (softmax, norms, log-softmax with its loss,
 * their gradients).
 *
 *     FOR_ROWS (row, n) {
 *         REDUCES(maximum, s) FOR_THREADS (j, 4096) …    loop 0: what needs no reduction, and the reductions of that
 *         REDUCES(+, s2) FOR_THREADS (j, 4096) …         loop 1: what needs the reductions of loop 0
 *         FOR_LANES (j, 4096) y[at + j] = …              the last loop: results that need them all
 *     }
 *
 * A row that was read once is near the processor when a later loop reads it again.  What is dear to compute again (exp, tanh, a
 * quotient) and needed by a later loop is read again from where it was put: its own place where it is a result, otherwise the place
 * of a result that is written later.  A thread reads and writes its own elements only, so no barrier is needed but those of the
 * reductions. */
#include "emit/kernel.h"
#include <string.h>

enum { MAX_CELLS = 512 };

typedef struct {
    Value *value;
    int loop;                    /* in which it can be computed first */
    bool reduced, output, whole; /* a reduction; a result; of the rows' shape, and not made of what is cheap alone */
    Value *place;                /* result in whose memory it lies from `loop` on */
    int until;                   /* …up to this loop */
    const char *name;            /* of a reduction's variable, while the kernel is written */
} Cell;

typedef struct {
    const Group *group;
    Cell cell[MAX_CELLS];
    int n, loops; /* loops: of the last one + 1 */
} RowPlan;

/* ---- what is computed in which loop ---- */
static Cell *cell_of(RowPlan *p, const Value *v)
{
    for (int i = 0; i < p->n; i++)
        if (p->cell[i].value == v) return &p->cell[i];
    return NULL;
}

static bool dear(const Op *op)
{
    if (op_info(op->kind)->class != ELEMENTWISE) return op->kind == OP_random;
    switch (op->kind) {
    case OP_neg:
    case OP_abs:
    case OP_sign:
    case OP_relu:
    case OP_not:
    case OP_cast:
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_max:
    case OP_min:
    case OP_eq:
    case OP_lt:
    case OP_le:
    case OP_and:
    case OP_or:
    case OP_xor:
    case OP_select: return false;
    default: return true;
    }
}

/* Whether loop t computes v, or reads it, on the way to what it is for. */
static bool reaches(RowPlan *p, const Value *from, const Value *v, int t, uint8_t *seen)
{
    if (from == v) return true;
    Cell *c = cell_of(p, from);
    if (!c || seen[c - p->cell]) return false;
    seen[c - p->cell] = 1;
    if (c->reduced && c->loop <= t) return false; /* known by then */
    if (c->place && c->loop < t && t <= c->until) return false;
    for (int i = 0; i < from->def->n_in; i++)
        if (reaches(p, from->def->in[i], v, t, seen)) return true;
    return false;
}

static bool loop_reads(RowPlan *p, const Value *v, int t)
{
    uint8_t seen[MAX_CELLS] = {0};
    for (int i = 0; i < p->n; i++) {
        const Cell *c = &p->cell[i];
        if (c->reduced && c->loop == t + 1 && reaches(p, c->value->def->in[0], v, t, seen)) return true;
        if (!c->reduced && c->output && (c->whole ? c->loop == t : t == p->loops) && reaches(p, c->value, v, t, seen)) return true;
    }
    return false;
}

static int last_loop_reading(RowPlan *p, const Value *v)
{
    for (int t = p->loops; t >= 0; t--)
        if (loop_reads(p, v, t)) return t;
    return -1;
}

/* A result that is written later, in whose memory v may wait. */
static void borrow_place(RowPlan *p, Cell *c)
{
    for (int i = 0; i < p->n; i++) {
        const Cell *to = &p->cell[i];
        bool taken = !to->output || !to->whole || to->loop <= c->loop || to->value->dtype != c->value->dtype;
        for (int j = 0; j < p->n && !taken; j++) taken = p->cell[j].place == to->value && &p->cell[j] != to;
        if (taken) continue;
        c->place = to->value;
        c->until = to->loop;
        return;
    }
}

static RowPlan *plan_rows(Arena *arena, const Group *group)
{
    RowPlan *p = NEW(arena, RowPlan);
    p->group = group;
    check(group->ops.n <= MAX_CELLS);
    for (int o = 0; o < group->ops.n; o++) {
        const Op *op = group->ops.at[o];
        Cell *c = &p->cell[p->n];
        *c = (Cell){.value = op->out[0], .reduced = op_info(op->kind)->class == REDUCE};
        for (int i = 0; i < op->n_in; i++) {
            const Cell *from = cell_of(p, op->in[i]);
            if (from && from->loop > c->loop) c->loop = from->loop;
        }
        c->loop += c->reduced;
        c->output = values_hold(&group->out, op->out[0]);
        c->whole = values_hold(&group->whole, op->out[0]);
        if (c->loop > p->loops) p->loops = c->loop;
        p->n++;
    }
    for (int i = p->n - 1; i >= 0; i--) { /* from results to operands: what has a place hides what lies before it */
        Cell *c = &p->cell[i];
        if (!c->whole) continue;
        if (c->output) {
            c->place = c->value;
            c->until = p->loops;
        } else if (dear(c->value->def) && last_loop_reading(p, c->value) > c->loop) {
            borrow_place(p, c);
        }
    }
    return p;
}

bool row_in_place(const Group *group, const Value *in, const Value *out)
{
    if (!values_hold(&group->whole, out)) return false;
    Arena *arena = arena_new();
    RowPlan *p = plan_rows(arena, group);
    int first_write = p->loops;
    for (int i = 0; i < p->n; i++)
        if (p->cell[i].place == out && p->cell[i].loop < first_write) first_write = p->cell[i].loop;
    const bool fits = last_loop_reading(p, in) <= first_write;
    arena_free(arena);
    return fits;
}

/* ---- writing ---- */
typedef struct {
    RowPlan *plan;
    Expr *rows;
} RowContext;

/* Where an element of v lies, given where it lies in the rows' shape. */
static Index index_of(Kernel *k, const Value *v, const Value *like, const Index *index)
{
    if (v->rank == like->rank) {
        bool same = true;
        for (int i = 0; i < v->rank; i++) same = same && expr_always_equal(k->symbols, v->shape[i], like->shape[i]);
        if (same) return *index;
    }
    Index flat = {.flat = true};
    flat.at[0] = index_flat(k, like, index);
    return flat;
}

static const char *result_name(Kernel *k, const RowPlan *p, const Value *v)
{
    Value *out = p->group->out.at[0];
    for (int i = 0; i < p->group->out.n; i++)
        if (p->group->out.at[i] == v) out = p->group->out.at[i];
    return p->group->out.n == 1 ? param_result(k, out, "y") : param_update(k, out);
}

/* Opens the loops along the row; the innermost is shared out among threads. */
static int open_row(Kernel *k, const char *kind, const char *reduces, Affine *of_group)
{
    int n = 0, last = -1;
    for (int g = 0; g < k->n_groups; g++)
        if (k->groups[g].kind) last = g;
    for (int g = 0; g < last; g++) {
        if (!k->groups[g].kind) continue;
        const char *name = fresh_name(k, "r");
        block_open(k, "for (Index %s = 0; %s < %s; %s++)", name, name, size_bare(k, k->groups[g].extent), name);
        of_group[g] = affine_var(k, group_var(k, g, name));
        n++;
    }
    if (last >= 0)
        of_group[last] = lanes_open(k, kind, reduces, last, "j", size_bare(k, k->groups[last].extent));
    else
        lanes_open_one(k, kind, reduces);
    return n;
}

/* Puts what loop t has to put, once everything is computed: a result may lie in an operand's memory. */
static void store_loop(Kernel *k, RowPlan *p, int t, const Index *index)
{
    Code code[MAX_CELLS];
    int n = 0;
    for (int i = 0; i < p->n; i++) n += p->cell[i].loop == t && p->cell[i].place;
    for (int i = 0; i < p->n; i++) {
        const Cell *c = &p->cell[i];
        if (c->loop != t || !c->place) continue;
        Index at = index_of(k, c->value, p->group->row, index);
        code[i] = n > 1 || t < p->loops ? element(k, c->value, &at) : element_stored(k, c->value, &at);
        if (n > 1 || t < p->loops) code[i] = named(k, code[i], compute_type(c->value->dtype), local_name(k, c->value));
    }
    for (int i = 0; i < p->n; i++) {
        const Cell *c = &p->cell[i];
        if (c->loop != t || !c->place) continue;
        Index own = index_of(k, c->value, p->group->row, index);
        Affine at = index_flat(k, c->value, &own);
        affine_seen(k, &at);
        lanes_store(k, c->value, result_name(k, p, c->place), &at, stored(k, c->value->dtype, code[i]));
    }
}

static bool stores(const RowPlan *p, int t)
{
    for (int i = 0; i < p->n; i++)
        if (p->cell[i].loop == t && p->cell[i].place) return true;
    return false;
}

/* From now on: sums over the row have names, what the loops up to t have put is read again. */
static void keep_at_hand(Kernel *k, RowPlan *p, int t)
{
    k->at_hand.n = 0;
    for (int i = 0; i < p->n; i++) {
        const Cell *c = &p->cell[i];
        if (c->reduced && c->loop <= t + 1)
            vec_push(k->arena, &k->at_hand, ((__typeof__(*k->at_hand.at)){c->value, c->name, false, 0}));
        else if (c->place && c->loop <= t && t < c->until)
            vec_push(k->arena, &k->at_hand, ((__typeof__(*k->at_hand.at)){c->value, result_name(k, p, c->place), true, 0}));
    }
}

/* The reductions of loop t that are put together as the first nameless one is: they share a loop.  Returns how many. */
static int next_reductions(Kernel *k, RowPlan *p, int t, Cell **set, Combining *by)
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        Cell *c = &p->cell[i];
        if (!c->reduced || c->loop != t + 1 || c->name) continue;
        const Combining own = combining(k->all, c->value->def);
        if (n && (strcmp(own.reduces, by->reduces) != 0 || strcmp(own.type, by->type) != 0)) continue;
        *by = own;
        set[n++] = c;
    }
    return n;
}

static void reduction_loop(Kernel *k, RowPlan *p, int t, Cell **set, int n, const Combining *by, Affine *of_group)
{
    Buf names = {.arena = k->arena}, starts = {.arena = k->arena};
    bool last = true;
    for (int i = 0; i < n; i++) {
        set[i]->name = fresh_name(k, local_name(k, set[i]->value));
        buf_printf(&starts, "%s %s = %s;\n", by->type, set[i]->name, by->start);
        buf_printf(&names, ", %s", set[i]->name);
    }
    for (int i = 0; i < p->n; i++) last = last && !(p->cell[i].reduced && p->cell[i].loop == t + 1 && !p->cell[i].name);
    const bool with_stores = last && stores(p, t);
    const int open = open_row(k, "THREADS", text_of(k, "%s%s", by->reduces, buf_text(&names)), of_group);
    k->block[k->depth - k->lane_blocks - open].before = buf_text(&starts);
    const Index index = axes_index(k, of_group);
    Code x[MAX_CELLS];
    for (int i = 0; i < n; i++) {
        Value *operand = set[i]->value->def->in[0];
        const Index at = index_of(k, operand, p->group->row, &index);
        x[i] = element(k, operand, &at);
        if (with_stores) x[i] = named(k, x[i], compute_type(operand->dtype), local_name(k, operand));
    }
    if (with_stores) store_loop(k, p, t, &index);
    for (int i = 0; i < n; i++) line(k, "%s;", combined(k, by, set[i]->name, wrapped(k, x[i], BINDS_LOW)));
    lanes_close(k);
    for (int i = 0; i < open; i++) block_close(k);
    for (int i = 0; i < n; i++) line(k, "%s = %s(%s);", set[i]->name, by->combine, set[i]->name);
}

/* Where the row stands among rows. */
static Index row_index(Kernel *k, const Value *like, int kept, const Value *v, const Index *index)
{
    bool same = v->rank >= kept;
    for (int i = 0; i < v->rank && same; i++)
        same = i < kept ? expr_always_equal(k->symbols, v->shape[i], like->shape[i])
                        : expr_is(expr_canonical(k->symbols, v->shape[i]), 1);
    Index at = *index;
    at.rank = same ? v->rank : kept;
    for (int i = kept; i < at.rank; i++) at.at[i] = affine_int(k, 0);
    if (same) return at;
    Value rows = *like;
    rows.rank = kept;
    Index flat = {.flat = true};
    flat.at[0] = index_flat(k, &rows, &at);
    return flat;
}

static void store_per_row(Kernel *k, RowPlan *p, const Affine *of_group, const char *row)
{
    const Index index = axes_index(k, of_group);
    for (int i = 0; i < p->n; i++) {
        const Cell *c = &p->cell[i];
        if (c->whole || !c->output) continue;
        const Index at = row_index(k, p->group->row, p->group->kept, c->value, &index);
        const Code code = named(k, element(k, c->value, &at), compute_type(c->value->dtype), local_name(k, c->value));
        line(k, "if (FIRST_THREAD) %s[%s] = %s;", result_name(k, p, c->value), row, stored(k, c->value->dtype, code));
    }
}

static void row_body(Kernel *k, void *context)
{
    RowContext *r = context;
    RowPlan *p = r->plan;
    Affine of_group[MAX_AXES];
    int kept[MAX_AXES], n_kept = 0;
    for (int g = 0; g < k->n_groups; g++)
        if (k->groups[g].kind == 0) kept[n_kept++] = g;
    for (int i = 0; i < p->n; i++) p->cell[i].name = NULL;
    for (int i = 0; i < p->group->out.n; i++) result_name(k, p, p->group->out.at[i]);
    r->rows = groups_extent(k, kept, n_kept);
    sizes_any(k, k->n_groups - 1);
    size_called(k, r->rows, "rows");
    for (int i = 1; i < n_kept; i++) size_called(k, k->groups[kept[i]].extent, "length");
    if (k->n_groups && k->groups[k->n_groups - 1].kind)
        size_called(k, k->groups[k->n_groups - 1].extent, expr_is(r->rows, 1) ? "n" : "columns");
    for (int g = 0; g + 1 < k->n_groups; g++)
        if (k->groups[g].kind) size_called(k, k->groups[g].extent, "length");
    block_open(k, "FOR_ROWS (row, %s)", size_bare(k, r->rows));
    if (k->pass == PASS_COLLECT)
        for (int i = 0; i < n_kept; i++) of_group[kept[i]] = affine_var(k, group_var(k, kept[i], ""));
    else
        row_groups(k, loop_var(k, "row", r->rows), kept, n_kept, of_group);
    for (int t = 0; t < p->loops; t++) {
        Cell *set[MAX_CELLS];
        Combining by;
        for (int n; (n = next_reductions(k, p, t, set, &by)) > 0;) reduction_loop(k, p, t, set, n, &by, of_group);
        keep_at_hand(k, p, t);
    }
    if (stores(p, p->loops)) {
        const int open = open_row(k, "LANES", NULL, of_group);
        const Index index = axes_index(k, of_group);
        store_loop(k, p, p->loops, &index);
        lanes_close(k);
        for (int i = 0; i < open; i++) block_close(k);
    }
    for (int g = 0; g < k->n_groups; g++)
        if (k->groups[g].kind) of_group[g] = affine_int(k, 0);
    store_per_row(k, p, of_group, "row");
    block_close(k);
}

static bool has(const Group *group, OpKind kind)
{
    for (int i = 0; i < group->ops.n; i++)
        if (group->ops.at[i]->kind == kind) return true;
    return false;
}

/* What people call it, where the operations tell. */
static const char *row_name(Kernels *all, const Group *group, Expr *rows)
{
    const char *role = role_name(all, group);
    if (role) return role;
    const bool sums = has(group, OP_reduce_sum);
    if (sums && has(group, OP_exp) && has(group, OP_reduce_max)) return has(group, OP_log) ? "log_softmax" : "softmax";
    if (sums && has(group, OP_sqrt)) return "norm";
    const Value *y = main_op(group)->out[0];
    const char *word = made_word(y);
    const bool per_row = !values_hold(&group->whole, y);
    if (per_row && word_tells(word)) return arena_text(all->arena, "%s_of_%s", word, expr_is(rows, 1) ? "all" : "rows");
    return arena_text(all->arena, "row_%s", group_name(all, group));
}

void emit_row(Emission *e)
{
    Symbols *symbols = e->all->symbols;
    const Value *like = e->group->row;
    RowContext r = {.plan = plan_rows(e->all->arena, e->group)};
    int kinds[MAX_AXES] = {0};
    for (int i = e->group->kept; i < like->rank; i++) kinds[i] = 1;
    Kernel *k = kernel_new_indexed(e->all, e->group);
    kernel_axes(k, like->shape, kinds, like->rank);
    lanes_in_fours(k);
    kernel_write(k, row_body, &r);
    Expr *length = expr_product(symbols, like->shape + e->group->kept, like->rank - e->group->kept);
    Expr *each = expr_mul(symbols, length, expr_int(symbols, r.plan->loops + 1));
    Launch *l = kernel_launch(k, row_name(e->all, e->group, r.rows), r.rows, each, lanes_threads(k, length));
    l->shares = r.rows;
    vec_push(e->all->arena, &e->launches, l);
}
