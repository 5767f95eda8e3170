/* Names in kernels: what a value is, said by the operation that makes it and by how it is used.  Kernels are shared by layers, so
 * a name never comes from a node of the model. */
#include "emit/names.h"
#include "emit/program.h"
#include <ctype.h>
#include <string.h>

/* ---- what leads to a value ---- */
/* Past what only says where elements lie, or as what they are kept. */
static const Value *source_of(const Value *v)
{
    while (v->def && (v->def->kind == OP_broadcast || v->def->kind == OP_reshape || v->def->kind == OP_transpose ||
                      v->def->kind == OP_cast || v->def->kind == OP_slice))
        v = v->def->in[0];
    return v;
}

static bool made_by(const Value *v, OpKind kind)
{
    return v->def && v->def->kind == kind;
}

static bool is_number(const Value *v)
{
    v = source_of(v);
    return v->def && (v->def->kind == OP_constant || v->def->kind == OP_dims);
}

static bool is_square(const Value *v)
{
    double exponent;
    if (made_by(v, OP_mul)) return v->def->in[0] == v->def->in[1];
    return made_by(v, OP_pow) && value_is_scalar_constant(v->def->in[1], &exponent) && exponent == 2;
}

static bool is_position(const Value *v)
{
    return made_by(source_of(v), OP_iota);
}

/* Whether v is true where a position along an axis is the label. */
static bool is_label(const Value *v)
{
    v = source_of(v);
    return made_by(v, OP_eq) && (is_position(v->def->in[0]) || is_position(v->def->in[1]));
}

/* ---- words ---- */
/* Whether v is made by such an operation and bears that word. */
static bool is_word(const Value *v, OpKind kind, const char *word)
{
    v = source_of(v);
    return made_by(v, kind) && strcmp(made_word(v), word) == 0;
}

static const char *sum_word(const Value *v)
{
    const Value *x = source_of(v->def->in[0]);
    if (is_square(x)) return "squares";
    if (x->dtype == DTYPE_bool) return "count";
    return made_by(x, OP_select) && is_label(x->def->in[0]) ? "picked" : "sum";
}

/* A sum over its number of elements. */
static const char *quotient_word(const Value *a, const Value *b)
{
    if (a->origin == FROM_HYPER) return "rate";
    if (!made_by(a, OP_reduce_sum) || !(is_number(b) || made_by(b, OP_reduce_sum))) return "ratio";
    const Value *x = source_of(a->def->in[0]);
    if (!is_square(x)) return "mean";
    return is_word(x->def->in[0], OP_sub, "centred") ? "variance" : "mean_square";
}

static bool is_variance(const Value *v) /* with its epsilon or without */
{
    v = source_of(v);
    if (made_by(v, OP_add)) return is_number(v->def->in[1]) && is_variance(v->def->in[0]);
    return is_word(v, OP_div, "variance") || is_word(v, OP_div, "mean_square");
}

static const char *added_word(const Value *a, const Value *b)
{
    if (is_number(b) && is_variance(a)) return made_word(a);
    if (a->origin == FROM_WEIGHT && b->origin == FROM_WEIGHT) return "bias";
    if (made_by(a, OP_select) || made_by(b, OP_select)) return "masked";
    if (a->origin == FROM_WEIGHT || b->origin == FROM_WEIGHT) return "biased";
    return "added";
}

static const char *product_word(const Value *v, const Value *a, const Value *b)
{
    if (is_square(v)) return "squared";
    if (a->origin == FROM_HYPER && b->origin == FROM_HYPER) return "decay";
    if (is_word(a, OP_reciprocal, "inverse_deviation") || is_word(b, OP_reciprocal, "inverse_deviation")) return "normalised";
    if (is_number(a) || is_number(b)) return "scaled";
    return a->origin == FROM_WEIGHT || b->origin == FROM_WEIGHT ? "weighted" : "product";
}

static const char *difference_word(const Value *b)
{
    if (is_word(b, OP_div, "mean")) return "centred";
    if (made_by(b, OP_reduce_max)) return "shifted";
    return is_word(b, OP_log, "log_sum") ? "log_probability" : "difference";
}

