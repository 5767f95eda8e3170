/* The statements of a step: launches, loops, conditions, the commit, late dims, each under the heading of its section. */
#include "emit/step_private.h"
#include "emit/forms.h"
#include "emit/names.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>

/* "unit(s, 12);" before the statement that a unit begins with. */
static void put_unit(Writer *w, Buf *line)
{
    enum { WIDTH = 14 };
    if (w->unit >= 0) buf_printf(line, "%-*s", WIDTH, arena_text(w->l->arena, "unit(s, %d);", w->unit));
    w->unit = -1;
}

static void indent(Writer *w, int depth)
{
    buf_printf(&w->body, "%*s", 4 * depth, "");
    put_unit(w, &w->body);
}

/* ---- sections ---- */
/* "h.0.attn" of "h.0.attn.c_proj.weight": the module around the one that a path ends in, or that one where there is no more. */
static const char *enclosing(Arena *arena, const char *path, char point)
{
    const char *last = strrchr(path, point);
    if (!last || last == path) return NULL;
    char *copy = arena_copy(arena, path, (size_t)(last - path)), *before = strrchr(copy, point);
    const char *left = point == '.' ? strchr(copy, point) : copy + 1; /* "fc.0" rather than "fc": names of weights begin far out */
    if (before && before > left) *before = 0;
    return copy + (*copy == point);
}

/* The part of the model that a statement belongs to, by its node's path or else by a weight that it reads or changes; NULL: unknown. */
static const char *scope_of(Arena *arena, const Item *item)
{
    if (strcmp(item->role, "optimizer") == 0) return NULL; /* an update stands where its gradient is complete */
    if (*item->source == '/') return enclosing(arena, short_path(arena, item->source), '/');
    for (int a = 0; item->launch && a < item->launch->args.n; a++) {
        const Value *v = item->launch->args.at[a].kind == ARG_VALUE ? item->launch->args.at[a].value : NULL;
        if (v && v->origin == FROM_WEIGHT && strchr(v->tensor->name, '.')) return enclosing(arena, v->tensor->name, '.');
    }
    return NULL;
}

void section_text(Writer *w, const Item *item)
{
    const char *now = w->section;
    if (item->kind == ITEM_COMMIT)
        now = "commit: nothing above has changed a weight; nothing below is abandoned";
    else if (item->kind == ITEM_FINITE)
        now = "all gradients are finite, or no weight changes";
    else if (w->committed && w->checks)
        now = w->checked ? "updates" : "backward";
    else if (w->committed)
        now = "backward; each weight is updated as soon as its gradient is complete and its last reader is done";
    else if (!w->has_commit)
        now = "forward";
    else
        now = strcmp(item->role, "loss") == 0 || (w->section && strcmp(w->section, "loss") == 0) ? "loss" : "forward";
    const bool begins = !w->section || strcmp(now, w->section) != 0;
    const char *scope = scope_of(w->l->arena, item);
    if (begins) {
        w->section = now, w->scope = NULL;
        buf_printf(&w->body, "\n    /* ---- %s ---- */\n", now);
    }
    if (!scope || strcmp(now, "loss") == 0 || (w->scope && strcmp(w->scope, scope) == 0)) return;
    w->scope = arena_copy(w->body.arena, scope, strlen(scope));
    buf_printf(&w->body, "%s    /* -- %s -- */\n", begins ? "" : "\n", commented(w->l, scope));
}

/* ---- launches ---- */
static int type_bytes(const char *type)
{
    for (int d = 0; d < DTYPES_COUNT; d++)
        if (strcmp(dtype_c((Dtype)d), type) == 0) return dtype_bytes((Dtype)d);
    return 0;
}

/* A part of scratch memory: where that is declared as what its parts are, so many elements behind its beginning. */
static const char *scratch_argument(Writer *w, const Item *item, const Arg *arg)
{
    const Layout *l = w->l;
    const bool first = !arg->expr || expr_is(arg->expr, 0),
               typed = item->scratch_type && strcmp(item->scratch_type, arg->type) == 0;
    if (first) return typed ? item->scratch : arena_text(l->arena, "(%s *)%s", arg->type, item->scratch);
    const int size = type_bytes(arg->type);
    Expr *elements = typed && size ? expr_divide_exactly(l->symbols, arg->expr, expr_int(l->symbols, size)) : NULL;
    if (elements) return arena_text(l->arena, "%s + %s", item->scratch, size_c(w, elements));
    return arena_text(l->arena, typed ? "(%s *)((char *)%s + %s)" : "(%s *)(%s + %s)", arg->type, item->scratch,
                      size_c(w, arg->expr));
}

