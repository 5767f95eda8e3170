/* TfIdfVectorizer: how often sequences of numbers stand in a row of numbers. */
#include "onnx/formulas.h"
#include <string.h>

typedef struct {
    const int64_t *pool, *starts, *columns; /* grams of 1 number, of 2…; where those of each length begin; a column a gram */
    int n_pool, n_starts, n_columns;
    int columns_all;
} Pool;

static Pool pool_of(Import *im, const OnnxNode *node)
{
    Pool p = {0};
    p.pool = attr_ints(node, "pool_int64s", &p.n_pool);
    p.starts = attr_ints(node, "ngram_counts", &p.n_starts);
    p.columns = attr_ints(node, "ngram_indexes", &p.n_columns);
    if (!p.pool) import_error(im, node, "a pool of strings; wanted pool_int64s: text is made numbers before it comes here");
    for (int i = 0; i < p.n_columns; i++) {
        if (p.columns[i] < 0 || p.columns[i] > 1 << 24)
            import_error(im, node, "ngram_indexes holds %lld; wanted columns from 0", (long long)p.columns[i]);
        if (p.columns[i] >= p.columns_all) p.columns_all = (int)p.columns[i] + 1;
    }
    int64_t grams = 0;
    for (int k = 0; k < p.n_starts; k++) {
        int64_t end = k + 1 < p.n_starts ? p.starts[k + 1] : p.n_pool;
        if (p.starts[k] < 0 || end < p.starts[k] || end > p.n_pool || (end - p.starts[k]) % (k + 1))
            import_error(im, node, "ngram_counts do not divide a pool of %d numbers into grams", p.n_pool);
        grams += (end - p.starts[k]) / (k + 1);
    }
    if (grams != p.n_columns) import_error(im, node, "%d ngram_indexes for %lld grams", p.n_columns, (long long)grams);
    return p;
}

/* Row x (.., n): how often each of `count` grams of `length` numbers, `step` apart, stands in it, as f32 (.., count). */
static Value *occurrences(Graph *g, Value *x, const int64_t *grams, int64_t count, int length, int step)
{
    int last = x->rank - 1;
    Value *place = b_iota(g, DTYPE_i64, 0, 1, &x->shape[last]), *n = b_dim(g, x->shape[last]), *zero = b_number(g, DTYPE_i64, 0);
    Value *match = b_expand_dims(g, less(g, shifted(g, place, (double)(length - 1) * step), n), 1); /* (n, 1) */
    for (int j = 0; j < length; j++) {
        int64_t *number_j = NEW_ARRAY(g->arena, int64_t, count);
        for (int64_t k = 0; k < count; k++) number_j[k] = grams[k * length + j];
        Value *at = shifted(g, place, (double)j * step), *inside = b_select(g, less(g, at, n), at, zero);
        Value *seen = b_expand_dims(g, b_gather(g, x, inside, last), last + 1); /* (.., n, 1) */
        match = both(g, match, equal(g, seen, b_constant(g, DTYPE_i64, 1, &count, number_j)));
    }
    const int64_t axes[] = {last};
    return b_reduce(g, OP_reduce_sum, b_cast(g, match, DTYPE_f32), axes, 1);
}

/* What an occurrence of gram i adds to each column: a row of zeros but for its own. */
static Value *column_weights(Import *im, const OnnxNode *node, const Pool *p, int first, int64_t count, bool weighted)
{
    int n;
    const double *weights = attr_floats(node, "weights", &n);
    if (weights && n != p->n_columns) import_error(im, node, "%d weights for %d grams", n, p->n_columns);
    float *rows = NEW_ARRAY(im->arena, float, count * p->columns_all + 1);
    for (int64_t i = 0; i < count; i++)
        rows[i * p->columns_all + p->columns[first + i]] = weighted && weights ? (float)weights[first + i] : 1;
    return b_constant(im->graph, DTYPE_f32, 2, (int64_t[]){count, p->columns_all}, rows);
}

/* X (n) or (batch, n): counts (TF), weights of those that occur (IDF), or their product (TFIDF), in a column a gram. */
void import_TfIdfVectorizer(Import *im, const OnnxNode *node)
{
    Graph *g = im->graph;
    Value *x = input(im, node, 0), *sum = NULL;
    Pool p = pool_of(im, node);
    const char *mode = attr_string(node, "mode", "TF");
    int64_t least = attr_int(node, "min_gram_length", 1), most = attr_int(node, "max_gram_length", 1),
            skips = attr_int(node, "max_skip_count", 0);
    want_rank(im, node, x, 1, 2, "X (n) or (batch, n)");
    if (strcmp(mode, "TF") && strcmp(mode, "IDF") && strcmp(mode, "TFIDF"))
        import_error(im, node, "mode is \"%s\"; wanted TF, IDF or TFIDF", mode);
    x = b_cast(g, x, DTYPE_i64);
    int first = 0;
    for (int k = 0; k < p.n_starts; k++) {
        int length = k + 1;
        int64_t end = k + 1 < p.n_starts ? p.starts[k + 1] : p.n_pool, count = (end - p.starts[k]) / length;
        Value *times = NULL;
        for (int64_t skip = 0; count && length >= least && length <= most && skip <= (length > 1 ? skips : 0); skip++) {
            Value *here = occurrences(g, x, p.pool + p.starts[k], count, length, (int)skip + 1);
            times = times ? b_add(g, times, here) : here;
        }
        if (times) {
            if (strcmp(mode, "IDF") == 0) times = b_binary(g, OP_min, times, b_like(g, times, 1));
            Value *part = b_matmul(g, times, column_weights(im, node, &p, first, count, strcmp(mode, "TF") != 0));
            sum = sum ? b_add(g, sum, part) : part;
        }
        first += (int)count;
    }
    Expr *shape[] = {x->shape[0], number(im, p.columns_all)};
    output(im, node, 0, sum ? sum : b_full(g, DTYPE_f32, 0, x->rank, x->rank == 2 ? shape : shape + 1));
}
