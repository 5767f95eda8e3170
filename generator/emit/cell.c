/* Cells over time: a scan whose rows never meet, as one kernel (passes/fuse_cell.c says which).
 *
 *     FOR_ROW_BLOCKS (first, last, batch) {                        a few samples, which nobody else touches
 *         const float *h = h0;
 *         for (int64_t t = 0; t < time; t++) {
 *             float *const y_t = y + t * (batch * 128);
 *             rows_dot(z, h, r, first, last, 512, 128);            each part of a step in turn
 *             __syncthreads();
 *             FOR_BLOCK_ROWS (row, first, last) FOR_ROW_LANES (j, 128) y_t[…] = tanhf(x_t[…] + z[…]);
 *             __syncthreads();
 *             h = y_t;                                             a new carry lies where it is stacked, else in one of two places
 *         }
 *     }
 *
 * The parts are the groups into which fuse has put the body.  What they leave for each other lies in scratch memory, at the place
 * of its row: a few rows stay near the processor from step to step. */
#include "emit/kernel.h"
#include "emit/program.h"
#include "ir/view.h"
#include <string.h>

enum { MOST_CUTS = 16 };

/* A value of the body that lies in memory while a step is made. */
typedef struct {
    Value *value;
    const char *name; /* of the pointer to it */
    int level;        /* of the block in which it stands */
} Stand;

typedef struct {
    Kernels *all;
    const Group *group;
    const Op *op;
    const Graph *g; /* the body */
    int carries, slices, stacked;
    Expr *length;
    Expr *scratch; /* bytes so far */
    VEC(Stand) stands;
    VEC(const Value *) local; /* values that scratch memory holds, and where: wider types first, so that all are aligned */
    VEC(Expr *) local_at;
    const char **carry, **result; /* names */
    int *dot_of;                  /* by part: the dot whose elements it takes as they are made; -1 */
    bool *taken;                  /* by part: a dot of which that is so */
} CellPlan;

/* What the body gives out, as it lies in memory. */
static Value *output(const CellPlan *c, int i)
{
    return value_root(c->g->outputs.at[i]);
}

/* Which result stacks v first; -1: none. */
static int stacked_at(const CellPlan *c, const Value *v)
{
    for (int i = 0; i < c->stacked; i++)
        if (output(c, c->carries + i) == v) return i;
    return -1;
}

static bool made_by_part(const CellPlan *c, const Value *v)
{
    for (int i = 0; i < c->group->body[0]->list.n; i++) {
        const Group *part = c->group->body[0]->list.at[i];
        if (part->kind != GROUP_VIEW && values_hold(&part->out, v)) return true;
    }
    return false;
}

/* ---- elements of a dot, used as they are made ---- */
static bool is_output(const CellPlan *c, const Value *v)
{
    for (int i = 0; i < c->carries + c->stacked; i++)
        if (output(c, i) == v) return true;
    return false;
}

static Expr *row_width(const CellPlan *c, const Value *v);

/* The loop that alone reads y, and at its own places only; -1. */
static int only_reader(const CellPlan *c, const Value *y)
{
    const Groups *parts = c->group->body[0];
    int reader = -1;
    for (int i = 0; i < parts->list.n; i++) {
        const Group *part = parts->list.at[i];
        if (!values_hold(&part->in, y)) continue;
        if (reader >= 0 || part->kind != GROUP_LOOP) return -1;
        reader = i;
    }
    for (int o = 0; reader >= 0 && o < parts->list.at[reader]->out.n; o++) {
        const Value *v = parts->list.at[reader]->out.at[o];
        if (!expr_always_equal(c->all->symbols, row_width(c, v), row_width(c, y))) return -1;
        if (!keeps_place(parts->list.at[reader], v, y, true)) return -1;
    }
    return reader;
}

static void plan_dots(CellPlan *c)
{
    const Groups *parts = c->group->body[0];
    c->dot_of = NEW_ARRAY(c->all->scratch, int, parts->list.n + 1);
    c->taken = NEW_ARRAY(c->all->scratch, bool, parts->list.n + 1);
    for (int i = 0; i < parts->list.n; i++) c->dot_of[i] = -1;
    for (int i = 0; i < parts->list.n; i++) {
        const Group *part = parts->list.at[i];
        if (part->kind != GROUP_DOT || is_output(c, part->out.at[0]) || dtype_bytes(part->out.at[0]->dtype) < 4) continue;
        const int reader = only_reader(c, part->out.at[0]);
        if (reader < 0) continue;
        if (c->dot_of[reader] >= 0) c->taken[c->dot_of[reader]] = false; /* the last one of several */
        c->dot_of[reader] = i;
        c->taken[i] = true;
    }
}