const char *kept_flag(const Layout *l, const Value *target)
{
    const Tensor *t = target->tensor, *weight = t->of ? t->of : t;
    return arena_text(l->arena, "s->kept + WEIGHT_%s", upper(l->arena, l->weights.at[layout_find(l->weight_of, weight->name)].c));
}

static const char *argument(Writer *w, const Item *item, const Arg *arg)
{
    const Layout *l = w->l;
    switch (arg->kind) {
    case ARG_VALUE: return program_place(w->p, arg->value)->pointer;
    case ARG_EXPR: return size_c(w, arg->expr);
    case ARG_HYPER: return l->hypers.at[layout_find(l->hyper_of, arg->value->name)].c;
    case ARG_HYPERS: return "hypers";
    case ARG_STATE: return layout_state(l, arg->value->tensor);
    case ARG_SEED: return "s->seed";
    case ARG_STEP: return "s->number";
    case ARG_KEPT: return arg->type ? arg->type : kept_flag(l, arg->value);
    case ARG_LATER: return arena_text(l->arena, "%s > 0", item->later);
    case ARG_SCRATCH:
        if (!item->scratch) bug("%s wants scratch memory that nobody gave", item->launch->kernel);
        return scratch_argument(w, item, arg);
    }
    bug("argument of kind %d", (int)arg->kind);
}

/* The model's nodes that a launch computes: the last, and of those before it as many as have room. */
static const char *nodes(Writer *w, const Item *item, int room)
{
    const char *text = item->in_place ? "in place" : "";
    for (int i = item->nodes.n - 1; i >= 0; i--) {
        const char *more = arena_text(w->l->arena, "\"%s\"%s%s", item->nodes.at[i], *text ? ", " : "", text);
        if (i < item->nodes.n - 1 && (int)strlen(more) + 6 > room) break;
        text = more;
    }
    return commented(w->l, text);
}

/* Appends ", text", in a new line where it would pass the margin. */
static void add_argument(Buf *line, size_t *start, int indent_by, const char *separator, const char *text)
{
    buf_put(line, separator);
    if (line->length - *start + strlen(text) > LINE_MAX_COLUMNS) {
        while (line->length && line->text[line->length - 1] == ' ') line->text[--line->length] = 0;
        *start = line->length + 1;
        buf_printf(line, "\n%*s", indent_by, "");
    }
    buf_put(line, text);
}

/* How much there is to do: rows(batch*seq, 768); of an epilogue also in how many shares: rows(12*64, 64*batch*seq, 64). */
static const char *work_text(Writer *w, const Launch *launch, bool epilogue)
{
    Arena *arena = w->l->arena;
    const char *blocks = size_c(w, launch->blocks);
    if (!launch->each) return arena_text(arena, launch->fours ? "fours(%s)" : "elements(%s)", blocks);
    const char *each = size_c(w, launch->each);
    if (!epilogue || launch->shares == launch->blocks) return arena_text(arena, "rows(%s, %s)", blocks, each);
    return arena_text(arena, "rows(%s, %s, %s)", blocks, each, size_c(w, launch->shares));
}

/* The kernel, and when it takes elements in fours, where that depends on dims: "scale, seq % 4 == 0". */
static const char *kernel_text(Writer *w, const Launch *launch)
{
    if (!launch->fours_if.n) return launch->kernel;
    return arena_text(w->l->arena, "%s, %s", launch->kernel, with_sizes(w, fours_condition(w->l, launch->fours_if.at, launch->fours_if.n, "")));
}

/* Of a product the fifth and sixth number: whether its operands lie transposed (device/blas.h).  NULL: another argument. */
static const char *how_it_lies(const Launch *launch, const Arg *arg, int number)
{
    if (!launch->library || strncmp(launch->kernel, "dot", 3) != 0 || arg->kind != ARG_EXPR || (number != 5 && number != 6)) return NULL;
    const bool a = !expr_is(arg[number == 6 ? -1 : 0].expr, 0), b = !expr_is(arg[number == 6 ? 0 : 1].expr, 0);
    return a ? b ? "TRANSPOSED, TRANSPOSED" : "TRANSPOSED, PLAIN" : b ? "PLAIN, TRANSPOSED" : "PLAIN, PLAIN";
}

