/* Reads the text form of a graph, as print.c describes it.  Lines that are empty or begin with # are skipped.
 * A wrong text ends the program with its line and what was wanted there; graph_verify then checks what the text means. */
#include "ir/ir.h"
#include "support/diag.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Arena *arena;
    Symbols *symbols;
    const char *at;
    int line;
} Text;

/* One graph's values by their number, while it is read. */
typedef struct {
    Graph *g;
    Values by_id;
    Values states; /* with the name of the weight each belongs to, settled at the end */
    VEC(const char *) of;
} Reading;

/* ---- characters and words ---- */
static noreturn void wrong(const Text *t, const char *wanted)
{
    int length = (int)strcspn(t->at, "\n");
    error_exit("IR text, line %d: wanted %s, found \"%.*s\"", t->line, wanted, length > 60 ? 60 : length, t->at);
}

static void blanks(Text *t)
{
    while (*t->at == ' ' || *t->at == '\t' || *t->at == '\r') t->at++;
}

static void empty_lines(Text *t)
{
    for (;;) {
        blanks(t);
        if (*t->at == '#') t->at += strcspn(t->at, "\n");
        if (*t->at != '\n') return;
        t->at++;
        t->line++;
    }
}

static void end_of_line(Text *t)
{
    blanks(t);
    if (*t->at && *t->at != '\n' && *t->at != '#') wrong(t, "the end of the line");
    empty_lines(t);
}

static bool take(Text *t, const char *what)
{
    blanks(t);
    size_t n = strlen(what);
    if (strncmp(t->at, what, n) != 0) return false;
    t->at += n;
    return true;
}

static void need(Text *t, const char *what)
{
    if (!take(t, what)) wrong(t, what);
}

static const char *word(Text *t, const char *wanted)
{
    blanks(t);
    const char *begin = t->at;
    while (isalnum((unsigned char)*t->at) || *t->at == '_') t->at++;
    if (t->at == begin) wrong(t, wanted);
    return arena_copy(t->arena, begin, (size_t)(t->at - begin));
}

static int64_t integer(Text *t)
{
    blanks(t);
    char *end;
    errno = 0;
    long long value = strtoll(t->at, &end, 10);
    if (end == t->at || errno) wrong(t, "an integer");
    t->at = end;
    return value;
}

static int hex_digit(Text *t)
{
    int c = tolower((unsigned char)*t->at);
    if (!isxdigit(c)) wrong(t, "a hexadecimal digit");
    t->at++;
    return isdigit(c) ? c - '0' : c - 'a' + 10;
}

static const char *quoted(Text *t)
{
    need(t, "\"");
    Buf out = {.arena = t->arena};
    while (*t->at != '"') {
        char c = *t->at;
        if (!c || c == '\n') wrong(t, "a closing \"");
        t->at++;
        if (c == '\\') {
            c = *t->at;
            if (c != 'x' && c != '"' && c != '\\') wrong(t, "\\\", \\\\ or \\x and two digits");
            t->at++;
            if (c == 'x') {
                int high = hex_digit(t);
                c = (char)(high * 16 + hex_digit(t));
            }
        }
        buf_write(&out, &c, 1);
    }
    t->at++;
    return buf_text(&out);
}

/* Past a name in single quotes ('odd name', a backslash before ' and \\), or past one character. */
static const char *past_name(const char *c)
{
    if (*c != '\'') return c + 1;
    for (c++; *c && *c != '\n' && *c != '\''; c++)
        if (*c == '\\' && c[1]) c++;
    return *c == '\'' ? c + 1 : c;
}

/* An expression ends at the first of the ending characters outside parentheses and quotes. */
static const char *end_of_expression(const char *c, const char *ends)
{
    for (int depth = 0; *c && *c != '\n' && (depth || !strchr(ends, *c)); c = past_name(c)) depth += (*c == '(') - (*c == ')');
    return c;
}

static Expr *expression(Text *t, const char *ends)
{
    blanks(t);
    const char *begin = t->at, *c = end_of_expression(begin, ends), *end = c;
    while (end > begin && end[-1] == ' ') end--;
    Expr *e = end > begin ? expr_parse(t->symbols, arena_copy(t->arena, begin, (size_t)(end - begin))) : NULL;
    if (!e) wrong(t, "an expression");
    t->at = c;
    return e;
}

typedef VEC(Expr *) Exprs;

static Exprs expressions(Text *t)
{
    Exprs list = {0};
    need(t, "[");
    if (take(t, "]")) return list;
    do vec_push(t->arena, &list, expression(t, ",]"));
    while (take(t, ","));
    need(t, "]");
    return list;
}

