/* Fails allocations of daemon/lp and daemon/planner: from a job and a cluster to a priced plan. */
#include "tests/lib/testlib.h"

#include "daemon/graph/graph_build.h"
#include "daemon/lp/lp.h"
#include "daemon/lp/solve.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/planner/annotations.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/correct.h"
#include "daemon/planner/job_file.h"
#include "daemon/planner/lengths.h"
#include "daemon/planner/pipeline.h"
#include "daemon/planner/planner.h"
#include "daemon/planner/shares.h"
#include "tests/lib/oom.h"

#define ARENA ((size_t)512 << 20)

/* ---- linear programs ---- */

static enum hsp_status use_lp(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    bool integer = *(const bool *)ctx;
    struct hsp_lp *lp = hsp_lp_new(HSP_LP_MAX);
    if (lp == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no model");
    }
    uint32_t v[12];
    double weight[12], x[12];
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < 12; i++) {
        weight[i] = 3 + i * 7 % 5;
        st = hsp_lp_add_var(lp, 0, 2, 1 + i % 4, integer, &v[i], err);
    }
    st = st != HSP_OK ? st : hsp_lp_add_row(lp, 12, v, weight, -HSP_LP_INF, 31, err);
    st = st != HSP_OK ? st : hsp_lp_add_row(lp, 2, v, weight, -HSP_LP_INF, 9, err);
    struct hsp_lp_result r = {0};
    st = st != HSP_OK ? st : hsp_lp_solve(lp, NULL, x, &r, err);
    hsp_buf_printf(out, "%.9g %d", r.objective, r.optimal);
    hsp_lp_free(lp);
    return st;
}

static void a_model_is_solved_or_there_was_no_memory(void **state)
{
    (void)state;
    bool integer = false;
    hsp_oom_loop("lp", use_lp, &integer, 500);
    integer = true;
    hsp_oom_loop("milp", use_lp, &integer, 500);
}

static void a_row_that_finds_no_memory_leaves_the_model_as_it_is(void **state)
{
    (void)state;
    int64_t before = hsp_oom_live();
    struct hsp_err err;
    struct hsp_lp *lp = hsp_lp_new(HSP_LP_MIN);
    uint32_t v[40];
    double coef[40];
    for (uint32_t i = 0; i < 40; i++) {
        coef[i] = 1;
        for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) {
            t.st = hsp_lp_add_var(lp, 0, 1, 1, false, &v[i], &err);
            hsp_oom_end(&t);
            assert_true(t.failed || v[i] == i);
        }
        for (struct hsp_oom_try t = {0}; hsp_oom_again(&t);) {
            t.st = hsp_lp_add_row(lp, i + 1, v, coef, 0.5, HSP_LP_INF, &err);
            hsp_oom_end(&t);
        }
    }
    double x[40];
    struct hsp_lp_result r;
    assert_ok(hsp_lp_solve(lp, NULL, x, &r, &err), &err);
    assert_near(r.objective, 0.5, 1e-9);
    hsp_lp_free(lp);
    assert_int_equal(hsp_oom_live(), before);
}

/* ---- shares and pipelines ---- */

static enum hsp_status use_shares(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    static const struct hsp_share_dev dev[] = {
        {.fixed_us = 10, .micro_us = 2, .seq_us = 5, .micro = 2, .min = 0, .max = 20},
        {.fixed_us = 40, .micro_us = 1, .seq_us = 3, .micro = 4, .min = 1, .max = 9},
        {.fixed_us = 0, .micro_us = 7, .seq_us = 9, .micro = 1, .min = 0, .max = 20}};
    static const double slope[] = {10, 30, 20, 20}, fixed[] = {1, 0, 2, 0}, mem[] = {100, 100},
                        cap[] = {60, 80};
    const struct hsp_segments s = {
        .n = 2, .n_segments = 2, .slope = slope, .fixed = fixed, .mem = mem, .cap = cap};
    uint32_t share[3];
    double us = 0, w[2] = {0};
    enum hsp_status st = hsp_shares_minmax(3, dev, 17, share, &us, err);
    st = st != HSP_OK ? st : hsp_shares_segments(&s, NULL, w, &us, err);
    if (st == HSP_OK) {
        hsp_buf_printf(out, "%u %u %u %.6f %.6f", share[0], share[1], share[2], w[0], us);
    }
    return st;
}

static double stage_us(void *ctx, uint32_t kind, uint32_t first, uint32_t end, uint32_t behind)
{
    (void)ctx;
    return (end - first) * (10.0 + 3 * kind) + behind;
}

static enum hsp_status use_pipe(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    const struct hsp_pipe p = {.n_blocks = 6,
                               .n_kinds = 2,
                               .count = {2, 2},
                               .n_micro = 8,
                               .max_stages = 4,
                               .stage_us = stage_us};
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
    }
    struct hsp_pipe_result r = {0};
    enum hsp_status st = hsp_pipe_solve(&p, a, &r, err);
    for (uint32_t i = 0; i < r.n_stages; i++) {
        hsp_buf_printf(out, "%u:%u ", r.kind[i], r.blocks[i]);
    }
    hsp_arena_free(a);
    return st;
}

static void shares_and_pipelines_are_found_or_there_was_no_memory(void **state)
{
    (void)state;
    hsp_oom_loop("shares", use_shares, NULL, 300);
    hsp_oom_loop("pipeline", use_pipe, NULL, 500);
}

/* ---- plans ---- */

static const char job_text[] =
    "apiVersion: hspmd/v1\nname: gpt\n"
    "model: {family: gpt, layers: 3, hidden: 32, heads: 4, vocab: 256, sequence: 16, "
    "tied_head: true}\n"
    "data: {path: /t.txt, format: text, tokenizer: byte}\n"
    "train: {steps: 10, global_batch: 12, dtype: fp64, optimizer: {name: adamw, lr: 1e-3}}\n"
    "annotations: [a.yaml, b.yaml]\nrecovery: {copies: 2}\n";
