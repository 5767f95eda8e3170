/* The C expression of one element of a value.  A value that the group reads is a load; one that it makes is computed from its
 * operands at the indices where they lie.  What is used twice gets a name; what is used once stands inside its user. */
#include "emit/kernel.h"
#include <string.h>

static Code literal_code(Kernel *k, Dtype d, double value, int64_t integer)
{
    const char *text = literal(k->arena, d, value, integer);
    return (Code){text, *text == '-' ? BINDS_UNARY : BINDS_ATOM, 0};
}

/* ---- names ---- */
static bool is_name(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.")] == 0;
}

/* A variable that holds c, in the outermost block where that is possible. */
Code named(Kernel *k, Code c, const char *type, const char *base)
{
    if (is_name(c.text)) return c;
    const char *name = fresh_name(k, base);
    line_at(k, c.level, "const %s %s = %s;", type, name, c.text);
    return (Code){name, BINDS_ATOM, level_allowed(k, c.level)};
}

/* ---- loads ---- */
/* The result into which the group has put v already; the block since which it is there. */
static const char *read_again(const Kernel *k, const Value *v, int *level)
{
    for (int i = 0; i < k->at_hand.n; i++)
        if (k->at_hand.at[i].value == v && k->at_hand.at[i].in_memory) {
            *level = k->at_hand.at[i].level;
            return k->at_hand.at[i].name;
        }
    return NULL;
}

static Code load(Kernel *k, Value *v, const Index *index)
{
    Affine offset = index_flat(k, v, index);
    affine_seen(k, &offset);
    if (k->pass == PASS_COLLECT) vec_push(k->arena, &k->loads, ((__typeof__(*k->loads.at)){v, offset}));
    int level = 0;
    const char *name = read_again(k, v, &level);
    const bool again = name != NULL;
    if (!name) name = param_value(k, v, false);
    if (affine_level(k, &offset) > level) level = affine_level(k, &offset);
    const char *form = is_half(v->dtype)        ? "float(%s)"
                       : v->dtype == DTYPE_bool ? "is_true(%s)"
                                                : "%s",
               *one = lanes_load(k, v, name, again, &offset);
    return (Code){text_of(k, form, one ? one : text_of(k, "%s[%s]", name, affine_text(k, &offset))), BINDS_ATOM, level};
}

/* ---- sources ---- */
static int64_t elements_of(const Attr *data, Dtype d)
{
    return data->n / dtype_bytes(d);
}

static Code constant(Kernel *k, Value *v, const Index *index)
{
    const Attr *data = op_attr(v->def, ATTR_data);
    const int64_t n = elements_of(data, v->dtype);
    bool uniform = true;
    for (int64_t i = 1; i < n; i++)
        uniform =
            uniform && memcmp(data->data, (const char *)data->data + i * dtype_bytes(v->dtype), (size_t)dtype_bytes(v->dtype)) == 0;
    if (n == 0) return literal_code(k, v->dtype, 0, 0);
    if (uniform)
        return literal_code(k, v->dtype, element_read(v->dtype, data->data, 0),
                            dtype_is_float(v->dtype) ? 0 : element_read_int(v->dtype, data->data, 0));
    Buf content = {.arena = k->arena};
    for (int64_t i = 0; i < n; i++)
        buf_printf(&content, "%s%s",
                   i == 0   ? ""
                   : i % 16 ? ", "
                            : ",\n    ",
                   literal(k->arena, v->dtype, element_read(v->dtype, data->data, i),
                           dtype_is_float(v->dtype) ? 0 : element_read_int(v->dtype, data->data, i)));
    const char *table = k->pass == PASS_WRITE ? kernels_table(k->all, compute_type(v->dtype), buf_text(&content), n) : "table";
    Affine offset = index_flat(k, v, index);
    affine_seen(k, &offset);
    return (Code){text_of(k, "%s[%s]", table, affine_text(k, &offset)), BINDS_ATOM, affine_level(k, &offset)};
}

/* An index as a number of type d. */
static Code number_of(Kernel *k, Dtype d, const Affine *a)
{
    affine_seen(k, a);
    const char *text = d == DTYPE_i64 ? affine_text(k, a) : text_of(k, "(%s)%s", compute_type(d), affine_atom(k, a));
    return (Code){text, is_name(text) ? BINDS_ATOM : d == DTYPE_i64 ? BINDS_SUM : BINDS_UNARY, affine_level(k, a)};
}

