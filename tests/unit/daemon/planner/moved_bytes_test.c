/* Tests that the priced bytes are those that the compiled programs move, in fp32 and in bf16. */
#include "tests/lib/testlib.h"

#include <math.h>

#include "daemon/graph/graph_build.h"
#include "daemon/planner/annotations.h"
#include "daemon/planner/cluster_file.h"
#include "daemon/planner/lengths.h"
#include "daemon/planner/planner.h"
#include "daemon/spmd/codegen/compile.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"

static const struct hsp_train_spec TRAIN = {
    .hyper = {.steps = 1, .lr = 1e-3, .optimizer = HSP_OPT_ADAMW, .beta1 = 0.9, .beta2 = 0.99},
    .data = {.seed = 1, .global_batch = 16, .sequence = 64, .vocab = 256},
    .eps = 1e-8};

static struct hsp_graph *model(enum hsp_compute compute)
{
    struct hsp_err err = {0};
    struct hsp_graph *g = NULL;
    const struct hsp_model_spec spec = {.family = "gpt",
                                        .layers = 4,
                                        .hidden = 128,
                                        .heads = 4,
                                        .vocab = 256,
                                        .sequence = 64,
                                        .compute = compute};
    assert_ok(hsp_graph_build(&spec, &g, &err), &err);
    return g;
}

/* Bytes of a rank in a step: of messages, both ways; sent for sums and gathers by direct
 * exchange. */
struct moved {
    double messages, groups;
};

static void add_move(const struct hsp_move *m, int64_t batch, double elem, struct moved *ret)
{
    double bytes = 0, n = m->n_ranks;
    for (uint32_t k = 0; k < m->n_cells; k++) {
        struct hsp_box box = m->cells[k].box;
        if (box.rank > 0 && box.hi[0] == HSP_TO_END) {
            box.hi[0] = batch;
        }
        bytes += elem * (double)hsp_box_count(&box);
    }
    switch ((enum hsp_move_kind)m->kind) {
    case HSP_MOVE_COPY: break;
    case HSP_MOVE_P2P: ret->messages += bytes; break;
    case HSP_MOVE_ALL_REDUCE: ret->groups += 2 * bytes * (n - 1) / n; break;
    case HSP_MOVE_REDUCE_SCATTER:
    case HSP_MOVE_ALL_GATHER:
    case HSP_MOVE_REDUCE_SEND: ret->groups += bytes * (n - 1) / n; break;
    }
}

static struct moved count_moves(const struct hsp_program *p)
{
    struct moved ret = {0};
    const struct hsp_binding *b = &p->bind;
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        for (uint32_t e = 0; e < b->train.n[q]; e++) {
            const struct hsp_piece *piece = &p->tpl.pieces[b->train.e[q][e].piece];
            for (uint32_t i = piece->first; i < piece->first + piece->n; i++) {
                const struct hsp_instr *in = &p->tpl.instrs[i];
                if (in->kind != HSP_I_RESHARD) {
                    continue;
                }
                const struct hsp_reshard_bind *r = &b->reshard[in->arg];
                uint8_t type = p->tpl.tensors[in->out[0]].dtype;
                for (uint32_t k = 0; k < r->n_moves; k++) {
                    add_move(&r->moves[k], b->symbol[HSP_SYM_BATCH],
                             (double)hsp_dtype_size((enum hsp_dtype)type), &ret);
                }
            }
        }
    }
    return ret;
}

