/* Says in one line the losses that the state of a priced plan outlasts, and the cost of the others
 * in steps.
 *
 * Example: a pipeline over a and b with recovery.copies 2 has "each part of the state is on 2
 * nodes, as copies that ranks keep for each other; the loss of one of them costs the step under
 * way, of more all steps: checkpoint.every_steps is 0". With recovery.every 4 the loss of one
 *          costs up to 7 steps and the one under way.
 * Role:   `hspmdctl plan`, also of a running cluster; of a job that runs hsp_durability_again.
 * Purity: pure. */
#ifndef HSP_DURABILITY_H
#define HSP_DURABILITY_H
#include "daemon/planner/cost.h"
#include "daemon/planner/job_file.h"

#define HSP_DURABILITY_BYTES 512

/* By recovery and checkpoint.every_steps of @job. */
void hsp_durability_text(const struct hsp_cost *c, const struct hsp_job_spec *job,
                         char ret[HSP_DURABILITY_BYTES]);
/* The cost of a loss that leaves each part of the state somewhere: back to the newest version that
 * was due, or the one before while its copies are made. @live: survivors seal the version that they
 * compute with, mostly (worker/executor/epoch_live.h). @cap: HSP_DURABILITY_BYTES will do. */
void hsp_durability_again(const struct hsp_job_spec *job, bool live, char *ret, size_t cap);
/* The bytes of all ranks in state folders. *ret_rank: one of the node that has most. */
int64_t hsp_durability_bytes(const struct hsp_cost *c, uint32_t *ret_rank);

#endif
