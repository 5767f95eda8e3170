/* Groups operations, so that each group becomes one kernel or one library call.
 *
 * Needs: decomposed, simplified graph.  Breaks: nothing; the graph itself is not changed.
 *
 * Operations are seen from the last to the first, so an operation knows the groups of all its readers when its own is chosen:
 * - what is cheap (constants, iota, dims, their broadcasts, masks made of them) is made again inside every loop or reduction that
 * reads it;
 * - what simple operations make of values that their later readers read anyway (a bias added, x - mean, 0.5 * x for a gradient) is
 * made again there rather than stored;
 * - an elementwise or index operation joins the loop or reduction of its readers where each element would be computed once;
 * - a reduction over the last axes joins the group of its readers where they use it row by row, and the group becomes one that
 * works a row at a time; so do the operations between two such reductions, those on one number a row too;
 * - sums over other axes are one kernel where they read the same, with what is made of their results (a mean) and, stored, of what
 * they sum; not within blocks of rows, which are there to save memory: stored by its own kernel it may take an operand's place;
 * - a loop joins another that reads the same tensors, each in its place; a concat of equal parts walks the parts' shape;
 * - attention reads its operands through transposes, slices and reshapes where strides can tell what those do;
 * - it may join and be stored as well (a stash; one of an optimizer's moments) where every reader outside comes after the whole
 * group. A group runs where its last operation stands, so no path leads from the group back into it;
 * - a scan whose rows never meet is one group: a recurrent cell over time;
 * - in the end a kernel that reads the rows of a product as it writes its own is merged with it: the product's epilogue; and in the
 * backward pass kernels that take the same rows with each other.
 * With no_fuse only constants, iota, dims and broadcasts are folded. */
#include "ir/view.h"
#include "passes/fuse.h"
#include "support/diag.h"
#include <string.h>

static bool loopable(const Op *op)
{
    switch (op_info(op->kind)->class) {
    case ELEMENTWISE:
    case SOURCE: return true;
    case INDEX: return op->kind != OP_reshape;
    default: return false;
    }
}

static GroupKind kind_of(const Op *op)
{
    switch (op_info(op->kind)->class) {
    case ELEMENTWISE:
    case SOURCE: return GROUP_LOOP;
    case INDEX: return op->kind == OP_reshape ? GROUP_VIEW : GROUP_LOOP;
    case REDUCE: return GROUP_REDUCE;
    case CUMULATIVE: return GROUP_CUMULATIVE;
    case SORT: return GROUP_SORT;
    case SCATTER: return GROUP_SCATTER;
    case LATE: return GROUP_LATE;
    case DOT: return GROUP_DOT;
    case CONV: return GROUP_CONV;
    case POOL: return GROUP_POOL;
    case ATTENTION: return GROUP_ATTENTION;
    case REGION: return GROUP_REGION;
    case EFFECT: return op->kind == OP_commit ? GROUP_COMMIT : op->kind == OP_finite ? GROUP_FINITE : GROUP_ASSIGN;
    case COMPOSITE: break;
    }
    bug("%s \"%s\" reached fuse", op_info(op->kind)->name, op->source);
}

bool fuse_folds(GroupKind kind)
{
    return kind == GROUP_LOOP || kind == GROUP_REDUCE || kind == GROUP_ROW;
}

bool fuse_folds_cheap(GroupKind kind)
{
    return fuse_folds(kind) || kind == GROUP_SCATTER;
}

/* ---- what is cheap ---- */
bool fuse_simple(OpKind kind)
{
    switch (kind) {
    case OP_neg:
    case OP_abs:
    case OP_not:
    case OP_cast:
    case OP_bitcast:
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
    case OP_select:
    case OP_relu: return true;
    default: return false;
    }
}

/* Made of hypers, constants and dims alone: making it again reads no memory. */
static bool is_pure(const Fuse *f, const Op *op)
{
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i]->origin != FROM_HYPER && !f->pure[op->in[i]->id]) return false;
    return op->n_out == 1 && op->kind != OP_random;
}

/* Cost + 1 of making the result again in each reader; 0 where it has to be computed once.  A load of what is broadcast counts as
 * one operation: a mask of labels, iota == broadcast(label), is never stored. */
