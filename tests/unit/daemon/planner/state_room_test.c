/* Tests state folders as a bound of plans: all possible plans are tried and priced, on small
 * clusters. */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/durability.h"
#include "daemon/planner/annotations.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "daemon/planner/price.h"
#include "proto/base/size.h"

enum { DEVICES = 3, BLOCKS = 3 };

struct scene {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_work w;
    struct hsp_train_spec t;
    struct hsp_device_desc dev[4];
    struct hsp_cluster_desc c;
    double whole; /* both sealed versions of the whole state */
};

static void scene_make(struct scene *s, uint32_t n, uint32_t per_node, uint32_t batch)
{
    struct hsp_err err = {0};
    const struct hsp_model_spec spec = {.family = "gpt",
                                        .layers = BLOCKS,
                                        .hidden = 128,
                                        .heads = 4,
                                        .vocab = 256,
                                        .sequence = 64,
                                        .tied_head = true};
    *s = (struct scene){.arena = hsp_arena_new(512 << 20)};
    assert_ok(hsp_graph_build(&spec, &s->g, &err), &err);
    assert_ok(hsp_work_make(s->g, s->arena, &s->w, &err), &err);
    s->t = (struct hsp_train_spec){.hyper = {.steps = 10, .optimizer = HSP_OPT_ADAMW},
                                   .data = {.global_batch = batch, .sequence = 64}};
    for (uint32_t i = 0; i < n; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "w%u/%u", i / per_node + 1, i % per_node);
        s->dev[i] = hsp_device_default(name, i / per_node, 1);
    }
    s->c = (struct hsp_cluster_desc){.n = n,
                                     .dev = s->dev,
                                     .same_node = {.latency_us = 20, .us_per_byte = 1e-4},
                                     .cross = {.latency_us = 40, .us_per_byte = 4e-4}};
    for (uint32_t i = 0; i < s->g->n_params; i++) {
        int64_t ext[HSP_MAX_RANK];
        const struct hsp_tensor *t = &s->g->tensors[s->g->params[i].tensor];
        hsp_tensor_extents(s->g, s->g->params[i].tensor, 1, ext);
        double n_elements = 1;
        for (uint32_t k = 0; k < t->rank; k++) {
            n_elements *= (double)ext[k];
        }
        s->whole += 24 * n_elements;
    }
}

static void scene_free(struct scene *s)
{
    s->g = hsp_graph_free(s->g);
    s->arena = hsp_arena_free(s->arena);
}

/* ---- everything that can be done with single devices in one pipeline, or with one pipeline each
 *  ---- */

struct brute {
    struct scene *s;
    double best;
    uint32_t device[DEVICES], n;
};

static void price(struct brute *b, struct hsp_pipeline *pipelines, uint32_t n_pipelines)
{
    struct hsp_plan p = {.n_ranks = b->n, .n_pipelines = n_pipelines, .pipelines = pipelines};
    struct hsp_arena_position mark = hsp_arena_mark(b->s->arena);
    struct hsp_price_in in = {
        .work = &b->s->w, .cluster = &b->s->c, .train = &b->s->t, .copies = 1};
    struct hsp_cost c;
    struct hsp_err err = {0};
    double room[DEVICES];
    assert_ok(hsp_price(&in, &p, b->device, b->s->arena, &c, &err), &err);
    bool fits = true;
    for (uint32_t i = 0; i < DEVICES; i++) { /* each device is a node */
        room[i] = (double)b->s->dev[i].folder_bytes;
    }
    for (uint32_t r = 0; r < b->n; r++) {
        fits = fits && (double)c.rank[r].folder_bytes <= room[b->device[r]];
    }
    b->best = fits ? fmin(b->best, c.step_us) : b->best;
    hsp_arena_rewind(b->s->arena, mark);
}

/* All ways to cut the blocks into the stages of one pipeline. */
static void cut_blocks(struct brute *b, struct hsp_stage *stage, uint32_t at, uint32_t left)
{
    if (at + 1 < b->n) {
        for (uint32_t k = 1; k + (b->n - at - 1) <= left; k++) {
            stage[at].layers = k;
            cut_blocks(b, stage, at + 1, left - k);
        }
        return;
    }
    stage[at].layers = left;
    for (uint32_t size = 1; size <= HSP_MICRO_CAP; size *= 2) {
        uint32_t batch = b->s->t.data.global_batch;
        struct hsp_pipeline one = {.sequences = batch,
                                   .micro_batches = (batch + size - 1) / size,
                                   .n_stages = b->n,
                                   .stages = stage};
        price(b, &one, 1);
    }
}

