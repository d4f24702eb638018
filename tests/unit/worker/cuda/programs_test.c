/* Tests complete programs on the CUDA backend, whose kernels run on the host: they train as the CPU
 * does, also in the steps in which graphs are started again. Each step drops other elements, so if
 * a graph kept a number of one step, the next step would show it. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "proto/base/size.h"
#include "proto/host/file_io.h"
#include "proto/program/program_file.h"
#include "tests/lib/fakecuda/emulate.h"
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/comm/nccl_streams.h"
#include "tests/unit/worker/comm/nccl_world.h"
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_replay.h"
#include "worker/run/run_program.h"

enum { STEPS = 8, BATCH = 4, SEQUENCE = 8 };

static const struct hsp_model_spec GPT = {.family = "gpt",
                                          .layers = 1,
                                          .hidden = 16,
                                          .heads = 2,
                                          .vocab = 32,
                                          .sequence = SEQUENCE,
                                          .tied_head = true,
                                          .dropout = 0.3};
static const struct hsp_model_spec LLAMA = {.family = "llama",
                                            .layers = 2,
                                            .hidden = 16,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .intermediate = 12,
                                            .vocab = 32,
                                            .sequence = SEQUENCE,
                                            .rope_theta = 1000,
                                            .rms_norm_eps = 1e-5,
                                            .dropout = 0.3};

/* A step has 1 to 4 sequences, so its micro-batches have 2, 1 or none of them. */
static const struct hsp_model_spec DOCUMENTS = {.family = "gpt",
                                                .layers = 3,
                                                .hidden = 16,
                                                .heads = 2,
                                                .vocab = 8,
                                                .sequence = SEQUENCE,
                                                .packed = true};

#define HEAD "apiVersion: hspmd/v1\nkind: plan\n"
static const char ONE[] = HEAD "ranks: 1\npipelines:\n"
                               "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: "
                               "[0]}]}\n";
static const char BOTH[] = HEAD "ranks: 1\npipelines:\n"
                                "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: "
                                "[0]}]}\n";
static const char STAGES[] =
    HEAD "ranks: 3\nzero: 1\npipelines:\n"
         "  - {sequences: 3, micro_batches: 3, stages: [{layers: 1, ranks: [0], saved: offload}, "
         "{layers: 1, ranks: [1], saved: recompute}]}\n"
         "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n";

/* Middle stages send both ways, and may be ahead of their receivers. */
static const char DEEP[] = HEAD "ranks: 3\nstreams:\n"
                                "  - {sequences: 4, micro_batches: 4, stages: [{layers: 1, ranks: "
                                "[0]}, {layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}]}\n";

static const char PACKED[] = HEAD "ranks: 1\npipelines:\n"
                                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 3, "
                                  "ranks: [0]}]}\n";
static const char PACKED_DEEP[] =
    HEAD "ranks: 3\npipelines:\n"
         "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: [0]}, "
         "{layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}]}\n";

static char *make_file(const char *dir, const struct hsp_model_spec *m, const char *plan)
{
    struct hsp_train_spec t = {.hyper = {.steps = STEPS,
                                         .lr = 1e-2,
                                         .clip_norm = 1.0,
                                         .warmup_steps = 4,
                                         .optimizer = HSP_OPT_ADAMW,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95},
                               .data = {.seed = 11,
                                        .global_batch = BATCH,
                                        .sequence = SEQUENCE,
                                        .eval_seqs = 2,
                                        .validation_every = 3,
                                        .validation_fraction = 0.1,
                                        .vocab = (uint32_t)m->vocab},
                               .eps = 1e-8,
                               .weight_decay = 0.1};
    if (m->packed) {
        t.data.longest = SEQUENCE;
        t.data.samples = HSP_SAMPLES_DOCUMENTS;
        t.data.packing = HSP_PACKING_END;
    }
    struct hsp_graph *g;
    struct hsp_plan *p;
    struct hsp_err err = {0};
    struct hsp_program_file f = {0};
    struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
    char *path;
    assert_ok(hsp_graph_build(m, &g, &err), &err);
    assert_ok(hsp_plan_parse(plan, strlen(plan), "plan", BATCH, a, &p, &err), &err);
    assert_ok(hsp_plan_check(p, g, BATCH, &err), &err);
    assert_ok(hsp_compile(g, p, &t, a, &f, &err), &err);
    f.data_path = f.out_dir = f.init_from = "";
    f.config_json = "{}";
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_MAX_PROGRAM_FILE_BYTES);
    assert_int_equal(hsp_program_file_encode(&f, &b), HSP_OK);
    assert_true(asprintf(&path, "%s/program", dir) > 0);
    assert_ok(hsp_file_write(path, b.data, b.len, 0600, &err), &err);
    hsp_buf_fini(&b);
    hsp_graph_free(g);
    hsp_arena_free(a);
    return path;
}