static Code dims(Kernel *k, Value *v, const Index *index)
{
    int n;
    Expr *const *content = op_exprs(v->def, ATTR_content, &n);
    Affine at = index_flat(k, v, index);
    int64_t i;
    if (v->rank == 0 || n == 1)
        i = 0;
    else if (at.n > 0 || !expr_is_int(at.constant, &i))
        i = -1;
    if (i >= 0) {
        size_called(k, content[i], "count");
        const char *text = size_bare(k, content[i]);
        return (Code){text, is_name(text) ? BINDS_ATOM : BINDS_LOW, 0};
    }
    affine_seen(k, &at);
    const char *position = affine_atom(k, &at);
    Buf text = {.arena = k->arena};
    for (int j = 0; j + 1 < n; j++) buf_printf(&text, "%s == %d ? %s : ", position, j, size_text(k, content[j]));
    buf_put(&text, size_text(k, content[n - 1]));
    return (Code){buf_text(&text), BINDS_LOW, affine_level(k, &at)};
}

static Code random_number(Kernel *k, Value *v, Code place)
{
    const bool uniform = strcmp(op_text(v->def, ATTR_distribution), "uniform") == 0;
    const char *seed = param_other(k, ARG_SEED, "seed", "uint64_t", NULL),
               *step = param_other(k, ARG_STEP, "step", "int64_t", NULL);
    /* the operation's own number is a parameter, so that all dropouts share a kernel */
    const char *stream = param_other(k, ARG_EXPR, "stream", "int64_t", expr_int(k->symbols, op_int(v->def, ATTR_seed)));
    return (Code){text_of(k, "%s_%s(philox(%s, %s, %s, %s))", uniform ? "uniform" : "normal",
                          v->dtype == DTYPE_f64 ? "double" : "float", seed, step, stream, place.text),
                  BINDS_ATOM, place.level};
}

/* ---- elementwise ---- */
static bool is_math(const char *name, size_t n)
{
    static const char *const functions[] = {"sqrt",  "exp",   "expm1", "log",  "log1p", "sin",  "cos",
                                            "tan",   "asin",  "acos",  "atan", "sinh",  "cosh", "asinh",
                                            "acosh", "atanh", "tanh",  "erf",  "floor", "ceil", "rint"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strlen(functions[i]) == n && strncmp(functions[i], name, n) == 0) return true;
    return false;
}

static Code cast_code(Kernel *k, Dtype to, Dtype from, Code a)
{
    if (to == from) return a;
    if (is_half(to))
        return (Code){
            text_of(k, "float(%s(%s))", dtype_c(to),
                    from == DTYPE_f64 || !dtype_is_float(from) ? text_of(k, "(float)%s", wrapped(k, a, BINDS_UNARY)) : a.text),
            BINDS_ATOM, a.level};
    if (is_half(from)) from = DTYPE_f32;
    if (to == from) return a;
    if (dtype_is_float(from) && !dtype_is_float(to))
        return (Code){text_of(k, "cast<%s>(%s)", dtype_c(to), a.text), BINDS_ATOM, a.level};
    if (to == DTYPE_bool) return (Code){text_of(k, "%s != 0", wrapped(k, a, BINDS_SUM)), BINDS_LOW, a.level};
    return (Code){text_of(k, "(%s)%s", dtype_c(to), wrapped(k, a, BINDS_UNARY)), BINDS_UNARY, a.level};
}

