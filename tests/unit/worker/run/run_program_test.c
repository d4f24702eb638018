#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "proto/host/file_io.h"
#include "proto/program/program_check.h"
#include "proto/program/program_file.h"
#include "proto/program/template_codec.h"
#include "tests/unit/worker/run/device_run.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/run/run_program.h"
#include "worker/run/verify.h"
#include "worker/state/safetensors_read.h"

#define NUMBERS 256 /* of the update */

static const struct hsp_model_spec GPT = {.family = "gpt",
                                          .layers = 4,
                                          .hidden = 16,
                                          .heads = 4,
                                          .vocab = 32,
                                          .sequence = 8,
                                          .tied_head = true,
                                          .dtype = HSP_F64};
static const struct hsp_model_spec LLAMA = {.family = "llama",
                                            .layers = 4,
                                            .hidden = 32,
                                            .heads = 8,
                                            .kv_heads = 4,
                                            .intermediate = 20,
                                            .vocab = 32,
                                            .sequence = 8,
                                            .rope_theta = 1000,
                                            .rms_norm_eps = 1e-5,
                                            .dtype = HSP_F64};
static const struct hsp_model_spec MLP = {
    .family = "mlp", .layers = 4, .hidden = 12, .vocab = 32, .sequence = 6, .dtype = HSP_F64};

static const char ONE[] =
    "apiVersion: hspmd/v1\nkind: plan\nranks: 1\nzero: 0\npipelines:\n"
    "  - {sequences: 12, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}\n";

/* The unsharded program of --verify takes one sequence at a time. */
static const char SINGLY[] =
    "apiVersion: hspmd/v1\nkind: plan\nranks: 1\nzero: 0\npipelines:\n"
    "  - {sequences: 12, micro_batches: 12, stages: [{layers: 4, ranks: [0]}]}\n";

/* The layouts of claim loss-equality. */
static const struct {
    const char *name, *plan;
} PLANS[] = {
    {"one", ONE},
    {"uneven data parallel",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 2\nzero: 0\npipelines:\n"
     "  - {sequences: 7, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}\n"
     "  - {sequences: 5, micro_batches: 3, stages: [{layers: 4, ranks: [1]}]}\n"},
    {"tensor parallel", "apiVersion: hspmd/v1\nkind: plan\nranks: 2\nzero: 0\npipelines:\n"
                        "  - {sequences: 12, micro_batches: 2, stages: "
                        "[{layers: 4, ranks: [0, 1], tensor: [3, 1]}]}\n"},
    {"pipeline", "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: 0\npipelines:\n"
                 "  - {sequences: 12, micro_batches: 4, stages: [{layers: 1, ranks: [0]}, "
                 "{layers: 2, ranks: [1]}, {layers: 1, ranks: [2]}]}\n"},
    {"tensor and pipeline",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 4\nzero: 0\npipelines:\n"
     "  - {sequences: 12, micro_batches: 3, stages: [{layers: 2, ranks: [0, 1], tensor: [1, 1]}, "
     "{layers: 2, ranks: [2, 3], tensor: [1, 3]}]}\n"},
    {"zero", "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: 1\npipelines:\n"
             "  - {sequences: 5, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}\n"
             "  - {sequences: 4, micro_batches: 2, stages: [{layers: 4, ranks: [1]}]}\n"
             "  - {sequences: 3, micro_batches: 1, stages: [{layers: 4, ranks: [2]}]}\n"},
    {"recomputation, tensor and pipeline",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 4\nzero: 0\npipelines:\n"
     "  - {sequences: 12, micro_batches: 3, stages: [{layers: 2, ranks: [0, 1], tensor: [1, 1], "
     "saved: recompute}, {layers: 2, ranks: [2, 3], tensor: [1, 3], saved: recompute}]}\n"},
    {"recomputation in one of two pipelines",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: 1\npipelines:\n"
     "  - {sequences: 7, micro_batches: 3, stages: [{layers: 4, ranks: [0, 1], saved: "
     "recompute}]}\n"
     "  - {sequences: 5, micro_batches: 2, stages: [{layers: 4, ranks: [2]}]}\n"},
    {"offload, tensor and pipeline",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 4\nzero: 0\npipelines:\n"
     "  - {sequences: 12, micro_batches: 3, stages: [{layers: 2, ranks: [0, 1], tensor: [1, 1], "
     "saved: offload}, {layers: 2, ranks: [2, 3], tensor: [1, 3], saved: offload}]}\n"},
    {"offload in one of two pipelines, zero-bubble",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 4\nzero: 1\npipelines:\n"
     "  - {sequences: 7, micro_batches: 5, schedule: zero_bubble, stages: [{layers: 2, ranks: [0, "
     "1], saved: offload}, {layers: 2, ranks: [3], saved: offload}]}\n"
     "  - {sequences: 5, micro_batches: 2, stages: [{layers: 4, ranks: [2]}]}\n"},
    {"two pipelines of different depth and degree",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 4\nzero: 1\npipelines:\n"
     "  - {sequences: 8, micro_batches: 4, stages: [{layers: 3, ranks: [0, 1], tensor: [2, 1]}, "
     "{layers: 1, ranks: [2]}]}\n"
     "  - {sequences: 4, micro_batches: 2, stages: [{layers: 4, ranks: [3]}]}\n"},
};
enum { N_PLANS = sizeof(PLANS) / sizeof(PLANS[0]) };

