#include "tests/unit/daemon/plan/plan_cases.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/testlib.h"

const char *const hsp_plan_cases[] = {
    HSP_PLAN_HEAD
    "ranks: 1\npipelines: [{sequences: 7, micro_batches: 1, stages: [{layers: 2, ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 1\npipelines: [{sequences: 7, micro_batches: 3, stages: [{layers: 2, ranks: [0]}]}]",
    HSP_PLAN_HEAD "ranks: 3\npipelines:\n"
                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}\n"
                  "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"
                  "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n",
    HSP_PLAN_HEAD "ranks: 2\npipelines: [{sequences: 7, micro_batches: 2, "
                  "stages: [{layers: 2, ranks: [0, 1], tensor: [2, 1]}]}]",
    HSP_PLAN_HEAD "ranks: 3\npipelines: [{sequences: 7, micro_batches: 2, "
                  "stages: [{layers: 2, ranks: [2, 0, 1], tensor: [1, 0, 2]}]}]",
    HSP_PLAN_HEAD "ranks: 2\npipelines: [{sequences: 7, micro_batches: 3, "
                  "stages: [{layers: 1, ranks: [0]}, {layers: 1, ranks: [1]}]}]",
    HSP_PLAN_HEAD "ranks: 2\npipelines: [{sequences: 7, micro_batches: 3, schedule: gpipe, "
                  "stages: [{layers: 1, ranks: [1]}, {layers: 1, ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 4\npipelines: [{sequences: 7, micro_batches: 5, stages: [{layers: 0, ranks: [0]}, "
    "{layers: 1, ranks: [1]}, {layers: 1, ranks: [2]}, {layers: 0, ranks: [3]}]}]",
    HSP_PLAN_HEAD
    "ranks: 6\npipelines:\n"
    "  - {sequences: 4, micro_batches: 4, stages: [{layers: 1, ranks: [0, 1], tensor: [2, 1]},"
    " {layers: 1, ranks: [2]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3, 4, 5]}]}\n",
    HSP_PLAN_HEAD "ranks: 3\nzero: 1\npipelines:\n"
                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0]}]}\n"
                  "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"
                  "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 6\nzero: 1\npipelines:\n"
    "  - {sequences: 4, micro_batches: 4, stages: [{layers: 1, ranks: [0, 1], tensor: [2, 1]},"
    " {layers: 1, ranks: [2]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 1, ranks: [3, 4], tensor: [1, 2]},"
    " {layers: 1, ranks: [5]}]}\n",
    HSP_PLAN_HEAD "ranks: 1\npipelines: [{sequences: 7, micro_batches: 3, schedule: zero_bubble, "
                  "stages: [{layers: 2, ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 4\npipelines: [{sequences: 7, micro_batches: 6, schedule: zero_bubble, "
    "stages: [{layers: 0, ranks: [0]}, {layers: 1, ranks: [1], saved: recompute}, {layers: 1, "
    "ranks: [2]}, {layers: 0, ranks: [3]}]}]",
    HSP_PLAN_HEAD
    "ranks: 6\nzero: 1\npipelines:\n"
    "  - {sequences: 4, micro_batches: 4, schedule: zero_bubble, stages: [{layers: 1, ranks: "
    "[0, 1], tensor: [2, 1], saved: recompute}, {layers: 1, ranks: [2, 5]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3, 4]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 1\npipelines: [{sequences: 7, micro_batches: 3, schedule: interleaved, chunks: 2, "
    "stages: [{layers: [1, 1], ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 2\npipelines: [{sequences: 7, micro_batches: 5, schedule: interleaved, chunks: 2, "
    "stages: [{layers: [0, 1], ranks: [1]}, {layers: [1, 0], ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 7\nzero: 1\npipelines:\n"
    "  - {sequences: 4, micro_batches: 4, schedule: interleaved, chunks: 2, stages: [{layers: "
    "[0, 1], ranks: [0, 1], tensor: [2, 1], saved: recompute}, {layers: [1, 0], ranks: [2, 6]}]}\n"
    "  - {sequences: 3, micro_batches: 3, schedule: zero_bubble, stages: [{layers: 1, ranks: "
    "[3, 4], tensor: [1, 2]}, {layers: 1, ranks: [5]}]}\n",
    /* homes of several boxes: rank 5 has one in each of the cells that others cut */
    HSP_PLAN_HEAD
    "ranks: 6\nzero: 1\nzero_pattern: interleaved\npipelines:\n"
    "  - {sequences: 4, micro_batches: 4, stages: [{layers: 1, ranks: [0, 1], tensor: [2, 1]},"
    " {layers: 1, ranks: [2]}]}\n"
    "  - {sequences: 3, micro_batches: 2, stages: [{layers: 1, ranks: [5]},"
    " {layers: 1, ranks: [3, 4], tensor: [1, 2]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 4\npipelines:\n"
    "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, ranks: [0, 1]}]}\n"
    "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [2]}]}\n"
    "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [3]}]}\n"
    "parameters:\n"
    "  - {name: \"*.weight\", home: {split: 0, pattern: interleaved, shares: [2, 1], of: "
    "[{split: 0, shares: [1, 1], of: [0, 1]}, {dup: [2, 3]}]}}\n",
    /* offload, under every schedule */
    HSP_PLAN_HEAD "ranks: 1\npipelines: [{sequences: 7, micro_batches: 3, "
                  "stages: [{layers: 2, ranks: [0], saved: offload}]}]",
    HSP_PLAN_HEAD
    "ranks: 5\nzero: 1\npipelines: [{sequences: 7, micro_batches: 5, stages: [{layers: 1, ranks: "
    "[0, 1], tensor: [2, 1], saved: offload}, {layers: 1, ranks: [2], saved: recompute}, {layers: "
    "0, ranks: [3, 4], saved: offload}]}]",
    HSP_PLAN_HEAD "ranks: 2\npipelines: [{sequences: 7, micro_batches: 4, schedule: gpipe, stages: "
                  "[{layers: 1, ranks: [1], saved: offload}, {layers: 1, ranks: [0]}]}]",
    HSP_PLAN_HEAD
    "ranks: 4\npipelines: [{sequences: 7, micro_batches: 6, schedule: zero_bubble, "
    "stages: [{layers: 0, ranks: [0], saved: offload}, {layers: 1, ranks: [1], saved: offload}, "
    "{layers: 1, ranks: [2], saved: offload}, {layers: 0, ranks: [3]}]}]",
    HSP_PLAN_HEAD
    "ranks: 5\nzero: 1\npipelines:\n"
    "  - {sequences: 4, micro_batches: 4, schedule: interleaved, chunks: 2, stages: [{layers: "
    "[0, 1], ranks: [0, 1], tensor: [1, 2], saved: offload}, {layers: [1, 0], ranks: [2]}]}\n"
    "  - {sequences: 3, micro_batches: 3, schedule: interleaved, chunks: 2, stages: [{layers: "
    "[1, 1], ranks: [3, 4], saved: offload}]}\n",
};

