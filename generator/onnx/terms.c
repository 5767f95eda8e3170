/* Terms: what an ONNX name stands for, with or without a value in the graph; and their known elements. */
#include "onnx/terms.h"
#include "onnx/short_float.h"
#include <math.h>
#include <string.h>

/* ---- dims ---- */
Expr *number(Import *im, int64_t value)
{
    return expr_int(im->symbols, value);
}

Expr *min_of(Import *im, Expr *a, Expr *b)
{
    switch (expr_compare(im->symbols, a, b)) {
    case ORDER_LESS:
    case ORDER_LESS_EQUAL:
    case ORDER_EQUAL: return a;
    case ORDER_GREATER:
    case ORDER_GREATER_EQUAL: return b;
    default: return expr_min(im->symbols, a, b);
    }
}

Expr *max_of(Import *im, Expr *a, Expr *b)
{
    switch (expr_compare(im->symbols, a, b)) {
    case ORDER_LESS:
    case ORDER_LESS_EQUAL:
    case ORDER_EQUAL: return b;
    case ORDER_GREATER:
    case ORDER_GREATER_EQUAL: return a;
    default: return expr_max(im->symbols, a, b);
    }
}

bool all_ints(Expr *const *e, int n, int64_t *out)
{
    for (int i = 0; i < n; i++)
        if (!expr_is_int(e[i], &out[i])) return false;
    return true;
}

Expr **int_exprs(Import *im, const int64_t *values, int n)
{
    Expr **e = NEW_ARRAY(im->arena, Expr *, n + 1);
    for (int i = 0; i < n; i++) e[i] = number(im, values[i]);
    return e;
}

/* x == Min(x, 64) says x <= 64: how a slice of a table of 64 rows meets what it is added to. */
static bool state_bounded(Import *im, Expr *symbol, Expr *least)
{
    int64_t low, high;
    if (!expr_is_symbol(symbol)) return false;
    expr_bounds(im->symbols, least, &low, &high);
    return high < EXPR_UNBOUNDED && expr_min(im->symbols, symbol, number(im, high)) == least &&
           symbol_narrow(im->symbols, symbol, 0, high);
}

bool state_equal(Import *im, Expr *a, Expr *b)
{
    if (expr_always_equal(im->symbols, a, b)) return true;
    return state_bounded(im, a, b) || state_bounded(im, b, a) || symbols_equate(im->symbols, a, b, NULL);
}

/* Drops the symbols that stand in both. */
static void cancel_common(Import *im, Expr **e, Expr **by)
{
    enum { ROOM = 16 };
    Expr *symbols[ROOM];
    int n = expr_symbols(im->symbols, *by, symbols, ROOM);
    for (int i = 0; i < n && i < ROOM; i++) {
        Expr *a = expr_divide_exactly(im->symbols, *e, symbols[i]), *b = expr_divide_exactly(im->symbols, *by, symbols[i]);
        if (!a || !b) continue;
        *e = a;
        *by = b;
    }
}

/* e = k * symbol is to be divisible by n: the symbol then is by n / gcd(k, n). */
static void state_divisible(Import *im, Expr *e, Expr *by)
{
    Expr *symbol;
    int64_t n, k;
    if (!expr_is_int(by, &n) || n <= 0 || expr_symbols(im->symbols, e, &symbol, 1) != 1) return;
    Expr *factor = expr_divide_exactly(im->symbols, e, symbol);
    if (!factor || !expr_is_int(factor, &k) || k <= 0) return;
    int64_t a = k, b = n;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    symbol_divisible(im->symbols, symbol, n / a);
}

Expr *divided_evenly(Import *im, Expr *e, Expr *by)
{
    Symbols *s = im->symbols;
    if (expr_is(by, 0)) return NULL;
    Expr *exact = expr_divide_exactly(s, e, by);
    if (exact) return exact;
    cancel_common(im, &e, &by);
    state_divisible(im, e, by);
    exact = expr_divide_exactly(s, e, by);
    if (exact) return exact;
    Expr *quotient = expr_floordiv(s, e, by);
    return symbols_equate(s, e, expr_mul(s, by, quotient), NULL) ? quotient : NULL;
}

static Expr *broadcast_dim(Import *im, Expr *a, Expr *b)
{
    if (expr_is(a, 1) || expr_always_equal(im->symbols, a, b)) return b;
    if (expr_is(b, 1)) return a;
    return state_equal(im, a, b) ? expr_is_int(b, NULL) ? b : expr_canonical(im->symbols, a) : NULL;
}

