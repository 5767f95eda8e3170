/* One kernel while it is written: parameters, blocks, names, index arithmetic.  See kernel.h. */
#include "emit/kernel.h"
#include "emit/program.h"
#include <stdio.h>
#include <string.h>

/* ---- life ---- */
Kernel *kernel_new(Kernels *all, const Group *group)
{
    Kernel *k = NEW(all->scratch, Kernel);
    k->all = all;
    k->arena = all->scratch;
    k->symbols = all->symbols;
    k->group = group;
    k->index_type = "int64_t";
    return k;
}

Kernel *kernel_new_indexed(Kernels *all, const Group *group)
{
    Kernel *k = kernel_new(all, group);
    k->index_type = "Index";
    return k;
}

void kernel_reaches(Kernel *k, Expr *e)
{
    if (k->pass != PASS_WRITE || strcmp(k->index_type, "Index") != 0) return;
    e = expr_canonical(k->symbols, e);
    for (int i = 0; i < k->reach.n; i++)
        if (k->reach.at[i] == e) return;
    vec_push(k->arena, &k->reach, e);
}

/* Every part by itself; what has extent 1 vanishes. */
static void make_groups(Kernel *k)
{
    k->n_groups = 0;
    for (int i = 0; i < k->n_parts; i++) {
        AxisPart *part = &k->parts[i];
        part->group = expr_is(part->extent, 1) ? -1 : k->n_groups;
        if (part->group >= 0) k->groups[k->n_groups++] = (AxisGroup){part->extent, k->kinds[part->axis]};
    }
}

void kernel_axes(Kernel *k, Expr *const *extents, const int *kinds, int n)
{
    check(n <= MAX_AXES / 2);
    k->n_axes = k->n_parts = n;
    for (int i = 0; i < n; i++) {
        k->kinds[i] = kinds ? kinds[i] : 0;
        k->parts[i] = (AxisPart){.axis = i, .extent = expr_canonical(k->symbols, extents[i])};
    }
    make_groups(k);
}

/* Cuts the part that a division asked for: an axis of 768 read as (12, 64) is walked so. */
static bool split_part(Kernel *k)
{
    if (k->split < 0 || k->n_parts == MAX_AXES) return false;
    AxisPart *part = &k->parts[k->split];
    memmove(part + 1, part, sizeof *part * (size_t)(k->n_parts++ - k->split));
    part[0].extent = expr_divide_exactly(k->symbols, part[0].extent, k->split_by);
    part[1].extent = k->split_by;
    make_groups(k);
    return true;
}

static void forget(Kernel *k)
{
    k->params.n = k->n_sizes = k->offsets.n = k->size_names.n = 0;
    k->exprs.n = k->memos.n = k->vars.n = k->names.n = k->depth = 0;
    k->seen.n = k->loads.n = k->at_hand.n = k->facts.n = k->reach.n = 0;
    k->split = -1;
    k->any_size = false;
    k->fours_if.n = 0;
    k->four = k->lane = NULL;
    memset(k->block, 0, sizeof k->block);
}

static void run_pass(Kernel *k, int pass, void (*body)(Kernel *, void *), void *context)
{
    k->uses.n = 0;
    for (int i = 0; i < k->memos.n; i++) vec_push(k->arena, &k->uses, k->memos.at[i].uses);
    forget(k);
    k->pass = pass;
    k->block[0].text.arena = k->arena;
    k->depth = 1;
    body(k, context);
    check(k->depth == 1);
}

static Expr *scale_of(const Kernel *k, const Affine *a, const Var *v)
{
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var == v) return a->term[i].scale;
    return expr_int(k->symbols, 0);
}

static const Var *axis_var(const Affine *a, int group)
{
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var->group == group + 1) return a->term[i].var;
    return NULL;
}

/* Groups g and g + 1 are always walked together where each use has scale(g) == scale(g + 1) * extent(g + 1). */
static bool mergeable(Kernel *k, int g)
{
    if (k->groups[g].kind != k->groups[g + 1].kind) return false;
    for (int i = 0; i < k->seen.n; i++) {
        const Affine *a = &k->seen.at[i];
        const Var *outer = axis_var(a, g), *inner = axis_var(a, g + 1);
        if (!outer && !inner) continue;
        if (!outer || !inner) return false;
        Expr *want = expr_mul(k->symbols, scale_of(k, a, inner), k->groups[g + 1].extent);
        if (!expr_always_equal(k->symbols, want, scale_of(k, a, outer))) return false;
    }
    return true;
}

