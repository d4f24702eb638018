/* Describes plans: the way in which one job is spread over its ranks (decision D6).
 *
 * Compact form: pipelines, stages, shares, zero and home rules, as a person or the planner decides.
 * Total form: the compact form with its open points filled (total_plan.h): sizes of micro-batches,
 * saved tensors, homes, the layout of every use, every Reshard with its moves. Each of these
 * sections may be left out; a section that is there must agree with the compiler, or the plan is
 * refused by name of the place. Homes are obeyed: the rest follows from them. YAML (files of
 * `annotations:`, output of `hspmdctl plan -o yaml`; unknown keys are errors):
 *
 *   apiVersion: hspmd/v1
 *   kind: plan
 *   ranks: 6                    # devices, numbered 0..5; which devices is the epoch's business
 *   zero: 1                     # 0 | 1 | 3: 1: master, m, v cut over all holders of a parameter;
 *                               # 3: the copies for computing and the sums of gradients, too
 *   zero_pattern: contiguous    # contiguous | interleaved: inside of tensor-parallel cuts
 *   bucket: 1048576             # bytes: collectives over the same ranks, right behind each other,
 *                               # travel as one until they are that many, and sums of gradients
 *                               # begin in the last backward; 0: each by itself. A plan for known
 *                               # devices states what their links are worth
 *   pipelines:
 *     - sequences: 10           # of the global batch (weights if they do not add up to it)
 *       micro_batches: 5
 *       sizes: [2, 2, 2, 2, 2]  # total form only: sequences of each micro-batch
 *       schedule: 1f1b          # 1f1b | gpipe | interleaved | zero_bubble (pipeline_order.h)
 *       chunks: 1               # interleaved: number of chunks (virtual stages) of each stage. A
 *                               # chunk is a run of consecutive blocks. The first blocks are in
 *                               # the first chunks of all stages, in order, the next blocks in the
 *                               # second chunks; layers lists the blocks of each chunk: [2, 1]
 *       stages:                 # layers: transformer blocks (the first stage has the embedding,
 *                               # the last the head)
 *         - {layers: 3, ranks: [0, 1], tensor: [2, 1], saved: keep}
 *         - {layers: 1, ranks: [2], saved: recompute}  # keep | recompute | offload, in
 *                               # the compact form as well
 *     - sequences: 6
 *       micro_batches: 3
 *       stages:
 *         - layers: 4
 *           split: sequence     # sequence | batch: which dim of activations the groups cut
 *           shares: [3, 1]      # of the groups, default even; 0 is allowed
 *           balance: length     # length | work: shares of a sequence are shares of this. Total
 *                               # form: length, with the shares in lengths
 *           groups: [{ranks: [3, 4], tensor: [2, 1]}, {ranks: [5]}]
 *           sequence_parallel: true   # inside a group, inputs and results of its matrix products
 *                               # are cut along the sequence by its tensor shares
 *   parameters:                 # compact form: homes by name (* any text, ? any character), the
 *                               # first rule that fits; annot.h form
 *     - {name: "h.*.mlp.fc.weight", home: {split: 0, shares: [1, 1], of: [0, 3]}}
 *   homes:                      # total form: one per parameter; [0-2] is each of these numbers
 *     - {name: "h.[0-2].attn.q.weight", home: {split: 0, cuts: [0, 32, 64], of: [0, 3]}}
 *   uses:                       # total form: ops with an operand or result that is not whole
 *     - pipeline: 0
 *       stage: 0
 *       layouts:
 *         L1: {split: 0, cuts: [0, 43, 64], of: [0, 1]}
 *         L2: {split: 2, cuts: [0, 43, 64], of: [0, 1]}
 *       ops:                    # makes: the op's first result; cut: its axes that are cut
 *         - {op: linear, makes: "h.[0-2].attn.q.product", cut: "n", in: [whole, L1], out: [L2]}
 *   reshards:                   # total form: gives, gets: bytes of each rank, or one number for
 *                               # all; Forward and Backward: of the largest micro-batch, Eval
 *                               # repeats Forward
 *     - {phase: forward, pipeline: 0, stage: 0, makes: "h.[0-2].attn.proj.product#sum",
 *        before: "h.[0-2].attn.proj", moves: [{kind: all_reduce, ranks: [0, 1], gives: 512,
 *        gets: 512}], method: all_reduce, us: 41.2}   # explanation: its name and its time
 *
 * Instead of `pipelines` a plan may state how parameters are used; the compiler then finds the
 * pipelines (infer_pipelines.h). Before they are found, the plan is dumped as it is written:
 *
 *   annotations:                # the first line that fits a name counts; * and ? as above, [0-2]
 *                               # is each of these numbers. Parameters without a line are open
 *     - {name: "h.[0-2].*.weight", use: {dup: [{split: 0, shares: [2, 1], of: [0, 1]}, 3]}}
 *   batches:                    # one for each pipeline: of the first copy, of the second and so
 *   on;
 *                               # keys of a pipeline. Of its stages, if at all: saved, split,
 *                               shares, # balance, sequence_parallel
 *     - {sequences: 10, micro_batches: 5, stages: [{saved: recompute}, {}]}
 *
 * A pool is a list of plans, each for sequences of another length. A step is run by the plan with
 * the shortest sequences that hold its longest document (proto/program/pool.h):
 *
 *   apiVersion: hspmd/v1
 *   kind: pool
 *   plans:                      # ascending; the last max_length is model.sequence
 *     - {max_length: 512, plan: {ranks: 4, pipelines: [...]}}
 *     - max_length: 2048
 *       plan: {...}             # any plan, of the same ranks
 *
 * All plans of a pool have the homes of the last one; other homes are refused.
 *
 * Purity:    pure.
 * Ownership: everything in the arena given.
 */
