/* Evaluates a program's tables at some dims and has plans searched for them.  Needs: points.  Breaks: nothing. */
#include "emit/plans.h"
#include "../../runtime/controller/integers.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Beyond UNITS_MOST a search is too dear to make for every program that is generated: the trainer makes its own. */
enum { TOUCHES_LIMIT = 20000000, PLANS_EACH = 24, POINTS_EACH = 60000, UNITS_MOST = 20000 }; /* POINTS_EACH: of a set of plans, in characters */

static int *encode_touches(const Layout *l, const Program *p)
{
    VEC(int) out = {0};
    for (int u = 0; u < program_all_units(p); u++) {
        const Touches *lists[] = {&program_unit(p, u)->reads, &program_unit(p, u)->writes};
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

static bool evaluate(const Layout *l, const int64_t *values, Expr *e, int64_t *out)
{
    return expr_evaluate(l->symbols, e, values, out) && *out >= 0 && *out < (int64_t)1 << 50;
}

/* Every dim at its likely value; those in `larger` eight times as large, or as large as they may be.  Late dims: as they are
 * likely. */
static void choose_dims(const Layout *l, unsigned larger, int64_t *values)
{
    for (int i = 0, dim = 0; i < symbols_count(l->symbols); i++) {
        Expr *symbol = symbols_at(l->symbols, i);
        SymbolFacts f = symbol_facts(l->symbols, symbol);
        int64_t likely = expr_likely(l->symbols, symbol);
        values[i] = likely;
        if (f.late || likely >= f.high || layout_block(l, symbol)) continue;
        if (larger >> (dim < 31 ? dim : 31) & 1) values[i] = likely * 8 < f.high ? likely * 8 : f.high;
        dim++;
    }
    for (int i = 0; i < l->blocks.n; i++) {
        const NamedBlock *block = &l->blocks.at[i];
        int64_t rows, bytes;
        if (evaluate(l, values, block->rows, &rows) && evaluate(l, values, block->row_bytes, &bytes))
            values[symbol_index(block->symbol)] = rows_per_block(rows, bytes);
    }
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
    for (int u = 0; u < program_all_units(p) && right; u++)
        right = evaluate(l, values, program_unit(p, u)->flops, &in->flops[u]) &&
                evaluate(l, values, program_unit(p, u)->moved, &in->moved[u]);
    return right;
}

static void own_sizes(Arena *arena, const Program *p, LibraryInput *in)
{
    const int all = program_all_units(p);
    in->bytes = NEW_ARRAY(arena, int64_t, p->buffers.n + 1);
    in->flops = NEW_ARRAY(arena, int64_t, all + 1);
    in->moved = NEW_ARRAY(arena, int64_t, all + 1);
}

static void fill(const Layout *l, const Program *p, LibraryInput *in)
{
    Arena *arena = l->arena;
    int all = program_all_units(p);
    *in = (LibraryInput){.n_units = p->units.n,
                         .n_recipes = p->recipes.n,
                         .n_buffers = p->buffers.n,
                         .n_points = p->points.n,
                         .n_inputs = l->inputs.n};
    in->units = NEW_ARRAY(arena, LibraryUnit, all + 1);
    in->lives = NEW_ARRAY(arena, LibraryLife, p->buffers.n + 1);
    in->points = NEW_ARRAY(arena, LibraryPoint, p->points.n + 1);
    own_sizes(arena, p, in);
    in->touches = encode_touches(l, p);
    in->input_buffer = p->input_buffer;
    for (int u = 0; u < all; u++) {
        const Unit *unit = program_unit(p, u);
        in->units[u] = (LibraryUnit){unit->first, unit->last, unit->again, unit->of};
    }
    for (int b = 0; b < p->buffers.n; b++) in->lives[b] = (LibraryLife){p->buffers.at[b].first, p->buffers.at[b].last};
    for (int k = 0; k < p->points.n; k++) {
        const Point *point = &p->points.at[k];
        in->points[k] = (LibraryPoint){point->buffer, p->units.at[point->gone].last, p->units.at[point->back].first};
    }
}

bool plans_input(const Layout *l, const Program *p, LibraryInput *in)
{
    int64_t *values = NEW_ARRAY(l->arena, int64_t, symbols_count(l->symbols) + 1);
    fill(l, p, in);
    choose_dims(l, 0, values);
    return sizes_of(l, p, values, in);
}

static bool in_library(const Program *p, const char *plan)
{
    for (int i = 0; i < p->library.n; i++)
        if (!strcmp(p->library.at[i], plan)) return true;
    return false;
}

/* Whether the dims were chosen before: a program may have one dim alone. */
static bool repeats(const Layout *l, int64_t *const *values, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!memcmp(values[k], values[i], (size_t)symbols_count(l->symbols) * sizeof *values[i])) return true;
    return false;
}

/* ---- searches ---- */
typedef struct Search {
    Program *program;
    LibraryInput in;
    Arena *arena; /* its own */
    const char *plans[PLANS_EACH];
    int room, n;
} Search;
typedef struct Searches {
    VEC(Search) list;
    atomic_int next;
} Searches;

static void list_searches(const Layout *l, Program *p, Searches *searches)
{
    static const unsigned larger[] = {0, ~0u, 1, 2}; /* none, all, the first, the second: plans differ by how dims compare */
    LibraryInput in;
    if (!p->points.n || p->units.n > UNITS_MOST) return;
    fill(l, p, &in);
    const int room = POINTS_EACH / p->points.n < PLANS_EACH ? POINTS_EACH / p->points.n + 1 : PLANS_EACH;
    int64_t *values[sizeof larger / sizeof *larger];
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++) {
        values[i] = NEW_ARRAY(l->arena, int64_t, symbols_count(l->symbols) + 1);
        choose_dims(l, larger[i], values[i]);
        if (repeats(l, values, i)) continue;
        own_sizes(l->arena, p, &in);
        if (sizes_of(l, p, values[i], &in)) vec_push(l->arena, &searches->list, ((Search){.program = p, .in = in, .room = room}));
    }
}

static void *search(void *of)
{
    Searches *searches = of;
    for (int i; (i = atomic_fetch_add(&searches->next, 1)) < searches->list.n;) {
        Search *s = &searches->list.at[i];
        s->n = library_search(s->arena, &s->in, TOUCHES_LIMIT, s->plans, s->room);
    }
    return NULL;
}

/* All cores search; what is found does not depend on how many there are. */
static void search_all(Searches *searches)
{
    enum { THREADS_MOST = 8 };
    pthread_t threads[THREADS_MOST];
    long wanted = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    int n = 0;
    if (wanted > THREADS_MOST) wanted = THREADS_MOST;
    if (wanted > searches->list.n - 1) wanted = searches->list.n - 1;
    while (n < wanted && !pthread_create(&threads[n], NULL, search, searches)) n++;
    search(searches);
    while (n) pthread_join(threads[--n], NULL);
}

void find_plans(const Layout *l, Program *const *programs, int n)
{
    Searches searches = {0};
    for (int i = 0; i < n; i++)
        if (program_plans(programs[i])) list_searches(l, programs[i], &searches);
    for (int i = 0; i < searches.list.n; i++) searches.list.at[i].arena = arena_new();
    search_all(&searches);
    for (int i = 0; i < searches.list.n; i++) {
        Search *s = &searches.list.at[i];
        for (int k = 0; k < s->n; k++)
            if (!in_library(s->program, s->plans[k]))
                vec_push(l->arena, &s->program->library, arena_copy(l->arena, s->plans[k], strlen(s->plans[k])));
        arena_free(s->arena);
    }
}
