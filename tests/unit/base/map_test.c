#include "tests/lib/testlib.h"

#include <stdio.h>

#include "proto/base/map.h"

static void put_get_replace_remove(void **state)
{
    (void)state;
    struct hsp_map m;
    uint32_t v = 99;
    hsp_map_init(&m, 10);
    assert_false(hsp_map_get(&m, "a", &v));
    assert_false(hsp_map_remove(&m, "a"));
    assert_status(hsp_map_put(&m, "a", 1), HSP_OK);
    assert_status(hsp_map_put(&m, "b", 2), HSP_OK);
    assert_status(hsp_map_put(&m, "a", 3), HSP_OK);
    assert_int_equal(hsp_map_len(&m), 2);
    assert_true(hsp_map_get(&m, "a", &v) && v == 3);
    assert_true(hsp_map_get(&m, "b", NULL));
    assert_true(hsp_map_remove(&m, "a"));
    assert_false(hsp_map_get(&m, "a", &v));
    assert_int_equal(hsp_map_len(&m), 1);
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

static void iteration_is_in_order_of_insertion(void **state)
{
    (void)state;
    struct hsp_map m;
    hsp_map_init(&m, 1000);
    char key[16];
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "k%u", (i * 7919U) % 1000U);
        assert_status(hsp_map_put(&m, key, i), HSP_OK);
    }
    for (uint32_t i = 0; i < 1000; i += 3) {
        snprintf(key, sizeof(key), "k%u", (i * 7919U) % 1000U);
        assert_true(hsp_map_remove(&m, key));
    }
    size_t it = 0;
    const char *k;
    uint32_t v, want = 1;
    while (hsp_map_next(&m, &it, &k, &v)) {
        assert_int_equal(v, want);
        snprintf(key, sizeof(key), "k%u", (v * 7919U) % 1000U);
        assert_string_equal(k, key);
        want += want % 3 == 2 ? 2 : 1;
    }
    assert_int_equal(want, 1000);
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
    size_t it = 0, n = 0;
    uint64_t k;
    uint32_t v;
    while (hsp_map_next_u64(&m, &it, &k, &v)) {
        assert_int_equal(table[k >> 40], v);
        n++;
    }
    assert_int_equal(n, hsp_map_len(&m));
    assert_true(m.n_slots <= 4 * KEYS); /* the dead do not accumulate */
    hsp_map_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_get_replace_remove),
        cmocka_unit_test(the_bound_counts_live_entries),
        cmocka_unit_test(iteration_is_in_order_of_insertion),
        cmocka_unit_test(random_operations_agree_with_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