static int cheapness(const Fuse *f, const Op *op)
{
    if (op->kind == OP_constant || op->kind == OP_iota || op->kind == OP_dims) return 1;
    if (op->kind == OP_broadcast)
        return f->cheap[op->in[0]->id] ? f->cheap[op->in[0]->id] : op->in[0]->origin == FROM_HYPER ? 1 : 2;
    if (f->no_fuse) return 0;
    bool index = op->kind == OP_reshape || op->kind == OP_transpose || op->kind == OP_slice;
    bool pure = f->pure[op->out[0]->id], uniform = f->uniform[op->out[0]->id];
    if (!index && !(op_info(op->kind)->class == ELEMENTWISE && (fuse_simple(op->kind) || uniform))) return 0;
    int cost = index ? 1 : 2;
    for (int i = 0; i < op->n_in; i++) {
        if (op->in[i]->origin == FROM_HYPER) continue;
        if (!f->cheap[op->in[i]->id]) return 0;
        cost += f->cheap[op->in[i]->id] - 1;
    }
    return cost <= (uniform ? UNIFORM_COST_MAX : pure ? CHEAP_COST_MAX : MASK_COST_MAX) ? cost : 0;
}

/* ---- drafts ---- */
static Draft *draft_new(Fuse *f, Op *root, GroupKind kind)
{
    Draft *d = NEW(f->g->arena, Draft);
    d->kind = kind;
    d->in_order = f->classes++;
    vec_push(f->g->arena, &d->ops, root);
    f->draft[root->id] = d;
    f->index_class[root->id] = kind == GROUP_REDUCE ? f->classes++ : d->in_order;
    vec_push(f->g->arena, &f->drafts, d);
    d->reads = root->n_in;
    d->walked = kind == GROUP_LOOP && fuse_concat_of_equals(f, root) ? root->in[0] : root->n_out ? root->out[0] : NULL;
    d->whole = kind == GROUP_LOOP && d->walked == root->out[0] ? d->in_order : -1;
    d->per_row = -1;
    d->summed = f->index_class[root->id];
    if (kind == GROUP_REDUCE && fuse_is_sum(root) && !fuse_reduces_rows(f, root)) d->sum = root, d->sums = 1;
    if (kind == GROUP_REDUCE && fuse_reduces_rows(f, root)) {
        d->whole = f->index_class[root->id];
        d->per_row = d->in_order;
        d->row = root->in[0];
        d->kept = root->out[0]->rank;
    }
    return d;
}

/* Whether u takes each element of v at most once. */
static bool reads_once(const Op *u, const Value *v, bool by_parts)
{
    int places = 0;
    for (int i = 0; i < u->n_in; i++) places += u->in[i] == v;
    if (op_info(u->kind)->class == ELEMENTWISE) return true;
    if (places != 1) return by_parts;
    switch (u->kind) {
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_concat: return true;
    case OP_pad: return u->in[0] == v;
    case OP_gather: return u->in[1] == v && u->out[0]->rank == v->rank;
    default: return op_info(u->kind)->class == REDUCE;
    }
}

bool fuse_in_place_use(const Fuse *f, const Op *u, const Value *v)
{
    return u->kind == OP_assign && u->in[1] == v && u->in[0] != v && u->in[0]->origin != FROM_BATCH && !f->copied[u->id];
}

/* A group runs where its root stands, and every group comes after those whose results it reads: so no path leads back. */
bool fuse_comes_after(const Fuse *f, const Op *u, int root)
{
    const Draft *d = f->draft[u->id];
    if (f->order[d && d->ops.n ? d->ops.at[0]->id : u->id] > root) return true;
    if (u->n_out != 1 || (d ? d->kind != GROUP_VIEW : !f->cheap[u->out[0]->id])) return false;
    const Value *v = u->out[0];
    for (int i = 0; i < v->users.n; i++)
        if (!fuse_in_place_use(f, v->users.at[i], v) && !fuse_comes_after(f, v->users.at[i], root)) return false;
    return true;
}

/* The group that an operation may join, and the index class it has there. */
typedef struct {
    Draft *draft;
    int index_class;
    bool stored; /* the result is needed outside too */
} Home;

