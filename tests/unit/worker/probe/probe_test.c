/* Tests the measurements of an agent at its start: figures of a sane size, scaled as speed says. */
#include "tests/lib/testlib.h"
#include "tests/unit/worker/probe/operands.h"
#include "worker/probe/probe.h"

/* The processor a probe opens, or one that looks at its operands. */
static bool looking;
static struct operands *looks;

enum hsp_status __real_hsp_backend_cpu_open(int threads, struct hsp_backend **ret,
                                            struct hsp_err *err);
enum hsp_status __wrap_hsp_backend_cpu_open(int threads, struct hsp_backend **ret,
                                            struct hsp_err *err);

enum hsp_status __wrap_hsp_backend_cpu_open(int threads, struct hsp_backend **ret,
                                            struct hsp_err *err)
{
    enum hsp_status st = __real_hsp_backend_cpu_open(threads, ret, err);
    if (st == HSP_OK && looking) {
        looks = operands_open(*ret);
        *ret = &looks->base;
    }
    return st;
}

static void test_operands_are_numbers_of_their_type(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_probe p;
    looking = true;
    assert_ok(hsp_probe_cpu(1, true, &p, &err), &err);
    looking = false;
    assert_true(looks->calls[HSP_F32] > 0 && looks->calls[HSP_F64] > 0 &&
                looks->calls[HSP_BF16] > 0);
    if (looks->wrong > 0) {
        fail_msg("%u calls: %s", looks->wrong, looks->what);
    }
    free(looks);
}

static void test_figures_are_of_this_world(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    for (int threads = 1; threads <= 2; threads++) {
        struct hsp_probe p;
        assert_ok(hsp_probe_cpu(threads, true, &p, &err), &err);
        assert_true(p.gemm_fp32_flops > 1e6 && p.gemm_fp32_flops < 1e14);
        assert_true(p.bf16_part > 0.01 && p.bf16_part < 2); /* copies in fp32 and back */
        print_message("element-wise on bf16: %.2f of %.1f GB/s\n", p.bf16_part,
                      1e-9 * p.mem_bytes_per_s);
        assert_true(p.gemm_fp64_flops > 1e6 && p.gemm_fp64_flops < 1e14);
        assert_true(p.mem_bytes_per_s > 1e6 && p.mem_bytes_per_s < 1e13);
        assert_true(p.op_us > 1e-3 && p.op_us < 1e5);
        assert_ok(hsp_probe_cpu(threads, false, &p, &err), &err); /* as a check does */
        assert_true(p.gemm_bf16_flops > 1e6 && p.mem_bytes_per_s > 1e6 && p.op_us > 1e-3);
        assert_true(p.bf16_part == 0 && p.gemm_part[HSP_RATE_FP32][HSP_GEMM_EVEN] == 0);
    }
}

static void test_speed_scales_rates_and_costs(void **state)
{
    (void)state;
    struct hsp_probe p = {.gemm_fp32_flops = 8e9,
                          .gemm_fp64_flops = 4e9,
                          .mem_bytes_per_s = 2e9,
                          .bf16_part = 0.5,
                          .op_us = 3};
    struct hsp_probe q = hsp_probe_scale(&p, 0.25);
    assert_near(q.gemm_fp32_flops, 2e9, 1);
    assert_near(q.bf16_part, 0.5, 0);
    assert_near(q.gemm_fp64_flops, 1e9, 1);
    assert_near(q.mem_bytes_per_s, 0.5e9, 1);
    assert_near(q.op_us, 12, 1e-9);
}

static void test_loopback(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_probe_link l;
    assert_ok(hsp_probe_loopback(&l, &err), &err);
    assert_true(l.latency_us > 0.1 && l.latency_us < 1e6);
    assert_true(l.us_per_byte > 1e-7 && l.us_per_byte < 10);
}

HSP_TEST_FILE(probe_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_figures_are_of_this_world),
                                       cmocka_unit_test(test_operands_are_numbers_of_their_type),
                                       cmocka_unit_test(test_speed_scales_rates_and_costs),
                                       cmocka_unit_test(test_loopback)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
