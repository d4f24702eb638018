#include "tests/lib/testlib.h"

#include "daemon/planner/cluster_file.h"

static const char head[] = "apiVersion: hspmd/v1\nkind: cluster\n";

static enum hsp_status parse(struct hsp_arena *arena, const char *body,
                             struct hsp_cluster_desc *ret, struct hsp_err *err)
{
    const char *text = hsp_arena_printf(arena, "%s%s", head, body);
    return hsp_cluster_desc_parse(text, strlen(text), "c.yaml", arena, ret, err);
}

static void speed_scales_all_rates(void **state)
{
    struct hsp_err err = {0};
    struct hsp_cluster_desc c;
    assert_ok(parse(*state,
                    "nodes:\n"
                    "  - {name: a, devices: [{}, {speed: 0.5, memory: 1GiB}]}\n"
                    "  - {name: b, uplink: {latency_us: 200, gbit_per_s: 1},\n"
                    "     fast_domain: 1, fast_link: {latency_us: 3, gbit_per_s: 800},\n"
                    "     network_cards: 2, host_memory: 3GiB, state_folder: 5GiB, devices: "
                    "[{count: 2, gemm_gflops: "
                    "100, op_us: 7, gemm_us: 4, host_gb_per_s: 50, "
                    "memory_bf16_part: 0.25}]}\n"
                    "links: {cross_node: {latency_us: 100, gbit_per_s: 8}}\n",
                    &c, &err),
              &err);
    assert_int_equal(c.n, 4);
    assert_string_equal(c.dev[0].name, "a/0");
    assert_string_equal(c.dev[1].name, "a/1");
    assert_string_equal(c.dev[3].name, "b/1");
    assert_int_equal(c.dev[1].node, 0);
    assert_int_equal(c.dev[2].node, 1);
    assert_near(c.dev[1].gemm_flops[0], c.dev[0].gemm_flops[0] / 2, 1);
    assert_near(c.dev[1].gemm_flops[1], c.dev[0].gemm_flops[1] / 2, 1);
    assert_near(c.dev[1].mem_bytes_per_s, c.dev[0].mem_bytes_per_s / 2, 1);
    assert_near(c.dev[1].op_us, c.dev[0].op_us * 2, 1e-12);
    assert_true(c.dev[1].mem_bytes == (int64_t)1 << 30);
    assert_near(c.dev[2].gemm_flops[0], 100e9, 1);
    assert_near(c.dev[2].op_us, 7, 1e-12);
    assert_near(c.dev[2].gemm_us, 4, 1e-12);
    assert_near(c.dev[2].host_bytes_per_s, 50e9, 1);
    assert_near(c.dev[0].bf16_part, 1, 0);
    assert_near(c.dev[2].bf16_part, 0.25, 0);
    assert_true(c.dev[0].gemm_us <= 0 && c.dev[0].host_bytes_per_s <= 0);
    assert_near(c.cross.us_per_byte, 1e-3, 1e-15);
    assert_near(c.cross.latency_us, 100, 0);
    assert_near(c.dev[3].uplink.latency_us, 200, 0);
    assert_int_equal(c.dev[1].nic, 0); /* one card unless it is said */
    assert_int_equal(c.dev[2].nic, 0);
    assert_int_equal(c.dev[3].nic, 1);
    assert_true(c.dev[0].domain == 0 && c.dev[2].domain != 0);
    assert_int_not_equal(c.dev[2].domain, c.dev[3].domain);
    assert_near(c.dev[2].fast.latency_us, 3, 0);
    assert_near(c.dev[2].fast.us_per_byte, 1e-5, 1e-15);
    assert_near(c.dev[3].uplink.us_per_byte, 8e-3, 1e-15);
    assert_true(c.dev[0].uplink.us_per_byte < c.cross.us_per_byte); /* none given: that of links */
    assert_true(c.dev[0].host == c.dev[1].host && c.dev[0].host != c.dev[2].host);
    assert_true(c.dev[1].folder_bytes == 0 && c.dev[3].folder_bytes == (int64_t)5 << 30);
    assert_true(c.dev[1].host_bytes == 0 && c.dev[3].host_bytes == (int64_t)3 << 30);
    struct hsp_device_desc d = hsp_device_default("a/0", 0, 1);
    /* Field by field: the struct has padding. */
    assert_string_equal(d.name, c.dev[0].name);
    assert_int_equal(d.node, c.dev[0].node);
    assert_true(d.mem_bytes == c.dev[0].mem_bytes);
    assert_memory_equal(d.gemm_flops, c.dev[0].gemm_flops, sizeof(d.gemm_flops));
    assert_near(d.mem_bytes_per_s, c.dev[0].mem_bytes_per_s, 0);
    assert_near(d.op_us, c.dev[0].op_us, 0);
}