/* ---- the header ---- */
/* late: NAME is made by expr_late, which gives the name only while nobody has it. */
static Expr *late_symbol(Text *t, const char *name)
{
    Expr *upper = expression(t, ",)=");
    for (int i = 0; i < symbols_count(t->symbols); i++)
        if (strcmp(expr_symbol_name(symbols_at(t->symbols, i)), name) == 0) return symbols_at(t->symbols, i);
    return expr_late(t->symbols, name, upper);
}

static const char *symbol_name(Text *t)
{
    blanks(t);
    const char *begin = t->at, *after = begin;
    while (*after && *after != '\n' && !strchr(":,)", *after)) after = past_name(after);
    if (after == begin) wrong(t, "a symbol");
    t->at = after;
    const char *text = arena_copy(t->arena, begin, (size_t)(after - begin));
    if (*text != '\'') return text;
    Expr *quoted_name = expr_parse(t->symbols, text);
    if (!quoted_name || !expr_is_symbol(quoted_name)) wrong(t, "a symbol before this");
    return expr_symbol_name(quoted_name);
}

static Expr *symbol(Text *t)
{
    const char *name = symbol_name(t);
    if (!take(t, ":")) return expr_symbol(t->symbols, name);
    if (take(t, "late <=")) return late_symbol(t, name);
    Expr *s = expr_symbol(t->symbols, name);
    int64_t low = integer(t), high = low, likely = 0;
    if (take(t, "..")) high = integer(t);
    if (take(t, "~")) likely = integer(t);
    if (low > high || low < 0) wrong(t, "a range low..high with 0 <= low <= high before this");
    if (low > 0 || high < EXPR_UNBOUNDED || likely) symbol_declare(t->symbols, s, low, high, likely);
    if (take(t, "%")) symbol_divisible(t->symbols, s, integer(t));
    return s;
}

static Graph *header(Text *t)
{
    Exprs symbols = {0};
    VEC(Text) equal = {0}; /* where " = expression" stands, read when all symbols are made */
    Exprs left = {0};
    need(t, "graph");
    Graph *g = graph_new(t->arena, t->symbols, word(t, "a name"));
    need(t, "(");
    while (!take(t, ")")) {
        if (symbols.n) need(t, ",");
        vec_push(t->arena, &symbols, symbol(t));
        if (!take(t, "=")) continue;
        vec_push(t->arena, &equal, *t);
        vec_push(t->arena, &left, symbols.at[symbols.n - 1]);
        t->at = end_of_expression(t->at, ",)");
    }
    for (int i = 0; i < equal.n; i++)
        if (!symbols_equate(t->symbols, left.at[i], expression(&equal.at[i], ",)"), NULL)) wrong(t, "equalities that can hold");
    end_of_line(t);
    return g;
}

/* ---- values ---- */
static Value *value(Text *t, const Reading *r)
{
    need(t, "%");
    int64_t id = integer(t);
    if (id < 0 || id >= r->by_id.n || !r->by_id.at[id]) wrong(t, "a value made above, before this");
    return r->by_id.at[id];
}

typedef struct {
    int64_t id;
    Dtype dtype;
    Exprs shape;
} Type;

static Type type(Text *t)
{
    need(t, "%");
    Type type = {.id = integer(t)};
    if (type.id < 0 || type.id > 1 << 28) wrong(t, "a number of a value before this");
    need(t, ":");
    const char *name = word(t, "an element type");
    int d = 0;
    while (d < DTYPES_COUNT && strcmp(dtype_name((Dtype)d), name) != 0) d++;
    if (d == DTYPES_COUNT) wrong(t, "an element type before this");
    type.dtype = (Dtype)d;
    type.shape = expressions(t);
    return type;
}

static void number(Text *t, Reading *r, Value *v, int64_t id)
{
    while (r->by_id.n <= id) vec_push(t->arena, &r->by_id, NULL);
    if (r->by_id.at[id]) wrong(t, "a value that is made only once, before this");
    r->by_id.at[id] = v;
    v->id = (int)id;
    if (r->g->next_value <= id) r->g->next_value = (int)id + 1;
}

/* ---- inputs ---- */
static Tensor *tensor(Text *t, const Value *v)
{
    Tensor *tensor = NEW(t->arena, Tensor);
    tensor->name = v->name;
    tensor->dtype = v->dtype;
    tensor->rank = v->rank;
    if (v->rank > 8) wrong(t, "a tensor of rank 8 at most");
    for (int i = 0; i < v->rank; i++)
        if (!expr_is_int(v->shape[i], &tensor->dims[i])) wrong(t, "a weight or state whose dims are integers");
    return tensor;
}

