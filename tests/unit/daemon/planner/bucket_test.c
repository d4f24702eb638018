/* Tests how many bytes travel as one. */
#include "daemon/planner/bucket.h"

#include <math.h>

#include "tests/lib/testlib.h"

static double latency_part(const struct hsp_link_cost *l, double holders, double bytes)
{
    double latency = (1 + (holders - 1) / 4) * l->latency_us;
    return latency / (latency + bytes * l->us_per_byte * (holders - 1) / holders);
}

/* The least power of two at which latency is a twentieth of the time. */
static void test_latency_is_little(void **state)
{
    (void)state;
    uint32_t at_bounds = 0;
    for (uint32_t k = 0; k < 2000; k++) {
        struct hsp_link_cost l = {.latency_us = 1 + (double)(hsp_test_rand("latency", k) % 500),
                                  .us_per_byte =
                                      1e-5 * (double)(1 + hsp_test_rand("rate", k) % 5000)};
        uint32_t holders = 2 + (uint32_t)(hsp_test_rand("holders", k) % 30);
        uint64_t bytes = hsp_bucket_bytes(&l, holders);
        assert_true(bytes >= 65536 && bytes <= HSP_MAX_BUCKET && (bytes & (bytes - 1)) == 0);
        assert_true(latency_part(&l, holders, (double)bytes) <= 0.05 || bytes == HSP_MAX_BUCKET);
        assert_true(latency_part(&l, holders, (double)bytes / 2) > 0.05 || bytes == 65536);
        at_bounds += bytes == 65536 || bytes == HSP_MAX_BUCKET;
    }
    assert_true(at_bounds < 1000);
    const struct hsp_link_cost example = {100, 1 / 125.0}, unknown = {20, 0};
    assert_int_equal(hsp_bucket_bytes(&example, 2), 1u << 20);
    assert_int_equal(hsp_bucket_bytes(&example, 1), 0);
    assert_int_equal(hsp_bucket_bytes(&unknown, 2), HSP_MAX_BUCKET);
}

static void test_plans(void **state)
{
    (void)state;
    struct hsp_device_desc dev[3] = {{.node = 0}, {.node = 1}, {.node = 1}};
    const struct hsp_cluster_desc c = {
        .n = 3, .dev = dev, .same_node = {1, 1e-3}, .cross = {100, 1 / 125.0}};
    struct hsp_stage stage[2] = {{.n = 1}, {.n = 1}};
    struct hsp_pipeline pipeline[2] = {{.n_stages = 1, .stages = &stage[0]},
                                       {.n_stages = 1, .stages = &stage[1]}};
    struct hsp_plan p = {.n_ranks = 2, .n_pipelines = 2, .pipelines = pipeline};
    assert_int_equal(hsp_bucket_of_plan(&p, &c, (const uint32_t[]){0, 1}), 1u << 20);
    assert_int_equal(hsp_bucket_of_plan(&p, &c, (const uint32_t[]){1, 2}), 1u << 16);
    p.states_bucket = true; /* states: none */
    assert_int_equal(hsp_bucket_of_plan(&p, &c, (const uint32_t[]){0, 1}), 0);
    p.states_bucket = false; /* a pipeline: nobody shares a parameter */
    p.n_pipelines = 1;
    pipeline[0].n_stages = 2;
    assert_int_equal(hsp_bucket_of_plan(&p, &c, (const uint32_t[]){0, 1}), 0);
}

static void test_counts(void **state)
{
    (void)state;
    assert_near(hsp_bucket_count(0, 40, 1e6), 40, 0);
    assert_near(hsp_bucket_count(1u << 18, 40, 1e6), 4, 0);
    assert_near(hsp_bucket_count(1000, 40, 1e6), 40, 0); /* no more than there are */
}

HSP_TEST_FILE(bucket_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency_is_little),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
