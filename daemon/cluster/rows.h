/* @@SENTENCE@@ rows: purpose to be written. */
#ifndef HSP_ROWS_H
#define HSP_ROWS_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_store_term(struct hsp_cluster *c);
void hsp_ci_store_node(struct hsp_cluster *c, const struct hsp_cluster_node *n);
void hsp_ci_store_job(struct hsp_cluster *c, struct hsp_job *j);
/* Its row, when leases it names are given up: a restart would take them from who has them now. */
void hsp_ci_store_leases(struct hsp_cluster *c, struct hsp_job *j);
void hsp_ci_store_plan(struct hsp_cluster *c, const struct hsp_job *j,
                       const struct hsp_job_plan *p);
enum hsp_status hsp_ci_load_row(struct hsp_cluster *c, const struct hsp_cluster_row *row,
                                struct hsp_err *err);

#endif
