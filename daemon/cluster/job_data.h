/* @@SENTENCE@@ job_data: purpose to be written. */
#ifndef HSP_JOB_DATA_H
#define HSP_JOB_DATA_H
#include "daemon/cluster/cluster_state.h"

/* @kind: HSP_FACT_NO_DATA or HSP_FACT_DATA_DIFFERS. Nothing when the node is refused already. */
void hsp_ci_data_refuse(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d, uint32_t kind,
                        const char *why);
void hsp_ci_data_forget(struct hsp_job *j, uint32_t node);
void hsp_ci_data_advance(struct hsp_cluster *c, struct hsp_job *j);
/* ": why; and N more", or "". */
const char *hsp_ci_data_why(struct hsp_cluster *c, const struct hsp_job *j);
/* All ranks of the attempt are ready: have they one text? False: those that differ are refused and
 * the attempt is over. */
bool hsp_ci_data_agrees(struct hsp_cluster *c, struct hsp_job *j);

#endif
