/* Strategies in the forms of the HSPMD artifact are plans. */
#include <stdio.h>

#include "daemon/spmd/strategy.h"
#include "tests/lib/testlib.h"
#include "tests/unit/spmd/strategycases.h"

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

/* Virtual ranks 2 to 5 are the second pipeline, 6 to 9 the third, 7 is not there. */
static void rings_are_groups_that_cut_sequences(void **state)
{
    (void)state;
    assert_plan(strategy_packed_rings,
                "apiVersion: hspmd/v1\nkind: plan\nranks: 9\nzero: 0\nstreams:\n"
                "  - sequences: 3\n    micro_batches: 3\n    schedule: 1f1b\n    stages:\n"
                "      - {layers: 3, ranks: [0, 1]}\n"
                "  - sequences: 2\n    micro_batches: 2\n    schedule: 1f1b\n    stages:\n"
                "      - {layers: 2, split: sequence, shares: [1, 3], groups: [{ranks: [2, 3]}, "
                "{ranks: [6]}]}\n"
                "      - {layers: 1, split: sequence, shares: [1, 3], groups: [{ranks: [4, 5]}, "
                "{ranks: [7, 8]}]}\n"
                "on 0 1 2 3 4 5 6 8 9");
    assert_plan(
        strategy_rings,
        "apiVersion: hspmd/v1\nkind: plan\nranks: 6\nzero: 0\nstreams:\n"
        "  - sequences: 3\n    micro_batches: 3\n    schedule: 1f1b\n    stages:\n"
        "      - {layers: 2, ranks: [0, 1], saved: keep}\n"
        "  - sequences: 5\n    micro_batches: 5\n    schedule: 1f1b\n    stages:\n"
        "      - {layers: 1, split: sequence, shares: [3, 5], groups: [{ranks: [2]}, {ranks: "
        "[3]}], saved: recompute}\n"
        "      - {layers: 1, split: sequence, shares: [3, 5], groups: [{ranks: [4]}, {ranks: "
        "[5]}], saved: recompute}\n"
        "on 0 1 2 3 4 5");
}

/* A block keeps, computes again or offloads what it saves, each pipeline for itself. */
static void flags_of_blocks_say_what_is_saved(void **state)
{
    (void)state;
    char text[4096];
    const char *at = strstr(strategy_rings, "\"blocks1\": {\"range\": [1], \"recompute\"");
    assert_non_null(at);
    const char *flags = strstr(at, "[false, true, true]");
    (void)snprintf(text, sizeof text, "%.*sfalse, \"cpu_offload\": [false, true, true]%s",
                   (int)(flags - strategy_rings), strategy_rings, flags + 19);
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_strategies all;
    struct hsp_err err = {0};
    assert_ok(read(text, arena, &all, &err), &err);
    const struct hsp_stream *s = all.of[0].plan->streams;
    assert_int_equal(s[0].stages[0].saved, HSP_SAVED_KEEP);
    assert_int_equal(s[1].stages[0].saved, HSP_SAVED_RECOMPUTE);
    assert_int_equal(s[1].stages[1].saved, HSP_SAVED_OFFLOAD);
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
    assert_refused("{llama: {blocks: {}}, gpt: {blocks: {}}}",
                   "s:1:28: gpt: a strategy is of one model, here are gpt and llama");
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
                   "s:1:57: CP_LIST: rings of 2 pipelines, there are 1");
    assert_refused("{layers: [[1], [1]], micro_batches: [1], max_tp: 1, CP_LIST: [2, 0]}",
                   "s:1:66: CP_LIST has a ring of no pipelines");
    assert_refused("{layers: [[1], [2]], micro_batches: [1], max_tp: 1, CP_LIST: [2]}",
                   "s:1:16: pipeline 1 has not the layers of pipeline 0, of whose ring it is");
    assert_refused("{layers: [[1], [1]], micro_batches: [1], max_tp: 1, CP_LIST: [2], DP: 2}",
                   "s:1:71: DP: 2 is outside 1 to 1");
    assert_refused("{layers: [[1], [1]], micro_batches: [1, 1], max_tp: 1, CP_LIST: [2]}",
                   "s:1:37: micro_batches: 2 entries, must be 1 to 1");
    assert_refused("{layers: [[1], [1], [1]], micro_batches: [1, 1], max_tp: 1, CP_LIST: [2, 1], "
                   "SEQ_LEN_LIST: [8, 4, 8]}",
                   "s:1:99: streams with sequences of 12 and of 8 cannot be imported");
    assert_refused("{layers: [[1], [1]], micro_batches: [1], max_tp: 1, CP_LIST: [2], "
                   "SEQ_LEN_LIST: [8]}",
                   "s:1:81: SEQ_LEN_LIST: 1 lengths for 2 pipelines");
    assert_refused("{layers: [[1], [1]], micro_batches: [1], max_tp: 1, CP_LIST: [2], "
                   "SEQ_LEN_LIST: [0, 0]}",
                   "s:1:82: streams with sequences of 0 and of 0 cannot be imported");
    assert_refused("{layers: [[1], [1]], micro_batches: [1, 1], max_tp: 1, SEQ_LEN_LIST: [8, 4]}",
                   "s:1:74: streams with sequences of 8 and of 4 cannot be imported");
    assert_refused("{layers: [[1]], micro_batches: [1], max_tp: 1, tp: 1}",
                   "s:1:48: unknown key \"tp\"");
}

