/* Sizes that a step's text would say again and again: "min_int(64, ceil_div(batch*seq, 16))", of a sum in two stages, stands in both
 * launches and in the offset of each sum's parts.  It becomes a constant, called as the kernel calls it. */
#include "emit/step_private.h"
#include "support/diag.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 16, CALLED_USES = 2, QUOTIENT_USES = 3 };

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The end of the call that text begins with, "f(a, g(b))"; NULL: it begins with none. */
static const char *call_end(const char *text)
{
    const char *p = text;
    while (is_word(*p)) p++;
    if (p == text || *p != '(') return NULL;
    for (int depth = 0; *p; p++) {
        depth += (*p == '(') - (*p == ')');
        if (depth == 0) return p + 1;
    }
    return NULL;
}

static void use(Writer *w, const char *text, const char *name, const char *block)
{
    for (int i = 0; i < w->sizes.n; i++)
        if (strcmp(w->sizes.at[i].text, text) == 0) {
            w->sizes.at[i].uses++;
            if (!w->sizes.at[i].called && name) w->sizes.at[i].called = name;
            return;
        }
    vec_push(w->l->arena, &w->sizes, ((Size){.text = text, .called = name, .block = block, .uses = 1, .order = w->sizes.n}));
}

/* Whether it is known wherever the step begins, or in the loop over blocks that *block says. */
static bool is_known(const Writer *w, Expr *e, const char **block)
{
    Expr *symbols[64];
    const int n = expr_symbols(w->l->symbols, e, symbols, 64);
    *block = NULL;
    for (int i = 0; i < n && n <= 64; i++) {
        const int dim = w->l->dim_of[symbol_index(symbols[i])];
        if (dim < 0 || symbol_facts(w->l->symbols, symbols[i]).late) return false;
        if (layout_block(w->l, symbols[i])) *block = w->l->dims.at[dim].c;
    }
    return n <= 64;
}

/* "floor_div(height + 2, 4)", which sizes of images are made of: height_4. */
static const char *quotient_name(const Writer *w, const char *text, size_t n)
{
    const char *open = strchr(text, '('), *word = NULL, *comma = NULL;
    size_t length = 0;
    for (const char *p = open + 1; p < text + n; p++) {
        if (*p == '(') return NULL;
        if (*p == ',') comma = p;
        if (!isalpha((unsigned char)*p) || is_word(p[-1])) continue;
        size_t k = 0;
        while (is_word(p[k])) k++;
        if (word && (k != length || strncmp(p, word, k) != 0)) return NULL; /* of two dims */
        word = p, length = k;
    }
    if (!word || !comma || comma < word) return NULL;
    return arena_text(w->l->arena, "%.*s_%.*s", (int)length, word, (int)(text + n - 1 - (comma + 2)), comma + 2);
}

static void count_quotients(Writer *w, Expr *e)
{
    const char *block;
    if (!e || pointers_get(w->plain, e) || !is_known(w, e, &block) || block) return;
    const char *text = expr_c(w->l, e, "");
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "min_int(", 8) == 0 || strncmp(p, "max_int(", 8) == 0) { /* has a name of its own, or stands once */
            p = call_end(p) - 1;
            continue;
        }
        if ((p > text && is_word(p[-1])) || (strncmp(p, "floor_div(", 10) != 0 && strncmp(p, "ceil_div(", 9) != 0)) continue;
        const char *end = call_end(p), *name = end ? quotient_name(w, p, (size_t)(end - p)) : NULL;
        if (name) use(w, arena_copy(w->l->arena, p, (size_t)(end - p)), NULL, NULL);
    }
}

static void count(Writer *w, const Arg *arg)
{
    const char *block;
    if (arg->kind != ARG_EXPR || pointers_get(w->plain, arg->expr)) return;
    count_quotients(w, arg->expr);
    const char *text = expr_c(w->l, arg->expr, ""), *end = call_end(text);
    if (!strchr(text, '(')) pointers_set(w->plain, arg->expr, w->plain);
    if (!arg->name || layout_reserves(arg->name) || strlen(text) < SHORT || !end || *end || !is_known(w, arg->expr, &block)) return;
    use(w, text, arg->name, block);
}

