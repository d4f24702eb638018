/* Tests the papers of a job (the records from which a coordinator takes over a job): read(write(x))
 * == x, and damaged or truncated papers are refused. */
#include "tests/lib/testlib.h"

#include <stdio.h>

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

/* Of the sample. */
static void same(const struct hsp_papers *q)
{
    struct hsp_papers p = papers_sample();
    assert_true(q->job == 7 && q->epoch == 9 && q->whose.generation == p.whose.generation);
    assert_true(hsp_digest_equal(q->whose.cluster, p.whose.cluster));
    assert_string_equal(q->name, "mist");
    assert_int_equal(q->n, 3);
    assert_string_equal(q->row[1].key, "job/7");
    assert_true(q->row[1].len == 3 && memcmp(q->row[1].value, "\0\1x", 3) == 0);
    assert_int_equal(q->row[2].len, 0);
}

static void looks_like_it(const struct hsp_buf *b)
{
    struct hsp_err err = {0};
    struct hsp_papers_head h;
    assert_ok(hsp_papers_look(b->data, b->len, &h, &err), &err);
    assert_true(h.job == 7 && h.epoch == 9);
    assert_true(h.whose.generation == papers_sample().whose.generation);
    assert_true(hsp_digest_equal(h.whose.cluster, papers_sample().whose.cluster));
    assert_string_equal(h.name, "mist");
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
    same(&q);
    looks_like_it(&b);
    hsp_papers_write(&q, &c);
    assert_true(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
    hsp_buf_fini(&b);
    hsp_buf_fini(&c);
}

/* Agents still have papers on disk that were written before the compressed form existed. */
static void papers_of_the_older_form_are_read(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_papers p = papers_sample(), old, now;
    struct hsp_buf b, c;
    hsp_buf_init(&b, 1 << 20);
    hsp_buf_init(&c, 1 << 20);
    papers_plain(&p, &b);
    assert_ok(hsp_papers_read(b.data, b.len, arena, &old, &err), &err);
    same(&old);
    looks_like_it(&b);
    hsp_papers_write(&p, &c);
    assert_ok(hsp_papers_read(c.data, c.len, arena, &now, &err), &err);
    assert_true(hsp_digest_equal(old.rows, now.rows));
    p.n--;
    hsp_buf_reset(&b);
    papers_plain(&p, &b);
    assert_ok(hsp_papers_read(b.data, b.len, arena, &old, &err), &err);
    assert_false(hsp_digest_equal(old.rows, now.rows));
    hsp_buf_fini(&b);
    hsp_buf_fini(&c);
}

/* Papers have the form that agents of older programs check and store. The compressed rows are the
 * value of a single row with the key "lz", which is a row like any other to such an agent. */
static void papers_are_of_the_form_that_older_agents_keep(void **state)
{
    (void)state;
    struct hsp_papers p = papers_sample();
    struct hsp_buf b;
    struct hsp_cursor c;
    size_t len;
    hsp_buf_init(&b, 1 << 20);
    hsp_papers_write(&p, &b);
    hsp_cur_init(&c, b.data, b.len);
    assert_memory_equal(hsp_cur_bytes(&c, 8), "HSPMDJOB", 8);
    assert_int_equal(hsp_cur_u32(&c), 1);
    uint64_t rest = hsp_cur_u64(&c);
    struct hsp_digest d = {hsp_cur_u64(&c), 0};
    d.lo = hsp_cur_u64(&c);
    assert_int_equal(rest, hsp_cur_left(&c));
    assert_true(hsp_digest_equal(d, hsp_hash128(b.data + c.pos, rest)));
    assert_int_equal(hsp_cur_u32(&c), 7);
    assert_string_equal(hsp_cur_str(&c, HSP_NAME_MAX, arena), "mist");
    (void)hsp_cur_bytes(&c, 4 * 8);
    assert_int_equal(hsp_cur_count(&c, HSP_PAPERS_ROWS, 8), 1);
    assert_string_equal(hsp_cur_str(&c, HSP_PAPERS_KEY, arena), "lz");
    (void)hsp_cur_blob(&c, HSP_PAPERS_MAX, &len);
    assert_true(hsp_cur_done(&c));
    hsp_buf_fini(&b);
}

/* Writes the rows that hspmdd has for a job of 1,000 nodes with similar pipelines: one row for each
 * node, and a large plan. */
static void a_large_job_has_small_papers(void **state)
{
    (void)state;
    enum { NODES = 1000 };
    static char key[NODES][16], node[NODES][232];
    struct hsp_papers_row row[NODES + 1];
    struct hsp_papers p = papers_sample(), q;
    struct hsp_err err = {0};
    struct hsp_buf b, plan;
    hsp_buf_init(&b, 1 << 20);
    hsp_buf_init(&plan, 4 << 20);
    for (uint32_t i = 0; i < NODES; i++) {
        (void)snprintf(key[i], sizeof key[i], "node/%u", i);
        (void)snprintf(node[i], sizeof node[i], "a%05u", i);
        row[i] = (struct hsp_papers_row){key[i], node[i], sizeof node[i]};
        for (uint32_t k = 0; k < 40; k++) {
            hsp_buf_printf(&plan, "{op: linear, makes: \"h.%u.q\", of: [%u, %u]}\n", k, i, i + 1);
        }
    }
    row[NODES] = (struct hsp_papers_row){"app/plan/7/3", plan.data, (uint32_t)plan.len};
    p.n = NODES + 1;
    p.row = row;
    hsp_papers_write(&p, &b);
    assert_int_equal(hsp_buf_status(&b), HSP_OK);
    assert_in_range(b.len, 1, plan.len / 4);
    assert_ok(hsp_papers_read(b.data, b.len, arena, &q, &err), &err);
    assert_int_equal(q.n, NODES + 1);
    for (uint32_t i = 0; i < q.n; i++) {
        assert_string_equal(q.row[i].key, row[i].key);
        assert_int_equal(q.row[i].len, row[i].len);
        assert_memory_equal(q.row[i].value, row[i].value, row[i].len);
    }
    hsp_buf_fini(&plan);
    hsp_buf_fini(&b);
}

static void what_is_damaged_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_papers p = papers_sample(), q;
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_papers_write(&p, &b);
    struct hsp_papers_head h;
    for (size_t n = 0; n < b.len; n++) {
        assert_status(hsp_papers_read(b.data, n, arena, &q, &err), HSP_EDIGEST);
        assert_status(hsp_papers_look(b.data, n, &h, &err), HSP_EDIGEST);
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
        cmocka_unit_test(papers_of_the_older_form_are_read),
        cmocka_unit_test(papers_are_of_the_form_that_older_agents_keep),
        cmocka_unit_test(a_large_job_has_small_papers),
        cmocka_unit_test(what_is_damaged_is_refused),
        cmocka_unit_test(what_is_too_large_is_not_written),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
