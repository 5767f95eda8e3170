/* Tables of element types, operations and attributes; making values and operations; what is asked of them. */
#include "ir/ir.h"
#include "support/diag.h"
#include <string.h>

/* ---- element types ---- */
static const struct {
    const char *name;
    int bytes;
    const char *c;
} dtypes[] = {
#define D(name, bytes, c) [DTYPE_##name] = {#name, bytes, c},
    DTYPES(D)
#undef D
};

const char *dtype_name(Dtype d)
{
    return dtypes[d].name;
}
const char *dtype_c(Dtype d)
{
    return dtypes[d].c;
}
int dtype_bytes(Dtype d)
{
    return dtypes[d].bytes;
}
bool dtype_is_float(Dtype d)
{
    return d == DTYPE_f32 || d == DTYPE_f64 || d == DTYPE_f16 || d == DTYPE_bf16;
}
bool dtype_is_signed(Dtype d)
{
    return dtype_is_float(d) || d == DTYPE_i8 || d == DTYPE_i16 || d == DTYPE_i32 || d == DTYPE_i64;
}

/* ---- operations ---- */
/* A(axes, last) in a row becomes {ATTR_axes, ATTR_last}; what is not given is ATTR_none and ends the list. */
#define A(...) A_OF(__VA_ARGS__, A6, A5, A4, A3, A2, A1, )(__VA_ARGS__)
#define A_OF(a, b, c, d, e, f, list, ...) list
#define A1(a)                                                                                                                      \
    {                                                                                                                              \
        ATTR_##a                                                                                                                   \
    }
#define A2(a, b)                                                                                                                   \
    {                                                                                                                              \
        ATTR_##a, ATTR_##b                                                                                                         \
    }
#define A3(a, b, c)                                                                                                                \
    {                                                                                                                              \
        ATTR_##a, ATTR_##b, ATTR_##c                                                                                               \
    }
#define A4(a, b, c, d)                                                                                                             \
    {                                                                                                                              \
        ATTR_##a, ATTR_##b, ATTR_##c, ATTR_##d                                                                                     \
    }
#define A5(a, b, c, d, e)                                                                                                          \
    {                                                                                                                              \
        ATTR_##a, ATTR_##b, ATTR_##c, ATTR_##d, ATTR_##e                                                                           \
    }
#define A6(a, b, c, d, e, f)                                                                                                       \
    {                                                                                                                              \
        ATTR_##a, ATTR_##b, ATTR_##c, ATTR_##d, ATTR_##e, ATTR_##f                                                                 \
    }
enum { ATTRS_OF_ONE = sizeof((OpInfo *)0)->attributes / sizeof(AttrKey) };

static const OpInfo infos[] = {
#define OP(name, class, operands, results, attributes, text) {#name, class, operands, results, attributes, text},
#include "ir/ops.def"
};
_Static_assert(sizeof infos / sizeof *infos == OPS_COUNT, "every operation has its row");

const OpInfo *op_info(OpKind kind)
{
    check(kind < OPS_COUNT);
    return &infos[kind];
}

bool op_kind_draws(OpKind kind)
{
    return kind == OP_random || kind == OP_random_at;
}

bool op_kind_named(const char *name, OpKind *kind)
{
    for (int k = 0; k < OPS_COUNT; k++) {
        if (strcmp(infos[k].name, name) != 0) continue;
        *kind = (OpKind)k;
        return true;
    }
    return false;
}

/* ---- attributes ---- */
static const struct {
    const char *name;
    AttrKind kind;
} attrs[] = {[ATTR_none] = {"none", ATTR_INT},
#define A_ROW(key, kind) [ATTR_##key] = {#key, ATTR_##kind},
             ATTRIBUTES(A_ROW)
#undef A_ROW
};
_Static_assert(sizeof attrs / sizeof *attrs == ATTRS_COUNT, "every attribute has its row");

const char *attr_name(AttrKey key)
{
    return attrs[key].name;
}
AttrKind attr_kind(AttrKey key)
{
    return attrs[key].kind;
}

