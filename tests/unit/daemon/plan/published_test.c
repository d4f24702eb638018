/* Tests the published strategies of HSPMD (Hetu v2) against its paper: C1 to C7, the places where
 * their gradients meet, their exchanges. */
#include <assert.h>
#include <dirent.h>
#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/graph/graph_build.h"
#include "daemon/plan/name_range.h"
#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/total/total_plan.h"
#include "proto/program/program_check.h"
#include "tests/lib/testlib.h"

#define ARENA_BYTES ((size_t)1 << 30)
#define FOLDER      "conf/plans/hetu"
#define LEN(a)      (sizeof(a) / sizeof((a)[0]))

enum { BATCH = 64, SEQUENCE = 4, VOCAB = 11, LAYERS = 60, HEADS = 8 };
/* Files of FOLDER. */
enum { C1, C2, C3, C4, C5, C6, C7, H800_15, H800_48, H800_32, M70_48, M70_40, M70_32, M70_24_8, N };
static const char *const files[] = {[C1] = "llama32b-32h20",
                                    [C2] = "llama32b-31h20",
                                    [C3] = "llama32b-24h20",
                                    [C4] = "llama32b-32h20-16h800-dp2",
                                    [C5] = "llama32b-24h20-16h800",
                                    [C6] = "llama32b-24h20-15h800-dp2",
                                    [C7] = "llama32b-24h20-8h800",
                                    [H800_15] = "llama32b-24h20-15h800-dp3",
                                    [H800_48] = "llama32b-32h20-16h800-dp4",
                                    [H800_32] = "llama32b-16h20-16h800",
                                    [M70_48] = "llama70b-32h20-16h800",
                                    [M70_40] = "llama70b-24h20-16h800",
                                    [M70_32] = "llama70b-16h20-16h800",
                                    [M70_24_8] = "llama70b-24h20-8h800"};
static_assert(LEN(files) == N, "a name for each file");

static struct hsp_graph *toy(int64_t layers)
{
    struct hsp_model_spec s = {.family = "llama",
                               .layers = layers,
                               .hidden = 2 * HEADS,
                               .heads = HEADS,
                               .kv_heads = HEADS,
                               .intermediate = 3 * HEADS,
                               .rope_theta = 100,
                               .rms_norm_eps = 1e-5,
                               .vocab = VOCAB,
                               .sequence = SEQUENCE,
                               .dtype = HSP_F64};
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    if (g->seed == HSP_NONE) {
        assert_ok(hsp_graph_autodiff(g, &err), &err);
    }
    return g;
}

static const struct hsp_train_spec train = {
    .hyper = {.optimizer = HSP_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .steps = 2, .lr = 0.01},
    .data = {.global_batch = BATCH, .sequence = SEQUENCE, .vocab = VOCAB},
    .eps = 1e-8};

/* All published strategies. */
struct world {
    struct hsp_arena *arena;
    char *text[N];
    struct hsp_plan *plan[N];
};

static struct hsp_plan *parse(const char *text, const char *name, struct hsp_arena *arena)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_plan_parse(text, strlen(text), name, BATCH, arena, &p, &err), &err);
    return p;
}

static int setup(void **state)
{
    static struct world w;
    w.arena = hsp_arena_new(1 << 24);
    for (uint32_t i = 0; i < N; i++) {
        w.text[i] = hsp_test_source(hsp_arena_printf(w.arena, FOLDER "/%s.yaml", files[i]));
        w.plan[i] = parse(w.text[i], files[i], w.arena);
    }
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < N; i++) {
        free(w->text[i]);
    }
    hsp_arena_free(w->arena);
    return 0;
}

/* As the paper runs them: between its matrix products a tensor-parallel group has a part of the
 * sequence each. */
static void cut_sequences(struct hsp_plan *p)
{
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        for (uint32_t k = 0; k < p->pipelines[i].n_stages; k++) {
            p->pipelines[i].stages[k].sequence_parallel = p->pipelines[i].stages[k].n > 1;
        }
    }
}

/* ---- the strategies ---- */

