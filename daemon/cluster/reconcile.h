/* Compares the part of a HELLO about a job with the state here, and repairs each difference.
 *
 *   an epoch that is over still runs on a device   -> SEAL or STOP; a sealing job asks the node
 *                                                     too; no other job has the device before the
 *                                                     answer
 *   something is kept of a job that has ended      -> STOP to every device, listed or not
 *   an attempt that is over is prepared            -> DROP
 *   a member does not run its epoch any more       -> a loss of the job
 *   READY or STARTED was lost on the way           -> PREPARE again, or taken from the HELLO
 *   FINISHED was lost on the way                   -> the job is done
 *   the job is behind                              -> nothing; its devices are kept for it
 *
 * SEALED promises that no executor of the node writes any more. So the pieces that a HELLO
 * offers count at once only for devices that run nothing.
 *
 * Example: the job is PAUSED since rank 0's node a died. An agent says hello as a, without
 * proof, with the last epoch finished. The run counts only if node a still has the incarnation
 * that began the epoch: it has another one, so the job stays PAUSED. */
#ifndef HSP_RECONCILE_H
#define HSP_RECONCILE_H
#include "daemon/cluster/cluster_state.h"
#include "proto/wire/msg.h"

/* Reconciles @j with the words of HELLO @m of node @n about it. */
void hsp_ci_reconcile(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                      const struct hsp_m_hello *m);
/* Has all devices of @n end their work for jobs that have ended and delete the state of these, also
 * of forgotten ones.
 * @m: its HELLO, with all jobs that it names in `kept` (standing.h). */
void hsp_ci_end_over(struct hsp_cluster *c, struct hsp_cluster_node *n,
                     const struct hsp_m_hello *m);
/* @m, STOPPED or SEALED: devices that were told to end their work for its job are free. */
void hsp_ci_run_over(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m);
/* True when @device does something for @job. */
bool hsp_ci_hello_runs(const struct hsp_m_hello *m, uint32_t job, uint32_t device);

#endif
