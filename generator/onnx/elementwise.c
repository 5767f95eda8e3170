/* Elementwise operators: tables for those that are one primitive, a function for each that is a formula.
 * Formulas are written so that their gradients hold at the kinks as PyTorch has them, and so that the branch of a select that is
 * not taken never overflows: its gradient would be 0 * infinity. */
#include "onnx/terms.h"
#include <math.h>
#include <string.h>

/* ---- one operand, one primitive ---- */
static const struct {
    const char *op;
    OpKind kind;
    Fold *fold;
} unary_rows[] = {
    {"Abs", OP_abs, fold_abs},
    {"Acos", OP_acos, NULL},
    {"Acosh", OP_acosh, NULL},
    {"Asin", OP_asin, NULL},
    {"Asinh", OP_asinh, NULL},
    {"Atan", OP_atan, NULL},
    {"Atanh", OP_atanh, NULL},
    {"BitwiseNot", OP_bit_not, NULL},
    {"Ceil", OP_ceil, NULL},
    {"Cos", OP_cos, NULL},
    {"Cosh", OP_cosh, NULL},
    {"Erf", OP_erf, NULL},
    {"Exp", OP_exp, NULL},
    {"Floor", OP_floor, NULL},
    {"IsNaN", OP_is_nan, NULL},
    {"Log", OP_log, NULL},
    {"Neg", OP_neg, fold_neg},
    {"Not", OP_not, fold_not},
    {"Reciprocal", OP_reciprocal, NULL},
    {"Relu", OP_relu, NULL},
    {"Round", OP_round, NULL},
    {"Sigmoid", OP_sigmoid, NULL},
    {"Sign", OP_sign, fold_sign},
    {"Sin", OP_sin, NULL},
    {"Sinh", OP_sinh, NULL},
    {"Sqrt", OP_sqrt, NULL},
    {"Tan", OP_tan, NULL},
    {"Tanh", OP_tanh, NULL},
};

void import_unary(Import *im, const OnnxNode *node)
{
    size_t i = 0;
    while (strcmp(unary_rows[i].op, node->op_type) != 0) check(++i < sizeof unary_rows / sizeof *unary_rows);
    Term *a = input_term(im, node, 0), *known = fold_elements(im, a->dtype, &a, 1, unary_rows[i].fold);
    if (known)
        output_term(im, node, 0, known);
    else
        output(im, node, 0, b_unary(im->graph, unary_rows[i].kind, input(im, node, 0)));
}

/* ---- two operands, one primitive ---- */
typedef struct BinaryRow {
    const char *op;
    OpKind kind;
    bool swapped; /* Greater(a, b) is lt(b, a) */
    bool is_comparison;
    Fold *fold;
} BinaryRow;
static const BinaryRow binary_rows[] = {
    {"Add", OP_add, false, false, fold_add},      {"Sub", OP_sub, false, false, fold_sub},
    {"Mul", OP_mul, false, false, fold_mul},      {"Div", OP_div, false, false, fold_div},
    {"And", OP_and, false, false, fold_and},      {"Or", OP_or, false, false, fold_or},
    {"Xor", OP_xor, false, false, fold_xor},      {"Equal", OP_eq, false, true, fold_eq},
    {"Less", OP_lt, false, true, fold_lt},        {"LessOrEqual", OP_le, false, true, fold_le},
    {"Greater", OP_lt, true, true, fold_gt},      {"GreaterOrEqual", OP_le, true, true, fold_ge},
    {"Max", OP_max, false, false, fold_max},      {"Min", OP_min, false, false, fold_min},
    {"Sum", OP_add, false, false, NULL},          {"BitwiseAnd", OP_bit_and, false, false, NULL},
    {"BitwiseOr", OP_bit_or, false, false, NULL}, {"BitwiseXor", OP_bit_xor, false, false, NULL},
};

static const BinaryRow *binary_row(const OnnxNode *node)
{
    size_t i = 0;
    while (strcmp(binary_rows[i].op, node->op_type) != 0) check(++i < sizeof binary_rows / sizeof *binary_rows);
    return &binary_rows[i];
}