static const char *exponential_word(const Value *a)
{
    const Value *inner = made_by(a, OP_sub) ? a->def->in[0] : NULL;
    return is_word(a, OP_sub, "log_probability") || (inner && is_word(inner, OP_sub, "shifted")) ? "probability" : "exponential";
}

static const char *comparison_word(const Op *op)
{
    double bound;
    if (op->kind == OP_eq && strcmp(op->role, "loss") == 0 && value_is_scalar_constant(source_of(op->in[1]), &bound))
        return "is_ignored";
    if (op->kind == OP_eq) return is_label(op->out[0]) ? "is_label" : "is_equal";
    return value_is_scalar_constant(source_of(op->in[0]), &bound) && bound == 0 ? "is_positive" : "is_less";
}

const char *made_word(const Value *v)
{
    const Op *op = v->def;
    if (!op) return "x";
    const Value *a = op->n_in > 0 ? source_of(op->in[0]) : NULL, *b = op->n_in > 1 ? source_of(op->in[1]) : NULL;
    switch (op->kind) {
    case OP_add: return added_word(a, b);
    case OP_sub: return difference_word(b);
    case OP_mul: return product_word(v, a, b);
    case OP_div: return quotient_word(a, b);
    case OP_pow: return is_square(v) ? "squared" : "raised";
    case OP_neg: return "negative";
    case OP_abs: return "magnitude";
    case OP_sign: return "direction";
    case OP_reciprocal: return is_word(a, OP_sqrt, "deviation") ? "inverse_deviation" : "inverse";
    case OP_sqrt: return is_variance(a) ? "deviation" : "root";
    case OP_exp: return exponential_word(a);
    case OP_expm1: return "exponential";
    case OP_log: return is_word(a, OP_reduce_sum, "sum") ? "log_sum" : "logarithm";
    case OP_log1p: return "logarithm";
    case OP_sin: return "sine";
    case OP_cos: return "cosine";
    case OP_tanh: return "tangent";
    case OP_erf: return "error";
    case OP_sigmoid: return "sigmoid";
    case OP_relu: return "rectified";
    case OP_floor:
    case OP_ceil:
    case OP_round: return "rounded";
    case OP_max: return "larger";
    case OP_min: return "smaller";
    case OP_eq:
    case OP_lt:
    case OP_le: return comparison_word(op);
    case OP_is_nan: return "is_none";
    case OP_not: return "negated";
    case OP_and: return "both";
    case OP_or: return "either";
    case OP_select: return made_by(a, OP_eq) && is_label(a) ? "of_label" : "chosen";
    case OP_random:
    case OP_random_at: return "noise";
    case OP_iota: return "position";
    case OP_dims: return "count";
    case OP_reduce_sum: return sum_word(v);
    case OP_reduce_max: return "greatest";
    case OP_reduce_min: return "least";
    case OP_arg_max:
    case OP_arg_min: return "best_at";
    case OP_dot:
    case OP_dot_add: return b->origin == FROM_WEIGHT ? "projected" : "dots";
    case OP_conv: return "convolved";
    case OP_pool_max:
    case OP_pool_sum: return "pooled";
    case OP_attention: return v->result == 0 ? "attended" : v->result == 1 ? "top" : "scale";
    case OP_attention_gradient: return v->result == 0 ? "dq" : v->result == 1 ? "dk" : "dv";
    case OP_gather: return "gathered";
    case OP_scatter: return "scattered";
    case OP_pad: return "padded";
    case OP_concat: return "joined";
    case OP_cast:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice: return a->origin == FROM_WEIGHT ? "weight" : made_word(a);
    default: return "value";
    }
}

const char *reduced_word(const Group *group, const Value *v)
{
    if (group->ops.n > 1) return made_word(v);
    switch (v->def->kind) { /* what it takes was made elsewhere, of each layer in another way */
    case OP_reduce_prod: return "product";
    case OP_reduce_max: return "greatest";
    case OP_reduce_min: return "least";
    default: return "sum";
    }
}

/* Words that say nothing once the kernel that made the value is out of sight. */
bool word_tells(const char *word)
{
    static const char *const words[] = {"added",  "product", "scaled",   "chosen",   "value",    "difference",
                                        "ratio",  "raised",  "negative", "weighted", "larger",   "smaller",
                                        "padded", "joined",  "dots",     "of_label", "gathered", "scattered"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], word) == 0) return false;
    return true;
}

