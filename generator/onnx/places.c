/* Places that a model computes, held within what they pick from.  Needs and breaks nothing. */
#include "onnx/places.h"
#include <math.h>

/* What guards will look at: the numbers of a batch and how far positions count; under a slice the former alone. */
typedef enum { UNWATCHED, NUMBERS_WATCHED, WATCHED } Watched;

static bool all_within(Import *im, const Op *dims, Expr *n)
{
    int count;
    Expr *const *e = op_exprs(dims, ATTR_content, &count), *last = expr_sub(im->symbols, n, number(im, 1));
    for (int i = 0; i < count; i++)
        if (!expr_at_least(im->symbols, e[i], number(im, 0)) || !expr_at_least(im->symbols, last, e[i])) return false;
    return true;
}

/* A table of the model's own: every number is one of n, or counts from its end. */
static bool constants_within(Import *im, const Op *op, Expr *n)
{
    const Value *v = op->out[0];
    int64_t count = 1, dim, least = 0, most = 0;
    if (dtype_is_float(v->dtype)) return true;
    for (int i = 0; i < v->rank; i++) count *= expr_is_int(v->shape[i], &dim) ? dim : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t x = element_read_int(v->dtype, op_attr(op, ATTR_data)->data, i);
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    return expr_at_least(im->symbols, n, number(im, most + 1)) && (least == 0 || expr_at_least(im->symbols, n, number(im, -least)));
}

static bool is_remainder(const Value *by, Expr *n)
{
    while (by->def && (by->def->kind == OP_broadcast || by->def->kind == OP_reshape || by->def->kind == OP_cast)) by = by->def->in[0];
    return by->def && by->def->kind == OP_dims && op_exprs(by->def, ATTR_content, NULL)[0] == n;
}

/* Some columns of an input of several, which each may have a table of its own: features[:, 2]. */
static bool takes_columns(const Op *slice)
{
    int64_t whole, part;
    for (int i = 0; i < slice->out[0]->rank; i++)
        if (expr_is_int(slice->in[0]->shape[i], &whole) && expr_is_int(slice->out[0]->shape[i], &part) && part < whole) return true;
    return false;
}

/* Whether an index is certainly one of n: known, watched, or a place that an operation found. */
static bool surely_within(Import *im, const Value *v, Expr *n, Watched watched)
{
    const Op *op = v->def;
    if (!op) return v->origin == FROM_WEIGHT || (v->origin == FROM_BATCH && !dtype_is_float(v->dtype) && watched);
    switch (op->kind) {
    case OP_constant: return constants_within(im, op, n);
    case OP_dims: return all_within(im, op, n);
    case OP_iota: return watched == WATCHED || expr_at_least(im->symbols, n, v->shape[op_int(op, ATTR_axis)]);
    case OP_reshape:
    case OP_cast:
    case OP_broadcast:
    case OP_transpose: return surely_within(im, op->in[0], n, watched);
    case OP_slice: return surely_within(im, op->in[0], n, watched && !takes_columns(op) ? NUMBERS_WATCHED : UNWATCHED);
    case OP_concat:
        for (int i = 0; i < op->n_in; i++)
            if (!surely_within(im, op->in[i], n, UNWATCHED)) return false;
        return true;
    case OP_select: { /* index < 0 ? index + n : index */
        const Op *from_end = op->in[1]->def;
        return from_end && from_end->kind == OP_add && from_end->in[0] == op->in[2] && surely_within(im, op->in[2], n, watched);
    }
    case OP_mod: return is_remainder(op->in[1], n);
    case OP_arg_max:
    case OP_arg_min: return expr_at_least(im->symbols, n, op->in[0]->shape[op_int(op, ATTR_axis)]);
    case OP_top_k: return v->result == 1 && expr_at_least(im->symbols, n, op->in[0]->shape[op_int(op, ATTR_axis)]);
    case OP_nonzero: return v->result == 0 && op->in[0]->rank == 1 && expr_at_least(im->symbols, n, op->in[0]->shape[0]);
    case OP_unique: return v->result == 1 && expr_at_least(im->symbols, n, op->in[0]->shape[0]);
    default: return false;
    }
}

Place place_within(Import *im, Value *index, Expr *n, bool watched)
{
    Graph *g = im->graph;
    if (surely_within(im, index, n, watched ? WATCHED : UNWATCHED)) return (Place){index, NULL};
    Value *last = b_dim(g, expr_sub(im->symbols, n, number(im, 1))), *zero = b_number(g, DTYPE_i64, 0);
    Value *held = b_binary(g, OP_max, b_binary(g, OP_min, index, last), zero);
    return (Place){held, b_binary(g, OP_eq, held, index)};
}

Value *both_inside(Graph *g, Value *a, Value *b)
{
    return a && b ? both(g, a, b) : a ? a : b;
}

static Value *none_like(Graph *g, const Value *v)
{
    return b_number(g, v->dtype, dtype_is_float(v->dtype) ? NAN : v->dtype == DTYPE_bool ? 0 : -1);
}

Value *none_outside(Import *im, Value *v, Value *inside, int axis)
{
    Graph *g = im->graph;
    Expr *shape[2 * MOST_AXES];
    if (!inside) return v;
    for (int i = 0; i < v->rank; i++) shape[i] = i >= axis && i < axis + inside->rank ? inside->shape[i - axis] : number(im, 1);
    Value *everywhere = b_broadcast_to(g, b_reshape(g, inside, v->rank, shape), v->rank, v->shape);
    return b_select(g, everywhere, v, none_like(g, v));
}

Value *none_unless_all(Import *im, Value *v, Value *inside)
{
    Graph *g = im->graph;
    int64_t axes[2 * MOST_AXES];
    if (!inside) return v;
    for (int i = 0; i < inside->rank; i++) axes[i] = i;
    Value *all = inside->rank ? b_reduce(g, OP_reduce_min, inside, axes, inside->rank) : inside;
    return b_select(g, all, v, none_like(g, v));
}

Value *gather_within(Import *im, Value *v, Value *index, int axis)
{
    const Place p = place_within(im, index, v->shape[axis], index->rank > 0);
    return none_outside(im, b_gather(im->graph, v, p.index, axis), p.inside, axis);
}
