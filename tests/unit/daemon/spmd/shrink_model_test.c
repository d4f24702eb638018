/* Tests that programs at small extents are the job's: templates, uneven and empty shares; and
 * small. (The sender of a copy that several have follows from loads in bytes, so moves may
 * differ.) */
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/plan/pool_view.h"
#include "daemon/spmd/total/total_plan.h"
#include "daemon/spmd/verify/shrink_model.h"
#include "proto/layout/box.h"
#include "proto/program/program_check.h"
#include "tests/unit/daemon/plan/plan_cases.h"

#define ARENA_BYTES ((size_t)2 << 30)

static struct hsp_train_spec train(const struct hsp_model_spec *m, uint32_t batch)
{
    return (struct hsp_train_spec){.hyper = {.steps = 10, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95},
                                   .data = {.seed = 3,
                                            .global_batch = batch,
                                            .sequence = (uint32_t)m->sequence,
                                            .eval_seqs = batch,
                                            .validation_every = 20,
                                            .validation_fraction = 0.1,
                                            .next_token_only = strcmp(m->family, "mlp") == 0,
                                            .vocab = (uint32_t)m->vocab},
                                   .eps = 1e-8,
                                   .weight_decay = 0.1};
}

struct made {
    struct hsp_graph *g;
    struct hsp_arena *arena;
    struct hsp_train_spec t;
    struct hsp_plan *p;
    struct hsp_program_file full, small;
    struct hsp_scaled_model size;
};

static void make(struct made *x, const struct hsp_model_spec *m, uint32_t batch, const char *plan)
{
    struct hsp_err err = {0};
    *x = (struct made){.arena = hsp_arena_new(ARENA_BYTES), .t = train(m, batch)};
    assert_ok(hsp_graph_build(m, &x->g, &err), &err);
    assert_ok(hsp_plan_parse(plan, strlen(plan), "plan", batch, x->arena, &x->p, &err), &err);
    assert_ok(hsp_compile(x->g, x->p, &x->t, x->arena, &x->full, &err), &err);
    if (hsp_compile_scaled(x->g, x->p, &x->t, x->arena, &x->small, &x->size, &err) != HSP_OK) {
        fail_msg("%s, under\n%s", err.msg, plan);
    }
}

static void done(struct made *x)
{
    hsp_graph_free(x->g);
    hsp_arena_free(x->arena);
}

/* Elements of a rank's part of its tensors: 0 here is 0 there. */
static void check_empty(const struct hsp_program *a, const struct hsp_program *b, const char *plan)
{
    for (uint32_t i = 0; i < a->tpl.n_tensors; i++) {
        if (hsp_box_empty(&a->bind.tensor[i].box) != hsp_box_empty(&b->bind.tensor[i].box)) {
            fail_msg("rank %u: %s is empty in one only, under\n%s", a->bind.rank,
                     a->tpl.tensors[i].name, plan);
        }
    }
}

static void check(const struct made *x, const char *plan)
{
    assert_int_equal(x->small.n, x->full.n);
    assert_int_equal(x->small.n_ref, 1);
    for (uint32_t r = 0; r < x->full.n; r++) {
        const struct hsp_program *a = &x->full.programs[r], *b = &x->small.programs[r];
        struct hsp_err err = {0};
        if (!hsp_digest_equal(a->tpl.digest, b->tpl.digest)) {
            fail_msg("rank %u has another template, under\n%s", r, plan);
        }
        assert_ok(hsp_program_check(b, &err), &err);
        check_empty(a, b, plan);
        assert_int_equal(b->bind.data.global_batch, x->size.global_batch);
    }
    const struct hsp_binding *ref = &x->small.ref[0].bind;
    assert_int_equal(ref->pipeline.n_micro, x->size.global_batch);
    assert_int_equal(ref->pipeline.eval_n_micro, ref->pipeline.eval_n_seq);
    assert_true(x->size.global_batch <= x->t.data.global_batch);
}

