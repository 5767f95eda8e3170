/* The IR: what builders make of symbolic shapes, what they fold, order and pruning, the text form, and what the verifier catches.
 */
#define _POSIX_C_SOURCE 200809L
#include "ir/build.h"
#include "support/diag.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- helpers ---- */
typedef struct {
    Arena *arena;
    Symbols *s;
    Graph *g;
    Expr *batch, *seq;
} World;

static World world(void)
{
    World w = {.arena = arena_new()};
    w.s = symbols_new(w.arena);
    w.g = graph_new(w.arena, w.s, "train");
    w.batch = expr_symbol(w.s, "batch");
    w.seq = expr_symbol(w.s, "seq");
    symbol_declare(w.s, w.batch, 1, 64, 8);
    symbol_declare(w.s, w.seq, 1, 2048, 512);
    return w;
}

/* input(w, "x", DTYPE_f32, "batch, 2*seq, 768") */
static Value *input_of(World *w, Graph *g, Origin origin, const char *name, Dtype dtype, const char *dims)
{
    Expr *shape[8];
    int rank = 0;
    char text[200];
    snprintf(text, sizeof text, "%s", dims);
    for (char *dim = strtok(text, ","); dim; dim = strtok(NULL, ",")) shape[rank++] = expr_parse(w->s, dim);
    return graph_input(g, name, dtype, rank, shape, origin);
}

static Value *input(World *w, const char *name, Dtype dtype, const char *dims)
{
    return input_of(w, w->g, FROM_BATCH, name, dtype, dims);
}

static void assert_shape(World *w, const Value *v, const char *wanted)
{
    Buf out = {.arena = w->arena};
    for (int i = 0; i < v->rank; i++) {
        if (i) buf_put(&out, ", ");
        expr_print(&out, v->shape[i]);
    }
    assert_string_equal(buf_text(&out), wanted);
}

static void assert_number(const Value *v, double wanted)
{
    double x = 0;
    assert_true(value_is_scalar_constant(v, &x));
    assert_true(x == wanted);
}

static const char *text_of(World *w, const Graph *g)
{
    Buf out = {.arena = w->arena};
    graph_print(&out, g);
    return buf_text(&out);
}

/* Exit status of what f does in a process of its own; its words, on standard error, go to said. */
static int status_of(void (*f)(void *), void *context, char *said, size_t room)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        f(context);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t n;
    while (length + 1 < room && (n = read(ends[0], said + length, room - length - 1)) > 0) length += (size_t)n;
    said[length] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- builders ---- */
static void broadcasts_as_numpy(void **state)
{
    (void)state;
    World w = world();
    Value *x = input(&w, "x", DTYPE_f32, "batch, seq, 768"), *bias = input(&w, "bias", DTYPE_f32, "768");
    Value *y = b_add(w.g, x, bias);
    assert_shape(&w, y, "batch, seq, 768");
    assert_int_equal(y->def->in[1]->def->kind, OP_broadcast);
    assert_int_equal(op_ints(y->def->in[1]->def, ATTR_axes, NULL)[0], 2);
    Value *column = input(&w, "column", DTYPE_f32, "seq, 1"), *row = input(&w, "row", DTYPE_f32, "seq");
    assert_shape(&w, b_binary(w.g, OP_lt, column, row), "seq, seq");
    Value *scaled = b_mul(w.g, x, b_like(w.g, x, 2));
    assert_int_equal(scaled->def->in[1]->def->kind, OP_broadcast);
    assert_int_equal(op_attr(scaled->def->in[1]->def, ATTR_axes)->n, 0);
    Value *other = input(&w, "other", DTYPE_f32, "batch, length, 768"); /* nobody said that length is seq: now it is stated */
    b_add(w.g, x, other);
    assert_true(expr_always_equal(w.s, other->shape[1], w.seq));
    graph_verify(w.g, "test");
    arena_free(w.arena);
}