/* The text of an operation for operands of type d, where that of ops.def is not what C says. */
static const char *op_expression(const Op *op, Dtype d)
{
    const bool is_float = dtype_is_float(d);
    double number;
    switch (op->kind) {
    case OP_relu: return "relu(a)";
    case OP_is_nan: return "is_nan(a)";
    case OP_mod: return "modulo(a, b)";
    case OP_div: return is_float ? "a / b" : "quotient(a, b)";
    case OP_reciprocal: return is_float ? "1 / a" : "quotient(1, a)";
    case OP_pow:
        if (value_is_scalar_constant(op->in[1], &number) && number == 2) return "a * a";
        return "power(a, b)";
    case OP_and: return "a & b"; /* of bools the same, and it vectorises */
    case OP_or: return "a | b";
    case OP_max: return d == DTYPE_bool ? "a | b" : "maximum(a, b)";
    case OP_min: return d == DTYPE_bool ? "a & b" : "minimum(a, b)";
    case OP_shift_left: return "shift_left(a, b)";
    case OP_shift_right: return "shift_right(a, b)";
    case OP_floor:
    case OP_ceil:
    case OP_round: return is_float ? op_info(op->kind)->text : "a";
    case OP_not:
    case OP_bit_not: return d == DTYPE_bool ? "!a" : op_info(op->kind)->text;
    default: return op_info(op->kind)->text;
    }
}

/* How tightly an operation's text binds, and what its left and right operands must. */
static void binding(const char *text, int *whole, int *left, int *right)
{
    *whole = BINDS_LOW, *left = *right = BINDS_ATOM;
    if (text[1] == 0 || strchr(text, '(')) *whole = BINDS_ATOM, *left = *right = BINDS_LOW;
    if (strcmp(text, "1 / (1 + exp(-a))") == 0) *whole = BINDS_PRODUCT, *left = BINDS_ATOM;
    if (strcmp(text, "a + b") == 0 || strcmp(text, "a - b") == 0) *whole = *left = BINDS_SUM, *right = BINDS_PRODUCT;
    if (strcmp(text, "a * b") == 0 || strcmp(text, "a / b") == 0) *whole = *left = BINDS_PRODUCT, *right = BINDS_UNARY;
    if (strcmp(text, "1 / a") == 0) *whole = BINDS_PRODUCT, *left = BINDS_UNARY;
    if (strcmp(text, "-a") == 0 || strcmp(text, "!a") == 0 || strcmp(text, "~a") == 0)
        *whole = BINDS_UNARY, *left = BINDS_UNARY + 1;
    if (strcmp(text, "a < b") == 0 || strcmp(text, "a <= b") == 0 || strcmp(text, "a == b") == 0)
        *whole = BINDS_COMPARISON, *left = *right = BINDS_SUM;
    if (strcmp(text, "a ? b : c") == 0) *left = BINDS_COMPARISON, *right = BINDS_SUM;
}

/* ops.def's text with the operands put in: "tanh(a)" of v1 becomes tanhf(v1), "maximum(a, b)" of integers maximum<int64_t>(v1, 0).
 */
static Code substitute(Kernel *k, const Value *v, const char *text, Code *in, int n)
{
    const Op *op = v->def;
    const Dtype d = op->in[n - 1]->dtype;
    int whole, left, right;
    binding(text, &whole, &left, &right);
    Buf out = {.arena = k->arena};
    Code code = {NULL, whole, 0};
    for (int i = 0; i < n; i++)
        if (in[i].level > code.level) code.level = in[i].level;
    for (const char *p = text; *p;) {
        const size_t word = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (word == 1 && *p >= 'a' && *p < 'a' + n) {
            buf_put(&out, wrapped(k, in[*p - 'a'], *p == 'a' ? left : right));
        } else {
            buf_write(&out, p, word ? word : 1);
            if (word && is_math(p, word))
                buf_put(&out, strcmp(compute_type(d), "float") == 0 ? "f" : "");
            else if (word > 1 && p[word] == '(' && !dtype_is_float(d))
                buf_printf(&out, "<%s>", dtype_c(d));
        }
        p += word ? word : 1;
    }
    code.text = buf_text(&out);
    return code;
}

static bool is_zero(Code c)
{
    return strcmp(c.text, "0.f") == 0 || strcmp(c.text, "0.0") == 0;
}

/* Whether the text of such an element is of the type of indices: a loop variable, a size, a choice of those. */
static bool made_of_indices(const Kernel *k, const Value *v)
{
    if (!v->def || values_hold(&k->group->in, v)) return false;
    if (v->def->kind == OP_select) return made_of_indices(k, v->def->in[1]) && made_of_indices(k, v->def->in[2]);
    if (op_info(v->def->kind)->class == INDEX) return made_of_indices(k, v->def->in[0]);
    return v->def->kind == OP_iota || v->def->kind == OP_dims;
}
static bool is_index(const Kernel *k, const Value *v, const Code *c)
{
    const bool variable = is_name(c->text) && *c->text == 'v'; /* has the type of its value */
    return strcmp(k->index_type, "Index") == 0 && v->dtype == DTYPE_i64 && !variable && made_of_indices(k, v);
}

