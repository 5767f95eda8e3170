/* Reductions.  Where the last axis is reduced: a block a row, its threads along the last axis.  Where it is kept: a block a strip
 * of columns, walked from top to bottom.  Where there are few results and much to reduce, a fixed number of parts first, then the
 * parts: so sums do not depend on how many threads there are. */
#include "emit/kernel.h"
#include <string.h>

enum { PARTS = 64, KEPT = 0, REDUCED = 1 };

typedef struct {
    const Op *op;
    Value *x, *y;
    Value *const *stored; /* values of x's shape that the group keeps */
    int n_stored;
    Expr *parts;  /* NULL: in one go */
    Expr *offset; /* of the parts in scratch memory */
    Combining by;
    const char *sum; /* the variable that it is put together in */
    /* by the body, for the launch */
    Expr *rows, *each;
    bool columns;
} Reduction;

/* ---- what is done with each element ---- */
Combining combining(Kernels *all, const Op *op)
{
    const Dtype d = op->in[0]->dtype;
    Combining by = {0}, *r = &by;
    const bool is_bool = d == DTYPE_bool;
    r->type = sum_type(d);
    const char *limit = arena_text(all->arena, "<%s>()", compute_type(d));
    const bool generic = !dtype_is_float(d);
    switch (op->kind) {
    case OP_reduce_sum: r->start = "0", r->update = "%s += %s", r->reduces = "+", r->combine = "block_sum"; break;
    case OP_reduce_prod: r->start = "1", r->update = "%s *= %s", r->reduces = "*", r->combine = "block_prod"; break;
    case OP_reduce_max:
        r->start = is_bool ? "false" : arena_text(all->arena, "lowest%s", limit);
        r->update = is_bool   ? "%1$s = %1$s || %2$s"
                    : generic ? arena_text(all->arena, "%%1$s = maximum<%s>(%%1$s, %%2$s)", r->type)
                              : "%1$s = maximum(%1$s, %2$s)";
        r->reduces = is_bool ? "||" : "maximum", r->combine = "block_max";
        break;
    case OP_reduce_min:
        r->start = is_bool ? "true" : arena_text(all->arena, "highest%s", limit);
        r->update = is_bool   ? "%1$s = %1$s && %2$s"
                    : generic ? arena_text(all->arena, "%%1$s = minimum<%s>(%%1$s, %%2$s)", r->type)
                              : "%1$s = minimum(%1$s, %2$s)";
        r->reduces = is_bool ? "&&" : "minimum", r->combine = "block_min";
        break;
    default: bug("%s is no reduction", op_info(op->kind)->name);
    }
    return by;
}

/* "s += x": update is one of the formats above, given two texts. */
const char *combined(Kernel *k, const Combining *by, const char *s, const char *x)
{
    Buf out = {.arena = k->arena};
    int next = 1;
    for (const char *p = by->update; *p; p++) {
        int which;
        if (*p != '%') {
            buf_write(&out, p, 1);
            continue;
        }
        if (p[1] == 's')
            which = next++, p += 1;
        else
            which = p[1] - '0', p += 3;
        buf_put(&out, which == 1 ? s : x);
    }
    return buf_text(&out);
}

/* In the innermost loop: takes the element at index, and stores what the group keeps of it. */
static void take_element(Kernel *k, const Reduction *r, const Affine *of_group, const char *s)
{
    Index index = axes_index(k, of_group);
    Code x = element(k, r->x, &index);
    Code kept[16];
    check(r->n_stored <= 16);
    for (int i = 0; i < r->n_stored; i++)
        kept[i] = named(k, element(k, r->stored[i], &index), compute_type(r->stored[i]->dtype), local_name(k, r->stored[i]));
    for (int i = 0; i < r->n_stored; i++) {
        Affine at = index_flat(k, r->stored[i], &index);
        affine_seen(k, &at);
        const char *name = param_update(k, r->stored[i]);
        lanes_store(k, r->stored[i], name, &at, stored(k, r->stored[i]->dtype, kept[i]));
    }
    line(k, "%s;", combined(k, &r->by, s, wrapped(k, x, BINDS_LOW)));
}

static const char *result(Kernel *k, const Reduction *r, const char *s)
{
    return r->parts ? s : stored(k, r->y->dtype, (Code){s, BINDS_LOW, 0});
}

