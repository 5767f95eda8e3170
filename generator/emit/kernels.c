/* All kernels of a program: equal ones once, in order of first use.  A group goes to the file of its kind. */
#include "emit/kernel.h"
#include <string.h>

Kernels *kernels_new(Arena *arena, Symbols *symbols)
{
    Kernels *all = NEW(arena, Kernels);
    all->arena = arena;
    all->scratch = arena_child(arena);
    all->symbols = symbols;
    all->text.arena = arena;
    all->by_text = map_new(arena);
    all->names = map_new(arena);
    all->tables = map_new(arena);
    return all;
}

const char *kernels_text(const Kernels *all)
{
    return buf_text(&all->text);
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
    if (group->assigns.n > 1 && strcmp(main_op(group)->role, "optimizer") == 0) return "update";
    const char *names[3];
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
    buf_printf(&all->text, "CONSTANT %s %s[%lld] = {%s};\n\n", type, name, (long long)n, content);
    return name;
}

/* ---- comments ---- */
static const char *shape_text(Arena *arena, const Value *v)
{
    Buf out = {.arena = arena};
    buf_printf(&out, "%s[", dtype_name(v->dtype));
    for (int i = 0; i < v->rank; i++) buf_printf(&out, "%s%s", i ? ", " : "", expr_text(arena, v->shape[i]));
    buf_put(&out, "]");
    return buf_text(&out);
}

/* Characters of a model's names that would end a comment or a line are replaced. */
static const char *safe(Arena *arena, const char *name)
{
    char *copy = arena_copy(arena, name, strlen(name));
    for (char *p = copy; *p; p++)
        if ((*p == '*' && p[1] == '/') || (unsigned char)*p < ' ') *p = '.';
    return copy;
}

/* "add, tanh of "/h.0/Add", "/h.0/Tanh"" */
static const char *sources_text(Arena *arena, const Group *group)
{
    Buf out = {.arena = arena};
    const char *last = "";
    for (int i = 0; i < group->ops.n && out.length < 160; i++) {
        const Op *op = group->ops.at[i];
        if (!op->source || !*op->source || strcmp(op->source, last) == 0) continue;
        last = op->source;
        buf_printf(&out, "%s\"%s\"", out.length ? ", " : "", safe(arena, last));
    }
    return buf_text(&out);
}

/* What only says where elements come from, in a group that computes something. */
static bool goes_without_saying(const Group *group, const Op *op)
{
    const bool index = op->kind == OP_broadcast || op->kind == OP_reshape || op->kind == OP_cast;
    return op != main_op(group) && (index || (op_info(op->kind)->class == SOURCE && op->kind != OP_random));
}

static const char *ops_text(Arena *arena, const Group *group)
{
    Buf out = {.arena = arena};
    for (int i = 0; i < group->ops.n; i++) {
        const Op *op = group->ops.at[i];
        if (goes_without_saying(group, op)) continue;
        if (out.length > 100) {
            buf_put(&out, ", ...");
            break;
        }
        buf_printf(&out, "%s%s", out.length ? ", " : "", op_info(op->kind)->name);
    }
    return buf_text(&out);
}

static const char *launch_comment(Kernels *all, const Group *group)
{
    Buf out = {.arena = all->scratch};
    for (int i = 0; i < group->out.n && i < 4; i++)
        buf_printf(&out, "%s%s", i ? ", " : "", shape_text(all->scratch, group->out.at[i]));
    buf_printf(&out, " = %s", ops_text(all->scratch, group));
    const char *sources = sources_text(all->scratch, group);
    if (*sources) buf_printf(&out, "  %s", sources);
    return arena_copy(all->arena, buf_text(&out), out.length);
}

/* ---- layout ---- */
/* Indents by braces; a line that begins with a tab belongs to the one before. */
static void put_indented(Buf *out, const char *text)
{
    int depth = 1;
    while (*text) {
        const char *end = strchr(text, '\n');
        const size_t n = end ? (size_t)(end - text) : strlen(text);
        int indent = depth;
        const bool closes = *text == '}';
        if (closes) indent--;
        if (*text == '\t') indent++;
        const size_t skip = *text == '\t';
        for (int i = 0; i < indent; i++) buf_put(out, "    ");
        buf_write(out, text + skip, n - skip);
        buf_put(out, "\n");
        for (size_t i = 0; i < n; i++) depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
        text += n + (end != NULL);
    }
}

