/* Tests the child process that measures a GPU: it answers, gives a reason for a failure, or stays
 * silent. */
#include "tests/lib/testlib.h"

#include <stdio.h>
#include <sys/stat.h>

#include "worker/probe/gpu_probe.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = hsp_test_tmpdir();
    return dir == NULL;
}

static int teardown(void **state)
{
    (void)state;
    hsp_test_rmdir(dir);
    free(dir);
    return 0;
}

/* Makes a program that does @what when it is called for GPU 3. */
static enum hsp_status ask(const char *what, uint32_t within_ms, struct hsp_device_info *d,
                           struct hsp_probe *p, struct hsp_err *err)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/program", dir);
    (void)remove(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(
        fprintf(f, "#!/bin/sh\n[ \"$1 $2\" = '--probe-device cuda:3' ] || exit 9\n%s\n", what) > 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    *err = (struct hsp_err){0};
    return hsp_gpu_ask_by(path, 3, within_ms, d, p, err);
}

#define ANSWER                                                                         \
    "{\"name\":\"X\",\"pci\":\"0000:01:00.0\",\"uuid\":"                               \
    "\"GPU-00010203-0405-0607-0809-0a0b0c0d0e0f\",\"sm\":90,\"n_sms\":132,"            \
    "\"memory_bytes\":1000,\"free_bytes\":900,\"bf16\":true,\"gemm_fp32_flops\":5e13," \
    "\"gemm_fp64_flops\":3e13,\"gemm_tf32_flops\":4e14,\"gemm_bf16_flops\":8e14,"      \
    "\"mem_bytes_per_s\":2e12,\"op_us\":3,\"gemm_us\":2,\"host_bytes_per_s\":5e10,"    \
    "\"gemm_parts\":[1,0.2,0.3,0.4,0.5,1,0,0,0,0,0,0,0,0,0,1,0.6,0.7,0.8,0.9]}"

static void an_answer_is_taken(void **state)
{
    (void)state;
    struct hsp_device_info d;
    struct hsp_probe p;
    struct hsp_err err;
    assert_ok(ask("echo a warning >&2\necho '" ANSWER "'", 20000, &d, &p, &err), &err);
    assert_true(d.sm == 90 && d.uuid[15] == 15);
    assert_near(p.gemm_bf16_flops, 8e14, 1);
    assert_near(p.gemm_part[HSP_RATE_FP32][HSP_GEMM_WIDE], 0.3, 0);
    assert_near(p.gemm_part[HSP_RATE_BF16][HSP_GEMM_ATTENTION], 0.9, 0);
}

static void a_reason_is_told(void **state)
{
    (void)state;
    struct hsp_device_info d;
    struct hsp_probe p;
    struct hsp_err err;
    (void)ask("echo a warning\necho 'hspmd-worker: no driver' >&2\nexit 1", 20000, &d, &p, &err);
    assert_err(&err, HSP_ENODEV, "no driver");
    (void)ask("exit 1", 20000, &d, &p, &err);
    assert_err(&err, HSP_ENODEV, "GPU 3: its process ended without an answer");
    (void)ask("kill -9 $$", 20000, &d, &p, &err);
    assert_err(&err, HSP_ENODEV, "GPU 3: its process was killed");
    (void)ask("echo what", 20000, &d, &p, &err);
    assert_err(&err, HSP_EPROTO, "GPU 3: no answer of a GPU: not JSON");
    assert_status(ask("yes", 20000, &d, &p, &err), HSP_ELIMIT);
    (void)ask("sleep 60 & wait", 200, &d, &p, &err);
    assert_err(&err, HSP_ETIMEDOUT, "GPU 3 has not answered within 200 ms");
    assert_status(hsp_gpu_ask_by("/nonexistent", 3, 20000, &d, &p, &err), HSP_ENODEV);
}

/* For several GPUs the program is called for the paths between them. */
static void paths_are_asked_for(void **state)
{
    (void)state;
    const uint32_t index[3] = {0, 2, 11};
    struct hsp_probe_path p[HSP_NODE_PATHS];
    struct hsp_err err = {0};
    uint32_t n = 9;
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/paths", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("#!/bin/sh\n[ \"$1 $2\" = '--probe-device cuda:0,2,11' ] || exit 9\n"
                      "echo '{\"paths\":[{\"a\":0,\"b\":2,\"direct\":false,\"bytes_per_s\":1e10,"
                      "\"latency_us\":9}]}'\n",
                      f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0700), 0);
    assert_ok(hsp_gpu_ask_paths(path, index, 3, 20000, p, &n, &err), &err);
    assert_true(n == 1 && p[0].a == 0 && p[0].b == 2 && !p[0].direct);
    assert_near(p[0].bytes_per_s, 1e10, 0);
    (void)hsp_gpu_ask_paths(path, index, 2, 20000, p, &n, &err);
    assert_err(&err, HSP_ENODEV, "the paths between GPUs: its process ended without an answer");
    assert_int_equal(n, 0);
}

/* The program that measures a GPU refuses a device that names no GPU number: exit status 2. */
static void what_it_takes(void **state)
{
    (void)state;
    assert_int_equal(hsp_gpu_ask_main("cpu"), 2);
    assert_int_equal(hsp_gpu_ask_main("cuda"), 2);
}

HSP_TEST_FILE(gpu_probe_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_taken),
        cmocka_unit_test(a_reason_is_told),
        cmocka_unit_test(paths_are_asked_for),
        cmocka_unit_test(what_it_takes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
