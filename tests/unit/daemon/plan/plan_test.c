/* Tests plans as text, the rules of plans, and the homes of parameters. */
#include <stdio.h>

#include "daemon/graph/graph.h"
#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/sharding/home_slots.h"
#include "daemon/spmd/sharding/pipeline_units.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_model.h"

#define HEAD "apiVersion: hspmd/v1\nkind: plan\n"

static const char full[] =
    HEAD "ranks: 4\nzero: 1\npipelines:\n"
         "  - sequences: 10\n    micro_batches: 5\n    schedule: gpipe\n    stages:\n"
         "      - {layers: 3, ranks: [0, 1], tensor: [2, 1]}\n"
         "      - {layers: 1, ranks: [2]}\n"
         "  - {sequences: 6, micro_batches: 3, stages: [{layers: 4, ranks: [3]}]}\n"
         "parameters:\n"
         "  - {name: \"h.*.mlp.fc.weight\", home: {split: 0, shares: [1, 1], of: [0, 3]}}\n"
         "predicted_step_us: 1234.5\nmemory_bytes: [1, 2, 3, 4]\nwhy: \"fast: because\"\n";

static struct hsp_arena *arena;

static enum hsp_status parse(const char *text, uint32_t batch, struct hsp_plan **ret,
                             struct hsp_err *err)
{
    return hsp_plan_parse(text, strlen(text), "p.yaml", batch, arena, ret, err);
}

static struct hsp_plan *must_parse(const char *text, uint32_t batch)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    assert_ok(parse(text, batch, &p, &err), &err);
    return p;
}

static int setup(void **state)
{
    (void)state;
    arena = hsp_arena_new((size_t)64 << 20);
    return arena == NULL;
}

static int teardown(void **state)
{
    (void)state;
    arena = hsp_arena_free(arena);
    return 0;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct hsp_plan *p = must_parse(full, 16);
    struct hsp_buf a, b;
    assert_int_equal(p->n_pipelines, 2);
    assert_int_equal(p->pipelines[0].schedule, HSP_SCHED_GPIPE);
    assert_int_equal(p->pipelines[1].schedule, HSP_SCHED_1F1B);
    assert_int_equal(p->pipelines[0].stages[0].shares[0], 2);
    assert_int_equal(p->pipelines[1].stages[0].shares[0], 1);
    assert_int_equal(p->memory_bytes[3], 4);
    assert_string_equal(p->why, "fast: because");
    assert_false(p->states_bucket);
    hsp_buf_init(&a, 1 << 16);
    hsp_buf_init(&b, 1 << 16);
    hsp_plan_dump(p, &a);
    hsp_plan_dump(must_parse(hsp_buf_cstr(&a), 16), &b);
    assert_string_equal(hsp_buf_cstr(&a), hsp_buf_cstr(&b));
    assert_non_null(strstr(hsp_buf_cstr(&a), "tensor: [2, 1]"));
    assert_non_null(strstr(hsp_buf_cstr(&a), "predicted_step_us: 1234.5"));
    p->states_bucket = true; /* also one that states none */
    for (uint64_t bytes = 0; bytes <= HSP_MAX_BUCKET; bytes += HSP_MAX_BUCKET) {
        p->bucket_bytes = bytes;
        hsp_buf_fini(&a);
        hsp_buf_init(&a, 1 << 16);
        hsp_plan_dump(p, &a);
        const struct hsp_plan *back = must_parse(hsp_buf_cstr(&a), 16);
        assert_true(back->states_bucket);
        assert_int_equal(back->bucket_bytes, bytes);
    }
    hsp_buf_fini(&a);
    hsp_buf_fini(&b);
}

static struct hsp_graph *make_graph(int64_t layers)
{
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = layers,
                               .hidden = 12,
                               .heads = 3,
                               .vocab = 16,
                               .sequence = 4,
                               .tied_head = true,
                               .dtype = HSP_F64};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    return g;
}

/* The example plan in conf/ is a plan for the job that it names. */
static void test_example(void **state)
{
    (void)state;
    char *text = hsp_test_source("conf/plans/pipelines.yaml");
    struct hsp_graph *g = make_graph(3);
    struct hsp_plan *p = must_parse(text, 16);
    struct hsp_err err = {0};
    assert_ok(hsp_plan_check(p, g, 16, &err), &err);
    assert_int_equal(p->pipelines[0].sequences, 10);
    assert_int_equal(p->pipelines[0].schedule, HSP_SCHED_INTERLEAVED);
    assert_int_equal(p->pipelines[1].schedule, HSP_SCHED_ZERO_BUBBLE);
    hsp_graph_free(g);
    free(text);
}

