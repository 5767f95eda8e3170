/* Units taken apart, for unfused.cu.
 *
 *     static int64_t row_apart(Step *s, char *memory, float *y, const float *a, const float *b)
 *     {
 *         Room room = {memory};
 *         float *const sub = room.take<float>(4 * batch * 64);                what operations hand each other
 *         if (!memory) return room.taken;                                     asked how much that is
 *         LAUNCH(s, sub_each, elements(batch * 64), 256)(sub, a, b, batch);   one operation after another
 *         ...
 *
 * A group's operations become a graph of their own, which is fused no further, and that graph a small program.  Its values are named for
 * their operations alone, so groups that are alike give the same text, which is written once, with names of the first one's parameters. */
#include "emit/apart.h"
#include "emit/names.h"
#include "emit/program_private.h"
#include "emit/repeats.h"
#include "emit/step_private.h"
#include "ir/view.h"
#include "support/diag.h"
#include <ctype.h>
#include <string.h>

/* Where elements keep what they have: bools of the group's graph, and the weight or state that is assigned there. */
typedef struct {
    Value *where, *target;
    const char *name; /* of the flag, as a parameter */
} Kept;
enum { GROUP_OPS_SEEN = 64 };
typedef struct {
    Graph *graph;
    VEC(Kept) kept;
    Groups *groups;
    Launches *launches;
    Values in;        /* of the group's graph, beside graph->inputs */
    const char *name; /* of the group's first kernel */
} Twin;
typedef VEC(int) Numbers;
typedef struct { /* of the first of some groups that are alike */
    const Twin *twin;
    Numbers in, targets, of; /* of Twin.in, of what is assigned, of a result of each operation that the graph copies */
} Known;
struct Apart {
    Arena *arena;
    Kernels *kernels;
    Pointers *of; /* Group -> Twin */
    Repeats *repeats; /* groups that are alike -> Known */
    Map *alike;   /* a graph but for its names -> the first Twin that has it: groups that differ may come to one graph */
    VEC(const Twin *) list;
};

Apart *apart_new(Arena *arena, Kernels *kernels)
{
    Apart *apart = NEW(arena, Apart);
    *apart = (Apart){.arena = arena, .kernels = kernels, .of = pointers_new(arena), .repeats = repeats_new(arena), .alike = map_new(arena)};
    return apart;
}

/* What is assigned becomes a choice between the new and the old, made of two further results of the graph. */
static void cut_apart(Apart *apart, Twin *twin, Graph *g, const Group *group, Value **map, Ops *of)
{
    Values results = {0};
    for (int o = 0; o < group->out.n; o++)
        vec_push(apart->arena, &results, group->kind == GROUP_ASSIGN ? group->ops.at[group->ops.n - 1]->in[1] : group->out.at[o]);
    for (int o = 0; o < group->out.n; o++) {
        const Op *assign = assign_where(group, group->out.at[o]);
        if (!assign) continue;
        vec_push(apart->arena, &results, assign->in[2]);
        vec_push(apart->arena, &results, assign->in[0]);
    }
    twin->graph = graph_cut(g, apart->arena, "apart", &results, &group->in, map, &twin->in, of);
    Values *outputs = &twin->graph->outputs;
    for (int o = 0, where = group->out.n; o < group->out.n; o++) {
        const Op *assign = assign_where(group, group->out.at[o]);
        if (!assign) continue;
        const Kept kept = {outputs->at[where++], assign->in[0], arena_text(apart->arena, twin->kept.n ? "kept%d" : "kept", twin->kept.n + 1)};
        outputs->at[o] = b_select(twin->graph, kept.where, outputs->at[o], outputs->at[where++]);
        bool known = false;
        for (int k = 0; k < twin->kept.n; k++) known |= twin->kept.at[k].where == kept.where;
        if (!known) vec_push(apart->arena, &twin->kept, kept);
    }
    outputs->n = group->out.n;
}

