/* From graphs to text: what fuse groups, what schedule may not reorder, how long buffers live, what the folder holds.
 * test/golden/NAME.ir is a program up to its loss; gradient and AdamW are added, and model.cu must be NAME.cu beside it (UPDATE=1
 * rewrites). */
#define _GNU_SOURCE
#include "emit/controller.h"
#include "emit/folder.h"
#include "emit/step.h"
#include "support/diag.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
// clang-format off: cmocka wants the headers above first
#include <cmocka.h>
// clang-format on

typedef struct {
    Arena *arena;
    Symbols *s;
    Graph *g;
    Project project;
    Options options;
    Layout *layout;
    Groups *groups;
    Program *p;
    const char *kernels;
} World;

static const char *read_all(Arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    Buf out = {.arena = arena};
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof piece, file)) > 0;) buf_write(&out, piece, n);
    fclose(file);
    return buf_text(&out);
}

static World world(const char *text)
{
    World w = {.arena = arena_new()};
    w.s = symbols_new(w.arena);
    w.g = graph_parse(w.arena, w.s, text);
    return w;
}

static void train(World *w, const char *optimizer)
{
    w->options = (Options){.model = "models/test.onnx", .out = "build", .optimizer = optimizer, .precision = "fp32"};
    for (int i = 0; i < w->g->inputs.n; i++) {
        Value *v = w->g->inputs.at[i];
        if (v->origin == FROM_WEIGHT) v->tensor->trainable = true;
    }
    Value **gradients = pass_gradient(w->g);
    pass_optimizer(w->g, gradients, &w->options);
    pass_decompose(w->g);
    pass_fold(w->g);
    pass_simplify(w->g);
}

static void emit(World *w, bool no_fuse)
{
    w->groups = pass_fuse(w->g, no_fuse);
    pass_schedule(w->groups);
    Kernels *k = kernels_new(w->arena, w->s);
    Launches *launches = launches_of(w->arena, k, w->s, w->groups);
    Map *names = map_new(w->arena);
    launches_kernels(launches, names);
    const char **taken = NEW_ARRAY(w->arena, const char *, map_count(names) + 1);
    for (int i = 0; i < map_count(names); i++) taken[i] = map_key(names, i);
    w->layout = layout_new(w->arena, w->s);
    layout_add(w->layout, w->g);
    layout_name(w->layout, taken, map_count(names));
    w->p = program_make(w->layout, w->g->name, w->groups, launches);
    w->kernels = kernels_text(k);
    w->project = (Project){
        .options = &w->options, .train = w->g, .loss = {.text = "mse(y)"}, .settings = "disc-gen models/test.onnx -o build"};
}

/* ---- fuse ---- */
static const char chain[] = "graph infer(n: 1..64)\n"
                            "  %0: f32[n, 8] = batch \"x\"\n"
                            "  %1: f32[8] = weight \"b\", trainable=0\n"
                            "  %2: f32[n, 8] = exp %0\n"
                            "  %3: f32[n, 8] = broadcast %1, axes=[1]\n"
                            "  %4: f32[n, 8] = add %2, %3\n"
                            "  %5: f32[n, 8] = tanh %4\n"
                            "  %6: f32[n] = reduce_sum %5, axes=[1]\n"
                            "  return %6 \"y\"\n";

static bool in_list(const Values *values, const Value *v)
{
    for (int i = 0; i < values->n; i++)
        if (values->at[i] == v) return true;
    return false;
}

static void chain_joins_its_reduction(void **state)
{
    (void)state;
    World w = world(chain);
    Groups *groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.n, 1);
    assert_int_equal(groups->list.at[0]->kind, GROUP_REDUCE);
    assert_int_equal(groups->list.at[0]->ops.n, 5);
    assert_int_equal(groups->list.at[0]->in.n, 2);
    assert_int_equal(groups->list.at[0]->out.n, 1);
    arena_free(w.arena);
}