/* Schedules and chunks are read and written back, and each chunk has the right blocks. */
static void test_schedules(void **state)
{
    (void)state;
    static const char text[] =
        HEAD "ranks: 3\npipelines:\n"
             "  - {sequences: 10, micro_batches: 5, schedule: interleaved, chunks: 3, stages: "
             "[{layers: [0, 2, 1], ranks: [0]}, {layers: [1, 1, 0], ranks: [1]}]}\n"
             "  - {sequences: 6, schedule: zero_bubble, stages: [{layers: 5, ranks: [2]}]}\n";
    static const uint32_t first[2][3] = {{0, 1, 4}, {0, 3, 5}}, unit[2][6] = {{0, 2, 5}, {1, 4, 6}},
                          end[2][3] = {{1, 4, 6}, {2, 5, 7}};
    struct hsp_plan *p = must_parse(text, 16);
    const struct hsp_pipeline *s = &p->pipelines[0];
    struct hsp_buf a, b;
    assert_int_equal(s->schedule, HSP_SCHED_INTERLEAVED);
    assert_int_equal(s->stages[0].layers, 3);
    assert_int_equal(p->pipelines[1].schedule, HSP_SCHED_ZERO_BUBBLE);
    assert_int_equal(hsp_pipeline_chunks(&p->pipelines[1]), 1);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t from, to;
            hsp_chunk_units(s, i, c, &from, &to);
            assert_int_equal(hsp_chunk_first_block(s, i, c), first[i][c]);
            assert_int_equal(from, unit[i][c]);
            assert_int_equal(to, end[i][c]);
            for (uint32_t u = from; u < to; u++) {
                uint32_t stage, chunk;
                hsp_place_of_unit(s, u, &stage, &chunk);
                assert_int_equal(stage, i);
                assert_int_equal(chunk, c);
            }
        }
    }
    hsp_buf_init(&a, 1 << 16);
    hsp_buf_init(&b, 1 << 16);
    hsp_plan_dump(p, &a);
    hsp_plan_dump(must_parse(hsp_buf_cstr(&a), 16), &b);
    assert_string_equal(hsp_buf_cstr(&a), hsp_buf_cstr(&b));
    assert_non_null(strstr(hsp_buf_cstr(&a), "chunks: 3\n"));
    assert_non_null(strstr(hsp_buf_cstr(&a), "layers: [0, 2, 1]"));
    assert_non_null(strstr(hsp_buf_cstr(&a), "schedule: zero_bubble\n    stages:"));
    hsp_buf_fini(&a);
    hsp_buf_fini(&b);
}

/* The keys of groups of a stage are read; keys that may be left out are left out when the plan is
 * written again. */
static void test_groups(void **state)
{
    (void)state;
    static const char text[] =
        HEAD "ranks: 8\npipelines:\n  - sequences: 4\n    micro_batches: 2\n    stages:\n"
             "      - {layers: 1, split: sequence, shares: [3, 0, 1], groups: [{ranks: [0, 1], "
             "tensor: [2, 1]}, {ranks: [2]}, {ranks: [3, 4]}], sequence_parallel: true}\n"
             "      - {layers: 1, split: batch, groups: [{ranks: [5]}, {ranks: [6]}]}\n"
             "      - {layers: 2, groups: [{ranks: [7], tensor: [1]}], saved: keep}\n";
    struct hsp_plan *p = must_parse(text, 4);
    const struct hsp_stage *s = p->pipelines[0].stages;
    uint32_t first, end;
    assert_int_equal(s[0].n, 5);
    assert_int_equal(hsp_stage_groups(&s[0]), 3);
    hsp_stage_group(&s[0], 2, &first, &end);
    assert_int_equal(first * 10 + end, 35);
    assert_int_equal(hsp_stage_group_of(&s[0], 2), 1);
    assert_int_equal(s[0].split, HSP_SPLIT_SEQUENCE);
    assert_true(s[0].sequence_parallel);
    assert_true(hsp_stage_part(&s[0], 0) == 0.5);
    assert_true(hsp_stage_part(&s[0], 2) == 0);
    assert_int_equal(s[1].split, HSP_SPLIT_BATCH);
    assert_true(hsp_stage_part(&s[1], 1) == 0.5);
    assert_int_equal(hsp_stage_groups(&s[2]), 1);
    assert_true(hsp_stage_part(&s[2], 0) == 1);
    assert_true(hsp_pipeline_cuts_batch(&p->pipelines[0]));
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 16);
    hsp_plan_dump(p, &b);
    const char *stages = strstr(hsp_buf_cstr(&b), "    stages:\n");
    assert_non_null(stages);
    assert_string_equal(
        stages, "    stages:\n"
                "      - {layers: 1, split: sequence, shares: [3, 0, 1], groups: [{ranks: [0, 1], "
                "tensor: [2, 1]}, {ranks: [2]}, {ranks: [3, 4]}], sequence_parallel: true}\n"
                "      - {layers: 1, split: batch, groups: [{ranks: [5]}, {ranks: [6]}]}\n"
                "      - {layers: 2, ranks: [7], saved: keep}\n");
    hsp_buf_fini(&b);
}

