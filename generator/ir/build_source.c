/* Builders of what has no operand: constants, iota, dims, random numbers. */
#include "ir/build_private.h"
#include <string.h>

Value *b_constant(Graph *g, Dtype dtype, int rank, const int64_t *dims, const void *data)
{
    Expr **shape = NEW_ARRAY(g->arena, Expr *, rank + 1);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        shape[i] = expr_int(g->symbols, dims[i]);
        count *= dims[i];
    }
    Value *v = make(g, OP_constant, NULL, 0, dtype, rank, shape);
    op_set_data(g, v->def, ATTR_data, data, (size_t)(count * dtype_bytes(dtype)));
    return v;
}

Value *b_number(Graph *g, Dtype dtype, double value)
{
    int64_t room = 0;
    element_write(dtype, &room, 0, value);
    return b_constant(g, dtype, 0, NULL, &room);
}

Value *b_full(Graph *g, Dtype dtype, double value, int rank, Expr *const *shape)
{
    return b_broadcast_to(g, b_number(g, dtype, value), rank, shape);
}

Value *b_like(Graph *g, Value *a, double value)
{
    return b_number(g, a->dtype, value);
}

Value *b_iota(Graph *g, Dtype dtype, int axis, int rank, Expr *const *shape)
{
    fits(axis >= 0 && axis < rank && dtype != DTYPE_bool);
    Value *v = make(g, OP_iota, NULL, 0, dtype, rank, shape);
    op_set_int(g, v->def, ATTR_axis, axis);
    return v;
}

static Value *dims(Graph *g, Expr *const *content, int n, int rank)
{
    Expr *shape[] = {expr_int(g->symbols, n)};
    int64_t *known = NEW_ARRAY(g->arena, int64_t, n + 1), size = n;
    int i = 0;
    while (i < n && expr_is_int(content[i], &known[i])) i++;
    if (i == n) return b_constant(g, DTYPE_i64, rank, &size, known);
    Value *v = make(g, OP_dims, NULL, 0, DTYPE_i64, rank, shape);
    op_set_exprs(g, v->def, ATTR_content, content, n);
    return v;
}

Value *b_dims(Graph *g, Expr *const *content, int n)
{
    return dims(g, content, n, 1);
}
Value *b_dim(Graph *g, Expr *content)
{
    return dims(g, &content, 1, 0);
}

static Value *drawn(Graph *g, Value *v, const char *distribution, int64_t seed)
{
    fits(dtype_is_float(v->dtype) && (strcmp(distribution, "uniform") == 0 || strcmp(distribution, "normal") == 0));
    op_set_text(g, v->def, ATTR_distribution, distribution);
    op_set_int(g, v->def, ATTR_seed, seed);
    return v;
}
Value *b_random(Graph *g, const char *distribution, int64_t seed, Dtype dtype, int rank, Expr *const *shape)
{
    return drawn(g, make(g, OP_random, NULL, 0, dtype, rank, shape), distribution, seed);
}
Value *b_random_at(Graph *g, const char *distribution, int64_t seed, Dtype dtype, Value *place)
{
    fits(place->dtype == DTYPE_u64);
    return drawn(g, make(g, OP_random_at, &place, 1, dtype, place->rank, place->shape), distribution, seed);
}
