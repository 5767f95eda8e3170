/* Checks a graph as every pass must leave it: order, users, attributes, element types and, through verify_shape.c, shapes.
 * The first thing that is not so is a fault of the program; it names the pass after which it was seen. */
#include "ir/verify_private.h"
#include <string.h>

noreturn void verify_wrong(const Verify *v, const Op *op, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char what[400];
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!op) bug("after %s, graph %s: %s", v->after, v->g->name, what);
    bug("after %s, graph %s: %%%d = %s \"%s\": %s", v->after, v->g->name, op->n_out && op->out[0] ? op->out[0]->id : -1,
        op_info(op->kind)->name, op->source, what);
}

/* ---- values and order ---- */
static void define(Verify *v, const Op *op, const Value *value)
{
    if (value->id < 0 || value->id >= v->g->next_value) verify_wrong(v, op, "%%%d has a number its graph never gave", value->id);
    if (v->made[value->id]) verify_wrong(v, op, "%%%d is made twice", value->id);
    v->made[value->id] = value;
    for (int i = 0; i < value->rank; i++) {
        int64_t n;
        if (!value->shape[i]) verify_wrong(v, op, "%%%d has no dim %d", value->id, i);
        if (expr_is_int(value->shape[i], &n) && n < 0) verify_wrong(v, op, "%%%d has a negative dim %d", value->id, i);
    }
}

static bool is_made(const Verify *v, const Value *value)
{
    return value && value->id >= 0 && value->id < v->g->next_value && v->made[value->id] == value;
}

static void verify_input(Verify *v, const Value *value)
{
    const Tensor *t = value->tensor;
    if (value->origin == FROM_OP || value->def) verify_wrong(v, NULL, "the input %%%d is made by an operation", value->id);
    define(v, NULL, value);
    for (int i = 0; t && i < value->rank; i++)
        if (t->rank != value->rank || t->dtype != value->dtype || !expr_is(value->shape[i], t->dims[i]))
            verify_wrong(v, NULL, "%%%d and its tensor \"%s\" differ in type", value->id, t->name);
}

static void verify_operands(const Verify *v, const Op *op)
{
    const OpInfo *info = op_info(op->kind);
    if ((info->operands >= 0 && op->n_in != info->operands) || (info->results >= 0 && op->n_out != info->results))
        verify_wrong(v, op, "%d operands and %d results", op->n_in, op->n_out);
    for (int i = 0; i < op->n_in; i++)
        if (!is_made(v, op->in[i])) verify_wrong(v, op, "operand %d (%%%d) is not made before", i, op->in[i] ? op->in[i]->id : -1);
    for (int i = 0; i < op->n_out; i++)
        if (!op->out[i] || op->out[i]->def != op || op->out[i]->result != i) verify_wrong(v, op, "result %d is not its own", i);
}

static int info_bodies(OpKind kind)
{
    OpClass class = op_info(kind)->class;
    return class != REGION && class != ATTENTION ? 0 : kind == OP_branch || kind == OP_attention_gradient ? 2 : 1;
}

static void verify_attributes(const Verify *v, const Op *op)
{
    const AttrKey *keys = op_info(op->kind)->attributes;
    int n = 0;
    for (; n < 6 && keys[n] != ATTR_none; n++)
        if (!op_attr(op, keys[n])) verify_wrong(v, op, "no attribute %s", attr_name(keys[n]));
    if (op->n_attrs != n) verify_wrong(v, op, "%d attributes, wanted %d", op->n_attrs, n);
    for (int b = 0; b < 2; b++) {
        int bodies = info_bodies(op->kind);
        if ((op->body[b] != NULL) != (b < bodies)) verify_wrong(v, op, "%d bodies wanted", bodies);
    }
}

/* ---- element types ---- */
static bool compares(OpKind kind)
{
    return kind == OP_eq || kind == OP_lt || kind == OP_le || kind == OP_is_nan;
}

static void verify_elementwise(const Verify *v, const Op *op)
{
    const Value *out = op->out[0];
    int first = op->kind == OP_select; /* the operand that has the result's type */
    for (int i = 0; i < op->n_in; i++) verify_same_shape(v, op, op->in[i], out);
    for (int i = first + 1; i < op->n_in; i++)
        if (op->in[i]->dtype != op->in[first]->dtype) verify_wrong(v, op, "operands of different element types");
    if (first && op->in[0]->dtype != DTYPE_bool) verify_wrong(v, op, "the condition is no bool");
    const bool any = op->kind == OP_cast || op->kind == OP_bitcast || op->kind == OP_random_at;
    Dtype wanted = compares(op->kind) ? DTYPE_bool : any ? out->dtype : op->in[first]->dtype;
    if (op->kind == OP_bitcast && dtype_bytes(out->dtype) != dtype_bytes(op->in[0]->dtype))
        verify_wrong(v, op, "types of different widths");
    if (out->dtype != wanted) verify_wrong(v, op, "gives %s, wanted %s", dtype_name(out->dtype), dtype_name(wanted));
}

static bool is_index(const Op *op, int operand) /* an operand that must be i64 */
{
    return operand == 1 && (op->kind == OP_gather || op->kind == OP_scatter || op->kind == OP_pool_max_grad);
}

/* Everything but elementwise and regions: one element type for all operands but indices, and for result 0; products of short
 * floats may give floats. */