/* "name(" and its parameters, wrapped at 132 columns. */
static void put_wrapped(Buf *out, const char *head, const char *const *items, int n)
{
    size_t column = strlen(head);
    buf_put(out, head);
    for (int i = 0; i < n; i++) {
        const size_t width = strlen(items[i]) + 2;
        if (i && column + width > 130) {
            buf_printf(out, ",\n%*s%s", (int)strlen(head), "", items[i]);
            column = strlen(head);
        } else {
            buf_printf(out, "%s%s", i ? ", " : "", items[i]);
        }
        column += width;
    }
}

/* ---- adding a kernel ---- */
/* Results first, then operands, then numbers. */
static int param_order(const Param *p)
{
    if (p->result) return 0;
    if (p->arg.kind == ARG_VALUE) return 1;
    if (p->arg.kind == ARG_SCRATCH) return 2;
    return p->arg.kind == ARG_EXPR ? 4 : 3;
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
    l->comment = launch_comment(all, group);
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
        if (k->params.at[i].arg.kind == ARG_VALUE) kernel_reaches(k, count_of(k->all, k->params.at[i].arg.value));
        else if (k->params.at[i].arg.kind == ARG_EXPR && strcmp(k->params.at[i].type, k->index_type) == 0)
            kernel_reaches(k, k->params.at[i].arg.expr);
    kernel_reaches(k, rows);
    for (int i = 0; i < k->reach.n; i++) vec_push(arena, &l->reach, k->reach.at[i]);
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
        vec_push(all->arena, &l->args, arg);
    }
    buf_put(&text, kernel_body(k));
    const char *known = map_get(all->by_text, buf_text(&text));
    if (!known) {
        known = unused_name(all, name);
        map_set(all->by_text, buf_text(&text), (void *)known);
        buf_printf(&all->text, "/* %s: %s */\n", known, l->comment);
        if (indexed) buf_put(&all->text, "template <class Index>\n");
        put_wrapped(&all->text, arena_text(all->arena, "__global__ void %s(", known), items, k->params.n);
        buf_put(&all->text, ")\n{\n");
        put_indented(&all->text, kernel_body(k));
        buf_put(&all->text, "}\n\n");
    }
    l->kernel = known;
    l->indexed = indexed;
    if (indexed) note_reach(k, l, blocks);
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
void kernels_emit(Kernels *all, const Group *group, Launch **launches, int *n, Expr **scratch)
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
    *launches = NEW_ARRAY(all->arena, Launch, e.launches.n);
    for (int i = 0; i < e.launches.n; i++) (*launches)[i] = *e.launches.at[i];
    *n = e.launches.n;
    *scratch = e.scratch;
    arena_reset(all->scratch);
}

bool keeps_place(const Group *group, const Value *v, const Value *in, bool kept)
{
    if (v == in) return kept;
    if (!v->def || in_values(v, (const Value *const *)group->in.at, group->in.n)) return true;
    const OpClass class = op_info(v->def->kind)->class;
    const bool keeps = class == REDUCE || (kept && (class == ELEMENTWISE || v->def->kind == OP_reshape));
    for (int i = 0; i < v->def->n_in; i++)
        if (!keeps_place(group, v->def->in[i], in, keeps)) return false;
    return true;
}

bool kernels_in_place(const Group *group, const Value *in, const Value *out)
{
    const bool reads = in_values(in, (const Value *const *)group->in.at, group->in.n);
    if (!reads || !in_values(out, (const Value *const *)group->out.at, group->out.n)) return false;
    if (group->kind == GROUP_SCATTER) return main_op(group)->in[0] == in;
    if (group->kind == GROUP_DOT) return main_op(group)->kind == OP_dot_add && main_op(group)->in[2] == in && main_op(group)->in[0] != in && main_op(group)->in[1] != in;
    if ((group->kind != GROUP_LOOP && group->kind != GROUP_ROW) || dtype_bytes(in->dtype) != dtype_bytes(out->dtype)) return false;
    for (int i = 0; i < group->out.n; i++)
        if (!keeps_place(group, group->out.at[i], in, true)) return false;
    return group->kind == GROUP_LOOP || row_in_place(group, in, out);
}
