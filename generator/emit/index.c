/* Index arithmetic of a kernel: sums of loop variables with symbolic scales.  What does not depend on the innermost loop is
 * computed outside of it; quotients are written only where they are needed. */
#include "emit/kernel.h"
#include <string.h>

/* ---- variables ---- */
static Var *new_var(Kernel *k, Var v)
{
    Var *var = NEW(k->arena, Var);
    *var = v;
    vec_push(k->arena, &k->vars, var);
    return var;
}

Var *loop_var(Kernel *k, const char *name, Expr *extent)
{
    return new_var(k, (Var){.name = name, .level = k->depth - 1, .extent = extent, .standing = true, .at_level = k->depth - 1});
}

Var *defined_var(Kernel *k, const char *name, int level, Expr *extent, const char *definition)
{
    return new_var(k, (Var){.name = fresh_name(k, name), .level = level, .extent = extent, .definition = definition});
}

static Var *division_var(Kernel *k, const char *name, const Affine *of, Expr *by, bool remainder)
{
    Affine *copy = NEW(k->arena, Affine);
    *copy = *of;
    return new_var(k, (Var){.name = name,
                            .level = affine_level(k, of),
                            .extent = remainder ? by : NULL,
                            .of = copy,
                            .by = by,
                            .remainder = remainder});
}

Var *quotient_var(Kernel *k, const Affine *of, Expr *by)
{
    return division_var(k, NULL, of, by, false);
}

/* In the first pass axes are told apart by the names of their variables. */
Var *group_var(Kernel *k, int group, const char *name)
{
    Var *v = loop_var(k, k->pass == PASS_COLLECT ? text_of(k, "axis%d", group) : name, k->groups[group].extent);
    if (k->pass == PASS_COLLECT) v->group = group + 1;
    return v;
}

enum { SHORTEST_LOOP = 8 };

/* A loop variable is divided: its axis is better walked as two, unless the inner one were too short for a loop of its own. */
static void ask_for_split(Kernel *k, const Affine *of, Expr *by)
{
    if (k->pass != PASS_COLLECT || k->split >= 0 || of->n != 1 || !of->term[0].var->group || !expr_is(of->term[0].scale, 1)) return;
    const bool innermost = of->term[0].var->group == k->n_groups;
    if ((innermost && expr_likely(k->symbols, by) < SHORTEST_LOOP) || !expr_divide_exactly(k->symbols, of->constant, by)) return;
    for (int i = 0; i < k->n_parts; i++) {
        if (k->parts[i].group + 1 != of->term[0].var->group) continue;
        Expr *outer = expr_divide_exactly(k->symbols, k->parts[i].extent, by);
        if (!outer || expr_is(outer, 1)) return;
        k->split = i;
        k->split_by = by;
    }
}

/* The variable's name; its definition is written first where it does not stand. */
static const char *var_text(Kernel *k, Var *v)
{
    if (v->standing) return v->name;
    const char *definition = v->definition;
    if (v->of) {
        affine_seen(k, v->of);
        ask_for_split(k, v->of, v->by);
        const char *of = affine_atom(k, v->of);
        if (!v->name) v->name = fresh_name(k, v->remainder ? "inner" : "outer");
        definition = text_of(k, "%s %c %s", of, v->remainder ? '%' : '/', size_text(k, v->by));
    }
    check(definition);
    /* A division by what may be 0 stays under its condition. */
    int level = v->of && expr_at_least(k->symbols, v->by, expr_int(k->symbols, 1)) ? v->level
                : v->safe                                                          ? v->level
                                                                                   : level_allowed(k, v->level);
    for (int i = 0; v->of && i < v->of->n; i++) /* what it is made of may itself stand under a condition */
        if (v->of->term[i].var->at_level > level) level = v->of->term[i].var->at_level;
    buf_printf(&k->block[level].text, "const %s %s = %s;\n", k->index_type, v->name, definition);
    v->standing = true;
    v->at_level = level;
    return v->name;
}

/* ---- sums ---- */
static Expr *affine_reach(Kernel *k, const Affine *a, bool negative);

