/* Matrix products: a call of dot() or dot_add() in device/blas.h, with what is done to rows of the product as soon as they are there;
 * and kernels that follow each other on the same rows: a call of in_turn() in device/epilogue.h. */
#include "emit/kernel.h"
#include "emit/known_epilogue.h"
#include "ir/view.h"

static Expr *axis_size(Emission *e, const Value *v, int from_end)
{
    return expr_canonical(e->all->symbols, v->shape[v->rank - from_end]);
}

/* How many rows a kernel works on: a loop's, a row kernel's, or those that are summed up. */
static Expr *rows_of_kernel(Kernels *all, const Group *group)
{
    Symbols *s = all->symbols;
    if (group->kind == GROUP_ROW) return expr_canonical(s, expr_product(s, group->row->shape, group->kept));
    const Value *v = group->kind == GROUP_REDUCE ? reduction_of(group)->in[0] : group->walked ? group->walked : group->out.at[0];
    return expr_canonical(s, expr_product(s, v->shape, v->rank - 1));
}

/* c: where the product lies. */
static Launch *product(Emission *e, const Op *op, Value *place)
{
    Symbols *s = e->all->symbols;
    const bool ta = op_int(op, ATTR_trans_a), tb = op_int(op, ATTR_trans_b), to_sum = op->kind == OP_dot_add;
    Value *a = op->in[0], *b = op->in[1], *c = op->out[0];
    Expr *m = axis_size(e, c, 2), *n = axis_size(e, c, 1), *k = axis_size(e, a, ta ? 2 : 1);
    Expr *batch = expr_canonical(s, expr_product(s, c->shape, c->rank - 2));
    Launch *l = library_launch(e->all, e->group, to_sum ? "dot_add" : "dot");
    launch_arg_value(e->all, l, place);
    launch_arg_value(e->all, l, a);
    launch_arg_value(e->all, l, b);
    if (to_sum) launch_arg_value(e->all, l, op->in[2]);
    Expr *numbers[] = {batch, m, n, k, expr_int(s, ta), expr_int(s, tb)};
    for (int i = 0; i < 6; i++) launch_arg_expr(e->all, l, numbers[i]);
    if (e->group->adds && !to_sum) vec_push(e->all->arena, &l->args, ((Arg){.kind = ARG_LATER}));
    l->flops = expr_mul(s, expr_int(s, 2), expr_mul(s, expr_mul(s, batch, m), expr_mul(s, n, k)));
    l->blocks = expr_mul(s, batch, expr_mul(s, m, n));
    vec_push(e->all->arena, &e->launches, l);
    return l;
}

/* ---- what is done to rows ---- */
/* Kernels that follow a product, or each other, while they are added to one call. */
typedef struct {
    Emission *e;
    Launch *head;
    const Value *product, *place; /* NULL: no product */
    Expr *rows;
    bool broken;      /* one of them cannot be run a few rows at a time: it and all behind it are launches of their own */
    Values made, read; /* by the call so far */
} Linking;

/* Where the group's kernels find a value: the product in its place, what one of them makes in that. */
static Value *where_it_lies(const Linking *k, Value *v)
{
    Value *root = value_root(v);
    if (root == k->product) return (Value *)k->place;
    return values_hold(&k->e->group->out, root) ? root : v;
}

static void move_args(const Linking *k, Launch *l, Expr *scratch_before)
{
    Symbols *s = k->e->all->symbols;
    for (int a = 0; a < l->args.n; a++) {
        Arg *arg = &l->args.at[a];
        if (arg->kind == ARG_VALUE) arg->value = where_it_lies(k, arg->value);
        if (arg->kind == ARG_SCRATCH && scratch_before) arg->expr = arg->expr ? expr_add(s, scratch_before, arg->expr) : scratch_before;
    }
}

/* Rows as the call shares them out: the kernel's own, or parts of them. */
static bool shares_rows(const Linking *k, const Group *kernel, const Launch *l)
{
    if (!l->shares || !l->each) return false;
    return kernel->kind == GROUP_REDUCE || !k->rows || expr_always_equal(k->e->all->symbols, l->shares, k->rows);
}

