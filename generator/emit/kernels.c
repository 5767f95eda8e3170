/* All kernels of a program: equal ones once, in order of first use.  A group goes to the file of its kind. */
#include "emit/kernel.h"
#include "emit/saved.h"
#include "ir/view.h"
#include <string.h>

Kernels *kernels_new(Arena *arena, Symbols *symbols)
{
    Kernels *all = NEW(arena, Kernels);
    all->arena = arena;
    all->scratch = arena_child(arena);
    all->symbols = symbols;
    all->by_text = map_new(arena);
    all->names = map_new(arena);
    all->tables = map_new(arena);
    all->forward = map_new(arena);
    all->repeats = repeats_new(arena);
    return all;
}

void kernels_blocks(Kernels *all, const Graph *g)
{
    kernel_names_forward(all, g);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        if (op->kind == OP_blocks) vec_push(all->arena, &all->blocks, op_exprs(op, ATTR_block, NULL)[0]);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) kernels_blocks(all, op->body[b]);
    }
}

void kernels_one_by_one(Kernels *all)
{
    all->one_by_one = true;
}

const char *kernels_text(const Kernels *all)
{
    Buf out = {.arena = all->arena};
    for (int i = 0; i < all->list.n; i++) kernel_put(&out, all->arena, all->list.at[i]);
    return buf_text(&out);
}

bool kernels_multiply(const Kernels *all, Dtype d)
{
    return all->multiplied[d];
}

Expr *count_of(Kernels *all, const Value *v)
{
    return expr_canonical(all->symbols, expr_product(all->symbols, v->shape, v->rank));
}
Expr *bytes_of(Kernels *all, const Value *v)
{
    return expr_mul(all->symbols, count_of(all, v), expr_int(all->symbols, dtype_bytes(v->dtype)));
}

const Op *main_op(const Group *group)
{
    check(group->ops.n > 0);
    return group->ops.at[group->ops.n - 1];
}

const Op *assign_where(const Group *group, const Value *result)
{
    const Op *own = group->kind == GROUP_ASSIGN ? main_op(group) : NULL;
    for (int a = 0; a < group->assigns.n && !own; a++)
        if (group->assigns.at[a]->in[1] == result) own = group->assigns.at[a];
    return own && own->n_in == 3 ? own : NULL;
}

int threads_for(Kernels *all, Expr *length)
{
    const int64_t likely = expr_likely(all->symbols, length);
    int threads = 32;
    while (threads < 256 && threads < likely) threads *= 2;
    return threads;
}

/* "mul_erf_add": up to three operations that compute something, the last ones; "copy" where none does. */
const char *group_name(Kernels *all, const Group *group)
{
    if (updates_in_place(group) && strcmp(main_op(group)->role, "optimizer") == 0) return "update";
    const char *names[3], *role = role_name(all, group);
    if (role) return role;
    int n = 0;
    for (int pass = 0; pass < 2 && n == 0; pass++) /* index operations only where there is nothing else */
        for (int i = group->ops.n - 1; i >= 0 && n < 3; i--) {
            const Op *op = group->ops.at[i];
            const OpClass class = op_info(op->kind)->class;
            if (class == SOURCE && op->kind != OP_random && group->ops.n > 1) continue;
            if (pass == 0 && (op->kind == OP_broadcast || op->kind == OP_reshape)) continue;
            if (n && strcmp(names[n - 1], op_info(op->kind)->name) == 0) continue;
            names[n++] = op_info(op->kind)->name;
        }
    if (n == 0) return "copy";
    if (n == 1 && op_info(main_op(group)->kind)->class == REDUCE) return names[0];
    if (n == 1) return arena_text(all->arena, "%s_each", names[0]); /* exp alone is a function of the C library */
    Buf name = {.arena = all->arena};
    for (int i = n - 1; i >= 0; i--) buf_printf(&name, "%s%s", name.length ? "_" : "", names[i]);
    return buf_text(&name);
}

/* ---- tables ---- */
const char *kernels_table(Kernels *all, const char *type, const char *content, int64_t n)
{
    const char *declaration = arena_text(all->arena, "%s[%lld] = {%s}", type, (long long)n, content);
    const char *name = map_get(all->tables, declaration);
    if (name) return name;
    name = arena_text(all->arena, "table%d", map_count(all->tables));
    map_set(all->tables, declaration, (void *)name);
    KernelText *table = NEW(all->arena, KernelText);
    table->definition = arena_text(all->arena, "CONSTANT %s %s[%lld] = {%s};\n", type, name, (long long)n, content);
    vec_push(all->arena, &all->list, table);
    return name;
}

