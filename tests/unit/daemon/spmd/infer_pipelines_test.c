/* Pipelines found from annotations are those that were written down; annotations of no pipelines
 * are refused. */
#include "daemon/spmd/sharding/infer_pipelines.h"

#include <stdio.h>
#include <string.h>

#include "daemon/plan/plan_check.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/lower/lower_plan.h"
#include "daemon/spmd/total/pipeline_check.h"
#include "daemon/spmd/total/total_plan.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/plan/plan_model.h"
#include "tests/unit/daemon/spmd/use_form.h"

#define ARENA_BYTES ((size_t)1 << 30)
#define TEXT_BYTES  ((size_t)16 << 20)

enum { RANDOM_PLANS = 60, LAYERS = 4 };

static struct hsp_plan *parse(const char *text, uint32_t batch, struct hsp_arena *arena)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_plan_parse(text, strlen(text), "plan", batch, arena, &p, &err), &err);
    return p;
}

/* All parameters of every family of cuts: heads, feed-forward, vocabulary. */
static struct plan_model model(const char *family, bool tied)
{
    struct hsp_model_spec s = {.layers = LAYERS,
                               .hidden = 12,
                               .heads = 6,
                               .kv_heads = 3,
                               .intermediate = 15,
                               .rope_theta = 100,
                               .rms_norm_eps = 1e-5,
                               .vocab = 10,
                               .vocab_chunks = 5,
                               .sequence = PLAN_SEQUENCE,
                               .tied_head = tied,
                               .dtype = HSP_F64};
    snprintf(s.family, sizeof s.family, "%s", family);
    if (strcmp(family, "gpt") == 0) {
        s.kv_heads = s.intermediate = 0;
        s.rope_theta = s.rms_norm_eps = 0;
    }
    return plan_model_of(&s, HSP_OPT_ADAMW);
}

/* A share alone says nothing. */
static void plain_shares(struct hsp_plan *p)
{
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        for (uint32_t t = 0; t < p->pipelines[i].n_stages; t++) {
            struct hsp_stage *s = &p->pipelines[i].stages[t];
            for (uint32_t k = 0, first, end; k < hsp_stage_groups(s); k++) {
                hsp_stage_group(s, k, &first, &end);
                s->shares[first] = end - first == 1 ? 1 : s->shares[first];
            }
        }
    }
}

/* Chunks of one stage leave no trace in its ranks. */
static bool can_tell(const struct hsp_plan *p)
{
    bool can = true;
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        can = can && (p->pipelines[i].n_stages > 1 || hsp_pipeline_chunks(&p->pipelines[i]) == 1);
    }
    return can;
}

static struct hsp_plan *find(const struct hsp_plan *p, const struct plan_model *m, uint32_t batch,
                             bool cuts, struct hsp_arena *arena)
{
    struct hsp_buf text;
    struct hsp_err err = {0};
    hsp_buf_init(&text, TEXT_BYTES);
    use_form(p, m->g, cuts, &text);
    assert_false(text.failed);
    struct hsp_plan *q = parse(hsp_buf_cstr(&text), batch, arena);
    assert_status(hsp_plan_check(q, m->g, batch, &err), HSP_EINVAL);
    enum hsp_status rc = hsp_plan_find_pipelines(q, m->g, arena, &err);
    if (rc != HSP_OK) {
        print_error("%s\n", hsp_buf_cstr(&text));
    }
    assert_ok(rc, &err);
    hsp_buf_fini(&text);
    return q;
}

static void assert_same_plan(const struct hsp_plan *p, const struct hsp_plan *q)
{
    struct hsp_buf a, b;
    hsp_buf_init(&a, TEXT_BYTES);
    hsp_buf_init(&b, TEXT_BYTES);
    hsp_plan_dump(p, &a);
    hsp_plan_dump(q, &b);
    assert_string_equal(hsp_buf_cstr(&b), hsp_buf_cstr(&a));
    hsp_buf_fini(&a);
    hsp_buf_fini(&b);
}

