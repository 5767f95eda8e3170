/* Text of model.h and controller.c: the tables that the runtime reads (runtime/controller/controller.h). */
#include "emit/controller.h"
#include "passes/optimizer.h"
#include "support/diag.h"
#include "support/path.h"
#include <string.h>
#include <strings.h>

typedef struct {
    const Project *project;
    const Layout *l;
    Program *const *programs;
    int n;
    const Guards *guards;
    Buf out;
} Tables;

const char *c_string(Arena *arena, const char *text)
{
    Buf out = {.arena = arena};
    buf_put(&out, "\"");
    for (const char *p = text ? text : ""; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_printf(&out, "\\%c", *p);
        else if ((unsigned char)*p < 32 || *p == '?')
            buf_printf(&out, "\\%03o", (unsigned char)*p); /* no trigraphs */
        else
            buf_write(&out, p, 1);
    }
    buf_put(&out, "\"");
    return buf_text(&out);
}

static const char *dtype_enum(Arena *arena, Dtype d)
{
    return upper(arena, dtype_name(d));
}

/* Of a buffer's elements, by their type in C; RAW: scratch, whatever its kernel puts there. */
static const char *element_enum(Arena *arena, const char *type)
{
    for (int d = 0; d < DTYPES_COUNT; d++)
        if (strcmp(dtype_c((Dtype)d), type) == 0) return dtype_enum(arena, (Dtype)d);
    return "RAW";
}

/* What stands between /x and x/ on one line. */
static const char *remark(Arena *arena, const char *text)
{
    Buf out = {.arena = arena};
    for (const char *p = text; *p; p++)
        buf_write(&out, (*p == '*' && p[1] == '/') || *p == '\n' || (*p == '*' && p > text && p[-1] == '/') ? " " : p, 1);
    return buf_text(&out);
}

/* ---- model.h ---- */
static void enumerators(Buf *out, const Layout *l, const char *family, const char *total, int n,
                        const char *(*name)(const Layout *l, int i), const char *(*comment)(const Layout *l, int i))
{
    int width = 0;
    for (int i = 0; i < n; i++) {
        int length = (int)strlen(name(l, i));
        if (length > width) width = length;
    }
    buf_put(out, "enum {\n");
    for (int i = 0; i < n; i++)
        if (comment)
            buf_printf(out, "    %s_%s,%*s /* %s */\n", family, upper(l->arena, name(l, i)), width - (int)strlen(name(l, i)), "",
                       remark(l->arena, comment(l, i)));
        else
            buf_printf(out, "    %s_%s,\n", family, upper(l->arena, name(l, i)));
    buf_printf(out, "    %s\n};\n\n", total);
}