/* ---- cells ---- */
const char *scan_word(Arena *arena, const Op *scan, int result)
{
    const Graph *body = scan->body[0];
    const int carries = (int)op_int(scan, ATTR_carries);
    const Value *v = source_of(body->outputs.at[result]);
    for (int i = 0; i < carries; i++) {
        const char *carry = plain_name(arena, *body->inputs.at[i]->name ? body->inputs.at[i]->name : "state");
        if (v == body->inputs.at[i]) return arena_text(arena, "%s_before", carry);
        if (result == i || v == source_of(body->outputs.at[i]))
            return arena_text(arena, result < carries ? "%s_last" : "%s_all", carry);
    }
    switch (v->def ? v->def->kind : OP_cast) {
    case OP_sigmoid: return "gates";
    case OP_tanh: return "candidates";
    case OP_dot:
    case OP_dot_add: return "recurrences";
    default: return strcmp(scan->role, "gradient") == 0 ? "gradients" : "parts";
    }
}

const char *short_path(Arena *arena, const char *path)
{
    Buf out = {.arena = arena};
    while (*path) { /* a part that the next one begins with goes */
        const size_t n = strcspn(path + 1, "/") + 1;
        const bool repeated = *path == '/' && n > 1 && path[n] == '/' && strncmp(path, path + n, n) == 0 && path[n + n] == '.';
        if (!repeated) buf_write(&out, path, n);
        path += n;
    }
    return buf_text(&out);
}

/* ---- operands ---- */
static bool in_group(const Group *group, const Op *op)
{
    for (int i = 0; i < group->ops.n; i++)
        if (group->ops.at[i] == op) return true;
    return false;
}

/* What a value of fewer axes is for those of the group that read it: a bias, a gain, a table. */
const char *use_word(const Group *group, const Value *v, int depth)
{
    for (int u = 0; depth < 4 && u < v->users.n; u++) {
        const Op *op = v->users.at[u];
        if (!in_group(group, op)) continue;
        switch (op->kind) {
        case OP_add: return "bias";
        case OP_mul: return "gain";
        case OP_eq:
            if (is_position(op->in[0]) || is_position(op->in[1])) return "labels";
            break;
        case OP_gather: return op->in[0] == v ? "table" : "index";
        case OP_broadcast:
        case OP_reshape:
        case OP_transpose:
        case OP_cast:
        case OP_slice: {
            const char *word = use_word(group, op->out[0], depth + 1);
            if (word) return word;
            break;
        }
        default: break;
        }
    }
    return NULL;
}

/* "stash_12" is stash: numbers of values say nothing to a reader, and differ between equal kernels. */
const char *plain_name(Arena *arena, const char *name)
{
    name = c_name(arena, name);
    size_t n = strlen(name);
    while (n > 1 && (name[n - 1] == '_' || isdigit((unsigned char)name[n - 1]))) n--;
    name = arena_copy(arena, name, n);
    if (strcmp(name, "gradient_of_carry") == 0) return "gradient";
    return name_is_taken(name) ? arena_text(arena, "%s_in", name) : name;
}

const char *operand_word(Arena *arena, const Group *group, const Value *v)
{
    const Value *from = source_of(v);
    const bool integer = !dtype_is_float(v->dtype) && v->dtype != DTYPE_bool;
    const char *use;
    switch (from->origin) {
    case FROM_WEIGHT: use = use_word(group, v, 0); return use ? use : "weight";
    case FROM_STATE: use = strrchr(from->tensor->name, '.'); return use ? plain_name(arena, use + 1) : "state";
    case FROM_BATCH: return integer && strcmp(from->name, "target") == 0 ? "labels" : plain_name(arena, from->name);
    case FROM_PARAMETER:
        use = integer || v->rank == 1 ? use_word(group, v, 0) : NULL;
        if (use && integer != (strcmp(use, "bias") == 0 || strcmp(use, "gain") == 0)) return use;
        return integer ? "index" : v->dtype == DTYPE_bool ? "mask" : "x";
    default: break;
    }
    const char *word = made_word(from);
    if (made_by(from, OP_scan)) return scan_word(arena, from->def, from->result);
    if (from->def && strcmp(from->def->role, "gradient") == 0 && strcmp(word, "projected") == 0) return "gradient";
    if (integer && !word_tells(word)) {
        use = use_word(group, v, 0);
        return use && strcmp(use, "labels") == 0 ? use : "index";
    }
    if (v->dtype == DTYPE_bool && !word_tells(word)) return "mask";
    if (word_tells(word)) return word;
    return from->def && strcmp(from->def->role, "gradient") == 0 ? "gradient" : "x";
}

