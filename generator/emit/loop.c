/* Loop kernels: every element of the results is computed alone, from operand elements at mapped indices.  One flat loop where all
 * operands are walked alike; otherwise rows, whose index arithmetic is done once a row, and an inner loop along the last axis. */
#include "emit/kernel.h"
#include <string.h>

typedef struct {
    Value *const *values;
    Value *const *to; /* what they are stored as: themselves, or the target of an assign */
    int n;
    const Value *walked; /* of the shape that is walked */
} Results;

/* ---- elements that keep what they have ---- */
typedef struct {
    const Op *assign; /* the first that has this condition, of this weight */
    const char *refused;
} Condition;
typedef struct {
    Condition at[MAX_PIECES];
    int n;
    const char *reduces; /* "|, refused"; NULL: no assign of the group has a condition */
} Conditions;

static const Tensor *weight_of(const Op *assign)
{
    const Tensor *t = assign->in[0]->tensor;
    return t && t->of ? t->of : t;
}

static Conditions conditions_open(Kernel *k, const Results *r)
{
    Conditions all = {.n = 0};
    for (int i = 0; i < r->n; i++) {
        const Op *assign = assign_where(k->group, r->values[i]);
        bool known = !assign;
        for (int c = 0; c < all.n && !known; c++)
            known = all.at[c].assign->in[2] == assign->in[2] && weight_of(all.at[c].assign) == weight_of(assign);
        if (known) continue;
        const char *refused = fresh_name(k, "refused");
        line(k, "int %s = 0;", refused);
        all.reduces = all.n ? text_of(k, "%s, %s", all.reduces, refused) : text_of(k, "|, %s", refused);
        all.at[all.n++] = (Condition){assign, refused};
    }
    return all;
}

static void conditions_close(Kernel *k, const Conditions *all)
{
    for (int i = 0; i < all->n; i++) line(k, "if (%s) raise_flag(%s);", all->at[i].refused, param_kept(k, all->at[i].assign->in[0]));
}

/* The codes of what is stored become "finite ? next : what is there". */
static void keep_elements(Kernel *k, const Conditions *all, const Results *r, Pieces *pieces, const Index *index)
{
    Code where[MAX_PIECES];
    for (int i = 0; i < all->n; i++) {
        where[i] = named(k, element(k, all->at[i].assign->in[2], index), "bool", "finite");
        line(k, "%s |= !%s;", all->at[i].refused, where[i].text);
    }
    for (int i = 0; i < r->n && all->n; i++) {
        const Op *assign = assign_where(k->group, r->values[i]);
        for (int c = 0; assign && c < all->n; c++) {
            if (all->at[c].assign->in[2] != assign->in[2] || weight_of(all->at[c].assign) != weight_of(assign)) continue;
            const Code old = element(k, assign->in[0], index);
            pieces->code[i].text = text_of(k, "%s ? %s : %s", where[c].text, pieces->code[i].text, old.text);
            pieces->code[i].binds = BINDS_LOW;
        }
    }
}

static const char *result_name(Kernel *k, const Results *r, int i)
{
    return r->n == 1 && !updates_in_place(k->group) ? param_result(k, r->to[i], "y") : param_update(k, r->to[i]);
}

/* Where all results' elements lie: every one is computed before the first is stored, as a result may lie in an operand's memory. */
static void store_all(Kernel *k, const Results *r, const Conditions *conditions, const Affine *of_group)
{
    const Index index = axes_index(k, of_group);
    Pieces pieces; /* hundreds of kilobytes: not set to zero */
    pieces.n = 0;
    int first[MAX_PIECES + 1];
    check(r->n <= MAX_PIECES);
    for (int i = 0; i < r->n; i++) {
        first[i] = pieces.n;
        pieces_of(k, r->values[i], r->walked, &index, &pieces);
    }
    first[r->n] = pieces.n;
    pieces_compute(k, &pieces, &index);
    keep_elements(k, conditions, r, &pieces, &index);
    for (int i = 0; i < r->n; i++) {
        const char *name = result_name(k, r, i);
        for (int p = first[i]; p < first[i + 1]; p++) piece_store(k, &pieces, p, r->values[i], name);
    }
}

enum { LONG_ROW = 64, SHORT_ROW = 128, ENOUGH_ROWS = 32 };

/* How many groups of axes make a row's number: all but the innermost; where that one is short, dividing for each row would cost
 * more than the row, and the next one is a loop as well; so it is where rows are shared with other kernels. */
static int outer_groups(const Kernel *k)
{
    int groups[MAX_AXES];
    const int n = k->n_groups;
    for (int i = 0; i < n; i++) groups[i] = i;
    int of_rows = 0;
    while (k->group->follows && of_rows < n && !k->groups[of_rows].kind) of_rows++;
    if (of_rows && of_rows == n - 2) return of_rows;
    if (n < 3 || k->group->follows || expr_likely(k->symbols, k->groups[n - 1].extent) > SHORT_ROW) return n - 1;
    return expr_likely(k->symbols, groups_extent((Kernel *)k, groups, n - 2)) < ENOUGH_ROWS ? n - 1 : n - 2;
}

