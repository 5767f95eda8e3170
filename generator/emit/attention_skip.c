/* Which blocks of scores a mask empties: causal masks, windows, lengths.
 *
 *     select (key <= query), score, -3.4e38       emptied where  from <= last  is false: the smallest key, the greatest query
 *
 * A comparison of two sums, each rising or falling along queries and keys, is false all over a block where it is false at the
 * corner at which it would be true first.  Of masks that no comparison makes (padding), nothing is concluded. */
#include "emit/attention.h"
#include <math.h>

/* Where in a value: its index, and which of its axes count queries and keys; -1: none does. */
typedef struct {
    Index index;
    int axis[2]; /* of queries, of keys */
} Spot;
enum { FALLS = -1, LEVEL, RISES, UNCLEAR };
static const double LOW = -1e30; /* what masks put in: exp(LOW - any other score) is 0 */

/* ---- through index operations ---- */
static bool is_one(Kernel *k, Expr *e)
{
    return expr_is(expr_canonical(k->symbols, e), 1);
}

static Spot through_broadcast(Kernel *k, const Op *op, const Spot *at)
{
    const Value *a = op->in[0];
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    Spot below = {.index = {.rank = a->rank}, .axis = {-1, -1}};
    for (int i = 0; i < a->rank; i++) {
        const bool one = is_one(k, a->shape[i]) && !is_one(k, op->out[0]->shape[axes[i]]);
        below.index.at[i] = one ? affine_int(k, 0) : at->index.at[axes[i]];
        for (int w = 0; w < 2; w++)
            if (at->axis[w] == axes[i] && !one) below.axis[w] = i;
    }
    return below;
}

static Spot through_transpose(const Op *op, const Spot *at)
{
    const int64_t *axes = op_ints(op, ATTR_axes, NULL);
    Spot below = {.index = {.rank = op->in[0]->rank}, .axis = {-1, -1}};
    for (int i = 0; i < below.index.rank; i++) {
        below.index.at[axes[i]] = at->index.at[i];
        for (int w = 0; w < 2; w++)
            if (at->axis[w] == i) below.axis[w] = (int)axes[i];
    }
    return below;
}

/* Axes from the last on that stay, ones between them aside; those before may be cut otherwise, but not queries or keys. */
static bool through_reshape(Kernel *k, const Op *op, const Spot *at, Spot *below)
{
    const Value *a = op->in[0], *v = op->out[0];
    int i = a->rank - 1, j = v->rank - 1;
    *below = (Spot){.index = {.rank = a->rank}, .axis = {-1, -1}};
    for (;;) {
        while (i >= 0 && is_one(k, a->shape[i])) below->index.at[i--] = affine_int(k, 0);
        while (j >= 0 && is_one(k, v->shape[j])) j--;
        if (i < 0 || j < 0 || !expr_always_equal(k->symbols, a->shape[i], v->shape[j])) break;
        for (int w = 0; w < 2; w++)
            if (at->axis[w] == j) below->axis[w] = i;
        below->index.at[i--] = at->index.at[j--];
    }
    if (i < 0 && j < 0) return true;
    if (at->axis[0] >= 0 && at->axis[0] <= j) return false;
    if (at->axis[1] >= 0 && at->axis[1] <= j) return false;
    Value lead_v = *v, lead_a = *a;
    lead_v.rank = j + 1, lead_a.rank = i + 1;
    Index index = at->index, flat = {.flat = true};
    index.rank = j + 1;
    flat.at[0] = index_flat(k, &lead_v, &index);
    const Index split = index_vector(k, &lead_a, &flat);
    for (int n = 0; n <= i; n++) below->index.at[n] = split.at[n];
    return true;
}

static bool through(Kernel *k, const Op *op, const Spot *at, Spot *below)
{
    switch (op->kind) {
    case OP_broadcast: *below = through_broadcast(k, op, at); return true;
    case OP_transpose: *below = through_transpose(op, at); return true;
    case OP_reshape: return through_reshape(k, op, at, below);
    default: return false;
    }
}

/* ---- how a number changes along an axis ---- */
static int sum_of(int a, int b)
{
    return a == UNCLEAR || b == UNCLEAR || a == -b ? (a == LEVEL && b == LEVEL ? LEVEL : UNCLEAR) : a == LEVEL ? b : a;
}

static int opposite(int a)
{
    return a == UNCLEAR ? a : -a;
}

/* Integers of few bits wrap around, those without a sign below 0. */
static bool keeps_order(Dtype d)
{
    return dtype_is_float(d) || d == DTYPE_i32 || d == DTYPE_i64;
}