Affine affine_expr(Kernel *k, Expr *e)
{
    return (Affine){.constant = expr_canonical(k->symbols, e)};
}
Affine affine_int(Kernel *k, int64_t value)
{
    return affine_expr(k, expr_int(k->symbols, value));
}
Affine affine_var(Kernel *k, Var *v)
{
    return (Affine){.constant = expr_int(k->symbols, 0), .n = 1, .term = {{v, expr_int(k->symbols, 1)}}};
}

Affine affine_add(Kernel *k, const Affine *a, const Affine *b, Expr *scale)
{
    Affine r = *a;
    scale = expr_canonical(k->symbols, scale);
    r.constant = expr_add(k->symbols, a->constant, expr_mul(k->symbols, b->constant, scale));
    for (int i = 0; i < b->n; i++) {
        Expr *s = expr_canonical(k->symbols, expr_mul(k->symbols, b->term[i].scale, scale));
        int at = 0;
        while (at < r.n && r.term[at].var != b->term[i].var) at++;
        if (at < r.n) {
            r.term[at].scale = expr_add(k->symbols, r.term[at].scale, s);
            if (expr_is(r.term[at].scale, 0)) r.term[at] = r.term[--r.n];
        } else if (!expr_is(s, 0)) {
            check(r.n < MAX_TERMS);
            r.term[r.n].var = b->term[i].var;
            r.term[r.n++].scale = s;
        }
    }
    return r;
}

bool affine_equal(const Affine *a, const Affine *b)
{
    if (a->constant != b->constant || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++) {
        int j = 0;
        while (j < b->n && b->term[j].var != a->term[i].var) j++;
        if (j == b->n || b->term[j].scale != a->term[i].scale) return false;
    }
    return true;
}

int affine_level(const Kernel *k, const Affine *a)
{
    int level = 0;
    (void)k;
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var->level > level) level = a->term[i].var->level;
    return level;
}

void affine_seen(Kernel *k, const Affine *a)
{
    if (k->pass == PASS_COLLECT) vec_push(k->arena, &k->seen, *a);
}

const char *affine_key(Kernel *k, const Affine *a)
{
    Buf key = {.arena = k->arena};
    buf_put(&key, expr_text(k->arena, a->constant));
    for (int i = 0; i < a->n; i++) buf_printf(&key, "+%p*%s", (void *)a->term[i].var, expr_text(k->arena, a->term[i].scale));
    return buf_text(&key);
}

/* The part of a that stands outside of the innermost loop: as it is where it is short, else a variable of its own ("at"). */
static const char *outer_part(Kernel *k, const Affine *a)
{
    const char *text = affine_text(k, a);
    if (!strchr(text, '*') && words_in(text) <= 3) return text;
    const int level = affine_level(k, a);
    for (int i = 0; i < k->vars.n; i++) {
        Var *v = k->vars.at[i];
        if (v->definition && v->standing && strcmp(v->definition, text) == 0 && v->level == level) return v->name;
    }
    Var *at = defined_var(k, "at", level, NULL, text);
    vec_push(k->arena, &k->offsets, at->name);
    bool movable = true; /* out of a condition too: it divides by nothing */
    for (int i = 0; i < a->n; i++) movable = movable && a->term[i].var->at_level <= level;
    if (!movable) return var_text(k, at);
    buf_printf(&k->block[level].text, "const %s %s = %s;\n", k->index_type, at->name, text);
    at->standing = true;
    at->at_level = level;
    return at->name;
}

static bool is_negative(Kernel *k, Expr *e)
{
    const Order order = expr_compare(k->symbols, e, expr_int(k->symbols, 0));
    return order == ORDER_LESS || order == ORDER_LESS_EQUAL;
}

static void put_term(Kernel *k, Buf *out, Expr *scale, const char *var)
{
    const bool negative = !expr_is(scale, 0) && is_negative(k, scale);
    buf_put(out, out->length ? (negative ? " - " : " + ") : (negative ? "-" : ""));
    if (negative) scale = expr_sub(k->symbols, expr_int(k->symbols, 0), scale);
    size_called(k, scale, var ? "stride" : "offset");
    if (!var)
        buf_put(out, negative ? size_text(k, scale) : size_bare(k, scale));
    else if (expr_is(scale, 1))
        buf_put(out, var);
    else
        buf_printf(out, "%s * %s", var, size_text(k, scale));
}