static void folds_what_changes_nothing(void **state)
{
    (void)state;
    World w = world();
    Value *x = input(&w, "x", DTYPE_f32, "batch, seq, 768");
    Expr *flat[] = {expr_mul(w.s, w.batch, w.seq), expr_int(w.s, 768)};
    Value *rows = b_reshape(w.g, x, 2, flat);
    assert_shape(&w, rows, "batch*seq, 768");
    assert_ptr_equal(b_reshape(w.g, rows, 3, x->shape), x);
    int64_t back[] = {2, 0, 1}, forth[] = {1, 2, 0};
    assert_ptr_equal(b_transpose(w.g, b_transpose(w.g, x, back), forth), x);
    assert_ptr_equal(b_cast(w.g, x, DTYPE_f32), x);
    assert_ptr_equal(b_slice_axis(w.g, x, 1, expr_int(w.s, 0), w.seq), x);
    assert_ptr_equal(b_reduce(w.g, OP_reduce_sum, x, NULL, 0), x);
    assert_ptr_equal(b_concat(w.g, &x, 1, 0), x);
    assert_ptr_equal(b_mul(w.g, x, b_number(w.g, DTYPE_f32, 1)), x);
    assert_ptr_equal(b_sub(w.g, x, b_number(w.g, DTYPE_f32, 0)), x);
    assert_ptr_not_equal(b_add(w.g, x, b_number(w.g, DTYPE_f32, 0)), x); /* -0 + 0 is 0 */
    assert_ptr_equal(b_add(w.g, x, b_number(w.g, DTYPE_f32, -0.0)), x);
    Value *one = input(&w, "one", DTYPE_f32, "1");
    assert_shape(&w, b_mul(w.g, b_number(w.g, DTYPE_f32, 1), one), "1");
    Expr *large[] = {w.batch, w.seq};
    assert_shape(&w, b_mul(w.g, one, b_full(w.g, DTYPE_f32, 1, 2, large)), "batch, seq"); /* neutral, but widens */
    Value *column = input(&w, "column", DTYPE_f32, "batch, 1");
    assert_int_equal(b_swap_last(w.g, column)->def->kind, OP_reshape);
    graph_verify(w.g, "test");
    arena_free(w.arena);
}

static void folds_arithmetic_of_constants(void **state)
{
    (void)state;
    World w = world();
    Value *two = b_number(w.g, DTYPE_f32, 2), *third = b_div(w.g, b_number(w.g, DTYPE_f32, 1), b_number(w.g, DTYPE_f32, 3));
    assert_number(b_mul(w.g, two, two), 4);
    assert_number(third, (double)(1.0f / 3.0f));
    assert_number(b_cast(w.g, b_number(w.g, DTYPE_f32, -2.7), DTYPE_i64), -2);
    assert_number(b_cast(w.g, b_number(w.g, DTYPE_f32, 1.0 + 1.0 / 256), DTYPE_bf16), 1); /* half way: to even */
    assert_number(b_cast(w.g, b_number(w.g, DTYPE_f32, 65520), DTYPE_f16), (double)__builtin_inff());
    assert_number(b_cast(w.g, b_number(w.g, DTYPE_f32, 5.9604645e-8), DTYPE_f16), 5.9604644775390625e-8); /* least subnormal */
    assert_number(b_binary(w.g, OP_mod, b_number(w.g, DTYPE_i64, -7), b_number(w.g, DTYPE_i64, 3)), 2);
    assert_number(b_binary(w.g, OP_rem, b_number(w.g, DTYPE_i64, -7), b_number(w.g, DTYPE_i64, 3)), -1);
    assert_number(b_add(w.g, b_number(w.g, DTYPE_u8, 250), b_number(w.g, DTYPE_u8, 10)), 4);
    Value *less = b_binary(w.g, OP_lt, two, third);
    assert_int_equal(less->dtype, DTYPE_bool);
    assert_number(less, 0);
    Expr *shape[] = {w.batch, w.seq};
    Value *sum = b_add(w.g, b_full(w.g, DTYPE_f32, 2, 2, shape), two);
    assert_shape(&w, sum, "batch, seq");
    assert_number(sum, 4);
    arena_free(w.arena);
}

static void multiplies_matrices_as_onnx(void **state)
{
    (void)state;
    World w = world();
    Value *x = input(&w, "x", DTYPE_f32, "batch, seq, 768"), *weight = input(&w, "w", DTYPE_f32, "768, 64");
    Value *y = b_matmul(w.g, x, weight);
    assert_shape(&w, y, "batch, seq, 64");
    assert_int_equal(y->def->kind, OP_reshape);
    assert_shape(&w, y->def->in[0], "batch*seq, 64");
    Value *q = input(&w, "q", DTYPE_f32, "batch, 12, seq, 64"), *k = input(&w, "k", DTYPE_f32, "batch, 12, seq, 64");
    Value *scores = b_matmul(w.g, q, b_swap_last(w.g, k));
    assert_shape(&w, scores, "batch, 12, seq, seq");
    assert_int_equal(op_int(scores->def, ATTR_trans_b), 1);
    assert_ptr_equal(scores->def->in[1], k);
    Value *shared = input(&w, "shared", DTYPE_f32, "12, 64, 5");
    assert_shape(&w, b_matmul(w.g, q, shared), "batch, 12, seq, 5");
    Value *vector = input(&w, "vector", DTYPE_f32, "64");
    assert_shape(&w, b_matmul(w.g, q, vector), "batch, 12, seq");
    assert_shape(&w, b_matmul(w.g, vector, shared), "12, 5");
    assert_shape(&w, b_matmul(w.g, vector, vector), "");
    Value *tied = b_matmul(w.g, x, b_swap_last(w.g, input(&w, "wte", DTYPE_f32, "50257, 768")));
    assert_int_equal(op_int(tied->def->in[0]->def, ATTR_trans_b), 1);
    Value *few = input(&w, "few", DTYPE_f32, "12, seq, 64"); /* transposed and broadcast: the swap still goes into dot */
    assert_int_equal(op_int(b_matmul(w.g, q, b_swap_last(w.g, few))->def, ATTR_trans_b), 1);
    graph_verify(w.g, "test");
    arena_free(w.arena);
}