static void count_items(Writer *w, const Items *items)
{
    for (int i = 0; i < items->n; i++) {
        const Item *item = items->at[i];
        const Launch *launch = item->launch;
        for (int a = 0; launch && a < launch->args.n; a++) count(w, &launch->args.at[a]);
        if (launch) count_quotients(w, launch->blocks), count_quotients(w, launch->each);
        for (int b = 0; b < 2; b++) count_items(w, &item->body[b]);
    }
}

static int by_length(const void *a, const void *b) /* the longest first: it may hold others */
{
    const Size *one = a, *other = b;
    const size_t x = strlen(one->text), y = strlen(other->text);
    return x != y ? (x < y) - (x > y) : one->order - other->order;
}

static bool has_size_called(const Writer *w, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(w->sizes.at[i].name, name) == 0) return true;
    return false;
}

void name_sizes(Writer *w)
{
    w->plain = pointers_new(w->l->arena);
    count_items(w, &w->p->items);
    int n = 0;
    for (int i = 0; i < w->sizes.n; i++) {
        Size size = w->sizes.at[i];
        if (size.uses < (size.called ? CALLED_USES : QUOTIENT_USES)) continue;
        const char *base = size.name = size.called ? size.called : quotient_name(w, size.text, strlen(size.text));
        for (int k = 2; has_size_called(w, n, size.name) || map_has(w->memory, size.name) || map_has(w->l->taken, size.name); k++)
            size.name = arena_text(w->l->arena, "%s_%d", base, k);
        w->sizes.at[n++] = size;
    }
    w->sizes.n = n;
    if (n) qsort(w->sizes.at, (size_t)n, sizeof *w->sizes.at, by_length);
}

/* text with `what` replaced by `by`, but not inside a longer word. */
static const char *replaced(Arena *arena, const char *text, const char *what, const char *by)
{
    if (!strstr(text, what)) return text;
    Buf out = {.arena = arena};
    const size_t n = strlen(what);
    for (const char *p = text; *p;) {
        const bool begins = p == text || !is_word(p[-1]);
        if (begins && strncmp(p, what, n) == 0) {
            buf_put(&out, by);
            p += n;
        } else {
            buf_write(&out, p++, 1);
        }
    }
    return buf_text(&out);
}

/* Those from number `first` on by their names. */
static const char *with_names(const Writer *w, const char *text, int first)
{
    for (int i = first; i < w->sizes.n; i++) text = replaced(w->l->arena, text, w->sizes.at[i].text, w->sizes.at[i].name);
    return text;
}

const char *with_sizes(const Writer *w, const char *text)
{
    return with_names(w, text, 0);
}

const char *size_c(const Writer *w, Expr *e)
{
    return with_sizes(w, expr_c(w->l, e, ""));
}

/* Whether what a size is made of is to be declared first. */
static bool waits(const Writer *w, int i, const bool *due)
{
    for (int k = 0; k < w->sizes.n; k++)
        if (k != i && due[k] && strstr(w->sizes.at[i].text, w->sizes.at[k].text)) return true;
    return false;
}

void declare_sizes(Buf *out, const Writer *w, const char *block, const char *text, int depth)
{
    if (!w->sizes.n) return;
    Arena *arena = w->l->arena;
    Buf all = {.arena = arena};
    buf_put(&all, text);
    bool *due = NEW_ARRAY(arena, bool, w->sizes.n);
    int n = 0;
    for (int i = 0; i < w->sizes.n; i++) { /* what the longer ones name is named, too */
        const Size *size = &w->sizes.at[i];
        const bool here = block ? size->block && strcmp(size->block, block) == 0 : !size->block;
        if (!map_has(words(arena, buf_text(&all)), size->name)) continue;
        buf_printf(&all, " %s", with_names(w, size->text, i + 1));
        n += due[i] = here;
    }
    while (n > 0) {
        int next = -1;
        for (int i = 0; i < w->sizes.n; i++)
            if (due[i] && !waits(w, i, due) && (next < 0 || w->sizes.at[i].order < w->sizes.at[next].order)) next = i;
        check(next >= 0);
        const Size *size = &w->sizes.at[next];
        buf_printf(out, "%*sconst int64_t %s = %s;\n", 4 * depth, "", size->name, with_names(w, size->text, next + 1));
        due[next] = false, n--;
    }
}
