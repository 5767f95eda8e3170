/* Evaluates a program's tables at some dims and has plans searched for them.  Needs: points.  Breaks: nothing. */
#include "emit/plans.h"
#include "emit/library.h"
#include <string.h>

/* Beyond UNITS_MOST a search is too dear to make for every program that is generated: the trainer makes its own. */
enum { TOUCHES_LIMIT = 40000000, PLANS_EACH = 20, UNITS_MOST = 50000 };

static int *encode_touches(const Layout *l, const Program *p)
{
    VEC(int) out = {0};
    for (int u = 0; u < p->units.n; u++) {
        const Touches *lists[] = {&p->units.at[u].reads, &p->units.at[u].writes};
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < lists[k]->n; i++) {
                const Touch *t = &lists[k]->at[i];
                vec_push(l->arena, &out,
                         t->kind == TOUCHES_BUFFER   ? t->index
                         : t->kind == TOUCHES_WEIGHT ? ~t->index
                                                     : ~(l->weights.n + t->index));
            }
            vec_push(l->arena, &out, LIBRARY_END);
        }
    }
    return out.at;
}

/* Every dim at `times` its likely value, or at its highest.  Late dims: at their upper bounds, as far as these are known. */
static void choose_dims(const Layout *l, int64_t times, int64_t *values)
{
    for (int i = 0; i < symbols_count(l->symbols); i++) {
        Expr *symbol = symbols_at(l->symbols, i);
        SymbolFacts f = symbol_facts(l->symbols, symbol);
        int64_t likely = expr_likely(l->symbols, symbol);
        values[i] = f.late ? likely : likely * times < f.high ? likely * times : f.high;
    }
}

static bool evaluate(const Layout *l, const int64_t *values, Expr *e, int64_t *out)
{
    return expr_evaluate(l->symbols, e, values, out) && *out >= 0 && *out < (int64_t)1 << 50;
}

static bool sizes_of(const Layout *l, const Program *p, const int64_t *values, LibraryInput *in)
{
    bool right = true;
    int64_t sum = 0;
    for (int b = 0; b < p->buffers.n && right; b++) {
        right = evaluate(l, values, p->buffers.at[b].bytes, &in->bytes[b]);
        in->bytes[b] = (in->bytes[b] + 255) / 256 * 256;
        right = right && (sum += in->bytes[b]) < (int64_t)1 << 50;
    }
    for (int u = 0; u < p->units.n && right; u++)
        right =
            evaluate(l, values, p->units.at[u].flops, &in->flops[u]) && evaluate(l, values, p->units.at[u].moved, &in->moved[u]);
    return right;
}

static void fill(const Layout *l, const Program *p, LibraryInput *in)
{
    Arena *arena = l->arena;
    *in = (LibraryInput){.n_units = p->units.n, .n_buffers = p->buffers.n, .n_points = p->points.n, .n_inputs = l->inputs.n};
    in->units = NEW_ARRAY(arena, LibraryUnit, p->units.n + 1);
    in->lives = NEW_ARRAY(arena, LibraryLife, p->buffers.n + 1);
    in->points = NEW_ARRAY(arena, LibraryPoint, p->points.n + 1);
    in->bytes = NEW_ARRAY(arena, int64_t, p->buffers.n + 1);
    in->flops = NEW_ARRAY(arena, int64_t, p->units.n + 1);
    in->moved = NEW_ARRAY(arena, int64_t, p->units.n + 1);
    in->touches = encode_touches(l, p);
    in->input_buffer = p->input_buffer;
    for (int u = 0; u < p->units.n; u++)
        in->units[u] = (LibraryUnit){p->units.at[u].first, p->units.at[u].last, p->units.at[u].again};
    for (int b = 0; b < p->buffers.n; b++) in->lives[b] = (LibraryLife){p->buffers.at[b].first, p->buffers.at[b].last};
    for (int k = 0; k < p->points.n; k++) {
        const Point *point = &p->points.at[k];
        in->points[k] = (LibraryPoint){point->buffer, p->units.at[point->gone].last, p->units.at[point->back].first};
    }
}

static bool in_library(const Program *p, const char *plan)
{
    for (int i = 0; i < p->library.n; i++)
        if (!strcmp(p->library.at[i], plan)) return true;
    return false;
}

void find_plans(const Layout *l, Program *p)
{
    static const int64_t times[] = {1, 8};
    LibraryInput in;
    if (!p->points.n || p->units.n > UNITS_MOST) return;
    fill(l, p, &in);
    int64_t *values = NEW_ARRAY(l->arena, int64_t, symbols_count(l->symbols) + 1);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        const char *plans[PLANS_EACH];
        choose_dims(l, times[i], values);
        if (!sizes_of(l, p, values, &in)) continue;
        int n = library_search(l->arena, &in, TOUCHES_LIMIT, plans, PLANS_EACH);
        for (int k = 0; k < n; k++)
            if (!in_library(p, plans[k])) vec_push(l->arena, &p->library, plans[k]);
    }
}
