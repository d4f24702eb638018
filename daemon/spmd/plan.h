/* Plans: how one job is spread over its ranks (architecture D6).
 *
 * Streams, stages, shares, zero and overrides are what a person or the planner decides; home
 * layouts, Reshards and their methods follow from them by fixed rules (home.h, deduce.h,
 * resolve.h). YAML (files of `annotations:`, output of `hspmdctl plan -o yaml`; unknown keys are
 * errors):
 *
 *   apiVersion: hspmd/v1
 *   kind: plan
 *   ranks: 4                      # devices, numbered 0..3; which devices is the epoch's business
 *   zero: 1                       # 0 | 1: master, m, v cut over all holders of a parameter
 *   streams:
 *     - sequences: 10             # of the global batch (weights if they do not add up to it)
 *       micro_batches: 5
 *       schedule: 1f1b            # 1f1b | gpipe
 *       stages:
 *         - {layers: 3, ranks: [0, 1], tensor: [2, 1]}
 *         - {layers: 1, ranks: [2]}   # layers: transformer blocks; the embedding comes with the
 *                                     # first stage, the head with the last
 *     - {sequences: 6, micro_batches: 3, stages: [{layers: 4, ranks: [3]}]}
 *   parameters:                   # optional: home layout (annot.h) by name (* any text, ? any)
 *     - {name: "h.*.mlp.fc.weight", home: {split: 0, shares: [1, 1], of: [0, 3]}}
 *
 * Purity:    pure.
 * Ownership: everything in the arena given.
 */
#ifndef HSP_PLAN_H
#define HSP_PLAN_H
#include "daemon/graph/graph.h"
#include "proto/layout/annot.h"

#define HSP_MAX_STREAMS 256
#define HSP_MAX_STAGES  256
#define HSP_MAX_MICRO   4096       /* micro-batches of one stream */
#define HSP_MAX_RULES   4096       /* home rules */
#define HSP_MAX_SHARE   1000000000 /* weight of a share: sums stay far below 2^63 */

enum hsp_schedule { HSP_SCHED_1F1B, HSP_SCHED_GPIPE };

struct hsp_stage {
    uint32_t layers; /* blocks of this stage */
    uint32_t n;      /* ranks, >= 1: its tensor-parallel group, in order */
    uint32_t *ranks;
    int64_t *shares; /* n integer weights of the tensor split */
};
struct hsp_stream {
    uint32_t sequences; /* of the global batch, >= 1 */
    uint32_t micro_batches;
    uint8_t schedule;
    uint32_t n_stages;
    struct hsp_stage *stages;
};
struct hsp_home_rule {
    const char *pattern;
    struct hsp_annot *home;
};
struct hsp_plan {
    uint32_t n_ranks;
    uint8_t zero;
    uint32_t n_streams;
    struct hsp_stream *streams;
    uint32_t n_rules;
    struct hsp_home_rule *rules;
    /* explanation (architecture D14), 0 and NULL when not planned by us */
    double predicted_step_us;
    int64_t *memory_bytes; /* n_ranks: predicted per device, or NULL */
    const char *why;       /* one line a human reads */
};

/* @name appears in messages. @global_batch scales weights of `sequences`. HSP_EPARSE, HSP_EINVAL
 * with file:line:column. */
enum hsp_status hsp_plan_parse(const char *text, size_t len, const char *name,
                               uint32_t global_batch, struct hsp_arena *arena,
                               struct hsp_plan **ret, struct hsp_err *err);
void hsp_plan_dump(const struct hsp_plan *p, struct hsp_buf *out);
/* Every rule a plan must keep for this model: layers add up, each rank used once, sequences add up
 * to the global batch, micro-batches not above sequences, shares not all zero. Messages name the
 * rule. */
enum hsp_status hsp_plan_check(const struct hsp_plan *p, const struct hsp_graph *g,
                               uint32_t global_batch, struct hsp_err *err);

/* Whether @name fits @pattern: * is any text, ? any one character. The first rule that fits counts.
 */
bool hsp_plan_name_fits(const char *pattern, const char *name);

#endif
