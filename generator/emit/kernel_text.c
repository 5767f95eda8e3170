/* Kernels as text: indented and wrapped, each under a comment that says its kind, what it reads and writes, for which nodes it is
 * launched and what it saves. */
#include "emit/kernel_text.h"
#include "emit/saved.h"
#include <string.h>

enum { MARGIN = 130, COMMENT_MARGIN = 126, NODES_NAMED = 4 };

/* ---- layout ---- */
/* Whether a line may end before text[i], a space: behind a comma, a semicolon or "=", before an operator. */
static bool may_break(const char *text, size_t i)
{
    if (text[i] != ' ') return false;
    if (strchr(",;=", text[i - 1])) return true;
    const size_t n = strspn(text + i + 1, "+-*/?:&|");
    return n > 0 && text[i + 1 + n] == ' ';
}

/* Where to break a statement that is too long: the last place before the margin that lies in fewest parentheses; 0: nowhere. */
static size_t break_at(const char *text, size_t n, size_t room)
{
    int depth = 0, least = 1000;
    size_t best = 0;
    for (size_t i = 1; i + 1 < n && i < room; i++) {
        depth += text[i] == '(' || text[i] == '[' ? 2 : text[i] == ')' || text[i] == ']' ? -2 : 0;
        const int cost = depth + (text[i + 1] == '*' || text[i + 1] == '/'); /* a sum falls apart before a product does */
        if (i * 3 > room && cost <= least && may_break(text, i)) best = i, least = cost;
    }
    return best;
}

static void put_statement(Buf *out, int indent, const char *text, size_t n)
{
    size_t margin = (size_t)indent * 4, room = MARGIN - margin, at;
    buf_printf(out, "%*s", (int)margin, "");
    margin += 8;
    while (n > room && (at = break_at(text, n, room)) > 0) {
        buf_write(out, text, at);
        buf_printf(out, "\n%*s", (int)margin, "");
        text += at + 1, n -= at + 1;
        room = MARGIN - margin;
    }
    buf_write(out, text, n);
    buf_put(out, "\n");
}

/* Statements one behind the other under the same condition, "if (FIRST_THREAD) a[i] = x;", share it. */
static const char *share_conditions(Arena *arena, const char *text)
{
    static const char condition[] = "if (FIRST_THREAD) ";
    const size_t length = sizeof condition - 1;
    Buf out = {.arena = arena};
    bool open = false;
    while (*text) {
        const char *end = strchr(text, '\n');
        const size_t n = end ? (size_t)(end - text) + 1 : strlen(text);
        const bool has = strncmp(text, condition, length) == 0 && text[n - 2] == ';';
        const bool goes_on = has && strncmp(text + n, condition, length) == 0;
        if (has && goes_on && !open) buf_put(&out, "if (FIRST_THREAD) {\n"), open = true;
        buf_write(&out, text + (open ? length : 0), n - (open ? length : 0));
        if (open && !goes_on) buf_put(&out, "}\n"), open = false;
        text += n;
    }
    return buf_text(&out);
}

/* Indents by braces; a line that begins with a tab belongs to the one before. */
static void put_indented(Buf *out, const char *text)
{
    int depth = 1;
    while (*text) {
        const char *end = strchr(text, '\n');
        const size_t n = end ? (size_t)(end - text) : strlen(text), skip = *text == '\t';
        put_statement(out, depth - (*text == '}') + (int)skip, text + skip, n - skip);
        for (size_t i = 0; i < n; i++) depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
        text += n + (end != NULL);
    }
}

/* "name(" and its parameters, wrapped. */
static void put_wrapped(Buf *out, const char *head, const char *const *items, int n)
{
    size_t column = strlen(head);
    buf_put(out, head);
    for (int i = 0; i < n; i++) {
        const size_t width = strlen(items[i]) + 2;
        if (i && column + width > MARGIN) {
            buf_printf(out, ",\n%*s%s", (int)strlen(head), "", items[i]);
            column = strlen(head);
        } else {
            buf_printf(out, "%s%s", i ? ", " : "", items[i]);
        }
        column += width;
    }
}

const char *kernel_definition(Arena *arena, const char *name, const char *form, const char *const *params, int n, const char *body)
{
    Buf out = {.arena = arena};
    buf_put(&out, form);
    const char *order = strstr(body, "REDUCES(+") || strstr(body, "REDUCES(*") ? "ORDERED " : ""; /* device.h */
    put_wrapped(&out, arena_text(arena, "__global__ %svoid %s(", order, name), params, n);
    buf_put(&out, ")\n{\n");
    put_indented(&out, share_conditions(arena, body));
    buf_put(&out, "}\n");
    return buf_text(&out);
}