/* The kernels are there: they are for one more group's nodes.  of: that group's operations, as the graph has copies of them. */
static void take_as(Apart *apart, Twin *twin, const Twin *like, const Ops *of)
{
    Op *own_ops[GROUP_OPS_SEEN];
    for (int i = 0; i < like->groups->list.n; i++) {
        const Group *group = like->groups->list.at[i];
        const GroupLaunches *l = pointers_get(like->launches->of, group);
        Group own = *group;
        if (!l) continue;
        own.ops = (Ops){.at = own_ops, .room = GROUP_OPS_SEEN};
        for (int o = 0; o < group->ops.n; o++) {
            const int copied = group->ops.at[o]->id;
            vec_push(apart->arena, &own.ops, copied < of->n ? of->at[copied] : group->ops.at[o]);
        }
        kernels_also_for(apart->kernels, l->at, l->n, &own);
    }
    for (int k = 0; k < twin->kept.n; k++) twin->kept.at[k].where = like->kept.at[k].where;
    twin->graph = like->graph;
    twin->groups = like->groups;
    twin->launches = like->launches;
}

/* Of a graph, and of which of its values say what is kept; NULL: it is like no other. */
static const char *key_of(Apart *apart, const Twin *twin, const Group *group)
{
    const char *key = group->kind == GROUP_ATTENTION ? NULL : graph_alike(apart->arena, twin->graph);
    for (int k = 0; key && k < twin->kept.n; k++) key = arena_text(apart->arena, "%s %d", key, twin->kept.at[k].where->id);
    return key;
}

/* Adds the number that a group's words tell of v; false where they tell nothing of it. */
static bool add_number(const Apart *apart, Numbers *numbers, const Value *v)
{
    const int number = repeats_number(apart->repeats, v);
    vec_push(apart->arena, numbers, number);
    return number >= 0;
}

/* Keeps what a group that is alike may take. */
static void remember(Apart *apart, const GroupWords *words, const Twin *twin, const Ops *of)
{
    Known *known = NEW(apart->arena, Known);
    bool all = true;
    known->twin = twin;
    for (int i = 0; i < twin->in.n; i++) all &= add_number(apart, &known->in, twin->in.at[i]);
    for (int k = 0; k < twin->kept.n; k++) all &= add_number(apart, &known->targets, twin->kept.at[k].target);
    for (int o = 0; o < of->n; o++) all &= add_number(apart, &known->of, of->at[o]->out[0]);
    if (all) repeats_add(apart->repeats, words)->kept = known;
}

static void take_again(Apart *apart, Twin *twin, const GroupWords *words, const Known *known)
{
    Op *few[GROUP_OPS_SEEN];
    Ops of = {.at = few, .room = GROUP_OPS_SEEN};
    twin->kept = known->twin->kept;
    twin->kept.at = NEW_ARRAY(apart->arena, Kept, twin->kept.n + 1);
    for (int k = 0; k < twin->kept.n; k++) {
        twin->kept.at[k] = known->twin->kept.at[k];
        twin->kept.at[k].target = words->values.at[known->targets.at[k]];
    }
    twin->in = (Values){.at = NEW_ARRAY(apart->arena, Value *, known->in.n + 1), .room = known->in.n + 1};
    for (int i = 0; i < known->in.n; i++) vec_push(apart->arena, &twin->in, words->values.at[known->in.at[i]]);
    for (int o = 0; o < known->of.n; o++) vec_push(apart->arena, &of, words->values.at[known->of.at[o]]->def);
    take_as(apart, twin, known->twin, &of);
}

static void take_apart(Apart *apart, Symbols *symbols, Graph *g, const Group *group, const char *name, Value **map)
{
    Twin *twin = NEW(apart->arena, Twin);
    Ops of = {0};
    twin->name = name;
    pointers_set(apart->of, group, twin);
    const GroupWords *words = repeats_words(apart->repeats, group, 0);
    const Repeated *first = words->none ? NULL : repeats_find(apart->repeats, words);
    if (first) {
        take_again(apart, twin, words, first->kept);
        return;
    }
    cut_apart(apart, twin, g, group, map, &of);
    if (!words->none) remember(apart, words, twin, &of);
    const char *key = key_of(apart, twin, group);
    const Twin *like = key ? map_get(apart->alike, key) : NULL;
    if (like) {
        kernels_blocks(apart->kernels, twin->graph);
        take_as(apart, twin, like, &of);
        return;
    }
    if (group->kind == GROUP_ATTENTION) {
        pass_decompose_attention(twin->graph);
        graph_canonical(twin->graph);
    }
    graph_verify(twin->graph, "taking apart");
    twin->groups = pass_fuse(twin->graph, true);
    pass_schedule(twin->groups);
    twin->launches = launches_of(apart->arena, apart->kernels, symbols, twin->groups);
    if (key) map_set(apart->alike, key, twin);
    vec_push(apart->arena, &apart->list, twin);
}