/* ---- scratch memory ---- */
static void add_local(CellPlan *c, const Value *v, int times)
{
    Symbols *s = c->all->symbols;
    vec_push(c->all->scratch, &c->local, v);
    vec_push(c->all->scratch, &c->local_at, c->scratch);
    c->scratch = expr_add(s, c->scratch, expr_mul(s, bytes_of(c->all, v), expr_int(s, times)));
}

/* A new carry that is stacked lies there; others have two places, for even steps and odd ones. */
static bool has_two_places(const CellPlan *c, int carry)
{
    const Value *v = output(c, carry);
    return v != c->g->inputs.at[carry] && !(made_by_part(c, v) && stacked_at(c, v) >= 0);
}

static bool is_new_carry(const CellPlan *c, const Value *v)
{
    for (int i = 0; i < c->carries; i++)
        if (output(c, i) == v) return true;
    return false;
}

static void plan_scratch(CellPlan *c)
{
    c->scratch = expr_int(c->all->symbols, 0);
    for (int bytes = 8; bytes; bytes /= 2) {
        for (int i = 0; i < c->carries; i++)
            if (dtype_bytes(output(c, i)->dtype) == bytes && has_two_places(c, i)) add_local(c, c->op->out[i], 2);
        for (int p = 0; p < c->group->body[0]->list.n; p++) {
            const Group *part = c->group->body[0]->list.at[p];
            for (int o = 0; o < part->out.n && part->kind != GROUP_VIEW && !c->taken[p]; o++) {
                const Value *v = part->out.at[o];
                if (dtype_bytes(v->dtype) == bytes && stacked_at(c, v) < 0 && !is_new_carry(c, v)) add_local(c, v, 1);
            }
        }
    }
}

static const char *local_pointer(Kernel *k, CellPlan *c, const Value *v, const char *name)
{
    for (int i = 0; i < c->local.n; i++)
        if (c->local.at[i] == v) return param_other(k, ARG_SCRATCH, name, text_of(k, "%s *", dtype_c(v->dtype)), c->local_at.at[i]);
    bug("%%%d lies nowhere in a cell's scratch memory", v->id);
}

/* ---- names ---- */
/* Of a body's input: its own, or what it is outside. */
static const char *parameter_name(Kernel *k, const CellPlan *c, const Value *inside, const Value *outside)
{
    const char *name = plain_name(k->arena, *inside->name ? inside->name : "x");
    if (strcmp(name, "stash") == 0 || strcmp(name, "x") == 0 || strcmp(name, "constant_in") == 0) {
        const Group whole = {.ops = c->g->ops};
        name = outside->origin == FROM_OP && outside->def->kind != OP_scan ? operand_word(k->arena, &whole, inside)
                                                                           : operand_word(k->arena, c->group, outside);
        const char *use = use_word(&whole, inside, 0);
        if (use && outside->rank == 1) name = use;
    }
    return fresh_name(k, name);
}

static void know(Kernel *k, CellPlan *c, Value *v, const char *name, int level)
{
    vec_push(k->arena, &c->stands, ((Stand){v, name, level}));
    vec_push(k->arena, &k->at_hand, ((__typeof__(*k->at_hand.at)){v, name, true, level}));
}

static const char *pointer_to(const CellPlan *c, Value *v)
{
    const Value *root = value_root(v);
    for (int i = 0; i < c->stands.n; i++)
        if (c->stands.at[i].value == root) return c->stands.at[i].name;
    bug("%%%d of a cell lies nowhere", v->id);
}

/* ---- elements of a row ---- */
/* A row's elements are walked by j, in pieces between the places where parts of a concatenation meet. */
typedef struct {
    int64_t at[MOST_CUTS + 2];
    int n;
} Cuts;