static const char cluster_text[] =
    "apiVersion: hspmd/v1\nkind: cluster\n"
    "nodes:\n"
    "  - {name: a, devices: [{}, {speed: 0.5, memory: 1GiB}]}\n"
    "  - {name: b, uplink: {latency_us: 200, gbit_per_s: 1}, devices: [{count: 2}]}\n"
    "links: {cross_node: {latency_us: 100, gbit_per_s: 8}}\n";
static const char plan_text[] = "apiVersion: hspmd/v1\nkind: plan\nranks: 2\n"
                                "pipelines: [{sequences: 12, micro_batches: 3, "
                                "stages: [{layers: 2, ranks: [0]}, {layers: 1, ranks: [1]}]}]\n"
                                "parameters: [{name: \"*.bias\", home: {dup: [0, 1]}}]\n";

static enum hsp_status use_files(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    (void)ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
    }
    const struct hsp_job_spec *j = NULL;
    struct hsp_cluster_desc c = {0};
    enum hsp_status st = hsp_job_parse(job_text, sizeof job_text - 1, "j", a, &j, err);
    st = st != HSP_OK
             ? st
             : hsp_cluster_desc_parse(cluster_text, sizeof cluster_text - 1, "c", a, &c, err);
    if (st == HSP_OK) {
        hsp_job_dump(j, true, out);
        hsp_job_model_json(j, out);
        hsp_buf_puts(out, c.dev[3].name);
    }
    hsp_arena_free(a);
    return st;
}

static void a_model_is_written_or_there_was_no_memory(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_arena *a = hsp_arena_new(ARENA);
    const struct hsp_job_spec *j = NULL;
    struct hsp_buf b;
    assert_ok(hsp_job_parse(job_text, sizeof job_text - 1, "j", a, &j, &err), &err);
    hsp_oom_empty(&b);
    hsp_job_model_json(j, &b);
    hsp_oom_nothing(&b);
    hsp_arena_free(a);
}

struct scene {
    struct hsp_arena *arena;
    const struct hsp_job_spec *job;
    struct hsp_cluster_desc c;
    struct hsp_graph *g;
};

static void begin(struct scene *s)
{
    struct hsp_err err = {0};
    *s = (struct scene){.arena = hsp_arena_new(ARENA)};
    assert_ok(hsp_job_parse(job_text, sizeof job_text - 1, "j", s->arena, &s->job, &err), &err);
    assert_ok(
        hsp_cluster_desc_parse(cluster_text, sizeof cluster_text - 1, "c", s->arena, &s->c, &err),
        &err);
    assert_ok(hsp_graph_build(&s->job->model, &s->g, &err), &err);
}

static void end(struct scene *s)
{
    hsp_graph_free(s->g);
    hsp_arena_free(s->arena);
}

static enum hsp_status use_planner(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct scene *s = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
    }
    struct hsp_planned p = {0};
    const struct hsp_plan_options o = {.copies = 2};
    enum hsp_status st = hsp_plan_make(s->g, &s->job->train, &s->c, &o, a, &p, err);
    if (st == HSP_OK) {
        hsp_plan_dump(p.plan, out);
        for (uint32_t i = 0; i < p.n_rejected; i++) {
            hsp_buf_printf(out, "%s: %s\n", p.rejected[i].what, p.rejected[i].why);
        }
    }
    hsp_arena_free(a);
    return st;
}

static enum hsp_status use_annotations(void *ctx, struct hsp_buf *out, struct hsp_err *err)
{
    const struct scene *s = ctx;
    struct hsp_arena *a = hsp_arena_new(ARENA);
    if (a == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "no arena");
    }
    struct hsp_planned p = {0};
    struct hsp_plan *plan = NULL;
    uint32_t at = 0;
    const struct hsp_plan_text text = {"a.yaml", plan_text, sizeof plan_text - 1};
    enum hsp_status st = hsp_annotations_pick(1, &text, s->g, 12, 4, a, &plan, &at, err);
    st = st != HSP_OK ? st : hsp_plan_adopt(s->g, &s->job->train, &s->c, NULL, plan, a, &p, err);
    if (st == HSP_OK) {
        hsp_plan_dump(p.plan, out);
    }
    hsp_arena_free(a);
    return st;
}

static void plans_are_made_whole_or_not(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    const struct hsp_measured m = {.product = {.n = 100, .seconds = 1},
                                   .elements = {.n = 100, .seconds = 1},
                                   .flops = {1e9},
                                   .bytes = 1e8};
    hsp_profile_correct(&s.c.dev[0], HSP_RATE_FP32, &m); /* needs none */
    hsp_oom_loop("files", use_files, NULL, 1500);
    hsp_oom_loop("annotations", use_annotations, &s, 500);
    hsp_oom_loop("planner", use_planner, &s, 300);
    for (uint32_t i = 0; i < s.c.n; i++) {
        s.c.dev[i].mem_bytes = 6600 << 10; /* no device holds the whole model */
    }
    hsp_oom_loop("pipelines", use_planner, &s, 300);
    end(&s);
}

HSP_TEST_FILE(oom_planner_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_solved_or_there_was_no_memory),
        cmocka_unit_test(a_row_that_finds_no_memory_leaves_the_model_as_it_is),
        cmocka_unit_test(shares_and_pipelines_are_found_or_there_was_no_memory),
        cmocka_unit_test(a_model_is_written_or_there_was_no_memory),
        cmocka_unit_test(plans_are_made_whole_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
