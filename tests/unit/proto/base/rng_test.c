#include "tests/lib/testlib.h"

#include <math.h>

#include "proto/base/rng.h"

/* Known-answer vectors published with Random123 (kat_vectors, philox4x32 10). */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t ctr[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof(kat) / sizeof(kat[0]); i++) {
        uint32_t out[4];
        hsp_philox(kat[i].ctr, kat[i].key, out);
        assert_memory_equal(out, kat[i].out, sizeof(out));
    }
}

static void each_coordinate_matters(void **state)
{
    (void)state;
    uint64_t base = hsp_rng_u64(1, 2, 3, 4);
    assert_true(base == hsp_rng_u64(1, 2, 3, 4));
    assert_true(base != hsp_rng_u64(2, 2, 3, 4));
    assert_true(base != hsp_rng_u64(1, 3, 3, 4));
    assert_true(base != hsp_rng_u64(1, 2, 4, 4));
    assert_true(base != hsp_rng_u64(1, 2, 3, 5));
    assert_true(base != hsp_rng_u64(2, 1, 3, 4)); /* seed and stream do not commute */
    assert_true(base != hsp_rng_u64(1, 2, 3 + (1ULL << 32), 4));
    assert_true(hsp_rng_u64(5, 5, 0, 0) != hsp_rng_u64(6, 6, 0, 0)); /* nor cancel */
}

static void normal_has_its_moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    double sn = 0, snn = 0, s4 = 0;
    for (uint64_t i = 0; i < N; i++) {
        double z = hsp_rng_normal(hsp_test_seed(), 8, i, 1);
        assert_true(isfinite(z));
        sn += z;
        snn += z * z;
        s4 += z * z * z * z;
    }
    /* Six standard errors of each estimate: one false alarm in 10^9 seeds. */
    double root = sqrt((double)N);
    assert_near(sn / N, 0, 6 / root);
    assert_near(snn / N, 1, 6 * 1.4143 / root);
    assert_near(s4 / N, 3, 6 * 9.798 / root);
}

static void below_covers_the_range_evenly(void **state)
{
    (void)state;
    int count[7] = {0};
    for (uint64_t i = 0; i < 70000; i++) {
        uint64_t v = hsp_rng_below(7, hsp_test_seed(), 9, i, 0);
        assert_true(v < 7);
        count[v]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_near(count[i], 10000, 6 * 92.6); /* sqrt(70000 * 1/7 * 6/7) */
    }
    assert_true(hsp_rng_below(1, 1, 2, 3, 4) == 0);
}

HSP_TEST_FILE(rng_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(each_coordinate_matters),
        cmocka_unit_test(normal_has_its_moments),
        cmocka_unit_test(below_covers_the_range_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
