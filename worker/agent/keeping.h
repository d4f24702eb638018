/* Remembers the owner of the state that the node keeps, and decides which orders a coordinator may
 * give about it (decision D19).
 *
 * Example: the node has prepared epoch 9 of job 4. A coordinator with an older store sends STOP of
 * job 4 up to epoch 3: it does not know epochs 4 to 9, so nothing is deleted.
 *
 * Purity:  pure.
 * Bounds:  HSP_MSG_KEPT jobs. While the node keeps state of more, no job outside of the list is
 *          deleted. */
#ifndef HSP_KEEPING_H
#define HSP_KEEPING_H
#include "worker/agent/agent_impl.h"

/* PREPARE @m has come: its job is kept from here on. NULL; or why it may not be prepared here. */
const char *hsp_ai_keep(struct hsp_agent *a, const struct hsp_msg *m);
/* Papers @m have come, before the PREPARE that they are for, or when their job has been adopted:
 * then the node's state of the job is the coordinator's from here on. NULL; or why they are not
 * kept. */
const char *hsp_ai_keep_papers(struct hsp_agent *a, const struct hsp_msg *m);
/* NULL: this node keeps state of @job of cluster @id; or why it is not that one. */
const char *hsp_ai_is_kept(struct hsp_agent *a, uint32_t job, struct hsp_digest id);
/* Returns true if no device uses @job, and the node keeps nothing of @job from an epoch above
 * @epoch. */
bool hsp_ai_may_tidy(struct hsp_agent *a, uint32_t job, uint64_t epoch);
/* Why the coordinator may not delete state of @job, of which it has given epochs up to @known.
 * NULL: it may. */
const char *hsp_ai_may_not_delete(struct hsp_agent *a, uint32_t job, uint64_t known);
/* Takes the result of a scan, and forgets jobs of which nothing is left. */
void hsp_ai_kept_scanned(struct hsp_agent *a, const struct hsp_agent_event *scanned);
/* The pieces of @scanned whose jobs are kept, in the arena of the step: those of more jobs than
 * HSP_MSG_KEPT are nobody's, and stay. NULL: no memory. *ret_n: as hsp_ai_offered. */
struct hsp_m_holding *hsp_ai_kept_holdings(struct hsp_agent *a,
                                           const struct hsp_agent_event *scanned, uint32_t *ret_n);
/* How many of @n pieces, the newest first, fit into a message; the log says when some do not. A
 * replica holder has at most 4096 owners, two versions of each, in two layouts while a job
 * switches: half of HSP_MSG_HOLDINGS. */
uint32_t hsp_ai_offered(struct hsp_agent *a, uint32_t n);
/* The whole list, in the arena of the step; a->n_kept entries. NULL: no memory. */
struct hsp_m_kept *hsp_ai_kept_list(struct hsp_agent *a);

#endif
