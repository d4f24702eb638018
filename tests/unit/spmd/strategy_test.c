/* Strategies of the HSPMD artifact: read, and compiled as they were published. */
#include <stdio.h>

#include "daemon/graph/autodiff.h"
#include "daemon/spmd/compile.h"
#include "daemon/spmd/complete.h"
#include "daemon/spmd/names.h"
#include "daemon/spmd/resolve.h"
#include "daemon/spmd/strategy.h"
#include "tests/lib/testlib.h"
#include "tests/unit/spmd/strategycases.h"

#define ARENA_BYTES ((size_t)1 << 30)
#define TEXT_BYTES  ((size_t)64 << 20)
#define FILE_NAME   "conf/plans/hspmd-strategies.json"

enum { BATCH = 64, SEQUENCE = 4, VOCAB = 11 };

static enum hsp_status read(const char *text, struct hsp_arena *arena, struct hsp_strategies *ret,
                            struct hsp_err *err)
{
    return hsp_strategies_parse(text, strlen(text), "s", arena, ret, err);
}

static void assert_plan(const char *text, const char *want)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_strategies all;
    struct hsp_err err = {0};
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 16);
    assert_ok(read(text, arena, &all, &err), &err);
    assert_int_equal(all.n, 1);
    hsp_plan_dump(all.of[0].plan, &b);
    for (uint32_t r = 0; r < all.of[0].plan->n_ranks; r++) {
        hsp_buf_printf(&b, "%s%u", r == 0 ? "on " : " ", all.of[0].device[r]);
    }
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
    hsp_arena_free(arena);
}

static void packed_strategies_are_plans(void **state)
{
    (void)state;
    assert_plan(strategy_packed,
                "apiVersion: hspmd/v1\nkind: plan\nranks: 5\nzero: 0\nstreams:\n"
                "  - sequences: 3\n    micro_batches: 3\n    schedule: 1f1b\n    stages:\n"
                "      - {layers: 2, ranks: [4, 0]}\n      - {layers: 1, ranks: [1]}\n"
                "  - sequences: 2\n    micro_batches: 2\n    schedule: 1f1b\n    stages:\n"
                "      - {layers: 3, ranks: [2, 3]}\non 1 2 3 5 8");
    assert_plan("{max_tp: 2, layers: [[1, 1]], micro_batches: [4], stage_devices: [[[3], [1, 2]]]}",
                "apiVersion: hspmd/v1\nkind: plan\nranks: 3\nzero: 0\nstreams:\n"
                "  - sequences: 4\n    micro_batches: 4\n    schedule: 1f1b\n    stages:\n"
                "      - {layers: 1, ranks: [2]}\n      - {layers: 1, ranks: [0, 1]}\non 1 2 3");
}

static void expanded_strategies_are_plans(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_strategies all;
    struct hsp_err err = {0};
    assert_ok(read(strategy_expanded, arena, &all, &err), &err);
    const struct hsp_plan *p = all.of[0].plan;
    assert_int_equal(p->n_ranks, 5);
    assert_int_equal(p->zero, 1);
    assert_int_equal(p->n_streams, 2);
    assert_int_equal(p->streams[0].n_stages, 2);
    assert_int_equal(p->streams[0].stages[0].layers, 2);
    assert_int_equal(p->streams[0].stages[0].saved, HSP_SAVED_RECOMPUTE);
    assert_int_equal(p->streams[0].stages[1].layers, 1);
    assert_int_equal(p->streams[0].stages[1].ranks[1], 3);
    assert_int_equal(p->streams[0].stages[1].saved, HSP_SAVED_KEEP);
    assert_int_equal(p->streams[1].n_stages, 1);
    assert_int_equal(p->streams[1].stages[0].layers, 3);
    assert_int_equal(p->streams[1].stages[0].ranks[0], 4);
    hsp_arena_free(arena);
}

static void assert_refused(const char *text, const char *want)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_strategies all;
    struct hsp_err err = {0};
    assert_status(read(text, arena, &all, &err), HSP_EPARSE);
    assert_err(&err, HSP_EPARSE, want);
    hsp_arena_free(arena);
}