static void test_weights(void **state)
{
    (void)state;
    struct hsp_plan *p = must_parse(full, 8);
    struct hsp_err err = {0};
    assert_int_equal(p->pipelines[0].sequences, 5);
    assert_int_equal(p->pipelines[1].sequences, 3);
    assert_status(parse(HEAD "ranks: 2\npipelines: [{sequences: 1000, stages: [{layers: 1, ranks: "
                             "[0]}]}, {sequences: 1, stages: [{layers: 1, ranks: [1]}]}]",
                        4, &p, &err),
                  HSP_EPARSE);
    assert_string_equal(strchr(err.msg, ':'),
                        ":4:67: pipeline 1 gets no sequence of a global batch of 4");
}

static void test_bad_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {HEAD "ranks: 1\nzero: 2\npipelines: []", "p.yaml:4:7: zero: "},
        {HEAD "ranks: 1\nzero: 0\nzero_pattern: interleaved\npipelines: []",
         "p.yaml:5:15: zero_pattern: with zero 0 nothing is cut by this pattern"},
        {HEAD "ranks: 1\nbucket: 67108865\npipelines: []",
         "p.yaml:4:9: bucket: 67108865 is outside 0 to 67108864"},
        {HEAD "ranks: 1\n", "p.yaml:1:1: missing key pipelines"},
        {HEAD "ranks: 1\npipelines: []", "p.yaml:4:12: pipelines: 0 entries, must be 1 to 256"},
        {HEAD "ranks: 1\npipeline: []",
         "p.yaml:4:1: unknown key \"pipeline\", did you mean \"pipelines\"?"},
        {"kind: plan\nranks: 1\n", "p.yaml:1:1: missing key apiVersion"},
        {HEAD "ranks: 1\npipelines: [{sequences: 1, stages: [{layers: 1, ranks: [0], tensor: [1, "
              "1]}]}]",
         "p.yaml:4:69: tensor: 2 shares for 1 ranks"},
        {HEAD "ranks: 1\npipelines: [{sequences: 1, stages: [{layers: 1, ranks: [0], tensor: "
              "[-1]}]}]",
         "p.yaml:4:70: "},
        {HEAD "ranks: 1\npipelines: [{sequences: 1, schedule: zb, stages: []}]",
         "p.yaml:4:38: schedule: wanted 1f1b, gpipe, interleaved or zero_bubble, found \"zb\""},
        {HEAD "ranks: 1\npipelines: [{sequences: 1, chunks: 2, stages: [{layers: 1, ranks: [0]}]}]",
         "p.yaml:4:57: layers: wanted a list, found \"1\""},
        {HEAD "ranks: 1\npipelines: [{sequences: 1, chunks: 2, stages: [{layers: [1], ranks: "
              "[0]}]}]",
         "p.yaml:4:57: layers: 1 numbers for 2 chunks"},
        {HEAD "ranks: 1\npipelines: [{sequences: 1, stages: [{layers: [1], ranks: [0]}]}]",
         "p.yaml:4:46: layers: a list, of a pipeline without chunks"},
        {HEAD "ranks: 1\npipelines: [{sequences: 1, chunks: 33, stages: []}]",
         "p.yaml:4:36: chunks: 33 is outside 1 to 32"},
        {HEAD "ranks: 1\npipelines: [{stages: [{layers: 1, ranks: [0], groups: [{ranks: [0]}]}], "
              "sequences: 1}]",
         "p.yaml:4:42: ranks: belongs into each of the groups"},
        {HEAD
         "ranks: 1\npipelines: [{stages: [{layers: 1, ranks: [0], split: batch}], sequences: 1}]",
         "p.yaml:4:54: split: needs groups"},
        {HEAD "ranks: 2\npipelines: [{stages: [{layers: 1, split: batch, balance: work, groups: "
              "[{ranks: [0]}, {ranks: [1]}]}], sequences: 1}]",
         "p.yaml:4:58: balance: work needs split: sequence"},
        {HEAD "ranks: 1\npipelines: [{stages: [{layers: 1, groups: [{ranks: [0]}, {ranks: [1]}]}], "
              "sequences: 1}]",
         "p.yaml:4:23: several groups need a split, and a split needs several groups"},
        {HEAD
         "ranks: 1\npipelines: [{stages: [{layers: 1, split: batch, shares: [1], groups: [{ranks: "
         "[0]}, {ranks: [1]}]}], sequences: 1}]",
         "p.yaml:4:57: shares: 1 shares for 2 groups"},
        {HEAD
         "ranks: 1\npipelines: [{stages: [{layers: 1, split: batch, groups: []}], sequences: 1}]",
         "p.yaml:4:57: groups: 0 entries"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_plan *p = NULL;
        struct hsp_err err = {0};
        assert_status(parse(cases[i].text, 1, &p, &err), HSP_EPARSE);
        if (strncmp(err.msg, cases[i].message, strlen(cases[i].message)) != 0) {
            fail_msg("message \"%s\", not \"%s\"", err.msg, cases[i].message);
        }
    }
}

