/* @@SENTENCE@@ suspend: purpose to be written. */
#ifndef HSP_SUSPEND_H
#define HSP_SUSPEND_H
#include "daemon/cluster/cluster_state.h"

/* Where @j begins when nothing of its state is held any more: its newest checkpoint, or the start. */
void hsp_ci_suspend_origin(struct hsp_job *j);
void hsp_ci_suspend_advance(struct hsp_cluster *c, struct hsp_job *j); /* asks for the checkpoint */
/* A checkpoint of @epoch is complete, or has failed; one that failed behind a switch says nothing, since the
 * epoch that runs was asked again. */
void hsp_ci_suspend_checkpointed(struct hsp_cluster *c, struct hsp_job *j, uint64_t epoch,
                                 const struct hsp_m_ckpt *k);
/* A newer checkpoint is on record: a job that nothing is held of begins there. */
void hsp_ci_suspend_recorded(struct hsp_cluster *c, struct hsp_job *j);

void hsp_ci_suspend(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j);

#endif