static void append_link(Linking *k, Launch *l)
{
    Arena *arena = k->e->all->arena;
    Launch *last = k->head;
    while (last->epilogue) last = (Launch *)last->epilogue;
    if (last == k->head) last->own = k->head->args.n;
    last->epilogue = l;
    for (int a = 0; a < l->args.n; a++) vec_push(arena, &k->head->args, l->args.at[a]);
    l->own = k->head->args.n;
    for (int i = 0; i < l->reach.n; i++) vec_push(arena, &k->head->reach, l->reach.at[i]);
    k->head->flops = expr_add(k->e->all->symbols, k->head->flops, l->flops);
}

/* What a kernel of the call reads that none before it has made or read, and what it writes. */
static void note_moved(Linking *k, const Group *kernel)
{
    Arena *arena = k->e->all->arena;
    for (int i = 0; i < kernel->in.n; i++) {
        Value *root = value_root(kernel->in.at[i]), *lies = where_it_lies(k, kernel->in.at[i]);
        if (root != k->product && !values_hold(&k->made, lies)) values_add_once(arena, &k->read, lies);
    }
    for (int i = 0; i < kernel->out.n; i++) values_add_once(arena, &k->made, kernel->out.at[i]);
}

static void emit_link(Linking *k, const Group *kernel)
{
    Arena *arena = k->e->all->arena;
    Symbols *s = k->e->all->symbols;
    Emission own = {.all = k->e->all, .group = kernel};
    switch (kernel->kind) {
    case GROUP_LOOP: emit_loop(&own); break;
    case GROUP_ROW: emit_row(&own); break;
    default: emit_reduce(&own); break;
    }
    const bool alone = kernel == k->e->group->epilogue && !kernel->epilogue;
    k->broken |= !(alone ? own.launches.at[0]->shares != NULL : shares_rows(k, kernel, own.launches.at[0]));
    for (int i = 0; i < own.launches.n; i++) {
        Launch *l = own.launches.at[i];
        move_args(k, l, k->e->scratch);
        if (i > 0 || k->broken)
            vec_push(arena, &k->e->launches, l);
        else
            append_link(k, l);
    }
    if (!k->broken) note_moved(k, kernel);
    if (own.scratch) k->e->scratch = k->e->scratch ? expr_add(s, k->e->scratch, own.scratch) : own.scratch;
}

/* The bytes that the call moves. */
static Expr *call_moved(const Linking *k)
{
    Kernels *all = k->e->all;
    Symbols *s = all->symbols;
    const Op *dot = k->product ? k->e->group->ops.at[0] : NULL;
    Values read = k->read;
    Expr *sum = expr_int(s, 0);
    for (int i = 0; dot && i < dot->n_in; i++) values_add_once(all->arena, &read, dot->in[i]);
    for (int i = 0; i < read.n; i++) sum = expr_add(s, sum, bytes_of(all, read.at[i]));
    for (int i = 0; i < k->made.n; i++) sum = expr_add(s, sum, bytes_of(all, k->made.at[i]));
    if (k->product && (k->place == k->product || !k->head->epilogue)) sum = expr_add(s, sum, bytes_of(all, k->product)); /* others read it */
    return sum;
}

static void emit_links(Emission *e, Launch *head, const Value *product)
{
    const Group *first = e->group->epilogue;
    Linking k = {.e = e, .head = head, .product = product, .place = first->place, .rows = rows_of_kernel(e->all, first)};
    for (const Group *kernel = first; kernel; kernel = kernel->epilogue) emit_link(&k, kernel);
    if (!product || !head->epilogue || !known_epilogue(e->all->arena, e->all->symbols, first, &head->known)) head->known.name = NULL;
    head->moved = call_moved(&k);
}

void emit_dot(Emission *e)
{
    const Group *epilogue = e->group->epilogue;
    const Op *op = epilogue ? e->group->ops.at[0] : main_op(e->group);
    Launch *l = product(e, op, epilogue ? epilogue->place : op->out[0]);
    if (epilogue) emit_links(e, l, op->out[0]);
}

void emit_chain(Emission *e)
{
    Launch *l = library_launch(e->all, e->group, "in_turn");
    launch_arg_expr(e->all, l, rows_of_kernel(e->all, e->group->epilogue));
    vec_push(e->all->arena, &e->launches, l);
    emit_links(e, l, NULL);
    if (l->epilogue) return;
    for (int i = 1; i < e->launches.n; i++) e->launches.at[i - 1] = e->launches.at[i]; /* each is a launch of its own */
    e->launches.n--;
}
