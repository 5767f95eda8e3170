/* Writes a graph as text that graph_parse reads back.
 *
 *     graph train(batch: 1..64 ~ 8, seq: 1..2048 ~ 512 % 8, found: late <= batch*seq)
 *       %0: i64[batch, seq] = batch "input_ids"
 *       %1: f32[50257, 768] = weight "wte.weight", trainable=1
 *       %2: f32[batch, seq, 768] = gather %1, %0, axis=0                       "/wte/Gather"
 *       %5: f32[768] = scan %3, %4, carries=1, slices=1, reverse=0             "/rnn" {
 *         %0: f32[768] = parameter "h"
 *         …
 *         return %7
 *       }
 *       return %2 "hidden"
 *
 * A symbol's facts are its range, ~ the likely value, % a divisor, = what it equals; only symbols that occur are listed.
 * Data of more than 16 elements is written as bytes: x"0000803f…". */
#include "ir/ir.h"
#include "support/diag.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ELEMENTS = 16, SOURCE_COLUMN = 80 };

static void print_quoted(Buf *out, const char *text)
{
    buf_put(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            buf_printf(out, "\\%c", *c);
        else if (*c < ' ' || *c == 127)
            buf_printf(out, "\\x%02x", *c);
        else
            buf_write(out, (const char *)c, 1);
    }
    buf_put(out, "\"");
}

/* ---- symbols ---- */
typedef struct {
    const Graph *g;
    bool *used; /* by symbol_index */
    Expr **room;
} Used;

static void use_expr(Used *u, Expr *e)
{
    int n = expr_symbols(u->g->symbols, e, u->room, symbols_count(u->g->symbols));
    for (int i = 0; i < n; i++) {
        int index = symbol_index(u->room[i]);
        if (u->used[index]) continue;
        Expr *symbol = u->room[i], *same = expr_canonical(u->g->symbols, symbol);
        SymbolFacts facts = symbol_facts(u->g->symbols, symbol);
        u->used[index] = true;
        if (same != symbol) use_expr(u, same); /* they overwrite room */
        if (facts.late) use_expr(u, facts.upper);
        n = expr_symbols(u->g->symbols, e, u->room, symbols_count(u->g->symbols));
    }
}

static void use_value(Used *u, const Value *v)
{
    for (int i = 0; i < v->rank; i++)
        if (!expr_is_int(v->shape[i], NULL)) use_expr(u, v->shape[i]);
}

static void use_graph(Used *u, const Graph *g)
{
    for (int i = 0; i < g->inputs.n; i++) use_value(u, g->inputs.at[i]);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        for (int i = 0; i < op->n_out; i++) use_value(u, op->out[i]);
        for (int i = 0; i < op->n_attrs; i++)
            for (int k = 0; attr_kind(op->attrs[i].key) == ATTR_EXPRS && k < op->attrs[i].n; k++)
                use_expr(u, op->attrs[i].exprs[k]);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) use_graph(u, op->body[b]);
    }
}

static void print_symbol(Buf *out, const Graph *g, Expr *symbol)
{
    SymbolFacts facts = symbol_facts(g->symbols, symbol);
    Expr *same = expr_canonical(g->symbols, symbol);
    expr_print(out, symbol);
    buf_put(out, ":");
    if (facts.late) {
        buf_put(out, " late <= ");
        expr_print(out, facts.upper);
    } else {
        buf_printf(out, " %" PRId64 "..%" PRId64, facts.low, facts.high);
        if (facts.likely) buf_printf(out, " ~ %" PRId64, facts.likely);
        if (facts.divisor > 1) buf_printf(out, " %% %" PRId64, facts.divisor);
    }
    if (same != symbol) {
        buf_put(out, " = ");
        expr_print(out, same);
    }
}

static void print_header(Buf *out, const Graph *g)
{
    int n = symbols_count(g->symbols);
    Used u = {g, NEW_ARRAY(g->arena, bool, n + 1), NEW_ARRAY(g->arena, Expr *, n + 1)};
    use_graph(&u, g);
    buf_printf(out, "graph %s(", g->name);
    const char *comma = "";
    for (int i = 0; i < n; i++) {
        if (!u.used[i]) continue;
        buf_put(out, comma);
        print_symbol(out, g, symbols_at(g->symbols, i));
        comma = ", ";
    }
    buf_put(out, ")\n");
}

/* ---- attributes ---- */
static void print_real(Buf *out, Dtype dtype, double x)
{
    char text[40];
    if (isnan(x)) {
        buf_put(out, "nan");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) { /* the fewest that read back as the same element */
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (dtype == DTYPE_f64 ? strtod(text, NULL) == x : strtof(text, NULL) == (float)x) break;
    }
    buf_put(out, text);
}