static bool is_stored(const Fuse *f, const Value *v)
{
    return f->stored[v->id] || f->output[v->id];
}

/* Each operation adds what it reads; where that comes to too many, tensors are counted one by one: once each, and none that the draft makes. */
bool fuse_may_read(const Fuse *f, Draft *d, const Op *op)
{
    if (d->reads + op->n_in - 1 <= GROUP_READS_MAX) return true;
    Values read = {0};
    for (int o = 0; o <= d->ops.n; o++) {
        const Op *from = o < d->ops.n ? d->ops.at[o] : op;
        for (int i = 0; i < from->n_in; i++) {
            const Op *maker = from->in[i]->def;
            if (!maker || (maker != op && f->draft[maker->id] != d && !f->pure[from->in[i]->id])) values_add_once(f->g->arena, &read, from->in[i]);
        }
    }
    if (read.n > GROUP_READS_MAX) return false;
    d->reads = read.n - (op->n_in - 1); /* which are added when it joins */
    return true;
}

static Home refuse(Fuse *f, const Value *v, FuseRefusal why)
{
    f->refused[v->id] = (uint8_t)why;
    return (Home){0};
}

/* A loop stores what has the shape that it walks; a kernel of sums what it sums, or sums something of, unless a kernel that works a row
 * at a time can make that. */
static bool may_store(const Fuse *f, const Draft *d, int index_class, const Value *v)
{
    if (d->kind == GROUP_REDUCE && d->sum && index_class == d->summed)
        return !f->in_blocks && same_shape(f->g, v, d->sum->in[0]) && !fuse_spreads_sums(f, v->def);
    return d->kind == GROUP_LOOP && index_class == d->in_order && same_shape(f->g, v, d->walked);
}

static Home find_home(Fuse *f, const Op *op)
{
    const Value *v = op->out[0];
    Home home = {0};
    int inside = 0, mapped = 0;
    for (int i = 0; i < v->users.n; i++) { /* the latest group among the readers' is the only one all others come after */
        Draft *d = f->draft[v->users.at[i]->id];
        if (!d || !fuse_folds(d->kind)) continue;
        if (d->ops.n >= GROUP_OPS_MAX) {
            refuse(f, v, REFUSED_FULL);
            continue;
        }
        if (!home.draft || f->order[d->ops.at[0]->id] < f->order[home.draft->ops.at[0]->id]) home.draft = d;
    }
    if (!home.draft) return home;
    int root = f->order[home.draft->ops.at[0]->id];
    home.index_class = -1;
    home.stored = is_stored(f, v);
    for (int i = 0; i < v->users.n; i++) {
        const Op *u = v->users.at[i];
        if (f->draft[u->id] == home.draft && u->kind != OP_assign) {
            const bool by_parts = fuse_puts_parts(f, home.draft, u);
            if (!reads_once(u, v, by_parts)) return refuse(f, v, REFUSED_TWICE);
            bool same_index = op_info(u->kind)->class == ELEMENTWISE || op_info(u->kind)->class == REDUCE || by_parts;
            same_index |= u->kind == OP_reshape && home.draft->kind == GROUP_ROW;
            if (!same_index) mapped++;
            int c = same_index || u->kind == OP_reshape ? f->index_class[u->id] : f->classes++; /* a reshape keeps the order */
            if (inside++ && c != home.index_class) return refuse(f, v, REFUSED_ELSEWHERE);
            home.index_class = c;
        } else if (fuse_in_place_use(f, u, v)) {
            home.stored = true;
        } else if (fuse_comes_after(f, u, root)) {
            home.stored = true;
        } else {
            return refuse(f, v, REFUSED_BEFORE);
        }
    }
    if (mapped && inside > 1) return refuse(f, v, REFUSED_ELSEWHERE);
    if (home.stored && !may_store(f, home.draft, home.index_class, v)) return refuse(f, v, REFUSED_SHAPE);
    if (!fuse_may_read(f, home.draft, op)) return refuse(f, v, REFUSED_READS);
    return home;
}

static void need_operands(Fuse *f, const Op *op, bool cheap_too)
{
    for (int i = 0; i < op->n_in; i++)
        if (cheap_too || !f->cheap[op->in[i]->id]) f->stored[op->in[i]->id] = 1;
}

