/* Tests that measurements correct a profile: the proportions are those measured, the sum stays as
 * it was. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdbool.h>

#include "daemon/planner/correct.h"

static struct hsp_device_desc device(void)
{
    return (struct hsp_device_desc){.gemm_flops = {1e9, 5e8, 0, 2e9},
                                    .mem_bytes_per_s = 1e8,
                                    .bf16_part = 0.25,
                                    .op_us = 10,
                                    .gemm_us = 5};
}

static double seconds(const struct hsp_device_desc *d, enum hsp_rate rate,
                      const struct hsp_measured *m, bool product)
{
    double bytes = d->mem_bytes_per_s * (rate == HSP_RATE_BF16 ? d->bf16_part : 1);
    return product ? m->flops[0] / hsp_device_gemm(d, rate, HSP_GEMM_EVEN) +
                         1e-6 * m->product.n * (d->op_us + d->gemm_us)
                   : m->bytes / bytes + 1e-6 * m->elements.n * d->op_us;
}

/* 1 s of products and 1 s of traffic were predicted (with 0.1 s of fixed parts each); measured were
 * 6 and 2. */
static void the_proportion_is_that_measured(void **state)
{
    (void)state;
    struct hsp_device_desc d = device();
    const struct hsp_measured m = {.product = {.n = 1e5 / 15, .seconds = 6},
                                   .elements = {.n = 1e4, .seconds = 2},
                                   .flops = {0.9e9},
                                   .bytes = 0.9e8};
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
        struct hsp_measured m = {
            .product = {.n = 100}, .elements = {.n = 500}, .flops = {4e9}, .bytes = 3e7};
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
    const struct hsp_measured good = {.product = {.n = 100, .seconds = 1},
                                      .elements = {.n = 100, .seconds = 1},
                                      .flops = {1e9},
                                      .bytes = 1e8};
    for (int k = 0; k < 6 * 4; k++) {
        struct hsp_measured m = good;
        struct hsp_class_sum *s = k / 12 == 0 ? &m.product : &m.elements;
        double *work = k / 12 == 0 ? &m.flops[0] : &m.bytes;
        *(k / 4 % 3 == 0 ? work : k / 4 % 3 == 1 ? &s->n : &s->seconds) = bad[k % 4];
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

/* Products of a shape that the device is known to be slow in take as long as it is known: no news.
 * Were their operations taken for those of even ones, products would seem to be half as fast. */
static void shapes_have_their_rates(void **state)
{
    (void)state;
    struct hsp_device_desc d = device();
    d.gemm_part[HSP_RATE_FP32][HSP_GEMM_LONG] = 0.25;
    d.gemm_part[HSP_RATE_BF16][HSP_GEMM_LONG] = 0.5;
    struct hsp_measured m = {.product = {.n = 10}, .elements = {.n = 10}, .bytes = 1e8};
    m.flops[HSP_GEMM_EVEN] = 1e9;
    m.flops[HSP_GEMM_LONG] = 5e8;
    m.product.seconds = 1 + 2 + 10 * 15e-6;
    m.elements.seconds = 1 + 10 * 10e-6;
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_near(d.gemm_flops[0], 1e9, 0);
    assert_near(d.mem_bytes_per_s, 1e8, 0);
    m.product.seconds = 2 * (1 + 2) + 10 * 15e-6; /* slower, then in all shapes */
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_true(d.gemm_flops[0] < 0.9e9);
    assert_near(hsp_device_gemm(&d, HSP_RATE_FP32, HSP_GEMM_LONG), d.gemm_flops[0] / 4, 1e-3);
    assert_near(hsp_device_gemm(&d, HSP_RATE_BF16, HSP_GEMM_LONG), d.gemm_flops[3] / 2, 1e-3);
    assert_near(hsp_device_gemm(&d, HSP_RATE_TF32, HSP_GEMM_LONG), d.gemm_flops[0] / 4, 1e-3);
}

static void small_differences_are_noise(void **state)
{
    (void)state;
    struct hsp_device_desc d = device();
    struct hsp_measured m = {
        .product = {.n = 10}, .elements = {.n = 50}, .flops = {4e9}, .bytes = 3e8};
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
    const struct hsp_measured m = {.product = {.n = 1, .seconds = 1e-6},
                                   .elements = {.n = 1, .seconds = 1},
                                   .flops = {1e9},
                                   .bytes = 1e8};
    hsp_profile_correct(&d, HSP_RATE_FP32, &m);
    assert_near(d.gemm_flops[0], HSP_CORRECT_MOST * 1e9, 1);
}

HSP_TEST_FILE(correct_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_proportion_is_that_measured),
        cmocka_unit_test(what_is_as_predicted_changes_nothing),
        cmocka_unit_test(what_says_nothing_changes_nothing),
        cmocka_unit_test(shapes_have_their_rates),
        cmocka_unit_test(small_differences_are_noise),
        cmocka_unit_test(a_factor_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
