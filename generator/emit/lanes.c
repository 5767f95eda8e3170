/* Loops along the elements of a row, or of a whole tensor.  Where every element of the loop lies where four neighbours can be read or
 * written at once, the loop is one over fours:
 *
 *     FOR_FOURS (four, 768) {                                    four = 0, 4, 8, …
 *         const Four<float> a_4(a + at + four);                  on CUDA one load of 16 bytes
 *         FourResults<float> y_4(y + at + four);                 …and one store, at the end of the block
 *         FOR_FOUR_LANES (j, four, 768) y_4[j] = a_4[j] * 2.f;
 *     }                                                      (FourInPlace: what an update reads and replaces)
 *
 * That is so where the loop's extent, every offset besides the lane's own, and the tensor's count are multiples of four, certainly or
 * where a guard says so (then the kernel is a template over FOUR, and 1 is the form for all other dims):
 * memory of tensors begins at multiples of 256 bytes (PLANNER_ALIGNMENT), slices of them that a loop of the step passes at multiples of their
 * count.  The second pass over the body finds out; where it is not so, all loops of the kernel are plain ones.  A kernel takes
 * fours in all its loops or in none, so that a thread meets its own elements again. */
#include "emit/kernel.h"
#include <string.h>

enum { FOUR = 4, SHORTEST_ROW = 128 /* in fours: a warp's work */, WORTH_A_GUARD = 16384 };

/* A block's tensors begin where the blocks before end: that its own size is a multiple says nothing. */
static bool of_blocks(const Kernel *k, Expr *e)
{
    Expr *symbols[64];
    const int n = expr_symbols(k->symbols, e, symbols, 64);
    for (int i = 0; i < n && i < 64; i++)
        for (int b = 0; b < k->all->blocks.n; b++)
            if (symbols[i] == k->all->blocks.at[b]) return true;
    return n > 64;
}

/* Whether e is a multiple of four, certainly or where a guard says so: one that holds at likely dims. */
static bool divisible(Kernel *k, Expr *e)
{
    Symbols *s = k->symbols;
    e = expr_canonical(s, e);
    if (expr_divide_exactly(s, e, expr_int(s, FOUR))) return true;
    if (expr_is_int(e, NULL) || expr_likely(s, e) % FOUR || of_blocks(k, e)) return false;
    int n = 0;
    for (int i = 0; i < k->fours_if.n; i++) {
        Expr *known = k->fours_if.at[i];
        if (expr_divide_exactly(s, e, known)) return true;
        if (!expr_divide_exactly(s, known, e)) k->fours_if.at[n++] = known; /* those that e implies go */
    }
    k->fours_if.n = n;
    vec_push(k->arena, &k->fours_if, e);
    return true;
}

static const char *pack_type(Kernel *k, const char *class, const Value *v)
{
    return text_of(k, k->fours_guarded ? "%s<%s, FOUR>" : "%s<%s>", class, dtype_c(v->dtype));
}

void lanes_in_fours(Kernel *k)
{
    k->fours = !k->all->one_by_one;
}

bool lanes_taken_in_fours(const Kernel *k)
{
    return k->fours && !k->unfit;
}

int lanes_threads(const Kernel *k, Expr *length)
{
    return threads_for(k->all, lanes_taken_in_fours(k) ? expr_ceildiv(k->symbols, length, expr_int(k->symbols, FOUR)) : length);
}

static bool fours_here(Kernel *k, Expr *extent, int64_t least)
{
    if (!k->fours || k->unfit || k->pass == PASS_COLLECT) return false;
    const int known = k->fours_if.n;
    const int64_t likely = expr_likely(k->symbols, extent);
    if (!divisible(k, extent) || likely < least) k->unfit = true;
    if (k->fours_if.n > known && least == FOUR && likely < WORTH_A_GUARD) k->unfit = true;
    if (k->unfit) k->fours_if.n = 0;
    return !k->unfit;
}

/* The count may be a parameter that differs between uses: it is text. */
Affine lanes_open(Kernel *k, const char *kind, const char *reduces, int group, const char *name, const char *count)
{
    const bool each = strcmp(kind, "EACH") == 0 || strcmp(kind, "ELEMENTS") == 0;
    Expr *extent = k->groups[group].extent;
    const char *pragma = reduces ? text_of(k, "REDUCES(%s)\n", reduces) : "";
    if (!fours_here(k, extent, each ? FOUR : SHORTEST_ROW)) {
        block_open(k, "%sFOR_%s (%s, %s)", pragma, kind, name, count);
        k->lane_blocks = 1;
        return affine_var(k, group_var(k, group, name));
    }
    block_open(k, "FOR_%sFOURS (four, %s)", each ? "EACH_" : "", count);
    k->four = loop_var(k, "four", expr_sub(k->symbols, extent, expr_int(k->symbols, FOUR - 1)));
    k->packs.n = 0;
    block_open(k, "%sFOR_FOUR_%s (%s, four, %s)", pragma, kind, name, count);
    k->lane = loop_var(k, name, expr_int(k->symbols, FOUR));
    k->lane_blocks = 2;
    const Affine four = affine_var(k, k->four), lane = affine_var(k, k->lane);
    return affine_add(k, &four, &lane, expr_int(k->symbols, 1));
}

