#include "tests/lib/testlib.h"

#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/pool_view.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "daemon/planner/planner.h"
#include "daemon/spmd/codegen/compile.h"

enum { N = 4, SEQUENCE = 1024, BATCH = 16 };

struct scene {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_train_spec t;
    struct hsp_cluster_desc c;
    struct hsp_device_desc dev[N];
};

static void scene_make(struct scene *s, int64_t mem)
{
    struct hsp_err err = {0};
    struct hsp_model_spec spec = {.family = "gpt",
                                  .layers = 4,
                                  .hidden = 64,
                                  .heads = 4,
                                  .vocab = 256,
                                  .sequence = SEQUENCE,
                                  .tied_head = true,
                                  .packed = true,
                                  .dtype = HSP_F32};
    *s = (struct scene){.arena = hsp_arena_new((size_t)1 << 30),
                        .t = {.hyper = {.steps = 10, .optimizer = HSP_OPT_ADAMW},
                              .data = {.global_batch = BATCH,
                                       .sequence = SEQUENCE,
                                       .longest = SEQUENCE,
                                       .samples = HSP_SAMPLES_DOCUMENTS,
                                       .packing = HSP_PACKING_END,
                                       .vocab = 256}}};
    assert_ok(hsp_graph_build(&spec, &s->g, &err), &err);
    for (uint32_t i = 0; i < N; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "w%u/0", i + 1);
        s->dev[i] = hsp_device_default(name, i, i < 2 ? 0.5 : 1);
        s->dev[i].mem_bytes = mem;
    }
    s->c = (struct hsp_cluster_desc){.n = N,
                                     .dev = s->dev,
                                     .same_node = {.latency_us = 20, .us_per_byte = 1e-4},
                                     .cross = {.latency_us = 40, .us_per_byte = 4e-4}};
}

static void scene_free(struct scene *s)
{
    s->g = hsp_graph_free(s->g);
    s->arena = hsp_arena_free(s->arena);
}

/* Checks the properties of every pool. */
static void check_pool(const struct scene *s, const struct hsp_planned *p)
{
    struct hsp_err err = {0};
    uint32_t below = 0;
    struct hsp_program_file f;
    assert_ok(hsp_plan_check(p->plan, s->g, BATCH, &err), &err);
    for (uint32_t k = 0; k <= p->plan->n_shorter; k++) {
        const struct hsp_plan *one = hsp_pool_plan(p->plan, k);
        assert_true(one->max_length > below);
        below = one->max_length;
        assert_int_equal(one->n_ranks, p->plan->n_ranks);
        for (uint32_t r = 0; r < one->n_ranks; r++) {
            assert_true(one->memory_bytes[r] <= p->plan->memory_bytes[r]);
            assert_true(one->memory_bytes[r] <= s->dev[p->device[r]].mem_bytes);
        }
    }
    assert_int_equal(below, SEQUENCE);
    assert_ok(hsp_compile(s->g, p->plan, &s->t, s->arena, &f, &err), &err);
    assert_int_equal(f.n_shorter, p->plan->n_shorter);
}

/* With less and less memory, the longest sequences need a slower plan than the shorter ones. */
static void short_steps_get_faster_plans(void **state)
{
    (void)state;
    uint32_t pools = 0, planned = 0;
    for (int64_t mem = 256; mem >= 8; mem = mem * 3 / 4) {
        struct scene s;
        struct hsp_planned p;
        struct hsp_err err = {0};
        scene_make(&s, mem << 20);
        enum hsp_status st = hsp_plan_make(s.g, &s.t, &s.c, NULL, s.arena, &p, &err);
        assert_true(st == HSP_OK || st == HSP_EINFEASIBLE);
        planned += st == HSP_OK;
        if (st == HSP_OK && p.plan->n_shorter > 0) {
            pools++;
            check_pool(&s, &p);
            /* given as it is, it costs the same */
            struct hsp_planned again;
            struct hsp_plan copy = *p.plan;
            struct hsp_cluster_desc c = s.c;
            struct hsp_device_desc dev[N];
            for (uint32_t r = 0; r < copy.n_ranks; r++) {
                dev[r] = s.dev[p.device[r]];
            }
            c.dev = dev;
            c.n = copy.n_ranks;
            assert_ok(hsp_plan_adopt(s.g, &s.t, &c, NULL, &copy, s.arena, &again, &err), &err);
            assert_near(again.cost.step_us, p.cost.step_us, 1e-6 * p.cost.step_us);
            /* With zero 1 the search has cut the state of the longest plan evenly; its homes are
             * known by now, and the traffic to and from them. */
            double close = p.plan->zero > 0 ? 1e-3 : 1e-6;
            assert_near(copy.shorter[0]->predicted_step_us, p.plan->shorter[0]->predicted_step_us,
                        close * p.plan->shorter[0]->predicted_step_us);
        }
        scene_free(&s);
    }
    assert_true(planned >= 3);
    assert_true(pools >= 1);
}