/* More plans in which both queues of a device have work at once. */
static const struct {
    const char *name, *plan;
} MORE[] = {
    {"zero 3", "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: 3\npipelines:\n"
               "  - {sequences: 7, micro_batches: 3, stages: [{layers: 3, ranks: [0], saved: "
               "recompute}, {layers: 1, ranks: [1]}]}\n"
               "  - {sequences: 5, micro_batches: 2, stages: [{layers: 4, ranks: [2]}]}\n"},
    {"cut sequences",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: 0\npipelines:\n"
     "  - {sequences: 12, micro_batches: 4, stages: [{layers: 4, split: sequence, "
     "shares: [3, 1], groups: [{ranks: [0, 1], tensor: [1, 1]}, {ranks: [2]}]}]}\n"},
    {"interleaved, offload",
     "apiVersion: hspmd/v1\nkind: plan\nranks: 2\nzero: 0\npipelines:\n"
     "  - {sequences: 12, micro_batches: 4, schedule: interleaved, chunks: 2, stages: [{layers: "
     "[1, 1], ranks: [0], saved: offload}, {layers: [1, 1], ranks: [1]}]}\n"},
};
enum { N_MORE = sizeof(MORE) / sizeof(MORE[0]) };

static struct hsp_train_spec train_spec(const struct hsp_model_spec *m, uint32_t steps, bool sgd)
{
    bool mlp = strcmp(m->family, "mlp") == 0;
    return (struct hsp_train_spec){.hyper = {.steps = steps,
                                             .lr = 3e-3,
                                             .min_lr = 1e-4,
                                             .clip_norm = 1.0,
                                             .warmup_steps = 4,
                                             .schedule = HSP_LR_COSINE,
                                             .optimizer = sgd ? HSP_OPT_SGD : HSP_OPT_ADAMW,
                                             .beta1 = 0.9,
                                             .beta2 = 0.95},
                                   .data = {.seed = 11,
                                            .global_batch = 12,
                                            .sequence = (uint32_t)m->sequence,
                                            .eval_seqs = 6,
                                            .validation_every = 4,
                                            .validation_fraction = 0.1,
                                            .next_token_only = mlp,
                                            .vocab = (uint32_t)m->vocab},
                                   .eps = 1e-8,
                                   .weight_decay = 0.1,
                                   .momentum = 0.9};
}

