/* Tests documents as samples: every plan, and every way to pack them, computes the same losses. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "proto/host/file_io.h"
#include "proto/program/program_file.h"
#include "tests/unit/worker/run/device_run.h"
#include "worker/run/run_program.h"

enum { STEPS = 9, BATCH = 14 };

static const struct hsp_model_spec GPT = {.family = "gpt",
                                          .layers = 4,
                                          .hidden = 16,
                                          .heads = 4,
                                          .vocab = 32,
                                          .sequence = 96,
                                          .packed = true,
                                          .dtype = HSP_F64};

static const char HEAD[] = "apiVersion: hspmd/v1\nkind: plan\nranks: %d\nzero: %d\npipelines: %s\n";

static const struct {
    const char *name;
    int ranks, zero;
    const char *pipelines;
} PLANS[] = {
    {"one", 1, 0, "[{sequences: 14, micro_batches: 4, stages: [{layers: 4, ranks: [0]}]}]"},
    {"each sequence alone", 1, 0,
     "[{sequences: 14, micro_batches: 14, stages: [{layers: 4, ranks: [0]}]}]"},
    {"tensor parallel and recomputed", 2, 1,
     "[{sequences: 14, micro_batches: 2, stages: [{layers: 4, ranks: [0, 1], tensor: [3, 1], "
     "saved: recompute}]}]"},
    {"offload", 2, 0,
     "[{sequences: 14, micro_batches: 7, stages: [{layers: 2, ranks: [0], saved: offload}, "
     "{layers: 2, ranks: [1], saved: offload}]}]"},
    {"a pipeline", 3, 0,
     "[{sequences: 14, micro_batches: 14, stages: [{layers: 1, ranks: [0]}, {layers: 2, ranks: "
     "[1]}, {layers: 1, ranks: [2]}]}]"},
    {"pipelines, one of which is often without a sequence", 5, 1,
     "[{sequences: 12, micro_batches: 6, schedule: gpipe, stages: [{layers: 2, ranks: [0, 1]}, "
     "{layers: 2, ranks: [2]}]}, {sequences: 1, micro_batches: 1, stages: [{layers: 4, ranks: "
     "[3]}]}, {sequences: 1, micro_batches: 1, stages: [{layers: 4, ranks: [4]}]}]"},
};
enum { N_PLANS = sizeof PLANS / sizeof PLANS[0] };

static struct hsp_train_spec train_spec(void)
{
    return (struct hsp_train_spec){.hyper = {.steps = STEPS,
                                             .lr = 3e-3,
                                             .clip_norm = 1.0,
                                             .optimizer = HSP_OPT_ADAMW,
                                             .beta1 = 0.9,
                                             .beta2 = 0.95},
                                   .data = {.seed = 11,
                                            .global_batch = BATCH,
                                            .sequence = (uint32_t)GPT.sequence,
                                            .longest = (uint32_t)GPT.sequence,
                                            .eval_seqs = 10,
                                            .validation_every = 4,
                                            .validation_fraction = 0.1,
                                            .vocab = (uint32_t)GPT.vocab,
                                            .samples = HSP_SAMPLES_DOCUMENTS,
                                            .packing = HSP_PACKING_END,
                                            .separator = 7},
                                   .eps = 1e-8,
                                   .weight_decay = 0.1};
}

static char *write_programs(const char *dir, const char *plan)
{
    struct hsp_graph *g;
    struct hsp_plan *p;
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
    struct hsp_train_spec t = train_spec();
    struct hsp_program_file f;
    struct hsp_buf b;
    char *path;
    assert_ok(hsp_graph_build(&GPT, &g, &err), &err);
    assert_ok(hsp_plan_parse(plan, strlen(plan), "plan", BATCH, a, &p, &err), &err);
    assert_ok(hsp_compile(g, p, &t, a, &f, &err), &err);
    f.config_json = "{}";
    hsp_buf_init(&b, HSP_MAX_PROGRAM_FILE_BYTES);
    assert_int_equal(hsp_program_file_encode(&f, &b), HSP_OK);
    assert_true(asprintf(&path, "%s/program", dir) > 0);
    assert_ok(hsp_file_write(path, b.data, b.len, 0600, &err), &err);
    hsp_buf_fini(&b);
    hsp_graph_free(g);
    hsp_arena_free(a);
    return path;
}

struct curve {
    double loss[STEPS], val[STEPS], tokens[STEPS]; /* val: NAN where there is none */
    int sequence[STEPS];                           /* 0: not said */
};

static void read_curve(const char *path, struct curve *ret)
{
    uint8_t *data = NULL;
    size_t len = 0;
    struct hsp_err err = {0};
    assert_ok(hsp_file_read(path, 1 << 20, &data, &len, &err), &err);
    const char *at = (const char *)data;
    for (int t = 0; t < STEPS; t++) {
        const char *end = NULL;
        cJSON *j = cJSON_ParseWithLengthOpts(at, len - (size_t)(at - (const char *)data), &end, 0);
        assert_non_null(j);
        const cJSON *val = cJSON_GetObjectItem(j, "val_loss");
        assert_int_equal(cJSON_GetObjectItem(j, "step")->valueint, t);
        ret->loss[t] = cJSON_GetObjectItem(j, "loss")->valuedouble;
        ret->tokens[t] = cJSON_GetObjectItem(j, "tokens")->valuedouble;
        const cJSON *length = cJSON_GetObjectItem(j, "sequence");
        ret->sequence[t] = length != NULL ? length->valueint : 0;
        ret->val[t] = val != NULL ? val->valuedouble : (double)NAN;
        cJSON_Delete(j);
        at = end + 1;
    }
    free(data);
}