static const struct hsp_model_spec GPT = {.family = "gpt",
                                          .layers = 24,
                                          .hidden = 2048,
                                          .heads = 16,
                                          .vocab = 50257,
                                          .sequence = 1024,
                                          .tied_head = true,
                                          .dtype = HSP_F32};

/* A model of 1.3 billion parameters fits into a few hundred kilobytes; its uneven cuts stay. */
static void test_a_large_model(void **state)
{
    (void)state;
    static const char plan[] = HSP_PLAN_HEAD
        "ranks: 6\nzero: 1\npipelines:\n"
        "  - {sequences: 40, micro_batches: 10, stages: [{layers: 14, ranks: [0, 1], tensor: [11, "
        "5]}, {layers: 10, ranks: [2, 3], tensor: [9, 7]}]}\n"
        "  - {sequences: 24, micro_batches: 5, stages: [{layers: 24, ranks: [4, 5], tensor: [0, "
        "1]}]}\n";
    struct made x;
    make(&x, &GPT, 64, plan);
    check(&x, plan);
    assert_true(x.size.model.hidden <= 64 && x.size.model.sequence <= 32 &&
                x.size.model.vocab <= 64 && x.size.global_batch <= 24);
    assert_int_equal(x.size.model.layers, 24);
    assert_true(x.small.ref[0].bind.state_bytes < (4 << 20));
    /* 11 of 16 heads were more than 5 and are */
    const struct hsp_program *a = &x.small.programs[0], *b = &x.small.programs[1];
    for (uint32_t i = 0; i < a->tpl.n_tensors; i++) {
        if (strcmp(a->tpl.tensors[i].name, "h.0.attn.heads") == 0) {
            const struct hsp_box *p = &a->bind.tensor[i].box, *q = &b->bind.tensor[i].box;
            assert_true(p->hi[2] - p->lo[2] > q->hi[2] - q->lo[2]);
            assert_true(q->hi[2] > q->lo[2]);
        }
    }
    /* numbers are the job's, sizes are not: the scale of attention is that of heads of 128 */
    for (uint32_t i = 0; i < a->tpl.n_instrs; i++) {
        const struct hsp_instr *in = &a->tpl.instrs[i];
        if (in->kind == HSP_I_OP && in->op == HSP_OP_ATTENTION) {
            assert_near(in->at.f[0], 1 / sqrt(128), 1e-15);
            assert_true(a->bind.symbol[in->unit_sym] < 128);
            assert_int_equal(x.full.programs[0].bind.symbol[in->unit_sym], 128);
        }
    }
    done(&x);
}

/* Groups of query heads, the width of the feed-forward layers and the chunks of the vocabulary. */
static void test_a_llama(void **state)
{
    (void)state;
    static const char plan[] = HSP_PLAN_HEAD
        "ranks: 3\nzero: 1\npipelines:\n"
        "  - {sequences: 10, micro_batches: 5, stages: [{layers: 4, ranks: [0, 1], tensor: [2, "
        "1]}]}\n  - {sequences: 6, micro_batches: 3, stages: [{layers: 4, ranks: [2]}]}\n";
    struct hsp_model_spec m = {.family = "llama",
                               .layers = 4,
                               .hidden = 512,
                               .heads = 16,
                               .kv_heads = 4,
                               .intermediate = 1376,
                               .vocab = 4096,
                               .sequence = 256,
                               .rope_theta = 10000,
                               .rms_norm_eps = 1e-5,
                               .dtype = HSP_F32};
    for (int chunks = 0; chunks <= 8; chunks += 8) {
        struct made x;
        m.vocab_chunks = chunks;
        make(&x, &m, 16, plan);
        check(&x, plan);
        const struct hsp_model_spec *s = &x.size.model;
        assert_true(s->hidden <= 128 && s->intermediate <= 128 && s->vocab <= 256);
        assert_int_equal(s->heads, 4 * s->kv_heads);
        assert_int_equal(s->vocab_chunks, chunks);
        done(&x);
    }
}