static void tensor_attributes(Text *t, Reading *r, Value *v)
{
    Tensor *tensor_of = v->tensor = tensor(t, v);
    while (take(t, ",")) {
        const char *key = word(t, "trainable, statistics, init, of or reason");
        need(t, "=");
        if (strcmp(key, "trainable") == 0)
            tensor_of->trainable = integer(t) != 0;
        else if (strcmp(key, "statistics") == 0)
            tensor_of->statistics = integer(t) != 0;
        else if (strcmp(key, "init") == 0)
            tensor_of->init = quoted(t);
        else if (strcmp(key, "reason") == 0)
            tensor_of->reason = quoted(t);
        else if (strcmp(key, "of") == 0) {
            vec_push(t->arena, &r->states, v);
            vec_push(t->arena, &r->of, quoted(t));
        } else
            wrong(t, "trainable, statistics, init, of or reason before this");
    }
}

static bool origin_named(const char *name, Origin *origin)
{
    static const char *const names[] = {"batch", "weight", "state", "hyper", "parameter"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *origin = (Origin)(FROM_BATCH + i);
        return true;
    }
    return false;
}

static void input(Text *t, Reading *r, const Type *type_of, Origin origin)
{
    const char *name = quoted(t);
    Value *v = graph_input(r->g, name, type_of->dtype, type_of->shape.n, type_of->shape.at, origin);
    number(t, r, v, type_of->id);
    if (origin == FROM_WEIGHT || origin == FROM_STATE) tensor_attributes(t, r, v);
}

static void settle_states(const Text *t, const Reading *r)
{
    for (int i = 0; i < r->states.n; i++) {
        const Value *weight = graph_find_input(r->g, r->of.at[i]);
        if (!weight || !weight->tensor) error_exit("IR text, line %d: there is no weight \"%s\"", t->line, r->of.at[i]);
        r->states.at[i]->tensor->of = weight->tensor;
    }
}

/* ---- attributes ---- */
static void bytes(Text *t, Buf *out)
{
    need(t, "x\"");
    while (*t->at != '"') {
        int high = hex_digit(t);
        char c = (char)(high * 16 + hex_digit(t));
        buf_write(out, &c, 1);
    }
    t->at++;
}

static void element(Text *t, Dtype dtype, Buf *out)
{
    int64_t room[2] = {0, 0};
    char *end;
    blanks(t);
    errno = 0;
    if (dtype == DTYPE_f64)
        element_write(dtype, room, 0, strtod(t->at, &end));
    else if (dtype_is_float(dtype))
        element_write(dtype, room, 0, (double)strtof(t->at, &end));
    else if (dtype == DTYPE_u64)
        element_write_int(dtype, room, 0, (int64_t)strtoull(t->at, &end, 10));
    else
        element_write_int(dtype, room, 0, strtoll(t->at, &end, 10));
    if (end == t->at || (errno && !dtype_is_float(dtype))) wrong(t, "an element");
    t->at = end;
    buf_write(out, (const char *)room, (size_t)dtype_bytes(dtype));
}

static void data(Text *t, Graph *g, Op *op, Dtype dtype)
{
    Buf out = {.arena = t->arena};
    blanks(t);
    if (*t->at == 'x')
        bytes(t, &out);
    else {
        need(t, "[");
        while (!take(t, "]")) {
            if (out.length) need(t, ",");
            element(t, dtype, &out);
        }
    }
    op_set_data(g, op, ATTR_data, out.text, out.length);
}

static void integers(Text *t, Graph *g, Op *op, AttrKey key)
{
    VEC(int64_t) list = {0};
    need(t, "[");
    while (!take(t, "]")) {
        if (list.n) need(t, ",");
        vec_push(t->arena, &list, integer(t));
    }
    op_set_ints(g, op, key, list.at, list.n);
}

