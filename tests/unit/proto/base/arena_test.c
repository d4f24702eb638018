#include "tests/lib/testlib.h"

#include "proto/base/arena.h"
#include "proto/base/vec.h"

static void memory_is_zeroed_aligned_and_distinct(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(1 << 20);
    unsigned char *prev = NULL;
    for (uint64_t i = 0; i < 500; i++) {
        size_t n = (size_t)hsp_test_range("arena", i, 0, 700);
        unsigned char *p = hsp_arena_alloc(a, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_ptr_not_equal(p, prev);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(p[k], 0);
        }
        memset(p, 0xAA, n);
        prev = p;
    }
    hsp_arena_reset(a);
    assert_int_equal(hsp_arena_used(a), 0);
    unsigned char *p = hsp_arena_alloc(a, 4000);
    for (size_t k = 0; k < 4000; k++) {
        assert_int_equal(p[k], 0); /* also memory that was used before */
    }
    assert_null(hsp_arena_free(a));
    assert_null(hsp_arena_free(NULL));
}

static void the_cap_is_hard_and_failure_changes_nothing(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(100);
    assert_int_equal(hsp_arena_cap(a), 100);
    assert_non_null(hsp_arena_alloc(a, 80));
    assert_int_equal(hsp_arena_used(a), 80);
    assert_null(hsp_arena_alloc(a, 21));
    assert_null(hsp_arena_alloc(a, SIZE_MAX));
    assert_null(hsp_arena_array(a, SIZE_MAX / 2, 3));
    assert_int_equal(hsp_arena_used(a), 80);
    assert_non_null(hsp_arena_alloc(a, 16));
    assert_null(hsp_arena_alloc(a, 1));
    hsp_arena_free(a);
}

static void rewind_gives_back_what_came_after(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(10 << 20);
    struct hsp_arena_position empty = hsp_arena_mark(a);
    char *keep = hsp_arena_strdup(a, "keep");
    struct hsp_arena_position m = hsp_arena_mark(a);
    size_t used = hsp_arena_used(a);
    char *first = hsp_arena_alloc(a, 8);
    for (int i = 0; i < 100; i++) {
        assert_non_null(hsp_arena_alloc(a, 5000)); /* several chunks */
    }
    hsp_arena_rewind(a, m);
    assert_int_equal(hsp_arena_used(a), used);
    assert_string_equal(keep, "keep");
    assert_ptr_equal(hsp_arena_alloc(a, 8), first);
    hsp_arena_rewind(a, empty);
    assert_int_equal(hsp_arena_used(a), 0);
    hsp_arena_free(a);
}

static void text_helpers_copy(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(4096);
    assert_string_equal(hsp_arena_strdup(a, ""), "");
    assert_string_equal(hsp_arena_strndup(a, "abcdef", 3), "abc");
    assert_string_equal(hsp_arena_strndup(a, "ab", 30), "ab");
    assert_string_equal(hsp_arena_printf(a, "%d-%s", 7, "x"), "7-x");
    assert_memory_equal(hsp_arena_memdup(a, "\0\1\2", 3), "\0\1\2", 3);
    assert_null(hsp_arena_printf(a, "%5000d", 1));
    hsp_arena_free(a);
}

static void grow_doubles_up_to_the_maximum(void **state)
{
    (void)state;
    uint32_t *v = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(hsp_grow(&v, &cap, i + 1, sizeof(*v), 100));
        assert_int_equal(v[i], 0);
        v[i] = i + 1;
    }
    assert_int_equal(cap, 100);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(v[i], i + 1);
    }
    uint32_t *before = v;
    assert_false(hsp_grow(&v, &cap, 101, sizeof(*v), 100));
    assert_false(hsp_grow(&v, &cap, SIZE_MAX / 2, sizeof(*v), SIZE_MAX));
    assert_ptr_equal(v, before);
    assert_int_equal(cap, 100);
    free(v);
}

HSP_TEST_FILE(arena_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_distinct),
        cmocka_unit_test(the_cap_is_hard_and_failure_changes_nothing),
        cmocka_unit_test(rewind_gives_back_what_came_after),
        cmocka_unit_test(text_helpers_copy),
        cmocka_unit_test(grow_doubles_up_to_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
