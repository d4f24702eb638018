/* Decides which messages of a node about a job count, by the part that the node has in the job.
 *
 *   READY, PREPARE_FAILED, STARTED   a peer of that epoch, of its own device
 *   CKPT_REFUSED                     the same, of an attempt past GO
 *   PEER_LOST, JOB_FAILED            the same; a source until the first vote
 *   SEALED                           a node that was asked
 *   STEP                             the nodes of rank 0 and of its successor (past_epochs.h)
 *   CHECKPOINTED, FINISHED           the node of rank 0
 *   pieces of state                  the holder that the layout names
 *   runs that HELLO lists            a device that a kept layout or a lease names; finished: rank 0
 *
 * STOPPED and RELEASED answer a question to one device (epoch_messages.c).
 *
 * The numbers must be possible, too: no step above the last, no checkpoint of a later term.
 *
 * Steps and checkpoints may be told late, when their epoch or their job is over and the connection
 * was away. Everything else about an epoch that is over is ignored. */
#ifndef HSP_MAY_SAY_H
#define HSP_MAY_SAY_H
#include "daemon/cluster/cluster_state.h"

/* True when @n may say @m, which is about @j, and @m can be true. */
bool hsp_ci_may_say(const struct hsp_cluster *c, const struct hsp_job *j,
                    const struct hsp_cluster_node *n, const struct hsp_msg *m);
/* True when @n may have the piece @h of a layout of @j that is kept. */
bool hsp_ci_may_hold(const struct hsp_cluster *c, const struct hsp_job *j,
                     const struct hsp_cluster_node *n, const struct hsp_m_holding *h);
/* True when device @d may still run an epoch of @j: a lease names @d; or a kept layout names @d,
 * and the node of @d has proven to be the process that began with this layout, or its successor. */
bool hsp_ci_may_run(const struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id d);
/* True when a kept layout of @j, or a lease, names a device of @n, also where @n is another process
 * by now. */
bool hsp_ci_is_member(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_cluster_node *n);
/* The same; a layout counts only if @n has proven to be the process that began with it, or its
 * successor. */
bool hsp_ci_proven_member(const struct hsp_cluster *c, const struct hsp_job *j,
                          const struct hsp_cluster_node *n);
/* True when a kept layout of any job names an incarnation of @n from @from to @to. */
bool hsp_ci_named_as(const struct hsp_cluster *c, const struct hsp_cluster_node *n, uint64_t from,
                     uint64_t to);
/* Rank 0 of @epoch, which runs or is past GO, if @n is its node and still the process that began
 * the epoch; else NULL. Borrowed from @j. */
const struct hsp_epoch_peer *hsp_ci_first_of(const struct hsp_cluster *c, const struct hsp_job *j,
                                             const struct hsp_cluster_node *n, uint64_t epoch);

#endif