static void print_data(Buf *out, Dtype dtype, const Attr *a)
{
    int n = a->n / dtype_bytes(dtype);
    if (n > SHOWN_ELEMENTS) {
        buf_put(out, "x\"");
        for (int i = 0; i < a->n; i++) buf_printf(out, "%02x", ((const uint8_t *)a->data)[i]);
        buf_put(out, "\"");
        return;
    }
    buf_put(out, "[");
    for (int i = 0; i < n; i++) {
        if (i) buf_put(out, ", ");
        if (dtype_is_float(dtype))
            print_real(out, dtype, element_read(dtype, a->data, i));
        else if (dtype == DTYPE_u64)
            buf_printf(out, "%" PRIu64, (uint64_t)element_read_int(dtype, a->data, i));
        else
            buf_printf(out, "%" PRId64, element_read_int(dtype, a->data, i));
    }
    buf_put(out, "]");
}

static void print_exprs(Buf *out, Expr *const *exprs, int n)
{
    buf_put(out, "[");
    for (int i = 0; i < n; i++) {
        if (i) buf_put(out, ", ");
        expr_print(out, exprs[i]);
    }
    buf_put(out, "]");
}

static void print_attr(Buf *out, const Op *op, const Attr *a)
{
    buf_printf(out, "%s=", attr_name(a->key));
    switch (attr_kind(a->key)) {
    case ATTR_INT: buf_printf(out, "%" PRId64, a->i); break;
    case ATTR_TEXT: print_quoted(out, a->text); break;
    case ATTR_EXPRS: print_exprs(out, a->exprs, a->n); break;
    case ATTR_DATA: print_data(out, op->out[0]->dtype, a); break;
    case ATTR_INTS:
        buf_put(out, "[");
        for (int i = 0; i < a->n; i++) buf_printf(out, "%s%" PRId64, i ? ", " : "", a->ints[i]);
        buf_put(out, "]");
    }
}

/* ---- lines ---- */
static void print_type(Buf *out, const Value *v)
{
    buf_printf(out, "%%%d: %s", v->id, dtype_name(v->dtype));
    print_exprs(out, v->shape, v->rank);
}

static const char *origin_name(Origin origin)
{
    static const char *const names[] = {"", "batch", "weight", "state", "hyper", "parameter"};
    return names[origin];
}

static void print_input(Buf *out, const Value *v)
{
    print_type(out, v);
    buf_printf(out, " = %s ", origin_name(v->origin));
    print_quoted(out, v->name);
    const Tensor *t = v->tensor;
    if (!t) return;
    if (t->trainable) buf_put(out, ", trainable=1");
    if (t->statistics) buf_put(out, ", statistics=1");
    const struct {
        const char *key, *text;
    } texts[] = {{"init", t->init}, {"of", t->of ? t->of->name : NULL}, {"reason", t->reason}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!texts[i].text) continue;
        buf_printf(out, ", %s=", texts[i].key);
        print_quoted(out, texts[i].text);
    }
}

static void print_op_head(Buf *out, const Op *op)
{
    for (int i = 0; i < op->n_out; i++) {
        if (i) buf_put(out, ", ");
        print_type(out, op->out[i]);
    }
    buf_printf(out, "%s%s", op->n_out ? " = " : "", op_info(op->kind)->name);
    const char *gap = " ";
    for (int i = 0; i < op->n_in; i++) {
        buf_printf(out, "%s%%%d", gap, op->in[i]->id);
        gap = ", ";
    }
    const AttrKey *keys = op_info(op->kind)->attributes;
    for (int i = 0; i < 6 && keys[i] != ATTR_none; i++) {
        const Attr *a = op_attr(op, keys[i]);
        if (!a) continue;
        buf_put(out, gap);
        print_attr(out, op, a);
        gap = ", ";
    }
}

static void print_body(Buf *out, const Graph *g, int indent);

static void print_op(Buf *out, const Op *op, int indent)
{
    size_t begin = out->length;
    buf_printf(out, "%*s", indent, "");
    print_op_head(out, op);
    if (*op->source || *op->role) {
        int width = (int)(out->length - begin);
        buf_printf(out, "%*s", width < SOURCE_COLUMN - 2 ? SOURCE_COLUMN - width : 2, "");
        print_quoted(out, op->source);
        if (*op->role) buf_printf(out, " %s", op->role);
    }
    for (int b = 0; b < 2 && op->body[b]; b++) {
        if (b)
            buf_printf(out, "%*s} else {\n", indent, "");
        else
            buf_put(out, " {\n");
        print_body(out, op->body[b], indent + 2);
    }
    if (op->body[0]) buf_printf(out, "%*s}", indent, "");
    buf_put(out, "\n");
}

static void print_body(Buf *out, const Graph *g, int indent)
{
    for (int i = 0; i < g->inputs.n; i++) {
        buf_printf(out, "%*s", indent, "");
        print_input(out, g->inputs.at[i]);
        buf_put(out, "\n");
    }
    for (int i = 0; i < g->ops.n; i++) print_op(out, g->ops.at[i], indent);
    buf_printf(out, "%*sreturn", indent, "");
    for (int i = 0; i < g->outputs.n; i++) {
        buf_printf(out, "%s%%%d", i ? ", " : " ", g->outputs.at[i]->id);
        if (!g->output_names) continue;
        buf_put(out, " ");
        print_quoted(out, g->output_names[i]);
    }
    buf_put(out, "\n");
}

void graph_print(Buf *out, const Graph *g)
{
    print_header(out, g);
    print_body(out, g, 2);
}