static void broken_strategies_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused("[]", "s:1:1: wanted a map, found a list");
    assert_refused("{strategies: []}", "s:1:14: strategies: 0 strategies, must be 1 to 4096");
    assert_refused("{a: 1}", "s:1:1: neither layers of stages nor blocks of a model");
    assert_refused("{layers: [[1]], max_tp: 1}", "s:1:1: missing key micro_batches");
    assert_refused("{layers: [[1]], micro_batches: [1]}", "s:1:1: missing key max_tp");
    assert_refused("{layers: [[1]], micro_batches: [1, 2], max_tp: 1}",
                   "s:1:32: micro_batches: 2 entries, must be 1 to 1");
    assert_refused("{layers: [[1]], micro_batches: [1], max_tp: 2, unused_ranks: [0, 1]}",
                   "s:1:12: a stage of 0 devices, must be 1 to 2");
    assert_refused("{layers: [[1]], micro_batches: [1], max_tp: 2, rank_to_device: [[0, 5]]}",
                   "s:1:12: rank 1 has no device");
    assert_refused("{layers: [[1]], micro_batches: [1], max_tp: 1, rank_to_device: [[1, 5]]}",
                   "s:1:65: rank 1 of 1");
    assert_refused("{layers: [[1]], micro_batches: [1], max_tp: 1, rank_to_device: {x: 5}}",
                   "s:1:68: x: x is not a rank");
    assert_refused(
        "{layers: [[1]], micro_batches: [1], max_tp: 2, rank_to_device: [[0, 5], [1, 5]]}",
        "s:1:1: device 5 is in two places");
    assert_refused("{layers: [[1]], micro_batches: [1], max_tp: 1, CP_LIST: [2]}",
                   "s:1:58: rings of 2 cannot be imported");
    assert_refused("{layers: [[1], [1]], micro_batches: [1, 1], max_tp: 1, SEQ_LEN_LIST: [8, 4]}",
                   "s:1:74: streams with sequences of 8 and of 4 cannot be imported");
    assert_refused("{layers: [[1]], micro_batches: [1], max_tp: 1, tp: 1}",
                   "s:1:48: unknown key \"tp\"");
}

/* One change to the text of the expanded strategy. */
static void assert_change_refused(const char *from, const char *to, const char *want)
{
    char text[sizeof strategy_expanded + 256];
    const char *at = strstr(strategy_expanded, from);
    assert_non_null(at);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - strategy_expanded), strategy_expanded,
                   to, at + strlen(from));
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_strategies ret;
    struct hsp_err err = {0};
    assert_status(read(text, arena, &ret, &err), HSP_EPARSE);
    if (strstr(err.msg, want) == NULL) {
        fail_msg("%s, not %s", err.msg, want);
    }
    hsp_arena_free(arena);
}

static void broken_unions_are_refused_by_name(void **state)
{
    (void)state;
    assert_change_refused("\"range\": [2]", "\"range\": [1, 2]", "layer 1 is in two blocks");
    assert_change_refused("\"range\": [2]", "\"range\": [3]", "layer 2 is in no block");
    assert_change_refused("\"range\": [2]", "\"range\": [3, 2]", "not a range of layers");
    assert_change_refused("\"cpu_offload\": false", "\"cpu_offload\": true",
                          "cpu_offload: this cannot be imported");
    assert_change_refused("[true, false]", "[true]", "recompute: 1 flags for 2 groups");
    assert_change_refused("\"qkv\": {\"split\": {\"1\": [2, 1]}",
                          "\"qkv\": {\"split\": {\"1\": [1, 1]}",
                          "qkv: group 0: cut in 1 with 2 copies, must be in 2 with 2");
    assert_change_refused("\"dup\": [2, 1]", "\"dup\": [1, 1]",
                          "input: group 0: cut in 2 with 1 copies, must be in 2 with 2");
    assert_change_refused("\"dup\": [2, 1]", "\"dup\": [2]", "dup: 1 counts for 2 groups");
    assert_change_refused("\"qkv\": {\"split\"", "\"qkv\": {\"device_group_union\": [[1]], \"x\"",
                          "device_group_union");
    assert_change_refused("\"placeholder\"", "\"variable\"", "type: this is no variable");
    assert_change_refused("[[4, 5], [9]], \"type\": \"placeholder\"",
                          "[[4, 6], [9]], \"type\": \"placeholder\"",
                          "group 0 is not that of its layer");
}

/* ---- as they were published ---- */