/* Where results go: y, or the parts in scratch memory. */
static const char *target(Kernel *k, const Reduction *r)
{
    if (!r->parts) return param_result(k, r->y, "y");
    return param_other(k, ARG_SCRATCH, "part", text_of(k, "%s *", r->by.type), r->offset);
}

/* ---- loops over reduced axes ---- */
typedef struct {
    int kept[MAX_AXES], n_kept, reduced[MAX_AXES], n_reduced;
} Split;

static Split split_groups(const Kernel *k)
{
    Split s = {.n_kept = 0};
    for (int g = 0; g < k->n_groups; g++) {
        if (k->groups[g].kind == KEPT)
            s.kept[s.n_kept++] = g;
        else
            s.reduced[s.n_reduced++] = g;
    }
    return s;
}

/* The bounds of the first reduced group: all of it, or the part's share. */
static void part_bounds(Kernel *k, const Reduction *r, const Split *s, const char *part, const char **from, const char **to)
{
    Expr *extent = k->groups[s->reduced[0]].extent;
    *from = "0", *to = size_bare(k, extent);
    if (!r->parts) return;
    *from = "first", *to = "last";
    const char *n = size_bare(k, extent), *parts = size_bare(k, r->parts);
    line(k, "const Index first = part_first(%s, %s, %s), last = part_first(%s, %s + 1, %s);", n, part, parts, n, part, parts);
}

/* Opens a loop for each reduced group but the last `leave`; returns how many. */
static int open_reduced(Kernel *k, const Split *s, int leave, const char *from, const char *to, Affine *of_group)
{
    int n = 0;
    for (int i = 0; i + leave < s->n_reduced; i++, n++) {
        const char *name = fresh_name(k, "r");
        block_open(k, "for (Index %s = %s; %s < %s; %s++)", name, i ? "0" : from, name,
                   i ? size_bare(k, k->groups[s->reduced[i]].extent) : to, name);
        of_group[s->reduced[i]] = affine_var(k, group_var(k, s->reduced[i], name));
    }
    return n;
}

/* Splits the block's number into a row and a part; returns the part's name. */
static const char *part_of(Kernel *k, const Reduction *r, const char *number, Var **row, Expr *rows)
{
    *row = defined_var(k, "at", k->depth - 1, rows, NULL);
    (*row)->name = "row";
    (*row)->definition = text_of(k, "%s / %s", number, size_text(k, r->parts));
    (*row)->safe = true;
    line(k, "const Index p = %s %% %s;", number, size_text(k, r->parts));
    return "p";
}

/* ---- the last axis is reduced ---- */
static void rows_body(Kernel *k, Reduction *r)
{
    const Split s = split_groups(k);
    Affine of_group[MAX_AXES];
    Expr *rows = groups_extent(k, s.kept, s.n_kept);
    const char *y = target(k, r);
    r->rows = r->parts ? expr_mul(k->symbols, rows, r->parts) : rows;
    const char *number = r->parts ? "block" : "row", *part = NULL, *from, *to;
    sizes_any(k, s.reduced[s.n_reduced - 1]);
    if (r->parts) size_called(k, r->parts, "parts"), size_called(k, r->rows, "blocks");
    if (s.n_reduced > 1) size_called(k, k->groups[s.reduced[0]].extent, "length");
    size_called(k, rows, "rows");
    size_called(k, k->groups[s.reduced[s.n_reduced - 1]].extent, expr_is(rows, 1) ? "n" : "columns");
    block_open(k, "FOR_ROWS (%s, %s)", number, size_bare(k, r->rows));
    Var *row = loop_var(k, number, r->rows);
    if (r->parts) part = part_of(k, r, number, &row, rows);
    row_groups(k, row, s.kept, s.n_kept, of_group);
    part_bounds(k, r, &s, part, &from, &to);
    r->sum = fresh_name(k, reduced_word(k->group, r->y));
    const char *start = text_of(k, "%s %s = %s;\n", r->by.type, r->sum, r->by.start);
    const int open = open_reduced(k, &s, 1, from, to, of_group);
    const int last = s.reduced[s.n_reduced - 1];
    if (open == 0 && r->parts) { /* a loop from first to last, counted from 0 */
        block_open(k, "REDUCES(%s, %s)\nFOR_THREADS (j, last - first)", r->by.reduces, r->sum);
        Affine j = affine_var(k, group_var(k, last, "j"));
        if (k->pass != PASS_COLLECT) {
            Var *first = defined_var(k, "unused", k->depth - 2, NULL, NULL);
            first->name = "first", first->standing = true, first->at_level = k->depth - 2;
            first->bound = expr_int(k->symbols, 1); /* first + j is less than the extent, as j alone is held to be */
            Affine begin = affine_var(k, first);
            j = affine_add(k, &begin, &j, expr_int(k->symbols, 1));
        }
        of_group[last] = j;
        k->lane_blocks = 1;
    } else {
        of_group[last] = lanes_open(k, "THREADS", text_of(k, "%s, %s", r->by.reduces, r->sum), last, "j", size_bare(k, k->groups[last].extent));
    }
    k->block[k->depth - k->lane_blocks - open].before = start;
    take_element(k, r, of_group, r->sum);
    lanes_close(k);
    for (int i = 0; i < open; i++) block_close(k);
    line(k, "%s = %s(%s);", r->sum, r->by.combine, r->sum);
    line(k, "if (FIRST_THREAD) %s[%s] = %s;", y, number, result(k, r, r->sum));
    block_close(k);
    r->each = groups_extent(k, s.reduced, s.n_reduced);
}

