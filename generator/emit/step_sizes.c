/* Sizes that a step's text would say again and again: "min_int(64, ceil_div(batch*seq, 16))", of a sum in two stages, stands in both
 * launches and in the offset of each sum's parts.  It becomes a constant, called as the kernel calls it. */
#include "emit/step_private.h"
#include <ctype.h>
#include <string.h>

/* "f(a, b)" as a whole: what may be replaced wherever it stands. */
static bool is_call(const char *text)
{
    const char *p = text + strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    if (p == text || *p != '(') return false;
    int depth = 0;
    for (; *p; p++) {
        depth += (*p == '(') - (*p == ')');
        if (depth == 0) return p[1] == 0;
    }
    return false;
}

static void count(Writer *w, const Arg *arg)
{
    enum { SHORT = 16 };
    Expr *symbols[64];
    if (arg->kind != ARG_EXPR || !arg->name || layout_reserves(arg->name)) return;
    for (int i = 0; i < w->sizes.n; i++)
        if (w->sizes.at[i].expr == arg->expr) {
            w->sizes.at[i].uses++;
            return;
        }
    const char *text = expr_c(w->l, arg->expr, ""), *block = NULL;
    const int n = expr_symbols(w->l->symbols, arg->expr, symbols, 64);
    if (strlen(text) < SHORT || !is_call(text) || n > 64) return;
    for (int i = 0; i < n; i++) {
        const int dim = w->l->dim_of[symbol_index(symbols[i])];
        if (dim < 0 || symbol_facts(w->l->symbols, symbols[i]).late) return;
        if (layout_block(w->l, symbols[i])) block = w->l->dims.at[dim].c;
    }
    vec_push(w->l->arena, &w->sizes, ((Size){arg->expr, text, arg->name, block, 1}));
}

static void count_items(Writer *w, const Items *items)
{
    for (int i = 0; i < items->n; i++) {
        const Item *item = items->at[i];
        for (int a = 0; item->launch && a < item->launch->args.n; a++) count(w, &item->launch->args.at[a]);
        for (int b = 0; b < 2; b++) count_items(w, &item->body[b]);
    }
}

static bool has_size_called(const Writer *w, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(w->sizes.at[i].name, name) == 0) return true;
    return false;
}

void name_sizes(Writer *w)
{
    count_items(w, &w->p->items);
    int n = 0;
    for (int i = 0; i < w->sizes.n; i++) {
        Size size = w->sizes.at[i];
        if (size.uses < 2) continue;
        const char *base = size.name;
        for (int k = 2; has_size_called(w, n, size.name) || map_has(w->memory, size.name) || map_has(w->l->taken, size.name); k++)
            size.name = arena_text(w->l->arena, "%s_%d", base, k);
        w->sizes.at[n++] = size;
    }
    w->sizes.n = n;
}

/* text with `what` replaced by `by`, but not inside a longer word. */
static const char *replaced(Arena *arena, const char *text, const char *what, const char *by)
{
    if (!strstr(text, what)) return text;
    Buf out = {.arena = arena};
    const size_t n = strlen(what);
    for (const char *p = text; *p;) {
        const bool begins = p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
        if (begins && strncmp(p, what, n) == 0) {
            buf_put(&out, by);
            p += n;
        } else {
            buf_write(&out, p++, 1);
        }
    }
    return buf_text(&out);
}

const char *size_c(Writer *w, Expr *e)
{
    const char *text = expr_c(w->l, e, "");
    for (int i = 0; i < w->sizes.n; i++) text = replaced(w->l->arena, text, w->sizes.at[i].text, w->sizes.at[i].name);
    return text;
}

void declare_sizes(Buf *out, const Writer *w, const char *block, const char *text, int depth)
{
    const Map *used = w->sizes.n ? words(w->l->arena, text) : NULL;
    for (int i = 0; i < w->sizes.n; i++) {
        const Size *size = &w->sizes.at[i];
        const bool here = block ? size->block && strcmp(size->block, block) == 0 : !size->block;
        if (here && map_has(used, size->name)) buf_printf(out, "%*sconst int64_t %s = %s;\n", 4 * depth, "", size->name, size->text);
    }
}