bool name_is_taken(const char *name)
{
    static const char *const words[] = {
        "first",    "last",   "row",    "i",        "j",      "k",       "p",       "q",      "r",       "s",       "blocks",
        "once",     "block",  "line",   "column",   "width",  "part",    "strided", "tiles",  "maximum", "minimum", "modulo",
        "quotient", "square", "cast",   "absolute", "lowest", "is_true", "highest", "strips", "best",    "next",    "at",
        "to",       "from",   "head",   "tile",     "key",    "query",   "top",     "scale",  "score",   "slope",   "balanced",
        "same",     "seed",   "stream", "power",    "relu",   "philox",  "is_nan",  "sum",    "dims"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0) return true;
    OpKind kind;
    const bool is_result =
        (*name == 'y' || *name == 'n') && name[1 + strspn(name + 1, "0123456789")] == 0; /* y, n0: results, sizes */
    return is_result || layout_reserves(name) || op_kind_named(name, &kind);
}

/* An element's name, given the text that reads it: bias[i] is bias_i, labels[row] is label. */
const char *element_name(Arena *arena, const char *load)
{
    const char *open = strchr(load, '['), *close = open ? strchr(open, ']') : NULL;
    if (!close) return "value";
    const char *start = open, *end = close;
    while (start > load && (isalnum((unsigned char)start[-1]) || start[-1] == '_')) start--;
    const size_t all = (size_t)(open - start), n = all > 2 && strncmp(open - 2, "_4", 2) == 0 ? all - 2 : all; /* of four: bias_4[i] */
    static const char *const plurals[] = {"labels", "squares", "gates", "candidates"};
    for (size_t i = 0; i < sizeof plurals / sizeof *plurals; i++)
        if (strlen(plurals[i]) == n && strncmp(plurals[i], start, n) == 0) return arena_copy(arena, start, n - 1);
    if (n > 2 && strncmp(start + n - 2, "_t", 2) == 0) return arena_text(arena, "%.*s_now", (int)n - 2, start); /* at this time */
    while (end > open && (isalnum((unsigned char)end[-1]) || end[-1] == '_')) end--;
    if (!isalpha((unsigned char)*end)) return arena_text(arena, "%.*s_value", (int)n, start);
    return arena_text(arena, "%.*s_%.*s", (int)n, start, (int)(close - end), end);
}