/* A reshape is a view of what lies in memory; between two operations of one loop it is index arithmetic, and saves that memory. */
static bool saves_memory(const Fuse *f, const Op *op)
{
    const Value *a = op->in[0];
    return a->def && loopable(a->def) && a->users.n == 1 && !is_stored(f, a) && !f->cheap[a->id];
}

static void join(Fuse *f, Op *op, Home home)
{
    f->draft[op->id] = home.draft;
    f->index_class[op->id] = home.index_class;
    vec_push(f->g->arena, &home.draft->ops, op);
    home.draft->reads += op->n_in - 1;
    if (home.stored) f->stored[op->out[0]->id] = 1;
}

/* A slice that lies in one piece in its operand: a pointer into that.  In bodies what lies in an operand's memory is a reshape alone. */
static bool is_piece(const Fuse *f, const Op *op)
{
    enum { ALIGNED = 16 }; /* bytes: four neighbours may be read at once */
    int64_t offset;
    if (f->no_fuse || !f->g->output_names || op->kind != OP_slice || f->output[op->out[0]->id]) return false;
    return value_lies_within(f->g, op->out[0], &offset) && offset * dtype_bytes(op->out[0]->dtype) % ALIGNED == 0;
}

static void choose(Fuse *f, Op *op)
{
    GroupKind kind = kind_of(op);
    if (fuse_written_transposed(f, op)) return;
    if (op->n_out == 1 && f->cheap[op->out[0]->id]) {
        need_operands(f, op, false);
        if (is_stored(f, op->out[0])) draft_new(f, op, GROUP_LOOP);
        return;
    }
    if (fuse_only_viewed(f, op)) return;
    if (fuse_viewed_again(f, op)) {
        need_operands(f, op, false);
        return;
    }
    if (op->n_out == 1 && fuse_make_again(f, op)) {
        need_operands(f, op, false);
        return;
    }
    bool may_join = !f->no_fuse && (loopable(op) || (op->kind == OP_reshape && saves_memory(f, op)));
    Home home = may_join ? find_home(f, op) : (Home){0};
    if (home.draft && !(op->kind == OP_reshape && home.stored)) {
        join(f, op, home);
        return;
    }
    if (!f->no_fuse && (fuse_join_rows(f, op) || fuse_join_sums(f, op) || fuse_join_beside(f, op))) return;
    if (is_piece(f, op)) kind = GROUP_VIEW;
    draft_new(f, op, kind);
    for (int i = 0; i < op->n_out; i++) f->stored[op->out[i]->id] = 1;
    if (kind == GROUP_ATTENTION)
        fuse_need_views(f, op);
    else if (!fuse_folds(kind))
        need_operands(f, op, f->no_fuse || !fuse_folds_cheap(kind));
}

/* ---- from drafts to groups ---- */
static void sort_ops(const Fuse *f, Ops *ops)
{
    for (int i = 1; i < ops->n; i++) {
        Op *op = ops->at[i];
        int j = i;
        for (; j > 0 && f->order[ops->at[j - 1]->id] > f->order[op->id]; j--) ops->at[j] = ops->at[j - 1];
        ops->at[j] = op;
    }
}

static void collect(Fuse *f, Group *group, Op *op)
{
    if (f->seen[op->id]) return;
    f->seen[op->id] = 1;
    vec_push(f->g->arena, &group->ops, op);
    if (!fuse_folds_cheap(group->kind)) return;
    for (int i = 0; i < op->n_in; i++)
        if (op->in[i]->def && f->cheap[op->in[i]->id]) collect(f, group, op->in[i]->def);
}

/* Products that are summed over blocks of rows add to what lies there, where nobody in the body reads them. */
static void mark_sums(const Op *blocks, Groups *body)
{
    for (int i = 0; i < body->list.n; i++) {
        Group *group = body->list.at[i];
        for (int k = 0; group->kind == GROUP_DOT && k < op_int(blocks, ATTR_sums); k++)
            group->adds |= group->out.at[0] == body->graph->outputs.at[k] && !group->out.at[0]->users.n;
    }
}

static Groups *group_all(Graph *g, bool no_fuse, bool in_blocks);

