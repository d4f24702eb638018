/* Tests paths between GPUs: the measurement between asynchronous devices, the JSON line that
 * carries the figures, and their place among the paths of a node. */
#include "tests/lib/testlib.h"

#include <math.h>

#include "tests/lib/mockdev.h"
#include "worker/probe/gpu_probe.h"
#include "worker/probe/gpu_probe_reply.h"
#include "worker/probe/probe_gpu_path.h"

/* Mockdevs do not reach each other. */
static void over_the_host(void **state)
{
    (void)state;
    struct hsp_backend *b[2] = {NULL};
    struct hsp_err err = {0};
    struct hsp_probe_path p = {.a = 3, .b = 5};
    for (uint64_t k = 0; k < 2; k++) {
        struct hsp_mockdev_opts o = {.seed = 3 + k};
        assert_ok(hsp_mockdev_open(&o, &b[k], &err), &err);
    }
    assert_ok(hsp_probe_between(b[0], b[1], false, &p, &err), &err);
    assert_true(p.a == 3 && p.b == 5 && !p.direct);
    assert_true(p.bytes_per_s > 1e6 && p.bytes_per_s < 1e13);
    assert_true(p.latency_us > 1e-3 && p.latency_us < 1e6);
    b[1]->seconds = NULL;
    assert_status(hsp_probe_between(b[0], b[1], false, &p, &err), HSP_EUNSUPPORTED);
    b[0]->close(b[0]);
    b[1]->close(b[1]);
}

/* A device has no room for two pieces. There are no figures, and the piece that fitted is freed. */
static void without_memory(void **state)
{
    (void)state;
    struct hsp_backend *b[2] = {NULL};
    struct hsp_err err = {0};
    struct hsp_probe_path p = {.a = 3};
    void *all;
    for (uint64_t k = 0; k < 2; k++) {
        struct hsp_mockdev_opts o = {.seed = k, .memory = (size_t)(k == 0 ? 12 : 1) << 20};
        assert_ok(hsp_mockdev_open(&o, &b[k], &err), &err);
    }
    assert_status(hsp_probe_between(b[0], b[1], false, &p, &err), HSP_ENOMEM);
    assert_true(p.bytes_per_s <= 0);
    assert_ok(b[0]->alloc(b[0], HSP_MEM_DEVICE, (size_t)11 << 20, &all, &err), &err);
    b[0]->release(b[0], HSP_MEM_DEVICE, all);
    b[0]->close(b[0]);
    b[1]->close(b[1]);
}

static const struct hsp_probe_path PATHS[] = {
    {0, 1, true, 4e11, 3.5}, {0, 1023, false, 1e10, 25}, {1, 1023, true, 2e10, 0}};

static void an_answer_reads_back(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_probe_path p[HSP_NODE_PATHS];
    uint32_t n = 7;
    hsp_buf_init(&b, HSP_GPU_ANSWER_MAX);
    hsp_gpu_paths_print(PATHS, 3, &b);
    assert_ok(hsp_gpu_paths_parse((const char *)b.data, b.len, p, &n, &err), &err);
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(p[i].a == PATHS[i].a && p[i].b == PATHS[i].b);
        assert_true(p[i].direct == PATHS[i].direct);
        assert_near(p[i].bytes_per_s, PATHS[i].bytes_per_s, 1);
        assert_near(p[i].latency_us, PATHS[i].latency_us, 1e-9);
    }
    for (size_t k = 0; k + 2 < b.len; k++) { /* cut anywhere */
        assert_status(hsp_gpu_paths_parse((const char *)b.data, k, p, &n, &err), HSP_EPROTO);
        assert_int_equal(n, 0);
    }
    hsp_buf_fini(&b);
}

/* The answer for the largest node fits into the bound of an answer. An answer with more paths is
 * refused. */
