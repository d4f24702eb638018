/* What was measured corrects a profile: the proportions are those measured, the sum stays what it was. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdbool.h>

#include "daemon/planner/correct.h"

static struct hsp_device_desc device(void)
{
    return (struct hsp_device_desc){
        .gemm_flops = {1e9, 5e8, 0, 2e9}, .mem_bytes_per_s = 1e8, .op_us = 10, .gemm_us = 5};
}

static double seconds(const struct hsp_device_desc *d, enum hsp_rate rate,
                      const struct hsp_measured *m, bool product)
{
    return product ? m->product.work / hsp_device_gemm(d, rate) +
                         1e-6 * m->product.n * (d->op_us + d->gemm_us)
                   : m->elements.work / d->mem_bytes_per_s + 1e-6 * m->elements.n * d->op_us;
}

/* 1 s of products and 1 s of traffic were predicted (with 0.1 s of fixed parts each); measured were 6 and 2. */
static void the_proportion_is_that_measured(void **state)
{
    (void)state;
    struct hsp_device_desc d = device();
    const struct hsp_measured m = {.product = {.work = 0.9e9, .n = 1e5 / 15, .seconds = 6},
                                   .elements = {.work = 0.9e8, .n = 1e4, .seconds = 2}};
    assert_near(seconds(&d, HSP_RATE_FP32, &m, true), 1, 1e-9);
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_near(seconds(&d, HSP_RATE_FP32, &m, true), 1.5, 1e-9);
    assert_near(seconds(&d, HSP_RATE_FP32, &m, false), 0.5, 1e-9);
    assert_near(d.gemm_flops[HSP_RATE_FP32], 1e9 * 0.9 / 1.4, 1);
    assert_near(d.gemm_flops[HSP_RATE_BF16], 2e9 * 0.9 / 1.4, 1); /* the others in proportion */
    assert_true(d.gemm_flops[HSP_RATE_TF32] <= 0);
    assert_near(d.op_us, 10, 0);
}

static void what_is_as_predicted_changes_nothing(void **state)
{
    (void)state;
    for (double speed = 0.1; speed < 20;
         speed *= 3) { /* slower or faster as a whole: not its business */
        struct hsp_device_desc d = device();
        struct hsp_measured m = {.product = {.work = 4e9, .n = 100},
                                 .elements = {.work = 3e7, .n = 500}};
        m.product.seconds = seconds(&d, HSP_RATE_BF16, &m, true) / speed;
        m.elements.seconds = seconds(&d, HSP_RATE_BF16, &m, false) / speed;
        hsp_profile_correct(&d, HSP_RATE_BF16, &m);
        assert_near(d.gemm_flops[HSP_RATE_BF16], 2e9, 1);
        assert_near(d.mem_bytes_per_s, 1e8, 1e-3);
    }
}

static void what_says_nothing_changes_nothing(void **state)
{
    (void)state;
    static const double bad[] = {0, -1, (double)NAN, (double)INFINITY};
    const struct hsp_measured good = {.product = {.work = 1e9, .n = 100, .seconds = 1},
                                      .elements = {.work = 1e8, .n = 100, .seconds = 1}};
    for (int k = 0; k < 6 * 4; k++) {
        struct hsp_measured m = good;
        struct hsp_class_sum *s = k / 12 == 0 ? &m.product : &m.elements;
        *(k / 4 % 3 == 0 ? &s->work : k / 4 % 3 == 1 ? &s->n : &s->seconds) = bad[k % 4];
        struct hsp_device_desc d = device(), before = d;
        hsp_profile_correct(&d, HSP_RATE_FP32, &m);
        assert_near(d.gemm_flops[0], before.gemm_flops[0], 0);
        assert_near(d.mem_bytes_per_s, before.mem_bytes_per_s, 0);
    }
    struct hsp_measured m = good; /* less time than its instructions take anyway */
    m.elements.n = 1e6;
    m.elements.seconds = 1e-3;
    struct hsp_device_desc d = device();
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_near(d.mem_bytes_per_s, 1e8, 0);
}

static void small_differences_are_noise(void **state)
{
    (void)state;
    struct hsp_device_desc d = device();
    struct hsp_measured m = {.product = {.work = 4e9, .n = 10}, .elements = {.work = 3e8, .n = 50}};
    m.product.seconds = 1.1 * seconds(&d, HSP_RATE_FP32, &m, true);
    m.elements.seconds = seconds(&d, HSP_RATE_FP32, &m, false);
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_near(d.gemm_flops[0], 1e9, 0);
    m.product.seconds *= 1.4;
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_true(d.gemm_flops[0] < 0.9e9);
}

static void a_factor_has_a_bound(void **state)
{
    (void)state;
    struct hsp_device_desc d = device();
    d.op_us = d.gemm_us = 0;
    const struct hsp_measured m = {.product = {.work = 1e9, .n = 1, .seconds = 1e-6},
                                   .elements = {.work = 1e8, .n = 1, .seconds = 1}};
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_near(d.gemm_flops[0], HSP_CORRECT_MOST * 1e9, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_proportion_is_that_measured),
        cmocka_unit_test(what_is_as_predicted_changes_nothing),
        cmocka_unit_test(what_says_nothing_changes_nothing),
        cmocka_unit_test(small_differences_are_noise),
        cmocka_unit_test(a_factor_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