/* ---- rules ---- */

static void test_rules(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {HEAD "ranks: 2\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [0]}]}]",
         "rank 1 is in no stage"},
        {HEAD "ranks: 1\npipelines: [{sequences: 4, stages: [{layers: 3, ranks: [0]}]}]",
         "pipeline 0 has 3 layers, the model has 2"},
        {HEAD "ranks: 2\npipelines: [{sequences: 4, stages: [{layers: 1, ranks: [0]}, {layers: 1, "
              "ranks: [0]}]}]",
         "rank 0 is used twice (pipeline 0 stage 1)"},
        {HEAD "ranks: 1\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [3]}]}]",
         "pipeline 0 stage 0 names rank 3 of a plan of 1 ranks"},
        {HEAD
         "ranks: 2\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [0, 1], tensor: [0, "
         "0]}]}]",
         "pipeline 0 stage 0: all shares are 0"},
        {HEAD
         "ranks: 2\npipelines: [{sequences: 4, stages: [{layers: 2, split: sequence, shares: [0, "
         "0], groups: [{ranks: [0]}, {ranks: [1]}]}]}]",
         "pipeline 0 stage 0: all shares of groups are 0"},
        {HEAD "ranks: 3\npipelines: [{sequences: 4, stages: [{layers: 2, split: sequence, groups: "
              "[{ranks: [0]}, {ranks: [1, 2], tensor: [0, 0]}]}]}]",
         "pipeline 0 stage 0: all shares are 0"},
        {HEAD "ranks: 2\npipelines: [{sequences: 4, micro_batches: 3, stages: [{layers: 2, split: "
              "batch, groups: [{ranks: [0]}, {ranks: [1]}]}]}]",
         "pipeline 0: split: batch needs micro-batches of one size, 4 sequences are not a multiple "
         "of "
         "3"},
        {HEAD "ranks: 1\npipelines: [{sequences: 4, micro_batches: 5, stages: [{layers: 2, ranks: "
              "[0]}]}]",
         "pipeline 0 has 5 micro-batches for 4 sequences (at most 4096)"},
        {HEAD "ranks: 3\npipelines: [{sequences: 4, stages: [{layers: 1, ranks: [0]}, {layers: 0, "
              "ranks: [1]}, {layers: 1, ranks: [2]}]}]",
         "pipeline 0 stage 1 has no layers: only the first and the last stage have work without"},
        {HEAD "ranks: 1\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [0]}]}]\n"
              "parameters: [{name: nothing, home: 0}]",
         "no parameter is named like nothing"},
        {HEAD "ranks: 1\npipelines: [{sequences: 4, chunks: 2, stages: [{layers: [1, 1], ranks: "
              "[0]}]}]",
         "pipeline 0 has 2 chunks: 1, or up to 32 with schedule interleaved"},
        {HEAD "ranks: 2\npipelines: [{sequences: 4, schedule: interleaved, chunks: 2, stages: "
              "[{layers: [1, 0], ranks: [0]}, {layers: [1, 0], ranks: [1]}]}]",
         "pipeline 0 stage 0 has no layers in chunk 1: only the first and the last chunk of all "
         "have "
         "work without"},
    };
    struct hsp_graph *g = make_graph(2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hsp_err err = {0};
        assert_status(hsp_plan_check(must_parse(cases[i].text, 4), g, 4, &err), HSP_EINVAL);
        assert_err(&err, HSP_EINVAL, cases[i].message);
    }
    struct hsp_plan *p = must_parse(
        HEAD "ranks: 1\npipelines: [{sequences: 4, stages: [{layers: 2, ranks: [0]}]}]", 4);
    struct hsp_err err = {0};
    assert_ok(hsp_plan_check(p, g, 4, &err), &err);
    assert_status(hsp_plan_check(p, g, 5, &err), HSP_EINVAL);
    hsp_graph_free(g);
}