static void softmax_is_one_kernel(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[n, 8, 16] = batch \"x\"\n"
                    "  %1: f32[n, 8] = reduce_max %0, axes=[2]\n"
                    "  %2: f32[n, 8, 16] = broadcast %1, axes=[0, 1]\n"
                    "  %3: f32[n, 8, 16] = sub %0, %2\n"
                    "  %4: f32[n, 8, 16] = exp %3\n"
                    "  %5: f32[n, 8] = reduce_sum %4, axes=[2]\n"
                    "  %6: f32[n, 8, 1] = reshape %5\n"
                    "  %7: f32[n, 8, 16] = broadcast %6, axes=[0, 1, 2]\n"
                    "  %8: f32[n, 8, 16] = div %4, %7\n"
                    "  return %8 \"y\"\n");
    Groups *groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.n, 1);
    assert_int_equal(groups->list.at[0]->kind, GROUP_ROW);
    assert_int_equal(groups->list.at[0]->kept, 2);
    assert_int_equal(groups->list.at[0]->in.n, 1);
    assert_int_equal(groups->list.at[0]->out.n, 1);
    arena_free(w.arena);
}

/* A sum over columns that rows are divided by must be there before the first row. */
static void columns_are_not_rows(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[n, 16] = batch \"x\"\n"
                    "  %1: f32[16] = reduce_sum %0, axes=[0]\n"
                    "  %2: f32[n, 16] = broadcast %1, axes=[1]\n"
                    "  %3: f32[n, 16] = div %0, %2\n"
                    "  %4: f32[n] = reduce_sum %3, axes=[1]\n"
                    "  return %4 \"y\"\n");
    Groups *groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.n, 2);
    assert_int_equal(groups->list.at[0]->kind, GROUP_REDUCE);
    arena_free(w.arena);
}

/* x + b costs its later reader what reading it back would: it is not stored.  What a dot reads is. */
static void cheap_results_are_made_again(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[n, 16] = batch \"x\"\n"
                    "  %2: f32[16] = weight \"b\", trainable=0\n"
                    "  %3: f32[16, 16] = weight \"w\", trainable=0\n"
                    "  %4: f32[n, 16] = broadcast %2, axes=[1]\n"
                    "  %5: f32[n, 16] = add %0, %4\n"
                    "  %6: f32[n, 16] = tanh %5\n"
                    "  %7: f32[n, 16] = dot %6, %3, trans_a=0, trans_b=0\n"
                    "  %8: f32[n, 16] = mul %7, %5\n"
                    "  return %8 \"y\"\n");
    Groups *groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.n, 2);
    const Group *last = groups->list.at[1]; /* dot, and behind it the product with the sum */
    assert_int_equal(groups->list.at[0]->out.n, 1); /* tanh, which the dot reads; not the sum */
    assert_int_equal(last->in.n, 4);
    assert_true(in_list(&last->in, w.g->inputs.at[0]));
    arena_free(w.arena);
}

/* Two concats of the same parts walk the parts' shape together, and what makes the parts is computed once, in the same loop. */
static void concats_of_equal_parts_are_one_loop(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[n, 16] = batch \"x\"\n"
                    "  %1: f32[n, 16] = batch \"y\"\n"
                    "  %2: f32[n, 16] = exp %0\n"
                    "  %3: f32[n, 16] = mul %2, %1\n"
                    "  %4: f32[n, 32] = concat %2, %3, axis=1\n"
                    "  %5: f32[n, 48] = concat %3, %3, %0, axis=1\n"
                    "  return %4 \"two\", %5 \"three\"\n");
    emit(&w, false);
    assert_int_equal(w.groups->list.n, 1);
    assert_int_equal(w.groups->list.at[0]->out.n, 2);
    assert_int_equal(w.groups->list.at[0]->in.n, 2);
    const char *first = strstr(w.kernels, "expf(");
    assert_non_null(first);
    assert_null(strstr(first + 1, "expf("));
    arena_free(w.arena);
}

/* Loops that read the same tensor run beside each other, unless what reads the first comes before the second has run. */
static void loops_run_beside_each_other(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[n, 16] = batch \"x\"\n"
                    "  %1: f32[n, 16] = batch \"y\"\n"
                    "  %2: f32[n, 16] = exp %0\n"
                    "  %3: f32[n, 16] = mul %0, %1\n"
                    "  %4: f32[16, 16] = weight \"w\", trainable=0\n"
                    "  %5: f32[n, 16] = dot %2, %4, trans_a=0, trans_b=0\n"
                    "  %6: f32[n, 16] = dot %3, %4, trans_a=0, trans_b=0\n"
                    "  return %5 \"a\", %6 \"b\"\n");
    Groups *groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.n, 3);
    assert_int_equal(groups->list.at[0]->out.n, 2);
    arena_free(w.arena);
    w = world("graph infer(n: 1..64)\n"
              "  %0: f32[n, 16] = batch \"x\"\n"
              "  %2: f32[n, 16] = exp %0\n"
              "  %4: f32[16, 16] = weight \"w\", trainable=0\n"
              "  %5: f32[n, 16] = dot %2, %4, trans_a=0, trans_b=0\n"
              "  %3: f32[n, 16] = mul %0, %5\n"
              "  return %3 \"a\"\n");
    groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.at[0]->ops.n, 1);
    arena_free(w.arena);
}

