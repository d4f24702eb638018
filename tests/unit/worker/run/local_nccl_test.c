/* Tests whole runs of plans whose ranks have GPUs, or some of them: messages by NCCL and through
 * the host compute the numbers of CPUs, to the bit. */
#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "proto/program/program_file.h"
#include "tests/lib/mockdev.h"
#include "tests/unit/worker/comm/nccl_world.h"
#include "tests/unit/worker/run/device_run.h"
#include "worker/backend/cpu/cpu.h"

enum { STEPS = 4, BATCH = 12, RANKS = 5 };

static const struct hsp_model_spec GPT = {.family = "gpt",
                                          .layers = 4,
                                          .hidden = 16,
                                          .heads = 4,
                                          .vocab = 32,
                                          .sequence = 24,
                                          .dtype = HSP_F64};

static const char HEAD[] =
    "apiVersion: hspmd/v1\nkind: plan\nranks: %d\nzero: %d\nbucket: %d\npipelines: %s\n";

static const struct plan {
    const char *name;
    int ranks, zero, bucket;
    const char *streams;
} PLANS[] = {
    {"data parallel, uneven shares", 3, 1, 0,
     "[{sequences: 6, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}, {sequences: 4, "
     "micro_batches: 1, stages: [{layers: 4, ranks: [1]}]}, {sequences: 2, micro_batches: 1, "
     "stages: [{layers: 4, ranks: [2]}]}]"},
    {"data parallel, buckets", 3, 1, 4000,
     "[{sequences: 6, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}, {sequences: 4, "
     "micro_batches: 1, stages: [{layers: 4, ranks: [1]}]}, {sequences: 2, micro_batches: 1, "
     "stages: [{layers: 4, ranks: [2]}]}]"},
    {"data parallel, all in one bucket", 3, 0, 64 << 20,
     "[{sequences: 6, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}, {sequences: 4, "
     "micro_batches: 1, stages: [{layers: 4, ranks: [1]}]}, {sequences: 2, micro_batches: 1, "
     "stages: [{layers: 4, ranks: [2]}]}]"},
    {"uneven tensor parallel", 2, 0, 4000,
     "[{sequences: 12, micro_batches: 3, stages: [{layers: 4, ranks: [0, 1], tensor: [3, 1]}]}]"},
    {"a pipeline that turns", 2, 0, 0,
     "[{sequences: 12, micro_batches: 6, schedule: interleaved, chunks: 2, stages: [{layers: [1, "
     "1], ranks: [0]}, {layers: [1, 1], ranks: [1]}]}]"},
    {"a pipeline", 3, 0, 0,
     "[{sequences: 12, micro_batches: 6, stages: [{layers: 1, ranks: [0]}, {layers: 2, ranks: "
     "[1]}, {layers: 1, ranks: [2]}]}]"},
    {"pipelines of pipelines", 5, 1, 4000,
     "[{sequences: 8, micro_batches: 4, schedule: gpipe, stages: [{layers: 2, ranks: [0, 1]}, "
     "{layers: 2, ranks: [2]}]}, {sequences: 2, micro_batches: 1, stages: [{layers: 4, ranks: "
     "[3]}]}, {sequences: 2, micro_batches: 2, stages: [{layers: 4, ranks: [4]}]}]"},
    {"parameters cut", 3, 3, 4000,
     "[{sequences: 6, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}, {sequences: 4, "
     "micro_batches: 1, stages: [{layers: 4, ranks: [1]}]}, {sequences: 2, micro_batches: 1, "
     "stages: [{layers: 4, ranks: [2]}]}]"},
};

/* Of which GPU each rank is, 0: it computes on its processor. */
static const uint64_t GPUS[][RANKS] = {
    {1, 2, 3, 4, 5},
    {1, 2, 0, 4, 5},
    {1, 0, 3, 0, 5},
    {1, 1, 2, 3, 3},
};