static void reduces_and_sums_back(void **state)
{
    (void)state;
    World w = world();
    Value *x = input(&w, "x", DTYPE_f32, "batch, seq, 768");
    int64_t outer[] = {1, 0};
    assert_shape(&w, b_reduce(w.g, OP_reduce_sum, x, outer, 2), "768");
    assert_shape(&w, b_reduce_keep(w.g, OP_reduce_max, x, outer, 2), "1, 1, 768");
    assert_shape(&w, b_reduce_mean(w.g, x, outer, 2, true), "1, 1, 768");
    Expr *bias[] = {expr_int(w.s, 768)}, *column[] = {w.seq, expr_int(w.s, 1)};
    assert_shape(&w, b_sum_to(w.g, x, 1, bias), "768");
    assert_shape(&w, b_sum_to(w.g, x, 2, column), "seq, 1");
    assert_ptr_equal(b_sum_to(w.g, x, 3, x->shape), x);
    Value *thin = input(&w, "thin", DTYPE_f32, "batch, 1");
    int64_t last = 1;
    assert_int_equal(b_reduce(w.g, OP_reduce_sum, thin, &last, 1)->def->kind, OP_reshape);
    graph_verify(w.g, "test");
    arena_free(w.arena);
}

static Window window_3x3(World *w)
{
    Window win = {.rank = 2, .groups = 1};
    for (int i = 0; i < 2; i++) {
        win.stride[i] = 2;
        win.dilation[i] = 1;
        win.window[i] = 3;
        win.low[i] = win.high[i] = expr_int(w->s, 1);
    }
    return win;
}

static void slides_windows(void **state)
{
    (void)state;
    World w = world();
    Window win = window_3x3(&w);
    Value *x = input(&w, "x", DTYPE_f32, "batch, 8, 32, height"), *kernel = input(&w, "kernel", DTYPE_f32, "16, 8, 3, 3");
    Value *y = b_conv(w.g, x, kernel, &win);
    assert_int_equal(y->rank, 4);
    assert_true(expr_is(y->shape[2], 16));
    assert_true(y->shape[3] == expr_parse(w.s, "(height - 1)//2 + 1"));
    Window back = op_window(y->def);
    assert_int_equal(back.window[1], 3);
    b_conv_grad_input(w.g, y, kernel, &win, x->shape);
    b_conv_grad_weight(w.g, y, x, &win, kernel->shape);
    graph_verify(w.g, "test");
    arena_free(w.arena);
}

/* ---- whole graphs ---- */
static void replaces_sorts_and_prunes(void **state)
{
    (void)state;
    World w = world();
    Value *x = input(&w, "x", DTYPE_f32, "batch");
    Value *a = b_unary(w.g, OP_exp, x), *b = b_unary(w.g, OP_tanh, a), *dead = b_unary(w.g, OP_sin, x);
    vec_push(w.arena, &w.g->outputs, b);
    Value *wrapped = b_unary(w.g, OP_log, a); /* a becomes log(a) for its user, not for itself */
    graph_replace(w.g, a, wrapped);
    assert_ptr_equal(b->def->in[0], wrapped);
    assert_ptr_equal(wrapped->def->in[0], a);
    assert_int_equal(a->users.n, 1);
    graph_sort(w.g);
    graph_prune(w.g);
    graph_verify(w.g, "test");
    assert_int_equal(w.g->ops.n, 3);
    assert_ptr_equal(w.g->ops.at[1], wrapped->def);
    assert_int_equal(x->users.n, 1);
    (void)dead;
    Value **map;
    Graph *copy = graph_clone(w.g, "copy", &map);
    graph_verify(copy, "clone");
    assert_ptr_equal(copy->outputs.at[0], map[b->id]);
    arena_free(w.arena);
}

static void sorts_assigns_after_commit_and_readers(void **state)
{
    (void)state;
    World w = world();
    Value *weight = input_of(&w, w.g, FROM_WEIGHT, "w", DTYPE_f32, "8");
    Value *old = b_unary(w.g, OP_exp, weight);
    b_assign(w.g, weight, old);
    Value *reader = b_unary(w.g, OP_sin, weight);
    int64_t all = 0;
    b_commit(w.g, b_reduce(w.g, OP_reduce_sum, reader, &all, 1));
    graph_sort(w.g);
    graph_verify(w.g, "sort");
    assert_int_equal(w.g->ops.at[w.g->ops.n - 1]->kind, OP_assign);
    arena_free(w.arena);
}

