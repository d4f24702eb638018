/* Plans one job for the devices it may use: the question of a START_PLAN, and its answer.
 *
 * Role:      the loop thread takes the snapshot, a pool thread computes the answer.
 * Purity:    pure.
 * Threads:   a question belongs to one thread at a time; `cancel` may be set by another.
 * Order of choice: the first hand-written plan that needs no more than the usable devices and fits
 * their memory. If some have few enough ranks but none fits, the answer is HSP_EINFEASIBLE with the
 * sizes. If all need more devices, the planner makes the plan. A plan fits if the needs of its
 * compiled programs fit: a planner's plan that is larger than predicted is followed by the
 * planner's next one. Devices are sorted by name, so that rank r of a hand-written plan runs on the
 * same machine in whatever order the nodes joined. */
#ifndef HSP_PLAN_REQUEST_H
#define HSP_PLAN_REQUEST_H
#include "daemon/app/plans/job_record.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/planner/correct.h"

struct hsp_plan_question {
    struct hsp_arena *arena; /* owned: everything below, and scratch */
    uint32_t job;
    uint64_t ticket;
    bool urgent, current_usable;
    struct hsp_job_rec *rec;      /* counted */
    struct hsp_plan_rec *current; /* counted, or NULL */
    uint32_t copies, max_devices; /* max_devices 0: all of the cluster */
    size_t mem_cap;               /* of planning and of compiling */
    struct hsp_cluster_desc cluster;
    hsp_device_id *device; /* by device of cluster */
    bool *excluded;        /* by device of cluster: facts forbid it */
    atomic_bool cancel;
};

struct hsp_plan_answer {
    enum hsp_status status;
    bool keep;
    bool tight; /* some device has less room in its state folder than there might be state on it */
    char reason[240];
    struct hsp_plan_rec *plan;  /* counted, NULL unless a plan is to be used */
    struct hsp_planned planned; /* in the question's arena; plan NULL: none */
};

/* Describes devices of the core with their observed speeds (NULL: as profiled). */
enum hsp_status hsp_cluster_describe(const struct hsp_cluster *c, const hsp_device_id *devices,
                                     const double *speed, uint32_t n, struct hsp_arena *arena,
                                     struct hsp_cluster_desc *ret, hsp_device_id **ret_device,
                                     struct hsp_err *err);

/* A snapshot for @rec (a reference is taken; NULL: filled in later, before the work). HSP_ENOMEM,
 * HSP_ELIMIT. */
enum hsp_status hsp_plan_question_new(const struct hsp_cluster *c, struct hsp_job_rec *rec,
                                      const struct hsp_plan_request *r, size_t mem_cap,
                                      struct hsp_plan_question **ret, struct hsp_err *err);
struct hsp_plan_question *hsp_plan_question_free(struct hsp_plan_question *q); /* returns NULL */

/* The effect of facts: less memory on a device, or that it may not be used. */
void hsp_plan_facts(struct hsp_plan_question *q, const struct hsp_plan_fact *facts, uint32_t n);

/* Measurements of a device by steps of a job: the incarnation of its node, and the times of its
 * instructions. */
struct hsp_device_measured {
    hsp_device_id device;
    uint64_t incarnation;
    struct hsp_measured sums;
};
/* The question's devices as the @n measured ones say, those of @c that are still the same; @rate:
 * of its products. */
void hsp_plan_measured(struct hsp_plan_question *q, const struct hsp_cluster *c,
                       const struct hsp_device_measured *m, size_t n, enum hsp_rate rate);

/* The device of the question's cluster that @d is; cluster.n: none. */
uint32_t hsp_plan_find(const struct hsp_plan_question *q, hsp_device_id d);

#endif
