/* Tests the compression: unpack(pack(x)) == x, and repetitions become short. A damaged or truncated
 * form is refused, or unpacks to other bytes within the bound. */
#include "tests/lib/testlib.h"

#include "proto/base/arena.h"
#include "proto/base/lz.h"

#define CAP ((size_t)1 << 20)

static struct hsp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new(4 * CAP);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

/* Returns the length of the compressed form. */
static size_t both_ways(const void *data, size_t len)
{
    struct hsp_buf b;
    struct hsp_cursor c;
    hsp_buf_init(&b, 2 * CAP);
    hsp_lz_pack(data, len, &b);
    assert_int_equal(hsp_buf_status(&b), HSP_OK);
    hsp_lz_unpack(b.data, b.len, len, arena, &c);
    assert_int_equal(hsp_cur_left(&c), len);
    assert_true(memcmp(hsp_cur_bytes(&c, len), data, len) == 0);
    assert_true(hsp_cur_done(&c));
    if (len > 0) {
        hsp_lz_unpack(b.data, b.len, len - 1, arena, &c);
        assert_true(c.failed && !c.nomem);
    }
    size_t n = b.len;
    hsp_buf_fini(&b);
    hsp_arena_reset(arena);
    return n;
}

static void the_example_of_the_header(void **state)
{
    (void)state;
    const char *text = "[0, 1, 2, 3], [0, 1, 2, 3]";
    struct hsp_buf b;
    hsp_buf_init(&b, CAP);
    hsp_lz_pack(text, strlen(text), &b);
    assert_int_equal(b.len, 18);
    assert_memory_equal(b.data, "\x1a\x0e[0, 1, 2, 3], \x04\x0e", 18);
    hsp_buf_fini(&b);
}

/* Runs, and pieces of earlier bytes, between random bytes. */
static void all_bytes_come_back(void **state)
{
    (void)state;
    uint8_t *data = malloc(CAP);
    assert_non_null(data);
    assert_int_equal(both_ways("", 0), 1);
    assert_int_equal(both_ways("x", 1), 3);
    for (uint64_t t = 0; t < 200; t++) {
        size_t len = 0, want = (size_t)hsp_test_range("len", t, 0, t < 100 ? 40 : 20000);
        for (uint64_t i = 0; len < want; i++) {
            uint64_t at = t * 100000 + i;
            size_t n = (size_t)hsp_test_range("piece", at, 1, 60);
            size_t back = (size_t)hsp_test_range("back", at, 0, (int64_t)len);
            n = n < want - len ? n : want - len;
            for (size_t k = 0; k < n; k++, len++) {
                data[len] = back > 0 ? data[len - back] : (uint8_t)hsp_test_rand("byte", at + k);
            }
        }
        assert_true(both_ways(data, len) <= len + 2 + 3 + 3);
    }
    free(data);
}

static void what_repeats_itself_becomes_short(void **state)
{
    (void)state;
    struct hsp_buf b;
    hsp_buf_init(&b, CAP);
    for (uint32_t i = 0; i < 1000; i++) {
        hsp_buf_printf(&b, "  - {op: linear, makes: \"h.[0-2].attn.q\", of: [%u, %u]}\n", i, i + 1);
    }
    assert_in_range(both_ways(b.data, b.len), 1, b.len / 4);
    hsp_buf_reset(&b);
    for (uint32_t i = 0; i < 100000; i++) {
        hsp_buf_u8(&b, 'x');
    }
    assert_in_range(both_ways(b.data, b.len), 1, 10);
    hsp_buf_fini(&b);
}

static bool reads(const struct hsp_buf *b, size_t len)
{
    struct hsp_cursor c;
    hsp_lz_unpack(b->data, len, CAP, arena, &c);
    assert_false(c.nomem);
    bool ok = !c.failed;
    hsp_arena_reset(arena);
    return ok;
}

static void what_is_no_short_form_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",                     /* no number */
        "\x02",                 /* nothing follows */
        "\x02\x03xyz",          /* more bytes than there are to be */
        "\x01\x01xy",           /* more behind it */
        "\x0a\x01x\x01\x02",    /* before the begin */
        "\x0b\x01x\x02\x00",    /* from itself; the NUL is counted below */
        "\x0a\x01x\x02\x01",    /* a reference that is too long */
        "\xff\xff\xff\xff\xff", /* a number without an end */
        "\xff\xff\xff\xff\x7f", /* more than the bound */
    };
    struct hsp_buf b;
    hsp_buf_init(&b, CAP);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hsp_buf_reset(&b);
        hsp_buf_append(&b, bad[i], strlen(bad[i]) + (i == 5));
        assert_false(reads(&b, b.len));
    }
    hsp_buf_reset(&b);
    hsp_buf_puts(&b, "\x0a\x01x\x01\x01"); /* ten x */
    assert_true(reads(&b, b.len));
    hsp_buf_reset(&b);
    hsp_lz_pack("to be or not to be, not to be or to be", 38, &b);
    for (size_t n = 0; n < b.len; n++) {
        assert_false(reads(&b, n));
    }
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)reads(&b, b.len);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    hsp_buf_fini(&b);
}

static void what_does_not_fit_is_told(void **state)
{
    (void)state;
    struct hsp_buf b;
    struct hsp_cursor c;
    hsp_buf_init(&b, 10);
    hsp_lz_pack("no two bytes here", 17, &b);
    assert_int_equal(hsp_buf_status(&b), HSP_ELIMIT);
    hsp_buf_reset(&b);
    hsp_lz_pack("", (size_t)HSP_LZ_MAX + 1, &b);
    assert_int_equal(hsp_buf_status(&b), HSP_ELIMIT);
    hsp_lz_unpack("\xff\xff\xff\xff\x03", 5, HSP_LZ_MAX, arena, &c);
    assert_true(c.failed && c.nomem);
    hsp_buf_fini(&b);
}

HSP_TEST_FILE(lz_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_header),
        cmocka_unit_test(all_bytes_come_back),
        cmocka_unit_test(what_repeats_itself_becomes_short),
        cmocka_unit_test(what_is_no_short_form_is_refused),
        cmocka_unit_test(what_does_not_fit_is_told),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