static const char *first_kernel(const GroupLaunches *l)
{
    return l->at[0].epilogue ? l->at[0].epilogue->kernel : l->at[0].kernel;
}

void apart_add(Apart *apart, Symbols *symbols, const Groups *groups, const Launches *launches)
{
    Graph *g = groups->graph;
    Value **map = NEW_ARRAY(apart->arena, Value *, g->next_value + 1);
    for (int i = 0; i < groups->list.n; i++) {
        const Group *group = groups->list.at[i];
        if (group->kind == GROUP_VIEW || group->kind == GROUP_COMMIT || group->kind == GROUP_FINITE)
            continue;
        const GroupLaunches *l = pointers_get(launches->of, group);
        take_apart(apart, symbols, g, group, l ? first_kernel(l) : op_info(group->ops.at[group->ops.n - 1]->kind)->name, map);
        const Sliced *s = pointers_get(launches->sliced, group);
        if (s) take_apart(apart, symbols, g, s->group, first_kernel(&s->launches), map);
    }
}

void apart_kernels(const Apart *apart, Map *names)
{
    for (int i = 0; i < apart->list.n; i++) launches_kernels(apart->list.at[i]->launches, names);
}

/* ---- a group's program ---- */
typedef struct {
    const Value *value; /* of the program that the group is part of */
    const char *name;
} Parameter;
typedef struct {
    Program *program;
    VEC(Parameter) results, operands;
    bool loops;
} Parts;

/* Of "w->table" in "w->table + 64": a piece of it. */
static size_t name_length(const char *pointer)
{
    return strcspn(pointer, " ");
}

static bool is_apart_from(const Place *place, const Program *of, const Values *operands)
{
    for (int i = 0; i < operands->n; i++) {
        if (operands->at[i]->origin == FROM_HYPER) continue;
        const Place *other = program_place(of, operands->at[i]);
        const size_t n = name_length(other->pointer);
        const bool same = n == name_length(place->pointer) && strncmp(other->pointer, place->pointer, n) == 0;
        if (other->buffer >= 0 ? other->buffer == place->buffer : same) return false;
    }
    return true;
}

/* The parameter itself is where a result is made, but where it lies in the memory of an operand, which others may still read. */
static bool made_there(Maker *m, const Value *result, const Place *place, const Program *of, const Twin *twin, const char *name)
{
    const Value *root = value_root(result);
    if (!root->def || op_info(root->def->kind)->class == REGION || pointers_get(m->p->places, root)) return false;
    if (!is_apart_from(place, of, &twin->in)) return false;
    place_new(m, root, name, -1);
    return true;
}

/* tell_kept(s, kept, where, n); */
static void add_tell(Maker *m, Items *items, const Kept *kept)
{
    Arena *arena = m->l->arena;
    Launch *tell = NEW(arena, Launch);
    *tell = (Launch){.kernel = "tell_kept", .library = true, .moved = expr_int(m->l->symbols, 0), .flops = expr_int(m->l->symbols, 0)};
    vec_push(arena, &tell->args, ((Arg){.kind = ARG_KEPT, .value = kept->target, .type = kept->name}));
    vec_push(arena, &tell->args, ((Arg){.kind = ARG_VALUE, .value = kept->where}));
    vec_push(arena, &tell->args, ((Arg){.kind = ARG_EXPR, .expr = value_count(m->p->graph, kept->where)}));
    add_launch(m, items, tell, NULL, NULL, -1);
}

