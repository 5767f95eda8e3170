/* From groups to text: what schedule may not reorder, how long buffers live, what the folder holds.
 * test/golden/NAME.ir is a program up to its loss; gradient and AdamW are added, and model.cu must be NAME.cu beside it (UPDATE=1
 * rewrites). */
#define _GNU_SOURCE
#include "emit/names.h"
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
#include "world.h"
// clang-format on

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
    World w = world_of_file("test/golden/mlp.ir");
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
    World w = world_of_file("test/golden/cell.ir");
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
    World w = world_of_file("test/golden/mlp.ir");
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

/* Whether the kernels of what is done to x, named so in a graph of a few operations, begin with one of that name. */
static void expect_kernel(const char *operations, const char *name)
{
    Arena *text = arena_new();
    World w = world(arena_text(text,
                               "graph infer(n)\n  %%0: f32[n, 64] = batch \"x\"\n  %%1: f32[64] = weight \"bias\", trainable=1\n"
                               "  %%2: f32[n, 64] = broadcast %%1, axes=[1]\n%s  return %%9 \"y\"\n",
                               operations));
    emit(&w, false);
    const char *kernel = strstr(w.kernels, "__global__ void "), *wanted = arena_text(text, "%s(", name);
    assert_non_null(kernel);
    if (strncmp(kernel + 16, wanted, strlen(wanted)) != 0) fail_msg("wanted %s, found %.60s", name, kernel);
    arena_free(w.arena);
    arena_free(text);
}

static void kernels_are_called_by_what_they_are_for(void **state)
{
    (void)state;
    expect_kernel("  %3: f32[n, 64] = add %0, %2\n  %9: f32[n, 64] = relu %3\n", "bias_relu");
    expect_kernel("  %3: f32[n, 64] = add %0, %2\n  %4: f32[n, 64] = sigmoid %3\n  %9: f32[n, 64] = mul %3, %4\n", "bias_silu");
    expect_kernel("  %3: f32[n, 64] = sigmoid %0\n  %9: f32[n, 64] = mul %0, %3\n", "silu");
    expect_kernel("  %9: f32[n, 64] = add %0, %2\n", "add_bias");
    expect_kernel("  %3: f32[n, 64] = relu %0\n  %9: f32[n, 64] = sqrt %3\n", "relu_sqrt"); /* relu is a function */
    expect_kernel("  %9: f32[n, 64] = exp %0\n", "exp_each");
}

static void updates_are_given_what_they_replace_once(void **state)
{
    (void)state;
    World w = world_of_file("test/golden/mlp.ir");
    train(&w, "adamw");
    emit(&w, false);
    assert_non_null(strstr(w.kernels, "update(float *weight, WeightState<float> state, "));
    assert_non_null(strstr(w.kernels, "const float *gradient, Hypers hypers,"));
    assert_null(strstr(w.kernels, "new_weight"));
    assert_null(strstr(w.kernels, "const float *weight"));
    arena_free(w.arena);
    w = world_of_file("test/golden/mlp.ir");
    train(&w, "sgd");
    emit(&w, false);
    assert_non_null(strstr(w.kernels, "update(float *weight, "));
    arena_free(w.arena);
}

static void paths_say_each_module_once(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    assert_string_equal(short_path(arena, "/blocks/blocks.0/c1/Conv"), "/blocks.0/c1/Conv");
    assert_string_equal(short_path(arena, "/blocks/blocks.1/sc/sc.0/Conv"), "/blocks.1/sc.0/Conv");
    assert_string_equal(short_path(arena, "/block/blocks.0/Conv"), "/block/blocks.0/Conv");
    assert_string_equal(short_path(arena, "/h.0/attn/attn"), "/h.0/attn/attn");
    assert_string_equal(short_path(arena, "node_add"), "node_add");
    arena_free(arena);
}

static void gradients_are_saved_once_each(void **state)
{
    (void)state;
    World w = world_of_file("test/golden/mlp.ir");
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
    const IndexRange picks = {.n = expr_int(w.g->symbols, 50), .source = "/wte/Gather"};
    assert_true(graph_watch_range(w.g, graph_find_input(w.g, "ids"), picks));
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

static Arena *in_child; /* ends with it */

static void open_folder(const char *path)
{
    in_child = arena_new();
    folder_open(in_child, path);
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
    in_child = arena_new();
    Folder *f = folder_open(in_child, path);
    folder_text(f, "a/one.txt", "1");
    mkdir(arena_text(in_child, "%s/two.txt", path), 0777); /* a folder where a file is to go */
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

/* A loop over 8 elements that would store 4: a fault of the generator, found before it writes. */
static void store_another_shape(const char *unused)
{
    (void)unused;
    World w = world("graph infer()\n  %0: f32[8] = batch \"x\"\n  %1: f32[4] = batch \"z\"\n  %2: f32[8] = exp %0\n  %3: f32[4] = exp %1\n"
                    "  return %2 \"y\", %3 \"v\"\n");
    in_child = w.arena;
    Groups *groups = pass_fuse(w.g, false);
    Group *first = groups->list.at[0], *second = groups->list.at[1];
    vec_push(w.arena, &first->ops, second->ops.at[0]);
    vec_push(w.arena, &first->in, second->in.at[0]);
    vec_push(w.arena, &first->out, second->out.at[0]);
    GroupLaunches made;
    kernels_emit(kernels_new(w.arena, w.s), first, &made);
}

static void loops_store_the_shape_that_they_walk(void **state)
{
    (void)state;
    assert_int_equal(status_of(store_another_shape, ""), 1);
}

/* Which part of a tensor a row comes from is asked once a row: within the loop along it a select of loads would stand, three here. */
static void rows_in_another_order_are_found_once_a_row(void **state)
{
    (void)state;
    World w = world("graph infer()\n"
                    "  %0: f32[48, 16] = batch \"gates\"\n"
                    "  %1: f32[48] = batch \"bias\"\n"
                    "  %2: f32[16, 16] = slice %0, start=[16, 0], step=[1, 1]\n"
                    "  %3: f32[16, 16] = slice %0, start=[0, 0], step=[1, 1]\n"
                    "  %4: f32[16, 16] = slice %0, start=[32, 0], step=[1, 1]\n"
                    "  %5: f32[48, 16] = concat %2, %3, %4, axis=0\n"
                    "  %6: f32[48, 16] = broadcast %1, axes=[0]\n"
                    "  %7: f32[48, 16] = add %5, %6\n"
                    "  return %7 \"y\"\n");
    emit(&w, false);
    assert_non_null(strstr(w.kernels, "const Index from = row < 16 ? 256 : row < 32 ? -256 : 0;\n"));
    assert_null(strstr(w.kernels, "row < 16 ? gates["));
    arena_free(w.arena);
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
        cmocka_unit_test(updates_follow_commit_and_readers),
        cmocka_unit_test(sums_before_it_widens_again),
        cmocka_unit_test(many_groups_in_little_time),
        cmocka_unit_test(what_a_loop_reads_outlives_it),
        cmocka_unit_test(every_position_is_within_the_lives),
        cmocka_unit_test(paths_say_each_module_once),
        cmocka_unit_test(kernels_are_called_by_what_they_are_for),
        cmocka_unit_test(updates_are_given_what_they_replace_once),
        cmocka_unit_test(gradients_are_saved_once_each),
        cmocka_unit_test(names_are_c),
        cmocka_unit_test(loops_store_the_shape_that_they_walk),
        cmocka_unit_test(rows_in_another_order_are_found_once_a_row),
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