/* "EPILOGUE(s, kernel, rows(n, each), 256)(arguments)": of a product, or of another epilogue. */
static void epilogue_text(Writer *w, const Item *item, const Launch *of, int depth, Buf *line, size_t *start)
{
    const Launch *epilogue = of->epilogue;
    buf_put(line, ",");
    *start = line->length + 1;
    buf_printf(line, "\n%*s%s(s, %s", 4 * depth + 8, "", epilogue->fours_if.n ? "EPILOGUE_FOURS" : "EPILOGUE", kernel_text(w, epilogue));
    add_argument(line, start, 4 * depth + 12, ", ", arena_text(w->l->arena, "%s, %d)(", work_text(w, epilogue, true), epilogue->threads));
    for (int a = of->own; a < epilogue->own; a++)
        add_argument(line, start, 4 * depth + 12, a > of->own ? ", " : "", argument(w, item, &item->launch->args.at[a]));
    if (of->known.name) {
        const Value *const places[] = {of->known.y, of->known.bias, of->known.x};
        buf_put(line, ")");
        *start = line->length + 1;
        buf_printf(line, "\n%*s.or_library(%s", 4 * depth + 12, "", of->known.name);
        for (int i = 0; i < 3; i++) buf_printf(line, ", %s", places[i] ? program_place(w->p, places[i])->pointer : "NULL");
    }
    buf_put(line, ")");
}

static void launch_text(Writer *w, const Item *item, int depth)
{
    const Launch *launch = item->launch;
    Buf line = {.arena = w->l->arena};
    size_t start = 0;
    buf_printf(&line, "%*s", 4 * depth, "");
    put_unit(w, &line);
    if (launch->library)
        buf_printf(&line, "%s(s", launch->kernel);
    else
        buf_printf(&line, "%s(s, %s, %s, %d)(", launch->fours_if.n ? "LAUNCH_FOURS" : launch->indexed ? "LAUNCH" : "LAUNCH_PLAIN",
                   kernel_text(w, launch), work_text(w, launch, false), launch->threads);
    const int own = launch->epilogue ? launch->own : launch->args.n;
    int numbers = 0;
    for (int a = 0; a < own; a++) {
        numbers += launch->args.at[a].kind == ARG_EXPR;
        const char *text = how_it_lies(launch, &launch->args.at[a], numbers);
        if (text && numbers == 5) continue; /* both stand together */
        add_argument(&line, &start, 4 * depth + 8, a || launch->library ? ", " : "", text ? text : argument(w, item, &launch->args.at[a]));
    }
    for (const Launch *of = launch; of->epilogue; of = of->epilogue) epilogue_text(w, item, of, depth, &line, &start);
    buf_put(&line, ");");
    if (item->nodes.n) {
        const int length = (int)(line.length - start), pad = length < COMMENT_COLUMN ? COMMENT_COLUMN - length : 1;
        buf_printf(&line, "%*s/* %s */", pad, "", nodes(w, item, FARTHEST_COLUMN - length - pad));
    }
    buf_printf(&w->body, "%s\n", buf_text(&line));
}

/* ---- items ---- */
static void items_text(Writer *w, const Items *items, int depth);

static void loop_text(Writer *w, const Item *item, int depth)
{
    const char *t = item->counter, *n = expr_c(w->l, item->length, "");
    indent(w, depth);
    if (item->block) /* no rows: once, so that sums are 0 */
        buf_printf(&w->body, "for (int64_t %s = 0; %s == 0 || %s < %s; %s += d.%s) {", t, t, t, n, t, item->block);
    else if (item->reverse)
        buf_printf(&w->body, "for (int64_t %s = %s - 1; %s >= 0; %s--) {", t, n, t, t);
    else
        buf_printf(&w->body, "for (int64_t %s = 0; %s < %s; %s++) {", t, t, n, t);
    buf_printf(&w->body, " /* \"%s\"%s */\n", commented(w->l, item->source), item->block ? ", blocks of rows" : "");
    if (item->block) {
        indent(w, depth + 1);
        buf_printf(&w->body, "const int64_t %s = min_int(d.%s, %s - %s);\n", item->block, item->block, n, t);
    }
    for (int i = 0; i < item->locals.n; i++) {
        const Local *local = &item->locals.at[i];
        const char *stride = expr_c(w->l, local->stride, "");
        bool plain = true;
        for (const char *p = stride; *p; p++) plain = plain && (isalnum((unsigned char)*p) || *p == '_');
        indent(w, depth + 1);
        if (!strcmp(stride, "1"))
            buf_printf(&w->body, "%s *const %s = %s + %s; /* %s */\n", local->type, local->name, local->base, t,
                       commented(w->l, local->shape));
        else
            buf_printf(&w->body, plain ? "%s *const %s = %s + %s * %s; /* %s */\n" : "%s *const %s = %s + %s * (%s); /* %s */\n",
                       local->type, local->name, local->base, t, stride, commented(w->l, local->shape));
    }
    const size_t start = w->body.length;
    items_text(w, &item->body[0], depth + 1);
    if (item->block) {
        const char *text = arena_copy(w->l->arena, w->body.text + start, w->body.length - start);
        w->body.length = start;
        declare_sizes(&w->body, w, item->block, text, depth + 1);
        buf_put(&w->body, text);
    }
    indent(w, depth);
    buf_put(&w->body, "}\n");
}