/* ---- comments ---- */
const char *comment_safe(Arena *arena, const char *name)
{
    char *copy = arena_copy(arena, name, strlen(name));
    for (char *p = copy; *p; p++)
        if ((*p == '*' && p[1] == '/') || (*p == '/' && p[1] == '*') || (*p != '\1' && (unsigned char)*p < ' ')) *p = '.';
    return copy;
}

/* "node_add_1", "node_layer_norm": each node once, the last few. */
const char *nodes_text(Arena *arena, const Group *group)
{
    const char *names[NODES_NAMED];
    int n = 0;
    for (int a = 0; a < group->assigns.n; a++) /* of an update: the weight */
        if (group->assigns.at[a]->in[0]->origin == FROM_WEIGHT)
            names[n++ % NODES_NAMED] = group->assigns.at[a]->in[0]->tensor->name;
    if (n > 0) return arena_text(arena, "\"%s\"", comment_safe(arena, names[(n - 1) % NODES_NAMED]));
    for (int o = group->ops.n - 1; o >= 0 && n < NODES_NAMED; o--) {
        const Op *op = group->ops.at[o];
        const bool folded =
            o < group->ops.n - 1 && (op_info(op->kind)->class == SOURCE || op->kind == OP_broadcast || op->kind == OP_reshape);
        bool seen = !*op->source || folded;
        for (int i = 0; i < n; i++) seen = seen || strcmp(names[i], op->source) == 0;
        if (!seen) names[n++] = op->source;
    }
    Buf out = {.arena = arena};
    while (n-- > 0) buf_printf(&out, "%s\"%s\"", out.length ? ", " : "", comment_safe(arena, names[n]));
    return buf_text(&out);
}

/* Spaces become \1, a space where no line ends. */
static const char *unbroken(Arena *arena, const char *text)
{
    char *copy = arena_copy(arena, text, strlen(text));
    for (char *p = copy; *p; p++)
        if (*p == ' ') *p = '\1';
    return comment_safe(arena, copy);
}

const char *operand_text(Arena *arena, const char *name, const Value *v)
{
    Buf out = {.arena = arena};
    buf_printf(&out, "%s\1(", name);
    for (int i = 0; i < v->rank; i++) buf_printf(&out, "%s%s", i ? ",\1" : "", unbroken(arena, expr_text(arena, v->shape[i])));
    buf_put(&out, ")");
    return buf_text(&out);
}

void put_comment(Buf *out, const char *text)
{
    size_t column = 3;
    while (*text) {
        size_t n = 0;
        bool quoted = false;
        for (; text[n] && (text[n] != ' ' || quoted); n++) quoted ^= text[n] == '"';
        if (column > 3 && column + n > COMMENT_MARGIN) {
            while (out->length && out->text[out->length - 1] == ' ') out->text[--out->length] = 0;
            buf_put(out, "\n *    ");
            column = 6;
        }
        for (size_t i = 0; i < n; i++) buf_write(out, text[i] == '\1' ? " " : text + i, 1);
        column += n;
        text += n;
        if (*text) buf_put(out, " "), text++, column++;
    }
}

static const char *capital(Arena *arena, const char *text)
{
    char *copy = arena_copy(arena, text, strlen(text));
    if (*copy >= 'a' && *copy <= 'z') *copy = (char)(*copy - 'a' + 'A');
    return copy;
}

/* The launches beyond the first: what they are for. */
static void put_others(Buf *out, const KernelText *k)
{
    if (k->nodes.n < 2) return;
    const int others = k->nodes.n - 1, named = others > NODES_NAMED ? NODES_NAMED - 1 : others;
    buf_put(out, "; also of ");
    for (int i = 1; i <= named; i++) buf_printf(out, "%s%s", i > 1 ? "; " : "", k->nodes.at[i]);
    if (named < others) buf_printf(out, " and %d more", others - named);
}

/*     Row kernel of "node_layer_norm"; also of "node_layer_norm_1"
 *     x (batch, 64), gain (64) -> mean_out (batch), y (batch, 64)
 *     9 operations in one: 1024*batch bytes less to move */
void kernel_put(Buf *out, Arena *arena, const KernelText *k)
{
    if (!k->kind) {
        buf_printf(out, "%s\n", k->definition);
        return;
    }
    Buf text = {.arena = arena};
    buf_put(&text, capital(arena, k->kind));
    if (k->nodes.n) buf_printf(&text, " of %s", k->nodes.at[0]);
    put_others(&text, k);
    buf_put(out, "/* ");
    put_comment(out, buf_text(&text));
    buf_put(out, "\n * ");
    put_comment(out, arena_text(arena, "%s%s-> %s", k->reads, *k->reads ? " " : "", k->writes));
    if (k->operations > 1) {
        buf_put(out, "\n * ");
        put_comment(out, arena_text(arena, *k->saved ? "%d operations in one: %s bytes less to move" : "%d operations in one",
                                    k->operations, k->saved));
    }
    buf_printf(out, " */\n%s\n", k->definition);
}