#ifndef HSP_PLAN_H
#define HSP_PLAN_H
#include "daemon/graph/graph.h"
#include "proto/layout/annot.h"

#define HSP_MAX_PIPELINES 256
#define HSP_MAX_STAGES    256
#define HSP_MAX_MICRO     4096       /* micro-batches of one pipeline */
#define HSP_MAX_RULES     4096       /* home rules */
#define HSP_MAX_CHUNKS    32         /* of a stage: a segment each of Forward, Backward, Eval */
#define HSP_MAX_SHARE     1000000000 /* weight of a share: sums stay far below 2^63 */
#define HSP_MAX_BUCKET    (UINT64_C(64) << 20) /* bytes: its memory is beside that of the model */
#define HSP_MAX_ENTRIES   (1u << 17)           /* entries of one section of the total form */

enum hsp_schedule {
    HSP_SCHED_1F1B,
    HSP_SCHED_GPIPE,
    HSP_SCHED_INTERLEAVED, /* 1F1B over chunks */
    HSP_SCHED_ZERO_BUBBLE  /* ZB-H1: gradients of weights fill the gaps of 1F1B */
};
#define HSP_N_SCHEDULES 4

/* Fate of tensors that backward reads again: they stay, or each layer of the stage computes its own
 * again from its inputs, or they wait in host memory. Open means keep. */
enum hsp_saved {
    HSP_SAVED_OPEN,
    HSP_SAVED_KEEP,
    HSP_SAVED_RECOMPUTE,
    HSP_SAVED_OFFLOAD /* to host memory */
};

/* The dim of activations that the groups of a stage cut. */
enum hsp_split { HSP_SPLIT_NONE, HSP_SPLIT_SEQUENCE, HSP_SPLIT_BATCH };

/* Tensors that are cut over the holders of a parameter: none; master, m, v; also the copy that is
 * computed with (gathered for each use) and the gradient's accumulator. */
enum hsp_zero { HSP_ZERO_NONE = 0, HSP_ZERO_STATE = 1, HSP_ZERO_PARAMETERS = 3 };

/* How zero cuts parameters that tensor parallelism cuts: in one range per rank, or each rank's use
 * once more over the groups that use the parameter (zero_interleaved.h). */
enum hsp_zero_pattern { HSP_ZERO_CONTIGUOUS, HSP_ZERO_INTERLEAVED };

struct hsp_stage {
    uint32_t layers;        /* blocks of this stage */
    uint32_t *chunk_layers; /* blocks of each chunk, together layers; NULL: one chunk */
    uint32_t n;             /* ranks, >= 1: its tensor-parallel groups, one after another */
    uint32_t *ranks;
    int64_t *shares; /* n integer weights of the tensor split, each group by itself */
    uint8_t saved;
    uint8_t split;          /* enum hsp_split; NONE: one group */
    bool sequence_parallel; /* activations between matrix products are cut inside of a group */
    uint32_t n_groups;      /* 0 and 1: all members are one group */
    uint32_t *first;        /* n_groups: first member of each; only with several */
    int64_t *group_shares;  /* n_groups integer weights of the split; likewise */
    bool by_work;           /* shares are of the work, not of the length (sequence_balance.h) */
};
struct hsp_pipeline {
    uint32_t sequences; /* of the global batch, >= 1 */
    uint32_t micro_batches;
    uint32_t *sizes; /* sequences per micro-batch; NULL: open */
    uint8_t schedule;
    uint32_t chunks; /* of every stage; 0 is 1 */
    uint32_t n_stages;
    struct hsp_stage *stages;
};

