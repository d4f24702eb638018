#include "tests/lib/testlib.h"

#include "daemon/graph/autodiff.h"
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
        assert_near(w.layer[l].flops.whole, 0, 0); /* every matrix product is cut */
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
    double linears = 6.0 * 12 * 64 * 64 * 32, got = w.layer[1].flops.cut + w.layer[1].flops.whole;
    assert_true(got > linears && got < 1.5 * linears);
    hsp_graph_free(g);
}

static void parameters_are_counted_once(void **state)
{
    for (int tied = 0; tied <= 1; tied++) {
        struct hsp_work w;
        struct hsp_range all, first, last;
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
    assert_true(w.layer[1].flops.cut + w.layer[1].flops.whole > 0);
    hsp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_needs_four_reductions),
        cmocka_unit_test(work_of_a_block_matches_the_formula),
        cmocka_unit_test(parameters_are_counted_once),
        cmocka_unit_test(mlp_has_work_everywhere),
    };
    return cmocka_run_group_tests_name("work", tests, hsp_test_arena_begin, hsp_test_arena_end);
}