/* Two inputs of one element type whose shapes broadcast: anything else is the user's error. */
static void check_pair(Import *im, const OnnxNode *node, const Term *a, const Term *b)
{
    int rank;
    if (a->dtype != b->dtype)
        import_error(im, node, "%s of %s and %s: wanted one element type; put a Cast before it", node->op_type, term_text(im, a),
                     term_text(im, b));
    broadcast_shapes(im, node, a->rank, a->shape, b->rank, b->shape, &rank);
}

/* x && true is x, stretched over the shape of both; NULL where neither side is true everywhere. */
static Value *and_alone(Import *im, const OnnxNode *node, Value *x, Value *y)
{
    int rank;
    double truth;
    Expr **shape = broadcast_shapes(im, node, x->rank, x->shape, y->rank, y->shape, &rank);
    if (value_is_scalar_constant(x, &truth) && truth != 0) return b_broadcast_to(im->graph, y, rank, shape);
    if (value_is_scalar_constant(y, &truth) && truth != 0) return b_broadcast_to(im->graph, x, rank, shape);
    return NULL;
}

static Term *binary(Import *im, const OnnxNode *node, const BinaryRow *row, Term *a, Term *b)
{
    Term *known = fold_elements(im, row->is_comparison ? DTYPE_bool : a->dtype, (Term *[]){a, b}, 2, row->fold);
    if (known) return known;
    check_pair(im, node, a, b);
    Value *x = term_value(im, a), *y = term_value(im, b);
    Value *only = row->kind == OP_and ? and_alone(im, node, x, y) : NULL;
    if (only) return term_of_value(im, only);
    Value *v = row->swapped ? b_binary(im->graph, row->kind, y, x) : b_binary(im->graph, row->kind, x, y);
    return term_of_value(im, one_for_all(im, v));
}

/* Names the value for readers where it has one. */
static void output_result(Import *im, const OnnxNode *node, Term *t)
{
    if (t->value)
        output(im, node, 0, t->value);
    else
        output_term(im, node, 0, t);
}

void import_binary(Import *im, const OnnxNode *node)
{
    output_result(im, node, binary(im, node, binary_row(node), input_term(im, node, 0), input_term(im, node, 1)));
}

/* Max, Min, Sum, Mean of any number. */
void import_variadic(Import *im, const OnnxNode *node)
{
    bool mean = strcmp(node->op_type, "Mean") == 0;
    const BinaryRow sum = {"Mean", OP_add, false, false, NULL}, *row = mean ? &sum : binary_row(node);
    Term *t = input_term(im, node, 0);
    for (int i = 1; i < node->n_inputs; i++) t = binary(im, node, row, t, input_term(im, node, i));
    if (!mean) {
        output_result(im, node, t);
        return;
    }
    Value *v = term_value(im, t);
    output(im, node, 0, b_div(im->graph, v, b_like(im->graph, v, node->n_inputs)));
}

void import_Mod(Import *im, const OnnxNode *node)
{
    bool fmod_ = attr_int(node, "fmod", 0);
    BinaryRow row = {"Mod", fmod_ ? OP_rem : OP_mod, false, false, fmod_ ? fold_rem : fold_mod};
    output_result(im, node, binary(im, node, &row, input_term(im, node, 0), input_term(im, node, 1)));
}

/* Shifts by the width or more, which C leaves open, shift everything out: to 0, or the sign. */
void import_BitShift(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    const char *direction = attr_string(node, "direction", "");
    bool left = strcmp(direction, "LEFT") == 0;
    if (!left && strcmp(direction, "RIGHT") != 0) import_error(im, node, "direction is \"%s\"; wanted LEFT or RIGHT", direction);
    check_pair(im, node, input_term(im, node, 0), input_term(im, node, 1));
    Value *a = input(im, node, 0), *by = input(im, node, 1), *zero = b_like(g, a, 0);
    int bits = 8 * dtype_bytes(a->dtype);
    Value *within = b_binary(g, OP_lt, by, b_like(g, a, bits)), *gone = zero;
    if (dtype_is_signed(a->dtype)) within = b_binary(g, OP_and, within, b_binary(g, OP_le, zero, by));
    if (dtype_is_signed(a->dtype) && !left) gone = b_select(g, b_binary(g, OP_lt, a, zero), b_like(g, a, -1), zero);
    Value *shifted = b_binary(g, left ? OP_shift_left : OP_shift_right, a, b_binary(g, OP_bit_and, by, b_like(g, a, bits - 1)));
    output(im, node, 0, b_select(g, within, shifted, gone));
}

