#include "tests/unit/spmd/plancases.h"

#include <stdio.h>

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
    HSP_PLAN_HEAD "ranks: 1\nstreams: [{sequences: 7, micro_batches: 3, schedule: zero_bubble, "
                  "stages: [{layers: 2, ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 4\nstreams: [{sequences: 7, micro_batches: 6, schedule: zero_bubble, "
    "stages: [{layers: 0, ranks: [0]}, {layers: 1, ranks: [1], saved: recompute}, {layers: 1, "
    "ranks: [2]}, {layers: 0, ranks: [3]}]}]",
    HSP_PLAN_HEAD
    "ranks: 6\nzero: 1\nstreams:\n"
    "  - {sequences: 4, micro_batches: 4, schedule: zero_bubble, stages: [{layers: 1, ranks: "
    "[0, 1], tensor: [2, 1], saved: recompute}, {layers: 1, ranks: [2, 5]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3, 4]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 1\nstreams: [{sequences: 7, micro_batches: 3, schedule: interleaved, chunks: 2, "
    "stages: [{layers: [1, 1], ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 2\nstreams: [{sequences: 7, micro_batches: 5, schedule: interleaved, chunks: 2, "
    "stages: [{layers: [0, 1], ranks: [1]}, {layers: [1, 0], ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 7\nzero: 1\nstreams:\n"
    "  - {sequences: 4, micro_batches: 4, schedule: interleaved, chunks: 2, stages: [{layers: "
    "[0, 1], ranks: [0, 1], tensor: [2, 1], saved: recompute}, {layers: [1, 0], ranks: [2, 6]}]}\n"
    "  - {sequences: 3, micro_batches: 3, schedule: zero_bubble, stages: [{layers: 1, ranks: "
    "[3, 4], tensor: [1, 2]}, {layers: 1, ranks: [5]}]}\n",
};

const size_t hsp_n_plan_cases = sizeof hsp_plan_cases / sizeof hsp_plan_cases[0];

uint32_t hsp_plan_pick(uint64_t *draw, uint32_t lo, uint32_t hi)
{
    return (uint32_t)hsp_test_range("plan", (*draw)++, lo, hi);
}

static void random_stage(uint64_t *draw, struct hsp_buf *b, const char *layers, uint32_t n,
                         const uint32_t *ranks)
{
    uint32_t sure = hsp_plan_pick(draw, 0, n - 1);
    hsp_buf_printf(b, "{layers: %s, ranks: [", layers);
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(b, "%s%u", i > 0 ? ", " : "", ranks[i]);
    }
    hsp_buf_puts(b, "], tensor: [");
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(b, "%s%u", i > 0 ? ", " : "", hsp_plan_pick(draw, i == sure ? 1 : 0, 3));
    }
    hsp_buf_puts(b, hsp_plan_pick(draw, 0, 2) == 0 ? "], saved: recompute}" : "]}");
}

enum { MAX_STAGES = 3, MAX_RUNS = 3 * MAX_STAGES };

/* How many blocks each run of a stream has: all but the first and the last have at least one. */
static void random_runs(uint64_t *draw, uint32_t layers, uint32_t runs, uint32_t *ret)
{
    uint32_t left = layers;
    for (uint32_t i = 0; i < runs; i++) {
        ret[i] = i > 0 && i + 1 < runs ? 1 : 0;
        left -= ret[i];
    }
    while (left-- > 0) {
        ret[hsp_plan_pick(draw, 0, runs - 1)]++;
    }
}

/* The schedule of a stream of @stages; returns its chunks. */
static uint32_t random_schedule(uint64_t *draw, struct hsp_buf *b, uint32_t stages, uint32_t layers)
{
    static const char *const plain[] = {"1f1b", "1f1b", "gpipe", "zero_bubble"};
    uint32_t most = (layers + 2) / stages;
    uint32_t chunks =
        hsp_plan_pick(draw, 0, 2) == 0 ? hsp_plan_pick(draw, 1, most < 3 ? most : 3) : 1;
    if (chunks == 1) {
        hsp_buf_printf(b, "schedule: %s", plain[hsp_plan_pick(draw, 0, 3)]);
    } else {
        hsp_buf_printf(b, "schedule: interleaved, chunks: %u", chunks);
    }
    return chunks;
}

static void random_stream(uint64_t *draw, struct hsp_buf *b, uint32_t layers, uint32_t stages,
                          const uint32_t *tp, const uint32_t *ranks)
{
    uint32_t run[MAX_RUNS], chunks = random_schedule(draw, b, stages, layers);
    random_runs(draw, layers, stages * chunks, run);
    hsp_buf_puts(b, ", stages: [");
    for (uint32_t j = 0; j < stages; j++) {
        char text[64];
        int at = snprintf(text, sizeof text, "%s%u", chunks > 1 ? "[" : "", run[j]);
        for (uint32_t c = 1; c < chunks; c++) {
            at += snprintf(text + at, sizeof text - (size_t)at, ", %u", run[c * stages + j]);
        }
        snprintf(text + at, sizeof text - (size_t)at, "%s", chunks > 1 ? "]" : "");
        hsp_buf_puts(b, j > 0 ? ", " : "");
        random_stage(draw, b, text, tp[j], ranks);
        ranks += tp[j];
    }
    hsp_buf_puts(b, "]}\n");
}

void hsp_random_plan(uint64_t *draw, uint32_t layers, uint32_t batch, struct hsp_buf *b)
{
    uint32_t tp[3][MAX_STAGES], stages[3], ranks[32], n = 0, left = batch;
    uint32_t streams = hsp_plan_pick(draw, 1, 3);
    const uint32_t *next = ranks;
    for (uint32_t i = 0; i < streams; i++) {
        stages[i] = hsp_plan_pick(draw, 1, layers < MAX_STAGES ? layers : MAX_STAGES);
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
        left -= seqs;
        hsp_buf_printf(b, "  - {sequences: %u, micro_batches: %u, ", seqs,
                       hsp_plan_pick(draw, 1, seqs));
        random_stream(draw, b, layers, stages[i], tp[i], next);
        for (uint32_t j = 0; j < stages[i]; j++) {
            next += tp[i][j];
        }
    }
}