/* ---- adding a kernel ---- */
typedef struct KnownKernel {
    const char *name;
    KernelText *text;
} KnownKernel;

/* Whether elements are put elsewhere and nothing is computed. */
static bool moves_alone(const Group *group)
{
    for (int i = 0; i < group->ops.n; i++) {
        const OpClass class = op_info(group->ops.at[i]->kind)->class;
        if (class != INDEX && class != SOURCE) return false;
    }
    return true;
}

/* Results first, then operands, then numbers. */
static int param_order(const Param *p)
{
    if (p->result) return p->arg.kind == ARG_STATE || p->arg.kind == ARG_KEPT;
    if (p->arg.kind == ARG_VALUE) return 2;
    if (p->arg.kind == ARG_SCRATCH) return 3;
    return p->arg.kind == ARG_EXPR ? 5 : 4;
}

static void sort_params(Kernel *k)
{
    for (int i = 1; i < k->params.n; i++)
        for (int j = i; j > 0 && param_order(&k->params.at[j]) < param_order(&k->params.at[j - 1]); j--) {
            const Param p = k->params.at[j];
            k->params.at[j] = k->params.at[j - 1];
            k->params.at[j - 1] = p;
        }
}

/* A pointer is restricted unless a result may lie in an operand's memory. */
static bool may_alias(Kernel *k, const Param *p)
{
    if (p->arg.kind != ARG_VALUE) return false;
    for (int i = 0; i < k->params.n; i++) {
        const Param *q = &k->params.at[i];
        if (q->arg.kind != ARG_VALUE || q->result == p->result) continue;
        if (kernels_in_place(k->group, p->result ? q->arg.value : p->arg.value, p->result ? p->arg.value : q->arg.value))
            return true;
    }
    return false;
}

static const char *unused_name(Kernels *all, const char *name)
{
    const char *candidate = arena_copy(all->arena, name, strlen(name));
    for (int i = 2; map_has(all->names, candidate); i++) candidate = arena_text(all->arena, "%s_%d", name, i);
    map_set(all->names, candidate, (void *)candidate);
    return candidate;
}

static Expr *moved_bytes(Kernels *all, const Group *group)
{
    Expr *sum = expr_int(all->symbols, 0);
    for (int i = 0; i < group->in.n; i++) sum = expr_add(all->symbols, sum, bytes_of(all, group->in.at[i]));
    for (int i = 0; i < group->out.n; i++) sum = expr_add(all->symbols, sum, bytes_of(all, group->out.at[i]));
    return sum;
}

static Launch *new_launch(Kernels *all, const Group *group)
{
    Launch *l = NEW(all->arena, Launch);
    l->moved = moved_bytes(all, group);
    l->flops = expr_int(all->symbols, 0);
    for (int i = 0; i < group->ops.n; i++) {
        const Op *op = group->ops.at[i];
        const OpClass class = op_info(op->kind)->class;
        if (op->n_out == 0 || (class != ELEMENTWISE && class != REDUCE && class != CUMULATIVE)) continue;
        l->flops = expr_add(all->symbols, l->flops, count_of(all, class == REDUCE ? op->in[0] : op->out[0]));
    }
    return l;
}

/* Every index is below one of these: the sizes, products and sums of the kernel's text, its elements, its rows. */
static void note_reach(Kernel *k, Launch *l, Expr *rows)
{
    Arena *arena = k->all->arena;
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].arg.kind == ARG_VALUE)
            kernel_reaches(k, count_of(k->all, k->params.at[i].arg.value));
        else if (k->params.at[i].arg.kind == ARG_EXPR && strcmp(k->params.at[i].type, k->index_type) == 0)
            kernel_reaches(k, k->params.at[i].arg.expr);
    kernel_reaches(k, rows);
    for (int i = 0; i < k->reach.n; i++) vec_push(arena, &l->reach, k->reach.at[i]);
}