static void test_patterns(void **state)
{
    (void)state;
    assert_true(hsp_plan_name_fits("h.*.mlp.*", "h.11.mlp.fc.weight"));
    assert_true(hsp_plan_name_fits("*", ""));
    assert_true(hsp_plan_name_fits("*.weight", "h.0.weight.x.weight"));
    assert_true(hsp_plan_name_fits("h.?.*", "h.1.a"));
    assert_false(hsp_plan_name_fits("h.?.*", "h.11.a"));
    assert_false(hsp_plan_name_fits("h.*.mlp", "h.1.mlp.fc"));
    assert_false(hsp_plan_name_fits("wte", "wte.weight"));
    assert_false(hsp_plan_name_fits("wte.weight?", "wte.weight"));
}

/* ---- homes ---- */

static const char two_pipelines[] =
    HEAD "ranks: 4\nzero: %d\npipelines:\n"
         "  - {sequences: 2, stages: [{layers: 4, ranks: [0, 1], tensor: [2, 1]}]}\n"
         "  - {sequences: 2, stages: [{layers: 2, ranks: [2]}, {layers: 2, ranks: [3]}]}\n";

static uint32_t find_param(const struct hsp_graph *g, const char *name)
{
    for (uint32_t p = 0; p < g->n_params; p++) {
        if (strcmp(g->tensors[g->params[p].tensor].name, name) == 0) {
            return p;
        }
    }
    fail_msg("no parameter %s", name);
    return 0;
}

static void expect_home(const struct hsp_graph *g, const struct hsp_plan *p, const char *name,
                        const char *text)
{
    struct hsp_cover c;
    struct hsp_err err = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, 4096);
    assert_ok(plan_home(g, p, find_param(g, name), &c, &err), &err);
    for (uint32_t i = 0; i < c.n; i++) {
        const struct hsp_box *x = &c.items[i].box;
        hsp_buf_printf(&b, "%s%u:", i > 0 ? " " : "", c.items[i].rank);
        for (uint8_t d = 0; d < x->rank; d++) {
            hsp_buf_printf(&b, "%s%d-%d", d > 0 ? "," : "", (int)x->lo[d], (int)x->hi[d]);
        }
    }
    assert_string_equal(hsp_buf_cstr(&b), text);
    assert_true(hsp_cover_is_complete(&c));
    hsp_cover_fini(&c);
    hsp_buf_fini(&b);
}

static void test_homes(void **state)
{
    (void)state;
    struct hsp_graph *g = make_graph(4);
    char text[1024];
    snprintf(text, sizeof text, two_pipelines, 0);
    struct hsp_plan *p = must_parse(text, 4);
    expect_home(g, p, "h.0.attn.q.weight", "0:0-8,0-12 1:8-12,0-12 2:0-12,0-12");
    expect_home(g, p, "h.3.attn.proj.weight", "0:0-12,0-8 1:0-12,8-12 3:0-12,0-12");
    expect_home(g, p, "wte.weight", "0:0-16,0-12 1:0-16,0-12 2:0-16,0-12 3:0-16,0-12");
    expect_home(g, p, "h.0.ln_1.bias", "0:0-12 1:0-12 2:0-12");
    snprintf(text, sizeof text, two_pipelines, 1);
    p = must_parse(text, 4);
    expect_home(g, p, "h.0.attn.q.weight", "0:0-4,0-12 1:8-12,0-12 2:4-8,0-12");
    expect_home(g, p, "h.3.attn.proj.weight", "0:0-12,0-4 1:0-12,8-12 3:0-12,4-8");
    expect_home(g, p, "wte.weight", "0:0-4,0-12 1:4-8,0-12 2:8-12,0-12 3:12-16,0-12");
    /* even parts would lie outside of the ranks' uses */
    p = must_parse(HEAD "ranks: 3\nzero: 1\npipelines:\n"
                        "  - {sequences: 2, stages: [{layers: 4, ranks: [2, 1], tensor: [1, 2]}]}\n"
                        "  - {sequences: 2, stages: [{layers: 4, ranks: [0]}]}\n",
                   4);
    expect_home(g, p, "h.0.attn.q.weight", "0:4-8,0-12 1:8-12,0-12 2:0-4,0-12");
    p = must_parse(HEAD
                   "ranks: 2\nzero: 1\npipelines:\n"
                   "  - {sequences: 4, stages: [{layers: 4, ranks: [1, 0], tensor: [1, 2]}]}\n",
                   4);
    expect_home(g, p, "h.0.attn.q.weight", "0:4-12,0-12 1:0-4,0-12");
    p = must_parse(HEAD
                   "ranks: 2\nzero: 1\npipelines:\n"
                   "  - {sequences: 4, stages: [{layers: 4, ranks: [1, 0], tensor: [2, 1]}]}\n",
                   4);
    expect_home(g, p, "h.0.attn.q.weight", "0:8-12,0-12 1:0-8,0-12");
    hsp_graph_free(g);
}