/* If a whole sequence fits on no device, it is cut over the devices in proportion to their speeds;
 * short sequences are left whole. */
static void long_sequences_are_cut(void **state)
{
    (void)state;
    uint32_t cut = 0;
    for (int64_t mem = 30; mem >= 10; mem--) {
        struct scene s;
        struct hsp_planned p;
        struct hsp_err err = {0};
        scene_make(&s, mem << 20);
        bool planned = hsp_plan_make(s.g, &s.t, &s.c, NULL, s.arena, &p, &err) == HSP_OK;
        const struct hsp_stage *g = planned ? &p.plan->pipelines[0].stages[0] : NULL;
        if (planned && g->split == HSP_SPLIT_SEQUENCE) {
            cut++;
            assert_int_equal(g->n_groups, g->n);
            assert_non_null(strstr(p.plan->why, "sequences cut over"));
            for (uint32_t i = 1; i < g->n; i++) {
                bool slower = s.dev[p.device[g->ranks[i]]].gemm_flops[0] <
                              s.dev[p.device[g->ranks[i - 1]]].gemm_flops[0];
                assert_true((g->group_shares[i] < g->group_shares[i - 1]) == slower);
            }
            assert_int_equal(hsp_pool_plan(p.plan, 0)->pipelines[0].stages[0].split,
                             HSP_SPLIT_NONE);
            check_pool(&s, &p);
        }
        scene_free(&s);
    }
    assert_true(cut > 0);
}

/* All devices that share a sequence have the whole state, so a second copy of the state costs
 * nothing. */
