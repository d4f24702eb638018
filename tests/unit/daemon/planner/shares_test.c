#include "daemon/lp/solve.h"
#include "tests/lib/testlib.h"

#include <math.h>

#include "daemon/planner/shares.h"

static double worst(uint32_t n, const struct hsp_share_dev *d, const uint32_t *x)
{
    double us = 0;
    for (uint32_t i = 0; i < n; i++) {
        us = fmax(us, hsp_share_us(&d[i], x[i]));
    }
    return us;
}

static double brute(uint32_t n, const struct hsp_share_dev *d, uint32_t total, uint32_t at,
                    uint32_t *x)
{
    if (at + 1 == n) {
        x[at] = total;
        bool ok = total >= d[at].min && total <= d[at].max;
        return ok ? worst(n, d, x) : (double)INFINITY;
    }
    double best = (double)INFINITY;
    for (uint32_t k = d[at].min; k <= total && k <= d[at].max; k++) {
        x[at] = k;
        best = fmin(best, brute(n, d, total - k, at + 1, x));
    }
    return best;
}

static void random_devices(uint64_t round, uint32_t n, struct hsp_share_dev *d)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = round * 8 + i;
        d[i] = (struct hsp_share_dev){.fixed_us = (double)hsp_test_range("fixed", at, 0, 300),
                                      .micro_us = (double)hsp_test_range("micro", at, 0, 40),
                                      .seq_us = (double)hsp_test_range("seq", at, 1, 100),
                                      .micro = (uint32_t)hsp_test_range("size", at, 1, 4),
                                      .min = (uint32_t)hsp_test_range("min", at, 0, 2),
                                      .max = (uint32_t)hsp_test_range("max", at, 3, 20)};
    }
}

static void matches_brute_force(void **state)
{
    (void)state;
    uint32_t feasible = 0;
    for (uint64_t round = 0; round < 300; round++) {
        struct hsp_err err = {0};
        struct hsp_share_dev d[4];
        uint32_t n = (uint32_t)hsp_test_range("n", round, 1, 4), got[4], x[4], sum = 0;
        uint32_t total = (uint32_t)hsp_test_range("total", round, 1, 20);
        double us = 0;
        random_devices(round, n, d);
        double want = brute(n, d, total, 0, x);
        enum hsp_status st = hsp_shares_minmax(n, d, total, got, &us, &err);
        assert_int_equal(st, isinf(want) ? HSP_EINFEASIBLE : HSP_OK);
        if (st != HSP_OK) {
            continue;
        }
        feasible++;
        assert_near(us, want, 1e-9);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(got[i] >= d[i].min && got[i] <= d[i].max);
            sum += got[i];
        }
        assert_int_equal(sum, total);
        assert_near(worst(n, d, got), us, 0);
    }
    assert_true(feasible > 100);
}

/* The solver as oracle: min T, fixed + seq * n_i <= T, n_i integer. */
static void matches_the_integer_program(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        struct hsp_err err = {0};
        struct hsp_share_dev d[6];
        struct hsp_lp *lp = hsp_lp_new(HSP_LP_MIN);
        uint32_t total = (uint32_t)hsp_test_range("t", round, 6, 200), t = 0, v[6], got[6];
        double ones[6], x[7], us = 0;
        random_devices(1000 + round, 6, d);
        assert_ok(hsp_lp_add_var(lp, 0, 1e9, 1, false, &t, &err), &err);
        for (uint32_t i = 0; i < 6; i++) {
            d[i].micro_us = 0;
            d[i].min = 0;
            d[i].max = total;
            ones[i] = 1;
            assert_ok(hsp_lp_add_var(lp, 0, total, 0, true, &v[i], &err), &err);
            uint32_t idx[2] = {t, v[i]};
            double coef[2] = {1, -d[i].seq_us};
            assert_ok(hsp_lp_add_row(lp, 2, idx, coef, d[i].fixed_us, HSP_LP_INF, &err), &err);
        }
        assert_ok(hsp_lp_add_row(lp, 6, v, ones, total, total, &err), &err);
        struct hsp_lp_result r;
        assert_ok(hsp_lp_solve(lp, NULL, x, &r, &err), &err);
        assert_true(r.optimal);
        assert_ok(hsp_shares_minmax(6, d, total, got, &us, &err), &err);
        assert_near(us / r.objective, 1, 1e-6);
        hsp_lp_free(lp);
    }
}

