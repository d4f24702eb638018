/* @@SENTENCE@@ finishing: purpose to be written. */
#ifndef HSP_FINISHING_H
#define HSP_FINISHING_H
#include "daemon/cluster/cluster_state.h"

/* @j is finishing, its final model cannot be written, and a node of it is to go. */
bool hsp_ci_moves(const struct hsp_cluster *c, const struct hsp_job *j);
/* It cannot go, and @why: its reason says what to do. */
void hsp_ci_finishing_stays(struct hsp_cluster *c, struct hsp_job *j, const char *why);
void hsp_ci_finishing_advance(struct hsp_cluster *c, struct hsp_job *j);

#endif