static void stays_linear(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    World w = world();
    Value *x = input(&w, "x", DTYPE_f32, "batch"), *v = x;
    for (int i = 0; i < LONG; i++) v = b_unary(w.g, i % 2 ? OP_tanh : OP_neg, v);
    vec_push(w.arena, &w.g->outputs, v);
    for (int i = LONG - 1; i >= 0; i--) /* every neg goes: each a replacement */
        if (w.g->ops.at[i]->kind == OP_neg) graph_replace(w.g, w.g->ops.at[i]->out[0], w.g->ops.at[i]->in[0]);
    graph_sort(w.g);
    graph_prune(w.g);
    assert_int_equal(w.g->ops.n, LONG / 2);
    graph_verify(w.g, "test");
    arena_free(w.arena);
}

/* ---- text ---- */
static Graph *scan_body(World *w)
{
    Graph *g = graph_new(w->arena, w->s, "body");
    Value *h = input_of(w, g, FROM_PARAMETER, "h", DTYPE_f32, "batch, 8");
    Value *x = input_of(w, g, FROM_PARAMETER, "x", DTYPE_f32, "batch, 8");
    Value *next = b_unary(g, OP_tanh, b_add(g, h, x));
    vec_push(w->arena, &g->outputs, next);
    vec_push(w->arena, &g->outputs, next);
    return g;
}

/* Each row's largest, and the sum of all rows, a block of rows at a time. */
static Op *loop_over_blocks(World *w, Value *rows)
{
    Graph *g = graph_new(w->arena, w->s, "body");
    Value *x = input_of(w, g, FROM_PARAMETER, "x", DTYPE_f32, "block, 8");
    vec_push(w->arena, &g->outputs, b_reduce(g, OP_reduce_sum, x, (const int64_t[]){0}, 1));
    vec_push(w->arena, &g->outputs, b_reduce(g, OP_reduce_max, x, (const int64_t[]){1}, 1));
    return b_blocks(w->g, g, &rows, 1, 1, 1, x->shape[0], expr_int(w->s, 32));
}

static Graph *while_body(World *w)
{
    Graph *g = graph_new(w->arena, w->s, "body");
    Value *i = input_of(w, g, FROM_PARAMETER, "i", DTYPE_i64, ""), *h = input_of(w, g, FROM_PARAMETER, "h", DTYPE_f32, "batch, 8");
    vec_push(w->arena, &g->outputs, b_binary(g, OP_lt, i, b_number(g, DTYPE_i64, 3)));
    vec_push(w->arena, &g->outputs, b_unary(g, OP_sin, h));
    return g;
}

static Graph *branch_body(World *w, OpKind kind)
{
    Graph *g = graph_new(w->arena, w->s, kind == OP_sin ? "then" : "else");
    vec_push(w->arena, &g->outputs, b_unary(g, kind, input_of(w, g, FROM_PARAMETER, "h", DTYPE_f32, "batch, 8")));
    return g;
}

static void add_elementwise(World *w)
{
    Graph *g = w->g;
    Value *x = input(w, "real", DTYPE_f32, "batch, seq"), *i = input(w, "integer", DTYPE_i32, "batch, seq");
    Value *c = input(w, "truth", DTYPE_bool, "batch, seq");
    for (int k = OP_neg; k <= OP_is_nan; k++) b_unary(g, (OpKind)k, x);
    b_unary(g, OP_not, c);
    b_unary(g, OP_bit_not, i);
    b_cast(g, x, DTYPE_bf16);
    b_random_at(g, "normal", 7, DTYPE_f32, b_cast(g, i, DTYPE_u64));
    for (int k = OP_add; k <= OP_le; k++) b_binary(g, (OpKind)k, x, x);
    for (int k = OP_and; k <= OP_xor; k++) b_binary(g, (OpKind)k, c, c);
    for (int k = OP_bit_and; k <= OP_shift_right; k++) b_binary(g, (OpKind)k, i, i);
    b_select(g, c, x, b_unary(g, OP_neg, x));
}

