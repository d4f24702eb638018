#include "daemon/lp/solve.h"
#include "tests/lib/testlib.h"

#include <math.h>

#include "daemon/lp/lp.h"

static struct hsp_lp *problem(enum hsp_lp_sense sense)
{
    struct hsp_lp *lp = hsp_lp_new(sense);
    assert_non_null(lp);
    return lp;
}

static uint32_t var(struct hsp_lp *lp, double lo, double hi, double cost, bool integer)
{
    struct hsp_err err = {0};
    uint32_t v = 0;
    assert_ok(hsp_lp_add_var(lp, lo, hi, cost, integer, &v, &err), &err);
    return v;
}

/* Maximises 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18; the optimum is x = 2, y = 6 (a textbook
 * example). */
static void textbook_optimum(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_lp *lp = problem(HSP_LP_MAX);
    uint32_t v[2] = {var(lp, 0, 4, 3, false), var(lp, 0, HSP_LP_INF, 5, false)};
    double one_y = 2, both[2] = {3, 2}, x[2];
    assert_ok(hsp_lp_add_row(lp, 1, &v[1], &one_y, -HSP_LP_INF, 12, &err), &err);
    assert_ok(hsp_lp_add_row(lp, 2, v, both, -HSP_LP_INF, 18, &err), &err);
    struct hsp_lp_result r;
    assert_ok(hsp_lp_solve(lp, NULL, x, &r, &err), &err);
    assert_true(r.optimal);
    assert_near(r.objective, 36, 1e-9);
    assert_near(x[0], 2, 1e-9);
    assert_near(x[1], 6, 1e-9);
    hsp_lp_free(lp);
}

/* Compares shares without memory caps with their closed form: the minimum of T with c_i w_i <= T
 * and sum w = 1 is T = 1 / sum 1/c.
 */
static void shares_match_the_closed_form(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        struct hsp_err err = {0};
        struct hsp_lp *lp = problem(HSP_LP_MIN);
        uint32_t n = (uint32_t)hsp_test_range("n", round, 1, 8), t = var(lp, 0, 1e9, 1, false);
        uint32_t w[8];
        double ones[8], inverse = 0, x[9];
        for (uint32_t i = 0; i < n; i++) {
            double c = (double)hsp_test_range("c", round * 8 + i, 1, 1000);
            w[i] = var(lp, 0, 1, 0, false);
            ones[i] = 1;
            inverse += 1 / c;
            uint32_t idx[2] = {w[i], t};
            double coef[2] = {c, -1};
            assert_ok(hsp_lp_add_row(lp, 2, idx, coef, -HSP_LP_INF, 0, &err), &err);
        }
        assert_ok(hsp_lp_add_row(lp, n, w, ones, 1, 1, &err), &err);
        struct hsp_lp_result r;
        assert_ok(hsp_lp_solve(lp, NULL, x, &r, &err), &err);
        assert_near(r.objective * inverse, 1, 1e-7);
        hsp_lp_free(lp);
    }
}

struct knapsack {
    uint32_t n;
    double weight[12], value[12], cap;
};

static double knapsack_brute(const struct knapsack *k)
{
    double best = 0;
    for (uint32_t mask = 0; mask < 1u << k->n; mask++) {
        double w = 0, v = 0;
        for (uint32_t i = 0; i < k->n; i++) {
            w += mask >> i & 1 ? k->weight[i] : 0;
            v += mask >> i & 1 ? k->value[i] : 0;
        }
        best = w <= k->cap && v > best ? v : best;
    }
    return best;
}

static struct hsp_lp *knapsack_make(uint64_t round, struct knapsack *k)
{
    struct hsp_err err = {0};
    struct hsp_lp *lp = problem(HSP_LP_MAX);
    uint32_t idx[12];
    k->n = 12;
    k->cap = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        k->weight[i] = (double)hsp_test_range("w", round * 16 + i, 10, 60);
        k->value[i] = (double)hsp_test_range("v", round * 16 + i, 10, 60);
        k->cap += floor(k->weight[i] / 2);
        idx[i] = var(lp, 0, 1, k->value[i], true);
    }
    assert_ok(hsp_lp_add_row(lp, k->n, idx, k->weight, 0, k->cap, &err), &err);
    return lp;
}

static void integers_match_brute_force(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        struct hsp_err err = {0};
        struct knapsack k;
        struct hsp_lp *lp = knapsack_make(round, &k);
        struct hsp_lp_result r;
        double x[12];
        assert_ok(hsp_lp_solve(lp, NULL, x, &r, &err), &err);
        assert_true(r.optimal);
        assert_near(r.objective, knapsack_brute(&k), 1e-9);
        for (uint32_t i = 0; i < k.n; i++) {
            assert_true(x[i] == 0 || x[i] == 1);
        }
        hsp_lp_free(lp);
    }
}

