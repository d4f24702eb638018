/* Stages of several tensor-parallel groups: sequences and micro-batches cut unevenly between them,
 * sequence parallelism inside; every family, run and compared with the unsharded graph. */
#include <stdio.h>

#include "daemon/plan/plan_yaml.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/plan_run.h"

static struct hsp_model_spec spec_of(const char *family, bool tied)
{
    struct hsp_model_spec s = {.layers = 2,
                               .hidden = 6,
                               .heads = 3,
                               .vocab = PLAN_VOCAB,
                               .sequence = PLAN_SEQUENCE,
                               .tied_head = tied,
                               .dtype = HSP_F64};
    (void)snprintf(s.family, sizeof s.family, "%s", family);
    if (strcmp(family, "llama") == 0) {
        s.hidden = 12;
        s.heads = 6;
        s.kv_heads = 3;
        s.intermediate = 5;
        s.rope_theta = 100;
        s.rms_norm_eps = 1e-5;
    }
    return s;
}

static void run_cases(const struct hsp_model_spec *s, uint8_t optimizer)
{
    struct plan_model m = plan_model_of(s, optimizer);
    plan_run_all(hsp_group_cases, hsp_n_group_cases, &m);
    hsp_graph_free(m.g);
}

static void gpt_as_unsharded(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("gpt", false);
    run_cases(&s, HSP_OPT_ADAMW);
    s.dropout = 0.3;
    run_cases(&s, HSP_OPT_SGD);
}

static void tied_embeddings_as_unsharded(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("gpt", true);
    run_cases(&s, HSP_OPT_ADAMW);
    s.vocab = 10;
    s.vocab_chunks = 5;
    run_cases(&s, HSP_OPT_ADAMW);
}

static void packed_documents_as_unsharded(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("gpt", false);
    s.packed = true;
    s.dropout = 0.2;
    run_cases(&s, HSP_OPT_ADAMW);
}

static void llama_as_unsharded(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("llama", false);
    run_cases(&s, HSP_OPT_ADAMW);
    s.packed = true;
    s.vocab = 10;
    s.vocab_chunks = 5;
    s.tied_head = true;
    run_cases(&s, HSP_OPT_SGD);
}

static void random_plans_as_unsharded(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < hsp_test_rounds(150); i++) {
        uint64_t draw = i << 16;
        struct hsp_model_spec s =
            spec_of(hsp_plan_pick(&draw, 0, 1) == 0 ? "gpt" : "llama", hsp_plan_pick(&draw, 0, 1));
        s.layers = hsp_plan_pick(&draw, 1, 3);
        s.dropout = hsp_plan_pick(&draw, 0, 1) * 0.25;
        s.packed = hsp_plan_pick(&draw, 0, 2) == 0;
        if (hsp_plan_pick(&draw, 0, 1) == 0) {
            s.vocab = 10;
            s.vocab_chunks = 5;
        }
        struct plan_model m =
            plan_model_of(&s, hsp_plan_pick(&draw, 0, 1) == 0 ? HSP_OPT_ADAMW : HSP_OPT_SGD);
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        hsp_random_groups(&draw, (uint32_t)s.layers, PLAN_BATCH, &b);
        plan_run(hsp_buf_cstr(&b), &m, i);
        hsp_buf_fini(&b);
        hsp_graph_free(m.g);
    }
}

/* Shares of groups, of tensors, and the places of ranks change bindings only. */
static void templates_are_free_of_shares(void **state)
{
    (void)state;
    static const char form[] = HSP_PLAN_HEAD
        "ranks: 6\nzero: %d\npipelines:\n"
        "  - {sequences: 7, micro_batches: 2, stages: [{layers: 1, split: sequence, shares: [%d, "
        "%d], groups: [{ranks: [0, 1], tensor: [%d, %d]}, {ranks: [2, 3], tensor: [%d, %d]}], "
        "sequence_parallel: %s}, {layers: 1, split: sequence, shares: [%d, %d], groups: [{ranks: "
        "[4]}, {ranks: [5]}]}]}\n";
    struct hsp_model_spec s = spec_of("llama", true);
    s.sequence = 8; /* lengths that no other extent has, under any shares */
    struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
    m.t.data.sequence = 8;
    for (int i = 0; i < 4; i++) {
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file a, b;
        const char *rows = i / 2 == 0 ? "true" : "false";
        char text[1024];
        snprintf(text, sizeof text, form, i % 2, 3, 1, 2, 1, 1, 2, rows, 1, 1);
        plan_compile(text, &m, arena, &a);
        snprintf(text, sizeof text, form, i % 2, 1, 1, 1, 1, 1, 1, rows, 3, 1);
        plan_compile(text, &m, arena, &b);
        for (uint32_t r = 0; r < 6; r++) {
            assert_true(hsp_digest_equal(a.programs[r].tpl.digest, b.programs[r].tpl.digest));
        }
        hsp_arena_free(arena);
    }
    hsp_graph_free(m.g);
}