/* Sums and products of int64 elements that are indices are made of 64 bits in the form with 32-bit indices, too. */
static void widen(Kernel *k, const Op *op, const char *text, Code *in)
{
    if (op->out[0]->dtype != DTYPE_i64 || strchr(text, '(') || strchr(text, '?')) return;
    int first = -1;
    for (int i = 0; i < op->n_in; i++) {
        if (is_index(k, op->in[i], &in[i]))
            first = first < 0 ? i : first;
        else if (!op->in[i]->def || op->in[i]->def->kind != OP_constant)
            return;
    }
    if (first >= 0) in[first] = (Code){text_of(k, "(int64_t)%s", wrapped(k, in[first], BINDS_UNARY)), BINDS_UNARY, in[first].level};
}

static Code elementwise(Kernel *k, Value *v, const Index *index)
{
    const Op *op = v->def;
    Code in[3];
    for (int i = 0; i < op->n_in; i++) in[i] = element(k, op->in[i], index);
    int level = 0;
    for (int i = 0; i < op->n_in; i++)
        if (in[i].level > level) level = in[i].level;
    for (int i = 0; i < op->n_in; i++)
        if (in[i].level < level && k->pass == PASS_WRITE && strpbrk(in[i].text, "(/*") &&
            in[i].binds < BINDS_ATOM + (strchr(in[i].text, '(') != NULL))
            in[i] = named(k, in[i], compute_type(op->in[i]->dtype), local_name(k, op->in[i]));
    if (op->kind == OP_cast) return cast_code(k, v->dtype, op->in[0]->dtype, in[0]);
    if (op->kind == OP_random_at) return random_number(k, v, in[0]);
    if (op->kind == OP_bitcast)
        return (Code){text_of(k, "bit_cast<%s>(%s)", dtype_c(v->dtype), in[0].text), BINDS_ATOM, in[0].level};
    const char *text = op_expression(op, op->in[op->n_in - 1]->dtype);
    if (strcmp(text, "a") == 0) return in[0];
    if (op->kind == OP_add && is_zero(in[1])) return in[0]; /* what a pad leaves empty; -0 + 0 alone would differ */
    if (op->kind == OP_add && is_zero(in[0])) return in[1];
    widen(k, op, text, in);
    if (strcmp(text, "a * a") == 0) in[0] = named(k, in[0], compute_type(v->dtype), local_name(k, op->in[0]));
    return substitute(k, v, text, in, op->n_in);
}

/* ---- index operations ---- */
static Code broadcast(Kernel *k, Value *v, const Index *index)
{
    Value *a = v->def->in[0];
    int n;
    const int64_t *axes = op_ints(v->def, ATTR_axes, &n);
    Index at = {.rank = a->rank};
    bool one = true;
    for (int i = 0; i < n; i++) one = one && expr_is(expr_canonical(k->symbols, a->shape[i]), 1);
    Index from = one ? *index : index_vector(k, v, index);
    for (int i = 0; i < n; i++)
        at.at[i] = expr_is(expr_canonical(k->symbols, a->shape[i]), 1) ? affine_int(k, 0) : from.at[axes[i]];
    return element(k, a, &at);
}

static Code transpose(Kernel *k, Value *v, const Index *index)
{
    int n;
    const int64_t *axes = op_ints(v->def, ATTR_axes, &n);
    Index from = index_vector(k, v, index), at = {.rank = n};
    for (int i = 0; i < n; i++) at.at[axes[i]] = from.at[i];
    return element(k, v->def->in[0], &at);
}

