/* Tests how tf32 and bf16 change the predicted cost of a plan. */
#include "tests/lib/testlib.h"

#include <math.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/annotations.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "daemon/planner/planner.h"

static struct hsp_graph *model(enum hsp_compute compute)
{
    struct hsp_err err = {0};
    struct hsp_graph *g = NULL;
    const struct hsp_model_spec spec = {.family = "gpt",
                                        .layers = 4,
                                        .hidden = 128,
                                        .heads = 4,
                                        .vocab = 256,
                                        .sequence = 64,
                                        .tied_head = true,
                                        .compute = compute};
    assert_ok(hsp_graph_build(&spec, &g, &err), &err);
    return g;
}

static const struct hsp_train_spec TRAIN = {
    .hyper = {.steps = 1, .lr = 1e-3, .optimizer = HSP_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.99},
    .data = {.seed = 1, .global_batch = 16, .sequence = 64, .vocab = 256},
    .eps = 1e-8};

/* Returns the cost of a plan on devices of @gemm FLOP/s in fp32, twice as many in tf32 and four
 * times as many in bf16. */
static struct hsp_cost price_at(const char *yaml, enum hsp_compute compute, double gemm,
                                double mem_bytes_per_s, double bf16_part, struct hsp_arena *arena)
{
    struct hsp_err err = {0};
    struct hsp_graph *g = model(compute);
    struct hsp_device_desc dev[2];
    struct hsp_cluster_desc c = {.n = 2, .dev = dev, .same_node = {.us_per_byte = 1e-3}};
    struct hsp_plan_text text = {"plan", yaml, strlen(yaml)};
    struct hsp_plan *plan = NULL;
    struct hsp_planned p;
    uint32_t at = 0;
    for (int i = 0; i < 2; i++) {
        const double rates[HSP_N_RATES] = {gemm, gemm / 2, 2 * gemm, 4 * gemm};
        dev[i] = hsp_device_default("a/0", 0, 1);
        memcpy(dev[i].gemm_flops, rates, sizeof rates);
        dev[i].bf16_part = bf16_part;
        dev[i].mem_bytes_per_s = mem_bytes_per_s;
        dev[i].op_us = 0;
    }
    assert_ok(hsp_annotations_pick(1, &text, g, 16, 2, arena, &plan, &at, &err), &err);
    assert_ok(hsp_plan_adopt(g, &TRAIN, &c, NULL, plan, arena, &p, &err), &err);
    hsp_graph_free(g);
    return p.cost;
}

static struct hsp_cost price(const char *yaml, enum hsp_compute compute, double mem_bytes_per_s,
                             struct hsp_arena *arena)
{
    return price_at(yaml, compute, 10e9, mem_bytes_per_s, 0, arena);
}

#define HEAD "{apiVersion: hspmd/v1, kind: plan, bucket: 0, "
static const char ONE[] = HEAD "ranks: 1, pipelines: [{sequences: 16, micro_batches: 2, stages: "
                               "[{layers: 4, ranks: [0]}]}]}";
#define TWO(zero)                                                            \
    HEAD "ranks: 2, zero: " zero                                             \
         ", pipelines: [{sequences: 8, micro_batches: 2, stages: [{layers: " \
         "4, ranks: [0]}]}, {sequences: 8, micro_batches: 2, stages: [{layers: 4, ranks: [1]}]}]}"

/* If memory accesses take no time, the step time is that of the matrix products. */
static void products_at_the_rate_of_their_type(void **state)
{
    double us[3];
    for (int k = 0; k < 3; k++) {
        us[k] = price(ONE, (enum hsp_compute)k, 1e18, *state).rank[0].compute_us;
    }
    assert_near(us[HSP_COMPUTE_TF32], us[HSP_COMPUTE_FULL] / 2, 1e-6 * us[0]);
    assert_near(us[HSP_COMPUTE_BF16], us[HSP_COMPUTE_FULL] / 4, 1e-6 * us[0]);
}

/* If products take no time, the step time is that of the bytes moved, which are half as many in
 * bf16. A device that reaches a fifth of its memory rate with bf16 takes five times as long for
 * element-wise ops on bf16. */