static void verify_dtypes(const Verify *v, const Op *op)
{
    bool indices = op->kind == OP_arg_max || op->kind == OP_arg_min || op->kind == OP_nonzero;
    for (int i = 0; i < op->n_in; i++) {
        Dtype wanted = is_index(op, i)                    ? DTYPE_i64
                       : op->kind == OP_assign && i == 2  ? DTYPE_bool
                       : op->kind == OP_dot_add && i == 2 ? op->out[0]->dtype
                                                          : op->in[0]->dtype;
        if (op->in[i]->dtype != wanted)
            verify_wrong(v, op, "operand %d is %s, wanted %s", i, dtype_name(op->in[i]->dtype), dtype_name(wanted));
    }
    const bool product = op_info(op->kind)->class == DOT || op_info(op->kind)->class == CONV;
    for (int i = 0; i < op->n_out; i++) {
        bool like_operand = op->n_in && i == 0 && !indices;
        if (product && op->out[i]->dtype == DTYPE_f32 && (op->in[0]->dtype == DTYPE_f16 || op->in[0]->dtype == DTYPE_bf16)) continue;
        Dtype wanted = like_operand ? op->in[0]->dtype : op->n_in || op->kind == OP_dims ? DTYPE_i64 : op->out[i]->dtype;
        if (op->out[i]->dtype != wanted)
            verify_wrong(v, op, "result %d is %s, wanted %s", i, dtype_name(op->out[i]->dtype), dtype_name(wanted));
    }
}

/* ---- effects ---- */
static void verify_effect(Verify *v, const Op *op)
{
    if (v->in_body) verify_wrong(v, op, "an effect inside a body");
    if (op->kind == OP_commit || op->kind == OP_finite) {
        if (v->assigned) verify_wrong(v, op, "a commit after an assign");
        if (op->in[0]->rank != 0) verify_wrong(v, op, "a loss that is no scalar");
        if (op->kind == OP_finite && !v->committed) verify_wrong(v, op, "comes before the commit");
        v->committed = true;
        return;
    }
    if (op->n_in != 2 && op->n_in != 3) verify_wrong(v, op, "%d operands", op->n_in);
    Value *target = op->in[0];
    if (target->origin != FROM_WEIGHT && target->origin != FROM_STATE)
        verify_wrong(v, op, "its target is neither weight nor state");
    verify_same_shape(v, op, target, op->in[1]);
    if (op->n_in == 3) verify_same_shape(v, op, target, op->in[2]);
    if (v->has_commit && !v->committed) verify_wrong(v, op, "an assign before the commit");
    v->assigned = true;
    v->overwritten[target->id] = true;
}

static void verify_readers(const Verify *v, const Op *op)
{
    for (int i = 0; i < op->n_in; i++)
        if (v->overwritten[op->in[i]->id]) verify_wrong(v, op, "reads or assigns \"%s\" after it was assigned", op->in[i]->name);
}

/* ---- users ---- */
/* The lists say of every operation here that it uses its operands, and say it once: the counts agree, so nothing else is said. */
static void verify_users(const Verify *v)
{
    int *uses = NEW_ARRAY(v->scratch, int, v->g->next_value + 1);
    for (int o = 0; o < v->g->ops.n; o++) {
        const Op *op = v->g->ops.at[o];
        for (int i = 0; i < op->n_in; i++) {
            bool again = false;
            for (int k = 0; k < i && !again; k++) again = op->in[k] == op->in[i];
            if (!again) uses[op->in[i]->id]++;
        }
    }
    for (int id = 0; id < v->g->next_value; id++) {
        const Value *value = v->made[id];
        if (!value) continue;
        int here = 0;
        for (int u = 0; u < value->users.n; u++) {
            const Op *user = value->users.at[u];
            for (int i = 0; i < user->n_in; i++) {
                if (user->in[i] != value) continue;
                here++;
                break;
            }
        }
        if (here < uses[id]) verify_wrong(v, NULL, "%%%d has users its list misses (op_set_operand, graph_settle)", id);
    }
}

/* ---- graphs ---- */
static void verify_op(Verify *v, const Op *op)
{
    verify_operands(v, op);
    verify_attributes(v, op);
    verify_readers(v, op);
    OpClass class = op_info(op->kind)->class;
    if (class == ELEMENTWISE)
        verify_elementwise(v, op);
    else if (class == REGION)
        verify_region(v, op);
    else if (class == ATTENTION)
        verify_attention(v, op);
    else
        verify_dtypes(v, op);
    if (class == EFFECT) verify_effect(v, op);
    verify_shape(v, op);
    for (int i = 0; i < op->n_out; i++) define(v, op, op->out[i]);
}

void verify_graph(const Graph *g, const char *after, bool in_body)
{
    Verify v = {.g = g, .after = after, .in_body = in_body};
    v.scratch = arena_new();
    v.made = NEW_ARRAY(v.scratch, const Value *, g->next_value + 1);
    v.overwritten = NEW_ARRAY(v.scratch, bool, g->next_value + 1);
    for (int i = 0; i < g->ops.n; i++) v.has_commit = v.has_commit || g->ops.at[i]->kind == OP_commit;
    for (int i = 0; i < g->inputs.n; i++) {
        if (in_body && g->inputs.at[i]->origin != FROM_PARAMETER) verify_wrong(&v, NULL, "a body's input %d is no parameter", i);
        verify_input(&v, g->inputs.at[i]);
    }
    for (int i = 0; i < g->ops.n; i++) verify_op(&v, g->ops.at[i]);
    for (int i = 0; i < g->outputs.n; i++)
        if (!is_made(&v, g->outputs.at[i])) verify_wrong(&v, NULL, "output %d is made nowhere", i);
    verify_users(&v);
    arena_free(v.scratch);
}

void graph_verify(const Graph *g, const char *after)
{
    verify_graph(g, after, false);
}