/* An exponent that is written into the program: a scalar Constant, or an unnamed one that an exporter made an initializer.  A
 * parameter (GeM's "pool.p") keeps its place among the weights. */
static bool plain_exponent(Import *im, const OnnxNode *node, double *exponent)
{
    const Term *t = input_term(im, node, 1);
    if (t->rank != 0) return false;
    if (t->tensor && t->tensor->name[0] && strchr(t->tensor->name, '.')) return false;
    return input_number(im, node, 1, exponent);
}

void import_Pow(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *base = input_term(im, node, 0), *exponent = input_term(im, node, 1);
    Term *known = dtype_is_float(exponent->dtype) ? NULL : fold_elements(im, base->dtype, (Term *[]){base, exponent}, 2, fold_pow);
    if (known) {
        output_term(im, node, 0, known);
        return;
    }
    int rank;
    broadcast_shapes(im, node, base->rank, base->shape, exponent->rank, exponent->shape, &rank);
    Value *a = input(im, node, 0);
    double e;
    if (plain_exponent(im, node, &e) && (e == 1 || e == 2 || e == 3 || (e == 0.5 && dtype_is_float(a->dtype)))) {
        Value *v = e == 1 ? a : e == 0.5 ? b_unary(g, OP_sqrt, a) : b_mul(g, a, a);
        output(im, node, 0, e == 3 ? b_mul(g, v, a) : v);
        return;
    }
    if (plain_exponent(im, node, &e) && dtype_is_float(a->dtype)) {
        output(im, node, 0, b_binary(g, OP_pow, a, b_like(g, a, e)));
        return;
    }
    Value *b = input(im, node, 1);
    Dtype wide = dtype_is_float(a->dtype) ? a->dtype : dtype_is_float(b->dtype) ? b->dtype : a->dtype;
    output(im, node, 0, b_cast(g, b_binary(g, OP_pow, b_cast(g, a, wide), b_cast(g, b, wide)), a->dtype));
}

void import_Where(Import *im, const OnnxNode *node)
{
    Term *t[3];
    int rank;
    for (int i = 0; i < 3; i++) t[i] = input_term(im, node, i);
    if (t[1]->dtype != t[2]->dtype)
        import_error(im, node, "Where chooses between %s and %s: wanted one element type", term_text(im, t[1]),
                     term_text(im, t[2]));
    Term *known = fold_elements(im, t[1]->dtype, t, 3, fold_where);
    if (known) {
        output_term(im, node, 0, known);
        return;
    }
    Expr **shape = broadcast_shapes(im, node, t[1]->rank, t[1]->shape, t[2]->rank, t[2]->shape, &rank);
    broadcast_shapes(im, node, t[0]->rank, t[0]->shape, rank, shape, &rank);
    output(im, node, 0, b_select(im->graph, term_value(im, t[0]), term_value(im, t[1]), term_value(im, t[2])));
}

/* ---- pieces of formulas ---- */
static Value *less(Graph *g, Value *a, Value *b)
{
    return b_binary(g, OP_lt, a, b);
}

static Value *times(Graph *g, Value *a, double factor)
{
    return b_mul(g, a, b_like(g, a, factor));
}

static Value *plus(Graph *g, Value *a, double term)
{
    return b_add(g, a, b_like(g, a, term));
}

/* expm1(x) where x <= 0, else 0. */
static Value *expm1_below(Graph *g, Value *x)
{
    Value *zero = b_like(g, x, 0);
    return b_unary(g, OP_expm1, b_select(g, less(g, zero, x), zero, x));
}

/* log(1 + exp(x)); x itself above 20, where the difference is below what f32 holds: PyTorch's threshold. */
static Value *softplus(Graph *g, Value *x)
{
    Value *large = less(g, b_like(g, x, 20), x), *small = b_select(g, large, b_like(g, x, 0), x);
    return b_select(g, large, x, b_unary(g, OP_log1p, b_unary(g, OP_exp, small)));
}