static char *write_programs(const char *dir, const struct plan *x)
{
    struct hsp_train_spec t = {.hyper = {.steps = STEPS,
                                         .lr = 3e-3,
                                         .clip_norm = 1.0,
                                         .optimizer = HSP_OPT_ADAMW,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95},
                               .data = {.seed = 11,
                                        .global_batch = BATCH,
                                        .sequence = (uint32_t)GPT.sequence,
                                        .eval_seqs = 6,
                                        .validation_every = 2,
                                        .validation_fraction = 0.1,
                                        .vocab = (uint32_t)GPT.vocab},
                               .eps = 1e-8,
                               .weight_decay = 0.1};
    struct hsp_graph *g;
    struct hsp_plan *p;
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
    struct hsp_program_file f;
    struct hsp_buf b;
    char *path, *text;
    assert_true(asprintf(&text, HEAD, x->ranks, x->zero, x->bucket, x->streams) > 0);
    assert_ok(hsp_graph_build(&GPT, &g, &err), &err);
    assert_ok(hsp_plan_parse(text, strlen(text), "plan", BATCH, a, &p, &err), &err);
    assert_ok(hsp_compile(g, p, &t, a, &f, &err), &err);
    f.config_json = "{}";
    hsp_buf_init(&b, HSP_MAX_PROGRAM_FILE_BYTES);
    assert_int_equal(hsp_program_file_encode(&f, &b), HSP_OK);
    assert_true(asprintf(&path, "%s/program", dir) > 0);
    assert_ok(hsp_file_write(path, b.data, b.len, 0600, &err), &err);
    hsp_buf_fini(&b);
    hsp_graph_free(g);
    hsp_arena_free(a);
    free(text);
    return path;
}

/* ---- devices ---- */

static void submit(void *stream, const struct hsp_fakenccl_work *w)
{
    const struct hsp_mockdev_work g = {w->ready, w->run, w->arg};
    hsp_mockdev_submit(stream, &g);
}

static uint64_t gpu_of(void *ctx, uint32_t rank)
{
    return ((const uint64_t *)ctx)[rank];
}

static enum hsp_status open_rank(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                 struct hsp_err *err)
{
    return gpu_of(ctx, rank) != 0 ? hsp_devicerun_open(NULL, rank, threads, ret, err)
                                  : hsp_backend_cpu_open(threads, ret, err);
}

/* Calls that are work of NCCL. */
static unsigned work_of(void)
{
    static const char *const name[] = {"ncclSend",          "ncclRecv",      "ncclAllReduce",
                                       "ncclReduceScatter", "ncclAllGather", "ncclBroadcast",
                                       "ncclReduce"};
    unsigned n = 0;
    for (size_t k = 0; k < HSP_ARRAY_LEN(name); k++) {
        n += nw_fake()->calls(name[k]);
    }
    return n;
}

static void numbers_are_those_of_cpus(void **state)
{
    char *dir = hsp_test_tmpdir();
    unsigned by_nccl = 0;
    (void)state;
    for (size_t k = 0; k < HSP_ARRAY_LEN(PLANS); k++) {
        char *path = write_programs(dir, &PLANS[k]);
        for (size_t i = 0; i < HSP_ARRAY_LEN(GPUS); i++) {
            uint64_t gpu[RANKS];
            memcpy(gpu, GPUS[i], sizeof gpu);
            struct hsp_run_opts o = {.file = path,
                                     .open = open_rank,
                                     .gpu = gpu_of,
                                     .nccl = nw_library(),
                                     .open_ctx = gpu};
            nw_fake()->reset(hsp_test_seed() + i, 0);
            nw_fake()->set_streams(submit, NULL);
            nw_fake()->set_announce(hsp_mockdev_announce);
            hsp_devicerun_compare_opts(dir, &o, PLANS[k].name);
            nw_expect_clean();
            by_nccl += work_of();
            assert_true(i > 0 || work_of() > 0); /* all have GPUs: something goes by it */
        }
        free(path);
    }
    assert_true(by_nccl > 200);
    hsp_test_rmdir(dir);
    free(dir);
}

/* A rank that fails ends the others, also those that wait on their devices. */
static enum hsp_status open_failing(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                    struct hsp_err *err)
{
    const struct hsp_mockdev_opts g = {.seed = rank, .fail_at = rank == 1 ? 120 : 0};
    (void)ctx;
    (void)threads;
    return hsp_mockdev_open(&g, ret, err);
}

static void a_failing_device_ends_all(void **state)
{
    char *dir = hsp_test_tmpdir(), *path = write_programs(dir, &PLANS[0]), out[300];
    uint64_t gpu[RANKS] = {1, 2, 3, 4, 5};
    struct hsp_err err = {0};
    (void)state;
    (void)snprintf(out, sizeof out, "%s/out", dir);
    struct hsp_run_opts o = {.file = path,
                             .out = out,
                             .threads = 1,
                             .open = open_failing,
                             .gpu = gpu_of,
                             .nccl = nw_library(),
                             .open_ctx = gpu,
                             .quiet = true};
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_fake()->set_streams(submit, NULL);
    nw_fake()->set_announce(hsp_mockdev_announce);
    assert_int_not_equal(hsp_run_file(&o, &err), HSP_OK);
    assert_non_null(strstr(err.msg, "the device failed"));
    nw_expect_clean();
    free(path);
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(local_nccl_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_cpus),
        cmocka_unit_test(a_failing_device_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
