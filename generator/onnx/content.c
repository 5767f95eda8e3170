/* Arithmetic on elements that are known while the program is made: sizes, axes, shapes.  One function an operator, each from one
 * element of each operand to one of the result; fold_elements runs it over whole (broadcast) tensors. */
#include "onnx/terms.h"

static bool both_ints(Expr *const *e, int64_t *a, int64_t *b)
{
    return expr_is_int(e[0], a) && expr_is_int(e[1], b);
}

static Expr *truth(Import *im, bool value)
{
    return number(im, value);
}

Expr *fold_add(Import *im, Expr *const *e)
{
    int64_t a, b, r;
    if (both_ints(e, &a, &b) && __builtin_add_overflow(a, b, &r)) return NULL;
    return expr_add(im->symbols, e[0], e[1]);
}

Expr *fold_sub(Import *im, Expr *const *e)
{
    int64_t a, b, r;
    if (both_ints(e, &a, &b) && __builtin_sub_overflow(a, b, &r)) return NULL;
    return expr_sub(im->symbols, e[0], e[1]);
}

Expr *fold_mul(Import *im, Expr *const *e)
{
    int64_t a, b, r;
    if (both_ints(e, &a, &b) && __builtin_mul_overflow(a, b, &r)) return NULL;
    return expr_mul(im->symbols, e[0], e[1]);
}

/* Towards zero, as ONNX divides: floor where both are certainly >= 0, or where it divides exactly; else a plain divisor, the part above 0
 * and the part below it apart.  What lies above -b gives 0 below 0:
 * (x - 1) / 2, the steps of a convolution. */
Expr *fold_div(Import *im, Expr *const *e)
{
    int64_t a, b;
    if (expr_is(e[1], 0)) return NULL;
    if (both_ints(e, &a, &b)) return b == -1 && a == INT64_MIN ? NULL : number(im, a / b);
    Expr *exact = expr_divide_exactly(im->symbols, e[0], e[1]);
    if (exact) return exact;
    if (!expr_at_least(im->symbols, e[1], number(im, 0))) return NULL;
    if (expr_at_least(im->symbols, e[0], number(im, 0))) return expr_floordiv(im->symbols, e[0], e[1]);
    Expr *zero = number(im, 0), *above = expr_floordiv(im->symbols, max_of(im, e[0], zero), e[1]);
    if (!expr_is_int(e[1], &b)) return NULL;
    if (expr_at_least(im->symbols, e[0], number(im, 1 - b))) return above;
    Expr *below = expr_floordiv(im->symbols, max_of(im, expr_sub(im->symbols, zero, e[0]), zero), e[1]);
    return expr_sub(im->symbols, above, below);
}

Expr *fold_mod(Import *im, Expr *const *e)
{
    return expr_is(e[1], 0) ? NULL : expr_mod(im->symbols, e[0], e[1]);
}

Expr *fold_rem(Import *im, Expr *const *e)
{
    int64_t a, b;
    if (expr_is(e[1], 0)) return NULL;
    if (both_ints(e, &a, &b)) return b == -1 ? number(im, 0) : number(im, a % b);
    if (!expr_at_least(im->symbols, e[0], number(im, 0)) || !expr_at_least(im->symbols, e[1], number(im, 0))) return NULL;
    return expr_mod(im->symbols, e[0], e[1]);
}

Expr *fold_pow(Import *im, Expr *const *e)
{
    int64_t exponent;
    if (!expr_is_int(e[1], &exponent) || exponent < 0 || exponent > 62) return NULL;
    Expr *r = number(im, 1);
    for (int64_t i = 0; r && i < exponent; i++) r = fold_mul(im, (Expr *[]){r, e[0]});
    return r;
}

Expr *fold_min(Import *im, Expr *const *e)
{
    return min_of(im, e[0], e[1]);
}

Expr *fold_max(Import *im, Expr *const *e)
{
    return max_of(im, e[0], e[1]);
}

Expr *fold_eq(Import *im, Expr *const *e)
{
    if (expr_always_equal(im->symbols, e[0], e[1])) return truth(im, true);
    return expr_never_equal(im->symbols, e[0], e[1]) ? truth(im, false) : NULL;
}

Expr *fold_lt(Import *im, Expr *const *e)
{
    switch (expr_compare(im->symbols, e[0], e[1])) {
    case ORDER_LESS: return truth(im, true);
    case ORDER_EQUAL:
    case ORDER_GREATER:
    case ORDER_GREATER_EQUAL: return truth(im, false);
    default: return NULL;
    }
}

Expr *fold_not(Import *im, Expr *const *e)
{
    int64_t a;
    return expr_is_int(e[0], &a) ? truth(im, !a) : NULL;
}

Expr *fold_gt(Import *im, Expr *const *e)
{
    return fold_lt(im, (Expr *[]){e[1], e[0]});
}

Expr *fold_ge(Import *im, Expr *const *e)
{
    Expr *less = fold_lt(im, e);
    return less ? fold_not(im, &less) : NULL;
}