static struct hsp_graph *toy(int64_t layers, int64_t heads)
{
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = layers,
                               .hidden = 2 * heads,
                               .heads = heads,
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

/* The text of a strategy as a plan, read back under the toy's global batch. */
static struct hsp_plan *as_plan(const struct hsp_strategy *s, struct hsp_arena *arena)
{
    struct hsp_buf b;
    struct hsp_plan *p = NULL;
    struct hsp_err err = {0};
    hsp_buf_init(&b, 1 << 20);
    hsp_plan_dump(s->plan, &b);
    assert_ok(hsp_plan_parse(hsp_buf_cstr(&b), b.len, s->cluster, BATCH, arena, &p, &err), &err);
    hsp_buf_fini(&b);
    return p;
}

static void published_strategies_compile(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_strategies all;
    struct hsp_err err = {0};
    char *text = hsp_test_source(FILE_NAME);
    struct hsp_graph *small = toy(60, 8), *large = toy(80, 8);
    assert_ok(hsp_strategies_parse(text, strlen(text), FILE_NAME, arena, &all, &err), &err);
    assert_int_equal(all.n, 16);
    for (uint32_t i = 0; i < all.n; i++) {
        const struct hsp_graph *g = strstr(all.of[i].model, "70B") != NULL ? large : small;
        struct hsp_arena *of = hsp_arena_new(ARENA_BYTES);
        struct hsp_program_file f = {0};
        struct hsp_plan total;
        struct hsp_plan *p = as_plan(&all.of[i], of);
        enum hsp_status st = hsp_plan_check(p, g, BATCH, &err);
        st = st == HSP_OK ? hsp_compile_total(g, p, &train, of, &f, &total, &err) : st;
        if (st != HSP_OK) {
            fail_msg("strategy %u, %s: %s", i, all.of[i].cluster, err.msg);
        }
        assert_int_equal(f.n, p->n_ranks);
        for (uint32_t r = 0; r < f.n; r++) {
            assert_ok(hsp_program_check(&f.programs[r], &err), &err);
        }
        hsp_arena_free(of);
    }
    hsp_graph_free(small);
    hsp_graph_free(large);
    free(text);
    hsp_arena_free(arena);
}

/* The Reshard of Post that sums the gradient of @name. */
static const struct hsp_plan_reshard *sum_of(const struct hsp_plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_reshards; i++) {
        struct hsp_range r;
        const struct hsp_plan_reshard *x = &p->reshards[i];
        if (x->phase == HSP_PHASE_POST && hsp_range_parse(x->makes, &r) &&
            hsp_range_has(&r, name)) {
            return x;
        }
    }
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

/* Where the two pipelines of C2 meet: 31 devices, TP 4, 2 and 1 in the second. */
static void gradients_of_c2_meet_in_pairs(void **state)
{
    (void)state;
    struct hsp_arena *arena = hsp_arena_new(ARENA_BYTES);
    struct hsp_strategies all;
    struct hsp_err err = {0};
    char *text = hsp_test_source(FILE_NAME);
    struct hsp_graph *g = toy(60, 8);
    struct hsp_plan total;
    assert_ok(hsp_strategies_parse(text, strlen(text), FILE_NAME, arena, &all, &err), &err);
    const struct hsp_strategy *c2 = &all.of[all.n - 1];
    assert_non_null(strstr(c2->cluster, "C2"));
    assert_int_equal(c2->plan->n_ranks, 31);
    assert_ok(hsp_plan_complete(g, as_plan(c2, arena), &train, arena, &total, &err), &err);
    static const char *const weights[] = {"attn.q.weight", "attn.proj.weight", "mlp.fc.weight",
                                          "mlp.proj.weight"};
    for (uint32_t layer = 0; layer < 60; layer++) {
        uint32_t of_first = layer / 15 * 4;
        uint32_t of_second = layer < 48 ? 16 + layer / 16 * 4 : layer < 56 ? 28 : 30;
        uint32_t members = layer < 48 ? 4 : layer < 56 ? 2 : 1;
        for (int w = 0; w < 4; w++) {
            char name[64];
            (void)snprintf(name, sizeof name, "h.%u.%s#grad", layer, weights[w]);
            const struct hsp_plan_reshard *r = sum_of(&total, name);
            if (r == NULL) {
                fail_msg("%s is not summed", name);
                return;
            }
            for (uint32_t q = 0; q < 4; q++) {
                assert_group(r, of_first + q, of_second + q * members / 4);
            }
            assert_int_equal(r->n_moves, 4);
        }
    }
    hsp_graph_free(g);
    free(text);
    hsp_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_strategies_are_plans),
        cmocka_unit_test(expanded_strategies_are_plans),
        cmocka_unit_test(broken_strategies_are_refused_by_name),
        cmocka_unit_test(broken_unions_are_refused_by_name),
        cmocka_unit_test(published_strategies_compile),
        cmocka_unit_test(gradients_of_c2_meet_in_pairs),
    };
    return cmocka_run_group_tests_name("strategy", tests, NULL, NULL);
}
