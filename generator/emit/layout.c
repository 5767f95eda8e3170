/* What all programs of a model share: dims, inputs, weights, states, hypers, and their names in C. */
#include "emit/program.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>

/* ---- names ---- */
const char *c_name(Arena *arena, const char *name)
{
    Buf out = {.arena = arena};
    for (const char *p = name; *p; p++) {
        bool plain = isalnum((unsigned char)*p);
        if (plain)
            buf_printf(&out, "%c", tolower((unsigned char)*p));
        else if (out.length && out.text[out.length - 1] != '_')
            buf_put(&out, "_");
    }
    while (out.length && out.text[out.length - 1] == '_') out.text[--out.length] = 0;
    if (!out.length) return "value";
    return isdigit((unsigned char)*buf_text(&out)) ? arena_text(arena, "v_%s", buf_text(&out)) : buf_text(&out);
}

const char *upper(Arena *arena, const char *name)
{
    char *text = arena_copy(arena, name, strlen(name));
    for (char *p = text; *p; p++) *p = (char)toupper((unsigned char)*p);
    return text;
}

/* Words that a name in the step must not be: keywords of C and C++, what the runtime and the text of the step use. */
static const char *const reserved[] = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "class",
    "compl", "const", "constexpr", "continue", "decltype", "default", "delete", "do", "double", "else", "enum", "explicit",
    "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new",
    "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try", "typedef",
    "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "half",
    "bfloat16", "unix", "linux", "null", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bf16",
    /* the step's own */
    "s", "d", "w", "states", "late", "error", "dims", "elements", "rows", "launch", "buffer", "weight", "state", "hyper", "hypers", "copy_tensor", "commit",
    "save_gradient", "read_count", "learn", "read_flag", "write_int", "floor_div", "ceil_div", "floor_mod", "min_int", "max_int", "model", "step", "dot",
    "kernel", "main", "more", "row", "add_part", "unit", "offload", "evict", "fetch", "regenerate", "t", "t_2", "t_3", "t_4", "t_5", "t_6", "copies", "arrival"};

bool layout_reserves(const char *name)
{
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(reserved[i], name) == 0) return true;
    return false;
}


const char *layout_unique(Layout *layout, Map *also, const char *wanted)
{
    const char *name = wanted;
    for (int n = 2; map_has(layout->taken, name) || (also && map_has(also, name)); n++)
        name = arena_text(layout->arena, "%s_%d", wanted, n);
    map_set(also ? also : layout->taken, name, layout);
    return name;
}

int layout_find(const Map *map, const char *name)
{
    return (int)((intptr_t)map_get(map, name)) - 1;
}

static void remember(Map *map, const char *name, int place)
{
    map_set(map, name, (void *)(intptr_t)(place + 1));
}

/* ---- collecting ---- */
Layout *layout_new(Arena *arena, Symbols *symbols)
{
    Layout *l = NEW(arena, Layout);
    l->arena = arena;
    l->symbols = symbols;
    l->taken = map_new(arena);
    l->input_of = map_new(arena);
    l->hyper_of = map_new(arena);
    l->weight_of = map_new(arena);
    l->state_of = map_new(arena);
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) map_set(l->taken, reserved[i], l);
    return l;
}

static void add_symbols(Layout *l, Expr *e, uint8_t *used)
{
    Expr *found[64];
    int n = expr_symbols(l->symbols, e, found, 64);
    check(n <= 64);
    for (int i = 0; i < n; i++) {
        if (used[symbol_index(found[i])]) continue;
        used[symbol_index(found[i])] = 1;
        SymbolFacts facts = symbol_facts(l->symbols, found[i]);
        if (facts.late && facts.upper) add_symbols(l, facts.upper, used);
    }
}

const NamedBlock *layout_block(const Layout *l, const Expr *symbol)
{
    for (int i = 0; i < l->blocks.n; i++)
        if (l->blocks.at[i].symbol == symbol) return &l->blocks.at[i];
    return NULL;
}

static void add_block(Layout *l, const Op *op)
{
    Expr *const *block = op_exprs(op, ATTR_block, NULL);
    if (!layout_block(l, block[0]))
        vec_push(l->arena, &l->blocks, ((NamedBlock){block[0], op->in[0]->shape[0], block[1]}));
}

static void add_graph_symbols(Layout *l, const Graph *g, uint8_t *used)
{
    for (int i = 0; i < g->inputs.n; i++)
        for (int k = 0; k < g->inputs.at[i]->rank; k++) add_symbols(l, g->inputs.at[i]->shape[k], used);
    for (int o = 0; o < g->ops.n; o++) {
        const Op *op = g->ops.at[o];
        for (int i = 0; i < op->n_out; i++)
            for (int k = 0; k < op->out[i]->rank; k++) add_symbols(l, op->out[i]->shape[k], used);
        for (int a = 0; a < op->n_attrs; a++)
            for (int k = 0; attr_kind(op->attrs[a].key) == ATTR_EXPRS && k < op->attrs[a].n; k++)
                add_symbols(l, op->attrs[a].exprs[k], used);
        if (op->kind == OP_blocks) add_block(l, op);
        for (int b = 0; b < 2; b++)
            if (op->body[b]) add_graph_symbols(l, op->body[b], used);
    }
}

