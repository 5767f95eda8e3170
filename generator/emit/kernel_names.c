/* What kernels are called: what they are for in the model ("bias_gelu", "add_norm", "norm_gradient"), as far as their operations tell.
 *
 * Forward it is read off the operations themselves.  Of a gradient it is read off the forward operations of the nodes whose gradient it is. */
#include "emit/kernel.h"
#include <string.h>

enum { MOST_WORDS = 3 };
typedef struct {
    const Ops *ops;
    const Group *group;
    bool gradient; /* ops: of the nodes whose gradient the group is */
    const char *word[MOST_WORDS];
    int n;
    bool full;
} Words;

static bool holds(const Ops *ops, OpKind kind)
{
    for (int i = 0; i < ops->n; i++)
        if (ops->at[i]->kind == kind) return true;
    return false;
}

static void say(Words *w, const char *word)
{
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->word[i], word) == 0) return;
    if (w->n == MOST_WORDS)
        w->full = true;
    else
        w->word[w->n++] = word;
}

static const Value *past_views(const Value *v)
{
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape || v->def->kind == OP_cast)) v = v->def->in[0];
    return v;
}

static bool is_constant(const Value *v)
{
    v = past_views(v);
    return v->def && (op_info(v->def->kind)->class == SOURCE || v->def->kind == OP_dims);
}

static bool is_made_by(const Value *v, OpKind kind)
{
    v = past_views(v);
    return v->def && v->def->kind == kind;
}

static bool is_weight(const Value *v)
{
    return past_views(v)->origin == FROM_WEIGHT;
}

/* x * sigmoid(x) */
static bool is_silu(const Op *sigmoid)
{
    const Value *y = sigmoid->out[0], *x = past_views(sigmoid->in[0]);
    for (int u = 0; u < y->users.n; u++) {
        const Op *user = y->users.at[u];
        if (user->kind == OP_mul && past_views(user->in[user->in[0] == y]) == x) return true;
    }
    return false;
}

/* tanh(c * (x + d * x^3)) */
static bool is_gelu(const Op *tanh_of)
{
    const Value *scaled = past_views(tanh_of->in[0]);
    if (!is_made_by(scaled, OP_mul)) return false;
    for (int i = 0; i < 2; i++) {
        const Value *sum = past_views(scaled->def->in[i]);
        if (is_made_by(sum, OP_add) && is_constant(scaled->def->in[!i]))
            return is_made_by(sum->def->in[0], OP_mul) || is_made_by(sum->def->in[1], OP_mul);
    }
    return false;
}

static void say_select(Words *w, const Op *op)
{
    const Value *when = past_views(op->in[0]), *no = past_views(op->in[2]), *yes = past_views(op->in[1]);
    if (!when->def || (when->def->kind != OP_lt && when->def->kind != OP_le)) return;
    if (!dtype_is_float(op->out[0]->dtype)) { /* i < 0 ? i + size : i */
        if (is_made_by(yes, OP_add) && is_constant(when->def->in[1])) say(w, "wrap_index");
        return;
    }
    if (is_made_by(no, OP_expm1) || is_made_by(yes, OP_expm1)) say(w, "elu");
    if (is_made_by(no, OP_mul) && (is_constant(no->def->in[0]) || is_constant(no->def->in[1])) && past_views(when->def->in[1]) == yes)
        say(w, "leaky_relu");
}

static void say_softmax(Words *w)
{
    const bool picks = holds(w->ops, OP_eq) && holds(w->ops, OP_log);
    say(w, picks ? "cross_entropy" : holds(w->ops, OP_log) ? "log_softmax" : "softmax");
}

static bool is_called(const Value *v, const char *word)
{
    return v->def && strcmp(made_word(v), word) == 0;
}

static bool is_norm(const Value *y)
{
    return is_called(y, "centred") || is_called(y, "normalised") || is_called(y, "inverse_deviation");
}

/* Past what only moves elements, and sums of such things. */
static bool follows_norm(const Value *v, int depth)
{
    v = past_views(v);
    if (is_norm(v)) return true;
    return v->def && v->def->kind == OP_mul && depth < 3 && (follows_norm(v->def->in[0], depth + 1) || follows_norm(v->def->in[1], depth + 1));
}

static void say_add(Words *w, const Op *op)
{
    const Value *a = op->in[0], *b = op->in[1];
    if (w->gradient || !dtype_is_float(op->out[0]->dtype) || is_constant(a) || is_constant(b)) return;
    if (is_weight(a) || is_weight(b)) {
        if (!follows_norm(a, 0) && !follows_norm(b, 0)) say(w, "bias");
        return;
    }
    if (values_hold(&w->group->in, past_views(a)) || values_hold(&w->group->in, past_views(b)) || values_hold(&w->group->in, a) ||
        values_hold(&w->group->in, b))
        say(w, "add");
}

static void say_op(Words *w, const Op *op)
{
    switch (op->kind) {
    case OP_relu: say(w, "relu"); break;
    case OP_erf: say(w, "gelu"); break;
    case OP_tanh: say(w, is_gelu(op) ? "gelu" : "tanh"); break;
    case OP_sigmoid: say(w, is_silu(op) ? "silu" : "sigmoid"); break;
    case OP_random: say(w, "dropout"); break;
    case OP_select: say_select(w, op); break;
    case OP_add: say_add(w, op); break;
    case OP_exp:
        if (is_called(op->in[0], "shifted") || is_called(op->in[0], "log_probability")) say_softmax(w);
        break;
    case OP_sub:
    case OP_mul:
    case OP_reciprocal:
        if (is_norm(op->out[0])) say(w, "norm");
        break;
    case OP_attention: say(w, "attention"); break;
    default: break;
    }
}