/* A total plan, as printed and read again, too: its homes are cuts. */
static void test_a_total_plan(void **state)
{
    (void)state;
    struct made x, y;
    struct hsp_plan total;
    struct hsp_err err = {0};
    struct hsp_buf b;
    struct hsp_model_spec m = GPT;
    m.layers = 2;
    for (size_t i = 0; i < hsp_n_plan_cases; i++) {
        make(&x, &m, 7, hsp_plan_cases[i]);
        check(&x, hsp_plan_cases[i]);
        assert_ok(hsp_plan_complete(x.g, x.p, &x.t, x.arena, &total, &err), &err);
        hsp_buf_init(&b, (size_t)16 << 20);
        hsp_plan_dump(&total, &b);
        make(&y, &m, 7, hsp_buf_cstr(&b));
        check(&y, hsp_buf_cstr(&b));
        for (uint32_t r = 0; r < x.small.n; r++) {
            assert_true(hsp_digest_equal(x.small.programs[r].bind.plan_digest,
                                         y.small.programs[r].bind.plan_digest));
        }
        hsp_buf_fini(&b);
        done(&x);
        done(&y);
    }
}

/* Stages of several groups: sequences and micro-batches shrink with their cuts. */
static void test_groups(void **state)
{
    (void)state;
    struct hsp_model_spec m = GPT;
    struct made x;
    m.layers = 2;
    for (size_t i = 0; i < hsp_n_group_cases; i++) {
        make(&x, &m, 7, hsp_group_cases[i]);
        check(&x, hsp_group_cases[i]);
        assert_true(x.size.model.hidden < 64 && x.size.model.sequence < 64);
        done(&x);
    }
    static const char far[] = HSP_PLAN_HEAD
        "ranks: 4\npipelines: [{sequences: 80, micro_batches: 2, stages: [{layers: 1, "
        "split: sequence, shares: [100, 1], groups: [{ranks: [0]}, {ranks: [1]}]}, "
        "{layers: 1, split: batch, shares: [9, 1], groups: [{ranks: [2]}, {ranks: "
        "[3]}]}]}]";
    make(&x, &m, 80, far);
    check(&x, far);
    assert_true(x.size.model.sequence >= 51 && x.size.model.sequence < 70);
    assert_int_equal(x.size.global_batch, 12); /* 6 of a micro-batch: 5 and 1 */
    done(&x);
}

/* Extents that are equal by chance are one symbol, and stay equal. */
static void test_equal_extents(void **state)
{
    (void)state;
    struct hsp_model_spec m = GPT;
    struct made x;
    m.layers = 2;
    m.sequence = 2048; /* as the hidden state */
    m.vocab = 8192;    /* as the inner layer of the MLP */
    make(&x, &m, 7, hsp_plan_cases[3]);
    check(&x, hsp_plan_cases[3]);
    assert_int_equal(x.size.model.sequence, x.size.model.hidden);
    assert_int_equal(x.size.model.vocab, 4 * x.size.model.hidden);
    assert_true(x.size.model.hidden < 64);
    done(&x);
}

/* Random plans with empty shares, both families, sizes up to the tiny ones that cannot shrink. */
static void test_random(void **state)
{
    (void)state;
    uint64_t draw = 0;
    for (uint32_t i = 0; i < hsp_test_rounds(40); i++) {
        struct hsp_model_spec m = GPT;
        struct hsp_buf b;
        struct made x;
        m.layers = 2;
        m.tied_head = hsp_plan_pick(&draw, 0, 1) == 0;
        m.heads = 1 << hsp_plan_pick(&draw, 0, 4);
        m.hidden = m.heads << hsp_plan_pick(&draw, 1, 6);
        m.sequence = hsp_plan_pick(&draw, 2, 600);
        m.vocab = hsp_plan_pick(&draw, 4, 3000);
        if (hsp_plan_pick(&draw, 0, 2) == 0) {
            memcpy(m.family, "mlp", sizeof "mlp");
            m.heads = 0;
            m.sequence = hsp_plan_pick(&draw, 2, 20);
        }
        hsp_buf_init(&b, (size_t)1 << 20);
        hsp_random_plan(&draw, 2, 11, &b);
        make(&x, &m, 11, hsp_buf_cstr(&b));
        check(&x, hsp_buf_cstr(&b));
        hsp_buf_fini(&b);
        done(&x);
    }
}

