/* Groups as words that they share with groups that differ from them in names alone.
 *
 *     add n0: f32[n] (from an operation), n1: f32[n] (a weight) -> n2: f32[n]; relu n2 -> n3: f32[n]; in n0, n1; out n3
 *
 * An emitter sees a group's operations, the types of their operands, and through views where those lie: all of it is in the words,
 * expressions by address, as they are interned.  What it sees of names is how kernels and their variables are called. */
#include "emit/repeats.h"
#include <string.h>

enum { VIEWS_FOLLOWED = 8 };

struct Repeats {
    Arena *arena;
    GroupWords now;
    int *number; /* by value id, + 1; of the group at hand alone: the others are 0 */
    int room;
    VEC(Repeated *) list;
    int *slots; /* open addressing: place in the list + 1 */
    uint32_t n_slots;
};

Repeats *repeats_new(Arena *arena)
{
    Repeats *r = NEW(arena, Repeats);
    *r = (Repeats){.arena = arena, .n_slots = 64};
    r->slots = NEW_ARRAY(arena, int, r->n_slots);
    return r;
}

/* ---- words ---- */
static void put(Repeats *r, uint64_t word)
{
    vec_push(r->arena, &r->now.words, word);
}

static void put_bytes(Repeats *r, const void *bytes, size_t n)
{
    put(r, n);
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)bytes + i, n - i < sizeof word ? n - i : sizeof word);
        put(r, word);
    }
}

static void put_exprs(Repeats *r, Expr *const *exprs, int n)
{
    put(r, (uint64_t)n);
    for (int i = 0; i < n; i++) put(r, (uintptr_t)exprs[i]);
}

static void put_attr(Repeats *r, const Attr *a)
{
    put(r, a->key);
    switch (attr_kind(a->key)) {
    case ATTR_INT: put(r, (uint64_t)a->i); break;
    case ATTR_TEXT: put_bytes(r, a->text, strlen(a->text)); break;
    case ATTR_EXPRS: put_exprs(r, a->exprs, a->n); break;
    case ATTR_DATA: put_bytes(r, a->data, (size_t)a->n); break;
    case ATTR_INTS: put_bytes(r, a->ints, sizeof *a->ints * (size_t)a->n); break;
    }
}

static const Tensor *weight_of(const Value *v)
{
    return v->tensor && v->tensor->of ? v->tensor->of : v->tensor;
}

/* Which values belong to one weight is no name. */
static void put_tensor(Repeats *r, const Value *v)
{
    const Tensor *t = v->tensor;
    put(r, (uint64_t)(t->trainable + 2 * t->parameter + 4 * t->statistics + 8 * (t->of != NULL)));
    int first = 0;
    while (weight_of(r->now.values.at[first]) != weight_of(v)) first++;
    put(r, (uint64_t)first);
}

/* Gives the value the next number, and says what it is. */
static void put_new(Repeats *r, Value *v)
{
    if (v->id >= r->room) {
        const int room = 2 * v->id + 64;
        int *number = NEW_ARRAY(r->arena, int, room);
        if (r->room) memcpy(number, r->number, sizeof *number * (size_t)r->room);
        r->number = number;
        r->room = room;
    }
    vec_push(r->arena, &r->now.values, v);
    r->number[v->id] = r->now.values.n;
    put(r, v->dtype);
    put_exprs(r, v->shape, v->rank);
    put(r, v->origin);
    if (v->origin == FROM_HYPER) put_bytes(r, v->name, strlen(v->name));
    if (v->tensor) put_tensor(r, v);
}

/* What the group does not make is followed to where it lies, and to the numbers that it may be. */
static void put_operand(Repeats *r, Value *v, int followed)
{
    if (v->id < r->room && r->number[v->id]) {
        put(r, (uint64_t)r->number[v->id]);
        return;
    }
    put(r, 0);
    put_new(r, v);
    const Op *op = v->def;
    const OpClass class = op ? op_info(op->kind)->class : EFFECT;
    const bool view = class == INDEX || class == SOURCE || (op && op->kind == OP_cast);
    if (view && followed == VIEWS_FOLLOWED) r->now.none = true;
    put(r, view ? (uint64_t)op->kind + 1 : 0);
    if (!view || r->now.none) return;
    for (int i = 0; i < op->n_attrs; i++) put_attr(r, &op->attrs[i]);
    for (int i = 0; i < op->n_in; i++) put_operand(r, op->in[i], followed + 1);
}