bool attr_named(const char *name, AttrKey *key)
{
    for (int k = ATTR_none + 1; k < ATTRS_COUNT; k++) {
        if (strcmp(attrs[k].name, name) != 0) continue;
        *key = (AttrKey)k;
        return true;
    }
    return false;
}

const Attr *op_attr(const Op *op, AttrKey key)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].key == key) return &op->attrs[i];
    return NULL;
}

static const Attr *must_have(const Op *op, AttrKey key, AttrKind kind)
{
    const Attr *a = op_attr(op, key);
    if (!a) bug("%s \"%s\" has no attribute %s", op_info(op->kind)->name, op->source, attr_name(key));
    if (attr_kind(key) != kind) bug("attribute %s asked for as another kind", attr_name(key));
    return a;
}

int64_t op_int(const Op *op, AttrKey key)
{
    return must_have(op, key, ATTR_INT)->i;
}
const char *op_text(const Op *op, AttrKey key)
{
    return must_have(op, key, ATTR_TEXT)->text;
}

const int64_t *op_ints(const Op *op, AttrKey key, int *n)
{
    const Attr *a = must_have(op, key, ATTR_INTS);
    if (n) *n = a->n;
    return a->ints;
}

Expr *const *op_exprs(const Op *op, AttrKey key, int *n)
{
    const Attr *a = must_have(op, key, ATTR_EXPRS);
    if (n) *n = a->n;
    return a->exprs;
}

/* How many attributes the row lists. */
static int attrs_of(const OpInfo *info)
{
    int n = 0;
    while (n < ATTRS_OF_ONE && info->attributes[n] != ATTR_none) n++;
    return n;
}

static Attr *attr_slot(Op *op, AttrKey key, AttrKind kind)
{
    if (attr_kind(key) != kind) bug("attribute %s set as another kind", attr_name(key));
    Attr *slot = NULL;
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].key == key) slot = &op->attrs[i];
    if (!slot) {
        if (op->n_attrs == attrs_of(op_info(op->kind))) bug("%s has too many attributes", op_info(op->kind)->name);
        slot = &op->attrs[op->n_attrs++];
    }
    *slot = (Attr){.key = key};
    return slot;
}

void op_set_int(Graph *g, Op *op, AttrKey key, int64_t value)
{
    (void)g;
    attr_slot(op, key, ATTR_INT)->i = value;
}

void op_set_ints(Graph *g, Op *op, AttrKey key, const int64_t *values, int n)
{
    int64_t *copy = NEW_ARRAY(g->arena, int64_t, n + 1);
    for (int i = 0; i < n; i++) copy[i] = values[i];
    Attr *a = attr_slot(op, key, ATTR_INTS);
    a->n = n;
    a->ints = copy;
}

void op_set_exprs(Graph *g, Op *op, AttrKey key, Expr *const *values, int n)
{
    Expr **copy = NEW_ARRAY(g->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) copy[i] = values[i];
    Attr *a = attr_slot(op, key, ATTR_EXPRS);
    a->n = n;
    a->exprs = copy;
}

void op_set_text(Graph *g, Op *op, AttrKey key, const char *text)
{
    attr_slot(op, key, ATTR_TEXT)->text = arena_copy(g->arena, text, strlen(text));
}

void op_set_data(Graph *g, Op *op, AttrKey key, const void *data, size_t bytes)
{
    check(bytes <= INT32_MAX);
    void *copy = arena_alloc(g->arena, bytes + 1);
    if (bytes) memcpy(copy, data, bytes);
    Attr *a = attr_slot(op, key, ATTR_DATA);
    a->n = (int)bytes;
    a->data = copy;
}

/* ---- making values and operations ---- */
static Value *value_new(Graph *g, const char *name, Dtype dtype, int rank, Expr *const *shape, Origin origin)
{
    Value *v = NEW(g->arena, Value);
    v->id = g->next_value++;
    v->name = *name ? arena_copy(g->arena, name, strlen(name)) : "";
    v->dtype = dtype;
    v->rank = rank;
    v->shape = NEW_ARRAY(g->arena, Expr *, rank + 1);
    for (int i = 0; i < rank; i++) v->shape[i] = shape[i];
    v->origin = origin;
    return v;
}