static void add_sources_and_index(World *w)
{
    Graph *g = w->g;
    g->source = "/wte/\"Gather\"\\\n";
    Value *x = input(w, "x", DTYPE_f32, "batch, seq, 8"), *ids = input(w, "ids", DTYPE_i64, "batch, seq");
    float few[] = {1, -0.0f, 0.1f, 3.4e38f}, many[20] = {1.5f};
    int64_t four = 4, twenty = 20;
    b_constant(g, DTYPE_f32, 1, &four, few);
    b_constant(g, DTYPE_f32, 1, &twenty, many);
    b_number(g, DTYPE_f16, 0.1);
    b_number(g, DTYPE_f64, 1.0 / 3);
    b_number(g, DTYPE_bool, 1);
    b_number(g, DTYPE_f32, -(double)__builtin_inff());
    b_iota(g, DTYPE_i64, 1, 2, x->shape);
    b_dims(g, x->shape, 3);
    b_dim(g, expr_parse(w->s, "Min(seq, 2*(batch//2))"));
    b_random(g, "normal", 7, DTYPE_f32, 2, x->shape);
    b_add(g, x, b_number(g, DTYPE_f32, 3));
    Expr *flat[] = {expr_parse(w->s, "8*batch*seq")}, *start[] = {expr_parse(w->s, "seq - 1")};
    int64_t swap[] = {1, 0, 2}, step = -1;
    Value *vector = b_reshape(g, x, 1, flat);
    b_transpose(g, x, swap);
    b_slice(g, vector, start, &step, &w->seq);
    b_pad(g, vector, b_number(g, DTYPE_f32, 0), start, &step, flat);
    Value *parts[] = {x, x};
    b_concat(g, parts, 2, 1);
    Value *table = input_of(w, g, FROM_WEIGHT, "table", DTYPE_f32, "100, 8");
    Value *rows = b_gather(g, table, ids, 0);
    b_scatter(g, table, ids, rows, 0, "add");
    b_nonzero(g, x, "found");
    b_unique(g, b_reshape(g, ids, 1, (Expr *[]){expr_parse(w->s, "batch*seq")}), true, "distinct");
}

static void add_the_rest(World *w)
{
    Graph *g = w->g;
    Value *x = graph_find_input(g, "x"), *y, *index, *image = input(w, "image", DTYPE_f32, "batch, 8, 32, 32");
    Value *kernel = input_of(w, g, FROM_WEIGHT, "kernel", DTYPE_f32, "16, 8, 3, 3");
    int64_t last = 2;
    g->source = "/rest";
    for (int k = OP_reduce_sum; k <= OP_reduce_min; k++) b_reduce(g, (OpKind)k, x, &last, 1);
    b_bitcast(g, x, DTYPE_i32);
    b_arg(g, OP_arg_max, x, 2, true);
    b_arg(g, OP_arg_min, x, 2, false);
    b_cumulative(g, OP_cum_sum, x, 1, true, false);
    b_cumulative(g, OP_cum_prod, x, 1, false, true);
    b_top_k(g, x, 2, expr_int(w->s, 3), true, &y, &index);
    Value *product = b_dot(g, x, x, false, true);
    b_dot_add(g, product->def, product);
    Window win = window_3x3(w);
    Value *out = b_conv(g, image, kernel, &win);
    b_conv_grad_input(g, out, kernel, &win, image->shape);
    b_conv_grad_weight(g, out, image, &win, kernel->shape);
    b_pool_max(g, image, &win, &y, &index);
    b_pool_max_grad(g, y, index, &win, image->shape);
    b_pool_sum_grad(g, b_pool_sum(g, image, &win), &win, image->shape);
    b_softmax(g, OP_softmax, x, 2);
    b_softmax(g, OP_log_softmax, x, 2);
}

static void add_regions_and_effects(World *w)
{
    Graph *g = w->g;
    Value *h = input(w, "h", DTYPE_f32, "batch, 8"), *xs = input(w, "xs", DTYPE_f32, "seq, batch, 8");
    Value *condition = input(w, "condition", DTYPE_bool, ""), *lr = input_of(w, g, FROM_HYPER, "lr", DTYPE_f32, "");
    g->role = "gradient";
    Value *scanned[] = {h, xs}, *captured[] = {condition, h};
    Op *scan = b_scan(g, scan_body(w), scanned, 2, 1, 1, true, w->seq);
    assert_shape(w, scan->out[1], "seq, batch, 8");
    b_while(g, while_body(w), captured, 2, 1);
    const Op *blocks = loop_over_blocks(w, h);
    assert_shape(w, blocks->out[0], "8");
    assert_shape(w, blocks->out[1], "batch");
    g->source = "";
    b_branch(g, branch_body(w, OP_sin), branch_body(w, OP_cos), captured, 2);
    Value *weight = graph_find_input(g, "table"), *moment = input_of(w, g, FROM_STATE, "table.exp_avg", DTYPE_f32, "100, 8");
    Tensor *t = NEW(w->arena, Tensor), *m = NEW(w->arena, Tensor);
    *t = (Tensor){.name = "table", .rank = 2, .dims = {100, 8}, .trainable = true, .reason = "gather", .init = "normal(0.02)"};
    *m = (Tensor){.name = "table.exp_avg", .rank = 2, .dims = {100, 8}, .of = t, .init = "zeros"};
    weight->tensor = t;
    moment->tensor = m;
    b_commit(g, b_unary(g, OP_neg, lr));
    b_finite(g, b_unary(g, OP_abs, lr));
    b_assign(g, moment, b_mul(g, weight, lr));
    g->role = "optimizer";
    b_assign(g, weight, moment);
}