const size_t hsp_n_plan_cases = sizeof hsp_plan_cases / sizeof hsp_plan_cases[0];

const char *const hsp_group_cases[] = {
    /* sequence split, evenly, unevenly, with an empty group */
    HSP_PLAN_HEAD "ranks: 2\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 2, "
                  "split: sequence, groups: [{ranks: [0]}, {ranks: [1]}]}]}]",
    HSP_PLAN_HEAD
    "ranks: 3\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 2, "
    "split: sequence, shares: [2, 0, 1], groups: [{ranks: [2]}, {ranks: [0]}, {ranks: "
    "[1]}]}]}]",
    /* three tiers, unlike groups */
    HSP_PLAN_HEAD "ranks: 3\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 2, "
                  "split: sequence, shares: [3, 1], groups: [{ranks: [0, 1], tensor: [2, 1]}, "
                  "{ranks: [2]}]}]}]",
    HSP_PLAN_HEAD
    "ranks: 5\nzero: 1\npipelines: [{sequences: 7, micro_batches: 3, stages: [{layers: 2, split: "
    "sequence, groups: [{ranks: [3, 0], tensor: [1, 2]}, {ranks: [4, 1, 2], tensor: [1, 0, 1]}], "
    "saved: recompute}]}]",
    /* sequence parallelism */
    HSP_PLAN_HEAD
    "ranks: 2\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 2, ranks: [0, 1], "
    "tensor: [2, 1], sequence_parallel: true}]}]",
    HSP_PLAN_HEAD
    "ranks: 4\nzero: 1\npipelines: [{sequences: 7, micro_batches: 3, stages: [{layers: 1, ranks: "
    "[3, "
    "1, 0], tensor: [1, 0, 2], sequence_parallel: true, saved: recompute}, {layers: 1, ranks: "
    "[2]}]}]",
    HSP_PLAN_HEAD
    "ranks: 5\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 1, ranks: [0]}, "
    "{layers: 1, split: sequence, shares: [1, 2], groups: [{ranks: [1, 2]}, {ranks: [3, 4], "
    "tensor: [1, 2]}], sequence_parallel: true}]}]",
    /* batch split, alone and before a stage of another kind */
    HSP_PLAN_HEAD "ranks: 3\npipelines:\n"
                  "  - {sequences: 4, micro_batches: 2, stages: [{layers: 2, split: batch, groups: "
                  "[{ranks: [0]}, {ranks: [1]}]}]}\n"
                  "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [2]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 7\nzero: 1\npipelines:\n"
    "  - {sequences: 6, micro_batches: 2, stages: [{layers: 1, split: batch, shares: [2, 0, 1], "
    "groups: [{ranks: [0, 5], tensor: [2, 1]}, {ranks: [1]}, {ranks: [2]}], sequence_parallel: "
    "true}, {layers: 1, ranks: [3, 6]}]}\n"
    "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [4]}]}\n",
    HSP_PLAN_HEAD
    "ranks: 6\npipelines:\n"
    "  - {sequences: 6, micro_batches: 3, schedule: gpipe, stages: [{layers: 1, split: batch, "
    "groups: [{ranks: [0, 1]}, {ranks: [2]}], saved: recompute}, {layers: 1, split: sequence, "
    "shares: [3, 1], groups: [{ranks: [3]}, {ranks: [4]}]}]}\n"
    "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [5]}]}\n",
    /* offload, with blocks of attention, with cut micro-batches, with sequence parallelism */
    HSP_PLAN_HEAD
    "ranks: 6\npipelines:\n"
    "  - {sequences: 6, micro_batches: 3, schedule: zero_bubble, stages: [{layers: 1, split: "
    "batch, "
    "groups: [{ranks: [0, 1]}, {ranks: [2]}], saved: offload}, {layers: 1, split: sequence, "
    "shares: [3, 1], groups: [{ranks: [3]}, {ranks: [4]}], saved: offload}]}\n"
    "  - {sequences: 1, micro_batches: 1, stages: [{layers: 2, ranks: [5], saved: offload}]}\n",
    HSP_PLAN_HEAD
    "ranks: 5\nzero: 1\npipelines: [{sequences: 7, micro_batches: 3, stages: [{layers: 2, split: "
    "sequence, shares: [2, 0, 1], groups: [{ranks: [3, 0], tensor: [1, 2]}, {ranks: [4]}, {ranks: "
    "[1, 2], tensor: [0, 1]}], sequence_parallel: true, saved: offload}]}]",
};

