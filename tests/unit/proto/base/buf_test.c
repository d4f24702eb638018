#include "tests/lib/testlib.h"

#include "proto/base/arena.h"
#include "proto/base/buf.h"

static void numbers_are_little_endian_and_come_back(void **state)
{
    (void)state;
    struct hsp_buf b;
    hsp_buf_init(&b, 1000);
    hsp_buf_u8(&b, 0x12);
    hsp_buf_u16(&b, 0x1234);
    hsp_buf_u32(&b, 0x12345678U);
    hsp_buf_u64(&b, 0x123456789abcdef0ULL);
    static const uint8_t want[] = {0x12, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 0xf0,
                                   0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12};
    assert_int_equal(b.len, sizeof(want));
    assert_memory_equal(b.data, want, sizeof(want));
    hsp_buf_i64(&b, INT64_MIN);
    hsp_buf_f64(&b, -0.1);
    hsp_buf_str(&b, "hi");
    assert_false(b.failed);

    struct hsp_arena *a = hsp_arena_new(100);
    struct hsp_cursor c;
    hsp_cur_init(&c, b.data, b.len);
    assert_int_equal(hsp_cur_u8(&c), 0x12);
    assert_int_equal(hsp_cur_u16(&c), 0x1234);
    assert_int_equal(hsp_cur_u32(&c), 0x12345678U);
    assert_true(hsp_cur_u64(&c) == 0x123456789abcdef0ULL);
    assert_true(hsp_cur_i64(&c) == INT64_MIN);
    assert_near(hsp_cur_f64(&c), -0.1, 0.0);
    assert_false(hsp_cur_done(&c));
    assert_string_equal(hsp_cur_str(&c, 2, a), "hi");
    assert_true(hsp_cur_done(&c));
    hsp_arena_free(a);
    hsp_buf_fini(&b);
}

static void the_maximum_is_sticky(void **state)
{
    (void)state;
    struct hsp_buf b;
    hsp_buf_init(&b, 4);
    hsp_buf_printf(&b, "%s", "abc");
    hsp_buf_append(&b, "de", 2);
    assert_true(b.failed);
    hsp_buf_append(&b, "d", 1);
    assert_int_equal(b.len, 3);
    assert_string_equal(hsp_buf_cstr(&b), "");
    hsp_buf_reset(&b);
    hsp_buf_puts(&b, "wxyz");
    assert_false(b.failed);
    assert_string_equal(hsp_buf_cstr(&b), "wxyz");
    hsp_buf_fini(&b);
    assert_null(b.data);
}

static void growth_keeps_the_content(void **state)
{
    (void)state;
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    for (int i = 0; i < 10000; i++) {
        hsp_buf_printf(&b, "%d,", i % 10);
    }
    assert_int_equal(b.len, 20000);
    const char *s = hsp_buf_cstr(&b);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(s[2 * i], '0' + i % 10);
    }
    hsp_buf_fini(&b);
}

static void a_length_above_the_rest_fails(void **state)
{
    (void)state;
    struct hsp_arena *a = hsp_arena_new(1000);
    static const uint8_t evil[] = {0xff, 0xff, 0xff, 0xff, 'x'};
    struct hsp_cursor c;
    hsp_cur_init(&c, evil, sizeof(evil));
    assert_string_equal(hsp_cur_str(&c, SIZE_MAX, a), "");
    assert_true(c.failed);
    assert_int_equal(hsp_cur_u8(&c), 0); /* sticky: the 'x' is not reachable any more */
    assert_int_equal(hsp_cur_left(&c), 0);
    assert_false(hsp_cur_done(&c));

    hsp_cur_init(&c, evil, sizeof(evil));
    assert_int_equal(hsp_cur_count(&c, UINT32_MAX, 1), 0);
    assert_true(c.failed);

    static const uint8_t three[] = {3, 0, 0, 0, 'a', 'b', 'c'};
    hsp_cur_init(&c, three, sizeof(three));
    assert_int_equal(hsp_cur_count(&c, 3, 1), 3);
    hsp_cur_init(&c, three, sizeof(three));
    assert_int_equal(hsp_cur_count(&c, 2, 1), 0);
    hsp_cur_init(&c, three, sizeof(three));
    assert_int_equal(hsp_cur_count(&c, 3, 2), 0);
    hsp_cur_init(&c, three, sizeof(three));
    assert_string_equal(hsp_cur_str(&c, 2, a), "");
    assert_true(c.failed);
    hsp_cur_init(&c, "\3\0\0\0a\0c", 7);
    assert_string_equal(hsp_cur_str(&c, 3, a), "");
    assert_true(c.failed); /* a NUL inside a text */
    hsp_arena_free(a);
}

static void every_truncation_is_noticed(void **state)
{
    (void)state;
    struct hsp_buf b;
    hsp_buf_init(&b, 1000);
    hsp_buf_u16(&b, 1);
    hsp_buf_str(&b, "word");
    hsp_buf_f64(&b, 1.0);
    struct hsp_arena *a = hsp_arena_new(1000);
    for (size_t n = 0; n <= b.len; n++) {
        struct hsp_cursor c;
        hsp_cur_init(&c, b.data, n);
        (void)hsp_cur_u16(&c);
        (void)hsp_cur_str(&c, 10, a);
        (void)hsp_cur_f64(&c);
        assert_int_equal(hsp_cur_done(&c), n == b.len);
    }
    hsp_arena_free(a);
    hsp_buf_fini(&b);
}

static void an_empty_input_may_be_null(void **state)
{
    (void)state;
    struct hsp_cursor c;
    hsp_cur_init(&c, NULL, 0);
    assert_true(hsp_cur_done(&c));
    assert_non_null(hsp_cur_bytes(&c, 0));
    assert_null(hsp_cur_bytes(&c, 1));
    assert_null(hsp_cur_bytes(&c, 0));
}

HSP_TEST_FILE(buf_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_little_endian_and_come_back),
        cmocka_unit_test(the_maximum_is_sticky),
        cmocka_unit_test(growth_keeps_the_content),
        cmocka_unit_test(a_length_above_the_rest_fails),
        cmocka_unit_test(every_truncation_is_noticed),
        cmocka_unit_test(an_empty_input_may_be_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