/* Queries of 3 groups share keys; scores are scaled by a capture. */
static void add_attention(World *w)
{
    Graph *g = w->g, *body = graph_new(w->arena, w->s, "body"), *derivative = graph_new(w->arena, w->s, "gradient");
    Value *q = input(w, "q", DTYPE_f32, "batch, 3, seq, 8"), *k = input(w, "keys", DTYPE_f32, "batch, 5, 8"),
          *v = input(w, "values", DTYPE_f32, "batch, 5, 4"), *captured = input(w, "factor", DTYPE_f32, "");
    Expr **shape = attention_scores(g, q, k);
    for (int i = 0; i < 2; i++) {
        Graph *of = i ? derivative : body;
        graph_input(of, "scores", DTYPE_f32, 4, shape, FROM_PARAMETER);
        if (i) graph_input(of, "gradient", DTYPE_f32, 4, shape, FROM_PARAMETER);
        Value *factor = graph_input(of, "factor", DTYPE_f32, 0, NULL, FROM_PARAMETER);
        vec_push(w->arena, &of->outputs, b_mul(of, of->inputs.at[i], factor));
    }
    Op *op = b_attention(g, body, q, k, v, &captured, 1);
    assert_shape(w, op->out[0], "batch, 3, seq, 4");
    assert_shape(w, op->out[1], "batch, 3, seq");
    AttentionParts parts = attention_parts(op);
    parts.delta = op->out[2];
    Op *back = b_attention_gradient(g, graph_clone(body, "body", NULL), derivative, op->out[0], &parts, &captured, 1);
    assert_shape(w, back->out[2], "batch, 5, 4");
}

static World world_of_everything(void)
{
    World w = world();
    add_elementwise(&w);
    add_sources_and_index(&w);
    add_the_rest(&w);
    add_attention(&w);
    add_regions_and_effects(&w);
    w.g->output_names = NEW_ARRAY(w.arena, const char *, 1);
    w.g->output_names[0] = "loss";
    vec_push(w.arena, &w.g->outputs, w.g->ops.at[0]->out[0]);
    return w;
}

/* The second assign reads what the first overwrites, so the order must be mended first. */
static void round_trips_every_operation(void **state)
{
    (void)state;
    World w = world_of_everything();
    graph_sort(w.g);
    bool seen[OPS_COUNT] = {false};
    for (int i = 0; i < w.g->ops.n; i++) seen[w.g->ops.at[i]->kind] = true;
    for (int k = 0; k < OPS_COUNT; k++)
        if (!seen[k]) fail_msg("no %s in the test", op_info((OpKind)k)->name);
    graph_verify(w.g, "building");
    const char *text = text_of(&w, w.g);
    Arena *arena = arena_new();
    Graph *back = graph_parse(arena, symbols_new(arena), text);
    graph_verify(back, "parsing");
    Buf again = {.arena = arena};
    graph_print(&again, back);
    assert_string_equal(buf_text(&again), text);
    assert_int_equal(graph_find_input(back, "table.exp_avg")->tensor->of == graph_find_input(back, "table")->tensor, 1);
    Graph *copy = graph_clone(back, "train", NULL);
    graph_verify(copy, "cloning");
    arena_free(arena);
    arena_free(w.arena);
}

static void prints_as_documented(void **state)
{
    (void)state;
    World w = world();
    Value *x = input(&w, "x", DTYPE_f32, "batch, seq, 768");
    w.g->source = "/h.0/ln_2";
    w.g->role = "gradient";
    int64_t last = 2;
    vec_push(w.arena, &w.g->outputs, b_reduce(w.g, OP_reduce_sum, x, &last, 1));
    assert_string_equal(text_of(&w, w.g), "graph train(batch: 1..64 ~ 8, seq: 1..2048 ~ 512)\n"
                                          "  %0: f32[batch, seq, 768] = batch \"x\"\n"
                                          "  %1: f32[batch, seq] = reduce_sum %0, axes=[2]                                 "
                                          "\"/h.0/ln_2\" gradient\n"
                                          "  return %1\n");
    arena_free(w.arena);
}

static void keeps_facts_of_symbols(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "graph g(a: 0..1073741824 % 8, 'odd, name: \\'1': 2..9)\n  %0: f32[a, 'odd, name: \\'1'] = batch \"x\"\n  return %0\n",
        "graph g(a: 1..64 ~ 8, b: 1..64 ~ 8 = a)\n  %3: f32[a, b] = batch \"x\"\n  return %3 \"y\"\n",
        "graph g(n: 1..8, k: late <= 2*n)\n  %0: f32[n, k] = batch \"x\"\n  return %0\n",
    };
    for (int i = 0; i < 3; i++) {
        Arena *arena = arena_new();
        Buf out = {.arena = arena};
        graph_print(&out, graph_parse(arena, symbols_new(arena), texts[i]));
        assert_string_equal(buf_text(&out), texts[i]);
        arena_free(arena);
    }
}

