/* Ties tensors that are parts of another: what an exporter computed of a parameter that the model reads in several ways.
 *
 *     F.linear(x, h.weight[:3]) beside h(x)      ->  initializers h.weight [7, 12] and slice_1 [3, 12], which holds its first 36 numbers
 *
 * Needs: roles; equal tensors tied (tie.c).  Leaves: readers of a part reading the whole through Reshape, Slice and Transpose.
 * Breaks: uses of a part.
 *
 * A part's elements are the whole's at first + i * stride[0] + j * stride[1] + …, bit for bit.  Only numbers that look drawn at
 * random prove anything, and only a tensor that an exporter named is taken for a part: one with a name of its own is a parameter of
 * its own, whatever it holds before training. */
#include "passes/trainable.h"
#include "support/diag.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_DIMS = 8, MOST_HITS = 1 << 14, FILTER = 1 << 16 }; /* of 16-bit numbers a large tensor holds each hundreds of times */

typedef struct Hit {
    Candidate *whole;
    int64_t at;
} Hit;

/* A tensor that may be a part, and where its first element was found. */
typedef struct Seeker {
    Candidate *part;
    int index;    /* among the candidates */
    uint64_t key; /* the bits of its first element */
    VEC(Hit) hits;
} Seeker;
typedef VEC(Seeker *) Seekers;

typedef struct View {
    int64_t first, stride[MOST_DIMS];
} View;

/* ---- which ---- */
static bool may_be_part(const Decision *d, const Candidate *c)
{
    const OnnxTensor *t = c->tensor;
    if (!c->trains || c->gone || c->whole || c->apart || c->listed || c->graph != d->model->graph) return false;
    if (!t->data || t->rank > MOST_DIMS || !name_is_computed(c->name)) return false;
    for (int i = 0; i < d->options->untie.n; i++)
        if (!strcmp(d->options->untie.at[i], c->name)) return false;
    return elements_are_random(t);
}

static bool may_be_whole(const Decision *d, const Candidate *c)
{
    if (!c->trains || c->gone || c->apart || c->constant_filled || c->graph != d->model->graph || !c->tensor->data) return false;
    for (int i = 0; i < d->options->untie.n; i++)
        if (!strcmp(d->options->untie.at[i], c->name)) return false;
    return true;
}

/* ---- where the first elements are ---- */
static uint64_t bits_at(const OnnxTensor *t, int64_t i)
{
    const char *data = t->data;
    uint64_t bits = 0;
    switch (onnx_type_bytes(t->type)) {
    case 2: {
        uint16_t x;
        memcpy(&x, data + 2 * i, 2);
        bits = x;
        break;
    }
    case 4: {
        uint32_t x;
        memcpy(&x, data + 4 * i, 4);
        bits = x;
        break;
    }
    default: memcpy(&bits, data + 8 * i, 8);
    }
    return bits;
}

static unsigned slot_of(uint64_t bits)
{
    return (unsigned)(bits * 0x9e3779b97f4a7c15u >> 48) % FILTER;
}

/* Of parts that hold the same numbers in other orders the first is the whole. */
static bool comes_first(const Seeker *s, const Candidate *whole, int index)
{
    const int64_t n = s->part->tensor->count, m = whole->tensor->count;
    return m > n || (m == n && (index < s->index || !name_is_computed(whole->name)));
}

static void look_through(Arena *arena, Candidate *whole, int index, const Seekers *seekers, const bool *filter)
{
    for (int64_t i = 0; i < whole->tensor->count; i++) {
        const uint64_t bits = bits_at(whole->tensor, i);
        if (!filter[slot_of(bits)]) continue;
        for (int k = 0; k < seekers->n; k++) {
            Seeker *s = seekers->at[k];
            if (s->key != bits || s->hits.n == MOST_HITS || s->part == whole || s->part->tensor->type != whole->tensor->type)
                continue;
            if (!comes_first(s, whole, index)) continue;
            vec_push(arena, &s->hits, ((Hit){whole, i}));
        }
    }
}

/* ---- how a part lies in a whole ---- */
static bool same_along(const OnnxTensor *whole, const OnnxTensor *part, int64_t first, int64_t stride, int64_t step, int64_t n)
{
    if (first + (n - 1) * stride >= whole->count) return false;
    for (int64_t i = 1; i < n; i++)
        if (bits_at(whole, first + i * stride) != bits_at(part, i * step)) return false;
    return true;
}

/* The stride of one dim, of n elements step apart in the part: a dim of the whole, or several of one counted through. */
static int64_t find_stride(const OnnxTensor *whole, const OnnxTensor *part, int64_t first, int64_t step, int64_t n)
{
    int64_t unit = 1;
    for (int axis = whole->rank - 1; axis >= 0; unit *= whole->dims[axis--])
        for (int64_t c = 1; c < whole->dims[axis]; c++)
            if (whole->dims[axis] % c == 0 && same_along(whole, part, first, c * unit, step, n)) return c * unit;
    return 0;
}