/* The number of product shapes that were run before a device's first step. */
static atomic_uint warmed;

/* Calls that may wait for the device or for room on it, and calls that build a graph. None may come
 * between a device's first step and the last piece of its last step. */
static const char *const in_no_step[] = {"cudaMalloc",
                                         "cudaFree",
                                         "cudaHostAlloc",
                                         "cudaFreeHost",
                                         "cudaHostRegister",
                                         "cudaHostUnregister",
                                         "cudaStreamCreateWithPriority",
                                         "cudaStreamBeginCapture",
                                         "cudaGraphInstantiate",
                                         "cudaGraphExecUpdate"};
static unsigned calls_before[HSP_ARRAY_LEN(in_no_step)], calls_then[HSP_ARRAY_LEN(in_no_step)];

/* The memory that an engine asks its device for: before its first step, and before the last
 * piece. */
static struct device {
    struct hsp_backend *b;
    atomic_uint asked, before, then;
} devices[3];
static atomic_uint n_devices;
static struct hsp_backend plain; /* the functions of a device, some of which the test replaces */

static struct device *device_of(const struct hsp_backend *b)
{
    uint32_t k = 0;
    while (devices[k].b != b) {
        k++;
    }
    return &devices[k];
}

static enum hsp_status counted_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes,
                                     void **ret, struct hsp_err *err)
{
    atomic_fetch_add(&device_of(b)->asked, 1);
    return plain.alloc(b, mem, bytes, ret, err);
}

static enum hsp_status counted_rehearse(struct hsp_backend *b, enum hsp_devq q, bool on,
                                        struct hsp_err *err)
{
    struct device *d = device_of(b);
    atomic_store(&d->before, atomic_load(&d->asked));
    return plain.rehearse(b, q, on, err);
}

static enum hsp_status begin_of_a_step(struct hsp_backend *b, enum hsp_devq q,
                                       const struct hsp_digest *key, bool *ret_replayed,
                                       struct hsp_err *err)
{
    unsigned none = 0;
    if (((struct hsp_cuda *)b)->queue[q].rehearses) {
        return hsp_cuda_begin(b, q, key, ret_replayed, err);
    }
    struct device *d = device_of(b);
    atomic_store(&d->then, atomic_load(&d->asked));
    bool first = atomic_compare_exchange_strong(&warmed, &none, hsp_fake_usage().first_products);
    for (size_t i = 0; i < HSP_ARRAY_LEN(in_no_step); i++) {
        calls_then[i] = hsp_fake_calls(in_no_step[i]);
        calls_before[i] = first ? calls_then[i] : calls_before[i];
    }
    return hsp_cuda_begin(b, q, key, ret_replayed, err);
}

/* ---- each call is rehearsed before it is run ---- */

static bool rehearses;             /* whether each call is rehearsed before it runs */
static struct hsp_backend real;    /* the functions of the device */
static const char *lacked_scratch; /* an op that took scratch although it had been rehearsed */
static atomic_uint n_rehearsed;    /* the number of calls that took scratch */