static void compile(const struct hsp_graph *g, const char *plan, const struct hsp_train_spec *t,
                    struct hsp_arena *a, struct hsp_program_file *ret)
{
    struct hsp_plan *p;
    struct hsp_err err = {0};
    assert_ok(hsp_plan_parse(plan, strlen(plan), "plan", 12, a, &p, &err), &err);
    assert_ok(hsp_plan_check(p, g, 12, &err), &err);
    assert_ok(hsp_compile(g, p, t, a, ret, &err), &err);
}

/* The damage done to the sharded programs before they are written. */
typedef void (*damage_fn)(struct hsp_program_file *f);

/* Writes the program file of a plan, to be run, or with the unsharded program beside it. Returns
 * the path. */
static char *make_damaged(const char *dir, const struct hsp_model_spec *m, const char *plan,
                          uint32_t steps, bool sgd, bool run, damage_fn damage)
{
    struct hsp_graph *g;
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
    assert_ok(hsp_graph_build(m, &g, &err), &err);
    struct hsp_train_spec t = train_spec(m, steps, sgd);
    struct hsp_program_file f = {0}, one = {0};
    compile(g, plan, &t, a, &f);
    compile(g, SINGLY, &t, a, &one);
    if (damage) {
        damage(&f);
    }
    f.n_ref = run ? 0 : 1;
    f.ref = one.programs;
    f.data_path = f.out_dir = f.init_from = "";
    f.config_json = "{\"family\":\"gpt\"}";
    struct hsp_buf b;
    hsp_buf_init(&b, HSP_MAX_PROGRAM_FILE_BYTES);
    assert_int_equal(hsp_program_file_encode(&f, &b), HSP_OK);
    char *path;
    assert_true(asprintf(&path, "%s/program", dir) > 0);
    assert_ok(hsp_file_write(path, b.data, b.len, 0600, &err), &err);
    hsp_buf_fini(&b);
    hsp_graph_free(g);
    hsp_arena_free(a);
    return path;
}

static char *make_file(const char *dir, const struct hsp_model_spec *m, const char *plan,
                       uint32_t steps, bool sgd, bool run)
{
    return make_damaged(dir, m, plan, steps, sgd, run, NULL);
}

/* The plan with buckets of @bytes; to be freed. */
static char *with_bucket(const char *plan, unsigned bytes)
{
    const char *pipelines = strstr(plan, "pipelines:");
    char *text;
    assert_non_null(pipelines);
    assert_true(
        asprintf(&text, "%.*sbucket: %u\n%s", (int)(pipelines - plan), plan, bytes, pipelines) > 0);
    return text;
}

static void verify(const struct hsp_model_spec *m, bool sgd)
{
    char *dir = hsp_test_tmpdir();
    for (int k = 0; k < N_PLANS; k++) {
        char *plan = with_bucket(PLANS[k].plan, k % 2 ? 4000 : 0);
        char *path = make_file(dir, m, plan, 10, sgd, false);
        free(plan);
        struct hsp_run_opts o = {.file = path, .threads = 1, .quiet = true};
        struct hsp_err err = {0};
        if (hsp_verify_file(&o, &err) != HSP_OK) {
            fail_msg("%s, %s: %s", m->family, PLANS[k].name, err.msg);
        }
        free(path);
    }
    hsp_test_rmdir(dir);
    free(dir);
}

static void gpt_equals_one_device(void **state)
{
    (void)state;
    verify(&GPT, false);
    struct hsp_model_spec untied = GPT;
    untied.tied_head = false;
    untied.dropout = 0.1;
    verify(&untied, true);
    struct hsp_model_spec cut = GPT; /* one table cut for both its uses */
    cut.vocab_chunks = 4;
    verify(&cut, false);
}

static void llama_equals_one_device(void **state)
{
    (void)state;
    verify(&LLAMA, false);
    struct hsp_model_spec cut = LLAMA; /* the vocabulary too */
    cut.vocab_chunks = 8;
    verify(&cut, false);
    struct hsp_model_spec tied = LLAMA;
    tied.tied_head = true;
    tied.kv_heads = 8;
    tied.dropout = 0.2;
    verify(&tied, true);
}