static bool is_view_of(const OnnxTensor *whole, const OnnxTensor *part, const View *v)
{
    int64_t index[MOST_DIMS] = {0};
    for (int64_t i = 0; i < part->count; i++) {
        int64_t at = v->first;
        for (int k = 0; k < part->rank; k++) at += index[k] * v->stride[k];
        if (at >= whole->count || bits_at(whole, at) != bits_at(part, i)) return false;
        for (int k = part->rank - 1; k >= 0 && ++index[k] == part->dims[k]; k--) index[k] = 0;
    }
    return true;
}

static bool find_view(const OnnxTensor *whole, const OnnxTensor *part, int64_t first, View *v)
{
    int64_t step = 1;
    *v = (View){.first = first};
    for (int k = part->rank - 1; k >= 0; step *= part->dims[k--])
        if (part->dims[k] > 1 && !(v->stride[k] = find_stride(whole, part, first, step, part->dims[k]))) return false;
    return is_view_of(whole, part, v);
}

/* ---- the nodes that read it so ---- */
/* The whole, seen with a dim for each stride of the part, largest first: of each a range is taken. */
typedef struct Cut {
    int n, dim_of[MOST_DIMS]; /* of the part */
    int64_t size[MOST_DIMS + 1], from[MOST_DIMS + 1], to[MOST_DIMS + 1];
} Cut;

/* false: the ranges run over a dim's end, as those of every second row of five. */
static bool make_cut(const OnnxTensor *whole, const OnnxTensor *part, const View *v, Cut *cut)
{
    *cut = (Cut){0};
    for (int k = 0; k < part->rank; k++) {
        if (part->dims[k] < 2) continue;
        int at = cut->n++;
        for (; at > 0 && v->stride[cut->dim_of[at - 1]] < v->stride[k]; at--) cut->dim_of[at] = cut->dim_of[at - 1];
        cut->dim_of[at] = k;
    }
    int64_t above = whole->count, rest = v->first;
    for (int i = 0; i <= cut->n; i++) {
        const int64_t stride = i < cut->n ? v->stride[cut->dim_of[i]] : 1, n = i < cut->n ? part->dims[cut->dim_of[i]] : 1;
        if (above % stride) return false;
        cut->size[i] = above / stride, cut->from[i] = rest / stride, cut->to[i] = rest / stride + n;
        if (cut->to[i] > cut->size[i]) return false;
        above = stride, rest %= stride;
    }
    return true;
}

static const char *add_numbers(Decision *d, const char *name, const int64_t *numbers, int n)
{
    OnnxTensor *t = NEW(d->arena, OnnxTensor);
    int64_t *data = NEW_ARRAY(d->arena, int64_t, n + 1);
    memcpy(data, numbers, (size_t)n * sizeof *data);
    t->name = name, t->type = ONNX_INT64, t->rank = 1, t->dims = NEW_ARRAY(d->arena, int64_t, 1), t->dims[0] = t->count = n;
    t->data = data, t->bytes = (size_t)n * sizeof *data;
    model_add_initializer(d, t);
    return name;
}

static OnnxNode *make_node(Decision *d, const char *op, const char *input, const char *output, int n_inputs)
{
    OnnxNode *node = NEW(d->arena, OnnxNode);
    node->name = output, node->op_type = op, node->domain = "", node->overload = "", node->opset = 13;
    node->inputs = NEW_ARRAY(d->arena, const char *, n_inputs), node->outputs = NEW_ARRAY(d->arena, const char *, 1);
    node->inputs[0] = input, node->n_inputs = n_inputs, node->outputs[0] = output, node->n_outputs = 1;
    return node;
}

static OnnxNode *make_reshape(Decision *d, const char *input, const char *output, const int64_t *dims, int n)
{
    OnnxNode *node = make_node(d, "Reshape", input, output, 2);
    node->inputs[1] = add_numbers(d, arena_text(d->arena, "%s.shape", output), dims, n);
    return node;
}

static OnnxNode *make_slice(Decision *d, const char *input, const char *output, const Cut *cut)
{
    OnnxNode *node = make_node(d, "Slice", input, output, 3);
    node->inputs[1] = add_numbers(d, arena_text(d->arena, "%s.from", output), cut->from, cut->n + 1);
    node->inputs[2] = add_numbers(d, arena_text(d->arena, "%s.to", output), cut->to, cut->n + 1);
    return node;
}