const size_t hsp_n_group_cases = sizeof hsp_group_cases / sizeof hsp_group_cases[0];

void hsp_plan_with_zero(const char *plan, uint32_t zero, struct hsp_buf *b)
{
    const char *pipelines = strstr(plan, "pipelines:"), *old = strstr(plan, "zero: ");
    const char *end = old != NULL && old < pipelines ? old : pipelines;
    hsp_buf_append(b, plan, (size_t)(end - plan));
    hsp_buf_printf(b, "zero: %u\n", zero);
    hsp_buf_puts(b, end == pipelines ? end : strchr(end, '\n') + 1);
}

uint32_t hsp_plan_pick(uint64_t *draw, uint32_t lo, uint32_t hi)
{
    return (uint32_t)hsp_test_range("plan", (*draw)++, lo, hi);
}

/* Draws @n weights from 0 to 3, at least one of them above 0. */
static void random_weights(uint64_t *draw, struct hsp_buf *b, uint32_t n)
{
    uint32_t sure = hsp_plan_pick(draw, 0, n - 1);
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(b, "%s%u", i > 0 ? ", " : "[", hsp_plan_pick(draw, i == sure ? 1 : 0, 3));
    }
    hsp_buf_puts(b, "]");
}

static void random_group(uint64_t *draw, struct hsp_buf *b, uint32_t n, const uint32_t *ranks)
{
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(b, "%s%u", i > 0 ? ", " : "ranks: [", ranks[i]);
    }
    hsp_buf_puts(b, "], tensor: ");
    random_weights(draw, b, n);
}

/* The drawn stages: of one group, of several, also such that cut the micro-batch. */
enum draw_kind { DRAW_PLAIN, DRAW_GROUPS, DRAW_BATCH };

static void random_groups(uint64_t *draw, struct hsp_buf *b, uint32_t n, const uint32_t *ranks,
                          enum draw_kind kind)
{
    uint32_t groups = hsp_plan_pick(draw, 1, n < 3 ? n : 3), at = 0;
    if (groups == 1) {
        random_group(draw, b, n, ranks);
    } else {
        bool batch = kind == DRAW_BATCH && hsp_plan_pick(draw, 0, 1) == 0;
        hsp_buf_printf(b, "split: %s, shares: ", batch ? "batch" : "sequence");
        random_weights(draw, b, groups);
        hsp_buf_puts(b, !batch && hsp_plan_pick(draw, 0, 2) == 0 ? ", balance: work" : "");
        for (uint32_t g = 0; g < groups; g++) {
            uint32_t rest = groups - 1 - g;
            uint32_t take = rest == 0 ? n - at : hsp_plan_pick(draw, 1, n - at - rest);
            hsp_buf_puts(b, g == 0 ? ", groups: [{" : "}, {");
            random_group(draw, b, take, &ranks[at]);
            at += take;
        }
        hsp_buf_puts(b, "}]");
    }
    hsp_buf_puts(b, hsp_plan_pick(draw, 0, 1) == 0 ? ", sequence_parallel: true" : "");
}