/* q * n + i, with q = row / n and i = row % n, is row. */
static Affine joined(Kernel *k, const Affine *a)
{
    for (int i = 0; i < a->n; i++)
        for (int j = 0; j < a->n; j++) {
            const Var *low = a->term[i].var, *high = a->term[j].var;
            if (!low->remainder || !high->of || high->remainder || low->by != high->by || !affine_equal(low->of, high->of))
                continue;
            if (a->term[j].scale != expr_canonical(k->symbols, expr_mul(k->symbols, a->term[i].scale, low->by))) continue;
            Affine sum = *a, whole = *low->of;
            sum.term[i].scale = sum.term[j].scale = expr_int(k->symbols, 0);
            sum = affine_add(k, &sum, &whole, a->term[i].scale);
            Affine zero = affine_int(k, 0), r = affine_add(k, &zero, &sum, expr_int(k->symbols, 1)); /* drops terms of scale 0 */
            return joined(k, &r);
        }
    return *a;
}

/* The greatest value that v has where it picks an element; NULL where it is not to be seen. */
static Expr *greatest(Kernel *k, const Var *v)
{
    Symbols *s = k->symbols;
    Expr *one = expr_int(s, 1), *less = v->extent ? v->extent : v->bound;
    if (less) return expr_sub(s, less, one);
    if (!v->of) return NULL;
    Expr *most = expr_int(s, 0); /* of what is divided, whatever its sign */
    for (int negative = 0; negative < 2; negative++) {
        Expr *sum = affine_reach(k, v->of, negative);
        if (!sum) return NULL;
        if (!expr_at_least(s, most, sum)) most = expr_at_least(s, sum, most) ? sum : expr_max(s, most, sum);
    }
    Expr *exact = expr_divide_exactly(s, expr_add(s, most, one), v->by);
    return exact ? expr_sub(s, exact, one) : most;
}

/* What the terms of one sign come to at most, as a positive number; a term of unknown sign is one of both. */
static Expr *affine_reach(Kernel *k, const Affine *a, bool negative)
{
    Symbols *s = k->symbols;
    Expr *zero = expr_int(s, 0), *sum = zero;
    for (int i = -1; i < a->n; i++) {
        Expr *scale = i < 0 ? a->constant : a->term[i].scale, *most = i < 0 ? expr_int(s, 1) : greatest(k, a->term[i].var);
        if (negative) scale = expr_sub(s, zero, scale);
        if (expr_at_least(s, zero, scale)) continue;
        if (!most) return NULL;
        sum = expr_add(s, sum, expr_mul(s, scale, most));
    }
    return sum;
}

static void note_reach(Kernel *k, const Affine *a)
{
    for (int negative = 0; negative < 2 && k->pass == PASS_WRITE; negative++) {
        Expr *sum = affine_reach(k, a, negative);
        if (sum) kernel_reaches(k, expr_add(k->symbols, sum, expr_int(k->symbols, 1)));
    }
}

/* Terms of outer loops first, then what is added, then what is subtracted: n0 - 1 - i. */
const char *affine_text(Kernel *k, const Affine *unjoined)
{
    const Affine whole = joined(k, unjoined), *a = &whole;
    note_reach(k, a);
    const int level = affine_level(k, a);
    Affine rest = {.constant = expr_int(k->symbols, 0)};
    Buf out = {.arena = k->arena};
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var->level < level) rest.term[rest.n++] = a->term[i];
    Expr *constant = a->constant;
    if (rest.n > 0) {
        rest.constant = constant;
        constant = expr_int(k->symbols, 0);
        buf_put(&out, outer_part(k, &rest));
    }
    for (int negative = 0; negative < 2; negative++) {
        for (int i = a->n - 1; i >= 0; i--) /* indices of outer axes were added last */
            if (a->term[i].var->level == level && is_negative(k, a->term[i].scale) == (negative == 1))
                put_term(k, &out, a->term[i].scale, var_text(k, a->term[i].var));
        if (!expr_is(constant, 0) && is_negative(k, constant) == (negative == 1)) put_term(k, &out, constant, NULL);
    }
    return out.length ? buf_text(&out) : "0";
}