static bool names_something(const Kernel *k, const char *word)
{
    for (int i = 0; i < k->params.n; i++)
        if (strcmp(k->params.at[i].name, word) == 0) return true;
    for (int i = 0; i < k->names.n; i++) { /* base, base2… */
        const size_t n = strlen(k->names.at[i].base);
        if (strncmp(word, k->names.at[i].base, n) == 0 && word[n + strspn(word + n, "0123456789")] == 0) return true;
    }
    return false;
}

/* The text with numbers in place of the kernel's own names and without blanks: kernels that differ in these alone are equal. */
static const char *anonymous(Kernel *k, const char *text)
{
    Map *numbers = map_new(k->arena);
    Buf out = {.arena = k->arena};
    for (const char *p = text; *p;) {
        const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        const char *word = n ? arena_copy(k->arena, p, n) : NULL;
        if (word && (p == text || p[-1] != '.') && names_something(k, word)) {
            intptr_t number = (intptr_t)map_get(numbers, word);
            if (!number) map_set(numbers, word, (void *)(number = map_count(numbers) + 1));
            buf_printf(&out, "$%d", (int)number);
        } else if (n || !strchr(" \n\t", *p)) {
            buf_write(&out, p, n ? n : 1);
        }
        if (n && p[n] == ' ' && (p[n + 1] == '_' || (p[n + 1] >= 'A' && p[n + 1] <= 'z'))) buf_put(&out, " "); /* between words */
        p += n ? n : 1;
    }
    return buf_text(&out);
}

/* ---- what its comment says ---- */
static const char *kind_text(const Kernel *k)
{
    if (k->kind) return k->kind;
    if (k->group->follows && !k->group->product && !k->part)
        return k->group->kind == GROUP_LOOP  ? "loop kernel that takes rows in turn with others,"
               : k->group->kind == GROUP_ROW ? "row kernel that takes rows in turn with others,"
                                             : "sum of columns that takes rows in turn with others,";
    if (k->group->product && !k->part)
        return k->group->kind == GROUP_LOOP  ? "epilogue of a product, a loop kernel,"
               : k->group->kind == GROUP_ROW ? "epilogue of a product, a row kernel,"
                                             : "epilogue of a product, a sum of columns,";
    switch (k->group->kind) {
    case GROUP_LOOP: return updates_in_place(k->group) ? "update kernel" : moves_alone(k->group) ? "copying kernel" : "loop kernel";
    case GROUP_ROW: return "row kernel";
    case GROUP_CUMULATIVE: return "cumulative kernel";
    case GROUP_SORT: return "sorting kernel";
    case GROUP_SCATTER: return "scatter kernel";
    case GROUP_LATE: return "selecting kernel";
    case GROUP_ATTENTION: return "attention kernel, scores in blocks on chip,";
    case GROUP_CELL: return "scan kernel, all steps of its rows,";
    default: return "kernel";
    }
}

static const char *operands_text(const Kernel *k, bool results)
{
    Buf out = {.arena = k->arena};
    for (int i = 0; i < k->params.n; i++) {
        const Param *p = &k->params.at[i];
        const bool stages = p->arg.kind == ARG_SCRATCH && (strncmp(p->type, "const", 5) != 0) == results;
        if (p->arg.kind == ARG_VALUE && p->result == results)
            buf_printf(&out, "%s%s", out.length ? ", " : "", operand_text(k->arena, p->name, p->arg.value));
        else if (p->arg.kind == ARG_STATE && results)
            buf_printf(&out, "%s%s", out.length ? ", " : "", p->name);
        else if (stages && k->group->kind == GROUP_REDUCE)
            buf_printf(&out, "%s%s", out.length ? ", " : "", p->name);
    }
    return arena_copy(k->all->arena, buf_text(&out), out.length);
}

static KnownKernel *new_kernel(Kernel *k, const char *name, bool indexed, const char *const *params)
{
    Kernels *all = k->all;
    KnownKernel *known = NEW(all->arena, KnownKernel);
    KernelText *text = known->text = NEW(all->arena, KernelText);
    known->name = unused_name(all, name);
    text->kind = kind_text(k);
    const char *form = !indexed ? "" : k->fours_guarded ? "template <class Index, int FOUR>\n" : "template <class Index>\n";
    const char *definition = kernel_definition(k->arena, known->name, form, params, k->params.n, kernel_body(k));
    text->definition = arena_copy(all->arena, definition, strlen(definition));
    text->reads = operands_text(k, false);
    text->writes = operands_text(k, true);
    text->saved = "";
    if (!k->part) {
        Expr *saved = bytes_saved(k->arena, all->symbols, k->group, NULL, &text->operations);
        if (saved && !expr_is(saved, 0)) text->saved = comment_safe(all->arena, expr_text(k->arena, saved));
    }
    vec_push(all->arena, &all->list, text);
    return known;
}