static void random_stage(uint64_t *draw, struct hsp_buf *b, const char *layers, uint32_t n,
                         const uint32_t *ranks, enum draw_kind kind)
{
    hsp_buf_printf(b, "{layers: %s, ", layers);
    if (kind == DRAW_PLAIN) {
        random_group(draw, b, n, ranks);
    } else {
        random_groups(draw, b, n, ranks, kind);
    }
    uint32_t saved = hsp_plan_pick(draw, 0, 3);
    hsp_buf_puts(b, saved == 0 ? ", saved: recompute}" : saved == 1 ? ", saved: offload}" : "}");
}

enum { MAX_STAGES = 3, MAX_RUNS = 3 * MAX_STAGES };

/* Draws how many blocks each chunk of a pipeline has: the first and the last chunk may have none,
 * all others have at least one. */
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

/* Draws the schedule of a pipeline of @stages, and returns its number of chunks. */
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

static void random_pipeline(uint64_t *draw, struct hsp_buf *b, uint32_t layers, uint32_t stages,
                            const uint32_t *tp, const uint32_t *ranks, enum draw_kind kind)
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
        random_stage(draw, b, text, tp[j], ranks, kind);
        ranks += tp[j];
    }
    hsp_buf_puts(b, "]}\n");
}

/* Draws 1 to 3 pipelines of 1 to 3 stages. The last pipeline cuts no micro-batch, so that it can
 * take the rest of the validation list. */
static void random_plan(uint64_t *draw, uint32_t layers, uint32_t batch, enum draw_kind kind,
                        struct hsp_buf *b)
{
    static const uint32_t zeros[] = {0, 1, 0, 3};
    uint32_t tp[3][MAX_STAGES], stages[3], ranks[64], n = 0, left = batch;
    uint32_t pipelines = hsp_plan_pick(draw, 1, 3);
    const uint32_t *next = ranks;
    for (uint32_t i = 0; i < pipelines; i++) {
        stages[i] = hsp_plan_pick(draw, 1, layers < MAX_STAGES ? layers : MAX_STAGES);
        for (uint32_t j = 0; j < stages[i]; j++) {
            tp[i][j] = hsp_plan_pick(draw, 1, kind == DRAW_PLAIN ? 3 : 5);
            n += tp[i][j];
        }
    }
    for (uint32_t i = 0; i < n; i++) { /* a random permutation */
        uint32_t k = hsp_plan_pick(draw, 0, i);
        ranks[i] = ranks[k];
        ranks[k] = i;
    }
    bool interleaved = hsp_plan_pick(draw, 0, 2) == 0;
    uint32_t zero = zeros[hsp_plan_pick(draw, 0, 3)];
    hsp_buf_printf(b, HSP_PLAN_HEAD "ranks: %u\nzero: %u\nzero_pattern: %s\npipelines:\n", n, zero,
                   interleaved && zero != 0 ? "interleaved" : "contiguous");
    for (uint32_t i = 0; i < pipelines; i++) {
        bool last = i + 1 == pipelines;
        uint32_t seqs = last ? left : hsp_plan_pick(draw, 1, left - (pipelines - 1 - i));
        uint32_t micro = hsp_plan_pick(draw, 1, seqs);
        enum draw_kind of = last && kind == DRAW_BATCH ? DRAW_GROUPS : kind;
        while (of == DRAW_BATCH && seqs % micro != 0) {
            micro--; /* of one size */
        }
        left -= seqs;
        hsp_buf_printf(b, "  - {sequences: %u, micro_batches: %u, ", seqs, micro);
        random_pipeline(draw, b, layers, stages[i], tp[i], next, of);
        for (uint32_t j = 0; j < stages[i]; j++) {
            next += tp[i][j];
        }
    }
}

void hsp_random_plan(uint64_t *draw, uint32_t layers, uint32_t batch, struct hsp_buf *b)
{
    random_plan(draw, layers, batch, DRAW_PLAIN, b);
}

void hsp_random_groups(uint64_t *draw, uint32_t layers, uint32_t batch, struct hsp_buf *b)
{
    random_plan(draw, layers, batch, DRAW_BATCH, b);
}