/* Pipelines are uneven, and zero_pattern is interleaved: a weight that tensor parallelism cuts is
 * cut once more over the pipelines. */
static void test_interleaved_homes(void **state)
{
    (void)state;
    struct hsp_graph *g = make_graph(4);
    char text[1024];
    (void)snprintf(text, sizeof text, two_pipelines, 1);
    struct hsp_plan *p = must_parse(text, 4);
    p->zero_pattern = HSP_ZERO_INTERLEAVED;
    expect_home(g, p, "h.0.attn.q.weight", "0:0-5,0-12 1:8-11,0-12 2:5-8,0-12 2:11-12,0-12");
    expect_home(g, p, "h.3.attn.proj.weight", "0:0-12,0-5 1:0-12,8-11 3:0-12,5-8 3:0-12,11-12");
    expect_home(g, p, "wte.weight", "0:0-4,0-12 1:4-8,0-12 2:8-12,0-12 3:12-16,0-12");
    /* one group has all: nothing to cut once more; a share of 0 is no home */
    p = must_parse(HEAD "ranks: 3\nzero: 1\nzero_pattern: interleaved\npipelines:\n"
                        "  - {sequences: 4, stages: [{layers: 4, ranks: [0, 1, 2],"
                        " tensor: [1, 0, 2]}]}\n",
                   4);
    expect_home(g, p, "h.0.attn.q.weight", "0:0-4,0-12 2:4-12,0-12");
    p = must_parse(HEAD "ranks: 4\nzero: 1\nzero_pattern: interleaved\npipelines:\n"
                        "  - {sequences: 2, stages: [{layers: 4, ranks: [0, 1, 2],"
                        " tensor: [1, 0, 2]}]}\n"
                        "  - {sequences: 2, stages: [{layers: 4, ranks: [3]}]}\n",
                   4);
    expect_home(g, p, "h.0.attn.q.weight", "0:0-3,0-12 2:4-9,0-12 3:3-4,0-12 3:9-12,0-12");
    hsp_graph_free(g);
}

/* Assigns slots (home_slots.h) to a home of 100 rows whose boxes are @row, each {rank, lo, hi}.
 * @want has the slot of each box as a digit, or the message of the error. */
static void expect_slots(const int64_t (*row)[3], uint32_t n, const char *want)
{
    struct hsp_arena *scratch = hsp_arena_new(1 << 20);
    struct hsp_home_slots s;
    struct hsp_cover c;
    struct hsp_err err = {0};
    int64_t extent = 100;
    char text[256];
    hsp_cover_init(&c, 1, &extent);
    for (uint32_t i = 0; i < n; i++) {
        struct hsp_box b = {.rank = 1, .lo = {row[i][1]}, .hi = {row[i][2]}};
        assert_status(hsp_cover_add(&c, (uint32_t)row[i][0], 0, &b), HSP_OK);
    }
    hsp_cover_normalise(&c);
    if (hsp_home_slots_assign(&c, "w", scratch, &s, &err) == HSP_OK) {
        for (uint32_t i = 0; i < c.n; i++) {
            assert_true(s.of[i] < s.n);
            text[i] = (char)('0' + s.of[i]);
        }
        text[c.n] = '\0';
    } else {
        (void)snprintf(text, sizeof text, "%s", err.msg);
    }
    assert_string_equal(text, want);
    hsp_cover_fini(&c);
    hsp_arena_free(scratch);
}