static void add_nodes(Kernels *all, const Group *group, KernelText *text)
{
    const char *nodes = nodes_text(all->scratch, group);
    if (!text->seen) text->seen = map_new(all->arena);
    if (!*nodes || map_has(text->seen, nodes)) return;
    nodes = arena_copy(all->arena, nodes, strlen(nodes));
    map_set(text->seen, nodes, text);
    vec_push(all->arena, &text->nodes, nodes);
}

void kernels_also_for(Kernels *all, const Launch *launches, int n, const Group *group)
{
    for (int i = 0; i < n; i++)
        if (launches[i].text) add_nodes(all, group, launches[i].text);
    arena_reset(all->scratch);
}

Launch *kernel_launch(Kernel *k, const char *name, Expr *blocks, Expr *each, int threads)
{
    Kernels *all = k->all;
    Launch *l = new_launch(all, k->group);
    const bool indexed = strcmp(k->index_type, "Index") == 0;
    sort_params(k);
    const char **items = NEW_ARRAY(k->arena, const char *, k->params.n + 1);
    Buf text = {.arena = k->arena};
    for (int i = 0; i < k->params.n; i++) {
        const Param *p = &k->params.at[i];
        const bool pointer = strchr(p->type, '*') != NULL, restricted = pointer && !may_alias(k, p);
        items[i] = arena_text(k->arena, "%s%s%s%s", p->type, restricted ? "__restrict__ " : "", pointer ? "" : " ", p->name);
        buf_printf(&text, "%s, ", items[i]);
        Arg arg = p->arg;
        if (arg.type) arg.type = arena_copy(all->arena, arg.type, strlen(arg.type));
        if (arg.kind == ARG_EXPR) arg.name = arena_copy(all->arena, p->name, strlen(p->name));
        vec_push(all->arena, &l->args, arg);
    }
    buf_put(&text, k->unnamed);
    const char *key = anonymous(k, buf_text(&text));
    KnownKernel *known = map_get(all->by_text, key);
    if (!known) {
        known = new_kernel(k, name, indexed, items);
        map_set(all->by_text, arena_copy(all->arena, key, strlen(key)), known);
    }
    add_nodes(all, k->group, known->text);
    vec_push(all->arena, &all->written, ((Written){known->text, k->group}));
    l->text = known->text;
    l->kernel = known->name;
    l->indexed = indexed;
    if (indexed) note_reach(k, l, blocks);
    for (int i = 0; i < k->fours_if.n; i++) vec_push(all->arena, &l->fours_if, k->fours_if.at[i]);
    l->blocks = blocks;
    l->each = each;
    l->threads = threads;
    return l;
}

Launch *library_launch(Kernels *all, const Group *group, const char *function)
{
    Launch *l = new_launch(all, group);
    l->kernel = function;
    l->library = true;
    return l;
}

void launch_arg_value(Kernels *all, Launch *l, Value *v)
{
    vec_push(all->arena, &l->args, ((Arg){.kind = ARG_VALUE, .value = v}));
    if (l->library && (!strncmp(l->kernel, "dot", 3) || !strncmp(l->kernel, "conv", 4))) all->multiplied[v->dtype] = true;
}
void launch_arg_expr(Kernels *all, Launch *l, Expr *e)
{
    vec_push(all->arena, &l->args, ((Arg){.kind = ARG_EXPR, .expr = e}));
}

