/* Reductions.  Where the last axis is reduced: a block a row, its threads along the last axis.  Where it is kept: a block a strip
 * of columns, walked from top to bottom.  Where there are few results and much to reduce, a fixed number of parts first, then the
 * parts: so sums do not depend on how many threads there are.
 *
 * A group may make several sums over the same axes, which then read their operands together, and what elementwise operations make of
 * them: a mean is a sum and a division. */
#include "emit/kernel.h"
#include <string.h>

enum { PARTS = 64, KEPT = 0, REDUCED = 1, MOST_SUMS = 8 };

typedef struct {
    Value *x, *y;
    Combining by;
    const char *s, *part; /* its variable; where its parts lie */
    Expr *offset;         /* of its parts in scratch memory */
} Sum;

typedef struct {
    const Op *op; /* the first one */
    Sum sum[MOST_SUMS];
    int n;
    Value **stored; /* values of x's shape that the group keeps */
    int n_stored;
    Value **given; /* sums, and what is made of them */
    int n_given;
    Expr *parts; /* NULL: in one go */
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

/* "s[OWN(k)]" of a strip of columns. */
static const char *variable(Kernel *k, const Reduction *r, int i, bool strip)
{
    return strip ? text_of(k, "%s[OWN(k)]", r->sum[i].s) : r->sum[i].s;
}

static const char *declarations(Kernel *k, Reduction *r)
{
    Buf out = {.arena = k->arena};
    for (int i = 0; i < r->n; i++) {
        const Combining *by = &r->sum[i].by;
        r->sum[i].s = fresh_name(k, reduced_word(k->group, r->sum[i].y));
        buf_printf(&out, "%s %s = %s;\n", by->type, r->sum[i].s, by->start);
    }
    return buf_text(&out);
}

static void declare(Kernel *k, Reduction *r, bool strip)
{
    for (int i = 0; i < r->n; i++) {
        const Combining *by = &r->sum[i].by;
        r->sum[i].s = fresh_name(k, reduced_word(k->group, r->sum[i].y));
        line(k, strip ? "%s %s[STRIP_OWN];" : "%s %s = %s;", by->type, r->sum[i].s, by->start);
    }
    for (int i = 0; i < r->n && strip; i++) line(k, "FOR_STRIP (k, width) %s = %s;", variable(k, r, i, true), r->sum[i].by.start);
}

/* In the innermost loop: takes the elements at index, and stores what the group keeps of them. */
static void take_elements(Kernel *k, const Reduction *r, const Affine *of_group, bool strip)
{
    Index index = axes_index(k, of_group);
    Code x[MOST_SUMS], kept[16];
    check(r->n_stored <= 16);
    for (int i = 0; i < r->n; i++) x[i] = element(k, r->sum[i].x, &index);
    for (int i = 0; i < r->n_stored; i++)
        kept[i] = named(k, element(k, r->stored[i], &index), compute_type(r->stored[i]->dtype), local_name(k, r->stored[i]));
    for (int i = 0; i < r->n_stored; i++) {
        Affine at = index_flat(k, r->stored[i], &index);
        affine_seen(k, &at);
        const char *name = param_result(k, r->stored[i], NULL);
        lanes_store(k, r->stored[i], name, &at, stored(k, r->stored[i]->dtype, kept[i]));
    }
    for (int i = 0; i < r->n; i++)
        line(k, "%s;", combined(k, &r->sum[i].by, variable(k, r, i, strip), wrapped(k, x[i], BINDS_LOW)));
}

/* The loop over a row's elements, or over parts, reduces into these variables. */
static const char *reduced(Kernel *k, const Reduction *r)
{
    Buf names = {.arena = k->arena};
    for (int i = 0; i < r->n; i++) buf_printf(&names, ", %s", r->sum[i].s);
    return text_of(k, "%s%s", r->sum[0].by.reduces, buf_text(&names));
}

static void combine_threads(Kernel *k, const Reduction *r)
{
    for (int i = 0; i < r->n; i++) line(k, "%s = %s(%s);", r->sum[i].s, r->sum[i].by.combine, r->sum[i].s);
}

static void declare_result(Kernel *k, Value *v, int of)
{
    if (of == 1)
        param_result(k, v, "y");
    else
        param_update(k, v);
}

/* Where results go, as parameters: they come first. */
static void declare_results(Kernel *k, Reduction *r)
{
    const int given = r->parts ? 0 : r->n_given, all = r->n_stored + given;
    for (int i = 0; i < all; i++) declare_result(k, i < r->n_stored ? r->stored[i] : r->given[i - r->n_stored], all);
    for (int i = 0; i < r->n && r->parts; i++)
        r->sum[i].part = param_other(k, ARG_SCRATCH, i ? text_of(k, "part%d", i + 1) : "part",
                                     text_of(k, "%s *", r->sum[i].by.type), r->sum[i].offset);
}

/* Stores what is made of the sums at one place: y[place].  who: "if (FIRST_THREAD) " where all threads have them. */
static void store_results(Kernel *k, const Reduction *r, const Affine *place, bool strip, const char *who)
{
    const Index index = {.flat = true, .at[0] = *place};
    const int known = k->at_hand.n;
    Code code[MOST_SUMS + 16];
    check(r->n_given <= MOST_SUMS + 16);
    for (int i = 0; i < r->n; i++)
        vec_push(k->arena, &k->at_hand, ((__typeof__(*k->at_hand.at)){r->sum[i].y, variable(k, r, i, strip), false, k->depth - 1}));
    for (int i = 0; i < r->n_given; i++) {
        code[i] = element(k, r->given[i], &index);
        const bool is_sum = op_info(r->given[i]->def->kind)->class == REDUCE;
        if (r->n_given > 1 && !is_sum) code[i] = named(k, code[i], compute_type(r->given[i]->dtype), local_name(k, r->given[i]));
    }
    for (int i = 0; i < r->n_given; i++) {
        const char *y = param_result(k, r->given[i], NULL);
        affine_seen(k, place);
        line(k, "%s%s[%s] = %s;", who, y, affine_text(k, place), stored(k, r->given[i]->dtype, code[i]));
    }
    k->at_hand.n = known;
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
    declare_results(k, r);
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
    const char *start = declarations(k, r);
    const int open = open_reduced(k, &s, 1, from, to, of_group);
    const int last = s.reduced[s.n_reduced - 1];
    if (open == 0 && r->parts) { /* a loop from first to last, counted from 0 */
        block_open(k, "REDUCES(%s)\nFOR_THREADS (j, last - first)", reduced(k, r));
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
        of_group[last] = lanes_open(k, "THREADS", reduced(k, r), last, "j", size_bare(k, k->groups[last].extent));
    }
    k->block[k->depth - k->lane_blocks - open].before = start;
    take_elements(k, r, of_group, false);
    lanes_close(k);
    for (int i = 0; i < open; i++) block_close(k);
    combine_threads(k, r);
    for (int i = 0; i < r->n && r->parts; i++) line(k, "if (FIRST_THREAD) %s[%s] = %s;", r->sum[i].part, number, r->sum[i].s);
    const Affine place = affine_var(k, row);
    if (!r->parts) store_results(k, r, &place, false, "if (FIRST_THREAD) ");
    block_close(k);
    r->each = groups_extent(k, s.reduced, s.n_reduced);
}

/* ---- the last axis is kept ---- */
/* Of a strip of columns: at row * width + column + k; row NULL: 0. */
static void store_columns(Kernel *k, const Reduction *r, Var *row, Expr *width, Var *first_column)
{
    block_open(k, "FOR_STRIP (k, width)");
    Affine place = affine_int(k, 0), step = affine_var(k, loop_var(k, "k", NULL)), column = affine_var(k, first_column);
    if (row) {
        const Affine of_row = affine_var(k, row);
        place = affine_add(k, &place, &of_row, width);
    }
    place = affine_add(k, &place, &column, expr_int(k->symbols, 1));
    place = affine_add(k, &place, &step, expr_int(k->symbols, 1));
    store_results(k, r, &place, true, "");
    block_close(k);
}

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
    declare_results(k, r);
    const char *n = size_text(k, width), *part = NULL, *from, *to;
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
    declare(k, r, true);
    const int open = open_reduced(k, &s, 0, from, to, of_group);
    block_open(k, "FOR_STRIP (k, width)");
    Affine c = affine_var(k, group_var(k, column, "k"));
    if (k->pass != PASS_COLLECT) {
        Affine begin = affine_var(k, first_column);
        c = affine_add(k, &begin, &c, expr_int(k->symbols, 1));
    }
    of_group[column] = c;
    take_elements(k, r, of_group, true);
    block_close(k);
    for (int i = 0; i < open; i++) block_close(k);
    for (int i = 0; i < r->n && r->parts; i++)
        line(k, "FOR_STRIP (k, width) %s[%scolumn + k] = %s;", r->sum[i].part, alone ? "" : text_of(k, "line * %s + ", n),
             variable(k, r, i, true));
    if (!r->parts) store_columns(k, r, alone ? NULL : row, width, first_column);
    block_close(k);
    r->rows = expr_mul(k->symbols, both, expr_ceildiv(k->symbols, width, expr_int(k->symbols, PARTS)));
    r->each = expr_mul(k->symbols, expr_int(k->symbols, PARTS), groups_extent(k, s.reduced, s.n_reduced));
    r->columns = true;
}