static OnnxNode *make_transpose(Decision *d, const char *input, const char *output, const Cut *cut)
{
    int64_t *order = NEW_ARRAY(d->arena, int64_t, cut->n + 1);
    OnnxNode *node = make_node(d, "Transpose", input, output, 1);
    int n = 0;
    for (int k = 0; k < MOST_DIMS; k++)
        for (int i = 0; i < cut->n; i++)
            if (cut->dim_of[i] == k) order[n++] = i;
    order[n++] = cut->n;
    node->attributes = NEW_ARRAY(d->arena, OnnxAttribute, 1), node->n_attributes = 1;
    node->attributes[0] = (OnnxAttribute){.name = "perm", .type = ONNX_ATTR_INTS, .n = n, .ints = order};
    return node;
}

static const char *read_part(Decision *d, const Candidate *whole, const Candidate *part, const Cut *cut)
{
    const char *name = arena_text(d->arena, "%s of %s", part->name, whole->name);
    const char *split = arena_text(d->arena, "%s, split", name), *cut_out = arena_text(d->arena, "%s, cut out", name),
               *turned = arena_text(d->arena, "%s, turned", name);
    OnnxNode *nodes[] = {make_reshape(d, whole->name, split, cut->size, cut->n + 1), make_slice(d, split, cut_out, cut),
                         make_transpose(d, cut_out, turned, cut),
                         make_reshape(d, turned, name, part->tensor->dims, part->tensor->rank)};
    for (int i = 3; i >= 0; i--) model_put_first(d, nodes[i]);
    return name;
}

/* ---- tying ---- */
/* Then it was judged among equal tensors, and stayed apart. */
static bool is_the_same(const OnnxTensor *a, const OnnxTensor *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) &&
           !memcmp(a->data, b->data, a->bytes);
}

static bool try_hits(Decision *d, const Seeker *s)
{
    Candidate *part = s->part;
    for (int i = 0; i < s->hits.n; i++) {
        Candidate *whole = s->hits.at[i].whole;
        const bool all = whole->tensor->count == part->tensor->count;
        View v;
        Cut cut;
        if (whole->gone || (all && is_the_same(whole->tensor, part->tensor)) ||
            !find_view(whole->tensor, part->tensor, s->hits.at[i].at, &v) || !make_cut(whole->tensor, part->tensor, &v, &cut))
            continue;
        const char *what = all ? arena_text(d->arena, "\"%s\" in another order", whole->name)
                               : arena_text(d->arena, "%lld of the %lld elements of \"%s\"", (long long)part->tensor->count,
                                            (long long)whole->tensor->count, whole->name);
        if (are_copies_of_a_layer(d, whole, part, false)) {
            tie_say(d, arena_text(d->arena, "\"%s\" holds %s, as copies of a layer do before training: trained apart", part->name,
                                  what));
            return true;
        }
        int64_t *strides = NEW_ARRAY(d->arena, int64_t, part->tensor->rank + 1);
        memcpy(strides, v.stride, (size_t)part->tensor->rank * sizeof *strides);
        tie_as(d, whole, part, read_part(d, whole, part, &cut), (OnnxStored){.first = v.first, .strides = strides});
        vec_push(d->arena, &whole->parts, part->name);
        tie_say(d, arena_text(d->arena, "\"%s\" holds %s: tied, trained as one (--untie \"%s\" keeps them apart)", part->name, what,
                              part->name));
        return true;
    }
    return false;
}

/* Large ones first: a part of a part is then one of the whole. */
static int by_size(const void *x, const void *y)
{
    const Seeker *a = *(Seeker *const *)x, *b = *(Seeker *const *)y;
    const int64_t n = a->part->tensor->count, m = b->part->tensor->count;
    return n != m ? (n < m) - (n > m) : a->index - b->index;
}

void tie_parts(Decision *d)
{
    Seekers seekers = {0};
    bool *filter = NEW_ARRAY(d->arena, bool, FILTER);
    for (int i = 0; i < d->list.n; i++) {
        if (!may_be_part(d, d->list.at[i])) continue;
        Seeker *s = NEW(d->arena, Seeker);
        s->part = d->list.at[i], s->index = i, s->key = bits_at(s->part->tensor, 0);
        filter[slot_of(s->key)] = true;
        vec_push(d->arena, &seekers, s);
    }
    if (!seekers.n) return;
    for (int i = 0; i < d->list.n; i++)
        if (may_be_whole(d, d->list.at[i])) look_through(d->arena, d->list.at[i], i, &seekers, filter);
    qsort(seekers.at, (size_t)seekers.n, sizeof *seekers.at, by_size);
    for (int i = 0; i < seekers.n; i++)
        if (!seekers.at[i]->part->gone) try_hits(d, seekers.at[i]);
}