/* A slice in one piece is a pointer into its operand; one of every row is not. */
static void pieces_are_read_where_they_lie(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[n, 16] = batch \"x\"\n"
                    "  %1: f32[48, 16] = weight \"table\", trainable=0\n"
                    "  %2: f32[16, 16] = slice %1, start=[32, 0], step=[1, 1]\n"
                    "  %3: f32[n, 16] = dot %0, %2, trans_a=0, trans_b=0\n"
                    "  %4: f32[n, 8] = slice %3, start=[0, 8], step=[1, 1]\n"
                    "  %5: f32[8, 8] = slice %1, start=[0, 8], step=[1, 1]\n"
                    "  %6: f32[n, 8] = dot %4, %5, trans_a=0, trans_b=0\n"
                    "  return %6 \"y\"\n");
    emit(&w, false);
    const Value *slice = w.g->ops.at[0]->out[0];
    assert_string_equal(program_place(w.p, slice)->pointer, "w->table + 512");
    int views = 0, loops = 0;
    for (int i = 0; i < w.groups->list.n; i++) {
        views += w.groups->list.at[i]->kind == GROUP_VIEW;
        loops += w.groups->list.at[i]->kind == GROUP_LOOP;
    }
    assert_int_equal(views, 1);
    assert_int_equal(loops, 2);
    arena_free(w.arena);
}

static void unfused_folds_broadcasts_alone(void **state)
{
    (void)state;
    World w = world(chain);
    Groups *groups = pass_fuse(w.g, true);
    assert_int_equal(groups->list.n, 4); /* exp; broadcast and add; tanh; reduce_sum */
    assert_int_equal(groups->list.at[1]->ops.n, 2);
    arena_free(w.arena);
}

static void expensive_chain_is_not_broadcast(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[8] = batch \"x\"\n"
                    "  %1: f32[8] = exp %0\n"
                    "  %2: f32[n, 8] = broadcast %1, axes=[1]\n"
                    "  %3: f32[n, 8] = tanh %2\n"
                    "  return %3 \"y\"\n");
    Groups *groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.n, 2);
    assert_int_equal(groups->list.at[0]->ops.at[0]->kind, OP_exp);
    arena_free(w.arena);
}

/* x is read by tanh and, through dot, by add: one kernel for tanh and add would need its own result first. */
static void no_group_needs_itself(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..64)\n"
                    "  %0: f32[n, 8] = batch \"x\"\n"
                    "  %1: f32[8, 8] = weight \"w\", trainable=0\n"
                    "  %2: f32[n, 8] = exp %0\n"
                    "  %3: f32[n, 8] = dot %2, %1, trans_a=0, trans_b=0\n"
                    "  %4: f32[n, 8] = add %2, %3\n"
                    "  return %4 \"y\"\n");
    Groups *groups = pass_fuse(w.g, false);
    assert_int_equal(groups->list.n, 2); /* exp; dot and add */
    pass_schedule(groups); /* a cycle would be an internal fault */
    arena_free(w.arena);
}

static void update_is_one_kernel(void **state)
{
    (void)state;
    World w = world(read_all(arena_new(), "test/golden/mlp.ir"));
    train(&w, "adamw");
    Groups *groups = pass_fuse(w.g, false);
    int updates = 0, copies = 0;
    for (int i = 0; i < groups->list.n; i++) {
        const Group *group = groups->list.at[i];
        copies += group->kind == GROUP_ASSIGN;
        if (!group->assigns.n) continue;
        updates++;
        assert_int_equal(group->assigns.n, 3); /* weight and two moments */
        assert_int_equal(group->out.n, 3);
    }
    assert_int_equal(updates, 3);
    assert_int_equal(copies, 0);
    arena_free(w.arena);
}