/* A rate that is left out is as fast as fp32, and bf16 then computed in it. */
static void rates_of_tf32_and_bf16(void **state)
{
    struct hsp_err err = {0};
    struct hsp_cluster_desc c;
    assert_ok(parse(*state,
                    "nodes:\n"
                    "  - {name: a, devices: [{gemm_gflops: 10, gemm_gflops_fp64: 5}, {speed: 0.5, "
                    "gemm_gflops: 10, gemm_gflops_tf32: 40, gemm_gflops_bf16: 80}]}\n",
                    &c, &err),
              &err);
    static const double want[2][HSP_N_RATES] = {{10e9, 5e9, 10e9, 10e9}, {5e9, 0, 20e9, 40e9}};
    for (int k = 0; k < 2; k++) {
        for (int r = 0; r < HSP_N_RATES; r++) {
            if (want[k][r] > 0) {
                assert_near(hsp_device_gemm(&c.dev[k], (enum hsp_rate)r, HSP_GEMM_EVEN), want[k][r],
                            1);
            }
        }
    }
    assert_true(c.dev[0].widens && !c.dev[1].widens);
    assert_true(hsp_device_default("a/0", 0, 1).widens);
}

static void parts_of_shapes(void **state)
{
    struct hsp_err err = {0};
    struct hsp_cluster_desc c;
    assert_ok(parse(*state,
                    "nodes: [{name: a, devices: [{speed: 0.5, gemm_gflops: 10, gemm_gflops_bf16: "
                    "80, gemm_parts: {few: 0.25, attention: 0.5}}, {}]}]\n",
                    &c, &err),
              &err);
    static const double want[HSP_N_GEMM_CLASSES] = {1, 0.25, 1, 1, 0.5};
    for (int k = 0; k < HSP_N_GEMM_CLASSES; k++) {
        enum hsp_gemm_class cls = (enum hsp_gemm_class)k;
        assert_near(hsp_device_gemm(&c.dev[0], HSP_RATE_FP32, cls), 5e9 * want[k], 1);
        assert_near(hsp_device_gemm(&c.dev[0], HSP_RATE_TF32, cls), 5e9 * want[k], 1);
        assert_near(hsp_device_gemm(&c.dev[0], HSP_RATE_BF16, cls), 40e9 * want[k], 1);
        assert_near(hsp_device_gemm(&c.dev[1], HSP_RATE_FP64, cls), c.dev[1].gemm_flops[1], 0);
    }
    assert_status(
        parse(*state, "nodes: [{name: a, devices: [{gemm_parts: {long: 0}}]}]\n", &c, &err),
        HSP_EPARSE);
    assert_status(
        parse(*state, "nodes: [{name: a, devices: [{gemm_parts: {even: 1}}]}]\n", &c, &err),
        HSP_EPARSE);
}

static void messages(void **state)
{
    static const char *const cases[][2] = {
        {"nodes: []\n", "c.yaml:3:8: nodes: no device"},
        {"nodes: [{name: A, devices: [{}]}]\n",
         "c.yaml:3:16: name: must be 1 to 63 of a-z 0-9 - . with alphanumeric ends"},
        {"nodes: [{name: a, devices: [{}]}, {name: a, devices: [{}]}]\n",
         "c.yaml:3:42: name: node a stands twice"},
        {"nodes: [{name: a, devices: [{sped: 1}]}]\n",
         "c.yaml:3:30: unknown key \"sped\", did you mean \"speed\"?"},
        {"nodes: [{name: a, devices: [{count: 4096}, {}]}]\n",
         "c.yaml:3:44: more than 4096 devices"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hsp_err err = {0};
        struct hsp_cluster_desc c;
        enum hsp_status st = parse(*state, cases[i][0], &c, &err);
        assert_err(&err, st, cases[i][1]);
        assert_true(st == HSP_EPARSE || st == HSP_ELIMIT);
    }
}

HSP_TEST_FILE(cluster_file_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speed_scales_all_rates),
        cmocka_unit_test(rates_of_tf32_and_bf16),
        cmocka_unit_test(parts_of_shapes),
        cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests_name("clusterfile", tests, hsp_test_arena_begin,
                                       hsp_test_arena_end);
}