static int slope(Kernel *k, const Value *v, const Spot *at, int which)
{
    Spot below;
    double x;
    if (at->axis[which] < 0 || is_one(k, v->shape[at->axis[which]])) return LEVEL;
    if (!v->def || !keeps_order(v->dtype)) return UNCLEAR;
    const Op *op = v->def;
    if (op->kind == OP_iota) return op_int(op, ATTR_axis) == at->axis[which] ? RISES : LEVEL;
    if (value_is_scalar_constant(v, &x)) return LEVEL;
    if (through(k, op, at, &below)) return slope(k, op->in[0], &below, which);
    const int a = op->n_in && op_info(op->kind)->class == ELEMENTWISE ? slope(k, op->in[0], at, which) : UNCLEAR;
    const int b = op->n_in > 1 && op_info(op->kind)->class == ELEMENTWISE ? slope(k, op->in[1], at, which) : UNCLEAR;
    switch (op->kind) {
    case OP_cast: return a; /* a float keeps the order of integers too */
    case OP_neg: return opposite(a);
    case OP_add: return sum_of(a, b);
    case OP_sub: return sum_of(a, opposite(b));
    case OP_min:
    case OP_max: return a == b ? a : sum_of(a, b);
    case OP_mul: return value_is_scalar_constant(op->in[1], &x) && x > 0 ? a : UNCLEAR;
    default: return UNCLEAR;
    }
}

/* ---- conditions ---- */
static const char *both(Kernel *k, const char *a, const char *b)
{
    return a && b ? text_of(k, "(%s && %s)", a, b) : NULL;
}

static const char *either(Kernel *k, const char *a, const char *b)
{
    return a && b ? text_of(k, "(%s || %s)", a, b) : a ? a : b;
}

/* The comparison at the corner where it is true first (or, !first, last). */
static const char *at_corner(Kernel *k, Value *v, const Spot *at, const Corners *corners, bool first)
{
    const Op *op = v->def;
    Index index = at->index;
    for (int w = 0; w < 2; w++) {
        const int rises = sum_of(slope(k, op->in[1], at, w), opposite(slope(k, op->in[0], at, w)));
        if (rises == UNCLEAR) return NULL;
        if (at->axis[w] >= 0) index.at[at->axis[w]] = (w ? corners->key : corners->query)[(rises == RISES) == first];
    }
    return wrapped(k, element(k, v, &index), BINDS_ATOM);
}

/* When v is `!wanted` all over the block. */
static const char *never(Kernel *k, Value *v, const Spot *at, const Corners *corners, bool wanted)
{
    Spot below;
    if (!v->def) return NULL;
    Value **in = v->def->in;
    switch (v->def->kind) {
    case OP_not: return never(k, in[0], at, corners, !wanted);
    case OP_and:
    case OP_or: {
        const char *a = never(k, in[0], at, corners, wanted), *b = never(k, in[1], at, corners, wanted);
        return (v->def->kind == OP_and) == wanted ? either(k, a, b) : both(k, a, b);
    }
    case OP_lt:
    case OP_le: {
        const char *c = at_corner(k, v, at, corners, wanted);
        return c && wanted ? text_of(k, "!%s", c) : c;
    }
    default: return through(k, v->def, at, &below) ? never(k, in[0], &below, corners, wanted) : NULL;
    }
}

static bool is_low(const Value *v)
{
    double x;
    return value_is_scalar_constant(v, &x) && x <= LOW;
}

static const char *emptied(Kernel *k, Value *v, const Spot *at, const Corners *corners)
{
    Spot below;
    if (!v->def) return NULL;
    Value **in = v->def->in;
    switch (v->def->kind) {
    case OP_select: {
        const bool low_a = is_low(in[1]), low_b = is_low(in[2]);
        const char *a = low_a ? NULL : emptied(k, in[1], at, corners), *b = low_b ? NULL : emptied(k, in[2], at, corners);
        if (low_b) return either(k, never(k, in[0], at, corners, true), a);
        if (low_a) return either(k, never(k, in[0], at, corners, false), b);
        return both(k, a, b);
    }
    case OP_add:
    case OP_min: return either(k, emptied(k, in[0], at, corners), emptied(k, in[1], at, corners));
    default: return through(k, v->def, at, &below) ? emptied(k, in[0], &below, corners) : NULL;
    }
}

const char *attention_emptied(Kernel *k, Value *scores, const Corners *corners)
{
    const Spot at = {corners->index, {scores->rank - 2, scores->rank - 1}};
    return emptied(k, scores, &at, corners);
}