/* Where an element of a slice lies in what it is a slice of. */
static Index slice_index(Kernel *k, const Value *v, const Index *index)
{
    int n;
    Expr *const *start = op_exprs(v->def, ATTR_start, &n);
    const int64_t *step = op_ints(v->def, ATTR_step, &n);
    Index from = index_vector(k, v, index), at = {.rank = n};
    for (int i = 0; i < n; i++) {
        at.at[i] = affine_expr(k, start[i]);
        at.at[i] = affine_add(k, &at.at[i], &from.at[i], expr_int(k->symbols, step[i]));
    }
    return at;
}

static Code slice(Kernel *k, Value *v, const Index *index)
{
    const Index at = slice_index(k, v, index);
    return element(k, v->def->in[0], &at);
}

/* A piece of the kernel under a condition: its statements, and the value they lead to. */
typedef struct {
    const char *statements;
    Code value;
} Branch;

/* condition ? yes : no; with statements of their own, an if. */
static Code choose(Kernel *k, const Value *v, Code condition, Branch yes, Branch no)
{
    if (!*yes.statements && !*no.statements) {
        int level = condition.level > yes.value.level ? condition.level : yes.value.level;
        level = level > no.value.level ? level : no.value.level;
        if (level > k->depth - 1) level = k->depth - 1;
        return (Code){text_of(k, "%s ? %s : %s", condition.text, wrapped(k, yes.value, BINDS_SUM), no.value.text), BINDS_LOW,
                      level};
    }
    const char *name = fresh_name(k, local_name(k, v));
    line(k, "%s %s;", compute_type(v->dtype), name);
    line(k, "if (%s) {\n%s%s = %s;", condition.text, yes.statements, name, yes.value.text);
    line(k, "} else {\n%s%s = %s;", no.statements, name, no.value.text);
    line(k, "}");
    return (Code){name, BINDS_ATOM, k->depth - 1};
}

/* An element that may only be computed under a condition; the last n facts are what it says. */
static Branch under_condition(Kernel *k, Value *v, const Index *at, int n)
{
    Branch b;
    block_open_guard(k);
    b.value = element(k, v, at);
    b.statements = block_close_guard(k);
    k->facts.n -= n;
    return b;
}

static void add_fact(Kernel *k, const Affine *index, Expr *size)
{
    vec_push(k->arena, &k->facts, ((Fact){*index, size}));
}

static void add_condition(Kernel *k, Code *all, const Affine *unreduced, const char *compare, Expr *bound)
{
    Affine reduced = *unreduced, *a = &reduced;
    affine_seen(k, unreduced);
    while (affine_reduce(k, a, &bound)) continue;                                 /* 64 * i + j < 128, with j < 64, is i < 2 */
    bound = expr_canonical(k->symbols, expr_sub(k->symbols, bound, a->constant)); /* i >= 2 rather than i - 2 >= 0 */
    a->constant = expr_int(k->symbols, 0);
    size_called(k, bound, "bound");
    const char *text = text_of(k, "%s %s %s", affine_text(k, a), compare, size_bare(k, bound));
    all->text = all->text ? text_of(k, "%s && %s", all->text, text) : text;
    const int level = affine_level(k, a);
    if (level > all->level) all->level = level;
}

/* 0 <= a < size, as far as it is not certain anyway. */
static void add_range(Kernel *k, Code *all, const Affine *a, Expr *size)
{
    affine_seen(k, a);
    Expr *least = affine_extreme(k, a, true), *most = affine_extreme(k, a, false), *zero = expr_int(k->symbols, 0);
    if (!least || !expr_at_least(k->symbols, least, zero)) add_condition(k, all, a, ">=", zero);
    if (!most || !expr_at_least(k->symbols, expr_sub(k->symbols, size, expr_int(k->symbols, 1)), most))
        add_condition(k, all, a, "<", size);
}

static bool never_within(Kernel *k, const Affine *a, Expr *size)
{
    Expr *least = affine_extreme(k, a, true), *most = affine_extreme(k, a, false);
    return (least && expr_at_least(k->symbols, least, size)) || (most && expr_at_least(k->symbols, expr_int(k->symbols, -1), most));
}