const char *affine_atom(Kernel *k, const Affine *a)
{
    const char *text = affine_text(k, a);
    return strpbrk(text, " -") ? text_of(k, "(%s)", text) : text;
}

/* ---- dividing ---- */
/* The greatest value of a, where all its variables have extents; NULL otherwise.  least: the smallest. */
Expr *affine_extreme(Kernel *k, const Affine *a, bool least)
{
    Expr *sum = a->constant, *zero = expr_int(k->symbols, 0);
    for (int i = 0; i < a->n; i++) {
        const bool rises = expr_at_least(k->symbols, a->term[i].scale, zero);
        if (!rises && !expr_at_least(k->symbols, zero, a->term[i].scale)) return NULL;
        if (rises == least) continue;
        if (!a->term[i].var->extent) return NULL;
        Expr *last = expr_sub(k->symbols, a->term[i].var->extent, expr_int(k->symbols, 1));
        sum = expr_add(k->symbols, sum, expr_mul(k->symbols, a->term[i].scale, last));
    }
    return sum;
}

/* a = scale * high + low with 0 <= low < scale for certain; false where that is not to be seen. */
static bool scaled(Kernel *k, const Affine *a, Expr *scale, Affine *high)
{
    Affine low = affine_int(k, 0);
    *high = affine_int(k, 0);
    for (int i = 0; i < a->n; i++) {
        Expr *q = expr_divide_exactly(k->symbols, a->term[i].scale, scale);
        Affine one = affine_var(k, a->term[i].var);
        if (q)
            *high = affine_add(k, high, &one, q);
        else
            low = affine_add(k, &low, &one, a->term[i].scale);
    }
    Expr *q = expr_divide_exactly(k->symbols, a->constant, scale);
    if (!q) return false;
    high->constant = q;
    Expr *least = affine_extreme(k, &low, true), *most = affine_extreme(k, &low, false);
    return least && most && expr_at_least(k->symbols, least, expr_int(k->symbols, 0)) &&
           expr_at_least(k->symbols, expr_sub(k->symbols, scale, expr_int(k->symbols, 1)), most);
}

/* An open condition says 0 <= a < size, of a itself or of scale * a + less. */
static bool known(Kernel *k, const Affine *a, Expr *size)
{
    for (int f = 0; f < k->facts.n; f++) {
        const Fact *fact = &k->facts.at[f];
        if (affine_equal(&fact->index, a) && expr_at_least(k->symbols, size, fact->size)) return true;
        for (int i = 0; i < fact->index.n; i++) {
            Affine high;
            Expr *scale = fact->index.term[i].scale;
            if (expr_is(scale, 1) || !scaled(k, &fact->index, scale, &high) || !affine_equal(&high, a)) continue;
            if (expr_at_least(k->symbols, expr_mul(k->symbols, size, scale), fact->size)) return true;
        }
    }
    return false;
}

bool affine_within(Kernel *k, const Affine *a, Expr *size)
{
    Expr *least = affine_extreme(k, a, true), *most = affine_extreme(k, a, false);
    if (least && most && expr_at_least(k->symbols, least, expr_int(k->symbols, 0)) &&
        expr_at_least(k->symbols, expr_sub(k->symbols, size, expr_int(k->symbols, 1)), most))
        return true;
    return known(k, a, size);
}

bool affine_reduce(Kernel *k, Affine *a, Expr **bound)
{
    for (int i = 0; i < a->n; i++) {
        Affine high;
        Expr *scale = a->term[i].scale, *q = *bound ? expr_divide_exactly(k->symbols, *bound, scale) : NULL;
        if (expr_is(scale, 1) || !q || !expr_at_least(k->symbols, scale, expr_int(k->symbols, 2)) || !scaled(k, a, scale, &high))
            continue;
        *a = high;
        *bound = q;
        return true;
    }
    return false;
}

