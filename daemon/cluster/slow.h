/* @@SENTENCE@@ slow: purpose to be written. */
#ifndef HSP_SLOW_H
#define HSP_SLOW_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_watch_begin(struct hsp_cluster *c, struct hsp_job *j); /* of the epoch that runs now */
void hsp_ci_watch_step(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_m_step *s);
/* After a restart: what its plan was made with is what is known of its devices. */
void hsp_ci_watch_restore(struct hsp_cluster *c, const struct hsp_job *j);

#endif