/* result[start + step * i] = a[i]: at r stands a[(r - start) / step] where that is an index of a. */
static Code pad(Kernel *k, Value *v, const Index *index)
{
    Value *a = v->def->in[0];
    int n;
    Expr *const *start = op_exprs(v->def, ATTR_start, &n);
    const int64_t *step = op_ints(v->def, ATTR_step, &n);
    Index from = index_vector(k, v, index), at = {.rank = n}, nothing = {.rank = 0};
    Code condition = {NULL, BINDS_LOW, 0};
    const int facts = k->facts.n;
    for (int i = 0; i < n; i++) {
        if (expr_is(start[i], 0) && step[i] == 1 && expr_always_equal(k->symbols, a->shape[i], v->shape[i])) {
            at.at[i] = from.at[i];
            continue;
        }
        Affine shifted = affine_expr(k, start[i]), zero = affine_int(k, 0);
        const int64_t sign = step[i] < 0 ? -1 : 1, size = sign * step[i];
        shifted = affine_add(k, &from.at[i], &shifted, expr_int(k->symbols, -1));
        shifted = affine_add(k, &zero, &shifted, expr_int(k->symbols, sign));
        at.at[i] = shifted;
        if (size > 1) {
            if (affine_extreme(k, &shifted, true) == NULL ||
                !expr_at_least(k->symbols, affine_extreme(k, &shifted, true), expr_int(k->symbols, 0)))
                add_condition(k, &condition, &shifted, ">=", expr_int(k->symbols, 0));
            affine_seen(k, &shifted);
            const char *text = text_of(k, "%s %% %lld == 0", affine_atom(k, &shifted), (long long)size);
            condition.text = condition.text ? text_of(k, "%s && %s", condition.text, text) : text;
            if (affine_level(k, &shifted) > condition.level) condition.level = affine_level(k, &shifted);
            at.at[i] = affine_var(k, quotient_var(k, &shifted, expr_int(k->symbols, size)));
            add_condition(k, &condition, &at.at[i], "<", a->shape[i]);
        } else if (never_within(k, &shifted, a->shape[i])) {
            affine_seen(k, &shifted);
            k->facts.n = facts;
            return element(k, v->def->in[1], &nothing);
        } else {
            add_range(k, &condition, &shifted, a->shape[i]);
        }
        add_fact(k, &at.at[i], a->shape[i]);
    }
    if (condition.text) {
        Branch yes = under_condition(k, a, &at, k->facts.n - facts);
        return choose(k, v, condition, yes, under_condition(k, v->def->in[1], &nothing, 0));
    }
    Code c = element(k, a, &at);
    k->facts.n = facts;
    return c;
}

/* Parts from p on, at an index whose position along the axis counts from the beginning of part p. */
static Code concat_from(Kernel *k, Value *v, int p, const Index *at, int axis)
{
    const Op *op = v->def;
    while (p + 1 < op->n_in && expr_is(expr_canonical(k->symbols, op->in[p]->shape[axis]), 0)) p++;
    add_fact(k, &at->at[axis], op->in[p]->shape[axis]);
    if (p + 1 == op->n_in) {
        Code c = element(k, op->in[p], at);
        k->facts.n--;
        return c;
    }
    Index rest = *at;
    Affine size = affine_expr(k, op->in[p]->shape[axis]);
    rest.at[axis] = affine_add(k, &at->at[axis], &size, expr_int(k->symbols, -1));
    Expr *least = affine_extreme(k, &at->at[axis], true), *most = affine_extreme(k, &rest.at[axis], false);
    if (most && expr_at_least(k->symbols, expr_int(k->symbols, -1), most)) {
        affine_seen(k, &at->at[axis]);
        Code c = element(k, op->in[p], at);
        k->facts.n--;
        return c;
    }
    if (least && expr_at_least(k->symbols, least, op->in[p]->shape[axis])) {
        affine_seen(k, &at->at[axis]);
        k->facts.n--;
        return concat_from(k, v, p + 1, &rest, axis);
    }
    Code condition = {NULL, BINDS_LOW, 0};
    add_condition(k, &condition, &at->at[axis], "<", op->in[p]->shape[axis]);
    Branch here = under_condition(k, op->in[p], at, 1), further;
    block_open_guard(k);
    further.value = concat_from(k, v, p + 1, &rest, axis);
    further.statements = block_close_guard(k);
    return choose(k, v, condition, here, further);
}

