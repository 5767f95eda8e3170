/* Kernels are written once and compiled for 32-bit and for 64-bit indices; the guard that chooses is made of all that the kernels
 * of a program compute with indices.  Needs: the program's items.  Breaks: nothing. */
#include "emit/forms.h"
#include <stdlib.h>

enum { SMALL = 1 << 30 }; /* a constant that needs no guard */

typedef struct {
    Expr *e;
    int64_t likely;
    int at; /* in order of first use */
} Reach;
typedef struct {
    const Layout *l;
    Map *seen;
    VEC(Reach) list;
} Gathered;

static void gather_launch(Gathered *g, const Launch *launch)
{
    for (int i = 0; i < launch->reach.n; i++) {
        Expr *e = expr_canonical(g->l->symbols, launch->reach.at[i]);
        const char *key = expr_text(g->l->arena, e);
        int64_t n;
        if (map_has(g->seen, key) || (expr_is_int(e, &n) && n <= SMALL)) continue;
        map_set(g->seen, key, e);
        vec_push(g->l->arena, &g->list, ((Reach){e, expr_likely(g->l->symbols, e), g->list.n}));
    }
}

static void gather_items(Gathered *g, const Items *items)
{
    for (int i = 0; i < items->n; i++) {
        const Item *item = items->at[i];
        if (item->kind == ITEM_LAUNCH) gather_launch(g, item->launch);
        gather_items(g, &item->body[0]);
        gather_items(g, &item->body[1]);
        gather_items(g, &item->after);
    }
}

static int by_likely(const void *a, const void *b)
{
    const Reach *x = a, *y = b;
    if (x->likely != y->likely) return x->likely > y->likely ? -1 : 1;
    return x->at - y->at;
}

int program_reach(const Layout *layout, const Program *p, Expr *const **reach)
{
    Gathered g = {.l = layout, .seen = map_new(layout->arena)};
    gather_items(&g, &p->items);
    for (int u = 0; u < p->recipes.n; u++) gather_items(&g, &p->recipes.at[u].again_items);
    if (g.list.n) qsort(g.list.at, (size_t)g.list.n, sizeof *g.list.at, by_likely);
    Expr **kept = NEW_ARRAY(layout->arena, Expr *, g.list.n + 1);
    int n = 0;
    for (int i = 0; i < g.list.n; i++) {
        bool below = false;
        Expr *less = expr_sub(layout->symbols, g.list.at[i].e, expr_int(layout->symbols, 1)); /* INDEX_LIMIT is no sharp edge */
        for (int j = 0; j < n && !below; j++) below = expr_at_least(layout->symbols, kept[j], less);
        if (!below) kept[n++] = g.list.at[i].e;
    }
    *reach = kept;
    return n;
}