static void merge_axes(Kernel *k)
{
    bool with_next[MAX_AXES] = {false};
    for (int g = 0; g + 1 < k->n_groups; g++) with_next[g] = mergeable(k, g);
    AxisGroup merged[MAX_AXES];
    int n = 0, place[MAX_AXES];
    for (int g = 0; g < k->n_groups; g++) {
        const bool joins = g > 0 && with_next[g - 1];
        if (joins)
            merged[n - 1].extent = expr_mul(k->symbols, merged[n - 1].extent, k->groups[g].extent);
        else
            merged[n++] = k->groups[g];
        place[g] = n - 1;
    }
    for (int i = 0; i < k->n_parts; i++)
        if (k->parts[i].group >= 0) k->parts[i].group = place[k->parts[i].group];
    memcpy(k->groups, merged, sizeof merged);
    k->n_groups = n;
}

void kernel_collect(Kernel *k, void (*body)(Kernel *k, void *context), void *context)
{
    run_pass(k, PASS_COLLECT, body, context);
}

void kernel_write(Kernel *k, void (*body)(Kernel *k, void *context), void *context)
{
    do run_pass(k, PASS_COLLECT, body, context);
    while (split_part(k));
    merge_axes(k);
    run_pass(k, PASS_COUNT, body, context);
    if (k->unfit) run_pass(k, PASS_COUNT, body, context); /* without fours */
    k->fours_guarded = k->fours_if.n > 0;
    run_pass(k, PASS_WRITE, body, context);
    k->unnamed = kernel_body(k);
    const char *text = name_offsets(k->arena, k->unnamed, &k->offsets);
    k->block[0].text = (Buf){.arena = k->arena};
    buf_put(&k->block[0].text, text);
}

const char *kernel_body(const Kernel *k)
{
    return buf_text(&k->block[0].text);
}

/* ---- text ---- */
static const char *format_text(Arena *arena, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, args);
    return text;
}

const char *text_of(Kernel *k, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = format_text(k->arena, format, args);
    va_end(args);
    return text;
}

static bool is_parameter(const Kernel *k, const char *name)
{
    for (int i = 0; i < k->params.n; i++)
        if (strcmp(k->params.at[i].name, name) == 0) return true;
    return false;
}

const char *fresh_name(Kernel *k, const char *base)
{
    int i = 0;
    while (i < k->names.n && strcmp(k->names.at[i].base, base) != 0) i++;
    if (i == k->names.n) vec_push(k->arena, &k->names, ((__typeof__(*k->names.at)){base, 0}));
    for (;;) {
        const int n = ++k->names.at[i].n;
        const char *name = n == 1 ? base : text_of(k, "%s%d", base, n);
        if (!is_parameter(k, name)) return name;
    }
}

void local_known(Kernel *k, const char *name)
{
    for (int i = 0; i < k->names.n; i++)
        if (strcmp(k->names.at[i].base, name) == 0) return;
    vec_push(k->arena, &k->names, ((__typeof__(*k->names.at)){name, 1}));
}

/* ---- blocks ---- */
void block_open(Kernel *k, const char *format, ...)
{
    check(k->depth < MAX_BLOCKS);
    va_list args;
    va_start(args, format);
    k->block[k->depth].head = format_text(k->arena, format, args);
    va_end(args);
    k->block[k->depth].guard = false;
    k->block[k->depth].before = "";
    k->block[k->depth].text = (Buf){.arena = k->arena};
    k->depth++;
}

void block_open_guard(Kernel *k)
{
    block_open(k, "%s", "");
    k->block[k->depth - 1].guard = true;
}

/* What stood in the block is no longer known. */
static void leave(Kernel *k)
{
    k->depth--;
    for (int i = 0; i < k->memos.n; i++)
        if (k->memos.at[i].level >= k->depth) k->memos.at[i].gone = true;
    for (int i = 0; i < k->vars.n; i++)
        if (k->vars.at[i]->standing && k->vars.at[i]->at_level >= k->depth) k->vars.at[i]->standing = false;
}

const char *block_close_guard(Kernel *k)
{
    check(k->block[k->depth - 1].guard);
    leave(k);
    return buf_text(&k->block[k->depth].text);
}

void block_close_with(Kernel *k, const char *end)
{
    leave(k);
    buf_printf(&k->block[k->depth - 1].text, "%s%s {\n%s%s\n", k->block[k->depth].before, k->block[k->depth].head,
               buf_text(&k->block[k->depth].text), end);
}