static void equal_devices_share_equally_and_ties_go_low(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_share_dev d[4];
    uint32_t got[4];
    double us = 0;
    for (uint32_t i = 0; i < 4; i++) {
        d[i] = (struct hsp_share_dev){.seq_us = 10, .micro = 1, .min = 1, .max = 100};
    }
    assert_ok(hsp_shares_minmax(4, d, 10, got, &us, &err), &err);
    uint32_t want[4] = {3, 3, 2, 2};
    assert_memory_equal(got, want, sizeof(want));
    d[0].seq_us = 10 / 0.6;
    d[1].seq_us = 10 / 0.6;
    d[2].seq_us = 10 / 0.3;
    d[3].seq_us = 10 / 0.15;
    assert_ok(hsp_shares_minmax(4, d, 44, got, &us, &err), &err);
    uint32_t uneven[4] = {16, 16, 8, 4};
    assert_memory_equal(got, uneven, sizeof(uneven));
}

static void too_much_and_too_little_are_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_share_dev d[2] = {{.seq_us = 1, .micro = 1, .min = 2, .max = 4},
                                 {.seq_us = 1, .micro = 1, .min = 2, .max = 4}};
    uint32_t got[2];
    double us = 0;
    assert_status(hsp_shares_minmax(2, d, 9, got, &us, &err), HSP_EINFEASIBLE);
    assert_err(&err, HSP_EINFEASIBLE, "9 sequences over 2 pipelines that take 4 to 8");
    assert_status(hsp_shares_minmax(2, d, 3, got, &us, &err), HSP_EINFEASIBLE);
}

/* One segment without caps has a closed form: equal finish times, T = (1 + sum f/c) / sum 1/c. */
static void one_segment_matches_the_closed_form(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 30; round++) {
        struct hsp_err err = {0};
        uint32_t n = (uint32_t)hsp_test_range("sn", round, 1, 8);
        double slope[8], fixed[8], mem[8] = {0}, cap[8] = {0}, w[8], us = 0, a = 1, b = 0;
        for (uint32_t j = 0; j < n; j++) {
            slope[j] = (double)hsp_test_range("ss", round * 8 + j, 100, 900);
            fixed[j] = (double)hsp_test_range("sf", round * 8 + j, 0, 10);
            a += fixed[j] / slope[j];
            b += 1 / slope[j];
        }
        struct hsp_segments s = {n, 1, slope, fixed, mem, cap};
        assert_ok(hsp_shares_segments(&s, NULL, w, &us, &err), &err);
        assert_near(us / (a / b), 1, 1e-6);
    }
}

/* Two segments, two members, a cap: against a fine grid. */
static void segments_with_caps_match_a_grid(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 30; round++) {
        struct hsp_err err = {0};
        double slope[4], fixed[4], mem[2] = {100, 100}, cap[2], w[2], us = 0;
        for (uint64_t i = 0; i < 4; i++) {
            slope[i] = (double)hsp_test_range("gs", round * 4 + i, 100, 900);
            fixed[i] = (double)hsp_test_range("gf", round * 4 + i, 0, 50);
        }
        cap[0] = (double)hsp_test_range("gc", round, 20, 100);
        cap[1] = 90;
        struct hsp_segments s = {2, 2, slope, fixed, mem, cap};
        assert_ok(hsp_shares_segments(&s, NULL, w, &us, &err), &err);
        assert_near(w[0] + w[1], 1, 1e-6);
        assert_true(w[0] * 100 <= cap[0] + 1e-4 && w[1] * 100 <= cap[1] + 1e-4);
        double best = (double)INFINITY;
        for (int k = 0; k <= 10000; k++) {
            double x = k / 10000.0;
            if (x * 100 <= cap[0] && (1 - x) * 100 <= cap[1]) {
                double t = fmax(fixed[0] + slope[0] * x, fixed[1] + slope[1] * (1 - x)) +
                           fmax(fixed[2] + slope[2] * x, fixed[3] + slope[3] * (1 - x));
                best = fmin(best, t);
            }
        }
        assert_true(us <= best + 1e-3 && us >= best - 1);
    }
}

static void caps_without_room_are_infeasible(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    double slope[2] = {1, 1}, fixed[2] = {0}, mem[2] = {100, 100}, cap[2] = {40, 50}, w[2], us = 0;
    struct hsp_segments s = {2, 1, slope, fixed, mem, cap};
    assert_status(hsp_shares_segments(&s, NULL, w, &us, &err), HSP_EINFEASIBLE);
}

HSP_TEST_FILE(shares_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_brute_force),
        cmocka_unit_test(matches_the_integer_program),
        cmocka_unit_test(equal_devices_share_equally_and_ties_go_low),
        cmocka_unit_test(too_much_and_too_little_are_refused),
        cmocka_unit_test(one_segment_matches_the_closed_form),
        cmocka_unit_test(segments_with_caps_match_a_grid),
        cmocka_unit_test(caps_without_room_are_infeasible),
    };
    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