static void parse_text(void *text)
{
    Arena *arena = arena_new();
    graph_parse(arena, symbols_new(arena), text);
}

static void says_where_text_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"graph g()\n  %0: f32[2] = batch \"x\"\n  %1: f32[2] = ad %0\n  return\n",
         "line 3: wanted an operation's name before this"},
        {"graph g()\n  %0: f32[2] = batch \"x\"\n  %1: f32[2] = add %0\n  return\n", "line 3: wanted another number of operands"},
        {"graph g()\n  %1: f32[2] = neg %0\n  return\n", "line 2: wanted a value made above"},
        {"graph g()\n  %0: f32[2] = batch \"x\"\n  %0: f32[2] = neg %0\n  return\n", "made only once"},
        {"graph g()\n  %0: f33[2] = batch \"x\"\n  return\n", "line 2: wanted an element type"},
        {"graph g()\n  %0: f32[n] = weight \"x\"\n  return\n", "line 2: wanted a weight or state whose dims are integers"},
        {"graph g()\n  %0: f32[2] = batch \"x\"\n", "wanted a value, an operation or return"},
        {"graph g()\n  %0: f32[2 = batch \"x\"\n  return\n", "line 2: wanted"},
        {"graph g()\n  %0: f32[2] = iota axis=0, axes=[1]\n  return\n", "an attribute of this operation"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[400];
        assert_int_equal(status_of(parse_text, (void *)cases[i].text, said, sizeof said), 2);
        if (!strstr(said, cases[i].wanted)) fail_msg("wanted \"%s\" in: %s", cases[i].wanted, said);
    }
}

/* ---- the verifier ---- */
static void verify_text(void *text)
{
    Arena *arena = arena_new();
    graph_verify(graph_parse(arena, symbols_new(arena), text), "a pass");
}

static void catches_wrong_graphs(void **state)
{
    (void)state;
#define X2 "graph g(n: 1..8)\n  %0: f32[n, 2] = batch \"x\"\n  %1: i64[n] = batch \"i\"\n  %2: f32[2] = weight \"w\"\n"
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {X2 "  %3: f32[n, 3] = neg %0 \"node\"\n  return\n", "neg \"node\": shapes differ: 2, wanted 3"},
        {X2 "  %3: f32[n] = add %1, %1\n  return\n", "gives f32, wanted i64"},
        {X2 "  %3: f32[n, 2] = eq %0, %0\n  return\n", "gives f32, wanted bool"},
        {X2 "  %3: f32[n] = reduce_sum %0, axes=[2]\n  return\n", "axes outside"},
        {X2 "  %3: f32[2, n] = transpose %0, axes=[0, 1]\n  return\n", "a moved dim"},
        {X2 "  %3: f32[2, n] = transpose %0\n  return\n", "no attribute axes"},
        {X2 "  %3: f32[n] = reshape %0\n  return\n", "elements: n, wanted 2*n"},
        {X2 "  %3: f32[n, 2] = gather %0, %1, axis=1\n  return\n", "a dim: 2, wanted n"},
        {X2 "  %3: f32[n, n] = dot %0, %0, trans_a=0, trans_b=0\n  return\n", "inner dims"},
        {X2 "  %3: f32[4] = constant data=[1, 2]\n  return\n", "8 bytes of data for 4 elements"},
        {X2 "  %3: f32[2] = cast %2\n  assign %0, %0\n  return\n", "neither weight nor state"},
        {X2 "  assign %2, %2\n  %3: f32[2] = neg %2\n  return\n", "after it was assigned"},
        {X2 "  assign %2, %2\n  %3: f32[] = constant data=[1]\n  commit %3\n  return\n", "an assign before the commit"},
        {X2 "  %3: f32[] = constant data=[1]\n  finite %3\n  commit %3\n  return\n", "comes before the commit"},
        {X2 "  %3: f32[n, 4] = concat %0, %0, axis=0\n  return\n", "a dim of a part"},
        {X2 "  %3: f32[2] = scan %2, carries=1, slices=0, reverse=0 {\n    %0: f32[3] = parameter \"h\"\n    return %0\n  }\n  "
            "return\n",
         "shapes differ: 3, wanted 2"},
        {X2 "  %3: f32[n] = blocks %0, slices=1, sums=0, block=[block, 16] {\n    %0: f32[n, 4] = parameter \"x\"\n"
            "    %1: f32[n] = reduce_sum %0, axes=[1]\n    return %1\n  }\n  return\n",
         "has no rows of a block"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[600];
        int status = status_of(verify_text, (void *)cases[i].text, said, sizeof said);
        if (status != 1 || !strstr(said, cases[i].wanted))
            fail_msg("status %d; wanted \"%s\" in: %s", status, cases[i].wanted, said);
    }
}

