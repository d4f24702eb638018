/* Tests models and clusters of published systems: which plans fit the memory of their GPUs, and how
 * long a step is. Rates and memory are those of data sheets, less the usual loss of such GPUs; a
 * plan of two versions of the state on each GPU would find no room (see hsp_state_versions). */
#include "tests/lib/testlib.h"

#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "proto/base/size.h"

#define GPU(count, memory, bf16, gb)                                                            \
    "{count: " count ", memory: " memory "GiB, gemm_gflops: 20000, gemm_gflops_bf16: " bf16     \
    ", memory_gb_per_s: " gb ", op_us: 4, gemm_us: 4, host_gb_per_s: 30, communicator_memory: " \
    "160MiB}"
#define NODE(name, nvlink, gpus)                                                                \
    "  - {name: " name ", fast_domain: 8, fast_link: {gbit_per_s: " nvlink "}, devices: [" gpus \
    "], network_cards: 8}\n"
#define H20(name)  NODE(name, "3600", GPU("8", "95", "126000", "3400"))
#define H800(name) NODE(name, "1600", GPU("8", "78", "650000", "2800"))

static const char HEAD[] =
    "apiVersion: hspmd/v1\nkind: cluster\n"
    "links: {same_node: {gbit_per_s: 200}, cross_node: {latency_us: 20, gbit_per_s: 200}}\n"
    "nodes:\n";

static const struct hsp_train_spec TRAIN = {
    .hyper = {.steps = 1, .lr = 1e-3, .optimizer = HSP_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.99},
    .data = {.seed = 1, .global_batch = 64, .sequence = 4096, .vocab = 32000},
    .eps = 1e-8};

struct published {
    struct hsp_arena *arena;
    struct hsp_graph *g;
    struct hsp_cluster_desc c;
};

static void open_published(struct published *s, const char *nodes, int64_t layers, int64_t hidden,
                           int64_t heads, int64_t kv_heads, int64_t intermediate)
{
    struct hsp_err err = {0};
    const struct hsp_model_spec spec = {.family = "llama",
                                        .layers = layers,
                                        .hidden = hidden,
                                        .heads = heads,
                                        .kv_heads = kv_heads,
                                        .intermediate = intermediate,
                                        .rope_theta = 10000,
                                        .rms_norm_eps = 1e-5,
                                        .vocab = 32000,
                                        .sequence = 4096,
                                        .vocab_chunks = 64,
                                        .compute = HSP_COMPUTE_BF16};
    *s = (struct published){.arena = hsp_arena_new((size_t)1 << 30)};
    assert_ok(hsp_graph_build(&spec, &s->g, &err), &err);
    const char *text = hsp_arena_printf(s->arena, "%s%s", HEAD, nodes);
    assert_ok(hsp_cluster_desc_parse(text, strlen(text), "cluster", s->arena, &s->c, &err), &err);
}

static void close_published(struct published *s)
{
    hsp_graph_free(s->g);
    hsp_arena_free(s->arena);
}

static double planned_seconds(struct published *s)
{
    struct hsp_err err = {0};
    struct hsp_planned p;
    const struct hsp_plan_options o = {.copies = 2};
    assert_ok(hsp_plan_make(s->g, &TRAIN, &s->c, &o, s->arena, &p, &err), &err);
    for (uint32_t r = 0; r < p.plan->n_ranks; r++) {
        assert_true(p.plan->memory_bytes[r] <= s->c.dev[p.device[r]].mem_bytes);
    }
    return 1e-6 * p.cost.step_us;
}

/* HexiScale's mixed cluster. With two versions of its state on each GPU it has no plan. */
static void llama_13b_fits_eight_unequal_gpus(void **state)
{
    struct published s;
    (void)state;
    open_published(&s,
                   NODE("a", "1600", GPU("3", "76", "200000", "1700"))
                       NODE("b", "256", GPU("3", "22", "140000", "850"))
                           NODE("c", "256", GPU("2", "22", "60000", "800")),
                   40, 5120, 40, 40, 13824);
    double took = planned_seconds(&s);
    assert_true(took > 25 && took < 40);
    close_published(&s);
}

