/* Papers of a job: read(write(x)) == x; whatever is damaged or cut is refused. */
#include "tests/lib/testlib.h"

#include "tests/unit/proto/wire/papers_sample.h"

static struct hsp_arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new(16 << 20);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

static void papers_read_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_papers p = papers_sample(), q;
    struct hsp_buf b, c;
    hsp_buf_init(&b, 1 << 20);
    hsp_buf_init(&c, 1 << 20);
    hsp_papers_write(&p, &b);
    assert_int_equal(hsp_buf_status(&b), HSP_OK);
    assert_ok(hsp_papers_read(b.data, b.len, arena, &q, &err), &err);
    assert_true(q.job == 7 && q.epoch == 9 && q.whose.generation == p.whose.generation);
    assert_true(hsp_digest_equal(q.whose.cluster, p.whose.cluster));
    assert_string_equal(q.name, "mist");
    assert_int_equal(q.n, 3);
    assert_string_equal(q.row[1].key, "job/7");
    assert_true(q.row[1].len == 3 && memcmp(q.row[1].value, "\0\1x", 3) == 0);
    assert_int_equal(q.row[2].len, 0);
    hsp_papers_write(&q, &c);
    assert_true(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
    hsp_buf_fini(&b);
    hsp_buf_fini(&c);
}

static void what_is_damaged_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_papers p = papers_sample(), q;
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_papers_write(&p, &b);
    for (size_t n = 0; n < b.len; n++) {
        assert_status(hsp_papers_read(b.data, n, arena, &q, &err), HSP_EDIGEST);
    }
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        bool form = bit / 8 >= 8 && bit / 8 < 12;
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_status(hsp_papers_read(b.data, b.len, arena, &q, &err),
                      form ? HSP_EVERSION : HSP_EDIGEST);
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_ok(hsp_papers_read(b.data, b.len, arena, &q, &err), &err);
    hsp_buf_u8(&b, 0);
    assert_status(hsp_papers_read(b.data, b.len, arena, &q, &err), HSP_EDIGEST);
    hsp_buf_fini(&b);
}

static void what_is_too_large_is_not_written(void **state)
{
    (void)state;
    struct hsp_papers p = papers_sample();
    struct hsp_buf b;
    hsp_buf_init(&b, 100);
    hsp_papers_write(&p, &b);
    assert_int_equal(hsp_buf_status(&b), HSP_ELIMIT);
    hsp_buf_fini(&b);
}

HSP_TEST_FILE(papers_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(papers_read_back),
        cmocka_unit_test(what_is_damaged_is_refused),
        cmocka_unit_test(what_is_too_large_is_not_written),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