static void mlp_equals_one_device(void **state)
{
    (void)state;
    verify(&MLP, false);
    struct hsp_model_spec drop = MLP; /* its hidden layers are cut: masks by global coordinate */
    drop.dropout = 0.3;
    verify(&drop, false);
}

static void single_precision_too(void **state)
{
    (void)state;
    struct hsp_model_spec m = GPT;
    m.dtype = HSP_F32;
    verify(&m, false);
}

/* Compares each plan of a model that computes in bf16 with the unsharded program in bf16. */
static void bf16_too(void **state)
{
    (void)state;
    struct hsp_model_spec m[3] = {GPT, LLAMA, MLP};
    m[1].vocab_chunks = 8;
    m[1].dropout = 0.2;
    for (int k = 0; k < 3; k++) {
        m[k].dtype = HSP_F32;
        m[k].compute = HSP_COMPUTE_BF16;
        verify(&m[k], k == 2);
    }
}

static void reseal(struct hsp_program *p)
{
    assert_int_equal(hsp_template_digest(&p->tpl, &p->tpl.digest), HSP_OK);
    p->bind.template_digest = p->tpl.digest;
}

/* Damages the program of rank 1: its last layer norm has another epsilon. */
static void damage_op(struct hsp_program_file *f)
{
    struct hsp_template *t = &f->programs[1].tpl;
    for (uint32_t k = 0; k < t->n_instrs; k++) {
        if (t->instrs[k].kind == HSP_I_OP && t->instrs[k].op == HSP_OP_LAYERNORM) {
            t->instrs[k].at.f[0] = 0.1;
        }
    }
    reseal(&f->programs[1]);
}

/* Damages the programs of ranks 0 and 1: the first all-reduce between the two becomes a copy, so
 * each rank goes on with its own addend. */
static void damage_reshard(struct hsp_program_file *f)
{
    for (uint32_t r = 0; r < 2; r++) {
        struct hsp_reshard_bind *b = f->programs[r].bind.reshard;
        while (b->n_moves != 1 || b->moves[0].kind != HSP_MOVE_ALL_REDUCE) {
            b++;
        }
        b->moves[0].kind = HSP_MOVE_COPY;
    }
}

/* Damages the program of rank 1: its gradients are left out of the sum for the update. */
static void damage_gradient(struct hsp_program_file *f)
{
    struct hsp_template *t = &f->programs[1].tpl;
    for (uint32_t k = 0; k < t->n_instrs; k++) {
        if (t->instrs[k].kind == HSP_I_ACC) {
            t->instrs[k].kind = HSP_I_ZERO;
            t->instrs[k].n_in = 0;
            break;
        }
    }
    reseal(&f->programs[1]);
}

static void expect_difference(int plan, damage_fn damage, const char *what)
{
    char *dir = hsp_test_tmpdir(),
         *path = make_damaged(dir, &GPT, PLANS[plan].plan, 5, false, false, damage);
    struct hsp_run_opts o = {.file = path, .threads = 1, .quiet = true};
    struct hsp_err err = {0};
    assert_status(hsp_verify_file(&o, &err), HSP_EDIGEST);
    if (!strstr(err.msg, what)) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, what);
    }
    free(path);
    hsp_test_rmdir(dir);
    free(dir);
}

static void differences_are_named(void **state)
{
    (void)state;
    expect_difference(1, damage_op, "step 0, rank 1: layernorm h.0.ln_1");
    expect_difference(2, damage_reshard, ": bias_add h.0.");
    expect_difference(1, damage_gradient,
                      "step 0, rank 1: sum over micro-batches wte.weight#acc differs");
}

/* Reads the losses of each step and of each validation from a metrics file. */
struct curve {
    uint32_t n;
    double loss[64], val[64];
};