/* "32: 15x4 15x4 | ..": micro-batches, then layers x devices of each stage, of each pipeline. */
static void assert_shape(const struct hsp_plan *p, const char *want)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 4096);
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        const struct hsp_pipeline *of = &p->pipelines[i];
        hsp_buf_printf(&b, "%s%u:", i > 0 ? " | " : "", of->micro_batches);
        for (uint32_t k = 0; k < of->n_stages; k++) {
            hsp_buf_printf(&b, " %ux%u", of->stages[k].layers, of->stages[k].n);
        }
    }
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
}

static void c1_to_c7_are_those_of_the_paper(void **state)
{
    const struct world *w = *state;
    static const struct {
        uint32_t at, devices;
        const char *shape;
    } published[] = {
        {C1, 32, "32: 15x4 15x4 15x4 15x4 | 32: 15x4 15x4 15x4 15x4"},
        {C2, 31, "33: 15x4 15x4 15x4 15x4 | 31: 16x4 16x4 16x4 8x2 4x1"},
        {C3, 24, "32: 20x4 20x4 20x4 | 32: 20x4 20x4 20x4"},
        {C4, 48, "32: 5x4 6x4 6x4 6x4 18x4 19x4 | 32: 5x4 6x4 6x4 6x4 18x4 19x4"},
        {C5, 40, "32: 6x4 6x4 6x4 21x4 21x4 | 32: 6x4 6x4 6x4 21x4 21x4"},
        {C6, 39, "33: 6x4 6x4 6x4 21x4 21x4 | 31: 6x4 6x4 6x4 22x4 13x2 7x1"},
        {C7, 32, "32: 9x4 10x4 10x4 31x4 | 32: 9x4 10x4 10x4 31x4"},
        {H800_15, 39, "29: 7x4 7x4 23x4 23x4 | 18: 11x4 11x4 38x4 | 17: 12x4 11x4 24x2 13x1"},
    };
    for (size_t i = 0; i < LEN(published); i++) {
        const struct hsp_plan *p = w->plan[published[i].at];
        assert_int_equal(p->n_ranks, published[i].devices);
        assert_shape(p, published[i].shape);
    }
}

/* The text of a plan file after the comment that it begins with. */
static const char *body_of(const char *text)
{
    while (*text == '#') {
        text = strchr(text, '\n');
        assert_non_null(text);
        text++;
    }
    return text;
}

/* Each file of the folder is one of these, and says its plan as a dump does. */
static void files_are_plans_as_they_are_dumped(void **state)
{
    const struct world *w = *state;
    const char *src = getenv("HSPMD_SRC");
    DIR *d = opendir(hsp_arena_printf(w->arena, "%s/" FOLDER, src != NULL ? src : "."));
    uint32_t n = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(d);
    assert_int_equal(n, N);
    for (uint32_t i = 0; i < N; i++) {
        struct hsp_buf one, two;
        hsp_buf_init(&one, 1 << 16);
        hsp_buf_init(&two, 1 << 16);
        hsp_plan_dump(w->plan[i], &one);
        assert_string_equal(hsp_buf_cstr(&one), body_of(w->text[i]));
        hsp_plan_dump(parse(hsp_buf_cstr(&one), "dump", w->arena), &two);
        assert_string_equal(hsp_buf_cstr(&one), hsp_buf_cstr(&two));
        hsp_buf_fini(&one);
        hsp_buf_fini(&two);
    }
}

static void all_of_them_compile(void **state)
{
    const struct world *w = *state;
    struct hsp_graph *small = toy(LAYERS), *large = toy(80);
    for (uint32_t i = 0; i < N; i++) {
        const struct hsp_plan *p = w->plan[i];
        const struct hsp_graph *g = i < M70_48 ? small : large;
        struct hsp_arena *of = hsp_arena_new(ARENA_BYTES);
        struct hsp_program_file f = {0};
        struct hsp_err err = {0};
        struct hsp_plan total;
        enum hsp_status st = hsp_plan_check(p, g, BATCH, &err);
        st = st == HSP_OK ? hsp_compile_total(g, p, &train, of, &f, &total, &err) : st;
        if (st != HSP_OK) {
            fail_msg("%s: %s", files[i], err.msg);
        }
        assert_int_equal(f.n, p->n_ranks);
        for (uint32_t r = 0; r < f.n; r++) {
            assert_ok(hsp_program_check(&f.programs[r], &err), &err);
        }
        hsp_arena_free(of);
    }
    hsp_graph_free(small);
    hsp_graph_free(large);
}

