/* Tests the parts of a member's price that only devices of their own have: the fixed part of
 * products, and the link to the host's memory that offloaded activations cross. */
#include "tests/lib/testlib.h"

#include "daemon/graph/graph_build.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/cost.h"

struct scene {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_work w;
    struct hsp_train_spec t;
    struct hsp_device_desc dev;
    struct hsp_cluster_desc c;
};

static void scene_make(struct scene *x)
{
    struct hsp_err err = {0};
    struct hsp_model_spec spec = {.family = "gpt",
                                  .layers = 3,
                                  .hidden = 64,
                                  .heads = 4,
                                  .vocab = 16,
                                  .sequence = 32,
                                  .dtype = HSP_F32};
    *x = (struct scene){.arena = hsp_arena_new((size_t)256 << 20),
                        .t = {.hyper = {.steps = 1, .optimizer = HSP_OPT_ADAMW},
                              .data = {.global_batch = 4, .sequence = 32}},
                        .dev = hsp_device_default("a/0", 0, 1)};
    assert_ok(hsp_graph_build(&spec, &x->g, &err), &err);
    assert_ok(hsp_work_make(x->g, x->arena, &x->w, &err), &err);
    x->c = (struct hsp_cluster_desc){.n = 1, .dev = &x->dev};
}

static void scene_free(struct scene *x)
{
    x->g = hsp_graph_free(x->g);
    x->arena = hsp_arena_free(x->arena);
}

static struct hsp_member price(const struct scene *x, const struct hsp_work *w, double part)
{
    struct hsp_price_in in = {.work = w, .cluster = &x->c, .train = &x->t, .copies = 1};
    struct hsp_stage_work r;
    struct hsp_member m;
    hsp_range_make(w, 0, w->n_layers, &r);
    hsp_member_price(&in, &r, &x->dev, part, part < 1 ? 2 : 1, 1, 0, 1, &m);
    return m;
}

/* Each product of a micro-batch costs it once, at any size; with recomputation forward
 * twice. */
static void products_have_a_fixed_part(void **state)
{
    (void)state;
    struct scene x;
    scene_make(&x);
    uint32_t n = 0;
    for (uint32_t i = 0; i < x.g->n_nodes; i++) {
        n += hsp_op_is_product((enum hsp_op)x.g->nodes[i].op);
    }
    /* q, k, v, attention, its output and two of the MLP in each block; the head: forward, dx and
     * dw, but one instruction for attention backward; of the first unit nothing */
    assert_int_equal(n, 3 * (6 * 3 + 2) + 3);
    struct hsp_member before = price(&x, &x.w, 1), half = price(&x, &x.w, 0.5);
    x.dev.gemm_us = 7;
    struct hsp_member after = price(&x, &x.w, 1);
    assert_near(after.micro_us - before.micro_us, 7.0 * n, 1e-6);
    assert_near(after.seq_us, before.seq_us, 0);
    assert_near(price(&x, &x.w, 0.5).micro_us - half.micro_us, 7.0 * n, 1e-6);
    struct hsp_work twice = x.w;
    twice.recompute = true;
    x.dev.gemm_us = 0;
    before = price(&x, &twice, 1);
    x.dev.gemm_us = 7;
    assert_near(price(&x, &twice, 1).micro_us - before.micro_us, 7.0 * n * 4 / 3, 1e-6);
    scene_free(&x);
}

/* Without a link of its own the copies are memory traffic, with one they cross it, out and in. */
static void offload_crosses_the_link(void **state)
{
    (void)state;
    struct scene x;
    scene_make(&x);
    struct hsp_work away = x.w;
    away.offload = true;
    for (int k = 0; k < 2; k++) {
        double part = k == 0 ? 1 : 0.5;
        x.dev.host_bytes_per_s = 0;
        struct hsp_member kept = price(&x, &x.w, part), same = price(&x, &away, part);
        assert_true(same.host_bytes > 0);
        assert_near(same.seq_us - kept.seq_us, 1e6 * 4 * same.host_bytes / x.dev.mem_bytes_per_s,
                    1e-6);
        x.dev.host_bytes_per_s = 1e8;
        assert_near(price(&x, &away, part).seq_us - kept.seq_us, 1e6 * 2 * same.host_bytes / 1e8,
                    1e-6);
        assert_near(price(&x, &x.w, part).seq_us, kept.seq_us, 0);
    }
    scene_free(&x);
}

HSP_TEST_FILE(device_price_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_have_a_fixed_part),
        cmocka_unit_test(offload_crosses_the_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
