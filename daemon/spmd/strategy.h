/* Plans in the forms of the HSPMD artifact, as compact plans of ours.
 *
 * Role:      `hspmdctl plan import`; tests read published strategies with it.
 * Purity:    pure.
 * Ownership: everything in the arena given.
 * Bounds:    HSP_MAX_STRATEGIES in a file, HSP_MAX_RANKS devices, the limits of plan.h.
 *
 * Three forms, all JSON (or YAML):
 * - packed, what planners emit, with the artifact's keys or lower-case ones:
 *     {"TP": 4, "LAYERS_NUM_LIST": [[9, 3], [12]], "MICRO_BATCH_NUM_LIST": [5, 3],
 *      "UNUSED_RANK": [7], "RANK_TO_DEVICE_MAPPING": {"0": 4, ..}}
 *     {"max_tp": 4, "layers": [[9, 3], [12]], "micro_batches": [5, 3], "unused_ranks": [7],
 *      "rank_to_device": [[0, 4], ..], "cluster": "..", "model": ".."}
 *   Virtual ranks stand pipeline by pipeline, stage by stage, TP of them each. Unused ones are left
 *   out, the others are mapped to devices (no mapping: as they are). "stage_devices" states the
 *   devices of each stage instead.
 * - several packed ones: {"strategies": [..]}.
 * - expanded: one device group union per layer ("blocks") and parameter, a group for each pipeline.
 *   Layers whose groups are the same are a stage. It says nothing of micro-batches (1 each, unless
 *   it is given MICRO_BATCH_NUM_LIST) nor of rings (none, unless it is given CP_LIST). Flags of a block
 *   are what its stage saves: `recompute` of saved: recompute, `cpu_offload` of saved: offload.
 *
 * A pipeline is a stream, a stage a tensor-parallel group of its devices with even shares, a
 * micro-batch one sequence.
 *
 * Ring: pipelines that cut each sequence among themselves. "CP_LIST": [1, 3] makes a stream of the
 * first pipeline and one of the next three: their j-th stages are the groups of its j-th, which has
 * `split: sequence`. The ranges are in order, their lengths "SEQ_LEN_LIST": [1024, 340, 341, 343], one
 * for each pipeline (absent: even); the artifact's other ways to deal a sequence to a ring are no part
 * of its files. micro_batches has one number for each ring. As in the artifact, pipelines of a ring
 * have the same layers in their stages.
 */
#ifndef HSP_STRATEGY_H
#define HSP_STRATEGY_H
#include "daemon/spmd/plan.h"

#define HSP_MAX_STRATEGIES 4096
#define HSP_DEVICE_END     (1u << 20) /* numbers of devices; how many there are is bounded by plans */

struct hsp_strategy {
    struct hsp_plan *plan; /* compact; sequences are micro-batches */
    uint32_t *device;      /* [plan->n_ranks], ascending: the file's number of each rank's device */
    const char *cluster;   /* what the file says that it is for; NULL: nothing */
    const char *model;     /* likewise */
    bool rings_open;       /* several pipelines, and no word on which of them are rings */
};
struct hsp_strategies {
    uint32_t n;
    struct hsp_strategy *of;
};

/* @name appears in messages. HSP_EPARSE with file:line:column: not such a file, or one that breaks a
 * rule of its form, or asks for what plans cannot say; HSP_ENOMEM. */
enum hsp_status hsp_strategies_parse(const char *text, size_t len, const char *name,
                                     struct hsp_arena *arena, struct hsp_strategies *ret,
                                     struct hsp_err *err);

/* ---- parts of the reader (strategy.c, stratunion.c, stratring.c) ---- */

struct hsp_yaml;
struct hsp_rings {
    uint32_t n;      /* streams */
    uint32_t *size;  /* [n]: pipelines of each */
    uint32_t *first; /* [n]: the first of them */
    int64_t *share;  /* per pipeline: the length of its range of the sequence */
};
struct hsp_device_groups {
    uint32_t k;
    uint32_t *n;       /* [k] */
    uint32_t **device; /* [k][n] */
};

/* The expanded form, with numbers of devices where ranks will be. */
enum hsp_status hsp_strategy_expanded(const struct hsp_yaml *y, struct hsp_arena *arena,
                                      struct hsp_plan *ret, struct hsp_err *err);
/* A list of numbers below @end, @ret_n of them. */
enum hsp_status hsp_strategy_numbers(const struct hsp_yaml *y, uint32_t end,
                                     struct hsp_arena *arena, uint32_t **ret, uint32_t *ret_n,
                                     struct hsp_err *err);
/* CP_LIST and SEQ_LEN_LIST of @y. HSP_EPARSE: not those of so many pipelines; HSP_ENOMEM. */
enum hsp_status hsp_strategy_rings(const struct hsp_yaml *y, uint32_t pipelines,
                                   struct hsp_arena *arena, struct hsp_rings *ret,
                                   struct hsp_err *err);
/* Puts copies of @g into the stage @s, whose layers and saved are
 * kept: even shares inside of groups, @shares (one a group) of the sequence between them. */
enum hsp_status hsp_strategy_stage(struct hsp_stage *s, const struct hsp_device_groups *g,
                                   const int64_t *shares, struct hsp_arena *arena,
                                   struct hsp_err *err);

#endif