static void cut(Cuts *cuts, int64_t at, int64_t width)
{
    if (at <= 0 || at >= width || cuts->n > MOST_CUTS) return;
    int i = cuts->n;
    while (i > 0 && cuts->at[i - 1] >= at) i--;
    if (i < cuts->n && cuts->at[i] == at) return;
    memmove(&cuts->at[i + 1], &cuts->at[i], sizeof cuts->at[0] * (size_t)(cuts->n - i));
    cuts->at[i] = at;
    cuts->n++;
}

/* Along the last axis of v, whose first element stands at `shift` of the row. */
static void find_cuts(const Kernel *k, Cuts *cuts, const Value *v, int64_t shift, int64_t width)
{
    const Op *op = v->def;
    int n;
    int64_t at, size;
    for (int i = 0; i < k->at_hand.n; i++)
        if (k->at_hand.at[i].value == v) return;
    if (!op || v->rank == 0) return;
    if (op_info(op->kind)->class == ELEMENTWISE)
        for (int i = 0; i < op->n_in; i++) find_cuts(k, cuts, op->in[i], shift, width);
    if (op->kind == OP_pad) {
        const int last = v->rank - 1;
        if (op_ints(op, ATTR_step, &n)[last] != 1 || !expr_is_int(op_exprs(op, ATTR_start, &n)[last], &at)) return;
        if (!expr_is_int(expr_canonical(k->symbols, op->in[0]->shape[last]), &size)) return;
        cut(cuts, shift + at, width);
        cut(cuts, shift + at + size, width);
        find_cuts(k, cuts, op->in[0], shift + at, width);
    } else if (op->kind == OP_concat && op_int(op, ATTR_axis) == v->rank - 1) {
        for (int i = 0; i < op->n_in; i++) {
            find_cuts(k, cuts, op->in[i], shift, width);
            if (!expr_is_int(expr_canonical(k->symbols, op->in[i]->shape[v->rank - 1]), &size)) return;
            cut(cuts, shift += size, width);
        }
    }
}

static int rows_axis(const CellPlan *c, const Value *v)
{
    for (int i = 0; i < v->rank; i++)
        if (expr_always_equal(c->all->symbols, v->shape[i], c->group->rows)) return i;
    bug("%%%d of a cell has no rows", v->id);
}

/* The index of element j of a row of v. */
static Index row_index(Kernel *k, const CellPlan *c, const Value *v, Var *row, const Affine *j)
{
    const int axis = rows_axis(c, v);
    Index index = {.rank = v->rank};
    Affine rest = *j;
    for (int i = 0; i < v->rank; i++) index.at[i] = affine_int(k, 0);
    index.at[axis] = affine_var(k, row);
    int outermost = axis + 1;
    while (outermost < v->rank && expr_is(expr_canonical(k->symbols, v->shape[outermost]), 1)) outermost++;
    for (int i = v->rank - 1; i > outermost; i--) {
        if (expr_is(expr_canonical(k->symbols, v->shape[i]), 1)) continue;
        const Affine whole = rest;
        affine_split(k, &whole, v->shape[i], &rest, &index.at[i]);
    }
    if (outermost < v->rank) index.at[outermost] = rest;
    return index;
}

static Expr *row_width(const CellPlan *c, const Value *v)
{
    const int axis = rows_axis(c, v);
    return expr_canonical(c->all->symbols, expr_product(c->all->symbols, v->shape + axis + 1, v->rank - axis - 1));
}

/* Values of one shape, and where each of them is put. */
typedef struct {
    Value *value;
    const char *to;
} Store;
typedef struct {
    VEC(Store) list;
    const Value *walked; /* of the shape that is walked: theirs, or that of the parts of a concat */
} Stores;

static void add_store(Kernel *k, Stores *stores, Value *v, const char *to)
{
    if (!stores->walked) stores->walked = v;
    vec_push(k->arena, &stores->list, ((Store){v, to}));
}


static void store_elements(Kernel *k, const CellPlan *c, const Stores *stores, Var *row, const Affine *j)
{
    const Index index = row_index(k, c, stores->walked, row, j);
    Pieces pieces; /* hundreds of kilobytes: not set to zero */
    pieces.n = 0;
    const int n = stores->list.n;
    int *first = NEW_ARRAY(k->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        first[i] = pieces.n;
        pieces_of(k, stores->list.at[i].value, stores->walked, &index, &pieces);
    }
    first[n] = pieces.n;
    pieces_compute(k, &pieces, &index);
    for (int i = 0; i < n; i++)
        for (int p = first[i]; p < first[i + 1]; p++) piece_store(k, &pieces, p, stores->list.at[i].value, stores->list.at[i].to);
}

