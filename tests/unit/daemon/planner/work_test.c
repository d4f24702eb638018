#include "tests/lib/testlib.h"

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/planner/cost.h"

static struct hsp_graph *graph(const char *family, int64_t layers, bool tied)
{
    struct hsp_err err = {0};
    struct hsp_graph *g = NULL;
    struct hsp_model_spec spec = {.layers = layers,
                                  .hidden = 64,
                                  .heads = strcmp(family, "gpt") == 0 ? 4 : 0,
                                  .vocab = 256,
                                  .sequence = 32,
                                  .tied_head = tied,
                                  .dtype = HSP_F32};
    memcpy(spec.family, family, strlen(family) + 1);
    assert_ok(hsp_graph_build(&spec, &g, &err), &err);
    return g;
}

static void work_of(const struct hsp_graph *g, struct hsp_arena *arena, struct hsp_work *w)
{
    struct hsp_err err = {0};
    assert_ok(hsp_work_make(g, arena, w, &err), &err);
}

/* Of all shapes. */
static struct hsp_amount flops(const struct hsp_layer_work *w)
{
    struct hsp_amount sum = {0};
    for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
        sum.cut += w->flops[c].cut;
        sum.whole += w->flops[c].whole;
    }
    return sum;
}

/* In bf16: activations and messages between stages are half, gradients and state unchanged. */
static void bf16_halves_what_is_computed_with(void **state)
{
    struct hsp_work full, low;
    struct hsp_graph *g = graph("gpt", 3, true);
    struct hsp_model_spec spec = g->spec;
    struct hsp_graph *h = NULL;
    struct hsp_err err = {0};
    spec.compute = HSP_COMPUTE_BF16;
    assert_ok(hsp_graph_build(&spec, &h, &err), &err);
    work_of(g, *state, &full);
    work_of(h, *state, &low);
    assert_int_equal(full.rate, HSP_RATE_FP32);
    assert_int_equal(low.rate, HSP_RATE_BF16);
    assert_true(low.elem == 4 && low.use_elem == 2 && full.use_elem == 4);
    for (uint32_t l = 1; l <= 3; l++) {
        const struct hsp_layer_work *a = &full.layer[l], *b = &low.layer[l];
        assert_near(b->reduce_bytes, a->reduce_bytes / 2, 0);
        assert_near(b->leaving, a->leaving / 2, 0);
        assert_near(flops(b).cut, flops(a).cut, 0);
        assert_near(b->param.cut, a->param.cut, 0);
        assert_near(b->grad_bytes.cut, a->grad_bytes.cut, 0);
        assert_near(b->acc_bytes.cut, a->acc_bytes.cut, 0);
        double kept = a->saved.cut + a->saved.whole, kept_low = b->saved.cut + b->saved.whole;
        assert_true(kept_low > 0.5 * kept && kept_low < 0.52 * kept); /* statistics stay */
        double moved = b->bytes.cut + b->bytes.whole;
        assert_true(moved < 0.56 * (a->bytes.cut + a->bytes.whole));
    }
    hsp_graph_free(g);
    hsp_graph_free(h);
}

/* Megatron's count: two all-reduces forward and two backward in a block, of one activation each. */
static void a_block_needs_four_reductions(void **state)
{
    struct hsp_work w;
    struct hsp_graph *g = graph("gpt", 3, true);
    work_of(g, *state, &w);
    double act = 64.0 * 32 * 4;
    for (uint32_t l = 1; l <= 3; l++) {
        assert_near(w.layer[l].n_reduce, 4, 0);
        assert_near(w.layer[l].reduce_bytes, 4 * act, 0);
        assert_near(w.layer[l].leaving, act, 0);
        assert_near(flops(&w.layer[l]).whole, 0, 0); /* every matrix product is cut */
    }
    assert_int_equal(w.tp_units, 4);
    hsp_graph_free(g);
}

/* Forward and backward of a block: 6 * (12 hidden^2) per token in the linears, and attention. */
static void work_of_a_block_matches_the_formula(void **state)
{
    struct hsp_work w;
    struct hsp_graph *g = graph("gpt", 2, false);
    work_of(g, *state, &w);
    double linears = 6.0 * 12 * 64 * 64 * 32, got = flops(&w.layer[1]).cut;
    assert_true(got > linears && got < 1.5 * linears);
    hsp_graph_free(g);
}

static void parameters_are_counted_once(void **state)
{
    for (int tied = 0; tied <= 1; tied++) {
        struct hsp_work w;
        struct hsp_stage_work all, first, last;
        struct hsp_graph *g = graph("gpt", 2, tied == 1);
        work_of(g, *state, &w);
        double bytes = 0, embed = 256.0 * 64 * 4;
        for (uint32_t p = 0; p < w.n_params; p++) {
            bytes += w.param[p].bytes;
        }
        hsp_range_of_blocks(&w, 0, 2, &all);
        hsp_range_of_blocks(&w, 0, 1, &first);
        hsp_range_of_blocks(&w, 1, 2, &last);
        assert_near(all.param.cut + all.param.whole, bytes, 0);
        double both = first.param.cut + first.param.whole + last.param.cut + last.param.whole;
        assert_near(both, bytes + (tied ? embed : 0), 0); /* a tied table stands on both stages */
        hsp_graph_free(g);
    }
}

static void mlp_has_work_everywhere(void **state)
{
    struct hsp_work w;
    struct hsp_graph *g = graph("mlp", 3, false);
    work_of(g, *state, &w);
    for (uint32_t l = 0; l < w.n_layers; l++) {
        assert_true(w.layer[l].n_instr > 0);
        assert_true(w.layer[l].saved.cut + w.layer[l].saved.whole >= 0);
        assert_true(w.layer[l].scratch.cut >= 0 && w.layer[l].scratch.whole >= 0);
    }
    assert_true(flops(&w.layer[1]).cut + flops(&w.layer[1]).whole > 0);
    hsp_graph_free(g);
}

HSP_TEST_FILE(work_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_halves_what_is_computed_with),
        cmocka_unit_test(a_block_needs_four_reductions),
        cmocka_unit_test(work_of_a_block_matches_the_formula),
        cmocka_unit_test(parameters_are_counted_once),
        cmocka_unit_test(mlp_has_work_everywhere),
    };
    return cmocka_run_group_tests_name("work", tests, hsp_test_arena_begin, hsp_test_arena_end);
}
