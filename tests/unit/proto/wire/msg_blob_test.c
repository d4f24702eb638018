/* Tests the package of an epoch: decode(encode(x)) == x, every truncation and out-of-range row is
 * refused. */
#include "proto/op/dtype.h"
#include "tests/lib/testlib.h"
#include "tests/unit/proto/wire/package_sample.h"

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

static void test_a_package_reads_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_package p = pkg_sample(), q;
    hsp_buf_init(&b, 1 << 20);
    assert_ok(pkg_encode(&p, &b, &err), &err);
    assert_ok(hsp_package_decode(b.data, b.len, arena, &q, &err), &err);
    assert_int_equal(q.n_peers, 2);
    assert_string_equal(q.peers[1].address, "127.0.0.1:9");
    assert_true(q.peers[0].voted);
    assert_false(q.peers[1].voted);
    assert_true(q.peers[1].apart && !q.peers[0].apart);
    assert_int_equal(q.params[0].ext[1], 6);
    assert_int_equal(q.transfer.n, 2);
    assert_int_equal(q.transfer.row[1].box.lo[0], 3);
    assert_int_equal(q.copies.n, 1);
    assert_int_equal(q.gather.n, 0);
    assert_int_equal(q.replicas.n, 1);
    assert_int_equal(q.replicas.row[0].from, 1);
    assert_int_equal(q.kinds[2], 2);
    assert_memory_equal(q.binding, "bbb", 3);
    assert_int_equal(q.n_shorter, 1);
    assert_int_equal(q.shorter[0].tpl_len, 1);
    assert_int_equal(q.shorter[0].binding_len, 2);
    assert_memory_equal(q.shorter[0].binding, "uu", 2);
    assert_string_equal(q.init_from, "w.safetensors");
    assert_string_equal(q.config_json, "{}");
    hsp_buf_fini(&b);
}

static void test_every_truncation_and_extension_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_package p = pkg_sample(), q;
    hsp_buf_init(&b, 1 << 20);
    assert_ok(pkg_encode(&p, &b, &err), &err);
    for (size_t n = 0; n < b.len; n++) {
        assert_status(hsp_package_decode(b.data, n, arena, &q, &err), HSP_EPROTO);
    }
    hsp_buf_u8(&b, 0);
    assert_status(hsp_package_decode(b.data, b.len, arena, &q, &err), HSP_EPROTO);
    hsp_buf_fini(&b);
}

static void refuse(const struct hsp_package *p, const char *text)
{
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_package q;
    hsp_buf_init(&b, 1 << 20);
    assert_ok(pkg_encode(p, &b, &err), &err);
    assert_status(hsp_package_decode(b.data, b.len, arena, &q, &err), HSP_EPROTO);
    assert_non_null(strstr(err.msg, text));
    hsp_buf_fini(&b);
}

static void test_rows_outside_their_ranges_are_refused(void **state)
{
    (void)state;
    struct hsp_package p = pkg_sample();
    const struct hsp_pkg_row good = p.transfer.row[0];
    struct hsp_pkg_row bad = good;
    p.transfer = (struct hsp_pkg_table){1, &bad};
    bad.to = 2;
    refuse(&p, "transfer table");
    bad = good;
    bad.box.hi[1] = 7;
    refuse(&p, "transfer table");
    bad = good;
    bad.box.lo[0] = 3;
    refuse(&p, "transfer table");
    bad = good;
    bad.param = 2;
    refuse(&p, "transfer table");
    bad = good;
    bad.to = bad.from; /* nobody passes on to itself */
    refuse(&p, "transfer table");
    p = pkg_sample();
    p.kinds[1] = 0;
    refuse(&p, "state kinds");
    p = pkg_sample();
    p.dtype = HSP_I32;
    refuse(&p, "dtype");
}

HSP_TEST_FILE(msg_blob_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_package_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_truncation_and_extension_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_rows_outside_their_ranges_are_refused, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
