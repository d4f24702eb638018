#include "tests/unit/spmd/plancases.h"

#include "tests/lib/testlib.h"

const char *const hsp_plan_cases[] = {
    HSP_PLAN_HEAD
    "ranks: 1\nstreams: [{sequences: 7, micro_batches: 1, stages: [{layers: 2, ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 1\nstreams: [{sequences: 7, micro_batches: 3, stages: [{layers: 2, ranks: [0]}]}]",
    HSP_PLAN_HEAD "ranks: 3\nstreams:\n"
                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}\n"
                  "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"
                  "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n",
    HSP_PLAN_HEAD "ranks: 2\nstreams: [{sequences: 7, micro_batches: 2, "
                  "stages: [{layers: 2, ranks: [0, 1], tensor: [2, 1]}]}]",
    HSP_PLAN_HEAD "ranks: 3\nstreams: [{sequences: 7, micro_batches: 2, "
                  "stages: [{layers: 2, ranks: [2, 0, 1], tensor: [1, 0, 2]}]}]",
    HSP_PLAN_HEAD "ranks: 2\nstreams: [{sequences: 7, micro_batches: 3, "
                  "stages: [{layers: 1, ranks: [0]}, {layers: 1, ranks: [1]}]}]",
    HSP_PLAN_HEAD "ranks: 2\nstreams: [{sequences: 7, micro_batches: 3, schedule: gpipe, "
                  "stages: [{layers: 1, ranks: [1]}, {layers: 1, ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 4\nstreams: [{sequences: 7, micro_batches: 5, stages: [{layers: 0, ranks: [0]}, "
    "{layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}, {layers: 0, ranks: [3]}]}]",
    HSP_PLAN_HEAD
    "ranks: 6\nstreams:\n"
    "  - {sequences: 4, micro_batches: 4, stages: [{layers: 1, ranks: [0, 1], tensor: [2, 1]},"
    " {layers: 1, ranks: [2]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3, 4, 5]}]}\n",
    HSP_PLAN_HEAD "ranks: 3\nzero: 1\nstreams:\n"
                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}\n"
                  "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"
                  "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 6\nzero: 1\nstreams:\n"
    "  - {sequences: 4, micro_batches: 4, stages: [{layers: 1, ranks: [0, 1], tensor: [2, 1]},"
    " {layers: 1, ranks: [2]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 1, ranks: [3, 4], tensor: [1, 2]},"
    " {layers: 1, ranks: [5]}]}\n",
};

const size_t hsp_n_plan_cases = sizeof hsp_plan_cases / sizeof hsp_plan_cases[0];

uint32_t hsp_plan_pick(uint64_t *draw, uint32_t lo, uint32_t hi)
{
    return (uint32_t)hsp_test_range("plan", (*draw)++, lo, hi);
}

static void random_stage(uint64_t *draw, struct hsp_buf *b, uint32_t layers, uint32_t n,
                         const uint32_t *ranks)
{
    uint32_t sure = hsp_plan_pick(draw, 0, n - 1);
    hsp_buf_printf(b, "{layers: %u, ranks: [", layers);
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(b, "%s%u", i > 0 ? ", " : "", ranks[i]);
    }
    hsp_buf_puts(b, "], tensor: [");
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(b, "%s%u", i > 0 ? ", " : "", hsp_plan_pick(draw, i == sure ? 1 : 0, 3));
    }
    hsp_buf_puts(b, hsp_plan_pick(draw, 0, 2) == 0 ? "], saved: recompute}" : "]}");
}

void hsp_random_plan(uint64_t *draw, uint32_t layers, uint32_t batch, struct hsp_buf *b)
{
    uint32_t tp[3][3], stages[3], ranks[32], n = 0, at = 0, left = batch;
    uint32_t streams = hsp_plan_pick(draw, 1, 3);
    for (uint32_t i = 0; i < streams; i++) {
        stages[i] = hsp_plan_pick(draw, 1, layers < 3 ? layers : 3);
        for (uint32_t j = 0; j < stages[i]; j++) {
            tp[i][j] = hsp_plan_pick(draw, 1, 3);
            n += tp[i][j];
        }
    }
    for (uint32_t i = 0; i < n; i++) { /* a random permutation */
        uint32_t k = hsp_plan_pick(draw, 0, i);
        ranks[i] = ranks[k];
        ranks[k] = i;
    }
    hsp_buf_printf(b, HSP_PLAN_HEAD "ranks: %u\nzero: %u\nstreams:\n", n,
                   hsp_plan_pick(draw, 0, 1));
    for (uint32_t i = 0; i < streams; i++) {
        uint32_t seqs = i + 1 == streams ? left : hsp_plan_pick(draw, 1, left - (streams - 1 - i));
        uint32_t blocks = layers;
        left -= seqs;
        hsp_buf_printf(b, "  - {sequences: %u, micro_batches: %u, schedule: %s, stages: [", seqs,
                       hsp_plan_pick(draw, 1, seqs),
                       hsp_plan_pick(draw, 0, 3) == 0 ? "gpipe" : "1f1b");
        for (uint32_t j = 0; j < stages[i]; j++) {
            uint32_t rest = stages[i] - 1 - j;
            uint32_t take = rest == 0 ? blocks : hsp_plan_pick(draw, 1, blocks - rest);
            blocks -= take;
            hsp_buf_puts(b, j > 0 ? ", " : "");
            random_stage(draw, b, take, tp[i][j], &ranks[at]);
            at += tp[i][j];
        }
        hsp_buf_puts(b, "]}\n");
    }
}