static const char *tensor_shape(Arena *arena, const Tensor *t)
{
    Buf out = {.arena = arena};
    for (int i = 0; i < t->rank; i++) buf_printf(&out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    return buf_text(&out);
}

static const char *input_name(const Layout *l, int i)
{
    return l->inputs.at[i].c;
}
static const char *input_comment(const Layout *l, int i)
{
    const Value *v = l->inputs.at[i].value;
    return arena_text(l->arena, "%s %s \"%s\"", shape_comment(l, v), dtype_name(v->dtype), v->name);
}
static const char *weight_name(const Layout *l, int i)
{
    return l->weights.at[i].c;
}
static const char *weight_comment(const Layout *l, int i)
{
    const Tensor *t = l->weights.at[i].tensor;
    return arena_text(l->arena, "(%s) \"%s\"%s", tensor_shape(l->arena, t), t->name,
                      t->trainable    ? ""
                      : t->statistics ? ", statistics"
                                      : ", does not train");
}
static const char *state_name(const Layout *l, int i)
{
    return l->states.at[i].c;
}
static const char *hyper_name(const Layout *l, int i)
{
    return l->hypers.at[i].c;
}

static void dims_struct(Buf *out, const Layout *l)
{
    buf_put(out, "typedef struct { /* in the order of Model.dims */\n");
    for (int i = 0; i < l->dims.n; i++) {
        const char *name = expr_symbol_name(l->dims.at[i].symbol);
        bool same = strcmp(name, l->dims.at[i].c) == 0;
        buf_printf(out, "    int64_t %s;", l->dims.at[i].c);
        if (!same) buf_printf(out, " /* %s */", remark(l->arena, name));
        buf_put(out, "\n");
    }
    if (!l->dims.n) buf_put(out, "    int64_t none; /* every shape is fixed */\n");
    buf_put(out, "} Dims;\n\n");
}

static void buffer_enum(Buf *out, const Layout *l, const Program *p)
{
    const char *family = upper(l->arena, p->name);
    buf_printf(out, "/* Buffers of %s, in the order in which they come to life; sizes and lives in controller.c. */\nenum {\n",
               p->name);
    for (int i = 0; i < p->buffers.n; i++) buf_printf(out, "    %s_%s,\n", family, upper(l->arena, p->buffers.at[i].c));
    buf_printf(out, "    %s_BUFFERS\n};\n\n", family);
}

/* "models/letters.onnx" -> "letters" */
static const char *stem(Arena *arena, const char *path)
{
    const char *name = file_name(path), *dot = strrchr(name, '.');
    return dot && dot > name ? arena_copy(arena, name, (size_t)(dot - name)) : name;
}

/* Where the tensors of a list lie, each with its type, name and shape. */
static void tensor_struct(Buf *out, const Layout *l, const char *name, const char *list, const char *of, const NamedTensor *tensors,
                          int n, const char *(*comment)(const Layout *l, int i))
{
    int width = 0;
    for (int i = 0; i < n; i++) {
        const int length = (int)(strlen(dtype_c(tensors[i].tensor->dtype)) + strlen(tensors[i].c));
        if (length > width) width = length;
    }
    buf_printf(out, "typedef struct { /* in the order of Model.%s */\n", list);
    for (int i = 0; i < n; i++) {
        const char *type = dtype_c(tensors[i].tensor->dtype);
        buf_printf(out, "    %s *%s;%*s /* %s */\n", type, tensors[i].c, width - (int)(strlen(type) + strlen(tensors[i].c)), "",
                   remark(l->arena, comment(l, i)));
    }
    buf_printf(out, "} %s;\nstatic inline const %s *%s(const Step *s)\n{\n    return (const %s *)s->%s;\n}\n\n", name, name, of,
               name, list);
}

/* What the optimizer keeps of each weight, the same of all. */
static void states_struct(Buf *out, const Layout *l)
{
    const Tensor *first = l->states.at[0].tensor;
    int members = 0, width = 0;
    buf_put(out, "/* What the optimizer keeps of a weight. */\ntemplate <class T> struct WeightState {\n    T ");
    for (; members < l->states.n && l->states.at[members].tensor->of == first->of; members++)
        buf_printf(out, "%s*%s", members ? ", " : "", layout_state_member(l, l->states.at[members].tensor));
    buf_put(out, ";\n};\ntypedef struct { /* in the order of Model.states */\n");
    for (int i = 0; i < l->states.n; i += members) {
        const int length = (int)strlen(layout_state(l, l->states.at[i].tensor));
        if (length > width) width = length;
    }
    for (int i = 0; i < l->states.n; i++) {
        const Tensor *t = l->states.at[i].tensor;
        check(t->of == l->states.at[i - i % members].tensor->of &&
              !strcmp(layout_state_member(l, t), layout_state_member(l, l->states.at[i % members].tensor)));
        if (i % members) continue;
        const char *name = strchr(layout_state(l, t), '>') + 1;
        buf_printf(out, "    WeightState<%s> %s;%*s /* \"%s\" */\n", dtype_c(t->dtype), name,
                   width - (int)strlen(layout_state(l, t)), "", remark(l->arena, t->of->name));
    }
    buf_put(out, "} States;\nstatic inline const States *states_of(const Step *s)\n{\n    return (const States *)s->states;\n}\n\n");
}

/* The optimizer's settings at a step. */
static void hypers_struct(Buf *out, const Layout *l)
{
    buf_put(out, "typedef struct { /* of the optimizer, at a step */\n");
    for (int i = 0; i < l->hypers.n; i++)
        buf_printf(out, "    %s %s;\n", dtype_c(l->hypers.at[i].value->dtype), c_name(l->arena, l->hypers.at[i].value->name));
    buf_put(out, "} Hypers;\nstatic inline Hypers hypers_of(const Step *s)\n{\n    Hypers hypers;\n");
    for (int i = 0; i < l->hypers.n; i++)
        buf_printf(out, "    hypers.%s = (%s)s->hypers[HYPER_%s];\n", c_name(l->arena, l->hypers.at[i].value->name), dtype_c(l->hypers.at[i].value->dtype),
                   upper(l->arena, l->hypers.at[i].c));
    buf_put(out, "    return hypers;\n}\n\n");
}

bool project_falls_back(const Project *p)
{
    return p->train && !p->options->no_fuse && !p->tables_alone;
}

const char *model_h(const Project *project, const Layout *l, Program *const *programs, int n)
{
    Buf out = {.arena = l->arena};
    buf_printf(&out, "/* %s: what model.cu and controller.c share. */\n#ifndef MODEL_H\n#define MODEL_H\n",
               remark(l->arena, file_name(project->options->model)));
    buf_put(&out,
            "#include <stdint.h>\n#include \"runtime/controller/controller.h\"\n#include \"runtime/controller/integers.h\"\n\n");
    dims_struct(&out, l);
    enumerators(&out, l, "INPUT", "INPUTS", l->inputs.n, input_name, input_comment);
    enumerators(&out, l, "WEIGHT", "WEIGHTS", l->weights.n, weight_name, NULL);
    if (l->states.n) enumerators(&out, l, "STATE", "STATES", l->states.n, state_name, NULL);
    if (l->hypers.n) enumerators(&out, l, "HYPER", "HYPERS", l->hypers.n, hyper_name, NULL);
    for (int i = 0; i < n; i++) buffer_enum(&out, l, programs[i]);
    buf_put(&out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (int i = 0; i < n; i++) {
        buf_printf(&out, "int %s_step(Step *s);\n", programs[i]->name);
        if (programs[i]->points.n) buf_printf(&out, "void %s_replay(Step *s, int unit);\n", programs[i]->name);
        if (project_falls_back(project) && program_plans(programs[i]))
            buf_printf(&out, "int64_t %s_apart(Step *s, int unit, char *memory);\n", programs[i]->name);
    }
    buf_put(&out, "#ifdef __cplusplus\n}\n#include \"runtime/device/device.h\"\n\n");
    if (l->weights.n) tensor_struct(&out, l, "Weights", "weights", "weights_of", l->weights.at, l->weights.n, weight_comment);
    if (l->states.n) states_struct(&out, l);
    if (l->hypers.n) hypers_struct(&out, l);
    buf_put(&out, "/* The dims of a step: what its batch has, or constants in a variant that is made for some dims alone. */\n"
                  "#ifdef VARIANT_DIMS\n"
                  "static constexpr Dims variant_dims = {VARIANT_DIMS};\n"
                  "#define dims_of(s) variant_dims\n"
                  "#else\n"
                  "static inline const Dims &dims_of(const Step *s)\n{\n    return *(const Dims *)s->dims;\n}\n"
                  "#endif\n#endif\n#endif\n");
    return buf_text(&out);
}

/* ---- controller.c: dims, inputs, weights ---- */
static int batch_dim(const Layout *l)
{
    int first = -1;
    for (int i = 0; i < l->inputs.n; i++) {
        const Value *v = l->inputs.at[i].value;
        for (int k = 0; k < v->rank; k++) {
            if (!expr_is_symbol(v->shape[k])) continue;
            int d = l->dim_of[symbol_index(v->shape[k])];
            const char *name = expr_symbol_name(v->shape[k]);
            if (strncasecmp(name, "batch", 5) == 0 || strcmp(name, "N") == 0 || strcmp(name, "B") == 0) return d;
            if (k == 0 && first < 0) first = d;
        }
    }
    return first;
}

static void dims_table(Tables *t)
{
    const Layout *l = t->l;
    buf_put(&t->out, "static const DimInfo dims[] = {\n");
    for (int i = 0; i < l->dims.n; i++) {
        Expr *symbol = l->dims.at[i].symbol;
        SymbolFacts f = symbol_facts(l->symbols, symbol);
        buf_printf(&t->out, "    {%s, %lld, %lld, %lld, %s, %s},\n", c_string(l->arena, expr_symbol_name(symbol)),
                   (long long)(f.declared ? f.expected_low : f.low), (long long)(f.declared ? f.expected_high : f.high),
                   (long long)expr_likely(l->symbols, symbol), f.declared ? "true" : "false", f.late ? "true" : "false");
    }
    buf_put(&t->out, "    {0},\n};\n\n");
}

static const char *shape_function(Tables *t, const char *what, const char *c, const Value *v)
{
    Arena *arena = t->l->arena;
    const char *name = arena_text(arena, "%s_shape_%s", what, c);
    buf_printf(
        &t->out,
        "static void %s(const int64_t *dims, int64_t *out)\n{\n    const Dims *d = (const Dims *)dims;\n    (void)d, (void)out;\n",
        name);
    for (int k = 0; k < v->rank; k++) buf_printf(&t->out, "    out[%d] = %s;\n", k, expr_c(t->l, v->shape[k], "d->"));
    buf_put(&t->out, "}\n");
    return name;
}

static const char *shape_text(Arena *arena, const Value *v)
{
    Buf out = {.arena = arena};
    for (int k = 0; k < v->rank; k++) buf_printf(&out, "%s%s", k ? ", " : "", expr_text(arena, v->shape[k]));
    return buf_text(&out);
}

static int sample_axis(const Layout *l, const Value *v)
{
    int batch = batch_dim(l);
    for (int k = 0; batch >= 0 && k < v->rank; k++)
        if (v->shape[k] == l->dims.at[batch].symbol) return k;
    return -1;
}

static bool is_target(const Tables *t, const Value *v)
{
    return t->project->loss.target && strcmp(t->project->loss.target->name, v->name) == 0;
}

static void inputs_table(Tables *t)
{
    const Layout *l = t->l;
    for (int i = 0; i < l->inputs.n; i++) shape_function(t, "input", l->inputs.at[i].c, l->inputs.at[i].value);
    buf_put(&t->out, "static const InputInfo inputs[] = {\n");
    for (int i = 0; i < l->inputs.n; i++) {
        const Value *v = l->inputs.at[i].value;
        const IndexRange *labels = range_that_ignores(v);
        buf_printf(&t->out, "    [INPUT_%s] = {%s, %s, %d, input_shape_%s, %s, %d, %s, %s, %lld},\n",
                   upper(l->arena, l->inputs.at[i].c), c_string(l->arena, v->name), dtype_enum(l->arena, v->dtype), v->rank,
                   l->inputs.at[i].c, c_string(l->arena, shape_text(l->arena, v)), sample_axis(l, v), is_target(t, v) ? "true" : "false",
                   labels ? "true" : "false", labels ? (long long)labels->ignore : 0LL);
    }
    buf_put(&t->out, "    [INPUTS] = {0},\n};\n\n");
}

static void weights_table(Tables *t)
{
    const Layout *l = t->l;
    buf_put(
        &t->out,
        "/* name, dtype, rank, dims, trains, statistics, rule where there is no data */\nstatic const WeightInfo weights[] = {\n");
    for (int i = 0; i < l->weights.n; i++) {
        const Tensor *w = l->weights.at[i].tensor;
        buf_printf(&t->out, "    [WEIGHT_%s] = {%s, %s, %d, {%s}, %s, %s, %s},\n", upper(l->arena, l->weights.at[i].c),
                   c_string(l->arena, w->name), dtype_enum(l->arena, w->dtype), w->rank, w->rank ? tensor_shape(l->arena, w) : "0",
                   w->trainable ? "true" : "false", w->statistics ? "true" : "false",
                   w->data || !w->init ? "0" : c_string(l->arena, w->init));
    }
    buf_put(&t->out, "    [WEIGHTS] = {0},\n};\n\nstatic const StateInfo states[] = {\n");
    for (int i = 0; i < l->states.n; i++) {
        const Tensor *s = l->states.at[i].tensor;
        int of = layout_find(l->weight_of, s->of->name);
        if (of < 0) bug("state %s is of a weight nobody reads", s->name);
        buf_printf(&t->out, "    [STATE_%s] = {%s, WEIGHT_%s},\n", upper(l->arena, l->states.at[i].c), c_string(l->arena, s->name),
                   upper(l->arena, l->weights.at[of].c));
    }
    buf_put(&t->out, "    {0},\n};\n\nstatic const HyperInfo hypers[] = {\n");
    for (int i = 0; i < l->hypers.n; i++) {
        const char *name = l->hypers.at[i].value->name, *optimizer = t->project->options->optimizer;
        buf_printf(&t->out, "    [HYPER_%s] = {%s, %.17g},\n", upper(l->arena, l->hypers.at[i].c), c_string(l->arena, name),
                   optimizer ? optimizer_default(optimizer, name) : 0.0);
    }
    buf_put(&t->out, "    {0},\n};\n\n");
}

static void bind_function(Tables *t, const Bindings *bindings)
{
    const Layout *l = t->l;
    buf_put(&t->out, "/* Reads the dims off a batch's shapes. */\nstatic void bind(const Arrival *a, int64_t *dims)\n{\n    Dims "
                     "*d = (Dims *)dims;\n    (void)a, (void)d;\n");
    for (int i = 0; i < bindings->list.n; i++)
        buf_printf(&t->out, "    d->%s = %s;\n", l->dims.at[bindings->list.at[i].dim].c, bindings->list.at[i].c);
    buf_put(&t->out, "}\n\n");
}

/* ---- guards ---- */
static void guards_table(Tables *t, const Guards *guards)
{
    Arena *arena = t->l->arena;
    buf_put(&t->out, "/* What the steps assume of a batch: name, moment, condition, the same in words of the model, where it comes "
                     "from, what relies on it,\n"
                     " * what happens when it breaks. */\n#define GUARDS(G)");
    for (int i = 0; i < guards->list.n; i++) {
        const GuardRow *g = &guards->list.at[i];
        buf_printf(&t->out, " \\\n    G(%s, %s, %s, %s, %s, %s, %s)", g->name, g->moment, g->c, c_string(arena, g->formula),
                   c_string(arena, g->source), c_string(arena, g->relies), g->otherwise);
    }
    buf_put(&t->out, "\n\n"
                     "#define G(name, moment, condition, formula, source, relies, otherwise) \\\n"
                     "    static bool name##_holds(const int64_t *dims, const Arrival *a) \\\n"
                     "    { \\\n"
                     "        const Dims *d = (const Dims *)dims; \\\n"
                     "        return (void)a, (void)d, (condition); \\\n"
                     "    }\n"
                     "GUARDS(G)\n"
                     "#undef G\n"
                     "#define G(name, moment, condition, formula, source, relies, otherwise) \\\n"
                     "    {#name, formula, source, relies, moment, otherwise, name##_holds},\n"
                     "static const Guard guards[] = {GUARDS(G){0}};\n"
                     "#undef G\n\n");
}

/* ---- programs ---- */
static void lives_table(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    const char *family = upper(l->arena, p->name);
    buf_printf(
        &t->out,
        "/* Buffers of %s: elements, bytes, first and last launch that touches them, where they come from. */\n#define %s_LIVES(B)",
        p->name, family);
    for (int i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.at[i];
        buf_printf(&t->out, " \\\n    B(%s, %s, %s, %d, %d, %s)", upper(l->arena, b->c), element_enum(l->arena, b->type),
                   expr_c(l, b->bytes, "d->"), b->first, b->last, c_string(l->arena, b->source));
    }
    buf_printf(&t->out,
               "\n\n#define B(buffer, dtype, bytes, first, last, source) [%s_##buffer] = {first, last, #buffer, source, dtype},\n"
               "static const Life %s_lives[] = {%s_LIVES(B)[%s_BUFFERS] = {0}};\n#undef B\n"
               "static void %s_bytes(const int64_t *dims, int64_t *out)\n{\n    const Dims *d = (const Dims *)dims;\n    (void)d, "
               "(void)out;\n"
               "#define B(buffer, dtype, bytes, first, last, source) out[%s_##buffer] = bytes;\n    %s_LIVES(B)\n#undef B\n}\n",
               family, p->name, family, family, p->name, family, family);
}

/* ---- units and points ---- */
static const char *touch_c(const Tables *t, const Program *p, Touch touch)
{
    const Layout *l = t->l;
    switch (touch.kind) {
    case TOUCHES_BUFFER:
        return arena_text(l->arena, "%s_%s", upper(l->arena, p->name), upper(l->arena, p->buffers.at[touch.index].c));
    case TOUCHES_WEIGHT: return arena_text(l->arena, "~WEIGHT_%s", upper(l->arena, l->weights.at[touch.index].c));
    case TOUCHES_STATE: return arena_text(l->arena, "~(WEIGHTS + STATE_%s)", upper(l->arena, l->states.at[touch.index].c));
    }
    bug("touch of kind %d", (int)touch.kind);
}

static void touches_row(Tables *t, const Program *p, const Touches *touches)
{
    buf_put(&t->out, "(");
    for (int i = 0; i < touches->n; i++) buf_printf(&t->out, "%s%s,", i ? " " : "", touch_c(t, p, touches->at[i]));
    buf_put(&t->out, ")");
}

static void units_table(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    const char *n = p->name, *family = upper(l->arena, n);
    buf_printf(&t->out,
               "/* Units of %s, in order: first and last launch, whether a plan may run it again, what it reads, what it writes,\n"
               " * operations, bytes moved, node.  Behind them recipes: units that make some results again from the others of the "
               "unit named\n"
               " * last. */\n#define %s_UNITS(U)",
               n, family);
    for (int u = 0; u < program_all_units(p); u++) {
        const Unit *unit = program_unit(p, u);
        buf_printf(&t->out, " \\\n    U(%d, %d, %s, ", unit->first, unit->last, unit->again ? "true" : "false");
        touches_row(t, p, &unit->reads);
        buf_put(&t->out, ", ");
        touches_row(t, p, &unit->writes);
        buf_printf(&t->out, ", %s, %s, %s, %d)", expr_c(l, unit->flops, "d->"), expr_c(l, unit->moved, "d->"),
                   c_string(l->arena, unit->source), u < p->units.n ? u : unit->of);
    }
    buf_printf(
        &t->out,
        "\n\n#define LIST(...) __VA_ARGS__\n"
        "#define U(first, last, again, reads, writes, operations, traffic, source, of) {first, last, again, source, of},\n"
        "static const Unit %s_units[] = {%s_UNITS(U){0}};\n#undef U\n"
        "#define U(first, last, again, reads, writes, operations, traffic, source, of) LIST reads TOUCHES_END, LIST writes "
        "TOUCHES_END,\n"
        "static const int %s_touches[] = {%s_UNITS(U) TOUCHES_END};\n#undef U\n#undef LIST\n"
        "static void %s_costs(const int64_t *dims, int64_t *flops, int64_t *moved)\n{\n    const Dims *d = (const Dims *)dims;\n"
        "    (void)d;\n"
        "#define U(first, last, again, reads, writes, operations, traffic, source, of) *flops++ = operations, *moved++ = traffic;\n"
        "    %s_UNITS(U)\n#undef U\n}\n\n",
        n, family, n, family, n, family);
}

static void points_table(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    const char *n = p->name, *family = upper(l->arena, n);
    buf_printf(
        &t->out,
        "/* Points of %s: number, buffer, the launches between which its memory may serve others, bytes, operations and bytes\n"
        " * moved of making it again, how and from what, whether it may be copied to the host instead. */\n#define %s_POINTS(P)",
        n, family);
    for (int k = 0; k < p->points.n; k++) {
        const Point *point = &p->points.at[k];
        const Unit *maker = &p->units.at[point->maker];
        buf_printf(&t->out, " \\\n    P(%d, %s, %d, %d, %s, %s, %s, %s, %d)", k, upper(l->arena, p->buffers.at[point->buffer].c),
                   p->units.at[point->gone].last, p->units.at[point->back].first,
                   expr_c(l, p->buffers.at[point->buffer].bytes, "d->"), expr_c(l, maker->flops, "d->"),
                   expr_c(l, maker->moved, "d->"), c_string(l->arena, point->recipe), point->offload);
    }
    buf_printf(
        &t->out,
        "\n\n#define P(number, buffer, gone, back, bytes, operations, traffic, recipe, offload) [number] = {%s_##buffer, gone, "
        "back, recipe, offload},\n"
        "static const Point %s_points[] = {%s_POINTS(P)};\n#undef P\n"
        "static void %s_point_costs(const int64_t *dims, PointCost *out)\n{\n    const Dims *d = (const Dims *)dims;\n    "
        "(void)d;\n"
        "#define P(number, buffer, gone, back, bytes, operations, traffic, recipe, offload) out[number] = (PointCost){bytes, "
        "operations, traffic};\n"
        "    %s_POINTS(P)\n#undef P\n}\n\n",
        family, n, family, n, family);
}

static void library_table(Tables *t, const Program *p)
{
    buf_printf(&t->out,
               "/* Plans found for some dims, for the controller to start from at others: for each gap between two uses that may "
               "be given\n"
               " * up, 0: kept, 1: dropped, 2: evicted until it is made again, 3: lent to a chain. */\n"
               "static const char *const %s_library[] = {\n",
               p->name);
    for (int i = 0; i < p->library.n; i++) buf_printf(&t->out, "    \"%s\",\n", p->library.at[i]);
    buf_put(&t->out, "    0,\n};\n\n");
}

static void traffic_function(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    buf_printf(&t->out,
               "static void %s_traffic(const int64_t *dims, int64_t *moved, int64_t *least, int64_t *flops)\n{\n    const Dims *d "
               "= (const Dims *)dims;\n"
               "    (void)d;\n    *moved = %s;\n    *least = %s;\n    *flops = %s;\n}\n",
               p->name, expr_c(l, p->moved, "d->"), expr_c(l, p->least, "d->"), expr_c(l, p->flops, "d->"));
}

static void size_function(Tables *t, const char *name, Expr *e)
{
    buf_printf(
        &t->out,
        "static int64_t %s(const int64_t *dims)\n{\n    const Dims *d = (const Dims *)dims;\n    (void)d;\n    return %s;\n}\n",
        name, expr_c(t->l, e, "d->"));
}

/* The dims that say how many rows the program's loops take at a time. */
static int blocks_table(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    Buf rows = {.arena = l->arena};
    int n = 0;
    for (int i = 0; i < l->blocks.n; i++) {
        const NamedBlock *block = &l->blocks.at[i];
        bool used = false;
        for (int o = 0; o < p->graph->ops.n; o++)
            used |= p->graph->ops.at[o]->kind == OP_blocks && op_exprs(p->graph->ops.at[o], ATTR_block, NULL)[0] == block->symbol;
        if (!used) continue;
        size_function(t, arena_text(l->arena, "%s_rows_%d", p->name, n), block->rows);
        size_function(t, arena_text(l->arena, "%s_row_bytes_%d", p->name, n), block->row_bytes);
        buf_printf(&rows, "    {%d, %s_rows_%d, %s_row_bytes_%d}, /* %s: rows of %s at a time */\n",
                   l->dim_of[symbol_index(block->symbol)], p->name, n, p->name, n, expr_symbol_name(block->symbol),
                   remark(l->arena, expr_text(l->arena, block->rows)));
        n++;
    }
    if (n) buf_printf(&t->out, "static const RowLoop %s_blocks[] = {\n%s};\n", p->name, buf_text(&rows));
    return n;
}

static void outputs_table(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    const char **c = NEW_ARRAY(l->arena, const char *, p->outputs.n + 1);
    for (int i = 0; i < p->outputs.n; i++) {
        const ProgramOutput *o = &p->outputs.at[i];
        c[i] = shape_function(t, p->name, arena_text(l->arena, "%d", i), o->value);
    }
    buf_printf(&t->out, "static const OutputInfo %s_outputs[] = {\n", p->name);
    for (int i = 0; i < p->outputs.n; i++) {
        const ProgramOutput *o = &p->outputs.at[i];
        buf_printf(&t->out, "    {%s, %s, %d, %s, %s},\n", c_string(l->arena, o->name), dtype_enum(l->arena, o->value->dtype),
                   o->value->rank, c[i], c_string(l->arena, shape_text(l->arena, o->value)));
    }
    buf_printf(&t->out, "    {0},\n};\nstatic const int %s_output_buffer[] = {", p->name);
    for (int i = 0; i < p->outputs.n; i++)
        buf_printf(&t->out, "%s_%s, ", upper(l->arena, p->name), upper(l->arena, p->buffers.at[p->outputs.at[i].buffer].c));
    buf_put(&t->out, "-1};\n");
}

/* Dims that launches before the commit point tell; in loops and branches they stay at their bounds. */
static int late_table(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    Buf rows = {.arena = l->arena};
    int n = 0, launch = -1;
    for (int i = 0; i < p->items.n && p->items.at[i]->kind != ITEM_COMMIT; i++) {
        const Item *item = p->items.at[i];
        if (item->kind == ITEM_LAUNCH) launch = item->position;
        if (item->kind != ITEM_LATE || !expr_is_symbol(item->late) || !symbol_facts(l->symbols, item->late).late) continue;
        const int dim = l->dim_of[symbol_index(item->late)];
        buf_printf(&rows, "    {%d, %d}, /* %s */\n", dim, launch, l->dims.at[dim].c);
        n++;
    }
    if (n)
        buf_printf(&t->out, "\n/* Dims that the step learns from a launch: dim, launch. */\nstatic const LateDim %s_late[] = {\n%s};\n", p->name, buf_text(&rows));
    return n;
}

static void program_table(Tables *t, const Program *p)
{
    const Layout *l = t->l;
    const char *n = p->name;
    bool points = p->points.n > 0;
    lives_table(t, p);
    bool units = program_plans(p);
    if (units) units_table(t, p);
    if (points) points_table(t, p), library_table(t, p);
    traffic_function(t, p);
    outputs_table(t, p);
    const int blocks = blocks_table(t, p), late = late_table(t, p);
    buf_printf(&t->out, "static const int %s_input_buffer[] = {", n);
    for (int i = 0; i < l->inputs.n; i++) {
        if (p->input_buffer[i] < 0)
            buf_printf(&t->out, "[INPUT_%s] = -1, ", upper(l->arena, l->inputs.at[i].c));
        else
            buf_printf(&t->out, "[INPUT_%s] = %s_%s, ", upper(l->arena, l->inputs.at[i].c), upper(l->arena, n),
                       upper(l->arena, p->buffers.at[p->input_buffer[i]].c));
    }
    buf_put(&t->out, "[INPUTS] = -1};\n");
    buf_printf(
        &t->out,
        "static const Program %s = {\n    .name = \"%s\",\n    .n_buffers = %s_BUFFERS,\n    .lives = %s_lives,\n    .bytes = "
        "%s_bytes,\n"
        "    .n_inputs = INPUTS,\n    .input_buffer = %s_input_buffer,\n    .n_outputs = %d,\n    .outputs = %s_outputs,\n"
        "    .output_buffer = %s_output_buffer,\n    .n_launches = %d,\n    .traffic = %s_traffic,\n",
        n, n, upper(l->arena, n), n, n, n, p->outputs.n, n, n, p->positions, n);
    /* The order is that of the declaration, as C++ wants it. */
    for (int i = 0; i < t->guards->list.n; i++)
        if (t->guards->list.at[i].narrow == p) buf_printf(&t->out, "    .narrow = %s_holds,\n", t->guards->list.at[i].name);
    buf_printf(&t->out, "    .run = %s_step,\n", n);
    if (units)
        buf_printf(&t->out,
                   "    .n_units = %d,\n    .units = %s_units,\n    .n_recipes = %d,\n    .touches = %s_touches,\n    .costs = "
                   "%s_costs,\n",
                   p->units.n, n, p->recipes.n, n, n);
    if (points)
        buf_printf(&t->out,
                   "    .n_points = sizeof %s_points / sizeof *%s_points,\n    .points = %s_points,\n    .point_costs = "
                   "%s_point_costs,\n    .replay = %s_replay,\n",
                   n, n, n, n, n);
    if (blocks) buf_printf(&t->out, "    .n_blocks = %d,\n    .blocks = %s_blocks,\n", blocks, n);
    if (!strcmp(n, "train") && t->project->lean) buf_put(&t->out, "    .lean = &train_lean,\n");
    if (late) buf_printf(&t->out, "    .n_late = %d,\n    .late = %s_late,\n", late, n);
    if (!strcmp(n, "train_lean")) buf_printf(&t->out, "    .n_again = %d,\n", t->project->lean_again);
    if (points) buf_printf(&t->out, "    .library = %s_library,\n    .n_library = %d,\n", n, p->library.n);
    buf_put(&t->out, "};\n\n");
}

static void model_table(Tables *t)
{
    const Project *p = t->project;
    Arena *arena = t->l->arena;
    const char *names[] = {"train", "evaluate", "infer"};
    buf_printf(&t->out,
               "const Model model = {\n    .name = %s,\n    .source = %s,\n    .loss = %s,\n    .optimizer = %s,\n    .precision = "
               "%s,\n    .classifies = %s,\n",
               c_string(arena, stem(arena, p->options->model)), c_string(arena, file_name(p->options->model)),
               c_string(arena, p->train ? p->loss.text : ""), c_string(arena, p->train ? p->options->optimizer : ""),
               c_string(arena, p->options->precision ? p->options->precision : "fp32"),
               p->train && p->loss.classifies ? "true" : "false");
    buf_printf(&t->out,
               "    .n_dims = %d,\n    .dims = dims,\n    .batch_dim = %d,\n    .n_inputs = INPUTS,\n    .inputs = inputs,\n    "
               ".n_weights = WEIGHTS,\n    .weights = weights,\n"
               "    .n_states = %d,\n    .states = states,\n    .n_hypers = %d,\n    .hypers = hypers,\n    .bind = bind,\n"
               "    .n_guards = sizeof guards / sizeof *guards - 1,\n    .guards = guards,\n",
               t->l->dims.n, batch_dim(t->l), t->l->states.n, t->l->hypers.n);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < t->n; i++)
            if (strcmp(t->programs[i]->name, names[k]) == 0) buf_printf(&t->out, "    .%s = &%s,\n", names[k], names[k]);
    if (project_falls_back(p)) buf_put(&t->out, "    .unfused = true,\n");
    buf_printf(&t->out, "    .settings = %s,\n};\n", c_string(arena, p->settings ? p->settings : ""));
}

const char *controller_c(const Project *project, const Layout *l, Program *const *programs, int n)
{
    Tables t = {.project = project, .l = l, .programs = programs, .n = n, .out = {.arena = l->arena}};
    Bindings bindings = bindings_make(l);
    Guards guards = guards_make(project, l, &bindings, programs, n);
    t.guards = &guards;
    buf_printf(&t.out,
               "/* %s -> controller.c: what the steps assume, what their buffers need.\n * Tables alone; the runtime's planner and "
               "guards read them. */\n",
               remark(l->arena, file_name(project->options->model)));
    buf_put(&t.out, "#include \"model.h\"\n#include \"runtime/controller/controller.h\"\n\n");
    dims_table(&t);
    inputs_table(&t);
    weights_table(&t);
    bind_function(&t, &bindings);
    guards_table(&t, &guards);
    for (int i = 0; i < n; i++)
        if (programs[i]->graph == project->lean) program_table(&t, programs[i]); /* train names it */
    for (int i = 0; i < n; i++)
        if (programs[i]->graph != project->lean) program_table(&t, programs[i]);
    model_table(&t);
    return buf_text(&t.out);
}
