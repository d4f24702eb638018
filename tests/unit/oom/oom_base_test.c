/* Fails allocations of proto/base: calls that say "unchanged" are tried again on the same
 * object. */
#include "tests/lib/testlib.h"

#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/base/hash.h"
#include "proto/base/map.h"
#include "proto/base/vec.h"
#include "tests/lib/oom.h"

static const char *const words[] = {"tensor", "shard", "epoch", "rank", "home", "move", "seed"};

static enum hsp_status use_arena(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    struct hsp_arena *a = hsp_arena_new(8 << 20);
    enum hsp_status st = a != NULL ? HSP_OK : HSP_ENOMEM;
    for (size_t i = 0; st == HSP_OK && i < 7; i++) {
        struct hsp_arena_position m = hsp_arena_mark(a);
        size_t used = hsp_arena_used(a);
        const char *s = hsp_arena_strdup(a, words[i]);
        const char *t = hsp_arena_strndup(a, words[i], 3);
        const char *u = hsp_arena_memdup(a, words[i], 4);
        const char *v = hsp_arena_printf(a, "%s %zu", words[i], i);
        const uint8_t *big = hsp_arena_array(a, i + 1, 60000);
        if (s == NULL || t == NULL || u == NULL || v == NULL || big == NULL) {
            hsp_arena_rewind(a, m);
            assert_int_equal(hsp_arena_used(a), used);
            st = HSP_ENOMEM;
        } else {
            hsp_buf_printf(out, "%s %s %.4s %s %u\n", s, t, u, v, big[59999]);
        }
    }
    if (st == HSP_OK) {
        hsp_arena_reset(a);
        st = hsp_arena_alloc(a, 100) != NULL ? HSP_OK : HSP_ENOMEM;
    }
    hsp_arena_free(a);
    return st == HSP_OK ? st : hsp_err_set(err, st, 0, "arena");
}

static void an_arena_without_memory_gives_null(void **state)
{
    (void)state;
    hsp_oom_loop("arena", use_arena, NULL, 200);
}

#define FAILS(write)         \
    do {                     \
        hsp_oom_empty(&b);   \
        write;               \
        hsp_oom_nothing(&b); \
    } while (0)

static void every_writer_says_that_memory_ran_out(void **state)
{
    (void)state;
    struct hsp_buf b;
    FAILS(hsp_buf_u8(&b, 1));
    FAILS(hsp_buf_u16(&b, 1));
    FAILS(hsp_buf_u32(&b, 1));
    FAILS(hsp_buf_u64(&b, 1));
    FAILS(hsp_buf_i64(&b, 1));
    FAILS(hsp_buf_f64(&b, 1));
    FAILS(hsp_buf_str(&b, "a"));
    FAILS(hsp_buf_blob(&b, "a", 1));
    FAILS(hsp_buf_puts(&b, "a"));
    FAILS(hsp_buf_append(&b, "a", 1));
    FAILS(hsp_buf_printf(&b, "a"));
    hsp_buf_init(&b, 2);
    hsp_buf_puts(&b, "abc"); /* the maximum, not memory */
    assert_status(hsp_buf_status(&b), HSP_ELIMIT);
    hsp_buf_reset(&b);
    assert_status(hsp_buf_status(&b), HSP_OK);
    hsp_buf_fini(&b);
}

static enum hsp_status use_buffer(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    struct hsp_arena *a = hsp_arena_new(1 << 16);
    hsp_buf_u8(out, 1);
    hsp_buf_u16(out, 2);
    hsp_buf_u32(out, 3);
    hsp_buf_u64(out, 4);
    hsp_buf_i64(out, -5);
    hsp_buf_f64(out, 0.5);
    hsp_buf_str(out, "text");
    hsp_buf_blob(out, words, 5);
    hsp_buf_puts(out, "tail");
    for (int i = 0; i < 30; i++) {
        hsp_buf_printf(out, "%d %s", i, "a line that makes it grow again and again");
        hsp_buf_append(out, "abc", 3);
    }
    const char *c = hsp_buf_cstr(out);
    assert_true(out->failed == (c[0] == '\0'));
    struct hsp_cursor cur;
    static const uint8_t raw[] = {2, 0, 0, 0, 'h', 'i'};
    hsp_cur_init(&cur, raw, sizeof raw);
    const char *s = a != NULL ? hsp_cur_str(&cur, 10, a) : "";
    bool ok = s[0] == 'h' && hsp_cur_done(&cur);
    assert_true(ok || s[0] == '\0');
    hsp_arena_free(a);
    return ok ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "cursor");
}