static void limits_and_cancel_are_kept(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct knapsack k;
    struct hsp_lp *lp = knapsack_make(3, &k);
    struct hsp_lp_result r = {0};
    double x[12];
    atomic_bool cancel = true;
    struct hsp_lp_limits stop = {.cancel = &cancel};
    assert_status(hsp_lp_solve(lp, &stop, x, &r, &err), HSP_ECANCELED);
    struct hsp_lp_limits few = {.max_nodes = 1};
    enum hsp_status st = hsp_lp_solve(lp, &few, x, &r, &err);
    assert_true(st == HSP_ELIMIT || (st == HSP_OK && r.nodes <= 1));
    hsp_lp_free(lp);
}

static void impossible_problems_say_so(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_lp_result r;
    double x[2], one = 1;
    struct hsp_lp *lp = problem(HSP_LP_MIN);
    uint32_t v = var(lp, 0, 1, 1, false);
    assert_ok(hsp_lp_add_row(lp, 1, &v, &one, 2, 3, &err), &err);
    assert_status(hsp_lp_solve(lp, NULL, x, &r, &err), HSP_EINFEASIBLE);
    assert_err(&err, HSP_EINFEASIBLE, "no feasible solution (1 variables, 1 rows)");
    hsp_lp_free(lp);
    lp = problem(HSP_LP_MAX);
    (void)var(lp, 0, HSP_LP_INF, 1, false);
    assert_status(hsp_lp_solve(lp, NULL, x, &r, &err), HSP_EINVAL);
    hsp_lp_free(lp);
}

static void bad_input_never_reaches_the_solver(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_lp *lp = problem(HSP_LP_MIN);
    uint32_t v = 0, twice[2] = {0, 0}, missing = 7;
    double coef[2] = {1, 1}, bad = (double)NAN;
    assert_status(hsp_lp_add_var(lp, 2, 1, 0, false, &v, &err), HSP_EINVAL);
    assert_status(hsp_lp_add_var(lp, bad, 1, 0, false, &v, &err), HSP_EINVAL);
    assert_status(hsp_lp_add_var(lp, 0, 1, INFINITY, false, &v, &err), HSP_EINVAL);
    v = var(lp, 0, 1, 1, false);
    assert_int_equal(v, 0);
    assert_status(hsp_lp_add_row(lp, 1, &missing, coef, 0, 1, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "row 0: variable 7 of 1");
    assert_status(hsp_lp_add_row(lp, 2, twice, coef, 0, 1, &err), HSP_EINVAL);
    assert_status(hsp_lp_add_row(lp, 1, &v, &bad, 0, 1, &err), HSP_EINVAL);
    assert_status(hsp_lp_add_row(lp, 1, &missing, coef, 0, 1, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "row 0: variable 7 of 1");       /* none was added */
    assert_ok(hsp_lp_add_row(lp, 1, &v, coef, 0, 1, &err), &err); /* no mark was left behind */
    hsp_lp_free(lp);
}

static void verify_finds_violations(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_lp *lp = problem(HSP_LP_MIN);
    uint32_t v[2] = {var(lp, 0, 10, 2, true), var(lp, 0, 10, 3, false)};
    double coef[2] = {1, 1}, objective = 0;
    assert_ok(hsp_lp_add_row(lp, 2, v, coef, 4, 5, &err), &err);
    assert_ok(hsp_lp_verify(lp, (double[]){2, 2.5}, 1e-9, &objective, &err), &err);
    assert_near(objective, 11.5, 1e-12);
    assert_status(hsp_lp_verify(lp, (double[]){2, 11}, 1e-9, &objective, &err), HSP_EINVAL);
    assert_status(hsp_lp_verify(lp, (double[]){2.5, 2}, 1e-9, &objective, &err), HSP_EINVAL);
    assert_status(hsp_lp_verify(lp, (double[]){1, 2}, 1e-9, &objective, &err), HSP_EINVAL);
    assert_status(hsp_lp_verify(lp, (double[]){2, (double)NAN}, 1e-9, &objective, &err),
                  HSP_EINVAL);
    hsp_lp_free(lp);
}

HSP_TEST_FILE(lp_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(textbook_optimum),
        cmocka_unit_test(shares_match_the_closed_form),
        cmocka_unit_test(integers_match_brute_force),
        cmocka_unit_test(limits_and_cancel_are_kept),
        cmocka_unit_test(impossible_problems_say_so),
        cmocka_unit_test(bad_input_never_reaches_the_solver),
        cmocka_unit_test(verify_finds_violations),
    };
    return cmocka_run_group_tests_name("lp", tests, NULL, NULL);
}