static void while_text(Writer *w, const Item *item, int depth)
{
    indent(w, depth);
    buf_printf(&w->body, "for (int64_t %s = 0, more = read_flag(s, %s); more && !s->error; %s++) { /* \"%s\" */\n", item->counter,
               item->place->pointer, item->counter, commented(w->l, item->source));
    if (item->iteration) {
        indent(w, depth + 1);
        buf_printf(&w->body, "write_int(s, %s, %s);\n", item->iteration->pointer, item->counter);
    }
    items_text(w, &item->body[0], depth + 1);
    indent(w, depth + 1);
    buf_printf(&w->body, "more = read_flag(s, %s);\n", item->again->pointer);
    items_text(w, &item->after, depth + 1);
    indent(w, depth);
    buf_put(&w->body, "}\n");
}

static void branch_text(Writer *w, const Item *item, int depth)
{
    indent(w, depth);
    buf_printf(&w->body, "if (read_flag(s, %s)) { /* \"%s\" */\n", item->place->pointer, commented(w->l, item->source));
    items_text(w, &item->body[0], depth + 1);
    indent(w, depth);
    buf_put(&w->body, "} else {\n");
    items_text(w, &item->body[1], depth + 1);
    indent(w, depth);
    buf_put(&w->body, "}\n");
}

/* Where the model needs what was found to be of a given size. */
static void count_text(Writer *w, const Item *item, int depth)
{
    for (int i = 0; i < w->guards->list.n; i++) {
        const GuardRow *guard = &w->guards->list.at[i];
        if (!guard->counted || strcmp(guard->counted, item->source) != 0 || guard->late != item->late) continue;
        indent(w, depth);
        buf_printf(&w->body, "if (!holds(s, %s(s, %s) == %s, \"%s\")) return s->error; /* %s */\n", depth > 1 ? "read_one" : "read_count", item->place->pointer,
                   expr_c(w->l, item->late, ""), guard->name, commented(w->l, guard->formula));
    }
}

/* Guards over late dims of which this was the last to become known. */
static void late_text(Writer *w, const Item *item, int depth)
{
    const Layout *l = w->l;
    if (!expr_is_symbol(item->late) || !symbol_facts(l->symbols, item->late).late) {
        count_text(w, item, depth);
        return;
    }
    const int now = l->dim_of[symbol_index(item->late)];
    indent(w, depth);
    buf_printf(&w->body, "%s = %s(s, &late->%s, %s);\n", l->dims.at[now].c, depth > 1 ? "learn_within" : "learn", l->dims.at[now].c, item->place->pointer);
    w->known[now] = true;
    for (int i = 0; i < w->guards->list.n; i++) {
        const GuardRow *guard = &w->guards->list.at[i];
        Expr *symbols[64];
        int n = guard->late && !guard->counted ? expr_symbols(l->symbols, guard->late, symbols, 64) : 0;
        bool due = false, all = n <= 64;
        for (int k = 0; k < n && all; k++) {
            const int dim = l->dim_of[symbol_index(symbols[k])];
            due = due || dim == now;
            all = dim >= 0 && (w->known[dim] || !symbol_facts(l->symbols, symbols[k]).late);
        }
        if (!due || !all) continue;
        indent(w, depth);
        buf_printf(&w->body, "if (!holds(s, %s %s 0, \"%s\")) return s->error; /* %s */\n", expr_c(l, guard->late, ""),
                   guard->equal ? "==" : ">=", guard->name, commented(l, guard->source));
    }
}

void item_text(Writer *w, const Item *item, int depth)
{
    const Layout *l = w->l;
    switch (item->kind) {
    case ITEM_LAUNCH: launch_text(w, item, depth); return;
    case ITEM_COMMIT:
        indent(w, depth);
        buf_printf(&w->body, "if (int error = commit(s, %s)) return error;\n", item->place->pointer);
        w->committed = true;
        return;
    case ITEM_FINITE:
        indent(w, depth);
        buf_printf(&w->body, "if (int error = gradients_finite(s, %s)) return error;\n", item->place->pointer);
        w->checked = true;
        return;
    case ITEM_SAVE:
        indent(w, depth);
        buf_printf(&w->body, "save_gradient(s, WEIGHT_%s, %s, %s);\n", upper(l->arena, l->weights.at[item->weight].c),
                   item->place->pointer, expr_c(l, item->bytes, ""));
        return;
    case ITEM_LATE: late_text(w, item, depth); return;
    case ITEM_LOOP: loop_text(w, item, depth); return;
    case ITEM_WHILE: while_text(w, item, depth); return;
    case ITEM_BRANCH: branch_text(w, item, depth); return;
    }
}

static void items_text(Writer *w, const Items *items, int depth)
{
    for (int i = 0; i < items->n; i++) item_text(w, items->at[i], depth);
}