static const char *const plans[] = {
    "{apiVersion: hspmd/v1, kind: plan, bucket: 0, ranks: 2, pipelines: [{sequences: 16, "
    "micro_batches: 4, "
    "stages: [{layers: 1, ranks: [0]}, {layers: 3, ranks: [1]}]}]}",
    "{apiVersion: hspmd/v1, kind: plan, bucket: 0, ranks: 2, pipelines: [{sequences: 16, "
    "micro_batches: 4, "
    "stages: [{layers: 4, ranks: [0, 1], tensor: [1, 1]}]}]}",
    "{apiVersion: hspmd/v1, kind: plan, bucket: 0, ranks: 2, pipelines: [{sequences: 12, "
    "micro_batches: 3, "
    "stages: [{layers: 4, ranks: [0]}]}, {sequences: 4, micro_batches: 2, stages: [{layers: 4, "
    "ranks: [1]}]}]}",
    "{apiVersion: hspmd/v1, kind: plan, bucket: 0, ranks: 2, zero: 1, pipelines: [{sequences: 8, "
    "micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}, {sequences: 8, micro_batches: 2, "
    "stages: [{layers: 4, ranks: [1]}]}]}",
    "{apiVersion: hspmd/v1, kind: plan, bucket: 0, ranks: 2, zero: 3, pipelines: [{sequences: 8, "
    "micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}, {sequences: 8, micro_batches: 2, "
    "stages: [{layers: 4, ranks: [1]}]}]}",
    "{apiVersion: hspmd/v1, kind: plan, bucket: 0, ranks: 4, pipelines: [{sequences: 8, "
    "micro_batches: 4, "
    "stages: [{layers: 2, ranks: [0]}, {layers: 2, ranks: [1]}]}, {sequences: 8, micro_batches: "
    "2, stages: [{layers: 2, ranks: [2]}, {layers: 2, ranks: [3]}]}]}",
};

static void compare(uint32_t number, enum hsp_compute compute, struct hsp_arena *arena)
{
    struct hsp_err err = {0};
    struct hsp_graph *g = model(compute);
    struct hsp_device_desc dev[4];
    /* a microsecond for each byte, and nothing else */
    struct hsp_cluster_desc c = {.n = 4, .dev = dev, .same_node = {.us_per_byte = 1}};
    struct hsp_plan_text text = {"plan", plans[number], strlen(plans[number])};
    struct hsp_plan *plan = NULL;
    struct hsp_planned p;
    struct hsp_program_file f;
    uint32_t at = 0;
    for (int i = 0; i < 4; i++) {
        dev[i] = hsp_device_default("a/0", 0, 1);
    }
    assert_ok(hsp_annotations_pick(1, &text, g, 16, 4, arena, &plan, &at, &err), &err);
    assert_ok(hsp_plan_adopt(g, &TRAIN, &c, NULL, plan, arena, &p, &err), &err);
    assert_ok(hsp_compile(g, plan, &TRAIN, arena, &f, &err), &err);
    for (uint32_t r = 0; r < f.n; r++) {
        const struct hsp_rank_cost *rc = &p.cost.rank[r];
        struct moved x = count_moves(&f.programs[r]);
        double group_us = rc->tensor_us + rc->sync_us;
        if (plan->zero == HSP_ZERO_PARAMETERS) { /* in messages, of which half are sent */
            assert_near(x.groups, 0, 0);
            assert_true(x.messages / 2 <= group_us && x.messages / 2 >= 0.97 * group_us);
            continue;
        }
        if (rc->transfer_us > 0) { /* of the stage before: activations out, gradients in */
            assert_near(x.messages, rc->transfer_us, 0);
        }
        if (fabs(x.groups - group_us) > 2e-3 * group_us) { /* maxima and sums of losses come too */
            fail_msg("plan %u in %s, rank %u: %.0f bytes moved, %.0f priced", number,
                     hsp_compute_name(&g->spec), r, x.groups, group_us);
        }
    }
    hsp_graph_free(g);
}

static void priced_bytes_are_moved_bytes(void **state)
{
    for (uint32_t k = 0; k < HSP_ARRAY_LEN(plans); k++) {
        compare(k, HSP_COMPUTE_FULL, *state);
        compare(k, HSP_COMPUTE_BF16, *state);
    }
}

HSP_TEST_FILE(moved_bytes_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(priced_bytes_are_moved_bytes)};
    return cmocka_run_group_tests_name("movedbytes", tests, hsp_test_arena_begin,
                                       hsp_test_arena_end);
}