static void assert_same_digest(const struct hsp_plan *p, const struct hsp_plan *q,
                               const struct plan_model *m)
{
    struct hsp_digest a, b;
    struct hsp_err err = {0};
    assert_ok(hsp_plan_digest(m->g, p, &m->t, &a, &err), &err);
    assert_ok(hsp_plan_digest(m->g, q, &m->t, &b, &err), &err);
    assert_true(hsp_digest_equal(a, b));
}

/* Written as annotations by shares: the same plan. By cuts: stages that use all parameters
 * alike. */
static void random_plans_are_found_again(void **state)
{
    (void)state;
    uint64_t draw = 1;
    uint32_t told = 0, compiled = 0;
    struct plan_model m[] = {model("gpt", true), model("gpt", false), model("llama", false)};
    for (uint32_t i = 0; i < RANDOM_PLANS; i++) {
        struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
        const struct plan_model *of = &m[i % 3];
        struct hsp_buf text;
        hsp_buf_init(&text, TEXT_BYTES);
        (i % 2 == 0 ? hsp_random_groups : hsp_random_plan)(&draw, LAYERS, PLAN_BATCH, &text);
        struct hsp_plan *p = parse(hsp_buf_cstr(&text), PLAN_BATCH, arena);
        plain_shares(p);
        if (can_tell(p)) {
            struct hsp_plan *q = find(p, of, PLAN_BATCH, false, arena);
            told++;
            assert_same_plan(p, q);
            if (told % 4 == 0) {
                assert_same_digest(p, q, of);
                compiled++;
            }
            q = find(p, of, PLAN_BATCH, true, arena);
            assert_int_equal(q->n_pipelines, p->n_pipelines);
        }
        hsp_buf_fini(&text);
        hsp_arena_free(arena);
    }
    assert_true(told > RANDOM_PLANS / 2 && compiled > 5);
    for (int i = 0; i < 3; i++) {
        hsp_graph_free(m[i].g);
    }
}