/* ---- the last axis is kept ---- */
static void columns_body(Kernel *k, Reduction *r)
{
    const Split s = split_groups(k);
    Affine of_group[MAX_AXES];
    const int column = s.kept[s.n_kept - 1];
    Expr *rows = groups_extent(k, s.kept, s.n_kept - 1), *width = k->groups[column].extent,
         *both = r->parts ? expr_mul(k->symbols, rows, r->parts) : rows;
    if (k->n_groups == 2 && keeps_places(k->group))
        size_any(k, k->groups[s.reduced[0]].extent, "rows"), size_any(k, width, "columns");
    if (r->parts) size_called(k, r->parts, "parts");
    size_called(k, width, "columns");
    size_called(k, k->groups[s.reduced[0]].extent, "rows");
    for (int i = 1; i < s.n_reduced; i++) size_called(k, k->groups[s.reduced[i]].extent, "length");
    const char *y = target(k, r), *n = size_text(k, width), *part = NULL, *from, *to;
    const bool alone = expr_is(both, 1);
    if (alone)
        block_open(k, "FOR_ROWS (block, strips(%s))", size_bare(k, width));
    else
        block_open(k, "FOR_ROWS (block, %s * strips(%s))", size_text(k, both), size_bare(k, width));
    Var *row = loop_var(k, "block", NULL);
    if (!alone) {
        line(k, "const Index line = block / strips(%s);", size_bare(k, width));
        row = loop_var(k, "line", both);
    }
    line(k, "const Index column = %s * STRIP, width = strip_width(%s, column);",
         alone ? "block" : text_of(k, "block %% strips(%s)", size_bare(k, width)), size_bare(k, width));
    Var *first_column = loop_var(k, "column", NULL);
    first_column->bound = expr_int(k->symbols, 1); /* column + k is less than width, as k alone is held to be */
    if (r->parts) part = part_of(k, r, row->name, &row, rows);
    row_groups(k, row, s.kept, s.n_kept - 1, of_group);
    part_bounds(k, r, &s, part, &from, &to);
    r->sum = fresh_name(k, reduced_word(k->group, r->y));
    const char *own = text_of(k, "%s[OWN(k)]", r->sum);
    line(k, "%s %s[STRIP_OWN];", r->by.type, r->sum);
    line(k, "FOR_STRIP (k, width) %s = %s;", own, r->by.start);
    const int open = open_reduced(k, &s, 0, from, to, of_group);
    block_open(k, "FOR_STRIP (k, width)");
    Affine c = affine_var(k, group_var(k, column, "k"));
    if (k->pass != PASS_COLLECT) {
        Affine begin = affine_var(k, first_column);
        c = affine_add(k, &begin, &c, expr_int(k->symbols, 1));
    }
    of_group[column] = c;
    take_element(k, r, of_group, own);
    block_close(k);
    for (int i = 0; i < open; i++) block_close(k);
    if (alone)
        line(k, "FOR_STRIP (k, width) %s[column + k] = %s;", y, result(k, r, own));
    else
        line(k, "FOR_STRIP (k, width) %s[line * %s + column + k] = %s;", y, n, result(k, r, own));
    block_close(k);
    r->rows = expr_mul(k->symbols, both, expr_ceildiv(k->symbols, width, expr_int(k->symbols, PARTS)));
    r->each = expr_mul(k->symbols, expr_int(k->symbols, PARTS), groups_extent(k, s.reduced, s.n_reduced));
    r->columns = true;
}