/* ---- schedule ---- */
static int place_in(const Groups *groups, const Group *group)
{
    for (int i = 0; i < groups->list.n; i++)
        if (groups->list.at[i] == group) return i;
    fail();
    return -1;
}

static void updates_follow_commit_and_readers(void **state)
{
    (void)state;
    World w = world(read_all(arena_new(), "test/golden/mlp.ir"));
    train(&w, "adamw");
    Groups *groups = pass_fuse(w.g, false);
    pass_schedule(groups);
    int commit = -1;
    for (int i = 0; i < groups->list.n; i++)
        if (groups->list.at[i]->kind == GROUP_COMMIT) commit = i;
    assert_true(commit > 0);
    for (int i = 0; i < groups->list.n; i++) {
        const Group *writer = groups->list.at[i];
        for (int a = 0; a < writer->assigns.n; a++) {
            assert_true(i > commit);
            for (int r = i + 1; r < groups->list.n; r++)
                for (int k = 0; k < groups->list.at[r]->in.n; k++)
                    assert_ptr_not_equal(groups->list.at[r]->in.at[k], writer->assigns.at[a]->in[0]);
        }
        for (int k = 0; k < writer->in.n; k++) { /* what is read was made before */
            for (int r = 0; r < groups->list.n; r++)
                for (int o = 0; o < groups->list.at[r]->out.n && groups->list.at[r]->kind != GROUP_ASSIGN; o++)
                    if (groups->list.at[r]->out.at[o] == writer->in.at[k]) assert_true(r < i);
        }
        assert_int_equal(place_in(groups, writer), i);
    }
    arena_free(w.arena);
}

/* Two wide results, each summed up at once: to make both before summing either would keep both alive. */
static void sums_before_it_widens_again(void **state)
{
    (void)state;
    World w = world("graph infer(n: 64..64 ~ 64)\n"
                    "  %0: f32[n] = batch \"x\"\n"
                    "  %1: f32[n, 64] = batch \"w\"\n"
                    "  %2: f32[n, 64] = cum_sum %1, axis=0, exclusive=0, reverse=0\n"
                    "  %3: f32[n, 64] = cum_sum %1, axis=1, exclusive=0, reverse=0\n"
                    "  %4: f32[n] = reduce_sum %2, axes=[1]\n"
                    "  %5: f32[n] = reduce_sum %3, axes=[1]\n"
                    "  return %4 \"a\", %5 \"b\"\n");
    Groups *groups = pass_fuse(w.g, false);
    pass_schedule(groups);
    assert_int_equal(groups->list.n, 4);
    assert_int_equal(groups->list.at[1]->kind, GROUP_REDUCE);
    arena_free(w.arena);
}

static void many_groups_in_little_time(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Symbols *s = symbols_new(arena);
    Graph *g = graph_new(arena, s, "infer");
    Expr *shape[] = {expr_symbol(s, "n")};
    Value *x = graph_input(g, "x", DTYPE_f32, 1, shape, FROM_BATCH), *last = x;
    for (int i = 0; i < 100000; i++) last = i % 2 ? b_cumulative(g, OP_cum_sum, last, 0, false, false) : b_unary(g, OP_tanh, last);
    vec_push(arena, &g->outputs, last);
    g->output_names = NEW_ARRAY(arena, const char *, 1);
    g->output_names[0] = "y";
    Groups *groups = pass_fuse(g, false);
    pass_schedule(groups);
    assert_int_equal(groups->list.n, 100000);
    arena_free(arena);
}

/* ---- cells ---- */
/* The kind of the group that a scan becomes whose body has these lines after the parameters h (n, size), x (n, size) and r. */
static GroupKind kind_of_scan(const char *size, const char *body, bool no_fuse)
{
    Arena *arena = arena_new();
    const char *text = arena_text(arena,
                                  "graph infer(n: 1..64 ~ 8, time: 1..512 ~ 32)\n"
                                  "  %%0: f32[n, %s] = batch \"h\"\n"
                                  "  %%1: f32[time, n, %s] = batch \"x\"\n"
                                  "  %%2: f32[%s, %s] = batch \"r\"\n"
                                  "  %%3: f32[n, %s] = scan %%0, %%1, %%2, carries=1, slices=1, reverse=0 {\n"
                                  "    %%0: f32[n, %s] = parameter \"h\"\n"
                                  "    %%1: f32[n, %s] = parameter \"x\"\n"
                                  "    %%2: f32[%s, %s] = parameter \"r\"\n"
                                  "%s  }\n"
                                  "  return %%3 \"y\"\n",
                                  size, size, size, size, size, size, size, size, size, body);
    World w = world(text);
    graph_verify(w.g, "parse");
    const GroupKind kind = pass_fuse(w.g, no_fuse)->list.at[0]->kind;
    arena_free(w.arena);
    arena_free(arena);
    return kind;
}