/* C1 and C2 of the paper. */
static void published_plans_are_found_again(void **state)
{
    (void)state;
    static const char *const files[] = {"conf/plans/hetu/llama32b-32h20.yaml",
                                        "conf/plans/hetu/llama32b-31h20.yaml"};
    enum { BATCH = 64 };
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_model_spec spec = {.family = "llama",
                                  .layers = 60,
                                  .hidden = 16,
                                  .heads = 8,
                                  .kv_heads = 8,
                                  .intermediate = 24,
                                  .rope_theta = 100,
                                  .rms_norm_eps = 1e-5,
                                  .vocab = 10,
                                  .sequence = PLAN_SEQUENCE,
                                  .dtype = HSP_F64};
    struct plan_model m = plan_model_of(&spec, HSP_OPT_ADAMW);
    m.t.data.global_batch = BATCH;
    for (uint32_t i = 0; i < 2; i++) {
        char *text = hsp_test_source(files[i]);
        struct hsp_plan *p = parse(text, BATCH, arena), *q = find(p, &m, BATCH, false, arena);
        assert_same_plan(p, q);
        assert_same_digest(p, q, &m);
        assert_same_plan(p, find(p, &m, BATCH, true, arena));
        free(text);
    }
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

#define HEAD          HSP_PLAN_HEAD
#define Q(block, use) "  - {name: \"h." block ".attn.q.weight\", use: " use "}\n"
#define FIGURE_X                                                                                \
    HEAD "ranks: 7\nannotations:\n" Q(                                                          \
        "0", "{dup: [{split: 0, shares: [1, 1], of: [0, 3]}, 1, {dup: [2, 4]}]}")               \
        Q("[1-3]", "{dup: [{split: 0, shares: [1, 1], of: [0, 3]}, {split: 0, shares: [1, 1], " \
                   "of: [5, 6]}, {dup: [2, 4]}]}")

/* The example of the paper: 0 and 3 are one stage, 5 and 6 the next one of 1, 2 and 4 cut
 * sequences. */
static void the_figure_is_found(void **state)
{
    (void)state;
    static const char found[] =
        HEAD "ranks: 7\npipelines:\n  - {sequences: 3, stages: [{layers: 4, ranks: [0, 3]}]}\n"
             "  - {sequences: 2, stages: [{layers: 1, ranks: [1]}, {layers: 3, ranks: [5, 6]}]}\n"
             "  - {sequences: 2, stages: [{layers: 4, split: sequence, groups: [{ranks: [2]}, "
             "{ranks: [4]}]}]}\n";
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct plan_model m = model("gpt", false);
    struct hsp_err err = {0};
    struct hsp_plan *p = parse(FIGURE_X "batches: [{sequences: 3}, {sequences: 2}, {sequences: 2, "
                                        "stages: [{split: sequence}]}]\n",
                               PLAN_BATCH, arena),
                    *q = parse(found, PLAN_BATCH, arena);
    assert_ok(hsp_plan_find_pipelines(p, m.g, arena, &err), &err);
    assert_same_plan(q, p);
    assert_same_digest(q, p, &m);
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

/* The example of conf/ is a plan for the job it names, and reads back before its pipelines are
 * found. */
static void the_example_is_a_plan(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 3,
                               .hidden = 12,
                               .heads = 3,
                               .vocab = 10,
                               .sequence = PLAN_SEQUENCE,
                               .tied_head = true,
                               .dtype = HSP_F64};
    struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
    struct hsp_err err = {0};
    struct hsp_buf again;
    char *text = hsp_test_source("conf/plans/by-annotations.yaml");
    struct hsp_plan *p = parse(text, 16, arena);
    hsp_buf_init(&again, TEXT_BYTES);
    hsp_plan_dump(p, &again);
    struct hsp_plan *q = parse(hsp_buf_cstr(&again), 16, arena);
    assert_ok(hsp_plan_find_pipelines(p, m.g, arena, &err), &err);
    assert_ok(hsp_plan_find_pipelines(q, m.g, arena, &err), &err);
    assert_ok(hsp_plan_check(p, m.g, 16, &err), &err);
    assert_same_plan(p, q);
    assert_int_equal(p->pipelines[1].n_stages, 2);
    assert_int_equal(p->pipelines[2].stages[0].group_shares[0], 3);
    hsp_buf_fini(&again);
    free(text);
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

static const struct {
    const char *text, *says;
} refused[] = {
    {HEAD "ranks: 2\nannotations:\n" Q("0", "0") Q("1", "1")
         Q("[2-3]", "0") "batches: [{sequences: 7}]",
     "rank 0 has left stage 0 of pipeline 0 before block 2"},
    {HEAD "ranks: 2\nannotations:\n" Q("0", "{dup: [0, 1]}")
         Q("[1-3]", "{dup: [1, 0]}") "batches: "
                                     "[{sequences: 3}, {sequences: 4}]",
     "rank 1 is in pipeline 0 and, with the embedding, in pipeline 1"},
    {HEAD "ranks: 3\nannotations:\n" Q("[0-3]", "{dup: [0, 1, 2]}") "batches: [{sequences: 3}, "
                                                                    "{sequences: 4}]",
     "has 3 copies for 2 pipelines"},
    {HEAD "ranks: 3\nannotations:\n" Q("[0-3]", "{dup: [0, 1]}") "  - {name: h.2.attn.k.weight, "
                                                                 "use: {dup: [0, 1, 2]}}\n"
                                                                 "batches: [{sequences: 3}, "
                                                                 "{sequences: 4}]",
     "h.2.attn.k.weight has 3 copies for 2 pipelines"},
    {HEAD "ranks: 2\nannotations:\n" Q("[0-2]", "0") "batches: [{sequences: 7}]",
     "none is of a parameter of block 3"},
    {HEAD "ranks: 2\nannotations:\n" Q("[1-3]", "0") "batches: [{sequences: 7}]",
     "none is of a parameter of block 0"},
    {HEAD "ranks: 2\nannotations:\n" Q("9", "0") "batches: [{sequences: 7}]",
     "no parameter is named like h.9.attn.q.weight"},
    {HEAD "ranks: 2\nannotations:\n" Q(
         "[0-3]", "{split: 0, cuts: [0, 5, 12], of: [0, 1]}") "batches: "
                                                              "[{sequences: 7}]",
     "annotations: h.0.attn.q.weight: "},
    {HEAD "ranks: 2\nannotations:\n" Q("[0-3]",
                                       "{split: 1, shares: [1, 1], of: [0, 1]}") "batches: "
                                                                                 "[{sequences: 7}]",
     "tensor parallelism cuts dim 0"},
    {HEAD "ranks: 2\nannotations:\n" Q("[0-3]", "{partial: [0, 1]}") "batches: [{sequences: 7}]",
     "copied or cut, never partial"},
    {HEAD "ranks: 2\nannotations:\n  - {name: \"h.*.ln_1.weight\", use: {split: 0, shares: [1, "
          "1], of: "
          "[0, 1]}}\nbatches: [{sequences: 7}]",
     "never cut by tensor parallelism"},
    {HEAD "ranks: 2\nannotations:\n" Q("[0-3]", "{dup: [0, 1]}") "batches: [{sequences: 7}]",
     "has 2 groups: several need a split"},
    {HEAD "ranks: 2\nannotations:\n" Q(
         "[0-3]", "{split: 0, shares: [1, 1], of: [0, 1]}") "  - {name: "
                                                            "h.0.mlp.fc.weight, use: {split: "
                                                            "0, shares: [1, 1], of: [1, "
                                                            "0]}}\nbatches: [{sequences: 7}]",
     "are used by unlike groups of one stage"},
    {HEAD "ranks: 2\nannotations:\n" Q(
         "[0-3]", "{split: 0, cuts: [0, 4, 12], of: [0, 1]}") "  - {name: "
                                                              "h.0.mlp.fc.weight, use: {split: "
                                                              "0, cuts: [0, 40, 48], of: [0, "
                                                              "1]}}\nbatches: [{sequences: 7}]",
     "no integer shares cut both"},
    {HEAD
     "ranks: 2\nannotations:\n" Q("[0-3]", "0") "  - {name: h.2.attn.k.weight, use: 1}\nbatches: "
                                                "[{sequences: 7}]",
     "are used by block 2 on unlike ranks of pipeline 0"},
    {HEAD "ranks: 2\nannotations:\n" Q("[0-3]", "2") "batches: [{sequences: 7}]",
     "rank 2 of a plan of 2 ranks"},
    {HEAD "ranks: 2\nannotations:\n" Q("[0-1]", "0")
         Q("[2-3]", "1") "batches: [{sequences: 7, stages: "
                         "[{saved: keep}]}]",
     "has 2 stages, its batch lists 1"},
    {HEAD "ranks: 3\nannotations:\n" Q("0", "0") Q("1", "1")
         Q("[2-3]", "2") "batches: [{sequences: 7, "
                         "schedule: interleaved, chunks: 2}]",
     "3 times other ranks than before, for 2 chunks"},
    {HEAD "ranks: 4\nannotations:\n" Q("0", "0") Q("1", "1") Q("2", "2")
         Q("3", "3") "batches: "
                     "[{sequences: 7, schedule: interleaved, chunks: 2}]",
     "is not on the ranks of stage 0, which has the turn in chunk 1"},
    {HEAD "ranks: 2\nannotations:\n" Q("[0-1]", "0")
         Q("[2-3]", "1") "  - {name: wte.weight, use: 0}\n"
                         "batches: [{sequences: 7}]",
     "wte.weight is not in groups of the ranks"},
};

static void what_is_no_pipeline_is_refused(void **state)
{
    (void)state;
    struct plan_model m = model("gpt", true);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
        struct hsp_err err = {0};
        struct hsp_plan *p = parse(refused[i].text, PLAN_BATCH, arena);
        assert_status(hsp_plan_find_pipelines(p, m.g, arena, &err), HSP_EINVAL);
        if (strstr(err.msg, refused[i].says) == NULL || strchr(err.msg, '\n') != NULL) {
            fail_msg("case %zu: %s: not: %s", i, err.msg, refused[i].says);
        }
        hsp_arena_free(arena);
    }
    hsp_graph_free(m.g);
}

static void forms_that_do_not_parse(void **state)
{
    (void)state;
    static const char *const bad[] = {
        HEAD "ranks: 1\nannotations: []\nbatches: [{sequences: 7}]",
        HEAD "ranks: 1\nannotations: [{name: a, use: 0}]",
        HEAD "ranks: 1\nannotations: [{name: a, use: 0}]\nbatches: [{sequences: 7}]\npipelines: "
             "[{sequences: "
             "7, stages: [{layers: 4, ranks: [0]}]}]",
        HEAD "ranks: 1\nbatches: [{sequences: 7}]\npipelines: [{sequences: 7, stages: [{layers: 4, "
             "ranks: "
             "[0]}]}]",
        HEAD "ranks: 1\nannotations: [{name: a}]\nbatches: [{sequences: 7}]",
        HEAD "ranks: 1\nannotations: [{name: \"a[1\", use: 0}]\nbatches: [{sequences: 7}]",
        HEAD "ranks: 1\nannotations: [{name: a, use: 0}]\nbatches: [{sequences: 7, stages: "
             "[{ranks: [0]}]}]",
        HEAD
        "ranks: 1\nannotations: [{name: a, use: 0}]\nbatches: [{sequences: 7, stages: [{shares: "
        "[1, 2]}]}]",
        HEAD "ranks: 1\nannotations: [{name: a, use: 0}]\nbatches: [{sequences: 7, stages: "
             "[{split: batch, "
             "shares: []}]}]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct hsp_arena *arena = hsp_arena_new(1 << 20);
        struct hsp_plan *p = NULL;
        struct hsp_err err = {0};
        assert_status(hsp_plan_parse(bad[i], strlen(bad[i]), "bad", PLAN_BATCH, arena, &p, &err),
                      HSP_EPARSE);
        hsp_arena_free(arena);
    }
}

/* Layouts of one plan under stages of another one: the messages tell that they are not these. */
static void other_stages_than_what_is_sent(void **state)
{
    (void)state;
    static const char text[] = HEAD
        "ranks: 5\npipelines:\n  - {sequences: 4, stages: [{layers: 2, ranks: [0, 1]}, {layers: 2, "
        "ranks: [2]}]}\n  - {sequences: 3, stages: [{layers: 2, ranks: [3]}, {layers: 2, ranks: "
        "[4]}]}\n";
    static const struct {
        uint32_t a, b; /* ranks that change places */
        const char *says;
    } swaps[] = {{1, 3, "a collective of two stages: rank 0 (pipeline 0 stage 0) and rank 1"},
                 {2, 4, "not one stage and the next: rank"},
                 {3, 4, "not one stage and the next: rank"}};
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct plan_model m = model("gpt", false);
    struct hsp_plan *p = parse(text, PLAN_BATCH, arena);
    struct hsp_compiler c = {.g = m.g, .p = p, .t = &m.t, .arena = arena};
    struct hsp_err err = {0};
    assert_ok(hsp_layouts_make(&c, &err), &err);
    assert_ok(hsp_pipelines_check(&c, &err), &err);
    for (size_t i = 0; i < sizeof swaps / sizeof swaps[0]; i++) {
        for (int back = 0; back < 2; back++) {
            for (uint32_t s = 0; s < c.n_stages; s++) {
                for (uint32_t k = 0; k < c.stage[s].group->n; k++) {
                    uint32_t *r = &c.stage[s].group->ranks[k];
                    *r = *r == swaps[i].a ? swaps[i].b : *r == swaps[i].b ? swaps[i].a : *r;
                }
            }
            if (back == 0) {
                assert_status(hsp_pipelines_check(&c, &err), HSP_EINVAL);
                assert_non_null(strstr(err.msg, swaps[i].says));
            }
        }
    }
    hsp_layouts_fini(&c);
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

HSP_TEST_FILE(infer_pipelines_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_plans_are_found_again),
        cmocka_unit_test(published_plans_are_found_again),
        cmocka_unit_test(the_figure_is_found),
        cmocka_unit_test(the_example_is_a_plan),
        cmocka_unit_test(what_is_no_pipeline_is_refused),
        cmocka_unit_test(forms_that_do_not_parse),
        cmocka_unit_test(other_stages_than_what_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