static void cut_sequences_need_no_copies(void **state)
{
    static const char text[] =
        "{apiVersion: hspmd/v1, kind: plan, ranks: 4, pipelines: [{sequences: 16, micro_batches: "
        "16, "
        "stages: [{layers: 4, split: sequence, groups: [{ranks: [0]}, {ranks: [1]}, {ranks: [2]}, "
        "{ranks: [3]}]}]}]}";
    (void)state;
    int64_t bytes[2];
    for (uint32_t k = 0; k < 2; k++) {
        struct scene s;
        struct hsp_planned p;
        struct hsp_plan *plan = NULL;
        struct hsp_err err = {0};
        struct hsp_plan_options o = {.copies = k + 1};
        scene_make(&s, (int64_t)1 << 30);
        assert_ok(hsp_plan_parse(text, sizeof text - 1, "p", BATCH, s.arena, &plan, &err), &err);
        assert_ok(hsp_plan_adopt(s.g, &s.t, &s.c, &o, plan, s.arena, &p, &err), &err);
        bytes[k] = p.plan->memory_bytes[0];
        scene_free(&s);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

/* The cost of a plan for shorter sequences contains the traffic to and from the homes of the state,
 * which are those of the longest plan. */
static void homes_of_the_longest_plan_are_paid_for(void **state)
{
    static const char text[] =
        "apiVersion: hspmd/v1\nkind: pool\nplans:\n"
        "  - {max_length: 64, plan: {ranks: 4, pipelines: [{sequences: 16, micro_batches: 16, "
        "stages: "
        "[{layers: 2, ranks: [0, 1]}, {layers: 2, ranks: [2, 3]}]}]}}\n"
        "  - {max_length: 1024, plan: {ranks: 4, pipelines: [{sequences: 16, micro_batches: 16, "
        "stages: [{layers: 4, split: sequence, groups: [{ranks: [0]}, {ranks: [1]}, {ranks: [2]}, "
        "{ranks: [3]}]}]}]}}\n";
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_plan *plan = NULL, alone;
    struct hsp_pool_view v;
    struct hsp_program_file f;
    struct hsp_err err = {0};
    scene_make(&s, (int64_t)1 << 30);
    assert_ok(hsp_plan_parse(text, sizeof text - 1, "p", BATCH, s.arena, &plan, &err), &err);
    alone = *plan->shorter[0];
    hsp_pool_view_make(s.g, &s.t, &alone, NULL, &v);
    assert_ok(hsp_plan_adopt(&v.g, &v.t, &s.c, NULL, &alone, s.arena, &p, &err), &err);
    assert_ok(hsp_plan_adopt(s.g, &s.t, &s.c, NULL, plan, s.arena, &p, &err), &err);
    /* half of the blocks' gradients, or more, come from elsewhere, over the links of these nodes */
    double moved = plan->shorter[0]->predicted_step_us - alone.predicted_step_us;
    assert_true(moved > 2 * 12 * 64 * 64 * 4 * s.c.cross.us_per_byte);
    /* and its ranks have all of the state */
    assert_true(plan->shorter[0]->memory_bytes[0] > alone.memory_bytes[0]);
    assert_ok(hsp_compile(s.g, plan, &s.t, s.arena, &f, &err), &err);
    for (uint32_t r = 0; r < N; r++) {
        const struct hsp_binding *b = &f.shorter[r].bind;
        assert_true(plan->shorter[0]->memory_bytes[r] >=
                    b->memory_bytes + 3 * b->state_bytes + b->comm_bytes);
    }
    scene_free(&s);
}

/* The predicted host memory of a pool is that of the plan that offloads most. */
static void what_a_shorter_plan_offloads_is_told(void **state)
{
    static const char text[] =
        "apiVersion: hspmd/v1\nkind: pool\nplans:\n"
        "  - {max_length: 64, plan: {ranks: 4, pipelines: [{sequences: 16, micro_batches: 16, "
        "stages: "
        "[{layers: 2, ranks: [0, 1], saved: offload}, {layers: 2, ranks: [2, 3]}]}]}}\n"
        "  - {max_length: 1024, plan: {ranks: 4, pipelines: [{sequences: 16, micro_batches: 16, "
        "stages: [{layers: 2, ranks: [0, 1]}, {layers: 2, ranks: [2, 3]}]}]}}\n";
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_plan *plan = NULL;
    struct hsp_program_file f;
    struct hsp_err err = {0};
    scene_make(&s, (int64_t)1 << 30);
    assert_ok(hsp_plan_parse(text, sizeof text - 1, "p", BATCH, s.arena, &plan, &err), &err);
    assert_ok(hsp_plan_adopt(s.g, &s.t, &s.c, NULL, plan, s.arena, &p, &err), &err);
    assert_ok(hsp_compile(s.g, plan, &s.t, s.arena, &f, &err), &err);
    for (uint32_t r = 0; r < N; r++) {
        assert_true((f.shorter[r].bind.host_bytes > 0) == (r < 2));
        assert_true(p.cost.rank[r].host_bytes >= f.shorter[r].bind.host_bytes);
    }
    scene_free(&s);
}

/* All windows have the same length, so the planner makes no pool for them. */
static void windows_need_no_pool(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    scene_make(&s, (int64_t)64 << 20);
    s.t.data.samples = HSP_SAMPLES_WINDOWS;
    assert_ok(hsp_plan_make(s.g, &s.t, &s.c, NULL, s.arena, &p, &err), &err);
    assert_int_equal(p.plan->n_shorter, 0);
    assert_int_equal(p.plan->max_length, 0);
    scene_free(&s);
}

HSP_TEST_FILE(lengths_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_steps_get_faster_plans),
        cmocka_unit_test(long_sequences_are_cut),
        cmocka_unit_test(cut_sequences_need_no_copies),
        cmocka_unit_test(homes_of_the_longest_plan_are_paid_for),
        cmocka_unit_test(what_a_shorter_plan_offloads_is_told),
        cmocka_unit_test(windows_need_no_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