static void loop_body(Kernel *k, void *context)
{
    const Results *r = context;
    Affine of_group[MAX_AXES];
    int outer[MAX_AXES];
    for (int i = 0; i < r->n; i++) result_name(k, r, i);
    const int n = k->n_groups;
    const Conditions conditions = conditions_open(k, r);
    sizes_any(k, n == 1 ? -1 : n - 1);
    if (n == 1) size_called(k, k->groups[0].extent, "n");
    if (n <= 1) {
        if (n) {
            of_group[0] = lanes_open(k, conditions.n ? "ELEMENTS" : "EACH", conditions.reduces, 0, "i", size_bare(k, k->groups[0].extent));
            store_all(k, r, &conditions, of_group);
            lanes_close(k);
            conditions_close(k, &conditions);
            return;
        }
        block_open(k, "FOR_EACH (i, 1)");
        k->block[k->depth - 1].guard = true; /* one thread has the element; read by all, it could not be written in place */
        store_all(k, r, &conditions, of_group);
        block_close(k);
        conditions_close(k, &conditions);
        return;
    }
    const int rows_groups = outer_groups(k);
    for (int i = 0; i < rows_groups; i++) outer[i] = i;
    Expr *rows = groups_extent(k, outer, rows_groups);
    if (n == 2 && k->group->ops.n == 1 && main_op(k->group)->kind == OP_transpose)
        size_any(k, rows, "rows"), size_any(k, k->groups[1].extent, "columns");
    size_called(k, rows, "rows");
    for (int i = 1; i < rows_groups; i++) size_called(k, k->groups[i].extent, "length");
    size_called(k, k->groups[n - 1].extent, "columns");
    if (rows_groups + 1 < n) size_called(k, k->groups[rows_groups].extent, "length");
    block_open(k, "FOR_ROWS (row, %s)", size_bare(k, rows));
    row_groups(k, loop_var(k, "row", rows), outer, rows_groups, of_group);
    if (rows_groups + 1 < n) {
        block_open(k, "for (Index i = 0; i < %s; i++)", size_bare(k, k->groups[rows_groups].extent));
        of_group[rows_groups] = affine_var(k, group_var(k, rows_groups, fresh_name(k, "i")));
    }
    of_group[n - 1] = lanes_open(k, conditions.n ? "THREADS" : "LANES", conditions.reduces, n - 1, "j", size_bare(k, k->groups[n - 1].extent));
    store_all(k, r, &conditions, of_group);
    lanes_close(k);
    if (rows_groups + 1 < n) block_close(k);
    block_close(k);
    conditions_close(k, &conditions);
}

static void write_results(Emission *e, Results results, const char *name)
{
    const Value *like = results.walked;
    Kernel *k = kernel_new_indexed(e->all, e->group);
    int kinds[MAX_AXES] = {0};
    if (e->group->follows && expr_likely(e->all->symbols, like->shape[like->rank - 1]) >= LONG_ROW)
        kinds[like->rank - 1] = 1; /* an epilogue: rows stay rows */
    kernel_axes(k, like->shape, kinds, like->rank);
    lanes_in_fours(k);
    kernel_write(k, loop_body, &results);
    Launch *l;
    if (k->n_groups <= 1) {
        l = kernel_launch(k, name, k->n_groups ? k->groups[0].extent : expr_int(k->symbols, 1), NULL, 256);
        l->fours = lanes_taken_in_fours(k) && k->n_groups;
    } else {
        int groups[MAX_AXES];
        for (int i = 0; i < k->n_groups; i++) groups[i] = i;
        const int outer = outer_groups(k);
        Expr *last = k->groups[k->n_groups - 1].extent;
        l = kernel_launch(k, name, groups_extent(k, groups, outer), groups_extent(k, groups + outer, k->n_groups - outer),
                          lanes_threads(k, last));
    }
    l->shares = l->blocks;
    vec_push(e->all->arena, &e->launches, l);
}

void write_loop(Emission *e, Value *const *values, int n, const char *name)
{
    write_results(e, (Results){values, values, n, values[0]}, name);
}

void emit_loop(Emission *e)
{
    const Values *out = &e->group->out;
    const Value *walked = e->group->walked ? e->group->walked : out->at[0];
    write_results(e, (Results){out->at, out->at, out->n, walked}, group_name(e->all, e->group));
}

/* to = from, element by element. */
void emit_copy(Emission *e, Value *to, Value *from)
{
    write_results(e, (Results){&from, &to, 1, from}, "copy");
}
