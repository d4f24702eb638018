#include "tests/lib/testlib.h"
#include "worker/executor/due_distance.h"

/* Steps of @alone seconds; a due version takes @more, spread over @over steps. */
static uint64_t settles_at(struct hsp_due_distance *d, double alone, double more, int over)
{
    for (int k = 0; k < 100; k++) {
        uint64_t n = hsp_due_distance_choose(d);
        for (int i = 0; i < over; i++) {
            hsp_due_distance_step(d, alone + more / over, true);
        }
        hsp_due_distance_stable(d);
        for (uint64_t i = (uint64_t)over; i < n; i++) {
            hsp_due_distance_step(d, alone, false);
        }
    }
    return hsp_due_distance_choose(d);
}

static void the_least_that_costs_no_more_than_it_may(void **state)
{
    (void)state;
    for (int over = 1; over < 4; over++) {
        struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 3600};
        assert_int_equal(settles_at(&d, 0.5, 0.398, over), 80);
        struct hsp_due_distance free = {.overhead = 0.01, .recompute_s = 3600};
        assert_int_equal(settles_at(&free, 0.5, 0, over), 1);
        struct hsp_due_distance dear = {.overhead = 0.1, .recompute_s = 3600};
        assert_int_equal(settles_at(&dear, 0.5, 0.398, over), 8);
    }
}

static void the_time_that_is_made_again_wins(void **state)
{
    (void)state;
    struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 30};
    assert_int_equal(settles_at(&d, 0.5, 0.398, 1), 60);
    d.recompute_s = 0;
    assert_int_equal(hsp_due_distance_choose(&d), 1);
}

static void it_follows_what_changes(void **state)
{
    (void)state;
    struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 3600};
    assert_int_equal(settles_at(&d, 0.5, 0.398, 2), 80);
    assert_int_equal(settles_at(&d, 0.5, 0.0998, 2), 20);
    assert_int_equal(settles_at(&d, 2, 0.0998, 2), 5);
    assert_int_equal(settles_at(&d, 0.5, 0.398, 2), 80);
}

/* One step that an unrelated process has slowed is no cost of copies. */
static void the_median_of_steps_counts(void **state)
{
    (void)state;
    struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 3600};
    assert_int_equal(hsp_due_distance_choose(&d), 4);
    hsp_due_distance_step(&d, 0, false);
    hsp_due_distance_step(&d, 9, false);
    hsp_due_distance_step(&d, 1, false);
    hsp_due_distance_stable(&d);
    assert_int_equal(hsp_due_distance_choose(&d), 4);
    hsp_due_distance_step(&d, 1, false);
    hsp_due_distance_step(&d, 1.1, true);
    hsp_due_distance_step(&d, 0.945, true); /* by chance less */
    hsp_due_distance_stable(&d);
    assert_int_equal(hsp_due_distance_choose(&d), 5);
}

HSP_TEST_FILE(due_distance_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_that_costs_no_more_than_it_may),
        cmocka_unit_test(the_time_that_is_made_again_wins),
        cmocka_unit_test(it_follows_what_changes),
        cmocka_unit_test(the_median_of_steps_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