static void elements_at_the_rate_of_their_type(void **state)
{
    double gemm = 1e18, full, low, slow;
    full = price_at(ONE, HSP_COMPUTE_FULL, gemm, 1e6, 0, *state).rank[0].compute_us;
    low = price_at(ONE, HSP_COMPUTE_BF16, gemm, 1e6, 0, *state).rank[0].compute_us;
    assert_true(low < full && low > full / 2);
    assert_near(price_at(ONE, HSP_COMPUTE_BF16, gemm, 1e6, 1, *state).rank[0].compute_us, low, 0);
    assert_near(price_at(ONE, HSP_COMPUTE_FULL, gemm, 1e6, 0.2, *state).rank[0].compute_us, full,
                0);
    slow = price_at(ONE, HSP_COMPUTE_BF16, gemm, 1e6, 0.2, *state).rank[0].compute_us;
    /* the part that is half in bf16, with its results in fp32 (lse, gradients of embeddings) */
    double part = (slow - low) / 4;
    assert_true(part > full - low && part < 1.05 * (full - low));
}

/* The update takes the time of fp32 and that of casting the parameters: four bytes read and two
 * written for each. */
static void parameters_are_cast_once(void **state)
{
    struct hsp_cost full = price(ONE, HSP_COMPUTE_FULL, 1e6, *state);
    struct hsp_cost low = price(ONE, HSP_COMPUTE_BF16, 1e6, *state); /* a byte in a microsecond */
    double more = low.rank[0].update_us - full.rank[0].update_us;
    assert_near(more, 1.5 * full.rank[0].home_bytes, 1e-6 * more);
}

/* Gradients travel in fp32, parameters in bf16: out and back (zero 0), parameters once (zero 1), or
 * twice for each micro-batch (zero 3). */
static void parameters_travel_in_half_the_bytes(void **state)
{
    static const struct {
        const char *plan;
        double part;
    } x[] = {{TWO("0"), 1}, {TWO("1"), 3.0 / 4}, {TWO("3"), 2.0 / 3}};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        double full = price(x[i].plan, HSP_COMPUTE_FULL, 1e9, *state).sync_us;
        double low = price(x[i].plan, HSP_COMPUTE_BF16, 1e9, *state).sync_us;
        assert_true(full > 0);
        assert_near(low, x[i].part * full, 1e-9 * full);
    }
}

/* 16 sequences of 64 tokens of 128 numbers, each four times: packed to leave, packed as it came,
 * and twice with the transport. */
static void messages_have_room_in_bytes_of_their_type(void **state)
{
    static const char stages[] =
        HEAD "ranks: 2, pipelines: [{sequences: 16, micro_batches: 1, stages: [{layers: 2, ranks: "
             "[0]}, {layers: 2, ranks: [1]}]}]}";
    struct hsp_cost full = price(stages, HSP_COMPUTE_FULL, 1e9, *state);
    struct hsp_cost low = price(stages, HSP_COMPUTE_BF16, 1e9, *state);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(full.rank[r].comm_bytes, (4 << 20) + 4 * 16 * 64 * 128 * 4);
        assert_int_equal(low.rank[r].comm_bytes, (4 << 20) + 4 * 16 * 64 * 128 * 2);
    }
}

/* The largest gradient has 128 x 512 elements, and is in fp32 whichever type the job computes
 * in. */
static void gradients_have_room_in_fp32(void **state)
{
    struct hsp_cost full = price(TWO("0"), HSP_COMPUTE_FULL, 1e9, *state);
    struct hsp_cost low = price(TWO("0"), HSP_COMPUTE_BF16, 1e9, *state);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(full.rank[r].comm_bytes, (4 << 20) + 2 * 128 * 512 * 4);
        assert_int_equal(low.rank[r].comm_bytes, full.rank[r].comm_bytes);
    }
}

HSP_TEST_FILE(bf16_price_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_at_the_rate_of_their_type),
        cmocka_unit_test(elements_at_the_rate_of_their_type),
        cmocka_unit_test(parameters_are_cast_once),
        cmocka_unit_test(parameters_travel_in_half_the_bytes),
        cmocka_unit_test(messages_have_room_in_bytes_of_their_type),
        cmocka_unit_test(gradients_have_room_in_fp32),
    };
    return cmocka_run_group_tests_name("bf16price", tests, hsp_test_arena_begin,
                                       hsp_test_arena_end);
}