Expr **broadcast_shapes(Import *im, const OnnxNode *node, int rank_a, Expr *const *a, int rank_b, Expr *const *b, int *rank)
{
    *rank = rank_a > rank_b ? rank_a : rank_b;
    Expr **shape = NEW_ARRAY(im->arena, Expr *, *rank + 1);
    for (int i = 0; i < *rank; i++) {
        int of_a = i - (*rank - rank_a), of_b = i - (*rank - rank_b);
        shape[i] = of_a < 0 ? b[of_b] : of_b < 0 ? a[of_a] : broadcast_dim(im, a[of_a], b[of_b]);
        if (!shape[i])
            import_error(im, node, "shapes %s and %s do not broadcast: %s against %s on axis %d from the last",
                         shape_text(im, a, rank_a), shape_text(im, b, rank_b), expr_text(im->arena, a[of_a]),
                         expr_text(im->arena, b[of_b]), *rank - 1 - i);
    }
    return shape;
}

/* ---- terms ---- */
Term *term_new(Import *im, Dtype dtype, int rank, Expr *const *shape)
{
    Term *t = NEW(im->arena, Term);
    t->dtype = dtype;
    t->rank = rank;
    t->shape = NEW_ARRAY(im->arena, Expr *, rank + 1);
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
    return t;
}

Term *term_of_value(Import *im, Value *value)
{
    Term *t = term_new(im, value->dtype, value->rank, value->shape);
    t->value = value;
    return t;
}

Term *term_of_content(Import *im, Dtype dtype, int rank, Expr *const *shape, Expr *const *content)
{
    Term *t = term_new(im, dtype, rank, shape);
    t->content = content;
    return t;
}

Term *term_of_items(Import *im, int n)
{
    Term *t = term_new(im, DTYPE_f32, 0, NULL);
    t->is_sequence = true;
    t->items = NEW_ARRAY(im->arena, Term *, n + 1);
    t->n_items = n;
    return t;
}

int64_t term_count(const Term *t)
{
    int64_t count = 1, dim;
    for (int i = 0; i < t->rank; i++)
        if (!expr_is_int(t->shape[i], &dim) || __builtin_mul_overflow(count, dim, &count)) return -1;
    return count;
}

void term_dims(const Term *t, int64_t *dims)
{
    for (int i = 0; i < t->rank; i++) check(expr_is_int(t->shape[i], &dims[i]));
}

const char *term_text(Import *im, const Term *t)
{
    if (t->is_absent) return "an empty optional";
    if (t->grows) return "a sequence that grows";
    if (t->rows) return arena_text(im->arena, "a sequence of %s", expr_text(im->arena, sequence_length(im, t)));
    if (t->is_sequence) return arena_text(im->arena, "a sequence of %d", t->n_items);
    const char *type = arena_text(im->arena, "%s%s", dtype_name(t->dtype), shape_text(im, t->shape, t->rank));
    int64_t n = term_count(t);
    return t->content && n <= 8 ? arena_text(im->arena, "%s = %s", type, shape_text(im, t->content, (int)n)) : type;
}