/* max(0, min(1, alpha * x + beta)), with a gradient only strictly between. */
static Value *hard_sigmoid(Graph *g, Value *x, double alpha, double beta)
{
    Value *y = plus(g, times(g, x, alpha), beta), *zero = b_like(g, x, 0), *one = b_like(g, x, 1);
    return b_select(g, b_binary(g, OP_le, y, zero), zero, b_select(g, b_binary(g, OP_le, one, y), one, y));
}

static Value *gelu(Graph *g, Value *x, bool by_tanh)
{
    Value *inner;
    if (by_tanh)
        inner = b_unary(g, OP_tanh, times(g, b_add(g, x, times(g, b_mul(g, b_mul(g, x, x), x), 0.044715)), 0.79788456080286535588));
    else
        inner = b_unary(g, OP_erf, times(g, x, 0.70710678118654752440));
    return b_mul(g, times(g, x, 0.5), plus(g, inner, 1));
}

/* ---- activations ---- */
void import_LeakyRelu(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    Value *positive = less(g, b_like(g, x, 0), x);
    output(im, node, 0, b_select(g, positive, x, times(g, x, attr_float(node, "alpha", 0.01))));
}

void import_PRelu(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *a = input_term(im, node, 0), *b = input_term(im, node, 1);
    int rank;
    check_pair(im, node, a, b);
    broadcast_shapes(im, node, a->rank, a->shape, b->rank, b->shape, &rank);
    Value *x = term_value(im, a), *slope = term_value(im, b);
    output(im, node, 0, b_select(g, less(g, b_like(g, x, 0), x), x, b_mul(g, x, slope)));
}

void import_Elu(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    Value *below = times(g, expm1_below(g, x), attr_float(node, "alpha", 1));
    output(im, node, 0, b_select(g, less(g, b_like(g, x, 0), x), x, below));
}

void import_Selu(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    double alpha = attr_float(node, "alpha", 1.67326319217681884765625),
           gamma = attr_float(node, "gamma", 1.05070102214813232421875);
    Value *below = times(g, expm1_below(g, x), alpha);
    output(im, node, 0, times(g, b_select(g, less(g, b_like(g, x, 0), x), x, below), gamma));
}

void import_Celu(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    double alpha = attr_float(node, "alpha", 1);
    if (alpha == 0) import_error(im, node, "alpha is 0; wanted another number");
    Value *below = times(g, expm1_below(g, b_div(g, x, b_like(g, x, alpha))), alpha);
    output(im, node, 0, b_select(g, less(g, b_like(g, x, 0), x), x, below));
}

void import_ThresholdedRelu(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    output(im, node, 0, b_select(g, less(g, b_like(g, x, attr_float(node, "alpha", 1)), x), x, b_like(g, x, 0)));
}

void import_HardSigmoid(Import *im, const OnnxNode *node)
{
    output(im, node, 0, hard_sigmoid(im->graph, input(im, node, 0), attr_float(node, "alpha", 0.2), attr_float(node, "beta", 0.5)));
}

void import_HardSwish(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    output(im, node, 0, b_mul(im->graph, x, hard_sigmoid(im->graph, x, 1.0 / 6, 0.5)));
}

void import_Softplus(Import *im, const OnnxNode *node)
{
    output(im, node, 0, softplus(im->graph, input(im, node, 0)));
}

void import_Softsign(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    output(im, node, 0, b_div(im->graph, x, plus(im->graph, b_unary(im->graph, OP_abs, x), 1)));
}

void import_Mish(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    output(im, node, 0, b_mul(im->graph, x, b_unary(im->graph, OP_tanh, softplus(im->graph, x))));
}

/* x * sigmoid(alpha * x): Swish, and com.microsoft's QuickGelu, whose alpha is 1.702. */
void import_Swish(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    double alpha = attr_float(node, "alpha", strcmp(node->op_type, "QuickGelu") == 0 ? 1.702 : 1);
    output(im, node, 0, b_mul(im->graph, x, b_unary(im->graph, OP_sigmoid, times(im->graph, x, alpha))));
}