/* In the first pass the loops stand in the operand's order; only what is read where counts. */
static void collect_body(Kernel *k, Reduction *r)
{
    Affine of_group[MAX_AXES];
    declare_results(k, r);
    block_open(k, "%s", "");
    for (int g = 0; g < k->n_groups; g++) of_group[g] = affine_var(k, group_var(k, g, ""));
    for (int i = 0; i < r->n; i++) r->sum[i].s = "s";
    take_elements(k, r, of_group, false);
    block_close(k);
}

/* Nothing to reduce: every reduced axis is 1. */
static void single_body(Kernel *k, Reduction *r)
{
    Affine of_group[MAX_AXES];
    const Split s = split_groups(k);
    declare_results(k, r);
    r->rows = groups_extent(k, s.kept, s.n_kept);
    block_open(k, "FOR_EACH (i, %s)", size_bare(k, r->rows));
    Var *i = loop_var(k, "i", r->rows);
    row_groups(k, i, s.kept, s.n_kept, of_group);
    declare(k, r, false);
    take_elements(k, r, of_group, false);
    const Affine place = affine_var(k, i);
    store_results(k, r, &place, false, "");
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
    const char *part[MOST_SUMS];
    for (int i = 0; i < r->n_given; i++) declare_result(k, r->given[i], r->n_given);
    for (int i = 0; i < r->n; i++)
        part[i] = param_other(k, ARG_SCRATCH, i ? text_of(k, "part%d", i + 1) : "part", text_of(k, "const %s *", r->sum[i].by.type),
                              r->sum[i].offset);
    size_called(k, r->parts, "parts");
    if (!expr_is(r->rows, 1)) size_any(k, r->rows, "rows");
    if (r->columns) size_any(k, r->each, "columns");
    const char *parts = size_bare(k, r->parts), *n = size_bare(k, r->rows);
    if (!r->columns) {
        block_open(k, "FOR_ROWS (row, %s)", n);
        const Affine place = affine_var(k, loop_var(k, "row", r->rows));
        declare(k, r, false);
        block_open(k, "REDUCES(%s)\nFOR_THREADS (p, %s)", reduced(k, r), parts);
        for (int i = 0; i < r->n; i++)
            line(k, "%s;", combined(k, &r->sum[i].by, r->sum[i].s, text_of(k, "%s[row * %s + p]", part[i], parts)));
        block_close(k);
        combine_threads(k, r);
        store_results(k, r, &place, false, "if (FIRST_THREAD) ");
        block_close(k);
        return;
    }
    const char *width = size_bare(k, r->each); /* here: columns */
    const bool one = expr_is(r->rows, 1);
    Var *row = NULL;
    if (one) {
        block_open(k, "FOR_ROWS (block, strips(%s))", width);
        line(k, "const Index column = block * STRIP, width = strip_width(%s, column);", width);
    } else {
        block_open(k, "FOR_ROWS (block, %s * strips(%s))", n, width);
        line(k, "const Index row = block / strips(%s);", width);
        line(k, "const Index column = block %% strips(%s) * STRIP, width = strip_width(%s, column);", width, width);
        row = loop_var(k, "row", r->rows);
    }
    Var *column = loop_var(k, "column", NULL);
    column->bound = expr_int(k->symbols, 1);
    declare(k, r, true);
    block_open(k, "for (Index p = 0; p < %s; p++)", parts);
    if (one)
        line(k, "const Index at = p * %s + column;", width);
    else
        line(k, "const Index at = (row * %s + p) * %s + column;", parts, width);
    for (int i = 0; i < r->n; i++)
        line(k, "FOR_STRIP (k, width) %s;", combined(k, &r->sum[i].by, variable(k, r, i, true), text_of(k, "%s[at + k]", part[i])));
    block_close(k);
    store_columns(k, r, row, r->each, column);
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

/* "norm_statistics", "relu_gradient_and_sums", "bias_relu_mean" */
static const char *summing_name(Kernels *all, const char *role, const Reduction *r, const char *word)
{
    const size_t n = strlen(role);
    const bool back = n > 9 && strcmp(role + n - 9, "_gradient") == 0;
    if (n > 11 && strcmp(role + n - 11, "_statistics") == 0) return role;
    if (back) return arena_text(all->arena, "%s%s_sum%s", role, r->n_stored ? "_and" : "", r->n > 1 ? "s" : "");
    return arena_text(all->arena, "%s%s_%s", role, r->n_stored ? "_and" : "", word);
}

/* "squares_of_rows", "mean_of_rows", "chosen_and_sum_of_columns"; rows: how many results. */
static const char *reduction_name(Kernels *all, const Group *group, const Reduction *r, Expr *rows, bool columns)
{
    const Value *last = r->n_given ? r->given[r->n_given - 1] : r->sum[0].y;
    const char *word = r->n > 1 ? "sums" : last == r->sum[0].y ? reduced_word(group, last) : made_word(last);
    const char *role = role_name(all, group);
    if (role) return summing_name(all, role, r, last == r->sum[0].y ? word : made_word(last));
    const char *stored = r->n_stored ? arena_text(all->arena, "%s_and_", made_word(r->stored[0])) : "";
    return arena_text(all->arena, "%s%s_of_%s", stored, word, columns ? "columns" : expr_is(rows, 1) ? "all" : "rows");
}

/* That of the second stage, which many kernels share: "sum_of_parts". */
static const char *parts_name(Kernels *all, const Group *group, const Reduction *r)
{
    const Value *last = r->given[r->n_given - 1];
    const bool plain = last == r->sum[0].y;
    const char *word = r->n > 1 ? "sums" : plain ? reduced_word(&(Group){.ops = {.n = 1}}, last) : made_word(last);
    bool more = false; /* than sums, which any node's may be */
    for (int i = 0; i < r->n_given; i++) more = more || op_info(r->given[i]->def->kind)->class != REDUCE;
    const char *role = more ? role_name(all, group) : NULL;
    if (role) return summing_name(all, role, r, word);
    return arena_text(all->arena, "%s_of_parts", word);
}

static void emit_plain(Emission *e, Reduction *r)
{
    Symbols *symbols = e->all->symbols;
    int n, kinds[MAX_AXES] = {0};
    const int64_t *axes = op_ints(r->op, ATTR_axes, &n);
    for (int i = 0; i < n; i++) kinds[axes[i]] = REDUCED;
    const Value *x = r->sum[0].x;
    Kernel *k = kernel_new_indexed(e->all, e->group);
    kernel_axes(k, x->shape, kinds, x->rank);
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
    Expr *kept = groups_extent(k, s.kept, s.n_kept), *count = expr_mul(symbols, kept, r->parts);
    for (int i = 0; i < r->n; i++) { /* all of one type */
        const char *type = r->sum[i].by.type;
        const int bytes = strcmp(type, "float") == 0 ? 4 : strcmp(type, "bool") == 0 ? 1 : 8;
        r->sum[i].offset = e->scratch ? e->scratch : expr_int(symbols, 0);
        e->scratch = expr_add(symbols, r->sum[i].offset, expr_mul(symbols, count, expr_int(symbols, bytes)));
    }
    k = kernel_new_indexed(e->all, e->group);
    kernel_axes(k, x->shape, kinds, x->rank);
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
    l = kernel_launch(second, parts_name(e->all, e->group, r), strips,
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
    Value *of = r->sum[0].x;
    const char *type = compute_type(of->dtype), *y = param_result(k, r->sum[0].y, "y");
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
    Code x = element(k, of, &index);
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
    r->sum[0].by.update = "%s = %s";
    Kernel *k = kernel_new_indexed(e->all, e->group);
    kernel_axes(k, r->sum[0].x->shape, kinds, r->sum[0].x->rank);
    kernel_write(k, arg_body, r);
    k->kind = "row kernel";
    Launch *l = kernel_launch(k, op_info(r->op->kind)->name, r->rows, r->each, threads_for(e->all, r->each ? r->each : r->rows));
    vec_push(e->all->arena, &e->launches, l);
}

static void add_sum(Kernels *all, Reduction *r, const Op *op)
{
    check(r->n < MOST_SUMS);
    Sum *sum = &r->sum[r->n++];
    *sum = (Sum){.x = op->in[0], .y = op->out[0], .offset = expr_int(all->symbols, 0)};
    if (op->kind != OP_arg_max && op->kind != OP_arg_min) sum->by = combining(all, op);
    if (!r->op) r->op = op;
}

const Op *reduction_of(const Group *group)
{
    for (int i = group->ops.n - 1; i >= 0; i--)
        if (op_info(group->ops.at[i]->kind)->class == REDUCE) return group->ops.at[i];
    bug("a kernel of reductions has none");
}

void emit_reduce(Emission *e)
{
    const Values *out = &e->group->out;
    Reduction r = {.n = 0};
    for (int i = 0; i < e->group->ops.n; i++)
        if (op_info(e->group->ops.at[i]->kind)->class == REDUCE) add_sum(e->all, &r, e->group->ops.at[i]);
    check(r.n > 0);
    Expr *results = count_of(e->all, r.sum[0].y);
    r.stored = NEW_ARRAY(e->all->arena, Value *, out->n);
    r.given = NEW_ARRAY(e->all->arena, Value *, out->n);
    for (int i = 0; i < out->n; i++) {
        const bool is_result = expr_always_equal(e->all->symbols, count_of(e->all, out->at[i]), results);
        if (is_result)
            r.given[r.n_given++] = out->at[i];
        else
            r.stored[r.n_stored++] = out->at[i];
    }
    if (r.op->kind == OP_arg_max || r.op->kind == OP_arg_min)
        emit_arg(e, &r);
    else
        emit_plain(e, &r);
}