void lanes_open_one(Kernel *k, const char *kind, const char *reduces)
{
    k->unfit = true;
    block_open(k, "%sFOR_%s (j, 1)", reduces ? text_of(k, "REDUCES(%s)\n", reduces) : "", kind);
    k->lane_blocks = 1;
}

/* Behind the index arithmetic of the outer block, before the inner one: those of a type share a line. */
static void declare_packs(Kernel *k)
{
    enum { WIDTH = 100 };
    for (int i = 0; i < k->packs.n; i++) {
        const char *type = k->packs.at[i].type;
        bool before = false;
        for (int j = 0; j < i; j++) before |= strcmp(k->packs.at[j].type, type) == 0;
        if (before) continue;
        Buf text = {.arena = k->arena};
        for (int j = i; j < k->packs.n; j++) {
            const Pack *p = &k->packs.at[j];
            if (strcmp(p->type, type) != 0) continue;
            const char *one = text_of(k, "%s(%s)", p->name, p->place);
            if (text.length && text.length + strlen(one) > WIDTH) {
                line_at(k, k->four->level, "%s;", buf_text(&text));
                text = (Buf){.arena = k->arena};
            }
            buf_printf(&text, "%s%s", text.length ? ", " : text_of(k, "%s ", type), one);
        }
        line_at(k, k->four->level, "%s;", buf_text(&text));
    }
}

void lanes_close(Kernel *k)
{
    if (k->lane_blocks == 2) declare_packs(k);
    for (; k->lane_blocks > 0; k->lane_blocks--) block_close(k);
    k->four = k->lane = NULL;
}

/* Whether the offset is that of four neighbours in v, one of which the lane takes; *base: of the first. */
static bool neighbours(Kernel *k, const Value *v, const Affine *offset, Affine *base)
{
    Expr *one = expr_int(k->symbols, 1);
    const Affine lane = affine_var(k, k->lane);
    *base = affine_add(k, offset, &lane, expr_int(k->symbols, -1));
    bool with_four = false, right = divisible(k, offset->constant) && divisible(k, count_of(k->all, v));
    for (int i = 0; i < base->n && right; i++) {
        if (base->term[i].var == k->four)
            right = with_four = base->term[i].scale == one;
        else
            right = base->term[i].var->level < k->lane->level && divisible(k, base->term[i].scale);
    }
    return right && with_four && level_allowed(k, k->four->level) == k->four->level;
}

static bool walks(const Kernel *k, const Affine *offset)
{
    return k->lane && affine_level(k, offset) >= k->four->level;
}

/* The pack of that name and place, declared where the loop over fours begins. */
static const char *pack(Kernel *k, const char *type, const char *pointer, const char *suffix, const Affine *base)
{
    const char *at = affine_text(k, base), *place = strcmp(at, "0") ? text_of(k, "%s + %s", pointer, at) : pointer;
    for (int i = 0; i < k->packs.n; i++)
        if (strcmp(k->packs.at[i].place, place) == 0 && strcmp(k->packs.at[i].type, type) == 0) return k->packs.at[i].name;
    const char *member = strrchr(pointer, '.'), *name = text_of(k, "%s_%s", member ? member + 1 : pointer, suffix), *unique = name;
    for (int n = 2, i = 0; i < k->packs.n; i++)
        if (strcmp(k->packs.at[i].name, unique) == 0) unique = text_of(k, "%s_%d", name, n++), i = -1;
    name = unique;
    local_known(k, name);
    vec_push(k->arena, &k->packs, ((Pack){type, place, name}));
    return name;
}

const char *lanes_load(Kernel *k, const Value *v, const char *pointer, bool result, const Affine *offset)
{
    Affine base;
    if (!walks(k, offset)) return NULL;
    if (!neighbours(k, v, offset, &base)) {
        k->unfit = true;
        return NULL;
    }
    const char *type = pack_type(k, is_replaced(k->group, v) ? "FourInPlace" : "const Four", v);
    return text_of(k, "%s[%s]", pack(k, type, pointer, result ? "was" : "4", &base), k->lane->name);
}

void lanes_store(Kernel *k, const Value *v, const char *pointer, const Affine *offset, const char *text)
{
    Affine base;
    const bool fours = walks(k, offset) && neighbours(k, v, offset, &base);
    if (k->lane && !fours) k->unfit = true;
    if (fours) {
        const char *type = pack_type(k, is_replaced(k->group, v) ? "FourInPlace" : "FourResults", v);
        line(k, "%s[%s] = %s;", pack(k, type, pointer, "4", &base), k->lane->name, text);
    } else
        line(k, "%s[%s] = %s;", pointer, affine_text(k, offset), text);
}