Expr *fold_le(Import *im, Expr *const *e)
{
    return fold_ge(im, (Expr *[]){e[1], e[0]});
}

/* One operand may decide alone. */
Expr *fold_and(Import *im, Expr *const *e)
{
    int64_t a, b;
    bool a_known = expr_is_int(e[0], &a), b_known = expr_is_int(e[1], &b);
    if ((a_known && !a) || (b_known && !b)) return truth(im, false);
    return a_known && b_known ? truth(im, true) : NULL;
}

Expr *fold_or(Import *im, Expr *const *e)
{
    int64_t a, b;
    bool a_known = expr_is_int(e[0], &a), b_known = expr_is_int(e[1], &b);
    if ((a_known && a) || (b_known && b)) return truth(im, true);
    return a_known && b_known ? truth(im, false) : NULL;
}

Expr *fold_xor(Import *im, Expr *const *e)
{
    int64_t a, b;
    return both_ints(e, &a, &b) ? truth(im, !a != !b) : NULL;
}

Expr *fold_neg(Import *im, Expr *const *e)
{
    if (expr_is(e[0], INT64_MIN)) return NULL;
    return expr_sub(im->symbols, number(im, 0), e[0]);
}

Expr *fold_abs(Import *im, Expr *const *e)
{
    Expr *opposite = fold_neg(im, e);
    return opposite ? max_of(im, e[0], opposite) : NULL;
}

Expr *fold_sign(Import *im, Expr *const *e)
{
    switch (expr_compare(im->symbols, e[0], number(im, 0))) {
    case ORDER_LESS: return number(im, -1);
    case ORDER_EQUAL: return number(im, 0);
    case ORDER_GREATER: return number(im, 1);
    default: return NULL;
    }
}

Expr *fold_where(Import *im, Expr *const *e)
{
    int64_t condition;
    if (expr_is_int(e[0], &condition)) return condition ? e[1] : e[2];
    return expr_always_equal(im->symbols, e[1], e[2]) ? e[1] : NULL;
}

Expr *fold_same(Import *im, Expr *const *e)
{
    (void)im;
    return e[0];
}

Expr *fold_truth(Import *im, Expr *const *e)
{
    Expr *zero = fold_eq(im, (Expr *[]){e[0], number(im, 0)});
    return zero ? fold_not(im, &zero) : NULL;
}

/* ---- over whole tensors ---- */
static int64_t broadcast_known(const int64_t *dims, int n, int64_t *out)
{
    int64_t most = 1;
    for (int i = 0; i < n; i++) {
        if (dims[i] == 1 || dims[i] == most) continue;
        if (most != 1) return -1;
        most = dims[i];
    }
    return *out = most;
}

/* The known shape of all operands broadcast; false where they do not fit, which the operator's own check will say. */
static bool common_dims(Term *const *operands, int n, int rank, int64_t (*strides)[MOST_AXES], int64_t *dims)
{
    int64_t own[8][MOST_AXES];
    for (int k = 0; k < n; k++) {
        term_dims(operands[k], own[k]);
        row_major(own[k], operands[k]->rank, strides[k] + (rank - operands[k]->rank));
    }
    for (int i = 0; i < rank; i++) {
        int64_t of[8];
        for (int k = 0; k < n; k++) {
            int at = i - (rank - operands[k]->rank);
            of[k] = at < 0 ? 1 : own[k][at];
        }
        if (broadcast_known(of, n, &dims[i]) < 0) return false;
        for (int k = 0; k < n; k++)
            if (of[k] == 1) strides[k][i] = 0;
    }
    return true;
}

Term *fold_elements(Import *im, Dtype dtype, Term *const *operands, int n, Fold *fold)
{
    int rank = 0;
    int64_t strides[8][MOST_AXES] = {{0}}, dims[MOST_AXES], count = 1, at[MOST_AXES] = {0};
    if (!fold || n > 8 || dtype_is_float(dtype)) return NULL;
    for (int k = 0; k < n; k++) {
        if (!operands[k]->content || operands[k]->rank > MOST_AXES) return NULL;
        if (operands[k]->rank > rank) rank = operands[k]->rank;
    }
    if (!common_dims(operands, n, rank, strides, dims)) return NULL;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, dims[i], &count)) return NULL;
    if (count > TERM_CONTENT_MAX) return NULL;
    Expr **content = NEW_ARRAY(im->arena, Expr *, count + 1);
    for (int64_t e = 0; e < count; e++) {
        Expr *of[8];
        for (int k = 0; k < n; k++) {
            int64_t from = 0;
            for (int i = 0; i < rank; i++) from += at[i] * strides[k][i];
            of[k] = operands[k]->content[from];
        }
        content[e] = content_element(im, dtype, fold(im, of));
        if (!content[e]) return NULL;
        for (int i = rank - 1; i >= 0 && ++at[i] == dims[i]; i--) at[i] = 0;
    }
    return term_of_content(im, dtype, rank, int_exprs(im, dims, rank), content);
}
