#include "tests/lib/testlib.h"
#include "worker/executor/replica_verdict.h"

/* Returns the verdicts on a ring of @n ranks: bit k is set if rank k is wrong or may be wrong. */
static unsigned judge(uint32_t n, const struct hsp_replica_view *v)
{
    unsigned wrong = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_replica_view other[2] = {v[(i + 1) % n], v[(i + n - 1) % n]};
        wrong |= (unsigned)hsp_replica_wrong(&v[i], other, n > 2 ? 2 : n - 1) << i;
    }
    return wrong;
}

static void test_equal_ones_are_right(void **state)
{
    (void)state;
    const struct hsp_replica_view v[4] = {{7, true}, {7, true}, {7, false}, {7, true}};
    for (uint32_t n = 1; n <= 4; n++) {
        assert_int_equal(judge(n, v), 0);
    }
}

static void test_of_two_the_one_that_is_not_intact(void **state)
{
    (void)state;
    struct hsp_replica_view v[2] = {{7, true}, {9, false}};
    assert_int_equal(judge(2, v), 2);
    v[1].intact = true; /* both may be wrong */
    assert_int_equal(judge(2, v), 3);
    v[0].intact = v[1].intact = false;
    assert_int_equal(judge(2, v), 3);
}

static void test_of_more_the_minority(void **state)
{
    (void)state;
    const struct hsp_replica_view three[3] = {{7, true}, {7, false}, {9, true}};
    assert_int_equal(judge(3, three), 4); /* with any damage of memory */
    const struct hsp_replica_view five[5] = {{7, true}, {8, true}, {7, true}, {7, true}, {7, true}};
    assert_int_equal(judge(5, five), 2);
    const struct hsp_replica_view apart[5] = {
        {9, true}, {7, true}, {8, true}, {7, true}, {7, true}};
    assert_int_equal(judge(5, apart) & 4, 4);
    assert_int_equal(judge(5, apart) & 24, 0);
}

/* If replicas differ, at least one rank is found wrong. */
static void test_of_all_that_differ_somebody(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 2000; k++) {
        struct hsp_replica_view v[6];
        uint32_t n = (uint32_t)hsp_test_range("n", k, 2, 6);
        bool differ = false;
        for (uint32_t i = 0; i < n; i++) {
            v[i].hash = (uint64_t)hsp_test_range("hash", k * 16 + i, 0, 2);
            v[i].intact = hsp_test_range("intact", k * 16 + i, 0, 2) > 0;
            differ = differ || v[i].hash != v[0].hash;
        }
        if (!differ) {
            assert_int_equal(judge(n, v), 0);
        } else if (n < 4) {
            assert_int_not_equal(judge(n, v), 0);
        }
    }
}

HSP_TEST_FILE(replica_verdict_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_ones_are_right),
        cmocka_unit_test(test_of_two_the_one_that_is_not_intact),
        cmocka_unit_test(test_of_more_the_minority),
        cmocka_unit_test(test_of_all_that_differ_somebody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