void block_close(Kernel *k)
{
    const char *text = buf_text(&k->block[k->depth - 1].text), *head = k->block[k->depth - 1].head;
    const char *end = strchr(text, '\n');
    const bool one = end && !end[1] && !strchr(text, '{');
    if (!one) {
        block_close_with(k, "}");
        return;
    }
    leave(k);
    buf_put(&k->block[k->depth - 1].text, k->block[k->depth].before);
    buf_printf(&k->block[k->depth - 1].text, strlen(head) + strlen(text) < 110 ? "%s %s" : "%s\n\t%s", head, text);
}

int level_allowed(const Kernel *k, int level)
{
    for (int i = k->depth - 1; i > level; i--)
        if (k->block[i].guard) return i;
    return level;
}

void line(Kernel *k, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_printf(&k->block[k->depth - 1].text, "%s\n", format_text(k->arena, format, args));
    va_end(args);
}

void line_at(Kernel *k, int level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_printf(&k->block[level_allowed(k, level)].text, "%s\n", format_text(k->arena, format, args));
    va_end(args);
}

/* ---- parameters ---- */
static const char *add_param(Kernel *k, Arg arg, const char *name, const char *type, bool result)
{
    for (int i = 0; i < k->params.n; i++) {
        const Param *p = &k->params.at[i];
        if (p->arg.kind == arg.kind && p->arg.value == arg.value && p->arg.expr == arg.expr && p->result == result &&
            (!name || arg.kind != ARG_SCRATCH || strcmp(p->name, name) == 0))
            return p->name;
    }
    vec_push(k->arena, &k->params, ((Param){arg, name, type, result}));
    return name;
}

static bool updates(const Kernel *k)
{
    return k->group->assigns.n > 0 && strcmp(main_op(k->group)->role, "optimizer") == 0;
}

bool updates_in_place(const Group *group)
{
    int computed = 0;
    for (int i = 0; i < group->ops.n; i++) computed += op_info(group->ops.at[i]->kind)->class == ELEMENTWISE;
    return group->kind == GROUP_LOOP && group->assigns.n > 0 && computed > 1;
}

/* The name of an operand: a setting's own; what it is; its own where it is a result read again. */
static const char *telling_name(Kernel *k, const Value *v)
{
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].arg.value == v && !k->params.at[i].result) return k->params.at[i].name;
    if (v->origin == FROM_HYPER && strcmp(v->name, "step") != 0) return c_name(k->arena, v->name);
    if (v->origin == FROM_HYPER) return fresh_name(k, "number");
    if (updates(k) && v->origin == FROM_WEIGHT) return fresh_name(k, "weight");
    return fresh_name(k, updates(k) && v->origin != FROM_STATE ? "gradient" : operand_word(k->arena, k->group, v));
}

/* The weight or state that a result of an update replaces; NULL. */
static const Value *target_of(const Kernel *k, const Value *v)
{
    for (int a = 0; (updates(k) || updates_in_place(k->group)) && a < k->group->assigns.n; a++)
        if (k->group->assigns.at[a]->in[1] == v) return k->group->assigns.at[a]->in[0];
    return NULL;
}

/* "exp_avg", "weight" */
static const char *target_name(Kernel *k, const Value *target)
{
    const char *point = target->origin == FROM_STATE ? strrchr(target->tensor->name, '.') : NULL;
    return point ? c_name(k->arena, point + 1) : target->tensor->statistics ? "statistics" : "weight";
}

const char *local_name(Kernel *k, const Value *v)
{
    const Value *target = target_of(k, v);
    return target ? text_of(k, "next_%s", target_name(k, target)) : made_word(v);
}

bool is_replaced(const Group *group, const Value *v)
{
    for (int a = 0; updates_in_place(group) && a < group->assigns.n; a++)
        if (group->assigns.at[a]->in[0] == v || group->assigns.at[a]->in[1] == v) return true;
    return false;
}

/* Of an update in place: the one parameter by which a weight or a state is read and written, "weight" or "state.exp_avg". */
static const char *updated_name(Kernel *k, Value *v, Value *target)
{
    if (target->origin == FROM_WEIGHT)
        return add_param(k, (Arg){.kind = ARG_VALUE, .value = v}, target_name(k, target), text_of(k, "%s *", dtype_c(v->dtype)), true);
    int p = 0;
    while (p < k->params.n && k->params.at[p].arg.kind != ARG_STATE) p++;
    if (p == k->params.n)
        add_param(k, (Arg){.kind = ARG_STATE, .value = target}, "state", text_of(k, "WeightState<%s>", dtype_c(v->dtype)), true);
    return text_of(k, "state.%s", target_name(k, target));
}