static Group *group_of(Fuse *f, const Draft *d)
{
    Graph *g = f->g;
    Group *group = NEW(g->arena, Group);
    group->kind = d->kind;
    group->row = d->row;
    group->kept = d->kept;
    if (d->kind == GROUP_ATTENTION) fuse_collect_views(f, group, d->ops.at[0]);
    for (int i = 0; i < d->ops.n; i++) collect(f, group, d->ops.at[i]);
    sort_ops(f, &group->ops);
    for (int o = 0; o < group->ops.n; o++) {
        const Op *op = group->ops.at[o];
        for (int i = 0; i < op->n_in; i++)
            if (!op->in[i]->def || !f->seen[op->in[i]->def->id]) values_add_once(g->arena, &group->in, op->in[i]);
        bool own = f->draft[op->id] == d;
        if (own && d->kind == GROUP_ROW && op_info(op->kind)->class != REDUCE && f->index_class[op->id] == d->whole)
            vec_push(g->arena, &group->whole, op->out[0]);
        for (int i = 0; own && i < op->n_out; i++)
            if (op->n_out > 1 || is_stored(f, op->out[i])) vec_push(g->arena, &group->out, op->out[i]);
    }
    for (int i = 0; d->kind == GROUP_LOOP && i < group->out.n; i++) /* a concat, put part by part */
        if (!same_shape(g, group->out.at[i], d->walked)) group->walked = d->walked;
    for (int o = 0; o < group->ops.n; o++) f->seen[group->ops.at[o]->id] = 0;
    Op *root = d->ops.at[0];
    if (group->kind == GROUP_ATTENTION) fuse_write_transposed(f, group, root);
    if (group->kind == GROUP_ASSIGN) {
        group->in.n = 0;
        for (int i = 1; i < root->n_in; i++) values_add_once(g->arena, &group->in, root->in[i]);
        if (root->n_in == 3) values_add_once(g->arena, &group->in, root->in[0]);
        vec_push(g->arena, &group->out, root->in[0]);
    }
    for (int b = 0; b < 2; b++)
        if (root->body[b] && group->kind == GROUP_REGION) group->body[b] = group_all(root->body[b], f->no_fuse, root->kind == OP_blocks);
    if (group->kind == GROUP_REGION && !f->no_fuse) group->rows = fuse_cell_rows(group);
    if (group->rows) group->kind = GROUP_CELL;
    if (root->kind == OP_blocks) mark_sums(root, group->body[0]);
    return group;
}

/* ---- assigns in place ---- */
static bool only_at_own_index(const Fuse *f, const Group *group, const Value *target, const Draft *d)
{
    for (int o = 0; o < group->ops.n; o++) {
        const Op *op = group->ops.at[o];
        for (int i = 0; i < op->n_in; i++) {
            const Value *root = op->in[i];
            while (root->def && (root->def->kind == OP_reshape || root->def->kind == OP_slice)) root = root->def->in[0];
            if (root != target) continue;
            if (op->in[i] != target || op_info(op->kind)->class != ELEMENTWISE || f->draft[op->id] != d ||
                f->index_class[op->id] != d->in_order)
                return false;
        }
    }
    return true;
}

/* The group reads something that another group will assign to.  With each waiting for the readers of its own target, two such
 * groups could wait for each other: in a loss that holds the product of two learned scalars, each one's update reads the other. */
static bool reads_other_target(const Fuse *f, const Group *group, const Draft *d)
{
    for (int o = 0; o < group->ops.n; o++) {
        const Op *op = group->ops.at[o];
        for (int i = 0; i < op->n_in; i++) {
            const Value *root = op->in[i];
            while (root->def && (root->def->kind == OP_reshape || root->def->kind == OP_slice)) root = root->def->in[0];
            if (root->origin != FROM_WEIGHT && root->origin != FROM_STATE) continue; /* a hyper has a user in every update */
            for (int u = 0; u < root->users.n; u++) {
                const Op *assign = root->users.at[u];
                if (assign->kind != OP_assign || assign->in[0] != root) continue;
                if (!assign->in[1]->def || f->draft[assign->in[1]->def->id] != d) return true;
            }
        }
    }
    return false;
}

