/* Tests how many messages a rank may have sent that are not taken yet. */
#include "daemon/spmd/schedule/kept_messages.h"

#include <stdio.h>

#include "daemon/graph/graph_build.h"
#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/compile.h"
#include "daemon/spmd/schedule/memory_plan.h"
#include "daemon/spmd/schedule/pipeline_order.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"

enum { BATCH = 12, WIDTH = 32, LENGTH = 4, MESSAGE = LENGTH * WIDTH * 4 };

#define HEAD "apiVersion: hspmd/v1\nkind: plan\n"
#define THREE(how)                                                                             \
    HEAD "ranks: 3\nstreams: [{sequences: 12, micro_batches: 12, " how "stages: [{layers: 1, " \
         "ranks: [0]}, {layers: 1, ranks: [1]}, {layers: 2, ranks: [2]}]}]"

static const struct example {
    const char *name, *plan;
    uint32_t n;
    uint32_t kept[3]; /* messages of each rank */
} EXAMPLES[] = {
    {"1f1b", THREE(""), 3, {3, 3, 2}},
    {"gpipe", THREE("schedule: gpipe, "), 3, {4, 4, 4}},
    {"zero-bubble", THREE("schedule: zero_bubble, "), 3, {3, 3, 2}},
    {"a micro-batch",
     HEAD "ranks: 2\nstreams: [{sequences: 12, micro_batches: 1, stages: [{layers: "
          "2, ranks: [0]}, {layers: 2, ranks: [1]}]}]",
     2,
     {24, 12}}, /* a validation sends two */
    {"no stages",
     HEAD "ranks: 2\nstreams: [{sequences: 6, micro_batches: 6, stages: [{layers: 4, "
          "ranks: [0]}]}, {sequences: 6, micro_batches: 6, stages: [{layers: 4, ranks: "
          "[1]}]}]",
     2,
     {0, 0}},
};

static void compile(const char *text, struct hsp_arena *a, struct hsp_plan **ret_plan,
                    struct hsp_program_file *ret)
{
    struct hsp_err err = {0};
    struct hsp_graph *g = NULL;
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 4,
                               .hidden = WIDTH,
                               .heads = 2,
                               .vocab = 16,
                               .sequence = LENGTH,
                               .dtype = HSP_F32};
    struct hsp_train_spec t = {.data = {.global_batch = BATCH,
                                        .sequence = LENGTH,
                                        .eval_seqs = 2 * BATCH,
                                        .validation_every = 1,
                                        .validation_fraction = 0.1,
                                        .vocab = 16}};
    assert_ok(hsp_graph_build(&s, &g, &err), &err);
    assert_ok(hsp_plan_parse(text, strlen(text), "p", BATCH, a, ret_plan, &err), &err);
    assert_ok(hsp_compile(g, *ret_plan, &t, a, ret, &err), &err);
    hsp_graph_free(g);
}

static void messages_count_until_they_are_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < HSP_ARRAY_LEN(EXAMPLES); i++) {
        const struct example *x = &EXAMPLES[i];
        struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
        struct hsp_program_file f;
        struct hsp_plan *plan;
        compile(x->plan, a, &plan, &f);
        for (uint32_t r = 0; r < x->n; r++) {
            int64_t more = f.programs[r].bind.comm_bytes - hsp_memory_comm(&f.programs[r]);
            int64_t one = x->kept[r] > 0
                              ? plan->pipelines[0].sequences / plan->pipelines[0].micro_batches
                              : 0;
            if (more != (x->kept[r] - one) * MESSAGE) {
                fail_msg("%s, rank %u: %lld messages are kept beyond one, not %lld", x->name, r,
                         (long long)(more / MESSAGE), (long long)(x->kept[r] - one));
            }
        }
        hsp_arena_free(a);
    }
}

/* Other messages of a micro-batch count for two moves, of which the binding has one already. */
static void blocks_and_parameters_count_twice(void **state)
{
    (void)state;
    static const struct {
        const char *name, *plan;
        int64_t more; /* bytes of each rank */
    } of[] = {
        {"keys of half a sequence",
         HEAD "ranks: 2\nstreams: [{sequences: 12, micro_batches: 12, stages: [{layers: 4, split: "
              "sequence, groups: [{ranks: [0]}, {ranks: [1]}]}]}]",
         MESSAGE / 2},
        {"half of a weight of the MLP",
         HEAD "ranks: 2\nzero: 3\nstreams: [{sequences: 6, micro_batches: 6, stages: [{layers: 4, "
              "ranks: [0]}]}, {sequences: 6, micro_batches: 6, stages: [{layers: 4, ranks: [1]}]}]",
         4 * WIDTH * WIDTH * 4 / 2},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(of); i++) {
        struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
        struct hsp_program_file f;
        struct hsp_plan *plan;
        compile(of[i].plan, a, &plan, &f);
        for (uint32_t r = 0; r < 2; r++) {
            int64_t more = f.programs[r].bind.comm_bytes - hsp_memory_comm(&f.programs[r]);
            if (more != of[i].more) {
                fail_msg("%s, rank %u: %lld bytes beyond one move, not %lld", of[i].name, r,
                         (long long)more, (long long)of[i].more);
            }
        }
        hsp_arena_free(a);
    }
}

/* The planner's bound holds for each stage of each schedule. */
static void the_planner_has_a_bound(void **state)
{
    (void)state;
    static const char *const how[] = {"1f1b", "gpipe", "zero_bubble", "interleaved, chunks: 2"};
    for (size_t i = 0; i < HSP_ARRAY_LEN(how); i++) {
        for (uint32_t micro = 1; micro <= BATCH; micro = micro < 4 ? micro + 1 : micro + 4) {
            struct hsp_arena *a = hsp_arena_new((size_t)256 << 20);
            struct hsp_program_file f;
            struct hsp_plan *plan;
            bool turns = i == 3;
            char text[400];
            (void)snprintf(text, sizeof text,
                           HEAD
                           "ranks: 2\nstreams: [{sequences: %u, micro_batches: %u, schedule: "
                           "%s, stages: [{layers: %s, ranks: [0]}, {layers: %s, ranks: [1]}]}]",
                           BATCH, micro, how[i], turns ? "[1, 1]" : "2", turns ? "[1, 1]" : "2");
            compile(text, a, &plan, &f);
            for (uint32_t r = 0; r < 2; r++) {
                const struct hsp_pipeline *s = &plan->pipelines[0];
                int64_t one = (BATCH + micro - 1) / micro * MESSAGE;
                int64_t more = f.programs[r].bind.comm_bytes - hsp_memory_comm(&f.programs[r]);
                uint32_t next = turns || r == 0 ? hsp_order_kept(s, r, false) : 0;
                next = next > 0 && next < HSP_KEPT_MOVES ? HSP_KEPT_MOVES : next; /* validation */
                uint32_t back = turns || r == 1 ? hsp_order_kept(s, r, true) : 0;
                if (more > (next + back - 1) * one || more < 0) {
                    fail_msg("%s, %u micro-batches, rank %u: %lld bytes beyond one of %lld; to the "
                             "next stage %u, back %u",
                             how[i], micro, r, (long long)more, (long long)one, next, back);
                }
            }
            hsp_arena_free(a);
        }
    }
}

HSP_TEST_FILE(kept_messages_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_count_until_they_are_taken),
        cmocka_unit_test(blocks_and_parameters_count_twice),
        cmocka_unit_test(the_planner_has_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
