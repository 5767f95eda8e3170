/* Kernels are written once and compiled for 32-bit and for 64-bit indices; the guard that chooses is made of all that the kernels
 * of a program compute with indices.  Needs: the program's items.  Breaks: nothing. */
#include "emit/forms.h"
#include <stdlib.h>
#include <string.h>

enum { SMALL = 1 << 30 }; /* a constant that needs no guard */
enum { KERNELS_TOLD = 8 };

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

/* ---- fours ---- */
const char *fours_condition(const Layout *layout, Expr *const *multiples, int n, const char *prefix)
{
    Buf out = {.arena = layout->arena};
    for (int i = 0; i < n; i++) {
        const char *text = expr_c(layout, multiples[i], prefix);
        const bool sum = strpbrk(text, " +") != NULL;
        buf_printf(&out, sum ? "%s(%s) %% 4 == 0" : "%s%s %% 4 == 0", i ? " && " : "", text);
    }
    return buf_text(&out);
}

static bool same_condition(const Launch *a, const Launch *b)
{
    bool same = a->fours_if.n == b->fours_if.n;
    for (int i = 0; i < a->fours_if.n && same; i++) same = a->fours_if.at[i] == b->fours_if.at[i];
    return same;
}

static void note_fours(const Layout *l, const Launch *launch, FoursForms *forms)
{
    if (!launch->fours_if.n) return;
    int f = 0;
    while (f < forms->list.n && !same_condition(forms->list.at[f].first, launch)) f++;
    if (f == forms->list.n) vec_push(l->arena, &forms->list, ((FoursForm){.first = launch}));
    FoursForm *form = &forms->list.at[f];
    for (int i = 0; i < form->kernels.n; i++)
        if (form->kernels.n == KERNELS_TOLD || strcmp(form->kernels.at[i], launch->kernel) == 0) return;
    vec_push(l->arena, &form->kernels, launch->kernel);
}

static void fours_of_items(const Layout *l, const Items *items, FoursForms *forms)
{
    for (int i = 0; i < items->n; i++) {
        const Item *item = items->at[i];
        for (const Launch *k = item->kind == ITEM_LAUNCH ? item->launch : NULL; k; k = k->epilogue) note_fours(l, k, forms);
        fours_of_items(l, &item->body[0], forms);
        fours_of_items(l, &item->body[1], forms);
        fours_of_items(l, &item->after, forms);
    }
}

void program_fours(const Layout *layout, const Program *p, FoursForms *forms)
{
    fours_of_items(layout, &p->items, forms);
    for (int u = 0; u < p->recipes.n; u++) fours_of_items(layout, &p->recipes.at[u].again_items, forms);
}
