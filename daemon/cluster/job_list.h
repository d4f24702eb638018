/* Keeps the jobs in the order of their numbers: adds one, forgets one that has ended.
 *
 * Bounds: HSP_MAX_JOBS. The next one takes the place of the oldest that has ended and holds no
 *         device. */
#ifndef HSP_JOB_LIST_H
#define HSP_JOB_LIST_H
#include "daemon/cluster/cluster_state.h"

/* Takes a number for a new job: no job, none that has ended and none that a parked agent of this
 * cluster keeps has it. The number is used from here on. */
uint32_t hsp_ci_job_number(struct hsp_cluster *c);
/* Another coordinator has given number @id: it is not given here, nor are those behind it, @more in
 * all. Numbers from HSP_JOBS_FOLLOWED on are no coordinator's: they are passed over one by one, as
 * those that are on record. */
void hsp_ci_job_number_seen(struct hsp_cluster *c, uint32_t id, uint32_t more);
/* A job with number @id, which no job has, zeroed but for that. NULL: no room, or (c->failed) no
 * memory. */
struct hsp_job *hsp_ci_job_add(struct hsp_cluster *c, uint32_t id);
/* The same, but no job is forgotten to make room. */
struct hsp_job *hsp_ci_job_insert(struct hsp_cluster *c, uint32_t id);
/* Forgets @j, which has ended, or is not on record (unrecorded): its row goes; that it has ended,
 * and from which cluster it was adopted, stays known. */
void hsp_ci_job_forget(struct hsp_cluster *c, struct hsp_job *j);
/* NULL allowed. */
void hsp_ci_job_free(struct hsp_job *j);

#endif
