/* Places that a model computes, held within what they pick from.  Needs and breaks nothing. */
#include "onnx/places.h"
#include <math.h>

/* What guards may look at: the numbers of a batch and how far positions count; under a slice the former alone. */
typedef enum { UNWATCHED, NUMBERS_WATCHED, WATCHED } Watched;

typedef struct Judge {
    Import *im;
    Expr *n;
    Value *batch;  /* whose numbers are places, one of n each, if a guard says so */
    bool from_end; /* below 0 they count from the end */
} Judge;

static bool surely_within(Judge *j, Value *v, Watched watched, bool from_end);

static bool all_within(const Judge *j, const Op *dims)
{
    int count;
    Symbols *s = j->im->symbols;
    Expr *const *e = op_exprs(dims, ATTR_content, &count), *last = expr_sub(s, j->n, number(j->im, 1));
    for (int i = 0; i < count; i++)
        if (!expr_at_least(s, e[i], number(j->im, 0)) || !expr_at_least(s, last, e[i])) return false;
    return true;
}

/* A table of the model's own. */
static bool numbers_within(const Judge *j, Dtype dtype, const void *data, int64_t count, bool from_end)
{
    Symbols *s = j->im->symbols;
    int64_t least = 0, most = 0;
    if (dtype_is_float(dtype) || !data) return false;
    for (int64_t i = 0; i < count; i++) {
        const int64_t x = element_read_int(dtype, data, i);
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    return expr_at_least(s, j->n, number(j->im, most + 1)) && (least == 0 || (from_end && expr_at_least(s, j->n, number(j->im, -least))));
}

static bool table_within(const Judge *j, const Value *v, bool from_end)
{
    int64_t count = 1, dim;
    for (int i = 0; i < v->rank; i++) count *= expr_is_int(v->shape[i], &dim) ? dim : 0;
    return numbers_within(j, v->dtype, v->def ? op_attr(v->def, ATTR_data)->data : v->tensor->data, count, from_end);
}

/* Some columns of an input of several, which each may have a table of its own: features[:, 2]. */
static bool takes_columns(const Op *slice)
{
    int64_t whole, part;
    for (int i = 0; i < slice->out[0]->rank; i++)
        if (expr_is_int(slice->in[0]->shape[i], &whole) && expr_is_int(slice->out[0]->shape[i], &part) && part < whole) return true;
    return false;
}

/* index < 0 ? index + n : index */
static bool counts_from_end(const Judge *j, const Op *select)
{
    const Op *negative = select->in[0]->def, *sum = select->in[1]->def;
    double zero;
    return negative && negative->kind == OP_lt && negative->in[0] == select->in[2] && value_is_scalar_constant(negative->in[1], &zero) &&
           zero == 0 && sum && sum->kind == OP_add && sum->in[0] == select->in[2] && value_is_size(j->im->graph, sum->in[1], j->n);
}

static bool source_within(Judge *j, Value *v, Watched watched, bool from_end)
{
    if (v->origin == FROM_WEIGHT) return table_within(j, v, from_end);
    if (v->origin != FROM_BATCH || dtype_is_float(v->dtype) || !watched) return false;
    j->batch = v;
    j->from_end = from_end;
    return true;
}

/* Whether an index is certainly one of n: known, or a place that an operation found, or once a guard says so of the batch. */
static bool surely_within(Judge *j, Value *v, Watched watched, bool from_end)
{
    Symbols *s = j->im->symbols;
    const Op *op = v->def;
    if (!op) return source_within(j, v, watched, from_end);
    switch (op->kind) {
    case OP_constant: return table_within(j, v, from_end);
    case OP_dims: return all_within(j, op);
    case OP_iota: return watched == WATCHED || expr_at_least(s, j->n, v->shape[op_int(op, ATTR_axis)]);
    case OP_cast: return cast_keeps_places(op) && surely_within(j, op->in[0], watched, from_end);
    case OP_reshape:
    case OP_broadcast:
    case OP_transpose: return surely_within(j, op->in[0], watched, from_end);
    case OP_slice: return surely_within(j, op->in[0], watched && !takes_columns(op) ? NUMBERS_WATCHED : UNWATCHED, from_end);
    case OP_concat:
        for (int i = 0; i < op->n_in; i++)
            if (!surely_within(j, op->in[i], UNWATCHED, from_end)) return false;
        return true;
    case OP_select: return counts_from_end(j, op) && surely_within(j, op->in[2], watched, true);
    case OP_mod: return value_is_size(j->im->graph, op->in[1], j->n);
    case OP_arg_max:
    case OP_arg_min: return expr_at_least(s, j->n, op->in[0]->shape[op_int(op, ATTR_axis)]);
    case OP_top_k: return v->result == 1 && expr_at_least(s, j->n, op->in[0]->shape[op_int(op, ATTR_axis)]);
    case OP_nonzero: return v->result == 0 && op->in[0]->rank == 1 && expr_at_least(s, j->n, op->in[0]->shape[0]);
    case OP_unique: return v->result == 1 && expr_at_least(s, j->n, op->in[0]->shape[0]);
    default: return false;
    }
}

/* Whether it is so, or guarded to be. */
static bool held_by_itself(Import *im, Value *index, Expr *n, bool watched)
{
    Judge j = {im, n, NULL, false};
    if (!surely_within(&j, index, watched ? WATCHED : UNWATCHED, false)) return false;
    return !j.batch || graph_watch_range(im->graph, j.batch, (IndexRange){.n = n, .from_end = j.from_end, .source = im->graph->source});
}

Place place_within(Import *im, Value *index, Expr *n, bool watched)
{
    Graph *g = im->graph;
    if (held_by_itself(im, index, n, watched)) return (Place){index, NULL};
    Value *last = b_dim(g, expr_sub(im->symbols, n, number(im, 1))), *zero = b_number(g, DTYPE_i64, 0);
    Value *held = b_binary(g, OP_max, b_binary(g, OP_min, index, last), zero);
    return (Place){held, b_binary(g, OP_eq, held, index)};
}

Value *both_inside(Graph *g, Value *a, Value *b)
{
    return a && b ? both(g, a, b) : a ? a : b;
}

/* What is no number, or at least no place: as an index it is outside of anything, also after some arithmetic. */
static Value *none_like(Graph *g, const Value *v)
{
    const int bits = 8 * dtype_bytes(v->dtype);
    if (v->dtype == DTYPE_bool) return b_number(g, v->dtype, 0);
    if (dtype_is_float(v->dtype)) return b_number(g, v->dtype, NAN);
    return b_number(g, v->dtype, dtype_is_signed(v->dtype) ? -ldexp(1, bits < 32 ? bits - 1 : bits - 2) : ldexp(1, bits - 1));
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