/* ---- kinds ---- */
static void emit_new(Kernels *all, const Group *group, GroupLaunches *made)
{
    Emission e = {.all = all, .group = group};
    switch (group->kind) {
    case GROUP_LOOP: emit_loop(&e); break;
    case GROUP_ROW: emit_row(&e); break;
    case GROUP_REDUCE: emit_reduce(&e); break;
    case GROUP_CUMULATIVE: emit_cumulative(&e); break;
    case GROUP_SORT: emit_sort(&e); break;
    case GROUP_SCATTER: emit_scatter(&e); break;
    case GROUP_LATE: emit_late(&e); break;
    case GROUP_DOT: emit_dot(&e); break;
    case GROUP_CHAIN: emit_chain(&e); break;
    case GROUP_CONV: emit_conv(&e); break;
    case GROUP_POOL: emit_pool(&e); break;
    case GROUP_ATTENTION: emit_attention(&e); break;
    case GROUP_CELL: emit_cell(&e); break;
    case GROUP_ASSIGN: emit_copy(&e, group->out.at[0], group->in.at[0]); break;
    case GROUP_VIEW:
    case GROUP_REGION:
    case GROUP_FINITE:
    case GROUP_COMMIT: bug("a group of kind %d has no kernel", (int)group->kind);
    }
    *made = (GroupLaunches){.at = NEW_ARRAY(all->arena, Launch, e.launches.n), .n = e.launches.n, .scratch = e.scratch};
    for (int i = 0; i < e.launches.n; i++) made->at[i] = *e.launches.at[i];
}

/* ---- groups that are alike ---- */
typedef struct {
    KernelText *text;
    int link; /* of which kernel of the group: 0, or so many epilogues behind that */
} WrittenLink;
/* What the kernels of the first of them came to. */
typedef struct {
    GroupLaunches launches;
    VEC(int) values; /* what their arguments are, by number */
    VEC(WrittenLink) written;
} Emitted;
typedef VEC(Value **) Places;

static void list_places(Arena *arena, Launch *l, Places *places)
{
    for (; l; l = (Launch *)l->epilogue) {
        for (int a = 0; a < l->args.n; a++)
            if (l->args.at[a].value) vec_push(arena, places, &l->args.at[a].value);
        Value **known[] = {&l->known.y, &l->known.bias, &l->known.x};
        for (int i = 0; i < 3; i++)
            if (l->known.name && *known[i]) vec_push(arena, places, known[i]);
    }
}

static int link_of(const Group *group, const Group *of)
{
    int link = 0;
    for (; group && group != of; group = group->epilogue) link++;
    return group ? link : -1;
}

/* Keeps what was emitted for groups that are alike, where all of it is told by their words. */
static void remember(Kernels *all, const Group *group, const GroupWords *words, const GroupLaunches *made)
{
    Emitted *emitted = NEW(all->arena, Emitted);
    Places places = {0};
    emitted->launches = *made;
    for (int i = 0; i < made->n; i++) list_places(all->scratch, &made->at[i], &places);
    for (int i = 0; i < places.n; i++) {
        const int number = repeats_number(all->repeats, *places.at[i]);
        if (number < 0) return;
        vec_push(all->arena, &emitted->values, number);
    }
    for (int i = 0; i < all->written.n; i++) {
        const int link = link_of(group, all->written.at[i].group);
        if (link < 0) return;
        vec_push(all->arena, &emitted->written, ((WrittenLink){all->written.at[i].text, link}));
    }
    repeats_add(all->repeats, words)->kept = emitted;
}

static void copy_launch(Arena *arena, Launch *to, const Launch *from)
{
    *to = *from;
    to->args.at = NEW_ARRAY(arena, Arg, from->args.n + 1);
    to->args.room = from->args.n + 1;
    for (int a = 0; a < from->args.n; a++) to->args.at[a] = from->args.at[a];
    if (!from->epilogue) return;
    Launch *epilogue = NEW(arena, Launch);
    copy_launch(arena, epilogue, from->epilogue);
    to->epilogue = epilogue;
}

static void emit_alike(Kernels *all, const Group *group, const GroupWords *words, const Emitted *first, GroupLaunches *made)
{
    Places places = {0};
    *made = first->launches;
    made->at = NEW_ARRAY(all->arena, Launch, made->n);
    for (int i = 0; i < made->n; i++) {
        copy_launch(all->arena, &made->at[i], &first->launches.at[i]);
        list_places(all->scratch, &made->at[i], &places);
    }
    for (int i = 0; i < places.n; i++) *places.at[i] = words->values.at[first->values.at[i]];
    for (int i = 0; i < first->written.n; i++) {
        const Group *kernel = group;
        for (int link = first->written.at[i].link; link > 0; link--) kernel = kernel->epilogue;
        add_nodes(all, kernel, first->written.at[i].text);
    }
}