static void store_piece(Kernel *k, const CellPlan *c, const Stores *stores, Var *row, Expr *from, Expr *width)
{
    block_open(k, "FOR_ROW_LANES (j, %s)", size_bare(k, width));
    Affine at = affine_expr(k, from), step = affine_var(k, loop_var(k, "j", width));
    at = affine_add(k, &at, &step, expr_int(k->symbols, 1));
    store_elements(k, c, stores, row, &at);
    block_close(k);
}

static void store_rows(Kernel *k, const CellPlan *c, const Stores *stores)
{
    int64_t width;
    Expr *whole = row_width(c, stores->walked);
    Cuts cuts = {.n = 0};
    for (int i = 0; i < stores->list.n && expr_is_int(whole, &width); i++) {
        const Value *v = stores->list.at[i].value;
        const bool by_parts = !expr_always_equal(k->symbols, row_width(c, v), whole);
        for (int p = 0; p < (by_parts ? v->def->n_in : 1); p++) find_cuts(k, &cuts, by_parts ? v->def->in[p] : v, 0, width);
    }
    if (cuts.n > MOST_CUTS) cuts.n = 0;
    block_open(k, "FOR_BLOCK_ROWS (row, first, last)");
    Var *row = loop_var(k, "row", c->group->rows);
    for (int i = 0; i <= cuts.n; i++) {
        Expr *from = expr_int(k->symbols, i ? cuts.at[i - 1] : 0);
        Expr *to = i < cuts.n ? expr_int(k->symbols, cuts.at[i]) : whole;
        store_piece(k, c, stores, row, from, expr_sub(k->symbols, to, from));
    }
    block_close(k);
}

/* ---- parts of a step ---- */
static const char *carry_next(Kernel *k, const CellPlan *c, int i)
{
    return text_of(k, "%s_next", c->carry[i]);
}

/* What result i stacks in this step. */
static const char *stacked_now(Kernel *k, const CellPlan *c, int i)
{
    return text_of(k, "%s_t", c->result[i]);
}

/* Where the part that makes v puts it. */
static const char *home_of(Kernel *k, CellPlan *c, Value *v)
{
    if (stacked_at(c, v) >= 0) return stacked_now(k, c, c->carries + stacked_at(c, v));
    for (int i = 0; i < c->carries; i++)
        if (output(c, i) == v) return carry_next(k, c, i);
    return local_pointer(k, c, v, fresh_name(k, "part"));
}

/* "h, strided(r, 512, 1), first, last, 512, 128": left operand, right operand, rows, columns, depth. */
static const char *dot_operands(Kernel *k, CellPlan *c, const Op *op)
{
    Value *a = op->in[0], *b = op->in[1], *y = op->out[0];
    const char *n = size_bare(k, y->shape[y->rank - 1]), *depth = size_bare(k, a->shape[a->rank - 1]);
    const bool transposed = op_int(op, ATTR_trans_b);
    return text_of(k, "%s, strided(%s, %s, %s), first, last, %s, %s", pointer_to(c, a), pointer_to(c, b), transposed ? "1" : n,
                   transposed ? depth : "1", n, depth);
}

static void dot_part(Kernel *k, CellPlan *c, const Group *part)
{
    const Op *op = part->ops.at[part->ops.n - 1];
    const char *to = home_of(k, c, op->out[0]);
    line(k, "rows_dot(%s, %s);", to, dot_operands(k, c, op));
    line(k, "__syncthreads();");
    know(k, c, op->out[0], to, k->depth - 1);
}

/* A loop over what a dot makes, element by element. */
static void store_dot(Kernel *k, CellPlan *c, const Stores *stores, const Op *dot)
{
    Value *y = dot->out[0];
    const int known = k->at_hand.n;
    const char *sum = fresh_name(k, "sum");
    block_open(k, "rows_dot_each(%s, [=](int64_t row, int64_t j, %s %s) INLINED", dot_operands(k, c, dot), dtype_c(y->dtype), sum);
    Var *row = loop_var(k, "row", c->group->rows);
    const Affine j = affine_var(k, loop_var(k, "j", row_width(c, y)));
    vec_push(k->arena, &k->at_hand, ((__typeof__(*k->at_hand.at)){y, sum, false, k->depth - 1}));
    store_elements(k, c, stores, row, &j);
    k->at_hand.n = known;
    block_close_with(k, "});");
}