/* The same for kernels that differ in names alone. */
int words_in(const char *text)
{
    int n = 0;
    for (const char *p = text; *p; p++)
        n += isalnum((unsigned char)*p) && (p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_'));
    return n;
}

/* ---- offsets ---- */
/* A variable that holds an offset: the tensors whose elements it finds, and another offset that is made of it. */
typedef struct {
    const char *name, *now, *inner; /* inner: the loop variable that its definition ends with */
    Strings tensors;
    int into;        /* -1 */
    size_t from, to; /* where it is known: from its definition to the end of its block */
} Offset;

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static int offset_at(const Offset *all, int n, const char *word, size_t length)
{
    for (int i = 0; i < n; i++)
        if (strlen(all[i].name) == length && strncmp(all[i].name, word, length) == 0) return i;
    return -1;
}

/* "x_t" is x at a time: its offsets are called after x. */
static void finds(Arena *arena, Offset *offset, const char *tensor, size_t length)
{
    if (length > 2 && strncmp(tensor + length - 2, "_t", 2) == 0) length -= 2;
    const char *name = arena_copy(arena, tensor, length);
    for (int i = 0; i < offset->tensors.n; i++)
        if (strcmp(offset->tensors.at[i], name) == 0) return;
    vec_push(arena, &offset->tensors, name);
}

/* Where the block ends that text[from] stands in. */
static size_t block_end(const char *text, size_t from)
{
    int depth = 0;
    while (text[from] && depth >= 0) {
        depth += text[from] == '{' ? 1 : text[from] == '}' ? -1 : 0;
        from++;
    }
    return from;
}

/* Reads of the text "tensor[at + …" and "tensor + at …", and "const int64_t at2 = at + …". */
static void read_uses(Arena *arena, Offset *all, int n, const char *text)
{
    const char *tensor = NULL;
    size_t length = 0;
    int defined = -1;
    for (const char *p = text; *p;) {
        if (*p == '\n') defined = -1;
        if (!is_letter(*p)) {
            p++;
            continue;
        }
        const size_t word = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        const int at = offset_at(all, n, p, word);
        const bool begins = p == text || p[-1] != '.';
        if (at >= 0 && begins && strncmp(p + word, " = ", 3) == 0) {
            defined = at;
            all[at].from = (size_t)(p - text), all[at].to = block_end(text, all[at].from);
        } else if (at >= 0 && begins && defined >= 0) {
            all[at].into = defined;
        } else if (at >= 0 && begins && tensor) {
            finds(arena, &all[at], tensor, length);
        } else if (defined >= 0 && isalpha((unsigned char)*p) && !all[defined].inner) {
            all[defined].inner = arena_copy(arena, p, word);
        }
        tensor = NULL;
        if (at < 0 && (p[word] == '[' || strncmp(p + word, " + ", 3) == 0)) tensor = p, length = word;
        p += word;
    }
}

static bool in_text(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += n)
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[n])) return true;
    return false;
}

static bool meet(const Offset *a, const Offset *b)
{
    return a->from < b->to && b->from < a->to;
}

/* Whether offset i may bear that name: no other has it where it is known, and nothing else in the text. */
static bool is_free(const Offset *all, int n, const char *text, int i, const char *name)
{
    for (int k = 0; k < n; k++)
        if (all[k].now && strcmp(all[k].now, name) == 0 && meet(&all[k], &all[i])) return false;
    return offset_at(all, n, name, strlen(name)) >= 0 || !in_text(text, name);
}

/* Whether another offset is known where this one is. */
static bool shares(const Offset *all, int n, int i)
{
    for (int k = 0; k < n; k++)
        if (k != i && meet(&all[k], &all[i])) return true;
    return false;
}

static void name_offset(Arena *arena, Offset *all, int n, const char *text, int i)
{
    Offset *o = &all[i];
    const Offset *user = o;
    while (!user->tensors.n && user->into >= 0) user = &all[user->into];
    const char *base = "at";
    if (user != o) {
        const char *tensor = user->tensors.n == 1 ? user->tensors.at[0] : NULL;
        base = tensor     ? arena_text(arena, "%s_%s", tensor, o->inner ? o->inner : "start")
               : o->inner ? arena_text(arena, "%s_at", o->inner)
                          : "start";
    } else if (shares(all, n, i) && (o->tensors.n == 1 || !is_free(all, n, text, i, "at"))) {
        base = o->tensors.n ? arena_text(arena, "%s_at", o->tensors.at[0]) : "start";
    }
    const char *name = base;
    for (int k = 2; !is_free(all, n, text, i, name); k++) name = arena_text(arena, "%s%d", base, k);
    o->now = name;
}

const char *name_offsets(Arena *arena, const char *text, const Strings *offsets)
{
    const int n = offsets->n;
    if (n == 0) return text;
    Offset *all = NEW_ARRAY(arena, Offset, n);
    for (int i = 0; i < n; i++) all[i] = (Offset){.name = offsets->at[i], .into = -1};
    read_uses(arena, all, n, text);
    for (int i = 0; i < n; i++) name_offset(arena, all, n, text, i);
    Buf out = {.arena = arena};
    for (const char *p = text; *p;) {
        const size_t word = is_letter(*p) ? strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") : 0;
        const int at = word && (p == text || p[-1] != '.') ? offset_at(all, n, p, word) : -1;
        if (at >= 0)
            buf_put(&out, all[at].now);
        else
            buf_write(&out, p, word ? word : 1);
        p += word ? word : 1;
    }
    return buf_text(&out);
}
