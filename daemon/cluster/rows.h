/* Writes the durable state as rows, which row_load.c reads: "cluster", "ended", "adopted", "term",
 * "node/INDEX", "job/ID", "plan/JOB/PLAN".
 *
 * Rows are binary and little endian; each begins with the version of its form. Leases stand in
 * the row of the job. Held pieces are not stored: agents are asked for them. */
#ifndef HSP_ROWS_H
#define HSP_ROWS_H
#include "daemon/cluster/cluster_state.h"
#include "proto/wire/identity.h"

void hsp_ci_store_cluster(struct hsp_cluster *c); /* its id and generation, and that it is behind */
void hsp_ci_store_ended(struct hsp_cluster *c);   /* numbers of jobs that are over and forgotten */
/* numbers of jobs that were another cluster's */
void hsp_ci_store_adopted_ended(struct hsp_cluster *c);
void hsp_ci_store_term(struct hsp_cluster *c);
void hsp_ci_store_node(struct hsp_cluster *c, const struct hsp_cluster_node *n);
void hsp_ci_store_job(struct hsp_cluster *c, struct hsp_job *j);
/* Stores @j when its row names leases that were given up: a restart would take those devices
 * from the jobs that have them now. */
void hsp_ci_store_leases(struct hsp_cluster *c, struct hsp_job *j);
/* Does the same for all jobs. */
void hsp_ci_store_all_leases(struct hsp_cluster *c);
void hsp_ci_store_plan(struct hsp_cluster *c, const struct hsp_job *j,
                       const struct hsp_job_plan *p);

/* ---- the same rows, for the papers of a job (cluster_papers.h), in the arena of the step ---- */

/* Of node @index, with its name alone. */
struct hsp_cluster_row hsp_ci_name_row(struct hsp_cluster *c, uint32_t index);
/* Of @j without epochs and leases. */
struct hsp_cluster_row hsp_ci_terms_row(struct hsp_cluster *c, const struct hsp_job *j);
struct hsp_cluster_row hsp_ci_plan_row(struct hsp_cluster *c, const struct hsp_job *j,
                                       const struct hsp_job_plan *p);

#endif
