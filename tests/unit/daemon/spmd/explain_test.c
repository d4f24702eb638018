/* Tests the words of plans on their Reshards: names and microseconds, which are no part of a plan's
 * meaning. */
#include <stdio.h>

#include "daemon/graph/graph.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/total/total_plan.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/plan/plan_model.h"

#define ARENA_BYTES ((size_t)1 << 30)
#define TEXT_BYTES  ((size_t)64 << 20)

static struct hsp_link_cost between(const void *ctx, uint32_t from, uint32_t to)
{
    (void)ctx;
    return from / 4 == to / 4 ? (struct hsp_link_cost){5, 0.001} : (struct hsp_link_cost){20, 0.02};
}

static const struct hsp_rank_links links = {.between = between};

static struct hsp_plan *parse(const char *text, struct hsp_arena *arena)
{
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    enum hsp_status rc = hsp_plan_parse(text, strlen(text), "plan", PLAN_BATCH, arena, &p, &err);
    if (rc != HSP_OK) {
        fail_msg("%s, in\n%s", err.msg, text);
    }
    return p;
}

static struct hsp_plan explain(const char *text, const struct plan_model *m,
                               const struct hsp_rank_links *l, struct hsp_arena *arena)
{
    struct hsp_plan total;
    struct hsp_err err = {0};
    enum hsp_status rc = hsp_plan_explain(m->g, parse(text, arena), &m->t, l, arena, &total, &err);
    if (rc != HSP_OK) {
        fail_msg("%s, under\n%s", err.msg, text);
    }
    return total;
}

/* Tensor, pipeline and data parallel, all alike (T10). */
static const char alike[] =
    HSP_PLAN_HEAD "ranks: 8\nzero: %d\npipelines:\n"
                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: [0, 1]}, "
                  "{layers: 1, ranks: [2, 3]}]}\n"
                  "  - {sequences: 3, micro_batches: 2, stages: [{layers: 1, ranks: [4, 5]}, "
                  "{layers: 1, ranks: [6, 7]}]}\n";

static void expect_alike(int zero, const char *const *allowed, size_t n)
{
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct plan_model m = plan_model("gpt", false, 2, HSP_OPT_ADAMW);
    char text[2048];
    bool met[8] = {false};
    (void)snprintf(text, sizeof text, alike, zero);
    struct hsp_plan total = explain(text, &m, &links, arena);
    for (uint32_t i = 0; i < total.n_reshards; i++) {
        const struct hsp_plan_reshard *r = &total.reshards[i];
        bool local = strcmp(r->method, "identity") == 0 || strcmp(r->method, "slice") == 0;
        bool known = local;
        for (size_t k = 0; k < n; k++) {
            known = known || strcmp(r->method, allowed[k]) == 0;
            met[k] = met[k] || strcmp(r->method, allowed[k]) == 0;
        }
        if (!known) {
            fail_msg("%s is a %s", r->makes, r->method);
        }
        assert_true(local ? r->us == 0 : r->us >= 5);
    }
    for (size_t k = 0; k < n; k++) {
        assert_true(met[k]);
    }
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

/* A homogeneous plan falls back to the collectives of ordinary SPMD. */
static void test_alike(void **state)
{
    (void)state;
    static const char *const plain[] = {"all_reduce", "send_recv"};
    static const char *const sharded[] = {"all_reduce", "send_recv", "reduce_scatter",
                                          "all_gather"};
    expect_alike(0, plain, 2);
    expect_alike(1, sharded, 4);
}

static bool says(const struct hsp_plan *p, uint8_t phase, const char *makes, const char *method)
{
    for (uint32_t i = 0; i < p->n_reshards; i++) {
        const struct hsp_plan_reshard *r = &p->reshards[i];
        if (r->phase == phase && strcmp(r->makes, makes) == 0) {
            assert_string_equal(r->method, method);
            return true;
        }
    }
    return false;
}

/* Unlike tensor parallelism: gradients meet on the finest slices, activations change hands by
 * BSR. */
static void test_unlike(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct plan_model m = plan_model("gpt", false, 2, HSP_OPT_ADAMW);
    struct hsp_plan total = explain(
        HSP_PLAN_HEAD "ranks: 4\npipelines:\n"
                      "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: [0, 1]}, "
                      "{layers: 1, ranks: [2]}]}\n"
                      "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3]}]}\n",
        &m, &links, arena);
    assert_true(says(&total, HSP_PHASE_POST, "h.0.attn.q.weight#grad", "split_all_reduce"));
    assert_true(says(&total, HSP_PHASE_POST, "h.1.attn.q.weight#grad", "all_reduce"));
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

/* Dump and parse keep the explanation; the plan means the same with, without and with another
 * one. */
static void test_meaning(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    for (size_t i = 0; i < hsp_n_plan_cases; i++) {
        struct hsp_plan with = explain(hsp_plan_cases[i], &m, &links, arena);
        struct hsp_plan without;
        struct hsp_digest a, b, c;
        struct hsp_err err = {0};
        struct hsp_buf x, y;
        hsp_buf_init(&x, TEXT_BYTES);
        hsp_buf_init(&y, TEXT_BYTES);
        assert_ok(
            hsp_plan_complete(m.g, parse(hsp_plan_cases[i], arena), &m.t, arena, &without, &err),
            &err);
        assert_ok(hsp_total_digest(&with, &a, &err), &err);
        assert_ok(hsp_total_digest(&without, &b, &err), &err);
        assert_true(hsp_digest_equal(a, b));
        hsp_plan_dump(&with, &x);
        struct hsp_plan *back = parse(hsp_buf_cstr(&x), arena);
        hsp_plan_dump(back, &y);
        assert_string_equal(hsp_buf_cstr(&x), hsp_buf_cstr(&y));
        if (back->n_reshards > 0) { /* a wrong word is said again */
            back->reshards[0].method = "magic";
            back->reshards[0].us = 1e9;
        }
        assert_ok(hsp_plan_digest(m.g, back, &m.t, &c, &err), &err);
        assert_true(hsp_digest_equal(a, c));
        hsp_buf_fini(&x);
        hsp_buf_fini(&y);
    }
    hsp_graph_free(m.g);
    hsp_arena_free(arena);
}

HSP_TEST_FILE(explain_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_unlike),
        cmocka_unit_test(test_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