static void test_slots(void **state)
{
    (void)state;
    static const int64_t one[][3] = {{0, 0, 50}, {1, 50, 100}, {2, 0, 100}};
    static const int64_t two[][3] = {
        {0, 0, 10}, {1, 10, 20}, {1, 30, 40}, {2, 20, 30}, {2, 40, 50}};
    static const int64_t copies[][3] = {{0, 0, 10},  {0, 20, 30}, {1, 10, 20}, {1, 30, 40},
                                        {2, 20, 30}, {2, 30, 40}, {3, 0, 10}};
    static const int64_t joined[][3] = {{0, 0, 10}, {0, 20, 30}, {1, 0, 30}};
    expect_slots(one, 3, "000");
    expect_slots(two, 5, "00101");
    /* ranks 1 and 2 share [30:40], 0 and 2 share [20:30]: three slots for rank 2's neighbours */
    expect_slots(copies, 7, "0102120");
    expect_slots(joined, 3, "home of w: copies are cut so that they join two boxes of one rank");
    int64_t many[HSP_MAX_HOME_SLOTS + 1][3];
    for (int i = 0; i <= HSP_MAX_HOME_SLOTS; i++) {
        many[i][0] = 0;
        many[i][1] = i;
        many[i][2] = i + 1;
    }
    expect_slots((const int64_t(*)[3])many, HSP_MAX_HOME_SLOTS + 1,
                 "home of w: rank 0 has more than 64 boxes");
}

static const char pool[] =
    "apiVersion: hspmd/v1\nkind: pool\nplans:\n"
    "  - {max_length: 16, plan: {ranks: 2, pipelines: [{sequences: 8, stages: [{layers: 4, ranks: "
    "[0]}]}, {sequences: 8, stages: [{layers: 4, ranks: [1]}]}]}}\n"
    "  - max_length: 64\n"
    "    plan:\n      ranks: 2\n      zero: 1\n      pipelines:\n"
    "        - {sequences: 16, micro_batches: 4, stages: [{layers: 4, ranks: [0, 1]}]}\n";

static void test_pools(void **state)
{
    (void)state;
    struct hsp_plan *p = must_parse(pool, 16), *again;
    struct hsp_buf a, b;
    struct hsp_err err = {0};
    assert_int_equal(p->n_shorter, 1);
    assert_int_equal(p->max_length, 64);
    assert_int_equal(p->pipelines[0].micro_batches, 4);
    assert_int_equal(p->shorter[0]->max_length, 16);
    assert_int_equal(p->shorter[0]->n_pipelines, 2);
    assert_ptr_equal(hsp_pool_plan(p, 1), p);
    hsp_buf_init(&a, 1 << 20);
    hsp_buf_init(&b, 1 << 20);
    hsp_plan_dump(p, &a);
    assert_ok(parse(hsp_buf_cstr(&a), 16, &again, &err), &err);
    hsp_plan_dump(again, &b);
    assert_string_equal(hsp_buf_cstr(&a), hsp_buf_cstr(&b));
    hsp_buf_fini(&a);
    hsp_buf_fini(&b);
    static const struct {
        const char *text, *why;
    } bad[] = {{"plans: []\n", "p.yaml:3:8: plans: 0 entries, must be 1 to 16"},
               {"zero: 1\n", "p.yaml:3:1: unknown key \"zero\""},
               {"plans: [{max_length: 8}]\n", "missing key plan"},
               {"plans: [{max_length: 8, plan: {ranks: 1, pipelines: [{sequences: 16, stages: "
                "[{layers: 4, ranks: [0]}]}]}}, {max_length: 8, plan: {}}]\n",
                "must be above 8, that of the plan before it"},
               {"plans: [{max_length: 8, plan: {ranks: 1, pipelines: 3}}]\n", "pipelines"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[400];
        (void)snprintf(text, sizeof text, "apiVersion: hspmd/v1\nkind: pool\n%s", bad[i].text);
        assert_int_equal(parse(text, 16, &again, &err), HSP_EPARSE);
        if (strstr(err.msg, bad[i].why) == NULL) {
            fail_msg("%s: not %s", err.msg, bad[i].why);
        }
    }
}

/* Plans of older releases say pipelines and pipeline, where newer ones say pipelines and pipeline:
 * both are read, the newer names are written, and a plan with both is refused. */
static void older_names_of_keys_are_read(void **state)
{
    (void)state;
    static const char stages[] = "[{sequences: 8, stages: [{layers: 4, ranks: [0]}]}]\n";
    static const char *const keys[][2] = {{"pipelines", "pipeline"}, {"streams", "stream"}};
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    struct hsp_buf b[2];
    char text[600];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof text,
                       HEAD "ranks: 1\n%s: %suses: [{%s: 0, stage: 0, layouts: {}, ops: []}]\n"
                            "reshards: [{phase: forward, %s: 0, stage: 0, makes: x, moves: []}]\n",
                       keys[i][0], stages, keys[i][1], keys[i][1]);
        hsp_buf_init(&b[i], 1 << 16);
        hsp_plan_dump(must_parse(text, 8), &b[i]);
    }
    assert_string_equal(hsp_buf_cstr(&b[0]), hsp_buf_cstr(&b[1]));
    assert_non_null(strstr(hsp_buf_cstr(&b[1]), "\npipelines:\n"));
    assert_non_null(strstr(hsp_buf_cstr(&b[1]), "  - pipeline: 0\n"));
    assert_non_null(strstr(hsp_buf_cstr(&b[1]), "{phase: forward, pipeline: 0, "));
    assert_null(strstr(hsp_buf_cstr(&b[1]), "stream"));
    hsp_buf_fini(&b[0]);
    hsp_buf_fini(&b[1]);
    (void)snprintf(text, sizeof text, HEAD "ranks: 1\npipelines: %sstreams: %s", stages, stages);
    assert_int_equal(parse(text, 8, &p, &err), HSP_EPARSE);
    assert_string_equal(err.msg, "p.yaml:5:10: streams: the older name of pipelines, which is "
                                 "given too: delete streams");
    static const char *const both[] = {
        "uses: [{pipeline: 0, stream: 0, stage: 0, layouts: {}, ops: []}]",
        "reshards: [{phase: forward, stream: 0, pipeline: 0, stage: 0, makes: x, moves: []}]"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof text, HEAD "ranks: 1\npipelines: %s%s", stages, both[i]);
        assert_int_equal(parse(text, 8, &p, &err), HSP_EPARSE);
        assert_non_null(strstr(err.msg, "stream: the older name of pipeline, which is given too: "
                                        "delete stream"));
    }
}

