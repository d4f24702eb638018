/* Tests the prices of products by their shape: the work of each class by hand, its price, and the
 * plans that follow. */
#include "tests/lib/testlib.h"

#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "daemon/planner/planner.h"

#define HIDDEN 128.0
#define TOKENS 1024.0
#define VOCAB  1024.0
#define HEADS  4.0

struct scene {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_work w;
    struct hsp_train_spec t;
    struct hsp_device_desc dev[2];
    struct hsp_cluster_desc c;
};

static void scene_make(struct scene *s, int64_t layers)
{
    struct hsp_err err = {0};
    const struct hsp_model_spec spec = {.family = "gpt",
                                        .layers = layers,
                                        .hidden = (int64_t)HIDDEN,
                                        .heads = (int64_t)HEADS,
                                        .vocab = (int64_t)VOCAB,
                                        .sequence = (int64_t)TOKENS,
                                        .dtype = HSP_F32};
    *s = (struct scene){.arena = hsp_arena_new((size_t)512 << 20),
                        .t = {.hyper = {.steps = 1, .optimizer = HSP_OPT_ADAMW},
                              .data = {.global_batch = 12, .sequence = (int64_t)TOKENS}}};
    for (uint32_t i = 0; i < 2; i++) {
        s->dev[i] = hsp_device_default(i == 0 ? "a/0" : "b/0", i, 1);
    }
    assert_ok(hsp_graph_build(&spec, &s->g, &err), &err);
    assert_ok(hsp_work_make(s->g, s->arena, &s->w, &err), &err);
    s->c = (struct hsp_cluster_desc){.n = 2,
                                     .dev = s->dev,
                                     .same_node = {.latency_us = 20, .us_per_byte = 1e-4},
                                     .cross = {.latency_us = 40, .us_per_byte = 4e-4}};
}

static void scene_free(struct scene *s)
{
    s->g = hsp_graph_free(s->g);
    s->arena = hsp_arena_free(s->arena);
}

static double whole(const struct hsp_amount *a)
{
    return a->cut + a->whole;
}

/* Of a block: forward, back and gradient of 12 matrices' worth of 128 x 128; the gradients of the
 * four square ones sum 1024 tokens into 128 x 128. The head writes 1024 logits from 128 numbers,
 * and its way back is even. */
static void work_is_counted_by_shape(void **state)
{
    (void)state;
    struct scene s;
    scene_make(&s, 3);
    double matrix = 2 * HIDDEN * HIDDEN * TOKENS, head = 2 * HIDDEN * VOCAB * TOKENS;
    double pairs = HEADS * TOKENS * (TOKENS + 1) / 2, each = HIDDEN / HEADS;
    const struct hsp_amount *block = s.w.layer[2].flops, *last = s.w.layer[s.w.n_layers - 1].flops;
    assert_near(whole(&block[HSP_GEMM_EVEN]), (3 * 12 - 4) * matrix, 0);
    assert_near(whole(&block[HSP_GEMM_LONG]), 4 * matrix, 0);
    assert_near(whole(&block[HSP_GEMM_ATTENTION]), pairs * (4 * each + 12 + 10 * each + 14), 0);
    assert_near(whole(&block[HSP_GEMM_FEW]), 0, 0);
    assert_near(whole(&block[HSP_GEMM_WIDE]), 0, 0);
    assert_near(whole(&last[HSP_GEMM_WIDE]), head, 0);
    assert_near(whole(&last[HSP_GEMM_EVEN]), 2 * head, 0);
    scene_free(&s);
}

static double seq_us(const struct scene *s, const struct hsp_work *w, double part)
{
    struct hsp_price_in in = {.work = w, .cluster = &s->c, .train = &s->t, .copies = 1};
    struct hsp_stage_work r;
    struct hsp_member m;
    hsp_range_make(w, 0, w->n_layers, &r);
    hsp_member_price(&in, &r, &s->dev[0], part, part < 1 ? 2 : 1, 1, 0, 1, &m);
    return m.seq_us;
}

/* At a quarter of the rate they take three times their time more. */
static void each_shape_has_its_rate(void **state)
{
    (void)state;
    struct scene s;
    scene_make(&s, 3);
    struct hsp_work twice = s.w;
    twice.recompute = true;
    double matrix = 2 * HIDDEN * HIDDEN * TOKENS, head = 2 * HIDDEN * VOCAB * TOKENS;
    double gemm = s.dev[0].gemm_flops[HSP_RATE_FP32];
    double before = seq_us(&s, &s.w, 1), half = seq_us(&s, &s.w, 0.5);
    double again = seq_us(&s, &twice, 1);
    s.dev[0].gemm_part[HSP_RATE_FP32][HSP_GEMM_LONG] = 0.25;
    s.dev[0].gemm_part[HSP_RATE_BF16][HSP_GEMM_EVEN] = 0.25; /* of no concern */
    double more = 1e6 * 3 * 4 * matrix * 3 / gemm;
    assert_near(seq_us(&s, &s.w, 1) - before, more, 1e-6);
    assert_near(seq_us(&s, &s.w, 0.5) - half, more / 2, 1e-6);
    assert_near(seq_us(&s, &twice, 1) - again, more * 4 / 3, 1e-6);
    s.dev[0].gemm_part[HSP_RATE_FP32][HSP_GEMM_WIDE] = 0.5;
    assert_near(seq_us(&s, &s.w, 1) - before, more + 1e6 * head / gemm, 1e-6);
    scene_free(&s);
}

static void shares(struct scene *s, uint32_t ret[2])
{
    struct hsp_err err = {0};
    struct hsp_planned p;
    assert_ok(hsp_plan_make(s->g, &s->t, &s->c, NULL, s->arena, &p, &err), &err);
    assert_int_equal(p.plan->n_pipelines, 2);
    for (uint32_t i = 0; i < 2; i++) {
        ret[p.device[p.plan->pipelines[i].stages[0].ranks[0]]] = p.plan->pipelines[i].sequences;
    }
}

/* A device that is slow in one shape gets as much less as there is work of it. */
static void slow_shapes_get_smaller_shares(void **state)
{
    (void)state;
    struct scene s;
    uint32_t n[2];
    scene_make(&s, 1); /* one block: no pipelines */
    shares(&s, n);
    assert_true(n[0] == 6 && n[1] == 6);
    s.dev[1].gemm_part[HSP_RATE_FP32][HSP_GEMM_FEW] = HSP_GEMM_PART_LEAST; /* there is none */
    shares(&s, n);
    assert_true(n[0] == 6 && n[1] == 6);
    s.dev[1].gemm_part[HSP_RATE_FP32][HSP_GEMM_WIDE] = 0.1;
    shares(&s, n);
    assert_true(n[0] > n[1] && n[0] + n[1] == 12);
    uint32_t less = n[1];
    s.dev[1].gemm_part[HSP_RATE_FP32][HSP_GEMM_ATTENTION] = 0.1;
    shares(&s, n);
    assert_true(n[1] < less);
    scene_free(&s);
}

HSP_TEST_FILE(gemm_price_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_counted_by_shape),
        cmocka_unit_test(each_shape_has_its_rate),
        cmocka_unit_test(slow_shapes_get_smaller_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