/* All ways to share the batch among pipelines of one device each. */
static void share_batch(struct brute *b, struct hsp_stage *stage, struct hsp_pipeline *pipeline,
                        uint32_t at, uint32_t left)
{
    if (at == b->n) {
        if (left == 0) {
            price(b, pipeline, b->n);
        }
        return;
    }
    for (uint32_t k = 1; k <= left; k++) {
        stage[at].layers = BLOCKS;
        pipeline[at] =
            (struct hsp_pipeline){.sequences = k,
                                  .micro_batches = (k + HSP_MICRO_CAP - 1) / HSP_MICRO_CAP,
                                  .n_stages = 1,
                                  .stages = &stage[at]};
        share_batch(b, stage, pipeline, at + 1, left - k);
    }
}

/* All orders of all subsets of the devices. */
static void choose(struct brute *b, uint32_t used)
{
    static int64_t one = 1;
    uint32_t ranks[DEVICES] = {0, 1, 2};
    struct hsp_stage stage[DEVICES];
    struct hsp_pipeline pipeline[DEVICES];
    for (uint32_t i = 0; i < DEVICES; i++) {
        stage[i] = (struct hsp_stage){.n = 1, .ranks = &ranks[i], .shares = &one};
    }
    if (b->n > 0) {
        cut_blocks(b, stage, 0, BLOCKS);
        share_batch(b, stage, pipeline, 0, b->s->t.data.global_batch);
    }
    for (uint32_t d = 0; d < DEVICES; d++) {
        if ((used >> d & 1) == 0) {
            b->device[b->n++] = d;
            choose(b, used | 1u << d);
            b->n--;
        }
    }
}

static void plans_in_state_folders_match_brute_force(void **state)
{
    uint32_t some = 0, none = 0;
    (void)state;
    for (uint64_t round = 0; round < 24; round++) {
        struct scene s;
        struct hsp_planned p;
        struct hsp_err err = {0};
        scene_make(&s, DEVICES, 1, (uint32_t)hsp_test_range("batch", round, 3, 9));
        for (uint64_t i = 0; i < DEVICES; i++) {
            double part = (double)hsp_test_range("room", round * 4 + i, 10, 120) / 100;
            double speed = (double)hsp_test_range("speed", round * 4 + i, 20, 100) / 100;
            char name[8];
            (void)snprintf(name, sizeof(name), "w%u/0", (uint32_t)i + 1);
            s.dev[i] = hsp_device_default(name, (uint32_t)i, speed);
            s.dev[i].folder_bytes = (int64_t)(part * s.whole);
        }
        struct brute b = {.s = &s, .best = (double)INFINITY};
        choose(&b, 0);
        const struct hsp_plan_options o = {.no_zero = true, .copies = 1};
        enum hsp_status st = hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err);
        if (isinf(b.best)) {
            assert_int_equal(st, HSP_EINFEASIBLE);
            assert_non_null(strstr(err.msg, "in the state folder of w"));
            none++;
        } else {
            assert_ok(st, &err);
            some++;
            /* simple structures may cost 5 % more than others (candidates.c) */
            assert_true(p.cost.step_us <= b.best * 1.0501);
            for (uint32_t r = 0; r < p.plan->n_ranks; r++) {
                assert_true(p.cost.rank[r].folder_bytes <= s.dev[p.device[r]].folder_bytes);
            }
        }
        scene_free(&s);
    }
    assert_true(some > 0 && none > 0);
}

/* ---- a folder is its node's ---- */

/* Two devices on a node whose folder has room for the state once: one of them holds it all, or each
 * a part. */
static void devices_of_a_node_share_its_folder(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    const struct hsp_plan_options o = {.no_zero = true, .copies = 1};
    scene_make(&s, 2, 2, 32);
    assert_ok(hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err), &err);
    assert_int_equal(p.plan->n_pipelines, 2); /* with two copies of it */
    assert_near((double)p.cost.rank[0].node_folder_bytes, 2 * s.whole, 2);
    s.dev[0].folder_bytes = s.dev[1].folder_bytes = (int64_t)(1.3 * s.whole);
    assert_ok(hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err), &err);
    assert_int_equal(p.plan->n_ranks, 2); /* a pipeline */
    assert_int_equal(p.plan->n_pipelines, 1);
    assert_true(p.cost.rank[0].node_folder_bytes <= s.dev[0].folder_bytes);
    s.dev[0].folder_bytes = s.dev[1].folder_bytes = (int64_t)(0.9 * s.whole);
    assert_status(hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err), HSP_EINFEASIBLE);
    assert_non_null(strstr(err.msg, "in the state folder of w1, which has "));
    scene_free(&s);
}

/* The fastest pipeline would have all blocks on the two devices of the first node. Its folder has
 * room for two of the three. */