static void verify_world(void *w)
{
    graph_verify(((World *)w)->g, "a pass");
}

static void catches_broken_order_and_users(void **state)
{
    (void)state;
    char said[600];
    for (int broken = 0; broken < 3; broken++) {
        World w = world();
        Value *x = input(&w, "x", DTYPE_f32, "batch"), *a = b_unary(w.g, OP_exp, x), *b = b_unary(w.g, OP_tanh, a);
        static const char *const wanted[] = {"is not made before", "users its list misses", "is made nowhere"};
        Op *first = w.g->ops.at[0];
        if (broken == 0) {
            w.g->ops.at[0] = w.g->ops.at[1];
            w.g->ops.at[1] = first;
        } else if (broken == 1)
            b->def->in[0] = x;
        else {
            w.g->ops.n = 1;
            vec_push(w.arena, &w.g->outputs, b);
        }
        assert_int_equal(status_of(verify_world, &w, said, sizeof said), 1);
        if (!strstr(said, wanted[broken])) fail_msg("wanted \"%s\" in: %s", wanted[broken], said);
        arena_free(w.arena);
    }
}

/* exp(x) + c, called x and node; other: 1 another dim, 2 another operation, 3 another constant, 4 a hyper of another name */
static const char *text_alike(World *w, const char *x, const char *node, int other)
{
    Graph *g = graph_new(w->arena, w->s, "apart");
    g->source = node;
    Value *v = input_of(w, g, FROM_BATCH, x, DTYPE_f32, other == 1 ? "batch, 5" : "batch, 4");
    Value *rate = input_of(w, g, FROM_HYPER, other == 4 ? "beta1" : "lr", DTYPE_f32, "");
    const float number = other == 3 ? 2 : 3;
    Value *sum = b_binary(g, OP_add, b_unary(g, other == 2 ? OP_tanh : OP_exp, v), b_constant(g, DTYPE_f32, 0, NULL, &number));
    vec_push(w->arena, &g->outputs, b_binary(g, OP_mul, sum, rate));
    const char *text = graph_alike(w->arena, g);
    assert_non_null(text);
    return text;
}

static void finds_graphs_alike(void **state)
{
    (void)state;
    World w = world();
    const char *first = text_alike(&w, "x", "/a/Exp", 0);
    assert_string_equal(first, text_alike(&w, "hidden", "/b/Exp", 0));
    for (int other = 1; other <= 4; other++) assert_string_not_equal(first, text_alike(&w, "x", "/a/Exp", other));
    arena_free(w.arena);
}

/* Outputs that are marked are told as those that are looked for, also where one is replaced meanwhile or a value is new. */
static void marks_outputs(void **state)
{
    (void)state;
    World w = world();
    Graph *g = graph_new(w.arena, w.s, "marked");
    Value *x = input_of(&w, g, FROM_BATCH, "x", DTYPE_f32, "4"), *y = b_unary(g, OP_exp, x), *z = b_unary(g, OP_tanh, x);
    vec_push(w.arena, &g->outputs, y);
    graph_mark_outputs(g, w.arena);
    assert_true(graph_is_output(g, y));
    assert_false(graph_is_output(g, z));
    Value *later = b_unary(g, OP_neg, x);
    assert_false(graph_is_output(g, later));
    graph_replace(g, y, later);
    assert_true(graph_is_output(g, later));
    assert_false(graph_is_output(g, y));
    graph_unmark_outputs(g);
    assert_true(graph_is_output(g, later));
    arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_outputs),
        cmocka_unit_test(broadcasts_as_numpy),
        cmocka_unit_test(folds_what_changes_nothing),
        cmocka_unit_test(folds_arithmetic_of_constants),
        cmocka_unit_test(multiplies_matrices_as_onnx),
        cmocka_unit_test(reduces_and_sums_back),
        cmocka_unit_test(slides_windows),
        cmocka_unit_test(replaces_sorts_and_prunes),
        cmocka_unit_test(sorts_assigns_after_commit_and_readers),
        cmocka_unit_test(stays_linear),
        cmocka_unit_test(round_trips_every_operation),
        cmocka_unit_test(prints_as_documented),
        cmocka_unit_test(keeps_facts_of_symbols),
        cmocka_unit_test(says_where_text_is_wrong),
        cmocka_unit_test(catches_wrong_graphs),
        cmocka_unit_test(catches_broken_order_and_users),
        cmocka_unit_test(finds_graphs_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