/* Where a loop makes it, each element with those that it stores. */
static bool made_at_own_index(const Fuse *f, const Value *v, const Draft *d)
{
    return v->def && f->draft[v->def->id] == d && f->index_class[v->def->id] == d->in_order && same_shape(f->g, v, d->walked);
}

/* A value that lies in memory only because an assign wants it is written straight into the assign's target: the assign then joins
 * the group's outputs, and the group writes the target.  Not where somebody else reads the value, or the group reads the target
 * elsewhere. */
static bool writes_in_place(const Fuse *f, const Group *group, const Draft *d, const Op *assign)
{
    const Value *target = assign->in[0], *v = assign->in[1];
    if (d->kind != GROUP_LOOP || f->output[v->id] || !same_shape(f->g, target, v) || target->dtype != v->dtype) return false;
    if (assign->n_in == 3 && !made_at_own_index(f, assign->in[2], d)) return false;
    for (int i = 0; i < v->users.n; i++)
        if (v->users.at[i] != assign && f->draft[v->users.at[i]->id] != d) return false;
    return only_at_own_index(f, group, target, d) && !reads_other_target(f, group, d);
}

/* A group that writes a target runs after every other reader of the target, so nothing that reads its other results may come before
 * one. */
static bool leads_nowhere(const Fuse *f, const Group *group)
{
    for (int i = 0; i < group->out.n; i++) {
        const Value *v = group->out.at[i];
        if (f->output[v->id]) continue;
        for (int u = 0; u < v->users.n; u++)
            if (v->users.at[u]->kind != OP_assign && f->draft[v->users.at[u]->id] != f->draft[v->def->id]) return false;
    }
    return true;
}

/* What says where a group assigns need not lie in memory, unless others read it. */
static void drop_conditions(const Fuse *f, Group *group)
{
    int kept = 0;
    for (int o = 0; o < group->out.n; o++) {
        const Value *v = group->out.at[o];
        bool needed = f->output[v->id] || !v->users.n || !group->assigns.n;
        for (int u = 0; u < v->users.n && !needed; u++) {
            const Op *user = v->users.at[u];
            bool here = user->kind == OP_assign && user->n_in == 3 && user->in[2] == v && user->in[1] != v, own = false;
            for (int a = 0; a < group->assigns.n; a++) own |= group->assigns.at[a] == user;
            needed = !here || !own;
        }
        if (needed) group->out.at[kept++] = group->out.at[o];
    }
    group->out.n = kept;
}

static void settle_assigns(Fuse *f, Groups *groups, Group **of_draft)
{
    uint8_t *dropped = NEW_ARRAY(f->g->arena, uint8_t, groups->list.n + 1);
    for (int i = 0; i < groups->list.n; i++) {
        Group *assign = groups->list.at[i];
        if (assign->kind != GROUP_ASSIGN) continue;
        Op *op = assign->ops.at[assign->ops.n - 1];
        Op *maker = op->in[1]->def;
        if (!maker || !f->draft[maker->id]) continue;
        Group *group = of_draft[maker->id];
        if (!leads_nowhere(f, group) || !writes_in_place(f, group, f->draft[maker->id], op)) continue;
        vec_push(f->g->arena, &group->assigns, op);
        if (op->n_in == 3) values_add_once(f->g->arena, &group->in, op->in[0]);
        dropped[i] = 1;
    }
    for (int i = 0; i < groups->list.n; i++) drop_conditions(f, groups->list.at[i]);
    int kept = 0;
    for (int i = 0; i < groups->list.n; i++)
        if (!dropped[i]) groups->list.at[kept++] = groups->list.at[i];
    groups->list.n = kept;
}