static Parts parts_of(Layout *layout, const Twin *twin, const Program *of, const Group *group)
{
    Arena *arena = layout->arena;
    const Graph *g = twin->graph;
    Program *p = NEW(arena, Program);
    Parts parts = {.program = p};
    *p = (Program){.name = "apart", .graph = twin->graph, .places = pointers_new(arena)};
    p->moved = p->flops = expr_int(layout->symbols, 0);
    Maker m = {.l = layout,
               .p = p,
               .launches = twin->launches,
               .names = map_new(arena),
               .nameless = true,
               .last_of = map_new(arena),
               .gradient_of = pointers_new(arena),
               .root = pointers_new(arena),
               .last_reader = pointers_new(arena),
               .times = expr_int(layout->symbols, 1),
               .moved = sum_new(layout),
               .flops = sum_new(layout)};
    for (int i = 0; i < twin->in.n; i++) {
        if (twin->in.at[i]->origin == FROM_HYPER) continue;
        const char *name = layout_unique(layout, m.names, "a");
        place_new(&m, g->inputs.at[i], name, -1);
        vec_push(arena, &parts.operands, ((Parameter){twin->in.at[i], name}));
    }
    Value **copied = NEW_ARRAY(arena, Value *, group->out.n + 1);
    for (int o = 0; o < group->out.n; o++) {
        const char *name = layout_unique(layout, m.names, "y");
        vec_push(arena, &parts.results, ((Parameter){group->out.at[o], name}));
        if (made_there(&m, g->outputs.at[o], program_place(of, group->out.at[o]), of, twin, name)) continue;
        copied[o] = NEW(arena, Value);
        *copied[o] = *group->out.at[o];
        place_new(&m, copied[o], name, -1);
    }
    add_groups(&m, &p->items, twin->groups);
    for (int k = 0; k < twin->kept.n; k++) add_tell(&m, &p->items, &twin->kept.at[k]);
    for (int o = 0; o < group->out.n; o++)
        if (copied[o]) add_copy(&m, &p->items, copied[o], g->outputs.at[o], NULL);
    for (int i = 0; i < p->items.n; i++) parts.loops |= p->items.at[i]->kind != ITEM_LAUNCH;
    return parts;
}

/* ---- text ---- */
static const char *type_of(const Buffer *buffer)
{
    return buffer->in_step ? buffer->in_step : buffer->type;
}

/* Buffers of equal size share memory where one is dead before the other is made. */
static void rooms_text(Buf *out, Layout *layout, const Program *p)
{
    for (int b = 0; b < p->buffers.n; b++) {
        const Buffer *buffer = &p->buffers.at[b], *free = NULL;
        for (int e = 0; e < b && !free; e++) {
            const Buffer *earlier = &p->buffers.at[e];
            bool taken = earlier->bytes != buffer->bytes || earlier->last >= buffer->first;
            for (int k = e + 1; k < b && !taken; k++) taken = p->buffers.at[k].shares == e && p->buffers.at[k].last >= buffer->first;
            if (!taken && earlier->shares < 0) free = earlier;
        }
        p->buffers.at[b].shares = free ? (int)(free - p->buffers.at) : -1;
        const char *type = type_of(buffer);
        Buf line = {.arena = layout->arena};
        buf_printf(&line, "    %s *const %s = ", type, buffer->c);
        if (!free)
            buf_printf(&line, "room.take<%s>(%s);", type, expr_c(layout, buffer->bytes, "d."));
        else if (!strcmp(type_of(free), type))
            buf_printf(&line, "%s;", free->c);
        else
            buf_printf(&line, "(%s *)%s;", type, free->c);
        if (*buffer->shape)
            buf_printf(&line, "%*s/* %s */", line.length < COMMENT_COLUMN ? (int)(COMMENT_COLUMN - line.length) : 1, "", commented(layout, buffer->shape));
        buf_printf(out, "%s\n", buf_text(&line));
    }
}

static const char *body_text(Layout *layout, const Parts *parts)
{
    const Program *p = parts->program;
    Buf rooms = {.arena = layout->arena}, out = {.arena = layout->arena};
    Writer w = {.l = layout, .p = p, .memory = memory_of(layout, p), .body = {.arena = layout->arena}, .replays = true, .unit = -1};
    rooms_text(&rooms, layout, p);
    for (int i = 0; i < p->items.n; i++) {
        p->items.at[i]->nodes.n = 0; /* of one of the groups that are alike */
        item_text(&w, p->items.at[i], 1);
    }
    Map *used = words(layout->arena, buf_text(&w.body)), *named = words(layout->arena, buf_text(&rooms));
    if (map_has(named, "d")) map_set(used, "d", used);
    declare_dims(&out, &w, used);
    declare_memory(&out, &w, used, AT_HEAD);
    if (p->buffers.n) buf_put(&out, "    Room room = {memory};\n");
    buf_printf(&out, "%s    if (!memory) return %s;\n%s    return 0;\n}\n", buf_text(&rooms), p->buffers.n ? "room.taken" : "0", buf_text(&w.body));
    return buf_text(&out);
}

