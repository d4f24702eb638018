/* Tests the offset of another clock: for any time of the way there and back, it is right within its
 * own bound. */
#include "tests/lib/testlib.h"

#include <math.h>

#include "worker/agent/peer_clock.h"

static void nothing_is_known_without_an_answer(void **state)
{
    (void)state;
    struct hsp_peerclock c = {0};
    double offset, error;
    assert_false(hsp_peerclock_now(&c, 1000, &offset, &error));
    hsp_peerclock_add(&c, 2000, 1000, 5); /* the answer came before the question */
    assert_false(hsp_peerclock_now(&c, 3000, &offset, &error));
}

static void an_answer_is_taken_in_the_middle(void **state)
{
    (void)state;
    struct hsp_peerclock c = {0};
    double offset, error;
    hsp_peerclock_add(&c, 1000, 1400, 51200);
    assert_true(hsp_peerclock_now(&c, 1200, &offset, &error));
    assert_near(offset, 50000, 0);
    assert_near(error, 201, 0); /* half of the way, and a microsecond of both clocks */
    assert_true(hsp_peerclock_now(&c, 1001200, &offset, &error));
    assert_near(error, 201 + 200, 1e-9); /* a second of drift */
}

/* A slow answer later does not take the place of a quick one, until that is too old. */
static void the_smallest_bound_counts(void **state)
{
    (void)state;
    struct hsp_peerclock c = {0};
    double offset, error;
    hsp_peerclock_add(&c, 1000000, 1000100, 2000050); /* 50 us: offset 1 s */
    hsp_peerclock_add(&c, 2000000, 2004000, 3001000); /* 2 ms: wrong by 1 ms */
    assert_true(hsp_peerclock_now(&c, 2004000, &offset, &error));
    assert_near(offset, 1000000, 0);
    assert_true(hsp_peerclock_now(&c, 60000000, &offset, &error)); /* both drift alike */
    assert_near(offset, 1000000, 0);
    for (uint32_t k = 0; k < HSP_CLOCK_SAMPLES; k++) { /* the quick one is forgotten */
        uint64_t at = 60000000 + k * 500000;
        hsp_peerclock_add(&c, at, at + 4000, at + 999000);
    }
    assert_true(hsp_peerclock_now(&c, 92000000, &offset, &error));
    assert_near(offset, 997000, 0);
}

/* Clocks that differ and drift, ways of any length: the true offset is always within the
 * bound. */
static void the_bound_holds(void **state)
{
    (void)state;
    for (uint64_t seed = 0, i = 0; seed < 200; seed++) {
        struct hsp_peerclock c = {0};
        double ahead = (double)(hsp_test_rand("ahead", seed) % 2000000000) - 1e9;
        double drift = ((double)(hsp_test_rand("drift", seed) % 2001) - 1000) * 1e-7; /* 100 ppm */
        double now = 3e9;
        for (uint32_t k = 0; k < 150; k++, i++) {
            double there = (double)(hsp_test_rand("there", i) % 30000);
            double back = (double)(hsp_test_rand("back", i) % (k % 3 == 0 ? 200 : 50000));
            double said = (now + there) * (1 + drift) + ahead, offset, error;
            hsp_peerclock_add(&c, (uint64_t)now, (uint64_t)(now + there + back), (uint64_t)said);
            now += there + back + (double)(hsp_test_rand("pause", i) % 700000);
            double truth = now * (1 + drift) + ahead - now;
            assert_true(hsp_peerclock_now(&c, (uint64_t)now, &offset, &error));
            assert_true(fabs(offset - truth) <= error + 2);
        }
    }
}

HSP_TEST_FILE(peer_clock_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_without_an_answer),
        cmocka_unit_test(an_answer_is_taken_in_the_middle),
        cmocka_unit_test(the_smallest_bound_counts),
        cmocka_unit_test(the_bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
