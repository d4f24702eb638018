/* Keeps the facts of an epoch that is over by which later messages about it are checked.
 *
 * Of an epoch that may have made steps: the nodes of rank 0 and of its successor, of the last
 * HSP_JOB_PAST ones of a job. These nodes are stored with the job. Of an attempt that was dropped:
 * its peers, until the next one is dropped.
 *
 * The successor is the first member or replica holder on another node than rank 0. The successor
 * repeats the last steps when rank 0 is lost. Example: rank 0 on n1 says STEP 7 and dies before
 * hspmdd hears it; n2 says STEP 7 again, then PEER_LOST. */
#ifndef HSP_PAST_EPOCHS_H
#define HSP_PAST_EPOCHS_H
#include "daemon/cluster/cluster_state.h"

/* @e, the current epoch or the attempt of @j, is over: keeps the facts named above and frees it. */
void hsp_ci_epoch_over(struct hsp_job *j, struct hsp_cl_epoch *e);
/* The nodes that may tell of the steps of @epoch, which runs, is past GO or is over. False: not
 * known. */
bool hsp_ci_tellers(const struct hsp_job *j, uint64_t epoch, struct hsp_past_epoch *ret);

#endif
