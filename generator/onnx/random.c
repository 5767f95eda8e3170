/* Random operators: Dropout, RandomNormal and RandomUniform, Bernoulli, Multinomial.
 * Each has a seed of its own; numbers come from it, the step and, in loops, the iteration, so that a step can be replayed. */
#include "onnx/terms.h"
#include <string.h>

/* The node's seed, or the next of the model's. */
static int64_t seed_of(Import *im, const OnnxNode *node)
{
    int64_t next = im->next_seed++;
    const OnnxAttribute *given = attr_get(node, "seed");
    const int64_t copy = im->copy * ((int64_t)1 << 34);
    if (!given) return next;
    if (given->type == ONNX_ATTR_INT) return (given->i ^ ((int64_t)1 << 33)) + copy; /* Dropout's; apart from those counted */
    float seed = (float)attr_float(node, "seed", 0);
    uint32_t bits;
    memcpy(&bits, &seed, sizeof bits);
    return (int64_t)bits + ((int64_t)1 << 32) + copy;
}

/* Random numbers of a node.  In a loop's body others in each iteration: their places lie one iteration's behind those of the one before. */
static Value *draw(Import *im, const char *distribution, int64_t seed, Dtype dtype, int rank, Expr *const *shape)
{
    const double apart = (double)(((int64_t)1 << 40) + 15); /* a prime beyond any tensor's number of elements */
    Graph *g = im->graph;
    Value *turn = body_turn(im, im->scope->body);
    if (!turn) return b_random(g, distribution, seed, dtype, rank, shape);
    Expr *count = expr_product(im->symbols, shape, rank);
    Value *place = b_reshape(g, b_iota(g, DTYPE_u64, 0, 1, &count), rank, shape);
    place = b_add(g, place, b_broadcast_to(g, b_mul(g, turn, b_number(g, DTYPE_u64, apart)), rank, shape));
    return b_random_at(g, distribution, seed, dtype, place);
}

/* ---- Dropout ---- */
static void no_dropout(Import *im, const OnnxNode *node, Term *x)
{
    output_term(im, node, 0, x);
    if (wants_output(node, 1)) output(im, node, 1, b_full(im->graph, DTYPE_bool, 1, x->rank, x->shape));
}

/* Whether a Dropout of opset 12 or later was exported as acting: training_mode given, and not known to be false. */
static bool acts(Import *im, const OnnxNode *node)
{
    double mode;
    return has_input(node, 2) && !(input_number(im, node, 2, &mode) && mode == 0);
}

/* Keeps each element with probability 1 - ratio and scales it, so that the mean stays. */
static void drop(Import *im, const OnnxNode *node, Term *t, Value *ratio, int64_t seed)
{
    Graph *g = im->graph;
    Value *x = term_value(im, t), *zero = b_like(g, x, 0), *one = b_like(g, x, 1);
    Dtype dtype = x->dtype == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
    Value *kept = b_binary(g, OP_le, b_cast(g, ratio, dtype), draw(im, "uniform", seed, dtype, x->rank, x->shape));
    Value *scale = b_div(g, one, b_sub(g, one, b_cast(g, ratio, x->dtype)));
    output(im, node, 0, b_select(g, kept, b_mul(g, x, scale), zero));
    output(im, node, 1, kept);
}

void import_Dropout(Import *im, const OnnxNode *node)
{
    Term *x = input_term(im, node, 0);
    int64_t seed = seed_of(im, node);
    bool old = opset(im, node) < 12;
    double ratio = old ? attr_float(node, "ratio", 0.5) : 0.5;
    bool known = old || !has_input(node, 1) || input_number(im, node, 1, &ratio);
    if (known && (ratio < 0 || ratio > 1)) import_error(im, node, "ratio is %g; wanted 0 to 1", ratio);
    bool acting = old || acts(im, node);
    if (!im->training || !acting || (known && ratio == 0)) {
        no_dropout(im, node, x);
        return;
    }
    Graph *g = im->graph;
    if (known && ratio == 1) {
        output(im, node, 0, b_full(g, x->dtype, 0, x->rank, x->shape));
        if (wants_output(node, 1)) output(im, node, 1, b_full(g, DTYPE_bool, 0, x->rank, x->shape));
        return;
    }
    drop(im, node, x, known ? b_number(g, DTYPE_f64, ratio) : b_reshape(g, input(im, node, 1), 0, NULL), seed);
}

/* ---- numbers ---- */
/* Output dtype: attribute, or that of `like`, or f32. */
static Dtype random_dtype(Import *im, const OnnxNode *node, Dtype otherwise)
{
    return attr_has(node, "dtype") ? import_dtype(im, node, (int)attr_int(node, "dtype", 0), "dtype") : otherwise;
}

static void random_numbers(Import *im, const OnnxNode *node, Dtype dtype, int rank, Expr *const *shape)
{
    Graph *g = im->graph;
    bool normal = strncmp(node->op_type, "RandomNormal", strlen("RandomNormal")) == 0;
    if (!dtype_is_float(dtype)) import_error(im, node, "numbers of %s; wanted a float type", dtype_name(dtype));
    double low = attr_float(node, "low", 0);
    double shift = normal ? attr_float(node, "mean", 0) : low;
    double scale = normal ? attr_float(node, "scale", 1) : attr_float(node, "high", 1) - low;
    Value *v = draw(im, normal ? "normal" : "uniform", seed_of(im, node), dtype, rank, shape);
    if (scale != 1) v = b_mul(g, v, b_like(g, v, scale));
    if (shift != 0) v = b_add(g, v, b_like(g, v, shift));
    output(im, node, 0, v);
}

void import_Random(Import *im, const OnnxNode *node)
{
    int n;
    const int64_t *shape = attr_ints(node, "shape", &n);
    random_numbers(im, node, random_dtype(im, node, DTYPE_f32), n, int_exprs(im, shape, n));
}

void import_RandomLike(Import *im, const OnnxNode *node)
{
    Term *t = input_term(im, node, 0);
    random_numbers(im, node, random_dtype(im, node, t->dtype), t->rank, t->shape);
}

void import_Bernoulli(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *p = input(im, node, 0);
    Value *u = draw(im, "uniform", seed_of(im, node), p->dtype, p->rank, p->shape);
    output(im, node, 0, b_cast(g, b_binary(g, OP_lt, u, p), random_dtype(im, node, p->dtype)));
}

/* Classes drawn by their unnormalised log-probabilities: the largest of logits + Gumbel noise, -log(-log(u)). */
void import_Multinomial(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *logits = input(im, node, 0);
    if (logits->rank != 2) import_error(im, node, "probabilities are %s; wanted rank 2", type_text(im, logits));
    Expr *shape[] = {logits->shape[0], number(im, attr_int(node, "sample_size", 1)), logits->shape[1]};
    Value *u = draw(im, "uniform", seed_of(im, node), logits->dtype, 3, shape);
    u = b_binary(g, OP_max, u, b_like(g, u, 1e-20));
    Value *noise = b_unary(g, OP_neg, b_unary(g, OP_log, b_unary(g, OP_neg, b_unary(g, OP_log, u))));
    Value *y = b_arg(g, OP_arg_max, b_add(g, b_expand_dims(g, logits, 1), noise), 2, false);
    output(im, node, 0, b_cast(g, y, random_dtype(im, node, DTYPE_i32)));
}