/* Begins a rehearsal with no scratch. Returns false if the call is to run without a rehearsal. */
static bool begin_rehearsal(struct hsp_backend *b, enum hsp_devq q)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_err err = {0};
    if (g->queue[q].rehearses || g->queue[q].between) {
        return false;
    }
    g->scratch[q] = NULL; /* the device keeps the old scratch until it is closed */
    g->queue[q].n_old = 0;
    g->scratch_bytes[q] = 0;
    assert_ok(b->rehearse(b, q, true, &err), &err);
    return true;
}

static size_t end_rehearsal(struct hsp_backend *b, enum hsp_devq q, enum hsp_status st)
{
    struct hsp_err err = {0};
    assert_int_equal(st, HSP_OK);
    assert_ok(b->rehearse(b, q, false, &err), &err);
    size_t bytes = ((struct hsp_cuda *)b)->scratch_bytes[q];
    atomic_fetch_add(&n_rehearsed, bytes > 0);
    return bytes;
}

static void judge_scratch(const struct hsp_backend *b, enum hsp_devq q, enum hsp_op op, size_t had)
{
    if (((const struct hsp_cuda *)b)->scratch_bytes[q] != had) {
        lacked_scratch = hsp_op_name(op);
    }
}

static bool of_products(enum hsp_op op)
{
    return op == HSP_OP_LINEAR || op == HSP_OP_LINEAR_DX || op == HSP_OP_LINEAR_DW;
}

static enum hsp_status rehearse_run(struct hsp_backend *b, enum hsp_devq q,
                                    const struct hsp_call *c, struct hsp_err *err)
{
    if (of_products(c->op) || !begin_rehearsal(b, q)) {
        return real.run(b, q, c, err);
    }
    size_t had = end_rehearsal(b, q, real.run(b, q, c, err));
    enum hsp_status st = real.run(b, q, c, err);
    judge_scratch(b, q, c->op, had);
    return st;
}

static enum hsp_status rehearse_many(struct hsp_backend *b, enum hsp_devq q,
                                     const struct hsp_call *c, uint32_t n, struct hsp_err *err)
{
    if (!begin_rehearsal(b, q)) {
        return real.run_many(b, q, c, n, err);
    }
    size_t had = end_rehearsal(b, q, real.run_many(b, q, c, n, err));
    enum hsp_status st = real.run_many(b, q, c, n, err);
    judge_scratch(b, q, c->op, had);
    return st;
}

static enum hsp_status rehearse_chain(struct hsp_backend *b, enum hsp_devq q,
                                      const struct hsp_call *c, uint32_t n, bool *ret_done,
                                      struct hsp_err *err)
{
    if (!begin_rehearsal(b, q)) {
        return real.run_chain(b, q, c, n, ret_done, err);
    }
    size_t had = end_rehearsal(b, q, real.run_chain(b, q, c, n, ret_done, err));
    enum hsp_status st = real.run_chain(b, q, c, n, ret_done, err);
    judge_scratch(b, q, c->op, had);
    return st;
}

static void rehearse_all(struct hsp_backend *b)
{
    real = *b;
    b->run = rehearse_run;
    b->run_many = rehearse_many;
    b->run_chain = rehearse_chain;
    b->begin = NULL; /* without graphs each call of each step runs */
    b->end = NULL;
}

static bool by_nccl; /* each rank has a device of its own, and they talk by NCCL */

static uint64_t gpu_of(void *ctx, uint32_t rank)
{
    (void)ctx;
    return rank + 1;
}

static enum hsp_status open_device(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                   struct hsp_err *err)
{
    (void)ctx;
    (void)threads;
    enum hsp_status st = hsp_backend_cuda_open(by_nccl ? (int)rank : 0, NULL, ret, err);
    if (st == HSP_OK) {
        struct device *d = &devices[atomic_fetch_add(&n_devices, 1)];
        d->b = *ret;
        atomic_store(&d->asked, 0);
        plain = **ret; /* all devices have the same functions */
        (*ret)->begin = begin_of_a_step;
        (*ret)->alloc = counted_alloc;
        (*ret)->rehearse = counted_rehearse;
        if (rehearses) {
            rehearse_all(*ret);
        }
    }
    return st;
}

struct curve {
    double loss[STEPS], val[STEPS];
};

static double number_of(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at != NULL ? strtod(at + strlen(key), NULL) : 0;
}

