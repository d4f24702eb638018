/* Reports the phases and the steps of an epoch to hspmdd, so that hspmdd knows each step whose vote
 * has passed, even if rank 0 dies.
 *
 * Role:    rank 0 reports each step. Its *heir*, the first rank or replica holder on another node,
 *          keeps the newest HSP_EPOCH_SAID steps and reports them again when the epoch breaks. If
 *          both rank 0 and its heir have died, or their agents, rank 0 of the next epoch reports
 *          the steps that members have noted in their files (step_share.h).
 */
#ifndef HSP_EPOCH_REPORT_H
#define HSP_EPOCH_REPORT_H
#include "worker/executor/epoch.h"

/* Called when the vote @v of a step has passed with the records @all of the @n ranks: rank 0
 * reports the step, and rank 0 and its heir keep the step for later reports. A report that cannot
 * be sent is logged. @sequence: in a pool the tokens per sequence of the plan that ran the step,
 * else 0. */
void hsp_epoch_report_step(struct hsp_ex_epoch *e, const struct hsp_vote *v,
                           const struct hsp_vote_record *all, uint32_t n, double seconds,
                           uint32_t sequence);
/* Called on every rank when the epoch broke: the heir reports the newest steps again, because rank
 * 0 or its agent may have died before a report was sent. Other ranks report nothing. */
void hsp_epoch_say_again(struct hsp_ex_epoch *e);
/* Called at rank 0: reports step @s, which epoch @epoch has made. */
void hsp_epoch_say_noted(const struct hsp_ex_epoch *e, uint64_t epoch,
                         const struct hsp_said_step *s);
/* Sends the newest step from rank 0 to each replica holder over @channel of the state mesh, before
 * the copies of a version; called by all of them. The holder notes the step. If PREPARE does not
 * ask for shared notes, rank 0 sends the step only to its heir, and only if the heir is a replica
 * holder. Returns errors of the mesh. */
enum hsp_status hsp_epoch_share_step(struct hsp_ex_epoch *e, uint32_t channel, struct hsp_err *err);
/* Called at rank 0 where not every version is due: sends the steps that were not sent before to the
 * replica holders, in messages of HSP_EPOCH_SAID steps. The last message says that the copies of
 * @version follow, or that no copies follow (HSP_NO_VERSION). Returns errors of the mesh. */
enum hsp_status hsp_epoch_share_steps(struct hsp_ex_epoch *e, uint32_t channel, uint64_t version,
                                      struct hsp_err *err);
/* Called at a replica holder: receives one message of hsp_epoch_share_steps and notes its steps.
 * *ret_version: the version whose copies follow, or HSP_NO_VERSION. Returns HSP_EPROTO if the
 * message is wrong, and errors of the mesh. */
enum hsp_status hsp_epoch_take_steps(struct hsp_ex_epoch *e, uint32_t channel,
                                     uint64_t *ret_version, struct hsp_err *err);

/* Sends @m under the number of this epoch; a failure is logged. */
void hsp_epoch_send_msg(struct hsp_ex_epoch *e, struct hsp_msg *m);
/* Sends READY to the agent, once for each PREPARE of this epoch that has come. */
void hsp_epoch_tell_ready(struct hsp_ex_epoch *e);
/* Sends STARTED when all of the state of @version has arrived: sources may close their connections
 * from now on. */
void hsp_epoch_tell_started(struct hsp_ex_epoch *e, uint64_t version);
/* Sends PEER_LOST, or JOB_FAILED if no other attempt can help, or CKPT_REFUSED if the checkpoint of
 * PREPARE is of no use; at most once per epoch. @err is the reason if no peer was lost. Sends
 * nothing if the epoch was cancelled. */
void hsp_epoch_tell_broken(struct hsp_ex_epoch *e, enum hsp_status st, const struct hsp_err *err,
                           bool before_start);

#endif