static void scans_whose_rows_never_meet_are_cells(void **state)
{
    (void)state;
    static const char plain[] = "    %3: f32[n, 8] = dot %0, %2, trans_a=0, trans_b=0\n"
                                "    %4: f32[n, 8] = add %3, %1\n"
                                "    %5: f32[n, 8] = tanh %4\n"
                                "    return %5\n";
    assert_int_equal(kind_of_scan("8", plain, false), GROUP_CELL);
    assert_int_equal(kind_of_scan("8", plain, true), GROUP_REGION);
    /* the mean over the batch */
    assert_int_equal(kind_of_scan("8",
                                  "    %3: f32[n, 8] = dot %0, %2, trans_a=0, trans_b=0\n"
                                  "    %4: f32[8] = reduce_sum %3, axes=[0]\n"
                                  "    %5: f32[n, 8] = broadcast %4, axes=[1]\n"
                                  "    return %5\n",
                                  false),
                     GROUP_REGION);
    /* each sample takes the state of another */
    assert_int_equal(kind_of_scan("8",
                                  "    %3: f32[n, 8] = dot %0, %2, trans_a=0, trans_b=0\n"
                                  "    %4: f32[n, 8] = slice %3, start=[n - 1, 0], step=[-1, 1]\n"
                                  "    %5: f32[n, 8] = add %4, %1\n"
                                  "    return %5\n",
                                  false),
                     GROUP_REGION);
    /* the matrix changes from step to step */
    assert_int_equal(kind_of_scan("8",
                                  "    %3: f32[8, 8] = dot %0, %1, trans_a=1, trans_b=0\n"
                                  "    %4: f32[n, 8] = dot %0, %3, trans_a=0, trans_b=0\n"
                                  "    return %4\n",
                                  false),
                     GROUP_REGION);
    /* every block would read 16 MiB in each step */
    assert_int_equal(kind_of_scan("2048",
                                  "    %3: f32[n, 2048] = dot %0, %2, trans_a=0, trans_b=0\n"
                                  "    return %3\n",
                                  false),
                     GROUP_REGION);
}

/* ---- programs ---- */
static const Item *first_of(const Items *items, ItemKind kind)
{
    for (int i = 0; i < items->n; i++)
        if (items->at[i]->kind == kind) return items->at[i];
    return NULL;
}

static const Buffer *buffer_named(const Program *p, const char *c)
{
    for (int b = 0; b < p->buffers.n; b++)
        if (strcmp(p->buffers.at[b].c, c) == 0) return &p->buffers.at[b];
    return NULL;
}

static void what_a_loop_reads_outlives_it(void **state)
{
    (void)state;
    World w = world(read_all(arena_new(), "test/golden/cell.ir"));
    w.g->name = "infer"; /* forward alone */
    emit(&w, true);
    const Item *loop = first_of(&w.p->items, ITEM_LOOP);
    assert_non_null(loop);
    int end = loop->body[0].at[loop->body[0].n - 1]->position;
    const Buffer *x = buffer_named(w.p, "x");
    assert_non_null(x);
    assert_true(x->last >= end);
    assert_string_equal(expr_text(w.arena, loop->length), "time");
    assert_int_equal(loop->locals.n, 2); /* a slice of x, a place in the stacked states */
    arena_free(w.arena);
}

static void every_position_is_within_the_lives(void **state)
{
    (void)state;
    World w = world(read_all(arena_new(), "test/golden/mlp.ir"));
    train(&w, "adamw");
    emit(&w, false);
    for (int i = 0; i < w.p->items.n; i++) {
        const Item *item = w.p->items.at[i];
        if (item->kind != ITEM_LAUNCH) continue;
        for (int a = 0; a < item->launch->args.n; a++) {
            if (item->launch->args.at[a].kind != ARG_VALUE) continue;
            int b = program_place(w.p, item->launch->args.at[a].value)->buffer;
            if (b < 0) continue;
            assert_true(w.p->buffers.at[b].first <= item->position && item->position <= w.p->buffers.at[b].last);
        }
    }
    arena_free(w.arena);
}