/* With two versions a step takes 30 s: more than half of the GPUs' memory is state. */
static void llama_70b_is_fast_on_16_h800_and_16_h20(void **state)
{
    struct published s;
    (void)state;
    open_published(&s, H20("h20-1") H20("h20-2") H800("h800-1") H800("h800-2"), 80, 8192, 64, 8,
                   28672);
    double took = planned_seconds(&s);
    assert_true(took > 13 && took < 20);
    close_published(&s);
}

/* HSPMD's plans, with ZeRO-1 and with activations that are computed again where they need that. */
static const struct {
    const char *name;
    int64_t layers;
    uint32_t h20, h800; /* nodes */
} plans[] = {{"llama32b-32h20", 60, 4, 0},
             {"llama32b-31h20", 60, 4, 0},
             {"llama32b-24h20", 60, 3, 0},
             {"llama32b-32h20-16h800-dp2", 60, 4, 2},
             {"llama32b-24h20-16h800", 60, 3, 2},
             {"llama32b-24h20-15h800-dp2", 60, 3, 2},
             {"llama32b-24h20-8h800", 60, 3, 1},
             {"llama32b-24h20-15h800-dp3", 60, 3, 2},
             {"llama32b-32h20-16h800-dp4", 60, 4, 2},
             {"llama32b-16h20-16h800", 60, 2, 2},
             {"llama70b-32h20-16h800", 80, 4, 2},
             {"llama70b-24h20-16h800", 80, 3, 2},
             {"llama70b-16h20-16h800", 80, 2, 2},
             {"llama70b-24h20-8h800", 80, 3, 1}};

static const char *nodes_of(struct hsp_arena *arena, uint32_t h20, uint32_t h800)
{
    static const char *const of[2][4] = {{H20("h20-1"), H20("h20-2"), H20("h20-3"), H20("h20-4")},
                                         {H800("h800-1"), H800("h800-2"), "", ""}};
    const char *text = "";
    for (uint32_t i = 0; i < h20 + h800; i++) {
        text = hsp_arena_printf(arena, "%s%s", text, i < h20 ? of[0][i] : of[1][i - h20]);
    }
    return text;
}

/* The first form of @text that fits: the files say none. */
static bool any_form_fits(struct published *s, const char *text, const char *name)
{
    for (uint32_t form = 0; form < 4; form++) {
        struct hsp_plan *p = NULL;
        struct hsp_planned out;
        struct hsp_err err = {0};
        const struct hsp_plan_options o = {.copies = 2};
        assert_ok(hsp_plan_parse(text, strlen(text), name, 64, s->arena, &p, &err), &err);
        p->zero = form % 2 == 0 ? HSP_ZERO_NONE : HSP_ZERO_STATE;
        for (uint32_t i = 0; i < p->n_pipelines; i++) {
            for (uint32_t k = 0; k < p->pipelines[i].n_stages; k++) {
                p->pipelines[i].stages[k].saved = form < 2 ? HSP_SAVED_KEEP : HSP_SAVED_RECOMPUTE;
            }
        }
        enum hsp_status st = hsp_plan_adopt(s->g, &TRAIN, &s->c, &o, p, s->arena, &out, &err);
        if (st == HSP_OK) {
            return true;
        }
        assert_int_equal(st, HSP_EINFEASIBLE);
        printf("%s %s\n", name, err.msg);
    }
    return false;
}

static void all_strategies_of_hspmd_fit(void **state)
{
    (void)state;
    for (size_t i = 0; i < HSP_ARRAY_LEN(plans); i++) {
        struct published s;
        struct hsp_arena *names = hsp_arena_new(1 << 20);
        bool large = plans[i].layers == 80;
        open_published(&s, nodes_of(names, plans[i].h20, plans[i].h800), plans[i].layers,
                       large ? 8192 : 6656, 64, large ? 8 : 64, large ? 28672 : 17920);
        char *text =
            hsp_test_source(hsp_arena_printf(names, "conf/plans/hetu/%s.yaml", plans[i].name));
        if (!any_form_fits(&s, text, plans[i].name)) {
            fail_msg("%s fits in no form", plans[i].name);
        }
        free(text);
        hsp_arena_free(names);
        close_published(&s);
    }
}

HSP_TEST_FILE(published_clusters_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_13b_fits_eight_unequal_gpus),
        cmocka_unit_test(llama_70b_is_fast_on_16_h800_and_16_h20),
        cmocka_unit_test(all_strategies_of_hspmd_fit),
    };
    return cmocka_run_group_tests_name("published clusters", tests, NULL, NULL);
}
