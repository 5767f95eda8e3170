/* A graph as a text that it shares with graphs that differ from it in names alone: those of values, weights and the model's nodes. */
#include "ir/ir.h"

static void put_number(Buf *out, uint64_t number)
{
    char digits[16];
    size_t n = sizeof digits;
    digits[--n] = ' ';
    do digits[--n] = (char)('0' + number % 64);
    while ((number /= 64) && n);
    buf_write(out, digits + n, sizeof digits - n);
}

static void put_text(Buf *out, const char *text)
{
    buf_put(out, text);
    buf_put(out, "\1");
}

/* Expressions are interned: equal ones are the same pointer. */
static void put_exprs(Buf *out, Expr *const *exprs, int n)
{
    put_number(out, (uint64_t)n);
    for (int i = 0; i < n; i++) put_number(out, (uintptr_t)exprs[i]);
}

static void put_type(Buf *out, const Value *v)
{
    put_number(out, (uint64_t)v->id);
    put_number(out, v->dtype);
    put_exprs(out, v->shape, v->rank);
}

static const Tensor *weight_of(const Value *v)
{
    return v->tensor && v->tensor->of ? v->tensor->of : v->tensor;
}

/* Which inputs belong to one weight is no name. */
static void put_input(Buf *out, const Graph *g, const Value *v)
{
    put_type(out, v);
    put_number(out, v->origin);
    if (v->origin == FROM_HYPER) put_text(out, v->name);
    const Tensor *t = v->tensor;
    if (!t) return;
    put_number(out, (uint64_t)(t->trainable + 2 * t->parameter + 4 * t->statistics + 8 * (t->of != NULL)));
    int first = 0;
    while (weight_of(g->inputs.at[first]) != weight_of(v)) first++;
    put_number(out, (uint64_t)first);
}

static void put_attr(Buf *out, const Attr *a)
{
    put_number(out, a->key);
    switch (attr_kind(a->key)) {
    case ATTR_INT: put_number(out, (uint64_t)a->i); break;
    case ATTR_TEXT: put_text(out, a->text); break;
    case ATTR_EXPRS: put_exprs(out, a->exprs, a->n); break;
    case ATTR_DATA:
        put_number(out, (uint64_t)a->n);
        for (int i = 0; i < a->n; i++) put_number(out, ((const uint8_t *)a->data)[i]);
        break;
    case ATTR_INTS:
        put_number(out, (uint64_t)a->n);
        for (int i = 0; i < a->n; i++) put_number(out, (uint64_t)a->ints[i]);
    }
}

const char *graph_alike(Arena *arena, const Graph *g)
{
    Buf out = {.arena = arena};
    for (int i = 0; i < g->inputs.n; i++) put_input(&out, g, g->inputs.at[i]);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        if (op->body[0]) return NULL;
        put_text(&out, op->role);
        put_number(&out, op->kind);
        put_number(&out, (uint64_t)op->id);
        put_number(&out, (uint64_t)op->n_in);
        for (int i = 0; i < op->n_in; i++) put_number(&out, (uint64_t)op->in[i]->id);
        put_number(&out, (uint64_t)op->n_out);
        for (int i = 0; i < op->n_out; i++) put_type(&out, op->out[i]);
        put_number(&out, (uint64_t)op->n_attrs);
        for (int i = 0; i < op->n_attrs; i++) put_attr(&out, &op->attrs[i]);
    }
    put_text(&out, "");
    for (int i = 0; i < g->outputs.n; i++) put_number(&out, (uint64_t)g->outputs.at[i]->id);
    return buf_text(&out);
}
