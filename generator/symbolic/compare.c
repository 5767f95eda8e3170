/* Which of two expressions is larger, for all values of their symbols.  Never wrong; undecided where the bounds of the difference
 * do not tell.  A comparison costs one pass over both where their ranges lie apart; else the bounds of the difference, kept with
 * it. The idea: BladeDISC++ (arXiv 2412.16985), section 2.2. */
#include "symbolic/internal.h"

static Order order_of(int64_t low, int64_t high)
{
    if (low > 0) return ORDER_GREATER;
    if (high < 0) return ORDER_LESS;
    if (low == 0 && high == 0) return ORDER_EQUAL;
    if (low >= 0) return ORDER_GREATER_EQUAL;
    if (high <= 0) return ORDER_LESS_EQUAL;
    return ORDER_UNDECIDED;
}

/* The range of a - b term by term, without making the difference.  *exact where low and high are met. */
static void difference_bounds(Symbols *s, const Expr *a, const Expr *b, Wide *low, Wide *high, bool *exact)
{
    uint64_t seen = 0;
    *low = *high = 0;
    *exact = true;
    for (int i = 0, j = 0; i < a->n || j < b->n;) {
        int order = i == a->n ? 1 : j == b->n ? -1 : mono_order(a->term[i].mono, b->term[j].mono);
        Mono *mono = order <= 0 ? a->term[i].mono : b->term[j].mono;
        Wide coef = 0;
        if (order <= 0) coef += a->term[i++].coef;
        if (order >= 0) coef -= b->term[j++].coef;
        if (coef == 0) continue;
        int64_t from, to;
        mono_bounds(s, mono, &from, &to);
        if (from <= -BOUND_LIMIT || to >= BOUND_LIMIT || coef > BOUND_LIMIT || coef < -BOUND_LIMIT) { /* leave it to the full way */
            *low = -BOUND_LIMIT;
            *high = BOUND_LIMIT;
            *exact = false;
            return;
        }
        *low += clamp_bound(coef * (coef > 0 ? from : to)) - (coef * (coef > 0 ? from : to) < -BOUND_LIMIT ? (Wide)1 << 100 : 0);
        *high += clamp_bound(coef * (coef > 0 ? to : from)) + (coef * (coef > 0 ? to : from) > BOUND_LIMIT ? (Wide)1 << 100 : 0);
        *exact &= mono->only_symbols && !mono->late && !(mono->mask & seen);
        seen |= mono->mask;
    }
}

Order expr_compare(Symbols *s, Expr *a, Expr *b)
{
    a = expr_canonical(s, a);
    b = expr_canonical(s, b);
    if (a == b) return ORDER_EQUAL;
    Wide wide_low, wide_high;
    bool exact;
    difference_bounds(s, a, b, &wide_low, &wide_high, &exact);
    if (wide_low > 0) return ORDER_GREATER;
    if (wide_high < 0) return ORDER_LESS;
    Expr *minus = try_mul(s, b, expr_int(s, -1));
    Expr *difference = minus ? try_add(s, a, minus) : NULL;
    if (!difference) return order_of(clamp_bound(wide_low), clamp_bound(wide_high));
    int64_t low, high;
    expr_bounds(s, difference, &low, &high);
    Order order = order_of(low, high);
    bool may_be_sharper = order == ORDER_UNDECIDED || (!exact && (order == ORDER_GREATER_EQUAL || order == ORDER_LESS_EQUAL));
    if (!may_be_sharper || difference->tried_at == s->version) return order;
    difference->tried_at = s->version;
    int64_t least, most;
    if (s->zeros.n || !enumerate_bounds(s, difference, &least, &most)) return order;
    if (least > difference->low) difference->low = least;
    if (most < difference->high) difference->high = most;
    return order_of(difference->low, difference->high);
}

bool expr_always_equal(Symbols *s, Expr *a, Expr *b)
{
    return expr_compare(s, a, b) == ORDER_EQUAL;
}

bool expr_at_least(Symbols *s, Expr *a, Expr *b)
{
    Order order = expr_compare(s, a, b);
    return order == ORDER_EQUAL || order == ORDER_GREATER_EQUAL || order == ORDER_GREATER;
}

bool expr_never_equal(Symbols *s, Expr *a, Expr *b)
{
    Order order = expr_compare(s, a, b);
    if (order == ORDER_LESS || order == ORDER_GREATER) return true;
    if (order == ORDER_EQUAL) return false;
    Expr *minus = try_mul(s, b, expr_int(s, -1));
    Expr *difference = minus ? try_add(s, a, minus) : NULL;
    if (!difference) return false;
    int64_t content = content_of(s, difference, (int64_t)1 << 40); /* 2*x is never 2*y + 1 */
    return content > 1 && constant_of(difference) % content != 0;
}