/* Homes by hand, nested and cut anywhere. */
static void test_homes(void **state)
{
    (void)state;
    static const char plan[] = HSP_PLAN_HEAD
        "ranks: 3\npipelines:\n"
        "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0, 1], tensor: [2, "
        "1]}]}\n"
        "  - {sequences: 3, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n"
        "parameters:\n"
        "  - {name: \"*.mlp.fc.weight\", home: {split: 0, cuts: [0, 100, 8192], of: [2, {split: 1, "
        "shares: [1, 3], of: [0, 1]}]}}\n"
        "  - {name: wte.weight, home: {dup: [0, {split: 0, shares: [7, 1], of: [1, 2]}]}}\n"
        "  - {name: \"*.ln_?.bias\", home: 1}\n";
    struct hsp_model_spec m = GPT;
    struct made x;
    m.layers = 2;
    make(&x, &m, 7, plan);
    check(&x, plan);
    assert_true(x.size.model.hidden <= 64);
    done(&x);
}

/* Each plan of a pool by itself: the length it is for shrinks with the rest, also where the longest
 * one is an extent that the model has anyway. */
static void test_plans_of_a_pool(void **state)
{
    (void)state;
    for (unsigned longest = 1024; longest <= 2048; longest *= 2) {
        struct hsp_model_spec m = GPT;
        m.layers = 2;
        m.packed = true;
        m.sequence = longest;
        struct made x = {.arena = hsp_arena_new(ARENA_BYTES), .t = train(&m, 4)};
        struct hsp_plan total;
        struct hsp_err err = {0};
        char text[600];
        (void)snprintf(
            text, sizeof text,
            "apiVersion: hspmd/v1\nkind: pool\nplans:\n"
            "  - {max_length: 256, plan: {ranks: 2, pipelines: [{sequences: 4, micro_batches: 2, "
            "stages: [{layers: 2, ranks: [0, 1], tensor: [3, 1]}]}]}}\n"
            "  - {max_length: %u, plan: {ranks: 2, pipelines: [{sequences: 4, micro_batches: 2, "
            "stages: [{layers: 1, ranks: [0]}, {layers: 1, ranks: [1]}]}]}}\n",
            longest);
        x.t.data.longest = x.t.data.sequence;
        x.t.data.samples = HSP_SAMPLES_DOCUMENTS;
        x.t.data.packing = HSP_PACKING_END;
        assert_ok(hsp_graph_build(&m, &x.g, &err), &err);
        assert_ok(hsp_plan_parse(text, strlen(text), "pool", 4, x.arena, &x.p, &err), &err);
        assert_ok(hsp_plan_complete(x.g, x.p, &x.t, x.arena, &total, &err), &err);
        for (uint32_t k = 0; k < 2; k++) {
            struct hsp_pool_view v;
            hsp_pool_view_make(x.g, &x.t, hsp_pool_plan(&total, k), NULL, &v);
            assert_ok(hsp_compile(&v.g, &v.p, &v.t, x.arena, &x.full, &err), &err);
            assert_ok(hsp_compile_scaled(&v.g, &v.p, &v.t, x.arena, &x.small, &x.size, &err), &err);
            check(&x, text);
            assert_true(x.size.model.hidden <= 64 && x.size.model.sequence <= 64);
        }
        done(&x);
    }
}

HSP_TEST_FILE(shrink_model_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_model), cmocka_unit_test(test_a_llama),
        cmocka_unit_test(test_a_total_plan),  cmocka_unit_test(test_groups),
        cmocka_unit_test(test_equal_extents), cmocka_unit_test(test_random),
        cmocka_unit_test(test_homes),         cmocka_unit_test(test_plans_of_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