static void run(const char *dir, const char *plan, struct curve *ret)
{
    char *path = write_programs(dir, plan), *metrics;
    assert_true(asprintf(&metrics, "%s/metrics", dir) > 0);
    struct hsp_run_opts o = {.file = path, .metrics = metrics, .threads = 1, .quiet = true};
    struct hsp_err err = {0};
    assert_ok(hsp_run_file(&o, &err), &err);
    read_curve(metrics, ret);
    free(path);
    free(metrics);
}

static void assert_same(const char *name, const struct curve *a, const struct curve *b)
{
    for (int t = 0; t < STEPS; t++) {
        bool val = isnan(a->val[t]) ? isnan(b->val[t]) : fabs(a->val[t] - b->val[t]) < 1e-12;
        if (!(fabs(a->loss[t] - b->loss[t]) < 1e-12) || a->tokens[t] != b->tokens[t] || !val) {
            fail_msg("%s, step %d: loss %.17g, %.17g; tokens %g, %g; validation %.17g, %.17g", name,
                     t, a->loss[t], b->loss[t], a->tokens[t], b->tokens[t], a->val[t], b->val[t]);
        }
    }
}

static void every_plan_has_one_curve(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir();
    struct curve first = {0};
    for (int k = 0; k < N_PLANS; k++) {
        struct curve c;
        char *plan;
        assert_true(asprintf(&plan, HEAD, PLANS[k].ranks, PLANS[k].zero, PLANS[k].pipelines) > 0);
        run(dir, plan, k == 0 ? &first : &c);
        assert_same(PLANS[k].name, &first, k == 0 ? &first : &c);
        free(plan);
    }
    assert_true(first.loss[STEPS - 1] < first.loss[0]);
    assert_true(first.tokens[0] != first.tokens[1]); /* steps of unequal size */
    hsp_test_rmdir(dir);
    free(dir);
}

/* Plans that have nothing in common but their ranks, with state that is sharded over all of
 * them. */
static const char POOL[] =
    "apiVersion: hspmd/v1\nkind: pool\nplans:\n"
    "  - max_length: 28\n"
    "    plan: {ranks: 3, pipelines: [{sequences: 5, micro_batches: 5, stages: [{layers: 4, ranks: "
    "[2]}]}, {sequences: 5, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}, {sequences: 4, "
    "micro_batches: 2, stages: [{layers: 4, ranks: [1]}]}]}\n"
    "  - max_length: 44\n"
    "    plan: {ranks: 3, zero: 1, pipelines: [{sequences: 9, micro_batches: 9, stages: [{layers: "
    "3, "
    "ranks: [1]}, {layers: 1, ranks: [0], saved: recompute}]}, {sequences: 5, micro_batches: 5, "
    "stages: [{layers: 4, ranks: [2]}]}]}\n"
    "  - max_length: 96\n"
    "    plan: {ranks: 3, zero: %d, pipelines: [{sequences: 14, micro_batches: 14, stages: "
    "[{layers: "
    "4, "
    "ranks: [0, 1, 2], tensor: [2, 1, 1]}]}]}\n";

static void a_pool_has_the_same_curve(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), *one, *pool;
    struct curve first, c;
    int used[3] = {0}; /* plans */
    assert_true(asprintf(&one, HEAD, 1, 0, PLANS[0].pipelines) > 0);
    run(dir, one, &first);
    for (int zero = 0; zero < 2; zero++) {
        assert_true(asprintf(&pool, POOL, zero) > 0);
        run(dir, pool, &c);
        assert_same("pool", &first, &c);
        free(pool);
    }
    for (int t = 0; t < STEPS; t++) {
        used[c.sequence[t] == 28 ? 0 : c.sequence[t] == 44 ? 1 : 2]++;
        assert_true(c.sequence[t] == 28 || c.sequence[t] == 44 || c.sequence[t] == 96);
    }
    if (used[0] == 0 || used[1] == 0 || used[2] == 0) {
        fail_msg("steps by plan: %d, %d, %d", used[0], used[1], used[2]);
    }
    hsp_test_rmdir(dir);
    free(dir);
    free(one);
}

/* Micro-batches without sequences, and plans that take turns, on devices. */
static void devices_give_the_same_bits(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), *plan, *path;
    for (int k = 2; k <= N_PLANS; k++) {
        if (k < N_PLANS) {
            assert_true(asprintf(&plan, HEAD, PLANS[k].ranks, PLANS[k].zero, PLANS[k].pipelines) >
                        0);
        } else {
            assert_true(asprintf(&plan, POOL, 1) > 0);
        }
        path = write_programs(dir, plan);
        hsp_devicerun_compare(dir, path, 0, k < N_PLANS ? PLANS[k].name : "pool");
        free(path);
        free(plan);
    }
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(documents_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan_has_one_curve),
                                       cmocka_unit_test(a_pool_has_the_same_curve),
                                       cmocka_unit_test(devices_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