static void put_values(Repeats *r, const Values *values)
{
    put(r, (uint64_t)values->n);
    for (int i = 0; i < values->n; i++) put_operand(r, values->at[i], 0);
}

static void put_one(Repeats *r, Value *v)
{
    put(r, v != NULL);
    if (v) put_operand(r, v, 0);
}

static void put_op(Repeats *r, const Op *op)
{
    if (op->body[0]) r->now.none = true;
    put(r, op->kind);
    put_bytes(r, op->role, strlen(op->role));
    put(r, (uint64_t)op->n_in);
    for (int i = 0; i < op->n_in; i++) put_operand(r, op->in[i], 0);
    put(r, (uint64_t)op->n_attrs);
    for (int i = 0; i < op->n_attrs; i++) put_attr(r, &op->attrs[i]);
    put(r, (uint64_t)op->n_out);
    for (int i = 0; i < op->n_out; i++) {
        const bool known = op->out[i]->id < r->room && r->number[op->out[i]->id];
        put(r, known ? (uint64_t)r->number[op->out[i]->id] : 0);
        if (!known) put_new(r, op->out[i]);
    }
}

static void put_ops(Repeats *r, const Ops *ops)
{
    put(r, (uint64_t)ops->n);
    for (int i = 0; i < ops->n && !r->now.none; i++) put_op(r, ops->at[i]);
}

static void put_group(Repeats *r, const Group *group)
{
    if (group->body[0] || group->body[1]) r->now.none = true;
    put(r, group->kind);
    put(r, (uint64_t)group->kept);
    put(r, (uint64_t)(group->adds + 2 * group->follows));
    put(r, (uintptr_t)group->rows);
    put_ops(r, &group->ops);
    put_values(r, &group->in);
    put_values(r, &group->out);
    put_values(r, &group->whole);
    put_ops(r, &group->assigns);
    put_one(r, group->row);
    put_one(r, group->walked);
    put_one(r, group->product);
    put_one(r, group->place);
    put(r, group->epilogue != NULL);
    if (group->epilogue && !r->now.none) put_group(r, group->epilogue);
}

const GroupWords *repeats_words(Repeats *r, const Group *group, int more)
{
    for (int i = 0; i < r->now.values.n; i++) r->number[r->now.values.at[i]->id] = 0;
    r->now.words.n = r->now.values.n = 0;
    r->now.none = false;
    put(r, (uint64_t)more);
    put_group(r, group);
    return &r->now;
}

int repeats_number(const Repeats *r, const Value *v)
{
    const int number = v->id < r->room ? r->number[v->id] - 1 : -1;
    return number >= 0 && r->now.values.at[number] == v ? number : -1;
}

/* ---- the first of each kind ---- */
static uint64_t hash_of(const GroupWords *of)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < of->words.n; i++) {
        hash = (hash ^ of->words.at[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

Repeated *repeats_find(const Repeats *r, const GroupWords *of)
{
    const uint64_t hash = hash_of(of);
    for (uint32_t i = (uint32_t)hash & (r->n_slots - 1); r->slots[i]; i = (i + 1) & (r->n_slots - 1)) {
        Repeated *known = r->list.at[r->slots[i] - 1];
        if (known->hash == hash && known->n_words == of->words.n && !memcmp(known->words, of->words.at, sizeof *known->words * (size_t)known->n_words))
            return known;
    }
    return NULL;
}

static void take_slot(Repeats *r, int place)
{
    uint32_t i = (uint32_t)r->list.at[place]->hash & (r->n_slots - 1);
    while (r->slots[i]) i = (i + 1) & (r->n_slots - 1);
    r->slots[i] = place + 1;
}

Repeated *repeats_add(Repeats *r, const GroupWords *of)
{
    Repeated *known = NEW(r->arena, Repeated);
    uint64_t *words = NEW_ARRAY(r->arena, uint64_t, of->words.n);
    memcpy(words, of->words.at, sizeof *words * (size_t)of->words.n);
    *known = (Repeated){.words = words, .n_words = of->words.n, .hash = hash_of(of)};
    for (int i = 0; i < of->values.n; i++) vec_push(r->arena, &known->values, of->values.at[i]);
    vec_push(r->arena, &r->list, known);
    if ((uint32_t)r->list.n * 2 > r->n_slots) {
        r->n_slots *= 2;
        r->slots = NEW_ARRAY(r->arena, int, r->n_slots);
        for (int i = 0; i + 1 < r->list.n; i++) take_slot(r, i);
    }
    take_slot(r, r->list.n - 1);
    return known;
}