static void a_buffer_without_memory_fails_and_stays_failed(void **state)
{
    (void)state;
    hsp_oom_loop("buffer", use_buffer, NULL, 200);
    struct hsp_buf b;
    hsp_buf_init(&b, 1000);
    hsp_buf_puts(&b, "kept");
    hsp_oom_arm(1, false);
    hsp_buf_puts(&b, "a text that needs more than the first sixty-four bytes of the buffer to fit");
    hsp_buf_u8(&b, 7); /* memory would be there again */
    assert_true(hsp_oom_disarm());
    assert_true(b.failed);
    assert_int_equal(b.len, 4);
    hsp_buf_reset(&b);
    hsp_buf_puts(&b, "again");
    assert_string_equal(hsp_buf_cstr(&b), "again");
    hsp_buf_fini(&b);
}

static void check_map(const struct hsp_map *m, uint32_t n, bool text)
{
    assert_int_equal(hsp_map_len(m), n);
    uint32_t v;
    for (uint32_t i = 0; i < n; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "key %u", i);
        assert_true(text ? hsp_map_get(m, key, &v) : hsp_map_get_u64(m, i, &v));
        assert_int_equal(v, i * 3);
    }
}

static void a_map_is_unchanged_when_a_key_finds_no_memory(void **state)
{
    (void)state;
    int64_t before = hsp_oom_live();
    for (int text = 0; text < 2; text++) {
        struct hsp_map m;
        hsp_map_init(&m, 1000);
        for (uint32_t i = 0; i < 100; i++) {
            char key[32];
            (void)snprintf(key, sizeof key, "key %u", i);
            for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) {
                t.st = text ? hsp_map_put(&m, key, i * 3) : hsp_map_put_u64(&m, i, i * 3);
                hsp_oom_end(&t);
                check_map(&m, t.failed ? i : i + 1, text);
            }
        }
        assert_true(text || hsp_map_remove_u64(&m, 5));
        hsp_map_clear(&m);
        hsp_map_fini(&m);
    }
    assert_int_equal(hsp_oom_live(), before);
}

static void an_array_that_cannot_grow_is_unchanged(void **state)
{
    (void)state;
    uint32_t *v = NULL;
    size_t cap = 0;
    for (size_t n = 1; n < 100; n++) {
        for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) {
            size_t old = cap;
            t.st = hsp_grow(&v, &cap, n, sizeof *v, 1000) ? HSP_OK : HSP_ENOMEM;
            hsp_oom_end(&t);
            assert_true(!t.failed || cap == old);
        }
        v[n - 1] = (uint32_t)n;
        assert_int_equal(v[(n - 1) / 2], (n - 1) / 2 + 1);
    }
    free(v);
}

static void a_hasher_without_memory_is_null(void **state)
{
    (void)state;
    for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) {
        struct hsp_hasher *h = hsp_hasher_new();
        t.st = h != NULL ? HSP_OK : HSP_ENOMEM;
        hsp_oom_end(&t);
        if (h != NULL) {
            hsp_hasher_update(h, "abc", 3);
            assert_true(hsp_digest_equal(hsp_hasher_digest(h), hsp_hash128("abc", 3)));
        }
        hsp_hasher_free(h);
    }
}

HSP_TEST_FILE(oom_base_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_without_memory_gives_null),
        cmocka_unit_test(every_writer_says_that_memory_ran_out),
        cmocka_unit_test(a_buffer_without_memory_fails_and_stays_failed),
        cmocka_unit_test(a_map_is_unchanged_when_a_key_finds_no_memory),
        cmocka_unit_test(an_array_that_cannot_grow_is_unchanged),
        cmocka_unit_test(a_hasher_without_memory_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