static void add_dims(Layout *l, const Graph *g)
{
    int n = symbols_count(l->symbols);
    uint8_t *used = NEW_ARRAY(l->arena, uint8_t, n + 1);
    add_graph_symbols(l, g, used);
    int *dim_of = NEW_ARRAY(l->arena, int, n + 1);
    for (int i = 0; i < l->dims.n; i++) used[symbol_index(l->dims.at[i].symbol)] = 1;
    l->dims.n = 0;
    for (int i = 0; i < n; i++) { /* in order of the symbols' making */
        dim_of[i] = -1;
        if (!used[i]) continue;
        dim_of[i] = l->dims.n;
        vec_push(l->arena, &l->dims, ((NamedDim){symbols_at(l->symbols, i), NULL}));
    }
    l->dim_of = dim_of;
}

void layout_add(Layout *l, const Graph *g)
{
    add_dims(l, g);
    for (int i = 0; i < g->inputs.n; i++) {
        Value *v = g->inputs.at[i];
        switch (v->origin) {
        case FROM_BATCH:
            if (map_has(l->input_of, v->name)) break;
            remember(l->input_of, v->name, l->inputs.n);
            vec_push(l->arena, &l->inputs, ((NamedInput){v, NULL}));
            break;
        case FROM_HYPER:
            if (map_has(l->hyper_of, v->name)) break;
            remember(l->hyper_of, v->name, l->hypers.n);
            vec_push(l->arena, &l->hypers, ((NamedInput){v, NULL}));
            break;
        case FROM_WEIGHT:
            if (map_has(l->weight_of, v->tensor->name)) break;
            remember(l->weight_of, v->tensor->name, l->weights.n);
            vec_push(l->arena, &l->weights, ((NamedTensor){v->tensor, NULL}));
            break;
        case FROM_STATE:
            if (map_has(l->state_of, v->tensor->name)) break;
            remember(l->state_of, v->tensor->name, l->states.n);
            vec_push(l->arena, &l->states, ((NamedTensor){v->tensor, NULL}));
            break;
        default: bug("input %s of a program is no input", v->name);
        }
    }
}

void layout_name(Layout *l, const char *const *kernels, int n)
{
    for (int i = 0; i < n; i++) map_set(l->taken, kernels[i], l);
    for (int i = 0; i < l->dims.n; i++)
        l->dims.at[i].c = layout_unique(l, NULL, c_name(l->arena, expr_symbol_name(l->dims.at[i].symbol)));
    for (int i = 0; i < l->inputs.n; i++) l->inputs.at[i].c = layout_unique(l, NULL, c_name(l->arena, l->inputs.at[i].value->name));
    for (int i = 0; i < l->weights.n; i++)
        l->weights.at[i].c = layout_unique(l, NULL, c_name(l->arena, l->weights.at[i].tensor->name));
    for (int i = 0; i < l->states.n; i++)
        l->states.at[i].c = layout_unique(l, NULL, c_name(l->arena, l->states.at[i].tensor->name));
    for (int i = 0; i < l->hypers.n; i++) l->hypers.at[i].c = layout_unique(l, NULL, c_name(l->arena, l->hypers.at[i].value->name));
}

const char *layout_state(const Layout *l, const Tensor *state)
{
    return arena_text(l->arena, "states->%s", l->weights.at[layout_find(l->weight_of, state->of->name)].c);
}

const char *layout_state_member(const Layout *l, const Tensor *state)
{
    return c_name(l->arena, strrchr(state->name, '.') + 1);
}

/* ---- expressions ---- */
typedef struct {
    const Layout *layout;
    const char *prefix;
} Naming;

static const char *dim_text(void *context, const Expr *symbol)
{
    const Naming *naming = context;
    const Layout *l = naming->layout;
    int dim = l->dim_of[symbol_index(symbol)];
    if (dim < 0) bug("dim %s is in no program", expr_symbol_name(symbol));
    return *naming->prefix ? arena_text(l->arena, "%s%s", naming->prefix, l->dims.at[dim].c) : l->dims.at[dim].c;
}

const char *expr_c(const Layout *layout, Expr *e, const char *prefix)
{
    Buf out = {.arena = layout->arena};
    Naming naming = {layout, prefix};
    expr_print_c(&out, e, dim_text, &naming);
    return buf_text(&out);
}

const char *shape_comment(const Layout *layout, const Value *v)
{
    Buf out = {.arena = layout->arena};
    buf_put(&out, "(");
    for (int i = 0; i < v->rank; i++) buf_printf(&out, "%s%s", i ? ", " : "", expr_text(layout->arena, v->shape[i]));
    buf_put(&out, ")");
    return buf_text(&out);
}