static void gradients_are_saved_once_each(void **state)
{
    (void)state;
    World w = world(read_all(arena_new(), "test/golden/mlp.ir"));
    train(&w, "sgd");
    emit(&w, false);
    int saved[3] = {0};
    for (int i = 0; i < w.p->items.n; i++)
        if (w.p->items.at[i]->kind == ITEM_SAVE) saved[w.p->items.at[i]->weight]++;
    for (int i = 0; i < 3; i++) assert_int_equal(saved[i], 1);
    arena_free(w.arena);
}

/* ---- names ---- */
static void names_are_c(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    assert_string_equal(c_name(arena, "/h.0/attn/MatMul"), "h_0_attn_matmul");
    assert_string_equal(c_name(arena, "2.weight"), "v_2_weight");
    assert_string_equal(c_name(arena, "::"), "value");
    Layout *l = layout_new(arena, symbols_new(arena));
    assert_string_equal(layout_unique(l, NULL, "for"), "for_2");
    assert_string_equal(layout_unique(l, NULL, "x"), "x");
    assert_string_equal(layout_unique(l, NULL, "x"), "x_2");
    assert_string_equal(c_string(arena, "a\"b\\c?"), "\"a\\\"b\\\\c\\077\"");
    Buf comment = {.arena = arena};
    comment_put(&comment, "a*/b");
    assert_null(strstr(buf_text(&comment), "*/"));
    arena_free(arena);
}

/* ---- guards ---- */
static bool guard_says(const Guards *guards, const char *formula)
{
    for (int g = 0; g < guards->list.n; g++)
        if (strcmp(guards->list.at[g].formula, formula) == 0) return true;
    return false;
}

static void guards_speak_of_shapes_and_content(void **state)
{
    (void)state;
    World w = world("graph infer(batch: 1..64 ~ 8, seq: 1..128)\n"
                    "  %0: i64[batch, seq] = batch \"ids\"\n"
                    "  %1: f32[batch, seq, 8] = batch \"mask\"\n"
                    "  %2: f32[50, 8] = weight \"table\", trainable=0\n"
                    "  %3: f32[batch, seq, 8] = gather %2, %0, axis=0  \"/wte/Gather\"\n"
                    "  %4: f32[batch, seq, 8] = mul %3, %1\n"
                    "  return %4 \"y\"\n");
    emit(&w, false);
    w.project.train = NULL;
    w.project.infer = w.g;
    Bindings bindings = bindings_make(w.layout);
    Guards guards = guards_make(&w.project, w.layout, &bindings, &w.p, 1);
    const char *wanted[] = {"mask.shape[1] == seq", "batch >= 1 && batch <= 64", "0 <= ids < 50"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!guard_says(&guards, wanted[i])) fail_msg("no guard says: %s", wanted[i]);
    assert_false(guard_says(&guards, "mask is finite")); /* a runner may be asked what an infinity becomes */
    w.project.train = w.g;
    guards = guards_make(&w.project, w.layout, &bindings, &w.p, 1);
    assert_true(guard_says(&guards, "mask is finite"));
    arena_free(w.arena);
}

static void dims_are_solved_where_no_size_is_one(void **state)
{
    (void)state;
    World w = world("graph infer(time: 1..64)\n"
                    "  %0: f32[2*time + 1] = batch \"x\"\n"
                    "  %1: f32[2*time + 1] = exp %0\n"
                    "  return %1 \"y\"\n");
    emit(&w, false);
    Bindings bindings = bindings_make(w.layout);
    assert_int_equal(bindings.list.n, 1);
    assert_non_null(strstr(bindings.list.at[0].c, "a->input[INPUT_X].dims[0]"));
    assert_int_equal(bindings.list.at[0].input, -1);
    arena_free(w.arena);
}

