#include "tests/lib/testlib.h"

#include "proto/base/map.h"

static void put_get_replace_clear(void **state)
{
    (void)state;
    struct hsp_map m;
    uint32_t v = 99;
    hsp_map_init(&m, 10);
    assert_false(hsp_map_get(&m, "a", &v));
    assert_status(hsp_map_put(&m, "a", 1), HSP_OK);
    assert_status(hsp_map_put(&m, "b", 2), HSP_OK);
    assert_status(hsp_map_put(&m, "a", 3), HSP_OK);
    assert_int_equal(hsp_map_len(&m), 2);
    assert_true(hsp_map_get(&m, "a", &v) && v == 3);
    assert_true(hsp_map_get(&m, "b", NULL));
    hsp_map_clear(&m);
    assert_false(hsp_map_get(&m, "b", &v));
    hsp_map_fini(&m);
}

static void the_bound_counts_live_entries(void **state)
{
    (void)state;
    struct hsp_map m;
    hsp_map_init(&m, 2);
    assert_status(hsp_map_put_u64(&m, 1, 1), HSP_OK);
    assert_status(hsp_map_put_u64(&m, 2, 2), HSP_OK);
    assert_status(hsp_map_put_u64(&m, 3, 3), HSP_ELIMIT);
    assert_status(hsp_map_put_u64(&m, 2, 5), HSP_OK);
    assert_true(hsp_map_remove_u64(&m, 1));
    assert_status(hsp_map_put_u64(&m, 3, 3), HSP_OK);
    hsp_map_fini(&m);
}

/* Against an array that is obviously right, with much removal. */
static void random_operations_agree_with_a_table(void **state)
{
    (void)state;
    enum { KEYS = 64, OPS = 20000 };
    int64_t table[KEYS];
    for (int i = 0; i < KEYS; i++) {
        table[i] = -1;
    }
    struct hsp_map m;
    hsp_map_init(&m, KEYS);
    for (uint64_t i = 0; i < OPS; i++) {
        uint64_t k = hsp_test_rand("key", i) % KEYS;
        uint64_t spread = k << 40; /* equal low bits: the mixer must do its work */
        if (hsp_test_rand("op", i) % 2 == 0) {
            assert_status(hsp_map_put_u64(&m, spread, (uint32_t)i), HSP_OK);
            table[k] = (int64_t)i;
        } else {
            assert_int_equal(hsp_map_remove_u64(&m, spread), table[k] >= 0);
            table[k] = -1;
        }
        uint64_t q = hsp_test_rand("query", i) % KEYS;
        uint32_t v = 0;
        bool found = hsp_map_get_u64(&m, q << 40, &v);
        assert_int_equal(found, table[q] >= 0);
        assert_true(!found || v == (uint32_t)table[q]);
    }
    size_t n = 0;
    for (int i = 0; i < KEYS; i++) {
        n += table[i] >= 0;
    }
    assert_int_equal(n, hsp_map_len(&m));
    assert_true(m.n_slots <= 4 * KEYS); /* the dead do not accumulate */
    hsp_map_fini(&m);
}

HSP_TEST_FILE(map_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_replace_clear),
        cmocka_unit_test(the_bound_counts_live_entries),
        cmocka_unit_test(random_operations_agree_with_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