static void read_metrics(const char *path, struct curve *ret)
{
    FILE *f = fopen(path, "r");
    char line[1024];
    assert_non_null(f);
    *ret = (struct curve){0};
    while (fgets(line, sizeof(line), f)) {
        cJSON *j = cJSON_Parse(line);
        assert_non_null(j);
        assert_true(ret->n < 64);
        assert_int_equal(cJSON_GetObjectItem(j, "step")->valueint, ret->n);
        ret->loss[ret->n] = cJSON_GetObjectItem(j, "loss")->valuedouble;
        cJSON *v = cJSON_GetObjectItem(j, "val_loss");
        ret->val[ret->n++] = v ? v->valuedouble : -1.0;
        assert_true(cJSON_HasObjectItem(j, "grad_norm") && cJSON_HasObjectItem(j, "lr") &&
                    cJSON_HasObjectItem(j, "seconds") && cJSON_HasObjectItem(j, "tokens"));
        cJSON_Delete(j);
    }
    fclose(f);
}

static void run(const char *dir, const struct hsp_model_spec *m, const char *plan, const char *sub,
                struct curve *ret)
{
    char out[256], metrics[300], grads[300];
    struct hsp_err err = {0};
    char *path = make_file(dir, m, plan, 30, false, true);
    (void)snprintf(out, sizeof(out), "%s/%s", dir, sub);
    (void)snprintf(metrics, sizeof(metrics), "%s/metrics.jsonl", out);
    (void)snprintf(grads, sizeof(grads), "%s.grads", out);
    struct hsp_run_opts o = {
        .file = path, .out = out, .gradients = grads, .threads = 1, .quiet = true};
    assert_ok(hsp_run_file(&o, &err), &err);
    read_metrics(metrics, ret);
    assert_int_equal(ret->n, 30);
    free(path);
}

/* Returns the largest difference of two safetensors files, relative to the norm of the first. */
static double file_difference(const char *a, const char *b)
{
    struct hsp_st_reader *x, *y;
    struct hsp_err err = {0};
    double norm = 0.0, worst = 0.0;
    assert_ok(hsp_st_open(a, &x, &err), &err);
    assert_ok(hsp_st_open(b, &y, &err), &err);
    size_t n, other;
    const struct hsp_st_entry *all = hsp_st_entries(x, &n);
    (void)hsp_st_entries(y, &other);
    assert_int_equal(n, other);
    assert_true(n > 20);
    for (size_t k = 0; k < n; k++) {
        const struct hsp_st_entry *e = &all[k], *f = hsp_st_find(y, e->name);
        assert_non_null(f);
        size_t bytes = (size_t)(e->end - e->begin);
        double *p = malloc(bytes + 1), *q = malloc(bytes + 1), diff = 0.0;
        assert_ok(hsp_st_read(x, e, 0, p, bytes, &err), &err);
        assert_ok(hsp_st_read(y, f, 0, q, bytes, &err), &err);
        for (size_t j = 0; j < bytes / hsp_dtype_size(e->dtype); j++) {
            bool narrow = e->dtype == HSP_F32;
            double u = narrow ? (double)((float *)p)[j] : p[j];
            double v = narrow ? (double)((float *)q)[j] : q[j];
            norm += u * u;
            diff += (u - v) * (u - v);
        }
        worst = fmax(worst, diff);
        free(p);
        free(q);
    }
    hsp_st_close(x);
    hsp_st_close(y);
    return sqrt(worst / norm);
}