static void loop_part(Kernel *k, CellPlan *c, int p)
{
    const Groups *parts = c->group->body[0];
    const Group *part = parts->list.at[p];
    Stores stores = {.walked = part->walked};
    for (int i = 0; i < part->out.n; i++) {
        Value *v = part->out.at[i];
        add_store(k, &stores, v, home_of(k, c, v));
    }
    if (c->dot_of[p] >= 0)
        store_dot(k, c, &stores, main_op(parts->list.at[c->dot_of[p]]));
    else
        store_rows(k, c, &stores);
    line(k, "__syncthreads();");
    for (int i = 0; i < stores.list.n; i++) know(k, c, stores.list.at[i].value, stores.list.at[i].to, k->depth - 1);
}

/* What the body gives out without making it (an old carry, a slice), and what it gives out a second time. */
static void copy_parts(Kernel *k, CellPlan *c)
{
    bool any = false;
    for (int i = 0; i < c->carries + c->stacked; i++) {
        Value *v = output(c, i);
        const bool here = made_by_part(c, v);
        const char *to = i < c->carries ? carry_next(k, c, i) : stacked_now(k, c, i);
        if (i < c->carries ? here || v == c->g->inputs.at[i] : here && stacked_at(c, v) == i - c->carries) continue;
        if (i < c->carries && here) continue;
        Stores stores = {.walked = NULL};
        add_store(k, &stores, v, to);
        store_rows(k, c, &stores);
        any = true;
    }
    if (any) line(k, "__syncthreads();");
}

/* ---- the kernel ---- */
static void declare_operands(Kernel *k, CellPlan *c)
{
    for (int i = 0; i < c->op->n_out; i++)
        param_result(k, c->op->out[i], c->result[i] = fresh_name(k, scan_word(k->arena, c->op, i)));
    for (int i = 0; i < c->op->n_in; i++) {
        Value *inside = c->g->inputs.at[i], *outside = c->op->in[i];
        if (i < c->carries)
            c->carry[i] = parameter_name(k, c, inside, outside);
        else if (i >= c->carries + c->slices &&
                 (inside->users.n || values_hold(&c->g->outputs, inside)))
            know(k, c, inside, param_operand(k, outside, parameter_name(k, c, inside, outside)), 0);
    }
}

static void declare_carries(Kernel *k, CellPlan *c)
{
    for (int i = 0; i < c->carries; i++) {
        Value *inside = c->g->inputs.at[i];
        const char *from = param_operand(k, c->op->in[i], text_of(k, "%s_first", c->carry[i]));
        line(k, "const %s *%s = %s;", dtype_c(inside->dtype), c->carry[i], from);
    }
}

static void begin_step(Kernel *k, CellPlan *c)
{
    const int level = k->depth - 1;
    for (int i = 0; i < c->slices; i++) {
        Value *inside = c->g->inputs.at[c->carries + i], *outside = c->op->in[c->carries + i];
        if (!inside->users.n && !values_hold(&c->g->outputs, inside)) continue;
        const char *whole = param_operand(k, outside, parameter_name(k, c, inside, outside)),
                   *name = fresh_name(k, text_of(k, "%s_t", whole));
        line(k, "const %s *const %s = %s + t * %s;", dtype_c(inside->dtype), name, whole, size_text(k, count_of(c->all, inside)));
        know(k, c, inside, name, level);
    }
    for (int i = 0; i < c->stacked; i++) {
        const Value *v = output(c, c->carries + i);
        const char *whole = param_result(k, c->op->out[c->carries + i], NULL);
        line(k, "%s *const %s = %s + t * %s;", dtype_c(v->dtype), stacked_now(k, c, c->carries + i), whole,
             size_text(k, count_of(c->all, v)));
    }
    for (int i = 0; i < c->carries; i++) {
        know(k, c, c->g->inputs.at[i], c->carry[i], level);
        if (!has_two_places(c, i)) continue;
        const Value *v = c->op->out[i];
        const char *both = local_pointer(k, c, v, text_of(k, "%s_both", c->carry[i]));
        line(k, "%s *const %s = %s + t %% 2 * %s;", dtype_c(v->dtype), carry_next(k, c, i), both,
             size_text(k, count_of(c->all, v)));
    }
}