static void a_node_gets_as_many_blocks_as_its_folder_holds(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    const struct hsp_plan_options o = {.no_zero = true, .copies = 1};
    scene_make(&s, 3, 2, 16);
    s.dev[2] = hsp_device_default("w2/0", 1, 0.1);
    s.dev[0].folder_bytes = s.dev[1].folder_bytes = (int64_t)(0.8 * s.whole);
    assert_ok(hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err), &err);
    assert_int_equal(p.plan->n_ranks, 3);
    assert_int_equal(p.plan->pipelines[0].n_stages, 3);
    scene_free(&s);
}

/* Copies for others lie there, too; a plan that was written is refused by name of the node. */
static void a_written_plan_is_refused_by_its_folder(void **state)
{
    static const char text[] =
        "{apiVersion: hspmd/v1, kind: plan, ranks: 2, pipelines: [{sequences: 8, micro_batches: 8, "
        "stages: [{layers: 2, ranks: [0]}, {layers: 1, ranks: [1]}]}]}";
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    struct hsp_plan *plan = NULL;
    uint32_t at = 0;
    const struct hsp_plan_text one = {"plan", text, strlen(text)};
    const struct hsp_plan_options o = {.copies = 2};
    scene_make(&s, 2, 1, 8);
    assert_ok(hsp_annotations_pick(1, &one, s.g, 8, 2, s.arena, &plan, &at, &err), &err);
    assert_ok(hsp_plan_adopt(s.g, &s.t, &s.c, &o, plan, s.arena, &p, &err), &err);
    double both = (double)(p.cost.rank[0].folder_bytes + p.cost.rank[1].folder_bytes);
    assert_true(both >= 2 * s.whole && both < 2.2 * s.whole); /* both have the tied embedding */
    s.dev[1].folder_bytes = p.cost.rank[1].folder_bytes;
    assert_ok(hsp_plan_adopt(s.g, &s.t, &s.c, &o, plan, s.arena, &p, &err), &err);
    s.dev[1].folder_bytes--;
    assert_status(hsp_plan_adopt(s.g, &s.t, &s.c, &o, plan, s.arena, &p, &err), HSP_EINFEASIBLE);
    assert_non_null(strstr(err.msg, "in the state folder of w2, which has "));
    scene_free(&s);
}

/* A fast device that cannot have the state is in no other's way. */
static void the_others_go_on_without_a_full_node(void **state)
{
    (void)state;
    struct scene s;
    struct hsp_planned p;
    struct hsp_err err = {0};
    const struct hsp_plan_options o = {.no_zero = true, .copies = 1};
    scene_make(&s, 3, 1, 12);
    s.dev[1] = hsp_device_default("w2/0", 1, 2);
    s.dev[1].folder_bytes = 1;
    assert_ok(hsp_plan_make(s.g, &s.t, &s.c, &o, s.arena, &p, &err), &err);
    assert_int_equal(p.plan->n_pipelines, 2);
    assert_true(p.device[0] != 1 && p.device[1] != 1);
    scene_free(&s);
}

/* What a loss costs, of replicas, of copies, and where replica holders are to have a third copy. */
static void replicas_cost_less(void **state)
{
    (void)state;
    struct hsp_job_spec job = {.copies = 2, .every = 4, .max_recompute_s = 30};
    char text[HSP_DURABILITY_BYTES];
    hsp_durability_text(&(struct hsp_cost){.nodes = 2}, &job, text);
    assert_non_null(strstr(
        text, "as replicas; the loss of one of them costs the step under way, and up to 7 steps "
              "while a version is sealed or a vote has not reached all ranks, of more"));
    hsp_durability_text(&(struct hsp_cost){.nodes = 2, .copied = true}, &job, text);
    assert_non_null(strstr(text, "costs up to 7 steps and the one under way, of more"));
    job.copies = 3;
    hsp_durability_text(&(struct hsp_cost){.nodes = 2}, &job, text);
    assert_non_null(strstr(text, "on 2 nodes, as replicas; 1 more by replica holders"));
    assert_non_null(strstr(text, "costs the step under way, and up to 7 steps while"));
    job.copies = 2;
    job.every = 1;
    hsp_durability_text(&(struct hsp_cost){.nodes = 2}, &job, text);
    assert_non_null(strstr(text, "costs the step under way, of more"));
    job.every = 0;
    hsp_durability_text(&(struct hsp_cost){.nodes = 2}, &job, text);
    assert_non_null(strstr(
        text, "costs the step under way, and the steps of up to 60 s while a version is sealed"));
}

HSP_TEST_FILE(state_room_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_cost_less),
        cmocka_unit_test(plans_in_state_folders_match_brute_force),
        cmocka_unit_test(devices_of_a_node_share_its_folder),
        cmocka_unit_test(a_node_gets_as_many_blocks_as_its_folder_holds),
        cmocka_unit_test(a_written_plan_is_refused_by_its_folder),
        cmocka_unit_test(the_others_go_on_without_a_full_node),
    };
    return cmocka_run_group_tests_name("state room", tests, NULL, NULL);
}