static void runs_have_one_curve(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), a[300], b[300];
    struct curve one, many;
    run(dir, &GPT, PLANS[0].plan, "one", &one);
    run(dir, &GPT, PLANS[N_PLANS - 1].plan, "many", &many);
    for (uint32_t t = 0; t < 30; t++) {
        assert_near(many.loss[t], one.loss[t], 1e-9 * one.loss[t]);
        assert_near(many.val[t], one.val[t], 1e-9 * fabs(one.val[t]));
        assert_int_equal(one.val[t] >= 0.0, t % 4 == 0 || t == 29);
    }
    assert_true(one.loss[29] < one.loss[0] - 0.1);
    (void)snprintf(a, sizeof(a), "%s/one.grads", dir);
    (void)snprintf(b, sizeof(b), "%s/many.grads", dir);
    assert_true(file_difference(a, b) < 1e-11);
    (void)snprintf(a, sizeof(a), "%s/one/final/model.safetensors", dir);
    (void)snprintf(b, sizeof(b), "%s/many/final/model.safetensors", dir);
    assert_true(file_difference(a, b) < 1e-9);
    (void)snprintf(a, sizeof(a), "%s/one/final/config.json", dir);
    assert_int_equal(access(a, R_OK), 0);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Compares training in bf16 with training in fp32. At step 0 the two differ by rounding only. Each
 * logit is off by up to half a step of 2^-8, with either sign, so the mean loss over tokens differs
 * by less; gradients differ by at most the bound of --verify. Later the two runs are as far apart
 * as two bf16 runs with another order of sums, which differ by rounding alone. A mistake in a
 * gradient or an update would bring them further apart. */
static void bf16_trains_like_fp32(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir(), a[300], b[300];
    struct hsp_model_spec m = GPT;
    struct curve full, low, other, tf32;
    double noise = 0, apart = 0;
    m.dtype = HSP_F32;
    run(dir, &m, ONE, "full", &full);
    m.compute = HSP_COMPUTE_BF16;
    run(dir, &m, ONE, "low", &low);
    run(dir, &m, PLANS[N_PLANS - 1].plan, "other", &other);
    m.compute = HSP_COMPUTE_TF32;
    run(dir, &m, ONE, "tf32", &tf32);
    assert_near(low.loss[0], full.loss[0], 0x1p-8 * full.loss[0]);
    (void)snprintf(a, sizeof(a), "%s/full.grads", dir);
    (void)snprintf(b, sizeof(b), "%s/low.grads", dir);
    double by = file_difference(a, b);
    assert_true(by > 1e-5 && by < 0x1p-4);
    for (uint32_t t = 0; t < 30; t++) {
        noise += fabs(other.loss[t] - low.loss[t]) / 30;
        apart += fabs(full.loss[t] - low.loss[t]) / 30;
        assert_near(tf32.loss[t], full.loss[t], 0); /* the cpu has none */
    }
    print_message("bf16 from fp32 %.2g, from bf16 under another plan %.2g, step 0 gradients %.2g\n",
                  apart, noise, by);
    assert_true(apart > 0 && apart < 4 * noise && apart < 0.01 * full.loss[0]);
    assert_true(low.loss[29] < low.loss[0] - 0.1);
    hsp_test_rmdir(dir);
    free(dir);
}

/* Buckets change no bit: with collectives in buckets, the last gradients, the model and all losses
 * of a plan are those without buckets. */
static void buckets_give_the_same_bits(void **state)
{
    static const unsigned bytes[] = {300, 4000, 64u << 20};
    (void)state;
    char *dir = hsp_test_tmpdir(), a[300], b[300];
    for (int k = 1; k < N_PLANS + N_MORE; k++) {
        const char *plan = k < N_PLANS ? PLANS[k].plan : MORE[k - N_PLANS].plan;
        struct hsp_model_spec m = k % 2 ? GPT : LLAMA;
        struct curve one, many;
        m.dtype = HSP_F32;
        m.compute = k % 3 ? HSP_COMPUTE_FULL : HSP_COMPUTE_BF16;
        run(dir, &m, plan, "alone", &one);
        for (size_t j = 0; j < HSP_ARRAY_LEN(bytes); j++) {
            char *text = with_bucket(plan, bytes[j]);
            run(dir, &m, text, "joined", &many);
            assert_memory_equal(&one, &many, sizeof one);
            (void)snprintf(a, sizeof(a), "%s/alone.grads", dir);
            (void)snprintf(b, sizeof(b), "%s/joined.grads", dir);
            assert_near(file_difference(a, b), 0, 0);
            (void)snprintf(a, sizeof(a), "%s/alone/final/model.safetensors", dir);
            (void)snprintf(b, sizeof(b), "%s/joined/final/model.safetensors", dir);
            assert_near(file_difference(a, b), 0, 0);
            free(text);
        }
    }
    hsp_test_rmdir(dir);
    free(dir);
}