/* What v is, or is a slice of, where the group reads that; *offset: of the element in it. */
static Value *read_at(Kernel *k, Value *v, const Index *index, Affine *offset)
{
    *offset = index_flat(k, v, index);
    if (!v->def || values_hold(&k->group->in, v)) return v;
    if (v->def->kind != OP_slice) return NULL;
    const Index at = slice_index(k, v, index);
    return read_at(k, v->def->in[0], &at, offset);
}

/* Rows of one tensor in another order, as where exporters put the gates of a recurrent layer into ONNX's: which part a row is of is asked
 * once a row, where concat_from would ask it for each element.
 *
 *     const Index from = row < 16 ? 256 : row < 32 ? -256 : 0;
 *     … gradient[row * 16 + from + j] …
 *
 * False where v is something else. */
static bool reordered_rows(Kernel *k, Value *v, const Index *index, int axis, Code *code)
{
    const Op *op = v->def;
    const Affine here = index_flat(k, v, index);
    const int level = affine_level(k, &index->at[axis]);
    if (level >= affine_level(k, &here)) return false;
    Value *from = NULL;
    Index at = *index;
    Buf text = {.arena = k->arena};
    int64_t shift = 0, most = 0;
    for (int p = 0; p < op->n_in; p++) {
        Affine offset;
        Value *of = read_at(k, op->in[p], &at, &offset);
        offset = affine_add(k, &offset, &here, expr_int(k->symbols, -1));
        if (!of || (from && of != from) || offset.n || !expr_is_int(offset.constant, &shift)) return false;
        from = of;
        most = shift > most ? shift : most;
        if (p + 1 == op->n_in) break;
        Code condition = {NULL, BINDS_LOW, 0};
        add_condition(k, &condition, &at.at[axis], "<", op->in[p]->shape[axis]);
        buf_printf(&text, "%s ? %lld : ", condition.text, (long long)shift);
        const Affine size = affine_expr(k, op->in[p]->shape[axis]);
        at.at[axis] = affine_add(k, &at.at[axis], &size, expr_int(k->symbols, -1));
    }
    buf_printf(&text, "%lld", (long long)shift);
    Var *shifted = defined_var(k, "from", level, NULL, buf_text(&text));
    shifted->bound = expr_int(k->symbols, most + 1);
    const Affine by = affine_var(k, shifted);
    const Index flat = {.flat = true, .at = {affine_add(k, &by, &here, expr_int(k->symbols, 1))}};
    *code = element(k, from, &flat);
    return true;
}

static Code gather(Kernel *k, Value *v, const Index *index)
{
    Value *a = v->def->in[0], *positions = v->def->in[1];
    const int axis = (int)op_int(v->def, ATTR_axis), rank = positions->rank;
    Index from = index_vector(k, v, index), of_position = {.rank = rank}, at = {.rank = a->rank};
    for (int i = 0; i < rank; i++) of_position.at[i] = from.at[axis + i];
    Code c = element(k, positions, &of_position);
    for (int i = 0; i < axis; i++) at.at[i] = from.at[i];
    for (int i = axis + 1; i < a->rank; i++) at.at[i] = from.at[i + rank - 1];
    if (expr_is(expr_canonical(k->symbols, a->shape[axis]), 1))
        at.at[axis] = affine_int(k, 0);
    else {
        c = named(k, c, "int64_t", "at");
        Var *var = defined_var(k, "unused", c.level, NULL, NULL);
        var->name = c.text;
        var->standing = true;
        var->at_level = c.level;
        var->bound = a->shape[axis];
        at.at[axis] = affine_var(k, var);
    }
    return element(k, a, &at);
}

static Code reshaped(Kernel *k, Value *v, const Index *index)
{
    Index at = {.flat = true};
    at.at[0] = index_flat(k, v, index);
    return element(k, v->def->in[0], &at);
}