static void advance_carries(Kernel *k, CellPlan *c)
{
    for (int i = 0; i < c->carries; i++) {
        Value *v = output(c, i);
        if (v == c->g->inputs.at[i]) continue;
        line(k, "%s = %s;", c->carry[i],
             has_two_places(c, i) ? carry_next(k, c, i) : stacked_now(k, c, c->carries + stacked_at(c, v)));
    }
}

static void last_carries(Kernel *k, CellPlan *c)
{
    for (int i = 0; i < c->carries; i++) {
        Value *inside = c->g->inputs.at[i];
        Stores stores = {.walked = NULL};
        know(k, c, inside, c->carry[i], k->depth - 1);
        add_store(k, &stores, inside, param_result(k, c->op->out[i], NULL));
        store_rows(k, c, &stores);
    }
}

static void cell_body(Kernel *k, void *context)
{
    CellPlan *c = context;
    c->stands.n = 0;
    declare_operands(k, c);
    const int outside = k->at_hand.n;
    size_called(k, c->group->rows, "rows");
    size_called(k, c->length, "steps");
    block_open(k, "FOR_ROW_BLOCKS (first, last, %s)", size_bare(k, c->group->rows));
    declare_carries(k, c);
    if (op_int(c->op, ATTR_reverse))
        block_open(k, "for (int64_t t = %s - 1; t >= 0; t--)", size_text(k, c->length));
    else
        block_open(k, "for (int64_t t = 0; t < %s; t++)", size_bare(k, c->length));
    begin_step(k, c);
    for (int i = 0; i < c->group->body[0]->list.n; i++) {
        const Group *part = c->group->body[0]->list.at[i];
        if (part->kind == GROUP_DOT && !c->taken[i]) dot_part(k, c, part);
        if (part->kind == GROUP_LOOP) loop_part(k, c, i);
    }
    copy_parts(k, c);
    advance_carries(k, c);
    block_close(k);
    k->at_hand.n = outside;
    last_carries(k, c);
    block_close(k);
}

/* ---- cost ---- */
/* Of one row in one step. */
static Expr *row_work(CellPlan *c)
{
    Symbols *s = c->all->symbols;
    Expr *work = expr_int(s, 1);
    for (int o = 0; o < c->g->ops.n; o++) {
        const Op *op = c->g->ops.at[o];
        const OpClass class = op_info(op->kind)->class;
        if (class == DOT) work = expr_add(s, work, expr_mul(s, count_of(c->all, op->in[1]), expr_int(s, 2)));
        if (class == ELEMENTWISE && op->out[0]->rank > 0) work = expr_add(s, work, op->out[0]->shape[op->out[0]->rank - 1]);
    }
    return expr_canonical(s, work);
}

void emit_cell(Emission *e)
{
    const Op *op = main_op(e->group);
    Symbols *s = e->all->symbols;
    CellPlan c = {.all = e->all, .group = e->group, .op = op, .g = e->group->body[0]->graph};
    c.carries = (int)op_int(op, ATTR_carries);
    c.slices = (int)op_int(op, ATTR_slices);
    c.stacked = op->n_out - c.carries;
    c.length = c.slices ? op->in[c.carries]->shape[0] : op->out[c.carries]->shape[0];
    c.carry = NEW_ARRAY(e->all->scratch, const char *, c.carries + 1);
    c.result = NEW_ARRAY(e->all->scratch, const char *, op->n_out + 1);
    plan_dots(&c);
    plan_scratch(&c);
    Kernel *k = kernel_new(e->all, e->group);
    kernel_write(k, cell_body, &c);
    Expr *each = expr_mul(s, c.length, row_work(&c));
    Launch *l =
        kernel_launch(k, arena_text(e->all->arena, "%s_over_time", c_name(e->all->arena, c.g->name)), e->group->rows, each, 256);
    l->flops = expr_mul(s, e->group->rows, each);
    vec_push(e->all->arena, &e->launches, l);
    e->scratch = c.scratch;
}