/* ---- gradients ---- */
static bool is_back(const Op *op)
{
    return strcmp(op->role, "gradient") == 0;
}

void kernel_names_forward(Kernels *all, const Graph *g)
{
    for (int o = 0; o < g->ops.n; o++) {
        Op *op = g->ops.at[o];
        if (is_back(op) || strcmp(op->role, "optimizer") == 0 || !*op->source) continue;
        Ops *ops = map_get(all->forward, op->source);
        if (!ops) map_set(all->forward, op->source, ops = NEW(all->arena, Ops));
        vec_push(all->arena, ops, op);
    }
}

/* What is done forward by the nodes whose gradient the group computes; nothing where it is not a gradient. */
static Ops differentiated(const Kernels *all, const Group *group)
{
    Ops ops = {0};
    for (int i = 0; i < group->ops.n; i++) {
        const Op *op = group->ops.at[i];
        bool seen = !is_back(op);
        for (int j = 0; j < i && !seen; j++) seen = is_back(group->ops.at[j]) && strcmp(group->ops.at[j]->source, op->source) == 0;
        const Ops *of = seen ? NULL : map_get(all->forward, op->source);
        for (int k = 0; of && k < of->n; k++) vec_push(all->scratch, &ops, of->at[k]);
    }
    return ops;
}

/* What bears a name is a value of the forward pass that the backward pass makes again; so is what ends by adding a weight. */
static bool is_made_again(const Group *group)
{
    const Op *last = main_op(group);
    bool named = group->out.n > 0;
    for (int i = 0; i < group->out.n; i++) named = named && *group->out.at[i]->name && strncmp(group->out.at[i]->name, "d_", 2) != 0;
    return named || (last->kind == OP_add && (is_weight(last->in[0]) || is_weight(last->in[1])));
}

static bool is_gradient(const Group *group)
{
    if (is_made_again(group)) return false;
    for (int i = 0; i < group->ops.n; i++)
        if (is_back(group->ops.at[i])) return true;
    return false;
}

static bool sums(const Group *group)
{
    for (int i = 0; i < group->ops.n; i++)
        if (op_info(group->ops.at[i]->kind)->class == REDUCE) return true;
    return false;
}

static bool assigns_statistics(const Group *group)
{
    for (int a = 0; a < group->assigns.n; a++)
        if (!group->assigns.at[a]->in[0]->tensor->statistics) return false;
    return group->assigns.n > 0;
}

/* The same number everywhere. */
static bool fills(const Group *group)
{
    bool all = group->kind == GROUP_LOOP && group->ops.n > 0;
    double number;
    for (int i = 0; i < group->ops.n; i++) {
        const OpKind kind = group->ops.at[i]->kind;
        all = all && (kind == OP_broadcast || kind == OP_reshape || (kind == OP_constant && value_is_scalar_constant(group->ops.at[i]->out[0], &number)));
    }
    return all && !group->in.n;
}

const char *role_name(const Kernels *all, const Group *group)
{
    if (fills(group)) return "fill";
    if (assigns_statistics(group)) return "running_statistics";
    int computing = 0;
    for (int i = 0; i < group->ops.n; i++)
        computing += op_info(group->ops.at[i]->kind)->class == ELEMENTWISE && group->ops.at[i]->kind != OP_cast;
    const bool per_row = !values_hold(&group->whole, main_op(group)->out[0]), back = is_gradient(group);
    if (computing < (back ? 2 : 1)) return NULL;
    const Ops forward = back ? differentiated(all, group) : group->ops;
    Words w = {.ops = &forward, .group = group, .gradient = back};
    for (int i = 0; i < forward.n; i++) say_op(&w, forward.at[i]);
    if (!w.n && strcmp(main_op(group)->role, "loss") == 0 && main_op(group)->out[0]->rank == 0 && holds(&group->ops, OP_div)) return "mean_loss";
    if (!w.n || w.full) return NULL;
    if (w.n == 1 && (strcmp(w.word[0], "add") == 0 || computing == 1)) return strcmp(w.word[0], "bias") == 0 ? "add_bias" : NULL;
    Buf name = {.arena = all->arena};
    for (int i = 0; i < w.n; i++) buf_printf(&name, "%s%s", i ? "_" : "", w.word[i]);
    if (back)
        buf_put(&name, group->kind == GROUP_ROW && per_row ? "_gradient_sum" : "_gradient");
    else if (strcmp(w.word[w.n - 1], "norm") == 0 && group->kind == GROUP_LOOP)
        return arena_text(all->arena, "%.*snormalise", (int)name.length - 4, buf_text(&name)); /* by a mean and a deviation from memory */
    else if (strcmp(w.word[w.n - 1], "norm") == 0 && sums(group) && per_row)
        buf_put(&name, "_statistics");
    else if (w.n == 1 && strcmp(w.word[0], "norm") == 0 && !sums(group))
        return "normalise";
    return name_is_taken(buf_text(&name)) ? NULL : buf_text(&name); /* "relu" is a function */
}
