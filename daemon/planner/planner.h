/* Spreads a job over unequal devices: the planner.
 *
 * Role:        hspmdd calls it at every change of members, hspmdctl for dry runs.
 * Purity:      pure and deterministic (decision D13): equal input gives an equal plan, byte for
 *              byte. Ties go to the structure named first in candidates.h.
 * Ownership:   the result lives in the arena given.
 * Bounds:      a bounded list of structures is tried: data parallel over the fastest k devices,
 *              tensor groups inside nodes, one pipeline, and several pipelines of groups.
 */
#ifndef HSP_PLANNER_H
#define HSP_PLANNER_H

#include <stdatomic.h>

#include "daemon/planner/cost.h"

#define HSP_MAX_REJECTED 3
/* Sequences in a micro-batch at most: activations of more than that leave the caches, and a GEMM
 * gains nothing from more rows. */
#define HSP_MICRO_CAP 8

struct hsp_plan_options {
    const bool *excluded;    /* by device of the cluster, or NULL: none */
    uint32_t max_devices;    /* 0: no bound */
    uint32_t copies;         /* recovery.copies of the job, <= HSP_COPIES_MAX; 0: 1 */
    struct hsp_due_rule due; /* recovery of the job; zeroed: each version */
    bool no_zero;            /* never cut master and optimizer state over the pipelines */
    uint32_t micro_cap;      /* 0: HSP_MICRO_CAP */
    /* Of a pool's plan for the longest sequences: rank r is on device r. NULL: state is where the
     * plan has it. */
    const struct hsp_cost *homes;
    const atomic_bool *cancel; /* or NULL */
};

struct hsp_rejected {
    const char *what; /* "pipeline of 3 stages" */
    const char *why;  /* "12 % slower: 113.0 ms" or "needs 3.1 GiB on w4/0, which offers 1.0 GiB" */
    double step_us;   /* 0: does not fit */
};

struct hsp_planned {
    struct hsp_plan *plan; /* with predicted_step_us, memory_bytes and why filled in */
    uint32_t *device;      /* by rank: device of the cluster */
    struct hsp_cost cost;
    uint32_t n_rejected;
    struct hsp_rejected rejected[HSP_MAX_REJECTED];
};

/* A plan file of `annotations:`, read by the holder of the files. */
struct hsp_plan_text {
    const char *name; /* for messages */
    const char *text;
    size_t len;
};

/* Makes the best plan for the whole cluster, for one length of sequences. Recomputation is tried
 * when nothing fits without it. @opts may be NULL. HSP_ENODEV, HSP_EINFEASIBLE, HSP_ECANCELED,
 * HSP_ENOMEM. */
enum hsp_status hsp_make_one(const struct hsp_graph *g, const struct hsp_train_spec *t,
                             const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                             struct hsp_arena *arena, struct hsp_planned *ret, struct hsp_err *err);
/* Prices the hand-written @plan, whose rank r runs on the r-th usable device, and fills in its
 * prediction. HSP_ENODEV: more ranks than devices; HSP_EINFEASIBLE: a rank does not fit. */
enum hsp_status hsp_adopt_one(const struct hsp_graph *g, const struct hsp_train_spec *t,
                              const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                              struct hsp_plan *plan, struct hsp_arena *arena,
                              struct hsp_planned *ret, struct hsp_err *err);

#endif