/* ---- where gradients meet ---- */

/* The Reshard of Post that sums the gradient of @name in layer @layer. */
static const struct hsp_plan_reshard *sum_of(const struct hsp_plan *p, uint32_t layer,
                                             const char *name)
{
    char makes[96];
    (void)snprintf(makes, sizeof makes, "model.layers.%u.%s.weight#grad", layer, name);
    for (uint32_t i = 0; i < p->n_reshards; i++) {
        struct hsp_name_range r;
        const struct hsp_plan_reshard *x = &p->reshards[i];
        if (x->phase == HSP_PHASE_POST && hsp_range_parse(x->makes, &r) &&
            hsp_range_has(&r, makes)) {
            return x;
        }
    }
    fail_msg("%s is not summed", makes);
    return NULL;
}

static void assert_group(const struct hsp_plan_reshard *r, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < r->n_moves; i++) {
        const struct hsp_plan_move *m = &r->move[i];
        if (m->kind == HSP_MOVE_ALL_REDUCE && m->n == 2 && m->ranks[0] == a && m->ranks[1] == b) {
            return;
        }
    }
    fail_msg("%s: no sum over %u and %u", r->makes, a, b);
}

/* The devices of C2 that have a layer: four from *ret_a, and *ret_n from *ret_b. */
static void holders(uint32_t layer, uint32_t *ret_a, uint32_t *ret_b, uint32_t *ret_n)
{
    *ret_a = layer / 15 * 4;
    *ret_b = layer < 48 ? 16 + layer / 16 * 4 : layer < 56 ? 28 : 30;
    *ret_n = layer < 48 ? 4 : layer < 56 ? 2 : 1;
}

static struct hsp_plan complete(const struct world *w, uint32_t which, bool sequences,
                                struct hsp_arena *arena)
{
    struct hsp_graph *g = toy(LAYERS);
    struct hsp_plan *p = parse(w->text[which], files[which], arena), total;
    struct hsp_err err = {0};
    if (sequences) {
        cut_sequences(p);
    }
    assert_ok(hsp_plan_explain(g, p, &train, NULL, arena, &total, &err), &err);
    hsp_graph_free(g);
    return total;
}

/* T7: TP 4 against TP 4, 2 and 1: a group for each quarter. */
static void gradients_of_c2_meet_in_pairs(void **state)
{
    static const char *const weights[] = {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_plan total = complete(*state, C2, false, arena);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        uint32_t a, b, n;
        holders(layer, &a, &b, &n);
        for (size_t i = 0; i < LEN(weights); i++) {
            const struct hsp_plan_reshard *r = sum_of(&total, layer, weights[i]);
            for (uint32_t q = 0; q < 4; q++) {
                assert_group(r, a + q, b + q * n / 4);
            }
            assert_int_equal(r->n_moves, 4);
            assert_string_equal(r->method, n == 4 ? "all_reduce" : "split_all_reduce");
        }
    }
    hsp_arena_free(arena);
}

/* The addends of a sum that each of 32 ranks has, as a mask; 0: it holds none. */
static void run_sums(const struct hsp_plan_reshard *r, uint64_t *has)
{
    for (uint32_t i = 0; i < r->n_moves; i++) {
        const struct hsp_plan_move *m = &r->move[i];
        uint64_t all = 0;
        assert_int_equal(m->kind, HSP_MOVE_ALL_REDUCE);
        for (uint32_t k = 0; k < m->n; k++) {
            assert_true((all & has[m->ranks[k]]) == 0); /* nothing counts twice */
            all |= has[m->ranks[k]];
        }
        for (uint32_t k = 0; k < m->n; k++) {
            has[m->ranks[k]] = all;
        }
    }
}

/* T7: with sequences cut inside of groups, each device has an addend of the gradient of a norm. The
 * sum is one over the group and the other pipeline's: in the paper an AR and a SplitAR, on covers
 * one all-reduce of all that have the layer. */