static void train(const char *dir, const char *path, hsp_open_backend open, struct curve *ret)
{
    char metrics[300], line[1000];
    struct hsp_err err = {0};
    (void)snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", dir);
    struct hsp_run_opts o = {
        .file = path, .metrics = metrics, .threads = 1, .open = open, .quiet = true};
    if (by_nccl && open != NULL) {
        o.gpu = gpu_of;
        o.nccl = nw_library();
        nw_fake()->reset(hsp_test_seed(), 0);
        nw_use_cuda_streams();
    }
    assert_ok(hsp_run_file(&o, &err), &err);
    FILE *f = fopen(metrics, "r");
    assert_non_null(f);
    for (int t = 0; t < STEPS; t++) {
        assert_non_null(fgets(line, sizeof line, f));
        ret->loss[t] = number_of(line, "\"loss\":");
        ret->val[t] = number_of(line, "\"val_loss\":");
        assert_true(ret->loss[t] > 0);
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(remove(metrics), 0);
}

/* the call of the library that fails, now and then, in the next program; NULL: none */
static const char *fails;

/* Opens a device as hsp_backend_cuda_open does, of a library that refuses some graphs. */
static enum hsp_status open_reluctant(void *ctx, uint32_t rank, int threads,
                                      struct hsp_backend **ret, struct hsp_err *err)
{
    enum hsp_status st = open_device(ctx, rank, threads, ret, err);
    hsp_fake_fail(fails, 2, cudaErrorNotSupported);
    return st;
}

/* Trains on the CPU and on devices, and compares. @far: the largest relative difference of
 * losses. */
static void compare(const struct hsp_model_spec *model, enum hsp_dtype dtype,
                    enum hsp_compute compute, const char *plan, double far)
{
    char *dir = hsp_test_tmpdir();
    struct hsp_model_spec m = *model;
    struct curve cpu, device;
    m.dtype = dtype;
    m.compute = compute;
    char *path = make_file(dir, &m, plan);
    hsp_fake_reset(&(struct hsp_fake_opts){
        .n_devices = by_nccl ? 3 : 1, .n_sms = 2, .memory_bytes = (size_t)1 << 28, .seed = 7});
    train(dir, path, NULL, &cpu);
    atomic_store(&warmed, 0);
    atomic_store(&n_devices, 0);
    train(dir, path, fails != NULL ? open_reluctant : open_device, &device);
    if (hsp_fake_reports() > 0) {
        fail_msg("%u reports, the first: %s", hsp_fake_reports(), hsp_fake_report(0));
    }
    for (int t = 0; t < STEPS; t++) {
        if (fabs(device.loss[t] - cpu.loss[t]) > far * cpu.loss[t] ||
            fabs(device.val[t] - cpu.val[t]) > far * cpu.loss[t]) {
            fail_msg("%s, step %d: loss %.12g of %.12g, validation %.12g of %.12g", m.family, t,
                     device.loss[t], cpu.loss[t], device.val[t], cpu.val[t]);
        }
    }
    if (rehearses) { /* without graphs */
        free(path);
        hsp_test_rmdir(dir);
        free(dir);
        return;
    }
    for (uint32_t k = 0; k < atomic_load(&n_devices); k++) {
        struct device *d = &devices[k];
        if (atomic_load(&d->then) != atomic_load(&d->before)) {
            fail_msg("device %u of %s asks for memory %u times in steps", k, m.family,
                     atomic_load(&d->then) - atomic_load(&d->before));
        }
    }
    /* Of several devices one may begin before another has warmed up. */
    if (plan == ONE || plan == PACKED) {
        assert_true(atomic_load(&warmed) > 0);
        assert_int_equal(hsp_fake_usage().first_products, atomic_load(&warmed));
        for (size_t i = 0; i < HSP_ARRAY_LEN(in_no_step); i++) {
            if (fails == NULL && calls_then[i] != calls_before[i]) {
                fail_msg("%s: %u in steps of %s", in_no_step[i], calls_then[i] - calls_before[i],
                         m.family);
            }
        }
    }
    unsigned captured = hsp_fake_calls("cudaStreamBeginCapture");
    print_message("%s: %u graphs captured, %u started\n", m.family, captured,
                  hsp_fake_calls("cudaGraphLaunch"));
    assert_true(captured > 0 && hsp_fake_calls("cudaGraphLaunch") >= 2 * captured);
    free(path);
    hsp_test_rmdir(dir);
    free(dir);
}

static void one_device_trains(void **state)
{
    (void)state;
    compare(&GPT, HSP_F64, HSP_COMPUTE_FULL, ONE, 1e-9);
}

static void devices_train_together(void **state)
{
    (void)state;
    compare(&LLAMA, HSP_F64, HSP_COMPUTE_FULL, STAGES, 1e-9);
}

/* Micro-batches of any size find memory and graphs that were made before the first step. */
static void documents_are_rehearsed(void **state)
{
    (void)state;
    compare(&DOCUMENTS, HSP_F64, HSP_COMPUTE_FULL, PACKED, 1e-9);
    by_nccl = true;
    compare(&DOCUMENTS, HSP_F64, HSP_COMPUTE_FULL, PACKED_DEEP, 1e-9);
    by_nccl = false;
    assert_true(nw_fake()->calls("ncclSend") > 0);
    nw_expect_clean();
}

/* The memory of messages, and of pieces that are filled up, is allocated before the first step. */
static void devices_train_by_nccl(void **state)
{
    (void)state;
    struct hsp_model_spec three = LLAMA;
    three.layers = 3;
    by_nccl = true;
    compare(&three, HSP_F64, HSP_COMPUTE_FULL, DEEP, 1e-9);
    compare(&LLAMA, HSP_F64, HSP_COMPUTE_FULL, STAGES, 1e-9);
    assert_true(nw_fake()->calls("ncclSend") > 0 && nw_fake()->calls("ncclReduceScatter") > 0);
    nw_expect_clean();
    by_nccl = false;
}

static void fp32_and_bf16_too(void **state)
{
    (void)state;
    compare(&GPT, HSP_F32, HSP_COMPUTE_FULL, ONE, 1e-4);
    compare(&LLAMA, HSP_F32, HSP_COMPUTE_FULL, STAGES, 1e-4);
    compare(&GPT, HSP_F32, HSP_COMPUTE_BF16, ONE, 0.02);
}

/* Calls whose graph fails run as they are: none is lost, and none runs twice. */
static void graphs_may_fail(void **state)
{
    (void)state;
    static const char *const names[] = {"cudaGraphInstantiate", "cudaGraphLaunch",
                                        "cudaStreamBeginCapture"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fails = names[i];
        compare(&GPT, HSP_F64, HSP_COMPUTE_FULL, ONE, 1e-9);
    }
    fails = NULL;
}

/* A call takes in a rehearsal all the memory that it takes in a run, and the device does
 * nothing. */
static void rehearsals_take_all_scratch(void **state)
{
    (void)state;
    rehearses = true;
    compare(&GPT, HSP_F64, HSP_COMPUTE_FULL, ONE, 1e-9);
    compare(&LLAMA, HSP_F32, HSP_COMPUTE_FULL, BOTH, 1e-4);
    compare(&GPT, HSP_F32, HSP_COMPUTE_BF16, ONE, 0.02);
    rehearses = false;
    if (lacked_scratch != NULL) {
        fail_msg("%s takes scratch that its rehearsal did not take", lacked_scratch);
    }
    assert_true(atomic_load(&n_rehearsed) > 100);
}

HSP_TEST_FILE(programs_test)
{
    if (!hsp_fake_can_run()) {
        (void)puts("1..0 # SKIP threads of a block have stacks of their own, which this tool does "
                   "not follow");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_trains),           cmocka_unit_test(devices_train_together),
        cmocka_unit_test(devices_train_by_nccl),       cmocka_unit_test(documents_are_rehearsed),
        cmocka_unit_test(fp32_and_bf16_too),           cmocka_unit_test(graphs_may_fail),
        cmocka_unit_test(rehearsals_take_all_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
