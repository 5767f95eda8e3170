/* The arena, arrays, maps, buffers, near names and the JSON writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "support/arena.h"
#include "support/diag.h"
#include "support/json.h"

static void test_arena(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 2 + 1) {
        unsigned char *at = arena_alloc(arena, bytes);
        assert_int_equal((uintptr_t)at % 16, 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(at[i], 0);
        memset(at, 0xff, bytes); /* what comes next must still be zero */
    }
    assert_string_equal(arena_text(arena, "%s.%d", "conv", 3), "conv.3");
    assert_string_equal(arena_copy(arena, "weights", 3), "wei");
    arena_free(arena);
    arena_free(NULL);
}

static void test_vec(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    VEC(int) list = {0};
    for (int i = 0; i < 1000; i++) vec_push(arena, &list, i * i);
    assert_int_equal(list.n, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(list.at[i], i * i);
    arena_free(arena);
}

static void test_map(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    Map *map = map_new(arena);
    int value[500];
    char key[16];
    assert_false(map_has(map, "k0"));
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "k%d", i);
        map_set(map, key, &value[i]); /* the key is copied: the same memory holds the next one */
    }
    map_set(map, "k7", NULL);
    map_set(map, "k8", &value[9]);
    assert_int_equal(map_count(map), 500);
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_string_equal(map_key(map, i), key); /* in order of arrival */
        assert_ptr_equal(map_get(map, key), i == 7 ? NULL : i == 8 ? &value[9] : &value[i]);
        assert_ptr_equal(map_value(map, i), map_get(map, key));
    }
    assert_true(map_has(map, "k7"));
    assert_null(map_get(map, "K7"));
    arena_free(arena);
}

static void test_buf(void **state)
{
    (void)state;
    Buf buf = {.arena = arena_new()};
    assert_string_equal(buf_text(&buf), "");
    for (int i = 0; i < 100; i++) buf_printf(&buf, "%d,", i);
    buf_put(&buf, "end");
    buf_write(&buf, "!?", 1);
    assert_int_equal(buf.length, 10 * 2 + 90 * 3 + 4);
    assert_memory_equal(buf_text(&buf), "0,1,2,", 6);
    assert_string_equal(buf_text(&buf) + buf.length - 7, "99,end!");
    arena_free(buf.arena);
}

static void test_near_names(void **state)
{
    (void)state;
    Arena *arena = arena_new();
    const char *names[] = {"transformer.wte.weight", "wpe.weight", "wte.weight", "ln_f.bias"};
    assert_string_equal(near_names(arena, "wte.wieght", names, 4), "\"wte.weight\", \"wpe.weight\"");
    assert_string_equal(near_names(arena, "wte", names, 4), "\"transformer.wte.weight\", \"wte.weight\"");
    assert_string_equal(near_names(arena, "LN_F.bias", names, 4), "\"ln_f.bias\"");
    assert_string_equal(near_names(arena, "optimizer", names, 4), "");
    assert_string_equal(near_names(arena, "optimizer", names, 0), "");
    arena_free(arena);
}

static void test_json(void **state)
{
    (void)state;
    Buf buf = {.arena = arena_new()};
    Json json = json_begin(&buf);
    json_object(&json, NULL);
    json_object_inline(&json, "dims");
    json_int(&json, "batch", 8);
    json_int(&json, "seq", INT64_MIN);
    json_close(&json);
    json_array(&json, "evicted");
    json_text(&json, NULL, "a\"b\\\n\x01\xc3\xa9\xff");
    json_text(&json, NULL, NULL);
    json_close(&json);
    json_array(&json, "empty");
    json_close(&json);
    json_real(&json, "share", 0.1);
    json_real(&json, "nan", NAN);
    json_bool(&json, "feasible", true);
    json_close(&json);
    assert_string_equal(buf_text(&buf), "{\n"
                                        "  \"dims\": {\"batch\": 8, \"seq\": -9223372036854775808},\n"
                                        "  \"evicted\": [\n"
                                        "    \"a\\\"b\\\\\\n\\u0001\xc3\xa9\\ufffd\",\n"
                                        "    null\n"
                                        "  ],\n"
                                        "  \"empty\": [],\n"
                                        "  \"share\": 0.1,\n"
                                        "  \"nan\": null,\n"
                                        "  \"feasible\": true\n"
                                        "}\n");
    arena_free(buf.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena), cmocka_unit_test(test_vec),        cmocka_unit_test(test_map),
        cmocka_unit_test(test_buf),   cmocka_unit_test(test_near_names), cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