/* What is viewed may have joined a group that ends after the view stands. */
static void views_after_makers(Groups *groups)
{
    Arena *arena = groups->graph->arena;
    uint8_t *made = NEW_ARRAY(arena, uint8_t, groups->graph->next_value + 1);
    VEC(Group *) all = {.at = groups->list.at, .n = groups->list.n}, waiting = {0};
    groups->list.at = NULL;
    groups->list.n = groups->list.room = 0;
    for (int i = 0; i < all.n; i++) {
        Group *group = all.at[i];
        const Value *from = group->kind == GROUP_VIEW ? group->in.at[0] : NULL;
        const bool waits = from && from->def && groups->of_op[from->def->id] && !made[from->id];
        if (waits) {
            vec_push(arena, &waiting, group);
            continue;
        }
        vec_push(arena, &groups->list, group);
        for (int o = 0; o < group->out.n; o++) made[group->out.at[o]->id] = 1;
        for (int w = 0, left = waiting.n; w < left; w++) { /* views of views follow each other */
            Group *view = waiting.at[w];
            if (!view || !made[view->in.at[0]->id]) continue;
            vec_push(arena, &groups->list, view);
            made[view->out.at[0]->id] = 1;
            waiting.at[w] = NULL;
        }
        int left = 0;
        for (int w = 0; w < waiting.n; w++)
            if (waiting.at[w]) waiting.at[left++] = waiting.at[w];
        waiting.n = left;
    }
    check(waiting.n == 0);
}

static void prepare(Fuse *f)
{
    Graph *g = f->g;
    int ops = g->next_op + 1, values = g->next_value + 1;
    f->order = NEW_ARRAY(g->arena, int, ops);
    f->draft = NEW_ARRAY(g->arena, Draft *, ops);
    f->index_class = NEW_ARRAY(g->arena, int, ops);
    f->copied = NEW_ARRAY(g->arena, uint8_t, ops);
    f->seen = NEW_ARRAY(g->arena, uint8_t, ops);
    f->viewed = NEW_ARRAY(g->arena, uint8_t, values);
    f->cheap = NEW_ARRAY(g->arena, uint8_t, values);
    f->stored = NEW_ARRAY(g->arena, uint8_t, values);
    f->refused = NEW_ARRAY(g->arena, uint8_t, values);
    f->output = NEW_ARRAY(g->arena, uint8_t, values);
    f->pure = NEW_ARRAY(g->arena, uint8_t, values);
    f->uniform = NEW_ARRAY(g->arena, uint8_t, values);
    for (int i = 0; i < g->outputs.n; i++) f->output[g->outputs.at[i]->id] = 1;
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        f->order[op->id] = o;
        if (op->n_out != 1) continue;
        f->pure[op->out[0]->id] = is_pure(f, op);
        f->uniform[op->out[0]->id] = f->pure[op->out[0]->id] && op->out[0]->rank == 0;
        f->cheap[op->out[0]->id] = (uint8_t)cheapness(f, op);
        /* One assign writes a value in place; a second one of the same value copies. */
        bool taken = false;
        for (int u = 0; u < op->out[0]->users.n; u++) {
            Op *user = op->out[0]->users.at[u];
            if (user->kind != OP_assign || user->in[1] != op->out[0]) continue;
            f->copied[user->id] = taken;
            taken = true;
        }
    }
}

static Groups *group_all(Graph *g, bool no_fuse, bool in_blocks)
{
    Fuse f = {.g = g, .no_fuse = no_fuse, .in_blocks = in_blocks};
    prepare(&f);
    for (int o = g->ops.n - 1; o >= 0; o--) choose(&f, g->ops.at[o]);
    Groups *groups = NEW(g->arena, Groups);
    Group **of_draft = NEW_ARRAY(g->arena, Group *, g->next_op + 1);
    *groups = (Groups){.graph = g, .of_op = of_draft, .refused = f.refused, .no_fuse = no_fuse};
    for (int d = f.drafts.n - 1; d >= 0; d--) { /* drafts were begun at their last operation, from the end */
        if (f.drafts.at[d]->ops.n == 0) continue;
        Group *group = group_of(&f, f.drafts.at[d]);
        vec_push(g->arena, &groups->list, group);
        for (int i = 0; i < f.drafts.at[d]->ops.n; i++) of_draft[f.drafts.at[d]->ops.at[i]->id] = group;
    }
    views_after_makers(groups);
    settle_assigns(&f, groups, of_draft);
    return groups;
}

Groups *pass_fuse(Graph *g, bool no_fuse)
{
    Groups *groups = group_all(g, no_fuse, false);
    if (!no_fuse) fuse_epilogues(groups, strcmp(g->name, "train_lean") != 0); /* whose results take no operand's place */
    return groups;
}