/* Memory of the backend of each rank: the bytes for fp32 copies of operands, and the largest number
 * of bytes that were allocated at once. */
static struct taken {
    struct hsp_backend *b;
    size_t wide, now, most;
} taken[4];
static void (*close_cpu)(struct hsp_backend *b);
static enum hsp_status (*alloc_cpu)(struct hsp_backend *b, enum hsp_mem mem, size_t bytes,
                                    void **ret, struct hsp_err *err);
static void (*release_cpu)(struct hsp_backend *b, enum hsp_mem mem, void *p);

static struct taken *taken_by(const struct hsp_backend *b)
{
    struct taken *t = taken;
    while (t->b != b) {
        t++;
    }
    return t;
}

static void note_wide(struct hsp_backend *b)
{
    taken_by(b)->wide = ((const struct hsp_cpu *)b)->wide_bytes;
    close_cpu(b);
}

/* The allocator writes the length of each area one page before the area. */
static size_t length_of(const void *p)
{
    size_t n = 0;
    if (p != NULL) {
        memcpy(&n, (const uint8_t *)p - 4096, sizeof(n));
        n -= 4096;
    }
    return n;
}

static enum hsp_status note_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                                  struct hsp_err *err)
{
    struct taken *t = taken_by(b);
    enum hsp_status st = alloc_cpu(b, mem, bytes, ret, err);
    if (st == HSP_OK && mem == HSP_MEM_DEVICE) {
        t->now += length_of(*ret);
        t->most = t->now > t->most ? t->now : t->most;
    }
    return st;
}

static void note_release(struct hsp_backend *b, enum hsp_mem mem, void *p)
{
    taken_by(b)->now -= mem == HSP_MEM_DEVICE ? length_of(p) : 0;
    release_cpu(b, mem, p);
}

static enum hsp_status open_noted(void *ctx, uint32_t rank, int threads, struct hsp_backend **ret,
                                  struct hsp_err *err)
{
    (void)ctx;
    enum hsp_status st = hsp_backend_cpu_open(threads, ret, err);
    if (st == HSP_OK) {
        struct hsp_backend *b = *ret;
        taken[rank] = (struct taken){.b = b};
        close_cpu = b->close;
        alloc_cpu = b->alloc;
        release_cpu = b->release;
        b->close = note_wide;
        b->alloc = note_alloc;
        b->release = note_release;
    }
    return st;
}

/* Runs a plan and compares the memory that each rank takes with its program: at least the planned
 * bytes, and at most the planned bytes and those for messages. */
static void run_noted(const char *dir, const struct hsp_model_spec *m, int k)
{
    struct hsp_err err = {0};
    struct hsp_program_file f;
    struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
    char *path = make_file(dir, m, PLANS[k].plan, 1, false, true);
    uint8_t *data = NULL;
    size_t len = 0;
    assert_ok(hsp_file_read(path, HSP_MAX_PROGRAM_FILE_BYTES, &data, &len, &err), &err);
    assert_ok(hsp_program_file_decode(data, len, a, &f, &err), &err);
    memset(taken, 0, sizeof taken);
    struct hsp_run_opts o = {.file = path, .threads = 1, .open = open_noted, .quiet = true};
    assert_ok(hsp_run_file(&o, &err), &err);
    for (uint32_t r = 0; r < f.n; r++) {
        const struct hsp_binding *b = &f.programs[r].bind;
        size_t wide = (size_t)hsp_program_wide(&f.programs[r]) + 64;
        size_t least = (size_t)(b->memory_bytes + b->state_bytes), pack = (size_t)b->comm_bytes;
        if (m->compute == HSP_COMPUTE_BF16 && taken[r].wide != wide) {
            fail_msg("%s, rank %u: %zu bytes, planned %zu", PLANS[k].name, r, taken[r].wide, wide);
        }
        if (taken[r].most > least + pack + NUMBERS || taken[r].most < least) {
            fail_msg("%s, rank %u: %zu bytes, planned %zu and %zu for messages", PLANS[k].name, r,
                     taken[r].most, least, pack);
        }
    }
    free(data);
    free(path);
    hsp_arena_free(a);
}