static Code compute(Kernel *k, Value *v, const Index *index)
{
    const OpInfo *info = op_info(v->def->kind);
    if (info->class == ELEMENTWISE) return elementwise(k, v, index);
    switch (v->def->kind) {
    case OP_constant: return constant(k, v, index);
    case OP_dims: return dims(k, v, index);
    case OP_random: {
        Affine at = index_flat(k, v, index);
        affine_seen(k, &at);
        return random_number(k, v, (Code){affine_text(k, &at), BINDS_LOW, affine_level(k, &at)});
    }
    case OP_broadcast: return broadcast(k, v, index);
    case OP_reshape: return reshaped(k, v, index);
    case OP_transpose: return transpose(k, v, index);
    case OP_slice: return slice(k, v, index);
    case OP_pad: return pad(k, v, index);
    case OP_gather: return gather(k, v, index);
    case OP_concat: {
        const int axis = (int)op_int(v->def, ATTR_axis);
        Index at = index_vector(k, v, index);
        Code code;
        return reordered_rows(k, v, &at, axis, &code) ? code : concat_from(k, v, 0, &at, axis);
    }
    case OP_iota: {
        Index at = index_vector(k, v, index);
        return number_of(k, v->dtype, &at.at[op_int(v->def, ATTR_axis)]);
    }
    default: bug("%%%d: a %s is no element of others", v->id, info->name);
    }
}

static bool wraps_narrow(Dtype d) /* C computes it in int: only an assignment brings it back to its width */
{
    return d == DTYPE_i8 || d == DTYPE_i16 || d == DTYPE_u8 || d == DTYPE_u16;
}

Code element_stored(Kernel *k, Value *v, const Index *index)
{
    k->whole = v;
    return element(k, v, index);
}

/* What tells elements of v apart: their index, or where they lie in memory. */
static const char *index_key(Kernel *k, const Value *v, const Index *index, bool from_memory)
{
    if (from_memory && !index->flat && v->rank > 0) {
        const Affine at = index_flat(k, v, index);
        return affine_key(k, &at);
    }
    Buf buf = {.arena = k->arena};
    for (int i = 0; i < (index->flat ? 1 : index->rank); i++)
        buf_printf(&buf, from_memory ? "%s" : index->flat ? "flat[%s]" : "[%s]", affine_key(k, &index->at[i]));
    return buf_text(&buf);
}

Code element(Kernel *k, Value *v, const Index *index)
{
    const bool whole = k->whole == v;
    k->whole = whole && v->def && op_info(v->def->kind)->class == INDEX && v->def->n_in == 1 ? v->def->in[0] : NULL;
    for (int i = 0; i < k->at_hand.n; i++) /* a sum over the row: the same for all its elements */
        if (k->at_hand.at[i].value == v && !k->at_hand.at[i].in_memory)
            return (Code){k->at_hand.at[i].name, BINDS_ATOM, k->at_hand.at[i].level ? k->at_hand.at[i].level : 1};
    int since;
    const bool from_memory = !v->def || values_hold(&k->group->in, v) || read_again(k, v, &since);
    const char *key = index_key(k, v, index, from_memory);
    for (int i = 0; i < k->memos.n; i++) {
        Memo *m = &k->memos.at[i];
        if (m->gone || m->value != v || strcmp(m->key, key) != 0) continue;
        m->uses++;
        return m->code;
    }
    const int id = k->memos.n;
    vec_push(k->arena, &k->memos, ((Memo){.value = v, .key = key, .gone = true, .uses = 1}));
    Code code;
    if (v->origin == FROM_HYPER && v->rank == 0)
        code = (Code){param_hyper(k, v), BINDS_ATOM, 0};
    else
        code = from_memory ? load(k, v, index) : compute(k, v, index);
    const bool in_condition = k->block[k->depth - 1].guard;
    /* What is used once stands inside its user, who names it where the user itself changes more often. */
    const bool once = k->pass == PASS_WRITE && k->uses.at[id] == 1 && (code.level >= k->depth - 1 || in_condition || !from_memory);
    const bool is_short = from_memory || whole || (words_in(code.text) <= 12 && !wraps_narrow(v->dtype));
    const bool literal_or_name = code.level == 0 && code.binds >= BINDS_UNARY && !strpbrk(code.text, "[(");
    if (!literal_or_name && !(once && is_short))
        code = named(k, code, compute_type(v->dtype), from_memory ? element_name(k->arena, code.text) : local_name(k, v));
    k->memos.at[id].code = code;
    k->memos.at[id].level = level_allowed(k, code.level);
    k->memos.at[id].gone = false;
    return code;
}