void kernels_emit(Kernels *all, const Group *group, GroupLaunches *made)
{
    const GroupWords *words = repeats_words(all->repeats, group, all->blocks.n);
    const Repeated *first = words->none ? NULL : repeats_find(all->repeats, words);
    all->written.n = 0;
    if (first) {
        emit_alike(all, group, words, first->kept, made);
    } else {
        emit_new(all, group, made);
        if (!words->none) remember(all, group, words, made);
    }
    arena_reset(all->scratch);
}

/* Values that are read twice are walked once: h * tanh(h) of such a product, and so on, would be walked 2^depth times. */
enum { WALKED_MOST = 512 };
typedef struct {
    const Group *group;
    const Value *in, *walked[2][WALKED_MOST]; /* without and with their places kept */
    int n[2];
} Walk;

static bool walked_before(Walk *w, const Value *v, bool kept)
{
    for (int i = 0; i < w->n[kept]; i++)
        if (w->walked[kept][i] == v) return true;
    if (w->n[kept] < WALKED_MOST) w->walked[kept][w->n[kept]++] = v;
    return false;
}

static bool walk_keeps(Walk *w, const Value *v, bool kept)
{
    if (v == w->in) return kept;
    if (!v->def || values_hold(&w->group->in, v) || walked_before(w, v, kept)) return true;
    const OpClass class = op_info(v->def->kind)->class;
    const bool keeps = class == REDUCE || (kept && (class == ELEMENTWISE || v->def->kind == OP_reshape));
    for (int i = 0; i < v->def->n_in; i++)
        if (!walk_keeps(w, v->def->in[i], keeps)) return false;
    return true;
}

bool keeps_place(const Group *group, const Value *v, const Value *in, bool kept)
{
    Walk walk;
    walk.group = group;
    walk.in = in;
    walk.n[0] = walk.n[1] = 0;
    return walk_keeps(&walk, v, kept);
}

bool kernels_at_own_place(const Group *group, const Value *out, const Value *in)
{
    return keeps_place(group, out, in, true);
}

static bool product_reads(const Op *dot, const Value *v)
{
    for (int i = 0; i < dot->n_in; i++)
        if (value_root(dot->in[i]) == value_root(v)) return true;
    return false;
}

/* v is a sum, or made of one. */
static bool follows_sum(const Group *group, const Value *v)
{
    if (!v->def || values_hold(&group->in, v)) return false;
    bool follows = op_info(v->def->kind)->class == REDUCE;
    for (int i = 0; i < v->def->n_in && !follows; i++) follows = follows_sum(group, v->def->in[i]);
    return follows;
}

/* While they run for some rows, the product of others is still to come.  Of several only the last one overwrites what it reads: where it
 * cannot be launched, none of them has. */
static bool links_in_place(const Group *group, const Value *in, const Value *out)
{
    if (group->kind == GROUP_DOT && (out == group->epilogue->place || product_reads(group->ops.at[0], in))) return false;
    const Group *last = group->epilogue;
    for (; last->epilogue; last = last->epilogue)
        for (int i = 0; i < last->out.n && values_hold(&last->in, in); i++)
            if (!kernels_at_own_place(last, last->out.at[i], in)) return false;
    return kernels_in_place(last, in, out);
}

bool kernels_in_place(const Group *group, const Value *in, const Value *out)
{
    if (group->epilogue && !group->follows) return links_in_place(group, in, out);
    const bool reads = values_hold(&group->in, in);
    if (!reads || !values_hold(&group->out, out)) return false;
    if (group->kind == GROUP_SCATTER) return main_op(group)->in[0] == in;
    if (group->kind == GROUP_DOT)
        return main_op(group)->kind == OP_dot_add && main_op(group)->in[2] == in && main_op(group)->in[0] != in &&
               main_op(group)->in[1] != in;
    if (group->kind == GROUP_ASSIGN) return in == out;
    const bool walks = group->kind == GROUP_LOOP || group->kind == GROUP_ROW || group->kind == GROUP_REDUCE;
    if (!walks || dtype_bytes(in->dtype) != dtype_bytes(out->dtype)) return false;
    if (group->kind == GROUP_REDUCE && follows_sum(group, out)) return false;
    for (int i = 0; i < group->out.n; i++)
        if (!keeps_place(group, group->out.at[i], in, true)) return false;
    return group->kind != GROUP_ROW || row_in_place(group, in, out);
}