static const char *signature(const Layout *layout, const Twin *twin, const Parts *parts)
{
    Buf out = {.arena = layout->arena};
    buf_put(&out, "(Step *s, char *memory");
    for (int i = 0; i < parts->results.n; i++) {
        const Parameter *y = &parts->results.at[i];
        buf_printf(&out, ", %s *%s", dtype_c(y->value->dtype), y->name);
    }
    for (int i = 0; i < twin->kept.n; i++) buf_printf(&out, ", bool *%s", twin->kept.at[i].name);
    for (int i = 0; i < parts->operands.n; i++) {
        const Parameter *a = &parts->operands.at[i];
        buf_printf(&out, ", %s%s *%s", parts->loops ? "" : "const ", dtype_c(a->value->dtype), a->name);
    }
    buf_put(&out, ")");
    return buf_text(&out);
}

/* ---- for readers: what parameters are called, where lines end ---- */
static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* A name of a parameter that tells what it is: "gain", "mean"; one that the text does not have. */
static const char *telling(Arena *arena, Map *taken, const Parameter *p, const char *word)
{
    const char *name = word;
    if (!word || (name_is_taken(word) && strcmp(word, "weight") != 0)) return p->name;
    for (int i = 2; map_has(taken, name); i++) name = arena_text(arena, "%s_%d", word, i);
    map_set(taken, name, (void *)name);
    return name;
}

/* The text with parameters called by such names instead of a, a_2, y. */
static const char *with_names(Arena *arena, const char *text, const Parts *parts, const Group *group)
{
    Map *taken = words(arena, text), *names = map_new(arena);
    for (int i = 0; i < parts->results.n; i++) {
        const Parameter *y = &parts->results.at[i];
        const char *word = made_word(y->value);
        map_set(names, y->name, (void *)telling(arena, taken, y, parts->results.n > 1 && word_tells(word) ? word : NULL));
    }
    for (int i = 0; i < parts->operands.n; i++) {
        const Parameter *a = &parts->operands.at[i];
        map_set(names, a->name, (void *)telling(arena, taken, a, operand_word(arena, group, a->value)));
    }
    Buf out = {.arena = arena};
    for (const char *p = text; *p;) {
        size_t n = 0;
        while (is_letter(p[n])) n++;
        const char *name = n ? map_get(names, arena_copy(arena, p, n)) : NULL;
        if (name)
            buf_put(&out, name);
        else
            buf_write(&out, p, n ? n : 1);
        p += n ? n : 1;
    }
    return buf_text(&out);
}

/* Appends a call or a function's head, whose arguments go on in further lines from that column where one would be too long. */
static void put_wrapped(Buf *out, int column, const char *text)
{
    size_t start = out->length;
    int depth = 0;
    while (start > 0 && out->text[start - 1] != '\n') start--;
    for (const char *p = text, *end; *p; p = end) {
        for (end = p; *end && (end == p || depth != 1 || strncmp(end - 2, ", ", 2) != 0); end++) depth += (*end == '(') - (*end == ')');
        if (p > text && out->length - start + (size_t)(end - p) > LINE_MAX_COLUMNS) {
            out->text[--out->length] = 0; /* the blank behind the comma */
            start = out->length + 1;
            buf_printf(out, "\n%*s", column, "");
        }
        buf_write(out, p, (size_t)(end - p));
    }
}

static const char *pointer(Layout *layout, const Program *p, const Value *v)
{
    const Place *place = program_place(p, v);
    if (place->buffer < 0) return place->pointer;
    const Buffer *buffer = &p->buffers.at[place->buffer];
    return arena_text(layout->arena, "buffer<%s>(s, %s_%s)%s", buffer->type, upper(layout->arena, p->name), upper(layout->arena, buffer->c),
                      place->pointer + name_length(place->pointer));
}

typedef struct {
    const char *name, *source, *head, *body;
    int alike;
} Function;
typedef struct {
    Layout *l;
    Map *of; /* text -> Function */
    Map *same; /* a graph, and which results do not lie where an operand lies -> Function */
    Map *names;
    VEC(Function *) list;
} Functions;

static Function *function_of(Functions *all, const Layout *brief, const Parts *parts, const Twin *twin, const Unit *unit)
{
    Arena *arena = all->l->arena;
    const char *head = signature(brief, twin, parts), *body = body_text((Layout *)brief, parts);
    const char *text = arena_text(brief->arena, "%s\1%s", head, body);
    Function *f = map_get(all->of, text);
    if (!f) {
        const char *named = with_names(brief->arena, text, parts, unit->group), *end = strchr(named, 1);
        f = NEW(arena, Function);
        *f = (Function){layout_unique(all->l, all->names, arena_text(arena, "%s_apart", twin->name)), unit->source,
                        arena_copy(arena, named, (size_t)(end - named)), arena_text(arena, "%s", end + 1), 0};
        map_set(all->of, arena_text(arena, "%s", text), f);
        vec_push(arena, &all->list, f);
    }
    f->alike++;
    return f;
}

