/* Makes all ranks of a job train on the same text: nodes with another file, or none, take no
 * part.
 *
 * Every rank says in READY the length of its file, and its digest. Example: nodes a and b have one
 * digest, node c another; c is refused and the job is planned on a and b. Once a job has begun, its
 * first text is the right one, also after a resume. A refusal is forgotten after a pause that
 * doubles, and when the node joins anew, so that a file copied later is found. Refusals count as no
 * failed attempt: each takes a node away, so they come to an end. */
#ifndef HSP_JOB_DATA_H
#define HSP_JOB_DATA_H
#include "daemon/cluster/cluster_state.h"

/* True when all ranks of the attempt, which are ready, have one text. Else nodes with another
 * text are refused and the attempt is over. */
bool hsp_ci_data_agrees(struct hsp_cluster *c, struct hsp_job *j);
/* Refuses the node of @d for @j. Does nothing when the node is refused already.
 *
 * @kind     HSP_FACT_NO_DATA or HSP_FACT_DATA_DIFFERS.
 * @why      for the reason of the job, and its event.
 * @figures  further facts of the two files for LEFT OUT and the event; NULL: @why says all. */
void hsp_ci_data_refuse(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d, uint32_t kind,
                        const char *why, const char *figures);
/* ": why; and N more; it is tried again by itself within 30 s" of the refused nodes, or "". */
const char *hsp_ci_data_why(struct hsp_cluster *c, const struct hsp_job *j);
/* Forgets the refusal of @node and the facts about its data. */
void hsp_ci_data_forget(struct hsp_job *j, uint32_t node);
/* Forgets all refusals when their pause is over. */
void hsp_ci_data_advance(struct hsp_cluster *c, struct hsp_job *j);

#endif