/* ---- the folder ---- */
static int status_of(void (*f)(const char *), const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        assert_non_null(freopen("/dev/null", "w", stderr));
        f(path);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void open_folder(const char *path)
{
    folder_open(arena_new(), path);
}

static void folder_over_a_file_is_the_users_error(void **state)
{
    (void)state;
    char path[] = "/tmp/disc-gen-emit-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(status_of(open_folder, path), 2);
    unlink(path);
}

static void write_twice(const char *path)
{
    Folder *f = folder_open(arena_new(), path);
    folder_text(f, "a/one.txt", "1");
    mkdir(arena_text(arena_new(), "%s/two.txt", path), 0777); /* a folder where a file is to go */
    folder_text(f, "two.txt", "2");
    folder_commit(f);
}

static void nothing_is_left_after_an_error(void **state)
{
    (void)state;
    char path[] = "/tmp/disc-gen-emit-XXXXXX", name[64], command[64];
    assert_non_null(mkdtemp(path));
    assert_int_equal(status_of(write_twice, path), 2);
    snprintf(name, sizeof name, "%s/a/one.txt", path);
    assert_int_not_equal(access(name, F_OK), 0);
    snprintf(name, sizeof name, "%s/a/one.txt.part", path);
    assert_int_not_equal(access(name, F_OK), 0);
    snprintf(command, sizeof command, "rm -r %s", path);
    assert_int_equal(system(command), 0);
}

/* ---- golden ---- */
static void check_golden(const char *name, bool trains)
{
    Arena *arena = arena_new();
    const char *path = arena_text(arena, "test/golden/%s.cu", name);
    World w = world(read_all(arena, arena_text(arena, "test/golden/%s.ir", name)));
    w.options = (Options){.model = "models/test.onnx", .out = "build"};
    if (trains) train(&w, "adamw");
    emit(&w, false);
    if (!trains) w.project.train = NULL;
    const char *text = model_cu(&w.project, w.layout, &w.p, 1, w.kernels), *wanted = read_all(arena, path);
    const char *update = getenv("UPDATE");
    if (update && *update) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fputs(text, file) < 0, 0);
        fclose(file);
    } else if (!wanted || strcmp(text, wanted) != 0) {
        int line = 1;
        const char *a = text, *b = wanted ? wanted : "";
        for (; *a && *a == *b; a++, b++) line += *a == '\n';
        fail_msg("%s differs at line %d: UPDATE=1 rewrites it, git diff shows how", path, line);
    }
    arena_free(w.arena);
    arena_free(arena);
}

static void golden_mlp(void **state)
{
    (void)state;
    check_golden("mlp", true);
}
static void golden_cell(void **state)
{
    (void)state;
    check_golden("cell", true);
}

static void golden_attention(void **state)
{
    (void)state;
    check_golden("attention", true);
}

static void golden_control(void **state)
{
    (void)state;
    check_golden("control", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_joins_its_reduction),
        cmocka_unit_test(softmax_is_one_kernel),
        cmocka_unit_test(columns_are_not_rows),
        cmocka_unit_test(cheap_results_are_made_again),
        cmocka_unit_test(concats_of_equal_parts_are_one_loop),
        cmocka_unit_test(loops_run_beside_each_other),
        cmocka_unit_test(pieces_are_read_where_they_lie),
        cmocka_unit_test(unfused_folds_broadcasts_alone),
        cmocka_unit_test(expensive_chain_is_not_broadcast),
        cmocka_unit_test(no_group_needs_itself),
        cmocka_unit_test(update_is_one_kernel),
        cmocka_unit_test(updates_follow_commit_and_readers),
        cmocka_unit_test(sums_before_it_widens_again),
        cmocka_unit_test(many_groups_in_little_time),
        cmocka_unit_test(scans_whose_rows_never_meet_are_cells),
        cmocka_unit_test(what_a_loop_reads_outlives_it),
        cmocka_unit_test(every_position_is_within_the_lives),
        cmocka_unit_test(gradients_are_saved_once_each),
        cmocka_unit_test(names_are_c),
        cmocka_unit_test(guards_speak_of_shapes_and_content),
        cmocka_unit_test(dims_are_solved_where_no_size_is_one),
        cmocka_unit_test(folder_over_a_file_is_the_users_error),
        cmocka_unit_test(nothing_is_left_after_an_error),
        cmocka_unit_test(golden_mlp),
        cmocka_unit_test(golden_cell),
        cmocka_unit_test(golden_attention),
        cmocka_unit_test(golden_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
