/* Times of a pipeline's passes against the price of its ranks, and schedules against each other. */
#include "tests/lib/testlib.h"

#include <math.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/price.h"
#include "daemon/planner/timing.h"

enum { STAGES = 4, LAYERS = 16, BATCH = 16 };

struct scene {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_work w;
    struct hsp_train_spec t;
    struct hsp_device_desc dev[STAGES];
    struct hsp_cluster_desc c;
    uint32_t rank[STAGES], device[STAGES], chunk[STAGES][2];
    int64_t share;
    struct hsp_stage stage[STAGES];
    struct hsp_pipeline s;
    struct hsp_plan p;
};

static void scene_make(struct scene *x)
{
    struct hsp_err err = {0};
    struct hsp_model_spec spec = {.family = "gpt",
                                  .layers = LAYERS,
                                  .hidden = 64,
                                  .heads = 4,
                                  .vocab = 16,
                                  .sequence = 32,
                                  .dtype = HSP_F32};
    *x = (struct scene){.arena = hsp_arena_new((size_t)512 << 20),
                        .t = {.hyper = {.steps = 1, .optimizer = HSP_OPT_ADAMW},
                              .data = {.global_batch = BATCH, .sequence = 32}},
                        .share = 1};
    assert_ok(hsp_graph_build(&spec, &x->g, &err), &err);
    assert_ok(hsp_work_make(x->g, x->arena, &x->w, &err), &err);
    for (uint32_t i = 0; i < STAGES; i++) {
        x->rank[i] = x->device[i] = i;
        x->chunk[i][0] = x->chunk[i][1] = LAYERS / STAGES / 2;
        x->dev[i] = hsp_device_default("a/0", 0, 1);
        x->dev[i].op_us = 0; /* the fixed cost of a micro-batch is left out */
        x->stage[i] = (struct hsp_stage){
            .layers = LAYERS / STAGES, .n = 1, .ranks = &x->rank[i], .shares = &x->share};
    }
    x->c = (struct hsp_cluster_desc){.n = STAGES, .dev = x->dev};
    x->s = (struct hsp_pipeline){
        .sequences = BATCH, .micro_batches = 8, .n_stages = STAGES, .stages = x->stage};
    x->p = (struct hsp_plan){.n_ranks = STAGES, .n_pipelines = 1, .pipelines = &x->s};
}

static void scene_free(struct scene *x)
{
    x->g = hsp_graph_free(x->g);
    x->arena = hsp_arena_free(x->arena);
}

static struct hsp_timeline play(struct scene *x, uint8_t schedule, struct hsp_cost *cost)
{
    struct hsp_err err = {0};
    struct hsp_timeline t;
    struct hsp_price_in in = {.work = &x->w, .cluster = &x->c, .train = &x->t, .copies = 1};
    x->s.schedule = schedule;
    x->s.chunks = schedule == HSP_SCHED_INTERLEAVED ? 2 : 1;
    for (uint32_t i = 0; i < STAGES; i++) {
        x->stage[i].chunk_layers = schedule == HSP_SCHED_INTERLEAVED ? x->chunk[i] : NULL;
    }
    assert_ok(hsp_price(&in, &x->p, x->device, x->arena, cost, &err), &err);
    assert_ok(hsp_pipeline_timeline(&in, &x->p, 0, x->device, x->arena, &t, &err), &err);
    return t;
}

/* The work of a stage in its passes is the work that its rank is priced for. */
static void passes_add_up_to_the_price(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        for (uint8_t k = 0; k < HSP_N_SCHEDULES; k++) {
            struct scene x;
            struct hsp_cost cost;
            scene_make(&x);
            x.stage[1].saved = again == 1 ? HSP_SAVED_RECOMPUTE : HSP_SAVED_KEEP;
            struct hsp_timeline t = play(&x, k, &cost);
            for (uint32_t i = 0; i < STAGES; i++) {
                double busy = 0;
                for (uint32_t j = 0; j < t.n_passes; j++) {
                    const struct hsp_interval *at = &t.at[(size_t)i * t.n_passes + j];
                    assert_true(at->to_us >= at->from_us);
                    busy += at->to_us - at->from_us;
                }
                assert_near(busy / cost.rank[i].compute_us, 1, 1e-9);
            }
            scene_free(&x);
        }
    }
}

/* Nearly equal stages without links: a third of 1F1B's idle time remains with zero-bubble, half of
 * it with two chunks, and prices follow. Interleaved stages keep more, and the last one with
 * zero-bubble. */
static void schedules_are_priced(void **state)
{
    (void)state;
    double idle[HSP_N_SCHEDULES], first[HSP_N_SCHEDULES], last[HSP_N_SCHEDULES];
    struct scene x;
    scene_make(&x);
    for (uint8_t k = 0; k < HSP_N_SCHEDULES; k++) {
        struct hsp_cost cost;
        struct hsp_timeline t = play(&x, k, &cost);
        idle[k] = t.end_us - cost.rank[1].compute_us;
        first[k] = (double)cost.rank[0].act_bytes;
        last[k] = (double)cost.rank[STAGES - 1].act_bytes;
        assert_near(cost.pipeline_us - cost.rank[0].update_us, t.end_us, 0.02 * t.end_us);
    }
    double plain = idle[HSP_SCHED_1F1B];
    assert_near(idle[HSP_SCHED_GPIPE] / plain, 1, 0.1);
    assert_near(idle[HSP_SCHED_ZERO_BUBBLE] / plain, 1.0 / 3, 0.1);
    assert_near(idle[HSP_SCHED_INTERLEAVED] / plain, 1.0 / 2, 0.1);
    assert_true(first[HSP_SCHED_GPIPE] > 1.5 * first[HSP_SCHED_1F1B]);
    assert_true(first[HSP_SCHED_INTERLEAVED] > 1.2 * first[HSP_SCHED_1F1B]);
    assert_near(first[HSP_SCHED_ZERO_BUBBLE] / first[HSP_SCHED_1F1B], 1, 1e-6);
    assert_true(last[HSP_SCHED_ZERO_BUBBLE] > 3 * last[HSP_SCHED_1F1B]);
    scene_free(&x);
}

HSP_TEST_FILE(timing_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_add_up_to_the_price),
        cmocka_unit_test(schedules_are_priced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