/* The same of an operand that such an update replaces; NULL where v is none. */
static const char *replaced_name(Kernel *k, const Value *v)
{
    for (int a = 0; updates_in_place(k->group) && a < k->group->assigns.n; a++) {
        const Op *assign = k->group->assigns.at[a];
        if (assign->in[0] == v) return updated_name(k, assign->in[1], assign->in[0]);
    }
    return NULL;
}

const char *param_update(Kernel *k, Value *v)
{
    Value *replaced = (Value *)target_of(k, v);
    if (replaced && updates_in_place(k->group)) return updated_name(k, v, replaced);
    for (int p = 0; p < k->params.n; p++)
        if (k->params.at[p].arg.value == v && k->params.at[p].result) return k->params.at[p].name;
    const Value *target = target_of(k, v);
    if (target) return param_result(k, v, fresh_name(k, text_of(k, "new_%s", target_name(k, target))));
    const bool last = k->group->ops.n && main_op(k->group)->out[0] == v;
    return param_result(k, v, last ? "y" : fresh_name(k, text_of(k, "%s_out", made_word(v))));
}

const char *param_value(Kernel *k, Value *v, bool result)
{
    for (int i = 0; i < k->params.n && result; i++)
        if (k->params.at[i].arg.value == v && k->params.at[i].result) return k->params.at[i].name;
    const char *replaced = result ? NULL : replaced_name(k, v);
    if (replaced) return replaced;
    const char *type = text_of(k, result ? "%s *" : "const %s *", dtype_c(v->dtype));
    return add_param(k, (Arg){.kind = ARG_VALUE, .value = v}, result ? fresh_name(k, made_word(v)) : telling_name(k, v), type,
                     result);
}

const char *param_result(Kernel *k, Value *v, const char *name)
{
    return add_param(k, (Arg){.kind = ARG_VALUE, .value = v}, name, text_of(k, "%s *", dtype_c(v->dtype)), true);
}

const char *param_operand(Kernel *k, Value *v, const char *name)
{
    return add_param(k, (Arg){.kind = ARG_VALUE, .value = v}, name, text_of(k, "const %s *", dtype_c(v->dtype)), false);
}

const char *param_called(Kernel *k, Value *v, const char *base)
{
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].arg.kind == ARG_VALUE && k->params.at[i].arg.value == v && !k->params.at[i].result)
            return k->params.at[i].name;
    return param_operand(k, v, fresh_name(k, base));
}

const char *param_kept(Kernel *k, Value *target)
{
    return add_param(k, (Arg){.kind = ARG_KEPT, .value = target}, fresh_name(k, "kept"), "bool *", true);
}

const char *param_hyper(Kernel *k, Value *v)
{
    if (updates_in_place(k->group)) {
        add_param(k, (Arg){.kind = ARG_HYPERS}, "hypers", "Hypers", false);
        return text_of(k, "hypers.%s", c_name(k->arena, v->name));
    }
    return add_param(k, (Arg){.kind = ARG_HYPER, .value = v}, telling_name(k, v), dtype_c(v->dtype), false);
}

const char *param_other(Kernel *k, int kind, const char *name, const char *type, Expr *expr)
{
    char element[32];
    snprintf(element, sizeof element, "%s", strncmp(type, "const ", 6) == 0 ? type + 6 : type);
    if (strchr(element, ' ')) *strchr(element, ' ') = 0;
    return add_param(k, (Arg){.kind = kind, .expr = expr, .type = text_of(k, "%s", element)}, name, type, false);
}

static void remember_expr(Kernel *k, Expr *e, const char *text, int binds)
{
    vec_push(k->arena, &k->exprs, ((__typeof__(*k->exprs.at)){e, text, binds}));
    kernel_reaches(k, e);
}

void size_called(Kernel *k, Expr *e, const char *base)
{
    vec_push(k->arena, &k->size_names, ((__typeof__(*k->size_names.at)){expr_canonical(k->symbols, e), base}));
}

void size_any(Kernel *k, Expr *e, const char *base)
{
    k->any_size = true;
    for (int i = 0; i < k->exprs.n; i++)
        if (k->exprs.at[i].expr == expr_canonical(k->symbols, e)) return;
    const char *text = fresh_name(k, base);
    e = expr_canonical(k->symbols, e);
    add_param(k, (Arg){.kind = ARG_EXPR, .expr = e}, text, k->index_type, false);
    remember_expr(k, e, text, BINDS_ATOM);
}