static void ranks_take_what_is_planned(void **state)
{
    static const enum hsp_dtype types[] = {HSP_F32, HSP_F32, HSP_F64};
    (void)state;
    char *dir = hsp_test_tmpdir();
    for (int t = 0; t < 3; t++) {
        struct hsp_model_spec m = GPT;
        m.dtype = types[t];
        m.compute = t == 0 ? HSP_COMPUTE_BF16 : HSP_COMPUTE_FULL;
        m.dropout = 0.1;
        for (int k = 0; k < N_PLANS; k++) {
            run_noted(dir, &m, k);
        }
    }
    hsp_test_rmdir(dir);
    free(dir);
}

/* Asynchronous devices compute the same bits as CPUs. */
static void devices_give_the_same_bits(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir();
    struct hsp_model_spec llama = LLAMA, gpt = GPT, mlp = MLP;
    llama.dropout = 0.2;
    llama.vocab_chunks = 8;
    gpt.dtype = HSP_F32;
    gpt.compute = HSP_COMPUTE_BF16;
    mlp.dropout = 0.3;
    const struct hsp_model_spec *const models[] = {&llama, &gpt, &mlp};
    for (int k = 0; k < N_PLANS; k++) {
        const struct hsp_model_spec *m = models[k % 3];
        char *path = make_file(dir, m, PLANS[k].plan, 6, k % 2, true);
        hsp_devicerun_compare(dir, path, 6, PLANS[k].name);
        free(path);
    }
    for (int k = 0; k < N_PLANS; k++) {
        char *plan = with_bucket(PLANS[k].plan, k % 2 ? 500 : 64u << 20);
        char *path = make_file(dir, models[(k + 1) % 3], plan, 6, k % 2, true);
        hsp_devicerun_compare(dir, path, 6, plan);
        free(path);
        free(plan);
    }
    for (int k = 0; k < 2 * N_MORE; k++) {
        char *path = make_file(dir, models[k / N_MORE], MORE[k % N_MORE].plan, 5, k % 2, true);
        hsp_devicerun_compare(dir, path, 5, MORE[k % N_MORE].name);
        free(path);
    }
    hsp_devicerun_assert_used();
    hsp_test_rmdir(dir);
    free(dir);
}

/* Compares every instruction of sharded programs on devices with an unsharded program on a
 * device. */
static void devices_equal_one_device(void **state)
{
    (void)state;
    char *dir = hsp_test_tmpdir();
    for (int k = 0; k < N_PLANS; k++) {
        char *path = make_file(dir, k % 2 ? &GPT : &LLAMA, PLANS[k].plan, 10, false, false);
        struct hsp_run_opts o = {
            .file = path, .threads = 1, .steps = 2, .open = hsp_devicerun_open, .quiet = true};
        struct hsp_err err = {0};
        if (hsp_verify_file(&o, &err) != HSP_OK) {
            fail_msg("%s: %s", PLANS[k].name, err.msg);
        }
        free(path);
    }
    hsp_test_rmdir(dir);
    free(dir);
}

HSP_TEST_FILE(run_program_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_equals_one_device),
        cmocka_unit_test(llama_equals_one_device),
        cmocka_unit_test(mlp_equals_one_device),
        cmocka_unit_test(single_precision_too),
        cmocka_unit_test(bf16_too),
        cmocka_unit_test(bf16_trains_like_fp32),
        cmocka_unit_test(ranks_take_what_is_planned),
        cmocka_unit_test(differences_are_named),
        cmocka_unit_test(runs_have_one_curve),
        cmocka_unit_test(buckets_give_the_same_bits),
        cmocka_unit_test(devices_give_the_same_bits),
        cmocka_unit_test(devices_equal_one_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