/* ---- elements ---- */
static float half_number(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexpf((float)fraction, -24)
                                      : ldexpf((float)(fraction | 1024), exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static float bfloat_number(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static int64_t tensor_integer(const OnnxTensor *t, int64_t i)
{
    switch (t->type) {
    case ONNX_INT8:
    case ONNX_INT4:
    case ONNX_INT2: return ((const int8_t *)t->data)[i];
    case ONNX_UINT8:
    case ONNX_UINT4:
    case ONNX_UINT2:
    case ONNX_BOOL: return ((const uint8_t *)t->data)[i];
    case ONNX_INT16: return ((const int16_t *)t->data)[i];
    case ONNX_UINT16: return ((const uint16_t *)t->data)[i];
    case ONNX_INT32: return ((const int32_t *)t->data)[i];
    case ONNX_UINT32: return ((const uint32_t *)t->data)[i];
    case ONNX_UINT64:
    case ONNX_INT64: return ((const int64_t *)t->data)[i];
    default: bug("an integer of %s", onnx_type_name(t->type));
    }
}

double tensor_number(const OnnxTensor *t, int64_t i)
{
    switch (t->type) {
    case ONNX_FLOAT: return ((const float *)t->data)[i];
    case ONNX_DOUBLE: return ((const double *)t->data)[i];
    case ONNX_FLOAT16: return half_number(((const uint16_t *)t->data)[i]);
    case ONNX_BFLOAT16: return bfloat_number(((const uint16_t *)t->data)[i]);
    default:
        if (is_short_float((int)t->type)) return short_float_number(t->type, ((const uint8_t *)t->data)[i]);
        return (double)tensor_integer(t, i);
    }
}

static void dtype_range(Dtype d, int64_t *low, int64_t *high)
{
    int bits = d == DTYPE_bool ? 1 : 8 * dtype_bytes(d);
    *low = dtype_is_signed(d) ? (bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1))) : 0;
    *high = dtype_is_signed(d) ? (bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1)
                               : (bits == 64 ? INT64_MAX : ((int64_t)1 << bits) - 1);
}

Expr *content_element(Import *im, Dtype dtype, Expr *e)
{
    int64_t value, low, high, least, most;
    if (!e || dtype == DTYPE_i64) return e;
    dtype_range(dtype, &low, &high);
    if (!expr_is_int(e, &value)) {
        if (dtype == DTYPE_i32) return e; /* sizes fit: models that overflow them are wrong in any runtime */
        expr_bounds(im->symbols, e, &least, &most);
        return least >= low && most <= high ? e : NULL;
    }
    if (dtype == DTYPE_bool) return number(im, value != 0);
    if (value >= low && value <= high) return e;
    if (dtype == DTYPE_u64) return NULL;
    uint64_t mask = ((uint64_t)1 << (8 * dtype_bytes(dtype))) - 1;
    int64_t wrapped = (int64_t)((uint64_t)value & mask);
    return number(im, wrapped > high ? wrapped - (int64_t)mask - 1 : wrapped);
}

Term *term_of_tensor(Import *im, const OnnxTensor *tensor)
{
    Dtype dtype = import_dtype(im, NULL, tensor->type, arena_text(im->arena, "tensor \"%s\"", tensor->name));
    if (tensor->rank > 8)
        error_exit("%s: tensor \"%s\" has rank %d; wanted at most 8", im->model->path, tensor->name, tensor->rank);
    Term *t = term_new(im, dtype, tensor->rank, int_exprs(im, tensor->dims, tensor->rank));
    t->tensor = tensor;
    if (dtype_is_float(dtype) || tensor->count > TERM_CONTENT_MAX || (!tensor->data && tensor->count)) return t;
    Expr **content = NEW_ARRAY(im->arena, Expr *, tensor->count + 1);
    for (int64_t i = 0; i < tensor->count; i++) {
        int64_t element = tensor_integer(tensor, i);
        if (dtype == DTYPE_u64 && element < 0) return t; /* beyond what an expression holds */
        content[i] = number(im, element);
    }
    t->content = content;
    return t;
}

void row_major(const int64_t *dims, int rank, int64_t *stride)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= dims[i];
    }
}

Expr *const *content_view(Import *im, Expr *const *content, int64_t base, const int64_t *stride, const int64_t *dims, int rank)
{
    int64_t count = 1, at[MOST_AXES] = {0};
    for (int i = 0; i < rank; i++) count *= dims[i];
    if (count > TERM_CONTENT_MAX) return NULL;
    Expr **view = NEW_ARRAY(im->arena, Expr *, count + 1);
    for (int64_t n = 0; n < count; n++) {
        int64_t from = base;
        for (int i = 0; i < rank; i++) from += at[i] * stride[i];
        view[n] = content[from];
        for (int i = rank - 1; i >= 0 && ++at[i] == dims[i]; i--) at[i] = 0;
    }
    return view;
}

/* ---- values ---- */
/* The program's input that holds an initializer or Constant, made on its first use. */
static Value *weight_value(Import *im, const Term *t)
{
    const OnnxTensor *tensor = t->tensor;
    const char *name = map_get(im->weight_names, arena_text(im->arena, "%p", (const void *)tensor));
    check(name);
    Tensor *w = map_get(im->tensors, name);
    if (!w) {
        w = weight_tensor(im->arena, tensor, name);
        map_set(im->tensors, name, w);
    }
    Body *program = im->scope->body;
    while (program->outer) program = program->outer;
    Value *v = map_get(im->weight_inputs, name);
    if (!v) {
        v = graph_input(program->graph, name, t->dtype, t->rank, t->shape, FROM_WEIGHT);
        v->tensor = w;
        map_set(im->weight_inputs, name, v);
    }
    return value_from_program(im, im->scope->body, v);
}

/* Whether elements known as integers rise by one step, as {0, 1, 2, 3} or {8, 6, 4}. */
static bool is_progression(const int64_t *e, int64_t n, int64_t *step)
{
    *step = n > 1 ? e[1] - e[0] : 0;
    for (int64_t i = 1; i < n; i++)
        if (e[i] - e[i - 1] != *step) return false;
    return true;
}

static Value *known_value(Import *im, const Term *t, const int64_t *e, int64_t n)
{
    Graph *g = im->graph;
    Expr *length = number(im, n);
    int64_t step;
    if (n > 4 && is_progression(e, n, &step) && t->dtype != DTYPE_bool) {
        Value *first = b_cast(g, b_dim(g, number(im, e[0])), t->dtype);
        if (step == 0) return b_broadcast_to(g, first, t->rank, t->shape);
        Value *v = b_iota(g, DTYPE_i64, 0, 1, &length);
        v = b_add(g, b_mul(g, v, b_dim(g, number(im, step))), b_dim(g, number(im, e[0])));
        return b_reshape(g, b_cast(g, v, t->dtype), t->rank, t->shape);
    }
    int64_t dims[MOST_AXES];
    term_dims(t, dims);
    int bytes = dtype_bytes(t->dtype);
    char *data = arena_alloc(im->arena, (size_t)(n * bytes) + 8);
    for (int64_t i = 0; i < n; i++) memcpy(data + i * bytes, &e[i], (size_t)bytes); /* little-endian, as the files are */
    return b_constant(g, t->dtype, t->rank, dims, data);
}