/* In the first pass the loops stand in the operand's order; only what is read where counts. */
static void collect_body(Kernel *k, Reduction *r)
{
    Affine of_group[MAX_AXES];
    param_result(k, r->y, "y");
    block_open(k, "%s", "");
    for (int g = 0; g < k->n_groups; g++) of_group[g] = affine_var(k, group_var(k, g, ""));
    take_element(k, r, of_group, "s");
    block_close(k);
}

/* Nothing to reduce: every reduced axis is 1. */
static void single_body(Kernel *k, Reduction *r)
{
    Affine of_group[MAX_AXES];
    const Split s = split_groups(k);
    const char *y = target(k, r);
    r->rows = groups_extent(k, s.kept, s.n_kept);
    block_open(k, "FOR_EACH (i, %s)", size_bare(k, r->rows));
    row_groups(k, loop_var(k, "i", r->rows), s.kept, s.n_kept, of_group);
    r->sum = fresh_name(k, reduced_word(k->group, r->y));
    line(k, "%s %s = %s;", r->by.type, r->sum, r->by.start);
    take_element(k, r, of_group, r->sum);
    line(k, "%s[i] = %s;", y, result(k, r, r->sum));
    block_close(k);
    r->each = NULL;
}

static void reduce_body(Kernel *k, void *context)
{
    Reduction *r = context;
    const Split s = split_groups(k);
    if (k->pass == PASS_COLLECT)
        collect_body(k, r);
    else if (s.n_reduced == 0)
        single_body(k, r);
    else if (s.n_kept > 0 && k->groups[k->n_groups - 1].kind == KEPT)
        columns_body(k, r);
    else
        rows_body(k, r);
}

/* ---- second stage: the parts together ---- */
static void parts_body(Kernel *k, void *context)
{
    Reduction *r = context;
    const char *y = param_result(k, r->y, "y"),
               *part = param_other(k, ARG_SCRATCH, "part", text_of(k, "const %s *", r->by.type), r->offset);
    size_called(k, r->parts, "parts");
    if (!expr_is(r->rows, 1)) size_any(k, r->rows, "rows");
    if (r->columns) size_any(k, r->each, "columns");
    const char *parts = size_bare(k, r->parts), *n = size_bare(k, r->rows);
    const char *sum = fresh_name(k, reduced_word(k->group, r->y)), *own = text_of(k, r->columns ? "%s[OWN(k)]" : "%s", sum);
    const char *value = stored(k, r->y->dtype, (Code){own, BINDS_LOW, 0});
    if (!r->columns) {
        block_open(k, "FOR_ROWS (row, %s)", n);
        line(k, "%s %s = %s;", r->by.type, sum, r->by.start);
        block_open(k, "REDUCES(%s, %s)\nFOR_THREADS (p, %s)", r->by.reduces, sum, parts);
        line(k, "%s;", combined(k, &r->by, sum, text_of(k, "%s[row * %s + p]", part, parts)));
        block_close(k);
        line(k, "%s = %s(%s);", sum, r->by.combine, sum);
        line(k, "if (FIRST_THREAD) %s[row] = %s;", y, value);
        block_close(k);
        return;
    }
    const char *width = size_bare(k, r->each); /* here: columns */
    const bool one = expr_is(r->rows, 1);
    if (one) {
        block_open(k, "FOR_ROWS (block, strips(%s))", width);
        line(k, "const Index column = block * STRIP, width = strip_width(%s, column);", width);
    } else {
        block_open(k, "FOR_ROWS (block, %s * strips(%s))", n, width);
        line(k, "const Index row = block / strips(%s);", width);
        line(k, "const Index column = block %% strips(%s) * STRIP, width = strip_width(%s, column);", width, width);
    }
    line(k, "%s %s[STRIP_OWN];", r->by.type, sum);
    line(k, "FOR_STRIP (k, width) %s = %s;", own, r->by.start);
    block_open(k, "for (Index p = 0; p < %s; p++)", parts);
    if (one)
        line(k, "const Index at = p * %s + column;", width);
    else
        line(k, "const Index at = (row * %s + p) * %s + column;", parts, width);
    line(k, "FOR_STRIP (k, width) %s;", combined(k, &r->by, own, text_of(k, "%s[at + k]", part)));
    block_close(k);
    if (one)
        line(k, "FOR_STRIP (k, width) %s[column + k] = %s;", y, value);
    else
        line(k, "FOR_STRIP (k, width) %s[row * %s + column + k] = %s;", y, width, value);
    block_close(k);
}