Value *graph_input(Graph *g, const char *name, Dtype dtype, int rank, Expr *const *shape, Origin origin)
{
    check(origin != FROM_OP);
    Value *v = value_new(g, name, dtype, rank, shape, origin);
    vec_push(g->arena, &g->inputs, v);
    return v;
}

Op *graph_op(Graph *g, OpKind kind, Value *const *in, int n_in, int n_out)
{
    const OpInfo *info = op_info(kind);
    if (info->operands >= 0 && n_in != info->operands) bug("%s with %d operands", info->name, n_in);
    if (info->results >= 0 && n_out != info->results) bug("%s with %d results", info->name, n_out);
    struct {
        Op op;
        Value *operands[];
    } *together = arena_alloc(g->arena, sizeof *together + sizeof(Value *) * (size_t)(n_in + n_out));
    Op *op = &together->op;
    op->kind = kind;
    op->id = g->next_op++;
    op->in = together->operands;
    op->n_in = n_in;
    op->out = op->in + n_in;
    op->n_out = n_out;
    if (attrs_of(info)) op->attrs = NEW_ARRAY(g->arena, Attr, attrs_of(info));
    op->source = g->source;
    op->role = g->role;
    for (int i = 0; i < n_in; i++) op_set_operand(g, op, i, in[i]);
    vec_push(g->arena, &g->ops, op);
    return op;
}

Value *op_result(Graph *g, Op *op, int result, Dtype dtype, int rank, Expr *const *shape)
{
    check(result < op->n_out && !op->out[result]);
    Value *v = value_new(g, "", dtype, rank, shape, FROM_OP);
    v->def = op;
    v->result = result;
    return op->out[result] = v;
}

/* ---- asking ---- */
Expr *value_count(const Graph *g, const Value *v)
{
    return expr_product(g->symbols, v->shape, v->rank);
}

Expr *value_bytes(const Graph *g, const Value *v)
{
    return expr_mul(g->symbols, value_count(g, v), expr_int(g->symbols, dtype_bytes(v->dtype)));
}

bool same_shape(Graph *g, const Value *a, const Value *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!expr_always_equal(g->symbols, a->shape[i], b->shape[i])) return false;
    return true;
}

bool value_is_size(Graph *g, const Value *v, Expr *n)
{
    double number;
    int64_t whole;
    if (value_is_scalar_constant(v, &number)) return expr_is_int(n, &whole) && (double)whole == number;
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape || (v->def->kind == OP_cast && cast_keeps_places(v->def))))
        v = v->def->in[0];
    if (!v->def || v->def->kind != OP_dims) return false;
    int count;
    Expr *const *e = op_exprs(v->def, ATTR_content, &count);
    return count == 1 && expr_always_equal(g->symbols, e[0], n);
}

bool cast_keeps_places(const Op *cast)
{
    const Dtype to = cast->out[0]->dtype;
    return !dtype_is_float(cast->in[0]->dtype) && (to == DTYPE_i32 || to == DTYPE_i64);
}

bool value_is_scalar_constant(const Value *v, double *value)
{
    if (!v->def) return false;
    const Op *op = v->def;
    switch (op->kind) {
    case OP_broadcast:
    case OP_reshape: return value_is_scalar_constant(op->in[0], value);
    case OP_constant: {
        const Attr *data = op_attr(op, ATTR_data);
        if (!data || data->n != dtype_bytes(v->dtype)) return false;
        *value = element_read(v->dtype, data->data, 0);
        return true;
    }
    case OP_cast: {
        double before;
        int64_t room = 0;
        if (!value_is_scalar_constant(op->in[0], &before)) return false;
        element_write(v->dtype, &room, 0, before);
        *value = element_read(v->dtype, &room, 0);
        return true;
    }
    default: return false;
    }
}
