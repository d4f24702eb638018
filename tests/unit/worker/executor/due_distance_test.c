#include <math.h>

#include "proto/base/rng.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"
#include "worker/executor/due_distance.h"

struct job {
    double alone, more;   /* seconds of a step; extra seconds for a due version */
    uint64_t over;        /* number of steps during the copy of a due version */
    uint64_t val_every;   /* steps with a validation of 10 s; 0: none */
    uint64_t warm;        /* number of first steps, which take three times as long */
    double noise;         /* standard deviation of a step / its time */
    uint64_t seed, steps; /* 0: 3000 steps */
};

/* Returns a random value with mean 0 and standard deviation 1. */
static double swing(uint64_t step)
{
    return hsp_rng_normal(hsp_test_rand("step", 0), 0, step, 0);
}

/* Plays the steps of an epoch and returns the distance at its end. *ret_due: the mean distance of
 * due versions in the last 1000 steps. */
static uint64_t settles(struct hsp_due_distance *d, struct job j, double *ret_due)
{
    uint64_t newest = 0, left = 1, n_due = 0;
    for (uint64_t t = 0; t < (j.steps > 0 ? j.steps : 3000); t++) {
        bool copied = left > 0, validates = j.val_every > 0 && t % j.val_every == 2 % j.val_every;
        bool wish = hsp_due_distance_reached(d, t + 1 - newest);
        double more = copied ? j.more / (double)j.over : 0;
        double alone = (t < j.warm ? 3 : 1) * j.alone * (1 + j.noise * swing(j.seed * 3000 + t));
        hsp_due_distance_step(d, alone + more + (validates ? 10 : 0), copied, validates);
        left -= copied;
        if (copied && left == 0) {
            hsp_due_distance_stable(d);
        }
        if (left == 0 && wish) {
            newest = t + 1;
            left = j.over;
            n_due += t >= 2000;
        }
    }
    *ret_due = 1000 / (double)n_due;
    return hsp_due_distance_choose(d);
}

static uint64_t settles_at(struct hsp_due_distance *d, double alone, double more, uint64_t over)
{
    double due;
    return settles(d, (struct job){.alone = alone, .more = more, .over = over}, &due);
}

static void the_least_that_costs_no_more_than_it_may(void **state)
{
    (void)state;
    for (uint64_t over = 1; over < 12; over++) {
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

/* If copies take longer than the distance, some version is copied during each step; the cost is
 * found all the same. */
static void steps_without_a_copy_are_seen(void **state)
{
    (void)state;
    for (uint64_t over = 1; over < 12; over++) {
        for (uint64_t warm = 0; warm < 5; warm++) {
            struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 3600};
            struct job j = {.alone = 0.5, .more = 0.398, .over = over, .warm = warm};
            double due;
            assert_int_equal(settles(&d, j, &due), 80);
            assert_true(due > 70 && due < 90);
            j.val_every = 1000; /* also in the third step */
            d = (struct hsp_due_distance){.overhead = 0.01, .recompute_s = 3600};
            assert_int_equal(settles(&d, j, &due), 80);
            j.val_every = 1;
            assert_int_equal(settles(&d, j, &due), 4);
            j.more = 0.0098; /* distance 2, and a copy may take longer */
            j.val_every = 0;
            assert_int_equal(settles(&d, j, &due), 2);
            assert_true(due < 2.5 + (double)over);
        }
    }
}

/* If another process slows down one step, the extra time is not taken for a cost of copies. */
static void the_median_of_steps_counts(void **state)
{
    (void)state;
    struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 3600};
    assert_int_equal(hsp_due_distance_choose(&d), 4);
    hsp_due_distance_step(&d, 0, false, false);
    for (int i = 0; i < 9; i++) {
        hsp_due_distance_step(&d, 9, true, false);
        hsp_due_distance_stable(&d);
        assert_int_equal(hsp_due_distance_choose(&d), 4);
        hsp_due_distance_step(&d, i < 4 ? 9 : 1, false, false);
    }
    hsp_due_distance_step(&d, 1.1, true, false);
    hsp_due_distance_step(&d, 0.945, true, false); /* shorter than a step alone, by chance */
    hsp_due_distance_stable(&d);
    assert_int_equal(hsp_due_distance_choose(&d), 5);
}

/* Steps take 1.75 s and a version costs 0.02 s. A version may take 0.25 % of the time, so each 5th
 * version may be due. Where the noise of steps is far above the cost, fewer versions are due, and
 * never more. */
static void noise_does_not_hide_a_cost(void **state)
{
    (void)state;
    static const double noises[] = {0.002, 0.01, 0.03, 0.1};
    for (unsigned k = 0; k < HSP_ARRAY_LEN(noises); k++) {
        uint32_t n_less = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct hsp_due_distance d = {.overhead = 0.0025, .recompute_s = 30};
            struct job j = {
                .alone = 1.75, .more = 0.02, .over = 1, .noise = noises[k], .seed = seed};
            double due;
            j.steps = 200;
            n_less += settles(&d, j, &due) < 5;
        }
        assert_true(n_less <= 10);
    }
}

/* When the cost is well measured, its upper bound is not much greater than the cost. */
static void a_known_cost_has_a_near_bound(void **state)
{
    (void)state;
    struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 3600};
    struct job j = {.alone = 0.5, .more = 0.398, .over = 2, .noise = 0.03};
    double due;
    uint64_t n = settles(&d, j, &due);
    assert_true(n > 72 && n < 96);
}

static void the_time_of_a_step_is_the_median(void **state)
{
    (void)state;
    struct hsp_due_distance d = {.overhead = 0.01, .recompute_s = 30};
    assert_true(hsp_due_distance_alone(&d) == 0);
    const double s[] = {0.5, 9, 0.25};
    for (unsigned i = 0; i < HSP_ARRAY_LEN(s); i++) {
        hsp_due_distance_step(&d, s[i], false, false);
    }
    hsp_due_distance_step(&d, 70, true, false);
    assert_true(hsp_due_distance_alone(&d) == 0.5);
}

HSP_TEST_FILE(due_distance_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_of_a_step_is_the_median),
        cmocka_unit_test(the_least_that_costs_no_more_than_it_may),
        cmocka_unit_test(the_time_that_is_made_again_wins),
        cmocka_unit_test(it_follows_what_changes),
        cmocka_unit_test(steps_without_a_copy_are_seen),
        cmocka_unit_test(the_median_of_steps_counts),
        cmocka_unit_test(noise_does_not_hide_a_cost),
        cmocka_unit_test(a_known_cost_has_a_near_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