/* The compiler refuses pools whose plans do not fit together, and the message names the fault. */
static void test_pools_that_do_not_fit(void **state)
{
    (void)state;
    struct hsp_model_spec m = {.family = "gpt",
                               .layers = 4,
                               .hidden = 16,
                               .heads = 4,
                               .vocab = 32,
                               .sequence = 64,
                               .packed = true,
                               .dtype = HSP_F64};
    struct hsp_train_spec t = {.hyper = {.steps = 1, .lr = 1e-3, .optimizer = HSP_OPT_SGD},
                               .data = {.global_batch = 16,
                                        .sequence = 64,
                                        .longest = 64,
                                        .vocab = 32,
                                        .samples = HSP_SAMPLES_DOCUMENTS,
                                        .packing = HSP_PACKING_END}};
    struct hsp_graph *g;
    struct hsp_program_file f;
    struct hsp_err err = {0};
    struct hsp_plan *p = must_parse(pool, 16);
    assert_ok(hsp_graph_build(&m, &g, &err), &err);
    assert_ok(hsp_compile(g, p, &t, arena, &f, &err), &err);
    assert_int_equal(f.n_shorter, 1);
    assert_int_equal(f.shorter[0].bind.data.sequence, 16);
    assert_int_equal(f.shorter[0].bind.data.longest, 64);
    assert_true(f.shorter[0].bind.plan_digest.lo == f.programs[1].bind.plan_digest.lo);
    t.data.samples = HSP_SAMPLES_WINDOWS;
    assert_int_equal(hsp_compile(g, p, &t, arena, &f, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "a pool needs data.samples: documents");
    t.data.samples = HSP_SAMPLES_DOCUMENTS;
    /* homes of its own: the state would have to move */
    const char *home = HEAD "ranks: 2\npipelines:\n"
                            "  - {sequences: 8, stages: [{layers: 4, ranks: [0]}]}\n"
                            "  - {sequences: 8, stages: [{layers: 4, ranks: [1]}]}\n"
                            "parameters:\n  - {name: \"*\", home: {dup: [0, 1]}}\n";
    struct hsp_plan own = *must_parse(home, 16);
    own.max_length = 16;
    p->shorter[0] = &own;
    assert_int_equal(hsp_compile(g, p, &t, arena, &f, &err), HSP_EINVAL);
    assert_non_null(strstr(err.msg, "the plan for 16 tokens has another home of the state"));
    p->shorter[0]->n_ranks = 3;
    assert_int_equal(hsp_compile(g, p, &t, arena, &f, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "plans of 3 and of 2 ranks in one pool");
    p->max_length = 63;
    assert_int_equal(hsp_compile(g, p, &t, arena, &f, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "the last max_length of the pool is 63, model.sequence 64");
    hsp_graph_free(g);
}

HSP_TEST_FILE(plan_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pools, setup, teardown),
        cmocka_unit_test_setup_teardown(older_names_of_keys_are_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pools_that_do_not_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_schedules, setup, teardown),
        cmocka_unit_test_setup_teardown(test_example, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules, setup, teardown),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test_setup_teardown(test_homes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_interleaved_homes, setup, teardown),
        cmocka_unit_test(test_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