/* One change to the text @whole. */
static void assert_changed(const char *whole, const char *from, const char *to, const char *want)
{
    char text[4096];
    const char *at = strstr(whole, from);
    assert_non_null(at);
    int n =
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    assert_in_range(n, 0, sizeof text - 1);
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_strategies ret;
    struct hsp_err err = {0};
    assert_status(read(text, arena, &ret, &err), HSP_EPARSE);
    if (strstr(err.msg, want) == NULL) {
        fail_msg("%s, not %s", err.msg, want);
    }
    hsp_arena_free(arena);
}

static void assert_change_refused(const char *from, const char *to, const char *want)
{
    assert_changed(strategy_expanded, from, to, want);
}

/* The pipelines of a ring go through the same stages, and keep the same. */
static void broken_rings_are_refused_by_name(void **state)
{
    (void)state;
    const char *of = strategy_rings;
    assert_changed(of, "[1, 2], \"SEQ", "[1, 3], \"SEQ",
                   "CP_LIST: rings of 4 pipelines, there are 3");
    assert_changed(of, "[1024, 384, 640]", "[1024, 384, 641]",
                   "streams with sequences of 1024 and of 1025 cannot be imported");
    assert_changed(of, "[3, 5]", "[3]", "MICRO_BATCH_NUM_LIST: 1 entries, must be 2");
    assert_changed(of, "[3, 5]", "[3, 0]", "0 is outside 1 to 4096");
    assert_changed(of, "[false, true, true]", "[false, false, true]",
                   "groups 1 and 2 of a ring differ in what they save");
    assert_changed(of, "[4], [5]", "[4], [3]",
                   "groups 1 to 2 are a ring, and not all of them have both layer 0 and layer 1");
    assert_changed(of, "\"split\": {}, \"dup\": [6, 3, 3]", "\"split\": {}, \"dup\": [6, 3, 2]",
                   "wpe: group 2: cut in 1 with 2 copies, must be in 1 with 3");
    assert_changed(of, "\"split\": {\"0\": [2, 1, 1]}, \"dup\": [6, 3, 3]",
                   "\"split\": {\"0\": [4, 1, 1]}, \"dup\": [6, 3, 3]",
                   "layernorm1: group 0: cut in 4 with 6 copies, must be in 2 with 3");
}

static void broken_unions_are_refused_by_name(void **state)
{
    (void)state;
    assert_change_refused("\"range\": [2]", "\"range\": [1, 2]", "layer 1 is in two blocks");
    assert_change_refused("\"range\": [2]", "\"range\": [3]", "layer 2 is in no block");
    assert_change_refused("\"range\": [2]", "\"range\": [3, 2]", "not a range of layers");
    assert_change_refused("\"cpu_offload\": false", "\"output_recompute\": [false, true]",
                          "output_recompute: this cannot be imported");
    assert_change_refused(
        "[true, false]", "[true, false], \"cpu_offload\": [true, false]",
        "cpu_offload: group 0 would both offload what it saves and compute it again");
    assert_change_refused("\"range\": [0, 1], \"recompute\": [true, false]",
                          "\"range\": [0, 1], \"recompute\": [true, true]",
                          "layers 0 and 2 of one stage differ in what they save");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_strategies_are_plans),
        cmocka_unit_test(expanded_strategies_are_plans),
        cmocka_unit_test(rings_are_groups_that_cut_sequences),
        cmocka_unit_test(flags_of_blocks_say_what_is_saved),
        cmocka_unit_test(broken_strategies_are_refused_by_name),
        cmocka_unit_test(broken_rings_are_refused_by_name),
        cmocka_unit_test(broken_unions_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("strategy", tests, NULL, NULL);
}