static void attribute(Text *t, Graph *g, Op *op, Dtype dtype)
{
    AttrKey key = ATTR_none;
    const char *name = word(t, "an operand or attribute");
    const AttrKey *keys = op_info(op->kind)->attributes;
    int i = 0;
    if (!attr_named(name, &key)) wrong(t, "an attribute's name before this");
    while (i < 6 && keys[i] != key) i++;
    if (i == 6) wrong(t, "an attribute of this operation before this");
    need(t, "=");
    switch (attr_kind(key)) {
    case ATTR_INT: op_set_int(g, op, key, integer(t)); break;
    case ATTR_TEXT: op_set_text(g, op, key, quoted(t)); break;
    case ATTR_INTS: integers(t, g, op, key); break;
    case ATTR_DATA: data(t, g, op, dtype); break;
    case ATTR_EXPRS: {
        Exprs list = expressions(t);
        op_set_exprs(g, op, key, list.at, list.n);
    }
    }
}

/* ---- operations ---- */
typedef VEC(Type) Types;
static void body(Text *t, Graph *g);

static void bodies(Text *t, Op *op)
{
    bool branch = op->kind == OP_branch, two = branch || op->kind == OP_attention_gradient;
    need(t, "{");
    end_of_line(t);
    op->body[0] = graph_new(t->arena, t->symbols, branch ? "then" : "body");
    body(t, op->body[0]);
    need(t, "}");
    if (!two) return;
    need(t, "else");
    need(t, "{");
    end_of_line(t);
    op->body[1] = graph_new(t->arena, t->symbols, branch ? "else" : "gradient");
    body(t, op->body[1]);
    need(t, "}");
}

/* The operands; the comma before the first attribute is taken. */
static Values operands(Text *t, const Reading *r)
{
    Values list = {0};
    blanks(t);
    if (*t->at != '%') return list;
    do {
        vec_push(t->arena, &list, value(t, r));
        if (!take(t, ",")) break;
        blanks(t);
    } while (*t->at == '%');
    return list;
}

static void operation(Text *t, Reading *r, OpKind kind, const Types *types)
{
    const OpInfo *info = op_info(kind);
    Values in = operands(t, r);
    if (info->operands >= 0 && in.n != info->operands) wrong(t, "another number of operands before this");
    if (info->results >= 0 && types->n != info->results) wrong(t, "another number of results before this");
    Op *op = graph_op(r->g, kind, in.at, in.n, types->n);
    blanks(t);
    if (isalpha((unsigned char)*t->at)) do
            attribute(t, r->g, op, types->n ? types->at[0].dtype : DTYPE_f32);
        while (take(t, ","));
    blanks(t);
    if (*t->at == '"') {
        op->source = quoted(t);
        blanks(t);
        if (isalpha((unsigned char)*t->at)) op->role = word(t, "a role");
    }
    if (info->class == REGION || info->class == ATTENTION) bodies(t, op);
    for (int i = 0; i < types->n; i++) {
        const Type *of = &types->at[i];
        number(t, r, op_result(r->g, op, i, of->dtype, of->shape.n, of->shape.at), of->id);
    }
}

static void line(Text *t, Reading *r, const char *first)
{
    Types types = {0};
    OpKind kind = OPS_COUNT;
    Origin origin = FROM_OP;
    const char *name = first;
    if (!name) {
        do vec_push(t->arena, &types, type(t));
        while (take(t, ","));
        need(t, "=");
        name = word(t, "an operation");
    }
    if (types.n == 1 && origin_named(name, &origin))
        input(t, r, &types.at[0], origin);
    else if (op_kind_named(name, &kind))
        operation(t, r, kind, &types);
    else
        wrong(t, "an operation's name before this");
    end_of_line(t);
}

static void outputs(Text *t, Reading *r)
{
    VEC(const char *) names = {0};
    blanks(t);
    while (*t->at == '%') {
        vec_push(t->arena, &r->g->outputs, value(t, r));
        blanks(t);
        if (*t->at == '"') vec_push(t->arena, &names, quoted(t));
        if (!take(t, ",")) break;
        blanks(t);
    }
    if (names.n && names.n != r->g->outputs.n) wrong(t, "a name for each output or for none");
    r->g->output_names = names.at;
    end_of_line(t);
}

static void body(Text *t, Graph *g)
{
    Reading r = {.g = g};
    empty_lines(t);
    for (;;) {
        blanks(t);
        const char *first = *t->at == '%' ? NULL : word(t, "a value, an operation or return");
        if (first && strcmp(first, "return") == 0) break;
        line(t, &r, first);
    }
    outputs(t, &r);
    settle_states(t, &r);
}

Graph *graph_parse(Arena *arena, Symbols *symbols, const char *text)
{
    Text t = {arena, symbols, text, 1};
    empty_lines(&t);
    Graph *g = header(&t);
    body(&t, g);
    if (*t.at) wrong(&t, "nothing after return");
    return g;
}