/* conf/plans/three-tiers.yaml is a plan for conf/jobs/tiny-gpt.yaml. */
static void the_example_compiles(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_model_spec s = spec_of("gpt", true);
    struct hsp_program_file f;
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    s.layers = 3;
    s.hidden = 64;
    s.heads = 4;
    s.vocab = 256;
    s.sequence = 64;
    struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
    m.t.data.sequence = 64;
    m.t.data.global_batch = m.t.data.eval_seqs = 16;
    char *text = hsp_test_source("conf/plans/three-tiers.yaml");
    assert_ok(hsp_plan_parse(text, strlen(text), "three-tiers", 16, arena, &p, &err), &err);
    assert_ok(hsp_compile(m.g, p, &m.t, arena, &f, &err), &err);
    assert_int_equal(f.n, 5);
    free(text);
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

/* A dim that cannot be cut is refused by its name. */
static void what_cannot_be_cut_is_refused(void **state)
{
    (void)state;
    static const char sequence[] =
        HSP_PLAN_HEAD "ranks: 2\npipelines: [{sequences: 7, stages: [{layers: 2, split: sequence, "
                      "groups: [{ranks: [0]}, {ranks: [1]}]}]}]";
    static const char batch[] =
        HSP_PLAN_HEAD "ranks: 2\npipelines: [{sequences: 7, stages: [{layers: 2, split: batch, "
                      "groups: [{ranks: [0]}, {ranks: [1]}]}]}]";
    static const struct {
        const char *family, *plan;
        uint8_t samples;
        const char *message;
    } cases[] = {
        {"mlp", sequence, HSP_SAMPLES_WINDOWS,
         "pipeline 0 stage 0: split: sequence, but mlp makes one row of a sequence"},
        {"gpt", batch, HSP_SAMPLES_WINDOWS,
         "split: batch takes whole micro-batches: a validation of 5 sequences does not come out "
         "even, 5 are left"},
        {"gpt", batch, HSP_SAMPLES_DOCUMENTS,
         "pipeline 0: split: batch needs micro-batches of one size, with data.samples: documents "
         "steps have as many sequences as they fill"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plan_model m = plan_model(cases[i].family, false, 2, HSP_OPT_ADAMW);
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file f;
        struct hsp_err err = {0};
        m.t.data.samples = cases[i].samples;
        assert_status(hsp_compile(m.g, plan_of_text(cases[i].plan, arena), &m.t, arena, &f, &err),
                      HSP_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
        hsp_arena_free(arena);
        hsp_graph_free(m.g);
    }
}

/* mlp knows micro-batches that are cut, and rows of a sequence inside of a group. */
static void mlp_as_unsharded(void **state)
{
    (void)state;
    struct plan_model m = plan_model("mlp", true, 2, HSP_OPT_ADAMW);
    for (size_t i = 0; i < hsp_n_group_cases; i++) {
        if (strstr(hsp_group_cases[i], "split: sequence") == NULL) {
            plan_run(hsp_group_cases[i], &m, i);
        }
    }
    hsp_graph_free(m.g);
}

/* A pipeline of TP 2, and a ring as those of HSPMD: two stages whose groups, of TP 2 and TP 1, cut
 * sequences unevenly. */
static void uneven_rings_as_unsharded(void **state)
{
    (void)state;
    static const char text[] = HSP_PLAN_HEAD
        "ranks: 9\npipelines:\n"
        "  - {sequences: 3, micro_batches: 3, stages: [{layers: 2, ranks: [0, 1]}]}\n"
        "  - {sequences: 4, micro_batches: 4, stages: [{layers: 1, split: sequence, shares: [3, "
        "5], "
        "groups: [{ranks: [2, 3]}, {ranks: [6]}]}, {layers: 1, split: sequence, shares: [3, 5], "
        "groups: [{ranks: [4, 5]}, {ranks: [7, 8]}]}]}\n";
    static const char *const families[] = {"gpt", "llama"};
    for (int i = 0; i < 2; i++) {
        struct hsp_model_spec s = spec_of(families[i], false);
        struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
        plan_run(text, &m, 1);
        hsp_graph_free(m.g);
    }
}

HSP_TEST_FILE(stage_groups_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_rings_as_unsharded),
        cmocka_unit_test(gpt_as_unsharded),
        cmocka_unit_test(tied_embeddings_as_unsharded),
        cmocka_unit_test(packed_documents_as_unsharded),
        cmocka_unit_test(llama_as_unsharded),
        cmocka_unit_test(mlp_as_unsharded),
        cmocka_unit_test(the_example_compiles),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
        cmocka_unit_test(random_plans_as_unsharded),
        cmocka_unit_test(templates_are_free_of_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
