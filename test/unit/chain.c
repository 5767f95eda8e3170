/* Kernels that take the same rows in turn: which do, where they stand, and how the call reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>
#include "world.h"

static World of_case(const char *name)
{
    Arena *arena = arena_new();
    const char *text = read_all(arena, arena_text(arena, "test/kernels/cases/%s.ir", name));
    assert_non_null(text);
    World w = world(strstr(text, "graph"));
    arena_free(arena);
    return w;
}

static const Group *find(const Groups *groups, GroupKind kind)
{
    for (int i = 0; i < groups->list.n; i++)
        if (groups->list.at[i]->kind == kind && groups->list.at[i]->epilogue) return groups->list.at[i];
    return NULL;
}

static int links(const Group *group)
{
    int n = 0;
    for (const Group *k = group ? group->epilogue : NULL; k; k = k->epilogue) n++;
    return n;
}

/* Sums of the product's columns, the row kernel that reads it, sums of what that makes; the product lies where its last reader writes. */
static void chain_follows_a_product(void **state)
{
    (void)state;
    World w = of_case("chain");
    const Groups *groups = pass_fuse(w.g, false);
    const Group *group = find(groups, GROUP_DOT);
    assert_int_equal(links(group), 4);
    const GroupKind kinds[] = {GROUP_REDUCE, GROUP_REDUCE, GROUP_ROW, GROUP_REDUCE};
    const Group *k = group->epilogue;
    for (int i = 0; i < 4; i++, k = k->epilogue) {
        assert_int_equal(k->kind, kinds[i]);
        if (k->kind == GROUP_ROW) assert_ptr_equal(group->epilogue->place, k->out.at[0]);
    }
    for (int i = 0; i < group->out.n; i++) assert_ptr_not_equal(group->out.at[i], group->ops.at[0]->out[0]);
    assert_int_equal(groups->list.n, 2); /* with the next product */
    arena_free(w.arena);
}

/* Without a product; what reads rows of another order is not of it. */
static void chain_may_stand_alone(void **state)
{
    (void)state;
    World w = of_case("chain_alone");
    const Groups *groups = pass_fuse(w.g, false);
    const Group *group = find(groups, GROUP_CHAIN);
    assert_int_equal(links(group), 4);
    assert_int_equal(groups->list.n, 2);
    assert_int_equal(groups->list.at[1]->kind, GROUP_LOOP);
    assert_null(find(pass_fuse(w.g, true), GROUP_CHAIN));
    arena_free(w.arena);
}

/* What needs a sum over all rows waits for them. */
static void chain_ends_where_a_sum_is_read(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..4096 ~ 512)\n"
                    "  %0: f32[n, 96] = batch \"x\"\n"
                    "  %1: f32[96] = reduce_sum %0, axes=[0] \"a\" gradient\n"
                    "  %2: f32[96] = exp %1 \"a\" gradient\n"
                    "  %3: f32[n, 96] = broadcast %2, axes=[1] \"b\" gradient\n"
                    "  %4: f32[n, 96] = mul %0, %3 \"b\" gradient\n"
                    "  return %2 \"y\", %4 \"z\"\n");
    const Groups *groups = pass_fuse(w.g, false);
    assert_null(find(groups, GROUP_CHAIN));
    assert_int_equal(groups->list.n, 2);
    arena_free(w.arena);
}

/* A reader in between that another one waits for: the chain would wait for itself. */
static void chain_waits_for_nobody_that_waits_for_it(void **state)
{
    (void)state;
    World w = world("graph infer(n: 1..4096 ~ 512)\n"
                    "  %0: f32[n, 96] = batch \"x\"\n"
                    "  %1: f32[n, 96] = exp %0 \"a\" gradient\n"
                    "  %2: f32[96, n] = transpose %1, axes=[1, 0] \"t\" gradient\n"
                    "  %3: f32[96, n] = cum_sum %2, axis=1, exclusive=0, reverse=0 \"t\" gradient\n"
                    "  %4: f32[n, 96] = transpose %3, axes=[1, 0] \"t\" gradient\n"
                    "  %5: f32[n, 96] = mul %1, %4 \"b\" gradient\n"
                    "  %6: f32[96] = reduce_sum %5, axes=[0] \"b\" gradient\n"
                    "  return %6 \"y\", %1 \"z\"\n");
    const Groups *groups = pass_fuse(w.g, false);
    pass_schedule((Groups *)groups); /* a fault where groups wait for each other */
    assert_null(find(groups, GROUP_CHAIN));
    arena_free(w.arena);
}

static const char *step_of(const Groups *groups, World *w, int64_t *moved, int64_t n)
{
    Kernels *k = kernels_new(w->arena, w->s);
    Launches *launches = launches_of(w->arena, k, w->s, groups);
    Layout *layout = layout_new(w->arena, w->s);
    layout_add(layout, w->g);
    layout_name(layout, NULL, 0);
    Program *p = program_make(layout, w->g->name, groups, launches);
    Buf text = {.arena = w->arena};
    step_text(&text, layout, p, &(Guards){0});
    assert_true(expr_evaluate(w->s, p->moved, (int64_t[]){n, 1}, moved));
    return buf_text(&text);
}

/* One statement for all; rows that several read count once, what one makes and the next reads is written alone. */
static void chain_is_one_call(void **state)
{
    (void)state;
    World w = of_case("chain_alone");
    int64_t moved, apart;
    const char *text = step_of(pass_fuse(w.g, false), &w, &moved, 1000);
    const char *call = strstr(text, "in_turn(s, n*m,");
    assert_non_null(call);
    const char *end = strchr(call, ';');
    int n = 0;
    for (const char *e = call; (e = strstr(e, "EPILOGUE(s, ")) && e < end; e++) n++;
    assert_int_equal(n, 4);
    World unfused = of_case("chain_alone");
    step_of(pass_fuse(unfused.g, true), &unfused, &apart, 1000);
    assert_int_equal(moved, 4 * (1000 * 96 * 2 + 1000 * 96 + 3 * 96) + 4 * 1000 * 96 * 2); /* x, g, dx, three sums; dx turned */
    assert_true(apart > 2 * moved);
    arena_free(w.arena);
    arena_free(unfused.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_follows_a_product),
        cmocka_unit_test(chain_may_stand_alone),
        cmocka_unit_test(chain_ends_where_a_sum_is_read),
        cmocka_unit_test(chain_waits_for_nobody_that_waits_for_it),
        cmocka_unit_test(chain_is_one_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