/* ---- choosing ---- */
/* How many parts, or NULL where one go is as good. */
static Expr *choose_parts(Kernel *k, const Split *s, bool columns)
{
    Symbols *symbols = k->symbols;
    Expr *kept = groups_extent(k, s->kept, s->n_kept), *reduced = groups_extent(k, s->reduced, s->n_reduced);
    const int64_t most = columns ? 16384 : 64, least = columns ? 128 : 16384;
    if (s->n_reduced == 0 || expr_likely(symbols, kept) >= most || expr_likely(symbols, reduced) < least) return NULL;
    Expr *first = k->groups[s->reduced[0]].extent;
    const int64_t grain = columns ? 16 : s->n_reduced == 1 ? 2048 : 1;
    Expr *parts = expr_min(symbols, expr_int(symbols, PARTS), expr_ceildiv(symbols, first, expr_int(symbols, grain)));
    return expr_max(symbols, expr_int(symbols, 1), parts);
}

/* "squares_of_rows"; rows: how many results. */
static const char *reduction_name(Kernels *all, const Group *group, const Reduction *r, Expr *rows, bool columns)
{
    return arena_text(all->arena, "%s_of_%s", reduced_word(group, r->y), columns ? "columns" : expr_is(rows, 1) ? "all" : "rows");
}

static void emit_plain(Emission *e, Reduction *r)
{
    Symbols *symbols = e->all->symbols;
    int n, kinds[MAX_AXES] = {0};
    const int64_t *axes = op_ints(r->op, ATTR_axes, &n);
    for (int i = 0; i < n; i++) kinds[axes[i]] = REDUCED;
    r->by = combining(e->all, r->op);
    Kernel *k = kernel_new_indexed(e->all, e->group);
    kernel_axes(k, r->x->shape, kinds, r->x->rank);
    lanes_in_fours(k);
    kernel_write(k, reduce_body, r); /* once without parts: its merged axes say whether parts are wanted */
    const Split s = split_groups(k);
    const bool columns = r->columns;
    r->parts = choose_parts(k, &s, columns);
    if (!r->parts) {
        k->kind = columns ? "column kernel" : r->each ? "row kernel" : "loop kernel";
        Launch *l = kernel_launch(k, reduction_name(e->all, e->group, r, r->rows, columns), r->rows, r->each,
                                  r->columns ? 64 : lanes_threads(k, r->each ? r->each : r->rows));
        vec_push(e->all->arena, &e->launches, l);
        return;
    }
    Expr *kept = groups_extent(k, s.kept, s.n_kept);
    e->scratch = expr_mul(symbols, expr_mul(symbols, kept, r->parts),
                          expr_int(symbols, strcmp(r->by.type, "float") == 0  ? 4
                                            : strcmp(r->by.type, "bool") == 0 ? 1
                                                                              : 8));
    k = kernel_new_indexed(e->all, e->group);
    kernel_axes(k, r->x->shape, kinds, r->x->rank);
    kernel_write(k, reduce_body, r);
    const char *name = reduction_name(e->all, e->group, r, kept, columns);
    k->kind = columns ? "column kernel, first of two stages," : "row kernel, first of two stages,";
    Launch *l = kernel_launch(k, arena_text(e->all->arena, "%s_parts", name), r->rows, r->each, columns ? 64 : 256);
    if (columns && s.n_kept == 1 && s.n_reduced == 1) l->shares = r->parts;
    vec_push(e->all->arena, &e->launches, l);
    Kernel *second = kernel_new_indexed(e->all, e->group);
    r->rows = columns ? groups_extent(k, s.kept, s.n_kept - 1) : kept;
    r->each = columns ? k->groups[s.kept[s.n_kept - 1]].extent : NULL;
    kernel_axes(second, NULL, NULL, 0);
    kernel_write(second, parts_body, r);
    second->kind = columns ? "column kernel, second of two stages," : "row kernel, second of two stages,";
    second->part = true;
    Expr *strips = columns ? expr_mul(symbols, r->rows, expr_ceildiv(symbols, r->each, expr_int(symbols, PARTS))) : r->rows;
    l = kernel_launch(second, arena_text(e->all->arena, "%s_of_parts", reduced_word(&(Group){.ops = {.n = 1}}, r->y)), strips,
                      columns ? expr_mul(symbols, r->parts, expr_int(symbols, PARTS)) : r->parts, 64);
    l->moved = expr_int(symbols, 0);
    l->flops = expr_int(symbols, 0);
    vec_push(e->all->arena, &e->launches, l);
}