static void gradients_of_norms_of_c2_meet_everywhere(void **state)
{
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm"};
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_plan total = complete(*state, C2, true, arena);
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        uint32_t a, b, n;
        holders(layer, &a, &b, &n);
        for (size_t i = 0; i < LEN(norms); i++) {
            uint64_t has[32] = {0}, all = 0;
            for (uint32_t q = 0; q < 4 + n; q++) {
                uint32_t rank = q < 4 ? a + q : b + q - 4;
                has[rank] = UINT64_C(1) << rank;
                all |= has[rank];
            }
            run_sums(sum_of(&total, layer, norms[i]), has);
            for (uint32_t rank = 0; rank < 32; rank++) {
                assert_true(has[rank] == ((all >> rank & 1) != 0 ? all : 0));
            }
        }
    }
    hsp_arena_free(arena);
}

/* ---- their exchanges ---- */

static bool is_one_of(const char *method, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(method, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* T10: where all pipelines are alike, the collectives of ordinary SPMD are enough. */
static void homogeneous_strategies_need_no_bsr(void **state)
{
    static const char *const plain[] = {"identity",       "slice",      "all_reduce",
                                        "reduce_scatter", "all_gather", "send_recv"};
    static const uint32_t alike[] = {C1, C3, C4, C5, C7};
    for (size_t i = 0; i < LEN(alike); i++) {
        bool met[LEN(plain)] = {false};
        struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
        struct hsp_plan total = complete(*state, alike[i], true, arena);
        for (uint32_t k = 0; k < total.n_reshards; k++) {
            const struct hsp_plan_reshard *r = &total.reshards[k];
            if (!is_one_of(r->method, plain, LEN(plain))) {
                fail_msg("%s: %s is a %s", files[alike[i]], r->makes, r->method);
            }
            for (size_t m = 0; m < LEN(plain); m++) {
                met[m] = met[m] || strcmp(r->method, plain[m]) == 0;
            }
        }
        for (size_t m = 2; m < LEN(plain); m++) {
            assert_true(met[m]);
        }
        hsp_arena_free(arena);
    }
}

/* The paper's 3.6 on C2: TP by all-gather and reduce-scatter; between stages send-receive, and BSR
 * where TP becomes 2 and 1. */
static void stages_of_c2_hand_over_as_in_the_paper(void **state)
{
    static const char *const inside[] = {"identity", "slice", "all_gather", "reduce_scatter",
                                         "all_reduce"};
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_plan total = complete(*state, C2, true, arena);
    uint32_t n_between = 0, n_bsr = 0;
    for (uint32_t i = 0; i < total.n_reshards; i++) {
        const struct hsp_plan_reshard *r = &total.reshards[i];
        if (r->phase != HSP_PHASE_FORWARD && r->phase != HSP_PHASE_BACKWARD) {
            continue;
        }
        if (r->from == HSP_NONE || r->from == r->stage) {
            if (!is_one_of(r->method, inside, LEN(inside))) {
                fail_msg("%s is a %s", r->makes, r->method);
            }
            continue;
        }
        uint32_t later = r->from > r->stage ? r->from : r->stage;
        bool bsr = r->pipeline == 1 && later >= 3;
        assert_string_equal(r->method, bsr ? "bsr" : "send_recv");
        n_between++;
        n_bsr += bsr ? 1 : 0;
    }
    assert_int_equal(n_between, 2 * (3 + 4)); /* there, and the gradient back */
    assert_int_equal(n_bsr, 4);
    hsp_arena_free(arena);
}

HSP_TEST_FILE(published_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c1_to_c7_are_those_of_the_paper),
        cmocka_unit_test(files_are_plans_as_they_are_dumped),
        cmocka_unit_test(all_of_them_compile),
        cmocka_unit_test(gradients_of_c2_meet_in_pairs),
        cmocka_unit_test(gradients_of_norms_of_c2_meet_everywhere),
        cmocka_unit_test(homogeneous_strategies_need_no_bsr),
        cmocka_unit_test(stages_of_c2_hand_over_as_in_the_paper),
    };
    return cmocka_run_group_tests_name("published", tests, setup, teardown);
}