static Value *content_value(Import *im, const Term *t)
{
    int64_t n = term_count(t), *known = NEW_ARRAY(im->arena, int64_t, n + 1);
    check(n >= 0);
    if (all_ints(t->content, (int)n, known)) return known_value(im, t, known, n);
    Value *v = t->rank == 0 ? b_dim(im->graph, t->content[0]) : b_dims(im->graph, t->content, (int)n);
    return b_cast(im->graph, b_reshape(im->graph, v, t->rank, t->shape), t->dtype);
}

static Value *outer_value(Import *im, Term *outer)
{
    Body *body = im->scope->body;
    Import before = *im;
    im->graph = body->outer->graph;
    im->scope = body->outer_scope;
    Value *v = term_value(im, outer);
    im->graph = before.graph;
    im->scope = before.scope;
    return body_capture(im, body, v);
}

Expr *input_size(Import *im, const OnnxNode *node, int i, const char *what)
{
    int n;
    Expr *const *e = input_exprs_or_error(im, node, i, &n, what);
    if (n != 1 || expr_compare(im->symbols, e[0], number(im, 0)) == ORDER_LESS)
        import_error(im, node, "%s (input %d, \"%s\") is %s; wanted one number from 0", what, i, node->inputs[i],
                     shape_text(im, e, n));
    return e[0];
}

Value *term_value(Import *im, Term *term)
{
    if (term->is_sequence || term->is_absent)
        misfit("%s where a tensor is wanted (at \"%s\")", term->is_sequence ? "a sequence" : "an empty optional",
               im->graph->source);
    enum { WRITTEN_OUT = 64 }; /* larger tables stay tensors of the model */
    if (term->value) return term->value;
    if (term->content && !(term->tensor && term_count(term) > WRITTEN_OUT))
        term->value = content_value(im, term);
    else if (term->outer)
        term->value = outer_value(im, term->outer);
    else if (term->tensor)
        term->value = weight_value(im, term);
    else
        bug("a term without a value");
    return term->value;
}

/* ---- indices ---- */
bool never_negative(Import *im, const Value *v)
{
    int64_t low, high;
    double number_;
    if (v->dtype == DTYPE_bool || (!dtype_is_float(v->dtype) && !dtype_is_signed(v->dtype))) return true;
    if (!v->def) return false;
    const Op *op = v->def;
    switch (op->kind) {
    case OP_iota:
    case OP_arg_max:
    case OP_arg_min:
    case OP_nonzero: return true;
    case OP_unique: return v->result != 0 || never_negative(im, op->in[0]);
    case OP_top_k: return v->result == 1 || never_negative(im, op->in[0]);
    case OP_constant: {
        if (value_is_scalar_constant(v, &number_)) return number_ >= 0;
        const Attr *data = op_attr(op, ATTR_data);
        if (v->dtype != DTYPE_i64) return false;
        for (int i = 0; i < data->n / 8; i++)
            if (((const int64_t *)data->data)[i] < 0) return false;
        return true;
    }
    case OP_dims: {
        int n;
        Expr *const *e = op_exprs(op, ATTR_content, &n);
        for (int i = 0; i < n; i++) {
            expr_bounds(im->symbols, e[i], &low, &high);
            if (low < 0) return false;
        }
        return true;
    }
    case OP_max: return never_negative(im, op->in[0]) || never_negative(im, op->in[1]);
    case OP_select: return never_negative(im, op->in[1]) && never_negative(im, op->in[2]);
    case OP_cast:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_gather:
    case OP_reduce_max:
    case OP_reduce_min:
    case OP_cum_sum: return never_negative(im, op->in[0]);
    case OP_add:
    case OP_mul:
    case OP_div:
    case OP_min:
    case OP_concat:
    case OP_pad:
        for (int i = 0; i < op->n_in; i++)
            if (!never_negative(im, op->in[i])) return false;
        return true;
    default: return false;
    }
}

Value *normal_index(Import *im, Value *index, Expr *n)
{
    Graph *g = im->graph;
    index = b_cast(g, index, DTYPE_i64);
    if (never_negative(im, index)) return index;
    Value *negative = b_binary(g, OP_lt, index, b_number(g, DTYPE_i64, 0));
    return b_select(g, negative, b_add(g, index, b_dim(g, n)), index);
}