/* ---- arg max and min ---- */
static void arg_body(Kernel *k, void *context)
{
    Reduction *r = context;
    const Split s = split_groups(k);
    if (k->pass == PASS_COLLECT) {
        collect_body(k, r);
        return;
    }
    Affine of_group[MAX_AXES];
    const char *type = compute_type(r->x->dtype), *y = param_result(k, r->y, "y");
    const char *choice =
        text_of(k, "%s, %s", r->op->kind == OP_arg_max ? "true" : "false", op_int(r->op, ATTR_last) ? "true" : "false");
    r->rows = groups_extent(k, s.kept, s.n_kept);
    if (s.n_reduced == 0) {
        block_open(k, "FOR_EACH (i, %s)", size_bare(k, r->rows));
        line(k, "%s[i] = 0;", y);
        block_close(k);
        r->each = NULL;
        return;
    }
    size_called(k, r->rows, "rows");
    size_called(k, k->groups[s.reduced[0]].extent, "columns");
    block_open(k, "FOR_ROWS (row, %s)", size_bare(k, r->rows));
    row_groups(k, loop_var(k, "row", r->rows), s.kept, s.n_kept, of_group);
    line(k, "Best<%s> best = {0, -1};", type);
    block_open(k, "FOR_THREADS (j, %s)", size_bare(k, k->groups[s.reduced[0]].extent));
    of_group[s.reduced[0]] = affine_var(k, group_var(k, s.reduced[0], "j"));
    Index index = axes_index(k, of_group);
    Code x = element(k, r->x, &index);
    line(k, "const Best<%s> next = {%s, j};", type, x.text);
    line(k, "if (beats<%s>(next, best)) best = next;", choice);
    block_close(k);
    line(k, "best = block_best<%s>(best);", choice);
    line(k, "if (FIRST_THREAD) %s[row] = best.at;", y);
    block_close(k);
    r->each = k->groups[s.reduced[0]].extent;
}

static void emit_arg(Emission *e, Reduction *r)
{
    int kinds[MAX_AXES] = {0};
    kinds[op_int(r->op, ATTR_axis)] = REDUCED;
    r->by.update = "%s = %s";
    Kernel *k = kernel_new_indexed(e->all, e->group);
    kernel_axes(k, r->x->shape, kinds, r->x->rank);
    kernel_write(k, arg_body, r);
    k->kind = "row kernel";
    Launch *l = kernel_launch(k, op_info(r->op->kind)->name, r->rows, r->each, threads_for(e->all, r->each ? r->each : r->rows));
    vec_push(e->all->arena, &e->launches, l);
}

const Op *reduction_of(const Group *group)
{
    const Op *op = main_op(group);
    for (int i = group->ops.n - 1; i >= 0 && op_info(op->kind)->class != REDUCE; i--) op = group->ops.at[i];
    check(op_info(op->kind)->class == REDUCE);
    return op;
}

void emit_reduce(Emission *e)
{
    Reduction r = {.op = reduction_of(e->group)};
    r.x = r.op->in[0];
    r.y = r.op->out[0];
    Value **kept = NEW_ARRAY(e->all->arena, Value *, e->group->out.n);
    for (int i = 0; i < e->group->out.n; i++)
        if (e->group->out.at[i] != r.y) kept[r.n_stored++] = e->group->out.at[i];
    r.stored = kept;
    r.offset = expr_int(e->all->symbols, 0);
    if (r.op->kind == OP_arg_max || r.op->kind == OP_arg_min)
        emit_arg(e, &r);
    else
        emit_plain(e, &r);
}