/* Units whose graphs are alike, and whose results lie as far from their operands, need not be written again to be found equal. */
static Function *function_for(Functions *all, const Twin *twin, const Program *p, const Unit *unit, Layout *brief)
{
    Buf key = {.arena = brief->arena};
    buf_printf(&key, "%p ", (void *)twin->graph);
    for (int o = 0; o < unit->group->out.n; o++)
        buf_put(&key, is_apart_from(program_place(p, unit->group->out.at[o]), p, &twin->in) ? "+" : "-");
    Function *f = map_get(all->same, buf_text(&key));
    if (f) {
        f->alike++;
        return f;
    }
    const Parts parts = parts_of(brief, twin, p, unit->group);
    f = function_of(all, brief, &parts, twin, unit);
    map_set(all->same, buf_text(&key), f);
    return f;
}

/* All but the call, and the function where it is a new one, is given back. */
static void call_text(Buf *out, Functions *all, const Twin *twin, const Program *p, const Unit *unit, Arena *scratch)
{
    Layout brief = *all->l, *l = &brief;
    l->arena = scratch;
    Buf call = {.arena = scratch};
    buf_printf(&call, "%s(s, memory", function_for(all, twin, p, unit, l)->name);
    for (int i = 0; i < unit->group->out.n; i++) buf_printf(&call, ", %s", pointer(l, p, unit->group->out.at[i]));
    for (int i = 0; i < twin->kept.n; i++) buf_printf(&call, ", %s", kept_flag(l, twin->kept.at[i].target));
    for (int i = 0; i < twin->in.n; i++)
        if (twin->in.at[i]->origin != FROM_HYPER) buf_printf(&call, ", %s", pointer(l, p, twin->in.at[i]));
    buf_put(&call, ")");
    put_wrapped(out, 12, buf_text(&call));
    arena_reset(scratch);
}

static void units_text(Buf *out, Functions *all, const Apart *apart, const Program *p)
{
    Layout *l = all->l;
    Buf cases = {.arena = l->arena};
    Arena *scratch = arena_child(l->arena);
    for (int u = 0; u < program_all_units(p); u++) {
        const Unit *unit = program_unit(p, u);
        const Twin *twin = pointers_get(apart->of, unit->group);
        if (!twin) continue;
        buf_printf(&cases, "    case %d: return ", u);
        call_text(&cases, all, twin, p, unit, scratch);
        buf_put(&cases, ";\n");
    }
    Map *used = words(l->arena, buf_text(&cases));
    buf_printf(out,
               "\n/* A unit of %s's step, operation by operation: its results in the same places.  memory NULL: only how many bytes it wants;\n"
               " * -1: this unit is not taken apart. */\n"
               "STEP_FUNCTION int64_t %s_apart(Step *s, int unit, char *memory)\n{\n",
               p->name, p->name);
    if (map_has(used, "w")) buf_put(out, "    const Weights *const w = weights_of(s);\n");
    if (map_has(used, "states")) buf_put(out, "    const States *const states = states_of(s);\n");
    buf_printf(out, "    switch (unit) {\n%s    }\n    return -1;\n}\n", buf_text(&cases));
}

const char *apart_text(const Apart *apart, const Layout *of, Program *const *programs, int n)
{
    Layout own = *of, *layout = &own;
    Functions all = {.l = layout, .of = map_new(layout->arena), .same = map_new(layout->arena), .names = map_new(layout->arena)};
    Buf units = {.arena = layout->arena}, out = {.arena = layout->arena};
    for (int i = 0; i < n; i++)
        if (program_plans(programs[i])) units_text(&units, &all, apart, programs[i]);
    for (int i = 0; i < all.list.n; i++) {
        const Function *f = all.list.at[i];
        buf_printf(&out, "\n/* \"%s\"", commented(layout, f->source));
        if (f->alike > 1) buf_printf(&out, " and %d more", f->alike - 1);
        buf_put(&out, " */\n");
        const char *head = arena_text(layout->arena, "STEP_FUNCTION static int64_t %s%s", f->name, f->head);
        put_wrapped(&out, (int)strcspn(head, "(") + 1, head);
        buf_printf(&out, "\n{\n%s", f->body);
    }
    buf_put(&out, buf_text(&units));
    return buf_text(&out);
}