static void as_many_as_a_node_has(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_probe_path p[HSP_NODE_PATHS + 1];
    uint32_t n = 0;
    for (uint32_t i = 0; i <= HSP_NODE_PATHS; i++) {
        p[i] = (struct hsp_probe_path){1022, 1023, false, 1.234567e10, 1.2345678e-7};
    }
    hsp_buf_init(&b, HSP_GPU_ANSWER_MAX - 1);
    hsp_gpu_paths_print(p, HSP_NODE_PATHS, &b);
    assert_ok(hsp_gpu_paths_parse((const char *)b.data, b.len, p, &n, &err), &err);
    assert_int_equal(n, HSP_NODE_PATHS);
    hsp_buf_reset(&b);
    hsp_gpu_paths_print(p, HSP_NODE_PATHS + 1, &b);
    (void)hsp_gpu_paths_parse((const char *)b.data, b.len, p, &n, &err);
    assert_err(&err, HSP_EPROTO, "no answer of a GPU: a path");
    hsp_buf_fini(&b);
}

static void what_is_no_path(void **state)
{
    (void)state;
#define PATH(a, b, d, r, l)                                                    \
    "{\"paths\":[{\"a\":" a ",\"b\":" b ",\"direct\":" d ",\"bytes_per_s\":" r \
    ",\"latency_us\":" l "}]}"
    static const char *const bad[] = {PATH("1", "1", "true", "1e9", "1"),
                                      PATH("2", "1", "true", "1e9", "1"),
                                      PATH("0.5", "1", "true", "1e9", "1"),
                                      PATH("0", "1024", "true", "1e9", "1"),
                                      PATH("-1", "1", "true", "1e9", "1"),
                                      PATH("0", "1", "1", "1e9", "1"),
                                      PATH("0", "1", "true", "0", "1"),
                                      PATH("0", "1", "true", "1e300", "1"),
                                      PATH("0", "1", "true", "1e9", "-1"),
                                      PATH("0", "1", "true", "1e9", "null"),
                                      "{\"paths\":{}}",
                                      "[]",
                                      "{}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hsp_err err = {0};
        struct hsp_probe_path p[HSP_NODE_PATHS];
        uint32_t n = 1;
        assert_status(hsp_gpu_paths_parse(bad[i], strlen(bad[i]), p, &n, &err), HSP_EPROTO);
        assert_int_equal(n, 0);
    }
}

/* Measured paths take precedence over those that NVML reports. Devices 0 and 3 are on GPU 0, device
 * 1 is on GPU 1, device 2 is no GPU. Device 4 is on GPU 7, whose paths were not measured. NVML has
 * reported a path between devices 0 and 1. */
static void what_was_measured_comes_over_what_is_known(void **state)
{
    (void)state;
    int64_t gpu[HSP_NODE_DEVICES] = {0, 1, -1, 0, 7};
    struct hsp_m_path path[HSP_NODE_PATHS] = {{0, 1, HSP_PATH_NVLINK, 4, 8e10, 0},
                                              {0, 4, HSP_PATH_NUMA, 0, 0, 0}};
    for (uint32_t i = 5; i < HSP_NODE_DEVICES; i++) {
        gpu[i] = -1;
    }
    assert_int_equal(hsp_probe_paths_into(PATHS, 0, gpu, path, 2), 2);
    assert_near(path[0].bytes_per_s, 8e10, 0);
    assert_int_equal(hsp_probe_paths_into(PATHS, 3, gpu, path, 2), 3);
    assert_true(path[0].kind == HSP_PATH_NVLINK && path[0].links == 4);
    assert_near(path[0].bytes_per_s, 4e11, 0);
    assert_near(path[0].latency_us, 3.5, 0);
    assert_true(path[1].bytes_per_s <= 0);
    assert_true(path[2].a == 1 && path[2].b == 3 && path[2].kind == HSP_PATH_SYSTEM);
    assert_near(path[2].bytes_per_s, 4e11, 0);
}

/* The program that measures paths refuses GPU numbers that are no ascending list: exit status 2. */
static void what_it_takes(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "cuda:",    "cuda:0,",     "cuda:0,,1",
        "cuda:1,0", "cuda:1,1",    "cuda:0,x",
        "cuda:,1",  "cuda:0,1024", "cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hsp_gpu_ask_main(bad[i]), 2);
    }
}

HSP_TEST_FILE(probe_gpu_path_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_the_host),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(an_answer_reads_back),
        cmocka_unit_test(as_many_as_a_node_has),
        cmocka_unit_test(what_is_no_path),
        cmocka_unit_test(what_was_measured_comes_over_what_is_known),
        cmocka_unit_test(what_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