bool keeps_places(const Group *group)
{
    for (int i = 0; i < group->ops.n; i++) {
        const Op *op = group->ops.at[i];
        const OpClass class = op_info(op->kind)->class;
        if (class != ELEMENTWISE && class != REDUCE && op->kind != OP_constant && op->kind != OP_dims && op->kind != OP_iota &&
            op->kind != OP_broadcast && op->kind != OP_reshape)
            return false;
    }
    return true;
}

void sizes_any(Kernel *k, int innermost)
{
    if (!keeps_places(k->group)) return;
    for (int p = 0; p < k->n_parts; p++) {
        const AxisPart *part = &k->parts[p];
        const int g = part->group;
        if (g < 0 || g == innermost || !expr_is_int(k->groups[g].extent, NULL)) continue;
        if (innermost >= 0 && k->groups[g].extent == k->groups[innermost].extent) continue;
        const char *base = k->n_groups == 1                    ? "n"
                           : k->n_axes >= 4 && part->axis == 1 ? "channels"
                           : k->groups[g].kind                 ? "length"
                           : g == 0                            ? "rows"
                                                               : "inner";
        size_any(k, k->groups[g].extent, base);
    }
}

static const char *size_name(Kernel *k, const Expr *e)
{
    for (int i = 0; i < k->size_names.n; i++)
        if (k->size_names.at[i].expr == e) return fresh_name(k, k->size_names.at[i].base);
    return text_of(k, "n%d", k->n_sizes++);
}

/* e from the sizes that are parameters already: n0, 64 * n0, n0 * n1, n0 - 1; or a parameter of its own. */
static int size_of(Kernel *k, Expr *e, const char **text)
{
    int64_t number;
    e = expr_canonical(k->symbols, e);
    for (int i = 0; i < k->exprs.n && k->any_size; i++)
        if (k->exprs.at[i].expr == e) return *text = k->exprs.at[i].text, k->exprs.at[i].binds;
    if (expr_is_int(e, &number)) {
        *text = text_of(k, "%lld", (long long)number);
        return number < 0 ? BINDS_UNARY : BINDS_ATOM;
    }
    for (int i = 0; i < k->exprs.n; i++)
        if (k->exprs.at[i].expr == e) return *text = k->exprs.at[i].text, k->exprs.at[i].binds;
    const int known = k->exprs.n;
    for (int i = 0; i < known; i++) {
        if (k->exprs.at[i].binds != BINDS_ATOM) continue;
        const char *p = k->exprs.at[i].text;
        Expr *q = expr_divide_exactly(k->symbols, e, k->exprs.at[i].expr);
        for (int j = 0; q && j < known; j++)
            if (k->exprs.at[j].expr == q && k->exprs.at[j].binds >= BINDS_PRODUCT) {
                remember_expr(k, e, *text = text_of(k, "%s * %s", k->exprs.at[j].text, p), BINDS_PRODUCT);
                return BINDS_PRODUCT;
            }
        if (q && expr_is_int(q, &number)) {
            remember_expr(k, e, *text = text_of(k, "%s * %lld", p, (long long)number), BINDS_PRODUCT);
            return BINDS_PRODUCT;
        }
        if (expr_is_int(expr_sub(k->symbols, e, k->exprs.at[i].expr), &number)) {
            remember_expr(k, e,
                          *text = text_of(k, "%s %c %lld", p, number < 0 ? '-' : '+', (long long)(number < 0 ? -number : number)),
                          BINDS_SUM);
            return BINDS_SUM;
        }
    }
    *text = size_name(k, e);
    add_param(k, (Arg){.kind = ARG_EXPR, .expr = e}, *text, k->index_type, false);
    remember_expr(k, e, *text, BINDS_ATOM);
    return BINDS_ATOM;
}

const char *size_bare(Kernel *k, Expr *e)
{
    const char *text;
    size_of(k, e, &text);
    return text;
}

const char *size_text(Kernel *k, Expr *e)
{
    const char *text;
    return size_of(k, e, &text) >= BINDS_ATOM ? text : text_of(k, "(%s)", text);
}

const char *wrapped(Kernel *k, Code c, int binds)
{
    return c.binds >= binds ? c.text : text_of(k, "(%s)", c.text);
}