/* Swish of the gate times what it lets through (opset 28). */
void import_SwiGLU(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    check_pair(im, node, input_term(im, node, 0), input_term(im, node, 1));
    Value *gate = input(im, node, 0), *swish = b_unary(g, OP_sigmoid, times(g, gate, attr_float(node, "alpha", 1)));
    output(im, node, 0, b_mul(g, b_mul(g, gate, swish), input(im, node, 1)));
}

void import_Gelu(Import *im, const OnnxNode *node)
{
    const char *approximate = attr_string(node, "approximate", "none");
    bool by_tanh = strcmp(approximate, "tanh") == 0;
    if (!by_tanh && strcmp(approximate, "none") != 0)
        import_error(im, node, "approximate is \"%s\"; wanted none or tanh", approximate);
    output(im, node, 0, gelu(im->graph, input(im, node, 0), by_tanh));
}

/* com.microsoft: Gelu of x plus an optional bias. */
void import_BiasGelu(Import *im, const OnnxNode *node)
{
    Value *x = input(im, node, 0);
    if (has_input(node, 1)) {
        check_pair(im, node, input_term(im, node, 0), input_term(im, node, 1));
        x = b_add(im->graph, x, input(im, node, 1));
    }
    output(im, node, 0, gelu(im->graph, x, strcmp(node->op_type, "FastGelu") == 0));
}

void import_Shrink(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *real = dtype_is_float(x->dtype) ? x : b_cast(g, x, DTYPE_f32);
    double bias = attr_float(node, "bias", 0), lambda = attr_float(node, "lambd", 0.5);
    Value *above = b_select(g, less(g, b_like(g, real, lambda), real), plus(g, real, -bias), b_like(g, real, 0));
    Value *y = b_select(g, less(g, real, b_like(g, real, -lambda)), plus(g, real, bias), above);
    output(im, node, 0, b_cast(g, y, x->dtype));
}

void import_IsInf(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0);
    bool negative = attr_int(node, "detect_negative", 1), positive = attr_int(node, "detect_positive", 1);
    Value *magnitude = negative && positive ? b_unary(g, OP_abs, x) : x;
    if (negative || positive)
        output(im, node, 0, b_binary(g, OP_eq, magnitude, b_like(g, x, positive ? INFINITY : -INFINITY)));
    else
        output(im, node, 0, b_full(g, DTYPE_bool, 0, x->rank, x->shape));
}

/* ---- Clip ---- */
/* A bound of Clip: attribute (opset 6 to 10) or input; NULL where there is none. */
static Value *clip_bound(Import *im, const OnnxNode *node, const Value *x, const char *name, int i, double *known)
{
    bool from_input = has_input(node, i);
    *known = NAN;
    if (attr_has(node, name) && !from_input)
        *known = attr_float(node, name, 0);
    else if (!from_input)
        return NULL;
    else if (!input_number(im, node, i, known))
        return input(im, node, i);
    return b_number(im->graph, x->dtype, *known);
}

/* Clip of sizes that are known. */
static Term *clip_content(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    if (has_input(node, 1) && t) t = fold_elements(im, t->dtype, (Term *[]){t, input_term(im, node, 1)}, 2, fold_max);
    if (has_input(node, 2) && t) t = fold_elements(im, t->dtype, (Term *[]){t, input_term(im, node, 2)}, 2, fold_min);
    return t && t->content && (has_input(node, 1) || has_input(node, 2)) ? t : NULL;
}

/* PyTorch's clamp, whose gradient is 1 at the bounds themselves; with bounds 0 and 6 its relu6, where it is 0. */
void import_Clip(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Term *known = clip_content(im, node);
    if (known) {
        output_term(im, node, 0, known);
        return;
    }
    Value *x = input(im, node, 0), *y = x;
    double from, to;
    Value *low = clip_bound(im, node, x, "min", 1, &from), *high = clip_bound(im, node, x, "max", 2, &to);
    OpKind beyond = from == 0 && to == 6 ? OP_le : OP_lt;
    if (low) y = b_select(g, b_binary(g, beyond, y, b_reshape(g, low, 0, NULL)), b_reshape(g, low, 0, NULL), y);
    if (high) y = b_select(g, b_binary(g, beyond, b_reshape(g, high, 0, NULL), y), b_reshape(g, high, 0, NULL), y);
    output(im, node, 0, y);
}