static inline uint32_t hsp_pipeline_chunks(const struct hsp_pipeline *s)
{
    return s->chunks > 1 ? s->chunks : 1;
}

static inline uint32_t hsp_chunk_layers(const struct hsp_stage *s, uint32_t chunk)
{
    return s->chunk_layers != NULL ? s->chunk_layers[chunk] : s->layers;
}

struct hsp_home_rule {
    const char *pattern; /* homes: a name with an optional range (name_range.h) */
    struct hsp_annot *home;
};

/* How the parameters of these names are used, by all pipelines. */
struct hsp_use_rule {
    const char *pattern; /* with * and ?, and a range (name_range.h) */
    struct hsp_annot *use;
};

/* ---- total form ---- */

struct hsp_named_layout {
    const char *name;
    struct hsp_annot *at; /* over the ranks of the stage */
};
struct hsp_op_use {
    uint8_t op;        /* enum hsp_op */
    const char *makes; /* first result (name_range.h) */
    const char *cut;   /* letters of the axes that are cut (op.h); "" when only sums pass through */
    uint8_t n_in, n_out;
    uint32_t in[HSP_MAX_IN], out[HSP_MAX_OUT]; /* 0: whole on all members; else 1 + layout */
};
struct hsp_stage_uses {
    uint32_t pipeline, stage;
    uint32_t n_layouts;
    struct hsp_named_layout *layout;
    uint32_t n_ops;
    struct hsp_op_use *op;
};

enum hsp_phase { HSP_PHASE_PRE, HSP_PHASE_FORWARD, HSP_PHASE_BACKWARD, HSP_PHASE_POST };

/* Copies of all ranks are one entry, point-to-point sends another; a collective is one per group.
 */
struct hsp_plan_move {
    uint8_t kind; /* enum hsp_move_kind */
    bool of_sums; /* of the result of an earlier move */
    uint32_t n;
    uint32_t *ranks;       /* n, ascending */
    int64_t *gives, *gets; /* n each: bytes the rank puts in, bytes it takes out */
};
struct hsp_plan_reshard {
    uint8_t phase; /* enum hsp_phase */
    /* where it is made and from which stage; HSP_NONE in Pre, Post */
    uint32_t pipeline, stage, from;
    const char *makes;  /* the version it makes (name_range.h) */
    const char *before; /* the step that needs it first; NULL in Pre, Post */
    uint32_t n_moves;
    struct hsp_plan_move *move;
    uint32_t n_zero;
    uint32_t *zero; /* ranks that receive cells without a holder, as zeros */
    /* explanation (reshard_kind.h), NULL and 0 when not known: its name and its time */
    const char *method;
    double us;
};

struct hsp_plan {
    uint32_t n_ranks;
    uint8_t zero, zero_pattern; /* enum hsp_zero, enum hsp_zero_pattern */
    bool states_bucket;         /* false: open */
    uint64_t bucket_bytes;      /* bytes at which a bucket of collectives is full; 0: no buckets */
    uint32_t n_pipelines;
    struct hsp_pipeline *pipelines;
    /* Above 0: layers and members of stages are still to be found from annotations. */
    uint32_t n_annotations;
    struct hsp_use_rule *annotations;
    uint32_t n_rules;
    struct hsp_home_rule *rules;
    uint32_t n_homes; /* 0: open */
    struct hsp_home_rule *homes;
    bool states_uses, states_reshards; /* false: open */
    uint32_t n_uses;
    struct hsp_stage_uses *uses;
    uint32_t n_reshards;
    struct hsp_plan_reshard *reshards;
    /* explanation (decision D14), 0 and NULL when not planned by us */
    double predicted_step_us;
    int64_t *memory_bytes; /* n_ranks: predicted per device, or NULL */
    const char *why;       /* one line a human reads */
    /* A pool: this is the plan for the longest sequences. `shorter` has the others, ascending, each
     * with n_shorter 0. */
    uint32_t max_length; /* tokens of its sequences; 0: model.sequence, outside of a pool */
    uint32_t n_shorter;
    struct hsp_plan **shorter;
};

/* Plan @k of the pool of @p, 0 <= k <= n_shorter, ascending; @p itself is the last. */
static inline const struct hsp_plan *hsp_pool_plan(const struct hsp_plan *p, uint32_t k)
{
    return k < p->n_shorter ? p->shorter[k] : p;
}

#endif