void affine_split(Kernel *k, const Affine *a, Expr *by, Affine *high, Affine *low)
{
    *high = affine_int(k, 0);
    *low = affine_int(k, 0);
    by = expr_canonical(k->symbols, by);
    if (expr_is(by, 1)) {
        *high = *a;
        return;
    }
    for (int i = 0; i < a->n; i++) {
        Expr *q = expr_divide_exactly(k->symbols, a->term[i].scale, by);
        Affine one = affine_var(k, a->term[i].var);
        if (q)
            *high = affine_add(k, high, &one, q);
        else
            *low = affine_add(k, low, &one, a->term[i].scale);
    }
    Expr *q = expr_divide_exactly(k->symbols, a->constant, by);
    if (q)
        high->constant = q;
    else
        low->constant = a->constant;
    if (affine_within(k, low, by)) {
        affine_seen(k, low);
        affine_seen(k, high);
        return;
    }
    Affine quotient = affine_var(k, quotient_var(k, low, by));
    *high = affine_add(k, high, &quotient, expr_int(k->symbols, 1));
    *low = affine_add(k, low, &quotient, expr_sub(k->symbols, expr_int(k->symbols, 0), by));
}

/* ---- indices of values ---- */
Affine index_flat(Kernel *k, const Value *v, const Index *index)
{
    if (index->flat) return index->at[0];
    check(index->rank == v->rank);
    Affine sum = affine_int(k, 0);
    Expr *stride = expr_int(k->symbols, 1);
    for (int i = v->rank - 1; i >= 0; i--) {
        sum = affine_add(k, &sum, &index->at[i], stride);
        stride = expr_canonical(k->symbols, expr_mul(k->symbols, stride, v->shape[i]));
    }
    return sum;
}

Index index_vector(Kernel *k, const Value *v, const Index *index)
{
    if (!index->flat) return *index;
    Index r = {.rank = v->rank};
    Affine rest = index->at[0];
    int first = 0; /* the outermost axis that is not 1 needs no remainder */
    while (first < v->rank && expr_is(expr_canonical(k->symbols, v->shape[first]), 1)) r.at[first++] = affine_int(k, 0);
    for (int i = v->rank - 1; i > first; i--) {
        Affine high;
        if (expr_is(expr_canonical(k->symbols, v->shape[i]), 1)) {
            r.at[i] = affine_int(k, 0);
            continue;
        }
        affine_split(k, &rest, v->shape[i], &high, &r.at[i]);
        rest = high;
    }
    if (first < v->rank) r.at[first] = rest;
    return r;
}

Expr *groups_extent(Kernel *k, const int *groups, int n)
{
    Expr *product = expr_int(k->symbols, 1);
    for (int i = 0; i < n; i++) product = expr_mul(k->symbols, product, k->groups[groups[i]].extent);
    return expr_canonical(k->symbols, product);
}

void row_groups(Kernel *k, Var *row, const int *groups, int n, Affine *of_group)
{
    Affine rest = affine_var(k, row);
    for (int i = n - 1; i >= 0; i--) {
        Expr *extent = k->groups[groups[i]].extent;
        if (k->pass == PASS_COLLECT) {
            Var *v = group_var(k, groups[i], "");
            v->level = v->at_level = row->level;
            of_group[groups[i]] = affine_var(k, v);
        } else if (i == 0) {
            of_group[groups[i]] = rest;
        } else {
            Var *low = division_var(k, NULL, &rest, extent, true), *high = division_var(k, NULL, &rest, extent, false);
            low->safe = high->safe = true; /* where the extent is 0 there is no row */
            high->extent = groups_extent(k, groups, i);
            of_group[groups[i]] = affine_var(k, low);
            rest = affine_var(k, high);
        }
    }
}

/* The last part of a group carries its variable. */
Index axes_index(Kernel *k, const Affine *of_group)
{
    Index index = {.rank = k->n_axes};
    for (int i = 0; i < k->n_axes; i++) index.at[i] = affine_int(k, 0);
    Expr *stride = expr_int(k->symbols, 1);
    for (int p = k->n_parts - 1; p >= 0; p--) {
        const AxisPart *part = &k->parts[p];
        bool last = part->group >= 0;
        for (int j = p + 1; j < k->n_parts; j++) last = last && k->parts[j].group != part->group;
        if (p + 1 < k->n_parts && k->parts[p + 1].axis != part->axis) stride = expr_int(k->symbols, 1);
        if (last) index.at[part->axis] = affine_add(k, &index.at[part->axis], &of_group[part->group], stride);
        stride = expr_mul(k->symbols, stride, part->extent);
    }
    return index;
}
