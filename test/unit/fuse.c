/* What fuse groups: which operations share a kernel, which do not, and what is stored. */
#include "emit/controller.h"
#include "emit/step.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
// clang-format off: cmocka wants the headers above first
#include <cmocka.h>
#include "world.h"
// clang-format on

static const char chain[] = "graph infer(n: 1..64)\n"
                            "  %0: f32[n, 8] = batch \"x\"\n"
                            "  %1: f32[8] = weight \"b\", trainable=0\n"
                            "  %2: f32[n, 8] = exp %0\n"
                            "  %3: f32[n, 8] = broadcast %1, axes=[1]\n"
                            "  %4: f32[n, 8] = add %2, %3\n"
                            "  %5: f32[n, 8] = tanh %4\n"
                            "  %6: f32[n] = reduce_sum %5, axes=[1]\n"
                            "  return %6 \"y\"\n";

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
    assert_true(values_hold(&last->in, w.g->inputs.at[0]));
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
    World w = world_of_file("test/golden/mlp.ir");
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
        cmocka_unit_test(scans_whose_rows_never_meet_are_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
